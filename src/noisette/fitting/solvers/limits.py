"""What public facts promise about a solve: that it ends, and within how many steps.

A solve whose end depends on the rows is a release about them, and so is its refusal. Everything
here is therefore a function of ``PublicFacts``, the loss and the tolerance. proof: SOLVER-ENDS.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from noisette.errors import InvalidParameter
from noisette.fitting.losses import Loss
from noisette.fitting.solvers import continuation, interior
from noisette.fitting.solvers.objective import DENSE_HESSIAN
from noisette.fitting.solvers.rounding import (
    UNIT,
    PublicFacts,
    attainable_tolerance,
    default_tolerance,
    gradient_error,
)

# Ranges in which no product of the solvers overflows or vanishes: the largest is
# beta ||w||, below 1e270, the smallest u R ||w||, above 1e-210.
_RANGE, _WIDE_RANGE = 1e30, 1e60
_MOST_STRETCH = 1e16


def check_range(loss: Loss, facts: PublicFacts) -> None:
    """Refuse facts whose products leave float64, in one sentence with the value."""
    constant = f"a constant of the {loss.name} loss"  # which may be infinite
    for name, value, most in (
        ("norm_bound", facts.norm_bound, _RANGE),
        ("weight_bound", facts.weight_bound, _RANGE),
        ("regularization", facts.regularization, _WIDE_RANGE),
        (constant, loss.lipschitz, _RANGE),
        (constant, loss.smoothness, _RANGE),
        (constant, loss.value_at_zero, _RANGE),
    ):
        if not 1.0 / most <= value <= most and not (name == constant and value == math.inf):
            raise InvalidParameter(
                f"{name} must lie between {1.0 / most:g} and {most:g}, so that no product "
                f"vanishes or overflows; got {value!r}, rescale it."
            )
    if not facts.linear_norm <= _WIDE_RANGE:
        raise InvalidParameter(f"linear must have a norm of at most {_WIDE_RANGE:g}.")


def _ends(loss: Loss, facts: PublicFacts, tolerance: float | None) -> bool:
    """Whether float64 follows the path: three numbers of at most 1. proof: SOLVER-CONTINUATION."""
    goal = default_tolerance(loss, facts) if tolerance is None else tolerance
    if not goal > 0.0:
        return False
    concordance = loss.self_concordance
    assert concordance is not None
    pace, norm = concordance * facts.norm_bound, facts.optimum_norm(loss)
    lam, mass = facts.regularization, facts.mass
    beta = lam + mass * loss.smoothness * facts.norm_bound**2
    # on the way ||w|| <= D + 1/(aR), at the end hardly more than D
    wide = norm + (1.0 / pace if pace > 0.0 else 0.0)
    far = gradient_error(loss, facts, wide, mass, exact=True, terms=0) + beta * UNIT * wide
    near = gradient_error(loss, facts, norm, mass, exact=True, terms=0) + beta * UNIT * norm
    near *= 1.01
    size = math.prod(loss.parameter_shape(facts.features))
    terms = 8192.0  # rows of a block; sums over blocks are compensated
    solve = float(size) ** 2 if size <= DENSE_HESSIAN else float(facts.features)
    hessian = beta / lam * (solve + terms) + pace * (facts.features + 2.0) * wide
    final = 4.0 * math.sqrt(beta / lam) * pace * near * (near / lam) / goal
    # NaN is not at most 1
    return 128.0 * pace * far / lam <= 1.0 and 64.0 * 4.0 * UNIT * hessian <= 1.0 and final <= 1.0


def check_ends(loss: Loss, facts: PublicFacts, tolerance: float | None = None) -> None:
    """Refuse, from public facts alone, a problem whose solve is not proven to end.

    Piecewise quadratic losses always end (SOLVER-INTERIOR): the proof's number of steps grows with
    log(n omega R^2 / Lambda) alone. But beyond 2^53 float64 loses the path and decimals of that
    many digits take over, with more work than anybody waits for. proof: SOLVER-ENDS.
    """
    check_range(loss, facts)
    if loss.self_concordance is None:
        if loss.box_dual(np.ones(1)) is None:
            raise InvalidParameter(f"no solver is proven to end for the {loss.name} loss.")
        stretch = facts.mass * facts.norm_bound**2
        if stretch / facts.regularization <= _MOST_STRETCH:
            return
        raise InvalidParameter(
            f"regularization={facts.regularization:.3g} is too small for a solve in reasonable "
            f"time, with up to {facts.rows} rows, norm_bound={facts.norm_bound:.3g} and "
            f"weight_bound={facts.weight_bound:.3g}; use {stretch / _MOST_STRETCH * 1.01:.3g} or "
            "more."
        )
    least = smallest_regularization(loss, facts, tolerance)
    if least == facts.regularization:
        return
    advice = "lower norm_bound or weight_bound" if least is None else f"use {least:.3g} or more"
    raise InvalidParameter(
        f"Lambda={facts.regularization:.3g}, the regularization beside the sum of losses, is too "
        f"small for a solve that is certain to end, with up to {facts.rows} rows, "
        f"norm_bound={facts.norm_bound:.3g}, weight_bound={facts.weight_bound:.3g} and the "
        f"{loss.name} loss; {advice} (an estimator's regularization is Lambda over the number of "
        "rows)."
    )


def smallest_regularization(
    loss: Loss, facts: PublicFacts, tolerance: float | None = None
) -> float | None:
    """The given Lambda if it ends, else one within 1 % of the least that does; None: none does."""
    if loss.self_concordance is None or _ends(loss, facts, tolerance):
        return facts.regularization

    def ends(log_lam: float) -> bool:
        trial = replace(facts, regularization=math.exp(log_lam))
        if tolerance is None:
            return _ends(loss, trial, None)
        # a larger Lambda may ask for a larger tolerance
        return _ends(loss, trial, max(tolerance, attainable_tolerance(loss, trial)))

    low, high = math.log(facts.regularization), math.log(_WIDE_RANGE)
    if not ends(high):
        return None
    while high - low > 0.004:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if ends(middle) else (middle, high)
    return math.exp(high + 0.006)  # three printed digits may round down by 0.5 %


def interior_plan(loss: Loss, facts: PublicFacts, tolerance: float) -> tuple[float, int, int]:
    """Mu at which the certificate must hold, decimal digits, most steps. proof: SOLVER-INTERIOR."""
    dual = loss.box_dual(np.full(1, getattr(loss, "target_bound", 1.0)))
    assert dual is not None
    _, low, high, curve, centre, gain = (float(np.max(np.abs(part))) for part in dual)
    n, lam = max(facts.rows, 1), facts.regularization
    mass, R = facts.mass, facts.norm_bound
    if math.isfinite(loss.smoothness):
        # in logarithms' stead: each factor stays in range
        share = tolerance / (lam + mass * loss.smoothness * R**2)
        last = lam * share * share / (128.0 * n)
    else:
        last = tolerance * (tolerance / lam) / (100.0 * n)
    most = max(low, high)
    slope = curve * (most + centre) + gain + R * (mass * most * R + facts.linear_norm) / lam
    reach = 2.0 * most * facts.weight_bound
    first = 2.0 * math.sqrt(n) * slope * reach + 1e-290
    ratio = math.log10(first) - math.log10(last)
    spread = math.log10(n) + 2.0 * (math.log10(R) + math.log10(reach)) - math.log10(last * lam)
    falls = math.log(10.0) * max(ratio, 0.0) / math.log(interior.shortest_ratio(n))
    digits = 40 + 2 * math.ceil(max(spread, 0.0)) + math.ceil(max(ratio, 0.0))
    return last, digits, interior.TRIES * (interior.RETREATS + math.ceil(falls) + 1)


def most_steps(loss: Loss, facts: PublicFacts, tolerance: float) -> int:
    """Newton steps after which the last resort has ended, whatever the rows. proof: SOLVER-ENDS."""
    concordance = loss.self_concordance
    if concordance is None:
        return interior_plan(loss, facts, tolerance)[2]
    pace, lam = concordance * facts.norm_bound, facts.regularization
    pull = facts.mass * loss.derivative_bound(0.0) * facts.norm_bound
    first = max(lam, 9.0 * pace * (pull + facts.linear_norm))
    ratio = continuation.shortest_ratio(pace, facts.optimum_norm(loss))
    falls = math.ceil(math.log(first / lam) / math.log(ratio)) + 1
    return continuation.TRIES * (continuation.RETREATS + falls) + continuation.LAST_STEPS
