"""Draw docs/theory/shuffle.png and .svg: why shuffled batches are not Poisson batches."""

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import ndtr

from noisette import accounting, mechanisms, plans, sampling

Z, DELTA, ADJACENCY = 0.7, 1e-5, "zero-out"
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#666666"


def one_epoch(sampler: sampling.Sampler, times: int = 1) -> tuple[float, float]:
    """Return the certified bracket of one pass with that sampler."""
    plan = plans.Repeat(plans.Sampled(mechanisms.Gaussian(Z), sampler), times)
    return accounting.bracket(plan, delta=DELTA, adjacency=ADJACENCY)


def main() -> None:
    """Compute both panels and write them."""
    plt.rcParams.update({"font.size": 10, "svg.hashsalt": "noisette"})
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")

    batches = np.unique(np.geomspace(2, 2000, 19).round().astype(int))
    shuffle = np.array([one_epoch(sampling.Shuffle(int(b))) for b in batches])
    poisson = np.array([one_epoch(sampling.Poisson(1 / b), int(b)) for b in batches])
    allocation = np.array([one_epoch(sampling.RandomAllocation(int(b))) for b in batches])
    left.fill_between(batches, *shuffle.T, color=ORANGE, alpha=0.25, lw=0)
    left.plot(batches, shuffle[:, 1], "-", color=ORANGE, lw=2, label="shuffle: proven upper bound")
    left.plot(batches, shuffle[:, 0], "--", color=ORANGE, lw=2, label="shuffle: proven lower bound")
    left.plot(batches, poisson[:, 1], "-.", color=BLUE, lw=2, label="Poisson, rate 1/batches")
    left.plot(batches, allocation[:, 1], ":", color=GREEN, lw=2.5, label="random allocation")
    left.set(xscale="log", xlabel="batches in the epoch", ylabel=f"ε at δ = {DELTA:g} (one epoch)")
    left.set_ylim(0, 10)
    left.grid(alpha=0.3, lw=0.5)
    left.legend(frameon=False, fontsize=9, loc="upper right")
    left.set_title(f"Gaussian noise, multiplier {Z}, {ADJACENCY}", fontsize=10)

    count = 100
    x = np.linspace(0.5, 6.0, 800)
    laws = [ndtr((x - shift) / Z) * ndtr(x / Z) ** (count - 1) for shift in (2.0, 1.0)]
    with_person, without = (np.gradient(law, x) for law in laws)
    right.plot(x, with_person, "-", color=ORANGE, lw=2, label="with the person's gradient")
    right.plot(x, without, "--", color=GREY, lw=2, label="with it blanked out")
    threshold = 3.6
    right.fill_between(x, with_person, where=x >= threshold, color=ORANGE, alpha=0.3, lw=0)
    right.plot([threshold, threshold], [0, 0.45], color="black", lw=0.8)
    p, q = (1 - float(np.interp(threshold, x, law)) for law in laws)
    right.annotate(
        f"above the line: {100 * p:.2g} % against\n{100 * q:.2g} %, {p / q:.0f} times likelier",
        (threshold, 0.12), (threshold + 0.12, 0.3), fontsize=9,
    )  # fmt: skip
    right.set(
        xlabel="largest of the 100 noisy batch sums (in norm bounds)",
        ylabel="probability density",
    )
    right.set_ylim(0, 1.45)
    right.grid(alpha=0.3, lw=0.5)
    right.legend(frameon=False, fontsize=9, loc="upper right")
    right.set_title("Everybody else pulls the other way: the maximum tells", fontsize=10)

    folder = Path(__file__).parents[1] / "docs" / "theory"
    for suffix, metadata in (("png", None), ("svg", {"Date": None})):
        figure.savefig(folder / f"shuffle.{suffix}", dpi=130, metadata=metadata)
        print("wrote", f"docs/theory/shuffle.{suffix}")


if __name__ == "__main__":
    main()
