"""Streams of `SGDRegressor`: one charge, any cut into chunks, the refusals of `SGDClassifier`."""

import pickle
from typing import Any

import numpy as np
import pytest

from helpers import watching
from noisette import SGDRegressor
from noisette.core.ledger import Ledger
from noisette.errors import InvalidData, InvalidParameter, PermitError, Unproven


def data(n: int = 4000, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 3))
    return X, 5.0 + X @ [2.0, -4.0, 0.0] + rng.normal(0.0, 0.5, n)


def made(epsilon: float = 8.0, delta: float = 0.0, **options: Any) -> Any:
    given = {"target_bounds": (-5, 15), "norm_bound": 1.8, "random_state": 0, **options}
    return SGDRegressor(epsilon, delta, **{"batch_size": 100, **given})


def chunks(X: Any, y: Any, size: int) -> Any:
    return ((X[k : k + size].copy(), y[k : k + size]) for k in range(0, len(y), size))


def test_how_the_stream_is_cut_does_not_matter() -> None:
    X, y = data()
    sizes = (4000, 1000, 333)
    quiet = [made(1e9, population=4000).fit(chunks(X, y, size)) for size in sizes]
    for other in quiet[1:]:
        assert other.coef_ == pytest.approx(quiet[0].coef_, abs=1e-6)
    models = [made(population=4000).fit(chunks(X, y, 500))]
    assert models[0].score(X, y) > 0.8
    assert "one chunk only" in models[0].privacy_.statement()
    assert models[0].privacy_.epsilon == 8.0


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_partial_fit_charges_once_and_learns(delta: float) -> None:
    X, y = data()
    ledger = Ledger(8.0, delta)
    model = made(delta=delta, ledger=ledger)
    for k in range(8):
        model.partial_fit(X[500 * k : 500 * (k + 1)], y[500 * k : 500 * (k + 1)])
        assert len(ledger.charges) == 1
    assert model.score(X, y) > 0.8
    assert model.privacy_.delta == delta
    facts = model.privacy_.public
    assert "the number of records in each chunk" in facts
    assert any("bounds -5 and 15 of the target" in fact for fact in facts)


def test_targets_of_later_chunks_are_cut_to_the_same_limits() -> None:
    X, y = data(1000)
    far, near = y.copy(), y.copy()
    far[600:], near[600:] = 1e9, 15.0
    fits = []
    for target in (far, near):
        model = made()
        fits.append(model.partial_fit(X[:500], target[:500]).partial_fit(X[500:], target[500:]))
    assert np.array_equal(fits[0].coef_, fits[1].coef_)


def test_what_a_stream_cannot_know_is_refused_before_a_charge() -> None:
    X, y = data(500)
    ledger = Ledger(8.0, 1e-6)
    other = Ledger(8.0, 0.0, adjacency="add-remove")
    for model in (
        made(target_bounds="learn", ledger=ledger),
        made(sampling="poisson", ledger=ledger),
        made(adjacency="add-remove", population=500, ledger=other),
    ):
        with pytest.raises((InvalidParameter, Unproven)):
            model.partial_fit(X, y)
        assert not hasattr(model, "coef_")
    with pytest.raises(Unproven, match="persons"):
        made(ledger=ledger).partial_fit(X, y, persons=np.arange(500))
    with pytest.raises(InvalidParameter, match="sample_weight"):
        made(ledger=ledger).fit(iter([(X, y)]), sample_weight=np.ones(500))
    with pytest.raises(InvalidData, match="finite numbers"):
        made(ledger=ledger).fit(iter([(X, ["a"] * 500)]))
    with pytest.raises(InvalidData):
        made(ledger=ledger).partial_fit(X, np.full(500, np.nan))
    assert ledger.charges == []


def test_the_same_people_again_are_refused_and_a_failed_chunk_stays_paid() -> None:
    X, y = data(1000)
    ledger = Ledger(20.0)
    model = made(ledger=ledger).partial_fit(X[:500], y[:500])
    before = model.coef_.copy()
    with pytest.raises(InvalidData, match="handed in before"):
        model.partial_fit(X[:500], y[:500])
    with pytest.raises(InvalidData):
        model.partial_fit(X[500:], y[:100])
    assert np.array_equal(model.coef_, before)
    assert len(ledger.charges) == 1
    model.partial_fit(X[500:], y[500:])
    again = pickle.loads(pickle.dumps(model))
    with pytest.raises((InvalidParameter, PermitError), match="no open stream"):
        again.partial_fit(X.copy(), y)
    with pytest.raises(InvalidParameter, match="no open stream"):
        made().fit(X, y).partial_fit(X, y)
    assert model.fit(X, y).coef_.shape == (3,), "a fit after a stream is a new training"


class Steps:
    """Keeps the bound and the targets of every step."""

    def __init__(self) -> None:
        self.bounds: list[float] = []
        self.largest = 0.0

    def release(self, real: Any, bounded: Any, *given: Any, **options: Any) -> Any:
        self.bounds.append(bounded.contribution)
        return real(bounded, *given, **options)

    def advance(self, real: Any, update: Any, state: Any, X: Any, y: Any, *rest: Any) -> None:
        self.largest = max(self.largest, float(np.abs(y).max()))
        real(update, state, X, y, *rest)


def test_the_noise_is_for_the_gradients_that_are_summed() -> None:
    """Huber's slope is at most the threshold, rows with the constant at most hypot(R, 0.35 R)."""
    X, y = data(500)
    model, watch = made(threshold=0.3), Steps()
    with watching(watch):
        model.partial_fit(100.0 * X, 1e9 * y)
    bias = float(np.float32(0.35 * 1.8))
    assert watch.bounds == [pytest.approx(0.3 * np.hypot(1.8, bias))]
    assert watch.largest <= 1.0
