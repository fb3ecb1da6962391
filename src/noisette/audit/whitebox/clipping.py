"""The norm-clip audit: a record at norm R and the same one at 100 R must give the same model.

Same tape, so the same noise; clipping maps both records to one, up to rounding. A library that
trusts the stated norm instead of enforcing it gives another model.
"""

from dataclasses import replace

import numpy as np

from noisette.audit.canaries import LONG, opposite
from noisette.audit.whitebox.outcome import Tally
from noisette.audit.whitebox.subject import AuditedEstimator


def clipping(subject: AuditedEstimator) -> Tally:
    """Fit with the canary at both lengths and compare the released numbers."""
    out = Tally("norm clipping", subject.claim)
    out.missing = "rows have no norm bound, or the model shows no coef_"
    if subject.parameters.get("norm_bound") is None:
        return out
    data = opposite(subject.room()).first
    models = []
    for length in (1.0, LONG):
        X = data.X.copy()
        X[-1] *= length
        models.append(subject.fit(replace(data, X=X).bare(), seed=11)[0])
        out.runs += 1
        if not hasattr(models[-1], "coef_"):
            return out
    released = [np.concatenate([np.ravel(m.coef_), np.ravel(m.intercept_)]) for m in models]
    size = float(np.max(np.abs(released[0])))
    gap = float(np.max(np.abs(released[0] - released[1])))
    out.applies = True
    if gap > 1e-5 * size:
        out.fault(f"a row of {LONG:g} times the norm bound changes the model by {gap / size:.2g}")
    out.note = "rows beyond the norm bound act like rows at the bound"
    return out
