"""`ScoreTable`: one noisy table of (label) x (score bin), which pays for every score.

The model was released before, edges and rules are public, and every test person falls into one cell
of each column of cells. So the table is a histogram, and whatever is computed from it is free.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from noisette._typing import Floats
from noisette.core.parts import is_parted, summed
from noisette.fitting.algorithms.public import PublicBudget
from noisette.fitting.partitions.lazily import for_workers
from noisette.scores.layouts import Layout, places_of
from noisette.tables.pipeline.sample import Sample
from noisette.tables.pipeline.shares import LearnShares, Spread
from noisette.tables.pipeline.step import PreparedStep


@dataclass(frozen=True)
class ScoreTable(LearnShares):
    """Release the counts of all cells of a layout."""

    name: ClassVar[str] = "scores"
    summary: ClassVar[str] = "how labels and scores of test rows fall into cells"
    proofs: ClassVar[tuple[str, ...]] = (*LearnShares.proofs, "SCORE-TABLE")

    def expected(self, prepared: PreparedStep) -> str:
        """Say how many rows off a count may be."""
        sigma = self.deviation(prepared.scale, prepared.public.adjacency)
        return f"Each cell of the table gets noise of about {sigma:.3g} rows."


def table_for(
    layout: Layout, public: PublicBudget, *, pure: bool = True
) -> tuple[ScoreTable, PreparedStep]:
    """Return the step with the least noise for the budget, from public facts.

    Cells are disjoint, so one person moves the counts by little also in l1, and Laplace noise is
    usually the smaller one; `pure` says whether it may be used where a delta allows the other.
    """
    columns, found = len(layout.sizes), []
    laws = [True] if pure or public.delta == 0.0 else []
    for exact in laws if public.delta == 0.0 else [*laws, False]:
        step = ScoreTable(columns, exact_pure=exact)
        prepared = step.prepare(replace(public, delta=0.0) if exact else public)
        found.append((step.deviation(prepared.scale, public.adjacency), step, prepared))
    _, step, prepared = min(found, key=itemgetter(0))
    return step, prepared


class CodeSpread:
    """The cells of rows in partitions, counted where they lie."""

    def __init__(self, codes: Any, features: int) -> None:
        self._codes, self._features = codes, features

    def checked_sums(self, count: int, weights: Any) -> Floats:
        """Return the exact sum of every cell, after a check in every part."""
        size = self._features
        # proof: EXACT-SUM
        found: Floats = summed(
            lambda own, shares: Spread(places_of(own), size).checked_sums(len(own), shares),
            self._codes, weights,
        )  # fmt: skip
        return found


def codes_of(layout: Layout, model: Any, X: Any, y: Any) -> list[Any]:
    """Return the cells of every row; where rows are in partitions, when they are asked for."""
    if not is_parted(X):
        found: list[Any] = layout.codes(model, X, y)
        return found
    whole = X.apply(partial(_part_codes, layout, for_workers(model)), (y,), y.shape)
    return [whole.apply(itemgetter(k), (), None) for k in range(len(layout.sizes))]


def _part_codes(layout: Layout, model: Any, X: Any, y: Any) -> Any:
    if len(y) == 0:  # which many a model refuses
        return [np.zeros(0, dtype=np.intp) for _ in layout.sizes]
    return layout.codes(model, X, y)


def counted(layout: Layout, codes: Sequence[NDArray[Any]], weights: Any) -> Sample:
    """Return what the step looks at: the cell of every row, or its shares in two; -1 has none."""
    spreads = [
        CodeSpread(column, size) if is_parted(column) else Spread(places_of(column), size)
        for column, size in zip(codes, layout.sizes, strict=True)
    ]
    return Sample(spreads, weights, count=len(codes[0]))
