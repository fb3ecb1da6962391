"""The laws of noise and batches: those that ran are those that the plan counts.

Noise is recovered from what was released (`recovered` says how). Tests: the scale (sums of radii
are Gamma, sums of squares chi-square, two-sided), the law of the radius and of the direction
(Kolmogorov-Smirnov), and independence of vectors of the same fit and of successive ones (cosines).
A small dimension shows a wrong shape of the radius, a larger one a wrong scale.

Of batches, sweeps (disjoint, cyclic, shuffle) are checked exactly: every record at most once in
each use. Random ones are tested: how many records joined in all, how the batch sizes scatter, and
how the counts of the records scatter. Shuffled batches counted as Poisson have no scatter at all.

All p-values of a check share one error rate by Bonferroni's inequality.
"""

import contextlib
import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc
from scipy.stats import beta as beta_law
from scipy.stats import binom, kstest
from scipy.stats import chi2 as square_law
from scipy.stats import gamma as radius_law

from noisette._typing import Floats
from noisette.audit.canaries import plain_table
from noisette.audit.findings import Tally
from noisette.audit.whitebox.subject import AuditedEstimator
from noisette.audit.whitebox.theory import CONTRIBUTIONS
from noisette.audit.whitebox.trace import Blind, Trace
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms import Gaussian, LaplaceVector, ObjectiveNoise, SphericalLaplace
from noisette.core.sampling import PartialShuffle, RandomAllocation, Sampler, WithoutReplacement
from noisette.core.sampling.base import Participation, PassSampler
from noisette.errors import Unproven

FEW, MANY = 1, 110
"""Features of the two settings."""
VECTORS = 120
"""In few dimensions: a radius of shape d - 1 is 5 or more deviations off for d <= 4."""
ENTRIES = 6_000
"""In many dimensions: a scale wrong by 10 % is 7.7 deviations off (Gaussian: 10.9)."""
MOST_FITS = 400


def noise_law(subject: AuditedEstimator, *, alpha: float, factor: float = 1.0) -> Tally:
    """Fit until enough noise is recovered in a small and a larger dimension, then test its law."""
    out = Tally("law of the noise", subject.claim, confidence=1.0 - alpha, applies=True)
    tests: list[tuple[float, str]] = []
    for features in (FEW, MANY):
        groups: dict[tuple[str, int, str], list[Floats]] = {}
        # iterative methods make several steps on more rows, each with its own noise
        rows = 600 if "sampling" in subject.parameters else 20
        data = plain_table(subject.room(features), rows=rows)
        for seed in range(MOST_FITS):
            _, trace = subject.fit(data.bare(), seed=seed)
            out.runs += 1
            for name, law, noise in recovered(trace, subject):
                groups.setdefault((name, noise.shape[1], law), []).append(noise)
            if all(
                n >= factor * VECTORS if features == FEW else n >= 30 and n * d >= factor * ENTRIES
                for n, d in ((sum(map(len, fits)), key[1]) for key, fits in groups.items())
            ):
                break
        for (name, dimension, law), fits in groups.items():
            tests += [
                (p, f"{what} of the {name} noise in {dimension} dimensions")
                for p, what in _tests(law, fits)
            ]
    if not tests:
        raise Blind("no noise could be recovered from what was released")
    for p, what in tests:
        out.fault(f"the {what} is not as stated (p = {p:.1e})", p < alpha / len(tests))
    out.note = f"{len(tests)} tests on recovered noise, the smallest p-value is {min(tests)[0]:.2g}"
    return out


def _directions(noise: Floats) -> Floats:
    """Return unit vectors; noise that is exactly 0 has none and stays 0."""
    return np.asarray(noise / np.maximum(np.linalg.norm(noise, axis=1, keepdims=True), 1e-300))


def recovered(trace: Trace, subject: AuditedEstimator) -> Iterator[tuple[str, str, Floats]]:
    """Yield (name, law, noise vectors in units of their stated scale)."""
    a = CONTRIBUTIONS[subject.adjacency.value]
    for seen in trace.releases:
        law: Any = seen.mechanism
        bounded = seen.bounded
        kind = "gaussian" if isinstance(law, Gaussian) else "spherical-laplace"
        unit = bounded.contribution or (bounded.l2 or 0.0) / a
        if isinstance(law, LaplaceVector):  # entry by entry it is spherical noise in one dimension
            name, unit = "counts", (bounded.l1 or 0.0) / a
            noise = np.asarray(seen.result - bounded.value).reshape(-1, 1)
        elif isinstance(law, ObjectiveNoise):
            # first-order inversion, b = -(gradient of the objective) at the released weights
            name, kind, unit = "objective", law.law, bounded.contribution or 0.0
            pairs = zip(trace.solves, trace.releases[-1].result, strict=True)
            noise = np.stack([-solve.problem.gradient(w).ravel() for solve, w in pairs])
        elif not isinstance(law, Gaussian | SphericalLaplace):
            continue
        elif seen.stream:
            # as the kernel got it; `exposed` compares every update with it
            name, noise = "gradient", np.array([step.noise for step in trace.steps])
        else:
            named = {"OUTPUT-SENSITIVITY": "output", "APPROXIMATE-MINIMISER": "hiding"}
            name, entered = named.get(bounded.proof, "array"), bounded.value
            if trace.solves and all(solve.linear is None for solve in trace.solves):
                # of output perturbation, the auditor's own optimum
                entered = np.stack([solve.exact()[0] for solve in trace.solves])
            noise = np.asarray(seen.result - entered).reshape(1, -1)
        yield name, kind, noise / (law.noise_multiplier * unit)


def _two_sided(law: Any, value: float) -> float:
    return float(min(1.0, 2.0 * min(law.cdf(value), law.sf(value))))


def _tests(kind: str, fits: list[Floats]) -> Iterator[tuple[float, str]]:
    """Yield (p-value, what it speaks of) of noise vectors of one law, in units of its scale."""
    vectors = np.concatenate(fits)
    count, d = vectors.shape
    radii = np.linalg.norm(vectors, axis=1)
    if not np.isfinite(radii).all():
        yield 0.0, "finiteness"
        return
    law, sizes = (square_law, radii**2) if kind == "gaussian" else (radius_law, radii)
    yield _two_sided(law(count * d), float(np.sum(sizes))), "scale"
    yield float(kstest(sizes, law(d).cdf).pvalue), "radius"
    if d < 2:
        return
    half = (d - 1) / 2.0
    picked = _directions(vectors)[np.arange(count), np.arange(count) % d]
    yield float(kstest((picked + 1.0) / 2.0, beta_law(half, half).cdf).pvalue), "direction"
    units = [_directions(noise) for noise in fits]
    within = [(unit @ unit.T)[np.triu_indices(len(unit), 1)][:200] for unit in units]
    between = [one[-1] @ two[0] for one, two in itertools.pairwise(units)]
    cosines = np.clip(np.abs(np.concatenate([between, *within])), 0.0, 1.0)
    if len(cosines):
        tail = 2.0 * betainc(half, half, (1.0 - float(cosines.max())) / 2.0)
        yield float(min(1.0, tail * len(cosines))), "independence"


STEPS = 120


def sampling_law(subject: AuditedEstimator, *, alpha: float) -> Tally:
    """Fit until there are enough batches, then compare them with the plan's sampler."""
    out = Tally(
        "law of the batches", subject.claim, confidence=1.0 - alpha,
        missing="there is no single sequence of batches",
    )  # fmt: skip
    data = plain_table(subject.room(), rows=600)
    batches: list[NDArray[Any]] = []
    for seed in range(40):
        _, trace = subject.fit(data.bare(), seed=seed)
        out.runs += 1
        streams = [seen for seen in trace.releases if seen.stream]
        if not trace.steps or len(streams) != 1:
            return out
        sampler = streams[0].sampler
        batches += [_whole(step.batch, data.owners, out) for step in trace.steps]
        if len(batches) >= STEPS or isinstance(sampler, PassSampler):
            break
    out.applies = True
    _check(batches, sampler, len(np.unique(data.owners)), alpha, out)
    out.note = f"{len(batches)} batches are as {sampler.name} sampling hands them out"
    return out


def _whole(batch: NDArray[Any], owners: NDArray[Any], out: Tally) -> NDArray[Any]:
    """Return the records or persons of a batch, who must be there once, with all their rows."""
    drawn = np.unique(owners[batch])
    out.fault(
        "a batch has a row twice, or some rows of a person and not others",
        not np.array_equal(np.sort(batch), np.flatnonzero(np.isin(owners, drawn))),
    )
    return drawn


def _check(batches: list[NDArray[Any]], sampler: Sampler, n: int, alpha: float, out: Tally) -> None:
    uses = [batches[i : i + sampler.steps] for i in range(0, len(batches), sampler.steps)]
    if isinstance(sampler, PassSampler | RandomAllocation | PartialShuffle):
        out.fault(
            f"a record is in several batches of one {sampler.name} use",
            any(len(np.unique(use)) != len(use) for use in map(np.concatenate, uses)),
        )
    sizes = np.array([len(batch) for batch in batches], dtype=float)
    counts = np.bincount(np.concatenate(batches).astype(int), minlength=n).astype(float)
    tests: list[tuple[float, str]] = []
    part = _counted(sampler)
    if part.kind == "poisson" and part.rate < 1.0:
        q, total = part.rate, float(sizes.sum())
        law = binom(n * len(sizes), q)
        tests += [
            (2.0 * min(law.cdf(total), law.sf(total - 1.0)), "number of records"),
            (_scatter(sizes, n * q, n * q * (1.0 - q)), "scatter of batch sizes"),
        ]
        mean = len(sizes) * q
        if mean * (1.0 - q) > 3.0:
            tests.append((_scatter(counts, mean, mean * (1.0 - q)), "scatter of participation"))
    elif isinstance(sampler, WithoutReplacement):
        out.fault("a batch has another size than was counted", np.any(sizes != sampler.batch_size))
        q = sampler.batch_size / n
        mean = len(sizes) * q
        if q < 1.0 and mean * (1.0 - q) > 3.0:
            spread = mean * (1.0 - q) * n / (n - 1.0)
            tests.append((_scatter(counts, mean, spread, n - 1), "scatter of participation"))
    elif isinstance(sampler, PartialShuffle):
        out.fault(
            "a round uses another number of records than was counted",
            any(sum(map(len, use)) != sampler.used for use in uses),
        )
    elif isinstance(sampler, RandomAllocation) and sampler.batches > 1:
        q = 1.0 / sampler.batches
        free = len(uses) * (sampler.batches - 1)
        tests.append((_scatter(sizes, n * q, n * q, free), "scatter of bin sizes"))
    for p, what in tests:
        out.fault(
            f"the {what} is not that of {sampler.name} sampling (p = {p:.1e})",
            p < alpha / len(tests),
        )


def _counted(sampler: Sampler) -> Participation:
    """Return how one record takes part, under the first relation for which that is proven."""
    for relation in Adjacency:
        with contextlib.suppress(Unproven):
            return sampler.participation(relation)
    raise Blind(f"{sampler.name} sampling is proven under no relation")


def _scatter(values: NDArray[Any], mean: float, variance: float, free: int = 0) -> float:
    """Two-sided p-value of sum (value - mean)^2 / variance against chi-square.

    Counts are discrete: the square of one has variance 2 + 1/variance rather than 2, so the
    statistic is pulled towards its mean by that factor, which errs on the side of no alarm.
    """
    free = free or len(values)
    statistic = float(np.sum((values - mean) ** 2)) / variance
    return _two_sided(square_law(free), free + (statistic - free) / math.sqrt(1.0 + 0.5 / variance))
