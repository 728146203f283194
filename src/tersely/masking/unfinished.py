"""Tells whether a text that still grows ends inside of a secret of several lines.

What is shown while it grows is masked piece by piece. A piece that ends inside of such a
secret has to wait for the rest of it, because the lines of it alone would not be masked.
The wait is bounded: after some lines, or when a line cannot be a part of the value, it is
over.
"""

import re

_MOST_BYTES, _MOST_LINES = 2_048, 24
_NAME = rb"(?i:pass|pwd|pswd|secret|tok|key|cred|auth|psk|phrase)[\w.\-]*"
_OPENING = re.compile(
    rb"""%b["'\])]{0,3}[ \t]*(?:[:?]?=[>=]?|:)[ \t]*(?:[bru]?(?P<quotes>"{3}|'{3})[^"']*"""
    rb"""|[bru@]?(?:(?P<double>")(?:[^"\\]|\\.)*\\?|(?P<single>')[^']*)|(?P<block>[|>][+\-\d]*[ \t]*))\r?$""" % _NAME
)
"""The last thing in a line: a name, and a string or a block that goes on below."""
_HERE_DOCUMENT = re.compile(rb"""%b[^<]*<<-?[ \t]*["'\\]?(?P<end>[A-Za-z_]\w*)""" % _NAME)
_PART = re.compile(rb"""[ \t]*[^"'`{}<>]*\r?""")


def ends_inside_secret(text: bytes) -> bool:
    """Whether a text ends inside of a private key, or of the lines of a string, a block or a here-document with a
    secret's name."""
    begin = text.rfind(b"-----BEGIN ")
    if begin >= 0 and b"PRIVATE KEY" in text[begin : begin + 80] and b"-----END " not in text[begin:]:
        return True
    lines = text[-_MOST_BYTES:].split(b"\n")[-_MOST_LINES:]
    for number in range(len(lines) - 1, -1, -1):
        opened = _OPENING.search(lines[number]) or _HERE_DOCUMENT.search(lines[number])
        if opened is not None:
            return _goes_on(opened, lines[number], [line for line in lines[number + 1 :] if line.strip()])
    return False


def _goes_on(opened: re.Match[bytes], line: bytes, below: list[bytes]) -> bool:
    parts = opened.groupdict()
    if (end := parts.get("end")) is not None:
        return all(one.strip() != end for one in below)
    if quotes := parts["quotes"]:
        return not any(quotes in one for one in below)
    if parts["block"]:
        return all(_indent(one) > _indent(line) for one in below)
    return all(_PART.fullmatch(one) and b": " not in one for one in below)


def _indent(line: bytes) -> int:
    return len(line) - len(line.lstrip(b" \t"))
