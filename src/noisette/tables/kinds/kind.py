"""What a schema may state of a column, and columns without features: ignored, or still open."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Never

from noisette._validate import refuse
from noisette.errors import InvalidParameter
from noisette.tables.kinds.base import Column
from noisette.tables.kinds.facts import canonical, is_open


@dataclass(frozen=True)
class Open(Column):
    """What is known of such a column; None is what is not.

    Its reading says whether numbers, days or levels are to be learnt. `missing` holds codes as
    canonical texts. It has no features yet, so nothing can be encoded with it.
    """

    low: float | None = None
    high: float | None = None

    open: ClassVar[bool] = True
    counted: ClassVar[bool] = False

    @property
    def buys(self) -> str:
        """Where its numbers lie, or its levels."""
        return "knots" if self.reading.word else "levels"

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """Its bounds, as far as they are known."""
        return self.low, self.high

    def describe(self) -> str:
        """Return that facts are missing."""
        return "facts still to be learnt"

    @property
    def features(self) -> Never:
        """Refused: they follow from the facts that are to be learnt."""
        raise InvalidParameter(
            f"column {self.name!r} has facts that are still to be learnt, so it has no features "
            "yet; fill them in, or learn them first."
        )

    most_square = nonzeros = features


@dataclass(frozen=True)
class Ignored(Column):
    """A column that is not used."""

    used: ClassVar[bool] = False
    counted: ClassVar[bool] = False
    states: ClassVar[tuple[str, ...]] = ()
    kind: ClassVar[str] = "ignored"
    nonzeros: ClassVar[int] = 0
    most_square: ClassVar[float] = 0.0

    def describe(self) -> str:
        """Return that it is not used."""
        return "not used"


@dataclass(frozen=True)
class Stated:
    """What a schema states of one column: its facts, and codes for missing cells.

    With `learn` facts may be left open, "?" or not written; those of a `learnt` one were released.
    """

    name: str
    facts: dict[str, Any]
    codes: tuple[str, ...] = ()
    slot: bool = False
    learn: bool = False
    learnt: bool = False

    @property
    def where(self) -> str:
        """Its name, for sentences."""
        return f"column {self.name!r}"

    @property
    def texts(self) -> tuple[str, ...]:
        """The codes for missing cells, as texts."""
        return tuple(dict.fromkeys(map(canonical, self.codes)))


Merge = Callable[[Column, dict[str, Any], Mapping[str, Any]], tuple[dict[str, Any], dict[str, Any]]]


@dataclass(frozen=True)
class Kind:
    """A kind of column, as a schema names it.

    Parameters
    ----------
    name : its name in a schema.
    words, help : what it is and what it is for, as the studio says it.
    example : what a template says of it, facts and meaning.
    parse : makes a column of what is stated.
    keys : the facts that it takes besides kind, missing and missing_slot; None for any.
    asks : what the studio asks for: "low", "categories", "format".
    learns : the facts that may be bought.
    gone : the facts that go where no two cells differ, or where knots take their place.
    merge : returns stated and bought facts together, and what is left of them if no two cells
        differ (nothing if they do).
    of_type : returns the facts that a Parquet type tells, None if it is another kind.

    """

    name: str
    words: str
    help: str
    example: tuple[str, str]
    parse: Callable[[Stated], Column]
    keys: tuple[str, ...] | None = ()
    asks: tuple[str, ...] = ()
    learns: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    merge: Merge | None = None
    of_type: Callable[[Any], dict[str, Any] | None] | None = None

    def completed(
        self, column: Column, stated: Mapping[str, Any], new: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return stated facts with those that were bought; nothing stated is replaced."""
        where = f"column {column.name!r}"
        if self.merge is None:
            raise InvalidParameter(f"{where} has no facts to be learnt.")
        away = {*self.gone} - {"knots", "center"} if "knots" in new else set[str]()
        kept = {
            key: value
            for key, value in stated.items()
            if key not in away and not (key in self.learns and is_open(value))
        }
        for key in new:
            refuse(
                (key not in self.learns, f"{where} has no fact {key!r} to be learnt."),
                (key in kept and key != "center",
                 f"{where}: {key} is stated in the schema, so it stays."),
            )  # fmt: skip
        full, rest = self.merge(column, kept, new)
        if not rest:
            return full
        # No two cells differ, but one may be missing.
        one = {key: full[key] for key in full if key not in self.gone} | rest
        return one if full.get("missing_slot") else {"kind": "ignore"}


IGNORE = Kind(
    "ignore",
    "leave it out",
    "Names, identifiers, free text, and whatever must not matter.",
    ("", "not used (names, identifiers, free text)"),
    lambda stated: Ignored(stated.name),
    keys=None,
    of_type=lambda type_: {},
)
