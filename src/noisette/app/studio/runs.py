"""Step 5: a training is the command that the page shows, run as a process of its own.

So what is charged, written and said is what the command line charges, writes and says, and a stop
is its own polite end. An order is carried out at most once, however often it is sent: its key is
made when the plan is shown, and a second sending finds the training of the first.
"""

import contextlib
import secrets
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from noisette.app.commands import KEPT
from noisette.app.commands.console import PROGRESS
from noisette.errors import InvalidParameter, NoisetteError
from noisette.tables.drafts import clear_away
from noisette.tables.folders import MODEL, check_folder

STEPS = {
    "starting": "starting",
    "reading": "reading the table",
    "training": "preparing the plan",
    "charging": "booking the charge",
    "charged": "training; the ledger is charged",
    "writing": "writing the model, its guarantee and the report",
}
"""The steps of a training in order, in words; how long each takes is all that they tell."""

SAID = "noisette: "
"""How each sentence of a command to its user begins."""
_WARNING = "noisette: warning: "
_CLOSED_AFTER = 90.0  # seconds without a sign of the page; browsers slow down hidden pages
_HARD_AFTER = 30.0  # seconds that a training has for its polite end


def noisette_command(*arguments: str) -> list[str]:
    """Return how to run a command of noisette: the same Python, and no module from the folder."""
    return [sys.executable, "-P", "-m", "noisette", *arguments]


@dataclass(frozen=True)
class Order:
    """One training that a person may confirm: what it runs, where it writes, what it charges."""

    arguments: tuple[str, ...]
    out: Path
    ledger: str
    walk: str
    key: str = field(default_factory=lambda: secrets.token_urlsafe(16))


class StartedTraining:
    """A training: where it stands, and what it said at its end."""

    def __init__(self, order: Order, *, ends_with_page: bool) -> None:
        self.order, self.step = order, "starting"
        self.state = "running"  # then "done", "failed" or "stopped"
        self.sentence = self.warning = ""
        self._asked = self._charged = False
        self._stopped_at: float | None = None
        self._ends_with_page = ends_with_page
        self._began = self._seen = time.monotonic()
        self._process = subprocess.Popen(
            noisette_command(*order.arguments, "--progress"),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            start_new_session=True, cwd=order.out.parent, text=True, errors="replace",
        )  # fmt: skip
        self._ended = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()
        threading.Thread(target=self._watch, daemon=True).start()

    @property
    def charged(self) -> bool | None:
        """Whether the ledger was charged; None if that is not known."""
        if self._charged or self.state == "done":
            return True
        return None if self._asked else False

    @property
    def elapsed(self) -> float:
        """Seconds since the start, for a page that waits; shown nowhere afterwards."""
        return time.monotonic() - self._began

    def seen(self) -> None:
        """Remember that a page looks at this training."""
        self._seen = time.monotonic()

    def stop(self) -> None:
        """Ask the training to end; it says itself what that has cost."""
        if self._stopped_at is None and self.state == "running":
            self._stopped_at = time.monotonic()
            with contextlib.suppress(OSError):
                self._process.send_signal(signal.SIGTERM)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end; whether it came."""
        return self._ended.wait(seconds)

    def _listen(self) -> None:
        """Follow what the process says: steps of a fixed list, one warning, one last sentence."""
        said = ""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            line = line.rstrip("\n")
            if line.startswith(PROGRESS):
                step = line.removeprefix(PROGRESS)
                self.step = step if step in STEPS else self.step
                self._charged |= step == "charged"
                # a refusal takes back that it was asked for, not what was booked before
                self._asked = self._charged if step == "refused" else self._asked
                self._asked |= step == "charging"
            elif line.startswith(_WARNING):
                self.warning = f"{self.warning} {line.removeprefix(_WARNING)}".strip()
            elif line.startswith(SAID):
                said = line.removeprefix(SAID)
        code = self._process.wait()
        self._process.stderr.close()
        # "stopped." alone is said before the command knows of a ledger
        silent = said in ("", "stopped.")
        if code == 0:
            self.state = "done"
        elif (code == KEPT and f" {self.order.out}," in said) or (silent and self._brought_back()):
            self.state, self.warning = "done", "It ended early: " + (said or "before its report.")
        else:
            self.state = "failed" if self._stopped_at is None else "stopped"
            end = "the training ended without a word" if self.state == "failed" else "stopped"
            cost = " and nothing was charged"
            if self._asked:
                state = "was charged" if self._charged else "may have been charged"
                cost = f", but {self.order.ledger} {state} and a charge is never returned"
            self.sentence = f"{end}; nothing was written{cost}." if silent else said
        self._ended.set()

    def _brought_back(self) -> bool:
        """Whether a training that was killed has left its model, which then gets its name."""
        with contextlib.suppress(OSError):
            draft = clear_away(self.order.out)
            if draft is not None:
                with draft.unused() as free:
                    if free:
                        draft.end()
            return self.charged is not False and (self.order.out / MODEL).is_file()
        return False

    def _watch(self) -> None:
        """End the training if its page was closed, where that was chosen; hard if it must be."""
        while not self._ended.wait(1.0):
            now = time.monotonic()
            if self._ends_with_page and now - self._seen > _CLOSED_AFTER:
                self.stop()
            if self._stopped_at is not None and now - self._stopped_at > _HARD_AFTER:
                self._process.kill()


class Runs:
    """All trainings of a studio; one at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[str, StartedTraining] = {}

    def get(self, key: str) -> StartedTraining | None:
        """Return the training of an order, if it was confirmed."""
        return self._runs.get(key)

    def of_walk(self, walk: str) -> list[StartedTraining]:
        """Return the trainings of one walk."""
        return [run for run in list(self._runs.values()) if run.order.walk == walk]

    @property
    def running(self) -> StartedTraining | None:
        """The training that is under way."""
        return next((run for run in list(self._runs.values()) if run.state == "running"), None)

    def start(self, order: Order, *, ends_with_page: bool = False) -> StartedTraining:
        """Carry out an order, once: whoever sends it again gets the training of the first time."""
        with self._lock:
            if order.key in self._runs:
                return self._runs[order.key]
            if self.running is not None:
                raise InvalidParameter(
                    "another training is under way; wait for its end, or stop it; nothing was "
                    "charged for this one."
                )
            check_folder(order.out, force=False)
            try:
                self._runs[order.key] = StartedTraining(order, ends_with_page=ends_with_page)
            except OSError as error:
                raise NoisetteError(
                    f"the training could not be started ({error.strerror}); nothing was charged."
                ) from None
            return self._runs[order.key]

    def close(self) -> str:
        """End what is under way, politely; return what it said."""
        run = self.running
        if run is None:
            return ""
        run.stop()
        run.wait(_HARD_AFTER + 5.0)
        return run.sentence
