"""The door: what a permit allows, what `release` refuses, and that noise is exactly as counted."""

import copy
import math
import pickle
import threading

import numpy as np
import pytest
from permits import permit_for, source, vector

from helpers import RELATIONS, in_fork
from noisette.core import sampling, ziggurat
from noisette.core.adjacency import REPLACE_ONE, ZERO_OUT
from noisette.core.bounded import Bounded, InKernel
from noisette.core.door import NoiseStream, release
from noisette.core.ledger import Ledger
from noisette.core.mechanisms import (
    Exponential,
    Gaussian,
    Laplace,
    RandomizedResponse,
    SphericalLaplace,
)
from noisette.core.mechanisms.base import on_grid
from noisette.core.permit import Permit
from noisette.core.plans import Declared, Repeat, Sampled, Together
from noisette.core.randomness import Randomness
from noisette.errors import (
    AdjacencyMismatch,
    InvalidData,
    InvalidParameter,
    NoisetteError,
    PermitError,
    RandomnessError,
    Unproven,
)


def unlimited(plan) -> Permit:
    """A permit for noise so small that no ledger would allow it."""
    return Ledger(1e300).charge(plan, label="test")


# ---- the noise is exactly multiplier * C ----


@pytest.mark.parametrize("relation", RELATIONS, ids=str)
@pytest.mark.parametrize(
    "mechanism", [Gaussian(1.5), SphericalLaplace(0.7, 3), Laplace(2.0)], ids=repr
)
@pytest.mark.parametrize("by", ["contribution", "l2"])
def test_scale_is_multiplier_times_contribution_bound(relation, mechanism, by):
    """The same seeded generator draws the same numbers: no statistics needed."""
    d, bound = getattr(mechanism, "dimension", 1 if mechanism.name == "laplace" else 3), 0.4
    sensitivity = relation.contributions * bound
    stated = {"contribution": bound} if by == "contribution" else {"l2": sensitivity}
    permit = permit_for(mechanism, relation, delta=1e-6)
    out = release(vector(d, relation, **stated), permit, source())
    raw = mechanism.noise(1, d, bound, source().generator)[0]
    np.testing.assert_array_equal(out, on_grid(np.arange(float(d)) + raw, mechanism.grid(bound)))
    if mechanism.name == "gaussian":
        unit = source().generator.standard_normal((1, d))[0]
        np.testing.assert_allclose(raw, unit * 1.5 * 0.4, rtol=1e-15)
    stream = release(
        Bounded(InKernel(d), relation, "CLIP", **stated),
        permit_for(Repeat(mechanism, 5), relation, delta=1e-6),
        source(),
    )
    np.testing.assert_array_equal(stream.take(1)[0], raw)
    assert stream.grid == mechanism.grid(bound)


def test_pure_epsilon_is_sensitivity_over_scale():
    for relation in RELATIONS:
        permit = permit_for(SphericalLaplace(2.0, 3), relation)
        assert permit.epsilon == relation.contributions / 2.0
        assert permit.delta == 0.0


def test_long_vectors_in_pieces_have_the_noise_of_one_draw():
    n = 2 * Gaussian.piece + 5
    plan, value = Gaussian(1.5), np.linspace(-1e3, 1e3, n)
    bounded = Bounded(value, REPLACE_ONE, "CLIP", contribution=0.4)
    noisy = release(bounded, permit_for(plan, delta=1e-5), source())
    noise = 1.5 * 0.4 * source().generator.standard_normal(n)
    assert np.array_equal(noisy, on_grid(value + noise, plan.grid(0.4)))


def test_single_precision_comes_back_as_the_rounded_double():
    n = Gaussian.piece + 5
    plan, value = Gaussian(1.5), np.linspace(-1e4, 1e4, n, dtype=np.float32)
    kept = value.copy()
    results = []
    for given in (value, value.astype(np.float64)):
        bounded = Bounded(given, REPLACE_ONE, "CLIP", contribution=0.4)
        results.append(release(bounded, permit_for(plan, delta=1e-5), source()))
    single, double = results
    assert single.dtype == np.float32
    assert np.array_equal(single, double.astype(np.float32))
    grid = plan.grid(0.4)
    assert np.array_equal(on_grid(single.astype(np.float64), grid), single)
    assert np.array_equal(value, kept)


def test_shape_survives():
    value = Bounded(np.ones((2, 3)), REPLACE_ONE, "CLIP", l2=1.0)
    assert release(value, permit_for(SphericalLaplace(1.0, 6)), source()).shape == (2, 3)
    number = Bounded(5.0, REPLACE_ONE, "CLIP", l2=1.0)
    assert release(number, permit_for(Laplace(1.0)), source()).shape == ()


@pytest.mark.parametrize(("z", "bound"), [(1e-200, 1e-200), (1e-160, 1e-160), (1e200, 1e200)])
def test_noise_outside_floating_point_is_refused_and_never_zero(z, bound):
    # Was: "math domain error", a grid of 0 (nan comes out) or OverflowError, after the booking.
    def draw():
        permit = permit_for(SphericalLaplace(z, 3)) if z > 1 else unlimited(SphericalLaplace(z, 3))
        release(vector(contribution=bound), permit, source())

    with pytest.raises(NoisetteError):
        draw()


# ---- refusals ----


def test_another_relation_is_refused_by_name_and_costs_no_draw():
    permit = permit_for(SphericalLaplace(1.0, 3))
    with pytest.raises(AdjacencyMismatch, match=r"zero-out.*replace-one"):
        release(vector(relation=ZERO_OUT), permit, source())
    assert permit.draws_left() == 1


@pytest.mark.parametrize(
    ("mechanism", "value", "bound"),
    [
        (Gaussian(1.0), np.ones(3), {"l1": 1.0}),
        (Gaussian(1.0), np.ones(3), {"linf": 1.0}),
        (Gaussian(1.0), np.array([0, 1]), {"categories": 2}),
        (SphericalLaplace(1.0, 3), np.ones(3), {"linf": 1.0}),
        (Exponential(1.0), np.ones(3), {"l2": 1.0}),
        (Exponential(1.0), np.ones(3), {"contribution": 1.0}),
        (RandomizedResponse(1.0), np.ones(3), {"l2": 1.0}),
    ],
)
def test_another_norm_is_refused_by_name(mechanism, value, bound):
    permit = permit_for(mechanism, delta=1e-6)
    (name,) = bound
    with pytest.raises(PermitError, match="l2" if name == "contribution" else name):
        release(Bounded(value, REPLACE_ONE, "CLIP", **bound), permit, source())
    assert permit.draws_left() == 1


@pytest.mark.parametrize("mechanism", [SphericalLaplace(1.0, 3), Laplace(1.0)], ids=repr)
def test_another_dimension_is_refused_and_costs_no_draw(mechanism):
    permit = permit_for(mechanism)
    with pytest.raises((PermitError, Unproven), match="4"):
        release(vector(4), permit, source())
    # Was: the draw was booked before the dimension was looked at.
    assert permit.draws_left() == 1


@pytest.mark.parametrize(
    "sampler",
    [sampling.Poisson(0.1), sampling.WithoutReplacement(2, 10), sampling.RandomAllocation(4)],
    ids=repr,
)
def test_random_batches_need_a_bound_on_each_record(sampler):
    plan = Sampled(SphericalLaplace(1.0, 3), sampler)
    permit = permit_for(plan)
    left = permit.draws_left()
    with pytest.raises(PermitError, match="contribution"):
        release(vector(l2=2.0), permit, source())
    assert permit.draws_left() == left
    release(vector(), permit, source())


def test_what_was_charged_once_is_drawn_once():
    permit = permit_for(SphericalLaplace(1.0, 3))
    release(vector(), permit, source())
    with pytest.raises(PermitError, match="0 of those charged for 'test'"):
        release(vector(), permit, source())


def test_each_part_has_its_own_count():
    plan = Together(Repeat(SphericalLaplace(1.0, 3), 2), Laplace(1.0), Declared(0.1))
    permit = permit_for(plan)
    assert [permit.draws_left(part) for part in range(3)] == [2, 1, 0]
    release(vector(1), permit, source(), part=1)
    assert [permit.draws_left(part) for part in range(3)] == [2, 0, 0]
    with pytest.raises(PermitError, match="declared"):
        release(vector(), permit, source(), part=2)
    for nowhere in (-1, 3):
        with pytest.raises(PermitError, match="no part"):
            release(vector(), permit, source(), part=nowhere)


def test_a_dead_source_does_not_eat_a_draw():
    permit, dead = permit_for(SphericalLaplace(1.0, 3)), source()
    dead.to_worker()
    with pytest.raises(RandomnessError):
        release(vector(), permit, dead)
    assert permit.draws_left() == 1


@pytest.mark.parametrize("count", [0, -1, -1000])
def test_a_permit_cannot_be_refilled(count):
    # Was: Permit.take(part, -n) adds n draws.
    permit = permit_for(SphericalLaplace(1.0, 3))
    with pytest.raises(NoisetteError):
        permit.take(0, count, seeded=False, bound="CLIP")
    assert permit.draws_left() == 1


# ---- processes, threads, copies ----


def test_a_permit_is_refused_in_another_process():
    permit = permit_for(Repeat(SphericalLaplace(1.0, 3), 5))
    error = in_fork(lambda: release(vector(), permit, Randomness.secure()))
    assert isinstance(error, PermitError)
    assert "process" in str(error)
    stream = release(Bounded(InKernel(3), REPLACE_ONE, "CLIP", l2=1.0), permit, Randomness.secure())
    assert isinstance(in_fork(lambda: stream.take(1)), PermitError)
    assert permit.draws_left() == 5


@pytest.mark.parametrize("way", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_permit_cannot_be_copied(way):
    with pytest.raises(PermitError):
        way(permit_for(Laplace(1.0)))


def test_threads_never_take_more_than_was_charged():
    permit = permit_for(Repeat(SphericalLaplace(1.0, 2), 500))
    stream = release(Bounded(InKernel(2), REPLACE_ONE, "CLIP", l2=1.0), permit, Randomness.secure())
    got, barrier = [], threading.Barrier(16)

    def work():
        barrier.wait()
        for size in (1, 3, 7) * 30:
            try:
                got.append(len(stream.take(size)))
            except PermitError:
                continue

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(got) == 500
    assert permit.draws_left() == 0


# ---- streams ----


def test_a_stream_counts_every_block():
    permit = permit_for(Sampled(SphericalLaplace(1.0, 3), sampling.Disjoint(10)))
    stream = release(Bounded(InKernel(3), REPLACE_ONE, "CLIP", l2=1.0), permit, source())
    assert isinstance(stream, NoiseStream)
    assert permit.draws_left() == 10  # opening the stream draws nothing
    assert stream.take(4).shape == (4, 3)
    assert permit.draws_left() == 6
    assert [len(block) for block in stream.blocks(6, most=4)] == [4, 2]
    with pytest.raises(PermitError, match="0 of those"):
        stream.take(1)


def test_a_refused_block_draws_and_books_nothing():
    permit, randomness = permit_for(Repeat(SphericalLaplace(1.0, 3), 4)), source()
    stream = release(Bounded(InKernel(3), REPLACE_ONE, "CLIP", l2=1.0), permit, randomness)
    before = str(randomness.generator.bit_generator.state)
    for bad in (5, 0, -1, 1.5, True):
        with pytest.raises(NoisetteError):
            stream.take(bad)
    assert permit.draws_left() == 4
    assert str(randomness.generator.bit_generator.state) == before


def test_blocks_and_one_draw_are_the_same_law_and_lazy():
    permit = permit_for(Repeat(SphericalLaplace(1.0, 3), 10))
    stream = release(Bounded(InKernel(3), REPLACE_ONE, "CLIP", l2=1.0), permit, source())
    blocks = stream.blocks(10, most=5)
    assert permit.draws_left() == 10
    next(blocks)
    assert permit.draws_left() == 5


@pytest.mark.parametrize("mechanism", [Exponential(1.0), RandomizedResponse(1.0)], ids=repr)
def test_only_additive_noise_can_be_streamed(mechanism):
    bound = {"linf": 1.0} if mechanism.name == "exponential" else {"categories": 2}
    with pytest.raises(PermitError, match="streamed"):
        release(Bounded(InKernel(3), REPLACE_ONE, "CLIP", **bound), permit_for(mechanism), source())


def test_a_stream_of_another_dimension_is_refused():
    permit = permit_for(Repeat(SphericalLaplace(1.0, 3), 5))
    with pytest.raises(PermitError, match="3 dimensions"):
        release(Bounded(InKernel(4), REPLACE_ONE, "CLIP", l2=1.0), permit, source())
    assert permit.draws_left() == 5


# ---- bounded values ----


@pytest.mark.parametrize(
    "value", [[math.nan], [math.inf, 0.0], [], "abc", [[1.0], [1.0, 2.0]], [1 + 2j], [None]]
)
def test_bad_values_are_refused_without_quoting_them(value):
    with pytest.raises(InvalidData) as caught:
        Bounded(value, REPLACE_ONE, "CLIP", l2=1.0)
    assert str(caught.value).endswith(".")
    for piece in ("nan", "inf", "abc", "2.0", "2j"):
        assert piece not in str(caught.value)


@pytest.mark.parametrize("value", [[2], [-1], [0.5], ["a"], []])
def test_bad_categories_are_refused(value):
    with pytest.raises(InvalidData):
        Bounded(value, REPLACE_ONE, "CLIP", categories=2)


@pytest.mark.parametrize(
    "bound", [{}, {"l2": 1.0, "l1": 1.0}, {"l2": 1.0, "contribution": 1.0}, {"categories": 1}]
)
def test_exactly_one_bound(bound):
    with pytest.raises(InvalidParameter):
        Bounded([0.0], REPLACE_ONE, "CLIP", **bound)


def test_a_bound_needs_a_proof_and_never_shows_its_value():
    for proof in ("", None, 3, "TEST", "clip", ["CLIP"]):
        with pytest.raises(InvalidParameter, match="theorem"):
            Bounded([0.0], REPLACE_ONE, proof, l2=1.0)
    secret = Bounded([1234.5678], "replace-one", "CLIP", l2=1.0)
    assert "1234" not in repr(secret)
    permit = permit_for(Laplace(1.0))
    assert "1234" not in repr(permit)
    for relation in RELATIONS:
        contribution = Bounded([0.0], relation, "CLIP", contribution=3.0)
        assert contribution.l2 == 3.0 * relation.contributions


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("exponent", [-60, -24, 0, 30])
def test_the_compiled_sum_is_rounded_as_the_plain_one(dtype, exponent):
    grid, rng = 2.0**exponent, np.random.default_rng(0)
    noise = rng.normal(size=20_000) * grid * 2.0 ** rng.integers(-3, 60, 20_000)
    value = (rng.normal(size=20_000) * grid * 2.0**24).astype(dtype)
    noise[:9] = [0.5, -0.5, 1.5, 2.5, -0.25, -0.0, 0.0, 1e300, -1e300]
    noise[:7] *= grid  # ties go to the even neighbour, and a zero has no sign
    value[:9] = 0.0
    whole, plain = np.empty_like(value), noise + value
    with np.errstate(over="ignore"):
        wanted = on_grid(noise + value, grid).astype(dtype)
        ziggurat.add_on_grid(noise.copy(), value, grid, whole)
        on_grid(plain, grid, out=plain)
        assert whole.tobytes() == wanted.tobytes() == plain.astype(dtype).tobytes()
    assert not np.signbit(whole[whole == 0.0]).any()
