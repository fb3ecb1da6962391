"""How good a model is: every score with its error bars, from tables of counts.

`noisette.evaluate` buys such a table with a guarantee; `measure` counts rows that may be counted.

>>> from noisette.scores import BinaryScores
>>> BinaryScores.of(["no", "yes"], [0.1, 0.3, 0.8, 0.9], [0, 0, 1, 1]).auc.value
1.0
"""

from noisette.scores.binary import BinaryScores
from noisette.scores.binary import Calibration as Calibration
from noisette.scores.binary import Confusion as Confusion
from noisette.scores.binary import RocCurve as RocCurve
from noisette.scores.measure import measure
from noisette.scores.multiclass import MulticlassScores
from noisette.scores.regression import RegressionScores
from noisette.scores.score import Score

__all__ = [
    "BinaryScores",
    "MulticlassScores",
    "RegressionScores",
    "Score",
    "measure",
]
