"""The code of docs/networks.md, block by block, on a small network and with few steps."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset

import noisette
from noisette import nn as private

PAGE = (Path(__file__).parents[2] / "docs" / "networks.md").read_text()
BLOCKS = [
    text
    for text in re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)
    if "init_process_group" not in text  # a script for torchrun: see test_torchrun.py
]
SMALLER = {
    "steps=2400": "steps=3", "batch_size=512": "batch_size=60", "num_workers=4": "num_workers=0",
    "784": "12", "range(20)": "range(1)", "split(512)": "split(60)", "256": "8",
}  # fmt: skip


class Answering(nn.Linear):
    """A module that takes a dictionary and answers with an object, as Hugging Face's do."""

    def forward(self, x, labels=None):
        scores = super().forward(x)
        return (
            scores
            if labels is None
            else SimpleNamespace(loss=functional.cross_entropy(scores, labels))
        )


def losses(model, batch):
    return functional.cross_entropy(model(batch[0]), batch[1])


def yours(started=False):
    """What the page calls yours: rows, a module, an optimizer, a training, perhaps under way."""
    torch.manual_seed(0)
    X, y = torch.randn(240, 12), torch.randint(0, 10, (240,))
    module = Answering(12, 10)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    plan = private.make_plan(size=240, epsilon=3.0, delta=1e-5, batch_size=60, steps=3)
    training = private.PrivateTraining(module, optimizer, plan, size=240, delta=1e-5, clip_norm=1.0)
    rows = next(iter(training.batches())) if started else []
    return {
        "X": X, "y": y, "X_test": X, "y_test": y, "x": X[rows], "model": module, "F": functional,
        "module": module, "optimizer": optimizer, "torch": torch, "training": training,
        "private": private, "noisette": noisette, "losses": losses, "nn": nn,
        "dataset": TensorDataset(X, y), "patient": [k // 2 for k in range(240)],
        "PrivateClassifier": private.PrivateClassifier,
        "batch": {"x": X[rows], "labels": y[rows]},
    }  # fmt: skip


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_a_block_runs(number, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = BLOCKS[number]
    for large, small in SMALLER.items():
        text = text.replace(large, small)
    if text.startswith("training.step(lambda"):  # two ways to write the step after a batch
        for line in text.splitlines():
            names = yours(started=True)
            exec(line, names | {"y": names["batch"]["labels"]})
    else:
        exec(text, yours())


def test_the_page_has_its_blocks():
    assert len(BLOCKS) >= 7
