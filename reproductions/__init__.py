"""The founding papers, reproduced: ``python -m reproductions song2013``.

One paper, one module, one entry in `EXPERIMENTS`; `base` says how an experiment is written. Modules
are imported when they are asked for, so that the command line starts fast.
"""

import importlib
from typing import TYPE_CHECKING

from noisette import _validate

if TYPE_CHECKING:
    from reproductions.base import Experiment

__all__ = ["EXPERIMENTS", "experiment"]

EXPERIMENTS: dict[str, tuple[str, str]] = {
    "song2013": ("Song2013", "Song, Chaudhuri and Sarwate (2013): noisy SGD and mini-batches"),
    "shuffling": ("Shuffling", "Berthier and Karimireddy: private SGD with shuffling"),
    "lecture": ("Lecture", "Chaudhuri (2020): private machine learning, one-shot and iterative"),
}
"""Name of the module -> name of its `Experiment` and one line for ``--list``."""


def experiment(name: str) -> "Experiment":
    """Return the experiment of that name."""
    name = _validate.choice("NAME", name, EXPERIMENTS)
    module = importlib.import_module(f"reproductions.{name}")
    found: Experiment = getattr(module, EXPERIMENTS[name][0])()
    return found
