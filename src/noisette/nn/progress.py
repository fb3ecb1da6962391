"""A progress bar with public facts only: steps done, steps planned, time."""

import sys
from typing import Any


class StepBar:
    """Shown on the terminal if `verbose`; a run without a terminal stays silent."""

    def __init__(self, verbose: int, total: int, done: int) -> None:
        self._bar: Any = None
        if verbose and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("private steps"), BarColumn(), MofNCompleteColumn(),
                TimeRemainingColumn(), console=Console(stderr=True), transient=True,
            )  # fmt: skip
            self._task = self._bar.add_task("", total=total, completed=done)
            self._bar.start()

    def advance(self) -> None:
        """Count one step."""
        if self._bar is not None:
            self._bar.advance(self._task)

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
