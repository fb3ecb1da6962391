"""How long a function may be, and how much a public call may ask for."""

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import noisette
from noisette.errors import MissingExtra

SOURCE = Path(__file__).parents[2] / "src" / "noisette"
MOST_LINES, MOST_PARAMETERS = 60, 14

# A command's options and an estimator's parameters are its documentation, one a line; there the
# body alone is measured. `PrivateTraining` is one of them: what an estimator's constructor is to
# `fit`, it is to a loop of one's own, with the same parameters as `PrivateClassifier`.
ESTIMATORS = {
    "LinearSVC", "OneShotClassifier", "PrivateClassifier", "PrivateTraining", "SGDClassifier",
    "SGDRegressor", "TableClassifier",
}  # fmt: skip
INHERITING = {"LogisticRegression"}  # the constructor of `OneShotClassifier`
COMMANDS = {
    "app/commands/ledger.py ledger",
}


def functions() -> Iterator[tuple[str, ast.FunctionDef, ast.ClassDef | None]]:
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        owner = {
            child: node
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef)
            for child in node.body
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                yield path.relative_to(SOURCE).as_posix(), node, owner.get(node)


def lines(function: ast.FunctionDef, *, body_only: bool) -> int:
    """Count the lines of a function without its docstring."""
    last = function.end_lineno or function.lineno
    first, documented = function.body[0], ast.get_docstring(function) is not None
    shown = (first.end_lineno or first.lineno) - first.lineno + 1 if documented else 0
    start = first.lineno if body_only else function.lineno
    return last - start + 1 - shown


def test_no_function_is_longer_than_a_screen() -> None:
    # check_estimator had 75 lines.
    known, long = set(), {}
    for place, function, owner in functions():
        name = f"{place} {function.name}"
        listed = name in COMMANDS or (
            function.name == "__init__" and owner is not None and owner.name in ESTIMATORS
        )
        if listed:
            known.add(name if name in COMMANDS else owner.name if owner else "")
        count = lines(function, body_only=listed)
        if count > MOST_LINES:
            long[name] = count
    assert long == {}
    assert known == ESTIMATORS | COMMANDS, "the list must not outlive its entries"


def calls(room: Any) -> Iterator[tuple[str, Any]]:
    for name in room.__all__:
        found = getattr(room, name)
        if inspect.isclass(found) and not issubclass(found, BaseException):
            yield name, found
            for member, method in inspect.getmembers(found, inspect.isroutine):
                ours = (getattr(method, "__module__", None) or "").startswith("noisette")
                if ours and not member.startswith("_"):
                    yield f"{name}.{member}", method
        elif inspect.isfunction(found):
            yield name, found


def test_no_public_call_asks_for_too_much() -> None:
    # gdp_two_worlds had 15 parameters.
    seen, large = 0, {}
    for room in sorted(noisette._ROOMS):
        try:
            module = importlib.import_module(f"noisette.{room}")
        except MissingExtra:
            continue
        for name, call in calls(module):
            seen += 1
            try:
                parameters = set(inspect.signature(call).parameters) - {"self"}
            except ValueError:
                continue
            if len(parameters) > MOST_PARAMETERS and name not in ESTIMATORS | INHERITING:
                large[f"{room}.{name}"] = len(parameters)
    assert seen > 150
    assert large == {}
