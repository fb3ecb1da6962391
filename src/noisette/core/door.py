"""`release`: the only door to a mechanism's noise."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette.core.adjacency import require_same
from noisette.core.bounded import Bounded, InKernel
from noisette.core.mechanisms.base import AdditiveNoise, require_scale
from noisette.core.permit import Permit
from noisette.core.plans import LastIterate
from noisette.core.randomness import Randomness
from noisette.errors import PermitError

watchers: list[Any] = []
"""The audit's, and empty while a user trains; see `observed`."""


@contextmanager
def watching(watcher: Any) -> Iterator[Any]:
    """Have `watcher` see whatever runs inside, in this process."""
    watchers.append(watcher)
    try:
        yield watcher
    finally:
        watchers.pop()


def observed(name: str, real: Callable[..., Any], *given: Any, **options: Any) -> Any:
    """Call `real`, or have the last watcher's method `name` call it, if it has one."""
    seen = getattr(watchers[-1], name, None) if watchers else None
    return real(*given, **options) if seen is None else seen(real, *given, **options)


def release(bounded: Bounded, permit: Permit, randomness: Randomness, *, part: int = 0) -> Any:
    """Return the private version of a bounded value under a permit.

    An array comes back noisy, a score vector as the chosen index, and an `InKernel` as a
    `NoiseStream` for a compiled loop. `part` is the leaf of the plan that this value belongs to.

    Parameters
    ----------
    bounded : Bounded
        The value and its bound.
    permit : Permit
        What `Ledger.charge` returned.
    randomness : Randomness
        Where the noise comes from.
    part : int, default 0
        The number of the leaf of the plan that this value belongs to.

    Returns
    -------
    ndarray, int or NoiseStream
        The private version, which may leave the owner of the data.

    Raises
    ------
    PermitError
        If the permit does not cover this value, or its draws are used up.
    AdjacencyMismatch
        If value and permit speak of different relations.
    Unproven
        If the mechanism has no theorem for a value of this size.

    Examples
    --------
    >>> import numpy as np
    >>> from noisette import Bounded, Ledger, Randomness, mechanisms, release
    >>> ages = np.array([31.0, 45.0, 62.0])
    >>> total = Bounded([ages.clip(0, 100).sum()], "zero-out", "ADJACENCY", contribution=100.0)
    >>> ledger = Ledger(epsilon=1.0, adjacency="zero-out")
    >>> permit = ledger.charge(mechanisms.Laplace(noise_multiplier=2.0), label="sum of ages")
    >>> release(total, permit, Randomness.secure()).shape
    (1,)
    >>> permit.draws_left(), permit.guarantee("the sum of ages").epsilon
    (0, 0.5)

    """
    return observed("release", _release, bounded, permit, randomness, part=part)


def _release(bounded: Bounded, permit: Permit, randomness: Randomness, *, part: int = 0) -> Any:
    """Cross the door itself."""
    require_same(bounded.adjacency, "the bounded value", permit.adjacency, "the permit")
    leaf = permit.leaf(part)
    leaf.mechanism.check_value(bounded)
    if bounded.contribution is not None:  # C, which the noise multiplies
        unit = bounded.contribution
    elif leaf.sampler.participation(permit.adjacency).kind != "once":
        # The theorems on random batches need every record's vector in a ball around 0; a bound on
        # the difference of two records is not enough. proof: POISSON-R
        raise PermitError(
            f"{leaf.sampler.name} sampling needs a Bounded with contribution=..., the norm bound "
            "of one record, not only a sensitivity."
        )
    else:
        unit = (bounded.l2 or 1.0) / permit.adjacency.contributions
    if isinstance(leaf.mechanism, AdditiveNoise):
        require_scale(leaf.mechanism.noise_multiplier * unit)
    if isinstance(bounded.value, InKernel):
        return NoiseStream(bounded, unit, permit, randomness, part)
    if isinstance(leaf, LastIterate):
        # proof: LAST-ITERATE-GCM
        raise PermitError(
            "only the last iterate was charged, so no single step may leave the loop; pass "
            "Bounded(InKernel(dimension), ...) and add the noise inside, or charge all iterates."
        )
    generator = randomness.generator  # before booking: a dead source must not eat a draw
    permit.take(part, 1, seeded=randomness.seeded, bound=bounded.proof)
    return leaf.mechanism.apply(bounded, unit, generator)


class NoiseStream:
    """Noise for a hot loop: blocks of vectors under one permit, each booked before it is drawn."""

    def __init__(
        self, bounded: Bounded, unit: float, permit: Permit, randomness: Randomness, part: int
    ) -> None:
        mechanism = permit.leaf(part).mechanism
        if not isinstance(mechanism, AdditiveNoise):
            raise PermitError(f"{mechanism.name} is not additive noise; it cannot be streamed.")
        self.dimension = bounded.dimension
        self.grid = mechanism.grid(unit)
        """Round value + noise to this grid inside the kernel, as `release` does for arrays."""
        self._unit, self._permit, self._randomness, self._part = unit, permit, randomness, part
        self._bound, self._mechanism = bounded.proof, mechanism

    def take(self, count: int) -> NDArray[np.float64]:
        """Return the next `count` noise vectors, shape (count, dimension)."""
        generator = self._randomness.generator
        self._permit.take(self._part, count, seeded=self._randomness.seeded, bound=self._bound)
        return self._mechanism.noise(count, self.dimension, self._unit, generator)

    def blocks(self, count: int, most: int = 4096) -> Iterator[NDArray[np.float64]]:
        """Yield `count` vectors in blocks of at most `most`, so that memory stays constant."""
        for start in range(0, count, most):
            yield self.take(min(most, count - start))
