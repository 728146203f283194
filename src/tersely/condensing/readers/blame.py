"""Annotated source (`git blame`): each run of lines of one commit under its hash, author and date.

Hash, author and date identify a line and are shown with it, once for a few lines of one commit that follow each other.
Lines are scored by their words, by the words of their author, and by their date if the question asks for the newest
or oldest change. The head counts lines, commits and authors, and gives the earliest and latest date.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tersely.condensing.detect import Reader, Signs
from tersely.condensing.features import near_features
from tersely.condensing.focus import Focus, scan
from tersely.condensing.records import Column, weigh_columns
from tersely.condensing.units import Reading, Unit
from tersely.condensing.weights import WEIGHTS

LONGEST_RUN = 3
"""Lines after which a commit is named again, so that it is near each of them even if some are left out."""
MOST_UNITS = 40_000
LONGEST_LINE = 400

_ANNOTATED = re.compile(
    r"(?P<commit>\^?[0-9a-f]{7,40}\s+(?:\S+\s+)?\((?P<author>\S.{0,80}?)"
    r"\s+(?P<date>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4}))"
    r"\s+(?P<line>\d+)\) ?(?P<code>.*)"
)
_DEFINES = re.compile(r"[A-Za-z_#@][^;=]*[({:]\s*$|(?:def|class|func|fn|type|struct|#define|static|export)\b")


@dataclass(slots=True)
class _Line:
    commit: str
    """Hash, author and date, as they are before the number."""
    author: str
    date: str
    text: str
    """Number and code."""
    at: int


def detect(lines: Sequence[str]) -> bool:
    """Whether nearly all of these lines are annotated with a commit."""
    sample = lines[:60]
    return len(sample) >= 3 and sum(1 for line in sample if _ANNOTATED.match(line)) >= 0.9 * len(sample)


def read(text: str, focus: Focus, budget: int) -> Reading | None:
    found = _lines(text.split("\n"))
    if not found:
        return None
    scores = _scores(found, focus)
    step = len(found) // MOST_UNITS + 1
    units: list[Unit] = []
    commit, owner = "", 0
    for index, line in enumerate(found):
        if step > 1 and index % step and scores[index] < 1.0:
            continue
        if line.commit != commit or len(units) - owner > LONGEST_RUN:
            commit, owner = line.commit, len(units)
            units.append(Unit(" ".join(commit.split()), line.at, line.at - 1, -1.0, count=0))
        units.append(Unit(f" {line.text}", line.at, line.at, scores[index], owner, prefix=commit))
    return Reading("blame", units, head=_head(found))


def _lines(lines: Sequence[str]) -> list[_Line]:
    found: list[_Line] = []
    for at, line in enumerate(lines, 1):
        match = _ANNOTATED.match(line[:LONGEST_LINE])
        if match:
            cut = " …" if len(line) > LONGEST_LINE else ""
            text = f"{match['line']}) {match['code'].rstrip()}{cut}"
            found.append(_Line(match["commit"], match["author"], match["date"], text, at))
    return found


def _scores(lines: list[_Line], focus: Focus) -> list[float]:
    commits = list(dict.fromkeys(line.commit for line in lines))
    of_commit = dict(zip(commits, scan(commits, focus).relevance, strict=True))
    features = near_features([line.text for line in lines], focus)
    features.body = [of_commit[line.commit] for line in lines]
    features.roles = ["definition" if _DEFINES.match(line.text.partition(") ")[2]) else "line" for line in lines]
    scores = features.scores(WEIGHTS["blame"], focus)
    if focus.superlative or focus.comparisons or not focus:
        dates = Column("date change commit modified", range(len(lines)), [line.date[:19] for line in lines])
        weigh_columns(scores, [dates], focus)
    return scores


def _head(lines: list[_Line]) -> str:
    authors = Counter(line.author for line in lines)
    often = authors.most_common(5)
    listed = ", ".join(f"{author} ×{times}" for author, times in often)
    more = len(authors) - len(often)
    commits = len({line.commit.split()[0] for line in lines})
    dates = sorted(line.date[:10] for line in lines)
    return (
        f"[{len(lines)} lines of {commits} commits, {dates[0]} – {dates[-1]}; "
        f"lines by author: {listed}{f', and {more} others' if more else ''}]"
    )


READER = Reader("blame", Signs((0.91, lambda sample: detect(sample.lines))), read, splits_at="nothing")
