"""Row-local encoders of columns: a cell and public facts -> features.

One kind of column is one file: numbers on a curve, numbers through hats, categories, hashed
categories, dates; `open.py` is a column whose facts are still to be learnt.

Out-of-range, unlisted and unreadable cells are mapped silently. A warning or a count would tell
something about the rows, and no theorem has paid for it.
"""

from noisette.tables.kinds.base import Cells, Encodes, EncodesSparsely, Ignored, canonical
from noisette.tables.kinds.categorical import Categorical
from noisette.tables.kinds.dates import DateCells, Dates, day_text
from noisette.tables.kinds.hashed import Hashed
from noisette.tables.kinds.hats import Hats
from noisette.tables.kinds.numeric import CURVES, Numeric, View
from noisette.tables.kinds.open import Open
from noisette.tables.kinds.rows import encode_rows, is_sparse

__all__ = [
    "CURVES",
    "Categorical",
    "Cells",
    "Column",
    "DateCells",
    "Dates",
    "Encodes",
    "EncodesSparsely",
    "Hashed",
    "Hats",
    "Ignored",
    "Numeric",
    "Open",
    "View",
    "canonical",
    "day_text",
    "encode_rows",
    "is_sparse",
]

Column = Numeric | Hats | Dates | Categorical | Hashed | Ignored | Open
