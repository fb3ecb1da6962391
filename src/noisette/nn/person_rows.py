"""Persons with several rows: who they are, what their rows weigh, and what must be refused."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from noisette.core.cells import given
from noisette.errors import InvalidData, InvalidParameter, Unproven
from noisette.fitting.units import NO_COLUMN, Persons
from noisette.nn.asked import Asked, Start

MOST_ROWS = 2**16
"""Who brings more rows adds nothing: the allowance for underflow in NN-CLIP is for each row."""


def grouped(asked: Asked, size: int) -> Persons | None:
    """Return the grouping of the rows, None where every row is a record of its own."""
    if asked.persons is None:
        return None
    persons = Persons.of(asked.persons)
    if persons.count != size:
        raise InvalidData("size must be the number of different persons where persons are given.")
    if asked.record_ids is not None:
        # proof: RESUME
        raise Unproven(
            "record_ids are for records: every run puts persons into a secret order of its own, so "
            "that a started pass is not taken up in the middle; leave record_ids out."
        )
    if asked.groups is not None and asked.checkpoint is not None:
        # proof: RESUME
        raise Unproven(
            "personal levels of persons cannot be resumed: whether everybody kept their level "
            "could only be seen if identifiers were kept; leave out checkpoint or groups."
        )
    return persons


def level_groups(asked: Asked, persons: Persons | None) -> Any:
    """Return the group of every record, or of every person."""
    if persons is None or asked.groups is None:
        return asked.groups
    groups = np.asarray(asked.groups)
    if groups.shape != persons.index.shape:
        raise InvalidData("groups must hold one whole number for each row.")
    return persons.one_each("groups", groups)


def row_weights(persons: Persons | None) -> Tensor | None:
    """Return the weight of every row, a function of its person's rows alone."""
    if persons is None:
        return None
    # proof: NN-PERSONS
    few = persons.sizes <= MOST_ROWS
    return torch.from_numpy(np.where(few[persons.index], persons.weights, 0.0))


def facts(persons: Persons | None) -> dict[str, Any]:
    """Return the public facts about persons: how rows are weighed, nothing about who they are."""
    if persons is None:
        return {}
    return {"persons": [persons.full, persons.max_rows, persons.missing]}


def check_ranks(start: Start) -> None:
    """Raise on every rank if one person has rows on two of them: there it would count twice."""
    ids, group = start.asked.persons, start.group
    if ids is None or group.ranks == 1:
        return
    # proof: NN-PERSONS

    def known() -> set[Any]:
        if isinstance(ids, Persons):
            raise InvalidParameter(
                "with several ranks pass the identifiers themselves as persons, so that the ranks "
                "can see that nobody is on two of them."
            )
        return given(ids, NO_COLUMN).keys().compared()

    each = group.gathered(known)
    kinds = {isinstance(name, str) for names in each for name in names}
    if len(set().union(*each)) < sum(map(len, each)) or len(kinds) > 1:
        raise InvalidData(
            "a person has rows on two ranks, or the ranks write identifiers in different ways; "
            "put all rows of a person on one rank."
        )
