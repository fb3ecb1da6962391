"""The black-box part of the battery: `two_worlds` on canaries, with a direction from a pilot.

Only ``fit`` and what a fitted model shows are used: ``coef_`` and ``intercept_``, else
``predict_proba`` or ``decision_function`` at probe rows. Some pilot fits in each world choose the
direction in which the worlds differ most; they are not used again. The error rate is split over the
canaries.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette.audit.canaries import CANARIES, Pair
from noisette.audit.findings import Finding
from noisette.audit.two_worlds import two_worlds
from noisette.audit.whitebox.subject import Subject
from noisette.errors import Unproven

__all__ = ["FIRST_LOOK", "STRANGERS", "from_outside"]

Floats = NDArray[np.float64]

FIRST_LOOK = ("saturated push",)
"""Canaries for estimators that the white-box checks have already seen from inside."""
STRANGERS = ("saturated push", "intercept only", "long row", "opposite row", "label flip")
"""Canaries for everybody else's."""
_MOST_ROWS = 300
_PILOT = 30


class _Bound:
    """An estimator whose ``fit`` takes further arguments from the second half of the data."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def fit(self, X: Any, packed: Any) -> Any:
        y, options = packed
        fitted = self._model.fit(X, y, **options)
        return self._model if fitted is None else fitted


class _Maker:
    """Makes fresh estimators, each with its own seed (None: the randomness that users get)."""

    def __init__(self, bare: Any, first_seed: int | None) -> None:
        self._bare, self._next = bare, first_seed

    def __call__(self) -> _Bound:
        from sklearn.base import clone

        model = clone(self._bare)
        if self._next is not None:
            self._next += 1
            model.set_params(random_state=self._next)
        return _Bound(model)


class _Projection:
    """The model's numbers along a direction."""

    def __init__(self, probes: Floats, direction: Floats) -> None:
        self._probes, self._direction = probes, direction

    def __call__(self, model: Any) -> float:
        return float(_numbers(model, self._probes) @ self._direction)


def _numbers(model: Any, probes: Floats) -> Floats:
    """Return what the model shows, as one vector."""
    if hasattr(model, "coef_"):
        parts = [np.ravel(model.coef_), np.ravel(getattr(model, "intercept_", 0.0))]
        return np.concatenate([np.asarray(part, dtype=float) for part in parts])
    for name in ("decision_function", "predict_proba", "predict"):
        if hasattr(model, name):
            return np.asarray(getattr(model, name)(probes), dtype=float).ravel()
    return np.zeros(1)


def from_outside(
    subject: Subject, *, alpha: float, runs: int, n_jobs: int, progress: bool,
    names: tuple[str, ...],
) -> list[Finding]:  # fmt: skip
    """Return the findings of `two_worlds` on the named canaries."""
    room = subject.room()
    most = _MOST_ROWS if room.most is None else min(room.most, _MOST_ROWS)
    room = replace(room, most=most)
    found: list[Finding] = []
    for name in names:
        pair = CANARIES[name](room)
        try:
            found += _one(subject, pair, alpha / len(names), runs, n_jobs, progress)
        except Unproven:  # ``fit`` cannot be told of a blank record, so there is no neighbour
            found.append(
                Finding(
                    f"two worlds: {name}", subject.claim, None, 1.0, "not applicable", 0,
                    "No data set says that a record is blank.",
                )
            )  # fmt: skip
    return found


def _one(
    subject: Subject, pair: Pair, alpha: float, runs: int, n_jobs: int, progress: bool
) -> list[Finding]:
    reproducible = subject.ours and n_jobs == 1
    seed = 10_007 * (subject.seed + 1) if reproducible else None
    changes = {"random_state": None} if "random_state" in subject.parameters else {}
    make = _Maker(subject.make(**changes), seed)
    probes = np.stack([pair.first.X[pair.index], np.zeros(pair.first.X.shape[1])])
    sides = [(side.X, (side.y, side.options)) for side in (pair.first, pair.second)]
    statistic = _Projection(probes, _direction(make, sides, probes))
    result = two_worlds(
        make, sides[0], sides[1], claim=subject.claim, statistic=statistic, runs=runs,
        confidence=1.0 - alpha, n_jobs=n_jobs, progress=progress, name=f"two worlds: {pair.name}",
    )  # fmt: skip
    return list(result.findings)


def _direction(make: _Maker, sides: list[Any], probes: Floats) -> Floats:
    """Return the difference of the worlds' means over their variances, coordinate by coordinate."""
    worlds = []
    for X, packed in sides:
        worlds.append(np.array([_numbers(make().fit(X, packed), probes) for _ in range(_PILOT)]))
    gap = worlds[0].mean(axis=0) - worlds[1].mean(axis=0)
    spread = worlds[0].var(axis=0) + worlds[1].var(axis=0)
    floor = 1e-12 * (1.0 + float(np.max(spread)))
    return np.asarray(gap / (spread + floor))
