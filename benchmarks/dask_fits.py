"""Fits on partitions: one worker against memory, two workers against one, and what they hold.

``python benchmarks/dask_fits.py --rows 5000000`` generates Parquet files of 20 float32 columns in a
temporary folder (100 bytes a row), and takes them away; ``--files FOLDER --two`` fits files that
were kept, with two workers. Times of the clock need an idle machine; those of processors, of the
driver and its workers together, are given beside them. Every worker has one thread. (A file
dask.py would hide the package of that name.)
"""

import argparse
import os
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FEATURES, PER_FILE = 20, 500_000
NAMES = [f"c{j}" for j in range(FEATURES)]


def write(folder: Path, rows: int) -> None:
    import pandas as pd

    truth = np.random.default_rng(0).normal(size=FEATURES)
    for number in range(-(-rows // PER_FILE)):
        rng = np.random.default_rng(number + 1)
        count = min(PER_FILE, rows - number * PER_FILE)
        X = rng.normal(size=(count, FEATURES)).astype(np.float32) / np.float32(FEATURES**0.5)
        y = (X @ truth + rng.logistic(size=count) > 0.0).astype(np.int32)
        path = folder / f"part-{number:05}.parquet"
        pd.DataFrame(X, columns=NAMES).assign(y=y).to_parquet(path, compression=None)


def model(**more: Any) -> Any:
    from noisette import LogisticRegression

    return LogisticRegression(1.0, norm_bound=2.0, classes=[0, 1], random_state=0, **more)


class Fit(NamedTuple):
    """Seconds of the clock and of processors, the largest memory of a worker in MB, weights."""

    clock: float
    processors: float
    most: float
    weights: Any

    def __str__(self) -> str:
        return f"{self.clock:.1f} s ({self.processors:.1f} s of processors)"


def used() -> float:
    times = os.times()
    return times.user + times.system


def timed(fit: Any) -> Fit:
    start, before = time.perf_counter(), used()
    found = fit()
    took, spent = time.perf_counter() - start, used() - before
    return Fit(took, spent, peak(), np.append(found.coef_.ravel(), found.intercept_))


def peak() -> float:
    """The largest resident memory of this process so far, in MB (Linux).

    Not ru_maxrss: a worker inherits that of the driver which started it.
    """
    status = Path("/proc/self/status").read_text()
    return float(status.split("VmHWM:")[1].split()[0]) / 1024.0


def on_cluster(folder: Path, workers: int, *, persist: bool) -> Fit:
    import dask.dataframe as dd
    from distributed import Client, LocalCluster, wait

    options = {"threads_per_worker": 1, "dashboard_address": None, "memory_limit": 0}
    with LocalCluster(n_workers=workers, **options) as cluster, Client(cluster) as client:
        client.run(model)  # imports are no part of a fit
        table = dd.read_parquet(folder / "part-*.parquet")
        if persist:
            table = table.persist()
            wait(table)
        before = sum(client.run(used).values())
        fit = timed(lambda: model().fit(table[NAMES], table["y"]))
        spent = fit.processors + sum(client.run(used).values()) - before
        return fit._replace(processors=spent, most=max(client.run(peak).values()))


def in_memory(folder: Path) -> Fit:
    import pandas as pd

    parts = [pd.read_parquet(path) for path in sorted(folder.glob("part-*.parquet"))]
    X = np.concatenate([part[NAMES].to_numpy() for part in parts])
    y = np.concatenate([part["y"].to_numpy() for part in parts])
    del parts
    model().fit(X[:10_000], y[:10_000])
    return timed(lambda: model().fit(X, y))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--skip-memory", action="store_true", help="the rows do not fit")
    parser.add_argument("--folder", type=Path, default=None, help="where the files go")
    parser.add_argument("--files", type=Path, default=None, help="a folder of files to fit instead")
    parser.add_argument("--two", action="store_true", help="two workers and nothing else")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    if asked.files is not None:
        compare(asked.files, memory=not asked.skip_memory, two=asked.two)
        return
    with tempfile.TemporaryDirectory(dir=asked.folder) as name:
        write(Path(name), asked.rows)
        compare(Path(name), memory=not asked.skip_memory, two=asked.two)


def compare(folder: Path, *, memory: bool, two: bool) -> None:
    files = list(folder.glob("part-*.parquet"))
    print(f"{len(files)} files of {sum(path.stat().st_size for path in files) / 1e9:.2f} GB")
    if memory and not two:
        whole, kept = in_memory(folder), on_cluster(folder, 1, persist=True)
        print(
            f"in memory {whole}; one worker, persisted, {kept}, {kept.most:.0f} MB; ratio "
            f"{kept.clock / whole.clock:.2f} ({kept.processors / whole.processors:.2f}); weights "
            f"{np.abs(kept.weights - whole.weights).max():.1e} apart"
        )
    both = on_cluster(folder, 2, persist=False)
    print(f"from files: two workers {both}, {both.most:.0f} MB each")
    if not two:
        one = on_cluster(folder, 1, persist=False)
        print(
            f"one worker {one}, {one.most:.0f} MB; two are {one.clock / both.clock:.2f} times as "
            f"fast; weights {np.abs(one.weights - both.weights).max():.1e} apart"
        )


if __name__ == "__main__":
    main()
