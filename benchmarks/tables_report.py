"""The figures of ``benchmarks/tables.py``: rows of fits in, Markdown out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

DATA = ("adult", "bank", "credit", "telco")
DELTA = 1e-6
# DP-EBM (interpret-core 0.7.8, add-remove): AUC at epsilon 1 and 0.1. Quoted, not run here.
EBM = {
    "adult": {1.0: 0.886, 0.1: 0.855},
    "bank": {1.0: 0.748, 0.1: 0.722},
    "credit": {1.0: 0.767, 0.1: 0.733},
    "telco": {1.0: 0.829, 0.1: 0.775},
}


class Cell(NamedTuple):
    """One entry of a table."""

    data: str
    method: str
    adjacency: str
    epsilon: float
    delta: float = DELTA


class Store:
    """The rows so far, in memory and (with a folder) in ``tables.jsonl``."""

    def __init__(self, folder: Path | None) -> None:
        self.path = folder / "tables.jsonl" if folder else None
        self.rows: list[dict[str, Any]] = []
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        for line in self.path.read_text().splitlines() if self.path.exists() else ():
            try:
                self.rows.append(json.loads(line))
            except json.JSONDecodeError:  # a killed run may have left half a line
                continue
        text = "".join(json.dumps(row) + "\n" for row in self.rows)
        self.path.write_text(text)

    def add(self, row: dict[str, Any]) -> None:
        """Keep one row, show it, and append it to the file."""
        self.rows.append(row)
        if self.path:
            with self.path.open("a") as file:
                file.write(json.dumps(row) + "\n")
        print(json.dumps(row), file=sys.stderr)

    def _of(self, cell: Cell) -> list[dict[str, Any]]:
        key = cell._asdict()
        return [row for row in self.rows if all(row.get(k) == v for k, v in key.items())]

    def has(self, cell: Cell, seed: int) -> bool:
        """Whether this fit needs no repetition."""
        return any(row["seed"] == seed for row in self._of(cell))

    def values(self, cell: Cell, field: str = "auc") -> list[float]:
        """The figures of a cell over its seeds."""
        return [float(row[field]) for row in self._of(cell) if field in row]

    def mean(self, cell: Cell, field: str = "auc") -> float:
        """Their mean; nan if there is none."""
        found = self.values(cell, field)
        return float(np.mean(found)) if found else float("nan")

    def gap(self, cell: Cell, other: Cell) -> str:
        """The mean of AUC minus that of another cell, over the seeds that both have."""
        mine, yours = (
            {row["seed"]: row["auc"] for row in self._of(each) if "auc" in row}
            for each in (cell, other)
        )
        both = [mine[seed] - yours[seed] for seed in mine.keys() & yours.keys()]
        return f"{np.mean(both):+.4f}" if both else "-"

    def megabytes(self, name: str) -> float:
        """The memory of one fit."""
        found = [r["megabytes"] for r in self.rows if "megabytes" in r and r["data"] == name]
        return float(found[0]) if found else 0.0


def shown(store: Store, cell: Cell, field: str = "auc", digits: int = 4) -> str:
    """Mean ± standard deviation, or a dash."""
    found = store.values(cell, field)
    if not found:
        return "-"
    spread = float(np.std(found, ddof=1)) if len(found) > 1 else 0.0
    return f"{np.mean(found):.{digits}f} ± {spread:.{digits}f}"


def report(store: Store, cells: list[Cell]) -> str:
    """Return all tables as Markdown."""
    return "\n".join([*_main(store, cells), "", *_others(store, cells), "", *_costs(store)])


def _main(store: Store, cells: list[Cell]) -> list[str]:
    lines = [
        "| data | relation | ε | raw, AUC | expert | whitened | raw - better | DP-EBM "
        "| raw, accuracy | majority | warned | seeds |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for cell in cells:
        if cell.method != "raw":
            continue
        plain, whitened = cell._replace(method="expert"), cell._replace(method="expert, whitened")
        gap = store.gap(cell, max(plain, whitened, key=store.mean))
        ebm = f"{EBM[cell.data][cell.epsilon]:.3f}" if cell.adjacency == "add-remove" else ""
        warned = store.values(cell, "warned")
        lines.append(
            f"| {cell.data} | {cell.adjacency} | {cell.epsilon:g} | {shown(store, cell)} "
            f"| {shown(store, plain)} | {shown(store, whitened)} | {gap} | {ebm} "
            f"| {shown(store, cell, 'accuracy', 2)} | {store.mean(cell, 'majority'):.2f} "
            f"| {int(sum(warned))} of {len(warned)} | {len(warned)} |"
        )
    return lines


def _others(store: Store, cells: list[Cell]) -> list[str]:
    lines = [
        "| data | what | relation | ε | δ | AUC | accuracy | AUC against raw | seeds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for cell in cells:
        if cell.method == "raw" or cell.method.startswith("expert"):
            continue
        gap = store.gap(cell, cell._replace(method="raw"))
        lines.append(
            f"| {cell.data} | {cell.method} | {cell.adjacency} | {cell.epsilon:g} "
            f"| {cell.delta:g} | {shown(store, cell)} | {shown(store, cell, 'accuracy', 2)} "
            f"| {gap} | {len(store.values(cell))} |"
        )
    return lines


def _costs(store: Store) -> list[str]:
    lines = ["| data | seconds of one core for a fit | MB beyond the table |", "|---|---|---|"]
    for name in DATA:
        cell = Cell(name, "raw", "replace-one", 1.0)
        seconds = np.median(store.values(cell, "seconds") or [np.nan])
        lines.append(f"| {name} | {seconds:.2f} | {store.megabytes(name):.0f} |")
    return lines
