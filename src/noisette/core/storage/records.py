"""What a ledger's store holds, and its records as JSON: the same in a file and in a database."""

import math
import secrets
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

# What records of earlier versions lack; a new one has it only where it says something.
_LATER = {
    "table": "", "unit": "record", "booked": "", "by": "", "model": "", "why": "", "cohort": "",
    "collected": "unknown",
}  # fmt: skip
_TYPES = [str, str, tuple, bool, *[str] * len(_LATER)]


def header_node(header: Header, limit: Cost | None) -> dict[str, Any]:
    """Return the first line of a new ledger; `limit` is what its sums never exceed."""
    return {"id": secrets.token_hex(16), **header._asdict(), "limit": limit}


def header_of(node: dict[str, Any]) -> Header:
    """Return the header in a first line."""
    fields = [node[name] for name in Header._fields]
    if [type(value) for value in fields] != [float, float, str, str, bool]:
        raise Damaged
    return Header(*fields)


def charge_node(charge: Charge, draws: Draws | None) -> dict[str, Any]:
    """Return the record of a new charge; `draws` if it can be resumed."""
    words = charge._replace(cost=(charge.cost[0] + 0.0, charge.cost[1] + 0.0))._asdict()  # no -0.0
    node = {"kind": "charge"} | {
        name: value for name, value in words.items() if value != _LATER.get(name)
    }
    if draws is not None:
        node["run"] = [draws.epsilon, draws.delta]
        node |= _drawn_node(draws.holder, draws.drawn)
    return node


def charge_of(node: dict[str, Any]) -> Charge:
    """Return the charge of a record; every field is checked, none that costs is guessed."""
    fields: dict[str, Any] = _LATER | {
        name: node[name] for name in Charge._fields if name in node or name not in _LATER
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
    totals = Totals.of(*node["totals"])
    if type(totals.number) is not int or min(totals.number, totals.first, totals.second) < 0:
        raise Damaged
    return totals


def draws_node(number: int, holder: str, drawn: Drawn) -> dict[str, Any]:
    """Return the record of who may draw under a charge, and what may be drawn already."""
    return {"kind": "draws", "charge": number, **_drawn_node(holder, drawn)}


def _drawn_node(holder: str, drawn: Drawn) -> dict[str, Any]:
    return {"holder": holder, "counts": drawn.counts, "bounds": drawn.bounds}


def run_of(first: dict[str, Any], last: dict[str, Any]) -> tuple[Charge, Draws]:
    """Return a charge and what its run must find again, from its record and its latest draws."""
    epsilon, delta = first["run"]
    drawn = Drawn(tuple(last["counts"]), tuple(last["bounds"]))
    if not all(type(n) is int and n >= 0 for n in drawn.counts):
        raise Damaged
    return charge_of(first), Draws(epsilon, delta, last["holder"], drawn)
