"""Exposed numbers: what was drawn is what was charged, and what was charged is what is claimed.

Deterministic, on a few fits. The order of events (charge before any randomness), the number and the
law of the draws, the relation, the sensitivities against the theorems, the rounding of what left
the door, and the epsilon of the plan by closed forms.
"""

import math
from typing import Any

import numpy as np

from noisette.audit.canaries import intercept_only, long_row, plain_table
from noisette.audit.whitebox.outcome import Tally
from noisette.audit.whitebox.problem import constants
from noisette.audit.whitebox.records import Release, Solve
from noisette.audit.whitebox.subject import AuditedEstimator
from noisette.audit.whitebox.theory import CONTRIBUTIONS, least_epsilon
from noisette.audit.whitebox.trace import Trace
from noisette.core import accounting
from noisette.core.guarantee import Guarantee
from noisette.core.mechanisms import ObjectiveNoise
from noisette.core.mechanisms.base import AdditiveNoise
from noisette.core.plans import LastIterate

_TIGHT = 1e-9


def exposed(subject: AuditedEstimator) -> Tally:
    """Look at one fit on an ordinary table, one with a long row, one with zero rows."""
    out = Tally("exposed numbers", subject.claim)
    room = subject.room()
    tables = [plain_table(room), long_row(room).first, intercept_only(room).first]
    for data in tables:
        model, trace = subject.fit(data.bare())
        out.runs += 1
        out.applies = True
        promise = getattr(model, "privacy_", None)
        if not isinstance(promise, Guarantee):
            out.fault("the model carries no guarantee")
            continue
        _order(trace, out)
        _counts(trace, out)
        _claims(promise, trace, subject, out)
        for seen in trace.releases:
            _law(seen, subject, out)
        _sensitivities(trace, subject, out)
        _weights(trace, data.options.get("persons"), out)
        _iterates(trace, out)
        _published(model, trace, subject, out)
    out.note = (
        f"{len(tables)} fits: charged before drawn, drawn as charged, and the plan costs what is "
        "claimed"
    )
    return out


def _order(trace: Trace, out: Tally) -> None:
    if not trace.charges:
        out.fault("nothing was charged")
    elif trace.charges[0].reads:
        out.fault("randomness was used before anything was charged")
    for draw in trace.stray:
        when = "" if draw.charged else " and before anything was charged"
        out.fault(f"{draw.mechanism.name} noise was drawn outside the door{when}")


def _counts(trace: Trace, out: Tally) -> None:
    """Every leaf of the charged plan drew exactly what was counted."""
    for charge in trace.charges:
        for part, (leaf, count) in enumerate(charge.plan.leaves()):
            drawn = sum(
                seen.drawn
                for seen in trace.releases
                if seen.plan is charge.plan and seen.part == part
            )
            counted = count * leaf.draws_per_use
            if drawn != counted:
                out.fault(f"part {part} of the plan counts {counted} noise vectors, {drawn} ran")
    charged = [charge.plan for charge in trace.charges]
    if any(not any(seen.plan is plan for plan in charged) for seen in trace.releases):
        out.fault("a value was released under a plan that was not charged")


def _claims(promise: Guarantee, trace: Trace, subject: AuditedEstimator, out: Tally) -> None:
    epsilon, delta = subject.claim
    if subject.persons and promise.unit != "person":
        out.fault("the guarantee speaks of single rows, the claim of all rows of a person")
    if promise.adjacency is not subject.adjacency:
        out.fault(f"the guarantee speaks of {promise.adjacency}, the claim of {subject.adjacency}")
    # read at the claimed delta: another point of the promised curve is promised as well
    if promise.epsilon > epsilon * (1.0 + _TIGHT) or promise.delta > delta * (1.0 + _TIGHT):
        reached = promise.epsilon_at(delta)
        if reached > epsilon * (1.0 + _TIGHT):
            out.fault(f"the guarantee is weaker than the claim: epsilon = {reached:.4g} there")
    if [charge.plan for charge in trace.charges] != [promise.plan]:
        out.fault("the guarantee cites another plan than was charged")
    least = least_epsilon(promise.plan, delta, subject.adjacency)
    if least > epsilon * (1.0 + 1e-6):
        out.fault(f"the plan costs epsilon >= {least:.4g} at delta = {delta:g}")
    stated = accounting.delta(promise.plan, epsilon=epsilon, adjacency=subject.adjacency)
    if stated > delta * (1.0 + 1e-6) and accounting.epsilon(
        promise.plan, delta=delta, adjacency=subject.adjacency
    ) > epsilon * (1.0 + 1e-9):
        out.fault("the accountants give the plan more than the claim")


def _law(seen: Release, subject: AuditedEstimator, out: Tally) -> None:
    """The mechanism of the plan drew, at the unit of the bound, and the result is on its grid."""
    if seen.bounded.adjacency is not subject.adjacency:
        out.fault(f"a value is bounded for {seen.bounded.adjacency} neighbours")
    for draw in seen.draws:
        if draw.mechanism != seen.mechanism:
            out.fault(f"{draw.mechanism!r} drew where {seen.mechanism!r} was charged")
        moved = draw.unit * CONTRIBUTIONS[subject.adjacency.value]
        if seen.bounded.l2 is not None and moved < seen.bounded.l2 * (1.0 - _TIGHT):
            out.fault("the noise is scaled to less than the declared sensitivity")
    if seen.result is None or not isinstance(seen.mechanism, AdditiveNoise) or not seen.draws:
        return
    scale = seen.mechanism.noise_multiplier * seen.draws[0].unit
    grid = 2.0 ** (math.floor(math.log2(scale)) - 24)
    if not np.array_equal(np.rint(seen.result / grid) * grid, seen.result):
        out.fault("a released value is not rounded to the public grid")


def _sensitivities(trace: Trace, subject: AuditedEstimator, out: Tally) -> None:
    """Declared bounds against the theorems at the rows that the solver really saw."""
    a = CONTRIBUTIONS[subject.adjacency.value]
    if trace.solves:
        first = trace.solves[0]
        for seen in trace.releases:
            if isinstance(seen.mechanism, ObjectiveNoise):
                _objective(seen, first, out)
            elif first.linear is None:
                L, row = constants(first.loss)[0], _row(first)
                moved = math.sqrt(len(trace.solves)) * a * L * row * _cap(first)
                out.ratio(moved / first.regularization, seen.bounded.l2 or 0.0, _SENSITIVITY)
            elif seen.bounded.proof == "SECOND-MOMENT":
                continue  # in other coordinates; `replay` looks at it
    for step in trace.steps:
        bound = trace.releases[0].bounded.contribution or 0.0
        if step.update.contribution > bound * (1.0 + _TIGHT):
            out.fault("the kernel bounds a record by more than was declared")


def _weights(trace: Trace, persons: Any, out: Tally) -> None:
    """All rows of one person together weigh no more than one record in what is solved."""
    if persons is None:
        return
    for solve in trace.solves:
        if solve.weight is None or len(solve.weight) != len(persons):
            out.fault("a problem was solved whose rows are not weighted by person")
            continue
        heaviest = max(math.fsum(solve.weight[persons == each]) for each in np.unique(persons))
        out.ratio(heaviest, 1.0, "the weight of all rows of one person")


_SENSITIVITY = "the sensitivity of the solution, by the theorem,"


def _objective(seen: Release, solve: Solve, out: Tally) -> None:
    law = seen.mechanism
    assert isinstance(law, ObjectiveNoise)
    L, c = constants(solve.loss)
    row, cap = _row(solve), _cap(solve)
    out.ratio(cap * L * row, seen.bounded.contribution or 0.0, "one record's gradient")
    per_row = {"self-bounded": 4.0 * c, "softmax": 1.0 - 1.0 / law.classes}
    k = cap * per_row.get(law.shape, c) * row * row / solve.regularization
    out.ratio(k, law.curvature, "one record's Hessian over Lambda")


def _row(solve: Solve) -> float:
    """The longest row that the solver saw; the long-row table attains the bound."""
    return float(np.max(np.linalg.norm(solve.rows, axis=1)))


def _cap(solve: Solve) -> float:
    return 1.0 if solve.weight is None else float(np.max(solve.weight))


def _iterates(trace: Trace, out: Tally) -> None:
    """SGD: each step is the stated update of its batch sum and its noise."""
    for step in trace.steps:
        public = step.update
        rate = float(public.rates(step.number, 1)[0])
        noisy = step.total + step.noise
        if step.grid > 0.0:
            noisy = np.rint(noisy / step.grid) * step.grid
        after = (1.0 - rate * public.regularization) * step.w - rate / step.normaliser * noisy
        norm = float(np.linalg.norm(after))
        if norm > public.radius:
            after *= public.radius / norm
        tolerance = 1e-9 * (1.0 + norm) + 2.0 * rate / step.normaliser * step.grid
        if float(np.max(np.abs(after - step.after))) > tolerance:
            out.fault("a step is not the stated update of its sum and its noise")
            return


def _published(model: Any, trace: Trace, subject: AuditedEstimator, out: Tally) -> None:
    """The model's numbers are what left the door, or the iterates' stated mean."""
    if trace.steps:
        weights = _of_iterates(trace)
    elif trace.solves and not any(s.bounded.proof == "SECOND-MOMENT" for s in trace.releases):
        weights = trace.releases[-1].result
    else:
        return  # another map lies between, which is post-processing of what left the door
    loss: Any = trace.steps[0].update.loss if trace.steps else trace.solves[0].loss
    coef, shift = np.asarray(model.coef_), np.asarray(model.intercept_)
    if loss.kind == "regression":  # a target in [-1, 1] stands for one between public bounds
        low, high = subject.parameters["target_bounds"]
        coef, shift = coef[None, :] * 2.0 / (high - low), np.array([shift - (low + high) / 2.0])
    constant = subject.parameters.get("fit_intercept", True)
    parts = weights.reshape(-1, coef.shape[1] + bool(constant))
    if loss.kind == "multiclass":
        parts = loss.basis @ parts
        if len(coef) == 1:
            parts = parts[1:] - parts[:1]
    inner = parts[:, :-1] if constant else parts
    scale = 1.0 + float(np.max(np.abs(parts)))
    wrong = inner.shape != coef.shape or float(np.max(np.abs(inner - coef))) > 1e-6 * scale
    if constant and not wrong:
        # the intercept is a public multiple of the last weight
        wrong = abs(float(np.vdot(parts[:, -1], shift))) < (1.0 - 1e-9) * float(
            np.linalg.norm(parts[:, -1]) * np.linalg.norm(shift)
        )
    if wrong:
        out.fault("the model's coefficients are not what was released")


def _of_iterates(trace: Trace) -> Any:
    """Return the last iterate, or the mean that `averaging` states where all are counted."""
    leaves = [leaf for charge in trace.charges for leaf, _ in charge.plan.leaves()]
    power = trace.steps[0].update.averaging
    if power is None or any(isinstance(leaf, LastIterate) for leaf in leaves):
        return trace.steps[-1].after
    mean = np.zeros_like(trace.steps[0].w)
    for t, step in enumerate(trace.steps, start=1):
        mean += (power + 1.0) / (t + power) * (step.after - mean)
    return mean
