"""The iterative algorithms as functions of rows and labels, a watcher, and a NumPy twin."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from helpers import watching
from noisette.core.ledger import Ledger
from noisette.core.randomness import Randomness
from noisette.core.sampling import Sampler
from noisette.fitting.algorithms import (
    Algorithm,
    GradientDescent,
    NoisySGD,
    Public,
    Records,
    SinglePass,
    Trained,
    train,
)
from noisette.fitting.algorithms.steps import Update


def facts(
    update: Update, features: int, ledger: Ledger, epsilon: float, delta: float, size: int | None
) -> Public:
    """Public facts of rows of that many features, without the bias entry."""
    return Public(
        epsilon=epsilon, delta=delta, adjacency=ledger.adjacency, size=size, loss=update.loss,
        features=features + (update.bias is not None), norm_bound=update.row_bound,
    )  # fmt: skip


def run(
    algorithm: Algorithm[Any], X: Any, y: Any, update: Update, randomness: Randomness, *,
    ledger: Ledger, epsilon: float, delta: float = 0.0, population: int | None = None,
    sample_weight: Any = None, observer: Any = None,
) -> Trained:  # fmt: skip
    """Train once; n is public unless the ledger's relation says otherwise."""
    size = X.shape[0] if ledger.adjacency.size_is_public else population
    with watching(observer):
        return train(
            algorithm, facts(update, X.shape[1], ledger, epsilon, delta, size),
            Records(X, [y], sample_weight), ledger=ledger, randomness=randomness,
        )  # fmt: skip


def single_pass(
    X: Any, y: Any, update: Update, randomness: Randomness, *, batch_size: int,
    noise: str = "spherical-laplace", permute: bool = False, levels: Any = None, **given: Any,
) -> Trained:  # fmt: skip
    algorithm = SinglePass(update, batch_size, noise, permute, levels)
    return run(algorithm, X, y, update, randomness, **{"population": X.shape[0], **given})


def noisy_sgd(
    X: Any, y: Any, update: Update, randomness: Randomness, *, sampler: Sampler, uses: int,
    noise: str = "gaussian", released: str = "all", levels: Any = None,
    multiplier: float | None = None, **given: Any,
) -> Trained:  # fmt: skip
    algorithm = NoisySGD(update, sampler, uses, noise, released, levels, multiplier)
    return run(algorithm, X, y, update, randomness, **given)


def gradient_descent(
    X: Any, y: Any, update: Update, randomness: Randomness, *, levels: Any = None,
    schedule: Any = None, **given: Any,
) -> Trained:  # fmt: skip
    return run(GradientDescent(update, levels, schedule), X, y, update, randomness, **given)


@dataclass
class Recorded:
    """Collects the batches of all steps that ran."""

    batches: list[Any] = field(default_factory=list)

    def advance(self, real: Any, *steps: Any) -> None:
        ran = steps[4]
        for start, stop in zip(ran.edges[:-1], ran.edges[1:], strict=True):
            rows = ran.order[start:stop] if len(ran.order) else np.arange(start, stop)
            self.batches.append(rows.copy())
        real(*steps)


def twin(update, X, y, batches, noise, grid, share=None, steps=0):
    """The update as the docstring writes it, one row at a time."""
    loss, w = update.loss, np.zeros(update.shape(X.shape[1]))
    mean = np.zeros_like(w)
    for t, z in enumerate(noise):
        g = np.zeros_like(w)
        rows = range(batches.edges[t], batches.edges[t + 1])
        for i in [batches.order[k] for k in rows] if len(batches.order) else rows:
            x = X[i] * min(1.0, (update.norm_bound or math.inf) / max(np.linalg.norm(X[i]), 1e-300))
            x = x if update.bias is None else np.append(x, update.bias)
            gi = np.multiply.outer(loss.at_scores((w @ x)[None], y[i : i + 1])[1][0], x)
            gi *= min(1.0, update.clip / max(np.linalg.norm(gi), 1e-300))
            g += gi * (1.0 if share is None else share[i])
        noisy = np.rint((g + z.reshape(w.shape)) / grid) * grid if grid else g + z.reshape(w.shape)
        eta = update.rates(steps + t, 1)[0][0]
        w = w - eta * (update.regularization * w + noisy / batches.normalisers[t])
        w *= min(1.0, update.radius / max(np.linalg.norm(w), 1e-300))
        if update.averaging is not None:
            p = update.averaging
            mean += (p + 1) / (t + 1 + p) * (w - mean)
    return mean if update.averaging is not None else w
