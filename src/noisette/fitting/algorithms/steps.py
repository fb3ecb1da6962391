"""The SGD update and its public facts, shared by every iterative algorithm.

    w <- Pi_radius[ w - eta_t ( lambda w + (sum of the batch's gradients + noise) / b ) ]

`Update` holds what is public and frozen, `State` what the noise has already made private.
"""

import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from noisette import _validate
from noisette._typing import Floats, Integers
from noisette.core.adjacency import Adjacency
from noisette.core.bounded import Bounded, InKernel
from noisette.core.parts import each
from noisette.core.randomness import Randomness
from noisette.core.sampling import Sampler
from noisette.errors import Unproven
from noisette.fitting.clipping import checked_bound
from noisette.fitting.losses import Loss, Softmax
from noisette.fitting.losses.blocks import back
from noisette.fitting.losses.rows import Rows
from noisette.fitting.units import Unit

LEARNING_RATES = ("inverse-sqrt", "inverse", "constant")
_BLOCK_ENTRIES = 1 << 17  # noise entries per block: 1 MB, which stays in cache


@dataclass(frozen=True)
class Update:
    """Public facts of the update.

    Parameters
    ----------
    loss : any loss of a linear model; one without a bounded gradient needs `clip_norm`.
    norm_bound : rows are clipped to this norm before the bias entry is added; None: not clipped.
    bias : the constant last entry of every row, None for none.
    clip_norm : bound on one record's gradient, None for the loss's own bound L R.
    regularization : lambda beside the *mean* loss.
    learning_rate, eta0 : c / sqrt(t), 1 / (lambda t) or constant; eta0 is c (unused by "inverse").
    radius : of the ball that iterates are projected onto, inf for none.
    averaging : p >= 0 weighs iterate t by about t^p in the mean that is returned (a running mean
        that needs no horizon; Shamir and Zhang 2013); None returns the last iterate.

    """

    loss: Loss
    norm_bound: float | None = 1.0
    bias: float | None = None
    clip_norm: float | None = None
    regularization: float = 1e-4
    learning_rate: str = "inverse-sqrt"
    eta0: float = 1.0
    radius: float = math.inf
    averaging: float | None = None

    def __post_init__(self) -> None:
        if not math.isfinite(self.loss.lipschitz) and self.clip_norm is None:
            raise Unproven(f"the {self.loss.name} loss has no bounded gradient; give clip_norm.")
        _validate.choice("learning_rate", self.learning_rate, LEARNING_RATES)
        # plain floats, since a fraction would be refused by the kernels, after the charge
        _validate.fields(self, eta0=_validate.positive, regularization=_validate.non_negative)
        for name in ("clip_norm", "norm_bound"):
            if getattr(self, name) is not None:
                _validate.fields(self, **{name: checked_bound})
        _validate.refuse(
            (
                self.learning_rate == "inverse" and self.regularization == 0.0,
                "learning_rate='inverse' is 1 / (regularization t) and needs regularization > 0; "
                "got 0.",
            ),
            (
                self.norm_bound is None and self.clip_norm is None,
                "norm_bound=None leaves gradients unbounded; give norm_bound or clip_norm.",
            ),
        )
        _validate.positive_or_infinite("radius", self.radius)

    @property
    def row_bound(self) -> float:
        """R, the norm bound of a row with its bias entry (inf if rows are not clipped)."""
        bound = math.inf if self.norm_bound is None else self.norm_bound
        return math.hypot(bound, self.bias) * (1.0 + 2.0**-50) if self.bias else bound  # rounded up

    @property
    def contribution(self) -> float:
        """C, the norm bound of one record's gradient: the smaller of L R and the clip norm."""
        # proof: CLIP
        own = self.loss.lipschitz * self.row_bound
        return own if self.clip_norm is None else min(own, self.clip_norm)

    @property
    def clip(self) -> float:
        """What kernels cut gradients to: inf where the loss's own bound is already smaller."""
        return math.inf if self.clip_norm is None else self.contribution

    def shape(self, features: int) -> tuple[int, ...]:
        """Shape of the parameter for rows of that many features, bias included."""
        return self.loss.parameter_shape(features + (self.bias is not None))

    def dimension(self, features: int) -> int:
        """Number of parameters."""
        return math.prod(self.shape(features))

    def rates(self, first: int, count: int) -> tuple[Floats, Floats]:
        """Return eta_t and gamma_t (of the mean) for the steps first + 1 .. first + count."""
        t, power = np.arange(first + 1, first + count + 1, dtype=float), self.averaging
        gamma = np.zeros(count) if power is None else (power + 1.0) / (t + power)
        eta = np.full(count, self.eta0)
        if self.learning_rate == "inverse-sqrt":
            eta /= np.sqrt(t)
        elif self.learning_rate == "inverse":
            eta = 1.0 / (self.regularization * t)
        return eta, gamma

    def bounded(self, features: int, adjacency: Adjacency, proof: str) -> Bounded:
        """Return what stands for the batch sums that the kernel forms."""
        return Bounded(
            InKernel(self.dimension(features)),
            contribution=self.contribution,
            adjacency=adjacency,
            proof=proof,
        )


@dataclass
class State:
    """The iterate, the running mean and the number of steps made (all private by their noise)."""

    w: Floats
    mean: Floats
    steps: int = 0

    @classmethod
    def zero(cls, dimension: int) -> "State":
        """Return the public start: w = 0."""
        return cls(np.zeros(dimension), np.zeros(dimension))

    def result(self, update: Update, features: int) -> Floats:
        """Return the released weights in the loss's shape."""
        chosen = self.w if update.averaging is None else self.mean
        return chosen.reshape(update.shape(features)).copy()


@dataclass(frozen=True)
class Batches:
    """Consecutive batches: rows ``order[edges[t]:edges[t+1]]``; an empty order is 0, 1, 2, ..."""

    edges: Integers
    normalisers: Floats
    order: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.edges) - 1

    @classmethod
    def of(cls, scheduled: list[NDArray[np.intp]], normaliser: float) -> "Batches":
        """Return the batches that a sampler handed out, with its public normaliser."""
        edges = np.zeros(len(scheduled) + 1, dtype=np.int64)
        np.cumsum([len(batch) for batch in scheduled], out=edges[1:])
        order = np.concatenate(scheduled).astype(np.int64, copy=False)
        return cls(edges, np.full(len(scheduled), float(normaliser)), order)

    def rows_of(self, unit: Unit, *, drawn: bool = False) -> "Batches":
        """Return the same batches by rows; see `Unit.batches`."""
        edges, rows = unit.batches(self.edges, self.order, drawn=drawn)
        return Batches(edges, self.normalisers, rows)

    def blocks(self, dimension: int) -> Iterator["Batches"]:
        """Yield pieces whose noise stays in cache."""
        most = max(1, _BLOCK_ENTRIES // dimension)
        for start in range(0, len(self), most):
            stop = min(start + most, len(self))
            yield Batches(self.edges[start : stop + 1], self.normalisers[start:stop], self.order)


def in_random_order(unit: Unit, sampler: Sampler, randomness: Randomness) -> Unit:
    """Return the units as a sampler may number them, for a whole run and after its charge."""
    return unit if sampler.independent else unit.shuffled(randomness)


class Progress:
    """A line on stderr about once a second: steps and time, which are public, and nothing else."""

    def __init__(self, verbose: int, total: int | None) -> None:
        self._on, self._total = bool(verbose), total
        self._start = self._last = time.monotonic()

    def show(self, steps: int) -> None:
        """Tell that `steps` steps are done."""
        now = time.monotonic()
        if self._on and (now - self._last >= 1.0 or steps == self._total):
            self._last = now
            of = "" if self._total is None else f" of {self._total:,}"
            print(f"noisette: step {steps:,}{of}, {now - self._start:.1f} s", file=sys.stderr)


def canonical_rows(X: Any) -> Any:
    """Return rows as the kernels read them: C-ordered float32 or float64, or canonical CSR."""
    return each(_canonical, X)


def _canonical(X: Any) -> Any:
    if not sparse.issparse(X):
        return np.ascontiguousarray(X)
    if not X.has_canonical_format:
        # an entry stored in two halves would pass a norm check that it should fail
        X = X.copy()
        X.sum_duplicates()
    return X


def advance(
    update: Update, state: State, X: Any, y: Any, batches: Batches, noise: Floats, grid: float,
    share: Floats | None = None,
) -> None:  # fmt: skip
    """Run one step per noise vector; `share` holds c_i in [0, 1], how much of its gradient a
    record contributes.
    """
    from noisette.fitting.algorithms import kernels

    loss, count, thin = update.loss, len(noise), sparse.issparse(X)
    limit = math.inf if update.norm_bound is None else update.norm_bound
    eta, gamma = update.rates(state.steps, count)
    shares, order, edges = np.empty(0) if share is None else share, batches.order, batches.edges
    if isinstance(loss, Softmax) and thin:
        # only the rows of these batches, dense and in the order of their use
        used = order[edges[0] : edges[-1]] if len(order) else slice(edges[0], edges[-1])
        X, y, thin = X[used].toarray(), y[used], False
        shares = shares[used] if len(shares) else shares
        order, edges = order[:0], edges - edges[0]
    moved = (state.w, state.mean)
    rule = (update.regularization, batches.normalisers, update.radius)
    given = (y, shares, order, edges, *moved, noise, grid, eta, gamma, *rule)
    bounds = (limit, update.bias or 0.0, update.clip)
    if isinstance(loss, Softmax):
        kernels.softmax_steps(X, *given, *bounds, loss.basis)
    elif loss.kernel is None:
        for t in range(count):
            rows: Any = slice(int(edges[t]), int(edges[t + 1]))
            rows = order[rows] if len(order) else rows
            part = None if share is None else share[rows]
            g = noise[t] + blocked_gradient(X[rows], y[rows], update, part)(state.w)
            ridge, normalisers, radius = rule
            kernels.take_step(*moved, g, grid, eta[t], gamma[t], ridge, normalisers[t], radius)
    elif thin:
        own = (X.data, X.indices, X.indptr, X.shape[1])
        kernels.sparse_steps(*own, *given, *bounds, loss.kernel, loss.smoothing or 0.0)
    else:
        many = edges[-1] - edges[0] >= kernels.MANY * count
        kernels.dense_steps(X, many, *given, *bounds, loss.kernel, loss.smoothing or 0.0)
    state.steps += count


CUT_SHORT = 1e-14
"""A gradient that is cut is shorter than its limit by so much, relatively."""


def blocked_gradient(X: Any, y: NDArray[Any], update: "Update", share: Floats | None) -> Any:
    """Return w -> sum of clipped gradients, by blocks of matrix products."""
    loss, bias = update.loss, update.bias
    rows = Rows(X)
    with np.errstate(over="ignore"):
        lengths = np.sqrt(rows.squared_norms())
    blank = ~(lengths < 1e100)  # as in the kernels
    lengths[blank] = 0.0
    factor = np.where(blank, 0.0, 1.0)
    if update.norm_bound is not None:
        limit = update.norm_bound * (1.0 - (rows.d + 4) * 2.0**-53)  # proof: CLIP
        long = lengths > limit
        factor[long] = limit / lengths[long]
    full = np.hypot(lengths * factor, bias or 0.0)

    def gradient(w: Floats) -> Floats:
        W = w.reshape(update.shape(rows.d))
        total = np.zeros_like(W)
        for part, block in rows.blocks():
            if blank[part].any():  # 0 times infinity would be NaN
                block = block.copy()
                if sparse.issparse(block):
                    block.data[np.repeat(blank[part], np.diff(block.indptr))] = 0.0
                else:
                    block[blank[part]] = 0.0
            f = factor[part] if W.ndim == 1 else factor[part][:, None]
            inner = W if bias is None else W[..., :-1]
            scores = _finite(block @ inner.T) * f
            if bias is not None:
                scores = scores + bias * W[..., -1]
            derivative = _finite(np.asarray(loss.at_scores(scores, y[part])[1], dtype=float))
            scale = np.ones(len(full[part])) if share is None else share[part].copy()
            if update.clip < math.inf:
                size = np.abs(derivative) if W.ndim == 1 else np.linalg.norm(derivative, axis=1)
                size = size * full[part]
                over = size > update.clip
                scale[over] *= update.clip * (1.0 - CUT_SHORT) / size[over]
            derivative = derivative * (scale if W.ndim == 1 else scale[:, None])
            inner_total = total if bias is None else total[..., :-1]
            inner_total += back(block, derivative * f)
            if bias is not None:
                total[..., -1] += bias * derivative.sum(axis=0)
        return total.ravel()

    return gradient


def _finite(values: Floats) -> Floats:
    """Return 0 for what is not finite: with weights beyond 1e200 a NaN would pass every noise."""
    good = np.isfinite(values)
    return values if bool(good.all()) else np.where(good, values, 0.0)
