"""What is public, and that docs and examples use it by one path each."""

import ast
import importlib
import re
from pathlib import Path

import noisette

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "noisette"
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


def private_names_of_others(source: str) -> list[str]:
    """Return the names with an underscore that a file takes out of another file of the package."""
    tree, found, modules = ast.parse(source), [], set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("noisette"):
            names = {part.name for part in node.names}
            modules |= {part.asname or part.name for part in node.names}
            # `from noisette import _validate` is a room of its own
            found += [n for n in names if n.startswith("_") and node.module != "noisette"]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            known = node.value.id in modules and node.value.id.lower() == node.value.id
            if known and node.attr.startswith("_") and not node.attr.startswith("__"):
                found.append(f"{node.value.id}.{node.attr}")
    return [name for name in found if name != "__version__"]


def test_a_name_with_an_underscore_stays_in_its_file() -> None:
    assert private_names_of_others("from noisette.a import b\nb._c") == ["b._c"]
    assert private_names_of_others("from noisette.a import _b") == ["_b"]
    found = {str(path): private_names_of_others(path.read_text()) for path in SOURCE.rglob("*.py")}
    assert len(found) > 250
    assert {path: names for path, names in found.items() if names} == {}


def test_nothing_public_begins_with_an_underscore() -> None:
    public = [*noisette.__all__, *(name for room in ROOMS if room != "nn" for name in
                                   getattr(noisette, room).__all__)]  # fmt: skip
    assert len(public) > 100
    assert [name for name in public if name.startswith("_")] == ["__version__"]


LEFT_THE_LISTS = {
    "accounting": "Accountant AdvancedAccountant GaussianAccountant LinearAccountant "
    "MomentsAccountant NumericalAccountant RenyiAccountant",
    "adjacency": "UNITS require_same",
    "datasets": "Dataset MixedTable",
    "losses": "Augmented MarginLoss Measured RegressionLoss Rows ScalarLoss",
    "mechanisms": "AdditiveNoise MECHANISMS",
    "plans": "Leaf Noisy PLANS PlanLike RunLaw as_plan",
    "sampling": "Participation PassSampler",
    "scores": "Calibration Confusion RocCurve",
    "tables": "Encoded Frame",
    "tuning": "SCORES SearchOutlook",
}


def test_names_that_left_the_lists_can_still_be_imported() -> None:
    """Programs that were written with the reference of an earlier day run on."""
    for room, names in LEFT_THE_LISTS.items():
        module = importlib.import_module(f"noisette.{room}")
        missing = [name for name in names.split() if not hasattr(module, name)]
        assert not missing, room
        assert not set(names.split()) & set(module.__all__)
    table = noisette.datasets.mixed_table(n=20)
    assert isinstance(table, noisette.datasets.MixedTable)
    assert isinstance(table.dataset(), noisette.datasets.Dataset)
    plain = noisette.LogisticRegression(norm_bound=1.0)
    search = noisette.PrivateSearch(plain, {"regularization": [1e-4, 1e-3]}, 1.0, mean=4.0)
    assert isinstance(search.plan(5000, 10), noisette.tuning.SearchOutlook)
