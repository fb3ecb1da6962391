"""A model without privacy, to compare with: only for tables that everybody may see."""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from noisette._typing import Floats, Indices
from noisette.tables import Frame

_LEVELS = 100  # of a column: the most common ones


def features_of(estimator: Any, X: Any) -> Any:
    """Return the rows as a matrix of numbers; X has a `Frame` where the estimator takes cells."""
    if not isinstance(X, Frame):
        return X if sparse.issparse(X) else _filled(np.asarray(X, dtype=float).reshape(len(X), -1))
    parts = []
    for column in estimator._read_schema(target=False).columns:
        if column.used:
            part = _number if column.reading.word else _levels
            parts.append(part(X, column.name))
    return np.hstack(parts)


def _filled(rows: Floats) -> Floats:
    """Return rows whose missing entries are the mean of their column."""
    lost = ~np.isfinite(rows)
    known = np.maximum((~lost).sum(axis=0), 1)
    return np.where(lost, np.where(lost, 0.0, rows).sum(axis=0) / known, rows)


def _number(frame: Frame, name: str) -> Floats:
    found = frame.numbers(name)[:, None]
    return np.hstack([_filled(found), ~np.isfinite(found)]).astype(float)


def _levels(frame: Frame, name: str) -> Floats:
    codes, _ = frame.codes(name)
    common = np.argsort(-np.bincount(codes[codes >= 0], minlength=1), kind="stable")[:_LEVELS]
    return np.asarray(codes[:, None] == common, dtype=float)


def plain_model(features: Any, y: Any, rows: Indices) -> Any:
    """Return scikit-learn's logistic regression of these rows, columns scaled."""
    scaler = StandardScaler(with_mean=not sparse.issparse(features))
    model = make_pipeline(scaler, LogisticRegression(max_iter=2000))
    return model.fit(features[rows], y[rows])
