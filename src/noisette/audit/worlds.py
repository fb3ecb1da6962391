"""One run in one world: a fresh model, fitted, measured, and reduced to what the audit needs."""

from __future__ import annotations

import copy
import math
import secrets
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette.audit.events import Outcome, trace
from noisette.errors import InvalidData, InvalidParameter

Output = Callable[[Any], Any]


def released(model: Any) -> NDArray[np.float64] | None:
    """The released numbers of a linear model, one row for each class; None for other models."""
    coef = getattr(model, "coef_", None)
    if coef is None:
        return None
    rows = np.atleast_2d(np.asarray(coef, dtype=np.float64))
    intercept = np.asarray(getattr(model, "intercept_", 0.0), dtype=np.float64).reshape(-1)
    if intercept.size == len(rows) and intercept.any():
        rows = np.column_stack([rows, intercept])
    return rows


def with_fresh_seed(model: Any) -> Any:
    """Replace each fixed ``random_state``, also of nested parts, by a new seed from the system.

    None is left alone: it is what the users of a class get, and each worker process is new.
    """
    if hasattr(model, "get_params") and hasattr(model, "set_params"):
        fixed = [name for name, value in random_states(model).items() if _is_seed(value)]
        if fixed:
            model.set_params(**{name: secrets.randbits(32) for name in fixed})
    elif _is_seed(getattr(model, "random_state", None)):
        model.random_state = secrets.randbits(32)
    return model


def random_states(model: Any) -> dict[str, Any]:
    """Return the parameters ``random_state`` of an estimator and of the estimators inside it."""
    parameters = model.get_params(deep=True)
    return {
        name: value
        for name, value in parameters.items()
        if name == "random_state" or name.endswith("__random_state")
    }


def _is_seed(state: Any) -> bool:
    return isinstance(state, int | np.integer) and not isinstance(state, bool)


class World:
    """Fits fresh models on one data set, again and again."""

    def __init__(
        self,
        make_model: Callable[[], Any],
        data: tuple[Any, ...],
        statistic: Callable[[Any], float] | None,
        output: Output | None,
    ) -> None:
        if not callable(make_model) or hasattr(make_model, "coef_"):
            raise InvalidParameter("make_model must be a function that returns a new estimator.")
        if statistic is None and output is None:
            raise InvalidParameter("pass a statistic, or an output in which to search for one.")
        if statistic is not None and not callable(statistic):
            raise InvalidParameter("statistic must be a function of a fitted model.")
        if not isinstance(data, tuple | list) or len(data) not in (2, 3):
            raise InvalidData("D and D_prime must be pairs (X, y).")
        if len(data) == 3 and not isinstance(data[2], dict):
            raise InvalidData("the third part of D must be a dict of further arguments of fit.")
        self._make_model, self._data = make_model, data
        self._statistic, self._output = statistic, output

    def __call__(self) -> Outcome:
        """One run."""
        model = with_fresh_seed(self._make_model())
        if not hasattr(model, "fit"):
            raise InvalidParameter(
                f"make_model must return an estimator with fit; got a {type(model).__name__}."
            )
        # A copy: a fit that changes its input would turn the worlds into other data sets.
        X, y, *more = copy.deepcopy(self._data)
        fitted = model.fit(X, y, **(more[0] if more else {}))
        model = model if fitted is None else fitted
        output = None if self._output is None else self._output(model)
        digest, pattern = (None, None) if output is None else trace(output)
        if self._statistic is not None:
            value = float(self._statistic(model))
            return Outcome(-math.inf if math.isnan(value) else value, None, digest, pattern)
        if output is None:
            raise InvalidParameter(
                f"a {type(model).__name__} has no coef_; pass a statistic, or an output."
            )
        return Outcome(0.0, np.asarray(output, dtype=np.float64).ravel(), digest, pattern)
