"""Who is drawn among rows in partitions, by coins that every worker tosses alike."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from noisette.core.parts import listed
from noisette.core.randomness import Randomness, coin_words
from noisette.fitting.partitions.columns import DaskColumn
from noisette.fitting.partitions.running import dask_module

MOST_DRAWN_FROM = 10**9
"""So many rows at most, for the law of how many come from which partition."""


class Coins(NamedTuple):
    """What one part tosses by: so many of its rows are drawn, or each of them by chance."""

    key: int
    part: int
    rows: int
    number: int | None
    chance: float


def drawn(frames: DaskColumn, share: float, randomness: Randomness, *, exact: bool) -> DaskColumn:
    """Return which rows of tables are drawn, as truth values, without a look at any cell.

    With `exact` so many of all rows, every choice of them equally likely; else each row by a coin
    of its own. Who is drawn is the same in every pass.
    """
    # proof: TEST-SHARE
    key, sizes = randomness.shared_key(), frames.reduce(_size, (), listed)
    left = sum(sizes)
    wanted, task, coins = round(share * left), dask_module().delayed, []
    for part, size in enumerate(sizes):
        count = None
        if exact:
            count = int(randomness.generator.hypergeometric(size, left - size, wanted))
            left, wanted = left - size, wanted - count
        coins.append(task(Coins(key, part, size, count, share), traverse=False))
    return DaskColumn([coins], _tossed, frames.shape[:1], held=True)


def _size(frame: Any) -> list[int]:
    return [frame.rows]


def _tossed(coins: Coins) -> NDArray[np.bool_]:
    """Return who is drawn in one part: those below a limit, or so many with the least words."""
    words = coin_words(coins.key, coins.part, coins.rows)
    if coins.number is None:
        return np.asarray(words < np.uint64(int(coins.chance * 2.0**64)))
    chosen = np.zeros(coins.rows, dtype=bool)
    chosen[np.argsort(words, kind="stable")[: coins.number]] = True
    return chosen
