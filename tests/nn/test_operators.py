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

from noisette.errors import InvalidParameter  # noqa: E402
from noisette.nn.gradients import ClippedGradients, certify, factors, operators  # noqa: E402

torch.set_num_threads(1)

N = 6


def booked(module: Any, losses: Any, x: Any) -> Any:
    """Return the sum of clipped gradients, in double precision."""
    engine = ClippedGradients(module)
    out = torch.zeros(engine.dimension, dtype=torch.float64)
    engine.add(losses, x, len(x), factors.flat(1.0), out)
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


@pytest.mark.parametrize("change", [beyond, copied, filled])
@pytest.mark.filterwarnings("ignore:.*record by record")
def test_operators_that_reach_other_records(change: Any) -> None:
    torch.manual_seed(0)
    module = nn.Linear(4, 3).double()

    def losses(m: Any, x: Any) -> Any:
        h = change(x)
        return m(h.expand(1, 4)).square().sum(1)

    x = torch.randn(N, 16, dtype=torch.float64)
    assert moved(module, losses, x) < 1e-9


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


SLICE = {"nn.functional.grid_sample", "index_fill", "as_strided", "sort", "matmul"}


def test_a_slice_of_the_certificate_is_found_again() -> None:
    found = certify.certify(certify.noted(lambda name: name in SLICE), 4)
    assert "aten::grid_sampler_2d" in found["in_front"]
    assert "aten::bmm" in found["certified"]
    kept = json.loads(operators.certificate_file().read_text())
    assert set(found["certified"]) - {"aten::view"} <= {*kept["certified"], *kept["in_front"]}
    assert "aten::index_fill.int_Tensor" in found["not"]


@pytest.mark.slow
def test_the_certificate_is_made_by_one_command(tmp_path: Any) -> None:
    file = tmp_path / "found.json"
    command = operators.COMMAND.split()[1:]
    subprocess.run([sys.executable, *command, "--file", str(file)], check=True)
    assert file.read_text() == operators.certificate_file().read_text()
