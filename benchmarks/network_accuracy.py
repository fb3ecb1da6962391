"""Accuracy of private networks on MNIST and Fashion-MNIST: one table, settings fixed beforehand.

    NOISETTE_DATA=... python benchmarks/network_accuracy.py [--seeds 3] [--quick] [--json FILE]
    NOISETTE_DATA=... python benchmarks/network_accuracy.py --choose --only scattering

Test accuracy, mean and standard deviation over seeds, at delta = 1e-5 under add-remove with Poisson
batches. The published figures are those of Papernot et al. 2021 (tanh CNN) and of Tramer and Boneh
2021 (scattering features). `--choose` compares settings without the test images: 50,000 images of
the training set to train on, its other 10,000 to score on.
"""

import argparse
import functools
import json
import math
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

from noisette.nn import PrivateClassifier
from real.base import locate
from real.mnist import FASHION, MNIST
from scattering import Scattering

DELTA = 1e-5

# name: data, features, module, epsilon, published accuracy and what it needs
CASES = {
    "tanh CNN, MNIST": ("mnist", "pixels", "cnn", 2.93, 98.1),
    "tanh CNN, Fashion-MNIST": ("fashion-mnist", "pixels", "cnn", 2.7, 86.1),
    "linear on scattering, MNIST": ("mnist", "scattering", "linear", 3.0, 98.7),
    "linear on scattering, Fashion-MNIST": (
        "fashion-mnist",
        "scattering",
        "linear, large batches",
        3.0,
        89.7,
    ),
}
SETTINGS = {
    "cnn": {"epochs": 40, "batch_size": 2048, "learning_rate": 4.0, "clip_norm": 0.1},
    "linear": {"epochs": 40, "batch_size": 4096, "learning_rate": 4.0, "clip_norm": 0.1},
    "linear, large batches": {
        "epochs": 60,
        "batch_size": 8192,
        "learning_rate": 8.0,
        "clip_norm": 0.1,
    },
}


def cnn() -> nn.Module:
    """The MNIST network of the literature: two convolutions, tanh."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, stride=2, padding=2), nn.Tanh(), nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, stride=2), nn.Tanh(), nn.MaxPool2d(2, 1),
        nn.Flatten(), nn.Linear(32 * 4 * 4, 32), nn.Tanh(), nn.Linear(32, 10),
    )  # fmt: skip


def linear() -> nn.Module:
    """A linear model on features that are normalised within each image."""
    return nn.Sequential(
        nn.GroupNorm(27, 81, affine=False), nn.Flatten(), nn.Linear(81 * 7 * 7, 10)
    )


@functools.cache
def images(name: str, split: str) -> tuple[np.ndarray, np.ndarray]:
    source = {"mnist": MNIST, "fashion-mnist": FASHION}[name]
    raw = source.read(locate(source.folder, None))
    part = slice(raw.train) if split == "train" else slice(raw.train, None)
    pixels = raw.table["pixels"][part].reshape(-1, 28, 28)
    return pixels.astype(np.float32) / 255.0, raw.y[part]


def features(name: str, split: str, kind: str, cache: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return what the module sees; scattering features are kept on disk between runs."""
    X, y = images(name, split)
    if kind == "pixels":
        return ((X - 0.5) / 0.5)[:, None], y
    path = cache / f"scattering-{name}-{split}.npy"
    if not path.exists():
        transform, parts = Scattering(28), []
        for start in range(0, len(X), 500):
            parts.append(transform(torch.from_numpy(X[start : start + 500])).numpy())
            print(f"\r{path.name}: {start + 500} of {len(X)} images", end="", file=sys.stderr)
        print(file=sys.stderr)
        cache.mkdir(parents=True, exist_ok=True)
        np.save(path, np.concatenate(parts))
    return np.load(path, mmap_mode="r"), y


def run(case: str, seed: int, cache: Path, settings: dict, held_out: int = 0) -> dict:
    """Train once and return the accuracy and the processor time it took."""
    data, kind, module, epsilon, _ = CASES[case]
    X, y = features(data, "train", kind, cache)
    T, t = (X[-held_out:], y[-held_out:]) if held_out else features(data, "test", kind, cache)
    X, y = X[: len(y) - held_out], y[: len(y) - held_out]
    model = PrivateClassifier(
        cnn if module == "cnn" else linear, epsilon, DELTA, adjacency="add-remove",
        population=len(y), classes=range(10), random_state=seed, **settings,
    )  # fmt: skip
    start = time.process_time()
    model.fit(X, y)
    seconds = time.process_time() - start
    return {
        "case": case, "seed": seed, "accuracy": 100.0 * float(model.score(T, t)),
        "seconds": seconds, "epsilon": model.privacy_.epsilon_at(DELTA), "settings": settings,
    }  # fmt: skip


def choose(cases: list[str], cache: Path) -> None:
    """Print the accuracy of each choice of settings on images held out of the training set."""
    print("| model | settings | accuracy on 10,000 held-out training images (%), seed 0 |")
    print("|---|---|---|")
    for case in cases:
        for name, settings in SETTINGS.items():
            if name.split(",")[0] == CASES[case][2].split(",")[0]:
                found = run(case, 0, cache, settings, held_out=10_000)
                print(f"| {case} | {told(settings)} | {found['accuracy']:.2f} |", flush=True)


def told(settings: dict) -> str:
    """Return the settings for a cell of the table."""
    return ", ".join(f"{key} {value:g}" for key, value in settings.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one seed, three epochs")
    parser.add_argument("--choose", action="store_true", help="compare settings, held out")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "noisette")
    parser.add_argument("--json", type=Path, help="also write every run to this file")
    args = parser.parse_args()
    torch.set_num_threads(1)
    found, rows, cases = [], [], [name for name in CASES if args.only in name]
    if args.choose:
        choose(cases, args.cache)
        return
    for case in cases:
        runs, settings = [], SETTINGS[CASES[case][2]] | ({"epochs": 3} if args.quick else {})
        for seed in range(1 if args.quick else args.seeds):
            runs.append(run(case, seed, args.cache, settings))
            print(f"{case}, seed {seed}: {runs[-1]['accuracy']:.2f} %", file=sys.stderr)
        found.extend(runs)
        scores = [each["accuracy"] for each in runs]
        spread = statistics.stdev(scores) if len(scores) > 1 else math.nan
        *_, epsilon, published = CASES[case]
        rows.append(
            f"| {case} | {epsilon:g} | {statistics.mean(scores):.2f} ± {spread:.2f} | {published} "
            f"| {statistics.mean(r['seconds'] for r in runs) / 60:.1f} | {told(settings)} |"
        )
    print("| model | ε | test accuracy (%) | published | minutes a fit, one core | settings |")
    print("|---|---|---|---|---|---|")
    print("\n".join(rows))
    if args.json:
        args.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
