"""Random graphs of torch's operations, half of them made to mix records: nobody hears of another.

The user's code sees a batch of one, so an operation along the batch axis has nobody to mix with;
what reaches around that is refused. "Accepted" therefore means: `add` returned. For every accepted
graph it is checked that
  * norms and sum are those of a plain loop over batches of one,
  * changing one record leaves every other record's norm as it was, and moves the sum by that
    record's own change alone,
  * nothing of an earlier batch is left: a used module answers like a fresh one.
No graph may fail this, and of the graphs that do not mix at most 5 % may be refused.
"""

import copy
import random
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the nn extra is not installed")

from gradient_oracle import one_by_one  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from noisette.errors import InvalidParameter  # noqa: E402
from noisette.nn.clipping import Flat  # noqa: E402
from noisette.nn.gradients import ClippedGradients  # noqa: E402

torch.set_num_threads(1)

N, T, W = 4, 3, 4
Op = Callable[[Any, Any], Any]


def back(h: Any, x: Any) -> Any:
    """Return h in the shape of x (batch, T, W), which every operation keeps."""
    return h.reshape(x.shape) if h.numel() == x.numel() else h.expand_as(x)


# Every operation is a function of the module `m` and of h, shape (batch, T, W).
APART: dict[str, Op] = {
    "linear": lambda m, h: m.linear(h),
    "linear twice": lambda m, h: m.linear(torch.tanh(m.linear(h))),
    "matmul": lambda m, h: h @ m.matrix,
    "matmul left": lambda m, h: m.left @ h,
    "einsum": lambda m, h: torch.einsum("ntw,wv->ntv", h, m.matrix),
    "addmm": lambda m, h: back(torch.addmm(m.row, h.reshape(-1, W), m.matrix), h),
    "scale": lambda m, h: h * m.row,
    "shift in place": lambda m, h: (h * 1.0).add_(m.row),
    "clone and set": lambda m, h: m.set_first(h),
    "norm": lambda m, h: m.norm(h),
    "rms": lambda m, h: functional.rms_norm(h, (W,), m.row),
    "groups": lambda m, h: m.groups(h),
    "conv": lambda m, h: m.conv(h),
    "conv folded": lambda m, h: back(m.fold(h.reshape(-1, 1, W)), h),
    "attention": lambda m, h: m.attention(h, h, h, need_weights=False)[0],
    "product attention": lambda m, h: functional.scaled_dot_product_attention(h, m.linear(h), h),
    "gru": lambda m, h: m.gru(h)[0],
    "relu in place": lambda m, h: (m.linear(h)).relu_(),
    "softmax": lambda m, h: h.softmax(2),
    "sort features": lambda m, h: h.sort(2)[0],
    "cumsum in time": lambda m, h: h.cumsum(1),
    "roll in time": lambda m, h: h.roll(1, 1),
    "gather in time": lambda m, h: h.gather(1, h.argsort(1)),
    "mean in time": lambda m, h: h - h.mean(1, keepdim=True),
    "top": lambda m, h: back(h.topk(1, 2)[0], h),
    "where": lambda m, h: torch.where(h > 0, h, 0.1 * h),
    "masked": lambda m, h: h.masked_fill(h < -1.0, 0.0),
    "clamp": lambda m, h: h.clamp(-1.0, 1.0),
    "outer": lambda m, h: (h @ h.transpose(1, 2)).softmax(2) @ h,
    "permute": lambda m, h: back(h.transpose(1, 2).contiguous(), h),
    "detach": lambda m, h: h + h.detach().tanh(),
    "no grad": lambda m, h: m.unseen(h),
    "pad": lambda m, h: functional.pad(h, (1, 0))[:, :, :W],
    "unfold": lambda m, h: back(h.unfold(2, 2, 2), h),
    "cat": lambda m, h: torch.cat([h, m.token.expand(len(h), 1, W)], 1)[:, 1:],
    "stack": lambda m, h: torch.stack([h, m.linear(h)]).mean(0),
    "split": lambda m, h: torch.cat(h.split(2, 2)[::-1], 2),
    "chunk": lambda m, h: torch.cat(h.chunk(T, 1)[::-1], 1),
    "flip": lambda m, h: h.flip(1),
    "norm of a record": lambda m, h: h / (1.0 + h.flatten(1).norm(dim=1))[:, None, None],
    "index table": lambda m, h: h + m.table(h.argmax(2) % 3),
    "shared table": lambda m, h: h + m.table(torch.arange(T).unsqueeze(0)),
    "tied": lambda m, h: h + functional.linear(h, m.table.weight)[..., :1],
    "glu": lambda m, h: functional.glu(torch.cat([h, m.linear(h)], 2)),
    "pool": lambda m, h: back(functional.adaptive_avg_pool1d(h, 1), h),
    "cdist": lambda m, h: h + torch.cdist(h, h + 1.0).mean(2, keepdim=True),
    "inverse": lambda m, h: h + torch.linalg.inv(5.0 * torch.eye(W) + h.mT @ h)[:, :T],
    "new tensor": lambda m, h: m.filled(h),
    "checked shape": lambda m, h: h if h.shape[1] == T and h.dim() == 3 else -h,
}

MIXES: dict[str, Op] = {
    "sort": lambda m, h: h.sort(0)[0],
    "roll": lambda m, h: h + h.roll(1, 0),
    "mean": lambda m, h: h - h.mean(0),
    "mean unseen": lambda m, h: h - h.detach().mean(0, keepdim=True),
    "cumsum": lambda m, h: h.cumsum(0),
    "cumprod": lambda m, h: h.cumprod(0),
    "gather": lambda m, h: h.gather(0, torch.zeros_like(h).long()),
    "gather by value": lambda m, h: h.gather(0, h.argsort(0)),
    "index": lambda m, h: h[h.flatten(1).sum(1).argsort()],
    "partner": lambda m, h: h + h[torch.randperm(len(h))],
    "first": lambda m, h: h + h[:1],
    "gram": lambda m, h: back((h.flatten(1) @ h.flatten(1).t()).softmax(1) @ h.flatten(1), h),
    "batch statistics": lambda m, h: (h - h.mean(0)) / (h.var(0, correction=0) + 1.0).sqrt(),
    "batch norm": lambda m, h: functional.batch_norm(h, None, None, training=True),
    "softmax over records": lambda m, h: h * h.softmax(0),
    "largest": lambda m, h: h / (1.0 + h.abs().max()),
    "amax": lambda m, h: h - h.amax(0),
    "median": lambda m, h: h - h.median(0)[0],
    "folded cumsum": lambda m, h: back(h.reshape(-1, W).cumsum(0), h),
    "folded sort": lambda m, h: back(h.flatten().sort()[0], h),
    "flip": lambda m, h: h.flip(0),
    "attention over records": lambda m, h: functional.scaled_dot_product_attention(
        h.transpose(0, 1), h.transpose(0, 1), h.transpose(0, 1)
    ).transpose(0, 1),
    "lstm over records": lambda m, h: back(m.gru(h.transpose(0, 1))[0].transpose(0, 1), h),
    "conv over records": lambda m, h: (
        h
        + functional.conv1d(h.permute(1, 2, 0), m.matrix.unsqueeze(2).expand(W, W, 1)).permute(
            2, 0, 1
        )
    ),
    "in place": lambda m, h: m.shifted(h),
    "weights from the batch": lambda m, h: functional.linear(h, h.mean((0, 1)).outer(m.row)),
    "item": lambda m, h: h * float(h.mean()),
    "decide": lambda m, h: h if h.sum() > 0 else -h,
    "numpy": lambda m, h: h * float(h.detach().numpy().max()),
    "buffer": lambda m, h: h - m.seen.mul_(0.5).add_(h.detach().mean((0, 1))),
    "attribute": lambda m, h: m.running(h),
    "list": lambda m, h: (m.kept.append(h), h - m.kept[0])[1],
    "hook": lambda m, h: (h.register_hook(lambda g: g / g.abs().max()), h)[1],
    "number kept": lambda m, h: (m.kept.append(h.detach().sum().item()), h * m.kept[0])[1],
    "boolean index": lambda m, h: h - h[h > 0].mean(),
    "size": lambda m, h: h / len(h),
}


class Graph(nn.Module):
    """The operations `names`, one after the other."""

    def __init__(self, names: list[tuple[dict[str, Op], str]]) -> None:
        super().__init__()
        self.names = names
        self.linear, self.conv = nn.Linear(W, W), nn.Conv1d(T, T, 3, padding=1)
        self.fold, self.groups = nn.Conv1d(1, 1, 1), nn.GroupNorm(1, T)
        self.norm, self.gru = nn.LayerNorm(W), nn.GRU(W, W, batch_first=True)
        self.attention = nn.MultiheadAttention(W, 2, batch_first=True)
        self.matrix, self.left = nn.Parameter(torch.randn(W, W)), nn.Parameter(torch.randn(T, T))
        self.row, self.token = nn.Parameter(torch.randn(W)), nn.Parameter(torch.randn(1, 1, W))
        self.table, self.last = nn.Embedding(T, W), nn.Linear(W, 2)
        self.register_buffer("seen", torch.zeros(W))
        self.mean, self.kept = torch.zeros(W, dtype=torch.float64), []

    def set_first(self, h: Any) -> Any:
        h = h.clone()
        h[:, 0] = self.row
        return h

    def filled(self, h: Any) -> Any:
        out = h.new_zeros(h.shape)
        out[:, 1:] = h[:, :-1] * self.row
        return out

    def unseen(self, h: Any) -> Any:
        with torch.no_grad():
            gate = torch.sigmoid(self.linear(h))
        return h * gate

    def shifted(self, h: Any) -> Any:
        h = h * 1.0
        h[1:] += h[:-1]
        return h

    def running(self, h: Any) -> Any:
        self.mean = 0.5 * self.mean + 0.5 * h.detach().mean((0, 1))
        return h - self.mean

    def forward(self, x: Any) -> Any:
        for pool, name in self.names:
            x = x + 0.5 * pool[name](self, x)
        return self.last(x)


def made(seed: int) -> tuple[Graph, bool]:
    """Return a random graph, and whether it was made to mix records."""
    chance, mixing = random.Random(seed), seed % 2 == 1
    names = [(APART, chance.choice(list(APART))) for _ in range(chance.randint(2, 6))]
    if mixing:
        for _ in range(chance.randint(1, 2)):
            pair = MIXES, chance.choice(list(MIXES))
            names.insert(chance.randint(0, len(names)), pair)
    torch.manual_seed(seed)
    return Graph(names).double(), mixing


def losses(module: Any, x: Any) -> Any:
    return (module(x) - 0.3).square().sum((1, 2))


def added(module: Any, x: Any) -> tuple[Any, Any]:
    engine = ClippedGradients(module)
    out = torch.zeros(engine.dimension, dtype=torch.float64)
    return engine.add(losses, x, len(x), Flat(1e9).factors, out), out


def check(module: Graph) -> None:
    """Raise InvalidParameter if the graph is refused, AssertionError if records meet in it."""
    x = torch.randn(N, T, W, dtype=torch.float64)
    fresh = copy.deepcopy(module)
    norms, out = added(module, x)
    rows = one_by_one(copy.deepcopy(fresh), losses, x, N)
    assert torch.allclose(norms, rows.norm(dim=1), rtol=1e-6, atol=1e-9)
    assert torch.allclose(out, rows.sum(0), rtol=1e-6, atol=1e-6 * float(out.abs().max()))
    other = x.clone()
    other[1] = 3.0 * torch.randn(T, W, dtype=torch.float64) + 1.0
    again, moved = added(module, other)  # after another batch
    untouched, _ = added(fresh, other)  # after none
    assert torch.equal(again, untouched)
    keep = torch.arange(N) != 1
    assert torch.allclose(again[keep], norms[keep], rtol=1e-6, atol=1e-9)
    own = one_by_one(copy.deepcopy(fresh), losses, other, N)[1] - rows[1]
    size = 1e-6 * float(out.abs().max() + moved.abs().max())
    assert torch.allclose(moved - out, own, rtol=1e-6, atol=size)


def searched(seeds: range) -> None:
    refused = {True: 0, False: 0}
    for seed in seeds:
        module, mixing = made(seed)
        try:
            check(module)
        except InvalidParameter:
            refused[mixing] += 1
        except AssertionError:
            pytest.fail(f"records meet in graph {seed}: {[name for _, name in module.names]}")
    assert refused[False] <= 0.05 * len(seeds) / 2
    assert refused[True] > 0  # the graphs do reach what must be refused


@pytest.mark.parametrize("name", APART)
def test_what_keeps_records_apart_is_accepted(name: str) -> None:
    torch.manual_seed(1)
    check(Graph([(APART, name)]).double())


def test_sixty_random_graphs() -> None:
    searched(range(60))


@pytest.mark.slow
@pytest.mark.parametrize("start", range(60, 2060, 250))
def test_two_thousand_random_graphs(start: int) -> None:
    searched(range(start, start + 250))
