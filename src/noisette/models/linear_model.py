"""What a fitted linear model offers: its bounds, scores, labels, and what scikit-learn asks."""

import math
import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette import _validate
from noisette._scikit import ClassifierMixin, check_is_fitted
from noisette._typing import Floats
from noisette.core import accounting
from noisette.core.adjacency import Adjacency
from noisette.core.ledger import Ledger
from noisette.core.parts import each
from noisette.core.randomness import Randomness, as_randomness
from noisette.errors import InvalidData, InvalidParameter, WeakModelWarning
from noisette.fitting.algorithms import Public, Trained, train
from noisette.fitting.algorithms.class_weight import public_weights, weighed
from noisette.fitting.algorithms.recommend import WEIGHT_NORM, Recommendation
from noisette.fitting.algorithms.train import checked
from noisette.fitting.clipping import checked_bound
from noisette.fitting.losses import Loss, Softmax
from noisette.fitting.partitions.lazily import lazily
from noisette.fitting.units import Unit
from noisette.models import inputs
from noisette.models.noise_bars import NoiseBars
from noisette.models.outputs import rows_fact, size_facts
from noisette.models.private import Forecast, PrivateEstimator, Scored


@dataclass(frozen=True, eq=False)
class Ready:
    """A fit up to its charge: its plan, the sensitive half, and what the guarantee will say."""

    chosen: Recommendation
    records: Any
    unit: Unit
    method: str
    facts: tuple[str, ...]
    """What is known of the labels, or of the target."""
    weighed: bool = False
    notes: tuple[str, ...] = ()
    proofs: tuple[str, ...] = ()
    classes: Any = None
    sizes: tuple[str, ...] = ()
    """What is known of the number of units, where that is not what a single fit knows."""


_SECONDS = 2e-9  # for an entry of the matrix in one pass, on one core of 2026
INTERCEPT = 0.35
"""The constant column, in units of ``norm_bound`` (see docs/linear.md for the measurement)."""


class LinearModel(PrivateEstimator):
    """Rows of a bounded norm, and an intercept that is the weight of a constant column.

    An estimator has `_check_own` (its own parameters), `_ready` (reads the data and chooses, before
    anything is charged), `_outlined` (what would be chosen for rows of d features) and `_take`
    (sets what was released as attributes, and returns notes).
    """

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
        with self._all_or_nothing(look=True):
            ledger, _ = self._check_public()
            ready: Ready = self._ready(ledger.adjacency, *data, **options)
            return ready.chosen

    def _prepared(self, X: Any, y: Any) -> Any:
        with self._all_or_nothing(look=True):
            ledger, _ = self._check_public()
            ready = self._ready(ledger.adjacency, X, y)
            return checked(ready.chosen.algorithm, ready.chosen.public, ready.records)

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

    def _fit(self, *data: Any, verbose: int = 0) -> None:
        ledger, randomness = self._check_public()
        ready = self._ready(ledger.adjacency, *data)
        if ready.chosen.warning:  # from public facts: the model can hardly learn
            warnings.warn(ready.chosen.warning, WeakModelWarning, stacklevel=3)
        trained = train(
            ready.chosen.algorithm, ready.chosen.public, ready.records, ledger=ledger,
            randomness=randomness, label=f"fit ({ready.method})", model=type(self).__name__,
            verbose=verbose,
        )  # fmt: skip
        self._publish(ready, trained)

    def _publish(self, ready: Ready, trained: Trained) -> None:
        """Set what was released as attributes, and state the guarantee."""
        bound, bias = self.norm_bound, self._intercept()
        update = getattr(ready.chosen.algorithm.own, "update", None)
        if update is not None:  # what ran: parameters of a stream may have changed since
            bound, bias = update.norm_bound, update.bias
        notes = self._take(ready, trained, bias)
        sizes = ready.sizes or size_facts(ready.chosen.public, self.population, solved=True)
        public = [*sizes, f"the {self.n_features_in_} features and their names"]
        if bound is not None:
            public.append(rows_fact(bound, bias))
        public += [*ready.facts, "all parameters of the estimator and the program"]
        self.privacy_ = self._stated(
            trained.permit, public=tuple(public),
            notes=(*ready.notes, *notes), proofs=(*ready.proofs, *trained.proofs),
            unit=ready.unit, weighed=ready.weighed,
        )  # fmt: skip

    def _plan(self, n: int, d: int, persons: bool, max_rows: int | None, *classes: int) -> Forecast:
        ledger, _ = self._check_public()
        n, d = _validate.integer("n", n), _validate.integer("d", d)
        unit = Unit.planned(n, persons=persons, max_rows=max_rows)
        chosen = self._outlined(unit, d, ledger.adjacency, *classes)
        public, algorithm = chosen.public, chosen.algorithm
        prepared, entries = algorithm.prepare(public), n * public.features
        bound = public.norm_bound if math.isfinite(public.norm_bound) else 1.0
        spent = accounting.epsilon(prepared.plan, delta=public.delta, adjacency=public.adjacency)
        return Forecast(
            algorithm.name, prepared.plan, spent, public.delta, str(public.adjacency),
            prepared.weight_noise, WEIGHT_NORM / bound / math.sqrt(public.features),
            memory=int(8 * entries + 8 * public.dimension * public.models + 30e6),
            seconds=_SECONDS * entries * algorithm.passes(prepared), notes=chosen.notes,
            unit=public.unit, warning=chosen.warning,
        )  # fmt: skip

    def _solved(
        self, unit: Unit, features: int, bound: float, adjacency: Adjacency, loss: Loss,
        models: int = 1, weight_bound: float = 1.0,
    ) -> Public:  # fmt: skip
        """Return the public facts of a fit; `bound` and `features` count the constant column."""
        known = unit.known(adjacency, self.population)
        _validate.delta_for(self.delta, known["size"])
        return Public(
            epsilon=float(self.epsilon), delta=float(self.delta), adjacency=adjacency, loss=loss,
            features=features, norm_bound=bound, models=models,
            weight_bound=weight_bound, **known,
        )  # fmt: skip

    def _augmented(self, d: int) -> tuple[int, float]:
        """Return the features and the norm bound of rows with the constant column."""
        bias, bound = self._intercept(), self._row_bound()
        return (d, bound) if bias is None else (d + 1, math.hypot(bound, bias) * (1.0 + 2.0**-50))

    def __sklearn_tags__(self) -> Any:
        """Declare what scikit-learn should know: sparse input works, NaN if ``missing`` says so."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing == "zero"
        return tags


class LinearClassifier(Scored, ClassifierMixin, LinearModel):  # type: ignore[misc]
    """A linear model with labels: one row of coefficients for each score."""

    def plan(
        self, n: int, d: int, *, classes: int | None = None, persons: bool = False,
        max_rows: int | None = None,
    ) -> Forecast:  # fmt: skip
        """Return what ``fit`` on n rows of d features would charge, from public facts alone.

        Parameters
        ----------
        %(size)
        classes : int, optional
            How many classes there are; what the constructor lists, else two.
        %(planned persons)

        %(forecast)

        """
        count = 2
        if classes is not None:
            count = _validate.integer("classes", classes, 2)
        elif self.classes is not None:
            count = len(inputs.sorted_classes(self.classes))
        return self._plan(n, d, persons, max_rows, count)

    def _labelled(
        self, adjacency: Adjacency, X: Any, y: Any, sample_weight: Any, sample_epsilon: Any,
        persons: Any, limit: tuple[Any, ...] = (1.0,), *, tame: bool = True,
    ) -> tuple[Any, Unit, NDArray[Any], Any, Any]:  # fmt: skip
        """Return checked rows, whose they are, the classes, their numbers, and the rows' weights.

        `limit` is the public cap on weights, with its name where it is a parameter.
        """
        X, y = inputs.rows_and_targets(self, X, y, self._least, tame=tame)
        unit = inputs.unit_of(persons, X.shape[0], adjacency, X, least=2)
        classes, weights = inputs.sorted_classes(self.classes, y), None
        numbers = each(partial(inputs.label_numbers, classes), y)
        if sample_epsilon is not None and self.class_weight is not None:
            raise InvalidParameter("pass sample_epsilon or class_weight, not both.")
        if sample_weight is not None:
            if sample_epsilon is not None:
                raise InvalidData("pass sample_weight or sample_epsilon, not both.")
            weights = inputs.weights("sample_weight", sample_weight, X, 0.0, *limit)
        factors = public_weights(self.class_weight, classes)
        if factors is not None:
            weights = weighed(weights, factors, numbers)
        return X, unit, classes, numbers, weights

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

        %(to classify)

        Returns
        -------
        ndarray of shape (n,)
            Labels out of ``classes_``.

        """
        scores = self.decision_function(X)
        chosen = (scores > 0.0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[chosen])
