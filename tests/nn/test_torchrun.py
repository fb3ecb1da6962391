"""The script of docs/networks.md runs as it stands, under torchrun with two processes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "networks.md"


@pytest.mark.slow
def test_the_script_of_the_page_runs_under_torchrun(tmp_path: Path) -> None:
    found = re.search(r"ranks\.py`.*?```python\n(.*?)```", PAGE.read_text(), flags=re.S)
    assert found is not None
    script = tmp_path / "ranks.py"
    script.write_text(found.group(1))
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("epsilon = 2 and delta = 1e-05") == 1  # one rank speaks
