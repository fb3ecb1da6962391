"""Neighbouring relations: whose data may change, and by how much a sum can move when it does.

Let every record contribute a vector of norm at most C to a sum.

===========  ======================================  ==============  ==================
relation     neighbours                              the sum moves   n, the row count
===========  ======================================  ==============  ==================
replace-one  same n, one record changed              at most 2 C     public
zero-out     one record replaced by a null record    at most C       public
add-remove   one record inserted or deleted          at most C       private
===========  ======================================  ==============  ==================

The records of these relations are the units of protection (`UNITS`): rows, or persons with all
their rows. For persons "one record changed" reads "all rows of one person replaced by any rows";
then n is the number of persons, and the number of rows is private under every relation.

An epsilon under one relation is not an epsilon under another; nothing here converts silently.
"""

from enum import Enum
from typing import NamedTuple

from noisette import _validate
from noisette.errors import AdjacencyMismatch

__all__ = ["ADD_REMOVE", "REPLACE_ONE", "ZERO_OUT", "Adjacency"]


class Protected(NamedTuple):
    """What there is to say of all units of one word, whoever asks."""

    grouped: bool
    """Whether several rows may be of one unit; they share one weight then."""
    theirs: str
    counted: str
    """What is counted in a table."""
    alone: str
    any_one: str
    others: str
    this: str
    proofs: tuple[str, ...] = ()


UNITS = {
    "record": Protected(
        False, "that person's record", "rows", "a single row", "any one record",
        "every record but one", "that record",
    ),
    "person": Protected(
        True, "all rows of that person", "persons", "rows of a single person",
        "all rows of any one person", "all rows of everybody but one person", "that person",
        ("PERSON-WEIGHTS",),
    ),
}  # fmt: skip
"""Whose data are protected together: one row, or all rows of one person."""


class Adjacency(Enum):
    """One of the three neighbouring relations.

    The table in the module's docstring says what each means.

    Examples
    --------
    >>> from noisette.adjacency import Adjacency
    >>> [(str(each), each.contributions, each.size_is_public) for each in Adjacency]
    [('replace-one', 2, True), ('zero-out', 1, True), ('add-remove', 1, False)]

    """

    REPLACE_ONE = "replace-one"
    ZERO_OUT = "zero-out"
    ADD_REMOVE = "add-remove"

    def __init__(self, name: str) -> None:
        self.contributions = 2 if name == "replace-one" else 1  # proof: ADJACENCY
        """How many contribution bounds C a sum can move by between neighbours: 2, 1 or 1."""
        self.size_is_public = name != "add-remove"
        """Whether both neighbours have the same number of rows, so that n reveals nothing."""

    @classmethod
    def of(cls, value: "str | Adjacency") -> "Adjacency":
        """Return the relation of that name (an `Adjacency` passes through).

        Parameters
        ----------
        value : Adjacency or str
            A relation, or its name.

        Returns
        -------
        Adjacency
            The relation.

        Raises
        ------
        InvalidParameter
            If there is no relation of that name.

        Examples
        --------
        >>> from noisette.adjacency import Adjacency
        >>> Adjacency.of("zero-out") is Adjacency.ZERO_OUT
        True

        """
        if isinstance(value, cls):
            return value
        return cls(_validate.choice("adjacency", value, cls._value2member_map_))

    def __str__(self) -> str:
        return str(self.value)

    def __repr__(self) -> str:
        return f"Adjacency({self.value!r})"


REPLACE_ONE = Adjacency.REPLACE_ONE
"""One record is changed; the number of records is public."""
ZERO_OUT = Adjacency.ZERO_OUT
"""One record is blanked out; the number of records is public."""
ADD_REMOVE = Adjacency.ADD_REMOVE
"""One record is inserted or deleted; the number of records is private."""


def require_same(first: Adjacency, first_is: str, second: Adjacency, second_is: str) -> None:
    """Raise `AdjacencyMismatch` by name unless both relations are the same."""
    if first is not second:
        raise AdjacencyMismatch(
            f"{first_is} is for {first} neighbours but {second_is} is for {second} neighbours; "
            "make both for the same relation."
        )
