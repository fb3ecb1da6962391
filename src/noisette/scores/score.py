"""`Score`: a number with its error bars, and `ratio`, from which nearly all of them come.

A score is a quotient of sums of counts. The counts carry noise of known standard deviation s, and
the rows behind them are a sample: a cell of N rows varies by about sqrt(N). To first order both add
up in D(t) = (sum of w N) - t (sum of N), whose variance at the true t is the sum of
(s^2 + N) (w - t)^2. The interval is every t with |D(t)| within 1.96 standard deviations (Fieller):
it stays right where the denominator is noisy too, and is everything where that may be zero. Counts
are never cut at 0, which would bias every score.

The area under the ROC curve (`auc`) is counted by mid-ranks.
With P and N the counts of the two classes in score order and K = 1 below the diagonal, 1/2 on it,
AUC = P'KN / (sum P)(sum N). D(t) = P'(K - t)N is bilinear in independent counts, so its variance is
the sum of v h^2 + u k^2 + v u (K - t)^2, where v and u are the variances of P and N, h = (K - t)N
and k = (K - t)'P. Put in noisy counts, the first two terms hold the third twice; so it is taken off
once, and the estimate is unbiased.

Half of the pairs inside of one bin count as right. If scores are spread smoothly there, the slopes
a and b of the two densities, in units of their height and of the width of the bin, make it 1/2 +
(a - b) / 12. The neighbouring bins tell the slopes, and the interval covers both cases.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
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


def _below(x: Floats) -> Floats:
    """Return the sum of all smaller entries and half of the own, K x."""
    return np.asarray(np.cumsum(x) - x / 2.0)


def _pair_variance(P: Floats, N: Floats, v: Floats, u: Floats) -> tuple[float, float, float]:
    """Return (aa, ab, bb) of the variance of D."""
    h, k = _below(N), P.sum() - _below(P)  # K N and K' P
    p, n, vs, us = P.sum(), N.sum(), v.sum(), u.sum()
    aa = v @ h**2 + u @ k**2 - (v @ _below(u) - v @ u / 4.0)
    ab = n * (v @ h) + p * (u @ k) - v @ _below(u)
    bb = n * n * vs + p * p * us - vs * us
    return float(aa), float(ab), float(bb)


def spread(variances: Floats) -> float:
    """Return the standard deviation of a sum of counts; of nothing it is a tiny number."""
    return math.sqrt(max(float(variances.sum()), 1e-12))


def _inside(P: Floats, N: Floats, edges: Floats) -> float:
    """Return how many more pairs inside of bins are right than half, if scores are smooth there."""
    wide, middle = np.diff(edges), (edges[1:] + edges[:-1]) / 2.0
    if len(P) < 3:
        return 0.0
    apart = middle[2:] - middle[:-2]
    rise_p, rise_n = (((x / wide)[2:] - (x / wide)[:-2]) / apart for x in (P, N))
    return float(np.sum(wide[1:-1] ** 2 / 12.0 * (rise_p * N[1:-1] - rise_n * P[1:-1])))


def auc(positive: Floats, negative: Floats, deviation: float, edges: Floats | None = None) -> Score:
    """Return how often a positive row has a higher score than a negative one.

    `edges` are the ends of bins, where scores were rounded to bins.
    """
    P, N = np.asarray(positive, dtype=float), np.asarray(negative, dtype=float)
    s = np.full(len(P), deviation * deviation)
    noise = _pair_variance(P, N, s, s)
    whole = _pair_variance(P, N, s + P, s + N)
    sample = tuple(x - y for x, y in zip(whole, noise, strict=True))
    p, n = float(P.sum()), float(N.sum())
    unsure = deviation > 0.0 and min(p / spread(s + P), n / spread(s + N)) < 2.0
    if unsure or min(p, n) <= 0.0:  # a class may well be empty
        return quotient(Quotient(0.0, 0.0, noise, noise))
    found = quotient(Quotient(float(P @ _below(N)), p * n, noise, sample))  # type: ignore[arg-type]
    lost = 0.0 if edges is None else _inside(P, N, edges) / (p * n)
    low, high = found.low + min(lost, 0.0), found.high + max(lost, 0.0)
    return replace(found, low=max(low, 0.0), high=min(high, 1.0))


class Told:
    """Scores that are shown as lines of text, with the rules by which rows were counted."""

    def __str__(self: Any) -> str:
        return "\n".join([*self.lines(), *self.notes])


def versus_majority(
    gain: Score, majority: Any, always: Any = None, *, noisy: bool = False,
    ranks: Score | None = None,
) -> str:  # fmt: skip
    """Return a sentence unless the accuracy is above that of the majority answer by `gain`.

    `always` is the answer that the model gives to everybody, as far as `noisy` counts can tell;
    `ranks` its AUC: a model of a rare label may tell people apart without ever answering it.
    """
    if not gain.trusted:
        return "There are too few rows for this noise to tell whether the model beats the majority."
    if gain.low > 0.0:
        return ""
    if gain.value > 0.0 and always is None:
        return f"It is not certain that the model beats the answer {majority!r} to everybody."
    if always is not None:
        everybody = "to everybody, as far as the noisy counts can tell" if noisy else "to everybody"
        told = f"The model answers {always!r} {everybody}: it is no better than the majority; "
    else:
        told = f"The model is no better than the answer {majority!r} to everybody; "
    if ranks is not None and ranks.trusted and ranks.low > 0.5:
        return (
            f"{told}but it tells people apart (AUC {ranks.value:.3f}): rank them by probability, "
            "or choose another threshold or class weights."
        )
    return f"{told}class weights or another threshold may help."


def versus_mean(r2: Score) -> str:
    """Return a sentence unless a model of numbers is better than their mean, given to everybody."""
    if not r2.trusted:
        return "There are too few rows for this noise to tell whether the model beats the mean."
    if r2.low > 0.0:
        return ""
    if r2.value > 0.0:
        return "It is not certain that the model beats the mean of the targets, given to everybody."
    return "The model is no better than the mean of the targets, given to everybody."


def table_of(classes: Sequence[Any], table: Sequence[Sequence[float]]) -> list[str]:
    """Return a confusion matrix as lines."""
    names = [str(each) for each in classes]
    cells = [[f"{count:.0f}" for count in row] for row in table]
    wide = max(len(text) for row in (names, *cells) for text in row) + 2
    first = max(len(f"true {name}") for name in names)
    head = " " * first + "".join(f"{name:>{wide}}" for name in names) + "  (answered)"
    body = [
        f"{'true ' + name:<{first}}" + "".join(f"{text:>{wide}}" for text in row)
        for name, row in zip(names, cells, strict=True)
    ]
    return [head, *body]
