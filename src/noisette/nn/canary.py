"""A canary: invented records, alone and together, tell in a run whether records are kept apart."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from noisette.core.randomness import Randomness
from noisette.errors import InvalidParameter
from noisette.nn.gradients import ClippedGradients
from noisette.nn.gradients.clipped import Losses, mapped_parts

EVERY = 200  # tried at the first step, and then at each one with chance 1 / EVERY
CLOSE = 0.02  # how far a normalised gradient may be from the one that the record has alone
_TRIES = 3  # rounding may once push a record over an edge; mixing shows every time
_AGAIN = 5  # mixing is the same every time; a coin for a whole record often is, too
_CHOSEN = 2  # so many of the records run alone as well


class RunCanary:
    """Stops a run in which a record's gradient is another one in a batch than alone.

    What is tried are invented numbers of the batch's shapes, as many as the public batch size, at
    the weights that were released: a stop tells nothing of any record. proof: NN-CANARY
    """

    def __init__(
        self, gradients: ClippedGradients, size: int, copies: int, source: Randomness
    ) -> None:
        self._gradients, self._size, self._copies = gradients, max(size, _CHOSEN), copies
        self._source = source.generator
        self._begun = self._stopped = self._resting = False
        self._record: Any = None  # nobody's: zeros of the shapes and types of a record

    def step(self, losses: Losses, part: Any, count: int) -> None:
        """Try it now, perhaps, with the shapes of the first `part` that had a `count` above 0."""
        if self._record is None and count:

            def blank(x: Any) -> Tensor:
                rows = torch.as_tensor(x)
                return rows.new_zeros((rows.shape[0] // count, *rows.shape[1:]))

            self._record = mapped_parts(blank, part)
        tails = self._source.integers(EVERY)  # in every step, whether or not it has records
        if self._record is None or (self._begun and tails and not self._stopped):
            return
        self._begun = True
        self._stopped = self._stopped or self._mixed(losses)
        if self._stopped:
            raise InvalidParameter(
                "the canary stopped the run: invented records have other gradients in a batch than "
                "alone, so that a record would move those of others, and the guarantee does not "
                "hold; send us the module. (No record has a part in this: numbers were drawn for "
                "it, and the weights are released.)"
            )

    def _mixed(self, losses: Losses) -> bool:
        """Say whether invented records differ each time."""
        wrong = 0
        while wrong < _TRIES:
            batch = mapped_parts(self._invented, self._record)
            try:
                with self._mode():
                    chosen = self._source.choice(self._size, _CHOSEN, replace=False).tolist()
                    first = self._distance(losses, batch, chosen)
                    if first <= CLOSE:
                        return False
                    again = (self._distance(losses, batch, chosen) for _ in range(_AGAIN))
                    drawn = any(distance != first for distance in again)
            except InvalidParameter:
                raise  # what the code does is refused, with whatever records
            except Exception:
                return False  # the losses do not take such records; with true ones they may fail
            if drawn and self._resting:
                return False  # chance of the code's own, which cannot be switched off
            wrong = 0 if drawn else wrong + 1
            self._resting = self._resting or drawn
        return True

    def _invented(self, like: Tensor) -> Tensor:
        """Return numbers of the same kind; whole ones are 0 and 1, which most things can be."""
        shape = (self._size * like.shape[0], *like.shape[1:])
        real, draw = like.is_floating_point() or like.is_complex(), self._source
        values = draw.random(shape) * 3.4 - 1.7 if real else draw.integers(2, size=shape)
        return torch.from_numpy(values).to(like.device, like.dtype)

    @contextmanager
    def _mode(self) -> Iterator[None]:
        """Run the module as it is trained; without dropout if it has chance."""
        layers = [(layer, layer.training) for layer in self._gradients.module.modules()]
        for layer, training in layers:
            layer.training = training and not self._resting
        try:
            yield
        finally:
            for layer, training in layers:
                layer.training = training

    def _distance(self, losses: Losses, batch: Any, chosen: list[int]) -> float:
        """Return how far the normalised gradients of some records are from those alone."""
        scales: dict[int, float] = {}

        def together(norms: Tensor) -> Tensor:
            weights = torch.zeros(len(norms), dtype=torch.float32, device=norms.device)
            for i in chosen:
                norm = float(norms[i])
                weights[i] = scales[i] = 1.0 / norm if 2.0**-60 < norm < 2.0**60 else 0.0
            return weights

        difference = self._booked(losses, batch, self._size, together)
        for i in chosen:
            own = partial(torch.full_like, fill_value=scales[i], dtype=torch.float32)
            alone = mapped_parts(lambda x: x.chunk(self._size)[i], batch)  # noqa: B023 - at once
            difference -= self._booked(losses, alone, 1, own)
        return float(difference.norm())

    def _booked(self, losses: Losses, batch: Any, size: int, factors: Any) -> Tensor:
        out = torch.zeros(self._gradients.dimension, dtype=torch.float64)
        self._gradients.add(losses, batch, size, factors, out, copies=self._copies)
        return out
