"""What `SGDClassifier` fixes from public facts: method, noise, batches, learning rate, radius."""

import math
from dataclasses import replace
from typing import Any, NamedTuple, Self

from noisette import _validate
from noisette.core import accounting
from noisette.core.mechanisms import step_noises
from noisette.core.sampling import Disjoint, Sampler
from noisette.errors import InvalidParameter, Unproven
from noisette.fitting.algorithms.gradient_descent import GradientDescent
from noisette.fitting.algorithms.levels import Levels
from noisette.fitting.algorithms.noisy_sgd import NoisySGD, make_sampler, plan_for
from noisette.fitting.algorithms.public import Public, check_scale
from noisette.fitting.algorithms.recommend import Recommendation
from noisette.fitting.algorithms.single_pass import SinglePass, noise_for_one_use
from noisette.fitting.algorithms.steps import LEARNING_RATES, Update
from noisette.fitting.algorithms.streaming import StreamedPass
from noisette.fitting.losses import Loss

RELEASES = ("all", "last")
RETURNS = ("auto", "mean", "last")

WEIGHT_NORM = 5.0
"""W: a typical ||w|| for rows of norm 1."""
LEAST_STEPS = 8
AVERAGING = 3.0
"""Iterate t enters the mean with weight about t^3: the second half dominates."""


BY_LEVEL = "levels"
"""``sampling`` of one pass whose batches hold people of equal ``sample_epsilon``."""


class Wished(NamedTuple):
    """The parameters of steps that may be pairs, apart and checked."""

    schedule: str
    eta0: float | str
    ridge: float
    radius: float | str
    counted: str
    returned: str

    @classmethod
    def of(cls, wishes: Any) -> Self:
        """Return those of an estimator; a part that was not given is "auto"."""
        rate, ridge, released = wishes.learning_rate, wishes.regularization, wishes.released
        schedule, eta0 = _apart(rate, (rate, "auto") if isinstance(rate, str) else ("auto", rate))
        _validate.choice("learning_rate", schedule, ("auto", *LEARNING_RATES))
        if not _is_auto(eta0):
            eta0 = _validate.positive("learning_rate (unless 'auto')", eta0)
        ridge, radius = _apart(ridge, (ridge, "auto"))
        _validate.non_negative("regularization", ridge)
        if not _is_auto(radius):
            _validate.positive_or_infinite("the radius of regularization", radius)
        counted, returned = _apart(released, (released, "auto"))
        _validate.choice("released", counted, RELEASES)
        _validate.choice("the second part of released", returned, RETURNS)
        return cls(schedule, eta0, float(ridge), radius, counted, returned)


def _apart(given: Any, alone: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return a parameter that is a pair, or what it means alone."""
    return tuple(given) if isinstance(given, tuple | list) and len(given) == 2 else alone


def _is_auto(value: object) -> bool:
    """Whether a parameter is left to us; an array, which compares entry by entry, is not."""
    return isinstance(value, str) and value == "auto"


def noises() -> tuple[str, ...]:
    """Return what users may ask for as ``noise``."""
    return ("auto", *step_noises())


def recommend_sgd(
    wishes: Any, public: Public, *, levels: Levels | None = None, stream: bool = False
) -> Recommendation:
    """Return the iterative algorithm that fits `wishes`, an estimator with its parameters.

    ``public.size`` is n or its public estimate.
    """
    loss, steps = public.loss, Wished.of(wishes)
    method = _method(wishes, steps, public.loss, stream=stream)
    noise = _noise(wishes, method, public, levels=levels is not None)
    last = steps.counted == "last"
    usual = "constant" if last else "inverse-sqrt"
    mean = steps.returned == "mean" or (steps.returned == "auto" and not last)
    update = Update(
        loss=loss,
        norm_bound=None if wishes.norm_bound is None else float(wishes.norm_bound),
        bias=wishes._intercept(),
        clip_norm=wishes.clip_norm,
        regularization=steps.ridge,
        learning_rate=usual if steps.schedule == "auto" else steps.schedule,
        radius=_radius(wishes, steps, loss),
        averaging=AVERAGING if mean else None,
    )
    if method != "single-pass" and wishes.sampling == BY_LEVEL:
        raise InvalidParameter("sampling='levels' is one pass, with epochs=1 and released='all'.")
    if method == "single-pass":
        chosen = _single(wishes, steps, update, noise, public, levels, stream=stream)
    elif method == "gradient-descent":
        note = (
            "Method: private gradient descent on all rows; steps and step size follow from the "
            "number of records, the dimension, epsilon and delta; the noise of a step fits the "
            "sensitivity at the weights released before it (FILTER-GDP)."
        )
        chosen = Recommendation(GradientDescent(update, levels), public, (note,))
    else:
        chosen = _direct(wishes, steps, update, noise, public, levels)
    # how long a stream will be is not known without a guess
    return chosen if stream and wishes.population is None else chosen.judged("steps")


def _method(wishes: Any, steps: Wished, loss: Loss, *, stream: bool) -> str:
    sampling, pure = wishes.sampling, float(wishes.delta) == 0.0
    if isinstance(sampling, Disjoint) and sampling.batch_size is None:
        raise InvalidParameter("a Disjoint sampler for SGD needs its batch_size.")
    if stream and (sampling not in ("auto", "disjoint") or steps.counted != "all"):
        raise Unproven(
            "a stream is a single pass over disjoint batches; use sampling='disjoint' (or "
            "'auto') and released='all'."
        )
    auto, once = sampling == "auto", steps.counted == "all" and wishes.epochs == 1
    named = sampling in ("disjoint", BY_LEVEL) or isinstance(sampling, Disjoint)
    if stream or (once and (named or (auto and pure))):
        return "single-pass"
    # the tuning-free schedule has no place for a wish about batches or steps
    asked = {wishes.batch_size, steps.schedule, steps.eta0, steps.returned}
    plain = wishes.noise in ("auto", "gaussian") and asked == {"auto"}
    smooth = math.isfinite(loss.smoothness) and wishes.norm_bound is not None
    return "gradient-descent" if auto and once and not pure and plain and smooth else "direct"


def _noise(wishes: Any, method: str, public: Public, *, levels: bool) -> str:
    pure, noise = float(wishes.delta) == 0.0, wishes.noise
    if noise != "auto":
        example = step_noises()[noise].of(1.0, public.dimension)
        if pure and not math.isfinite(example.pure_epsilon(public.adjacency)):
            raise InvalidParameter(f"noise={noise!r} needs delta > 0; got delta=0.")
        return str(noise)
    # one use of spherical noise never loses to a Gaussian; levels need the Gaussian's mu
    single = method == "single-pass" and (not levels or wishes.sampling == BY_LEVEL)
    return "spherical-laplace" if pure or single else "gaussian"


def _radius(wishes: Any, steps: Wished, loss: Loss) -> float:
    """Return a bound on the minimiser's norm: lambda w = -mean gradient, and J(w) <= J(0)."""
    if steps.radius != "auto":
        return float(steps.radius)
    if steps.ridge == 0.0:
        return math.inf
    # proof: SOLVER-NORM
    by_value = math.sqrt(2.0 * loss.value_at_zero / steps.ridge)
    if wishes.norm_bound is None:
        return by_value
    row = math.hypot(float(wishes.norm_bound), wishes._intercept() or 0.0)
    return min(by_value, loss.lipschitz * row / steps.ridge)


def _reach(update: Update, dimension: int, rms: float, batch: float, size: int) -> float:
    """Return tau, the sum of learning rates that a pass over `size` records in batches can bear.

    In rows of norm 1, tau learning rates in T = n / b steps add to the weights a noise of mean
    square (tau^2 / T) (d rms^2 / b^2 + L^2 / b), from the privacy and from the rows. It should stay
    below W^2, and no rate above 2 / M:

        tau = min( n (2 / M) / b,  W sqrt(n) / sqrt(d rms^2 / b + L^2) ).
    """
    bound, largest = _scale(update)
    unit = update.contribution / bound
    spread = math.sqrt(dimension * (rms / bound) ** 2 / batch + unit**2)
    return min(size * largest / batch, WEIGHT_NORM * math.sqrt(size) / spread)


def _scale(update: Update) -> tuple[float, float]:
    """Return R (1 where rows are not clipped), and 2 / M in rows of norm 1, the largest rate."""
    bound = update.row_bound if math.isfinite(update.row_bound) else 1.0
    smooth = update.loss.smoothness if math.isfinite(update.loss.smoothness) else 0.25
    return bound, 2.0 / (smooth + update.regularization / bound**2)


def _batch_size(wishes: Any, update: Update, dimension: int, rms: float | None, size: int) -> int:
    """Return the given batch size, or the one at which both bounds on tau meet."""
    if wishes.batch_size != "auto":
        return min(int(wishes.batch_size), size)
    if rms is None:  # many passes
        return min(size, max(256, size // 100))
    # the first bound on tau falls with b and the second rises: bisect for where they meet
    low, high = math.log(min(50, size)), math.log(max(50, size / LEAST_STEPS))
    for _ in range(50):
        middle = (low + high) / 2.0
        b = math.exp(middle)
        rising = _reach(update, dimension, rms, b, size) < size * _scale(update)[1] / b
        low, high = (middle, high) if rising else (low, middle)
    return min(size, max(1, round(math.exp(high))))


def _eta0(update: Update, dimension: int, rms: float, batch: float, steps: int) -> float:
    """Return eta0 such that `steps` learning rates add up to what `_reach` allows."""
    tau = _reach(update, dimension, rms, batch, round(batch * steps)) / _scale(update)[0] ** 2
    constant = update.learning_rate == "constant"
    return tau / steps if constant else tau / (2.0 * math.sqrt(steps))


def _single(
    wishes: Any, steps: Wished, update: Update, noise: str, public: Public,
    levels: Levels | None, *, stream: bool,
) -> Recommendation:  # fmt: skip
    dimension, size = public.dimension, public.known_size("a single pass")
    mechanism = noise_for_one_use(noise, public.epsilon, public.delta, dimension, public.adjacency)
    check_scale(mechanism, update.contribution)
    rms = mechanism.noise_multiplier * update.contribution * mechanism.spread
    # the records' own order may be sorted by label, which SGD does not survive
    batch_size, permute = _batch_size(wishes, update, dimension, rms, size), not stream
    if isinstance(wishes.sampling, Disjoint):
        wishes.sampling.edges(size)  # refuses batches that do not fit
        batch_size, permute = int(wishes.sampling.batch_size or 0), wishes.sampling.permute
    shuffled = permute or public.grouped  # persons are numbered at random
    eta0 = steps.eta0
    if isinstance(eta0, str):
        eta0 = _eta0(update, dimension, rms, batch_size, -(-size // batch_size))
    note = (
        f"Method: one pass over disjoint batches of {batch_size} in "
        f"{'one random' if shuffled else 'the given'} order; all iterates are covered."
    )
    common = (replace(update, eta0=eta0), batch_size, noise)
    algorithm: Any = StreamedPass(*common) if stream else SinglePass(*common, permute, levels)
    return Recommendation(algorithm, public, (note,))


def _direct(
    wishes: Any, steps: Wished, update: Update, noise: str, public: Public, levels: Levels | None
) -> Recommendation:
    dimension, size = public.dimension, public.known_size("noisy SGD")
    batch_size = _batch_size(wishes, update, dimension, None, size)
    sampler, last, uses = wishes.sampling, steps.counted == "last", int(wishes.epochs)
    if sampler == "auto":
        many = "shuffle" if last else "poisson"
        sampler = "cyclic" if public.delta == 0.0 else many
    if not isinstance(sampler, Sampler):
        sampler, uses = make_sampler(sampler, size, batch_size, uses)
    bound, rate = _scale(update)
    largest = rate / bound**2 / 2.0
    if not isinstance(steps.eta0, str):
        update = replace(update, eta0=steps.eta0)
    elif last:  # the largest rate that the theorem takes, for a first look at the noise
        update = replace(update, eta0=largest)
    make = plan_for(update, sampler, uses, public, noise=noise, released=steps.counted)
    multiplier = accounting.calibrate(
        make, epsilon=public.epsilon, delta=public.delta, adjacency=public.adjacency
    )
    if isinstance(steps.eta0, str):
        law = step_noises()[noise].of(multiplier, dimension)
        rms = law.noise_multiplier * update.contribution * law.spread
        eta0 = _eta0(update, dimension, rms, sampler.normaliser(size), uses * sampler.steps)
        update = replace(update, eta0=min(eta0, largest) if last else eta0)
    note = f"Method: noisy SGD, {uses * sampler.steps} steps with {sampler.name} batches; " + (
        "only the last iterate is released." if last else "all iterates are covered."
    )
    # the rate that was found is part of the last iterate's plan, which is calibrated anew
    known = None if last and isinstance(steps.eta0, str) else multiplier
    algorithm = NoisySGD(update, sampler, uses, noise, steps.counted, levels, known)
    return Recommendation(algorithm, public, (note,))
