"""What an experiment is: independent tasks, figures drawn from their results, claims to check.

    class Dice(Experiment):
        name, title, source, version = "dice", "Throwing dice", "Bernoulli (1713)", 1

        def tasks(self, quick):                       # public parameters, seed included
            return [{"sides": 6, "seed": s} for s in range(5 if quick else 100)]

        @staticmethod
        def run(task):                                # in another process: one row or several
            return {"mean": throw(task["sides"], task["seed"])}

        def figures(self, table):                     # drawn from `points` and nothing else
            points = table.summary("mean", by=["sides"])
            return [Figure("means", "Means by sides.", points, draw_means)]

        def claims(self, table):
            mean = table.mean("mean", sides=6)
            return [Claim("p. 3", "The mean is 3.5.", f"{mean:.2f}", abs(mean - 3.5) < 0.2,
                          "within 0.2 of 3.5")]

The runner calls ``run(task)`` once for every task, in any order and in any process, and keeps
the rows; ``table`` holds them in the order of ``tasks``, each joined with its task. A task is a
flat dict of strings, numbers, booleans and None: its JSON text, with `name` and `version`, is its
key, so raise `version` whenever `run` would give other numbers for the same task. Tasks find data
through ``datasets.load(name)``: ``--data-home`` reaches the workers by the environment.

An experimenter looks at the data freely; numbers on these pages are not private.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from benchmarks import real as datasets

__all__ = ["Claim", "Experiment", "Figure", "Row", "Table", "Task"]

Task = dict[str, Any]
Row = dict[str, Any]


class Table:
    """Rows (dicts) with the few questions that figures and claims ask."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = list(rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def where(self, **equal: Any) -> "Table":
        """Return the rows whose columns have these values; a list or tuple means "one of"."""

        def fits(row: Row) -> bool:
            for name, wanted in equal.items():
                among = wanted if isinstance(wanted, list | tuple) else (wanted,)
                if name not in row or row[name] not in among:
                    return False
            return True

        return Table([row for row in self.rows if fits(row)])

    def column(self, name: str) -> NDArray[Any]:
        """Return one column as an array, in the order of the rows."""
        return np.array([row[name] for row in self.rows])

    def distinct(self, name: str) -> list[Any]:
        """Return the values of a column, each once, in the order of appearance."""
        return list(dict.fromkeys(row[name] for row in self.rows if name in row))

    def groups(self, *names: str) -> Iterator[tuple[tuple[Any, ...], "Table"]]:
        """Yield (values of `names`, their rows) in the order of appearance."""
        found: dict[tuple[Any, ...], list[Row]] = {}
        for row in self.rows:
            if all(name in row for name in names):
                found.setdefault(tuple(row[name] for name in names), []).append(row)
        for key, rows in found.items():
            yield key, Table(rows)

    def summary(self, value: str, by: Sequence[str]) -> "Table":
        """Return one row per group: the group, mean, sd (n - 1), median, count of `value`."""
        rows: list[Row] = []
        for key, part in self.groups(*by):
            x = part.column(value).astype(float)
            sd = float(x.std(ddof=1)) if len(x) > 1 else 0.0
            middle = float(np.median(x))
            numbers = {"mean": float(x.mean()), "sd": sd, "median": middle, "count": len(x)}
            rows.append({**dict(zip(by, key, strict=True)), **numbers})
        return Table(rows)

    def mean(self, value: str, **equal: Any) -> float:
        """Return the mean of a column over the rows that fit; NaN if there is none."""
        part = self.where(**equal)
        return float(part.column(value).astype(float).mean()) if len(part) else float("nan")

    def sd(self, value: str, **equal: Any) -> float:
        """Return the standard deviation (n - 1) over the rows that fit; NaN if fewer than two."""
        part = self.where(**equal)
        if len(part) < 2:
            return float("nan")
        return float(part.column(value).astype(float).std(ddof=1))


@dataclass(frozen=True)
class Figure:
    """One figure: `draw(points)` returns a matplotlib figure made from `points` alone.

    `points` is what the CSV file holds, so nothing can be plotted that is not written down.
    `name` is the file name without ending; `caption` one paragraph of Markdown.
    """

    name: str
    caption: str
    points: Table
    draw: Callable[[Table], Any]


@dataclass(frozen=True)
class Claim:
    """A sentence of the source beside what was measured.

    `holds` is a predicate on the numbers and `criterion` says it in words. `because` explains a
    claim that does not hold; it is shown in that case only.
    """

    where: str
    statement: str
    measured: str
    holds: bool
    criterion: str
    because: str = ""

    @property
    def verdict(self) -> str:
        """Return "holds", or "does not hold, because ..."."""
        if self.holds:
            return "**holds**"
        reason = self.because or "the measured figure misses the criterion"
        return f"**does not hold**, because {reason}"


class Experiment(ABC):
    """One paper, reproduced by one command; see the top of this file."""

    name: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]
    version: ClassVar[int] = 1
    needs: ClassVar[tuple[str, ...]] = ()
    """Names of the datasets (`datasets.DATASETS`) that some task reads."""

    def prepare(self) -> None:
        """Refuse early if data are missing; runs once in the parent, before the first task."""
        for name in self.needs:
            datasets.locate(datasets.DATASETS[name].folder)

    @abstractmethod
    def tasks(self, quick: bool) -> list[Task]:
        """Return the tasks, the slow ones first; `quick` takes two minutes on two cores."""

    @staticmethod
    @abstractmethod
    def run(task: Task) -> Row | list[Row]:
        """Return what one task measured: flat dicts of numbers and strings."""

    @abstractmethod
    def figures(self, table: Table) -> list[Figure]:
        """Return the figures."""

    @abstractmethod
    def claims(self, table: Table) -> list[Claim]:
        """Return each claim of the source with the measured figure."""

    def introduction(self, table: Table) -> str:
        """Return the Markdown between the title and the claims: what was run, and how."""
        return ""

    def remarks(self, table: Table) -> str:
        """Return the Markdown after the figures: deviations from the source, what is not shown."""
        return ""
