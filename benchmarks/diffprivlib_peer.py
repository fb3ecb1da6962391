"""diffprivlib's LogisticRegression on the very same encoded data, in an environment of its own.

Run: ``NOISETTE_DATA=/path/to/data python benchmarks/diffprivlib_peer.py --out peer.json``.
diffprivlib 0.6.6 does not import with current scikit-learn, so the script builds a virtual
environment in a temporary folder (diffprivlib==0.6.6, scikit-learn==1.7.2), hands the encoded
splits over as .npz files and writes one JSON file, which ``benchmarks/linear.py --peer`` reads. If
the environment cannot be built it says so and ends with status 0: the comparison is optional.

What is compared: diffprivlib's defaults (C=1, fit_intercept=True, one-vs-rest with epsilon/K per
class) with ``data_norm=1``, pure epsilon. Its intercept is not regularised, so the theorem that it
relies on does not hold and the epsilon it prints is not what it delivers: its accuracy is a
comparison of usefulness, not at equal privacy.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
import warnings
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

PINS = ("diffprivlib==0.6.6", "scikit-learn==1.7.2")
DATASETS = ("adult", "kddcup99", "covertype", "bank", "credit", "mnist")


def worker(archive: str, epsilons: list[float], seed: int) -> None:
    """Inside the other environment: fit once per epsilon, print one JSON line each."""
    import numpy as np
    from diffprivlib.models import LogisticRegression

    data = np.load(archive)
    for epsilon in epsilons:
        model = LogisticRegression(epsilon=epsilon, data_norm=1.0, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            start = time.process_time()
            model.fit(data["X"], data["y"])
            seconds = time.process_time() - start
            accuracy = float(model.score(data["X_test"], data["y_test"]))
        row = {"epsilon": epsilon, "accuracy": accuracy, "cpu_seconds": seconds}
        print(json.dumps(row), flush=True)


def build(folder: Path) -> Path | None:
    """Return the Python of a new environment with the peer installed, or None with a message."""
    environment = folder / "venv"
    venv.create(environment, with_pip=True)
    python = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PINS]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    check = [str(python), "-c", "import diffprivlib.models"]
    if done.returncode or subprocess.run(check, capture_output=True, check=False).returncode:
        reason = done.stderr.strip().splitlines()
        print(f"skipped: {' and '.join(PINS)} could not be installed; no column for diffprivlib.")
        print("  " + (reason[-1] if reason else "import diffprivlib.models failed"))
        return None
    return python


def run(python: Path, folder: Path, options: argparse.Namespace) -> list[dict[str, object]]:
    """Fit every dataset, seed and epsilon; a split that fails is reported and left out."""
    import numpy as np

    import real as datasets

    rows: list[dict[str, object]] = []
    archive = folder / "split.npz"
    for seed in range(options.seeds):
        for name in options.datasets:
            data = datasets.load(name, options.data_home, seed=seed)
            np.savez(archive, X=data.X, y=data.y, X_test=data.X_test, y_test=data.y_test)
            command = [str(python), __file__, "--worker", str(archive), "--seed", str(seed)]
            command += ["--epsilons", *(str(epsilon) for epsilon in options.epsilons)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                last = (done.stderr.strip().splitlines() or ["no message"])[-1]
                print(f"{name}, seed {seed}: failed: {last}", flush=True)
            for line in done.stdout.splitlines():
                row = {"dataset": name, "seed": seed, **json.loads(line)}
                print(f"{name:>12} seed {seed} epsilon {row['epsilon']}: {row['accuracy']:.4f}")
                rows.append(row)
            save(options.out, rows)
    return rows


def save(path: Path, rows: list[dict[str, object]]) -> None:
    """Write what is there so far, so that a stopped run is not lost."""
    facts = {"peer": " ".join(PINS), "delta": 0.0, "rows": rows}
    path.write_text(json.dumps(facts, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("diffprivlib_peer.json"))
    parser.add_argument("--data-home", default=None)
    parser.add_argument("--datasets", nargs="+", default=list(DATASETS))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 0.5, 1.0, 2.0, 8.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--worker", default=None, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker is not None:
        worker(options.worker, options.epsilons, options.seed)
        return
    with tempfile.TemporaryDirectory() as folder:
        python = build(Path(folder))
        if python is None:
            sys.exit(0)
        rows = run(python, Path(folder), options)
    print(f"{len(rows)} fits written to {options.out}")


if __name__ == "__main__":
    main()
