"""How a graph of tasks is run: on whatever scheduler is there, and what is said when it fails.

A message of a worker may quote a cell, so none is passed on: our own sentences travel as values
(`Failure`), and everything else becomes one sentence here.
"""

import copy
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial, reduce
from typing import Any

import numpy as np

from noisette.errors import ClusterFailed, InvalidData, InvalidParameter, MissingExtra, Unproven

PATIENCE = 30.0
"""Seconds to wait for a worker while there is none."""

_POLL = 1.0
_OWN = (InvalidData, InvalidParameter, Unproven)


class Failure:
    """What a task returns in place of an error: its kind, and a sentence without data."""

    def __init__(self, kind: type[Exception], sentence: str) -> None:
        self.kind, self.sentence = kind, sentence


def guarded(function: Callable[..., Any], *given: Any) -> Any:
    """Return function(*given), or what failed in it; a task itself never raises.

    A task that raises would have its arguments, rows among them, written to the worker's log.
    """
    failed = next((each for each in given if isinstance(each, Failure)), None)
    if failed is not None:
        return failed
    try:
        with np.errstate(all="ignore"):  # a warning would depend on the data
            return function(*given)
    except _OWN as error:  # of our own words, which quote no cell
        kind = next(kind for kind in _OWN if isinstance(error, kind))
        return Failure(kind, str(error))
    except MemoryError:
        return Failure(
            ClusterFailed, "a worker ran out of memory; cut the table into smaller partitions."
        )
    except Exception as error:
        name = type(error).__name__
        return Failure(InvalidData, f"a partition could not be read as declared ({name}).")


def joined(join: Callable[[Any, Any], Any], values: list[Any]) -> Any:
    """Return the values joined from left to right, or the first failure among them.

    `join` may add to its first argument. That is a copy here: the values belong to the scheduler,
    which may hand them to the same task again.
    """
    return guarded(partial(_in_turn, join), *values)


def _in_turn(join: Callable[[Any, Any], Any], first: Any, *rest: Any) -> Any:
    return reduce(join, rest, copy.deepcopy(first))


def dask_module(name: str = "dask") -> Any:
    """Return a module of Dask, or say in one sentence how to get it."""
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError:
        pass
    raise MissingExtra("rows in partitions need Dask; pip install 'noisette[dask]'.")


def run(root: Any) -> Any:
    """Return the value of a delayed object, from the cluster if there is one.

    What a worker said in its place is raised.
    """
    import sys

    client, distributed = None, sys.modules.get("distributed")
    if distributed is not None:
        with suppress(ValueError):  # there is no cluster
            client = distributed.default_client()
    if client is None:
        value = _in_one_sentence(lambda: dask_module().compute(root)[0])
    else:
        value = _in_one_sentence(lambda: _awaited(client, root))
    if isinstance(value, Failure):
        raise value.kind(value.sentence)
    return value


def persisted(values: list[Any]) -> Any:
    """Return delayed objects whose values stay where they are; a cluster makes them by and by."""
    return _in_one_sentence(lambda: dask_module().persist(*values))


def _in_one_sentence(work: Callable[[], Any]) -> Any:
    """Return work(), or one sentence without a cell in place of what went wrong in it."""
    name = ""
    try:
        return work()
    except (ClusterFailed, KeyboardInterrupt):
        raise
    except Exception as error:  # of code that is not ours, before our tasks; it may quote cells
        name = type(error).__name__
    if name == "KilledWorker":
        raise ClusterFailed(
            "workers died again and again over the same partition, mostly for lack of memory; cut "
            "the table into smaller partitions."
        )
    raise ClusterFailed(
        f"the partitions could not be computed ({name}); what went wrong stands in the log of "
        "the worker, which may quote cells."
    )


def _awaited(client: Any, root: Any) -> Any:
    """Return the value once the cluster has it; give up when it has had no worker for long."""
    from distributed import TimeoutError as TooLong

    future = client.compute(root)
    alone_since = None
    while True:
        try:
            return future.result(timeout=_POLL)
        except TooLong:
            pass
        except UnboundLocalError:  # what distributed's wait ends in when it is cancelled too late
            if future.status == "error":  # of the task itself
                raise
        now = time.monotonic()
        if _workers(client):
            alone_since = None
        elif alone_since is None:
            alone_since = now
        elif now - alone_since > PATIENCE:
            future.cancel()
            raise ClusterFailed(
                "the cluster lost all its workers; start new ones and train again, for what was "
                "charged before this stays booked and gave nothing."
            )


def _workers(client: Any) -> int:
    try:
        return len(client.scheduler_info(n_workers=-1)["workers"])
    except Exception:  # the scheduler itself is gone
        return 0
