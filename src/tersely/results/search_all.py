"""Search over all kept results of a scope, by the words of a question: which lines answer it best.

No model is involved. Lines are ranked by the specific words that they contain; words
that occur in many lines count little.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from tersely.condensing.focus import Focus, scan
from tersely.condensing.templates import SAME_BUT_VALUES
from tersely.cpu.run import run_cpu
from tersely.errors import ResultExpired, ResultNotFound
from tersely.masking.masked import Masked
from tersely.results.kept import KeptResults
from tersely.store.results import KeptResult

MOST_PASSAGES = 8
MOST_RESULTS = 500
_MOST_LINES = 60
"""Lines of one result that are compared with those of others."""

_NEAR = 2
"""Lines that are at most so far apart are one passage."""

_LONGEST_LINE = 300
_LONGEST_PASSAGE = 6


@dataclass(frozen=True, kw_only=True)
class KeptPassage:
    """Lines of a kept result, from 1, inclusive."""

    result: KeptResult
    first_line: int
    last_line: int
    text: Masked
    score: float


@dataclass(frozen=True, kw_only=True)
class FoundPassages:
    passages: Sequence[KeptPassage]
    """The best first."""

    searched: int
    """Results that were searched."""


@dataclass(frozen=True)
class _ScannedLines:
    hits: list[tuple[int, str, dict[int, int]]]
    """The best lines: index, text, and occurrences by term."""

    frequency: dict[int, int]
    lines: int


async def search_results(kept: KeptResults, scope: str, question: str) -> FoundPassages:
    """The passages of a scope's results that have the most to do with a question."""
    focus = Focus.parse(question)
    scanned: list[tuple[KeptResult, Masked, _ScannedLines]] = []
    searched = 0
    for result in await kept.list(scope, limit=MOST_RESULTS):
        if not result.is_text:
            continue
        with suppress(ResultNotFound, ResultExpired):  # Deleted meanwhile.
            text = await kept.load(result.handle, scope)
            searched += 1
            found = await run_cpu(scan_lines, str(text), question)
            if found.hits:
                scanned.append((result, text, found))
    total = sum(found.lines for _, _, found in scanned)
    frequency: dict[int, int] = {}
    for _, _, found in scanned:
        for index, count in found.frequency.items():
            frequency[index] = frequency.get(index, 0) + count
    worth = {index: focus.terms[index].weight * math.log(1 + total / count) for index, count in frequency.items()}
    passages = [passage for one in scanned for passage in _passages(*one, worth)]
    passages.sort(key=lambda one: (-one.score, one.result.created_at, one.first_line))
    return FoundPassages(passages=_different(passages)[:MOST_PASSAGES], searched=searched)


def scan_lines(text: str, question: str) -> _ScannedLines:
    """The lines of a text that contain words of a question, the best of them."""
    lines = text.splitlines()
    found = scan(lines, Focus.parse(question), severe=False)
    ranked = sorted((at for at, terms in enumerate(found.terms) if terms), key=lambda at: (-found.relevance[at], at))
    hits = [(at, lines[at][:_LONGEST_LINE], dict(found.terms[at] or {})) for at in sorted(ranked[:_MOST_LINES])]
    return _ScannedLines(hits, found.frequency, len(lines))


def _passages(result: KeptResult, text: Masked, found: _ScannedLines, worth: dict[int, float]) -> list[KeptPassage]:
    groups: list[list[tuple[int, str, dict[int, int]]]] = []
    for hit in found.hits:
        if groups and hit[0] - groups[-1][-1][0] <= _NEAR and len(groups[-1]) < _LONGEST_PASSAGE:
            groups[-1].append(hit)
        else:
            groups.append([hit])
    return [
        KeptPassage(
            result=result,
            first_line=group[0][0] + 1,
            last_line=group[-1][0] + 1,
            # Whole lines of a masked text.
            text=text.derive("\n".join(line for _, line, _ in group)),
            score=sum(worth[index] for index in {index for _, _, terms in group for index in terms}),
        )
        for group in groups
    ]


def _different(passages: Sequence[KeptPassage]) -> list[KeptPassage]:
    """Without those that only repeat the text of a better one, apart from its values."""
    seen: set[str] = set()
    kept: list[KeptPassage] = []
    for one in passages:
        shape = SAME_BUT_VALUES.sub("#", one.text)
        if shape not in seen:
            seen.add(shape)
            kept.append(one)
    return kept
