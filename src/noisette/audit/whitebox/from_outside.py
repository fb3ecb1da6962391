"""The black-box part of the battery: `two_worlds` on canaries, with a direction from a pilot.

Only ``fit`` and what a fitted model shows are used: ``coef_`` and ``intercept_``, else
``predict_proba`` or ``decision_function`` at probe rows. Some pilot fits in each world choose the
direction in which the worlds differ most; they are not used again. The error rate is split over the
canaries.
"""

import contextlib
import copy
import warnings
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from noisette._typing import Floats
from noisette.audit.canaries import CANARIES
from noisette.audit.findings import Finding, Tally
from noisette.audit.hostile import CONTAINERS, NotHeld, RawTable, installed, invented, neighbours
from noisette.audit.two_worlds import two_worlds
from noisette.audit.whitebox.replay import compare
from noisette.audit.whitebox.subject import AuditedEstimator
from noisette.audit.worlds import fitted, released
from noisette.core.adjacency import Adjacency
from noisette.errors import InvalidParameter, PrivacyWarning, Unproven, WeakModelWarning
from noisette.tables import Schema
from noisette.tables.frame import Frame

FIRST_LOOK = ("saturated push",)
"""Canaries for estimators that the white-box checks have already seen from inside."""
WHOLE_PERSONS = ("saturated push", "orthogonal")
"""The same for claims about persons: forty rows alone in their direction show in a single pass."""
STRANGERS = ("saturated push", "intercept only", "long row", "opposite row", "label flip")
"""Canaries for everybody else's."""
_MOST_ROWS = 300
_PILOT = 30


class Maker:
    """Makes fresh estimators, each with its own seed (None: the randomness that users get)."""

    def __init__(self, bare: Any, first_seed: int | None) -> None:
        self._bare, self._next = bare, first_seed

    def __call__(self) -> Any:
        """Return the next one, with nothing but ``fit``: it hides its seed."""
        from sklearn.base import clone

        model = clone(self._bare)
        if self._next is not None:
            self._next += 1
            model.set_params(random_state=self._next)
        return SimpleNamespace(fit=partial(_quietly, model))


def _quietly(model: Any, *data: Any, **options: Any) -> Any:
    """Fit a model; of hundreds of fits, some would warn of what noise did."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakModelWarning)
        warnings.simplefilter("ignore", PrivacyWarning)
        found = model.fit(*data, **options)
    return model if found is None else found


def _numbers(probes: Floats, model: Any) -> Floats | None:
    """Return what the model shows, as one vector; None if it shows nothing."""
    if hasattr(model, "coef_"):
        parts = [np.ravel(model.coef_), np.ravel(getattr(model, "intercept_", 0.0))]
        return np.concatenate([np.asarray(part, dtype=float) for part in parts])
    for name in ("decision_function", "predict_proba", "predict"):
        if hasattr(model, name):
            found = np.asarray(getattr(model, name)(probes))
            if found.dtype.kind not in "biuf":  # labels that are words: any fixed code will do
                found = np.array([zlib.crc32(str(label).encode()) for label in found.ravel()])
            return np.asarray(found, dtype=float).ravel()
    return None


def _shown(probes: Floats, model: Any) -> Any:
    """Return the released numbers of a linear model, else what it says of the probe rows."""
    found = released(model)
    return _numbers(probes, model) if found is None else found


def _along(probes: Floats, direction: Floats, model: Any) -> float:
    """Return the model's numbers along a direction; minus infinity where it shows other ones."""
    numbers = _numbers(probes, model)
    if numbers is None or numbers.shape != direction.shape:
        return -np.inf
    return float(numbers @ direction)


def from_outside(
    subject: AuditedEstimator, *, alpha: float, runs: int, n_jobs: int, progress: bool, long: bool
) -> list[Finding]:
    """Return the findings of `two_worlds` on the canaries for such an estimator."""
    few = WHOLE_PERSONS if subject.persons else FIRST_LOOK
    names = STRANGERS if long or not subject.ours else few
    room = subject.room()
    room = replace(room, most=_MOST_ROWS if room.most is None else min(room.most, _MOST_ROWS))
    seed = 10_007 * (subject.seed + 1) if subject.ours and n_jobs == 1 else None
    found: list[Finding] = []
    said = "" if subject.ours else f" The worlds are neighbours under {subject.adjacency}."
    for name in names:
        pair, make = CANARIES[name](room), Maker(subject.unseeded(), seed)
        attack, sides = f"two worlds: {name}", [tuple(pair.first), tuple(pair.second)]
        probes = np.stack([pair.first.X[-1], np.zeros(room.features)])
        told, why = None, "" if subject.ours else _refused(make, sides)
        try:
            told = None if why else _told_apart(
                make, sides, probes, subject.claim, runs, 1.0 - alpha / len(names), n_jobs,
                progress, attack,
            )  # fmt: skip
        except Unproven:  # ``fit`` cannot be told of a blank record, so there is no neighbour
            why = "No data set says that a record is blank."
        if told is None:
            nothing = "The fitted model shows no coef_ and predicts nothing that could be compared."
            told = (Finding(attack, subject.claim, None, 1.0, "not applicable", 0, why or nothing),)
        elif said:
            told = tuple(replace(each, detail=each.detail + said) for each in told)
        found += told
    return found


def _told_apart(
    make: Maker, sides: list[Any], probes: Floats, claim: tuple[float, float], runs: int,
    confidence: float, n_jobs: int, progress: bool, name: str,
) -> tuple[Finding, ...] | None:  # fmt: skip
    """Return what `two_worlds` finds along a pilot's direction; None if models show nothing."""
    direction = _direction(make, sides, probes)
    if direction is None:
        return None
    return two_worlds(
        make, sides[0], sides[1], claim=claim, statistic=partial(_along, probes, direction),
        runs=runs, confidence=confidence, output=partial(_shown, probes), n_jobs=n_jobs,
        progress=progress, name=name,
    ).findings  # fmt: skip


def _refused(make: Maker, sides: list[Any]) -> str:
    """Return why a stranger cannot be fitted on these worlds; nothing if it can."""
    for side, where in zip(sides, ("D", "D'"), strict=True):
        try:
            fitted(make(), side)
        except Exception as error:
            return (
                f"fit refuses {where} with {type(error).__name__}, so nothing was compared; a "
                "refusal that depends on one record shows it."
            )
    return ""


def _direction(make: Maker, sides: list[Any], probes: Floats) -> Floats | None:
    """Return the difference of the worlds' means over their variances, coordinate by coordinate.

    Fits that show another shape than the first are left out; None if there is nothing to see.
    """
    shown = [[_numbers(probes, fitted(make(), side)) for _ in range(_PILOT)] for side in sides]
    first = shown[0][0]
    if first is None or not first.size:
        return None
    worlds = [[e for e in each if e is not None and e.shape == first.shape] for each in shown]
    if not all(worlds):
        return np.ones(first.shape)  # the shape alone tells them apart
    gap = np.mean(worlds[0], axis=0) - np.mean(worlds[1], axis=0)
    spread = np.var(worlds[0], axis=0) + np.var(worlds[1], axis=0)
    return np.asarray(gap / (spread + 1e-12 * (1.0 + float(np.max(spread)))))


# --- raw tables ----------------------------------------------------------------------------------

_SIZES = (300, 3_000, 30_000)
_LEARNT = ("categories", "center", "high", "knots", "low", "reference", "spikes", "width")


def check_tables(
    estimator: Any, *, claim: tuple[float, float], runs: int, confidence: float, n_jobs: int = 1,
    progress: bool = False, containers: tuple[str, ...] | None = None,
) -> tuple[Finding, ...]:  # fmt: skip
    """Return what replay and two worlds find out about a model of raw tables."""
    from sklearn.base import clone

    adjacency = Adjacency.of(estimator.adjacency)
    if adjacency is Adjacency.ZERO_OUT:
        why = "No table says that a record is blank, so there is no neighbour under zero-out."
        return (Finding("replay of raw tables", claim, None, 1.0, "not applicable", 0, why),)
    node = _opened(estimator.schema)
    schema = Schema.from_dict(node, learn=True)

    def cells(world: RawTable) -> Any:
        return world.whole(schema.target, node.get("person"))

    for rows in _SIZES:
        table = _table(node, schema, rows)
        crowd = {"population": 2 * rows} if adjacency is Adjacency.ADD_REMOVE else {}
        bare = clone(estimator).set_params(schema=node, ledger=None, random_state=None, **crowd)
        try:
            fitted(Maker(bare, 1)(), (cells(table), None))
            break
        except InvalidParameter:
            if rows == _SIZES[-1]:
                raise
    first, others = neighbours(table, adjacency, single=node.get("person_missing") == "single")
    out = Tally("replay of raw tables", claim)
    _replay_tables(bare, schema, cells, first, others, containers or tuple(installed()), out)
    sides: list[Any] = [(cells(world), None) for world in (first, others["the other end"])]
    told = _told_apart(
        Maker(bare, None if n_jobs != 1 else 10_007), sides, np.empty(0), claim, runs, confidence,
        n_jobs, progress, "two worlds: a record at the other end",
    )  # fmt: skip
    return (out.finding(), *(told or ()))


def _opened(schema: Any) -> dict[str, Any]:
    """Return the stated facts of a schema; what was learnt is to be learnt again."""
    source = schema.source if isinstance(schema, Schema) else schema
    if not isinstance(source, Mapping) or "columns" not in source:
        raise InvalidParameter("the model's schema does not name its target; it cannot be audited.")
    node = copy.deepcopy(dict(source))
    for name in {*node.pop("learnt", [])} & {*node["columns"]}:
        node["columns"][name] = {k: v for k, v in node["columns"][name].items() if k not in _LEARNT}
    node.pop("row_norm", None)
    return node


def _table(node: dict[str, Any], schema: Schema, rows: int) -> RawTable:
    """Return an invented table with the columns of a schema."""
    labels: Any = list(schema.classes)
    if schema.target_bounds is not None:
        low, high = schema.target_bounds
        labels = (0.0 if low is None else float(low), 1.0 if high is None else float(high))
    table = invented(node["columns"], rows, labels, persons=schema.persons is not None)
    skipped = (c for c, f in node["columns"].items() if f["kind"] == "ignore")
    empty = {column: [""] * rows for column in skipped if column != node.get("person")}
    return replace(table, columns=table.columns | empty)


def _replay_tables(
    bare: Any, schema: Schema, cells: Callable[[RawTable], Any], first: RawTable,
    others: dict[str, RawTable], containers: tuple[str, ...], out: Tally,
) -> None:  # fmt: skip
    """Replay one changed cell, or one identifier, in every container."""
    from sklearn.base import clone

    compared = 0
    for container in containers:

        def on(world: RawTable, container: str = container) -> Any:
            table = CONTAINERS[container][1](cells(world))
            if container == "parquet":
                table = Frame.read(table, schema, target=True)
            return lambda tape: clone(bare).set_params(random_state=tape).fit(table)

        runs = {}
        for name, world in others.items():
            with contextlib.suppress(NotHeld):
                runs[f"{container}, {name}"] = on(world)
        compared += compare(on(first), runs, Adjacency.of(bare.adjacency), out)
    out.note = (
        f"{compared} neighbours in {len(containers)} kinds of tables, one cell or identifier "
        f"changed: the largest move of a released value is {out.worst:.3f} of its declared bound, "
        f"and everything else is identical; {len(out.refused) + len(out.unstated)} were refused"
    )
