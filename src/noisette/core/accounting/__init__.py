"""Accounting: one accountant, one file; the functions here are the front door.

- `epsilon` and `delta` return the least of all proven upper bounds of a plan;
- `holds` says whether some proof gives (epsilon, delta), which takes less time than either;
- `bracket` returns certified lower and upper bounds on epsilon;
- `calibrate` finds the least noise, the most steps or the largest rate for a target.
"""

from noisette.core.accounting.base import Accountant
from noisette.core.accounting.calibration import calibrate
from noisette.core.accounting.front import ACCOUNTANTS, bracket, delta, epsilon, holds
from noisette.core.accounting.moments import MomentsAccountant, RenyiAccountant
from noisette.core.accounting.pld import NumericalAccountant
from noisette.core.accounting.sums import AdvancedAccountant, GaussianAccountant, LinearAccountant

__all__ = [
    "ACCOUNTANTS",
    "Accountant",
    "AdvancedAccountant",
    "GaussianAccountant",
    "LinearAccountant",
    "MomentsAccountant",
    "NumericalAccountant",
    "RenyiAccountant",
    "bracket",
    "calibrate",
    "delta",
    "epsilon",
    "holds",
]
