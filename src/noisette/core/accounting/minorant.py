"""The greatest-convex-minorant accountant for releases of the last iterate only.

Setting: X_{k+1} = phi_k(X_k) + N(0, nu_k^2 I) for k = 0..T-1, and X'_{k+1} = phi'_k(X'_k) + the
same noise law on the neighbouring data. One of phi_k, phi'_k is c_k-Lipschitz,
sup |phi_k - phi'_k| <= s_k, |X_0 - X'_0| <= D_0, and **X_T alone** is released. The c_k, nu_k, s_k
are public constants. With p_k = prod_{j>k} c_j let

    V_k = sum_{i<=k} (p_i nu_i)^2,     S_k = p_0 c_0 D_0 + sum_{i<=k} p_i s_i,

and let G be the greatest convex minorant of (0, 0), (V_0, S_0), ..., (V_{T-1}, S_{T-1}). Then X_T
is mu-GDP with mu^2 = sum over the segments of G of (rise)^2 / (run).

Nothing here knows about losses or step-size conditions: `last_iterate` does.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from noisette import _validate
from noisette._typing import Floats

# One segment of the minorant: run exp(2 scale) v and rise exp(scale) s. The scale keeps long
# contracting chains (p_k far below the smallest double) exact where it matters.
Block = tuple[float, float, float]


def _push(stack: list[Block], block: Block) -> None:
    """Append a segment and merge while slopes decrease (pool adjacent violators).

    Underflows are left unmerged: an unmerged pair is still a feasible (only looser) string, a
    wrongly merged pair would not be.
    """
    scale, v, s = block
    if v == 0.0 and s == 0.0:
        return
    while stack:
        scale0, v0, s0 = stack[-1]
        ratio = math.exp(min(scale - scale0, 690.0))
        cross = s0 * v * ratio
        if not (cross > 0.0 and cross >= s * v0):
            break
        stack.pop()
        top = max(scale, scale0)
        old, new = math.exp(scale0 - top), math.exp(scale - top)
        scale, v, s = top, v0 * old * old + v * new * new, s0 * old + s * new
    stack.append((scale, v, s))


def _energy(stack: Sequence[Block]) -> float:
    total = 0.0
    for _, v, s in stack:
        if s > 0.0:
            total += s * s / v if v > 0.0 else math.inf
    return total


def _round_up(energy: ArrayLike, steps: int) -> Floats:
    """Return sqrt(energy) enlarged by the rounding errors of `steps` additions."""
    return np.asarray(np.sqrt(energy) * (1.0 + (steps + 16) * 2.0**-51))


def _log_products(c: Floats) -> tuple[Floats, int]:
    """Return log p_k = sum_{j>k} log c_j and the first step not erased by a later c_j = 0."""
    zero = np.flatnonzero(c == 0.0)
    first = int(zero[-1]) if zero.size else 0
    log_p = np.zeros(c.size)
    log_p[:-1] = np.cumsum(np.log(np.where(c > 0.0, c, 1.0))[:0:-1])[::-1]
    return log_p, first


def _blocks(log_p: Floats, noise: Floats, log_rise: Floats) -> list[Block]:
    """Return one block per step with a rise, together with the rise-free steps after it.

    log_rise = log(p_k s_k), -inf for none. Leading rise-free steps carry nothing and are dropped.
    """
    starts = np.flatnonzero(log_rise > -np.inf)
    if not starts.size:
        return []
    log_p, noise = log_p[starts[0] :], noise[starts[0] :]
    offsets = starts - starts[0]
    scale = np.maximum.reduceat(log_p, offsets)
    sizes = np.diff(np.append(offsets, log_p.size))
    with np.errstate(under="ignore"):
        weights = np.exp(log_p - np.repeat(scale, sizes)) * noise
        v = np.add.reduceat(weights * weights, offsets)
        s = np.exp(log_rise[starts] - scale)
    return list(zip(scale.tolist(), v.tolist(), s.tolist(), strict=True))


def _string_mus(
    c: Floats, eta: Floats, r: float, start: int, distance: float, *, worst: bool
) -> Floats:
    """Return mu_j for each position j of the record in the last epoch, shapes (E, l) -> (l,).

    In every earlier epoch the rise is max_k p_k s_k, placed at the epoch's last step. With `worst`
    the result is the largest of them alone, shape (1,). The string starts at the beginning of
    epoch `start` (from 0) with the given distance.
    """
    # proof: LAST-ITERATE-LATER-IS-WORSE
    epochs, batches = eta.shape
    log_p, erased = _log_products(c.ravel())
    alive = np.arange(eta.size) >= max(erased, start * batches)
    with np.errstate(divide="ignore"):
        log_rises = np.where(alive, log_p + np.log(r * eta.ravel()), -np.inf)
        log_first = np.log(c[start, 0] * distance) + log_p[start * batches]

    head = (epochs - 1) * batches
    log_rise = np.full(head, -np.inf)
    log_rise[batches - 1 :: batches] = log_rises[:head].reshape(-1, batches).max(axis=1)
    if start < epochs - 1:
        index = start * batches
        log_rise[index] = np.logaddexp(log_rise[index], log_first)
    base: list[Block] = []
    first = max(erased, start * batches)
    if first < head:
        for block in _blocks(log_p[first:head], eta.ravel()[first:head], log_rise[first:]):
            _push(base, block)

    tail_p = np.exp(np.where(alive[head:], log_p[head:], -np.inf))
    energy = (tail_p * eta[-1]) ** 2
    before = np.concatenate(([0.0], np.cumsum(energy)[:-1]))  # of steps 1..j-1
    after = np.cumsum(energy[::-1])[::-1]  # of steps j..l
    carried = math.exp(log_first) if start == epochs - 1 else 0.0
    own = np.exp(log_rises[head:])
    # If p_k s_k never falls inside the last epoch, its last position is the worst one.
    last_is_worst = worst and bool((np.diff(own) >= 0.0).all())
    positions = [batches - 1] if last_is_worst else range(batches)
    out = []
    for j in positions:
        stack = list(base)
        lead = carried if j > 0 else 0.0
        _push(stack, (0.0, float(before[j]), lead))
        _push(stack, (0.0, float(after[j]), float(own[j]) + carried - lead))
        out.append(_energy(stack))
    return _round_up([max(out)] if worst else out, eta.size)


def best_position_mus(c: Floats, eta: Floats, r: float, diameter: float, *, worst: bool) -> Floats:
    """Return `_string_mus` minimised over the starting epoch, for iterates in a bounded set.

    c in [0, 1] and eta > 0 have shape (epochs, batches); diameter is in the unit of eta, inf for
    an unbounded domain. Any start is valid, so the minimum over the starts tried is too.
    """
    # proof: LAST-ITERATE-BOUNDED-DOMAIN
    _validate.positive_or_infinite("diameter", diameter)
    best = _string_mus(c, eta, r, 0, 0.0, worst=worst)
    if diameter == math.inf:
        return best
    epochs = eta.shape[0]
    tried: dict[int, float] = {}

    def visit(lengths: Floats) -> None:
        nonlocal best
        for length in np.unique(np.clip(np.rint(lengths).astype(int), 1, epochs)):
            if int(length) not in tried:
                mus = _string_mus(c, eta, r, epochs - int(length), diameter, worst=worst)
                tried[int(length)] = float(mus.sum())
                best = np.minimum(best, mus)

    visit(np.geomspace(1, epochs, 40))
    centre = min(tried, key=lambda length: tried[length])
    visit(np.linspace(0.8 * centre, 1.25 * centre, 25))
    return best
