"""Training: one algorithm = one theorem = one file = one line in `ALGORITHMS`.

An algorithm prepares a plan from public facts, and runs on data under a permit for that plan;
`train` joins the two. Nothing else in the library charges a ledger for a model.
"""

from noisette.fitting.algorithms.algorithm import Algorithm, Prepared, PreparedModel, Trained
from noisette.fitting.algorithms.algorithms import ALGORITHMS, one_shot
from noisette.fitting.algorithms.gradient_descent import GradientDescent
from noisette.fitting.algorithms.network import NetworkSteps, PublicNetwork
from noisette.fitting.algorithms.noisy_sgd import NoisySGD
from noisette.fitting.algorithms.objective_perturbation import ObjectivePerturbation
from noisette.fitting.algorithms.output_perturbation import OutputPerturbation
from noisette.fitting.algorithms.passage import Passage
from noisette.fitting.algorithms.public import Public, PublicBudget
from noisette.fitting.algorithms.records import Records, with_intercept
from noisette.fitting.algorithms.single_pass import SinglePass
from noisette.fitting.algorithms.streaming import StreamedPass
from noisette.fitting.algorithms.sufficient_statistics import SufficientStatistics
from noisette.fitting.algorithms.train import train
from noisette.fitting.algorithms.whitening import WhitenedObjective

__all__ = [
    "ALGORITHMS", "Algorithm", "GradientDescent", "NetworkSteps", "NoisySGD",
    "ObjectivePerturbation", "OutputPerturbation", "Passage", "Prepared", "PreparedModel",
    "Public", "PublicBudget", "PublicNetwork", "Records", "SinglePass", "StreamedPass",
    "SufficientStatistics", "Trained", "WhitenedObjective", "one_shot", "train",
    "with_intercept",
]  # fmt: skip
