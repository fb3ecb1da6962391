"""Names from outside never become markup, whoever chose them, on any page."""

import re
import unicodedata

import pytest
from outside import NAMES, pages
from test_page import parsed

from noisette._validate import visible

ATTRIBUTES = {
    "lang", "charset", "http-equiv", "content", "name", "rel", "href", "class", "scope", "role",
    "type", "autocomplete", "id", "data-head", "viewbox", "x", "y", "x1", "x2", "y1", "y2", "cx",
    "cy", "r", "rx", "d", "dy", "width", "height", "points", "fill", "fill-opacity", "stroke",
    "stroke-width", "stroke-dasharray", "text-anchor", "font-size",
}  # fmt: skip
TAGS = {
    "html", "head", "meta", "link", "title", "style", "body", "main", "section", "h1", "h2", "h3",
    "p", "div", "span", "small", "b", "bdi", "a", "br", "ul", "li", "dl", "dt", "dd", "label",
    "input", "table", "caption", "thead", "tbody", "tr", "th", "td", "figure", "figcaption",
    "details", "summary", "pre", "code", "footer", "svg", "desc", "text", "tspan", "line", "rect",
    "circle", "path", "polyline", "polygon",
}  # fmt: skip


@pytest.fixture(scope="module", params=NAMES)
def named(request):
    return NAMES[request.param], pages(NAMES[request.param])


def test_it_stays_text(named):
    name, made = named
    for kind, page in made.items():
        found = parsed(page)
        assert {tag for tag, _ in found.tags} <= TAGS, kind
        assert {key for _, attrs in found.tags for key in attrs} <= ATTRIBUTES, kind
        assert visible(name) in "".join(found.text), kind
        assert page.count("</style>") == page.count("</head>") == 1


def test_links_lead_into_the_page_alone(named):
    for page in named[1].values():
        found = parsed(page)
        ids = {attrs["id"] for _, attrs in found.tags if "id" in attrs}
        links = [attrs["href"] for tag, attrs in found.tags if tag == "a"]
        assert {link[1:] for link in links} <= ids
        assert all(re.fullmatch(r"#theorem-[A-Za-z0-9-]+", link) for link in links)


def test_nothing_turns_the_direction_of_reading(named):
    for page in named[1].values():
        steering = {sign for sign in page if unicodedata.category(sign) == "Cf"}
        assert steering <= {"\u200c", "\u200d"}


def test_drawings_have_short_labels_and_whole_words(named):
    name, made = named
    for drawing in re.findall(r"<svg.*?</svg>", made["model"] + made["audit"], flags=re.S):
        assert all(len(text) < 130 for text in re.findall(r"<text[^>]*>([^<]*)<", drawing))
    assert visible(name) in "".join(parsed(made["effects"]).text)


def test_an_unescaped_name_would_be_noticed(monkeypatch):
    """The mutant: a kit that forgets to escape."""
    from noisette.report import html

    monkeypatch.setattr(html, "_quoted", lambda text: text)
    with pytest.raises(AssertionError):
        test_it_stays_text((NAMES["script"], pages(NAMES["script"])))
