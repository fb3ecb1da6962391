"""The numerical accountant against dp-accounting (and prv-accountant, Opacus where installed).

Same settings in one run, one thread. noisette's time is for a certified bracket: both neighbour
orders, lower and upper bound. dp-accounting gives an upper estimate only.

The costs that a first fit feels are processor time, each in a fresh process, with goal and verdict.

    python benchmarks/accounting.py [--settings 200] [--peers 12] [--only-goals]
"""

import argparse
import math
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np

from noisette import accounting, mechanisms, plans, sampling
from noisette.core.accounting import front
from noisette.core.accounting.numerical.plan import profile
from noisette.core.accounting.pld import NumericalAccountant

TABLE = [  # q, z, T, delta: section 4 of the maths reference
    (0.01, 1.0, 1000, 1e-5),
    (0.004, 0.8, 15000, 1e-5),
    (0.05, 2.0, 2000, 1e-6),
    (0.001, 0.5, 10000, 1e-6),
    (0.001, 0.8, 100000, 1e-6),
]
Setting = tuple[float, float, int, float]


def plan_of(q: float, z: float, steps: int) -> plans.Plan:
    return plans.Repeat(plans.Sampled(mechanisms.Gaussian(z), sampling.Poisson(q)), steps)


def noisette_bracket(setting: Setting) -> tuple[float, float]:
    # Not the front door, which remembers its answers, and without the engine's own memory.
    profile.cache_clear()
    q, z, steps, delta = setting
    accountant = NumericalAccountant()
    return accountant.bracket(plan_of(q, z, steps), delta=delta, adjacency="add-remove")


def dp_accounting_epsilon(setting: Setting, interval: float) -> float:
    import dp_accounting

    q, z, steps, delta = setting
    accountant = dp_accounting.pld.PLDAccountant(value_discretization_interval=interval)
    event = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(z))
    return float(accountant.compose(event, steps).get_epsilon(delta))


def prv_epsilon(setting: Setting) -> float:
    from prv_accountant import Accountant  # type: ignore[import-not-found]

    q, z, steps, delta = setting
    accountant = Accountant(
        noise_multiplier=z, sampling_probability=q, delta=delta, eps_error=0.01,
        max_compositions=steps,
    )  # fmt: skip
    return float(accountant.compute_epsilon(num_compositions=steps)[2])


def opacus_epsilon(setting: Setting) -> float:
    from opacus.accountants import PRVAccountant  # type: ignore[import-not-found]

    q, z, steps, delta = setting
    accountant = PRVAccountant()
    accountant.history = [(z, q, steps)]
    return float(accountant.get_epsilon(delta))


PEERS: dict[str, Callable[[Setting], float]] = {
    "dp-accounting h=1e-4": lambda s: dp_accounting_epsilon(s, 1e-4),
    "dp-accounting h=1e-3": lambda s: dp_accounting_epsilon(s, 1e-3),
    "prv-accountant": prv_epsilon,
    "opacus prv": opacus_epsilon,
}


def timed(call: Callable[[], object], repeats: int) -> tuple[object, float]:
    """Return the answer and the median time in milliseconds."""
    answer, times = call(), []
    for _ in range(repeats):
        start = time.perf_counter()
        answer = call()
        times.append(1e3 * (time.perf_counter() - start))
    return answer, statistics.median(times)


def random_settings(count: int, seed: int = 20261115) -> list[Setting]:
    rng = np.random.default_rng(seed)
    return [
        (
            float(10 ** rng.uniform(-4, -0.3)),
            float(10 ** rng.uniform(-0.3, 0.7)),
            int(10 ** rng.uniform(1.7, 5)),
            float(10 ** rng.uniform(-10, -4)),
        )
        for _ in range(count)
    ]


def compare(settings: list[Setting]) -> None:
    print(f"{'q, z, T, delta':<30}{'peer':<24}{'epsilon':>24}{'ms':>10}{'times slower':>14}")
    ratios: dict[str, list[float]] = {}
    for setting in settings:
        found, ours = timed(lambda s=setting: noisette_bracket(s), 7)
        low, high = found  # type: ignore[misc]
        name = ", ".join(f"{v:.3g}" for v in setting)
        print(f"{name:<30}{'noisette (bracket)':<24}{f'[{low:.5f}, {high:.5f}]':>24}{ours:>10.1f}")
        for peer, call in PEERS.items():
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    value, took = timed(lambda s=setting, c=call: c(s), 1)
            except ImportError:
                continue
            except Exception as error:
                print(f"{'':<30}{peer:<24}{'failed: ' + type(error).__name__:>24}")
                continue
            ratios.setdefault(peer, []).append(took / ours)
            print(f"{'':<30}{peer:<24}{value:>24.5f}{took:>10.0f}{took / ours:>14.1f}")
    print("\nmedian over settings: times slower than noisette")
    for peer in PEERS:
        if peer in ratios:
            print(f"  {peer:<24}{statistics.median(ratios[peer]):>8.1f}")
        else:
            print(f"  {peer:<24}not installed here")


def widths(settings: list[Setting]) -> None:
    relative, times = [], []
    for setting in settings:
        (low, high), took = timed(lambda s=setting: noisette_bracket(s), 1)  # type: ignore[misc]
        assert math.isfinite(high)
        relative.append((high - low) / high if high > 1e-6 else 0.0)
        times.append(took)
    shown = np.quantile(relative, [0.5, 0.9, 0.99, 1.0])
    print(f"\n{len(settings)} random settings: bracket width / epsilon")
    print("  median {:.2e}, 90 % {:.2e}, 99 % {:.2e}, worst {:.2e}".format(*shown))
    print(f"  within 0.1 %: {100 * np.mean(np.array(relative) <= 1e-3):.1f} % (target: 99 %)")
    print(
        "  ms: median {:.1f}, 90 % {:.1f}, worst {:.1f}".format(*np.quantile(times, [0.5, 0.9, 1]))
    )


def least_noise(q: float, steps: int, delta: float) -> float:
    front._bracket.cache_clear()
    return accounting.calibrate(
        lambda z: plan_of(q, z, steps), epsilon=1.0, delta=delta, adjacency="add-remove"
    )


def calibration() -> None:
    print("\ncalibration (least noise for epsilon = 1): time / time of one evaluation")
    for q, _, steps, delta in TABLE:
        found, took = timed(partial(least_noise, q, steps, delta), 3)
        z = float(found)  # type: ignore[arg-type]
        _, once = timed(lambda s=(q, z, steps, delta): noisette_bracket(s), 5)
        reached = noisette_bracket((q, z, steps, delta))[1]
        print(
            f"  q={q:g}, T={steps}: z={z:.5f}, epsilon={reached:.6f}, "
            f"{took:.0f} ms = {took / once:.1f} evaluations (target: at most 30)"
        )


FIRST_FIT = """
import time, warnings
import numpy as np
from noisette.models import LogisticRegression
warnings.simplefilter("ignore")
rows = np.random.default_rng(0).normal(size=(2000, 14))
rows /= np.linalg.norm(rows, axis=1, keepdims=True)
labels = np.arange(2000) % 2
def seconds(delta):
    start = time.process_time()
    LogisticRegression(1.0, delta, norm_bound=1.0, {facts}).fit(rows, labels)
    return time.process_time() - start
seconds(0.0)
print(seconds(1e-6) - seconds(1e-6))
"""
ALLOCATION = """
import time
from noisette import accounting, mechanisms, plans, sampling
def plan(z, batches={batches}):
    sampler = sampling.RandomAllocation(batches)
    return plans.Repeat(plans.Sampled(mechanisms.Gaussian(z), sampler), 10)
accounting.epsilon(plan(1.0, 4), delta=1e-5, adjacency="{adjacency}")
start = time.process_time()
accounting.calibrate(plan, epsilon=1.0, delta=1e-5, adjacency="{adjacency}")
print(time.process_time() - start)
"""
ADDED = "adjacency='add-remove', population=2000"
GOALS = [  # what, code, goal in seconds
    ("first fit, replace-one", FIRST_FIT.format(facts=""), 0.05),
    ("first fit, add-remove", FIRST_FIT.format(facts=ADDED), 0.05),
    ("first fit, little regularization", FIRST_FIT.format(facts="regularization=4e-4"), 0.05),
    ("allocation, 100 batches", ALLOCATION.format(batches=100, adjacency="add-remove"), 0.5),
    ("allocation, 1,000 batches", ALLOCATION.format(batches=1000, adjacency="add-remove"), 2.0),
    ("allocation, 100, replace-one", ALLOCATION.format(batches=100, adjacency="replace-one"), 2.0),
]  # fmt: skip


def goals(runs: int = 3) -> None:
    print("\ncalibration in fresh processes: seconds of processor time")
    print(f"{'what':<36}{'now':>8}{'goal':>8}  verdict")
    for what, code, goal in GOALS:
        command = [sys.executable, "-c", code]
        took = statistics.median(
            float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            for _ in range(runs)
        )
        print(f"{what:<36}{took:>8.3f}{goal:>8.2f}  {'met' if took <= goal else 'missed'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", type=int, default=200, help="random settings for widths")
    parser.add_argument("--peers", type=int, default=12, help="random settings for peers")
    parser.add_argument("--only-goals", action="store_true", help="only what has a goal")
    arguments = parser.parse_args()
    goals()
    if arguments.only_goals:
        return
    compare(TABLE + random_settings(arguments.peers, seed=7))
    widths(random_settings(arguments.settings))
    calibration()


if __name__ == "__main__":
    main()
