"""`TrainAndTest`: a table's training, and a score of its model on other people, under one plan.

Who is a test person is decided without looking at anybody's values, and everything is learnt from
the others. So the worse of the two costs counts, not their sum, and the score is free.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from noisette.core.parts import each
from noisette.core.plans import Parallel
from noisette.errors import InvalidParameter
from noisette.fitting.algorithms.algorithm import Algorithm, Prepared
from noisette.fitting.algorithms.passage import Passage
from noisette.fitting.algorithms.public import PublicBudget
from noisette.scores.layouts import Layout, RegressionLayout, layout_for
from noisette.scores.measure import AnyScores
from noisette.tables.pipeline.shares import codes_of, counted, table_for
from noisette.tables.pipeline.table_run import FittedTable, TableSample
from noisette.tables.pipeline.table_training import TableTraining


@dataclass(frozen=True)
class PreparedTest(Prepared):
    """Both halves, each with the whole budget; `step` and `table` are those of the scores."""

    training: Any = None
    step: Any = None
    table: Any = None


def divided(public: PublicBudget, share: float) -> tuple[PublicBudget, PublicBudget]:
    """Return the public facts of the training persons and of the test persons.

    Under add-remove both numbers are private, and their guesses follow from the public share.
    """
    # proof: TEST-SHARE
    if public.size is None:
        return public, public
    test = round(share * public.size)
    if not 1 <= test <= public.size - 2:
        raise InvalidParameter(
            f"test_share={share:g} of {public.size} leaves too few on one side; give another share."
        )
    # how many rows persons have on one side is private, so there the bound for all of them stays
    known = public.adjacency.size_is_public and not public.grouped
    parts = [
        replace(public, size=size, most=size if known else public.most)
        for size in (public.size - test, test)
    ]
    return parts[0], parts[1]


@dataclass(frozen=True)
class TrainAndTest(Algorithm[PreparedTest]):
    """Train on most people and score on the others; `model` makes a model of what was released.

    `layout` has as many cells as the table of scores will have. Where residuals are counted, its
    ends are those of the target, which may be bought and are known only when the model is.
    """

    training: TableTraining
    layout: Layout
    share: float
    model: Callable[[FittedTable], Any]
    pure: bool = True

    name: ClassVar[str] = "table with test"
    summary: ClassVar[str] = "a table's training, and scores of its model on other people"

    @property
    def needs_batches(self) -> bool:  # type: ignore[override]
        """Whether the training does."""
        return self.training.needs_batches

    def prepare(self, public: PublicBudget) -> PreparedTest:
        """Return both plans side by side, each within the whole budget."""
        most, rest = divided(public, self.share)
        training = self.training.prepare(most)
        step, table = table_for(self.layout, rest, pure=self.pure)
        # proof: TEST-SHARE
        plan = Parallel(training.plan, table.plan)
        proofs = (*training.proofs, *table.proofs, "TEST-SHARE")
        return PreparedTest(public, plan, proofs, training, step, table)

    def check(self, records: TableSample, prepared: PreparedTest) -> None:
        """Refuse what would break a bound, before anything is charged."""
        self.training.check(records, prepared)
        if records.unit.count > records.table.most_drawn:
            raise InvalidParameter(f"test_share takes at most {records.table.most_drawn} rows.")

    def run(
        self, sample: TableSample, prepared: PreparedTest, passage: Passage
    ) -> tuple[FittedTable, AnyScores]:
        """Return the model of the training persons, and its scores on the test persons."""
        # proof: TEST-SHARE
        tested = sample.table.drawn(
            sample.unit.count, self.share, passage.randomness,
            exact=prepared.public.exact is not None,
        )  # fmt: skip
        others = sample.part(each(np.logical_not, tested))
        fitted = self.training.run(others, prepared.training, passage)
        leaves = len(list(prepared.training.plan.leaves()))
        rest, step, model = sample.part(tested), prepared.step, self.model(fitted)
        layout = layout_for(model)
        truth = rest.labels
        if not isinstance(layout, RegressionLayout):
            truth = each(np.asarray(layout.classes).__getitem__, truth)
        cells = counted(layout, codes_of(layout, model, rest.table.input, truth), rest.weights)
        sums = step.run(cells, prepared.table, passage.after(leaves))
        deviation = step.deviation(prepared.table.scale, prepared.public.adjacency)
        return fitted, layout.scores(sums, deviation=deviation, notes=layout.notes)
