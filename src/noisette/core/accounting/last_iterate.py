"""Privacy of releasing only the last iterate of noisy SGD on a smooth convex loss.

For SGD with step eta, noise std sigma on the gradient sum and public normaliser b, the update map
is c-Lipschitz with c = max(|1 - eta m|, |1 - eta M|), adds noise nu = eta sigma/b, and moves by
s = eta Delta/b in the record's own steps and by 0 elsewhere. Lengths are measured in units of
sigma/b, so nu = eta and s = eta r with r = Delta/sigma, the GDP parameter of one participation.
The privacy of X_T follows from `noisette.accounting.last_curves`, whose functions trust their
arguments; `LastIterate` checks the conditions and refuses by name.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noisette import _validate
from noisette._typing import Floats
from noisette.core import plans
from noisette.core.accounting.last_curves import (
    cyclic_last_mu,
    reshuffled_last_delta,
    reshuffled_last_epsilon,
    reshuffled_last_mus,
)
from noisette.core.accounting.minorant import full_batch_last_mu, minorant_mu
from noisette.core.adjacency import Adjacency
from noisette.core.sampling import PassSampler, Shuffle
from noisette.errors import InvalidParameter, Unproven

__all__ = [
    "LOSSES",
    "LastIterateRun",
    "cyclic_last_mu",
    "full_batch_last_mu",
    "last_iterate_run",
    "loss_constants",
    "minorant_mu",
    "reshuffled_last_delta",
    "reshuffled_last_epsilon",
    "reshuffled_last_mus",
]

# name: (coefficient, power of the parameter, bound on |loss'|). With rows |x| <= R the loss is
# coefficient * parameter^power * R^2 smooth and its gradient is at most slope * R.
LOSSES: dict[str, tuple[float, int, float]] = {
    "logistic": (0.25, 0, 1.0),
    "softmax": (0.5, 0, math.sqrt(2.0)),
    "huber_hinge": (0.5, -1, 1.0),  # parameter h: half-width of the quadratic part
    "softplus": (0.25, 1, 1.0),  # parameter s: log(1 + e^{s (1 - margin)}) / s
}


def loss_constants(
    loss: str, *, row_bound: float = 1.0, ridge: float = 0.0, parameter: float | None = None
) -> tuple[float, float, float]:
    """Return (smoothness M, strong convexity m, gradient bound C) of a listed loss.

    M = curvature * R^2 + ridge, m = ridge, C = slope * R (the ridge term is the same on both
    neighbours and is not part of C). Rows must satisfy |x| <= R **including** the bias column, the
    ridge must act on every coordinate, and batches must not exceed the normaliser.
    """
    # proof: GLM-SMOOTHNESS
    if loss not in LOSSES:
        listed = ", ".join(repr(name) for name in LOSSES)
        raise InvalidParameter(
            f"loss must be one of {listed}, whose curvature is known; got {loss!r}."
        )
    coefficient, power, slope = LOSSES[loss]
    if (parameter is None) != (power == 0):
        rule = "takes no parameter" if power == 0 else "needs its smoothing parameter"
        raise InvalidParameter(f"loss {loss!r} {rule}; got {parameter!r}.")
    value = 1.0 if parameter is None else _validate.positive("parameter", parameter)
    row = _validate.positive("row_bound", row_bound)
    lam = _validate.non_negative("ridge", ridge)
    return coefficient * value**power * row * row + lam, lam, slope * row


def _frozen(values: Any) -> Any:
    """Return nested sequences and arrays as nested tuples, other values unchanged."""
    values = values.tolist() if isinstance(values, np.ndarray) else values
    nested = isinstance(values, Sequence) and not isinstance(values, str)
    return tuple(_frozen(v) for v in values) if nested else values


@dataclass(frozen=True, kw_only=True)
class LastIterateRun:
    """One run of plain projected SGD of which only the last iterate leaves, with its guarantee.

    w <- Pi[w - eta (ridge w + (1/b) (sum of the batch's loss gradients + N(0, sigma^2 I)))]

    ==================  ========================================================================
    field               meaning and condition (all public)
    ==================  ========================================================================
    smoothness          M of the batch objective, ridge included; see `loss_constants`
    strong_convexity    m of the batch objective: the ridge, 0 <= m <= M
    step_sizes          one number, one per epoch, or (epochs, batches); each <= 2/M
    batches, epochs     l and E; every record is used once per epoch
    noise_ratio         r = Delta/sigma: 1/z for zero-out, 2/z for replace-one, z = sigma/C
    adjacency           "zero-out", "replace-one"; "add-remove" only for full batches (l = 1)
    order               "cyclic" (any fixed order), "reshuffled" (each epoch), "shuffled-once"
    batch_sizes         one number or one per batch; none above normalizer (else M is too small);
                        unknown: "even" (they differ by at most one) or "rest" (the last is
                        smaller), and none above normalizer
    normalizer          b, the public divisor of the gradient sum
    diameter            of the set that Pi projects onto after every step, inf without projection
    noise_std           sigma/b, the noise std of the averaged gradient; needed with a diameter
    momentum, averaging must be 0 and False: the iteration would not be this contraction
    clipping            "none" or "scalar" (of loss', GLMs only); vector clipping is refused
    released            must be "last-iterate": one checkpoint more voids the theorem
    ==================  ========================================================================

    Also required and not checkable here: a convex per-example loss with the stated M for every
    record, a public start, noise and steps that do not depend on the data or the iterates, no
    data-dependent stopping, and orders drawn independently of the data.
    """

    smoothness: float
    strong_convexity: float
    step_sizes: float | Sequence[float] | Sequence[Sequence[float]]
    batches: int
    epochs: int
    noise_ratio: float
    adjacency: str
    order: str
    batch_sizes: int | Sequence[int] | str
    normalizer: float
    diameter: float = math.inf
    noise_std: float | None = None
    momentum: float = 0.0
    averaging: bool = False
    clipping: str = "none"
    released: str = "last-iterate"

    @classmethod
    def for_loss(
        cls,
        loss: str,
        *,
        noise_multiplier: float,
        adjacency: str,
        row_bound: float = 1.0,
        ridge: float = 0.0,
        parameter: float | None = None,
        **run: Any,
    ) -> "LastIterateRun":
        """Return the run of a listed loss: M, m and r from the table, the other fields from `run`.

        noise_multiplier is z = sigma/C with C the gradient bound of `loss_constants`; then
        r = 1/z, or 2/z for replace-one.
        """
        smooth, strong, _ = loss_constants(
            loss, row_bound=row_bound, ridge=ridge, parameter=parameter
        )
        shift = 2.0 if str(adjacency) == "replace-one" else 1.0
        ratio = shift / _validate.positive("noise_multiplier", noise_multiplier)
        return cls(
            smoothness=smooth,
            strong_convexity=strong,
            noise_ratio=ratio,
            adjacency=adjacency,
            **run,
        )

    def __post_init__(self) -> None:
        # Tuples, so that nothing can change between the checks and the accounting.
        object.__setattr__(self, "step_sizes", _frozen(self.step_sizes))
        object.__setattr__(self, "batch_sizes", _frozen(self.batch_sizes))
        _validate.positive("smoothness", self.smoothness)
        _validate.positive("normalizer", self.normalizer)
        _validate.positive("noise_ratio", self.noise_ratio)
        _validate.integer("batches", self.batches)
        _validate.integer("epochs", self.epochs)
        if not 0.0 <= self.strong_convexity <= self.smoothness:
            raise InvalidParameter(
                "strong_convexity must lie between 0 and smoothness; "
                f"got {self.strong_convexity!r}."
            )
        self._refuse_other_algorithms()
        self._refuse_other_relations()
        steps = self._steps()
        if (steps > 2.0 / self.smoothness).any():
            raise InvalidParameter(
                f"every step size must be at most 2/smoothness = {2.0 / self.smoothness:.6g}, or "
                f"the update does not contract; got {float(steps.max()):.6g}."
            )
        if int(self._sizes().max()) > self.normalizer:
            raise InvalidParameter(
                f"no batch may be larger than the normalizer {self.normalizer!r}, or the batch "
                f"objective is rougher than smoothness; got {int(self._sizes().max())}."
            )
        _validate.positive_or_infinite("diameter", self.diameter)
        if self.diameter < math.inf:
            _validate.positive("noise_std (needed with a diameter)", self.noise_std or 0.0)

    def _refuse_other_algorithms(self) -> None:
        if self.momentum != 0.0:
            raise Unproven(f"momentum must be 0 for last-iterate privacy; got {self.momentum!r}.")
        if self.averaging is not False:
            raise Unproven("averaging must be False: an average reveals more than the last one.")
        if self.released != "last-iterate":
            raise Unproven(
                "released must be 'last-iterate'; use the all-iterates accounting for "
                f"{self.released!r}."
            )
        if self.clipping not in ("none", "scalar"):
            raise Unproven(
                "clipping must be 'none' or 'scalar' (clip loss', not the gradient vector, which "
                f"would no longer be a gradient field); got {self.clipping!r}."
            )

    def _refuse_other_relations(self) -> None:
        adjacency = str(self.adjacency)
        if adjacency not in ("zero-out", "replace-one", "add-remove"):
            raise Unproven(f"adjacency must name a neighbouring relation; got {adjacency!r}.")
        if adjacency == "add-remove" and self.batches > 1:
            raise Unproven(
                "adjacency 'add-remove' is refused with more than one batch, since inserting a "
                "record moves the others to other batches; use 'zero-out' or 'replace-one'."
            )
        if self.order not in ("cyclic", "reshuffled", "shuffled-once"):
            raise Unproven(
                "order must be 'cyclic', 'reshuffled' or 'shuffled-once', where a record is used "
                f"once per epoch; got {self.order!r}."
            )

    def _sizes(self) -> NDArray[np.int64]:
        sizes = np.asarray(1 if self.batch_sizes in ("even", "rest") else self.batch_sizes)
        right = sizes.ndim == 0 or sizes.shape == (self.batches,)
        if not right or not np.issubdtype(sizes.dtype, np.integer) or (sizes < 1).any():
            raise InvalidParameter("batch_sizes must be one whole number >= 1, or one per batch.")
        return np.broadcast_to(sizes, (self.batches,))

    def _steps(self) -> Floats:
        steps = np.asarray(self.step_sizes, dtype=float)
        if steps.shape == (self.epochs,):
            steps = steps[:, None]
        elif steps.shape not in ((), (self.epochs, self.batches)):
            raise InvalidParameter(
                "step_sizes must be one number, one per epoch or epochs x batches."
            )
        if not (np.isfinite(steps).all() and (steps > 0).all()):
            raise InvalidParameter("step_sizes must be positive, finite numbers.")
        return np.broadcast_to(steps, (self.epochs, self.batches))

    def contractions(self) -> Floats:
        """Return c = max(|1 - eta m|, |1 - eta M|), rounded up, shape (epochs, batches).

        It is 1 - eta m as long as eta <= 2/(M + m), and never above 1.
        """
        # proof: GRADIENT-STEP-LIPSCHITZ
        steps = self._steps()
        c = np.maximum(abs(1.0 - steps * self.strong_convexity), steps * self.smoothness - 1.0)
        # Rounding 1 - eta m down would claim a contraction that is not there.
        return np.minimum(c + 2.0**-51, 1.0)

    def _iteration(self) -> dict[str, Any]:
        """Return the arguments of `last_curves`, lengths in units of sigma/b."""
        return {
            "contraction": self.contractions(),
            "batches": self.batches,
            "epochs": self.epochs,
            "noise_ratio": self.noise_ratio,
            "step_size": self._steps(),
            "diameter": self.diameter / self.noise_std if self.noise_std else math.inf,
        }

    def mu(self) -> float:
        """Return mu of the worst position of a record; valid for all three orders."""
        return cyclic_last_mu(**self._iteration())

    def position_mus(self) -> Floats:
        """Return mu given each position in the last epoch; one value for the cyclic order."""
        if self.order == "cyclic":
            return np.array([self.mu()])
        return reshuffled_last_mus(**self._iteration())

    def _position_weights(self) -> Floats | str | None:
        # A uniform permutation puts a record in batch j with probability size_j / n.
        if self.order == "cyclic":
            return None
        known = self.batch_sizes
        return known if isinstance(known, str) else self._sizes().astype(float)

    def delta(self, epsilon: ArrayLike) -> Floats | float:
        """Return the privacy curve of the released iterate at epsilon (any shape)."""
        return reshuffled_last_delta(epsilon, self.position_mus(), self._position_weights())

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon with delta(epsilon) <= delta, rounded up."""
        return reshuffled_last_epsilon(delta, self.position_mus(), self._position_weights())


def last_iterate_run(leaf: plans.LastIterate, adjacency: Adjacency) -> LastIterateRun:
    """Return the checked description of a last-iterate leaf; refuses what has no proof."""
    sampler, batches, normalizer = leaf.sampler, leaf.sampler.steps, 1.0
    sizes: list[int] | str = "even" if getattr(sampler, "batch_size", None) is None else "rest"
    if adjacency is Adjacency.ADD_REMOVE and leaf.size is None:
        # The number of rows is not public, so the sum cannot be divided by it.
        raise Unproven(
            "last-iterate privacy under add-remove needs `size`, a public number that divides the "
            "gradient sum and that the number of records never exceeds; state it, or use "
            "replace-one or zero-out."
        )
    if leaf.size is not None and isinstance(sampler, PassSampler):
        edges = sampler.edges(leaf.size)
        sizes = [int(b - a) for a, b in itertools.pairwise(edges)]
        normalizer = sampler.normaliser(leaf.size)
    return LastIterateRun.for_loss(
        leaf.loss,
        noise_multiplier=leaf.mechanism.noise_multiplier,  # type: ignore[attr-defined]
        adjacency=adjacency.value,
        row_bound=leaf.norm_bound,
        ridge=leaf.regularization,
        parameter=leaf.loss_parameter,
        step_sizes=leaf.learning_rate,
        batches=batches,
        epochs=leaf.epochs,
        order="reshuffled" if isinstance(sampler, Shuffle) else "cyclic",
        batch_sizes=sizes,
        normalizer=normalizer,
    )
