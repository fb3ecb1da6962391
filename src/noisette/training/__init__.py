"""Training: one algorithm = one theorem = one file.

Each function takes rows and targets (sensitive) and public facts, charges a ledger before any
noise exists, and returns weights with the permit that paid for them.
"""

from noisette.training.common import Facts, Trained, with_intercept
from noisette.training.objective_perturbation import objective_perturbation
from noisette.training.output_perturbation import output_perturbation
from noisette.training.whitening import whitened_objective_perturbation

__all__ = [
    "Facts",
    "Trained",
    "objective_perturbation",
    "output_perturbation",
    "whitened_objective_perturbation",
    "with_intercept",
]
