"""The house rules that a reader relies on, checked on the source itself."""

import ast
import importlib
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "noisette"
FILES = sorted(SOURCE.rglob("*.py"))
ORACLES = (  # proofs that only check others, and one of a paper's own
    ROOT / "tests" / "reference" / "complex_orders.py",
    ROOT / "tests" / "reference" / "lottery_pairs.py",
    ROOT / "tests" / "reference" / "test_last_iterate.py",
    ROOT / "reproductions" / "shuffling" / "poster.py",
)
THEOREMS = ROOT / "docs" / "theory" / "theorems.md"

HEAVY = ["torch", "dask", "matplotlib", "pyarrow", "numba", "sklearn", "pandas"]
MAY_DRAW = ("core/randomness.py", "core/mechanisms/", "nn/gradients/chance.py")
DRAWS = re.compile(
    r"np\.random\.(?!Generator\b|SeedSequence\b)|default_rng\(|\bimport random\b"
    r"|\.(standard_normal|normal|laplace|gumbel|standard_gamma|gamma|standard_exponential)\("
    r"|torch\.(normal|randn|rand)\b"
)
CITED = re.compile(
    r"#\s*proof:\s*([A-Z][A-Za-z0-9-]*)|proof(?:: ClassVar\[str\])?\s*=\s*\"([^\"]+)\""
)
IN_DOCSTRING = re.compile(r"[Pp]roof:\s+([A-Z][A-Z0-9]*(?:-[A-Z0-9]+)+)(?![a-z])")
PARTICIPATION = re.compile(r"Participation\(\s*\"[a-z-]+\",\s*\"([A-Z0-9-]+)\"")


def relative(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def code_only(path: Path) -> str:
    """Return the source without comments, and with empty texts: an error may speak of a draw."""
    lines = path.read_text().splitlines(keepends=True)
    with path.open("rb") as file:
        tokens = list(tokenize.tokenize(file.readline))
    for token in reversed(tokens):
        if token.type not in (tokenize.STRING, tokenize.COMMENT):
            continue
        (top, left), (bottom, right) = token.start, token.end
        lines[top - 1 : bottom] = [lines[top - 1][:left] + "''" + lines[bottom - 1][right:]]
    return "".join(lines)


def cited_ids() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in (*FILES, *ORACLES):
        text = path.read_text()
        ids = [first or second for first, second in CITED.findall(text)]
        ids += PARTICIPATION.findall(text) + IN_DOCSTRING.findall(text)
        for name in ids:
            found.setdefault(name, set()).add(path.name)
    return found


def stated_ids() -> set[str]:
    return set(re.findall(r"^### (\S+)$", THEOREMS.read_text(), flags=re.M))


def test_every_cited_proof_is_stated() -> None:
    missing = {name: where for name, where in cited_ids().items() if name not in stated_ids()}
    assert not missing


def test_every_stated_proof_is_used() -> None:
    assert not stated_ids() - set(cited_ids())


def test_the_package_knows_every_theorem_and_no_other() -> None:
    from noisette.core.theorems import _GROUNDS, THEOREMS, with_grounds

    assert stated_ids() == THEOREMS
    assert with_grounds(_GROUNDS) == tuple(dict.fromkeys(with_grounds(_GROUNDS)))
    assert set(with_grounds(_GROUNDS)) <= THEOREMS


def test_numbers_are_drawn_only_where_allowed() -> None:
    others = [path for path in FILES if not relative(path).startswith(MAY_DRAW)]
    assert 100 < len(others) < len(FILES)
    drawing = {relative(path): DRAWS.findall(code_only(path)) for path in others}
    assert {name: lines for name, lines in drawing.items() if lines} == {}


def test_the_search_for_draws_finds_them(tmp_path: Path) -> None:
    source = tmp_path / "source.py"
    source.write_text('"""torch.rand\\n"""\nx = "g.normal(3)"; y = g.normal(4)  # np.random.rand\n')
    assert DRAWS.findall(code_only(source)) == [("normal", "")]
    for line in ("np.random.normal(3)", "g.standard_normal(5)", "default_rng(0)", "import random"):
        assert DRAWS.search(line), line


def test_a_class_name_means_one_thing() -> None:
    # 19 names did not: Gaussian was a mechanism and a pair of distributions.
    places: dict[str, list[str]] = {}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(relative(path))
    assert len(places) > 200
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_a_kind_of_array_is_named_once() -> None:
    alias = re.compile(r"^\w+ = (npt\.)?NDArray\[np\.(float64|intp|int64|bool_)\]$", re.M)
    found = {relative(path) for path in FILES if alias.search(path.read_text())}
    assert found == {"_typing.py"}


def test_noise_is_asked_for_only_at_the_door() -> None:
    callers = [
        relative(path)
        for path in FILES
        if re.search(r"\.noise\(|mechanism\.apply\(|\.take\(.*\)\.apply\(", path.read_text())
    ]
    assert set(callers) <= {"core/door.py"} | {
        name for name in callers if name.startswith("core/mechanisms/")
    }


def test_import_is_lazy() -> None:
    heavy = [
        "torch",
        "dask",
        "matplotlib",
        "pyarrow",
        "numba",
        "sklearn",
        "scipy",
        "numpy",
        "pandas",
        "typer",
        "rich",
    ]
    code = f"import noisette, sys; print([m for m in {heavy!r} if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_the_core_never_imports_heavy_packages() -> None:
    heavy = [*HEAVY, "scipy.stats"]
    code = (
        "import sys, noisette.core.door, noisette.core.ledger, noisette.core.guarantee\n"
        "import noisette.core.accounting, noisette.app.commands.app\n"
        f"print([m for m in {heavy!r} if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_one_estimator_does_not_import_the_others() -> None:
    code = (
        "import sys; from noisette import LogisticRegression\n"
        "rooms = 'noisette.models.', 'noisette.tables.pipeline.'\n"
        "print([m for m in sys.modules if m.startswith(rooms)])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = ast.literal_eval(shown.stdout)
    from noisette.models import _HOMES

    others = {f"noisette.models.{home}" for home in _HOMES.values()}
    assert others & set(found) == {"noisette.models.logistic_regression"}
    assert not [name for name in found if name.startswith("noisette.tables")]


@pytest.mark.parametrize("room", ["linear", "pipeline"])
def test_rooms_that_import_late_have_all_their_names(room: str) -> None:
    module = importlib.import_module(f"noisette.{room}")
    assert sorted(module._HOMES) == sorted(module.__all__)
    for name in module.__all__:
        assert getattr(module, name).__name__ == name
    with pytest.raises(AttributeError, match=f"'{module.__name__}' has no attribute 'nonsense'"):
        _ = module.nonsense


def test_public_names_exist() -> None:
    import noisette

    for name in noisette.__all__:
        assert getattr(noisette, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = noisette.nonsense  # type: ignore[attr-defined]


def code_lines(path: Path) -> int:
    """Count lines of code: no blank lines, comments or docstrings."""
    tree = ast.parse(path.read_text())
    doc: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            doc.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(path.read_text().splitlines(), start=1)
    return sum(
        1 for n, line in lines if n not in doc and line.strip() and not line.strip().startswith("#")
    )


def test_the_audit_target_stays_small() -> None:
    # ledger, permit and door, and the best of a random number of runs
    assert (
        sum(
            code_lines(path)
            for path in (
                SOURCE / "core" / f"{n}.py" for n in ("door", "ledger", "permit", "search")
            )
        )
        < 480
    )


def test_no_machine_or_registry_name_is_committed() -> None:
    pattern = re.compile(r"/work/|/opt/pypi|pypi-more|/root/")
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    if listed.returncode:
        pytest.skip("not a git checkout")
    for name in listed.stdout.split():
        path = ROOT / name
        if path == Path(__file__) or not path.exists() or path.suffix in {".png", ".svg"}:
            continue
        assert not pattern.search(path.read_text(errors="replace")), name
