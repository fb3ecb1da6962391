"""Runs in one world: a fresh model, fitted, measured, and reduced to what the audit needs.

Workers are fresh interpreters (joblib's loky), never forks of this process: a forked copy would
inherit the state of every generator here and all workers would draw the same noise. Results come
back in the order in which the runs were handed out. The order of completion would be wrong: if slow
fits give different models than fast ones, stopping early would then depend on who finished first.
"""

from __future__ import annotations

import contextlib
import copy
import io
import math
import os
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette import _validate
from noisette._validate import refuse
from noisette.audit.events import Outcome, trace
from noisette.errors import InvalidData, InvalidParameter

Output = Callable[[Any], Any]


def released(model: Any) -> NDArray[np.float64] | None:
    """The released numbers of a linear model, one row for each class; None for other models."""
    coef = getattr(model, "coef_", None)
    if coef is None:
        return None
    rows = np.atleast_2d(np.asarray(coef, dtype=np.float64))
    intercept = np.asarray(getattr(model, "intercept_", 0.0), dtype=np.float64).reshape(-1)
    if intercept.size == len(rows) and intercept.any():
        rows = np.column_stack([rows, intercept])
    return rows


def with_fresh_seed(model: Any) -> Any:
    """Replace each fixed ``random_state``, also of nested parts, by a new seed from the system.

    None is left alone: it is what the users of a class get, and each worker process is new.
    """
    fresh = {
        name: secrets.randbits(32)
        for name, state in random_states(model).items()
        if isinstance(state, int | np.integer) and not isinstance(state, bool)
    }
    if fresh and hasattr(model, "get_params") and hasattr(model, "set_params"):
        model.set_params(**fresh)
    elif fresh:
        model.random_state = fresh["random_state"]
    return model


def random_states(model: Any) -> dict[str, Any]:
    """Return the parameters ``random_state`` of an estimator and of the estimators inside it."""
    if not (hasattr(model, "get_params") and hasattr(model, "set_params")):
        return {"random_state": getattr(model, "random_state", None)}
    every = model.get_params(deep=True).items()
    return {name: state for name, state in every if name.rpartition("__")[2] == "random_state"}


def fitted(model: Any, data: Any) -> Any:
    """Fit a model on (X, y) or (X, y, further arguments) and return what ``fit`` gives, or itself.

    On a copy: a fit that changes its input would turn the worlds into other data sets.
    """
    X, y, *more = copy.deepcopy(tuple(data))
    found = model.fit(X, y, **(more[0] if more else {}))
    return model if found is None else found


def world(
    make_model: Callable[[], Any], data: Any, statistic: Callable[[Any], float] | None,
    output: Output | None,
) -> Callable[[], Outcome]:  # fmt: skip
    """Return a function that makes one run: it fits a fresh model on one data set."""
    refuse(
        (not callable(make_model) or hasattr(make_model, "coef_"),
         "make_model must be a function that returns a new estimator."),
        (statistic is None and output is None,
         "pass a statistic, or an output in which to search for one."),
        (statistic is not None and not callable(statistic),
         "statistic must be a function of a fitted model."),
    )  # fmt: skip
    parts = data if isinstance(data, tuple | list) else ()
    refuse(
        (len(parts) not in (2, 3), "D and D_prime must be pairs (X, y)."),
        (not all(isinstance(each, dict) for each in parts[2:]),
         "the third part of D must be a dict of further arguments of fit."),
        kind=InvalidData,
    )  # fmt: skip

    def run() -> Outcome:
        model = with_fresh_seed(make_model())
        refuse((
            not hasattr(model, "fit"),
            f"make_model must return an estimator with fit; got a {type(model).__name__}.",
        ))  # fmt: skip
        model = fitted(model, data)
        shown = None if output is None else output(model)
        digest, pattern = (None, None) if shown is None else trace(shown)
        if statistic is not None:
            value = float(statistic(model))
            return Outcome(-math.inf if math.isnan(value) else value, None, digest, pattern)
        refuse((
            shown is None, f"a {type(model).__name__} has no coef_; pass a statistic, or an output."
        ))  # fmt: skip
        return Outcome(0.0, np.asarray(shown, dtype=np.float64).ravel(), digest, pattern)

    return run


def jobs(n_jobs: object) -> int:
    """Return the number of processes that ``n_jobs`` asks for; -1 means one for each core."""
    if n_jobs == -1:
        return os.cpu_count() or 1
    refuse((
        isinstance(n_jobs, int) and n_jobs < 1,
        f"n_jobs must be a whole number >= 1, or -1; got {n_jobs!r}.",
    ))  # fmt: skip
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
            where = type(obj).__module__
            ours = isinstance(obj, np.random.Generator) and where.startswith("noisette.")
            bits = hasattr(type(obj), "random_raw")  # below a generator
            source = where in ("numpy.random.mtrand", "random") and hasattr(obj, "seed")
            if not ours and (isinstance(obj, np.random.Generator) or bits or source):
                raise InvalidParameter(
                    f"make_model (or the statistic) holds a random generator, a "
                    f"{type(obj).__name__}, of which each process would get the same copy; create "
                    "it inside make_model, or use n_jobs=1."
                )

    Search(io.BytesIO()).dump(things)


def _batch(tasks: list[Callable[[], Any]], count: int) -> list[list[Any]]:
    return [[task() for task in tasks] for _ in range(count)]


@contextlib.contextmanager
def running(
    tasks: list[Callable[[], Any]], n_jobs: int = 1, tick: Callable[[int], object] = bool
) -> Iterator[Callable[[int], list[list[Any]]]]:
    """Yield a function that runs every task so often: one list of results for each, in order."""
    with contextlib.ExitStack() as stack:
        parallel: Any = None
        if n_jobs > 1:
            from sklearn.utils.parallel import Parallel, delayed

            parallel = stack.enter_context(Parallel(n_jobs=n_jobs, backend="loky"))

        def rounds(count: int) -> list[list[Any]]:
            rows: list[list[Any]] = []
            # a few batches for each worker: even load, little traffic
            size = 1 if parallel is None else max(1, -(-count // (4 * n_jobs)))
            sizes = [min(size, count - done) for done in range(0, count, size)]
            batches = (_batch(tasks, each) for each in sizes)
            if parallel is not None:
                batches = parallel(delayed(_batch)(tasks, each) for each in sizes)
            for batch in batches:
                rows += batch
                tick(len(batch) * len(tasks))
            return [list(column) for column in zip(*rows, strict=True)]

        yield rounds


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
