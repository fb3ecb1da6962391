"""What a plan means for a training loop: its sampler, its noise, its batches in order."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette.errors import InvalidData, InvalidParameter, Unproven
from noisette.mechanisms import Gaussian
from noisette.nn.group import INDEPENDENT, Group
from noisette.plans import Noisy, Parallel, Plan, Repeat
from noisette.randomness import Randomness
from noisette.sampling import Cyclic, Poisson, Sampler

__all__ = ["Batches", "Run", "part_of", "run_of"]

Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Run:
    """`uses` uses of a sampler with one Gaussian; several samplers where people have levels."""

    mechanism: Gaussian
    samplers: tuple[Sampler, ...]
    uses: int

    @property
    def sampler(self) -> Sampler:
        """The sampler (that of the first group)."""
        return self.samplers[0]

    @property
    def steps(self) -> int:
        """How many noisy steps the run has."""
        return self.uses * self.sampler.steps


def run_of(plan: Plan) -> Run:
    """Return the run that `plan` describes; refuse plans that are no training loop."""
    parts = [_single(part) for part in (plan.plans if isinstance(plan, Parallel) else (plan,))]
    mechanism, _, uses = parts[0]
    if len(parts) > 1:
        for other, chosen, times in parts:
            if other != mechanism or times != uses or not isinstance(chosen, Poisson):
                raise Unproven(
                    "personal levels are proven for Poisson batches with one noise and one number "
                    "of steps for all groups; use make_level_plan."
                )
    return Run(mechanism, tuple(chosen for _, chosen, _ in parts), uses)


def _single(plan: Plan) -> tuple[Gaussian, Sampler, int]:
    uses = 1
    while isinstance(plan, Repeat):
        uses, plan = uses * plan.times, plan.plan
    # A subclass such as LastIterate promises something about what is released.
    if not isinstance(plan, Noisy) or plan.name not in ("sampled", "run"):
        raise Unproven("a network is trained by a repeated Sampled(Gaussian, sampler) plan.")
    if not isinstance(plan.mechanism, Gaussian):
        raise Unproven(f"{plan.mechanism.name} noise is not offered for networks; use a Gaussian.")
    return plan.mechanism, plan.sampler, uses


class Batches:
    """The batches of a run over the records of all ranks."""

    def __init__(self, run: Run, sizes: list[int], groups: Any, group: Group) -> None:
        self._run, self._sizes, self._group = run, sizes, group
        self._members: list[Indices] | None = None
        if len(run.samplers) > 1:
            self._members = _members(groups, sizes[group.rank], len(run.samplers))
        elif groups is not None:
            raise InvalidParameter("groups are for plans with personal levels (make_level_plan).")
        if run.sampler.name not in INDEPENDENT:
            # A mismatch between plan and data must show before anything is charged.
            next(iter(run.sampler.schedule(sum(sizes), Randomness.secure())))

    def normaliser(self, public: int) -> float:
        """Return the public number by which a noisy sum is divided."""
        if self._members is None:
            return self._run.sampler.normaliser(public)
        counts = np.sum(self._group.gathered([len(rows) for rows in self._members]), axis=0)
        pairs = zip(self._run.samplers, counts, strict=True)
        return float(sum(sampler.normaliser(int(count)) for sampler, count in pairs))

    def from_step(self, drawn: int, randomness: Randomness) -> Iterator[Indices]:
        """Yield the batches after `drawn` steps.

        A started pass in a secret order cannot be taken up, since the order is not kept: drawing it
        again could use a record twice in one pass. The rest of that pass is run on nobody, so that
        the count of draws keeps telling how many passes have begun, however often a run is killed.
        """
        # proof: RESUME
        first, skip = divmod(drawn, self._run.sampler.steps)
        if skip and not isinstance(self._run.sampler, Cyclic):
            for _ in range(skip, self._run.sampler.steps):
                yield np.empty(0, dtype=np.intp)
            first, skip = first + 1, 0
        for use in range(first, self._run.uses):
            for number, rows in enumerate(self._one_use(randomness)):
                if use > first or number >= skip:
                    yield rows

    def _one_use(self, randomness: Randomness) -> Iterator[Indices]:
        if self._members is None:
            yield from self._group.schedule(self._run.sampler, self._sizes, randomness)
            return
        # proof: SAMPLE-LEVELS
        drawn = [
            members[next(sampler.schedule(len(members), randomness))]
            for sampler, members in zip(self._run.samplers, self._members, strict=True)
            if len(members)
        ]
        yield np.sort(np.concatenate(drawn)) if drawn else np.empty(0, dtype=np.intp)


def _members(groups: Any, size: int, count: int) -> list[Indices]:
    numbers = np.asarray(groups)
    if numbers.shape != (size,) or numbers.dtype.kind not in "iu":
        raise InvalidData("groups must hold one whole number for each record.")
    if numbers.size and not (numbers.min() >= 0 and numbers.max() < count):
        raise InvalidData(f"groups must be numbered 0 to {count - 1}, as in the plan.")
    return [np.flatnonzero(numbers == each) for each in range(count)]


def part_of(batch: Any, rows: Indices, chosen: slice, copies: int) -> Any:
    """Return the part of a batch that belongs to ``rows[chosen]``."""
    if callable(batch):
        return batch(rows[chosen])
    whole = chosen.start == 0 and chosen.stop == len(rows)
    cut = slice(chosen.start * copies, chosen.stop * copies)

    def take(rows_of: Any) -> Any:
        try:
            count = len(rows_of)
        except TypeError:
            raise InvalidData("every part of a batch must have a row for each record.") from None
        if count != len(rows) * copies:
            raise InvalidData(
                "the batch must hold exactly the records that batches() handed out, in that order."
            )
        return rows_of if whole else rows_of[cut]

    return _mapped(take, batch)


def _mapped(take: Callable[[Any], Any], batch: Any) -> Any:
    if isinstance(batch, Mapping):
        return {name: _mapped(take, part) for name, part in batch.items()}
    if isinstance(batch, tuple | list):
        return type(batch)(_mapped(take, part) for part in batch)
    return take(batch)
