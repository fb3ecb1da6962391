"""`evaluate`: how good a released model is, on rows of people who are to be protected."""

from dataclasses import replace
from typing import Any

import numpy as np

from noisette import _validate
from noisette.core.adjacency import UNITS, Adjacency, require_same
from noisette.core.cells import given
from noisette.core.ledger import Ledger
from noisette.core.parts import summed
from noisette.core.randomness import Randomness, as_randomness
from noisette.core.refusals import stated
from noisette.errors import InvalidData, InvalidParameter
from noisette.fitting.algorithms import train
from noisette.fitting.algorithms.public import PublicBudget
from noisette.fitting.partitions.collections import is_dask, parted
from noisette.fitting.units import Unit
from noisette.models import inputs
from noisette.models.outputs import size_facts
from noisette.scores.layouts import RegressionLayout, layout_for
from noisette.scores.measure import AnyScores
from noisette.tables.pipeline.shares import codes_of, counted, table_for

_MODEL_GIVEN = (
    "The model is taken as given: it was released before, and it scores every row by itself. If "
    "it was trained on the same people, its cost comes on top."
)
_NO_TRUTH = "the table needs rows, and y one entry for each of them."


def evaluate(
    model: Any,
    X: Any,
    y: Any,
    *,
    epsilon: float,
    delta: float = 0.0,
    adjacency: str = "replace-one",
    population: int | None = None,
    ledger: Ledger | None = None,
    sample_weight: Any = None,
    persons: Any = None,
    bins: Any = None,
    target_bounds: Any = None,
    random_state: int | Randomness | None = None,
) -> AnyScores:
    """Return the scores of a released model on sensitive rows, with a guarantee.

    One noisy table of (label) x (score bin) is bought; accuracy, AUC, ROC, calibration and the
    confusion at every threshold follow from it at no further cost, each with error bars that
    count both the noise and the sample of rows.

    Parameters
    ----------
    model : estimator
        A fitted classifier with ``predict_proba`` or ``decision_function``, or a model of numbers
        with ``predict``. It must score every row by itself.
    X : array_like or table
        What the model takes.
    y : array_like of shape (n,)
        The truth, read label by label. One that the model does not know counts nowhere.
    epsilon, delta : float
        The budget of the table.
    adjacency : {"replace-one", "zero-out", "add-remove"}, default "replace-one"
        The neighbouring relation.
    population : int, optional
        A public guess of the number of rows (of persons, where they are given), for add-remove.
    ledger : Ledger, optional
        The budget to charge; None opens one of (epsilon, delta).
    sample_weight : array_like of shape (n,), optional
        Weights in [0, 1], as sensitive as the rows; those of one person must add up to at most 1.
        A row of weight 0 is the blanked record of zero-out.
    persons : Persons or array_like of shape (n,), optional
        Whose row each is; then all rows of a person are protected together, and everybody counts
        as the mean of their rows.
    bins : int or sequence of float, optional
        So many bins of equal width, or the ends of bins from 0 to 1, chosen without these rows.
    target_bounds : tuple of float, optional
        Public bounds of the target, for models of numbers; the model's own unless given.
    random_state : int or Randomness, optional
        None draws secure noise; a number makes the run reproducible, and the guarantee void.

    Returns
    -------
    BinaryScores, MulticlassScores or RegressionScores
        The scores, with ``privacy_``.

    Raises
    ------
    InvalidParameter
        If a parameter is out of range; nothing is charged.
    InvalidData
        If the model cannot score the rows; nothing is charged.
    BudgetExceeded
        If the ledger has too little left; nothing is charged.

    Examples
    --------
    >>> import numpy as np
    >>> from noisette import LogisticRegression, evaluate
    >>> X = np.linspace(-1, 1, 4000)[:, None]
    >>> y = X[:, 0] > 0
    >>> model = LogisticRegression(epsilon=5.0, norm_bound=1.0, random_state=0)
    >>> model = model.fit(X[::2], y[::2])
    >>> found = evaluate(model, X[1::2], y[1::2], epsilon=1.0, random_state=0)
    >>> found.auc.low < 1.0 < found.auc.value + 0.01, found.privacy_.epsilon
    (True, 1.0)

    """
    epsilon, delta = _validate.epsilon(epsilon), _validate.delta(delta)
    relation, randomness = Adjacency.of(adjacency), as_randomness(random_state)
    if population is not None:
        _validate.integer("population", population)
    if ledger is None:
        ledger = Ledger(epsilon, delta, adjacency=relation)
    elif not isinstance(ledger, Ledger):
        raise InvalidParameter("ledger must be a Ledger or None.")
    require_same(ledger.adjacency, "the ledger", relation, "the evaluation")
    layout = layout_for(model, bins, target_bounds)
    X, y = _rows_and_truth(X, y)
    unit = inputs.unit_of(persons, len(y), relation, y)
    public = _public(unit, population, epsilon=epsilon, delta=delta, adjacency=relation)
    weights = None
    if sample_weight is not None:
        weights = inputs.weights("sample_weight", sample_weight, y, 0.0, 1.0)
    step, prepared = table_for(layout, public, pure=ledger.rule == "sums")
    with np.errstate(all="ignore"):
        codes = codes_of(layout, model, X, y)
        summed(len, codes[0])  # what cannot be scored is said before anything is charged
        trained = train(
            step, prepared.public, counted(layout, codes, weights).group(unit), ledger=ledger,
            randomness=randomness, label="evaluate", model=type(model).__name__,
        )  # fmt: skip
    found = layout.scores(
        trained.released, deviation=step.deviation(prepared.scale, relation), notes=layout.notes
    )
    asked = ["target" if isinstance(layout, RegressionLayout) else "truth"]
    asked += ["weights"] * (weights is not None) + list(unit.refusals)
    guarantee = trained.permit.guarantee(
        "a noisy table of labels and scores",
        public=(
            *size_facts(public, population), "the model and its labels",
            f"the {' + '.join(map(str, layout.sizes))} cells of the table",
            "all parameters and the program",
        ), notes=(_MODEL_GIVEN, *unit.notes, *stated(asked), *layout.notes),
        proofs=trained.proofs, max_rows=unit.max_rows,
    )  # fmt: skip
    return replace(found, privacy_=guarantee)


def _rows_and_truth(X: Any, y: Any) -> tuple[Any, Any]:
    """Return what the model takes and the truth, both in memory or both in partitions."""
    if not is_dask(y):
        y = given(y, _NO_TRUTH).cells()
    if is_dask(X):
        rows, truth = parted(X, y)
        count = int(summed(_as_many, rows, truth))
        X, y = rows.sized(count), truth.sized(count)
    elif is_dask(y):
        raise InvalidData("y lives in partitions, so X must, too.")
    if y.ndim != 1 or len(y) < 1:
        raise InvalidData(_NO_TRUTH)
    return X, y


def _as_many(rows: Any, truth: Any) -> int:
    if rows.shape[0] != len(truth):
        raise InvalidData(_NO_TRUTH)
    return len(truth)


def _public(unit: Unit, population: int | None, **budget: Any) -> PublicBudget:
    size = unit.size(budget["adjacency"], population)
    _validate.delta_for(budget["delta"], size)
    # how many rows persons have together is private, and needs no bound here
    grouped = UNITS[unit.word].grouped
    most = None if grouped else unit.known(budget["adjacency"], population)["most"]
    return PublicBudget(size=size, most=most, unit=unit.word, max_rows=unit.max_rows, **budget)
