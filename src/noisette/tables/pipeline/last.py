"""The last algorithm of a table's training, where it is not objective perturbation.

Its facts are public before the first look (TABLE-LAST): rows are scaled to norm 1 by the released
bound of their coordinates, and stand in so many columns as a public cap says, some of them empty.
So each algorithm of a linear model runs as it is, under its own theorem and its own part of
epsilon and delta; what was bought of the table has the other part.
"""

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from noisette._typing import Floats
from noisette.fitting.algorithms.public import Public, PublicBudget
from noisette.fitting.algorithms.recommend import (
    GIVE_TABLE,
    Recommendation,
    choose_mechanism,
    recommend,
)
from noisette.fitting.algorithms.recommend_sgd import recommend_sgd
from noisette.fitting.clipping import clip_rows
from noisette.fitting.losses import Loss
from noisette.tables.stored_rows import StoredRows

if TYPE_CHECKING:
    from noisette.tables.pipeline.table_training import TableTraining

_SLACK = 1e-3  # of the model's part, left for the rounding of the accountant
_LEVELS = 32  # features at most of a column whose levels nobody listed


def chosen_last(
    training: "TableTraining", public: PublicBudget, mechanism: str, sampling: str | None, *,
    steps: bool,
) -> Recommendation | None:  # fmt: skip
    """Return the algorithm that was asked for with its public facts; None for the usual one.

    `steps` asks for noisy steps, of which `sampling` says how rows come into them.
    """
    loss, part = training.target.loss, training.recipe.model * (1.0 - _SLACK)
    if not steps:
        mechanism = choose_mechanism(mechanism, loss, levels=False, whiten=False)[0]
        if mechanism == "objective":
            return None
    # proof: TABLE-LAST
    # a public cap on the features of a table, what it is to learn included
    knots = max(training.target.typical_knots(training.recipe), training.recipe.public_knots) + 2
    bought = dict.fromkeys(training.plain, knots) | dict.fromkeys(training.unknown, _LEVELS)
    width = sum(bought.values())
    width += sum(len(c.features) for c in training.schema.columns if c.name not in bought)
    budget = replace(public, epsilon=part * public.epsilon, delta=part * public.delta)
    facts = model_facts(budget, loss, width + 1, 1.0)
    if steps:
        from noisette.models import SGDClassifier  # whose wishes they are

        wishes = SGDClassifier(
            facts.epsilon, facts.delta, norm_bound=1.0, fit_intercept=False,
            sampling=sampling or "auto",
        )  # fmt: skip
        found = recommend_sgd(wishes, facts)
    else:
        found = recommend(
            facts, mechanism=mechanism, regularization="auto", whiten=False, levels=False
        )
    advice = GIVE_TABLE.format("TableClassifier")  # which takes tables already
    notes = tuple(note.replace(advice, "") for note in found.notes)
    return replace(found, warning=found.warning.replace(advice, ""), notes=notes)


def model_facts(public: PublicBudget, loss: Loss, features: int, norm: float) -> Public:
    """Return the public facts of a model of so many features in rows of that norm."""
    return Public(
        epsilon=public.epsilon, delta=public.delta, adjacency=public.adjacency, size=public.size,
        most=public.most, unit=public.unit, max_rows=public.max_rows, loss=loss, features=features,
        norm_bound=norm,
    )  # fmt: skip


def expanded(loss: Loss, theta: Any) -> Floats:
    """Return released weights, a row for each score."""
    return np.asarray(getattr(loss, "expand", np.atleast_2d)(theta))


def within(scale: float, width: int, rows: Any) -> Any:
    """Return rows scaled to norm 1, in so many columns; what has no room is left out."""
    # proof: TABLE-LAST
    rows = clip_rows(rows * scale, 1.0)  # proof: CLIP
    empty = width - rows.shape[1]
    if empty <= 0:
        return rows[:, -width:]  # the constant column is the last
    if sparse.issparse(rows):
        return sparse.hstack([sparse.csr_matrix((rows.shape[0], empty)), rows], format="csr")
    return np.hstack([np.zeros((rows.shape[0], empty)), rows])


def run_last(work: Any, coords: Any, passage: Any) -> Any:
    """Train in released coordinates; return the weights in them, and their noise if it is known."""
    training, inner = work.training, work.prepared.model
    public, sample, algorithm = inner.public, work.sample, training.last.algorithm
    finish = partial(within, 1.0 / coords.norm, public.features)
    rows = sample.table.encoded(work.schema, coords, work.pairs, finish, public.features)
    by_passes = algorithm.one_shot and math.isfinite(public.loss.smoothness)
    if isinstance(rows, StoredRows) and not by_passes:
        rows = rows.read(slice(0, rows.shape[0]))  # steps and the hinge take rows from memory
    # who is in which batch must not depend on rows of weight 0 (PARALLEL)
    (theta,) = algorithm.run(work.records(rows, every=not algorithm.one_shot), inner, passage)
    own = coords.map.shape[1] + 1
    theta = expanded(training.target.loss, theta) / coords.norm
    found = np.zeros((theta.shape[0], own))
    kept = min(own, public.features)
    found[:, own - kept :] = theta[:, public.features - kept :]
    return found, None if inner.weight_noise is None else inner.weight_noise / coords.norm
