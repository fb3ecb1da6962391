"""Examples for the registries, processes for the fork tests, and small oracles."""

import contextlib
import csv
import io
import itertools
import math
import multiprocessing
import os
import pickle
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from noisette.core import plans, sampling
from noisette.core.adjacency import ADD_REMOVE, REPLACE_ONE, ZERO_OUT, Adjacency
from noisette.core.bounded import Bounded
from noisette.core.door import watching as at_the_door
from noisette.core.ledger import Ledger
from noisette.core.mechanisms import (
    Exponential,
    Gaussian,
    GaussianThreshold,
    Laplace,
    LaplaceVector,
    Mechanism,
    ObjectiveNoise,
    RandomizedResponse,
    SphericalLaplace,
)
from noisette.errors import Unproven

RELATIONS = (REPLACE_ONE, ZERO_OUT, ADD_REMOVE)

# The contract tests fail if a registry has an entry without an example here.
MECHANISM_EXAMPLES: dict[str, list[Mechanism]] = {
    "gaussian": [Gaussian(1.0), Gaussian(0.4), Gaussian(30.0)],
    "gaussian-threshold": [
        GaussianThreshold(1.0, 1e-6),
        GaussianThreshold(3.0, 0.02, 2),
        GaussianThreshold(2.0, 1e-3, 3, 4),
    ],
    "laplace": [Laplace(1.0), Laplace(0.5), Laplace(20.0)],
    "laplace-vector": [LaplaceVector(1.0), LaplaceVector(0.5), LaplaceVector(20.0)],
    "spherical-laplace": [
        SphericalLaplace(1.0, 1),
        SphericalLaplace(0.7, 2),
        SphericalLaplace(1.0, 3),
        SphericalLaplace(0.25, 20),
    ],
    "exponential": [Exponential(1.0), Exponential(0.1), Exponential(4.0), Exponential(2.0, True)],
    "objective-noise": [
        ObjectiveNoise(2.0, 3, "spherical-laplace", 0.3),
        ObjectiveNoise(2.0, 3, "spherical-laplace", 0.3, "one-signed"),
        ObjectiveNoise(3.0, 3, "gaussian", 0.1),
        ObjectiveNoise(3.0, None, "gaussian", 0.1),
        ObjectiveNoise(2.0, None, "spherical-laplace", 0.3),
    ],
    "randomized-response": [RandomizedResponse(1.0), RandomizedResponse(2.5, 7)],
}

SAMPLER_EXAMPLES: dict[str, list[sampling.Sampler]] = {
    "cyclic": [sampling.Cyclic(3), sampling.Cyclic(4, 3)],
    "disjoint": [
        sampling.Disjoint(3),
        sampling.Disjoint(4, 3, permute=True),
        sampling.Disjoint(4, 3, permute=True, run=4),
    ],
    "full": [sampling.FullBatch()],
    "partial-shuffle": [sampling.PartialShuffle(4, 10), sampling.PartialShuffle(5, 10, 2)],
    "poisson": [sampling.Poisson(0.3), sampling.Poisson(1.0)],
    "random-allocation": [sampling.RandomAllocation(3), sampling.RandomAllocation(40)],
    "shuffle": [sampling.Shuffle(3), sampling.Shuffle(4, 3)],
    "without-replacement": [
        sampling.WithoutReplacement(4, 10),
        sampling.WithoutReplacement(10, 10),
    ],
}
SAMPLER_SIZE = 10
"""Every sampler example accepts this many records."""

PLAN_EXAMPLES: dict[str, list[plans.Plan]] = {
    "run": [plans.Run(Gaussian(2.0)), plans.Run(Laplace(3.0), adjacency=ZERO_OUT)],
    "sampled": [plans.Sampled(Gaussian(2.0), sampling.Poisson(0.1))],
    "declared": [plans.Declared(0.5), plans.Declared(0.5, 1e-7, by="somebody else")],
    "last-iterate": [
        plans.LastIterate(
            Gaussian(2.0), sampling.Shuffle(5), epochs=3, loss="logistic", learning_rate=0.1
        ),
        plans.LastIterate(
            Gaussian(2.0),
            sampling.Cyclic(4, 3),
            epochs=2,
            loss="logistic",
            learning_rate=(0.2, 0.1),
            size=10,
        ),
    ],
    "repeat": [plans.Repeat(plans.Repeat(Laplace(30.0), 2), 3)],
    "parallel": [plans.Parallel(Laplace(30.0), plans.Repeat(Gaussian(9.0), 2))],
    "selected": [
        plans.Selected(Laplace(30.0), law=plans.Logarithmic(10.0)),
        plans.Selected(
            plans.Parallel(Gaussian(9.0), Laplace(3.0)),
            plans.Parallel(plans.Repeat(Gaussian(9.0), 2), Laplace(3.0)),
            law=plans.NegativeBinomial(4.0, -0.5),
        ),
    ],
    "together": [plans.Together(Laplace(30.0), plans.Repeat(Gaussian(9.0), 2))],
}


def pairwise_covered(*levels: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Settings in which every two levels of any two factors meet, not every combination."""
    factors = list(itertools.combinations(range(len(levels)), 2))
    places = {
        place: {(i, place[i], j, place[j]) for i, j in factors}
        for place in itertools.product(*(range(len(some)) for some in levels))
    }
    missing = set().union(*places.values())
    chosen = []
    while missing:
        best = max(places, key=lambda place, left=frozenset(missing): len(places[place] & left))
        missing -= places[best]
        chosen.append(tuple(some[k] for some, k in zip(levels, best, strict=True)))
    return chosen


def proven(mechanism: Mechanism) -> list[Adjacency]:
    """Return the relations under which `mechanism` has a proof."""
    found = []
    for relation in RELATIONS:
        try:
            mechanism.pure_epsilon(relation)
        except Unproven:
            continue
        found.append(relation)
    return found


def worst_losses(
    mechanism: Mechanism, adjacency: Adjacency, count: int, generator: np.random.Generator
) -> np.ndarray:
    """Draw the privacy loss of worst neighbours from the mechanism's *own* noise, C = 1."""
    c = float(adjacency.contributions)
    if isinstance(mechanism, ObjectiveNoise):
        # The order without the record is the additive release itself, and it is attained.
        return worst_losses(mechanism.additive, ZERO_OUT, count, generator)
    if isinstance(mechanism, Gaussian):
        x = mechanism.noise(count, 1, 1.0, generator)[:, 0]
        return ((x - c) ** 2 - x**2) / (2.0 * mechanism.noise_multiplier**2)
    if isinstance(mechanism, GaussianThreshold):
        # Everybody but one shares a key per column; that one changes it, or is alone with it.
        return threshold_losses(mechanism, adjacency, count, generator)
    if isinstance(mechanism, Laplace | SphericalLaplace):
        d = getattr(mechanism, "dimension", 1)
        x = mechanism.noise(count, d, 1.0, generator)
        radius = np.linalg.norm(x, axis=1)
        x[:, 0] -= c
        return (np.linalg.norm(x, axis=1) - radius) / mechanism.noise_multiplier
    if isinstance(mechanism, LaplaceVector):  # all of the l1 bound in one of two entries
        value = Bounded(np.zeros((count, 2)), adjacency, "CLIP", l1=c)
        x = mechanism.apply(value, 1.0, generator)[:, 0]
        return (np.abs(x - c) - np.abs(x)) / mechanism.noise_multiplier
    if isinstance(mechanism, RandomizedResponse):
        truth = np.zeros(count, dtype=np.int64)
        value = Bounded(truth, adjacency, "CLIP", categories=mechanism.categories)
        answer = mechanism.apply(value, 1.0, generator)
        return np.where(
            answer == 0, mechanism.epsilon, np.where(answer == 1, -mechanism.epsilon, 0)
        )
    if isinstance(mechanism, Exponential):
        # Two candidates; a neighbour moves one score up and the other down by D = 1
        # (or one score only, if the scores are monotone).
        scores = np.array([0.0, -0.7 / mechanism.epsilon])
        other = scores + (np.array([-1.0, 0.0]) if mechanism.monotone else np.array([-1.0, 1.0]))
        rate = mechanism.epsilon / (1.0 if mechanism.monotone else 2.0)
        log_p, log_q = (v * rate - np.logaddexp(*(v * rate)) for v in (scores, other))
        value = Bounded(scores, adjacency, "CLIP", linf=1.0)
        chosen = [mechanism.apply(value, 1.0, generator) for _ in range(count)]
        return (log_p - log_q)[chosen]
    raise AssertionError(f"no worst neighbours are known for {mechanism.name}: add them here")


def threshold_losses(
    mechanism: GaussianThreshold, adjacency: Adjacency, count: int, generator: np.random.Generator
) -> np.ndarray:
    """Losses of two data sets whose keys are common, so that they pass in both (1e9 holders)."""
    f, unit = mechanism.columns, math.sqrt(mechanism.columns / adjacency.contributions)
    moved = np.ones(f * adjacency.contributions)
    moved[f:] = -1.0  # replace-one: another common key per column loses what this one gains
    counts = np.tile(1e9 + moved, count)
    value = Bounded(counts, adjacency, mechanism.proof, l2=unit * adjacency.contributions)
    seen = mechanism.apply(value, unit, generator).reshape(count, -1)
    noise = (seen - 1e9 - moved) / (mechanism.noise_multiplier * unit)
    mu = moved / (mechanism.noise_multiplier * unit)
    loss = ((noise + mu) ** 2 - noise**2).sum(axis=1) / 2.0
    return np.where(generator.random(count) < mechanism.delta_mass, 700.0, loss)


def in_fork(function: Callable[[], Any]) -> Any:
    """Run `function` in a forked child and return its result (an exception is returned too)."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork in a process with threads
        pid = os.fork()
    if pid == 0:
        try:
            result = function()
        except BaseException as error:
            result = error
        try:
            os.write(write, pickle.dumps(result))
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        raw = pipe.read()
    os.waitpid(pid, 0)
    return pickle.loads(raw)


def forked(work: Callable[..., None], *given: Any) -> BaseProcess:
    """Start a process that does `work`: one that can be killed, without two seconds of imports."""
    process = multiprocessing.get_context("fork").Process(target=work, args=given, daemon=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork in a process with threads
        process.start()
    return process


def run_code(code: str, *words: str) -> "Done":
    """Run code in a forked process as ``python -c`` does, and wait for its end."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:

        def work() -> None:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            sys.stdout, sys.stderr = (os.fdopen(n, "w", closefd=False) for n in (1, 2))
            sys.argv = ["-c", *words]
            exec(compile(code, "<code>", "exec"), {"__name__": "__main__"})

        process = forked(work)
        process.join()
        said = []
        for file in (out, err):
            file.seek(0)
            said.append(file.read().decode())
    assert process.exitcode is not None
    return Done(process.exitcode, *said)


def draw(randomness: Any) -> bytes:
    """Draw a little noise in a worker and return its exact bits."""
    return np.asarray(randomness.generator.standard_normal(8)).tobytes()


def assert_one_sentence(error: BaseException, *quoted: str) -> None:
    """The text is one sentence that ends with a full stop and quotes the offending value."""
    text = str(error)
    assert text.endswith("."), text
    assert "\n" not in text
    assert not re.search(r"[.!?]\s+[A-Z]", text), f"more than one sentence: {text}"
    for piece in quoted:
        assert piece in text, f"{piece!r} is missing in: {text}"


def hockey_stick_of_gaussians(mu: float, epsilon: float) -> float:
    """Phi(mu/2 - e/mu) - e^e Phi(-mu/2 - e/mu), as the textbook writes it."""
    first = 0.5 * math.erfc(-(mu / 2 - epsilon / mu) / math.sqrt(2))
    second = 0.5 * math.erfc((mu / 2 + epsilon / mu) / math.sqrt(2))
    return first - math.exp(epsilon) * second


def write_table(path: Path, columns: dict[str, Any], rows: slice = slice(None)) -> Path:
    """Write named columns (or some of their rows) as a CSV file with a header."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*(column[rows].tolist() for column in columns.values()), strict=True))
    return path


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


def run_command(*arguments: Any) -> Done:
    """Call the entry point in this process: the same code as the command, without the start."""
    from noisette.app.commands import main

    out, err = io.StringIO(), io.StringIO()
    argv = mock.patch.object(sys, "argv", ["noisette", *map(str, arguments)])
    with argv, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
    return Done(code, out.getvalue(), err.getvalue())


def run(*arguments: Any, code: int = 0) -> tuple[str, str]:
    """Run a command that must end with `code`; return (stdout, stderr)."""
    done = run_command(*arguments)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout, done.stderr


def mistake(*arguments: Any) -> str:
    """Run a command that must fail with one sentence; return the sentence."""
    out, err = run(*arguments, code=2)
    assert out == ""
    assert err.startswith("noisette: ")
    assert err.strip().count("\n") == 0
    assert "Traceback" not in err
    return err


@contextlib.contextmanager
def watching(watcher: Any) -> Iterator[Any]:
    """Have `watcher`, unless None, see what is charged, released, solved and stepped inside."""
    with contextlib.ExitStack() as stack:
        if hasattr(watcher, "charge"):
            real = Ledger.charge
            stack.enter_context(
                mock.patch.object(
                    Ledger, "charge",
                    lambda ledger, *given, **more: watcher.charge(
                        partial(real, ledger), *given, **more
                    ),
                )
            )  # fmt: skip
        if watcher is not None:
            stack.enter_context(at_the_door(watcher))
        yield watcher


def card_evaluator() -> Any:
    """Return `score` of docs/additive.md, as it stands there: what a scoring card adds up to."""
    page = (Path(__file__).parents[1] / "docs" / "additive.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.S)
    namespace: dict[str, Any] = {}
    exec(next(block for block in blocks if "def pairs" in block), namespace)
    return namespace["score"]
