"""Records are kept apart in whatever runs: every attack is refused, or has no effect.

"No effect" is measured: the norms and the sum are those of a plain loop over batches of one, and
changing one record leaves everybody else's norm as it was.
"""

import copy
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the nn extra is not installed")

from gradient_oracle import one_by_one, squared  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.nn.utils import prune  # noqa: E402

from noisette.errors import InvalidParameter  # noqa: E402
from noisette.nn.clipping import Flat  # noqa: E402
from noisette.nn.gradients import ClippedGradients, check_module  # noqa: E402

torch.set_num_threads(1)

N, D = 8, 4
X = torch.linspace(-1.0, 2.0, N * D).mul(9.0).cos().view(N, D)
Y = torch.arange(N) % 3


def added(module: Any, losses: Any, batch: Any, size: int = N, C: float = 1e9) -> tuple[Any, Any]:
    engine = ClippedGradients(module)
    out = torch.zeros(engine.dimension, dtype=torch.float64)
    return engine.add(losses, batch, size, Flat(C).factors, out), out


def alone(module: Any, losses: Any = squared, batch: Any = X) -> None:
    """Check that the result is that of batches of one; nobody hears of a changed record."""
    rows = one_by_one(module, losses, batch, N)
    norms, out = added(module, losses, batch)
    assert torch.allclose(norms, rows.norm(dim=1), rtol=1e-4)
    assert torch.allclose(out, rows.sum(0), rtol=1e-4, atol=1e-6)
    other = torch.utils._pytree.tree_map(lambda x: x.clone(), batch)
    first = other[0] if isinstance(other, tuple) else other
    first[0] = first[0] * 3.0 + 5.0 if first.is_floating_point() else first[1]
    changed, moved = added(module, losses, other)
    assert torch.equal(changed[1:], norms[1:])
    own = one_by_one(module, losses, other, N)[0] - rows[0]
    assert torch.allclose(moved - out, own, rtol=1e-4, atol=1e-5)


def refused(module: Any, losses: Any, text: str, batch: Any = X, here: bool = True) -> None:
    with pytest.raises(InvalidParameter, match=text) as told:
        added(module, losses, batch)
    if here:
        assert f"in {__file__}, line " in str(told.value)


class Net(nn.Module):
    """A linear layer with something done to its input, or its output."""

    def __init__(self, before: Any = None, after: Any = None) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(D, D), nn.Linear(D, 3)
        self.before, self.after = before or (lambda m, x: x), after or (lambda m, x: x)

    def forward(self, x: Any) -> Any:
        return self.last(self.after(self, torch.tanh(self.first(self.before(self, x)))))


# --- what mixes records has nobody to mix with --------------------------------------------------


def by_length(module: Any, x: Any) -> Any:
    """Sort rows by length, and put them back wrongly where some are short."""
    order = x.abs().sum(1).argsort()
    return x[order]


MIXES: dict[str, Any] = {
    "sort": lambda m, x: x.sort(0)[0],
    "by length": by_length,
    "centre": lambda m, x: x - x.mean(0),
    "centre unseen": lambda m, x: x - x.detach().mean(0),
    "batch statistics": lambda m, x: (x - x.mean(0)) / (x.var(0, correction=0) + 1.0).sqrt(),
    "roll": lambda m, x: 0.5 * x + 0.5 * x.roll(1, 0),
    "partner": lambda m, x: 0.3 * x + 0.7 * x[torch.randperm(len(x))],
    "cumsum": lambda m, x: x.cumsum(0),
    "flip": lambda m, x: x.flip(0),
    "gram": lambda m, x: (x @ x.t()).softmax(1) @ x,
    "outliers": lambda m, x: x / x.norm(dim=1).max(),
    "norm of the batch": lambda m, x: x / (1.0 + x.norm()),
    "gather": lambda m, x: x.gather(0, torch.zeros_like(x).long()),
    "index": lambda m, x: x[:1] + x,
    "max over the batch": lambda m, x: x - x.amax(0),
    "attention over the batch": lambda m, x: functional.scaled_dot_product_attention(x, x, x),
}


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("name", MIXES)
def test_a_module_that_mixes_its_rows_has_one_row(name: str, place: str) -> None:
    """Sorting booked gradients under others: the sum moved by 21 C with 64 records."""
    torch.manual_seed(0)
    alone(Net(**{place: MIXES[name]}))


def plain(module: Any, batch: Any) -> Any:
    return functional.cross_entropy(module(batch[0]), batch[1], reduction="none")


def balanced(module: Any, batch: Any) -> Any:
    counts = functional.one_hot(batch[1], 3).sum(0)
    return plain(module, batch) / counts[batch[1]]


LOSSES: dict[str, Any] = {
    "mean": lambda m, b: plain(m, b).mean(),
    "hugging face": lambda m, b: functional.cross_entropy(m(b[0]), b[1]),
    "balanced": balanced,
    "divided": lambda m, b: plain(m, b) / len(b[1]),
    "hard": lambda m, b: plain(m, b) * (plain(m, b) / plain(m, b).mean()).detach(),
    "softmax over records": lambda m, b: plain(m, b) * plain(m, b).softmax(0),
    "mixup": lambda m, b: plain(m, (0.5 * b[0] + 0.5 * b[0].roll(1, 0), b[1])),
    "other labels": lambda m, b: plain(m, (b[0], b[1].roll(1))),
    "standardised": lambda m, b: plain(m, (b[0] - b[0].mean(0), b[1])),
    "weight decay": lambda m, b: plain(m, b) + m.weight.square().sum() + m.bias.norm(),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_that_look_at_the_batch_see_one_record(name: str) -> None:
    torch.manual_seed(0)
    alone(nn.Linear(D, 3), LOSSES[name], (X, Y))


def test_mixing_that_begins_later_has_no_effect_either() -> None:
    """It was tried on the first batch, and mixing switched on after it went unseen."""
    torch.manual_seed(0)
    module = Net()
    engine = ClippedGradients(module)
    for step in range(3):
        rows = one_by_one(module, squared, X, N)
        out = torch.zeros(engine.dimension, dtype=torch.float64)
        engine.add(squared, X, N, Flat(1e9).factors, out)
        assert torch.allclose(out, rows.sum(0), rtol=1e-4, atol=1e-6)
        module.before = MIXES["centre"] if step == 0 else MIXES["outliers"]


def test_a_shared_mask_is_never_cut_into_records() -> None:
    """A (T, T) mask with T = batch size was given out row by row: 71 % wrong, silently."""
    torch.manual_seed(0)
    mask = torch.triu(torch.full((N, N), -5.0), 1)

    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(D))

        def forward(self, x: Any, shared: Any) -> Any:
            return (x @ x.transpose(1, 2) + shared).softmax(2) @ (x * self.scale)

    x = torch.randn(N, N, D)
    alone(Masked(), lambda m, b: (m(b, mask) - 0.3).square().sum((1, 2)), x)


# --- what Python may not know -------------------------------------------------------------------

READS: dict[str, tuple[Any, str]] = {
    "item": (lambda m, x: x * x.max().item(), "value into Python"),
    "float": (lambda m, x: x * float(x.mean()), "value into Python"),
    "if": (lambda m, x: x if (x > 0).all() else -x, "value into Python"),
    "equal": (lambda m, x: x * torch.equal(x, x), "value into Python"),
    "tolist": (lambda m, x: x * x.tolist()[0][0], "out of torch"),
    "numpy": (lambda m, x: x * x.detach().numpy().max(), "out of torch"),
    "asarray": (lambda m, x: x + torch.from_numpy(np.asarray(x)), "out of torch"),
    "data": (lambda m, x: x * x.data.max(), "out of torch"),
    "deepcopy": (lambda m, x: copy.deepcopy(x), "out of torch"),
    "boolean index": (lambda m, x: x * x[x > 0].mean(), "size depends"),
    "nonzero": (lambda m, x: x * len(x.nonzero()), "size depends"),
    "unique": (lambda m, x: x * len(x.unique()), "size depends"),
    "bincount": (lambda m, x: x * len(x[0].abs().long().bincount()), "size depends"),
    "print": (lambda m, x: x * len(repr(x)), "prints a record"),
    "format": (lambda m, x: x * len(f"{x}"), "prints a record"),
    "hook": (lambda m, x: (m.first(x).register_hook(lambda g: g / g.abs().max()), x)[1], "hooks"),
    "backward": (lambda m, x: (m.first(x).sum().backward(), x)[1], "takes gradients"),
    "grad": (lambda m, x: torch.autograd.grad(m.first(x).sum(), x)[0], "takes gradients"),
    "generator": (lambda m, x: x[: int(torch.randint(1, (1,)))], "value into Python"),
}


@pytest.mark.parametrize("size", [1, N])
@pytest.mark.parametrize("name", READS)
def test_a_record_is_not_read_into_python(name: str, size: int) -> None:
    before, text = READS[name]
    with pytest.raises(InvalidParameter, match=text) as told:
        added(Net(before), squared, X[:size], size)
    assert f"in {__file__}, line " in str(told.value)


def test_every_operator_whose_size_depends_on_values_is_refused() -> None:
    """With one record in the batch vmap would run some of them: Python would see the size."""
    calls = {
        "repeat_interleave": lambda x: x.repeat_interleave(x[0].abs().long() + 1, 1),
        "masked_select": lambda x: x.masked_select(x > 0),
        "argwhere": lambda x: x.argwhere(),
        "where": lambda x: torch.where(x > 0),
        "unique_consecutive": lambda x: x.unique_consecutive(),
        "one_hot": lambda x: functional.one_hot(x.abs().long()),
        "lstsq": lambda x: torch.linalg.lstsq(x.t(), x.t()),
        "split": lambda x: torch.tensor_split(x, x[0].abs().long(), 1),
        "packed": lambda x: nn.utils.rnn.pack_padded_sequence(
            x.unsqueeze(2), x[:, 0].abs().long() + 1, batch_first=True
        ),
    }
    for name, call in calls.items():

        def before(m: Any, x: Any, call: Any = call) -> Any:
            return call(x) and x

        try:
            added(Net(before), squared, X[:1], 1)
        except (InvalidParameter, RuntimeError):
            continue
        pytest.fail(name)


def jittered(m: Any, x: Any) -> Any:
    """Factor x'x - c, with more on the diagonal if that fails: one record decided for all."""
    square = x.mT @ x - m.first.bias.detach().abs().mean() + 0.1 * torch.eye(D)
    try:
        factor = torch.linalg.cholesky(square + x.abs().amax() * torch.eye(D))
    except RuntimeError:
        factor = torch.linalg.cholesky(square + 9.0 * torch.eye(D))
    return x @ factor


def test_an_error_that_is_caught_does_not_speak_of_a_record() -> None:
    torch.manual_seed(0)
    alone(Net(jittered))
    broken = X.clone()
    broken[3] = -1e-3
    refused(Net(jittered), squared, "failed and the code caught it", broken)


# --- what would see all records -----------------------------------------------------------------


class Rescaled(torch.autograd.Function):
    """A backward pass that divides by a number of the whole batch: 30 C with 64 records."""

    @staticmethod
    def forward(x: Any) -> Any:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g / g.abs().max()

    @staticmethod
    def vmap(info: Any, axes: Any, x: Any) -> Any:
        return x / x.abs().max(), axes[0]


class Old(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g / g.abs().max()


class Generated(torch.autograd.Function):
    generate_vmap_rule = True
    forward, setup_context, backward = Rescaled.forward, Rescaled.setup_context, Rescaled.backward


@torch.library.custom_op("noisette_tests::scaled", mutates_args=())
def scaled(x: torch.Tensor) -> torch.Tensor:
    return x / x.abs().max()


@scaled.register_vmap
def _scaled(info: Any, axes: Any, x: Any) -> Any:
    return x / x.abs().max(), axes[0]


class Peeks(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class Mine(torch.Tensor):
    pass


def peeking(m: Any, x: Any) -> Any:
    with Peeks():
        return x * 2.0


def packing(m: Any, x: Any) -> Any:
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t / t.abs().max(), lambda t: t):
        return m.first(x).square()


def checkpointed(reentrant: bool) -> Any:
    from torch.utils.checkpoint import checkpoint

    return lambda m, x: checkpoint(m.first, x, use_reentrant=reentrant)


def triplet(m: Any, x: Any) -> Any:
    kept: list[Any] = []
    return functional.triplet_margin_with_distance_loss(
        x, x, x, distance_function=lambda a, b: (kept.append(a), (a - b).sum(1))[1]
    )


WHOLE: dict[str, tuple[Any, str]] = {
    "function with a vmap of its own": (lambda m, x: Rescaled.apply(x), "Rescaled"),
    "function": (lambda m, x: Old.apply(x), "autograd.Function"),
    "function with a generated vmap": (lambda m, x: Generated.apply(x), "Generated"),
    "operator": (lambda m, x: scaled(x), "not torch's own"),
    "dispatch mode": (peeking, "dispatch mode"),
    "saved tensors": (packing, "hooks on saved tensors"),
    "checkpoint": (checkpointed(False), "gradient checkpointing"),
    "checkpoint, reentrant": (checkpointed(True), "autograd.Function"),
    "subclass": (lambda m, x: x.as_subclass(Mine) * 2.0, "subclass of Tensor"),
    "function handed on": (triplet, "function of its own"),
}


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("name", WHOLE)
def test_what_would_see_all_records_is_refused(name: str, place: str) -> None:
    change, text = WHOLE[name]
    refused(Net(**{place: change}), squared, text)


def test_saved_tensors_hooks_around_a_step_are_refused() -> None:
    with (
        torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t),
        pytest.raises(InvalidParameter, match="saved tensors"),
    ):
        added(Net(), squared, X)
    added(Net(), squared, X)


def test_a_step_inside_a_transform_or_mode_is_refused() -> None:
    with Peeks(), pytest.raises(InvalidParameter, match="inside another"):
        added(Net(), squared, X)
    module = Net()
    with pytest.raises(InvalidParameter, match="inside another"):
        torch.vmap(lambda x: (added(module, squared, X), x)[1])(X)


HOOKS: dict[str, Any] = {
    "backward": lambda m: m.first.register_full_backward_hook(lambda *a: None),
    "before": lambda m: m.first.register_full_backward_pre_hook(lambda *a: None),
    "parameter": lambda m: m.first.weight.register_hook(lambda g: g / g.abs().max()),
    "accumulated": lambda m: m.first.weight.register_post_accumulate_grad_hook(lambda p: None),
    "all": lambda m: nn.modules.module.register_module_full_backward_hook(lambda *a: None),
}


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("name", HOOKS)
def test_hooks_on_gradients_are_refused(name: str, late: bool) -> None:
    """A hook that divides by the largest gradient of the batch: 30 C with 64 records."""
    module = Net()
    engine = ClippedGradients(module) if late else None
    handle = HOOKS[name](module)
    try:
        with pytest.raises(InvalidParameter, match="hook"):
            (engine or ClippedGradients(module)).add(
                squared, X, N, Flat(1.0).factors, torch.zeros(35)
            )
    finally:
        handle.remove()


def test_forward_hooks_run_for_one_record() -> None:
    torch.manual_seed(0)
    module = Net()
    module.first.register_forward_hook(lambda layer, args, out: out - out.mean(0) + out)
    module.last.register_forward_pre_hook(lambda layer, args: (args[0] + 1.0,))
    alone(module)


# --- memories -----------------------------------------------------------------------------------


class RunningMeanStd:
    """An object that normalises by what it has seen: one outlier showed in 6 of 6 runs."""

    def __init__(self) -> None:
        self.mean, self.count = torch.zeros(D), 0

    def update(self, x: Any) -> None:
        self.count += 1
        self.mean = self.mean + (x.detach().mean(0) - self.mean) / self.count


LIST: list[Any] = []
CELL = RunningMeanStd()


def grown(m: Any, x: Any) -> Any:
    LIST.append(x.detach())
    return x


def attribute(m: Any, x: Any) -> Any:
    m.cache = {"last": [x.detach()]}
    return x


def remembered(m: Any, x: Any) -> Any:
    CELL.update(x)
    return x - CELL.mean


def on_a_function(m: Any, x: Any) -> Any:
    on_a_function.last = m.first(x)  # type: ignore[attr-defined]
    return x


def in_a_cycle(m: Any, x: Any) -> Any:
    loop: list[Any] = [x * 1.0]
    loop.append(loop)
    return x


def on_a_tensor(m: Any, x: Any) -> Any:
    m.first.weight.memo = x * 1.0
    return x


KEEPS: dict[str, tuple[Any, str]] = {
    "list": (grown, "keeps a record's values"),
    "attribute": (attribute, "keeps a record's values"),
    "object": (remembered, "'mean' of RunningMeanStd"),
    "function": (on_a_function, "'last' of on_a_function"),
    "tensor": (on_a_tensor, "keeps a record's values"),
    "output": (lambda m, x: (setattr(m, "last_seen", x), x)[1], "'last_seen' of Net"),
}


@pytest.mark.parametrize("size", [1, N])
@pytest.mark.parametrize("name", KEEPS)
def test_what_outlives_the_pass_is_refused(name: str, size: int) -> None:
    """Losses that remembered through a list or an object moved the next batch by 127 C."""
    before, text = KEEPS[name]
    with pytest.raises(InvalidParameter, match=text):
        added(Net(before), squared, X[:size], size)
    LIST.clear()
    CELL.mean = torch.zeros(D)
    on_a_function.__dict__.clear()


def test_a_cycle_that_nobody_holds_is_collected() -> None:
    alone(Net(in_a_cycle))


def test_a_tensor_of_an_earlier_pass_does_not_enter_the_next() -> None:
    """Also when the earlier pass failed, so that nobody looked what it kept."""
    kept: list[Any] = []

    def fails(m: Any, x: Any) -> Any:
        kept.append(x * 1.0)
        raise KeyError("on purpose")

    def uses(m: Any, x: Any) -> Any:
        return x + kept[0]

    with pytest.raises(KeyError):
        added(Net(fails), squared, X)
    refused(Net(uses), squared, "kept from another batch")


def affine(x):  # no annotations: TorchScript reads them
    return x * 2.0 + 1.0


@pytest.mark.filterwarnings("ignore")
def test_script_functions_are_refused_since_nobody_sees_what_they_return() -> None:
    scripted = torch.jit.script(affine)
    refused(Net(lambda m, x: scripted(x)), squared, "TorchScript")
    kept: list[Any] = []
    keeping = Net(lambda m, x: (kept.append(scripted(x)), x)[1])
    refused(keeping, squared, "keeps a record's values", here=False)
    refused(Net(lambda m, x: scripted(kept[0])), squared, "TorchScript")
    # A transform of the user's own makes tensors that nobody saw either.
    doubled = torch.vmap(lambda v: v * 2.0)
    refused(Net(lambda m, x: doubled(x) + kept[0]), squared, "earlier pass", here=False)


class Writes(nn.Module):
    def __init__(self, way: Any) -> None:
        super().__init__()
        self.layer, self.way = nn.Linear(D, 3), way
        self.frozen = nn.Parameter(torch.zeros(D), requires_grad=False)
        self.register_buffer("seen", torch.zeros(D))
        self.plain = torch.zeros(D)
        self.scalar = torch.zeros(())

    def forward(self, x: Any) -> Any:
        self.way(self, x.detach())
        return self.layer(x)


WRITES: dict[str, Any] = {
    "buffer": lambda m, x: m.seen.mul_(0.9).add_(x.mean(0)),
    "operator": lambda m, x: m.seen.__iadd__(x.mean(0)),
    "attribute": lambda m, x: m.plain.copy_(x[0]),
    "item": lambda m, x: m.plain.__setitem__(0, x.mean()),
    "scalar": lambda m, x: m.scalar.copy_(x.mean()),
    "data": lambda m, x: m.seen.data.lerp_(x[0], 0.5),
    "parameter": lambda m, x: m.frozen.data.add_(x[0]),
    "trainable": lambda m, x: m.layer.weight.data.add_(x.mean()),
    "out": lambda m, x: torch.add(x[0], 1.0, out=m.plain),
    "put": lambda m, x: m.plain.index_put_((torch.tensor([0]),), x.mean()),
    "foreach": lambda m, x: torch._foreach_add_([m.plain], [x[0]]),
    "set data": lambda m, x: setattr(m.plain, "data", x[0]),
    "aten": lambda m, x: torch.ops.aten.add_(m.plain, x[0]),
    "swap": lambda m, x: torch.utils.swap_tensors(m.plain, x[0]),
    "batch norm": lambda m, x: functional.batch_norm(
        x.unsqueeze(2).expand(-1, -1, 3), m.seen, m.plain, training=True
    ),
    "nested": lambda m, x: torch.vmap(lambda v: m.scalar.add_(v))(x[0]),
}


@pytest.mark.parametrize("size", [1, N])
@pytest.mark.parametrize("name", WRITES)
def test_nothing_of_a_record_is_written_to_what_records_share(name: str, size: int) -> None:
    """A running mean in a plain tensor was not refused; also not with one record in the batch."""
    module = Writes(WRITES[name])
    before = [module.seen.clone(), module.plain.clone(), module.scalar.clone()]
    with pytest.raises((InvalidParameter, RuntimeError)):
        added(module, squared, X[:size], size)
    assert torch.equal(module.seen, before[0])
    assert torch.equal(module.plain, before[1])
    assert torch.equal(module.scalar, before[2])
    assert not module.frozen.any()


@pytest.mark.parametrize("name", ["buffer", "attribute", "item", "scalar", "data", "out", "aten"])
def test_a_write_is_refused_with_its_line(name: str) -> None:
    refused(Writes(WRITES[name]), squared, "same for all records")
    with pytest.raises(InvalidParameter) as told:
        added(Writes(WRITES[name]), squared, X)
    assert told.value.__cause__ is None  # found before torch was asked to do it


def test_a_buffer_that_is_replaced_or_counts_is_refused() -> None:
    def replaces(m: Any, x: Any) -> None:
        m.seen = m.seen + x.mean(0)

    refused(Writes(replaces), squared, "'seen' of Writes", here=False)
    refused(Writes(lambda m, x: m.seen.add_(1.0)), squared, "changes the buffer", here=False)


COUNTS: dict[str, Any] = {
    "buffer": lambda m: m.seen.data.add_(1.0),
    "a new one": lambda m: setattr(m.seen, "data", m.seen + 1.0),
    "kept small": lambda m: m.layer.weight.data.clamp_(-0.1, 0.1),
    "decay": lambda m: m.layer.weight.data.mul_(0.9),
    "by name": lambda m: torch.Tensor.data.__get__(m.layer.weight).mul_(0.9),
}


@pytest.mark.parametrize("name", COUNTS)
def test_a_pass_leaves_no_trace_in_weights_by_their_data(name: str) -> None:
    """Which is not in their version. A step has as many passes as records ask for, or none."""
    with pytest.raises(InvalidParameter, match=r"changes the|replaces the data"):
        added(Writes(lambda m, x: COUNTS[name](m)), squared, X)


def test_constants_are_read_by_their_data() -> None:
    added(Net(lambda m, x: x * m.first.weight.data.abs().mean()), squared, X)


def test_python_may_count_and_keep_constants() -> None:
    class Counts:
        calls, history, table = 0, [0.0], None

        def __call__(self, module: Any, x: Any) -> Any:
            self.calls += 1
            self.history.append(float(self.calls))
            self.table = torch.arange(4.0)
            return squared(module, x) * (0.5**self.calls) + 0.0 * self.table.sum()

    loss = Counts()
    check_module(nn.Linear(D, 3), loss, X, N)
    check_module(nn.Linear(D, 3), loss, X, N)
    assert loss.calls == 2


def test_rows_that_share_memory_do_not_meet_in_it() -> None:
    """Windows of one series overlap: a change in place of one would reach the next."""
    torch.manual_seed(0)
    series = torch.arange(20.0).cos()

    def losses(module: Any, batch: Any) -> Any:
        x, y = batch
        x = x.sub_(x.mean())
        y += 1.0
        return (module(x) - y[:, :1]).square().sum(1)

    def fresh() -> tuple[Any, Any]:
        return series.clone().unfold(0, D, 1)[:N], series.clone().unfold(0, D, 1)[1 : N + 1]

    module = nn.Linear(D, 3)
    apart = tuple(x.contiguous() for x in fresh())
    expected = one_by_one(module, losses, apart, N)
    norms, _ = added(module, losses, fresh())
    assert torch.allclose(norms, expected.norm(dim=1), rtol=1e-4)

    def shifted(module: Any, batch: Any) -> Any:
        x, y = batch
        x.mul_(2.0)  # the next record's y, if both are parts of one series
        return (module(x.expand(1, D)) - y).square().sum(1)

    whole = series.clone()[: N + 1].unsqueeze(1)
    apart = whole[:-1].clone(), whole[1:].clone()
    expected = one_by_one(module, shifted, apart, N)
    norms, _ = added(module, shifted, (whole[:-1], whole[1:]))
    assert torch.allclose(norms, expected.norm(dim=1), rtol=1e-4)


# --- parameters that nobody could follow --------------------------------------------------------


def test_a_tensor_made_from_a_parameter_before_the_pass_is_refused() -> None:
    module = Net()
    twice = module.last.weight * 2.0
    refused(
        module, lambda m, x: squared(m, x) + (m.first(x) @ twice.t()).sum(1), "'last.weight'",
        here=False,
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_a_pruned_layer_is_refused() -> None:
    """Its weight is no parameter: it used to be trained by noise alone, without a word."""
    layer = nn.Linear(4, 3)
    prune.random_unstructured(layer, "weight", 0.3)
    with pytest.raises(InvalidParameter, match="pruning"):
        ClippedGradients(nn.Sequential(layer))
    prune.remove(layer, "weight")
    ClippedGradients(nn.Sequential(layer))


def test_a_compiled_part_is_refused_with_what_to_do() -> None:
    module = nn.Sequential(nn.Linear(D, D), torch.compile(nn.Linear(D, 3), backend="eager"))
    with pytest.raises(InvalidParameter, match="pass the module inside it"):
        ClippedGradients(module)


def test_batch_norm_is_a_constant_in_evaluation_mode_only() -> None:
    torch.manual_seed(0)
    backbone = nn.Sequential(nn.Linear(D, 6), nn.BatchNorm1d(6), nn.ReLU())
    with torch.no_grad():
        backbone(torch.randn(50, D))
    backbone.eval().requires_grad_(False)
    module = nn.Sequential(backbone, nn.Linear(6, 3))
    alone(module)
    backbone[1].requires_grad_(True)
    alone(module)
    engine = ClippedGradients(module)
    module.train()
    with pytest.raises(InvalidParameter, match="statistics of a batch"):
        engine.add(squared, X, N, Flat(1.0).factors, torch.zeros(engine.dimension))


def test_gradients_inside_the_losses_by_torch_func() -> None:
    """A penalty on the input's gradient: a transform of the user's own, inside the pass."""
    torch.manual_seed(0)

    def losses(module: Any, x: Any) -> Any:
        slope = torch.func.grad(lambda v: module(v).square().sum())(x)
        return squared(module, x) + slope.square().sum(1)

    alone(nn.Sequential(nn.Linear(D, 5), nn.Tanh(), nn.Linear(5, 1)), losses)
    alone(Net(lambda m, x: torch.vmap(lambda v: v * 2.0)(x)))
