"""Convolutions in one, two and three dimensions: stride, padding, dilation, groups, all modes.

A convolution is a linear layer on windows: a_t is the window under output position t.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from noisette.nn.gradients.base import Kind, Pass, register
from noisette.nn.gradients.rounding import gamma, squares, working
from noisette.nn.gradients.terms import Dense, Outer, Term, chunks

__all__ = ["Conv", "Windows"]

_WINDOW_ENTRIES = 1 << 19  # windows are copies of the input: keep them near the processor


class Windows(Term):
    """Gradients of a convolution's weight, kept as the (padded) input x and the cotangent g.

    `x` is (rows, channels, *space), `g` is (rows, p, *positions), example i owns `copies` rows.
    """

    def __init__(
        self, module: Any, x: Tensor, g: Tensor, padding: tuple[int, ...], copies: int
    ) -> None:
        self.parameter, self.module = module.weight, module
        self.x, self.g, self.padding, self.copies = working(x), working(g), padding, copies
        self.size = x.shape[0] // copies

    def factors(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """Return a (n, d, T) and g (n, p / groups, T), where n counts examples times groups."""
        rows, groups, n = (
            slice(start * self.copies, stop * self.copies),
            self.module.groups,
            stop - start,
        )
        a, g = unfold(self.x[rows], self.module, self.padding), self.g[rows].flatten(2)
        if self.copies > 1:
            a = a.view(n, self.copies, *a.shape[1:]).movedim(1, 2).flatten(2)
            g = g.view(n, self.copies, *g.shape[1:]).movedim(1, 2).flatten(2)
        T = g.shape[2]
        return a.reshape(n * groups, -1, T), g.reshape(n * groups, -1, T)

    def runs(self) -> Any:
        """Cut the examples so that their windows stay small."""
        positions = math.prod(self.g.shape[2:])
        entries = self.parameter[0].numel() * self.module.groups * positions * self.copies
        return chunks(self.size, entries, _WINDOW_ENTRIES)

    def rows(self, start: int, stop: int) -> Tensor:
        """Return the gradients of a slice of the examples."""
        a, g = self.factors(start, stop)
        return torch.bmm(g, a.transpose(1, 2)).view(stop - start, *self.parameter.shape)

    def dense(self) -> Dense:
        """Return the same with the gradients formed."""
        made = self.x.new_empty(self.size, *self.parameter.shape)
        for start, stop in self.runs():
            a, g = self.factors(start, stop)
            into = made[start:stop].view(len(g), -1, a.shape[1])
            torch.bmm(g, a.transpose(1, 2), out=into)
        return Dense(self.parameter, made)

    def squares(self) -> Tensor:
        """Return the Gram form with its allowance, group by group."""
        found = []
        for start, stop in self.runs():
            a, g = self.factors(start, stop)
            outer = Outer(self.parameter, a.transpose(1, 2), g.transpose(1, 2))
            found.append(outer.squares().view(stop - start, -1).sum(1))
        return torch.cat(found)

    def weighted(self, factors: Tensor) -> Tensor:
        """Return the gradient of the weight for cotangents multiplied by the factors."""
        m, space = self.module, self.x.dim() - 2
        scale = factors.to(self.g.dtype).repeat_interleave(self.copies)
        g = self.g * scale.view(-1, *[1] * (space + 1))
        found: Tensor = torch.ops.aten.convolution_backward(
            g, self.x, m.weight, None, m.stride, self.padding, m.dilation, False, [0] * space,
            m.groups, [False, True, False],
        )[1]  # fmt: skip
        return found

    def error(self) -> Tensor:
        """Return 2 gamma_{T + 2} ||a|| ||g||, where no entry of x is in more than K windows."""
        K = math.prod(self.module.kernel_size)
        T = math.prod(self.g.shape[2:]) * self.copies
        a, g = squares(self.x.reshape(self.size, -1)) * K, squares(self.g.reshape(self.size, -1))
        found: Tensor = (a * g).sqrt() * (2.0 * gamma(T + 2, self.x.dtype))
        return found

    def without(self, bad: Tensor) -> "Windows":
        """Return the term with zero rows for `bad`."""
        bad = bad.repeat_interleave(self.copies).view(-1, *[1] * (self.x.dim() - 1))
        x, g = self.x.masked_fill(bad, 0.0), self.g.masked_fill(bad, 0.0)
        return Windows(self.module, x, g, self.padding, self.copies)


def unfold(x: Tensor, module: Any, padding: tuple[int, ...]) -> Tensor:
    """Return the windows of x, shape (rows, channels * kernel, T).

    One strided copy: faster than torch's own im2col, and the same for any number of axes.
    """
    kernel, stride, dilation = module.kernel_size, module.stride, module.dilation
    x = functional.pad(x, [side for width in reversed(padding) for side in (width, width)])
    x = x.contiguous()
    space = range(len(kernel))
    step = x.stride()
    out = [(x.shape[2 + i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i in space]
    within = [step[2 + i] * dilation[i] for i in space]
    between = [step[2 + i] * stride[i] for i in space]
    view = x.as_strided(
        (*x.shape[:2], *kernel, *out), (*step[:2], *within, *between), x.storage_offset()
    )
    return view.reshape(x.shape[0], x.shape[1] * math.prod(kernel), math.prod(out))


@register(nn.Conv1d, nn.Conv2d, nn.Conv3d)
class Conv(Kind):
    """out = W * x + b."""

    def forward(self, record: Pass, module: Any, input: Tensor) -> Tensor:
        """Run the layer, recorded."""
        x, padding = input, module.padding
        if module.padding_mode != "zeros" or padding == "same":
            mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
            x = functional.pad(x, module._reversed_padding_repeated_twice, mode=mode)
            padding = "valid"
        if padding == "valid":
            padding = (0,) * len(module.kernel_size)
        bias = None if module.bias is None else module.bias.detach()
        call = (functional.conv1d, functional.conv2d, functional.conv3d)[
            len(module.kernel_size) - 1
        ]

        def compute() -> Tensor:
            return call(
                x,
                module.weight.detach(),
                bias,
                module.stride,
                padding,
                module.dilation,
                module.groups,
            )

        def terms(a: Tensor, g: Tensor) -> Iterator[Term]:
            return _terms(record, module, padding, a, g)

        return record.tap(compute, x.detach(), terms)


def _terms(
    record: Pass, module: Any, padding: tuple[int, ...], x: Tensor, g: Tensor
) -> Iterator[Term]:
    weight, bias, copies = module.weight, module.bias, record.copies
    if weight.requires_grad:
        term = Windows(module, x, g, padding, copies)
        kept = copies * (x[0].numel() + g[0].numel())
        # Formed gradients serve the norms and the sum; the Gram form needs less memory.
        yield term.dense() if weight.numel() <= 2 * kept else term
    if bias is not None and bias.requires_grad:
        sums = g.flatten(2).sum(2)
        yield Dense(bias, sums.view(record.size, copies, -1).sum(1) if copies > 1 else sums)
