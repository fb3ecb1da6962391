"""Wheel and sdist, built, checked, and used in an environment of their own outside the tree."""

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PINS = ROOT / "requirements" / "constraints.txt"
pytestmark = pytest.mark.slow


def run(*words, cwd, ok=True):
    """Run a program that knows nothing of this checkout."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, cwd=cwd, env=clean)
    assert not ok or done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build from a copy of the files that git knows: a build writes into its tree."""
    pytest.importorskip("build")
    folder = tmp_path_factory.mktemp("built")
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    if listed.returncode:
        pytest.skip("not a git checkout")
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).exists():
            target = folder / "tree" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist",
        cwd=folder / "tree")  # fmt: skip
    return folder / "dist"


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """An environment with nothing but the wheel and what it asks for."""
    folder = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    pip = folder / "venv" / "bin" / "python", "-m", "pip", "--disable-pip-version-check"
    (wheel,) = built.glob("*.whl")
    done = run(*pip, "install", "--quiet", "--constraint", PINS, wheel, cwd=folder, ok=False)
    if done.returncode and "No matching distribution" in done.stderr:
        pytest.skip("no package index in reach")
    assert done.returncode == 0, done.stderr
    run(*pip, "check", cwd=folder)
    return folder


def test_both_pass_the_check_of_the_index(built):
    pytest.importorskip("twine")
    run(sys.executable, "-m", "twine", "check", "--strict", *built.iterdir(), cwd=built)


def test_each_has_what_it_should(built):
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        page = file.read("noisette/theorems.md").decode()
    assert page == (ROOT / "docs" / "theory" / "theorems.md").read_text()
    assert {"noisette/py.typed", "noisette/loans.toml"} <= set(names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"noisette"}
    with tarfile.open(sdist) as file:
        inside = {name.partition("/")[2] for name in file.getnames()}
    for name in (
        "tests/end_to_end/test_installed.py", "examples/demo.py", "docs/theory/theorems.md",
        "reproductions/base.py", "requirements/oldest.txt", "LICENSE", "SECURITY.md", "Makefile",
        "release/licences.md", "setup.py",
    ):  # fmt: skip
        assert name in inside, name
    assert not [name for name in inside if "__pycache__" in name or name.startswith("docs/_build")]


def test_the_commands_of_the_readme_work_where_it_is_installed(installed):
    noisette = installed / "venv" / "bin" / "noisette"
    assert "train" in run(noisette, "--help", cwd=installed).stdout
    run(noisette, "example", cwd=installed)
    train = ("train", "loans.csv", "--schema", "loans.toml", "--epsilon", "1", "--out", "model")
    run(noisette, *train, cwd=installed)
    guarantee = json.loads((installed / "model" / "guarantee.json").read_text())
    assert guarantee["epsilon"] <= 1.0
    assert run(noisette, "inspect", "model", cwd=installed)
    predicted = run(noisette, "predict", "model", "new_loans.csv", cwd=installed)
    assert predicted.returncode == 0
    assert "norm" in run(noisette, "theorem", "CLIP", cwd=installed).stdout


def test_a_fit_in_python_works_where_it_is_installed(installed):
    python = installed / "venv" / "bin" / "python"
    said = run(python, "-W", "error", ROOT / "examples" / "train_in_python.py", installed,
               cwd=installed).stdout  # fmt: skip
    assert "a second model is refused" in said
    assert "epsilon = 1 (pure, delta = 0)" in said
    where = run(python, "-c", "import noisette; print(noisette.__file__)", cwd=installed).stdout
    assert where.startswith(str(installed))


def test_the_types_that_it_ships_satisfy_a_strict_reader(installed):
    pytest.importorskip("mypy")
    python = installed / "venv" / "bin" / "python"
    check = (sys.executable, "-m", "mypy", "--strict", "--python-executable", python,
             "--cache-dir", installed / "cache", "--config-file", "")  # fmt: skip
    source = (ROOT / "examples" / "train_in_python.py").read_text()
    good, bad = installed / "good.py", installed / "bad.py"
    good.write_text(source)
    bad.write_text(source.replace("epsilon=1.0", 'epsilon="one"'))
    run(*check, good, cwd=installed)
    done = run(*check, bad, cwd=installed, ok=False)
    assert done.returncode == 1
    assert 'Argument "epsilon" to "LogisticRegression"' in done.stdout
