"""Turn every id of a theorem, wherever a page names it, into a link to its statement."""

import re
from typing import Any, ClassVar

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

from noisette.theorems import THEOREMS

PAGE = "theory/theorems"
ID = re.compile(rf"(?<![\w-])({'|'.join(sorted(THEOREMS, key=len, reverse=True))})(?![\w-])")
APART = (nodes.title, nodes.reference, nodes.literal_block, nodes.raw, nodes.comment)


class LinkTheorems(SphinxPostTransform):
    """Replace ids in running text and in literals; headings, links and code stay as they are."""

    default_priority = 700
    formats: ClassVar = ("html",)

    def run(self, **_: Any) -> None:
        """Replace, text by text."""
        for text in list(self.document.findall(nodes.Text)):
            parent = text.parent
            while parent is not None and not isinstance(parent, APART):
                parent = parent.parent
            if parent is None and ID.search(text):
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
    app.add_post_transform(LinkTheorems)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
