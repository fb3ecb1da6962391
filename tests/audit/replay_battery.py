"""Everything that releases something, for the replay at the door: add a new one to `CASES`.

A case is a name, the kind of its table, and a function that runs it on one table under a source of
randomness and returns all that leaves: the fitted model, its file, its guarantee, its ledger.
"""

import json
import re
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from hostile_cells import HostileTable, hostile_neighbours
from sklearn.linear_model import LogisticRegression as Plain

from noisette import (
    AdditiveClassifier,
    AdditiveRegressor,
    HuberRegressor,
    Ledger,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    Persons,
    PoissonRegressor,
    PrivateSearch,
    SGDClassifier,
    SGDRegressor,
    TableClassifier,
    TableRegressor,
    evaluate,
    save,
)
from noisette.audit.findings import Tally
from noisette.audit.whitebox.replay import compare
from noisette.core.adjacency import Adjacency
from noisette.errors import InvalidParameter, Unproven
from noisette.tables import pipeline
from noisette.tables.pipeline import recipe, table_estimator
from noisette.tables.pipeline.table_run import TableSample

RELATIONS = tuple(map(str, Adjacency))
UNITS = ("record", "person")
ROWS, POPULATION, EPSILON, DELTA = 80, 300, 20.0, 1e-4

COLUMNS: dict[str, Any] = {
    "age": "numeric",
    "gain": {"kind": "numeric", "low": 0, "high": 100},
    "ward": "categorical",
    "sex": {"kind": "categorical", "categories": ["f", "m"]},
    "code": {"kind": "hashed", "buckets": 4},
    "day": {"kind": "date", "low": "2000-01-01", "high": "2021-01-01"},
}
UNIT_ROWS: dict[str, Any] = {
    name: {"kind": "numeric", "low": -1.0, "high": 1.0} for name in ("a", "b", "c")
}
WORDS: dict[str, Any] = {"ward": "categorical", "kind": "categorical"}
TABLES: dict[str, tuple[dict[str, Any], Any]] = {
    "rows": (UNIT_ROWS, [0, 1]),
    "rows of three": (UNIT_ROWS, [0, 1, 2]),
    "numbers": (UNIT_ROWS, (-1.0, 2.0)),
    "alone": (UNIT_ROWS, (-1.0, 2.0)),
    "words": (WORDS, [0, 1]),
    "table": (COLUMNS, [0, 1]),
    "table of numbers": (COLUMNS, (0.0, 1.0)),
}


@dataclass(frozen=True)
class Setting:
    """What a run is told beside its table."""

    adjacency: str
    delta: float
    unit: str

    @property
    def budget(self) -> dict[str, Any]:
        crowd = {"population": POPULATION} if self.adjacency == "add-remove" else {}
        return {"adjacency": self.adjacency, "delta": self.delta, "epsilon": EPSILON, **crowd}


Runner = Callable[[HostileTable, Setting, Any], Any]


@dataclass(frozen=True)
class Case:
    name: str
    table: str
    run: Runner
    deltas: tuple[float, ...] = (0.0, DELTA)
    relations: tuple[str, ...] = RELATIONS
    units: tuple[str, ...] = UNITS
    slow: bool = False

    def settings(self) -> list[Setting]:
        return [Setting(a, d, u) for a in self.relations for d in self.deltas for u in self.units]


CASES: dict[str, Case] = {}


def case(name: str, table: str, run: Runner, **facts: Any) -> None:
    CASES[name] = Case(name, table, run, **facts)


def told(table: HostileTable, *, cap: int | None = None) -> dict[str, Any]:
    """Return what ``fit`` is told of blank records and of whose rows they are."""
    options: dict[str, Any] = {}
    if table.weights is not None:
        options["sample_weight"] = table.weights
    if table.by_person:
        options["persons"] = Persons.of(table.owners, missing="single", max_rows=cap)
    return options


def everything(model: Any, **more: Any) -> dict[str, Any]:
    """Return a fitted model with its file, as far as it can be saved, and its guarantee."""
    found = {"model": model, "guarantee": model.privacy_.to_json(), **more}
    path = Path(tempfile.mkdtemp()) / "model.noisette"
    try:
        save(model, path)
    except (InvalidParameter, Unproven):
        return found
    with zipfile.ZipFile(path) as stored:
        found["file"] = [(name, stored.read(name)) for name in stored.namelist()]
    return found


def fitted(make: Callable[..., Any], **facts: Any) -> Runner:
    """Return a runner of an estimator on rows of numbers."""
    cap = facts.pop("cap", None)

    def run(table: HostileTable, setting: Setting, tape: Any) -> Any:
        path = Path(tempfile.mkdtemp()) / "ledger.json"
        budget = setting.budget
        ledger = Ledger.open(
            path, epsilon=EPSILON, delta=setting.delta, adjacency=setting.adjacency, experiment=True
        )
        model = make(**budget | facts, random_state=tape, ledger=ledger)
        model.fit(table.array(), table.labels, **told(table, cap=cap))
        # but for the day, the ledger's own random name and the digests that follow from both
        changing = r"\d{4}-\d\d-\d\dT?[\d:.+Z]*|\b[0-9a-f]{32,}\b"
        return everything(model, ledger=re.sub(changing, "", path.read_text()))

    return run


def on_table(make: Callable[..., Any], **facts: Any) -> Runner:
    """Return a runner of a model of raw tables, in lists of plain values."""

    def run(table: HostileTable, setting: Setting, tape: Any) -> Any:
        persons = told(table, cap=20).get("persons")
        with table_rules(table.weights):
            model = make(**setting.budget, schema=COLUMNS, random_state=tape, **facts)
            model.fit(table.columns, table.labels, persons=persons)
        return everything(model)

    return run


@contextmanager
def table_rules(weights: Any) -> Any:
    """Blank records of a table, and let few rows learn pairs."""

    class Weighed(TableSample):
        def __init__(self, frame: Any, labels: Any, unit: Any, blank: Any = weights) -> None:
            super().__init__(frame, labels, unit)
            self.blank = blank
            if blank is not None:
                self.weights = blank * (1.0 if self.weights is None else self.weights)

        def part(self, chosen: Any) -> TableSample:
            part = super().part(chosen)
            rows = chosen[self.unit.index]
            few = None if self.blank is None else self.blank[rows]
            return Weighed(part.table, part.labels, part.unit, few)

    with ExitStack() as stack:
        for owner, name, value in (
            (table_estimator, "TableSample", Weighed),
            (recipe, "_PAIRS_FROM", 1), (recipe, "_EACH_PAIR", 1),
        ):  # fmt: skip
            stack.enter_context(mock.patch.object(owner, name, value))
        yield


@cache
def scored() -> Plain:
    """Return a model that was released before."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (60, 3))
    return Plain().fit(X, (X[:, 0] > 0).astype(int))


def evaluated(table: HostileTable, setting: Setting, tape: Any) -> Any:
    return evaluate(
        scored(), table.array(), table.labels, **setting.budget, random_state=tape, **told(table)
    )


def searched(**facts: Any) -> Runner:
    def run(table: HostileTable, setting: Setting, tape: Any) -> Any:
        inner = facts.get("estimator") or LogisticRegression(norm_bound=1.0, classes=[0, 1])
        grid = facts.get("grid", {"regularization": [1e-2, 1e-1]})
        more = {name: facts[name] for name in facts if name not in ("estimator", "grid")}
        search = PrivateSearch(
            inner, grid, **setting.budget, runs="logarithmic", mean=3.0, random_state=tape, **more
        )
        return everything(search.fit(table.array(), table.labels))

    return run


def levelled(sampling: str) -> Runner:
    """Persons with an epsilon of their own, which is public."""

    def run(table: HostileTable, setting: Setting, tape: Any) -> Any:
        model = SGDClassifier(
            **setting.budget, **TWO, loss="hinge", sampling=sampling, random_state=tape
        )
        own = np.where(np.arange(len(table)) % 2, EPSILON, EPSILON / 2.0)
        return everything(model.fit(table.array(), table.labels, sample_epsilon=own))

    return run


# --- rows of numbers -----------------------------------------------------------------------------

NORM: dict[str, Any] = {"norm_bound": 1.0}
KNOWN: dict[str, Any] = {"relations": ("replace-one", "zero-out")}  # batches in a fixed order
TWO: dict[str, Any] = NORM | {"classes": [0, 1]}
THREE: dict[str, Any] = NORM | {"classes": [0, 1, 2]}
LIMITS: dict[str, Any] = NORM | {"target_bounds": (-1.0, 2.0)}
WITH: dict[str, Any] = {"deltas": (DELTA,)}
PURE: dict[str, Any] = {"deltas": (0.0,)}
LATER: dict[str, Any] = {"slow": True}
BATCHES: dict[str, Any] = {"batch_size": 20}

case("logistic, objective", "rows", fitted(LogisticRegression, mechanism="objective", **TWO))
case("logistic, output", "rows", fitted(LogisticRegression, mechanism="output", **TWO))
case("logistic, three classes", "rows of three", fitted(LogisticRegression, **THREE))
case("logistic, one against the rest", "rows of three",
     fitted(LogisticRegression, multi_class="ovr", **THREE), **LATER)  # fmt: skip
case("logistic, whitened", "rows", fitted(LogisticRegression, whiten=0.1, **TWO), **WITH)
case("logistic, balanced", "rows",
     fitted(LogisticRegression, class_weight="balanced", **TWO))  # fmt: skip
case("svc, hinge", "rows", fitted(LinearSVC, loss="hinge", **TWO), **LATER)
case("svc, huber", "rows", fitted(LinearSVC, loss="huber", **TWO), **LATER)
case("sgd, single pass", "rows", fitted(SGDClassifier, **TWO), **PURE, **KNOWN)
OWN_LEVELS: dict[str, Any] = PURE | {"relations": ("replace-one",), "units": ("record",)}
case("sgd, levels", "rows", levelled("auto"), **OWN_LEVELS)
case("sgd, groups", "rows", levelled("levels"), **OWN_LEVELS)
case("sgd, descent", "rows", fitted(SGDClassifier, **TWO), **WITH)
case("sgd, poisson", "rows", fitted(SGDClassifier, sampling="poisson", **BATCHES, **TWO), **WITH)
case("sgd, shuffle", "rows",
     fitted(SGDClassifier, sampling="shuffle", epochs=2, **BATCHES, **TWO),
     **WITH, **KNOWN, **LATER)  # fmt: skip
case("sgd, clipped", "rows",
     fitted(SGDClassifier, sampling="cyclic", clip_norm=0.5, norm_bound=None, classes=[0, 1],
            **BATCHES), **WITH, **KNOWN)  # fmt: skip
case("linear regression", "numbers", fitted(LinearRegression, **LIMITS))
case("linear regression, less epsilon", "numbers", fitted(LinearRegression, epsilon=2.0, **LIMITS))
case("huber, objective", "numbers", fitted(HuberRegressor, mechanism="objective", **LIMITS))
case("huber, output", "numbers", fitted(HuberRegressor, mechanism="output", **LIMITS), **LATER)
case("huber, output, alone", "alone",
     fitted(HuberRegressor, mechanism="output", regularization=1.0, fit_intercept=False,
            **LIMITS))  # fmt: skip
case("huber, learnt target", "numbers",
     fitted(HuberRegressor, target_bounds="learn", **NORM),
     units=("record",))  # fmt: skip
case("sgd regressor", "numbers", fitted(SGDRegressor, **LIMITS), **KNOWN)
case("poisson regressor", "numbers",
     fitted(PoissonRegressor, most_count=2, **NORM), **KNOWN, **LATER)  # fmt: skip

# --- steps ---------------------------------------------------------------------------------------

case("bounds", "rows", fitted(pipeline.PrivateBounds))
case("bounds within", "rows", fitted(pipeline.PrivateBounds, bounds=(-2.0, 2.0)), **LATER)
case("knots", "rows", fitted(pipeline.PrivateKnots))
case("categories", "words", fitted(pipeline.PrivateCategories, cap=20), **WITH)
case("selector", "rows",
     fitted(pipeline.PrivateSelector, k=2, classes=[0, 1], norm_bound=1.0), **WITH)  # fmt: skip
case("projection", "rows", fitted(pipeline.PrivateProjection, components=2), **WITH)

# --- models of raw tables, scores, searches ------------------------------------------------------

PAIRS = [("age", "ward"), ("gain", "day")]
SCALED = {"target_bounds": (0.0, 1.0)}
BOTH: dict[str, Any] = {"classes": [0, 1]}
case("table classifier", "table", on_table(TableClassifier, **BOTH))
case("table classifier, tested", "table", on_table(TableClassifier, test_share=0.3, **BOTH))
STEPS: dict[str, Any] = BOTH | {"model": "sgd"}
case("table, output", "table", on_table(TableClassifier, mechanism="output", **BOTH))
case("table, hinge", "table",
     on_table(TableClassifier, model="svm", loss="hinge", **BOTH), **LATER)  # fmt: skip
case("table, single pass", "table",
     on_table(TableClassifier, sampling="disjoint", **STEPS), **KNOWN)  # fmt: skip
case("table, descent", "table", on_table(TableClassifier, **STEPS), **WITH)
case("table, poisson", "table",
     on_table(TableClassifier, sampling="poisson", class_weight="balanced", **STEPS),
     **WITH, **LATER)  # fmt: skip
case("table, descent, tested", "table",
     on_table(TableClassifier, class_weight={0: 0.0, 1: 3.0}, test_share=0.3, **STEPS),
     **WITH, **LATER)  # fmt: skip
case("table, output, tested", "table",
     on_table(TableClassifier, mechanism="output", class_weight="balanced", test_share=0.3, **BOTH),
     **LATER)  # fmt: skip
case("table, cyclic, tested", "table",
     on_table(TableClassifier, sampling="cyclic", test_share=0.3, **STEPS), **WITH, **KNOWN,
     **LATER)  # fmt: skip
case("table regressor", "table of numbers", on_table(TableRegressor, **SCALED))
case("table regressor, tested", "table of numbers",
     on_table(TableRegressor, test_share=0.3, **SCALED), **LATER)  # fmt: skip
case("additive classifier", "table",
     on_table(AdditiveClassifier, classes=[0, 1], pairs=PAIRS), **WITH, **LATER)  # fmt: skip
case("additive regressor", "table of numbers",
     on_table(AdditiveRegressor, pairs=PAIRS, **SCALED), **WITH, **LATER)  # fmt: skip
case("evaluate", "rows", evaluated)
ALONE: dict[str, Any] = {"relations": ("replace-one", "add-remove"), "units": ("record",)}
case("search", "rows", searched(), **ALONE, **PURE)
case("search with a delta", "rows", searched(), **ALONE, **WITH, **LATER)
case("search by area", "rows", searched(scoring="auc"), **ALONE, **LATER)


# --- networks ------------------------------------------------------------------------------------

NETWORK: dict[str, Any] = {"relations": ("replace-one", "add-remove"), **WITH}


def network(**facts: Any) -> Runner:
    def run(table: HostileTable, setting: Setting, tape: Any) -> Any:
        import torch

        from noisette.nn import PrivateClassifier

        def module() -> Any:
            layer = torch.nn.Linear(3, 2)
            torch.nn.init.constant_(layer.weight, 0.5)
            torch.nn.init.constant_(layer.bias, 0.0)
            return layer

        model = PrivateClassifier(
            module, epochs=1, classes=[0, 1], random_state=tape,
            **setting.budget, **({"batch_size": 40} | facts),
        )  # fmt: skip
        model.fit(np.asarray(table.array(), dtype=np.float32), table.labels, **told(table))
        return {"weights": [p.detach().numpy() for p in model.module_.parameters()],
                "guarantee": model.privacy_.to_json()}  # fmt: skip

    return run


case("network", "rows", network(), **NETWORK)
case("network, adaptive", "rows", network(clipping="adaptive"), **NETWORK)
case("network, banded", "rows", network(sampling="cyclic", band=2, batch_size=20),
     **WITH, relations=("replace-one",))  # fmt: skip


# --- running -------------------------------------------------------------------------------------


@cache
def made(name: str, unit: str) -> HostileTable:
    kinds, labels = TABLES[name]
    more = ("1", None, True, 7) if isinstance(labels, list) else (np.nan, np.inf, 1e300, "1", None)
    table = HostileTable.invented(kinds, ROWS, labels, persons=unit == "person")
    if name == "alone":  # the record that changes is the only one that pulls at any weight
        nothing = dict.fromkeys(kinds, [0.0] * ROWS)
        table = replace(table, columns=nothing, ends=dict.fromkeys(kinds, (-1.0, 1.0)))
    return replace(table, more_labels=more)


def replayed(
    each: Case, setting: Setting, names: Callable[[str], bool] = lambda name: True
) -> Tally:
    """Replay the neighbours whose names are wanted, and return what was found."""
    adjacency = Adjacency.of(setting.adjacency)
    first, others = hostile_neighbours(made(each.table, setting.unit), adjacency)
    out = Tally(each.name, (EPSILON, setting.delta))

    def on(table: HostileTable) -> Callable[[Any], Any]:
        return lambda tape: each.run(table, setting, tape)

    compare(on(first), {k: on(v) for k, v in others.items() if names(k)}, adjacency, out)
    return out


def shown(out: Tally) -> str:
    return json.dumps({"faults": out.faults, "refused": out.refused}, indent=1)
