"""What the guarantee of a training says beside its numbers."""

from noisette.core import accounting
from noisette.core.guarantee import rounded_up
from noisette.nn.asked import Start
from noisette.nn.person_rows import MOST_ROWS


def public(start: Start) -> tuple[str, ...]:
    """Return what is treated as public."""
    levels = ("everybody's level, which a changed record keeps",)
    records = "record" if start.persons is None else "person"
    return (
        f"the number {start.normaliser:g} by which every noisy sum of gradients is divided",
        "the architecture, its starting weights, the optimizer and all settings",
        *(() if start.adjacency.size_is_public else (f"that there is at least one {records}",)),
        *(levels if len(start.run.samplers) > 1 else ()),
        *(("the record_ids",) if start.asked.record_ids is not None else ()),
    )


def notes(start: Start, *, given: bool) -> tuple[str, ...]:
    """Return what a reader must know; `given` if rows were taken on somebody's word."""
    records = "records" if start.persons is None else "persons"
    found = [
        "Gradients are computed in the precision of the module; the norms by which they are "
        "clipped are upper bounds, rounding included; the rounding of their sum is not.",
        "Invented records were tried at secret steps; a run in which they are mixed is stopped, "
        "by them and the released weights alone.",
    ]
    if start.persons is not None:
        found.extend(start.persons.notes)
        found.append(f"A person with more than {MOST_ROWS:,} rows adds nothing.")
    if given:
        found.append(
            f"The rows of each batch are taken as given: that they belong to the {records} whose "
            "numbers were drawn is the word of whoever handed them in."
        )
    if start.banded is not None:
        found.append(f"Noise is correlated over {start.banded.band} steps.")
    if len(start.run.samplers) > 1 and start.permit is not None:
        own = [
            accounting.epsilon(part, delta=start.permit.delta, adjacency=start.adjacency)
            for part in start.permit.plan.alternatives()
        ]
        each = ", ".join(rounded_up(epsilon, digits=4) for epsilon in own)
        found.append(f"Epsilon of each group, in order: {each}.")
    return tuple(found)
