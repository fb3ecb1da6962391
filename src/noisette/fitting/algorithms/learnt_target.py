"""Buy the limits of a number to predict, then train: one plan, charged before the first look.

Two private quantiles of the targets become the limits; targets are cut to them and scaled to
[-1, 1], row by row, and the training that follows sees scaled targets only. Its plan does not
depend on the limits, so all of it is known from public facts.
"""

import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from noisette._typing import Floats
from noisette.core import accounting
from noisette.core.grid import NATS, Grid
from noisette.core.mechanisms import Exponential
from noisette.core.parts import each, joined
from noisette.core.plans import Plan, Repeat, Run, Together
from noisette.core.summaries import Ranks, quantile_move
from noisette.errors import InvalidParameter
from noisette.fitting.algorithms.algorithm import Behind, PreparedBehind
from noisette.fitting.algorithms.passage import Passage
from noisette.fitting.algorithms.public import Public
from noisette.fitting.algorithms.recommend import Recommendation
from noisette.fitting.algorithms.records import Records

LEARN = "learn"
"""What users pass in place of limits that are to be bought."""

BUYING = "buying the limits of a target"  # why a size is asked for
_EACH = 0.1  # of epsilon, the pure cost of one of the two choices
# What may be left of epsilon for the model, most first. Two choices of 0.1 epsilon add up to 0.2
# at worst; with a delta they cost far less together with the rest, and the accountant says how
# much.
_LEFT = (0.98, 0.95, 0.9, 0.85, 1.0 - 2.0 * _EACH - 1e-9)
_MOST = 2**30  # rows whose ranks are exact: QUANTILE
_LEAST_TAIL, _HOPELESS = 0.005, 0.25
_WIDER = 0.05  # of the distance of the two quantiles, added on either side


def scaled(y: Floats, low: float, high: float) -> Floats:
    """Return targets cut to their limits, in [-1, 1]: row-local, free."""
    # proof: ROW-LOCAL
    middle, half = low / 2.0 + high / 2.0, (high - low) / 2.0
    return np.clip((np.clip(y, middle - half, middle + half) - middle) / half, -1.0, 1.0)


@dataclass(frozen=True)
class WithLimits:
    """What the model's own training released, and the limits before it."""

    inner: Any
    low: float
    high: float


@dataclass(frozen=True)
class LearntTarget(Behind):
    """Choose two quantiles of the targets with noise, cut and scale by them, run `algorithm`.

    The records hold targets as they are.
    """

    summary: ClassVar[str] = "a training behind private limits of its target"

    def prepare(self, public: Public) -> PreparedBehind:
        """Return the two choices and the model in one plan."""
        # proof: PLAN-BEFORE-LOOK
        inner = self.algorithm.prepare(public)
        _tail(public, self.epsilon)  # refuses a size and a budget that cannot buy limits
        proofs = (*inner.proofs, "QUANTILE", "PLAN-BEFORE-LOOK", "ROW-LOCAL")
        whole, plan = replace(inner.public, epsilon=self.epsilon), _plan(self.epsilon, inner.plan)
        return PreparedBehind(whole, plan, proofs, inner.weight_noise, inner)

    def check(self, records: Records, prepared: PreparedBehind) -> None:
        """Refuse data that would break a bound, before anything is charged."""
        if records.rows.shape[0] > _MOST:
            raise InvalidParameter(f"the limits of a target are bought from at most {_MOST} rows.")
        nothing = each(partial(np.zeros_like, dtype=float), records.targets[0])
        super().check(_with(records, nothing), prepared)

    def run(self, records: Records, prepared: PreparedBehind, passage: Passage) -> WithLimits:
        """Return what the algorithm releases on scaled targets, and the limits."""
        grid, adjacency = Grid(), prepared.public.adjacency
        mechanism: Any = passage.leaf().mechanism
        y, ends, tail = records.targets[0], [], _tail(prepared.public, self.epsilon)
        for q in (tail, 1.0 - tail):
            # proof: QUANTILE
            ranks = joined(partial(_ranks, grid, q > 0.5), y, records.weights, join=Ranks.join)
            scores = ranks.quantile(
                q, adjacency, epsilon=mechanism.epsilon, log_prior=grid.log_prior
            )
            ends.append(passage.release(scores))
        first, last = sorted(ends)
        if first == last:  # neighbours of a single candidate, so that they are a little apart
            first, last = max(first - 1, 0), min(last + 1, len(grid.points) - 1)
        low, high = float(grid.points[first]), float(grid.points[last])
        low, high = low - _WIDER * (high - low), high + _WIDER * (high - low)
        lighter = _with(records, each(partial(scaled, low=low, high=high), y))
        return WithLimits(self.algorithm.run(lighter, prepared.inner, passage.after(1)), low, high)


def _with(records: Records, target: Floats) -> Records:
    other = copy.copy(records)
    other.targets = [target]
    return other


def _ranks(grid: Grid, up: bool, y: Any, weights: Any) -> Ranks:
    return Ranks(grid.snapped(np.asarray(y, dtype=float), up=up), grid.points, weights)


def _plan(epsilon: float, rest: Plan) -> Plan:
    return Together(Repeat(Run(Exponential(_EACH * epsilon)), 2), rest)


def _tail(public: Public, epsilon: float) -> float:
    """Return the share of targets to leave beyond each quantile: a public rule.

    So many ranks that numbers far from all targets are hardly chosen, which depends on the size:
    without a guess of it a limit of 10^12 would be bought in silence.
    """
    size = public.known_size(BUYING)
    error = 2.0 * quantile_move(_LEAST_TAIL, public.adjacency) / (_EACH * epsilon)
    needed = 1.5 * NATS * error / size
    if needed >= _HOPELESS:
        raise InvalidParameter(
            "from public facts alone, the limits of the target cannot be bought with so few "
            f"{public.unit}s and so little epsilon; pass target_bounds=(low, high), or use a "
            "larger epsilon."
        )
    return max(_LEAST_TAIL, needed)


def with_limits(public: Public, recommended: Any) -> Recommendation:
    """Return the training that `recommended` chooses for what the limits leave of the budget.

    The largest part of epsilon with which the accountant certifies the whole plan is left.
    """
    for left in _LEFT:
        chosen: Recommendation = recommended(replace(public, epsilon=public.epsilon * left))
        plan = _plan(public.epsilon, chosen.algorithm.prepare(chosen.public).plan)
        delta, adjacency = chosen.public.delta, public.adjacency  # a training may be pure
        if left == _LEFT[-1] or (
            delta > 0.0
            and accounting.epsilon(plan, delta=delta, adjacency=adjacency) <= public.epsilon
        ):
            break
    note = (
        f"Limits of the target: two private quantiles, {_EACH:g} of epsilon each by themselves; "
        f"the model has {left:.2f} of epsilon, as the accountant certifies of all together."
    )
    algorithm = LearntTarget(chosen.algorithm, public.epsilon)
    return replace(chosen, algorithm=algorithm, notes=(*chosen.notes, note))
