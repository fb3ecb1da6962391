"""A column some of whose facts nobody has written down: they are to be learnt privately."""

from dataclasses import dataclass
from typing import ClassVar, Never

from noisette._typing import Floats
from noisette.errors import InvalidParameter
from noisette.tables.kinds.base import Cells, Column


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

    def _refuse(self) -> Never:
        raise InvalidParameter(
            f"column {self.name!r} has facts that are still to be learnt, so it has no features "
            "yet; fill them in, or learn them first."
        )

    @property
    def features(self) -> tuple[str, ...]:
        """Refused: they follow from the facts that are to be learnt."""
        self._refuse()

    @property
    def most_square(self) -> float:
        """Refused: it follows from the facts that are to be learnt."""
        self._refuse()

    @property
    def nonzeros(self) -> int:
        """Refused: it follows from the facts that are to be learnt."""
        self._refuse()

    def fill(self, cells: Cells, out: Floats) -> None:
        """Refuse to write anything."""
        self._refuse()
