"""Normal numbers from random words, in compiled code: the ziggurat of Marsaglia and Tsang.

The half density f(x) = exp(-x^2/2), x >= 0, is covered by 256 layers of one area v: layer i > 0 is
the rectangle [0, x_i] x [f(x_i), f(x_{i-1})], layer 0 is [0, r] x [0, f(r)] with the tail beyond
r = x_255. One word of 64 bits chooses a layer (8 bits), a sign (1 bit) and a place in it (52 of the
55 bits that are left); a point below f is accepted, and the tail is drawn by Marsaglia's two
exponentials. Every accepted point is uniform below f, so its abscissa has the half-normal law.

Imported lazily, as everything that loads numba.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"
# proof: ZIGGURAT
import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from functools import cache
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from noisette._typing import Floats

__all__ = ["normals"]

LAYERS = 256
PLACES = 2**52
_EDGE = "3.6541528853610087963519472518"  # r: the layers above it end exactly at x = 0
_R = float(_EDGE)
_UNIFORM = 2.0**-53
_PIECE = 16384  # words at a time, which stay in the cache


def _density(x: Decimal) -> Decimal:
    return (-x * x / 2).exp()


@cache
def tables() -> tuple[Floats, NDArray[np.int64], Floats]:
    """Return width per place, places that need no look at f, and f(x_i), for every layer."""
    with localcontext() as context:
        context.prec = 40
        edge = Decimal(_EDGE)
        rest = Decimal(0)
        for k in range(200, 0, -1):  # Laplace's continued fraction of the tail
            rest = k / (edge + rest)
        area = edge * _density(edge) + _density(edge) / (edge + rest)
        x = [Decimal(0)] * LAYERS
        x[-1] = edge
        for i in range(LAYERS - 2, 0, -1):
            x[i] = (-2 * (area / x[i + 1] + _density(x[i + 1])).ln()).sqrt()
        base = area / _density(edge)  # as wide as a rectangle of the same area would be
        widths = [base, *x[1:]]
        inner = [edge, Decimal(0), *x[1:-1]]
        return (
            np.array([float(width / PLACES) for width in widths]),
            np.array([int(a / b * PLACES) for a, b in zip(inner, widths, strict=True)]),
            np.array([float(_density(at)) for at in x]),
        )


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _fill(words, out, width, sure, height):
    """Return how many words were used and how many numbers of `out` were filled from them.

    `width` has the layers' widths and then their negatives, for a sign without a branch.
    A try that the words cannot finish is not begun: its words are to come first next time.
    """
    i, filled = 0, 0
    while filled < len(out) and i < len(words):
        first = i
        word = words[i]
        i += 1
        layer = word & np.uint64(255)
        place = np.int64((word >> np.uint64(9)) & np.uint64(PLACES - 1))
        x = np.float64(place) * width[word & np.uint64(511)]
        if place < sure[layer]:
            out[filled] = x
            filled += 1
        elif layer:
            if i == len(words):
                return first, filled
            u = np.float64(np.int64(words[i] >> np.uint64(11))) * _UNIFORM
            i += 1
            if height[layer] + (height[layer - np.uint64(1)] - height[layer]) * u < math.exp(
                -0.5 * x * x
            ):
                out[filled] = x
                filled += 1
        else:
            beyond = 0.0
            while beyond == 0.0:
                if i + 2 > len(words):
                    return first, filled
                u = np.float64(np.int64(words[i] >> np.uint64(11))) * _UNIFORM
                v = np.float64(np.int64(words[i + 1] >> np.uint64(11))) * _UNIFORM
                i += 2
                a = -math.log1p(-u) / _R
                if -2.0 * math.log1p(-v) > a * a:
                    beyond = _R + a
            out[filled] = -beyond if place & 256 else beyond
            filled += 1
    return i, filled


def normals(count: int, words: Callable[[int], NDArray[Any]]) -> Floats:
    """Return `count` independent normal numbers; `words(k)` gives k new words of 64 bits.

    No word is asked for that is not used, so nothing has to be kept for the next call.
    """
    out, filled = np.empty(count), 0
    left = np.empty(0, dtype=np.uint64)
    width, sure, height = tables()
    signed = np.concatenate((width, -width))
    while filled < count:
        # Every number takes a word at least; a try that was cut off has one already.
        missing = max(1, min(count - filled, _PIECE) - min(1, len(left)))
        taken = np.concatenate((left, words(missing))) if len(left) else words(missing)
        used, more = _fill(taken, out[filled:], signed, sure, height)
        left, filled = taken[used:], filled + more
    return out
