"""The two-world audit: right mechanisms pass at the stated rate, wrong ones are found."""

import functools
import importlib.util
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from noisette import Ledger, LogisticRegression
from noisette.audit import AuditReport, gdp_two_worlds, two_worlds
from noisette.audit.events import Outcome, best_box, best_threshold, box, repeats, trace
from noisette.audit.worlds import jobs, released, running, with_fresh_seed
from noisette.core import mechanisms
from noisette.core.mechanisms.gaussian_curve import gdp_delta, gdp_mu
from noisette.errors import InvalidData, InvalidParameter, Unproven

ROOT = Path(__file__).parents[2]

D = (np.array([1.0, 0.0, 0.0]), None)
D_PRIME = (np.array([0.0, 0.0, 0.0]), None)


def first_weight(model):
    return model.coef_[0, 0]


class NoisySum:
    """A light estimator: a sum of three numbers in [0, 1], released with noise of a known law."""

    def __init__(self, draw):
        self.draw = draw

    def fit(self, X, y):
        self.coef_ = np.atleast_2d(X + self.draw())
        return self


def laplace(generator, scale):
    return lambda: NoisySum(lambda: np.append(generator.laplace(0.0, scale), generator.random(2)))


def gaussian(generator, scale):
    return lambda: NoisySum(lambda: generator.normal(0.0, scale, 3))


def spherical(generator, scale):
    def draw():
        z = generator.standard_normal(3)
        return z / np.linalg.norm(z) * generator.gamma(3.0, scale)

    return lambda: NoisySum(draw)


def audit(make, claim=1.0, runs=400, **options):
    options.setdefault("statistic", first_weight)
    return two_worlds(make, D, D_PRIME, claim=claim, runs=runs, **options)


# --- right mechanisms ----------------------------------------------------------------------------

# Claims that are exactly true: not a hair of room for the auditor.
LAWS = {
    "laplace": (laplace, 1.0, 1.0),
    "spherical": (spherical, 1.0, 1.0),
    "gaussian": (gaussian, 1.0, (1.0, float(gdp_delta(1.0, 1.0)))),
}


def false_alarm_rate(audits, confidence=0.9, runs=200):
    """Return the share of right claims that the audit calls violated, over all three laws."""
    alarms = 0
    for i in range(audits):
        make, scale, claim = list(LAWS.values())[i % 3]
        generator = np.random.default_rng([5, i])
        found = audit(make(generator, scale), claim, runs, confidence=confidence)
        alarms += any(each.verdict == "violated" for each in found.findings)
    return alarms / audits


def test_false_alarms_stay_below_the_stated_rate():
    """100 audits at 90 %: more than 19 % alarms has probability 0.2 % even at the full level."""
    rate = false_alarm_rate(100)
    print(f"false alarms: {rate:.3f} of 100 audits, stated 0.1")
    assert rate <= 0.19


@pytest.mark.slow
def test_false_alarms_over_a_thousand_audits():
    """1,000 audits at 90 % and 1,000 at 99 %; thresholds 13 % and 2 % (1e-3 at the full level)."""
    rates = [false_alarm_rate(1000, confidence, 400) for confidence in (0.9, 0.99)]
    print(f"false alarms over 1,000 audits: {rates[0]:.4f} (stated 0.1), {rates[1]:.4f} (0.01)")
    assert rates[0] <= 0.13
    assert rates[1] <= 0.02


def test_gdp_false_alarms():
    """60 audits of an exact mu at 90 %: above 22 % has probability 0.3 % at the full level."""
    alarms = 0
    for i in range(60):
        make = gaussian(np.random.default_rng([6, i]), 1.0)
        found = gdp_two_worlds(
            make, D, D_PRIME, mu=1.0, statistic=first_weight, runs=200, confidence=0.9
        )
        alarms += any(each.verdict == "violated" for each in found.findings)
    assert alarms / 60 <= 0.22


# --- wrong mechanisms ----------------------------------------------------------------------------


@pytest.mark.parametrize("early_stop", [True, False])
@pytest.mark.parametrize("law", ["laplace", "spherical"])
def test_half_the_noise_is_found(law, early_stop):
    make, scale, claim = LAWS[law]
    runs = 1500 if law == "laplace" else 6000
    found = audit(
        make(np.random.default_rng(0), scale / 2), claim, runs=runs, early_stop=early_stop
    )
    assert found.verdict == "violated"
    assert 1.0 < found.epsilon_lower <= 2.0
    assert found.stopped_early == early_stop
    assert found.runs < 2 * runs if early_stop else found.runs == 2 * runs
    assert found.claim == (1.0, 0.0)
    assert found.finding.epsilon_lower == found.epsilon_lower
    assert "epsilon is at least" in found.finding.detail


def test_the_bound_comes_close_with_many_runs():
    found = audit(laplace(np.random.default_rng(1), 0.5), runs=20_000, early_stop=False)
    assert 1.8 < found.epsilon_lower <= 2.0


def test_the_order_of_the_worlds_does_not_matter():
    """A one-sided leak: the event that gives it away is likely in one world only."""

    def make(generator):
        # on D the release is sometimes exactly 5; on D' never
        def fit(self, X, y):
            leak = X.sum() > 0 and generator.random() < 0.2
            self.coef_ = np.array([[5.0 if leak else generator.random(), generator.random()]])
            return self

        return lambda: type("Leaky", (), {"fit": fit})()

    for worlds in ((D, D_PRIME), (D_PRIME, D)):
        found = two_worlds(
            make(np.random.default_rng(2)), *worlds, claim=1.0, statistic=first_weight, runs=1000
        )
        assert found.verdict == "violated"
        assert float(found.event.removeprefix("statistic >= ")) > 0.95


def test_gaussian_curves_are_seen_with_far_fewer_runs():
    """mu twice the claim: the GDP test sees it where the (epsilon, delta) test cannot."""
    delta, runs = 1e-6, 8000
    mu = gdp_mu(1.0, delta)
    options = {"statistic": first_weight, "runs": runs}
    make = gaussian(np.random.default_rng(3), 0.5 / mu)
    found = gdp_two_worlds(make, D, D_PRIME, mu=mu, delta=delta, **options)
    assert found.verdict == "violated"
    assert mu < found.mu_lower <= 2 * mu
    assert found.claim[0] == pytest.approx(1.0, abs=1e-6)
    blind = two_worlds(make, D, D_PRIME, claim=(1.0, delta), **options)
    assert blind.verdict == "consistent"


def test_a_guarantee_is_tested_on_its_whole_curve():
    """Half the promised Gaussian noise shows at a smaller epsilon long before the stated pair."""
    permit = Ledger(1.0, 1e-6, adjacency="zero-out").charge(
        mechanisms.Gaussian.calibrated(1.0, 1e-6, adjacency="zero-out"),
        label="sum",
        delta=1e-6,
    )
    promise = permit.guarantee("a sum")
    noise = promise.plan.mechanism.noise_multiplier
    wrong = gaussian(np.random.default_rng(4), noise / 2)
    found = audit(wrong, claim=promise, runs=12_000)
    assert found.verdict == "violated"
    assert found.claim[0] < 1.0
    assert found.claim[1] == pytest.approx(promise.delta_at(found.claim[0]))
    right = gaussian(np.random.default_rng(4), noise)
    assert audit(right, claim=promise, runs=2000).verdict == "consistent"
    options = {"statistic": first_weight, "runs": 8000}
    assert gdp_two_worlds(wrong, D, D_PRIME, claim=promise, **options).verdict == "violated"


# --- repeated noise ------------------------------------------------------------------------------


def test_a_fixed_seed_is_found_as_repeated_noise():
    """Every run draws the same noise: each world has one output, and the two differ."""
    found = audit(lambda: laplace(np.random.default_rng(0), 1.0)(), runs=100)
    assert found.repeated.verdict == "violated"
    assert found.repeated.attack == "two-worlds/repeated noise"
    assert found.repeated.epsilon_lower > 1.0
    assert "already given" in found.repeated.detail


def test_few_seeds_are_found_as_repeated_noise():
    """256 possible noise vectors, as a published benchmark once had."""
    generator = np.random.default_rng(8)
    make = lambda: laplace(np.random.default_rng([9, generator.integers(256)]), 1.0)()  # noqa: E731
    found = audit(make, runs=1200, statistic=lambda model: 0.0)
    assert found.verdict == "consistent"  # the statistic is blind, the repetition is not
    assert found.repeated.verdict == "violated"


def one_noise_for_all_classes(generator, shared):
    def fit(self, X, y):
        rows = np.zeros((3, 2))
        np.add.at(rows, y, X)
        noise = generator.laplace(0.0, 6.0, 2)
        self.coef_ = rows + (noise if shared else generator.laplace(0.0, 6.0, (3, 2)))
        return self

    return lambda: type("Rows", (), {"fit": fit})()


@pytest.mark.parametrize("shared", [True, False])
def test_noise_shared_by_the_classes_is_found(shared):
    """The bug of a known library with n_jobs=2: subtract two rows and the noise is gone."""
    zero, one = np.zeros((4, 2)), np.zeros((4, 2))
    one[0, 0] = 1.0
    y = np.array([0, 1, 2, 0])
    make = one_noise_for_all_classes(np.random.default_rng(1), shared)
    found = two_worlds(make, (zero, y), (one, y), claim=1.0, statistic=first_weight, runs=120)
    assert found.repeated.verdict == ("violated" if shared else "consistent")
    assert found.verdict == "consistent"


def test_honest_repetitions_are_no_alarm():
    """A discrete release repeats all the time, in both worlds as its claim allows."""
    generator = np.random.default_rng(2)

    class Response:
        def fit(self, X, y):
            truth = X.sum() > 0
            lie = generator.random() > math.e / (1 + math.e)
            self.coef_ = np.array([[float(truth != lie), 0.0]])
            return self

    found = two_worlds(Response, D, D_PRIME, claim=1.0, statistic=first_weight, runs=2000)
    assert found.verdict == found.repeated.verdict == "consistent"
    assert found.epsilon_lower > 0.6
    assert found.repeated.epsilon_lower > 0.6


def test_trace():
    digest, pattern = trace([[1.0, 2.0], [3.0, 4.0]])
    assert pattern is None
    assert digest != trace([[1.0, 2.0], [3.0, 4.0000001]])[0]
    assert trace([[1.0, 2.0], [1.0, 2.0], [0.0, 0.0]])[1] == (0, 0, 2)
    assert trace([1.0, 2.0, 1.0])[1] == (0, 1, 0)
    assert repeats([Outcome(0.0)] * 5, [Outcome(1.0)] * 5) is None


# --- processes -----------------------------------------------------------------------------------


class GlobalNoise:
    """A third party's estimator: NumPy's global generator, as most of scikit-learn uses it."""

    def fit(self, X, y):
        self.coef_ = np.random.laplace(size=(1, 2))
        return self


class Recipe:
    """What one run of `GlobalNoise` releases."""

    def __call__(self):
        return GlobalNoise().fit(None, None).coef_.tobytes()


def outputs(tasks, count, n_jobs):
    with running(tasks, n_jobs) as rounds:
        return [value for column in rounds(count) for value in column]


def test_workers_draw_independent_noise():
    """Two processes and two tasks that use the global generator: 160 different outputs."""
    np.random.seed(0)
    seen = outputs([Recipe(), Recipe()], 80, n_jobs=2)
    assert len(seen) == len(set(seen)) == 160


def test_the_search_for_copies_finds_them():
    """The mutant: every worker starts from one state, as forked copies of a generator would."""

    class Copied:
        def __init__(self):
            self.generator = np.random.default_rng(0)

        def __call__(self):
            return self.generator.laplace(size=2).tobytes()

    seen = outputs([Copied()], 80, n_jobs=2)
    assert len(set(seen)) < len(seen) == 80


def test_an_audit_in_two_processes():
    found = two_worlds(
        GlobalNoise, D, D_PRIME, claim=1.0, statistic=first_weight, runs=200, n_jobs=2
    )
    assert found.verdict == found.repeated.verdict == "consistent"
    assert found.runs == 400
    worse = functools.partial(LogisticRegression, epsilon=1.0, classes=[0, 1], norm_bound=1.0)
    X, y = np.zeros((20, 2)), np.array([0, 1] * 10)
    Z = X.copy()
    Z[0] = [1.0, 0.0]
    found = two_worlds(worse, (X, y), (Z, y), claim=1.0, statistic=first_weight, runs=60, n_jobs=2)
    assert found.verdict == found.repeated.verdict == "consistent"


def test_results_come_in_the_order_of_the_runs():
    with running([lambda: "d", lambda: "p"], 1) as rounds:
        assert rounds(3) == [["d"] * 3, ["p"] * 3]
    with running([int, float], 2) as rounds:
        assert rounds(5) == [[0] * 5, [0.0] * 5]


def test_fixed_seeds_are_replaced_by_fresh_ones():
    seeds = {
        with_fresh_seed(LogisticRegression(1.0, random_state=3, norm_bound=1.0)).random_state
        for _ in range(9)
    }
    assert len(seeds) == 9
    assert with_fresh_seed(LogisticRegression(1.0, norm_bound=1.0)).random_state is None


# --- the rest ------------------------------------------------------------------------------------


def test_the_pilot_is_not_used_again():
    """An event that fits the pilot by luck only must not survive: outcomes are pure noise."""
    generator = np.random.default_rng(0)
    found = audit(laplace(generator, 1e6), claim=0.001, runs=1000)
    assert found.verdict == "consistent"
    assert found.counts[1] == found.counts[3] == 500
    assert found.runs == 2000


def test_best_threshold_finds_the_tail():
    x, y = np.arange(100.0) + 50, np.arange(100.0)
    event, p, q = best_threshold(x, y, lambda k, n, j, m: k / n - j / m)
    assert event.words == "statistic >= 50" or event.words.endswith(" 100")
    assert p - q == pytest.approx(0.5, abs=0.02)
    event, _, _ = best_threshold(y, x, lambda k, n, j, m: k / n - j / m)
    assert event.words.startswith("statistic <= ")


def boxed(shift):
    """The worlds differ only where the first number is large and the second is small."""
    generator = np.random.default_rng(1)

    def fit(self, X, y):
        z = generator.laplace(0.0, 1.0, 3)
        if X.sum() > 0 and abs(z[0]) > 1.5 and abs(z[1]) < 1.0:
            z[1] += shift
        self.coef_ = z[None]
        return self

    return lambda: type("Hidden", (), {"fit": fit})()


def test_without_a_statistic_the_pilot_finds_the_event():
    found = two_worlds(boxed(5.0), D, D_PRIME, claim=1.0, runs=3000)
    assert found.verdict == "violated"
    assert "z0" in found.event
    assert "|z1|" in found.event
    one = two_worlds(
        boxed(5.0), D, D_PRIME, claim=1.0, runs=3000, statistic=lambda model: model.coef_[0, 2]
    )
    assert one.verdict == "consistent"


def test_the_search_raises_no_false_alarm():
    """30 audits of an exact claim at 90 %, thousands of boxes each; 9 alarms are 0.2 % likely."""
    alarms = 0
    for i in range(30):
        generator = np.random.default_rng([12, i])
        found = two_worlds(
            spherical(generator, 1.0), D, D_PRIME, claim=1.0, runs=120, confidence=0.9
        )
        alarms += found.verdict == "violated"
    assert alarms < 9


def test_boxes_count_what_they_say():
    generator = np.random.default_rng(0)
    first, second = ([Outcome(0.0, row) for row in generator.normal(size=(300, 3))] for _ in "ab")
    best, p, q = best_box(first, second, lambda k, n, j, m: k / n - j / m)
    assert p == pytest.approx((best.happened(first).sum() + 0.5) / 301)
    assert q == pytest.approx((best.happened(second).sum() + 0.5) / 301)
    assert box(()).happened(first).all()
    assert box(((0, True, True, 2.0), (1, False, False, 0.5))).words == "|z0| > 2 and z1 <= 0.5"
    wide = [Outcome(0.0, row) for row in generator.normal(size=(50, 20))]
    assert best_box(wide, wide[::-1], lambda k, n, j, m: k / n - j / m)[1] > 0.0


def test_nan_is_an_outcome_like_any_other():
    def make():
        return NoisySum(lambda: np.zeros(3))

    def statistic(model):
        return math.nan if model.coef_[0, 0] > 0 else 1.0

    found = audit(make, runs=60, statistic=statistic)
    assert found.verdict == "violated"


def test_the_report_reads_well():
    found = audit(laplace(np.random.default_rng(0), 0.25), runs=300)
    report = AuditReport("a noisy sum", found.findings)
    assert report.verdict == "violated"
    assert report.violations == (found.finding,)
    text = str(report)
    assert "audit of a noisy sum: violated" in text
    assert "99 %" in text
    assert report.to_dict()["findings"][0]["claim"] == [1.0, 0.0]
    assert "violated" in report.to_json()
    assert "repeated" in report.joined(report.findings).findings[3].attack
    assert AuditReport("nothing", ()).verdict == "not applicable"


def test_released():
    model = LogisticRegression(1.0, classes=[0, 1, 2], norm_bound=1.0)
    assert released(model) is None
    model.fit(np.eye(6), [0, 1, 2] * 2)
    assert released(model).shape == (3, 7)
    plain = LogisticRegression(1.0, fit_intercept=False, classes=[0, 1], norm_bound=1.0)
    assert released(plain.fit(np.eye(6), [0, 1] * 3)).shape == (1, 6)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"claim": -1.0}, InvalidParameter, "epsilon must be"),
        ({"claim": (1.0, 2.0)}, InvalidParameter, "delta must be"),
        ({"claim": (1.0, 0.0, 0.0)}, InvalidParameter, "claim must be"),
        ({"claim": "one"}, InvalidParameter, "epsilon must be"),
        ({"runs": 3}, InvalidParameter, "runs must be"),
        ({"runs": 100, "pilot": 99}, InvalidParameter, "pilot must leave"),
        ({"confidence": 1.0}, InvalidParameter, "confidence must be"),
        ({"n_jobs": 0}, InvalidParameter, "n_jobs must be"),
        ({"n_jobs": 1.5}, InvalidParameter, "n_jobs must be"),
        ({"statistic": 3}, InvalidParameter, "statistic must be a function"),
        ({"D": np.zeros(3)}, InvalidData, "must be pairs"),
        ({"statistic": None, "output": None}, InvalidParameter, "pass a statistic"),
        ({"statistic": None, "output": lambda model: None}, InvalidParameter, "has no coef_"),
        ({"make_model": lambda: 3}, InvalidParameter, "an estimator with fit"),
        ({"make_model": 3}, InvalidParameter, "make_model must be a function"),
    ],
)
def test_mistakes(change, error, words):
    good = {
        "make_model": laplace(np.random.default_rng(0), 1.0), "D": D, "D_prime": D_PRIME,
        "claim": 1.0, "statistic": first_weight, "runs": 20,
    }  # fmt: skip
    with pytest.raises(error, match=words):
        two_worlds(**{**good, **change})


def promise_of(plan, epsilon, delta):
    return Ledger(epsilon, delta).charge(plan, label="x", delta=delta).guarantee("a sum")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mu": 1.0, "claim": promise_of(mechanisms.Gaussian(8.0), 5.0, 1e-5)},
        {"claim": (1.0, 1e-6)},
        {"claim": promise_of(mechanisms.Laplace(2.0), 1.0, 0.0)},
        {"claim": promise_of(mechanisms.ObjectiveNoise(8.0, 3, "gaussian", 0.5), 5.0, 1e-5)},
    ],
    ids=["nothing", "both", "a pair", "pure", "objective perturbation"],
)
def test_what_is_no_gaussian_curve_is_refused(options):
    with pytest.raises(Unproven, match="two_worlds"):
        gdp_two_worlds(
            laplace(np.random.default_rng(0), 1.0), D, D_PRIME, statistic=first_weight, **options
        )


def test_jobs():
    assert jobs(1) == 1
    assert jobs(-1) >= 1


def test_the_page_runs():
    """The code of docs/audit.md runs as it stands."""
    text = (ROOT / "docs" / "audit.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.S)
    assert blocks
    exec("\n".join(blocks), {})


def test_the_worlds_of_the_experiment_are_neighbours():
    """One row or one label differs, all classes occur, and no row is longer than the data norm."""
    path = ROOT / "benchmarks" / "audit_diffprivlib.py"
    spec = importlib.util.spec_from_file_location("audit_diffprivlib", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
        for setting in module.SETTINGS:
            pairs = module.worlds(setting)
            assert len(pairs) == 4
            for (X, y), (Z, t) in pairs.values():
                assert ((X != Z).any(axis=1) | (y != t)).sum() == 1
                assert len(set(y)) == len(set(t)) == setting.classes
                assert max(np.abs(X).max(), np.abs(Z).max()) <= setting.norm
    finally:
        del sys.modules[spec.name]
