"""A module is tried on blank rows before anything is charged."""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from noisette.errors import InvalidParameter

__all__ = ["fresh_module"]


def fresh_module(given: Any, rows: NDArray[Any], classes: int) -> tuple[nn.Module, torch.dtype]:
    """Return a module of one's own and the type of its input, tried on blank rows."""
    made = given
    if isinstance(made, nn.Module):
        made = copy.deepcopy(made)
    elif callable(made):
        made = made()
    if not isinstance(made, nn.Module):
        raise InvalidParameter("module must be an nn.Module or a function that returns one.")
    made.eval()
    whole = rows.dtype.kind in "iub"  # tokens if the module takes them, else numbers
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
