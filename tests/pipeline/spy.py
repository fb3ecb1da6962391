"""A watcher of steps: it writes down what crosses the door and may answer by a script."""

from collections.abc import Callable
from typing import Any

import numpy as np

from helpers import watching
from noisette.core.adjacency import Adjacency
from noisette.core.ledger import Ledger
from noisette.core.randomness import Randomness
from noisette.fitting.algorithms.public import PublicBudget
from noisette.fitting.algorithms.train import begin
from noisette.tables.pipeline.step import PreparedStep, Sample, Step


class Spy:
    """Notes every bounded value; `answers` are handed out in place of the real releases."""

    def __init__(self, answers: list[Any] | None = None) -> None:
        self.seen: list[tuple[Any, Any]] = []
        self.given: list[Any] = []
        self.answers = None if answers is None else list(answers)

    def release(
        self, real: Callable[..., Any], bounded: Any, permit: Any, randomness: Any, *, part: int = 0
    ) -> Any:
        self.seen.append((bounded, permit.leaf(part).mechanism))
        answer = real(bounded, permit, randomness, part=part)
        if self.answers is not None:
            answer = self.answers.pop(0)
        self.given.append(answer)
        return answer


def budget(adjacency: Adjacency | str, size: int | None, **more: Any) -> PublicBudget:
    relation = Adjacency.of(adjacency)
    known = size if relation.size_is_public else None
    facts: dict[str, Any] = {"epsilon": 1e6, "delta": 0.1, "most": 10**6} | more
    return PublicBudget(adjacency=relation, size=known, **facts)


def run(
    step: Step, sample: Sample, adjacency: Adjacency | str, *, scale: float = 1.0,
    spy: Spy | None = None, seed: int = 0, size: int | None = None,
) -> Any:  # fmt: skip
    """Run a step at a scale and return what it released."""
    public = budget(adjacency, sample.count if size is None else size)
    prepared: PreparedStep = step.prepared(public, scale)
    step.check(sample, prepared)
    passage = begin(
        prepared, ledger=Ledger(1e7, 0.5, adjacency=public.adjacency),
        randomness=Randomness.from_seed(seed), label="test",
    )  # fmt: skip
    with watching(spy):
        return step.run(sample, prepared, passage)


def log_odds(bounded: Any, mechanism: Any) -> np.ndarray:
    """Return the logarithm of the odds of every candidate, one row per choice."""
    return np.atleast_2d(bounded.value) * (mechanism.epsilon / (2.0 * bounded.linf))


def loss_range(first: tuple[Any, Any], second: tuple[Any, Any]) -> float:
    """Return the length of the interval in which the loss of one release lies."""
    moved = log_odds(*first) - log_odds(*second)
    return float((moved.max(axis=1) - moved.min(axis=1)).sum())
