"""`Sample`: the sensitive half of a step. It is checked before the charge and never shown."""

from functools import partial
from typing import Any

import numpy as np

from noisette._typing import Floats
from noisette.core.parts import all_of, each
from noisette.errors import InvalidData, InvalidParameter
from noisette.fitting.algorithms.public import PublicBudget
from noisette.fitting.algorithms.records import check_unit, inside
from noisette.fitting.units import Unit

_MOST = 2**30  # ranks and counts of so many rows are exact, weights of 2^-20 included


class Sample:
    """What a step looks at, and how much every row counts.

    Parameters
    ----------
    data : what the step says it takes: a list of columns, or a matrix of rows.
    weights : one number in [0, 1] for each row; None is 1 for each. They are a function of their
        own person's rows, and those of one person add up to at most 1. A record of weight 0 takes
        part in nothing: it is the blanked record of zero-out.
    labels : class numbers 0, 1, ... of the rows, for steps that need them.
    count : the number of rows.
    unit : whose rows they are.

    """

    def __init__(
        self, data: Any, weights: Any = None, labels: Any = None, *, count: int | None = None
    ) -> None:
        self.data = data
        self.weights: Floats | None = None
        if weights is not None:
            self.weights = each(partial(np.asarray, dtype=float), weights)
        self.labels = None if labels is None else each(np.asarray, labels)
        self.count = int(data.shape[0]) if count is None else int(count)
        self.unit = Unit(self.count)

    def group(self, unit: Unit) -> "Sample":
        """Return itself with the rows grouped by unit, whose weights are shared from now on."""
        self.weights, self.unit = unit.share(self.weights), unit
        return self

    def check(self, public: PublicBudget) -> None:
        """Refuse what would break a bound, before anything is charged."""
        most = _MOST
        if public.most is not None and not public.grouped:
            most = min(public.most, _MOST)
        if self.count > most:
            raise InvalidParameter(f"the data have more rows than the declared bound {most}.")
        check_unit(self, public)
        weights = self.weights
        if weights is not None and not (
            weights.shape == (self.count,) and all_of(partial(inside, 1.0), weights)
        ):
            raise InvalidData("weights must be one number between 0 and 1 for each row.")
        if self.labels is not None and self.labels.shape != (self.count,):
            raise InvalidData("labels must have one entry for each row.")
