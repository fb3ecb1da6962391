"""Banded noise: the factorisation it claims, what one record moves, and where it is proven."""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the nn extra is not installed")

from torch import nn  # noqa: E402

from noisette import accounting, mechanisms, sampling  # noqa: E402
from noisette.core.adjacency import Adjacency  # noqa: E402
from noisette.core.plans import Plan, Repeat, Sampled  # noqa: E402
from noisette.errors import Unproven  # noqa: E402
from noisette.fitting.algorithms import passage  # noqa: E402
from noisette.fitting.algorithms.correlation import Banded, square_root_band  # noqa: E402
from noisette.nn import PrivateTraining  # noqa: E402

torch.set_num_threads(1)

N, D = 20, 3
X = torch.linspace(-1.0, 2.0, N * D).mul(9.0).cos().view(N, D)


def losses(module: Any, batch: Any) -> Any:
    return module(batch).sum(1)


def plan_of(sampler: Any, uses: int, relation: str = "zero-out") -> Plan:
    return Repeat(Sampled(mechanisms.Gaussian(2.0), sampler), uses).under(relation)


def private(module: nn.Module, plan: Plan, **options: Any) -> PrivateTraining:
    given: dict[str, Any] = {"size": N, "delta": 1e-5} | options
    return PrivateTraining(module, torch.optim.SGD(module.parameters(), lr=1.0), plan, **given)


def test_the_square_root_band_is_the_root_of_the_prefix_sums() -> None:
    c = square_root_band(30)
    C = sum(np.diag(np.full(30 - k, c[k]), -k) for k in range(30))
    assert np.allclose(C @ C, np.tril(np.ones((30, 30))))


@pytest.mark.parametrize("band", [1, 3, 5])
def test_banded_noise_is_the_inverse_band_times_white_noise(band: int) -> None:
    rng = np.random.default_rng(0)
    sums, white, T = rng.normal(size=(12, 4)), rng.normal(size=(12, 4)), 12
    queue, bounds = iter(white), []

    def door(bounded: Any) -> np.ndarray:
        bounds.append(bounded.contribution)
        return bounded.value + next(queue)

    noise = Banded(band)
    out = np.array([noise(x.copy(), 0.5, Adjacency.ZERO_OUT, door) for x in sums])
    c = square_root_band(band)
    C = sum(np.diag(np.full(T - k, c[k]), -k) for k in range(band))
    assert np.allclose(out, sums + np.linalg.solve(C, white))
    assert np.allclose(bounds, 0.5 * np.linalg.norm(c))


@pytest.mark.parametrize("band", [1, 4, 5])
def test_one_record_moves_the_banded_queries_by_what_is_charged(band: int) -> None:
    """BANDED-MF: the shifts of all queries, over their noise, add up to E / z^2 exactly."""
    epochs, batches, z = 3, 5, 2.0
    plan = Repeat(Sampled(mechanisms.Gaussian(z), sampling.Cyclic(batches)), epochs)
    queries: list[list[np.ndarray]] = []
    for sign in (1.0, 0.0):
        values: list[np.ndarray] = []
        noise = Banded(band)

        def door(bounded: Any, values: list[np.ndarray] = values) -> np.ndarray:
            values.append(bounded.value / (z * bounded.contribution))
            return bounded.value

        for step in range(epochs * batches):
            total = np.zeros(3)
            if step % batches == 2:  # the record's batch; its gradient has the clip norm
                total[0] = sign
            noise(total, 1.0, Adjacency.ZERO_OUT, door)
        queries.append(values)
    shift = np.concatenate(queries[0]) - np.concatenate(queries[1])
    mu = float(np.linalg.norm(shift))
    charged = accounting.epsilon(plan, delta=1e-5, adjacency="zero-out")
    exact = accounting.epsilon(mechanisms.Gaussian(1.0 / mu), delta=1e-5, adjacency="zero-out")
    assert exact <= charged * (1 + 1e-3)
    assert exact >= charged * 0.97


def test_a_banded_run_is_the_dense_factorisation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole loop against numpy: queries C x, and gradients x + C^-1 (noise)."""
    white = np.random.default_rng(1).normal(size=(15, D))
    asked: list[np.ndarray] = []

    def door(bounded: Any, *args: Any, **kwargs: Any) -> np.ndarray:
        asked.append(np.array(bounded.value, copy=True))
        return np.asarray(bounded.value + white[len(asked) - 1])

    monkeypatch.setattr(passage, "release", door)
    module, rows = nn.Linear(D, 1, bias=False).double(), X.double()
    banded = private(module, plan_of(sampling.Cyclic(5), 3), band=4, clip_norm=0.7)
    sums, moves, before = [], [], module.weight.detach().clone()
    for chosen in banded.batches():
        x = rows[chosen]
        sums.append((x * (0.7 / x.norm(dim=1, keepdim=True)).clamp(max=1.0)).sum(0).numpy())
        banded.step(losses, x)
        after = module.weight.detach().clone()
        moves.append((before - after).numpy().ravel() * banded.normaliser)
        before = after
    c = [1.0, 1 / 2, 3 / 8, 5 / 16]
    C = sum(np.diag(np.full(15 - k, c[k]), -k) for k in range(4))
    assert np.allclose(asked, C @ np.array(sums), atol=1e-5)
    assert np.allclose(moves, np.array(sums) + np.linalg.solve(C, white), atol=1e-5)


def test_banded_noise_only_where_it_is_proven() -> None:
    cyclic = plan_of(sampling.Cyclic(5), 4)
    with pytest.raises(Unproven, match="cyclic"):
        private(nn.Linear(D, 1), plan_of(sampling.Poisson(0.2), 4), band=2)
    with pytest.raises(Unproven, match="longer than the 5 batches"):
        private(nn.Linear(D, 1), cyclic, band=6)
    with pytest.raises(Unproven, match="fixed clip_norm"):
        private(nn.Linear(D, 1), cyclic, band=2, clipping="adaptive")
