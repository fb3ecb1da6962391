"""How a person's gradient is cut: one rule, one class. Each turns a batch into one `Bounded`.

A rule sees the norms of one micro-batch after the other (`factors`, `_note`), collects what it
needs, and then bounds the sum that these factors produced (`_bounded`). `_read` gives the caller's
view of what the door returned: the sum of clipped gradients, noisy.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from noisette import _validate
from noisette._typing import Floats
from noisette.core.adjacency import Adjacency
from noisette.core.bounded import Bounded
from noisette.errors import InvalidParameter, Unproven
from noisette.nn.gradients.rounding import SLACK, safe

COUNT_NOISE = 20.0
"""The noise on the count of small gradients is the expected batch size over this."""
MOST_FOR_COUNT = 0.1
"""The largest share of a record's squared norm that the count may take."""

LEAST, MOST = 2.0**-40, 2.0**40
"""Where a clip norm may lie: beyond, float32 sums of gradients underflow or overflow."""


def _in_range(clip_norm: float) -> float:
    C = _validate.positive("clip_norm", clip_norm)
    if not LEAST <= C <= MOST:
        raise InvalidParameter(
            f"clip_norm must lie between {LEAST:.0e} and {MOST:.0e}, where float32 serves; "
            f"got {clip_norm!r}."
        )
    return C


class Clipping(ABC):
    """Rule by which every record's gradient gets a norm of at most `clip_norm`."""

    def __init__(self, clip_norm: float = 1.0) -> None:
        self.clip_norm = _in_range(clip_norm)

    fixed = True
    """Whether `clip_norm` stays as it is during the run."""
    _extra = 0
    """How many numbers are released beside the gradient."""

    @abstractmethod
    def factors(self, norms: Tensor) -> Tensor:
        """Return each record's factor, at most `clip_norm` / norm, from upper bounds of norms."""

    def _note(self, norms: Tensor, shares: Tensor | None) -> None:  # noqa: B027
        """Take note of a micro-batch for `_counts`; `shares` weigh the rows within persons."""

    def _counts(self) -> Floats:
        """Return the further numbers of the present batch, sums over records, and forget them."""
        return np.empty(0)

    def _bounded(self, total: Floats, adjacency: Adjacency, batch: float, z: float) -> Bounded:
        """Bound the sum of a batch of expected size `batch`, counts behind, for noise `z`."""
        # proof: NN-CLIP
        return Bounded(total, contribution=self.clip_norm, adjacency=adjacency, proof="NN-CLIP")

    def _read(self, noisy: Floats, batch: float, z: float) -> Floats:
        """Return the noisy sum of clipped gradients from what the door returned."""
        return noisy

    def _state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps; all of it was released."""
        return {"clip_norm": self.clip_norm}

    def _restore(self, state: dict[str, Any]) -> None:
        """Take up what `_state` gave."""
        self.clip_norm = _in_range(state["clip_norm"])


class Flat(Clipping):
    """Clip to g min(1, C / |g|): gradients within C are left as they are.

    Parameters
    ----------
    clip_norm : float, default 1.0
        The norm C that no record's gradient passes.

    Examples
    --------
    >>> import torch
    >>> from noisette.nn import Flat
    >>> found = Flat(clip_norm=2.0).factors(torch.tensor([1.0, 4.0]))
    >>> [round(factor, 3) for factor in found.tolist()]
    [1.0, 0.5]

    """

    def factors(self, norms: Tensor) -> Tensor:
        """Return min(1, C / norm)."""
        # proof: NN-CLIP
        return safe((self.clip_norm * SLACK / norms.double()).clamp(max=1.0))


class Automatic(Clipping):
    """Clip to g C / (|g| + gamma): nearly normalised, so C becomes part of the learning rate.

    Bu, Wang, Zha and Karypis 2022. The result is shorter than C as well.

    Parameters
    ----------
    clip_norm : float, default 1.0
        The norm C that no record's gradient passes.
    gamma : float, default 0.01
        Keeps small gradients smaller than large ones.

    Examples
    --------
    >>> import torch
    >>> from noisette.nn import Automatic
    >>> found = Automatic(clip_norm=1.0, gamma=1.0).factors(torch.tensor([1.0, 3.0]))
    >>> [round(factor, 3) for factor in found.tolist()]
    [0.5, 0.25]

    """

    def __init__(self, clip_norm: float = 1.0, gamma: float = 0.01) -> None:
        super().__init__(clip_norm)
        self.gamma = _validate.positive("gamma", gamma)

    def factors(self, norms: Tensor) -> Tensor:
        """Return C / (norm + gamma)."""
        # proof: NN-CLIP
        return safe(self.clip_norm * SLACK / (norms.double() + self.gamma))


class Adaptive(Flat):
    """Flat clipping at a norm that follows a quantile of the gradients' norms, privately.

    Andrew, Thakkar, McMahan and Ramaswamy 2021. The count of gradients within C_t is released with
    the gradient in *one* noisy vector: record i contributes (a g_i / C_t, k (b_i - 1/2)) with
    a^2 + k^2 / 4 = 1, whose norm is at most 1, so the step costs what its noise multiplier says.

    Parameters
    ----------
    clip_norm : float, default 1.0
        The norm C_0 to begin with.
    quantile : float, default 0.5
        The share of gradients that should be within C_t.
    learning_rate : float, default 0.2
        How fast C_t follows.

    Raises
    ------
    InvalidParameter
        If `quantile` does not lie in (0, 1), or a number is out of range.

    Examples
    --------
    >>> import torch
    >>> from noisette.nn import Adaptive
    >>> rule, norms = Adaptive(clip_norm=2.0, quantile=0.5), torch.tensor([1.0, 4.0])
    >>> [round(factor, 3) for factor in rule.factors(norms).tolist()]
    [1.0, 0.5]

    """

    fixed = False
    _extra = 1

    def __init__(
        self, clip_norm: float = 1.0, quantile: float = 0.5, learning_rate: float = 0.2
    ) -> None:
        super().__init__(clip_norm)
        self.quantile = _validate.real("quantile", quantile)
        if not 0.0 < self.quantile < 1.0:
            raise InvalidParameter(f"quantile must lie in (0, 1); got {quantile!r}.")
        self.learning_rate = _validate.positive("learning_rate", learning_rate)
        self._small = 0.0

    def _note(self, norms: Tensor, shares: Tensor | None) -> None:
        """Count who is within C: the b_i - 1/2 of records, weighted within a person."""
        # A norm that is not finite is not within C; its record has factor 0.
        found = (norms <= self.clip_norm).to(torch.float64) - 0.5
        self._small += float((found if shares is None else found * shares).sum())

    def _counts(self) -> Floats:
        """Return sum_i (b_i - 1/2) of the present batch, and start the next."""
        found, self._small = self._small, 0.0
        return np.array([found])

    def _weights(self, batch: float, z: float) -> tuple[float, float]:
        """Return a and k: the count's noise is z / k = batch / COUNT_NOISE where that is cheap."""
        share = min((COUNT_NOISE * z / batch) ** 2 / 4.0, MOST_FOR_COUNT)
        # Rounded down together, so that a^2 + k^2 / 4 <= 1 in floating point as well.
        shrink = 1.0 - 2.0**-40
        return float(np.sqrt(1.0 - share) * shrink), float(2.0 * np.sqrt(share) * shrink)

    def _bounded(self, total: Floats, adjacency: Adjacency, batch: float, z: float) -> Bounded:
        """Return the joint vector; each record's part has norm at most 1."""
        # proof: NN-ADAPTIVE
        a, k = self._weights(batch, z)
        joint = total.copy()
        joint[:-1] *= a / self.clip_norm
        joint[-1] *= k
        return Bounded(joint, contribution=1.0, adjacency=adjacency, proof="NN-ADAPTIVE")

    def _read(self, noisy: Floats, batch: float, z: float) -> Floats:
        """Move C_t by the noisy share of small gradients and return the noisy sum."""
        a, k = self._weights(batch, z)
        share = min(max(noisy[-1] / (k * batch) + 0.5, 0.0), 1.0)
        total = noisy[:-1] * (self.clip_norm / a)
        moved = self.clip_norm * float(np.exp(-self.learning_rate * (share - self.quantile)))
        self.clip_norm = min(max(moved, 1e-6), 1e6)
        return total


RULES: dict[str, type[Clipping]] = {"flat": Flat, "automatic": Automatic, "adaptive": Adaptive}
"""Every rule that is proven: a record's factor follows from its own norm and public facts."""


def as_clipping(clipping: "Clipping | str", clip_norm: float) -> Clipping:
    """Return the rule for a name, starting at `clip_norm`; a rule is returned as it is.

    A class of one's own is refused: a factor that looks at other norms, or remembers them, keeps
    each record within the clip norm and still lets one record move all others.
    """
    # proof: NN-CLIP
    if isinstance(clipping, Clipping):
        if type(clipping) not in RULES.values():
            raise Unproven(
                f"clipping by a class of one's own ({type(clipping).__name__}) has no proof, since "
                f"its factors may depend on other records; use {', '.join(RULES)}."
            )
        return clipping
    return RULES[_validate.choice("clipping", clipping, RULES)](clip_norm)
