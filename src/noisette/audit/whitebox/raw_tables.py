"""The audit of a model of raw tables, on invented tables of the columns that its schema names.

No row that anybody trained on is used. What the schema learnt is opened again, so that all steps
run: quantiles, levels, counts, weights.
"""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from noisette.audit.findings import Finding
from noisette.audit.hostile import CONTAINERS, NotHeld, RawTable, installed, invented, neighbours
from noisette.audit.two_worlds import two_worlds
from noisette.audit.whitebox.from_outside import Maker, Projection, Shown, direction_of
from noisette.audit.whitebox.outcome import Tally
from noisette.audit.whitebox.replay import compare
from noisette.core.adjacency import Adjacency
from noisette.errors import InvalidParameter
from noisette.tables import Schema
from noisette.tables.frame import Frame

_SIZES = (300, 3_000, 30_000)
_LEARNT = ("categories", "center", "high", "knots", "low", "reference", "spikes", "width")
_WANTED = ("the other end", "one identifier missing", "a single row")
_BY_COLUMN = ("one cell empty", "one cell of another type")


def check_tables(
    estimator: Any, *, claim: tuple[float, float], runs: int, confidence: float, n_jobs: int = 1,
    progress: bool = False, containers: tuple[str, ...] | None = None,
) -> tuple[Finding, ...]:  # fmt: skip
    """Return what replay and two worlds find out about a model of raw tables."""
    adjacency = Adjacency.of(estimator.adjacency)
    if adjacency is Adjacency.ZERO_OUT:
        why = "No table says that a record is blank, so there is no neighbour under zero-out."
        return (Finding("replay of raw tables", claim, None, 1.0, "not applicable", 0, why),)
    node, table = _opened(estimator.schema), None
    for rows in _SIZES:
        table = _table(node, rows)
        model = Maker(_made(estimator, node, rows), 1)
        try:
            model().fit(table.whole(_target(node), node.get("person")), (None, {}))
            break
        except InvalidParameter:
            if rows == _SIZES[-1]:
                raise
    assert table is not None
    bare = _made(estimator, node, len(table))
    first, others = neighbours(table, adjacency, single=node.get("person_missing") == "single")
    replayed = _replayed(bare, node, first, others, claim, containers or tuple(installed()))
    sides: list[Any] = [
        (world.whole(_target(node), node.get("person")), (None, {}))
        for world in (first, others["the other end"])
    ]
    make, probes = Maker(bare, None if n_jobs != 1 else 10_007), np.empty(0)
    direction = direction_of(make, sides, probes)
    assert direction is not None
    result = two_worlds(
        make, sides[0], sides[1], claim=claim, statistic=Projection(probes, direction), runs=runs,
        confidence=confidence, output=Shown(probes), n_jobs=n_jobs, progress=progress,
        name="two worlds: a record at the other end",
    )  # fmt: skip
    return (replayed, *result.findings)


def _opened(schema: Any) -> dict[str, Any]:
    """Return the stated facts of a schema; what was learnt is to be learnt again."""
    source = schema.source if isinstance(schema, Schema) else schema
    if not isinstance(source, Mapping) or "columns" not in source:
        raise InvalidParameter("the model's schema does not name its target; it cannot be audited.")
    node = copy.deepcopy(dict(source))
    learnt = node.pop("learnt", [])
    for name in learnt:
        if name in node["columns"]:
            facts = node["columns"][name]
            node["columns"][name] = {k: v for k, v in facts.items() if k not in _LEARNT}
    node.pop("row_norm", None)
    return node


def _target(node: Mapping[str, Any]) -> str:
    target = node["target"]
    return str(target["column"] if isinstance(target, Mapping) else target)


def _table(node: dict[str, Any], rows: int) -> RawTable:
    """Return an invented table with the columns of a schema."""
    schema = Schema.from_dict(node, learn=True)
    bounds = schema.target_bounds
    labels: Any = list(schema.classes)
    if bounds is not None:
        low, high = bounds
        labels = (0.0 if low is None else float(low), 1.0 if high is None else float(high))
    table = invented(node["columns"], rows, labels, persons=schema.persons is not None)
    skipped = {c: [""] * rows for c, f in node["columns"].items() if f["kind"] == "ignore"}
    skipped.pop(str(node.get("person")), None)
    return replace(table, columns=table.columns | skipped)


def _made(estimator: Any, node: dict[str, Any], rows: int) -> Any:
    from sklearn.base import clone

    model = clone(estimator).set_params(schema=node, ledger=None, random_state=None)
    if estimator.adjacency == Adjacency.ADD_REMOVE.value:
        model.set_params(population=2 * rows)
    return model


def _replayed(
    bare: Any, node: dict[str, Any], first: RawTable, others: dict[str, RawTable],
    claim: tuple[float, float], containers: tuple[str, ...],
) -> Finding:  # fmt: skip
    """Replay one changed cell, or one identifier, in every container."""
    from sklearn.base import clone

    out = Tally("replay of raw tables", claim)
    wanted = {k: v for k, v in others.items() if k in _WANTED or k.startswith(_BY_COLUMN)}
    compared = 0
    for container in containers:

        def on(world: RawTable, container: str = container) -> Any:
            table = CONTAINERS[container][1](world.whole(_target(node), node.get("person")))
            if container == "parquet":
                table = Frame.read(table, Schema.from_dict(node, learn=True), target=True)
            return lambda tape: clone(bare).set_params(random_state=tape).fit(table)

        runs = {}
        for name, world in wanted.items():
            try:
                runs[f"{container}, {name}"] = on(world)
            except NotHeld:
                continue
        compared += compare(on(first), runs, Adjacency.of(bare.adjacency), out)
    out.note = (
        f"{compared} neighbours in {len(containers)} kinds of tables, one cell or identifier "
        f"changed: the largest move of a released value is {out.worst:.3f} of its declared bound, "
        f"and everything else is identical; {len(out.refused) + len(out.unstated)} were refused"
    )
    return out.finding()
