"""Files that appear whole or not at all, readable by whom any new file of this person is."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

__all__ = ["write", "written"]


@contextlib.contextmanager
def written(path: Path) -> Iterator[BinaryIO]:
    """Yield a new file that gets the name `path` if the block ends well, and is removed if not.

    It stands beside its final place, is on the disk before it has its name, and replaces what was
    there in one step: nobody ever sees half of it, and a kill leaves what was there before and at
    most a hidden stray. A link is followed. The permissions are those of ``open``: the system
    takes the person's umask off, and no rule of our own is added.
    """
    target = Path(os.path.realpath(path))
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    file = open(draft, "xb")  # noqa: SIM115 - closed below, before it is renamed
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def write(path: Path, content: bytes | str) -> None:
    """Write a whole file or nothing; text as UTF-8, its line ends as they are."""
    with written(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)
