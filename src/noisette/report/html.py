"""Pieces of HTML. Every text that enters is escaped here; what returns is ready for the page."""

from collections.abc import Sequence
from html import escape as _quoted

from noisette._text import visible
from noisette.report.kit import stylesheet

__all__ = [
    "POLICY", "cards", "code", "document", "escape", "figure", "folded", "items", "paragraph",
    "rows", "section", "table",
]  # fmt: skip

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Of every page that noisette writes: the browser runs no script and fetches nothing."""


def escape(text: str) -> str:
    """Return text that is neither markup nor a sign that turns the direction of reading."""
    return _quoted(visible(text))


def _isolated(text: str) -> str:
    """Return text whose direction is its own; most has no letter that could run to the left."""
    return escape(text) if text.isascii() else f"<bdi>{escape(text)}</bdi>"


def paragraph(text: str, name: str = "") -> str:
    """Return one paragraph, of class `name`."""
    return f'<p class="{name}">{escape(text)}</p>' if name else f"<p>{escape(text)}</p>"


def section(title: str, *parts: str) -> str:
    """Return a heading and what stands under it; nothing if there is nothing."""
    body = "".join(parts)
    return f"<section><h2>{escape(title)}</h2>{body}</section>" if body else ""


def items(texts: Sequence[str]) -> str:
    """Return a list."""
    return "<ul>" + "".join(f"<li>{_isolated(text)}</li>" for text in texts) + "</ul>"


def cards(entries: Sequence[tuple[str, str]]) -> str:
    """Return a few large figures with a word under each."""
    inner = "".join(f"<div><b>{escape(big)}</b><span>{escape(small)}</span></div>"
                    for big, small in entries)  # fmt: skip
    return f'<div class="numbers">{inner}</div>'


def rows(entries: Sequence[tuple[str, str]]) -> str:
    """Return a table of two columns: a name and what it is."""
    inner = "".join(
        f'<tr><th scope="row">{_isolated(name)}</th><td>{_isolated(text)}</td></tr>'
        for name, text in entries
    )
    return f'<div class="wide"><table><tbody>{inner}</tbody></table></div>'


def table(
    head: Sequence[str], body: Sequence[Sequence[str]], caption: str = "", numeric: int = 0
) -> str:
    """Return a table; the last `numeric` columns are numbers."""
    first = len(head) - numeric

    def cell(kind: str, j: int, text: str) -> str:
        name = ' class="n"' if j >= first else ""
        scope = ' scope="col"' if kind == "th" else ""
        return f"<{kind}{scope}{name}>{_isolated(text)}</{kind}>"

    top = "".join(cell("th", j, text) for j, text in enumerate(head))
    inner = "".join(
        "<tr>" + "".join(cell("td", j, text) for j, text in enumerate(line)) + "</tr>"
        for line in body
    )
    named = f"<caption>{escape(caption)}</caption>" if caption else ""
    return (
        f'<div class="wide"><table class="plain">{named}<thead><tr>{top}</tr></thead>'
        f"<tbody>{inner}</tbody></table></div>"
    )


def figure(svg: str, caption: str) -> str:
    """Return a figure with its caption; nothing without a drawing."""
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>" if svg else ""


def code(text: str) -> str:
    """Return text as it would be typed."""
    return f"<pre><code>{escape(text)}</code></pre>"


def folded(summary: str, inner: str) -> str:
    """Return a part that opens on a click, without a script."""
    return f"<details><summary>{escape(summary)}</summary>{inner}</details>"


def document(title: str, body: str) -> str:
    """Return the whole page; its policy forbids the browser to fetch anything."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{stylesheet()}</style></head>\n"
        f"<body><main>{body}</main></body></html>\n"
    )
