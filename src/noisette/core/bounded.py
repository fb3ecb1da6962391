"""`Bounded`: a value together with the proof of how far one person can move it.

It is the first of the three verbs of a guarantee (bounded, counted, noised). Only files that own
the theorem for a bound may make one; `privacy.release` is the only reader of the value.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from noisette import _validate
from noisette.core.adjacency import Adjacency
from noisette.core.theorems import THEOREMS
from noisette.errors import InvalidData, InvalidParameter

_BOUNDS = ("l2", "l1", "linf", "categories", "contribution")


class InKernel(NamedTuple):
    """Stands for values of `dimension` entries that a compiled kernel forms step by step.

    `release` answers it with a stream of noise instead of a noisy array: the kernel adds the
    noise, the permit counts it.
    """

    dimension: int


@dataclass(frozen=True, eq=False)
class Bounded:
    """A sensitive value and the bound that a theorem gives it under one relation.

    Exactly one bound is stated:

    - ``l2``, ``l1``, ``linf``: the sensitivity, i.e. the largest norm of f(D) - f(D') over
      neighbours under `adjacency` (``linf`` of a matrix of scores, one choice per row: the sum over
      rows of the largest change in the row);
    - ``contribution``: the value is a sum to which each record adds a vector of Euclidean norm at
      most this; it implies ``l2 = adjacency.contributions * contribution`` and, unlike ``l2``
      alone, is enough for the theorems on random batches;
    - ``categories``: one entry per record, each a whole number in 0 .. categories - 1.

    `proof` is an id in docs/theory/theorems.md. `value` never appears in ``repr``.

    Parameters
    ----------
    value : array_like or InKernel
        The sensitive value; never shown by ``repr``.
    adjacency : Adjacency or str
        The neighbouring relation that the bound speaks of.
    proof : str
        The id of the bound's theorem in docs/theory/theorems.md.
    l2, l1, linf : float, optional
        The sensitivity in that norm.
    contribution : float, optional
        The largest Euclidean norm of what one record adds to the sum.
    categories : int, optional
        How many categories there are.

    Raises
    ------
    InvalidParameter
        If the proof is unknown, or not exactly one bound is stated.
    InvalidData
        If the value is empty, not numeric, not finite or outside its categories.

    Examples
    --------
    >>> import numpy as np
    >>> from noisette import Bounded
    >>> ages = np.array([31.0, 45.0, 62.0])
    >>> total = Bounded(np.clip(ages, 0, 100).sum(), "zero-out", "ADJACENCY", contribution=100.0)
    >>> total.norm, total.l2, total.dimension
    ('l2', 100.0, 1)

    """

    value: Any = field(repr=False)
    adjacency: Adjacency
    proof: str
    l2: float | None = None
    l1: float | None = None
    linf: float | None = None
    contribution: float | None = None
    categories: int | None = None
    norm: str = field(init=False, repr=False)
    """The kind of bound: ``l2``, ``l1``, ``linf`` or ``categories``."""
    dimension: int = field(init=False, repr=False)
    """The number of entries of the value."""

    def __post_init__(self) -> None:
        adjacency = Adjacency.of(self.adjacency)
        if not isinstance(self.proof, str) or self.proof not in THEOREMS:
            raise InvalidParameter("proof must be the id of a theorem in docs/theory/theorems.md.")
        stated = list[str]()
        for name in _BOUNDS:
            if getattr(self, name) is not None:
                stated.append(name)
        if len(stated) != 1:
            raise InvalidParameter(
                "a Bounded needs exactly one of l2, l1, linf, contribution or categories; "
                f"got {', '.join(stated) or 'none'}."
            )
        norm = stated[0]
        if norm == "categories":
            _validate.integer("categories", self.categories, least=2)
        else:
            object.__setattr__(self, norm, _validate.positive(norm, getattr(self, norm)))
        if self.contribution is not None:
            # proof: ADJACENCY
            object.__setattr__(self, "l2", adjacency.contributions * self.contribution)
            norm = "l2"
        vars(self).update(adjacency=adjacency, norm=norm)
        if isinstance(self.value, InKernel):
            vars(self).update(dimension=_validate.integer("dimension", self.value.dimension))
            return
        try:
            array = np.asarray(self.value)
            # Single precision stays: a copy of a network's gradient is worth avoiding.
            real = np.float32 if array.dtype == np.float32 else np.float64
            kind = np.int64 if self.categories is not None else real
            array = array.astype(kind, casting="same_kind", copy=False)
        except (TypeError, ValueError):
            raise InvalidData("the value of a Bounded must be a numeric array.") from None
        if array.size == 0:
            raise InvalidData("the value of a Bounded is empty; there is nothing to release.")
        if self.categories is not None:
            if array.min() < 0 or array.max() >= self.categories:
                raise InvalidData("the value of a Bounded has entries outside its categories.")
        elif not np.isfinite(array).all():
            raise InvalidData("the value of a Bounded must be finite.")
        vars(self).update(value=array, dimension=array.size)
