"""A schema of people in wards, and its encoded rows."""

from noisette.tables import Schema, encode

FACTS = {
    "target": "ill",
    "classes": ["no", "yes"],
    "unit": "one row is one person",
    "row_norm": 10.0,
    "columns": {
        "age": {"kind": "numeric", "low": 0, "high": 100},
        "ward": {"kind": "categorical", "categories": ["a", "b"], "reference": "a"},
        "name": {"kind": "ignore"},
    },
}
SECRET = "Smith-4711"


def rows(path, facts=FACTS, **more):
    return encode(path, Schema.from_dict(facts), target=True, **more)
