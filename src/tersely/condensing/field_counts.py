"""What all records say in one field: exact counts of its values, or the range of its numbers.

    count_values(["512Mi"] * 38 + ["96Mi"])           512Mi ×38, 96Mi ×1
    count_values(["0.3", "19", "7.2", …, "8412"])     0.3 – 19, 8412 ×1

With it a model can conclude "only this one" or "none" although most records are not
shown. Every count is exact and covers all records: values that are not listed are
counted together, records without the field are counted as absent. Fields of names or
free text have no counts, because nothing in them repeats.

Knows nothing of units, trees and tables; `tree` and `tables` decide which fields matter.
"""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tersely.condensing.records import far_out, numbers_of

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


_COUNTING = re.compile(
    r"\b(?:how (?:many|often|much)|number of|counts?|only|others?|any|none|no|not|all|every|each|most"
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


def count_values(values: Sequence[str], absent: int = 0, first: Collection[str] = ()) -> Counted | None:
    """Return the counts of the values, or the range of numbers; None for a field of names or of free text.

    `first` are values that the question names: they are listed before the most frequent ones.
    """
    total = len(values)
    if total + absent < FEWEST or not values:
        return None
    counts = Counter(values)
    if sum(times for _, times in counts.most_common(MOST_LISTED)) < LEAST_COVERED * total:
        numbers = numbers_of(values)
        if numbers is not None:
            return _range(values, numbers, absent)
    if len(counts) > max(2, LARGEST_VARIETY * total) or any(len(value) > LONGEST_VALUE for value in counts):
        return None
    ranked = sorted(counts, key=lambda value: (value not in first, -counts[value], value))
    listed = ranked[: MOST_LISTED if len(ranked) > MOST_LISTED + 1 else MOST_LISTED + 1]
    parts = [f"{spelled(value)} ×{counts[value]}" for value in listed]
    rest = ranked[len(listed) :]
    if sum(counts[value] for value in rest) > (1 - LEAST_COVERED) * total:
        return None
    if rest:
        parts.append(f"{len(rest)} other values ×{sum(counts[value] for value in rest)}")
    return Counted(_with_absent(", ".join(parts), absent), listed[0], frozenset(listed))


def spelled(value: str) -> str:
    """Return a value on one line as it is written; an empty one as `""`."""
    return value.replace("\n", "\\n") if value.strip() else '""'


def _range(values: Sequence[str], numbers: list[float | None], absent: int) -> Counted | None:
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
    return Counted(_with_absent(", ".join(parts), absent), low, frozenset(others))


def _with_absent(text: str, absent: int) -> str:
    return f"{text}, absent ×{absent}" if text and absent else text
