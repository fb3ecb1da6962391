"""The laws of the number of runs of a private search: public, and fixed before the first look.

A law is known by its `weight`, f'(1 - s) for the generating function f(x) = E x^K: the density of
the best of K runs is the density of one run times the weight of s, the chance that one run is
better. All laws have K >= 1, so a search always returns something.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from functools import lru_cache
from inspect import signature
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import brentq

from noisette import _validate
from noisette._typing import Floats
from noisette.core import by_name
from noisette.errors import InvalidParameter

LEAST_MEAN, LARGEST_MEAN = 1.0 + 1e-6, 1000.0  # nearer to 1 the rate is no longer found
_LONGEST = math.log(1e5)  # of log(1 / gamma): the law is drawn from a table of 60 / gamma chances


@dataclass(frozen=True)
class RunLaw(ABC):
    """Base of all laws of the number of runs K."""

    mean: float

    name: ClassVar[str]

    def __post_init__(self) -> None:
        mean = _validate.real("mean", self.mean)
        if not LEAST_MEAN <= mean <= LARGEST_MEAN:
            raise InvalidParameter(
                f"mean must be above 1 and at most {LARGEST_MEAN:g}; got {self.mean!r}."
            )
        object.__setattr__(self, "mean", mean)

    @abstractmethod
    def weight(self, s: Any) -> Floats:
        """Return f'(1 - s), which falls from the mean at s = 0."""

    @abstractmethod
    def ratio(self, k: Any) -> Floats:
        """Return Pr[K = k + 1] / Pr[K = k]."""

    @property
    @abstractmethod
    def _decay(self) -> float:
        """The limit of 1 - ratio, at least 1e-5: how fast the tail falls."""

    @abstractmethod
    def _steps(self, count: int) -> Floats:
        """Return s from 0 to 1 such that the weight falls by equal factors."""

    def grid(self) -> Floats:
        """Return increasing s from 0 to 1, fine where the weight moves and near 0."""
        near = np.geomspace(1e-12, 1.0, 1500)
        return np.unique(np.clip(np.concatenate((self._steps(3000), near, [0.0, 1.0])), 0.0, 1.0))

    def probabilities(self, count: int) -> Floats:
        """Return Pr[K = 1], ..., Pr[K = count]."""
        k = np.arange(1, _validate.integer("count", count))
        return np.asarray(self.weight(1.0) * np.concatenate(([1.0], np.cumprod(self.ratio(k)))))

    def draw(self, generator: np.random.Generator) -> int:
        """Draw the number of runs; it is secret."""
        # One coin after the other: each probability is right to about K 2^-50, relatively, so
        # epsilon moves by no more; a table of sums would lose the tail. proof: SELECT-PROFILE
        hazards, k = _hazard_table(self), 1
        while generator.random() >= hazards[min(k, len(hazards)) - 1]:
            k += 1
        return k

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready facts."""
        # where the name says the shape, the constructor takes no other
        told = (item.name for item in fields(self) if item.name in signature(type(self)).parameters)
        return {"name": self.name, **{name: getattr(self, name) for name in told}}

    @staticmethod
    def from_dict(node: Any) -> "RunLaw":
        """Return the law that `to_dict` describes."""
        facts = dict(node)
        law: RunLaw = LAWS[_validate.choice("law", facts.pop("name"), LAWS)](**facts)
        return law


@lru_cache(maxsize=32)
def _hazard_table(law: RunLaw) -> tuple[float, ...]:
    """Return Pr[K = k | K >= k] for k = 1, 2, ..., up to where it changes no more."""
    # Pr[K >= k] / Pr[K = k] = 1 + ratio(k) Pr[K >= k + 1] / Pr[K = k + 1]: sums of positive
    # numbers, from the far end, where what the start was is forgotten.
    count = math.ceil(60.0 / law._decay + 4.0 * law.mean + 100.0)
    inverse, found = 1.0 / law._decay, []
    for ratio in law.ratio(np.arange(count, 0, -1)).tolist():
        inverse = 1.0 + ratio * inverse
        found.append(1.0 / inverse)
    return tuple(reversed(found))


# Kept here and not in the law: what an object remembers would tell whether it was asked.
@lru_cache(maxsize=256)
def _gamma(mean: float, eta: float) -> float:
    return math.exp(-float(brentq(lambda u: _mean(u, eta) - mean, 1e-9, _LONGEST, xtol=1e-14)))


@lru_cache(maxsize=256)
def _rate(mean: float) -> float:
    return float(brentq(lambda m: -m / math.expm1(-m) - mean, 1e-9, 1001.0, xtol=1e-14))


@dataclass(frozen=True)
class NegativeBinomial(RunLaw):
    """Truncated negative binomial: f'(1 - s) = E K (g / (g + (1 - g) s))^(eta + 1).

    Parameters
    ----------
    mean : float
        The mean number of runs, above 1 and at most 1000.
    eta : float, default 0.5
        The shape, in (-1, 10]: 0 is logarithmic, 1 is geometric. The smaller, the cheaper and the
        wilder the number of runs.

    Raises
    ------
    InvalidParameter
        If a number is out of range.

    Examples
    --------
    >>> from noisette import plans
    >>> law = plans.NegativeBinomial(mean=10.0, eta=1.0)
    >>> law.probabilities(3).round(4)  # a geometric law
    array([0.1  , 0.09 , 0.081])

    """

    eta: float = 0.5

    name: ClassVar[str] = "negative-binomial"

    def __post_init__(self) -> None:
        super().__post_init__()
        eta = _validate.real("eta", self.eta)
        if not -1.0 < eta <= 10.0:
            raise InvalidParameter(f"eta must be above -1 and at most 10; got {self.eta!r}.")
        object.__setattr__(self, "eta", eta)
        if _mean(_LONGEST, eta) < self.mean:
            raise InvalidParameter(
                f"no law with eta={eta:g} that can be drawn has the mean {self.mean:g}; "
                "take a larger eta or a smaller mean."
            )

    @property
    def gamma(self) -> float:
        """The papers' gamma in (0, 1), which the mean decides."""
        return _gamma(self.mean, self.eta)

    def weight(self, s: Any) -> Floats:
        """Return E K (g / (g + (1 - g) s))^(eta + 1)."""
        g, s = self.gamma, np.asarray(s, dtype=float)
        exact = _mean(-math.log(g), self.eta)
        return np.asarray(exact * (g / (g + (1.0 - g) * s)) ** (self.eta + 1.0))

    def ratio(self, k: Any) -> Floats:
        """Return (1 - g) (k + eta) / (k + 1)."""
        k = np.asarray(k, dtype=float)
        return np.asarray((1.0 - self.gamma) * (k + self.eta) / (k + 1.0))

    @property
    def _decay(self) -> float:
        return self.gamma

    def _steps(self, count: int) -> Floats:
        g = self.gamma
        return np.asarray((np.geomspace(g, 1.0, count) - g) / (1.0 - g))


def _mean(u: float, eta: float) -> float:
    """Return E K for gamma = e^-u."""
    last = u if eta == 0.0 else -math.expm1(-eta * u) / eta
    return -math.expm1(-u) * math.exp(u) / last


class _OfShape(NegativeBinomial):
    """A negative binomial law whose name says its shape."""

    shape: ClassVar[float]

    def __init__(self, mean: float) -> None:
        super().__init__(mean, self.shape)


class Logarithmic(_OfShape):
    """The logarithmic law: often few runs, sometimes many; the cheapest.

    Parameters
    ----------
    mean : float
        The mean number of runs, above 1 and at most 1000.

    Examples
    --------
    >>> from noisette import plans
    >>> plans.Logarithmic(mean=10.0).probabilities(3).round(3)
    array([0.269, 0.131, 0.085])

    """

    name: ClassVar[str] = "logarithmic"
    shape: ClassVar[float] = 0.0


class Geometric(_OfShape):
    """The geometric law.

    Parameters
    ----------
    mean : float
        The mean number of runs, above 1 and at most 1000.

    Examples
    --------
    >>> from noisette import plans
    >>> plans.Geometric(mean=4.0).probabilities(2)
    array([0.25  , 0.1875])

    """

    name: ClassVar[str] = "geometric"
    shape: ClassVar[float] = 1.0


@dataclass(frozen=True)
class PoissonRuns(RunLaw):
    """A Poisson number of runs, given that it is not 0: the steadiest, and the dearest.

    Parameters
    ----------
    mean : float
        The mean number of runs, above 1 and at most 1000.

    Examples
    --------
    >>> from noisette import plans
    >>> round(plans.PoissonRuns(mean=10.0).rate, 4)
    9.9995

    """

    name: ClassVar[str] = "poisson"

    @property
    def rate(self) -> float:
        """The rate m of the Poisson law, whose mean without 0 is m / (1 - e^-m)."""
        return _rate(self.mean)

    def weight(self, s: Any) -> Floats:
        """Return E K e^(-m s)."""
        m = self.rate
        return np.asarray(-m / math.expm1(-m) * np.exp(-m * np.asarray(s, dtype=float)))

    def ratio(self, k: Any) -> Floats:
        """Return m / (k + 1)."""
        return np.asarray(self.rate / (np.asarray(k, dtype=float) + 1.0))

    _decay = 1.0

    def _steps(self, count: int) -> Floats:
        return np.linspace(0.0, 1.0, count)


LAWS: dict[str, type[Any]] = by_name(Geometric, Logarithmic, NegativeBinomial, PoissonRuns)
"""Every law of the number of runs by its name."""
