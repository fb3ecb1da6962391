"""`Observer`: how somebody watches a training without touching it.

Everything that a training charges, releases, solves or steps goes through these four methods, each
with the real function as its first argument. This class only calls them; the audit's trace writes
down what passes, and may run a neighbour on the outputs of a first run.
"""

from collections.abc import Callable
from typing import Any

Real = Callable[..., Any]


class Observer:
    """Watches nothing."""

    def charge(self, real: Real, plan: Any, **options: Any) -> Any:
        """Book the plan: the permit."""
        return real(plan, **options)

    def release(
        self, real: Real, bounded: Any, permit: Any, randomness: Any, *, part: int = 0
    ) -> Any:
        """Cross the door: a noisy value, or a stream of noise."""
        return real(bounded, permit, randomness, part=part)

    def minimise(self, real: Real, loss: Any, X: Any, y: Any, **options: Any) -> Any:
        """Solve one problem."""
        return real(loss, X, y, **options)

    def advance(self, real: Real, *steps: Any) -> None:
        """Run steps of SGD in a compiled kernel."""
        real(*steps)
