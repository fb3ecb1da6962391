"""One pass over a stream of chunks: constant memory, one charge.

Every person is in one chunk and one batch, so by parallel composition the whole stream costs one
use of the noise however long it is (PARALLEL). The plan therefore declares a number of batches that
no stream reaches; the permit counts them down and refuses the next one when they are used up. That
chunks hold *different* people is a promise of the caller, and the guarantee says so.
"""

import importlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from noisette import _validate
from noisette._typing import Floats
from noisette.core.plans import Sampled
from noisette.core.sampling import Disjoint
from noisette.errors import InvalidData, MissingExtra
from noisette.fitting.algorithms.algorithm import Algorithm, PreparedModel
from noisette.fitting.algorithms.levels import check_rows
from noisette.fitting.algorithms.passage import Passage
from noisette.fitting.algorithms.public import Public, check_scale
from noisette.fitting.algorithms.records import Records
from noisette.fitting.algorithms.single_pass import noise_for_one_use, run_blocks
from noisette.fitting.algorithms.steps import Batches, Progress, State, Update

MOST_BATCHES = 10**12
"""Batches declared for a stream of unknown length; their number does not enter the cost."""

NEW_PEOPLE = (
    "The data came as a stream of chunks under one charge. The guarantee holds for people whose "
    "record is in one chunk only, which the caller has promised; for somebody in several chunks "
    "every further chunk adds the same loss again."
)

Chunk = tuple[Any, NDArray[Any]]


@dataclass(frozen=True)
class StreamedPass(Algorithm[PreparedModel]):
    """One private pass over people who come in chunks, under one charge.

    Its run is driven by the caller: `Stream.feed` takes one chunk after another.
    """

    name: ClassVar[str] = "stream"
    summary: ClassVar[str] = "one pass over a stream of chunks, in constant memory"

    update: Update
    batch_size: int
    noise: str = "spherical-laplace"

    def prepare(self, public: Public) -> PreparedModel:
        """Return more batches than any stream has; their number does not enter the cost."""
        mechanism = noise_for_one_use(
            self.noise, public.epsilon, public.delta, public.dimension, public.adjacency
        )
        check_scale(mechanism, self.update.contribution)
        plan = Sampled(mechanism, Disjoint(MOST_BATCHES, self.batch_size))
        return PreparedModel(public, plan, ("CLIP",))

    def check(self, records: Records, prepared: PreparedModel) -> None:
        """Refuse a chunk whose labels would break the bound."""
        check_rows(self.update, records, None, prepared.public, stream=True)
        if records.weights is not None:
            raise InvalidData("a stream takes no sample_weight.")

    def passes(self, prepared: PreparedModel) -> float:
        """Return about how often every row is read."""
        return 1.0

    def run(self, records: Records, prepared: PreparedModel, passage: Passage) -> list[Floats]:
        """Return the weights after a stream of this one chunk."""
        stream = Stream(self, prepared, passage)
        stream.feed(records)
        return [stream.weights()]


class Stream:
    """An open private pass: feed it chunks of new people, read the weights at any time.

    All iterates are covered, so reading in between costs nothing. The last batch of a chunk may be
    smaller than the public batch size, by which it is divided all the same.
    """

    def __init__(self, algorithm: StreamedPass, prepared: PreparedModel, passage: Passage) -> None:
        self._algorithm, self.prepared, self._passage = algorithm, prepared, passage
        self.update, self.batch_size = algorithm.update, algorithm.batch_size
        self.permit, public = passage.permit, prepared.public
        self.state, self.records = State.zero(public.dimension), 0
        self._features = public.features - (self.update.bias is not None)
        # proof: PARALLEL
        self._noise = passage.release(
            self.update.bounded(self._features, public.adjacency, "PARALLEL")
        )

    def feed(self, records: Records, progress: Progress | None = None) -> None:
        """Run one pass over a chunk of new people.

        Refused, before anything of it is used, where delta would no longer be below 1/n.
        """
        self._algorithm.check(records, self.prepared)
        n = records.rows.shape[0]
        _validate.delta_for(self.prepared.public.delta, self.records + n)
        edges = Disjoint.of_size(n, min(self.batch_size, n)).edges(n)
        batches = Batches(edges, np.full(len(edges) - 1, float(self.batch_size)))
        self.records += n
        run_blocks(
            records, self.update, self.state, self._noise, batches, None,
            progress or Progress(0, None), self._passage,
        )  # fmt: skip

    def weights(self) -> Floats:
        """Return the released weights so far."""
        return self.state.result(self.update, self._features)


def rebatched(chunks: Iterable[Chunk], batch_size: int) -> Iterator[Chunk]:
    """Yield chunks whose sizes are multiples of `batch_size` but for the last one.

    So the result does not depend on how the rows were cut into chunks. At most `batch_size` - 1
    rows wait for the next chunk.
    """
    left: Chunk | None = None
    for X, y in chunks:
        if left is not None:
            stack = sparse.vstack if sparse.issparse(X) else np.concatenate
            short = batch_size - left[0].shape[0]
            head, tail = stack([left[0], X[:short]]), np.concatenate([left[1], y[:short]])
            X, y = X[short:], y[short:]
            left = (sparse.csr_array(head) if sparse.issparse(head) else head, tail)
            if left[0].shape[0] < batch_size:
                continue
            yield left
            left = None
        whole = X.shape[0] - X.shape[0] % batch_size
        if whole:
            yield X[:whole], y[:whole]
        if whole < X.shape[0]:
            # a copy, so that the big chunk can be freed
            left = (X[whole:].copy(), y[whole:].copy())
    if left is not None:
        yield left


def chunks_of(source: Any, target: str | int | None = None, rows: int = 1 << 16) -> Iterator[Any]:
    """Yield (X, y) from an iterator of pairs, Arrow record batches or tables, or Parquet files.

    Pairs pass through. Of Arrow data and of Parquet files (a path or several), column `target` (a
    name; the last column if None) is y and the other columns are X. Nothing but one chunk is held.
    """
    if isinstance(source, str | Path):
        source = [source]
    for item in source:
        if isinstance(item, str | Path):
            try:
                parquet = importlib.import_module("pyarrow.parquet")
            except ImportError:
                raise MissingExtra(
                    "reading Parquet needs pyarrow, which is not installed; "
                    "run: pip install 'noisette[parquet]'."
                ) from None
            with parquet.ParquetFile(item) as file:
                for batch in file.iter_batches(batch_size=rows):
                    yield _of_arrow(batch, target)
        elif hasattr(item, "column_names") or hasattr(item, "schema"):
            yield _of_arrow(item, target)
        elif isinstance(item, tuple) and len(item) == 2:
            yield item
        else:
            raise InvalidData(
                "a stream must yield pairs (X, y), Arrow record batches or tables, or paths of "
                "Parquet files."
            )


def _of_arrow(batch: Any, target: str | int | None) -> Chunk:
    names = list(batch.schema.names)
    chosen = names[-1] if target is None else names[target] if isinstance(target, int) else target
    if chosen not in names:
        raise InvalidData(f"the stream has no column {chosen!r}.")
    y = _plain(batch.column(chosen))
    others = [name for name in names if name != chosen]
    X = np.empty((len(y), len(others)))
    for j, name in enumerate(others):
        try:
            X[:, j] = np.asarray(_plain(batch.column(name)), dtype=np.float64)
            continue
        except (TypeError, ValueError, ArithmeticError):
            pass
        # outside the except block: the original message quotes a cell
        raise InvalidData(f"column {name!r} of the stream does not hold numbers only.")
    return X, y


def _plain(column: Any) -> NDArray[Any]:
    chunked = hasattr(column, "chunks")
    return np.asarray(column.to_numpy() if chunked else column.to_numpy(zero_copy_only=False))
