"""Replay at the door: same randomness, same past, one record or person changed.

The second run is forced onto the outputs of the first (`trace`), as adaptive composition demands.
Then every value at the door may differ by at most its declared bound, and nothing else may differ
at all: plans, bounds, proofs, shapes, parts, normalisers, learning rates, noise, the number of
draws, how many random numbers were consumed, warnings, and everything that the run returns (a
fitted model with all its attributes, the bytes of files).

Counts of unknown keys are compared key by key. Objective perturbation releases theta, not its noise
b. The second data set gets the b' that leads to the same theta; then ||b - b'|| is the shift of the
noise, and the determinants of the two Hessians at theta are the Jacobians of the change of
variables.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette.audit.canaries import CANARIES, plain_table
from noisette.audit.findings import Tally
from noisette.audit.fitted_state import fitted_state
from noisette.audit.whitebox.subject import AuditedEstimator
from noisette.audit.whitebox.theory import CONTRIBUTIONS, ONCE, pure_epsilon
from noisette.audit.whitebox.trace import Blind, FlowDiffers, Release, Run, Trace, watched
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms import GaussianThreshold, ObjectiveNoise, SphericalLaplace
from noisette.errors import NoisetteError

_SLACK = 1e-7  # relative: rounding in sums of gradients


def compare(
    first: Run, others: Mapping[str, Run], adjacency: Adjacency, out: Tally, *, seed: int = 0,
    watch: NDArray[np.intp] | None = None,
) -> int:  # fmt: skip
    """Run one data set and its neighbours, by name, and write down what differs too much.

    Returns how many were compared; the others were refused with a stated error.
    """
    try:
        one = watched(first, seed, watch=watch)
    except NoisetteError as refusal:
        out.refused += [f"{name}: {refusal}" for name in others]
        return 0
    out.runs += 1
    before = len(out.refused) + len(out.unstated)
    for name, other in others.items():
        _contributions(one[1], name, out)
        out.runs += 1
        try:
            two = watched(other, seed, one[1])
        except FlowDiffers as difference:
            out.fault(f"{name}: {difference}")
        except NoisetteError as refusal:
            out.refused.append(f"{name}: {refusal}")
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            out.unstated.append(f"{name}: {type(error).__name__}")
        else:
            (result, trace), (again, forced) = one, two
            here, there = _facts(trace, adjacency), _facts(forced, adjacency)
            for what, fact in here.items():
                out.fault(f"{name}: the {what} depends on the data", fact != there[what])
            shapes = [(len(t.releases), len(t.solves), len(t.steps)) for t in (trace, forced)]
            if shapes[0] == shapes[1]:
                for check in (_values, _steps, _objectives):
                    check(trace, forced, adjacency, name, out)
                _results(result, again, name, out)
    return len(others) - (len(out.refused) + len(out.unstated) - before)


def _results(one: Any, two: Any, name: str, out: Tally) -> None:
    """Everything that leaves is the same, since everything released is."""
    if isinstance(one, dict) and isinstance(two, dict) and one.keys() == two.keys():
        for what in one:
            _results(one[what], two[what], f"{name}, {what}", out)
        return
    # notes of one world only, by path; a value that differs is in both lists
    apart = fitted_state(one).items() ^ fitted_state(two).items()
    labels = sorted({note.label for _, note in apart})
    out.fault(
        f"{name}: with equal releases, what is kept still depends on the data: "
        f"{', '.join(labels[:4])}", labels,
    )  # fmt: skip


def replay(subject: AuditedEstimator, *, seeds: int = 1) -> Tally:
    """Run every canary and compare the two traces."""
    out = Tally("replay on neighbours", subject.claim)
    room, compared = subject.room(), 0
    for (number, make), coins in itertools.product(enumerate(CANARIES.values()), range(seeds)):
        pair = make(room)
        # other coins for each canary: a rare batch must hold some of them
        seed = 1_000_003 * subject.seed + 100 * number + coins
        first, others = subject.on(pair.first), {pair.name: subject.on(pair.second)}
        if compare(first, others, subject.adjacency, out, seed=seed, watch=pair.changed):
            compared += 1
        elif "sample_epsilon" in pair.first.options:
            # a sampler that knows no level per person has no way to say "blank"
            out.refused.pop()
            _, trace = watched(subject.on(pair.first.bare()), seed, watch=pair.changed)
            _contributions(trace, pair.name, out)
            out.runs += 1
    nothing = "no neighbour was compared, because fit cannot be told that a record is blank"
    rest = "everything else is identical" if compared else nothing
    if out.refused:
        rest += f"; {len(out.refused)} neighbours were refused"
    out.note = (
        f"{len(CANARIES)} canaries: the largest move of a released value is {out.worst:.3f} of its "
        f"declared bound, and {rest}"
    )
    if out.worst == 0.0:
        out.applies, out.missing = False, "no canary moved anything that was released"
        _, trace = subject.fit(plain_table(room).bare())
        # where records may be in no batch at all, maybe none held a canary
        if compared and all(seen.sampler.name in ONCE for seen in trace.releases):
            raise Blind(out.missing)
    return out


def _contributions(trace: Trace, name: str, out: Tally) -> None:
    """What the canary adds to a batch sum is bounded by the declared contribution."""
    streams = [seen for seen in trace.releases if seen.stream]
    for step in trace.steps:
        if step.alone is not None and streams:
            bound = streams[0].bounded.contribution or math.inf
            what = f"{name}: one record's or person's part of a sum"
            out.ratio(float(np.linalg.norm(step.alone)), bound, what, _SLACK)


def _facts(trace: Trace, adjacency: Adjacency) -> dict[str, Any]:
    """Return everything about a run, but for the values, that must not depend on the data."""
    keyed = any(seen.keys is not None for seen in trace.releases)
    releases = [(seen, seen.bounded, seen.keys is None) for seen in trace.releases]
    return {
        "charged plan": [(c.plan, c.epsilon, c.delta) for c in trace.charges] + trace.reads,
        "release": [
            (b.proof, b.adjacency, b.l2, b.l1, b.linf, b.contribution, b.categories,
             b.dimension if plain else None,  # how many keys there are is secret
             seen.part, seen.mechanism, seen.sampler, seen.drawn, seen.plan)
            for seen, b, plain in releases
        ],
        "noise": [d.noise.tobytes() for seen, _, plain in releases if plain for d in seen.draws],
        "solver": [
            (s.problem.loss, s.problem.ridge, s.norm_bound, s.tolerance) for s in trace.solves
        ],
        "normaliser or learning rate": [
            (s.normaliser, s.grid, s.number, s.update, s.noise.tobytes()) for s in trace.steps
        ],
        "text of warnings": trace.warnings,
        "number of reads of randomness": trace.tape.reads,
        "amount of randomness consumed":
            adjacency.size_is_public and not keyed and trace.tape.consumed(),
    }  # fmt: skip


def _values(one: Trace, two: Trace, adjacency: Adjacency, name: str, out: Tally) -> None:
    """Arrays at the door: f(D) - f(D') against the stated sensitivity."""
    banded: list[tuple[float, Release]] = []
    for a, b in zip(one.releases, two.releases, strict=True):
        if a.stream or a.bounded.categories is not None:
            continue
        first, second = a.bounded.value, b.bounded.value
        if a.keys is not None and b.keys is not None:
            # by key; what one person alone holds is bounded by itself
            here, there = (dict(zip(s.keys or (), s.bounded.value, strict=True)) for s in (a, b))
            assert isinstance(a.mechanism, GaussianThreshold)
            for own, other in ((here, there), (there, here)):
                alone = [key for key in own if key not in other]
                what = f"{name}: the count of a level that one person alone holds"
                out.ratio(max((float(own[key]) for key in alone), default=0.0), 1.0, what, _SLACK)
                most = max(Counter(column for column, _ in alone).values(), default=0)
                out.ratio(most, a.mechanism.keys, f"{name}: the levels that one person alone holds")
            keys = sorted(here.keys() | there.keys())
            first, second = (np.array([w.get(k, 0.0) for k in keys]) for w in (here, there))
        if first.shape != second.shape:
            out.fault(f"{name}: the shape of a released value depends on the data")
            continue
        moved, norm, proof = np.abs(np.float64(first) - second), a.bounded.norm, a.bounded.proof
        size = _SIZES[norm](moved)
        what = f"{name}: a value bounded by {proof}"
        share = out.ratio(float(size), getattr(a.bounded, norm), what, _SLACK, proof)
        if isinstance(a.mechanism, SphericalLaplace):
            _pure(share * pure_epsilon(a.mechanism, adjacency), out)
        if proof == "BANDED-MF":
            banded.append((float(size), a))
    if banded:  # correlated noise bounds what a record does to all steps of a band together
        last = banded[-1][1]
        epochs = -(-len(banded) // int(getattr(last.sampler, "steps", len(banded))))
        bound = (last.bounded.l2 or math.inf) * math.sqrt(epochs)
        together = math.hypot(*(size for size, _ in banded))
        out.ratio(together, bound, f"{name}: all steps of a band", _SLACK, last.bounded.proof)


_SIZES: dict[str, Callable[[Any], Any]] = {
    "l2": np.linalg.norm,
    "l1": np.sum,
    # of scores: one choice per row, the rows added up
    "linf": lambda moved: np.atleast_2d(moved).max(axis=1).sum(),
}


def _steps(one: Trace, two: Trace, adjacency: Adjacency, name: str, out: Tally) -> None:
    """Batch sums at the same iterate, and in how many batches the canary was."""
    for a, b in zip(one.steps, two.steps, strict=True):
        if a.stream is None:
            continue
        declared = a.stream.bounded
        bound = (declared.contribution or math.inf) * CONTRIBUTIONS[adjacency.value]
        moved = float(np.linalg.norm(a.total - b.total))
        out.ratio(moved, bound, f"{name}: the sum of a batch", _SLACK, declared.proof)


def _objectives(one: Trace, two: Trace, adjacency: Adjacency, name: str, out: Tally) -> None:
    """Shift of the linear term and the determinants, each and together, against the bounds."""
    together, reached = 0.0, 0.0
    for a, b in zip(one.solves, two.solves, strict=True):
        if a.linear is None or b.linear is None or a.stream is None:
            continue
        declared, law = a.stream.bounded, a.stream.mechanism
        assert isinstance(law, ObjectiveNoise)
        k, unit = law.curvature, declared.contribution or math.inf
        grown: Callable[[float], float] = float if law.persons else math.log1p
        most = {"self-bounded": grown(k / 4.0), "softmax": k}
        moved = float(np.linalg.norm(a.linear - b.linear))
        bound = unit * CONTRIBUTIONS[adjacency.value]
        what = f"{name}: the shift of the linear term"
        out.ratio(moved, bound, what, _SLACK, declared.proof)
        first, second = (np.linalg.slogdet(s.problem.hessian(a.weights))[1] for s in (a, b))
        limit = most.get(law.shape, grown(k))  # else one- or two-signed
        what = f"{name}: the change of the log-determinant"
        out.ratio(abs(first - second), limit, what, 1e-6)
        if law.law == "spherical-laplace":
            scale = law.noise_multiplier * unit
            together += moved / scale + abs(first - second)
            gap = float(np.linalg.norm(b.linear) - np.linalg.norm(a.linear)) / scale
            reached += gap + first - second
    if together and one.charges[0].delta == 0.0:
        # the exact loss at what was released, but for the small noise that hides a solver's error
        _pure(abs(reached), out)
        what = f"{name}: shift and determinants together"
        out.ratio(together, one.charges[0].epsilon, what, 5e-3)


def _pure(epsilon: float, out: Tally) -> None:
    """A loss that is reached is a lower bound, where the claim has no delta."""
    if out.claim[1] == 0.0 and math.isfinite(epsilon):
        out.at_least(epsilon)
