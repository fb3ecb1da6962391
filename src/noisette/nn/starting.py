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

import math
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

from noisette import _validate
from noisette.core import accounting
from noisette.core.ledger import Ledger
from noisette.core.permit import Permit
from noisette.core.randomness import Randomness, as_randomness
from noisette.core.storage import Drawn
from noisette.errors import InvalidParameter, Unproven
from noisette.fitting.algorithms.correlation import Banded
from noisette.fitting.algorithms.network import NetworkSteps, PublicNetwork, Schedule
from noisette.fitting.algorithms.passage import Passage
from noisette.fitting.algorithms.steps import in_random_order
from noisette.fitting.algorithms.train import begin as pay
from noisette.nn import checkpoint as files
from noisette.nn import conditions, person_rows
from noisette.nn.asked import Asked, Start
from noisette.nn.averaging import Average
from noisette.nn.batches import RankBatches, members_of
from noisette.nn.clipping import as_clipping
from noisette.nn.gradients import ClippedGradients
from noisette.nn.gradients.chance import Chance
from noisette.nn.group import Group, present_group

Stage = Callable[[Start], Start]


def _by_itself(stage: Stage) -> Stage:
    """Let each rank do a stage by itself, and stop all of them if one fails."""

    @wraps(stage)
    def everywhere(start: Start) -> Start:
        return start.group.together(lambda: stage(start))

    return everywhere


@_by_itself
def refuse(start: Start) -> Start:
    """Refuse what has no proof, before any check that names the number of records."""
    asked = start.asked
    run, adjacency = Schedule.of(asked.plan), conditions.relation(asked.plan, asked.ledger)
    clipping = as_clipping(asked.clipping, asked.clip_norm)
    run.refuse_unproven(adjacency, asked.band, fixed=clipping.fixed)
    banded = None if asked.band is None else Banded(asked.band)
    if asked.checkpoint is not None and banded is not None:
        raise Unproven(
            "correlated noise cannot be resumed from a checkpoint, which holds no noise; use "
            "band=None or no checkpoint."
        )
    if run.first and (asked.checkpoint is not None or start.group.ranks > 1):
        raise Unproven(
            "balanced classes are for one process, and cannot be resumed from a checkpoint; give "
            "public weights, or none."
        )
    gradients = ClippedGradients(asked.module)
    conditions.check_optimizer(asked.optimizer, gradients.parameters)
    return replace(
        start, run=run, adjacency=adjacency, gradients=gradients, clipping=clipping, banded=banded,
        file=None if asked.checkpoint is None else Path(asked.checkpoint),
    )  # fmt: skip


@_by_itself
def check(start: Start) -> Start:
    """Check every setting by itself."""
    asked, run = start.asked, start.run
    size = _validate.integer("size", asked.size, least=int(start.adjacency.size_is_public))
    if not start.adjacency.size_is_public:
        if asked.population is None:
            raise InvalidParameter(
                "under add-remove the number of records is private; pass population=..., a public "
                "number to stand for it."
            )
        _validate.integer("population", asked.population)
    if start.file is not None and start.group.first and asked.ledger is None:
        raise InvalidParameter(
            "a checkpoint needs a ledger in a file, which remembers what was drawn; pass "
            "ledger=Ledger.open(path, ...)."
        )
    average = None
    if asked.averaging is not None:
        average = Average(asked.averaging, start.gradients.parameters, run.steps)
    conditions.check_ids(asked.record_ids, size)
    persons = person_rows.grouped(asked, size)
    return replace(
        start,
        persons=persons,
        weights=person_rows.row_weights(persons),
        delta=_validate.delta(asked.delta),
        copies=_validate.integer("copies", asked.copies),
        micro=conditions.optional("micro_batch", asked.micro_batch),
        save_every=conditions.optional("save_every", asked.save_every),
        average=average,
        members=members_of(person_rows.level_groups(asked, persons), size, run),
        randomness=as_randomness(asked.random_state),
    )


def agree(start: Start) -> Start:
    """Let the ranks tell each other their public facts, and compare what must be the same."""
    asked, group, rule = start.asked, start.group, start.clipping
    group.agree(
        {
            "plan": asked.plan.to_json(),
            "clipping": (type(rule).__name__, vars(rule)),
            "kind of random_state": start.randomness.seeded,
            "band": asked.band,
            "trainable parameters": [(p.shape, p.dtype) for p in start.gradients.parameters],
            "presence of record_ids": asked.record_ids is not None,
            "presence and weights of persons": person_rows.facts(start.persons),
        }
    )
    person_rows.check_ranks(start)
    sizes = group.gathered(lambda: int(asked.size))
    ordered = asked.record_ids is not None
    batches = RankBatches(start.run, sizes, start.members, group, in_order=ordered)
    public = sum(sizes) if start.adjacency.size_is_public else int(asked.population or 0)
    _validate.delta_for(start.delta, public)
    normaliser = batches.normaliser(public)
    group.agree({"divisor": normaliser})
    # proof: RESUME
    facts = {
        "neighbouring relation": start.adjacency.value,
        "numbers of records": sizes if start.adjacency.size_is_public else None,
        "divisor": normaliser,
        "groups": group.gathered(lambda: conditions.digest(asked.groups)),
        **person_rows.facts(start.persons),
        "record_ids": group.gathered(lambda: conditions.digest(asked.record_ids)),
        "copies": start.copies,
        "clipping": [type(rule).__name__, *conditions.settings(rule)],
    }
    prepared = NetworkSteps().prepare(_described(start, public))
    return replace(start, batches=batches, normaliser=normaliser, facts=facts, prepared=prepared)


def _described(start: Start, size: int) -> PublicNetwork:
    """Return what everybody may know of the run."""
    asked, epsilon = start.asked, start.asked.epsilon
    if epsilon is None:
        epsilon = accounting.epsilon(asked.plan, delta=start.delta, adjacency=start.adjacency)
        if not math.isfinite(epsilon):
            raise Unproven(
                f"no theorem bounds this plan at delta={start.delta:g}; take a larger delta."
            )
        epsilon = max(epsilon, 1e-12)
    return PublicNetwork(
        epsilon=epsilon, delta=start.delta, adjacency=start.adjacency, size=size,
        parameters=start.gradients.dimension, plan=asked.plan, clip_norm=start.clipping.clip_norm,
        fixed=start.clipping.fixed, band=asked.band,
        unit="record" if start.persons is None else "person",
        max_rows=None if start.persons is None else start.persons.max_rows,
    )  # fmt: skip


def read(start: Start) -> Start:
    """Read the checkpoint, if there is one, and make sure that all of it can be used."""
    asked = start.asked
    path, state = start.group.told(lambda: _found(start))
    if path is not None and state is not None:
        trained = asked.module, asked.optimizer, start.average, start.clipping
        start.group.together(lambda: files.check(path, state, *trained))
    return replace(start, file=path, state=state)


def claim(start: Start) -> Start:
    """Charge the ledger, or claim the permit of the interrupted run, on the first rank."""
    held: list[Permit] = []

    def on_first() -> int:
        held.append(_resumed(start) if start.state is not None else _charged(start))
        return held[0].drawn(start.run.first)

    drawn = start.group.told(on_first)
    return replace(start, permit=held[0] if held else None, drawn=drawn)


def restore(start: Start) -> Start:
    """Give every rank the same weights: those of the checkpoint, or those of the first rank."""
    asked, state, path = start.asked, start.state, start.file
    changes = state is not None or start.group.ranks > 1
    undo = changes and files.undoing(asked.module, asked.optimizer, start.clipping)
    try:
        start.group.align(asked.module)
        if state is not None and path is not None:
            trained = asked.module, asked.optimizer, start.clipping
            start.group.together(lambda: files.take_up(path, state, *trained))
    except BaseException:
        if undo:
            undo()
        raise
    asked.optimizer.zero_grad(set_to_none=True)  # frozen weights may hold an old gradient
    return start


def draw(start: Start) -> Start:
    """Make the source of this rank, the batches that come from it, and the way to the door."""
    source = _own_source(start.randomness, start.group, start.drawn)
    passage = None
    if start.permit is not None:
        passage = Passage(start.permit, source, start.run.first)
    start.gradients.chance = Chance(source.spawn(1)[0])
    to_come = start.batches.from_step(start.drawn, source)
    persons = in_random_order(start.persons, start.run.sampler, source)
    if persons is not None:
        to_come = map(persons.rows_of, to_come)
    return replace(start, passage=passage, to_come=to_come)


STAGES: tuple[Stage, ...] = (refuse, check, agree, read, claim, restore, draw)


def begin(asked: Asked) -> Start:
    """Go through the stages, in their order."""
    start = Start(asked, present_group())
    for stage in STAGES:
        start = stage(start)
    return start


# --- what the stages do ------------------------------------------------------------------------


def _contents(start: Start, *, charge: int | None) -> dict[str, Any]:
    asked = start.asked
    return files.contents(
        asked.module, asked.optimizer, start.average, start.clipping, charge=charge, steps=0,
        seeded=start.randomness.seeded, facts=start.facts,
    )  # fmt: skip


def _found(start: Start) -> tuple[Path | None, dict[str, Any] | None]:
    """Return the first rank's file and what it holds of this run: None if it does not exist."""
    path, ledger, plan = start.file, start.asked.ledger, start.asked.plan
    if path is None or ledger is None:
        return None, None
    files.prepare(path, _contents(start, charge=0))
    if not path.exists():
        return path, None
    state = files.read(path)
    files.same_run(path, state, start.facts, seeded=start.randomness.seeded)
    charges, number = ledger.charges, state["charge"]
    booked = charges[number - 1].plan if 1 <= number <= len(charges) else None
    if booked != plan.under(ledger.adjacency).to_json():
        raise InvalidParameter(f"{path} belongs to another plan; use another file for this run.")
    return path, state


def _charged(start: Start) -> Permit:
    """Charge a new run; its first checkpoint follows at once, so that a kill does not lose it."""
    asked, public = start.asked, start.prepared.public
    ledger = asked.ledger or Ledger(public.epsilon, public.delta, adjacency=public.adjacency)
    permit = pay(
        start.prepared, ledger=ledger, randomness=start.randomness,
        label=asked.label, model=type(asked.module).__name__, resumable=start.file is not None,
    ).permit  # fmt: skip
    if start.file is not None:
        files.write(start.file, _contents(start, charge=permit.number))
    return permit


def _resumed(start: Start) -> Permit:
    """Claim the permit of the interrupted run, unless the ledger knows less than the file."""
    state, ledger = start.state, start.asked.ledger
    assert state is not None
    assert ledger is not None

    def known(drawn: Drawn) -> None:
        if drawn.counts[0] < state["steps"]:
            raise InvalidParameter(
                f"{start.file} has made more steps than the ledger knows of: it belongs to another "
                "ledger, or this one is an old copy."
            )

    return ledger.resume(state["charge"], known)


def _own_source(randomness: Randomness, group: Group, drawn: int) -> Randomness:
    """Return this rank's source: never one whose numbers an interrupted run may have used."""
    if not randomness.seeded or (group.ranks == 1 and drawn == 0):
        return randomness
    return Randomness.in_worker((*randomness.to_worker(), drawn, group.rank))
