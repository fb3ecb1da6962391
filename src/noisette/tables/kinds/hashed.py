"""Hashing: very many categories in a fixed number of slots, by a public hash.

The hash has no key and no seed: the slot of a level is the same in every table and costs nothing.
Levels that share a slot are told apart by nobody, the model included.
"""

import hashlib
from dataclasses import dataclass

import numpy as np

from noisette._typing import Floats
from noisette.tables.kinds.base import Cells, Entries, canonical, for_texts, in_slots, scatter


@dataclass(frozen=True)
class Hashed:
    """Levels by the hash of their text in one of `buckets` slots."""

    name: str
    buckets: int
    weight: float = 1.0
    missing: tuple[str, ...] = ()
    missing_slot: bool = False

    @property
    def features(self) -> tuple[str, ...]:
        """One feature for each bucket, and one for missing cells if there is a slot."""
        slots = tuple(f"{self.name} #{bucket}" for bucket in range(self.buckets))
        return (*slots, f"{self.name} (missing)") if self.missing_slot else slots

    @property
    def mean_square(self) -> float:
        """The squared weight."""
        return self.weight**2

    @property
    def most_square(self) -> float:
        """The most that it adds to a squared row length, whatever the cell."""
        return self.weight**2

    @property
    def nonzeros(self) -> int:
        """A cell is in one slot."""
        return 1

    def _place(self, text: str) -> int:
        """Return the slot of a cell; a missing one without a slot of its own is in none."""
        text = canonical(text)
        if text == "" or text in self.missing:
            return self.buckets if self.missing_slot else -1
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return int.from_bytes(digest, "little") % self.buckets

    def entries(self, cells: Cells) -> Entries:
        """Return the entries of all cells that may differ from zero."""
        slots = for_texts(cells, self._place, np.int32)
        return in_slots(slots, self.buckets + self.missing_slot, self.weight)

    def fill(self, cells: Cells, out: Floats) -> None:
        """Write the indicators of all cells into `out`, shape (n, len(features))."""
        scatter(self.entries(cells), out)
