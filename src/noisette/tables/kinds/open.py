"""A column some of whose facts nobody has written down: they are to be learnt privately."""

from dataclasses import dataclass
from typing import Never

from noisette.errors import InvalidParameter
from noisette.tables.kinds.base import Cells


@dataclass(frozen=True)
class Open:
    """What is known of such a column; None is what is not.

    `kind` is "numeric", "date" (numbers are days since 1970) or "categorical". `missing` holds
    codes as canonical texts. It has no features yet, so nothing can be encoded with it.
    """

    name: str
    kind: str
    low: float | None = None
    high: float | None = None
    missing: tuple[str, ...] = ()
    missing_slot: bool = False
    forms: tuple[str, ...] = ()

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
    def mean_square(self) -> float:
        """Refused: it follows from the facts that are to be learnt."""
        self._refuse()

    @property
    def most_square(self) -> float:
        """Refused: it follows from the facts that are to be learnt."""
        self._refuse()

    @property
    def nonzeros(self) -> int:
        """Refused: it follows from the facts that are to be learnt."""
        self._refuse()

    def fill(self, cells: Cells, out: object) -> None:
        """Refuse to write anything."""
        self._refuse()
