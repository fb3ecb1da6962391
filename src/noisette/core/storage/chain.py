"""One file of chained records: nothing in it changes or vanishes unseen, under whatever name.

Layout, in ASCII, nothing beside the file::

    page 0      "noisette ledger 3", then the header, which never changes
    page 1, 2   two marks: how many records there are, where the last one is, its digest
    page 3 ...  the records, one line each

Every header, mark and record is one *sealed* line: the SHA-256 of the rest of the line, then JSON.
Each record holds the digest and the place of the one before, the first the digest of the header;
the header holds a random id, so no two ledgers share a chain.

Adding record n + 1, alone under the file's lock:

1. Cut off what is behind the end of record n; write the record there; fsync.
2. Write mark n + 1 over mark n - 1 (mark k is on page 1 + k mod 2); fsync. Now it is booked.

What holds at any moment, and so after a kill or a power cut between any two bytes:

- **A. One mark is whole.** Step 2 writes on one page only; the other holds mark n.
- **B. A booked record is never lost.** Before mark n + 1 counts, record n + 1 is on the disk, and
  no later step writes before its end.
- **C. Damage is seen.** If both marks are whole, the later one says where the end is. If one is
  torn, either step 2 was interrupted, and then record n + 1 is whole behind mark n; or the page was
  damaged later. So a whole record that continues the chain behind the later mark is *taken as
  booked* (at worst a charge that nobody used), and a torn mark without such a record is refused.
  A file that is cut, a record that was changed, left out or put in, break a digest.
- **D. The past cannot change while somebody looks.** A process remembers the last mark that it saw;
  later marks must continue that chain. An older copy put in the file's place is refused.

What no file can show: that *all* of it was replaced by an older copy while no process had it open.
A digest without a secret also does not stop somebody who forges the whole chain on purpose.

The lock is on the file itself: one beside a path does not exclude a process that reaches the file
through a bind mount, a hard link or another container. The system frees it when its process dies.
"""

import contextlib
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

from noisette._files import LARGEST_TEXT, from_json, opened

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

FORMAT = 3
_PAGE = 4096
_FIRST = 3 * _PAGE
MAGIC = b"noisette ledger "
WAIT_SECONDS = 60.0
_held: set[int] = set()


class Damaged(Exception):
    """The file is not what the protocol above leaves behind."""


class Newer(Exception):
    """The file has a later format."""


class Unsure(Exception):
    """The disk failed at the last step: the record may have been booked."""


class Busy(Exception):
    """Somebody else has held the lock for too long."""


WRONG = (Damaged, LookupError, TypeError, ValueError, OverflowError, AttributeError)
"""What reading a record raises that nobody of ours has written."""


class Mark(NamedTuple):
    """The end of the chain: record `number`, at `start` to `end`, and its digest."""

    number: int
    start: int
    end: int
    digest: str
    whole: bool = True
    """Whether its page says so; False if it was taken from the record behind the other mark."""


def seal(node: dict[str, Any]) -> bytes:
    """Return one sealed line."""
    text = json.dumps(node).encode("ascii")
    return hashlib.sha256(text).hexdigest().encode() + b" " + text + b"\n"


def unseal(line: bytes) -> tuple[str, dict[str, Any]]:
    """Return (digest, content) of a sealed line."""
    digest, text = line[:64], line[65:-1]
    whole = line[64:65] == b" " and line[-1:] == b"\n"
    if not whole or hashlib.sha256(text).hexdigest().encode() != digest:
        raise Damaged
    node = from_json(text)
    if not isinstance(node, dict):
        raise Damaged
    return digest.decode(), node


def first_pages(header: dict[str, Any]) -> bytes:
    """Return the bytes of a file without records."""
    line = seal(header)
    page = MAGIC + b"%d\n" % FORMAT + line
    mark = _sealed_mark(Mark(0, _FIRST, _FIRST, line[:64].decode()))
    return b"".join(part.ljust(_PAGE, b"\0") for part in (page, mark, mark))


def read_header(file: FileIO) -> tuple[str, dict[str, Any]]:
    """Return the header's digest, which names this ledger among all others, and the header."""
    page = _read(file, 0, _PAGE)
    first, _, rest = page.partition(b"\n")
    number = first.removeprefix(MAGIC)
    if not page.startswith(MAGIC) or not number.isdigit() or int(number) < 2:
        raise Damaged
    if int(number) > FORMAT:
        raise Newer(number.decode())
    return unseal(rest[: rest.find(b"\n") + 1])


def read_mark(file: FileIO) -> Mark:
    """Return where the chain ends."""
    marks = []
    for page in (1, 2):
        text = _read(file, page * _PAGE, (page + 1) * _PAGE)
        with contextlib.suppress(Damaged, KeyError, TypeError, ValueError):
            _, node = unseal(text[: text.find(b"\n") + 1])
            places = int(node["number"]), int(node["start"]), int(node["end"])
            mark = Mark(*places, str(node["digest"]))
            if mark.number == 0 or page == _page_of(mark):
                marks.append(mark)
    if not marks or abs(marks[0].number - marks[-1].number) > 1:
        raise Damaged
    latest = max(marks)
    size = os.fstat(file.fileno()).st_size
    if size < latest.end:
        raise Damaged
    line = _read(file, latest.end, min(size, latest.end + LARGEST_TEXT))
    line = line[: line.find(b"\n") + 1]
    try:
        digest, node = unseal(line)
        if node["before"] != latest.digest:
            raise Damaged
    except (Damaged, KeyError):
        if len(marks) == 2:
            return latest  # an unfinished record: nobody was told that it is booked
        raise Damaged from None
    return Mark(latest.number + 1, latest.end, latest.end + len(line), digest, whole=False)


def backwards(file: FileIO, mark: Mark) -> Iterator[dict[str, Any]]:
    """Yield the records from a mark back to the first, each checked by the one behind it."""
    start, end, digest = mark.start, mark.end, mark.digest
    for _ in range(mark.number):
        found, node = unseal(_read(file, start, end))
        if found != digest:
            raise Damaged
        yield node
        start, end, digest = int(node["at"]), start, node["before"]
    if (end, digest) != (_FIRST, read_header(file)[0]):
        raise Damaged


def append(file: FileIO, mark: Mark, node: dict[str, Any]) -> Mark:
    """Add a record by the protocol above; return the new end."""
    if not mark.whole:  # first finish what was interrupted: the other mark stays whole
        os.fsync(file.fileno())  # whoever wrote the record may have been killed before this
        _write_mark(file, mark)
    line = seal({"before": mark.digest, "at": mark.start, **node})
    after = Mark(mark.number + 1, mark.end, mark.end + len(line), line[:64].decode())
    try:
        file.truncate(mark.end)
        _write(file, mark.end, line)
    except BaseException:
        with contextlib.suppress(OSError):
            file.truncate(mark.end)  # else a whole record would count as booked
        raise
    _write_mark(file, after)
    return after


def _write_mark(file: FileIO, mark: Mark) -> None:
    try:
        _write(file, _page_of(mark) * _PAGE, _sealed_mark(mark).ljust(_PAGE, b"\0"))
    except OSError as error:
        raise Unsure from error


def _page_of(mark: Mark) -> int:
    return 1 + mark.number % 2


def _sealed_mark(mark: Mark) -> bytes:
    return seal({name: value for name, value in mark._asdict().items() if name != "whole"})


def _read(file: FileIO, start: int, stop: int) -> bytes:
    """Return the bytes from `start` to `stop`, or to the end of the file."""
    if not 0 <= stop - start <= LARGEST_TEXT:
        raise Damaged
    file.seek(start)
    parts = []
    while start < stop and (part := file.read(stop - start)):
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def _write(file: FileIO, start: int, content: bytes) -> None:
    """Write `content` at `start` and wait until the disk has it."""
    file.seek(start)
    while content:
        content = content[file.write(content) :]
    os.fsync(file.fileno())


# --- the lock ------------------------------------------------------------------------------------


@contextlib.contextmanager
def locked(path: Path, *, write: bool) -> Iterator[FileIO]:
    """Open the file at `path`, which must exist: alone (`write`), or beside other readers."""
    until = time.monotonic() + WAIT_SECONDS
    while True:
        with opened(path, "r+b" if write else "rb") as file:
            number = file.fileno()
            _held.add(number)
            try:
                pause = 0.0005
                while not _try(number, write):
                    if time.monotonic() > until:
                        raise Busy
                    time.sleep(pause)
                    pause = min(2.0 * pause, 0.02)
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
