"""Choices that depend on public facts only: mechanism, regularisation, whitening.

Each function returns what it chose and one sentence for the guarantee's notes.

**Regularisation.** Let the rows have norm R, c the loss's curvature and W a typical norm of the
weights. Were the rows alike in k directions, the sum of losses would have the Hessian
h = n c R^2 / k in each. Released weights are off by e = -(h + Lambda)^-1 (b + Lambda w*) for
objective perturbation with the linear term b, and by Lambda w* / (h + Lambda) plus noise z for
output perturbation; the excess of the sum of losses is about h E||e||^2 / 2.

* objective: of B^2 = E||b||^2 the part B^2 k / d falls into these directions, and
  h (B^2 k / d + Lambda^2 W^2) / (h + Lambda)^2 is least at **Lambda = B^2 k / (d W^2 h)**. There
  are two pictures: rows alike in all k = d directions, or, as in tables of many columns, in k = 45
  of them and hardly any elsewhere, where b does little harm. The second Lambda is smaller by
  (45 / d)^2. It is taken where the first one would shrink what there is to learn (Lambda > h / 2
  with k = d) until nobody leaves the majority class, but never below h / 2, nor below d / W^2,
  which the spread of the people's own gradients asks for in the first picture; with several
  classes, whose h is smaller, k / W^2, as in the second. The theorem's own least Lambda is
  usually larger when n is large.
* output: z is as long in every direction, so the mean of h over all of them counts, k = d. With
  E||z||^2 = (M / Lambda)^2 the sum Lambda W^2 / 2 + h M^2 / (2 Lambda^2) is least at
  **Lambda^3 = 2 h M^2 / W^2**; for pure epsilon M ~ d a L R / epsilon, a = 2 under replace-one.

**Forecast.** In the k = min(d, 45) directions of the second picture the linear term moves the
weights by sqrt(B^2 k / d) / (h + Lambda), and regularisation leaves W h / (h + Lambda) of them: the
ratio of noise to signal is **sqrt(B^2 k / d) / (W h)**, whatever Lambda is. For output perturbation
the noise is sqrt(k / d) M / Lambda. Many noisy steps cannot do better than one release.

W = 5, k = 45 and h / 2 were chosen on Adult and Bank, k / W^2 of several classes on Fashion-MNIST;
docs/linear.md says what they do to other tables.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from noisette import _validate
from noisette.core.mechanisms import Gaussian, SphericalLaplace
from noisette.core.mechanisms.spherical_laplace_curve import largest_shift
from noisette.core.plans import Plan
from noisette.errors import InvalidParameter, Unproven
from noisette.fitting.algorithms.algorithms import ALGORITHMS, one_shot
from noisette.fitting.algorithms.objective_perturbation import TOLERANCE, least_regularization
from noisette.fitting.algorithms.output_perturbation import noise_for
from noisette.fitting.algorithms.public import Public
from noisette.fitting.algorithms.whitening import WhitenedObjective
from noisette.fitting.losses import Loss
from noisette.fitting.solvers import attainable_tolerance, smallest_regularization

ENOUGH = 10.0
"""Least n epsilon / (a d^1.5) for ``whiten="auto"``."""

LESS_NOISE = "which needs less noise than output perturbation for every smooth loss"
GIVE_TABLE = ", or give the table to noisette.{}"
SHARE = 0.1
"""Share of the budget for the second moment under ``whiten="auto"``."""


@dataclass(frozen=True)
class Recommendation:
    """An algorithm, the public facts completed for it, and a sentence for each choice."""

    algorithm: Any
    public: Public
    notes: tuple[str, ...]
    warning: str = ""
    """What to say before the charge if the model can hardly learn; also the last note."""

    def judged(self, mechanism: str) -> "Recommendation":
        """Return the same with a warning where public facts call for one."""
        warning = warning_of(self.public, mechanism)
        return replace(self, warning=warning, notes=(*self.notes, warning)) if warning else self

    @property
    def plan(self) -> Plan:
        """What will be charged."""
        found: Plan = self.algorithm.prepare(self.public).plan
        return found.under(self.public.adjacency)


def mechanisms() -> tuple[str, ...]:
    """Return what users may ask for as ``mechanism``: asked when needed, so a new one counts."""
    return ("auto", *one_shot())


def recommend(
    public: Public, *, mechanism: str, regularization: object, whiten: object, levels: bool
) -> Recommendation:
    """Fix mechanism, regularisation and whitening of a one-shot training from public facts."""
    chosen, why = choose_mechanism(mechanism, public.loss, levels=levels, whiten=whiten)
    share, whitened = choose_whitening(whiten, chosen, public)
    notes = (why, *filter(None, [whitened]))
    if share is not None:
        why = "Regularization: follows from the released second moment, not from the parameter."
        return Recommendation(WhitenedObjective(share), public, (*notes, why)).judged("objective")
    few = public.models == 1 and public.dimension <= 100
    if chosen == "objective" and public.delta > 0.0 and few:
        # With few weights delta hardly lowers the noise (for epsilon = 1, delta = 1e-6: 1 % for 5,
        # 9 % for 10); where that is less than a tenth, the stronger promise delta = 0 is the better
        # bargain, and faster to calibrate.
        shift = largest_shift(public.epsilon, public.delta, public.dimension)
        if shift < 1.1 * public.epsilon:
            public = replace(public, delta=0.0)
            why = "Delta is not used: for so few weights it would hardly lower the noise."
            notes = (*notes, why)
    ridge, why = choose_regularization(regularization, chosen, public)
    public = replace(public, regularization=ridge)
    return Recommendation(ALGORITHMS[chosen](), public, (*notes, why)).judged(chosen)


def choose_mechanism(asked: str, loss: Loss, *, levels: bool, whiten: object) -> tuple[str, str]:
    """Return what was asked for, else "objective" wherever a theorem covers it, else "output"."""
    asked = _validate.choice("mechanism", asked, mechanisms())
    smooth = math.isfinite(loss.smoothness)
    _validate.refuse(
        (
            asked == "objective" and not smooth,
            f"objective perturbation has no proof for the {loss.name} loss, which has a kink; "
            "use loss='softplus' or mechanism='output'.",
        ),
        (
            levels and asked != "auto" and not ALGORITHMS[asked].takes_levels,
            "sample_epsilon is proven for mechanism='output' only.",
        ),
        kind=Unproven,
    )
    chosen, why = asked, "as asked"
    if asked == "auto" and levels:
        chosen, why = "output", "because every person has their own epsilon"
    elif asked == "auto" and not smooth:
        chosen, why = "output", f"because the {loss.name} loss has a kink"
    elif asked == "auto":
        chosen, why = "objective", f"{LESS_NOISE}; chosen from public facts"
    if chosen != "objective" and whiten is not False and whiten != "auto":
        raise InvalidParameter("whiten needs mechanism='objective'; set whiten=False.")
    return chosen, f"Mechanism: {chosen} perturbation, {why}."


def choose_regularization(asked: object, mechanism: str, public: Public) -> tuple[float, str]:
    """Return Lambda (for the sum of losses) from the asked lambda (for the mean) or "auto"."""
    auto, chosen, why = isinstance(asked, str), 0.0, "as asked"
    if not auto:
        chosen = _validate.positive("regularization", asked) * public.known_size("regularization")
    elif asked != "auto":
        raise InvalidParameter(
            f"regularization must be 'auto' or a positive, finite number; got {asked!r}."
        )
    best = "least estimated excess risk, from public facts"
    if mechanism == "objective":
        least = least_regularization(
            public.loss, public.epsilon / public.models, public.adjacency.contributions,
            public.squared_bound, persons=public.grouped,
        )  # fmt: skip
        if auto:
            chosen = _solvable(public, max(least, for_objective(public)), TOLERANCE)
            why = best if chosen > least else "the least that the theorem needs without more noise"
        elif chosen < least:
            chosen, why = least, "raised from what was asked to what the theorem needs"
    elif auto:
        # Lambda^3 = 2 h M^2 / W^2; W^2 counts once for each model, M^2 is of all together
        size = public.known_size("regularization='auto'")
        weight = public.models * (WEIGHT_NORM / public.norm_bound) ** 2
        hessian = size * public.loss.initial_curvature * public.norm_bound**2 / public.features
        moved = public.adjacency.contributions * public.gradient_bound
        reach = _spread(public, public.models * public.dimension) * public.models * moved * moved
        chosen, why = _solvable(public, float(np.cbrt(2.0 * hessian * reach / weight)), 0.0), best
    return chosen, f"Regularization: Lambda={chosen:.6g} beside the sum of losses ({why})."


def _solvable(public: Public, chosen: float, relative: float) -> float:
    """Return `chosen`, or ten times the least Lambda whose solve is proven to end.

    `relative` is the tolerance asked for, in units of C; 0 stands for the solver's default. Ten
    times, because the linear term of objective perturbation is not known here.
    """
    # proof: SOLVER-ENDS
    facts = replace(public, regularization=chosen).for_solver()
    tolerance = None
    if relative > 0.0:
        wanted = relative * public.gradient_bound
        tolerance = max(wanted, attainable_tolerance(public.loss, facts))
    least = smallest_regularization(public.loss, facts, tolerance)
    return chosen if least is None or least == chosen else 10.0 * least


def choose_whitening(asked: object, mechanism: str, public: Public) -> tuple[float | None, str]:
    """Return the share of the budget for whitening, or None; "auto" uses it where it helps.

    The noise on the second moment has operator norm about z sqrt(d), z ~ a / epsilon with a = 2
    under replace-one, and its eigenvalues are n R^2 / d on average, so the ratio
    n epsilon / (a d^1.5) decides; below d = 36 the bar stays at 60 d. Measured (docs/linear.md):
    above the bar whitening changed the accuracy by -0.1 to +0.3 points, little on average; at half
    of it, it lost up to 0.2.
    """
    if asked is False:
        return None, ""
    if asked != "auto":
        share = _validate.positive("whiten", asked)
        _validate.refuse(
            (
                not share < 1.0,
                f"whiten must be True or 'auto', False, or a share in (0, 1); got {asked!r}.",
            ),
            (public.delta == 0.0, "whiten needs delta > 0; set delta, or whiten=False."),
        )
        if public.models > 1:
            raise Unproven("whiten is for one model; use multi_class='softmax', or whiten=False.")
        public.known_size("whiten")
        return share, f"Whitening: {share:g} of the budget, as asked."
    size = public.size or 0
    each = public.features * max(math.sqrt(public.features), 6.0)
    reasons = (
        (mechanism != "objective", "it needs objective perturbation"),
        (public.delta == 0.0, "it needs delta > 0"),
        (public.models > 1, "it is for one model"),
        (public.size is None, "no public guess of n is given"),
        (
            size < ENOUGH * public.adjacency.contributions * each / public.epsilon,
            f"n < {ENOUGH:g} a d max(sqrt(d), 6) / epsilon, a = 2 under replace-one and 1 "
            "otherwise",
        ),
    )
    for against, reason in reasons:
        if against:
            return None, f"Whitening: none, because {reason}."
    return SHARE, f"Whitening: {SHARE:g} of the budget, because n is large (public facts)."


WEIGHT_NORM = 5.0
"""W of the module's docstring, for rows of norm 1; W / R in general."""

DIRECTIONS = 45
"""k of the module's docstring: how many directions the rows of a table of many columns fill."""

CURVATURE = 0.5
"""c at most, for forecasts: the slope of a hinge falls from 1 to 0 over margins of about 2."""

DROWNED = 0.8
"""Noise against signal from which a model may hardly learn (see docs/linear.md)."""


def for_objective(public: Public) -> float:
    """Return B^2 k / (d W^2 h) for one model, k as derived above; 0 where n is not public."""
    if public.size is None:
        return 0.0
    hessian = public.size * public.loss.initial_curvature * public.norm_bound**2 / public.features
    weight = WEIGHT_NORM / public.norm_bound
    moved = public.adjacency.contributions * public.gradient_bound
    each = replace(public, epsilon=public.epsilon / public.models)
    flat = _spread(each, public.dimension) * moved * moved / (weight * weight * hessian)
    few = flat * (DIRECTIONS / public.features) ** 2
    many = public.dimension > public.features  # one row of weights for each class
    filled = min(public.features, DIRECTIONS) if many else public.features
    return min(flat, max(few, hessian / 2.0, filled / (weight * weight)))


def warning_of(public: Public, mechanism: str) -> str:
    """Return a sentence if the noise drowns what there is to learn, else nothing."""
    size = public.size or math.inf
    if not all(map(math.isfinite, (size, public.norm_bound, public.loss.lipschitz))):
        return ""
    filled = min(public.features, DIRECTIONS)
    bend = min(public.loss.initial_curvature, CURVATURE)
    hessian = size * bend * public.norm_bound**2 / filled  # h = n c R^2 / k
    # about the root of `_spread` of one model, without a calibration that takes time
    epsilon, dimension = public.epsilon / public.models, public.dimension
    noise = math.sqrt(dimension * (dimension + 1.0)) / epsilon
    if public.delta > 0.0:
        law = Gaussian.calibrated(epsilon, public.delta, public.adjacency)
        scale = law.noise_multiplier / public.adjacency.contributions
        noise = min(noise, math.sqrt(dimension) * scale)
    noise *= public.adjacency.contributions * public.gradient_bound
    if mechanism == "output":
        noise *= 1.0 + hessian / public.ridge
    signal = WEIGHT_NORM / public.norm_bound * hessian
    ratio = noise * math.sqrt(filled / public.features) / signal
    if not ratio > DROWNED:
        return ""
    delta = "" if public.delta > 0.0 or public.dimension <= 10 else "a delta such as 1e-6, "
    learnt, raw = "answer the majority class to everybody", "TableClassifier"
    if public.loss.kind == "regression":
        learnt, raw = "predict one number for everybody", "TableRegressor"
    return (
        f"From public facts alone (about {public.size} records, {public.features} columns, "
        f"epsilon={public.epsilon:g}, delta={public.delta:g}) the noise is about {ratio:,.1f} "
        "times as large as what there is to learn, so the model may do little better than to "
        f"{learnt}; use a larger epsilon, {delta}fewer columns{GIVE_TABLE.format(raw)}."
    )


def _spread(public: Public, dimension: int) -> float:
    """Return E||z||^2 of the least additive noise for a sensitivity of 1."""
    noise = noise_for(public, dimension)
    scale = noise.noise_multiplier / public.adjacency.contributions
    shape = dimension * (dimension + 1.0) if isinstance(noise, SphericalLaplace) else dimension
    return float(shape * scale * scale)
