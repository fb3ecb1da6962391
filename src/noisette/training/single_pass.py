"""The 2013 algorithm: one pass of noisy SGD over disjoint batches (Song, Chaudhuri, Sarwate).

Every person is in one batch, so by parallel composition (PARALLEL) the whole pass, all iterates
included, costs one use of the noise. With spherical Laplace noise of density exp(-kappa ||z||) on
the batch *sum* it is purely private with epsilon = kappa C under zero-out and 2 kappa C under
replace-one. Neither the learning rate nor the batch size enters: they only rescale a noisy sum.

People may have own levels epsilon_i <= epsilon, public by declaration:

- "scale": the gradient of person i is multiplied by c_i = epsilon_i / epsilon under one noise, so
  the sum moves by 2 c_i C and the loss is epsilon_i (PER-PERSON-SCALE);
- "batches": people of equal level share batches that have their own noise (PARALLEL-GROUPS).
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette.adjacency import Adjacency
from noisette.errors import InvalidParameter
from noisette.mechanisms import Gaussian, SphericalLaplace
from noisette.mechanisms.gaussian_curve import gdp_mu
from noisette.plans import Parallel, Plan, Sampled
from noisette.privacy import Ledger, Permit, release
from noisette.privacy.door import NoiseStream
from noisette.randomness import Randomness
from noisette.sampling import Disjoint
from noisette.training.common import Trained, check_scale
from noisette.training.steps import Batches, Progress, State, Update, advance

__all__ = ["Levels", "level_shares", "noise_for_one_use", "shares_of", "single_pass"]

Floats = NDArray[np.float64]
Noise = SphericalLaplace | Gaussian

MOST_GROUPS = 100
_RUN = 8  # neighbours that stay together in a random order, so that memory is read in runs
_WORTH_A_THREAD = 1 << 19  # entries of noise, some 5 ms


def noise_for_one_use(
    noise: str, epsilon: float, delta: float, dimension: int, adjacency: Adjacency
) -> Noise:
    """Return the least noise of that law for one use within (epsilon, delta)."""
    if noise == "gaussian":
        return Gaussian.calibrated(epsilon, delta, adjacency)
    return SphericalLaplace.calibrated(epsilon, delta, dimension=dimension, adjacency=adjacency)


def level_shares(levels: Floats, epsilon: float, delta: float, law: str) -> Floats:
    """Return c_i: the largest share of a gradient that costs person i at most levels[i].

    Pure: c = epsilon_i / epsilon. Gaussian: c = mu(epsilon_i, delta) / mu(epsilon, delta), since
    mu is proportional to the shift. `epsilon` is the public largest level.
    """
    # proof: PER-PERSON-SCALE
    if delta == 0.0:
        shares = levels / epsilon
    elif law == "gaussian":
        distinct, where = np.unique(levels, return_inverse=True)
        top = gdp_mu(epsilon, delta)
        shares = np.array([gdp_mu(float(level), delta) / top for level in distinct])[where]
    else:
        raise InvalidParameter(
            "sample_epsilon with delta > 0 needs noise='gaussian', or grouping='batches'."
        )
    return np.asarray(np.minimum(shares * (1.0 - 1e-12), 1.0))


def shares_of(
    levels: Floats | None, sample_weight: Floats | None, epsilon: float, delta: float, law: str
) -> tuple[Floats | None, tuple[str, ...]]:
    """Return by what everyone's gradient is multiplied (None: by 1), and the theorems for it."""
    if levels is not None:
        proofs = ("PER-PERSON-SCALE", *(("FILTER-GDP",) if law == "gaussian" else ()))
        return level_shares(levels, epsilon, delta, law), proofs
    if sample_weight is not None:
        return sample_weight, ("SAMPLE-WEIGHT",)  # proof: SAMPLE-WEIGHT
    return None, ()


@dataclass(frozen=True)
class Levels:
    """Everyone's own epsilon: public numbers, one per record, and how they are honoured."""

    values: Floats
    grouping: str = "scale"


def single_pass(
    X: Any,
    y: NDArray[Any],
    update: Update,
    randomness: Randomness,
    *,
    ledger: Ledger,
    epsilon: float,
    delta: float = 0.0,
    batch_size: int,
    noise: str = "spherical-laplace",
    permute: bool = False,
    levels: Levels | None = None,
    sample_weight: Floats | None = None,
    label: str = "one pass of SGD",
    verbose: int = 0,
) -> Trained:
    """Return the weights after one private pass over the rows.

    `X` is dense (C order) or canonical CSR, `y` holds -1 and +1 (class numbers for softmax).
    Batches have `batch_size` records; a smaller last one is divided by `batch_size` all the same.
    `sample_weight` in [0, 1] scales everyone's gradient; give it or `levels`.
    """
    n, features = X.shape
    dimension, adjacency = update.dimension(features), ledger.adjacency
    update.check(X, y, None if levels is None else levels.values, sample_weight)
    if levels is not None and levels.grouping == "batches":
        groups = _groups(levels.values)
    else:
        groups = [(epsilon, None)]
    sizes = [n if members is None else len(members) for _, members in groups]
    leaves = [
        Sampled(
            noise_for_one_use(noise, level, delta, dimension, adjacency),
            Disjoint.of_size(size, min(batch_size, size)),
        )
        for (level, _), size in zip(groups, sizes, strict=True)
    ]
    if permute:
        leaves = [_permuted(leaf) for leaf in leaves]
    plan: Plan = leaves[0] if len(leaves) == 1 else Parallel(*leaves)
    scale = levels.values if levels is not None and levels.grouping == "scale" else None
    share, scaled = shares_of(scale, sample_weight, epsilon, delta, noise)
    for leaf in leaves:
        check_scale(leaf.mechanism, update.contribution)
    permit = ledger.charge(
        plan, label=label, delta=delta, epsilon=epsilon, seeded=randomness.seeded
    )
    state = State.zero(dimension)
    progress = Progress(verbose, plan.draws)
    if len(leaves) == 1:
        run_pass(X, y, update, state, permit, randomness, batch_size, share, progress)
    else:
        _run_groups(X, y, update, state, permit, randomness, groups, batch_size, progress)
    return Trained([state.result(update, features)], permit, proofs=("CLIP", *scaled))


def _permuted(leaf: Sampled) -> Sampled:
    sampler = leaf.sampler
    assert isinstance(sampler, Disjoint)
    shuffled = Disjoint(sampler.batches, sampler.batch_size, permute=True, run=_RUN)
    return Sampled(leaf.mechanism, shuffled)


def run_pass(
    X: Any, y: NDArray[Any], update: Update, state: State, permit: Permit,
    randomness: Randomness, batch_size: int, share: Floats | None, progress: Progress,
) -> None:  # fmt: skip
    """Draw and run every batch of a one-leaf plan."""
    n, features = X.shape
    sampler = permit.leaf(0).sampler
    assert isinstance(sampler, Disjoint)
    edges = sampler.edges(n)
    order = np.empty(0, dtype=np.int64)  # the given order, without a list of n numbers
    if sampler.permute:
        order = sampler.order(n, randomness).astype(np.int64, copy=False)
    batches = Batches(edges, np.full(len(edges) - 1, float(batch_size)), order)
    # proof: PARALLEL
    stream = release(update.bounded(features, permit.adjacency, "PARALLEL"), permit, randomness)
    run_blocks(X, y, update, state, stream, batches, share, progress)


def run_blocks(
    X: Any, y: NDArray[Any], update: Update, state: State, stream: NoiseStream,
    batches: Batches, share: Floats | None, progress: Progress, *, rounded: bool = True,
) -> None:  # fmt: skip
    """Feed blocks of noise to the kernel."""
    grid = stream.grid if rounded else 0.0
    blocks = list(batches.blocks(stream.dimension))
    for block, noise in zip(blocks, _drawn(stream, [len(b) for b in blocks]), strict=True):
        advance(update, state, X, y, block, noise, grid, share)
        progress.show(state.steps)


def _drawn(stream: NoiseStream, counts: list[int]) -> Iterator[Floats]:
    """Yield blocks of noise; long runs draw the next block while the kernel uses this one."""
    if sum(counts) * stream.dimension < _WORTH_A_THREAD:
        yield from (stream.take(count) for count in counts)
        return
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(stream.take, counts[0])
        for count in counts[1:]:
            noise, pending = pending.result(), pool.submit(stream.take, count)
            yield noise
        yield pending.result()


def _groups(values: Floats) -> list[tuple[float, NDArray[np.int64] | None]]:
    """Return (level, members) for every level; levels are public."""
    distinct, where = np.unique(values, return_inverse=True)
    if len(distinct) > MOST_GROUPS:
        raise InvalidParameter(
            f"grouping='batches' takes at most {MOST_GROUPS} levels; round sample_epsilon down, "
            "or use grouping='scale'."
        )
    return [(float(level), np.flatnonzero(where == k)) for k, level in enumerate(distinct)]


def _run_groups(
    X: Any, y: NDArray[Any], update: Update, state: State, permit: Permit,
    randomness: Randomness, groups: list[tuple[float, NDArray[np.int64] | None]],
    batch_size: int, progress: Progress,
) -> None:  # fmt: skip
    """Run the batches of all levels, evenly mixed; the mixture depends on public sizes only."""
    features = X.shape[1]
    turns: list[tuple[float, int]] = []
    streams, schedules = [], []
    for part, (_, members) in enumerate(groups):
        assert members is not None
        sampler = permit.leaf(part).sampler
        steps = sampler.steps
        turns += [((t + 0.5) / steps, part) for t in range(steps)]
        # proof: PARALLEL-GROUPS
        bounded = update.bounded(features, permit.adjacency, "PARALLEL-GROUPS")
        streams.append(release(bounded, permit, randomness, part=part))
        schedules.append(_members(sampler, members, randomness))
    for _, part in sorted(turns):
        batch = Batches.of([next(schedules[part])], batch_size)
        noise = streams[part].take(1)
        advance(update, state, X, y, batch, noise, streams[part].grid)
        progress.show(state.steps)


def _members(
    sampler: Any, members: NDArray[np.int64], randomness: Randomness
) -> Iterator[NDArray[np.intp]]:
    for batch in sampler.schedule(len(members), randomness):
        yield members[batch]
