"""Value + noise on the public grid, in one compiled pass: the hot path of networks.

The same operations in the same order as ``mechanisms.base.on_grid``, so the same numbers to the
bit: a grid is a power of two, so that its inverse is exact and a product with it is the quotient.

Imported lazily, as everything that loads numba.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"
# proof: FLOAT-GRID
import numpy as np

from noisette.core.compiled import compiled


@compiled()
def add_on_grid(noise, value, grid, out):
    """Put value + noise, rounded to multiples of `grid`, into `out`; the sum is in float64."""
    inverse = 1.0 / grid
    for i in range(len(out)):
        # Adding 0.0 turns -0.0 into 0.0.
        out[i] = np.rint((noise[i] + value[i]) * inverse) * grid + 0.0
