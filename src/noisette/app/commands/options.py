"""Options shared by the commands, and the plan that they describe."""

from dataclasses import MISSING, dataclass, fields, replace
from typing import Annotated, Any

import typer

from noisette import _validate
from noisette.core import mechanisms, plans, sampling
from noisette.core.accounting.last_iterate import LOSSES as LAST_LOSSES
from noisette.core.mechanisms import Mechanism
from noisette.core.sampling import Sampler
from noisette.errors import InvalidParameter

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


def described(registry: dict[str, Any]) -> tuple[str, ...]:
    """Return the entries whose necessary parameters all have an option."""
    return tuple(name for name, kind in registry.items() if set(required(kind)) <= set(_OPTIONS))


def required(kind: Any) -> list[str]:
    """Return the parameters of a mechanism or sampler that have no default."""
    return [item.name for item in fields(kind) if item.default is MISSING]


def sweeps(name: str) -> bool:
    """Whether one use of that sampler is a pass over the data (counted in epochs)."""
    kind = sampling.SAMPLERS.get(name)
    return kind is not None and "batches" in {item.name for item in fields(kind)}


def takers(registry: dict[str, Any], parameter: str) -> str:
    """Return the entries that need this parameter, for a help text."""
    names = (name for name in described(registry) if parameter in required(registry[name]))
    return ", ".join(names)


def _counted(*, in_epochs: bool) -> str:
    return ", ".join(name for name in described(sampling.SAMPLERS) if sweeps(name) is in_epochs)


def _option(words: str) -> Any:
    return typer.Option(help=words)


_NOISES, _SAMPLERS = mechanisms.MECHANISMS, sampling.SAMPLERS

MechanismOption = Annotated[str, _option(f"One of: {', '.join(described(_NOISES))}.")]
NoiseOption = Annotated[
    float | None,
    _option(f"Noise scale / norm bound of one record ({takers(_NOISES, 'noise_multiplier')})."),
]
StepEpsilonOption = Annotated[
    float | None, _option(f"Epsilon of one step ({takers(_NOISES, 'epsilon')}).")
]
DimensionOption = Annotated[
    int | None, _option(f"Dimension of the noise ({takers(_NOISES, 'dimension')}).")
]
SamplingOption = Annotated[str, _option(f"One of: {', '.join(described(_SAMPLERS))}.")]
RateOption = Annotated[float | None, _option(f"Sampling rate ({takers(_SAMPLERS, 'rate')}).")]
StepsOption = Annotated[
    int | None, _option(f"Noisy steps ({_counted(in_epochs=False)}). Default 1.")
]
EpochsOption = Annotated[int | None, _option(f"Passes over the data ({_counted(in_epochs=True)}).")]
BatchesOption = Annotated[
    int | None, _option(f"Batches in one pass ({takers(_SAMPLERS, 'batches')}).")
]
BatchSizeOption = Annotated[int | None, _option(f"Batch size ({takers(_SAMPLERS, 'batch_size')}).")]
SizeOption = Annotated[
    int | None, _option(f"Number of records ({takers(_SAMPLERS, 'size')}, --released last).")
]
ReleasedOption = Annotated[
    str, typer.Option(help="'all' iterates, or only the 'last' one (cyclic, shuffle, full).")
]
LossOption = Annotated[str, _option(f"Loss for --released last: {', '.join(LAST_LOSSES)}.")]
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
    from noisette.fitting.algorithms.recommend import mechanisms as offered

    return f"One of: {', '.join(offered())} (logistic and svm)."


def loss_help() -> str:
    """Return what ``--loss`` of train and plan may be, from the registry."""
    from noisette.fitting.losses import classifier_losses

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
        return sweeps(self.sampling)

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
        made: Mechanism = self._made("mechanism", mechanisms.MECHANISMS, "noise")
        return made

    def make_sampler(self) -> Sampler:
        """Return the sampler that the options describe."""
        if self.sampling == "disjoint":
            # How many batches there are does not matter for the cost of a pass.
            return sampling.Disjoint(batches=1 if self.batches is None else self.batches)
        made: Sampler = self._made("sampling", sampling.SAMPLERS, "sampling")
        return made

    def _made(self, option: str, registry: dict[str, Any], noun: str) -> Any:
        """Return the entry of a registry that the options describe."""
        name = _validate.choice(f"--{option}", getattr(self, option), described(registry))
        given = {"epsilon": self.step_epsilon}
        parameters = {}
        for parameter in required(registry[name]):
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
