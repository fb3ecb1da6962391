"""The one-run audit: exact p-values, fair coins, and gross faults that it must see."""

import math

import numpy as np
import pytest

from noisette import Ledger, LogisticRegression, Randomness
from noisette.audit import one_run
from noisette.audit.one_run import _right_guesses, log_likelihood
from noisette.core import mechanisms
from noisette.errors import InvalidData, InvalidParameter

M = 200
CANARIES = (np.eye(M), np.ones(M, dtype=int))


def noisy_sum(generator, scale):
    """A model that is one noisy sum of orthogonal rows; scale 0 forgets the noise."""
    return lambda X, y: X.sum(axis=0) + generator.laplace(0.0, scale, X.shape[1])


def entry(model, X, y):
    return X @ model


def audit(train, claim=1.0, seed=0, **options):
    return one_run(
        train, CANARIES, entry, guesses=100, claim=claim,
        randomness=Randomness.from_seed(seed), **options,
    )  # fmt: skip


def test_a_right_mechanism_passes_at_the_stated_rate():
    """Each coordinate is exactly 1-DP: 300 audits at 95 %, above 9 % has probability 2e-3."""
    alarms = sum(
        audit(noisy_sum(np.random.default_rng([1, i]), 1.0), seed=i).verdict == "violated"
        for i in range(300)
    )
    assert alarms / 300 <= 0.09


def test_missing_noise_is_found():
    found = audit(noisy_sum(np.random.default_rng(0), 0.0), claim=(1.0, 1e-5))
    assert found.verdict == "violated"
    assert found.correct == found.guesses == 100
    assert found.epsilon_lower == pytest.approx(3.4876, abs=0.01)  # (m, r, v) = (200, 100, 100)
    assert found.finding.runs == 1
    assert "100 of 100 guesses about 200 canaries" in found.finding.detail
    assert str(found).startswith("violated")


def test_a_fifth_of_the_noise_is_found():
    assert audit(noisy_sum(np.random.default_rng(2), 0.2)).verdict == "violated"


def test_an_unscaled_leak_in_an_estimator_is_found():
    """A non-private model with no regularisation to speak of knows its canaries."""
    from sklearn.linear_model import LogisticRegression as NotPrivate

    flip = np.arange(M) % 2
    base = (np.zeros((40, M)), np.arange(40) % 2)
    found = one_run(
        NotPrivate(C=1e3), (np.eye(M), flip), guesses=100, claim=1.0, base=base,
        randomness=Randomness.from_seed(1),
    )  # fmt: skip
    assert found.verdict == "violated"
    assert found.epsilon_lower > 3.0


def test_our_estimator_with_substitutes():
    """Under replace-one the coin chooses between a canary and its substitute: n stays the same."""
    seen = []

    class Watched(LogisticRegression):
        def fit(self, X, y):
            seen.append(len(X))
            return super().fit(X, y)

    substitutes = (np.zeros((M, M)), np.zeros(M, dtype=int))
    found = one_run(
        Watched(epsilon=1.0, classes=[0, 1], norm_bound=1.0), CANARIES, guesses=50, claim=1.0,
        substitutes=substitutes, base=(np.zeros((10, M)), np.arange(10) % 2),
    )  # fmt: skip
    assert found.verdict == "consistent"
    assert seen == [M + 10]


def test_coins_are_fair_independent_and_secure_by_default():
    rows = []

    def train(X, y):
        rows.append(X.sum(axis=0))
        return np.zeros(M)

    for _ in range(60):
        one_run(train, CANARIES, entry, guesses=2, claim=1.0)
    drawn = np.array(rows)
    assert set(np.unique(drawn)) == {0.0, 1.0}
    # 12,000 fair coins: 5 standard deviations are 274
    assert abs(drawn.sum() - 6000) < 274
    assert len({row.tobytes() for row in drawn}) == 60
    agreement = (drawn[:, :-1] == drawn[:, 1:]).sum()
    assert abs(agreement - 60 * (M - 1) / 2) < 274


def test_guesses_are_made_without_the_coins():
    scores = np.array([5.0, 1.0, 4.0, 0.0, 3.0, 2.0])
    coins = np.array([True, False, True, False, False, True])
    assert _right_guesses(scores, coins, 2) == 2
    assert _right_guesses(scores, coins, 4) == 4
    assert _right_guesses(scores, coins, 6) == 4
    assert _right_guesses(scores, ~coins, 4) == 0


def test_log_likelihood():
    class Model:
        classes_ = np.array(["a", "b"])

        def predict_proba(self, X):
            return np.array([[0.25, 0.75], [1.0, 0.0]])

    values = log_likelihood(Model(), None, np.array(["b", "b"]))
    assert values[0] == pytest.approx(math.log(0.75))
    assert values[1] == -math.inf


def promise(adjacency):
    charge = Ledger(1.0, adjacency=adjacency).charge(
        mechanisms.Laplace.calibrated(1.0, adjacency=adjacency), label="x"
    )
    return charge.guarantee("a sum")


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"guesses": 3}, InvalidParameter, "even and at most the 200 canaries"),
        ({"guesses": 300}, InvalidParameter, "even and at most the 200 canaries"),
        ({"claim": 0.0}, InvalidParameter, "epsilon must be"),
        ({"confidence": 2.0}, InvalidParameter, "confidence must be"),
        ({"canaries": np.eye(3)}, InvalidData, "canaries must be a pair"),
        ({"canaries": (np.eye(3), np.ones(2))}, InvalidData, "a label each"),
        ({"train": 3}, InvalidParameter, "train must be"),
        ({"score": lambda model, X, y: [1.0]}, InvalidData, "one number, not NaN, for each"),
        ({"substitutes": (np.eye(3), np.ones(3))}, InvalidData, "one row for each of the 200"),
        ({"claim": promise("replace-one")}, InvalidParameter, "pass substitutes"),
        (
            {"claim": promise("add-remove"), "substitutes": (np.eye(M), np.ones(M))},
            InvalidParameter,
            "leave substitutes away",
        ),
    ],
)
def test_mistakes(change, error, words):
    good = {
        "train": noisy_sum(np.random.default_rng(0), 1.0), "canaries": CANARIES, "score": entry,
        "guesses": 10, "claim": 1.0,
    }  # fmt: skip
    with pytest.raises(error, match=words):
        one_run(**{**good, **change})


def test_a_guarantee_is_a_claim():
    found = audit(noisy_sum(np.random.default_rng(0), 1.0), claim=promise("add-remove"))
    assert found.claim == (1.0, 0.0)
