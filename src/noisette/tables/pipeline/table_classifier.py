"""`TableClassifier`: a raw table in, a private model out, one guarantee about all of it."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from noisette import _validate
from noisette._scikit import ClassifierMixin, available_if, check_is_fitted
from noisette._typing import Floats, Labels
from noisette.core.ledger import Ledger
from noisette.core.parts import each, is_parted, summed
from noisette.core.randomness import Randomness
from noisette.core.sampling import SAMPLERS
from noisette.errors import InvalidData, InvalidParameter
from noisette.fitting.algorithms.class_weight import BALANCED, check_class_weight, public_weights
from noisette.fitting.algorithms.public import PublicBudget
from noisette.fitting.algorithms.recommend import Recommendation, mechanisms
from noisette.fitting.losses import classifier_loss, classifier_losses
from noisette.fitting.partitions.lazily import lazily
from noisette.models import inputs
from noisette.models.outputs import labels_fact
from noisette.models.private import Forecast, Scored
from noisette.tables import Schema
from noisette.tables.pipeline.last import chosen_last
from noisette.tables.pipeline.table_estimator import TableEstimator
from noisette.tables.pipeline.table_run import FittedTable
from noisette.tables.pipeline.table_training import TableTraining
from noisette.tables.pipeline.target import Goal, LabelTarget, Target

MODELS = {"logistic": "logistic", "svm": "softplus", "sgd": "logistic"}
"""What ``model`` says -> its usual loss."""
_CLASSES = ["a label of y", "another label of y"]
"""What stands in a schema for a target and classes that y will tell."""
_MOST_LABELS = 100


def _has_probabilities(model: Any) -> bool:
    if (model.loss or MODELS.get(model.model)) not in classifier_losses(probabilities=True):
        raise AttributeError("only models of the logistic loss have probabilities.")
    return True


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
        "logistic" (default), "svm", or "sgd" for noisy steps: without a delta the founding paper's
        one pass over disjoint batches, else gradient descent on all rows, or as `sampling` says.
    mechanism : str
        What finds the weights of "logistic" and "svm": "auto" and "objective" are objective
        perturbation, which needs the least noise; "output" solves and then adds noise.
    loss : str, optional
        A name in `noisette.losses.classifier_losses`, in place of the model's own.
    sampling : str, optional
        For "sgd": a name in `noisette.sampling.SAMPLERS`.
    %(adjacency, population, classes)
    class_weight : dict or "balanced", optional
        How much rows of each class count: public weights by label, of which only the ratio matters,
        or "balanced" by the noisy counts of labels that are released anyway.
    %(test_share, random_state, ledger)

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
    %(released)

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
    >>> [step.name for step in model.plan(5000).steps]
    ['knots', 'levels', 'shares', 'weights', 'calibration']
    >>> model = TableClassifier(2.0, 1e-6, schema=kinds, test_share=0.2, random_state=0)
    >>> model.fit(table, age > 40).test_.auc.low > 0.9
    True

    """

    _whole = "a classifier with the facts of its columns"
    _refuses = ("columns", "lines", "labels")
    _models = tuple(MODELS)

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        schema: Any = None,
        model: str = "logistic",
        mechanism: str = "auto",
        loss: str | None = None,
        sampling: str | None = None,
        adjacency: str = "replace-one",
        population: int | None = None,
        classes: Labels | None = None,
        class_weight: Any = None,
        test_share: float | None = None,
        share: float | None = None,
        random_state: int | Randomness | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self._keep(locals())

    # --- fitting -----------------------------------------------------------------------------

    def plan(self, n: int, *, classes: int | None = None) -> Forecast:
        """Return what ``fit`` on n rows would release and cost, from public facts alone.

        Parameters
        ----------
        n : int
            The number of records, or a guess of it; of persons, where the schema tells them apart.
        classes : int, optional
            How many labels there are; what the schema or the constructor lists, else two.

        %(forecast)

        """
        return self._forecast(n, classes=classes)

    def _foreseen(self, schema: Schema, classes: int | None = None) -> Goal:
        if classes is None:
            classes = len(schema.classes if self.classes is None else self.classes)
        return self._goal(np.arange(_validate.integer("classes", classes, least=2)))

    def _read(self, schema: Schema, y: Any, rows: int, size: int | None) -> Goal:
        if schema.target_bounds is not None:
            raise InvalidParameter(
                "the schema says that the target is a number; use TableRegressor."
            )
        if not is_parted(y):
            y = inputs.label_vector(y)
            if y.ndim != 1:
                raise InvalidData(
                    "y must be one column of labels, not a table; use y.ravel(), or name the "
                    "column."
                )
            if len(y) != rows:
                raise InvalidData("y must have one label for each row of the table.")
        given = self.classes
        if given is None and schema.source["classes"] != _CLASSES:
            given = schema.classes
        classes = inputs.sorted_classes(given, y)
        few = _MOST_LABELS if size is None else min(_MOST_LABELS, size // 10)
        if given is None and len(classes) > max(few, 10):  # all values would be published
            raise InvalidData(
                "y holds so many labels for so few rows that it may be a quantity, and labels that "
                "are read off y are published; if they are classes, list them with classes=[...]."
            )
        numbers = each(partial(inputs.label_numbers, classes), y)
        summed(len, numbers)  # a label that is not listed is said before anything is charged
        return self._goal(classes, numbers, weights=public_weights(self.class_weight, classes))

    def _goal(self, classes: NDArray[Any], y: Any = None, weights: Any = None) -> Goal:
        count = len(classes)
        if self.model == "svm" and count > 2:
            raise InvalidParameter("model='svm' is for two classes; use 'logistic'.")
        loss = classifier_loss(self.loss or MODELS[self.model], count)
        asked = None if self.class_weight is None else BALANCED
        weight = asked if weights is None else tuple(weights.tolist())
        return Goal(LabelTarget(loss, class_weight=weight, cells=count), {"classes_": classes}, y)

    def _told(self, target: Target) -> tuple[str, tuple[str, ...]]:
        return labels_fact(self.classes_, given=not self._reads_labels), ()

    def _publish(self, fitted: FittedTable) -> None:
        self.schema_, self.bars_, self.pairs_ = fitted.schema, fitted.bars, fitted.pairs
        self.coef_, self.intercept_ = fitted.coef, fitted.intercept

    def _check_public(self) -> tuple[Ledger, Randomness]:
        _validate.choice("model", self.model, self._models)
        _validate.choice("mechanism", self.mechanism, mechanisms())
        for name, known in (("loss", classifier_losses()), ("sampling", SAMPLERS)):
            if getattr(self, name) is not None:
                _validate.choice(name, getattr(self, name), known)
        if self.model != "sgd" and self.sampling is not None:
            raise InvalidParameter("sampling is for model='sgd' alone, which takes steps.")
        if self.model == "sgd" and self.mechanism != "auto":
            raise InvalidParameter("mechanism is not for model='sgd', which takes steps.")
        check_class_weight(self.class_weight)
        return super()._check_public()

    def _last(self, training: TableTraining, public: PublicBudget) -> Recommendation | None:
        return chosen_last(
            training, public, self.mechanism, self.sampling, steps=self.model == "sgd"
        )

    def _unnamed(self, name: str) -> dict[str, Any]:
        return {"target": name, "classes": _CLASSES}

    @property
    def _reads_labels(self) -> bool:
        return self.classes is None and bool(self.schema_.source["classes"] == _CLASSES)

    # --- using the model -----------------------------------------------------------------------

    @lazily
    def decision_function(self, X: Any) -> Floats:
        """Return the scores of every row.

        %(table)

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

        %(table)

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


class AdditiveClassifier(TableClassifier):
    """A private additive classifier: the score is a sum of one broken line for each column.

    The parameters and attributes are those of `TableClassifier`. The curves have fewer knots at
    even shares of the rows, and more at single numbers that many people share; they may jump there.

    Parameters
    ----------
    %(additive)
    model : str
        "logistic" (default) or "svm".
    %(adjacency, population, classes)
    class_weight : dict or "balanced", optional
        As in `TableClassifier`.
    %(test_share, random_state, ledger)

    Examples
    --------
    >>> import numpy as np
    >>> from noisette import AdditiveClassifier
    >>> age = np.arange(4000) % 80
    >>> table = {"age": age, "ward": np.where(age % 2, "A", "B")}
    >>> kinds = {"age": "numeric", "ward": "categorical"}
    >>> model = AdditiveClassifier(2.0, 1e-6, schema=kinds, random_state=0)
    >>> [curve.column for curve in model.fit(table, abs(age - 40) > 20).curves()]
    ['age', 'ward']
    >>> model.predict(table).shape, model.predict_proba(table).shape
    ((4000,), (4000, 2))
    >>> model.decision_function(table).shape, model.plan(4000).steps[-2].name
    ((4000,), 'weights')

    """

    _whole = "an additive classifier with the facts of its columns"
    _curves = True
    _models = ("logistic", "svm")
    mechanism, loss, sampling = "auto", None, None  # no parameters here

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        schema: Any = None,
        pairs: Any = None,
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
        self._keep(locals())
