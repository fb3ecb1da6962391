"""The compiled steps against a ten-line NumPy twin, for the same noise."""

import mpmath as mp
import numpy as np
import pytest
from iterative import twin
from scipy import sparse

from helpers import pairwise_covered
from noisette.fitting.algorithms import kernels
from noisette.fitting.algorithms.gradient_descent import _gradient_of
from noisette.fitting.algorithms.kernels import CHUNK, LOGISTIC, UNIT, chunk_slopes
from noisette.fitting.algorithms.steps import Batches, State, Update, advance, canonical_rows
from noisette.fitting.losses import Hinge, HuberHinge, Logistic, Loss, Softmax, SoftplusHinge

N, D = 57, 6


def data(rng, loss: Loss):
    X = rng.standard_normal((N, D))
    y = rng.integers(loss.classes, size=N) if isinstance(loss, Softmax) else None
    return X, np.where(X[:, 0] > 0, 1.0, -1.0) if y is None else y


def batches_of(kind: str, rng) -> Batches:
    if kind == "given order":
        edges = np.minimum(np.arange(9) * 8, N)
        return Batches(edges, np.full(8, 8.0))
    picked = [rng.permutation(N)[: rng.integers(0, 20)] for _ in range(8)]
    return Batches.of(picked, 9.5)


LOSSES = [Logistic(), Hinge(), HuberHinge(0.3), SoftplusHinge(4.0), Softmax(4)]
OPTIONS = [
    {},
    {"bias": 0.4, "averaging": 3.0, "radius": 0.7},
    {"clip_norm": 0.3, "bias": 0.4, "learning_rate": "inverse", "regularization": 0.1},
    {"norm_bound": None, "clip_norm": 0.5, "learning_rate": "constant", "averaging": 0.0},
]


@pytest.mark.parametrize(
    ("loss", "options", "storage", "kind"),
    pairwise_covered(LOSSES, OPTIONS, ["float64", "float32", "csr"], ["given order", "any order"]),
)
def test_steps_agree_with_the_twin(rng, loss, options, storage, kind) -> None:
    update = Update(loss=loss, **{"norm_bound": 1.5, "eta0": 0.8, **options})
    X, y = data(rng, loss)
    batches = batches_of(kind, rng)
    noise = rng.standard_normal((8, update.dimension(D)))
    share = rng.random(N)
    rows = X.astype(np.float32) if storage == "float32" else X
    expected = twin(update, np.asarray(rows, dtype=float), y, batches, noise, 2.0**-20, share)
    rows = sparse.csr_array(rows) if storage == "csr" else rows
    state = State.zero(update.dimension(D))
    for block in (slice(0, 3), slice(3, 8)):  # two calls continue where the first one stopped
        part = Batches(
            batches.edges[block.start : block.stop + 1], batches.normalisers[block], batches.order
        )
        advance(update, state, canonical_rows(rows), y, part, noise[block], 2.0**-20, share)
    # a margin on the edge of the grid may be rounded the other way: one grid step per entry
    np.testing.assert_allclose(state.result(update, D), expected, rtol=1e-11, atol=3e-6)


def test_without_a_grid_the_twin_is_met_to_rounding(rng) -> None:
    update = Update(loss=Logistic(), bias=0.35, averaging=3.0)
    X, y = data(rng, update.loss)
    batches = batches_of("any order", rng)
    noise = rng.standard_normal((8, D + 1))
    state = State.zero(D + 1)
    advance(update, state, X, y, batches, noise, 0.0)
    expected = twin(update, X, y, batches, noise, 0.0)
    np.testing.assert_allclose(state.result(update, D), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(0.3), SoftplusHinge(), Softmax(3)],
                         ids=lambda loss: loss.name)  # fmt: skip
@pytest.mark.parametrize("clip", [None, 0.2])
def test_full_gradient_is_one_step_of_the_kernel(rng, loss, clip) -> None:
    update = Update(loss=loss, bias=0.3, clip_norm=clip, learning_rate="constant", eta0=1.0,
                    regularization=0.0)  # fmt: skip
    X, y = data(rng, loss)
    w = 0.3 * rng.standard_normal(update.dimension(D))
    share = rng.random(N)
    all_rows = Batches(np.array([0, N]), np.ones(1))
    state = State(w.copy(), np.zeros_like(w))
    advance(update, state, X, y, all_rows, np.zeros((1, len(w))), 0.0, share)
    for rows in (X, sparse.csr_array(X)):
        gradient = _gradient_of(rows, y, update, share)(w)
        np.testing.assert_allclose(gradient, w - state.w, rtol=1e-10, atol=1e-12)


def test_no_record_exceeds_its_bound(rng) -> None:
    """Rows of every size, huge ones too: one record moves the sum by at most C."""
    for loss in (Logistic(), Hinge(), Softmax(3)):
        for clip in (None, 0.1):
            update = Update(loss=loss, norm_bound=2.0, bias=0.5, clip_norm=clip,
                            learning_rate="constant", eta0=1.0, regularization=0.0)  # fmt: skip
            for scale in (1e-3, 1.0, 1e3, 1e90):
                X = scale * rng.standard_normal((1, D))
                y = np.array([1]) if isinstance(loss, Softmax) else np.ones(1)
                w = -10.0 * rng.standard_normal(update.dimension(D))
                state = State(w.copy(), np.zeros_like(w))
                one = Batches(np.array([0, 1]), np.ones(1))
                advance(update, state, X, y, one, np.zeros((1, len(w))), 0.0)
                assert np.linalg.norm(w - state.w) <= update.contribution * (1 + 1e-9)


def test_a_split_entry_cannot_slip_past_the_bound() -> None:
    twice = sparse.csr_array(
        (np.array([3.0, 4.0]), np.array([1, 1]), np.array([0, 2])), shape=(1, 3)
    )
    assert canonical_rows(twice).nnz == 1
    assert canonical_rows(twice).toarray()[0, 1] == 7.0


# --- many records of a batch at once -------------------------------------------------------------


def stepped(monkeypatch, many, update, rows, y, batches, noise, share):
    monkeypatch.setattr(kernels, "MANY", many)
    state = State.zero(update.dimension(rows.shape[1]))
    advance(update, state, rows, y, batches, noise, 0.0, share)
    return state.result(update, rows.shape[1])


@pytest.mark.parametrize("size", [1, 3, 8, 63, 64, 65, 150])
@pytest.mark.parametrize(
    ("loss", "options", "storage", "shared"),
    pairwise_covered(LOSSES[:-1], OPTIONS, ["float64", "float32"], [True, False]),
)
def test_records_at_once_are_the_records_one_by_one(
    rng, monkeypatch, size, loss, options, storage, shared
) -> None:
    update = Update(loss=loss, **{"norm_bound": 1.5, "eta0": 0.8, **options})
    rows = (2.0 * rng.standard_normal((2 * size, 5))).astype(storage)
    rows[rng.integers(2 * size), 2] = np.nan  # blank, as a row of huge norm is
    rows[rng.integers(2 * size), 1] = np.inf
    rows[rng.integers(2 * size)] = 0.0
    y = rng.choice([-1.0, 1.0], 2 * size)
    share = rng.random(2 * size) if shared else None
    edges = np.array([0, size, 2 * size])
    order = rng.permutation(2 * size) if shared else np.empty(0, dtype=np.int64)
    batches = Batches(edges, np.full(2, float(size)), order)
    noise = rng.standard_normal((2, update.dimension(5)))
    given = (update, rows, y, batches, noise, share)
    one_by_one = stepped(monkeypatch, 1000, *given)
    assert np.isfinite(one_by_one).all()
    np.testing.assert_allclose(stepped(monkeypatch, 0, *given), one_by_one, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES[:-1], ids=repr)
def test_no_record_adds_more_than_its_bound_whatever_the_weights(rng, loss) -> None:
    """|y l'(m)| <= 1 and a clipped row, also where weights are beyond 1e200 or no numbers."""
    room = np.zeros((5, CHUNK))
    for size in (1e-300, 1.0, 800.0, 1e5, 1e250, np.inf, np.nan):
        room[0] = size * rng.choice([-1.0, 1.0], CHUNK)
        room[1] = rng.uniform(0.0, 4.0, CHUNK)
        room[2] = rng.choice([-1.0, 1.0], CHUNK)
        for clip in (np.inf, 0.3):
            chunk_slopes(
                room, CHUNK, 1.0, 1.0 - 9 * UNIT, 0.2, 0.5, clip, loss.kernel, loss.smoothing or 0.0
            )
            slopes, factors = room[3], room[4]
            assert np.all(np.abs(slopes) <= 1.0)
            assert np.all(slopes * room[2] <= 0.0)
            norms = np.sqrt(factors**2 * room[1] + 0.25)
            assert np.all(factors**2 * room[1] <= 1.0)
            assert np.all(np.abs(slopes) * norms <= min(clip, np.sqrt(1.25)))


def test_sigmoids_at_once_are_exact_to_the_last_digits(rng) -> None:
    room = np.zeros((5, CHUNK))
    room[2] = 1.0
    for span in (1e-9, 1.0, 40.0, 690.0):
        m = rng.uniform(-span, span, CHUNK)
        room[0], room[1] = m, 0.0
        chunk_slopes(room, CHUNK, 1.0, 1.0, 0.0, 0.0, np.inf, LOGISTIC, 0.0)
        with mp.workdps(40):
            exact = [float(-1 / (1 + mp.exp(mp.mpf(v)))) for v in m]
        np.testing.assert_allclose(room[3], exact, rtol=1e-15, atol=0.0)
