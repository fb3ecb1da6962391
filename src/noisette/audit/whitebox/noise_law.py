"""The law of the noise, recovered from what was released.

* output perturbation: released weights minus the auditor's own optimum;
* objective perturbation: first-order inversion, b = -(gradient of the objective) at the released
  weights;
* SGD: each update solved for its noise; other arrays: what left the door minus what entered.

Tests: the scale (sums of radii are Gamma, sums of squares chi-square, two-sided), the law of the
radius and of the direction (Kolmogorov-Smirnov), and independence of vectors of the same fit and of
successive ones (cosines). All p-values share one error rate by Bonferroni's inequality. A small
dimension shows a wrong shape of the radius, a larger one a wrong scale.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import betainc
from scipy.stats import beta as beta_law
from scipy.stats import chi2 as square_law
from scipy.stats import gamma as radius_law
from scipy.stats import kstest

from noisette._typing import Floats
from noisette.audit.canaries import plain_table
from noisette.audit.whitebox.outcome import Tally
from noisette.audit.whitebox.records import Blind, Release
from noisette.audit.whitebox.subject import AuditedEstimator
from noisette.audit.whitebox.theory import CONTRIBUTIONS
from noisette.audit.whitebox.trace import Trace
from noisette.core.mechanisms import Gaussian, LaplaceVector, ObjectiveNoise, SphericalLaplace
from noisette.core.mechanisms.base import AdditiveNoise

FEW, MANY = 1, 110
"""Features of the two settings."""
VECTORS = 120
"""In few dimensions: a radius of shape d - 1 is 5 or more deviations off for d <= 4."""
ENTRIES = 6_000
"""In many dimensions: a scale wrong by 10 % is 7.7 deviations off (Gaussian: 10.9)."""
MOST_FITS = 400


@dataclass
class NoiseGroup:
    """Noise vectors of one law and dimension, in units of the stated scale."""

    law: str
    vectors: list[Floats] = field(default_factory=list)
    cosines: list[float] = field(default_factory=list)


def noise_law(subject: AuditedEstimator, *, alpha: float, factor: float = 1.0) -> Tally:
    """Fit until enough noise is recovered in a small and a larger dimension, then test its law."""
    out = Tally("law of the noise", subject.claim, confidence=1.0 - alpha)
    tests: list[tuple[float, str]] = []
    for features in (FEW, MANY):
        groups: dict[tuple[str, int, str], NoiseGroup] = {}
        # iterative methods make several steps on more rows, each with its own noise
        rows = 600 if "sampling" in subject.parameters else 20
        data = plain_table(subject.room(features), rows=rows)
        for seed in range(MOST_FITS):
            _, trace = subject.fit(data.bare(), seed=seed)
            out.runs += 1
            for name, law, noise in recovered(trace, subject):
                _collect(groups.setdefault((name, noise.shape[1], law), NoiseGroup(law)), noise)
            if all(_enough(group, features, factor) for group in groups.values()):
                break
        for (name, dimension, _), group in groups.items():
            for p, what in _tests(group):
                tests.append((p, f"{what} of the {name} noise in {dimension} dimensions"))
    if not tests:
        raise Blind("no noise could be recovered from what was released")
    out.applies = True
    for p, what in tests:
        if p < alpha / len(tests):
            out.fault(f"the {what} is not as stated (p = {p:.1e})")
    smallest = min((p for p, _ in tests), default=1.0)
    out.note = f"{len(tests)} tests on recovered noise, the smallest p-value is {smallest:.2g}"
    return out


def _collect(group: NoiseGroup, noise: Floats) -> None:
    unit = _directions(noise)
    if group.vectors:
        group.cosines.append(float(_directions(group.vectors[-1][None])[0] @ unit[0]))
    cos = unit @ unit.T
    group.cosines.extend(cos[np.triu_indices(len(unit), 1)][:200].tolist())
    group.vectors.extend(noise)


def _directions(noise: Floats) -> Floats:
    """Return unit vectors; noise that is exactly 0 has none and stays 0."""
    return np.asarray(noise / np.maximum(np.linalg.norm(noise, axis=1, keepdims=True), 1e-300))


def _enough(group: NoiseGroup, features: int, factor: float) -> bool:
    count, size = len(group.vectors), group.vectors[0].size
    if features == FEW:
        return count >= factor * VECTORS
    return count >= 30 and count * size >= factor * ENTRIES


def recovered(trace: Trace, subject: AuditedEstimator) -> Iterator[tuple[str, str, Floats]]:
    """Yield (name, law, noise vectors in units of their stated scale)."""
    a = CONTRIBUTIONS[subject.adjacency.value]
    for seen in trace.releases:
        law = seen.mechanism
        if isinstance(law, LaplaceVector):  # entry by entry it is spherical noise in one dimension
            scale = law.noise_multiplier * (seen.bounded.l1 or 0.0) / a
            noise = np.asarray(seen.result - seen.bounded.value).reshape(-1, 1)
            yield "counts", "spherical-laplace", noise / scale
            continue
        if not isinstance(law, AdditiveNoise):
            continue
        if isinstance(law, ObjectiveNoise):
            scale = law.noise_multiplier * (seen.bounded.contribution or 0.0)
            yield "objective", law.law, _inverted(trace) / scale
            continue
        if not isinstance(law, Gaussian | SphericalLaplace):
            continue
        kind = "gaussian" if isinstance(law, Gaussian) else "spherical-laplace"
        unit = seen.bounded.contribution or (seen.bounded.l2 or 0.0) / a
        if seen.stream:
            noise = _from_steps(trace)
            if len(noise):
                yield "gradient", kind, noise / (law.noise_multiplier * unit)
            continue
        name = {"OUTPUT-SENSITIVITY": "output", "APPROXIMATE-MINIMISER": "hiding"}
        noise = np.asarray(seen.result - _entered(seen, trace)).reshape(1, -1)
        yield name.get(seen.bounded.proof, "array"), kind, noise / (law.noise_multiplier * unit)


def _entered(seen: Release, trace: Trace) -> Any:
    """What the noise was added to: the auditor's own optimum for output perturbation."""
    if trace.solves and all(solve.linear is None for solve in trace.solves):
        return np.stack([s.problem().solve(None, start=s.weights)[0] for s in trace.solves])
    return seen.bounded.value


def _inverted(trace: Trace) -> Floats:
    """First-order inversion at the released weights, one row for each model."""
    released = trace.releases[-1].result
    return np.stack(
        [-s.problem().gradient(w).ravel() for s, w in zip(trace.solves, released, strict=True)]
    )


def _from_steps(trace: Trace) -> Floats:
    """Each update solved for its noise; where it was projected, the noise as the kernel got it.

    To leave those out would keep the small noise only. `exposed` compares every update, projected
    or not, with the noise that the kernel got.
    """
    found = []
    for step in trace.steps:
        public = step.update
        rate = float(public.rates(step.number, 1)[0])
        kept = (1.0 - rate * public.regularization) * step.w
        if float(np.linalg.norm(step.after)) < public.radius * (1.0 - 1e-9):
            found.append((kept - step.after) * step.normaliser / rate - step.total)
        else:
            found.append(step.noise)
    return np.array(found).reshape(len(found), -1) if found else np.empty((0, 1))


def _two_sided(law: Any, value: float) -> float:
    return float(min(1.0, 2.0 * min(law.cdf(value), law.sf(value))))


def _tests(group: NoiseGroup) -> Iterator[tuple[float, str]]:
    """Yield (p-value, what it speaks of)."""
    vectors = np.array(group.vectors)
    count, d = vectors.shape
    radii = np.linalg.norm(vectors, axis=1)
    if not np.isfinite(radii).all():
        yield 0.0, "finiteness"
        return
    if group.law == "gaussian":
        yield _two_sided(square_law(count * d), float(np.sum(radii**2))), "scale"
        shape = kstest(radii**2, square_law(d).cdf)
    else:
        yield _two_sided(radius_law(count * d), float(np.sum(radii))), "scale"
        shape = kstest(radii, radius_law(d).cdf)
    yield float(shape.pvalue), "radius"
    if d < 2:
        return
    half = (d - 1) / 2.0
    picked = _directions(vectors)[np.arange(count), np.arange(count) % d]
    yield float(kstest((picked + 1.0) / 2.0, beta_law(half, half).cdf).pvalue), "direction"
    cosines = np.clip(np.abs(np.array(group.cosines)), 0.0, 1.0)
    if len(cosines):
        tail = 2.0 * betainc(half, half, (1.0 - float(cosines.max())) / 2.0)
        yield float(min(1.0, tail * len(cosines))), "independence"
