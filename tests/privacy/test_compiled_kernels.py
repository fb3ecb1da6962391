"""Where compiled kernels are kept: nobody else may write there, and a second process finds them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core import config

import noisette
from noisette.core import compiled as _compiled
from noisette.core.compiled import compiled, only_ours

FIT = """
import numpy as np
from noisette import SGDClassifier
rows = np.random.default_rng(0).normal(size=(2000, 5))
SGDClassifier(1.0, norm_bound=1.0, classes=[0, 1]).fit(rows, np.arange(2000) % 2)
from noisette.core import ziggurat as _ziggurat
from noisette.fitting.algorithms import kernels
found = [f for m in (_ziggurat, kernels) for f in vars(m).values() if hasattr(f, "stats")]
hits = sum(sum(f.stats.cache_hits.values()) for f in found)
print(hits, sum(sum(f.stats.cache_misses.values()) for f in found), "signatures:",
      sum(len(f.signatures) for f in found), _ziggurat.__file__)
"""


@pytest.fixture
def private(tmp_path, monkeypatch):
    """A cache folder of this user alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(config, "CACHE_DIR", "")
    monkeypatch.setattr(_compiled, "_writable", lambda folder: False)
    return tmp_path / "noisette" / "kernels"


def twice(x):
    return 2.0 * x


@pytest.mark.skipif(sys.platform != "linux", reason="the folder is named by XDG_CACHE_HOME")
def test_kernels_of_a_program_that_cannot_be_written_go_to_a_closed_folder(private):
    kernel = compiled()(twice)
    assert kernel(3.0) == 6.0
    assert private.stat().st_mode & 0o777 == 0o700
    assert list(private.rglob("*.nbc"))
    assert config.CACHE_DIR == ""  # others' functions are kept where they were


@pytest.mark.skipif(sys.platform != "linux", reason="the folder is named by XDG_CACHE_HOME")
@pytest.mark.parametrize("which", ["kernels", ".", ".."])
def test_a_folder_that_others_can_write_is_not_used(private, which):
    private.mkdir(mode=0o700, parents=True)
    place = (private.parent / which).resolve()
    before = place.stat().st_mode & 0o777
    place.chmod(0o777)
    try:
        assert not only_ours(private)
        assert compiled()(twice)(3.0) == 6.0
        assert not list(private.rglob("*.nb?"))
    finally:
        place.chmod(before)
    assert only_ours(private)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give away")
def test_a_folder_of_somebody_else_is_not_used(private):
    private.mkdir(mode=0o700, parents=True)
    os.chown(private, 65534, 65534)
    assert not only_ours(private)
    os.chown(private, 0, 0)
    os.chown(private.parent, 65534, 65534)
    assert not only_ours(private)


def test_a_cache_that_others_can_write_is_not_used_though_it_is_named(tmp_path, monkeypatch):
    open_to_all = tmp_path / "shared"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    monkeypatch.setattr(config, "CACHE_DIR", str(open_to_all))
    assert compiled()(twice)(3.0) == 6.0
    assert not list(open_to_all.iterdir())


def test_what_is_checked_is_what_is_used_though_a_link_is_moved(private, tmp_path, monkeypatch):
    private.mkdir(mode=0o700, parents=True)
    link = tmp_path / "link"
    link.symlink_to(private)
    monkeypatch.setattr(config, "CACHE_DIR", str(link))
    assert _compiled._folder() == private.resolve()


def test_without_a_home_kernels_are_compiled_and_not_kept(private, monkeypatch):
    def homeless() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(_compiled, "_user_cache", homeless)
    assert compiled()(twice)(3.0) == 6.0


def as_anybody() -> list[str]:
    """What makes a command subject to permissions, which root is not."""
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("root writes everywhere, and setpriv is not there to forbid it")
    return [setpriv, "--bounding-set=-dac_override", "--inh-caps=-dac_override"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="permissions and setpriv")
def test_a_read_only_installation_compiles_once(tmp_path):
    there, cache = tmp_path / "site", tmp_path / "cache"
    package = there / "noisette"
    source = Path(noisette.__file__).parent
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))
    for place in (there, *there.rglob("*")):
        place.chmod(place.stat().st_mode & 0o555)
    kept = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", "PYTHONPATH")}
    environment = kept | {"PYTHONPATH": str(there), "XDG_CACHE_HOME": str(cache)}

    def fit() -> tuple[int, int]:
        command = [*as_anybody(), sys.executable, "-c", FIT]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        hits, misses, *_, file = done.stdout.split()
        assert Path(file).is_relative_to(there)
        return int(hits), int(misses)

    try:
        first, second = fit(), fit()
        assert not list(package.rglob("__pycache__"))
    finally:
        for place in (there, *there.rglob("*")):
            place.chmod(place.stat().st_mode | 0o200)
    assert first[0] == 0
    assert first[1] > 0
    assert second[0] > 0  # what calls the others is found, and asks for none of them
    assert second[1] == 0
    assert (cache / "noisette" / "kernels").stat().st_mode & 0o777 == 0o700
