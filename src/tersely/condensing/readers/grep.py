"""Search results (`path:line:text`, as printed by grep, ripgrep and similar tools): each path once, with its matches.

Matches are scored by their words and those of their path; a word that all of them share decides nothing. Definitions,
messages and comments rank above plain uses, and uses that are built alike lower each other. Definitions rank highest
if the question asks where something is. A match that only repeats terms of better matches scores lower, so that both
halves of a double question get an answer. Short lines are not preferred for being short.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tersely.condensing.detect import Reader, Sample, Signs
from tersely.condensing.focus import Focus, Found, scan
from tersely.condensing.records import columns_of_lines, weigh_columns
from tersely.condensing.templates import VALUE
from tersely.condensing.units import Reading, Unit
from tersely.condensing.weights import WEIGHTS

_MATCH = re.compile(
    r"(?P<path>(?:[A-Za-z]:[\\/])?[^\s:|][^:\n|]{0,300}?):(?P<line>\d{1,8}):(?:\d{1,5}:)?(?P<text>.*)", re.S
)
_CONTEXT = re.compile(r"(?P<path>[^\s:|][^:\n|]{0,300}?\.\w{1,10})-(?P<line>\d{1,8})-(?P<text>.*)", re.S)
_NUMBERED = re.compile(r"(?P<line>\d{1,8})[:-](?P<text>.*)", re.S)
_CLOCK = re.compile(r".*\d[T ]?\d{1,2}$")
_DEFINES = re.compile(
    r"\s*(?:export\s+|default\s+|public\s+|private\s+|protected\s+|static\s+|abstract\s+|final\s+|async\s+|pub(?:\(\w+\))?\s+|unsafe\s+|extern\s+)*"
    r"(?:def|class|func|fn|function|interface|struct|enum|trait|type|const|let|var|val|module|impl|resource|CREATE\s+\w+|#\s*define|macro_rules!)\s+\W{0,3}\w|\s*[A-Z][A-Z0-9_]{2,}\s*[:=]",
)
_WHERE = re.compile(
    r"\b(?:where|defin\w+|declar\w+|implement\w*|source of|located?|which (?:file|function|class|module))\b", re.I
)
_SAYS = re.compile(
    r"[\"'`][^\"'`]*[^\W\d_]{2,}[ .:]+[^\W\d_]{2,}[^\"'`]*[\"'`]?|(?:/\*|//|(?:^|\s)[#*;]|--|<!--)\s*\S+\s+\w"
)
"""A text of several words, or a comment."""
_WORDS = re.compile(r"\w+")
_COVERED = 0.8
"""Factor by which a term loses weight each time a chosen match contains it."""
_MOST_RANKED = 3_000
PER_CHARACTER = 0.004
"""`pack` ranks by score and length; this much per character makes up for it, up to a usual length."""
USUAL_LENGTH = 160


@dataclass(slots=True)
class _Hit:
    path: str
    line: str
    text: str
    at: int
    """Line in the search results, counted from 1."""
    context: bool = False


def read(text: str, focus: Focus, budget: int) -> Reading | None:
    """Return the matches as units under their files, or None if fewer than half of the lines are matches."""
    hits = _hits(text.split("\n"))
    if hits is None:
        return None
    found = scan([hit.text for hit in hits], focus)
    paths = list(dict.fromkeys(hit.path for hit in hits))
    of_path = dict(zip(paths, scan(paths, focus, names_of=found).relevance, strict=True))
    scores = _scores(hits, found, of_path, focus)
    answers: set[int] = set()
    if (focus.superlative or focus.comparisons) and len(hits) <= _MOST_RANKED:
        weigh_columns(scores, columns_of_lines([hit.text for hit in hits], focus), focus, answers)
    units = _by_file(hits, scores, of_path, answers)
    head = f"{len(hits)} matches in {len(paths)} files"

    return Reading("grep", units, head=head)


def _by_file(hits: Sequence[_Hit], scores: Sequence[float], of_path: dict[str, float], answers: set[int]) -> list[Unit]:
    """Return a unit for the path of each file, followed by the units of its matches."""
    gathered: dict[str, list[int]] = {}
    for index, hit in enumerate(hits):
        gathered.setdefault(hit.path, []).append(index)
    units: list[Unit] = []
    for path, own in gathered.items():
        owner = len(units)
        rows = [hits[index].at for index in own]
        score = 0.05 + 0.3 * of_path[path]
        units.append(Unit(path or "matches", rows[0], rows[0] - 1, score, count=0, rows=rows))
        units += [_unit(hits[index], scores[index], owner, alone=index in answers) for index in own]
    return units


def _unit(hit: _Hit, score: float, owner: int, *, alone: bool) -> Unit:
    text = f" {hit.line}: {hit.text.strip()}" if hit.line else f" {hit.text.strip()}"
    score *= 1 + PER_CHARACTER * min(USUAL_LENGTH, len(text))
    family = (
        None if alone or _DEFINES.match(hit.text) or _SAYS.search(hit.text[:400]) else _WORDS.sub("w", hit.text[:120])
    )
    return Unit(text, hit.at, hit.at, score, parent=owner, family=family, prefix=hit.path)


def _hits(lines: Sequence[str]) -> list[_Hit] | None:
    hits: list[_Hit] = []
    seen = others = 0
    path = ""
    for at, line in enumerate(lines, 1):
        if not line.strip() or line.strip() == "--":
            continue
        match = _MATCH.match(line)
        if match and not _CLOCK.match(match["path"]) and "  " not in match["path"].strip():
            path = match["path"]
            hits.append(_Hit(path, match["line"], match["text"], at))
            seen += 1
            continue
        match = _CONTEXT.match(line)
        if match:
            hits.append(_Hit(match["path"], match["line"], match["text"], at, context=True))
            seen += 1
            continue
        match = _NUMBERED.match(line)
        if match and path:
            # ripgrep's headings: the path on a line of its own, the matches below it.
            hits.append(_Hit(path, match["line"], match["text"], at, context=line[match.end("line")] == "-"))
            seen += 1
            continue
        if re.fullmatch(r"[\w./\\@+-]+\.\w{1,10}", line.strip()):
            path = line.strip()
            continue
        others += 1
        hits.append(_Hit(path, "", line, at))
    return hits if seen >= 2 and seen > others else None


def _scores(hits: Sequence[_Hit], found: Found, of_path: dict[str, float], focus: Focus) -> list[float]:
    """Score the matches greedily: a term that better matches contain counts less for the next one."""
    row, roles = WEIGHTS["grep"], WEIGHTS["grep"].roles
    where = bool(_WHERE.search(focus.text))
    weights = {index: focus.terms[index].weight * idf for index, idf in found.idf.items()}
    scale = sum(sorted(weights.values(), reverse=True)[:3]) or 1.0
    best = max(found.relevance, default=0.0)
    base: list[float] = []
    alike: dict[str, int] = {}
    for index, hit in enumerate(hits):
        key = VALUE.sub("#", hit.text.strip())
        repeated = alike[key] = alike.get(key, -1) + 1
        defines = bool(_DEFINES.match(hit.text))
        score = roles["hit"]
        score += row.severity_asked * found.severity[index] * focus.trouble
        if defines:
            score += (2 if where else 1) * roles["definition"]
        elif _SAYS.search(hit.text[:400]):
            score += roles["says"]
        named = of_path[hit.path] * (row.body * (1.0 if found.relevance[index] else 0.5) if best else row.relevance)
        base.append((score - (0.2 if hit.context else 0.0)) / (1 + 0.7 * repeated) + named)
    final = [each + row.relevance * found.relevance[index] for index, each in enumerate(base)]
    covered: dict[int, int] = {}
    order = sorted(range(len(hits)), key=lambda index: (-final[index], index))[:_MOST_RANKED]
    # A single pass, best first; sorting again after each choice would change little and cost much.
    for index in order:
        terms = found.terms[index]
        if terms:
            fresh = sum(weights[term] * _COVERED ** covered.get(term, 0) for term in terms) / scale
            final[index] = base[index] + row.relevance * min(found.relevance[index], fresh)
            for term in terms:
                covered[term] = covered.get(term, 0) + 1
    return final


_FOUND = re.compile(r"(?:\.{0,2}/)?[\w.@+-]+(?:/[\w.@ +-]+)*\.?[\w-]*[:-]\d+[:-](?!\d\d[:.,])")
_FOUND_PATH = re.compile(
    r"(?:\.{0,2}/)?(?:[\w.@+-]+/)+[\w.@+-]+(?::\d+)?:|[\w-]+\.(?:py|go|js|ts|java|c|h|cpp|rs|rb|md|txt|ya?ml|json|sh|cfg|toml|xml|html|css|tsx|jsx|kt|php|cs):\d+:"
)


_MAY_BE_FOUND = re.compile(r"[:-]\d+[:-]")
"""In every match of `_FOUND`."""


def _are_hits(sample: Sample) -> bool:
    if sample.timed >= 0.3 or not _MAY_BE_FOUND.search(sample.joined):
        return False
    return sample.share(_FOUND) >= 0.6 and sample.share(_FOUND_PATH) >= 0.5


READER = Reader("grep", Signs((0.87, _are_hits)), read, by_line=True)
