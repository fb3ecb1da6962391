"""The iterative algorithms as functions of rows and labels, and an observer of their batches."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from noisette.privacy import Ledger
from noisette.randomness import Randomness
from noisette.sampling import Sampler
from noisette.training import (
    Algorithm,
    GradientDescent,
    NoisySGD,
    Observer,
    Public,
    Records,
    SinglePass,
    Trained,
    train,
)
from noisette.training.steps import Update


def facts(
    update: Update, features: int, ledger: Ledger, epsilon: float, delta: float, size: int | None
) -> Public:
    """Public facts of rows of that many features, without the bias entry."""
    return Public(
        epsilon, delta, ledger.adjacency, update.loss, features + (update.bias is not None),
        update.row_bound, size,
    )  # fmt: skip


def run(
    algorithm: Algorithm[Any], X: Any, y: Any, update: Update, randomness: Randomness, *,
    ledger: Ledger, epsilon: float, delta: float = 0.0, population: int | None = None,
    sample_weight: Any = None, observer: Observer | None = None,
) -> Trained:  # fmt: skip
    """Train once; n is public unless the ledger's relation says otherwise."""
    size = X.shape[0] if ledger.adjacency.size_is_public else population
    return train(
        algorithm, facts(update, X.shape[1], ledger, epsilon, delta, size),
        Records(X, [y], sample_weight), ledger=ledger, randomness=randomness, observer=observer,
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
class Recorded(Observer):
    """Collects the batches of all steps that ran."""

    batches: list[Any] = field(default_factory=list)

    def advance(self, real: Any, *steps: Any) -> None:
        ran = steps[4]
        for start, stop in zip(ran.edges[:-1], ran.edges[1:], strict=True):
            rows = ran.order[start:stop] if len(ran.order) else np.arange(start, stop)
            self.batches.append(rows.copy())
        real(*steps)
