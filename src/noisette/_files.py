"""Files that appear whole or not at all, readable by whom any new file of this person is.

A file tells the day on which it was written and no more: the time between a charge and its model
is the time of a training, which no guarantee covers.
"""

import contextlib
import errno
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

__all__ = ["sync_folder", "undate", "write", "written"]

_NO_SYNC = {errno.EACCES, errno.EBADF, errno.EINVAL, errno.ENOTSUP, errno.EPERM}
_DAY = 86_400


@contextlib.contextmanager
def written(path: Path, *, stay: bool = True) -> Iterator[BinaryIO]:
    """Yield a new file that gets the name `path` if the block ends well, and is removed if not.

    It stands beside its final place, is on the disk before it has its name, and replaces what was
    there in one step: nobody ever sees half of it, and a kill leaves what was there before and at
    most a hidden stray. A link is followed. The permissions are those of ``open``: the system
    takes the person's umask off, and no rule of our own is added. ``stay=False`` only tries it.
    """
    target = Path(os.path.realpath(path))
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    file = open(draft, "xb")  # noqa: SIM115 - closed below, before it is renamed
    try:
        with file:
            yield file
            file.flush()
            undate(draft)
            os.fsync(file.fileno())
        if stay:
            os.replace(draft, target)
            sync_folder(target.parent)
        else:
            draft.unlink()
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def write(path: Path, content: bytes | str) -> None:
    """Write a whole file or nothing; text as UTF-8, its line ends as they are."""
    with written(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def undate(path: Path) -> None:
    """Set the time of a file or folder to the day, where the system lets us."""
    day = int(time.time()) // _DAY * _DAY
    with contextlib.suppress(OSError):
        os.utime(path, (day, day))


def sync_folder(path: Path) -> None:
    """Put the names in a folder on the disk, where a system has such a thing."""
    handle = None
    try:
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        if handle is not None:
            os.close(handle)
