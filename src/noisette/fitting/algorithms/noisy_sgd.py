"""The direct method: noisy SGD with many passes, every sampler counted by its own theorem.

One use of the sampler hands out its batches; the plan is that use, repeated. The noise is the least
one that the accountants certify for (epsilon, delta). ``released="all"`` counts every iterate;
``released="last"`` counts only the last one, for plain SGD with a constant learning rate on a
smooth convex loss with rows swept once per epoch (LAST-ITERATE-GCM), and refuses anything else.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from noisette import _validate
from noisette._typing import Floats
from noisette.core import accounting
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms import Gaussian, step_noises
from noisette.core.mechanisms.base import on_grid
from noisette.core.plans import LastIterate, Plan, Repeat, Sampled
from noisette.core.sampling import SAMPLERS, Cyclic, FullBatch, Sampler, Shuffle
from noisette.errors import Unproven
from noisette.fitting.algorithms.algorithm import PreparedModel
from noisette.fitting.algorithms.levels import Levels, Stepwise, share_proofs, shares_of
from noisette.fitting.algorithms.passage import Passage
from noisette.fitting.algorithms.public import Public, check_scales
from noisette.fitting.algorithms.records import Records
from noisette.fitting.algorithms.single_pass import run_blocks
from noisette.fitting.algorithms.steps import Batches, Progress, State, Update, in_random_order
from noisette.fitting.losses import classifier_losses

_BATCHED_USES = 64  # one-step samplers are run in blocks of so many steps


def make_sampler(name: str, size: int, batch_size: int, epochs: int) -> tuple[Sampler, int]:
    """Return the sampler of that name and how often it is used.

    `size` is n, or its public estimate where n is private.
    """
    return SAMPLERS[_validate.choice("sampling", name, SAMPLERS)].of(size, batch_size, epochs)


def plan_for(
    update: Update, sampler: Sampler, uses: int, public: Public, *, noise: str, released: str
) -> Callable[[float], Plan]:
    """Return the plan as a function of the noise multiplier; refuse what has no proof."""
    if released == "last":
        _check_last(update, sampler, noise, public.adjacency)
        return lambda z: LastIterate(
            Gaussian(z), sampler, epochs=uses, loss=str(update.loss.last_iterate),
            learning_rate=update.eta0, regularization=update.regularization,
            norm_bound=update.row_bound, loss_parameter=update.loss.smoothing,
            size=None if isinstance(sampler, FullBatch) else public.size,
        )  # fmt: skip

    def plan(z: float) -> Plan:
        step = Sampled(step_noises()[noise].of(z, public.dimension), sampler)
        return step if uses == 1 else Repeat(step, uses)

    return plan


def _check_last(update: Update, sampler: Sampler, noise: str, adjacency: Adjacency) -> None:
    """Refuse by name whatever the last-iterate theorem does not cover."""
    known = classifier_losses().items()  # by the names that users give them
    covered = ", ".join(name for name, kind in known if kind.last_iterate is not None)
    reasons = (
        (noise != "gaussian", "Gaussian noise (delta > 0)"),
        (not isinstance(sampler, Cyclic | Shuffle | FullBatch), "cyclic, shuffle or full sampling"),
        (adjacency is Adjacency.ADD_REMOVE, "replace-one or zero-out neighbours"),
        (update.loss.last_iterate is None, f"a smooth loss that it covers ({covered})"),
        (update.learning_rate != "constant", "learning_rate='constant'"),
        (update.averaging is not None, "no averaging, since a mean reveals earlier iterates"),
        (update.norm_bound is None, "a norm_bound, which bounds the curvature"),
        (
            update.loss.kind == "multiclass" and update.clip_norm is not None,
            "softmax without clip_norm, since clipped softmax gradients have no potential",
        ),
    )
    largest = 2.0 / (update.loss.smoothness * update.row_bound**2 + update.regularization)
    only = "released='last' is proven only"
    _validate.refuse(
        *(
            (wrong, f"{only} with {needed}; change that, or use released='all'.")
            for wrong, needed in reasons
        ),
        (
            update.eta0 > largest,
            f"{only} for learning rates up to 2/M = {largest:.6g}; got {update.eta0:g}.",
        ),
        kind=Unproven,
    )


@dataclass(frozen=True)
class NoisySGD(Stepwise[PreparedModel]):
    """SGD with many noisy steps on the batches of any sampler.

    `uses` uses of `sampler`; where n is private, ``public.size`` stands for it in normalisers.
    `multiplier` is a noise multiplier that was calibrated before; the charge checks it.
    """

    name: ClassVar[str] = "noisy-sgd"
    summary: ClassVar[str] = "SGD with many passes, each sampler counted by its own theorem"
    needs_batches: ClassVar[bool] = True

    update: Update
    sampler: Sampler
    uses: int
    noise: str = "gaussian"
    released: str = "all"
    levels: Levels | None = None
    multiplier: float | None = None

    def prepare(self, public: Public) -> PreparedModel:
        """Return the repeated use of the sampler with the least noise that is certified."""
        size, adjacency = public.known_size("noisy SGD"), public.adjacency
        make = plan_for(
            self.update, self.sampler, self.uses, public, noise=self.noise, released=self.released
        )
        if public.exact:
            self.sampler.check(size)
        once = self.sampler.participation(adjacency).kind == "once" and self.released == "all"
        if self.levels is not None and not (once and self.levels.scaled):
            raise Unproven(
                "sample_epsilon is proven where every person takes part once per pass and all "
                "iterates count; use disjoint, cyclic, shuffle or full sampling, released='all'."
            )
        plan = make(self.multiplier or accounting.calibrate(
            make, epsilon=public.epsilon, delta=public.delta, adjacency=adjacency
        ))  # fmt: skip
        check_scales(plan, self.update.contribution)
        return PreparedModel(public, plan, share_proofs(self.levels, self.noise, public.delta))

    def passes(self, prepared: PreparedModel) -> float:
        """Return about how often every row is read."""
        sampler, size = self.sampler, prepared.public.known_size("noisy SGD")
        return self.uses * sampler.steps * sampler.normaliser(size) / size

    def run(self, records: Records, prepared: PreparedModel, passage: Passage) -> list[Floats]:
        """Return the weights after all uses of the sampler."""
        public, update, sampler = prepared.public, self.update, self.sampler
        n, features = records.size, records.rows.shape[1]
        share = shares_of(records, self.levels, public, self.noise)
        # proof: CLIP
        stream = passage.release(update.bounded(features, public.adjacency, "CLIP"))
        unit = in_random_order(records.unit, sampler, passage.randomness)
        state = State.zero(public.dimension)
        progress = Progress(passage.verbose, prepared.plan.draws)
        normaliser, done = sampler.normaliser(public.known_size("noisy SGD")), 0
        while done < self.uses:
            together = min(self.uses - done, _BATCHED_USES if sampler.steps == 1 else 1)
            scheduled = [
                batch for _ in range(together) for batch in sampler.schedule(n, passage.randomness)
            ]
            done += together
            batches = Batches.of(scheduled, normaliser).rows_of(unit, drawn=sampler.independent)
            run_blocks(
                records, update, state, stream, batches, share, progress, passage,
                rounded=self.released == "all",
            )  # fmt: skip
        if self.released == "last":
            # Only the last iterate leaves, so only it is rounded: post-processing of that iterate.
            step = 2.0 ** math.floor(math.log2(stream.grid * update.eta0 / normaliser))
            state.w = on_grid(state.w, step)  # proof: FLOAT-GRID
        return [state.result(update, features)]
