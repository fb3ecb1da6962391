"""The direct method: noisy SGD with many passes, every sampler counted by its own theorem.

One use of the sampler hands out its batches; the plan is that use, repeated. The noise is the least
one that the accountants certify for (epsilon, delta). ``released="all"`` counts every iterate;
``released="last"`` counts only the last one, for plain SGD with a constant learning rate on a
smooth convex loss with rows swept once per epoch (LAST-ITERATE-GCM), and refuses anything else.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette import _validate, accounting
from noisette.adjacency import Adjacency
from noisette.errors import InvalidParameter, Unproven
from noisette.mechanisms import Gaussian, SphericalLaplace
from noisette.mechanisms.base import on_grid
from noisette.plans import LastIterate, Noisy, Plan, Repeat, Sampled
from noisette.privacy import Ledger, release
from noisette.randomness import Randomness
from noisette.sampling import (
    Cyclic,
    Disjoint,
    FullBatch,
    PartialShuffle,
    Poisson,
    RandomAllocation,
    Sampler,
    Shuffle,
    WithoutReplacement,
)
from noisette.training.common import Trained, check_scale
from noisette.training.single_pass import run_blocks, shares_of
from noisette.training.steps import Batches, Progress, State, Update, loss_parameter

__all__ = ["make_sampler", "noisy_sgd", "plan_for"]

Floats = NDArray[np.float64]

PART_OF_SHUFFLE = 0.1
"""The poster's tau for ``sampling="partial-shuffle"``: the used fraction of each shuffle."""

_LAST_NAMES = {
    "logistic": "logistic", "huber_hinge": "huber_hinge", "softplus_hinge": "softplus",
    "softmax": "softmax",
}  # fmt: skip
_BATCHED_USES = 64  # one-step samplers are run in blocks of so many steps


def make_sampler(name: str, size: int, batch_size: int, epochs: int) -> tuple[Sampler, int]:
    """Return the sampler of that name and how often it is used.

    `size` is n, or its public estimate where n is private.
    """
    batches = -(-size // batch_size)
    if name == "full":
        return FullBatch(), epochs
    if name == "poisson":
        return Poisson(min(1.0, batch_size / size)), epochs * batches
    if name == "without-replacement":
        return WithoutReplacement(batch_size, size), epochs * batches
    if name == "random-allocation":
        return RandomAllocation(batches), epochs
    if name == "shuffle":
        return Shuffle.of_size(size, batch_size), epochs
    if name == "cyclic":
        return Cyclic.of_size(size, batch_size), epochs
    if name == "partial-shuffle":
        used = min(max(batch_size, int(PART_OF_SHUFFLE * size)), size - 1)
        return PartialShuffle(used, size, min(batch_size, used)), math.ceil(epochs * size / used)
    if name == "disjoint":
        if epochs != 1:
            raise InvalidParameter(
                f"disjoint sampling is a single pass; got epochs={epochs}, for which 'cyclic' or "
                "'random-allocation' sampling is meant."
            )
        return Disjoint.of_size(size, batch_size), 1
    _validate.choice("sampling", name, (
        "disjoint", "full", "poisson", "without-replacement", "random-allocation", "shuffle",
        "cyclic", "partial-shuffle",
    ))  # fmt: skip
    raise AssertionError("unreachable")


def plan_for(
    update: Update, sampler: Sampler, uses: int, *, noise: str, dimension: int, released: str,
    adjacency: Adjacency, size: int | None,
) -> Callable[[float], Plan]:  # fmt: skip
    """Return the plan as a function of the noise multiplier; refuse what has no proof."""
    if released == "last":
        _check_last(update, sampler, noise, adjacency)
        return lambda z: LastIterate(
            Gaussian(z), sampler, epochs=uses, loss=_LAST_NAMES[update.loss.name],
            learning_rate=update.eta0, regularization=update.regularization,
            norm_bound=update.row_bound, loss_parameter=loss_parameter(update.loss),
            size=None if isinstance(sampler, FullBatch) else size,
        )  # fmt: skip

    def plan(z: float) -> Plan:
        mechanism = Gaussian(z) if noise == "gaussian" else SphericalLaplace(z, dimension)
        step = Sampled(mechanism, sampler)
        return step if uses == 1 else Repeat(step, uses)

    return plan


def _check_last(update: Update, sampler: Sampler, noise: str, adjacency: Adjacency) -> None:
    """Refuse by name whatever the last-iterate theorem does not cover."""
    reasons = (
        (noise != "gaussian", "Gaussian noise (delta > 0)"),
        (
            not isinstance(sampler, Cyclic | Shuffle | FullBatch),
            "cyclic, shuffle or full sampling",
        ),
        (adjacency is Adjacency.ADD_REMOVE, "replace-one or zero-out neighbours"),
        (update.loss.name not in _LAST_NAMES, "a smooth loss, which the hinge is not"),
        (update.learning_rate != "constant", "learning_rate='constant'"),
        (update.averaging is not None, "averaging=False, since a mean reveals earlier iterates"),
        (update.norm_bound is None, "a norm_bound, which bounds the curvature"),
        (
            update.loss.kind == "multiclass" and update.clip_norm is not None,
            "softmax without clip_norm, since clipped softmax gradients have no potential",
        ),
    )
    for wrong, needed in reasons:
        if wrong:
            raise Unproven(
                f"released='last' is proven only with {needed}; change that, or use released='all'."
            )
    largest = 2.0 / (update.loss.smoothness * update.row_bound**2 + update.regularization)
    if update.eta0 > largest:
        raise Unproven(
            f"released='last' is proven only for learning rates up to 2/M = {largest:.6g}; "
            f"got eta0={update.eta0:g}."
        )


def noisy_sgd(
    X: Any,
    y: NDArray[Any],
    update: Update,
    randomness: Randomness,
    *,
    sampler: Sampler,
    uses: int,
    ledger: Ledger,
    epsilon: float,
    delta: float,
    population: int | None = None,
    noise: str = "gaussian",
    released: str = "all",
    levels: Floats | None = None,
    sample_weight: Floats | None = None,
    multiplier: float | None = None,
    record: list[NDArray[np.intp]] | None = None,
    label: str = "noisy SGD",
    verbose: int = 0,
) -> Trained:
    """Return the weights after `uses` uses of `sampler`.

    `population` is the public number that stands for n in normalisers where n is private.
    `sample_weight` in [0, 1] scales everyone's gradient; give it or `levels`.
    `multiplier` is a noise multiplier that was calibrated before; the charge checks it.
    `record` collects the batches that ran, for tests.
    """
    n, features = X.shape
    dimension, adjacency = update.dimension(features), ledger.adjacency
    size = n if adjacency.size_is_public else _validate.integer("population", population)
    make = plan_for(
        update, sampler, uses, noise=noise, dimension=dimension, released=released,
        adjacency=adjacency, size=size,
    )  # fmt: skip
    update.check(X, y, levels, sample_weight)
    if adjacency.size_is_public:
        sampler.check(n)
    once = sampler.participation(adjacency).kind == "once" and released == "all"
    if levels is not None and not once:
        raise Unproven(
            "sample_epsilon is proven where every person takes part once per pass and all "
            "iterates count; use disjoint, cyclic, shuffle or full sampling, released='all'."
        )
    share, scaled = shares_of(levels, sample_weight, epsilon, delta, noise)
    if multiplier is None:
        multiplier = accounting.calibrate(make, epsilon=epsilon, delta=delta, adjacency=adjacency)
    plan = make(multiplier)
    for leaf, _ in plan.leaves():
        assert isinstance(leaf, Noisy)
        check_scale(leaf.mechanism, update.contribution)
    permit = ledger.charge(
        plan, label=label, delta=delta, epsilon=epsilon, seeded=randomness.seeded
    )
    # proof: CLIP
    stream = release(update.bounded(features, adjacency, "CLIP"), permit, randomness)
    state, progress = State.zero(dimension), Progress(verbose, plan.draws)
    normaliser, done = sampler.normaliser(size), 0
    while done < uses:
        together = min(uses - done, _BATCHED_USES if sampler.steps == 1 else 1)
        scheduled: list[NDArray[np.intp]] = []
        for _ in range(together):
            scheduled.extend(sampler.schedule(n, randomness))
        done += together
        if record is not None:
            record.extend(scheduled)
        run_blocks(
            X, y, update, state, stream, Batches.of(scheduled, normaliser), share, progress,
            rounded=released == "all",
        )  # fmt: skip
    if released == "last":
        # Only the last iterate leaves, so only it is rounded: post-processing of that iterate.
        step = 2.0 ** math.floor(math.log2(stream.grid * update.eta0 / normaliser))
        state.w = on_grid(state.w, step)  # proof: FLOAT-GRID
    return Trained([state.result(update, features)], permit, proofs=scaled)
