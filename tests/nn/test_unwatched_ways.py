"""Ways around the watch that ordinary code finds: what torch runs where nobody looks.

Each moved the sum, of this batch or of the next, by more than one record may.
"""

import functools
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

N, D = 8, 4
X = torch.linspace(-1.0, 2.0, N * D).mul(9.0).cos().view(N, D)
Y = torch.arange(N) % 3


def total(module: Any, losses: Any, batch: Any, size: int = N) -> Any:
    engine = ClippedGradients(module)
    out = torch.zeros(engine.dimension, dtype=torch.float64)
    engine.add(losses, batch, size, Flat(1.0).factors, out)
    return out


def net() -> Any:
    torch.manual_seed(0)
    return nn.Linear(D, 3)


def through(change: Any) -> Any:
    return lambda m, b: functional.cross_entropy(m(change(b[0])), b[1])


class Running:
    """A distance that remembers, handed to a loss of torch."""

    def __init__(self) -> None:
        self.mean: Any = 0.0

    def __call__(self, a: Any, b: Any) -> Any:
        self.mean = 0.9 * self.mean + (a - b).norm(dim=-1)
        return (a - b).norm(dim=-1) / self.mean


def remembered(a: Any, b: Any, into: dict[str, Any]) -> Any:
    into["mean"] = 0.9 * into.get("mean", 0.0) + (a - b).norm(dim=-1)
    return (a - b).norm(dim=-1) / into["mean"]


@pytest.mark.parametrize("distance", [Running(), functools.partial(remembered, into={})])
def test_callable_objects_are_not_handed_to_torch(distance: Any) -> None:
    def losses(m: Any, b: Any) -> Any:
        z = m(b[0])
        loss = functional.triplet_margin_with_distance_loss
        return loss(z, -z, 2 * z, distance_function=distance)

    with pytest.raises(InvalidParameter, match="hands a function"):
        total(net(), losses, (X, Y))


def test_what_is_written_to_the_batch_does_not_reach_the_caller() -> None:
    state, before = torch.zeros(N, D), X.clone()

    def losses(m: Any, b: Any) -> Any:
        x, h, y = b
        found = functional.cross_entropy(m(x + h), y)
        h.copy_(x)
        x.zero_()
        return found

    total(net(), losses, (X, state, Y))
    assert torch.equal(state, torch.zeros(N, D))
    assert torch.equal(X, before)


@pytest.mark.parametrize("nested", [False, True])
def test_a_parameter_made_of_a_record_does_not_enter_the_next_pass(nested: bool) -> None:
    kept: list[Any] = []

    def change(x: Any) -> Any:
        if nested:
            x = x + 0.0 * torch.func.grad(lambda t: t.square().sum())(x)
        out = x - kept[-1] if kept else x
        kept.append(nn.Parameter(x.clone(), requires_grad=False))
        return out

    engine = ClippedGradients(net())
    out = torch.zeros(engine.dimension)

    def twice() -> None:
        for _ in range(2):
            engine.add(through(change), (X, Y), N, Flat(1.0).factors, out)

    with pytest.raises(InvalidParameter, match="keeps a record's values"):
        twice()


class Delay(nn.Module):
    def __init__(self):  # type: ignore[no-untyped-def]  # TorchScript reads annotations
        super().__init__()
        self.last = torch.zeros(1, 4)

    def forward(self, x):  # type: ignore[no-untyped-def]
        y = x - self.last
        self.last = x.clone()
        return y


@pytest.mark.filterwarnings("ignore")
def test_script_modules_do_not_remember_beside_transforms() -> None:
    delay = torch.jit.script(Delay())

    def change(x: Any) -> Any:
        return delay(x + 0.0 * torch.func.grad(lambda t: t.square().sum())(x))

    with pytest.raises(InvalidParameter, match="TorchScript"):
        total(net(), through(change), (X, Y))


@pytest.mark.parametrize("size", [1, N])
def test_repeats_of_a_record_are_a_size_that_python_would_see(size: int) -> None:
    for call in (
        lambda x: x.repeat_interleave(x[0].abs().long() + 1, 1),
        lambda x: torch.repeat_interleave(x[0].abs().long() + 1),
        lambda x: torch.repeat_interleave(x, dim=1, repeats=x[0].abs().long() + 1),
    ):
        seen: list[int] = []

        def change(x: Any, call: Any = call, seen: Any = seen) -> Any:
            seen.append(call(x).shape[-1])
            return x

        with pytest.raises(InvalidParameter, match="size depends"):
            total(net(), through(change), (X[:size], Y[:size]), size)
        assert not seen
    total(net(), through(lambda x: x.repeat_interleave(2, 1)[:, ::2]), (X, Y))


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: torch.poisson(x.abs()),
        lambda x: torch.binomial(x.abs().ceil(), torch.full_like(x, 0.5)),
        lambda x: torch.distributions.Gamma(x.abs() + 0.1, torch.ones(())).rsample(),
    ],
)
def test_chance_is_not_drawn_as_a_record_asks_for(draw: Any) -> None:
    with pytest.raises(InvalidParameter, match="random numbers"):
        total(net(), through(draw), (X, Y))


@pytest.mark.filterwarnings("ignore:.*record by record")
def test_a_shared_tensor_filled_with_a_records_value_is_its_own() -> None:
    place = torch.arange(D)
    for call in (
        lambda x: torch.zeros(1, D).index_fill(1, place, x.mean()),
        lambda x: torch.index_fill(input=torch.zeros(1, D), dim=1, index=place, value=x.mean()),
        lambda x: x.index_fill(1, place[:2], x.mean()),
    ):
        losses = through(call)
        rows = one_by_one(net(), losses, (X, Y), N)
        rows = rows * (1.0 / rows.norm(dim=1, keepdim=True)).clamp(max=1.0)
        found = total(net(), losses, (X, Y))
        assert torch.allclose(found, rows.sum(0).to(found.dtype), rtol=1e-4, atol=1e-5)


def test_normalize_is_followed() -> None:
    def losses(m: Any, b: Any) -> Any:
        return functional.cross_entropy(3.0 * functional.normalize(m(b[0])), b[1])

    rows = one_by_one(net(), losses, (X, Y), N)
    rows = rows * (1.0 / rows.norm(dim=1, keepdim=True)).clamp(max=1.0)
    found = total(net(), losses, (X, Y))
    assert torch.allclose(found, rows.sum(0).to(found.dtype), rtol=1e-4, atol=1e-5)


def test_losses_without_a_gradient_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="depend on any trainable"):
        total(net(), torch.no_grad()(through(lambda x: x)), (X, Y))
