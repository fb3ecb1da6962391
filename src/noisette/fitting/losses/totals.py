"""`Total`: sums of arrays, term by term, that can be put together from sums made elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from noisette._typing import Floats


class Total:
    """Several sums side by side; arrays are compensated where asked, numbers never.

    A compensated sum keeps what every addition lost (Knuth's two-sum is exact) and errs by 2u in
    all, however many terms there are and however sums of them are joined (ROUND-ANY-ORDER).

    Parameters
    ----------
    compensated : bool, default False
        Whether arrays are summed so.
    start : sequence of arrays or numbers, optional
        What the sums begin with.

    """

    def __init__(self, compensated: bool = False, start: Sequence[Any] = ()) -> None:
        self.compensated = compensated
        self.sums: list[Any] = []
        self.lost: list[Any] = []
        if start:
            self.add(start)

    def add(self, terms: Sequence[Any]) -> None:
        """Add one term to each sum; a tuple in its place holds terms to be added in turn."""
        if not self.sums:
            for term in terms:
                first = term[0] if isinstance(term, tuple) else term
                self.sums.append(np.zeros(np.shape(first)) if np.ndim(first) else 0.0)
                kept = self.compensated and np.ndim(first) > 0
                self.lost.append(np.zeros(np.shape(first)) if kept else None)
        for place, term in enumerate(terms):
            for each in term if isinstance(term, tuple) else (term,):
                self._add(place, each)

    def _add(self, place: int, term: Any) -> None:
        lost = self.lost[place]
        if lost is None:
            self.sums[place] += term
            return
        total: Floats = self.sums[place]
        new = total + term
        seen = new - total
        lost += (total - (new - seen)) + (term - seen)
        self.sums[place] = new

    def join(self, other: Total) -> Total:
        """Add the sums of another total, and what was lost in them; return itself."""
        if other.sums:
            self.add(other.sums)
            for mine, theirs in zip(self.lost, other.lost, strict=True):
                if mine is not None and theirs is not None:
                    mine += theirs
        return self

    def values(self) -> list[Any]:
        """Return the sums."""
        return [
            each if lost is None else each + lost
            for each, lost in zip(self.sums, self.lost, strict=True)
        ]
