"""What runs is what was charged: noise, batches, normaliser, clipping, resuming."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

torch = pytest.importorskip("torch", reason="the nn extra is not installed")

from torch import nn  # noqa: E402

from noisette import accounting, mechanisms, plans, sampling  # noqa: E402
from noisette.adjacency import Adjacency  # noqa: E402
from noisette.errors import (  # noqa: E402
    InvalidData,
    InvalidParameter,
    LedgerError,
    PermitError,
    Unproven,
)
from noisette.nn import Adaptive, Automatic, Flat, PrivateTraining, make_plan  # noqa: E402
from noisette.nn.clipping import Clipping  # noqa: E402
from noisette.nn.correlation import Banded, square_root_band  # noqa: E402
from noisette.plans import Plan, Repeat, Sampled  # noqa: E402
from noisette.privacy import Ledger  # noqa: E402

torch.set_num_threads(1)

N, D = 60, 7
SAMPLERS: dict[str, tuple[Any, str]] = {
    "poisson": (sampling.Poisson(0.2), "replace-one"),
    "poisson, add-remove": (sampling.Poisson(0.2), "add-remove"),
    "random-allocation": (sampling.RandomAllocation(5), "zero-out"),
    "without-replacement": (sampling.WithoutReplacement(12, N), "replace-one"),
    "cyclic": (sampling.Cyclic(5), "replace-one"),
    "shuffle": (sampling.Shuffle(5), "zero-out"),
    "full": (sampling.FullBatch(), "replace-one"),
}


def model() -> nn.Module:
    return nn.Linear(D, 1, bias=False)


def losses(module: nn.Module, batch: Any) -> Any:
    return module(batch).sum(1)


def zero(module: nn.Module, batch: Any) -> Any:
    return module(batch).sum(1) * 0.0


def plan_of(name: str, uses: int = 4, z: float = 2.0) -> Plan:
    sampler, relation = SAMPLERS[name]
    return Repeat(Sampled(mechanisms.Gaussian(z), sampler), uses).under(relation)


def training(module: nn.Module, plan: Plan, lr: float = 1.0, **options: Any) -> PrivateTraining:
    return PrivateTraining(
        module, torch.optim.SGD(module.parameters(), lr=lr), plan, size=N, delta=1e-5,
        population=N, **options,
    )  # fmt: skip


def run(private: PrivateTraining, loss: Any, X: Any) -> list[np.ndarray]:
    seen = []
    for rows in private.batches():
        seen.append(rows)
        private.step(loss, X[rows])
    return seen


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_run_is_the_plan(name: str) -> None:
    plan, X = plan_of(name), torch.randn(N, D)
    private = training(model(), plan, random_state=3)
    seen = run(private, losses, X)
    assert len(seen) == plan.draws == private.steps == private.steps_done
    guarantee = private.guarantee()
    assert guarantee.plan == plan
    assert guarantee.epsilon == accounting.epsilon(plan, delta=1e-5, adjacency=plan.adjacency)
    sampler = SAMPLERS[name][0]
    assert private.normaliser == sampler.normaliser(N)
    if name in ("random-allocation", "cyclic", "shuffle"):
        for start in range(0, len(seen), sampler.steps):
            everyone = np.sort(np.concatenate(seen[start : start + sampler.steps]))
            assert np.array_equal(everyone, np.arange(N))
    if name == "without-replacement":
        assert {len(rows) for rows in seen} == {12}


def noise_of_updates(z: float, clip: float, seed: int, clipping: Clipping) -> np.ndarray:
    """Return the updates on zero gradients, in units of the noise that was promised."""
    module = nn.Linear(40, 50, bias=False)
    plan = Repeat(Sampled(mechanisms.Gaussian(z), sampling.Poisson(0.2)), 5).under("replace-one")
    private = training(module, plan, random_state=seed, clipping=clipping)
    updates, before = [], module.weight.detach().clone()
    for rows in private.batches():
        private.step(zero, torch.ones(len(rows), 40))
        updates.append((before - module.weight).detach().double().numpy().ravel())
        before = module.weight.detach().clone()
    return np.concatenate(updates) * private.normaliser / (z * clip)


def chi_square_p(values: np.ndarray) -> float:
    total = float(np.square(values).sum())
    lower = stats.chi2.cdf(total, len(values))
    return 2.0 * min(lower, 1.0 - lower)


@pytest.mark.parametrize("rule", [Flat(0.7), Automatic(0.7)])
def test_noise_on_zero_gradients_has_the_charged_scale(rule: Clipping) -> None:
    """Size 1e-4; 10,000 draws see a scale that is wrong by 3 %."""
    found = noise_of_updates(1.7, 0.7, 11, rule)
    assert chi_square_p(found) > 1e-4
    assert stats.kstest(found, "norm").pvalue > 1e-4
    assert chi_square_p(found * 0.9) < 1e-4  # the mutant: 10 % too little
    assert chi_square_p(found * 1.1) < 1e-4


@pytest.mark.parametrize("size", [1.0, 1e6, 1e15])
@pytest.mark.parametrize("rule", ["flat", "automatic"])
def test_a_canary_moves_the_sum_by_the_clip_norm(size: float, rule: str) -> None:
    plan = Repeat(Sampled(mechanisms.Gaussian(1e-3), sampling.FullBatch()), 1).under("zero-out")
    moved = []
    for row in (torch.zeros(D), torch.full((D,), size)):
        module = model()
        with torch.no_grad():
            module.weight.zero_()
        X = torch.zeros(N, D)
        X[5] = row
        ledger = Ledger(1e9, 1e-5, adjacency="zero-out")
        private = training(
            module, plan, clipping=rule, clip_norm=0.25, random_state=0, ledger=ledger
        )
        run(private, losses, X)
        moved.append(module.weight.detach().double().numpy().ravel() * N)
    norm = float(np.linalg.norm(moved[1] - moved[0]))
    assert norm <= 0.25 * (1 + 1e-5)
    assert norm >= 0.25 * (1 - 2e-2 if rule == "automatic" else 1 - 1e-5)


def test_a_record_with_nan_changes_nothing_else() -> None:
    weights = []
    for bad in (0.0, np.nan, np.inf):
        module, X = model(), torch.ones(N, D)
        with torch.no_grad():
            module.weight.fill_(0.1)
        X[5] = bad
        private = training(module, plan_of("full"), random_state=0)
        run(private, losses, X)
        weights.append(module.weight.detach().numpy().copy())
    assert np.array_equal(weights[1], weights[2])
    assert np.allclose(weights[0], weights[1], atol=1e-6)


def test_micro_batches_change_nothing() -> None:
    torch.manual_seed(0)
    start, X, y = nn.Linear(D, 3), torch.randn(N, D), torch.arange(N) % 3

    def loss(module: nn.Module, batch: Any) -> Any:
        return nn.functional.cross_entropy(module(batch["x"]), batch["y"], reduction="none")

    def load(part: Any) -> Any:
        return {"x": X[part], "y": y[part]}

    found = []
    for micro in (None, 1, 5):
        module = copy.deepcopy(start)
        private = training(module, plan_of("poisson"), random_state=5, micro_batch=micro)
        for rows in private.batches():
            private.step(loss, load if micro == 5 else load(rows))
        found.append(module.weight.detach().clone())
    assert torch.allclose(found[0], found[1], atol=1e-6)
    assert torch.allclose(found[0], found[2], atol=1e-6)


def test_empty_batches_still_step_and_the_divisor_is_public() -> None:
    plan = Repeat(Sampled(mechanisms.Gaussian(3.0), sampling.Poisson(1e-6)), 6).under("add-remove")
    module = model()
    before = module.weight.detach().clone()
    private = training(module, plan, random_state=1)
    seen = run(private, losses, torch.ones(N, D))
    assert all(len(rows) == 0 for rows in seen)
    assert len(seen) == 6
    assert not torch.equal(before, module.weight)
    assert private.normaliser == pytest.approx(1e-6 * N)


def test_copies_are_averaged_before_clipping() -> None:
    plan = Repeat(Sampled(mechanisms.Gaussian(1e-6), sampling.FullBatch()), 1).under("zero-out")
    module = model()
    with torch.no_grad():
        module.weight.zero_()
    ledger = Ledger(1e14, 1e-5, adjacency="zero-out")
    private = training(module, plan, copies=2, random_state=0, clip_norm=1.0, ledger=ledger)
    X = torch.zeros(2 * N, D)
    X[0, 0], X[1, 0] = 30.0, -29.0  # mean 0.5: within the clip norm, though each alone is not
    X[2, 1], X[3, 1] = 30.0, 30.0  # mean 30: clipped to 1
    for _ in private.batches():
        private.step(losses, X)
    moved = -module.weight.detach().numpy().ravel() * N
    assert moved[:2] == pytest.approx([0.5, 1.0], abs=1e-4)


# --- adaptive clipping ---------------------------------------------------------------------------


@pytest.mark.parametrize("z", [0.3, 1.0, 20.0])
@pytest.mark.parametrize("batch", [5.0, 500.0])
def test_every_record_of_the_joint_vector_is_within_one(z: float, batch: float) -> None:
    rule = Adaptive(0.3)
    for norm in (0.0, 0.299, 0.3, 5.0, float("inf")):
        factor = rule.factors(torch.tensor([norm], dtype=torch.float64))
        gradient = 0.0 if norm == float("inf") else float(factor[0]) * norm
        total = np.append([gradient, 0.0], rule.counts())
        bounded = rule.bounded(total, Adjacency.REPLACE_ONE, batch, z)
        assert bounded.contribution == 1.0
        assert float(np.linalg.norm(bounded.value)) <= 1.0
        if norm == 0.3:  # tight: a wrong factor of 10 % anywhere shows
            assert float(np.linalg.norm(bounded.value)) > 0.999


def test_adaptive_clipping_finds_the_quantile_and_keeps_the_noise() -> None:
    plan = Repeat(Sampled(mechanisms.Gaussian(0.5), sampling.FullBatch()), 80).under("zero-out")
    X = torch.zeros(N, D)
    X[:, 0] = torch.linspace(0.0, 8.0, N)
    rule = Adaptive(0.1, quantile=0.75)
    private = training(model(), plan, clipping=rule, random_state=0, lr=0.0)
    run(private, losses, X)
    assert rule.clip_norm == pytest.approx(6.0, rel=0.25)
    # the gradient's noise: read(...) undoes the weights, so that only 1/a is paid
    a, _ = rule._weights(private.normaliser, 0.5)
    assert 0.9 < a < 1.0


# --- correlated noise ----------------------------------------------------------------------------


def test_the_square_root_band_is_the_root_of_the_prefix_sums() -> None:
    c = square_root_band(30)
    C = sum(np.diag(np.full(30 - k, c[k]), -k) for k in range(30))
    assert np.allclose(C @ C, np.tril(np.ones((30, 30))))


@pytest.mark.parametrize("band", [1, 3, 5])
def test_banded_noise_is_the_inverse_band_times_white_noise(band: int) -> None:
    rng = np.random.default_rng(0)
    sums, white, T = rng.normal(size=(12, 4)), rng.normal(size=(12, 4)), 12
    queue, bounds = iter(white), []

    def door(bounded: Any) -> np.ndarray:
        bounds.append(bounded.contribution)
        return bounded.value + next(queue)

    noise = Banded(band)
    out = np.array([noise(x.copy(), 0.5, Adjacency.ZERO_OUT, door) for x in sums])
    c = square_root_band(band)
    C = sum(np.diag(np.full(T - k, c[k]), -k) for k in range(band))
    assert np.allclose(out, sums + np.linalg.solve(C, white))
    assert np.allclose(bounds, 0.5 * np.linalg.norm(c))


@pytest.mark.parametrize("band", [1, 4, 5])
def test_one_record_moves_the_banded_queries_by_what_is_charged(band: int) -> None:
    """BANDED-MF: the shifts of all queries, over their noise, add up to E / z^2 exactly."""
    epochs, batches, z = 3, 5, 2.0
    plan = Repeat(Sampled(mechanisms.Gaussian(z), sampling.Cyclic(batches)), epochs)
    queries: list[list[np.ndarray]] = []
    for sign in (1.0, 0.0):
        values: list[np.ndarray] = []
        noise = Banded(band)

        def door(bounded: Any, values: list[np.ndarray] = values) -> np.ndarray:
            values.append(bounded.value / (z * bounded.contribution))
            return bounded.value

        for step in range(epochs * batches):
            total = np.zeros(3)
            if step % batches == 2:  # the record's batch; its gradient has the clip norm
                total[0] = sign
            noise(total, 1.0, Adjacency.ZERO_OUT, door)
        queries.append(values)
    shift = np.concatenate(queries[0]) - np.concatenate(queries[1])
    mu = float(np.linalg.norm(shift))
    charged = accounting.epsilon(plan, delta=1e-5, adjacency="zero-out")
    exact = accounting.epsilon(mechanisms.Gaussian(1.0 / mu), delta=1e-5, adjacency="zero-out")
    assert exact <= charged * (1 + 1e-3)
    assert exact >= charged * 0.97


def test_banded_noise_only_where_it_is_proven() -> None:
    with pytest.raises(Unproven, match="cyclic"):
        training(model(), plan_of("poisson"), band=2)
    with pytest.raises(Unproven, match="longer than the 5 batches"):
        training(model(), plan_of("cyclic"), band=6)
    with pytest.raises(Unproven, match="fixed clip_norm"):
        training(model(), plan_of("cyclic"), band=2, clipping="adaptive")


# --- checkpoints ---------------------------------------------------------------------------------


def resumable(folder: Path, plan: Plan, seed: int | None, **options: Any) -> PrivateTraining:
    module = model()
    with torch.no_grad():
        module.weight.zero_()
    ledger = Ledger.open(folder / "ledger.db", 1e6, 1e-5, adjacency=plan.adjacency)
    return training(
        module, plan, ledger=ledger, checkpoint=folder / "run.pt", random_state=seed, **options
    )


class Killed(Exception):
    pass


def go(private: PrivateTraining, stop: int | None = None) -> list[np.ndarray]:
    """Run, and return what each step added to the weights: the noise, since losses are zero."""
    moves, before = [], private.module.weight.detach().clone()
    for done, rows in enumerate(private.batches()):
        private.step(zero, torch.ones(len(rows), D))
        after = private.module.weight.detach().clone()
        moves.append((after - before).numpy().copy())
        before = after
        if stop is not None and done + 1 == stop:
            break
    return moves


@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("name", ["poisson", "cyclic", "random-allocation"])
def test_a_resumed_run_is_charged_once_and_never_repeats_noise(
    tmp_path: Path, name: str, seed: int | None
) -> None:
    plan = plan_of(name, uses=40 if name == "poisson" else 8)
    first = resumable(tmp_path, plan, seed, save_every=10)
    early = go(first, stop=17)
    second = resumable(tmp_path, plan, seed, save_every=10)
    assert 17 <= second.steps_done <= 18
    late = go(second)
    step = SAMPLERS[name][0].steps
    assert len(early) + len(late) <= plan.draws
    lost = plan.draws - len(early) - len(late)
    assert lost <= (1 if name != "random-allocation" else step)
    everything = [tuple(np.round(move.ravel(), 12)) for move in early + late]
    assert len(set(everything)) == len(everything)
    ledger = Ledger.open(tmp_path / "ledger.db")
    assert len(ledger.charges) == 1
    assert second.guarantee().plan == plan
    third = resumable(tmp_path, plan, seed)
    assert go(third) == []


def test_the_weights_of_the_checkpoint_come_back(tmp_path: Path) -> None:
    plan = plan_of("poisson", uses=40)
    first = resumable(tmp_path, plan, None, save_every=10, averaging="tail", clipping="adaptive")
    go(first, stop=30)
    second = resumable(tmp_path, plan, None, save_every=10, averaging="tail", clipping="adaptive")
    assert torch.equal(first.module.weight, second.module.weight)
    assert first._clipping.clip_norm == second._clipping.clip_norm
    with pytest.raises(LedgerError, match="resumed elsewhere"):
        go(first)


def test_a_checkpoint_belongs_to_its_run(tmp_path: Path) -> None:
    go(resumable(tmp_path, plan_of("poisson"), None), stop=1)
    with pytest.raises(InvalidParameter, match="another plan"):
        resumable(tmp_path, plan_of("poisson", uses=5), None)
    with pytest.raises(InvalidParameter, match="another kind of random_state"):
        resumable(tmp_path, plan_of("poisson"), 3)
    (tmp_path / "run.pt").write_bytes(b"nonsense")
    with pytest.raises(InvalidParameter, match="cannot be read"):
        resumable(tmp_path, plan_of("poisson"), None)
    with pytest.raises(InvalidParameter, match="ledger in a file"):
        training(model(), plan_of("poisson"), checkpoint=tmp_path / "other.pt")
    with pytest.raises(Unproven, match="correlated noise"):
        resumable(tmp_path, plan_of("cyclic"), None, band=2)


# --- using it wrongly ----------------------------------------------------------------------------


def test_one_step_for_one_batch() -> None:
    private = training(model(), plan_of("full"))
    with pytest.raises(PermitError, match="once for each batch"):
        private.step(losses, torch.ones(N, D))
    batches = private.batches()
    next(batches)
    with pytest.raises(PermitError, match="before taking the next"):
        next(batches)
    private.step(losses, torch.ones(N, D))
    with pytest.raises(PermitError, match="once for each batch"):
        private.step(losses, torch.ones(N, D))


def test_a_failed_sum_leaves_no_trace() -> None:
    """A record that was counted in a failed attempt must not count twice in the next release."""
    joint: list[np.ndarray] = []

    class Seen(Adaptive):
        def bounded(self, total: Any, *args: Any) -> Any:
            joint.append(total.copy())
            return super().bounded(total, *args)

    private = training(model(), plan_of("full"), clipping=Seen(0.1), micro_batch=20)
    calls = []

    def failing(module: nn.Module, batch: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:  # in the second micro-batch
            raise RuntimeError("lost connection")
        return losses(module, batch)

    next(private.batches())
    with pytest.raises(RuntimeError, match="lost connection"):
        private.step(failing, torch.ones(N, D))
    assert joint == []
    private.step(failing, torch.ones(N, D))  # the same batch again
    assert abs(joint[0][-1]) <= 0.5 * N  # every record counts +-1/2, once


def test_a_step_that_failed_after_its_noise_ends_the_run() -> None:
    module = model()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    private = PrivateTraining(module, optimizer, plan_of("full"), size=N, delta=1e-5)

    def broken() -> None:
        raise RuntimeError("out of memory")

    optimizer.step = broken  # type: ignore[method-assign]
    batches = private.batches()
    next(batches)
    with pytest.raises(RuntimeError, match="out of memory"):
        private.step(losses, torch.ones(N, D))
    with pytest.raises(PermitError, match="noise may have been drawn"):
        private.step(losses, torch.ones(N, D))
    with pytest.raises(PermitError, match="noise may have been drawn"):
        next(batches)


def test_levels_under_add_remove_are_refused_however_the_plan_was_made() -> None:
    parts = (Sampled(mechanisms.Gaussian(2.0), sampling.Poisson(rate)) for rate in (0.1, 0.2))
    with pytest.raises(Unproven, match="public group sizes"):
        training(model(), plans.Parallel(*parts, adjacency="add-remove"), groups=np.arange(N) % 2)


def test_the_batch_must_be_the_one_that_was_handed_out() -> None:
    private = training(model(), plan_of("full"))
    next(private.batches())
    with pytest.raises(InvalidData, match="exactly the records"):
        private.step(losses, torch.ones(N - 1, D))


@pytest.mark.parametrize(
    ("plan", "text"),
    [
        (Sampled(mechanisms.SphericalLaplace(3.0, 7), sampling.Cyclic(5)), "use a Gaussian"),
        (plans.Declared(1.0), "repeated Sampled"),
        (
            plans.Parallel(
                Sampled(mechanisms.Gaussian(1.0), sampling.Poisson(0.1)),
                Sampled(mechanisms.Gaussian(2.0), sampling.Poisson(0.1)),
            ),
            "one noise",
        ),
    ],
)
def test_plans_that_are_no_training_loop_are_refused(plan: Plan, text: str) -> None:
    with pytest.raises(Unproven, match=text):
        training(model(), plan)


def test_mistakes_cost_nothing() -> None:
    ledger = Ledger(1e6, 1e-5)
    module = model()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    good: dict[str, Any] = {"size": N, "delta": 1e-5, "ledger": ledger}
    other = torch.optim.SGD(model().parameters(), lr=0.1)
    bad: list[tuple[dict[str, Any], str]] = [
        ({"size": 0}, "size"),
        ({"delta": 1.0}, "delta"),
        ({"clip_norm": -1.0}, "clip_norm"),
        ({"clipping": "soft"}, "clipping"),
        ({"averaging": "all"}, "averaging"),
        ({"averaging": 1.5}, "averaging"),
        ({"micro_batch": 0}, "micro_batch"),
        ({"copies": 0}, "copies"),
        ({"groups": np.zeros(N, dtype=int)}, "groups"),
        ({"optimizer": other}, "another module"),
        ({"plan": plan_of("without-replacement"), "size": N + 1}, "records"),
        ({"plan": plan_of("poisson, add-remove")}, "adjacency|relation|add-remove"),
        ({"optimizer": torch.optim.LBFGS(module.parameters())}, "LBFGS"),
    ]
    for change, text in bad:
        options = {"optimizer": optimizer, "plan": plan_of("full")} | good | change
        with pytest.raises(Exception, match=text):
            PrivateTraining(module, **options)
    assert ledger.charges == []


def test_add_remove_needs_a_public_size() -> None:
    module = model()
    with pytest.raises(InvalidParameter, match="population"):
        PrivateTraining(
            module, torch.optim.SGD(module.parameters(), lr=0.1), plan_of("poisson, add-remove"),
            size=N, delta=1e-5,
        )  # fmt: skip


def test_plans_made_for_a_target_reach_it() -> None:
    plan = make_plan(size=5000, epsilon=2.0, delta=1e-5, batch_size=100, steps=300)
    assert accounting.epsilon(plan, delta=1e-5, adjacency="replace-one") == pytest.approx(
        2.0, rel=1e-3
    )
    assert plan.draws == 300
    with pytest.raises(InvalidParameter, match="either epochs or steps"):
        make_plan(size=10, epsilon=1.0, delta=1e-5, batch_size=2)
    with pytest.raises(InvalidParameter, match="number of epochs"):
        make_plan(size=10, epsilon=1.0, delta=1e-5, batch_size=2, steps=3, sampling="cyclic")
    with pytest.raises(InvalidParameter, match="larger than"):
        make_plan(size=10, epsilon=1.0, delta=1e-5, batch_size=20, steps=3)
    with pytest.raises(Unproven, match="add-remove"):
        make_plan(
            size=10, epsilon=1.0, delta=1e-5, batch_size=2, epochs=3, sampling="cyclic",
            adjacency="add-remove",
        )  # fmt: skip
