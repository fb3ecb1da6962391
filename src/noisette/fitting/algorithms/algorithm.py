"""`Algorithm`: every way to train, as one object with two halves.

`prepare` sees public facts only and fixes the plan, the bounds and the schedule, so a plan can be
shown before any data exist. `run` sees the data and crosses the door under a permit for that very
plan. `train` joins the two.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from noisette.core.permit import Permit
from noisette.core.plans import Plan
from noisette.fitting.algorithms.passage import Passage
from noisette.fitting.algorithms.public import Public, PublicBudget


@dataclass(frozen=True)
class Prepared:
    """What an algorithm fixed from public facts; each algorithm adds its own numbers.

    `proofs` are theorems that it rests on beside those of its bounds and its plan.
    """

    public: PublicBudget
    plan: Plan
    proofs: tuple[str, ...] = ()


@dataclass(frozen=True)
class PreparedModel(Prepared):
    """A linear model's plan.

    `weight_noise` is about the standard deviation that privacy adds to each weight, None where it
    is not known without the data.
    """

    public: Public
    weight_noise: float | None = None


P = TypeVar("P", bound=Prepared)


class Algorithm(ABC, Generic[P]):
    """One theorem, one file, one entry in `ALGORITHMS`."""

    name: ClassVar[str]
    summary: ClassVar[str]
    needs_batches: ClassVar[bool] = False
    """Whether it takes some of the rows in every step, so that all must be in memory."""
    one_shot: ClassVar[bool] = False
    """Whether it solves one regularised problem and takes no options of its own."""
    takes_levels: ClassVar[bool] = False
    """Whether PER-PERSON-SCALE covers it through sample weights, where it solves one problem."""
    weight_proofs: ClassVar[tuple[str, ...]] = ()
    """Theorems about sample weights, beside those of the plain sum."""

    @abstractmethod
    def prepare(self, public: Any) -> P:
        """Return plan, bounds and schedule; refuse what has no proof."""

    def check(self, records: Any, prepared: P) -> None:
        """Refuse data that would break a bound, before anything is charged."""
        records.check(prepared.public)

    def passes(self, prepared: P) -> float:
        """Return about how often every row is read, for an estimate of the time."""
        return 30.0 * getattr(prepared.public, "models", 1)  # one solve each

    @abstractmethod
    def run(self, records: Any, prepared: P, passage: Passage) -> Any:
        """Return what was released: for a model its weights, one array for each target."""

    @property
    def own(self) -> "Algorithm[Any]":
        """The training of the model itself, where something is released before it."""
        return self


@dataclass(frozen=True)
class PreparedBehind(PreparedModel):
    """The model's own plan, behind what is released before it."""

    inner: Any = None


@dataclass(frozen=True)
class Behind(Algorithm[PreparedBehind]):
    """A training behind a release of its own, in one plan.

    `epsilon` is the whole budget; `algorithm` has been planned with what is left of it.
    """

    algorithm: Algorithm[Any]
    epsilon: float

    @property
    def name(self) -> str:  # type: ignore[override]
        """The algorithm's own name."""
        return self.algorithm.name

    @property
    def needs_batches(self) -> bool:  # type: ignore[override]
        """What the algorithm itself needs."""
        return self.algorithm.needs_batches

    @property
    def own(self) -> Algorithm[Any]:
        """The training of the model itself."""
        return self.algorithm

    def check(self, records: Any, prepared: PreparedBehind) -> None:
        """Refuse data that would break a bound, before anything is charged."""
        self.algorithm.check(records, prepared.inner)

    def passes(self, prepared: PreparedBehind) -> float:
        """Return about how often every row is read."""
        return self.algorithm.passes(prepared.inner)


@dataclass(frozen=True)
class Trained:
    """What an algorithm released (weights, one array for each model), its permit and theorems."""

    released: Any
    permit: Permit
    proofs: tuple[str, ...] = ()
