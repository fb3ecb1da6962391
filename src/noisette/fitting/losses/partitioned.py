"""Rows that live in parts, elsewhere: what a solver may ask of them, and nothing else."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from noisette._typing import Floats
from noisette.core.parts import MOST_PARTS, Parted, both, merges_of
from noisette.errors import InvalidParameter
from noisette.fitting.losses.base import Loss
from noisette.fitting.losses.blocks import Total, weigh
from noisette.fitting.losses.rows import Rows, sampled

_SAMPLED = 16
"""A sample is taken from so many parts: all of them would have to be read."""


def rows_of(X: Any, loss: Loss | None = None) -> Rows:
    """Return the rows of any matrix, as solvers see them; refuse what a loss has no code for."""
    if not isinstance(X, Parted):
        return Rows(X)
    check_place(X, loss)
    return PartedRows(X)


def check_place(X: Any, loss: Loss | None) -> None:
    """Refuse rows in partitions for a loss that needs all of them in one place."""
    if isinstance(X, Parted) and loss is not None and not np.isfinite(loss.smoothness):
        raise InvalidParameter(
            "the hinge needs a number for every row in one place, so it is not offered for rows in "
            "partitions; use loss='softplus' or 'huber'."
        )


class PartedRows(Rows):
    """Rows in parts, with the interface of `Rows`."""

    most_merges = merges_of(MOST_PARTS) + 1
    whole_steps, share = True, 64

    def __init__(self, X: Parted) -> None:
        self.matrix: Any = X
        self.is_sparse = X.is_sparse
        self._lay_out(merges=X.merges + 1)
        self.reread = not X.held

    def blocks(self, *, formed: bool = True, passing: bool = False) -> Iterator[tuple[slice, Any]]:
        """Yield blocks of one part after the other: for the last resort of a solver only."""
        start = 0
        for part in self.matrix.parts():
            rows = Rows(part)
            for where, block in rows.blocks(formed=formed):
                yield slice(start + where.start, start + where.stop), block
            start += rows.n

    def sums(
        self, work: Callable[..., Any], *columns: Any, start: Sequence[Any] = (),
        compensated: bool = False, block_rows: int | None = None, formed: bool = True,
    ) -> list[Any]:  # fmt: skip
        """Return the sums of work(block, *parts of the columns) over all blocks of all parts."""
        # proof: ROUND-ANY-ORDER
        part = partial(_part_total, work, compensated, block_rows, formed)
        total = self.matrix.reduce(part, columns, Total.join)
        return Total(compensated, start).join(total).values()

    def on_sample(self, count: int, work: Callable[..., Any], *columns: Any) -> Any:
        """Return work(rows, *columns) of about `count` rows, spread over some of the parts."""
        few, share = self.matrix.few(_SAMPLED)
        others = [None if column is None else column.few(_SAMPLED)[0] for column in columns]
        step = max(1, int(share * self.n) // max(count, 1))
        return few.reduce(
            partial(_part_sample, step, count), others, _stacked, partial(_on_stack, work)
        )

    def within(self, bound: float) -> bool:
        """Return whether every row is finite and no longer than `bound`."""
        if self.matrix.within != bound and self.matrix.reduce(
            partial(_part_within, bound), (), both
        ):
            self.matrix.within = bound  # looked at once: a look may be a pass over files
        return bool(self.matrix.within == bound)

    def slopes_along(self, loss: Any, w: Any, p: Any, y: Any, omega: Any) -> Callable[..., float]:
        """Return t -> the slope of the summed losses at w + tp along p."""
        work = partial(_slope_terms, loss, w, p)
        return lambda t: float(self.sums(partial(work, t), y, omega, start=(0.0,))[0])

    def curved(self, weights: Any) -> float:
        """Return the sum of weight x squared norm."""
        return float(self.matrix.reduce(_part_curved, (weights,), operator.add))

    def fetched(self, column: Any) -> Any:
        """Return a whole column: for the last resort of a solver only."""
        return None if column is None else np.concatenate(list(column.parts()))


def _part_total(
    work: Callable[..., Any], compensated: bool, block_rows: int | None, formed: bool, X: Any,
    *columns: Any,
) -> Total:  # fmt: skip
    total = Total(compensated)
    for part, block in Rows(X, block_rows).blocks(formed=formed, passing=True):
        total.add(work(block, *(None if each is None else each[part] for each in columns)))
    return total


def _part_sample(step: int, most: int, X: Any, *columns: Any) -> list[Any]:
    # `step` is for parts of one size; a part that holds most of the rows gives `most` of them
    return sampled(max(step, -(-X.shape[0] // most)), X, *columns)


def _stacked(first: list[Any], second: list[Any]) -> list[Any]:
    (X, *mine), (Z, *theirs) = first, second
    rows = sparse.vstack([X, Z], format="csr") if sparse.issparse(X) else np.concatenate([X, Z])
    return [
        rows,
        *(None if a is None else np.concatenate([a, b]) for a, b in zip(mine, theirs, strict=True)),
    ]


def _on_stack(work: Callable[..., Any], stack: list[Any]) -> Any:
    return work(*stack)


def _part_within(bound: float, X: Any) -> bool:
    return Rows(X).within(bound)


def _part_curved(X: Any, weights: Any) -> float:
    return Rows(X).curved(weights)


def _slope_terms(
    loss: Loss, w: Floats, p: Floats, t: float, block: Any, y: Any, omega: Any
) -> tuple[float]:
    moves = block @ p.T
    _, slopes = loss.at_scores(block @ w.T + t * moves, y)
    return (float(np.vdot(slopes, weigh(moves, omega))),)
