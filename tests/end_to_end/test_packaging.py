"""What a release says of itself is true: versions, extras, licences, files that travel."""

import json
import re
import tomllib
from pathlib import Path

import pytest

import noisette
from helpers import run_command
from noisette._files import CARRIED, carried
from noisette.core.theorems import THEOREMS, statements

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "noisette"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {
    name: wanted
    for name, wanted in PROJECT["optional-dependencies"].items()
    if name not in {"dev", "docs"}
}
ALL = "\n".join(path.read_text() for path in sorted(SOURCE.rglob("*.py")))


def names(requirements):
    return [re.match(r"[\w-]+", line)[0] for line in requirements]


def test_one_version_is_told_everywhere():
    for place, pattern in (
        ("CITATION.cff", r"^version: (\S+)$"),
        ("release/conda/meta.yaml", r'set version = "([^"]+)"'),
    ):
        found = re.search(pattern, (ROOT / place).read_text(), flags=re.M)
        assert found[1] == noisette.__version__, place


def test_the_recipe_asks_for_what_the_package_asks_for():
    text = (ROOT / "release" / "conda" / "meta.yaml").read_text().split("  run:")[1]
    asked = re.findall(r"^    - ([\w-]+ >=[\d.]+)$", text.split("test:")[0], flags=re.M)
    assert asked == [line.replace(">=", " >=") for line in PROJECT["dependencies"]]


@pytest.mark.parametrize("extra", sorted(EXTRAS.keys() - {"fast"}))  # nothing refuses without it
def test_a_missing_extra_is_named_by_the_sentence_that_refuses(extra):
    said = re.findall(r"MissingExtra\(\s*((?:f?\".*\"\s*)+)", ALL)
    assert any(f"pip install 'noisette[{extra}]'" in "".join(text.split("\n")) for text in said)


def test_every_package_that_users_get_is_in_the_list_of_licences():
    listed = (ROOT / "release" / "licences.md").read_text()
    brought = [*PROJECT["dependencies"], *(line for wanted in EXTRAS.values() for line in wanted)]
    missing = [name for name in names(brought) if f"| {name} |" not in listed]
    assert not missing, "run: make licences"
    assert "not stated" not in listed


def test_every_tool_of_ours_is_pinned():
    pins = (ROOT / "requirements" / "constraints.txt").read_text().lower().replace("_", "-")
    wanted = [line for lines in PROJECT["optional-dependencies"].values() for line in lines]
    unpinned = [name for name in names(wanted) if f"\n{name.lower()}==" not in pins]
    assert not unpinned


def test_files_that_travel_are_read_from_their_own_place_in_a_checkout():
    for name, place in CARRIED.items():
        assert carried(name) == (ROOT / place).read_text()
        assert not (SOURCE / name).exists(), "a copy here would grow old"


def test_a_theorem_is_printed_word_by_word():
    told = {name: text for found in statements().values() for name, text in found.items()}
    assert set(told) == THEOREMS
    page = (ROOT / "docs" / "theory" / "theorems.md").read_text()
    assert all(f"### {name}\n{text}" in page for name, text in told.items())
    done = run_command("theorem", "objective-replace")
    assert done.returncode == 0
    assert told["OBJECTIVE-REPLACE"] in done.stdout
    assert "Rests on: OBJECTIVE-PERTURBATION, TWO-CHANGES" in done.stdout
    answer = json.loads(run_command("theorem", "CLIP", "--json").stdout)
    assert answer == {"id": "CLIP", "statement": told["CLIP"], "rests_on": ["ADJACENCY"]}


def test_all_theorems_are_listed_and_no_other_is_found():
    listed = json.loads(run_command("theorem", "--json").stdout)
    assert {name for found in listed.values() for name in found} == THEOREMS
    done = run_command("theorem", "OBJECTIVE-PERTURBATON")
    assert done.returncode == 2
    assert "did you mean OBJECTIVE-PERTURBATION" in done.stderr


def test_the_example_is_written_whole_and_replaces_nothing(tmp_path):
    folder = tmp_path / "loans"
    assert run_command("example", folder).returncode == 0
    sizes = [len((folder / name).read_text().splitlines()) for name in
             ("loans.csv", "new_loans.csv")]  # fmt: skip
    assert sizes == [16_001, 4_001]
    assert (folder / "loans.toml").read_text() == carried("loans.toml")
    (folder / "loans.csv").unlink()
    done = run_command("example", folder)
    assert done.returncode == 2
    assert "new_loans.csv exists; give another name, or --force" in done.stderr
    assert not (folder / "loans.csv").exists()
    assert run_command("example", folder / "loans.toml").returncode == 2
