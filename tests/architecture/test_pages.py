"""The pages about the house are true to it: rooms, files and registries exist as they say."""

import ast
import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from helpers import run_command, write_table
from noisette import LogisticRegression
from noisette.tables.datasets import mixed_table

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
    files = {path.name for path in SOURCE.glob("*.py")} - {"__init__.py", "__main__.py"}
    assert len(listed) == len(set(listed))
    assert set(listed) == rooms | files


def test_the_page_lists_the_files_where_a_bound_could_be_wrong() -> None:
    text = HOUSE.read_text().split("the files that say `Bounded(`:")[1].split(".\n")[0]
    said = set(re.findall(r"`([a-z_/0-9]+\.py)`", text))
    found = set()
    for path in SOURCE.rglob("*.py"):
        calls = (node.func for node in ast.walk(ast.parse(path.read_text()))
                 if isinstance(node, ast.Call))  # fmt: skip
        if any(isinstance(name, ast.Name) and name.id == "Bounded" for name in calls):
            found.add(path.relative_to(SOURCE).as_posix())
    assert {name for name in found if not name.startswith("core/")} == said


@pytest.mark.parametrize("page", [HOUSE, RECIPES], ids=lambda page: page.name)
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    names = NAMED.findall(page.read_text())
    assert len(names) > 10
    places = (*PLACES, SOURCE / "fitting" / "losses", SOURCE / "audit" / "whitebox")
    missing = [name for name in names if not any((place / name).exists() for place in places)]
    assert not missing


def test_every_registry_has_its_recipe_and_no_recipe_is_long() -> None:
    text = RECIPES.read_text()
    for registry in (
        "MECHANISMS",
        "SAMPLERS",
        "LOSSES",
        "ACCOUNTANTS",
        "ALGORITHMS",
        "DATASETS",
        "KINDS",
    ):
        assert f"`{registry}`" in text
    recipes = text.split("\n### ")[1:]
    assert len(recipes) >= 10
    for recipe in recipes:
        lines = [line for line in recipe.splitlines()[1:] if line.strip()]
        assert len(lines) <= MOST_LINES, recipe.splitlines()[0]


def test_every_word_of_the_glossary_is_used_in_the_source() -> None:
    words = re.findall(r"^\| ([a-z]+) \|", HOUSE.read_text().split("## Words")[1], flags=re.M)
    wanted = {"contribution", "unit", "part", "leaf", "use", "draw", "share", "level", "passage"}
    assert wanted | {"watcher", "prepared"} <= set(words)
    source = "\n".join(path.read_text() for path in SOURCE.rglob("*.py"))
    assert all(re.search(rf"\b{word}", source) for word in set(words) - {"word"})


def files_of(call: Callable[[], Any]) -> list[str]:
    """Return the files of the package in the order in which a call enters them, again and again."""
    visited: list[str] = []
    root = f"{SOURCE}/"

    def enter(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        called = event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED  # no import
        if called and name.startswith(root):
            visited.append(name.removeprefix(root))

    sys.setprofile(enter)
    try:
        call()
    finally:
        sys.setprofile(None)
    return visited


def first_not_on_the_way(names: list[str], visited: list[str]) -> str | None:
    """Return the first name that is not entered after the one before it."""
    rest = iter(visited)
    return next((n for n in names if not any(v.startswith(n) for v in rest)), None)


def walk(title: str) -> list[str]:
    text = HOUSE.read_text().split(f"**`{title}`**")[1].split("\n**")[0].split("\n## ")[0]
    return NAMED.findall(text.split("   Where the user states")[0])


def test_the_walk_of_a_row_through_fit_is_the_one_it_takes() -> None:
    X = np.random.default_rng(0).normal(size=(400, 3)) / 3.0
    model = LogisticRegression(norm_bound=1.0, classes=[0, 1])
    visited = files_of(lambda: model.fit(X, (X[:, 0] > 0).astype(int)))
    names = walk("LogisticRegression.fit")
    assert len(names) > 15
    assert first_not_on_the_way(names, visited) is None
    assert first_not_on_the_way(["guarantee.py", *names], visited) is not None


def test_the_walk_of_a_row_through_train_names_the_files_it_enters(tmp_path: Path) -> None:
    # it said that rows go to `linear/`, which was so before tables were learnt
    table = write_table(tmp_path / "loans.csv", mixed_table(1500, seed=1).columns)
    command = ("train", table, "--target", "repaid", "--schema", ROOT / "examples" / "loans.toml",
               "--epsilon", "1", "--out", tmp_path / "model")  # fmt: skip
    visited = set(files_of(lambda: run_command(*command)))
    assert (tmp_path / "model").exists()
    names = walk("noisette train")
    assert len(names) > 10
    assert [name for name in names if name not in visited] == []


def test_the_walk_of_a_row_through_a_step_names_the_files_it_enters() -> None:
    torch = pytest.importorskip("torch")
    from noisette.nn import PrivateTraining, make_plan

    module = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    plan = make_plan(size=60, epsilon=2.0, delta=1e-4, batch_size=20, steps=2)
    X = torch.ones(120, 3)

    def run() -> None:
        training = PrivateTraining(
            module, optimizer, plan, size=60, delta=1e-4, persons=[i // 2 for i in range(120)]
        )
        for rows in training.batches():
            training.step(lambda module, x: module(x)[:, 0] ** 2, X[rows])

    visited = set(files_of(run))
    names = walk("PrivateTraining.step")
    assert len(names) > 10
    assert [name for name in names if name not in visited] == []
