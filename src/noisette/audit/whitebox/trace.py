"""`Trace`: writes down what a run charges, bounds, solves, draws and releases.

While a trace is open (`tracing`), every crossing of the door in this process, every charge, solve
and block of steps passes through it, whoever asks: an estimator, a search around it, a table's
steps, a network. It calls the real function, so nothing about the run changes. Noise drawn
*outside* the door would pass unseen, so the noise of each registered mechanism is listened to as
well. Not for several threads at once.

A second run with ``reference=`` the first trace is forced onto the first run's outputs: whatever
leaves the door is what left it then, so both runs are compared at the same past (see `replay`).
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette._typing import Floats
from noisette.audit.whitebox.records import (
    Blind,
    BookedPlan,
    Draw,
    FlowDiffers,
    Release,
    SgdStep,
    Solve,
)
from noisette.core.bounded import Bounded
from noisette.core.door import NoiseStream, watching
from noisette.core.ledger import Ledger
from noisette.core.mechanisms import MECHANISMS, AdditiveNoise, ObjectiveNoise
from noisette.core.parts import is_parted
from noisette.core.search import LentLedger
from noisette.core.summaries import key_counts
from noisette.fitting.losses import Loss
from noisette.tables.pipeline.categories import LearnCategories

Real = Callable[..., Any]

_SOLVED = ("OBJECTIVE-PERTURBATION", "OUTPUT-SENSITIVITY", "APPROXIMATE-MINIMISER")
"""Theorems about the solution of a problem: who cites one has called the solver."""


@dataclass
class Trace:
    """The record of one run, in the order of events."""

    tape: Any
    reference: "Trace | None" = None
    watch: NDArray[np.intp] | None = None
    charges: list[BookedPlan] = field(default_factory=list)
    releases: list[Release] = field(default_factory=list)
    solves: list[Solve] = field(default_factory=list)
    steps: list[SgdStep] = field(default_factory=list)
    stray: list[Draw] = field(default_factory=list)
    keys: list[Any] | None = None
    """The keys whose counts are released next."""
    last_stream: Release | None = None
    _at_door: Release | None = None
    _drawing: bool = False

    def check(self) -> None:
        """Raise `Blind` where what was seen is not all that must have run.

        Without this a function that got another name would leave the checks with nothing to look
        at, and nothing to object to.
        """
        if self.charges and not self.releases:
            raise Blind("a plan was charged, but nothing was seen to pass the door")
        solved = any(seen.bounded.proof in _SOLVED for seen in self.releases)
        if solved and not self.solves:
            raise Blind("a solution was released, but no call of the solver was seen")
        kernels = [
            seen
            for seen in self.releases
            if seen.stream and not isinstance(seen.mechanism, ObjectiveNoise)
        ]
        if kernels and not self.steps:
            raise Blind("noise was handed to a kernel, but none of its steps was seen")
        silent = [seen for seen in self.releases if isinstance(seen.mechanism, AdditiveNoise)]
        if silent and not any(seen.draws for seen in silent) and not self.stray:
            raise Blind("noise was charged, but none was seen to be drawn")

    # --- what is told ----------------------------------------------------------------------

    def charge(self, real: Real, plan: Any, **options: Any) -> Any:
        """Write down what was booked, and how often randomness had been read by then."""
        reads = self.tape.reads
        permit = real(plan, **options)
        self.charges.append(BookedPlan(permit.plan, permit.epsilon, permit.delta, reads))
        return permit

    def release(
        self, real: Real, bounded: Bounded, permit: Any, randomness: Any, *, part: int = 0
    ) -> Any:
        """Write down a crossing of the door; the second of two runs gets the first one's result."""
        leaf = permit.leaf(part)
        seen = Release(bounded, part, leaf.mechanism, leaf.sampler, permit.plan)
        with self._door(seen):
            result = real(bounded, permit, randomness, part=part)
        self.releases.append(seen)
        if isinstance(result, NoiseStream):
            return _Watched(result, self, seen)
        seen.result, seen.keys, self.keys = copy.deepcopy(result), self.keys, None
        return self._forced(seen)

    def handed(self, real: Real, bounded: Bounded, *given: Any, **options: Any) -> Any:
        """Note what an algorithm gets: nobody may touch it on the way from the door."""
        result = real(bounded, *given, **options)
        seen = self.releases[-1] if self.releases else None
        if seen is None or seen.bounded is not bounded or isinstance(result, _Watched):
            return result
        seen.result = copy.deepcopy(result)
        return self._forced(seen)

    @contextmanager
    def _door(self, seen: Release) -> Iterator[None]:
        """Count what is drawn inside as drawn at the door."""
        before, self._at_door = self._at_door, seen
        try:
            yield
        finally:
            self._at_door = before

    def _forced(self, seen: Release) -> Any:
        """Return what left the door, or in the second of two runs what left it in the first."""
        if self.reference is None:
            return copy.deepcopy(seen.result)
        there = self.reference.releases
        if len(self.releases) > len(there):
            raise FlowDiffers("more values were released than on the neighbour")
        then = there[len(self.releases) - 1]
        if seen.keys is not None and then.keys is not None:
            return _by_keys(seen, then)
        if then.result is None or np.shape(then.result) != np.shape(seen.result):
            raise FlowDiffers("a released value has another shape than on the neighbour")
        return copy.deepcopy(then.result)

    def categories(self, real: Real, step: Any, sample: Any, prepared: Any, *given: Any) -> Any:
        """Note which keys the counts of a step are of; the door sees their counts only."""
        columns, adjacency = list(sample.data), prepared.public.adjacency
        _, keys = key_counts((c.codes for c in columns), adjacency, sample.weights)
        codes: list[list[int]] = [[] for _ in columns]
        pairs = list(keys)
        for column, code in pairs[1:]:
            codes[column].append(code)
        texts = [each.at(found) for each, found in zip(columns, codes, strict=True)]
        self.keys = [(c, "" if c < 0 else texts[c][code]) for c, code in pairs]
        return real(step, sample, prepared, *given)

    def listen(self, real: Real) -> Real:
        """Wrap the noise of one class of mechanisms."""

        def noise(mechanism: Any, count: int, dimension: int, unit: float, generator: Any) -> Any:
            if self._drawing:  # a mechanism that draws through another one
                return real(mechanism, count, dimension, unit, generator)
            self._drawing = True
            try:
                block = real(mechanism, count, dimension, unit, generator)
            finally:
                self._drawing = False
            door, charged = self._at_door, bool(self.charges)
            seen = Draw(mechanism, unit, np.array(block), door is not None, charged)
            (self.stray if door is None else door.draws).append(seen)
            return block

        return noise

    def minimise(self, real: Real, loss: Loss, X: Any, y: Any, **options: Any) -> Any:
        """Write down one problem and its solution."""
        linear = options.get("linear")
        weight = options.get("sample_weight")
        seen = Solve(
            loss, np.asarray(_whole(X), dtype=float), np.array(_whole(y)),
            float(options["regularization"]),
            float(options.get("norm_bound", 1.0)), float(options.get("tolerance") or 0.0),
            None if weight is None else _whole(weight),
            None if linear is None else np.array(linear, dtype=float), np.empty(0),
            self.last_stream,
        )  # fmt: skip
        if self.reference is not None and linear is not None:
            seen.linear = self._coupled(seen)
            options["linear"] = seen.linear
        solution = real(loss, X, y, **options)
        seen.weights = np.array(solution.weights)
        self.solves.append(seen)
        return solution

    def _coupled(self, seen: Solve) -> Floats:
        """Return the linear term under which this data set has the first run's minimiser."""
        assert self.reference is not None
        there = self.reference.solves
        if len(self.solves) >= len(there) or there[len(self.solves)].linear is None:
            raise FlowDiffers("a problem was solved that the neighbour does not have")
        then = there[len(self.solves)]
        exact, _ = then.problem().solve(then.linear, start=then.weights)
        return -seen.problem().gradient(exact)

    def advance(
        self, real: Real, update: Any, state: Any, X: Any, y: Any, batches: Any, noise: Floats,
        grid: float, share: Any = None,
    ) -> None:  # fmt: skip
        """Run the same steps one by one, and write each down."""
        for t in range(len(noise)):
            self._sync(state)
            one = _cut(batches, t)
            seen = SgdStep(
                update, state.steps, state.w.copy(),
                _clean(real, update, state, X, y, one, share), noise[t].copy(), np.empty(0),
                float(one.normalisers[0]), float(grid), _members(one),
            )  # fmt: skip
            if self.watch is not None and np.isin(self.watch, seen.batch).any():
                rest = _without(one, self.watch)
                seen.alone = seen.total - _clean(real, update, state, X, y, rest, share)
            real(update, state, X, y, one, noise[t : t + 1], grid, share)
            self._sync(state, after=True)
            seen.after, seen.mean, seen.stream = state.w.copy(), state.mean.copy(), self.last_stream
            self.steps.append(seen)

    def _sync(self, state: Any, *, after: bool = False) -> None:
        """Put the second run where the first one was before a step, or after it."""
        if self.reference is None:
            return
        there = self.reference.steps
        if len(self.steps) >= len(there):
            raise FlowDiffers("more steps were made than on the neighbour")
        then = there[len(self.steps)]
        state.w[:] = then.after if after else then.w
        if after:
            state.mean[:] = then.mean


def _whole(rows: Any) -> Any:
    """Return rows in parts, or sparse ones, as one dense array."""
    if is_parted(rows):
        return np.concatenate([_whole(part) for part in rows.parts()])
    return rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows)


def _by_keys(seen: Release, then: Release) -> Any:
    """Return the first run's shown counts for the keys of the second."""
    shown = dict(zip(then.keys or (), then.result.tolist(), strict=True))
    lost = [key for key, count in shown.items() if count == count and key not in (seen.keys or ())]
    if lost:
        raise FlowDiffers("a level was shown that one person alone holds")
    return np.array([shown.get(key, np.nan) for key in seen.keys or ()])


def _members(batches: Any) -> NDArray[np.int64]:
    start, stop = int(batches.edges[0]), int(batches.edges[-1])
    if len(batches.order):
        return np.array(batches.order[start:stop], dtype=np.int64)
    return np.arange(start, stop, dtype=np.int64)


def _cut(batches: Any, t: int) -> Any:
    return replace(
        batches, edges=batches.edges[t : t + 2], normalisers=batches.normalisers[t : t + 1]
    )


def _without(batch: Any, rows: NDArray[np.intp]) -> Any:
    kept = _members(batch)
    kept = kept[~np.isin(kept, rows)]
    # an order of no entries would mean "all rows as given", hence one that is never reached
    order = kept if len(kept) else np.zeros(1, dtype=np.int64)
    return replace(batch, edges=np.array([0, len(kept)], dtype=np.int64), order=order)


def _clean(real: Any, update: Any, state: Any, X: Any, y: Any, batch: Any, share: Any) -> Floats:
    """Return the batch sum that the kernel forms at the iterate: one plain step without noise."""
    plain = replace(
        update, regularization=0.0, learning_rate="constant", eta0=1.0, radius=np.inf,
        averaging=None,
    )  # fmt: skip
    probe = replace(state, w=state.w.copy(), mean=state.mean.copy())
    once = replace(batch, normalisers=np.ones(1))
    real(plain, probe, X, y, once, np.zeros((1, len(state.w))), 0.0, share)
    return np.asarray(state.w - probe.w)


class _Watched:
    """A stream of noise whose draws are counted as drawn at the door."""

    def __init__(self, stream: NoiseStream, trace: Trace, seen: Release) -> None:
        self._stream, self._trace, self._seen = stream, trace, seen

    def take(self, count: int) -> Floats:
        """Return the next `count` noise vectors."""
        self._trace.last_stream = self._seen
        with self._trace._door(self._seen):
            return self._stream.take(count)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def tracing(
    tape: Any, reference: Trace | None = None, watch: NDArray[np.intp] | None = None
) -> Iterator[Trace]:
    """Yield the trace of whatever runs inside; `watch` are the rows that change together."""
    trace = Trace(tape, reference, watch)
    with ExitStack() as stack:

        def listen(owner: Any, name: str, wrapped: Real) -> None:
            stack.callback(setattr, owner, name, vars(owner)[name])
            setattr(owner, name, wrapped)

        for kind in MECHANISMS.values():
            if issubclass(kind, AdditiveNoise) and "noise" in vars(kind):
                listen(kind, "noise", trace.listen(vars(kind)["noise"]))
        for ledger in (Ledger, LentLedger):
            listen(ledger, "charge", _with(trace.charge, vars(ledger)["charge"]))
        listen(LearnCategories, "run", _first(trace.categories, vars(LearnCategories)["run"]))
        yield stack.enter_context(watching(trace))


def _with(seen: Real, real: Real) -> Real:
    return lambda owner, *given, **options: seen(partial(real, owner), *given, **options)


def _first(seen: Real, real: Real) -> Real:
    return lambda owner, *given, **options: seen(real, owner, *given, **options)
