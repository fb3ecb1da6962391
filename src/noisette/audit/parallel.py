"""Many independent runs, in this process or in several, with a progress bar.

Workers are fresh interpreters (joblib's loky), never forks of this process: a forked copy would
inherit the state of every generator here and all workers would draw the same noise. Results come
back in the order in which the runs were handed out. The order of completion would be wrong: if slow
fits give different models than fast ones, stopping early would then depend on who finished first.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import numpy as np

from noisette import _validate
from noisette.errors import InvalidParameter

Result = TypeVar("Result")


def jobs(n_jobs: object) -> int:
    """Return the number of processes that ``n_jobs`` asks for; -1 means one for each core."""
    if n_jobs == -1:
        return os.cpu_count() or 1
    if isinstance(n_jobs, int) and n_jobs < 1:
        raise InvalidParameter(f"n_jobs must be a whole number >= 1, or -1; got {n_jobs!r}.")
    return _validate.integer("n_jobs", n_jobs)


def refuse_generators(things: object) -> None:
    """Raise if `things`, sent to workers, would take a random generator with them.

    Every batch of runs would start from the same copy and draw the same noise: the audit would
    find a fault that it has made itself. Sources of this library refuse or renew themselves.
    """
    try:  # joblib 1.6 depends on it, earlier ones carry a copy
        from cloudpickle import Pickler  # type: ignore[import-untyped]
    except ImportError:
        from joblib.externals.cloudpickle import Pickler  # type: ignore[import-untyped]

    class Search(Pickler):  # type: ignore[misc]
        def persistent_id(self, obj: object) -> None:
            if _copied(obj):
                raise InvalidParameter(
                    f"make_model (or the statistic) holds a random generator, a "
                    f"{type(obj).__name__}, of which each process would get the same copy; create "
                    "it inside make_model, or use n_jobs=1."
                )

    Search(io.BytesIO()).dump(things)


def _copied(obj: object) -> bool:
    if isinstance(obj, np.random.Generator):
        return not type(obj).__module__.startswith("noisette.")
    if hasattr(type(obj), "random_raw"):  # the bits below a generator
        return True
    return type(obj).__module__ in ("numpy.random.mtrand", "random") and hasattr(obj, "seed")


def _batch(tasks: list[Callable[[], Result]], count: int) -> list[list[Result]]:
    return [[task() for task in tasks] for _ in range(count)]


class Runner(Generic[Result]):
    """Runs a list of tasks again and again; a context manager that ends its workers."""

    def __init__(
        self,
        tasks: list[Callable[[], Result]],
        n_jobs: int = 1,
        tick: Callable[[int], object] = bool,
    ) -> None:
        self._tasks, self._n_jobs, self._tick = tasks, n_jobs, tick
        self._parallel: Any = None

    def __enter__(self) -> Self:
        if self._n_jobs > 1:
            from sklearn.utils.parallel import Parallel

            self._parallel = Parallel(n_jobs=self._n_jobs, backend="loky")
            self._parallel.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._parallel is not None:
            self._parallel.__exit__(kind, error, trace)

    def rounds(self, count: int) -> list[list[Result]]:
        """Run every task `count` times; one list of results for each task, in order."""
        rows: list[list[Result]] = []
        if self._parallel is None:
            for _ in range(count):
                rows.append([task() for task in self._tasks])
                self._tick(len(self._tasks))
        else:
            from sklearn.utils.parallel import delayed

            # a few batches for each worker: even load, little traffic
            size = max(1, -(-count // (4 * self._n_jobs)))
            sizes = [min(size, count - done) for done in range(0, count, size)]
            for batch in self._parallel(delayed(_batch)(self._tasks, each) for each in sizes):
                rows.extend(batch)
            self._tick(count * len(self._tasks))
        return [list(column) for column in zip(*rows, strict=True)]


@contextlib.contextmanager
def bar(label: str, total: int, shown: bool) -> Iterator[Callable[[int], None]]:
    """A progress bar on standard error that counts runs; silent where nobody is looking."""
    if not shown:
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(label, total=total)
        yield lambda count: progress.advance(task, count)
