"""Clipped gradients: the sum over a batch, every example's part within the clip norm."""

from noisette.nn.gradients import chance, composed, conv, linear, normalisation, rounding
from noisette.nn.gradients.clipped import ClippedGradients, check_module

__all__ = [  # the rules register themselves
    "ClippedGradients", "chance", "check_module", "composed", "conv", "linear", "normalisation",
    "rounding",
]  # fmt: skip
