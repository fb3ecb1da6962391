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

from noisette.core.storage import chain, counting
from noisette.core.storage.chain import FORMAT
from noisette.core.storage.database import Database
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
            charge = charge_of(node)
            totals, unit = totals.plus(charge.cost), charge.unit
        if node["before"] != self.digest or totals_of(node) != totals:
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


class PostgresStore:
    """Charges of one ledger in a database. It may be pickled: the copy connects by itself."""

    path = None
    lasting = True

    def __init__(self, address: str) -> None:
        bare, _, name = address.partition("#")
        self.name = unquote(name) or _UNNAMED
        self._database = Database(bare, self.name)
        self._digest: str | None = None
        self._mine: tuple[int, str] | None = None
        """The last record that this process added, and its digest."""
        self._read: _Point | None = None
        """Up to where it has added up."""

    def __repr__(self) -> str:
        return f"<PostgresStore {self.title}>"

    @property
    def title(self) -> str:
        """The address for people: without a password."""
        return self._database.title

    def __reduce__(self) -> Any:
        state = {"_digest": self._digest, "_mine": self._mine}
        return PostgresStore, (f"{self._database.address}#{quote(self.name)}",), state

    @property
    def id(self) -> str:
        """The digest of its header, which names it among all others."""
        return str(self._digest)

    # --- what every store can do ---------------------------------------------------------------

    def create_or_read(self, header: Header | None, limit: Cost | None = None) -> Header:
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
                line = chain.seal({"format": FORMAT, **header_node(header, limit)}).decode()
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

    def totals(self) -> Totals:
        """Return the number of charges and their exact sums."""
        return self._database.transaction(lambda server: self._end(server).totals)

    def charges(self, first: int = 1, count: int | None = None) -> list[Charge]:
        """Return the charges from number `first` on, at most `count`; what is read is checked."""

        def read(server: Any) -> list[Charge]:
            end = self._end(server).number + 1
            start = self._place(server, first, end)
            stop = end if count is None else self._place(server, first + count, end)
            place, known = _Point(0, self.id), list[Charge]()
            if start > 1:
                digest, node = self._line(server, start - 1)
                place = _Point(start - 1, str(digest), totals_of(node))
            for line, booked, by in server.execute(_PAGE, (self.name, start, stop)).fetchall():
                place, node = place.then(line)
                if node["kind"] == "charge":
                    known.append(charge_of(node)._replace(booked=booked, by=by))
            if place.number != max(stop, start) - 1:
                raise chain.Damaged
            results = server.execute(_OF_CHARGES, (self.name, -first - len(known), -first))
            for number, line in results.fetchall():
                digest = chain.unseal(line.encode())[1]["digest"]
                known[-number - first] = known[-number - first]._replace(collected=digest)
            return known

        return self._database.transaction(read)

    def book(self, charge: Charge, check: Check, draws: Draws | None = None) -> int:
        """Add `charge` if `check` passes; return its number."""
        secret = "" if draws is None else draws.holder
        if draws is not None:
            draws = draws._replace(holder=_public(secret))
        node = charge_node(charge, draws)

        def add(server: Any, token: str) -> Any:
            end = self._end(server)
            one_unit(end.unit, charge)
            check(end.totals)
            return self._add(server, token, end, node, secret)

        return totals_of(self._append(add)).number

    def mark_seeded(self, number: int) -> None:
        """Refuse: what was booked as secret noise stays so."""
        raise LedgerError(
            "this charge was booked for secret noise and a seeded source hides nobody; charge with "
            "seeded=True in a ledger for experiments. Nothing was drawn."
        )

    def advance(self, number: int, holder: str, drawn: Drawn) -> None:
        """Write down, before it happens, what `holder` may have drawn under a charge."""

        def add(server: Any, token: str) -> Any:
            if self._run(server, number)[1].holder != _public(holder):
                raise LedgerError(
                    "this run was resumed elsewhere, so it may draw no more noise here; stop it."
                )
            return self._add_draws(server, token, number, holder, drawn)

        self._append(add)

    def run(self, number: int) -> tuple[Charge, Draws]:
        """Return a charge that can be resumed, and what may have been drawn under it."""
        return self._database.transaction(lambda server: self._run(server, number))

    def claim(self, number: int, holder: str, check: CheckDrawn | None = None) -> Drawn:
        """Make `holder` the only one who may go on drawing, if `check` passes on what is gone."""
        found: list[Drawn] = []

        def add(server: Any, token: str) -> Any:
            drawn = self._run(server, number)[1].drawn
            if check is not None:
                check(drawn)  # what it raises leaves the permit where it is
            found[:] = [drawn]
            return self._add_draws(server, token, number, holder, drawn)

        self._append(add)
        return found[0]

    def collect(self, number: int, digest: str, label: str) -> None:
        """Write down the digest of the result that a charge paid for, once."""
        charges = self.charges(number, 1)
        if not charges:
            raise no_charge(self.title, number)
        if is_news(charges[0], number, digest):
            self.note({"kind": "collected", "of": number, "digest": digest, "label": label})

    def receipt(self, number: int) -> Receipt:
        """Return where in the chain a charge was booked."""

        def read(server: Any) -> Receipt:
            self._end(server)
            after, node = self._line(server, self._place(server, number, 0))
            if after is None:
                raise no_charge(self.title, number)
            return receipt_of(self.id, number, node["before"], after)

        return self._database.transaction(read)

    def note(self, node: dict[str, Any]) -> None:
        """Add a record that costs nothing."""
        self._append(lambda server, token: self._add(server, token, self._end(server), node))

    def notes(self) -> list[dict[str, Any]]:
        """Return the records that are about no charge."""

        def read(server: Any) -> list[dict[str, Any]]:
            self._end(server)
            rows = server.execute(_OF_CHARGES, (self.name, -1, 0)).fetchall()
            return [chain.unseal(line.encode())[1] for _, line in rows]

        return self._database.transaction(read)

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
        if self._digest not in (None, digest):
            raise LedgerError(
                f"{self.title} is no longer the ledger that was opened; open it again. "
                "Nothing was charged."
            )
        header = header_of(node)
        self._digest = digest
        return header

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
        mine = self._mine or (0, "")
        while True:
            since = 0 if place is None else place.number
            row = server.execute(_LAST, (since, since + _BATCH, self.name)).fetchone()
            if row is None:
                raise LedgerError(f"{self.title} is gone; {RESTORE}. Nothing was charged.")
            fsync, header, number, digest, lines = row
            self._lasts(fsync)
            self._header(header)
            place = place or _Point(0, self.id)
            for line in lines or ():
                place, _ = place.then(line)
                if mine[0] == place.number and mine[1] != place.digest:
                    raise self._lacks()
            if number < mine[0]:
                raise self._lacks()
            if number == place.number and digest in (None, place.digest):
                return place
            if not lines:
                raise chain.Damaged

    def _lacks(self) -> LedgerError:
        return LedgerError(
            f"{self.title} lacks charges that it had before, so it was replaced by an "
            "older or another one; put the right one back. Nothing was charged."
        )

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

    def _line(self, server: Any, number: int) -> tuple[str | None, dict[str, Any]]:
        row = server.execute(
            "SELECT line FROM noisette_records WHERE ledger = %s AND number = %s",
            (self.name, number),
        ).fetchone()
        return (None, {}) if row is None else chain.unseal(row[0].encode())

    def _add(
        self, server: Any, token: str, end: _Point, node: dict[str, Any], secret: str = ""
    ) -> Any:  # fmt: skip
        text = json.dumps(node)
        return server.execute(counting.ADD, (self.name, end.digest, token, text, secret))

    def _add_draws(self, server: Any, token: str, number: int, holder: str, drawn: Drawn) -> Any:
        node = {"kind": "draws", "charge": number, **drawn_node(_public(holder), drawn)}
        return self._add(server, token, self._end(server), node, holder)

    def _run(self, server: Any, number: int) -> tuple[Charge, Draws]:
        ends = server.execute(
            "(SELECT line FROM noisette_records WHERE ledger = %s AND charge = %s "
            "ORDER BY number LIMIT 1) UNION ALL (SELECT line FROM noisette_records "
            "WHERE ledger = %s AND charge = %s ORDER BY number DESC LIMIT 1)",
            (self.name, number) * 2,
        ).fetchall()
        nodes = [chain.unseal(row[0].encode())[1] for row in ends]
        if not nodes or "run" not in nodes[0]:
            raise LedgerError(f"{self.title} has no run with number {number} to be resumed.")
        found = nodes[0] | {name: nodes[-1][name] for name in ("holder", "counts", "bounds")}
        return charge_of(found), draws_of(found)

    # --- the server ----------------------------------------------------------------------------

    def _append(self, add: Callable[[Any, str], Any]) -> dict[str, Any]:
        """Add one record, once, however often the connection breaks or somebody is faster."""
        token, tries = secrets.token_hex(16), itertools.count()
        if self._read is None:
            self.totals()  # not under the lock, where others would wait for a long ledger

        def once(server: Any) -> Any:
            if next(tries) > 0:
                row = server.execute(_OF_TOKEN, (token,)).fetchone()
                if row is not None:
                    return row
            return add(server, token)

        answer = self._database.transaction(once, lock=self.id)
        number, line = answer if isinstance(answer, tuple) else answer.fetchone()
        digest, node = chain.unseal(line.encode())
        # Not before: a crash of the server may lose what is not on its disk.
        self._mine = max(self._mine or (0, ""), (number, digest))
        return node


def _public(secret: str) -> str:
    """Return what stands in the books of the secret by which a holder is known."""
    return hashlib.sha256(secret.encode()).hexdigest()
