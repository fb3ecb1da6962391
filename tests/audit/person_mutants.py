"""Mutants that count rows where they promise something to persons; see `mutants`."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from mutants import Mutant, Patches

from noisette.fitting.units import Persons, Unit
from noisette.models import LogisticRegression, SGDClassifier, inputs

levels = import_module("noisette.fitting.algorithms.levels")
passage = import_module("noisette.fitting.algorithms.passage")
records = import_module("noisette.fitting.algorithms.records")
steps = import_module("noisette.fitting.algorithms.steps")

OBJECTIVE = LogisticRegression(norm_bound=1.0)
OUTPUT = LogisticRegression(mechanism="output", norm_bound=1.0)
GAUSSIAN = LogisticRegression(delta=1e-6, norm_bound=1.0)
PASS = SGDClassifier(norm_bound=1.0)
DESCENT = SGDClassifier(delta=1e-5, norm_bound=1.0)
POISSON = SGDClassifier(
    delta=1e-5, sampling="poisson", batch_size=60, epochs=4, adjacency="add-remove",
    population=600, norm_bound=1.0,
)  # fmt: skip

PERSON_MUTANTS: dict[str, Mutant] = {}


def person_mutant(name: str, estimator: Any, attack: str) -> Callable[[Any], Any]:
    """Register the patches of a mutant, with an estimator that it spoils for persons."""

    def register(patches: Callable[[], Patches]) -> Callable[[], Patches]:
        assert name not in PERSON_MUTANTS
        PERSON_MUTANTS[name] = Mutant(name, estimator, attack, patches)
        return patches

    return register


def _record_noise() -> Patches:
    """Row-level noise under a claim about persons: whose rows they are is not looked at."""
    yield inputs, "unit_of", lambda ids, n, *more, **options: Unit(n)


for _name, _subject in {
    "objective perturbation": OBJECTIVE, "objective perturbation, delta": GAUSSIAN,
    "output perturbation": OUTPUT, "2013 algorithm": PASS, "gradient descent": DESCENT,
}.items():  # fmt: skip
    person_mutant(f"rows are counted, persons are promised ({_name})", _subject, "two-worlds")(
        _record_noise
    )


def _unchecked() -> Patches:
    """Get round the checks that refuse such weights before anything is charged."""
    for owner in (records, records.Records, levels):
        if "check_unit" in vars(owner):
            yield owner, "check_unit", lambda *given, **options: None
    real = passage.Passage.minimise

    def minimise(self: Any, *given: Any, total_weight: Any = None, **options: Any) -> Any:
        return real(self, *given, **options)

    yield passage.Passage, "minimise", minimise


def _weighed(factor: Callable[[Any], Any]) -> Patches:
    yield from _unchecked()
    real = vars(Persons)["weights"].func
    yield Persons, "weights", property(lambda self: factor(real(self)))


@person_mutant("every row of a person weighs 1 (objective perturbation)", OBJECTIVE, "exposed")
@person_mutant("every row of a person weighs 1 (output perturbation)", OUTPUT, "replay")
@person_mutant("every row of a person weighs 1 (2013 algorithm)", PASS, "replay")
@person_mutant("every row of a person weighs 1 (Poisson batches)", POISSON, "replay")
def _ones() -> Patches:
    yield from _weighed(np.ones_like)


@person_mutant("a person's weights add up to 1.1 (objective perturbation)", OBJECTIVE, "exposed")
@person_mutant("a person's weights add up to 1.1 (gradient descent)", DESCENT, "replay")
def _heavy() -> Patches:
    yield from _weighed(lambda weights: np.minimum(1.1 * weights, 1.0))


@person_mutant("rows are drawn, persons are counted", POISSON, "sampling-law")
def _rows_drawn() -> Patches:
    yield records.Records, "size", property(lambda self: int(self.rows.shape[0]))
    yield steps.Batches, "rows_of", lambda self, persons, **options: self


@person_mutant("the number of rows decides the regularisation", OUTPUT, "replay")
def _rows_in_lambda() -> Patches:
    def known(self: Any, adjacency: Any, population: Any) -> Any:
        found = Unit.known(self, adjacency, population)
        return found | {"size": len(self.index), "most": len(self.index)}

    yield Persons, "known", known
