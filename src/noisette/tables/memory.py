"""Columns of tables in memory: pandas, polars and pyarrow tables, dictionaries of arrays.

None of these packages is imported here: whoever hands in such a table has it.
"""

from collections.abc import Mapping
from typing import Any

from noisette.core.cells import given
from noisette.errors import InvalidData
from noisette.tables.cells import Signs, ValueCells
from noisette.tables.kinds import Cells

_NO_COLUMN = "each column of a table must be a list or an array of one dimension."


def columns_of(table: Any, signs: Signs) -> dict[str, Cells]:
    """Return the columns of a table in memory by name; names that occur twice are refused."""
    # proof: ROW-LOCAL
    home = type(table).__module__.partition(".")[0]
    pairs: Any
    if home == "pandas" and hasattr(table, "iloc") and getattr(table, "ndim", 0) == 2:
        pairs = ((name, table.iloc[:, place]) for place, name in enumerate(table.columns))
    elif home == "polars" and hasattr(table, "get_columns"):
        pairs = ((column.name, column) for column in table.get_columns())
    elif home == "pyarrow" and hasattr(table, "column_names"):
        pairs = ((name, table.column(place)) for place, name in enumerate(table.column_names))
    elif isinstance(table, Mapping):
        pairs = table.items()
    else:
        raise InvalidData(
            "a table is a data frame of pandas or polars, a pyarrow table or a dictionary of "
            f"columns; got an object of type {type(table).__name__}."
        )
    return _named([(name, ValueCells(given(column, _NO_COLUMN), signs)) for name, column in pairs])


def _named(found: list[tuple[Any, Cells]]) -> dict[str, Cells]:
    columns: dict[str, Cells] = {}
    for name, cells in found:
        if str(name) in columns:
            raise InvalidData(f"the table has two columns named {str(name)!r}; rename one.")
        columns[str(name)] = cells
    if not columns:
        raise InvalidData("the table has no columns.")
    if len({len(cells) for cells in columns.values()}) != 1:
        raise InvalidData("the columns of the table must be of one length.")
    return columns
