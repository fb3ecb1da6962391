"""Means and deviations in the words of the paper, asked for by problem, rate and batch size."""

import math

from reproductions.base import Table
from reproductions.song2013.drawing import NAMES, SHOWN, summary

__all__ = [
    "CLOSE",
    "DIMENSION",
    "FAST",
    "PROBLEMS",
    "READINGS",
    "SLOW",
    "START",
    "STEEP",
    "Measured",
    "name",
]

START = math.log(2.0)
CLOSE = 0.90
READINGS = {"scaled": "features scaled", "standardised": "features standardised"}
DIMENSION = {"mnist": 15, "kddcup99": 9, "sphere": 5}
PROBLEMS = [
    ("mnist", "scaled"), ("kddcup99", "scaled"), ("mnist", "standardised"),
    ("kddcup99", "standardised"), ("sphere", "sphere"),
]  # fmt: skip
SLOW, FAST, STEEP = SHOWN


class Measured:
    """Answers in the words of the paper: mean and deviation at the end of a pass."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.ends = summary(table).where(alpha=1.0)
        self._found = {
            (r["data"], r["features"], r["d"], r["rate"], r["batch"], r["algorithm"]): r
            for r in self.ends
        }

    def at(self, problem: tuple[str, str], rate: str, batch: int, who: str) -> tuple[float, float]:
        """Return (mean, sd)."""
        data, features = problem
        row = self._found[data, features, DIMENSION[data], rate, batch, who]
        return row["mean"], row["sd"]

    def reach(self, problem: tuple[str, str], rate: str, batch: int) -> float:
        """Return the decrease of private SGD over that of non-private SGD, same batches."""
        ours, plain = (self.at(problem, rate, batch, who)[0] for who in ("private", "non-private"))
        return (START - ours) / (START - plain)

    def sweep(self, problem: tuple[str, str], rate: str, who: str) -> dict[int, float]:
        """Return batch size -> mean."""
        data, features = problem
        batches = [k[4] for k in self._found if k[:4] == (data, features, DIMENSION[data], rate)]
        return {b: self.at(problem, rate, b, who)[0] for b in sorted(set(batches))}

    def best(self, problem: tuple[str, str], rate: str, who: str) -> tuple[int, float]:
        """Return the best batch size and its mean."""
        means = self.sweep(problem, rate, who)
        batch = min(means, key=means.__getitem__)
        return batch, means[batch]

    def overall(self, problem: tuple[str, str], who: str) -> tuple[str, int, float]:
        """Return the best rate and batch size of the paper's three rates, and the mean."""
        each = [(rate, *self.best(problem, rate, who)) for rate in SHOWN]
        return min(each, key=lambda one: one[2])

    def central(self, problem: tuple[str, str]) -> float:
        """Return the minimum of the objective."""
        data, features = problem
        where = {"data": data, "features": features, "d": DIMENSION[data]}
        return self.table.mean("objective", part="optimum", **where)

    def path(self, problem: tuple[str, str], batch: int, who: str) -> Table:
        """Return mean and sd against samples, at rate 1/sqrt(t)."""
        data, features = problem
        part = self.table.where(
            part="sgd", data=data, features=features, d=DIMENSION[data], alpha=1.0, rate=SLOW,
            batch=batch, algorithm=who,
        )  # fmt: skip
        return part.summary("objective", by=["samples"])


def name(problem: tuple[str, str]) -> str:
    """Return the problem in words."""
    data, features = problem
    return NAMES[data] if data == "sphere" else f"{NAMES[data]}, {READINGS[features]}"
