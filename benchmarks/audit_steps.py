"""Print the table of docs/audit.md on steps: which fault was caught, how often, in how many fits.

Usage: python benchmarks/audit_steps.py [--seeds 20]

Each fault and the right step beside it are those of tests/audit/test_step_canaries.py. Confidence
0.999, at most 4,000 fits in each world, half of them for the pilot.
"""

import argparse
import math
import sys
from pathlib import Path

import numpy as np

from noisette import Randomness

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "audit"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from test_step_canaries import (
    audit,
    best_of,
    noisy_choice,
    private_quantile,
    released,
    selection,
)

from step_canaries import partition_canary, quantile_canary, scoring_canary, tuning_canary


def quantile(seed, sensitivity):
    """The median by the exponential mechanism; a sensitivity of 0 stands for the exact one."""
    if sensitivity == 0.0:
        return quantile_canary(released), lambda X, y: float(np.median(X)), 1.0
    draw = private_quantile(np.random.default_rng(seed), 1.0, 0.5, sensitivity)
    return quantile_canary(released), draw, 1.0


def partition(seed, delta):
    """Noisy counts with the threshold of `delta`, where 0.001 is claimed."""
    select = selection(np.random.default_rng(seed), 1.0, math.log(0.5 / delta), "add-remove")
    return partition_canary(released), select, (1.0, 1e-3)


def tuning(seed, count, claim):
    """The best of `count` runs, a geometric number with mean 10/3 if it is None."""
    generator = np.random.default_rng(seed)
    canary = tuning_canary(released, randomness=Randomness.from_seed(seed))

    def number():
        return generator.geometric(0.3) if count is None else count

    return canary, best_of(generator, canary.candidates, number), claim


def choice(seed, sensitivity, lead=2):
    """The exponential mechanism on the number of right answers."""
    canary = scoring_canary(released, lead=lead)
    tune = noisy_choice(np.random.default_rng(seed), canary.candidates, 1.0, sensitivity)
    return canary, tune, 1.0


ROWS = [
    ("exact median", lambda s: quantile(s, 0.0)),
    ("median, half the sensitivity", lambda s: quantile(s, 0.5)),
    ("median, right", lambda s: quantile(s, 1.0)),
    ("threshold of delta = 0.05, claimed 0.001", lambda s: partition(s, 0.05)),
    ("threshold of delta = 0.001, right", lambda s: partition(s, 1e-3)),
    ("best of 2, one run charged", lambda s: tuning(s, 2, 1.0)),
    ("best of 10, one run charged", lambda s: tuning(s, 10, 1.0)),
    ("geometric number of runs, one run charged", lambda s: tuning(s, None, 1.0)),
    ("geometric number of runs, three charged, right", lambda s: tuning(s, None, 3.0)),
    ("choice by the exact score", lambda s: choice(s, 1e-9, lead=0)),
    ("choice by a noisy score, half the noise", lambda s: choice(s, 0.5)),
    ("choice by a noisy score, right", lambda s: choice(s, 1.0)),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    seeds = parser.parse_args().seeds
    print("| step | claim | refuted | fits in each world (mean) |\n|---|---|---|---|")
    for name, make in ROWS:
        found = []
        for seed in range(seeds):
            canary, function, claim = make(seed)
            found.append(audit(canary, function, claim))
        caught = sum(each.verdict == "violated" for each in found)
        fits = np.mean([each.runs / 2 for each in found])
        print(f"| {name} | {claim} | {caught} of {seeds} | {fits:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
