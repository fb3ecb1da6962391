"""Per-example gradients the slow way: micro-batches of one, plain autograd."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from noisette.nn.clipping import Flat
from noisette.nn.gradients import ClippedGradients

Losses = Callable[[nn.Module, Any], Tensor]


def one_by_one(module: nn.Module, losses: Losses, batch: Any, size: int, copies: int = 1) -> Tensor:
    """Return the gradient of every example, shape (size, dimension), in float64."""
    parameters = [p for p in module.parameters() if p.requires_grad]
    rows = []
    for i in range(size):
        part = tree_map(lambda x, i=i: x[i * copies : (i + 1) * copies], batch)
        loss = losses(module, part).mean()
        found = torch.autograd.grad(loss, parameters, allow_unused=True)
        flat = [
            p.new_zeros(p.numel()) if g is None else g.reshape(-1)
            for p, g in zip(parameters, found, strict=True)
        ]
        rows.append(torch.cat([x.double() for x in flat]))
    return torch.stack(rows)


def squared(module: nn.Module, batch: Any) -> Tensor:
    """A loss of any float output: half its squared distance from 1/3, summed per row."""
    out = module(*batch) if isinstance(batch, tuple) else module(batch)
    out = out[0] if isinstance(out, tuple) else out
    return 0.5 * (out - 1.0 / 3.0).square().flatten(1).sum(1)


def agrees(
    module: nn.Module, batch: Any, losses: Losses = squared, *, size: int = 5, copies: int = 1
) -> ClippedGradients:
    """Compare norms and the clipped sum, in float64 (to 1e-9) and in float32 (to 1e-5).

    In float32 the norms are rounded up by what rounding may have hidden, so they are compared
    one-sided, and the sum with the factors that these norms give. The clip norm is the median
    norm, so that some examples are cut.
    """
    engine = None
    for dtype, exact, above in ((torch.float64, 1e-9, 1e-9), (torch.float32, 1e-5, 2e-3)):
        module.to(dtype)
        batch = tree_map(lambda x, dtype=dtype: x.to(dtype) if x.is_floating_point() else x, batch)
        rows = one_by_one(module, losses, batch, size, copies)
        norms = rows.norm(dim=1)
        C = float(norms.median())
        engine = ClippedGradients(module)
        out = torch.zeros(engine.dimension, dtype=torch.float64)
        before = {n: p.detach().clone() for n, p in module.named_parameters()}
        found = engine.add(losses, batch, size, Flat(C).factors, out, copies=copies)
        assert bool((found >= norms * (1 - exact)).all())
        assert bool((found <= norms * (1 + above) + 1e-15).all()), (found / norms - 1).abs().max()
        total = (rows * Flat(C).factors(found).double()[:, None]).sum(0)
        assert float((out - total).norm()) <= exact * (float(total.norm()) + C)
        assert all(p.grad is None for p in module.parameters())
        assert all(torch.equal(before[n], p) for n, p in module.named_parameters())
        assert not any("forward" in layer.__dict__ for layer in module.modules())
    return engine
