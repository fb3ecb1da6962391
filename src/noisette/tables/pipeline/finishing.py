"""What is done to released weights before they are published: functions of released numbers.

**Cells that hardly anybody has.** The weight of such a cell is mostly noise. Let n people have it.
Near the minimum the released effect e obeys (I + L) e = I t + N(0, I) - b, with the curvature
I = v n, the ridge L and the noise b (deviation B) in the cell's own unit, and the true effect t of
law N(0, T^2). The noisy count c of the cell and e itself tell what n may be: with even odds that
nobody has it, and V = I^2 T^2 + I + B^2,

    weight of n ~ P(c | n) (I + L) V^-1/2 exp(-((I + L) e)^2 / (2 V)),

and e is multiplied by the mean of min(1, I (I + L) T^2 / V). Knots are left as they are: neighbours
share what they know, and each is drawn to the others already.

**Slope.** Noise and regularisation make scores too flat or too steep. Where weights have the
variance t in coordinates of variance s, the released weight is a w + e with a = h s / (h s + L) and
e of variance q, and the best multiple of the released score is sum s a t / sum s (a^2 t + q). Then
the intercept is moved so that the mean probability stays what it was.

**Calibration.** Where public facts leave room, one more noisy vector is bought. A person with the
probability p and the residual r = y - p adds |r| to a cell of the own label and p (1 - p) to
another one, which is at most 1 in sum: 1 - p^2, or 1 - (1 - p)^2. Both are divided by where the
score lies, so the sums give the gradient and the curvature of the log loss along shift and slope,
and a Newton step. It is drawn to 0 by what is believed beforehand: noise alone changes nothing.
"""

from dataclasses import replace

import numpy as np
from scipy.special import expit, logit

from noisette._typing import Floats, Integers
from noisette.tables.kinds.base import Entries
from noisette.tables.pipeline.bars import Bars
from noisette.tables.pipeline.coordinates import Block, Coordinates

_EFFECT = 1.0  # T, in log-odds
_GRID = np.linspace(0.0, 1.0, 60)
_SCORES, _LEAST_SCORES = 1.0, 0.1  # the variance of scores to expect of a table
KNOTS = np.linspace(-1.0, 1.0, 5)
"""Between which curvature is divided, in units of `REACH` deviations of the score."""
REACH = 2.5
SCORE_CELLS = 4 + len(KNOTS)
_DOUBT, _LEAST_SLOPE = 0.3, 0.05  # beforehand, about shift and slope
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(21)
WEIGHTS /= WEIGHTS.sum()


def held_by_people(
    effects: Floats, counts: Floats, deviations: Floats, ridges: Floats, pushes: Floats,
    share: float, *, pure: bool,
) -> Floats:  # fmt: skip
    """Return the factor of each cell's effect; `share` is that of the label."""
    # proof: FINISHING
    top = np.log(np.maximum(counts + 6.0 * deviations, 60.0) / 0.5)[:, None]
    n = np.hstack([np.zeros((len(counts), 1)), 0.5 * np.exp(top * _GRID)])
    ridge, push, effect = ridges[:, None], pushes[:, None], effects[:, None]
    likely = _log_law(counts[:, None] - n, deviations[:, None] ** 2, pure)
    likely[:, 0] += np.log(len(_GRID))  # even odds that nobody has it
    factor, odds = np.zeros((len(counts), 1)), logit(share)
    for _ in range(3):
        p = expit(odds + factor * effect)
        held = np.maximum(p * (1.0 - p), 1e-3) * n
        spread = held**2 * _EFFECT**2 + held + push**2
        firm = held + ridge
        law = likely + np.log(firm) - 0.5 * np.log(spread) + _log_law(firm * effect, spread, pure)
        law = np.exp(law - law.max(axis=1, keepdims=True))
        kept = np.minimum(1.0, held * firm * _EFFECT**2 / spread)
        factor = (law * kept).sum(axis=1, keepdims=True) / law.sum(axis=1, keepdims=True)
    return np.asarray(factor[:, 0])


def _log_law(values: Floats, variances: Floats, pure: bool) -> Floats:
    """Return the logarithm of a density: pure noise has the tails of Laplace's, else normal."""
    off = np.abs(values) / np.sqrt(variances)
    return -np.sqrt(2.0) * off if pure else -0.5 * off**2


def finished_cells(
    coords: Coordinates, blocks: list[Block], theta: Floats, coef: Floats, bars: list[Bars],
    *, size: float, ridge: float, push: float, shares: Floats, pure: bool,
) -> tuple[Floats, list[Bars]]:  # fmt: skip
    """Return the coefficients and their bars with every cell drawn to its column's mean.

    `shares` are those of the labels, one for each output.
    """
    coef, found, row, start = coef.copy(), [], 0, 0
    for block, width, bar in zip(blocks, coords.sizes, bars, strict=True):
        part = slice(start, start + width)
        matrix = coords.map[row : row + block.features, part].toarray()
        cells, groups = matrix.copy(), block.groups()
        if block.filled is not None:
            cells[-1] += block.filled[:-1] @ cells[:-1]
        # one feature of every group of levels, or the slot of missing cells
        first, scale = np.unique(groups, return_index=True)[1], (matrix**2).sum(axis=1)
        if block.ordered:
            first = np.full(int(block.filled is not None), block.features - 1)
        if block.rows is not None or block.merged is not None:
            first = first[:0]
        first = first[(groups[first] >= 0) & (scale[first] > 0.0)]
        there, kept = groups >= 0, np.ones(block.features)
        if len(first):  # shares of a column that is counted by places are not those of features
            members = np.bincount(groups[there])[groups[first]]
            counts = size * np.bincount(groups[there], block.shares[there])[groups[first]]
        for output, own in enumerate(theta[:, :-1][:, part] if len(first) else ()):
            mean = float(coords.centre[part] @ own)
            factors = held_by_people(
                (cells[first] @ own) - mean, counts,
                max(size * block.noise, 1e-9) * np.sqrt(members), ridge / scale[first],
                push / np.sqrt(scale[first]), float(shares[output]), pure=pure,
            )  # fmt: skip
            for k, factor in zip(first, factors, strict=True):
                own_group = groups == groups[k]
                effect = mean + factor * (float(cells[k] @ own) - mean)
                beside = float((cells[k] - matrix[k]) @ own)  # the hats of a missing cell
                coef[output, row + np.flatnonzero(own_group)] = effect - beside
                kept[own_group] = factor
        noise = tuple((kept * np.array(bar.cells)).tolist())
        found.append(replace(bar, cells=noise))
        row, start = row + block.features, start + width
    return coef, found


def best_slope(
    coords: Coordinates, weights: Floats, bend: float, ridge: float, push: float
) -> float:
    """Return the best multiple of released scores, whose variance is at most the usual one."""
    # proof: FINISHING
    s = coords.held
    firm = bend * s + ridge
    kept, noise = bend * s / firm, (push**2 + bend * s) / firm**2
    seen = (float(s @ weights**2) - float(s @ noise)) / max(float(s @ kept**2), 1e-12)
    most = max(float(coords.spectrum.sum()), 1e-12)
    t = min(max(seen, _LEAST_SCORES / most), _SCORES / most)
    whole = float(s @ (kept**2 * t + noise))
    return float(s @ kept) * t / whole if whole > 0.0 else 1.0


def mean_for(mean: float, spread: float, wider: float) -> float:
    """Return the mean of scores that keeps the mean probability when their spread changes."""
    share = WEIGHTS @ expit(mean + spread * NODES)
    for _ in range(30):
        p = expit(mean + wider * NODES)
        step = (share - WEIGHTS @ p) / max(WEIGHTS @ (p * (1.0 - p)), 1e-12)
        mean += float(np.clip(step, -1.0, 1.0))
    return mean


def score_cells(scores: Floats, labels: Integers, mean: float, width: float) -> Entries:
    """Return the cells of every row and what it adds to them: entries >= 0, at most 1 in sum."""
    # proof: FINISHING
    p, t = expit(scores), np.clip((scores - mean) / (REACH * width), -1.0, 1.0)
    residual, held = np.where(labels == 1, 1.0 - p, p), p * (1.0 - p)
    place = (t + 1.0) / (KNOTS[1] - KNOTS[0])
    below = np.minimum(place.astype(np.intp), len(KNOTS) - 2)
    above = place - below
    which = np.stack([2 * labels, 2 * labels + 1, 4 + below, 5 + below], axis=1)
    parts = [
        residual * (1.0 - t) / 2.0,
        residual * (1.0 + t) / 2.0,
        held * (1.0 - above),
        held * above,
    ]
    return which, np.stack(parts, axis=1)


def slope_and_shift(
    sums: Floats, deviation: float, factors: Floats, weight: float, width: float
) -> tuple[float, float]:
    """Return by how much to multiply scores around their mean, and how far to move this.

    `factors` are the weights of the labels, `weight` their mean.
    """
    # proof: FINISHING
    no, yes = factors[:, None] * sums[:4].reshape(2, 2)
    gradient = np.array([(yes - no).sum(), (yes - no) @ [-1.0, 1.0]])
    x, held = np.stack([np.ones(len(KNOTS)), KNOTS]), weight * np.maximum(sums[4:], 0.0)
    bent = (x * held) @ x.T
    # what is divided between two knots has too large a square, by a sixth of their distance^2
    # (never below what the mean alone gives, so that the curvature stays one)
    least = bent[0, 1] ** 2 / max(bent[0, 0], 1e-300)
    square = bent[1, 1] - held.sum() * (KNOTS[1] - KNOTS[0]) ** 2 / 6.0
    bent[1, 1] = max(square, least + (bent[1, 1] - least) / 4.0)
    prior = np.diag([_DOUBT, _DOUBT * REACH * width]) ** 2
    doubt = bent + 2.0 * deviation**2 * float(factors @ factors) * np.eye(2)
    found = prior @ bent @ np.linalg.solve(bent @ prior @ bent + doubt, gradient)
    return max(1.0 + float(found[1]) / (REACH * width), _LEAST_SLOPE), float(found[0])
