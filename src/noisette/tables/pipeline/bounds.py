"""`PrivateBounds`: numbers are cut to private quantiles and scaled to [-1, 1]."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from scipy.stats import norm

from noisette import _validate
from noisette.core.adjacency import Adjacency
from noisette.core.grid import NATS, Grid, ranks_at
from noisette.core.ledger import Ledger
from noisette.core.mechanisms import Exponential
from noisette.core.plans import Plan, Repeat, Run
from noisette.core.randomness import Randomness
from noisette.core.summaries import quantile_move
from noisette.errors import InvalidParameter
from noisette.fitting.algorithms.passage import Passage
from noisette.fitting.algorithms.public import PublicBudget
from noisette.tables.kinds import Column, Numeric, View
from noisette.tables.pipeline.step import PreparedStep, Sample, exponential_epsilon
from noisette.tables.pipeline.transformer import NumbersStep, NumbersTransformer, grids_of

_LEAST_TAIL, _LARGEST_TAIL = 0.01, 0.25


@dataclass(frozen=True)
class Bounds:
    """The released bounds of one column."""

    low: float
    high: float


@dataclass(frozen=True)
class LearnBounds(NumbersStep):
    """Choose the quantiles `tail` and 1 - `tail` of each column."""

    tail: float = _LEAST_TAIL
    wider: bool = False
    """Whether limits are moved outwards, to where 1 % would lie beyond them for a normal law."""

    name: ClassVar[str] = "bounds"
    summary: ClassVar[str] = "two private quantiles of each numeric column"
    ups: ClassVar[tuple[bool | None, ...]] = (False, True)
    proofs: ClassVar[tuple[str, ...]] = ("QUANTILE", "ROW-LOCAL")

    def __post_init__(self) -> None:
        if not 0.0 < _validate.real("tail", self.tail) < 0.5:
            raise InvalidParameter(f"tail must be a number in (0, 0.5); got {self.tail!r}.")

    @property
    def pure_cost(self) -> float:
        """The pure epsilon of the step at scale 1, for each contribution."""
        return 2.0 * math.sqrt(2 * len(self.grids))

    @property
    def notes(self) -> tuple[str, ...]:
        """What lies beyond the bounds."""
        return (f"About {self.tail:.2%} of the values of a column lie beyond each bound.",)

    def plan(self, scale: float, adjacency: Adjacency) -> Plan:
        """Return two choices for each column."""
        uses = 2 * len(self.grids)
        return Repeat(Run(Exponential(exponential_epsilon(scale, uses, adjacency))), uses)

    def expected(self, prepared: PreparedStep) -> str:
        """Say how many ranks off a bound may be."""
        error = _rank_error(prepared.scale, len(self.grids), prepared.public.adjacency)
        return (
            f"About {self.tail:.2%} of the values lie beyond each bound, give or take {error:.3g} "
            f"ranks, or {NATS * error:.3g} where nothing is known of the size of the numbers."
        )

    def found(self, prepared: PreparedStep, rows: float) -> bool:
        """Whether the ranks beyond each bound stand out of the noise among so many rows."""
        error = _rank_error(prepared.scale, len(self.grids), prepared.public.adjacency)
        return self.tail * rows >= NATS * error

    def run(self, sample: Sample, prepared: PreparedStep, passage: Passage) -> tuple[Bounds, ...]:
        """Return the bounds of every column."""
        mechanism, adjacency = passage.leaf().mechanism, prepared.public.adjacency
        assert isinstance(mechanism, Exponential)
        found = []
        for column, grid in zip(sample.data, self.grids, strict=True):
            ends = []
            for q in (self.tail, 1.0 - self.tail):
                ranks = ranks_at(column, grid, sample.weights, up=q > 0.5)
                # proof: QUANTILE
                scores = ranks.quantile(
                    q, adjacency, epsilon=mechanism.epsilon, log_prior=grid.log_prior
                )
                ends.append(passage.release(scores))
            low, high = sorted(ends)
            if low == high:  # two different candidates: the neighbours of a single one
                low, high = max(low - 1, 0), min(high + 1, len(grid.points) - 1)
            limits = Bounds(float(grid.points[low]), float(grid.points[high]))
            found.append(_moved(limits, self.tail, grid) if self.wider else limits)
        return tuple(found)


def _moved(found: Bounds, tail: float, grid: Grid) -> Bounds:
    """Return limits further out: post-processing, by a public rule.

    Quantiles far from the ends are what noise lets one choose; cutting there would cost far more
    than room that is not used. A column whose low limit is not negative stays so.
    """
    further = (norm.isf(_LEAST_TAIL) / norm.isf(tail) - 1.0) / 2.0
    room = max(further, 0.0) * (found.high - found.low)
    first, last = grid.ends
    if found.low >= 0.0 and not grid.dates:
        first = max(first, 0.0)
    low, high = max(found.low - room, first), min(found.high + room, last)
    return Bounds(float(low), float(high))


def _rank_error(scale: float, columns: int, adjacency: Adjacency) -> float:
    epsilon = exponential_epsilon(scale, 2 * columns, adjacency)
    return 2.0 * quantile_move(_LEAST_TAIL, adjacency) / epsilon


def least_tail(size: int | None, scale: float, columns: int, adjacency: Adjacency) -> float:
    """Return the share of values to leave beyond each bound: 1 %, more if the noise needs it.

    A public rule: so many ranks that numbers far from all data are hardly chosen. Without a public
    size it is 5 %.
    """
    if size is None:
        return 0.05
    needed = 1.5 * NATS * _rank_error(scale, columns, adjacency) / size
    return min(_LARGEST_TAIL, max(_LEAST_TAIL, needed))


class PrivateBounds(NumbersTransformer):
    """Cut every column to private quantiles and scale it to [-1, 1]; the middle is 0.

    Parameters
    ----------
    epsilon, delta : float
        The budget of one ``fit``; delta = 0 is pure, a delta shares it better.
    tail : float or "auto"
        The share of values to leave beyond each bound; "auto" is 1 %, more where the number of
        records, epsilon and the number of columns ask for it, a public rule.
    bounds : None, pair or list
        Public bounds: one pair (low, high), or a list with a pair or None for each column; None
        where unknown. See `noisette.core.grid` for the candidates.
    indicate_missing : bool
        Whether a feature says that a cell is missing; it counts as the middle.
    %(adjacency, population, random_state, ledger)

    Attributes
    ----------
    released_ : tuple of Bounds
        The bounds of each column.
    %(released)

    Examples
    --------
    >>> import numpy as np
    >>> from noisette.pipeline import PrivateBounds
    >>> X = np.random.default_rng(0).normal(50.0, 10.0, (1000, 2))
    >>> bounds = PrivateBounds(epsilon=1.0, random_state=0)
    >>> bounds.plan(1000, 2).epsilon <= 1.0
    True
    >>> Z = bounds.fit(X).transform(X)
    >>> Z.shape, round(float(abs(Z).max()), 6)
    ((1000, 2), 1.0)
    >>> bounds.get_feature_names_out().tolist()
    ['x0', 'x1']

    """

    _released = "bounds of numeric columns"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        tail: float | str = "auto",
        bounds: Any = None,
        indicate_missing: bool = False,
        adjacency: str = "replace-one",
        population: int | None = None,
        random_state: int | Randomness | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self._keep(locals())

    def _step(self, public: PublicBudget, features: int) -> LearnBounds:
        _validate.boolean("indicate_missing", self.indicate_missing)
        grids = grids_of(self.bounds, features)
        if self.tail != "auto":
            return LearnBounds(grids, self.tail)
        scale = LearnBounds(grids).prepare(public).scale  # the same for every tail
        return LearnBounds(grids, least_tail(public.size, scale, features, public.adjacency))

    def _encoder(self, name: str, found: Bounds) -> Column:
        return Numeric(name, (View(found.low, found.high),), missing_slot=self.indicate_missing)
