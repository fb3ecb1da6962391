"""Accounting: the functions here are the front door.

- `epsilon` and `delta` return the least of all proven upper bounds of a plan;
- `holds` says whether some proof gives (epsilon, delta), which takes less time than either;
- `bracket` returns certified lower and upper bounds on epsilon;
- `calibrate` finds the least noise, the most steps or the largest rate for a target;
- `ACCOUNTANTS` has every accountant by its name, for comparison.

>>> from noisette import accounting, mechanisms, plans
>>> many = plans.Repeat(plans.Run(mechanisms.Gaussian(noise_multiplier=50.0)), 100)
>>> for name in ("linear", "moments", "renyi", "gdp"):
...     print(name, round(accounting.ACCOUNTANTS[name]().epsilon(many, delta=1e-5), 2))
linear 17.0
moments 2.0
renyi 1.69
gdp 1.55
"""

from noisette.core.accounting.base import Accountant as Accountant
from noisette.core.accounting.calibration import calibrate
from noisette.core.accounting.front import ACCOUNTANTS, bracket, delta, epsilon, holds
from noisette.core.accounting.moments import MomentsAccountant as MomentsAccountant
from noisette.core.accounting.moments import RenyiAccountant as RenyiAccountant
from noisette.core.accounting.pld import NumericalAccountant as NumericalAccountant
from noisette.core.accounting.sums import AdvancedAccountant as AdvancedAccountant
from noisette.core.accounting.sums import GaussianAccountant as GaussianAccountant
from noisette.core.accounting.sums import LinearAccountant as LinearAccountant

__all__ = ["ACCOUNTANTS", "bracket", "calibrate", "delta", "epsilon", "holds"]
