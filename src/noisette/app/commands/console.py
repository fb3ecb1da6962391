"""What the commands share towards the person and the disk: a sign of life, whole files or none.

Ctrl-C and its relatives get a polite end, with a sentence about what the stop has cost.
"""

import contextlib
import csv
import io
import itertools
import json
import signal
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from noisette import _files, _validate
from noisette._validate import refuse, visible
from noisette.errors import InvalidParameter, NoisetteError, PrivacyWarning, WeakModelWarning


def busy(what: str) -> Any:
    """Show on a terminal that something is going on; nothing in a file or a pipe."""
    from rich.console import Console

    return Console(stderr=True).status(what)


def print_table(
    title: Any, heads: Iterable[str], rows: Iterable[Iterable[object]],
    right: Sequence[str] = (), console: Any = None, foot: Sequence[str] = (),
) -> None:  # fmt: skip
    """Print a table; columns in `right` are numbers. No cell can steer the terminal."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", show_footer=bool(foot))
    for head, under in zip(heads, foot or itertools.repeat(""), strict=False):
        table.add_column(head, under, justify="right" if head in right else "left")
    for row in rows:
        table.add_row(*map(as_text, row))
    (console or Console()).print(table)


def as_text(words: object) -> Any:
    """Return text for a terminal: what comes from a file must not steer it."""
    from rich.text import Text

    return Text(visible(str(words)))


def say(*lines: str) -> None:
    """Print lines; what comes from a file must not steer the terminal."""
    print("\n".join(map(visible, lines)))


def reply(told: Any, *lines: str, as_json: bool) -> None:
    """Print one JSON object for machines, or lines for people."""
    if as_json:
        print(json.dumps(told))
    else:
        say(*lines)


def print_guarantee(guarantee: Any, title: str = "the guarantee") -> None:
    """Print a statement in its frame: red if its noise came from a seed."""
    from rich.console import Console
    from rich.panel import Panel

    style = "red" if guarantee.seeded else "green"
    Console().print(Panel(as_text(guarantee.statement()), title=title, border_style=style))


PROGRESS = "noisette: progress: "
"""How a line begins that tells a program how far a command is."""


def warn(sentence: str) -> None:
    """Print a sentence that does not end the command, if there is one."""
    if sentence:
        with contextlib.suppress(OSError):
            print(f"noisette: warning: {visible(sentence)}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def warning_aloud() -> Iterator[None]:
    """Print a warning as one sentence, at once: before anything is charged."""
    aloud, usual = (WeakModelWarning, PrivacyWarning), warnings.showwarning
    with warnings.catch_warnings():
        for kind in aloud:
            warnings.simplefilter("always", kind)

        def show(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
            if issubclass(category, aloud):
                warn(str(message))
            else:
                usual(message, category, *rest, **more)

        warnings.showwarning = show
        yield


def readable(name: str) -> str:
    """Return a name that every file can hold: a path may have bytes that are no text."""
    return "".join(c if c.isprintable() else "?" for c in name)


def check_file(path: Path, *, force: bool) -> None:
    """Refuse a place where a file cannot or must not be written."""
    there = path.exists()
    refuse(
        (path.is_dir(), f"{path} is a folder; give the name of a file."),
        # a device or a pipe would be replaced by a file
        (there and not path.is_file(), f"{path} is not an ordinary file; give another name."),
        (there and not force, f"{path} exists; give another name, or --force to replace it."),
    )


def write_text(path: Path, content: str | bytes, *, force: bool) -> None:
    """Write a whole file or nothing."""
    check_file(path, force=force)
    try:
        _files.write(_validate.real_path(path), content)
    except OSError as error:
        raise InvalidParameter(f"{path} cannot be written ({error.strerror}).") from None


def csv_text(header: Iterable[object], rows: Iterable[Iterable[object]], ending: str = "\n") -> str:
    """Return a table as CSV."""
    file = io.StringIO()
    csv.writer(file, lineterminator=ending).writerows([header, *rows])
    return file.getvalue()


def figure_file(option: str, path: str | Path, *, force: bool = True) -> Path:
    """Return where a figure will be; refuse what it cannot be, before any work."""
    target = Path(path)
    refuse(
        (target.suffix.lower() not in (".png", ".svg", ".pdf"),
         f"{option} must end in .png, .svg or .pdf; got {str(path)!r}."),
        (not target.parent.is_dir(), f"the folder {target.parent} does not exist."),
    )  # fmt: skip
    check_file(target, force=force)
    return target


def write_figure(figure: Any, target: Path) -> None:
    """Write a whole figure or nothing."""
    try:
        with _files.written(target) as file:
            figure.savefig(file, dpi=150, format=target.suffix[1:].lower())
    except OSError as error:
        raise InvalidParameter(f"{target} cannot be written ({error.strerror}).") from None


finished = ""
"""What a command has done that paid for it and came to its end, for whatever fails after it."""


class Stopped(NoisetteError):
    """A command ended early; its text says what is and what is not done, its code how."""

    def __init__(self, sentence: str, code: int = 130) -> None:
        super().__init__(sentence)
        self.code = code


class Signalled(KeyboardInterrupt):
    """A signal that is treated as Ctrl-C; its argument is the exit code that shells give to it."""


def _raise(number: int, frame: FrameType | None) -> None:
    raise Signalled(128 + number)


@contextlib.contextmanager
def as_ctrl_c() -> Iterator[None]:
    """Let `kill` and a closed terminal clean up as Ctrl-C does; what was ignored stays ignored."""
    changed = []
    try:
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)  # Windows lacks one
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                with contextlib.suppress(ValueError):  # handlers belong to the main thread
                    signal.signal(number, _raise)
                    changed.append(number)
        yield
    finally:
        for number in changed:
            signal.signal(number, signal.SIG_DFL)
