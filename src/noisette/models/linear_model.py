"""What a fitted linear model offers: its bounds, scores, labels, and what scikit-learn asks."""

import math
import warnings
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette import _validate
from noisette._scikit import ClassifierMixin, check_is_fitted
from noisette._typing import Floats
from noisette.core.adjacency import Adjacency
from noisette.core.ledger import Ledger
from noisette.core.randomness import Randomness, as_randomness
from noisette.errors import InvalidParameter, WeakModelWarning
from noisette.fitting.algorithms import Prepared, Public, Records, Trained, train
from noisette.fitting.algorithms.recommend import Recommendation
from noisette.fitting.algorithms.train import checked
from noisette.fitting.clipping import checked_bound
from noisette.fitting.losses import Loss, Softmax
from noisette.fitting.partitions.lazily import lazily
from noisette.fitting.units import Unit
from noisette.models import inputs
from noisette.models.noise_bars import NoiseBars
from noisette.models.outputs import rows_fact
from noisette.models.private import Outlook, PrivateEstimator, Scored, outlook


@dataclass(frozen=True, eq=False)
class Ready:
    """A fit up to its charge: its plan, the sensitive half, and what the guarantee will say."""

    chosen: Recommendation
    records: Records
    unit: Unit
    method: str
    weighed: bool = False
    notes: tuple[str, ...] = ()
    proofs: tuple[str, ...] = ()
    classes: Any = None


INTERCEPT = 0.35
"""The constant column, in units of ``norm_bound`` (see docs/linear.md for the measurement)."""


class LinearModel(PrivateEstimator):
    """Rows of a bounded norm, and an intercept that is the weight of a constant column."""

    epsilon: float
    delta: float
    adjacency: str
    norm_bound: float | None
    fit_intercept: bool
    population: int | None
    missing: str
    random_state: int | Randomness | None

    _from_tables = "TableClassifier"
    _bars: NoiseBars = NoiseBars()

    def noise_bars(self) -> NoiseBars:
        """Return how much of each weight is noise, at no cost: all of it is public or released.

        Returns
        -------
        NoiseBars
            Standard deviations, and a sentence that says where they come from.

        Examples
        --------
        >>> import numpy as np
        >>> from noisette import LinearRegression
        >>> X = np.random.default_rng(0).uniform(-1.0, 1.0, (5000, 2))
        >>> model = LinearRegression(1.0, target_bounds=(-2, 2), norm_bound=1.5, random_state=0)
        >>> bars = model.fit(X, X[:, 0] + X[:, 1]).noise_bars()
        >>> bars.law, bars.coef.shape
        ('model', (2,))

        """
        check_is_fitted(self)
        return self._bars

    def _row_bound(self) -> float:
        """Return R, which nobody can guess: a default would cut raw columns short in silence."""
        if self.norm_bound is None:
            raise InvalidParameter(
                "norm_bound has no default: pass norm_bound=..., the length beyond which rows are "
                "cut (1.0 for d columns scaled to [-1, 1] by public limits and divided by "
                f"sqrt(d)), or give the raw table to noisette.{self._from_tables}."
            )
        return checked_bound("norm_bound", self.norm_bound)

    def _intercept(self) -> float | None:
        if not self.fit_intercept:
            return None
        # a float32, so that the column has the same public value in rows of either type
        return float(np.float32(INTERCEPT * float(self.norm_bound or 1.0)))

    def public(self, *data: Any, **options: Any) -> Recommendation:
        """Return what ``fit`` on these data would run and charge, and charge nothing.

        It looks at the data as ``fit`` does, and refuses what that refuses; what it returns is
        public, as far as what ``fit`` treats as public is.

        Parameters
        ----------
        *data : array_like
            What ``fit`` takes.
        **options : array_like
            What ``fit`` takes by name.

        Returns
        -------
        Recommendation
            The algorithm, the public facts, and the plan.

        Examples
        --------
        >>> import numpy as np
        >>> from noisette import LogisticRegression
        >>> X = np.linspace(-1.0, 1.0, 2000)[:, None]
        >>> LogisticRegression(1.0, norm_bound=1.0).public(X, X[:, 0] > 0.0).public.size
        2000

        """
        with self._as_it_was():
            ledger, _ = self._check_public()
            return self._ready(ledger.adjacency, *data, **options).chosen

    def _prepared(self, X: Any, y: Any) -> Prepared:
        with self._as_it_was():
            ledger, _ = self._check_public()
            ready = self._ready(ledger.adjacency, X, y)
            found: Prepared = checked(ready.chosen.algorithm, ready.chosen.public, ready.records)
            return found

    def _check_public(self) -> tuple[Ledger, Randomness]:
        """Check every constructor parameter before the data are looked at."""
        epsilon, delta = _validate.epsilon(self.epsilon), _validate.delta(self.delta)
        adjacency = Adjacency.of(self.adjacency)
        self._check_own()
        _validate.boolean("fit_intercept", self.fit_intercept)
        if self.population is not None:
            _validate.integer("population", self.population)
        _validate.choice("missing", self.missing, inputs.MISSING)
        randomness = as_randomness(self.random_state)
        return self._ledger_to_charge(epsilon, delta, adjacency), randomness

    @abstractmethod
    def _check_own(self) -> None:
        """Check the parameters that not every linear model has."""

    @abstractmethod
    def _ready(self, adjacency: Adjacency, *data: Any, **options: Any) -> Ready:
        """Read the data and choose, before anything is charged."""

    @abstractmethod
    def _publish(self, ready: Ready, trained: Trained) -> None:
        """Set what was released as attributes, and state the guarantee."""

    def _fit(self, *data: Any) -> None:
        ledger, randomness = self._check_public()
        ready = self._ready(ledger.adjacency, *data)
        self._warn(ready.chosen)
        trained = train(
            ready.chosen.algorithm, ready.chosen.public, ready.records, ledger=ledger,
            randomness=randomness, label=f"fit ({ready.method})", model=type(self).__name__,
            verbose=getattr(self, "verbose", 0),
        )  # fmt: skip
        self._publish(ready, trained)

    def _plan(self, n: int, d: int, persons: bool, max_rows: int | None, *classes: int) -> Outlook:
        ledger, _ = self._check_public()
        n, d = _validate.integer("n", n), _validate.integer("d", d)
        unit = Unit.planned(n, persons=persons, max_rows=max_rows)
        return outlook(self._outlined(unit, d, ledger.adjacency, *classes), n)

    @abstractmethod
    def _outlined(self, unit: Unit, d: int, adjacency: Adjacency, *classes: int) -> Recommendation:
        """Return the training that ``fit`` on rows of d features would choose."""

    def _solved(
        self, unit: Unit, features: int, bound: float, adjacency: Adjacency, loss: Loss,
        models: int = 1,
    ) -> Public:  # fmt: skip
        """Return the public facts of a fit; `bound` and `features` count the constant column."""
        known = unit.known(adjacency, self.population)
        _validate.delta_for(self.delta, known["size"])
        return Public(
            epsilon=float(self.epsilon), delta=float(self.delta), adjacency=adjacency, loss=loss,
            features=features, norm_bound=bound, models=models, **known,
        )  # fmt: skip

    def _augmented_bound(self) -> float:
        """Return the norm bound of rows with the constant column."""
        bias, bound = self._intercept(), self._row_bound()
        return bound if bias is None else math.hypot(bound, bias) * (1.0 + 2.0**-50)

    def _facts(
        self, sizes: list[str], norm_bound: float | None, bias: float | None, *more: str
    ) -> tuple[str, ...]:
        """Return what the guarantee treats as known to everybody.

        `sizes` say what is known of the number of records or persons, `more` of the target.
        """
        rows = [] if norm_bound is None else [rows_fact(norm_bound, bias)]
        features = f"the {self.n_features_in_} features and their names"
        return (*sizes, features, *rows, *more, "all parameters of the estimator and the program")

    def _warn(self, chosen: Recommendation) -> None:
        """Say before the charge, from public facts, that the model can hardly learn."""
        if chosen.warning:
            warnings.warn(chosen.warning, WeakModelWarning, stacklevel=4)

    def __sklearn_tags__(self) -> Any:
        """Declare what scikit-learn should know: sparse input works, NaN if ``missing`` says so."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing == "zero"
        return tags


class LinearClassifier(Scored, ClassifierMixin, LinearModel):  # type: ignore[misc]
    """A linear model with labels: one row of coefficients for each score."""

    classes: Any

    def plan(
        self, n: int, d: int, *, classes: int | None = None, persons: bool = False,
        max_rows: int | None = None,
    ) -> Outlook:  # fmt: skip
        """Return what ``fit`` on n rows of d features would charge, from public facts alone.

        Parameters
        ----------
        n : int
            The number of records, or a guess of it; with `persons`, of persons.
        d : int
            The number of features.
        classes : int, optional
            How many classes there are; what the constructor lists, else two.
        persons : bool, default False
            Whether ``fit`` will get persons; the guarantee is then about all rows of one.
        max_rows : int, optional
            The public cap on the rows of a person, where there is one.

        Returns
        -------
        Outlook
            The plan, its epsilon, the noise in plain units, memory and time to expect.

        Raises
        ------
        InvalidParameter
            If a parameter of the estimator is out of range.
        Unproven
            If no theorem covers the parameters together.

        """
        return self._plan(n, d, persons, max_rows, self._count(classes))

    def _count(self, told: int | None) -> int:
        """Return the number of classes for a plan: as told, as listed, else two."""
        if told is not None:
            return _validate.integer("classes", told, 2)
        return 2 if self.classes is None else len(inputs.listed_classes(self.classes))

    def _set_model(
        self, weights: list[Floats], loss: Loss, bias: float | None, classes: NDArray[Any]
    ) -> None:
        """Split the released weights into coefficients and intercepts, one row per score."""
        if isinstance(loss, Softmax):
            parts = loss.expand(weights[0])
            if len(classes) == 2:
                parts = parts[1:] - parts[:1]
        else:
            parts = np.stack(weights)
        if bias is None:
            self.coef_, self.intercept_ = np.array(parts), np.zeros(len(parts))
        else:
            self.coef_, self.intercept_ = parts[:, :-1].copy(), bias * parts[:, -1]
        self.classes_ = classes

    # --- using the model -------------------------------------------------------------------

    @lazily
    def decision_function(self, X: Any) -> Floats:
        """Return scores: shape (n,) for two classes, else (n, K).

        Parameters
        ----------
        X : array_like or sparse matrix of shape (n, d)
            Rows to score; they are not scaled down.

        Returns
        -------
        ndarray of shape (n,) or (n, K)
            A score > 0 speaks for ``classes_[1]``, or the largest of K for its class.

        """
        check_is_fitted(self)
        X = inputs.matrix(self, X)
        scores = np.asarray(X @ self.coef_.T, dtype=np.float64) + self.intercept_
        return scores[:, 0] if scores.shape[1] == 1 else scores

    @lazily
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely label of every row.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (n, d)
            Rows to classify.

        Returns
        -------
        ndarray of shape (n,)
            Labels out of ``classes_``.

        """
        scores = self.decision_function(X)
        chosen = (scores > 0.0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[chosen])
