"""``python -m reproductions lecture``: Chaudhuri's notes on private machine learning (2020).

The privacy, accuracy and sample-size trade-off on Adult and KDD Cup 1999, what each step of the
accounting buys, the printed constants against the right ones, and a network.
"""

from collections.abc import Callable
from typing import ClassVar

from reproductions.base import Claim, Experiment, Figure, Row, Table, Task
from reproductions.lecture import composition, constants, network, tradeoff
from reproductions.lecture.drawings import SIZES, all_figures
from reproductions.lecture.verdicts import claims, remarks

__all__ = ["Lecture"]

EPSILONS = [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0]
QUICK_EPSILONS = [0.1, 1.0, 8.0]
NETWORK_EPSILONS = (0.5, 1.0, 3.0, 8.0)


def _tradeoff(task: Task) -> list[Row]:
    epsilons = QUICK_EPSILONS if task["quick"] else EPSILONS
    return tradeoff.accuracies(task["data"], task["n"], epsilons, task["seed"])


_PARTS: dict[str, Callable[[Task], Row | list[Row]]] = {
    "tradeoff": _tradeoff,
    "directions": lambda t: tradeoff.directions("adult", t["mechanism"], 1.0, range(t["seeds"])),
    "output-noise": lambda t: tradeoff.output_noise(
        t["n"], t["d"], t["epsilon"], t["regularization"], range(t["seeds"])
    ),
    "hinge": lambda t: {"refused": tradeoff.hinge_is_refused()},
    "composition": lambda t: composition.costs(t["steps"]),
    "output-pair": lambda t: constants.output_pair(t["epsilon"]),
    "objective-pair": lambda t: constants.objective_pair(t["epsilon"]),
    "loss-tail": lambda t: constants.loss_tail(t["epsilon"]),
    "subsampling": lambda t: constants.subsampling(t["rate"], t["epsilon"]),
    "conversions": lambda t: constants.conversions(t["steps"], 1e-5),
    "one-pass": lambda t: constants.one_pass(t["epsilon"]),
    "network": lambda t: network.network_accuracy(
        t["module"], t["epsilon"], 20_000, t["epochs"], t["seed"]
    ),
}


class Lecture(Experiment):
    """The lecture notes, reproduced."""

    name: ClassVar[str] = "lecture"
    title: ClassVar[str] = "Differential privacy and machine learning, reproduced"
    source: ClassVar[str] = (
        "Kamalika Chaudhuri: Privacy II: Differential Privacy and Machine Learning. Lecture notes, "
        "4 May 2020."
    )
    version: ClassVar[int] = 1
    needs: ClassVar[tuple[str, ...]] = ("adult", "kddcup99")

    def prepare(self) -> None:
        """Ask for MNIST only where a network can be trained on it."""
        super().prepare()
        if network.available():
            from benchmarks import real as datasets

            datasets.locate("mnist")

    def tasks(self, quick: bool) -> list[Task]:
        """Return all fits and all numbers, the slow ones first."""
        found: list[Task] = []
        if network.available():
            found += self._networks(quick)
        seeds = 2 if quick else 6
        for name, sizes in SIZES.items():
            for n in sorted(sizes[:3] if quick else sizes, reverse=True):
                found += [
                    {"part": "tradeoff", "data": name, "n": n, "seed": k, "quick": quick}
                    for k in range(seeds)
                ]
        found += [
            {"part": "directions", "mechanism": m, "seeds": 4 if quick else 20}
            for m in ("output", "objective")
        ]
        base = {"n": 2000, "d": 5, "epsilon": 1.0, "regularization": 0.1}
        changed: tuple[dict[str, float], ...] = (
            {}, {"n": 8000}, {"d": 20}, {"epsilon": 4.0}, {"regularization": 0.4}
        )  # fmt: skip
        found += [{"part": "output-noise", "seeds": 400, **base, **one} for one in changed]
        found += [{"part": "composition", "steps": steps} for steps in composition.STEPS]
        found += [{"part": "conversions", "steps": steps} for steps in (1, 16, 100)]
        found += [{"part": "subsampling", "rate": r, "epsilon": 1.0} for r in (0.01, 0.1, 0.5)]
        found += [
            {"part": part, "epsilon": 1.0}
            for part in ("output-pair", "objective-pair", "loss-tail", "one-pass")
        ]
        return [*found, {"part": "hinge"}]

    @staticmethod
    def _networks(quick: bool) -> list[Task]:
        modules = ("mlp", "linear") if quick else ("cnn", "mlp", "linear")
        levels = (1.0, 8.0, None) if quick else (*NETWORK_EPSILONS, None)
        return [
            {"part": "network", "module": m, "epsilon": e, "epochs": 5 if quick else 15, "seed": k}
            for m in modules
            for e in ((1.0, 8.0, None) if m == "cnn" else levels)
            for k in range(1 if quick else (2 if m == "cnn" else 3))
        ]

    @staticmethod
    def run(task: Task) -> Row | list[Row]:
        """Return the rows of one task."""
        return _PARTS[task["part"]](task)

    def figures(self, table: Table) -> list[Figure]:
        """Return the figures."""
        return all_figures(table)

    def claims(self, table: Table) -> list[Claim]:
        """Return the lecture's claims with verdicts."""
        return claims(table)

    def introduction(self, table: Table) -> str:
        """Say what was run."""
        return (
            "The lecture goes through two families of private training: *one-shot* (solve once and "
            "add noise to the solution or to the objective) and *iterative* (noisy gradient steps, "
            "counted ever more tightly). Here they run side by side on two real data sets, and "
            "every theorem and constant in the notes is held against an exact computation. Privacy "
            "is under replace-one (one record changes its value, the relation of the notes) unless "
            "stated otherwise. Features are encoded row by row with public facts only "
            "([docs/datasets.md](../datasets.md)), nothing is tuned, and the test set is the same "
            "for all."
        )

    def remarks(self, table: Table) -> str:
        """Return the table of printed constants and what differs."""
        return remarks(table)
