"""Attention, recurrence, and uses of parameters without a rule: right against batches of one."""

import pytest

torch = pytest.importorskip("torch")

from gradient_oracle import agrees, squared  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from noisette import Randomness  # noqa: E402
from noisette.nn.clipping import Flat  # noqa: E402
from noisette.nn.gradients import ClippedGradients  # noqa: E402
from noisette.nn.gradients.chance import Chance  # noqa: E402
from noisette.nn.gradients.clipped import BatchRecords  # noqa: E402

torch.set_num_threads(1)
N = 5


def normal(*shape, seed=11):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class Attend(nn.Module):
    """Attention called in one of its many ways, then a linear layer."""

    def __init__(self, way: str, **options) -> None:
        super().__init__()
        self.way = way
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True, **options)
        self.last = nn.Linear(8, 2)

    def forward(self, x):
        T, extra = x.shape[1], {}
        causal = torch.triu(torch.ones(T, T, dtype=torch.bool), 1)
        if self.way == "causal":
            extra = {"attn_mask": causal, "need_weights": False}
        elif self.way == "float mask":
            extra = {"attn_mask": causal.to(x.dtype) * -2.0}
        elif self.way == "heads":
            mask = (causal.to(x.dtype) * -2.0).expand(2 * len(x), T, T)
            extra = {"attn_mask": mask, "need_weights": False}
        elif self.way == "padding":
            extra = {"key_padding_mask": x[:, :, 0] > 1.5, "need_weights": False}
        elif self.way == "cross":
            return self.last(self.attention(x, x.flip(1), x.tanh(), attn_mask=causal)[0])
        elif self.way == "weights":
            out, weights = self.attention(x, x, x, average_attn_weights=False)
            return self.last(out) + weights.sum((1, 2, 3))[:, None, None] + weights[:, 0, :, :2]
        return self.last(self.attention(x, x, x, **extra)[0])


@pytest.mark.parametrize(
    "way", ["plain", "causal", "float mask", "heads", "padding", "cross", "weights"]
)
@pytest.mark.parametrize("T", [4, N])  # a mask of as many rows as there are examples is no batch
def test_attention(way: str, T: int) -> None:
    torch.manual_seed(0)
    agrees(Attend(way), normal(N, T, 8))


@pytest.mark.parametrize(
    "options",
    [{"bias": False}, {"add_bias_kv": True}, {"add_zero_attn": True}, {"kdim": 8, "vdim": 8}],
)
def test_attention_options(options: dict) -> None:
    torch.manual_seed(0)
    agrees(Attend("plain", **options), normal(N, 3, 8))


@pytest.mark.parametrize("first", [True, False])
def test_transformer_layers(first: bool) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 12, 0.0, batch_first=True, norm_first=first)
    engine = agrees(layer, normal(N, 4, 8))
    assert "per record" not in engine.layers.values()
    layer.eval()
    agrees(layer, normal(N, 4, 8))
    decoder = nn.TransformerDecoderLayer(8, 2, 12, 0.0, batch_first=True, norm_first=first)
    agrees(decoder, (normal(N, 4, 8), normal(N, 6, 8, seed=3)))


RECURRENT = [
    (nn.RNN, {}),
    (nn.RNN, {"nonlinearity": "relu", "bias": False}),
    (nn.LSTM, {"bidirectional": True}),
    (nn.LSTM, {"proj_size": 3}),
    (nn.GRU, {"bidirectional": True, "num_layers": 1}),
    (nn.GRU, {}),
]


@pytest.mark.filterwarnings("ignore:LSTM with projections:UserWarning")
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize(("kind", "options"), RECURRENT)
def test_recurrent_layers(kind: type[nn.Module], options: dict, given: bool) -> None:
    torch.manual_seed(0)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = kind(3, 4, **{"num_layers": 2, "batch_first": True, **options})
            self.start = nn.Linear(3, 4)
            self.last = nn.Linear(options.get("proj_size") or 4, 2)

        def forward(self, x):
            states = None
            if given and "proj_size" not in options:
                count = self.cell.num_layers * (2 if self.cell.bidirectional else 1)
                h = self.start(x[:, 0]).expand(count, -1, -1)
                states = (h, h.tanh()) if kind is nn.LSTM else h
            out, state = self.cell(x, states)
            state = state[0] if isinstance(state, tuple) else state
            return out.sum(2, keepdim=True) + self.last(state[-1])[:, None]

    agrees(Net(), normal(N, 4, 3))


class Custom(nn.Module):
    """A scale, a use of a child's weight by hand, a child in the ordinary way."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))
        self.child = nn.Linear(4, 4)

    def forward(self, x):
        return functional.linear(self.child(x * self.scale), self.child.weight.t())


def test_custom_layers() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), Custom(), nn.Linear(4, 2))
    engine = agrees(net, normal(N, 4))
    assert engine.layers["1.scale"] == "per record"
    assert engine.layers["1.child.weight"] == "linear, per record"
    assert engine.layers["2.weight"] == "linear"
    agrees(net, normal(2 * N, 3, 4), copies=2)


@pytest.mark.parametrize("layer", [nn.Bilinear(3, 3, 2), nn.ConvTranspose2d(2, 3, 3), nn.PReLU(2)])
def test_other_layers_of_torch(layer: nn.Module) -> None:
    x = (
        (normal(N, 3), normal(N, 3, seed=1))
        if isinstance(layer, nn.Bilinear)
        else normal(N, 2, 5, 5)
    )
    agrees(layer, x)


def test_weight_norm_parametrisation() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)), nn.Linear(3, 2))
    found = agrees(net, normal(N, 4)).layers
    assert found["0.parametrizations.weight.original0"] == "_weight_norm, per record"
    assert found["0.bias"] == "per record"
    assert found["1.weight"] == "linear"


class Positions(nn.Module):
    """A table of positions that is read once for all examples, and a tied output by hand."""

    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(9, 6), nn.Embedding(8, 6)
        self.middle, self.tied = nn.Linear(6, 6), tied

    def forward(self, tokens):
        h = self.tokens(tokens)
        if not self.tied:
            h = h + self.places(torch.arange(tokens.shape[1]))
        return functional.linear(self.middle(h), self.tokens.weight)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("T", [3, N])  # with T = N nothing but the values can tell the two axes
def test_parameters_used_outside_their_layer_or_for_all_examples(tied: bool, T: int) -> None:
    torch.manual_seed(0)
    tokens = torch.randint(0, 9, (N, T))
    engine = agrees(Positions(tied), tokens)
    assert engine.layers["tokens.weight"] == "embedding, linear"
    assert "per record" not in engine.layers.values()


def test_dropout_is_the_same_in_norms_and_sum() -> None:
    """With C = inf the sum must be the gradient of the very losses that were computed."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(4, 30), nn.Dropout(0.5), Custom30(), nn.Dropout(0.5), nn.Linear(30, 2)
    )
    engine = ClippedGradients(net)
    x = normal(6, 4)
    sums = []
    for seed in (1, 2, 1):
        engine.chance = Chance(Randomness.from_seed(seed))
        out = torch.zeros(engine.dimension, dtype=torch.float64)
        engine.add(squared, x, 6, Flat(1e9).factors, out)
        sums.append(out)
    assert torch.equal(sums[0], sums[2])
    assert not torch.allclose(sums[0], sums[1])
    # Directional check: at p + t v the sum of the losses, with the same masks, moves by t <out, v>.
    start = [p.detach().clone() for p in net.parameters()]
    step, direction = 1e-3, sums[0].float() / sums[0].norm()

    def loss_at(t: float) -> float:
        place = 0
        for p, p0 in zip(net.parameters(), start, strict=True):
            p.data.copy_(p0 + t * direction[place : place + p.numel()].view(p.shape))
            place += p.numel()
        engine.chance = Chance(Randomness.from_seed(1))
        values = engine._forward(squared, BatchRecords(x, 6, 1))[2]
        return float(values[:6].detach().double().sum())

    moved = (loss_at(step) - loss_at(-step)) / (2 * step)
    assert moved == pytest.approx(float(sums[0].norm()), rel=1e-2)


class Custom30(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(30))

    def forward(self, x):
        return functional.dropout(x * self.scale, 0.5, self.training)
