"""How long does the first import take? noisette against scikit-learn, in fresh processes."""

import statistics
import subprocess
import sys
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


def main() -> None:
    peer = seconds(PEER)
    print(f"{'import':<24}{'ms':>8}{'ratio to ' + PEER:>34}")
    for module in CANDIDATES:
        took = peer if module == PEER else seconds(module)
        print(f"{module:<24}{took * 1e3:>8.0f}{took / peer:>34.2f}")
    print("target: noisette below 0.50")


if __name__ == "__main__":
    main()
