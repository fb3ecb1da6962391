"""What a training asks of its parts, each by itself: plan, optimizer, public names."""

import hashlib
from typing import Any

import numpy as np
import torch
from torch import nn

from noisette import _validate
from noisette.core.adjacency import Adjacency
from noisette.core.ledger import Ledger
from noisette.core.plans import Plan
from noisette.errors import InvalidData, InvalidParameter
from noisette.nn.clipping import Clipping


def relation(plan: Plan, ledger: Ledger | None) -> Adjacency:
    """Return the neighbouring relation of the run: the ledger's, the plan's, or the strictest."""
    if ledger is not None:
        return ledger.adjacency
    return plan.adjacency or Adjacency.REPLACE_ONE


def check_optimizer(optimizer: torch.optim.Optimizer, trained: list[nn.Parameter]) -> None:
    """Raise if the optimizer would move something else, or ask for gradients by itself."""
    known = {id(parameter) for parameter in trained}
    held = [p for part in optimizer.param_groups for p in part["params"] if p.requires_grad]
    if any(id(parameter) not in known for parameter in held):
        raise InvalidParameter(
            "the optimizer holds parameters of another module; make it from module.parameters()."
        )
    if isinstance(optimizer, torch.optim.LBFGS):
        raise InvalidParameter("LBFGS looks at the loss several times a step; use SGD or Adam.")


def optional(name: str, value: int | None) -> int | None:
    """Return a whole number from 1 on, or None."""
    return None if value is None else _validate.integer(name, value)


def check_ids(ids: Any, size: int) -> None:
    """Raise unless `ids` is None or names every one of `size` records differently."""
    if ids is None:
        return
    names = np.asarray(ids)
    if names.shape != (size,) or names.dtype.kind not in "iuU":
        raise InvalidData("record_ids must hold one whole number or text for each record.")
    if len(np.unique(names)) < size:
        raise InvalidData("record_ids must name every record differently.")


def digest(public: Any) -> str | None:
    """Return a digest of public names or numbers of the records; never of anything sensitive."""
    if public is None:
        return None
    parts = "".join(f"{len(text)}:{text}" for text in map(str, np.asarray(public).tolist()))
    return hashlib.sha256(parts.encode()).hexdigest()


def settings(rule: Clipping) -> list[list[Any]]:
    """Return the public settings of a rule, without the clip norm, which a checkpoint restores."""
    shown = {k: v for k, v in vars(rule).items() if not k.startswith("_") and k != "clip_norm"}
    return [[k, v] for k, v in sorted(shown.items()) if isinstance(v, bool | int | float | str)]
