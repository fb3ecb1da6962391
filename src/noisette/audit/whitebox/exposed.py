"""Exposed numbers: what was drawn is what was charged, and what was charged is what is claimed.

Deterministic, on a few fits. The order of events (charge before any randomness), the number and the
law of the draws, the relation, the sensitivities against the theorems, the rounding of what left
the door, and the epsilon of the plan by closed forms. `solver` compares each solution with the
auditor's own: one that stops early or drops a regularisation is further away than declared.
"""

import math
from typing import Any

import numpy as np

from noisette.audit.canaries import CANARIES, plain_table
from noisette.audit.findings import Tally
from noisette.audit.whitebox.subject import AuditedEstimator
from noisette.audit.whitebox.theory import CONTRIBUTIONS, constants, least_epsilon
from noisette.audit.whitebox.trace import Release, Trace
from noisette.core import accounting
from noisette.core.guarantee import Guarantee
from noisette.core.mechanisms import ObjectiveNoise
from noisette.core.mechanisms.base import AdditiveNoise

_TIGHT = 1e-9


def exposed(subject: AuditedEstimator) -> Tally:
    """Look at one fit on an ordinary table, one with a long row, one with zero rows."""
    out, room = Tally("exposed numbers", subject.claim, applies=True), subject.room()
    tables = (CANARIES[name](room).first for name in ("long row", "intercept only"))
    for data in (plain_table(room), *tables):
        model, trace = subject.fit(data.bare())
        out.runs += 1
        promise = getattr(model, "privacy_", None)
        if not isinstance(promise, Guarantee):
            out.fault("the model carries no guarantee")
            continue
        _order(trace, out)
        _claims(promise, trace, subject, out)
        for seen in trace.releases:
            _law(seen, subject, out)
        _sensitivities(trace, subject, out)
        _weights(trace, data.options.get("persons"), out)
        _iterates(trace, out)
    out.note = (
        f"{out.runs} fits: charged before drawn, drawn as charged, and the plan costs what is "
        "claimed"
    )
    return out


def _order(trace: Trace, out: Tally) -> None:
    """Charged before drawn, and every leaf of the charged plan drew exactly what was counted."""
    out.check(
        (not trace.charges, "nothing was charged"),
        (any(trace.reads[:1]), "randomness was used before anything was charged"),
    )
    for draw in trace.stray:
        when = "" if draw.charged else " and before anything was charged"
        out.fault(f"{draw.mechanism.name} noise was drawn outside the door{when}")
    for charge in trace.charges:
        own = [seen for seen in trace.releases if seen.plan is charge.plan]
        for part, (leaf, count) in enumerate(charge.plan.leaves()):
            drawn = sum(seen.drawn for seen in own if seen.part == part)
            counted = count * leaf.draws_per_use
            out.fault(
                f"part {part} of the plan counts {counted} noise vectors, {drawn} ran",
                drawn != counted,
            )
    out.fault(
        "a value was released under a plan that was not charged",
        any(all(seen.plan is not c.plan for c in trace.charges) for seen in trace.releases),
    )


def _claims(promise: Guarantee, trace: Trace, subject: AuditedEstimator, out: Tally) -> None:
    (epsilon, delta), relation, plan = subject.claim, subject.adjacency, promise.plan
    most, reached = epsilon * (1.0 + _TIGHT), promise.epsilon
    if promise.epsilon > most or promise.delta > delta * (1.0 + _TIGHT):
        # read at the claimed delta: another point of the promised curve is promised as well
        reached = promise.epsilon_at(delta)
    least = least_epsilon(plan, delta, relation)
    out.check(
        (subject.persons and promise.unit != "person",
         "the guarantee speaks of single rows, the claim of all rows of a person"),
        (promise.adjacency is not relation,
         f"the guarantee speaks of {promise.adjacency}, the claim of {relation}"),
        (reached > most, f"the guarantee is weaker than the claim: epsilon = {reached:.4g} there"),
        ([charge.plan for charge in trace.charges] != [plan],
         "the guarantee cites another plan than was charged"),
        (least > epsilon * (1.0 + 1e-6),
         f"the plan costs epsilon >= {least:.4g} at delta = {delta:g}"),
        (accounting.delta(plan, epsilon=epsilon, adjacency=relation) > delta * (1.0 + 1e-6)
         and accounting.epsilon(plan, delta=delta, adjacency=relation) > epsilon * (1.0 + 1e-9),
         "the accountants give the plan more than the claim"),
    )  # fmt: skip


def _law(seen: Release, subject: AuditedEstimator, out: Tally) -> None:
    """The mechanism of the plan drew, at the unit of the bound, and the result is on its grid."""
    bounded = seen.bounded
    out.fault(
        f"a value is bounded for {bounded.adjacency} neighbours",
        bounded.adjacency is not subject.adjacency,
    )
    for draw in seen.draws:
        moved = draw.unit * CONTRIBUTIONS[subject.adjacency.value]
        out.check(
            (draw.mechanism != seen.mechanism,
             f"{draw.mechanism!r} drew where {seen.mechanism!r} was charged"),
            (bounded.l2 is not None and moved < bounded.l2 * (1.0 - _TIGHT),
             "the noise is scaled to less than the declared sensitivity"),
        )  # fmt: skip
    if seen.result is None or not isinstance(seen.mechanism, AdditiveNoise) or not seen.draws:
        return
    grid = 2.0 ** (math.floor(math.log2(seen.mechanism.noise_multiplier * seen.draws[0].unit)) - 24)
    out.fault(
        "a released value is not rounded to the public grid",
        not np.array_equal(np.rint(seen.result / grid) * grid, seen.result),
    )


def _sensitivities(trace: Trace, subject: AuditedEstimator, out: Tally) -> None:
    """Declared bounds of solutions and objectives, which `replay` need not attain."""
    for seen in trace.releases if trace.solves else ():
        law, first, problem = seen.mechanism, trace.solves[0], trace.solves[0].problem
        L, c = constants(problem.loss)
        # the longest row that the solver saw; the long-row table attains the bound
        row, cap = np.max(np.linalg.norm(problem.rows, axis=1)), np.max(problem.weight)
        if isinstance(law, ObjectiveNoise):
            out.ratio(cap * L * row, seen.bounded.contribution or 0.0, "one record's gradient")
            per_row = {"self-bounded": 4.0 * c, "softmax": 1.0 - 1.0 / law.classes}
            k = cap * per_row.get(law.shape, c) * row * row / problem.ridge
            out.ratio(k, law.curvature, "one record's Hessian over Lambda")
        elif first.linear is None:
            moved = math.sqrt(len(trace.solves)) * CONTRIBUTIONS[subject.adjacency.value]
            moved *= L * row * cap / problem.ridge
            out.ratio(moved, seen.bounded.l2 or 0.0, "the sensitivity of the solution")


def _weights(trace: Trace, persons: Any, out: Tally) -> None:
    """All rows of one person together weigh no more than one record in what is solved."""
    for weight in [] if persons is None else [solve.problem.weight for solve in trace.solves]:
        apart = len(weight) != len(persons)
        out.fault("a problem was solved whose rows are not weighted by person", apart)
        if not apart:
            heaviest = max(np.bincount(np.unique(persons, return_inverse=True)[1], weight))
            out.ratio(float(heaviest), 1.0, "the weight of all rows of one person")


def _iterates(trace: Trace, out: Tally) -> None:
    """SGD: each step is the stated update of its batch sum and its noise, at its stated bound."""
    for step in trace.steps:
        public, declared = step.update, trace.releases[0].bounded.contribution or 0.0
        rate = float(public.rates(step.number, 1)[0][0])
        noisy = step.total + step.noise
        if step.grid > 0.0:
            noisy = np.rint(noisy / step.grid) * step.grid
        after = (1.0 - rate * public.regularization) * step.w - rate / step.normaliser * noisy
        norm = float(np.linalg.norm(after))
        after *= min(1.0, public.radius / max(norm, 1e-300))
        tolerance = 1e-9 * (1.0 + norm) + 2.0 * rate / step.normaliser * step.grid
        out.check(
            (public.contribution > declared * (1.0 + _TIGHT),
             "the kernel bounds a record by more than was declared"),
            (float(np.max(np.abs(after - step.after))) > tolerance,
             "a step is not the stated update of its sum and its noise"),
        )  # fmt: skip


def solver(subject: AuditedEstimator) -> Tally:
    """Fit on every canary and compare each solution with the auditor's own."""
    out = Tally("solver against its certificate", subject.claim, missing="no solver was called")
    for make in CANARIES.values():
        pair = make(subject.room())
        _, trace = subject.fit(pair.first.bare(), seed=7)
        out.runs += 1
        if not trace.solves:
            return out
        for solve in trace.solves:
            exact, error = solve.exact()
            away = max(0.0, float(np.linalg.norm(exact - solve.weights)) - error)
            what = f"{pair.name}: the distance to the optimum"
            out.ratio(away, solve.tolerance / solve.problem.ridge, what, 1e-6)
    out.note = f"the solutions are within {out.worst:.3f} of the certified distance"
    return out
