"""Private training of neural networks in PyTorch (extra ``nn``).

`PrivateClassifier` is a scikit-learn estimator around a module. `PrivateTraining` is for people
with their own loop: it is made from a plan, hands out the batches that the plan declares and makes
the private steps.
"""

from noisette.errors import MissingExtra

try:
    import torch as _torch  # noqa: F401
except ImportError:
    raise MissingExtra("noisette.nn needs PyTorch; pip install 'noisette[nn]'.") from None

from noisette.fitting.algorithms.levels import make_level_plan
from noisette.fitting.algorithms.network import make_plan
from noisette.nn.classifier import PrivateClassifier
from noisette.nn.clipping import Adaptive, Automatic, Flat
from noisette.nn.gradients import check_module
from noisette.nn.training import PrivateTraining

__all__ = [
    "Adaptive", "Automatic", "Flat", "PrivateClassifier", "PrivateTraining", "check_module",
    "make_level_plan", "make_plan",
]  # fmt: skip
