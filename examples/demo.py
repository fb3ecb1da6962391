"""The demo: a private number with its guarantee, a private model, what a training run costs."""

from rich.console import Console
from rich.panel import Panel
from rich.table import Table

import noisette
from noisette import accounting, mechanisms, plans, sampling
from noisette.clipping import clipped_sum

BATCHES, EPOCHS, NOISE, DELTA = 100, 10, 1.0, 1e-5
console = Console(width=96)


def one_private_sum() -> None:
    """Bound, count, noise: the mean of 5,000 incomes, with the paragraph for a reviewer."""
    rng = noisette.Randomness.from_seed(1).generator
    incomes = (20 + 30 * rng.random((5000, 1)) ** 2 * 4) / 100  # in units of 100,000, made up
    total = clipped_sum(incomes, bound=1.0, adjacency="replace-one")

    ledger = noisette.Ledger(epsilon=1.0)
    permit = ledger.charge(mechanisms.Laplace.calibrated(0.5), label="sum of incomes")
    private = noisette.release(total, permit, noisette.Randomness.secure())[0]
    public = ("n = 5000", "incomes are clipped at 100,000")
    guarantee = permit.guarantee("the mean income", public=public)

    console.rule("[bold]1. One private number[/bold]", align="left")
    console.print(f"  exact mean    {total.value[0] / 5000:.5f}   (you would never print this)")
    console.print(f"  private mean  {private / 5000:.5f}   at epsilon = {guarantee.epsilon:g}")
    console.print(f"  ledger        spent {ledger.spent[0]:g} of {ledger.epsilon:g}")
    console.print(Panel(guarantee.statement(), title="what your reviewer gets", padding=(0, 1)))


def a_private_model() -> None:
    """Logistic regression on a made-up table of 20,000 people, without and with privacy."""
    from sklearn.linear_model import LogisticRegression as Plain

    data = noisette.datasets.mixed_table(seed=0).dataset()
    plain = Plain(max_iter=1000).fit(data.X, data.y).score(data.X_test, data.y_test)
    table = Table(title="Test accuracy, replace-one, delta = 0", title_justify="left")
    table.add_column("epsilon", justify="right")
    table.add_column("accuracy", justify="right")
    table.add_row("no privacy", f"{plain:.1%}")
    for epsilon in (8.0, 1.0, 0.1):
        model = noisette.LogisticRegression(epsilon=epsilon, classes=data.classes)
        model.fit(data.X, data.y)
        table.add_row(f"{epsilon:g}", f"{model.score(data.X_test, data.y_test):.1%}")
    console.rule("[bold]2. A private model[/bold]", align="left")
    console.print(table)
    console.print("  fresh noise in every run; the guarantee is model.privacy_.statement()")


def what_a_run_costs() -> None:
    """The same noise and the same number of passes under each sampler, certified."""
    gaussian = mechanisms.Gaussian(NOISE)

    def epochs(sampler: sampling.Sampler) -> plans.Plan:
        return plans.Repeat(plans.Sampled(gaussian, sampler), EPOCHS)

    poisson = plans.Sampled(gaussian, sampling.Poisson(1 / BATCHES))
    last = plans.LastIterate(
        gaussian, sampling.Shuffle(BATCHES), EPOCHS, loss="logistic", learning_rate=4.0
    )
    runs = [
        ("shuffled batches, all iterates", epochs(sampling.Shuffle(BATCHES))),
        ("fixed order, all iterates", epochs(sampling.Cyclic(BATCHES))),
        ("shuffled, only the last iterate *", last),
        ("Poisson batches", plans.Repeat(poisson, BATCHES * EPOCHS)),
        ("random allocation", epochs(sampling.RandomAllocation(BATCHES))),
    ]
    table = Table(title_justify="left", title=f"Gaussian noise, multiplier {NOISE:g}; {BATCHES} "
                  f"batches, {EPOCHS} epochs; delta = {DELTA:g}; zero-out")  # fmt: skip
    table.add_column("how batches are chosen")
    table.add_column("epsilon, certified", justify="right")
    table.add_column("true value is at least", justify="right")
    for name, plan in runs:
        low, high = accounting.bracket(plan, delta=DELTA, adjacency="zero-out")
        table.add_row(name, f"{high:.3f}", f"{low:.3f}" if low > 0 else "")
    console.rule("[bold]3. What a training run costs[/bold]", align="left")
    console.print(table)
    console.print(
        "  * logistic loss on rows of norm at most 1, constant step 4, nothing else released"
    )
    console.print(
        "  Who shuffles and reports the Poisson number promises 1.8 where the truth is at least 7."
    )


def main() -> None:
    """Run all parts and say what to try next."""
    one_private_sum()
    a_private_model()
    what_a_run_costs()
    console.rule("[bold]4. Try next[/bold]", align="left")
    console.print(
        "  .venv/bin/noisette account --noise-multiplier 1 --sampling poisson --rate 0.01 \\"
    )
    console.print("      --steps 1000 --delta 1e-5 --adjacency add-remove --plot epsilon.png")
    console.print(
        "  .venv/bin/noisette calibrate --epsilon 1 --delta 1e-6 --sampling random-allocation \\"
    )
    console.print("      --batches 100 --epochs 10 --adjacency zero-out")
    console.print(
        "  docs/architecture.md for the house, docs/theory/theorems.md for every theorem used"
    )


if __name__ == "__main__":
    main()
