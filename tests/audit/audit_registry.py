"""Every kind of estimator in the library, for the audit: add a new one to the list."""

from typing import Any

from noisette.core.sampling import Disjoint
from noisette.models import (
    HuberRegressor,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    PoissonRegressor,
    SGDClassifier,
    SGDRegressor,
)

GUESS: dict[str, Any] = {"adjacency": "add-remove", "population": 600}
BLANK: dict[str, Any] = {"adjacency": "zero-out"}
THREE: dict[str, Any] = {"classes": ["a", "b", "c"]}
LIMITS: dict[str, Any] = {"norm_bound": 1.0, "target_bounds": (-1, 2)}
BATCHES: dict[str, Any] = {"batch_size": 60, "delta": 1e-5}

# in the default run: each mechanism, relation and sampler at least once
SHORT: list[Any] = [
    LogisticRegression(norm_bound=1.0),
    LogisticRegression(mechanism="output", norm_bound=1.0, **GUESS),
    LogisticRegression(
        epsilon=0.5, delta=1e-6, fit_intercept=False, norm_bound=1.0, **BLANK, **THREE
    ),
    LogisticRegression(delta=1e-6, whiten=0.1, norm_bound=2.0),
    LinearSVC(loss="hinge", norm_bound=1.0, **BLANK),
    SGDClassifier(norm_bound=1.0),
    SGDClassifier(delta=1e-5, norm_bound=1.0),
    SGDClassifier(sampling="poisson", norm_bound=1.0, **BATCHES, **GUESS),
    SGDClassifier(sampling="shuffle", epochs=2, released="last", norm_bound=1.0, **BATCHES),
]

# by `make slow`: the rest
LONG: list[Any] = [
    LinearRegression(**LIMITS),
    LinearRegression(delta=0.0, rounds=0, **LIMITS, **GUESS),
    HuberRegressor(**LIMITS),
    HuberRegressor(delta=1e-6, mechanism="objective", fit_intercept=False, **LIMITS, **GUESS),
    HuberRegressor(delta=1e-6, mechanism="output", **LIMITS, **BLANK),
    SGDRegressor(**LIMITS),
    PoissonRegressor(most_count=2, norm_bound=1.0),
    SGDRegressor(sampling="poisson", **LIMITS, **BATCHES),
    LogisticRegression(epsilon=3.0, norm_bound=1.0, **GUESS),
    LogisticRegression(**BLANK, norm_bound=5.0),
    LogisticRegression(mechanism="output", norm_bound=1.0, **BLANK),
    LogisticRegression(mechanism="output", delta=1e-6, epsilon=0.2, norm_bound=1.0),
    LogisticRegression(mechanism="output", multi_class="ovr", norm_bound=1.0, **THREE),
    LogisticRegression(multi_class="ovr", norm_bound=1.0, **THREE, **GUESS),
    LogisticRegression(delta=1e-6, norm_bound=1.0, **THREE),
    LogisticRegression(delta=1e-6, whiten=0.2, norm_bound=1.0, **THREE, **BLANK),
    LogisticRegression(delta=1e-6, whiten=0.1, norm_bound=1.0, **GUESS),
    LinearSVC(norm_bound=1.0),
    LinearSVC(**GUESS, norm_bound=0.3),
    LinearSVC(loss="hinge", norm_bound=1.0, **THREE),
    LinearSVC(loss="huber", norm_bound=3.0, **THREE),
    LinearSVC(loss="huber", norm_bound=1.0, **BLANK),
    LinearSVC(mechanism="output", delta=1e-6, norm_bound=1.0),
    SGDClassifier(norm_bound=1.0, **BLANK, fit_intercept=False),
    SGDClassifier(norm_bound=1.0, **THREE),
    SGDClassifier(loss="hinge", sampling=Disjoint(8, 40), norm_bound=2.0),
    SGDClassifier(delta=1e-5, sampling="disjoint", norm_bound=1.0),
    SGDClassifier(delta=1e-5, norm_bound=1.0, **BLANK),
    SGDClassifier(delta=1e-5, loss="softplus", norm_bound=1.0, **GUESS),
    SGDClassifier(delta=1e-5, norm_bound=1.0, **THREE),
    SGDClassifier(sampling="poisson", norm_bound=1.0, **BATCHES, epochs=2),
    SGDClassifier(sampling="without-replacement", norm_bound=1.0, **BATCHES),
    SGDClassifier(sampling="random-allocation", norm_bound=1.0, **BATCHES, **BLANK),
    SGDClassifier(sampling="partial-shuffle", norm_bound=1.0, **BATCHES),
    SGDClassifier(sampling="cyclic", norm_bound=None, clip_norm=0.5, epochs=3, **BATCHES),
    SGDClassifier(sampling="full", epochs=20, norm_bound=1.0, **BATCHES, **GUESS),
    SGDClassifier(sampling="cyclic", epochs=2, released="last", norm_bound=1.0, **BATCHES, **BLANK),
    SGDClassifier(
        sampling="cyclic",
        noise="spherical-laplace",
        delta=0.0,
        epochs=2,
        batch_size=60,
        norm_bound=1.0,
    ),
]


def name(estimator: Any) -> str:
    return " ".join(repr(estimator).split())
