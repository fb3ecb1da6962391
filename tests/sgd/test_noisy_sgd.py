"""Many passes: what ran is what was charged, for every sampler; the last iterate's gates."""

import math

import numpy as np
import pytest
from iterative import Recorded, noisy_sgd

from noisette.core import accounting
from noisette.core.adjacency import ADD_REMOVE, REPLACE_ONE, ZERO_OUT
from noisette.core.ledger import Ledger
from noisette.core.plans import LastIterate
from noisette.core.randomness import Randomness
from noisette.core.sampling import SAMPLERS, FullBatch, PartialShuffle, Poisson
from noisette.core.sampling.base import PassSampler
from noisette.errors import InvalidParameter, PermitError, Unproven
from noisette.fitting.algorithms.levels import Levels, level_shares
from noisette.fitting.algorithms.noisy_sgd import make_sampler
from noisette.fitting.algorithms.steps import Update
from noisette.fitting.losses import Hinge, HuberHinge, Logistic, Softmax, SoftplusHinge

N, D, B, EPOCHS = 600, 4, 60, 3
CONSTANT = Update(loss=Logistic(), learning_rate="constant", eta0=0.5, regularization=1e-3)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((N, D))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, np.where(X[:, 0] > 0, 1.0, -1.0)


def run(rows, name, *, adjacency=REPLACE_ONE, update=CONSTANT, epsilon=2.0, delta=1e-5, **options):
    X, y = rows
    sampler, uses = make_sampler(name, N, B, options.pop("epochs", EPOCHS))
    recorded = Recorded()
    trained = noisy_sgd(
        X, y, update, Randomness.from_seed(3), sampler=sampler, uses=uses,
        ledger=Ledger(epsilon, delta, adjacency=adjacency), epsilon=epsilon, delta=delta,
        observer=recorded, **options,
    )  # fmt: skip
    return trained, recorded.batches, sampler, uses


@pytest.mark.parametrize("name", sorted(set(SAMPLERS) - {"disjoint", "random-allocation"}))
def test_what_ran_is_what_was_charged(rows, name) -> None:
    trained, record, sampler, uses = run(rows, name)
    plan = trained.permit.plan
    ((leaf, count),) = plan.leaves()
    assert leaf.sampler is sampler
    assert count == uses
    assert len(record) == plan.draws == uses * sampler.steps
    assert trained.permit.draws_left() == 0
    check_batches(record, sampler, uses)
    assert accounting.epsilon(plan, delta=1e-5, adjacency=REPLACE_ONE) <= 2.0
    assert trained.permit.guarantee("w").epsilon == 2.0


def test_what_ran_is_what_was_charged_for_random_allocation(rows) -> None:
    trained, record, _, _ = run(
        rows, "random-allocation", adjacency=ZERO_OUT, epochs=1, epsilon=4.0
    )
    assert len(record) == trained.permit.plan.draws == 10
    assert sorted(np.concatenate(record).tolist()) == list(range(N))
    assert len({len(batch) for batch in record}) > 1  # bins, not equal batches


def check_batches(record, sampler, uses) -> None:
    """The recorded batches have the law that the plan's theorem speaks of."""
    per_use = [record[k * sampler.steps : (k + 1) * sampler.steps] for k in range(uses)]
    everybody = list(range(N))
    if isinstance(sampler, PassSampler):
        assert all(sorted(np.concatenate(use).tolist()) == everybody for use in per_use)
        same = all(np.array_equal(a, b) for a, b in zip(per_use[0], per_use[1], strict=True))
        assert same == (sampler.name == "cyclic")
    elif isinstance(sampler, FullBatch):
        assert all(batch.tolist() == everybody for batch in record)
    elif isinstance(sampler, PartialShuffle):
        for use in per_use:
            used = np.concatenate(use)
            assert len(used) == len(set(used.tolist())) == sampler.used
    elif isinstance(sampler, Poisson):
        sizes = np.array([len(batch) for batch in record])
        mean, rate = N * sampler.rate, sampler.rate
        error = math.sqrt(mean * (1 - rate) / len(sizes))
        assert abs(sizes.mean() - mean) < 6 * error
        assert len(set(sizes.tolist())) > 3
    else:
        assert all(len(set(batch.tolist())) == len(batch) == B for batch in record)


def test_poisson_under_add_remove_uses_the_public_population(rows) -> None:
    X, y = rows
    weights = []
    for some in (slice(None), slice(0, N - 1)):
        sampler, uses = make_sampler("poisson", 500, B, 1)
        trained = noisy_sgd(
            X[some], y[some], CONSTANT, Randomness.from_seed(0), sampler=sampler, uses=uses,
            ledger=Ledger(2.0, 1e-5, adjacency=ADD_REMOVE), epsilon=2.0, delta=1e-5, population=500,
        )  # fmt: skip
        weights.append(trained)
    plans = [trained.permit.plan for trained in weights]
    assert plans[0] == plans[1]
    with pytest.raises(InvalidParameter, match="population"):
        run(rows, "poisson", adjacency=ADD_REMOVE)


def test_one_draw_too_many_is_refused(rows) -> None:
    X, y = rows
    sampler, uses = make_sampler("cyclic", N, B, 1)

    class Longer(type(sampler)):  # hands out one batch more than it is counted for
        def schedule(self, size, randomness):
            yield from super().schedule(size, randomness)
            yield np.arange(3)

    with pytest.raises(PermitError):
        noisy_sgd(
            X, y, CONSTANT, Randomness.from_seed(0), sampler=Longer(sampler.batches, B), uses=uses,
            ledger=Ledger(2.0, 1e-5), epsilon=2.0, delta=1e-5,
        )  # fmt: skip


@pytest.mark.parametrize("name", ["cyclic", "shuffle", "full"])
@pytest.mark.parametrize(
    "loss", [Logistic(), HuberHinge(), SoftplusHinge(), Softmax(3)], ids=lambda loss: loss.name
)
def test_last_iterate_needs_less_noise(rows, name, loss) -> None:
    X, y = rows
    targets = (y > 0).astype(np.int64) if isinstance(loss, Softmax) else y
    update = Update(loss=loss, learning_rate="constant", eta0=0.3, regularization=0.05)
    options = {"update": update, "epochs": 5}
    last = run((X, targets), name, released="last", **options)[0]
    every = run((X, targets), name, **options)[0]
    ((leaf, _),) = last.permit.plan.leaves()
    ((plain, _),) = every.permit.plan.leaves()
    assert isinstance(leaf, LastIterate)
    assert leaf.mechanism.noise_multiplier < plain.mechanism.noise_multiplier
    assert last.permit.draws_left() == 0
    assert last.permit.guarantee("w").epsilon == 2.0


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"update": Update(loss=Hinge(), learning_rate="constant")}, "smooth loss"),
        ({"update": Update(loss=Logistic())}, "learning_rate='constant'"),
        ({"update": Update(loss=Logistic(), learning_rate="constant", averaging=3.0)}, "averaging"),
        ({"update": Update(loss=Logistic(), learning_rate="constant", eta0=9.0)}, "2/M"),
        (
            {"update": Update(loss=Logistic(), learning_rate="constant", norm_bound=None,
                              clip_norm=1.0)},
            "norm_bound",
        ),
        (
            {"update": Update(loss=Softmax(2), learning_rate="constant", clip_norm=0.5)},
            "no potential",
        ),
        ({"noise": "spherical-laplace"}, "Gaussian"),
    ],
)  # fmt: skip
def test_last_iterate_refuses_with_the_reason(rows, options, reason) -> None:
    with pytest.raises(Unproven, match=reason):
        run(rows, "cyclic", released="last", **options)


@pytest.mark.parametrize("name", ["poisson", "without-replacement", "partial-shuffle"])
def test_last_iterate_refuses_other_samplers(rows, name) -> None:
    with pytest.raises(Unproven, match="cyclic, shuffle or full"):
        run(rows, name, released="last")


def test_levels_scale_mu(rows) -> None:
    """A person of level e contributes c = mu(e) / mu(epsilon): their own epsilon is e."""
    from noisette.core.mechanisms.gaussian_curve import gdp_delta, gdp_mu

    levels = np.array([0.3, 1.0, 2.0])
    shares = level_shares(levels, 2.0, 1e-5, "gaussian")
    mu = gdp_mu(2.0, 1e-5)
    for level, share in zip(levels, shares, strict=True):
        assert float(gdp_delta(share * mu, level)) <= 1e-5
        assert float(gdp_delta(share * mu * 1.001, level)) > 1e-5
    run(rows, "cyclic", levels=Levels(np.full(N, 0.5)))
    with pytest.raises(Unproven, match="once per pass"):
        run(rows, "poisson", levels=Levels(np.full(N, 0.5)))
