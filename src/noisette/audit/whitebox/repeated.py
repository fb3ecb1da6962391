"""Repeated noise: two fits, two classes or two processes must never draw the same numbers.

Fits on the same data in this process and in forked children, with the randomness that users get
(``random_state=None``). On blank rows the models of different classes are pure noise, so equal rows
of ``coef_`` are shared noise; where the estimator has ``n_jobs``, both 1 and 2 are tried.
"""

import multiprocessing
import warnings
from typing import Any

import numpy as np

from noisette.audit.canaries import plain_table
from noisette.audit.whitebox.outcome import Outcome
from noisette.audit.whitebox.subject import Subject

__all__ = ["repeated"]

Output = np.ndarray[Any, Any]


def repeated(subject: Subject, *, forks: int = 2) -> Outcome:
    """Compare the released numbers of several fits bit by bit."""
    out = Outcome("repeated noise", subject.claim)
    data = plain_table(subject.room())
    changes: dict[str, Any] = {}
    if "random_state" in subject.parameters:
        changes["random_state"] = None

    def fit(rows: Any = data.X, **more: Any) -> Output | None:
        model = subject.make(**changes, **more)
        fitted = model.fit(rows, data.y)
        return _released(model if fitted is None else fitted)

    here = [fit() for _ in range(2)]
    there = _in_children(fit, forks)
    out.runs = len(here) + len(there)
    outputs = [o for o in (*here, *there) if o is not None and np.any(o)]
    out.applies = len(outputs) > 1
    _equal(here, "two fits in one process", out)
    _equal(there, "fits in two processes", out)
    _equal([*here[:1], *there[:1]], "a fit and one in a child process", out)
    for jobs in (1, 2) if "n_jobs" in subject.parameters else (None,):
        more = {} if jobs is None else {"n_jobs": jobs}
        one = fit(np.zeros_like(data.X), **more)
        out.runs += 1
        if one is not None and one.ndim == 2 and len(one) > 1 and np.any(one):
            _equal(list(one), f"two classes{'' if jobs is None else f' with n_jobs={jobs}'}", out)
    out.note = "no two fits, classes or processes released the same numbers"
    return out


def _released(model: Any) -> Output | None:
    """The coefficients, one row for each class, or None where there are none."""
    found = getattr(model, "coef_", None)
    return None if found is None else np.atleast_2d(np.array(found, dtype=float))


def _equal(outputs: list[Any], what: str, out: Outcome) -> None:
    for i, first in enumerate(outputs):
        for second in outputs[:i]:
            known = first is not None and second is not None
            if known and np.any(first) and np.array_equal(first, second):
                out.fault(f"{what} released identical numbers")


def _in_children(fit: Any, forks: int) -> list[Any]:
    """Run `fit` in forked children; [] where the system cannot fork."""
    if "fork" not in multiprocessing.get_all_start_methods():
        return []
    context = multiprocessing.get_context("fork")
    found = []
    for _ in range(forks):
        receiver, sender = context.Pipe(duplex=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # fork in a process with threads
            child = context.Process(target=_send, args=(fit, sender))
            child.start()
        sender.close()
        try:
            found.append(receiver.recv())
        except EOFError:
            found.append(None)
        child.join()
    return found


def _send(fit: Any, sender: Any) -> None:
    sender.send(fit())
    sender.close()
