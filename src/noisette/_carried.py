"""Files of the project that travel with the package: one source each, read where it is.

``setup.py`` copies them beside this file when a wheel is built; a checkout has no copy that could
grow old, and reads them at their own place.
"""

from pathlib import Path

CARRIED = {"theorems.md": "docs/theory/theorems.md", "loans.toml": "examples/loans.toml"}
"""Name in the package -> place in the project."""


def carried(name: str) -> str:
    """Return the text of a file that travels with the package."""
    here = Path(__file__).resolve()
    copy = here.with_name(name)
    place = copy if copy.exists() else here.parents[2] / CARRIED[name]
    return place.read_text(encoding="utf-8")
