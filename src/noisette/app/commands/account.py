"""``noisette account``: what a run costs, or with ``--epsilon`` which run fits a budget."""

import json
import math
from dataclasses import MISSING, dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console

from noisette import _validate
from noisette._validate import refuse
from noisette.app.commands.console import figure_file, print_table, write_figure
from noisette.app.job import asked, takes
from noisette.core import accounting, mechanisms, plans, sampling
from noisette.core.accounting.last_iterate import LOSSES as LAST_LOSSES
from noisette.core.adjacency import Adjacency
from noisette.errors import InvalidParameter, MissingExtra, Unproven

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
# Colour-blind safe (Okabe and Ito), with a marker each so that grey prints work too.
_STYLES = {
    "linear": ("#999999", ":", "linear composition"),
    "moments": ("#E69F00", "--", "moments accountant (lecture)"),
    "renyi": ("#56B4E9", "-.", "sharp Rényi conversion"),
    "gdp": ("#CC79A7", ":", "Gaussian composition, no amplification"),
}
_NOISES, _SAMPLERS = mechanisms.MECHANISMS, sampling.SAMPLERS


def required(kind: Any) -> list[str]:
    """Return the parameters of a mechanism or sampler that have no default."""
    return [item.name for item in fields(kind) if item.default is MISSING]


def described(registry: dict[str, Any]) -> tuple[str, ...]:
    """Return the entries whose necessary parameters all have an option."""
    return tuple(name for name, kind in registry.items() if set(required(kind)) <= set(_OPTIONS))


def sweeps(name: str) -> bool:
    """Whether one use of that sampler is a pass over the data (counted in epochs)."""
    return name in _SAMPLERS and "batches" in {item.name for item in fields(_SAMPLERS[name])}


def takers(registry: dict[str, Any], parameter: str) -> str:
    """Return the entries that need this parameter, for a help text."""
    return ", ".join(name for name in described(registry) if parameter in required(registry[name]))


def _counted(*, in_epochs: bool) -> str:
    return ", ".join(name for name in described(_SAMPLERS) if sweeps(name) is in_epochs)


@dataclass(frozen=True, kw_only=True)
class Description:
    """Everything the options say about a run; `plan` is the run."""

    epsilon: float | None = asked(None, account="Look for the run that fits this epsilon.")
    find: str = asked(
        "noise", account="With --epsilon, what to look for: noise, steps (or epochs), or rate."
    )
    mechanism: str = asked("gaussian", account=f"One of: {', '.join(described(_NOISES))}.")
    noise_multiplier: float | None = asked(
        None,
        account=f"Noise scale / norm bound of one record ({takers(_NOISES, 'noise_multiplier')}).",
    )
    step_epsilon: float | None = asked(
        None, account=f"Epsilon of one step ({takers(_NOISES, 'epsilon')})."
    )
    dimension: int | None = asked(
        None, account=f"Dimension of the noise ({takers(_NOISES, 'dimension')})."
    )
    sampling: str = asked("full", account=f"One of: {', '.join(described(_SAMPLERS))}.")
    rate: float | None = asked(None, account=f"Sampling rate ({takers(_SAMPLERS, 'rate')}).")
    steps: int | None = asked(
        None, account=f"Noisy steps ({_counted(in_epochs=False)}). Default 1."
    )
    epochs: int | None = asked(
        None, account=f"Passes over the data ({_counted(in_epochs=True)})."
    )  # fmt: skip
    batches: int | None = asked(
        None, account=f"Batches in one pass ({takers(_SAMPLERS, 'batches')})."
    )
    batch_size: int | None = asked(
        None, account=f"Batch size ({takers(_SAMPLERS, 'batch_size')})."
    )  # fmt: skip
    size: int | None = asked(
        None, account=f"Number of records ({takers(_SAMPLERS, 'size')}, --released last)."
    )
    released: str = asked(
        "all", account="'all' iterates, or only the 'last' one (cyclic, shuffle, full)."
    )
    loss: str = asked(
        "logistic", account=f"Loss for --released last: {', '.join(LAST_LOSSES)}."
    )  # fmt: skip
    loss_parameter: float | None = asked(
        None, account="Width of huber_hinge or temperature of softplus."
    )
    learning_rate: float | None = asked(
        None, account="Constant step size for --released last."
    )  # fmt: skip
    regularization: float = asked(
        0.0, account="Ridge weight on the mean loss, for --released last."
    )
    norm_bound: float = asked(1.0, account="Norm bound of the rows, for --released last.")
    delta: float = asked(1e-6, account="Delta of the guarantee, in [0, 1).")
    adjacency: str = asked("replace-one", account="replace-one, zero-out or add-remove.")
    json: bool = asked(False, "--json", account="Print one JSON object for machines.")
    plot: str | None = asked(
        None, account="Write a figure (.png, .svg or .pdf) of epsilon against steps."
    )

    @property
    def unit(self) -> str:
        """What is counted: epochs of a sampler whose use is a pass over the data, or steps."""
        return "epochs" if sweeps(self.sampling) else "steps"

    @property
    def times(self) -> int:
        """How often the sampler is used."""
        in_epochs = self.unit == "epochs"
        refuse(
            (in_epochs and self.steps is not None,
             f"{self.sampling} batches are counted in passes; use --epochs, not --steps."),
            (not in_epochs and self.epochs is not None and self.released == "all",
             f"{self.sampling} sampling is counted in steps; use --steps, not --epochs."),
        )  # fmt: skip
        times: int | None = getattr(self, self.unit)
        return 1 if times is None else times

    def _made(self, option: str, registry: dict[str, Any], noun: str) -> Any:
        """Return the entry of a registry that the options describe."""
        name = _validate.choice(f"--{option}", getattr(self, option), described(registry))
        given = {
            each: getattr(self, _OPTIONS[each][2:].replace("-", "_"))
            for each in required(registry[name])
        }
        if name == "disjoint" and self.batches is None:
            given["batches"] = 1  # how many there are does not matter for the cost of a pass
        refuse(*((v is None, f"{name} {noun} needs {_OPTIONS[p]}.") for p, v in given.items()))
        return registry[name](**given)

    def plan(self) -> plans.Plan:
        """Return the plan."""
        _validate.choice("--released", self.released, ("all", "last"))
        noise = self._made("mechanism", mechanisms.MECHANISMS, "noise")
        batches = self._made("sampling", sampling.SAMPLERS, "sampling")
        if self.released == "all":
            return plans.Repeat(plans.Sampled(noise, batches), self.times)
        if self.learning_rate is None:
            raise InvalidParameter("--released last needs --learning-rate.")
        epochs = self.steps if self.sampling == "full" and self.steps else self.epochs
        return plans.LastIterate(
            noise, batches, epochs=1 if epochs is None else epochs, loss=self.loss,
            learning_rate=self.learning_rate, regularization=self.regularization,
            norm_bound=self.norm_bound, loss_parameter=self.loss_parameter, size=self.size,
        )  # fmt: skip


@partial(takes, Description)
def account(run: Description) -> None:
    """Count the privacy of a run: certified epsilon, and what each theorem would say.

    With --epsilon, find the least noise, the most steps or the largest rate for that epsilon.

    [bold]Example[/bold]: noisette account --noise-multiplier 1 --sampling poisson --rate 0.01
    --steps 1000 --delta 1e-5 --adjacency add-remove
    """
    relation = Adjacency.of(run.adjacency)
    found: dict[str, float] = {}
    if run.epsilon is not None:
        run, found = _found(run, run.epsilon, relation)
    elif run.find != "noise":
        raise InvalidParameter(f"--find {run.find} needs --epsilon, which the run is to fit.")
    plan = run.plan()
    lower, upper = accounting.bracket(plan, delta=run.delta, adjacency=relation)
    rows = (
        []
        if found
        else [
            (name, kind.summary, _by(kind, plan, run.delta, relation))
            for name, kind in accounting.ACCOUNTANTS.items()  # loosest idea first
        ]
    )
    if run.plot is not None:
        _draw(run, relation, run.plot)
    if run.json:
        answer: dict[str, Any] = {
            **found, "epsilon": _finite(upper), "lower": lower, "upper": _finite(upper),
            "delta": run.delta, "adjacency": relation.value, "plan": plan.to_dict(),
        }  # fmt: skip
        each = {name: _finite(value) for name, _, value in rows}
        print(json.dumps(answer | ({"target": run.epsilon} if found else {"accountants": each})))
        return
    console = Console(highlight=False, soft_wrap=True)
    for name, value in found.items():
        console.print(f"[bold]{name}[/bold] = {value:.8g}   (target epsilon {run.epsilon:g})")
    shown = f"{upper:.5g}" if math.isfinite(upper) else "none: no theorem bounds this run"
    console.print(
        f"[bold]plan[/bold]       {plan}\n"
        f"[bold]relation[/bold]   {relation}    [bold]delta[/bold] {run.delta:g}\n"
        f"[bold]epsilon[/bold]    {shown}   (certified: true value >= {lower:.5g})"
    )
    if rows:
        shown_rows = [
            (name, f"{value:.5g}" if math.isfinite(value) else "no bound", summary)
            for name, summary, value in rows
        ]
        heads = ("accountant", "epsilon", "idea")
        print_table("What each theorem says", heads, shown_rows, ("epsilon",))
    if run.plot is not None:
        console.print(f"figure written to {run.plot}")


def _found(
    run: Description, epsilon: float, relation: Adjacency
) -> tuple[Description, dict[str, float]]:
    """Return the run that meets the target, and by name what was found for it."""
    find = "steps" if run.find == "epochs" else run.find
    with_rate = takers(_SAMPLERS, "rate")
    refuse(
        (find not in ("noise", "steps", "rate"),
         f"--find must be noise, steps, epochs or rate; got {find!r}."),
        (find == "rate" and run.sampling not in with_rate.split(", "),
         f"--find rate needs --sampling {with_rate}."),
    )  # fmt: skip
    name = {"noise": "noise_multiplier", "rate": "rate", "steps": run.unit}[find]

    def changed(x: float) -> Description:
        value: Any = int(x) if find == "steps" else x
        return replace(run, **{name: value})

    value = accounting.calibrate(
        lambda x: changed(x).plan(),
        epsilon=epsilon,
        delta=run.delta,
        adjacency=relation,
        find=find,  # type: ignore[arg-type]
    )
    return changed(value), {name: value}


def _finite(value: float) -> float | None:
    """JSON has no infinity: an absent bound is null."""
    return value if math.isfinite(value) else None


def _by(kind: Any, plan: plans.Plan, delta: float, relation: Adjacency) -> float:
    """Return what one accountant says; infinity where it has no theorem."""
    try:
        return float(kind().epsilon(plan, delta=delta, adjacency=relation))
    except Unproven:
        return math.inf


def _draw(run: Description, relation: Adjacency, path: str) -> None:
    """Write epsilon against the number of steps, by theorem, with the certified bracket."""
    target = figure_file("--plot", path)
    try:
        import matplotlib
    except ImportError:
        raise MissingExtra("figures need matplotlib: pip install 'noisette[plot]'.") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    last = max(run.times, 2)
    counts = np.unique(np.geomspace(1, last, min(last, 16)).round().astype(int))
    each = [replace(run, **{run.unit: count.item()}).plan() for count in counts]
    brackets = np.array(
        [accounting.bracket(plan, delta=run.delta, adjacency=relation) for plan in each]
    )
    figure, axes = pyplot.subplots(figsize=(7, 5.2), layout="constrained")
    top = brackets[:, 1][np.isfinite(brackets[:, 1])].max(initial=1e-9)
    for name, (colour, line, label) in _STYLES.items():
        kind = accounting.ACCOUNTANTS[name]
        values = np.array([_by(kind, plan, run.delta, relation) for plan in each])
        kept = np.isfinite(values) & (values <= 20.0 * top)
        if kept.sum() > 1:
            axes.plot(counts[kept], values[kept], line, color=colour, label=label)
    axes.plot(counts, brackets[:, 1], "-", color="#0072B2", lw=2, label="certified upper bound")
    axes.fill_between(
        counts, brackets[:, 0], brackets[:, 1], color="#0072B2", alpha=0.2, lw=0,
        label="certified bracket",
    )  # fmt: skip
    axes.set(
        xscale="log", yscale="log", xlabel=run.unit, ylabel=f"ε at δ = {run.delta:g}, {relation}"
    )
    axes.grid(alpha=0.3, which="both", lw=0.5)
    # Outside the axes: no curve can run through it, whatever the run.
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    noise = "" if run.noise_multiplier is None else f", multiplier {run.noise_multiplier:g}"
    needed = [getattr(run, name) for name in required(_SAMPLERS[run.sampling])[:1]]
    detail = "".join(f" ({value:g})" for value in needed if value is not None)
    axes.set_title(f"{run.mechanism} noise{noise}; {run.sampling}{detail}", fontsize=11)
    write_figure(figure, target)
    pyplot.close(figure)
