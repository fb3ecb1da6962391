"""Every error that can follow from rows is in one register, and statements print it."""

import ast
import warnings
from pathlib import Path

import numpy as np
import pytest

from noisette import (
    HuberRegressor,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    SGDClassifier,
    SGDRegressor,
    TableClassifier,
    TableRegressor,
    evaluate,
)
from noisette.core.refusals import REFUSALS
from noisette.errors import InvalidData
from noisette.tables.pipeline import (
    PrivateBounds,
    PrivateCategories,
    PrivateProjection,
    PrivateSelector,
)

SOURCE = Path(__file__).parents[2] / "src" / "noisette"
# Rooms whose InvalidData speaks of files, models or a reader's own arrays.
OUTSIDE = (
    "audit/",
    "tables/datasets/",
    "app/",
    "models/files",
    "core/bounded",
    "tables/spill",
    "tuning/choosing",
)
# Shapes, types and names of what is handed in: they follow from the call, not from an entry of it.
OF_THE_CALL = {
    "core/cells": "given taken",
    "fitting/clipping": "row_norms",
    "models/inputs": "rows_and_targets _counted _part_rows matrix weights",
    "models/linear_model": "LinearClassifier._labelled",
    "models/sgd_stream": "StreamReader._chunk",
    "nn/batches": "check_ranks members_of numbered part_of.take unit_of",
    "nn/classifier": "PrivateClassifier._levels PrivateClassifier.decision_function",
    "nn/starting": "check_ids",
    "nn/gradients/clipped": "BatchRecords.__init__ BatchRecords._take BatchRecords.checked "
    "ClippedGradients.add",
    "fitting/units": "Persons.check Persons.one_each Unit.check_count",
    "fitting/algorithms/public": "PublicBudget.check_count",
    "tables/pipeline/evaluation": "_as_many",
    "tables/pipeline/transformer": "NumbersStep.check",
    "tables/pipeline/table_rows": "PartedFrame.of PartedFrame.targets "
    "WholeFrame.targets _chosen_rows",
    "tables/pipeline/shares": "LearnShares.run Spread.checked_sums WalkedSpread.checked_sums",
    "fitting/partitions/collections": "_as_vector _pieces beside",
    "fitting/partitions/lazily": "_scored",
    "scores/layouts": "MulticlassLayout.codes second_of",
    "core/summaries": "part_counts",
    "tables/encoding": "check_columns names_of refuse_doubled",
    "tables/folders": "read_model",
    "tables/frame": "Frame.persons columns_of",
    "tables/reading": "_instead _open csv_header open_parquet",
    "tables/template": "template",
    "fitting/algorithms/levels": "Levels.__post_init__",
    "fitting/algorithms/records": "check_unit",
    "fitting/algorithms/streaming": "StreamedPass.check chunks_of",
}


def raised() -> set[str]:
    """Where InvalidData is raised, as module:function."""
    found: set[str] = set()

    def walk(node: ast.AST, place: str, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = name
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                inner = f"{name}.{child.name}" if name else child.name
            called = child.exc.func if isinstance(child, ast.Raise) and isinstance(
                child.exc, ast.Call) else None  # fmt: skip
            if isinstance(child, ast.keyword) and child.arg == "kind":  # of `_validate.refuse`
                called = child.value
            if isinstance(called, ast.Name) and called.id == "InvalidData":
                found.add(f"{place}:{inner}")
            walk(child, place, inner)

    for path in SOURCE.rglob("*.py"):
        place = path.relative_to(SOURCE).with_suffix("").as_posix()
        if not place.startswith(OUTSIDE):
            walk(ast.parse(path.read_text(encoding="utf-8")), place, "")
    return found


def test_every_refusal_is_registered():
    listed = {place for refusal in REFUSALS.values() for place in refusal.raised}
    listed -= set(REFUSALS["canary"].raised)  # of the code, by invented records
    listed |= {f"{room}:{name}" for room, names in OF_THE_CALL.items() for name in names.split()}
    assert raised() == listed


ROWS, LABELS = np.tile([[0.1, 0.2], [0.3, 0.1]], (40, 1)), [0, 1] * 40
NUMBERS = {"target_bounds": (0.0, 1.0), "norm_bound": 1.0}
CLASSES = {"classes": [0, 1], "norm_bound": 1.0}
TABLE = {"age": [30.0, 50.0] * 40}


def nan(X, y):
    X = np.array(X)
    X[3, 1] = np.nan
    return X, y


def infinite(X, y):
    X = np.array(X)
    X[3, 1] = np.inf
    return X, y


def text(X, y):
    X = np.array(X, dtype=object)
    X[3, 1] = "ten"
    return X, y


def dates(X, y):
    return {"age": np.array(["2020-01-01"] * 80, dtype="datetime64[D]")}, y


def other(X, y):
    return X, [2, *y[1:]]


def alone(X, y):
    return X, [1] * len(y)


def endless(X, y):
    return X, [float("inf"), *y[1:]]


HOSTILE = [
    (LogisticRegression(**CLASSES), "entries", nan),
    (LogisticRegression(**CLASSES, missing="zero"), "infinite", infinite),
    (LogisticRegression(**CLASSES), "labels", other),
    (LogisticRegression(norm_bound=1.0), "label set", alone),
    (LinearSVC(**CLASSES), "labels", other),
    (SGDClassifier(1.0, 1e-3, **CLASSES), "entries", nan),
    (LinearRegression(1.0, 1e-3, **NUMBERS), "target", endless),
    (HuberRegressor(1.0, 1e-3, **NUMBERS), "target", endless),
    (SGDRegressor(1.0, 1e-3, **NUMBERS), "entries", nan),
    (PrivateBounds(5.0, bounds=(0.0, 1.0)), "not numbers", text),
    (PrivateProjection(1, 5.0, 1e-3, norm_bound=1.0), "entries", nan),
    (PrivateSelector(1, epsilon=5.0, norm_bound=1.0, classes=[0, 1]), "labels", other),
    (TableClassifier(5.0, 1e-3, schema={"age": "numeric"}, classes=[0, 1]), "labels", other),
    (TableClassifier(5.0, 1e-3, schema={"age": "numeric"}), "label set", alone),
    (TableClassifier(5.0, 1e-3, schema={"age": "numeric"}, classes=[0, 1]), "columns", dates),
    (TableRegressor(5.0, 1e-3, schema={"age": "numeric"}, target_bounds=(0, 1)), "target", endless),
]  # fmt: skip


@pytest.mark.parametrize(("model", "refusal", "spoilt"), HOSTILE)
def test_a_statement_has_the_refusals_of_its_fit(model, refusal, spoilt):
    X = TABLE if type(model).__name__.startswith("Table") else ROWS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        said = model.fit(X, LABELS).privacy_.statement()
        with pytest.raises(InvalidData):
            model.fit(*spoilt(X, LABELS))
    assert REFUSALS[refusal].words in said
    assert said.count("The program refuses") == 1


def test_weights_and_persons_bring_their_refusals():
    model = LogisticRegression(**CLASSES)
    plain = model.fit(ROWS, LABELS).privacy_.statement()
    said = model.fit(
        ROWS, LABELS, sample_weight=np.ones(80), persons=list(range(80))
    ).privacy_.statement()
    for each in ("weights", "identifiers"):
        assert REFUSALS[each].words not in plain
        assert REFUSALS[each].words in said
    with pytest.raises(InvalidData):
        model.fit(ROWS, LABELS, persons=[None, *range(79)])
    with pytest.raises(InvalidData):
        model.fit(ROWS, LABELS, sample_weight=[2.0] * 80)
    scored = evaluate(model, ROWS, LABELS, epsilon=1.0).privacy_.statement()
    assert REFUSALS["truth"].words in scored


def test_levels_are_learnt_from_any_cell_that_says_which_it_is():
    model = PrivateCategories(5.0, 1e-3)
    said = model.fit([["a"], ["b"], [True], [None], [7]] * 40).privacy_.statement()
    assert REFUSALS["columns"].words in said
    with pytest.raises(InvalidData, match="several whole numbers"):
        model.fit([["a"], [2.0**53]] * 40)
