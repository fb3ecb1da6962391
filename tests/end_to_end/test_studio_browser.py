"""The studio in a real browser: the whole walk, silent console, nothing leaves 127.0.0.1."""

import contextlib
import csv
import itertools
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from noisette import Ledger
from noisette.tables import read_model

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((path for path in map(shutil.which, NAMES) if path), None)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium on this machine: install Debian's package chromium"
)
sync_api = pytest.importorskip("playwright.sync_api", reason="the walk needs playwright")

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
ADULT = (
    "age, workclass, fnlwgt, education, education-num, marital-status, occupation, relationship, "
    "race, sex, capital-gain, capital-loss, hours-per-week, native-country, income"
)
PATIENCE = 180_000.0  # milliseconds, on a busy machine
NUMBER, CATEGORY, IGNORE = 1, 2, 5  # how often to press the arrow in the list of kinds
HOSTILE = {
    "<script>document.title='broken'</script>": NUMBER, "\"quotes\" & 'more'": CATEGORY,
    "\u202eright to left": NUMBER, "سن": NUMBER, "👩‍⚕️ emoji": IGNORE, "x" * 300: NUMBER,
}  # fmt: skip


@contextlib.contextmanager
def studio(folder):
    """Run the command; yield the address that it prints."""
    process = subprocess.Popen(
        [sys.executable, "-m", "noisette", "studio", str(folder), "--no-browser"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        _, complaints = process.communicate(timeout=60)
    assert complaints == ""


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


class Visit:
    """A page of which every console message and every request is remembered."""

    def __init__(self, browser, **options):
        self.context = browser.new_context(viewport={"width": 1200, "height": 900}, **options)
        self.context.set_default_timeout(PATIENCE)
        self.messages, self.abroad, self.clicks = [], [], 0
        self.page = self.new_page()

    def new_page(self):
        page = self.context.new_page()
        page.on("console", lambda message: self.messages.append(message.text))
        page.on("pageerror", lambda error: self.messages.append(str(error)))
        page.on("request", lambda request: self._asked(request.url))
        return page

    def _asked(self, url):
        if not url.startswith(("http://127.0.0.1:", "data:", "file:")):
            self.abroad.append(url)

    def click(self, role, name):
        self.clicks += 1
        self.page.get_by_role(role, name=name).click()

    def check_layout(self):
        """Nothing sticks out on a telephone, and every field, button and picture has a name."""
        wide = self.page.viewport_size
        self.page.set_viewport_size({"width": 390, "height": 800})
        assert self.page.evaluate("document.documentElement.scrollWidth") <= 390
        self.page.set_viewport_size(wide)
        unnamed = self.page.evaluate(
            """Array.from(document.querySelectorAll(
                 'input:not([type=hidden]), select, textarea, button, a, iframe'))
               .filter(e => !(e.labels?.length || e.textContent.trim() || e.title
                              || e.getAttribute('aria-label'))).map(e => e.outerHTML)"""
        )
        assert unnamed == []
        levels = self.page.evaluate(
            "Array.from(document.querySelectorAll('h1, h2, h3')).map(e => Number(e.tagName[1]))"
        )
        assert levels.count(1) == 1
        assert levels[0] == 1
        assert all(b - a <= 1 for a, b in itertools.pairwise(levels))


def write_hostile(path, n=1500):
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 90, (n, len(HOSTILE) + 1))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*HOSTILE, "<b>ill</b>"])
        for row in numbers.tolist():
            writer.writerow([*row[:-1], "yes" if row[0] + row[-1] > 90 else "no"])


def tab_to(page, name, most=120):
    """Press Tab until the field or button of that name has the focus: by keyboard alone."""
    for _ in range(most):
        page.keyboard.press("Tab")
        found = page.evaluate(
            """(() => { const e = document.activeElement;
              return [e.labels?.[0]?.textContent, e.textContent, e.getAttribute('aria-label')]
                .filter(Boolean).map(t => t.trim()).join(' | '); })()"""
        )
        if name in found:
            return
    raise AssertionError(f"Tab does not reach {name!r}")


def test_hostile_names_by_keyboard_alone(browser, tmp_path):
    """The whole walk on a table with hostile names, without a mouse."""
    write_hostile(tmp_path / "<script>alert(1)<script>\u202e 'x'.csv")
    visit = Visit(browser, color_scheme="dark")
    page = visit.page
    with studio(tmp_path) as address:
        link = tmp_path / "link.html"  # as `noisette studio` opens a browser: from another site
        link.write_text(f'<meta http-equiv="refresh" content="0; url={address}">')
        page.goto(link.as_uri())
        page.get_by_role("heading", name="Which table?").wait_for()
        visit.check_layout()
        tab_to(page, "alert(1)")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="What is public about").wait_for()
        tab_to(page, "Column")
        page.keyboard.press("End")
        tab_to(page, "Every label")
        page.keyboard.type("no, yes")
        tab_to(page, "Each person has one row")
        page.keyboard.press("Space")
        for downs in HOSTILE.values():  # no name tells a kind, so each is chosen
            tab_to(page, "Kind")
            for _ in range(downs):
                page.keyboard.press("ArrowDown")
        visit.check_layout()
        tab_to(page, "Go on to the budget")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="How much may").wait_for()
        tab_to(page, "About how many")
        page.keyboard.type("1500")
        page.get_by_text("of what there is to learn").first.wait_for()
        visit.check_layout()
        tab_to(page, "Go on to the ledger")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Which ledger pays").wait_for()
        visit.check_layout()
        tab_to(page, "Go on to the training")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Train?").wait_for()
        visit.check_layout()
        trained_once(visit, tmp_path)
        visit.check_layout()
        refused_elsewhere(browser, address, page.url)
        assert page.title().endswith("noisette")
        assert "broken" not in page.title()
    assert visit.messages == []
    assert visit.abroad == []
    model = next(path for path in tmp_path.iterdir() if path.is_dir())
    assert [column.name for column in read_model(model).schema.columns] == list(HOSTILE)


def trained_once(visit, folder):
    """Confirm in two tabs, reload, go back and forth: one charge, one model."""
    page, other = visit.page, visit.new_page()
    other.goto(page.url)
    tab_to(page, "Train the model")
    page.keyboard.press("Enter")
    page.wait_for_url("**/r/*")
    other.get_by_role("button", name="Train the model").click()
    other.wait_for_url("**/r/*")
    assert other.url == page.url
    page.get_by_role("heading", name="A private model").wait_for()
    page.reload()
    page.go_back()
    page.get_by_role("heading", name="A private model").wait_for()  # step 5 leads on to its model
    other.close()
    assert Ledger.open(next(folder.glob("*.ledger"))).count == 1
    assert len([path for path in folder.iterdir() if path.is_dir()]) == 1


def refused_elsewhere(browser, address, inside):
    """A second user gets nothing without the token, and a form of another site is refused."""
    stranger = Visit(browser)
    for url in (address.split("?")[0], inside):
        assert stranger.page.goto(url).status == 403
        assert "noisette: open the address" in stranger.page.inner_text("body")
    stranger.page.goto(address)
    stranger.page.get_by_role(
        "heading", name="Which table?"
    ).wait_for()  # even somebody who is in: a page of another site posts for her
    base = stranger.page.url
    elsewhere = stranger.new_page()
    elsewhere.set_content(f'<form method="post" action="{base}table"><button>go</button></form>')
    with elsewhere.expect_navigation() as answer:
        elsewhere.get_by_role("button").click()
    assert answer.value.status == 403
    stranger.context.close()


def adult_file(folder):
    home = os.environ.get("NOISETTE_DATA")
    path = Path(home or "nowhere") / "adult" / "adult.data.gz"
    if not path.is_file():
        pytest.skip("Adult's raw file is not here: set NOISETTE_DATA to the folder of the data")
    shutil.copy(path, folder)


@pytest.mark.slow
def test_adult_from_the_raw_file(browser, tmp_path):
    """At most 12 clicks and under three minutes, from the command to a model and its report."""
    adult_file(tmp_path)
    visit = Visit(browser)
    page, began = visit.page, time.monotonic()
    with studio(tmp_path) as address:
        page.goto(address)
        visit.click("button", "adult.data.gz")
        page.get_by_text("numbers where names are expected").wait_for()
        visit.click("radio", "is a row already")
        page.get_by_label("Names of the columns, in order").fill(ADULT)
        visit.click("button", "Read its header")
        page.get_by_label("Column", exact=True).select_option(label="income")
        page.get_by_label("Every label").fill("<=50K, >50K")
        visit.click("radio", "Each person has one row")
        kinds = [page.locator(f"#kind-{k}").input_value() for k in range(14)]
        assert kinds.count("numeric") == 6
        assert kinds.count("categorical") == 8
        visit.click("button", "Go on")
        page.get_by_label("About how many").fill("32561")
        page.get_by_text("of what there is to learn").first.wait_for()
        visit.click("button", "Go on")
        visit.click("button", "Go on")
        visit.click("button", "Train the model")
        page.get_by_role("heading", name="A private model").wait_for()
        seconds = time.monotonic() - began
        report = page.frame_locator("iframe.report")
        report.get_by_text("What an attacker gains").wait_for()
        visit.check_layout()
        with page.expect_download() as download:
            page.get_by_role("link", name="the report, for the reviewer").click()
        assert "adult-model" in download.value.suggested_filename
        page.get_by_label("Path of a table").fill("adult.data.gz")
        page.get_by_role("button", name="Predict").click()
        page.get_by_role("link", name="adult-predictions.csv").wait_for()
    assert visit.clicks <= 12
    assert seconds < 180.0
    assert visit.messages == []
    assert visit.abroad == []
    scores = read_model(tmp_path / "adult-model").model.test_
    assert scores.auc.value > 0.87
    predictions = (tmp_path / "adult-predictions.csv").read_text()
    assert predictions.count("\n") == 32562
    print(f"{visit.clicks} clicks, {seconds:.0f} s, AUC {scores.auc}")
