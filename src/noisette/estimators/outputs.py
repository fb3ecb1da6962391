"""What a fitted linear model states: probabilities, and the public facts behind its guarantee."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette._typing import Floats
from noisette.losses.logistic import softplus_parts

__all__ = ["AT_LEAST_ONE", "labels_fact", "probabilities", "rows_fact"]


AT_LEAST_ONE = "that there is at least one record"
"""A public fact under add-remove, where an empty table is refused."""


def probabilities(scores: Floats) -> Floats:
    """Return logistic (scores of shape (n,)) or softmax ((n, K)) probabilities, shape (n, K)."""
    if scores.ndim == 1:
        return np.column_stack([softplus_parts(-scores)[1], softplus_parts(scores)[1]])
    each = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(each / each.sum(axis=1, keepdims=True))


def rows_fact(norm_bound: float, bias: float | None) -> str:
    """Return the fact about the bound on the rows; `bias` is the constant column, if any."""
    bound = f"the norm bound {float(norm_bound):g} of the feature rows"
    if bias is not None:
        bound += f" and the constant column {bias:g}"
    return bound + "; longer rows were scaled down to the bound"


def labels_fact(classes: NDArray[Any], *, given: bool) -> str:
    """Return the fact about the label set; `given` says that it was not read off y."""
    labels = ", ".join(str(label) for label in classes[:20])
    labels += f", ... ({len(classes)} in all)" if len(classes) > 20 else ""
    source = "as given" if given else "read off y and treated as public"
    return f"the set of labels ({labels}), {source}"
