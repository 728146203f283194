"""Decides whether a report names the drawn cause.

Only the conclusion of the report counts: the section with a heading such as "cause" or
"conclusion" if there is one, otherwise the text before the second heading; of that, the
headline and the first three pieces of evidence. A report that names a decoy before the
cause is wrong.
"""

import re

from tersely.demo.causes import ExpectedFinding
from tersely.demo.incidents import Incident

LINES_OF_A_CONCLUSION = 4
CHARACTERS_OF_A_LINE = 1_200

_HEADING = re.compile(r"^\s*(?:#{1,6}\s+\S|\*\*[^*]+\*\*:?\s*$)")
_CONCLUDES = re.compile(r"\b(?:cause|conclusion|diagnosis|verdict|what happened|most likely)\b", re.IGNORECASE)


def names_cause(analysis: str, incident: Incident) -> bool:
    """Whether the conclusion names the drawn cause, and no decoy before it."""
    return _first_named(analysis, incident) is incident.cause


def blamed_decoy(analysis: str, incident: Incident) -> ExpectedFinding | None:
    """The decoy that a wrong conclusion names first, if any."""
    named = _first_named(analysis, incident)
    return None if named is incident.cause else named


def _first_named(analysis: str, incident: Incident) -> ExpectedFinding | None:
    lines = conclusion_of(analysis).splitlines()
    for line in lines:
        # Evidence may omit the subject that the headline names.
        if incident.cause.is_named_in(line) or (incident.cause.shows_in(line) and incident.cause.concerns(lines[0])):
            return incident.cause
        for decoy in incident.decoys:
            if decoy.is_named_in(line):
                return decoy
    return None


def conclusion_of(analysis: str) -> str:
    """The conclusion of a report."""
    sections: list[list[str]] = [[]]
    for line in analysis.splitlines():
        if _HEADING.match(line):
            sections.append([])
        sections[-1].append(line)
    sections = [section for section in sections if any(line.strip() for line in section)]
    if not sections:
        return ""
    headed = [section for section in sections if _HEADING.match(section[0]) and _CONCLUDES.search(section[0])]
    if headed:
        chosen = headed[0]
    else:
        # A title alone is not a conclusion: the next section belongs to it.
        chosen = (
            sections[0]
            if len([line for line in sections[0] if line.strip()]) > 1
            else [line for section in sections[:2] for line in section]
        )
    # A heading of a few words is a label; a longer one is the headline.
    lines = [
        line.strip()[:CHARACTERS_OF_A_LINE]
        for line in chosen
        if line.strip() and not (_HEADING.match(line) and len(line.split()) < 7)
    ]
    return "\n".join(lines[:LINES_OF_A_CONCLUSION])
