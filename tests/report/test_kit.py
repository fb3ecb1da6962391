"""The kit: one style sheet, readable by day and by night (WCAG 2.2, level AA)."""

import re

import pytest

from noisette.report.html import SERIES, stylesheet

TEXT = ("ink", "muted", "accent", "good", "warn", "bad")
GROUNDS = ("paper", "surface", "accent-soft", "good-soft", "warn-soft", "bad-soft")
OWN = {"good": {"paper", "surface", "good-soft"}, "warn": {"paper", "surface", "warn-soft"},
       "bad": {"paper", "surface", "bad-soft"}}  # fmt: skip
LIGHT, DARK = (
    dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", block))
    for block in re.findall(r"^:root \{.*?\}", stylesheet(), re.M | re.S)
)
PALETTES = {"day": LIGHT, "night": DARK}


def luminance(colour):
    """Return the relative luminance of WCAG."""
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_the_measure_itself():
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)  # just fails AA


@pytest.mark.parametrize("when", PALETTES)
def test_text_has_contrast(when):
    colours = PALETTES[when]
    for name in TEXT:
        for ground in OWN.get(name, set(GROUNDS)):
            found = contrast(colours[name], colours[ground])
            assert found >= 4.5, f"{name} on {ground} by {when}: {found:.2f}"
    assert contrast(colours["on-accent"], colours["accent"]) >= 4.5


@pytest.mark.parametrize("when", PALETTES)
def test_boxes_axes_and_lines_have_contrast(when):
    colours = PALETTES[when]
    for name in ("axis", "edge"):
        for ground in ("paper", "surface"):
            assert contrast(colours[name], colours[ground]) >= 3.0
    for day, night in SERIES.items():  # also names of lines, which are text
        assert contrast(day if when == "day" else night, colours["paper"]) >= 4.5


def test_both_palettes_have_the_same_names_and_all_are_used():
    assert set(LIGHT) == set(DARK)
    css = stylesheet()
    assert set(re.findall(r"var\(--([a-z-]+)\)", css)) <= {*LIGHT, "sans", "mono"}


def test_there_are_no_other_colours():
    """A colour beside the palettes would have no partner by night."""
    found = {each.lower() for each in re.findall(r"#[0-9a-fA-F]{3,8}\b", stylesheet())}
    known = {*LIGHT.values(), *DARK.values(), *SERIES, *SERIES.values()}
    assert found <= {each.lower() for each in known}


def test_screens_paper_and_night():
    css = stylesheet()
    for words in ("@media screen and (max-width: 720px)", "@page", "size: A4", "@media print",
                  "@media screen and (prefers-color-scheme: dark)"):  # fmt: skip
        assert words in css
    assert not re.search(r"https?:|url\(|@import|//", css)
