"""Counts of keys that nobody listed beforehand: Gaussian noise, and a bar that hides rare keys."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtri

from noisette import _validate
from noisette._typing import Floats
from noisette.core.adjacency import Adjacency
from noisette.core.bounded import Bounded
from noisette.core.mechanisms.base import Checks, Mechanism, on_grid
from noisette.core.mechanisms.gaussian import Gaussian
from noisette.core.summaries import count_move
from noisette.errors import PermitError

_ROUND_UP = 1.0 + 1e-12  # roundings of the quantile, of T and of one person's summed weights


@dataclass(frozen=True)
class GaussianThreshold(Mechanism):
    """Add Gaussian noise to the counts of the keys that occur; show those that reach a bar T.

    The value is the vector of (weighted) counts of all keys that occur in `columns` columns
    together; only the entries that are not NaN afterwards are released, and with them their keys.
    A person alone with a key counts at most 1 for it and holds at most `keys` keys per column, so

        T = 1 + sigma * Phi^-1((1 - delta_mass)^(1 / (columns * keys)))

    lets any of them pass with probability at most `delta_mass`. Otherwise one use is the Gaussian
    mechanism on the keys that both neighbours have: delta(e) = delta_mass + (1 - delta_mass) HS(e).

    Parameters
    ----------
    noise_multiplier : float
        The ratio sigma / C, as for `Gaussian`: mu = contributions / noise_multiplier. With f
        columns sigma is noise_multiplier * sqrt(f), under replace-one * sqrt(f / 2).
    delta_mass : float
        The probability that a key shows which one person alone holds.
    columns : int, default 1
        The number f of columns that are counted in one vector.
    keys : int, default 1
        How many different keys one person may have in one column (1 if a person is a row).

    Examples
    --------
    >>> from noisette.adjacency import Adjacency
    >>> from noisette.mechanisms import GaussianThreshold
    >>> noise = GaussianThreshold(5.0, delta_mass=1e-6)
    >>> noise.sigma(Adjacency.ADD_REMOVE), noise.shift(Adjacency.ADD_REMOVE)
    (5.0, 0.2)
    >>> round(noise.threshold(Adjacency.ADD_REMOVE), 2)
    24.77

    """

    noise_multiplier: float
    delta_mass: float
    columns: int = 1
    keys: int = 1

    name: ClassVar[str] = "gaussian-threshold"
    norm: ClassVar[str] = "l2"
    proof: ClassVar[str] = "CATEGORY-THRESHOLD"
    checks: ClassVar[Checks] = {
        "noise_multiplier": _validate.positive, "delta_mass": _validate.fraction,
        "columns": _validate.integer, "keys": _validate.integer,
    }  # fmt: skip

    @property
    def additive(self) -> Gaussian:
        """The mechanism on the keys that both neighbours have."""
        return Gaussian(self.noise_multiplier)

    def shift(self, adjacency: Adjacency) -> float:
        """Return sensitivity / noise scale between neighbours."""
        return adjacency.contributions / self.noise_multiplier

    def sigma(self, adjacency: Adjacency) -> float:
        """Return the standard deviation of the noise on one count."""
        return self.noise_multiplier * count_move(self.columns, adjacency) / adjacency.contributions

    def threshold(self, adjacency: Adjacency) -> float:
        """Return the bar T, rounded up."""
        # proof: CATEGORY-THRESHOLD
        tail = -math.expm1(math.log1p(-self.delta_mass) / (self.columns * self.keys))
        return (1.0 - self.sigma(adjacency) * float(ndtri(tail))) * _ROUND_UP

    def pure_epsilon(self, adjacency: Adjacency) -> float:
        """There is none: a key may always pass."""
        return math.inf

    def delta(self, epsilon: float, adjacency: Adjacency) -> float:
        """Return delta_mass + (1 - delta_mass) HS(epsilon), rounded up."""
        # proof: CATEGORY-THRESHOLD
        smooth = self.additive.delta(epsilon, adjacency)
        return min(1.0, (self.delta_mass + (1.0 - self.delta_mass) * smooth) * (1.0 + 2.0**-50))

    def log_moment(self, s: Floats, adjacency: Adjacency) -> Floats:
        """Return inf: the loss is infinite with probability delta_mass."""
        return np.full_like(np.asarray(s, dtype=float), np.inf)

    def check_value(self, bounded: Bounded) -> None:
        """Refuse counts of another number of columns, and values of another theorem."""
        super().check_value(bounded)
        # The bar knows more than the norm: one person's count, and how many keys one may hold.
        if bounded.proof != self.proof:
            raise PermitError(f"{self.name} noise is for counts of keys; the value is none.")
        moved = count_move(self.columns, bounded.adjacency)
        assert bounded.l2 is not None
        if bounded.contribution is not None or abs(bounded.l2 / moved - 1.0) > 1e-9:
            raise PermitError(
                f"the plan charges counts of {self.columns} columns, whose l2 bound is "
                f"{moved:g} under {bounded.adjacency}, but the value states another bound."
            )

    def apply(self, bounded: Bounded, unit: float, generator: np.random.Generator) -> Floats:
        """Return the noisy counts of the keys that pass, NaN for all others."""
        sigma = self.sigma(bounded.adjacency)
        counts = np.asarray(bounded.value, dtype=np.float64)
        noisy = counts + sigma * generator.standard_normal(counts.shape)
        shown = noisy >= self.threshold(bounded.adjacency)
        return np.where(shown, on_grid(noisy, self.additive.grid(unit)), np.nan)
