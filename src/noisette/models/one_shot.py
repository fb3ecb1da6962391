"""The estimator behind `LogisticRegression` and `LinearSVC`: check, choose, train, state.

Nothing that depends on the data becomes an attribute except what was released: no iteration count,
no training loss, no norm. ``fit`` either succeeds or leaves the estimator as it was.
"""

from typing import Any, Self

from noisette import _validate
from noisette._typing import Labels
from noisette.core.adjacency import Adjacency
from noisette.core.ledger import Ledger
from noisette.core.randomness import Randomness
from noisette.errors import InvalidParameter
from noisette.fitting.algorithms import Records, Trained, with_intercept
from noisette.fitting.algorithms.class_weight import (
    BALANCED,
    balancing,
    check_class_weight,
    for_model,
    weight_proofs,
)
from noisette.fitting.algorithms.levels import level_notes, weights_of_levels
from noisette.fitting.algorithms.recommend import Recommendation, mechanisms, recommend
from noisette.fitting.losses import Softmax
from noisette.fitting.units import Unit
from noisette.models import inputs
from noisette.models.linear_model import LinearClassifier, Ready
from noisette.models.noise_bars import bars_of_fit
from noisette.models.outputs import labels_fact


class OneShotClassifier(LinearClassifier):
    """Common part of `LogisticRegression` and `LinearSVC`; see there for the parameters."""

    _schemes: tuple[str, ...] = ("auto", "ovr")
    _refuses = ("entries", "labels")

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        mechanism: str = "auto",
        regularization: float | str = "auto",
        norm_bound: float | None = None,
        adjacency: str = "replace-one",
        fit_intercept: bool = True,
        classes: Labels | None = None,
        multi_class: str = "auto",
        whiten: bool | str | float = False,
        weight_bound: float = 1.0,
        class_weight: Any = None,
        population: int | None = None,
        missing: str = "refuse",
        random_state: int | Randomness | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self._keep(locals())

    def _outlined(self, unit: Unit, d: int, adjacency: Adjacency, *classes: int) -> Recommendation:
        return self._chosen(unit, *self._augmented(d), classes[0], adjacency)

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, sample_epsilon: Any = None,
        persons: Any = None,
    ) -> Self:  # fmt: skip
        """Train privately and return the estimator.

        Parameters
        ----------
        %(rows)
        y : array_like of shape (n,)
            The labels.
        sample_weight : array_like of shape (n,), optional
            Weights in [0, ``weight_bound``], used as they are (never rescaled).
        sample_epsilon : array_like of shape (n,), optional
            Values in (0, ``epsilon``], every person's own epsilon; for output perturbation
            only. The levels are public by declaration.
        %(persons)

        %(fitted, refusals)

        """
        with self._all_or_nothing(X):
            self._fit(X, y, sample_weight, sample_epsilon, persons)
        return self

    def _ready(
        self, adjacency: Adjacency, X: Any, y: Any, sample_weight: Any = None,
        sample_epsilon: Any = None, persons: Any = None,
    ) -> Ready:  # fmt: skip
        cap = float(self.weight_bound)
        X, unit, classes, numbers, weights = self._labelled(
            adjacency, X, y, sample_weight, sample_epsilon, persons, (cap, "weight_bound")
        )
        rows, bound = with_intercept(X, self._row_bound(), self._intercept())
        cap = 1.0 if sample_weight is None else cap
        chosen = self._chosen(
            unit, rows.shape[1], bound, len(classes), adjacency, cap, sample_epsilon is not None
        )
        notes, proofs = chosen.notes, weight_proofs(self.class_weight)
        if sample_epsilon is not None:
            levels = inputs.levels(sample_epsilon, X, float(self.epsilon))
            unit.one_each("sample_epsilon", levels.values)
            weights = weights_of_levels(levels, chosen.public)
            notes = (*notes, *level_notes(levels, adjacency))
            proofs = ("PER-PERSON-SCALE", *proofs)
        weights, near = unit.share(weights), unit
        # rows beyond a cap have weight 0: they are left out, so that the cap bounds rows
        if sample_epsilon is not None or unit.max_rows is not None:
            rows, numbers, weights, near = unit.present(rows, numbers, weights)
        targets = inputs.class_targets(chosen.public.loss, numbers, chosen.public.models)
        method = f"{chosen.algorithm.name.replace('whitened', 'objective')} perturbation"
        facts = [labels_fact(classes, given=self.classes is not None)]
        if sample_weight is not None and chosen.public.weight_bound != 1.0:
            facts.append(f"the cap {chosen.public.weight_bound:g} on sample weights")
        return Ready(
            chosen, Records(rows, targets, weights, near), unit, method,
            tuple(facts), sample_weight is not None, notes, proofs, classes,
        )  # fmt: skip

    def _take(self, ready: Ready, trained: Trained, bias: float | None) -> tuple[str, ...]:
        public = ready.chosen.public
        self._set_model(trained.released, public.loss, bias, ready.classes)
        total, size = public.regularization, public.size
        self.regularization_ = None if total is None or size is None else total / size
        bars: Any = bars_of_fit(self, trained, ready.chosen, bias)
        known = bars.law == "known" and not isinstance(public.loss, Softmax)  # its law is public
        self._bars, self.weight_noise_ = bars, float(bars.coef[0, 0]) if known else None
        return ()

    def _check_own(self) -> None:
        self._row_bound()
        _validate.positive("weight_bound", self.weight_bound)
        check_class_weight(self.class_weight)
        _validate.choice("mechanism", self.mechanism, mechanisms())
        _validate.choice("multi_class", self.multi_class, self._schemes)
        known = isinstance(self.whiten, float | int)
        if not known and not (isinstance(self.whiten, str) and self.whiten == "auto"):
            raise InvalidParameter(
                f"whiten must be True or 'auto', False, or a share in (0, 1); got {self.whiten!r}."
            )

    def _chosen(
        self, unit: Unit, features: int, bound: float, classes: int, adjacency: Adjacency,
        cap: float = 1.0, levels: bool = False,
    ) -> Recommendation:  # fmt: skip
        """Return the training of a fit; `bound` and `features` count the constant column."""
        softmax = "softmax" in self._schemes and self.multi_class in ("auto", "softmax")
        joint, even = classes == 2 or softmax, self.class_weight == BALANCED
        loss = self._loss(classes if joint else 2)
        public = self._solved(unit, features, bound, adjacency, loss, 1 if joint else classes, cap)
        chosen = recommend(
            for_model(public) if even else public, mechanism=self.mechanism,
            regularization=self.regularization,
            whiten="auto" if self.whiten is True else self.whiten, levels=levels,
        )  # fmt: skip
        return balancing(chosen, classes, float(self.epsilon)) if even else chosen
