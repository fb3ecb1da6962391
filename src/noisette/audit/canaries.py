"""Canaries: pairs of neighbouring data sets on which a wrong bound shows.

Each function places one record that is as bad as the relation allows among rows that make it bad.
Rows are in units of the norm bound R. The record that changes is the last one; under replace-one it
is swapped, under zero-out it is blanked (see `Data.null`), under add-remove it is missing.

Where the claim is about persons (`Room.persons`), every row stands for a person and comes several
times: all rows of the last person change, and their number as well, since that is private.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette._typing import Floats
from noisette.core.adjacency import Adjacency
from noisette.core.randomness import Randomness

LONG = 100.0
"""How much longer than R the rows of the norm canary are."""
OWN, OTHER = 40, 25
"""How many rows the person has who changes, and how many in the other world."""


@dataclass(frozen=True)
class Data:
    """One data set as ``fit`` takes it; `options` are further arguments of ``fit``."""

    X: Floats
    y: NDArray[Any]
    options: dict[str, Any] = field(default_factory=dict)

    def bare(self) -> "Data":
        """Return the data without levels and weights: only whose rows they are stays."""
        kept = {name: value for name, value in self.options.items() if name == "persons"}
        return replace(self, options=kept)


@dataclass(frozen=True)
class Neighbours:
    """Two neighbouring data sets; `index` is the record that differs, in the first one.

    Of persons it is the last row of the one who differs, and `changed` has all of them.
    """

    name: str
    first: Data
    second: Data
    index: int

    @property
    def changed(self) -> NDArray[np.intp]:
        """The rows of the record or person that differs, in the first data set."""
        persons = self.first.options.get("persons")
        if persons is None:
            return np.array([self.index])
        return np.flatnonzero(np.asarray(persons) == persons[self.index])


@dataclass(frozen=True)
class Room:
    """Public facts that a canary must fit into.

    `rows` is the number of records (None: as many as the canary likes, at most `most`). `null` is
    how ``fit`` can be told that a record is blank: ``"sample_weight"`` 0, a ``"sample_epsilon"`` of
    almost 0, or a ``"zero-row"``, which is blank only without an intercept.
    """

    norm: float
    classes: tuple[Any, ...]
    adjacency: Adjacency
    features: int = 3
    rows: int | None = None
    most: int | None = None
    null: str = "zero-row"
    epsilon: float = 1.0
    persons: bool = False

    def count(self, wanted: int) -> int:
        """Return how many records to make."""
        if self.rows is not None:
            return self.rows
        return wanted if self.most is None else min(wanted, self.most)

    def label(self, k: int) -> Any:
        """Return the k-th class."""
        return self.classes[k % len(self.classes)]

    def presence(self, rows: int, blank: int) -> dict[str, Floats]:
        """Return the arguments of ``fit`` that say that the last `blank` rows are not there.

        None where a row of zeros says it.
        """
        full = {"sample_weight": 1.0, "sample_epsilon": self.epsilon}.get(self.null)
        if full is None:
            return {}
        given = np.full(rows, full)
        if blank:
            given[-blank:] = 0.0 if self.null == "sample_weight" else 1e-9 * full
        return {self.null: given}

    def table(self, X: Floats, y: NDArray[Any], last: int | None = None) -> Data:
        """Return rows and labels as a data set.

        Of persons everybody has one to three equal rows, and the last one has `last`. Equal rows
        of one person weigh as much as one, so that what a canary shows stays what it was.
        """
        if not self.persons:
            return Data(X, y)
        counts = 1 + np.arange(len(X)) % 3
        counts[-1] = last or counts[-1]
        who = np.repeat(np.arange(len(X)), counts)
        return Data(X[who], y[who], {"persons": who})


def plain_table(room: Room, rows: int = 60, seed: int = 1) -> Data:
    """Return an ordinary table: rows of norm 0.2 R to R, labels by a noisy half-space."""
    data = ordinary(room, rows, seed)
    return room.table(data.X, data.y)


def ordinary(room: Room, rows: int = 60, seed: int = 1) -> Data:
    """Return the rows of `plain_table`, one for each record or person."""
    n, d = room.count(rows), room.features
    generator = Randomness.from_seed(seed).generator
    X = generator.random((n, d)) - 0.5
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    X *= room.norm * (0.2 + 0.8 * generator.random((n, 1))) / np.maximum(norms, 1e-12)
    score = X[:, 0] / room.norm + 0.3 * (generator.random(n) - 0.5)
    numbers = (score > 0.0).astype(int)
    if len(room.classes) > 2:
        numbers = generator.integers(len(room.classes), size=n)
    return Data(X, _labels(room, numbers))


def _labels(room: Room, numbers: Any) -> NDArray[Any]:
    return np.asarray(np.asarray(room.classes)[np.asarray(numbers, dtype=int)])


def _axis(room: Room, *entries: float) -> Floats:
    """Return a row with these first entries, in units of R."""
    row = np.zeros(room.features)
    used = min(len(entries), room.features)
    row[:used] = entries[:used]
    return row * room.norm


Record = tuple[Floats, Any]


def _pair(
    name: str, room: Room, X: Floats, y: NDArray[Any], old: Record, new: Record
) -> Neighbours:
    """Put the canary last; `new` is what replaces it under replace-one."""
    X, y = X.copy(), y.copy()
    X[-1], y[-1] = old
    first = room.table(X, y, OWN)
    last = len(first.X) - 1
    if room.adjacency is Adjacency.ADD_REMOVE:
        return Neighbours(name, first, room.table(X[:-1], y[:-1]), last)
    X2, y2 = X.copy(), y.copy()
    if room.adjacency is Adjacency.REPLACE_ONE:
        X2[-1], y2[-1] = new
        return Neighbours(name, first, room.table(X2, y2, OTHER), last)
    X2[-1] = 0.0
    second = room.table(X2, y2, OTHER)
    for data, blank in ((first, 0), (second, OTHER if room.persons else 1)):
        data.options.update(room.presence(len(data.X), blank))
    return Neighbours(name, first, second, last)


def saturated_push(room: Room) -> Neighbours:
    """Many short rows of both labels push w far along -e1; the canary there has a slope near 1.

    Replaced by its mirror image with the other label, it moves every direction but e1 twice, the
    intercept included.
    """
    n = room.count(3000)
    X = np.tile(_axis(room, -0.3), (n, 1))
    y = _labels(room, np.full(n, 1))
    X[::2], y[::2] = _axis(room, 0.3), room.label(0)
    side = np.sqrt(1.0 - 0.4**2)
    old, new = _axis(room, 0.4, side), _axis(room, -0.4, side)
    if room.features == 1:
        old = new = _axis(room, 1.0)
    return _pair("saturated push", room, X, y, (old, room.label(1)), (new, room.label(0)))


def opposite(room: Room) -> Neighbours:
    """R e1 against -R e1 among ordinary rows."""
    data = ordinary(room)
    one, other = _axis(room, 1.0), _axis(room, -1.0)
    return _pair("opposite row", room, data.X, data.y, (one, room.label(1)), (other, room.label(1)))


def label_flip(room: Room) -> Neighbours:
    """The same row with another label."""
    data = ordinary(room)
    row = _axis(room, 1.0)
    return _pair("label flip", room, data.X, data.y, (row, room.label(1)), (row, room.label(0)))


def negative_margin(room: Room) -> Neighbours:
    """All rows agree on e1, the canary is on the wrong side, and its mirror image as well."""
    n = room.count(120)
    X = np.tile(_axis(room, 1.0), (n, 1))
    y = _labels(room, np.full(n, 1))
    X[::2], y[::2] = _axis(room, -1.0), room.label(0)
    old, new = _axis(room, 0.6, 0.8), _axis(room, -0.6, 0.8)
    return _pair("negative margin", room, X, y, (old, room.label(0)), (new, room.label(1)))


def vertex(room: Room) -> Neighbours:
    """Softmax: everybody is of class 0, the canary of the last one, then of the one before."""
    n = room.count(200)
    X = np.tile(_axis(room, 1.0), (n, 1))
    y = _labels(room, np.zeros(n))
    row, last = _axis(room, 1.0), len(room.classes) - 1
    return _pair("vertex class", room, X, y, (row, room.label(last)), (-row, room.label(last - 1)))


def orthogonal(room: Room) -> Neighbours:
    """The canary is alone in its direction: the largest leverage, and what whitening stretches."""
    data = ordinary(room)
    X = data.X * 0.2
    X[:, -1] = 0.0
    alone = np.zeros(room.features)
    alone[-1] = room.norm
    return _pair("orthogonal", room, X, data.y, (alone, room.label(1)), (-alone, room.label(1)))


def intercept_only(room: Room) -> Neighbours:
    """All rows are zero and all but one of one class: only the intercept can move.

    The one is there because many libraries refuse a table of a single class.
    """
    n = room.count(60)
    X, y = np.zeros((n, room.features)), _labels(room, np.full(n, 1))
    y[0] = room.label(0)
    zero = np.zeros(room.features)
    return _pair("intercept only", room, X, y, (zero, room.label(0)), (zero, room.label(1)))


def long_row(room: Room) -> Neighbours:
    """Rows far longer than the bound, which clipping must shorten."""
    data = ordinary(room)
    row = _axis(room, LONG)
    return _pair("long row", room, data.X, data.y, (row, room.label(1)), (-row, room.label(1)))


def duplicates(room: Room) -> Neighbours:
    """Everybody has the canary's record."""
    n = room.count(60)
    row = _axis(room, 0.7, 0.7)
    X, y = np.tile(row, (n, 1)), _labels(room, np.full(n, 1))
    return _pair("duplicates", room, X, y, (row, room.label(1)), (row, room.label(0)))


def one_class(room: Room) -> Neighbours:
    """Everybody but the canary has one label."""
    data = ordinary(room)
    y = _labels(room, np.full(len(data.y), 1))
    row = _axis(room, 0.0, 1.0)
    return _pair("one class", room, data.X, y, (row, room.label(0)), (row, room.label(1)))


def among_zeros(room: Room) -> Neighbours:
    """One row among zero rows of all classes: what is the same in both worlds is pure noise."""
    n = room.count(12)
    X, y = np.zeros((n, room.features)), _labels(room, np.arange(n) % len(room.classes))
    row, label = _axis(room, 1.0), room.label(1)
    return _pair("among zeros", room, X, y, (row, label), (np.zeros(room.features), label))


CANARIES: dict[str, Callable[[Room], Neighbours]] = {
    "saturated push": saturated_push,
    "opposite row": opposite,
    "label flip": label_flip,
    "negative margin": negative_margin,
    "vertex class": vertex,
    "orthogonal": orthogonal,
    "intercept only": intercept_only,
    "long row": long_row,
    "duplicates": duplicates,
    "one class": one_class,
}
