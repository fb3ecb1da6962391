"""What each sampler costs: epsilon from the library's accountants, and the poster's RDP rules."""

from typing import Any

import numpy as np

from noisette import accounting, plans, sampling
from noisette.core.accounting.moments import log_moment
from noisette.core.accounting.pld import shuffle_lower_epsilon
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms import Gaussian
from reproductions.shuffling.poster import poster_algorithm

__all__ = [
    "BATCHES",
    "BY_EPOCHS",
    "NAMES",
    "RECORDS",
    "cost",
    "fraction_cost",
    "renyi_rules",
    "run_cost",
]

RECORDS, BATCHES, DELTA = 10_000, 100, 1e-5
STEP, RIDGE = 4.0, 1e-3  # of the last-iterate rows: logistic loss, rows in the unit ball

NAMES = {
    "cyclic": "cyclic, all iterates",
    "shuffle-lower": "reshuffled, all iterates: lower bound",
    "cyclic last": "cyclic, last iterate",
    "shuffle last": "reshuffled, last iterate",
    "without-replacement": "without replacement",
    "partial-shuffle": "Algorithm 1, tau = 0.1",
    "poisson": "Poisson",
    "random-allocation": "random allocation",
    "disjoint": "disjoint, one pass",
}
"""Sampler -> label. A reshuffled run costs at most what the cyclic one costs."""

BY_EPOCHS = (1, 2, 5, 10, 20, 50, 100)


def cost(name: str, epochs: int, multiplier: float, adjacency: str) -> dict[str, Any] | None:
    """Return lower and upper epsilon of `epochs` passes at DELTA, None where nothing is proven."""
    batch = RECORDS // BATCHES
    if name == "shuffle-lower":
        found = shuffle_lower_epsilon(
            BATCHES, multiplier, DELTA, epochs=epochs, adjacency=adjacency
        )
        return {"lower": found}
    mechanism = Gaussian(multiplier)
    if name.endswith(" last"):
        kind = sampling.Cyclic if name.startswith("cyclic") else sampling.Shuffle
        plan: plans.Plan = plans.LastIterate(
            mechanism, kind.of_size(RECORDS, batch), epochs=epochs, loss="logistic",
            learning_rate=STEP, regularization=RIDGE,
        )  # fmt: skip
    else:
        if name in ("without-replacement", "partial-shuffle") and adjacency != "replace-one":
            return None
        if name == "disjoint" and epochs > 1:
            return None
        sampler, uses = {
            "cyclic": (sampling.Cyclic.of_size(RECORDS, batch), epochs),
            "disjoint": (sampling.Disjoint.of_size(RECORDS, batch), 1),
            "without-replacement": (sampling.WithoutReplacement(batch, RECORDS), BATCHES * epochs),
            "partial-shuffle": (
                sampling.PartialShuffle(RECORDS // 10, RECORDS, batch),
                10 * epochs,
            ),
            "poisson": (sampling.Poisson(batch / RECORDS), BATCHES * epochs),
            "random-allocation": (sampling.RandomAllocation(BATCHES), epochs),
        }[name]
        plan = plans.Repeat(plans.Sampled(mechanism, sampler), uses)
    lower, upper = accounting.bracket(plan, delta=DELTA, adjacency=adjacency)
    return {"lower": lower, "upper": upper}


def fraction_cost(fraction: float, multiplier: float, epochs: int, n: int) -> dict[str, Any]:
    """Return epsilon of the poster's Algorithm 1 under replace-one."""
    plan = poster_algorithm(n, epochs, fraction, multiplier)
    return {"epsilon": accounting.epsilon(plan, delta=DELTA)}


def renyi_rules(multiplier: float, order: float, n: int) -> dict[str, Any]:
    """Return the poster's RDP rules and the true values for one record out of n, noise sigma / L.

    Replacing a record moves a gradient by s = 2L. `gaussian`: RDP of one full step against
    alpha s^2 / (2 sigma^2). `subsampled`: against the rule rho^2 eps, rho = 1/n: the pair
    (1 - rho) N(0) + rho N(2L) and N(0) is met by two real data sets, so its divergence is a lower
    bound on the truth; `upper` is what is proven for sampling with replacement.
    """
    lam = order - 1.0
    s = np.array([lam])
    rule = order * 2.0**2 / (2.0 * multiplier**2)
    full = log_moment(plans.Run(Gaussian(multiplier)), s, Adjacency.REPLACE_ONE)
    # In units of the shift 2L the noise is sigma / (2L), and the pair is Poisson's own.
    met = plans.Sampled(Gaussian(multiplier / 2.0), sampling.Poisson(1.0 / n))
    proven = plans.Sampled(Gaussian(multiplier), sampling.WithoutReplacement(1, n))
    lower = float(log_moment(met, s, Adjacency.ZERO_OUT)[0]) / lam
    upper = float(log_moment(proven, s, Adjacency.REPLACE_ONE)[0]) / lam
    return {
        "gaussian_ratio": float(full[0]) / lam / rule,
        "lower_ratio": lower / (rule / n**2),
        "upper_ratio": upper / (rule / n**2),
    }


def run_cost(multiplier: float, epochs: int, n: int) -> dict[str, Any]:
    """Return epsilon of the one-record runs of the convergence figure, replace-one."""
    plain = plans.Sampled(Gaussian(multiplier), sampling.WithoutReplacement(1, n))
    cyclic = plans.Sampled(Gaussian(multiplier), sampling.Cyclic.of_size(n, 1))
    lower, upper = accounting.bracket(plans.Repeat(plain, n * epochs), delta=DELTA)
    exact = accounting.epsilon(plans.Repeat(cyclic, epochs), delta=DELTA)
    shuffled = shuffle_lower_epsilon(
        n, multiplier, DELTA, epochs=epochs, adjacency=Adjacency.REPLACE_ONE
    )
    return {
        "plain_lower": lower, "plain_upper": upper, "cyclic": exact, "shuffle_lower": shuffled,
    }  # fmt: skip
