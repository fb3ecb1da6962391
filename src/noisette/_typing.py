"""The arrays of this library, named once."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
AnyFloats = NDArray[np.floating[Any]]
"""Single or double precision, whichever the caller has."""
Integers = NDArray[np.int64]
Indices = NDArray[np.intp]
Bools = NDArray[np.bool_]
Labels = Sequence[Any] | NDArray[Any]
"""The public set of classes, as people write it down."""
