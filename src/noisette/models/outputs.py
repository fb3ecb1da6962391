"""What a fitted linear model states: probabilities, and the public facts behind its guarantee."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette._typing import Floats
from noisette.fitting.algorithms.public import PublicBudget
from noisette.fitting.losses.logistic import softplus_parts


def size_facts(
    public: PublicBudget, population: int | None, *, solved: bool = False
) -> list[str]:  # fmt: skip
    """Return what is known of the numbers of records, or of persons and their rows.

    Where the number is private an empty table is refused, so that much is known. `solved` says
    that a table with more rows than the solvers certify was refused.
    """
    if public.exact:
        facts = [f"the number of {public.unit}s, {public.exact}"]
    else:
        most = "" if public.most is None else f", and at most {public.most}"
        facts = [f"that there is at least one {public.unit}{most}"]
        if population is not None:
            facts.append(f"the guess {population} of the number of {public.unit}s (population)")
    if public.grouped and public.most_rows is not None:
        if public.max_rows is not None:
            facts.append(f"that at most {public.most_rows} rows are used")
        elif solved:
            facts.append(f"that there are at most {public.most_rows} rows")
    return facts


BOUGHT_TARGET = "that the target is a number, whose limits were released"
"""The fact about a target whose limits were bought."""


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
    labels = ", ".join(map(str, classes[:20]))
    labels += f", ... ({len(classes)} in all)" if len(classes) > 20 else ""
    source = "as given" if given else "read off y and treated as public"
    return f"the set of labels ({labels}), {source}"


def target_fact(low: float, high: float) -> str:
    """Return the fact about the bounds of a number that is predicted."""
    return f"the bounds {low:g} and {high:g} of the target; values beyond were cut to them"
