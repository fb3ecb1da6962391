"""Overflow, underflow and shortened products: the clip norm holds all the same."""

import pytest

torch = pytest.importorskip("torch", reason="the nn extra is not installed")

from sixteen_rows import D, N, X, losses, private  # noqa: E402
from torch import nn  # noqa: E402

from noisette.errors import InvalidParameter  # noqa: E402
from noisette.nn.clipping import Automatic, Flat  # noqa: E402
from noisette.nn.gradients import ClippedGradients  # noqa: E402
from noisette.nn.gradients.rounding import gamma, squares  # noqa: E402
from noisette.nn.gradients.terms import Outer, Shift, Vectors, measure  # noqa: E402

torch.set_num_threads(1)


def test_a_gram_sum_that_falls_to_minus_infinity_is_no_zero() -> None:
    """One row of the Gram sum overflowed downwards; the norm came out 46 times too small."""
    T, p = 100, 64
    sizes = torch.full((T,), 5e19 / (T - 1))
    sizes[0] = -1.5e19
    a = torch.full((1, T, p), 1e10 / p**0.5)
    g = (sizes / 1e10 / p**0.5).view(1, T, 1).expand(1, T, p)
    true = torch.einsum("itp,itd->ipd", g.double(), a.double()).norm()
    assert float(Outer(torch.zeros(p, p), a, g).squares().sqrt()) >= float(true)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_norms_taken_together_have_each_its_own_allowance(dtype: torch.dtype) -> None:
    """Layers of 4,000, 3 and 5,000 inputs, the last beyond what is summed at once."""
    made = torch.Generator().manual_seed(0)
    given = {
        d: (torch.randn(6, 1, d, generator=made, dtype=dtype), torch.randn(6, 1, 2, dtype=dtype))
        for d in (4000, 3, 5000)
    }
    given[3][0][0], given[3][0][1], given[3][1][2] = torch.inf, torch.nan, 1e30
    terms = [Outer(torch.zeros(2, d), a, Vectors(g)) for d, (a, g) in given.items()]
    shift = Shift(torch.zeros(2), terms[1].cotangent)
    measure([*terms, shift])
    for term in terms:
        alone = squares(term.a) * squares(term.g)
        assert torch.equal(term.squares().nan_to_num(-1.0), alone[:, 0].nan_to_num(-1.0))
    assert torch.equal(shift.squares(), squares(terms[1].g)[:, 0])
    true = given[4000][0].double().square().sum((1, 2)) * given[4000][1].double().square().sum(
        (1, 2)
    )
    allowed = 1.0 + 2.0 * gamma(4004, dtype)  # the worst case; half of it is the least that is safe
    assert torch.all(terms[0].squares() / true > (1.0 + allowed) / 2.0)


@pytest.mark.parametrize("C", [1.4e-5, 2e-5, 1e-4])
def test_a_factor_that_underflows_does_not_lift_the_contribution(C: float) -> None:
    """Inputs near 1e38 of a layer with one input made f g subnormal: 1.9 times the clip norm."""
    module = nn.Linear(1, 4096, bias=False)
    nn.init.zeros_(module.weight)  # the loss stays finite
    engine = ClippedGradients(module)
    out = torch.zeros(engine.dimension)
    engine.add(
        lambda module, x: module(x).sum(1) * (1e-12 / 64),
        torch.full((1, 1), 3e38), 1, Flat(C).factors, out,
    )  # fmt: skip
    assert float(out.double().norm()) <= C


@pytest.mark.parametrize("C", [1e-30, 1e30])
def test_clip_norms_beyond_single_precision_are_told(C: float) -> None:
    with pytest.raises(InvalidParameter, match="clip_norm must lie"):
        private(nn.Linear(D, 1), clip_norm=C)


def test_a_vanishing_gamma_gives_finite_factors() -> None:
    """A gradient of 0 had the factor infinity, and their product is NaN for the whole batch."""
    module = nn.Linear(D, 1).double()
    training = private(module, clipping=Automatic(1.0, gamma=1e-200))
    rows = torch.zeros(N, D, dtype=torch.float64)
    for chosen in training.batches():
        training.step(lambda module, x: 0.0 * module(x).sum(1), rows[chosen])
    assert all(p.isfinite().all() for p in module.parameters())


@pytest.mark.parametrize("kind", ["matmul", "conv"])
def test_every_way_to_shorten_products_is_refused(kind: str) -> None:
    setting = getattr(torch.backends.mkldnn, kind, None)
    if not hasattr(setting, "fp32_precision"):
        pytest.skip("this PyTorch has one setting only")
    engine = ClippedGradients(nn.Linear(D, 1))
    try:
        setting.fp32_precision = "bf16"
        with pytest.raises(InvalidParameter, match="ieee"):
            engine.add(losses, X, N, Flat(1.0).factors, torch.zeros(engine.dimension))
    finally:
        setting.fp32_precision = "none"
