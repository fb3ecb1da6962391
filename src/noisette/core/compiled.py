"""Compiled kernels, kept on disk in a place that nobody else can write into.

numba keeps what it has compiled as pickles, and a pickle runs what its writer wants. So kernels are
kept beside their source, which is trusted anyway; where that cannot be written, in a folder of the
user that is checked as ssh checks its keys; and where there is none, they are compiled again in
every process. Imported lazily, as everything that loads numba.
"""

# mypy: disable-error-code="attr-defined"
import contextlib
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import config


def compiled(**options: Any) -> Callable[[Any], Any]:
    """Return a decorator: ``numba.njit`` without the interpreter's lock, in numpy's arithmetic."""
    settings: dict[str, Any] = {"nogil": True, "error_model": "numpy", **options}

    def decorate(function: Any) -> Any:
        beside = Path(function.__code__.co_filename).parent / "__pycache__"
        before = config.CACHE_DIR
        known = getattr(config, "CACHE_LOCATOR_CLASSES", "")  # numba 0.61: somebody knows better
        if not known and (before or not _writable(beside)):
            folder = _folder()
            if folder is None:
                return numba.njit(**settings)(function)
            config.CACHE_DIR = str(folder)
        try:
            return numba.njit(cache=True, **settings)(function)
        finally:
            config.CACHE_DIR = before

    return decorate


def _writable(folder: Path) -> bool:
    """Whether files can be made in `folder`, or `folder` itself in the one above it."""
    with contextlib.suppress(OSError):
        folder.mkdir(exist_ok=True)
    return os.access(folder, os.W_OK)


def _folder() -> Path | None:
    """Return the folder for kernels of a program that cannot be written, None if none is safe."""
    named = config.CACHE_DIR
    try:
        folder = Path(named) if named else _user_cache() / "noisette" / "kernels"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = folder.resolve()  # what is checked is what is used, whoever moves a link meanwhile
        return folder if only_ours(folder) and os.access(folder, os.W_OK) else None
    except (OSError, RuntimeError):  # no home, or it cannot be written
        return None


def _user_cache() -> Path:
    """Return where this system keeps what a user's programs can make again."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    named = os.environ.get("XDG_CACHE_HOME", "")
    return Path(named) if Path(named).is_absolute() else Path.home() / ".cache"


def only_ours(folder: Path) -> bool:
    """Whether nobody but this user and the administrator can put a file into `folder`.

    It must be ours and closed to others' writing; and so must be what lies above it, or else
    somebody could put another folder in its place, unless it is sticky as /tmp is.
    """
    if os.name != "posix":
        return True  # profiles are private there
    place = folder.resolve()
    trusted = {0, os.geteuid(), Path("/").stat().st_uid}
    own = place.stat()
    if own.st_uid != os.geteuid() or own.st_mode & 0o022:
        return False
    for above in place.parents:
        found = above.stat()
        loose = found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX
        if loose or found.st_uid not in trusted:
            return False
    return True
