"""Operators whose rule for vmap mixes records: none of them moves another record's gradient."""

import json
import subprocess
import sys
import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the nn extra is not installed")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from helpers import in_fork  # noqa: E402
from noisette.errors import InvalidParameter  # noqa: E402
from noisette.nn.clipping import Flat  # noqa: E402
from noisette.nn.gradients import ClippedGradients, certify, operators  # noqa: E402

torch.set_num_threads(1)

N = 6


def booked(module: Any, losses: Any, x: Any) -> Any:
    """Return the sum of clipped gradients, in double precision."""
    engine = ClippedGradients(module)
    out = torch.zeros(engine.dimension, dtype=torch.float64)
    engine.add(losses, x, len(x), Flat(1.0).factors, out)
    return out


def moved(module: Any, losses: Any, x: Any) -> float:
    """Return by how much more than 1 + 1 the sum moves when one record is replaced."""
    other = x.clone()
    other[-1] = x[-1].flip(-1) * 40.0 + 3.0
    whole = booked(module, losses, x), booked(module, losses, other)
    alone = booked(module, losses, x[-1:]), booked(module, losses, other[-1:])
    return float(((whole[0] - whole[1]) - (alone[0] - alone[1])).norm())


def squared(m: Any, x: Any) -> Any:
    return m(x).flatten(1).square().sum(1)


class Warped(nn.Module):
    """A fixed warp, a convolution that leaves the record axis behind, and a learnt warp."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer, self.where = layer, nn.Linear(16, 8)
        self.register_buffer("grid", torch.rand(1, 4, 4, 2, dtype=torch.float64) * 2.0 - 1.0)

    def forward(self, x: Any) -> Any:
        seen = functional.grid_sample(x, self.grid.expand(len(x), -1, -1, -1), align_corners=False)
        seen = self.layer(seen)
        grid = torch.tanh(self.where(x[:, 0].flatten(1))).view(-1, 2, 2, 2)
        return functional.grid_sample(seen, grid, align_corners=False)


def transposed() -> Any:
    return nn.ConvTranspose2d(2, 3, 3, bias=False)


def normed() -> Any:
    return nn.utils.parametrizations.weight_norm(nn.Conv2d(2, 3, 3, bias=False))


@pytest.mark.parametrize("layer", [transposed, normed])
def test_a_learnt_warp_behind_a_fixed_one(layer: Any) -> None:
    torch.manual_seed(0)
    module = Warped(layer()).double()

    def losses(m: Any, x: Any) -> Any:
        return functional.mse_loss(m(x), x[:, :, :2, :2].sum(1, keepdim=True).expand(-1, 3, -1, -1))

    assert moved(module, losses, torch.randn(N, 2, 4, 4, dtype=torch.float64)) < 1e-9


def interleaved(x: Any) -> Any:
    """Return rows whose records lie between one another in memory."""
    return torch.mv(torch.eye(16, dtype=x.dtype), x[0])


def beyond(x: Any) -> Any:
    return torch.as_strided(interleaved(x), (1, 4), (4, 1))


def copied(x: Any) -> Any:
    return torch.as_strided_copy(interleaved(x), (1, 4), (4, 1))


def filled(x: Any) -> Any:
    return torch.zeros(1, 4, dtype=x.dtype).index_fill(1, torch.tensor([0, 2]), x.mean())


def replaced(x: Any) -> Any:
    """Return rows with entries of others in them: the derivative of this names memory, too."""
    mixed = torch.as_strided_scatter(x, x[0, :4] * 2.0, (4,), (2,), 1)
    return mixed[:, :4]


def inside(x: Any) -> Any:
    """Operators that are not certified, under a vmap of the code's own."""
    rows = torch.vmap(lambda r, v: r.index_fill(0, torch.tensor([0, 2]), v))(
        x.view(4, 4), torch.as_strided(x, (4,), (4,))
    )
    return torch.vmap(lambda r: torch.as_strided(r, (2, 2), (2, 1)), in_dims=1)(rows).view(4, 4)


def forward(x: Any) -> Any:
    return torch.func.jacfwd(torch.sin)(x[0, :4])


@pytest.mark.parametrize("change", [beyond, copied, filled, replaced, inside, forward])
@pytest.mark.filterwarnings("ignore:.*torch.jit.script")
@pytest.mark.filterwarnings("ignore:.*record by record")
def test_operators_that_reach_other_records(change: Any) -> None:
    torch.manual_seed(0)
    module = nn.Linear(4, 3).double()

    def losses(m: Any, x: Any) -> Any:
        h = change(x + m.bias.sum().sin())
        return m(h.sum(0, keepdim=True)).square().sum(1)

    x = torch.randn(N, 16, dtype=torch.float64)
    assert moved(module, losses, x) < 1e-9


def square(x: Any) -> Any:
    return x.view(1, 4, 4)


def image(x: Any) -> Any:
    return x.view(1, 1, 4, 4)


INDEX = torch.tensor([[0, 3, 1, 1]])
EYE = torch.eye(4, dtype=torch.float64)
BATTERY = {
    "affine_grid": lambda x: functional.affine_grid(
        x[:, :6].view(1, 2, 3), [1, 1, 2, 4], align_corners=False
    ),
    "attention": lambda x: functional.scaled_dot_product_attention(*[square(x)] * 3),
    "baddbmm": lambda x: torch.baddbmm(square(x), square(x), EYE.expand(1, 4, 4)),
    "bilinear": lambda x: functional.bilinear(square(x), square(x), EYE.expand(2, 4, 4)),
    "bucketize": lambda x: torch.bucketize(x, torch.linspace(-2, 2, 9, dtype=x.dtype)) * x,
    "cdist": lambda x: torch.cdist(square(x), square(x) + 1.0),
    "channel_shuffle": lambda x: functional.channel_shuffle(x.view(1, 4, 2, 2), 2),
    "cholesky": lambda x: torch.linalg.cholesky(square(x) @ square(x).mT + EYE),
    "conv_transpose": lambda x: functional.conv_transpose2d(image(x), image(x)),
    "corrcoef": lambda x: torch.corrcoef(square(x)[0]),
    "cosine": lambda x: functional.cosine_similarity(square(x), square(x).mT, dim=-1),
    "cross": lambda x: torch.linalg.cross(x[:, :3], x[:, 3:6]),
    "ctc": lambda x: functional.ctc_loss(
        square(x).transpose(0, 1).log_softmax(-1), torch.tensor([[1, 2]]), torch.tensor([4]),
        torch.tensor([2]), reduction="none",
    ),
    "cumsum": lambda x: x.cumsum(1).cummax(1).values.logcumsumexp(1),
    "diag_embed": lambda x: torch.diag_embed(x).diagonal(1, -2, -1),
    "eigh": lambda x: torch.linalg.eigvalsh(square(x) + square(x).mT),
    "einsum": lambda x: torch.einsum("bij,bkj,lk->bil", square(x), square(x), EYE),
    "embedding_bag": lambda x: functional.embedding_bag(INDEX, square(x)[0], mode="sum"),
    "fft": lambda x: torch.fft.rfft2(square(x)).abs() + torch.fft.fftshift(square(x))[..., :3],
    "flip": lambda x: torch.roll(x.flip(1), 3, 1).rot90(1, [0, 1]),
    "fold": lambda x: functional.fold(functional.unfold(image(x), 2), (4, 4), 2),
    "fractional": lambda x: functional.lp_pool2d(image(x).abs() + 0.1, 2.0, 2),
    "gather": lambda x: square(x).gather(1, INDEX.view(1, 1, 4)) + square(x)[:, INDEX[0]],
    "grid3": lambda x: functional.grid_sample(
        x.view(1, 1, 2, 2, 4), torch.tanh(x[:, :12]).view(1, 1, 2, 2, 3), align_corners=True
    ),
    "gumbel": lambda x: functional.softplus(x).logsumexp(1, keepdim=True),
    "index_add": lambda x: torch.zeros(1, 4, dtype=x.dtype).index_add(1, INDEX[0], x[:, :4]),
    "index_put": lambda x: torch.zeros(4, dtype=x.dtype).index_put((INDEX[0],), x[0, :4], True),
    "interpolate": lambda x: functional.interpolate(image(x), scale_factor=2, mode="bicubic"),
    "kron": lambda x: torch.kron(square(x)[0], EYE),
    "lu": lambda x: torch.linalg.lu_factor(square(x) + 9.0 * EYE)[0],
    "masked": lambda x: torch.where(x > 0, x, 0.0).masked_fill(x > 1, 2.0).renorm(2, 0, 3.0),
    "max_pool": lambda x: functional.max_pool2d(image(x), 2)
    + functional.adaptive_avg_pool2d(image(x), 2),
    "max_unpool": lambda x: functional.max_unpool2d(
        *functional.max_pool2d(image(x), 2, return_indices=True), 2
    ),
    "median": lambda x: x.median(1).values + x.quantile(0.3, 1) + x.kthvalue(3, 1).values,
    "norm": lambda x: functional.local_response_norm(image(x), 2),
    "pad": lambda x: functional.pad(image(x), (1, 2, 1, 0), "reflect"),
    "pixel_shuffle": lambda x: functional.pixel_shuffle(x.view(1, 4, 2, 2), 2),
    "polar": lambda x: torch.view_as_real(torch.polar(x.exp(), x)),
    "qr": lambda x: torch.linalg.qr(square(x) + 5.0 * EYE).R,
    "scatter": lambda x: torch.zeros(1, 4, dtype=x.dtype).scatter_add(1, INDEX, x[:, :4])
    + x[:, :4].scatter_reduce(1, INDEX, x[:, 4:8], "amax"),
    "searchsorted": lambda x: torch.searchsorted(x.sort(1).values.detach(), x) * x,
    "solve": lambda x: torch.linalg.solve(square(x) + 9.0 * EYE, square(x)),
    "sort": lambda x: x.sort(dim=1, stable=True).values[:, ::2] + x.topk(8, 1).values,
    "svd": lambda x: torch.linalg.svdvals(square(x)) + torch.linalg.matrix_norm(square(x), 2),
    "stft": lambda x: torch.stft(
        x, 4, 2, window=torch.ones(4, dtype=x.dtype), return_complex=True
    ).abs(),
    "take": lambda x: x.take(INDEX) + x.take_along_dim(INDEX, 1),
    "tensordot": lambda x: torch.tensordot(square(x), EYE, 1) + torch.linalg.matrix_exp(square(x)),
    "trapezoid": lambda x: torch.trapezoid(x).unsqueeze(0) + torch.diff(x) + x.var(1, keepdim=True),
    "unfold": lambda x: x.unfold(1, 4, 3).mean(1),
    "warp": lambda x: functional.grid_sample(
        torch.mv(torch.eye(16, dtype=x.dtype), x[0]).view(1, 1, 4, 4),
        torch.tanh(x[:, :8]).view(1, 2, 2, 2), align_corners=False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BATTERY)
@pytest.mark.filterwarnings("ignore:.*record by record")
def test_nobody_moves_with_another_record(name: str) -> None:
    torch.manual_seed(0)
    module = nn.Linear(16, 16).double()

    def losses(m: Any, x: Any) -> Any:
        h = BATTERY[name](torch.tanh(m(x)) + 0.1 * x)
        return h.square().flatten().sum().view(1)

    x = torch.randn(N, 16, dtype=torch.float64)
    assert moved(module, losses, x) < 1e-9


def of_backward() -> tuple[list[str], list[str]]:
    """Return which rules a forward pass under vmap meets, and which the backward pass does."""
    notes: Any = {}
    x = torch.randn(3, 1, 4, 4, requires_grad=True)
    with certify._noting(notes):
        out = torch.vmap(lambda x: functional.conv2d(x[None], torch.ones(1, 1, 2, 2)).relu().sum())(
            x
        )
        before = list(notes)
        notes.clear()
        out.sum().backward()
    return before, list(notes)


def test_the_backward_pass_meets_no_rule_of_vmap() -> None:
    before, behind = in_fork(of_backward)  # what is noted may stay in the process
    assert "aten::relu" in before
    assert behind == []


def test_an_operator_without_certificate_is_right_and_says_so_once() -> None:
    torch.manual_seed(0)
    module, x = nn.Linear(3, 3).double(), torch.randn(N, 3, dtype=torch.float64)

    def losses(m: Any, x: Any) -> Any:
        return torch.as_strided(m(x), (1, 3), (3, 1)).square().sum(1)

    operators._said.discard("aten::as_strided")
    with pytest.warns(UserWarning, match="runs record by record: right, and slow"):
        found = booked(module, losses, x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(found, booked(module, losses, x))
    assert torch.allclose(found, booked(module, squared, x))


def test_torchs_own_vmap_is_left_alone() -> None:
    booked(nn.Linear(2, 1), squared, torch.randn(3, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seen = torch.vmap(lambda x: torch.as_strided(x, (2,), (1,)))(torch.ones(3, 4))
    assert seen.shape == (3, 2)


def test_a_release_of_torch_without_certificate_is_refused_with_the_command(
    monkeypatch: Any, tmp_path: Any
) -> None:
    monkeypatch.setattr(operators, "RELEASE", "9.9.9")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(InvalidParameter, match=r"python -m noisette.nn.gradients.certify"):
        operators.take_over.__wrapped__()


SLICE = {"nn.functional.grid_sample", "index_fill", "as_strided"}


def test_a_slice_of_the_certificate_is_found_again() -> None:
    found = in_fork(lambda: certify.certify(certify.noted(lambda name: name in SLICE), 3))
    kept = json.loads(operators.certificate_file().read_text())
    assert "aten::grid_sampler_2d" in found["in_front"]
    assert "aten::grid_sampler_2d" in kept["in_front"]
    assert {"aten::as_strided", "aten::index_fill.int_Tensor"} <= {*found["not"]} & {*kept["not"]}
    assert "aten::mul.Tensor" in found["certified"]
    # Fewer calls find fewer faults: nothing is better in the file than it is here.
    assert set(kept["certified"]).isdisjoint({*found["in_front"], *found["not"]})


@pytest.mark.slow
def test_the_certificate_is_made_by_one_command(tmp_path: Any) -> None:
    file = tmp_path / "found.json"
    command = operators.COMMAND.split()[1:]
    subprocess.run([sys.executable, *command, "--file", str(file)], check=True)
    found, kept = (json.loads(f.read_text()) for f in (file, operators.certificate_file()))
    assert found == kept
