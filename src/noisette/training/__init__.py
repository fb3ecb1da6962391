"""Training: one algorithm = one theorem = one file = one line in `ALGORITHMS`.

An algorithm prepares a plan from public facts, and runs on data under a permit for that plan;
`train` joins the two. Nothing else in the library charges a ledger for a model.
"""

from noisette.training.algorithm import Algorithm, Prepared, PreparedModel, Trained
from noisette.training.algorithms import ALGORITHMS, one_shot
from noisette.training.gradient_descent import GradientDescent
from noisette.training.network import NetworkSteps, PublicNetwork
from noisette.training.noisy_sgd import NoisySGD
from noisette.training.objective_perturbation import ObjectivePerturbation
from noisette.training.observer import Observer
from noisette.training.output_perturbation import OutputPerturbation
from noisette.training.passage import Passage
from noisette.training.public import Public, PublicBudget
from noisette.training.records import Records, with_intercept
from noisette.training.single_pass import SinglePass
from noisette.training.streaming import StreamedPass
from noisette.training.sufficient_statistics import SufficientStatistics
from noisette.training.train import train
from noisette.training.whitening import WhitenedObjective

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "GradientDescent",
    "NetworkSteps",
    "NoisySGD",
    "ObjectivePerturbation",
    "Observer",
    "OutputPerturbation",
    "Passage",
    "Prepared",
    "PreparedModel",
    "Public",
    "PublicBudget",
    "PublicNetwork",
    "Records",
    "SinglePass",
    "StreamedPass",
    "SufficientStatistics",
    "Trained",
    "WhitenedObjective",
    "one_shot",
    "train",
    "with_intercept",
]
