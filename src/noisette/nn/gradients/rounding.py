"""Upper bounds that hold in floating point: what a sum of squares may have lost to rounding.

With u half the machine epsilon, a sum of n products evaluated in any order has an error of at most
gamma_n = n u / (1 - n u) times the sum of absolute values (Higham 2002, section 3.1), plus what
underflow takes: at most one smallest normal number per product, flushed or not.
"""

import math

import torch
from torch import Tensor

__all__ = ["gamma", "squares", "tiny", "working"]

_BLOCK = 4096


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
    if n > _BLOCK:
        blocks = [squares(x[..., start : start + _BLOCK]) for start in range(0, n, _BLOCK)]
        return torch.stack(blocks).sum(0)
    # A norm is a root of a sum: n products, n - 1 sums, the root, and its square again.
    slack = 1.0 + 2.0 * gamma(n + 4, x.dtype)
    norm: Tensor = torch.linalg.vector_norm(x, dim=-1)
    return norm.double().square_().mul_(slack).add_(2.0 * tiny(n, x.dtype))
