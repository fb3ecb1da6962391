"""The estimator behind `LogisticRegression` and `LinearSVC`: check, choose, train, state.

Nothing that depends on the data becomes an attribute except what was released: no iteration count,
no training loss, no norm. ``fit`` either succeeds or leaves the estimator as it was.
"""

from abc import abstractmethod
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from noisette import _validate
from noisette._typing import Floats, Labels
from noisette.core.adjacency import Adjacency
from noisette.core.ledger import Ledger
from noisette.core.parts import each
from noisette.core.randomness import Randomness
from noisette.errors import InvalidData, InvalidParameter
from noisette.fitting.algorithms import Public, Records, Trained, with_intercept
from noisette.fitting.algorithms.algorithm import PreparedModel
from noisette.fitting.algorithms.class_weight import (
    BALANCED,
    balancing,
    check_class_weight,
    for_model,
    public_weights,
    weighed,
    weight_proofs,
)
from noisette.fitting.algorithms.levels import level_notes, weights_of_levels
from noisette.fitting.algorithms.recommend import Recommendation, mechanisms, recommend
from noisette.fitting.losses import Loss, Softmax
from noisette.fitting.units import Unit
from noisette.models import inputs
from noisette.models.linear_model import LinearClassifier, Ready
from noisette.models.noise_bars import bars_of_fit
from noisette.models.outputs import labels_fact, size_facts


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

    @abstractmethod
    def _loss(self, classes: int) -> Loss:
        """Return the loss for that many classes (2 for each one-vs-rest model)."""

    def _outlined(self, unit: Unit, d: int, adjacency: Adjacency, *classes: int) -> Recommendation:
        features = d + bool(self.fit_intercept)
        public = self._describe(unit, features, self._augmented_bound(), classes[0], adjacency)
        return self._recommend(public, classes[0], levels=False)

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, sample_epsilon: Any = None,
        persons: Any = None,
    ) -> Self:  # fmt: skip
        """Train privately and return the estimator.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (n, d)
            Rows longer than ``norm_bound`` are scaled down to it.
        y : array_like of shape (n,)
            The labels.
        sample_weight : array_like of shape (n,), optional
            Weights in [0, ``weight_bound``], used as they are (never rescaled).
        sample_epsilon : array_like of shape (n,), optional
            Values in (0, ``epsilon``], every person's own epsilon; for output perturbation
            only. The levels are public by declaration.
        persons : array_like of shape (n,) or Persons, optional
            Whose row each row is, by any identifier. The guarantee is then about persons with
            all their rows, whose weights add up to one; the number of rows is private, and
            ``population``, ``regularization`` and ``delta`` count persons.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        InvalidParameter
            If a parameter of the estimator is out of range; nothing is charged.
        InvalidData
            If X, y or a vector has the wrong shape or entries; nothing is charged.
        Unproven
            If no theorem covers the parameters together; nothing is charged.
        BudgetExceeded
            If the ledger has too little left; nothing is charged.

        """
        with self._all_or_nothing(X):
            self._fit(X, y, sample_weight, sample_epsilon, persons)
        return self

    def _ready(
        self, adjacency: Adjacency, X: Any, y: Any, sample_weight: Any = None,
        sample_epsilon: Any = None, persons: Any = None,
    ) -> Ready:  # fmt: skip
        X, y = inputs.rows_and_labels(self, X, y, self._least)
        unit = inputs.unit_of(persons, X.shape[0], adjacency, X, least=2)
        classes = inputs.sorted_classes(self.classes, y)
        numbers = inputs.label_numbers(classes, y)
        rows, bound = with_intercept(X, self._row_bound(), self._intercept())
        public = self._describe(unit, rows.shape[1], bound, len(classes), adjacency)
        weights = None
        if sample_epsilon is not None and self.class_weight is not None:
            raise InvalidParameter("pass sample_epsilon or class_weight, not both.")
        if sample_weight is not None:
            if sample_epsilon is not None:
                raise InvalidData("pass sample_weight or sample_epsilon, not both.")
            cap = float(self.weight_bound)
            weights = inputs.weights("sample_weight", sample_weight, X, 0.0, cap, "weight_bound")
            public = replace(public, weight_bound=cap)
        factors = public_weights(self.class_weight, classes)
        if factors is not None:
            weights = weighed(weights, factors, numbers)
        chosen = self._recommend(public, len(classes), levels=sample_epsilon is not None)
        notes, proofs = chosen.notes, tuple[str, ...]()
        if sample_epsilon is not None:
            levels = inputs.levels(sample_epsilon, X, float(self.epsilon))
            unit.one_each("sample_epsilon", levels.values)
            weights = weights_of_levels(levels, chosen.public)
            notes = (*notes, *level_notes(levels, adjacency))
            proofs = ("PER-PERSON-SCALE",)
        weights, near = unit.share(weights), unit
        # rows beyond a cap have weight 0: they are left out, so that the cap bounds rows
        if sample_epsilon is not None or unit.max_rows is not None:
            rows, numbers, weights, near = unit.present(rows, numbers, weights)
        records = Records(rows, self._targets(chosen.public, numbers), weights, near)
        method = f"{chosen.algorithm.name.replace('whitened', 'objective')} perturbation"
        proofs += weight_proofs(self.class_weight)
        given = sample_weight is not None
        return Ready(chosen, records, unit, method, given, notes, proofs, classes)

    def _publish(self, ready: Ready, trained: Trained) -> None:
        chosen, bias = ready.chosen, self._intercept()
        public = chosen.public
        self._set_model(trained.released, public.loss, bias, ready.classes)
        total, size = public.regularization, public.size
        self.regularization_ = None if total is None or size is None else total / size
        self._bars = bars_of_fit(self, trained, chosen, bias)
        self.weight_noise_ = None
        if chosen.algorithm.name == "output" and not isinstance(public.loss, Softmax):
            prepared: PreparedModel = chosen.algorithm.prepare(public)
            self.weight_noise_ = prepared.weight_noise  # its law is public
        facts = [labels_fact(ready.classes, given=self.classes is not None)]
        if ready.weighed and public.weight_bound != 1.0:
            facts.append(f"the cap {public.weight_bound:g} on sample weights")
        sizes = size_facts(public, self.population, solved=True)
        self.privacy_ = self._stated(
            trained.permit, public=self._facts(sizes, self.norm_bound, bias, *facts),
            notes=ready.notes, proofs=(*ready.proofs, *trained.proofs), unit=ready.unit,
            weighed=ready.weighed,
        )  # fmt: skip

    def _check_own(self) -> None:
        self._row_bound()
        _validate.positive("weight_bound", self.weight_bound)
        check_class_weight(self.class_weight)
        _validate.choice("mechanism", self.mechanism, mechanisms())
        _validate.choice("multi_class", self.multi_class, self._schemes)
        whiten = self._whiten
        known = whiten == "auto" if isinstance(whiten, str) else isinstance(whiten, float | int)
        if not known:
            raise InvalidParameter(
                f"whiten must be True or 'auto', False, or a share in (0, 1); got {whiten!r}."
            )

    @property
    def _whiten(self) -> bool | str | float:
        return "auto" if self.whiten is True else self.whiten

    def _describe(
        self, unit: Unit, features: int, bound: float, classes: int, adjacency: Adjacency
    ) -> Public:
        """Return the public facts of a fit; `bound` and `features` count the constant column."""
        softmax = "softmax" in self._schemes and self.multi_class in ("auto", "softmax")
        joint = classes == 2 or softmax
        loss = self._loss(classes if joint else 2)
        return self._solved(unit, features, bound, adjacency, loss, 1 if joint else classes)

    def _recommend(self, public: Public, classes: int, *, levels: bool) -> Recommendation:
        even = self.class_weight == BALANCED
        chosen = recommend(
            for_model(public) if even else public,
            mechanism=self.mechanism,
            regularization=self.regularization,
            whiten=self._whiten,
            levels=levels,
        )
        return balancing(chosen, classes, float(self.epsilon)) if even else chosen

    def _targets(self, public: Public, numbers: NDArray[np.intp]) -> list[NDArray[Any]]:
        """Return one target vector for each model."""
        if isinstance(public.loss, Softmax):
            return [numbers]
        alone = range(1, 2) if public.models == 1 else range(public.models)
        return [each(partial(_signs, k), numbers) for k in alone]


def _signs(number: int, numbers: NDArray[np.intp]) -> Floats:
    return np.where(numbers == number, 1.0, -1.0)
