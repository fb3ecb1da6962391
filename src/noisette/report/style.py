"""The look of the page: dark text on light, one column, fit for a telephone and for paper."""

__all__ = ["CSS"]

CSS = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; background: #fbfaf7; color: #1d1d1f; line-height: 1.55;
  font: 17px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 46rem; margin: 0 auto; padding: 1.5rem 1.1rem 4rem; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: .4rem 0 .3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.22rem; margin: 2.4rem 0 .5rem; padding-top: .9rem;
  border-top: 1px solid #d9d5cb; }
p { margin: .6rem 0; overflow-wrap: break-word; }
.eyebrow { color: #5b5750; font-size: .9rem; margin: 0; }
.statement, .void { background: #fff; border-left: 4px solid #0072B2; padding: .9rem 1.1rem;
  margin: 1rem 0; overflow-wrap: anywhere; font-size: .95rem; }
.void { background: #fdecea; border-color: #b3261e; font-size: 1.05rem; }
.numbers { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .7rem;
  margin: 1rem 0; }
.numbers div { background: #fff; border: 1px solid #e3dfd5; border-radius: 6px;
  padding: .7rem .9rem; }
.numbers b { display: block; font-size: 1.18rem; font-weight: 650; line-height: 1.25;
  overflow-wrap: anywhere; }
.numbers span { color: #5b5750; font-size: .9rem; }
.wide { overflow-x: auto; margin: .7rem 0; }
table { border-collapse: collapse; width: 100%; font-size: .95rem; }
caption { text-align: left; color: #5b5750; padding-bottom: .35rem; }
th, td { text-align: left; vertical-align: top; padding: .45rem .7rem .45rem 0;
  border-bottom: 1px solid #e3dfd5; overflow-wrap: anywhere; }
th { font-weight: 600; overflow-wrap: normal; }
tbody th { width: 32%; min-width: 7rem; overflow-wrap: anywhere; }
.plain tbody th { width: auto; } .plain td:first-child { min-width: 5rem; }
td.n, th.n { text-align: right; overflow-wrap: normal; } td.n { white-space: nowrap; }
.lead { font-size: 1.12rem; }
code, .code { font: .88em/1.5 ui-monospace, "SF Mono", Menlo, Consolas, monospace;
  overflow-wrap: anywhere; }
pre { background: #f1eee6; padding: .7rem .9rem; border-radius: 6px; white-space: pre-wrap;
  overflow-wrap: anywhere; margin: .6rem 0; }
figure { margin: 1rem 0; background: #fff; border: 1px solid #e3dfd5; border-radius: 6px;
  padding: .9rem; }
figcaption { color: #5b5750; font-size: .92rem; margin-top: .5rem; }
svg { display: block; width: 100%; height: auto; font: 13px system-ui, sans-serif; fill: #3a3833; }
svg .name { font-weight: 600; }
svg .grid { stroke: #e8e4da; } svg .axis { stroke: #6b675f; }
ul { padding-left: 1.2rem; margin: .5rem 0; } li { margin: .25rem 0; overflow-wrap: anywhere; }
details { margin: .6rem 0; } summary { cursor: pointer; }
footer { margin-top: 3rem; color: #5b5750; font-size: .9rem; }
@media (max-width: 560px) { body { font-size: 16px; } h1 { font-size: 1.45rem; }
  svg { font-size: 20px; } th, td { padding-right: .5rem; }
  tbody th { width: 38%; min-width: 5rem; } }
@media print { body { background: #fff; font-size: 11pt; } main { max-width: none; padding: 0; }
  h2 { break-after: avoid; } figure, table, .statement, .numbers div { break-inside: avoid; } }
"""
