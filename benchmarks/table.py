"""The table of speed and memory: what private training costs now, goal and verdict.

``python benchmarks/table.py`` prints every line (about half an hour on a busy machine; names of
groups measure only those). ``--short`` measures small cases in some twelve seconds of processor
time and fails when a ratio is more than twice the one in ``benchmarks/recorded.toml``; ``.ci/run``
calls it. ``--record`` writes that file anew.

Ratios are of processor time, one thread, noise included: each side is run in turns with its peer
and the least of its runs counts, so that a busy machine matters little. Lines of seconds have no
peer and do feel the load.
"""

# ruff: noqa: E402  (the thread count must be set before NumPy is imported)
from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"

import argparse
import itertools
import subprocess
import sys
import tempfile
import time
import tomllib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

RECORDED = Path(__file__).with_name("recorded.toml")
WORSE = 2.0  # how many times the recorded ratio the short form lets pass
TRIES = 3  # a ratio that is too large is measured again: only a lasting one is a fault
LONG, BRIEF = 20.0, 1.0  # seconds for which a pair is repeated, after three runs of each
ACCURACY = 88.6  # the best published linear model of MNIST at epsilon 1, in per cent


class Line(NamedTuple):
    """One line of the table; `value` is None where `note` says why there is none."""

    what: str
    value: float | None
    unit: str
    goal: float
    least: bool = False
    note: str = ""

    def __str__(self) -> str:
        sign = ">=" if self.least else "<="
        goal = f"{sign} {self.goal:g} {self.unit}".rstrip()
        if self.value is None:
            return f"| {self.what} | {self.note} | {goal} | not measured |"
        met = self.value >= self.goal if self.least else self.value <= self.goal
        shown = f"{self.value:,.0f}" if self.value >= 1000 else f"{self.value:.3g}"
        now = f"{shown} {self.unit}".rstrip()
        return f"| {self.what} | {now} | {goal} | {'met' if met else 'missed'} |"


def in_turns(tasks: list[Callable[[], Any]], seconds: float, most: int = 15) -> list[float]:
    """Return the least processor time of each task, of three runs at least."""
    best, end = [np.inf] * len(tasks), time.monotonic() + seconds
    for run in range(most):
        if run >= 3 and time.monotonic() > end:
            break
        for i, task in enumerate(tasks):
            start = time.process_time()
            task()
            best[i] = min(best[i], time.process_time() - start)
    return best


def ratio(ours: Callable[[], Any], theirs: Callable[[], Any], seconds: float) -> float:
    """Return our processor time over theirs, both warm."""
    ours(), theirs()
    mine, other = in_turns([ours, theirs], seconds)
    return mine / other


# --- linear models --------------------------------------------------------------------------------


def one_pass(n: int, d: int, b: int, seconds: float = LONG) -> float:
    """One private pass against scikit-learn's, whole fits."""
    import sgd

    X, y = sgd.unit_rows(n, d)
    mine = sgd.SGDClassifier(epsilon=1.0, batch_size=b, classes=[0, 1], norm_bound=1.0)
    peer = sgd.Peer(loss="log_loss", max_iter=1, tol=None, alpha=1e-4)
    return ratio(lambda: mine.fit(X, y), lambda: peer.fit(X, y), seconds)


def threads(n: int = 60_000, d: int = 784) -> float:
    """How many times faster a pass is whose noise has a thread of its own; equal to the bit.

    By the clock, which a busy machine makes worthless, so never more than processor time allows:
    all of it over that of the longer of the two threads.
    """
    import sgd
    from noisette.fitting.algorithms import single_pass

    X, y = sgd.unit_rows(n, d)
    worth, best, weights = single_pass._WORTH_A_THREAD, {}, []
    for _, bound in itertools.product(range(4), (worth, sys.maxsize)):
        single_pass._WORTH_A_THREAD = bound
        model = sgd.SGDClassifier(batch_size=1, classes=[0, 1], norm_bound=1.0, random_state=0)
        start = time.perf_counter()
        weights.append(model.fit(X, y).coef_)
        best[bound] = min(best.get(bound, np.inf), time.perf_counter() - start)
    single_pass._WORTH_A_THREAD = worth
    assert all(np.array_equal(found, weights[0]) for found in weights)
    whole, noise = in_turns([lambda: model.fit(X, y), sgd.noise_alone(n, d, 1)], 10.0)
    return float(min(best[sys.maxsize] / best[worth], whole / max(noise, whole - noise)))


def logistic(X: Any, y: Any, delta: float, seconds: float = LONG, **options: Any) -> float:
    """A one-shot fit, calibration remembered, against lbfgs at the same regularisation."""
    from sklearn.linear_model import LogisticRegression as Peer

    from noisette.models import LogisticRegression

    mine = LogisticRegression(
        1.0, delta, norm_bound=1.0, classes=np.unique(y).tolist(), random_state=0, **options
    ).fit(X, y)
    ridge = getattr(mine, "regularization_", None) or 1e-6
    peer = Peer(C=1.0 / (len(y) * ridge), max_iter=1000)
    return ratio(lambda: mine.fit(X, y), lambda: peer.fit(X, y), seconds)


def hinge(X: Any, y: Any, seconds: float = LONG) -> float:
    """A one-shot hinge machine against liblinear at the same regularisation."""
    from sklearn.svm import LinearSVC as Peer

    from noisette.models import LinearSVC

    mine = LinearSVC(1.0, loss="hinge", norm_bound=1.0, classes=np.unique(y).tolist())
    mine.fit(X, y)
    strength = 1.0 / (len(y) * mine.regularization_)
    peer = Peer(loss="hinge", C=strength, max_iter=100_000, random_state=0)
    return ratio(lambda: mine.fit(X, y), lambda: peer.fit(X, y), seconds)


def data_of(name: str) -> Any:
    import real as datasets

    return datasets.load(name)


def passes() -> Iterator[Line]:
    shapes = ((10_000, 5), (60_000, 15), (60_000, 784))
    for b, goals in ((10, (0.35,) * 3), (50, (0.25,) * 3), (1, (0.9, 0.9, 2.0))):
        for (n, d), goal in zip(shapes, goals, strict=True):
            yield Line(f"one pass, b = {b}, {n:,} x {d} / sklearn", one_pass(n, d, b), "", goal)
    if len(os.sched_getaffinity(0)) > 1:
        what = "two threads, one pass, b = 1, d = 784: times faster"
        yield Line(what, threads(), "", 1.7, least=True)


def one_shot() -> Iterator[Line]:
    for name in ("bank", "credit", "adult"):
        data = data_of(name)
        for delta in (0.0, 1e-6):
            what = f"one-shot logistic, {name}, delta = {delta:g} / lbfgs"
            yield Line(what, logistic(data.X, data.y, delta, mechanism="objective"), "", 1.0)
    data = data_of("bank")
    for rows in (10_000, len(data.y)):
        found = hinge(data.X[:rows], data.y[:rows])
        yield Line(f"hinge, {rows:,} rows of bank / liblinear", found, "", 2.0)


def softmax() -> Iterator[Line]:
    """One fit each: it takes minutes."""
    from sklearn.linear_model import LogisticRegression as Peer

    from noisette.models import LogisticRegression

    data = data_of("mnist")
    mine = LogisticRegression(
        1.0, 1e-5, norm_bound=1.0, classes=list(range(10)), adjacency="add-remove",
        population=60_000, random_state=0,
    )  # fmt: skip
    start = time.process_time()
    mine.fit(data.X, data.y)
    middle = time.process_time()
    Peer(C=1.0 / (len(data.y) * (mine.regularization_ or 1e-6)), max_iter=1000).fit(data.X, data.y)
    theirs = time.process_time() - middle
    yield Line("MNIST 784 x 10, one-shot / lbfgs", (middle - start) / theirs, "", 3.0)
    score = 100.0 * mine.score(data.X_test, data.y_test)
    yield Line("its accuracy, epsilon 1, add-remove", score, "%", ACCURACY, least=True)


# --- processes of their own -----------------------------------------------------------------------


def child(code: str) -> float:
    """Return the number that a fresh process prints last."""
    command = [sys.executable, "-W", "ignore", "-c", "import time\n" + code]
    return float(subprocess.check_output(command, text=True).split()[-1])


FIRST_FIT = """
import numpy as np
from noisette.models import LogisticRegression
X = np.random.default_rng(0).uniform(-0.1, 0.1, (20000, 50))  # so wide that delta helps
y = np.arange(20000) % 2
def fit(delta):
    start = time.process_time()
    LogisticRegression(1.0, delta, norm_bound=1.0, classes=[0, 1]{how}).fit(X, y)
    return time.process_time() - start
fit(0.0), fit(0.0)
first = fit(1e-6)
print(first - min(fit(1e-6) for _ in range(3)))
"""
ALLOCATION = """
from noisette import accounting, mechanisms, plans, sampling
def plan(z):
    return plans.Repeat(plans.Sampled(mechanisms.Gaussian(z), sampling.RandomAllocation(100)), 10)
start = time.process_time()
accounting.calibrate(plan, epsilon=1.0, delta=1e-5, adjacency="{adjacency}")
print(time.process_time() - start)
"""
IMPORT = """
start = time.process_time()
from {module} import LogisticRegression
print(time.process_time() - start)
"""


def calibration() -> Iterator[Line]:
    for adjacency in ("replace-one", "add-remove"):
        how = ", population=20000" if adjacency == "add-remove" else ""
        code = FIRST_FIT.format(how=f", adjacency='{adjacency}'{how}")
        found = 1e3 * min(child(code) for _ in range(3))
        yield Line(f"first fit with delta > 0, calibration, {adjacency}", found, "ms", 50.0)
    for adjacency, goal in (("add-remove", 0.5), ("replace-one", 2.0)):
        found = child(ALLOCATION.format(adjacency=adjacency))
        yield Line(f"random allocation, 10 x 100 steps, {adjacency}", found, "s", goal)


def imported(module: str, runs: int = 3) -> float:
    return min(child(IMPORT.format(module=module)) for _ in range(runs))


def imports() -> Iterator[Line]:
    over = imported("noisette.linear") - imported("sklearn.linear_model")
    yield Line("import of LogisticRegression over scikit-learn's", over, "s", 0.1)


def network_steps() -> Iterator[Line]:
    import networks

    goals = {("mlp", 256): 1.5, ("mlp", 2048): 1.15, ("cnn", 2048): 1.2}
    for (name, batch), goal in goals.items():
        found = networks.in_process("noisette", name, batch, False)
        what = f"{name.upper()}, batch {batch:,} / plain torch"
        yield Line(what, found.get("ratio"), "", goal, note=str(found.get("failed", "")))


class _Collected:
    """Takes the lines of benchmarks/streaming.py; those without a goal are not in this table."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def line(self, what: str, value: float, unit: str, goal: float | None = None) -> None:
        if goal is not None:
            self.lines.append(Line(what, value, unit, goal))


def command_line() -> Iterator[Line]:
    import streaming

    folder = Path(tempfile.gettempdir()) / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    report: Any = _Collected()
    for option in ("--version", "--help"):
        seconds = min(streaming.noisette(option)["seconds"] for _ in range(3))
        report.line(f"noisette {option}", seconds, "s", 0.2)
    streaming.adult(report, folder)
    streaming.numbers(report, folder, 1_000_000)
    streaming.stages(report, folder, 1_000_000)
    streaming.census(report, folder, streaming.CENSUS_ROWS)
    yield from report.lines


GROUPS: dict[str, Callable[[], Iterator[Line]]] = {
    "passes": passes,
    "one-shot": one_shot,
    "imports": imports,
    "calibration": calibration,
    "networks": network_steps,
    "command-line": command_line,
    "softmax": softmax,
}


def table(groups: list[str]) -> None:
    print(f"load of the machine: {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores\n")
    print("| what | now | goal | verdict |\n|---|---|---|---|", flush=True)
    for group in groups:
        try:
            for line in GROUPS[group]():
                print(line, flush=True)
        except (FileNotFoundError, ImportError) as error:  # data or torch is not here
            print(f"| {group} | {type(error).__name__} | | not measured |", flush=True)


# --- the short form -------------------------------------------------------------------------------


def made_up(n: int, d: int) -> tuple[Any, Any]:
    import sgd

    return sgd.unit_rows(n, d)


def start_up() -> float:
    """``noisette --version`` against a Python that imports NumPy."""
    import streaming

    both = ([sys.executable, "-m", "noisette", "--version"], [sys.executable, "-c", "import numpy"])
    ours, theirs = (
        min(streaming.measured(*command)["seconds"] for _ in range(2)) for command in both
    )
    return float(ours / theirs)


def network_step() -> float:
    import torch

    import networks

    torch.set_num_threads(1)
    ours, plain = networks.noisette_step("mlp", 256), networks.plain_step("mlp", 256)
    return ratio(ours, plain, BRIEF)


SHORT: dict[str, Callable[[], float]] = {
    "one pass, b = 1, 20,000 x 15 / sklearn": lambda: one_pass(20_000, 15, 1, BRIEF),
    "one pass, b = 50, 20,000 x 15 / sklearn": lambda: one_pass(20_000, 15, 50, BRIEF),
    "one pass, b = 1, 2,000 x 784 / sklearn": lambda: one_pass(2_000, 784, 1, BRIEF),
    "one-shot logistic, 20,000 x 30 / lbfgs": lambda: logistic(*made_up(20_000, 30), 0.0, BRIEF),
    "hinge, 2,000 x 10 / liblinear": lambda: hinge(*made_up(2_000, 10), BRIEF),
    "MLP, batch 256 / plain torch": network_step,
    "noisette --version / import numpy": start_up,
    "import noisette.models / sklearn.linear_model": lambda: (
        imported("noisette.linear", 1) / imported("sklearn.linear_model", 1)
    ),
}


def short(*, record: bool) -> int:
    """Print the small cases beside what is recorded; return 1 if one has doubled."""
    known = {} if record else tomllib.loads(RECORDED.read_text())["ratios"]
    worse, lines = [], []
    print("| what | ratio | recorded |\n|---|---|---|")
    for what, measure in SHORT.items():
        limit = WORSE * known.get(what, np.inf)
        found = np.inf
        for _ in range(TRIES):
            found = min(found, measure())
            if found <= limit:
                break
        worse += [what] * (found > limit)
        lines.append(f'"{what}" = {found:.2f}')
        print(f"| {what} | {found:.2f} | {known.get(what, '')} |", flush=True)
    if record:
        head = "# Ratios of processor time: python benchmarks/table.py --short --record"
        RECORDED.write_text("\n".join([head, "[ratios]", *lines]) + "\n")
    for what in worse:
        print(f"more than {WORSE:g} times what is recorded: {what}", file=sys.stderr)
    return int(bool(worse))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", default=[], help=", ".join(GROUPS))
    parser.add_argument("--short", action="store_true", help="small cases against recorded ratios")
    parser.add_argument("--record", action="store_true", help="with --short: write them anew")
    options = parser.parse_args()
    unknown = set(options.groups) - set(GROUPS)
    if unknown:
        parser.error(f"no such group: {', '.join(sorted(unknown))}.")
    warnings.simplefilter("ignore")
    if options.short:
        return short(record=options.record)
    table(options.groups or list(GROUPS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
