"""Record and replay on neighbours: same randomness, same past, one record changed.

The second run is forced onto the outputs of the first (`trace`), as adaptive composition demands.
Then every value at the door may differ by at most its declared bound, and nothing else may differ
at all: plans, bounds, proofs, shapes, parts, normalisers, learning rates, noise, the number of
draws, and how many random numbers were consumed.

Objective perturbation releases theta, not its noise b. The second data set gets the b' that leads
to the same theta; then ||b - b'|| is the shift of the noise, and the determinants of the two
Hessians at theta are the Jacobians of the change of variables.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from noisette.audit.canaries import CANARIES, Neighbours, plain_table
from noisette.audit.whitebox.outcome import Tally
from noisette.audit.whitebox.records import Blind, FlowDiffers, Release
from noisette.audit.whitebox.subject import AuditedEstimator
from noisette.audit.whitebox.theory import CONTRIBUTIONS, ONCE
from noisette.audit.whitebox.trace import Trace
from noisette.errors import Unproven
from noisette.mechanisms import ObjectiveNoise

__all__ = ["replay"]

_SLACK = 1e-7  # relative: rounding in sums of gradients


def replay(subject: AuditedEstimator, *, seeds: int = 1) -> Tally:
    """Run every canary and compare the two traces."""
    out = Tally("replay on neighbours", subject.claim)
    room, compared = subject.room(), 0
    for number, make in enumerate(CANARIES.values()):
        pair = make(room)
        for seed in range(seeds):
            # other coins for each canary: a rare batch must hold some of them
            compared += compare(subject, pair, 100 * number + seed, out)
    out.note = (
        f"{len(CANARIES)} canaries: the largest move of a released value is {out.worst:.3f} of its "
        "declared bound, and "
    )
    out.note += (
        "everything else is identical"
        if compared
        else "no neighbour was compared, because fit cannot be told that a record is blank"
    )
    if out.worst == 0.0:
        if compared and not _chancy(subject):
            raise Blind("no canary moved anything that was released")
        # no random batch held a canary
        out.applies, out.missing = False, "no canary moved anything that was released"
    return out


def _chancy(subject: AuditedEstimator) -> bool:
    """Whether a record may be in no batch at all."""
    data = plain_table(subject.room())
    _, trace = subject.fit(data.bare())
    return any(seen.sampler.name not in ONCE for seen in trace.releases)


def compare(subject: AuditedEstimator, pair: Neighbours, seed: int, out: Tally) -> bool:
    """Fit both sides of one pair and write down what differs too much; False if one was fitted."""
    try:
        _, one = subject.fit(pair.first, seed=seed, watch=pair.changed)
    except Unproven:  # this sampler knows no level per person, hence no way to say "blank"
        _, one = subject.fit(pair.first.bare(), seed=seed, watch=pair.changed)
        pair = replace(pair, second=pair.first)
    out.runs += 1
    _contributions(one, pair.name, out)
    if pair.second is pair.first:
        return False
    try:
        _, two = subject.fit(pair.second, seed=seed, reference=one)
    except FlowDiffers as difference:
        out.fault(f"{pair.name}: {difference}")
        return True
    finally:
        out.runs += 1
    _flow(one, two, subject, pair.name, out)
    if _same_shape(one, two):
        _values(one, two, pair.name, out)
        _steps(one, two, subject, pair.name, out)
        _objectives(one, two, subject, pair.name, out)
    return True


def _contributions(trace: Trace, name: str, out: Tally) -> None:
    """What the canary adds to a batch sum is bounded by the declared contribution."""
    streams = [seen for seen in trace.releases if seen.stream]
    for step in trace.steps:
        if step.alone is not None and streams:
            bound = streams[0].bounded.contribution or math.inf
            size = float(np.linalg.norm(step.alone))
            out.ratio(size, bound, f"{name}: one record's or person's part of a sum", _SLACK)


def _same_shape(one: Trace, two: Trace) -> bool:
    counts = [(len(t.releases), len(t.solves), len(t.steps)) for t in (one, two)]
    return counts[0] == counts[1]


def _facts(seen: Release) -> tuple[Any, ...]:
    b = seen.bounded
    return (
        b.proof, b.adjacency, b.l2, b.l1, b.linf, b.contribution, b.categories, b.dimension,
        seen.part, seen.mechanism, seen.sampler, seen.drawn,
    )  # fmt: skip


def _flow(one: Trace, two: Trace, subject: AuditedEstimator, name: str, out: Tally) -> None:
    """Everything but the values must be the same."""
    compared: dict[str, list[Any]] = {"charged plan": [], "release": [], "noise": [], "solver": []}
    for trace in (one, two):
        charges = [(c.plan, c.epsilon, c.delta, c.reads) for c in trace.charges]
        compared["charged plan"].append(charges)
        compared["release"].append([_facts(seen) for seen in trace.releases])
        draws = [d.noise for seen in trace.releases for d in seen.draws]
        compared["noise"].append([block.tobytes() for block in draws])
        compared["solver"].append(
            [(s.loss, s.regularization, s.norm_bound, s.tolerance) for s in trace.solves]
        )
    steps = [
        [(s.normaliser, s.grid, s.number, s.update, s.noise.tobytes()) for s in trace.steps]
        for trace in (one, two)
    ]
    compared["normaliser or learning rate"] = steps
    compared["number of reads of randomness"] = [one.tape.reads, two.tape.reads]
    if subject.adjacency.size_is_public:
        used = [one.tape.consumed(), two.tape.consumed()]
        compared["amount of randomness consumed"] = list(used)
    for what, (first, second) in compared.items():
        if first != second:
            out.fault(f"{name}: the {what} depends on the data")


def _values(one: Trace, two: Trace, name: str, out: Tally) -> None:
    """Arrays at the door: f(D) - f(D') against the stated sensitivity."""
    for a, b in zip(one.releases, two.releases, strict=True):
        if a.stream or a.bounded.categories is not None:
            continue
        first, second = a.bounded.value, b.bounded.value
        if first.shape != second.shape:
            out.fault(f"{name}: the shape of a released value depends on the data")
            continue
        moved = (first - second).ravel()
        sizes = {"l2": 2, "l1": 1, "linf": np.inf}
        norm = a.bounded.norm
        bound = getattr(a.bounded, norm)
        what = f"{name}: a value bounded by {a.bounded.proof}"
        out.ratio(float(np.linalg.norm(moved, sizes[norm])), bound, what, _SLACK)


def _steps(one: Trace, two: Trace, subject: AuditedEstimator, name: str, out: Tally) -> None:
    """Batch sums at the same iterate, and in how many batches the canary was."""
    streams = [seen for seen in one.releases if seen.stream]
    if not one.steps or not streams:
        return
    bound = (streams[0].bounded.contribution or math.inf) * CONTRIBUTIONS[subject.adjacency.value]
    for a, b in zip(one.steps, two.steps, strict=True):
        moved = float(np.linalg.norm(a.total - b.total))
        out.ratio(moved, bound, f"{name}: the sum of a batch", _SLACK)


def _objectives(one: Trace, two: Trace, subject: AuditedEstimator, name: str, out: Tally) -> None:
    """Shift of the linear term, and the determinants, against the declared bounds."""
    streams = [seen for seen in one.releases if isinstance(seen.mechanism, ObjectiveNoise)]
    if not streams:
        return
    declared, law = streams[0].bounded, streams[0].mechanism
    assert isinstance(law, ObjectiveNoise)
    bound = (declared.contribution or math.inf) * CONTRIBUTIONS[subject.adjacency.value]
    k = law.curvature
    most = {"self-bounded": math.log1p(k / 4.0), "softmax": k}
    signed = math.log1p(k)  # one- and two-signed
    if law.persons:
        most, signed = most | {"self-bounded": k / 4.0}, k
    for a, b in zip(one.solves, two.solves, strict=True):
        if a.linear is None or b.linear is None:
            continue
        moved = float(np.linalg.norm(a.linear - b.linear))
        out.ratio(moved, bound, f"{name}: the shift of the linear term", _SLACK)
        first, second = (s.problem().hessian(a.weights) for s in (a, b))
        change = abs(float(np.linalg.slogdet(first)[1] - np.linalg.slogdet(second)[1]))
        limit = most.get(law.shape, signed)
        out.ratio(change, limit, f"{name}: the change of the log-determinant", 1e-6)
