"""Faults injected into a command that pays: a failing system call, a signal, an error anywhere.

Each run is a forked process on a copy of a folder, in which one thing goes wrong; afterwards the
ledger, the disk, the exit code and the sentence are compared. `python tests/faults.py` prints the
table of the whole sweep.
"""

import builtins
import errno
import io
import itertools
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CALLS = ("open", "read", "write", "fsync", "rename", "mkdir", "unlink")
_OF_OS = {
    "open": "open", "read": "read", "pread": "read", "write": "write", "pwrite": "write",
    "fsync": "fsync", "rename": "rename", "replace": "rename", "mkdir": "mkdir",
    "unlink": "unlink", "remove": "unlink", "rmdir": "unlink", "ftruncate": "write",
    "posix_fallocate": "write", "utime": "write", "link": "rename",
    "scandir": "read", "listdir": "read",
}  # fmt: skip
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
ERRORS = (errno.ENOSPC, errno.EIO)
LATE = "lost after it was on the disk"


@dataclass(frozen=True)
class Fault:
    """The `number`-th system call of a kind, or the first entry of a function after the charge."""

    kind: str
    number: int = 0
    what: Any = None
    function: tuple[str, str, int] | None = None

    def strike(self, name: Any = None) -> None:
        """Do it; an error of a call by name has the name, as the system's have."""
        if isinstance(self.what, signal.Signals):
            os.kill(os.getpid(), self.what)
        elif isinstance(self.what, int):
            raise OSError(self.what, os.strerror(self.what), *([] if name is None else [name]))
        elif self.what is not None:
            raise self.what


class Injector:
    """Counts what a command does below `root`, writes it to a log, and strikes once."""

    def __init__(self, root: Path, log: Path, fault: Fault | None) -> None:
        self.root, self.fault = os.fspath(root), fault
        self.log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.counts: Counter[str] = Counter()
        self.charged = self.done = False
        self.seen: set[Any] = set()
        self.write = os.write

    def note(self, kind: str, what: str) -> None:
        self.write(self.log, f"{kind}\t{what}\n".encode("utf-8", "replace"))

    def inside(self, what: Any) -> str | None:
        try:
            name = os.readlink(f"/proc/self/fd/{what}") if isinstance(what, int) else what
            text = os.path.abspath(os.fsdecode(name))
        except (OSError, TypeError, ValueError):
            return None
        return text if text.startswith(self.root) else None

    def hit(self, kind: str, what: Any, *, before: bool) -> None:
        path = self.inside(what)
        if path is None or self.done:
            return
        if before:
            self.counts[kind] += 1
            wanted = self.fault is not None and self.fault.kind == kind
            if wanted and self.fault.number == self.counts[kind]:
                self.done = True
                self.note("FAULT", path)
                self.fault.strike(None if isinstance(what, int) else what)
        else:
            self.note(kind, path)

    def install(self) -> None:
        for name, kind in _OF_OS.items():
            if hasattr(os, name):
                setattr(os, name, self._wrapped(getattr(os, name), kind))
        opened = self._opened()
        builtins.open = io.open = opened
        from noisette.core.ledger import Ledger

        real = Ledger.charge

        def charge(ledger: Any, plan: Any, **options: Any) -> Any:
            permit = real(ledger, plan, **options)
            self.charged = True
            self.note("CHARGED", "")
            if self.fault is None or self.fault.kind == "function":
                sys.setprofile(self._entered)
            return permit

        Ledger.charge = charge

    def _wrapped(self, real: Callable[..., Any], kind: str) -> Callable[..., Any]:
        def call(what: Any = ".", *rest: Any, **more: Any) -> Any:
            self.hit(kind, what, before=True)
            found = real(what, *rest, **more)
            self.hit(kind, what if kind != "rename" else rest[0], before=False)
            return found

        return call

    def _opened(self) -> Callable[..., Any]:
        injector, real = self, io.open

        class Raw(io.FileIO):
            def write(self, data: Any) -> Any:
                injector.hit("write", self.fileno(), before=True)
                return super().write(data)

            def readinto(self, data: Any) -> Any:
                injector.hit("read", self.fileno(), before=True)
                return super().readinto(data)

            def readall(self) -> Any:
                injector.hit("read", self.fileno(), before=True)
                return super().readall()

        def opened(
            file: Any, mode: str = "r", buffering: int = -1, encoding: Any = None,
            errors: Any = None, newline: Any = None, closefd: bool = True, opener: Any = None,
        ) -> Any:  # fmt: skip
            if injector.inside(file) is None or opener is not None:
                return real(file, mode, buffering, encoding, errors, newline, closefd, opener)
            if not isinstance(file, int):
                injector.hit("open", file, before=True)
            plain = mode.replace("b", "").replace("t", "")
            raw = Raw(file, plain, closefd)
            if buffering == 0:
                return raw
            kind: Any = io.BufferedReader if plain == "r" else io.BufferedWriter
            buffer = io.BufferedRandom(raw) if "+" in plain else kind(raw)
            if "b" in mode:
                return buffer
            return io.TextIOWrapper(buffer, encoding, errors, newline)

        return opened

    def _entered(self, frame: Any, event: str, _: Any) -> None:
        if (
            event != "call"
            or self.done
            or threading.current_thread() is not threading.main_thread()
        ):
            return
        code = frame.f_code
        key = (code.co_filename, code.co_name, code.co_firstlineno)
        if code.co_filename == __file__ or key in self.seen:
            return
        self.seen.add(key)
        if self.fault is None:
            self.note("FUNCTION", json.dumps(key))
        elif self.fault.function == key:
            self.done = True
            self.note("FAULT", json.dumps(key))
            self.fault.strike()


@dataclass(frozen=True)
class Outcome:
    """What the disk, the ledger, the exit code and the sentence say after one fault."""

    fault: Fault
    code: int
    said: str
    struck: bool
    synced: bool
    """Whether the result's file, which is on the disk before it has a name, had its name."""
    charged: bool
    kept: str
    """"folder", "recovered" (by ``noisette recover``) or "" for a result that is nowhere."""
    faults: tuple[str, ...]

    @property
    def lost(self) -> bool:
        """Whether something was paid for and is nowhere."""
        return self.charged and not self.kept


class Command:
    """A command to be struck: its folder is copied for each run."""

    def __init__(self, home: Path, arguments: list[str], result: Callable[[Path], bool]) -> None:
        self.home, self.arguments, self.result = home, arguments, result
        self._numbers = itertools.count()

    def run(self, fault: Fault | None) -> tuple[Path, int, str, list[str]]:
        """Run once in a forked process; return its folder, code, last line and log."""
        root = Path(tempfile.mkdtemp(prefix="fault-"))
        work, log, said = root / "work", root / "log", root / "said"
        shutil.copytree(self.home, work)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            code = 99
            try:
                code = self._child(work, log, said, fault)
            finally:
                os._exit(code)
        status = os.waitpid(child, 0)[1]
        code = os.waitstatus_to_exitcode(status)
        lines = log.read_text().splitlines() if log.exists() else []
        return root, code, said.read_text(errors="replace"), lines

    def _child(self, work: Path, log: Path, said: Path, fault: Fault | None) -> int:
        os.chdir(work)
        handle = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        printed = os.open(work.parent / "printed", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(printed, 1)
        os.dup2(handle, 2)
        sys.stdout, sys.stderr = (os.fdopen(n, "w", closefd=False) for n in (1, 2))
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.argv = ["noisette", *self.arguments]
        from noisette.app.commands import main

        Injector(work, log, fault).install()
        try:
            main()
        except SystemExit as stop:
            return int(stop.code or 0)
        finally:
            sys.setprofile(None)
            sys.stderr.flush()
        return 0

    def outcome(self, fault: Fault) -> Outcome:
        """Run with a fault and compare what is true with what was said."""
        from noisette import Ledger

        root, code, said, log = self.run(fault)
        work = root / "work"
        book = Ledger.open(work / "b.ledger")
        charged = book.count > 0
        kept = "folder" if self.result(root) else ""
        if not kept and _recover(work):
            kept = "recovered" if self.result(root) else ""
        synced = any(re.match(r"rename\t.*/(model.noisette|new)$", line) for line in log)
        struck = any(line.startswith("FAULT") for line in log)
        found = tuple(_contradictions(code, said, charged=charged, kept=kept))
        if charged and not kept and hasattr(book, "uncollected") and len(book.uncollected()) != 1:
            found += ("not listed as paid and not collected",)
        shutil.rmtree(root)
        return Outcome(fault, code, said, struck, synced, charged, kept, found)

    def dry(self) -> tuple[Counter[str], list[tuple[str, str, int]]]:
        """Return how many calls of each kind there are, and the functions after the charge."""
        root, code, said, log = self.run(None)
        shutil.rmtree(root)
        assert code == 0, said
        functions = [tuple(json.loads(line.split("\t")[1])) for line in log
                     if line.startswith("FUNCTION")]  # fmt: skip
        return Counter(line.split("\t")[0] for line in log), functions


def _recover(work: Path) -> bool:
    """Run ``noisette recover`` on a folder, in a version that has it."""
    from helpers import run_command
    from noisette.app.commands.app import COMMANDS

    return "recover" in COMMANDS and run_command("recover", work).returncode == 0


def _contradictions(code: int, said: str, *, charged: bool, kept: str) -> Iterator[str]:
    """Yield what was said, or told by the exit code, and is not so."""
    words = re.sub(r"noisette: (progress|warning): .*", "", said)
    if charged and re.search(r"nothing was charged", words, re.IGNORECASE):
        yield "says that nothing was charged"
    if not charged and re.search(r"(?<!othing )was charged", words):
        yield "says that it was charged"
    if kept and "nothing was written" in words:
        yield "says that nothing was written"
    if not kept and re.search(r"is whole|was printed|the model was written|are complete", words):
        yield "says that the result is there"
    if "Traceback" in words and "Exception ignored in" not in words:  # raised in a finalizer
        yield "a traceback"
    if code < 0:  # killed: nothing could be said
        return
    if code in (0, 3, 74) and not kept:
        yield f"code {code} without a result"
    if code not in (0, 3, 74) and kept:
        yield f"code {code} with a result"
    if code == 3 and not charged:
        yield "code 3 without a charge"


def sweep(
    command: Command, first: int = 0, *, calls: int = 1, functions: int = 1
) -> Iterator[Outcome]:
    """Yield what came of every so-many-th system call that fails, and function that raises."""
    counts, entered = command.dry()
    struck = [
        Fault(kind, k, what)
        for kind in CALLS
        for what in (*ERRORS, *SIGNALS)
        for k in range(1, 2 * counts[kind] + 20)
    ]
    raised = [
        Fault("function", 0, what, function)
        for what in (MemoryError, KeyboardInterrupt)
        for function in entered
    ]
    over = set()  # kinds of which the command has no more
    chosen = struck[first :: calls or len(struck)], raised[first :: functions or len(raised)]
    for fault in itertools.chain(*chosen):
        group = fault.kind, fault.what
        if group in over:
            continue
        found = command.outcome(fault)
        if found.struck:
            yield found
        elif fault.kind != "function":
            over.add(group)


def training(home: Path, *more: str) -> Command:
    """Return a training of a small table that charges a ledger."""
    from helpers import run_command, write_table
    from noisette.tables import read_model
    from noisette.tables.datasets import mixed_table

    write_table(home / "t.csv", mixed_table(600, seed=1).columns)
    shutil.copy(Path(__file__).parents[1] / "examples" / "loans.toml", home / "f.toml")
    run_command("ledger", home / "b.ledger", "--epsilon", 3)
    before = None
    plain = ["train", "t.csv", "--schema", "f.toml", "--epsilon", "1", "--out", "m", *more]
    if "--force" in more:
        place = os.getcwd()
        os.chdir(home)
        assert run_command(*plain).returncode == 0
        os.chdir(place)
        before = (home / "m" / "model.noisette").read_bytes()

    def result(root: Path) -> bool:
        for path in root.glob("work/m*/model.noisette"):
            if path.read_bytes() != before:
                return read_model(path.parent).guarantee.epsilon == 1.0
        return False

    return Command(home, [*plain, "--ledger", "b.ledger"], result)


def scoring(home: Path, *more: str) -> Command:
    """Return an evaluation of a model that charges a ledger."""
    from helpers import run_command

    training(home)
    place = os.getcwd()
    os.chdir(home)
    done = run_command("train", "t.csv", "--schema", "f.toml", "--epsilon", 1, "--out", "m")
    os.chdir(place)
    assert done.returncode == 0

    def result(root: Path) -> bool:
        kept = [path.read_text() for path in root.glob("work/*.json")]
        printed = root / "printed"
        kept += [printed.read_text()] if printed.exists() else []
        return any('"guarantee"' in text and text.endswith("}\n") for text in kept)

    arguments = ["evaluate", "m", "t.csv", "--epsilon", "1", "--ledger", "b.ledger", "--json"]
    return Command(home, [*arguments, *more], result)


def table_of(outcomes: list[Outcome]) -> str:
    """Return the outcomes by kind of fault in lines."""
    rows: dict[str, Counter[str]] = {}
    for each in outcomes:
        kind = "in a function" if each.fault.kind == "function" else "in a call"
        what = each.fault.what
        name = what.__name__ if isinstance(what, type) else (
            what.name if isinstance(what, signal.Signals) else errno.errorcode[what])  # fmt: skip
        row = rows.setdefault(f"{name} {kind}", Counter())
        row["faults"] += 1
        row["not charged"] += not each.charged
        row["kept"] += each.charged and each.kept == "folder"
        row["recovered"] += each.charged and each.kept == "recovered"
        row["lost"] += each.lost
        row[LATE] += each.lost and each.synced
        row["false"] += bool(each.faults)
    heads = (
        "faults",
        "not charged",
        "kept",
        "recovered",
        "lost",
        LATE,
        "false",
    )
    lines = ["| fault | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for name, row in rows.items():
        lines.append(f"| {name} | " + " | ".join(str(row[head]) for head in heads) + " |")
    total = sum(rows.values(), Counter())
    lines.append("| all | " + " | ".join(str(total[head]) for head in heads) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    what, every, *words = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        found = []
        one = (scoring if what == "evaluate" else training)(Path(folder), *words)
        for each in sweep(one, calls=min(int(every), 2), functions=int(every)):
            found.append(each)
            if each.faults or (each.lost and each.synced):
                print(each.fault, each.code, each.faults, each.said[-300:], flush=True)
        print(table_of(found))
