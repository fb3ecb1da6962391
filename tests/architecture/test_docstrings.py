"""Every public name explains itself in valid numpydoc, and every example in the source runs."""

import ast
import doctest
import importlib
import inspect
import itertools
import re
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

import noisette

SOURCE = Path(noisette.__file__).parent
ROOMS = ["", *sorted(noisette._ROOMS)]
EXAMPLES = [
    path.relative_to(SOURCE).as_posix()
    for path in sorted(SOURCE.rglob("*.py"))
    if re.search(r"^\s*>>> ", path.read_text(), re.M)
]

# What numpydoc's validator is asked. Left out:
# GL02, GL03: ruff's D413 wants the blank line before the closing quotes that they forbid;
# ES01, SA01: a second paragraph and a "See Also" are written where they help, not everywhere;
# GL09, GL10, SA02 to SA04: about sections and directives that we do not use.
CHECKED = {
    "GL01", "GL05", "GL06", "GL07", "GL08",
    "SS01", "SS02", "SS03", "SS04", "SS05", "SS06",
    "PR01", "PR02", "PR03", "PR04", "PR05", "PR06", "PR07", "PR08", "PR09", "PR10",
    "RT01", "RT02", "RT03", "RT04", "RT05", "YD01", "EX01",
}  # fmt: skip

# An override with the parameters of the method that it stands for says only what is special, be
# it one formula.
INHERITED = {"PR01", "RT01", "YD01", "SS02", "SS05"}

NO_EXAMPLE = {
    "ClusterFailed": "raised where workers of a cluster fail, and here are none",
    "MissingExtra": "raised where an optional package is absent, and here none is",
    "PrivacyWarning": "issued once in a process, perhaps before the example runs",
    "RankFailed": "raised in a training of several processes",
}

# Users call no method of these themselves: the library does, or who adds a file to a registry.
HOOKS = {
    "Accountant", "Clipping", "Loss", "Mechanism", "RunLaw", "Sampler",
    "Source", "Unit",
}  # fmt: skip

# Bases that no public room offers: their own methods are for the library alone.
INNER = {"MarginLoss", "RegressionLoss", "ScalarLoss", "Unit"}


@dataclass(frozen=True)
class Public:
    """A public class, function or method: where users find it, and where it is written."""

    path: str
    obj: Any
    owner: type | None = None
    override: bool = False

    def faults(self) -> list[str]:
        if isinstance(self.obj, property | cached_property):
            return [] if inspect.getdoc(self.obj) else ["GL08 no docstring"]
        asked = set(CHECKED)
        if self.owner is not None:
            asked.discard("EX01")  # the class shows them, see below
        if self.path.rsplit(".")[-1] in NO_EXAMPLE:
            asked.discard("EX01")
        if self.owner is not None and HOOKS & {base.__name__ for base in self.owner.__mro__}:
            asked -= INHERITED  # types are in the signature, and who calls it reads the code
        if self.override:
            asked -= INHERITED
            if not self.obj.__doc__:  # as `inspect.getdoc` and `help` do
                return []
        if inspect.isclass(self.obj) and issubclass(self.obj, Exception | Enum):
            asked -= {code for code in asked if code.startswith("PR")}  # made by others
        found = numpydoc_faults(self.obj)
        if self.obj is noisette.Randomness:  # made by its class methods; all parameters have a _
            asked.discard("PR01")
        return [f"{code} {text}" for code, text in found if code in asked] + self._raises()

    def _raises(self) -> list[str]:
        """Look for errors that the code raises itself and the text keeps quiet about."""
        if self.override or (inspect.isclass(self.obj) and issubclass(self.obj, Exception)):
            return []
        code = self.obj
        if inspect.isclass(code):
            code = vars(code).get("__post_init__") or vars(code).get("__init__")
        if not inspect.isfunction(code) or "<string>" in code.__code__.co_filename:
            return []
        raised = {
            node.exc.func.id
            for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(code))))
            if isinstance(node, ast.Raise)
            and isinstance(node.exc, ast.Call)
            and isinstance(node.exc.func, ast.Name)
        }
        raised &= {*noisette.errors.__all__, "MissingData"}
        missing = sorted(name for name in raised if name not in (self.obj.__doc__ or ""))
        return [f"no Raises for {name}" for name in missing]


def numpydoc_faults(obj: Any) -> list[tuple[str, str]]:
    # here, so that collecting the tests does not wait for it
    from numpydoc.docscrape import get_doc_object
    from numpydoc.validate import validate

    found: list[tuple[str, str]] = validate(get_doc_object(obj))["errors"]
    return found


def room(name: str) -> Any:
    if name == "nn":
        pytest.importorskip("torch", reason="noisette.nn needs the extra nn")
    return importlib.import_module(f"noisette.{name}") if name else noisette


def names(name: str) -> Iterator[tuple[str, Any]]:
    module = room(name)
    for each in module.__all__:
        if name or each not in {*noisette._ROOMS, "__version__"}:
            yield f"{module.__name__}.{each}", getattr(module, each)


def methods(path: str, kind: type) -> Iterator[Public]:
    """Yield the methods and properties that a class has from noisette, own and inherited."""
    ours = [base for base in kind.__mro__ if base.__module__.startswith("noisette.")]
    for at, base in enumerate(ours):
        if base.__name__ in INNER:
            continue
        for name, value in vars(base).items():
            # a class method; or what scikit-learn offers on a condition (`available_if`)
            function = getattr(value, "__func__", getattr(value, "fn", value))
            code = inspect.isfunction(function) or isinstance(value, property | cached_property)
            if name.startswith("_") or not code:
                continue
            first = [other for other in ours[at + 1 :] if name in vars(other)]
            same = first and parameters(vars(first[-1])[name]) == parameters(value)
            yield Public(f"{path}.{name} ({base.__name__})", function, base, bool(same))


def parameters(value: Any) -> list[str]:
    function = getattr(value, "__func__", value)
    if not inspect.isfunction(function):
        return []
    return list(inspect.signature(function).parameters)


def public(name: str) -> Iterator[Public]:
    for path, obj in names(name):
        if inspect.isclass(obj):
            yield Public(path, obj)
            yield from methods(path, obj)
        elif inspect.isfunction(obj):
            yield Public(path, obj)


@pytest.mark.parametrize("name", ROOMS, ids=lambda name: name or "noisette")
def test_every_public_name_has_a_valid_numpydoc_docstring(name: str) -> None:
    seen, wrong = set(), []
    for each in public(name):
        key = (each.obj, each.override)
        if key not in seen:
            seen.add(key)
            wrong += [f"{each.path}: {fault}" for fault in each.faults()]
    assert seen
    assert not wrong, "\n" + "\n".join(wrong)


def explained(module: Any) -> set[str]:
    """Return the names in the files of a module below whose assignment a text stands."""
    file = Path(module.__file__)
    found = set()
    for path in file.parent.glob("*.py") if file.stem == "__init__" else [file]:
        for node, after in itertools.pairwise(ast.parse(path.read_text()).body):
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                targets = getattr(node, "targets", [getattr(node, "target", None)])
                found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


@pytest.mark.parametrize("name", ROOMS, ids=lambda name: name or "noisette")
def test_every_public_constant_says_what_it_is(name: str) -> None:
    """Constants, registries and type aliases have no ``__doc__`` of their own, and no example."""
    told = explained(room(name))
    plain = [path for path, obj in names(name) if not (inspect.isclass(obj) or callable(obj))]
    assert not [path for path in plain if path.rsplit(".")[-1] not in told]


@pytest.mark.parametrize("name", ROOMS, ids=lambda name: name or "noisette")
def test_every_method_that_users_call_is_in_an_example(name: str) -> None:
    wrong = []
    for path, kind in names(name):
        if not inspect.isclass(kind) or HOOKS & {base.__name__ for base in kind.__mro__}:
            continue
        own = list(methods(path, kind))
        texts = [inspect.getdoc(kind) or "", *(inspect.getdoc(each.obj) or "" for each in own)]
        shown = "\n".join(re.findall(r"^(?:>>>|\.\.\.) .*$", "\n".join(texts), re.M))
        for each in own:
            called = each.obj.__name__ if inspect.isfunction(each.obj) else ""
            if called and f".{called}(" not in shown:
                wrong.append(each.path)
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.parametrize("path", EXAMPLES)
def test_the_examples_in_the_source_run(path: str, tmp_path: Path, monkeypatch: Any) -> None:
    if path.startswith("nn/"):
        pytest.importorskip("torch", reason="noisette.nn needs the extra nn")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dotted = "noisette." + path.removesuffix(".py").removesuffix("__init__").replace("/", ".")
    module = importlib.import_module(dotted.rstrip("."))
    found = [test for test in doctest.DocTestFinder().find(module) if test.examples]
    assert found, f"no example found in {path}"
    runner, said = doctest.DocTestRunner(), []
    for test in found:
        runner.run(test, out=said.append)
    assert not runner.summarize(verbose=False).failed, "".join(said)
