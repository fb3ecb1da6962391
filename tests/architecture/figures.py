"""How large the house is and how often it asks what was decided at the entrance.

``python tests/architecture/figures.py`` prints every figure beside what it may be at most;
`test_figures.py` holds the house to them.
"""

import ast
import contextlib
import inspect
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[2] / "src" / "noisette"

MOST = {
    "lines": 59_000,
    "statements": 25_500,
    "files": 335,
    "names at the top": 18,
    "public objects": 140,
    "commands": 15,
    "longest constructor": 20,
    "tests for a kind outside its room": 0,
    "tests for the place": 10,
    "tests for the unit": 35,
    "tests for a private n": 40,
    "functions entered by LogisticRegression.fit": 240,
    "functions entered by TableClassifier.fit": 650,
    "functions entered by noisette train": 900,
}
"""What the third plan needs."""


def sources() -> Iterator[tuple[Path, str]]:
    """Yield every module and its text."""
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE), path.read_text()


def statements(text: str) -> int:
    """Count statements; imports and docstrings are none, so neither can help."""
    found = 0
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.stmt) or isinstance(node, ast.Import | ast.ImportFrom):
            continue
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        found += not (is_text and isinstance(node.value.value, str))  # type: ignore[attr-defined]
    return found


def times(pattern: str, *, outside: str = "") -> int:
    """Count the places that match, in modules outside a room."""
    return sum(
        len(re.findall(pattern, text))
        for path, text in sources()
        if not (outside and path.as_posix().startswith(outside))
    )


def kinds_room() -> tuple[str, list[str]]:
    """Return where kinds of columns live, and the names of their classes."""
    room = "tables/kinds" if (SOURCE / "tables" / "kinds").is_dir() else "columns"
    names = []
    for path, text in sources():
        if path.as_posix().startswith(room):
            names += [n.name for n in ast.parse(text).body if isinstance(n, ast.ClassDef)]
    return room, [name for name in names if not name.startswith("_")]


def kind_tests() -> int:
    """Count questions about a column's kind outside the room of kinds."""
    room, names = kinds_room()
    asked = rf"isinstance\([^()]*,[^()]*\b(?:{'|'.join(names)})\b"
    return times(asked, outside=room) + times(
        r"(?:column|facts|found|kind_of\([^)]*\))\.kind (?:==|!=|in|not in)", outside=room
    )


def public_objects() -> int:
    """Count the names that the package and its listed rooms offer."""
    import importlib

    import noisette

    found = {name for name in noisette.__all__ if name not in noisette._ROOMS}
    objects = {f"noisette.{name}" for name in found}
    for room in noisette._ROOMS:
        module = importlib.import_module(f"noisette.{room}")
        objects |= {f"{room}.{name}" for name in module.__all__ if name not in found}
    return len(objects)


def commands() -> int:
    """Count the commands of the command line."""
    done = subprocess.run(
        [sys.executable, "-m", "noisette", "--help"], capture_output=True, text=True, check=True,
        env={**os.environ, "COLUMNS": "100"},
    )  # fmt: skip
    return len(re.findall(r"^│ ([a-z][a-z-]*)  ", done.stdout, re.M))


def longest_constructor() -> int:
    """Return the most parameters that a public class asks for."""
    import importlib

    import noisette

    most = 0
    for room in sorted(noisette._ROOMS):
        module = importlib.import_module(f"noisette.{room}")
        for name in module.__all__:
            found = getattr(module, name)
            if inspect.isclass(found) and "__init__" in vars(found):
                most = max(most, len(inspect.signature(found).parameters))
    return most


def entered(work: Callable[[], Any]) -> int:
    """Count the functions of ours that a call enters."""
    seen: set[tuple[str, int]] = set()
    root = str(SOURCE) + os.sep

    def look(frame: Any, event: str, arg: Any) -> None:
        code = frame.f_code
        body = not code.co_flags & inspect.CO_OPTIMIZED  # of a module or a class: an import
        if event == "call" and code.co_filename.startswith(root) and not body:
            seen.add((code.co_filename, code.co_firstlineno))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sys.setprofile(look)
        try:
            work()
        finally:
            sys.setprofile(None)
    return len(seen)


def fits() -> dict[str, int]:
    """Count the functions entered by two fits and by the command."""
    import numpy as np
    import pandas as pd

    import noisette

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    table = pd.DataFrame({"age": rng.integers(18, 90, 500), "job": rng.choice(["a", "b"], 500)})
    table["ill"] = rng.choice(["no", "yes"], 500)
    facts = {"target": "ill", "classes": ["no", "yes"], "unit": "one row is one person"}
    facts["columns"] = {"age": {"kind": "numeric"}, "job": {"kind": "categorical"}}
    schema = noisette.tables.Schema.from_dict(facts, learn=True)
    linear = noisette.LogisticRegression(1.0, norm_bound=1.0, classes=[0, 1])
    raw = noisette.TableClassifier(1.0, 1e-6, schema=schema)
    with tempfile.TemporaryDirectory() as home:
        place = Path(home)
        table.to_csv(place / "people.csv", index=False)
        (place / "schema.toml").write_text(
            'target = "ill"\nclasses = ["no", "yes"]\nunit = "one row is one person"\n'
            '[columns]\nage = { kind = "numeric" }\njob = { kind = "categorical" }\n'
        )

        found = {
            "functions entered by LogisticRegression.fit": entered(
                lambda: linear.fit(X, (X[:, 0] > 0) * 1)
            ),
            "functions entered by TableClassifier.fit": entered(lambda: raw.fit(table)),
        }
        done = subprocess.run(
            [sys.executable, __file__, "--train", home], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return found | {"functions entered by noisette train": int(done.stdout.split()[-1])}


def train_in(home: str) -> None:
    """Print how many functions the command enters; in a process of its own, imports included."""

    def train() -> None:
        from noisette.app.commands import main

        sys.argv = ["noisette", "train", f"{home}/people.csv", "--schema", f"{home}/schema.toml",
                    "--epsilon", "1", "--delta", "1e-6", "--learn", "--out", f"{home}/model",
                    "--json"]  # fmt: skip
        with contextlib.suppress(SystemExit):
            main()

    print(entered(train))


def figures() -> dict[str, int]:
    """Return every figure by its name."""
    texts = list(sources())
    return {
        "lines": sum(len(text.splitlines()) for _, text in texts),
        "statements": sum(statements(text) for _, text in texts),
        "files": len(texts),
        "names at the top": len(
            [item for item in SOURCE.iterdir() if item.name not in ("__pycache__", "py.typed")]
        ),
        "public objects": public_objects(),
        "commands": commands(),
        "longest constructor": longest_constructor(),
        "tests for a kind outside its room": kind_tests(),
        "tests for the place": times(r"\bis_parted\b|\.parted\b"),
        "tests for the unit": times(
            r"(?:persons|crowd) is (?:not )?None|\bunit (?:==|!=) ", outside="fitting/units"
        ),
        "tests for a private n": times(
            r"\bsize_is_public\b|\b(?:n|count|size|records) is (?:not )?None"
        ),
        **fits(),
    }


if __name__ == "__main__":
    if "--train" in sys.argv:
        train_in(sys.argv[-1])
    else:
        for name, value in figures().items():
            print(
                f"{name:48} {value:8,} {MOST[name]:8,} {'' if value <= MOST[name] else 'too many'}"
            )
