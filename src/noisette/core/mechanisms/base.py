"""What every mechanism offers: public parameters, privacy curves, noise.

Units. Noise is stated relative to the *contribution bound* C of one record (``noise_multiplier``
is noise scale / C), because C is what a training algorithm enforces. How far neighbours can move
the sum is `Adjacency.contributions` times C, so one mechanism has one curve per relation.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from noisette import _validate
from noisette._typing import Floats
from noisette.core.adjacency import Adjacency
from noisette.core.bounded import Bounded
from noisette.errors import InvalidParameter, PermitError

Checks = dict[str, Callable[[str, Any], object]]
BULK = 1 << 13  # numbers in one sum; below, loading compiled code costs more than it saves


@dataclass(frozen=True)
class Mechanism(ABC):
    """One way to make a bounded value private. Parameters are public and frozen.

    In all methods `adjacency` is the neighbouring relation (`Unproven` is raised where there is no
    theorem for it), `unit` the contribution bound C that the noise multiplies, and `generator`
    where the noise comes from.

    Examples
    --------
    >>> from noisette import mechanisms
    >>> from noisette.adjacency import REPLACE_ONE, ZERO_OUT
    >>> noise = mechanisms.MECHANISMS["laplace"](noise_multiplier=4.0)
    >>> isinstance(noise, mechanisms.Mechanism), noise.norm, noise.parameters()
    (True, 'l2', {'noise_multiplier': 4.0})
    >>> noise.pure_epsilon(REPLACE_ONE), noise.pure_epsilon(ZERO_OUT)
    (0.5, 0.25)

    """

    name: ClassVar[str]
    norm: ClassVar[str]
    """Which bound of a `Bounded` the proof needs: ``l2``, ``l1``, ``linf`` or ``categories``."""
    proof: ClassVar[str]
    """Id of the theorem in docs/theory/theorems.md."""
    checks: ClassVar[Checks] = {}
    """What returns the value of a field, or refuses it."""

    def __post_init__(self) -> None:
        _validate.fields(self, **self.checks)

    @abstractmethod
    def pure_epsilon(self, adjacency: Adjacency) -> float:
        """Return the smallest epsilon with delta = 0 (inf if there is none)."""

    @abstractmethod
    def delta(self, epsilon: float, adjacency: Adjacency) -> float:
        """Return an upper bound on the exact delta(epsilon) of one use, any real epsilon."""

    @abstractmethod
    def log_moment(self, s: Floats, adjacency: Adjacency) -> Floats:
        """Return the lecture's moment function log E exp(s * loss), worst neighbours, s > 0."""

    def renyi(self, order: Floats, adjacency: Adjacency) -> Floats:
        """Return the Renyi divergence bound at `order` > 1: log_moment(order - 1)/(order - 1)."""
        s = np.asarray(order, dtype=float) - 1.0
        return np.asarray(self.log_moment(s, adjacency) / s)

    def mu(self, adjacency: Adjacency) -> float | None:
        """Return mu if one use is exactly mu-GDP (Gaussian), else None."""
        return None

    def check_value(self, bounded: Bounded) -> None:
        """Raise if the proof does not cover this value, before anything is booked or drawn.

        `PermitError` if its bound or its size is not what was charged, `Unproven` if there is no
        theorem for its size.
        """
        if bounded.norm != self.norm:
            raise PermitError(
                f"{self.name} noise needs a bound in {self.norm}, but the value is bounded in "
                f"{bounded.norm}."
            )
        charged = getattr(self, "dimension", None)  # None: any, or left open
        if charged is not None and bounded.dimension != charged:
            raise PermitError(
                f"the plan charges {self.name} noise in {charged} dimensions but the value has "
                f"{bounded.dimension}; charge the dimension that runs."
            )

    @abstractmethod
    def apply(self, bounded: Bounded, unit: float, generator: np.random.Generator) -> Any:
        """Return the private version of ``bounded.value``; only `privacy.release` calls this."""

    def parameters(self) -> dict[str, Any]:
        """Return the public parameters, for JSON."""
        return dict(vars(self))  # nothing but the fields, in their order


@dataclass(frozen=True)
class AdditiveNoise(Mechanism):
    """A mechanism that adds independent noise to a vector."""

    noise_multiplier: float
    piece: ClassVar[int] = 0
    """The most coordinates drawn at a time; 0 draws all, where they depend on each other."""
    in_steps: ClassVar[bool] = False
    """Whether SGD may add it to sums of gradients, asked for by its name."""
    proportional: ClassVar[bool] = False
    """Whether a value that moves by a share c of its bound costs c times as much, in pure epsilon
    or in mu: what PER-PERSON-SCALE needs."""
    checks: ClassVar[Checks] = {"noise_multiplier": _validate.positive}

    @classmethod
    def of(cls, noise_multiplier: float, dimension: int) -> "AdditiveNoise":
        """Return this noise for vectors of `dimension` entries."""
        return cls(noise_multiplier)

    @classmethod
    def least(
        cls, epsilon: float, delta: float, dimension: int, adjacency: Adjacency
    ) -> "AdditiveNoise | None":
        """Return the least noise for one use where a formula gives it; None leaves it to search."""
        return None

    @property
    @abstractmethod
    def spread(self) -> float:
        """The standard deviation of one coordinate, in units of ``noise_multiplier * C``."""

    @abstractmethod
    def noise(
        self, count: int, dimension: int, unit: float, generator: np.random.Generator
    ) -> Floats:
        """Return `count` noise vectors, shape (count, dimension), for contribution bound `unit`."""

    def shift(self, adjacency: Adjacency) -> float:
        """Return sensitivity / noise scale between neighbours: contributions / multiplier."""
        return adjacency.contributions / self.noise_multiplier

    def apply(self, bounded: Bounded, unit: float, generator: np.random.Generator) -> Floats:
        """Return value + noise, rounded to the grid of `grid` so that no low bit speaks.

        Sum and rounding are in float64; the result then has the precision of the value. Independent
        coordinates are drawn piece by piece, near the processor: the hot path of networks.
        """
        value, grid = bounded.value, self.grid(unit)
        flat, noisy = value.reshape(-1), np.empty(value.size, dtype=value.dtype)
        step = value.size
        if self.piece:  # pieces alike in length: a short one at the end would be drawn slowly
            step = -(-value.size // -(-value.size // self.piece))
        for start in range(0, value.size, step):
            entries = flat[start : start + step]
            drawn = self.noise(1, entries.size, unit, generator)[0]
            # proof: FLOAT-GRID
            if drawn.size < BULK:
                drawn += entries
                noisy[start : start + step] = on_grid(drawn, grid, out=drawn)
            else:
                from noisette.core.ziggurat import add_on_grid  # loads numba

                add_on_grid(drawn, entries, grid, noisy[start : start + step])
        return noisy.reshape(value.shape)

    def grid(self, unit: float) -> float:
        """Return the public grid, a power of two near 2**-24 noise scales."""
        # proof: FLOAT-GRID
        return float(2.0 ** (math.floor(math.log2(self.noise_multiplier * unit)) - 24))


def require_scale(scale: float) -> None:
    """Raise where float64 would round the noise to 0, or to infinity."""
    if not 1e-250 < scale < 1e250:
        raise PermitError(f"a noise scale of {scale:g} is outside what float64 can serve.")


def on_grid(values: Floats, grid: float, out: Floats | None = None) -> Floats:
    """Round to multiples of `grid`: post-processing that also hides floating-point residue."""
    rounded = np.asarray(np.divide(values, grid, out=out))
    np.rint(rounded, out=rounded)
    rounded *= grid
    rounded += 0.0  # turns -0.0 into 0.0
    return rounded


def smallest_multiplier(contributions: int, epsilon: float) -> float:
    """Return the least float z with contributions / z <= epsilon, in floating point as well."""
    z = contributions / epsilon
    if not math.isfinite(z) or z <= 0.0:
        raise InvalidParameter(f"epsilon={epsilon!r} is outside what floating point can serve.")
    while contributions / z > epsilon:
        z = math.nextafter(z, math.inf)
    return z
