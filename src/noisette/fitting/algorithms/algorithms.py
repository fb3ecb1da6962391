"""`ALGORITHMS`: every way to train. A new one is a file and a line here."""

from itertools import compress
from operator import attrgetter
from typing import Any

from noisette.core import by_name
from noisette.fitting.algorithms.algorithm import Algorithm
from noisette.fitting.algorithms.gradient_descent import GradientDescent
from noisette.fitting.algorithms.network import NetworkSteps
from noisette.fitting.algorithms.noisy_sgd import NoisySGD
from noisette.fitting.algorithms.objective_perturbation import ObjectivePerturbation
from noisette.fitting.algorithms.output_perturbation import OutputPerturbation
from noisette.fitting.algorithms.single_pass import SinglePass
from noisette.fitting.algorithms.streaming import StreamedPass
from noisette.fitting.algorithms.sufficient_statistics import SufficientStatistics
from noisette.fitting.algorithms.whitening import WhitenedObjective

ALGORITHMS: dict[str, type[Algorithm[Any]]] = by_name(
    OutputPerturbation,
    ObjectivePerturbation,
    WhitenedObjective,
    SinglePass,
    NoisySGD,
    GradientDescent,
    StreamedPass,
    NetworkSteps,
    SufficientStatistics,
)


def one_shot() -> dict[str, type[Algorithm[Any]]]:
    """Return the algorithms that users may ask for as ``mechanism`` of a linear model."""
    return dict(compress(ALGORITHMS.items(), map(attrgetter("one_shot"), ALGORITHMS.values())))
