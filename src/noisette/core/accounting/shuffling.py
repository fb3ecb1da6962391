"""Shuffled SGD when every iterate may be seen: how little a shuffle hides.

A rigorous lower bound, the plan of the poster's Algorithm 1 (Berthier and Karimireddy, *Private SGD
with Shuffling*), and the poster's two-loss example in exact arithmetic. z is the noise multiplier
sigma/C throughout. The upper bound is the Gaussian accountant's: one use per epoch.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations, product

import numpy as np
from scipy.special import betainc, log_ndtr

from noisette import _validate
from noisette._typing import Floats
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms import Gaussian
from noisette.core.plans import Plan, Repeat, Sampled
from noisette.core.sampling import PartialShuffle, Shuffle
from noisette.errors import InvalidParameter


def _contributions(adjacency: Adjacency | str) -> int:
    """Return by how many clipping norms the sum moves: 1 (zero-out) or 2 (replace-one)."""
    relation = Adjacency.of(adjacency)
    Shuffle(batches=1).participation(relation)  # refuses add-remove with the reason
    return relation.contributions


def _hit_probability(tau: Floats, shift: float, batches: int, z: float) -> Floats:
    """Return P(max_t x_t > tau), one coordinate N(shift, z^2) and the others N(0, z^2)."""
    log_miss = log_ndtr((tau - shift) / z) + (batches - 1) * log_ndtr(tau / z)
    return np.asarray(-np.expm1(log_miss))


def shuffle_lower_epsilon(
    batches: int,
    noise_multiplier: float,
    delta: float,
    *,
    epochs: int = 1,
    adjacency: Adjacency | str = Adjacency.ZERO_OUT,
    reshuffle: bool = True,
) -> float:
    """Return a proved **lower** bound on epsilon of shuffled SGD with all iterates released.

    No accountant may report less for a shuffled loader. The data: every gradient is -C except the
    record's +C, so, in units of C and centred, an epoch shows x ~ N(2 e_t, z^2 I) with t uniform
    over the l batches, against N(e_t, z^2 I) (zero-out) or N(0, z^2 I) (replace-one). For any tau
    the event max x_t > tau has probabilities p and q under the two, and over E reshuffled epochs
    the number of such events is Bin(E, p) against Bin(E, q), so for every k

        epsilon >= log( (P[Bin(E, p) >= k] - delta) / P[Bin(E, q) >= k] ).

    With reshuffle=False one order serves all epochs: the mean over epochs is sufficient, which is
    one epoch at z/sqrt(E). The bound is maximised over tau and k, at least 0, rounded down.
    """
    # proof: SHUFFLE-LOWER
    count = _validate.integer("batches", batches)
    z = _validate.positive("noise_multiplier", noise_multiplier)
    rounds, other = _validate.integer("epochs", epochs), 2.0 - _contributions(adjacency)
    delta = _validate.delta(delta)
    if not reshuffle:
        z, rounds = z / math.sqrt(rounds), 1
    # Every k is valid; 200 of them lose nothing visible and bound the work.
    k = np.unique(np.rint(np.linspace(1, rounds, min(rounds, 200))))[:, None]

    def bound(tau: Floats) -> Floats:
        hits = [_hit_probability(tau, shift, count, z) for shift in (2.0, other)]
        p, q = (betainc(k, rounds - k + 1, hit) for hit in hits)
        # p close to delta or q near the smallest double have lost digits: they prove nothing.
        good = (p > 1.01 * delta) & (q > 1e-290)
        value = np.log(np.where(good, p - delta, 1.0)) - np.log(np.where(good, q, 1.0))
        return np.asarray(value.max(axis=0))

    low, high = -2.0 - 10.0 * z, 4.0 + 40.0 * z
    best = 0.0
    for _ in range(6):  # every tau is valid: refining a grid only tightens
        grid = np.linspace(low, high, 401)
        values = bound(grid)
        top = int(values.argmax())
        best = max(best, float(values[top]))
        step = grid[1] - grid[0]
        low, high = grid[top] - 2.0 * step, grid[top] + 2.0 * step
    return max(0.0, best * (1.0 - 1e-9) - 1e-9)


def _simple(value: float) -> Fraction:
    """Return the fraction with a denominator up to a million that rounds to value, if any."""
    short = Fraction(value).limit_denominator(1_000_000)
    return short if float(short) == value else Fraction(value)


def poster_algorithm(size: int, epochs: float, fraction: float, noise_multiplier: float) -> Plan:
    """Return the plan of the poster's Algorithm 1 on n = `size` records, replace-one.

    ceil(e / tau) rounds of a fresh shuffle, each stopped after m = floor(tau n) single-record
    steps. `epochs` e > 0 is the work in passes, `fraction` is tau in (0, 1], `noise_multiplier` is
    sigma / L. e and tau are read as the simple fractions they stand for, so that 0.29 of 100 is 29
    and 2/3 of 3 is 2. With tau = 1 a round is an ordinary shuffled epoch.
    """
    n = _validate.integer("size", size)
    e = _simple(_validate.positive("epochs", epochs))
    tau = _simple(_validate.rate("fraction", fraction))
    used, rounds = math.floor(tau * n), math.ceil(e / tau)
    if used < 1:
        raise InvalidParameter(f"fraction * size must be at least 1; got {fraction!r} of {n}.")
    taker = Shuffle(batches=n) if used == n else PartialShuffle(used=used, size=n)
    step = Sampled(Gaussian(noise_multiplier), taker, adjacency=Adjacency.REPLACE_ONE)
    return Repeat(step, rounds)


@dataclass(frozen=True)
class TwoLossExample:
    """Exact output laws of the poster's example and their worst likelihood ratios.

    Laws map the released value in {-2, 0, 2} to its probability. `ratio_with` = 7/4 and
    `ratio_without` = 4 are exp of the pure epsilon with and without replacement.
    """

    with_replacement: tuple[dict[int, Fraction], dict[int, Fraction]]
    without_replacement: tuple[dict[int, Fraction], dict[int, Fraction]]
    ratio_with: Fraction
    ratio_without: Fraction

    @property
    def epsilon_with(self) -> float:
        """Return log(7/4)."""
        return math.log(self.ratio_with)

    @property
    def epsilon_without(self) -> float:
        """Return log 4."""
        return math.log(self.ratio_without)


def _two_steps(order: Iterable[int]) -> int:
    """Run theta <- theta - loss'(theta) from 1 on losses |t|^3/3 (1) and |t|^3/3 - 2t (2)."""
    slope: dict[int, Callable[[int], int]] = {1: lambda t: t * abs(t), 2: lambda t: t * abs(t) - 2}
    theta = 1
    for loss in order:
        theta -= slope[loss](theta)
    return theta


def _released(orders: list[tuple[int, ...]]) -> dict[int, Fraction]:
    """Mix the law of the final iterate, half and half, with the uniform law on {-2, 0, 2}."""
    ends = Counter(_two_steps(order) for order in orders)
    return {
        value: Fraction(1, 2) * Fraction(ends[value], len(orders)) + Fraction(1, 6)
        for value in (-2, 0, 2)
    }


def two_loss_example() -> TwoLossExample:
    """Enumerate the poster's counter-example: data {1, 2} against {1, 1}, two steps.

    The losses are a reconstruction (the poster's figure is lost): two convex losses for which the
    orders 11 and 22 end at 0, 12 at 2 and 21 at -2; they reproduce the printed values.
    """
    # proof: TWO-LOSS-EXAMPLE
    sampled, shuffled = (
        tuple(_released(list(draw(data))) for data in ((1, 2), (1, 1)))
        for draw in (lambda data: product(data, repeat=2), permutations)
    )

    def worst(laws: tuple[dict[int, Fraction], ...]) -> Fraction:
        first, second = laws
        return max(max(first[v] / second[v], second[v] / first[v]) for v in first)

    return TwoLossExample(
        (sampled[0], sampled[1]), (shuffled[0], shuffled[1]), worst(sampled), worst(shuffled)
    )
