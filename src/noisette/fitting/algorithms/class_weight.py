"""Class weights: public ones, or balanced by noisy counts that are a part of the plan.

A class weight is a function of a row's own label. Divided by the largest it is at most 1, so a
weighted row obeys every bound of a plain one. What was asked for is a ratio, and stays it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, TypeVar

import numpy as np

from noisette import _validate
from noisette._typing import Floats
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms import LaplaceVector
from noisette.core.parts import each
from noisette.core.plans import Run, Together
from noisette.core.summaries import histogram
from noisette.errors import InvalidParameter
from noisette.fitting.algorithms.algorithm import Behind, PreparedBehind
from noisette.fitting.algorithms.passage import Passage
from noisette.fitting.algorithms.public import Public, PublicBudget
from noisette.fitting.algorithms.recommend import Recommendation
from noisette.fitting.algorithms.records import Records
from noisette.fitting.losses import Softmax

Facts = TypeVar("Facts", bound=PublicBudget)

BALANCED = "balanced"
_SHARE = 0.05  # of epsilon, for the counts
_MOST = 50.0  # between the weights of two classes
_SLACK = 1e-3  # of the counts' epsilon, left for the rounding of the accountant

BALANCED_NOTE = (
    f"Class weights: balanced by noisy counts of the labels, bought with {_SHARE:.0%} of epsilon "
    f"before the training; no class weighs more than {_MOST:g} times another."
)


def check_class_weight(asked: Any) -> None:
    """Refuse what can be no class weight, before the data are looked at."""
    if asked is None or (isinstance(asked, str) and asked == BALANCED):
        return
    if not isinstance(asked, Mapping) or not asked:
        raise InvalidParameter(
            "class_weight must be None, 'balanced' or a dictionary from label to weight; got "
            f"{type(asked).__name__}."
        )
    if not max(_validate.non_negative("class_weight", each) for each in asked.values()) > 0.0:
        raise InvalidParameter("class_weight needs a weight above 0.")


def public_weights(asked: Any, classes: Any) -> Floats | None:
    """Return one weight in [0, 1] for each class, the largest 1; None where they are not public.

    What is asked has passed `check_class_weight`.
    A class that is not in the dictionary has the weight 1 beside those that are.
    """
    if asked is None or isinstance(asked, str):
        return None
    # proof: CLASS-WEIGHT
    known = np.asarray(classes).tolist()
    strange = [label for label in asked if label not in known]
    if strange:
        raise InvalidParameter(f"class_weight names {strange[0]!r}, which is none of the classes.")
    each = np.array([float(asked.get(label, 1.0)) for label in known])
    return np.asarray(each / each.max())


def balanced(counts: Floats, least: float) -> Floats:
    """Return weights in proportion to 1 / count from released counts, cut to a public range."""
    # proof: CLASS-WEIGHT
    each = 1.0 / np.maximum(np.asarray(counts, dtype=float), max(least, 1.0))
    return np.asarray(np.maximum(each / each.max(), 1.0 / _MOST))


def weighed(weights: Floats | None, factors: Floats, numbers: Any) -> Any:
    """Return the weight of every row times that of its class."""
    return each(partial(_weighed, factors), numbers, weights)


def _weighed(factors: Floats, numbers: Any, weights: Floats | None) -> Floats:
    own = factors[np.asarray(numbers)]
    return np.asarray(own if weights is None else weights * own)


def weight_proofs(asked: Any) -> tuple[str, ...]:
    """Return the theorem behind class weights, where there are any."""
    return () if asked is None else ("CLASS-WEIGHT",)


def for_model(public: Facts) -> Facts:
    """Return the public facts with what balancing leaves for the model."""
    return replace(public, epsilon=public.epsilon * (1.0 - _SHARE))


def counting(epsilon: float, model_epsilon: float, adjacency: Adjacency) -> Run:
    """Return the noisy counts of the classes that cost what the model leaves of epsilon."""
    # proof: CLASS-WEIGHT
    own = (epsilon - model_epsilon) * (1.0 - _SLACK)
    return Run(LaplaceVector(adjacency.contributions / own))


def class_factors(passage: Passage, numbers: Any, classes: int, present: Floats | None) -> Floats:
    """Release the counts of the classes under the passage's first leaf; return balanced weights.

    `present` says how much each row counts: at most 1, also for all rows of a person together.
    """
    adjacency, mechanism = passage.permit.adjacency, passage.leaf().mechanism
    assert isinstance(mechanism, LaplaceVector)
    # proof: HISTOGRAM
    counts = passage.release(histogram(numbers, classes, adjacency, present))
    return balanced(counts, mechanism.noise_multiplier)


def balancing(chosen: Recommendation, classes: int, epsilon: float) -> Recommendation:
    """Return the training that was recommended `for_model`, behind noisy counts."""
    algorithm = Balanced(chosen.algorithm, epsilon, classes)
    return replace(chosen, algorithm=algorithm, notes=(*chosen.notes, BALANCED_NOTE))


@dataclass(frozen=True)
class Balanced(Behind):
    """Count the classes with noise, weigh rows by the counts, then run `algorithm`."""

    classes: int

    summary: ClassVar[str] = "a training with classes balanced by noisy counts"

    def prepare(self, public: Public) -> PreparedBehind:
        """Return counts and model in one plan; their costs add up to the budget."""
        # proof: CLASS-WEIGHT
        inner = self.algorithm.prepare(public)
        plan = Together(counting(self.epsilon, public.epsilon, public.adjacency), inner.plan)
        proofs = (*inner.proofs, *self.algorithm.weight_proofs, "CLASS-WEIGHT", "PLAN-BEFORE-LOOK")
        whole = replace(inner.public, epsilon=self.epsilon)
        return PreparedBehind(whole, plan, proofs, inner.weight_noise, inner)

    def run(self, records: Records, prepared: PreparedBehind, passage: Passage) -> Any:
        """Return what the algorithm releases on weighted rows."""
        numbers = each(partial(_numbers, prepared.public.loss), *records.targets)
        present = records.weights
        if present is not None:
            present = each(partial(_divided, prepared.public.weight_bound), present)
        factors = class_factors(passage, numbers, self.classes, present)
        weights = weighed(records.weights, factors, numbers)
        lighter = Records(records.rows, records.targets, weights, records.unit)
        return self.algorithm.run(lighter, prepared.inner, passage.after(1))


def _divided(by: float, weights: Floats) -> Floats:
    return weights / by


def _numbers(loss: Any, *targets: Any) -> Any:
    """Return the class number of every row from the targets of the models."""
    if isinstance(loss, Softmax):
        return np.asarray(targets[0])
    if len(targets) == 1:
        return (np.asarray(targets[0]) > 0.0).astype(np.int64)
    return np.argmax(np.stack(targets), axis=0)
