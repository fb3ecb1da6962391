"""The black-box part of the battery: `two_worlds` on canaries, with a direction from a pilot.

Only ``fit`` and what a fitted model shows are used: ``coef_`` and ``intercept_``, else
``predict_proba`` or ``decision_function`` at probe rows. Some pilot fits in each world choose the
direction in which the worlds differ most; they are not used again. The error rate is split over the
canaries.
"""

import copy
import warnings
import zlib
from dataclasses import replace
from typing import Any

import numpy as np

from noisette._typing import Floats
from noisette.audit.canaries import CANARIES, Neighbours
from noisette.audit.findings import Finding
from noisette.audit.two_worlds import two_worlds
from noisette.audit.whitebox.subject import AuditedEstimator
from noisette.audit.worlds import released
from noisette.errors import PrivacyWarning, Unproven, WeakModelWarning

FIRST_LOOK = ("saturated push",)
"""Canaries for estimators that the white-box checks have already seen from inside."""
WHOLE_PERSONS = ("saturated push", "orthogonal")
"""The same for claims about persons: forty rows alone in their direction show in a single pass."""
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
        with warnings.catch_warnings():  # of hundreds of fits, some warn of what noise did
            warnings.simplefilter("ignore", WeakModelWarning)
            warnings.simplefilter("ignore", PrivacyWarning)
            fitted = self._model.fit(X, y, **options)
        return self._model if fitted is None else fitted


class Maker:
    """Makes fresh estimators, each with its own seed (None: the randomness that users get)."""

    def __init__(self, bare: Any, first_seed: int | None) -> None:
        self._bare, self._next = bare, first_seed

    def __call__(self) -> _Bound:
        """Return the next one."""
        from sklearn.base import clone

        model = clone(self._bare)
        if self._next is not None:
            self._next += 1
            model.set_params(random_state=self._next)
        return _Bound(model)


class Projection:
    """The model's numbers along a direction."""

    def __init__(self, probes: Floats, direction: Floats) -> None:
        self._probes, self._direction = probes, direction

    def __call__(self, model: Any) -> float:
        """Return the number of one fitted model."""
        numbers = _numbers(model, self._probes)
        if numbers is None or numbers.shape != self._direction.shape:
            return -np.inf  # another shape than in the pilot is an outcome of its own
        return float(numbers @ self._direction)


class Shown:
    """The released numbers: those of a linear model, else what it says of the probe rows."""

    def __init__(self, probes: Floats) -> None:
        self._probes = probes

    def __call__(self, model: Any) -> Any:
        """Return the numbers of one fitted model."""
        found = released(model)
        return _numbers(model, self._probes) if found is None else found


def _numbers(model: Any, probes: Floats) -> Floats | None:
    """Return what the model shows, as one vector; None if it shows nothing."""
    if hasattr(model, "coef_"):
        parts = [np.ravel(model.coef_), np.ravel(getattr(model, "intercept_", 0.0))]
        return np.concatenate([np.asarray(part, dtype=float) for part in parts])
    for name in ("decision_function", "predict_proba", "predict"):
        if hasattr(model, name):
            found = np.asarray(getattr(model, name)(probes))
            if found.dtype.kind not in "biuf":  # labels that are words: any fixed code will do
                found = np.array([zlib.crc32(str(label).encode()) for label in found.ravel()])
            return np.asarray(found, dtype=float).ravel()
    return None


def from_outside(
    subject: AuditedEstimator, *, alpha: float, runs: int, n_jobs: int, progress: bool,
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
            found.append(_nothing(subject, pair, "No data set says that a record is blank."))
    return found


def _nothing(subject: AuditedEstimator, pair: Neighbours, why: str) -> Finding:
    name = f"two worlds: {pair.name}"
    return Finding(name, subject.claim, None, 1.0, "not applicable", 0, why)


def _one(
    subject: AuditedEstimator,
    pair: Neighbours,
    alpha: float,
    runs: int,
    n_jobs: int,
    progress: bool,
) -> list[Finding]:
    reproducible = subject.ours and n_jobs == 1
    seed = 10_007 * (subject.seed + 1) if reproducible else None
    make = Maker(subject.make(**subject.unseeded()), seed)
    probes = np.stack([pair.first.X[pair.index], np.zeros(pair.first.X.shape[1])])
    sides = [(side.X, (side.y, side.options)) for side in (pair.first, pair.second)]
    if not subject.ours:
        refused = _refused(make, sides)
        if refused is not None:
            return [_nothing(subject, pair, refused)]
    direction = direction_of(make, sides, probes)
    if direction is None:
        why = "The fitted model shows no coef_ and predicts nothing that could be compared."
        return [_nothing(subject, pair, why)]
    result = two_worlds(
        make, sides[0], sides[1], claim=subject.claim, statistic=Projection(probes, direction),
        runs=runs, confidence=1.0 - alpha, output=Shown(probes), n_jobs=n_jobs, progress=progress,
        name=f"two worlds: {pair.name}",
    )  # fmt: skip
    if subject.ours:
        return list(result.findings)
    said = f" The worlds are neighbours under {subject.adjacency}."
    return [replace(found, detail=found.detail + said) for found in result.findings]


def _refused(make: Maker, sides: list[Any]) -> str | None:
    """Return why a stranger cannot be fitted on these worlds, or None if it can."""
    for side, where in zip(sides, ("D", "D'"), strict=True):
        X, packed = copy.deepcopy(side)
        try:
            make().fit(X, packed)
        except Exception as error:
            return (
                f"fit refuses {where} with {type(error).__name__}, so nothing was compared; a "
                "refusal that depends on one record shows it."
            )
    return None


def direction_of(make: Maker, sides: list[Any], probes: Floats) -> Floats | None:
    """Return the difference of the worlds' means over their variances, coordinate by coordinate.

    Fits that show another shape than the first are left out; None if there is nothing to see.
    """
    shown = [
        [_numbers(make().fit(*copy.deepcopy(side)), probes) for _ in range(_PILOT)]
        for side in sides
    ]
    first = shown[0][0]
    if first is None or not first.size:
        return None
    worlds = [[e for e in each if e is not None and e.shape == first.shape] for each in shown]
    if not all(worlds):
        return np.ones(first.shape)  # the shape alone tells them apart
    gap = np.mean(worlds[0], axis=0) - np.mean(worlds[1], axis=0)
    spread = np.var(worlds[0], axis=0) + np.var(worlds[1], axis=0)
    floor = 1e-12 * (1.0 + float(np.max(spread)))
    return np.asarray(gap / (spread + floor))
