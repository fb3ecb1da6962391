"""A ledger in a PostgreSQL database, shared by many machines.

Two tables that only grow: who may charge needs the rights SELECT and INSERT, and nobody needs
UPDATE or DELETE. Every record is a sealed line that holds the digest of the one before (`chain`),
so a line that was changed, left out or put in is seen.

A charge is one transaction: take the ledger's advisory lock, read the last record, check, add the
next one, commit. What holds whatever is killed or lost, and when:

- **A. No two records share a number.** (ledger, number) is the primary key; of two who write the
  same number one fails and begins again. So the totals in the last record are those of all
  records, with or without the lock, which only keeps the others from trying in vain.
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
  added, which must still be there with the same digest.

Times are the server's, so the clocks of its clients do not matter.
"""

import itertools
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from noisette.errors import LedgerError
from noisette.storage import chain
from noisette.storage.database import FORMAT, Database
from noisette.storage.nodes import (
    charge_node,
    charge_of,
    drawn_node,
    draws_of,
    receipt_of,
    totals_of,
)
from noisette.storage.records import (
    Charge,
    Check,
    CheckDrawn,
    Drawn,
    Draws,
    Header,
    Receipt,
    Totals,
    is_news,
    no_charge,
    one_unit,
)

__all__ = ["PostgresStore", "is_address", "ledgers_at"]

_UNNAMED = "ledger"

_TABLES = """
CREATE TABLE IF NOT EXISTS noisette_ledgers (
    name text PRIMARY KEY, line text NOT NULL,
    started timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_by text NOT NULL DEFAULT session_user
);
CREATE TABLE IF NOT EXISTS noisette_records (
    ledger text NOT NULL REFERENCES noisette_ledgers, number bigint NOT NULL,
    charge bigint NOT NULL, token text NOT NULL UNIQUE, line text NOT NULL,
    booked timestamptz NOT NULL DEFAULT clock_timestamp(),
    booked_by text NOT NULL DEFAULT session_user,
    PRIMARY KEY (ledger, number)
);
CREATE INDEX IF NOT EXISTS noisette_records_of_charge ON noisette_records (ledger, charge, number)
"""
_LAST = """
SELECT current_setting('fsync'), l.line, r.number, r.line, (
    SELECT line FROM noisette_records WHERE ledger = l.name AND number = %s
) FROM noisette_ledgers l LEFT JOIN LATERAL (
    SELECT number, line FROM noisette_records WHERE ledger = l.name ORDER BY number DESC LIMIT 1
) r ON true WHERE l.name = %s
"""
_ADD = """
INSERT INTO noisette_records (ledger, number, charge, token, line) VALUES (%s, %s, %s, %s, %s)
"""
_PAGE = """
SELECT line, to_char(booked AT TIME ZONE 'UTC', 'YYYY-MM-DD'), booked_by
FROM noisette_records WHERE ledger = %s AND number >= %s AND number < %s ORDER BY number
"""


_COLLECTED = """
SELECT charge, line FROM noisette_records WHERE ledger = %s AND charge > %s AND charge <= %s
"""
_OF_TOKEN = "SELECT charge, number, left(line, 64) FROM noisette_records WHERE token = %s"


class _Added(NamedTuple):
    """A new record: of which charge, its number and its digest."""

    charge: int
    number: int
    digest: str


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
        self._seen: tuple[int, str] | None = None

    def __repr__(self) -> str:
        return f"<PostgresStore {self.title}>"

    @property
    def title(self) -> str:
        """The address for people: without a password."""
        return self._database.title

    def __reduce__(self) -> Any:
        state = {"_digest": self._digest, "_seen": self._seen}
        return PostgresStore, (f"{self._database.address}#{quote(self.name)}",), state

    # --- what every store can do ---------------------------------------------------------------

    def create_or_read(self, header: Header | None) -> Header:
        """Start the ledger of this name with `header`, or return the header that it has."""

        def start(server: Any) -> Header | None:
            self._lasts(server.execute("SELECT current_setting('fsync')").fetchone()[0])
            there = server.execute("SELECT to_regclass('noisette_ledgers')").fetchone()[0]
            if there is None and header is not None:
                for table in _TABLES.split(";"):
                    server.execute(table)
            elif there is None:
                return None
            if header is not None:
                node = {"format": FORMAT, "id": secrets.token_hex(16), **header._asdict()}
                server.execute(
                    "INSERT INTO noisette_ledgers (name, line) VALUES (%s, %s) "
                    "ON CONFLICT DO NOTHING",
                    (self.name, chain.seal(node).decode()),
                )
            row = server.execute(
                "SELECT line FROM noisette_ledgers WHERE name = %s", (self.name,)
            ).fetchone()
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
        return self._database.transaction(lambda server: totals_of(self._last(server)[1]))

    def charges(self, first: int = 1, count: int | None = None) -> list[Charge]:
        """Return the charges from number `first` on, at most `count`; what is read is checked."""

        def read(server: Any) -> list[Charge]:
            last, _, _ = self._last(server)
            start = self._place(server, first, last + 1)
            stop = last + 1 if count is None else self._place(server, first + count, last + 1)
            before = self._digest if start == 1 else self._line(server, start - 1)[0]
            known = []
            rows = server.execute(_PAGE, (self.name, start, stop)).fetchall()
            for line, booked, by in rows:
                digest, node = chain.unseal(line.encode())
                if node["before"] != before:
                    raise chain.Damaged
                before = digest
                if node["kind"] == "charge":
                    known.append(charge_of(node)._replace(booked=booked, by=by))
            if len(rows) != max(stop - start, 0):
                raise chain.Damaged
            for place, line in server.execute(
                _COLLECTED, (self.name, -first - len(known), -first)
            ).fetchall():
                digest = chain.unseal(line.encode())[1]["digest"]
                known[-place - first] = known[-place - first]._replace(collected=digest)
            return known

        return self._database.transaction(read)

    def book(self, charge: Charge, check: Check, draws: Draws | None = None) -> int:
        """Add `charge` if `check` passes; return its number."""
        node = charge_node(charge, draws)

        def add(server: Any, token: str) -> _Added:
            number, last, digest = self._last(server)
            spent = totals_of(last)
            one_unit(self._charge_before(server, last), charge)
            check(spent)
            sums = spent.plus(charge.cost)
            return self._add(server, token, number, digest, sums, node, sums.number)

        return self._append(add)

    def mark_seeded(self, number: int) -> None:
        """Refuse: what was booked as secret noise stays so."""
        raise LedgerError(
            "this charge was booked for secret noise and a seeded source hides nobody; charge with "
            "seeded=True in a ledger for experiments. Nothing was drawn."
        )

    def advance(self, number: int, holder: str, drawn: Drawn) -> None:
        """Write down, before it happens, what `holder` may have drawn under a charge."""

        def add(server: Any, token: str) -> _Added:
            if self._run(server, number)[1].holder != holder:
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

        def add(server: Any, token: str) -> _Added:
            drawn = self._run(server, number)[1].drawn
            if check is not None:
                check(drawn)  # what it raises leaves the permit where it is
            found[:] = [drawn]
            return self._add_draws(server, token, number, holder, drawn)

        self._append(add)
        return found[0]

    def collect(self, number: int, digest: str, label: str) -> None:
        """Write down the digest of the result that a charge paid for, once."""
        node = {"kind": "collected", "of": number, "digest": digest, "label": label}

        def add(server: Any, token: str) -> _Added:
            last, found, before = self._last(server)
            return self._add(server, token, last, before, totals_of(found), node, -number)

        charges = self.charges(number, 1)
        if not charges:
            raise no_charge(self.title, number)
        if is_news(charges[0], number, digest):
            self._append(add)

    def receipt(self, number: int) -> Receipt:
        """Return where in the chain a charge was booked."""

        def read(server: Any) -> Receipt:
            self._last(server)
            after, node = self._line(server, self._place(server, number, 0))
            if after is None:
                raise no_charge(self.title, number)
            return receipt_of(str(self._digest), number, node["before"], after)

        return self._database.transaction(read)

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
        fields = [node[name] for name in Header._fields]
        if [type(value) for value in fields] != [float, float, str, str, bool]:
            raise chain.Damaged
        self._digest = digest
        return Header(*fields)

    def _last(self, server: Any) -> tuple[int, dict[str, Any] | None, str]:
        """Return number, content and digest of the last record; refuse a past that changed."""
        place, known = self._seen or (0, None)
        row = server.execute(_LAST, (place + 1, self.name)).fetchone()
        if row is None:
            raise LedgerError(
                f"{self.title} is gone; restore it from a backup. Nothing was charged."
            )
        fsync, header, number, line, following = row
        self._lasts(fsync)
        self._header(header)
        digest, node = str(self._digest), None
        if line is not None:
            digest, node = chain.unseal(line.encode())
        if known is not None and (number, digest) != (place, known):
            after = {} if following is None else chain.unseal(following.encode())[1]
            if after.get("before") != known:
                raise LedgerError(
                    f"{self.title} lacks charges that it had before, so it was replaced by an "
                    "older or another one; put the right one back. Nothing was charged."
                )
        return number or 0, node, digest

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

    def _charge_before(self, server: Any, last: dict[str, Any] | None) -> list[Charge]:
        """Return the latest charge in a list, none if there is none; `last` is the last record."""
        if last is None:
            return []
        if last["kind"] != "charge":
            last = self._line(server, self._place(server, totals_of(last).number, 0))[1]
        return [charge_of(last)]

    def _line(self, server: Any, number: int) -> tuple[str | None, dict[str, Any]]:
        row = server.execute(
            "SELECT line FROM noisette_records WHERE ledger = %s AND number = %s",
            (self.name, number),
        ).fetchone()
        return (None, {}) if row is None else chain.unseal(row[0].encode())

    def _add(
        self, server: Any, token: str, last: int, digest: str, sums: Totals, node: dict[str, Any],
        charge: int,
    ) -> _Added:  # fmt: skip
        totals = [sums.number, *sums.columns()]
        line = chain.seal({"before": digest, **node, "totals": totals}).decode()
        server.execute(_ADD, (self.name, last + 1, charge, token, line))
        return _Added(charge, last + 1, line[:64])

    def _add_draws(
        self, server: Any, token: str, number: int, holder: str, drawn: Drawn
    ) -> _Added:  # fmt: skip
        last, node, digest = self._last(server)
        record = {"kind": "draws", "charge": number, **drawn_node(holder, drawn)}
        return self._add(server, token, last, digest, totals_of(node), record, number)

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

    def _append(self, add: Callable[[Any, str], _Added]) -> int:
        """Add one record, once, however often the connection breaks or somebody is faster."""
        token, tries = secrets.token_hex(16), itertools.count()

        def once(server: Any) -> _Added:
            if next(tries) > 0:
                row = server.execute(_OF_TOKEN, (token,)).fetchone()
                if row is not None:
                    return _Added(*row)
            return add(server, token)

        added = self._database.transaction(once, lock=str(self._digest))
        # Not before: a crash of the server may lose what is not on its disk.
        self._seen = max(self._seen or (0, ""), (added.number, added.digest))
        return added.charge
