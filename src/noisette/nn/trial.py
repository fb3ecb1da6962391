"""A module is tried on blank rows before anything is charged."""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from noisette.errors import InvalidParameter


def fresh(given: Any) -> nn.Module:
    """Return a module of one's own: a copy of the given one, or what the given function makes."""
    made = given
    if isinstance(made, nn.Module):
        made = copy.deepcopy(made)
    elif callable(made):
        made = made()
    if not isinstance(made, nn.Module):
        raise InvalidParameter("module must be an nn.Module or a function that returns one.")
    return made


def fresh_module(given: Any, rows: NDArray[Any], classes: int) -> tuple[nn.Module, torch.dtype]:
    """Return a module of one's own and the type of its input, tried on blank rows."""
    made = fresh(given).eval()
    whole = rows.dtype.kind in "iubO"  # tokens if the module takes them, else numbers
    failure = ""
    for dtype in (torch.int64, torch.float32) if whole else (torch.float32,):
        try:
            with torch.no_grad():
                found = made(torch.zeros((2, *rows.shape[1:]), dtype=dtype))
        except Exception as error:  # whatever a module of the user raises
            failure = str(error)
            continue
        shape = _shape(found)
        if shape != (2, classes):
            raise InvalidParameter(
                f"the module must return one score for each of the {classes} classes; for 2 "
                f"rows it returned shape {shape}."
            )
        return made.train(), dtype
    raise InvalidParameter(
        f"the module does not take rows of shape {tuple(rows.shape[1:])}: {failure}"
    )


def _shape(found: Any) -> tuple[int, ...]:
    """Return the shape of what a module returned, which must be a tensor of scores."""
    if isinstance(found, Tensor):
        return tuple(found.shape)
    kind = "dict" if isinstance(found, Mapping) else type(found).__name__
    raise InvalidParameter(
        f"the module returned a {kind}; PrivateClassifier needs the scores alone, so wrap it in a "
        "module that returns them (of a Hugging Face model: output.logits)."
    )


def same_alone(module: nn.Module, rows: Tensor) -> None:
    """Refuse a module that scores invented rows otherwise alone than together.

    Not for privacy, which needs no such test: training shows the module one record at a time, so
    a module that looks at the whole batch would be trained as something else than what predicts.
    """
    before = module.training
    module.eval()  # dropout is no reason; whoever mixes in training alone has nobody to mix with
    try:
        with torch.no_grad():
            together = module(rows)
            alone = torch.cat([module(row.unsqueeze(0)) for row in rows])
            chance = not torch.equal(together, module(rows))
    finally:
        module.train(before)
    if not chance and not torch.allclose(together, alone, rtol=1e-3, atol=1e-5, equal_nan=True):
        raise InvalidParameter(
            "the module scores a record otherwise in a batch than alone, so it mixes records, and "
            "training, which shows it one record at a time, would train something else; let every "
            "operation treat records apart."
        )
