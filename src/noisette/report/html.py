"""Pieces of HTML. Every text that enters is escaped here; what returns is ready for the page."""

from collections.abc import Sequence
from html import escape as _quoted

from noisette._package import __version__
from noisette._validate import visible
from noisette.report.kit import stylesheet

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Of every page that noisette writes: the browser runs no script and fetches nothing."""

_MANY = 5  # columns of a table that a telephone cannot show side by side

Boxes = Sequence[tuple[str, str]]
"""What a reviewer checks: (a few words, the whole sentence)."""


def escape(text: str) -> str:
    """Return text that is neither markup nor a sign that turns the direction of reading."""
    return _quoted(visible(text))


def isolated(text: str) -> str:
    """Return text whose direction is its own; most has no letter that could run to the left."""
    return escape(text) if text.isascii() else f"<bdi>{escape(text)}</bdi>"


def title(kind: str, text: str) -> str:
    """Return the heading of a page: what kind of page it is, and about what."""
    return f'<p class="eyebrow">{escape(kind)}</p><h1>{isolated(text)}</h1>'


def paragraph(text: str, name: str = "") -> str:
    """Return one paragraph, of class `name`."""
    return f'<p class="{name}">{isolated(text)}</p>' if name else f"<p>{isolated(text)}</p>"


def prose(text: str) -> str:
    """Return a paragraph of the program's own words, in which `code` stands between backquotes."""
    parts = [escape(part) for part in text.split("`")]
    marked = [f"<code>{part}</code>" if k % 2 else part for k, part in enumerate(parts)]
    return f"<p>{''.join(marked)}</p>"


def section(title: str, *parts: str, name: str = "") -> str:
    """Return a heading and what stands under it; nothing if there is nothing."""
    body, kind = "".join(parts), f' class="{name}"' if name else ""
    return f"<section{kind}><h2>{escape(title)}</h2>{body}</section>" if body else ""


def subsection(title: str, *parts: str) -> str:
    """Return a smaller heading and what stands under it; nothing if there is nothing."""
    body = "".join(parts)
    return f"<h3>{escape(title)}</h3>{body}" if body else ""


def items(texts: Sequence[str]) -> str:
    """Return a list."""
    return "<ul>" + "".join(f"<li>{isolated(text)}</li>" for text in texts) + "</ul>"


def facts(entries: Sequence[tuple[str, str]]) -> str:
    """Return short facts side by side: a word, and under it what it is."""
    inner = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{isolated(text)}</dd></div>" for name, text in entries
    )
    return f'<dl class="facts">{inner}</dl>'


def promise(big: str, small: str, unit: str, *sentences: str, name: str = "") -> str:
    """Return the promise: a number in large type, another beside it, for whom, and in words."""
    words = "".join(f'<p class="lead">{isolated(text)}</p>' for text in sentences if text)
    beside = f" <small>{escape(small)}</small>" if small else ""
    return (
        f'<div class="promise {name}"><div><p class="big">{escape(big)}{beside}</p>'
        f'<p class="unit">{isolated(unit)}</p></div><div>{words}</div></div>'
    )


def halves(*parts: str) -> str:
    """Return sections side by side where the screen is wide enough."""
    kept = [part for part in parts if part]
    return f'<div class="halves">{"".join(kept)}</div>' if kept else ""


def cards(entries: Sequence[tuple[str, str]]) -> str:
    """Return a few large figures with a word under each; an error after " ± " is smaller."""
    inner = ""
    for big, small in entries:
        number, sign, error = big.partition(" ± ")
        error = f" <small>± {escape(error)}</small>" if sign else ""
        inner += f"<div><b>{escape(number)}{error}</b><span>{isolated(small)}</span></div>"
    return f'<div class="numbers">{inner}</div>'


def boxes(title: str, lead: str, checks: Boxes, answers: Sequence[str]) -> str:
    """Return a list to tick off, the answers to choose from, and room for a name and a date."""
    ticked = "".join(
        f'<li><label><input type="checkbox"><span><b>{escape(name)}</b> {isolated(text)}'
        "</span></label></li>"
        for name, text in checks
    )
    chosen = "".join(
        f'<label><input type="checkbox"><span>{escape(text)}</span></label>' for text in answers
    )
    signed = "".join(
        f'<label><input type="text" autocomplete="off">{escape(text)}</label>'
        for text in ("Name", "Signature", "Date")
    )
    return section(
        title,
        paragraph(lead, "small"),
        f'<ul>{ticked}</ul><div class="answers">{chosen}</div><div class="sign">{signed}</div>',
        name="checks",
    )


def rows(entries: Sequence[tuple[str, str]]) -> str:
    """Return a table of two columns: a name and what it is."""
    inner = "".join(
        f'<tr><th scope="row">{isolated(name)}</th><td>{isolated(text)}</td></tr>'
        for name, text in entries
    )
    return f'<div class="wide"><table><tbody>{inner}</tbody></table></div>'


def table(
    head: Sequence[str], body: Sequence[Sequence[str]], caption: str = "", numeric: int = 0
) -> str:
    """Return a table; the last `numeric` columns are numbers.

    One of many columns becomes a list on a telephone, where each cell shows the head of its column.
    """
    kinds = [' class="n"' if j >= len(head) - numeric else "" for j in range(len(head))]
    many = len(head) >= _MANY
    shown = [f' data-head="{escape(text)}"' if many else "" for text in head]
    top = "".join(
        f'<th scope="col"{kind}>{isolated(text)}</th>'
        for kind, text in zip(kinds, head, strict=True)
    )
    inner = "".join(
        "<tr>" + "".join(
            f"<td{kind}{name}>{isolated(text)}</td>"
            for kind, name, text in zip(kinds, shown, line, strict=True)
        ) + "</tr>"
        for line in body
    )  # fmt: skip
    named = f"<caption>{escape(caption)}</caption>" if caption else ""
    return (
        f'<div class="wide"><table class="plain{" many" * many}">{named}'
        f"<thead><tr>{top}</tr></thead><tbody>{inner}</tbody></table></div>"
    )


def figure(svg: str, caption: str, title: str = "") -> str:
    """Return a figure with its title and caption; nothing without a drawing."""
    named = f'<p class="caption">{isolated(title)}</p>' if title else ""
    said = f"<figcaption>{isolated(caption)}</figcaption>" if caption else ""
    return f"<figure>{named}{svg}{said}</figure>" if svg else ""


def figures(drawn: Sequence[str]) -> str:
    """Return figures side by side where the screen is wide enough."""
    kept = [each for each in drawn if each]
    return f'<div class="figures">{"".join(kept)}</div>' if kept else ""


def code(text: str) -> str:
    """Return text as it would be typed."""
    return f"<pre><code>{escape(text)}</code></pre>"


def folded(summary: str, inner: str) -> str:
    """Return a part that opens on a click, without a script; on paper it is always open."""
    return f"<details><summary>{escape(summary)}</summary>{inner}</details>"


def footer() -> str:
    """Return the end of every page."""
    return (
        f"<footer>Written by noisette {escape(__version__)}. This page loads nothing from "
        "anywhere and runs no script.</footer>"
    )


def document(title: str, body: str) -> str:
    """Return the whole page; its policy forbids the browser to fetch anything."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{stylesheet()}</style></head>\n"
        f"<body><main>{body}{footer()}</main></body></html>\n"
    )
