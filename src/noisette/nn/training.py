"""`PrivateTraining`: a plan that hands out batches and makes private steps.

One step: the sum of clipped gradients of the batch (`gradients`), bounded by its clipping rule,
through the door, divided by a public number, into ``parameter.grad``, then any optimizer.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from noisette import _validate, accounting
from noisette.bounded import Bounded
from noisette.errors import InvalidParameter, PermitError, Unproven
from noisette.guarantee import Guarantee, rounded_up
from noisette.nn import checkpoint as files
from noisette.nn import starting
from noisette.nn.averaging import Average
from noisette.nn.batches import Batches, part_of, run_of
from noisette.nn.clipping import Clipping, as_clipping
from noisette.nn.gradients import ClippedGradients
from noisette.nn.group import present_group
from noisette.nn.progress import Progress
from noisette.plans import Plan
from noisette.privacy import Ledger, Permit, release
from noisette.randomness import Randomness, as_randomness

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
    averaging : None, ``"tail"`` or a decay in (0, 1); see `load_average`.
    ledger : what is charged; None opens one for this run alone.
    checkpoint : file from which a killed run is resumed; needs a ledger in a file.
    random_state : None for cryptographic noise, a number for an experiment.

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
        averaging: str | float | None = None,
        ledger: Ledger | None = None,
        checkpoint: str | Path | None = None,
        save_every: int | None = None,
        random_state: int | Randomness | None = None,
        label: str = "PrivateTraining",
        verbose: int = 0,
    ) -> None:
        self._run = run_of(plan)
        self.plan, self.module, self.optimizer = plan, module, optimizer
        self._adjacency = starting.relation(plan, ledger)
        for sampler in self._run.samplers:
            # Refuses what has no proof, before any check that names the number of records.
            sampler.participation(self._adjacency)
        if len(self._run.samplers) > 1 and not self._adjacency.size_is_public:
            # proof: SAMPLE-LEVELS
            raise Unproven(
                "personal levels need public group sizes, which add-remove hides; use another "
                "adjacency."
            )
        self._group = present_group()
        self._gradients = ClippedGradients(module)
        starting.check_optimizer(optimizer, self._gradients.parameters)
        self._clipping = as_clipping(clipping, clip_norm)
        self._copies = _validate.integer("copies", copies)
        self._micro = None if micro_batch is None else _validate.integer("micro_batch", micro_batch)
        self._banded = starting.correlation(band, self._run.sampler, self._clipping)
        randomness = as_randomness(random_state)
        sizes = self._group.sizes(_validate.integer("size", size))
        public = sum(sizes) if self._adjacency.size_is_public else population
        if public is None:
            raise InvalidParameter(
                "under add-remove the number of records is private; pass population=..., a public "
                "number to stand for it."
            )
        public = _validate.integer("population", public)
        self._average = None
        if averaging is not None:
            self._average = Average(averaging, self._gradients.parameters, self._run.steps)
        self._file = None if checkpoint is None else Path(checkpoint)
        if self._file is not None and self._banded is not None:
            raise Unproven(
                "correlated noise cannot be resumed from a checkpoint, which holds no noise; use "
                "band=None or no checkpoint."
            )
        batches = Batches(self._run, sizes, groups, self._group)
        self.normaliser = batches.normaliser(public)
        """The public number by which the noisy sum is divided."""
        self._precision = torch.float64
        small = self.normaliser <= _AT_ONCE and self._gradients.single
        if self._banded is None and self._clipping.fixed and small:
            # What is summed is in single precision anyway; the door adds its noise in double.
            self._precision = torch.float32
        delta = _validate.delta_for(delta, public)
        rule = self._clipping
        self._group.agree(
            {
                "plan": plan.to_json(),
                "clipping": (type(rule).__name__, vars(rule)),
                "divisor": self.normaliser,
                "kind of random_state": randomness.seeded,
                "band": band,
                "trainable parameters": [(p.shape, p.dtype) for p in self._gradients.parameters],
            }
        )
        self._group.align(module)
        state = None
        if self._file is not None and self._group.first:
            state = files.read(self._file) if self._file.exists() else None
            files.prepare(self._file)
        state = self._group.told(state)
        if state is not None:
            files.check(self._file, state, module, seeded=randomness.seeded)
        self._permit = self._paid(
            plan, ledger, delta, epsilon, label, state, seeded=randomness.seeded
        )
        drawn = self._group.told(None if self._permit is None else self._permit.drawn())
        if state is not None and drawn < state["steps"]:
            raise InvalidParameter(
                f"{self._file} has made more steps than the ledger knows of: it belongs to another "
                "ledger, or this one is an old copy."
            )
        self._randomness = starting.own_source(randomness, self._group, drawn)
        if state is not None:
            files.take_up(self._file, state, module, optimizer, self._average)
            self._clipping.restore(state["clipping"])
        optimizer.zero_grad(set_to_none=True)  # frozen weights may hold an old gradient
        self._batches = batches.from_step(drawn, self._randomness)
        self.steps_done = drawn
        self._seeded = randomness.seeded
        self._save_every = save_every or max(1, self._run.steps // _SAVES)
        self._progress = Progress(verbose if self._group.first else 0, self._run.steps, drawn)
        self._open: NDArray[np.intp] | None = None
        self._broken = False
        if self._file is not None and state is None:
            self.save()

    # --- starting ----------------------------------------------------------------------------

    def _paid(
        self, plan: Plan, ledger: Ledger | None, delta: float, epsilon: float | None, label: str,
        state: dict[str, Any] | None, *, seeded: bool,
    ) -> Permit | None:  # fmt: skip
        """Return the permit of the first rank: newly charged, or that of the interrupted run."""
        if not self._group.first:
            return None
        if self._file is not None and ledger is None:
            raise InvalidParameter(
                "a checkpoint needs a ledger in a file, which remembers what was drawn; pass "
                "ledger=Ledger.open(path, ...)."
            )
        if state is not None:
            assert ledger is not None
            # Before it is claimed: a mistake must not take the permit from a run that goes on.
            charges, number = ledger.charges, state["charge"]
            booked = charges[number - 1].plan if 1 <= number <= len(charges) else None
            if booked != plan.under(ledger.adjacency).to_json():
                raise InvalidParameter(
                    f"{self._file} belongs to another plan; use another file for this run."
                )
            return ledger.resume(number)
        if ledger is None:
            total = epsilon or accounting.epsilon(plan, delta=delta, adjacency=self._adjacency)
            ledger = Ledger(max(total, 1e-12), delta, adjacency=self._adjacency)
        return ledger.charge(
            plan, label=label, delta=delta, epsilon=epsilon, resumable=self._file is not None,
            seeded=seeded,
        )  # fmt: skip

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
            if self._open is not None:
                raise PermitError("call step once for every batch before taking the next.")
            self._open = next(self._batches, None)
            if self._open is None:
                break
            yield self._open.copy()  # the caller's to change
        self._progress.close()
        if self._file is not None and self.steps_done % self._save_every:
            self.save()

    def step(self, losses: Losses, batch: Any) -> None:
        """Make one private step with the records that `batches` handed out last.

        ``losses(module, batch)`` returns one loss for each record, without mean or sum; with
        `copies` = K it returns K of them for each record, those of a record side by side. `batch`
        is a tensor or a tuple, list or dict of tensors with a record in each row, or a function
        that returns one for given record numbers, called for one micro-batch at a time. The rows
        must be those records, each once and in that order, and `losses` must keep nothing between
        calls: only the number of rows and what a trial with the first batch shows can be checked.
        """
        self._refuse_broken()
        if self._open is None:
            raise PermitError("step follows a batch of batches(), once for each batch.")
        self._broken = True  # meanwhile nobody takes a batch or makes another step
        try:
            total = self._group.added(self._clipped_sum(losses, batch, self._open))
        except BaseException:
            self._broken = False  # nothing was drawn, and the same batch may be tried again
            raise
        self._open = None
        if self._permit is not None:
            noisy = torch.from_numpy(self._released(total.numpy()))
        else:
            noisy = torch.empty(self._gradients.dimension, dtype=self._precision)
        if not self._clipping.fixed:
            self._clipping.restore(self._group.told(self._clipping.state()))
        self._apply(self._group.copied(noisy))
        self._broken = False
        self.steps_done += 1
        if self._average is not None:
            self._average.take(self.steps_done)
        self._progress.advance()
        if self._file is not None and self.steps_done % self._save_every == 0:
            self.save()

    def _refuse_broken(self) -> None:
        if self._broken:
            raise PermitError(
                "a step is under way, or an earlier step failed after its noise may have been "
                "drawn; begin again, or go on from a checkpoint."
            )

    def _clipped_sum(self, losses: Losses, batch: Any, rows: NDArray[np.intp]) -> Tensor:
        """Return the sum of the batch's clipped gradients, with the rule's own counts behind it."""
        dimension, extra = self._gradients.dimension, self._clipping.extra()
        if self._group.ranks > 1:  # a schedule may have moved the clip norm of one rank alone
            self._clipping.restore(self._group.told(self._clipping.state()))
        self._clipping.counts()  # forgets what a failed attempt has counted
        total = torch.zeros(dimension + extra, dtype=self._precision)
        most = min(self._micro or _AT_ONCE, _AT_ONCE)
        for start in range(0, len(rows), most):
            chosen = slice(start, min(start + most, len(rows)))
            part = part_of(batch, rows, chosen, self._copies)
            self._gradients.add(
                losses, part, chosen.stop - start, self._factors, total[:dimension],
                copies=self._copies,
            )  # fmt: skip
        if extra:
            total[dimension:] = torch.from_numpy(self._clipping.counts())
        return total

    def _factors(self, norms: Tensor) -> Tensor:
        """Return the rule's factors; one that would let a record pass the clip norm becomes 0."""
        found = self._clipping.factors(norms)
        within = found.double().abs() * norms <= self._clipping.clip_norm
        return torch.where(within, found, 0.0)

    def _released(self, total: Floats) -> Floats:
        """Return the noisy sum of clipped gradients."""
        permit, batch = self._permit, self.normaliser
        assert permit is not None
        z = self._run.mechanism.noise_multiplier

        def door(bounded: Bounded) -> Floats:
            return np.asarray(release(bounded, permit, self._randomness))

        if self._banded is not None:
            return self._banded(total, self._clipping.clip_norm, self._adjacency, door)
        bounded = self._clipping.bounded(total, self._adjacency, batch, z)
        return self._clipping.read(door(bounded), batch, z)

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
        if self._average is None:
            raise InvalidParameter("there is no average; pass averaging='tail' or a decay.")
        self._average.load()

    def save(self) -> None:
        """Write the checkpoint now; it happens by itself every `save_every` steps."""
        if self._file is None:
            raise InvalidParameter("there is no file to save to; pass checkpoint=...")
        if self._permit is None:
            return  # the first rank writes
        state = {
            "module": self.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "average": None if self._average is None else self._average.state(),
            "clipping": self._clipping.state(),
            "charge": self._permit.number,
            "steps": self.steps_done,
            "seeded": self._seeded,
        }
        files.write(self._file, state)
        self._permit.settle()

    def guarantee(
        self, released: str = "the weights of the network after every step",
        *, public: tuple[str, ...] = (), notes: tuple[str, ...] = (),
    ) -> Guarantee:  # fmt: skip
        """Return the guarantee about all iterates, hence about the trained module."""
        if self._permit is None:
            raise PermitError("the first rank holds the guarantee.")
        levels = ("SAMPLE-LEVELS",) if len(self._run.samplers) > 1 else ()
        resumed = ("RESUME",) if self._file is not None else ()
        return self._permit.guarantee(
            released, public=(*self._public(), *public), notes=(*self._notes(), *notes),
            proofs=(*levels, *resumed),
        )  # fmt: skip

    def _public(self) -> tuple[str, ...]:
        levels = ("everybody's level, which a changed record keeps",)
        return (
            f"the number {self.normaliser:g} by which every noisy sum of gradients is divided",
            "the architecture, its starting weights, the optimizer and all settings",
            *(() if self._adjacency.size_is_public else ("that there is at least one record",)),
            *(levels if len(self._run.samplers) > 1 else ()),
        )

    def _notes(self) -> tuple[str, ...]:
        notes = [
            "Gradients are computed in the precision of the module; the norms by which they are "
            "clipped are upper bounds, rounding included; the rounding of their sum is not."
        ]
        if self._banded is not None:
            notes.append(f"Noise is correlated over {self._banded.band} steps.")
        if len(self._run.samplers) > 1:
            assert self._permit is not None
            own = [
                accounting.epsilon(part, delta=self._permit.delta, adjacency=self._adjacency)
                for part in self._permit.plan.alternatives()
            ]
            each = ", ".join(rounded_up(epsilon, digits=4) for epsilon in own)
            notes.append(f"Epsilon of each group, in order: {each}.")
        return tuple(notes)
