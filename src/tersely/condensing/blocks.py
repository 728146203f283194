"""A block: one line of a page as a reader sees it, with what tells text from boilerplate.

`pages` makes blocks of markdown and plain text, `html_pages` of HTML; both mark
headings with `#`, items with `*` and rows with `|`, so one judge serves both.
"""

from dataclasses import dataclass
from typing import Literal

BlockKind = Literal["text", "heading", "item", "row", "code"]

_CLOSING = "\"'”’»«›)]*_`」』）】 \u200b"
_ENDS = frozenset(".!?。！？…:：;；।؟۔")


@dataclass(slots=True)
class Block:
    text: str
    """As shown: links without their targets, images left out."""
    first: int
    last: int
    """Source lines, counted from 1."""
    kind: BlockKind
    linked: int
    """How many of its characters are link text."""
    apart: bool
    """Whether a blank line (or the edge of an element) stands before it."""
    ended: bool
    """Whether it ends as a sentence does; captions, labels and menu entries do not."""
    boilerplate: float = 0.0
    """What its surroundings say: 1 for `<nav>` and the like, less for a mere hint."""

    @property
    def plain(self) -> int:
        """How many of its characters are not link text."""
        return len(self.text) - self.linked


def is_ended(text: str) -> bool:
    bare = text.rstrip(_CLOSING)
    if bare and bare[-1] in _ENDS:
        return True
    # A quotation that was cut out of its sentence is still a statement.
    return len(text) > 25 and text[-1] in '"”»」'
