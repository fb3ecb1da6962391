"""Choices that depend on public facts only: mechanism, regularisation, whitening.

Each function returns what it chose and one sentence for the guarantee's notes.

**Regularisation.** Let the rows have norm R in d directions alike, c the loss's curvature near 0
and W a typical norm of the weights, so that the sum of losses has the Hessian h = n c R^2 / d in
every direction. Released weights are off by e = -(h + Lambda)^-1 (b + Lambda w*) for objective
perturbation with the linear term b, and by Lambda w* / (h + Lambda) plus noise z for output
perturbation; the excess of the sum of losses is about h E||e||^2 / 2.

* objective: h (B^2 + Lambda^2 W^2) / (h + Lambda)^2 with B^2 = E||b||^2 is least at
  **Lambda = B^2 / (W^2 h)**. The theorem's own least Lambda is usually larger when n is large.
* output: with E||z||^2 = (M / Lambda)^2 the sum Lambda W^2 / 2 + h M^2 / (2 Lambda^2) is least at
  **Lambda^3 = 2 h M^2 / W^2**; for pure epsilon M ~ d a L R / epsilon, a = 2 under replace-one.

W = 5 was checked on real data, see docs/linear.md: the accuracy is within 0.4 points of the best
Lambda on a grid.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from noisette import _validate
from noisette.adjacency import Adjacency
from noisette.errors import InvalidParameter, Unproven
from noisette.losses import Loss
from noisette.mechanisms import SphericalLaplace
from noisette.mechanisms.spherical_laplace_curve import largest_shift
from noisette.solvers import attainable_tolerance, smallest_regularization
from noisette.training.common import Facts
from noisette.training.objective_perturbation import TOLERANCE, least_regularization
from noisette.training.output_perturbation import noise_for

__all__ = ["MECHANISMS", "Setting", "choose_mechanism", "choose_regularization", "choose_whitening"]

MECHANISMS = ("auto", "output", "objective")

WEIGHT_NORM = 5.0
"""W of the module's docstring, for rows of norm 1; W / R in general."""

MOST_WITHOUT_GUESS = 1_000_000
"""Most records under add-remove without ``population``."""

ENOUGH = 10.0
"""Least n epsilon / (a d^1.5) for ``whiten="auto"``."""

SHARE = 0.1
"""Share of the budget for the second moment under ``whiten="auto"``."""


@dataclass(frozen=True)
class Setting:
    """Public facts of one fit; `facts` holds the row bound with the intercept in it.

    `size` is n where it is public, else the public guess `population` or None.
    """

    facts: Facts
    loss: Loss
    features: int
    models: int
    size: int | None

    @property
    def adjacency(self) -> Adjacency:
        """The neighbouring relation."""
        return self.facts.adjacency

    @property
    def dimension(self) -> int:
        """Number of weights of one model."""
        return int(np.prod(self.loss.parameter_shape(self.features)))

    def with_facts(self, **changes: Any) -> "Setting":
        """Return the same setting with some facts changed."""
        return replace(self, facts=replace(self.facts, **changes))

    def with_size(self, why: str) -> int:
        """Return the public size, or refuse in one sentence."""
        if self.size is None:
            raise InvalidParameter(
                f"{why} needs the number of records, which is private under add-remove; "
                "pass population=..., a public guess of it."
            )
        return self.size


def bound_on_rows(adjacency: Adjacency, n: int, population: int | None) -> int:
    """Return a public bound on n, which the solvers' certificates need.

    Under add-remove it is a declared fact about the data, like the unit of a row: at most twice
    the guess `population`, or a million. A larger bound would cost accuracy, because the error
    that the solver can certify, and the noise that hides it, grow with it.
    """
    if adjacency.size_is_public:
        return n
    most = MOST_WITHOUT_GUESS if population is None else 2 * population
    if n > most:
        raise InvalidParameter(
            f"under add-remove at most {most} records are accepted here; pass a larger "
            "population=..., a public guess of their number."
        )
    return most


def choose_mechanism(asked: str, loss: Loss, *, levels: bool, whiten: object) -> tuple[str, str]:
    """Return "output" or "objective": the latter wherever a theorem covers it."""
    asked = _validate.choice("mechanism", asked, MECHANISMS)
    smooth = math.isfinite(loss.smoothness)
    if asked == "objective" and not smooth:
        raise Unproven(
            f"objective perturbation has no proof for the {loss.name} loss, which has a kink; "
            "use loss='softplus' or mechanism='output'."
        )
    if levels and asked == "objective":
        raise Unproven("sample_epsilon is proven for mechanism='output' only.")
    chosen = asked
    if asked == "auto":
        chosen = "output" if levels or not smooth else "objective"
    if chosen == "output" and whiten is not False and whiten != "auto":
        raise InvalidParameter("whiten needs mechanism='objective'; set whiten=False.")
    if asked != "auto":
        return chosen, f"Mechanism: {chosen} perturbation, as asked."
    if levels:
        return chosen, "Mechanism: output perturbation, because every person has an own epsilon."
    if not smooth:
        return chosen, f"Mechanism: output perturbation, because the {loss.name} loss has a kink."
    return chosen, (
        "Mechanism: objective perturbation, which needs less noise than output perturbation for "
        "every smooth loss; chosen from public facts."
    )


def choose_regularization(asked: object, mechanism: str, setting: Setting) -> tuple[float, str]:
    """Return Lambda (for the sum of losses) from the asked lambda (for the mean) or "auto"."""
    given = None
    if not isinstance(asked, str):
        given = _validate.positive("regularization", asked) * setting.with_size("regularization")
    elif asked != "auto":
        raise InvalidParameter(
            f"regularization must be 'auto' or a positive, finite number; got {asked!r}."
        )
    if mechanism == "output":
        if given is None:
            chosen = _for_output(setting, setting.with_size("regularization='auto'"))
            chosen = _solvable(setting, chosen, 0.0)
            return chosen, _note(chosen, "least estimated excess risk, from public facts")
        return given, _note(given, "as asked")
    least = _least(setting)
    if given is None:
        chosen = _solvable(setting, max(least, _for_objective(setting)), TOLERANCE)
        why = "the least that the theorem needs without more noise"
        if chosen > least:
            why = "least estimated excess risk, from public facts"
        return chosen, _note(chosen, why)
    if given < least:
        return least, _note(least, "raised from what was asked to what the theorem needs")
    return given, _note(given, "as asked")


def _solvable(setting: Setting, chosen: float, relative: float) -> float:
    """Return `chosen`, or ten times the least Lambda whose solve is proven to end.

    `relative` is the tolerance asked for, in units of C; 0 stands for the solver's default. Ten
    times, because the linear term of objective perturbation is not known here.
    """
    # proof: SOLVER-ENDS
    facts, loss = setting.with_facts(regularization=chosen).facts, setting.loss
    public = facts.for_solver(setting.features)
    tolerance = None
    if relative > 0.0:
        wanted = relative * facts.gradient_bound(loss)
        tolerance = max(wanted, attainable_tolerance(loss, public))
    least = smallest_regularization(loss, public, tolerance)
    return chosen if least is None or least == chosen else 10.0 * least


def _note(regularization: float, why: str) -> str:
    return f"Regularization: Lambda={regularization:.6g} beside the sum of losses ({why})."


def _least(setting: Setting) -> float:
    facts = setting.facts
    epsilon = facts.epsilon / setting.models
    return least_regularization(
        setting.loss, epsilon, setting.adjacency.contributions, facts.squared_bound
    )


def _hessian(setting: Setting, size: int) -> float:
    """Return h = n c R^2 / d."""
    facts = setting.facts
    return size * setting.loss.initial_curvature * facts.norm_bound**2 / setting.features


def _spread(setting: Setting, dimension: int) -> float:
    """Return E||z||^2 of the least additive noise for a sensitivity of 1."""
    noise = noise_for(setting.facts, dimension)
    scale = noise.noise_multiplier / setting.adjacency.contributions
    shape = dimension * (dimension + 1.0) if isinstance(noise, SphericalLaplace) else dimension
    return float(shape * scale * scale)


def _for_objective(setting: Setting) -> float:
    """Return B^2 / (W^2 h) for one model; 0 where n is not public."""
    if setting.size is None:
        return 0.0
    facts = setting.facts
    each = setting.with_facts(epsilon=facts.epsilon / setting.models)
    moved = setting.adjacency.contributions * facts.gradient_bound(setting.loss)
    squared = _spread(each, setting.dimension) * moved * moved
    weight = WEIGHT_NORM / facts.norm_bound
    return squared / (weight * weight * _hessian(setting, setting.size))


def _for_output(setting: Setting, size: int) -> float:
    """Return the Lambda with Lambda^3 = 2 h M^2 / W^2; W^2 counts once for each model."""
    facts = setting.facts
    moved = setting.adjacency.contributions * facts.gradient_bound(setting.loss)
    spread = _spread(setting, setting.models * setting.dimension) * setting.models * moved * moved
    weight = setting.models * (WEIGHT_NORM / facts.norm_bound) ** 2
    return float(np.cbrt(2.0 * _hessian(setting, size) * spread / weight))


def pure_is_as_good(setting: Setting) -> bool:
    """Return whether delta would lower the noise of one model by less than a tenth.

    With few weights it hardly does (for epsilon = 1, delta = 1e-6: 1 % for 5, 9 % for 10), and
    then the stronger promise delta = 0 is the better bargain, and faster to calibrate.
    """
    facts, dimension = setting.facts, setting.dimension
    if facts.delta == 0.0 or setting.models > 1 or dimension > 100:
        return False
    return largest_shift(facts.epsilon, facts.delta, dimension) < 1.1 * facts.epsilon


def choose_whitening(asked: object, mechanism: str, setting: Setting) -> tuple[float | None, str]:
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
        if not share < 1.0:
            raise InvalidParameter(
                f"whiten must be False, 'auto' or a share in (0, 1); got {asked!r}."
            )
        if setting.facts.delta == 0.0:
            raise InvalidParameter("whiten needs delta > 0; set delta, or whiten=False.")
        if setting.models > 1:
            raise Unproven("whiten is for one model; use multi_class='softmax', or whiten=False.")
        setting.with_size("whiten")
        return share, f"Whitening: {share:g} of the budget, as asked."
    reason = _against_whitening(mechanism, setting)
    if reason:
        return None, f"Whitening: none, because {reason}."
    return SHARE, f"Whitening: {SHARE:g} of the budget, because n is large (public facts)."


def _against_whitening(mechanism: str, setting: Setting) -> str:
    if mechanism != "objective":
        return "it needs objective perturbation"
    if setting.facts.delta == 0.0:
        return "it needs delta > 0"
    if setting.models > 1:
        return "it is for one model"
    if setting.size is None:
        return "no public guess of n is given"
    each = setting.features * max(math.sqrt(setting.features), 6.0)
    if setting.size < ENOUGH * setting.adjacency.contributions * each / setting.facts.epsilon:
        return (
            f"n < {ENOUGH:g} a d max(sqrt(d), 6) / epsilon, a = 2 under replace-one and 1 otherwise"
        )
    return ""
