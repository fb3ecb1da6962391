"""Mutants of the real source: wrong libraries that the audit must tell from the right one.

Each is a context manager that patches noisette as a careless author might have written it; the door
is got round where it would have refused the mistake. `attack` names one that is fast and sure to
catch it; `benchmarks/audit_mutants.py` runs the whole battery and prints who caught what.
"""

import functools
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
from scipy.optimize import minimize

from noisette.audit.whitebox.theory import Problem
from noisette.core.adjacency import Adjacency
from noisette.core.door import NoiseStream
from noisette.core.mechanisms import Gaussian, ObjectiveNoise, SphericalLaplace
from noisette.core.mechanisms import base as mechanisms_base
from noisette.core.permit import Permit
from noisette.core.plans import Run, Together
from noisette.core.randomness import Randomness
from noisette.core.sampling import Disjoint, Poisson, Shuffle
from noisette.core.sampling.base import Participation
from noisette.fitting.algorithms import Public, Records
from noisette.fitting.algorithms.steps import Batches, Update
from noisette.fitting.losses import Softmax
from noisette.models import LinearSVC, LogisticRegression, SGDClassifier, linear_model, one_shot

# Modules and functions share names here, so modules are asked for by path.
door = import_module("noisette.core.door")
gd = import_module("noisette.fitting.algorithms.gradient_descent")
noisy_sgd = import_module("noisette.fitting.algorithms.noisy_sgd")
objective = import_module("noisette.fitting.algorithms.objective_perturbation")
output = import_module("noisette.fitting.algorithms.output_perturbation")
passage = import_module("noisette.fitting.algorithms.passage")
recommend_sgd = import_module("noisette.fitting.algorithms.recommend_sgd")
records = import_module("noisette.fitting.algorithms.records")
solving = import_module("noisette.fitting.solvers.minimise")
steps = import_module("noisette.fitting.algorithms.steps")
whitening = import_module("noisette.fitting.algorithms.whitening")

Patches = Iterator[tuple[Any, str, Any]]


@dataclass(frozen=True)
class Mutant:
    name: str
    estimator: Any
    attack: str
    patches: Callable[[], Patches]

    def __call__(self) -> AbstractContextManager[None]:
        return _applied(self.patches)


MUTANTS: dict[str, Mutant] = {}


def mutant(name: str, estimator: Any, attack: str) -> Callable[[Any], Any]:
    """Register the patches of a mutant, with an estimator that it spoils."""

    def register(patches: Callable[[], Patches]) -> Callable[[], Patches]:
        assert name not in MUTANTS
        MUTANTS[name] = Mutant(name, estimator, attack, patches)
        return patches

    return register


def clear_caches() -> None:
    """Forget everything that was calibrated: caches hold what another source computed."""
    for path, module in list(sys.modules.items()):
        if path.startswith("noisette"):
            for found in vars(module).values():
                if isinstance(found, functools._lru_cache_wrapper):
                    found.cache_clear()


@contextmanager
def _applied(patches: Callable[[], Patches]) -> Iterator[None]:
    clear_caches()
    with ExitStack() as stack:
        stack.callback(clear_caches)
        for owner, name, value in patches():
            if name in vars(owner):
                stack.callback(setattr, owner, name, vars(owner)[name])
            else:
                stack.callback(delattr, owner, name)
            setattr(owner, name, value)
        yield


# --- noise ---------------------------------------------------------------------------------------

PURE = LogisticRegression(mechanism="output", norm_bound=1.0)
OBJECTIVE = LogisticRegression(norm_bound=1.0)
THREE = LinearSVC(classes=[0, 1, 2], loss="huber", norm_bound=1.0)
DESCENT = SGDClassifier(delta=1e-5, norm_bound=1.0)
POISSON = SGDClassifier(
    delta=1e-5,
    sampling="poisson",
    batch_size=30,
    adjacency="add-remove",
    population=600,
    norm_bound=1.0,
)


def _scaled(kind: Any, factor: float) -> Patches:
    real = kind.noise
    yield kind, "noise", lambda *given: factor * real(*given)


@mutant("noise 10 % too small (output perturbation)", PURE, "noise-law")
def _small_output() -> Patches:
    yield from _scaled(SphericalLaplace, 0.9)


@mutant("noise 10 % too small (objective perturbation)", OBJECTIVE, "noise-law")
def _small_objective() -> Patches:
    yield from _scaled(SphericalLaplace, 0.9)


@mutant("noise 10 % too small (2013 algorithm)", SGDClassifier(norm_bound=1.0), "noise-law")
def _small_pass() -> Patches:
    yield from _scaled(SphericalLaplace, 0.9)


@mutant("noise 10 % too small (gradient descent)", DESCENT, "noise-law")
def _small_gaussian() -> Patches:
    yield from _scaled(Gaussian, 0.9)


@mutant("Gamma radius of shape d - 1", OBJECTIVE, "noise-law")
def _shape() -> Patches:
    def noise(self: Any, count: int, dimension: int, unit: float, generator: Any) -> Any:
        drawn = generator.standard_normal((count, dimension))
        radius = generator.standard_gamma(max(dimension - 1, 1), size=count)
        radius *= self.noise_multiplier * unit / np.linalg.norm(drawn, axis=1)
        return drawn * radius[:, None]

    yield SphericalLaplace, "noise", noise


@mutant("Laplace noise in each coordinate", SGDClassifier(norm_bound=1.0), "noise-law")
def _coordinates() -> Patches:
    def noise(self: Any, count: int, dimension: int, unit: float, generator: Any) -> Any:
        return generator.laplace(scale=self.noise_multiplier * unit, size=(count, dimension))

    yield SphericalLaplace, "noise", noise


@mutant("classes share their noise (objective perturbation)", THREE, "exposed")
def _shared() -> Patches:
    real = NoiseStream.take

    def take(self: Any, count: int) -> Any:
        if not hasattr(self, "_first"):
            self._first = real(self, count)
        return self._first.copy()

    yield NoiseStream, "take", take


@mutant(
    "classes share their noise (output perturbation)",
    LogisticRegression(mechanism="output", multi_class="ovr", classes=[0, 1, 2], norm_bound=1.0),
    "noise-law",
)
def _shared_output() -> Patches:
    real = SphericalLaplace.noise

    def noise(self: Any, count: int, dimension: int, unit: float, generator: Any) -> Any:
        block = real(self, count, dimension, unit, generator)
        block[:] = np.tile(block[:, : dimension // 3], 3)
        return block

    yield SphericalLaplace, "noise", noise


@mutant("every step reuses the first noise", SGDClassifier(norm_bound=1.0), "noise-law")
def _reused() -> Patches:
    real = NoiseStream.take

    def take(self: Any, count: int) -> Any:
        block = real(self, count)
        block[:] = block[0]
        return block

    yield NoiseStream, "take", take


@mutant("seeded generator copied into workers", OBJECTIVE, "repeated")
def _copied() -> Patches:
    source = Randomness.from_seed(1)
    yield Randomness, "_after_fork", lambda self: None
    yield Randomness, "secure", staticmethod(lambda: source)


@mutant("released without rounding", OBJECTIVE, "exposed")
def _unrounded() -> Patches:
    yield mechanisms_base, "on_grid", lambda values, *given, **more: np.asarray(values)


# --- sensitivity ---------------------------------------------------------------------------------


@mutant("missing factor 2 of replace-one (everywhere)", SGDClassifier(norm_bound=1.0), "exposed")
def _factor_two() -> Patches:
    yield Adjacency, "contributions", property(lambda self: 1)


@mutant("missing factor 2 of replace-one (gradient descent)", DESCENT, "replay")
def _factor_two_descent() -> Patches:
    real = gd._sensitivity

    def half(update: Any, w: Any, adjacency: Any) -> Any:
        bound, proof = real(update, w, adjacency)
        return bound / 2.0, proof

    yield gd, "_sensitivity", half


@mutant("lecture's constant of output perturbation, 1/(lambda n)", PURE, "replay")
def _lecture_output() -> Patches:
    def sensitivity(public: Any, distance: float) -> float:
        moved = public.gradient_bound / public.regularization
        return math.sqrt(public.models) * (moved + 2.0 * distance)

    yield output, "sensitivity", sensitivity


@mutant("lecture's constants of objective perturbation", OBJECTIVE, "replay")
def _lecture_objective() -> Patches:
    def pure(self: Any, adjacency: Any) -> float:
        return 1.0 / self.noise_multiplier + 2.0 * math.log1p(self.curvature / 4.0)

    yield ObjectiveNoise, "pure_epsilon", pure


def _unregularised(loss: Any, X: Any, y: Any, **options: Any) -> Any:
    """The optimum with a free last coordinate, as libraries that reuse scikit-learn's loss do."""
    rows, lam = np.asarray(X, dtype=float), options["regularization"]
    ridge = np.full(rows.shape[1], lam)
    ridge[-1] = 1e-6 * lam

    def value(w: Any) -> Any:
        m = y * (rows @ w)
        g = -y / (1.0 + np.exp(np.minimum(m, 700.0)))
        return np.sum(np.logaddexp(0.0, -m)) + 0.5 * w @ (ridge * w), g @ rows + ridge * w

    best = minimize(value, np.zeros(rows.shape[1]), jac=True, method="BFGS")
    return solving.Solution(best.x, options["tolerance"], options["tolerance"] / lam, 0.0)


@mutant("unregularised intercept", PURE, "replay")
def _free_intercept() -> Patches:
    yield passage, "minimise", _unregularised


def _believing() -> Patches:
    """Rows are believed to obey their bound."""
    yield Records, "check", lambda self, *given: None
    yield solving, "_CLIP_SLACK", 1e6


@mutant("intercept column outside the norm bound", OBJECTIVE, "exposed")
def _outside() -> Patches:
    real = one_shot.with_intercept

    def with_intercept(rows: Any, norm_bound: float, intercept: float | None) -> Any:
        return real(rows, norm_bound, intercept)[0], norm_bound

    yield from _believing()
    yield one_shot, "with_intercept", with_intercept


@mutant("c R instead of c R^2", LogisticRegression(norm_bound=3.0), "exposed")
def _not_squared() -> Patches:
    yield Public, "squared_bound", property(lambda f: f.weight_bound * f.norm_bound)


@mutant(
    "softmax gradient bounded by R instead of sqrt(2) R",
    LogisticRegression(mechanism="output", classes=[0, 1, 2], norm_bound=1.0),
    "replay",
)
def _softmax() -> Patches:
    yield Softmax, "lipschitz", property(lambda self: 1.0)


@mutant(
    "one-vs-rest without sqrt(K) in the sensitivity",
    LinearSVC(classes=[0, 1, 2], loss="hinge", norm_bound=1.0),
    "replay",
)
def _no_root() -> Patches:
    real = output.sensitivity
    yield output, "sensitivity", lambda public, distance: real(replace(public, models=1), distance)


@mutant("rows are not clipped (output perturbation)", PURE, "replay")
def _no_clip() -> Patches:
    yield from _believing()
    yield records, "clip_factors", lambda rows, *given, **more: np.ones(len(rows))


@mutant("rows are not clipped (2013 algorithm)", SGDClassifier(norm_bound=1.0), "replay")
def _no_clip_pass() -> Patches:
    real = steps.advance

    def advance(update: Any, *given: Any) -> None:
        real(replace(update, norm_bound=1e9), *given)

    yield steps, "advance", advance


@mutant(
    "gradients are not clipped",
    SGDClassifier(delta=1e-5, norm_bound=None, clip_norm=0.5, sampling="cyclic", epochs=2),
    "replay",
)
def _no_gradient_clip() -> Patches:
    yield Update, "clip", property(lambda self: math.inf)


@mutant("whitening maps rows without clipping them", LogisticRegression(
    delta=1e-6, whiten=0.1, norm_bound=1.0), "replay")  # fmt: skip
def _whitening() -> Patches:
    yield from _believing()
    yield whitening, "clip_rows", lambda rows, bound: rows


@mutant("batch sums divided by the realised batch size", POISSON, "replay")
def _realised() -> Patches:
    def of(scheduled: Any, normaliser: float) -> Any:
        edges = np.zeros(len(scheduled) + 1, dtype=np.int64)
        sizes = np.array([len(batch) for batch in scheduled])
        np.cumsum(sizes, out=edges[1:])
        order = np.concatenate(scheduled).astype(np.int64)
        return Batches(edges, np.maximum(sizes, 1).astype(float), order)

    yield Batches, "of", staticmethod(of)


@mutant(
    "the true n sets the regularization under add-remove",
    LogisticRegression(mechanism="output", adjacency="add-remove", population=300, norm_bound=1.0),
    "replay",
)
def _true_size() -> Patches:
    yield Adjacency, "size_is_public", property(lambda self: True)


# --- solver --------------------------------------------------------------------------------------


def _one_step(loss: Any, X: Any, y: Any, **options: Any) -> Any:
    """One Newton step, called converged."""
    lam = options["regularization"]
    rows = X.toarray() if hasattr(X, "toarray") else np.asarray(X, dtype=float)
    problem = Problem(loss, rows, y, lam, options.get("sample_weight"))
    w, b = np.zeros(problem.shape), options.get("linear")
    g = problem.gradient(w) + (0.0 if b is None else b)
    w = w - np.linalg.solve(problem.hessian(w), g.ravel()).reshape(problem.shape)
    return solving.Solution(w, options["tolerance"], options["tolerance"] / lam, 0.0)


@mutant("solver stopped early (output perturbation)", PURE, "solver")
def _early_output() -> Patches:
    yield passage, "minimise", _one_step


@mutant("solver stopped early (objective perturbation)", OBJECTIVE, "solver")
def _early_objective() -> Patches:
    yield passage, "minimise", _one_step


@mutant("solver gives up and returns 0 where the data are hard", PURE, "solver")
def _gives_up() -> Patches:
    real = passage.minimise

    def minimise(loss: Any, X: Any, y: Any, **options: Any) -> Any:
        found = real(loss, X, y, **options)
        if float(np.linalg.norm(found.weights)) > 1.0:
            found = replace(found, weights=np.zeros_like(found.weights))
        return found

    yield passage, "minimise", minimise


# --- counting ------------------------------------------------------------------------------------


def _uncounted(self: Any, part: int, count: int, *, seeded: bool, bound: str) -> Any:
    """`Permit.take` that forgets to count."""
    self._seeded |= seeded
    self._bounds[bound] = None
    return self.leaf(part).mechanism


@mutant("noise drawn before the charge", PURE, "exposed")
def _before() -> Patches:
    real = linear_model.train

    def train(algorithm: Any, public: Any, records: Any, **options: Any) -> Any:
        law = output.noise_for(public, public.dimension)
        law.noise(1, public.dimension, 1.0, options["randomness"].generator)
        return real(algorithm, public, records, **options)

    yield linear_model, "train", train


@mutant("the budget is used twice and the answers averaged", PURE, "exposed")
def _twice() -> Patches:
    def release(bounded: Any, permit: Any, randomness: Any, *, part: int = 0) -> Any:
        both = [door.release(bounded, permit, randomness, part=part) for _ in range(2)]
        return 0.5 * (both[0] + both[1])

    yield Permit, "take", _uncounted
    yield passage, "release", release


@mutant("each class gets the whole epsilon", THREE, "replay")
def _whole() -> Patches:
    yield Permit, "take", _uncounted
    yield objective, "_plan", lambda noise, hiding, models: Together(Run(noise), Run(hiding))
    yield objective, "_shared_multiplier", lambda noise, *given: noise.noise_multiplier


@mutant("shuffled batches counted as Poisson (the sampler)", POISSON, "sampling-law")
def _shuffled() -> Patches:
    waiting: list[Any] = []

    def schedule(self: Any, size: int, randomness: Any) -> Any:
        if not waiting or max(map(max, waiting)) >= size:
            order = randomness.generator.permutation(size)
            waiting[:] = np.array_split(order, max(1, round(1.0 / self.rate)))
        yield waiting.pop()

    yield Poisson, "schedule", schedule


@mutant(
    "shuffled batches counted as Poisson (the accountant)",
    SGDClassifier(delta=1e-5, sampling="shuffle", epochs=3, batch_size=60, norm_bound=1.0),
    "exposed",
)
def _counted_as_poisson() -> Patches:
    def participation(self: Any, adjacency: Any) -> Participation:
        return Participation("poisson", "POISSON-R", rate=1.0 / self.batches)

    yield Shuffle, "participation", participation


@mutant("the sampler's rate is twice the plan's", POISSON, "sampling-law")
def _rate() -> Patches:
    def schedule(self: Any, size: int, randomness: Any) -> Any:
        yield np.flatnonzero(randomness.generator.random(size) < 2.0 * self.rate)

    yield Poisson, "schedule", schedule


@mutant("batches of one pass overlap", SGDClassifier(norm_bound=1.0), "sampling-law")
def _overlap() -> Patches:
    def order(self: Any, size: int, randomness: Any) -> Any:
        return randomness.generator.integers(size, size=size)

    yield Disjoint, "order", order


@mutant(
    "last iterate counted, mean of all released",
    SGDClassifier(
        delta=1e-5, sampling="shuffle", epochs=2, batch_size=60, released="last", norm_bound=1.0
    ),
    "replay",
)
def _mean_released() -> Patches:
    yield noisy_sgd, "_check_last", lambda *given: None
    yield recommend_sgd, "Update", lambda **given: Update(**given | {"averaging": 3.0})
