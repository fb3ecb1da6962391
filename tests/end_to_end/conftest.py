"""What several commands are tried on."""

import pytest

from helpers import write_table
from noisette.tables.datasets import mixed_table


@pytest.fixture(scope="session")
def table(tmp_path_factory):
    """600 invented loans, which no test changes."""
    return write_table(
        tmp_path_factory.mktemp("loans") / "train.csv", mixed_table(600, seed=1).columns
    )
