"""The versions that pyproject.toml allows: the oldest are those that `make oldest` tests."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def bounds(lines, relation):
    """Return name -> version of requirements such as numpy>=2.0."""
    found = (re.fullmatch(rf"([\w-]+)(?:\[\w+\])?{relation}([\d.]+)", line) for line in lines)
    return {match[1]: [*map(int, match[2].split("."))] for match in found if match}


@pytest.mark.parametrize("extra", ["", "plot", "parquet"])
def test_the_oldest_allowed_version_is_the_one_tested(extra):
    wanted = PROJECT["dependencies"] if extra == "" else EXTRAS[extra]
    tested = bounds((ROOT / "requirements" / "oldest.txt").read_text().splitlines(), "==")
    allowed = bounds(wanted, ">=")
    assert len(allowed) == len(wanted)
    for name, version in allowed.items():
        assert tested[name][: len(version)] == version, name
        assert not any(tested[name][len(version) :]), name


def test_versions_with_known_faults_are_not_allowed():
    """torch below 2.10 can be led around weights_only; typer below 0.15.4 fails with click 8.2."""
    assert bounds(EXTRAS["nn"], ">=")["torch"] >= [2, 10]
    assert bounds(PROJECT["dependencies"], ">=")["typer"] >= [0, 15, 4]
