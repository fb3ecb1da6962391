"""What estimators take from scikit-learn, or do without where a command is in a hurry.

Importing it takes a second, and a command hands no estimator to anybody: in its process there are
the few lines that fitting and predicting tables need. `alone` is set before the first estimator is
imported, by ``python -m noisette`` and nobody else.
"""

import inspect
from collections.abc import Callable
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, Any

alone = False

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.validation import check_is_fitted

__all__ = [
    "BaseEstimator", "ClassifierMixin", "RegressorMixin", "TransformerMixin", "available_if",
    "check_array", "check_is_fitted", "validate_data",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if alone:
        return _OWN[name]
    from sklearn import base
    from sklearn.utils import metaestimators, validation

    home = {"available_if": metaestimators, "check_is_fitted": validation}.get(name, base)
    return getattr(home, name)


def _checked(name: str, *given: Any, **more: Any) -> Any:
    from sklearn import config_context
    from sklearn.utils import validation

    # Even where scikit-learn is set to trust the data: a NaN would pass through every noise.
    with config_context(assume_finite=False):
        return getattr(validation, name)(*given, **more)


validate_data = partial(_checked, "validate_data")
check_array = partial(_checked, "check_array")


class _Base:
    """Parameters are the constructor's; all else asks scikit-learn, which is then imported."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        names = sorted(inspect.signature(type(self)).parameters)  # as scikit-learn hands them out
        return {name: getattr(self, name) for name in names}

    def set_params(self, **given: Any) -> Any:
        vars(self).update(given)
        return self

    def __sklearn_clone__(self) -> Any:
        from sklearn import base

        return base.BaseEstimator.__sklearn_clone__(self)

    def __sklearn_tags__(self) -> Any:
        from sklearn import base

        return base.BaseEstimator.__sklearn_tags__(self)


class _Available:
    """A method that is there if a check says so."""

    def __init__(self, check: Callable[[Any], bool], work: Callable[..., Any]) -> None:
        self._check, self._work = check, work

    def __get__(self, one: Any, owner: Any = None) -> Any:
        if one is None:
            return self._work
        if not self._check(one):
            raise AttributeError(f"{type(one).__name__} has no {self._work.__name__}")
        return MethodType(self._work, one)


def _check_is_fitted(estimator: Any, *names: Any) -> None:
    if not any(name.endswith("_") and not name.startswith("__") for name in vars(estimator)):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(estimator, *names)


_OWN = {
    "BaseEstimator": _Base,
    "ClassifierMixin": type("ClassifierMixin", (), {}),
    "RegressorMixin": type("RegressorMixin", (), {}),
    "TransformerMixin": type("TransformerMixin", (), {}),
    "available_if": lambda check: lambda work: _Available(check, work),
    "check_is_fitted": _check_is_fitted,
}
