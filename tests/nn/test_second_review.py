"""What a second hostile reader of the networks found: overflow, memories, changes, ledgers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the nn extra is not installed")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from noisette import mechanisms, sampling  # noqa: E402
from noisette.errors import InvalidParameter  # noqa: E402
from noisette.nn import (  # noqa: E402
    PrivateTraining,
)
from noisette.nn.gradients import ClippedGradients, check_module, factors  # noqa: E402
from noisette.nn.gradients.terms import Outer  # noqa: E402
from noisette.plans import Plan, Repeat, Sampled  # noqa: E402

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
