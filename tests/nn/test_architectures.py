"""Ordinary architectures against a plain loop of batch one: norms and sums agree.

In double precision, so that what is left is the order of sums; the largest deviation that may occur
is stated in `MOST`. Reduced precision has a test of its own.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the nn extra is not installed")

from gradient_oracle import one_by_one  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from noisette.nn.clipping import Flat  # noqa: E402
from noisette.nn.gradients import ClippedGradients  # noqa: E402

torch.set_num_threads(1)

N, T, W = 5, 6, 8
MOST = 1e-9
"""The largest relative deviation of a norm, or of the sum, over all architectures below."""


class Run(nn.Module):
    """Parts by name, and a function of them."""

    def __init__(self, run: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self.run = run
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x: Any) -> Any:
        return self.run(self, x)


def parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(*shape) * 0.5)


class HuggingConv1D(nn.Module):
    """The linear layer of GPT-2: a weight the other way round."""

    def __init__(self, out: int, into: int) -> None:
        super().__init__()
        self.weight, self.bias = parameter(into, out), parameter(out)

    def forward(self, x: Any) -> Any:
        flat = torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight)
        return flat.view(*x.shape[:-1], -1)


class LoRA(nn.Module):
    def __init__(self, into: int, out: int, rank: int = 2, matmul: bool = False) -> None:
        super().__init__()
        self.base = nn.Linear(into, out).requires_grad_(False)
        self.a, self.b, self.matmul = parameter(rank, into), parameter(out, rank), matmul

    def forward(self, x: Any) -> Any:
        if self.matmul:
            return self.base(x) + x @ self.a.t() @ self.b.t()
        return self.base(x) + functional.linear(functional.linear(x, self.a), self.b)


def patches(m: Any, x: Any) -> Any:
    """Cut each image into four and fold them into the batch axis."""
    n, c, h, w = x.shape
    cut = x.view(n, c, 2, h // 2, 2, w // 2).permute(0, 2, 4, 1, 3, 5)
    seen = m.norm(torch.relu(m.conv(cut.reshape(n * 4, c, h // 2, w // 2))))
    return m.last(seen.flatten(1)).view(n, 4, -1).mean(1)


def attention(m: Any, x: Any) -> Any:
    q, k, v = (layer(x).view(len(x), T, 2, W // 2).transpose(1, 2) for layer in (m.q, m.k, m.v))
    seen = functional.scaled_dot_product_attention(q, k, v, is_causal=m.causal)
    return m.o(seen.transpose(1, 2).reshape(x.shape))


def cls(m: Any, x: Any) -> Any:
    h = torch.cat([m.token.expand(len(x), -1, -1), x], 1) + m.places
    return m.last(m.layer(h)[:, 0])


def numbered(m: Any, x: Any) -> Any:
    at = torch.arange(x.shape[1]).unsqueeze(0)
    return m.last(torch.tanh(m.tokens(x) + m.places(at)))


def recurrent(kind: Any, first: bool = True, **options: Any) -> Any:
    def run(m: Any, x: Any) -> Any:
        out, _ = m.cell(x if first else x.transpose(0, 1))
        return m.last(out[:, -1] if first else out[-1])

    def make() -> nn.Module:
        width = options.get("proj_size") or 5 * (2 if options.get("bidirectional") else 1)
        return Run(run, cell=kind(W, 5, batch_first=first, **options), last=nn.Linear(width, 2))

    return make, (T, W)


def cells(kind: Any) -> Any:
    def run(m: Any, x: Any) -> Any:
        state: Any = None
        for t in range(T):
            state = m.cell(x[:, t], state)
        return m.last(state[0] if isinstance(state, tuple) else state)

    return (lambda: Run(run, cell=kind(W, 5), last=nn.Linear(5, 2))), (T, W)


def multi(first: bool, cross: bool = False, **options: Any) -> Any:
    def run(m: Any, x: Any) -> Any:
        x = x if first else x.transpose(0, 1)
        other = m.memory(x.flip(0 if not first else 1)) if cross else x
        out = m.attention(x, other, other, need_weights=options.get("weights", False))[0]
        return m.last(out).mean(0 if not first else 1)

    given = {name: value for name, value in options.items() if name != "weights"}

    def make() -> nn.Module:
        layer = nn.MultiheadAttention(W, 2, batch_first=first, **given)
        return Run(run, attention=layer, memory=nn.Linear(W, W), last=nn.Linear(W, 2))

    return make, (T, W)


def siamese(m: Any, x: Any) -> Any:
    return (m.tower(x[:, 0]) - m.tower(x[:, 1])).square()


def backbone() -> nn.Module:
    seen = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AvgPool2d(2))
    with torch.no_grad():
        seen(torch.randn(20, 2, 6, 6))
    seen.requires_grad_(False).eval()
    return nn.Sequential(seen, nn.Flatten(), nn.Linear(16, 3)).eval()


def residual(m: Any, x: Any) -> Any:
    h = m.a(x)
    h = h + m.norm2(m.c(functional.relu(m.norm1(m.b(h)))))
    return m.last(functional.adaptive_avg_pool2d(h, 1).flatten(1))


def sequential(*layers: Any) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(*(make() for make in layers))


def of(make: Any, *args: Any, **options: Any) -> Any:
    return lambda: make(*args, **options)


def mixture(m: Any, x: Any) -> Any:
    share = m.gate(x).softmax(1)
    return sum(share[:, i : i + 1] * part(x) for i, part in enumerate(m.parts))


def hyper(m: Any, x: Any) -> Any:
    """A layer whose weight another layer makes."""
    weight = m.maker(x).view(-1, 3, W)
    return torch.bmm(weight, x.unsqueeze(2)).squeeze(2)


def recursive(m: Any, x: Any) -> Any:
    for _ in range(4):
        x = x + torch.tanh(m.layer(x))
    return m.last(x)


def graph(m: Any, x: Any) -> Any:
    """A graph network with a fixed adjacency for every record."""
    near = torch.ones(T, T, dtype=x.dtype).tril().softmax(1)
    return m.b(near @ torch.relu(m.a(near @ x))).mean(1)


def tied(m: Any, x: Any) -> Any:
    return functional.linear(torch.tanh(m.middle(m.tokens(x))), m.tokens.weight)


def deep(*widths: int) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        layers: list[nn.Module] = []
        for into, out in itertools.pairwise(widths):
            layers += [nn.Linear(into, out), nn.GELU()]
        return nn.Sequential(*layers, nn.Linear(widths[-1], 2))

    return make


IMAGE = (2, 6, 6)
TOKENS = (T,)
ARCHITECTURES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "logistic": (of(nn.Linear, W, 3), (W,)),
    "mlp": (deep(W, 12, 7), (W,)),
    "mlp, relu in place": (
        sequential(of(nn.Linear, W, 9), of(nn.ReLU, True), of(nn.Linear, 9, 9), of(nn.ReLU, True),
                   of(nn.Linear, 9, 2)), (W,)),
    "mlp on sequences": (deep(W, 12, 7), (T, W)),
    "mlp on grids": (deep(W, 5), (2, 3, W)),
    "mlp with layer norm": (
        sequential(of(nn.Linear, W, 9), of(nn.LayerNorm, 9), of(nn.SiLU), of(nn.Linear, 9, 2)),
        (W,)),
    "mlp with rms norm": (sequential(of(nn.Linear, W, 9), of(nn.RMSNorm, 9), of(nn.ReLU, True)),
                          (T, W)),
    "mlp with prelu": (sequential(of(nn.Linear, W, 9), of(nn.PReLU, 9), of(nn.Linear, 9, 2)),
                       (W,)),
    "weight norm": (lambda: nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Linear(W, 5)), nn.Linear(5, 2)), (W,)),
    "weight norm of a convolution": (lambda: nn.utils.parametrizations.weight_norm(
        nn.Conv2d(2, 3, 3)), IMAGE),
    "orthogonal": (lambda: nn.utils.parametrizations.orthogonal(nn.Linear(W, W)), (W,)),
    "bilinear": (lambda: Run(lambda m, x: m.layer(x, x.flip(1)), layer=nn.Bilinear(W, W, 3)), (W,)),
    "scale": (lambda: Run(lambda m, x: m.last(x * m.scale + m.shift), scale=parameter(W),
                          shift=parameter(1, W), last=nn.Linear(W, 2)), (W,)),
    "einsum": (lambda: Run(lambda m, x: torch.einsum("ntw,wv->nv", x, m.weight),
                           weight=parameter(W, 3)), (T, W)),
    "matmul": (lambda: Run(lambda m, x: torch.tanh(x @ m.a) @ m.b, a=parameter(W, 5),
                           b=parameter(5, 3)), (T, W)),
    "matmul from the left": (lambda: Run(lambda m, x: m.a @ x, a=parameter(3, T)), (T, W)),
    "a parameter as input": (lambda: Run(lambda m, x: x @ m.layer(m.query).transpose(0, 1),
                                         query=parameter(3, 4), layer=nn.Linear(4, W)), (T, W)),
    "indexing": (lambda: Run(lambda m, x: m.table[x] + m.table[:1], table=parameter(9, 4)), TOKENS),
    "transposed weight": (lambda: Run(lambda m, x: functional.linear(m.a(x), m.a.weight.t()),
                                      a=nn.Linear(W, 5)), (W,)),
    "conv1d": (sequential(of(nn.Conv1d, W, 5, 3), of(nn.ReLU), of(nn.Conv1d, 5, 3, 2, 2)), (W, 9)),
    "conv1d, causal": (lambda: Run(lambda m, x: m.conv(functional.pad(x, (2, 0))),
                                   conv=nn.Conv1d(W, 5, 3)), (W, 9)),
    "conv2d": (sequential(of(nn.Conv2d, 2, 4, 3), of(nn.ReLU, True), of(nn.MaxPool2d, 2),
                          of(nn.Flatten), of(nn.Linear, 16, 3)), IMAGE),
    "conv2d, groups": (sequential(of(nn.Conv2d, 2, 4, 3, groups=2),
                                  of(nn.Conv2d, 4, 4, 2, groups=4), of(nn.Conv2d, 4, 3, 1)), IMAGE),
    "conv2d, same": (sequential(of(nn.Conv2d, 2, 3, 4, padding="same", dilation=2)), IMAGE),
    "conv2d, reflect": (sequential(of(nn.Conv2d, 2, 3, 3, padding=1, padding_mode="reflect")),
                        IMAGE),
    "conv3d": (sequential(of(nn.Conv3d, 2, 3, 2), of(nn.Tanh), of(nn.Conv3d, 3, 2, 2)),
               (2, 4, 4, 4)),
    "transposed convolution": (sequential(
        of(nn.Conv2d, 2, 4, 3, 2), of(nn.ConvTranspose2d, 4, 2, 3)),
                               IMAGE),
    "transposed convolution 1d": (sequential(of(nn.ConvTranspose1d, W, 3, 3, 2)), (W, T)),
    "u-net": (lambda: Run(
        lambda m, x: m.out(torch.cat([x, m.up(torch.relu(m.down(x)))], 1)),
        down=nn.Conv2d(2, 4, 2, 2), up=nn.ConvTranspose2d(4, 3, 2, 2), out=nn.Conv2d(5, 1, 1)),
        IMAGE),
    "group norm": (sequential(of(nn.Conv2d, 2, 4, 3), of(nn.GroupNorm, 2, 4), of(nn.ReLU, True)),
                   IMAGE),
    "instance norm": (sequential(of(nn.Conv2d, 2, 4, 3), of(nn.InstanceNorm2d, 4, affine=True)),
                      IMAGE),
    "instance norm, relu in place": (
        sequential(of(nn.Conv2d, 2, 4, 3), of(nn.InstanceNorm2d, 4, affine=True),
                   of(nn.ReLU, True), of(nn.Conv2d, 4, 2, 1)), IMAGE),
    "residual": (lambda: Run(residual, a=nn.Conv2d(2, 4, 3), b=nn.Conv2d(4, 4, 3, padding=1),
                             c=nn.Conv2d(4, 4, 3, padding=1), norm1=nn.GroupNorm(2, 4),
                             norm2=nn.GroupNorm(2, 4), last=nn.Linear(4, 3)), IMAGE),
    "patches in the batch axis": (lambda: Run(patches, conv=nn.Conv2d(2, 4, 2),
                                              norm=nn.GroupNorm(2, 4), last=nn.Linear(16, 3)),
                                  IMAGE),
    "images without a batch axis": (lambda: Run(lambda m, x: m.conv(x[0]).unsqueeze(0),
                                                conv=nn.Conv2d(2, 3, 3)), IMAGE),
    "interpolated": (lambda: Run(lambda m, x: m.conv(functional.interpolate(x, scale_factor=2.0)),
                                 conv=nn.Conv2d(2, 2, 3)), IMAGE),
    "embedding": (sequential(of(nn.Embedding, 9, W), of(nn.Flatten), of(nn.Linear, T * W, 2)),
                  TOKENS),
    "padded embedding": (sequential(of(nn.Embedding, 9, W, padding_idx=1), of(nn.Linear, W, 2)),
                         TOKENS),
    "tied embedding": (lambda: Run(tied, tokens=nn.Embedding(9, W), middle=nn.Linear(W, W)),
                       TOKENS),
    "one table of positions": (lambda: Run(numbered, tokens=nn.Embedding(9, W),
                                           places=nn.Embedding(T, W), last=nn.Linear(W, 2)),
                               TOKENS),
    "class token": (lambda: Run(cls, token=parameter(1, 1, W), places=parameter(1, T + 1, W),
                                layer=nn.TransformerEncoderLayer(W, 2, 12, 0.0, batch_first=True),
                                last=nn.Linear(W, 2)), (T, W)),
    "attention by hand": (lambda: Run(attention, causal=False, **{
        name: nn.Linear(W, W) for name in "qkvo"}), (T, W)),
    "causal attention by hand": (lambda: Run(attention, causal=True, **{
        name: nn.Linear(W, W, bias=False) for name in "qkvo"}), (T, W)),
    "multi-head": multi(True),
    "multi-head, sequence first": multi(False),
    "multi-head with weights": multi(True, weights=True),
    "multi-head to a memory": multi(True, cross=True),
    "multi-head to a memory, sequence first": multi(False, cross=True),
    "multi-head, zero attention": multi(True, add_zero_attn=True),
    "multi-head, key bias": multi(False, add_bias_kv=True),
    "multi-head, no bias": multi(True, bias=False),
    "multi-head, other keys": multi(True, kdim=W, vdim=W),
    "encoder layer": (of(nn.TransformerEncoderLayer, W, 2, 12, 0.0, batch_first=True), (T, W)),
    "encoder layer, norm first": (
        of(nn.TransformerEncoderLayer, W, 2, 12, 0.0, batch_first=True, norm_first=True), (T, W)),
    "encoder, sequence first": (lambda: Run(
        lambda m, x: m.layer(x.transpose(0, 1)).transpose(0, 1),
        layer=nn.TransformerEncoderLayer(W, 2, 12, 0.0)), (T, W)),
    "encoder": (lambda: nn.TransformerEncoder(
        nn.TransformerEncoderLayer(W, 2, 12, 0.0, batch_first=True), 2), (T, W)),
    "decoder": (lambda: Run(lambda m, x: m.layer(x, x.flip(1)),
                            layer=nn.TransformerDecoderLayer(W, 2, 12, 0.0, batch_first=True)),
                (T, W)),
    "transformer": (lambda: Run(
        lambda m, x: m.both(x, x[:, :3]),
        both=nn.Transformer(W, 2, 1, 1, 12, 0.0, batch_first=True)), (T, W)),
    "hugging conv1d": (lambda: nn.Sequential(HuggingConv1D(12, W), nn.GELU(), HuggingConv1D(3, 12)),
                       (T, W)),
    "lora": (lambda: nn.Sequential(LoRA(W, W), nn.ReLU(), LoRA(W, 3)), (T, W)),
    "lora by matmul": (lambda: nn.Sequential(LoRA(W, W, matmul=True), LoRA(W, 3)), (W,)),
    "rnn": recurrent(nn.RNN),
    "rnn, relu, sequence first": recurrent(nn.RNN, False, nonlinearity="relu"),
    "lstm": recurrent(nn.LSTM),
    "lstm, sequence first": recurrent(nn.LSTM, False),
    "lstm, two layers, both ways": recurrent(nn.LSTM, num_layers=2, bidirectional=True),
    "gru": recurrent(nn.GRU),
    "gru, sequence first": recurrent(nn.GRU, False, bias=False),
    "lstm cell": cells(nn.LSTMCell),
    "gru cell": cells(nn.GRUCell),
    "siamese": (lambda: Run(siamese, tower=nn.Sequential(nn.Linear(W, 5), nn.Tanh(),
                                                         nn.Linear(5, 3))), (2, W)),
    "frozen backbone": (backbone, IMAGE),
    "mixture": (lambda: Run(mixture, gate=nn.Linear(W, 3),
                            parts=nn.ModuleList(nn.Linear(W, 2) for _ in range(3))), (W,)),
    "hypernetwork": (lambda: Run(hyper, maker=nn.Linear(W, 3 * W)), (W,)),
    "one layer four times": (lambda: Run(recursive, layer=nn.Linear(W, W), last=nn.Linear(W, 2)),
                             (W,)),
    "graph network": (lambda: Run(graph, a=nn.Linear(W, 5), b=nn.Linear(5, 2)), (T, W)),
    "gated": (lambda: Run(lambda m, x: m.b(functional.glu(m.a(x), -1)), a=nn.Linear(W, 2 * W),
                          b=nn.Linear(W, 2)), (T, W)),
    "max over time": (lambda: Run(lambda m, x: m.b(m.a(x).amax(1)), a=nn.Linear(W, 5),
                                  b=nn.Linear(5, 2)), (T, W)),
    "sorted features": (lambda: Run(lambda m, x: m.a(x.sort(1)[0]), a=nn.Linear(W, 3)), (W,)),
    "fourier": (lambda: Run(lambda m, x: m.a(torch.fft.rfft(x, dim=1).abs()), a=nn.Linear(5, 3)),
                (W,)),
    "scan with a list": (lambda: Run(
        lambda m, x: torch.stack([m.a(x[:, t]) for t in range(T)], 1).cumsum(1), a=nn.Linear(W, 3)),
        (T, W)),
}  # fmt: skip


def test_there_are_sixty() -> None:
    assert len(ARCHITECTURES) >= 60


def half_squared(module: Any, x: Any) -> Any:
    return 0.5 * (module(x) - 1.0 / 3.0).square().flatten(1).sum(1)


def deviation(module: nn.Module, x: Any, *, losses: Any = half_squared) -> float:
    """Return the largest relative deviation of a norm and of the sum from the plain loop's."""
    rows = one_by_one(module, losses, x, len(x))
    engine = ClippedGradients(module)
    out = torch.zeros(engine.dimension, dtype=torch.float64)
    norms = engine.add(losses, x, len(x), Flat(1e9).factors, out)
    ours = float((norms / rows.norm(dim=1) - 1.0).abs().max())
    return max(ours, float((out - rows.sum(0)).norm() / rows.sum(0).norm()))


def inputs(shape: tuple[int, ...], dtype: Any = torch.float64) -> Any:
    g = torch.Generator().manual_seed(11)
    if shape == TOKENS:
        return torch.randint(0, 9, (N, *shape), generator=g)
    return torch.randn(N, *shape, generator=g, dtype=torch.float64).to(dtype)


@pytest.mark.filterwarnings("ignore:.*nested tensors.*:UserWarning")
@pytest.mark.filterwarnings("ignore:enable_nested_tensor:UserWarning")
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_an_architecture_equals_batches_of_one(name: str) -> None:
    torch.manual_seed(5)
    make, shape = ARCHITECTURES[name]
    module = make().double()
    assert deviation(module, inputs(shape)) <= MOST


AUTOCAST = ["mlp on sequences", "multi-head", "multi-head with weights", "attention by hand",
            "encoder layer", "conv2d", "lora", "hugging conv1d",
            "one table of positions"]  # fmt: skip


@pytest.mark.parametrize("name", AUTOCAST)
def test_autocast_to_bfloat16(name: str) -> None:
    """Linear layers on sequences and attention failed under autocast; norms are still bounds."""
    torch.manual_seed(5)
    make, shape = ARCHITECTURES[name]
    module = make()
    x = inputs(shape, torch.float32)

    def losses(module: Any, x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = module(x)
        return 0.5 * (out.float() - 1.0 / 3.0).square().flatten(1).sum(1)

    assert deviation(module, x, losses=losses) <= 0.03
    C = 0.01
    engine = ClippedGradients(module)
    for i in range(N):
        out = torch.zeros(engine.dimension, dtype=torch.float64)
        engine.add(losses, x[i : i + 1], 1, Flat(C).factors, out)
        assert 0.5 * C < float(out.norm()) <= C * (1.0 + 1e-6)


def test_autocast_around_a_step() -> None:
    torch.manual_seed(5)
    module, x = ARCHITECTURES["mlp on sequences"][0](), inputs((T, W), torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert deviation(module, x, losses=lambda m, x: half_squared(m, x).float()) <= 0.03


def test_dropout_by_its_law() -> None:
    """Every record and entry has chance of its own, kept with probability 1 - p, scaled."""
    p, size, width = 0.3, 200, 50
    for drop in (nn.Dropout(p), nn.Dropout(p, inplace=True), nn.Dropout1d(p)):
        module = nn.Sequential(
            drop, Run(lambda m, x: x * m.scale, scale=nn.Parameter(torch.ones(1)))
        )
        engine = ClippedGradients(module.double())
        x = torch.ones(size, width, 1, dtype=torch.float64)
        norms = engine.add(
            lambda m, b: m(b).sum((1, 2)), x, size, Flat(1e9).factors,
            torch.zeros(1, dtype=torch.float64),
        )  # fmt: skip
        counts = norms * (1 - p)
        spread = math.sqrt(width * p * (1 - p))
        assert abs(float(counts.mean()) - width * (1 - p)) < 5 * spread / math.sqrt(size)
        assert 0.7 * spread < float(counts.std()) < 1.3 * spread


def test_attention_dropout_differs_between_records() -> None:
    torch.manual_seed(0)
    module = nn.MultiheadAttention(W, 2, dropout=0.5, batch_first=True)
    x = torch.randn(1, T, W).expand(N, T, W).clone()
    engine = ClippedGradients(module)
    norms = engine.add(
        lambda m, b: m(b, b, b, need_weights=False)[0].square().sum((1, 2)), x, N,
        Flat(1.0).factors, torch.zeros(engine.dimension),
    )  # fmt: skip
    assert len(set(norms.tolist())) == N
