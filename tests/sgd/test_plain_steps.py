"""Losses without a compiled kernel: the NumPy steps train them, and agree with the kernels."""

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from iterative import twin
from scipy import sparse

from helpers import pairwise_covered, watching
from noisette.audit import check_estimator
from noisette.core.door import NoiseStream
from noisette.fitting.algorithms.gradient_descent import MOMENTUM, _gradient_of
from noisette.fitting.algorithms.steps import Batches, State, Update, advance, canonical_rows
from noisette.fitting.losses import LOSSES, Logistic
from noisette.fitting.losses.base import MarginLoss, as_float
from noisette.models import SGDClassifier

N, D = 120, 4


@dataclass(frozen=True)
class SmoothHinge(MarginLoss):
    """l(m) = 1/2 - m below 0, (1 - m)^2 / 2 up to 1, then 0: slope and curvature at most 1."""

    name: ClassVar[str] = "smooth_hinge"
    short: ClassVar[str] = "smooth"
    proofs: ClassVar[tuple[str, ...]] = ("LOSS-HINGE",)
    decreasing: ClassVar[bool] = True
    lipschitz = 1.0
    smoothness = 1.0
    value_at_zero = 0.5

    @classmethod
    def examples(cls) -> "tuple[SmoothHinge, ...]":
        return (cls(),)

    def rounding(self, score: float) -> float:
        return 2.0

    def value_and_derivative(self, t: Any) -> Any:
        m = as_float(t)
        value = np.where(m < 0.0, 0.5 - m, np.maximum(1.0 - m, 0.0) ** 2 / 2.0)
        return value, -np.clip(1.0 - m, 0.0, 1.0)

    def second_derivative(self, t: Any) -> Any:
        m = as_float(t)
        return ((m >= 0.0) & (m <= 1.0)).astype(m.dtype)


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LOSSES, SmoothHinge.name, SmoothHinge)


@dataclass
class Tape:
    """Keeps every step's update, batch, noise and grid, and what crossed the door."""

    steps: list[Any] = field(default_factory=list)
    crossed: list[tuple[Any, Any]] = field(default_factory=list)

    def advance(self, real: Any, *given: Any) -> None:
        self.steps.append(given)
        real(*given)

    def release(self, real: Any, bounded: Any, *given: Any, **named: Any) -> Any:
        result = real(bounded, *given, **named)
        if not isinstance(result, NoiseStream):
            self.crossed.append((bounded.value.copy(), np.array(result)))
        return result


def table() -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(2).standard_normal((N, D))
    return X, (X[:, 0] > 0.3).astype(int)


def fitted(**options: Any) -> tuple[SGDClassifier, Tape]:
    model = SGDClassifier(
        **{
            "norm_bound": 1.0,
            "epsilon": 2.0,
            "loss": "smooth",
            "classes": [0, 1],
            "random_state": 0,
            **options,
        }
    )
    tape = Tape()
    with watching(tape):
        return model.fit(*table()), tape


# --- a loss of one's own -------------------------------------------------------------------------

VARIANTS: dict[str, dict[str, Any]] = {
    "one pass": {"batch_size": 30},
    "one pass of a few": {"batch_size": 7, "fit_intercept": False, "regularization": (1e-4, 0.5)},
    "clipped": {"batch_size": 30, "clip_norm": 0.2},
    "poisson": {"delta": 1e-4, "sampling": "poisson", "batch_size": 30, "epochs": 3},
    "full": {"delta": 1e-4, "sampling": "full", "epochs": 3, "released": ("all", "last")},
    "rows of any length": {"norm_bound": None, "clip_norm": 0.5, "batch_size": 30},
    "two passes": {"sampling": "cyclic", "batch_size": 30, "epochs": 2},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_loss_without_a_kernel_trains_as_a_plain_loop(name: str) -> None:
    model, tape = fitted(**VARIANTS[name])
    assert SmoothHinge.kernel is None
    assert tape.steps
    update, _, X, y = tape.steps[0][:4]
    assert isinstance(update.loss, SmoothHinge)
    batches = [
        part.order[a:b] if len(part.order) else np.arange(a, b)
        for part in (given[4] for given in tape.steps)
        for a, b in zip(part.edges[:-1], part.edges[1:], strict=True)
    ]
    together = Batches.of(batches, float(tape.steps[0][4].normalisers[0]))
    noise = np.concatenate([given[5] for given in tape.steps])
    grid = tape.steps[0][6]
    assert len(noise) == len(together) == model.privacy_.plan.draws
    expected = twin(update, X, y, together, noise, grid)
    coef = np.append(model.coef_[0], model.intercept_ / (update.bias or 1.0))[: len(expected)]
    # a sum on the edge of the grid may be rounded the other way
    slack = 2.0 * grid * update.eta0 * len(noise)
    np.testing.assert_allclose(coef, expected, rtol=1e-10, atol=slack)
    assert slack < 1e-3 * np.abs(expected).max()


def test_gradient_descent_of_such_a_loss_is_a_plain_loop() -> None:
    model, tape = fitted(delta=1e-4, sampling="auto")
    assert len(tape.crossed) == model.privacy_.plan.draws
    bias = float(np.float32(0.35))
    X, y = table()
    rows = X * np.minimum(1.0, 1.0 / np.linalg.norm(X, axis=1))[:, None]
    rows = np.column_stack([rows, np.full(N, bias)])
    signs = np.where(y == 1, 1.0, -1.0)
    steps = len(tape.crossed)
    eta = _schedule_of(model, steps)
    w, velocity, tail = (np.zeros(D + 1) for _ in range(3))
    for t, (value, result) in enumerate(tape.crossed):
        slope = -signs * np.clip(1.0 - signs * (rows @ w), 0.0, 1.0)
        np.testing.assert_allclose(value, slope @ rows, rtol=1e-10, atol=1e-10)
        velocity = MOMENTUM * velocity + result / N + model.regularization * w
        w = w - eta * velocity
        if t >= steps // 2:
            tail += w / (steps - steps // 2)
    np.testing.assert_allclose(model.coef_[0], tail[:-1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.intercept_, bias * tail[-1:], rtol=1e-9, atol=1e-12)


def _schedule_of(model: SGDClassifier, steps: int) -> float:
    """eta = tau (1 - beta) / T in rows of norm 1, tau as the docstring of the recipe gives it."""
    from noisette.core.mechanisms.gaussian_curve import gdp_mu

    bound = math.hypot(1.0, float(np.float32(0.35)))
    curvature = 1.0 + model.regularization / bound**2
    tau = 16.0 * N * gdp_mu(2.0, 1e-4) / (2.0 * math.sqrt(D + 1))
    tau = min(tau, 1000.0 / curvature / (1.0 - MOMENTUM))
    return tau * (1.0 - MOMENTUM) / steps / bound**2


def test_such_a_loss_is_audited_like_every_other() -> None:
    report = check_estimator(
        SGDClassifier(1.0, loss="smooth", norm_bound=1.0),
        attacks=["replay", "sampling-law"],
        runs=4,
    )
    assert report.verdict == "consistent", str(report)


@pytest.mark.parametrize("store", [np.asarray, sparse.csr_array])
def test_scores_that_overflow_do_not_carry_nan_through_the_noise(rng: Any, store: Any) -> None:
    """In 33 columns, since a fused product and sum of two has no infinite summand."""
    rows = rng.choice([-1e90, 1e90], (100, 33))
    wild = SGDClassifier(
        1.0, loss="smooth", classes=[0, 1], norm_bound=None, clip_norm=1.0, batch_size=10,
        learning_rate=("constant", 1e300), regularization=0.0, released=("all", "last"),
        random_state=0,
    )  # fmt: skip
    assert np.isfinite(wild.fit(store(rows), np.arange(100) % 2).coef_).all()
    update = Update(SmoothHinge(), None, 0.35, 1.0)
    w = np.append(np.full(33, 1e299), 1e308)
    with np.errstate(all="ignore"):
        g = _gradient_of(store(rows), np.ones(100), update, None)(w)
    assert np.linalg.norm(g) <= 100.0


# --- the same numbers as the kernels -------------------------------------------------------------


def both(update: Update, *given: Any, patch: pytest.MonkeyPatch) -> list[Any]:
    """The weights, the mean and the count after the compiled steps and after the plain ones."""
    found = []
    for kernel in (0, None):
        patch.setattr(Logistic, "kernel", kernel)
        state = State.zero(update.dimension(D))
        for block in (slice(0, 3), slice(3, 8)):  # the second call goes on where the first stopped
            X, y, batches, noise, grid, share = given
            part = Batches(
                batches.edges[block.start : block.stop + 1], batches.normalisers[block],
                batches.order,
            )  # fmt: skip
            advance(update, state, X, y, part, noise[block], grid, share)
        found.append(state)
    return found


@pytest.mark.parametrize(
    ("storage", "kind", "clip", "bias", "shared", "averaging"),
    pairwise_covered(
        ["float64", "float32", "csr"],
        ["given order", "any order"],
        [None, 0.3],
        [None, 0.4],
        [False, True],
        [None, 0.0, 3.0],
    ),
)
def test_plain_steps_agree_with_the_kernels(
    rng: Any, monkeypatch: pytest.MonkeyPatch, storage: str, kind: str, clip: float | None,
    bias: float | None, shared: bool, averaging: float | None,
) -> None:  # fmt: skip
    update = Update(Logistic(), 1.5, bias, clip, averaging=averaging, radius=2.0)
    X = rng.standard_normal((N, D)) * rng.choice([0.1, 1.0, 30.0], (N, 1))
    X[[3, 50]] = 1e150  # blank rows, as those below
    X[17, 1], X[18, 2] = math.inf, math.nan
    y = np.where(rng.random(N) < 0.5, 1.0, -1.0)
    batches = Batches(np.minimum(np.arange(9) * 16, N), np.full(8, 16.0))
    if kind == "any order":
        picked = [rng.permutation(N)[: rng.integers(0, 40)] for _ in range(7)]
        batches = Batches.of([*picked, np.empty(0, dtype=np.int64)], 9.5)
    noise = rng.standard_normal((8, update.dimension(D)))
    with np.errstate(over="ignore"):
        rows = X.astype(np.float32) if storage == "float32" else X
    rows = canonical_rows(sparse.csr_array(rows) if storage == "csr" else rows)
    share = rng.random(N) if shared else None
    for grid in (0.0, 0.25):
        compiled, plain = both(update, rows, y, batches, noise, grid, share, patch=monkeypatch)
        assert compiled.steps == plain.steps == 8
        assert np.abs(compiled.w).max() > 0.01
        np.testing.assert_allclose(plain.w, compiled.w, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(plain.mean, compiled.mean, rtol=1e-12, atol=1e-12)
    gradients = []
    for kernel in (0, None):
        monkeypatch.setattr(Logistic, "kernel", kernel)
        gradients.append(_gradient_of(rows, y, update, share)(compiled.w))
    np.testing.assert_allclose(*gradients, rtol=1e-12, atol=1e-12)


def test_a_step_that_is_wrong_by_a_little_is_seen(
    rng: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison has power: 1e-9 more clipping in one of the two ways is told apart."""
    update = Update(Logistic(), 1.5, 0.4, 0.3)
    X, y = rng.standard_normal((N, D)), np.where(rng.random(N) < 0.5, 1.0, -1.0)
    batches = Batches(np.arange(9) * 15, np.full(8, 15.0))
    noise = rng.standard_normal((8, D + 1))
    monkeypatch.setattr(Logistic, "kernel", None)
    found = []
    for clip in (0.3, 0.3 * (1.0 - 1e-9)):
        state = State.zero(D + 1)
        advance(replace(update, clip_norm=clip), state, X, y, batches, noise, 0.0)
        found.append(state.w)
    assert np.abs(found[0] - found[1]).max() > 1e-11
