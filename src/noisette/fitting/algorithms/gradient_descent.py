"""Private gradient descent without tuning: full batch, momentum, tail average.

With T steps that are mu-GDP together, the statistical effect of step size eta and momentum beta is
tau = eta T / (1 - beta) alone, and it acts like 1 / lambda. In rows of norm 1,

    tau = min(16 n mu / (Delta sqrt(d)), T_max / (M (1 - beta))),   beta = 0.9,
    T = max(8, ceil(tau (1 - beta) M)),   eta = tau (1 - beta) / T,

from public facts only (M is the loss's curvature, Delta a planning value of the sensitivity). The
noise of step t has std Delta_t sqrt(T) / mu on the gradient sum, where Delta_t bounds the
sensitivity *at the released iterate* w_t: for logistic loss it grows with ||w_t|| from half of the
global bound (LOGISTIC-SENSITIVITY-*). Choosing it from past outputs is what FILTER-GDP licenses.
The mean of the last T/2 iterates is post-processing.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from noisette._typing import Floats
from noisette.core.accounting.sensitivity import logistic_gradient_sensitivity
from noisette.core.adjacency import Adjacency
from noisette.core.bounded import Bounded
from noisette.core.mechanisms import Gaussian
from noisette.core.mechanisms.gaussian_curve import gdp_delta, gdp_mu
from noisette.core.parts import summed
from noisette.core.plans import Repeat, Run
from noisette.errors import InvalidParameter, Unproven
from noisette.fitting.algorithms.algorithm import PreparedModel
from noisette.fitting.algorithms.levels import Levels, Stepwise, share_proofs, shares_of
from noisette.fitting.algorithms.passage import Passage
from noisette.fitting.algorithms.public import Public, check_scale
from noisette.fitting.algorithms.records import Records
from noisette.fitting.algorithms.steps import CUT_SHORT, Progress, Update, blocked_gradient
from noisette.fitting.losses import Logistic
from noisette.fitting.losses.partitioned import rows_of
from noisette.fitting.solvers.rounding import UNIT, PublicFacts, gradient_error

MOMENTUM = 0.9
FACTOR = 16.0
MOST_STEPS = 1_000
LEAST_STEPS = 8


@dataclass(frozen=True)
class Recipe:
    """Steps T, step size eta (for rows of norm R as they are) and the budget mu of all steps."""

    steps: int
    step_size: float
    mu: float


def recipe(update: Update, public: Public) -> Recipe:
    """Return the schedule from public facts."""
    if not math.isfinite(update.loss.smoothness):
        raise Unproven(
            f"gradient descent needs a smooth loss, which the {update.loss.name} is not; use "
            "'huber' or 'softplus', or choose another sampling."
        )
    size, adjacency = public.known_size("gradient descent"), public.adjacency
    bound = update.row_bound
    mu = gdp_mu(public.epsilon, public.delta)
    largest = 1.0 / (update.loss.smoothness + update.regularization / bound**2)
    planned = update.contribution / bound * adjacency.contributions
    if isinstance(update.loss, Logistic) and update.clip_norm is None:
        planned = 1.5 if adjacency is Adjacency.REPLACE_ONE else 1.0
    tau = min(
        FACTOR * size * mu / (planned * math.sqrt(public.dimension)),
        MOST_STEPS * largest / (1.0 - MOMENTUM),
    )
    steps = max(LEAST_STEPS, math.ceil(tau * (1.0 - MOMENTUM) / largest))
    return Recipe(steps, tau * (1.0 - MOMENTUM) / steps / bound**2, mu)


@dataclass(frozen=True)
class Descent(PreparedModel):
    """The schedule that was planned for."""

    schedule: Recipe = Recipe(1, 1.0, 1.0)


@dataclass(frozen=True)
class GradientDescent(Stepwise[Descent]):
    """Noisy gradient descent on all rows: the tail average of its iterates.

    `levels` are everyone's own epsilon: gradients are scaled by mu(epsilon_i) / mu(epsilon).
    """

    name: ClassVar[str] = "gradient-descent"
    summary: ClassVar[str] = "noisy gradient descent on all rows, without tuning; needs delta"

    update: Update
    levels: Levels | None = None
    schedule: Recipe | None = None

    def prepare(self, public: Public) -> Descent:
        """Return the schedule's steps with the least Gaussian noise."""
        if self.levels is not None and not self.levels.scaled:
            raise InvalidParameter("gradient descent takes all rows at once; grouping='scale'.")
        schedule = self.schedule or recipe(self.update, public)
        root, contributions = math.sqrt(schedule.steps), public.adjacency.contributions
        z = contributions * root / schedule.mu
        while float(gdp_delta(root * (contributions / z), public.epsilon)) > public.delta:
            z *= 1.0 + 1e-15
        check_scale(Gaussian(z), self.update.contribution)
        proofs = ("CLIP", "FILTER-GDP", *share_proofs(self.levels, "gaussian", public.delta))
        return Descent(public, Repeat(Run(Gaussian(z)), schedule.steps), proofs, None, schedule)

    def check(self, records: Records, prepared: Descent) -> None:
        """Refuse labels, weights and levels that would break the bound."""
        if self.update.norm_bound is None and rows_of(records.rows).most_merges:
            raise Unproven(
                "rows in partitions need norm_bound, without which the rounding of their sums has "
                "no bound."
            )
        super().check(records, prepared)

    def passes(self, prepared: Descent) -> float:
        """Return about how often every row is read."""
        return float(prepared.schedule.steps)

    def run(self, records: Records, prepared: Descent, passage: Passage) -> list[Floats]:
        """Return the tail average."""
        public, update, schedule = prepared.public, self.update, prepared.schedule
        adjacency, size = public.adjacency, public.known_size("gradient descent")
        share = shares_of(records, self.levels, public, "gaussian")
        gradient = _gradient_of(records.rows, records.targets[0], update, share)
        rounding = _rounding_of(records.rows, update, public)
        w, velocity, tail = (np.zeros(public.dimension) for _ in range(3))
        steps, first_kept = schedule.steps, schedule.steps // 2
        progress = Progress(passage.verbose, steps)
        for t in range(steps):
            bound, proof = _sensitivity(update, w, adjacency)
            bound += 2.0 * rounding(w)  # in both worlds
            # proof: FILTER-GDP
            value = Bounded(gradient(w), l2=bound, adjacency=adjacency, proof=proof)
            velocity *= MOMENTUM
            velocity += passage.release(value) / size + update.regularization * w
            w = w - schedule.step_size * velocity
            norm = float(np.linalg.norm(w))
            if norm > update.radius:
                w *= update.radius / norm
            if t >= first_kept:
                tail += w / (steps - first_kept)
            progress.show(t + 1)
        return [tail.reshape(update.shape(records.rows.shape[1]))]


def _sensitivity(update: Update, w: Floats, adjacency: Adjacency) -> tuple[float, str]:
    """Return (sensitivity of the gradient sum at w, its theorem)."""
    everywhere = adjacency.contributions * update.contribution
    if not isinstance(update.loss, Logistic) or update.norm_bound is None:
        return everywhere, "CLIP"
    # the norm is computed in floating point: rounded up
    norm = float(np.linalg.norm(w)) * (1.0 + 1e-12)
    here = float(logistic_gradient_sensitivity(norm, adjacency.value, row_bound=update.row_bound))
    if here >= everywhere:
        return everywhere, "CLIP"
    if adjacency is Adjacency.REPLACE_ONE:
        # proof: LOGISTIC-SENSITIVITY-REPLACE-ONE
        return here, "LOGISTIC-SENSITIVITY-REPLACE-ONE"
    return here, "LOGISTIC-SENSITIVITY-ZERO-OUT"  # proof: LOGISTIC-SENSITIVITY-ZERO-OUT


def _rounding_of(rows: Any, update: Update, public: Public) -> Callable[[Floats], float]:
    """Return w -> how far a sum over partitions can be from the exact one; 0 in memory.

    In memory, one sweep adds the same rows in the same order for both neighbours but one; where
    rows are in partitions a row may come to stand in another block.
    """
    blocks, R, d = rows_of(rows), update.row_bound, public.features
    most, mass = public.most_rows, public.most
    if not blocks.most_merges:  # the order of additions is that of the rows
        return lambda w: 0.0
    # proof: ROUND-ANY-ORDER
    assert most is not None and mass is not None  # noqa: PT018
    depth = blocks.block_rows + -(-most // blocks.block_rows) + blocks.most_merges
    facts = PublicFacts(
        rows=most, features=d, norm_bound=R, weight_bound=1.0, regularization=0.0, linear_norm=0.0
    )
    cut = 4.0 * (d + 8.0) * UNIT * mass  # the factor of a row, in both its places
    clipped = 0.0
    if update.clip < math.inf:  # a gradient at the limit may be cut in one place only
        clipped = (CUT_SHORT + (d + 16.0) * UNIT) * 2.0 * mass * update.contribution

    def error(w: Floats) -> float:
        size = float(np.linalg.norm(w)) * (1.0 + 1e-12)
        moved = update.contribution + update.loss.smoothness * R * R * size
        summing = gradient_error(update.loss, facts, size, float(mass), False, depth)
        return summing + cut * moved + clipped

    return error


def _part_gradient(update: Update, w: Floats, X: Any, y: Any, share: Any) -> Floats:
    return np.asarray(blocked_gradient(X, y, update, share)(w))


def _gradient_of(X: Any, y: NDArray[Any], update: Update, share: Floats | None) -> Any:
    """Return the function w -> sum of clipped gradients over all rows."""
    from noisette.fitting.algorithms import kernels

    if rows_of(X).most_merges:
        return lambda w: summed(partial(_part_gradient, update, w), X, y, share)
    loss, limit = update.loss, math.inf if update.norm_bound is None else update.norm_bound
    if loss.kernel is None or sparse.issparse(X):
        return blocked_gradient(X, y, update, share)
    shares, order = np.empty(0) if share is None else share, np.empty(0, dtype=np.int64)
    rule = (limit, update.bias or 0.0, update.clip, loss.kernel, loss.smoothing or 0.0)

    def gradient(w: Floats) -> Floats:
        g = np.zeros_like(w)
        kernels.add_rows(g, X, y, shares, order, 0, X.shape[0], w, *rule)
        return g

    return gradient
