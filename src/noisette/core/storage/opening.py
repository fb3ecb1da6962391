"""Which store an address means, and that it is the ledger which was asked for."""

import os
from collections.abc import Callable, Mapping
from typing import Any

from noisette import _validate
from noisette.core.storage.file import FileStore
from noisette.core.storage.postgres import PostgresStore, is_address
from noisette.core.storage.records import RESTORE, Cost, Header, Store
from noisette.errors import InvalidParameter, LedgerError


def store_at(path: str | os.PathLike[str]) -> FileStore | PostgresStore:
    """Return the store that an address means, not yet opened."""
    # Resolved now: a later chdir must not lead the charges to another file.
    return PostgresStore(str(path)) if is_address(path) else FileStore(_validate.real_path(path))


def open_store(
    path: str | os.PathLike[str], wanted: Header | None, given: Mapping[str, Any],
    limit: Callable[[Header], Cost],
) -> tuple[Store, Header]:  # fmt: skip
    """Return the store at `path`, started there with `wanted` if there is none, and its header.

    `limit` says what the sums of a ledger never exceed, and refuses a header that no ledger can
    have; what is `given` must agree with it.
    """
    store = store_at(path)
    header = store.create_or_read(wanted, None if wanted is None else limit(wanted))
    try:
        limit(header)
    except InvalidParameter:
        raise LedgerError(f"{store.title} is damaged; {RESTORE}. Nothing was charged.") from None
    for name, value in given.items():
        if value != getattr(header, name):
            raise LedgerError(
                f"the ledger at {store.title} has {name}={getattr(header, name)!r}, not "
                f"{value!r}; open it with its own values or start another one."
            )
    return store, header
