"""Which lines are the same but for their numbers and identifiers, and which are alike but for their names.

`VALUE` matches every word with a digit in it; lines whose texts without these values
are equal share a template. One substitution over the whole text and a dictionary are
all it takes, so ten megabytes cost about half a second. Only numbers and identifiers
are passed over: lines that differ in a word have different templates.

Templates that are alike in most places belong to a family ("session # started for Uma
Falk", "… for Ivo Rahman"): a family says how unusual a line is, it hides none.

Shared by `logs`, `json_logs` and `fold`; decides nothing about what is shown.
"""

import re
from collections import Counter
from collections.abc import Sequence

VALUE = re.compile(r"\b[A-Za-z_]{0,24}\d\w*(?:[.:-]++(?:[A-Za-z_]{0,24}\d\w*|[a-f]{4}\b))*")
"""A number, a time, an address, an identifier: a word with a digit in it and what hangs on to it by `.`, `:` or `-`."""

MOST_TEMPLATES = 10_000
"""Beyond this many, new templates are gathered by their first letters, so that a text without repetition stays cheap.
"""

_COARSE_LENGTH = 16
_MOST_PLACES = 40
_SHARE_IN_COMMON = 0.4
_ENOUGH = (3, 8, 25, 100)
"""One in so many templates of a length must have a word for it to be part of a pattern."""


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


def families(templates: Sequence[Sequence[str]]) -> list[tuple[int, tuple[str, ...]] | None]:
    """For each template, given by its words, the pattern of its family; None for one that is like no other.

    A word is part of the pattern when enough templates of the same length have it in the same place; elsewhere names
    stand. How many are enough is tried from many to few, so that a template joins the largest family it fits into.
    """
    counts: Counter[tuple[int, int, str]] = Counter()
    of_length: Counter[int] = Counter()
    for words in templates:
        length = len(words)
        of_length[length] += 1
        for place, word in enumerate(words[:_MOST_PLACES]):
            counts[length, place, word] += 1
    found: list[tuple[int, tuple[str, ...]] | None] = []
    for words in templates:
        length = len(words)
        seen = [counts[length, place, word] for place, word in enumerate(words[:_MOST_PLACES])]
        said = ["#" not in word for word in words[:_MOST_PLACES]]
        needed = max(2.0, _SHARE_IN_COMMON * sum(said))
        pattern = None
        for share in _ENOUGH:
            enough = max(3, of_length[length] // share)
            if sum(1 for count, spoken in zip(seen, said, strict=True) if spoken and count >= enough) >= needed:
                pattern = (
                    length,
                    tuple(word if count >= enough else "*" for word, count in zip(words, seen, strict=False)),
                )
                break
            if enough == 3:
                break
        found.append(pattern)
    return found
