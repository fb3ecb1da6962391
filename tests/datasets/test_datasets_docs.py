"""The page about datasets names all of them."""

from pathlib import Path

from benchmarks.real import DATASETS

PAGE = Path(__file__).parents[2] / "docs" / "datasets.md"


def test_every_dataset_stands_on_the_page() -> None:
    text = PAGE.read_text()
    assert all(f"`{name}`" in text for name in DATASETS)
