"""The look of every page that noisette writes: two palettes and one style sheet.

Pages are paper first: one column of text, thin rules, one dark blue, and red only where something
is wrong. Colours are variables, so a page of another room needs no colour of its own.
"""

LIGHT = {
    "paper": "#ffffff", "surface": "#f4f6f8", "ink": "#1b1f24", "muted": "#565d66",
    "rule": "#d3d8de", "grid": "#e6e9ed", "axis": "#6a717a", "edge": "#7d858f",
    "accent": "#17466e", "on-accent": "#ffffff", "accent-soft": "#e8eff6",
    "good": "#19653a", "good-soft": "#e7f3ec", "warn": "#7a4b00", "warn-soft": "#fdf3e0",
    "bad": "#9c1f17", "bad-soft": "#fcebe9",
}  # fmt: skip
"""Colours by day: name of the CSS variable (without ``--``) -> colour."""

DARK = {
    "paper": "#14181d", "surface": "#1d2229", "ink": "#e7eaee", "muted": "#a8b0ba",
    "rule": "#3a424c", "grid": "#2b323a", "axis": "#8d96a1", "edge": "#7f8995",
    "accent": "#9cc4ea", "on-accent": "#10161c", "accent-soft": "#1e2d3c",
    "good": "#86d0a3", "good-soft": "#17301f", "warn": "#e6bd72", "warn-soft": "#33280f",
    "bad": "#f5a097", "bad-soft": "#3b1a17",
}  # fmt: skip
"""The same colours by night."""

SERIES = {
    "#0072B2": "#62B0E8", "#B34700": "#F19A5E", "#00785A": "#56C6A4",
    "#A0428A": "#DB93CB", "#5A5A5A": "#B4B8BD",
}  # fmt: skip
"""Colours in drawings: by day, as they stand in the drawing, -> by night.

A drawing keeps its own colours, so that it may leave the page; the style sheet exchanges them.
"""

_SANS = (
    '"Source Sans 3", "Source Sans Pro", "Segoe UI", -apple-system, BlinkMacSystemFont, Roboto, '
    '"Helvetica Neue", "Liberation Sans", Arial, sans-serif'
)
_MONO = 'ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace'

_BASE = """
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 17px/1.5 var(--sans); }
main { max-width: 61rem; margin: 0 auto; padding: 2rem 1.25rem 3.5rem; }
h1 { font-size: 2rem; line-height: 1.18; font-weight: 650; margin: .2rem 0 1rem;
  letter-spacing: -.01em; overflow-wrap: anywhere; }
h2 { font-size: 1.3rem; line-height: 1.3; font-weight: 650; margin: 2.6rem 0 .6rem;
  padding-top: 1rem; border-top: 1px solid var(--rule); }
h3 { font-size: 1.02rem; line-height: 1.35; font-weight: 650; margin: 1.4rem 0 .4rem; }
p, ul, ol { max-width: 44rem; }
p { margin: .6rem 0; overflow-wrap: break-word; }
ul, ol { padding-left: 1.25rem; margin: .6rem 0; }
li { margin: .3rem 0; overflow-wrap: anywhere; }
a { color: var(--accent); text-decoration-thickness: 1px; text-underline-offset: .15em; }
a:focus-visible, summary:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
:target { background: var(--accent-soft); }
.eyebrow { color: var(--accent); font-size: .84rem; font-weight: 650; letter-spacing: .06em;
  text-transform: uppercase; margin: 0; }
.ids a { white-space: nowrap; }
.lead { font-size: 1.14rem; line-height: 1.45; }
.small { color: var(--muted); font-size: .92rem; }
.note, .void { background: var(--accent-soft); border-left: 4px solid var(--accent);
  padding: .8rem 1.1rem; margin: 1rem 0; overflow-wrap: anywhere; }
code, .code { font: .88em/1.5 var(--mono); overflow-wrap: anywhere; }
pre { background: var(--surface); padding: .7rem .9rem; border: 1px solid var(--rule);
  white-space: pre-wrap; overflow-wrap: anywhere; margin: .6rem 0; }
details { margin: .7rem 0; } summary { cursor: pointer; color: var(--accent); }
footer { margin-top: 3rem; padding-top: .8rem; border-top: 1px solid var(--rule);
  color: var(--muted); font-size: .9rem; }
"""

_TABLES = """
.wide { overflow-x: auto; margin: .7rem 0; }
table { border-collapse: collapse; width: 100%; font-size: .95rem;
  font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--muted); padding-bottom: .35rem; }
th, td { text-align: left; vertical-align: top; padding: .42rem .9rem .42rem 0;
  border-bottom: 1px solid var(--rule); overflow-wrap: anywhere; }
th { font-weight: 600; overflow-wrap: normal; }
thead th { color: var(--muted); font-size: .88rem; vertical-align: bottom;
  border-bottom: 1.5px solid var(--axis); }
tbody th { width: 30%; min-width: 7rem; overflow-wrap: anywhere; }
.plain td { min-width: 6.4rem; } .plain td:first-child { min-width: 4.4rem; }
.plain td.n { min-width: 0; }
td.n, th.n { text-align: right; padding: .42rem 0 .42rem .9rem; overflow-wrap: normal; }
td.n { white-space: nowrap; }
"""

_PIECES = """
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr));
  gap: .55rem 1.4rem; margin: 1rem 0; padding: .8rem 0; border: solid var(--rule);
  border-width: 1px 0; }
.facts dt { color: var(--muted); font-size: .84rem; }
.facts dd { margin: 0; font-weight: 600; line-height: 1.3; overflow-wrap: anywhere; }
.promise { display: grid; grid-template-columns: minmax(15rem, 5fr) 7fr; gap: 1.2rem 2rem;
  align-items: center; background: var(--accent-soft); border-left: 5px solid var(--accent);
  padding: 1.2rem 1.5rem; margin: 1.2rem 0; }
.promise .big { font-size: 3rem; line-height: 1.05; font-weight: 650; margin: 0;
  letter-spacing: -.02em; color: var(--accent); font-variant-numeric: tabular-nums; }
.promise .big small { font-size: 1.35rem; letter-spacing: 0; white-space: nowrap; }
.promise .unit { font-size: 1.14rem; font-weight: 600; line-height: 1.3; margin: .4rem 0 0;
  overflow-wrap: anywhere; }
.promise p { max-width: none; }
.void { background: var(--bad-soft); border-color: var(--bad); }
.good { background: var(--good-soft); border-color: var(--good); }
.warn { background: var(--warn-soft); border-color: var(--warn); }
.void .big { color: var(--bad); } .good .big { color: var(--good); }
.warn .big { color: var(--warn); }
.halves { display: grid; grid-template-columns: 1fr 1fr; gap: 0 2.6rem; align-items: start; }
.halves > * { min-width: 0; }
.halves h2 { margin-top: 1.2rem; border: 0; padding-top: 0; }
.numbers { display: grid; grid-template-columns: repeat(auto-fit, minmax(7.6rem, 1fr));
  gap: .9rem 1.2rem; margin: .8rem 0; }
.numbers div { min-width: 0; overflow-wrap: anywhere; border-top: 2px solid var(--accent);
  padding-top: .35rem; }
.numbers b { display: block; font-size: 1.5rem; font-weight: 650; line-height: 1.2;
  overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
.numbers small { font-size: .95rem; color: var(--muted); white-space: nowrap; }
.numbers span { display: block; line-height: 1.35; color: var(--muted); font-size: .9rem; }
.checks { border: 1.5px solid var(--axis); padding: .2rem 1.5rem 1.2rem; margin: 1.8rem 0; }
.checks h2 { border: 0; margin-top: .8rem; padding: 0; }
.checks ul { list-style: none; padding: 0; margin: .5rem 0; max-width: none; }
.checks p { max-width: none; } .checks li { margin: .7rem 0; max-width: none; }
.checks label { display: flex; gap: .75rem; align-items: flex-start; }
.checks input[type="checkbox"] { appearance: none; flex: none; width: 1.15em; height: 1.15em;
  margin: .2em 0 0; border: 1.5px solid var(--ink); background: var(--paper); display: grid;
  place-content: center; font: inherit; }
.checks input[type="checkbox"]:checked::before { content: "\\2713"; color: var(--ink);
  font-weight: 700; line-height: 1; }
.answers { display: flex; flex-wrap: wrap; gap: .5rem 2.4rem; margin: 1.1rem 0 0;
  padding-top: .9rem; border-top: 1px solid var(--rule); font-weight: 600; }
.sign { display: grid; grid-template-columns: 2fr 2fr 1fr; gap: 1.2rem 1.6rem; margin-top: 1rem; }
.sign label { display: block; color: var(--muted); font-size: .88rem; }
.sign input { display: block; width: 100%; height: 2.6rem; padding: .9rem .2rem 0; border: 0;
  border-bottom: 1px solid var(--ink); border-radius: 0; background: none; color: var(--ink);
  font: inherit; font-size: 1rem; }
input:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
"""

_FIGURES = """
figure { margin: 1.1rem 0; padding: .9rem 0 0; }
.figures { display: grid; grid-template-columns: 1fr 1fr; gap: .4rem 2.2rem; }
.figures figure { min-width: 0; margin: 0; padding: .6rem 0; }
.caption { font-weight: 600; margin: 0 0 .35rem; overflow-wrap: anywhere; }
figcaption { color: var(--muted); font-size: .92rem; margin-top: .45rem; max-width: 44rem;
  overflow-wrap: anywhere; }
svg { display: block; width: 100%; max-width: 32rem; height: auto; font: 13px sans-serif;
  fill: var(--ink); }
svg .name { font-weight: 600; }
svg .grid { stroke: var(--grid); } svg .axis { stroke: var(--axis); }
svg .mark { fill: var(--ink); }
svg .frame { fill: var(--surface); stroke: var(--edge); }
"""

_PHONE = """
@media screen and (max-width: 720px) {
  body { font-size: 16px; } main { padding: 1.1rem 1rem 2.5rem; }
  h1 { font-size: 1.5rem; } h2 { font-size: 1.18rem; margin-top: 2rem; }
  .promise, .halves, .figures { grid-template-columns: 1fr; }
  .promise { padding: 1rem 1.1rem; gap: .8rem; } .promise .big { font-size: 2.5rem; }
  .facts { grid-template-columns: 1fr 1fr; } .checks { padding: .2rem 1rem 1rem; }
  .sign { grid-template-columns: 1fr; gap: 2.2rem; }
  th, td { padding-right: .6rem; } td.n, th.n { padding-left: .6rem; }
  tbody th { width: 38%; min-width: 5rem; }
  .many thead { display: none; } .many tr { display: block; padding: .5rem 0;
    border-bottom: 1px solid var(--rule); }
  .many td, .many td.n { display: flex; gap: .8rem; padding: .08rem 0; border: 0; text-align: left;
    white-space: normal; }
  .many td::before { content: attr(data-head); flex: 0 0 7rem; color: var(--muted); }
}
"""

_PRINT = """
@page { size: A4; margin: 17mm 17mm 19mm; }
@media print {
  :root { font-size: 9.4pt; } body { font-size: 1rem; line-height: 1.38; }
  main { max-width: none; padding: 0; }
  h1 { font-size: 1.9rem; margin-bottom: .6rem; } h2 { margin-top: 1.7rem; }
  .facts { grid-template-columns: repeat(5, auto); margin: .6rem 0; padding: .5rem 0; }
  .promise { margin: .9rem 0; padding: .9rem 1.2rem; }
  .checks { margin: 1.1rem 0; break-after: page; }
  .halves h2, .checks h2 { margin-top: .8rem; }
  th, td, td.n, th.n { padding-top: .28rem; padding-bottom: .28rem; }
  h2, h3, .caption, caption, summary, thead, p:has(+ .wide), p:has(+ .figures) {
    break-after: avoid; }
  tr, figure, svg, .promise, .checks, .facts, .note, .void, .numbers, li, pre {
    break-inside: avoid; }
  .wide { overflow: visible; } thead { display: table-header-group; }
  p { orphans: 3; widows: 3; } a { color: inherit; text-decoration: none; }
  summary { list-style: none; color: inherit; }
  details::details-content { content-visibility: visible; block-size: auto; }
  .sign input { height: 3rem; }
  body { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
}
"""


def _variables(palette: dict[str, str]) -> str:
    return " ".join(f"--{name}: {colour};" for name, colour in palette.items())


def stylesheet() -> str:
    """Return the style sheet of all pages; it names no file and no address."""
    drawn = "".join(
        f'svg [fill="{day}"] {{ fill: {night}; }} svg [stroke="{day}"] {{ stroke: {night}; }}\n'
        for day, night in SERIES.items()
    )
    night = f":root {{ {_variables(DARK)} }}\n{drawn}"
    return (
        f":root {{ color-scheme: light dark; --sans: {_SANS}; --mono: {_MONO}; "
        f"{_variables(LIGHT)} }}\n"
        f"{_BASE}{_TABLES}{_PIECES}{_FIGURES}"
        # Not on paper, which is white whatever the screen of the one who prints it likes.
        f"@media screen and (prefers-color-scheme: dark) {{\n{night}}}\n{_PHONE}{_PRINT}"
    )
