"""Reading tables: CSV (plain or gzip), with pyarrow where it is there (`quick_csv`), and Parquet.

A file's kind is seen from its first bytes, not from its name. A fault of the file as a whole (not
a table, a row with too many cells) is one sentence without a line number or a cell: which row is at
fault is a fact about a record. Such errors come before anything is charged.
"""

import contextlib
import csv
import errno
import gzip
import importlib.util
import io
import zlib
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from noisette.core.cells import given
from noisette.errors import InvalidData
from noisette.tables.cells import TextCells, ValueCells, arrow
from noisette.tables.file_facts import FileFacts
from noisette.tables.kinds import Cells
from noisette.tables.quick_csv import CsvLines, QuickReader

ROWS = 8192
"""How many rows are held as cells at a time."""

_LONGEST_HEADER = 1 << 20
_LONGEST_LINE = 1 << 26
"""In characters. A file without line ends would else be read into memory as a single line."""

# UnicodeError, not its kin for decoding alone: some codecs raise it bare. MemoryError: a record of
# endless lines inside of quotes.
_BROKEN = (csv.Error, EOFError, zlib.error, OSError, UnicodeError, MemoryError)


_NO_TABLE = (
    "{} cannot be read as a CSV table in {}; check that it is one, its quotes, and delimiter and "
    "encoding under [file] in the schema."
)


def _open(path: Path) -> io.BufferedReader:
    try:
        # A pipe can be read once, but kind, names and rows are read one after the other.
        if path.exists() and not path.is_file() and not path.is_dir():
            raise InvalidData(f"{path} is not an ordinary file; save the table as one first.")
        return path.open("rb")
    except OSError as error:
        told = {
            errno.ENOENT: f"there is no table {path}.",
            errno.EISDIR: f"{path} is a folder, not a table.",
        }
        problem = f"{path} cannot be read ({error.strerror})."
        raise InvalidData(told.get(error.errno or 0, problem)) from None


def is_parquet(path: Path) -> bool:
    """Whether the file begins as Parquet files do."""
    with _open(path) as file:
        return file.read(4) == b"PAR1"


def _decompressed(path: Path) -> Any:
    file = _open(path)
    if file.peek(2)[:2] != b"\x1f\x8b":
        return file
    file.close()
    return gzip.open(path, "rb")


@contextlib.contextmanager
def _instead(faults: Any, told: str) -> Iterator[None]:
    """Raise one sentence in the place of an error, which may quote cells and is left out."""
    try:
        yield
        return
    except faults:
        pass
    raise InvalidData(told)


def csv_header(path: Path, facts: FileFacts) -> list[str]:
    """Return the cells of the first record; not a byte after it is decoded or looked at."""
    text, rows = "", [[""]]
    with _instead(_BROKEN, _NO_TABLE.format(path, facts.encoding)):
        with _decompressed(path) as file:
            while line := file.readline(_LONGEST_HEADER):
                text += line.decode(facts.encoding if text else _with_mark(facts.encoding))
                # A name in quotes may hold a line break: go on until the quotes are even.
                if (text.strip() and text.count('"') % 2 == 0) or len(text) > _LONGEST_HEADER:
                    break
        if len(text) > _LONGEST_HEADER or "\x00" in text:
            raise csv.Error
        rows = list(csv.reader(io.StringIO(text.strip("\r\n")), **_dialect(facts))) or rows
    if not text.strip():
        raise InvalidData(f"{path} is empty: it has no header line.")
    return list(map(str.strip, rows[0]))


def _with_mark(encoding: str) -> str:
    """Return the encoding that drops a byte-order mark, which is no part of the first name."""
    return "utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding


def _dialect(facts: FileFacts) -> dict[str, Any]:
    return {"delimiter": facts.delimiter, "skipinitialspace": True, "strict": True}


def open_parquet(path: Path) -> Any:
    """Return an open `pyarrow.parquet.ParquetFile`."""
    pa, parquet = arrow(), arrow("pyarrow.parquet")
    with contextlib.suppress(pa.ArrowException, OSError, ValueError):
        return parquet.ParquetFile(path)
    raise InvalidData(f"{path} begins like a Parquet file but is damaged.")


def pieces(
    path: Path, facts: FileFacts, wanted: list[str], header: list[str] | None,
    numbers: Collection[str] = (),
) -> Iterator[Mapping[str, Cells]]:  # fmt: skip
    """Yield the table piece by piece: the `wanted` columns of some thousand rows each.

    `header` names the columns of a CSV file without a header line; None reads the first line. Of
    the columns in `numbers` nobody asks for texts.
    """
    if is_parquet(path):
        yield from _parquet_pieces(path, wanted, facts)
        return
    told = _NO_TABLE.format(path, facts.encoding)
    with _instead(_BROKEN, told), _decompressed(path) as raw:
        yield from _csv_pieces(path, raw, facts, wanted, header, numbers)


def _csv_pieces(
    path: Path, raw: Any, facts: FileFacts, wanted: list[str], header: list[str] | None,
    numbers: Collection[str],
) -> Iterator[Mapping[str, Cells]]:  # fmt: skip
    lines = CsvLines(raw, _with_mark(facts.encoding), _LONGEST_LINE)
    reader = csv.reader(lines, **_dialect(facts))
    filled = filter(_filled, reader)
    names = header or list(map(str.strip, next(filled, [])))
    slow = partial(_slow_pieces, path, facts, wanted, names)
    fast = QuickReader(facts, names, wanted, numbers, lines.encoding)
    if not _has_arrow() or not fast.usable:
        yield from slow(reader)
        return
    while chunk := lines.chunk():
        piece = fast.read(chunk)
        if piece is not None:
            yield piece
        else:
            lines.take(chunk)
            yield from slow(_records(reader, lines))


def _has_arrow() -> bool:
    return importlib.util.find_spec("pyarrow") is not None


def _records(reader: Iterator[list[str]], lines: CsvLines) -> Iterator[list[str]]:
    """Yield the records of a chunk, the last of them whole."""
    for row in reader:
        yield row
        if not lines.ahead:
            return


def _slow_pieces(
    path: Path, facts: FileFacts, wanted: list[str], names: list[str], reader: Iterator[list[str]]
) -> Iterator[Mapping[str, Cells]]:
    """Yield what the standard library's reader makes of a file."""
    while rows := list(islice(reader, ROWS)):
        if any(len(row) != len(names) for row in rows):
            rows = list(filter(_filled, rows))
        if any(len(row) != len(names) for row in rows):
            raise InvalidData(f"{path}: a row does not have the {len(names)} cells of the header.")
        if rows:
            columns = dict(zip(names, zip(*rows, strict=True), strict=True))
            yield {name: TextCells(columns[name], *facts.signs) for name in wanted}


def _filled(row: list[str]) -> bool:
    """Whether a line is more than blanks."""
    return len(row) > 1 or bool(row and row[0].strip())


def _parquet_pieces(
    path: Path, wanted: list[str], facts: FileFacts
) -> Iterator[Mapping[str, Cells]]:
    faults = (arrow().ArrowException, OSError, UnicodeError)
    told = f"{path} is a Parquet file but is damaged."
    with _instead(faults, told), open_parquet(path) as file:
        for batch in file.iter_batches(batch_size=ROWS, columns=wanted):
            batch.validate(full=True)  # texts that are no UTF-8 fail here, not cell by cell
            if batch.num_rows:
                columns = ((name, given(batch.column(name), "")) for name in wanted)
                yield {name: ValueCells(cells, facts.signs) for name, cells in columns}
