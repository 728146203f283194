"""How much a value looks like a secret by itself, whatever stands around it.

`masking.evidence` weighs this against what a text says about the value: the less it says,
the more the value has to look like a secret.
"""

import re
from enum import IntEnum

from tersely.masking.patterns import (
    DIGITS,
    IDENTIFYING_FORM,
    LETTERS,
    UUID_FORM,
    compiled,
    is_code,
    is_coined,
    is_odd,
    is_placeholder,
    is_random,
    remembered,
)


class Look(IntEnum):
    NOTHING = 0  # A word, a number, a path, a date, an address, a reference: it is known for something else.
    POSSIBLE = 1  # Words with a digit, or several words: a name, or a secret that somebody chose.
    COINED = 2  # Words as people change them into passwords: with a sign and a number, or with digits for letters.
    EVIDENT = 3  # Letters of both cases and digits without any sense.


SIGNS = b"!#$%^*?~+"
_EXTENSIONS = (
    "so|conf|cfg|ini|log|md|rs|rb|php|sh|exe|dll|xml|html?|css|csv|tsv|sql|gz|zip|tgz|tar|deb|rpm|jar|war|c|h|cc|cpp|hpp|kt"
    "|swift|lua|pl|tf|toml|lock|bak|tmp|out|db|sqlite|png|jpe?g|svg|gif|ko|a|o|service|socket|target|timer|mount|cs|vb"
    "|proto|dist|env|map|min|example|dev|app|de|fr|eu|uk|us|info|cloud"
)
_EXPLAINED = compiled(
    "|".join((
        UUID_FORM, IDENTIFYING_FORM,
        # Paths, files and hosts, options, addresses.
        r"[./~]*(?:[\w.\-]{0,15}/)+[\w.\-]{0,24}", r"(?:[\w.\-=]{1,64}/)+[\w.\-=]{1,80}\.[a-z0-9]{1,6}",
        r"[./~]*/\w.*/.*", rf"[\w.\-]*\.(?:{_EXTENSIONS})(?::\d+){{0,2}}",
        r"--?[A-Za-z][\w\-]*", r"\w+://.*", r"[\w.\-+]+@[\w.\-]+", r"[a-z0-9]+(?:\.[a-z0-9]+)*\.[a-z]{2,12}:\d{2,5}",
        r"(?:keyid:)?(?:[0-9A-Fa-f]{2}[:\-]){2,}[0-9A-Fa-f]{1,2}(?::\d+)?", r".*%[0-9A-Fa-f]{2}.*",
        # Durations, times, versions, short hexadecimal numbers.
        r"\d+(?:\.\d+)?[A-Za-z%]{1,5}", r"\d[\d.,:\-/_TZ+]*[a-z]{0,3}", r"(?:0x)?[0-9a-fA-F]{6,8}",
        r"0x(?:7f|5[56]|ffff[0-9a-f]{2})[0-9a-f]{10}",
        r"(?:\d+:)?\d[\w.]*[+~][\w.\-+~]*", r"(?:\d+:)?\d+(?:\.\d+)+[\w.\-+~]*",
        # Names with a number or a generated ending, constants, issues, mentions, errors, and what is too short.
        r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*-[a-z0-9]{8,10}-[a-z0-9]{5}", r"(?:[a-z]{2,}-)+[a-z0-9]{5}",
        r"[a-z]+(?:[_\-][a-z]+)*[_\-](?:v?\d{1,2}|\d{4})", r"[A-Za-z]{1,4}\d{1,4}", r"[A-Za-z]+#\d+", r"[#@]\w+",
        r"~[A-Za-z_]\w*(?:\.\w+)+", r"%[a-z_]+", r"x5t#S256",
        r"(?i:base(?:16|32|58|64|85)|utf-?(?:8|16|32))(?:-[a-z]+)+",
        r"[A-Z][A-Z0-9]*(?:[_\-][A-Z0-9]+)+", r"(?:[A-Z][a-z]+)+(?:Error|Exception|Test|Warning)\w*", r"\W*\w{0,5}\W*",
    ))
)  # fmt: skip
"""What is known for something else."""
_WORD_CHAIN = compiled(
    r"[a-z]{4,9}(?:-[a-z]{4,9}){2,5}\d{0,3}|[a-z]{4,9}(?:_[a-z]{4,9}){2,5}\d{0,3}"
    r"|[a-z]{4,9}(?:\.[a-z]{4,9}){2,5}\d{1,3}|(?:[A-Z][a-z]{3,8}){3,5}\d{1,3}"
)
"""Words that somebody has drawn from a list."""
_NUMBERED = compiled(r"[a-z]+\d[a-z]+|[A-Za-z]+[\-_.]\d+|[a-z]+[\-_.][A-Z][a-z]+\d?")
_HEX = compiled(r"[0-9a-fA-F]+")
_PIECE = re.compile(rb"[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^A-Za-z0-9]+")
"""Letters of one case, or digits: in what people write they are long."""
_RARE_SIGNS = compiled(r"[!#^~].*[!#^~]")
_PLAIN = compiled(r"[A-Za-z]{5}")
_RUN = compiled(r"[A-Za-z]{8,}")


@remembered
def look(value: bytes) -> Look:
    """How much a word of a text looks like a secret. Of a long one, the beginning is enough."""
    if len(value) < 6 or b"<<" in value or is_placeholder(value):
        return Look.NOTHING
    if _WORD_CHAIN.is_all_of(value):
        return Look.POSSIBLE
    if _EXPLAINED.is_all_of(value) or is_code(value):
        return Look.NOTHING
    digits = len(value) - len(value.translate(None, DIGITS))
    letters = len(value) - len(value.translate(None, LETTERS))
    if letters < 2 or len(value.decode("utf-8", "ignore")) < 0.8 * len(value):
        return Look.NOTHING  # A sentence of a language without blanks.
    if _HEX.is_all_of(value):
        return Look.POSSIBLE if len(value) >= 12 else Look.NOTHING
    is_both_cases = value.lower() != value != value.upper()
    signs = len(value) - len(value.translate(None, SIGNS))
    if digits and is_both_cases and is_random(value):
        return Look.EVIDENT
    if digits and signs and letters > 2 and len(value) >= 8:
        return Look.EVIDENT if is_both_cases and (digits > 1 or signs > 1) else Look.COINED
    if digits > 1 and is_both_cases and len(_PIECE.findall(value[:64])) > 0.6 * min(len(value), 64):
        return Look.COINED
    if is_both_cases and len(value) >= 10 and _RARE_SIGNS.search(value) and not _PLAIN.search(value):
        return Look.COINED
    if is_coined(value) and not _NUMBERED.is_all_of(value):
        return Look.COINED
    if len(value) >= (12 if is_both_cases or digits else 16) and _is_senseless(value):
        return Look.COINED
    return Look.POSSIBLE if digits or signs or _is_senseless(value) else Look.NOTHING


def is_long_hex(value: bytes) -> bool:
    return len(value) >= 32 and _HEX.is_all_of(value)


def _is_senseless(value: bytes) -> bool:
    return any(is_odd(value[start:end]) for ((start, end),) in _RUN.every(value[:64]))
