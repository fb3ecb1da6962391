"""`PrivateSearch`: scikit-learn's search, with one guarantee for everything that was tried."""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin, clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from noisette import _validate
from noisette.core import accounting
from noisette.core.adjacency import Adjacency
from noisette.core.cells import taken
from noisette.core.guarantee import ONE_FIT
from noisette.core.ledger import Ledger
from noisette.core.permit import Permit
from noisette.core.plans import LAWS, Plan
from noisette.core.plans.laws import RunLaw
from noisette.core.randomness import Randomness, as_randomness
from noisette.core.search import LentLedger, best_run
from noisette.errors import InvalidData, InvalidParameter, Unproven
from noisette.fitting.algorithms.passage import Passage
from noisette.fitting.algorithms.public import PublicBudget
from noisette.models.inputs import label_vector
from noisette.models.private import Forecast, PrivateEstimator, Scored, retired
from noisette.tuning.budget import RunBudget, divided, run_budget, sizes
from noisette.tuning.scores import SCORES, RunScore

_OURS = {
    "epsilon", "delta", "adjacency", "random_state", "ledger", "population", "checkpoint", "verbose"
}  # fmt: skip

WHOLE_SEARCH = (
    "This covers the whole search: the number of runs was drawn from a public law and is secret, "
    "as are the other candidates that ran and all scores; only the best model was released, with "
    "the parameters that were chosen for it. How long the search took is not covered: it tells "
    "about how many runs there were. Every other fit on the same people costs its own epsilon on "
    "top; only a ledger adds them up."
)

_NO_PERSONS = (
    "a search divides and scores single rows, so that it has no proof for persons with several "
    "rows; search on one row of each person, or fit without a search."
)


def _offers(name: str) -> Any:
    return available_if(
        lambda search: hasattr(getattr(search, "best_estimator_", search.estimator), name)
    )


class PrivateSearch(Scored, ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """Choose hyper-parameters privately: the best of a random number of runs.

    Each run draws a candidate from the grid, trains it on the training part and scores it by a
    noisy score on the other people. Only the best model is released; the number of runs, the
    losers and all scores are secret, and that is why the search costs little more than one run.

    Parameters
    ----------
    estimator : estimator
        A private classifier of this library: linear, SGD, table or network. Its budget, relation,
        ledger and random state are those of the search.
    grid : dict or list of dict
        For each parameter the values to try, as in scikit-learn; public, chosen without the data.
    epsilon, delta : float, default 1.0 and 0.0
        The budget of the whole search, scores included.
    runs : str or RunLaw, default "geometric"
        The law of the number of runs, one of `noisette.plans.LAWS`. "logarithmic" is the cheapest,
        but has a single run in a quarter of all searches, and then a random candidate wins;
        "poisson" hardly ever has, and is the dearest.
    mean : float, default 10.0
        The mean number of runs.
    scoring : str, default "accuracy"
        What the best model is best at: "accuracy", "auc" or "log-loss".
    test_share : float, default 0.2
        The part of the people whose rows score and do not train.
    %(adjacency)
    population : int, optional
        A public guess of the number of records, for add-remove.
    %(random_state, ledger)

    Attributes
    ----------
    best_estimator_ : estimator
        The model of the best run; its ``privacy_`` is that of the whole search.
    best_params_ : dict
        Its parameters of the grid.
    classes_ : ndarray
        Its labels.
    privacy_ : Guarantee
        What is promised about the model and its parameters.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from noisette import LogisticRegression, PrivateSearch
    >>> X, y = make_classification(4000, 5, random_state=0)
    >>> grid = {"regularization": [1e-3, 1e-1]}
    >>> model = LogisticRegression(norm_bound=3.0, classes=[0, 1])
    >>> search = PrivateSearch(model, grid, 2.0, mean=3.0, random_state=0)
    >>> print(search.plan(4000, 5).notes[1])
    Every run has epsilon = 1.031, delta = 0.
    >>> _ = search.fit(X, y)
    >>> sorted(search.best_params_), search.best_estimator_.privacy_.epsilon
    (['regularization'], 2.0)
    >>> search.predict(X).shape, search.predict_proba(X).shape, search.decision_function(X).shape
    ((4000,), (4000, 2), (4000,))

    """

    @retired({"score": "pass scoring='auc' (or 'accuracy', 'log-loss'), as in scikit-learn"})
    def __init__(
        self,
        estimator: Any,
        grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]],
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        runs: str | RunLaw = "geometric",
        mean: float = 10.0,
        scoring: str = "accuracy",
        test_share: float = 0.2,
        adjacency: str = "replace-one",
        population: int | None = None,
        random_state: int | Randomness | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self._keep(locals())

    def fit(self, X: Any, y: Any) -> "PrivateSearch":
        """Search privately and return the search; one charge, before the first look.

        A schema that names persons with several rows is refused: no theorem covers it.

        Parameters
        ----------
        X : array_like or table
            What the estimator takes.
        y : array_like of shape (n,)
            The labels.

        %(fitted, refusals)

        """
        with self._all_or_nothing(X), warnings.catch_warnings():
            # Warnings of the runs would tell how many there are.
            warnings.simplefilter("ignore")
            won = self._won(X, y)
        self._publish(*won)
        return self

    def _won(self, X: Any, y: Any) -> tuple[Any, dict[str, Any], Permit, tuple[Any, ...]]:
        """Charge and search; return what was released, and what is to be said of it."""
        candidates, law, score, ledger, randomness = self._check_public()
        adjacency, y = ledger.adjacency, label_vector(y)
        least = 2 if adjacency.size_is_public else 1
        if y.ndim != 1 or len(y) < least:
            raise InvalidData(f"y must be one label for each row, and rows at least {least}.")
        self._check_data(candidates, score, X, y)
        train, test = divided(len(y), float(self.test_share), adjacency, randomness)
        X_train, y_train, X_test, y_test = taken(X, train), y[train], taken(X, test), y[test]
        budget = self._budget(
            lambda model: model._prepared(X_train, y_train), candidates, law, score
        )
        own = budget.own
        permit = ledger.charge(
            budget.plan, label="fit (PrivateSearch)",
            delta=float(self.delta), epsilon=float(self.epsilon), seeded=randomness.seeded,
            model=type(self.estimator).__name__,
        )  # fmt: skip

        def run(number: int, lent: LentLedger) -> tuple[float, Any]:
            model = self._candidate(candidates[number], own, lent)
            model.set_params(random_state=randomness)
            model.fit(X_train, y_train)
            scoring = lent.charge(
                budget.score, label="the score", epsilon=own.epsilon, delta=own.delta,
                seeded=randomness.seeded,
            )  # fmt: skip
            return score.noisy(model, X_test, y_test, own, Passage(scoring, randomness)), model

        number, model = best_run(permit, randomness, run)
        return model, candidates[number], permit, (law, score, len(candidates))

    def _check_data(
        self, candidates: list[dict[str, Any]], score: RunScore, X: Any, y: Any
    ) -> None:
        """Let everything that can be wrong with rows or labels be told before the charge.

        Each candidate looks at all rows: a run would else stumble over one of the test part, and
        an error there costs the whole search.
        """
        for each in candidates:
            model = self._candidate(each, self._whole)
            if self.population is not None and hasattr(model, "population"):
                model.population = self.population  # of all rows, not of the training part
            _of_records(model._prepared(X, y))
            known = getattr(model, "classes", None)
            score.check_classes(len(np.unique(y)) if known is None else len(known))

    def _publish(
        self, model: Any, chosen: dict[str, Any], permit: Permit,
        facts: tuple[RunLaw, RunScore, int],
    ) -> None:  # fmt: skip
        """Make the winner's guarantee that of the search, and forget the run's own budget.

        The winner is kept first, whatever fails later, and never with the guarantee of one run.
        """
        law, score, count = facts
        own = vars(model).pop("privacy_")
        self.__dict__.pop("privacy_", None)  # of an earlier search
        self.best_estimator_, self.best_params_ = model, dict(chosen)
        model.set_params(
            epsilon=self.epsilon, delta=self.delta, ledger=self.ledger, random_state=None
        )
        vars(model).pop("_least", None)
        told = (
            f"the {count} candidates of the grid, the law of the number of runs "
            f"({law.name}, mean {law.mean:g}) and the share {self.test_share:g} of test rows"
        )
        model.privacy_ = permit.guarantee(
            own.released, public=(*own.public, told),
            notes=(WHOLE_SEARCH, *(note for note in own.notes if note != ONE_FIT)),
            proofs=("SELECT-PROFILE", "PARALLEL-GROUPS", *score.proofs, *own.proofs),
        )  # fmt: skip
        self.classes_, self.n_features_in_ = model.classes_, model.n_features_in_
        self.privacy_ = model.privacy_

    def _check_public(self) -> tuple[list[dict[str, Any]], RunLaw, RunScore, Ledger, Randomness]:
        """Check every parameter before the data are looked at."""
        epsilon, delta = _validate.epsilon(self.epsilon), _validate.delta(self.delta)
        adjacency = Adjacency.of(self.adjacency)
        if not isinstance(self.estimator, PrivateEstimator):
            raise InvalidParameter("estimator must be a private classifier of noisette.")
        if isinstance(self.estimator, RegressorMixin):
            raise InvalidParameter(
                "estimator must be a classifier: a search has no score of numbers."
            )
        _validate.fraction("test_share", self.test_share)
        score = SCORES[_validate.choice("scoring", self.scoring, SCORES)]()
        if self.population is not None:
            _validate.integer("population", self.population)
        law = self.runs  # `Selected` refuses one that is not in LAWS
        if not isinstance(law, RunLaw):
            law = LAWS[_validate.choice("runs", law, LAWS)](_validate.real("mean", self.mean))
        candidates = _candidates(self.grid, self.estimator)
        for each in candidates:
            score.check(clone(self.estimator).set_params(**each))
        ledger = self._ledger_to_charge(epsilon, delta, adjacency)
        return candidates, law, score, ledger, as_randomness(self.random_state)

    @property
    def _whole(self) -> PublicBudget:
        """The budget; how many persons test plays no part in the noise of a score."""
        return PublicBudget(
            epsilon=float(self.epsilon), delta=float(self.delta),
            adjacency=Adjacency.of(self.adjacency), size=None,
        )  # fmt: skip

    def _candidate(
        self, parameters: dict[str, Any], budget: PublicBudget, ledger: Ledger | None = None
    ) -> Any:
        """Return an unfitted candidate with the budget of one run."""
        model = clone(self.estimator)
        ours = {
            "epsilon": budget.epsilon, "delta": budget.delta, "adjacency": self.adjacency,
            "random_state": None, "verbose": 0, "checkpoint": None,
        }  # fmt: skip
        if self.population is not None:
            ours["population"] = sizes(int(self.population), float(self.test_share))[0]
        known = model.get_params()
        model.set_params(**parameters, **{k: v for k, v in ours.items() if k in known})
        model.ledger = ledger
        if not budget.adjacency.size_is_public:
            model._least = 0  # proof: PARALLEL-GROUPS: a run on nobody has a law too
        return model

    def _budget(
        self, ask: Callable[[Any], Any], candidates: list[dict[str, Any]], law: RunLaw,
        score: RunScore,
    ) -> RunBudget:  # fmt: skip
        """Return the budget of one run; `ask` has a candidate prepare its plan, or show it."""
        return run_budget(
            lambda own: [_of_records(ask(self._candidate(each, own))) for each in candidates],
            score.plan, law, self._whole,
        )  # fmt: skip

    def plan(self, n: int, d: int | None = None) -> Forecast:
        """Return what ``fit`` on n rows would charge, from public facts alone.

        Parameters
        ----------
        n : int
            The number of records, or a guess of it.
        d : int, optional
            The number of features, where the estimator's own ``plan`` asks for it.

        %(forecast)

        """
        candidates, law, score, ledger, _ = self._check_public()
        train = sizes(_validate.integer("n", n, least=2), float(self.test_share))[0]
        asked = (train,) if d is None else (train, _validate.integer("d", d))
        adjacency, delta = ledger.adjacency, float(self.delta)
        budget = self._budget(lambda model: model.plan(*asked), candidates, law, score)
        own = budget.own
        shown = [self._candidate(each, own).plan(*asked) for each in candidates]
        return Forecast(
            algorithm="search", plan=budget.plan, delta=delta, adjacency=str(adjacency),
            epsilon=accounting.epsilon(budget.plan, delta=delta, adjacency=adjacency),
            weight_noise=None, typical_weight=math.nan,
            memory=max(each.memory for each in shown),
            seconds=law.mean * max(each.seconds for each in shown),
            notes=(
                f"{len(candidates)} candidates, {law.mean:g} runs on average.",
                f"Every run has epsilon = {own.epsilon:.4g}, delta = {own.delta:g}.",
            ),
        )  # fmt: skip

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the labels that the best model gives.

        %(to search)

        Returns
        -------
        ndarray of shape (n,)
            One label for each row.

        """
        return np.asarray(self._best().predict(X))

    @_offers("predict_proba")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probabilities that the best model gives.

        %(to search)

        %(columns)

        """
        return np.asarray(self._best().predict_proba(X))

    @_offers("decision_function")  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the scores that the best model gives.

        %(to search)

        Returns
        -------
        ndarray of shape (n,) or (n, K)
            One score for two classes, else one for each class.

        """
        return np.asarray(self._best().decision_function(X))

    def _best(self) -> Any:
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_


def _of_records(prepared: Any) -> Plan:
    """Return the plan, prepared from data or shown without them; refuse one for persons."""
    if getattr(prepared, "public", prepared).unit not in ("record", "row"):
        raise Unproven(_NO_PERSONS)
    plan: Plan = prepared.plan
    return plan


def _candidates(grid: Any, estimator: Any) -> list[dict[str, Any]]:
    """Return the candidates, each a dictionary of parameters."""
    try:
        found = [dict(each) for each in ParameterGrid(grid)]
    except (TypeError, ValueError):
        raise InvalidParameter(
            "grid must be a dictionary of lists of values, or a list of such dictionaries."
        ) from None
    known = estimator.get_params()
    for name in {name for each in found for name in each}:
        if name in _OURS:
            raise InvalidParameter(f"{name!r} belongs to the search; leave it out of the grid.")
        if name not in known:
            raise InvalidParameter(
                f"{type(estimator).__name__} has no parameter {name!r}, which the grid names."
            )
    if not found:
        raise InvalidParameter("grid must have at least one candidate.")
    return found
