"""CSV through pyarrow, where it and the standard library's strict reader surely agree.

A file is taken in chunks of whole lines. A chunk goes to pyarrow if nothing in it could be read in
two ways: quotes only around whole cells and no line break inside of them, no lone carriage return,
no NUL, no line beyond the longest cell. Every other chunk is read by the standard library, from its
first record to the first record's end behind it. So the meaning of every cell, and every refusal,
is that of the standard library; pyarrow's messages, which quote cells, are never shown.
"""

import codecs
import csv
import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from noisette.core.cells import Given
from noisette.tables.cells import CodedCells, ValueCells, arrow
from noisette.tables.file_facts import FileFacts
from noisette.tables.kinds import Cells

_CHUNK = 1 << 21
_LONGEST_CELL = 1 << 17  # the limit of the standard library's reader
_MARK = b"\xef\xbb\xbf"
# No number by any reader, so missing; whatever else is no number is found out cell by cell.
_NO_NUMBERS = [
    "", " ", "?", "-", "--", ".", "*", "NA", "N/A", "n/a", "na", "#N/A", "NULL", "null", "None",
    "none", "missing", "Missing", "unknown", "Unknown",
]  # fmt: skip


class CsvLines:
    """The lines of a file as texts, which a lone carriage return ends too; or chunks of bytes.

    Where lines can be told apart before they are decoded (UTF-8, or one byte a letter) bytes are
    taken as they are; those of other encodings are turned into UTF-8 first.
    """

    def __init__(self, raw: Any, encoding: str, longest: int) -> None:
        name = codecs.lookup(encoding).name
        if not name.startswith(("utf-8", "ascii", "iso8859-", "cp125")):
            raw, name = codecs.EncodedFile(raw, "utf-8", encoding), "utf-8"
        self._raw, self._longest = raw, longest
        self.encoding = "utf-8" if name == "utf-8-sig" else name
        first = raw.read(len(_MARK))
        self._read = b"" if name == "utf-8-sig" and first == _MARK else first
        self.ahead: list[str] = []
        """Lines of a chunk that were not handed out yet, the next one last."""

    def chunk(self) -> bytes:
        """Return some whole lines, nothing at the end of the file."""
        if self.ahead:
            rest, self.ahead = "".join(reversed(self.ahead)), []
            return rest.encode(self.encoding)
        parts, size = [self._read], len(self._read)
        while size <= 4 * self._longest + _CHUNK:  # bytes: up to four a letter
            more = self._raw.read(_CHUNK)
            cut = more.rfind(b"\n") + 1
            parts.append(more[:cut] if cut else more)
            if cut or not more:
                self._read = more[cut:]
                return b"".join(parts)
            size += len(more)
        raise csv.Error

    def take(self, chunk: bytes) -> None:
        """Let a chunk be the next to be handed out as texts."""
        self.ahead = list(io.StringIO(chunk.decode(self.encoding), newline=""))[::-1]
        if max(map(len, self.ahead), default=0) >= self._longest:
            raise csv.Error

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if not self.ahead:
            self.take(self.chunk())
        if not self.ahead:
            raise StopIteration
        return self.ahead.pop()


class QuickReader:
    """Turns chunks into columns; `numbers` are the columns of which only numbers are wanted."""

    def __init__(
        self, facts: FileFacts, names: Sequence[str], wanted: Collection[str],
        numbers: Collection[str], encoding: str,
    ) -> None:  # fmt: skip
        self._names = list(map(str, range(len(names))))
        place = dict(zip(names, self._names, strict=True))
        self._wanted = dict(zip(wanted, map(place.__getitem__, wanted), strict=True))
        self._signs, self._encoding = facts.signs, encoding
        self._sign = facts.delimiter.encode()
        self._numbers = set[str]() if facts.thousands else {*wanted} & {*numbers}
        # one column: an empty line may be a row; blanks: they are skipped after each other
        self.usable = len(names) > 1 and len(self._sign) == 1 and self._sign not in (b" ", b"\0")

    def read(self, chunk: bytes) -> Mapping[str, Cells] | None:
        """Return the columns of a chunk, None if it must be read in another way."""
        padded = self._padded(chunk)
        if padded is None:
            return None
        if not chunk.isascii():
            chunk = chunk.decode(self._encoding).encode()
        found = self._table(chunk, self._numbers)
        if found is None and self._numbers and self._table(chunk, ()) is not None:
            # Texts among the numbers: from now on, these columns are read as texts.
            self._numbers = {name for name in self._numbers if self._table(chunk, (name,), name)}
            found = self._table(chunk, self._numbers)
        if found is None:
            return None
        columns: dict[str, Cells] = {}
        for name, place in self._wanted.items():
            column = found.column(place).combine_chunks()
            if name in self._numbers:
                columns[name] = ValueCells(Given(column.to_numpy(zero_copy_only=False)))
                continue
            texts = column.dictionary.to_pylist()
            if padded:
                texts = [each.lstrip(" ") for each in texts]
            columns[name] = CodedCells(column.indices.to_numpy(), texts, self._signs)
        return columns

    def _padded(self, chunk: bytes) -> bool | None:
        """Return whether blanks stand before cells; None where there is more than one reading."""
        odd = b"\0" in chunk or chunk.count(b"\r") != chunk.count(b"\r\n")
        if odd or chunk.startswith(_MARK):  # which pyarrow takes from whatever cell stands first
            return None
        signs = np.frombuffer(chunk, dtype=np.uint8)
        line, delimiter = ord("\n"), self._sign[0]
        ends = np.flatnonzero(signs == line)
        if np.diff(ends, prepend=-1, append=len(chunk)).max() > _LONGEST_CELL:
            return None
        padded = chunk.startswith(b" ") or b"\n " in chunk or self._sign + b" " in chunk
        quotes = np.flatnonzero(signs == ord('"'))
        if not len(quotes):
            return padded
        if padded or len(quotes) % 2 or (np.searchsorted(quotes, ends) % 2).any():
            return None
        # Every quote opens or closes a cell, or is one of two inside, all on one line.
        opening, closing = quotes[::2], quotes[1::2]
        twin = np.append(closing[:-1] + 1 == opening[1:], False)
        before = signs[opening - 1]
        opens = (opening == 0) | (before == delimiter) | (before == line) | np.roll(twin, 1)
        last = len(signs) - 1
        after = signs[np.minimum(closing + 1, last)]
        closes = (closing == last) | (after == delimiter) | (after == line) | (after == ord("\r"))
        return False if (opens & (closes | twin)).all() else None

    def _table(self, chunk: bytes, numbers: Collection[str], only: str | None = None) -> Any:
        """Return pyarrow's table, None if it refuses."""
        pa, reader = arrow(), arrow("pyarrow.csv")
        text = pa.dictionary(pa.int32(), pa.string())
        wanted = self._wanted.values() if only is None else [self._wanted[only]]
        kinds = dict.fromkeys(wanted, text)
        kinds |= dict.fromkeys(map(self._wanted.__getitem__, numbers), pa.float64())
        try:
            return reader.read_csv(
                pa.BufferReader(chunk),
                reader.ReadOptions(
                    use_threads=False, block_size=len(chunk) + 1, column_names=self._names
                ),
                reader.ParseOptions(delimiter=self._sign.decode()),
                reader.ConvertOptions(
                    column_types=kinds, include_columns=list(kinds), null_values=_NO_NUMBERS,
                    decimal_point=self._signs[0],
                ),
            )  # fmt: skip
        except pa.ArrowException:
            return None
