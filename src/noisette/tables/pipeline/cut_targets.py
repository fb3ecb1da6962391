"""Say, from the noisy counts that a training releases, that many targets lie beyond a limit."""

import math

from noisette._typing import Floats

LIMITS = "the limits of the target"
"""Words that mark the note."""

_MANY, _SURE = 0.02, 3.0  # of the targets, and deviations of the noise


def cut_note(
    counts: Floats, size: float, deviation: float, bounds: tuple[float, float]
) -> tuple[str, ...]:
    """Return a sentence for each limit at which more targets lie than the counts beside it explain.

    Where targets run on smoothly, the knot at the end has half as many as its neighbour. Many
    numbers are 0 and none below, so a lower limit of 0 is not spoken of.
    """
    low, high = bounds
    ends = [("upper", high, counts[-1] - max(counts[-2], 0.0) / 2.0)]
    if low != 0.0:
        ends.append(("lower", low, counts[0] - max(counts[1], 0.0) / 2.0))
    least = max(_MANY * size, _SURE * math.sqrt(1.25) * deviation)
    return tuple(
        f"By the noisy counts, about {100.0 * found / size:.2g} % of the targets lie at "
        f"the {which} limit {limit:g} or beyond it: the model takes them all for {limit:g}, and "
        f"private scores of it are about targets that were cut so; with {LIMITS} further out, "
        "stated by you, they would be told apart."
        for which, limit, found in ends
        if found > least
    )
