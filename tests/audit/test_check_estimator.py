"""`check_estimator` on the whole registry, on strangers, and on bad input.

Error rate: the reports have confidence 0.999 and fixed seeds; a right estimator fails with
probability 0.001 when the seeds change, and never while they stay.
"""

from typing import Any

import numpy as np
import pytest
from audit_registry import LONG, SHORT, name
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from noisette import Ledger
from noisette.audit import check_estimator
from noisette.audit.check import ATTACKS
from noisette.errors import InvalidParameter
from noisette.models import LogisticRegression, SGDClassifier

# Half of a battery's fits are two worlds from outside, which `make slow` runs on everything.
OUTSIDE = {type(each): each for each in reversed(SHORT)}  # the first of each class


@pytest.mark.parametrize("estimator", SHORT, ids=name)
def test_the_short_battery_passes(estimator: Any) -> None:
    outside = estimator is OUTSIDE[type(estimator)]
    report = check_estimator(estimator, attacks=None if outside else ATTACKS[:-1])
    assert report.verdict == "consistent", str(report)
    applied = {found.attack for found in report.findings if found.verdict != "not applicable"}
    expected = {"fitted attributes", "exposed numbers", "replay on neighbours", "law of the noise"}
    assert expected <= applied
    # the checks are no formality: canaries come close to the declared bounds
    replay = next(found for found in report.findings if found.attack == "replay on neighbours")
    assert float(replay.detail.split(" is ")[1].split(" of ")[0]) > 0.7


@pytest.mark.slow
@pytest.mark.parametrize("estimator", SHORT + LONG, ids=name)
def test_the_long_battery_passes(estimator: Any) -> None:
    report = check_estimator(estimator, long=True, runs=200, seed=1)
    assert report.verdict == "consistent", str(report)


def test_the_estimator_and_its_ledger_are_left_alone() -> None:
    ledger = Ledger(1.0)
    model = LogisticRegression(ledger=ledger, random_state=3, norm_bound=1.0)
    X = np.linspace(-1.0, 1.0, 60)[:, None]
    model.fit(X, (X[:, 0] > 0).astype(int))
    before, spent = dict(vars(model)), ledger.spent
    report = check_estimator(model, attacks=["exposed", "replay", "repeated"])
    assert report.verdict == "consistent"
    assert vars(model) == before
    assert ledger.spent == spent


def test_a_report_is_reproducible() -> None:
    chosen = ["noise-law", "two-worlds"]
    texts = [
        str(check_estimator(SGDClassifier(norm_bound=1.0), attacks=chosen, runs=40, seed=4))
        for _ in range(2)
    ]
    assert texts[0] == texts[1]
    assert texts[0] != str(
        check_estimator(SGDClassifier(norm_bound=1.0), attacks=chosen, runs=40, seed=5)
    )


def test_the_error_rate_is_shared() -> None:
    report = check_estimator(
        SGDClassifier(norm_bound=1.0), attacks=["noise-law", "two-worlds"], runs=40, confidence=0.99
    )
    levels = {found.attack: 1.0 - found.confidence for found in report.findings}
    assert levels["law of the noise"] == pytest.approx(0.005)
    assert levels["two worlds: saturated push"] == pytest.approx(0.005)


def test_a_claim_below_the_parameter_is_refuted() -> None:
    report = check_estimator(
        LogisticRegression(epsilon=1.0, norm_bound=1.0), epsilon=0.5, attacks=["exposed"]
    )
    assert report.verdict == "violated"
    assert "weaker than the claim" in report.violations[0].detail


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"confidence": 1.0}, "confidence must be a number in"),
        ({"confidence": 0.0}, "confidence must be a number in"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"delta": 2.0}, "delta"),
        ({"attacks": ["magic"]}, "attacks"),
        ({"seed": -1}, "seed"),
    ],
    ids=str,
)
def test_bad_input_is_refused(given: Any, text: str) -> None:
    with pytest.raises(InvalidParameter, match=text):
        check_estimator(LogisticRegression(norm_bound=1.0), **given)


def test_what_is_no_estimator_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="must have fit"):
        check_estimator(3)
    with pytest.raises(InvalidParameter, match="no parameter epsilon"):
        check_estimator(Stranger().set_params(epsilon=None))


def test_the_names_of_the_battery_are_known() -> None:
    assert len(set(ATTACKS)) == len(ATTACKS) == 8


# --- strangers -----------------------------------------------------------------------------------


class Stranger(ClassifierMixin, BaseEstimator):
    """A class that only follows scikit-learn: the clipped mean of y x with Laplace-like noise.

    `trust` leaves rows unclipped, `scale` multiplies the noise, `share` releases a sum for each
    class, all with the same noise.
    """

    def __init__(self, epsilon: Any = 1.0, scale: float = 1.0, trust: bool = False,
                 share: bool = False, hide: bool = False) -> None:  # fmt: skip
        self.epsilon = epsilon
        self.scale = scale
        self.trust = trust
        self.share = share
        self.hide = hide

    def fit(self, X: Any, y: Any) -> "Stranger":
        X = np.asarray(X, dtype=float)
        self.classes_ = np.unique([*y, 0, 1])
        if not self.trust:
            X = X / np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
        total = (np.where(np.asarray(y) == 1, 1.0, -1.0)[:, None] * X).sum(axis=0)
        rng = np.random.default_rng()
        d = X.shape[1]
        g = rng.standard_normal(d)
        noise = rng.gamma(d) * g / np.linalg.norm(g) * 2.0 / self.epsilon * self.scale
        self._w = total + noise
        if not self.hide:
            self.coef_ = self._w[None, :]
            self.intercept_ = np.zeros(1)
        if self.share:
            sums = [X[np.asarray(y) == label].sum(axis=0) for label in self.classes_]
            self.coef_ = np.array(sums) + noise
        return self

    def decision_function(self, X: Any) -> Any:
        return np.asarray(X) @ self._w


# No seed: the audit takes the randomness that the class gives its users. At confidence 0.999999 a
# false alarm is out of the question, and each fault is far beyond it.
STRICT: dict[str, Any] = {"confidence": 0.999999, "runs": 200}


def test_a_right_stranger_passes() -> None:
    report = check_estimator(Stranger(), **STRICT)
    assert report.verdict == "consistent", str(report)
    assert not any(found.attack == "exposed numbers" for found in report.findings)


@pytest.mark.parametrize(
    ("options", "attack"),
    [
        ({"scale": 0.05}, "two worlds: opposite row"),
        ({"scale": 0.05, "hide": True}, "two worlds: opposite row"),
        ({"trust": True}, "two worlds: long row"),
        ({"share": True}, "repeated noise"),
    ],
    ids=str,
)
def test_wrong_strangers_are_found(options: Any, attack: str) -> None:
    stranger = Stranger(**options)
    report = check_estimator(clone(stranger), **STRICT)
    assert attack in {found.attack for found in report.violations}, str(report)
