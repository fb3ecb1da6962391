"""Repeated noise: two fits, two classes or two processes must never draw the same numbers.

Fits on the same data in this process and in forked children, with the randomness that users get
(``random_state=None``). On blank rows the models of different classes are pure noise, so equal rows
of ``coef_`` are shared noise; where the estimator has ``n_jobs``, both 1 and 2 are tried.

Our estimators release fine-grained numbers, so two equal ones are a fault by themselves. A
stranger's may repeat honestly (a vote, a choice from a list), so equal numbers are only a suspicion
there, and a test decides:

* fits or classes of one process: `two_worlds` on the event "these numbers again";
* processes: if the fits of all processes were independent and of one law, two of them would agree
  with some probability c. That n pairs of children agree and n pairs of fits here do not has
  probability c^n (1 - c)^n <= 4^-n.
"""

import contextlib
import itertools
import math
import multiprocessing
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from noisette.audit.canaries import among_zeros, plain_table
from noisette.audit.findings import Tally
from noisette.audit.two_worlds import two_worlds
from noisette.audit.whitebox.subject import AuditedEstimator
from noisette.audit.worlds import fitted, released

Output = np.ndarray[Any, Any]
Fit = Callable[..., Output | None]

HERE, CHILDREN, BOTH = (
    "two fits in one process", "fits in two processes", "a fit and one in a child process",
)  # fmt: skip
LEAST_PATIENCE = 60.0
"""Seconds that a child may take: a fork of a process with threads can hang for ever."""


def repeated(subject: AuditedEstimator, *, alpha: float, runs: int) -> Tally:
    """Compare the released numbers of several fits bit by bit."""
    out = Tally(
        "repeated noise", subject.claim, confidence=1.0 if subject.ours else 1.0 - alpha,
        missing="the fitted model shows no coef_, or only zeros",
    )  # fmt: skip
    data = plain_table(subject.room())

    def fit(rows: Any = data.X, **more: Any) -> Output | None:
        found = getattr(
            fitted(subject.unseeded(**more), (rows, data.y, data.options)), "coef_", None
        )
        return None if found is None else np.atleast_2d(np.array(found, dtype=float))

    start = time.monotonic()
    here = [fit() for _ in range(2)]
    patience = max(LEAST_PATIENCE, 20.0 * (time.monotonic() - start))
    there = _in_children(fit, patience)
    out.runs = len(here) + len(there)
    out.applies = len([each for each in (*here, *there) if each is not None and np.any(each)]) > 1
    compared = {HERE: here, CHILDREN: there, BOTH: [*here[:1], *there[:1]]}
    suspects: dict[str, dict[str, int]] = {n: {} for n, each in compared.items() if _equal(each)}
    for jobs in ({"n_jobs": 1}, {"n_jobs": 2}) if "n_jobs" in subject.parameters else ({},):
        one = fit(np.zeros_like(data.X), **jobs)
        out.runs += 1
        if one is not None and len(one) > 1 and _equal(list(one)):
            suspects["two classes" + "".join(f" with n_jobs={n}" for n in jobs.values())] = jobs
    kept, share = [], alpha / max(1, len(suspects))
    for name, more in suspects.items():
        guilty = subject.ours or (
            HERE not in suspects and _processes_agree(fit, share, patience, out)
            if name in (CHILDREN, BOTH)
            else _again(subject, more, share, runs, out)
        )
        out.fault(f"{name} released identical numbers", guilty)
        kept += [] if guilty else [name]
    forked = any(each is not None for each in there)
    out.note = (
        f"{', '.join(kept)} released identical numbers, as a choice from a few may; so many "
        "runs do not refute the claim by that"
    )
    if not suspects:
        what = "fits, classes or processes" if forked else "fits or classes"
        out.note = f"no two {what} released the same numbers"
    if not forked:
        out.note += "; no child process gave a fit to compare"
    return out


def _again(
    subject: AuditedEstimator, more: dict[str, int], alpha: float, runs: int, out: Tally
) -> bool:
    """Test the event that a release, or a part of it, comes again."""
    pair = among_zeros(subject.room())
    if pair.first.options or pair.second.options:
        return False  # a blank record or persons, which only some can be told of
    result = two_worlds(
        lambda: subject.unseeded(**more), (pair.first.X, pair.first.y),
        (pair.second.X, pair.second.y), claim=subject.claim, statistic=lambda model: 0.0,
        runs=runs, confidence=1.0 - alpha, output=released,
    )  # fmt: skip
    out.runs += result.runs
    assert result.repeated is not None
    if result.repeated.epsilon_lower is not None:
        out.at_least(result.repeated.epsilon_lower)
    return result.repeated.verdict == "violated"


def _processes_agree(fit: Fit, alpha: float, patience: float, out: Tally) -> bool:
    """Whether pairs of children always agree and pairs of fits here never do."""
    for _ in range(math.ceil(math.log(1.0 / alpha) / math.log(4.0))):
        out.runs += 4
        if not _equal(_in_children(fit, patience)) or _equal([fit(), fit()]):
            return False
    return True


def _equal(outputs: list[Any]) -> bool:
    """Whether two of them are equal bit by bit, and not 0."""
    known = [each for each in outputs if each is not None and np.any(each)]
    return any(np.array_equal(*pair) for pair in itertools.combinations(known, 2))


def _in_children(fit: Fit, patience: float) -> list[Any]:
    """Return what `fit` gives in two forked children; those that fail are left out."""
    if "fork" not in multiprocessing.get_all_start_methods():
        return []
    context, found = multiprocessing.get_context("fork"), list[Any]()
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # fork in a process with threads
            pool = context.Pool(1, _INHERITED.append, (fit,))
        with pool, contextlib.suppress(Exception):  # the note says that no child gave a fit
            found.append(pool.apply_async(_inherited).get(patience))
    return found


_INHERITED: list[Fit] = []
"""In a child process the fit that it is to run: a function that no pipe could carry."""


def _inherited() -> Output | None:
    return _INHERITED[-1]()
