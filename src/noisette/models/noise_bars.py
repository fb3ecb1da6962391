"""`NoiseBars`: how much of each weight of a linear model is the noise of its training."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from noisette._typing import Floats
from noisette.fitting.algorithms import Trained
from noisette.fitting.algorithms.recommend import Recommendation
from noisette.fitting.algorithms.whitening import NoisyWeights
from noisette.fitting.losses import Softmax

LAWS = {
    "known": "The noise was added to the weights, so its law is public and exact.",
    "curvature": (
        "The law of the noise in the objective is public; how far it moves the weights is "
        "estimated from the released second moment, for rows of a normal law (model-based; for "
        "Huber's loss as if no residual were beyond the threshold, so it may be more)."
    ),
    "hidden": (
        "The model has no noise bars: the noise is in the objective, and how far it moves the "
        "weights depends on curvatures that were not released (whiten=True releases them)."
    ),
    "model": (
        "Sampling and noise together, from released sums and the known law of the noise "
        "(model-based)."
    ),
    "persons": (
        "The model has no bars: the rows of one person are not independent, so sums of rows do not "
        "tell how far the weights are off."
    ),
    "none": (
        "The model has no noise bars: how far the noise of many steps moves the weights depends on "
        "curvatures that were not released."
    ),
}
"""What is known of the noise, and why."""


@dataclass(frozen=True, eq=False)
class NoiseBars:
    """The standard deviation of the noise in every weight of a linear model.

    Parameters
    ----------
    law : str
        What is known of it: "known" (exact), "curvature" (an estimate), "model" (sampling too),
        "hidden", "persons" or "none" (nothing, and why).
    coef : ndarray or None
        One number for each entry of ``coef_``; None where nothing is known.
    intercept : ndarray or None
        One number for each entry of ``intercept_``.

    """

    law: str = "none"
    coef: Floats | None = None
    intercept: Floats | None = None

    def __eq__(self, other: object) -> bool:
        """Whether all numbers are the same."""
        return isinstance(other, NoiseBars) and self.to_dict() == other.to_dict()

    @property
    def says(self) -> str:
        """The sentence that goes with the numbers."""
        return LAWS[self.law]

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, for a file."""
        return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in vars(self).items()}


def bars_of_fit(
    model: Any, trained: Trained, chosen: Recommendation, bias: float | None, scale: float = 1.0
) -> NoiseBars:
    """Return the noise of weights that were just published; `scale` is the target's half range."""
    law, each = "known", None
    if isinstance(trained.released, NoisyWeights):
        law, each = "curvature", trained.released.noise
    elif chosen.algorithm.name == "output":
        each = chosen.algorithm.prepare(chosen.public).weight_noise
    if each is None:
        return NoiseBars("hidden")
    features = model.coef_.shape[-1]
    full = np.broadcast_to(each, (features + (bias is not None),)) * scale
    if isinstance(chosen.public.loss, Softmax):  # from isometric coordinates to a class's weights
        classes = len(model.classes_)
        full = full * float(np.sqrt(2.0 if classes == 2 else 1.0 - 1.0 / classes))
    coef = np.broadcast_to(full[:features], model.coef_.shape).copy()
    outer = 0.0 if bias is None else float(full[-1]) * bias
    return NoiseBars(law, coef, np.full(np.shape(model.intercept_), outer))


def read_noise_bars(node: Any, model: Any) -> NoiseBars:
    """Return what `NoiseBars.to_dict` wrote; TypeError or KeyError if it is none."""
    law, shapes = node["law"], (np.shape(model.coef_), np.shape(model.intercept_))
    if law not in LAWS:
        raise TypeError
    if node["coef"] is None:
        return NoiseBars(law)
    arrays = [np.array(node[key], dtype=np.float64) for key in ("coef", "intercept")]
    if any(a.shape != s or not np.isfinite(a).all() for a, s in zip(arrays, shapes, strict=True)):
        raise TypeError
    return NoiseBars(law, *arrays)
