"""Options shared by the commands, and the plan that they describe."""

from dataclasses import MISSING, dataclass, fields, replace
from typing import Annotated, Any

import typer

from noisette import _validate, mechanisms, plans, sampling
from noisette.errors import InvalidParameter
from noisette.mechanisms import Mechanism
from noisette.sampling import Sampler

__all__ = ["Description"]

_OPTIONS = {
    "noise_multiplier": "--noise-multiplier",
    "epsilon": "--step-epsilon",
    "dimension": "--dimension",
    "rate": "--rate",
    "batches": "--batches",
    "batch_size": "--batch-size",
    "size": "--size",
}
"""Parameter of a mechanism or sampler -> the option that sets it."""


def _described(registry: dict[str, Any]) -> tuple[str, ...]:
    """Return the entries whose necessary parameters all have an option."""
    return tuple(name for name, kind in registry.items() if set(_required(kind)) <= set(_OPTIONS))


def _required(kind: Any) -> list[str]:
    return [item.name for item in fields(kind) if item.default is MISSING]


MECHANISM_NAMES = _described(mechanisms.MECHANISMS)
SAMPLER_NAMES = _described(sampling.SAMPLERS)

MechanismOption = Annotated[str, typer.Option(help="One of: " + ", ".join(MECHANISM_NAMES) + ".")]
NoiseOption = Annotated[
    float | None,
    typer.Option(help="Noise scale / norm bound of one record (gaussian, laplace, spherical)."),
]
StepEpsilonOption = Annotated[
    float | None,
    typer.Option(help="Epsilon of one step (randomized-response, exponential, or any laplace)."),
]
DimensionOption = Annotated[int | None, typer.Option(help="Dimension of spherical-laplace noise.")]
SamplingOption = Annotated[str, typer.Option(help="One of: " + ", ".join(SAMPLER_NAMES) + ".")]
RateOption = Annotated[float | None, typer.Option(help="Sampling rate (poisson).")]
StepsOption = Annotated[
    int | None, typer.Option(help="Noisy steps (full, poisson, without-replacement). Default 1.")
]
EpochsOption = Annotated[
    int | None,
    typer.Option(help="Passes over the data (disjoint, shuffle, cyclic, random-allocation)."),
]
BatchesOption = Annotated[
    int | None, typer.Option(help="Batches in one pass (shuffle, cyclic, random-allocation).")
]
BatchSizeOption = Annotated[int | None, typer.Option(help="Batch size (without-replacement).")]
SizeOption = Annotated[
    int | None, typer.Option(help="Number of records (without-replacement, --released last).")
]
ReleasedOption = Annotated[
    str, typer.Option(help="'all' iterates, or only the 'last' one (cyclic, shuffle, full).")
]
LossOption = Annotated[
    str, typer.Option(help="Loss for --released last: logistic, softmax, huber_hinge, softplus.")
]
LossParameterOption = Annotated[
    float | None, typer.Option(help="Width of huber_hinge or temperature of softplus.")
]
LearningRateOption = Annotated[
    float | None, typer.Option(help="Constant step size for --released last.")
]
RegularizationOption = Annotated[
    float, typer.Option(help="Ridge weight on the mean loss, for --released last.")
]
NormBoundOption = Annotated[
    float, typer.Option(help="Norm bound of the rows, for --released last.")
]
AdjacencyOption = Annotated[str, typer.Option(help="replace-one, zero-out or add-remove.")]
DeltaOption = Annotated[float, typer.Option(help="Delta of the guarantee, in [0, 1).")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object for machines.")]
PlotOption = Annotated[
    str | None, typer.Option(help="Write a figure (.png, .svg or .pdf) of epsilon against steps.")
]


def mechanism_help() -> str:
    """Return what ``--mechanism`` of train and plan may be, from the registry."""
    from noisette.training.recommend import mechanisms as offered

    return f"One of: {', '.join(offered())} (logistic and svm)."


def loss_help() -> str:
    """Return what ``--loss`` of train and plan may be, from the registry."""
    from noisette.losses import classifier_losses

    margins = ", ".join(classifier_losses(probabilities=False))
    return f"svm: {margins}; sgd: {', '.join(classifier_losses())}."


def sampling_help() -> str:
    """Return what ``--sampling`` of train and plan may be, from the registry."""
    return f"sgd: auto, {', '.join(sampling.SAMPLERS)}."


def _needs(value: Any, option: str, what: str) -> Any:
    if value is None:
        raise InvalidParameter(f"{what} needs {option}.")
    return value


@dataclass(frozen=True)
class Description:
    """Everything the options say about a run; `plan` is the run."""

    mechanism: str = "gaussian"
    noise_multiplier: float | None = None
    step_epsilon: float | None = None
    dimension: int | None = None
    sampling: str = "full"
    rate: float | None = None
    steps: int | None = None
    epochs: int | None = None
    batches: int | None = None
    batch_size: int | None = None
    size: int | None = None
    released: str = "all"
    loss: str = "logistic"
    loss_parameter: float | None = None
    learning_rate: float | None = None
    regularization: float = 0.0
    norm_bound: float = 1.0

    def with_(self, **changes: Any) -> "Description":
        """Return a copy with some options changed."""
        return replace(self, **changes)

    @property
    def sweeps(self) -> bool:
        """Whether one use of the sampler is a pass over the data (counted in epochs)."""
        kind = sampling.SAMPLERS.get(self.sampling)
        return kind is not None and "batches" in {item.name for item in fields(kind)}

    @property
    def times(self) -> int:
        """How often the sampler is used: epochs of passes, or steps."""
        if self.sweeps:
            if self.steps is not None:
                raise InvalidParameter(
                    f"{self.sampling} batches are counted in passes; use --epochs, not --steps."
                )
            return 1 if self.epochs is None else self.epochs
        if self.epochs is not None and self.released == "all":
            raise InvalidParameter(
                f"{self.sampling} sampling is counted in steps; use --steps, not --epochs."
            )
        return 1 if self.steps is None else self.steps

    def with_times(self, times: int) -> "Description":
        """Return the same run with another number of steps or epochs."""
        return self.with_(epochs=times) if self.sweeps else self.with_(steps=times)

    def make_mechanism(self) -> Mechanism:
        """Return the mechanism that the options describe."""
        made: Mechanism = self._made("mechanism", mechanisms.MECHANISMS, MECHANISM_NAMES, "noise")
        return made

    def make_sampler(self) -> Sampler:
        """Return the sampler that the options describe."""
        if self.sampling == "disjoint":
            # How many batches there are does not matter for the cost of a pass.
            return sampling.Disjoint(batches=1 if self.batches is None else self.batches)
        made: Sampler = self._made("sampling", sampling.SAMPLERS, SAMPLER_NAMES, "sampling")
        return made

    def _made(
        self, option: str, registry: dict[str, Any], offered: tuple[str, ...], noun: str
    ) -> Any:
        """Return the entry of a registry that the options describe."""
        name = _validate.choice(f"--{option}", getattr(self, option), offered)
        given = {"epsilon": self.step_epsilon}
        parameters = {}
        for parameter in _required(registry[name]):
            value = given.get(parameter, getattr(self, parameter, None))
            parameters[parameter] = _needs(value, _OPTIONS[parameter], f"{name} {noun}")
        return registry[name](**parameters)

    def plan(self) -> plans.Plan:
        """Return the plan."""
        if self.released not in ("all", "last"):
            raise InvalidParameter(f"--released must be 'all' or 'last'; got {self.released!r}.")
        if self.released == "last":
            epochs = self.steps if self.sampling == "full" and self.steps else self.epochs
            return plans.LastIterate(
                self.make_mechanism(),
                self.make_sampler(),
                epochs=1 if epochs is None else epochs,
                loss=self.loss,
                learning_rate=_needs(self.learning_rate, "--learning-rate", "--released last"),
                regularization=self.regularization,
                norm_bound=self.norm_bound,
                loss_parameter=self.loss_parameter,
                size=self.size,
            )
        step = plans.Sampled(self.make_mechanism(), self.make_sampler())
        return plans.Repeat(step, self.times)
