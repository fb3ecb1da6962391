"""What a ledger's store holds, and its records as JSON: the same in a file and in a database."""

import math
import secrets
from fractions import Fraction
from itertools import zip_longest
from typing import Any, NamedTuple

from noisette.core.storage.chain import Damaged

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


class Totals(NamedTuple):
    """How many charges were booked, and the exact sums of their costs."""

    number: int = 0
    first: Fraction = Fraction()
    second: Fraction = Fraction()

    def plus(self, cost: Cost) -> "Totals":
        """Return the totals after one more charge."""
        first, second = map(Fraction.from_float, cost)
        return Totals(self.number + 1, self.first + first, self.second + second)

    def costs(self) -> list[Cost]:
        """Return a few costs with exactly these sums, so that a filter rounds only once."""
        return list(zip_longest(pieces(self.first), pieces(self.second), fillvalue=0.0))

    def rounded(self) -> Cost:
        """Return the sums, each rounded once."""
        return float(self.first), float(self.second)


def pieces(total: Fraction) -> list[float]:
    """Return floats that add up to `total` exactly, the largest first: mostly one or two."""
    found = []
    while total:
        found.append(float(total))  # rounded once
        total -= Fraction.from_float(found[-1])
    return found


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

# What records of earlier versions lack; a new one has it only where it says something.
LATER = {
    "table": "", "unit": "record", "booked": "", "by": "", "model": "", "why": "", "cohort": "",
    "collected": "unknown",
}  # fmt: skip
_TYPES = [str, str, tuple, bool, *[str] * len(LATER)]


def header_node(header: Header, limit: Cost | None) -> dict[str, Any]:
    """Return the first line of a new ledger; `limit` is what its sums never exceed."""
    return {"id": secrets.token_hex(16), **header._asdict(), "limit": limit}


def header_of(node: dict[str, Any]) -> Header:
    """Return the header in a first line."""
    fields = [node[name] for name in Header._fields]
    if [type(value) for value in fields] != [float, float, str, str, bool]:
        raise Damaged
    return Header(*fields)


def charge_of(node: dict[str, Any]) -> Charge:
    """Return the charge of a record; every field is checked, none that costs is guessed."""
    fields: dict[str, Any] = LATER | {
        name: node[name] for name in Charge._fields if name in node or name not in LATER
    }
    fields["cost"] = tuple(fields["cost"])
    charge = Charge(**fields)
    known = [type(value) for value in charge] == _TYPES and charge.unit in ("record", "person")
    finite = (type(part) is float and 0.0 <= part < math.inf for part in charge.cost)
    if not known or len(charge.cost) != 2 or not all(finite):
        raise Damaged
    return charge


def totals_of(node: dict[str, Any] | None) -> Totals:
    """Return the running totals behind a record; none at all before the first."""
    if node is None:
        return Totals()
    number, *columns = node["totals"]
    first, second = (sum(map(Fraction.from_float, each), Fraction()) for each in columns)
    if type(number) is not int or number < 0 or min(first, second) < 0:
        raise Damaged
    return Totals(number, first, second)


def drawn_node(holder: str, drawn: Drawn) -> dict[str, Any]:
    """Return who may draw under a charge, and what may be drawn already."""
    return {"holder": holder, "counts": drawn.counts, "bounds": drawn.bounds}
