"""Tables: CSV and Parquet files, encoded row by row with public facts from a schema file.

>>> from noisette.tables import Schema
>>> facts = {"target": "ill", "classes": ["no", "yes"], "unit": "one row is one person"}
>>> facts["columns"] = {"age": {"kind": "numeric", "low": 0, "high": 100}}
>>> Schema.from_dict(facts).features
('age',)
"""

from noisette.tables.folders import Encoded as Encoded
from noisette.tables.folders import TableModel, encode, read_model, write_model
from noisette.tables.frame import Frame as Frame
from noisette.tables.schema import Schema, read_schema
from noisette.tables.template import template

__all__ = [
    "Schema",
    "TableModel",
    "encode",
    "read_model",
    "read_schema",
    "template",
    "write_model",
]
