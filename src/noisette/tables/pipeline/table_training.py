"""`TableTraining`: knots, levels, shares and a model under one plan, charged before the first look.

0. The limits of a number to predict, where nobody states them (QUANTILE).
1. Quantile knots of the numeric columns, by halving (QUANTILE-TREE).
2. The levels of categorical columns that nobody listed (CATEGORY-THRESHOLD).
3. Now every column has public features. How rows spread over them, and over the labels (HISTOGRAM;
   a number lies between two of them): this gives centres, scales and the intercept's start.
4. The model, by objective perturbation in those coordinates (OBJECTIVE-PERTURBATION). What is known
   of its noise finishes the weights (FINISHING).
5. Where public facts leave room, people by label and score (HISTOGRAM), for slope and intercept.

The noise of every step follows from the plan alone. Which features there are, their coordinates,
the norm bound and the regularisation follow from released numbers (PLAN-BEFORE-LOOK).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from operator import attrgetter
from typing import ClassVar

from noisette import _validate
from noisette.core import accounting
from noisette.core.adjacency import Adjacency
from noisette.core.grid import Grid
from noisette.core.mechanisms import Gaussian, LaplaceVector, ObjectiveNoise
from noisette.core.plans import Plan, Run, Together
from noisette.errors import InvalidParameter
from noisette.fitting.algorithms import Public
from noisette.fitting.algorithms.algorithm import Algorithm, Prepared, PreparedModel
from noisette.fitting.algorithms.class_weight import weight_proofs
from noisette.fitting.algorithms.objective_perturbation import check_solve, of_curvature, shape_of
from noisette.fitting.algorithms.passage import Passage
from noisette.fitting.algorithms.public import PublicBudget
from noisette.fitting.algorithms.recommend import Recommendation
from noisette.fitting.losses.partitioned import check_place
from noisette.tables import Schema
from noisette.tables.pipeline.categories import LearnCategories, keys_of
from noisette.tables.pipeline.last import model_facts
from noisette.tables.pipeline.recipe import TableRecipe
from noisette.tables.pipeline.shares import LearnCalibration, LearnShares
from noisette.tables.pipeline.step import PreparedStep, Step
from noisette.tables.pipeline.table_run import FittedTable, TableRun, TableSample
from noisette.tables.pipeline.target import Target

_HIDING = 1e-6  # of the budget, for where the solver stopped


@dataclass(frozen=True)
class PreparedTable(Prepared):
    """The steps at their scales, and the determinant's k of the model."""

    steps: tuple[tuple[Step, PreparedStep], ...] = ()
    curvature: float = 1.0
    model: PreparedModel | None = None
    """The plan of another algorithm."""


@dataclass(frozen=True)
class TableTraining(Algorithm[PreparedTable]):
    """Learn what is open in `schema`, then train; `recipe` says how the budget is shared."""

    schema: Schema
    target: Target
    recipe: TableRecipe
    pairs: tuple[tuple[str, str], ...] = ()
    last: Recommendation | None = None
    """Another algorithm than objective perturbation, with its part of the budget."""

    name: ClassVar[str] = "table"
    summary: ClassVar[str] = "facts of a raw table and a model, under one plan"

    # --- public half -------------------------------------------------------------------------

    @cached_property
    def plain(self) -> dict[str, Grid]:
        """The columns that get knots, and where these may lie."""
        return {c.name: c.grid for c in self.schema.columns if c.buys == "knots"}

    @cached_property
    def numbers(self) -> dict[str, Grid]:
        """Those of them whose knots are bought."""
        return {
            name: grid
            for name, grid in self.plain.items()
            if not self.recipe.public_knots or None in (grid.low, grid.high)
        }

    @cached_property
    def unknown(self) -> list[str]:
        """The columns whose levels nobody listed."""
        return [column.name for column in self.schema.columns if column.buys == "levels"]

    @cached_property
    def counted(self) -> list[str]:
        """The columns whose shares are bought: those with knots, and those of public levels."""
        counted = filter(attrgetter("counted"), self.schema.columns)
        return [*self.plain, *map(attrgetter("name"), counted)]

    @property
    def needs_batches(self) -> bool:  # type: ignore[override]
        """Whether the last algorithm does."""
        return self.last is not None and self.last.algorithm.needs_batches

    @property
    def used_pairs(self) -> tuple[tuple[str, str], ...]:
        """The pairs for which public facts leave room."""
        return self.pairs if self.recipe.cells else ()

    def steps(self, public: PublicBudget) -> Iterator[tuple[Step, float]]:
        """Yield the steps around the model, in order, each with its part of the budget."""
        recipe = self.recipe
        yield from self.target.number_steps(tuple(self.numbers.values()), recipe)
        if self.unknown:
            # proof: CATEGORY-THRESHOLD
            atoms = recipe.atoms * public.delta
            yield LearnCategories(len(self.unknown), atoms, keys_of(public)), recipe.levels
        columns = len(self.counted) + len(self.used_pairs) + 1
        yield LearnShares(columns, exact_pure=public.delta == 0.0), recipe.shares
        if self.calibrated:
            yield LearnCalibration(1, exact_pure=public.delta == 0.0), recipe.calibration

    @property
    def calibrated(self) -> bool:
        """Whether scores are counted by label, behind the model."""
        return bool(self.recipe.calibration) and self.target.has_odds and self.last is None

    def prepare(self, public: PublicBudget) -> PreparedTable:
        """Return all steps and the model in one plan with the least noise for the budget.

        Another last algorithm has its own part of epsilon and delta, and the steps the other one.
        """
        pure, loss, recipe, last = public.delta == 0.0, self.target.loss, self.recipe, self.last
        if pure and self.unknown:
            raise InvalidParameter(
                f"the levels of column {self.unknown[0]!r} are to be learnt, which needs "
                f"delta > 0, such as {_validate.proposed_delta(public.size)}; or list the levels."
            )
        steps, facts, k = tuple(self.steps(public)), public, 1.0
        model: Model = None
        if last is not None:
            # proof: TABLE-LAST
            part = 1.0 - recipe.model
            facts = replace(public, epsilon=part * public.epsilon, delta=part * public.delta)
        else:
            share = public.epsilon * (recipe.model if pure else 1.0)
            k = self.target.curvature(share, public.adjacency.contributions, recipe)
            classes = getattr(loss, "classes", 2)
            model = (recipe.model, k, shape_of(loss), classes, public.grouped)
        scale = _calibrated(steps, model, facts.epsilon, facts.delta, facts.adjacency)
        prepared, proofs = [], ["PLAN-BEFORE-LOOK", "WHITENING", "SMOOTHNESS-PRIOR"]
        for step, share in steps:
            prepared.append((step, step.prepared(facts, _scale(step, share, scale, facts))))
            proofs += step.proofs
        proofs += weight_proofs(self.target.class_weight)
        proofs += ["PAIR-CELLS"] * bool(self.used_pairs) + list(loss.proofs)
        if last is not None:
            own = last.algorithm.prepare(last.public)
            plan: Plan = Together(*(ready.plan for _, ready in prepared), own.plan)
            proofs += ["TABLE-LAST", *own.proofs]
            if self.target.class_weight is not None or public.grouped:
                proofs += last.algorithm.weight_proofs
            proofs += ["PERSON-ORDER"] * public.grouped
            return PreparedTable(public, plan, tuple(proofs), tuple(prepared), model=own)
        for bound in (1.0, 30.0):  # scaling rows scales the problem, so two lengths stand for all
            facts_of_model = self._facts(public, 1000, bound, k * (1.0 + 1e-6))
            check_solve(facts_of_model, _noise(model, scale, public))
        proofs = ["PERSON-MEAN"] * public.grouped + proofs + ["FINISHING"]
        plan = _plan(steps, model, public, scale)
        return PreparedTable(public, plan, tuple(proofs), tuple(prepared), k)

    def _facts(self, public: PublicBudget, features: int, norm: float, k: float) -> Public:
        """Return the facts of the model: rows of that norm, and the least Lambda for k."""
        return of_curvature(model_facts(public, self.target.loss, features, norm), k)

    # --- the half that sees the data ---------------------------------------------------------

    def check(self, records: TableSample, prepared: Prepared) -> None:
        """Refuse what would break a bound, and rows in a place where the model cannot be solved."""
        super().check(records, prepared)  # type: ignore[arg-type]
        records.table.reserve(len(self.used_pairs))
        check_place(records.rows, self.target.loss)

    def run(self, sample: TableSample, prepared: PreparedTable, passage: Passage) -> FittedTable:
        """Return the completed schema and the weights of its features."""
        work = TableRun(self, sample, prepared)
        first = 0
        for step, ready in prepared.steps:
            if isinstance(step, LearnCalibration):  # behind the model's two leaves
                fitted = work.model(passage.after(first))
                return work.corrected(fitted, step, ready, passage.after(first + 2))
            work.learn(step, ready, passage.after(first))
            first += len(list(ready.plan.leaves()))
        return work.model(passage.after(first))


# --- the plan --------------------------------------------------------------------------------

Model = tuple[float, float, str, int, bool] | None


def _scale(step: Step, share: float, scale: float, public: PublicBudget) -> float:
    """Return the step's noise for its share: of mu squared, or of epsilon where delta = 0."""
    return scale / math.sqrt(share) if public.delta > 0.0 else float(scale * step.pure_cost / share)


def _noise(model: Model, scale: float, public: PublicBudget) -> ObjectiveNoise:
    assert model is not None
    share, k, shape, classes, persons = model
    z, law = scale / math.sqrt(share), "gaussian"
    if public.delta == 0.0:
        z, law = scale / share, "spherical-laplace"
    return ObjectiveNoise(z, None, law, k, shape, classes, persons)


def _plan(
    steps: tuple[tuple[Step, float], ...], model: Model, public: PublicBudget, scale: float
) -> Plan:
    """Return all leaves in the order in which they run."""
    leaves = [
        step.plan(_scale(step, share, scale, public), public.adjacency) for step, share in steps
    ]
    if model is not None:
        hiding = Gaussian(scale / math.sqrt(_HIDING)) if public.delta > 0.0 else None
        own = [Run(_noise(model, scale, public)), Run(hiding or LaplaceVector(scale / 1e-3))]
        behind = sum(isinstance(step, LearnCalibration) for step, _ in steps)
        leaves[len(leaves) - behind : len(leaves) - behind] = own
    return Together(*leaves) if len(leaves) > 1 else leaves[0]


@lru_cache(maxsize=64)
def _calibrated(
    steps: tuple[tuple[Step, float], ...], model: Model, epsilon: float, delta: float,
    adjacency: Adjacency,
) -> float:  # fmt: skip
    public = PublicBudget(epsilon=epsilon, delta=delta, adjacency=adjacency, size=None)
    plan = partial(_plan, steps, model, public)
    return accounting.calibrate(plan, epsilon=epsilon, delta=delta, adjacency=adjacency)
