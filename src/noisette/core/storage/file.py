"""A ledger in one file, shared by many processes.

A charge is one step for all of them: take the file's lock, read what is spent, check, add a record
(`chain`). Each operation opens the file anew and trusts nothing but its own last look at it, so
nothing is shared across a fork and a killed process leaves nothing half-done. The last record holds
the running totals: a charge takes the same time however long the ledger is.
"""

import contextlib
import errno
import os
import tempfile
import time
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any

from noisette.core.storage import chain, locks
from noisette.core.storage.nodes import (
    charge_node,
    charge_of,
    drawn_node,
    draws_of,
    header_node,
    header_of,
    receipt_of,
    totals_of,
)
from noisette.core.storage.records import (
    RESTORE,
    Charge,
    Check,
    CheckDrawn,
    Cost,
    Drawn,
    Draws,
    Header,
    Receipt,
    Totals,
    is_news,
    no_charge,
    one_unit,
)
from noisette.errors import LedgerError, NoisetteError

_EARLIER = b"SQLite format 3\0"
_WRONG = (chain.Damaged, KeyError, TypeError, ValueError, OverflowError, AttributeError)


class FileStore:
    """Charges in one file. It may be pickled: the copy goes on with the same file."""

    lasting = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self._id: str | None = None
        self._seen: chain.Mark | None = None
        """Where the chain ended when this process last looked: it can only go on from there."""
        self._holders: dict[int, str] = {}
        """Who may draw under the charges that this process has booked or claimed, as of then."""

    @property
    def title(self) -> str:
        """The path, for people."""
        return str(self.path)

    @property
    def id(self) -> str:
        """The digest of its header, which names it among all others."""
        return str(self._id)

    def create_or_read(self, header: Header | None, limit: Cost | None = None) -> Header:
        """Write `header` into a new file, or return the header that the file already has."""
        path = self.path
        if not path.exists() and header is None:
            raise LedgerError(
                f"there is no ledger at {path}; open it with epsilon=... to start one."
            )
        if path.exists() and not path.is_file():  # a device would be replaced by a file
            raise LedgerError(f"{path} is not an ordinary file; nothing was written.")
        if not path.parent.is_dir():
            raise LedgerError(f"the folder {path.parent} does not exist; nothing was written.")
        if header is not None and not path.exists():
            pages = chain.first_pages(header_node(header, limit))
            self._place(path, pages)  # or somebody else has just started it
        with self._opened(write=False) as (file, _):
            return header_of(chain.read_header(file)[1])

    def totals(self) -> Totals:
        """Return the number of charges and their exact sums."""
        with self._opened(write=False) as (file, mark):
            return totals_of(chain.read_last(file, mark))

    def charges(self, first: int = 1, count: int | None = None) -> list[Charge]:
        """Return the charges from number `first` on, at most `count`.

        Whoever asks for all of them has the whole chain checked. A page near the end is read from
        the end, in a time that does not grow with the ledger.
        """
        with self._opened(write=False) as (file, mark):
            if first > 1 + totals_of(chain.read_last(file, mark)).number // 2:
                return self._tail(file, mark, first)[:count]
            known, sums, collected = [], Totals(), dict[int, str]()
            for node in self._all(file, mark):
                if node["kind"] == "collected":
                    collected[node["of"]] = node["digest"]
                if node["kind"] == "charge":
                    charge = charge_of(node)
                    sums = sums.plus(charge.cost)
                    if first <= sums.number and (count is None or sums.number < first + count):
                        known.append(charge)
                if totals_of(node) != sums:
                    raise chain.Damaged
            return _with(collected, known, first)

    def _tail(self, file: FileIO, mark: chain.Mark, first: int) -> list[Charge]:
        known, collected = list[Charge](), dict[int, str]()
        for node in chain.backwards(file, mark):
            if node["totals"][0] < first:
                break
            if node["kind"] == "charge":
                known.append(charge_of(node))
            elif node["kind"] == "collected":
                collected[node["of"]] = node["digest"]
        return _with(collected, known[::-1], first)

    def book(self, charge: Charge, check: Check, draws: Draws | None = None) -> int:
        """Add `charge` if `check` passes; return its number."""
        with self._opened(write=True) as (file, mark):
            spent = totals_of(chain.read_last(file, mark))
            before = self._tail(file, mark, max(1, spent.number))
            one_unit(before[-1].unit if before else "", charge)
            check(spent)
            sums = spent.plus(charge.cost)
            self._append(file, mark, sums, charge_node(charge._replace(booked=_today()), draws))
            if draws is not None:
                self._holders[sums.number] = draws.holder
            return sums.number

    def mark_seeded(self, number: int) -> None:
        """Refuse: what was booked as secret noise stays so."""
        raise LedgerError(
            "this charge was booked for secret noise and a seeded source hides nobody; charge with "
            "seeded=True in a ledger for experiments. Nothing was drawn."
        )

    def advance(self, number: int, holder: str, drawn: Drawn) -> None:
        """Write down, before it happens, what `holder` may have drawn under a charge."""
        with self._opened(write=True) as (file, mark):
            if self._holders.get(number) != holder:
                raise LedgerError(
                    "this run was resumed elsewhere, so it may draw no more noise here; stop it."
                )
            self._append_draws(file, mark, number, holder, drawn)

    def run(self, number: int) -> tuple[Charge, Draws]:
        """Return a charge that can be resumed, and what may have been drawn under it."""
        with self._opened(write=False) as (file, mark):
            return self._run(file, mark, number)

    def claim(self, number: int, holder: str, check: CheckDrawn | None = None) -> Drawn:
        """Make `holder` the only one who may go on drawing, if `check` passes on what is gone."""
        with self._opened(write=True) as (file, mark):
            drawn = self._run(file, mark, number)[1].drawn
            if check is not None:
                check(drawn)  # what it raises leaves the permit where it is
            self._append_draws(file, mark, number, holder, drawn)
            self._holders[number] = holder
            return drawn

    def collect(self, number: int, digest: str, label: str) -> None:
        """Write down the digest of the result that a charge paid for, once."""
        with self._opened(write=True) as (file, mark):
            charges = self._tail(file, mark, number)
            if number < 1 or not charges:
                raise no_charge(self.title, number)
            if is_news(charges[0], number, digest):
                node = {"kind": "collected", "of": number, "digest": digest, "label": label}
                self._note(file, mark, node)

    def receipt(self, number: int) -> Receipt:
        """Return where in the chain a charge was booked."""
        with self._opened(write=False) as (file, mark):
            after = mark.digest
            for node in chain.backwards(file, mark):
                if node["kind"] == "charge" and node["totals"][0] == number:
                    return receipt_of(self.id, number, node["before"], after)
                after = node["before"]
        raise no_charge(self.title, number)

    def note(self, node: dict[str, Any]) -> None:
        """Add a record that costs nothing."""
        with self._opened(write=True) as (file, mark):
            self._note(file, mark, node)

    def notes(self) -> list[dict[str, Any]]:
        """Return the records that are about no charge."""
        with self._opened(write=False) as (file, mark):
            return [node for node in self._all(file, mark) if node["kind"] in ("table", "people")]

    def others(self) -> list[str]:
        """Return the paths of the other ledgers in this folder."""
        return [str(path) for path in sorted(self.path.parent.iterdir()) if self._is_other(path)]

    def _is_other(self, path: Path) -> bool:
        with contextlib.suppress(OSError):
            if path.is_file() and not path.samefile(self.path):
                with path.open("rb") as file:
                    return chain.is_ledger(file.read(32))
        return False

    def copy_to(self, target: Path) -> None:
        """Write a copy, for a backup, of a ledger that was checked as a whole."""
        with self._opened(write=False) as (file, mark):
            for _ in self._all(file, mark):
                pass
            file.seek(0)
            content = file.readall()
        if target.exists() or not self._place(target, content):
            raise LedgerError(f"{target} exists, so nothing was written; give the copy a new name.")

    # --- the file ------------------------------------------------------------------------------

    def _append(self, file: FileIO, mark: chain.Mark, sums: Totals, node: dict[str, Any]) -> None:
        totals = [sums.number, *sums.columns()]
        self._seen = chain.append(file, mark, {**node, "totals": totals})

    def _append_draws(
        self, file: FileIO, mark: chain.Mark, number: int, holder: str, drawn: Drawn
    ) -> None:
        node = {"kind": "draws", "charge": number, **drawn_node(holder, drawn)}
        self._note(file, mark, node)

    def _note(self, file: FileIO, mark: chain.Mark, node: dict[str, Any]) -> None:
        self._append(file, mark, totals_of(chain.read_last(file, mark)), node)

    def _run(self, file: FileIO, mark: chain.Mark, number: int) -> tuple[Charge, Draws]:
        found: dict[str, Any] | None = None
        for node in self._all(file, mark):
            if node["kind"] == "charge" and node["totals"][0] == number and "run" in node:
                found = node
            elif found is not None and node.get("charge") == number:
                found |= {name: node[name] for name in ("holder", "counts", "bounds")}
        if found is None:
            raise LedgerError(f"{self.path} has no run with number {number} to be resumed.")
        return charge_of(found), draws_of(found)

    def _all(self, file: FileIO, mark: chain.Mark) -> Iterator[dict[str, Any]]:
        return chain.records(file, chain.origin(file), mark)

    @contextlib.contextmanager
    def _opened(self, *, write: bool) -> Iterator[tuple[FileIO, chain.Mark]]:
        """Lock the file, check that it is the same ledger as ever, yield it and its end."""
        try:
            with locks.locked(self.path, write=write) as file:
                mark = self._look(file)
                self._seen = mark
                yield file, mark
        except NoisetteError:
            raise
        except (locks.Busy, OSError, chain.Newer, chain.Unsure, *_WRONG) as error:
            raise LedgerError(self._explain(error)) from error

    def _look(self, file: FileIO) -> chain.Mark:
        """Return where the chain ends; refuse a file that forgot what this process has seen."""
        mine, _ = chain.read_header(file)
        if self._id not in (None, mine):
            raise LedgerError(
                f"{self.path} is no longer the ledger that was opened; open it again. "
                "Nothing was charged."
            )
        self._id = mine
        mark, seen = chain.read_mark(file), self._seen
        if seen is None or seen.digest == mark.digest:
            return mark
        try:
            if seen.end >= mark.end:
                raise chain.Damaged
            for node in chain.records(file, seen, mark):
                if node.get("charge") in self._holders:
                    self._holders[node["charge"]] = str(node["holder"])
        except _WRONG:
            raise LedgerError(
                f"{self.path} lacks charges that it had before, so it was replaced by an older "
                "or another file; put the right one back. Nothing was charged."
            ) from None
        return mark

    def _place(self, path: Path, content: bytes) -> bool:
        """Put a new file in its place in one step; return False if there is one already.

        It is complete before it has its name, so nobody ever sees half a ledger, and of many who
        start one at once exactly one wins; a kill leaves at most a stray temporary file.
        """
        draft = None
        try:
            handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
            draft = Path(name)
            with open(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            with locks.alone_in(path.parent) as put:
                if path.exists():
                    return False
                put(draft, path)  # renamed, not linked: one file, one name
            return True
        except FileExistsError:
            return False
        except OSError as error:
            raise LedgerError(
                f"{path} cannot be written; make its folder writable and see that the disk is not "
                "full. Nothing was charged."
            ) from error
        finally:
            if draft is not None:
                draft.unlink(missing_ok=True)

    def _explain(self, error: Exception) -> str:
        path = self.path
        if isinstance(error, chain.Unsure):
            return f"{path} could not be written; the disk is failing. It may have been charged."
        advice = f"is damaged or is not a noisette ledger; {RESTORE}"
        if isinstance(error, chain.Newer):
            advice = (
                f"was written by a newer noisette (format {error}, this one reads {chain.FORMAT}); "
                "upgrade noisette"
            )
        elif isinstance(error, locks.Busy):
            waited = f"{locks.WAIT_SECONDS:.0f} seconds"
            advice = f"was busy for {waited}; try again when others have finished"
        elif isinstance(error, FileNotFoundError):
            advice = f"is gone; {RESTORE}"
        elif isinstance(error, PermissionError) or getattr(error, "errno", None) == errno.EROFS:
            advice = "cannot be written; make the file writable"
        elif isinstance(error, OSError):
            advice = "could not be written; the disk is full or failing"
        elif self._first_bytes() == b"":
            advice = f"is empty: its charges are lost; {RESTORE}"
        elif self._first_bytes() == _EARLIER:
            advice = (
                "is not a noisette ledger of this version, but a database; if an earlier noisette "
                "wrote it, start a new ledger with what was left"
            )
        return f"{path} {advice}. Nothing was charged."

    def _first_bytes(self) -> bytes:
        try:
            with open(self.path, "rb") as file:
                return file.read(len(_EARLIER))
        except OSError:
            return b"?"


def _with(collected: dict[int, str], charges: list[Charge], first: int) -> list[Charge]:
    """Return charges, the first with number `first`, with the digests of their results."""
    return [
        charge._replace(collected=collected.get(number, charge.collected))
        for number, charge in enumerate(charges, start=first)
    ]


def _today() -> str:
    # The day alone: how long a search took would tell how many runs it had.
    return time.strftime("%Y-%m-%d", time.gmtime())
