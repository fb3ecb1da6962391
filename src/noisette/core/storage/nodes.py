"""What one record of a ledger says, as JSON: the same in a file and in a database."""

import math
import secrets
from typing import Any

from noisette.core.storage.chain import Damaged
from noisette.core.storage.records import Charge, Cost, Drawn, Draws, Header, Receipt, Totals

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
        node |= drawn_node(draws.holder, draws.drawn)
    return node


def receipt_of(ledger: str, number: int, before: str, after: str) -> Receipt:
    """Return what lies beside a result: where in which chain of records it was paid for."""
    return {"format": 1, "ledger": ledger, "charge": number, "before": before, "after": after}


def charge_of(node: dict[str, Any]) -> Charge:
    """Return the charge of a record; every field is checked, none that costs is guessed."""
    fields: dict[str, Any] = _LATER | {
        name: node[name] for name in Charge._fields if name in node or name not in _LATER
    }
    fields["cost"] = tuple(fields["cost"])
    charge = Charge(**fields)
    if [type(value) for value in charge] != _TYPES or len(charge.cost) != 2:
        raise Damaged
    if charge.unit not in ("record", "person"):
        raise Damaged
    if not all(type(part) is float and 0.0 <= part < math.inf for part in charge.cost):
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


def drawn_node(holder: str, drawn: Drawn) -> dict[str, Any]:
    """Return the part of a record that says who may draw, and what may be drawn already."""
    return {"holder": holder, "counts": drawn.counts, "bounds": drawn.bounds}


def draws_of(node: dict[str, Any]) -> Draws:
    """Return what a run must find again after a kill."""
    epsilon, delta = node["run"]
    drawn = Drawn(tuple(node["counts"]), tuple(node["bounds"]))
    if not all(type(n) is int and n >= 0 for n in drawn.counts):
        raise Damaged
    return Draws(epsilon, delta, node["holder"], drawn)
