"""`train`: the whole life of a guarantee on one screen."""

from typing import Any

from noisette.core.adjacency import require_same
from noisette.core.ledger import Ledger
from noisette.core.permit import Permit
from noisette.core.plans import Plan
from noisette.core.plans.leaves import PlanLike
from noisette.core.randomness import Randomness
from noisette.errors import PermitError
from noisette.fitting.algorithms.algorithm import Algorithm, Prepared, Trained
from noisette.fitting.algorithms.observer import Observer
from noisette.fitting.algorithms.passage import Passage
from noisette.fitting.algorithms.public import PublicBudget


def train(
    algorithm: Algorithm[Any],
    public: PublicBudget,
    records: Any,
    *,
    ledger: Ledger,
    randomness: Randomness,
    observer: Observer | None = None,
    label: str = "",
    model: str = "",
    verbose: int = 0,
) -> Trained:
    """Prepare, check, charge, run."""
    prepared = algorithm.prepare(public)
    algorithm.check(records, prepared)
    passage = begin(
        prepared, ledger=ledger, randomness=randomness, observer=observer,
        label=label or algorithm.name, model=model, verbose=verbose,
    )  # fmt: skip
    released = algorithm.run(records, prepared, passage)
    weighed = algorithm.weight_proofs if records.weights is not None else ()
    parted = ("ROUND-ANY-ORDER", "ROW-LOCAL") if getattr(records, "parted", False) else ()
    return Trained(released, passage.permit, (*prepared.proofs, *weighed, *parted))


def begin(
    prepared: Prepared,
    *,
    ledger: Ledger,
    randomness: Randomness,
    observer: Observer | None = None,
    label: str,
    model: str = "",
    verbose: int = 0,
    resumable: bool = False,
) -> Passage:
    """Charge what was prepared; only then can anything be drawn or released."""
    public, watch = prepared.public, observer or Observer()
    require_same(ledger.adjacency, "the ledger", public.adjacency, "the training")
    permit = charged(
        ledger, prepared.plan, watch, label=label, delta=public.delta, epsilon=public.epsilon,
        seeded=randomness.seeded, resumable=resumable, unit=public.unit, model=model,
    )  # fmt: skip
    return Passage(permit, randomness, watch, verbose=verbose)


def charged(ledger: Ledger, plan: Plan, observer: Observer, **options: Any) -> Permit:
    """Return the permit for `plan`; whoever watches may not put another charge in its place."""
    issued: list[Permit] = []

    def charge(asked: PlanLike, **options: Any) -> Permit:
        issued.append(ledger.charge(asked, **options))
        return issued[-1]

    permit: Permit = observer.charge(charge, plan, **options)
    if [permit] != issued or permit.plan != plan.under(ledger.adjacency):
        raise PermitError(
            "an observer only watches: it must book the plan that was prepared, once, and hand on "
            "the permit of that charge."
        )
    return permit
