"""Clipped gradients: the sum over a batch, every example's part within the clip norm."""

from noisette.nn.gradients import (  # the rules register themselves
    attention,
    chance,
    conv,
    embedding,
    factors,
    linear,
    losses,
    normalisation,
    recurrent,
)
from noisette.nn.gradients.clipped import ClippedGradients, check_module

__all__ = [
    "ClippedGradients",
    "attention",
    "chance",
    "check_module",
    "conv",
    "embedding",
    "factors",
    "linear",
    "losses",
    "normalisation",
    "recurrent",
]
