"""Compiled: the law of a mean of two independent means, on a grid.

All pairs of atoms are visited; along a row their values grow, so the cell of a value is found by
walking from the last one. Imported lazily, as everything that loads numba.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"
import numpy as np

from noisette.core.compiled import compiled


@compiled(inline="always")
def _add(sums, small, cell, term):
    """Add to a sum and what its rounding lost: many thousand atoms may meet in one cell."""
    term -= small[cell]
    total = sums[cell] + term
    small[cell] = (total - sums[cell]) - term
    sums[cell] = total


@compiled()
def spread_means(a, a_mass, b, b_mass, share, same, grid, upper, first, second):
    """Deposit share a_i + (1 - share) b_j with mass a_mass_i b_mass_j; return the P-mass cut off.

    upper: ``first`` gets the mean-preserving split between the two neighbours of each value, and
    what lies above the grid is cut to its end. lower: ``first`` gets the mass and ``second`` the
    sum of mass times value of each cell (merging). ``same``: a is b, pairs i < j count twice.
    Sums are compensated (Kahan): relative errors of 2u + O(N u^2), however many terms N.
    """
    lost = 0.0
    first_small, second_small = np.zeros(len(first)), np.zeros(len(second))
    last = len(grid) - 2 if upper else len(grid) - 1
    for i in range(len(a)):
        cell = 0
        for j in range(i if same else 0, len(b)):
            value = share * a[i] + (1.0 - share) * b[j]
            mass = a_mass[i] * b_mass[j]
            if same and j > i:
                mass *= 2.0
            while cell < last and grid[cell + 1] <= value:
                cell += 1
            while cell > 0 and grid[cell] > value:  # atoms may be out of order by a rounding
                cell -= 1
            if upper:
                width = grid[cell + 1] - grid[cell]
                raised = mass * min((value - grid[cell]) / width, 1.0)
                _add(first, first_small, cell + 1, raised)
                _add(first, first_small, cell, mass - raised)
                if value > grid[-1]:
                    lost += mass * (value - grid[-1])
            else:
                _add(first, first_small, cell, mass)
                _add(second, second_small, cell, mass * value)
    return lost
