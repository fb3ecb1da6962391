"""Invented tables for demos, docs and tests; `benchmarks/real` reads the published ones."""

from noisette.tables.datasets.base import Dataset as Dataset
from noisette.tables.datasets.base import InventedTable as MixedTable  # noqa: F401
from noisette.tables.datasets.mixed import mixed_table
from noisette.tables.datasets.visits import visits

__all__ = ["mixed_table", "visits"]
