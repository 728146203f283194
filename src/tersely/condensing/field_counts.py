"""What all records say in one field: exact counts of its values, or the range of its numbers.

    count_values(["512Mi"] * 38 + ["96Mi"])           512Mi ×38, 96Mi ×1
    count_values(["0.3", "19", "7.2", …, "8412"])     0.3 – 19, 8412 ×1

With it a model can conclude "only this one" or "none" although most records are not
shown. Every count is exact and covers all records: values that are not listed are
counted together, records without the field are counted as absent. Fields of names or
free text have no counts, because nothing in them repeats.

`telling` chooses the fields: those that the question names, by their label or by one of
their values, and those that hold the states of the records, which answer most questions
about trouble and all about "none". Without a question, those that vary.

Knows nothing of units, trees, tables and logs, which collect the fields.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tersely.condensing.focus import Focus, subwords
from tersely.condensing.lexicon import SEVERITY, STATES
from tersely.condensing.records import (
    Column,
    asks_for_absence,
    counts_of,
    far_out,
    is_missing,
    meant_direction,
    numbers_of,
)
from tersely.shapes.values import number_of

FEWEST = 8
"""Records below this number are read, not counted."""
MOST_LISTED = 6
"""Values that are listed; the others are counted together."""
LONGEST_VALUE = 48
"""In characters. Longer values are messages, which are shown as values of their records."""
LEAST_COVERED = 0.6
"""Share of the values that must be listed; numbers are described by their range instead, words not at all."""
MOST_BESIDES = 3
"""Values counted beside a range: outliers, and words among the numbers. With more, no range describes the field."""
LARGEST_VARIETY = 0.5
"""Distinct values as a share of all; a field with more is a name or a measure."""
IF_ASKED = 6.0
"""Score of the counts of a field that the question names, if it asks how many, for others, or for none: the answer."""
UNASKED = 0.9
"""Score of the counts of a field otherwise."""
MOST_STATES = 12
"""Values of a field of states."""
MOST_ABSENT = 0.5
"""Share of the records without a field above which its values are not counted, unless they are few."""
MOST_ALONE = 4
"""Fields that one record has each. With more, and if they are half of all, none of them is counted."""
MOST_COMPARED = 24
"""Distinct values of a field that are compared with the question by their stems; of more, those that are in it."""
MOST_NAMED = 3
"""Values of one field that the question may name; with more it names none of them in particular."""


_COUNTING = re.compile(
    r"\b(?:how (?:many|often|much)|(?:is|are|was|were) there|number of|counts?|only|others?|any|none|no|not|all|every"
    r"|each|most"
    r"|both|different|same|unique|distribution|range|between|typical\w*|usual\w*|average|overview|summar\w+)\b",
    re.I,
)


@lru_cache(maxsize=64)
def asks_for_counts(question: str) -> bool:
    """Whether a question is about all records: how many, are there others, is it the only one, none."""
    return _COUNTING.search(question) is not None


@dataclass(frozen=True)
class Counted:
    """What all records have in one field."""

    text: str
    first: str
    """The first value in the text."""
    listed: frozenset[str] = frozenset()
    """The values with a count of their own."""


@dataclass(frozen=True)
class FieldValues:
    """The values of one field in all records that have it."""

    label: str
    values: Sequence[str]
    absent: int = 0
    """Records without the field."""
    match: float = 0.0
    """How well the question names the field."""
    named: Collection[str] = ()
    """Values that the question names."""
    nested: int = 0
    """Records in which the field is an object or a list."""


def telling(fields: Sequence[FieldValues], focus: Focus, *, every: bool = False) -> list[tuple[float, int, Counted]]:
    """Return the fields that matter, best first, each with its score, its position and what all records have in it.

    With `every`, the fields that do not matter follow, with a score of 0.
    """
    counts: dict[int, Counted] = {}
    alone = {at for at, field in enumerate(fields) if len(field.values) == 1 and field.absent}
    if len(alone) < max(MOST_ALONE, 0.5 * len(fields)):
        alone = set()
    for at, field in enumerate(fields):
        if at in alone:
            continue  # The fields are data: `England: 10th appearance` is an entry of a list, not a field.
        if field.absent > MOST_ABSENT * (len(field.values) + field.absent) and len(set(field.values)) > 3:
            continue  # A field of few records, which says little about all of them.
        named = field.named
        if field.match > 0.5 and asks_for_absence(focus.text):
            named = {*named, *filter(is_missing, counts_of(field.values))}
        counted = count_values(field.values, field.absent, named, field.nested)
        if counted:
            counts[at] = counted
    # Names are no states: a question for "any job" names the field `job`, which has no counts, and may ask for another.
    best = max((fields[at].match for at in counts), default=0.0)
    scores = {at: _score(fields[at], fields[at].match / best if best else 0.0, focus) for at in counts}
    order = sorted((at for at in counts if every or scores[at] > 0), key=lambda at: (-scores[at], at))
    return [(scores[at], at, counts[at]) for at in order]


def named_values(values: Collection[str], focus: Focus) -> set[str]:
    """Return the few of the distinct values that the question names or negates."""
    if len(values) > MOST_COMPARED:
        # Comparing each would take too long. One that the question names is written in it.
        asked = focus.text.lower()
        values = [value for value in values if len(value) > 1 and value.lower() in asked]
    named = {value for value in values if 0 < len(value) <= 40 and (focus.names(value) > 0.5 or focus.rejects(value))}
    return named if len(named) <= MOST_NAMED else set()


def match_of(label: str, focus: Focus) -> float:
    """Return how well the question names a field, also by negating it: "not encrypted"."""
    return max(focus.names(label), float(focus.rejects(label)))


def fields_of_columns(columns: Sequence[Column], lines: int, focus: Focus) -> dict[str, FieldValues]:
    """Return what so many lines say under their labels, by label."""
    return {
        column.label: FieldValues(
            column.label,
            column.values,
            lines - len(column.values),
            match_of(column.label, focus),
            named_values(set(column.values), focus),
        )
        for column in columns
    }


def counts_in_words(fields: Mapping[str, FieldValues], focus: Focus, most: int) -> list[str]:
    """Return what all records have in the fields that matter: `status: ok ×38, failed ×1`."""
    names = list(fields)
    return [f"{names[at]}: {counted.text}" for _, at, counted in telling(list(fields.values()), focus)[:most]]


def _score(field: FieldValues, match: float, focus: Focus) -> float:
    match = match if match >= 0.6 else 0.0
    state = _state(field)
    if focus and not focus.unusual:
        asked = IF_ASKED if asks_for_counts(focus.text) else UNASKED
        measured = 0.8 if focus.superlative and meant_direction(focus.text, field.label) else 0.0
        named = 0.8 if 0 < len(field.named) <= MOST_NAMED else 0.0
        return max(asked * max(match, named), UNASKED * measured, UNASKED * (0.9 * state if state >= 0.7 else 0.0))
    if len(counts_of(field.values)) > MOST_STATES:
        return IF_ASKED * match
    return UNASKED * state * (1 + match)


def _state(field: FieldValues) -> float:
    """Score how much a field looks like the state of its records, 0 to 1: few values, a rare or a bad one among them.

    Such a field says most about all records in few words.
    """
    counts = counts_of(field.values)
    if len(counts) < 2 or len(counts) > min(MOST_STATES, max(2, len(field.values) // 3)):
        return 0.0
    worth = 1.0 if min(counts.values()) <= 0.1 * len(field.values) else 0.6
    if not STATES.isdisjoint(subwords(field.label)) or any(map(_sounds_bad, counts)):
        worth = 1.0
    elif all(number_of(value) is not None for value in counts):
        worth -= 0.35
    else:
        worth -= 0.1
    return max(0.0, worth - 0.02 * len(counts))


@lru_cache(maxsize=4_096)
def _sounds_bad(value: str) -> bool:
    return len(value) <= LONGEST_VALUE and any(SEVERITY.get(part, 0.0) > 0 for part in subwords(value))


def count_values(
    values: Sequence[str], absent: int = 0, first: Collection[str] = (), nested: int = 0
) -> Counted | None:
    """Return the counts of the values, or the range of numbers; None for a field of names or of free text.

    `first` are values that the question names: they are listed before the most frequent ones. `absent` records have no
    such field, and in `nested` ones it is an object or a list.
    """
    total = len(values)
    if total + absent + nested < FEWEST or not values:
        return None
    counts = counts_of(values)
    named = [value for value in first if value in counts]
    if not named and sum(times for _, times in counts.most_common(MOST_LISTED)) < LEAST_COVERED * total:
        numbers = numbers_of(values)
        if numbers is not None:
            return _range(values, numbers, absent, nested)
    if len(counts) > max(2, LARGEST_VARIETY * total) or any(len(value) > LONGEST_VALUE for value in counts):
        return None
    ranked = sorted(counts, key=lambda value: (value not in first, -counts[value], value))
    # All of few values are listed, so that it is known that there are no others.
    listed = ranked[: MOST_LISTED if len(ranked) > MOST_STATES else MOST_STATES]
    parts = [f"{spelled(value)} ×{counts[value]}" for value in listed]
    rest = ranked[len(listed) :]
    if not named and sum(counts[value] for value in rest) > (1 - LEAST_COVERED) * total:
        return None
    if rest:
        parts.append(f"{len(rest)} other values ×{sum(counts[value] for value in rest)}")
    return Counted(_with_others(", ".join(parts), absent, nested), listed[0], frozenset(listed))


def spelled(value: str) -> str:
    """Return a value on one line as it is written; an empty one as `""`."""
    return value.replace("\n", "\\n") if value.strip() else '""'


def _range(values: Sequence[str], numbers: list[float | None], absent: int, nested: int) -> Counted | None:
    """Return `lowest – highest`, with the few numbers far outside of the others counted separately."""
    if len(set(values)) == len(values) and all(value.isdigit() for value in values):
        return None  # Numbers that count or name the records.
    far = far_out(numbers)
    known = [(number, at) for at, number in enumerate(numbers) if number is not None and at not in far]
    others = Counter(values[at] for at, number in enumerate(numbers) if number is None or at in far)
    if not known or len(others) > MOST_BESIDES or any(len(value) > LONGEST_VALUE for value in others):
        return None
    low, high = values[min(known)[1]], values[max(known)[1]]
    ranked = sorted(others, key=lambda value: (-others[value], value))
    parts = [f"{low} – {high}", *(f"{spelled(value)} ×{others[value]}" for value in ranked)]
    return Counted(_with_others(", ".join(parts), absent, nested), low, frozenset(others))


def _with_others(text: str, absent: int, nested: int) -> str:
    others = [f"{what} ×{times}" for what, times in (("nested", nested), ("absent", absent)) if times]
    return ", ".join([text, *others]) if text else text
