"""`PrivateClassifier`: a scikit-learn estimator around a PyTorch module."""

import copy
import inspect
import math
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from noisette import _validate
from noisette._typing import Floats, Indices, Labels
from noisette.core import accounting
from noisette.core.adjacency import Adjacency
from noisette.core.guarantee import ONE_FIT, TAKEN_AS_GIVEN
from noisette.core.ledger import Ledger
from noisette.core.plans import Plan
from noisette.core.randomness import Randomness, as_randomness
from noisette.core.sampling import SAMPLERS
from noisette.errors import InvalidData, InvalidParameter, NoisetteError
from noisette.fitting.algorithms import class_weight as weighing
from noisette.fitting.algorithms.network import NetworkSteps, PreparedNetwork, PublicNetwork
from noisette.fitting.units import Unit
from noisette.models import inputs
from noisette.models.private import Forecast, PrivateEstimator, Scored
from noisette.nn import arrays
from noisette.nn.arrays import TensorRecords
from noisette.nn.batches import shown
from noisette.nn.clipping import as_clipping
from noisette.nn.gradients import check_module
from noisette.nn.starting import Start, begin, public_size
from noisette.nn.training import PrivateTraining

Optimizer = Callable[[Any], torch.optim.Optimizer]

PASSED_ON = {
    name: inspect.signature(PrivateTraining).parameters[name].default
    for name in (
        "averaging", "band", "checkpoint", "clip_norm", "clipping", "copies", "micro_batch",
    )
}  # fmt: skip
"""Parameters of `PrivateTraining` that an estimator takes as well, and what they are by default."""

_AT_ONCE = 4096  # rows in a forward pass of prediction
_MOST_LEVELS = 32
_SECONDS = 2e-9  # for a weight and a record, forward and back, on one core of 2026
_COPIES = 8  # of the weights: module, gradients, noise, the optimizer's own


class PrivateClassifier(Scored, ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """Train a network privately.

    Parameters
    ----------
    module : torch.nn.Module or callable
        A module that maps a batch of rows to one score per class, or a function without
        arguments that makes one. A module is copied, never changed; one that cannot be trained
        privately (see `check_module`) is refused.
    epsilon, delta : float, default 3.0 and 1e-5
        The guarantee; delta must be above 0 and below 1/n.
    epochs : int, default 20
        How often every record is used on average.
    batch_size : int or "auto", default "auto"
        The expected batch; ``"auto"`` is n/60 within [64, 4096].
    learning_rate, momentum : float, default 0.5 and 0.9
        Of SGD, used where `optimizer` is None.
    optimizer : callable, optional
        A function of the parameters, e.g. ``lambda p: torch.optim.Adam(p, 1e-3)``.
    sampling : str, default "poisson"
        A name in `noisette.sampling.SAMPLERS`.
    augment : callable, optional
        ``augment(rows)`` returns a random variant of a tensor of rows, by operations of torch
        on each row alone; with ``copies=K`` a record's gradient is the mean over K of them, at no
        cost in privacy.
    %(adjacency, classes)
    class_weight : dict or "balanced", optional
        Public weights by label that multiply the loss, or "balanced": 1 / (how common a class
        is), from noisy counts that are bought with 5 % of epsilon. Only their ratio matters.
        Clipping comes after them, so they act on gradients shorter than the clip norm.
    %(population, ledger, random_state)
    verbose : int, default 0
        With 1, a progress bar with public facts is shown.
    **training : dict
        Passed on to `PrivateTraining`, which explains them: ``averaging``, ``band``,
        ``checkpoint``, ``clip_norm``, ``clipping``, ``copies``, ``micro_batch``.

    Attributes
    ----------
    module_ : torch.nn.Module
        The trained network, in evaluation mode.
    classes_ : ndarray of shape (K,)
        The sorted labels.
    n_features_in_ : int
        How many numbers one record has.
    privacy_ : Guarantee
        What is promised about the weights of ``module_``.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from torch import nn
    >>> from noisette.nn import PrivateClassifier
    >>> X, y = make_classification(500, 5, random_state=0)
    >>> make = lambda: nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2))
    >>> model = PrivateClassifier(make, epsilon=3.0, delta=1e-4, epochs=2, classes=[0, 1])
    >>> model.plan(500).epsilon <= 3.0
    True
    >>> _ = model.fit(X, y)
    >>> model.privacy_.epsilon, model.privacy_.delta
    (3.0, 0.0001)
    >>> model.predict(X).shape, model.predict_proba(X).shape, model.decision_function(X).shape
    ((500,), (500, 2), (500, 2))

    """

    _factors: Tensor | None = None

    def __init__(
        self,
        module: nn.Module | Callable[[], nn.Module],
        epsilon: float = 3.0,
        delta: float = 1e-5,
        *,
        epochs: int = 20,
        batch_size: int | str = "auto",
        learning_rate: float = 0.5,
        momentum: float = 0.9,
        optimizer: Optimizer | None = None,
        sampling: str = "poisson",
        augment: Callable[[Tensor], Tensor] | None = None,
        adjacency: str = "replace-one",
        classes: Labels | None = None,
        class_weight: Any = None,
        population: int | None = None,
        ledger: Ledger | None = None,
        random_state: int | Randomness | None = None,
        verbose: int = 0,
        **training: Any,
    ) -> None:
        unknown = training.keys() - PASSED_ON.keys()
        if unknown:
            raise TypeError(f"PrivateClassifier has no parameter {min(unknown)!r}.")
        given = locals() | PASSED_ON | training
        del given["training"], given["unknown"]
        self._keep(given)

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted([*super()._get_param_names(), *PASSED_ON])

    # --- fitting -------------------------------------------------------------------------------

    def fit(
        self, X: Any, y: Any, sample_epsilon: Any = None, persons: Any = None
    ) -> "PrivateClassifier":
        """Train privately and return the estimator.

        Parameters
        ----------
        X : array_like, torch.Tensor or DataFrame
            The n records, counted by the first axis.
        y : array_like of shape (n,)
            The labels.
        sample_epsilon : array_like of shape (n,), optional
            Values in (0, ``epsilon``], everybody's own epsilon, public by declaration, at most
            32 different ones; people with a smaller one join fewer batches. Poisson sampling
            only. With `persons`, the same in all rows of a person.
        persons : array_like of shape (n,) or Persons, optional
            Whose row each row is, by any identifier. Then the guarantee is about persons with all
            their rows, batches are drawn among persons, and the number of rows is private.

        %(fitted, refusals)

        """
        with self._all_or_nothing(X):
            self._fit(X, y, sample_epsilon, persons)
        return self

    def plan(self, n: int, d: int | None = None, *, persons: bool = False) -> Forecast:
        """Return what ``fit`` on n records would charge, from public facts alone.

        Parameters
        ----------
        n : int
            The number of records (of persons, where ``fit`` gets them), or a guess of it.
        d : int, optional
            How many numbers a record has, for the memory to expect.
        persons : bool, default False
            Whether ``fit`` will get persons; the guarantee is then about all rows of one.

        %(forecast)

        """
        _, adjacency, _ = self._check_public()
        n = _validate.integer("n", n)
        unit = Unit.planned(n, persons=persons, max_rows=None)
        entries = n * (1 if d is None else _validate.integer("d", d))
        size = public_size(unit.size(adjacency, self.population))
        with torch.random.fork_rng(devices=[]):  # a function may draw starting weights
            module = arrays.fresh(self.module)
        weights = sum(p.numel() for p in module.parameters() if p.requires_grad)
        algorithm, public = NetworkSteps(), self._describe(size, adjacency)
        prepared = algorithm.prepare(replace(public, plan=self._planned(public)))
        schedule = prepared.schedule
        spread = schedule.mechanism.noise_multiplier * public.clip_norm / schedule.normaliser(size)
        return Forecast(
            algorithm=algorithm.name, plan=prepared.plan,
            epsilon=accounting.epsilon(prepared.plan, delta=public.delta, adjacency=adjacency),
            delta=public.delta, adjacency=str(adjacency), unit=unit.word,
            weight_noise=None, typical_weight=math.nan,
            memory=int(4 * entries + 4 * _COPIES * weights + 300e6),
            seconds=_SECONDS * weights * n * algorithm.passes(prepared),
            notes=(
                f"In each of {schedule.steps} steps, every entry of the mean gradient gets noise "
                f"of about {spread:.2g}; the gradient of one record has norm at most "
                f"{public.clip_norm:g}.",
                "Time and memory are for layers that use each weight once for each record.",
                *(weighing.BALANCED_NOTE,) * self._even,
            ),
        )  # fmt: skip

    def _prepared(self, X: Any, y: Any) -> PreparedNetwork:
        with self._all_or_nothing(look=True), torch.random.fork_rng(devices=[]):
            asked = self._asked(X, y, None, None)[0]
            return begin(SimpleNamespace(record_ids=None, **asked), Start.claim).prepared

    def _fit(self, X: Any, y: Any, sample_epsilon: Any, persons: Any) -> None:
        with torch.random.fork_rng(devices=[]):
            asked, records, classes, unit, shape = self._asked(X, y, sample_epsilon, persons)
            training = PrivateTraining(**asked)
            if self._even:  # the counts that were charged: a weight in (0, 1] for each class
                start, numbers = training._start, records._labels.numpy()
                assert start.passage is not None  # several ranks were refused
                # proof: CLASS-WEIGHT
                ahead = start.passage.after(-start.run.first)
                present = None if start.weights is None else start.weights.numpy()
                factors = weighing.class_factors(ahead, numbers, len(classes), present)
                self._factors = torch.from_numpy(factors).float()
            seen = self.verbose and training._group.first
            for _ in shown(training.batches(), seen, training.steps, training.steps_done):
                training.step(self._losses, records)
            if self.averaging is not None:
                training.load_average()
            self._factors = None
        self.module_, self.classes_ = asked["module"].eval(), classes
        self._dtype, self._shape = records._rows.dtype, shape
        self.n_features_in_ = int(np.prod(shape))
        public = asked["ledger"].adjacency.size_is_public
        known = f"the number of {unit.word}s" if public else "the stand-in for it"
        source = "as given" if self.classes is not None else "read off y and treated as public"
        made = training.guarantee(
            public=(f"{known}, {asked['population']}",
                    f"the set of labels ({', '.join(map(str, classes[:20]))}), {source}"),
            notes=(*(weighing.BALANCED_NOTE,) * self._even, TAKEN_AS_GIVEN, ONE_FIT,
                   *self._refused(unit, weighed=False)),
        )  # fmt: skip
        more = (*weighing.weight_proofs(self.class_weight), *("PLAN-BEFORE-LOOK",) * self._even)
        self.privacy_ = replace(made, proofs=(*made.proofs, "ROW-LOCAL", *more))

    def _asked(
        self, X: Any, y: Any, sample_epsilon: Any, persons: Any
    ) -> tuple[dict[str, Any], TensorRecords, NDArray[Any], Unit, tuple[int, ...]]:
        """Return what a `PrivateTraining` of these data is asked, before anything is charged."""
        ledger, adjacency, randomness = self._check_public()
        array, labels = arrays.as_rows(X, y, self._least)
        classes = inputs.sorted_classes(self.classes, labels)
        targets = torch.from_numpy(inputs.label_numbers(classes, labels))
        unit = Unit.of(persons, len(array))
        size = public_size(unit.size(adjacency, self.population))
        levels, groups = self._levels(sample_epsilon, len(array), unit)
        plan = self._planned(self._describe(size, adjacency, levels))
        if randomness.seeded:  # starting weights; all other chance is ours
            torch.manual_seed(randomness.seed_for_others())
        module, dtype = arrays.fresh_module(self.module, array, len(classes))
        rows = arrays.as_tensor(array, dtype)
        factors = weighing.public_weights(self.class_weight, classes)
        self._factors = None if factors is None else torch.from_numpy(factors).float()
        self._try(module, rows, len(classes))
        own = {name: getattr(self, name) for name in PASSED_ON}
        own["clipping"] = copy.deepcopy(as_clipping(self.clipping, self.clip_norm))
        asked = own | {
            "module": module, "optimizer": self._optimizer(module), "plan": plan,
            "size": unit.count, "delta": float(self.delta), "epsilon": float(self.epsilon),
            "population": size, "persons": persons, "groups": groups, "ledger": ledger,
            "random_state": randomness, "label": f"{type(self).__name__}.fit",
        }  # fmt: skip
        return asked, TensorRecords(rows, targets), classes, unit, array.shape[1:]

    @property
    def _refuses(self) -> tuple[str, ...]:  # type: ignore[override]
        return "entries" if self._dtype is torch.float32 else "tokens", "labels"

    def _losses(self, module: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        rows, labels = batch
        if self.augment is not None:
            # Here, and not on the whole table: whatever runs in the losses runs for each record
            # by itself.
            variants = [self.augment(rows) for _ in range(self.copies)]
            if any(not isinstance(x, Tensor) or x.shape[:1] != rows.shape[:1] for x in variants):
                raise InvalidParameter(
                    "augment must return a tensor with one row for each row that it is given."
                )
            rows = torch.stack(variants, dim=1).flatten(0, 1)
            labels = labels.unsqueeze(1).expand(-1, self.copies).flatten()
        found = nn.functional.cross_entropy(module(rows), labels, reduction="none")
        return found if self._factors is None else found * self._factors[labels]

    def _try(self, module: nn.Module, rows: Tensor, classes: int) -> None:
        """Let the module and `augment` fail on invented rows, before anything is charged."""
        batch = arrays.made_up(rows), torch.arange(4) % classes
        try:
            check_module(module, self._losses, batch, 4, copies=self.copies)
            if rows.dtype is not torch.int64:  # tokens cannot be invented
                arrays.same_alone(module, batch[0])
        except NoisetteError:
            raise
        except Exception as error:  # whatever the code of the user raises
            if rows.dtype is torch.int64:  # real tokens were tried, and the error may quote them
                raise InvalidData(
                    "the module (or augment) does not take these tokens; is one out of its range?"
                ) from None
            raise InvalidParameter(
                "the module (or augment) does not take rows like these, tried with invented ones: "
                f"{error}"
            ) from None

    def _check_public(self) -> tuple[Ledger, Adjacency, Randomness]:
        """Check every constructor parameter before the data are looked at."""
        epsilon = _validate.epsilon(self.epsilon)
        delta = _validate.positive("delta (for networks)", _validate.delta(self.delta))
        adjacency = Adjacency.of(self.adjacency)
        for name in ("epochs", "copies", *(("batch_size",) if self.batch_size != "auto" else ())):
            _validate.integer(name, getattr(self, name))
        _validate.positive("learning_rate", self.learning_rate)
        _validate.non_negative("momentum", self.momentum)
        _validate.choice("sampling", self.sampling, SAMPLERS)
        weighing.check_class_weight(self.class_weight)
        if self.copies > 1 and self.augment is None:
            raise InvalidParameter(f"copies={self.copies} needs augment=..., which makes them.")
        as_clipping(self.clipping, self.clip_norm)
        randomness = as_randomness(self.random_state)
        return self._ledger_to_charge(epsilon, delta, adjacency), adjacency, randomness

    def _describe(
        self, size: int, adjacency: Adjacency, levels: tuple[tuple[float, int], ...] = ()
    ) -> PublicNetwork:
        """Return the public facts of a fit."""
        rule = as_clipping(self.clipping, self.clip_norm)
        batch = max(64, min(4096, size // 60)) if self.batch_size == "auto" else self.batch_size
        return PublicNetwork(
            epsilon=float(self.epsilon), delta=float(self.delta), adjacency=adjacency, size=size,
            batch_size=min(size, int(batch)), epochs=self.epochs, sampling=self.sampling,
            levels=levels, clip_norm=rule.clip_norm, fixed=rule.fixed, band=self.band,
        )  # fmt: skip

    @property
    def _even(self) -> bool:
        return isinstance(self.class_weight, str) and self.class_weight == weighing.BALANCED

    def _planned(self, public: PublicNetwork) -> Plan:
        """Return what a fit charges."""
        if self._even:
            if public.levels:
                raise InvalidParameter("pass sample_epsilon or class_weight='balanced', not both.")
            # proof: CLASS-WEIGHT
            counts = weighing.counting(
                public.epsilon, weighing.for_model(public).epsilon, public.adjacency
            )
            public = replace(public, before=counts)
        return NetworkSteps().prepare(public).plan

    def _levels(
        self, sample_epsilon: Any, n: int, unit: Unit
    ) -> tuple[tuple[tuple[float, int], ...], Indices | None]:
        """Return the levels with their numbers of people, and the group of every row."""
        if sample_epsilon is None:
            return (), None
        if self.sampling != "poisson":
            raise InvalidParameter("sample_epsilon is for sampling='poisson'.")
        values = inputs.vector("sample_epsilon", sample_epsilon, n, 0.0, self.epsilon, "epsilon")
        known, groups = np.unique(values, return_inverse=True)
        counts = np.bincount(unit.one_each("sample_epsilon", groups))
        if known[0] <= 0.0 or len(known) > _MOST_LEVELS:
            raise InvalidData(
                f"sample_epsilon must be above 0 and have at most {_MOST_LEVELS} different values."
            )
        levels = tuple(zip(known.tolist(), counts.tolist(), strict=True))
        return levels, groups if len(levels) > 1 else None

    def _optimizer(self, module: nn.Module) -> torch.optim.Optimizer:
        parameters = [p for p in module.parameters() if p.requires_grad]
        if self.optimizer is None:
            return torch.optim.SGD(parameters, lr=self.learning_rate, momentum=self.momentum)
        made = self.optimizer(parameters) if callable(self.optimizer) else None
        if not isinstance(made, torch.optim.Optimizer):
            raise InvalidParameter(
                "optimizer must be a function of the parameters that returns a torch optimizer, "
                "e.g. lambda p: torch.optim.Adam(p, 1e-3)."
            )
        return made

    # --- using the model -----------------------------------------------------------------------

    def decision_function(self, X: Any) -> Floats:
        """Return the scores of every record.

        Parameters
        ----------
        X : array_like, torch.Tensor or DataFrame
            Records like those of ``fit``.

        Returns
        -------
        ndarray of shape (n, K)
            One score for each of ``classes_``.

        Raises
        ------
        InvalidData
            If the records have another shape than in ``fit``.

        """
        check_is_fitted(self)
        array, _ = arrays.as_rows(X, None)
        if array.shape[1:] != self._shape:
            raise InvalidData(
                f"X has records of shape {array.shape[1:]}, but fit saw {self._shape}: "
                f"{self.n_features_in_} numbers each."
            )
        with torch.no_grad():
            parts = [
                self.module_(arrays.as_tensor(array[start : start + _AT_ONCE], self._dtype))
                for start in range(0, len(array), _AT_ONCE)
            ]
        return torch.cat(parts).double().numpy()

    def predict_proba(self, X: Any) -> Floats:
        """Return the softmax of the scores.

        Parameters
        ----------
        X : array_like, torch.Tensor or DataFrame
            Records like those of ``fit``.

        Returns
        -------
        ndarray of shape (n, K)
            One probability for each of ``classes_``.

        """
        return torch.softmax(torch.from_numpy(self.decision_function(X)), dim=1).numpy()

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label with the highest score for every record.

        Parameters
        ----------
        X : array_like, torch.Tensor or DataFrame
            Records like those of ``fit``.

        Returns
        -------
        ndarray of shape (n,)
            Labels out of ``classes_``.

        """
        scores = self.decision_function(X)  # first, since it tells that fit is missing
        return np.asarray(self.classes_[scores.argmax(axis=1)])

    def __sklearn_clone__(self) -> Any:
        """Refuse where the copy would go on with the run of the original."""
        if self.checkpoint is not None:
            raise InvalidParameter(
                "an estimator with a checkpoint cannot be cloned, since all clones would go on "
                "with one run; set checkpoint=None for cross validation and searches."
            )
        return super().__sklearn_clone__()
