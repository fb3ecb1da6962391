"""Modules and losses that change while they are trained."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the nn extra is not installed")

from sixteen_rows import D, X, losses, private  # noqa: E402
from torch import nn  # noqa: E402

from noisette.errors import InvalidParameter  # noqa: E402
from noisette.nn.gradients import ClippedGradients  # noqa: E402

torch.set_num_threads(1)


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


# --- memories that begin later ------------------------------------------------------------------


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


FIRST = 4  # calls of the first step: three of them for invented records


class Baseline:
    """Losses less their running mean: the next gradients speak of earlier batches."""

    def __init__(self, way: str) -> None:
        self.way, self.mean, self.calls = way, torch.zeros(()), 0

    def __call__(self, module: Any, x: Any) -> Any:
        self.calls += 1
        found = losses(module, x)
        if self.calls > FIRST and self.way == "number":
            self.mean = 0.9 * self.mean + 0.1 * float(found.detach().mean())
        elif self.calls > FIRST and self.way == "tensor":
            self.mean.mul_(0.9).add_(0.1 * found.detach().mean())
        elif self.calls > FIRST:
            self.mean = 0.9 * self.mean + 0.1 * found.detach().mean()
        return (found - self.mean).square()


@pytest.mark.parametrize("way", ["number", "tensor", "attribute", "module"])
def test_a_memory_that_begins_after_the_first_batch_is_found(way: str) -> None:
    """Only the first batch was tried: what began later was found in a buffer alone."""
    module = Late(FIRST) if way == "module" else nn.Linear(D, 1)
    loss = losses if way == "module" else Baseline(way)
    training = private(module)
    batches = training.batches()
    training.step(loss, X[next(batches)])
    rows = next(batches)
    before = [p.detach().clone() for p in module.parameters()]
    with pytest.raises(InvalidParameter, match=r"into Python|same for all|keeps a record"):
        training.step(loss, X[rows])
    assert all(map(torch.equal, before, module.parameters()))
    assert training.steps_done == 1


def test_losses_may_count_and_follow_a_schedule() -> None:
    training = private(nn.Linear(D, 1))
    weights, calls = [1.0, 0.5, 0.25], itertools.count()
    for rows in training.batches():
        training.step(
            lambda m, x: next(calls) * 0.0 + weights[training.steps_done] * losses(m, x), X[rows]
        )
    assert training.steps_done == 3
    assert next(calls) >= 6  # invented records of the first step are counted, too
