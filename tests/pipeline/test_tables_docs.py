"""docs/tables.md, followed word by word."""

import re
from pathlib import Path

from helpers import run_code

PAGE = (Path(__file__).parents[2] / "docs" / "tables.md").read_text()


def test_the_python_of_the_page_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)
    assert len(blocks) == 2
    done = run_code("\n".join(blocks))
    assert done.returncode == 0, done.stderr
    for words in ("knots of the numeric columns", "'surgery'", "differentially private with"):
        assert words in done.stdout
    assert "patient 17" not in done.stdout


def test_the_parts_of_the_page_are_those_of_the_recipe() -> None:
    from noisette.core.adjacency import REPLACE_ONE
    from noisette.fitting.algorithms.public import PublicBudget
    from noisette.tables.pipeline.recipe import recipe_for

    public = PublicBudget(epsilon=1.0, delta=1e-6, adjacency=REPLACE_ONE, size=30_000)
    recipe = recipe_for(public, numeric=6, counted=7, unknown=8)
    rows = {line.split("|")[1].strip(): line for line in PAGE.splitlines() if line.startswith("| ")}
    assert f"| {100 * recipe.knots:.0f} % |" in rows["knots"]
    assert f"about {100 * recipe.levels:.0f} %" in rows["levels"]
    assert f"rest of {100 * (recipe.levels + recipe.shares):.0f} %" in rows["shares"]
    assert f"| {100 * recipe.model:.0f} % |" in rows["weights"]
    assert f"| {100 * recipe.calibration:.0f} % |" in rows["calibration"]
