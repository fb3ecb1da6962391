"""`LedgerBooks`: what a ledger keeps and shows beside its rule. Nothing here charges anything."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from noisette import _validate
from noisette.core.storage.file import FileStore
from noisette.core.storage.postgres import PostgresStore, is_address
from noisette.core.storage.records import Charge, Receipt
from noisette.core.storage.stores import MemoryStore
from noisette.errors import InvalidParameter, LedgerError

Store = MemoryStore | FileStore | PostgresStore
_HALF = re.compile("[\ud800-\udfff]")


def store_at(path: str | os.PathLike[str]) -> FileStore | PostgresStore:
    """Return the store that an address means, not yet opened."""
    # Resolved now: a later chdir must not lead the charges to another file.
    return PostgresStore(str(path)) if is_address(path) else FileStore(_validate.real_path(path))


class LedgerBooks:
    """The charges of a ledger, the results that they paid for, and the tables that it is about."""

    _store: Store
    _table: str
    _awaits = False
    """Whether who charges will `collect`; a program has the result itself when it is made."""
    last_charge: int | None = None
    """The number of the latest charge that was made or resumed through this object."""

    @property
    def path(self) -> Path | None:
        """The ledger's file; None for a ledger in memory or in a database."""
        return self._store.path

    @property
    def title(self) -> str:
        """Where it is, for people: the file, the database without a password, or "memory"."""
        return self._store.title

    @property
    def lasting(self) -> bool:
        """Whether it outlives this process: in a file or a database, not in memory."""
        return self._store.lasting

    @property
    def id(self) -> str:
        """The name that tells it from all other ledgers, for receipts; "" in memory."""
        return self._store.id

    @property
    def charges(self) -> list[Charge]:
        """All charges booked so far, in order."""
        return self._store.charges()

    @property
    def count(self) -> int:
        """How many charges were booked so far."""
        return self._store.totals().number

    def page(self, first: int, count: int) -> list[Charge]:
        """Return at most `count` charges from number `first` (counted from 1) on.

        Parameters
        ----------
        first : int
            The number of the first charge to return.
        count : int
            How many to return at most.

        Returns
        -------
        list of Charge
            Label, plan (JSON), cost and whether it was seeded.

        """
        first, count = _validate.integer("first", first), _validate.integer("count", count)
        return self._store.charges(first, count)

    # --- results -------------------------------------------------------------------------------

    def collect(self, number: int, digest: str, label: str = "") -> None:
        """Write down that the result of a charge was kept. It costs nothing.

        Parameters
        ----------
        number : int
            The charge's number, such as `last_charge`.
        digest : str
            SHA-256 of the result's file, in hex. Once is enough; the same again changes nothing.
        label : str, optional
            A few words for the books.

        Raises
        ------
        LedgerError
            If there is no such charge, or it paid for another result.
        InvalidParameter
            If `digest` is no SHA-256, or `label` no text.

        Examples
        --------
        >>> import hashlib
        >>> from noisette import Ledger, mechanisms
        >>> ledger = Ledger(epsilon=1.0)
        >>> permit = ledger.charge(mechanisms.Laplace(noise_multiplier=8.0), label="mean age")
        >>> ledger.collect(ledger.last_charge, hashlib.sha256(b"the file").hexdigest())
        >>> ledger.uncollected(), ledger.receipt(ledger.last_charge)
        ([], None)
        >>> ledger.charges[0].collected[:8]
        '994659de'

        """
        if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
            raise InvalidParameter("digest must be a SHA-256 in hex.")
        if not is_text(label):
            raise InvalidParameter("label must be a text.")
        self._store.collect(_validate.integer("number", number), digest, label)

    def receipt(self, number: int) -> Receipt | None:
        """Return what shows later that this ledger had a charge, to lie beside its result.

        Parameters
        ----------
        number : int
            The charge's number.

        Returns
        -------
        dict or None
            The ledger's id and the charge's place in the chain; None for a ledger in memory.

        """
        return self._store.receipt(_validate.integer("number", number))

    def uncollected(self) -> list[Charge]:
        """Return the charges that were paid and whose result nobody has kept.

        Returns
        -------
        list of Charge
            Those of commands: a program has what it pays for at once, and may `collect` it.

        """
        return [charge for charge in self.charges if not charge.collected]

    # --- tables --------------------------------------------------------------------------------

    def remember(self, columns: Mapping[str, str]) -> None:
        """Keep what the table looks like, so that a second ledger for it is noticed.

        Parameters
        ----------
        columns : dict
            The kind of each column by its name. Nothing about rows is kept.

        Raises
        ------
        InvalidParameter
            If names and kinds are not texts.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> from noisette import Ledger
        >>> folder = Path(tempfile.mkdtemp())
        >>> first = Ledger.open(folder / "first.ledger", epsilon=1.0, table="patients")
        >>> first.remember({"age": "number", "ward": "category"})
        >>> second = Ledger.open(folder / "second.ledger", epsilon=1.0)
        >>> second.remember({"age": "number", "ward": "category"})
        >>> [Path(other).name for other in second.matching()]
        ['first.ledger']
        >>> second.answer(second.matching()[0], same=True)
        >>> second.matching(), second.people, first.people
        ([], {'first.ledger': True}, {'second.ledger': True})

        """
        if not all(map(is_text, [*columns, *columns.values()])):
            raise InvalidParameter("columns must be texts: the kind of each column by its name.")
        node = {"kind": "table", "table": self._table, "columns": list(map(list, columns.items()))}
        if not any(node.items() <= known.items() for known in self._store.notes()):
            self._store.note(node)

    @property
    def tables(self) -> list[tuple[str, dict[str, str]]]:
        """What was remembered: the name of each table, and the kinds of its columns."""
        return _tables(self._store)

    def matching(self, columns: Mapping[str, str] | None = None) -> list[str]:
        """Return other ledgers of the same folder or database that are about such a table.

        Parameters
        ----------
        columns : dict, optional
            The kind of each column by its name; the tables of this ledger if not given.

        Returns
        -------
        list of str
            Their titles; none for which `answer` has said whether the people are the same. Tables
            match that have the same names of columns, because kinds are edited.

        """
        wanted = [set(kinds) for _, kinds in (self.tables if columns is None else [("", columns)])]
        if not wanted:
            return []
        answered = {node["ledger"] for node in self._store.notes() if node["kind"] == "people"}
        return [
            store.title
            for store in self._others()
            if store.id not in answered and any(set(kinds) in wanted for _, kinds in _tables(store))
        ]

    def answer(self, title: str, *, same: bool) -> None:
        """Keep, in both ledgers, whether they are about the same people.

        Parameters
        ----------
        title : str
            The other ledger, as `matching` names it, or by its name alone.
        same : bool
            True: what both spend adds up for these people.

        Raises
        ------
        LedgerError
            If there is no such ledger beside this one.

        """
        found = [store for store in self._others() if title in (store.title, _short(store))]
        if len(found) != 1:
            raise LedgerError(f"there is no ledger {title} beside {self.title}.")
        for one, other in ((found[0], self._store), (self._store, found[0])):
            node = {"kind": "people", "ledger": other.id, "title": _short(other)}
            one.note(node | {"same": _validate.boolean("same", same)})

    @property
    def people(self) -> dict[str, bool]:
        """Whether other ledgers are about the same people, as somebody has said, by their names."""
        return {n["title"]: n["same"] for n in self._store.notes() if n["kind"] == "people"}

    @property
    def people_words(self) -> list[str]:
        """`people` for reports: one clause for each other ledger."""
        return [
            f"the same people are in the ledger {title}: what both spend adds up for them"
            if same
            else f"the ledger {title} is about other people, somebody has said"
            for title, same in self.people.items()
        ]

    def _others(self) -> list[Store]:
        """Return the other ledgers beside this one that can be read; a copy is no other one."""
        found: list[Store] = []
        for place in self._store.others():
            try:
                store = store_at(place)
                store.create_or_read(None)
                store.notes()
            except LedgerError:
                continue
            if store.id != self.id:
                found.append(store)
        return found

    def copy_to(self, path: str | os.PathLike[str]) -> None:
        """Write a backup of a ledger in a file. Put it back if need be; never charge both.

        Parameters
        ----------
        path : str or path-like
            Where to write the backup.

        Raises
        ------
        LedgerError
            If the ledger is in memory, or `path` exists or cannot be written.

        """
        self._store.copy_to(_validate.real_path(path))


def is_text(words: object) -> bool:
    """Whether it is a text that a file can hold: without half of a surrogate pair."""
    return isinstance(words, str) and _HALF.search(words) is None


def _tables(store: Store) -> list[tuple[str, dict[str, str]]]:
    return [(n["table"], dict(n["columns"])) for n in store.notes() if n["kind"] == "table"]


def _short(store: Store) -> str:
    """Return a ledger's name among those beside it."""
    return store.title.rpartition("#")[2] if store.path is None else store.path.name
