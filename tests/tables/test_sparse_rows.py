"""Wide categories end to end: memory and time of sparse rows, and models that take them."""

import csv
import json
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from noisette.models import LinearSVC, LogisticRegression, SGDClassifier
from noisette.tables import Schema, encode

MEASURE = """
import json, sys
from pathlib import Path
from noisette.models import LogisticRegression
from noisette.tables import encode, read_schema
schema = read_schema(Path(sys.argv[2]))
rows = encode(Path(sys.argv[1]), schema, target=True)
LogisticRegression(epsilon=1.0, delta=1e-6, classes=list(schema.classes), norm_bound=1.0).fit(
    rows.X, rows.y
)
# Not getrusage: a child inherits the largest size that its parent ever had.
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
peak = int(status["VmHWM"].split()[0]) * 1024
print(json.dumps([peak, *rows.X.shape]))
"""


def facts(levels):
    column = {"kind": "categorical", "categories": [f"c{j}" for j in range(levels)]}
    return {
        "target": "y",
        "classes": ["no", "yes"],
        "unit": "one row is one person",
        "columns": {"a": column, "b": column, "c": column},
    }


def write(path, n, levels, rng):
    codes = (rng.pareto(1.0, (n, 3)) * 20).astype(int) % levels
    labels = np.where(rng.random(n) < 0.5 + 0.4 * np.sign(codes[:, 0] - 20), "yes", "no")
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["a", "b", "c", "y"])
        out.writerows([*(f"c{j}" for j in row), y] for row, y in zip(codes, labels, strict=True))


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read as on Linux")
def test_three_columns_of_1380_codes_take_little_memory(tmp_path, rng):
    """Dense rows would be 81,257 x 4,143 x 8 bytes = 2.7 GB, and training took twice that."""
    from noisette.tables import toml

    table, schema = tmp_path / "t.csv", tmp_path / "s.toml"
    write(table, 81_257, 1380, rng)
    schema.write_text(toml.dumps(facts(1380)))
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, table, schema], capture_output=True, text=True, check=True
    )
    peak, n, d = json.loads(done.stdout)
    assert (n, d) == (81_257, 4143)
    assert peak < 0.6e9


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(epsilon=8.0, delta=1e-6, norm_bound=1.0),
        LogisticRegression(epsilon=8.0, mechanism="output", norm_bound=1.0),
        LinearSVC(epsilon=8.0, norm_bound=1.0),
        SGDClassifier(epsilon=8.0, delta=1e-6, norm_bound=1.0),
    ],
    ids=repr,
)
def test_models_take_them(tmp_path, rng, model):
    write(tmp_path / "t.csv", 2000, 150, rng)
    rows = encode(tmp_path / "t.csv", Schema.from_dict(facts(150)), target=True)
    assert sparse.issparse(rows.X)
    model.set_params(classes=["no", "yes"], norm_bound=1.0, random_state=0)
    here = model.fit(rows.X, rows.y).decision_function(rows.X)
    dense = model.fit(rows.X.toarray(), rows.y).decision_function(rows.X.toarray())
    np.testing.assert_allclose(here, dense, atol=1e-6)
