"""Invented tables for demos, docs and tests; `benchmarks/real` reads the published ones."""

from noisette.datasets.base import Dataset
from noisette.datasets.mixed import MixedTable, mixed_table
from noisette.datasets.visits import visits

__all__ = ["Dataset", "MixedTable", "mixed_table", "visits"]
