"""HTML as blocks: the visible text, line by line, with source lines.

One pass over the tags, no tree: it only needs to know which elements are open (a menu,
a footer, a link, a table) and where a block begins, and every block needs its source
lines, which fast HTML parsers do not report. Nothing is rendered or fetched, so a tag
that closes the wrong element only moves a boundary. Linear for any input; elements
nested deeper than `DEEPEST` are read as text.
"""

import re
from dataclasses import dataclass, field
from html import unescape
from itertools import accumulate

from tersely.condensing.readers.blocks import Block, BlockKind, is_ended

DEEPEST = 2_000

_TAG = re.compile(
    r"<(?:(?P<close>/)?(?P<name>[A-Za-z][A-Za-z0-9]*)(?P<rest>(?:[^<>\"'=]++|=\s*(?:\"[^\"]{0,100000}\"|'[^']{0,100000}')|[\"'=])*+)>|!--|[!?][A-Za-z])"
)
_SPACE = re.compile(r"\s+")


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SKIPPED = _names(
    "script style noscript template svg iframe select option button textarea head object canvas audio video map "
    "datalist"
)
_BOILERPLATE = _names("nav footer aside form dialog menu")
_CONTAINERS = _BOILERPLATE | _names(
    "div section article main header ul ol dl table tbody thead tr figure figcaption blockquote pre details center "
    "fieldset body"
)
_BREAKS = _CONTAINERS | _names("p li h1 h2 h3 h4 h5 h6 hr dt dd address caption summary title label legend br")
_ROLE = re.compile(
    r"\brole\s*=\s*[\"']?(?:navigation|banner|contentinfo|complementary|search|dialog|alertdialog|menu|menubar|toolbar|tablist)\b",
    re.I,
)
_HIDDEN = re.compile(r"\bhidden(?:\s|=|$)|aria-hidden\s*=\s*[\"']?true|display\s*:\s*none", re.I)
_HINT = re.compile(
    r"(?:class|id)\s*=\s*[\"'][^\"']{0,200}?(?<![a-z])(?:nav|navbar|navigation|menu|footer|sidebar|cookies?|consent|gdpr|share|sharing|social|related|"
    r"recommend\w*|promo\w*|advert\w*|ads?|banner|sponsor\w*|newsletter|subscri\w*|breadcrumbs?|pagination|pager|comments?|comment-form|popup|modal|"
    r"overlay|teaser|widget|byline|toolbar|skip|masthead)(?![a-z])",
    re.I,
)
_TO_ITSELF = re.compile(r"""href\s*=\s*["']?#""", re.I)
_NEVER_BOILERPLATE = frozenset(("body", "main", "article"))
_MOST_TAGS = 20
"""In lines; more lines without text between two blocks are a gap."""
_MOST_OF_IT = 0.6
"""An element with more than this share of the text is the page itself, whatever its name says."""


_SPAN = re.compile(r"\b(row|col)span\s*=\s*[\"']?(\d{1,4})", re.I)
_WIDEST_SPAN = 100
_LONGEST_REPEATED = 80
"""In characters; the place of a longer cell that reaches into the rows below is left empty there."""


def blocks_of(text: str) -> tuple[str, list[Block]]:
    """Return the title of the document and its blocks in order."""
    return _Walk(text).run()


@dataclass(slots=True)
class _Grid:
    """The columns of an open table, some of which have a cell from a row above."""

    column: int = 0
    above: dict[int, tuple[int, str]] = field(default_factory=dict)
    """By column, for how many rows more a cell applies, and its text."""
    begun: int | None = None
    """Where the words of the open cell begin."""
    rows: int = 1
    columns: int = 1
    """Of the open cell, then of the last one: its empty places are written before the next."""


@dataclass(slots=True)
class _Walk:
    text: str
    blocks: list[Block] = field(default_factory=list)
    open: list[tuple[str, float, int]] = field(default_factory=list)
    """Open containers, each with the amount of boilerplate evidence it adds and the block it begins with."""
    suspects: list[tuple[int, int, float]] = field(default_factory=list)
    """Closed containers with such evidence: their first block, the one after the last, and the amount."""
    title: str = ""
    words: list[str] = field(default_factory=list)
    linked: int = 0
    link: bool = False
    kind: BlockKind = "text"
    prefix: str = ""
    begun: int = 1
    line: int = 1
    counted: int = 0
    """Offset up to which lines are counted."""
    ended: int = 0
    """The last line of text or of an element that is not read: between it and the next text are only tags."""
    apart: bool = True
    grids: list[_Grid] = field(default_factory=lambda: [_Grid()])
    """Open tables, the innermost last."""
    literal: bool = False

    def run(self) -> tuple[str, list[Block]]:
        text = self.text
        at = 0
        while True:
            tag = _TAG.search(text, at)
            if tag is None:
                self.add_text(at, len(text))
                break
            if tag.start() > at:
                self.add_text(at, tag.start())
            at = tag.end()
            name = tag.group("name")
            if name is None:
                end = text.find("-->" if tag.group() == "<!--" else ">", at)
                at = len(text) if end < 0 else end + (3 if tag.group() == "<!--" else 1)
                continue
            name = name.lower()
            if tag.group("close"):
                self.close(name, tag.start())
            elif name in _SKIPPED and not tag.group("rest").endswith("/"):
                at = self.skip(name, at)
            else:
                self.begin(name, tag.group("rest"), tag.start())
        self.flush(len(text))
        if self.blocks and self.ended == self.blocks[-1].last:
            self.blocks[-1].last = self.line_at(len(text))
        self.closed(0)
        self.weigh()
        return self.title, self.blocks

    def closed(self, depth: int) -> None:
        """Close the containers from this depth on."""
        for _, weight, begin in self.open[depth:]:
            if weight and begin < len(self.blocks):
                self.suspects.append((begin, len(self.blocks), weight))
        del self.open[depth:]

    def weigh(self) -> None:
        """Give each block the evidence of its containers, except of those that contain most of the page's text."""
        plain = [0, *accumulate(block.plain for block in self.blocks)]
        change = [0.0] * (len(self.blocks) + 1)
        for begin, end, weight in self.suspects:
            if plain[end] - plain[begin] <= _MOST_OF_IT * plain[-1]:
                change[begin] += weight
                change[end] -= weight
        for block, evidence in zip(self.blocks, accumulate(change), strict=False):
            block.boilerplate = min(1.0, max(0.0, evidence))

    def skip(self, name: str, at: int) -> int:
        """Return the position after an element that is not read; take the title from a head."""
        end = re.compile(rf"</{name}\s*>", re.I).search(self.text, at)
        if name == "head" and end:
            found = re.search(r"<title[^<>]*>([^<]{1,400})", self.text[at : end.start()], re.I)
            self.title = _SPACE.sub(" ", unescape(found.group(1))).strip() if found else ""
        if end is None:
            # Never closed: read what follows instead of losing it, except for code.
            return len(self.text) if name in ("script", "style", "svg") else at
        self.ended = self.line_at(end.end())
        return end.end()

    def add_text(self, start: int, end: int) -> None:
        piece = self.text[start:end]
        if not self.literal:
            if piece.isspace():
                if self.words:
                    self.words.append(" ")
                return
            piece = _SPACE.sub(" ", piece)
        if "&" in piece:
            piece = unescape(piece).replace("\xa0", " ")
        if not self.words:
            # Lines of tags belong to the text below them: nothing is missing there.
            lead = len(self.text[start:end]) - len(self.text[start:end].lstrip())
            first = self.line_at(start + lead)
            self.begun = min(first, max(self.ended + 1, first - _MOST_TAGS))
        if self.link:
            self.linked += len(piece)
        self.words.append(piece)

    def line_at(self, offset: int) -> int:
        self.line += self.text.count("\n", self.counted, offset)
        self.counted = max(offset, self.counted)
        return self.line

    def begin(self, name: str, rest: str, at: int) -> None:
        if name == "a":
            # A heading that links to itself is still a heading.
            self.link = not (self.kind == "heading" and _TO_ITSELF.search(rest))
        if name in ("td", "th"):
            self.begin_cell(rest)
            return
        if name == "img" or name not in _BREAKS:
            return
        if name == "tr":
            self.end_row()
        self.flush(at)
        if name == "table":
            self.grids.append(_Grid())
        if name != "br":
            self.apart = True
        if name[0] == "h" and len(name) == 2 and name[1].isdigit():
            self.kind, self.prefix = "heading", "#" * int(name[1]) + " "
        elif name == "li":
            self.kind, self.prefix = "item", "* "
        elif name == "pre":
            self.literal = True
        if name in _CONTAINERS and not rest.endswith("/") and len(self.open) < DEEPEST:
            weight = 0.0
            if name in _BOILERPLATE or (
                rest and name not in _NEVER_BOILERPLATE and (_ROLE.search(rest) or _HIDDEN.search(rest))
            ):
                weight = 1.0
            elif rest and name not in _NEVER_BOILERPLATE and _HINT.search(rest):
                weight = 0.5
            self.open.append((name, weight, len(self.blocks)))

    def close(self, name: str, at: int) -> None:
        if name == "a":
            self.link = False
        if name in ("td", "th"):
            self.end_cell()
            return
        if name not in _BREAKS:
            return
        if name in ("tr", "table"):
            self.end_row()
        self.flush(at)
        if name == "table" and len(self.grids) > 1:
            self.grids.pop()
        self.apart = True
        if name == "pre":
            self.literal = False
        if name in _CONTAINERS:
            for depth in range(len(self.open) - 1, max(-1, len(self.open) - 40), -1):
                if self.open[depth][0] == name:
                    self.closed(depth)
                    break

    def begin_cell(self, rest: str) -> None:
        grid = self.grids[-1]
        if grid.begun is not None:
            self.end_cell()  # Its end tag may be omitted.
        self.words.extend(" | " for _ in range(grid.columns - 1))
        self.repeat_above()
        spans = {name.lower(): int(size) for name, size in _SPAN.findall(rest)} if rest else {}
        grid.rows, grid.columns = spans.get("row", 1), min(_WIDEST_SPAN, max(1, spans.get("col", 1)))
        grid.begun = len(self.words)

    def end_cell(self) -> None:
        grid = self.grids[-1]
        begun, grid.begun = grid.begun, None
        if grid.rows > 1 and begun is not None:
            text = "".join(self.words[begun:]).strip()
            text = text if len(text) <= _LONGEST_REPEATED else ""
            for at in range(grid.columns):
                grid.above[grid.column + at] = grid.rows - 1, "" if at else text
        grid.column += grid.columns
        self.words.append(" | ")

    def end_row(self) -> None:
        grid = self.grids[-1]
        if grid.begun is not None:
            self.end_cell()
        if grid.column:
            self.repeat_above()
        grid.column, grid.columns = 0, 1

    def repeat_above(self) -> None:
        """Write the cells of rows above that apply here, too: without them, the next cell is in another column."""
        grid = self.grids[-1]
        while grid.column in grid.above:
            rows, text = grid.above.pop(grid.column)
            if rows > 1:
                grid.above[grid.column] = rows - 1, text
            self.words += (text, " | ")
            grid.column += 1

    def flush(self, at: int) -> None:
        """Add the text since the last boundary as a block (or one per line inside `<pre>`)."""
        words, linked, kind, prefix = self.words, self.linked, self.kind, self.prefix
        if words:
            self.words, self.linked = [], 0
            whole = "".join(words)
            pieces = whole.split("\n") if self.literal else [whole]
            self.ended = last = self.line_at(at)
            for piece in pieces:
                text = piece.rstrip() if self.literal else piece.strip()
                if text.endswith("|"):
                    kind, prefix, text = "row", "| ", text.strip()
                if self.literal and kind == "text":
                    kind = "code"
                if not text.strip(" |"):
                    continue
                self.blocks.append(
                    Block(
                        prefix + text,
                        self.begun,
                        last,
                        kind,
                        linked * len(piece) // len(whole) if self.literal else min(linked, len(text)),
                        self.apart,
                        is_ended(text),
                    )
                )
                self.apart = False
        self.kind, self.prefix = "text", ""
