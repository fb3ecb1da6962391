"""What the README says works, works."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", README, flags=re.S)


def test_there_are_snippets():
    assert len(SNIPPETS) >= 2


def test_links_lead_somewhere():
    followed = 0
    for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), ROOT / "CONTRIBUTING.md"]:
        words = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M)
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", words):
            if "://" not in target:
                followed += 1
                assert (page.parent / target).exists(), f"{page.name}: {target}"
    assert followed > 10


def test_the_named_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"make ([a-z]+)", README))
    assert len(targets) > 1
    for target in targets:
        assert re.search(rf"^{target}:", makefile, flags=re.M), target
