"""The black-box test: fit many times on two neighbouring data sets and try to tell them apart.

A claim (ε, δ) says P(E) <= e^ε P'(E) + δ for every event E, and with the worlds swapped. Half of
the runs (the pilot) choose an event for each order; the other half test it.

The error 1 - confidence is split equally (Bonferroni) over the orders of the worlds, and within
each over the betting test, which may stop early, and Clopper-Pearson bounds on all runs. A tenth
goes to a second test that needs no statistic: releases, or parts of them, that repeat bit by bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import ndtri

from noisette import _validate
from noisette._validate import refuse
from noisette.audit import bounds
from noisette.audit.bounds import Betting, best_stake, odds
from noisette.audit.events import Event, Outcome, Score, best_box, best_threshold, repeats
from noisette.audit.findings import ClaimLike, Finding, Result, Verdict, gaussian_mu, pairs_of
from noisette.audit.worlds import Output, bar, jobs, refuse_generators, released, running, world
from noisette.core.guarantee import Guarantee
from noisette.core.mechanisms.gaussian_curve import gdp_delta, gdp_epsilon
from noisette.errors import Unproven

LARGEST_MU = 30.0

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
    if output is not None:
        twin = _repeated_finding(Finding(
            f"{name}/repeated noise", claim, 0.0, confidence, "consistent", runs,
            "No two runs released the same numbers and no part of a release repeated.",
        ), repeated, shown)  # fmt: skip
    return TwoWorlds(
        name, claim, lower, confidence, best.verdict, runs,
        f"The event '{best.event.words}' came {best.counted()}, so {text}.", best.event.words,
        best.counts, stopped, twin, mu,
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
    return replace(
        fresh, epsilon_lower=best.lower, verdict=best.verdict,
        detail=f"{best.event.words.capitalize()}: {best.counted()}{more}.",
    )  # fmt: skip


def two_worlds(
    make_model: Callable[[], Any], D: Data, D_prime: Data, *, claim: ClaimLike,
    statistic: Callable[[Any], float] | None = None, runs: int = 2000, confidence: float = 0.99,
    pilot: int | None = None, early_stop: bool = True, output: Output | None = released,
    n_jobs: int = 1, progress: bool = False, name: str = "two-worlds",
) -> TwoWorlds:  # fmt: skip
    """Test a claimed epsilon by fitting on two neighbouring data sets.

    Parameters
    ----------
    make_model : callable
        Returns a fresh, unfitted estimator with ``fit(X, y)`` at each call.
    D, D_prime : tuple of (array_like, array_like)
        Pairs (X, y) that are neighbours under the relation that the claim speaks of. Make them
        up: each fit on real records is one more release of them, and so is the result. A third
        part, a dict, has further arguments of ``fit``, such as ``{"persons": ids}`` for two
        worlds that differ in all rows of one person.
    claim : float, tuple of float or Guarantee
        The epsilon, (epsilon, delta) or guarantee to test; of a guarantee the whole curve may
        be tested.
    statistic : callable, optional
        A number computed from a fitted model that should differ between the worlds; NaN counts
        as minus infinity. With None the pilot searches boxes in the `output` for the event.
    runs : int, default 2000
        Fits in each world, the pilot included.
    confidence : float, default 0.99
        The audit raises a false alarm with probability at most 1 - confidence.
    pilot : int, optional
        Fits in each world that choose the event; half of `runs` by default.
    early_stop : bool, default True
        Stop as soon as the claim is refuted. A claim is called consistent only after all runs.
        Without it all of the error is left to the Clopper-Pearson bounds.
    output : callable or None, optional
        Array of everything released, to find repeated noise; None leaves that test out. It may
        have another size in each run.
    n_jobs : int, default 1
        Processes, each a fresh interpreter; -1 is one for each core. A make_model that holds a
        random generator is then refused, because each process would get a copy of it.
    progress : bool, default False
        Whether to show a progress bar on a terminal.
    name : str, default "two-worlds"
        The name of the attack in the findings.

    Returns
    -------
    TwoWorlds
        The lower bound on epsilon, the verdict and the findings.

    Raises
    ------
    InvalidParameter
        If a number is out of range, or the model has nothing to look at.
    InvalidData
        If D or D_prime is no pair.

    Examples
    --------
    >>> import numpy as np
    >>> from noisette.audit import two_worlds
    >>> class Exact:
    ...     def fit(self, X, y):
    ...         self.coef_ = X.mean(axis=0)
    >>> D, D_prime = (np.zeros((9, 1)), None), (np.eye(9, 1), None)
    >>> result = two_worlds(Exact, D, D_prime, claim=1.0, runs=100)
    >>> result.verdict, result.epsilon_lower > 1.0
    ('violated', True)

    """
    pairs = pairs_of(claim)

    def chosen(on_d: Outcomes, on_d_prime: Outcomes, level: float) -> list[Test]:
        tests, level = [], level / 2.0
        for first, second in ((on_d, on_d_prime), (on_d_prime, on_d)):
            scores = (partial(bounds.epsilon_lower, delta=delta, level=level) for _, delta in pairs)
            events = [_best_event(first, second, score) for score in scores]
            pair, event = max(
                zip(pairs, events, strict=True), key=lambda row: _growth(*row[1][1:], *row[0])
            )
            tests.append(pair_test(event, first is not on_d, pair, level, early_stop))
        return tests

    def told(best: Test) -> Told:
        pair = best.path(best.claimed)
        at = f" at delta = {pair[1]:.3g}" if pair[1] else ""
        text = f"epsilon is at least {best.lower:.3f}{at}, claimed is {pair[0]:.4g}"
        return pair, best.lower, text, None

    return audited(
        make_model, (D, D_prime), pairs[0], chosen, told, statistic=statistic, runs=runs,
        confidence=confidence, pilot=pilot, early_stop=early_stop, output=output, n_jobs=n_jobs,
        progress=progress, name=name,
    )  # fmt: skip


def gdp_two_worlds(
    make_model: Callable[[], Any], D: Data, D_prime: Data, *, claim: Guarantee | None = None,
    mu: float | None = None, delta: float = 1e-6,
    statistic: Callable[[Any], float] | None = None, runs: int = 2000, confidence: float = 0.99,
    pilot: int | None = None, early_stop: bool = True, output: Output | None = released,
    n_jobs: int = 1, progress: bool = False,
) -> TwoWorlds:  # fmt: skip
    """Test the claim that a model is mu-GDP; sees far more than `two_worlds` if it is one.

    ``mu_lower`` refutes the Gaussian curve; ``epsilon_lower`` is its reading at delta and would be
    no bound for a mechanism that never claimed to be Gaussian.

    Parameters
    ----------
    make_model, D, D_prime : see `two_worlds`
        How to make a model, and two neighbours, made up.
    claim : Guarantee, optional
        Its plan must be a composition of unsampled Gaussians (anything else is refused).
    mu : float, optional
        The claim itself, instead of `claim`.
    delta : float, default 1e-6
        Where epsilon is read off if `mu` is given.
    statistic, runs, confidence, pilot, early_stop, output, n_jobs, progress : see `two_worlds`
        What to look at, how often, and how.

    Returns
    -------
    TwoWorlds
        The lower bounds on mu and epsilon, the verdict and the findings.

    Raises
    ------
    Unproven
        If not exactly one of `claim` and `mu` is given, or the claim is no Gaussian curve.
    InvalidParameter
        If a number is out of range, or the model has nothing to look at.
    InvalidData
        If D or D_prime is no pair.

    Examples
    --------
    >>> import numpy as np
    >>> from noisette.audit import gdp_two_worlds
    >>> class Exact:
    ...     def fit(self, X, y):
    ...         self.coef_ = X.mean(axis=0)
    >>> D, D_prime = (np.zeros((9, 1)), None), (np.eye(9, 1), None)
    >>> result = gdp_two_worlds(Exact, D, D_prime, mu=0.5, runs=100)
    >>> result.verdict, result.mu_lower > 0.5
    ('violated', True)

    """
    refuse(
        (isinstance(claim, Guarantee) == (mu is not None),
         "pass claim, the Guarantee of a Gaussian plan, or mu; a bare (epsilon, delta) pair is "
         "no Gaussian curve, use two_worlds for it."),
        kind=Unproven,
    )  # fmt: skip
    if isinstance(claim, Guarantee):
        claimed, delta = max(gaussian_mu(claim), 1e-12), claim.delta
    else:
        claimed = _validate.positive("mu", mu)
    delta = _validate.delta(delta)
    refuse((delta == 0.0, "delta must be above 0: a Gaussian curve has no epsilon at 0."))

    def chosen(on_d: Outcomes, on_d_prime: Outcomes, level: float) -> list[Test]:
        event = _best_event(on_d, on_d_prime, partial(bounds.mu_lower, level=level))
        # The promise is the hypograph of a concave curve; the tangent at q is one of its pairs.
        slope = -claimed * float(ndtri(event[2])) - claimed * claimed / 2.0

        def path(m: float) -> tuple[float, float]:
            return slope, float(gdp_delta(m, slope))

        return [Test(event, False, path, claimed, LARGEST_MU, bounds.mu_lower, level, early_stop)]

    def told(best: Test) -> Told:
        text = f"mu is at least {best.lower:.3f}, claimed is {claimed:.4g}"
        return pair, gdp_epsilon(best.lower, delta), text, best.lower

    pair = (gdp_epsilon(claimed, delta), delta)
    return audited(
        make_model, (D, D_prime), pair, chosen, told, statistic=statistic, runs=runs,
        confidence=confidence, pilot=pilot, early_stop=early_stop, output=output, n_jobs=n_jobs,
        progress=progress, name="gdp-two-worlds",
    )  # fmt: skip


def _growth(p: float, q: float, epsilon: float, delta: float) -> float:
    """How far the pilot is from the claim, in standard errors of p - e^ε q: compares pairs."""
    factor = odds(epsilon)
    return (p - factor * q - delta) / math.sqrt(p * (1.0 - p) + factor * factor * q * (1.0 - q))


def _best_event(first: Outcomes, second: Outcomes, score: Score) -> tuple[Event, float, float]:
    if first[0].vector is not None:
        return best_box(first, second, score)
    x, y = (np.array([outcome.value for outcome in world]) for world in (first, second))
    return best_threshold(x, y, score)
