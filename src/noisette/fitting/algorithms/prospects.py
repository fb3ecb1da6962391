"""Noise against signal, from public facts: the best regularisation, and whether it is worth a fit.

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

**Prospects.** In the k = min(d, 45) directions of the second picture the linear term moves the
weights by sqrt(B^2 k / d) / (h + Lambda), and regularisation leaves W h / (h + Lambda) of them: the
ratio of noise to signal is **sqrt(B^2 k / d) / (W h)**, whatever Lambda is. For output perturbation
the noise is sqrt(k / d) M / Lambda. Many noisy steps cannot do better than one release.

W = 5, k = 45 and h / 2 were chosen on Adult and Bank, k / W^2 of several classes on Fashion-MNIST;
docs/linear.md says what they do to other tables.
"""

import math
from dataclasses import replace

import numpy as np

from noisette.core.mechanisms import Gaussian, SphericalLaplace
from noisette.fitting.algorithms.output_perturbation import noise_for
from noisette.fitting.algorithms.public import Public

WEIGHT_NORM = 5.0
"""W of the module's docstring, for rows of norm 1; W / R in general."""

DIRECTIONS = 45
"""k of the module's docstring: how many directions the rows of a table of many columns fill."""

CURVATURE = 0.5
"""c at most, for prospects: the slope of a hinge falls from 1 to 0 over margins of about 2."""

DROWNED = 0.8
"""Noise against signal from which a model may hardly learn (see docs/linear.md)."""


def for_objective(public: Public) -> float:
    """Return B^2 k / (d W^2 h) for one model, k as derived above; 0 where n is not public."""
    if public.size is None:
        return 0.0
    hessian, weight = _hessian(public, public.size, public.features), _weight(public)
    flat = _squared_term(public) / (weight * weight * hessian)
    few = flat * (DIRECTIONS / public.features) ** 2
    filled = public.features
    if public.dimension > public.features:  # one row of weights for each class
        filled = min(filled, DIRECTIONS)
    return min(flat, max(few, hessian / 2.0, filled / (weight * weight)))


def for_output(public: Public, size: int) -> float:
    """Return the Lambda with Lambda^3 = 2 h M^2 / W^2; W^2 counts once for each model."""
    weight = public.models * _weight(public) ** 2
    hessian = _hessian(public, size, public.features)
    return float(np.cbrt(2.0 * hessian * _squared_reach(public) / weight))


def weakness(public: Public, mechanism: str) -> str:
    """Return a sentence if the noise drowns what there is to learn, else nothing."""
    known = (public.size or math.inf, public.norm_bound, public.loss.lipschitz)
    if public.size is None or not all(map(math.isfinite, known)):
        return ""
    filled = min(public.features, DIRECTIONS)
    hessian = _hessian(public, public.size, filled, CURVATURE)
    noise = _about(public) * public.adjacency.contributions * public.gradient_bound
    if mechanism == "output":
        noise *= 1.0 + hessian / public.ridge
    ratio = noise * math.sqrt(filled / public.features) / (_weight(public) * hessian)
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
        f"{learnt}; use a larger epsilon, {delta}fewer columns, or "
        f"give the table to noisette.{raw}."
    )


def _weight(public: Public) -> float:
    return WEIGHT_NORM / public.norm_bound


def _hessian(public: Public, size: int, directions: int, most: float = math.inf) -> float:
    """Return h = n c R^2 / k, c at most `most`."""
    bend = min(public.loss.initial_curvature, most)
    return size * bend * public.norm_bound**2 / directions


def _squared_term(public: Public) -> float:
    """Return B^2 of one model."""
    each = replace(public, epsilon=public.epsilon / public.models)
    moved = public.adjacency.contributions * public.gradient_bound
    return _spread(each, public.dimension) * moved * moved


def _squared_reach(public: Public) -> float:
    """Return M^2 of all models together."""
    moved = public.adjacency.contributions * public.gradient_bound
    return _spread(public, public.models * public.dimension) * public.models * moved * moved


def _spread(public: Public, dimension: int) -> float:
    """Return E||z||^2 of the least additive noise for a sensitivity of 1."""
    noise = noise_for(public, dimension)
    scale = noise.noise_multiplier / public.adjacency.contributions
    shape = dimension * (dimension + 1.0) if isinstance(noise, SphericalLaplace) else dimension
    return float(shape * scale * scale)


def _about(public: Public) -> float:
    """Return about the root of `_spread` of one model, without a calibration that takes time."""
    epsilon, dimension = public.epsilon / public.models, public.dimension
    pure = math.sqrt(dimension * (dimension + 1.0)) / epsilon
    if public.delta == 0.0:
        return pure
    noise = Gaussian.calibrated(epsilon, public.delta, public.adjacency)
    scale = noise.noise_multiplier / public.adjacency.contributions
    return min(pure, math.sqrt(dimension) * scale)
