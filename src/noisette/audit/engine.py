"""What both two-world tests share: pilot, test runs, the split of the error, the result.

The error 1 - confidence is split equally (Bonferroni) over the orders of the worlds, and within
each over the betting test, which may stop early, and Clopper-Pearson bounds on all runs. A tenth
goes to a second test that needs no statistic: releases, or parts of them, that repeat bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from noisette import _validate
from noisette.audit import bounds
from noisette.audit.bounds import Betting, best_stake
from noisette.audit.events import Event, Outcome, repeats
from noisette.audit.findings import Finding, Verdict
from noisette.audit.worlds import Output, World, bar, jobs, refuse_generators, running
from noisette.errors import InvalidParameter

REPEAT_SHARE = 0.1
"""Share of the error that the test for repeated noise may use; its evidence is overwhelming."""

LEAST_RUNS = 4
"""In each world: two for the pilot and two for the test."""

Data = tuple[Any, Any] | tuple[Any, Any, dict[str, Any]]
Outcomes = list[Outcome]
Path = Callable[[float], tuple[float, float]]


@dataclass(frozen=True)
class TwoWorlds:
    """The result of a two-world audit, as `two_worlds` and `gdp_two_worlds` return it.

    Parameters
    ----------
    attack : str
        The name of the test.
    epsilon_lower : float
        A lower bound on epsilon at the delta of `claim`, right with probability at least
        `confidence` (together with `repeated`).
    claim : tuple of float
        The pair that was tested: the stated one or, for a `Guarantee`, another point of the
        curve that it promises.
    event : str
        The event that tells the worlds apart, in words.
    confidence : float
        A false alarm has probability at most 1 - confidence.
    verdict : {"violated", "consistent", "not applicable"}
        Whether the claim is refuted.
    runs : int
        How many fits were made.
    counts : tuple of int
        The numbers (k, n, k', n'): how often the event happened, first in the world where it is
        likely.
    stopped_early : bool
        Whether the claim was refuted before all runs were made.
    finding : Finding
        The same for an `AuditReport`.
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

    attack: str
    epsilon_lower: float
    claim: tuple[float, float]
    event: str
    confidence: float
    verdict: Verdict
    runs: int
    counts: tuple[int, int, int, int]
    stopped_early: bool
    finding: Finding
    repeated: Finding | None = None
    mu_lower: float | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, for an `AuditReport`."""
        return (self.finding,) if self.repeated is None else (self.finding, self.repeated)

    def __str__(self) -> str:
        return "\n".join(f"{each.verdict}: {each.detail}" for each in self.findings)


class Test:
    """One event in one order of the worlds, against the claim path(x) with x = `claimed`."""

    def __init__(
        self,
        event: tuple[Event, float, float],
        swapped: bool,
        path: Path,
        claimed: float,
        end: float,
        fixed: Callable[[int, int, int, int, float], Any],
        level: float,
        early_stop: bool,
    ) -> None:
        self.event, p, q = event
        self.swapped, self.path, self.claimed, self._end = swapped, path, claimed, end
        self._fixed, self._level = fixed, level / 2.0 if early_stop else level
        pair = path(claimed)
        stake = best_stake(p, q, *pair)
        self._betting = Betting(*pair, level / 2.0, stake) if early_stop else None
        self.counts = (0, 0, 0, 0)
        self.lower, self.rejected = 0.0, False

    @property
    def verdict(self) -> Verdict:
        """Whether the claim is refuted."""
        return "violated" if self.rejected else "consistent"

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
        found = 0.0
        if self._betting is not None:
            self.rejected = self._betting.rejected
            start = self.claimed if self.rejected else 0.0
            found = self._betting.lower(self.path, start, self._end)
        if finished:
            found = max(found, float(self._fixed(*self.counts, self._level)))  # never below 0
            self.rejected = self.rejected or found > self.claimed
        self.lower = found


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


class Engine:
    """Checked arguments of one audit, its pilot, its test runs and its result."""

    def __init__(
        self,
        make_model: Callable[[], Any],
        D: Data,
        D_prime: Data,
        statistic: Callable[[Any], float] | None,
        runs: int,
        confidence: float,
        pilot: int | None,
        output: Output | None,
        n_jobs: int,
    ) -> None:
        self.confidence = _validate.fraction("confidence", confidence)
        total = _validate.integer("runs", runs, least=LEAST_RUNS)
        self.pilot = total // 2 if pilot is None else _validate.integer("pilot", pilot, least=2)
        self.tested = total - self.pilot
        if self.tested < 2:
            raise InvalidParameter(f"pilot must leave at least 2 of {total} runs for the test.")
        self._n_jobs, self._watched = jobs(n_jobs), output is not None
        alpha = 1.0 - self.confidence
        self._repeat_level = REPEAT_SHARE * alpha if self._watched else 0.0
        self.level = alpha - self._repeat_level
        self._worlds = [World(make_model, data, statistic, output) for data in (D, D_prime)]
        if self._n_jobs > 1:
            refuse_generators((make_model, statistic, output))

    def run(
        self,
        chosen: Callable[[Outcomes, Outcomes], list[Test]],
        pair: tuple[float, float],
        early_stop: bool,
        progress: bool,
        name: str,
    ) -> tuple[list[Test], list[Test], bool]:
        """Run the pilot, choose, test; return the tests, the repeat tests, whether all ran."""
        total = 2 * (self.pilot + self.tested)
        with (
            bar(name, total, progress) as tick,
            running(list(self._worlds), self._n_jobs, tick) as rounds,
        ):
            on_d, on_d_prime = rounds(self.pilot)
            self._shown = any(each.digest is not None for each in (*on_d, *on_d_prime))
            tests = chosen(on_d, on_d_prime)
            repeated = self._repeat_tests(on_d, on_d_prime, pair, early_stop)
            done, stopped, size = 0, False, max(32, self._n_jobs * 8)
            while done < self.tested and not stopped:
                count = min(size, self.tested - done)
                on_d, on_d_prime = rounds(count)
                needed = [test.add(on_d, on_d_prime) for test in (*tests, *repeated)]
                stopped = any(each is not None for each in needed)
                done, size = done + count, min(2 * size, 4096)
        for test in (*tests, *repeated):
            test.conclude(finished=done == self.tested and not stopped)
        self.runs = 2 * (self.pilot + done)
        return tests, repeated, not stopped

    def _repeat_tests(
        self, on_d: Outcomes, on_d_prime: Outcomes, pair: tuple[float, float], early_stop: bool
    ) -> list[Test]:
        orders = ((on_d, on_d_prime, False), (on_d_prime, on_d, True)) if self._watched else ()
        found = [(repeats(first, second), swapped) for first, second, swapped in orders]
        level = self._repeat_level / 2.0
        return [pair_test(e, swapped, pair, level, early_stop) for e, swapped in found if e]

    def result(
        self,
        name: str,
        best: Test,
        pair: tuple[float, float],
        lower: float,
        text: str,
        repeated: list[Test],
        finished: bool,
        mu: float | None = None,
    ) -> TwoWorlds:
        """Put the outcome into words."""
        detail = f"The event '{best.event}' came {best.counted()}, so {text}."
        finding = Finding(name, pair, lower, self.confidence, best.verdict, self.runs, detail)
        twin = self._repeated_finding(name, pair, repeated) if self._watched else None
        return TwoWorlds(
            name, lower, pair, str(best.event), self.confidence, best.verdict, self.runs,
            best.counts, not finished, finding, twin, mu,
        )  # fmt: skip

    def _repeated_finding(self, name: str, pair: tuple[float, float], tests: list[Test]) -> Finding:
        attack = f"{name}/repeated noise"
        if not self._shown:
            detail = "No output was shown in which noise could be seen to repeat."
            return Finding(attack, pair, None, 1.0, "not applicable", self.runs, detail)
        if not tests:
            detail = "No two runs released the same numbers and no part of a release repeated."
            return Finding(attack, pair, 0.0, self.confidence, "consistent", self.runs, detail)
        best = max(tests, key=lambda test: (test.rejected, test.lower))
        more = "; fresh noise in every run and every part would not do this"
        detail = f"{best.event}: {best.counted()}{more if best.rejected else ''}."
        detail = detail[0].upper() + detail[1:]
        return Finding(attack, pair, best.lower, self.confidence, best.verdict, self.runs, detail)
