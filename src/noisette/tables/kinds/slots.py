"""Columns of which each cell is in one slot, or in none: categories and hashed ones."""

from dataclasses import dataclass

import numpy as np

from noisette.tables.kinds.base import Cells, Column, Entries, Points, for_texts, in_slots


@dataclass(frozen=True)
class Slots(Column):
    """What such columns share; `weight` is the value of a slot that is filled."""

    @property
    def weight(self) -> float:
        """The value of a slot that is filled."""
        return 1.0

    @property
    def slots(self) -> tuple[str, ...]:
        """What each slot stands for."""
        raise NotImplementedError

    def _place(self, text: str) -> int:
        """Return the slot of a cell, from its own text and public facts alone."""
        raise NotImplementedError

    @property
    def most_square(self) -> float:
        """The most that it adds to a squared row length, whatever the cell."""
        return self.weight**2

    def entries(self, cells: Cells) -> Entries:
        """Return the entries of all cells that may differ from zero."""
        return in_slots(for_texts(cells, self._place, np.int32), len(self.slots), self.weight)

    def spread(self, cells: Cells) -> Entries:
        """Return the indicator of each cell's slot."""
        features, values = self.entries(cells)
        return features, values / self.weight

    @property
    def points(self) -> Points:
        """The slots, each with the features of a cell in it."""
        return Points("levels", self.slots, np.eye(len(self.features)) * self.weight)
