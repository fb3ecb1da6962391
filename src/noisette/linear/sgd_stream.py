"""The part of `SGDClassifier` that reads streams: ``partial_fit``, and ``fit`` on iterators."""

import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from noisette import _validate
from noisette.errors import InvalidData, InvalidParameter, Unproven
from noisette.estimators import inputs
from noisette.estimators.inputs import label_numbers
from noisette.estimators.linear_model import LinearClassifier
from noisette.losses import Loss, Softmax, classifier_loss
from noisette.parts import each
from noisette.privacy import Ledger
from noisette.randomness import Randomness
from noisette.training import Public, Records, Trained
from noisette.training.recommend import Recommendation
from noisette.training.recommend_sgd import recommend_sgd
from noisette.training.steps import Progress, canonical_rows
from noisette.training.streaming import NEW_PEOPLE, Stream, StreamedPass, chunks_of, rebatched
from noisette.training.train import begin

__all__ = ["StreamReader", "is_stream", "refuse_class_weight", "refuse_persons", "targets_of"]


_MOST_WORK = 100_000  # far more than two slices of one matrix need
_KEPT = ("_stream", "_chosen", "_traces", "classes_", "n_features_in_", "feature_names_in_")


def refuse_class_weight(class_weight: Any) -> None:
    """Refuse class weights, of which a stream knows nothing."""
    if class_weight is not None:
        raise InvalidParameter("class_weight is not offered for streams; fit the rows.")


def refuse_persons(persons: Any) -> None:
    """Refuse persons in a stream: nobody can know that a person's rows are all in one chunk."""
    if persons is not None:
        # proof: PERSON-WEIGHTS
        raise Unproven(
            "persons cannot be told apart in a stream, where one may have rows in several chunks; "
            "fit all rows at once with fit(X, y, persons=...), or keep one row of each person."
        )


class StreamReader(LinearClassifier):
    """One charge for a whole stream of new people; see `SGDClassifier`."""

    epsilon: float
    delta: float
    loss: str
    batch_size: int | str
    verbose: int
    _stream: Stream | None

    def _check_public(self) -> tuple[Ledger, Randomness]:
        raise NotImplementedError

    def _describe(self, size: int, features: int, loss: Loss, ledger: Ledger) -> Public:
        raise NotImplementedError

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, persons: Any = None
    ) -> "StreamReader":
        """Train on one more chunk of **new** people and return the estimator.

        The first call charges the ledger once for the whole stream: everybody is in one chunk and
        one batch, so more chunks cost nothing (parallel composition). ``classes`` (here at the
        first call, or in the constructor) must list all labels. Nothing is kept of a chunk; the
        last batch of each may be smaller. Handing in the same object twice is refused; a second
        pass over the same people is another ``fit``, with its own charge.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (n, d)
            Rows of people who were in no chunk before.
        y : array_like of shape (n,)
            Their labels.
        classes : sequence, optional
            All labels; needed at the first call unless the constructor has them.
        persons : None
            Refused: the rows of one person may lie in several chunks.

        Returns
        -------
        self
            The estimator, fitted on all chunks so far.

        Raises
        ------
        InvalidParameter
            If a parameter is out of range, or ``classes`` are not given.
        InvalidData
            If the chunk has the wrong shape or entries, or was handed in before.
        BudgetExceeded
            If the ledger has too little left; nothing is charged.

        Examples
        --------
        >>> from sklearn.datasets import make_classification
        >>> from noisette import SGDClassifier
        >>> X, y = make_classification(4000, 5, random_state=0)
        >>> model = SGDClassifier(epsilon=1.0, norm_bound=3.0, batch_size=500)
        >>> for week in range(2):
        ...     now = slice(2000 * week, 2000 * (week + 1))
        ...     model = model.partial_fit(X[now], y[now], classes=[0, 1])
        >>> model.privacy_.epsilon
        1.0

        """
        refuse_persons(persons)
        refuse_class_weight(self.class_weight)
        before = dict(self.__dict__)
        try:
            with np.errstate(all="ignore"):  # as in `fit`: nothing is said about the rows
                self._partial_fit(X, y, classes)
        except BaseException:
            now = dict(self.__dict__)
            self.__dict__.clear()
            self.__dict__.update(before)
            # What was charged and drawn stays so, and whoever may have been in a noisy step is
            # remembered: handing in an interrupted chunk again would count its people twice.
            if now.get("_stream") is not None:
                self.__dict__.update({name: now[name] for name in _KEPT if name in now})
            raise
        return self

    def _partial_fit(self, X: Any, y: Any, classes: Any) -> None:
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
            given = self.classes if self.classes is not None else classes
            if given is None:
                raise InvalidParameter(
                    "classes must be passed on the first call to partial_fit, or to the "
                    "constructor: the labels of chunks to come cannot be read off the first one."
                )
            ledger, randomness = self._check_public()
            rows, labels = inputs.rows_and_labels(self, X, y, 1, tame=False)
            found = inputs.sorted_classes(given, labels)
            numbers = label_numbers(found, labels)
            self.classes_ = found
            stream = self._open(rows.shape, ledger, randomness)
        else:
            rows, labels = _chunk(self, X, y)
            _refuse_again(_trace_of(rows), traces)
            numbers = label_numbers(self.classes_, labels)
        # before the first step, see `partial_fit`
        self._traces = [*traces, _Trace(X), _trace_of(rows)]
        stream.feed(Records(canonical_rows(rows), [targets_of(stream.update.loss, numbers)]))
        self._publish_stream()

    def _open(self, shape: tuple[int, int], ledger: Ledger, randomness: Randomness) -> Stream:
        """Charge the whole stream and keep its permit."""
        loss = classifier_loss(self.loss, len(self.classes_))
        # a first chunk may be shorter than a batch that was asked for
        least = 0 if self.batch_size == "auto" else int(self.batch_size)
        size = self.population or max(shape[0], least)
        known = shape[0] if ledger.adjacency.size_is_public else 0
        _validate.delta_for(self.delta, max(self.population or 0, known))
        public = self._describe(size, shape[1], loss, ledger)
        chosen = recommend_sgd(self, public, stream=True)
        self._warn(chosen)
        assert isinstance(chosen.algorithm, StreamedPass)
        prepared = chosen.algorithm.prepare(chosen.public)
        passage = begin(
            prepared, ledger=ledger, randomness=randomness, observer=self._observer,
            label="SGDClassifier (a stream of new people)",
        )  # fmt: skip
        self._chosen, self._stream = chosen, Stream(chosen.algorithm, prepared, passage)
        return self._stream

    def _publish_stream(self) -> None:
        stream, chosen = self._stream, self._chosen
        assert stream is not None
        notes = (*chosen.notes, NEW_PEOPLE)
        trained = Trained([stream.weights()], stream.permit, stream.prepared.proofs)
        sizes = ["the number of records in each chunk"]
        if self.population is not None:
            sizes.append(f"the guess {self.population} of the number of records (population)")
        self._publish(trained, chosen, self.classes_, sizes, notes)

    def _fit_stream(self, source: Any, target: Any) -> None:
        if self.classes is None:
            raise InvalidParameter(
                "a stream needs classes=[...]: its labels cannot be read off the first chunk."
            )
        ledger, randomness = self._check_public()
        self.classes_ = inputs.sorted_classes(self.classes, np.empty(0))
        checked = self._checked(chunks_of(_each_once(source), target))
        first = next(checked, None)
        if first is None:
            raise InvalidData("the stream is empty.")
        stream = self._open(first[0].shape, ledger, randomness)
        progress = Progress(self.verbose, None)
        for rows, numbers in rebatched(_with(first, checked), stream.batch_size):
            target = targets_of(stream.update.loss, numbers)
            stream.feed(Records(canonical_rows(rows), [target]), progress)
        self._publish_stream()
        self._stream = None

    def _checked(self, chunks: Iterable[Any]) -> Iterator[tuple[Any, NDArray[np.intp]]]:
        first, traces = True, list[_Trace]()
        for X, y in chunks:
            if getattr(X, "shape", (1,))[0] == 0:
                continue  # a file may hold an empty part; sizes of chunks are public
            if first:
                rows, labels = inputs.rows_and_labels(self, X, y, 1, tame=False)
            else:
                rows, labels = _chunk(self, X, y)
            first, traces = False, [trace for trace in traces if trace.alive]
            _refuse_again(_trace_of(rows), traces)
            traces.append(_trace_of(rows))
            yield rows, label_numbers(self.classes_, labels)

    def _publish(
        self, trained: Trained, chosen: Recommendation, classes: NDArray[Any], sizes: list[str],
        notes: tuple[str, ...],
    ) -> None:  # fmt: skip
        raise NotImplementedError


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
    labels = np.asarray(y)
    if labels.ndim != 1 or len(labels) != rows.shape[0]:
        raise InvalidData("y must be a vector with one label for each row of X.")
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
