"""`PrivateTraining`: a plan that hands out batches and makes private steps.

One step: the sum of clipped gradients of the batch (`gradients`), bounded by its clipping rule,
through the door, divided by a public number, into ``parameter.grad``, then any optimizer.
"""

import copy
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from noisette.bounded import Bounded
from noisette.errors import InvalidParameter, PermitError
from noisette.guarantee import Guarantee
from noisette.nn import checkpoint as files
from noisette.nn import wording
from noisette.nn.arrays import Records
from noisette.nn.asked import Asked
from noisette.nn.batches import Queue, part_of
from noisette.nn.clipping import Clipping
from noisette.nn.loading import numbered
from noisette.nn.progress import Progress
from noisette.nn.starting import begin
from noisette.plans import Plan
from noisette.privacy import Ledger, release
from noisette.randomness import Randomness
from noisette.training.observer import Observer

__all__ = ["PrivateTraining"]

Floats = NDArray[np.float64]
Losses = Callable[[nn.Module, Any], Tensor]

_SAVES = 20  # checkpoints in a run, unless asked otherwise
_AT_ONCE = 8192  # records summed in float32; more in float64, so that rounding stays with a few


class PrivateTraining:
    """Private training of `module` with `optimizer`, as `plan` says.

    Parameters
    ----------
    module, optimizer : what is trained; the optimizer sees only noisy gradients.
    plan : from `make_plan` or `make_level_plan`, or any repeated sampled Gaussian.
    size : how many records this process holds.
    delta : the delta at which the plan is charged.
    epsilon : the round epsilon to book; None books the least one that is certified.
    population : the public number of records where `size` is private (add-remove).
    clipping : ``"flat"``, ``"automatic"``, ``"adaptive"``, or a rule such as ``Flat(1.0)``.
    clip_norm : the norm bound of one record's gradient (where adaptive clipping starts).
    micro_batch : the most records that are worked on at a time, never above 8,192; memory only,
        nothing else changes.
    copies : augmentation multiplicity: how many losses each record has (see `step`).
    band : band of the correlated noise for cyclic plans (DP-FTRL); None is independent noise.
    groups : for plans with personal levels: the group number of every record, public.
    record_ids : a public name of every record (different ones), in the order of the records: with
        them a killed cyclic run goes on in the middle of a pass, and rows in another order are
        refused. A digest of them is kept in the checkpoint.
    averaging : None, ``"tail"`` or a decay in (0, 1); see `load_average`.
    ledger : what is charged; None opens one for this run alone.
    checkpoint : file from which a killed run is resumed; needs a ledger in a file.
    random_state : None for cryptographic noise, a number for an experiment.
    observer : who watches what is charged and released; for audits.

    """

    def __init__(
        self,
        module: nn.Module,
        optimizer: torch.optim.Optimizer,
        plan: Plan,
        *,
        size: int,
        delta: float,
        epsilon: float | None = None,
        population: int | None = None,
        clipping: Clipping | str = "flat",
        clip_norm: float = 1.0,
        micro_batch: int | None = None,
        copies: int = 1,
        band: int | None = None,
        groups: Any = None,
        record_ids: Any = None,
        averaging: str | float | None = None,
        ledger: Ledger | None = None,
        checkpoint: str | Path | None = None,
        save_every: int | None = None,
        random_state: int | Randomness | None = None,
        label: str = "PrivateTraining",
        verbose: int = 0,
        observer: Observer | None = None,
    ) -> None:
        start = begin(
            Asked(
                module=module, optimizer=optimizer, plan=plan, size=size, delta=delta,
                epsilon=epsilon, population=population, clipping=clipping, clip_norm=clip_norm,
                micro_batch=micro_batch, copies=copies, band=band, groups=groups,
                record_ids=record_ids, averaging=averaging, ledger=ledger, checkpoint=checkpoint,
                save_every=save_every, random_state=random_state, label=label,
                observer=observer or Observer(),
            )
        )  # fmt: skip
        self.plan, self.module, self.optimizer = plan, module, optimizer
        self.normaliser = start.normaliser
        """The public number by which the noisy sum is divided."""
        self.steps_done = start.drawn
        self._start, self._run, self._group = start, start.run, start.group
        self._gradients, self._clipping = start.gradients, start.clipping
        self._precision = self._summed_in()
        self._queue = Queue(start.to_come)
        self._save_every = start.save_every or max(1, self._run.steps // _SAVES)
        shown = verbose if self._group.first else 0
        self._progress = Progress(shown, self._run.steps, self.steps_done)
        self._broken = False
        self._word = False  # whether rows were taken on somebody's word

    def _summed_in(self) -> torch.dtype:
        small = self.normaliser <= _AT_ONCE and self._gradients.single
        if self._start.banded is None and self._clipping.fixed and small:
            # What is summed is in single precision anyway; the door adds its noise in double.
            return torch.float32
        return torch.float64

    # --- the loop ------------------------------------------------------------------------------

    @property
    def steps(self) -> int:
        """How many noisy steps the plan has."""
        return self._run.steps

    def batches(self) -> Iterator[NDArray[np.intp]]:
        """Yield the record numbers of each batch; call `step` once for each, empty ones too."""
        while True:
            # Before the next batch is taken: none may be left out, since correlated noise counts
            # on the distance between two uses of a record.
            self._refuse_broken()
            rows = self._queue.hand_over()
            if rows is None:
                break
            yield rows.copy()  # the caller's to change
        self._finish()

    def loader(self, dataset: Any, **options: Any) -> Iterator[Any]:
        """Yield the records of each batch out of `dataset`; call `step` once for each.

        `options` are those of ``torch.utils.data.DataLoader`` (num_workers, collate_fn, ...).
        Workers load ahead; the batches wait in the order in which they were drawn, and where a
        loop is left early the next one begins with those that wait. An empty batch comes as the
        slice ``[:0]`` of a batch. Record number i is ``dataset[i]``.
        """
        loaded = numbered(dataset, self._start.asked.size, self._queue.ahead, options)
        self._group.agree({"workers of the loader": (loaded.num_workers, loaded.prefetch_factor)})
        return self._loaded(iter(loaded))

    def _loaded(self, source: Iterator[tuple[list[int], Any]]) -> Iterator[Any]:
        while True:
            self._refuse_broken()
            try:
                found = next(source, None)
            except BaseException as error:
                self._group.together(partial(_again, error))  # the others wait in their next step
                raise
            rows = self._queue.hand_over()
            known = None if rows is None else rows.tolist()
            if known != (None if found is None else found[0]):
                raise PermitError("the batches of this loader were taken by another loop.")
            if found is None:
                break
            yield found[1]
        self._finish()

    def _finish(self) -> None:
        self._progress.close()
        if self._start.file is not None and self.steps_done % self._save_every:
            self.save()

    def step(self, losses: Losses, batch: Any) -> None:
        """Make one private step with the records that `batches` handed out last.

        ``losses(module, batch)`` returns one loss for each record, without mean or sum; with
        `copies` = K it returns K of them for each record, those of a record side by side. `batch`
        is a tensor or a tuple, list or dict of tensors with a record in each row (or K rows), or a
        function that returns one for given record numbers, called for one micro-batch at a time.
        The rows are taken as given: that they are those records, each once and in that order, is
        the caller's word, and the guarantee says so; their number is checked.
        """
        self._refuse_broken()
        rows = self._queue.open
        if rows is None:
            raise PermitError("step follows a batch of batches(), once for each batch.")
        self._broken = True  # meanwhile nobody takes a batch or makes another step
        size = self._gradients.dimension + self._clipping.extra()
        try:
            rule = self._rule_of_step()
            work = partial(self._clipped_sum, rule, losses, batch, rows)
            total = self._group.added(work, size, self._precision)
        except BaseException:
            self._broken = False  # nothing was drawn, and the same batch may be tried again
            raise
        self._word = self._word or not isinstance(batch, Records)
        self._queue.used()
        noisy = self._group.copied(
            lambda: torch.from_numpy(self._released(rule, total.numpy())),
            self._gradients.dimension, self._precision,
        )  # fmt: skip
        if not rule.fixed:
            vars(self._clipping).update(vars(rule))
            self._clipping.restore(self._group.told(rule.state))
        self._apply(noisy)
        self._broken = False
        self.steps_done += 1
        if self._start.average is not None:
            self._start.average.take(self.steps_done)
        self._progress.advance()
        if self._start.file is not None and self.steps_done % self._save_every == 0:
            self.save()

    def _refuse_broken(self) -> None:
        if self._broken:
            raise PermitError(
                "a step is under way, or an earlier step failed after its noise may have been "
                "drawn; begin again, or go on from a checkpoint."
            )

    def _rule_of_step(self) -> Clipping:
        """Return the clipping rule of one step, the same for all its micro-batches and ranks.

        A copy: what the losses do to the rule meanwhile, or a schedule on one rank alone, changes
        neither a factor nor the bound of this step.
        """
        # proof: NN-CLIP
        rule = copy.deepcopy(self._clipping)
        rule.restore(self._group.told(rule.state))
        return rule

    def _clipped_sum(
        self, rule: Clipping, losses: Losses, batch: Any, rows: NDArray[np.intp]
    ) -> Tensor:
        """Return the sum of the batch's clipped gradients, with the rule's own counts behind it."""
        dimension, extra, C = self._gradients.dimension, rule.extra(), rule.clip_norm
        copies, micro = self._start.copies, self._start.micro
        total = torch.zeros(dimension + extra, dtype=self._precision)
        most = min(micro or _AT_ONCE, _AT_ONCE)
        for start in range(0, len(rows), most):
            chosen = slice(start, min(start + most, len(rows)))
            part = part_of(batch, rows, chosen, copies)
            self._gradients.add(
                losses, part, chosen.stop - start, partial(_within, rule, C), total[:dimension],
                copies=copies,
            )  # fmt: skip
        if rule.clip_norm != C:
            raise InvalidParameter(
                "the clipping rule moved its clip_norm within a step, whose records were cut to "
                "another one; move it in read, after the step."
            )
        if extra:
            total[dimension:] = torch.from_numpy(rule.counts())
        return total

    def _released(self, rule: Clipping, total: Floats) -> Floats:
        """Return the noisy sum of clipped gradients."""
        permit, batch, adjacency = self._start.permit, self.normaliser, self._start.adjacency
        assert permit is not None
        z = self._run.mechanism.noise_multiplier

        def door(bounded: Bounded) -> Floats:
            watch = self._start.asked.observer
            return np.asarray(watch.release(release, bounded, permit, self._start.source))

        if self._start.banded is not None:
            return self._start.banded(total, rule.clip_norm, adjacency, door)
        return rule.read(door(rule.bounded(total, adjacency, batch, z)), batch, z)

    def _apply(self, noisy: Tensor) -> None:
        start = 0
        mean = noisy.div_(self.normaliser)
        self.optimizer.zero_grad(set_to_none=True)  # whatever somebody's own backward pass left
        for parameter in self._gradients.parameters:
            stop = start + parameter.numel()
            parameter.grad = mean[start:stop].view(parameter.shape).to(parameter.dtype)
            start = stop
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def __copy__(self) -> "PrivateTraining":
        raise PermitError("a training cannot be copied: both would use the same secret batches.")

    # --- afterwards ----------------------------------------------------------------------------

    def load_average(self) -> None:
        """Put the average of the iterates into the module; free, since all were released."""
        if self._start.average is None:
            raise InvalidParameter("there is no average; pass averaging='tail' or a decay.")
        self._start.average.load()

    def save(self) -> None:
        """Write the checkpoint now; it happens by itself every `save_every` steps."""
        start = self._start
        if start.file is None:
            raise InvalidParameter("there is no file to save to; pass checkpoint=...")
        if start.permit is None:
            return  # the first rank writes
        state = files.contents(
            self.module, self.optimizer, start.average, self._clipping,
            charge=start.permit.number, steps=self.steps_done, seeded=start.randomness.seeded,
            facts=start.facts,
        )  # fmt: skip
        files.write(start.file, state)
        start.permit.settle()

    def guarantee(
        self, released: str = "the weights of the network after every step",
        *, public: tuple[str, ...] = (), notes: tuple[str, ...] = (),
    ) -> Guarantee:  # fmt: skip
        """Return the guarantee about all iterates, hence about the trained module."""
        start = self._start
        if start.permit is None:
            raise PermitError("the first rank holds the guarantee.")
        levels = ("SAMPLE-LEVELS",) if len(self._run.samplers) > 1 else ()
        resumed = ("RESUME",) if start.file is not None else ()
        return start.permit.guarantee(
            released,
            public=(*wording.public(start), *public),
            notes=(*wording.notes(start, given=self._word), *notes),
            proofs=("NN-INDEPENDENCE", *levels, *resumed),
        )


def _within(rule: Clipping, clip_norm: float, norms: Tensor) -> Tensor:
    """Return the rule's factors; one that would let a record pass the clip norm becomes 0."""
    found = rule.factors(norms)
    within = found.double().abs() * norms <= clip_norm
    return torch.where(within, found, 0.0)


def _again(error: BaseException) -> Any:
    raise error
