"""Whose row a row is: the column of identifiers, which groups rows and is nothing else.

person = "patient_nbr"
max_rows = 40             # a cap on the rows of one person, where levels are learnt
person_missing = "single" # rows without an identifier are persons of their own
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette import _validate
from noisette._validate import refuse
from noisette.core.cells import UNTOLD
from noisette.errors import InvalidData, InvalidParameter
from noisette.fitting.units import MISSING_IDENTIFIERS, Persons, PlannedPersons, Unit
from noisette.tables.kinds import Cells, canonical
from noisette.tables.kinds.facts import UNKNOWN

PERSON_KEYS = ("person", "max_rows", "person_missing")

_WHERE = "column {!r}, which identifies persons,"
_FLOAT = re.compile(r"-?\d(\.\d+)?e\+\d+|-?\d+\.0")  # as Python spells numbers with a point
_LARGEST = 2.0**53  # beyond, they do not tell whole numbers apart


@dataclass(frozen=True)
class PersonFacts:
    """The column that tells persons apart, the cap on their rows, and what a gap means.

    `codes` are texts that stand for a missing cell in every column.
    """

    column: str
    max_rows: int | None = None
    missing: str = "refuse"
    codes: tuple[str, ...] = ()

    @classmethod
    def of(cls, node: dict[str, Any], target: str, codes: Sequence[str]) -> "PersonFacts | None":
        """Return the facts that a schema states; refuse a column that is learnt from."""
        column = node.get("person")
        if column is None:
            for key in {*PERSON_KEYS} & {*node}:
                raise InvalidParameter(f'{key} needs person = "COLUMN", whose rows are meant.')
            return None
        refuse(
            (not isinstance(column, str) or column == UNKNOWN,
             "person must be the name of the column that identifies persons."),
            (column == target, f"the target {target!r} cannot tell persons apart."),
        )  # fmt: skip
        cap = node.get("max_rows")
        missing = node.get("person_missing", "refuse")
        _validate.choice("person_missing", missing, MISSING_IDENTIFIERS)
        cap = None if cap is None else _validate.integer("max_rows", cap)
        return cls(column, cap, missing, tuple(map(canonical, codes)))

    def group(self, texts: Sequence[str]) -> Persons:
        """Return whose rows they are."""
        return Persons.of(self.identifiers(texts), missing=self.missing, max_rows=self.max_rows)

    def texts_of(self, cells: Cells) -> Sequence[str]:
        """Return the identifiers in a column; numbers with a point must be whole and told apart.

        Else two persons would be one, or one person would be two where another part of the table
        has another type.
        """
        # proof: PERSON-WEIGHTS
        held = getattr(cells, "given", None)
        if held is not None:
            held.check(_WHERE.format(self.column), whole=True)
        return cells.texts()

    def identifiers(self, texts: Sequence[str]) -> NDArray[Any]:
        """Return the identifier of every row, None for none; compared as categories are."""
        # proof: PERSON-WEIGHTS
        odd = (t for t in texts if (t[-2:] == ".0" or "e+" in t) and _FLOAT.fullmatch(t))
        if any(abs(float(text)) >= _LARGEST for text in odd):
            raise InvalidData(UNTOLD.format(_WHERE.format(self.column)))
        absent = {"", *self.codes}
        ids = np.empty(len(texts), dtype=object)
        ids[:] = [None if text in absent else text for text in map(canonical, texts)]
        if self.missing == "refuse" and any(each is None for each in ids):
            raise InvalidData(
                f"{_WHERE.format(self.column)} has an empty cell; fill it in, "
                'take such rows out, or write person_missing = "single" into the schema, which '
                "makes each of them a person of its own."
            )
        return ids

    @property
    def words(self) -> str:
        """The unit of protection in words."""
        cap = "" if self.max_rows is None else f", of which at most {self.max_rows} are used"
        gap = "" if self.missing == "refuse" else "; a row without one is a person of its own"
        return f"one person, that is all rows with the same {self.column!r}{cap}{gap}"


def planned_unit(facts: PersonFacts | None, count: int) -> Unit:
    """Return so many units of the kind that a schema protects, for a plan."""
    return Unit(count) if facts is None else PlannedPersons(count, facts.max_rows)
