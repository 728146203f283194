"""Blocks of lines that open alike: commits, findings, threads, failures.

    lines = without_graph(text.split("\n"))
    opening = opening_of(lines)         # learned from the text; None if nothing opens nearly all of it
    opened_blocks(lines, filled, opening)   # the lines above the blocks, the blocks, and the lines below them

The opening line of a block is a line whose beginning (a word, a hash, a rule code, a quoted name) recurs, mostly after
a blank line, after a rule, or after deeper lines. Knows no tool by name.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

SAMPLED = 1_200
"""Lines from which the opening is learned."""
FEWEST = 4
"""Fewer blocks prove nothing."""
MOST_HEADS = 4
"""So many other names of lines above deeper ones open blocks of their own; fewer are parts of each block."""
LONGEST_BLOCK = 100
"""In lines, at the median. Longer blocks are chapters."""
LARGEST_PREFACE = 0.3
"""Largest share of the lines above the first opening."""
MOST_CLOSING = 3
"""Lines after the last block that no blank line separates from it."""

HASH = re.compile(r"[0-9a-f](?=[0-9a-f]{6})(?:(?<=\d)|(?=[a-f]*+\d))[0-9a-f]{6,63}\^?\b")
"""Seven or more hexadecimal digits, not all of them letters."""
QUOTED = re.compile(r"\"[^\"]{1,200}\"|'[^']{1,200}'")
NUMBER = re.compile(r"\d+")
_HEX_LETTER = re.compile(r"[a-f]")
_ONE_LINE = re.compile(rf"[*|/\\ ]*{HASH.pattern} \S")
_GRAPH_COMMIT = re.compile(rf"[|/\\ ]*\* +(?:commit )?{HASH.pattern}")
_GRAPH = re.compile(r"(?:[|/\\*_](?: (?=[|/\\*_ ]))?)*[|/\\*_] ?")
_IDENTIFIED = re.compile(rf"(?:\w+ )?{HASH.pattern}|\[?[A-Z]{{1,8}}-?\d{{2,6}}\]?:?\s")
_CODE = re.compile(r"\[?[A-Z]{1,8}-?\d{2,6}\]?:?(?:\s|$)")
_IS_CODE = "‹code›"
_PATH = re.compile(r"(?:\.{0,2}/|[A-Za-z]:\\)?(?:[\w.@+-]+[/\\])+[\w.@+-]*|[\w@+-]+\.[a-z]{1,5}(?=[\s:]|\(\d|$)")
_NAME = re.compile(f"(?P<hash>{HASH.pattern})|(?P<quoted>{QUOTED.pattern})|(?P<path>{_PATH.pattern})")
_LETTER = re.compile(r"[^\W\d_]|>>")
_RULE = re.compile(r"\s*([^\w\s])(?:\s?\1){2,}\s*$")
_TIME = re.compile(
    r"[\[(]?(?:\d{4}[-/.]\d\d[-/.]\d\d|\d{1,2}:\d\d(?::\d\d)?\b|[A-Z][a-z]{2} +\d{1,2},? (?:\d\d:|\d{4} )"
    r"|\d{1,2}/[A-Z][a-z]{2}/\d{4}|[IWEF]\d{4} |\d{10}\b)"
)
_NO_OPENING = re.compile(
    r"(?:[#*+|<•–]|-(?!\S)|\d+[.):]|//|/\*|[@}{)\]\[(]|(?:def|class|func|function|fn|pub|static|const|type|void|int|let"
    r"|var|export|import|async|public|private|protected|if|for|while|return|struct|enum|impl|use|package|from|interface"
    r"|namespace|module|resource|select|insert|create|begin|end|the|a|an|to|this|in|it|we|you|i)\b(?!:))",
    re.I,
)
"""Beginnings of headings, items, statements and sentences."""
_KEY = re.compile(r"\s*(?:- )?[A-Za-z\"'][\w .\"'-]{0,40}?\s*[:=](?:\s|$)")
_HEADING = re.compile(r"#{1,6} \S")
_ENDS_OF_STATEMENTS = frozenset("{};,(")
_COLUMNS = re.compile(r"\s*\S+(?: \S+)*(?: {2,}\S+(?: \S+)*){4}")
_WORDS = re.compile(r"\w")


@dataclass(frozen=True)
class Opening:
    """The recurring beginning of the first lines of blocks."""

    indent: int
    key: str
    words: int

    @cached_property
    def first_word(self) -> str:
        """The word with which a line that opens begins; empty if it is a name or a value."""
        word = self.key.partition(" ")[0]
        return word if word.isalpha() else ""

    def opens(self, line: str) -> bool:
        return (
            len(line) > self.indent
            and (not self.indent or line[: self.indent].isspace())
            and not line[self.indent].isspace()
            and (not self.first_word or line.startswith(self.first_word, self.indent))
            and self._begins(line[self.indent : self.indent + 200])
        )

    def _begins(self, content: str) -> bool:
        if self.key == _IS_CODE:
            return _CODE.match(content) is not None
        return _keys(content)[self.words - 1] == self.key


def without_graph(lines: Sequence[str]) -> Sequence[str]:
    """Remove the lines and stars that draw the branches of a history; return other texts as they are."""
    sample = [line for line in lines[:200] if line]
    commits = sum(1 for line in sample if _GRAPH_COMMIT.match(line))
    if commits < 3 or sum(1 for line in sample if line[0] in "*|/\\") < 0.9 * len(sample):
        return lines
    # The branches of a line that is not a commit are followed by as many blanks as its text is indented, and one.
    return [_GRAPH.sub("", line) for line in lines]


def are_commits(lines: Sequence[str]) -> bool:
    """Whether each of these lines is a commit by itself, as in a history with one line per commit."""
    opened = [found for line in lines[:20] if (found := _ONE_LINE.match(line))]
    # Times in seconds are digits only; hashes hardly ever are.
    if len(opened) < FEWEST or sum(1 for found in opened if _HEX_LETTER.search(found[0])) < 0.8 * len(opened):
        return False
    said = [line for line in lines if _WORDS.search(line)]
    return sum(1 for line in said if _ONE_LINE.match(line)) >= 0.9 * len(said)


def names_a_commit(line: str) -> bool:
    """Whether a line begins with a hash or the code of a rule, possibly after one word."""
    return _IDENTIFIED.match(line) is not None


def _beginnings(
    texts: Sequence[str], indents: Sequence[int]
) -> tuple[dict[tuple[int, str, int], list[int]], dict[int, str]]:
    """Where each beginning of one or two words is, by indent; and the first word of each line that may open a block."""
    found: dict[tuple[int, str, int], list[int]] = {}
    firsts: dict[int, str] = {}
    for order, (line, indent) in enumerate(zip(texts, indents, strict=True)):
        content = line[indent : indent + 200]
        if indent > 8 or _NO_OPENING.match(content) or _TIME.match(content):
            continue
        one, two = _keys(content)
        firsts[order] = one
        found.setdefault((indent, one, 1), []).append(order)
        if two != one:
            found.setdefault((indent, two, 2), []).append(order)
    return found, firsts


def opening_of(lines: Sequence[str]) -> Opening | None:
    """Learn the opening of the blocks, or return None if no beginning opens nearly all of the text."""
    sample = lines[:SAMPLED]
    filled = [at for at, line in enumerate(sample) if line and not line.isspace()]
    if len(filled) < 3 * FEWEST or (
        len(filled) > 0.98 * len(sample) and not any(sample[at][0] in " \t" for at in filled)
    ):
        return None
    texts = [sample[at] for at in filled]
    if len([1 for line in texts if line[:400].rstrip()[-1:] in _ENDS_OF_STATEMENTS]) > 0.35 * len(texts):
        return None
    if len([1 for line in texts if line.count("  ") > 3 and _COLUMNS.match(line[:300])]) > 0.5 * len(texts):
        return None  # A table
    indents = [len(line) - len(line.lstrip()) for line in texts]
    found, firsts = _beginnings(texts, indents)
    if not any(len(places) >= FEWEST for places in found.values()):
        return None
    marked = len([1 for line in texts if _HEADING.match(line) or "](" in line[:400]]) >= max(3, 0.03 * len(texts))
    fields = len([1 for line in texts if _KEY.match(line[:80])]) / len(texts)
    keyed = fields > 0.6
    starts = sorted(
        indents[order]
        for order, at in enumerate(filled)
        if not order or filled[order - 1] < at - 1 or _RULE.match(sample[at - 1][:200])
    )
    heads = {
        order: firsts.get(order) or _keys(texts[order][own : own + 200])[0]
        for order, (own, below) in enumerate(pairwise(indents))
        if below > own and texts[order][own].isalpha()
    }
    best: tuple[float, Opening] | None = None
    for (indent, key, words), places in found.items():
        if len(places) < FEWEST or not _LETTER.search(key) or (keyed and _KEY.match(sample[filled[places[0]]][:80])):
            continue
        first = sample[filled[places[0]]].rstrip()
        if indent and fields > 0.4 and (first.endswith(":") or _KEY.match(first[:80])):
            continue  # A key of a tree, as in YAML.
        if words == 2 and len(places) < 0.8 * len(found.get((indent, key.split(" ")[0], 1), ())):
            continue
        if key.isalpha() and sum(sample[filled[order]].rstrip()[-1:] in ".!?" for order in places) > 0.5 * len(places):
            continue  # Sentences that begin alike.
        if marked and not _IDENTIFIED.match(sample[filled[places[0]]].lstrip()):
            continue  # Markdown, unless it is inside of records such as commits.
        if _are_inside(indents, heads, places):
            continue
        worth = _worth(sample, filled, places, Opening(indent, key, words), bisect_right(starts, indent))
        if worth > 0 and (best is None or worth > best[0] * 1.05):
            best = worth, Opening(indent, key, words)
    return best[1] if best else None


def _are_inside(indents: list[int], heads: dict[int, str], places: list[int]) -> bool:
    """Whether lines that begin alike are parts of blocks, or the openings of some blocks only.

    They are parts if a line that is indented less stands between them nearly always. They open some blocks only if they
    are the heads of deeper lines, and as many heads at their indentation have other names, several of them.
    """
    indent = indents[places[0]]
    if indent:
        under = sum(1 for one, next_ in pairwise(places) if min(indents[one:next_]) < indent)
        if under >= 0.8 * (len(places) - 1):
            return True
    own = [order for order in places if order in heads]
    if len(own) < 0.8 * len(places):
        return False
    others = Counter(word for order, word in heads.items() if indents[order] == indent)
    others.subtract(heads[order] for order in own)
    others = +others
    return others.total() >= len(own) and len(others) >= MOST_HEADS


def _worth(sample: Sequence[str], filled: list[int], places: list[int], opening: Opening, starts: int) -> float:
    """Rate a beginning as the opening of blocks; 0 if it opens none.

    `starts` is the number of lines that follow a blank line or rule and are indented no deeper.
    """
    many, indent = len(places), opening.indent
    sizes = sorted(after - before for before, after in pairwise(places))
    usual = sizes[len(sizes) // 2]
    single = bisect_right(sizes, 1)
    if not 2 <= usual <= LONGEST_BLOCK or single > 0.3 * many or places[0] > LARGEST_PREFACE * len(filled) + 12:
        return 0.0
    if sizes[-1] > 40 * usual + 200:
        return 0.0
    apart = below = 0
    seconds: Counter[str] = Counter()
    for order in places:
        at = filled[order]
        before = sample[filled[order - 1]] if order else ""
        if not order or filled[order - 1] < at - 1 or _RULE.match(before[:200]):
            apart += 1
        elif before[: indent + 1].isspace():
            below += 1
        if order + 1 < len(filled):
            second = sample[filled[order + 1]]
            deeper = len(second) - len(second.lstrip())
            seconds[f"{deeper} {_keys(second[deeper : deeper + 200])[0] if deeper <= indent else ''}"] += 1
    alike = max(seconds.values(), default=0) / max(1, seconds.total())
    proof = max(apart, below) / many
    if alike < 0.3 or (
        proof < 0.8 and not (alike >= 0.8 and (proof >= 0.5 or (opening.key in ("‹hash›", _IS_CODE) and not indent)))
    ):
        return 0.0
    # A beginning that most of the separated blocks share opens them, even if a smaller pattern recurs more often.
    leads = 10.0 if apart >= 0.8 * many and apart >= 0.5 * starts else 1.0
    return leads * many * (0.5 + 0.5 * proof) * (0.5 + 0.5 * alike) / (1 + 0.5 * indent)


def _keys(content: str) -> tuple[str, str]:
    """Return the first word of a line and the first two, with names and values replaced by what they are."""
    if _CODE.match(content):
        return _IS_CODE, _IS_CODE
    first, rest = word_of(content)
    if not rest:
        return first, first
    second, _ = word_of(rest)
    return first, f"{first} {second}"


def word_of(content: str) -> tuple[str, str]:
    word, _, rest = content.partition(" ")
    if word.isalpha():
        return word[:40], rest.lstrip()
    if found := _NAME.match(content):
        return f"‹{found.lastgroup}›", content[found.end() :].lstrip()
    return NUMBER.sub("#", word[:40]), rest.lstrip()


def opened_blocks(
    lines: Sequence[str], filled: list[int], opening: Opening
) -> tuple[list[int], list[list[int]], list[int]]:
    """Divide the lines that are `filled` into those above the first block, blocks, and those that follow a block.

    All are given by their places in `filled`; the first one of a block opens it.
    """
    preface: list[int] = []
    blocks: list[list[int]] = []
    opens = [opening.opens(lines[at]) for at in filled]
    second = _second_word(lines, filled, opens)
    for index in range(len(filled)):
        if opens[index] or (second and _opens_too(lines, filled, index, opening, second)):
            blocks.append([index])
        elif blocks:
            blocks[-1].append(index)
        else:
            preface.append(index)
    return preface, blocks, _loosen(lines, filled, blocks, opening) if len(blocks) > 1 else []


def _second_word(lines: Sequence[str], filled: list[int], opens: list[bool]) -> str:
    """Return the sign with which the second line of nearly all blocks begins, e.g. `-->`; empty if there is none."""
    words = Counter(
        word_of(lines[at].lstrip()[:200])[0]
        for index, at in enumerate(filled)
        if index and opens[index - 1] and not opens[index]
    )
    if not words:
        return ""
    word, times = words.most_common(1)[0]
    return word if times >= 0.8 * sum(opens) and not word.isalpha() and word != "#" else ""  # `#`: a number.


def _opens_too(lines: Sequence[str], filled: list[int], index: int, opening: Opening, second: str) -> bool:
    """Whether a line opens a block of another sort (an error among warnings): apart, and followed as the others are."""
    if index + 1 >= len(filled) or not _is_apart(lines, filled, index, opening):
        return False
    return word_of(lines[filled[index + 1]].lstrip()[:200])[0] == second


def _loosen(lines: Sequence[str], filled: list[int], blocks: list[list[int]], opening: Opening) -> list[int]:
    """Take from the blocks the lines below them: from a line after a blank one that hardly any block contains."""
    places: list[int] = []
    for block in blocks:
        place = next((at for at, index in enumerate(block) if at and _is_apart(lines, filled, index, opening)), 0)
        places.append(place)
    apart = [at for at, place in enumerate(places[:-1]) if place]
    if len(apart) > max(3, 0.03 * len(blocks)) or (apart and apart[0] < 0.6 * len(blocks)):
        # Blocks consist of paragraphs; only what makes the last one far longer than usual is not part of it.
        usual = sorted(map(len, blocks))[int(0.9 * len(blocks))]
        places = [0] * (len(blocks) - 1) + [places[-1] if len(blocks[-1]) > 3 * usual else 0]
    loose: list[int] = []
    for block, place in zip(blocks, places, strict=True):
        if place:
            loose += block[place:]
            del block[place:]
    if not places[-1]:
        loose += _closing_lines(lines, filled, blocks, opening)
    return loose


def _closing_lines(lines: Sequence[str], filled: list[int], blocks: list[list[int]], opening: Opening) -> list[int]:
    """Take from the last block the lines at its end that begin unlike all others: `Successfully installed …`."""
    last = blocks[-1]
    place = len(last)
    while place > 1 and not lines[filled[last[place - 1]]][: opening.indent + 1].isspace():
        place -= 1
    if not 1 <= len(last) - place <= MOST_CLOSING:
        return []
    closing = last[place:]
    words = tuple(word_of(lines[filled[index]])[0] for index in closing)
    if sum(1 for line in lines if line.startswith(words)) > len(closing):
        return []
    begins = Counter(word_of(line)[0] for line in lines)
    for block in blocks[:-1]:
        inside = (lines[filled[index]] for index in block[1:])
        if any(begins[word_of(line)[0]] == 1 and not line[: opening.indent + 1].isspace() for line in inside):
            return []  # Blocks contain free text.
    del last[place:]
    return closing


def _is_apart(lines: Sequence[str], filled: list[int], index: int, opening: Opening) -> bool:
    at = filled[index]
    return filled[index - 1] < at - 1 and not lines[at][: opening.indent + 1].isspace()
