"""A complete schema as a scikit-learn transformer: every row by itself, so it costs nothing."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette._scikit import BaseEstimator, TransformerMixin, check_is_fitted
from noisette.errors import InvalidData, InvalidParameter
from noisette.tables import Schema, read_schema
from noisette.tables.frame import Frame


class SchemaEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encode the rows of a table with the public facts of a schema.

    ``fit`` looks at no cell and costs no privacy. ``transform`` returns rows of norm at most 1.

    Parameters
    ----------
    schema : Schema, dict or path
        The schema, its content as a dictionary, or the path of its file; no fact may be open.

    Attributes
    ----------
    schema_ : Schema
        The checked schema.

    Examples
    --------
    >>> from noisette.pipeline import SchemaEncoder
    >>> facts = {"target": "ill", "classes": ["no", "yes"], "unit": "one row is one person"}
    >>> facts["columns"] = {"age": {"kind": "numeric", "low": 0, "high": 100}}
    >>> encoder = SchemaEncoder(facts).fit()
    >>> encoder.transform({"age": [0, 50, 100]}).shape
    (3, 1)
    >>> encoder.get_feature_names_out().tolist()
    ['age']

    """

    # proof: ROW-LOCAL

    def __init__(self, schema: Any) -> None:
        self.schema = schema

    def fit(self, X: Any = None, y: Any = None) -> "SchemaEncoder":
        """Check the schema; X and y are not looked at.

        Parameters
        ----------
        X : table, optional
            Ignored.
        y : array-like, optional
            Ignored.

        Returns
        -------
        self
            The encoder.

        Raises
        ------
        InvalidParameter
            If the schema is none, or has open facts.

        """
        schema = self.schema
        if isinstance(schema, dict):
            schema = Schema.from_dict(schema)
        elif isinstance(schema, str | Path):
            schema = read_schema(Path(schema))
        if not isinstance(schema, Schema):
            raise InvalidParameter(
                "schema must be a Schema, its content as a dictionary, or the path of its file."
            )
        schema.check_complete()
        self.schema_ = schema
        return self

    def transform(self, X: Any) -> Any:
        """Return the encoded rows.

        Parameters
        ----------
        X : table
            A pandas, polars or pyarrow table, or a dictionary of columns.

        Returns
        -------
        ndarray or CSR matrix of shape (n, number of features)
            CSR if the schema has many features of which few differ from zero.

        Raises
        ------
        InvalidData
            If the table has no rows.

        """
        check_is_fitted(self, "schema_")
        frame = Frame.of(X, self.schema_)
        if frame.rows == 0:
            raise InvalidData("the table has no rows.")
        return frame.encode(self.schema_)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the features, in the order of the schema.

        Parameters
        ----------
        input_features : array-like of str, optional
            Ignored: the schema has the names.

        Returns
        -------
        ndarray of str
            One name for each feature.

        """
        check_is_fitted(self, "schema_")
        return np.array(self.schema_.features, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.categorical = tags.input_tags.string = tags.input_tags.allow_nan = True
        tags.requires_fit = True
        return tags
