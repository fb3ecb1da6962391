"""`train`: the whole life of a guarantee on one screen."""

from typing import Any

from noisette.core.adjacency import require_same
from noisette.core.ledger import Ledger
from noisette.core.parts import Parted
from noisette.core.randomness import Randomness
from noisette.errors import InvalidParameter
from noisette.fitting.algorithms.algorithm import Algorithm, Prepared, Trained
from noisette.fitting.algorithms.passage import Passage
from noisette.fitting.algorithms.public import PublicBudget


def train(
    algorithm: Algorithm[Any],
    public: PublicBudget,
    records: Any,
    *,
    ledger: Ledger,
    randomness: Randomness,
    label: str = "",
    model: str = "",
    verbose: int = 0,
) -> Trained:
    """Prepare, check, charge, run."""
    prepared = checked(algorithm, public, records)
    passage = begin(
        prepared, ledger=ledger, randomness=randomness, label=label or algorithm.name,
        model=model, verbose=verbose,
    )  # fmt: skip
    released = algorithm.run(records, prepared, passage)
    weighed = algorithm.weight_proofs if records.weights is not None else ()
    proofs = (*prepared.proofs, *weighed, *getattr(records, "proofs", ()))
    return Trained(released, passage.permit, proofs)


def checked(algorithm: Algorithm[Any], public: PublicBudget, records: Any) -> Any:
    """Prepare and check: what can be refused is refused here, and nothing is charged yet."""
    prepared = algorithm.prepare(public)
    if algorithm.needs_batches and isinstance(records.rows, Parted):
        raise InvalidParameter(
            f"{algorithm.name} takes batches, which rows in partitions do not give; use "
            "sampling='auto' with a delta, or an estimator that solves in one go, such as "
            "LogisticRegression or HuberRegressor."
        )
    algorithm.check(records, prepared)
    return prepared


def begin(
    prepared: Prepared,
    *,
    ledger: Ledger,
    randomness: Randomness,
    label: str,
    model: str = "",
    verbose: int = 0,
    resumable: bool = False,
) -> Passage:
    """Charge what was prepared; only then can anything be drawn or released."""
    public = prepared.public
    require_same(ledger.adjacency, "the ledger", public.adjacency, "the training")
    permit = ledger.charge(
        prepared.plan, label=label, delta=public.delta, epsilon=public.epsilon,
        seeded=randomness.seeded, resumable=resumable, unit=public.unit, model=model,
    )  # fmt: skip
    return Passage(permit, randomness, verbose=verbose)
