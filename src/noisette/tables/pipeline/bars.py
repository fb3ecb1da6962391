"""`Bars`: how much of each weight of a table's model is the noise of its training.

The model minimises a noisy sum. Near the minimum, noise b in a direction of curvature H moves the
weight by b / H. The law of b is public. H is not released; it is estimated as h s + Lambda from the
released shares, h the curvature of the summed losses and s the variance of the direction, as if
columns were independent of each other. So bars are model-based, and cost nothing: they are
post-processing of released values. They say nothing of who happened to be in the table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from noisette._typing import Floats
from noisette.tables.pipeline.coordinates import Block, Coordinates


@dataclass(frozen=True)
class Bars:
    """The noise of one column.

    `centre` is what it adds to each output of an average row; `cells` has for each feature the
    deviation of what the cell that stands for it (a knot, a level, a missing cell) adds beyond
    that, `nothing` the same for a cell without any feature, such as a reference level.
    """

    centre: tuple[float, ...]
    cells: tuple[float, ...]
    nothing: float

    def times(self, factor: float) -> "Bars":
        """Return the noise in another unit."""
        return Bars(
            tuple(factor * each for each in self.centre),
            tuple(factor * each for each in self.cells),
            factor * self.nothing,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, for a file."""
        return {"centre": list(self.centre), "cells": list(self.cells), "nothing": self.nothing}


def read_bars(node: Any, widths: Mapping[str, int], outputs: int) -> dict[str, Bars] | None:
    """Return what `Bars.to_dict` wrote for each column; TypeError or KeyError if it is none."""
    if node is None:
        return None
    if set(node) != set(widths):
        raise TypeError
    found = {}
    for name, width in widths.items():
        each = node[name]
        numbers = [*each["centre"], *each["cells"], each["nothing"]]
        right = (len(each["centre"]), len(each["cells"])) == (outputs, width)
        right &= all(type(number) is float for number in numbers)
        if not right or not np.isfinite(numbers).all():
            raise TypeError
        found[name] = Bars(tuple(each["centre"]), tuple(each["cells"]), each["nothing"])
    return found


def bars_of(
    coords: Coordinates, blocks: Sequence[Block], theta: Floats, variance: Floats
) -> list[Bars]:
    """Return the bars of every block, given the variance of the noise in each coordinate."""
    found, row, start = [], 0, 0
    for block, size in zip(blocks, coords.sizes, strict=True):
        part = slice(start, start + size)
        cells = coords.map[row : row + block.features, part].toarray()
        if block.filled is not None:  # a missing cell has the hats of the median besides
            cells[-1] += block.filled[:-1] @ cells[:-1]
        centre = coords.centre[part]
        spread = np.sqrt(((cells - centre) ** 2) @ variance[part])
        nothing = float(np.sqrt((centre**2) @ variance[part]))
        average = theta[:, :-1][:, part] @ centre
        found.append(Bars(tuple(average.tolist()), tuple(spread.tolist()), nothing))
        row, start = row + block.features, start + size
    return found
