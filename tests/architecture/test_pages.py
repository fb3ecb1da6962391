"""The pages about the house are true to it: rooms, files and registries exist as they say."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "noisette"
HOUSE = ROOT / "docs" / "architecture.md"
RECIPES = ROOT / "CONTRIBUTING.md"
PLACES = (ROOT, SOURCE, SOURCE / "nn")
NAMED = re.compile(r"`((?:[a-z_0-9]+/)+(?:[a-z_0-9]+\.py)?|[a-z_]+\.py)`")
MOST_LINES = 10


def test_every_room_is_on_the_plan_and_no_other() -> None:
    plan = HOUSE.read_text().split("```\nsrc/noisette/\n")[1].split("\nreproductions/")[0]
    listed = re.findall(r"^  (\S+)", plan, flags=re.M)
    rooms = {f"{path.name}/" for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    files = {path.name for path in SOURCE.glob("*.py")} - {
        "__init__.py", "__main__.py", "_version.py",
    }  # fmt: skip
    assert len(listed) == len(set(listed))
    assert set(listed) == rooms | files


@pytest.mark.parametrize("page", [HOUSE, RECIPES], ids=lambda page: page.name)
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    names = NAMED.findall(page.read_text())
    assert len(names) > 10
    places = (*PLACES, SOURCE / "losses", SOURCE / "training", SOURCE / "audit" / "whitebox")
    missing = [name for name in names if not any((place / name).exists() for place in places)]
    assert not missing


def test_every_registry_has_its_recipe_and_no_recipe_is_long() -> None:
    text = RECIPES.read_text()
    for registry in ("MECHANISMS", "SAMPLERS", "LOSSES", "ACCOUNTANTS", "ALGORITHMS", "DATASETS"):
        assert f"`{registry}`" in text
    recipes = text.split("\n### ")[1:]
    assert len(recipes) == 9
    for recipe in recipes:
        lines = [line for line in recipe.splitlines()[1:] if line.strip()]
        assert len(lines) <= MOST_LINES, recipe.splitlines()[0]


def test_every_word_of_the_glossary_is_used_in_the_source() -> None:
    words = re.findall(r"^\| ([a-z]+) \|", HOUSE.read_text().split("## Words")[1], flags=re.M)
    wanted = {"contribution", "unit", "part", "leaf", "use", "draw", "share", "level", "passage"}
    assert wanted | {"observer", "prepared"} <= set(words)
    source = "\n".join(path.read_text() for path in SOURCE.rglob("*.py"))
    assert all(re.search(rf"\b{word}", source) for word in set(words) - {"word"})
