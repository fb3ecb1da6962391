"""`Score`: a number with its error bars, and `ratio`, from which nearly all of them come.

A score is a quotient of sums of counts. The counts carry noise of known standard deviation s, and
the rows behind them are a sample: a cell of N rows varies by about sqrt(N). To first order both add
up in D(t) = (sum of w N) - t (sum of N), whose variance at the true t is the sum of
(s^2 + N) (w - t)^2. The interval is every t with |D(t)| within 1.96 standard deviations (Fieller):
it stays right where the denominator is noisy too, and is everything where that may be zero. Counts
are never cut at 0, which would bias every score.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from noisette._typing import Floats

_Z = 1.959963984540054
_TRUSTED = 0.1  # most noise of a denominator, in units of itself


@dataclass(frozen=True)
class Score:
    """A score with its error bars.

    Parameters
    ----------
    value : float
        The estimate; with little data it may lie outside of what is possible, since cutting it off
        would bias means of it. NaN where nothing can be told.
    error : float
        Standard error, from noise and from the sample of rows.
    noise : float
        The part of it that is noise.
    low, high : float
        The 95 % interval.
    trusted : bool
        Whether the noise is small against the counts; if not, use the interval alone.
    places : int
        Decimals to show.

    Examples
    --------
    >>> from noisette.scores import Score
    >>> print(Score(0.91, 0.006, 0.004, 0.898, 0.922))
    0.910 ± 0.006 (95 %: 0.898 to 0.922)
    >>> Score(0.91, 0.006, 0.004, 0.898, 0.922).to_dict()["high"]
    0.922
    >>> Score(45052.2, 1596.3, 800.0, 41898.9, 48160.0, places=0).shown(45052.2)
    '45052'

    """

    value: float
    error: float
    noise: float
    low: float
    high: float
    trusted: bool = True
    places: int = 3

    def shown(self, number: float) -> str:
        """Return a number in the unit of the score, with as many decimals as make sense.

        Parameters
        ----------
        number : float
            The value, the error or an end of the interval.

        Returns
        -------
        str
            The number for people.

        """
        return f"{number:.{self.places}f}"

    @property
    def possible(self) -> float:
        """The value held within its interval: the noise may carry a share beyond 1."""
        return min(max(self.value, self.low), self.high)

    def __str__(self) -> str:
        value, error, low, high = map(self.shown, (self.possible, self.error, self.low, self.high))
        if not self.trusted:
            return f"cannot tell well: 95 % interval {low} to {high}"
        return f"{value} ± {error} (95 %: {low} to {high})"

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers for JSON, None for what cannot be told.

        Returns
        -------
        dict
            The fields by name.

        """
        known = {name: getattr(self, name) for name in ("value", "error", "noise", "low", "high")}
        plain = {name: x if math.isfinite(x) else None for name, x in known.items()}
        return {**plain, "trusted": self.trusted}


@dataclass(frozen=True)
class Quotient:
    """A numerator and a denominator, and the variance of (top - t bottom), quadratic in t.

    `noise` and `sample` are (aa, ab, bb) of aa - 2 t ab + t^2 bb.
    """

    top: float
    bottom: float
    noise: tuple[float, float, float]
    sample: tuple[float, float, float]


def _variance(parts: tuple[float, float, float], t: float) -> float:
    aa, ab, bb = parts
    return max(aa - 2.0 * t * ab + t * t * bb, 0.0)


def quotient(of: Quotient, low: float = 0.0, high: float = 1.0) -> Score:
    """Return the score of a quotient that lies in [low, high]."""
    a, b = of.top, of.bottom
    if b <= 0.0:
        return Score(math.nan, math.inf, math.inf, low, high, trusted=False)
    value = a / b
    noise, sample = _variance(of.noise, value), _variance(of.sample, value)
    parts = of.noise
    if sample > 0.0:  # an estimate, which noise may carry below 0
        parts = tuple(x + y for x, y in zip(of.noise, of.sample, strict=True))  # type: ignore[assignment]
    aa, ab, bb = parts
    lead, middle = b * b - _Z * _Z * bb, a * b - _Z * _Z * ab
    ends = (low, high)
    if lead > 0.0:
        root = math.sqrt(max(middle * middle - lead * (a * a - _Z * _Z * aa), 0.0))
        found = (middle - root) / lead, (middle + root) / lead
        ends = min(max(found[0], low), high), max(min(found[1], high), low)
    blur = math.sqrt(max(of.noise[2], 0.0))
    trusted = blur == 0.0 or (lead > 0.0 and blur <= _TRUSTED * b)
    return Score(value, math.sqrt(noise + sample) / b, math.sqrt(noise) / b, *ends, trusted)


def ratio(
    weights: Floats, counts: Floats, deviation: float, low: float = 0.0, high: float = 1.0
) -> Score:
    """Return the mean of `weights` over counted rows; counts have noise of that deviation."""
    w, n = np.asarray(weights, dtype=float), np.asarray(counts, dtype=float)
    s = deviation * deviation
    noise = (s * float(w @ w), s * float(w.sum()), s * float(w.size))
    sample = (float(w * w @ n), float(w @ n), float(n.sum()))
    return quotient(Quotient(float(w @ n), float(n.sum()), noise, sample), low, high)
