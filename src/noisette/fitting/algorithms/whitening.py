"""Private whitening, then objective perturbation, under one charge.

Isotropic noise costs tr(C) tr(C^-1) >= d^2 for rows with second moment C, with equality iff C is a
multiple of the identity. So a share of the budget buys a noisy second moment; a row map
x -> A x with released parameters, followed by a clip to a released norm R', is row-local and free.

The plan is fixed before the data are seen: Gaussian (second moment), objective noise with a fixed
multiplier and a fixed k, Gaussian (solver error). R' is chosen from the released moment, and
Lambda = s R'^2 / k with it, because the pair of the objective step depends on (multiplier, k) only.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np
from scipy.stats import chi2

from noisette import _validate
from noisette._typing import Floats
from noisette.core import accounting
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms import Gaussian, ObjectiveNoise
from noisette.core.parts import each
from noisette.core.plans import Run, Together
from noisette.errors import InvalidParameter, NoisetteError, Unproven
from noisette.fitting.algorithms.algorithm import Algorithm, PreparedModel
from noisette.fitting.algorithms.objective_perturbation import (
    check_solve,
    of_curvature,
    shape_of,
    solve_with,
)
from noisette.fitting.algorithms.passage import Passage
from noisette.fitting.algorithms.public import Public
from noisette.fitting.algorithms.records import Records
from noisette.fitting.algorithms.second_moment import second_moment, whitener
from noisette.fitting.clipping import clip_rows
from noisette.fitting.losses import Loss
from noisette.fitting.losses.base import MarginLoss
from noisette.fitting.losses.rows import Rows, row_products


class NoisyWeights(list[Floats]):
    """The weights of one model; `noise` is about the deviation of each, None if it is not known."""

    noise: Floats | None = None


_SHARE_OF_HIDING = 1e-6  # of mu squared
_ROOM = 1.5  # Lambda relative to the least one: keeps the objective step close to Gaussian


@lru_cache(maxsize=128)
def _calibrated(share: float, dimension: int, k: float, shape: str, classes: int, persons: bool,
                epsilon: float, delta: float, adjacency: Adjacency) -> float:  # fmt: skip
    """Return the multiplier scale c with which the plan meets the budget."""
    try:
        return accounting.calibrate(
            lambda c: _plan(c, share, dimension, k, shape, classes, persons),
            epsilon=epsilon,
            delta=delta,
            adjacency=adjacency,
        )
    except (ArithmeticError, ValueError) as error:
        if isinstance(error, NoisetteError):
            raise
        raise InvalidParameter(  # e^epsilon leaves float64 from about 150 on
            f"whitening at epsilon={epsilon:g} cannot be counted in floating point; ask for a "
            "smaller epsilon, or use whiten=False."
        ) from None


def _plan(c: float, share: float, dimension: int, *rule: Any) -> Together:
    """Return the plan in which mu^2 is divided as share : rest : almost nothing."""
    return Together(
        Run(Gaussian(c / math.sqrt(share))),
        Run(ObjectiveNoise(c / math.sqrt(1.0 - share), dimension, "gaussian", *rule)),
        Run(Gaussian(c / math.sqrt(_SHARE_OF_HIDING))),
    )


@dataclass(frozen=True)
class WhitenedObjective(Algorithm[PreparedModel]):
    """Release the second moment, make the rows alike in all directions, then perturb the objective.

    `share` of the budget (in mu squared) goes to the second moment. The regularisation of the
    public facts is ignored: it follows from the released norm R'.
    """

    name: ClassVar[str] = "whitened"
    summary: ClassVar[str] = "objective perturbation on privately whitened rows; needs delta"

    share: float = 0.1

    def prepare(self, public: Public) -> PreparedModel:
        """Return the second moment, the linear term and one tiny release of the solution."""
        if public.models != 1:
            raise Unproven(
                "whitening is for one model; use multi_class='softmax', not one-vs-rest."
            )
        if public.delta == 0.0:
            raise InvalidParameter("whitening needs delta > 0; set delta, or whiten=False.")
        _validate.fraction("the share for whitening", self.share)
        loss = public.loss
        k = public.epsilon / (_ROOM * public.adjacency.contributions)
        rule = (k, shape_of(loss), getattr(loss, "classes", 2), public.grouped)
        c = _calibrated(
            self.share, public.dimension, *rule, public.epsilon, public.delta, public.adjacency
        )
        plan = _plan(c, self.share, public.dimension, *rule)
        noise: Any = plan.plans[1]
        # Whether the solve ends does not depend on R', which scales all of it alike
        # (Lambda ~ R'^2); both ends of its range are checked, with room for rounding.
        for bound in (1.0, math.sqrt(public.features)):
            check_solve(_inner(public, bound, k * (1.0 + 1e-6)), noise.mechanism)
        return PreparedModel(public, plan, ("WHITENING", *loss.proofs))

    def passes(self, prepared: PreparedModel) -> float:
        """Return about how often every row is read."""
        return 30.0 + prepared.public.features / 4.0

    def run(self, records: Records, prepared: PreparedModel, passage: Passage) -> NoisyWeights:
        """Return one private model."""
        public = prepared.public
        moment = _private_second_moment(records, public, passage)
        count, noise = public.size or public.most, passage.leaf(1).mechanism
        assert count is not None
        assert isinstance(noise, ObjectiveNoise)
        map_, new_bound = whitener(moment / count, public.norm_bound)
        mapped = each(partial(_whitened, map_, new_bound), records.rows, dense=True)
        inner = _inner(public, new_bound, noise.curvature)  # k, as it was charged
        whitened = Records(mapped, records.targets, records.weights, records.unit)
        (theta,) = solve_with(whitened, inner, passage, parts=(1, 2))
        out = NoisyWeights([theta @ map_])  # A is symmetric
        if theta.ndim == 1:
            out.noise = noise_of_minimiser(
                map_ @ (moment / count) @ map_, theta, public.loss, count=count, bound=new_bound,
                ridge=inner.ridge, back=map_,
                term=noise.noise_multiplier * noise.spread * inner.gradient_bound,
            )  # fmt: skip
        return out


def _whitened(map_: Floats, bound: float, rows: Any) -> Any:
    """Return the rows in the released coordinates, each cut by itself."""
    moved = [np.asarray(row_products(block, map_)) for _, block in Rows(rows).blocks()]
    # proof: WHITENING
    return clip_rows(np.concatenate(moved or [np.zeros((0, len(map_)))]), bound)


def _inner(public: Public, bound: float, k: float) -> Public:
    """Return the facts of the objective step: rows of norm R' = `bound`, Lambda = s R'^2 / k."""
    return of_curvature(replace(public, norm_bound=bound), k)


def _positive(weights: Floats) -> Floats:
    return (weights > 0.0).astype(float)


def _private_second_moment(records: Records, public: Public, passage: Passage) -> Floats:
    """Return the noisy second moment of all rows that take part: weight 0 is the null record.

    The rows of a person share one weight here too.
    """
    weights = records.weights
    taking_part = records.unit.share(None if weights is None else each(_positive, weights))
    return second_moment(
        records.rows, math.sqrt(public.squared_bound / public.weight_bound), public.adjacency,
        passage, most=public.most or len(records.targets[0]), weights=taking_part,
    )  # fmt: skip


_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(21)


def _bends(loss: Loss, variance: float) -> tuple[float, float]:
    """Return E l''(s) and E l''(s) (s^2 / v - 1) over scores s of a normal law of variance v.

    By Stein's identity these are the curvature across the weights and what is added along them.
    Losses of a residual count as if no residual were beyond their threshold.
    """
    if not isinstance(loss, MarginLoss):
        return loss.initial_curvature, 0.0
    bend = loss.second_derivative(math.sqrt(max(variance, 0.0)) * _NODES)
    each = np.array([bend, bend * (_NODES**2 - 1.0)]) @ _WEIGHTS / _WEIGHTS.sum()
    return float(each[0]), float(each[1])


def noise_of_minimiser(
    moment: Floats, theta: Floats, loss: Loss, *, count: float, bound: float, ridge: float,
    term: float, back: Floats,
) -> Floats:  # fmt: skip
    """Return about the deviation that a random linear term gives each weight of a minimiser.

    Near the minimum noise b moves the weights by -H^-1 b. H is estimated for normal rows of the
    released second `moment`, cut to `bound`, at the released weights, with Lambda = `ridge`; `term`
    is the deviation of each entry of b. `back` maps the weights to those that are published.
    """
    values, vectors = np.linalg.eigh(moment)
    values = np.maximum(values, 0.0)
    share, mean, square = 1.0, float(values.sum()), float(np.sum(values**2))
    if mean > 0.0:
        # what the cut leaves of the squared length, which is taken as a multiple of a chi-square
        # law of the same mean and variance
        k, cut = mean**2 / square, bound**2 * mean / square
        share = float(chi2.cdf(cut, k + 2.0) + cut / k * chi2.sf(cut, k))
    rows = share * (vectors * values) @ vectors.T
    scores = float(theta @ rows @ theta)
    across, along = _bends(loss, scores)
    bend = across * rows
    if scores > 0.0:
        bend = bend + along / scores * np.outer(rows @ theta, rows @ theta)
    spread = np.linalg.inv(count * bend + ridge * np.eye(len(theta))) @ back
    return np.asarray(term * np.sqrt(np.sum(spread**2, axis=0)))
