"""Draw docs/price.png: what a proven promise costs, from the table in docs/benchmarks/linear.md."""

import re
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt

DOCS = Path(__file__).parents[1] / "docs"
SHOWN = {  # people, and the share of the commoner answer in per cent (docs/benchmarks.md)
    "adult": ("Adult: income above 50,000", "48,842 people", 76.1),
    "bank": ("Bank: takes the offer", "45,211 people", 88.3),
    "credit": ("Credit: does not pay", "30,000 people", 77.8),
}
NUT, TEAL, GREY, LIGHT = "#8a4f1c", "#0a6e77", "#55504a", "#b9b2a8"


def rows(name: str) -> dict[float, list[tuple[float, float]]]:
    """Return epsilon -> (mean, deviation) without privacy, of ours, and of diffprivlib."""
    found = {}
    for line in (DOCS / "benchmarks" / "linear.md").read_text().split("## ")[1].splitlines():
        if re.match(rf"\| {name} \| replace-one \| 0 \|", line):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            numbers = [tuple(map(float, cells[at].split(" ± "))) for at in (5, 7, 9)]
            found[float(cells[3])] = numbers
    return found  # type: ignore[return-value]


def main() -> None:
    """Draw three panels, one for each data set."""
    plt.rcParams.update({"font.size": 11, "font.family": "DejaVu Sans"})
    figure, panels = plt.subplots(1, 3, figsize=(11.4, 4.1), layout="constrained")
    for number, (panel, (name, (title, people, usual))) in enumerate(
        zip(panels, SHOWN.items(), strict=True)
    ):
        table = rows(name)
        epsilons = sorted(table)
        plain = table[epsilons[0]][0][0]
        ours = [table[e][1] for e in epsilons]
        theirs = [table[e][2] for e in epsilons]
        low, high = ([mean + side * spread for mean, spread in ours] for side in (-1.0, 1.0))
        panel.axhline(plain, color=GREY, ls="--", lw=1.4)
        panel.axhline(usual, color=LIGHT, ls=":", lw=1.6)
        panel.fill_between(epsilons, low, high, color=TEAL, alpha=0.16, lw=0)
        panel.plot(epsilons, [mean for mean, _ in theirs], "s--", color=LIGHT, lw=1.5, ms=5)
        panel.plot(epsilons, [mean for mean, _ in ours], "o-", color=TEAL, lw=2.4, ms=6)
        at_one = table[1.0][1][0]
        panel.annotate(
            f"{plain - at_one:.1f} points lost\nat ε = 1", (1.0, at_one), (0.42, 0.36),
            textcoords="axes fraction", color=TEAL, fontsize=12, fontweight="bold",
            arrowprops={"arrowstyle": "-", "color": TEAL, "lw": 1.2},
        )  # fmt: skip
        bottom = min(usual, min(mean for mean, _ in theirs)) - 0.7
        panel.set_ylim(bottom, plain + 0.1 * (plain - bottom))
        panel.set(xscale="log", xlim=(0.085, 9.5), xlabel="ε  (smaller is safer)")
        panel.set_xticks([0.1, 0.5, 1, 2, 8], ["0.1", "0.5", "1", "2", "8"])
        panel.minorticks_off()
        panel.spines[["top", "right"]].set_visible(False)
        panel.set_title(title, loc="left", fontsize=12, fontweight="bold", color=NUT, pad=20)
        panel.text(0, 1.025, people, transform=panel.transAxes, color=GREY, fontsize=10)
        panel.annotate("no privacy", (0.095, plain), (0, 4), textcoords="offset points",
                       color=GREY, fontsize=9.5)  # fmt: skip
        if number == 0:
            panel.set_ylabel("test accuracy in %")
            panel.text(0.125, ours[0][0] - 1.2, "noisette", color=TEAL, fontweight="bold")
            panel.text(0.125, theirs[0][0] - 0.2, "diffprivlib", color=GREY, va="center",
                       fontsize=9.5)  # fmt: skip
            panel.text(9.3, usual, "always the commoner answer", color=GREY, ha="right",
                       va="bottom", fontsize=9.5)  # fmt: skip
    figure.savefig(DOCS / "price.png", dpi=150)


if __name__ == "__main__":
    main()
