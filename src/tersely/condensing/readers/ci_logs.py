"""Logs of CI jobs that mark their steps and errors (`##[group]`, `##[error]`, `::error::`).

The marks say what matters: errors are pinned with the output just above them, warnings come next, the titles of steps
own their output, and the parameters that a step prints inside of its group come last. Outcomes of tests inside of a
step are judged by their role, as in a run of tests.

Times at the beginning of lines are left out; where each line names its job and step, these are written once above.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tersely.condensing.detect import Reader, Signs
from tersely.condensing.features import near_features
from tersely.condensing.focus import Focus
from tersely.condensing.readers.test_runs import COUNTED, roles_of
from tersely.condensing.units import Reading, Unit
from tersely.condensing.weights import WEIGHTS

FADE = 0.85
IN_GROUP = 0.2
"""Factor for the question's words in such lines: the names of options contain all sorts of words."""
LONGEST_LINE = 500
MOST_UNITS = 40_000

_PREFIX = re.compile(r"(?P<step>[^\t\n]{1,120}\t[^\t\n]{1,200}\t)?\ufeff?(?P<time>\d{4}-\d\d-\d\dT[\d:.]+Z)? ?")
_MARK = re.compile(r"(?:##\[|::)(?P<mark>group|endgroup|error|warning|notice|section|command|debug)\b[^\]:]*(?:\]|::)?")
_TITLE = frozenset(("group", "section"))
_OPENING = re.compile(r"(?:##\[|::)(?:group|error|section)\b")


@dataclass(slots=True)
class _CiLine:
    at: int
    text: str
    mark: str
    in_group: bool
    step: str
    """Job and step, if each line names them."""


def detect(lines: Sequence[str]) -> bool:
    """Whether several of these lines are marks of a CI job."""
    marks = 0
    for line in lines:
        if "##[" not in line and "::" not in line:
            continue
        prefix = _PREFIX.match(line)
        marks += prefix is not None and _OPENING.match(line, prefix.end()) is not None
    return marks >= 3


def read(text: str, focus: Focus, budget: int) -> Reading | None:
    lines = _lines(text.split("\n"))
    if sum(1 for line in lines if line.mark) < 3:
        return None
    scores = _scores(lines, focus)
    if len(lines) > MOST_UNITS:
        step = len(lines) // MOST_UNITS + 1
        kept = [index for index in range(len(lines)) if scores[index] > 1.0 or lines[index].mark or index % step == 0]
        lines, scores = [lines[index] for index in kept], [scores[index] for index in kept]
    units: list[Unit] = []
    owner: int | None = None
    step_named = ""
    for line, score in zip(lines, scores, strict=True):
        if line.step != step_named:
            step_named, owner = line.step, len(units)
            units.append(
                Unit(" ".join(line.step.split("\t")).strip() or "[no step]", line.at, line.at - 1, -1.0, count=0)
            )
        is_title = line.mark in _TITLE
        if is_title and not line.step:
            owner = len(units)
        parent = None if is_title and not line.step else owner
        units.append(Unit(line.text, line.at, line.at, score, parent=parent))
    errors = sum(1 for line in lines if line.mark == "error")
    warnings = sum(1 for line in lines if line.mark == "warning")
    return Reading("ci_log", units, head=f"[lines marked as error: {errors}, as warning: {warnings}]")


def _lines(lines: Sequence[str]) -> list[_CiLine]:
    found: list[_CiLine] = []
    in_group = False
    for at, line in enumerate(lines, 1):
        prefix = _PREFIX.match(line)
        assert prefix is not None
        text = line[prefix.end() : prefix.end() + LONGEST_LINE].rstrip()
        if not text:
            continue
        marked = _MARK.match(text)
        mark = marked["mark"] if marked else ""
        if mark == "endgroup":
            in_group = False
            continue
        cut = " …" if len(line) - prefix.end() > LONGEST_LINE else ""
        found.append(_CiLine(at, text + cut, mark, in_group, (prefix["step"] or "").strip("\t")))
        if mark in _TITLE:
            in_group = mark == "group"
    return found


def _scores(lines: list[_CiLine], focus: Focus) -> list[float]:
    texts = [line.text for line in lines]
    features = near_features(texts, focus)
    features.roles = [_role(line, role) for line, role in zip(lines, roles_of(texts), strict=True)]
    found, shares = features.found, [IN_GROUP if line.in_group else 1.0 for line in lines]
    found.relevance = [share * each for share, each in zip(shares, found.relevance, strict=True)]
    features.nearness = [share * each for share, each in zip(shares, features.nearness, strict=True)]
    found.severity = [
        0.0 if role in ("parameter", "counted") else severity
        for role, severity in zip(features.roles, found.severity, strict=True)
    ]
    weights = WEIGHTS["ci_log"]
    scores = features.scores(weights, focus)
    gain = 0.0
    for index in range(len(lines) - 1, -1, -1):
        line = lines[index]
        if line.mark == "error":
            gain = weights.roles["above an error"]
        elif line.mark in _TITLE:
            gain = 0.0
        elif not line.in_group:
            scores[index] += gain
            gain *= FADE
    return scores


def _role(line: _CiLine, in_tests: str) -> str:
    if line.mark in ("error", "warning"):
        return line.mark
    if line.in_group:
        return "parameter"
    if in_tests in COUNTED:
        return "counted"
    return "outcome" if in_tests in ("failed", "section", "totals") else "output"


READER = Reader("ci_log", Signs((0.94, lambda sample: detect(sample.lines))), read, splits_at="nothing")
