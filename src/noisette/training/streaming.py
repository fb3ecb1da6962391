"""One pass over a stream of chunks: constant memory, one charge.

Every person is in one chunk and one batch, so by parallel composition the whole stream costs one
use of the noise however long it is (PARALLEL). The plan therefore declares a number of batches that
no stream reaches; the permit counts them down and refuses the next one when they are used up. That
chunks hold *different* people is a promise of the caller, and the guarantee says so.
"""

import importlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from noisette.errors import InvalidData, MissingExtra
from noisette.plans import Sampled
from noisette.privacy import Ledger, Permit, release
from noisette.randomness import Randomness
from noisette.sampling import Disjoint
from noisette.training.common import check_scale
from noisette.training.single_pass import noise_for_one_use, run_blocks
from noisette.training.steps import Batches, Progress, State, Update

__all__ = ["MOST_BATCHES", "NEW_PEOPLE", "Stream", "chunks_of", "rebatched"]

MOST_BATCHES = 10**12
"""Batches declared for a stream of unknown length; their number does not enter the cost."""

NEW_PEOPLE = (
    "The data came as a stream of chunks under one charge. The guarantee holds for people whose "
    "record is in one chunk only, which the caller has promised; for somebody in several chunks "
    "every further chunk adds the same loss again."
)

Chunk = tuple[Any, NDArray[Any]]


class Stream:
    """An open private pass: feed it chunks of new people, read the weights at any time.

    All iterates are covered, so reading in between costs nothing. `batch_size` is public; the last
    batch of a chunk may be smaller and is divided by `batch_size` all the same.
    """

    def __init__(
        self, update: Update, features: int, randomness: Randomness, *, ledger: Ledger,
        epsilon: float, delta: float, batch_size: int, noise: str, label: str,
    ) -> None:  # fmt: skip
        self.update, self.features, self.batch_size = update, features, batch_size
        self._randomness = randomness
        dimension = update.dimension(features)
        mechanism = noise_for_one_use(noise, epsilon, delta, dimension, ledger.adjacency)
        plan = Sampled(mechanism, Disjoint(MOST_BATCHES, batch_size))
        check_scale(mechanism, update.contribution)
        self.permit: Permit = ledger.charge(
            plan, label=label, delta=delta, epsilon=epsilon, seeded=randomness.seeded
        )
        self.state, self.records, self._delta = State.zero(dimension), 0, delta
        # proof: PARALLEL
        bounded = update.bounded(features, ledger.adjacency, "PARALLEL")
        self._noise = release(bounded, self.permit, randomness)

    def feed(self, X: Any, y: NDArray[Any], progress: Progress | None = None) -> None:
        """Run one pass over a chunk of new people."""
        self.update.check(X, y)
        sampler = Disjoint.of_size(X.shape[0], min(self.batch_size, X.shape[0]))
        edges = sampler.edges(X.shape[0])
        batches = Batches(edges, np.full(len(edges) - 1, float(self.batch_size)))
        shown = progress or Progress(0, None)
        self.records += X.shape[0]
        run_blocks(X, y, self.update, self.state, self._noise, batches, None, shown)

    def notes(self) -> tuple[str, ...]:
        """Return what must be said about delta once there are more people than it is meant for."""
        if self._delta * self.records < 1.0:
            return ()
        return (
            f"WARNING: the stream has grown to {self.records} records, for which delta = "
            f"{self._delta:g} is not below 1/n: it allows that somebody's whole record is given "
            "away.",
        )

    def weights(self) -> NDArray[np.float64]:
        """Return the released weights so far."""
        return self.state.result(self.update, self.features)


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
            parquet = _pyarrow("pyarrow.parquet")
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
        if not _fill(X[:, j], batch.column(name)):
            # outside the except block of `_fill`: the original message quotes a cell
            raise InvalidData(f"column {name!r} of the stream does not hold numbers only.")
    return X, y


def _fill(out: NDArray[np.float64], column: Any) -> bool:
    """Write a column of numbers into `out`; return False if it holds anything else."""
    try:
        out[:] = np.asarray(_plain(column), dtype=np.float64)
    except (TypeError, ValueError, ArithmeticError):
        return False
    return True


def _plain(column: Any) -> NDArray[Any]:
    chunked = hasattr(column, "chunks")
    return np.asarray(column.to_numpy() if chunked else column.to_numpy(zero_copy_only=False))


def _pyarrow(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtra(
            "reading Parquet needs pyarrow, which is not installed; "
            "run: pip install 'noisette[dask]'."
        ) from None
