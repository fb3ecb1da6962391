"""Classes balanced by noisy counts, which a network's plan has before its steps."""

from dataclasses import replace

import torch
from torch import Tensor

from noisette._typing import Indices
from noisette.core.plans import Plan
from noisette.fitting.algorithms.class_weight import class_factors, counting, for_model
from noisette.fitting.algorithms.network import NetworkSteps, PublicNetwork
from noisette.nn.training import PrivateTraining


def balanced_plan(public: PublicNetwork) -> Plan:
    """Return counts and steps in one plan, with the least noise in the steps for the budget."""
    # proof: CLASS-WEIGHT
    counts = counting(public.epsilon, for_model(public).epsilon, public.adjacency)
    return NetworkSteps().prepare(replace(public, before=counts)).plan


def balanced_factors(training: PrivateTraining, numbers: Indices, classes: int) -> Tensor:
    """Release the counts that were charged and return one weight in (0, 1] for each class."""
    start = training._start
    assert start.passage is not None  # several ranks were refused
    # proof: CLASS-WEIGHT
    ahead = start.passage.after(-start.run.first)
    present = None if start.weights is None else start.weights.numpy()
    return torch.from_numpy(class_factors(ahead, numbers, classes, present)).float()
