"""Drafts: hidden folders beside a result, in which it is made before it gets its name.

A draft is locked while its process lives, and the system takes the lock away when the process
ends, however it ends. So a draft whose lock is free was left behind by a kill or a power cut. What
was paid for and is whole in it is never deleted: ``noisette recover`` gives it a name. Its own name
tells the machine: some network drives keep locks to one.
"""

import contextlib
import errno
import hashlib
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

from noisette import _files, _validate
from noisette.errors import InvalidParameter
from noisette.models.files import IN_FOLDER

_NEW, _OLD, _ROOM = "new", "old", "room"
_NAMED = re.compile(r"\.(?P<name>.+)\.noisette-draft-(?P<machine>[0-9a-f]{8})-[^.]+\Z", re.DOTALL)
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}
_TAKEN = {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EISDIR}


def _machine() -> str:
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


class Draft:
    """A draft of `target`: `new` is where the result is made, a file or a folder.

    A model's folder is whole when it has its model file, which is written last.
    """

    def __init__(self, path: Path) -> None:
        named = _NAMED.match(path.name)
        if named is None:
            raise InvalidParameter(f"{path} is not a draft of noisette.")
        self.path, self.new = path, path / _NEW
        self.target = path.with_name(named["name"])
        self.here = named["machine"] == _machine()
        self._aim: Path | None = None
        self._inode = 0
        self.lockless = False

    def reserve(self, size: int) -> None:
        """Take room on the disk, until `make_room`; noise, for some disks pack zeros."""
        _files.write(self.path / _ROOM, os.urandom(size))
        _files.sync_folder(self.path.parent)

    def make_room(self) -> None:
        """Give the room back, to be filled with the result."""
        with contextlib.suppress(OSError):
            (self.path / _ROOM).unlink()

    def is_whole(self) -> bool:
        """Whether the result is here, complete; an error of the disk is not taken for a no."""
        there = _NEW in os.listdir(self.path)
        return there and (self.new.is_file() or IN_FOLDER in os.listdir(self.new))

    @property
    def place(self) -> Path | None:
        """Where the whole result is, under whatever name; None if there is none."""
        with contextlib.suppress(OSError):
            if self.is_whole():
                return self.new
        with contextlib.suppress(OSError):
            if self._aim is not None and os.stat(self._aim).st_ino == self._inode:
                return self._aim
        return None

    def give_name(self, *, force: bool = False) -> Path:
        """Rename the result to its target, or to a free name beside it; return the name.

        Nobody's model is taken away, unless `force` says that the one there is to be replaced.
        """
        self._inode = os.stat(self.new).st_ino
        single, place, k = self.new.is_file(), self.target, 1
        if force and not single and place.exists() and any(place.iterdir()):
            os.rename(place, self.path / _OLD)
        while True:
            self._aim = place
            try:
                if single and not force and os.path.lexists(place):  # a rename would replace it
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
                os.rename(self.new, place)
                break
            except OSError as error:
                if error.errno not in _TAKEN:
                    raise
            k += 1
            place = self.target.with_name(f"{self.target.stem}-{k}{self.target.suffix}")
        _files.sync_folder(self.path)
        _files.sync_folder(place.parent)
        return place

    def end(self) -> None:
        """Finish what is whole; remove the rest. What cannot be judged or named stays."""
        with contextlib.suppress(OSError):
            if self.is_whole():
                self.give_name()
            if (self.path / _OLD).is_dir() and not self.target.exists():
                os.rename(self.path / _OLD, self.target)
            self.discard()

    def discard(self) -> None:
        """Remove the draft with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)

    def lock(self, *, wait: bool = False) -> int | None:
        """Return a handle that holds the lock; None if it is taken, or there are no locks here."""
        try:
            import fcntl
        except ImportError:  # Windows, where drafts are never cleared away
            self.lockless = True
            return None
        handle = None
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError as error:
            self.lockless = error.errno in _NO_LOCKS
            if handle is not None:
                os.close(handle)
            return None
        return handle

    @contextlib.contextmanager
    def unused(self, *, asked: bool = False) -> Iterator[bool]:
        """Hold the lock of a draft that was left behind; whether nobody works on it.

        Where there are no locks, a person knows who `asked` for this very draft.
        """
        handle = self.lock()
        try:
            yield handle is not None or (asked and self.lockless)
        finally:
            if handle is not None:
                os.close(handle)


@contextlib.contextmanager
def draft_of(result: Path) -> Iterator[Draft]:
    """Yield a new locked draft, before it is paid for; at the end a whole result has a name."""
    target = _validate.real_path(result)
    prefix = f".{target.name}.noisette-draft-{_machine()}-"
    try:
        while True:
            draft = Draft(Path(tempfile.mkdtemp(prefix=prefix, dir=target.parent)))
            handle = draft.lock(wait=True)
            if draft.path.is_dir():  # else it was cleared away before it was locked
                break
            if handle is not None:
                os.close(handle)
    except OSError as error:
        raise InvalidParameter(
            f"{result} cannot be written ({error.strerror}); nothing was charged."
        ) from None
    try:
        if not _is_alone(draft):
            raise InvalidParameter(
                f"another training is about to write {result}; wait for its end, or give another "
                "folder; nothing was charged."
            )
        yield draft
    finally:
        draft.end()
        if handle is not None:
            os.close(handle)


def left_behind(folder: Path, target: Path | None = None) -> list[Draft]:
    """Return the drafts in a folder, of one target or of all; links are none."""
    with os.scandir(folder) as items:
        named = [
            item.name
            for item in items
            if _NAMED.match(item.name) and item.is_dir(follow_symlinks=False)
        ]
    drafts = map(Draft, map(folder.joinpath, sorted(named)))
    return [draft for draft in drafts if target in (None, draft.target)]


def _is_alone(draft: Draft) -> bool:
    """Whether no other process of this machine works on a draft of the same target, if known."""
    try:
        import fcntl  # noqa: F401 - without locks nothing is known

        others = left_behind(draft.path.parent, draft.target)
    except (ImportError, OSError):
        return True
    for other in others:
        if other.path != draft.path and other.here:
            with other.unused() as free:
                if not free and other.path.exists():
                    return False
    return True


def clear_away(target: Path) -> Draft | None:
    """Remove drafts of `target` in which nothing was finished; return one with a whole result."""
    with contextlib.suppress(OSError):
        for draft in left_behind(target.parent, target):
            if draft.here:
                with draft.unused() as free:
                    if free and draft.is_whole():
                        return draft
                    if free:
                        draft.end()
    return None
