"""Arrays that may be larger than memory, in a temporary file that nobody else can open.

The file lies in the system's folder for temporary files (TMPDIR), with rights for its owner alone,
and has no name from the start: it is gone when the process ends, however it ends.
"""

import contextlib
import errno
import os
import tempfile
import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette.errors import InvalidData

IN_MEMORY = 1 << 26
"""Bytes of one table that stay in memory; beyond, all of it goes to the file."""
BLOCK = 1 << 14
"""Rows of a block, as many as are encoded at a time."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Spill:
    """A file without a name to which arrays are appended; parts of them are read back."""

    def __init__(self) -> None:
        with _one_sentence():
            self._file = tempfile.TemporaryFile(prefix="noisette-", buffering=0)  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self.size = 0

    def __repr__(self) -> str:
        return "<Spill>"

    def reserve(self, size: int) -> None:
        """Make sure that the disk has room for so many bytes, and keep it."""
        if not hasattr(os, "posix_fallocate"):
            return
        with _one_sentence():
            try:
                os.posix_fallocate(self._file.fileno(), 0, max(size, 1))
            except OSError as error:
                if error.errno in _FULL:
                    raise  # others: this disk cannot promise anything

    def append(self, values: NDArray[Any]) -> int:
        """Write an array behind all others; return its place."""
        whole: Any = np.ascontiguousarray(values)
        start, data = self.size, memoryview(whole).cast("B")
        with _one_sentence():
            done = 0
            while done < len(data):
                done += os.pwrite(self._file.fileno(), data[done:], start + done)
        self.size += len(data)
        return start

    def read(self, place: int, count: int, dtype: Any) -> NDArray[Any]:
        """Return `count` entries from a place on."""
        out: Any = np.empty(count, dtype=dtype)
        data, done = memoryview(out).cast("B"), 0
        with _one_sentence():
            while done < len(data):
                step = os.preadv(self._file.fileno(), [data[done:]], place + done)
                if step == 0:
                    raise OSError(errno.EIO, "the file ends too early")
                done += step
        return np.asarray(out)


@contextlib.contextmanager
def _one_sentence() -> Any:
    try:
        yield
    except OSError as error:
        raise InvalidData(
            f"a table of this size needs room in {tempfile.gettempdir()} while it is used "
            f"({error.strerror}); set TMPDIR to a folder on a larger disk."
        ) from None


class Spilling:
    """The parts of several growing vectors: in memory, or all in one file once they are large."""

    def __init__(self, limit: float | None = None, room: Spill | None = None) -> None:
        self._limit = IN_MEMORY if limit is None else limit
        self._held: list[tuple[list[Any], int]] = []
        self._size, self._room = 0, room
        self.file: Spill | None = None

    def keep_last(self, parts: list[Any]) -> None:
        """See to the last of some parts: an array, or in the file its place and its type."""
        self._held.append((parts, len(parts) - 1))
        self._size += parts[-1].nbytes
        if self._size > self._limit:
            self.file = self.file or self._room or Spill()
            for each, k in self._held:
                each[k] = self.file.append(each[k]), each[k].dtype
            self._held = []


class Spilled:
    """A vector in parts; ``vector[start:stop]`` is an array, ``vector[rows]`` another vector."""

    def __init__(self, store: Spilling, dtype: Any) -> None:
        self.store, self.dtype = store, np.dtype(dtype)
        self._parts: list[Any] = []
        self._ends: list[int] = [0]

    def __repr__(self) -> str:
        return "<Spilled>"

    def __len__(self) -> int:
        return self._ends[-1]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[:], dtype=dtype)

    def append(self, values: NDArray[Any]) -> None:
        """Add entries at the end; a narrower type is kept as it is."""
        self._parts.append(values)
        self._ends.append(self._ends[-1] + len(values))
        self.store.keep_last(self._parts)

    def __getitem__(self, rows: Any) -> Any:
        if not isinstance(rows, slice):
            found = Spilled(self.store, self.dtype)
            if (np.diff(rows) < 0).any():
                found.append(self[:][rows])
                return found
            for start in range(0, len(self), BLOCK):
                first, last = np.searchsorted(rows, [start, start + BLOCK])
                if first < last:
                    found.append(self[start : start + BLOCK][rows[first:last] - start])
            return found
        start, stop, _ = rows.indices(len(self))
        out = np.empty(max(stop - start, 0), dtype=self.dtype)
        first = int(np.searchsorted(self._ends, start, side="right")) - 1
        for k in range(first, len(self._parts)):
            part, begin = self._parts[k], self._ends[k]
            if begin >= stop:
                break
            low, high = max(start, begin), min(stop, self._ends[k + 1])
            if isinstance(part, tuple):
                assert self.store.file is not None
                place, kind = part
                place += (low - begin) * kind.itemsize
                out[low - start : high - start] = self.store.file.read(place, high - low, kind)
            else:
                out[low - start : high - start] = part[low - begin : high - begin]
        return out
