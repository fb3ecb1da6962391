"""The estimator behind `LogisticRegression` and `LinearSVC`: check, choose, train, state.

Nothing that depends on the data becomes an attribute except what was released: no iteration count,
no training loss, no norm. ``fit`` either succeeds or leaves the estimator as it was.
"""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette import _validate
from noisette._typing import Floats
from noisette.adjacency import Adjacency
from noisette.clipping import checked_bound
from noisette.errors import InvalidData, InvalidParameter
from noisette.estimators import inputs
from noisette.estimators.linear_model import LinearClassifier
from noisette.estimators.outlook import Outlook, outlook
from noisette.losses import Loss, Softmax
from noisette.privacy import Ledger
from noisette.randomness import Randomness, as_randomness
from noisette.training import Public, Records, train, with_intercept
from noisette.training.levels import level_notes, present, weights_of_levels
from noisette.training.recommend import Recommendation, bound_on_rows, mechanisms, recommend

__all__ = ["OneShotClassifier"]


class OneShotClassifier(LinearClassifier):
    """Common part of `LogisticRegression` and `LinearSVC`; see there for the parameters."""

    epsilon: float
    delta: float
    mechanism: str
    regularization: float | str
    norm_bound: float
    adjacency: str
    classes: Sequence[Any] | None
    multi_class: str
    whiten: bool | str | float
    weight_bound: float
    random_state: int | Randomness | None

    _schemes: tuple[str, ...] = ("auto", "ovr")

    @abstractmethod
    def _loss(self, classes: int) -> Loss:
        """Return the loss for that many classes (2 for each one-vs-rest model)."""

    def plan(self, n: int, d: int, *, classes: int | None = None) -> Outlook:
        """Return what ``fit`` on n rows of d features would charge, from public facts alone.

        Parameters
        ----------
        n : int
            The number of records, or a guess of it.
        d : int
            The number of features.
        classes : int, optional
            How many classes there are; what the constructor lists, else two.

        Returns
        -------
        Outlook
            The plan, its epsilon, the noise in plain units, memory and time to expect.

        """
        ledger, _ = self._check_public()
        n, d = _validate.integer("n", n), _validate.integer("d", d)
        known = ledger.adjacency.size_is_public
        _validate.delta_for(self.delta, n if known else self.population)
        count = self._count(classes)
        bias = self._intercept()
        bound = float(self.norm_bound)
        if bias is not None:
            bound = math.hypot(bound, bias) * (1.0 + 2.0**-50)
        public = self._describe(n, d + (bias is not None), bound, count, ledger.adjacency)
        return outlook(self._recommend(public, levels=False), n)

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, sample_epsilon: Any = None
    ) -> "OneShotClassifier":
        """Train privately and return the estimator.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Rows longer than ``norm_bound`` are scaled down to it.
        y : array-like of shape (n,)
            The labels.
        sample_weight : array-like of shape (n,), optional
            Weights in [0, ``weight_bound``], used as they are (never rescaled).
        sample_epsilon : array-like of shape (n,), optional
            Values in (0, ``epsilon``], every person's own epsilon; for output perturbation only.
            The levels are public by declaration.

        Returns
        -------
        self
            The fitted estimator.

        """
        with self._all_or_nothing():
            self._fit(X, y, sample_weight, sample_epsilon)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any, sample_epsilon: Any) -> None:
        ledger, randomness = self._check_public()
        least = 2 if ledger.adjacency.size_is_public else 1
        X, y = inputs.rows_and_labels(self, X, y, least)
        n = X.shape[0]
        _validate.delta_for(self.delta, n if least == 2 else self.population)
        classes = inputs.sorted_classes(self.classes, y)
        numbers = inputs.class_numbers(classes, y)
        rows, bound = with_intercept(X, float(self.norm_bound), self._intercept())
        public = self._describe(n, rows.shape[1], bound, len(classes), ledger.adjacency)
        weights = self._weights(sample_weight, sample_epsilon, n)
        if weights is not None:
            public = replace(public, weight_bound=float(self.weight_bound))
        chosen = self._recommend(public, levels=sample_epsilon is not None)
        notes, proofs = chosen.notes, tuple[str, ...]()
        if sample_epsilon is not None:
            levels = inputs.levels(sample_epsilon, n, float(self.epsilon))
            weights = weights_of_levels(levels, chosen.public)
            rows, numbers, weights = present(rows, numbers, weights)
            notes = (*notes, *level_notes(levels, ledger.adjacency))
            proofs = ("PER-PERSON-SCALE",)
        records = Records(rows, self._targets(chosen.public, numbers, len(classes)), weights)
        name = chosen.algorithm.name.replace("whitened", "objective")
        trained = train(
            chosen.algorithm, chosen.public, records, ledger=ledger, randomness=randomness,
            observer=self._observer, label=f"{type(self).__name__}.fit ({name} perturbation)",
        )  # fmt: skip
        self._set_model(trained.weights, public.loss, self._intercept(), classes)
        self.regularization_ = chosen.known_regularization
        self.privacy_ = self._stated(
            trained.permit,
            public=self._known(chosen.public, classes, weighed=sample_weight is not None),
            notes=notes,
            proofs=(*proofs, *trained.proofs),
        )

    def _check_public(self) -> tuple[Ledger, Randomness]:
        """Check every constructor parameter before the data are looked at."""
        epsilon, delta = _validate.epsilon(self.epsilon), _validate.delta(self.delta)
        adjacency = Adjacency.of(self.adjacency)
        checked_bound("norm_bound", self.norm_bound)
        _validate.positive("weight_bound", self.weight_bound)
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
        self, n: int, features: int, bound: float, classes: int, adjacency: Adjacency
    ) -> Public:
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
            size=n if adjacency.size_is_public else self.population,
            most=bound_on_rows(adjacency, n, self.population),
            models=1 if joint else classes,
        )

    def _recommend(self, public: Public, *, levels: bool) -> Recommendation:
        return recommend(
            public,
            mechanism=self.mechanism,
            regularization=self.regularization,
            whiten=self._whiten,
            levels=levels,
        )

    def _weights(self, sample_weight: Any, sample_epsilon: Any, n: int) -> Floats | None:
        if sample_weight is None:
            return None
        if sample_epsilon is not None:
            raise InvalidData("pass sample_weight or sample_epsilon, not both.")
        cap = float(self.weight_bound)
        return inputs.vector("sample_weight", sample_weight, n, 0.0, cap, "weight_bound")

    def _targets(
        self, public: Public, numbers: NDArray[np.intp], classes: int
    ) -> list[NDArray[Any]]:
        """Return one target vector for each model."""
        if isinstance(public.loss, Softmax):
            return [numbers]
        if public.models == 1:
            return [np.where(numbers == 1, 1.0, -1.0)]
        return [np.where(numbers == k, 1.0, -1.0) for k in range(classes)]

    def _known(self, public: Public, classes: NDArray[Any], *, weighed: bool) -> tuple[str, ...]:
        known = public.adjacency.size_is_public
        more: tuple[str, ...] = ()
        if weighed and public.weight_bound != 1.0:
            more = (f"the cap {public.weight_bound:g} on sample weights",)
        return self._facts(
            f"the number of records, {public.size}" if known else "",
            classes,
            (self.norm_bound, self._intercept()),
            given=self.classes is not None,
            most=public.most,
            more=more,
        )
