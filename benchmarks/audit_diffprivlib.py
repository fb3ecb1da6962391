"""Audit another library: diffprivlib's LogisticRegression, with one battery for all settings.

Run: ``python benchmarks/audit_diffprivlib.py``. diffprivlib 0.6.6 does not import with current
scikit-learn, so the fits run in an interpreter of their own: ``--peer-python PATH``, or a virtual
environment that the script builds in a temporary folder (diffprivlib==0.6.6, scikit-learn==1.7.2).
That process only fits models and returns coefficients; the auditor runs here.

The code of the battery is generic, but whoever chose its settings and data sets knew the library's
faults. It starts from a plain setting (two classes, data norm 1, no intercept, one process),
changes one thing at a time and tries four pairs of neighbouring data sets on each. No statistic is
given: the pilot runs search for the event. Settings whose claim is refuted are measured again with
fresh runs, to say how large epsilon really is at least. All of it is some 400,000 fits, about half
an hour on one core; ``--only``, ``--runs``, ``--scale`` do less.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import venv
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

PINS = ("diffprivlib==0.6.6", "scikit-learn==1.7.2")
EPSILON = 1.0
SCREENING_ERROR = 0.01  # of the whole battery: chance of any false alarm


def worker() -> None:
    """Inside the other environment: one JSON request per line, one JSON answer per line."""
    import numpy as np
    from diffprivlib.models import LogisticRegression

    warnings.simplefilter("ignore")
    for line in sys.stdin:
        request = json.loads(line)
        model = LogisticRegression(**request["parameters"])
        model.fit(np.array(request["X"]), np.array(request["y"]))
        answer = {"coef": model.coef_.tolist(), "intercept": model.intercept_.tolist()}
        print(json.dumps(answer), flush=True)


def build(folder: Path) -> Path | None:
    """Return the Python of a new environment with the peer installed, or None with a message."""
    environment = folder / "venv"
    venv.create(environment, with_pip=True)
    python = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PINS]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        print(f"skipped: {' and '.join(PINS)} could not be installed ({reason}).")
        return None
    return python


class Peer:
    """A process of the other environment that fits models."""

    def __init__(self, python: Path) -> None:
        self._process = subprocess.Popen(
            [str(python), __file__, "--worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def fit(self, parameters: dict[str, Any], X: Any, y: Any) -> dict[str, Any]:
        """Return the coefficients of one fit."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"parameters": parameters, "X": X.tolist(), "y": y.tolist()}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("the other environment stopped; see its message above.")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)


class PeerModel:
    """An estimator here whose ``fit`` happens there."""

    def __init__(self, peer: Peer, parameters: dict[str, Any]) -> None:
        self._peer, self._parameters = peer, parameters

    def fit(self, X: Any, y: Any) -> PeerModel:
        """Fit in the other environment and keep what it released."""
        import numpy as np

        answer = self._peer.fit(self._parameters, X, y)
        self.coef_ = np.array(answer["coef"])
        self.intercept_ = np.array(answer["intercept"])
        return self


@dataclass(frozen=True)
class Setting:
    """One way to use the audited class; `runs` is what the screening may spend in each world."""

    name: str
    norm: float = 1.0
    intercept: bool = False
    classes: int = 2
    n_jobs: int | None = None
    runs: int = 10_000

    @property
    def parameters(self) -> dict[str, Any]:
        """Constructor arguments of the audited class."""
        return {
            "epsilon": EPSILON,
            "data_norm": self.norm,
            "fit_intercept": self.intercept,
            "n_jobs": self.n_jobs,
        }


# One change at a time, so that a finding names its cause. Three classes are three fits, and worker
# processes make each ten times slower, so these settings get fewer runs.
SETTINGS = (
    Setting("plain"),
    Setting("data norm 100", norm=100.0),
    Setting("intercept", intercept=True),
    Setting("three classes", classes=3, runs=1200),
    Setting("three classes, n_jobs=2", classes=3, n_jobs=2, runs=240),
)


def worlds(setting: Setting) -> dict[str, tuple[Any, Any]]:
    """Pairs of neighbours (one row replaced): the same canaries for every setting."""
    import numpy as np

    # As few rows as the class accepts: the fewer there are, the more one of them can matter.
    norm, labels = setting.norm, np.arange(setting.classes)
    zero = np.zeros((setting.classes, 1))
    canary = zero.copy()
    canary[1] = norm
    push = np.where(labels == 1, norm, -norm)[:, None].astype(float)
    blank, against = push.copy(), push.copy()
    blank[1] = 0.0
    against[1] = -norm
    twice = np.append(labels, 1)
    flipped = np.append(labels, 0)
    zeros = np.zeros((len(twice), 1))
    return {
        "one long row among zeros": ((zero, labels), (canary, labels)),
        "one zero row in a saturated push": ((push, labels), (blank, labels)),
        "one row against a saturated push": ((push, labels), (against, labels)),
        "one label changed, rows of zeros": ((zeros, twice), (zeros, flipped)),
    }


def screen(peer: Peer, scale: float, only: list[str]) -> Iterator[tuple[Setting, str, Any]]:
    """Audit the settings on every pair of worlds; stop each audit when the claim is refuted.

    The error is split over all settings, also if only some of them run.
    """
    from noisette.audit import two_worlds

    total = sum(len(worlds(setting)) for setting in SETTINGS)
    for setting in SETTINGS:
        if setting.name not in only:
            continue
        for name, (D, D_prime) in worlds(setting).items():
            runs = max(40, int(scale * setting.runs))
            found = two_worlds(
                lambda setting=setting: PeerModel(peer, setting.parameters),
                D,
                D_prime,
                claim=EPSILON,
                runs=runs,
                pilot=3 * runs // 8,
                confidence=1.0 - SCREENING_ERROR / total,
                progress=True,
                name=f"{setting.name}/{name}",
            )
            yield setting, name, found
            if any(each.verdict == "violated" for each in found.findings):
                break  # this setting's claim is refuted; the second stage measures it


def measure(peer: Peer, setting: Setting, name: str, runs: int) -> Any:
    """Measure how large epsilon is at least, on fresh runs and without stopping."""
    from noisette.audit import two_worlds

    D, D_prime = worlds(setting)[name]
    return two_worlds(
        lambda: PeerModel(peer, setting.parameters),
        D,
        D_prime,
        claim=EPSILON,
        runs=runs,
        pilot=runs // 4,
        confidence=0.99,
        early_stop=False,
        progress=True,
        name=f"{setting.name}/{name}",
    )


@contextmanager
def peer_of(python: Path | None) -> Iterator[Peer | None]:
    """The process that fits, in a given environment or in a new one."""
    with tempfile.TemporaryDirectory() as folder:
        found = python if python is not None else build(Path(folder))
        if found is None:
            yield None
            return
        peer = Peer(found)
        try:
            yield peer
        finally:
            peer.close()


def main() -> None:
    """Screen, measure what was refuted, print two tables, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer-python", type=Path, default=None)
    parser.add_argument("--runs", type=int, default=60_000, help="of the second stage")
    parser.add_argument("--scale", type=float, default=1.0, help="times the screening runs")
    names = [setting.name for setting in SETTINGS]
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="some settings")
    parser.add_argument("--out", type=Path, default=None, help="write all findings as JSON")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker()
        return
    kept: list[dict[str, object]] = []
    with peer_of(options.peer_python) as peer:
        if peer is None:
            return
        print(f"screening at claimed epsilon {EPSILON:g}, chance of any false alarm <= 1 %")
        refuted: dict[Setting, str] = {}
        for setting, name, found in screen(peer, options.scale, options.only):
            for finding in found.findings:
                kept.append({"stage": "screening", **finding.to_dict()})
                if finding.verdict == "violated":
                    refuted[setting] = name
            wrong = [each for each in found.findings if each.verdict == "violated"]
            for shown in wrong or [found.finding]:
                print(f"{shown.verdict:>10}  {setting.name:<24} {name:<34} {found.runs:>6} fits")
                print(f"            {shown.detail}", flush=True)
        print(f"\nmeasuring {len(refuted)} refuted settings with fresh runs, confidence 99 %")
        for setting, name in refuted.items():
            runs = options.runs if setting.n_jobs is None else min(options.runs, 800)
            found = measure(peer, setting, name, runs)
            for finding in found.findings:
                kept.append({"stage": "measurement", **finding.to_dict()})
            for shown in found.findings:
                print(
                    f"{setting.name:<24} epsilon >= {shown.epsilon_lower:.2f} ({found.runs} fits)"
                )
                print(f"            {shown.attack}: {shown.detail}", flush=True)
    if options.out is not None:
        options.out.write_text(json.dumps({"peer": " ".join(PINS), "findings": kept}, indent=1))


if __name__ == "__main__":
    main()
