"""`TableClassifier`: a raw table in, a private model out, one guarantee about all of it."""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from noisette import _validate
from noisette._scikit import ClassifierMixin, available_if, check_is_fitted
from noisette._typing import Floats, Labels
from noisette.core.ledger import Ledger
from noisette.core.parts import is_parted, summed
from noisette.core.randomness import Randomness
from noisette.errors import InvalidData, InvalidParameter
from noisette.fitting.algorithms.class_weight import BALANCED, check_class_weight, public_weights
from noisette.fitting.algorithms.public import PublicBudget
from noisette.fitting.losses import Logistic, Loss, Softmax, SoftplusHinge
from noisette.fitting.partitions.lazily import lazily
from noisette.models import inputs
from noisette.models.outputs import labels_fact
from noisette.models.private import Scored
from noisette.tables import Schema
from noisette.tables.person_facts import planned_unit
from noisette.tables.pipeline.categories import keys_of
from noisette.tables.pipeline.pairs import checked_pairs
from noisette.tables.pipeline.parted_tables import frame_of, labels_of
from noisette.tables.pipeline.recipe import TableRecipe, recipe_for, with_room_for
from noisette.tables.pipeline.table_estimator import TableEstimator
from noisette.tables.pipeline.table_outlook import TableOutlook, table_outlook
from noisette.tables.pipeline.table_training import FittedTable, TableSample, TableTraining

MODELS = ("logistic", "svm")
_CLASSES = ["a label of y", "another label of y"]
"""What stands in a schema for a target and classes that y will tell."""
_FEW = 16
_MOST_LABELS = 100


def _has_probabilities(model: Any) -> bool:
    if model.model != "logistic":
        raise AttributeError("only model='logistic' has probabilities.")
    return True


def _checked_labels(y: Any, rows: int, least: int) -> Any:
    if rows < least:
        raise InvalidData("the table has no rows.")
    if is_parted(y):
        return y
    labels = inputs.label_vector(y)
    if labels.ndim != 1:
        raise InvalidData(
            "y must be one column of labels, not a table; use y.ravel(), or name the column."
        )
    if len(labels) != rows:
        raise InvalidData("y must have one label for each row of the table.")
    return labels


def _class_numbers(classes: NDArray[Any], y: NDArray[Any]) -> NDArray[np.intp]:
    """Return the position of every label; few texts are compared without a list of all labels."""
    if {classes.dtype.kind, y.dtype.kind} != {"U"} or len(classes) > _FEW:
        return inputs.label_numbers(classes, y)
    numbers = np.full(len(y), -1, dtype=np.intp)
    for place, label in enumerate(classes):
        numbers[y == label] = place
    if (numbers < 0).any():
        return inputs.label_numbers(classes, y)  # which refuses
    return numbers


def _check_count(classes: int, size: int | None) -> None:
    """Refuse a quantity that was taken for labels, of which all values would be published."""
    few = _MOST_LABELS if size is None else min(_MOST_LABELS, size // 10)
    if classes > max(few, 10):
        raise InvalidData(
            "y holds so many labels for so few rows that it may be a quantity, and labels that are "
            "read off y are published; if they are classes, list them with classes=[...]."
        )


class TableClassifier(Scored, ClassifierMixin, TableEstimator):  # type: ignore[misc]
    """A private linear model of a raw table, of which only the kinds of the columns are known.

    Bounds, knots, levels, centres, scales and weights are all bought from the one budget, by one
    plan that is charged before the first look.

    Parameters
    ----------
    epsilon : float
        The budget of everything that is released.
    delta : float
        0 is pure; categories that nobody listed are then told apart by a public hash only, while a
        delta such as 1e-6 lets them be learnt.
    schema : dict, Schema or path
        For each column its kind, ``{"age": "numeric", "ward": "categorical", "id": "ignore"}``, or
        a schema with any mix of known and unknown facts. A kind must not be read off the rows.
    model : str
        "logistic" (default) or "svm".
    adjacency : str
        "replace-one" (default), "zero-out" or "add-remove".
    population : int, optional
        A public guess of the number of records, needed under add-remove.
    classes : sequence, optional
        Every label that can occur; else those of y, which are then treated as public.
    class_weight : dict or "balanced", optional
        How much rows of each class count: public weights by label, of which only the ratio matters,
        or "balanced" by the noisy counts of labels that are released anyway.
    test_share : float, optional
        The part of the people, chosen without a look at their values, on whom the model is scored
        instead of trained: ``test_`` is then covered by the same guarantee, at no further cost.
    share : float, optional
        The part of the budget for everything but the model; None follows a public rule.
    random_state : int, Randomness or None
        None draws secure noise; a number makes the run reproducible, and the guarantee void.
    ledger : Ledger, optional
        The budget to charge; None opens one of (epsilon, delta).

    Attributes
    ----------
    schema_ : Schema
        The schema with everything that was learnt; it is released and public.
    coef_, intercept_ : ndarray
        The weights of the encoded features.
    classes_ : ndarray
        The labels.
    test_ : BinaryScores or MulticlassScores
        With `test_share`: accuracy, AUC, ROC and calibration on other people, with error bars.
    privacy_ : Guarantee
        About everything that was released.

    Examples
    --------
    >>> import numpy as np
    >>> from noisette import TableClassifier
    >>> age = np.arange(2000) % 80
    >>> table = {"age": age, "ward": np.where(age % 2, "A", "B")}
    >>> kinds = {"age": "numeric", "ward": "categorical"}
    >>> model = TableClassifier(2.0, 1e-6, schema=kinds, random_state=0).fit(table, age > 40)
    >>> bool(model.score(table, age > 40) > 0.9)
    True
    >>> model.predict(table).shape, model.predict_proba(table).shape
    ((2000,), (2000, 2))
    >>> model.decision_function(table).shape
    (2000,)
    >>> model = TableClassifier(2.0, 1e-6, schema=kinds, test_share=0.2, random_state=0)
    >>> model.fit(table, age > 40).test_.auc.low > 0.9
    True

    """

    _whole = "a classifier with the facts of its columns"
    _refuses = ("columns", "lines", "labels")

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        schema: Any = None,
        model: str = "logistic",
        adjacency: str = "replace-one",
        population: int | None = None,
        classes: Labels | None = None,
        class_weight: Any = None,
        test_share: float | None = None,
        share: float | None = None,
        random_state: int | Randomness | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.model = model
        self.adjacency = adjacency
        self.population = population
        self.classes = classes
        self.class_weight = class_weight
        self.test_share = test_share
        self.share = share
        self.random_state = random_state
        self.ledger = ledger

    # --- fitting -----------------------------------------------------------------------------

    def plan(self, n: int, *, classes: int | None = None) -> TableOutlook:
        """Return what ``fit`` on n rows would release and cost, from public facts alone.

        Parameters
        ----------
        n : int
            The number of records, or a guess of it; of persons, where the schema tells them apart.
        classes : int, optional
            How many labels there are; what the schema or the constructor lists, else two.

        Returns
        -------
        TableOutlook
            The plan, the steps with their shares, the noise in plain units, memory and time.

        Raises
        ------
        InvalidParameter
            If a parameter of the estimator or a fact of the schema is out of range.

        Examples
        --------
        >>> from noisette import TableClassifier
        >>> kinds = {"age": "numeric", "ward": "categorical"}
        >>> shown = TableClassifier(1.0, 1e-6, schema=kinds).plan(5000)
        >>> [step.name for step in shown.steps]
        ['knots', 'levels', 'shares', 'weights']

        """
        ledger, _ = self._check_public()
        n = _validate.integer("n", n)
        schema = self._read_schema(target=False)
        if classes is None:
            classes = len(schema.classes if self.classes is None else self.classes)
        public = self._public(planned_unit(schema.persons, n), ledger.adjacency)
        if public.size is None:
            public = replace(public, size=n)
        classes = _validate.integer("classes", classes, least=2)
        most = self._for_training(public)
        training = self._training(schema, classes, most)
        assert most.size is not None
        shown = table_outlook(training, training.prepare(most), most.size)
        if self.test_share is None:
            return shown
        tested = self._tested(training, self._bare(np.arange(classes)), ledger)
        return replace(shown, plan=tested.prepare(public).plan)

    def fit(self, X: Any, y: Any = None, persons: Any = None) -> Self:
        """Learn the facts and train, privately.

        Parameters
        ----------
        X : table
            A pandas, polars or pyarrow table, or a dictionary of columns.
        y : array-like, optional
            The labels; None takes them from the column that the schema names as target.
        persons : array-like or Persons, optional
            Whose row each row is, by any identifier; None takes it from the column that the
            schema names as person, if it names one. The guarantee is then about persons with
            all their rows, whose weights add up to one; ``population`` counts persons.

        Returns
        -------
        self
            The fitted classifier.

        """
        with self._all_or_nothing(X):
            self._fit(X, y, persons)
        self._warn_unread()
        return self

    def _fit(self, X: Any, y: Any, persons: Any) -> None:
        budget = self._check_public()
        adjacency = budget[0].adjacency
        schema = self._read_schema(target=y is None)
        if schema.target_bounds is not None:
            raise InvalidParameter(
                "the schema says that the target is a number; use TableRegressor."
            )
        frame = frame_of(X, schema, target=y is None)
        self._check_parts(frame, persons)
        unit = self._unit(persons, frame, schema, adjacency)
        y = _checked_labels(labels_of(frame, y), frame.rows, self._least)
        given = self.classes
        if given is None and schema.source["classes"] != _CLASSES:
            given = schema.classes
        classes = inputs.sorted_classes(given, y)
        numbers = _class_numbers(classes, y)
        if is_parted(numbers):
            summed(len, numbers)  # a label that is not listed is said before anything is charged
        public = self._public(unit, adjacency)
        if given is None:
            _check_count(len(classes), public.size)
        most = self._for_training(public)
        training = self._training(schema, len(classes), most, classes)
        sample = TableSample(frame, numbers, unit)
        sample.pairs = len(training.used_pairs)
        trained, notes = self._trained(training, public, sample, self._bare(classes), budget)
        self.classes_ = classes
        fact = labels_fact(classes, given=given is not None)
        self._promised(trained, notes, public, fact, unit)

    def _bare(self, classes: NDArray[Any]) -> "TableClassifier":
        """Return the model as far as it is public."""
        bare = copy.copy(self)
        bare.classes_ = classes
        return bare

    def _publish(self, fitted: FittedTable) -> None:
        self.schema_, self.bars_, self.pairs_ = fitted.schema, fitted.bars, fitted.pairs
        self.coef_, self.intercept_ = fitted.coef, fitted.intercept

    def _check_public(self) -> tuple[Ledger, Randomness]:
        _validate.choice("model", self.model, MODELS)
        check_class_weight(self.class_weight)
        return self._check_table()

    def _unnamed(self, name: str) -> dict[str, Any]:
        return {"target": name, "classes": _CLASSES}

    @property
    def _reads_labels(self) -> bool:
        return self.classes is None and bool(self.schema_.source["classes"] == _CLASSES)

    def _training(
        self, schema: Schema, classes: int, public: PublicBudget, labels: Any = None
    ) -> TableTraining:
        loss: Loss = Logistic() if classes == 2 else Softmax(classes)
        if self.model == "svm":
            if classes > 2:
                raise InvalidParameter("model='svm' is for two classes; use 'logistic'.")
            loss = SoftplusHinge()
        bare = TableTraining(schema, loss, recipe_for(public, numeric=0, counted=1, unknown=0))
        recipe = self._recipe(
            public,
            numeric=len(bare.numbers),
            counted=len(bare.counted) + 1,
            unknown=len(bare.unknown),
            share=self.share if self.share is not None else schema.share,
        )
        weight: Any = self.class_weight
        if labels is not None and isinstance(weight, Mapping):
            factors = public_weights(weight, labels)
            weight = None if factors is None else tuple(factors.tolist())
        elif weight is not None:
            weight = BALANCED
        keys = keys_of(public) if bare.unknown else 1
        persons = public.grouped
        pairs = checked_pairs(self.pairs, schema)
        recipe = with_room_for(recipe, public, len(pairs), numbers=False)
        training = TableTraining(schema, loss, recipe, classes, persons, keys, weight)
        return replace(training, pairs=pairs)

    def _recipe(self, public: PublicBudget, **columns: Any) -> TableRecipe:
        return recipe_for(public, **columns)

    # --- using the model -----------------------------------------------------------------------

    @lazily
    def decision_function(self, X: Any) -> Floats:
        """Return the scores of every row.

        Parameters
        ----------
        X : table
            A pandas, polars or pyarrow table, or a dictionary of columns.

        Returns
        -------
        ndarray of shape (n,) or (n, K)
            One score for two classes, else one for each class.

        """
        check_is_fitted(self, "schema_")
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    @lazily
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely label of every row.

        Parameters
        ----------
        X : table
            A pandas, polars or pyarrow table, or a dictionary of columns.

        Returns
        -------
        ndarray of shape (n,)
            The labels.

        """
        scores = self.decision_function(X)
        chosen = (scores > 0.0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[chosen])

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    @lazily
    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of every class; only for the model "logistic".

        Parameters
        ----------
        X : table
            A pandas, polars or pyarrow table, or a dictionary of columns.

        Returns
        -------
        ndarray of shape (n, K)
            Probabilities, in the order of ``classes_``.

        """
        scores = self.decision_function(X)
        if scores.ndim > 1:
            return np.asarray(softmax(scores, axis=1))
        return np.column_stack([expit(-scores), expit(scores)])
