"""Shared set-up: puts ``tests/`` on the path, so that `helpers` can be imported everywhere."""

import os
import secrets
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import settings

from noisette import errors
from servers import start_postgres

settings.register_profile("noisette", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("noisette")


errors._SAID.update(errors._OUTSIDE)  # seeds and clones are everywhere here, and hide nobody's data


@pytest.fixture
def rng() -> np.random.Generator:
    """A plain generator with a fixed seed, for test data and oracles only."""
    return np.random.default_rng(20240607)


@pytest.fixture(scope="session")
def postgres() -> Callable[[], str]:
    """A function that returns the address of a new ledger on a real server.

    ``NOISETTE_POSTGRES`` may name another server than the one that the tests start themselves.
    """
    pytest.importorskip("psycopg", reason="no driver here: pip install 'noisette[postgres]'")
    address = os.environ.get("NOISETTE_POSTGRES")
    server = None if address else start_postgres()
    found = address or server.get_uri()  # type: ignore[union-attr,attr-defined]
    return lambda: f"{found}#{secrets.token_hex(8)}"
