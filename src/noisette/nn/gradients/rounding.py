"""Upper bounds that hold in floating point: what a sum of squares may have lost to rounding.

With u half the machine epsilon, a sum of n products evaluated in any order has an error of at most
gamma_n = n u / (1 - n u) times the sum of absolute values (Higham 2002, section 3.1), plus what
underflow takes: at most one smallest normal number per product, flushed or not.
"""

import math
from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

BLOCK = 4096
"""So many entries are summed in the precision that they have."""


def gamma(n: int, dtype: torch.dtype) -> float:
    """Return gamma_n for the precision `dtype`, infinite where the bound says nothing."""
    loss = n * torch.finfo(dtype).eps / 2.0
    return loss / (1.0 - loss) if loss < 0.5 else math.inf


def tiny(n: int, dtype: torch.dtype) -> float:
    """Return what underflow can take from a sum of n products."""
    return n * float(torch.finfo(dtype).tiny)


def working(x: Tensor) -> Tensor:
    """Return `x` in single or double precision: half precision is widened, which is exact."""
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def squares(x: Tensor) -> Tensor:
    """Return upper bounds of the squared norms along the last axis, in float64.

    Blocks of at most 4,096 entries are summed in the precision of `x`, the blocks in float64. An
    overflow gives infinity and NaN stays NaN; both mean that the example is left out.
    """
    n = x.shape[-1]
    if n > BLOCK:
        blocks = [squares(x[..., start : start + BLOCK]) for start in range(0, n, BLOCK)]
        return torch.stack(blocks).sum(0)
    return squares_of_all([x])[0]


def squares_of_all(found: Sequence[Tensor]) -> Tensor:
    """Return `squares` of several tensors at once, alike but for a last axis of at most 4,096."""
    norms = [torch.linalg.vector_norm(x, dim=-1) for x in found]
    stacked = (torch.stack(norms) if len(norms) > 1 else norms[0].unsqueeze(0)).double()
    like = found[0]
    slack, lost = _allowances(tuple(x.shape[-1] for x in found), like.dtype, like.device)
    shape = (-1, *[1] * (stacked.dim() - 1))
    stacked = stacked.square_().mul_(slack.view(shape)).add_(lost.view(shape))
    # The root of a single square does not overflow, but so large a factor would make much of what
    # underflow does to the other one: the same limit for all.
    return stacked.masked_fill_(stacked > torch.finfo(like.dtype).max, torch.inf)


@cache
def _allowances(
    sizes: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return by what squared norms of so many entries are multiplied, and what is added to them."""
    # A norm is a root of a sum: n products, n - 1 sums, the root, and its square again.
    slack = [1.0 + 2.0 * gamma(n + 4, dtype) for n in sizes]
    lost = [2.0 * tiny(n, dtype) for n in sizes]
    made = torch.tensor([slack, lost], dtype=torch.float64, device=device)
    return made[0], made[1]


def full_precision() -> bool:
    """Say whether torch multiplies float32 as float32, whichever of its settings was used."""
    try:
        highest = torch.get_float32_matmul_precision() == "highest"
    except RuntimeError:  # the newer settings below were used, and not for full precision
        return False
    return highest and all(
        getattr(getattr(torch.backends.mkldnn, kind, None), "fp32_precision", "none")
        in ("none", "ieee")
        for kind in ("matmul", "conv", "rnn")
    )


SLACK = 1.0 - 2.0**-22
_SMALLEST, _LARGEST = 2.0**-120, 2.0**120  # infinity times a gradient of 0 would be NaN


def safe(factors: Tensor) -> Tensor:
    """Return factors in single precision, none of them NaN, infinite, or nearly nothing."""
    kept = torch.where(factors >= _SMALLEST, factors, 0.0)  # NaN compares false
    return kept.clamp(max=_LARGEST).to(torch.float32)


def shared(factors: Tensor, shares: Tensor) -> Tensor:
    """Return factors * shares in single precision, rounded down, for rows of one person.

    If factors * norms <= C and the shares of one person add up to at most 1, the products of the
    result with the norms add up to at most C for each person, whatever is rounded.
    """
    # proof: NN-PERSONS
    return safe(factors.double() * shares * SLACK)
