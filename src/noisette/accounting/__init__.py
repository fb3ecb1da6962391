"""Accounting: one accountant, one file; the functions here are the front door.

`epsilon` and `delta` return the least of all proven upper bounds.
"""

from noisette.accounting.base import Accountant
from noisette.accounting.front import ACCOUNTANTS, delta, epsilon
from noisette.accounting.gdp import GaussianAccountant
from noisette.accounting.moments import MomentsAccountant, RenyiAccountant
from noisette.accounting.pure import AdvancedAccountant, LinearAccountant

__all__ = [
    "ACCOUNTANTS",
    "Accountant",
    "AdvancedAccountant",
    "GaussianAccountant",
    "LinearAccountant",
    "MomentsAccountant",
    "RenyiAccountant",
    "delta",
    "epsilon",
]
