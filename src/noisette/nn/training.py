"""`PrivateTraining`: a plan that hands out batches and makes private steps.

One step: the sum of clipped gradients of the batch (`gradients`), bounded by its clipping rule,
through the door, divided by a public number, into ``parameter.grad``, then any optimizer.
"""

import copy
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from noisette._typing import Indices
from noisette.core.guarantee import Guarantee
from noisette.core.ledger import Ledger
from noisette.core.plans import Plan
from noisette.core.randomness import Randomness
from noisette.errors import InvalidParameter, PermitError
from noisette.nn import checkpoint as files
from noisette.nn.arrays import TensorRecords
from noisette.nn.batches import Queue, numbered, part_of
from noisette.nn.canary import RunCanary
from noisette.nn.clipping import Clipping
from noisette.nn.gradients.clipped import Losses
from noisette.nn.gradients.rounding import shared
from noisette.nn.starting import begin

_SAVES = 20  # checkpoints in a run, unless asked otherwise
_AT_ONCE = 8192  # records summed in float32; more in float64, so that rounding stays with a few


class PrivateTraining:
    """Private training of `module` with `optimizer`, as `plan` says.

    Making one checks everything and charges the ledger for the whole run.

    Parameters
    ----------
    module : torch.nn.Module
        What is trained.
    optimizer : torch.optim.Optimizer
        How; it sees only noisy gradients.
    plan : Plan
        From `make_plan` or `make_level_plan`, or any repeated sampled Gaussian.
    size : int
        How many records this process holds; with `persons`, how many persons.
    delta : float
        The delta at which the plan is charged.
    epsilon : float, optional
        The round epsilon to book; None books the least one that is certified.
    population : int, optional
        The public number of records where `size` is private (add-remove).
    clipping : {"flat", "automatic", "adaptive"} or Clipping, default "flat"
        The rule, or its name.
    clip_norm : float, default 1.0
        The norm bound of one record's gradient (where adaptive clipping starts).
    micro_batch : int, optional
        The most rows that are worked on at a time, never above 8,192 (fewer than 16 take the
        memory of 16).
    copies : int, default 1
        Augmentation multiplicity: how many losses each record has (see `step`).
    band : int, optional
        Band of the correlated noise for cyclic plans (DP-FTRL); None is independent noise.
    groups : array_like of int, optional
        For plans with personal levels: the group number of every record, public. With `persons`
        that of every row, the same in all rows of a person.
    persons : array_like or Persons, optional
        Whose row each row is, by any identifier, if one person may have several. Then plan, size,
        batches, divisor and guarantee count persons: `batches` hands out all rows of the persons
        drawn, and the gradient of a person is the mean of those of its rows, each clipped.
    record_ids : sequence, optional
        A public name of every record (different ones), in the order of the records: with them a
        killed cyclic run goes on in the middle of a pass, and rows in another order are
        refused. A digest of them is kept in the checkpoint.
    averaging : "tail" or float, optional
        The tail of the run, or a decay in (0, 1); see `load_average`.
    ledger : Ledger, optional
        What is charged; None opens one for this run alone.
    checkpoint : str, path-like or tuple of a path and an int, optional
        File from which a killed run is resumed; needs a ledger in a file. It is written 20 times,
        or every so many steps.
    random_state : int or Randomness, optional
        None for cryptographic noise, a number for an experiment.
    label : str, default "PrivateTraining"
        A few words for the ledger.

    Attributes
    ----------
    normaliser : float
        The public number by which the noisy sum is divided.
    steps_done : int
        How many noisy steps were made.

    Raises
    ------
    InvalidParameter
        If an argument is out of range, or the module cannot be trained privately.
    InvalidData
        If `groups` are not one number of the plan for each record, or `size` is not the number
        of `persons`.
    Unproven
        If the plan is no training loop, or has no proof together with the other arguments.
    BudgetExceeded
        If the ledger has too little left; nothing is charged.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import torch
    >>> from noisette import Ledger
    >>> from noisette.nn import PrivateTraining, make_plan
    >>> X, y = torch.ones(200, 3), torch.arange(200) % 2
    >>> module = torch.nn.Linear(3, 2)
    >>> optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    >>> plan = make_plan(size=200, epsilon=2.0, delta=1e-4, batch_size=50, steps=3)
    >>> def losses(module, batch):
    ...     rows, labels = batch
    ...     return torch.nn.functional.cross_entropy(module(rows), labels, reduction="none")
    >>> training = PrivateTraining(
    ...     module, optimizer, plan, size=200, delta=1e-4, epsilon=2.0, averaging="tail"
    ... )
    >>> for rows in training.batches():
    ...     training.step(losses, (X[rows], y[rows]))
    >>> training.load_average()
    >>> training.steps_done, training.guarantee().epsilon
    (3, 2.0)

    With a loader, and files from which a run that was killed goes on:

    >>> folder = Path(tempfile.mkdtemp())
    >>> ledger = Ledger.open(folder / "study.ledger", epsilon=2.0, delta=1e-4)
    >>> training = PrivateTraining(
    ...     module, optimizer, plan, size=200, delta=1e-4, epsilon=2.0, ledger=ledger,
    ...     checkpoint=folder / "run.pt",
    ... )
    >>> for batch in training.loader(torch.utils.data.TensorDataset(X, y)):
    ...     training.step(losses, batch)
    >>> training.save()
    >>> training.steps_done, (folder / "run.pt").exists()
    (3, True)

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
        persons: Any = None,
        record_ids: Any = None,
        averaging: str | float | None = None,
        ledger: Ledger | None = None,
        checkpoint: str | Path | tuple[str | Path, int] | None = None,
        random_state: int | Randomness | None = None,
        label: str = "PrivateTraining",
    ) -> None:
        asked = {name: value for name, value in locals().items() if name != "self"}
        self._start = start = begin(SimpleNamespace(**asked))
        self.plan, self.module, self.optimizer = plan, module, optimizer
        self.normaliser = start.normaliser
        self.steps_done = start.drawn
        self._run, self._group = start.run, start.group
        self._gradients, self._clipping = start.gradients, start.clipping
        # What is summed is in single precision anyway; the door adds its noise in double.
        small = (
            self.normaliser <= _AT_ONCE and start.weights is None  # any number makes a person
            and start.gradients.single and start.banded is None and start.clipping.fixed
        )  # fmt: skip
        self._precision = torch.float32 if small else torch.float64
        self._most = min(micro_batch or _AT_ONCE, _AT_ONCE)
        usual = min(round(self.normaliser), self._most)  # public, as the size of a batch may not be
        seed = start.randomness.seed_for_others() if start.randomness.seeded else None
        source = Randomness.secure() if seed is None else Randomness.from_seed(seed)
        self._canary = RunCanary(self._gradients, usual, start.copies, source)
        self._queue = Queue(start.to_come)
        self._save_every = start.every or max(1, self._run.steps // _SAVES)
        self._broken = self._word = False  # `_word`: rows were taken on somebody's word

    # --- the loop ------------------------------------------------------------------------------

    @property
    def steps(self) -> int:
        """How many noisy steps the plan has."""
        return self._run.steps

    def batches(self) -> Iterator[Indices]:
        """Yield the record numbers of each batch; call `step` once for each, empty ones too.

        With `persons` these are the numbers of all rows of the persons drawn. How many they are is
        private then: show no row counts of batches to anybody.

        Yields
        ------
        ndarray of int
            The numbers of the rows, in the order in which `step` wants them.

        Raises
        ------
        PermitError
            If the last batch had no `step`, or a step failed after its noise.

        """
        yield from self._handed(None)

    def loader(self, dataset: Any, **options: Any) -> Iterator[Any]:
        """Return the records of each batch out of `dataset`; call `step` once for each.

        Workers load ahead; the batches wait in the order in which they were drawn, and where a loop
        is left early the next one begins with those that wait. An empty batch comes as the slice
        ``[:0]`` of a batch. Record number i is ``dataset[i]``.

        Parameters
        ----------
        dataset : torch.utils.data.Dataset
            The records of this process.
        **options : dict
            Those of ``torch.utils.data.DataLoader`` (num_workers, collate_fn, ...).

        Returns
        -------
        iterator
            The batches, as ``collate_fn`` makes them.

        Raises
        ------
        PermitError
            If another loop took the batches, or a step failed after its noise.

        """
        options.setdefault("generator", self._gradients.chance.generator())
        loaded = numbered(dataset, self._start.rows, self._queue.ahead, options)
        self._group.agree({"workers of the loader": (loaded.num_workers, loaded.prefetch_factor)})
        return self._handed(iter(loaded))

    def _handed(self, source: Iterator[tuple[list[int], Any]] | None) -> Iterator[Any]:
        """Yield the batches, or what a loader has made of them."""
        while True:
            # Before the next batch is taken: none may be left out, since correlated noise counts
            # on the distance between two uses of a record.
            self._refuse_broken()
            found: Any = (None, None)
            if source is not None:
                try:
                    with self._gradients.chance.loading():
                        found = next(source, found)
                except BaseException as error:
                    self._group.together(partial(_again, error))  # the others wait in their step
                    raise
            rows = self._queue.hand_over()
            if source is not None and found[0] != (None if rows is None else rows.tolist()):
                raise PermitError("the batches of this loader were taken by another loop.")
            if rows is None:
                break
            yield rows.copy() if source is None else found[1]  # the caller's to change
        if self._start.file is not None and self.steps_done % self._save_every:
            self.save()

    def step(self, losses: Losses, batch: Any) -> None:
        """Make one private step with the records that `batches` handed out last.

        The rows are taken as given: that they are those records, each once and in that order, is
        the caller's word, and the guarantee says so; their number is checked.

        Parameters
        ----------
        losses : callable
            ``losses(module, batch)`` returns one loss for each record, without mean or sum;
            with `copies` = K it returns K of them for each record, those of a record side by
            side.
        batch : torch.Tensor, tuple, list, dict or callable
            Tensors with a record in each row (or K rows), or a function that returns such for
            given record numbers, called for one micro-batch at a time.

        Raises
        ------
        PermitError
            If no batch was handed out, or an earlier step failed after its noise.
        InvalidData
            If rows or losses are not one per record; the same batch may be tried again.

        """
        self._refuse_broken()
        rows = self._queue.open
        if rows is None:
            raise PermitError("step follows a batch of batches(), once for each batch.")
        self._broken = True  # meanwhile nobody takes a batch or makes another step
        size = self._gradients.dimension + self._clipping._extra
        try:
            # A copy, the same for all micro-batches and ranks: what the losses do to the rule
            # meanwhile, or a schedule on one rank alone, changes neither a factor nor the bound.
            # proof: NN-CLIP
            rule = copy.deepcopy(self._clipping)
            rule._restore(self._group.told(rule._state))
            work = partial(self._clipped_sum, rule, losses, batch, rows)
            total = self._group.added(work, size, self._precision)
        except BaseException:
            self._broken = False  # nothing was drawn, and the same batch may be tried again
            raise
        self._word = self._word or not isinstance(batch, TensorRecords)
        self._queue.open = None
        released = partial(self._released, rule, total)
        noisy = self._group.added(released, self._gradients.dimension, self._precision)
        if not rule.fixed:
            vars(self._clipping).update(vars(rule))
            self._clipping._restore(self._group.told(rule._state))
        self._forget_gradients()  # whatever somebody's own backward pass left
        for parameter, piece in self._gradients.pieces(noisy.div_(self.normaliser)):
            parameter.grad = piece.to(parameter.dtype)
        self.optimizer.step()
        self._forget_gradients()
        self._broken = False
        self.steps_done += 1
        if self._start.average is not None:
            self._start.average.take(self.steps_done)
        if self._start.file is not None and self.steps_done % self._save_every == 0:
            self.save()

    def _refuse_broken(self) -> None:
        if self._broken:
            raise PermitError(
                "a step is under way, or an earlier step failed after its noise may have been "
                "drawn; begin again, or go on from a checkpoint."
            )

    def _clipped_sum(self, rule: Clipping, losses: Losses, batch: Any, rows: Indices) -> Tensor:
        """Return the sum of the batch's clipped gradients, with the rule's own counts behind it."""
        dimension, extra, C = self._gradients.dimension, rule._extra, rule.clip_norm
        copies, weights = self._start.copies, self._start.weights
        total = torch.zeros(dimension + extra, dtype=self._precision)
        chance, foreign = self._gradients.chance, not isinstance(batch, TensorRecords)
        chance.new_step()
        if not len(rows):
            self._canary.step(losses, *((None, 0) if foreign else (batch.blank(), 1)))
        for start in range(0, len(rows), self._most):
            chosen = slice(start, min(start + self._most, len(rows)))
            with chance.loading() if foreign else nullcontext():
                part = part_of(batch, rows, chosen, copies)
            if start == 0:
                self._canary.step(losses, part, chosen.stop)
            shares = None if weights is None else weights[rows[chosen]]
            self._gradients.add(
                losses, part, chosen.stop - start, partial(_within, rule, C, shares),
                total[:dimension], copies=copies,
            )  # fmt: skip
        if rule.clip_norm != C:
            raise InvalidParameter(
                "the clipping rule moved its clip_norm within a step, whose records were cut to "
                "another one; move it in read, after the step."
            )
        if extra:
            total[dimension:] = torch.from_numpy(rule._counts())
        return total

    def _released(self, rule: Clipping, total: Tensor) -> Tensor:
        """Return the noisy sum of clipped gradients on the first rank, zeros on the others."""
        passage, batch, adjacency = self._start.passage, self.normaliser, self._start.adjacency
        if passage is None:
            return torch.zeros(self._gradients.dimension, dtype=self._precision)
        if self._start.banded is not None:
            found = self._start.banded(total.numpy(), rule.clip_norm, adjacency, passage.release)
            return torch.from_numpy(found)
        z = self._run.mechanism.noise_multiplier
        noisy = passage.release(rule._bounded(total.numpy(), adjacency, batch, z))
        return torch.from_numpy(rule._read(noisy, batch, z))

    def _forget_gradients(self) -> None:
        """Do what ``optimizer.zero_grad`` does, without its records for profilers."""
        for group in self.optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    def __copy__(self) -> "PrivateTraining":
        raise PermitError("a training cannot be copied: both would use the same secret batches.")

    # --- afterwards ----------------------------------------------------------------------------

    def load_average(self) -> None:
        """Put the average of the iterates into the module; free, since all were released.

        Raises
        ------
        InvalidParameter
            If `averaging` was not asked for.

        """
        if self._start.average is None:
            raise InvalidParameter("there is no average; pass averaging='tail' or a decay.")
        self._start.average.load()

    def save(self) -> None:
        """Write the checkpoint now; it happens by itself, too, 20 times unless asked otherwise.

        Raises
        ------
        InvalidParameter
            If no `checkpoint` was given.

        """
        start = self._start
        if start.file is None:
            raise InvalidParameter("there is no file to save to; pass checkpoint=...")
        if start.permit is None:
            return  # the first rank writes
        files.write(start.file, start.contents(charge=start.permit.number, steps=self.steps_done))
        start.permit.settle()

    def guarantee(
        self, released: str = "the weights of the network after every step",
        *, public: tuple[str, ...] = (), notes: tuple[str, ...] = (),
    ) -> Guarantee:  # fmt: skip
        """Return the guarantee about all iterates, hence about the trained module.

        Parameters
        ----------
        released : str, optional
            What left, in words.
        public, notes : tuple of str, optional
            Further public facts and sentences for a reviewer.

        Returns
        -------
        Guarantee
            The promise, whether or not all steps were made: all were charged.

        Raises
        ------
        PermitError
            If this process is not the first rank of a distributed training.

        """
        start = self._start
        if start.permit is None:
            raise PermitError("the first rank holds the guarantee.")
        resumed = () if start.file is None else ("RESUME",)
        return start.permit.guarantee(
            released,
            public=(*start.public(), *public),
            notes=(*start.notes(given=self._word), *notes),
            proofs=("NN-INDEPENDENCE", "NN-CANARY", *start.prepared.proofs, *resumed),
            max_rows=start.prepared.public.max_rows,
        )


def _within(rule: Clipping, clip_norm: float, shares: Tensor | None, norms: Tensor) -> Tensor:
    """Return the rule's factors, 0 where a record, or by `shares` a person, would pass the norm."""
    rule._note(norms, shares)
    found = rule.factors(norms)
    within = found.double().abs() * norms <= clip_norm
    found = torch.where(within, found, 0.0)
    return found if shares is None else shared(found, shares)


def _again(error: BaseException) -> Any:
    raise error
