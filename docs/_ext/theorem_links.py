"""Theorems on the site: an id is a link wherever a page names it, and their page can be read.

The file of theorems has one paragraph for each, as it travels in the wheel. On the site a paragraph
begins wherever one of its parts does: *Statement.*, *Conditions.*, *Proof.*, *Status.*
"""

import re
from typing import Any, ClassVar

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

from noisette.core.theorems import THEOREMS

PAGE = "theory/theorems"
ID = re.compile(rf"(?<![\w-])({'|'.join(sorted(THEOREMS, key=len, reverse=True))})(?![\w-])")
PART = re.compile(r"[A-Z][^.]*\.")
APART = (nodes.title, nodes.reference, nodes.literal_block, nodes.raw, nodes.comment)


class SplitTheorems(SphinxPostTransform):
    """Begin a paragraph before every emphasised word with a full stop, on the page of theorems."""

    default_priority = 600
    formats: ClassVar = ("html",)

    def run(self, **_: Any) -> None:
        """Split, paragraph by paragraph."""
        if self.env.docname != PAGE:
            return
        for paragraph in list(self.document.findall(nodes.paragraph)):
            parts: list[list[nodes.Node]] = [[]]
            for child in list(paragraph.children):
                if isinstance(child, nodes.emphasis) and PART.fullmatch(child.astext()):
                    parts.append([])
                parts[-1].append(child)
            new = [nodes.paragraph("", "", *part) for part in parts if part]
            if len(new) > 1:
                paragraph.parent.replace(paragraph, new)


class LinkTheorems(SphinxPostTransform):
    """Replace ids in running text, and literals that are an id; headings, links and code stay.

    `noisette train TABLE` names no theorem, though there is one of that id.
    """

    default_priority = 700
    formats: ClassVar = ("html",)

    def run(self, **_: Any) -> None:
        """Replace, text by text."""
        for text in list(self.document.findall(nodes.Text)):
            parent = text.parent
            while parent is not None and not isinstance(parent, APART):
                parent = parent.parent
            quoted = isinstance(text.parent, nodes.literal) and text not in THEOREMS
            if parent is None and not quoted and ID.search(text):
                new = list(self._pieces(str(text)))
                text.parent.replace(text, new)

    def _pieces(self, text: str) -> Any:
        for piece in ID.split(text):
            if piece in THEOREMS:
                uri = self.app.builder.get_relative_uri(self.env.docname, PAGE)
                link = nodes.reference("", piece, internal=True, refuri=f"{uri}#{piece.lower()}")
                link["classes"].append("theorem")
                yield link
            elif piece:
                yield nodes.Text(piece)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_post_transform(SplitTheorems)
    app.add_post_transform(LinkTheorems)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
