"""What is settled before a training begins: relation, optimizer, correlation, source of noise."""

import torch
from torch import nn

from noisette import _validate
from noisette.adjacency import Adjacency
from noisette.errors import InvalidParameter, Unproven
from noisette.nn.clipping import Clipping
from noisette.nn.correlation import Banded
from noisette.nn.group import Group
from noisette.plans import Plan
from noisette.privacy import Ledger
from noisette.randomness import Randomness
from noisette.sampling import Cyclic, Sampler

__all__ = ["check_optimizer", "correlation", "own_source", "relation"]


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


def correlation(band: int | None, sampler: Sampler, clipping: Clipping) -> Banded | None:
    """Return the correlated noise of a run, where it is proven; None is independent noise."""
    if band is None:
        return None
    # proof: BANDED-MF
    if not isinstance(sampler, Cyclic) or not clipping.fixed:
        raise Unproven(
            "correlated noise is proven for cyclic batches and a fixed clip_norm; use "
            "sampling='cyclic' with flat or automatic clipping, or band=None."
        )
    if _validate.integer("band", band) > sampler.steps:
        raise Unproven(
            f"band={band} is longer than the {sampler.steps} batches of an epoch, so that one "
            "record's steps would overlap; use a shorter band."
        )
    return Banded(band)


def own_source(randomness: Randomness, group: Group, drawn: int) -> Randomness:
    """Return this rank's source: never one whose numbers an interrupted run may have used."""
    if not randomness.seeded or (group.ranks == 1 and drawn == 0):
        return randomness
    return Randomness.in_worker((*randomness.to_worker(), drawn, group.rank))
