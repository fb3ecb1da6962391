"""Clipped gradients: the sum over a batch, every example's part within the clip norm."""

from noisette.nn.gradients import (  # the kinds register themselves
    attention,
    conv,
    embedding,
    factors,
    group_norm,
    instance_norm,
    layer_norm,
    linear,
    recurrent,
)
from noisette.nn.gradients.clipped import ClippedGradients, check_module

__all__ = [
    "ClippedGradients",
    "attention",
    "check_module",
    "conv",
    "embedding",
    "factors",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "linear",
    "recurrent",
]
