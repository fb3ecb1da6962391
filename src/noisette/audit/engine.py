"""What both two-world tests share: pilot, test runs, the split of the error, the result.

The error 1 - confidence is split equally (Bonferroni) over the orders of the worlds, and within
each over the betting test, which may stop early, and Clopper-Pearson bounds on all runs. A tenth
goes to a second test that needs no statistic: releases, or parts of them, that repeat bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from noisette import _validate
from noisette._validate import refuse
from noisette.audit import bounds
from noisette.audit.bounds import Betting, best_stake
from noisette.audit.events import Event, Outcome, repeats
from noisette.audit.findings import Finding, Result, Verdict
from noisette.audit.worlds import Output, bar, jobs, refuse_generators, running, world

REPEAT_SHARE = 0.1
"""Share of the error that the test for repeated noise may use; its evidence is overwhelming."""

LEAST_RUNS = 4
"""In each world: two for the pilot and two for the test."""

Data = tuple[Any, Any] | tuple[Any, Any, dict[str, Any]]
Outcomes = list[Outcome]
Path = Callable[[float], tuple[float, float]]


@dataclass(frozen=True)
class TwoWorlds(Result):
    """The result of a two-world audit, as `two_worlds` and `gdp_two_worlds` return it.

    Parameters
    ----------
    attack, claim, epsilon_lower, confidence, verdict, runs, detail : see `Finding`
        The claim is the pair that was tested: the stated one or, for a `Guarantee`, another
        point of the curve that it promises. The confidence is that of `repeated` as well.
    event : str
        The event that tells the worlds apart, in words.
    counts : tuple of int
        The numbers (k, n, k', n'): how often the event happened, first in the world where it is
        likely.
    stopped_early : bool
        Whether the claim was refuted before all runs were made.
    repeated : Finding, optional
        Whether noise was used twice.
    mu_lower : float, optional
        A lower bound on mu, for a Gaussian claim.

    Examples
    --------
    >>> import numpy as np
    >>> from noisette.audit import TwoWorlds, two_worlds
    >>> class Exact:
    ...     def fit(self, X, y):
    ...         self.coef_ = X.mean(axis=0)
    >>> D, D_prime = (np.zeros((9, 1)), None), (np.eye(9, 1), None)
    >>> result = two_worlds(Exact, D, D_prime, claim=1.0, runs=100)
    >>> isinstance(result, TwoWorlds), len(result.findings)
    (True, 2)

    """

    event: str
    counts: tuple[int, int, int, int]
    stopped_early: bool
    repeated: Finding | None = None
    mu_lower: float | None = None


class Test:
    """One event in one order of the worlds, against the claim path(x) with x = `claimed`."""

    verdict: Verdict

    def __init__(
        self, event: tuple[Event, float, float], swapped: bool, path: Path, claimed: float,
        end: float, fixed: Callable[[int, int, int, int, float], Any], level: float,
        early_stop: bool,
    ) -> None:  # fmt: skip
        self.event, p, q = event
        self.swapped, self.path, self.claimed, self._end = swapped, path, claimed, end
        self._fixed, self._level = fixed, level / 2.0 if early_stop else level
        pair = path(claimed)
        self._betting = Betting(*pair, level / 2.0, best_stake(p, q, *pair)) if early_stop else None
        self.counts = (0, 0, 0, 0)
        self.lower, self.rejected = 0.0, False

    def counted(self) -> str:
        """Return how often the event came, in words."""
        (k, n, j, m), where = self.counts, ("D'", "D") if self.swapped else ("D", "D'")
        return f"in {k} of {n} runs on {where[0]} and in {j} of {m} on {where[1]}"

    def add(self, on_d: Outcomes, on_d_prime: Outcomes) -> int | None:
        """Count more pairs; return how many were needed to reject, or None."""
        first, second = (on_d_prime, on_d) if self.swapped else (on_d, on_d_prime)
        a, b = self.event.happened(first), self.event.happened(second)
        needed = None if self._betting is None else self._betting.add(a, b)
        used = len(a) if needed is None else needed
        k, n, j, m = self.counts
        self.counts = (k + int(a[:used].sum()), n + used, j + int(b[:used].sum()), m + used)
        return needed

    def conclude(self, finished: bool) -> None:
        """Set the lower bound: at any time by betting, by Clopper-Pearson after all runs."""
        if self._betting is not None:
            self.rejected = self._betting.rejected
            start = self.claimed if self.rejected else 0.0
            self.lower = self._betting.lower(self.path, start, self._end)
        if finished:  # never below 0
            self.lower = max(self.lower, float(self._fixed(*self.counts, self._level)))
            self.rejected = self.rejected or self.lower > self.claimed
        self.verdict = "violated" if self.rejected else "consistent"


def pair_test(
    event: tuple[Event, float, float], swapped: bool, pair: tuple[float, float], level: float,
    early_stop: bool,
) -> Test:  # fmt: skip
    """Return the test of one event against (epsilon, delta) and larger epsilons."""
    epsilon, delta = pair
    return Test(
        event, swapped, lambda e: (e, delta), epsilon, bounds.LARGEST_EPSILON,
        lambda k, n, j, m, level: bounds.epsilon_lower(k, n, j, m, delta, level), level, early_stop,
    )  # fmt: skip


Told = tuple[tuple[float, float], float, str, float | None]
"""The claim that a test speaks of, the lower bound on epsilon, a sentence, the one on mu."""


def audited(
    make_model: Callable[[], Any], worlds: tuple[Data, Data], pair: tuple[float, float],
    chosen: Callable[[Outcomes, Outcomes, float], list[Test]],
    told: Callable[[Test], Told], *,
    statistic: Callable[[Any], float] | None, runs: int, confidence: float, pilot: int | None,
    early_stop: bool, output: Output | None, n_jobs: int, progress: bool, name: str,
) -> TwoWorlds:  # fmt: skip
    """Run the pilot, choose the tests, run them; a second test looks for repeated noise."""
    alpha = 1.0 - _validate.fraction("confidence", confidence)
    total = _validate.integer("runs", runs, least=LEAST_RUNS)
    pilot = total // 2 if pilot is None else _validate.integer("pilot", pilot, least=2)
    tested = total - pilot
    refuse((tested < 2, f"pilot must leave at least 2 of {total} runs for the test."))
    n_jobs = jobs(n_jobs)
    spare = REPEAT_SHARE * alpha if output is not None else 0.0
    tasks: list[Any] = [world(make_model, data, statistic, output) for data in worlds]
    if n_jobs > 1:
        refuse_generators((make_model, statistic, output))
    with bar(name, 2 * total, progress) as tick, running(tasks, n_jobs, tick) as rounds:
        on_d, on_d_prime = rounds(pilot)
        shown = any(each.digest is not None for each in (*on_d, *on_d_prime))
        tests, repeated = chosen(on_d, on_d_prime, alpha - spare), list[Test]()
        orders = ((on_d, on_d_prime, False), (on_d_prime, on_d, True)) if spare else ()
        for first, second, swapped in orders:
            event = repeats(first, second)
            if event is not None:
                repeated.append(pair_test(event, swapped, pair, spare / 2.0, early_stop))
        done, stopped, size = 0, False, max(32, n_jobs * 8)
        while done < tested and not stopped:
            count = min(size, tested - done)
            on_d, on_d_prime = rounds(count)
            needed = [test.add(on_d, on_d_prime) for test in (*tests, *repeated)]
            stopped = any(each is not None for each in needed)
            done, size = done + count, min(2 * size, 4096)
    for test in (*tests, *repeated):
        test.conclude(finished=not stopped)
    best = max(tests, key=lambda test: (test.rejected, test.lower - test.claimed))
    claim, lower, text, mu = told(best)
    runs, twin = 2 * (pilot + done), None
    detail = f"The event '{best.event}' came {best.counted()}, so {text}."
    if output is not None:
        twin = _repeated_finding(Finding(
            f"{name}/repeated noise", claim, 0.0, confidence, "consistent", runs,
            "No two runs released the same numbers and no part of a release repeated.",
        ), repeated, shown)  # fmt: skip
    return TwoWorlds(
        name, claim, lower, confidence, best.verdict, runs, detail, str(best.event), best.counts,
        stopped, twin, mu,
    )  # fmt: skip


def _repeated_finding(fresh: Finding, tests: list[Test], shown: bool) -> Finding:
    """Return what the tests for repeated noise found; `fresh` is said where nothing repeated."""
    if not shown:
        return replace(
            fresh, epsilon_lower=None, confidence=1.0, verdict="not applicable",
            detail="No output was shown in which noise could be seen to repeat.",
        )  # fmt: skip
    if not tests:
        return fresh
    best = max(tests, key=lambda test: (test.rejected, test.lower))
    more = "; fresh noise in every run and every part would not do this" * best.rejected
    detail = f"{str(best.event).capitalize()}: {best.counted()}{more}."
    return replace(fresh, epsilon_lower=best.lower, verdict=best.verdict, detail=detail)
