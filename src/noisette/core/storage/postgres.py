"""A ledger in a PostgreSQL database, shared by many machines.

Two tables that only grow, through one function (`counting`): who may charge needs the rights SELECT
on the tables and EXECUTE on the function, and nobody needs INSERT, UPDATE or DELETE. Every record
is a sealed line that holds the digest of the one before (`chain`), so a line that was changed, left
out or put in is seen; and whoever reads adds up the costs, so a sealed line with other totals is,
too.

A charge is one transaction: take the ledger's advisory lock, read what is new, check, let the
function add the next record, commit. What holds whatever is killed or lost, and when:

- **A. No two records share a number.** (ledger, number) is the primary key, and the function adds a
  record only behind the one whose digest the client has seen; of two who want the same place one
  fails and begins again. So the totals in the last record are those of all records, with or without
  the lock, which only keeps the others from trying in vain.
- **B. A permit exists only after the record is on the server's disk.** The commit under the lock
  does not wait for it. When the lock is free, the same connection writes a few bytes more and
  waits for those (`database`). The server's log reaches the disk in order: with a later entry,
  all earlier ones are there, so the record is, and so are those whose totals it continues. A crash
  loses an end of the log, thus only records behind which nobody had waited: they have no permit.
  Where ``synchronous_standby_names`` is set, the wait is for the standby's disk too, in the same
  order, and a wait that somebody cancels is begun again. A server with ``fsync`` off is refused.
- **C. A lost answer is asked for again.** Each record has a random token. Whoever loses the
  connection in a commit takes the lock anew, which a transaction that is still under way holds,
  and looks for the token: it is there, and then it was booked, once, and is waited for (B); or it
  is not, because nothing was or a crash has lost it, and then it is checked and added anew.
- **D. The past cannot change while somebody looks**: a process remembers the last record that it
  added, which must still be there with the same digest. What others added it may have read before
  a crash lost it; then it adds up all records anew.

Days and names of users are the server's, so the clocks of its clients do not matter.
"""

import hashlib
import itertools
import json
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from noisette.core.storage import chain, counting, records
from noisette.core.storage.chain import FORMAT
from noisette.core.storage.database import Database
from noisette.core.storage.records import Charge, Header, Totals
from noisette.core.storage.stores import LastingStore, Node, T
from noisette.errors import LedgerError

_UNNAMED = "ledger"
_BATCH = 100  # an answer may have 1 GB, and a record 2 MB
_HEADER = "SELECT line FROM noisette_ledgers WHERE name = %s"
_START = "INSERT INTO noisette_ledgers (name, line) VALUES (%s, %s) ON CONFLICT DO NOTHING"
_LAST = """
SELECT current_setting('fsync'), l.line, coalesce(r.number, 0), r.digest, (
    SELECT array_agg(line ORDER BY number) FROM noisette_records
    WHERE ledger = l.name AND number > %s AND number <= %s
) FROM noisette_ledgers l LEFT JOIN LATERAL (
    SELECT number, left(line, 64) AS digest FROM noisette_records
    WHERE ledger = l.name ORDER BY number DESC LIMIT 1
) r ON true WHERE l.name = %s
"""
_PAGE = """
SELECT line, to_char(booked AT TIME ZONE 'UTC', 'YYYY-MM-DD'), booked_by
FROM noisette_records WHERE ledger = %s AND number >= %s AND number < %s ORDER BY number
"""
# A result stands under minus the number of its charge, and what is about no charge under 0.
_OF_CHARGES = """
SELECT charge, line FROM noisette_records WHERE ledger = %s AND charge > %s AND charge <= %s
ORDER BY number
"""
_ENDS = """
(SELECT line FROM noisette_records WHERE ledger = %s AND charge = %s ORDER BY number LIMIT 1)
UNION ALL
(SELECT line FROM noisette_records WHERE ledger = %s AND charge = %s ORDER BY number DESC LIMIT 1)
"""
_LINE = "SELECT line FROM noisette_records WHERE ledger = %s AND number = %s"
_OF_TOKEN = "SELECT number, line FROM noisette_records WHERE token = %s"


class _Point(NamedTuple):
    """A record, and what all records up to it add up to."""

    number: int
    digest: str
    totals: Totals = Totals()
    unit: str = ""

    def then(self, line: str) -> tuple["_Point", dict[str, Any]]:
        """Return the place and the content of the next record, which must continue this one."""
        digest, node = chain.unseal(line.encode())
        totals, unit = self.totals, self.unit
        if node["kind"] == "charge":
            charge = records.charge_of(node)
            totals, unit = totals.plus(charge.cost), charge.unit
        if node["before"] != self.digest or records.totals_of(node) != totals:
            raise chain.Damaged
        return _Point(self.number + 1, digest, totals, unit), node


def is_address(path: Any) -> bool:
    """Whether `path` names a database instead of a file."""
    return isinstance(path, str) and path.startswith(("postgresql://", "postgres://"))


def ledgers_at(address: str) -> list[str]:
    """Return the names of the ledgers in a database."""

    def names(server: Any) -> list[str]:
        if server.execute("SELECT to_regclass('noisette_ledgers')").fetchone()[0] is None:
            return []
        rows = server.execute("SELECT name FROM noisette_ledgers ORDER BY name").fetchall()
        return [quote(name) for (name,) in rows]

    return Database(address.partition("#")[0], "").transaction(names)


class PostgresStore(LastingStore[Any]):
    """Charges of one ledger in a database. It may be pickled: the copy connects by itself."""

    def __init__(self, address: str) -> None:
        bare, _, name = address.partition("#")
        self.name = unquote(name) or _UNNAMED
        self._database = Database(bare, self.name)
        self.title = self._database.title
        self._mine: tuple[int, str] = (0, "")
        """The last record that this process added, and its digest."""
        self._read: _Point | None = None
        """Up to where it has added up."""

    def __repr__(self) -> str:
        return f"<PostgresStore {self.title}>"

    def __reduce__(self) -> Any:
        state = {"id": self.id, "_mine": self._mine}
        return PostgresStore, (f"{self._database.address}#{quote(self.name)}",), state

    def create_or_read(self, header: Header | None, limit: records.Cost | None = None) -> Header:
        """Start the ledger of this name with `header`, or return the header that it has."""

        def start(server: Any) -> Header | None:
            fsync, there, ready, may = server.execute(counting.STATE).fetchone()
            self._lasts(fsync)
            if not there and header is None:
                return None
            if ready is None and may:
                counting.prepare(server)
            elif ready is False:
                raise LedgerError(
                    f"{counting.FUNCTION} at {self.title} does not belong to the owner of the "
                    "tables, so it may do anything; remove it. Nothing was charged."
                )
            row = server.execute(_HEADER, (self.name,)).fetchone()
            if row is None and header is not None:
                line = chain.seal({"format": FORMAT, **records.header_node(header, limit)}).decode()
                server.execute(_START, (self.name, line))
                row = server.execute(_HEADER, (self.name,)).fetchone()
            return None if row is None else self._header(row[0])

        found = self._database.transaction(
            start, lock=None if header is None else "noisette tables"
        )
        if found is None:
            raise LedgerError(
                f"there is no ledger {self.title}; open it with epsilon=... to start one."
            )
        return found

    def _reading(self, work: Callable[[Any], T]) -> T:
        return self._database.transaction(work)

    def _spent(self, at: Any) -> Totals:
        return self._end(at).totals

    def _last_unit(self, at: Any, spent: Totals) -> str:
        return "" if self._read is None else self._read.unit

    def _charges(self, at: Any, first: int, count: int | None) -> list[Charge]:
        end = self._end(at).number + 1
        start = self._place(at, first, end)
        stop = end if count is None else self._place(at, first + count, end)
        place, known = _Point(0, self.id), list[Charge]()
        if start > 1:
            (line,) = at.execute(_LINE, (self.name, start - 1)).fetchone()
            digest, node = chain.unseal(line.encode())
            place = _Point(start - 1, digest, records.totals_of(node))
        for line, booked, by in at.execute(_PAGE, (self.name, start, stop)).fetchall():
            place, node = place.then(line)
            if node["kind"] == "charge":
                known.append(records.charge_of(node)._replace(booked=booked, by=by))
        if place.number != max(stop, start) - 1:
            raise chain.Damaged
        results = at.execute(_OF_CHARGES, (self.name, -first - len(known), -first))
        for number, line in results.fetchall():
            digest = _node(line)["digest"]
            known[-number - first] = known[-number - first]._replace(collected=digest)
        return known

    def _ends(self, at: Any, number: int) -> tuple[str, Node, Node] | None:
        ends = at.execute(_ENDS, (self.name, number) * 2).fetchall()
        return (ends[0][0][:64], _node(ends[0][0]), _node(ends[-1][0])) if ends else None

    def _holds(self, at: Any, number: int, holder: str) -> bool:
        return self._run(at, number)[1].holder == _public(holder)

    def _notes(self, at: Any) -> list[Node]:
        self._end(at)
        return [_node(line) for _, line in at.execute(_OF_CHARGES, (self.name, -1, 0)).fetchall()]

    def others(self) -> list[str]:
        """Return the addresses of the other ledgers in this database."""
        names = ledgers_at(self._database.address)
        return [f"{self._database.address}#{name}" for name in names if unquote(name) != self.name]

    def copy_to(self, target: Path) -> None:
        """Refuse: a copy in a file would be a second budget of another kind."""
        raise LedgerError("a ledger in a database has no file to copy; back up the database.")

    # --- records -------------------------------------------------------------------------------

    def _header(self, line: str) -> Header:
        """Return the header in its line; refuse another ledger than was opened."""
        digest, node = chain.unseal(line.encode())
        if type(node["format"]) is not int or node["format"] > FORMAT:
            raise chain.Newer(str(node["format"]))
        self._recognise(digest)
        return records.header_of(node)

    def _end(self, server: Any) -> _Point:
        """Return the last record, after all costs that are new here were added up."""
        try:
            self._read = self._add_up(server, self._read)
        except chain.Damaged:
            if self._read is None:
                raise
            # What was read may not have been on the disk yet, and lost in a crash.
            self._read = self._add_up(server, None)
        return self._read

    def _add_up(self, server: Any, place: _Point | None) -> _Point:
        while True:
            since = 0 if place is None else place.number
            row = server.execute(_LAST, (since, since + _BATCH, self.name)).fetchone()
            if row is None:
                raise LedgerError(f"{self.title} is gone; {records.RESTORE}. Nothing was charged.")
            fsync, header, number, digest, lines = row
            self._lasts(fsync)
            self._header(header)
            place = place or _Point(0, self.id)
            for line in lines or ():
                place, _ = place.then(line)
                if self._mine[0] == place.number and self._mine[1] != place.digest:
                    raise self._lacks()
            if number < self._mine[0]:
                raise self._lacks()
            if number == place.number and digest in (None, place.digest):
                return place
            if not lines:
                raise chain.Damaged

    def _lasts(self, fsync: str) -> None:
        """Refuse a server that may say "written" and lose it."""
        if fsync != "on":
            raise LedgerError(
                f"the server of {self.title} has fsync off and may forget charges in a power "
                "cut; switch it on. Nothing was charged."
            )

    def _place(self, server: Any, charge: int, end: int) -> int:
        """Return the number of the record that booked a charge; `end` if there is none."""
        row = server.execute(
            "SELECT min(number) FROM noisette_records WHERE ledger = %s AND charge = %s",
            (self.name, charge),
        ).fetchone()
        return end if row[0] is None else int(row[0])

    # --- the server ----------------------------------------------------------------------------

    def _append(self, make: Callable[[Any, Totals], Node | None]) -> int:
        """Add one record, once, however often the connection breaks or somebody is faster."""
        token, tries = secrets.token_hex(16), itertools.count()
        if self._read is None:
            self.totals()  # not under the lock, where others would wait for a long ledger

        def once(server: Any) -> Any:
            if next(tries) > 0:
                row = server.execute(_OF_TOKEN, (token,)).fetchone()
                if row is not None:
                    return row
            end = self._end(server)
            node = make(server, end.totals)
            if node is None:
                return end.number, None
            secret = str(node.get("holder", ""))
            if secret:
                node = node | {"holder": _public(secret)}
            given = (self.name, end.digest, token, json.dumps(node), secret)
            return server.execute(counting.ADD, given)

        answer = self._database.transaction(once, lock=self.id)
        number, line = answer if isinstance(answer, tuple) else answer.fetchone()
        if line is None:
            return int(number)
        digest, node = chain.unseal(line.encode())
        # Not before: a crash of the server may lose what is not on its disk.
        self._mine = max(self._mine, (number, digest))
        return records.totals_of(node).number


def _node(line: str) -> Node:
    return chain.unseal(line.encode())[1]


def _public(secret: str) -> str:
    """Return what stands in the books of the secret by which a holder is known."""
    return hashlib.sha256(secret.encode()).hexdigest()
