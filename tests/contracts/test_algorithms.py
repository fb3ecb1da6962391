"""What every training algorithm promises; an entry of `ALGORITHMS` without an example fails."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from helpers import watching
from noisette.core.accounting import epsilon
from noisette.core.adjacency import ADD_REMOVE, REPLACE_ONE, ZERO_OUT
from noisette.core.bounded import Bounded
from noisette.core.door import NoiseStream
from noisette.core.ledger import Ledger
from noisette.core.randomness import Randomness
from noisette.core.sampling import Cyclic, Poisson
from noisette.errors import AdjacencyMismatch, InvalidData, NoisetteError, Unproven
from noisette.fitting.algorithms import (
    ALGORITHMS,
    Algorithm,
    GradientDescent,
    NetworkSteps,
    NoisySGD,
    ObjectivePerturbation,
    OutputPerturbation,
    Passage,
    Public,
    PublicBudget,
    PublicNetwork,
    Records,
    SinglePass,
    StreamedPass,
    SufficientStatistics,
    Trained,
    WhitenedObjective,
    train,
)
from noisette.fitting.algorithms.correlation import Banded
from noisette.fitting.algorithms.levels import Levels
from noisette.fitting.algorithms.network import level_batch
from noisette.fitting.algorithms.steps import Update
from noisette.fitting.algorithms.train import begin
from noisette.fitting.clipping import clip_rows, row_norms
from noisette.fitting.losses import Hinge, Logistic, Softmax, Squared

N, D = 120, 3
ONE_SHOT = Public(
    epsilon=2.0, delta=1e-5, adjacency=REPLACE_ONE, loss=Logistic(), features=D, norm_bound=1.0,
    size=N, most=N, regularization=20.0,
)  # fmt: skip
STEPS = replace(ONE_SHOT, most=None, regularization=None)
PURE = replace(STEPS, delta=0.0)
UPDATE = Update(Logistic())
LEVELS = np.where(np.arange(N) % 2, 1.0, 2.0)
NETWORK = PublicNetwork(
    epsilon=2.0, delta=1e-5, adjacency=REPLACE_ONE, size=N, parameters=D, batch_size=30, steps=4,
    clip_norm=0.5,
)  # fmt: skip


class GradientSteps(NetworkSteps):
    """`NetworkSteps` with a run of its own: any model that gives its gradients record by record."""

    def check(self, records: Any, prepared: Any) -> None:
        """Refuse records of another number, size or grouping than prepared for."""
        public, schedule, n = prepared.public, prepared.schedule, records.size
        public.check_count(n)
        if records.parameters != public.parameters:
            raise InvalidData("the model must have the number of parameters that was prepared for.")
        if not schedule.sampler.independent:
            schedule.sampler.check(n)
        groups = [np.arange(n)] if records.members is None else records.members
        once = np.array_equal(np.sort(np.concatenate(groups)), np.arange(n))
        if len(groups) != len(schedule.samplers) or not once:
            raise InvalidData("every record must be in one of the groups that the plan has.")
        if not public.fixed:
            raise Unproven("a clip_norm that moves is offered by noisette.nn only.")
        if public.grouped or schedule.first:
            raise Unproven("persons with several rows and balanced classes are for noisette.nn.")

    def run(self, records: Any, prepared: Any, passage: Passage) -> list[Any]:  # type: ignore[override]
        """Return the trained numbers after all steps of the plan."""
        public, schedule, members = prepared.public, prepared.schedule, records.members
        counts = None if members is None else [len(m) for m in members]
        divisor = schedule.normaliser(public.known_size("a network"), counts)
        banded = None if public.band is None else Banded(public.band)
        for rows in self._batches(schedule, records, passage.randomness):
            # proof: CLIP
            given = np.array(records.gradients(rows), dtype=np.float64)
            given = given.reshape(len(rows), records.parameters)
            given[~np.isfinite(row_norms(given))] = 0.0  # such a record adds nothing
            total = clip_rows(given, public.clip_norm).sum(axis=0)
            if banded is None:
                noisy = passage.release(
                    Bounded(total, public.adjacency, "CLIP", contribution=public.clip_norm)
                )
            else:
                noisy = banded(total, public.clip_norm, public.adjacency, passage.release)
            records.move(noisy / divisor)
        trained: list[Any] = records.trained()
        return trained

    @staticmethod
    def _batches(schedule: Any, records: Any, randomness: Randomness) -> Any:
        for _ in range(schedule.uses):
            if records.members is None:
                yield from schedule.sampler.schedule(records.size, randomness)
            else:
                yield level_batch(schedule.samplers, records.members, randomness)


Case = tuple[Algorithm[Any], Any]
Spoil = Callable[[Algorithm[Any], Any], Case]

EXAMPLES: dict[str, list[Case]] = {
    "output": [
        (OutputPerturbation(), ONE_SHOT),
        (OutputPerturbation(), replace(ONE_SHOT, delta=0.0, models=3)),
        (OutputPerturbation(), replace(ONE_SHOT, loss=Hinge(), adjacency=ZERO_OUT)),
    ],
    "objective": [
        (ObjectivePerturbation(), replace(ONE_SHOT, delta=0.0)),
        (ObjectivePerturbation(), replace(ONE_SHOT, adjacency=ADD_REMOVE, size=None, most=200)),
        (ObjectivePerturbation(), replace(ONE_SHOT, models=3)),
    ],
    "whitened": [
        (WhitenedObjective(), replace(ONE_SHOT, regularization=None)),
        (WhitenedObjective(0.3), replace(ONE_SHOT, loss=Softmax(3), adjacency=ZERO_OUT)),
    ],
    "single-pass": [
        (SinglePass(UPDATE, 30), PURE),
        (SinglePass(UPDATE, 30, "gaussian", permute=True), replace(STEPS, adjacency=ZERO_OUT)),
        (SinglePass(UPDATE, 30, levels=Levels(LEVELS, "batches")), PURE),
    ],
    "noisy-sgd": [
        (NoisySGD(UPDATE, Poisson(0.25), 4), STEPS),
        (NoisySGD(UPDATE, Poisson(0.25), 4), replace(STEPS, adjacency=ADD_REMOVE, size=150)),
        (NoisySGD(UPDATE, Cyclic(4, 30), 2, "spherical-laplace"), PURE),
        (
            NoisySGD(
                Update(Logistic(), learning_rate="constant"), Cyclic(4, 30), 2, released="last"
            ),
            STEPS,
        ),
    ],
    "gradient-descent": [
        (GradientDescent(UPDATE), STEPS),
        (GradientDescent(UPDATE, Levels(LEVELS)), replace(STEPS, adjacency=ZERO_OUT)),
    ],
    "stream": [
        (StreamedPass(UPDATE, 30), PURE),
        (StreamedPass(UPDATE, 30, "gaussian"), replace(STEPS, adjacency=ZERO_OUT)),
    ],
    "statistics": [
        (SufficientStatistics(), replace(ONE_SHOT, loss=Squared(), regularization=None)),
        (SufficientStatistics(0), replace(ONE_SHOT, loss=Squared(), delta=0.0)),
        (
            SufficientStatistics(2),
            replace(ONE_SHOT, loss=Squared(), adjacency=ADD_REMOVE, size=None, most=200),
        ),
    ],
    "network": [
        (GradientSteps(), NETWORK),
        (GradientSteps(), replace(NETWORK, steps=None, epochs=2, sampling="cyclic", band=3)),
        (GradientSteps(), replace(NETWORK, adjacency=ADD_REMOVE, size=150)),
        (GradientSteps(), replace(NETWORK, levels=((1.0, N // 2), (2.0, N // 2)))),
        (GradientSteps(), replace(NETWORK, plan=GradientSteps().prepare(NETWORK).plan)),
    ],
}

# One thing for each algorithm that it must refuse before any data are seen.
UNPROVEN: dict[str, Spoil] = {
    "output": lambda a, public: (a, replace(public, regularization=None)),
    "objective": lambda a, public: (a, replace(public, loss=Hinge())),
    "whitened": lambda a, public: (a, replace(public, delta=0.0)),
    "single-pass": lambda a, public: (a, replace(public, size=None)),
    "noisy-sgd": lambda a, public: (a, replace(public, size=None)),
    "gradient-descent": lambda a, public: (replace(a, update=Update(Hinge())), public),
    "stream": lambda a, public: (a, replace(public, epsilon=1e-300, delta=0.0)),
    "statistics": lambda a, public: (a, replace(public, loss=Logistic())),
    "network": lambda a, public: (a, replace(public, sampling="poisson", band=10**6)),
}

CASES = [
    pytest.param(*case, id=f"{name}-{number}")
    for name, cases in EXAMPLES.items()
    for number, case in enumerate(cases)
]
every_case = pytest.mark.parametrize(("algorithm", "public"), CASES)


class Slopes:
    """A linear model that gives its gradients record by record, for `GradientSteps`."""

    weights = None

    def __init__(self, public: PublicNetwork, features: int = D, size: int = N) -> None:
        self.size, self.parameters, self._w = size, features, np.zeros(features)
        self._rows = np.random.default_rng(3).standard_normal((size, features))
        several = len(public.levels) > 1
        self.members = [np.arange(k, size, 2) for k in (1, 0)] if several else None

    def gradients(self, rows: Any) -> Any:
        x = self._rows[rows]
        return 3.0 * x * (1.0 - x @ self._w)[:, None]

    def move(self, mean: Any) -> None:
        assert mean.shape == self._w.shape
        self._w = self._w + 0.1 * mean

    def trained(self) -> list[Any]:
        return [self._w]


def records(public: Any, label: float = 1.0) -> Any:
    if isinstance(public, PublicNetwork):
        return Slopes(public, D if label == 1.0 else D + 1)
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((N, D))
    rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
    if isinstance(public.loss, Softmax):
        return Records(rows, [rng.integers(0, 3, N) + 10 * (label != 1.0)])
    signs = [np.where(rows[:, k] > 0.0, label, -1.0) for k in range(public.models)]
    return Records(rows, signs)


def ledger_for(public: PublicBudget) -> Ledger:
    return Ledger(public.epsilon, public.delta, adjacency=public.adjacency)


@dataclass
class Watch:
    """Counts every noise vector that is handed out, by the part of the plan that pays for it."""

    charged: list[Any] = field(default_factory=list)
    drawn: dict[int, int] = field(default_factory=dict)

    def charge(self, real: Any, plan: Any, **options: Any) -> Any:
        assert not self.drawn, "noise before the charge"
        self.charged.append(plan)
        return real(plan, **options)

    def release(
        self, real: Any, bounded: Any, permit: Any, randomness: Any, *, part: int = 0
    ) -> Any:
        assert len(self.charged) == 1, "a release without a charge"
        result = real(bounded, permit, randomness, part=part)
        if isinstance(result, NoiseStream):
            return _Counted(result, self.drawn, part)
        self.drawn[part] = self.drawn.get(part, 0) + 1
        return result


class _Counted:
    def __init__(self, stream: NoiseStream, drawn: dict[int, int], part: int) -> None:
        self._stream, self._drawn, self._part = stream, drawn, part

    def take(self, count: int) -> Any:
        self._drawn[self._part] = self._drawn.get(self._part, 0) + count
        return self._stream.take(count)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def trained(
    algorithm: Algorithm[Any], public: Any, watcher: Any = None, seed: int = 0
) -> tuple[Trained, Ledger]:
    ledger = ledger_for(public)
    with watching(watcher):
        done = train(
            algorithm, public, records(public), ledger=ledger,
            randomness=Randomness.from_seed(seed),
        )  # fmt: skip
    return done, ledger


def test_every_algorithm_has_an_example() -> None:
    assert ALGORITHMS
    assert set(EXAMPLES) == set(UNPROVEN) == set(ALGORITHMS)
    for name, cases in EXAMPLES.items():
        assert cases
        assert all(isinstance(algorithm, ALGORITHMS[name]) for algorithm, _ in cases)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_says_what_it_is(name: str) -> None:
    kind = ALGORITHMS[name]
    assert issubclass(kind, Algorithm)
    assert kind.name == name
    assert kind.summary.strip()
    assert "\n" not in kind.summary
    assert kind.__doc__
    assert not kind.__doc__.startswith(kind.__name__ + "("), "written by the dataclass"
    assert list(inspect.signature(kind.prepare).parameters) == ["self", "public"]


@every_case
def test_preparing_is_a_function_of_public_facts(algorithm: Algorithm[Any], public: Any) -> None:
    """Twice the same, from an equal copy of the facts as well, and within the budget."""
    first, again = algorithm.prepare(public), algorithm.prepare(replace(public))
    assert first.plan == again.plan
    assert first.plan.to_json() == again.plan.to_json()
    assert first.proofs == again.proofs
    assert getattr(first, "weight_noise", None) == getattr(again, "weight_noise", None)
    assert first.public == public
    spent = epsilon(first.plan, delta=public.delta, adjacency=public.adjacency)
    assert spent <= public.epsilon * (1.0 + 1e-9)
    assert algorithm.passes(first) > 0.0


@every_case
def test_what_is_prepared_is_what_is_charged(algorithm: Algorithm[Any], public: Any) -> None:
    watch = Watch()
    done, ledger = trained(algorithm, public, watch)
    plan = algorithm.prepare(public).plan
    assert watch.charged == [plan]
    assert done.permit.plan.to_json() == plan.under(public.adjacency).to_json()
    assert len(ledger.charges) == 1
    assert ledger.spent == (public.epsilon, public.delta)
    shapes = [(D,)] if isinstance(public, PublicNetwork) else [public.shape] * public.models
    assert [part.shape for part in done.released] == shapes


@every_case
def test_all_noise_goes_through_the_door(algorithm: Algorithm[Any], public: Any) -> None:
    """What the permit counted is what a watcher saw, leaf by leaf, and nothing is left over."""
    watch = Watch()
    done, _ = trained(algorithm, public, watch)
    leaves = list(done.permit.plan.leaves())
    if algorithm.name == "network":
        leaves = leaves[:1]  # all groups share one noise, and differ in their rates
    assert set(watch.drawn) == set(range(len(leaves)))
    for part, (leaf, count) in enumerate(leaves):
        assert done.permit.drawn(part) == watch.drawn[part] > 0
        if algorithm.name != "stream":  # which declares more batches than any stream has
            assert done.permit.drawn(part) == count * leaf.draws_per_use


@every_case
def test_watching_changes_nothing(algorithm: Algorithm[Any], public: Any) -> None:
    plain, watched, other = (
        trained(algorithm, public, watcher, seed)[0].released
        for watcher, seed in ((None, 0), (Watch(), 0), (None, 1))
    )
    assert all(np.array_equal(a, b) for a, b in zip(plain, watched, strict=True))
    assert not any(np.array_equal(a, b) for a, b in zip(plain, other, strict=True))


@every_case
def test_what_has_no_proof_is_refused_before_the_charge(
    algorithm: Algorithm[Any], public: Any
) -> None:
    spoiled, facts = UNPROVEN[algorithm.name](algorithm, public)
    with pytest.raises(NoisetteError):
        spoiled.prepare(facts)
    watch, ledger = Watch(), ledger_for(facts)
    with pytest.raises(NoisetteError), watching(watch):
        train(spoiled, facts, records(facts), ledger=ledger, randomness=Randomness.from_seed(0))
    assert ledger.charges == []
    assert watch.charged == []


@every_case
def test_data_that_break_a_bound_are_refused_before_the_charge(
    algorithm: Algorithm[Any], public: Any
) -> None:
    """A label of 2 would double a gradient, and a class of 10 would be outside of all tables.

    A network's gradients are cut, whatever they are; their number of entries is what must be right.
    """
    watch, ledger, randomness = Watch(), ledger_for(public), Randomness.from_seed(0)
    bad = records(public, label=2.0)
    with pytest.raises(NoisetteError):
        algorithm.check(bad, algorithm.prepare(public))
    with pytest.raises(NoisetteError), watching(watch):
        train(algorithm, public, bad, ledger=ledger, randomness=randomness)
    assert ledger.charges == []
    assert watch.charged == []


@every_case
def test_rows_of_another_shape_than_prepared_are_refused_before_the_charge(
    algorithm: Algorithm[Any], public: Any
) -> None:
    """The kernels do not check indices, and a last iterate is proven for one number of rows."""
    given, ledger = records(public), ledger_for(public)
    wide: Any
    long: Any
    if isinstance(public, PublicNetwork):
        wide, long = Slopes(public, 10 * D), Slopes(public, size=10 * N)
    else:
        wide = Records(np.zeros((N, 10 * D)), given.targets)
        long = Records(np.tile(given.rows, (10, 1)), [np.tile(y, 10) for y in given.targets])
    for bad in (wide, long):
        if bad is long and (algorithm.name == "stream" or not public.adjacency.size_is_public):
            continue  # the number of people in a stream is open, and private under add-remove
        with pytest.raises(NoisetteError):
            train(algorithm, public, bad, ledger=ledger, randomness=Randomness.from_seed(0))
        assert ledger.charges == []


@pytest.mark.parametrize(
    ("algorithm", "public"),
    [
        (SinglePass(UPDATE, 30, levels=Levels(LEVELS)), STEPS),  # spherical noise with delta
        (NoisySGD(UPDATE, Cyclic(4, 30), 2, "spherical-laplace", "all", Levels(LEVELS)), STEPS),
        (NoisySGD(UPDATE, Poisson(0.25), 4, levels=Levels(LEVELS)), STEPS),
        (NoisySGD(UPDATE, Cyclic(4, 30), 2, levels=Levels(LEVELS, "batches")), STEPS),
        (GradientDescent(UPDATE, Levels(LEVELS, "batches")), STEPS),
        (SinglePass(UPDATE, 30, levels=Levels(2.0 * LEVELS, "batches")), PURE),
        (SinglePass(UPDATE, 30, levels=Levels(LEVELS[1:])), PURE),
        (SinglePass(UPDATE, 30, levels=Levels(LEVELS[1:], "batches")), PURE),
        (GradientDescent(UPDATE, Levels(LEVELS[1:])), STEPS),
    ],
)
def test_levels_without_a_theorem_are_refused_before_the_charge(
    algorithm: Algorithm[Any], public: Any
) -> None:
    watch, ledger = Watch(), Ledger(10.0, 1e-3, adjacency=public.adjacency)
    with pytest.raises(NoisetteError), watching(watch):
        train(
            algorithm, public, records(public), ledger=ledger,
            randomness=Randomness.from_seed(0),
        )  # fmt: skip
    assert ledger.charges == []
    assert watch.drawn == {}


def test_weights_that_would_be_ignored_are_refused() -> None:
    (algorithm, public), *_ = EXAMPLES["stream"]
    given = records(public)
    weighed = Records(given.rows, given.targets, np.ones(N))
    ledger = ledger_for(public)
    with pytest.raises(NoisetteError, match="sample_weight"):
        train(algorithm, public, weighed, ledger=ledger, randomness=Randomness.from_seed(0))
    assert ledger.charges == []


@every_case
def test_a_plan_is_for_one_relation(algorithm: Algorithm[Any], public: Any) -> None:
    prepared, randomness = algorithm.prepare(public), Randomness.from_seed(0)
    for relation in {REPLACE_ONE, ZERO_OUT, ADD_REMOVE} - {public.adjacency}:
        ledger = Ledger(public.epsilon, public.delta, adjacency=relation)
        with pytest.raises(AdjacencyMismatch, match=f"the ledger is for {relation}"):
            begin(prepared, ledger=ledger, randomness=randomness, label="another relation")
        with pytest.raises(AdjacencyMismatch, match=f"the ledger is for {relation}"):
            train(algorithm, public, records(public), ledger=ledger, randomness=randomness)
        assert ledger.charges == []


@every_case
def test_a_budget_too_small_is_refused_and_draws_nothing(
    algorithm: Algorithm[Any], public: Any
) -> None:
    ledger = Ledger(public.epsilon / 2.0, public.delta, adjacency=public.adjacency)
    watch = Watch()
    with pytest.raises(NoisetteError, match="nothing was charged"), watching(watch):
        train(
            algorithm, public, records(public), ledger=ledger,
            randomness=Randomness.from_seed(0),
        )  # fmt: skip
    assert ledger.charges == []
    assert watch.drawn == {}


def test_a_network_is_moved_by_noisy_means_of_cut_gradients() -> None:
    """Enough budget for almost no noise: the step is the mean of gradients of norm at most C."""
    public = replace(
        NETWORK, epsilon=1e6, batch_size=N, epochs=1, steps=None, sampling="full", clip_norm=0.25
    )
    model = Slopes(public)
    rows = model.gradients(np.arange(N))
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    assert (norms > 0.25).any()
    expected = 0.1 * (rows * np.minimum(1.0, 0.25 / norms)).mean(axis=0)
    done = train(
        GradientSteps(), public, model, ledger=ledger_for(public),
        randomness=Randomness.from_seed(0),
    )  # fmt: skip
    np.testing.assert_allclose(done.released[0], expected, rtol=1e-2, atol=1e-5)


def test_a_gradient_that_is_no_number_adds_nothing() -> None:
    class Broken(Slopes):
        def gradients(self, rows: Any) -> Any:
            given = super().gradients(rows)
            given[0], given[1] = np.nan, 1e300
            return given

    public = replace(NETWORK, batch_size=N, epochs=1, steps=None, sampling="full")
    seen: list[Any] = []

    class See:
        def release(self, real: Any, bounded: Any, *given: Any, **options: Any) -> Any:
            seen.append(bounded)
            return real(bounded, *given, **options)

    model = Broken(public)
    with watching(See()):
        train(
            GradientSteps(), public, model, ledger=ledger_for(public),
            randomness=Randomness.from_seed(0),
        )  # fmt: skip
    rows = Slopes(public).gradients(np.arange(2, N))
    cut = rows * np.minimum(1.0, 0.5 / np.linalg.norm(rows, axis=1, keepdims=True))
    np.testing.assert_allclose(seen[0].value, cut.sum(axis=0), rtol=1e-9)
    assert seen[0].contribution == 0.5


@pytest.mark.parametrize(
    "members", [None, [np.arange(N)], [np.arange(N), np.arange(2)], [np.arange(3), np.arange(3)]]
)
def test_a_network_with_levels_needs_every_record_in_one_group(members: Any) -> None:
    public = replace(NETWORK, levels=((1.0, N // 2), (2.0, N // 2)))
    model, ledger = Slopes(public), ledger_for(public)
    model.members = members
    with pytest.raises(NoisetteError, match="one of the groups"):
        train(GradientSteps(), public, model, ledger=ledger, randomness=Randomness.from_seed(0))
    assert ledger.charges == []


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"levels": ((3.0, N),)}, "above epsilon"),
        ({"levels": ((1.0, N - 1),)}, "all records together"),
        ({"levels": ((1.0, N),), "sampling": "shuffle"}, "poisson"),
        ({"steps": None}, "epochs or steps"),
        ({"batch_size": N + 1}, "larger"),
        ({"batch_size": None}, "batch_size"),
        ({"fixed": False, "sampling": "cyclic", "steps": None, "epochs": 1, "band": 2}, "fixed"),
    ],
)
def test_public_facts_of_a_network_without_a_proof_are_refused(changes: Any, match: str) -> None:
    with pytest.raises(NoisetteError, match=match):
        GradientSteps().prepare(replace(NETWORK, **changes))
