"""`tracing`: record everything that a fit charges, bounds, solves, draws and releases.

While the context is open, `release`, `minimise` and `advance` are wrapped in every training module
that imported them, and `Ledger.charge`, `NoiseStream.take` and the noise of each mechanism in their
classes. The wrappers call what they found there, so nothing about the run changes except that it is
written down; the door itself is not touched. Not for several threads at once.

A second run with ``reference=`` the first trace is forced onto the first run's outputs: whatever
leaves the door is what left it then, so both runs are compared at the same past (see `replay`).
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette.audit.whitebox.records import (
    Blind,
    Charge,
    Draw,
    FlowDiffers,
    Release,
    Solve,
    Step,
)
from noisette.bounded import Bounded
from noisette.losses import Loss
from noisette.mechanisms import MECHANISMS, AdditiveNoise, ObjectiveNoise
from noisette.privacy import Ledger, NoiseStream

__all__ = ["Trace", "tracing"]

Floats = NDArray[np.float64]

_SOLVED = ("OBJECTIVE-PERTURBATION", "OUTPUT-SENSITIVITY", "APPROXIMATE-MINIMISER")
"""Theorems about the solution of a problem: who cites one has called the solver."""


@dataclass
class Trace:
    """The record of one fit, in the order of events."""

    tape: Any
    reference: "Trace | None" = None
    watch: int | None = None
    charges: list[Charge] = field(default_factory=list)
    releases: list[Release] = field(default_factory=list)
    solves: list[Solve] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    stray: list[Draw] = field(default_factory=list)
    _at_door: Release | None = None
    _drawing: bool = False
    _streams: dict[int, Release] = field(default_factory=dict)
    _kept: list[Any] = field(default_factory=list)

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

    # --- wrappers --------------------------------------------------------------------------

    def charge(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap `Ledger.charge`."""

        def charge(ledger: Ledger, plan: Any, **options: Any) -> Any:
            reads = self.tape.reads
            permit = real(ledger, plan, **options)
            self.charges.append(Charge(permit.plan, permit.epsilon, permit.delta, reads))
            return permit

        return charge

    def release(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap `release`."""

        def release(bounded: Bounded, permit: Any, randomness: Any, *, part: int = 0) -> Any:
            leaf = permit.leaf(part)
            seen = Release(bounded, part, leaf.mechanism, leaf.sampler, permit.plan)
            before, self._at_door = self._at_door, seen
            try:
                result = real(bounded, permit, randomness, part=part)
            finally:
                self._at_door = before
            self.releases.append(seen)
            if isinstance(result, NoiseStream):
                self._streams[id(result)] = seen
                self._kept.append(result)  # so that its id stays its own
                return result
            seen.result = np.array(result)
            return self._forced(result)

        return release

    def _forced(self, result: Any) -> Any:
        if self.reference is None:
            return result
        there = self.reference.releases
        if len(self.releases) > len(there):
            raise FlowDiffers("more values were released than on the neighbour")
        then = there[len(self.releases) - 1].result
        if then is None or np.shape(then) != np.shape(result):
            raise FlowDiffers("a released value has another shape than on the neighbour")
        return then.copy()

    def take(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap `NoiseStream.take`."""

        def take(stream: NoiseStream, count: int) -> Any:
            before, self._at_door = self._at_door, self._streams.get(id(stream))
            try:
                return real(stream, count)
            finally:
                self._at_door = before

        return take

    def draw(self, real: Callable[..., Any]) -> Callable[..., Any]:
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

    def minimise(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the solver."""

        def minimise(loss: Loss, X: Any, y: Any, **options: Any) -> Any:
            linear = options.get("linear")
            dense = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=float)
            seen = Solve(
                loss, dense, np.array(y), float(options["regularization"]),
                float(options.get("norm_bound", 1.0)), float(options.get("tolerance") or 0.0),
                options.get("sample_weight"),
                None if linear is None else np.array(linear, dtype=float), np.empty(0),
            )  # fmt: skip
            if self.reference is not None and linear is not None:
                seen.linear = self._coupled(seen)
                options["linear"] = seen.linear
            solution = real(loss, X, y, **options)
            seen.weights = np.array(solution.weights)
            self.solves.append(seen)
            return solution

        return minimise

    def _coupled(self, seen: Solve) -> Floats:
        """Return the linear term under which this data set has the first run's minimiser."""
        assert self.reference is not None
        there = self.reference.solves
        if len(self.solves) >= len(there) or there[len(self.solves)].linear is None:
            raise FlowDiffers("a problem was solved that the neighbour does not have")
        then = there[len(self.solves)]
        exact, _ = then.problem().solve(then.linear, start=then.weights)
        return -seen.problem().gradient(exact)

    def advance(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the SGD kernels: the same steps, one by one."""

        def advance(
            update: Any, state: Any, X: Any, y: Any, batches: Any, noise: Floats, grid: float,
            share: Any = None,
        ) -> None:  # fmt: skip
            for t in range(len(noise)):
                self._sync(state)
                one = _cut(batches, t)
                seen = Step(
                    update, state.steps, state.w.copy(),
                    _clean(real, update, state, X, y, one, share), noise[t].copy(), np.empty(0),
                    float(one.normalisers[0]), float(grid), _members(one),
                )  # fmt: skip
                if self.watch is not None and self.watch in seen.batch:
                    rest = _without(one, self.watch)
                    seen.alone = seen.total - _clean(real, update, state, X, y, rest, share)
                real(update, state, X, y, one, noise[t : t + 1], grid, share)
                seen.after = state.w.copy()
                self.steps.append(seen)

        return advance

    def _sync(self, state: Any) -> None:
        if self.reference is None:
            return
        there = self.reference.steps
        if len(self.steps) >= len(there):
            raise FlowDiffers("more steps were made than on the neighbour")
        state.w[:] = there[len(self.steps)].w


def _members(batches: Any) -> NDArray[np.int64]:
    start, stop = int(batches.edges[0]), int(batches.edges[-1])
    if len(batches.order):
        return np.array(batches.order[start:stop], dtype=np.int64)
    return np.arange(start, stop, dtype=np.int64)


def _cut(batches: Any, t: int) -> Any:
    return replace(
        batches, edges=batches.edges[t : t + 2], normalisers=batches.normalisers[t : t + 1]
    )


def _without(batch: Any, index: int) -> Any:
    kept = _members(batch)
    kept = kept[kept != index]
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


@contextmanager
def tracing(tape: Any, reference: Trace | None = None, watch: int | None = None) -> Iterator[Trace]:
    """Record what runs inside; `watch` is the index of the record that changes."""
    trace = Trace(tape, reference, watch)
    with ExitStack() as stack:
        for owner, name, wrap in _places(trace):
            original = vars(owner)[name]
            stack.callback(setattr, owner, name, original)
            setattr(owner, name, wrap(original))
        yield trace


def _places(trace: Trace) -> list[tuple[Any, str, Callable[..., Any]]]:
    """Return (owner, name, wrapper) of everything that is watched."""
    found: list[tuple[Any, str, Callable[..., Any]]] = [
        (Ledger, "charge", trace.charge),
        (NoiseStream, "take", trace.take),
    ]
    for kind in MECHANISMS.values():
        if issubclass(kind, AdditiveNoise) and "noise" in vars(kind):
            found.append((kind, "noise", trace.draw))
    wrappers = {"release": trace.release, "minimise": trace.minimise, "advance": trace.advance}
    for path, module in list(sys.modules.items()):
        if path.startswith(("noisette.training.", "noisette.nn", "noisette.linear")):
            for name, wrap in wrappers.items():
                if callable(vars(module).get(name)):
                    found.append((module, name, wrap))
    return found
