"""``python -m reproductions shuffling``: the poster of Berthier and Karimireddy.

Its two examples against private shuffling (not faster, less private), its Algorithm 1, its rules
for Renyi privacy, and the table of what every sampler costs.
"""

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from reproductions.base import Claim, Experiment, Figure, Row, Table, Task
from reproductions.shuffling import costs, runs
from reproductions.shuffling.drawings import all_figures
from reproductions.shuffling.poster import two_loss_example
from reproductions.shuffling.verdicts import claims, sampler_table

__all__ = ["Shuffling"]

STEPS = [2.0**-k for k in range(14)]
PRIVATE_STEPS = [2.0**-k for k in range(-1, 11)]
FRACTIONS = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02)
SAMPLERS = (
    "random-allocation", "poisson", "plain", "shuffle last", "cyclic last", "partial-shuffle",
    "shuffle", "cyclic",
)  # fmt: skip


def _two_losses() -> list[Row]:
    """Return the exact laws of the two-loss example as rows."""
    example = two_loss_example()
    rows: list[Row] = []
    for sampler, laws, ratio in (
        ("with replacement", example.with_replacement, example.ratio_with),
        ("without replacement", example.without_replacement, example.ratio_without),
    ):
        for data, law in zip(("{1, 2}", "{1, 1}"), laws, strict=True):
            rows += [
                {"sampler": sampler, "data": data, "value": value, "probability": float(p),
                 "exactly": str(p), "worst_ratio": float(ratio)}
                for value, p in law.items()
            ]  # fmt: skip
    return rows


def _trajectory(task: Task) -> list[Row]:
    name, z, seed = task["schedule"], task["multiplier"], task["seed"]
    return list(runs.trajectory(name, z, task["up_to"], STEPS, 200, seed))


def _equal(task: Task) -> list[Row]:
    seeds, name, epochs = range(task["seeds"]), task["sampler"], task["epochs"]
    return list(runs.equal_privacy(name, epochs, 1.0, PRIVATE_STEPS, 2000, 20, seeds))


def _algorithm1(task: Task) -> list[Row]:
    noise, seeds = task["noise"], range(task["seeds"])
    fixed = {"none": 0.0, "fixed": 4.0, "equal": None}[noise]
    epsilon = 1.0 if noise == "equal" else None
    return list(runs.algorithm1(task["fraction"], 5, fixed, epsilon, STEPS[2:12], 1000, seeds))


def _cost(task: Task) -> Row:
    found = costs.cost(task["sampler"], task["epochs"], task["multiplier"], task["adjacency"])
    return {"proven": found is not None, **(found or {})}


_PARTS: dict[str, Callable[[Task], Row | list[Row]]] = {
    "trajectory": _trajectory,
    "equal": _equal,
    "algorithm1": _algorithm1,
    "cost": _cost,
    "fraction-cost": lambda task: costs.fraction_cost(
        task["fraction"], task["multiplier"], 5, 1000
    ),
    "renyi": lambda task: costs.renyi_rules(task["multiplier"], task["order"], 1000),
    "run-cost": lambda task: costs.run_cost(task["multiplier"], task["epochs"], task["n"]),
    "two-losses": lambda task: _two_losses(),
}


class Shuffling(Experiment):
    """The poster, reproduced."""

    name: ClassVar[str] = "shuffling"
    title: ClassVar[str] = "Private SGD with shuffling, reproduced"
    source: ClassVar[str] = (
        "Eloïse Berthier and Sai Praneeth Karimireddy: Private SGD with Shuffling. Poster."
    )
    version: ClassVar[int] = 1

    def tasks(self, quick: bool) -> list[Task]:
        """Return all runs and all costs, the slow calibrations first."""
        seeds, epochs = (6, 128) if quick else (24, 512)
        found: list[Task] = []
        for sampler in SAMPLERS:
            slow = sampler == "random-allocation"  # half a minute to calibrate, replace-one
            if quick and slow:
                continue
            passes = (1, 5, 20) if quick or slow else (1, 2, 5, 10, 20, 50)
            found += [
                {"part": "equal", "sampler": sampler, "epochs": e, "seeds": 4 if quick else 20}
                for e in passes
            ]
        found += [
            {"part": "trajectory", "schedule": s, "multiplier": z, "seed": k, "up_to": epochs}
            for k in range(seeds)
            for s in runs.SCHEDULES
            for z in (0.0, 0.5, 2.0)
        ]
        found += [
            {"part": "algorithm1", "fraction": f, "noise": noise, "seeds": 4 if quick else 20}
            for f in FRACTIONS
            for noise in ("none", "fixed", "equal")
        ]
        found += [
            {"part": "fraction-cost", "fraction": f, "multiplier": z}
            for z in (2.0, 4.0, 8.0)
            for f in (*FRACTIONS, 0.01, 0.005)
        ]
        found += [
            {"part": "cost", "adjacency": a, "sampler": s, "epochs": e, "multiplier": 1.0}
            for a in ("zero-out", "replace-one")
            for s in costs.NAMES
            for e in costs.BY_EPOCHS
        ]
        found += [
            {"part": "renyi", "multiplier": z, "order": order}
            for z in (2.0, 4.0, 10.0)
            for order in (2.0, 4.0, 16.0)
        ]
        found.append({"part": "run-cost", "multiplier": 2.0, "epochs": epochs, "n": 200})
        found.append({"part": "two-losses"})
        return found

    @staticmethod
    def run(task: Task) -> Row | list[Row]:
        """Return the rows of one task."""
        return _PARTS[task["part"]](task)

    def figures(self, table: Table) -> list[Figure]:
        """Return the five figures."""
        return all_figures(table)

    def claims(self, table: Table) -> list[Claim]:
        """Return the poster's claims with verdicts."""
        return claims(table)

    def introduction(self, table: Table) -> str:
        """Say what was run."""
        seeds = len(np.unique(table.where(part="trajectory").column("seed")))
        return (
            "The poster asks whether shuffled (cyclic) SGD, which everybody uses, may be made "
            "private by adding noise to its gradients, and answers with two examples: it is *not "
            "faster* than plain SGD any more, and it can be *less private*. Both are run here, the "
            "second one in exact arithmetic. L bounds the gradients, sigma is the standard "
            "deviation of the noise, and privacy is under replace-one unless stated otherwise. "
            f"Convergence curves are means over {seeds} runs, each at its best constant step: the "
            "step is chosen by looking at the result, equally for all samplers, so the curves "
            "compare samplers and are not what a private user would get."
        )

    def remarks(self, table: Table) -> str:
        """Return the table of costs and what differs from the poster."""
        return sampler_table(table)
