"""The 2013 algorithm: one pass of noisy SGD over disjoint batches (Song, Chaudhuri, Sarwate).

Every person is in one batch, so by parallel composition (PARALLEL) the whole pass, all iterates
included, costs one use of the noise. With spherical Laplace noise of density exp(-kappa ||z||) on
the batch *sum* it is purely private with epsilon = kappa C under zero-out and 2 kappa C under
replace-one. Neither the learning rate nor the batch size enters: they only rescale a noisy sum.

People may have own levels epsilon_i <= epsilon, public by declaration:

- "scale": the gradient of person i is multiplied by c_i = epsilon_i / epsilon under one noise, so
  the sum moves by 2 c_i C and the loss is epsilon_i (PER-PERSON-SCALE);
- "batches": people of equal level share batches that have their own noise (PARALLEL-GROUPS).
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from noisette import _validate
from noisette._typing import Floats
from noisette.core import accounting
from noisette.core.adjacency import Adjacency
from noisette.core.door import NoiseStream
from noisette.core.mechanisms import step_noises
from noisette.core.mechanisms.base import AdditiveNoise
from noisette.core.plans import Parallel, Plan, Run, Sampled
from noisette.core.sampling import Disjoint
from noisette.fitting.algorithms.algorithm import PreparedModel
from noisette.fitting.algorithms.levels import (
    Levels,
    Stepwise,
    level_groups,
    share_proofs,
    shares_of,
)
from noisette.fitting.algorithms.passage import Passage
from noisette.fitting.algorithms.public import Public, check_scale
from noisette.fitting.algorithms.records import Records
from noisette.fitting.algorithms.steps import Batches, Progress, State, Update, in_random_order

_RUN = 8  # neighbours that stay together in a random order, so that memory is read in runs
_WORTH_A_THREAD = 1 << 19  # entries of noise, some 5 ms


def noise_for_one_use(
    noise: str, epsilon: float, delta: float, dimension: int, adjacency: Adjacency
) -> AdditiveNoise:
    """Return the least noise of that law for one use within (epsilon, delta)."""
    kind = step_noises()[_validate.choice("noise", noise, step_noises())]
    found = kind.least(epsilon, delta, dimension, adjacency)
    if found is not None:
        return found
    return kind.of(
        accounting.calibrate(
            lambda z: Run(kind.of(z, dimension)), epsilon=epsilon, delta=delta, adjacency=adjacency
        ),
        dimension,
    )


@dataclass(frozen=True)
class SinglePass(Stepwise[PreparedModel]):
    """One private pass over the rows in disjoint batches.

    `batch_size` is public; a smaller last batch is divided by it all the same. With `permute` the
    rows are taken in one random order, else as they come.
    """

    name: ClassVar[str] = "single-pass"
    summary: ClassVar[str] = "one pass of SGD over disjoint batches; pure privacy, fast"
    needs_batches: ClassVar[bool] = True

    update: Update
    batch_size: int
    noise: str = "spherical-laplace"
    permute: bool = False
    levels: Levels | None = None

    def prepare(self, public: Public) -> PreparedModel:
        """Return the batches of every level, each with the noise of its level."""
        n, leaves = public.known_size("a single pass"), []
        for level, members in level_groups(self.levels, public.epsilon):
            size = n if members is None else len(members)
            sampler: Any = Disjoint.of_size(size, min(self.batch_size, size))
            if self.permute:
                sampler = replace(sampler, permute=True, run=_RUN)
            mechanism = noise_for_one_use(
                self.noise, level, public.delta, public.dimension, public.adjacency
            )
            check_scale(mechanism, self.update.contribution)
            leaves.append(Sampled(mechanism, sampler))
        plan: Plan = leaves[0] if len(leaves) == 1 else Parallel(*leaves)
        proofs = ("CLIP", *share_proofs(self.levels, self.noise, public.delta))
        return PreparedModel(public, plan, proofs)

    def passes(self, prepared: PreparedModel) -> float:
        """Return about how often every row is read."""
        return 1.0

    def run(self, records: Records, prepared: PreparedModel, passage: Passage) -> list[Floats]:
        """Return the weights after one private pass."""
        public, n, features = prepared.public, records.size, records.rows.shape[1]
        state = State.zero(public.dimension)
        progress = Progress(passage.verbose, prepared.plan.draws)
        groups = level_groups(self.levels, public.epsilon)
        if len(groups) > 1:
            self._run_groups(records, groups, passage, state, progress)
            return [state.result(self.update, features)]
        sampler = passage.leaf().sampler
        assert isinstance(sampler, Disjoint)
        edges = sampler.edges(n)
        order = np.empty(0, dtype=np.int64)  # the given order, without a list of n numbers
        if sampler.permute:
            order = sampler.order(n, passage.randomness).astype(np.int64, copy=False)
        unit = in_random_order(records.unit, sampler, passage.randomness)
        batches = Batches(edges, np.full(len(edges) - 1, float(self.batch_size)), order)
        # proof: PARALLEL
        stream = passage.release(self.update.bounded(features, public.adjacency, "PARALLEL"))
        share = shares_of(records, self.levels, public, self.noise)
        run_blocks(
            records, self.update, state, stream, batches.rows_of(unit), share, progress, passage
        )
        return [state.result(self.update, features)]

    def _run_groups(
        self, records: Records, groups: list[tuple[float, Any]], passage: Passage, state: State,
        progress: Progress,
    ) -> None:  # fmt: skip
        """Run the batches of all levels, evenly mixed; the mixture depends on public sizes only."""
        turns: list[tuple[float, int]] = []
        streams, schedules = [], []
        # proof: PARALLEL-GROUPS
        bounded = self.update.bounded(
            records.rows.shape[1], passage.permit.adjacency, "PARALLEL-GROUPS"
        )
        for part, (_, members) in enumerate(groups):
            sampler = passage.leaf(part).sampler
            turns += [((t + 0.5) / sampler.steps, part) for t in range(sampler.steps)]
            streams.append(passage.release(bounded, part=part))
            members = records.unit.mixed(members, passage.randomness)
            drawn = sampler.schedule(len(members), passage.randomness)
            schedules.append(map(members.__getitem__, drawn))
        for _, part in sorted(turns):
            batch = Batches.of([next(schedules[part])], self.batch_size)
            passage.advance(
                self.update, state, records.rows, records.targets[0],
                batch.rows_of(records.unit, drawn=True), streams[part].take(1),
                streams[part].grid, records.weights,
            )  # fmt: skip
            progress.show(state.steps)


def run_blocks(
    records: Records, update: Update, state: State, stream: NoiseStream, batches: Batches,
    share: Floats | None, progress: Progress, passage: Passage, *, rounded: bool = True,
) -> None:  # fmt: skip
    """Feed blocks of noise to the kernel."""
    grid = stream.grid if rounded else 0.0
    X, y = records.rows, records.targets[0]
    blocks = list(batches.blocks(stream.dimension))
    for block, noise in zip(blocks, _drawn(stream, [len(b) for b in blocks]), strict=True):
        passage.advance(update, state, X, y, block, noise, grid, share)
        progress.show(state.steps)


def _drawn(stream: NoiseStream, counts: list[int]) -> Iterator[Floats]:
    """Yield blocks of noise; long runs draw the next block while the kernel uses this one."""
    if sum(counts) * stream.dimension < _WORTH_A_THREAD:
        yield from (stream.take(count) for count in counts)
        return
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(stream.take, counts[0])
        for count in counts[1:]:
            noise, pending = pending.result(), pool.submit(stream.take, count)
            yield noise
        yield pending.result()
