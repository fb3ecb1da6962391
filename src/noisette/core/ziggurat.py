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

import numpy as np
from numpy.typing import NDArray

from noisette._typing import Floats
from noisette.core.compiled import compiled

LAYERS = 256
PLACES = 2**52
_EDGE = "3.6541528853610087963519472518"  # r: the layers above it end exactly at x = 0
_R = float(_EDGE)
_UNIFORM = 2.0**-53
PIECE = 1 << 15  # words at a time, which stay in the cache


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


@compiled()
def _fill(words, out, width, sure, height):
    """Return how many words were used and how many numbers of `out` were filled from them.

    `width` and `sure` have one entry for each layer and sign. A try that the words cannot finish
    is not begun: its words are to come first next time.
    """
    i, filled = 0, 0
    while filled < len(out) and i < len(words):
        most, k = min(len(words) - i, len(out) - filled), 0
        place, at, x = np.int64(0), np.uint64(0), 0.0
        while k < most:  # 99 words of 100 are a number
            word = words[i + k]
            at = word & np.uint64(511)
            place = np.int64((word >> np.uint64(9)) & np.uint64(PLACES - 1))
            x = np.float64(place) * width[at]
            out[filled + k] = x
            if place >= sure[at]:
                break
            k += 1
        i, filled = i + k, filled + k
        if k == most:
            continue
        first, layer = i, at & np.uint64(255)
        i += 1
        if layer:
            if i == len(words):
                return first, filled
            u = np.float64(np.int64(words[i] >> np.uint64(11))) * _UNIFORM
            i += 1
            if height[layer] + (height[layer - np.uint64(1)] - height[layer]) * u < math.exp(
                -0.5 * x * x
            ):
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


@compiled()
def count_up(counters, first, high):
    """Put first, first + 1, ... into the lower words of counters of 128 bits, shape (n, 2)."""
    for k in range(counters.shape[0]):
        counters[k, 0] = first + np.uint64(k)
        counters[k, 1] = high


@compiled(fastmath={"reassoc", "contract", "nsz"})
def lengthen(vectors, radius):
    """Give every row of `vectors` the length that `radius` has for it, in one pass."""
    for i in range(vectors.shape[0]):
        square = 0.0
        for j in range(vectors.shape[1]):
            square += vectors[i, j] * vectors[i, j]
        factor = radius[i] / math.sqrt(square)
        for j in range(vectors.shape[1]):
            vectors[i, j] *= factor


def normals(count: int, words: Callable[[int], NDArray[Any]]) -> Floats:
    """Return `count` independent normal numbers; `words(k)` gives k new words of 64 bits.

    No word is asked for that is not used, so nothing has to be kept for the next call; words are
    used before more are asked for, so they may come in one buffer.
    """
    out, filled = np.empty(count), 0
    width, sure, height = tables()
    signed = np.concatenate((width, -width)), np.concatenate((sure, sure)), height
    left = np.empty(0, dtype=np.uint64)
    while filled < count:
        # Every number takes a word at least; a try that was cut off has one already.
        missing = max(1, min(count - filled, PIECE) - min(1, len(left)))
        taken = np.concatenate((left, words(missing))) if len(left) else words(missing)
        used, more = _fill(taken, out[filled:], *signed)
        left, filled = taken[used:].copy(), filled + more
    return out


@compiled()
def add_on_grid(noise, value, grid, out):
    """Put value + noise, rounded to multiples of `grid`, into `out`; the sum is in float64.

    The same operations in the same order as ``mechanisms.base.on_grid``, so the same numbers to the
    bit: a grid is a power of two, so that its inverse is exact and a product with it the quotient.
    """
    # proof: FLOAT-GRID
    inverse = 1.0 / grid
    for i in range(len(out)):
        # Adding 0.0 turns -0.0 into 0.0.
        out[i] = np.rint((noise[i] + value[i]) * inverse) * grid + 0.0
