"""The site builds without a warning, and everything on it has an address that holds."""

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

import noisette
from noisette.core.theorems import THEOREMS

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    for name in ("myst_parser", "pydata_sphinx_theme", "sphinx_design"):
        pytest.importorskip(name, reason="needs the extra docs")
    folder = tmp_path_factory.mktemp("site")
    build = (sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html")
    done = subprocess.run(
        [*build, "-d", str(folder / "trees"), str(ROOT / "docs"), str(folder / "html")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {
        path.relative_to(folder / "html").as_posix(): path.read_text()
        for path in (folder / "html").rglob("*.html")
        if "_static" not in path.parts  # the theme's own templates
    }, folder / "html"


def test_every_theorem_has_an_address(site):
    page = site[0]["theory/theorems.html"]
    assert [name for name in sorted(THEOREMS) if f'id="{name.lower()}"' not in page] == []


def test_a_theorem_is_linked_wherever_it_is_named(site):
    assert 'href="theory/theorems.html#person-weights"' in site[0]["persons.html"]
    assert 'href="#adjacency"' in site[0]["theory/theorems.html"]
    assert 'href="../theory/theorems.html#row-local"' in site[0]["howto/pipelines.html"]


def test_every_public_name_has_a_page_with_its_text(site):
    top = {*noisette.__all__} - {*noisette._ROOMS, "__version__"}
    wanted = [f"noisette.{name}" for name in top]
    for room in noisette._ROOMS:
        own = set(getattr(noisette, room).__all__) - top
        wanted += [f"noisette.{room}.{name}" for name in own]
    assert len(wanted) > 100
    for name in wanted:
        page = site[0].get(f"api/{name}.html", "")
        assert f'id="{name}"' in page, name
    assert "&gt;&gt;&gt; " in site[0]["api/noisette.LogisticRegression.html"]


def test_every_link_inside_leads_somewhere(site):
    pages, folder = site
    anchors = {name: set(re.findall(r'\bid="([^"]+)"', text)) for name, text in pages.items()}
    followed, dead = 0, []
    for name, text in pages.items():
        for target in re.findall(r'href="([^"]+)"', text):
            path, _, anchor = target.partition("#")
            if "://" in target or target.startswith(("mailto:", "data:")):
                continue
            followed += 1
            place = (
                (folder / name).parent / unquote(path).partition("?")[0] if path else folder / name
            )
            near = place.resolve().relative_to(folder.resolve()).as_posix()
            if not place.exists() or (anchor and near in anchors and anchor not in anchors[near]):
                dead.append(f"{name}: {target}")
    assert followed > 5000
    assert not dead, "\n".join(sorted(set(dead))[:20])


def test_nothing_is_fetched_from_elsewhere(site):
    loads = re.compile(r'<(?:script|img|link|iframe)[^>]*(?:src|href)="(https?:)?//([^/"]+)')
    found = {(name, host) for name, text in site[0].items() for _, host in loads.findall(text)}
    assert found == set()
