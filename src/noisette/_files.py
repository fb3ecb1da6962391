"""Files that appear whole or not at all, and one door for those that strangers wrote.

A file from elsewhere may be a pipe, have any size, nest without end or break the library that reads
it. `opened` lets ordinary files in up to a size, `from_json` numbers and depths that an honest file
has, and `understood` turns whatever a parser raises into one sentence of bounded length.

A file that is written tells the day and no more: the time between a charge and its model is the
time of a training, which no guarantee covers.
"""

import contextlib
import errno
import json
import math
import os
import pickle
import secrets
import stat
import struct
import time
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO

from noisette.errors import InvalidData, InvalidParameter, NoisetteError

CARRIED = {"theorems.md": "docs/theory/theorems.md", "loans.toml": "examples/loans.toml"}
"""Files of the project that travel in the wheel (``setup.py`` copies them beside this one)."""

LARGEST_TEXT = 1 << 24
"""How many bytes a text may have that is read as a whole: a schema, a guarantee, a plan."""

_DEEPEST, _LARGEST_WHOLE, _LONGEST = 100, 10**19, 400
# What the parsers of JSON, TOML, zip archives, NumPy and torch raise on damaged or hostile bytes.
_DAMAGE = (
    ArithmeticError, AssertionError, AttributeError, EOFError, LookupError, MemoryError, OSError,
    RuntimeError, SyntaxError, TypeError, ValueError, pickle.UnpicklingError, struct.error,
    tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
_NO_SYNC = {errno.EACCES, errno.EBADF, errno.EINVAL, errno.ENOTSUP, errno.EPERM}
_DAY = 86_400


def carried(name: str) -> str:
    """Return the text of a file that travels; a checkout reads it at its own place."""
    copy = Path(__file__).resolve().with_name(name)
    place = copy if copy.exists() else copy.parents[2] / CARRIED[name]
    return place.read_text(encoding="utf-8")


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


def opened(path: str | os.PathLike[str], mode: str = "rb", most: int | None = None) -> FileIO:
    """Open an ordinary file, unbuffered; a pipe or device would block, or never end."""
    # Asked of what was opened, and opened without waiting for somebody at a pipe's other end.
    more = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    file = FileIO(path, mode, opener=lambda name, flags: os.open(name, flags | more))
    try:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise InvalidParameter(f"{path} is not an ordinary file; give another one.")
        if most is not None and status.st_size > most:
            raise InvalidParameter(
                f"{path} is too large: it has {status.st_size} bytes, and {most} are allowed."
            )
    except BaseException:
        file.close()
        raise
    return file


def read(path: str | os.PathLike[str], what: str, most: int = LARGEST_TEXT) -> bytes:
    """Return the bytes of a file that is said to be a `what`, or say why not."""
    try:
        with opened(path, most=most) as file:
            return file.readall()
    except FileNotFoundError:
        raise InvalidParameter(f"there is no {what} {path}.") from None
    except IsADirectoryError:
        raise InvalidParameter(f"{path} is a folder, not a {what}.") from None
    except OSError as error:
        raise InvalidParameter(f"{path} cannot be read ({error.strerror}).") from None


@contextlib.contextmanager
def understood(sentence: str, kind: type[NoisetteError] = InvalidData) -> Iterator[None]:
    """Say `sentence` for whatever damage a parser finds; a long refusal is cut."""
    try:
        yield
        return
    except NoisetteError as error:
        if len(said := str(error)) <= _LONGEST:
            raise
        kind, sentence = type(error), f"{said[: _LONGEST - 4]} ..."
    except _DAMAGE:
        pass
    raise kind(sentence)  # outside: no traceback of a parser, which may quote the file


def from_json(text: str | bytes) -> Any:
    """Return what a JSON text says; ValueError for what no honest text of ours has.

    That is a whole number beyond 19 digits, a number that is not finite, a key that stands twice
    (people and programs would read different ones) and more than 100 levels.
    """
    try:
        node = json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError from None
    level = [node]
    for _ in range(_DEEPEST):
        inside: list[Any] = []
        ended = True
        for each in level:
            if isinstance(each, dict | list):
                inside += each.values() if isinstance(each, dict) else each
                ended = False
            elif isinstance(each, float | int):
                most = math.inf if isinstance(each, float) else _LARGEST_WHOLE
                if not abs(each) < most:  # nor is NaN
                    raise ValueError
        if ended:
            return node
        level = inside
    raise ValueError


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    node = dict(pairs)
    if len(node) != len(pairs):
        raise ValueError
    return node
