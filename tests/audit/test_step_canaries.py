"""Canaries for quantiles, unknown categories and tuning: right steps pass, wrong ones are caught.

Error rate: every audit has confidence 0.999 and a fixed seed. A right step would fail with
probability 0.001 if the seed changed. Every wrong step is caught with 4,000 fits or fewer in each
world (benchmarks/audit_steps.py: how often, over 20 seeds).
"""

import copy
import functools
import itertools
import math

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from noisette import Ledger, LogisticRegression, PrivateSearch, Randomness
from noisette.audit import two_worlds
from noisette.core import accounting, mechanisms, plans
from noisette.core.adjacency import Adjacency
from noisette.core.bounded import Bounded
from noisette.core.search import best_run
from noisette.core.summaries import Ranks, key_counts
from noisette.errors import InvalidParameter
from step_canaries import (
    LeakyCandidate,
    partition_canary,
    quantile_canary,
    scoring_canary,
    tuning_canary,
)

BOTH = ["replace-one", "add-remove"]
QUANTILES = [  # by `make slow`: the other relation of each
    pytest.param(q, adjacency, marks=[pytest.mark.slow] * ((q == 0.5) == (adjacency == BOTH[1])))
    for q, adjacency in itertools.product([0.2, 0.5, 0.9], BOTH)
]


class Step:
    """Anything with fit: calls a function of the data and keeps what it returns."""

    def __init__(self, function):
        self.function = function

    def fit(self, X, y=None):
        self.released_ = self.function(X, y)
        return self


def released(model):
    return model.released_


def audit(canary, function, claim, runs=4000):
    return two_worlds(
        lambda: Step(function), canary.D, canary.D_prime, claim=claim,
        statistic=canary.statistic, runs=runs, confidence=0.999,
    )  # fmt: skip


def neighbours(canary, adjacency):
    (X, y), (Z, t) = canary.D, canary.D_prime
    if adjacency == "add-remove":
        return len(Z) == len(X) - 1 and (X[:-1] == Z).all() and (y is None or (y[:-1] == t).all())
    changed = (X != Z).any(axis=1) if y is None else (X != Z).any(axis=1) | (y != t)
    return len(X) == len(Z) and changed.sum() == 1 and changed[-1]


# --- quantiles -----------------------------------------------------------------------------------


def private_quantile(generator, epsilon, q, sensitivity):
    """The exponential mechanism with the rank as utility (Smith 2011), by Gumbel noise.

    Theorem (McSherry and Talwar 2007): interval i has weight length * exp(epsilon u_i / (2 D)) and
    u_i = -|i - q n| moves by at most D = 1 under replace-one, max(q, 1 - q) under add-remove; so
    the draw is epsilon-DP.
    """

    def draw(X, y):
        points = np.concatenate([[0.0], np.sort(np.clip(X[:, 0], 0.0, 1.0)), [1.0]])
        rank = -np.abs(np.arange(len(X) + 1) - q * len(X))
        with np.errstate(divide="ignore"):
            weight = np.log(np.diff(points)) + epsilon * rank / (2.0 * sensitivity)
        i = int(np.argmax(weight + generator.gumbel(size=len(weight))))
        return generator.uniform(points[i], points[i + 1])

    return draw


def on_a_grid(generator, epsilon, sensitivity):
    """The same with this library's mechanism over 13 public candidates (EXPONENTIAL-BR)."""
    grid = np.linspace(0.0, 1.0, 13)
    law = mechanisms.Exponential(epsilon)

    def draw(X, y):
        score = -np.abs((grid >= X).sum(axis=0) - 0.5 * len(X))
        value = Bounded(score, Adjacency.REPLACE_ONE, "EXPONENTIAL-BR", linf=sensitivity)
        return grid[law.apply(value, None, generator)]

    return draw


@pytest.mark.parametrize(("q", "adjacency"), QUANTILES)
def test_a_right_quantile_passes(adjacency, q):
    canary = quantile_canary(released, quantile=q, adjacency=adjacency)
    assert neighbours(canary, adjacency)
    D = 1.0 if adjacency == "replace-one" else max(q, 1.0 - q)
    right = private_quantile(np.random.default_rng(1), 1.0, q, D)
    found = audit(canary, right, 1.0, runs=8000)
    assert found.verdict == "consistent"
    assert found.epsilon_lower > 0.4  # the canary is near the worst case


@pytest.mark.parametrize(("q", "adjacency"), QUANTILES)
def test_half_the_sensitivity_is_caught(adjacency, q):
    canary = quantile_canary(released, quantile=q, adjacency=adjacency)
    D = 0.5 if adjacency == "replace-one" else max(q, 1.0 - q) / 2.0
    wrong = private_quantile(np.random.default_rng(2), 1.0, q, D)
    assert audit(canary, wrong, 1.0).verdict == "violated"


@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize("q", [0.2, 0.5, 0.9])
def test_the_quantile_canary_is_near_the_worst_case(adjacency, q):
    """The exact ratio of the draw to the right of the lone point: above 0.75 epsilon, below it."""
    epsilon, narrow = 1.0, 0.15
    canary = quantile_canary(released, quantile=q, adjacency=adjacency)
    D = 1.0 if adjacency == "replace-one" else max(q, 1.0 - q)
    mass = []
    for X, _ in (canary.D, canary.D_prime):
        points = np.concatenate([[0.0], np.sort(X[:, 0]), [1.0]])
        rank = -np.abs(np.arange(len(X) + 1) - q * len(X))
        weight = np.diff(points) * np.exp(epsilon * rank / (2.0 * D))
        mass.append(weight[points[:-1] >= 1.0 - narrow].sum() / weight.sum())
    ratio = abs(math.log(mass[1] / mass[0]))
    assert 0.75 * epsilon < ratio <= epsilon


@pytest.mark.parametrize("q", [0.05, 0.5, 0.99])
def test_an_exact_quantile_is_caught(q):
    canary = quantile_canary(released, lower=-10.0, upper=30.0, quantile=q)
    found = audit(canary, lambda X, y: np.quantile(X, q, method="inverted_cdf"), 3.0)
    assert found.verdict == "violated"


def test_the_grid_of_this_library_passes_and_its_half_is_caught():
    canary = quantile_canary(released)
    generator = np.random.default_rng(3)
    assert audit(canary, on_a_grid(generator, 1.0, 1.0), 1.0).verdict == "consistent"
    assert audit(canary, on_a_grid(generator, 1.0, 0.5), 1.0).verdict == "violated"


def by_ranks(generator, adjacency, *, wrong=1.0, level=False, q=0.5):
    """The library's own scores over 40 public candidates; `wrong` shrinks their bound."""
    grid = (np.arange(40) + 0.5) / 40.0
    law, relation = mechanisms.Exponential(1.0), Adjacency.of(adjacency)

    def draw(X, y):
        ranks = Ranks(X[:, 0], grid)
        # the first level of the recursion; two gaps are enumerated in reference/test_summaries.py
        value = ranks.medians([], relation) if level else ranks.quantile(q, relation)
        value = Bounded(value.value, relation, value.proof, linf=wrong * value.linf)
        return grid[np.atleast_1d(law.apply(value, None, generator))[-1]]

    return draw


@pytest.mark.parametrize(("q", "adjacency"), QUANTILES)
def test_quantiles_by_ranks_pass_and_half_their_bound_is_caught(adjacency, q):
    kind = {"level": True} if q == 0.5 else {"q": q}
    canary = quantile_canary(released, quantile=q, adjacency=adjacency)
    found = audit(canary, by_ranks(np.random.default_rng(6), adjacency, **kind), 1.0, runs=4000)
    assert found.verdict == "consistent"
    wrong = by_ranks(np.random.default_rng(7), adjacency, wrong=0.5, **kind)
    assert audit(canary, wrong, 1.0).verdict == "violated"


# --- unknown categories --------------------------------------------------------------------------


def selection(generator, epsilon, threshold, adjacency):
    """Noisy counts above a threshold.

    Theorem (Korolova et al. 2009; Desfontaines et al. 2022): with Laplace noise of scale 1/epsilon
    and T = 1 + ln(1/(2 delta))/epsilon a unique category is released with probability delta, so
    the set is (epsilon, delta)-DP under add-remove. Under replace-one two counts move: scale and
    T - 1 double.
    """
    factor = 2.0 if adjacency == "replace-one" else 1.0

    def select(X, y):
        keys, counts = np.unique(X[:, 0], return_counts=True)
        noisy = counts + generator.laplace(0.0, factor / epsilon, len(keys))
        return keys[noisy >= 1.0 + factor * threshold / epsilon].tolist()

    return select


@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize("delta", [0.05, 1e-3])
def test_right_partition_selection_passes(adjacency, delta):
    canary = partition_canary(released, adjacency=adjacency)
    assert neighbours(canary, adjacency)
    select = selection(np.random.default_rng(4), 1.0, math.log(0.5 / delta), adjacency)
    found = audit(canary, select, (1.0, delta), runs=6000)
    assert found.verdict == "consistent"


@pytest.mark.parametrize("adjacency", BOTH)
def test_a_threshold_that_is_too_low_is_caught(adjacency):
    """T for delta = 0.05 where 0.001 is claimed; and every category that occurs."""
    canary = partition_canary(released, adjacency=adjacency)
    select = selection(np.random.default_rng(5), 1.0, math.log(0.5 / 0.05), adjacency)
    assert audit(canary, select, (1.0, 1e-3)).verdict == "violated"
    found = audit(canary, lambda X, y: set(X[:, 0]), (1.0, 1e-3), runs=200)
    assert found.verdict == "violated"
    assert found.event == "statistic >= 1"


def behind_a_bar(generator, adjacency, mass):
    """The library's own selection: noisy counts of the keys that occur, if they reach the bar."""
    law, relation = mechanisms.GaussianThreshold(5.0, mass), Adjacency.of(adjacency)

    def select(X, y):
        names, codes = np.unique(X[:, 0], return_inverse=True)
        counts, keys = key_counts([codes], relation)
        unit = counts.l2 / relation.contributions
        shown = law.apply(counts, unit, generator)
        passed = zip(keys, shown, strict=True)
        return {names[code] for (_, code), count in passed if code >= 0 and not math.isnan(count)}

    return select


@pytest.mark.parametrize("adjacency", BOTH)
def test_counts_behind_a_bar_pass_and_a_lower_bar_is_caught(adjacency):
    canary = partition_canary(released, adjacency=adjacency)
    claim = (1.0, 1e-3)
    found = audit(canary, behind_a_bar(np.random.default_rng(8), adjacency, 1e-3), claim)
    assert found.verdict == "consistent"
    wrong = behind_a_bar(np.random.default_rng(9), adjacency, 0.02)
    assert audit(canary, wrong, claim).verdict == "violated"


def test_categories_may_be_numbers():
    canary = partition_canary(released, common=3, unique=7, rows=4)
    assert canary.D[0].ravel().tolist() == [3, 3, 3, 7]
    assert canary.D_prime[0].ravel().tolist() == [3, 3, 3]
    assert canary.statistic(Step(lambda X, y: {7}).fit(None)) == 1.0
    assert canary.statistic(Step(lambda X, y: {3}).fit(None)) == 0.0


# --- tuning --------------------------------------------------------------------------------------


def best_of(generator, candidates, count):
    """Train `count()` times with a random candidate and keep the best score."""

    def tune(X, y):
        best = None
        for _ in range(count()):
            model = copy.copy(candidates[generator.integers(len(candidates))]).fit(X, y)
            if best is None or model.score(X, y) > best.score(X, y):
                best = model
        return best

    return tune


@pytest.mark.parametrize("adjacency", BOTH)
def test_a_random_number_of_runs_passes(adjacency):
    """Theorem (Liu and Talwar 2019; Papernot and Steinke 2022, eta = 1): the best of a geometric
    number of epsilon-DP runs is 3 epsilon-DP, whatever the mean number."""
    canary = tuning_canary(
        released, epsilon=1.0, adjacency=adjacency, randomness=Randomness.from_seed(6)
    )
    assert neighbours(canary, adjacency)
    generator = np.random.default_rng(6)
    tune = best_of(generator, canary.candidates, lambda: generator.geometric(0.3))
    assert audit(canary, tune, 3.0).verdict == "consistent"
    # the same tuner that charges one run: its true epsilon on this canary is 1.51
    assert audit(canary, tune, 1.0).verdict == "violated"


@pytest.mark.parametrize("count", [2, 10])
def test_best_of_many_that_charges_one_run_is_caught(count):
    canary = tuning_canary(released, epsilon=1.0, randomness=Randomness.from_seed(7))
    tune = best_of(np.random.default_rng(7), canary.candidates, lambda: count)
    found = audit(canary, tune, 1.0)
    assert found.verdict == "violated"
    # and the honest charge of all runs stands
    assert audit(canary, tune, float(count)).verdict == "consistent"


def test_one_run_of_a_candidate_is_as_private_as_it_says():
    canary = tuning_canary(released, epsilon=1.0, randomness=Randomness.from_seed(8))
    tune = best_of(np.random.default_rng(8), canary.candidates, lambda: 1)
    found = audit(canary, tune, 1.0, runs=8000)
    assert found.verdict == "consistent"
    assert found.epsilon_lower > 0.85
    assert audit(canary, tune, 0.5).verdict == "violated"


def noisy_choice(generator, candidates, epsilon, sensitivity):
    """Theorem (McSherry and Talwar 2007): the exponential mechanism on the number of right answers,
    each of which one record moves by at most 1, is epsilon-DP (EXPONENTIAL-BR)."""
    law = mechanisms.Exponential(epsilon)

    def tune(X, y):
        models = [copy.copy(each).fit(X, y) for each in candidates]
        score = np.array([model.score(X, y) * len(y) for model in models])
        value = Bounded(score, Adjacency.REPLACE_ONE, "EXPONENTIAL-BR", linf=sensitivity)
        return models[law.apply(value, None, generator)]

    return tune


@pytest.mark.parametrize("lead", [0, 2])
@pytest.mark.parametrize("adjacency", BOTH)
def test_a_noisy_choice_passes(adjacency, lead):
    canary = scoring_canary(released, lead=lead, adjacency=adjacency)
    assert neighbours(canary, adjacency)
    tune = noisy_choice(np.random.default_rng(9), canary.candidates, 1.0, 1.0)
    assert audit(canary, tune, 1.0).verdict == "consistent"


def test_a_choice_by_the_exact_score_is_caught():
    canary = scoring_canary(released)
    exact = noisy_choice(np.random.default_rng(10), canary.candidates, 1.0, 1e-9)
    assert audit(canary, exact, 3.0, runs=400).verdict == "violated"


def test_a_choice_with_half_the_noise_is_caught():
    canary = scoring_canary(released, lead=2)
    tune = noisy_choice(np.random.default_rng(11), canary.candidates, 1.0, 0.5)
    assert audit(canary, tune, 1.0).verdict == "violated"


def test_the_best_run_of_this_library_passes_and_charging_one_run_is_caught():
    """Two of one run, 3.1 of the best of a geometric number with mean 5, on this canary."""
    canary = tuning_canary(released, epsilon=2.0, rows=4)
    randomness = Randomness.from_seed(11)
    plan = plans.Selected(mechanisms.RandomizedResponse(2.0), law=plans.Geometric(5.0))

    def tune(X, y):
        permit = Ledger(10.0).charge(plan, label="a search")

        def run(number, lent):
            model = LeakyCandidate(2.0, random_state=randomness, ledger=lent).fit(X, y)
            return model.score(), model

        return best_run(permit, randomness, run)[1]

    whole = accounting.epsilon(plan, delta=0.0)
    assert audit(canary, tune, whole, runs=400).verdict == "consistent"
    assert audit(canary, tune, 2.0, runs=1400).verdict == "violated"


class Searched:
    """A private search over leaky candidates; labels are all 1, so that the answer 1 scores."""

    def __init__(self, candidate, randomness):
        self.settings = (candidate, randomness)

    def fit(self, X, y):
        candidate, randomness = self.settings
        search = PrivateSearch(
            candidate, {"number": [0, 1]}, 4.0, runs="geometric", mean=10.0, test_share=0.02,
            random_state=randomness,
        )  # fmt: skip
        self.best_estimator_ = search.fit(X, np.ones(len(y), dtype=int)).best_estimator_
        return self


@pytest.mark.slow
def test_a_private_search_passes_and_one_that_reports_one_run_is_caught():
    canary = tuning_canary(epsilon=1.0, rows=400)
    make = functools.partial(Searched, canary.candidates[0], Randomness.from_seed(9))
    model = LogisticRegression(norm_bound=1.0)
    shown = PrivateSearch(model, {"regularization": [0.1]}, 4.0, runs="geometric").plan(400, 1)
    own = accounting.epsilon(shown.plan.candidates[0].plans[1], delta=0.0)
    assert 1.4 < own < 1.7
    for claim, verdict, runs in ((own, "violated", 3000), (4.0, "consistent", 400)):
        found = two_worlds(
            make, canary.D, canary.D_prime, claim=claim, statistic=canary.statistic, runs=runs,
            confidence=0.999,
        )  # fmt: skip
        assert found.verdict == verdict


def test_a_grid_search_around_private_models_is_caught():
    """scikit-learn's own search scores on the data, exactly: private candidates do not help."""
    canary = scoring_canary()
    make = functools.partial(
        GridSearchCV, canary.candidates[0], {"label": [0, 1]}, cv=[(np.arange(21), np.arange(21))]
    )
    found = two_worlds(
        make, canary.D, canary.D_prime, claim=1.0, statistic=canary.statistic, runs=80,
        confidence=0.999,
    )  # fmt: skip
    assert found.verdict == "violated"


def test_canaries_reach_other_processes():
    canary = tuning_canary(released, epsilon=1.0)
    tune = functools.partial(Step, lambda X, y: copy.copy(canary.candidates[0]).fit(X, y))
    found = two_worlds(
        tune, canary.D, canary.D_prime, claim=1.0, statistic=canary.statistic, runs=100, n_jobs=2,
        confidence=0.999999,
    )  # fmt: skip
    assert found.verdict == "consistent"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: quantile_canary(released, lower=1.0, upper=1.0), "lower < upper"),
        (lambda: quantile_canary(released, upper=math.inf), "lower < upper"),
        (lambda: quantile_canary(released, quantile=1.0), "quantile must be a number in"),
        (lambda: quantile_canary(released, rows=2), "rows must be"),
        (lambda: quantile_canary(released, adjacency="zero-out"), "got 'zero-out'"),
        (lambda: partition_canary(released, common=1, unique=1), "must differ"),
        (lambda: tuning_canary(released, epsilon=0.0), "epsilon must be"),
        (lambda: tuning_canary(released, candidates=1), "candidates must be"),
        (lambda: scoring_canary(released, rows=20), "must be even"),
        (lambda: scoring_canary(released, rows=5, lead=4), "must be even"),
    ],
)
def test_mistakes_in_canaries(make, words):
    with pytest.raises(InvalidParameter, match=words):
        make()
