"""The clip holds whatever an example is: huge, cancelling, not finite; and what is refused."""

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gradient_oracle import one_by_one, squared  # noqa: E402
from torch import nn  # noqa: E402

from noisette.errors import InvalidData, InvalidParameter  # noqa: E402
from noisette.nn.clipping import Automatic, Flat  # noqa: E402
from noisette.nn.gradients import ClippedGradients, check_module  # noqa: E402
from noisette.nn.gradients.terms import Outer  # noqa: E402

torch.set_num_threads(1)


def run(module, batch, size, C=1.0, losses=squared, rule=None, copies=1):
    engine = ClippedGradients(module)
    out = torch.zeros(engine.dimension, dtype=torch.float64)
    norms = engine.add(losses, batch, size, rule or Flat(C).factors, out, copies=copies)
    return norms, out


class Scale(nn.Module):
    def __init__(self, shape: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(shape))

    def forward(self, x):
        return x * self.scale


def image_net(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(3))


NETS = {
    "linear": lambda: (nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2)), (6,)),
    "linear many": lambda: (nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 2)), (7, 6)),
    "linear gram": lambda: (nn.Sequential(nn.Linear(60, 50), nn.Linear(50, 60)), (2, 60)),
    "conv": lambda: (image_net(nn.Conv2d(2, 3, 3), nn.ReLU()), (2, 6, 6)),
    "conv gram": lambda: (image_net(nn.Conv2d(20, 30, 3), nn.ReLU()), (20, 4, 4)),
    "norms": lambda: (
        image_net(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.InstanceNorm2d(4, affine=True)),
        (2, 6, 6),
    ),
    "layer norm": lambda: (nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6), Scale(6)), (4, 6)),
    "attention": lambda: (nn.TransformerEncoderLayer(8, 2, 12, 0.0, batch_first=True), (4, 8)),
}


def made(name: str, size: int, seed: int = 0):
    torch.manual_seed(seed)
    net, shape = NETS[name]()
    x = torch.randn(size, *shape)
    net(x)  # gives lazy layers their sizes
    return net, x


@pytest.mark.parametrize("name", NETS)
def test_a_canary_moves_the_sum_by_the_clip_norm(name: str) -> None:
    net, x = made(name, 4)

    def losses(module, batch):
        return batch[1] * squared(module, batch[0])

    weights = torch.ones(4)
    own = one_by_one(net, losses, (x, weights), 4)[2].norm()
    weights[2] = 1e6 / own
    norms, with_canary = run(net, (x, weights), 4, 0.5, losses)
    assert float(norms[2]) == pytest.approx(1e6, rel=1e-3)
    keep = torch.tensor([0, 1, 3])
    _, without = run(net, (x[keep], weights[keep]), 3, 0.5, losses)
    moved = float((with_canary - without).norm())
    assert moved <= 0.5 * (1 + 1e-6)
    assert moved == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30])
@pytest.mark.parametrize("name", NETS)
def test_a_value_that_is_not_finite_adds_exactly_nothing(name: str, value: float) -> None:
    if value == 1e30 and name in ("norms", "layer norm", "attention"):
        pytest.skip("normalised away: the gradient is finite")
    net, x = made(name, 4)
    broken = x.clone()
    broken[1].view(-1)[3] = value
    ordinary, expected = run(net, x, 4, rule=lambda n: Flat(1.0).factors(n) * OTHERS)
    norms, out = run(net, broken, 4)
    assert norms[1] == torch.inf
    assert torch.equal(norms[OTHERS.bool()], ordinary[OTHERS.bool()])
    assert torch.equal(out, expected)


OTHERS = torch.tensor([1.0, 0.0, 1.0, 1.0])


def test_a_loss_that_is_not_finite_adds_exactly_nothing() -> None:
    tokens = torch.randint(0, 9, (4, 5), generator=torch.Generator().manual_seed(0))
    net = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(20, 2))
    for value in (np.inf, np.nan):
        weights = torch.tensor([1.0, value, 1.0, 1.0])

        def losses(module, batch):
            return batch[1] * squared(module, batch[0])

        norms, out = run(net, (tokens, weights), 4, 1.0, losses)
        assert norms[1] == torch.inf
        rule = lambda n: Flat(1.0).factors(n) * OTHERS  # noqa: E731
        _, expected = run(net, (tokens, torch.ones(4)), 4, 1.0, losses, rule)
        assert torch.equal(out, expected)


def cancelling(T: int, d: int, p: int, seed: int, spread: float):
    """Positions whose outer products almost cancel: their sum is `spread` of their size."""
    g = torch.Generator().manual_seed(seed)
    a = torch.randn(1, 1, d, generator=g) + spread * torch.randn(1, T, d, generator=g)
    v = torch.randn(1, T, p, generator=g)
    return a, v - v.mean(1, keepdim=True)


def naive(term: Outer):
    A = torch.bmm(term.a, term.a.transpose(1, 2))
    G = torch.bmm(term.g, term.g.transpose(1, 2))
    return (A * G).sum((1, 2)).double().clamp(min=0.0)


def test_the_gram_form_never_falls_below_the_norm() -> None:
    """Cancellation: the plain Gram form (the mutant) is too small by more than 10 %."""
    weight, worst, mutant = nn.Parameter(torch.zeros(80, 70)), np.inf, np.inf
    for seed in range(60):
        for spread in (1e-2, 1e-3, 3e-4, 1e-4, 1e-5):
            a, g = cancelling(6, 70, 80, seed, spread)
            true = torch.einsum("itd,itp->ipd", a.double(), g.double()).norm()
            term = Outer(weight, a, g)
            worst = min(worst, float(term.squares().sqrt() / true))
            mutant = min(mutant, float(naive(term).sqrt() / true))
    assert mutant < 0.9
    assert worst >= 1.0


def test_a_cancelling_example_is_clipped_all_the_same() -> None:
    layer = nn.Linear(70, 80, bias=False)

    def losses(module, batch):
        return (module(batch[0]) * batch[1]).flatten(1).sum(1)

    for seed in range(20):
        a, g = cancelling(6, 70, 80, seed, 1e-4)
        rows = one_by_one(layer.double(), losses, (a.double(), g.double()), 1)
        C = float(rows.norm()) / 2
        norms, out = run(layer.float(), (a, g), 1, C, losses)
        assert float(norms[0]) >= float(rows.norm())
        assert float(out.norm()) <= C * (1 + 1e-5)


def test_the_gram_form_is_tight_for_ordinary_examples() -> None:
    g = torch.Generator().manual_seed(0)
    a, v = torch.randn(50, 4, 70, generator=g), torch.randn(50, 4, 80, generator=g)
    true = torch.einsum("itd,itp->ipd", a.double(), v.double()).flatten(1).norm(dim=1)
    found = Outer(nn.Parameter(torch.zeros(80, 70)), a, v).squares().sqrt()
    assert bool((found >= true).all())
    assert bool((found <= true * (1 + 1e-4)).all())


def test_underflow_hides_nothing() -> None:
    """Squares of 1e-23 vanish in float32; times a huge cotangent they are a real gradient."""
    a, g = torch.full((1, 1, 4000), 1e-23), torch.full((1, 1, 4), 1e18)
    true = float(torch.einsum("itd,itp->ipd", a.double(), g.double()).norm())
    found = float(Outer(nn.Parameter(torch.zeros(4, 4000)), a, g).squares().sqrt())
    assert found >= true


@pytest.mark.parametrize("rule", [Flat, Automatic])
def test_factors_keep_the_product_within_the_clip_norm(rule) -> None:
    g = torch.Generator().manual_seed(0)
    for C in (1e-3, 0.1, 1.0, 3.7):
        norms = C * torch.exp(20 * torch.randn(200_000, generator=g, dtype=torch.float64))
        found = rule(C).factors(norms)
        assert found.dtype == torch.float32
        assert bool((found.double() * norms <= C).all())
        edges = torch.tensor([0.0, C, np.inf, np.nan, 1e300], dtype=torch.float64)
        at = rule(C).factors(edges)
        assert at[2:].tolist() == [0.0, 0.0, 0.0]
        assert float(at[1]) * C <= C
    assert float(Flat(2.0).factors(torch.tensor([1.9]))) == 1.0
    assert float(Automatic(1.0).factors(torch.tensor([0.0]))) == pytest.approx(100, rel=1e-6)
    with pytest.raises(InvalidParameter, match="clip_norm"):
        rule(0.0)


REFUSED = {
    "batch norm": (lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)), "GroupNorm"),
    "sync": (lambda: nn.Sequential(nn.Linear(2, 2), nn.SyncBatchNorm(2)), "statistics of a batch"),
    "lazy batch norm": (lambda: nn.Sequential(nn.Linear(2, 2), nn.LazyBatchNorm1d()), "GroupNorm"),
    "batch norm without statistics": (
        lambda: nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2, track_running_stats=False)),
        "statistics of a batch",
    ),
    "instance norm": (
        lambda: nn.Sequential(nn.Linear(2, 2), nn.InstanceNorm1d(2, track_running_stats=True)),
        "running statistics",
    ),
    "spectral norm": (
        lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(2, 2)), "power iteration"
    ),
    "old spectral norm": (lambda: nn.utils.spectral_norm(nn.Linear(2, 2)), "hook"),
    "lazy": (lambda: nn.LazyLinear(2), "no shape yet"),
    "frozen": (lambda: nn.Linear(2, 2).requires_grad_(False), "no trainable"),
    "empty": (lambda: nn.ReLU(), "no trainable"),
    "max norm": (lambda: nn.Embedding(4, 2, max_norm=1.0), "max_norm"),
    "frequency": (lambda: nn.Embedding(4, 2, scale_grad_by_freq=True), "scale_grad_by_freq"),
    "sparse": (lambda: nn.Embedding(4, 2, sparse=True), "sparse"),
    "bag": (lambda: nn.EmbeddingBag(4, 2), "Embedding and a sum"),
    "parallel": (lambda: nn.DataParallel(nn.Linear(2, 2)), "wrapped"),
    "complex": (lambda: nn.Linear(2, 2, dtype=torch.complex64), "not real"),
    "no module": (lambda: 3, "torch.nn.Module"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_mixes_or_remembers_examples_is_refused(name: str) -> None:
    make, text = REFUSED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch tells of old or lazy things
        module = make()
    with pytest.raises(InvalidParameter, match=text):
        ClippedGradients(module)


def test_modules_are_themselves_again_after_an_error() -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    net.eval()

    def losses(module, x):
        module(x)
        raise KeyError("from the user")

    with pytest.raises(KeyError):
        run(net, torch.randn(6, 4), 6, losses=losses)
    assert not any("forward" in layer.__dict__ for layer in net.modules())
    assert not net[0]._forward_pre_hooks
    assert not net.training


def test_bad_arguments_are_told() -> None:
    engine = ClippedGradients(nn.Linear(4, 3))
    x, out = torch.randn(6, 4), torch.zeros(15)
    with pytest.raises(InvalidData, match="15 entries"):
        engine.add(squared, x, 6, Flat(1.0).factors, torch.zeros(3))
    with pytest.raises(InvalidData, match=r"one loss for the record.*shape \(1, 3\)"):
        engine.add(lambda m, b: m(b), x, 6, Flat(1.0).factors, out)
    with pytest.raises(InvalidData, match="returned a dict; return its loss"):
        engine.add(lambda m, b: {"loss": m(b).sum()}, x, 6, Flat(1.0).factors, out)
    for wrong in (x[:5], torch.zeros(()), (x, torch.ones(4, 4)), [x, [1, 2, 3, 4, 5, 6]], {}):
        with pytest.raises(InvalidData, match="row for each record"):
            engine.add(squared, wrong, 6, Flat(1.0).factors, out)
    with pytest.raises(InvalidParameter, match="one factor per example"):
        engine.add(squared, x, 6, lambda norms: norms.mean(), out)
    assert engine.add(squared, x[:0], 0, Flat(1.0).factors, out).shape == (0,)
    assert not out.any()
    torch.set_float32_matmul_precision("medium")
    try:
        with pytest.raises(InvalidParameter, match="highest"):
            engine.add(squared, x, 6, Flat(1.0).factors, out)
    finally:
        torch.set_float32_matmul_precision("highest")


def test_an_input_changed_in_place_is_refused() -> None:
    class Changes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x):
            h = self.a(x)
            out = self.b(h)
            h.detach().zero_()  # hidden from autograd
            return out

    with pytest.raises(InvalidParameter, match="changed in place"):
        run(Changes(), torch.randn(1, 4), 1)


def test_micro_batches_add_up_and_runs_repeat() -> None:
    net, x = made("conv", 10)
    engine = ClippedGradients(net)
    whole = torch.zeros(engine.dimension, dtype=torch.float64)
    engine.add(squared, x, 10, Flat(1.0).factors, whole)
    parts = torch.zeros_like(whole)
    for start in (0, 3, 4):
        stop = {0: 3, 3: 4, 4: 10}[start]
        engine.add(squared, x[start:stop], stop - start, Flat(1.0).factors, parts)
    assert torch.allclose(whole, parts, rtol=1e-5, atol=1e-6)
    again = torch.zeros_like(whole)
    engine.add(squared, x, 10, Flat(1.0).factors, again)
    assert torch.equal(whole, again)


def test_check_module_tells_how_layers_are_handled() -> None:
    net = nn.Sequential(nn.Linear(4, 3), Scale(3))
    found = check_module(net, squared, torch.randn(4, 4), 4)
    assert found == {"0.bias": "linear", "0.weight": "linear", "1.scale": "per record"}
