"""Private steps against plain PyTorch and Opacus: time and peak memory, one thread.

A private step is everything: per-example norms, the clipped sum, noise through the door (secure,
charged), the optimizer. Opacus's step is the same work in its modes (its noise is torch's, not
cryptographic). Every case runs in a process of its own, in turns with plain steps, and is judged by
the ratio of median processor times, so that a busy machine matters little. Memory is the peak above
what the process held before its first step; plain PyTorch is measured in its own process.

    python benchmarks/networks.py [--models mlp cnn] [--batches 256 2048] [--json networks.json]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
MODELS = {
    "logistic": "logistic 784-10",
    "mlp": "MLP 784-256-256-10",
    "cnn": "MNIST CNN",
    "transformer": "transformer, 2 layers, 64 tokens",
}
OPACUS = ("hooks", "functorch", "ew", "ghost")
METHODS = ("plain", "noisette", *(f"opacus {mode}" for mode in OPACUS))
SMALL = 30.0
"""Peaks below so many MB are measured in five processes."""
SECONDS = 6.0
"""How long a case is repeated, at least three times."""


class Transformer(nn.Module):
    """Vocabulary 1,000, width 64, 4 heads, 128 hidden units, mean over tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(1000, 64)
        layers = [nn.TransformerEncoderLayer(64, 4, 128, batch_first=True) for _ in range(2)]
        self.layers, self.last = nn.Sequential(*layers), nn.Linear(64, 10)

    def forward(self, tokens: Any) -> Any:
        """Return the scores of ten classes."""
        return self.last(self.layers(self.embedding(tokens)).mean(1))


def make(name: str) -> Any:
    """Return a network; the sizes are those of the table's caption."""
    torch.manual_seed(0)
    if name == "logistic":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    if name == "mlp":
        return nn.Sequential(
            nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(),
            nn.Linear(256, 10),
        )  # fmt: skip
    if name == "cnn":
        return nn.Sequential(
            nn.Conv2d(1, 16, 8, 2, 2), nn.Tanh(), nn.MaxPool2d(2, 1),
            nn.Conv2d(16, 32, 4, 2), nn.Tanh(), nn.MaxPool2d(2, 1),
            nn.Flatten(), nn.Linear(512, 32), nn.Tanh(), nn.Linear(32, 10),
        )  # fmt: skip

    return Transformer()


def made_up(name: str, batch: int) -> tuple[Any, Any]:

    g = torch.Generator().manual_seed(1)
    x = (
        torch.randint(0, 1000, (batch, 64), generator=g)
        if name == "transformer"
        else torch.randn(batch, 1, 28, 28, generator=g)
    )
    return x, torch.randint(0, 10, (batch,), generator=g)


def plain_step(name: str, batch: int) -> Callable[[], None]:

    module, (x, y) = make(name), made_up(name, batch)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)

    def step() -> None:
        optimizer.zero_grad()
        functional.cross_entropy(module(x), y).backward()
        optimizer.step()

    return step


def noisette_step(name: str, batch: int) -> Callable[[], None]:

    from noisette import mechanisms, plans, sampling
    from noisette.nn import PrivateTraining

    module, data = make(name), made_up(name, batch)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    plan = plans.Repeat(plans.Sampled(mechanisms.Gaussian(100.0), sampling.FullBatch()), 100_000)
    training = PrivateTraining(module, optimizer, plan, size=batch, delta=1e-5)
    batches = training.batches()

    def losses(module: Any, batch: Any) -> Any:
        return functional.cross_entropy(module(batch[0]), batch[1], reduction="none")

    def step() -> None:
        next(batches)
        training.step(losses, data)

    return step


def opacus_step(name: str, batch: int, mode: str) -> Callable[[], None]:
    import torch
    from opacus import PrivacyEngine
    from opacus.validators import ModuleValidator
    from torch.utils.data import DataLoader, TensorDataset

    module, (x, y) = ModuleValidator.fix(make(name)), made_up(name, batch)
    criterion = nn.CrossEntropyLoss()
    made = PrivacyEngine().make_private(
        module=module,
        optimizer=torch.optim.SGD(module.parameters(), lr=0.01),
        criterion=criterion,
        data_loader=DataLoader(TensorDataset(x, y), batch_size=batch),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        poisson_sampling=False,
        grad_sample_mode=mode,
    )
    private, optimizer = made[0], made[1]
    if mode == "ghost":
        criterion = made[2]

    def step() -> None:
        optimizer.zero_grad()
        criterion(private(x), y).backward()
        optimizer.step()

    return step


def step_of(method: str, name: str, batch: int) -> Callable[[], None]:
    if method == "plain":
        return plain_step(name, batch)
    if method == "noisette":
        return noisette_step(name, batch)
    return opacus_step(name, batch, method.split()[1])


def status(field: str) -> float:
    """Return a line of this process's memory status in MB."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) / 1024.0 for line in lines if line.startswith(field))


def memory_of(step: Callable[[], None]) -> dict[str, float]:
    """Return what three steps take at their peak above what was held before, and the whole."""
    with open("/proc/self/clear_refs", "w") as reset:
        reset.write("5")  # the peak starts again from what is held now
    before = status("VmRSS")
    for _ in range(3):
        step()
    return {"memory": status("VmHWM") - before, "total": status("VmHWM")}


def measure(method: str, name: str, batch: int, memory: bool) -> dict[str, float]:
    """Run in a process of its own: the peak of three steps, or the times in turns with plain."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    step_of(method, name, 2)()  # what torch loads at its first step is nobody's
    step = step_of(method, name, batch)
    if memory:
        return memory_of(step)
    plain = plain_step(name, batch)
    times: dict[Callable[[], None], list[float]] = {step: [], plain: []}
    for call in times:
        call()
        call()
    end = time.monotonic() + SECONDS
    while time.monotonic() < end or len(times[step]) < 3:
        for call in (step, plain) if len(times[step]) % 2 else (plain, step):
            start = time.process_time()
            call()
            times[call].append(1e3 * (time.process_time() - start))
    ours, base = statistics.median(times[step]), statistics.median(times[plain])
    return {"milliseconds": ours, "plain": base, "ratio": ours / base}


def in_process(method: str, name: str, batch: int, memory: bool) -> dict[str, Any]:
    command = [sys.executable, __file__, "--case", method, name, str(batch), str(int(memory))]
    environment = {**os.environ, **dict.fromkeys(ONE_THREAD, "1")}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=900, check=False
        )
    except subprocess.TimeoutExpired:
        return {"failed": "more than 15 minutes"}
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["killed"])[-1][:90]}
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def memory_in_processes(method: str, name: str, batch: int) -> dict[str, Any]:
    """Return the peak; where it is small, the median of five processes: heaps grow in jumps."""
    found = in_process(method, name, batch, True)
    if found.get("memory", SMALL) >= SMALL:
        return found
    peaks = [found["memory"]]
    peaks += [in_process(method, name, batch, True)["memory"] for _ in range(4)]
    return found | {"memory": statistics.median(peaks)}


def compare(models: list[str], batches: list[int], methods: list[str]) -> list[dict[str, Any]]:
    rows = []
    print("| network | batch | step | ms | times plain | memory MB | times plain |")
    print("|---|---|---|---|---|---|---|")
    for name in models:
        for batch in batches:
            base = memory_in_processes("plain", name, batch).get("memory")
            for method in methods:
                found = {"network": name, "batch": batch, "method": method}
                found |= in_process(method, name, batch, False)
                if "failed" not in found:
                    found |= memory_in_processes(method, name, batch)
                if base and "memory" in found:
                    found["memory ratio"] = found["memory"] / base
                rows.append(found)
                show(found)
    return rows


def show(found: dict[str, Any]) -> None:
    start = f"| {MODELS[found['network']]} | {found['batch']:,} | {found['method']} |"
    if "failed" in found:
        print(f"{start} {found['failed']} | | | |", flush=True)
        return
    share = f"{found['memory ratio']:.2f}" if "memory ratio" in found else ""
    print(
        f"{start} {found['milliseconds']:.2f} | {found['ratio']:.2f} "
        f"| {found.get('memory', float('nan')):.1f} | {share} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--batches", nargs="+", type=int, default=[256, 2048])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--json", help="also write the table to this file")
    parser.add_argument("--case", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        method, name, batch, memory = arguments.case
        print(json.dumps(measure(method, name, int(batch), bool(int(memory)))))
        return
    methods = arguments.methods
    try:
        import opacus  # noqa: F401
    except ImportError:
        print("opacus is not installed here: its rows are left out\n")
        methods = [method for method in methods if not method.startswith("opacus")]
    rows = compare(arguments.models, arguments.batches, methods)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
