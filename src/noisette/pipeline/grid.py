"""The candidates of quantiles, which linear regressors need too: see `noisette.columns.grid`."""

from noisette.columns.grid import NATS, Grid, Placed, ranks_at

__all__ = ["NATS", "Grid", "Placed", "ranks_at"]
