"""From a raw table to a private model: what is learnt before and around the training.

A `Step` learns one kind of fact under a theorem of its own; a `PrivateTransformer` is a step with
the interface of scikit-learn. `TableClassifier` runs several of them and a training in one plan.

>>> from noisette.pipeline import SchemaEncoder
>>> facts = {"target": "ill", "classes": ["no", "yes"], "unit": "one row is one person"}
>>> facts["columns"] = {"age": {"kind": "numeric", "knots": [20, 40, 80]}}
>>> SchemaEncoder(facts).fit_transform({"age": [30]}, None).round(3).tolist()
[[0.612, 0.612, 0.0]]
"""

from typing import TYPE_CHECKING

from noisette._package import lazily

if TYPE_CHECKING:
    from noisette.tables.pipeline.bounds import PrivateBounds
    from noisette.tables.pipeline.categories import PrivateCategories
    from noisette.tables.pipeline.curves import ColumnCurve
    from noisette.tables.pipeline.encoder import SchemaEncoder
    from noisette.tables.pipeline.evaluation import evaluate
    from noisette.tables.pipeline.knots import PrivateKnots
    from noisette.tables.pipeline.projection import PrivateProjection
    from noisette.tables.pipeline.selector import PrivateSelector
    from noisette.tables.pipeline.table_classifier import AdditiveClassifier, TableClassifier
    from noisette.tables.pipeline.table_regressor import AdditiveRegressor, TableRegressor

__all__ = [
    "AdditiveClassifier",
    "AdditiveRegressor",
    "ColumnCurve",
    "PrivateBounds",
    "PrivateCategories",
    "PrivateKnots",
    "PrivateProjection",
    "PrivateSelector",
    "SchemaEncoder",
    "TableClassifier",
    "TableRegressor",
    "evaluate",
]

_HOMES = {
    "AdditiveClassifier": "table_classifier",
    "AdditiveRegressor": "table_regressor",
    "ColumnCurve": "curves",
    "PrivateBounds": "bounds",
    "PrivateCategories": "categories",
    "PrivateKnots": "knots",
    "PrivateProjection": "projection",
    "PrivateSelector": "selector",
    "SchemaEncoder": "encoder",
    "TableClassifier": "table_classifier",
    "TableRegressor": "table_regressor",
    "evaluate": "evaluation",
}
__getattr__ = lazily(__name__, _HOMES, {})
