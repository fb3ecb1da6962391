"""Files are written whole or not at all, in one way, with the permissions of any new file."""

import os
import re
import stat
from pathlib import Path

import numpy as np
import pytest

from noisette import Ledger, LogisticRegression, _files
from noisette.models.files import save

SOURCE = Path(__file__).parents[2] / "src" / "noisette"
OWN_WAY = {
    "core/storage/file.py": "a ledger must not replace one that appeared meanwhile",
    "core/storage/chain.py": "the same, on this system",
}


def test_content_and_nothing_beside_it(tmp_path: Path) -> None:
    _files.write(tmp_path / "a", "ε\r\n")
    _files.write(tmp_path / "b", b"\x00\xff")
    assert (tmp_path / "a").read_bytes() == b"\xce\xb5\r\n"
    assert (tmp_path / "b").read_bytes() == b"\x00\xff"
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


@pytest.mark.parametrize("at", ["writing", "fsync", "replace"])
def test_a_fault_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    place = tmp_path / "file"
    place.write_text("old")

    def fails(*_: object) -> None:
        raise KeyboardInterrupt

    def writes() -> None:
        with _files.written(place) as file:
            file.write(b"half")
            if at == "writing":
                fails()

    if at != "writing":
        monkeypatch.setattr(os, at, fails)
    with pytest.raises(KeyboardInterrupt):
        writes()
    assert place.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "there" / "real")
    _files.write(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "real").read_text() == "new"


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_permissions_are_those_of_any_new_file(tmp_path: Path, mask: int) -> None:
    # A saved model was readable by its owner only, a report by everybody, whatever was asked for.
    model = LogisticRegression(
        epsilon=1.0, ledger=Ledger(epsilon=1.0), random_state=0, norm_bound=1.0
    )
    model.fit(np.eye(4), [0, 1, 0, 1])
    before = os.umask(mask)
    try:
        save(model, tmp_path / "model")
        (tmp_path / "plain").write_text("")
    finally:
        os.umask(before)
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("model", "plain")}
    assert modes == {0o666 & ~mask}


def test_there_is_no_other_way() -> None:
    ways = r"mkstemp|NamedTemporaryFile|os\.replace|(?<!console)\.write_(text|bytes)\(|chmod\("
    other = re.compile(rf"^(?!\s*>>>).*({ways})", re.M)  # an example may write its own file
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if other.search(path.read_text())
    }
    assert found - {"_files.py"} == set(OWN_WAY)
