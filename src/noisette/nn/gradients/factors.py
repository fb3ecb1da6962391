"""Clip factors: from an upper bound of each example's gradient norm to what multiplies it.

Each function returns a map norms -> factors with factors * norms <= C, exactly, also after the
factors were rounded to float32: they are rounded down by 2^-22 first, and those too small to be
normal numbers become 0. A norm of infinity or NaN gives 0.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from noisette import _validate

_SLACK = 1.0 - 2.0**-22
_SMALLEST, _LARGEST = 2.0**-120, 2.0**120  # infinity times a gradient of 0 would be NaN

Factors = Callable[[Tensor], Tensor]


def _safe(factors: Tensor) -> Tensor:
    kept = torch.where(factors >= _SMALLEST, factors, 0.0)  # NaN compares false
    return kept.clamp(max=_LARGEST).to(torch.float32)


def flat(C: float) -> Factors:
    """Return norms -> min(1, C / norm): longer gradients are cut down to norm C."""
    C = _validate.positive("the clip norm", C)

    def factors(norms: Tensor) -> Tensor:
        # proof: NN-CLIP
        return _safe((C * _SLACK / norms.double()).clamp(max=1.0))

    return factors


def automatic(C: float, gamma: float = 0.01) -> Factors:
    """Return norms -> C / (norm + gamma): every gradient is normalised to almost C (Bu et al.)."""
    C = _validate.positive("the clip norm", C)
    gamma = _validate.positive("gamma", gamma)

    def factors(norms: Tensor) -> Tensor:
        # proof: NN-CLIP
        return _safe(C * _SLACK / (norms.double() + gamma))

    return factors


def shared(factors: Tensor, shares: Tensor) -> Tensor:
    """Return factors * shares in single precision, rounded down, for rows of one person.

    If factors * norms <= C and the shares of one person add up to at most 1, the products of the
    result with the norms add up to at most C for each person, whatever is rounded.
    """
    # proof: NN-PERSONS
    return _safe(factors.double() * shares * _SLACK)
