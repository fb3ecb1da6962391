"""`Passage`: what an algorithm may do while it sees the data, and nothing else."""

from dataclasses import dataclass
from typing import Any

from noisette.core.bounded import Bounded
from noisette.core.door import observed, release
from noisette.core.permit import Permit
from noisette.core.plans.leaves import Noisy
from noisette.core.randomness import Randomness
from noisette.fitting.algorithms import steps
from noisette.fitting.losses import Loss
from noisette.fitting.solvers import Solution, minimise


@dataclass(eq=False, repr=False)
class Passage:
    """A permit and a source of randomness; the audit can watch what passes.

    `first` is the leaf of the permit's plan at which this algorithm's own leaves begin, so that
    several algorithms can run one after another under one charge.
    """

    permit: Permit
    randomness: Randomness
    first: int = 0
    verbose: int = 0

    def after(self, leaves: int) -> "Passage":
        """Return the passage of the algorithm whose leaves begin `leaves` further on."""
        return Passage(self.permit, self.randomness, self.first + leaves, self.verbose)

    def leaf(self, part: int = 0) -> Noisy:
        """Return the algorithm's `part`-th leaf as it was charged."""
        return self.permit.leaf(self.first + part)

    def release(self, bounded: Bounded, part: int = 0) -> Any:
        """Cross the door with a bounded value of the algorithm's `part`-th leaf."""
        return release(bounded, self.permit, self.randomness, part=self.first + part)

    def minimise(self, loss: Loss, X: Any, y: Any, **options: Any) -> Solution:
        """Return the certified minimiser of one problem."""
        solution: Solution = observed("minimise", minimise, loss, X, y, **options)
        return solution

    def advance(self, *given: Any) -> None:
        """Run SGD steps in the compiled kernels; see `steps.advance`."""
        observed("advance", steps.advance, *given)
