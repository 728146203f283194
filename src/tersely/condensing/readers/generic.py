"""The default reader for text of any kind: lines are the units.

Scores lines by the shared `features` with the table `weights.GENERIC`: relevance to the
focus, severity, rarity of their pattern, odd and extreme values, and nearness: a line
that answers half of the question scores higher next to one that answers the other half,
because in every format a value is near its owner. Specialised readers must beat this one;
it takes over when they decline.

Never declines. Linear in the text; of very many lines only those that are relevant,
severe, rare or evenly spread over the text become units.
"""

import heapq
import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from tersely.condensing.features import Features, features_of, rarity
from tersely.condensing.field_counts import counts_in_words, fields_of_columns
from tersely.condensing.focus import Focus
from tersely.condensing.readers import stack
from tersely.condensing.records import Column, columns_of_lines, labelled_columns, weigh_columns
from tersely.condensing.templates import MOST_TEMPLATES, families
from tersely.condensing.totals import Totals
from tersely.condensing.units import Reading, Unit
from tersely.condensing.weights import WEIGHTS, Weights
from tersely.shapes.pieces import LONGEST_LINE, pieces_of
from tersely.text.digits import masked_forms

MOST_UNITS = 40_000
MOST_FOR_COLUMNS = 100_000
MOST_COUNTED = 3
"""Fields whose values are counted over all lines."""

_VARIABLE = re.compile(r"[\da-fA-F](?:(?<=\d)x[0-9a-fA-F]+|(?<=[0-9a-fA-F])[0-9a-fA-F]{7,}|(?<=\d)[\w.:-]*)")
"""A number or hexadecimal identifier. Begins with the characters that it can begin with: others are passed quickly."""
_VARIABLE_ASCII = re.compile(_VARIABLE.pattern, re.ASCII)
_CLOCK = re.compile(r"\d:[0-5]\d")
_ONLY_A_TIME = re.compile(
    r"[\W\d_]*+(?:(?:[AP]M|UTC|GMT|CES?T|[ECMP][SD]T|[TZ]|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*+"
    r"|(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*+)[\W\d_]++)*(?:[AP]M|UTC|GMT|CES?T|[ECMP][SD]T|Z)?\s*"
)
"""A line of a clock, if it has one at all; fails at the first other word."""
_FEWEST_REPORTS = 3
_SIGN = re.compile(r"\s*[^\w\s]{1,80}\s*")
_HEADING = re.compile(r"(#{2,6}) \S")
_DEEPEST = 7
_RULE = re.compile(r"\s*([-=_*~#─━═])\1{3,}[-=_*~#─━═+|\s]*")
"""A drawn line, which introduces nothing."""


def read_stated(text: str, focus: Focus, budget: int) -> Reading | None:
    """Read prose that states fields of many things ("the size of x is 3") if the question asks about them."""
    if not (focus.superlative or focus.unusual or focus.comparisons or focus.negated):
        return None
    texts, _ = lines_of(text)
    columns = [
        column for column in columns_of_lines(texts) if column.label and len(column.values) >= max(8, 0.3 * len(texts))
    ]
    return read(text, focus, budget) if len(columns) >= 2 else None


@dataclass
class ScannedLines:
    """Lines with those of their features that are known without comparing all lines."""

    texts: list[str]
    numbers: list[int]
    features: Features

    def could_reach(self, share: float, focus: Focus) -> Iterator[int]:
        """Yield the lines whose score may reach that share of the best one, whatever comparing all lines adds."""
        if _compares(focus):
            yield from range(len(self.texts))
            return
        scores = self.features.scores(WEIGHTS["text"], focus)
        least = share * max(scores, default=0.0) - WEIGHTS["text"].rarity - 1e-9
        yield from (at for at, score in enumerate(scores) if score >= least)


def scanned(text: str, focus: Focus) -> ScannedLines:
    texts, numbers = lines_of(text)
    features = features_of(texts, (), focus)
    features.frames = stack.worth_of_lines(texts, stack.find(texts), of_owner=stack.OTHER_OWN)
    return ScannedLines(texts, numbers, features)


def read(
    text: str, focus: Focus, budget: int, *, columns: list[Column] | None = None, weights: Weights | None = None
) -> Reading:
    return read_scanned(scanned(text, focus), focus, budget, columns=columns, weights=weights)


def read_scanned(
    lines: ScannedLines,
    focus: Focus,
    budget: int,
    *,
    columns: list[Column] | None = None,
    weights: Weights | None = None,
) -> Reading:
    texts, numbers, features = lines.texts, lines.numbers, lines.features
    patterns = patterns_of(texts)
    features.rarity = rarity(patterns)
    leaders = add_standing(features, texts, focus, columns)
    scores = features.scores(weights or WEIGHTS["text"], focus)
    owners = owners_of(texts, numbers)
    candidates = list(range(len(texts)))
    most = min(MOST_UNITS, 2_000 + 4 * budget)
    if len(texts) > most:
        candidates = heapq.nsmallest(most, candidates, key=lambda i: (-scores[i], i))
        candidates = sorted({*candidates, *(owners[i] for i in candidates if owners[i] >= 0)})
    place = {i: index for index, i in enumerate(candidates)}
    units = [
        Unit(
            texts[i],
            numbers[i],
            numbers[i],
            scores[i],
            place.get(owners[i]),
            family=None if i in leaders else patterns[i],
        )
        for i in candidates
    ]

    labelled = labelled_columns(texts) if len(texts) <= MOST_FOR_COLUMNS else []
    noun = "lines" if len(set(numbers)) == len(numbers) else "sentences"  # Long lines are read sentence by sentence.
    totals = Totals(len(texts), _write_head, noun, fields_of_columns(labelled, len(texts), focus))
    return Reading("text", units, head=totals.head(focus), totals=lambda: totals)


def _write_head(totals: Totals, focus: Focus) -> tuple[list[str], list[str]]:
    """Write the number of lines and what they say in the fields that matter, if there are such fields."""
    counts = counts_in_words(totals.fields, focus, MOST_COUNTED)
    return ([f"[{totals.count} {totals.noun}; {'; '.join(counts)}]"] if counts else []), []


def line_features(
    texts: list[str], patterns: Sequence[Hashable], focus: Focus, columns: list[Column] | None = None
) -> tuple[Features, set[int]]:
    """Return the features of the lines, and those lines that are answers by their rank in a column."""
    features = features_of(texts, patterns, focus)
    features.frames = stack.worth_of_lines(texts, stack.find(texts), of_owner=stack.OTHER_OWN)
    return features, add_standing(features, texts, focus, columns)


def _compares(focus: Focus) -> bool:
    """Whether the answer may be a line whose value differs from those of the others."""
    return bool(focus.superlative or focus.unusual or focus.comparisons or focus.negated or not focus)


def add_standing(features: Features, texts: list[str], focus: Focus, columns: list[Column] | None = None) -> set[int]:
    """Add how lines stand out in columns of values; return those that are answers by their rank in one."""
    leaders: set[int] = set()
    if columns is None and len(texts) <= MOST_FOR_COLUMNS and _compares(focus):
        columns = columns_of_lines(texts, focus)
    if columns:
        features.standing = [0.0] * len(texts)
        weigh_columns(features.standing, columns, focus, leaders)
    return leaders


def shapes_of(texts: list[str]) -> list[str]:
    """Return the lines with their numbers and identifiers masked."""
    return masked_forms(_without_variables, [line[:160] for line in texts])


def _without_variables(text: str) -> str:
    return (_VARIABLE_ASCII if text.isascii() else _VARIABLE).sub("#", text)


def patterns_of(texts: list[str]) -> list[Hashable]:
    """Return the pattern of each line: that of its family if lines are alike except for names, else its shape."""
    shapes = shapes_of(texts)
    different = list(dict.fromkeys(shapes))
    if len(different) > MOST_TEMPLATES:
        return list(shapes)
    found = dict(zip(different, families([shape.split() for shape in different]), strict=True))
    return [found[shape] or shape for shape in shapes]


def owners_of(texts: list[str], numbers: list[int]) -> list[int]:
    """Return for each line the one that introduces it (the nearest one above with less indentation), or -1.

    Headings of Markdown introduce what follows up to the next one of their level. Lines that only state a time
    introduce the report below them, up to the next such line.
    """
    owners = [-1] * len(texts)
    heads = _heads_of(texts, numbers)
    timed = _below_times(texts)
    above: list[tuple[int, int]] = []
    for i, line in enumerate(texts):
        indent = len(line) - len(line.lstrip())
        if line.startswith("##") and (heading := _HEADING.match(line)):
            indent = len(heading[1]) - _DEEPEST
        while above and above[-1][0] >= indent:
            above.pop()
        # A long line is not a heading, and a line far above is a weak heading for this one.
        if above and (i - above[-1][1] <= 60 or above[-1][0] < 0) and len(texts[above[-1][1]]) <= 160:
            owners[i] = above[-1][1]
        elif heads[i] != i and len(texts[heads[i]]) <= 160:
            owners[i] = heads[i]
        elif timed and timed[i] != i:
            owners[i] = timed[i]
        if (i == 0 or numbers[i] != numbers[i - 1]) and not _RULE.fullmatch(line):
            above.append((indent, i))
        if len(above) > 100:
            del above[:50]
    return owners


def _below_times(texts: list[str]) -> list[int]:
    """Return for each line the one above that states when it was reported, or -1; nothing if there are few of these."""
    stated = {
        i for i, line in enumerate(texts) if ":" in line and _ONLY_A_TIME.fullmatch(line) and _CLOCK.search(line, 0, 60)
    }
    if len(stated) < _FEWEST_REPORTS or any(texts[i][0].isspace() for i in stated):
        return []  # Times that are indented are values of something.
    return list(accumulate((i if i in stated else -1 for i in range(len(texts))), max))


def _heads_of(texts: list[str], numbers: list[int]) -> list[int]:
    """Return for each line the first line of its block if the text consists of similar blocks; else the line itself.

    Blocks are separated by blank lines or by lines that consist of a sign.
    """
    count = len(texts)
    starts = [0] * count
    sizes: list[int] = []
    start = 0
    for i in range(count):
        if i and (numbers[i] - numbers[i - 1] > 1 or _SIGN.fullmatch(texts[i - 1])):
            sizes.append(i - start)
            start = i
        starts[i] = start
    sizes.append(count - start)
    usual = sum(1 for size in sizes if 2 <= size <= 40)
    if len(sizes) < 8 or usual < 0.8 * len(sizes):
        return list(range(count))
    return starts


def lines_of(text: str, longest: int = LONGEST_LINE) -> tuple[list[str], list[int]]:
    """Return the non-blank lines with their numbers; long lines are cut into pieces."""
    texts: list[str] = []
    numbers: list[int] = []
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) <= longest:
            line = line.rstrip()
            if line:
                texts.append(line)
                numbers.append(number)
            continue
        for piece in pieces_of(line, longest):
            texts.append(piece)
            numbers.append(number)
    return texts, numbers
