"""Invented tables for demos, docs and tests; `benchmarks/real` reads the published ones."""

from noisette.tables.datasets.base import Dataset
from noisette.tables.datasets.mixed import MixedTable, mixed_table
from noisette.tables.datasets.visits import visits

__all__ = ["Dataset", "MixedTable", "mixed_table", "visits"]
