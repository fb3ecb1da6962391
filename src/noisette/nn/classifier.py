"""`PrivateClassifier`: a scikit-learn estimator around a PyTorch module."""

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from noisette import _validate
from noisette.adjacency import Adjacency
from noisette.errors import InvalidData, InvalidParameter, NoisetteError
from noisette.estimators import inputs
from noisette.estimators.private import PrivateEstimator
from noisette.guarantee import ONE_FIT, TAKEN_AS_GIVEN
from noisette.nn.arrays import Records, as_rows, as_tensor, made_up
from noisette.nn.clipping import Clipping, as_clipping
from noisette.nn.gradients import check_module
from noisette.nn.planning import make_level_plan, make_plan
from noisette.nn.training import PrivateTraining
from noisette.nn.trial import fresh_module, same_alone
from noisette.plans import Plan
from noisette.privacy import Ledger
from noisette.randomness import Randomness, as_randomness
from noisette.sampling import SAMPLERS

__all__ = ["PrivateClassifier"]

Optimizer = Callable[[Any], torch.optim.Optimizer]

_AT_ONCE = 4096  # rows in a forward pass of prediction
_MOST_LEVELS = 32


class PrivateClassifier(ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """Train a network privately.

    Parameters
    ----------
    module : an ``nn.Module`` that maps a batch of rows to one score per class, or a function
        without arguments that makes one. A module is copied, never changed.
    epsilon, delta : the guarantee; delta must be above 0 and below 1/n.
    epochs : how often every record is used on average.
    batch_size : the expected batch; ``"auto"`` is n/60 within [64, 4096].
    learning_rate, momentum : of SGD, used where `optimizer` is None.
    optimizer : a function of the parameters, e.g. ``lambda p: torch.optim.Adam(p, 1e-3)``.
    sampling : a name in `noisette.sampling.SAMPLERS`.
    clipping, clip_norm, band, averaging, micro_batch : see `PrivateTraining`.
    augment, copies : ``augment(rows)`` returns a random variant of a tensor of rows, by operations
        of torch on each row alone; each record's gradient is the mean over `copies` variants, at
        no cost in privacy.
    adjacency : who is a neighbour: ``"replace-one"``, ``"zero-out"`` or ``"add-remove"``.
    classes : all labels; None reads them off y and says so in the guarantee.
    population : public stand-in for n under add-remove.
    ledger : what is charged; None opens one for this fit.
    checkpoint : file from which a killed ``fit`` is resumed; needs a ledger in a file.
    random_state : None for cryptographic noise; a number makes an experiment repeatable and the
        guarantee void.
    verbose : 1 shows a progress bar with public facts.

    """

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
        clipping: Clipping | str = "flat",
        clip_norm: float = 1.0,
        band: int | None = None,
        averaging: str | float | None = None,
        augment: Callable[[Tensor], Tensor] | None = None,
        copies: int = 1,
        micro_batch: int | None = None,
        adjacency: str = "replace-one",
        classes: Sequence[Any] | None = None,
        population: int | None = None,
        ledger: Ledger | None = None,
        checkpoint: str | Path | None = None,
        random_state: int | Randomness | None = None,
        verbose: int = 0,
    ) -> None:
        self.module = module
        self.epsilon = epsilon
        self.delta = delta
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.optimizer = optimizer
        self.sampling = sampling
        self.clipping = clipping
        self.clip_norm = clip_norm
        self.band = band
        self.averaging = averaging
        self.augment = augment
        self.copies = copies
        self.micro_batch = micro_batch
        self.adjacency = adjacency
        self.classes = classes
        self.population = population
        self.ledger = ledger
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.verbose = verbose

    # --- fitting -------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_epsilon: Any = None) -> "PrivateClassifier":
        """Train privately and return the estimator.

        Parameters
        ----------
        X : n records: an array or tensor whose first axis counts them, or a DataFrame.
        y : n labels.
        sample_epsilon : n values in (0, ``epsilon``], everybody's own epsilon, public by
            declaration, at most 32 different ones; people with a smaller one join fewer batches.
            Poisson sampling only.

        """
        with self._all_or_nothing():
            self._fit(X, y, sample_epsilon)
        return self

    def _fit(self, X: Any, y: Any, sample_epsilon: Any) -> None:
        ledger, adjacency, randomness = self._check_public()
        array, labels = as_rows(X, y)
        classes = inputs.sorted_classes(self.classes, labels)
        targets = torch.from_numpy(inputs.class_numbers(classes, labels))
        size = len(array) if adjacency.size_is_public else self._public_size()
        batch_size = self._batch(size)
        plan, groups = self._plan(size, batch_size, adjacency, sample_epsilon, len(array))
        with torch.random.fork_rng(devices=[]):
            if randomness.seeded:  # starting weights, dropout and augmentation; noise is ours
                torch.manual_seed(randomness.seed_for_others())
            module, dtype = fresh_module(self.module, array, len(classes))
            rows = as_tensor(array, dtype)
            self._try(module, rows, len(classes))
            training = PrivateTraining(
                module, self._optimizer(module), plan, size=len(rows), delta=float(self.delta),
                epsilon=float(self.epsilon), population=size,
                clipping=copy.deepcopy(as_clipping(self.clipping, self.clip_norm)),
                micro_batch=self.micro_batch, copies=self.copies, band=self.band, groups=groups,
                averaging=self.averaging, ledger=ledger, checkpoint=self.checkpoint,
                random_state=randomness, label=f"{type(self).__name__}.fit", verbose=self.verbose,
                observer=self._observer,
            )  # fmt: skip
            self._run(training, rows, targets)
        module.eval()
        self.module_, self.classes_, self._dtype = module, classes, dtype
        self._shape, self.n_features_in_ = array.shape[1:], int(np.prod(array.shape[1:]))
        self.privacy_ = training.guarantee(
            public=self._public(size, classes, adjacency), notes=(TAKEN_AS_GIVEN, ONE_FIT)
        )

    def _run(self, training: PrivateTraining, rows: Tensor, targets: Tensor) -> None:
        records = Records(rows, targets)
        for _ in training.batches():
            training.step(self._losses, records)
        if self.averaging is not None:
            training.load_average()

    def _losses(self, module: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        rows, labels = batch
        if self.augment is not None:
            # Here, and not on the whole table: whatever runs in the losses runs for each record
            # by itself.
            variants = [self._variant(rows) for _ in range(self.copies)]
            rows = torch.stack(variants, dim=1).flatten(0, 1)
            labels = labels.unsqueeze(1).expand(-1, self.copies).flatten()
        return nn.functional.cross_entropy(module(rows), labels, reduction="none")

    def _variant(self, rows: Tensor) -> Tensor:
        assert self.augment is not None
        found = self.augment(rows)
        if not isinstance(found, Tensor) or found.shape[:1] != rows.shape[:1]:
            raise InvalidParameter(
                "augment must return a tensor with one row for each row that it is given."
            )
        return found

    def _try(self, module: nn.Module, rows: Tensor, classes: int) -> None:
        """Let the module and `augment` fail on invented rows, before anything is charged."""
        batch = made_up(rows), torch.arange(4) % classes
        try:
            check_module(module, self._losses, batch, 4, copies=self.copies)
            if rows.dtype is not torch.int64:  # tokens cannot be invented
                same_alone(module, batch[0])
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
        _validate.integer("epochs", self.epochs)
        _validate.positive("learning_rate", self.learning_rate)
        _validate.non_negative("momentum", self.momentum)
        _validate.choice("sampling", self.sampling, SAMPLERS)
        _validate.integer("copies", self.copies)
        if self.copies > 1 and self.augment is None:
            raise InvalidParameter(f"copies={self.copies} needs augment=..., which makes them.")
        if self.batch_size != "auto":
            _validate.integer("batch_size", self.batch_size)
        as_clipping(self.clipping, self.clip_norm)
        randomness = as_randomness(self.random_state)
        return self._ledger_to_charge(epsilon, delta, adjacency), adjacency, randomness

    def _public_size(self) -> int:
        if self.population is None:
            raise InvalidParameter(
                "under add-remove the number of records is private; pass population=..., a public "
                "number to stand for it."
            )
        return _validate.integer("population", self.population)

    def _batch(self, size: int) -> int:
        if self.batch_size == "auto":
            return min(size, max(64, min(4096, size // 60)))
        return min(size, _validate.integer("batch_size", self.batch_size))

    def _plan(
        self, size: int, batch_size: int, adjacency: Adjacency, sample_epsilon: Any, n: int
    ) -> tuple[Plan, NDArray[np.intp] | None]:
        if sample_epsilon is None:
            plan = make_plan(
                size=size, epsilon=float(self.epsilon), delta=float(self.delta),
                batch_size=batch_size, epochs=self.epochs, sampling=self.sampling,
                adjacency=adjacency,
            )  # fmt: skip
            return plan, None
        if self.sampling != "poisson":
            raise InvalidParameter("sample_epsilon is for sampling='poisson'.")
        cap = float(self.epsilon)
        levels = inputs.vector("sample_epsilon", sample_epsilon, n, 0.0, cap, "epsilon")
        known, groups, counts = np.unique(levels, return_inverse=True, return_counts=True)
        if known[0] <= 0.0 or len(known) > _MOST_LEVELS:
            raise InvalidData(
                f"sample_epsilon must be above 0 and have at most {_MOST_LEVELS} different values."
            )
        steps = self.epochs * -(-size // batch_size)
        pairs = [(float(e), int(c)) for e, c in zip(known, counts, strict=True)]
        plan = make_level_plan(
            pairs, delta=float(self.delta), batch_size=batch_size, steps=steps, adjacency=adjacency
        )
        return (plan, groups) if len(pairs) > 1 else (plan.plans[0].under(adjacency), None)

    def _optimizer(self, module: nn.Module) -> torch.optim.Optimizer:
        parameters = [p for p in module.parameters() if p.requires_grad]
        if not parameters:
            raise InvalidParameter("the module has no parameter to train.")
        if self.optimizer is not None:
            made = self.optimizer(parameters) if callable(self.optimizer) else None
            if not isinstance(made, torch.optim.Optimizer):
                raise InvalidParameter(
                    "optimizer must be a function of the parameters that returns a torch "
                    "optimizer, e.g. lambda p: torch.optim.Adam(p, 1e-3)."
                )
            return made
        return torch.optim.SGD(parameters, lr=self.learning_rate, momentum=self.momentum)

    def _public(self, size: int, classes: NDArray[Any], adjacency: Adjacency) -> tuple[str, ...]:
        known = "the number of records" if adjacency.size_is_public else "the stand-in for it"
        source = "as given" if self.classes is not None else "read off y and treated as public"
        labels = ", ".join(str(label) for label in classes[:20])
        return (f"{known}, {size}", f"the set of labels ({labels}), {source}")

    # --- using the model -----------------------------------------------------------------------

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the scores, shape (n, number of classes)."""
        check_is_fitted(self)
        array, _ = as_rows(X, None)
        if array.shape[1:] != self._shape:
            raise InvalidData(
                f"X has records of shape {array.shape[1:]}, but fit saw {self._shape}: "
                f"{self.n_features_in_} numbers each."
            )
        with torch.no_grad():
            parts = [
                self.module_(as_tensor(array[start : start + _AT_ONCE], self._dtype))
                for start in range(0, len(array), _AT_ONCE)
            ]
        return torch.cat(parts).double().numpy()

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the softmax of the scores."""
        return torch.softmax(torch.from_numpy(self.decision_function(X)), dim=1).numpy()

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label with the highest score for every record."""
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
