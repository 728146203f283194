"""Which lines are the same but for their numbers and identifiers, and what those values do.

`VALUE` matches every word with a digit in it; lines whose texts without these values
are equal share a template. One substitution over the whole text and a dictionary are
all it takes, so ten megabytes cost about half a second. Only numbers and identifiers
are ever passed over: lines that differ in a word stay apart.

Shared by `logs`, `json_logs` and `fold`; decides nothing about what is shown.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

VALUE = re.compile(r"\b[A-Za-z_]{0,12}\d\w*(?:[.:-]++(?:[A-Za-z_]{0,12}\d\w*|[a-f]{4}\b))*")
"""A number, a time, an address, an identifier: a word with a digit in it and what hangs on to it by `.`, `:` or `-`."""

MOST_TEMPLATES = 20_000
"""Beyond this many, new templates are gathered by their first words, so that a text without repetition stays cheap."""

_COARSE_LENGTH = 16
_QUANTITY = re.compile(r"(-?\d{1,15}(?:\.\d{1,9})?)([A-Za-zµ%]{0,5})")


def gather(keys: Sequence[str]) -> dict[str, list[int]]:
    """Template → where its lines are, in order; blank lines are passed over."""
    found: dict[str, list[int]] = {}
    for at, key in enumerate(keys):
        members = found.get(key)
        if members is not None:
            members.append(at)
        elif len(found) < MOST_TEMPLATES:
            found[key] = [at]
        else:
            coarse = key[:_COARSE_LENGTH] if len(found) < 2 * MOST_TEMPLATES else ""
            found.setdefault("\0" + coarse, []).append(at)
    for blank in [key for key in found if not key or key.isspace()]:
        del found[blank]
    return found


def is_coarse(key: str) -> bool:
    """Whether lines of different templates were gathered under this key."""
    return key.startswith("\0")


@dataclass(slots=True)
class Column:
    """One place in a template where values stand, over all its lines."""

    values: Sequence[str]
    distinct: int

    def rare(self, most: int = 3) -> list[tuple[str, int]]:
        """Values that stand out because the column otherwise has few different ones: value and where it first stands."""
        total = len(self.values)
        if total < 8 or not 1 < self.distinct <= max(4, min(24, total // 6)):
            return []
        counts = Counter(self.values)
        limit = max(1, total // 50)
        odd = [value for value, count in counts.items() if count <= limit]
        return [(value, self.values.index(value)) for value in odd[:most]]

    def numbers(self) -> tuple[list[float], str] | None:
        """The values as numbers of one unit; None where they are names, times, addresses or a running count."""
        first = _QUANTITY.fullmatch(self.values[0])
        if first is None or self.distinct < 2:
            return None
        unit = first[2]
        numbers: list[float] = []
        for value in self.values:
            match = _QUANTITY.fullmatch(value)
            if match is None or match[2] != unit:
                return None
            numbers.append(float(match[1]))
        if not unit and _is_identity(self.values, numbers, self.distinct):
            return None
        return numbers, unit


def _is_identity(values: Sequence[str], numbers: Sequence[float], distinct: int) -> bool:
    """Whether numbers name things rather than measure them: long and all different, zero-padded, or counting up."""
    if any("." in value for value in values[:50]):
        return False
    total = len(values)
    if any(len(value) > 1 and value[0] == "0" for value in values[:50]):
        return True
    if distinct > 0.95 * total and (min(numbers) >= 10_000 or total < 4):
        return True
    if min(numbers) >= 1_000_000:
        return True
    steps = sum(1 for before, after in pairwise(numbers) if after - before == 1)
    return steps >= 0.9 * (total - 1) and total > 3


def columns_of(lines: Sequence[str], skip: int = 0) -> list[Column]:
    """The values of lines of one template, by place; the first `skip` places (times and the like) are left out."""
    rows = [VALUE.findall(line)[skip:] for line in lines]
    width = min(map(len, rows), default=0)
    columns = []
    for place in range(width):
        values = [row[place] for row in rows]
        columns.append(Column(values, len(set(values))))
    return columns
