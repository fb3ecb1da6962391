"""The page in a real browser, without a network: it renders, and the console stays silent."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from outside import NAMES, pages

from noisette.core import mechanisms, plans
from noisette.core.guarantee import Guarantee
from noisette.report import Subject, model_page
from noisette.report.html import stylesheet

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((path for path in map(shutil.which, BROWSERS) if path), None)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium on this machine: install Debian's package chromium"
)
EVIL = "<script>document.title='broken'</script><img src=x onerror=console.error(1)>"


def browse(page, folder, *options):
    """Open a page in a fresh profile; the proxy leads nowhere, so nothing can be fetched."""
    path = folder / "report.html"
    path.write_text(page, encoding="utf-8")
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
        "--no-first-run", "--disable-background-networking", "--disable-component-update",
        "--disable-sync", "--proxy-server=127.0.0.1:9", f"--user-data-dir={folder / 'profile'}",
        "--enable-logging=stderr", "--v=0", *options, path.as_uri(),
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def complaints(done):
    return [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.fixture(scope="module")
def page():
    plan = plans.Run(mechanisms.SphericalLaplace(2.0, 5)).under("replace-one")
    promised = Guarantee(1.0, 0.0, plan, "the weights", public=(EVIL,))
    return promised, model_page(promised, Subject(EVIL, EVIL, [(EVIL, EVIL, EVIL)], 1000))


@pytest.fixture(scope="module")
def worst():
    """One page of each kind, each with another kind of evil name."""
    kinds = ("model", "ledger", "audit", "effects")
    names = ("long", "direction", "quotes", "emoji")
    return {kind: pages(NAMES[name])[kind] for kind, name in zip(kinds, names, strict=True)}


def picture(made, folder, width, *options):
    """Return the screen as an array of pixels."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    shot = folder / "page.png"
    done = browse(made, folder, f"--window-size={width},4000", "--hide-scrollbars",
                  f"--screenshot={shot}", *options)  # fmt: skip
    assert complaints(done) == []
    found = pyplot.imread(shot)[:, :, :3]
    assert found.shape[1] == width
    assert found.std() > 0.03  # something was drawn
    return found


def test_it_renders_and_the_console_is_silent(page, tmp_path):
    promised, text = page
    done = browse(text, tmp_path, "--dump-dom")
    assert done.returncode == 0
    for words in ("differentially private with epsilon = 1", promised.plan.name, "</svg>"):
        assert words in done.stdout.lower() or words in done.stdout
    assert "<title>Privacy report: &lt;script&gt;" in done.stdout
    assert complaints(done) == []


def test_the_search_for_complaints_finds_them(page, tmp_path):
    """The mutant: a page that does fetch and run something is stopped and reported."""
    broken = page[1].replace(
        "</main>", "<script>1</script><img src='https://example.org/x'></main>"
    )
    found = complaints(browse(broken, tmp_path, "--dump-dom"))
    assert any("Content Security Policy" in line for line in found)


@pytest.mark.parametrize(
    ("kind", "width"),
    [("model", 390), ("ledger", 390), ("audit", 390), ("effects", 390), ("model", 1200)],
)
def test_it_fills_a_screen_of_any_width(worst, tmp_path, kind, width):
    """Nothing sticks out sideways: the page's own right margin is blank from top to bottom."""
    margin = picture(worst[kind], tmp_path, width)[:, -12:]
    assert margin.std(axis=(0, 1)).max() < 1e-3, "text or a table reaches the right edge"


def test_by_night_it_is_dark_and_on_paper_white(page, tmp_path):
    night = picture(page[1], tmp_path, 390, "--force-dark-mode")
    paper = re.findall(r"--paper: #(\w{6});", stylesheet())[1]
    assert np.allclose(night[2, 2], [int(paper[k : k + 2], 16) / 255 for k in (0, 2, 4)])
    sheet = tmp_path / "page.pdf"
    browse(page[1], tmp_path, "--force-dark-mode", "--no-pdf-header-footer",
           f"--print-to-pdf={sheet}")  # fmt: skip
    content = sheet.read_bytes()
    assert content.startswith(b"%PDF")
    assert b"/MediaBox [0 0 594" in content or b"/MediaBox [0 0 595" in content  # A4


def test_screen_sizes_are_in_the_style(page):
    assert re.search(r"@media screen and \(max-width", page[1])
    assert "@media print" in page[1]
