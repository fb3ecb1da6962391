"""What a second hostile reader of the networks found: overflow, memories, changes, ledgers."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the nn extra is not installed")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from two_ranks import run_ranks  # noqa: E402

from noisette import mechanisms, sampling  # noqa: E402
from noisette.errors import InvalidParameter, PermitError  # noqa: E402
from noisette.nn import (  # noqa: E402
    Automatic,
    Flat,
    PrivateTraining,
    make_level_plan,
    planning,
    training,
)
from noisette.nn.gradients import ClippedGradients, check_module, factors  # noqa: E402
from noisette.nn.gradients.terms import Outer  # noqa: E402
from noisette.plans import Plan, Repeat, Sampled  # noqa: E402
from noisette.privacy import Ledger  # noqa: E402

torch.set_num_threads(1)

N, D = 16, 3
X = torch.linspace(-1.0, 2.0, N * D).mul(9.0).cos().view(N, D)
Y = torch.arange(N) % 2


def losses(module: Any, batch: Any) -> Any:
    return module(batch).sum(1)


def plan_of(sampler: Any, uses: int) -> Plan:
    return Repeat(Sampled(mechanisms.Gaussian(2.0), sampler), uses).under("zero-out")


def private(module: nn.Module, plan: Plan | None = None, **options: Any) -> PrivateTraining:
    given: dict[str, Any] = {"size": N, "delta": 1e-5} | options
    plan = plan or plan_of(sampling.FullBatch(), 3)
    return PrivateTraining(module, torch.optim.SGD(module.parameters(), lr=1.0), plan, **given)


# --- floating point --------------------------------------------------------------------------


def test_a_gram_sum_that_falls_to_minus_infinity_is_no_zero() -> None:
    """One row of the Gram sum overflowed downwards; the norm came out 46 times too small."""
    T, p = 100, 64
    sizes = torch.full((T,), 5e19 / (T - 1))
    sizes[0] = -1.5e19
    a = torch.full((1, T, p), 1e10 / p**0.5)
    g = (sizes / 1e10 / p**0.5).view(1, T, 1).expand(1, T, p)
    true = torch.einsum("itp,itd->ipd", g.double(), a.double()).norm()
    assert float(Outer(torch.zeros(p, p), a, g).squares().sqrt()) >= float(true)


@pytest.mark.parametrize("C", [1.4e-5, 2e-5, 1e-4])
def test_a_factor_that_underflows_does_not_lift_the_contribution(C: float) -> None:
    """Inputs near 1e38 of a layer with one input made f g subnormal: 1.9 times the clip norm."""
    module = nn.Linear(1, 4096, bias=False)
    nn.init.zeros_(module.weight)  # the loss stays finite
    engine = ClippedGradients(module)
    out = torch.zeros(engine.dimension)
    engine.add(
        lambda module, x: module(x).sum(1) * (1e-12 / 64),
        torch.full((1, 1), 3e38), 1, factors.flat(C), out,
    )  # fmt: skip
    assert float(out.double().norm()) <= C


@pytest.mark.parametrize("C", [1e-30, 1e30])
def test_clip_norms_beyond_single_precision_are_told(C: float) -> None:
    with pytest.raises(InvalidParameter, match="clip_norm must lie"):
        private(nn.Linear(D, 1), clip_norm=C)


def test_a_vanishing_gamma_gives_finite_factors() -> None:
    """A gradient of 0 had the factor infinity, and their product is NaN for the whole batch."""
    module = nn.Linear(D, 1).double()
    training = private(module, clipping=Automatic(1.0, gamma=1e-200))
    rows = torch.zeros(N, D, dtype=torch.float64)
    for chosen in training.batches():
        training.step(lambda module, x: 0.0 * module(x).sum(1), rows[chosen])
    assert all(p.isfinite().all() for p in module.parameters())


@pytest.mark.parametrize("kind", ["matmul", "conv"])
def test_every_way_to_shorten_products_is_refused(kind: str) -> None:
    setting = getattr(torch.backends.mkldnn, kind, None)
    if not hasattr(setting, "fp32_precision"):
        pytest.skip("this PyTorch has one setting only")
    engine = ClippedGradients(nn.Linear(D, 1))
    try:
        setting.fp32_precision = "bf16"
        with pytest.raises(InvalidParameter, match="ieee"):
            engine.add(losses, X, N, factors.flat(1.0), torch.zeros(engine.dimension))
    finally:
        setting.fp32_precision = "none"


# --- modules that change ---------------------------------------------------------------------


def two_layers() -> Any:
    module = nn.Sequential(nn.Linear(D, 4), nn.Linear(4, 1))
    module[0].requires_grad_(False)
    return module


CHANGES: dict[str, Callable[[Any], Any]] = {
    "unfrozen": lambda m: m[0].requires_grad_(True),
    "frozen": lambda m: m[1].bias.requires_grad_(False),
    "added": lambda m: m.append(nn.BatchNorm1d(1)),
    "replaced": lambda m: m.__setitem__(1, nn.Linear(4, 1)),
    "tied": lambda m: setattr(m[1], "weight", nn.Parameter(torch.zeros(1, 4))),
    "compiled": lambda m: setattr(m, "_compiled_call_impl", m._call_impl),  # as m.compile() does
}


@pytest.mark.parametrize("name", list(CHANGES))
def test_a_module_that_was_changed_is_refused(name: str) -> None:
    """A batch norm that came later used to keep the data's statistics, without a word."""
    module = two_layers()
    training = private(module)
    batches = training.batches()
    training.step(losses, X[next(batches)])
    rows = next(batches)
    CHANGES[name](module)
    with pytest.raises(InvalidParameter, match="were changed"):
        training.step(losses, X[rows])


def test_a_gradient_of_somebody_else_is_not_used() -> None:
    module = two_layers()
    training = private(module)
    before = module[0].weight.detach().clone()
    for rows in training.batches():
        module[0].weight.grad = torch.full((4, D), 1e6)
        training.step(losses, X[rows])
    assert torch.equal(module[0].weight, before)


class Renorm(nn.Embedding):
    pass


class Wrapped(nn.DataParallel):
    pass


@pytest.mark.parametrize(
    ("module", "text"),
    [(Renorm(4, 2, max_norm=1.0), "max_norm"), (Wrapped(nn.Linear(2, 2)), "wrapped")],
    ids=["max norm", "wrapper"],
)
def test_what_is_refused_is_refused_under_another_name(module: nn.Module, text: str) -> None:
    with pytest.raises(InvalidParameter, match=text):
        ClippedGradients(module)


# --- memories --------------------------------------------------------------------------------


class Late(nn.Module):
    """Begins to keep a mean after some calls."""

    def __init__(self, calls: int) -> None:
        super().__init__()
        self.layer, self.left = nn.Linear(D, 1), calls
        self.register_buffer("mean", torch.zeros(D))

    def forward(self, x: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            self.mean.add_(x.detach().mean(0))
        return self.layer(x)


def test_a_buffer_that_is_written_later_is_found() -> None:
    training = private(Late(40), plan_of(sampling.FullBatch(), 50))

    def run() -> None:
        for rows in training.batches():
            training.step(losses, X[rows])

    with pytest.raises(InvalidParameter, match="changes the buffer 'mean'"):
        run()


class Keeps(nn.Module):
    def __init__(self, way: str) -> None:
        super().__init__()
        self.layer, self.way = nn.Linear(D, 1), way
        self.kept: Any = []

    def forward(self, x: Any) -> Any:
        if self.way == "list":
            self.kept.append(x.detach())
        elif self.way == "number":
            self.kept = float(x.detach().sum())
        elif self.way == "array":
            self.kept = x.detach().numpy().copy()
        return self.layer(x)


@pytest.mark.parametrize("way", ["list", "number", "array"])
def test_whatever_a_module_keeps_is_found(way: str) -> None:
    with pytest.raises(InvalidParameter, match="keeps 'kept'"):
        check_module(Keeps(way), losses, X, N)


class Baseline:
    """Losses less their running mean: the next gradients speak of earlier batches."""

    def __init__(self, tensor: bool) -> None:
        self.mean: Any = torch.zeros(()) if tensor else 0.0
        self.calls, self.history = 0, [0.0]

    def plain(self, module: Any, x: Any) -> Any:
        self.calls += 1
        self.history.append(float(self.calls))
        return losses(module, x)

    def __call__(self, module: Any, x: Any) -> Any:
        found = losses(module, x)
        shifted = (found - self.mean).square()
        if isinstance(self.mean, float):
            self.mean = 0.9 * self.mean + 0.1 * float(found.detach().mean())
        else:
            self.mean.mul_(0.9).add_(0.1 * found.detach().mean())
        return shifted


def closed() -> Any:
    mean = 0.0

    def shifted(module: Any, x: Any) -> Any:
        nonlocal mean
        found = losses(module, x)
        mean = 0.9 * mean + 0.1 * float(found.detach().mean())
        return (found - mean).square()

    return shifted


class Centre(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(()))

    def forward(self, found: Any) -> Any:
        self.mean = 0.9 * self.mean + 0.1 * found.detach().mean()
        return (found - self.mean).square()


def by_module() -> Any:
    centre = Centre()
    return lambda module, x: centre(losses(module, x))


@pytest.mark.parametrize(
    "loss",
    [Baseline(False), Baseline(True), Baseline(True).__call__, closed(), by_module()],
    ids=["number", "tensor", "method", "closure", "module"],
)
def test_losses_that_remember_are_found(loss: Any) -> None:
    training = private(nn.Linear(D, 1))
    with pytest.raises(InvalidParameter, match="let them keep nothing"):
        training.step(loss, X[next(training.batches())])


def test_losses_may_count() -> None:
    check_module(nn.Linear(D, 1), Baseline(False).plain, X, N)


# --- losses that mix -------------------------------------------------------------------------


def partners(module: Any, batch: Any) -> Any:
    """A label of somebody else, by chance: whole numbers have no gradient to see it by."""
    x, y = batch
    other = y[torch.randperm(len(y))]
    return functional.cross_entropy(module(x), y, reduction="none") + functional.cross_entropy(
        module(x), other, reduction="none"
    )


def noisy(module: Any, batch: Any) -> Any:
    x, y = batch
    return functional.cross_entropy(module(x + 0.1 * torch.randn_like(x)), y, reduction="none")


def foreign(module: Any, batch: Any) -> Any:
    x, y = batch
    shift = torch.from_numpy(GENERATOR.normal(size=tuple(x.shape))).float()
    return functional.cross_entropy(module(x + shift), y, reduction="none")


GENERATOR = np.random.default_rng(0)


def test_partners_by_chance_are_found_and_augmentation_is_not() -> None:
    module = nn.Linear(D, 2)
    with pytest.raises(InvalidParameter, match="another loss"):
        check_module(module, partners, (X, Y), N)
    for honest in (noisy, foreign):
        check_module(module, honest, (X, Y), N)


def centred(module: Any, x: Any) -> Any:
    return losses(module, x - x.mean(0))


def wrapped(loss: Any) -> Any:
    return lambda module, x: loss(module, x)


def test_a_wrapper_does_not_hide_other_losses() -> None:
    training = private(nn.Linear(D, 1))
    batches = training.batches()
    training.step(wrapped(losses), X[next(batches)])
    rows = next(batches)
    with pytest.raises(InvalidParameter, match="another loss"):
        training.step(wrapped(centred), X[rows])


def test_other_losses_and_another_mode_are_tried_as_well() -> None:
    training = private(nn.Linear(D, 1))
    batches = training.batches()
    training.step(losses, X[next(batches)])
    with pytest.raises(InvalidParameter, match="another loss"):
        training.step(centred, X[next(batches)])

    class Moody(nn.Linear):
        def forward(self, x: Any) -> Any:
            return super().forward(x - x.mean(0) if self.training else x)

    module = Moody(D, 1).eval()
    training = private(module)
    batches = training.batches()
    training.step(losses, X[next(batches)])
    module.train()
    rows = next(batches)
    with pytest.raises(InvalidParameter, match="alone than in a batch"):
        training.step(losses, X[rows])


# --- the loop --------------------------------------------------------------------------------


def test_no_second_step_begins_inside_a_step() -> None:
    """The same secret batch would be used twice, though two coins were charged."""
    training = private(nn.Linear(D, 1), plan_of(sampling.Poisson(0.9), 4))
    batches = training.batches()
    rows = next(batches)

    def inside(module: Any, x: Any) -> Any:
        training.step(losses, X[rows])
        return losses(module, x)

    with pytest.raises(PermitError, match="under way"):
        training.step(inside, X[rows])
    training.step(losses, X[rows])  # nothing was drawn, so the batch may be tried again
    assert training.steps_done == 1


def test_a_batch_is_handed_out_once_whatever_the_caller_does_to_it() -> None:
    used: list[int] = []

    def load(rows: Any) -> Any:
        used.extend(rows.tolist())
        return X[rows]

    training = private(nn.Linear(D, 1), plan_of(sampling.RandomAllocation(4), 1))
    for rows in training.batches():
        with pytest.raises(PermitError, match="copied"):
            copy.copy(training)
        rows[:] = 0
        training.step(losses, load)
    assert sorted(used) == list(range(N))


def test_a_checkpoint_ahead_of_its_ledger_is_refused(tmp_path: Path) -> None:
    """Another ledger with the same plan would pay for the rest only."""

    def resumable(ledger: str, file: str) -> PrivateTraining:
        opened = Ledger.open(tmp_path / ledger, 1e6, 1e-4, adjacency="zero-out")
        return private(
            nn.Linear(D, 1), plan_of(sampling.Poisson(0.5), 6), checkpoint=tmp_path / file,
            ledger=opened, save_every=1,
        )  # fmt: skip

    first = resumable("one.db", "one.pt")
    batches = first.batches()
    for _ in range(3):
        first.step(losses, X[next(batches)])
    resumable("two.db", "two.pt")
    with pytest.raises(InvalidParameter, match="another ledger"):
        resumable("two.db", "one.pt")
    assert resumable("one.db", "one.pt").steps_done == 3


def test_a_checkpoint_with_numbers_of_numpy_can_be_read(tmp_path: Path) -> None:
    """A learning rate from NumPy made a file that no run could go on from."""

    def resumable() -> PrivateTraining:
        module = nn.Linear(D, 1)
        optimizer = torch.optim.SGD(module.parameters(), lr=np.float64(0.5))
        ledger = Ledger.open(tmp_path / "ledger.db", 1e6, 1e-4, adjacency="zero-out")
        return PrivateTraining(
            module, optimizer, plan_of(sampling.Poisson(0.5), 6), size=N, delta=1e-5,
            ledger=ledger, checkpoint=tmp_path / "run.pt", save_every=1,
        )  # fmt: skip

    first = resumable()
    first.step(losses, X[next(first.batches())])
    assert torch.equal(resumable().module.weight, first.module.weight)


def test_a_rule_of_ones_own_cannot_pass_the_clip_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    class Loose(Flat):
        def factors(self, norms: Any) -> Any:
            return torch.full_like(norms, 3.0)

    seen: list[float] = []
    real = training.release

    def door(bounded: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(float(np.linalg.norm(bounded.value)) / bounded.contribution)
        return real(bounded, *args, **kwargs)

    monkeypatch.setattr(training, "release", door)
    rows = torch.zeros(N, D)
    rows[0], rows[1] = 1e3, 0.01
    loose = private(nn.Linear(D, 1, bias=False), clipping=Loose(1.0))
    loose.step(losses, rows[next(loose.batches())])
    assert 0.0 < seen[0] <= 1.0  # the second record alone


def test_the_rounding_of_a_large_sum_stays_with_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """200,001 records that agree: summed in float32 to the end, 400 of them too many came out."""
    seen: list[Any] = []
    real = training.release

    def door(bounded: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(bounded.value)
        return real(bounded, *args, **kwargs)

    monkeypatch.setattr(training, "release", door)
    n = 200_001
    rows = torch.full((n, 1), 0.7)
    large = private(nn.Linear(1, 1, bias=False), size=n, delta=1e-6, micro_batch=4096)
    large.step(losses, rows[next(large.batches())])
    assert abs(float(seen[0][0]) - n * 0.7) < 10.0  # each run of 4,096 by itself


def test_a_level_that_no_rate_keeps_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    real = planning.accounting.calibrate

    def calibrate(plan: Any, *, epsilon: float, **options: Any) -> float:
        if options.get("find") == "rate" and epsilon < 1.0:
            raise InvalidParameter("no value reaches it")
        return real(plan, epsilon=epsilon, **options)

    monkeypatch.setattr(planning.accounting, "calibrate", calibrate)
    with pytest.raises(InvalidParameter, match="no sampling rate"):
        make_level_plan([(0.5, 50), (4.0, 50)], delta=1e-5, batch_size=10, steps=20)


CODE = """
X = torch.zeros(8, 5)
if rank == 1:
    X[0, 1] = 1e6
rule = Flat(1.0)
scheduled = private(sampling.FullBatch(), 5, 8, clipping=rule)
for rows in scheduled.batches():
    rule.clip_norm *= 1.0 if rank else 0.5  # a schedule on the first rank alone
    scheduled.step(lambda m, x: m(x).sum(1), X[rows])
print("canary", max(worst))
refused(sampling.Poisson(0.5), 5, 8, random_state=1 if rank else None)
refused(sampling.Cyclic(4), 5, 8, band=2 if rank else None)
"""


def test_ranks_share_the_clip_norm_and_the_kind_of_chance(tmp_path: Path) -> None:
    """A seeded second rank flips coins that somebody knows, and the guarantee did not say so."""
    told = run_ranks(CODE, tmp_path)
    assert float(told[0][0].split()[1]) <= 1.0
    for lines in told:
        assert [line.split()[0] for line in lines[1:]] == ["refused", "refused"]


def test_a_rule_keeps_its_range() -> None:
    rule = Flat(1.0)
    with pytest.raises(InvalidParameter, match="clip_norm must lie"):
        rule.restore({"clip_norm": 1e-40})
