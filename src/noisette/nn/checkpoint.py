"""Checkpoints: the released state of a run in one file, written whole or not at all.

A checkpoint holds weights, the optimizer's state and public numbers. It holds no noise, no batch
and no key: a resumed run draws afresh, under what is left of the charge it already paid.
"""

import os
import pickle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils._pytree import tree_map

from noisette.errors import InvalidParameter
from noisette.nn.averaging import Average

__all__ = ["check", "prepare", "read", "take_up", "write"]

FORMAT = 2

_PARTS: dict[str, tuple[type, ...]] = {
    "module": (dict,),
    "optimizer": (dict,),
    "average": (dict, type(None)),
    "clipping": (dict,),
    "charge": (int,),
    "steps": (int,),
    "seeded": (bool,),
}


def prepare(path: Path) -> None:
    """Raise if no checkpoint can be written there: to be known before anything is charged."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
        Path(name).unlink()
    except OSError as error:
        raise InvalidParameter(
            f"the checkpoint {path} cannot be written: {error.strerror or error}."
        ) from None


def write(path: Path, state: dict[str, Any]) -> None:
    """Write `state`; a kill leaves the old file as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            torch.save(tree_map(_plain, {"noisette_checkpoint": FORMAT, **state}), file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _plain(value: Any) -> Any:
    """Return NumPy's numbers (a learning rate, say) as Python's: `read` takes no others."""
    return value.item() if isinstance(value, np.generic) else value


def read(path: Path) -> dict[str, Any]:
    """Return what `write` wrote; nothing in the file is executed."""
    try:
        state = torch.load(path, weights_only=True)
    except (OSError, EOFError, RuntimeError, ValueError, pickle.UnpicklingError):
        raise InvalidParameter(f"{path} cannot be read as a checkpoint of noisette.") from None
    if not isinstance(state, dict) or state.pop("noisette_checkpoint", None) != FORMAT:
        raise InvalidParameter(f"{path} is not a checkpoint of noisette, format {FORMAT}.")
    if not all(isinstance(state.get(name, ...), kinds) for name, kinds in _PARTS.items()):
        raise InvalidParameter(f"{path} is damaged; begin again with another file.")
    return state


def check(path: Path | None, state: dict[str, Any], module: nn.Module, *, seeded: bool) -> None:
    """Raise unless the checkpoint is one of such a run; nothing is changed."""
    if state["seeded"] != seeded:
        raise InvalidParameter(
            "the run began with another kind of random_state; resume it with the same one."
        )
    shapes = [
        {name: getattr(value, "shape", None) for name, value in held.items()}
        for held in (state["module"], module.state_dict())
    ]
    if shapes[0] != shapes[1]:
        raise InvalidParameter(f"{path} belongs to another module or optimizer.")


def take_up(
    path: Path | None, state: dict[str, Any], module: nn.Module,
    optimizer: torch.optim.Optimizer, average: Average | None,
) -> None:  # fmt: skip
    """Put the weights, the optimizer and the average back to where the checkpoint was."""
    try:
        module.load_state_dict(state["module"])
        optimizer.load_state_dict(state["optimizer"])
        if average is not None and state["average"] is not None:
            average.restore(state["average"])
    except (KeyError, RuntimeError, ValueError):
        raise InvalidParameter(f"{path} belongs to another module or optimizer.") from None
