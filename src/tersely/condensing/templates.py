"""Grouping of lines that are equal except for numbers and identifiers, and of templates equal except for names.

`VALUE` matches every word that contains a digit; lines that are equal without these values
share a template. This takes one substitution over the whole text and a dictionary, about
half a second for ten megabytes. Only numbers and identifiers are ignored: lines that
differ in a word have different templates.

Templates that are alike in most places belong to a family ("session # started for Uma
Falk", "… for Ivo Rahman"): a family measures how unusual a line is, it hides none.

Shared by `logs`, `json_logs` and `fold`; does not decide what is shown.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence

from tersely.text.digits import with_equal_digits

VALUE = re.compile(r"\b[A-Za-z_]{0,24}\d\w*(?:[.:-]++(?:[A-Za-z_]{0,24}\d\w*|[a-f]{4}\b))*")
"""A number, time, address or identifier: a word with a digit, and further parts joined by `.`, `:` or `-`."""

_FURTHER_PARTS = r"(?:[.:-]++(?:[A-Za-z_]{0,2}\d\w*|[0-9a-f]{4}\b|[0-9a-f]{12}\b))*"
_HEXADECIMAL = (
    r"(?=[a-f]{3,}+\d)(?:[0-9a-f]{8}(?:[0-9a-f]{4}(?:[0-9a-f]{4})?)?\b|[0-9a-f]{0,8}\d[0-9a-f]{4,}\b"
    r"|(?![bcdf]?(?:[ae]{1,2}[bcdf]{1,2})*+[ae]{0,2}\d+\b)[0-9a-f]{7,}\b)"
)
"""An identifier that begins with letters: of 8, 12 or 16 characters, or no word that one can say before a number
(`facade1`).
"""

SAME_BUT_VALUES = re.compile(rf"\d\w*{_FURTHER_PARTS}|\b(?:[A-Za-z_]{{1,2}}\d\w*|{_HEXADECIMAL}){_FURTHER_PARTS}")
"""A value whose change leaves a line the same message: a number, time, address, hexadecimal identifier.

Of a name with a number (`libudev1`, `worker-7`) only the number is a value: `libudev1` and `libsystemd0` differ.
"""

_FROM_A_DIGIT_ON = re.compile(r"\d(?<!\w\d)\w*(?:[.:-]\d\w*)*")
"""Values that begin with a digit, which are most of them; found five times as fast as all."""

_SAME_BUT_VALUES_ASCII = re.compile(SAME_BUT_VALUES.pattern, re.ASCII)
_FROM_A_DIGIT_ON_ASCII = re.compile(_FROM_A_DIGIT_ON.pattern, re.ASCII)
"""Find the same in ASCII, in two thirds of the time: letters and digits are not looked up."""

MOST_TEMPLATES = 10_000
"""Beyond this many, new templates are grouped by their first letters, so that a text without repetition stays cheap."""

_COARSE_LENGTH = 16
_MOST_PLACES = 40
_SHARE_IN_COMMON = 0.4
_ENOUGH = (3, 8, 25, 100)
"""Thresholds: one in so many templates of a length must contain a word for it to be part of a pattern."""
_LEAST_IN_COMMON = 3


def masked_lines(text: str) -> list[str]:
    """Return the lines of a text with their values masked, as `SAME_BUT_VALUES.sub("#", line)` would mask them.

    Of lines that are equal but for their digits, which mask alike, one is searched. Values that begin with a digit are
    masked first: what they are replaced by is such a value too, so the result stays the same, and of lines that are
    equal by now only one has to be searched for the others.
    """
    lines = with_equal_digits(text).split("\n")
    forms = dict.fromkeys(lines)
    masked: dict[str, str] = {}
    for plain in (True, False):
        alike = [line for line in forms if line.isascii() is plain]
        if alike:
            pattern = _FROM_A_DIGIT_ON_ASCII if plain else _FROM_A_DIGIT_ON
            numbered = pattern.sub("0", "\n".join(alike)).split("\n")
            different = list(dict.fromkeys(numbered))
            found = dict(zip(different, without_values("\n".join(different)).split("\n"), strict=True))
            masked.update(zip(alike, map(found.__getitem__, numbered), strict=True))
    return list(map(masked.__getitem__, lines))


def without_values(text: str) -> str:
    """Return a text with its values masked."""
    return (_SAME_BUT_VALUES_ASCII if text.isascii() else SAME_BUT_VALUES).sub("#", text)


def gather(keys: Sequence[str]) -> dict[str, list[int]]:
    """Return template → indices of its lines, in order; blank lines are skipped."""
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
    """Whether this key groups lines of different templates."""
    return key.startswith("\0")


def families(templates: Sequence[Sequence[str]]) -> list[tuple[int, tuple[str, ...]] | None]:
    """Return for each template, given by its words, the pattern of its family; None for one without a family.

    A word is part of the pattern if enough templates of the same length have it in the same place; other places contain
    names. The threshold is lowered step by step, so that a template joins the largest family that it fits.
    """
    of_length: dict[int, list[Sequence[str]]] = {}
    for words in templates:
        of_length.setdefault(len(words), []).append(words[:_MOST_PLACES])
    # Below 0 for a word with a value: it may be part of the pattern, but makes none.
    counts = {
        length: [
            {word: -times if "#" in word else times for word, times in Counter(column).items()}
            for column in zip(*rows, strict=True)
        ]
        for length, rows in of_length.items()
    }
    found: list[tuple[int, tuple[str, ...]] | None] = []
    for words in templates:
        length = len(words)
        seen = [count[word] for count, word in zip(counts[length], words, strict=False)]
        of_words = sorted([times for times in seen if times > 0])
        needed = max(2, math.ceil(_SHARE_IN_COMMON * len(of_words)))
        in_common = of_words[-needed] if needed <= len(of_words) else 0
        pattern = None
        for share in _ENOUGH if in_common >= _LEAST_IN_COMMON else ():
            enough = max(_LEAST_IN_COMMON, len(of_length[length]) // share)
            if in_common >= enough:
                pattern = (
                    length,
                    tuple([word if abs(times) >= enough else "*" for word, times in zip(words, seen, strict=False)]),
                )
                break
            if enough == _LEAST_IN_COMMON:
                break
        found.append(pattern)
    return found
