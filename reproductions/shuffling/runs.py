"""SGD runs on one small strongly convex problem: without noise, with noise, at equal privacy.

The problem is ridge logistic regression on n points of the unit sphere in five dimensions, labels
from a hidden hyperplane with every tenth flipped at random. Its optimum is found by Newton's
method, so F(w) - F(w*) is exact down to rounding. Private runs go through the same door as every
fit of the library: a ledger is charged with the plan that runs, and the noise comes from
`privacy.release`. All iterates of a charged run are paid for, so a run may be looked at on its way.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import expit

from benchmarks.real import sphere
from noisette import accounting, sampling
from noisette._typing import Floats
from noisette.core.door import release
from noisette.core.ledger import Ledger
from noisette.core.mechanisms import Gaussian
from noisette.core.plans import Repeat, Sampled
from noisette.core.randomness import Randomness
from noisette.errors import InvalidParameter
from noisette.fitting.algorithms import NoisySGD, Public, Records, train
from noisette.fitting.algorithms.steps import Batches, State, Update, advance
from noisette.fitting.losses import Logistic

__all__ = ["DELTA", "DIMENSION", "algorithm1", "equal_privacy", "trajectory"]


DIMENSION, RIDGE, DELTA = 5, 0.05, 1e-5
SCHEDULES = {"plain": "with replacement", "cyclic": "cyclic", "shuffle": "reshuffled each epoch"}


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows on the unit sphere, labels -1 and +1, and the least value of the objective."""

    X: Floats
    y: Floats
    least: float

    def gap(self, w: Floats) -> float:
        """Return F(w) - F(w*)."""
        return objective(self.X, self.y, w) - self.least


def objective(X: Floats, y: Floats, w: Floats) -> float:
    """Return mean log(1 + exp(-y x.w)) + ridge |w|^2 / 2."""
    return float(np.logaddexp(0.0, -y * (X @ w)).mean() + RIDGE / 2.0 * (w @ w))


@lru_cache(maxsize=4)
def problem(n: int) -> Problem:
    """Return the problem of that size; the same for every seed of the algorithms."""
    data = sphere(n, DIMENSION, margin=0.05, seed=1, n_test=0)
    X: Floats = np.ascontiguousarray(data.X)
    y: Floats = np.where(data.y == 1, 1.0, -1.0)
    y[Randomness.from_seed(2).generator.permutation(n)[: n // 10]] *= -1.0
    w = np.zeros(DIMENSION)
    for _ in range(50):  # Newton's method from 0 converges on this well-conditioned problem
        s = expit(-y * (X @ w))
        gradient = RIDGE * w - X.T @ (y * s) / n
        w -= np.linalg.solve((X.T * (s * (1.0 - s))) @ X / n + RIDGE * np.eye(DIMENSION), gradient)
    return Problem(X, y, objective(X, y, w))


def update(step: float) -> Update:
    """Return plain SGD with a constant step."""
    return Update(
        Logistic(), norm_bound=1.0, regularization=RIDGE, learning_rate="constant", eta0=step
    )


def _sampler(schedule: str, n: int) -> tuple[sampling.Sampler, int]:
    """Return the one-record sampler of that name and its uses per epoch."""
    if schedule == "plain":  # one fresh uniform record per step is sampling with replacement
        return sampling.WithoutReplacement(1, n), n
    kind = sampling.Cyclic if schedule == "cyclic" else sampling.Shuffle
    return kind.of_size(n, 1), 1


def trajectory(
    schedule: str, multiplier: float, epochs: int, steps: list[float], n: int, seed: int
) -> Iterator[dict[str, Any]]:
    """Yield the gap after 1, 2, 4, ... epochs for each step size, one record per step.

    `multiplier` is sigma / L, 0 for no noise. The order of records is the same for all step sizes.
    """
    data = problem(n)
    sampler, uses = _sampler(schedule, n)
    order, noise = Randomness.from_seed(seed).spawn(2)
    batches = [
        Batches.of([b for _ in range(uses) for b in sampler.schedule(n, order)], 1.0)
        for _ in range(epochs)
    ]
    plan = Repeat(Sampled(Gaussian(multiplier or 1.0), sampler), uses * epochs)
    for step in steps:
        rule, state = update(step), State.zero(DIMENSION)
        stream = None
        if multiplier:
            permit = _ledger(plan).charge(plan, label="one run", delta=DELTA, seeded=True)
            # proof: CLIP
            bounded = rule.bounded(DIMENSION, permit.adjacency, "CLIP")
            stream = release(bounded, permit, noise)
        for epoch, batch in enumerate(batches, start=1):
            if stream is None:
                advance(rule, state, data.X, data.y, batch, np.zeros((len(batch), DIMENSION)), 0.0)
            else:
                drawn = stream.take(len(batch))
                advance(rule, state, data.X, data.y, batch, drawn, stream.grid)
            if epoch & (epoch - 1) == 0:
                yield {"step": step, "epochs": epoch, "gap": data.gap(state.w)}


def _ledger(plan: Repeat) -> Ledger:
    """Return a ledger that the plan just fits into: here the cost is a result, not a limit."""
    cost = accounting.epsilon(plan, delta=DELTA, adjacency="replace-one")
    return Ledger(cost * (1.0 + 1e-9), DELTA)


def algorithm1(
    fraction: float, epochs: int, multiplier: float | None, epsilon: float | None,
    steps: list[float], n: int, seeds: range,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Yield the gap of the poster's Algorithm 1 for each step size and seed.

    The noise is `multiplier` (sigma / L, 0 for none), or the least for `epsilon`.
    """
    data = problem(n)
    used = math.floor(fraction * n)
    sampler: sampling.Sampler = (
        sampling.Shuffle.of_size(n, 1) if used == n else sampling.PartialShuffle(used, n)
    )
    rounds = math.ceil(epochs * n / used)
    if epsilon is not None:
        multiplier = accounting.calibrate(
            lambda z: Repeat(Sampled(Gaussian(z), sampler), rounds), epsilon=epsilon, delta=DELTA
        )
    for seed, step in itertools.product(seeds, steps):
        source = Randomness.from_seed(seed)
        if multiplier:
            plan = Repeat(Sampled(Gaussian(multiplier), sampler), rounds)
            cost = epsilon or accounting.epsilon(plan, delta=DELTA)
            rule = NoisySGD(update(step), sampler, rounds, multiplier=multiplier)
            w = _run(rule, data, cost, source)
        else:
            batches = Batches.of(
                [b for _ in range(rounds) for b in sampler.schedule(n, source)], 1.0
            )
            state = State.zero(DIMENSION)
            silent = np.zeros((len(batches), DIMENSION))
            advance(update(step), state, data.X, data.y, batches, silent, 0.0)
            w = state.w
        yield {"seed": seed, "step": step, "multiplier": multiplier, "gap": data.gap(w)}


def equal_privacy(
    name: str, epochs: int, epsilon: float, steps: list[float], n: int, batch: int, seeds: range
) -> Iterator[dict[str, Any]]:
    """Yield the gap at one (epsilon, DELTA) for each step size and seed; noise is calibrated.

    `name` is a sampler's, with " last" behind it where only the last iterate is released.
    """
    data = problem(n)
    kind, _, last = name.partition(" ")
    sampler, uses = {
        "plain": (sampling.WithoutReplacement(batch, n), epochs * (n // batch)),
        "poisson": (sampling.Poisson(batch / n), epochs * (n // batch)),
        "random-allocation": (sampling.RandomAllocation(n // batch), epochs),
        "partial-shuffle": (sampling.PartialShuffle(n // 10, n, batch), 10 * epochs),
        "cyclic": (sampling.Cyclic.of_size(n, batch), epochs),
        "shuffle": (sampling.Shuffle.of_size(n, batch), epochs),
    }[kind]
    if last not in ("", "last"):
        raise InvalidParameter(f"name must be a sampler's, maybe with ' last'; got {name!r}.")
    for seed, step in itertools.product(seeds, steps):
        rule = NoisySGD(
            update(step), sampler, uses, released=last or "all",
            multiplier=_noise(sampler, uses, epsilon, step, last, n),
        )  # fmt: skip
        w = _run(rule, data, epsilon, Randomness.from_seed(seed))
        yield {"seed": seed, "step": step, "gap": data.gap(w)}


def _public(n: int, epsilon: float) -> Public:
    return Public(
        epsilon=epsilon, delta=DELTA, adjacency=Ledger(1.0).adjacency, size=n,
        loss=Logistic(), features=DIMENSION, norm_bound=1.0,
    )  # fmt: skip


def _run(rule: NoisySGD, data: Problem, epsilon: float, source: Randomness) -> Floats:
    """Return the released weights of one private run."""
    trained = train(
        rule, _public(len(data.y), epsilon), Records(data.X, [data.y]),
        ledger=Ledger(epsilon, DELTA), randomness=source,
    )  # fmt: skip
    weights: Floats = trained.released[0]
    return weights


@lru_cache(maxsize=256)
def _noise(
    sampler: sampling.Sampler, uses: int, epsilon: float, step: float, last: str, n: int
) -> float:
    """Return the least noise for (epsilon, DELTA); only the last iterate's depends on the step."""
    from noisette.fitting.algorithms.noisy_sgd import plan_for

    if not last and step != 1.0:
        return _noise(sampler, uses, epsilon, 1.0, last, n)
    make = plan_for(
        update(step), sampler, uses, _public(n, epsilon), noise="gaussian", released=last or "all"
    )
    return accounting.calibrate(make, epsilon=epsilon, delta=DELTA)
