"""Every block of code on every page: Python runs, commands run or are at least understood."""

import re
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pytest
import typer

from helpers import run_command
from noisette.app.commands.app import app

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text()
    for path in [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
    if "_build" not in path.parts
}
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```", flags=re.S | re.M)

# Followed word by word, with what they print, by tests of their own.
ELSEWHERE = {
    "docs/additive.md": "tests/pipeline/test_export.py",
    "docs/audit.md": "tests/audit/test_two_worlds.py",
    "docs/networks.md": "tests/nn/test_networks_docs.py",
    "docs/command_line.md": "tests/tables/test_command_line_docs.py",
    "docs/scores.md": "tests/scores/test_scores_docs.py",
    "docs/tables.md": "tests/pipeline/test_tables_docs.py",
}
# Folders whose pages are whole walks: their commands run too, in the order of the page.
WALKS = ("docs/start/", "docs/howto/", "docs/migrate/", "docs/understand/")
# Pages that speak of "your" rows.
ROWS = {
    "docs/tuning.md": """
import numpy as np
X = np.random.default_rng(0).normal(size=(2000, 4)) / 4
y = (X[:, 0] > 0).astype(int)
""",
    "docs/dask.md": """
from pathlib import Path
import numpy as np
import pandas as pd
FEATURES = ["a", "b"]
Path("visits").mkdir()
X = np.random.default_rng(0).normal(size=(2000, 2)) / 4
table = pd.DataFrame(X, columns=FEATURES).assign(ill=(X[:, 0] > 0).astype(int))
for part in range(2):
    table[part::2].to_parquet(f"visits/part-{part}.parquet")
""",
}
LONG = {"docs/tuning.md"}  # its plan is for 100 weights and three candidates
KNOWN = {"python", "py", "sh", "bash", "toml", "text", ""}


def blocks(page):
    return [(kind.strip(), text) for kind, text in BLOCK.findall(PAGES[page])]


def commands(text):
    """Return the lines of a shell block, continued ones joined, comments apart."""
    for line in text.replace("\\\n", " ").splitlines():
        command, _, note = re.sub(r"(^|\s)# ?", "\0", line, count=1).partition("\0")
        if command.strip():
            yield shlex.split(command), note.strip()


def having(*kinds):
    return [page for page in PAGES if any(kind in kinds for kind, _ in blocks(page))]


def follow(page, folder, monkeypatch):
    """Run a page from top to bottom in a folder of its own."""
    monkeypatch.chdir(folder)
    names = {"__name__": "__main__"}
    exec(ROWS.get(page, ""), names)
    followed = 0
    for kind, text in blocks(page):
        if kind == "python":
            exec(compile(text, page, "exec"), names)
            followed += 1
        elif kind in ("sh", "bash") and page.startswith(WALKS):
            for words, note in commands(text):
                if words[0] == "noisette":
                    done = run_command(*words[1:])
                    assert done.returncode == (2 if note == "refused" else 0), done.stderr
                    followed += 1
    return followed


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow) if page in LONG else page
        for page in having("python", "sh")
        if page not in ELSEWHERE
    ],
)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    for library in ("torch", "dask"):
        if re.search(rf"\b{library}\b", PAGES[page]):
            pytest.importorskip(library)
    state = np.random.get_state()
    followed = follow(page, tmp_path, monkeypatch)
    np.random.set_state(state)
    wanted = sum(kind == "python" for kind, _ in blocks(page))
    assert followed >= wanted


def test_pages_that_run_elsewhere_are_named_there():
    for page, test in ELSEWHERE.items():
        assert Path(page).name in (ROOT / test).read_text(), page


def test_every_block_is_of_a_kind_that_is_checked():
    for page in PAGES:
        for kind, text in blocks(page):
            assert kind in KNOWN or kind.startswith("{"), f"{page}: {kind}"
            if kind == "py":  # other people's code, which runs where they are installed
                assert "noisette" not in text, page
            if kind == "toml":
                tomllib.loads(text)


@pytest.mark.parametrize("page", having("sh", "bash"))
def test_every_command_of_a_page_is_understood(page):
    seen = 0
    for kind, text in blocks(page):
        for words, _ in commands(text) if kind in ("sh", "bash") else ():
            seen += 1
            if words[0] == "noisette":
                if words[1].startswith("--"):
                    continue
                _, command, rest = typer.main.get_command(app).resolve_command(None, words[1:])
                command.make_context(words[1], rest)  # parsed, not run
            else:
                assert words[0] in {"pip", "make", "zcat", "cd", "git", "python"}, (page, words)
    assert seen
