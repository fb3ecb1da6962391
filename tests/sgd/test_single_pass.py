"""The 2013 algorithm: exact densities, noise law, disjointness, per-person levels."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from iterative import single_pass

from noisette.core.adjacency import Adjacency
from noisette.core.ledger import Ledger
from noisette.core.mechanisms import SphericalLaplace
from noisette.core.plans import Parallel, Sampled
from noisette.core.randomness import Randomness
from noisette.core.sampling import Disjoint
from noisette.errors import PermitError, Unproven
from noisette.fitting.algorithms.levels import Levels, level_shares
from noisette.fitting.algorithms.single_pass import noise_for_one_use
from noisette.fitting.algorithms.steps import Update
from noisette.fitting.losses import Hinge, Logistic

FLAT = Update(loss=Logistic(), learning_rate="constant", eta0=1.0, regularization=0.0)


def one_pass(X, y, *, epsilon=1.0, update=FLAT, seed=0, adjacency="replace-one", **options):
    ledger = Ledger(epsilon, options.get("delta", 0.0), adjacency=adjacency)
    options.setdefault("batch_size", len(X))
    trained = single_pass(
        X, y, update, Randomness.from_seed(seed), ledger=ledger, epsilon=epsilon, **options
    )
    return trained, ledger


def law(noise: SphericalLaplace, z: np.ndarray) -> np.ndarray:
    """log density of the noise in d = 1, up to its constant, at contribution bound 1."""
    return -np.abs(z) / noise.noise_multiplier


@pytest.mark.parametrize("alpha", [0.1, 1.0, 5.0])
def test_exact_density_ratio_in_one_dimension(alpha) -> None:
    """Gradients +1 and -1: the log ratio of the noisy sum is at most alpha, and reaches it."""
    noise = noise_for_one_use("spherical-laplace", alpha, 0.0, 1, Ledger(1.0).adjacency)
    grid = np.linspace(-30.0, 30.0, 20_001) / min(alpha, 1.0)
    ratio = np.abs(law(noise, grid - 1.0) - law(noise, grid + 1.0))
    assert ratio.max() == pytest.approx(alpha, abs=1e-12)
    assert ratio.max() <= alpha * (1.0 + 1e-13)


@pytest.mark.parametrize("d", [1, 2, 7])
def test_the_noise_that_runs_has_the_papers_variance(d) -> None:
    """On blank rows the weights are minus the sum of all noise: variance 4 (d+1)/alpha^2 per step.

    400 runs of 50 steps: a sum of 50 is nearly normal, so the mean square has relative standard
    error sqrt(2 / (400 d)); 6 of them fail by chance below 1e-7. Scale 1/alpha instead of 2/alpha
    (a factor 4) is rejected for every d, Laplace noise per coordinate (8/alpha^2) for d > 1.
    """
    alpha, steps, runs = 1.3, 50, 400
    X, y = np.zeros((steps, d)), np.ones(steps)
    sums = [
        one_pass(X, y, epsilon=alpha, batch_size=1, seed=seed)[0].released[0]
        for seed in range(runs)
    ]
    variance = float(np.mean(np.square(sums))) / steps
    error = math.sqrt(2.0 / (runs * d))
    assert variance * alpha**2 / (4.0 * (d + 1)) == pytest.approx(1.0, abs=6 * error)
    assert abs(variance * alpha**2 / (d + 1) - 1.0) > 6 * error  # the mutant's law is told apart


@given(n=st.integers(2, 300), b=st.integers(1, 300), permute=st.booleans())
def test_batches_are_disjoint_and_complete(n, b, permute) -> None:
    b = min(b, n)
    sampler = Disjoint(-(-n // b), b, permute=permute)
    batches = list(sampler.schedule(n, Randomness.from_seed(0)))
    assert len(batches) == sampler.steps
    assert sorted(np.concatenate(batches).tolist()) == list(range(n))
    assert all(len(batch) == b for batch in batches[:-1])
    assert 1 <= len(batches[-1]) <= b


def test_the_remainder_batch_is_divided_by_the_public_batch_size() -> None:
    """11 rows in batches of 5: the third batch has one row and is divided by 5, not by 1."""
    X, y = np.ones((11, 1)), np.ones(11)
    quiet = {"epsilon": 1e9, "update": FLAT}
    whole = one_pass(X[:10], y[:10], batch_size=5, **quiet)[0].released[0]
    more = one_pass(X, y, batch_size=5, **quiet)[0].released[0]
    step = 1.0 / (1.0 + math.exp(whole[0])) / 5
    assert more[0] - whole[0] == pytest.approx(step, rel=1e-6)


def test_the_charge_is_one_use_whatever_the_batch_size() -> None:
    X, y = np.ones((40, 2)), np.ones(40)
    for b in (1, 7, 40):
        trained, ledger = one_pass(X, y, batch_size=b)
        assert ledger.spent == (1.0, 0.0)
        assert trained.permit.draws_left() == 0
        assert trained.permit.plan.draws == -(-40 // b)
        assert trained.permit.guarantee("w").epsilon == 1.0


def test_add_remove_is_refused_by_the_sampler() -> None:
    with pytest.raises(Unproven, match="disjoint batches have no proof under add-remove"):
        one_pass(np.ones((4, 1)), np.ones(4), adjacency="add-remove")


@pytest.mark.parametrize(("adjacency", "moves"), [("replace-one", 2.0), ("zero-out", 1.0)])
def test_levels_against_a_brute_force_density_ratio(adjacency, moves) -> None:
    """d = 1, one batch: person i's swap moves the sum by `moves` c_i; the worst log ratio is
    epsilon_i exactly, for everybody."""
    levels = np.array([0.2, 0.5, 1.0, 1.0])
    shares = level_shares(levels, 1.0, 0.0, "spherical-laplace")
    relation = Adjacency.of(adjacency)
    noise = noise_for_one_use("spherical-laplace", 1.0, 0.0, 1, relation)
    grid = np.linspace(-40.0, 40.0, 80_001)
    for level, share in zip(levels, shares, strict=True):
        ratio = np.abs(law(noise, grid) - law(noise, grid - moves * share)).max()
        assert ratio == pytest.approx(level, abs=1e-11)
        assert ratio <= level


def test_scaled_levels_move_the_weights_by_their_share() -> None:
    """Two runs with the same noise: blanking out person i moves the sum by c_i C, no more."""
    X, y = np.ones((4, 1)), np.ones(4)
    levels = np.array([0.2, 0.5, 1.0, 1.0])
    kwargs = {"levels": Levels(levels), "adjacency": "zero-out"}
    base = one_pass(X, y, **kwargs)[0].released[0][0]
    for i, level in enumerate(levels):
        blank = X.copy()
        blank[i] = 0.0
        moved = abs(one_pass(blank, y, **kwargs)[0].released[0][0] - base) * 4
        assert moved == pytest.approx(0.5 * level, rel=1e-4)  # |l'(0)| = 1/2


def test_groups_have_their_own_noise_and_cost_the_worst_one() -> None:
    X, y = np.ones((30, 2)), np.ones(30)
    levels = np.repeat([0.25, 1.0, 0.5], 10)
    trained, ledger = one_pass(X, y, batch_size=4, levels=Levels(levels, "batches"))
    plan = trained.permit.plan
    assert isinstance(plan, Parallel)
    leaves = [leaf for leaf, _ in plan.leaves()]
    assert [leaf.mechanism.pure_epsilon(ledger.adjacency) for leaf in leaves] == pytest.approx(
        [0.25, 0.5, 1.0]
    )
    assert [leaf.sampler.steps for leaf in leaves] == [3, 3, 3]
    assert all(trained.permit.draws_left(part) == 0 for part in range(3))
    assert ledger.spent == (1.0, 0.0)
    guarantee = trained.permit.guarantee("w")
    assert guarantee.epsilon == 1.0
    assert "PARALLEL-GROUPS" in guarantee.proofs


def test_one_level_in_groups_is_the_plain_pass() -> None:
    X, y = np.ones((30, 2)), np.ones(30)
    plain = one_pass(X, y, batch_size=4)[0].released[0]
    grouped = one_pass(X, y, batch_size=4, levels=Levels(np.ones(30), "batches"))[0].released[0]
    np.testing.assert_allclose(grouped, plain)


def test_no_more_noise_than_charged() -> None:
    ledger = Ledger(1.0)
    permit = ledger.charge(Sampled(SphericalLaplace(2.0, 1), Disjoint.of_size(4, 2)), label="x")
    from noisette.core.door import release

    stream = release(FLAT.bounded(1, permit.adjacency, "PARALLEL"), permit, Randomness.from_seed(0))
    stream.take(2)
    with pytest.raises(PermitError):
        stream.take(1)


def frequencies(epsilon: float, sign: float, runs: int) -> np.ndarray:
    """Sorted weights after one pass over one person with hinge gradient -sign."""
    update = Update(loss=Hinge(), learning_rate="constant", eta0=1.0, regularization=0.0)
    X, y = np.array([[sign]]), np.ones(1)
    first = 0 if sign > 0 else runs
    return np.sort([
        one_pass(X, y, epsilon=epsilon, update=update, seed=first + seed)[0].released[0][0]
        for seed in range(runs)
    ])  # fmt: skip


def test_two_world_audit_with_a_mutant() -> None:
    """Swap +x for -x, 1,000 runs in each world, thresholds at both shifted centres.

    P(w > 1) is 1/2 in one world and e^-epsilon / 2 in the other. At epsilon = 1 the estimated log
    ratio has standard error 0.074, so a bound of 1.4 is passed by chance with probability below
    1e-6; half of the noise (true loss 2, standard error 0.12) is caught with probability above
    0.999.
    """
    runs, bound = 1_000, 1.4

    def worst(epsilon: float) -> float:
        up, down = frequencies(epsilon, 1.0, runs), frequencies(epsilon, -1.0, runs)
        above = [(world > 1.0).mean() for world in (up, down)]
        below = [(world < -1.0).mean() for world in (up, down)]
        return max(abs(math.log(above[0] / above[1])), abs(math.log(below[0] / below[1])))

    assert 0.7 < worst(1.0) < bound
    assert worst(2.0) > bound
