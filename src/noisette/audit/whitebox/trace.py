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
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette._typing import Floats
from noisette.audit.whitebox.theory import Problem
from noisette.core.bounded import Bounded, InKernel
from noisette.core.door import NoiseStream, watching
from noisette.core.ledger import Ledger
from noisette.core.mechanisms import MECHANISMS, Mechanism, ObjectiveNoise
from noisette.core.mechanisms.base import AdditiveNoise
from noisette.core.parts import is_parted
from noisette.core.plans import LastIterate, Plan
from noisette.core.randomness import Randomness
from noisette.core.sampling import Sampler
from noisette.core.search import LentLedger
from noisette.core.summaries import key_counts
from noisette.fitting.losses import Loss
from noisette.tables.pipeline.categories import LearnCategories

Real = Callable[..., Any]
Run = Callable[[Randomness], Any]
"""One run under a source of randomness; it returns everything that leaves the owner of the data."""

_SOLVED = ("OBJECTIVE-PERTURBATION", "OUTPUT-SENSITIVITY", "APPROXIMATE-MINIMISER")
"""Theorems about the solution of a problem: who cites one has called the solver."""


class FlowDiffers(Exception):
    """The second run left the path of the first one: its control flow depends on the data."""


class Blind(Exception):
    """Something must have happened in the fit that the trace did not see."""


class Tape(Randomness):
    """A `Randomness` for audits: seeded, counts its reads, knows how much each read consumed.

    Every read of `generator` gets its own generator, keyed by (seed, number of the read). Two runs
    with the same seed therefore draw the same numbers at the k-th read even if an earlier read took
    more of them, as Poisson coins do when one data set has one row more.
    """

    @property
    def generator(self) -> np.random.Generator:
        """Return the generator of the next read."""
        sources = self.__dict__.setdefault("_sources", [])
        sources.append(Randomness._from_path((*(self._seed or ()), 1 << 20, len(sources))))
        return sources[-1].generator  # type: ignore[no-any-return]

    def spawn(self, count: int) -> "list[Randomness]":
        """Return tapes: a search or a table hands a source of its own to each of its parts."""
        first, self._children = self._children, self._children + count
        made = [Tape._from_path((*(self._seed or ()), first + i)) for i in range(count)]
        self.__dict__.setdefault("_spawned", []).extend(made)
        return made

    @property
    def reads(self) -> int:
        """How often a generator was asked for, here and in what was spawned."""
        return len(self.consumed())

    def consumed(self) -> tuple[int, ...]:
        """Return the bytes that each read has drawn so far."""
        states = (source._bits.state["s"] for source in self.__dict__.get("_sources", ()))
        own = (int(s["counter"][0]) * 16 + int(s["offset"]) - 64 for s in states)
        return (*own, *(n for each in self.__dict__.get("_spawned", ()) for n in each.consumed()))


# --- what is written down ------------------------------------------------------------------------


@dataclass
class Draw:
    """Noise vectors, and whether anything was charged by then."""

    mechanism: AdditiveNoise
    unit: float
    noise: Floats
    charged: bool


@dataclass
class Release:
    """One crossing of the door: an array with its result, or a stream with its draws."""

    bounded: Bounded
    part: int
    mechanism: Mechanism
    sampler: Sampler
    plan: Plan
    result: Any = None
    keys: list[Any] | None = None
    """Of counts of unknown keys: whose count each entry is, as (column, text)."""
    draws: list[Draw] = field(default_factory=list)

    @property
    def stream(self) -> bool:
        """Whether it is noise for a kernel."""
        return isinstance(self.bounded.value, InKernel)

    @property
    def drawn(self) -> float:
        """How many noise vectors were drawn; long ones come in pieces.

        A mechanism that does not add a noise vector of its own answers once for each crossing.
        """
        if not isinstance(self.mechanism, AdditiveNoise):
            return float(self.result is not None)
        return sum(draw.noise.size for draw in self.draws) / self.bounded.dimension


@dataclass
class Solve:
    """One call of the solver, in the auditor's own words."""

    problem: Problem
    norm_bound: float
    tolerance: float
    linear: Floats | None
    """The noise of objective perturbation."""
    stream: Release | None
    """The crossing of the door that the linear term came from."""
    weights: Floats = field(default_factory=lambda: np.empty(0))

    def exact(self) -> tuple[Floats, float]:
        """Return the auditor's own solution, and how far it may be off."""
        return self.problem.solve(self.linear, start=self.weights)


@dataclass
class SgdStep:
    """One noisy SGD step; `total` is the clean sum of the batch's gradients at `w`."""

    update: Any
    number: int
    w: Floats
    total: Floats
    noise: Floats
    normaliser: float
    grid: float
    batch: NDArray[np.int64]
    stream: Release | None
    alone: Floats | None = None
    """What the watched rows add to the sum, if they are in the batch."""
    after: Floats = field(default_factory=lambda: np.empty(0))
    mean: Floats = field(default_factory=lambda: np.empty(0))


@dataclass
class Trace:
    """The record of one run, in the order of events."""

    tape: Tape
    reference: "Trace | None" = None
    watch: NDArray[np.intp] | None = None
    charges: list[Any] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)
    """How often randomness had been read before each charge."""
    releases: list[Release] = field(default_factory=list)
    solves: list[Solve] = field(default_factory=list)
    steps: list[SgdStep] = field(default_factory=list)
    stray: list[Draw] = field(default_factory=list)
    keys: list[Any] | None = None
    """The keys whose counts are released next."""
    warnings: list[str] = field(default_factory=list)
    last_stream: Release | None = None
    _draws: list[Draw] | None = None
    """Where noise is noted; None outside the door, where it is stray."""

    def check(self) -> None:
        """Raise `Blind` where what was seen is not all that must have run.

        Without this a function that got another name would leave the checks with nothing to look
        at, and nothing to object to.
        """
        seen = self.releases
        solved = any(each.bounded.proof in _SOLVED for each in seen)
        kernel = any(e.stream and not isinstance(e.mechanism, ObjectiveNoise) for e in seen)
        added = [each for each in seen if isinstance(each.mechanism, AdditiveNoise)]
        silent = added and not any(each.draws for each in added) and not self.stray
        for unseen, what in (
            (self.charges and not seen,
             "a plan was charged, but nothing was seen to pass the door"),
            (solved and not self.solves,
             "a solution was released, but no call of the solver was seen"),
            (kernel and not self.steps,
             "noise was handed to a kernel, but none of its steps was seen"),
            (silent, "noise was charged, but none was seen to be drawn"),
        ):  # fmt: skip
            if unseen:
                raise Blind(what)

    # --- what the door, the passage and the mechanisms call -----------------------------------

    def charge(self, real: Real, plan: Any, **options: Any) -> Any:
        """Write down what was booked, and how often randomness had been read by then."""
        reads = self.tape.reads
        self.charges.append(real(plan, **options))
        self.reads.append(reads)
        return self.charges[-1]

    def release(
        self, real: Real, bounded: Bounded, permit: Any, randomness: Any, *, part: int = 0
    ) -> Any:
        """Write down a crossing of the door; the second of two runs gets the first one's result."""
        leaf = permit.leaf(part)
        seen = Release(bounded, part, leaf.mechanism, leaf.sampler, permit.plan)
        with self._noting(seen.draws):
            result = real(bounded, permit, randomness, part=part)
        self.releases.append(seen)
        if isinstance(result, NoiseStream):
            take = result.take

            def taken(count: int) -> Floats:
                self.last_stream = seen
                with self._noting(seen.draws):
                    return take(count)

            result.take = taken  # type: ignore[method-assign]
            return result
        seen.result, seen.keys, self.keys = copy.deepcopy(result), self.keys, None
        then = self._then("releases", "values were released", len(self.releases) - 1)
        if then is None:
            return copy.deepcopy(seen.result)
        if seen.keys is not None and then.keys is not None:
            # the first run's shown counts for the keys of the second
            shown = dict(zip(then.keys, then.result.tolist(), strict=True))
            if any(shown[key] == shown[key] for key in shown.keys() - set(seen.keys)):
                raise FlowDiffers("a level was shown that one person alone holds")
            return np.array([shown.get(key, np.nan) for key in seen.keys])
        if then.result is None or np.shape(then.result) != np.shape(seen.result):
            raise FlowDiffers("a released value has another shape than on the neighbour")
        return copy.deepcopy(then.result)

    @contextmanager
    def _noting(self, draws: list[Draw]) -> Iterator[None]:
        """Note there what is drawn inside."""
        before, self._draws = self._draws, draws
        try:
            yield
        finally:
            self._draws = before

    def categories(self, real: Real, sample: Any, prepared: Any, *given: Any) -> Any:
        """Note which keys the counts of a step are of; the door sees their counts only."""
        columns, adjacency = list(sample.data), prepared.public.adjacency
        keys = list(key_counts((c.codes for c in columns), adjacency, sample.weights)[1])
        texts = [each.at([k for at, k in keys if at == c]) for c, each in enumerate(columns)]
        self.keys = [(c, "" if c < 0 else texts[c][code]) for c, code in keys]
        return real(sample, prepared, *given)

    def noise(self, real: Any, count: int, dimension: int, unit: float, generator: Any) -> Any:
        """Write down what a mechanism draws, at the door or elsewhere."""
        kept = self.stray if self._draws is None else self._draws
        with self._noting([]):  # a mechanism that draws through another one is noted once
            block = real(count, dimension, unit, generator)
        kept.append(Draw(real.args[0], unit, np.array(block), bool(self.charges)))
        return block

    def minimise(self, real: Real, loss: Loss, X: Any, y: Any, **options: Any) -> Any:
        """Write down one problem and its solution."""
        linear, weight = options.get("linear"), options.get("sample_weight")
        problem = Problem(
            loss, _whole(X), np.array(_whole(y)), options["regularization"],
            None if weight is None else _whole(weight),
        )  # fmt: skip
        seen = Solve(
            problem, float(options.get("norm_bound", 1.0)), float(options.get("tolerance") or 0.0),
            None if linear is None else np.array(linear, dtype=float), self.last_stream,
        )  # fmt: skip
        then = self._then("solves", "problems were solved", len(self.solves))
        if then is not None and linear is not None:
            # the linear term under which this data set has the first run's minimiser
            options["linear"] = seen.linear = -problem.gradient(then.exact()[0])
        solution = real(loss, X, y, **options)
        seen.weights = np.array(solution.weights)
        self.solves.append(seen)
        return solution

    def advance(
        self, real: Real, update: Any, state: Any, X: Any, y: Any, batches: Any, noise: Floats,
        grid: float, share: Any = None,
    ) -> None:  # fmt: skip
        """Run the same steps one by one, and write each down."""
        for t in range(len(noise)):
            then = self._then("steps", "steps were made", len(self.steps))
            if then is not None:  # put the second run where the first one was
                state.w[:] = then.w
            one = replace(
                batches, edges=batches.edges[t : t + 2], normalisers=batches.normalisers[t : t + 1]
            )
            clean = partial(_clean, real, update, state, X, y, share)
            seen = SgdStep(
                update, state.steps, state.w.copy(), clean(one), noise[t].copy(),
                float(one.normalisers[0]), float(grid), _members(one), self.last_stream,
            )  # fmt: skip
            if self.watch is not None and np.isin(self.watch, seen.batch).any():
                seen.alone = seen.total - clean(_without(one, self.watch))
            real(update, state, X, y, one, noise[t : t + 1], grid, share)
            if then is not None:
                state.w[:] = then.after
                plans = (booked.plan.leaves() for booked in self.charges)
                if not any(isinstance(leaf, LastIterate) for leaves in plans for leaf, _ in leaves):
                    state.mean[:] = then.mean  # else the iterates before the last stay secret
            seen.after, seen.mean = state.w.copy(), state.mean.copy()
            self.steps.append(seen)

    def _then(self, kind: str, what: str, place: int) -> Any:
        """Return what the first of two runs has at this place; None in the first one itself."""
        there = [] if self.reference is None else getattr(self.reference, kind)
        if self.reference is not None and place >= len(there):
            raise FlowDiffers(f"more {what} than on the neighbour")
        return there[place] if there else None


def _whole(rows: Any) -> Any:
    """Return rows in parts, or sparse ones, as one dense array."""
    if is_parted(rows):
        return np.concatenate([_whole(part) for part in rows.parts()])
    return rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows)


def _members(batches: Any, but: Any = ()) -> NDArray[np.int64]:
    start, stop = int(batches.edges[0]), int(batches.edges[-1])
    rows = batches.order[start:stop] if len(batches.order) else np.arange(start, stop)
    return np.asarray(rows[~np.isin(rows, but)], dtype=np.int64)


def _without(batch: Any, rows: NDArray[np.intp]) -> Any:
    kept = _members(batch, but=rows)
    # an order of no entries would mean "all rows as given", hence one that is never reached
    order = kept if len(kept) else np.zeros(1, dtype=np.int64)
    return replace(batch, edges=np.array([0, len(kept)], dtype=np.int64), order=order)


def _clean(real: Any, update: Any, state: Any, X: Any, y: Any, share: Any, batch: Any) -> Floats:
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
def tracing(
    tape: Any, reference: Trace | None = None, watch: NDArray[np.intp] | None = None
) -> Iterator[Trace]:
    """Yield the trace of whatever runs inside; `watch` are the rows that change together."""
    trace = Trace(tape, reference, watch)
    with ExitStack() as stack:

        def listen(owner: Any, name: str, seen: Real) -> None:
            real = vars(owner)[name]
            stack.callback(setattr, owner, name, real)
            setattr(
                owner, name, lambda self, *given, **more: seen(partial(real, self), *given, **more)
            )

        for kind in MECHANISMS.values():
            if issubclass(kind, AdditiveNoise) and "noise" in vars(kind):
                listen(kind, "noise", trace.noise)
        for ledger in (Ledger, LentLedger):
            listen(ledger, "charge", trace.charge)
        listen(LearnCategories, "run", trace.categories)
        yield stack.enter_context(watching(trace))


def watched(
    run: Run, seed: int, reference: Trace | None = None, watch: NDArray[np.intp] | None = None
) -> tuple[Any, Trace]:
    """Return what a run returned and its trace."""
    tape = Tape.from_seed(seed)
    with warnings.catch_warnings(record=True) as said, tracing(tape, reference, watch) as trace:
        warnings.simplefilter("always")
        result = run(tape)
    trace.check()
    trace.warnings = [str(each.message) for each in said]
    return result, trace
