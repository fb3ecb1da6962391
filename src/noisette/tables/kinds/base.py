"""What all kinds of columns share: cells, how they are read, and what a column has to answer.

A `Kind` (`kind.py`) says what a schema may state of a column and makes a `Column` of it: the
encoder, which turns cells into features by a `Reading` and tells every surface what it shows.
"""

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from noisette._typing import Bools, Floats
from noisette.core.cells import given
from noisette.core.grid import Grid

Entries = tuple[NDArray[np.int32], Floats]
"""Feature and value of everything in a row that may differ from zero, each of shape (n, nonzeros).

The features of one row that have a value other than 0 are all different.
"""


class Cells(Protocol):
    """One column of a piece of a table."""

    def __len__(self) -> int:
        """Return the number of cells."""

    def numbers(self) -> Floats:
        """Return numbers, in an array of its own; NaN where the cell is missing."""

    def texts(self) -> Sequence[str]:
        """Return texts; "" where the cell is missing."""


# --- readings --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reading:
    """How a cell becomes a value, and a value a label. This one takes texts as they stand."""

    kind: ClassVar[str] = "categorical"
    """What a schema calls a column that is read so."""
    word: ClassVar[str] = ""
    """What a cell becomes, as it follows "a" in a sentence: "number"; nothing for a text."""
    plain: ClassVar[bool] = False
    """Whether cells are plain numbers, of which files are kept without their texts."""
    moments: ClassVar[bool] = False
    """Whether cells may be dates by their type."""
    written: ClassVar[Any] = ""
    """How cells are written, in words, where a schema says so."""
    told: ClassVar[Any] = {}
    """What a card says of values besides codes: `Column.card` lists it."""

    def numbers(self, cells: Cells, missing: Sequence[Any] = ()) -> Floats:
        """Return the value of every cell, in an array of its own; NaN where it is missing."""
        return cells.numbers()

    def card(self, missing: Sequence[Any]) -> dict[str, Any]:
        """Return what a scoring card says of it: the values of codes, and how cells are read."""
        values = self.numbers(given(missing, ""))
        return {"codes": list(dict.fromkeys(values[values == values].tolist())), **self.told}

    def label(self, value: float) -> str:
        """Return a value as people write it."""
        return f"{value:.6g}"

    def labels(self, values: Sequence[float]) -> tuple[str, ...]:
        """Return values as texts, rounded unless two of them would look the same."""
        short = tuple(map(self.label, values))
        if len(set(short)) == len(short):
            return short
        short = tuple(f"{value:.6g}" for value in values)
        return short if len(set(short)) == len(short) else tuple(map(repr, values))


@dataclass(frozen=True)
class Numbers(Reading):
    """Numbers as they are written; those of `missing` are codes."""

    kind, word, plain = "numeric", "number", True

    def numbers(self, cells: Cells, missing: Sequence[Any] = ()) -> Floats:
        """Return the number of every cell; NaN where it is missing, a code or none."""
        found = cells.numbers()
        for code in number_codes(missing):
            found[found == code] = np.nan
        return found


def number_codes(codes: Sequence[Any]) -> tuple[float, ...]:
    """Return the codes that are numbers; among numbers any other text is missing anyway."""
    found = dict[float, None]()
    for code in codes:
        with contextlib.suppress(ValueError):
            found[float(code)] = None
    return tuple(found)


TEXTS, NUMBERS = Reading(), Numbers()


# --- entries ---------------------------------------------------------------------------------


def coded_of(cells: Any) -> tuple[NDArray[Any], Sequence[str]]:
    """Return the number of a text for every cell, and the texts; not each need occur."""
    if hasattr(cells, "coded"):
        return cast(tuple[NDArray[Any], Sequence[str]], cells.coded())
    place: dict[str, int] = {}
    codes = [place.setdefault(text, len(place)) for text in cells.texts()]
    return np.array(codes, dtype=np.intp), list(place)


def for_texts(cells: Cells, value: Callable[[str], Any], dtype: Any) -> NDArray[Any]:
    """Return `value` of the text of every cell; each text is looked at once."""
    codes, texts = coded_of(cells)
    if len(texts) > len(codes):
        used, codes = np.unique(codes, return_inverse=True)
        texts = list(map(texts.__getitem__, used))
    return np.asarray(np.array(list(map(value, texts)), dtype=dtype)[codes])


def in_slots(count: int, value: float, slots: NDArray[Any]) -> Entries:
    """Return entries of one feature for each row; a slot outside of 0 .. count - 1 is none."""
    known = (slots >= 0) & (slots < count)
    features = np.where(known, slots, 0).astype(np.int32)
    return features[:, None], np.where(known, value, 0.0)[:, None]


def scatter(entries: Entries, out: Floats) -> None:
    """Write entries into `out` and zero everywhere else."""
    features, values = entries
    out[:] = 0.0
    if len(features) and features.strides[0] == 0:  # the same features in every row
        out[:, features[0]] = values
        return
    rows, places = np.nonzero(values)
    out[rows, features[rows, places]] = values[rows, places]


# --- columns ---------------------------------------------------------------------------------


class Points(NamedTuple):
    """The cells that stand for a column, and the features of each.

    `form` is "number", "date" or "levels". Behind the points stand, in `rows` alone, the features
    of a missing number.
    """

    form: str
    at: tuple[Any, ...]
    rows: Floats


@dataclass(frozen=True)
class Column:
    """One column: its features, and what it answers to those who count, draw, export and explain.

    What stands here holds for a column whose cells are texts, of which each fills one feature.
    """

    name: str
    _: KW_ONLY
    missing: tuple[Any, ...] = ()
    missing_slot: bool = False
    reading: Reading = TEXTS

    # Properties where they follow from a column's facts.
    used: ClassVar[bool] = True
    open: ClassVar[bool] = False
    """Whether facts are still to be learnt."""
    ordered: ClassVar[bool] = False
    """Whether neighbouring features are alike."""
    counted: ClassVar[bool] = True
    """Whether a training buys how rows spread over it, once its facts are known."""
    free: ClassVar[str] = ""
    """How its cells enter a model, where that is worth a word and costs nothing."""
    unpaired: ClassVar[str] = ""
    """Why it cannot be one of a pair of columns."""
    buys: ClassVar[Any] = ""
    """What a training buys before it counts: "knots", "levels" or nothing."""
    slots: ClassVar[Any] = ()
    """What each feature stands for."""
    weight = 1.0  # the value of a feature that is there
    nonzeros: ClassVar[Any] = 1
    """The most features of one cell that differ from zero."""
    place_rows: ClassVar[Any] = None
    """The features of each place, None where places are features."""
    whole: ClassVar[Any] = False
    """Whether what each cell adds to the places is in all 1."""
    filled: ClassVar[Any] = None
    """The features of a missing cell, where it has others beside its slot."""
    ends: ClassVar[Any] = (None, None)
    """The values below and above which a cell is out of bounds."""
    size: ClassVar[Any] = 0
    """How many knots or levels it has."""
    line: ClassVar[Any] = None
    """The least and the largest value of its one feature, where that is a straight line."""

    @property
    def kind(self) -> str:
        """What a schema calls it."""
        return self.reading.kind

    @property
    def grid(self) -> Grid:
        """The public candidates for its knots, within what is known of its bounds."""
        return Grid(self.ends[0], self.ends[1], dates=self.reading.moments)

    # --- features ---

    @property
    def features(self) -> tuple[str, ...]:
        """The names of its features."""
        return tuple(f"{self.name} {slot}" for slot in self.slots)

    @property
    def most_square(self) -> float:
        """The most that it adds to a squared row length, whatever the cell."""
        return self.weight**2

    @property
    def mean_square(self) -> float:
        """What it adds to a squared row length if values spread evenly: a guess, not data."""
        return self.most_square

    _place: ClassVar[Callable[..., int]]
    """Returns the feature of a cell, from its own text and public facts alone; -1 is none."""

    def entries(self, cells: Cells) -> Entries:
        """Return the entries of all cells that may differ from zero."""
        # `features` first: a column that is still open refuses there
        return in_slots(len(self.features), self.weight, for_texts(cells, self._place, np.int32))

    def fill(self, cells: Cells, out: Floats) -> None:
        """Write the features of all cells into `out`, shape (n, len(features))."""
        scatter(self.entries(cells), out)

    # --- counts ---

    @property
    def places(self) -> int:
        """Over how many places its cells are counted."""
        return max(len(self.features), 1)

    def spread(self, cells: Cells) -> Entries:
        """Return what every cell adds to the places: at least 0, and in all at most 1."""
        features, values = self.entries(cells)
        return features, values / self.weight

    @property
    def gone(self) -> int:
        """How many of the last places hold cells that could not be read."""
        return int(self.missing_slot)

    def typical(self, most: float = math.inf) -> Floats:
        """Return a guess how rows spread over the places, of which at most so many are filled."""
        return evenly_filled(self.places, max(self.places - self.missing_slot, 1), most)

    @property
    def states(self) -> tuple[str, ...]:
        """What may be odd about a cell, of which `noisette plan --counts` buys counts."""
        if not self.reading.word:
            return ("missing",)
        low, high = self.ends
        beyond = ["below"] * (low is not None) + ["above"] * (high is not None)
        return ("missing", "unreadable", *beyond)

    # --- what is shown ---

    @property
    def points(self) -> Points:
        """The cells that stand for it."""
        return Points("levels", self.slots, np.eye(len(self.features)) * self.weight)

    card: ClassVar[Callable[..., dict[str, Any]]]
    """Returns how a cell becomes pairs of a value and its weights, for a scoring card.

    Texts have "levels" and "other", or "slots". Values have "knots" and "weights", "views" and
    "weights", or a "cycle"; the pairs of a "missing" cell; and what `Reading.card` says: "codes",
    values that are missing; "range", beyond which they are; "texts", patterns each with what its
    groups are multiplied by before they are added up; "days" since 1970, with their "forms".
    """
    describe: ClassVar[Callable[..., str]]
    """Returns its public facts in words."""

    def unread(self, *, learnt: bool) -> str:
        """Say what could be done with nearly no cell."""
        word = self.reading.word
        return f"could be read as a {word}" if word else "was there: nearly all are missing"

    def forecast(self, groups: int, *, bought: bool) -> str:
        """Say what becomes of it, of whose features so many groups can be told apart."""
        features = len(self.features)
        if groups >= features:
            return "levels are stated"
        told = f"of {features} levels about {groups} can be told apart; the rest are merged"
        few = f"none of its {features} features has enough rows: group them"
        return few if groups <= 1 else told

    # --- of some kinds only ---

    unlisted: ClassVar[Callable[..., Bools]]
    """Returns whether each cell is there and no listed level, where "other" is among the states."""
    level_sums: ClassVar[Callable[..., Floats]]
    """Returns the sums of the places, given released counts of levels and how many rows."""
    coarse: ClassVar[Callable[..., tuple[int, ...]]]
    """Returns which of its features make a coarse view of it, of so many cells, for a pair."""
    merge: ClassVar[Callable[..., Floats]]
    """Returns the matrix (features, cells) that makes such a view of its features."""


def some(names: Sequence[str], most: int = 60) -> str:
    """Return names for people, not all of them if they are many."""
    more = f", ... ({len(names)} in all)" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def falling(levels: int) -> list[float]:
    """Return shares of levels of which each is rarer than the one before: 1, 1/2, 1/3, ..."""
    parts = 1.0 / np.arange(1.0, levels + 1.0)
    return list(map(float, parts / parts.sum()))


def evenly_filled(width: int, slots: int, most: float = math.inf) -> Floats:
    """Return shares of rows that fill the first `slots` places evenly, or `most` of them."""
    filled = int(min(slots, most))
    out = np.zeros(width)
    out[np.linspace(0.0, slots - 1.0, filled).round().astype(np.intp)] = 1.0 / filled
    return out
