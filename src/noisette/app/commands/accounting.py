"""What ``noisette account`` and ``noisette calibrate`` do and print."""

import json
import math
from typing import Any

from rich.console import Console
from rich.table import Table

from noisette.app.commands.options import Description, takers
from noisette.core import accounting
from noisette.core.adjacency import Adjacency
from noisette.core.plans import Plan
from noisette.core.sampling import SAMPLERS
from noisette.errors import InvalidParameter, Unproven


def _finite(value: float) -> float | None:
    """JSON has no infinity: an absent bound is null."""
    return value if math.isfinite(value) else None


def _comparison(plan: Plan, delta: float, relation: Adjacency) -> list[tuple[str, str, float]]:
    """Return (name, what it is, epsilon) of every accountant, loosest idea first."""
    rows = []
    for name, kind in accounting.ACCOUNTANTS.items():
        try:
            value = kind().epsilon(plan, delta=delta, adjacency=relation)
        except Unproven:
            value = math.inf
        rows.append((name, kind.summary, value))
    return rows


def account(
    described: Description, *, delta: float, adjacency: str, as_json: bool, plot: str | None
) -> None:
    """Print the certified epsilon of a run and what each theorem says about it."""
    relation = Adjacency.of(adjacency)
    plan = described.plan()
    lower, upper = accounting.bracket(plan, delta=delta, adjacency=relation)
    rows = _comparison(plan, delta, relation)
    if plot is not None:
        from noisette.app.commands.plots import epsilon_against_steps

        epsilon_against_steps(described, delta, relation, plot)
    if as_json:
        answer: dict[str, Any] = {
            "epsilon": _finite(upper),
            "lower": lower,
            "upper": _finite(upper),
            "delta": delta,
            "adjacency": relation.value,
            "plan": plan.to_dict(),
            "accountants": {name: _finite(value) for name, _, value in rows},
        }
        print(json.dumps(answer))
        return
    console = Console()
    console.print(f"[bold]plan[/bold]       {plan}", highlight=False, soft_wrap=True)
    console.print(f"[bold]relation[/bold]   {relation}    [bold]delta[/bold] {delta:g}")
    shown = f"{upper:.5g}" if math.isfinite(upper) else "none: no theorem bounds this run"
    console.print(f"[bold]epsilon[/bold]    {shown}   (certified: true value >= {lower:.5g})")
    table = Table(title="What each theorem says", title_justify="left")
    table.add_column("accountant")
    table.add_column("epsilon", justify="right")
    table.add_column("idea")
    for name, summary, value in rows:
        text = f"{value:.5g}" if math.isfinite(value) else "no bound"
        table.add_row(name, text, summary)
    console.print(table)
    if plot is not None:
        console.print(f"figure written to {plot}")


def calibrate(
    described: Description,
    *,
    find: str,
    epsilon: float,
    delta: float,
    adjacency: str,
    as_json: bool,
) -> None:
    """Print the parameter that meets the target, with the epsilon that it reaches."""
    relation = Adjacency.of(adjacency)
    if find == "epochs":
        find = "steps"
    if find not in ("noise", "steps", "rate"):
        raise InvalidParameter(f"--find must be noise, steps, epochs or rate; got {find!r}.")
    with_rate = takers(SAMPLERS, "rate")
    if find == "rate" and described.sampling not in with_rate.split(", "):
        raise InvalidParameter(f"--find rate needs --sampling {with_rate}.")

    def changed(x: float) -> Description:
        if find == "noise":
            return described.with_(noise_multiplier=x)
        return described.with_(rate=x) if find == "rate" else described.with_times(int(x))

    value = accounting.calibrate(
        lambda x: changed(x).plan(),
        epsilon=epsilon,
        delta=delta,
        adjacency=relation,
        find=find,  # type: ignore[arg-type]
    )
    plan = changed(value).plan()
    lower, upper = accounting.bracket(plan, delta=delta, adjacency=relation)
    name = {"noise": "noise_multiplier", "rate": "rate"}.get(
        find, "epochs" if described.sweeps else "steps"
    )
    if as_json:
        answer = {
            name: value,
            "epsilon": upper,
            "lower": lower,
            "upper": upper,
            "target": epsilon,
            "delta": delta,
            "adjacency": relation.value,
            "plan": plan.to_dict(),
        }
        print(json.dumps(answer))
        return
    console = Console()
    console.print(f"[bold]{name}[/bold] = {value:.8g}", highlight=False)
    console.print(
        f"epsilon = {upper:.6g} at delta = {delta:g} under {relation} (target {epsilon:g})",
        highlight=False,
    )
    console.print(f"plan: {plan}", highlight=False, soft_wrap=True)
