"""Rows that live in the partitions of Dask, on one machine or many.

Workers evaluate sums of bounded, row-local quantities; noise, permits and the ledger are on the
driver only. Nothing here adds noise, and no row comes to the driver.
"""

from noisette.fitting.partitions.collections import is_dask, parted

__all__ = ["is_dask", "parted"]
