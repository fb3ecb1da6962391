"""`PartedRun`: the training of a table in partitions, which asks for counts instead of columns."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from noisette.core.grid import Grid
from noisette.tables.frame import Frame
from noisette.tables.kinds import Column
from noisette.tables.pipeline.coordinates import Coordinates
from noisette.tables.pipeline.pair_cells import PairView
from noisette.tables.pipeline.parted_tables import PartedFrame
from noisette.tables.pipeline.shares import Spread
from noisette.tables.pipeline.table_run import TableRun
from noisette.tables.pipeline.walks import (
    KNOTS,
    cut_and_scaled,
    spread_of_labels,
    spread_of_numbers,
    walked_cells,
    walked_pair,
    walked_spread,
)


class PartedRun(TableRun):
    """One run over parts: every step takes one pass, whatever the number of its columns."""

    @property
    def _frame(self) -> PartedFrame:
        frame: Any = self.sample.frame
        assert isinstance(frame, PartedFrame)
        return frame

    def _numbers(
        self, names: list[str], grids: Sequence[Grid], ups: Sequence[bool | None]
    ) -> list[Any]:
        before = [self.sample.labels] if self.training.buys_bounds else []
        return self._frame.ranks(names, grids, ups, self.sample.weights, *before)

    def _coded(self, names: list[str]) -> list[Any]:
        return self._frame.texts(names, self.sample.weights)

    def _cells(self, grids: dict[str, Grid]) -> list[Any]:
        widths = [len(grid.points) for grid in grids.values()]
        work = partial(_part_cells, grids)
        return self._frame.spreads(work, widths, self.sample.weights) if grids else []

    def _spreads(self, columns: list[Column]) -> list[Any]:
        training = self.training
        target = partial(spread_of_labels, training.classes)
        if training.regression:
            target = partial(_number_spread, self.bounds)
        widths = [max(len(column.features), 1) for column in columns]
        widths += [pair.features for pair in self.pairs]
        widths.append(len(KNOTS) if training.regression else training.classes)
        work = partial(_part_spreads, columns, self.pairs, self.schema.columns, target)
        return self._frame.spreads(work, widths, self.sample.weights, self.sample.labels)

    def _model_rows(self, coords: Coordinates) -> Any:
        return self._frame.encoded(self.schema, coords, self.pairs)


def _part_cells(grids: dict[str, Grid], frame: Frame) -> list[Any]:
    return [walked_cells(frame, name, grid) for name, grid in grids.items()]


def _part_spreads(
    columns: list[Column], pairs: list[PairView], every: Sequence[Column], target: Any,
    frame: Frame, labels: Any,
) -> list[Any]:  # fmt: skip
    found: list[Any] = [walked_spread(column, frame) for column in columns]
    found += [walked_pair(pair, every, frame) for pair in pairs]
    return [*found, target(labels)]


def _number_spread(bounds: tuple[float, float], labels: Any) -> Spread:
    return spread_of_numbers(cut_and_scaled(*bounds, labels))
