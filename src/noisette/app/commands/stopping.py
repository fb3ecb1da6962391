"""Ctrl-C and its relatives: a polite end, with a sentence about what the stop has cost."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

from noisette.errors import NoisetteError

KEPT = 3
"""The exit code of a command that did not end as asked, but whose result is paid for and kept."""

finished = ""
"""What a command has done that paid for it and came to its end, for whatever fails after it."""
_NAMES = ("SIGTERM", "SIGHUP")


class Stopped(NoisetteError):
    """A command ended early; its text says what is and what is not done, its code how."""

    def __init__(self, sentence: str, code: int = 130) -> None:
        super().__init__(sentence)
        self.code = code


class Signalled(KeyboardInterrupt):
    """A signal that is treated as Ctrl-C."""

    number: int = signal.SIGINT


def code_of(stop: KeyboardInterrupt) -> int:
    """Return the exit code that a shell gives to a process ended by that signal."""
    return 128 + int(getattr(stop, "number", signal.SIGINT))


def _raise(number: int, frame: FrameType | None) -> None:
    stop = Signalled()
    stop.number = number
    raise stop


@contextlib.contextmanager
def as_ctrl_c() -> Iterator[None]:
    """Let `kill` and a closed terminal clean up as Ctrl-C does; what was ignored stays ignored."""
    changed = []
    try:
        for name in _NAMES:
            number = getattr(signal, name, None)  # Windows lacks one
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                with contextlib.suppress(ValueError):  # handlers belong to the main thread
                    signal.signal(number, _raise)
                    changed.append(number)
        yield
    finally:
        for number in changed:
            signal.signal(number, signal.SIG_DFL)
