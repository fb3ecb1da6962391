"""Noise over time: independent at each step, or banded matrix factorisation (DP-FTRL).

With data in a fixed order there is no amplification by sampling. Correlating the noise of
neighbouring steps makes it cancel in the sum of all gradients, at the same privacy. Let x_t be the
clipped sums and c a band of p weights. What crosses the door is y_t = sum_k c_k x_{t-k}, plus white
noise; the caller gets C^-1 y, i.e. x_t plus correlated noise.
"""

from collections import deque
from collections.abc import Callable

import numpy as np

from noisette import _validate
from noisette._typing import Floats
from noisette.core.adjacency import Adjacency
from noisette.core.bounded import Bounded


def square_root_band(band: int) -> Floats:
    """Return c_0 .. c_{p-1} of the square root of the prefix-sum matrix, of which c_0 = 1."""
    band = _validate.integer("band", band)
    ratios = [(2 * k - 1) / (2 * k) for k in range(1, band)]
    return np.cumprod(np.array([1.0, *ratios], dtype=np.float64), dtype=np.float64)


class Banded:
    """Correlated noise for one run; it keeps the last p - 1 sums, which are sensitive."""

    def __init__(self, band: int) -> None:
        self.weights = square_root_band(band)
        self.band = len(self.weights)
        self._largest = 0.0
        self._sums: deque[Floats] = deque(maxlen=self.band - 1)
        self._noisy: deque[Floats] = deque(maxlen=self.band - 1)

    def __call__(
        self,
        total: Floats,
        clip_norm: float,
        adjacency: Adjacency,
        release: Callable[[Bounded], Floats],
    ) -> Floats:
        """Return total + correlated noise; `release` is the door."""
        # proof: BANDED-MF
        mixed = total * self.weights[0]
        for weight, earlier in zip(self.weights[1:], self._sums, strict=False):
            mixed += weight * earlier
        # Earlier sums are still in here, so a clip norm that falls may not shrink the bound.
        self._largest = max(self._largest, clip_norm)
        bound = self._largest * float(np.linalg.norm(self.weights)) * (1.0 + 2.0**-40)
        noisy = release(Bounded(mixed, contribution=bound, adjacency=adjacency, proof="BANDED-MF"))
        for weight, earlier in zip(self.weights[1:], self._noisy, strict=False):
            noisy -= weight * earlier
        self._sums.appendleft(total)
        self._noisy.appendleft(noisy.copy())  # the caller divides this one
        return noisy

    def __repr__(self) -> str:
        return f"Banded(band={self.band})"
