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
    problem = None
    try:
        yield
    except OSError as error:
        problem = error.strerror
    if problem is not None:
        raise InvalidData(
            f"a table of this size needs room in {tempfile.gettempdir()} while it is used "
            f"({problem}); set TMPDIR to a folder on a larger disk."
        ) from None


class Spilling:
    """The parts of several growing arrays: in memory, or all in one file once they are large."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = IN_MEMORY if limit is None else limit
        self._held: list[_KeptPart] = []
        self._size = 0
        self._file: Spill | None = None

    def keep(self, values: NDArray[Any]) -> "_KeptPart":
        """Take one part."""
        part = _KeptPart(values)
        if self._file is not None:
            part.move(self._file)
            return part
        self._held.append(part)
        self._size += values.nbytes
        if self._size > self._limit:
            self._file = Spill()
            for each in self._held:
                each.move(self._file)
            self._held = []
        return part


class _KeptPart:
    """One array, in memory or in a file."""

    def __init__(self, values: NDArray[Any]) -> None:
        self._values: NDArray[Any] | None = values
        self._file: Spill | None = None
        self._place = 0
        self.dtype, self.count = values.dtype, len(values)

    def move(self, file: Spill) -> None:
        """Write it to a file and let go of the memory."""
        assert self._values is not None
        self._place, self._file, self._values = file.append(self._values), file, None

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return some of its entries."""
        if self._file is None:
            assert self._values is not None
            return self._values[start:stop]
        place = self._place + start * self.dtype.itemsize
        return self._file.read(place, stop - start, self.dtype)


class Spilled:
    """A vector in parts; ``vector[start:stop]`` is an array."""

    def __init__(self, store: Spilling, dtype: Any) -> None:
        self.store, self.dtype = store, np.dtype(dtype)
        self._parts: list[_KeptPart] = []
        self._ends: list[int] = [0]

    def __repr__(self) -> str:
        return "<Spilled>"

    def __len__(self) -> int:
        return self._ends[-1]

    def append(self, values: NDArray[Any]) -> None:
        """Add entries at the end; a narrower type is kept as it is."""
        self._parts.append(self.store.keep(values))
        self._ends.append(self._ends[-1] + len(values))

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        start, stop, _ = rows.indices(len(self))
        out = np.empty(max(stop - start, 0), dtype=self.dtype)
        first = int(np.searchsorted(self._ends, start, side="right")) - 1
        for part, begin in zip(self._parts[first:], self._ends[first:], strict=False):
            if begin >= stop:
                break
            low, high = max(start - begin, 0), min(stop - begin, part.count)
            out[begin + low - start : begin + high - start] = part.read(low, high)
        return out
