"""Ordinary records: one or two are shown as examples, and counts of their values speak for the others.

An ordinary record is one of many alike in which nothing stands out: no value scores more than
half of the values of its field, but for a margin. The records that stand out most are shown whole.
What is left of the budget beside them and what answers the question goes, in this order, to

1. counts of the fields that matter, and one example;
2. counts of further fields, and another example;
3. names of further ordinary records, which no count states;
4. their other values.

Each step is lost text that nothing shown before it represents. Knows nothing of trees, tables and
units; their readers ask it what a value, a row or a count is worth.
"""

from collections.abc import Hashable, Sequence

EXAMPLES = 2
"""Ordinary records that are shown whole."""
PATTERN = 0.45
"""Score of the values of the first example, and of what all records share."""
FURTHER = 0.3
"""Score of the counts of a field that does not matter to the question."""
NAMED = 0.1
"""Score of the name of an ordinary record that is no example."""
REST = 0.001
"""Score of its other values."""
MARGIN = 0.3
"""A value that scores at most so much more than half of the values of its field is an ordinary one."""
USUAL_SHARE = 0.8
"""Share of the records from which on a value is the usual one, which a count of it represents."""
COMMON_SHARE = 0.25
"""Share of the records from which on a value is common. Its count says more than each record that has it."""


def limit_of(scores: Sequence[float]) -> float:
    """Return the score up to which a value or a record among these is ordinary."""
    return sorted(scores)[len(scores) // 2] + MARGIN


def worth_of(score: float, place: int, *, name: bool = False) -> float:
    """Return what a value of an ordinary record is worth, given its place among the ordinary ones from 0 on."""
    if place < EXAMPLES:
        return min(score, PATTERN) / (1 + place)
    # What the question is nearer to still comes first.
    return (NAMED if name else REST) * (0.5 + 0.5 * max(0.0, score) / (1 + max(0.0, score)))


def worth_of_count(score: float, place: int) -> float:
    """Return what the count of a field is worth, given its own score and its place among those without one."""
    return score if score > 0 else FURTHER / (1 + 0.05 * place)


class Examples:
    """The first records with a common value, which show it; a count speaks for the later ones."""

    def __init__(self) -> None:
        self._seen: dict[Hashable, int] = {}

    def takes(self, value: Hashable) -> bool:
        """Whether a further record with this value is an example of it."""
        self._seen[value] = self._seen.get(value, 0) + 1
        return self._seen[value] <= EXAMPLES
