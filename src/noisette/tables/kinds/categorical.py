"""Categories: an indicator for each public level, and one for "anything else"."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from noisette._typing import Floats
from noisette.tables.kinds.base import Cells, Entries, canonical, for_texts, in_slots, scatter
from noisette.tables.kinds.codes import CodeGroups


@lru_cache(maxsize=64)
def _codes(patterns: tuple[tuple[str, str], ...]) -> CodeGroups:
    # Not kept in the column: that some cell was no listed level is a fact about the rows.
    return CodeGroups(patterns)


@dataclass(frozen=True)
class Categorical:
    """Named groups of levels, the slot "other", and perhaps a slot for missing cells.

    Without `other`, an unlisted level is the zero vector, as the reference is. `patterns` are
    pairs of a range or prefix of codes and its group, for cells that are no listed level.
    """

    name: str
    groups: tuple[tuple[str, tuple[str, ...]], ...]
    reference: str | None = None
    other: bool = True
    weight: float = 1.0
    missing: tuple[str, ...] = ()
    missing_slot: bool = False
    patterns: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(
        cls, name: str, levels: Sequence[str], reference: str | None = None, *,
        other: bool = True, weight: float = 1.0,
    ) -> "Categorical":  # fmt: skip
        """Return a column in which every level is its own group."""
        return cls(name, tuple((level, (level,)) for level in levels), reference, other, weight)

    @cached_property
    def _slots(self) -> tuple[str, ...]:
        """The names of the indicators; a name in brackets cannot be mistaken for a level."""
        named = [f"={group}" for group, _ in self.groups if group != self.reference]
        named += [" (other)"] * self.other + [" (missing)"] * self.missing_slot
        return tuple(named)

    @property
    def features(self) -> tuple[str, ...]:
        """One feature for each slot."""
        return tuple(self.name + slot for slot in self._slots)

    @property
    def mean_square(self) -> float:
        """The squared weight, or half of it if a reference level saves a part of the rows."""
        return self.weight**2 * (1.0 if self.reference is None else 0.5)

    @property
    def most_square(self) -> float:
        """The most that it adds to a squared row length, whatever the cell."""
        return self.weight**2

    @property
    def nonzeros(self) -> int:
        """A cell is in one slot."""
        return 1

    @cached_property
    def _known(self) -> tuple[dict[str, int], int, int]:
        """The slot of every known text, that of any other, and the number that means no slot."""
        slots = {slot: place for place, slot in enumerate(self._slots)}
        nowhere = len(slots)
        unlisted = slots[" (other)"] if self.other else nowhere
        absent = slots[" (missing)"] if self.missing_slot else unlisted
        known = {"": absent} | dict.fromkeys(self.missing, absent)
        for group, levels in self.groups:
            place = nowhere if group == self.reference else slots[f"={group}"]
            known.update(dict.fromkeys(levels, place))
        return known, unlisted, nowhere

    def _place(self, text: str) -> int:
        """Return the slot of a cell, from its own text and public facts alone."""
        known, unlisted, nowhere = self._known
        if text in known:  # levels are in canonical form
            return known[text]
        text = canonical(text)
        place = known.get(text)
        if place is not None or not self.patterns:
            return unlisted if place is None else place
        group = _codes(self.patterns).find(text)
        if group is None:
            return unlisted
        return nowhere if group == self.reference else self._slots.index(f"={group}")

    def entries(self, cells: Cells) -> Entries:
        """Return the entries of all cells that may differ from zero."""
        return in_slots(for_texts(cells, self._place, np.int32), self._known[2], self.weight)

    def fill(self, cells: Cells, out: Floats) -> None:
        """Write the indicators of all cells into `out`, shape (n, len(features))."""
        scatter(self.entries(cells), out)
