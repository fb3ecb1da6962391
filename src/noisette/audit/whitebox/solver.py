"""The solver: what it hands to the door is as close to the optimum as the sensitivity pays for.

The auditor solves the same problem with its own Newton method (the hinge in its dual) to about
1e-12. A solver that stops early, drops the regularisation of a coordinate or falls back to another
answer is further away than declared.
"""

import numpy as np

from noisette.audit.canaries import CANARIES
from noisette.audit.whitebox.outcome import Tally
from noisette.audit.whitebox.subject import AuditedEstimator


def solver(subject: AuditedEstimator) -> Tally:
    """Fit on every canary and compare each solution with the auditor's own."""
    out = Tally("solver against its certificate", subject.claim)
    out.missing = "no solver was called"
    for make in CANARIES.values():
        pair = make(subject.room())
        _, trace = subject.fit(pair.first.bare(), seed=7)
        out.runs += 1
        if not trace.solves:
            return out
        for solve in trace.solves:
            exact, error = solve.problem().solve(solve.linear, start=solve.weights)
            away = max(0.0, float(np.linalg.norm(exact - solve.weights)) - error)
            allowed = solve.tolerance / solve.regularization
            out.ratio(away, allowed, f"{pair.name}: the distance to the optimum", 1e-6)
    out.note = f"the solutions are within {out.worst:.3f} of the certified distance"
    return out
