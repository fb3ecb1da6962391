"""Convolutions in one, two and three dimensions: stride, padding, dilation, groups, all modes.

A convolution is a linear layer on windows: a_t is the window under output position t.
"""

import math
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from noisette.nn.gradients.base import Pass, rule
from noisette.nn.gradients.rounding import gamma, squares, working
from noisette.nn.gradients.terms import Dense, Outer, Term, chunks, zeroed

_WINDOW_ENTRIES = 1 << 19  # windows are copies of the input: keep them near the processor


class Layout(NamedTuple):
    """How the windows of a convolution lie in its input."""

    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int


class Windows(Term):
    """Gradients of a convolution's weight, kept as the (padded) input x and the cotangent g.

    `x` is (rows, channels, *space), `g` is (rows, p, *positions), example i owns `copies` rows.
    """

    def __init__(self, weight: Tensor, layout: Layout, x: Tensor, g: Tensor, copies: int) -> None:
        self.parameter, self.layout = weight, layout
        self.x, self.g, self.copies = working(x), working(g), copies
        self.size = x.shape[0] // copies
        self._places: Tensor | None = None
        self._entries = weight[0].numel() * layout.groups * math.prod(g.shape[2:])  # of a row

    def windows(self, x: Tensor) -> Tensor:
        """Return the windows of some rows of x, shape (rows, channels * kernel, T)."""
        sides = [side for width in reversed(self.layout.padding) for side in (width, width)]
        x = functional.pad(x, sides)
        if self._entries > _WINDOW_ENTRIES:
            return unfold(x, self.layout)
        if self._places is None:  # where windows are small, two to three times as fast as a copy
            numbers = torch.arange(x[0].numel(), device=x.device).view(1, *x.shape[1:])
            self._places = unfold(numbers, self.layout)[0]
        taken = x.flatten(1).index_select(1, self._places.view(-1))
        return taken.view(len(x), *self._places.shape)

    def factors(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """Return a (n, d, T) and g (n, p / groups, T), where n counts examples times groups."""
        rows, n = slice(start * self.copies, stop * self.copies), stop - start
        a, g = self.windows(self.x[rows]), self.g[rows].flatten(2)
        a, g = (x.view(n, self.copies, *x.shape[1:]).movedim(1, 2).flatten(2) for x in (a, g))
        shape = n * self.layout.groups, -1, g.shape[2]
        return a.reshape(shape), g.reshape(shape)

    def runs(self) -> Any:
        """Cut the examples so that their windows stay small."""
        return chunks(self.size, self._entries * self.copies, _WINDOW_ENTRIES)

    def rows(self, start: int, stop: int) -> Tensor:
        """Return the gradients of a slice of the examples."""
        a, g = self.factors(start, stop)
        return torch.bmm(g, a.transpose(1, 2)).view(stop - start, *self.parameter.shape)

    def dense(self) -> Dense:
        """Return the same with the gradients formed."""
        made = self.x.new_empty(self.size, *self.parameter.shape)
        for start, stop in self.runs():
            a, g = self.factors(start, stop)
            torch.bmm(g, a.transpose(1, 2), out=made[start:stop].view(len(g), -1, a.shape[1]))
        return Dense(self.parameter, made)

    def squares(self) -> Tensor:
        """Return the Gram form with its allowance, group by group."""
        found = []
        for start, stop in self.runs():
            a, g = self.factors(start, stop)
            outer = Outer(self.parameter, a.transpose(1, 2), g.transpose(1, 2))
            found.append(outer.squares().view(stop - start, -1).sum(1))
        return torch.cat(found)

    def add_weighted(self, factors: Tensor, out: Tensor) -> None:
        """Add the gradient of the weight for cotangents multiplied by the factors."""
        at, space = self.layout, self.x.dim() - 2
        scale = factors.to(self.g.dtype).repeat_interleave(self.copies)
        g = self.g * scale.view(-1, *[1] * (space + 1))
        out += torch.ops.aten.convolution_backward(
            g, self.x, self.parameter, None, at.stride, at.padding, at.dilation, False, [0] * space,
            at.groups, [False, True, False],
        )[1]  # fmt: skip

    def error(self) -> Tensor:
        """Return 2 gamma_{T + 2} ||a|| ||g||, where no entry of x is in more than K windows."""
        K = math.prod(self.layout.kernel_size)
        T = math.prod(self.g.shape[2:]) * self.copies
        a, g = squares(self.x.reshape(self.size, -1)) * K, squares(self.g.reshape(self.size, -1))
        return torch.sqrt(a * g) * (2.0 * gamma(T + 2, self.x.dtype))

    def without(self, bad: Tensor) -> "Windows":
        """Return the term with zero rows for `bad`."""
        bad = bad.repeat_interleave(self.copies)
        x, g = zeroed(self.x, bad), zeroed(self.g, bad)
        return Windows(self.parameter, self.layout, x, g, self.copies)


def unfold(x: Tensor, layout: Layout) -> Tensor:
    """Return the windows of a padded x, shape (rows, channels * kernel, T), by a strided copy."""
    x, out, within, between = x.contiguous(), [], [], []
    for axis, (size, stride, _, dilation) in enumerate(zip(*layout[:4], strict=True), 2):
        out.append((x.shape[axis] - dilation * (size - 1) - 1) // stride + 1)
        within.append(x.stride(axis) * dilation)
        between.append(x.stride(axis) * stride)
    view = x.as_strided(
        (*x.shape[:2], *layout.kernel_size, *out), (*x.stride()[:2], *within, *between),
        x.storage_offset(),
    )  # fmt: skip
    return view.reshape(len(x), x.shape[1] * math.prod(layout.kernel_size), math.prod(out))


def _tuple(value: Any, count: int) -> tuple[int, ...]:
    found = (value,) if isinstance(value, int) else tuple(value)
    return found * count if len(found) == 1 else found


def _follow(call: Any, count: int, record: Pass, input: Tensor, weight: Tensor,
            bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
            groups: int = 1) -> Any:  # fmt: skip
    """Follow out = W * x + b."""
    (w, b), fixed = record.sorted_out(weight, bias)
    if not record.constant(weight, bias) or (w is None and b is None):
        return NotImplemented
    x, kernel, dilation = record.replaced(input), tuple(weight.shape[2:]), _tuple(dilation, count)
    if padding == "same":
        sides = [(d * (k - 1) // 2, d * (k - 1) - d * (k - 1) // 2)
                 for d, k in zip(dilation, kernel, strict=True)]  # fmt: skip
        x = functional.pad(x, [side for pair in reversed(sides) for side in pair])
    padding = (0,) * count if isinstance(padding, str) else _tuple(padding, count)
    layout = Layout(kernel, _tuple(stride, count), padding, dilation, groups)
    single = input.dim() == count + 1

    def terms(a: Tensor, g: Tensor) -> Iterator[Term]:
        copies, a = 1 if single else g.shape[1], record.spread(a)
        if not single:  # several images of each record
            a, g = a.flatten(0, 1), g.flatten(0, 1)
        if w is not None:
            term = Windows(w, layout, a, g, copies)
            kept = copies * (a[0].numel() + g[0].numel())
            # Formed gradients serve the norms and the sum; the Gram form needs less memory.
            yield term.dense() if w.numel() <= 2 * kept else term
        if b is not None:
            sums = g.flatten(2).sum(2)
            yield Dense(b, sums.view(-1, copies, sums.shape[1]).sum(1) if copies > 1 else sums)

    return record.tap(lambda x: call(x, *fixed, *layout[1:]), x, terms, merged=1 if single else 2)


for _count, _call in enumerate((functional.conv1d, functional.conv2d, functional.conv3d), 1):
    rule(_call)(partial(_follow, _call, _count))
