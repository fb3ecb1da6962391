"""Bad input to every public constructor and function: one sentence with the value, no traces."""

import math

import numpy as np
import pytest

from helpers import assert_one_sentence
from noisette import LinearSVC, LogisticRegression, SGDClassifier, _validate
from noisette.core import accounting
from noisette.core.accounting import ACCOUNTANTS
from noisette.core.accounting.filters import FILTERS
from noisette.core.accounting.numerical.noise_pairs import GaussianPair
from noisette.core.accounting.numerical.sampled_pairs import PoissonReplace
from noisette.core.accounting.sums import (
    advanced_composition,
    kairouz_oh_viswanath,
    subsampled,
)
from noisette.core.adjacency import REPLACE_ONE, Adjacency
from noisette.core.bounded import Bounded, InKernel
from noisette.core.door import release
from noisette.core.guarantee import Guarantee
from noisette.core.ledger import Ledger
from noisette.core.mechanisms import (
    MECHANISMS,
    Exponential,
    Gaussian,
    Laplace,
    RandomizedResponse,
    SphericalLaplace,
)
from noisette.core.plans import Declared, Plan, Repeat, Run, Sampled
from noisette.core.plans.base import PLANS
from noisette.core.randomness import Randomness
from noisette.core.sampling import (
    SAMPLERS,
    Cyclic,
    Disjoint,
    PartialShuffle,
    Poisson,
    RandomAllocation,
    Shuffle,
    WithoutReplacement,
)
from noisette.errors import InvalidParameter
from noisette.fitting.losses import Huber, HuberHinge, Softmax, SoftplusHinge, Squared

NAN, INF = math.nan, math.inf
NO_NUMBER = [NAN, True, False, "1", None, 1j, [1.0], np.array([0.5, 0.5])]

# Every value that a validator must refuse, tried on the validator itself. A call site is tried with
# True, which is a number to Python only, and with the last value of its kind, which no validator of
# another kind refuses.
EPSILON = [0, 0.0, -1, -1e-300, -INF, *NO_NUMBER, INF]
NON_NEGATIVE = [-1, INF, *NO_NUMBER, -1e-300]
SCALE = EPSILON
POSITIVE_OR_INFINITE = [0.0, -1, -INF, *NO_NUMBER, 0]
DELTA = [-1e-300, -1, 1, 1.5, INF, *NO_NUMBER, 1.0]
FRACTION = [-1e-300, -1, 0, 1, 1.5, INF, *NO_NUMBER, 1.0]
RATE = [0, 0.0, -0.1, 2, INF, *NO_NUMBER, 1.0000001]
COUNT = [0, -1, 1.5, INF, *NO_NUMBER, 2.0]
SEED = [-1, INF, *NO_NUMBER, 1.5]
NAME = ["", "unknown", 3, True, None, ["sums"], NAN, "Gaussian "]
RELATION = ["", "replace one", 3, True, None, NAN, np.array([1.0, 2.0]), "REPLACE_ONE"]

DELTA_GIVEN = [v for v in DELTA if v is not None]
NAME_GIVEN = [v for v in NAME if v is not None]

VALIDATORS = {
    "real": (lambda v: _validate.real("x", v), NO_NUMBER),
    "boolean": (lambda v: _validate.boolean("x", v), [0, 1, None, "True", NAN, np.True_]),
    "positive": (lambda v: _validate.positive("x", v), SCALE),
    "positive_or_infinite": (
        lambda v: _validate.positive_or_infinite("x", v), POSITIVE_OR_INFINITE),
    "non_negative": (lambda v: _validate.non_negative("x", v), NON_NEGATIVE),
    "epsilon": (lambda v: _validate.epsilon(v), EPSILON),
    "delta": (lambda v: _validate.delta(v), DELTA),
    "delta_for": (lambda v: _validate.delta_for(v, None), DELTA),
    "fraction": (lambda v: _validate.fraction("x", v), FRACTION),
    "rate": (lambda v: _validate.rate("x", v), RATE),
    "integer": (lambda v: _validate.integer("x", v), COUNT),
    "integer from 0": (lambda v: _validate.integer("x", v, least=0), SEED),
    "choice": (lambda v: _validate.choice("x", v, ("sums", "gaussian")), NAME),
    "relation": (lambda v: Adjacency.of(v), RELATION),
}  # fmt: skip

LAPLACE = Run(Laplace(10.0), adjacency=REPLACE_ONE)


def stream():
    permit = Ledger(1e9).charge(Repeat(SphericalLaplace(1.0, 2), 5), label="x")
    return release(
        Bounded(InKernel(2), REPLACE_ONE, "CLIP", l2=1.0), permit, Randomness.from_seed(1)
    )


def fit(model):
    return model.fit(np.eye(4), [0, 1, 0, 1])


CALLS = {
    # mechanisms
    "Gaussian(z)": (lambda v: Gaussian(v), SCALE),
    "Laplace(z)": (lambda v: Laplace(v), SCALE),
    "SphericalLaplace(z)": (lambda v: SphericalLaplace(v, 3), SCALE),
    "SphericalLaplace(d)": (lambda v: SphericalLaplace(1.0, v), COUNT),
    "Exponential(eps)": (lambda v: Exponential(v), EPSILON),
    "RandomizedResponse(eps)": (lambda v: RandomizedResponse(v), EPSILON),
    "RandomizedResponse(k)": (lambda v: RandomizedResponse(1.0, v), [*COUNT, 1]),
    "Gaussian.calibrated(eps)": (lambda v: Gaussian.calibrated(v, 1e-6), EPSILON),
    "Gaussian.calibrated(delta)": (lambda v: Gaussian.calibrated(1.0, v), [*DELTA, 0, 0.0]),
    "Gaussian.calibrated(adj)": (lambda v: Gaussian.calibrated(1.0, 1e-6, v), RELATION),
    "Laplace.calibrated(eps)": (lambda v: Laplace.calibrated(v), EPSILON),
    "Laplace.calibrated(adj)": (lambda v: Laplace.calibrated(1.0, v), RELATION),
    "Spherical.calibrated(eps)": (lambda v: SphericalLaplace.calibrated(v, dimension=2), EPSILON),
    "Spherical.calibrated(delta)": (
        lambda v: SphericalLaplace.calibrated(1.0, v, dimension=2), DELTA),
    "Spherical.calibrated(d)": (lambda v: SphericalLaplace.calibrated(1.0, dimension=v), COUNT),
    # bounded values
    "Bounded(l2)": (
        lambda v: Bounded([0.0], REPLACE_ONE, "CLIP", l2=v), SCALE),
    "Bounded(contribution)": (
        lambda v: Bounded([0.0], REPLACE_ONE, "CLIP", contribution=v),
        SCALE),
    "Bounded(adjacency)": (lambda v: Bounded([0.0], v, "CLIP", l2=1.0), RELATION),
    "InKernel(d)": (
        lambda v: Bounded(InKernel(v), REPLACE_ONE, "CLIP", l2=1.0), COUNT),
    # samplers
    "Poisson(rate)": (lambda v: Poisson(v), RATE),
    "RandomAllocation": (lambda v: RandomAllocation(v), COUNT),
    "WithoutReplacement(b)": (lambda v: WithoutReplacement(v, 10), [*COUNT, 11]),
    "WithoutReplacement(n)": (lambda v: WithoutReplacement(1, v), COUNT),
    "PartialShuffle(used)": (lambda v: PartialShuffle(v, 10), [*COUNT, 10, 11]),
    "PartialShuffle(n)": (lambda v: PartialShuffle(1, v), [*COUNT, 1]),
    "PartialShuffle(b)": (lambda v: PartialShuffle(5, 10, v), [*COUNT, 6]),
    **{
        f"{kind.__name__}(batches)": (lambda v, k=kind: k(v), COUNT)
        for kind in (Disjoint, Cyclic, Shuffle)
    },
    **{
        f"{kind.__name__}(batch_size)": (lambda v, k=kind: k(3, v), COUNT)
        for kind in (Disjoint, Cyclic, Shuffle)
    },
    **{
        f"{kind.__name__}.of_size(b)": (lambda v, k=kind: k.of_size(10, v), [*COUNT, 11])
        for kind in (Disjoint, Cyclic, Shuffle)
    },
    "of_size(n)": (lambda v: Disjoint.of_size(v, 1), COUNT),
    "schedule(n)": (
        lambda v: list(Disjoint(1).schedule(v, Randomness.from_seed(1))), COUNT),
    # plans
    "Repeat(times)": (lambda v: Repeat(Laplace(1.0), v), COUNT),
    "Declared(eps)": (lambda v: Declared(v), NON_NEGATIVE),
    "Declared(delta)": (lambda v: Declared(1.0, v), DELTA),
    "plan.under": (lambda v: Run(Laplace(1.0)).under(v), RELATION),
    # accounting
    "accounting.epsilon(delta)": (lambda v: accounting.epsilon(LAPLACE, delta=v), DELTA),
    "accounting.delta(eps)": (lambda v: accounting.delta(LAPLACE, epsilon=v), NON_NEGATIVE),
    "accounting.epsilon(adj)": (
        lambda v: accounting.epsilon(Laplace(1.0), delta=0.0, adjacency=v), RELATION),
    **{
        f"{name}.epsilon(delta)": (lambda v, k=kind: k().epsilon(LAPLACE, delta=v), DELTA)
        for name, kind in ACCOUNTANTS.items()
    },
    **{
        f"{name}.delta(eps)": (lambda v, k=kind: k().delta(LAPLACE, epsilon=v), NON_NEGATIVE)
        for name, kind in ACCOUNTANTS.items()
    },
    "subsampled(eps)": (lambda v: subsampled(v, 0.1), NON_NEGATIVE),
    "subsampled(rate)": (lambda v: subsampled(1.0, v), RATE),
    "KOV(eps)": (lambda v: kairouz_oh_viswanath(v, 3, 1e-6), NON_NEGATIVE),
    "KOV(count)": (lambda v: kairouz_oh_viswanath(1.0, v, 1e-6), COUNT),
    "KOV(delta)": (lambda v: kairouz_oh_viswanath(1.0, 3, v), DELTA),
    # Was: advanced_composition checks nothing (nan for nan, "math domain error" for delta > 1).
    "advanced_composition(delta)": (
        lambda v: advanced_composition([(0.1, 9)], v), [1.5]),
    "advanced_composition(eps)": (
        lambda v: advanced_composition([(v, 9)], 1e-6), [-1.0]),
    **{f"{n} filter(eps)": (lambda v, k=k: k(v, 1e-6), EPSILON) for n, k in FILTERS.items()},
    **{f"{n} filter(delta)": (lambda v, k=k: k(1.0, v), DELTA) for n, k in FILTERS.items()},
    "pairs.Gaussian(mu)": (lambda v: GaussianPair(v), SCALE),
    "pairs.PoissonReplace(rate)": (lambda v: PoissonReplace(v, 1.0), RATE),
    # losses and estimators: HuberHinge(True) was taken, a text raised a TypeError of NumPy
    "HuberHinge": (lambda v: HuberHinge(v), SCALE),
    "Huber(threshold)": (lambda v: Huber(v, 1.0), SCALE),
    "Huber(target_bound)": (lambda v: Huber(1.0, v), SCALE),
    "SoftplusHinge": (lambda v: SoftplusHinge(v), SCALE),
    "Squared": (lambda v: Squared(v), SCALE),
    "Softmax": (lambda v: Softmax(v), [*COUNT, 1]),
    "SGDClassifier(radius)": (
        lambda v: fit(SGDClassifier(1.0, regularization=(1e-4, v), norm_bound=1.0)),
        [*POSITIVE_OR_INFINITE, "x"]),
    "SGDClassifier(regularization)": (
        lambda v: fit(SGDClassifier(1.0, regularization=v, norm_bound=1.0)), NON_NEGATIVE),
    "SGDClassifier(batch_size)": (
        lambda v: fit(SGDClassifier(1.0, batch_size=v, norm_bound=1.0)), [*COUNT, None]),
    # "x" was taken where nothing used it; an array raised NumPy's own error
    "SGDClassifier(learning_rate)": (
        lambda v: fit(SGDClassifier(1.0, learning_rate=("constant", v), norm_bound=1.0)),
        [*SCALE, "x"]),
    "SGDClassifier(learning_rate) alone": (
        lambda v: fit(SGDClassifier(1.0, learning_rate=v, norm_bound=1.0)), [*SCALE, "x"]),
    "SGDClassifier(learning_rate) by name": (
        lambda v: fit(SGDClassifier(1.0, learning_rate=(v, 1.0), norm_bound=1.0)),
        [*NAME, np.array([1.0, 2.0])]),
    "SGDClassifier.fit(verbose)": (
        lambda v: SGDClassifier(1.0, norm_bound=1.0).fit(np.eye(4), [0, 1, 0, 1], verbose=v),
        [*SEED, SEED[0]]),
    # the ledger and the guarantee
    "Ledger(eps)": (lambda v: Ledger(v), EPSILON),
    "Ledger(delta)": (lambda v: Ledger(1.0, v), DELTA),
    "Ledger(adjacency)": (lambda v: Ledger(1.0, adjacency=v), RELATION),
    "Ledger(rule)": (lambda v: Ledger(1.0, 1e-6, rule=v), NAME),
    "Guarantee(eps)": (
        lambda v: Guarantee(epsilon=v, delta=0.0, plan=LAPLACE, released="x"), NON_NEGATIVE),
    "Guarantee(delta)": (
        lambda v: Guarantee(epsilon=1.0, delta=v, plan=LAPLACE, released="x"), DELTA),
    "Guarantee.epsilon_at": (
        lambda v: Guarantee(1.0, 0.0, LAPLACE, "x").epsilon_at(v), DELTA),
    "Guarantee.delta_at": (
        lambda v: Guarantee(1.0, 0.0, LAPLACE, "x").delta_at(v), NON_NEGATIVE),
    # randomness and streams
    "Randomness.from_seed": (lambda v: Randomness.from_seed(v), SEED),
    "spawn(count)": (lambda v: Randomness.from_seed(1).spawn(v), COUNT),
    "stream.take": (lambda v: stream().take(v), COUNT),
}  # fmt: skip


def assert_refused(call, value):
    with pytest.raises(InvalidParameter) as caught:
        call(value)
    shown = "nan" if isinstance(value, float) and math.isnan(value) else repr(value)
    assert isinstance(caught.value, ValueError)
    assert_one_sentence(caught.value, shown)


@pytest.mark.parametrize("name", VALIDATORS)
def test_a_validator_refuses_every_bad_value_in_one_sentence_with_the_value(name):
    call, values = VALIDATORS[name]
    for value in values:
        assert_refused(call, value)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_refuses_a_bad_value_of_its_kind(name):
    call, values = CALLS[name]
    assert_refused(call, values[-1])
    if values[0] is not values[-1]:
        assert_refused(call, True)


@pytest.mark.parametrize(("field", "registry"), [("mechanism", MECHANISMS), ("sampler", SAMPLERS)])
def test_an_unknown_name_is_refused_with_all_known_names(field, registry):
    good = Sampled(Gaussian(1.0), Poisson(0.5)).to_dict()
    good[field]["name"] = "unknown"
    with pytest.raises(InvalidParameter) as caught:
        Plan.from_dict(good)
    assert_one_sentence(caught.value, "'unknown'", *(repr(name) for name in registry))
    with pytest.raises(InvalidParameter) as caught:
        Plan.from_dict({"plan": "unknown"})
    assert_one_sentence(caught.value, "'unknown'", *(repr(name) for name in PLANS))


@pytest.mark.parametrize("kind", [LinearSVC, LogisticRegression, SGDClassifier])
def test_a_plan_refuses_the_classes_that_a_fit_refuses(kind):
    # a plan took classes="x" and raised Python's own error for classes=2
    for classes in (2, "xy", [], [1], [1, 1], [[1, 2], [3]], [1, None], {1: 2, 3: 4}):
        model = kind(1.0, norm_bound=1.0, classes=classes)
        for call in (lambda m=model: m.plan(4, 4), lambda m=model: fit(m)):
            with pytest.raises(InvalidParameter, match="at least two labels, each of them once"):
                call()


def test_a_batch_larger_than_the_data_says_how_many_fit():
    for make in (
        lambda: WithoutReplacement(11, 10),
        lambda: Disjoint.of_size(10, 11),
        lambda: list(Disjoint(11).schedule(10, Randomness.from_seed(1))),
    ):
        with pytest.raises(InvalidParameter) as caught:
            make()
        assert_one_sentence(caught.value, "11", "10", "choose")


def test_no_bad_call_leaves_a_charge_or_a_file(tmp_path):
    """Bad values in every place of a charge or an opening: bytes and folder do not change."""
    ledger = Ledger.open(tmp_path / "ledger.db", 1.0, 1e-6)
    ledger.charge(Laplace(100.0), label="good")
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    calls = [
        (lambda v: ledger.charge(Laplace.calibrated(v), label="bad"), EPSILON),
        (lambda v: ledger.charge(Declared(1e-3, v), label="bad"), DELTA),
        (lambda v: ledger.charge(Laplace(100.0), label="bad", delta=v), DELTA_GIVEN),
        (lambda v: ledger.charge(Laplace(v), label="bad"), SCALE),
        (lambda v: ledger.charge(Repeat(Laplace(100.0), v), label="bad"), COUNT),
        (lambda v: Ledger.open(tmp_path / "other.db", v), [v for v in EPSILON if v is not None]),
        (lambda v: Ledger.open(tmp_path / "other.db", 1.0, v), DELTA_GIVEN),
        (lambda v: Ledger.open(tmp_path / "other.db", 1.0, rule=v), NAME_GIVEN),
    ]
    for call, values in calls:
        for value in values:
            with pytest.raises(InvalidParameter):
                call(value)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
    assert len(ledger.charges) == 1
