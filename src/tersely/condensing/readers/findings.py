"""Findings of compilers and linters, one per line: `path:line:col: severity: message [rule]` and its relatives.

The tool's own totals are pinned. The head counts lines by severity and rule and says that it counts lines, so that it
does not contradict the tool, which may count otherwise. Rare rules come before common ones, the first error of a file
before the others; a note and the source below a finding are shown with it.

A path that several findings in a row share is written once above them.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tersely.condensing.detect import Reader, Sample, Signs
from tersely.condensing.features import Features, rarity
from tersely.condensing.focus import Focus, scan
from tersely.condensing.pack import LENGTH_WEIGHT
from tersely.condensing.readers import grep
from tersely.condensing.records import columns_of_lines, weigh_columns
from tersely.condensing.units import Reading, Unit
from tersely.condensing.weights import WEIGHTS
from tersely.text.digits import of_each_form

LEAST_RELEVANCE = 0.2
"""From here on a finding answers the question, and rarity counts less."""
ANSWER_SHARE = 0.6
"""Findings with this share of the best relevance are answers too, and do not lower each other's score."""
BELOW = 0.3
"""Share of its finding's score that a line of source below it has."""
FEWEST_REPEATED = 3
"""From this many findings with one message on, all but the first are cut."""
SHORTEST_CUT = 12
"""In characters; cutting less is not worth the mark."""
MOST_BELOW = 8
"""Lines without a place that are taken for a part of the finding above them."""
LONGEST_LINE = 500
MOST_UNITS = 40_000

_SEVERITIES = (
    r"fatal error|internal compiler error|error|warning|warn|note|info|information|hint|help|remark|style|convention"
    r"|refactor"
)
_PLACED = re.compile(
    r"(?P<path>(?:[A-Za-z]:[\\/])?[^\s:()|\[\]{}'\",;=][^:()\n|\"'=]{0,300}?)"
    r":(?P<place>\d{1,7}(?::\d{1,5})?):? (?P<rest>\S.*)"
)
_IN_PARENTHESES = re.compile(
    r"(?P<path>(?:[A-Za-z]:)?[^\s:()|][^:()\n|\"']{0,300}?)\((?P<place>\d{1,7}(?:,\d{1,5})?)\): (?P<rest>\S.*)"
)
_ROW = re.compile(rf"\s+(?P<place>\d{{1,7}}:\d{{1,5}})\s+(?P<rest>(?:{_SEVERITIES})\s+\S.*)", re.I)
_SEVERITY = re.compile(rf"(?:({_SEVERITIES})\b(?: ([A-Z]{{1,6}}\d{{2,5}}))?(?:\[[\w:-]+\])?(?::|\s{{2,}}))", re.I)
_CODE = re.compile(r"\[?([A-Z]{1,6}-?\d{2,5})\]?(?:[: ]|$)")
_RULE = re.compile(r"(?:\s\[([\w./@:-]+(?:, ?[\w./@:-]+)*=?)\]|\s\(([a-z][\w-]+)\)|\s{2,}([@a-z][\w./@-]+))\s*$")
_LETTERED = re.compile(r"[CRWEFI]\d{4}")
_LETTERS = {
    "C": "convention",
    "R": "refactor",
    "W": "warning",
    "E": "error",
    "F": "fatal error",
    "I": "information",
}
_APART = re.compile(r"\s\s")
_PATH_ALONE = re.compile(r"(?:\*{3,} Module |[A-Za-z]:\\|\.{0,2}/)?[\w@+-][\w./\\@+ -]*\.\w{1,6}:?$|(?:/[\w.@+ -]+)+$")
_TOTALS = re.compile(
    r"\W*(?:Found \d+|\d+ (?:problems?|errors?|warnings?|issues?|findings?)\b|Your code has been rated"
    r"|\[\*\] \d+ fixable|All checks passed|Success: |make(?:\[\d+\])?: \*\*\*|error: could not compile"
    r"|error: aborting|compilation terminated|\d+ potentially fixable|ninja: build stopped"
    r"|\d+ files? (?:checked|would be|reformatted)|warning: .* generated \d+)",
    re.I,
)
_NAMES = re.compile(r"\d[\d:,.]*|[\"'`‘][^\"'`’]*[\"'`’]")
_WORD = re.compile(r"[^\W\d]{2}")
_UNWANTED = re.compile(
    r"\b(?:not (?:about|related|due)|other than|apart from|besides|except|unrelated)\b[^,;?.]*", re.I
)
"""The part of a question that names what is not wanted."""


@dataclass(slots=True)
class _Finding:
    path: str
    text: str
    """What follows the path, with the place."""
    at: int
    severity: str
    rule: str
    message: int
    """Where the message begins in the text."""
    whole: bool = False
    """The line is shown as it is, with its path."""
    heading: int = -1
    """The line above it that is its path; -1 if its own line begins with the path."""
    below: list[int] = field(default_factory=list)

    @property
    def sort(self) -> str:
        """What findings of the same sort share: the rule, or the message without names and numbers."""
        return self.rule or _NAMES.sub("…", self.text)

    @property
    def is_note(self) -> bool:
        return self.severity in ("note", "help", "hint")


def detect(lines: Sequence[str]) -> bool:
    """Whether enough of these lines (without blank ones) are findings: places with a severity or a rule."""
    possible = list(filter(_MAY_BE_PLACED.search, lines))
    if len(possible) < max(4, 0.25 * len(lines)):
        return False
    placed = named = 0
    for line in possible:
        found = _parsed(line[:LONGEST_LINE], 0, "?")
        if found is not None:
            placed += 1
            named += bool(found.severity or found.rule)
    return placed >= 4 and placed >= 0.25 * len(lines) and named >= 0.6 * placed


def read(text: str, focus: Focus, budget: int) -> Reading | None:
    """Return the findings as units, or None if the lines have places but neither severities nor rules."""
    lines = text.split("\n")
    findings, others = _findings(lines)
    lettered = _read_letters(findings)
    if len(findings) < 4 or sum(1 for each in findings if each.severity or each.rule) < 0.6 * len(findings):
        return None
    scores, answers = _scores(findings, focus, lettered=lettered)
    _shorten_repeated(findings, scores)
    units = _units(lines, findings, others, scores, answers, focus)
    return Reading("findings", units, head=_head(findings, [lines[at][:LONGEST_LINE] for at in others]))


_MAY_BE_PLACED = re.compile(r"[:(]\d")
"""In every line with a place."""


def _parsed(line: str, at: int, path: str, heading: int = -1) -> _Finding | None:
    whole = False
    found = _PLACED.match(line)
    if found is None or _ends_as_time(found["path"]) or "  " in found["path"]:
        found = _IN_PARENTHESES.match(line)
        whole = found is not None
    if found is not None:
        path, heading = found["path"], -1
    elif path:
        found = _ROW.match(line)
    if found is None:
        return None
    rest = found["rest"]
    severity, rule, begin = _named(rest)
    text = line.strip() if whole else f"{found['place']}: {rest}"
    if not whole and line[:1] in " \t":
        text = line.strip()
    text = text.rstrip()
    return _Finding(path, text, at, severity, rule, max(0, len(text) - len(rest.rstrip()) + begin), whole, heading)


def _ends_as_time(path: str) -> bool:
    return len(path) > 1 and path[-2:].isdecimal()


def _rule_in(text: str, at: int = 0) -> re.Match[str] | None:
    """Search the rule at the end of a message; most messages cannot have one, which costs less to see."""
    return _RULE.search(text, at) if text.rstrip()[-1:] in ("]", ")") or _APART.search(text, at) else None


def _named(rest: str) -> tuple[str, str, int]:
    """Return severity and rule of a message (empty if it states none), and where the message begins."""
    severity = rule = ""
    begin = 0
    if found := _SEVERITY.match(rest):
        severity, rule, begin = found[1].lower(), found[2] or "", found.end()
    elif found := _CODE.match(rest):
        rule, begin = found[1], found.end()
    if not rule and (found := _rule_in(rest)):
        rule = next(part for part in found.groups() if part)
    return severity, rule, begin


def _findings(lines: Sequence[str]) -> tuple[list[_Finding], list[int]]:
    """Collect the findings with the lines below them that belong to them, and the other lines."""
    findings: list[_Finding] = []
    others: list[int] = []
    path = ""
    heading = -1
    is_open = False
    for at, line in enumerate(lines):
        if not line or line.isspace():
            is_open = False
            continue
        found = _parsed(line[:LONGEST_LINE], at, path, heading) if _MAY_BE_PLACED.search(line) else None
        if found is not None:
            findings.append(found)
            is_open = True
        elif _PATH_ALONE.match(line):
            path, heading = line.strip().rstrip(":"), at
            is_open = False
        elif is_open and line[:1] in " \t" and len(findings[-1].below) < MOST_BELOW:
            findings[-1].below.append(at)
        else:
            others.append(at)
    return findings, others


def _read_letters(findings: list[_Finding]) -> bool:
    """Take the severities from the letters of the rules if they are those of Pylint: `E1101`, `C0116`."""
    letters = {each.rule[0] for each in findings if _LETTERED.fullmatch(each.rule)}
    if letters.isdisjoint("CR") or len(letters) < 2 or any(each.severity for each in findings):
        return False
    for each in findings:
        if _LETTERED.fullmatch(each.rule):
            each.severity = _LETTERS[each.rule[0]]
    return True


def _scores(findings: list[_Finding], focus: Focus, *, lettered: bool) -> tuple[list[float], set[int]]:
    """Return the score of each finding, and which of them answer the question as well as any."""
    wanted = _UNWANTED.sub(" ", focus.text)
    if wanted != focus.text:
        focus = Focus.parse(wanted)
    found = scan([f"{each.severity} {each.text}" if lettered else each.text for each in findings], focus)
    paths = list(dict.fromkeys(each.path for each in findings))
    of_path = dict(zip(paths, scan(paths, focus, names_of=found).relevance, strict=True))
    best = max(found.relevance, default=0.0)
    answers = {index for index, each in enumerate(found.relevance) if each >= max(LEAST_RELEVANCE, ANSWER_SHARE * best)}
    features = Features(found, rarity=rarity([each.sort for each in findings]))
    features.body = [of_path[each.path] for each in findings]
    features.roles = ["finding"] * len(findings)
    seen: set[str] = set()
    for index, each in enumerate(findings):
        if "error" in each.severity:
            features.roles[index] = "error" if each.path in seen else "first error"
            seen.add(each.path)
        elif each.is_note:
            features.roles[index] = "note"
    scores = features.scores(WEIGHTS["findings"], focus, unusual=best < LEAST_RELEVANCE)
    if (focus.superlative or focus.comparisons) and len(findings) <= MOST_UNITS:
        weigh_columns(scores, columns_of_lines([each.text for each in findings], focus), focus, answers)
    return scores, answers


def _shorten_repeated(findings: list[_Finding], scores: list[float]) -> None:
    """Cut messages that repeat an earlier one after the last name in which they differ.

    The first one of a sort is whole, and chosen before the others.
    """
    groups: dict[str, list[int]] = {}
    messages = [each.text[each.message :] for each in findings]
    for index, message in enumerate(of_each_form(lambda message: _NAMES.sub("…", message), messages)):
        groups.setdefault(message, []).append(index)
    for members in groups.values():
        if len(members) < FEWEST_REPEATED:
            continue
        first = findings[members[0]]
        names = _NAMES.findall(first.text, first.message)
        for index in members[1:]:
            each = findings[index]
            if not each.rule:
                continue
            end = each.message
            if messages[index] != messages[members[0]]:
                for own, name in zip(_NAMES.finditer(each.text, end), names, strict=False):
                    if own[0] != name:
                        end = own.end()
            start = each.text[:end].rstrip()
            if len(each.text) - len(start) <= SHORTEST_CUT:
                continue
            rule = _rule_in(each.text, end)
            kept = f"{start} …{rule[0].rstrip() if rule else ''}"
            if each.rule in kept and len(each.text) - len(kept) > SHORTEST_CUT:
                each.text = kept
        divisors = [1 + LENGTH_WEIGHT * len(findings[at].text) for at in members]
        scores[members[0]] = 0.05 + divisors[0] * max(
            scores[at] / divisor for at, divisor in zip(members, divisors, strict=True)
        )


def _units(
    lines: Sequence[str],
    findings: list[_Finding],
    others: list[int],
    scores: list[float],
    answers: set[int],
    focus: Focus,
) -> list[Unit]:
    """Return the units in the order of the text: findings under their path, lines below them, and other lines."""
    most = max(1, len(findings) // MOST_UNITS)
    texts = [lines[at][:LONGEST_LINE].rstrip() for at in others]
    found = scan(texts, focus)
    units: list[Unit] = []
    owner: int | None = None
    place = ("", -1)
    above = -1
    other = 0
    for index, each in enumerate(findings):
        other = _add_others(units, others, texts, found.relevance, other, each.at)
        if most > 1 and index % most and scores[index] < 1.0:
            continue
        if each.whole:
            owner = None
        elif (each.path, each.heading) != place or owner is None:
            owner = len(units)
            units.append(_heading(lines, each))
        place = each.path, each.heading
        parent = above if each.is_note and above >= 0 else owner
        if not each.is_note:
            above = len(units)
        text = each.text if each.whole else f" {each.text}"
        shown = _cut(text)
        at = len(units)
        units.append(
            Unit(
                shown,
                each.at + 1,
                each.at + 1,
                scores[index],
                parent,
                family=None if index in answers else each.sort,
                prefix="" if each.whole or each.heading >= 0 else each.path,
            )
        )
        for below in each.below:
            score = BELOW * scores[index] if _has_words(lines[below]) else -1.0
            units.append(Unit(_cut(lines[below]), below + 1, below + 1, score, at))
    _add_others(units, others, texts, found.relevance, other, len(lines))
    return units


def _heading(lines: Sequence[str], finding: _Finding) -> Unit:
    """Return the path above a finding: a line of the text, or what the findings below it begin with."""
    if finding.heading < 0:
        return Unit(finding.path, finding.at + 1, finding.at, -1.0, count=0)
    return Unit(_cut(lines[finding.heading][:LONGEST_LINE]), finding.heading + 1, finding.heading + 1, -1.0, count=0)


def _add_others(
    units: list[Unit], others: list[int], texts: list[str], relevance: list[float], start: int, end: int
) -> int:
    """Add the lines that are no findings, up to a line of the text; pin totals."""
    while start < len(others) and others[start] < end:
        line = texts[start]
        pinned = bool(_TOTALS.match(line)) and len(others) - start <= 40
        role = "totals" if pinned else "other"
        if not pinned and (severe := _SEVERITY.match(line)):
            role = "error without a place" if "error" in severe[1].lower() else "warning without a place"
        weights = WEIGHTS["findings"]
        score = weights.roles[role] + (0.0 if pinned else weights.relevance * relevance[start])
        units.append(Unit(line, others[start] + 1, others[start] + 1, score))
        start += 1
    return start


def _has_words(line: str) -> bool:
    """Whether a line says something: carets below the source point at a place that the finding states anyway."""
    return _WORD.search(line) is not None


def _cut(line: str) -> str:
    line = line.rstrip()
    return line if len(line) < LONGEST_LINE else line + " …"


def _head(findings: list[_Finding], others: list[str]) -> str:
    """Count lines by severity, files, and lines by rule; separately those that name no place."""
    severities = Counter(each.severity for each in findings if each.severity)
    parts = [f"{times} {severity}" for severity, times in severities.most_common(5)]
    plain = len(findings) - severities.total()
    if plain:
        parts.append(f"{plain} {'others' if parts else 'findings'}")
    files = len({each.path for each in findings})
    placeless = [found for line in others if not _TOTALS.match(line) and (found := _SEVERITY.match(line))]
    apart = Counter(found[1].lower() for found in placeless)
    without = f"; without a place: {', '.join(f'{times} {name}' for name, times in apart.items())}" if apart else ""
    head = f"[lines: {', '.join(parts)}; in {files} files{without}]"
    rules = Counter(each.rule for each in findings if each.rule)
    rules.update(found[2] for found in placeless if found[2])
    if len(rules) > 1:
        often = rules.most_common(8)
        more = len(rules) - len(often)
        listed = ", ".join(f"{rule} ×{times}" for rule, times in often)
        head += f"\n[lines by rule: {listed}{f', and {more} other rules' if more else ''}]"
    return head


def _has_findings(sample: Sample) -> bool:
    return sample.timed < 0.3 and detect(sample.lines)


def _read_places(text: str, focus: Focus, budget: int) -> Reading | None:
    return read(text, focus, budget) or grep.read(text, focus, budget)


READER = Reader("findings", Signs((0.89, _has_findings)), _read_places, splits_at="nothing")
