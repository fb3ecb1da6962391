"""Who trains and who tests: parts of the people, chosen without looking at a value."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from noisette._typing import Indices
from noisette.core.adjacency import Adjacency
from noisette.core.randomness import Randomness
from noisette.errors import InvalidData
from noisette.tables.frame import Frame


def sizes(n: int, share: float) -> tuple[int, int]:
    """Return how many of n people train and how many test, where n is public."""
    test = round(share * n)
    return n - test, test


def divided(
    n: int, share: float, adjacency: Adjacency, randomness: Randomness
) -> tuple[Indices, Indices]:
    """Return the places of the people who train, and of those who test.

    Where n is public the places of the test part are drawn from all. Under add-remove everybody
    has a coin: one person more then moves nobody else across the border.
    """
    # proof: PARALLEL-GROUPS
    generator = randomness.generator
    if adjacency.size_is_public:
        train, _ = sizes(n, share)
        order = generator.permutation(n)
        train_places, test_places = np.sort(order[:train]), np.sort(order[train:])
    else:
        tests = generator.random(n) < share
        train_places, test_places = np.flatnonzero(~tests), np.flatnonzero(tests)
    return train_places, test_places


def taken(X: Any, places: Indices) -> Any:
    """Return the rows of an array, sparse matrix, tensor, table or dictionary of columns."""
    if isinstance(X, Frame):
        return X.take(places)
    if isinstance(X, Mapping):
        return {name: taken(column, places) for name, column in X.items()}
    if hasattr(X, "iloc"):  # pandas
        return X.iloc[places]
    if type(X).__module__.startswith("pyarrow"):
        return X.take(places)
    if isinstance(X, list | tuple):  # each cell as it is
        return [X[place] for place in places]  # proof: ROW-LOCAL
    if hasattr(X, "tocsr"):
        X = X.tocsr()
    try:
        return X[places]
    except Exception:  # a table of another make; its message may quote a row
        raise InvalidData(
            "X must be an array, a sparse matrix, a tensor, a table of pandas, polars or pyarrow, "
            "or a dictionary of columns."
        ) from None
