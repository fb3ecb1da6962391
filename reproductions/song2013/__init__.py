"""Song, Chaudhuri and Sarwate (2013): figures 1 to 3, and the questions that the paper left open.

`runs` measures, `drawing` draws, `verdicts` compares with the text of the paper.
"""

from reproductions.base import Claim, Experiment, Figure, Row, Table, Task
from reproductions.song2013 import drawing, text, verdicts

__all__ = ["Song2013"]

BATCHES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
LARGER = (2000, 5000)  # for the sweeps over dimension and alpha only
PAPER_RATES = ("1/sqrt(t)", "10/sqrt(t)", "1/(lambda t)")
PROBLEMS = (
    {"data": "mnist", "features": "scaled", "d": 15},
    {"data": "kddcup99", "features": "scaled", "d": 9},
    {"data": "mnist", "features": "standardised", "d": 15},
    {"data": "kddcup99", "features": "standardised", "d": 9},
    {"data": "sphere", "features": "sphere", "d": 5},
)
MNIST = PROBLEMS[0]
DIMENSIONS = (5, 10, 15, 30, 60, 120)
ALPHAS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9)
PASSES = (1, 2, 5, 10, 20)
METHODS = (("poisson", 1e-6), ("gaussian", 1e-6), ("spherical", 1e-6), ("pure", 0.0),
           ("non-private", 0.0))  # fmt: skip
_TOGETHER = 5  # repetitions of many passes that share one calibration


def _followed(problem: Task, batch: int, rate: str) -> bool:
    """Whether a figure shows this run against the number of samples."""
    if problem["data"] == "sphere":
        return batch == 5 and rate in ("1/sqrt(t)", "1/(lambda t)")
    return batch in drawing.FOLLOWED[problem["data"]] and rate == "1/sqrt(t)"


class Song2013(Experiment):
    """Noisy SGD in one pass: the batch size decides."""

    name = "song2013"
    title = "Stochastic gradient descent with differentially private updates, reproduced"
    source = (
        "S. Song, K. Chaudhuri and A. D. Sarwate, Stochastic gradient descent with differentially "
        "private updates, IEEE GlobalSIP 2013"
    )
    version = 1
    needs = ("mnist", "kddcup99")

    def tasks(self, quick: bool) -> list[Task]:
        """Return many passes first (slow), then the sweeps; 20 seeds, quick 5."""
        seeds = range(5 if quick else 20)
        tasks = _passes(5 if quick else 20, (1, 2, 5, 10) if quick else PASSES)
        sweeps = [(dict(p), 1.0) for p in PROBLEMS]
        sweeps += [({**MNIST, "d": d}, 1.0) for d in DIMENSIONS if d != MNIST["d"]]
        sweeps += [(dict(MNIST), alpha) for alpha in ALPHAS if alpha != 1.0]
        for problem, alpha in sweeps:
            tasks.append({"part": "optimum", **problem})
            main = problem in PROBLEMS and alpha == 1.0
            for batch in BATCHES if main else (*BATCHES, *LARGER):
                for rate in PAPER_RATES if main else PAPER_RATES[:2]:
                    points = 40 if main and _followed(problem, batch, rate) else 1
                    run = {"alpha": alpha, "batch": batch, "rate": rate, "points": points}
                    tasks += [{"part": "sgd", **problem, **run, "seed": s} for s in seeds]
        for share in SHARES:
            own = {"share": share, "low": 0.2, "alpha": 1.0, "batch": 200, "rate": "10/sqrt(t)"}
            tasks += [{"part": "levels", **MNIST, **own, "seed": s} for s in seeds]
        return list({str(task): task for task in tasks}.values())  # an optimum is asked for once

    @staticmethod
    def run(task: Task) -> Row | list[Row]:
        """Measure one task; the name of its part is the function's."""
        from reproductions.song2013 import runs

        measured: list[Row] = getattr(runs, task["part"])(task)
        return measured

    def figures(self, table: Table) -> list[Figure]:
        """Return the paper's three figures, and four beyond it."""
        return drawing.figures(table)

    def claims(self, table: Table) -> list[Claim]:
        """Return the paper's statements with what was measured."""
        return verdicts.claims(table)

    def introduction(self, table: Table) -> str:
        """Say what was run."""
        return text.introduction(table)

    def remarks(self, table: Table) -> str:
        """Answer the open questions and list what differs from the paper."""
        return text.remarks(table)


def _passes(repetitions: int, counts: tuple[int, ...]) -> list[Task]:
    tasks = []
    for method, delta in METHODS:
        for count in reversed(counts):
            for batch in (200, 1000):
                for first in range(0, repetitions, _TOGETHER):
                    run = {"batch": batch, "rate": "10/sqrt(t)", "alpha": 1.0, "delta": delta}
                    run |= {"method": method, "passes": count}
                    tasks.append(
                        {"part": "passes", **MNIST, **run, "first": first, "seeds": _TOGETHER}
                    )
    return tasks
