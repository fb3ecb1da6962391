"""``noisette account`` and ``noisette calibrate``: their options."""

from typing import Annotated

import typer

from noisette.app.commands import accounting as work
from noisette.app.commands import options as opt
from noisette.app.commands.options import Description


def account(
    mechanism: opt.MechanismOption = "gaussian",
    noise_multiplier: opt.NoiseOption = None,
    step_epsilon: opt.StepEpsilonOption = None,
    dimension: opt.DimensionOption = None,
    sampling: opt.SamplingOption = "full",
    rate: opt.RateOption = None,
    steps: opt.StepsOption = None,
    epochs: opt.EpochsOption = None,
    batches: opt.BatchesOption = None,
    batch_size: opt.BatchSizeOption = None,
    size: opt.SizeOption = None,
    released: opt.ReleasedOption = "all",
    loss: opt.LossOption = "logistic",
    loss_parameter: opt.LossParameterOption = None,
    learning_rate: opt.LearningRateOption = None,
    regularization: opt.RegularizationOption = 0.0,
    norm_bound: opt.NormBoundOption = 1.0,
    delta: opt.DeltaOption = 1e-6,
    adjacency: opt.AdjacencyOption = "replace-one",
    json: opt.JsonOption = False,
    plot: opt.PlotOption = None,
) -> None:
    """Count the privacy of a run: certified epsilon, and what each theorem would say.

    [bold]Example[/bold]: noisette account --noise-multiplier 1 --sampling poisson --rate 0.01
    --steps 1000 --delta 1e-5 --adjacency add-remove
    """
    described = Description(
        mechanism, noise_multiplier, step_epsilon, dimension, sampling, rate, steps, epochs,
        batches, batch_size, size, released, loss, loss_parameter, learning_rate, regularization,
        norm_bound,
    )  # fmt: skip
    work.account(described, delta=delta, adjacency=adjacency, as_json=json, plot=plot)


def calibrate(
    epsilon: Annotated[float, typer.Option(help="Target epsilon.")],
    find: Annotated[
        str, typer.Option(help="What to look for: noise, steps (or epochs), or rate.")
    ] = "noise",
    mechanism: opt.MechanismOption = "gaussian",
    noise_multiplier: opt.NoiseOption = None,
    step_epsilon: opt.StepEpsilonOption = None,
    dimension: opt.DimensionOption = None,
    sampling: opt.SamplingOption = "full",
    rate: opt.RateOption = None,
    steps: opt.StepsOption = None,
    epochs: opt.EpochsOption = None,
    batches: opt.BatchesOption = None,
    batch_size: opt.BatchSizeOption = None,
    size: opt.SizeOption = None,
    released: opt.ReleasedOption = "all",
    loss: opt.LossOption = "logistic",
    loss_parameter: opt.LossParameterOption = None,
    learning_rate: opt.LearningRateOption = None,
    regularization: opt.RegularizationOption = 0.0,
    norm_bound: opt.NormBoundOption = 1.0,
    delta: opt.DeltaOption = 1e-6,
    adjacency: opt.AdjacencyOption = "replace-one",
    json: opt.JsonOption = False,
) -> None:
    """Find the least noise, the most steps or the largest rate for a target epsilon.

    [bold]Example[/bold]: noisette calibrate --epsilon 1 --delta 1e-5 --sampling poisson
    --rate 0.01 --steps 1000 --adjacency add-remove
    """
    described = Description(
        mechanism, noise_multiplier, step_epsilon, dimension, sampling, rate, steps, epochs,
        batches, batch_size, size, released, loss, loss_parameter, learning_rate, regularization,
        norm_bound,
    )  # fmt: skip
    work.calibrate(
        described, find=find, epsilon=epsilon, delta=delta, adjacency=adjacency, as_json=json
    )
