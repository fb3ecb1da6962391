"""One rule for all micro-batches of a step and for its bound, whoever changes it meanwhile."""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the nn extra is not installed")

from torch import nn  # noqa: E402

from helpers import watching  # noqa: E402
from noisette import mechanisms, sampling  # noqa: E402
from noisette.core.adjacency import Adjacency  # noqa: E402
from noisette.core.plans import Repeat, Sampled  # noqa: E402
from noisette.errors import InvalidParameter, Unproven  # noqa: E402
from noisette.fitting.algorithms import passage  # noqa: E402
from noisette.nn import Adaptive, Automatic, Flat, PrivateTraining  # noqa: E402

torch.set_num_threads(1)

N, D = 16, 3


def losses(module: Any, batch: Any) -> Any:
    return module(batch).sum(1)


def private(
    uses: int = 3, sampler: Any = None, double: bool = False, **options: Any
) -> PrivateTraining:
    module = nn.Linear(D, 1, bias=False, dtype=torch.float64 if double else torch.float32)
    sampler = sampler or sampling.FullBatch()
    plan = Repeat(Sampled(mechanisms.Gaussian(2.0), sampler), uses).under("zero-out")
    given: dict[str, Any] = {"size": N, "delta": 1e-5} | options
    return PrivateTraining(module, torch.optim.SGD(module.parameters(), lr=1.0), plan, **given)


@pytest.fixture
def shares(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the norm of each released vector over the contribution bound of one record."""
    seen: list[float] = []
    real = passage.release

    def door(bounded: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(float(np.linalg.norm(bounded.value)) / bounded.contribution)
        return real(bounded, *args, **kwargs)

    monkeypatch.setattr(passage, "release", door)
    return seen


def one_large() -> Any:
    rows = torch.zeros(N, D)
    rows[0, 0] = 1e6
    return rows


@pytest.mark.parametrize(
    ("kind", "band"),
    [(Flat, None), (Automatic, None), (Adaptive, None), (Flat, 2), (Automatic, 2)],
)
def test_a_clip_norm_that_the_losses_lower_waits_for_the_next_step(
    shares: list[float], kind: Any, band: int | None
) -> None:
    """One record, cut to 1 in the first micro-batch, stood in a sum that was bounded by 0.01."""
    rule = kind(1.0)
    sampler = sampling.Cyclic(2) if band else None
    run = private(1, sampler, clipping=rule, micro_batch=1, band=band)

    def load(rows: Any) -> Any:
        lowering.after = 0 not in rows  # type: ignore[attr-defined]
        return one_large()[rows]

    def lowering(module: Any, batch: Any) -> Any:
        if lowering.after:  # type: ignore[attr-defined]
            rule.clip_norm = 0.01
        return losses(module, batch)

    next(run.batches())
    run.step(lowering, load)
    most = 1.0 if kind is not Adaptive else np.hypot(1.0, 0.5 * N)  # its count is of all records
    assert 0.8 < shares[0] <= most


def test_what_the_losses_set_holds_in_the_next_step(shares: list[float]) -> None:
    rule = Flat(1.0)
    run = private(2, clipping=rule)
    batches = run.batches()

    def raising(module: Any, batch: Any) -> Any:
        rule.clip_norm = 4.0
        return losses(module, batch)

    rows = torch.zeros(N, D)
    rows[0, 0] = 2.0
    for _ in range(2):
        next(batches)
        run.step(raising, rows)
    assert shares == pytest.approx([1.0, 0.5], rel=1e-5)


class Largest(Flat):
    """Divides by the largest norm of the batch: within the clip norm, and 207 C at 256 records."""

    def factors(self, norms: Any) -> Any:
        return self.clip_norm / norms.max().expand_as(norms)


class Sliding(Flat):
    """Lowers its own norm from one micro-batch to the next."""

    def factors(self, norms: Any) -> Any:
        found = super().factors(norms)
        self.clip_norm /= 2.0
        return found


@pytest.mark.parametrize("kind", [Largest, Sliding])
def test_a_rule_of_ones_own_is_refused(kind: Any) -> None:
    """It was accepted as long as each record stayed within the clip norm."""
    with pytest.raises(Unproven, match="class of one's own"):
        private(clipping=kind(1.0))


def test_a_rule_keeps_its_range() -> None:
    rule = Flat(1.0)
    with pytest.raises(InvalidParameter, match="clip_norm must lie"):
        rule._restore({"clip_norm": 1e-40})
    run = private(clipping=rule)
    rule.clip_norm = 1e-40
    next(run.batches())
    with pytest.raises(InvalidParameter, match="clip_norm must lie"):
        run.step(losses, one_large())


def test_a_clip_norm_that_falls_stays_within_the_banded_bound(shares: list[float]) -> None:
    """An earlier, larger gradient is still in the next queries (BANDED-MF: C fixed)."""
    rule = Flat(1.0)
    banded = private(2, sampling.Cyclic(5), size=20, band=4, clipping=rule)
    rows = torch.zeros(20, D)
    rows[0, 0] = 1e6
    for step, chosen in enumerate(banded.batches()):
        rule.clip_norm = 1.0 if step == 0 else 0.01
        banded.step(losses, rows[chosen])
    assert max(shares) <= 1.0


@pytest.mark.parametrize("C", [1e-30, 1e30])
def test_clip_norms_beyond_single_precision_are_told(C: float) -> None:
    with pytest.raises(InvalidParameter, match="clip_norm must lie"):
        private(clip_norm=C)


def test_a_vanishing_gamma_gives_finite_factors() -> None:
    """A gradient of 0 had the factor infinity, and their product is NaN for the whole batch."""
    run = private(clipping=Automatic(1.0, gamma=1e-200), double=True)
    rows = torch.zeros(N, D, dtype=torch.float64)
    for chosen in run.batches():
        run.step(lambda module, x: 0.0 * module(x).sum(1), rows[chosen])
    assert all(p.isfinite().all() for p in run.module.parameters())


# --- adaptive clipping -----------------------------------------------------------------------


@pytest.mark.parametrize("z", [0.3, 1.0, 20.0])
@pytest.mark.parametrize("batch", [5.0, 500.0])
def test_every_record_of_the_joint_vector_is_within_one(z: float, batch: float) -> None:
    rule = Adaptive(0.3)
    for norm in (0.0, 0.299, 0.3, 5.0, float("inf")):
        norms = torch.tensor([norm], dtype=torch.float64)
        rule._note(norms, None)
        factor = rule.factors(norms)
        gradient = 0.0 if norm == float("inf") else float(factor[0]) * norm
        total = np.append([gradient, 0.0], rule._counts())
        bounded = rule._bounded(total, Adjacency.REPLACE_ONE, batch, z)
        assert bounded.contribution == 1.0
        assert float(np.linalg.norm(bounded.value)) <= 1.0
        if norm == 0.3:  # tight: a wrong factor of 10 % anywhere shows
            assert float(np.linalg.norm(bounded.value)) > 0.999


def test_adaptive_clipping_finds_the_quantile_and_keeps_the_noise() -> None:
    module = nn.Linear(7, 1, bias=False)
    plan = Repeat(Sampled(mechanisms.Gaussian(0.5), sampling.FullBatch()), 80).under("zero-out")
    X = torch.zeros(60, 7)
    X[:, 0] = torch.linspace(0.0, 8.0, 60)
    rule = Adaptive(0.1, quantile=0.75)
    run = PrivateTraining(
        module, torch.optim.SGD(module.parameters(), lr=0.0), plan, size=60, delta=1e-5,
        clipping=rule, random_state=0,
    )  # fmt: skip
    for rows in run.batches():
        run.step(losses, X[rows])
    assert rule.clip_norm == pytest.approx(6.0, rel=0.25)
    # the gradient's noise: read(...) undoes the weights, so that only 1/a is paid
    a, _ = rule._weights(run.normaliser, 0.5)
    assert 0.9 < a < 1.0


def test_a_failed_sum_leaves_no_trace() -> None:
    """A record that was counted in a failed attempt must not count twice in the next release."""
    joint: list[np.ndarray] = []

    class Seen:
        def release(self, real: Any, bounded: Any, *given: Any, **more: Any) -> Any:
            joint.append(bounded.value.copy())
            return real(bounded, *given, **more)

    run = private(clipping=Adaptive(0.1), micro_batch=4)
    parts: list[int] = []

    def load(rows: Any) -> Any:
        parts.append(len(rows))
        if len(parts) == 2:
            raise RuntimeError("lost connection")
        return torch.ones(len(rows), D)

    next(run.batches())
    with watching(Seen()):
        with pytest.raises(RuntimeError, match="lost connection"):
            run.step(losses, load)
        assert joint == []
        run.step(losses, load)  # the same batch again
    assert abs(joint[0][-1]) <= 0.5 * N  # every record counts +-1/2, once
