"""Fetch the published files of a dataset, check them, and only then put them in place.

Nothing is downloaded unless somebody asks: `download(...)`, or ``load(..., download=True)``. Each
file goes to a temporary name beside its place, its content is checked against the SHA-256 in
`noisette.datasets.homes`, and one rename installs it; so a kill, a full disk or a wrong answer
leaves either the whole right file or none. Because the content is checked, a mirror need not be
trusted.
"""

import gzip
import http.client
import io
import os
import urllib.request
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

from noisette import _files, _validate
from noisette.errors import InvalidData, InvalidParameter

from .base import VARIABLE, MissingData
from .homes import FILES, Home, PublishedFile

__all__ = ["data_home_for_writing", "download_files"]

TIMEOUT = 30.0  # seconds without an answer
LIMIT = 200_000_000  # bytes of one download; the largest known one has 18 million
CHUNK = 1 << 20
GZIP = b"\x1f\x8b"
ZIP = b"PK\x03\x04"


def data_home_for_writing(data_home: str | Path | None) -> Path:
    """Return the folder for downloads: the argument, else $NOISETTE_DATA."""
    home = data_home if data_home is not None else os.environ.get(VARIABLE)
    if not home:
        raise InvalidParameter(
            f"data_home must name a folder for the downloaded files (or set {VARIABLE}); "
            f"got {data_home!r}."
        )
    return Path(home)


def download_files(
    folder: str,
    home: Path,
    *,
    mirror: str | None = None,
    timeout: float = TIMEOUT,
    say: Callable[[str], None] | None = None,
) -> list[Path]:
    """Put every published file of `folder` into ``home/folder``; return their paths.

    A file that is there with the right content is kept. One with another content is never
    overwritten (`InvalidData`). `mirror` is tried before the public homes, at
    ``mirror/folder/name.gz`` and ``mirror/folder/name``. `say` receives one line for each step.
    """
    timeout = _validate.positive("timeout", timeout)
    if mirror is not None and not str(mirror).startswith(("http://", "https://")):
        raise InvalidParameter(f"mirror must start with http:// or https://; got {mirror!r}.")
    tell = say or (lambda line: None)
    target = home / folder
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise MissingData(f"folder {str(target)!r} cannot be made: {reason}.") from error
    paths = []
    for file in FILES[folder]:
        present = _present(target, file)
        if present is not None:
            tell(f"{folder}/{file.name}: already there, checksum right")
        else:
            extra = () if mirror is None else _mirrored(mirror, folder, file.name)
            present = _fetch(target, file, (*extra, *file.homes), timeout, tell)
        paths.append(present)
    return paths


def _mirrored(mirror: str, folder: str, name: str) -> tuple[Home, ...]:
    base = f"{str(mirror).rstrip('/')}/{folder}/{name}"
    return Home(f"{base}.gz"), Home(base)


def _present(target: Path, file: PublishedFile) -> Path | None:
    """Return the file's path if it is there and right, None if it is absent."""
    for path in (target / file.name, target / f"{file.name}.gz"):
        if path.is_file():
            try:
                right = file.digest(_unpack(path.read_bytes(), (), file.size)) == file.sha256
            except InvalidData:
                right = False
            if not right:
                raise InvalidData(
                    f"{str(path)!r} is not the published file (its SHA-256 differs); remove it and "
                    "download again, or keep your own data in another folder."
                )
            return path
    return None


def _fetch(
    target: Path,
    file: PublishedFile,
    homes: tuple[Home, ...],
    timeout: float,
    tell: Callable[[str], None],
) -> Path:
    """Try one home after another; raise with every reason if none serves."""
    unreachable, wrong = [], []
    for home in homes:
        tell(f"{target.name}/{file.name}: trying {home.url}")
        try:
            packed = _get(home.url, timeout)
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
            unreachable.append(f"{home.url} ({reason})")
            continue
        try:
            content = _unpack(packed, home.members, file.size)
            found = file.digest(content)
            if found != file.sha256:
                raise InvalidData(f"SHA-256 {found[:16]}... instead of {file.sha256[:16]}...")
        except InvalidData as error:
            wrong.append(f"{home.url} ({str(error).rstrip('.')})")
            continue
        # An archive that scikit-learn and others also know is kept as it was published.
        keep = packed[:2] == GZIP and not home.members and file.stored(content) == content
        path = target / (f"{file.name}.gz" if keep else file.name)
        _install(path, packed if keep else file.stored(content))
        tell(f"{target.name}/{file.name}: downloaded, checksum right")
        return path
    if wrong:
        raise InvalidData(
            f"file {file.name!r} was downloaded but is not the published one, so it was deleted "
            f"and nothing was installed: {'; '.join(wrong + unreachable)}."
        )
    raise MissingData(
        f"file {file.name!r} could not be downloaded; tried "
        f"{'; '.join(unreachable)}; without a network put the file into {str(target)!r} yourself."
    )


def _get(url: str, timeout: float) -> bytes:
    """Return the body of `url`, at most LIMIT bytes of it."""
    request = urllib.request.Request(url, headers={"User-Agent": "noisette"})
    body = bytearray()
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        promised = answer.headers.get("Content-Length")
        while chunk := answer.read(CHUNK):
            body += chunk
            if len(body) > LIMIT:
                raise OSError(f"the answer is longer than {LIMIT} bytes")
    if promised is not None and promised.isdigit() and len(body) < int(promised):
        raise OSError(f"the answer stopped after {len(body)} of {promised} bytes")
    return bytes(body)


def _unpack(packed: bytes, members: tuple[str, ...], size: int) -> bytes:
    """Follow `members` through zip archives, undo gzip; refuse far more than `size` bytes."""
    most = size + size // 8 + 4096  # other line ends make a text a little longer
    if members:
        if packed[:4] != ZIP:
            raise InvalidData("the answer is not a zip archive.")
        try:
            with zipfile.ZipFile(io.BytesIO(packed)) as archive, archive.open(members[0]) as inside:
                inner = inside.read(most + 1 if len(members) == 1 else LIMIT)
        except (KeyError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
            raise InvalidData(f"the zip archive has no readable member {members[0]!r}.") from error
        return _unpack(inner, members[1:], size)
    if packed[:2] == GZIP:
        try:
            with gzip.open(io.BytesIO(packed)) as stream:
                packed = stream.read(most + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise InvalidData("the gzip file is damaged.") from error
    if len(packed) > most:
        raise InvalidData(f"the content is longer than the published {size} bytes.")
    return packed


def _install(path: Path, data: bytes) -> None:
    """Write the file, with one sentence if that fails."""
    try:
        _files.write(path, data)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise MissingData(f"{str(path)!r} cannot be written: {reason}.") from error
