"""The words of the page around its figures; every number in them is computed."""

import math

from reproductions.base import Table
from reproductions.song2013.drawing import METHODS, SHOWN, STRATEGIES, influence, passes
from reproductions.song2013.measured import CLOSE, PROBLEMS, START, Measured, name

__all__ = ["introduction", "remarks"]


def introduction(table: Table) -> str:
    """Say what was run."""
    seeds = len(table.where(part="sgd").distinct("seed"))
    optima = table.where(part="optimum")
    sizes = {row["data"]: f"n = {row['rows']:,}" for row in optima if row["d"] in (5, 9, 15)}
    return f"""
The paper adds spherical Laplace noise to every step of a single pass of SGD over disjoint batches,
and finds that the batch size decides whether the result is of any use. Here the library's own
implementation of that algorithm (`SGDClassifier`, δ = 0) runs on the paper's three problems.

| | |
|---|---|
| model | logistic regression through the origin, λ = 1e-4, projection to radius 1/λ, last iterate |
| privacy | α = 1 under replace-one, as in the paper; δ = 0; all iterates are covered |
| repetitions | {seeds} random orders, fresh noise; private and non-private runs share the order |
| MNIST | {sizes["mnist"]}, digit 1 against the rest, projected to d = 15 |
| KDDCup99 | {sizes["kddcup99"]} drawn from the 10 % file, normal against attack, d = 9 |
| synthetic | {sizes["sphere"]}, uniform on the sphere, d = 5, margin 0.001 |
| central | the minimum of the same objective on all rows, by a certified solver |

Non-private SGD is the same compiled code with noise 0. Objective values are computed on the rows by
the experimenter: they are *not* private, and neither are the figures on this page. Weights after
any number of samples may be read without cost, because the guarantee covers all iterates.

The paper says “normalizing each feature” and no more. Two readings are shown: features **scaled**
by public limits (pixels / 255; for KDDCup99 the row-local encoding of `benchmarks.real`), which
costs no privacy, and features **standardised** by mean and deviation, read off the data, which is
not private. Figures 1 and 2 show the first, 1b and 2b the second.

Verdicts follow from the numbers by the rule in the column "holds if". The rules are ours, the paper
has none. "Reaches" is the decrease of the objective from its start (w = 0, log 2) by private SGD,
over that by non-private SGD with the same batches. The line of {CLOSE:.0%} was drawn after a pilot
of four orders, and some figures lie close to it: read them, not the verdict alone.
"""


def _influence(table: Table) -> str:
    points = influence(table)
    lines = [
        "| | best b | rate | private | non-private, same b | reached | best non-private |",
        "|---|---|---|---|---|---|---|",
    ]
    reached, powers = [], []
    for axis, letter in (("d", "d"), ("alpha", "α")):
        found = []
        for row in points.where(axis=axis, curve="private"):
            here = {"axis": axis, axis: row[axis]}
            same = points.mean("mean", curve="same", **here)
            free = points.mean("mean", curve="non-private", **here)
            reached.append((START - row["mean"]) / (START - same))
            found.append((row[axis], row["batch"]))
            lines.append(
                f"| {letter} = {row[axis]:g} | {row['batch']} | {SHOWN[row['rate']]} "
                f"| {row['mean']:.3f} | {same:.3f} | {reached[-1]:.1%} | {free:.3f} |"
            )
        powers.append(_slope(found))
    said = (
        f"With the batch size that suits it, private SGD reaches at least {min(reached):.1%} of "
        "what non-private SGD does with the same batches, in every setting tried. The best b "
        f"grows about as d to the power {powers[0]:.1f} and α to the power {powers[1]:.1f}. What "
        "is lost is what larger batches cost any single pass, the steps that are left: compare "
        "the two columns for non-private SGD."
    )
    return said + "\n\n" + "\n".join(lines)


def _price(table: Table) -> str:
    m = Measured(table)
    lines = ["| | best private | best non-private | reached |", "|---|---|---|---|"]
    for problem in PROBLEMS:
        ours, plain = m.overall(problem, "private"), m.overall(problem, "non-private")
        cells = [f"{v:.3f} (b = {b}, η = {SHOWN[rate]})" for rate, b, v in (ours, plain)]
        reach = (START - ours[2]) / (START - plain[2])
        lines.append(f"| {name(problem)} | {cells[0]} | {cells[1]} | {reach:.1%} |")
    return "\n".join(lines)


def _levels(table: Table) -> str:
    points = table.where(part="levels").summary("objective", by=["share", "strategy"])
    order = sorted(points.where(share=0.4), key=lambda row: float(row["mean"]))
    named = ", ".join(f"{STRATEGIES[row['strategy']]} {row['mean']:.3f}" for row in order)
    return (
        f"With 40 % careful people (α_i = 0.2, the others 1) the objective ends at: {named}; "
        "smaller is better. To give everyone the least level is what a method without personal "
        "levels has to do. Leaving careful people out is no method for a rare group: their rows "
        "are then not in the model at all, which a figure about the mean objective cannot show."
    )


def _passes(table: Table) -> str:
    points = passes(table)
    lines = ["| one budget of ε = 1 | best at b = 200 | best at b = 1000 |", "|---|---|---|"]
    for method, words in METHODS.items():
        cells = []
        for batch in (200, 1000):
            best = min(points.where(method=method, batch=batch), key=lambda row: float(row["mean"]))
            word = "pass" if best["passes"] == 1 else "passes"
            cells.append(f"{best['mean']:.3f} ({best['passes']} {word})")
        lines.append(f"| {words} | {cells[0]} | {cells[1]} |")
    return "\n".join(lines)


def remarks(table: Table) -> str:
    """Answer the open questions, then list what differs from the paper."""
    return f"""
## The price, when everyone may choose

Equal batches hide part of the price, because a mini-batch leaves both algorithms fewer steps. Here
each takes its best batch size and learning rate (of those in figure 2). The choice looked at the
results, which a private user may not do.

{_price(table)}

## The open questions of the paper

**Dimension and α.** “It would be interesting to see if increasing the batch size can still make
private SGD match non-private SGD in these settings.”

{_influence(table)}

**Everyone's own α_i.** {_levels(table)}

**Many passes** “to trade off iterations, total privacy loss (via composition results for
differential privacy), and error.” Every row keeps one total budget: more passes are more steps
with more noise each.

{_passes(table)}

## What differs from the paper

* The published text has no numbers, only curves; the comparison is with its words.
* The digit of “1 vs. all”, the encoding of KDDCup99's words, the subsample and the random
  projection are not given in the paper. One projection and one subsample (seed 0) serve all
  repetitions.
* After the projection rows are cut to the unit ball once more, because theorem 1 needs it.
* The last batch may be smaller; it is divided by b all the same.
* Noisy sums are rounded to a fine public grid, as everywhere in this library.
"""


def _slope(points: list[tuple[float, float]]) -> float:
    """Return the exponent of a power law by least squares in logarithms."""
    x = [math.log(value) for value, _ in points]
    y = [math.log(batch) for _, batch in points]
    mx, my = sum(x) / len(x), sum(y) / len(y)
    top = sum((a - mx) * (b - my) for a, b in zip(x, y, strict=True))
    return top / sum((a - mx) ** 2 for a in x)
