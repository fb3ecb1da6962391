"""What sums over residuals and targets say about a model of numbers.

Every row is divided between the two knots around its residual r, so that their mean is r. The mean
of |r| is then exact, since 0 is a knot. That of knot^2 exceeds r^2 by (r - k)(k' - r), where
k <= r <= k' are the knots: h^2 / 6 on average over an interval of width h, which is taken off, and
between 0 and h^2 / 4 in any case, which the interval counts.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from noisette._typing import Floats
from noisette.core.guarantee import Guarantee
from noisette.scores.score import Score, Told, ratio


@dataclass(frozen=True, eq=False)
class RegressionScores(Told):
    """Mean absolute error, root mean square error and R^2, of residuals cut to a public range.

    Parameters
    ----------
    knots : ndarray of shape (B,)
        Increasing residuals (target minus prediction), 0 among them.
    residuals : ndarray of shape (B,)
        Counts of rows at each, each row divided between two; noisy if bought.
    target_knots, targets : ndarray
        The same of the target, cut to its public bounds.
    deviation : float
        The standard deviation of the noise on each count.
    notes : tuple of str
        By which rules rows were counted.
    privacy_ : Guarantee, optional
        The guarantee that covers the counts; None where they are exact, which nothing covers.

    Examples
    --------
    >>> import numpy as np
    >>> from noisette.scores import RegressionScores
    >>> knots = np.array([-2.0, 0.0, 2.0])
    >>> found = RegressionScores(knots, np.array([1.0, 8.0, 1.0]), knots, np.array([5.0, 0, 5]))
    >>> round(found.mae.value, 3), found.quantile(0.5), len(found.lines())
    (0.4, 0.0, 4)
    >>> found.to_dict()["rmse"]["trusted"], found.verdict()
    (True, '')

    """

    knots: Floats
    residuals: Floats
    target_knots: Floats
    targets: Floats
    deviation: float = 0.0
    notes: tuple[str, ...] = ()
    privacy_: Guarantee | None = field(default=None, repr=False)

    @property
    def mae(self) -> Score:
        """Mean of |residual|."""
        found = ratio(np.abs(self.knots), self.residuals, self.deviation, 0.0, self._most)
        return replace(found, places=self._places)

    @property
    def rmse(self) -> Score:
        """Square root of the mean of residual^2; the interval counts the distance of knots."""
        squares = self._squares
        low, high = (math.sqrt(max(end, 0.0)) for end in (squares.low, squares.high))
        if not squares.value > 0.0:
            return Score(math.nan, math.inf, math.inf, low, high, False, self._places)
        value = math.sqrt(squares.value)
        error, noise = squares.error / (2 * value), squares.noise / (2 * value)
        return Score(value, error, noise, low, high, squares.trusted, self._places)

    @property
    def r2(self) -> Score:
        """1 - (mean square of residuals) / (variance of the target)."""
        knots, squares = self.target_knots, self._squares
        first, last = float(knots[0]), float(knots[-1])
        mean = ratio(knots, self.targets, self.deviation, first, last).value
        spread = _mean_square(knots, mean, self.targets, self.deviation, last - first)
        if not (math.isfinite(mean) and spread.low > 0.0 and math.isfinite(squares.value)):
            return Score(math.nan, math.inf, math.inf, -math.inf, 1.0, trusted=False)
        value = squares.value / spread.value
        # Residuals and targets belong to the same rows, so their errors are added, not squared.
        error = (squares.error + abs(value) * spread.error) / spread.value
        noise = (squares.noise + abs(value) * spread.noise) / spread.value
        low, high = 1.0 - squares.high / spread.low, 1.0 - squares.low / spread.high
        trusted = squares.trusted and spread.trusted and error < 0.5
        return Score(1.0 - value, error, noise, low, high, trusted)

    def quantile(self, share: float) -> float:
        """Return the residual below which about this share of the rows lies.

        Parameters
        ----------
        share : float
            In (0, 1).

        Returns
        -------
        float
            A residual; NaN where nothing can be told.

        """
        total = np.maximum.accumulate(np.append(0.0, np.cumsum(self.residuals)))
        if total[-1] <= 0.0:
            return math.nan
        # what is counted at a knot lies about as far as half-way to its neighbours
        middle = (self.knots[1:] + self.knots[:-1]) / 2.0
        ends = np.r_[self.knots[0], middle, self.knots[-1]]
        return float(np.interp(share * total[-1], total, ends))

    @property
    def _most(self) -> float:
        return float(np.abs(self.knots).max())

    @property
    def _places(self) -> int:
        """Decimals of errors, in the unit of the target: a thousandth of its range is shown."""
        return max(0, 3 - math.floor(math.log10(self._most)))

    @property
    def _squares(self) -> Score:
        return _mean_square(self.knots, 0.0, self.residuals, self.deviation, self._most)

    def to_dict(self) -> dict[str, Any]:
        """Return every score for JSON.

        Returns
        -------
        dict
            Scores with their error bars.

        """
        scores = {"mae": self.mae, "rmse": self.rmse, "r2": self.r2}
        return {name: score.to_dict() for name, score in scores.items()} | {"notes": self.notes}

    def lines(self) -> list[str]:
        """Return the scores as lines of text.

        Returns
        -------
        list of str
            For a terminal.

        """
        return [
            f"mean absolute error       {self.mae}",
            f"root mean square error    {self.rmse}",
            f"R^2                       {self.r2}",
            self.scope,
            *filter(None, [self.verdict()]),
        ]

    @property
    def scope(self) -> str:
        """One sentence about which targets the scores know."""
        low, high = float(self.target_knots[0]), float(self.target_knots[-1])
        return (
            f"All scores are about targets cut to [{low:g}, {high:g}]; what lies beyond is not in "
            "them, so R^2 against uncut targets may be far lower."
        )

    def verdict(self) -> str:
        """Return a plain sentence if the model is no better than one number for everybody, else ''.

        Returns
        -------
        str
            One sentence, or nothing.

        """
        r2 = self.r2
        if not r2.trusted:
            return "There are too few rows for this noise to tell whether the model beats the mean."
        if r2.low > 0.0:
            return ""
        sure = "The model is no better than"
        told = sure if r2.value <= 0.0 else "It is not certain that the model beats"
        return f"{told} the mean of the targets, given to everybody."


def _mean_square(
    knots: Floats, centre: float, counts: Floats, deviation: float, most: float
) -> Score:
    """Return the mean of (x - centre)^2 of rows that were divided between knots."""
    wide = np.diff(knots)
    left, right = np.append(wide[0], wide), np.append(wide, wide[-1])
    squares = (knots - centre) ** 2
    usual = (left**3 + right**3) / (left + right) / 6.0
    at_most = np.maximum(left, right) ** 2 / 4.0
    found, least, largest = (
        ratio(squares - taken_off, counts, deviation, 0.0, most**2)
        for taken_off in (usual, at_most, 0.0)
    )
    return replace(found, low=least.low, high=largest.high)
