"""Run the tasks of an experiment in parallel; finished ones survive a kill.

Every finished task is appended at once to ``results.jsonl``, one JSON object a line under a key
made of the experiment's name, its version and the task. A rerun skips the keys that are there. A
kill in the middle of a line leaves a line that does not parse: it is ignored, and the next append
starts on a new line. Workers are fresh processes with one thread each; they stop when their parent
is gone, so a killed run leaves nothing behind.
"""

import contextlib
import hashlib
import json
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from benchmarks.real import VARIABLE
from noisette import _validate
from noisette.errors import InvalidParameter, NoisetteError
from reproductions.base import Experiment, Row, Table, Task

__all__ = ["Outcome", "WorkerLost", "collect", "default_jobs"]

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")

Outcome = dict[str, Any]
"""One line of the file: key, task, rows, seconds."""


class WorkerLost(NoisetteError, RuntimeError):
    """A worker was killed, often for want of memory. Next: run again, with fewer ``--jobs``."""


def default_jobs() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def key_of(experiment: Experiment, task: Task) -> str:
    """Return the name of a task in the results file."""
    try:
        text = json.dumps([experiment.name, experiment.version, task], sort_keys=True)
    except TypeError:
        raise InvalidParameter(
            f"tasks of {experiment.name!r} must hold strings, numbers, booleans and None only."
        ) from None
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def finished(path: Path) -> dict[str, Outcome]:
    """Return the outcomes in a results file; lines cut short by a kill are skipped."""
    found: dict[str, Outcome] = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError):
                outcome = json.loads(line)
                found[outcome["key"]] = {name: outcome[name] for name in ("rows", "seconds")}
    return found


def _append(path: Path, outcome: Outcome) -> None:
    """Add one line in one write; a cut line before it is closed first."""
    text = json.dumps(outcome, default=lambda number: number.item()) + "\n"
    with path.open("ab+") as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                text = "\n" + text
        file.write(text.encode())


def _call(run: Callable[[Task], Row | list[Row]], task: Task) -> tuple[list[Row], float]:
    start = time.process_time()  # not by the clock: other programs may be running too
    rows = run(task)
    return rows if isinstance(rows, list) else [rows], time.process_time() - start


def _in_worker() -> None:
    """Leave Ctrl-C to the parent, and end when it is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:

        def watch() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=watch, daemon=True).start()


@contextlib.contextmanager
def _environment(data_home: str | Path | None) -> Iterator[None]:
    """Set what workers inherit: one thread each, and where the data are."""
    wanted = dict.fromkeys(_THREADS, "1")
    if data_home is not None:
        wanted[VARIABLE] = str(data_home)
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _outcomes(
    experiment: Experiment, tasks: list[Task], jobs: int
) -> Iterator[tuple[Task, list[Row], float]]:
    """Yield (task, rows, seconds) as they finish."""
    run = type(experiment).run
    if jobs == 1 or len(tasks) <= 1:
        for task in tasks:
            yield task, *_call(run, task)
        return
    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(jobs, len(tasks)), context, initializer=_in_worker)
    try:
        pending = {pool.submit(_call, run, task): task for task in tasks}
        for future in as_completed(pending):
            yield pending[future], *future.result()
    except BrokenProcessPool:
        raise WorkerLost(
            "a worker process was killed, perhaps for want of memory; finished work is kept: run "
            "the same command again, with fewer --jobs."
        ) from None
    except BaseException:
        # Running tasks are given up: they are repeated by the next run.
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - others:
            child.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def collect(
    experiment: Experiment,
    results: Path,
    *,
    quick: bool = False,
    jobs: int | None = None,
    data_home: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Table, float]:
    """Run what is not yet in `results` and return (all rows, processor seconds).

    `progress(done, total)` is called at the start and after every task. Whatever interrupts, what
    is finished stays in the file.
    """
    workers = default_jobs() if jobs is None else _validate.integer("jobs", jobs)
    tasks = experiment.tasks(quick)
    keys = [key_of(experiment, task) for task in tasks]
    done = finished(results)
    left = [task for task, key in zip(tasks, keys, strict=True) if key not in done]
    shown = progress or (lambda done, total: None)
    with _environment(data_home):
        if left:
            experiment.prepare()
            results.parent.mkdir(parents=True, exist_ok=True)
        count = len(tasks) - len(left)
        shown(count, len(tasks))
        for task, rows, seconds in _outcomes(experiment, left, workers):
            outcome = {"key": key_of(experiment, task), "task": task}
            _append(results, {**outcome, "rows": rows, "seconds": round(seconds, 4)})
            count += 1
            shown(count, len(tasks))
    done = finished(results)  # as written, so that a resumed run draws the very same numbers
    outcomes = [done[key] for key in keys]
    rows = [
        {**task, **row} for task, out in zip(tasks, outcomes, strict=True) for row in out["rows"]
    ]
    return Table(rows), float(sum(out["seconds"] for out in outcomes))
