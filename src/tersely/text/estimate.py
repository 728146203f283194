"""An estimate of how many tokens a text has, without a vocabulary.

For sums that nobody is billed by: the vocabulary takes 50 MB of memory and a third of a
second to load. Within a twentieth on average on prose and code, up to a third too low for tables and hexadecimal
numbers. Whatever is decided by a count uses `text.tokens`.
"""

import re

_WORD = re.compile(r"[A-Za-z]+")
_NUMBER = re.compile(r"[0-9]+")
_SIGNS = re.compile(r"[^\sA-Za-z0-9\x80-\U0010ffff]+")
_BLANKS = re.compile(r"\n\s*|[ \t]{2,}")
_OTHER = re.compile(r"[\x80-\U0010ffff]+")


def estimated_tokens(text: str) -> int:
    """About as many tokens (o200k_base) as the text has; at least one if it has any characters."""
    words = _WORD.findall(text)
    pieces = (
        1.05 * len(words)
        + 0.5 * sum((len(word) - 1) // 8 for word in words)
        + sum((len(number) + 2) // 3 for number in _NUMBER.findall(text))
        + sum((len(signs) + 3) // 4 for signs in _SIGNS.findall(text))
        + 0.7 * len(_BLANKS.findall(text))
        + 0.35 * sum(len(other.encode("utf-8", "replace")) for other in _OTHER.findall(text))
    )
    return max(round(pieces), 1) if text else 0
