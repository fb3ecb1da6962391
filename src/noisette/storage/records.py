"""What a ledger's store holds, and what every store can do."""

import json
from collections.abc import Callable
from typing import NamedTuple, Protocol

__all__ = ["Charge", "Check", "CheckDrawn", "Drawn", "Draws", "Header", "Store"]


class Header(NamedTuple):
    """What is fixed when a ledger is opened for the first time."""

    epsilon: float
    delta: float
    adjacency: str
    rule: str


class Charge(NamedTuple):
    """One booked charge."""

    label: str
    plan: str
    cost: tuple[float, float]


class Drawn(NamedTuple):
    """What may have been drawn of each part of a plan, and what the guarantee must say of it."""

    counts: tuple[int, ...]
    seeded: bool = False
    """Whether any of it came from a seed: no successor may forget that."""
    bounds: tuple[str, ...] = ()
    """Ids of the theorems that bound the noised values."""

    def to_text(self) -> str:
        """Return the JSON text for the ledger's file."""
        return json.dumps(self._asdict())

    @classmethod
    def from_text(cls, text: str) -> "Drawn":
        """Return what `to_text` wrote, or raise ValueError; nothing in it is guessed."""
        node = json.loads(text)
        if isinstance(node, list):  # written before seeds were kept: assume the worst
            node = {"counts": node, "seeded": any(node), "bounds": []}
        if not isinstance(node, dict) or set(node) != set(cls._fields):
            raise ValueError("not the counts of a run")
        counts, seeded, bounds = node["counts"], node["seeded"], node["bounds"]
        if not isinstance(counts, list) or not all(type(n) is int and n >= 0 for n in counts):
            raise ValueError("a count is not a whole number >= 0")
        if not isinstance(seeded, bool) or not all(isinstance(bound, str) for bound in bounds):
            raise ValueError("a field has the wrong type")
        return cls(tuple(counts), seeded, tuple(bounds))


class Draws(NamedTuple):
    """What a long run must find again after a kill: its pair, its holder, and what it may have
    drawn.
    """

    epsilon: float
    delta: float
    holder: str
    drawn: Drawn


Check = Callable[[list[tuple[float, float]]], None]
CheckDrawn = Callable[[Drawn], None]


class Store(Protocol):
    """Reads all charges; books one after `check` has passed on everything spent so far."""

    def charges(self) -> list[Charge]: ...  # noqa: D102
    def book(self, charge: Charge, check: Check, draws: Draws | None = None) -> int: ...  # noqa: D102
    def advance(self, number: int, holder: str, drawn: Drawn) -> None: ...  # noqa: D102
    def claim(  # noqa: D102
        self, number: int, holder: str, check: CheckDrawn | None = None
    ) -> tuple[Charge, Draws]: ...
