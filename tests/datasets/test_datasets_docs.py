"""The Python code on the page about datasets runs; it needs no file and no network."""

import re
from pathlib import Path

from noisette.datasets import DATASETS

PAGE = Path(__file__).parents[2] / "docs" / "datasets.md"


def test_the_examples_run() -> None:
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.S):
        exec(block, names)
    assert "data" in names


def test_every_dataset_stands_on_the_page() -> None:
    text = PAGE.read_text()
    assert all(f"`{name}`" in text for name in DATASETS)
