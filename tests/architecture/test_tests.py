"""The tests can fail: no comparison of a thing with itself, no error of any kind, no empty loop."""

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
FILES = sorted(TESTS.rglob("test_*.py"))
ANY_ERROR = {"Exception", "BaseException"}
COMPARE = {"array_equal", "allclose", "assert_allclose", "assert_array_equal", "assert_equal"}
OCCASIONS = ("review", "hostile", "issue", "session", "regression")
MAY_BE_EMPTY = {"glob", "rglob", "iterdir", "findall", "finditer", "filter", "walk"}


def name_of(node: ast.expr) -> str:
    """Return the last name of `a.b.name` or `name`."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def draws(node: ast.AST) -> bool:
    """A call may answer differently each time; a plain value may not."""
    return any(isinstance(part, ast.Call) for part in ast.walk(node))


def compares_with_itself(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
    elif isinstance(node, ast.Call) and name_of(node.func) in COMPARE:
        sides = node.args[:2]
    else:
        return False
    texts = [ast.dump(side) for side in sides]
    return len(texts) > len(set(texts)) and not any(draws(side) for side in sides)


def takes_any_error(node: ast.AST) -> bool:
    """`pytest.raises(Exception)` without `match` is content with a typing mistake."""
    if not (isinstance(node, ast.Call) and name_of(node.func) == "raises" and node.args):
        return False
    kinds = node.args[0].elts if isinstance(node.args[0], ast.Tuple) else [node.args[0]]
    return any(name_of(kind) in ANY_ERROR for kind in kinds) and not any(
        keyword.arg == "match" for keyword in node.keywords
    )


def may_be_empty(values: ast.expr, searched: frozenset[str] = frozenset()) -> bool:
    """A search, a difference of sets, or a comprehension with a condition (or a name for one)."""
    if isinstance(values, ast.Name):
        return values.id in searched
    if isinstance(values, ast.BinOp):
        sides = values.left, values.right
        if all(isinstance(side, ast.Set) for side in sides):
            return len(sides[0].elts) <= len(sides[1].elts)
        return isinstance(values.op, ast.Sub | ast.BitAnd)
    if isinstance(values, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        return any(part.ifs or may_be_empty(part.iter, searched) for part in values.generators)
    if not isinstance(values, ast.Call):
        return False
    if name_of(values.func) in {"sorted", "list", "set", "tuple", "enumerate", "reversed"}:
        return any(may_be_empty(part, searched) for part in values.args)
    return name_of(values.func) in MAY_BE_EMPTY


def checks(node: ast.AST) -> Iterator[ast.AST]:
    """Yield asserts and expected errors, those of inner functions too."""
    for part in ast.walk(node):
        if isinstance(part, ast.Assert) or (
            isinstance(part, ast.Call)
            and (name_of(part.func) == "raises" or name_of(part.func).startswith("assert_"))
        ):
            yield part


def only_checks_in_a_loop_that_may_be_empty(test: ast.FunctionDef) -> bool:
    searched = frozenset(
        name_of(node.targets[0])
        for node in ast.walk(test)
        if isinstance(node, ast.Assign) and may_be_empty(node.value)
    )
    inside: set[ast.AST] = set()
    for node in ast.walk(test):
        if isinstance(node, ast.For) and may_be_empty(node.iter, searched):
            inside.update(checks(node))
    return bool(inside) and set(checks(test)) == inside


def faults(source: str) -> list[tuple[int, str]]:
    found = []
    for node in ast.walk(ast.parse(source)):
        if compares_with_itself(node):
            found.append((node.lineno, "compares a thing with itself"))
        if takes_any_error(node):
            found.append((node.lineno, "takes any error"))
        if (
            isinstance(node, ast.FunctionDef)
            and node.name.startswith("test_")
            and only_checks_in_a_loop_that_may_be_empty(node)
        ):
            found.append((node.lineno, "checks only in a loop that may be empty"))
    return sorted(found)


def test_every_test_can_fail() -> None:
    assert len(FILES) > 100
    found = {
        f"{path.relative_to(TESTS)}:{line}": fault
        for path in FILES
        for line, fault in faults(path.read_text())
        if path != Path(__file__)
    }
    assert found == {}


def test_the_search_finds_what_cannot_fail() -> None:
    bad = {
        "assert a.b == a.b": "itself",
        "assert 1 <= x[0] <= x[0]": "itself",
        "np.testing.assert_allclose(x, x)": "itself",
        "with pytest.raises(Exception):\n    f()": "any error",
        "with pytest.raises((ValueError, BaseException)):\n    f()": "any error",
        "def test_x():\n    for p in root.glob('*'):\n        assert p": "may be empty",
        "def test_x():\n    for p in [q for q in z if q]:\n        assert p": "may be empty",
        "def test_x():\n    for p in sorted(re.findall(a, b)):\n        assert p": "may be empty",
        "def test_x():\n    for p in set(a) - set(b):\n        assert p": "may be empty",
        "def test_x():\n    z = filter(None, a)\n    for p in z:\n        assert p": "may be empty",
    }
    for source, words in bad.items():
        assert [words in fault for _, fault in faults(source)] == [True], source
    good = (
        "assert f() == f()",
        "assert a.b == b.a",
        "with pytest.raises(Exception, match='x'):\n    f()",
        "def test_x():\n    for p in z.glob('*'):\n        assert p\n    assert found",
        "def test_x():\n    for p in (1, 2):\n        assert p",
        "def test_x():\n    for p in {a, b} - {c}:\n        assert p",
    )
    assert [faults(source) for source in good] == [[]] * len(good)


def test_a_test_is_named_after_its_subject() -> None:
    for path in FILES:
        assert not any(word in path.stem.split("_") for word in OCCASIONS), path.name
