"""The tape keeps runs in step, the trace writes down what ran, and both leave no trace."""

from typing import Any

import numpy as np
import pytest

from noisette.audit import check_estimator
from noisette.audit.canaries import CANARIES, Data, plain_table
from noisette.audit.whitebox import trace as trace_module
from noisette.audit.whitebox.replay import replay
from noisette.audit.whitebox.subject import AuditedEstimator
from noisette.audit.whitebox.trace import Tape, tracing
from noisette.core import door
from noisette.core.adjacency import Adjacency
from noisette.core.ledger import Ledger
from noisette.core.mechanisms import Gaussian, SphericalLaplace
from noisette.fitting.algorithms import Passage, steps
from noisette.fitting.solvers import minimise
from noisette.models import LinearSVC, LogisticRegression, SGDClassifier


def test_each_read_of_a_tape_starts_afresh() -> None:
    one, two = Tape.from_seed(3), Tape.from_seed(3)
    first = one.generator.random(5), one.generator.random(5)
    second = two.generator.random(7), two.generator.random(5)
    assert np.array_equal(first[0], second[0][:5])
    assert np.array_equal(first[1], second[1])
    assert not np.array_equal(first[0], first[1])
    assert one.reads == two.reads == 2
    assert one.consumed() != two.consumed()
    assert one.consumed()[1] == two.consumed()[1] == 40
    assert one.seeded


def test_tracing_puts_everything_back_even_after_an_error() -> None:
    def wrapped() -> list[Any]:
        watchers = tuple(door.watchers)
        return [SphericalLaplace.noise, Gaussian.noise, Ledger.charge, watchers]

    def broken() -> None:
        with tracing(Tape.from_seed(0)):
            assert all(a != b for a, b in zip(before, wrapped(), strict=True))
            raise RuntimeError

    before = wrapped()
    with pytest.raises(RuntimeError):
        broken()
    assert before == wrapped()


@pytest.mark.parametrize(
    "estimator",
    [LogisticRegression(norm_bound=1.0), LogisticRegression(mechanism="output", norm_bound=1.0),
     SGDClassifier(norm_bound=1.0), SGDClassifier(delta=1e-5, norm_bound=1.0),
     SGDClassifier(delta=1e-5, sampling="poisson", batch_size=50, norm_bound=1.0)],
    ids=lambda e: " ".join(repr(e).split()),
)  # fmt: skip
def test_a_traced_fit_is_the_same_fit(estimator: Any) -> None:
    """Watching must not change the numbers: with and without a trace, bit by bit."""
    subject = AuditedEstimator(estimator, (1.0, estimator.delta))
    data = plain_table(subject.room(), rows=600)
    model, trace = subject.fit(Data(data.X, data.y), seed=5)
    twin = subject.make(random_state=Tape.from_seed(5)).fit(data.X, data.y)
    assert model.coef_ == pytest.approx(twin.coef_, rel=1e-12, abs=1e-12)
    assert len(trace.charges) == 1
    assert sum(seen.drawn for seen in trace.releases) == trace.charges[0].plan.draws


def test_a_forced_run_has_the_outputs_of_the_first() -> None:
    subject = AuditedEstimator(SGDClassifier(delta=1e-5, norm_bound=1.0), (1.0, 1e-5))
    pair = CANARIES["label flip"](subject.room())
    first, trace = subject.fit(pair.first)
    second, _ = subject.fit(pair.second, reference=trace)
    assert np.array_equal(first.coef_, second.coef_)


@pytest.mark.parametrize("relation", list(Adjacency), ids=str)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("intercept", [True, False])
def test_canaries_are_neighbours(relation: Adjacency, classes: int, intercept: bool) -> None:
    estimator = LogisticRegression(
        adjacency=relation.value, classes=list(range(classes)), population=500,
        fit_intercept=intercept, norm_bound=2.0,
    )  # fmt: skip
    subject = AuditedEstimator(estimator, (1.0, 0.0))
    for features in (1, 3):
        for make in CANARIES.values():
            pair = make(subject.room(features))
            (X, y), (X2, y2) = ((d.X, d.y) for d in (pair.first, pair.second))
            assert set(y) | set(y2) <= set(range(classes))
            if relation is Adjacency.ADD_REMOVE:
                assert len(X) == len(X2) + 1
                X, y = (
                    np.delete(X, (len(pair.first.X) - 1), 0),
                    np.delete(y, (len(pair.first.X) - 1)),
                )
            assert X.shape == X2.shape
            changed = np.flatnonzero(np.any(X != X2, axis=1) | (y != y2))
            assert set(changed) <= {(len(pair.first.X) - 1)}
            blank = pair.second.options.get("sample_weight")
            if relation is Adjacency.ZERO_OUT:
                assert np.all(X2[-1] == 0.0)
                assert (blank is None) == (not intercept)
                assert blank is None or (blank[-1] == 0.0 and np.all(blank[:-1] == 1.0))
            inside = (
                np.delete(X2, (len(pair.first.X) - 1), 0)
                if len(X2) > (len(pair.first.X) - 1)
                else X2
            )
            assert np.all(np.linalg.norm(inside, axis=1) <= 2.0 * (1.0 + 1e-12))


@pytest.mark.parametrize("relation", list(Adjacency), ids=str)
def test_replay_reaches_the_bounds(relation: Adjacency) -> None:
    """A bound that is too small by 10 % or more would be seen: the canaries come that close."""
    for estimator, least in (
        (LinearSVC(loss="hinge", adjacency=relation.value, population=3000, norm_bound=1.0), 0.9),
        (
            SGDClassifier(delta=1e-5, adjacency=relation.value, population=3000, norm_bound=1.0),
            0.99,
        ),
    ):
        out = replay(AuditedEstimator(estimator, (1.0, 0.0)))
        assert not out.faults
        assert out.worst > least


def test_the_kernel_s_sums_are_the_plain_ones() -> None:
    """The probe that recovers a batch sum agrees with ten lines of numpy."""
    subject = AuditedEstimator(SGDClassifier(fit_intercept=False, norm_bound=1.0), (1.0, 0.0))
    data = plain_table(subject.room(), rows=300)
    _, trace = subject.fit(data, watch=np.array([7]))
    for step in trace.steps:
        X, sign = data.X[step.batch], np.where(data.y[step.batch] == 1, 1.0, -1.0)
        slope = -sign / (1.0 + np.exp(sign * (X @ step.w)))
        assert step.total == pytest.approx(slope @ X, abs=1e-10)
        if step.alone is not None:
            at = int(np.flatnonzero(step.batch == 7)[0])
            assert step.alone == pytest.approx(slope[at] * X[at], abs=1e-10)
    assert sum(step.alone is not None for step in trace.steps) == 1


# --- a call that goes round the trace ---------------------------------------------------------


def unseen_release(self: Passage, bounded: Any, part: int = 0) -> Any:
    return door._release(bounded, self.permit, self.randomness, part=self.first + part)


def unseen_minimise(self: Passage, loss: Any, X: Any, y: Any, **options: Any) -> Any:
    return minimise(loss, X, y, **options)


def unseen_advance(self: Passage, *given: Any) -> None:
    steps.advance(*given)


UNSEEN = {"release": unseen_release, "minimise": unseen_minimise, "advance": unseen_advance}


@pytest.mark.parametrize(
    ("estimator", "name", "attacks", "words"),
    [
        (LogisticRegression(norm_bound=1.0), "minimise",
         ["exposed", "replay", "solver", "noise-law"], "no call of the solver"),
        (LinearSVC(loss="hinge", norm_bound=1.0), "minimise",
         ["exposed", "replay", "solver", "noise-law"], "no call of the solver"),
        (LogisticRegression(mechanism="output", norm_bound=1.0), "release",
         ["replay", "solver", "noise-law"], "pass the door"),
        (SGDClassifier(norm_bound=1.0), "advance",
         ["exposed", "replay", "noise-law", "sampling-law"], "none of its steps"),
        (SGDClassifier(norm_bound=1.0), "release",
         ["exposed", "replay", "noise-law", "sampling-law"], "pass the door"),
    ],
)  # fmt: skip
def test_a_check_that_sees_nothing_is_a_fault(
    monkeypatch: pytest.MonkeyPatch, estimator: Any, name: str, attacks: list[str], words: str
) -> None:
    before = check_estimator(estimator, attacks=attacks)
    assert {found.verdict for found in before.findings} == {"consistent"}, str(before)
    monkeypatch.setattr(Passage, name, UNSEEN[name])
    found = check_estimator(estimator, attacks=attacks)
    assert {each.verdict for each in found.findings} == {"violated"}, str(found)
    assert all(words in each.detail for each in found.findings), str(found)


def test_noise_that_nobody_saw_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mechanism whose noise is no longer drawn by the method that is watched."""
    monkeypatch.setattr(trace_module, "MECHANISMS", {})
    found = check_estimator(
        LogisticRegression(mechanism="output", norm_bound=1.0), attacks=["replay"]
    )
    assert found.verdict == "violated"
    assert "none was seen to be drawn" in found.findings[0].detail
