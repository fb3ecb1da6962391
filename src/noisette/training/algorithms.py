"""`ALGORITHMS`: every way to train. A new one is a file and a line here."""

from typing import Any

from noisette.training.algorithm import Algorithm
from noisette.training.gradient_descent import GradientDescent
from noisette.training.network import NetworkSteps
from noisette.training.noisy_sgd import NoisySGD
from noisette.training.objective_perturbation import ObjectivePerturbation
from noisette.training.output_perturbation import OutputPerturbation
from noisette.training.single_pass import SinglePass
from noisette.training.streaming import StreamedPass
from noisette.training.sufficient_statistics import SufficientStatistics
from noisette.training.whitening import WhitenedObjective

__all__ = ["ALGORITHMS", "one_shot"]

ALGORITHMS: dict[str, type[Algorithm[Any]]] = {
    kind.name: kind
    for kind in (
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
}


def one_shot() -> dict[str, type[Algorithm[Any]]]:
    """Return the algorithms that users may ask for as ``mechanism`` of a linear model."""
    return {name: kind for name, kind in ALGORITHMS.items() if kind.one_shot}
