"""The black-box test: fit many times on two neighbouring data sets and try to tell them apart.

A claim (ε, δ) says P(E) <= e^ε P'(E) + δ for every event E, and with the worlds swapped. Half of
the runs (the pilot) choose an event for each order; the other half test it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from noisette import _validate
from noisette._validate import refuse
from noisette.audit import bounds
from noisette.audit.bounds import odds
from noisette.audit.engine import Data, Outcomes, Test, Told, TwoWorlds, audited, pair_test
from noisette.audit.events import Event, Score, best_box, best_threshold
from noisette.audit.findings import ClaimLike, gaussian_mu, pairs_of
from noisette.audit.worlds import Output, released
from noisette.core.guarantee import Guarantee
from noisette.core.mechanisms.gaussian_curve import gdp_delta, gdp_epsilon
from noisette.errors import Unproven

__all__ = ["TwoWorlds", "gdp_two_worlds", "two_worlds"]

LARGEST_MU = 30.0


def two_worlds(
    make_model: Callable[[], Any],
    D: Data,
    D_prime: Data,
    *,
    claim: ClaimLike,
    statistic: Callable[[Any], float] | None = None,
    runs: int = 2000,
    confidence: float = 0.99,
    pilot: int | None = None,
    early_stop: bool = True,
    output: Output | None = released,
    n_jobs: int = 1,
    progress: bool = False,
    name: str = "two-worlds",
) -> TwoWorlds:
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
            candidates = []
            for pair in pairs:
                score = partial(bounds.epsilon_lower, delta=pair[1], level=level)
                event = _best_event(first, second, score)
                candidates.append((_growth(*event[1:], *pair), pair, event))
            _, pair, event = max(candidates, key=lambda row: row[0])
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
    make_model: Callable[[], Any],
    D: Data,
    D_prime: Data,
    *,
    claim: Guarantee | None = None,
    mu: float | None = None,
    delta: float = 1e-6,
    statistic: Callable[[Any], float] | None = None,
    runs: int = 2000,
    confidence: float = 0.99,
    pilot: int | None = None,
    early_stop: bool = True,
    output: Output | None = released,
    n_jobs: int = 1,
    progress: bool = False,
) -> TwoWorlds:
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
        slope = -claimed * float(bounds.normal_quantile(event[2])) - claimed * claimed / 2.0

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
