"""The start of a training: seven stages in one order, which is a safety property.

======== ====================================================================================
refuse   what has no proof, from the plan, the module and the optimizer alone
check    every setting, each by itself
agree    all ranks run the same, over records whose public numbers they tell each other
read     the checkpoint, and whether it can be written, belongs to this run and can be taken up
claim    the charge, or the permit of the interrupted run; a new run's first checkpoint
restore  weights, optimizer and clip norm: now for the first time something of the caller changes
draw     the source of this rank and the batches that come
======== ====================================================================================

The first three give `Start.facts`, which are public. Whatever can be wrong is told before
`claim`, so that a mistake is not charged, takes no permit from a run that goes on, and leaves
module, optimizer and files as they were. A rank that fails in a stage stops all ranks there.
"""

import copy
import hashlib
import math
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import torch

from noisette import _validate
from noisette.core import accounting
from noisette.core.adjacency import Adjacency
from noisette.core.guarantee import rounded_up
from noisette.core.ledger import Ledger
from noisette.core.permit import Permit
from noisette.core.randomness import Randomness, as_randomness
from noisette.core.refusals import REFUSALS
from noisette.core.storage import Drawn
from noisette.errors import InvalidData, InvalidParameter, Unproven
from noisette.fitting.algorithms.correlation import Banded
from noisette.fitting.algorithms.network import NetworkSteps, PublicNetwork, Schedule
from noisette.fitting.algorithms.passage import Passage
from noisette.fitting.algorithms.steps import in_random_order
from noisette.fitting.algorithms.train import begin as pay
from noisette.fitting.units import Unit
from noisette.nn import checkpoint as files
from noisette.nn.batches import MOST_ROWS, check_ranks, members_of, row_weights, to_come, unit_of
from noisette.nn.checkpoint import Average
from noisette.nn.clipping import as_clipping
from noisette.nn.gradients import ClippedGradients
from noisette.nn.gradients.chance import Chance
from noisette.nn.group import Group

Stage = Callable[["Start"], None]


def _by_itself(stage: Stage) -> Stage:
    """Let each rank do a stage by itself, and stop all of them if one fails."""

    @wraps(stage)
    def everywhere(start: "Start") -> None:
        start.group.together(lambda: stage(start))

    return everywhere


class Start:
    """What `PrivateTraining` is asked for, and what is settled so far; a method is a stage.

    `permit`, which paid for the run, and `passage`, the way through the door, are the first rank's
    alone; `weights` are those of rows within their persons, None where every row is a record.
    """

    def __init__(self, asked: Any) -> None:
        self.asked, self.group = asked, Group()
        self.permit: Permit | None = None
        self.passage: Passage | None = None

    @_by_itself
    def refuse(self) -> None:
        """Refuse what has no proof, before any check that names the number of records."""
        asked = self.asked
        self.run = Schedule.of(asked.plan)
        # the relation of the run: the ledger's, the plan's, or the strictest
        own = asked.plan.adjacency or Adjacency.REPLACE_ONE
        self.adjacency: Adjacency = own if asked.ledger is None else asked.ledger.adjacency
        self.clipping = as_clipping(asked.clipping, asked.clip_norm)
        self.run.refuse_unproven(self.adjacency, asked.band, fixed=self.clipping.fixed)
        self.banded = None if asked.band is None else Banded(asked.band)
        pair = isinstance(asked.checkpoint, tuple) and len(asked.checkpoint) == 2
        file, every = asked.checkpoint if pair else (asked.checkpoint, None)
        self.file, self.every = None if file is None else Path(file), every
        _validate.refuse(
            (self.file is not None and self.banded is not None,
             "correlated noise cannot be resumed from a checkpoint, which holds no noise; use "
             "band=None or no checkpoint."),
            (self.run.first and (self.file is not None or self.group.ranks > 1),
             "balanced classes are for one process, and cannot be resumed from a checkpoint; give "
             "public weights, or none."),
            kind=Unproven,
        )  # fmt: skip
        self.gradients = ClippedGradients(asked.module)
        # The optimizer may neither move something else nor ask for gradients by itself.
        known = set(map(id, self.gradients.parameters))
        moved = (p for part in asked.optimizer.param_groups for p in part["params"])
        _validate.refuse(
            (any(p.requires_grad and id(p) not in known for p in moved),
             "the optimizer holds parameters of another module; make it from "
             "module.parameters()."),
            (isinstance(asked.optimizer, torch.optim.LBFGS),
             "LBFGS looks at the loss several times a step; use SGD or Adam."),
        )  # fmt: skip

    @_by_itself
    def check(self) -> None:
        """Check every setting by itself."""
        asked = self.asked
        size = _validate.integer("size", asked.size, least=int(self.adjacency.size_is_public))
        public_size(Unit(size).size(self.adjacency, asked.population))
        if self.file is not None and self.group.first and asked.ledger is None:
            raise InvalidParameter(
                "a checkpoint needs a ledger in a file, which remembers what was drawn; pass "
                "ledger=Ledger.open(path, ...)."
            )
        kind, parameters = asked.averaging, self.gradients.parameters
        self.average = None if kind is None else Average(kind, parameters, self.run.steps)
        self.trained = files.Moving(asked.module, asked.optimizer, self.average, self.clipping)
        check_ids(asked.record_ids, size)
        self.unit = unit_of(asked, size)
        self.weights = row_weights(self.unit)
        self.rows = len(self.unit.rows_of(np.arange(size)))
        self.delta = _validate.delta(asked.delta)
        self.copies = _validate.integer("copies", asked.copies)
        for name, value in (("micro_batch", asked.micro_batch), ("checkpoint's steps", self.every)):
            if value is not None:
                _validate.integer(name, value)
        self.members = members_of(asked.groups, self.rows, self.unit, self.run)
        self.randomness = as_randomness(asked.random_state)

    def agree(self) -> None:
        """Let the ranks tell each other their public facts, and compare what must be the same."""
        asked, group, rule = self.asked, self.group, self.clipping
        rules = [getattr(self.unit, name, None) for name in ("full", "max_rows", "missing")]
        shared = {} if self.weights is None else {"persons": rules}
        group.agree(
            {
                "plan": asked.plan.to_json(),
                "clipping": (type(rule).__name__, vars(rule)),
                "kind of random_state": self.randomness.seeded,
                "band": asked.band,
                "trainable parameters": [(p.shape, p.dtype) for p in self.gradients.parameters],
                "presence of record_ids": asked.record_ids is not None,
                "presence and weights of persons": shared,
            }
        )
        check_ranks(asked.persons, group)
        self.sizes = sizes = group.gathered(lambda: int(asked.size))
        if not self.run.sampler.independent:
            # A mismatch between plan and data must show before anything is charged.
            self.run.sampler.check(sum(sizes))
        public = public_size(Unit(sum(sizes)).size(self.adjacency, asked.population))
        _validate.delta_for(self.delta, public)
        counts = None
        if self.members is not None:
            own = list(map(len, self.members))
            counts = np.sum(group.gathered(lambda: own), axis=0).tolist()
        self.normaliser = self.run.normaliser(public, counts)
        group.agree({"divisor": self.normaliser})
        # proof: RESUME
        self.facts: dict[str, Any] = {
            "neighbouring relation": self.adjacency.value,
            "numbers of records": sizes if self.adjacency.size_is_public else None,
            "divisor": self.normaliser,
            "groups": group.gathered(lambda: _digest(asked.groups)),
            **shared,
            "record_ids": group.gathered(lambda: _digest(asked.record_ids)),
            "copies": self.copies,
            # without the clip norm, which a checkpoint restores
            "clipping": [type(rule).__name__, *([k, v] for k, v in sorted(vars(rule).items())
                         if k != "clip_norm" and not k.startswith("_")
                         and isinstance(v, bool | int | float | str))],
        }  # fmt: skip
        self.prepared = NetworkSteps().prepare(self._described(public))

    def _described(self, size: int) -> PublicNetwork:
        """Return what everybody may know of the run."""
        asked, epsilon = self.asked, self.asked.epsilon
        if epsilon is None:
            epsilon = accounting.epsilon(asked.plan, delta=self.delta, adjacency=self.adjacency)
            if not math.isfinite(epsilon):
                raise Unproven(
                    f"no theorem bounds this plan at delta={self.delta:g}; take a larger delta."
                )
            epsilon = max(epsilon, 1e-12)
        return PublicNetwork(
            epsilon=epsilon, delta=self.delta, adjacency=self.adjacency, size=size,
            parameters=self.gradients.dimension, plan=asked.plan,
            clip_norm=self.clipping.clip_norm, fixed=self.clipping.fixed, band=asked.band,
            unit=self.unit.word, max_rows=self.unit.max_rows,
        )  # fmt: skip

    def read(self) -> None:
        """Read the checkpoint, if there is one, and make sure that all of it can be used."""
        self.file, self.state = path, state = self.group.told(self._found)
        if path is not None and state is not None:
            self.group.together(lambda: self.trained.check(path, state))

    def _found(self) -> tuple[Path | None, dict[str, Any] | None]:
        """Return the first rank's file and what it holds of this run: None if it does not exist."""
        path, ledger = self.file, self.asked.ledger
        if path is None:
            return None, None
        files.prepare(path, self.contents(charge=0))
        if not path.exists():
            return path, None
        state = files.read(path)
        files.same_run(path, state, self.facts, seeded=self.randomness.seeded)
        charges, number = ledger.charges, state["charge"]
        booked = charges[number - 1].plan if 1 <= number <= len(charges) else None
        if booked != self.asked.plan.under(ledger.adjacency).to_json():
            raise InvalidParameter(
                f"{path} belongs to another plan; use another file for this run."
            )
        return path, state

    def claim(self) -> None:
        """Charge the ledger, or claim the permit of the interrupted run, on the first rank."""
        self.drawn = self.group.told(self._claimed)

    def _claimed(self) -> int:
        asked, public, state = self.asked, self.prepared.public, self.state

        def known(drawn: Drawn) -> None:
            if state is not None and drawn.counts[0] < state["steps"]:
                raise InvalidParameter(
                    f"{self.file} has made more steps than the ledger knows of: it belongs to "
                    "another ledger, or this one is an old copy."
                )

        if state is not None:
            self.permit = asked.ledger.resume(state["charge"], known)
        else:
            ledger = asked.ledger or Ledger(
                public.epsilon, public.delta, adjacency=public.adjacency
            )
            self.permit = pay(
                self.prepared, ledger=ledger, randomness=self.randomness, label=asked.label,
                model=type(asked.module).__name__, resumable=self.file is not None,
            ).permit  # fmt: skip
            if self.file is not None:  # at once, lest a kill lose it
                files.write(self.file, self.contents(charge=self.permit.number))
        assert self.permit is not None
        return self.permit.drawn(self.run.first)

    def restore(self) -> None:
        """Give every rank the same weights: those of the checkpoint, or those of the first rank."""
        path, state = self.file, self.state
        changes = state is not None or self.group.ranks > 1
        before = copy.deepcopy(self.trained.state()) if changes else None
        try:
            self.group.align(self.asked.module)
            if state is not None:
                self.group.together(lambda: self.trained.take_up(path, state))
        except BaseException:
            if before is not None:
                self.trained.take_up(path, before)
            raise
        self.asked.optimizer.zero_grad(set_to_none=True)  # frozen ones may hold an old gradient

    def draw(self) -> None:
        """Make the source of this rank, the batches that come from it, and the way to the door."""
        source = self.randomness
        if source.seeded and (self.group.ranks > 1 or self.drawn):
            # never one whose numbers an interrupted run, or another rank, may have used
            source = Randomness.in_worker((*source.to_worker(), self.drawn, self.group.rank))
        if self.permit is not None:
            self.passage = Passage(self.permit, source, self.run.first)
        self.gradients.chance = Chance(source.spawn(1)[0])
        rows_of = in_random_order(self.unit, self.run.sampler, source).rows_of
        self.to_come = map(rows_of, to_come(self, source))

    # --- afterwards ----------------------------------------------------------------------------

    def contents(self, *, charge: int | None, steps: int = 0) -> dict[str, Any]:
        """Return what a checkpoint holds now."""
        facts = {"charge": charge, "steps": steps, "seeded": self.randomness.seeded}
        return self.trained.state() | facts | {"facts": self.facts}

    def public(self) -> tuple[str, ...]:
        """Return what the guarantee treats as public."""
        further = (
            (not self.adjacency.size_is_public, f"that there is at least one {self.unit.word}"),
            (len(self.run.samplers) > 1, "everybody's level, which a changed record keeps"),
            (self.asked.record_ids is not None, "the record_ids"),
        )
        return (
            f"the number {self.normaliser:g} by which every noisy sum of gradients is divided",
            "the architecture, its starting weights, the optimizer and all settings",
            *(words for holds, words in further if holds),
        )

    def notes(self, *, given: bool) -> tuple[str, ...]:
        """Return what a reader must know; `given` if rows were taken on somebody's word."""
        permit, band = self.permit, self.asked.band
        own = [] if permit is None or len(self.run.samplers) == 1 else [
            accounting.epsilon(part, delta=permit.delta, adjacency=self.adjacency)
            for part in permit.plan.alternatives()
        ]  # fmt: skip
        each = ", ".join(rounded_up(epsilon, digits=4) for epsilon in own)
        further = (
            (self.weights is not None, f"A person with more than {MOST_ROWS:,} rows adds nothing."),
            (given, "The rows of each batch are taken as given: that they belong to the "
             f"{self.unit.word}s whose numbers were drawn is the word of whoever handed them in."),
            (band is not None, f"Noise is correlated over {band} steps."),
            (own, f"Epsilon of each group, in order: {each}."),
        )  # fmt: skip
        return (
            "Gradients are computed in the precision of the module; the norms by which they are "
            "clipped are upper bounds, rounding included; the rounding of their sum is not.",
            REFUSALS["canary"].words,
            *self.unit.notes,
            *(words for holds, words in further if holds),
        )


STAGES: tuple[Stage, ...] = (
    Start.refuse, Start.check, Start.agree, Start.read, Start.claim, Start.restore, Start.draw,
)  # fmt: skip


def begin(asked: Any, until: Stage | None = None) -> Start:
    """Go through the stages, in their order, or those before one of them."""
    start = Start(asked)
    for stage in STAGES:
        if stage is until:
            break
        stage(start)
    return start


# --- what the stages ask of their parts --------------------------------------------------------


def public_size(population: int | None) -> int:
    """Return the number that stands for that of records, which is private under add-remove."""
    if population is None:
        raise InvalidParameter(
            "under add-remove the number of records is private; pass population=..., a public "
            "number to stand for it."
        )
    return _validate.integer("population", population)


def check_ids(ids: Any, size: int) -> None:
    """Raise unless `ids` is None or names every one of `size` records differently."""
    if ids is None:
        return
    names = np.asarray(ids)
    if names.shape != (size,) or names.dtype.kind not in "iuU":
        raise InvalidData("record_ids must hold one whole number or text for each record.")
    if len(np.unique(names)) < size:
        raise InvalidData("record_ids must name every record differently.")


def _digest(public: Any) -> str | None:
    """Return a digest of public names or numbers of the records; never of anything sensitive."""
    if public is None:
        return None
    parts = "".join(f"{len(text)}:{text}" for text in map(str, np.asarray(public).tolist()))
    return hashlib.sha256(parts.encode()).hexdigest()
