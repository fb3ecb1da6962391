"""`PrivateKnots`: numbers become hat functions on private quantiles.

The median of a column is chosen first, then the medians of the rows below and above it, and so on:
one person is in one part of each level, so a level costs one choice. A value that equals a chosen
knot belongs to neither part: a column with 92 % zeros has one knot at 0 and the others among the
rest. "None" is one of the candidates of every part; it wins where there are too few rows to tell.
"""

import math
from dataclasses import dataclass
from itertools import repeat
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from noisette import _validate
from noisette.core.adjacency import Adjacency
from noisette.core.grid import NATS, Grid, ranks_at
from noisette.core.ledger import Ledger
from noisette.core.mechanisms import Exponential
from noisette.core.plans import Plan, Repeat, Run, Together
from noisette.core.randomness import Randomness
from noisette.core.summaries import Ranks, median_move
from noisette.errors import InvalidParameter
from noisette.fitting.algorithms.passage import Passage
from noisette.fitting.algorithms.public import PublicBudget
from noisette.tables.kinds import Column, Hats
from noisette.tables.pipeline.step import PreparedStep, Sample, exponential_epsilon
from noisette.tables.pipeline.transformer import NumbersStep, NumbersTransformer, grids_of

_DEEPEST = 5
_WITHOUT_SIZE = 3
_ROOM = 4.0  # a part should hold so many times the error of its median
_REACH = 8.0  # what a median pays for not knowing where numbers lie, chosen on invented tables
_STOP = 3.0  # logarithm of the odds against a knot in a part without rows


@dataclass(frozen=True)
class Knots:
    """The released knots of one column, increasing, and its median, the first one chosen.

    Where none was chosen there are hardly any values, and the middle of the candidates takes its
    place; a single knot has its neighbours beside it. So there are always two or more.
    """

    knots: tuple[float, ...]
    median: float


@dataclass(frozen=True)
class LearnKnots(NumbersStep):
    """Choose up to 2^levels - 1 knots for each column, level by level, and two in the tails.

    After `levels` levels only the lowest and the highest part are halved, `tails` times more, and
    the last knot on each side is kept: beyond its outermost knots a number is cut, and cutting a
    quarter of all rows on each side costs more than any knot between.
    """

    levels: int = 3
    tails: int = 0

    name: ClassVar[str] = "knots"
    summary: ClassVar[str] = "private quantiles of numeric columns, by halving"
    ups: ClassVar[tuple[bool | None, ...]] = (None,)
    proofs: ClassVar[tuple[str, ...]] = ("QUANTILE-TREE", "ROW-LOCAL")

    @property
    def notes(self) -> tuple[str, ...]:
        """How many knots there may be."""
        return (f"Every column has up to {2**self.levels - 1} knots.",)

    def plan(self, scale: float, adjacency: Adjacency) -> Plan:
        """Return one choice for each column and level; deeper ones, of fewer rows, are sharper."""
        count = len(self.grids)
        each = exponential_epsilon(scale, count, adjacency) * np.sqrt(self._parts)
        levels = map(Run, map(Exponential, each.tolist()))
        return Together(*map(Repeat, levels, repeat(count)))

    @property
    def _parts(self) -> list[float]:
        """The part of every level in the step's cost: doubled as long as all parts are halved."""
        each = np.ldexp(1.0, np.minimum(np.arange(self.levels + self.tails), self.levels - 1))
        return list(map(float, each / each.sum()))

    @property
    def pure_cost(self) -> float:
        """The pure epsilon of the step at scale 1, for each contribution."""
        return 2.0 * math.sqrt(len(self.grids)) * sum(map(math.sqrt, self._parts))

    def expected(self, prepared: PreparedStep) -> str:
        """Say how many ranks off a knot may be."""
        uses = len(self.grids) * (self.levels + self.tails)
        error = rank_error(prepared.scale, uses, prepared.public.adjacency)
        return (
            f"Each knot is off by about {error:.3g} ranks, or by up to {NATS * error:.3g} where "
            "nothing is known of the size of the numbers."
        )

    def reach(self, prepared: PreparedStep, rows: float) -> int:
        """Return how many levels have medians that stand out of the noise among so many rows.

        Half of a part's ranks lie between its median and numbers that nobody has.
        """
        adjacency, part = prepared.public.adjacency, rows
        whole = exponential_epsilon(prepared.scale, len(self.grids), adjacency)
        for level, share in enumerate(self._parts):
            if part / 2.0 < _REACH * (2.0 * median_move(adjacency) / (whole * math.sqrt(share))):
                return level
            part /= 2.0 if level < self.levels - 1 else 1.0
        return self.levels

    def run(self, sample: Sample, prepared: PreparedStep, passage: Passage) -> tuple[Knots, ...]:
        """Return the knots of every column."""
        adjacency = prepared.public.adjacency
        return tuple(
            self._column(ranks_at(column, grid, sample.weights), grid, adjacency, passage)
            for column, grid in zip(sample.data, self.grids, strict=True)
        )

    def _column(self, ranks: Ranks, grid: Grid, adjacency: Adjacency, passage: Passage) -> Knots:
        chosen: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        closed: set[int] = set()  # the left ends of parts in which no knot was chosen
        median, inner = None, chosen
        for level in range(self.levels + self.tails):
            mechanism = passage.leaf(level).mechanism
            assert isinstance(mechanism, Exponential)
            # proof: QUANTILE-TREE
            scores = ranks.medians(
                chosen, adjacency, epsilon=mechanism.epsilon, log_prior=grid.log_prior,
                log_stop=_STOP,
            )  # fmt: skip
            found = np.atleast_1d(passage.release(scores, part=level))
            left = np.append(-1, chosen)
            kept = (found < len(grid.points)) & ~np.isin(left, list(closed))
            closed.update(left[~kept].tolist())
            if median is None and kept.any():
                median = int(found[0])
            if level >= self.levels:
                kept[1:-1] = False  # what was chosen there is paid for and not used
            chosen = np.union1d(chosen, found[kept])
            inner = chosen if level < self.levels else inner
        if len(chosen):
            chosen = np.union1d(inner, chosen[[0, -1]])
        if median is None:
            median = int(np.searchsorted(grid.points, grid.middle))
            chosen = np.array([median])
        if len(chosen) == 1:  # with its neighbours, hats say below, at or above it
            around = chosen[0] + np.arange(-1, 2)
            chosen = around[(around >= 0) & (around < len(grid.points))]
        return Knots(tuple(grid.points[chosen].tolist()), float(grid.points[median]))


def rank_error(scale: float, uses: int, adjacency: Adjacency) -> float:
    """Return the scale of the noise in ranks of `uses` choices of medians at this scale."""
    return 2.0 * median_move(adjacency) / exponential_epsilon(scale, uses, adjacency)


def most_levels(size: int | None, scale: float, columns: int, adjacency: Adjacency) -> int:
    """Return how many levels the noise leaves room for: every part holds enough rows to halve it.

    A public rule. Without a public size there are 3 levels, 7 knots.
    """
    if size is None:
        return _WITHOUT_SIZE
    needs = {k: NATS * rank_error(scale, columns * k, adjacency) for k in range(2, _DEEPEST + 1)}
    return max((k for k in needs if size / 2 ** (k - 1) >= _ROOM * needs[k]), default=1)


class PrivateKnots(NumbersTransformer):
    """Hat functions on private quantiles of each column, in place of the column.

    Parameters
    ----------
    epsilon, delta : float
        The budget of one ``fit``; delta = 0 is pure, a delta shares it better.
    knots : int or "auto"
        How many for each column: 1, 3, 7, 15 or 31; "auto" is as many as the number of records,
        epsilon and the number of columns leave room for, a public rule (7 if no number is known).
    bounds : None, pair or list
        Public bounds: one pair (low, high), or a list with a pair or None for each column; None
        where unknown. See `noisette.core.grid` for the candidates.
    indicate_missing : bool
        Whether a feature says that a cell is missing; it counts as the median.
    sparse_output : bool
        Whether ``transform`` returns a CSR matrix.
    %(adjacency, population, random_state, ledger)

    Attributes
    ----------
    released_ : tuple of Knots
        The knots of each column.
    %(released)

    Examples
    --------
    >>> import numpy as np
    >>> from noisette.pipeline import PrivateKnots
    >>> X = np.random.default_rng(0).normal(50.0, 10.0, (2000, 1))
    >>> knots = PrivateKnots(epsilon=1.0, knots=3, bounds=(0, 100), random_state=0)
    >>> knots.plan(2000, 1).epsilon <= 1.0
    True
    >>> Z = knots.fit(X).transform(X)
    >>> Z.shape[0], Z.shape[1] == len(knots.get_feature_names_out())
    (2000, True)

    """

    _released = "quantiles of numeric columns"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        knots: int | str = "auto",
        bounds: Any = None,
        indicate_missing: bool = False,
        sparse_output: bool = False,
        adjacency: str = "replace-one",
        population: int | None = None,
        random_state: int | Randomness | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self._keep(locals())

    def _step(self, public: PublicBudget, features: int) -> LearnKnots:
        for name in ("indicate_missing", "sparse_output"):
            _validate.boolean(name, getattr(self, name))
        grids = grids_of(self.bounds, features)
        by_number = {2**levels - 1: levels for levels in range(1, _DEEPEST + 1)}
        if self.knots != "auto":
            if isinstance(self.knots, bool) or self.knots not in by_number:
                raise InvalidParameter(
                    f"knots must be 'auto', 1, 3, 7, 15 or 31; got {self.knots!r}."
                )
            return LearnKnots(grids, by_number[self.knots])
        for levels in range(_DEEPEST, 1, -1):
            step = LearnKnots(grids, levels)
            scale = step.prepare(public).scale
            if most_levels(public.size, scale, features, public.adjacency) >= levels:
                return step
        return LearnKnots(grids, 1)

    def _encoder(self, name: str, found: Knots) -> Column:
        return Hats(name, found.knots, center=found.median, missing_slot=self.indicate_missing)
