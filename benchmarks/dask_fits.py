"""Fits on partitions: one worker against memory, two workers against one, and what they hold.

``python benchmarks/dask_fits.py --rows 5000000`` generates Parquet files of 20 float32 columns in a
temporary folder (168 bytes a row), and takes them away. Times are of the clock, so the machine must
be idle; every worker has one thread. (A file dask.py would hide the package of that name.)
"""

import argparse
import resource
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

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


def timed(fit: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    found = fit()
    return time.perf_counter() - start, np.append(found.coef_.ravel(), found.intercept_)


def peak() -> float:
    """The largest resident memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def on_cluster(folder: Path, workers: int, *, persist: bool) -> tuple[float, float, Any]:
    """Seconds, the largest memory of a worker, and the weights."""
    import dask.dataframe as dd
    from distributed import Client, LocalCluster, wait

    options = {"threads_per_worker": 1, "dashboard_address": None, "memory_limit": 0}
    with LocalCluster(n_workers=workers, **options) as cluster, Client(cluster) as client:
        client.run(model)  # imports are no part of a fit
        table = dd.read_parquet(folder / "part-*.parquet")
        if persist:
            table = table.persist()
            wait(table)
        seconds, weights = timed(lambda: model().fit(table[NAMES], table["y"]))
        return seconds, max(client.run(peak).values()), weights


def in_memory(folder: Path) -> tuple[float, Any]:
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
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(dir=asked.folder) as name:
        folder = Path(name)
        start = time.perf_counter()
        write(folder, asked.rows)
        size = sum(path.stat().st_size for path in folder.iterdir())
        took = time.perf_counter() - start
        print(f"{asked.rows:,} x {FEATURES} rows, {size / 1e9:.2f} GB in {took:.0f} s")
        expected = None
        if not asked.skip_memory:
            whole, expected = in_memory(folder)
            kept, most, weights = on_cluster(folder, 1, persist=True)
            print(
                f"in memory: {whole:.1f} s; one worker, persisted: {kept:.1f} s, {most:.0f} MB; "
                f"ratio {kept / whole:.2f}; weights {np.abs(weights - expected).max():.1e} apart"
            )
        one, most_one, first = on_cluster(folder, 1, persist=False)
        two, most_two, second = on_cluster(folder, 2, persist=False)
        print(
            f"from files: one worker {one:.1f} s, {most_one:.0f} MB; two {two:.1f} s, "
            f"{most_two:.0f} MB each; {one / two:.2f} times as fast; weights "
            f"{np.abs(first - second).max():.1e} apart"
        )


if __name__ == "__main__":
    main()
