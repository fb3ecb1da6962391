"""Independent Laplace noise on every entry of a vector whose l1 sensitivity is known."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from noisette import _validate
from noisette._typing import Floats
from noisette.core.adjacency import Adjacency
from noisette.core.bounded import Bounded
from noisette.core.mechanisms.base import Mechanism, on_grid
from noisette.core.mechanisms.pure_moments import response_log_moment
from noisette.errors import PermitError

_ROUND_UP = 1.0 + 1e-13


@dataclass(frozen=True)
class LaplaceVector(Mechanism):
    """Add noise of density exp(-|z| / b) / (2 b) to each entry, b = noise_multiplier * C.

    C = (l1 sensitivity) / contributions, so one use is pure contributions / noise_multiplier, in
    any dimension. Only that is used: the curve is the one of randomised response.

    Parameters
    ----------
    noise_multiplier : float
        The scale b in units of C.

    Examples
    --------
    >>> from noisette.adjacency import Adjacency
    >>> from noisette.mechanisms import LaplaceVector
    >>> LaplaceVector(4.0).pure_epsilon(Adjacency.REPLACE_ONE)
    0.5

    """

    noise_multiplier: float

    name: ClassVar[str] = "laplace-vector"
    norm: ClassVar[str] = "l1"
    proof: ClassVar[str] = "LAPLACE-L1"

    def __post_init__(self) -> None:
        z = _validate.positive("noise_multiplier", self.noise_multiplier)
        object.__setattr__(self, "noise_multiplier", z)

    def pure_epsilon(self, adjacency: Adjacency) -> float:
        """Return (l1 sensitivity) / b."""
        # proof: LAPLACE-L1
        return adjacency.contributions / self.noise_multiplier

    def delta(self, epsilon: float, adjacency: Adjacency) -> float:
        """Return the curve of randomised response, any real epsilon, rounded up."""
        # proof: PURE-RR
        epsilon, pure = _validate.real("epsilon", epsilon), self.pure_epsilon(adjacency)
        if epsilon >= pure:
            return 0.0
        if epsilon <= -pure:
            return min(1.0, -math.expm1(epsilon) * _ROUND_UP)
        return min(1.0, -math.expm1(epsilon - pure) / (1.0 + math.exp(-pure)) * _ROUND_UP)

    def log_moment(self, s: Floats, adjacency: Adjacency) -> Floats:
        """Return the moments of randomised response."""
        return response_log_moment(s, self.pure_epsilon(adjacency))

    def check_value(self, bounded: Bounded) -> None:
        """Refuse a noise scale that float64 cannot serve."""
        super().check_value(bounded)
        if not 1e-250 < self._scale(bounded) < 1e250:
            raise PermitError(
                f"a noise scale of {self._scale(bounded):g} is outside what float64 can serve."
            )

    def _scale(self, bounded: Bounded) -> float:
        assert bounded.l1 is not None
        return self.noise_multiplier * bounded.l1 / bounded.adjacency.contributions

    def apply(self, bounded: Bounded, unit: float, generator: np.random.Generator) -> Floats:
        """Return value + noise, on a public grid."""
        scale = self._scale(bounded)
        drawn = generator.laplace(scale=scale, size=bounded.value.shape)
        # proof: FLOAT-GRID
        grid = float(2.0 ** (math.floor(math.log2(scale)) - 24))
        return on_grid(bounded.value + drawn, grid)
