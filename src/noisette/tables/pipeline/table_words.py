"""What a table's training did and what it cost, in words: for statements, pages and terminals."""

from typing import Any

from noisette.report.numbers import steps_of
from noisette.tables import Schema
from noisette.tables.pipeline.table_training import TableTraining


def percent(part: float) -> str:
    """Return a part of the budget for people."""
    return f"{100.0 * part:.2g} %"


def _columns(count: int, kind: str = "") -> str:
    return f"{count} {kind}column" + ("s" if count != 1 else "")


def spent(training: TableTraining, *, pure: bool) -> tuple[str, ...]:
    """Return sentences about the parts of the budget, before anything is known of the rows."""
    recipe, target = training.recipe, training.target
    bought = f"the {target.ends} of {_columns(len(training.numbers), 'numeric ')}"
    bought += " and of the target" * target.buys
    parts = [
        (recipe.knots, bought),
        (recipe.spikes, "single numbers that many people share"),
        (recipe.levels, f"the levels of {_columns(len(training.unknown))} that nobody listed"),
        (recipe.shares, "how the rows spread over features and labels"),
        (recipe.calibration * training.calibrated, "people by label and score"),
    ]
    went = [f"{percent(part)} went to {what}" for part, what in parts if part]
    unit = "epsilon" if pure else "mu squared, the unit in which such costs add up"
    if training.last is not None:
        unit = "epsilon, and of delta"
    sentence = (
        f"Of the budget, {', '.join(went)} and {percent(recipe.model)} went to the weights "
        f"(parts of {unit}); all of it was charged before the first look at the rows."
    )
    if training.last is not None:
        return (sentence, *training.last.notes)
    if not training.pairs:
        return (sentence,)
    named = ", ".join(" × ".join(pair) for pair in training.pairs)
    if training.used_pairs:
        return (
            sentence,
            f"Pairs of columns that the user chose without a look at the rows: {named}.",
        )
    return sentence, f"Too few rows times epsilon for pairs, by a public rule; left out: {named}."


def _learnt(schema: Schema) -> tuple[list[int], list[int]]:
    """Return how many knots, and how many levels, the columns have of which these were learnt."""
    columns = [column for column in schema.columns if column.name in schema.learnt and column.used]
    return [c.size for c in columns if c.ordered], [c.size for c in columns if not c.ordered]


def done(model: Any) -> str:
    """Return one line: what the training did with the columns, and what each part cost."""
    parts = {name: part for name, _, part, _ in cost_rows(model)}
    numbers, categories = _learnt(model.schema_)
    words = []
    if "knots" in parts:
        words.append(
            f"numbers enter by up to {max(numbers, default=0)} knots bought privately "
            f"({parts['knots']} of the budget)"
        )
    elif any(column.ordered for column in model.schema_.columns):
        words.append("numbers enter by knots between their stated bounds (free)")
    if "spikes" in parts:
        words.append(f"single numbers that many people share get knots too ({parts['spikes']})")
    if "levels" in parts:
        words.append(
            f"categories by {sum(categories)} levels that enough people share "
            f"({parts['levels']} of the budget), all others as one"
        )
    words += dict.fromkeys(column.free for column in model.schema_.columns if column.free)
    if hasattr(model, "target_bounds_"):
        low, high = model.target_bounds_
        words.append(f"the target counts between {low:g} and {high:g}")
    words.append(f"centres and scales come from noisy counts ({parts['shares']})")
    if "calibration" in parts:
        words.append(f"slope and intercept from noisy counts of scores ({parts['calibration']})")
    return f"{', '.join(words)}; the weights got the remaining {parts['weights']}"


def cost_rows(model: Any) -> list[tuple[str, str, str, str]]:
    """Return (step, what it released, its part of the budget, its epsilon alone) for a page."""
    numbers, categories = _learnt(model.schema_)
    labels = len(getattr(model, "classes_", ()))
    medians = (
        f"{sum(numbers)} knots of {_columns(len(numbers))}, by noisy medians of ever smaller parts"
    )
    if labels == 0:
        medians = f"limits of {_columns(len(numbers))} or of the target, by noisy quantiles"
    released = {
        "knots": medians,
        "spikes": "noisy counts of single numbers in the columns with the fewest knots; a number "
        "that many people share has knots of its own",
        "levels": f"{sum(categories)} levels of {_columns(len(categories))} that enough people "
        "share",
        "shares": "noisy counts of the rows at each knot, level and label: centres and scales",
        "calibration": "noisy counts of people by label and score: slope and intercept",
        "weights": f"{model.coef_.size} weights and the intercept"
        + (f" for {labels} labels" if labels > 2 else ""),
    }
    promise = model.privacy_
    return [
        (cost.name, released[cost.name], percent(cost.part), f"{cost.epsilon:.3g}")
        for cost in steps_of(promise.plan, promise.delta, promise.adjacency)
    ]
