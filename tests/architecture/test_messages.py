"""Errors are one sentence each; only what happened to the budget may follow in a second one."""

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "noisette"
BUDGET = re.compile(r" Nothing was (charged|drawn)\.$| It may have been charged\.$")


def text(node: ast.expr) -> str:
    """Return the text of an f-string as it stands in the source, fields as {}."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(
            text(part) if isinstance(part, ast.Constant) else "{}" for part in node.values
        )
    if isinstance(node, ast.BinOp):
        return text(node.left) + text(node.right)
    return "{}"


def messages() -> list[tuple[str, str]]:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                place = f"{path.relative_to(SOURCE).as_posix()}:{node.lineno}"
                found.append((place, text(node.exc.args[0])))
    return found


def test_no_message_has_two_sentences() -> None:
    # 22 had: "delta must lie in (0, 1). Got 2."
    found = messages()
    assert len(found) > 300
    several = {
        place: said for place, said in found if re.search(r"[.!?]\s+[A-Z{]", BUDGET.sub("", said))
    }
    assert several == {}
