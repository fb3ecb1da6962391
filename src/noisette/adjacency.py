"""Neighbouring relations: whose data may change, and by how much a sum can move when it does.

Let every record contribute a vector of norm at most C to a sum.

===========  ======================================  ==============  ==================
relation     neighbours                              the sum moves   n, the row count
===========  ======================================  ==============  ==================
replace-one  same n, one record changed              at most 2 C     public
zero-out     one record replaced by a null record    at most C       public
add-remove   one record inserted or deleted          at most C       private
===========  ======================================  ==============  ==================

An epsilon under one relation is not an epsilon under another; nothing here converts silently.
"""

from enum import Enum

from noisette.errors import AdjacencyMismatch, InvalidParameter

__all__ = ["ADD_REMOVE", "REPLACE_ONE", "ZERO_OUT", "Adjacency", "require_same"]


class Adjacency(Enum):
    """One of the three neighbouring relations."""

    REPLACE_ONE = "replace-one"
    ZERO_OUT = "zero-out"
    ADD_REMOVE = "add-remove"

    @classmethod
    def of(cls, value: "str | Adjacency") -> "Adjacency":
        """Return the relation of that name (an `Adjacency` passes through)."""
        if isinstance(value, cls):
            return value
        for relation in cls:
            if value == relation.value:
                return relation
        listed = ", ".join(repr(relation.value) for relation in cls)
        raise InvalidParameter(f"adjacency must be one of {listed}; got {value!r}.")

    @property
    def contributions(self) -> int:
        """How many contribution bounds C a sum can move by between neighbours: 2, 1 or 1."""
        # proof: ADJACENCY
        return 2 if self is Adjacency.REPLACE_ONE else 1

    @property
    def size_is_public(self) -> bool:
        """Whether both neighbours have the same number of rows, so that n reveals nothing."""
        return self is not Adjacency.ADD_REMOVE

    def __str__(self) -> str:
        return self.value

    def __repr__(self) -> str:
        return f"Adjacency({self.value!r})"


REPLACE_ONE = Adjacency.REPLACE_ONE
ZERO_OUT = Adjacency.ZERO_OUT
ADD_REMOVE = Adjacency.ADD_REMOVE


def require_same(first: Adjacency, first_is: str, second: Adjacency, second_is: str) -> None:
    """Raise `AdjacencyMismatch` by name unless both relations are the same."""
    if first is not second:
        raise AdjacencyMismatch(
            f"{first_is} is for {first} neighbours but {second_is} is for {second} neighbours; "
            "make both for the same relation."
        )
