"""The plan of the poster's Algorithm 1, and its two-loss example in exact arithmetic.

Berthier and Karimireddy, *Private SGD with Shuffling*.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations, product

from noisette import _validate
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms import Gaussian
from noisette.core.plans import Plan, Repeat, Sampled
from noisette.core.sampling import PartialShuffle, Shuffle
from noisette.errors import InvalidParameter

__all__ = ["TwoLossExample", "poster_algorithm", "two_loss_example"]


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
