"""Readers of the published file formats: separated text and IDX, plain or gzip-compressed."""

import gzip
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from noisette._typing import Integers
from noisette.errors import InvalidData

from .base import MissingData, fetch_hint

__all__ = ["read_bytes", "read_idx", "read_text_columns", "two_classes", "words"]


def read_bytes(folder: Path, name: str) -> bytes:
    """Return the content of ``name`` or ``name.gz`` in `folder`."""
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return _content(path)
    raise MissingData(
        f"file {name!r} (or {name + '.gz'!r}) is missing in folder {str(folder)!r}"
        f"{fetch_hint(folder.name, name)}."
    )


def _content(path: Path) -> bytes:
    """Return the bytes of a file, uncompressed; a damaged or unreadable one is named."""
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InvalidData(f"file {str(path)!r} is a damaged gzip file.") from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise MissingData(f"file {str(path)!r} cannot be read: {reason}.") from error


def read_text_columns(
    data: bytes, names: tuple[str, ...], delimiter: bytes = b",", skip: int = 0
) -> dict[str, NDArray[np.generic]]:
    """Return each column of a small separated text as an array of byte strings.

    Quotes and blanks around a field are dropped (no published file has a delimiter in quotes),
    empty lines are skipped, and the first `skip` lines are left out.
    """
    lines = data.replace(b'"', b"").replace(b" ", b"").split(b"\n")[skip:]
    rows = [line.strip().split(delimiter) for line in lines if line.strip()]
    if any(len(row) != len(names) for row in rows):
        raise InvalidData(f"a line does not have the {len(names)} fields of the published format.")
    return {
        name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)
    }


def read_idx(data: bytes) -> NDArray[np.uint8]:
    """Return an IDX array of unsigned bytes: big-endian header 0x000008DD, then DD lengths."""
    if data[:3] != b"\x00\x00\x08":
        raise InvalidData("the file is not an IDX file of unsigned bytes.")
    dimensions = data[3]
    shape = tuple(int(k) for k in np.frombuffer(data, ">u4", dimensions, offset=4))
    body = np.frombuffer(data, np.uint8, offset=4 + 4 * dimensions)
    if body.size != int(np.prod(shape)):
        raise InvalidData("the IDX file is shorter or longer than its header says.")
    return body.reshape(shape)


def two_classes(labels: NDArray[np.generic], positive: bytes) -> Integers:
    """Return 1 where the label starts with `positive` and 0 elsewhere."""
    return np.strings.startswith(labels.astype(np.bytes_), positive).astype(np.int64)


def words(text: str) -> tuple[str, ...]:
    """Return the words of `text`: a list of names that reads as one line."""
    return tuple(text.split())
