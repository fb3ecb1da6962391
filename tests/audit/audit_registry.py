"""Every kind of estimator in the library, for the audit: add a new one to the list."""

from typing import Any

from noisette.linear import LinearSVC, LogisticRegression, SGDClassifier
from noisette.sampling import Disjoint

GUESS: dict[str, Any] = {"adjacency": "add-remove", "population": 600}
BLANK: dict[str, Any] = {"adjacency": "zero-out"}
THREE: dict[str, Any] = {"classes": ["a", "b", "c"]}
BATCHES: dict[str, Any] = {"batch_size": 60, "delta": 1e-5}

# in the default run: each mechanism, relation and sampler at least once
SHORT: list[Any] = [
    LogisticRegression(),
    LogisticRegression(mechanism="output", **GUESS),
    LogisticRegression(epsilon=0.5, delta=1e-6, fit_intercept=False, **BLANK, **THREE),
    LogisticRegression(delta=1e-6, whiten=0.1, norm_bound=2.0),
    LinearSVC(loss="hinge", **BLANK),
    LinearSVC(loss="huber", norm_bound=3.0, **THREE),
    SGDClassifier(),
    SGDClassifier(delta=1e-5),
    SGDClassifier(sampling="poisson", **BATCHES, **GUESS),
    SGDClassifier(sampling="shuffle", epochs=2, released="last", **BATCHES),
]

# by `make slow`: the rest
LONG: list[Any] = [
    LogisticRegression(epsilon=3.0, **GUESS),
    LogisticRegression(**BLANK, norm_bound=5.0),
    LogisticRegression(mechanism="output", **BLANK),
    LogisticRegression(mechanism="output", delta=1e-6, epsilon=0.2),
    LogisticRegression(mechanism="output", multi_class="ovr", **THREE),
    LogisticRegression(multi_class="ovr", **THREE, **GUESS),
    LogisticRegression(delta=1e-6, **THREE),
    LogisticRegression(delta=1e-6, whiten=0.2, **THREE, **BLANK),
    LogisticRegression(delta=1e-6, whiten=0.1, **GUESS),
    LinearSVC(),
    LinearSVC(**GUESS, norm_bound=0.3),
    LinearSVC(loss="hinge", **THREE),
    LinearSVC(loss="huber", **BLANK),
    LinearSVC(mechanism="output", delta=1e-6),
    SGDClassifier(**BLANK, fit_intercept=False),
    SGDClassifier(**THREE),
    SGDClassifier(loss="hinge", sampling=Disjoint(8, 40), norm_bound=2.0),
    SGDClassifier(delta=1e-5, sampling="disjoint"),
    SGDClassifier(delta=1e-5, **BLANK),
    SGDClassifier(delta=1e-5, loss="softplus", **GUESS),
    SGDClassifier(delta=1e-5, **THREE),
    SGDClassifier(sampling="poisson", **BATCHES, epochs=2),
    SGDClassifier(sampling="without-replacement", **BATCHES),
    SGDClassifier(sampling="random-allocation", **BATCHES, **BLANK),
    SGDClassifier(sampling="partial-shuffle", **BATCHES),
    SGDClassifier(sampling="cyclic", norm_bound=None, clip_norm=0.5, epochs=3, **BATCHES),
    SGDClassifier(sampling="full", epochs=20, **BATCHES, **GUESS),
    SGDClassifier(sampling="cyclic", epochs=2, released="last", **BATCHES, **BLANK),
    SGDClassifier(sampling="cyclic", noise="spherical-laplace", delta=0.0, epochs=2, batch_size=60),
]


def name(estimator: Any) -> str:
    return " ".join(repr(estimator).split())
