"""What a ledger's store holds, and what every store can do."""

from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from noisette.errors import InvalidParameter, LedgerError

Cost = tuple[float, float]
RESTORE = (
    "restore it from a backup, then charge by hand what was booked since; the receipts beside your "
    "models name it (noisette ledger LEDGER --against MODELS)"
)


class Header(NamedTuple):
    """What is fixed when a ledger is opened for the first time."""

    epsilon: float
    delta: float
    adjacency: str
    rule: str
    experiment: bool = False
    """Whether noise may come from a seed: such a ledger protects nobody."""


class Charge(NamedTuple):
    """One booked charge."""

    label: str
    plan: str
    cost: Cost
    seeded: bool = False
    """Whether its noise comes from a seed that somebody knows, so that it hides nobody."""
    table: str = ""
    """What the user calls the table that it is about."""
    unit: str = "record"
    """Whose data it protects together: one record, or one person with all rows."""
    booked: str = ""
    """When, in UTC: a file has the clock of who charged, a database that of the server."""
    by: str = ""
    """Who, where the store knows: the user of the database."""
    model: str = ""
    """Which kind of model it is about, such as LogisticRegression; nothing else if empty."""
    why: str = ""
    """What for, in the words of who charged."""
    cohort: str = ""
    """Which people of the table it is about, where a ledger tells several apart."""
    collected: str = ""
    """SHA-256 of the result that it paid for, once that was kept; "unknown" if none was to be."""

    @property
    def title(self) -> str:
        """The label, with a word about persons and about the seed where there is need."""
        label = self.label if self.unit == "record" else f"{self.label} [unit: {self.unit}]"
        return f"{label} (from a seed: hides nobody)" if self.seeded else label


def is_news(charge: Charge, number: int, digest: str) -> bool:
    """Whether a result is to be written down; refuse a second one for the same charge."""
    if charge.collected not in ("", "unknown", digest):
        raise LedgerError(
            f"charge {number} paid for another result, so this one is not written down beside it."
        )
    return charge.collected != digest


def no_charge(title: str, number: int) -> LedgerError:
    """Return the refusal of a number that no charge has."""
    return LedgerError(f"{title} has no charge with number {number}.")


def one_unit(before: str, charge: Charge) -> None:
    """Refuse a charge of another unit than `before`, that of the last one, if there is one.

    What one row costs says nothing about a person with k rows but k times as much, so the sum of
    both would be a promise to nobody. Every store asks this under its lock.
    """
    if before not in ("", charge.unit):
        raise InvalidParameter(
            f"this ledger adds up charges that protect one {before}, and this one protects "
            f"one {charge.unit}; use one ledger for each, nothing was charged."
        )


class Totals(NamedTuple):
    """How many charges were booked, and the exact sums of their costs in units of 2^-1074."""

    number: int = 0
    first: int = 0
    second: int = 0

    @classmethod
    def of(cls, number: int, first: list[float], second: list[float]) -> "Totals":
        """Return the exact sums of two columns of costs."""
        return cls(number, sum(map(_exact, first)), sum(map(_exact, second)))

    def plus(self, cost: Cost) -> "Totals":
        """Return the totals after one more charge."""
        return Totals(self.number + 1, self.first + _exact(cost[0]), self.second + _exact(cost[1]))

    def columns(self) -> tuple[list[float], list[float]]:
        """Return, for each sum, a few floats that add up to it exactly: mostly one or two."""
        return _pieces(self.first), _pieces(self.second)

    def costs(self) -> list[Cost]:
        """Return a few costs with exactly these sums, so that a filter rounds only once."""
        return list(zip_longest(*self.columns(), fillvalue=0.0))

    def rounded(self) -> Cost:
        """Return the sums, each rounded once."""
        return self.first / _ONE, self.second / _ONE


_ONE = 2**1074  # every float is a whole number of 2^-1074


def _exact(value: float) -> int:
    numerator, denominator = value.as_integer_ratio()
    return numerator * (_ONE // denominator)


def _pieces(total: int) -> list[float]:
    """Return floats that add up to `total` exactly, the largest first."""
    pieces = []
    while total:
        pieces.append(total / _ONE)  # Python divides whole numbers with one rounding
        total -= _exact(pieces[-1])
    return pieces


class Drawn(NamedTuple):
    """What may have been drawn of each part of a plan, and the theorems that bound the values."""

    counts: tuple[int, ...]
    bounds: tuple[str, ...] = ()


class Draws(NamedTuple):
    """What a long run must find again after a kill: its pair, its holder, and what it may have
    drawn.
    """

    epsilon: float
    delta: float
    holder: str
    drawn: Drawn


Receipt = dict[str, int | str]
Check = Callable[[Totals], None]
CheckDrawn = Callable[[Drawn], None]


class Store(Protocol):
    """Reads charges in pages; books one after `check` has passed on everything spent so far."""

    @property
    def path(self) -> Path | None: ...  # noqa: D102
    @property
    def id(self) -> str: ...  # noqa: D102
    @property
    def title(self) -> str: ...  # noqa: D102
    @property
    def lasting(self) -> bool: ...  # noqa: D102
    def totals(self) -> Totals: ...  # noqa: D102
    def charges(self, first: int = 1, count: int | None = None) -> list[Charge]: ...  # noqa: D102
    def book(self, charge: Charge, check: Check, draws: Draws | None = None) -> int: ...  # noqa: D102
    def mark_seeded(self, number: int) -> None: ...  # noqa: D102
    def advance(self, number: int, holder: str, drawn: Drawn) -> None: ...  # noqa: D102
    def run(self, number: int) -> tuple[Charge, Draws]: ...  # noqa: D102
    def claim(  # noqa: D102
        self, number: int, holder: str, check: CheckDrawn | None = None
    ) -> Drawn: ...
    def copy_to(self, target: Path) -> None: ...  # noqa: D102
    def collect(self, number: int, digest: str, label: str) -> None: ...  # noqa: D102
    def receipt(self, number: int) -> Receipt | None: ...  # noqa: D102
    def note(self, node: dict[str, Any]) -> None: ...  # noqa: D102
    def notes(self) -> list[dict[str, Any]]: ...  # noqa: D102
    def others(self) -> list[str]: ...  # noqa: D102
