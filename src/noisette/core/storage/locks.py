"""A lock on a file itself: whoever reaches the file, under whatever name, meets the same lock.

Locks that sit beside a path do not exclude a process that reaches the file through a bind mount, a
hard link or another container. These belong to the file, and the system frees them when their
process dies.
"""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path

from noisette._files import opened

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["WAIT_SECONDS", "Busy", "alone_in", "locked"]

WAIT_SECONDS = 60.0
_held: set[int] = set()


class Busy(Exception):
    """Somebody else has held the lock for too long."""


@contextlib.contextmanager
def locked(path: Path, *, write: bool) -> Iterator[FileIO]:
    """Open the file at `path`, which must exist: alone (`write`), or beside other readers."""
    until = time.monotonic() + WAIT_SECONDS
    while True:
        with opened(path, "r+b" if write else "rb") as file:
            number = file.fileno()
            _held.add(number)
            try:
                _lock(number, write, until)
                # The name may have been given to another file while we waited.
                if os.path.samestat(os.fstat(number), path.stat()):
                    yield file
                    return
            finally:
                _held.discard(number)
                _unlock(number)


if sys.platform == "win32":
    _FAR = 2**62  # Windows locks bytes against reading, so take one that no ledger has

    def _try(number: int, write: bool) -> bool:
        os.lseek(number, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(number, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True

    def _unlock(number: int) -> None:
        os.lseek(number, _FAR, os.SEEK_SET)
        with contextlib.suppress(OSError):
            msvcrt.locking(number, msvcrt.LK_UNLCK, 1)

    @contextlib.contextmanager
    def alone_in(folder: Path) -> Iterator[Callable[[Path, Path], None]]:
        """Yield how to give a new file its name; renaming never takes another file's place here."""
        yield os.rename

else:

    def _try(number: int, write: bool) -> bool:
        try:
            fcntl.flock(number, (fcntl.LOCK_EX if write else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(number: int) -> None:
        # Said aloud: a child forked meanwhile has the open file too, and would keep the lock.
        fcntl.flock(number, fcntl.LOCK_UN)

    @contextlib.contextmanager
    def alone_in(folder: Path) -> Iterator[Callable[[Path, Path], None]]:
        """Let one process at a time give a new file its name in `folder`; yield how."""
        handle = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield os.replace
            os.fsync(handle)  # the name must survive a power cut as its file does
        finally:
            os.close(handle)

    def _close_in_child() -> None:
        for number in _held:
            os.close(number)  # leaves the parent's lock as it is, but ends with the parent
        _held.clear()

    os.register_at_fork(after_in_child=_close_in_child)


def _lock(number: int, write: bool, until: float) -> None:
    pause = 0.0005
    while not _try(number, write):
        if time.monotonic() > until:
            raise Busy
        time.sleep(pause)
        pause = min(2.0 * pause, 0.02)
