"""Large tables through the command line: time and memory, with goal and verdict.

Run: ``python benchmarks/streaming.py [--quick] [--large] [--folder /tmp/tables]``

Every figure is of a child process of its own: processor seconds (user and system, one thread) and
peak resident memory, both from ``resource.getrusage``. The tables are generated and kept in the
folder: 20 numbers and a label in 1 million rows, 5 million with ``--large``; and a table of the
size of Census (KDD), 199,523 rows of 8 numbers and 33 categories with 507 levels. ``--quick`` takes
a tenth of the rows, for which no goal is stated.

* **default**: ``noisette train`` with bounds and levels in the schema, which buys knots and shares.
* **stated**: the schema states ``row_norm``, so rows are encoded as it says and go to
  `LogisticRegression`; this is the path whose read, encode and fit are measured one by one.
"""

# ruff: noqa: E402  (the thread count must be set before NumPy is imported)
from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"

import argparse
import json
import os.path
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

COLUMNS = 20
CENSUS_ROWS, CENSUS_NUMBERS = 199_523, 8
CENSUS_LEVELS = [
    9, 52, 47, 17, 3, 7, 24, 15, 5, 10, 2, 3, 6, 8, 6, 6, 51, 38, 8, 10, 9, 10, 3, 4, 7, 5, 43, 43,
    40, 5, 4, 4, 3,
]  # fmt: skip
MEASURE = """
import json, resource, subprocess, sys
done = subprocess.run(sys.argv[1:], capture_output=True, text=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({"code": done.returncode, "seconds": used.ru_utime + used.ru_stime,
                  "memory": used.ru_maxrss / 1024, "said": done.stdout[-2000:] + done.stderr}))
"""
STAGES = """
import json, sys, time
from pathlib import Path
from noisette.models import LogisticRegression
from noisette.tables import encode, read_schema
from noisette.tables.frame import Frame
path, schema = Path(sys.argv[1]), read_schema(sys.argv[2])
def timed(work):
    began = time.process_time()
    return work(), time.process_time() - began
frame, read = timed(lambda: Frame.read(path, schema, target=True))
rows = frame.rows
del frame
table, encoded = timed(lambda: encode(path, schema, target=True))
model = LogisticRegression(1.0, 1e-9, norm_bound=1.0, classes=list(schema.classes))
model.plan(rows, table.X.shape[1])  # calibrated: that costs nothing per row
_, fit = timed(lambda: model.fit(table.X, table.y))
print(json.dumps({"read": read / rows, "encode": encoded / rows, "fit": fit / rows}))
"""


# --- tables ---------------------------------------------------------------------------------------


def numbers_table(path: Path, rows: int) -> None:
    """Write 20 normal numbers of three decimals and a label that depends on them."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=COLUMNS) / np.sqrt(COLUMNS)
    with path.open("w") as file:
        file.write(",".join([*(f"x{j}" for j in range(COLUMNS)), "y"]) + "\n")
        for start in range(0, rows, 50_000):
            X = np.round(rng.normal(size=(min(50_000, rows - start), COLUMNS)), 3)
            yes = X @ weights + rng.logistic(size=len(X)) > 0.0
            file.writelines(
                ",".join(map(repr, row)) + (",yes\n" if label else ",no\n")
                for row, label in zip(X.tolist(), yes.tolist(), strict=True)
            )


def numbers_schema(path: Path, *, stated: bool) -> None:
    """Write the public facts of that table."""
    lines = ['target = "y"', 'classes = ["no", "yes"]', 'unit = "one row is one person"']
    lines += ["row_norm = 1.2"] * stated
    for j in range(COLUMNS):
        lines += [f"[columns.x{j}]", 'kind = "numeric"', "low = -4", "high = 4"]
    path.write_text("\n".join(lines) + "\n")


def census_table(path: Path, rows: int) -> None:
    """Write 8 skewed numbers, 33 categories of unequal shares, and a rare label."""
    rng = np.random.default_rng(1)
    columns: list[Any] = []
    score = np.full(rows, -3.5)
    for _ in range(CENSUS_NUMBERS):
        values = np.where(rng.random(rows) < 0.5, 0.0, np.round(rng.exponential(40.0, rows)))
        score += 0.01 * rng.normal() * values
        columns.append(values.astype(int).tolist())
    for count in CENSUS_LEVELS:
        shares = 1.0 / np.arange(1, count + 1)
        codes = rng.choice(count, rows, p=shares / shares.sum())
        score += rng.normal(0.0, 0.4, count)[codes]
        names = np.array([f"level {k}" for k in range(count)])
        columns.append(names[codes].tolist())
    label = np.where(rng.random(rows) < 1.0 / (1.0 + np.exp(-score)), "50000+", "-50000")
    with path.open("w") as file:
        file.write(",".join([f"c{j}" for j in range(len(columns))] + ["income"]) + "\n")
        file.writelines(
            ",".join(map(str, row)) + "\n" for row in zip(*columns, label.tolist(), strict=True)
        )


def census_schema(path: Path) -> None:
    """Write the public facts of that table: bounds and all levels."""
    lines = ['target = "income"', 'classes = ["-50000", "50000+"]', 'unit = "one row is a person"']
    for j in range(CENSUS_NUMBERS):
        lines += [f"[columns.c{j}]", 'kind = "numeric"', "low = 0", "high = 400"]
    for j, count in enumerate(CENSUS_LEVELS, start=CENSUS_NUMBERS):
        levels = ", ".join(f'"level {k}"' for k in range(count))
        lines += [f"[columns.c{j}]", 'kind = "categorical"', f"categories = [{levels}]"]
    path.write_text("\n".join(lines) + "\n")


# --- measuring ------------------------------------------------------------------------------------


def measured(*command: str) -> dict[str, Any]:
    """Run a command in a process of its own; return its processor seconds and megabytes."""
    runner = [sys.executable, "-c", MEASURE, *command]
    found: dict[str, Any] = json.loads(subprocess.check_output(runner, text=True))
    if found["code"] != 0:
        raise SystemExit(f"{' '.join(command)} failed: {found['said']}")
    return found


def noisette(*given: str) -> dict[str, Any]:
    """Measure the command line."""
    return measured(sys.executable, "-m", "noisette", *given)


def trained(table: Path, schema: Path, folder: Path) -> dict[str, Any]:
    """Measure ``noisette train``."""
    out = str(folder / "model")
    budget = ("--epsilon", "1", "--delta", "1e-9")
    return noisette("train", str(table), "--schema", str(schema), *budget, "--out", out, "--force")


class Report:
    """Prints each figure with its goal as it is measured."""

    def __init__(self, *, goals: bool) -> None:
        self._goals = goals
        print("| what | measured | goal | verdict |\n|---|---|---|---|", flush=True)

    def line(self, what: str, value: float, unit: str, goal: float | None = None) -> None:
        """Print one line."""
        shown = "" if goal is None or not self._goals else f"<= {goal:g} {unit}"
        verdict = "" if not shown else ("met" if value <= goal else "missed")  # type: ignore[operator]
        print(f"| {what} | {value:.3g} {unit} | {shown} | {verdict} |", flush=True)


def numbers(report: Report, folder: Path, rows: int) -> dict[str, Any]:
    """Measure the table of numbers; return the figures of the default training."""
    table = folder / f"numbers{rows}.csv"
    if not table.exists():
        numbers_table(table, rows)
    schema = folder / "numbers.toml"
    numbers_schema(schema, stated=False)
    found = trained(table, schema, folder)
    report.line(f"{rows:,} x {COLUMNS} CSV, default", found["seconds"], "s")
    report.line("its memory", found["memory"], "MB", 700.0)
    return found


def stages(report: Report, folder: Path, rows: int) -> None:
    """Measure reading, encoding and fitting one by one."""
    table, schema = folder / f"numbers{rows}.csv", folder / "stated.toml"
    numbers_schema(schema, stated=True)
    done = measured(sys.executable, "-c", STAGES, str(table), str(schema))
    each = {key: 1e6 * value for key, value in json.loads(done["said"].splitlines()[0]).items()}
    report.line(f"{rows:,} x {COLUMNS} CSV, stated: read, per row", each["read"], "us", 2.0)
    report.line("read and encode, per row", each["encode"], "us", 4.0)
    report.line("fit, per row", each["fit"], "us", 3.0)
    report.line("its memory", done["memory"], "MB")


def census(report: Report, folder: Path, rows: int) -> None:
    """Measure the table of the size of Census."""
    table, schema = folder / f"census{rows}.csv", folder / "census.toml"
    if not table.exists():
        census_table(table, rows)
    census_schema(schema)
    found = trained(table, schema, folder)
    report.line(f"{rows:,} x 41 CSV of Census size", found["seconds"], "s", 5.0)
    report.line("its memory", found["memory"], "MB", 500.0)


def adult(report: Report, folder: Path) -> None:
    """Measure ``noisette train`` on Adult, if it is there."""
    data = Path(os.environ.get("NOISETTE_DATA", ".")) / "adult" / "adult.data.gz"
    schema = Path(__file__).parent.parent / "examples" / "adult.toml"
    if data.exists():
        given = ("--no-header", "--target", "income", "--schema", str(schema), "--epsilon", "1")
        out = ("--out", str(folder / "model"), "--force")
        report.line("train Adult", noisette("train", str(data), *given, *out)["seconds"], "s", 1.5)


def main() -> None:
    """Generate the tables and print all figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "tables")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    report = Report(goals=not asked.quick)
    part = 10 if asked.quick else 1
    for option in ("--version", "--help"):
        report.line(f"noisette {option}", noisette(option)["seconds"], "s", 0.2)
    adult(report, asked.folder)
    one = numbers(report, asked.folder, 1_000_000 // part)
    stages(report, asked.folder, 1_000_000 // part)
    census(report, asked.folder, CENSUS_ROWS // part)
    if asked.large:
        five = numbers(report, asked.folder, 5_000_000 // part)
        report.line("five times the rows", five["seconds"] / one["seconds"], "times", 5.5)


if __name__ == "__main__":
    main()
