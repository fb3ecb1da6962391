"""What a table's training will release and cost, before any data exist.

The public half is played through on a typical table (`typical_table`).
"""

from dataclasses import dataclass, replace

from noisette import _validate
from noisette.core import accounting
from noisette.fitting.losses import classifier_loss
from noisette.models.private import Forecast
from noisette.report.numbers import steps_of
from noisette.tables.pipeline.table_run import is_wide
from noisette.tables.pipeline.table_training import PreparedTable, TableTraining
from noisette.tables.pipeline.typical_table import TypicalTable

_SECONDS = 4e-9  # for an entry of the matrix in one pass, on one core of 2026
_PASSES = 60.0


@dataclass(frozen=True)
class ColumnForecast:
    """What becomes of one column, which gives about so many features.

    One by which nothing can be told apart is paid for in vain: it does not matter. `note` says what
    is bought for it and what is worth knowing, `used` that the schema does not leave it out.
    """

    name: str
    kind: str
    features: int
    matters: bool
    note: str
    used: bool = True


def table_forecast(training: TableTraining, prepared: PreparedTable, rows: int) -> Forecast:
    """Return what the training of `rows` rows will release and cost."""
    public = prepared.public
    rows = _validate.integer("n", rows)
    usual, shape = training, prepared
    if training.last is not None:  # columns are judged as for objective perturbation, the best one
        target = replace(training.target, loss=classifier_loss("logistic", training.target.cells))
        usual = replace(training, last=None, target=target)
        shape = usual.prepare(public)
    typical = TypicalTable(usual, shape, rows)
    noise, weight, sure = typical.weight_noise, typical.typical_weight, "about"
    if prepared.model is not None:  # objective perturbation needs the least noise
        known = prepared.model.weight_noise
        noise, sure = (noise, "at least") if known is None else (known / typical.norm, "about")
    width = typical.width
    epsilon = accounting.epsilon(prepared.plan, delta=public.delta, adjacency=public.adjacency)
    costs = steps_of(prepared.plan, public.delta, public.adjacency)
    said = [step.expected(ready) for step, ready in prepared.steps]
    said.insert(
        len(said) - training.calibrated,
        f"Each weight gets noise of {sure} {noise:.2g}; a typical weight is about {weight:.2g}.",
    )
    dense = rows * (width + 1) * (0.15 if is_wide(rows, width) else 2.0)
    return Forecast(
        algorithm=training.name,
        plan=prepared.plan,
        epsilon=epsilon,
        delta=public.delta,
        adjacency=str(public.adjacency),
        rows=rows,
        features=width,
        steps=tuple(
            replace(cost, expected=expected) for cost, expected in zip(costs, said, strict=True)
        ),
        columns=_columns(typical),
        lost=typical.lost,
        weight_noise=noise,
        typical_weight=weight,
        memory=int(8.0 * dense + 8.0 * rows * len(training.schema.columns) + 100e6),
        seconds=_SECONDS * _PASSES * dense,
        warning=typical.warning()[0] if training.last is None else training.last.warning,
        unit=public.unit,
    )


def _columns(typical: TypicalTable) -> tuple[ColumnForecast, ...]:
    """Return what becomes of every column."""
    training = typical.training
    groups = {  # how many of its features can be told apart
        name: len(set(block.groups()) - {-1})
        for name, block in zip(typical.names, typical.blocks, strict=True)
    }
    stated, bought = training.schema.by_name, training.numbers
    found = []
    for column in typical.schema.columns:
        kind = training.schema.source["columns"][column.name]["kind"]
        if not stated[column.name].used:
            found.append(ColumnForecast(column.name, kind, 0, False, "not used", False))
            continue
        features = len(column.features)
        matters = groups.get(column.name, 0) > 1
        if column.name in typical.levels:
            note = "levels are bought; listing them is free, and needs no delta"
            if not matters:
                note = "no level has enough rows to show: list the levels, or ignore the column"
        else:
            note = column.forecast(groups.get(column.name, 0), bought=column.name in bought)
        found.append(ColumnForecast(column.name, kind, features, matters, note))
    return tuple(found)
