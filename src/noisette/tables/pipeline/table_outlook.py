"""`TableOutlook`: what a table's training will release and cost, before any data exist.

The public half is played through on a typical table (`typical_table`).
"""

from dataclasses import dataclass, replace

from noisette import _validate
from noisette.core import accounting
from noisette.core.plans import Plan
from noisette.fitting.losses import classifier_loss
from noisette.report.numbers import StepCost, steps_of
from noisette.tables.pipeline.table_run import is_wide
from noisette.tables.pipeline.table_training import PreparedTable, TableTraining
from noisette.tables.pipeline.typical_table import TypicalTable

_SECONDS = 4e-9  # for an entry of the matrix in one pass, on one core of 2026
_PASSES = 60.0

NAMES = {
    "knots": "knots of the numeric columns",
    "levels": "levels that nobody listed",
    "shares": "how the rows spread over features and labels",
    "weights": "the weights of the model",
}
"""What each step releases, in words."""


@dataclass(frozen=True)
class StepShare(StepCost):
    """One step of a table's training.

    Attributes
    ----------
    name : str
        "knots", "levels", "shares" or "weights".
    part : float
        Its part of the budget: of mu squared, or of epsilon where delta = 0.
    epsilon : float
        Its epsilon at the same delta, had it run alone.
    expected : str
        What the noise does to what it releases.

    """

    expected: str


@dataclass(frozen=True)
class ColumnOutlook:
    """What becomes of one column.

    Attributes
    ----------
    name, kind : str
        As in the schema.
    features : int
        How many features it gives, about.
    matters : bool
        Whether it can matter: a column that nothing can be told apart by is paid for in vain.
    note : str
        What is bought for it, and what would be worth knowing.
    used : bool
        Whether the schema does not leave it out.

    """

    name: str
    kind: str
    features: int
    matters: bool
    note: str
    used: bool = True


@dataclass(frozen=True)
class TableOutlook:
    """The plan of one table's training and what to expect of it.

    Attributes
    ----------
    plan : Plan
        What would be charged.
    epsilon, delta : float
        The guarantee of that plan.
    adjacency : str
        Whose neighbour it is about.
    rows : int
        The number of rows (of persons, where these are the unit), or the guess of it.
    features : int
        How many features the columns give, about.
    steps : tuple of StepShare
        The steps in order, the model last.
    columns : tuple of ColumnOutlook
        What becomes of each column.
    lost : float
        About the part of what there is to learn that noise and shrinkage take, from 0 to 1.
    weight_noise : float
        About the standard deviation that privacy adds to each weight, for features of variance 1.
    typical_weight : float
        About the size of a weight that matters.
    memory : int
        Bytes, about.
    seconds : float
        Time on one core, about.
    warning : str
        A sentence if public facts say that the model can hardly learn, else nothing.
    unit : str
        What `rows` counts: "row" or "person".

    """

    plan: Plan
    epsilon: float
    delta: float
    adjacency: str
    rows: int
    features: int
    steps: tuple[StepShare, ...]
    columns: tuple[ColumnOutlook, ...]
    lost: float
    weight_noise: float
    typical_weight: float
    memory: int
    seconds: float
    warning: str = ""
    unit: str = "row"

    @property
    def algorithm(self) -> str:
        """The name of what would run."""
        return TableTraining.name

    def __str__(self) -> str:
        lines = [
            f"A model of a raw table: epsilon = {self.epsilon:.4g}, delta = {self.delta:g} "
            f"({self.adjacency}).",
            f"{self.rows:,} {self.unit}s, about {self.features:,} features.",
            *(
                f"{100.0 * step.part:.2g} % of the budget: {NAMES[step.name]}. {step.expected}"
                for step in self.steps
            ),
            f"About {100.0 * self.lost:.0f} % of what there is to learn is lost to the noise.",
            f"About {self.memory / 1e6:,.0f} MB of memory and {self.seconds:.2g} s on one core.",
        ]
        return "\n".join([*lines, self.warning] if self.warning else lines)


def table_outlook(training: TableTraining, prepared: PreparedTable, rows: int) -> TableOutlook:
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
    said.append(
        f"Each weight gets noise of {sure} {noise:.2g}; a typical weight is about {weight:.2g}."
    )
    dense = rows * (width + 1) * (0.15 if is_wide(rows, width) else 2.0)
    return TableOutlook(
        plan=prepared.plan,
        epsilon=epsilon,
        delta=public.delta,
        adjacency=str(public.adjacency),
        rows=rows,
        features=width,
        steps=tuple(
            StepShare(cost.name, cost.part, cost.epsilon, expected)
            for cost, expected in zip(costs, said, strict=True)
        ),
        columns=_columns(typical),
        lost=typical.lost,
        weight_noise=noise,
        typical_weight=weight,
        memory=int(8.0 * dense + 8.0 * rows * len(training.schema.columns) + 100e6),
        seconds=_SECONDS * _PASSES * dense,
        warning=typical.weakness()[0] if training.last is None else training.last.warning,
        unit="person" if public.grouped else "row",
    )


def _columns(typical: TypicalTable) -> tuple[ColumnOutlook, ...]:
    """Return what becomes of every column."""
    training, groups = typical.training, {}  # how many of its features can be told apart
    for name, block in zip(typical.names, typical.blocks, strict=True):
        groups[name] = len(set(block.groups()) - {-1})
    stated, bought = training.schema.by_name, training.numbers
    found = []
    for column in typical.schema.columns:
        kind = training.schema.source["columns"][column.name]["kind"]
        if not stated[column.name].used:
            found.append(ColumnOutlook(column.name, kind, 0, False, "not used", False))
            continue
        features = len(column.features)
        matters = groups.get(column.name, 0) > 1
        if column.name in typical.levels:
            note = "levels are bought; listing them is free, and needs no delta"
            if not matters:
                note = "no level has enough rows to show: list the levels, or ignore the column"
        else:
            note = column.outlook(groups.get(column.name, 0), bought=column.name in bought)
        found.append(ColumnOutlook(column.name, kind, features, matters, note))
    return tuple(found)
