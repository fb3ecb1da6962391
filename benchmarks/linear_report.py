"""The tables and verdicts of ``benchmarks/linear.py``: rows of fits in, Markdown out."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

BINARY = ("adult", "kddcup99", "covertype", "bank", "credit")
# Yu, Zhang, Chen, Liu: "Gradient perturbation is underrated for differentially private convex
# optimization", Table 2, on the benchmark of Iyengar et al. (2019): 80/20 split, delta = 1/n^2,
# add-remove, mean of 20 runs, learning rate and steps tuned without counting their privacy.
PUBLISHED_NAMES = ("non-private", "AMP", "Out-SGD", "DP-SGD", "DP-GD")
PUBLISHED: dict[str, tuple[float, tuple[float, ...]]] = {
    "adult": (0.1, (84.8, 79.3, 77.4, 80.4, 80.9)),
    "kddcup99": (0.1, (99.1, 97.5, 98.1, 98.7, 98.7)),
    "mnist": (1.0, (91.9, 71.9, 69.4, 87.5, 88.6)),
    "covertype-7": (1.0, (71.2, 64.3, 62.4, 67.7, 66.2)),
}
KEY = ("dataset", "epsilon", "delta", "adjacency", "method")
FIELDS = (*KEY, "seed", "accuracy", "seconds", "megabytes", "note")


class Cell(NamedTuple):
    """One entry of a table. delta is text: "0", "1e-06" or "1/n^2"."""

    dataset: str
    epsilon: float
    delta: str
    adjacency: str
    method: str


Row = dict[str, str]


class Store:
    """The rows so far, in memory and (with a folder) in ``linear.csv``."""

    def __init__(self, folder: Path | None) -> None:
        self.path = folder / "linear.csv" if folder else None
        self.rows: list[Row] = []
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
        if self.path and self.path.exists():
            with self.path.open(newline="") as file:
                self.rows = [
                    row for row in csv.DictReader(file) if None not in (*row, *row.values())
                ]
        if self.path:  # written anew, because a killed run may have left half a line
            new = self.path.with_suffix(".new")
            with new.open("w", newline="") as file:
                writer = csv.DictWriter(file, FIELDS)
                writer.writeheader()
                writer.writerows(self.rows)
            new.replace(self.path)

    def add(self, row: Row) -> None:
        """Keep one row, show it, and append it to the file."""
        row = {field: row.get(field, "") for field in FIELDS}
        self.rows.append(row)
        if self.path:
            with self.path.open("a", newline="") as file:
                csv.DictWriter(file, FIELDS).writerow(row)
        shown = row["accuracy"] or row["note"] or f"{row['seconds']} s, {row['megabytes']} MB"
        print("  " + " ".join(row[field] for field in FIELDS[:6]) + f": {shown}", file=sys.stderr)

    def done(self) -> set[tuple[str, ...]]:
        """The cells and seeds that need no further fit."""
        return {tuple(row[field] for field in FIELDS[:6]) for row in self.rows}

    def values(self, cell: Cell, field: str = "accuracy", seed: str | None = None) -> list[float]:
        """The figures of a cell over its seeds (or of its cost rows, with `seed`)."""
        key = [str(part) for part in cell]
        return [
            float(row[field])
            for row in self.rows
            if [row[f] for f in KEY] == key
            and row[field]
            and (row["seed"].isdigit() if seed is None else row["seed"] == seed)
        ]

    def gap(self, better: Cell, cell: Cell) -> float:
        """Mean of `better` minus mean of `cell`, over the seeds that both have; nan if none."""
        found: list[dict[str, float]] = []
        for key in ([str(part) for part in one] for one in (better, cell)):
            mine = [row for row in self.rows if [row[f] for f in KEY] == key and row["accuracy"]]
            found.append({row["seed"]: float(row["accuracy"]) for row in mine})
        both = found[0].keys() & found[1].keys()
        return sum(found[0][k] - found[1][k] for k in both) / len(both) if both else float("nan")

    def note(self, cell: Cell) -> str:
        """Why a cell has no figure."""
        key = [str(part) for part in cell]
        return next((r["note"] for r in self.rows if [r[f] for f in KEY] == key), "")


def spread(values: list[float], note: str = "") -> str:
    if len(values) < 2:
        return f"{values[0]:.2f}" if values else note or "-"
    return f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f}"


def markdown(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(header)
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def peer_values(options: argparse.Namespace) -> dict[tuple[str, float], list[float]]:
    if options.peer is None or not options.peer.exists():
        return {}
    found: dict[tuple[str, float], list[float]] = {}
    for row in json.loads(options.peer.read_text())["rows"]:
        found.setdefault((row["dataset"], row["epsilon"]), []).append(100.0 * row["accuracy"])
    return found


def accuracy_table(options: argparse.Namespace, store: Store) -> str:
    peers = peer_values(options)
    header = ["dataset", "relation", "delta", "epsilon", "seeds", "non-private", *options.methods]
    rows = []
    for name in options.datasets:
        base = store.values(Cell(name, 0.0, "0", "none", "non-private"))
        for adjacency in options.adjacencies:
            for delta in options.deltas:
                for epsilon in options.epsilons:
                    cells = [Cell(name, epsilon, delta, adjacency, m) for m in options.methods]
                    found = [store.values(cell) for cell in cells]
                    seeds = str(min((len(v) for v in found if v), default=0))
                    row = [name, adjacency, delta, f"{epsilon:g}", seeds, spread(base)]
                    row += [spread(v, store.note(c)) for v, c in zip(found, cells, strict=True)]
                    # diffprivlib states pure epsilon for replaced rows: no other line has it.
                    same = delta == "0" and adjacency == "replace-one"
                    rows.append([*row, spread(peers.get((name, epsilon), []) if same else [])])
    text = markdown([*header, "diffprivlib 0.6.6"] if peers else header,
                    rows if peers else [row[:-1] for row in rows])  # fmt: skip
    return "## Accuracy, per cent\n\n" + text


def published_table(options: argparse.Namespace, store: Store) -> str:
    header = ["dataset", "epsilon", "our non-private", *options.methods]
    header += [f"published {name}" for name in PUBLISHED_NAMES]
    rows = []
    for name in options.published:
        epsilon, numbers = PUBLISHED[name]
        cells = [Cell(name, epsilon, "1/n^2", "add-remove", m) for m in options.methods]
        base = store.values(Cell(name, 0.0, "0", "none", "non-private"))
        ours = [spread(store.values(c), store.note(c)) for c in cells]
        rows.append([name, f"{epsilon:g}", spread(base), *ours, *map(str, numbers)])
    return (
        "## Under the published protocol (80/20, delta = 1/n^2, add-remove)\n\n"
        + markdown(header, rows)
        + "\nPublished: Yu et al., Table 2 (features of Iyengar et al. 2019, not ours; tuned "
        "without counting the privacy of tuning).\n"
    )


def ratios(store: Store, cell: Cell) -> tuple[float, float]:
    """(time ratio, memory ratio) of a cost cell, nan where not measured."""
    found = []
    for field in ("seconds", "megabytes"):
        ours = store.values(cell, field, "cost")
        theirs = store.values(cell, field, "cost of scikit-learn")
        found.append(ours[-1] / theirs[-1] if ours and theirs and theirs[-1] else float("nan"))
    return found[0], found[1]


def cost_table(options: argparse.Namespace, store: Store) -> str:
    header = ["dataset", "delta", "method", "CPU seconds", "time ratio", "peak MB", "memory ratio"]
    rows = []
    for name in options.datasets:
        for delta in options.deltas:
            for method in options.methods:
                cell = Cell(name, 1.0, delta, "replace-one", method)
                seconds = store.values(cell, "seconds", "cost")
                megabytes = store.values(cell, "megabytes", "cost")
                if seconds:
                    slower, larger = ratios(store, cell)
                    rows.append([name, delta, method, f"{seconds[-1]:.2f}", f"{slower:.2f}",
                                 f"{megabytes[-1]:.0f}", f"{larger:.2f}"])  # fmt: skip
    return "## Cost at epsilon = 1 against scikit-learn's lbfgs\n\n" + markdown(header, rows)


def verdicts(options: argparse.Namespace, store: Store) -> Iterator[list[str]]:
    """One line per target and case: target, case, figures, reached or not."""
    for name in (d for d in options.datasets if d in BINARY):
        base = Cell(name, 0.0, "0", "none", "non-private")
        for adjacency in options.adjacencies:
            for delta in options.deltas:
                gaps = {
                    m: gap
                    for m in options.methods
                    if (gap := store.gap(base, Cell(name, 1.0, delta, adjacency, m))) == gap
                }
                case = f"{name}, {adjacency}, delta {delta}"
                yield judged("epsilon 1: within 1 point of non-private", case, gaps, 1.0, "points")
    for name in (d for d in ("adult", "kddcup99") if d in options.published):
        epsilon, numbers = PUBLISHED[name]
        gaps = {
            m: max(numbers[1:]) - float(np.mean(v))
            for m in options.methods
            if (v := store.values(Cell(name, epsilon, "1/n^2", "add-remove", m)))
        }
        target = f"epsilon 0.1: above the published {max(numbers[1:])}"
        yield judged(target, name, gaps, 0.0, "points below")
    limits = ((0, 1.3, "fit time"), (1, 1.5, "peak memory"))
    for field, limit, what in limits if options.costs else ():
        for name in options.datasets:
            for delta in options.deltas:
                found = {
                    m: ratio
                    for m in options.methods
                    if np.isfinite(
                        ratio := ratios(store, Cell(name, 1.0, delta, "replace-one", m))[field]
                    )
                }
                target = f"{what} <= {limit} x scikit-learn"
                yield judged(target, f"{name}, delta {delta}", found, limit, "x")


def judged(target: str, case: str, found: dict[str, float], limit: float, unit: str) -> list[str]:
    figures = "; ".join(f"{method} {value:.2f}" for method, value in found.items())
    good = [method for method, value in found.items() if value <= limit]
    if not found:
        return [target, case, "-", "not measured"]
    verdict = f"reached by {', '.join(good)}" if good else "NOT reached"
    return [target, case, f"{figures} ({unit})", verdict]


def report(options: argparse.Namespace, store: Store) -> str:
    lines = list(verdicts(options, store))
    parts = [accuracy_table(options, store)]
    if options.published:
        parts.append(published_table(options, store))
    if options.costs:
        parts.append(cost_table(options, store))
    parts.append("## Verdict\n\n" + markdown(["target", "case", "figures", "verdict"], lines))
    return "# Private linear models\n\n" + "\n".join(parts)
