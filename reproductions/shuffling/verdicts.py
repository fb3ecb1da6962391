"""The poster's claims beside the measured figures, and the table of costs."""

import itertools
import math

import numpy as np

from reproductions.base import Claim, Table
from reproductions.shuffling.costs import BATCHES, NAMES
from reproductions.shuffling.drawings import best_steps

__all__ = ["claims", "sampler_table"]


def _slope(points: Table, least: int = 4) -> float:
    """Return the slope of log gap against log epochs, from `least` epochs on."""
    rows = [row for row in points if row["epochs"] >= least]
    x, y = (np.log([row[name] for row in rows]) for name in ("epochs", "mean"))
    return float(np.polyfit(x, y, 1)[0])


def _convergence(table: Table) -> list[Claim]:
    best = best_steps(table.where(part="trajectory"), ["multiplier", "schedule", "epochs"])
    slope = {
        (z, s): _slope(best.where(multiplier=z, schedule=s))
        for z in best.distinct("multiplier")
        for s in best.distinct("schedule")
    }
    last = max(best.column("epochs"))
    end = {key: float(rows.column("mean")[0]) for key, rows in best.where(epochs=last).groups(
        "multiplier", "schedule")}  # fmt: skip

    def listed(z: float) -> str:
        return (
            f"slopes of log gap against log epochs: plain {slope[z, 'plain']:.2f}, cyclic "
            f"{slope[z, 'cyclic']:.2f}, reshuffled {slope[z, 'shuffle']:.2f}"
        )

    ratio = end[2.0, "cyclic"] / end[2.0, "plain"]
    weak = end[0.5, "cyclic"] / end[0.5, "plain"]
    return [
        Claim(
            "Why should I shuffle?",
            "Shuffling converges at O(1/T^2) against O(1/T) for plain SGD (strongly convex).",
            f"{listed(0.0)}; after {last} epochs cyclic is "
            f"{end[0.0, 'plain'] / end[0.0, 'cyclic']:.0f} times closer to the optimum.",
            slope[0.0, "plain"] > -1.5 > max(slope[0.0, "cyclic"], slope[0.0, "shuffle"]),
            "the slope of plain is nearer to -1, those of both shuffled orders nearer to -2",
        ),
        Claim(
            "title of the second box",
            '"Private" cyclic SGD is not faster.',
            f"sigma = 2L: {listed(2.0)}; after {last} epochs the gap of cyclic is {ratio:.2f} "
            f"times that of plain. With weaker noise than the poster allows, sigma = L/2: "
            f"{listed(0.5)}, ratio {weak:.2f}.",
            abs(slope[2.0, "cyclic"] - slope[2.0, "plain"]) < 0.25 and 0.6 < ratio < 1.6,
            "at sigma = 2L slopes differ by less than 0.25 and gaps by less than a factor 1.6",
        ),
    ]


def _privacy(table: Table) -> list[Claim]:
    run = table.where(part="run-cost").rows[0]
    cyclic = table.where(part="cost", adjacency="zero-out", sampler="cyclic", epochs=1).rows[0]
    lower = table.where(part="cost", adjacency="zero-out", sampler="shuffle-lower", epochs=1)
    last = table.where(part="cost", adjacency="zero-out", sampler="shuffle last", epochs=1).rows[0]
    return [
        Claim(
            "abstract",
            "Gradient-perturbed cyclic SGD is not faster *yet less private* than plain SGD.",
            f"the very runs of the convergence figure at sigma = 2L, n = 200, {run['epochs']} "
            f"epochs, delta = 1e-5: cyclic costs epsilon = {run['cyclic']:.0f} (exact), plain "
            f"between {run['plain_lower']:.1f} and {run['plain_upper']:.1f}. Reshuffled: proven "
            f"between {run['shuffle_lower']:.1f} and {run['cyclic']:.0f}.",
            run["cyclic"] > run["plain_upper"],
            "epsilon of cyclic is above the upper bound of plain",
        ),
        Claim(
            "Why should I shuffle?",
            "No privacy guarantees are known for this algorithm, because sampling is no longer "
            "independent.",
            f"one epoch of {BATCHES} reshuffled batches, sigma = L, zero-out: between "
            f"{lower.rows[0]['lower']:.3f} (lower bound) and {cyclic['upper']:.3f} (one noisy step "
            f"per epoch) with all iterates, at most {last['upper']:.3f} for the last iterate.",
            not (math.isfinite(cyclic["upper"]) and math.isfinite(last["upper"])),
            "no accountant of the library bounds it",
            "each record is in one batch per epoch, so an epoch costs one noisy step (parallel "
            "composition), and the lower bound shows that shuffling hides little more; for smooth "
            "convex losses the last iterate alone costs less",
        ),
        _algorithm1(table),
    ]


def _algorithm1(table: Table) -> Claim:
    part = table.where(part="fraction-cost", multiplier=4.0)
    epsilon = dict(zip(part.column("fraction"), part.column("epsilon"), strict=True))
    gaps = best_steps(table.where(part="algorithm1"), ["noise", "fraction"])

    def gap(noise: str, fraction: float) -> float:
        return float(gaps.where(noise=noise, fraction=fraction).column("mean")[0])

    shown = ", ".join(f"{epsilon[f]:.2f} at {f:g}" for f in (1.0, 0.5, 0.1, 0.02, 0.005))
    falling = [epsilon[f] for f in sorted(epsilon, reverse=True)]
    return Claim(
        "Algorithm 1",
        "Stopping each shuffle after a fraction tau is a private alternative to full passes.",
        f"five epochs of gradients at sigma = 4L, delta = 1e-5: epsilon = {shown}. At epsilon = 1 "
        f"the gap to the optimum falls from {gap('equal', 1.0):.3f} (tau = 1) to "
        f"{gap('equal', 0.02):.3f} (tau = 0.02); without noise it rises from "
        f"{gap('none', 1.0):.1e} to {gap('none', 0.02):.1e}.",
        all(a > b for a, b in itertools.pairwise(falling))
        and gap("equal", 0.02) < gap("equal", 1.0),
        "epsilon falls with tau, and so does the gap at equal epsilon",
    )


def _example(table: Table) -> list[Claim]:
    laws = table.where(part="two-losses")
    ratio = {row["sampler"]: row["worst_ratio"] for row in laws}
    given = laws.where(data="{1, 2}", value=0)
    stay = {row["sampler"]: row["exactly"] for row in given}
    return [
        Claim(
            "Shuffling can be less private",
            "Two losses, two steps: with replacement (inf, log 1.75), without (inf, log 4).",
            f"exact worst ratios {ratio['with replacement']:g} and "
            f"{ratio['without replacement']:g}, that is epsilon = log 1.75 = "
            f"{math.log(ratio['with replacement']):.4f} and log 4 = "
            f"{math.log(ratio['without replacement']):.4f}.",
            ratio == {"with replacement": 1.75, "without replacement": 4.0},
            "the enumerated ratios are 7/4 and 4",
        ),
        Claim(
            "Shuffling can be less private",
            "Choosing twice the same data point preserves more privacy.",
            "the orders 11 and 22 end at 0, as every order of {1, 1} does: the data {1, 2} release "
            f"0 with probability {stay['with replacement']} with replacement and "
            f"{stay['without replacement']} without, the data {{1, 1}} with 2/3.",
            ratio["with replacement"] < ratio["without replacement"],
            "0, the mark of {1, 1}, is likelier with replacement",
        ),
    ]


def _renyi(table: Table) -> list[Claim]:
    rules = {(row["multiplier"], row["order"]): row for row in table.where(part="renyi")}
    worst = max(abs(row["gaussian_ratio"] - 1.0) for row in rules.values())
    low, high = (rules[2.0, 2.0][f"{side}_ratio"] for side in ("lower", "upper"))
    return [
        Claim(
            "Renyi differential privacy",
            "Gaussian noise on a query of sensitivity s has eps(alpha) = alpha s^2 / (2 sigma^2).",
            f"the library's moment function agrees to {worst:.0e} (nine pairs of alpha, sigma).",
            worst < 1e-6,
            "relative difference below 1e-6",
        ),
        Claim(
            "Main properties, 3",
            "Subsampling shrinks epsilon quadratically: eps -> rho^2 eps.",
            f"true value over the rule, one record of n = 1,000, sigma = 2L: at order 2 at least "
            f"{low:.2f} (at most {high:.2f}), at order 16 at least "
            f"{rules[2.0, 16.0]['lower_ratio']:.0f}; sigma = 10L, order 2: at least "
            f"{rules[10.0, 2.0]['lower_ratio']:.2f}.",
            low <= 1.0,
            "the rule is never below the true value",
            "it is only the limit of much noise and low orders; used as a rule it promises too "
            "much (library: the certified pairs instead)",
        ),
    ]


def claims(table: Table) -> list[Claim]:
    """Return all claims, in the poster's order of ideas."""
    return [*_convergence(table), *_privacy(table), *_example(table), *_renyi(table)]


def sampler_table(table: Table) -> str:
    """Return epsilon by sampler as Markdown, and what differs from the poster."""
    costs = table.where(part="cost")
    lines = [
        "## Epsilon by sampler",
        "",
        f"{BATCHES} batches an epoch, sigma = L, delta = 1e-5, from the library's accountants "
        "(lower and upper certified bound where they differ by more than 1 %; a dash: no proof, "
        "and the library refuses it). Reshuffled batches with all iterates released cost at most "
        "what cyclic ones cost.",
        "",
        "| sampler | zero-out, 1 epoch | 10 epochs | replace-one, 1 epoch | 10 epochs |",
        "|---|---|---|---|---|",
    ]
    for name, label in NAMES.items():
        cells = []
        for relation in ("zero-out", "replace-one"):
            for epochs in (1, 10):
                row = costs.where(adjacency=relation, sampler=name, epochs=epochs).rows[0]
                cells.append(_cell(row, bound=name == "shuffle-lower"))
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    renyi = {(r["multiplier"], r["order"]): r for r in table.where(part="renyi")}
    low, high = (2.0 * renyi[2.0, 2.0][f"{side}_ratio"] for side in ("lower", "upper"))
    lines += [
        "",
        "## What differs from the poster",
        "",
        "* The poster's pictures are lost. The two losses are a reconstruction (two convex losses "
        "that reproduce the printed numbers), and the convergence problem is our own.",
        "* The poster's formula for one epoch of SGD with replacement is lost as well. It must "
        "have the form c alpha L^2 / (n sigma^2): at sigma = 2L and order 2 the true c is between "
        f"{low:.2f} and {high:.2f} (the rho^2 rule would give 2).",
        "* Without noise the reshuffled order is faster still than the fixed one: its error "
        "averages out over epochs.",
        "* Constant steps were chosen by result, see above.",
    ]
    return "\n".join(lines)


def _cell(row: dict[str, float], bound: bool) -> str:
    if not row["proven"]:
        return "–"
    if bound:
        return f"at least {row['lower']:.2f}"
    lower, upper = row["lower"], row["upper"]
    if lower > 0.0 and upper > 1.01 * lower:
        return f"{lower:.2f} to {upper:.2f}"
    return f"{upper:.2f}" if lower > 0.0 else f"at most {upper:.2f}"
