"""`Coordinates`: from encoded features to rows that are alike in all directions, and back.

Everything here is a function of released sums and public facts, applied row by row. The noisy sums
p of a column whose features add up to 1 give its mean p and its second moment diag(p) - p p'. So
each column is centred and whitened by itself, for no price beyond that of the sums. Features that
hardly anybody has are merged first: rare levels into one, empty hats into a neighbour.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from noisette._typing import Floats
from noisette.fitting.clipping import clip_rows
from noisette.tables.kinds import Cells, Column, encode_rows
from noisette.tables.kinds.base import Entries
from noisette.tables.kinds.rows import matrix_of, sparse_entries
from noisette.tables.pipeline.pair_cells import PairView

_SPREAD = 1.2  # the mean square of a row is about so many times what shares alone say
_ALIKE = 0.9  # how alike neighbouring hats are
_FIRM = 4.0  # deviations of its noise from which on a share is there
_ROWS = 8192


@dataclass(frozen=True)
class Block:
    """What is known of the features of one column, or of the cells of a pair of columns."""

    features: int
    shares: Floats  # noisy, of every feature
    ordered: bool = False  # neighbours in order are alike (hats), else they are levels
    filled: Floats | None = None  # the hats of a missing cell, whose slot is the last feature
    least: float = 0.0  # features with a smaller share are merged
    whole: bool = True  # the features of a row add up to 1; else a reference level has none
    noise: float = 0.0  # the deviation of the shares' noise
    alike: float = _ALIKE  # how alike neighbours in order are
    slot: float = 0.0  # a slot for missing cells with a smaller share is left out
    merged: NDArray[np.intp] | None = None  # for a pair, the group of every cell
    prior: Floats | None = None  # for a pair, the prior covariance of the weights of its cells
    rows: Floats | None = None  # the features of every place that was counted, where `shares` are
    # those of places and not of features

    @property
    def width(self) -> int:
        """How many coordinates it may have: features, or groups of a pair's cells."""
        return self.features if self.merged is None else int(self.merged.max(initial=-1)) + 1

    def groups(self) -> NDArray[np.intp]:
        """Return the group of every feature, numbered from 0; -1 is left out."""
        if self.merged is not None:
            return self.merged
        if self.rows is not None:  # a feature that hardly any row has is left out
            common = np.maximum(self.shares, 0.0) @ np.abs(self.rows) >= self.slot
            return np.where(common, np.cumsum(common) - 1, -1)
        p = self.shares
        hats = self.features - (self.filled is not None)
        kept = p >= self.least
        out = np.full(self.features, -1, dtype=np.intp)
        names = np.flatnonzero(kept[:hats])
        out[names] = np.arange(len(names))
        if self.ordered:
            if len(names) == 0:
                return out
            apart = np.abs(np.arange(hats)[:, None] - names[None, :])
            # Of two neighbours at the same distance the commoner one: a spike stands alone.
            out[:hats] = (apart - p[names] / (1.0 + np.abs(p[names]))).argmin(axis=1)
        else:
            out[np.flatnonzero(~kept[:hats])] = len(names)  # the rare ones together
        if hats < self.features and p[-1] >= max(self.slot, self.least):
            out[-1] = out.max() + 1
        return out


@dataclass(frozen=True)
class Coordinates:
    """z = x M - c, cut to `bound`; a constant column `bias` stands last.

    `spectrum` is the variance of each entry of z, as far as it is known; `sizes` says how many
    entries each column has. `held` is what is left of the spectrum without the noise of the shares
    and after rows are cut: how firmly the rows hold a weight in its place. What is below
    `doubt` may be noise alone: the share of a slot for missing cells that nobody fills.
    """

    map: Any
    centre: Floats
    bound: float
    bias: float
    spectrum: Floats
    sizes: tuple[int, ...]
    held: Floats
    doubt: Floats | float = 0.0
    sparse: bool = False

    @property
    def norm(self) -> float:
        """The norm bound of the rows, the constant column included."""
        return math.hypot(self.bound, self.bias) * (1.0 + 2.0**-50)

    def rows(
        self, columns: Sequence[Column], cells: Mapping[str, Cells],
        pairs: Sequence[PairView] = (),
    ) -> Any:  # fmt: skip
        """Return the rows of some cells: encoded, mapped, cut one by one, with the constant.

        The cells of pairs stand behind the features of all columns.
        """
        # proof: WHITENING
        # proof: SMOOTHNESS-PRIOR
        added = [(pair.features, pair.entries(columns, cells)) for pair in pairs]
        if self.sparse:
            return self._sparse_rows([c for c in columns if c.features], cells, added)
        X = encode_rows(columns, cells, None)
        matrix, out = self.map.toarray(), np.empty((X.shape[0], self.map.shape[1] + 1))
        for start in range(0, X.shape[0], _ROWS):
            part = slice(start, start + _ROWS)
            # A dense product rounds a row by how many there are, a sparse one adds row by row.
            piece = sparse.csr_matrix(X[part])
            if added:
                grids = [matrix_of(at[part], values[part], width) for width, (at, values) in added]
                piece = sparse.hstack([piece, *grids], format="csr")
            out[part, :-1] = clip_rows(piece @ matrix - self.centre, self.bound)
        out[:, -1] = self.bias
        return out

    def _sparse_rows(
        self, used: Sequence[Any], cells: Mapping[str, Cells], added: Sequence[tuple[int, Entries]]
    ) -> Any:
        """Move and scale every entry by itself: a feature goes to one coordinate or to none."""
        n = len(cells[used[0].name]) if used else len(next(iter(cells.values())))
        features, values = sparse_entries(used, cells, n)
        start = sum(len(column.features) for column in used)
        for width, (places, products) in added:
            features = np.hstack([features, places + np.int32(start)])
            values, start = np.hstack([values, products]), start + width
        whole = self.map.tocsr()
        there = np.diff(whole.indptr) > 0
        group, scale = np.zeros(len(there), dtype=np.int32), np.zeros(len(there))
        group[there], scale[there] = whole.indices, whole.data
        mapped = matrix_of(group[features], values * scale[features], self.map.shape[1])
        last = sparse.csr_matrix(np.full((n, 1), self.bias))
        return sparse.hstack([clip_rows(mapped, self.bound), last], format="csr")

    def back(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return coefficients of the encoded features and the intercept, for each row of theta."""
        weights = theta[:, :-1]
        coef = np.asarray((self.map @ weights.T).T)
        return coef, theta[:, -1] * self.bias - weights @ self.centre


def coordinates(
    blocks: Sequence[Block], *, floor: float, slack: float, intercept: float, wide: bool,
    rank: Callable[[Floats, Floats], int] | None = None,
) -> Coordinates:  # fmt: skip
    """Return the coordinates for released shares; `wide` keeps rows sparse and does not centre.

    `rank` says how many directions to keep, given their variances in decreasing order and what is
    left of each after whitening; None keeps all.
    """
    moments = list(map(moment_of, blocks))
    d = sum(map(len, map(attrgetter("mean"), moments)))
    ridge = floor * _SPREAD * max(sum(map(ShareMoment.trace, moments)), 0.1) / max(d, 1)
    if wide:
        return _sparsely(moments, ridge, slack, intercept)
    turned = list(map(_turned, map(ShareMoment.covariance, moments)))
    values = np.maximum(np.concatenate([np.zeros(0), *map(itemgetter(0), turned)]), 0.0)
    order = np.argsort(-values)
    left = values[order] / (values[order] + ridge)
    kept = np.zeros(d, dtype=bool)
    kept[order if rank is None or d == 0 else order[: rank(values[order], left)]] = True
    maps, centres, quiet, doubts, start = [], [], [], [], 0
    for block, moment, (found, vectors) in zip(blocks, moments, turned, strict=True):
        mine = kept[start : start + len(moment.mean)]
        start += len(moment.mean)
        scale = np.sqrt(np.maximum(found, 0.0) + ridge)
        whitener = moment.smoothed((vectors / scale)[:, mine])
        maps.append(sparse.csr_matrix(moment.merge @ whitener))
        centres.append(moment.mean @ whitener)
        square = moment.smoothed(vectors) ** 2
        blur = square.sum(axis=0) * block.noise**2
        quiet.append((np.maximum(found - blur, 0.0) / scale**2)[mine])
        last = block.groups()[-1] if block.filled is not None else -1
        slot = square[last] if last >= 0 else np.zeros(len(found))
        doubts.append((_FIRM * block.noise * slot / scale**2)[mine])
    spectrum = values[kept] / (values[kept] + ridge)
    bound = _bound(slack, spectrum)
    # The part of each variance that is left when rows are cut to the bound: a row that has a rare
    # feature is longer than others, by 1 / scale squared for a feature of 0 and 1, and cut more.
    square = float(spectrum.sum()) - spectrum + 1.0 / (values[kept] + ridge)
    uncut = np.minimum(1.0, bound**2 / np.maximum(square, 1e-12))
    return Coordinates(
        sparse.csr_matrix(sparse.block_diag(maps)) if maps else sparse.csr_matrix((0, 0)),
        np.concatenate(centres) if centres else np.zeros(0),
        bound,
        float(np.float32(intercept)),
        spectrum,
        tuple(map(len, centres)),
        np.concatenate(quiet or [np.zeros(0)]) * uncut,
        np.concatenate(doubts or [np.zeros(0)]),
    )


def _turned(covariance: Floats) -> tuple[Floats, Floats]:
    """Return eigenvalues and vectors, whose signs do not depend on the machine's linear algebra."""
    values, vectors = np.linalg.eigh(covariance)
    side = np.sqrt(np.arange(2.0, len(values) + 2.0)) @ vectors
    return values, vectors * np.where(side < 0.0, -1.0, 1.0)


def _bound(slack: float, spectrum: Floats) -> float:
    return float(np.float32(slack * math.sqrt(max(float(spectrum.sum()), 1.0))))


def _sparsely(
    moments: Sequence["ShareMoment"], ridge: float, slack: float, intercept: float
) -> Coordinates:
    """Scale every feature by itself; the commonest of a column is its zero."""
    maps, spectra = [], []
    for moment in moments:
        size = moment.mean if moment.square is None else np.diag(moment.square)
        scale = 1.0 / np.sqrt(size + ridge)
        if len(size) > 1 and moment.square is None:
            scale[int(np.argmax(size))] = 0.0
        maps.append(sparse.csr_matrix(moment.merge.multiply(scale[None, :])))
        spectra.append(size * scale**2)
    spectrum = np.concatenate(spectra)
    return Coordinates(
        sparse.csr_matrix(sparse.block_diag(maps)), np.zeros(len(spectrum)),
        _bound(slack, spectrum), float(np.float32(intercept)), spectrum,
        tuple(map(len, spectra)), spectrum, sparse=True,
    )  # fmt: skip


class ShareMoment(NamedTuple):
    """The first two moments of the groups of one column, as its shares tell them.

    The covariance, before smoothing, is diag(rest) + share missing missing' - mean mean' + noise^2:
    a column of thousands of levels, whose weights are independent, never has it written out unless
    somebody turns it.
    """

    merge: Any  # features x groups, of 0 and 1
    mean: Floats
    rest: Floats
    noise: float = 0.0
    share: float = 0.0
    missing: Floats | None = None
    smooth: Floats | None = None  # the root of the weights' prior covariance; None for 1
    square: Floats | None = None  # the mean of x x', where x is not of 0 and 1

    def smoothed(self, matrix: Floats) -> Floats:
        """Return smooth @ matrix."""
        return np.ascontiguousarray(matrix) if self.smooth is None else self.smooth @ matrix

    def covariance(self) -> Floats:
        """Return the covariance of smoothed groups."""
        second = np.diag(self.rest) if self.square is None else self.square
        if self.missing is not None:
            second = second + self.share * np.outer(self.missing, self.missing)
        # A centre that is off by the noise adds its square to every direction.
        plain = second - np.outer(self.mean, self.mean) + self.noise**2 * np.eye(len(self.mean))
        return plain if self.smooth is None else self.smooth @ plain @ self.smooth

    def trace(self) -> float:
        """Return the sum of its variances."""
        if self.smooth is None and self.missing is None and self.square is None:
            return float((self.rest - self.mean * self.mean + self.noise**2).sum())
        return float(np.trace(self.covariance()))


def moment_of(block: Block) -> ShareMoment:
    """Return the moments of a column's groups."""
    group = block.groups()
    size = int(group.max(initial=-1)) + 1
    used = np.flatnonzero(group >= 0)
    merge = sparse.csr_matrix(
        (np.ones(len(used)), (used, group[used])), shape=(block.features, size)
    )
    if block.rows is not None:
        parts = np.maximum(block.shares, 0.0)
        parts /= max(float(parts.sum()), 1.0)
        rows = block.rows[:, used]
        square = rows.T @ (parts[:, None] * rows)
        return ShareMoment(merge, parts @ rows, np.zeros(size), block.noise, square=square)
    p = np.maximum(np.bincount(group[used], weights=block.shares[used], minlength=size), 0.0)
    total = float(p.sum())
    p /= max(total, 1e-12) if block.whole else max(total, 1.0)
    # Neighbouring hats have like weights: 0.9 (1 - |i - j| / (m - 1)) + 0.1 [i = j]; all others
    # are independent. The root of that prior is a public linear change of coordinates.
    prior, smooth = None, None
    m = int(group[: block.features - (block.filled is not None)].max(initial=-1)) + 1
    if block.prior is not None:
        counts = np.bincount(group[used], minlength=size)
        members = (group[:, None] == np.arange(size)) / np.maximum(counts, 1)
        prior = np.asarray(members.T @ block.prior @ members)
    elif block.ordered and m > 1:
        prior = np.eye(size)
        apart = np.abs(np.arange(m)[:, None] - np.arange(m)) / (m - 1.0)
        prior[:m, :m] = block.alike * (1.0 - apart) + (1.0 - block.alike) * np.eye(m)
    if prior is not None:
        values, vectors = np.linalg.eigh(prior)
        smooth = np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)
    last = int(group[-1]) if len(group) else -1
    if block.filled is None or last < 0:
        return ShareMoment(merge, p, p, block.noise, smooth=smooth)
    # A missing cell has the hats of the centre and the indicator.
    filled = block.filled[used[:-1]]
    missing = np.asarray(np.bincount(group[used][:-1], filled, minlength=size), dtype=float)
    missing[last], share = 1.0, float(p[last])
    rest = np.where(np.arange(size) == last, 0.0, p)
    return ShareMoment(merge, rest + share * missing, rest, block.noise, share, missing, smooth)
