"""How long does the first import take? noisette against scikit-learn, in fresh processes."""

import os
import statistics
import subprocess
import sys
import tempfile
import time

PEER = "sklearn.linear_model"
CANDIDATES = ["noisette", "noisette.privacy", "noisette.accounting", PEER]


def seconds(module: str, runs: int = 7) -> float:
    """Return the median wall time of `python -c "import module"` minus an empty start."""

    def one(code: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - start

    one(f"import {module}")  # warm the file cache
    loaded = statistics.median(one(f"import {module}") for _ in range(runs))
    return max(0.0, loaded - statistics.median(one("pass") for _ in range(runs)))


def beyond_the_peer(runs: int = 7) -> float:
    """Return the median processor time of our import once the peer is there, bytecode written."""
    code = (
        f"import time, {PEER}; t = time.process_time(); "
        "from noisette import LogisticRegression; print(time.process_time() - t)"
    )
    with tempfile.TemporaryDirectory() as cache:
        kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment = kept | {"PYTHONPYCACHEPREFIX": cache}

        def one() -> float:
            command = [sys.executable, "-c", code]
            done = subprocess.run(command, check=True, capture_output=True, env=environment)
            return float(done.stdout)

        one()  # writes the bytecode, as an installation does
        return statistics.median(one() for _ in range(runs))


def main() -> None:
    peer = seconds(PEER)
    print(f"{'import':<24}{'ms':>8}{'ratio to ' + PEER:>34}")
    for module in CANDIDATES:
        took = peer if module == PEER else seconds(module)
        print(f"{module:<24}{took * 1e3:>8.0f}{took / peer:>34.2f}")
    print("target: noisette below 0.50")
    extra = beyond_the_peer()
    verdict = "met" if extra <= 0.1 else "missed"
    print(f"LogisticRegression beyond {PEER}: {extra:.3f} s of processor time, goal 0.1: {verdict}")


if __name__ == "__main__":
    main()
