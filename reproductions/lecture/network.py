"""Networks by noisy SGD, private and not: the lecture's last remark. Needs PyTorch."""

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import real as datasets
from noisette.core.randomness import Randomness

__all__ = ["DELTA", "MODULES", "available", "network_accuracy"]

DELTA, BATCH = 1e-5, 256
MODULES = {"linear": "linear (softmax)", "mlp": "64 hidden units", "cnn": "two convolutions"}


def available() -> bool:
    """Return whether PyTorch is installed."""
    return importlib.util.find_spec("torch") is not None


def _make(name: str) -> Callable[[], Any]:
    """Return a function that makes the module for rows of 14 x 14 pixels."""
    from torch import nn

    def linear() -> Any:
        return nn.Linear(196, 10)

    def mlp() -> Any:
        return nn.Sequential(nn.Linear(196, 64), nn.ReLU(), nn.Linear(64, 10))

    def cnn() -> Any:
        return nn.Sequential(
            nn.Unflatten(1, (1, 14, 14)),
            nn.Conv2d(1, 16, 3, padding=1), nn.Tanh(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.Tanh(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(288, 10),
        )  # fmt: skip

    return {"linear": linear, "mlp": mlp, "cnn": cnn}[name]


def network_accuracy(
    module: str, epsilon: float | None, n: int, epochs: int, seed: int
) -> dict[str, Any]:
    """Return the test accuracy (per cent) on MNIST at 14 x 14; epsilon None is without privacy.

    The first n published training images, the published test set, zero-out, noisy SGD on Poisson
    batches with every default of `PrivateClassifier`. The seed sets start, batches and noise.
    """
    import torch

    from noisette.nn import PrivateClassifier

    torch.set_num_threads(1)
    torch.manual_seed(seed)  # the start is public
    data = datasets.load("mnist-14", split="published")
    # Rows have norm 1; a public factor brings pixels to the size that networks start well with.
    X, X_test = ((10.0 * rows).astype(np.float32) for rows in (data.X[:n], data.X_test))
    y, make = data.y[:n], _make(module)
    if epsilon is None:
        score = _plain(make(), X, y, epochs, seed)
        return {"accuracy": 100.0 * float((score(X_test) == data.y_test).mean())}
    model = PrivateClassifier(
        make, epsilon, DELTA, epochs=epochs, adjacency="zero-out", classes=list(range(10)),
        random_state=seed,
    )  # fmt: skip
    return {"accuracy": 100.0 * float(model.fit(X, y).score(X_test, data.y_test))}


def _plain(network: Any, X: Any, y: Any, epochs: int, seed: int) -> Callable[[Any], Any]:
    """Train without privacy by SGD (rate 0.1, momentum 0.9), reshuffled; return the predictor."""
    import torch

    order = Randomness.from_seed(seed).generator
    rows, labels = torch.as_tensor(X), torch.as_tensor(y)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    for _ in range(epochs):
        for batch in np.array_split(order.permutation(len(X)), len(X) // BATCH):
            optimizer.zero_grad()
            loss: Any = torch.nn.functional.cross_entropy(network(rows[batch]), labels[batch])
            loss.backward()
            optimizer.step()

    def predict(test: Any) -> Any:
        with torch.no_grad():
            return network(torch.as_tensor(test)).argmax(dim=1).numpy()

    return predict
