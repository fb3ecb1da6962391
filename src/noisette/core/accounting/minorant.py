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

from noisette._typing import Floats
from noisette.errors import InvalidParameter

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
        cross = s0 * v * math.exp(min(scale - scale0, 690.0))
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


def last_mus(c: Floats, eta: Floats, r: float, *, worst: bool = False) -> Floats:
    """Return (mu_1, ..., mu_l) of the last iterate: mu_j if the record ends in batch j.

    c in [0, 1] and eta > 0 have shape (epochs, batches); r = Delta/sigma. In every earlier epoch
    the rise is max_k p_k s_k, placed at the epoch's last step. At c = 1, E >= 2 and equal steps:
    mu_j^2 = r^2 [(E-2)/l + 1/j + 1/(l-j+1)] for j > (l+1)/2, with 4/(l+1) in place of the last two
    terms otherwise.

    With `worst` the result is the largest of them alone, valid for every fixed or random order,
    and for steps that vary inside an epoch (there it is loose). With constant steps it is, for
    l = 1 and T = E, r sqrt((1-c^T)/(1+c^T) (1+c)/(1-c)), and for l >= 2
    r sqrt(1 + c^{2l-2} (1-c^2)/(1-c^l)^2 (1-c^{l(E-1)})/(1+c^{l(E-1)})); r sqrt(1 + (E-1)/l) at
    c = 1.
    """
    # proof: LAST-ITERATE-LATER-IS-WORSE
    # proof: LAST-ITERATE-FULL-BATCH (one batch)
    if not ((c >= 0).all() and (c <= 1).all()):
        raise InvalidParameter(
            "contraction must lie in [0, 1]: smaller steps make the map contract."
        )
    epochs, batches = eta.shape
    log_p, erased = _log_products(c.ravel())
    alive = np.arange(eta.size) >= erased
    with np.errstate(divide="ignore"):
        log_rises = np.where(alive, log_p + np.log(r * eta.ravel()), -np.inf)
    head = (epochs - 1) * batches
    log_rise = np.full(head, -np.inf)
    log_rise[batches - 1 :: batches] = log_rises[:head].reshape(-1, batches).max(axis=1)
    base: list[Block] = []
    if erased < head:
        for block in _blocks(log_p[erased:head], eta.ravel()[erased:head], log_rise[erased:]):
            _push(base, block)

    tail_p = np.exp(np.where(alive[head:], log_p[head:], -np.inf))
    energy = (tail_p * eta[-1]) ** 2
    before = np.concatenate(([0.0], np.cumsum(energy)[:-1]))  # of steps 1..j-1
    after = np.cumsum(energy[::-1])[::-1]  # of steps j..l
    own = np.exp(log_rises[head:])
    # If p_k s_k never falls inside the last epoch, its last position is the worst one.
    last_is_worst = worst and bool((np.diff(own) >= 0.0).all())
    positions = [batches - 1] if last_is_worst else range(batches)
    out = []
    for j in positions:
        stack = list(base)
        _push(stack, (0.0, float(before[j]), 0.0))
        _push(stack, (0.0, float(after[j]), float(own[j])))
        out.append(_energy(stack))
    return _round_up([max(out)] if worst else out, eta.size)
