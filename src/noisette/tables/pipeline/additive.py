"""`AdditiveClassifier`, `AdditiveRegressor`: one curve for each column, with its noise band.

They are trained as `TableClassifier` and `TableRegressor` are, by the same plan and the same
proofs; the recipe differs, which public facts choose. Their curves are what they are for.
"""

from collections.abc import Sequence
from typing import Any

from noisette.core.ledger import Ledger
from noisette.core.randomness import Randomness
from noisette.fitting.algorithms.public import PublicBudget
from noisette.tables.pipeline.recipe import TableRecipe, recipe_for_curves, recipe_for_number_curves
from noisette.tables.pipeline.table_classifier import TableClassifier
from noisette.tables.pipeline.table_regressor import TableRegressor


class AdditiveClassifier(TableClassifier):
    """A private additive classifier: the score is a sum of one broken line for each column.

    The parameters and attributes are those of `TableClassifier`. The curves have fewer knots at
    even shares of the rows, and more at single numbers that many people share; they may jump there.

    Parameters
    ----------
    epsilon : float
        The budget of everything that is released.
    delta : float
        0 is pure; a delta such as 1e-6 buys much finer curves.
    schema : dict, Schema or path
        As in `TableClassifier`.
    pairs : list of (str, str), optional
        Columns that the model may look at together, chosen without a look at the table: latitude
        and longitude, day and month. Each adds a surface; where rows times epsilon are too few for
        that, by a public rule, they are left out, and the guarantee's notes say so.
    model, adjacency, population, classes : str, int or sequence
        As in `TableClassifier`.
    class_weight, test_share, share, random_state, ledger : dict, float, Randomness or Ledger
        As in `TableClassifier`.

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
    >>> model.decision_function(table).shape
    (4000,)

    """

    _whole = "an additive classifier with the facts of its columns"

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
        classes: Sequence[Any] | None = None,
        class_weight: Any = None,
        test_share: float | None = None,
        share: float | None = None,
        random_state: int | Randomness | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        super().__init__(
            epsilon, delta, schema=schema, model=model, adjacency=adjacency, population=population,
            classes=classes, class_weight=class_weight, test_share=test_share, share=share,
            random_state=random_state, ledger=ledger,
        )  # fmt: skip
        self.pairs = pairs

    def _recipe(self, public: PublicBudget, **columns: Any) -> TableRecipe:
        return recipe_for_curves(public, **columns)


class AdditiveRegressor(TableRegressor):
    """A private additive regression: the prediction is a sum of one broken line for each column.

    The parameters and attributes are those of `TableRegressor`; the curves are finer.

    Parameters
    ----------
    epsilon : float
        The budget of everything that is released.
    delta : float
        0 is pure; a delta such as 1e-6 buys much finer curves.
    schema : dict, Schema or path
        As in `TableClassifier`.
    pairs : list of (str, str), optional
        Columns that the model may look at together, chosen without a look at the table: latitude
        and longitude, day and month. Each adds a surface; where rows times epsilon are too few for
        that, by a public rule, they are left out, and the guarantee's notes say so.
    target_bounds, threshold : pair, "learn" or float
        As in `TableRegressor`.
    adjacency, population, test_share, share, random_state, ledger : str, int, float and others
        As in `TableClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from noisette import AdditiveRegressor
    >>> age = np.arange(4000) % 80
    >>> model = AdditiveRegressor(
    ...     2.0, 1e-6, schema={"age": "numeric"}, target_bounds=(0, 40), random_state=0
    ... )
    >>> bool(model.fit({"age": age}, abs(age - 40)).score({"age": age}, abs(age - 40)) > 0.8)
    True
    >>> model.predict({"age": [20, 60]}).shape
    (2,)

    """

    _whole = "an additive regression with the facts of its columns"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        schema: Any = None,
        pairs: Any = None,
        target_bounds: Any = None,
        threshold: float = 0.3,
        adjacency: str = "replace-one",
        population: int | None = None,
        test_share: float | None = None,
        share: float | None = None,
        random_state: int | Randomness | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        super().__init__(
            epsilon, delta, schema=schema, target_bounds=target_bounds, threshold=threshold,
            adjacency=adjacency, population=population, test_share=test_share, share=share,
            random_state=random_state, ledger=ledger,
        )  # fmt: skip
        self.pairs = pairs

    def _recipe(self, public: PublicBudget, **columns: Any) -> TableRecipe:
        return recipe_for_number_curves(public, **columns)
