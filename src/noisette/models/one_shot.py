"""The estimator behind `LogisticRegression` and `LinearSVC`: check, choose, train, state.

Nothing that depends on the data becomes an attribute except what was released: no iteration count,
no training loss, no norm. ``fit`` either succeeds or leaves the estimator as it was.
"""

import math
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
from noisette.core.randomness import Randomness, as_randomness
from noisette.errors import InvalidData, InvalidParameter
from noisette.fitting.algorithms import Public, Records, train, with_intercept
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
from noisette.fitting.algorithms.levels import level_notes, present, weights_of_levels
from noisette.fitting.algorithms.recommend import Recommendation, mechanisms, recommend, units
from noisette.fitting.losses import Loss, Softmax
from noisette.fitting.units import Persons
from noisette.models import inputs
from noisette.models.linear_model import LinearClassifier
from noisette.models.noise_bars import bars_of_fit
from noisette.models.outlook import Crowd
from noisette.models.outputs import size_facts


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
        self.epsilon = epsilon
        self.delta = delta
        self.mechanism = mechanism
        self.regularization = regularization
        self.norm_bound = norm_bound
        self.adjacency = adjacency
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.multi_class = multi_class
        self.whiten = whiten
        self.weight_bound = weight_bound
        self.class_weight = class_weight
        self.population = population
        self.missing = missing
        self.random_state = random_state
        self.ledger = ledger

    @abstractmethod
    def _loss(self, classes: int) -> Loss:
        """Return the loss for that many classes (2 for each one-vs-rest model)."""

    def _outlined(
        self, n: int, d: int, classes: int, ledger: Ledger, crowd: Crowd | None
    ) -> Recommendation:
        known = ledger.adjacency.size_is_public
        _validate.delta_for(self.delta, n if known else self.population)
        bias = self._intercept()
        bound = self._row_bound()
        if bias is not None:
            bound = math.hypot(bound, bias) * (1.0 + 2.0**-50)
        features = d + (bias is not None)
        public = self._describe(n, features, bound, classes, ledger.adjacency, crowd)
        return self._recommend(public, classes, levels=False)

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

    def _fit(self, X: Any, y: Any, sample_weight: Any, sample_epsilon: Any, persons: Any) -> None:
        ledger, randomness = self._check_public()
        known = ledger.adjacency.size_is_public
        X, y = inputs.rows_and_labels(self, X, y, 2 if known and persons is None else self._least)
        inputs.whole_rows(X, sample_epsilon=sample_epsilon)
        crowd = inputs.persons(persons, X.shape[0], ledger.adjacency, X)
        n = X.shape[0] if crowd is None else crowd.count
        _validate.delta_for(self.delta, n if known else self.population)
        classes = inputs.sorted_classes(self.classes, y)
        numbers = inputs.label_numbers(classes, y)
        rows, bound = with_intercept(X, self._row_bound(), self._intercept())
        public = self._describe(n, rows.shape[1], bound, len(classes), ledger.adjacency, crowd)
        weights = self._weights(sample_weight, sample_epsilon, X)
        if weights is not None:
            public = replace(public, weight_bound=float(self.weight_bound))
        factors = public_weights(self.class_weight, classes)
        if factors is not None:
            weights = weighed(weights, factors, numbers)
        chosen = self._recommend(public, len(classes), levels=sample_epsilon is not None)
        self._warn(chosen)
        notes, proofs = chosen.notes, tuple[str, ...]()
        if sample_epsilon is not None:
            levels = inputs.levels(sample_epsilon, len(numbers), float(self.epsilon))
            if crowd is not None:
                crowd.one_each("sample_epsilon", levels.values)
            weights = weights_of_levels(levels, chosen.public)
            notes = (*notes, *level_notes(levels, ledger.adjacency))
            proofs = ("PER-PERSON-SCALE",)
        told = crowd
        if crowd is not None:
            weights = crowd.share(weights)  # proof: PERSON-WEIGHTS
        if weights is not None and (sample_epsilon is not None or _capped(crowd)):
            rows, numbers, weights, crowd = present(rows, numbers, weights, crowd)
        targets = self._targets(chosen.public, numbers, len(classes))
        records = Records(rows, targets, weights, crowd)
        name = chosen.algorithm.name.replace("whitened", "objective")
        trained = train(
            chosen.algorithm, chosen.public, records, ledger=ledger, randomness=randomness,
            label=f"fit ({name} perturbation)",
            model=type(self).__name__,
        )  # fmt: skip
        self._set_model(trained.weights, public.loss, self._intercept(), classes)
        self.regularization_ = chosen.known_regularization
        self._bars = bars_of_fit(self, trained, chosen, self._intercept())
        self.weight_noise_ = self._known_noise(chosen)
        self.privacy_ = self._stated(
            trained.permit,
            public=self._known(chosen.public, classes, weighed=sample_weight is not None),
            notes=notes,
            proofs=(*proofs, *weight_proofs(self.class_weight), *trained.proofs),
            persons=told,
            weighed=sample_weight is not None,
        )

    def _known_noise(self, chosen: Recommendation) -> float | None:
        """Return the deviation of the noise in each weight where its law is public, else None."""
        loss = chosen.public.loss
        if chosen.algorithm.name != "output" or isinstance(loss, Softmax):
            return None
        prepared: PreparedModel = chosen.algorithm.prepare(chosen.public)
        return prepared.weight_noise

    def _check_public(self) -> tuple[Ledger, Randomness]:
        """Check every constructor parameter before the data are looked at."""
        epsilon, delta = _validate.epsilon(self.epsilon), _validate.delta(self.delta)
        adjacency = Adjacency.of(self.adjacency)
        self._row_bound()
        _validate.positive("weight_bound", self.weight_bound)
        check_class_weight(self.class_weight)
        _validate.choice("mechanism", self.mechanism, mechanisms())
        _validate.choice("multi_class", self.multi_class, self._schemes)
        _validate.boolean("fit_intercept", self.fit_intercept)
        if self.population is not None:
            _validate.integer("population", self.population)
        _validate.choice("missing", self.missing, inputs.MISSING)
        whiten = self._whiten
        known = whiten == "auto" if isinstance(whiten, str) else isinstance(whiten, float | int)
        if not known:
            raise InvalidParameter(
                f"whiten must be True or 'auto', False, or a share in (0, 1); got {whiten!r}."
            )
        randomness = as_randomness(self.random_state)
        return self._ledger_to_charge(epsilon, delta, adjacency), randomness

    @property
    def _whiten(self) -> bool | str | float:
        return "auto" if self.whiten is True else self.whiten

    def _describe(
        self, n: int, features: int, bound: float, classes: int, adjacency: Adjacency,
        persons: Persons | Crowd | None = None,
    ) -> Public:  # fmt: skip
        """Return the public facts of a fit; `bound` and `features` count the constant column."""
        softmax = "softmax" in self._schemes and self.multi_class in ("auto", "softmax")
        joint = classes == 2 or softmax
        return Public(
            epsilon=float(self.epsilon),
            delta=float(self.delta),
            adjacency=adjacency,
            loss=self._loss(classes if joint else 2),
            features=features,
            norm_bound=bound,
            models=1 if joint else classes,
            **units(adjacency, n, self.population, persons),
        )

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

    def _weights(self, sample_weight: Any, sample_epsilon: Any, X: Any) -> Any:
        if sample_epsilon is not None and self.class_weight is not None:
            raise InvalidParameter("pass sample_epsilon or class_weight, not both.")
        if sample_weight is None:
            return None
        if sample_epsilon is not None:
            raise InvalidData("pass sample_weight or sample_epsilon, not both.")
        cap = float(self.weight_bound)
        return inputs.weights("sample_weight", sample_weight, X, 0.0, cap, "weight_bound")

    def _targets(
        self, public: Public, numbers: NDArray[np.intp], classes: int
    ) -> list[NDArray[Any]]:
        """Return one target vector for each model."""
        if isinstance(public.loss, Softmax):
            return [numbers]
        if public.models == 1:
            return [each(partial(_signs, 1), numbers)]
        return [each(partial(_signs, k), numbers) for k in range(classes)]

    def _known(self, public: Public, classes: NDArray[Any], *, weighed: bool) -> tuple[str, ...]:
        more: tuple[str, ...] = ()
        if weighed and public.weight_bound != 1.0:
            more = (f"the cap {public.weight_bound:g} on sample weights",)
        return self._facts(
            size_facts(public, self.population, solved=True),
            classes,
            (self.norm_bound, self._intercept()),
            given=self.classes is not None,
            more=more,
        )


def _signs(number: int, numbers: NDArray[np.intp]) -> Floats:
    return np.where(numbers == number, 1.0, -1.0)


def _capped(persons: Persons | None) -> bool:
    """Whether rows beyond a cap have weight 0: they are left out, so that the cap bounds rows."""
    return persons is not None and persons.max_rows is not None
