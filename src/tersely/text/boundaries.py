"""Find the positions where a text may be cut, and rate them.

Parses structure, one pass per level, coarse to fine: blocks (headings, fences,
tables, paragraphs), lines, the members of single-line JSON, sentences. Every
function returns spans that cover its input without gaps or overlaps; white space
belongs to the span before it. `chunks` counts tokens and chooses the cuts.

Markdown is parsed the way people write it rather than by a specification: what looks
like a table in a terminal is a table, a heading inside a fence is not a heading, and
an unclosed fence extends to the end of the text.
"""

import itertools
import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

Kind = Literal["text", "heading", "fence", "table", "rule"]

# How good it is to cut before an element; only the order matters. Indentation subtracts up to _MAX_INDENT.
HEADING = 100  # minus its level
AFTER_RULE = 92
PARAGRAPH = 90
AFTER_BLANK_LINE = 72
LIST_ITEM = 56
LINE = 40
CLOSING_BRACKET = 20
SENTENCE = 18
JSON_MEMBER = 17  # minus its depth
ANYWHERE = 0
_MAX_INDENT = 15
_MAX_DEPTH = 12

# A longer line is not a title but data that happens to be followed by a line of dashes.
_LONGEST_SETEXT_TITLE = 300

# Linear for any line: no two adjacent repetitions can match the same characters.
_ATX = re.compile(r" {0,3}(#{1,6})(?![^ \t\r])")
_SETEXT = re.compile(r" {0,3}(?:={2,}|-{2,})\s*$")
_RULE = re.compile(r" {0,3}([-*_])(?:[ \t]*\1){2,}\s*$")
_FENCE = re.compile(r"\s*(?:(?:>|[-*+]|\d{1,9}[.)])[ \t]*)*(`{3,}(?=[^`]*$)|~{3,})")
_TABLE_DELIMITER = frozenset("|+-: \t\r")
_LIST_MARKER = re.compile(r"(?:[-*+•]|\d{1,9}[.)])[ \t]")
_STRUCTURAL_FIRST = frozenset("#`~|+-=*_:>0123456789")

_JSON_PART = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{},]', re.DOTALL)
_SENTENCE_END = re.compile(
    r"""(?<![.!?…])[.!?…]++["'”’»)\]]*+(?=[ \t\r\n])"""  # Latin, Greek, Cyrillic: white space must follow
    r"""|[。！？｡．]+[」』）】”’"')\]]*"""  # Chinese and Japanese: no white space needed
    r"""|[।॥؟۔։።។။]+"""  # Devanagari, Arabic, Armenian, Ethiopic, Khmer, Burmese
    r"""|\r(?!\n)"""  # carriage return of a progress bar
)
_NO_SENTENCE_END = re.compile(
    r"(?:^|[\s(])(?:[A-Za-z]|\d{1,3}|e\.g|i\.e|cf|vs|etc|approx|al|Dr|Mr|Mrs|Ms|Prof|St|No|Fig|Inc|Ltd|bzw|ca)$"
)


class Span(NamedTuple):
    start: int
    end: int
    strength: int
    """How good it is to cut at its start."""


class TextBlock(NamedTuple):
    start: int
    end: int
    strength: int
    kind: Kind
    level: int = 0
    title: str = ""


def blocks(text: str) -> Iterator[TextBlock]:
    """Headings, fences, tables, rules and paragraphs, in order; blank lines belong to the block before them."""
    start, strength, level, title = 0, PARAGRAPH, 0, ""
    kind: Kind = "text"
    must_close = False  # The open block is complete, whatever comes next.
    after_blank = False
    fence, in_quotation = "", False
    previous = ""
    previous_start = 0
    position = 0

    for line in text.split("\n"):
        here = position
        position += len(line) + 1
        stripped = line.strip()
        if fence:
            closing = stripped.lstrip("> \t") if in_quotation else stripped
            if closing.startswith(fence) and not closing.strip(fence[0]):
                fence, must_close = "", True
            continue
        if not stripped:
            after_blank = True
            continue

        is_separate = after_blank or must_close
        is_structural = stripped[0] in _STRUCTURAL_FIRST
        if is_structural and kind == "text" and not is_separate:
            if start == previous_start and _is_underline(line, previous):
                kind, level, title = "heading", 1 if stripped[0] == "=" else 2, previous.strip()
                strength, must_close = HEADING - level, True
                continue
            if _is_table_delimiter(line, stripped, previous):
                if start < previous_start:
                    yield TextBlock(start, previous_start, strength, "text")
                    start, strength = previous_start, LINE
                kind = "table"
                continue

        may_open = is_structural or is_separate or kind == "table"
        if may_open and (opened := _opened(line, stripped, kind, is_separate=is_separate)):
            if here > start:
                yield TextBlock(start, here, strength, kind, level, title)
            strength = _strength(line, opened, kind, is_separate=is_separate)
            start, kind, level, title, fence = here, *opened
            in_quotation = stripped[0] == ">"
            must_close = kind in ("heading", "rule")
        after_blank = False
        previous, previous_start = line, here

    if start < len(text):
        yield TextBlock(start, len(text), strength, kind, level, title)


class _Opened(NamedTuple):
    """The block that a line begins."""

    kind: Kind
    level: int = 0
    title: str = ""
    fence: str = ""


def _opened(line: str, stripped: str, current: Kind, *, is_separate: bool) -> _Opened | None:
    """The block that this line begins; None where it continues the current one."""
    first = stripped[0]
    opened = _Opened("text") if is_separate else None
    if first in _STRUCTURAL_FIRST:
        if first == "#" and (atx := _ATX.match(line)):
            return _Opened("heading", len(atx[1]), _title(stripped))
        if ("```" in line or "~~~" in line) and (opening := _FENCE.match(line)):
            opened = _Opened("fence", fence=opening[1])
        elif (first == "|" or stripped.startswith(("+-", "+="))) and (current != "table" or is_separate):
            opened = _Opened("table")
        if first in "-*_" and _RULE.match(line):
            return _Opened("rule")
    if not opened and current == "table" and "|" not in line and first != "+":
        return _Opened("text")
    return opened


def _strength(line: str, opened: _Opened, before: Kind, *, is_separate: bool) -> int:
    if opened.kind == "heading":
        return HEADING - opened.level
    if opened.kind == "rule":
        return LINE
    if before == "rule":
        return AFTER_RULE
    return (PARAGRAPH if is_separate else LINE) - min(len(line) - len(line.lstrip()), _MAX_INDENT)


def _is_underline(line: str, previous: str) -> bool:
    """Whether a line makes the one above it a title."""
    return len(previous) <= _LONGEST_SETEXT_TITLE and _SETEXT.match(line) is not None


def _is_table_delimiter(line: str, stripped: str, previous: str) -> bool:
    """Whether a line makes the one above it the header of a table."""
    return (
        "|" in previous
        and "-" in line
        and ("|" in line or "+" in line)
        and not stripped.startswith(("|", "+-", "+="))  # These begin a table of their own.
        and _TABLE_DELIMITER.issuperset(line)
    )


def _title(heading: str) -> str:
    title = heading.lstrip("#").strip()
    bare = title.rstrip("#")
    return bare.rstrip() if bare[-1:] in ("", " ", "\t") else title


def lines(text: str, start: int, end: int, strength: int, grain: int = 0) -> Iterator[Span]:
    """Lines, each with the blank lines after it; less indented lines are better places to cut.

    Consecutive lines of up to `grain` characters in total are one span, unless one of them is a better place to cut
    than the first. This reduces the number of spans to count.
    """
    open_start, open_strength = start, strength
    position = start
    after_blank = False
    for line in text[start:end].split("\n"):
        here = position
        position += len(line) + 1
        bare = line.lstrip()
        if not bare:
            after_blank = True
            continue
        if here > open_start:
            indent = min(len(line) - len(bare), _MAX_INDENT)
            if bare[0] in "}])":
                new_strength = CLOSING_BRACKET
            elif after_blank:
                new_strength = AFTER_BLANK_LINE - indent
            elif _LIST_MARKER.match(bare):
                new_strength = LIST_ITEM - indent
            else:
                new_strength = LINE - indent
            if new_strength > open_strength or position - open_start > grain:
                yield Span(open_start, here, open_strength)
                open_start, open_strength = here, new_strength
        after_blank = False
    if open_start < end:
        yield Span(open_start, end, open_strength)


def json_members(text: str, start: int, end: int, strength: int, *, longest: int, grain: int = 0) -> Iterator[Span]:
    """Cut single-line JSON after commas, at the shallowest depth where no member is longer than `longest` characters.

    Consecutive members of up to `grain` characters in total are one span. Text that does not start like JSON is one
    span.
    """
    head = text[start : start + 200].lstrip()
    commas: list[tuple[int, int]] = []
    if head[:1] in ("{", "[", '"'):
        depth = 0
        for part in _JSON_PART.finditer(text, start, end):
            found = part[0]
            if found == ",":
                commas.append((part.end(), min(depth, _MAX_DEPTH)))
            elif found in "{[":
                depth += 1
            elif found in "}]":
                depth = max(0, depth - 1)
    chosen: list[tuple[int, int]] = []
    for deepest in sorted({depth for _, depth in commas}):
        chosen = [comma for comma in commas if comma[1] <= deepest]
        cuts = [start, *(position for position, _ in chosen), end]
        if all(after - before <= longest for before, after in itertools.pairwise(cuts)):
            break
    for (position, depth), (following, _) in itertools.pairwise([*chosen, (end, 0)]):
        new_strength = JSON_MEMBER - depth
        if start < position < end and (new_strength > strength or following - start > grain):
            yield Span(start, position, strength)
            start, strength = position, new_strength
    if start < end:
        yield Span(start, end, strength)


def sentences(text: str, start: int, end: int, strength: int) -> Iterator[Span]:
    """Sentences in any script; white space between two belongs to the second, because tokens always split there."""
    for position in sentence_ends(text, start, end):
        if start < position < end:
            yield Span(start, position, strength)
            start, strength = position, SENTENCE
    if start < end:
        yield Span(start, end, strength)


def sentence_ends(text: str, start: int, end: int) -> Iterator[int]:
    """Offsets of the end of each sentence; abbreviations, initials and list numbers do not end a sentence."""
    for found in _SENTENCE_END.finditer(text, start, end):
        if found[0] == "." and _NO_SENTENCE_END.search(text, max(start, found.start() - 12), found.start()):
            continue
        yield found.end()
