"""Manual pages and `--help` outputs: options as records, each the line of the option with the paragraphs below it.

An option is scored by all of its text, so that a question in plain words finds the option that does it. Its line is
shown with every paragraph that is shown, below the heading of its section. Lines stay as they are.
"""

import re
from dataclasses import dataclass

from tersely.condensing.detect import Reader, Sample, Signs
from tersely.condensing.features import near_features
from tersely.condensing.focus import Focus, scan
from tersely.condensing.readers.generic import MOST_UNITS
from tersely.condensing.units import Reading, Unit, best_with_owners
from tersely.condensing.weights import WEIGHTS
from tersely.shapes.pieces import LONGEST_LINE, pieces_of

LONGEST_PARAGRAPH = 4
"""In lines; a longer one is divided."""

LONGEST_RECORD = 60
"""In paragraphs."""

LEAST_OPTIONS = 0.2
"""Least share of lines that begin with an option in a text without the sections of a manual."""

_OPTION = re.compile(r"\s{1,14}(?:-[A-Za-z0-9?#@](?=[,\s=<\[|]|$)|--?[A-Za-z][\w-]+)")
_HEADER = re.compile(r"\s*(?P<name>[\w.:@+-]+\(\d\w{0,4}\))\s{2,}.*\s(?P=name)\s*$")
_SECTION = re.compile(r"(?:NAME|SYNOPSIS|DESCRIPTION|OPTIONS|EXAMPLES?|SEE ALSO|FILES|ENVIRONMENT|AUTHORS?)\s*$")
_USAGE = re.compile(r"\s*usage:\s", re.I)
_SUMMARY = re.compile(r"\s*(?:NAME|SYNOPSIS|usage:)", re.I)


@dataclass(slots=True)
class _Paragraph:
    first: int
    last: int
    indent: int
    text: str
    parent: int = -1
    opens: bool = False
    """Whether it opens a record: an option, a name with a text below it."""


def detect(lines: list[str]) -> float:
    """Return how certain it is (0..1) that these sampled lines are a manual page or the help of a command."""
    sections = len({line.strip() for line in lines if _SECTION.match(line)})
    if sections >= 3 or (sections >= 2 and _HEADER.match(lines[0])):
        return 1.0
    options = sum(1 for line in lines if _OPTION.match(line))
    if options < 6:
        return 0.0
    share = options / len(lines)
    needed = LEAST_OPTIONS / 2 if any(_USAGE.match(line) for line in lines[:12]) else LEAST_OPTIONS
    return min(1.0, share + 0.4) if share >= needed else 0.0


def read(text: str, focus: Focus, budget: int) -> Reading | None:
    """Return options and paragraphs as units below their sections."""
    paragraphs = _paragraphs(text)
    if not paragraphs:
        return None
    _set_parents(paragraphs)
    features = near_features([one.text for one in paragraphs], focus)
    heads, about = _relevance_of_records(paragraphs, focus)
    features.title = [about.get(at, 0.0) if one.opens else 0.0 for at, one in enumerate(paragraphs)]
    features.body = [0.0 if one.opens else about.get(heads[at], 0.0) for at, one in enumerate(paragraphs)]
    features.roles = ["opening" if one.opens else "plain" for one in paragraphs]
    features.position = _in_summary(paragraphs)
    scores = features.scores(WEIGHTS["manual"], focus)
    _move_to_what_is_announced(paragraphs, scores)
    return Reading("manual", _units(paragraphs, scores, budget))


def _move_to_what_is_announced(paragraphs: list[_Paragraph], scores: list[float]) -> None:
    """Give the score of a line like `Example:` to the paragraph below it: alone it says nothing."""
    for at in range(len(paragraphs) - 1):
        one, below = paragraphs[at], paragraphs[at + 1]
        if one.opens and below.parent == at and one.text.endswith(":") and not _OPTION.match(one.text):
            scores[at + 1] = max(scores[at + 1], scores[at])
            scores[at] = -1.0


def _in_summary(paragraphs: list[_Paragraph]) -> list[float]:
    found: list[float] = []
    summary = False
    for one in paragraphs:
        if one.indent == 0:
            summary = bool(_SUMMARY.match(one.text))
        found.append(float(summary))
    return found


def _paragraphs(text: str) -> list[_Paragraph]:
    """Divide the text into paragraphs of a few lines; a line that opens a record is one by itself."""
    found: list[_Paragraph] = []
    lines = text.split("\n")
    indents = [len(line) - len(line.lstrip()) if line and not line.isspace() else -1 for line in lines]
    following = -1
    after = [-1] * len(lines)
    """Indentation of the next line that is not blank."""
    for at in range(len(lines) - 1, -1, -1):
        after[at] = following
        if indents[at] >= 0:
            following = indents[at]
    for at, line in enumerate(lines):
        indent = indents[at]
        if indent < 0:
            continue
        if len(line) > LONGEST_LINE:
            found.extend(_Paragraph(at + 1, at + 1, indent, piece) for piece in pieces_of(line))
            continue
        opens = indent > 0 and (bool(_OPTION.match(line)) or (after[at] > indent and len(line) < 100))
        last = found[-1] if found else None
        if (
            last
            and last.last == at
            and last.indent == indent > 0
            and not opens
            and not last.opens
            and last.last - last.first < LONGEST_PARAGRAPH - 1
        ):
            last.text += "\n" + line.rstrip()
            last.last = at + 1
        else:
            found.append(_Paragraph(at + 1, at + 1, indent, line.rstrip(), opens=opens))
    return found


def _set_parents(paragraphs: list[_Paragraph]) -> None:
    """Make each paragraph the child of the nearest one above that is indented less and opens a record or section."""
    around: list[int] = []
    for at, one in enumerate(paragraphs):
        while around and paragraphs[around[-1]].indent >= one.indent:
            around.pop()
        if around:
            one.parent = around[-1]
        if one.opens or one.indent == 0:
            around.append(at)


def _relevance_of_records(paragraphs: list[_Paragraph], focus: Focus) -> tuple[list[int], dict[int, float]]:
    """Return for each paragraph the one that opens its record, and the relevance of the records by these."""
    heads = [-1] * len(paragraphs)
    bodies: dict[int, list[str]] = {}
    for at, one in enumerate(paragraphs):
        head = at if one.opens else one.parent
        if head < 0 or not paragraphs[head].opens:
            continue
        heads[at] = head
        outer: int = head
        while outer >= 0 and paragraphs[outer].opens:
            body = bodies.setdefault(outer, [])
            if len(body) < LONGEST_RECORD:
                body.append(one.text)
            outer = paragraphs[outer].parent
    # Options that share a text stand on lines of their own, above it.
    relevance = dict(zip(bodies, scan([" ".join(body) for body in bodies.values()], focus).relevance, strict=True))
    opening = [at for at in bodies if paragraphs[at].opens]
    for at, below in zip(reversed(opening[:-1]), reversed(opening[1:]), strict=True):
        upper, lower = paragraphs[at], paragraphs[below]
        if upper.indent == lower.indent and lower.first == upper.last + 1 and len(bodies[at]) == 1 < len(bodies[below]):
            relevance[at] = max(relevance[at], relevance[below])
    return heads, relevance


def _units(paragraphs: list[_Paragraph], scores: list[float], budget: int) -> list[Unit]:
    most = min(MOST_UNITS, 2_000 + 4 * budget)
    chosen = best_with_owners(scores, [one.parent for one in paragraphs], most)
    place = {at: index for index, at in enumerate(chosen)}
    return [
        Unit(
            paragraphs[at].text,
            paragraphs[at].first,
            paragraphs[at].last,
            scores[at],
            place.get(paragraphs[at].parent) if paragraphs[at].parent >= 0 else None,
        )
        for at in chosen
    ]


def _is_manual(sample: Sample) -> bool:
    return sample.is_written and detect(sample.lines) > 0


READER = Reader("manual", Signs((0.85, _is_manual)), read, splits_at="files")
