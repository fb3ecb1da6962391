"""Batches: those that ran have the law that the plan counts.

Sweeps (disjoint, cyclic, shuffle) are checked exactly: every record at most once in each use.
Random batches are tested: how many records joined in all, how the batch sizes scatter, and how the
counts of the records scatter. Shuffled batches counted as Poisson have no scatter at all.
"""

import contextlib
import math
from typing import Any

import numpy as np
from scipy.stats import binom
from scipy.stats import chi2 as square_law

from noisette.audit.canaries import plain_table
from noisette.audit.whitebox.outcome import Tally
from noisette.audit.whitebox.records import Blind
from noisette.audit.whitebox.subject import AuditedEstimator
from noisette.audit.whitebox.trace import Trace
from noisette.core.adjacency import Adjacency
from noisette.core.sampling import PartialShuffle, RandomAllocation, Sampler, WithoutReplacement
from noisette.core.sampling.base import Participation, PassSampler
from noisette.errors import Unproven

STEPS = 120


def sampling_law(subject: AuditedEstimator, *, alpha: float) -> Tally:
    """Record the batches of a few fits and compare them with the plan's sampler."""
    out = Tally("law of the batches", subject.claim, confidence=1.0 - alpha)
    out.missing = "there is no single sequence of batches"
    data = plain_table(subject.room(), rows=600)
    members: dict[int, list[np.ndarray[Any, Any]]] = {}
    sampler: Sampler | None = None
    for seed in range(40):
        _, trace = subject.fit(data.bare(), seed=seed)
        out.runs += 1
        if not trace.steps:
            return out
        streams = [seen for seen in trace.releases if seen.stream]
        for part, seen in enumerate(streams):
            sampler = seen.sampler
            members.setdefault(part, []).extend(_batches(trace))
        if sum(map(len, members.values())) >= STEPS or isinstance(sampler, PassSampler):
            break
    if sampler is None or len(streams) != 1:
        return out  # several groups share one sequence of steps
    out.applies = True
    persons, n = data.options.get("persons"), len(data.y)
    if persons is not None:
        members[0] = [_whole(batch, persons, out) for batch in members[0]]
        n = len(np.unique(persons))
    _check(members[0], sampler, n, alpha, out)
    out.note = f"{len(members[0])} batches are as {sampler.name} sampling hands them out"
    return out


def _batches(trace: Trace) -> list[np.ndarray[Any, Any]]:
    return [step.batch for step in trace.steps]


def _whole(batch: np.ndarray[Any, Any], persons: Any, out: Tally) -> np.ndarray[Any, Any]:
    """Return the persons of a batch, who must be there with all their rows."""
    drawn = np.unique(persons[batch])
    if not np.array_equal(np.sort(batch), np.flatnonzero(np.isin(persons, drawn))):
        out.fault("a batch has some rows of a person and not others, or one of them twice")
    return drawn


def _check(
    batches: list[np.ndarray[Any, Any]], sampler: Sampler, n: int, alpha: float, out: Tally
) -> None:
    uses = [batches[i : i + sampler.steps] for i in range(0, len(batches), sampler.steps)]
    if any(len(np.unique(batch)) != len(batch) for batch in batches):
        out.fault("a record is twice in one batch")
    if isinstance(sampler, PassSampler | RandomAllocation | PartialShuffle):
        for use in uses:
            joined = np.concatenate(use)
            if len(np.unique(joined)) != len(joined):
                out.fault(f"a record is in several batches of one {sampler.name} use")
    sizes = np.array([len(batch) for batch in batches], dtype=float)
    counts = np.bincount(np.concatenate(batches).astype(int), minlength=n).astype(float)
    tests: list[tuple[float, str]] = []
    part = _counted(sampler)
    if part.kind == "poisson" and part.rate < 1.0:
        q, total = part.rate, float(sizes.sum())
        law = binom(n * len(sizes), q)
        tests.append((2.0 * min(law.cdf(total), law.sf(total - 1.0)), "number of records"))
        tests.append((_scatter(sizes, n * q, n * q * (1.0 - q)), "scatter of batch sizes"))
        mean = len(sizes) * q
        if mean * (1.0 - q) > 3.0:
            tests.append((_scatter(counts, mean, mean * (1.0 - q)), "scatter of participation"))
    elif isinstance(sampler, WithoutReplacement):
        if np.any(sizes != sampler.batch_size):
            out.fault("a batch has another size than was counted")
        q = sampler.batch_size / n
        mean = len(sizes) * q
        if q < 1.0 and mean * (1.0 - q) > 3.0:
            spread = mean * (1.0 - q) * n / (n - 1.0)
            tests.append((_scatter(counts, mean, spread, n - 1), "scatter of participation"))
    elif isinstance(sampler, PartialShuffle):
        if any(sum(map(len, use)) != sampler.used for use in uses):
            out.fault("a round uses another number of records than was counted")
    elif isinstance(sampler, RandomAllocation) and sampler.batches > 1:
        q = 1.0 / sampler.batches
        free = len(uses) * (sampler.batches - 1)
        tests.append((_scatter(sizes, n * q, n * q, free), "scatter of bin sizes"))
    for p, what in tests:
        if p < alpha / len(tests):
            out.fault(f"the {what} is not that of {sampler.name} sampling (p = {p:.1e})")


def _counted(sampler: Sampler) -> Participation:
    """Return how one record takes part, under the first relation for which that is proven."""
    for relation in Adjacency:
        with contextlib.suppress(Unproven):
            return sampler.participation(relation)
    raise Blind(f"{sampler.name} sampling is proven under no relation")


def _scatter(values: np.ndarray[Any, Any], mean: float, variance: float, free: int = 0) -> float:
    """Two-sided p-value of sum (value - mean)^2 / variance against chi-square.

    Counts are discrete: the square of one has variance 2 + 1/variance rather than 2, so the
    statistic is pulled towards its mean by that factor, which errs on the side of no alarm.
    """
    free = free or len(values)
    statistic = float(np.sum((values - mean) ** 2)) / variance
    pulled = free + (statistic - free) / math.sqrt(1.0 + 0.5 / variance)
    law = square_law(free)
    return float(min(1.0, 2.0 * min(law.cdf(pulled), law.sf(pulled))))
