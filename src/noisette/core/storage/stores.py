"""What every store of charges can do: one in memory, and the base of those that outlive us."""

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

from noisette.core.storage import records
from noisette.core.storage.chain import FORMAT, Damaged, Newer
from noisette.core.storage.records import Charge, Drawn, Draws, Receipt, Totals, drawn_node
from noisette.errors import InvalidParameter, LedgerError

T = TypeVar("T")
At = TypeVar("At")
Check = Callable[[Totals], None]
Node = dict[str, Any]


def _one_unit(before: str, charge: Charge) -> None:
    """Refuse a charge of another unit than `before`, that of the last one, if there is one.

    What one row costs says nothing about a person with k rows but k times as much, so the sum of
    both would be a promise to nobody. Every store asks this under its lock.
    """
    if before not in ("", charge.unit):
        raise InvalidParameter(
            f"this ledger adds up charges that protect one {before}, and this one protects "
            f"one {charge.unit}; use one ledger for each, nothing was charged."
        )


def _is_news(charges: list[Charge], title: str, number: int, digest: str) -> bool:
    """Whether a result is to be written down; refuse a second one for the same charge."""
    if not charges:
        raise LedgerError(f"{title} has no charge with number {number}.")
    if charges[0].collected not in ("", "unknown", digest):
        raise LedgerError(
            f"charge {number} paid for another result, so this one is not written down beside it."
        )
    return charges[0].collected != digest


class MemoryStore:
    """Charges of one process, guarded by a lock; never copied into another process."""

    path = None
    title = "memory"
    lasting = False
    id = ""

    def __init__(self) -> None:
        self._charges: list[Charge] = []
        self._totals = Totals()
        self._notes: list[Node] = []
        self._lock = threading.Lock()
        self._process = os.getpid()

    def totals(self) -> Totals:
        """Return the number of charges and their exact sums."""
        return self._totals

    def charges(self, first: int = 1, count: int | None = None) -> list[Charge]:
        """Return the charges from number `first` on, at most `count` of them."""
        return self._charges[first - 1 :][:count]

    def book(self, charge: Charge, check: Check, draws: Draws | None = None) -> int:
        """Append `charge` if `check` passes; return its number, counted from 1."""
        if draws is not None:
            self.run()
        if os.getpid() != self._process:
            self.__reduce__()
        with self._lock:
            _one_unit(self._charges[-1].unit if self._charges else "", charge)
            check(self._totals)
            self._charges.append(charge)
            self._totals = self._totals.plus(charge.cost)
            return len(self._charges)

    def mark_seeded(self, number: int) -> None:
        """Note that the noise of a charge comes from a seed."""
        with self._lock:
            self._charges[number - 1] = self._charges[number - 1]._replace(seeded=True)

    def collect(self, number: int, digest: str, label: str) -> None:
        """Note the digest of the result that a charge paid for."""
        with self._lock:
            if _is_news(self.charges(number, 1), self.title, number, digest):
                self._charges[number - 1] = self._charges[number - 1]._replace(collected=digest)

    def receipt(self, number: int) -> None:
        """Return None: what ends with its process can be shown to nobody."""

    def note(self, node: Node) -> None:
        """Add a record that costs nothing."""
        self._notes.append(node)

    def notes(self) -> list[Node]:
        """Return the records that are about no charge."""
        return list(self._notes)

    def others(self) -> list[str]:
        """Return nothing: other ledgers in memory belong to others."""
        return []

    def copy_to(self, target: Path) -> None:
        """Refuse: there is no file."""
        raise LedgerError("a ledger in memory has no file to copy.")

    def __reduce__(self) -> NoReturn:  # two copies would allow twice the budget
        raise LedgerError(
            "a ledger in memory belongs to one process; use Ledger.open(path) to share one."
        )

    def run(self, *args: Any) -> NoReturn:
        """Refuse: memory does not outlive its process."""
        raise LedgerError(
            "a run can be resumed only with a ledger in a file; use Ledger.open(path, ...). "
            "Nothing was charged."
        )

    advance = claim = run


class LastingStore(ABC, Generic[At]):
    """Charges as chained records that many processes share.

    A place (`At`) is where a record can be read or added, as of one moment: what it says cannot
    change before the place is given back.
    """

    path: Path | None = None
    lasting = True
    title: str
    id: str = ""
    """The digest of its header, which names it among all others."""

    @abstractmethod
    def _reading(self, work: Callable[[At], T]) -> T:
        """Do `work` at the end of the chain."""

    @abstractmethod
    def _append(self, make: Callable[[At, Totals], Node | None]) -> int:
        """Add the record that `make` returns, if any, while nobody else adds one.

        Return how many charges there are. `make` is given what was spent, and may be called again
        if somebody was faster.
        """

    @abstractmethod
    def _spent(self, at: At) -> Totals:
        """Return what all records add up to."""

    @abstractmethod
    def _last_unit(self, at: At, spent: Totals) -> str:
        """Return the unit of the last charge, "" if there is none."""

    @abstractmethod
    def _charges(self, at: At, first: int, count: int | None) -> list[Charge]:
        """Return the charges from number `first` on, at most `count`; what is read is checked."""

    @abstractmethod
    def _ends(self, at: At, number: int) -> tuple[str, Node, Node] | None:
        """Return digest and record of a charge, and the latest record about its draws."""

    @abstractmethod
    def _holds(self, at: At, number: int, holder: str) -> bool:
        """Whether `holder` is the one who may draw under a charge."""

    @abstractmethod
    def _notes(self, at: At) -> list[Node]:
        """Return the records that are about no charge."""

    def totals(self) -> Totals:
        """Return the number of charges and their exact sums."""
        return self._reading(self._spent)

    def charges(self, first: int = 1, count: int | None = None) -> list[Charge]:
        """Return the charges from number `first` on, at most `count`."""
        return self._reading(lambda at: self._charges(at, first, count))

    def book(self, charge: Charge, check: Check, draws: Draws | None = None) -> int:
        """Add `charge` if `check` passes; return its number."""

        def make(at: At, spent: Totals) -> Node:
            _one_unit(self._last_unit(at, spent), charge)
            check(spent)
            cost = charge.cost[0] + 0.0, charge.cost[1] + 0.0  # no -0.0
            node: Node = {"kind": "charge"}
            for name, value in charge._replace(cost=cost)._asdict().items():
                if value != records.LATER.get(name):
                    node[name] = value
            if draws is None:
                return node
            node["run"] = [draws.epsilon, draws.delta]
            return node | drawn_node(draws.holder, draws.drawn)

        return self._append(make)

    def mark_seeded(self, number: int) -> None:
        """Refuse: what was booked as secret noise stays so."""
        raise LedgerError(
            "this charge was booked for secret noise and a seeded source hides nobody; charge with "
            "seeded=True in a ledger for experiments. Nothing was drawn."
        )

    def advance(self, number: int, holder: str, drawn: Drawn) -> None:
        """Write down, before it happens, what `holder` may have drawn under a charge."""

        def make(at: At, spent: Totals) -> Node:
            if not self._holds(at, number, holder):
                raise LedgerError(
                    "this run was resumed elsewhere, so it may draw no more noise here; stop it."
                )
            return {"kind": "draws", "charge": number, **drawn_node(holder, drawn)}

        self._append(make)

    def run(self, number: int) -> tuple[Charge, Draws]:
        """Return a charge that can be resumed, and what may have been drawn under it."""
        return self._reading(lambda at: self._run(at, number))

    def _run(self, at: At, number: int) -> tuple[Charge, Draws]:
        ends = self._ends(at, number)
        if ends is None or "run" not in ends[1]:
            raise LedgerError(f"{self.title} has no run with number {number} to be resumed.")
        _, first, last = ends
        epsilon, delta = first["run"]
        drawn = Drawn(tuple(last["counts"]), tuple(last["bounds"]))
        if not all(type(n) is int and n >= 0 for n in drawn.counts):
            raise Damaged
        return records.charge_of(first), Draws(epsilon, delta, last["holder"], drawn)

    def claim(self, number: int, holder: str, check: Callable[[Drawn], None] | None) -> Drawn:
        """Make `holder` the only one who may go on drawing, if `check` passes on what is gone."""
        found: list[Drawn] = []

        def make(at: At, spent: Totals) -> Node:
            drawn = self._run(at, number)[1].drawn
            if check is not None:
                check(drawn)  # what it raises leaves the permit where it is
            found[:] = [drawn]
            return {"kind": "draws", "charge": number, **drawn_node(holder, drawn)}

        self._append(make)
        return found[0]

    def collect(self, number: int, digest: str, label: str) -> None:
        """Write down the digest of the result that a charge paid for, once."""

        def make(at: At, spent: Totals) -> Node | None:
            if not _is_news(self._charges(at, number, 1), self.title, number, digest):
                return None
            return {"kind": "collected", "of": number, "digest": digest, "label": label}

        self._append(make)

    def receipt(self, number: int) -> Receipt:
        """Return where in the chain a charge was booked, to lie beside its result."""

        def work(at: At) -> tuple[str, Node, Node] | None:
            self._spent(at)  # what is new was checked
            return self._ends(at, number)

        found = self._reading(work)
        if found is None:
            raise LedgerError(f"{self.title} has no charge with number {number}.")
        return {
            "format": 1, "ledger": self.id, "charge": number,
            "before": found[1]["before"], "after": found[0],
        }  # fmt: skip

    def note(self, node: Node) -> None:
        """Add a record that costs nothing."""
        self._append(lambda at, spent: node)

    def notes(self) -> list[Node]:
        """Return the records that are about no charge."""
        return self._reading(self._notes)

    def _recognise(self, digest: str) -> None:
        """Refuse another ledger than was opened."""
        if self.id not in ("", digest):
            raise LedgerError(
                f"{self.title} is no longer the ledger that was opened; open it again. "
                "Nothing was charged."
            )
        self.id = digest

    def _lacks(self) -> LedgerError:
        return LedgerError(
            f"{self.title} lacks charges that it had before, so it was replaced by an older or "
            "another one; put the right one back. Nothing was charged."
        )


def advice_on(error: Exception) -> str:
    """Say what to do about records that cannot be read."""
    if isinstance(error, Newer):
        return (
            f"was written by a newer noisette (format {error}, this one reads {FORMAT}); "
            "upgrade noisette"
        )
    return f"is damaged or is not a noisette ledger; {records.RESTORE}"
