"""The code of docs/sgd.md runs as it stands."""

import re
from pathlib import Path


def test_the_page_runs() -> None:
    text = (Path(__file__).parents[2] / "docs" / "sgd.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.S)
    assert len(blocks) >= 5
    exec("\n".join(blocks), {})
