"""What is public, and that docs and examples use it by one path each."""

import importlib
import re
from pathlib import Path

import noisette

ROOT = Path(__file__).parents[2]
TEXTS = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.py")]
IMPORTS = re.compile(r"^\s*(?:>>> )?from (noisette[\w.]*) import (\([^)]*\)|[^\n]+)", re.M)
ROOMS = sorted(name for name in noisette.__all__ if name.islower() and name in noisette._ROOMS)


def test_every_room_that_is_listed_says_what_it_offers() -> None:
    assert len(ROOMS) >= 10
    for room in ROOMS:
        if room == "nn":
            continue  # needs torch; its own tests import it
        module = getattr(noisette, room)
        assert module is importlib.import_module(f"noisette.{room}")
        assert module.__all__
        for name in module.__all__:
            assert hasattr(module, name), f"{room}.{name}"


def test_docs_and_examples_use_one_public_path_for_each_name() -> None:
    found, wrong = 0, []
    for path in TEXTS:
        for source, names in IMPORTS.findall(path.read_text()):
            for part in re.sub(r"#.*|[()]", "", names).split(","):
                name = part.split(" as ")[0].strip()
                if not name:
                    continue
                found += 1
                top = name in noisette.__all__
                room = source.removeprefix("noisette").removeprefix(".")
                if source == "noisette" and top:
                    continue
                if room in ROOMS and not top:
                    continue
                wrong.append(f"{path.relative_to(ROOT)}: from {source} import {name}")
    assert found >= 10
    assert not wrong
