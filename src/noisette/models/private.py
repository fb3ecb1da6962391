"""What every private estimator owes its caller: one ledger, never copied, and all or nothing."""

import copy
import math
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from noisette._scikit import BaseEstimator
from noisette.core.adjacency import UNITS, Adjacency, require_same
from noisette.core.guarantee import ONE_FIT, TAKEN_AS_GIVEN, Guarantee
from noisette.core.ledger import Ledger
from noisette.core.permit import Permit
from noisette.core.plans import Plan
from noisette.core.randomness import Randomness
from noisette.core.refusals import stated
from noisette.errors import InvalidParameter, warn_of_privacy
from noisette.fitting.algorithms.algorithm import Prepared
from noisette.fitting.units import RECORDS, Unit
from noisette.models.inputs import MISSING_AS_ZERO
from noisette.models.paragraphs import fill

Method = TypeVar("Method", bound=Callable[..., Any])
_LEFT_BEHIND = "left behind when the estimator was pickled"

# Beside the estimators, so that neither attributes nor files show it, and weak: nothing is kept.
_KIN: weakref.WeakKeyDictionary[Any, list[int]] = weakref.WeakKeyDictionary()
"""How many fits without a ledger an estimator and all its clones have had together."""
_FITTED: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
"""The very object that an estimator was fitted on."""


def retired(told: Mapping[str, str]) -> Callable[[Method], Method]:
    """Let a constructor or ``set_params`` say what stands in the place of a name it once took."""

    def decorated(method: Method) -> Method:
        @wraps(method)
        def checked(self: Any, *given: Any, **named: Any) -> Any:
            for name in told.keys() & named.keys():
                raise InvalidParameter(f"{name} is no parameter; {told[name]}.")
            return method(self, *given, **named)

        return cast("Method", checked)

    return decorated


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """A scikit-learn estimator with the parameter ``ledger``."""

    ledger: Ledger | None
    _released: str
    _refuses: tuple[str, ...] = ("entries",)
    """What in the rows makes a fit refuse: ids of `noisette.core.refusals.REFUSALS`."""
    _least: int = 1
    """Rows that a fit asks for where their number is private; a search sets 0: nobody may train."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        fill(cls)

    def _keep(self, given: dict[str, Any]) -> None:
        """Set the constructor's parameters, its ``locals()``, as attributes of the same names."""
        self.__dict__.update({k: v for k, v in given.items() if k not in ("self", "__class__")})

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    @contextmanager
    def _all_or_nothing(self, X: Any = None, *, look: bool = False) -> Iterator[None]:
        """Leave the estimator as it was if what runs inside fails, or always after a `look`.

        X is what is fitted. NumPy says nothing about overflow or underflow here, whatever the
        caller's `np.seterr`: a warning, or an error, would reveal something about the rows.
        """
        fits = None if look else _KIN.get(self)
        watched = isinstance(getattr(self, "random_state", None), Randomness)
        if fits is not None and self.ledger is None and not watched:
            fits[0] += 1
            if fits[0] > 1:  # clones without a ledger are not added up by anybody
                warn_of_privacy("clones", 4)
        before, kept = dict(self.__dict__), False
        try:
            with np.errstate(all="ignore"):
                yield
            kept = not look
        finally:
            if not kept:
                self.__dict__.clear()
                self.__dict__.update(before)
        if kept:
            _FITTED.pop(self, None)
            with suppress(TypeError):  # a list or a dictionary has no weak reference
                _FITTED[self] = weakref.ref(X)

    def _prepared(self, X: Any, y: Any) -> Prepared:
        """Return what ``fit`` would charge for these data; refuse what that refuses before it.

        It charges nothing, and its plan is as public as what ``fit`` treats as public.
        """
        raise InvalidParameter(f"{type(self).__name__} cannot be a run of a search.")

    def _ledger_to_charge(self, epsilon: float, delta: float, adjacency: Adjacency) -> Ledger:
        """Return the caller's ledger, or a new one of (epsilon, delta) where none was given."""
        if self.ledger is None:
            return Ledger(epsilon, delta, adjacency=adjacency)
        if not isinstance(self.ledger, Ledger):
            raise InvalidParameter(
                "ledger must be a Ledger or None; a pickled estimator leaves its ledger behind "
                "unless that is in a file, so set_params(ledger=...) first."
            )
        require_same(self.ledger.adjacency, "the ledger", adjacency, "the estimator")
        return self.ledger

    def _stated(
        self, permit: Permit, *, public: tuple[str, ...], notes: tuple[str, ...],
        proofs: tuple[str, ...], unit: Unit = RECORDS, weighed: bool = False,
    ) -> Guarantee:  # fmt: skip
        """Return the guarantee of one fit, with what every fit leaves uncovered."""
        refused, notes = self._refused(unit, weighed=weighed), (*unit.notes, *notes)
        if getattr(self, "missing", None) == "zero":
            notes, proofs = (MISSING_AS_ZERO, *notes), (*proofs, "ROW-LOCAL")
        return permit.guarantee(
            self._released, public=public,
            notes=(TAKEN_AS_GIVEN, ONE_FIT, *refused, *notes), proofs=proofs,
            max_rows=unit.max_rows,
        )  # fmt: skip

    def _refused(self, unit: Unit, *, weighed: bool) -> tuple[str, ...]:
        """Return the sentence on refusals, as far as the parameters leave them possible."""
        found = [*self._refuses, *["weights"] * weighed, *unit.refusals]
        if getattr(self, "missing", None) == "zero":
            found = ["infinite" if each == "entries" else each for each in found]
        if getattr(self, "_stream", None) is not None:
            found.append("twice")
        elif self._reads_labels:
            found = ["label set" if each == "labels" else each for each in found]
        return stated(found)

    @property
    def _reads_labels(self) -> bool:
        """Whether the set of labels is read off y."""
        return getattr(self, "classes", True) is None

    def __sklearn_clone__(self) -> Any:
        """Return an unfitted copy that charges the *same* ledger: a copied budget is no budget."""
        bare = copy.copy(self)
        bare.ledger = None
        twin = BaseEstimator.__sklearn_clone__(bare)
        twin.ledger = self.ledger
        _KIN[twin] = _KIN.setdefault(self, [0])
        return twin

    def __getstate__(self) -> dict[str, Any]:
        """Leave a ledger in memory behind, and ``fit`` refuses until one is set again.

        One in a file goes along: it is made to be shared, and checks that it is the same file.
        """
        state = dict(super().__getstate__())
        ledger = state.get("ledger")
        if ledger is not None and not getattr(ledger, "lasting", False):
            state["ledger"] = _LEFT_BEHIND
        return state


class Scored:
    """`score` of scikit-learn, which says once if it is asked about the rows that were fitted."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return scikit-learn's exact score, which is covered by no guarantee.

        Parameters
        ----------
        X : array_like or table
            Rows. The very object that was fitted is known again; a copy or a part of it is not.
        y : array_like of shape (n,)
            The truth.
        sample_weight : array_like of shape (n,), optional
            Weights of the rows.

        Returns
        -------
        float
            The accuracy of a classifier, R squared of a regressor.

        Examples
        --------
        >>> import numpy as np
        >>> from noisette import LogisticRegression
        >>> X = np.linspace(-1.0, 1.0, 2000)[:, None]
        >>> model = LogisticRegression(1.0, norm_bound=1.0).fit(X, X[:, 0] > 0.0)
        >>> others = np.linspace(-1.0, 1.0, 500)[:, None]
        >>> model.score(others, others[:, 0] > 0.0) > 0.8
        True

        """
        kept = _FITTED.get(self)
        if kept is not None and kept() is X:
            warn_of_privacy("score", 2)
        parent: Any = super()
        return float(parent.score(X, y, sample_weight))


@dataclass(frozen=True)
class Forecast:
    """The plan of one fit and what to expect of it, from public facts, before any data exist.

    Attributes
    ----------
    algorithm : str
        The algorithm or the step that would run.
    plan : Plan
        What would be charged.
    epsilon, delta : float
        The guarantee of that plan.
    adjacency : str
        Whose neighbour it is about.
    weight_noise : float or None
        About the standard deviation that privacy adds to each weight (of a table: for features of
        variance 1); None where it depends on the data.
    typical_weight : float
        About the size of a weight that matters, for rows that fill the norm bound.
    memory, seconds : float or None
        Bytes, and time on one core, about; a transformer states none.
    notes : tuple of str
        What was chosen, and why.
    unit : str
        Whose data would be protected together: "record" or "person".
    expected : str
        What the noise does to what a transformer releases.
    warning : str
        A sentence if public facts say that the model can hardly learn, else nothing.
    rows, features : int or None
        Of a table: how many rows (or persons) there are, and how many features, about.
    steps : tuple of StepCost
        Of a table: the steps in order, the model last.
    columns : tuple of ColumnForecast
        Of a table: what becomes of each column.
    lost : float or None
        Of a table: about the part of what there is to learn that noise and shrinkage take.

    """

    algorithm: str
    plan: Plan
    epsilon: float
    delta: float
    adjacency: str
    weight_noise: float | None = None
    typical_weight: float = math.nan
    memory: int | None = None
    seconds: float | None = None
    notes: tuple[str, ...] = ()
    unit: str = "record"
    expected: str = ""
    warning: str = ""
    rows: int | None = None
    features: int | None = None
    steps: tuple[Any, ...] = ()
    columns: tuple[Any, ...] = ()
    lost: float | None = None

    def __str__(self) -> str:
        name, unit = "A model of a raw table" if self.columns else self.algorithm, UNITS[self.unit]
        lines = [
            f"{name}: epsilon = {self.epsilon:.4g}, delta = {self.delta:g} "
            f"({self.adjacency}{', persons' * unit.grouped})."
        ]
        if self.lost is not None:
            lines += [
                f"{self.rows:,} {unit.counted}, about {self.features:,} features.",
                *map(str, self.steps),
                f"About {100.0 * self.lost:.0f} % of what there is to learn is lost to the noise.",
            ]
        elif self.expected:
            lines.append(self.expected)
        elif self.weight_noise is None:
            lines.append("The noise in each weight depends on the data.")
        else:
            lines.append(
                f"Each weight gets noise of about {self.weight_noise:.2g}; "
                f"a typical weight is about {self.typical_weight:.2g}."
            )
        if self.memory is not None:
            lines.append(
                f"About {self.memory / 1e6:,.0f} MB of memory and {self.seconds:.2g} s on one core."
            )
        # a model on arrays has its warning among its notes
        return "\n".join(dict.fromkeys(filter(None, [*lines, *self.notes, self.warning])))
