"""What runs is what was charged: noise, batches, normaliser, clipping, resuming."""

import copy
from typing import Any

import numpy as np
import pytest
from scipy import stats

torch = pytest.importorskip("torch", reason="the nn extra is not installed")

from torch import nn  # noqa: E402

from noisette import accounting, mechanisms, plans, sampling  # noqa: E402
from noisette.core.ledger import Ledger  # noqa: E402
from noisette.core.plans import Plan, Repeat, Sampled  # noqa: E402
from noisette.errors import (  # noqa: E402
    InvalidData,
    InvalidParameter,
    PermitError,
    Unproven,
)
from noisette.fitting.algorithms import passage as room  # noqa: E402
from noisette.nn import (  # noqa: E402
    Automatic,
    Flat,
    PrivateTraining,
    make_level_plan,
    make_plan,
)
from noisette.nn.clipping import Clipping  # noqa: E402

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


# --- one step for one batch, and nothing of somebody else ------------------------------------


def test_no_second_step_begins_inside_a_step() -> None:
    """The same secret batch would be used twice, though two coins were charged."""
    private, X = training(model(), plan_of("poisson")), torch.ones(N, D)
    rows = next(private.batches())

    def inside(module: Any, x: Any) -> Any:
        private.step(losses, X[rows])
        return losses(module, x)

    with pytest.raises(PermitError, match="under way"):
        private.step(inside, X[rows])
    private.step(losses, X[rows])  # nothing was drawn, so the batch may be tried again
    assert private.steps_done == 1


def test_a_batch_is_handed_out_once_whatever_the_caller_does_to_it() -> None:
    used: list[int] = []

    def load(rows: Any) -> Any:
        used.extend(rows.tolist())
        return torch.ones(len(rows), D)

    private = training(model(), plan_of("random-allocation", uses=1))
    for rows in private.batches():
        with pytest.raises(PermitError, match="copied"):
            copy.copy(private)
        rows[:] = 0
        private.step(losses, load)
    assert sorted(used) == list(range(N))


def test_an_old_gradient_of_a_frozen_weight_is_not_used() -> None:
    net = nn.Sequential(nn.Linear(D, 3), nn.Linear(3, 1))
    net[0].requires_grad_(False)
    net[0].weight.grad = torch.ones_like(net[0].weight)
    before = net[0].weight.clone()
    run(training(net, plan_of("full")), losses, torch.ones(N, D))
    assert torch.equal(net[0].weight, before)


def test_a_gradient_of_somebody_else_is_not_used() -> None:
    module = nn.Sequential(nn.Linear(D, 4), nn.Linear(4, 1))
    module[0].requires_grad_(False)
    private = training(module, plan_of("full"))
    before = module[0].weight.detach().clone()
    for rows in private.batches():
        module[0].weight.grad = torch.full((4, D), 1e6)
        private.step(losses, torch.ones(len(rows), D))
    assert torch.equal(module[0].weight, before)


def test_a_memory_is_found_with_micro_batches_of_one() -> None:
    class Remembers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(D, 1)
            self.register_buffer("seen", torch.zeros(D))

        def forward(self, x: Any) -> Any:
            self.seen = 0.9 * self.seen + x.detach().mean(0)
            return self.layer(x)

    with pytest.raises(InvalidParameter, match="'seen'"):
        run(training(Remembers(), plan_of("full"), micro_batch=1), losses, torch.ones(N, D))


def test_the_rounding_of_a_large_sum_stays_with_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """200,001 records that agree: summed in float32 to the end, 400 of them too many came out."""
    seen: list[Any] = []
    real = room.release

    def door(bounded: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(bounded.value)
        return real(bounded, *args, **kwargs)

    monkeypatch.setattr(room, "release", door)
    n, module = 200_001, nn.Linear(1, 1, bias=False)
    large = PrivateTraining(
        module, torch.optim.SGD(module.parameters(), lr=1.0), plan_of("full"), size=n, delta=1e-6,
        micro_batch=4096,
    )  # fmt: skip
    large.step(losses, torch.full((n, 1), 0.7)[next(large.batches())])
    assert abs(float(seen[0][0]) - n * 0.7) < 10.0  # each run of 4,096 by itself


# --- public facts, levels --------------------------------------------------------------------


@pytest.mark.parametrize(
    "sampler",
    [sampling.Cyclic(5, 10), sampling.WithoutReplacement(10, 50), sampling.Shuffle(60)],
)
def test_no_error_tells_the_number_of_records_under_add_remove(sampler: Any) -> None:
    plan = Repeat(Sampled(mechanisms.Gaussian(2.0), sampler), 2)
    ledger, module = Ledger(100.0, 1e-5, adjacency="add-remove"), model()
    with pytest.raises(Unproven) as told:
        PrivateTraining(
            module, torch.optim.SGD(module.parameters(), lr=1.0), plan, size=37, delta=1e-5,
            population=50, ledger=ledger,
        )  # fmt: skip
    assert "37" not in str(told.value)


def test_the_tail_of_a_run_with_levels_is_averaged() -> None:
    plan = make_level_plan([(1.0, 30), (3.0, 30)], delta=1e-5, batch_size=15, steps=8)
    levels = training(model(), plan, groups=np.repeat([0, 1], 30), averaging="tail")
    run(levels, losses, torch.linspace(-1.0, 2.0, N * D).cos().view(N, D))
    last = levels.module.weight.clone()
    levels.load_average()
    assert not torch.equal(levels.module.weight, last)


def test_a_level_that_no_rate_keeps_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    real = accounting.calibrate

    def calibrate(plan: Any, *, epsilon: float, **options: Any) -> float:
        if options.get("find") == "rate" and epsilon < 1.0:
            raise InvalidParameter("no value reaches it")
        return real(plan, epsilon=epsilon, **options)

    monkeypatch.setattr(accounting, "calibrate", calibrate)
    with pytest.raises(InvalidParameter, match="no sampling rate"):
        make_level_plan([(0.5, 50), (4.0, 50)], delta=1e-5, batch_size=10, steps=20)
