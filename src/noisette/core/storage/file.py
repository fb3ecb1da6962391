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
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path

from noisette.core.storage import chain, records
from noisette.core.storage.records import RESTORE, Charge, Cost, Header, Totals, pieces, totals_of
from noisette.core.storage.stores import LastingStore, Node, T, advice_on
from noisette.errors import LedgerError, NoisetteError

_EARLIER = b"SQLite format 3\0"
_FAILED = {
    chain.Busy: f"was busy for {chain.WAIT_SECONDS:.0f} seconds; try again when others have "
    "finished",
    FileNotFoundError: f"is gone; {RESTORE}",
    PermissionError: "cannot be written; make the file writable",
    OSError: "could not be written; the disk is full or failing",
}
_OTHERS = {
    b"": f"is empty: its charges are lost; {RESTORE}",
    _EARLIER: "is not a noisette ledger of this version, but a database; if an earlier noisette "
    "wrote it, start a new ledger with what was left",
}
_At = tuple[FileIO, chain.Mark]


class FileStore(LastingStore[_At]):
    """Charges in one file. It may be pickled: the copy goes on with the same file."""

    path: Path

    def __init__(self, path: Path) -> None:
        self.path, self.title = path, str(path)
        self._seen: chain.Mark | None = None
        """Where the chain ended when this process last looked: it can only go on from there."""
        self._holders: dict[int, str] = {}
        """Who may draw under the charges that this process has booked or claimed, as of then."""

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
            # or somebody else has just started it
            self._place(path, chain.first_pages(records.header_node(header, limit)))
        with self._opened(write=False) as (file, _):
            return records.header_of(chain.read_header(file)[1])

    def _reading(self, work: Callable[[_At], T]) -> T:
        with self._opened(write=False) as at:
            return work(at)

    def _append(self, make: Callable[[_At, Totals], Node | None]) -> int:
        with self._opened(write=True) as at:
            sums = self._spent(at)
            node = make(at, sums)
            if node is None:
                return sums.number
            if node["kind"] == "charge":
                sums = sums.plus(node["cost"])
                node = {**node, "booked": self._today()}
            totals = [sums.number, pieces(sums.first), pieces(sums.second)]
            self._seen = chain.append(*at, {**node, "totals": totals})
            if "holder" in node:
                self._holders[node.get("charge", sums.number)] = node["holder"]
            return sums.number

    def _spent(self, at: _At) -> Totals:
        return totals_of(next(chain.backwards(*at), None))

    def _today(self) -> str:
        # The day alone: how long a search took would tell how many runs it had.
        return time.strftime("%Y-%m-%d", time.gmtime())

    def _last_unit(self, at: _At, spent: Totals) -> str:
        last = self._charges(at, max(1, spent.number), None)
        return last[-1].unit if last else ""

    def _charges(self, at: _At, first: int, count: int | None) -> list[Charge]:
        """Whoever asks for all charges has the whole chain checked.

        A page is read from the end, so one near it in a time that does not grow with the ledger.
        """
        nodes, sums = list[Node](), Totals()
        for node in chain.backwards(*at):
            if node["totals"][0] < first:
                sums = totals_of(node)
                break
            nodes.append(node)
        known, collected = list[Charge](), dict[int, str]()
        for node in reversed(nodes):
            if node["kind"] == "charge":
                known.append(records.charge_of(node))
                sums = sums.plus(known[-1].cost)
            elif node["kind"] == "collected":
                collected[node["of"]] = node["digest"]
            if totals_of(node) != sums:
                raise chain.Damaged
        return [
            charge._replace(collected=collected.get(number, charge.collected))
            for number, charge in enumerate(known[:count], start=first)
        ]

    def _ends(self, at: _At, number: int) -> tuple[str, Node, Node] | None:
        last, digest = None, at[1].digest
        for node in chain.backwards(*at):
            if node.get("charge") == number:
                last = last or node
            if node["kind"] == "charge" and node["totals"][0] == number:
                return digest, node, last or node
            digest = node["before"]
        return None

    def _holds(self, at: _At, number: int, holder: str) -> bool:
        return self._holders.get(number) == holder

    def _notes(self, at: _At) -> list[Node]:
        return [n for n in chain.backwards(*at) if n["kind"] in ("table", "people")][::-1]

    def others(self) -> list[str]:
        """Return the paths of the other ledgers in this folder."""
        found = []
        for path in sorted(self.path.parent.iterdir()):
            with contextlib.suppress(OSError):
                if path.is_file() and not path.samefile(self.path):
                    with path.open("rb") as file:
                        if file.read(32).startswith(chain.MAGIC):
                            found.append(str(path))
        return found

    def copy_to(self, target: Path) -> None:
        """Write a copy, for a backup, of a ledger that was checked as a whole."""
        with self._opened(write=False) as at:
            for _ in chain.backwards(*at):
                pass
            at[0].seek(0)
            content = at[0].readall()
        if target.exists() or not self._place(target, content):
            raise LedgerError(f"{target} exists, so nothing was written; give the copy a new name.")

    # --- the file ------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _opened(self, *, write: bool) -> Iterator[_At]:
        """Lock the file, check that it is the same ledger as ever, yield it and its end."""
        try:
            with chain.locked(self.path, write=write) as file:
                self._seen = mark = self._look(file)
                yield file, mark
        except NoisetteError:
            raise
        except (chain.Busy, OSError, chain.Newer, chain.Unsure, *chain.WRONG) as error:
            raise LedgerError(self._explain(error)) from error

    def _look(self, file: FileIO) -> chain.Mark:
        """Return where the chain ends; refuse a file that forgot what this process has seen."""
        self._recognise(chain.read_header(file)[0])
        mark, seen = chain.read_mark(file), self._seen
        if seen is None or seen.digest == mark.digest:
            return mark
        held: dict[int, str] = {}
        with contextlib.suppress(*chain.WRONG):
            for node in chain.backwards(file, mark):
                if node.get("charge") in self._holders:
                    held.setdefault(node["charge"], str(node["holder"]))
                if node["before"] == seen.digest:
                    self._holders |= held
                    return mark
        raise self._lacks()

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
            with chain.alone_in(path.parent) as put:
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
        if getattr(error, "errno", None) == errno.EROFS:
            error = PermissionError()
        for kind, advice in _FAILED.items():
            if isinstance(error, kind):
                return f"{path} {advice}. Nothing was charged."
        start = b"?"
        with contextlib.suppress(OSError), open(path, "rb") as file:
            start = file.read(len(_EARLIER))
        return f"{path} {_OTHERS.get(start) or advice_on(error)}. Nothing was charged."
