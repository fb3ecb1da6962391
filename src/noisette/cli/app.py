"""The typer application: one function per command, the work is in the other files."""

from typing import Annotated

import typer

from noisette._version import __version__
from noisette.cli import accounting as work
from noisette.cli import audit as auditing
from noisette.cli import inspect as reading
from noisette.cli import options as opt
from noisette.cli import train as tables
from noisette.cli.check import check
from noisette.cli.evaluate import evaluate
from noisette.cli.example import example
from noisette.cli.explain import coefficients, explain, export
from noisette.cli.ledger import ledger
from noisette.cli.options import Description
from noisette.cli.plan import plan
from noisette.cli.predict import predict
from noisette.cli.reproduce import reproduce
from noisette.cli.theorem import theorem

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    add_completion=False,
    help="Machine learning on sensitive data, with a privacy guarantee that can be checked.",
    epilog="[bold]Example[/bold]: noisette schema patients.csv --target ill --out patients.toml, "
    "then, with every ? filled in, noisette train patients.csv --schema patients.toml --epsilon 1",
)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"noisette {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Machine learning on sensitive data, with a privacy guarantee that can be checked."""


for _command in (
    tables.schema, check, plan, tables.train, predict, evaluate, explain, coefficients, export,
    reading.inspect, ledger, theorem, example,
):  # fmt: skip
    app.command()(_command)


@app.command()
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


@app.command()
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


app.command()(auditing.audit)
app.command()(reproduce)
