"""What a hostile reader of the networks tried: mixing losses, memories, kills, bad input."""

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the nn extra is not installed")

from gradient_oracle import agrees  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.nn.utils import prune  # noqa: E402

from noisette.errors import InvalidParameter  # noqa: E402
from noisette.nn import check_module  # noqa: E402
from noisette.nn.gradients import ClippedGradients  # noqa: E402
from noisette.nn.gradients.independence import compare_losses  # noqa: E402

torch.set_num_threads(1)

# --- losses and modules that mix examples ----------------------------------------------------

X6 = torch.linspace(-1.0, 2.0, 24).cos().view(6, 4)
Y6 = torch.tensor([0, 0, 0, 1, 1, 2])


def plain(module: Any, batch: Any) -> Any:
    return functional.cross_entropy(module(batch[0]), batch[1], reduction="none")


def standardised(module: Any, batch: Any) -> Any:
    x = batch[0]
    return plain(module, ((x - x.mean(0)) / x.std(0), batch[1]))


def balanced(module: Any, batch: Any) -> Any:
    weight = 1.0 / torch.bincount(batch[1], minlength=3).clamp(min=1)
    return plain(module, batch) * weight[batch[1]]


def divided(module: Any, batch: Any) -> Any:
    return plain(module, batch) / len(batch[1])


def hard(module: Any, batch: Any) -> Any:
    found = plain(module, batch)
    return found * (found / found.mean()).detach()


def mixed(module: Any, batch: Any) -> Any:
    """Mixup with random shares: no value can be compared, but gradients can."""
    x, y = batch
    share = 0.3 + 0.4 * torch.rand(())
    return plain(module, (share * x + (1 - share) * x.roll(1, 0), y))


@pytest.mark.parametrize("losses", [standardised, balanced, divided, hard, mixed])
def test_losses_that_look_at_the_batch_are_found(losses: Any) -> None:
    torch.manual_seed(0)
    with pytest.raises(InvalidParameter, match="losses give an example another loss"):
        compare_losses(losses, nn.Linear(4, 3), (X6, Y6), 6, 1)


def test_honest_losses_pass() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 3))

    def noisy(module: Any, batch: Any) -> Any:
        return plain(module, (batch[0] + torch.rand_like(batch[0]), batch[1]))

    def twice(module: Any, batch: Any) -> Any:
        x, y = batch[0].repeat_interleave(2, 0), batch[1].repeat_interleave(2)
        return plain(module, (x, y))

    def by_numpy(module: Any, batch: Any) -> Any:
        return plain(module, (torch.from_numpy(batch[0].numpy() * 2), batch[1]))

    for losses in (plain, noisy, by_numpy):
        compare_losses(losses, net, (X6, Y6), 6, 1)
    compare_losses(twice, net, (X6, Y6), 6, 2)
    compare_losses(plain, net, (X6, Y6), 3, 2)
    assert net.training
    assert net[0].training


class Normal(nn.Module):
    """Batch normalisation by hand: alone, an example has no spread and gives NaN."""

    def __init__(self, detach: bool, only_training: bool) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 5), nn.Linear(5, 3)
        self.detach, self.only_training = detach, only_training

    def forward(self, x: Any) -> Any:
        h = self.a(x)
        of = h.detach() if self.detach else h
        if self.training or not self.only_training:
            h = (h - of.mean(0)) / of.var(0, correction=0).sqrt()
        return self.b(h)


@pytest.mark.parametrize("detach", [True, False])
@pytest.mark.parametrize("only_training", [True, False])
def test_hand_made_batch_normalisation_is_found(detach: bool, only_training: bool) -> None:
    torch.manual_seed(0)
    with pytest.raises(InvalidParameter, match="mixes examples"):
        check_module(Normal(detach, only_training), plain, (X6, Y6), 6)


class Keeps(nn.Module):
    def __init__(self, way: str) -> None:
        super().__init__()
        self.a, self.way = nn.Linear(4, 3), way
        self.frozen = nn.Parameter(torch.zeros(4), requires_grad=False)
        self.register_buffer("seen", torch.zeros(4))
        self.table: Any = None

    def forward(self, x: Any) -> Any:
        if self.way == "buffer":
            self.seen.data.mul_(0.9).add_(x.detach().mean(0))
        elif self.way == "parameter":
            self.frozen.data.mul_(0.9).add_(x.detach().mean(0))
        elif self.way == "new parameter":
            self.frozen = nn.Parameter(x.detach().mean(0), requires_grad=False)
        elif self.way == "attribute":
            self.cache = {"last": [x.detach()]}
        elif self.way == "constant" and self.table is None:
            self.table = torch.arange(4.0)
        return self.a(x)


@pytest.mark.parametrize(
    ("way", "text"),
    [("buffer", "buffer 'seen'"), ("parameter", "parameter 'frozen'"),
     ("new parameter", "parameter 'frozen'"), ("attribute", "keeps 'cache'")],
)  # fmt: skip
def test_what_a_module_keeps_is_found(way: str, text: str) -> None:
    with pytest.raises(InvalidParameter, match=text):
        check_module(Keeps(way), plain, (X6, Y6), 6)


def test_a_table_that_is_made_at_the_first_call_is_no_memory() -> None:
    check_module(Keeps("constant"), plain, (X6, Y6), 6)


def test_a_pruned_layer_is_refused() -> None:
    """Its weight is no parameter: it used to be trained by noise alone, without a word."""
    layer = nn.Linear(4, 3)
    prune.random_unstructured(layer, "weight", 0.3)
    with pytest.raises(InvalidParameter, match="pruning"):
        ClippedGradients(nn.Sequential(layer))
    prune.remove(layer, "weight")
    ClippedGradients(nn.Sequential(layer))


def test_a_hook_runs_once_around_a_general_layer() -> None:
    torch.manual_seed(0)
    gate = nn.PReLU(4)
    gate.register_forward_hook(lambda module, args, out: out * 2.0)
    gate.register_forward_pre_hook(lambda module, args: (args[0] + 1.0,))
    agrees(nn.Sequential(gate, nn.Linear(4, 3)), torch.randn(5, 4))
