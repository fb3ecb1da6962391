"""`PrivateCentre`: subtract a private mean, then cut rows at a private quantile of their norms.

A part that all rows share is paid for by noise and carries no signal; and noise is in units of the
norm bound, so that should be the norm of a typical row, not the largest possible.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from noisette import _validate
from noisette._typing import Floats
from noisette.adjacency import Adjacency
from noisette.clipping import checked_bound, clip_rows
from noisette.mechanisms import Exponential, Gaussian
from noisette.pipeline.rows import (
    RowsTransformer,
    bounded_rows,
    check_rows,
    class_sums,
    noisy_count,
)
from noisette.pipeline.sample import Sample
from noisette.pipeline.step import PreparedStep, Step, exponential_epsilon
from noisette.plans import Plan, Run, Together
from noisette.privacy import Ledger
from noisette.randomness import Randomness
from noisette.summaries import Ranks
from noisette.training.passage import Passage
from noisette.training.public import PublicBudget

__all__ = ["Centre", "LearnCentre", "PrivateCentre", "centred", "centred_norms"]

_NORM_SHARE = 0.1  # of mu squared, for the quantile of norms
_STEPS = 256  # norms are chosen from so many equal steps up to the largest possible one


@dataclass(frozen=True)
class Centre:
    """The released mean, the norm bound of centred rows, and the number of records used."""

    mean: tuple[float, ...]
    norm: float
    count: float


@dataclass(frozen=True)
class LearnCentre(Step):
    """Release the mean of rows of norm at most `bound`, and a quantile of the centred norms.

    The sample's data are a matrix of rows, dense or CSR; longer rows are cut to the bound. Where
    the number of records is private it is bought in the same vector.
    """

    features: int
    bound: float = 1.0
    quantile: float = 0.9

    name: ClassVar[str] = "centre"
    summary: ClassVar[str] = "the private mean of rows, and a quantile of their norms around it"
    proofs: ClassVar[tuple[str, ...]] = ("CLASS-SUMS", "QUANTILE", "ROW-LOCAL")

    def __post_init__(self) -> None:
        _validate.integer("features", self.features)
        checked_bound("bound", self.bound)
        _validate.fraction("quantile", self.quantile)

    def plan(self, scale: float, adjacency: Adjacency) -> Plan:
        """Return one noisy vector and one noisy choice."""
        sums = Gaussian(scale / (1.0 - _NORM_SHARE) ** 0.5)
        return Together(
            Run(sums), Run(Exponential(exponential_epsilon(scale / _NORM_SHARE**0.5, 1, adjacency)))
        )

    def expected(self, prepared: PreparedStep) -> str:
        """Say how far off the mean may be."""
        sigma = prepared.scale * self.bound / (1.0 - _NORM_SHARE) ** 0.5
        size = prepared.public.size
        error = f"{sigma:.3g} / n" if size is None else f"{sigma / size:.3g}"
        return (
            f"Each entry of the mean gets noise of about {error}, of rows up to {self.bound:g} "
            f"long; about {self.quantile:.0%} of the centred rows keep their length."
        )

    def check(self, records: Sample, prepared: PreparedStep) -> None:
        """Refuse rows that are not finite, or of another length than was planned."""
        super().check(records, prepared)
        check_rows(records, self.features)

    def run(self, sample: Sample, prepared: PreparedStep, passage: Passage) -> Centre:
        """Return the mean and the norm."""
        public, bound = prepared.public, float(self.bound)
        known = public.adjacency.size_is_public and public.size is not None
        rows = bounded_rows(sample.data, bound)
        total = passage.release(
            class_sums(rows, bound, public.adjacency, sample.present, count=not known)
        )
        count = float(public.size or 1) if known else float(noisy_count(total[-1], bound))
        mean = total[: self.features] / count
        # A mean of rows in the ball lies in the ball; the noise may have carried it out.
        mean *= min(1.0, bound / max(float(np.linalg.norm(mean)), 1e-300))
        norm = self._norm(centred_norms(rows, mean), sample, prepared, passage)
        return Centre(tuple(mean.tolist()), norm, count)

    def _norm(
        self, norms: Floats, sample: Sample, prepared: PreparedStep, passage: Passage
    ) -> float:
        mechanism = passage.leaf(1).mechanism
        assert isinstance(mechanism, Exponential)
        candidates = np.arange(1, _STEPS + 1) * (2.0 * float(self.bound) / _STEPS)
        ranks = Ranks(np.minimum(norms, candidates[-1]), candidates, sample.weights)
        # proof: QUANTILE
        scores = ranks.quantile(self.quantile, prepared.public.adjacency)
        return float(candidates[passage.release(scores, 1)])


def centred_norms(rows: Any, mean: Floats) -> Floats:
    """Return the norm of every row minus `mean`, without a dense copy of sparse rows."""
    if not sparse.issparse(rows):
        return np.asarray(np.sqrt(((np.asarray(rows, dtype=float) - mean) ** 2).sum(axis=1)))
    squares = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    moved = squares - 2.0 * (rows @ mean) + float(mean @ mean)
    return np.asarray(np.sqrt(np.maximum(moved, 0.0)))


def centred(rows: Any, mean: Floats, norm: float) -> Floats:
    """Return rows minus the released mean, cut to the released norm: dense."""
    # proof: ROW-LOCAL
    dense = rows.toarray() if sparse.issparse(rows) else np.asarray(rows)
    moved: Floats = clip_rows(dense - np.asarray(mean, dtype=float), norm)
    return moved


class PrivateCentre(RowsTransformer):
    """Subtract a private mean from rows, and cut them at a private quantile of their norms.

    Parameters
    ----------
    epsilon, delta : float
        The budget of one ``fit``; delta > 0.
    norm_bound : float
        R, public; longer rows are scaled down to R first.
    quantile : float
        The share of centred rows that keep their length.
    missing : str
        What a NaN in X does: "refuse" it, or read it as "zero" (row by row, at no cost).
    adjacency : str
        "replace-one" (default), "zero-out" or "add-remove".
    population : int, optional
        Public guess of the number of records, used under add-remove.
    random_state : int, Randomness or None
        None draws secure noise; a number makes the run reproducible, the guarantee void.
    ledger : Ledger, optional
        The budget to charge; None opens one of (epsilon, delta).

    Attributes
    ----------
    released_ : Centre
        The mean, the norm and the number of records behind them.
    privacy_ : Guarantee
        What is promised about everything that was released.

    Examples
    --------
    >>> import numpy as np
    >>> from noisette.pipeline import PrivateCentre
    >>> X = np.random.default_rng(0).uniform(0.3, 0.5, (2000, 2))
    >>> centre = PrivateCentre(epsilon=1.0, delta=1e-6, norm_bound=1.0, random_state=0)
    >>> centre.plan(2000, 2).epsilon <= 1.0
    True
    >>> Z = centre.fit(X).transform(X)
    >>> Z.shape, bool(abs(Z.mean(axis=0)).max() < 0.05)
    ((2000, 2), True)
    >>> centre.get_feature_names_out().tolist()
    ['x0', 'x1']

    """

    _released = "the mean of rows and a quantile of their norms"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        norm_bound: float = 1.0,
        quantile: float = 0.9,
        missing: str = "refuse",
        adjacency: str = "replace-one",
        population: int | None = None,
        random_state: int | Randomness | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.norm_bound = norm_bound
        self.quantile = quantile
        self.missing = missing
        self.adjacency = adjacency
        self.population = population
        self.random_state = random_state
        self.ledger = ledger

    def _step(self, public: PublicBudget, features: int) -> LearnCentre:
        return LearnCentre(features, self._bound(), self.quantile)

    def _map(self, X: Any) -> Any:
        found = self.released_
        rows = bounded_rows(X, self._bound())
        return centred(rows, np.array(found.mean), found.norm)
