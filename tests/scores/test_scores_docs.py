"""docs/scores.md, followed word by word."""

import re
from pathlib import Path

from helpers import run_code
from noisette.scores.layouts import EDGES

PAGE = (Path(__file__).parents[2] / "docs" / "scores.md").read_text()


def test_the_python_of_the_page_runs() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)
    done = run_code(block)
    assert done.returncode == 0, done.stderr
    for words in ("± 0.0", "predicted probability of 'yes'", "0.5\n"):
        assert words in done.stdout


def test_the_page_knows_the_bins() -> None:
    assert f"The {len(EDGES) - 1} bins" in PAGE
