"""What `SGDClassifier` fixes from public facts: method, noise, batches, learning rate, radius."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette import accounting
from noisette.adjacency import Adjacency
from noisette.errors import InvalidData, InvalidParameter, Unproven
from noisette.linear import inputs
from noisette.losses import Hinge, HuberHinge, Logistic, Loss, Softmax, SoftplusHinge
from noisette.mechanisms import Gaussian
from noisette.sampling import Disjoint, Sampler
from noisette.training.common import check_scale
from noisette.training.noisy_sgd import make_sampler, plan_for
from noisette.training.single_pass import noise_for_one_use
from noisette.training.steps import Update

__all__ = ["Choice", "choose", "label_numbers", "make_loss"]

LOSSES = ("logistic", "hinge", "huber", "softplus", "softmax")
NOISES = ("auto", "spherical-laplace", "gaussian")
RELEASES = ("all", "last")
GROUPINGS = ("scale", "batches")
SAMPLINGS = (
    "auto", "disjoint", "poisson", "without-replacement", "random-allocation", "shuffle", "cyclic",
    "full", "partial-shuffle",
)  # fmt: skip

WEIGHT_NORM = 5.0
"""W: a typical ||w|| for rows of norm 1."""
LEAST_STEPS = 8
AVERAGING = 3.0
"""Iterate t enters the mean with weight about t^3: the second half dominates."""


@dataclass(frozen=True)
class Choice:
    """The method and its public parameters, with sentences for the guarantee's notes."""

    method: str
    update: Update
    noise: str
    batch_size: int
    sampler: Sampler | None = None
    uses: int = 1
    multiplier: float | None = None
    permute: bool = False
    notes: tuple[str, ...] = ()


def make_loss(name: str, classes: int) -> Loss:
    """Return the loss for that many classes."""
    if name == "softmax" or (name == "logistic" and classes > 2):
        return Softmax(classes)
    if classes > 2:
        raise InvalidParameter(
            f"loss={name!r} is for two classes; use 'logistic' or 'softmax' for {classes}."
        )
    kinds: dict[str, type[Loss]] = {
        "logistic": Logistic, "hinge": Hinge, "huber": HuberHinge, "softplus": SoftplusHinge,
    }  # fmt: skip
    return kinds[name]()


def label_numbers(classes: NDArray[Any], y: NDArray[Any]) -> NDArray[np.intp]:
    """Return positions in `classes`: by comparison where both are numbers, else one by one."""
    if classes.dtype.kind not in "biuf" or y.dtype.kind not in "biuf":
        return inputs.class_numbers(classes, y)
    if len(classes) == 2:
        numbers = (y == classes[1]).astype(np.intp)
        right = bool(np.all((numbers == 1) | (y == classes[0])))
    else:
        numbers = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
        right = bool(np.all(classes[numbers] == y))
    if not right:
        raise InvalidData("y holds a label that is not in classes; list every label there.")
    return np.asarray(numbers)


def choose(
    estimator: Any, loss: Loss, features: int, size: int, adjacency: Adjacency, *,
    levels: bool, stream: bool = False,
) -> Choice:  # fmt: skip
    """Return every choice of one fit; `size` is n or its public estimate."""
    method = _method(estimator, loss, stream=stream)
    noise = _noise(estimator, method, levels=levels)
    update = Update(
        loss=loss,
        norm_bound=None if estimator.norm_bound is None else float(estimator.norm_bound),
        bias=estimator._intercept(),
        clip_norm=estimator.clip_norm,
        regularization=float(estimator.regularization),
        learning_rate=_learning_rate(estimator),
        radius=_radius(estimator, loss),
        averaging=_averaging(estimator),
    )
    if method == "gradient-descent":
        note = (
            "Method: private gradient descent on all rows; steps and step size follow from the "
            "number of records, the dimension, epsilon and delta; the noise of a step fits the "
            "sensitivity at the weights released before it (FILTER-GDP)."
        )
        return Choice(method, update, "gaussian", size, notes=(note,))
    if method == "single-pass":
        return _single(estimator, update, noise, features, size, adjacency, stream=stream)
    return _direct(estimator, update, noise, features, size, adjacency)


def _method(estimator: Any, loss: Loss, *, stream: bool) -> str:
    sampling, delta = estimator.sampling, float(estimator.delta)
    if isinstance(sampling, Disjoint) and sampling.batch_size is None:
        raise InvalidParameter("a Disjoint sampler for SGD needs its batch_size.")
    if stream:
        if sampling not in ("auto", "disjoint") or estimator.released != "all":
            raise Unproven(
                "a stream is a single pass over disjoint batches; use sampling='disjoint' (or "
                "'auto') and released='all'."
            )
        return "single-pass"
    one_pass = sampling == "disjoint" or isinstance(sampling, Disjoint)
    if one_pass and estimator.released == "all" and estimator.epochs == 1:
        return "single-pass"
    if sampling != "auto":
        return "direct"
    if delta == 0.0 and estimator.epochs == 1 and estimator.released == "all":
        return "single-pass"
    plain = estimator.epochs == 1 and estimator.batch_size == "auto"
    plain = plain and estimator.learning_rate == "auto" and estimator.noise != "spherical-laplace"
    smooth = math.isfinite(loss.smoothness) and estimator.norm_bound is not None
    if delta > 0.0 and estimator.released == "all" and plain and smooth:
        return "gradient-descent"
    return "direct"


def _noise(estimator: Any, method: str, *, levels: bool) -> str:
    delta, noise = float(estimator.delta), estimator.noise
    if noise == "gaussian" and delta == 0.0:
        raise InvalidParameter("noise='gaussian' needs delta > 0; got delta=0.")
    if noise != "auto":
        return str(noise)
    if delta == 0.0:
        return "spherical-laplace"
    # one use of spherical noise never loses to a Gaussian; levels need the Gaussian's mu
    single = method == "single-pass" and (not levels or estimator.grouping == "batches")
    return "spherical-laplace" if single else "gaussian"


def _learning_rate(estimator: Any) -> str:
    if estimator.learning_rate != "auto":
        return str(estimator.learning_rate)
    return "constant" if estimator.released == "last" else "inverse-sqrt"


def _averaging(estimator: Any) -> float | None:
    wanted = estimator.released == "all" if estimator.averaging == "auto" else estimator.averaging
    return AVERAGING if wanted else None


def _radius(estimator: Any, loss: Loss) -> float:
    """Return a bound on the minimiser's norm: lambda w = -mean gradient, and J(w) <= J(0)."""
    if estimator.radius != "auto":
        value = float(estimator.radius)
        if not value > 0.0:
            raise InvalidParameter(
                f"radius must be 'auto' or above 0 (inf for none); got {estimator.radius!r}."
            )
        return value
    ridge = float(estimator.regularization)
    if ridge == 0.0:
        return math.inf
    # proof: SOLVER-NORM
    by_value = math.sqrt(2.0 * loss.value_at_zero / ridge)
    if estimator.norm_bound is None:
        return by_value
    row = math.hypot(float(estimator.norm_bound), estimator._intercept() or 0.0)
    return min(by_value, loss.lipschitz * row / ridge)


def _reach(update: Update, dimension: int, rms: float, batch: float, size: int) -> float:
    """Return tau, the sum of learning rates that a pass over `size` records in batches can bear.

    In rows of norm 1, tau learning rates in T = n / b steps add to the weights a noise of mean
    square (tau^2 / T) (d rms^2 / b^2 + L^2 / b), from the privacy and from the rows. It should stay
    below W^2, and no rate above 2 / M:

        tau = min( n (2 / M) / b,  W sqrt(n) / sqrt(d rms^2 / b + L^2) ).
    """
    bound = update.row_bound if math.isfinite(update.row_bound) else 1.0
    unit = update.contribution / bound
    spread = math.sqrt(dimension * (rms / bound) ** 2 / batch + unit**2)
    return min(size * _largest_rate(update, bound) / batch, WEIGHT_NORM * math.sqrt(size) / spread)


def _largest_rate(update: Update, bound: float) -> float:
    smooth = update.loss.smoothness if math.isfinite(update.loss.smoothness) else 0.25
    return 2.0 / (smooth + update.regularization / bound**2)


def _batch_size(
    estimator: Any, update: Update, dimension: int, rms: float | None, size: int
) -> int:
    """Return the given batch size, or the one at which both bounds on tau meet."""
    if estimator.batch_size != "auto":
        return min(int(estimator.batch_size), size)
    if rms is None:  # many passes
        return min(size, max(256, size // 100))
    # the first bound on tau falls with b and the second rises: bisect for where they meet
    low, high = math.log(min(50, size)), math.log(max(50, size / LEAST_STEPS))
    bound = update.row_bound if math.isfinite(update.row_bound) else 1.0
    for _ in range(50):
        middle = (low + high) / 2.0
        b = math.exp(middle)
        if _reach(update, dimension, rms, b, size) < size * _largest_rate(update, bound) / b:
            low = middle
        else:
            high = middle
    return min(size, max(1, round(math.exp(high))))


def _eta0(update: Update, dimension: int, rms: float, batch: float, size: int, steps: int) -> float:
    """Return eta0 such that `steps` learning rates add up to what `_reach` allows."""
    bound = update.row_bound if math.isfinite(update.row_bound) else 1.0
    tau = _reach(update, dimension, rms, batch, round(batch * steps)) / bound**2
    if update.learning_rate == "constant":
        return tau / steps
    return tau / (2.0 * math.sqrt(steps))


def _rms(mechanism: Any, dimension: int, unit: float) -> float:
    """Return the standard deviation of a coordinate of the noise."""
    z = float(mechanism.noise_multiplier) * unit
    return z if isinstance(mechanism, Gaussian) else z * math.sqrt(dimension + 1.0)


def _single(
    estimator: Any, update: Update, noise: str, features: int, size: int, adjacency: Adjacency, *,
    stream: bool,
) -> Choice:  # fmt: skip
    dimension = update.dimension(features)
    mechanism = noise_for_one_use(
        noise, float(estimator.epsilon), float(estimator.delta), dimension, adjacency
    )
    check_scale(mechanism, update.contribution)
    rms = _rms(mechanism, dimension, update.contribution)
    given = estimator.sampling if isinstance(estimator.sampling, Disjoint) else None
    if given is None:
        batch_size = _batch_size(estimator, update, dimension, rms, size)
    else:
        given.edges(size)  # refuses batches that do not fit
        assert given.batch_size is not None
        batch_size = given.batch_size
    # the records' own order may be sorted by label, which SGD does not survive
    permute = not stream if given is None else given.permute
    eta0 = estimator.eta0
    if eta0 == "auto":
        eta0 = _eta0(update, dimension, rms, batch_size, size, -(-size // batch_size))
    note = (
        f"Method: one pass over disjoint batches of {batch_size} in "
        f"{'one random' if permute else 'the given'} order; all iterates are covered."
    )
    update = replace(update, eta0=eta0)
    return Choice("single-pass", update, noise, batch_size, permute=permute, notes=(note,))


def _direct(
    estimator: Any, update: Update, noise: str, features: int, size: int, adjacency: Adjacency
) -> Choice:
    dimension = update.dimension(features)
    batch_size = _batch_size(estimator, update, dimension, None, size)
    sampling, epochs = estimator.sampling, int(estimator.epochs)
    if isinstance(sampling, Sampler):
        sampler, uses = sampling, epochs
    else:
        if sampling == "auto":
            sampling = "shuffle" if estimator.released == "last" else "poisson"
            if float(estimator.delta) == 0.0:
                sampling = "cyclic"
        sampler, uses = make_sampler(sampling, size, batch_size, epochs)
    normaliser = sampler.normaliser(size)
    steps = uses * sampler.steps
    last = estimator.released == "last"
    if estimator.eta0 != "auto":
        update = replace(update, eta0=estimator.eta0)
    elif last:  # the largest rate that the theorem takes, for a first look at the noise
        update = replace(
            update, eta0=0.5 * _largest_rate(update, update.row_bound) / update.row_bound**2
        )
    make = plan_for(
        update, sampler, uses, noise=noise, dimension=dimension, released=estimator.released,
        adjacency=adjacency, size=size,
    )  # fmt: skip
    multiplier: float | None = accounting.calibrate(
        make, epsilon=float(estimator.epsilon), delta=float(estimator.delta), adjacency=adjacency
    )
    if estimator.eta0 == "auto":
        assert multiplier is not None
        law = Gaussian(multiplier)
        rms = law.noise_multiplier * update.contribution
        rms *= 1.0 if noise == "gaussian" else math.sqrt(dimension + 1.0)
        largest = _largest_rate(update, update.row_bound) / update.row_bound**2 / 2.0
        eta0 = _eta0(update, dimension, rms, normaliser, size, steps)
        update = replace(update, eta0=min(eta0, largest) if last else eta0)
        multiplier = None if last else multiplier
    note = f"Method: noisy SGD, {uses * sampler.steps} steps with {sampler.name} batches; " + (
        "only the last iterate is released." if last else "all iterates are covered."
    )
    return Choice("direct", update, noise, batch_size, sampler, uses, multiplier, notes=(note,))
