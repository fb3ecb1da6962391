"""Every kind of layer, with its options, against micro-batches of one."""

import pytest

torch = pytest.importorskip("torch")

from gradient_oracle import agrees  # noqa: E402
from torch import nn  # noqa: E402

from noisette.nn.gradients import conv  # noqa: E402

torch.set_num_threads(1)
N = 5


def images(*shape):
    return torch.randn(N, *shape, generator=torch.Generator().manual_seed(7))


LAYERS = {
    "linear": (lambda: nn.Linear(4, 3), (4,)),
    "linear-no-bias": (lambda: nn.Linear(4, 3, bias=False), (4,)),
    "linear-one-axis-materialised": (lambda: nn.Linear(4, 3), (6, 4)),
    "linear-one-axis-gram": (lambda: nn.Linear(60, 50), (3, 60)),
    "linear-two-axes": (lambda: nn.Linear(4, 3), (2, 3, 4)),
    "conv1d": (lambda: nn.Conv1d(3, 4, 3), (3, 9)),
    "conv1d-options": (lambda: nn.Conv1d(4, 6, 3, 2, 1, 2, 2), (4, 11)),
    "conv2d": (lambda: nn.Conv2d(2, 3, 3), (2, 6, 7)),
    "conv2d-options": (lambda: nn.Conv2d(4, 6, (3, 2), (2, 1), (1, 2), (1, 2), 2), (4, 8, 9)),
    "conv2d-same": (lambda: nn.Conv2d(2, 3, (3, 4), padding="same", dilation=(1, 2)), (2, 7, 8)),
    "conv2d-valid": (lambda: nn.Conv2d(2, 3, 3, padding="valid"), (2, 6, 6)),
    "conv2d-gram": (lambda: nn.Conv2d(20, 30, 3), (20, 4, 4)),
    "conv2d-gram-groups": (lambda: nn.Conv2d(40, 60, 3, groups=2, padding=1, stride=2), (40, 4, 4)),
    "conv2d-depthwise": (lambda: nn.Conv2d(4, 8, 3, groups=4), (4, 6, 6)),
    "conv2d-reflect": (lambda: nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"), (2, 6, 7)),
    "conv2d-circular": (lambda: nn.Conv2d(2, 3, 3, padding=2, padding_mode="circular"), (2, 6, 7)),
    "conv2d-replicate": (
        lambda: nn.Conv2d(2, 3, 3, padding="same", padding_mode="replicate"), (2, 6, 7)
    ),
    "conv3d": (lambda: nn.Conv3d(2, 3, 2), (2, 4, 3, 5)),
    "conv3d-options": (
        lambda: nn.Conv3d(4, 6, (2, 3, 2), (2, 1, 2), (1, 0, 2), (1, 1, 2), 2, bias=False),
        (4, 4, 5, 6),
    ),
    "layer-norm": (lambda: nn.LayerNorm(5), (4, 5)),
    "layer-norm-two-axes": (lambda: nn.LayerNorm((4, 5)), (4, 5)),
    "layer-norm-no-bias": (lambda: nn.LayerNorm(5, bias=False), (5,)),
    "rms-norm": (lambda: nn.RMSNorm(5), (4, 5)),
    "group-norm": (lambda: nn.GroupNorm(2, 6), (6, 4, 3)),
    "group-norm-flat": (lambda: nn.GroupNorm(2, 6), (6,)),
    "instance-norm-1d": (lambda: nn.InstanceNorm1d(3, affine=True), (3, 7)),
    "instance-norm-2d": (lambda: nn.InstanceNorm2d(3, affine=True), (3, 4, 5)),
    "instance-norm-3d": (lambda: nn.InstanceNorm3d(3, affine=True), (3, 4, 5, 2)),
}  # fmt: skip


@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_alone_and_inside_a_net(name: str, copies: int) -> None:
    torch.manual_seed(3)
    make, shape = LAYERS[name]
    layer = make()
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    x = torch.randn(N * copies, *shape)
    assert "per record" not in agrees(layer, x, copies=copies).layers.values()
    width = layer(x).flatten(1).shape[1]
    net = nn.Sequential(layer, nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(width, 2))
    agrees(net, x, copies=copies)
    first = x[0].numel()
    net = nn.Sequential(nn.Flatten(), nn.Linear(first, first), nn.Unflatten(1, shape), layer)
    agrees(net, x, copies=copies)


@pytest.mark.parametrize("padding", [None, 1])
@pytest.mark.parametrize(("vocabulary", "length"), [(7, 4), (3, 8), (40, 6)])
def test_embedding(vocabulary: int, length: int, padding: int | None) -> None:
    torch.manual_seed(0)
    tokens = torch.randint(0, vocabulary, (N, length))
    agrees(nn.Embedding(vocabulary, 5, padding_idx=padding), tokens)
    agrees(nn.Embedding(vocabulary, 5, padding_idx=padding), tokens[:, 0])
    agrees(nn.Embedding(vocabulary, 5, padding_idx=padding), tokens.repeat(2, 1)[: 2 * N], copies=2)


def test_frozen_layers_and_parameters_are_skipped() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 6), nn.LayerNorm(6), nn.Linear(6, 2)
    )
    net[2].requires_grad_(False)
    net[0].weight.requires_grad_(False)
    net[3].bias.requires_grad_(False)
    net[4].bias.requires_grad_(False)
    engine = agrees(net, images(4))
    assert engine.dimension == 6 + 6 + 12
    assert list(engine.layers) == ["0.bias", "3.weight", "4.weight"]


class Shared(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6) if kind != "conv" else nn.Conv1d(6, 6, 3, padding=1)
        self.last = nn.Linear(6, 2)

    def forward(self, x):
        return self.last(torch.tanh(self.layer(torch.tanh(self.layer(x)))))


@pytest.mark.parametrize(("kind", "shape"), [("one", (6,)), ("many", (3, 6)), ("conv", (6, 6))])
def test_a_layer_used_twice(kind: str, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    agrees(Shared(kind), images(*shape))


class Tied(nn.Module):
    """A small language model: the output layer is the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.middle = nn.Linear(6, 6)
        self.out = nn.Linear(6, 11)
        self.out.weight = self.embedding.weight

    def forward(self, tokens):
        return self.out(torch.tanh(self.middle(self.embedding(tokens))))


@pytest.mark.parametrize("length", [2, 9])
def test_tied_weights(length: int) -> None:
    torch.manual_seed(0)
    tokens = torch.randint(0, 11, (N, length))
    engine = agrees(Tied(), tokens)
    assert len(engine.parameters) == 4


def test_a_tie_between_two_linear_layers() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 1))
    net[2].weight = net[0].weight
    agrees(net, images(5))


class Branches(nn.Module):
    """Several first layers, a residual connection, an output that the loss ignores."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)
        self.unused, self.off = nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, x):
        h = self.a(x) + self.b(x).relu_() + x
        self.off(h)
        with torch.no_grad():
            scale = self.c(h)
        return self.c(h) + 0.0 * scale


def test_branches_unused_layers_and_no_grad() -> None:
    torch.manual_seed(0)
    agrees(Branches(), images(4))


@pytest.mark.parametrize("seed", range(12))
def test_random_nets(seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)

    def pick(*options):
        return options[int(torch.randint(len(options), (1,), generator=g))]

    channels, side, layers = 2, 8, []
    for _ in range(pick(1, 2, 3)):
        into = pick(4, 6)
        layers += [nn.Conv2d(channels, into, pick(1, 3), pick(1, 2), 1, groups=pick(1, 2))]
        layers += [pick(nn.GroupNorm(2, into), nn.InstanceNorm2d(into, affine=True), nn.Identity())]
        layers += [pick(nn.ReLU(), nn.Tanh(), nn.ReLU(inplace=True), nn.GELU())]
        channels = into
    layers += [nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * channels, 3)]
    net = nn.Sequential(*layers)
    copies = pick(1, 2)
    agrees(net, torch.randn(N * copies, 2, side, side, generator=g), copies=copies)


@pytest.mark.parametrize("groups", [1, 2])
def test_windows_are_the_same_by_places_and_by_strides(monkeypatch, groups: int) -> None:
    layout = conv.Layout((3, 2), (2, 1), (1, 2), (1, 2), groups)
    x, g = images(4, 8, 9), images(6, 4, 11)
    term = conv.Windows(torch.zeros(6, 4 // groups, 3, 2), layout, x, g, 1)
    by_places = term.windows(x)
    wanted = nn.functional.unfold(x, layout.kernel_size, (1, 2), (1, 2), (2, 1))
    assert torch.equal(by_places, wanted)
    monkeypatch.setattr(conv, "_WINDOW_ENTRIES", 1)
    assert torch.equal(term.windows(x), wanted)


CHOICES = {
    "numbers": lambda: torch.randint(0, 4, (N,)),
    "shares": lambda: torch.rand(N, 4).softmax(1),
}


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("target", CHOICES)
def test_cross_entropy(target: str, smoothing: float) -> None:
    torch.manual_seed(1)
    options = {"reduction": "none", "label_smoothing": smoothing}
    weight = torch.tensor([0.5, 1.0, 2.0, 1.5])

    def losses(module, batch):
        x, y = batch
        found = nn.functional.cross_entropy(module(x), y, weight.to(x.dtype), **options)
        one = nn.functional.cross_entropy(module(x)[0], y[0], **options)
        return found + one.reshape(1)

    agrees(nn.Linear(3, 4), (images(3), CHOICES[target]()), losses)


def test_cross_entropy_of_sequences_and_copies() -> None:
    torch.manual_seed(1)
    tokens = torch.randint(0, 4, (2 * N, 6))
    tokens[0, :3] = -100  # left out

    def losses(module, batch):
        x, y = batch
        return nn.functional.cross_entropy(module(x).mT, y, reduction="none").sum(1)

    agrees(nn.Linear(3, 4), (torch.randn(2 * N, 6, 3), tokens), losses, copies=2)


def test_cross_entropy_whose_weight_or_target_is_trained() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 4)
            self.weight, self.target = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(1, 4))

    def losses(module, batch):
        score = module.linear(batch)
        by_target = nn.functional.cross_entropy(score, module.target, reduction="none")
        shares = score.detach().softmax(1)
        return by_target + nn.functional.cross_entropy(
            score, shares, module.weight, reduction="none"
        )

    torch.manual_seed(1)
    agrees(Own(), images(3), losses)


def test_cross_entropy_with_a_reduction_is_left_to_vmap() -> None:
    def losses(module, batch):
        return nn.functional.cross_entropy(module(batch[0]), batch[1]).reshape(1)

    agrees(nn.Linear(3, 4), (images(3), torch.randint(0, 4, (N,))), losses)
