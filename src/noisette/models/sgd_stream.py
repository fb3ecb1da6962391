"""What the SGD estimators share to read streams: ``partial_fit``, and ``fit`` on iterators."""

import math
import warnings
import weakref
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from noisette import _validate
from noisette.core.adjacency import Adjacency
from noisette.core.ledger import Ledger
from noisette.core.randomness import Randomness
from noisette.core.sampling import SAMPLERS, Sampler
from noisette.errors import InvalidData, InvalidParameter, Unproven, WeakModelWarning
from noisette.fitting.algorithms import Public, Records, Trained
from noisette.fitting.algorithms.recommend import Recommendation
from noisette.fitting.algorithms.recommend_sgd import Wished, noises, recommend_sgd
from noisette.fitting.algorithms.steps import Progress, canonical_rows
from noisette.fitting.algorithms.streaming import (
    NEW_PEOPLE,
    Stream,
    StreamedPass,
    chunks_of,
    rebatched,
)
from noisette.fitting.algorithms.train import begin
from noisette.fitting.losses import Loss
from noisette.fitting.partitions.collections import is_dask
from noisette.fitting.units import RECORDS, Unit
from noisette.models import inputs
from noisette.models.linear_model import LinearModel, Ready
from noisette.models.private import retired

_MOST_WORK = 100_000  # far more than two slices of one matrix need
_KEPT = ("_stream", "_opened", "_traces", "classes_", "n_features_in_", "feature_names_in_")

RETIRED = {
    "eta0": "the first step size is learning_rate=0.1, with a schedule ('constant', 0.1)",
    "radius": "it is the second part of regularization=(1e-4, radius)",
    "averaging": "released=('all', 'mean') returns a mean, ('all', 'last') the last iterate",
    "grouping": "sampling='levels' puts people of equal sample_epsilon into the same batches",
    "verbose": "pass it to fit(..., verbose=1)",
}


def _refuse_persons(persons: Any) -> None:
    """Refuse persons in a stream: nobody can know that a person's rows are all in one chunk."""
    if persons is not None:
        # proof: PERSON-WEIGHTS
        raise Unproven(
            "persons cannot be told apart in a stream, where one may have rows in several chunks; "
            "fit all rows at once with fit(X, y, persons=...), or keep one row of each person."
        )


class StreamReader(LinearModel):
    """One charge for a whole stream of new people; see `SGDClassifier` and `SGDRegressor`.

    These have `_check_stream`, which takes what a stream must know before its first chunk, `_loss`,
    `_stream_targets` (as the loss takes them) and `_target_fact` (what is known of them).
    """

    _stream: Stream | None
    _row_local: tuple[str, ...] = ()  # where a target is cut and scaled

    @retired(RETIRED)
    def set_params(self, **params: Any) -> Any:
        """Set parameters of this estimator, as in scikit-learn.

        Parameters
        ----------
        **params : dict
            The parameters by name.

        Returns
        -------
        self
            The estimator.

        Examples
        --------
        >>> from noisette import SGDClassifier
        >>> SGDClassifier(norm_bound=1.0).set_params(learning_rate=("constant", 0.1)).learning_rate
        ('constant', 0.1)

        """
        return super().set_params(**params)

    def _check_steps(self, *more: str) -> None:
        """Check the parameters of steps and batches before the data are looked at."""
        Wished.of(self)
        _validate.choice("noise", self.noise, noises())
        if not isinstance(self.sampling, Sampler):
            _validate.choice("sampling", self.sampling, ("auto", *SAMPLERS, *more))
        _validate.integer("epochs", self.epochs)
        if not isinstance(self.batch_size, str) or self.batch_size != "auto":
            _validate.integer("batch_size (unless 'auto')", self.batch_size)

    def _described(
        self, features: int, loss: Loss, adjacency: Adjacency, unit: Unit, guess: int | None,
        own: int | None = None,
    ) -> Public:  # fmt: skip
        """Return the public facts of a fit on rows of that many features.

        The guess stands for the number of units where it is private; a stream has its `own`.
        """
        size = own
        if own is None:
            size = unit.size(adjacency, guess)
            if size is None:
                raise InvalidParameter(
                    "under add-remove n is private and schedules need a public number instead; "
                    "give population=..., a guess of n made without the data."
                )
            _validate.delta_for(self.delta, size)
        bias = self._intercept()
        bound = math.inf if self.norm_bound is None else math.hypot(self.norm_bound, bias or 0.0)
        return Public(
            epsilon=float(self.epsilon), delta=float(self.delta), adjacency=adjacency, loss=loss,
            features=features + (bias is not None), norm_bound=bound, size=size,
            most=unit.bound(adjacency, self.population), unit=unit.word, max_rows=unit.max_rows,
        )  # fmt: skip

    def _ready_for_steps(
        self, chosen: Recommendation, X: Any, targets: Any, weights: Any, unit: Unit, fact: str,
        **more: Any,
    ) -> Ready:  # fmt: skip
        X, target, weights, near = unit.within_cap(X, targets[0], weights)
        method = {"noisy-sgd": "direct"}.get(chosen.algorithm.name, chosen.algorithm.name)
        records = Records(canonical_rows(X), [target], weights, near)
        return Ready(chosen, records, unit, method, (fact,), **more)

    def _streamed(self, X: Any, y: Any, persons: Any, verbose: int, **others: Any) -> bool:
        """Train on X if it is a stream, one pass, in constant memory; say whether it is one."""
        if not isinstance(verbose, bool):
            _validate.integer("verbose", verbose, least=0)
        self._stream = None
        if not is_stream(X):
            return False
        _refuse_persons(persons)
        for name, given in others.items():
            if given is not None:
                raise InvalidParameter(f"{name} is not offered for streams; fit the rows.")
        self._check_stream(None)
        ledger, randomness = self._check_public()
        if isinstance(X, str | Path):
            X = [X]
        if isinstance(X, list | tuple):  # paths, known before anything is charged
            _refuse_same_files([Path(item).resolve() for item in X])
        checked = self._checked(chunks_of(_traced(X), y))
        first = next(checked, None)
        if first is None:
            raise InvalidData("the stream is empty.")
        stream = self._open(first[0].shape, ledger, randomness)
        progress = Progress(verbose, None)
        for rows, targets in rebatched(chain([first], checked), stream.batch_size):
            stream.feed(Records(canonical_rows(rows), [targets]), progress)
        self._publish_stream(stream)
        self._stream = None
        return True

    def _feed(self, X: Any, y: Any, persons: Any, given: Any = None) -> None:
        """Train on one chunk; whatever fails leaves a stream that is charged as charged."""
        _refuse_persons(persons)
        before = dict(self.__dict__)
        try:
            with np.errstate(all="ignore"):  # as in `fit`: nothing is said about the rows
                stream: Any = self.__dict__.get("_stream")
                if stream is None and hasattr(self, "coef_"):
                    raise InvalidParameter(
                        "this model has no open stream (it was trained by fit, or unpickled, and a "
                        "permit stays in its process); call partial_fit on a new estimator."
                    )
                traces, opening = list(self.__dict__.get("_traces", [])), None
                handed = _new(X, traces)
                if stream is None:
                    self._check_stream(given)
                    opening = self._check_public()
                rows, target = self._chunk(X, y, first=stream is None)
                if opening is not None:
                    stream = self._open(rows.shape, *opening)
                # before the first step, so that it is kept below
                self._traces = [*traces, handed, _new(rows, traces)]
                stream.feed(Records(canonical_rows(rows), [target]))
                self._publish_stream(stream)
        except BaseException:
            now = dict(self.__dict__)
            self.__dict__.clear()
            self.__dict__.update(before)
            # What was charged and drawn stays so, and whoever may have been in a noisy step is
            # remembered: handing in an interrupted chunk again would count its people twice.
            if now.get("_stream") is not None:
                self.__dict__.update({name: now[name] for name in _KEPT if name in now})
            raise

    def _chunk(self, X: Any, y: Any, *, first: bool) -> tuple[Any, NDArray[Any]]:
        """Return rows and targets of a chunk; a later one has the features of the first."""
        if not first:
            rows, labels = inputs.matrix(self, X), inputs.label_vector(y)
            if labels.ndim != 1 or len(labels) != rows.shape[0]:
                raise InvalidData("y must be a vector with one entry for each row of X.")
        elif is_dask(X):
            raise InvalidParameter(
                "a chunk of a stream must be in memory; pass rows in partitions to fit, all at "
                "once."
            )
        else:
            numbers = bool(self._row_local)  # the kernels blank huge rows beside labels
            rows, labels = inputs.rows_and_targets(self, X, y, 1, tame=numbers, numbers=numbers)
        return rows, self._stream_targets(labels)

    def _open(self, shape: tuple[int, int], ledger: Ledger, randomness: Randomness) -> Stream:
        """Charge once for a stream of any length."""
        # a first chunk may be shorter than a batch that was asked for
        least = 0 if self.batch_size == "auto" else int(self.batch_size)
        size = self.population or max(shape[0], least)
        known = Unit(shape[0]).size(ledger.adjacency, 0)
        _validate.delta_for(self.delta, max(self.population or 0, known))
        public = self._described(shape[1], self._loss(), ledger.adjacency, RECORDS, None, size)
        chosen = recommend_sgd(self, public, stream=True)
        if chosen.warning:
            warnings.warn(chosen.warning, WeakModelWarning, stacklevel=4)
        assert isinstance(chosen.algorithm, StreamedPass)
        prepared = chosen.algorithm.prepare(chosen.public)
        passage = begin(
            prepared, ledger=ledger, randomness=randomness,
            label="fit (a stream of new people)", model=type(self).__name__,
        )  # fmt: skip
        sizes = ["the number of records in each chunk"]
        if self.population is not None:
            sizes.append(f"the guess {self.population} of the number of records (population)")
        self._opened = Ready(
            chosen, None, RECORDS, "", (self._target_fact,), notes=(*chosen.notes, NEW_PEOPLE),
            proofs=(*self._row_local, *public.loss.proofs), sizes=tuple(sizes),
            classes=self.__dict__.get("classes_"),
        )  # fmt: skip
        self._stream = Stream(chosen.algorithm, prepared, passage)
        return self._stream

    def _publish_stream(self, stream: Stream) -> None:
        self._publish(
            self._opened, Trained([stream.weights()], stream.permit, stream.prepared.proofs)
        )

    def _checked(self, chunks: Iterable[Any]) -> Iterator[tuple[Any, NDArray[Any]]]:
        """Yield rows and targets of every chunk; the features are those of the first."""
        traces: list[_Trace] = []
        for X, y in chunks:
            if getattr(X, "shape", (1,))[0] == 0:
                continue  # a file may hold an empty part; sizes of chunks are public
            rows, targets = self._chunk(X, y, first=not traces)
            traces.append(_new(rows, traces))
            yield rows, targets

    def __getstate__(self) -> dict[str, Any]:
        """Leave the ledger and an open stream behind: a permit belongs to one process."""
        left = ("_stream", "_traces", "_opened")
        return {k: v for k, v in super().__getstate__().items() if k not in left}


def is_stream(X: Any) -> bool:
    """Whether `X` is an iterator, a path or a list of paths, not a matrix."""
    if isinstance(X, str | Path) or hasattr(X, "__next__"):
        return True
    return isinstance(X, list | tuple) and bool(X) and all(isinstance(p, str | Path) for p in X)


def _traced(source: Iterable[Any]) -> Iterator[Any]:
    """Yield the items of a stream; refuse the same file, or the same rows in memory, twice."""
    files: list[Path] = []
    traces: list[_Trace] = []
    for item in source:
        if isinstance(item, str | Path):
            files.append(Path(item).resolve())
            _refuse_same_files(files)
        else:
            pair = isinstance(item, tuple) and len(item) == 2
            traces.append(_new(item[0] if pair else item, traces))
        yield item


def _refuse_same_files(files: list[Path]) -> None:
    if len(set(files)) != len(files):
        raise InvalidData(
            "the stream names a file twice; everybody must be in it once, and a second pass over "
            "the same people is another fit with its own charge."
        )


def _new(rows: Any, earlier: list["_Trace"]) -> "_Trace":
    """Return the trace of rows; refuse those that were handed in before; forget what is gone."""
    trace, earlier[:] = _Trace(rows), [each for each in earlier if each.alive]
    if any(trace.overlaps(other) for other in earlier):
        raise InvalidData(
            "these rows, or memory that holds them, were handed in before; every chunk must "
            "hold new people, and a second pass over the same people is another fit with its "
            "own charge (if a buffer was refilled with new people, pass a copy)."
        )
    return trace


class _Trace:
    """Where a chunk lives in memory, without reading it, and without keeping it alive if possible.

    A list has no weak references: it is held until the stream ends, so that it is known again.
    """

    def __init__(self, X: Any) -> None:
        X = X.data if sparse.issparse(X) else X  # slices of one table have their memory in common
        owner, self._place = X, None
        if isinstance(X, np.ndarray) and X.size:
            while isinstance(owner.base, np.ndarray):
                owner = owner.base
            # address, shape and strides, without a reference to the array and without its type
            layout = {
                "data": X.__array_interface__["data"], "shape": X.shape, "strides": X.strides,
                "typestr": f"|V{X.itemsize}", "version": 3,
            }  # fmt: skip
            self._place = SimpleNamespace(__array_interface__=layout)
        try:
            self._owner: Any = weakref.ref(owner)
        except TypeError:
            self._owner = lambda: owner

    @property
    def alive(self) -> bool:
        """Whether the memory is still held by somebody."""
        return self._owner() is not None

    def overlaps(self, other: "_Trace") -> bool:
        """Whether both are one live object, or live arrays that have an entry in common."""
        if not (self.alive and other.alive):
            return False
        if self._place is None or other._place is None:
            return self._owner() is other._owner()
        one, two = np.asarray(self._place), np.asarray(other._place)
        try:  # addresses only; rows of a matrix that is stored by columns are interleaved
            return np.shares_memory(one, two, max_work=_MOST_WORK)  # type: ignore[arg-type]
        except np.exceptions.TooHardError:
            return True
