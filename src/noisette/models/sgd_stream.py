"""What the SGD estimators share to read streams: ``partial_fit``, and ``fit`` on iterators."""

import math
import weakref
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from noisette import _validate
from noisette.core.adjacency import Adjacency
from noisette.core.ledger import Ledger
from noisette.core.parts import each
from noisette.core.randomness import Randomness
from noisette.core.sampling import SAMPLERS, Sampler
from noisette.errors import InvalidData, InvalidParameter, Unproven
from noisette.fitting.algorithms import Public, Records, Trained
from noisette.fitting.algorithms.recommend import Recommendation
from noisette.fitting.algorithms.recommend_sgd import RELEASES, noises, recommend_sgd
from noisette.fitting.algorithms.steps import LEARNING_RATES, Progress, canonical_rows
from noisette.fitting.algorithms.streaming import (
    NEW_PEOPLE,
    Stream,
    StreamedPass,
    chunks_of,
    rebatched,
)
from noisette.fitting.algorithms.train import begin
from noisette.fitting.losses import Loss, Softmax
from noisette.fitting.partitions.collections import is_dask
from noisette.fitting.units import RECORDS, Unit
from noisette.models import inputs
from noisette.models.linear_model import LinearModel, Ready

_MOST_WORK = 100_000  # far more than two slices of one matrix need
_KEPT = ("_stream", "_chosen", "_traces", "classes_", "n_features_in_", "feature_names_in_")


def _refuse_persons(persons: Any) -> None:
    """Refuse persons in a stream: nobody can know that a person's rows are all in one chunk."""
    if persons is not None:
        # proof: PERSON-WEIGHTS
        raise Unproven(
            "persons cannot be told apart in a stream, where one may have rows in several chunks; "
            "fit all rows at once with fit(X, y, persons=...), or keep one row of each person."
        )


class StreamReader(LinearModel):
    """One charge for a whole stream of new people; see `SGDClassifier` and `SGDRegressor`."""

    _stream: Stream | None

    @abstractmethod
    def _check_stream(self, given: Any) -> None:
        """Take what a stream must know before its first chunk, or refuse what it cannot know."""

    @abstractmethod
    def _stream_loss(self) -> Loss:
        """Return the loss, after `_check_stream`."""

    @abstractmethod
    def _first_chunk(self, X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
        """Return checked rows and targets of the first chunk; sets the features."""

    def _first_rows(self, X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
        """Return the first chunk; a chunk in partitions is refused before anything is charged."""
        if is_dask(X):
            raise InvalidParameter(
                "a chunk of a stream must be in memory; pass rows in partitions to fit, all at "
                "once."
            )
        return self._first_chunk(X, y)

    @abstractmethod
    def _stream_targets(self, y: Any) -> NDArray[Any]:
        """Return the targets as the loss takes them."""

    @abstractmethod
    def _publish_chunks(
        self, trained: Trained, chosen: Recommendation, sizes: list[str], notes: tuple[str, ...]
    ) -> None:
        """Set the fitted attributes: released numbers and public facts."""

    def _check_steps(self) -> None:
        """Check the parameters of steps and batches before the data are looked at."""
        _validate.choice("noise", self.noise, noises())
        _validate.choice("released", self.released, RELEASES)
        if not isinstance(self.sampling, Sampler):
            _validate.choice("sampling", self.sampling, ("auto", *SAMPLERS))
        _validate.integer("epochs", self.epochs)
        _validate.non_negative("regularization", self.regularization)
        if not _is_auto(self.radius):
            _validate.positive_or_infinite("radius (unless 'auto')", self.radius)
        if not _is_auto(self.batch_size):
            _validate.integer("batch_size (unless 'auto')", self.batch_size)
        if not _is_auto(self.averaging):
            _validate.boolean("averaging", self.averaging)
        _validate.choice("learning_rate", self.learning_rate, ("auto", *LEARNING_RATES))
        if not _is_auto(self.eta0):
            _validate.positive("eta0 (unless 'auto')", self.eta0)
        if not isinstance(self.verbose, bool):
            _validate.integer("verbose", self.verbose, least=0)

    def _describe(
        self, size: int, features: int, loss: Loss, adjacency: Adjacency, unit: Unit = RECORDS
    ) -> Public:
        """Return the public facts of a fit on rows of that many features."""
        bias = self._intercept()
        bound = math.inf if self.norm_bound is None else math.hypot(self.norm_bound, bias or 0.0)
        return Public(
            epsilon=float(self.epsilon),
            delta=float(self.delta),
            adjacency=adjacency,
            loss=loss,
            features=features + (bias is not None),
            norm_bound=bound,
            size=size,
            most=unit.bound(adjacency, self.population),
            unit=unit.word,
            max_rows=unit.max_rows,
        )

    def _public_size(self, unit: Unit, adjacency: Adjacency, guess: int | None) -> int:
        """Return the number of units, or the guess that stands for it where it is private."""
        size = unit.size(adjacency, guess)
        if size is None:
            raise InvalidParameter(
                "under add-remove n is private and schedules need a public number instead; give "
                "population=..., a guess of n made without the data."
            )
        _validate.delta_for(self.delta, size)
        return size

    def _ready_for_steps(
        self, chosen: Recommendation, X: Any, target: Any, weights: Any, unit: Unit, **more: Any
    ) -> Ready:
        X, target, weights, near = unit.within_cap(X, target, weights)
        method = {"noisy-sgd": "direct"}.get(chosen.algorithm.name, chosen.algorithm.name)
        return Ready(
            chosen, Records(canonical_rows(X), [target], weights, near), unit, method, **more
        )

    def _streamed(self, X: Any, y: Any, persons: Any, **others: Any) -> bool:
        """Train on X if it is a stream, and say whether it is one."""
        self._stream = None
        if not is_stream(X):
            return False
        _refuse_persons(persons)
        for name, given in others.items():
            if given is not None:
                raise InvalidParameter(f"{name} is not offered for streams; fit the rows.")
        self._fit_stream(X, y)
        return True

    def _feed(self, X: Any, y: Any, persons: Any, given: Any = None) -> None:
        """Train on one chunk; whatever fails leaves a stream that is charged as charged."""
        _refuse_persons(persons)
        before = dict(self.__dict__)
        try:
            with np.errstate(all="ignore"):  # as in `fit`: nothing is said about the rows
                self._feed_chunk(X, y, given)
        except BaseException:
            now = dict(self.__dict__)
            self.__dict__.clear()
            self.__dict__.update(before)
            # What was charged and drawn stays so, and whoever may have been in a noisy step is
            # remembered: handing in an interrupted chunk again would count its people twice.
            if now.get("_stream") is not None:
                self.__dict__.update({name: now[name] for name in _KEPT if name in now})
            raise

    def _feed_chunk(self, X: Any, y: Any, given: Any) -> None:
        stream = self.__dict__.get("_stream")
        if stream is None and hasattr(self, "coef_"):
            raise InvalidParameter(
                "this model has no open stream (it was trained by fit, or unpickled, and a permit "
                "stays in its process); call partial_fit on a new estimator."
            )
        traces = [trace for trace in self.__dict__.get("_traces", []) if trace.alive]
        if stream is not None:
            _refuse_again(_Trace(X), traces)
        if stream is None:
            self._check_stream(given)
            ledger, randomness = self._check_public()
            rows, y = self._first_rows(X, y)
            target = self._stream_targets(y)
            stream = self._open(rows.shape, ledger, randomness)
        else:
            rows, y = _chunk(self, X, y)
            _refuse_again(_trace_of(rows), traces)
            target = self._stream_targets(y)
        # before the first step, see `_feed`
        self._traces = [*traces, _Trace(X), _trace_of(rows)]
        stream.feed(Records(canonical_rows(rows), [target]))
        self._publish_stream()

    def _open(self, shape: tuple[int, int], ledger: Ledger, randomness: Randomness) -> Stream:
        """Charge once for a stream of any length."""
        # a first chunk may be shorter than a batch that was asked for
        least = 0 if self.batch_size == "auto" else int(self.batch_size)
        size = self.population or max(shape[0], least)
        known = Unit(shape[0]).size(ledger.adjacency, 0)
        _validate.delta_for(self.delta, max(self.population or 0, known))
        public = self._describe(size, shape[1], self._stream_loss(), ledger.adjacency)
        chosen = recommend_sgd(self, public, stream=True)
        self._warn(chosen)
        assert isinstance(chosen.algorithm, StreamedPass)
        prepared = chosen.algorithm.prepare(chosen.public)
        passage = begin(
            prepared, ledger=ledger, randomness=randomness,
            label="fit (a stream of new people)", model=type(self).__name__,
        )  # fmt: skip
        self._chosen, self._stream = chosen, Stream(chosen.algorithm, prepared, passage)
        return self._stream

    def _publish_stream(self) -> None:
        stream, chosen = self._stream, self._chosen
        assert stream is not None
        trained = Trained([stream.weights()], stream.permit, stream.prepared.proofs)
        sizes = ["the number of records in each chunk"]
        if self.population is not None:
            sizes.append(f"the guess {self.population} of the number of records (population)")
        self._publish_chunks(trained, chosen, sizes, (*chosen.notes, NEW_PEOPLE))

    def _fit_stream(self, source: Any, target: Any) -> None:
        """Train on an iterator of chunks, one pass, in constant memory."""
        self._check_stream(None)
        ledger, randomness = self._check_public()
        checked = self._checked(chunks_of(_each_once(source), target))
        first = next(checked, None)
        if first is None:
            raise InvalidData("the stream is empty.")
        stream = self._open(first[0].shape, ledger, randomness)
        progress = Progress(self.verbose, None)
        for rows, targets in rebatched(_with(first, checked), stream.batch_size):
            stream.feed(Records(canonical_rows(rows), [targets]), progress)
        self._publish_stream()
        self._stream = None

    def _checked(self, chunks: Iterable[Any]) -> Iterator[tuple[Any, NDArray[Any]]]:
        """Yield rows and targets of every chunk; the features are those of the first."""
        first, traces = True, list[_Trace]()
        for X, y in chunks:
            if getattr(X, "shape", (1,))[0] == 0:
                continue  # a file may hold an empty part; sizes of chunks are public
            rows, y = self._first_rows(X, y) if first else _chunk(self, X, y)
            first, traces = False, [trace for trace in traces if trace.alive]
            _refuse_again(_trace_of(rows), traces)
            traces.append(_trace_of(rows))
            yield rows, self._stream_targets(y)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the ledger and an open stream behind: a permit belongs to one process."""
        state = dict(super().__getstate__())
        for name in ("_stream", "_traces", "_chosen"):
            state.pop(name, None)
        return state


def is_stream(X: Any) -> bool:
    """Whether `X` is an iterator, a path or a list of paths, not a matrix."""
    if isinstance(X, str | Path) or hasattr(X, "__next__"):
        return True
    return isinstance(X, list | tuple) and bool(X) and all(isinstance(p, str | Path) for p in X)


def targets_of(loss: Loss, numbers: NDArray[np.intp]) -> NDArray[Any]:
    """Return class numbers as the loss's kernel reads them: -1 and +1, or int64."""
    found: NDArray[Any] = each(_whole if isinstance(loss, Softmax) else _signs, numbers)
    return found


def _whole(numbers: NDArray[np.intp]) -> NDArray[np.int64]:
    return numbers.astype(np.int64, copy=False)


def _signs(numbers: NDArray[np.intp]) -> NDArray[np.float64]:
    return np.where(numbers == 1, 1.0, -1.0)


def _chunk(estimator: Any, X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
    """Return a later chunk, checked against the features of the first."""
    rows = inputs.matrix(estimator, X)
    labels = inputs.label_vector(y)
    if labels.ndim != 1 or len(labels) != rows.shape[0]:
        raise InvalidData("y must be a vector with one entry for each row of X.")
    return rows, labels


def _each_once(source: Any) -> Iterator[Any]:
    """Return the items of a stream; refuse the same file, or the same rows in memory, twice."""
    if isinstance(source, str | Path):
        source = [source]
    if isinstance(source, list | tuple):  # paths, known before anything is charged
        _refuse_same_files([Path(item).resolve() for item in source])
    return _traced(source)


def _traced(source: Iterable[Any]) -> Iterator[Any]:
    files: list[Path] = []
    traces: list[_Trace] = []
    for item in source:
        if isinstance(item, str | Path):
            files.append(Path(item).resolve())
            _refuse_same_files(files)
        else:
            pair = isinstance(item, tuple) and len(item) == 2
            traces = [trace for trace in traces if trace.alive]
            trace = _Trace(item[0] if pair else item)
            _refuse_again(trace, traces)
            traces.append(trace)
        yield item


def _refuse_same_files(files: list[Path]) -> None:
    if len(set(files)) != len(files):
        raise InvalidData(
            "the stream names a file twice; everybody must be in it once, and a second pass over "
            "the same people is another fit with its own charge."
        )


def _refuse_again(trace: "_Trace", earlier: list["_Trace"]) -> None:
    if any(trace.overlaps(other) for other in earlier):
        raise InvalidData(
            "these rows, or memory that holds them, were handed in before; every chunk must "
            "hold new people, and a second pass over the same people is another fit with its "
            "own charge (if a buffer was refilled with new people, pass a copy)."
        )


def _trace_of(rows: Any) -> "_Trace":
    """Return the trace of checked rows: slices of one data frame have their memory in common."""
    return _Trace(rows.data if sparse.issparse(rows) else rows)


class _Trace:
    """Where a chunk lives in memory, without reading it, and without keeping it alive if possible.

    A list has no weak references: it is held until the stream ends, so that it is known again.
    """

    def __init__(self, X: Any) -> None:
        owner, self._place = X, None
        if isinstance(X, np.ndarray) and X.size:
            while isinstance(owner.base, np.ndarray):
                owner = owner.base
            self._place = _Layout(X)
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


class _Layout:
    """Address, shape and strides of an array, without a reference to it and without its type."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.__array_interface__ = {
            "data": array.__array_interface__["data"],
            "shape": array.shape,
            "strides": array.strides,
            "typestr": f"|V{array.itemsize}",
            "version": 3,
        }


def _with(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def _is_auto(value: object) -> bool:
    """Whether a parameter is left to us; an array, which compares entry by entry, is not."""
    return isinstance(value, str) and value == "auto"
