"""Drafts: hidden folders beside a model folder, in which a model is made before it gets its name.

A draft is locked while its process lives, and the system takes the lock away when the process
ends, however it ends. So a draft whose lock is free was left behind by a kill or a power cut, and
the next run clears it away. Its name tells the machine: some network drives keep locks to one.
"""

import contextlib
import hashlib
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["OLD", "clear_away", "is_alone", "new_draft"]

OLD = "old"
"""Where in a draft the model lies that is being replaced."""


def _prefix(target: Path) -> str:
    machine = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]
    return f".{target.name}.noisette-draft-{machine}-"


def _lock(draft: Path, *, wait: bool) -> int | None:
    """Return a handle that holds the lock; None if it is taken, or if there are no locks here."""
    try:
        import fcntl
    except ImportError:  # Windows, where drafts are never cleared away
        return None
    handle = None
    try:
        handle = os.open(draft, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        if handle is not None:
            os.close(handle)
        return None
    return handle


@contextlib.contextmanager
def new_draft(target: Path) -> Iterator[Path]:
    """Yield a new locked folder beside `target`; it is removed at the end, whatever happens."""
    while True:
        draft = Path(tempfile.mkdtemp(prefix=_prefix(target), dir=target.parent))
        handle = _lock(draft, wait=True)
        if draft.is_dir():  # else it was cleared away before it was locked
            break
        if handle is not None:
            os.close(handle)
    try:
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        if handle is not None:
            os.close(handle)


def is_alone(draft: Path, target: Path) -> bool:
    """Whether no other process of this machine works on a draft of `target`; True if unknown."""
    try:
        import fcntl

        prefix = _prefix(target)
        found = [item.path for item in os.scandir(target.parent) if item.name.startswith(prefix)]
        for other in set(found) - {str(draft)}:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                handle = os.open(other, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                finally:
                    os.close(handle)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return True
    return True


def clear_away(target: Path) -> None:
    """Remove drafts of `target` that nobody works on; put back the model that one took away."""
    with contextlib.suppress(OSError):
        prefix = _prefix(target)
        left = [Path(item) for item in os.scandir(target.parent) if item.name.startswith(prefix)]
        for draft in left:
            handle = _lock(draft, wait=False)  # None for a link or a file, too
            if handle is None:
                continue
            try:
                if (draft / OLD).is_dir() and not target.exists():
                    os.rename(draft / OLD, target)
                shutil.rmtree(draft, ignore_errors=True)
            finally:
                os.close(handle)
