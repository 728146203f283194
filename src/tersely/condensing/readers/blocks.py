"""A block: one visible line of a page, with the features that separate text from boilerplate.

`pages` makes blocks from Markdown and plain text, `html_pages` from HTML; both mark
headings with `#`, items with `*` and rows with `|`, so one classifier serves both.
"""

from dataclasses import dataclass
from typing import Literal

BlockKind = Literal["text", "heading", "item", "row", "code"]

_CLOSING = "\"'”’»«›)]*_`」』）】 \u200b"
_ENDS = frozenset(".!?。！？…:：;；।؟۔")


@dataclass(slots=True)
class Block:
    text: str
    """The visible text: links without their targets, no images."""
    first: int
    last: int
    """Source lines, counted from 1."""
    kind: BlockKind
    linked: int
    """How many characters are link text."""
    apart: bool
    """Whether a blank line (or the edge of an element) precedes it."""
    ended: bool
    """Whether it ends like a sentence; captions, labels and menu entries do not."""
    boilerplate: float = 0.0
    """Evidence from the enclosing elements: 1 for `<nav>` and the like, less for a weaker hint."""

    @property
    def plain(self) -> int:
        """How many characters are not link text."""
        return len(self.text) - self.linked


def is_ended(text: str) -> bool:
    bare = text.rstrip(_CLOSING)
    if bare and bare[-1] in _ENDS:
        return True
    # A quotation cut out of its sentence is still a statement.
    return len(text) > 25 and text[-1] in '"”»」'
