"""Where the secrets in a text lie.

`find_secrets` collects spans over the original bytes; nothing is changed here.
It looks the way a reader would: at names with a value behind them, at tokens
that give themselves away, at URLs, headers and command lines, at structures,
and then again at whatever can be decoded. What any of these look like is said
in `tools.secret_patterns`.

The cost is a handful of linear passes by re2. Python only sees places where a
name is followed by a separator, a known prefix stands at the start of a word,
or a run could be decoded, and looks at no more than a few hundred bytes before
it decides: a hostile text cannot make it read the same stretch over and over.
"""

import base64
import binascii
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator

from tersely.errors import MaskingFailed
from tersely.tools import secret_patterns as patterns
from tersely.tools.secret_patterns import (
    Demand,
    Name,
    Pattern,
    Places,
    compiled,
    is_placeholder,
    is_random,
    is_secret,
    is_wordy,
    name_of_secret,
)
from tersely.tools.secret_structures import Span, block_body, walk_json, walk_yaml, yaml_scalar

_LOOK = 512
"""How much of a value is read before deciding whether it is one."""

_DEEPEST = 4
"""Base64 in JSON in base64 …: how often we look inside."""


class Clock:
    """Ends a search that takes too long. Nothing should; what cannot be masked in time is not let through unmasked."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds

    def check(self) -> None:
        if time.monotonic() > self._end:
            raise MaskingFailed(f"Masking took longer than {self._seconds:g} s; the text was dropped.")


class View:
    """A decoded reading of a stretch of text that knows where each byte came from."""

    def __init__(self, text: bytes, start: int, end: int, changes: Iterable[tuple[int, int, bytes]]) -> None:
        pieces: list[bytes] = []
        self._view: list[int] = []
        self._source: list[tuple[int, int]] = []
        size, at = 0, start

        def add(piece: bytes, source_start: int, source_end: int) -> None:
            nonlocal size
            if piece:
                pieces.append(piece)
                self._view.append(size)
                self._source.append((source_start, source_end))
                size += len(piece)

        for change_start, change_end, replacement in changes:
            add(text[at:change_start], at, change_start)
            add(replacement, change_start, change_end)
            at = change_end
        add(text[at:end], at, end)
        self.text = b"".join(pieces)

    def source(self, span: Span) -> Span:
        first = bisect_right(self._view, span.start) - 1
        last = bisect_right(self._view, span.end - 1) - 1
        start, end = self._source[first][0], self._source[last][1]
        if self._is_verbatim(first):
            start += span.start - self._view[first]
        if self._is_verbatim(last):
            end = self._source[last][0] + span.end - self._view[last]
        return Span(start, end, span.kind, span.quote)

    def _is_verbatim(self, index: int) -> bool:
        following = self._view[index + 1] if index + 1 < len(self._view) else len(self.text)
        start, end = self._source[index]
        return following - self._view[index] == end - start


Finder = Callable[[bytes, Clock], Iterator[Span]]


def find_secrets(text: bytes, finders: Iterable[Finder], *, decode: bool, clock: Clock, depth: int = 0) -> list[Span]:
    """All spans any finder gives, in no particular order; they may overlap."""
    spans: list[Span] = []
    for finder in finders:
        spans += finder(text, clock)
        clock.check()
    if decode and depth < _DEEPEST:

        def again(inner: bytes) -> list[Span]:
            return find_secrets(inner, finders, decode=True, clock=clock, depth=depth + 1)

        spans += _in_strings(text, again, clock)
        spans += _in_percent(text, again, clock)
        spans += _in_encoded(text, spans, again, clock)
    return spans


# --------------------------------------------------------------------------- names with a value

_QUOTE = r"""(?:\\*["'`]|&quot;|&#34;)"""
_ANCHOR = rf"(?:{'|'.join(patterns.ANCHORS)}|(?:\b|_)(?:{'|'.join(patterns.SHORT_ANCHORS)})\b)"
_GAP = r"(?:[ \t]|\\+t)*"
_ASSIGNED = compiled(
    rf"{_ANCHOR}[\w.\-]*({_QUOTE}?)"
    rf"(?:[\])]{{0,2}}{_GAP}(?:(?:string|str|\[\]byte)[ \t]+)?(?:[:?.+]{{0,3}}=[=>]?|:|>)|{_GAP},[ \t]*\[?|[ \t]+value[ \t]*=|[ \t]*\|)",
    ignore_case=True,
)
_VALUE_START = compiled(rf"""(?:[ \t]|\\+t)*(\r?\n[ \t]*)?(?:[&!][\w!:.\-]+[ \t]+)*(\[[ \t\n\r]*)?(?:(?i:rb|br|[bruf@])?({_QUOTE}))?""")
_PLAIN_START = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789<${*"
_RUN = compiled(r"""[^\s"'`,;&<>(){}\[\]|\\]+""")
_LIST_STARTS = (b"[", b"\r", b"\n")
_LIST = compiled(r"""[ \t]*(?:(\[[ \t\r\n]*)|\r?\n(?:[ \t]*#[^\n]*\n)*)""")
_ITEM = r"""(?:"((?:[^"\\\n]|\\.)*)"|'((?:[^'\\\n]|\\.)*)'|([^\s,\[\]{}"'&*!|>#][^,\[\]{}\n]*))"""
_FLOW_ITEM = compiled(rf"([ \t\r\n]*){_ITEM}[ \t\r\n]*,?")
_BLOCK_ITEM = compiled(rf"([ \t]*)-[ \t]+{_ITEM}[ \t\r]*(?:#[^\n]*)?(?:\n|$)")
_NEXT_WORD = compiled(r"""[ \t]+([^\s"'`,;&<>(){}\[\]|\\=]+)""")
_LINE_LEAD = compiled(r"""[ \t]*(?:[-#>+]+[ \t]*)?(?:export[ \t]+|set[ \t]+|env[ \t]+|declare[ \t]+-x[ \t]+|\$env:)?["']?""")
_NEXT_PAIR = compiled(r"[;&,][ \t]*[\w.\-]+[=:]")
_SCHEME = compiled(
    r"(?:bearer:?|basic|token|api-?key|api-?token|negotiate|hmac|sso-key|key|oauth|bot|splunk|jwt|geniekey|flyv1|discogs|ssws)[ \t]+",
    ignore_case=True,
)
_BLOCK_SCALAR = compiled(r"[|>][+\-\d]*[ \t]*(?:#[^\n]*)?\r?\n")
_TYPE = compiled(r"(?:string|str|String|char\*?|&str|Secret|Optional\[str\]|bytes)[ \t]*(?:\|[ \t]*None[ \t]*)?=[ \t]*")
_MNEMONIC = compiled(r"(?:[a-z]{3,8}[ ,]+){11,23}[a-z]{3,8}")
_NO_VALUES = frozenset((b"true", b"fals", b"null", b"None", b"True", b"Fals"))
_NO_VALUE = compiled(r"(?:true|false|null|None|True|False)(?:[\s,;}\])]|$)")
_TYPE_STARTS = frozenset((b"str", b"Str", b"cha", b"&st", b"Sec", b"Opt", b"byt"))
_INNER_VALUE = compiled(rf"\{{\s*{_QUOTE}(?:value|plain|plaintext|literal|secret|S|\$value){_QUOTE}\s*:\s*({_QUOTE})")
_UNIT = compiled(r"[ \t]+(?:bytes|chars|characters|bits|tokens|days|seconds|attempts|failed|passed)\b")
_IDENTIFIER = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-."
_NUMBER = b"0123456789.-+eE"


def assignments(text: bytes, clock: Clock) -> Iterator[Span]:
    """`password = …`, `"api_key": "…"`, `<token>…</token>`, `setProperty("SECRET", "…")`, headers, query parameters."""
    at = seen = listed = 0
    line_end = -1
    while places := _ASSIGNED.search(text, at):
        seen += 1
        if seen % 256 == 0:
            clock.check()
        (start, at), (quote_start, quote_end) = places
        start, name_end = _name_start(text, start), quote_start
        name = name_of_secret(text[start:name_end])
        if name is None:
            continue
        before = text[start - 1 : start]
        if before == b":" and b"arn:" in text[max(0, start - 100) : start].rsplit(None, 1)[-1]:
            continue
        if before == b"/" and name.demand is not Demand.RANDOM:
            name = Name(name.kind, Demand.RANDOM, name.in_query_only)  # The last part of a path or of an annotation.
        operator = b"=" if text[at - 2 : at] == b"=>" else text[name_end:at].rstrip(b" \t[")[-1:]
        if not _fits(name, operator, before, quoted_name=quote_end > quote_start):
            continue
        if line_end < at:
            line_end = text.find(b"\n", at)
            line_end = len(text) if line_end < 0 else line_end
        if name.kind == "cookie" and operator == b":":
            yield from _cookies(text, at, line_end)
            at = line_end
            continue
        if operator == b":" and start >= listed and text[at : at + 2].strip(b" \t")[:1] in _LIST_STARTS:
            opened = _LIST.match(text, at)
            if opened and (opened[1][0] >= 0 or _BLOCK_ITEM.match(text, opened[0][1])):
                for item in _items(text, opened, name):
                    yield item
                    listed = item.end
                continue
        found = _value(text, at, start, line_end, name, operator, text[quote_start:quote_end])
        if found is not None:
            yield found
            at = found.end


def _items(text: bytes, opened: Places, name: Name) -> Iterator[Span]:
    """The values of a list under a name: `["a", "b"]`, `[a, b]`, or one per line behind a dash."""
    at = opened[0][1]
    is_flow = opened[1][0] >= 0
    item, indent = (_FLOW_ITEM if is_flow else _BLOCK_ITEM), b""
    while places := item.match(text, at):
        lead = text[slice(*places[1])]
        start, end = next((place for place in places[2:] if place[0] >= 0), (0, 0))
        if not is_flow and ((at > opened[0][1] and lead != indent) or b": " in text[start : end + 1] or text[end - 1 : end] == b":"):
            return  # Another list goes on there, or the items are no plain values.
        at, indent = places[0][1], lead
        if name.kind == "authorization" and (scheme := _SCHEME.match(text, start, end)):
            start = scheme[0][1]
        comment = text.find(b" #", start, end)
        end = start + len(text[start : comment if comment >= 0 else end].rstrip())
        value = text[start : min(end, start + _LOOK)]
        if value and b" " not in value and _worth(value, name, quoted=True):
            yield Span(start, end, name.kind, b"" if value.strip(_NUMBER) or places[4][0] < 0 else b'"')


def _name_start(text: bytes, at: int) -> int:
    before = text[max(0, at - 64) : at]
    start = at - len(before) + len(before.rstrip(_IDENTIFIER))
    if start < at and text[start - 1 : start] == b"\\" and text[start] in b"nrtbf":
        start += 1  # The n of an escaped line break is no part of the name.
    return start


def _fits(name: Name, operator: bytes, before: bytes, *, quoted_name: bool) -> bool:
    if name.in_query_only:
        return operator == b"=" and before in (b"?", b"&", b";")
    if operator == b">":
        return before == b"<" or (quoted_name and before in (b'"', b"'"))
    if operator == b",":
        return quoted_name
    return name.kind != "signature" or operator == b"="


def _value(text: bytes, at: int, name_start: int, line_end: int, name: Name, operator: bytes, name_quote: bytes) -> Span | None:
    newline = bracket = False
    quote = b""
    start = at + 1 if text[at : at + 1] == b" " else at
    first = text[start : start + 1]
    if first in (b'"', b"'"):
        quote, start = first, start + 1
    elif not first or first not in _PLAIN_START or text[start + 1 : start + 2] in (b'"', b"'"):
        places = _VALUE_START.match(text, at)
        assert places is not None  # It matches the empty text.
        start = places[0][1]
        newline, bracket, quote = places[1][0] >= 0, places[2][0] >= 0, text[places[3][0] : places[3][1]] if places[3][0] >= 0 else b""
        first = text[start : start + 1]
    if newline:
        if operator != b">" and not (name_quote and quote):
            return None
        line_end = text.find(b"\n", start)
        line_end = len(text) if line_end < 0 else line_end
    if operator == b",":
        return _argument(text, start, line_end, name, quote) if quote and not newline else None
    if operator == b">":
        return _element(text, start, name)
    if operator == b"|":
        return _cell(text, start, line_end, name)
    if quote:
        found = _quoted(text, start, line_end, name, quote)
        is_sentence = (
            bracket
            and found is not None
            and name.kind != "authorization"
            and b" " in text[found.start : min(found.end, found.start + _LOOK)]
        )
        return None if is_sentence else found
    if first in (b"", b"<", b"$") or (bracket and name.kind != "authorization"):
        return None
    if text[start : start + 4] in _NO_VALUES and _NO_VALUE.match(text, start, min(len(text), start + 8)):
        return None
    if first == b"{":
        inner = _INNER_VALUE.match(text, start, min(len(text), start + 80))
        return _quoted(text, inner[0][1], line_end, name, text[inner[1][0] : inner[1][1]]) if inner else None
    if first in (b"|", b">"):
        return _block(text, start, name_start, name)
    if text[start : start + 3] in _TYPE_STARTS and (typed := _TYPE.match(text, start, min(line_end, start + 40))):
        quote = text[typed[0][1] : typed[0][1] + 1]
        return _quoted(text, typed[0][1] + 1, line_end, name, quote) if quote in (b'"', b"'") else None
    found = _unquoted(text, start, name_start, line_end, name, name_quote, operator)
    if found is not None and operator == b":" and b"!" in text[at:start]:
        return Span(found.start, found.end, found.kind, b'"')  # A tag such as !!str wants a scalar.
    return found


def _block(text: bytes, start: int, name_start: int, name: Name) -> Span | None:
    """A YAML block scalar: the lines below that are indented deeper than the name."""
    head = _BLOCK_SCALAR.match(text, start, min(len(text), start + 200))
    if head is None:
        return None
    line_start = text.rfind(b"\n", max(0, name_start - 200), name_start) + 1
    lead = text[line_start:name_start]
    body = block_body(text, head[0][1], len(lead) - len(lead.lstrip(b" \t")), _LOOK)
    if body is None or not _worth(text[body[0] : body[1]], name, quoted=True):
        return None
    if body[1] - body[0] >= _LOOK:
        body = block_body(text, head[0][1], len(lead) - len(lead.lstrip(b" \t"))) or body
    return Span(*body, name.kind)


def _quoted(text: bytes, start: int, line_end: int, name: Name, quote: bytes) -> Span | None:
    if name.kind == "authorization":
        if text[start : start + 7].lower() in (b"digest ", b"aws4-hm"):
            return None  # Fields of their own follow, and only one of them is secret.
        if scheme := _SCHEME.match(text, start, min(line_end, start + 40)):
            start = scheme[0][1]
    end = _closing(text, start, min(line_end, start + _LOOK), quote)
    is_whole = end >= 0
    if not is_whole:
        end = min(line_end, start + _LOOK)
    if quote == b"`" and b" " in text[start:end]:
        return None  # A command in backticks, not a value.
    if not _worth(text[start:end], name, quoted=True):
        return None
    if not is_whole and end < line_end:
        end = _closing(text, start, line_end, quote)
        end = line_end if end < 0 else end
    return Span(start, len(text[start:end].rstrip(b"\r")) + start, name.kind)


def _argument(text: bytes, start: int, line_end: int, name: Name, quote: bytes) -> Span | None:
    """`setenv("API_KEY", "…")`: the value behind the name. In a list of words it is only the next word, so it must look like one."""
    found = _quoted(text, start, line_end, name, quote)
    if found is None or text[found.end + len(quote) : found.end + len(quote) + 8].lstrip().startswith(b":"):
        return None
    value = text[found.start : min(found.end, found.start + _LOOK)]
    has_scheme = found.start > start
    return found if has_scheme or (len(value) >= 8 and not is_wordy(value)) else None


def _closing(text: bytes, start: int, limit: int, quote: bytes) -> int:
    """Where the value that this quote opened ends: the same quote, escaped as often; -1 when there is none."""
    at = start
    while (at := text.find(quote, at, limit)) >= 0:
        if quote == b"'" and at > start and text[at + 1 : at + 2] == b"'":
            at += 2  # YAML and SQL write an apostrophe twice.
            continue
        if quote[:1] == b"&" or text[at - 1] != 0x5C or at == start:
            return at
        backslashes = 0
        while at - 1 - backslashes >= start and text[at - 1 - backslashes] == 0x5C:
            backslashes += 1
        if len(quote) == 1 and backslashes % 2 == 0:
            return at
        at += len(quote)
    return -1


def _element(text: bytes, start: int, name: Name) -> Span | None:
    start += len(text[start : start + 200]) - len(text[start : start + 200].lstrip())
    if text.startswith(b"<value>", start):
        start += 7
    if text.startswith(b"<![CDATA[", start):
        start += 9
    end = text.find(b"<", start, start + _LOOK)
    value = text[start : end if end >= 0 else start + _LOOK].rstrip().removesuffix(b"]]>")
    is_element = text.startswith((b"</", b"<<"), end) if end >= 0 else _mixed(value, said=True)
    return Span(start, start + len(value), name.kind) if value and is_element and _worth(value, name, quoted=True) else None


def _cell(text: bytes, start: int, line_end: int, name: Name) -> Span | None:
    """The cell beside a name in a table. It may be the next heading as well, so it must look like a secret."""
    start += len(text[start:line_end]) - len(text[start:line_end].lstrip(b" \t")) if line_end - start < _LOOK else 0
    run = _RUN.match(text, start, min(line_end, start + _LOOK)) if start < line_end else None
    if run is None:
        return None
    value = text[start : run[0][1]]
    return Span(start, run[0][1], name.kind) if _mixed(value, said=True) and _worth(value, name, quoted=False) else None


def _unquoted(text: bytes, start: int, name_start: int, line_end: int, name: Name, name_quote: bytes, operator: bytes) -> Span | None:
    if name.kind == "authorization":
        if text[start : start + 7].lower() in (b"digest ", b"aws4-hm"):
            return None  # Fields of their own follow, and only one of them is secret.
        if scheme := _SCHEME.match(text, start, min(line_end, start + 40)):
            start = scheme[0][1]
    if name.kind == "mnemonic":
        words = _MNEMONIC.match(text, start, line_end)
        return Span(*words[0], name.kind) if words else None
    limit = min(line_end, start + _LOOK)
    run = _RUN.match(text, start, limit) if start < limit else None
    if run is None:
        return None
    end = run[0][1]
    following = text[end : end + 1]
    value = text[start:end]
    if following in (b"(", b"[") and not value[:1].isdigit() and value.replace(b"_", b"").replace(b".", b"").isalnum():
        return None  # A call or a subscript: code that gets a secret, not the secret.
    if not name_quote and name.kind != "authorization" and end < limit:
        rest = text[start:limit].rstrip()
        word = rest.split(None, 1)[0]
        if len(word) > len(value) and b"\\" not in word and _NEXT_PAIR.search(word) is None:
            line_start = text.rfind(b"\n", max(0, name_start - 80), name_start) + 1
            if _LINE_LEAD.is_all_of(text, line_start, name_start):
                value = word.rstrip(b",;\"'")  # `PASSWORD=a,b(c` at the beginning of a line.
                end = start + len(value)
        if len(word) < len(rest) and operator == b":" and name.demand is not Demand.RANDOM:
            if name.kind != "passphrase" and value.isalpha() and rest[len(value) :].strip(b" \t,;.)"):
                return None  # "Password: must be changed": a sentence.
            scalar = yaml_scalar(text, name_start, start)
            if scalar is None:
                scalar = start + len(rest) if name.kind == "passphrase" else _more_words(text, end, limit)
            end = scalar
            value = text[start:end]
    if value.isdigit() and _UNIT.match(text, end, min(line_end, end + 16)):
        return None
    bare = b""
    if name_quote:
        if value.strip(_NUMBER):
            if following in (b",", b"}", b"]", b""):
                return _sure(value, start, end, name)
        else:
            bare = name_quote
    elif operator == b":":
        value = value.rstrip(b".:")  # The end of a sentence, or `token: name: message`.
        end = start + len(value)
    if not _worth(value, name, quoted=bool(bare)):
        return None
    if end - start >= _LOOK - 1 and end < line_end and (longer := _RUN.match(text, start, line_end)):
        end = longer[0][1]
    return Span(start, end, name.kind, bare)


def _more_words(text: bytes, end: int, limit: int) -> int:
    """Where a secret of several words ends: it goes on as long as the words look like parts of one."""
    while (word := _NEXT_WORD.match(text, end, limit)) and _mixed(text[word[1][0] : word[1][1]], said=True):
        end = word[1][1]
    return end


def _sure(value: bytes, start: int, end: int, name: Name) -> Span | None:
    return Span(start, end, name.kind) if _worth(value, name, quoted=False) else None


def _worth(value: bytes, name: Name, *, quoted: bool) -> bool:
    if b"<<<<<<<<" in value:
        return False  # A mark of ours stands there, made inert: this value has been looked at before.
    return bool(value) and is_secret(value, name.demand, quoted=quoted, kind=name.kind)


_COOKIE = compiled(r"""([^\s=;,"']+)="?([^;,\s"']+)""")
_COOKIE_NAME = Name("cookie", Demand.RANDOM)
_HARMLESS_COOKIES = frozenset((b"expires", b"path", b"domain", b"max-age", b"samesite", b"_ga", b"_gid"))


def _cookies(text: bytes, start: int, end: int) -> Iterator[Span]:
    for _, (name_start, name_end), (value_start, value_end) in _COOKIE.every(text, start, end):
        cookie = text[name_start:name_end].lower()
        if cookie in _HARMLESS_COOKIES:
            continue
        name = name_of_secret(cookie[:128]) or _COOKIE_NAME
        value = text[value_start : min(value_end, value_start + _LOOK)]
        demand = Demand.RANDOM if name.in_query_only else name.demand
        if is_secret(value, demand, quoted=False, kind=name.kind) or (b"%" in value and len(value) > 24):
            yield Span(value_start, value_end, "cookie")


_PROSE = compiled(
    r"\b(?:password|passphrase|passcode|token|secret|(?:api|access|secret|private|license)[ _\-]?key|credentials?)"
    r"(?:[ \t]+(?:for|of|on)[ \t]+[\w.@\-]+(?:[ \t]+\w+)??)?(?:[ \t]+(is|was|to|as|of|value|with|provided|=|->)|:)?"
    r"""[ \t]*(?:is|was|=|:)?[ \t]+["'`(]?([^\s"'`<>(){}\[\],;]{6,})""",
    ignore_case=True,
)


def prose(text: bytes, clock: Clock) -> Iterator[Span]:
    """`use token 8f3a… for staging`, `the password is …`: names that are followed by nothing but a space."""
    at = seen = 0
    while places := _PROSE.search(text, at):
        seen += 1
        if seen % 256 == 0:
            clock.check()
        _, verb, (start, end) = places
        at = verb[1] if verb[0] >= 0 else start
        value = text[start : min(end, start + _LOOK)].rstrip(b".,;:!?")
        said = verb[0] >= 0 and text[verb[0] : verb[1]].lower() in (b"is", b"was", b"to", b"as", b"=", b"->")
        if not _mixed(value, said=said) or is_placeholder(value):
            continue
        at = end = start + len(value) if len(value) < _LOOK - 8 else end
        yield Span(start, end, "secret")


_SPACED = compiled(
    rf"(?m)(?:^[ \t]*(?:[$#>][ \t]+)?(?:set(?:env)?[ \t]+(?:-\w+[ \t]+)?)?([\w.\-]*{_ANCHOR}[\w.\-]*)"
    r"|\bAUTH(?:[ \t]+(?:PLAIN|LOGIN|default))?)[ \t]+(\S{8,})[ \t\r]*$"
)


def spaced(text: bytes, clock: Clock) -> Iterator[Span]:
    """Settings with nothing but a space between name and value, each on a line of its own."""
    for seen, (_, (name_start, name_end), (start, end)) in enumerate(_SPACED.every(text)):
        if seen % 256 == 0:
            clock.check()
        name = name_of_secret(text[name_start : min(name_end, name_start + 128)]) if name_start >= 0 else _COOKIE_NAME
        value = text[start : min(end, start + _LOOK)].rstrip(b";\"'")
        if name is not None and (is_random(value) or _mixed(value, said=True)) and not is_placeholder(value):
            yield Span(start, start + len(text[start:end].rstrip(b";\"'")), "secret")


def _mixed(value: bytes, *, said: bool) -> bool:
    if len(value) < 8:
        return False
    if len(value) >= 16 and is_random(value):
        return True
    digits = sum(48 <= char <= 57 for char in value)
    letters = sum(65 <= (char & 0xDF) <= 90 for char in value)
    symbols = len(value) - digits - letters
    return said and digits > 0 and letters > 2 and (symbols > 0 or value.lower() != value) and not set(value) & set(b"/:")


# --------------------------------------------------------------------------- tokens


_BY_PREFIX: dict[bytes, list[tuple[patterns.Token, Pattern]]] = {}
for _known in patterns.TOKENS:
    _BY_PREFIX.setdefault(_known.prefix.encode(), []).append((_known, compiled(_known.rest)))


def _escaped(literal: str) -> str:
    return "".join(f"\\{char}" if not char.isalnum() and char != "_" else char for char in literal)


_PREFIXES = sorted(_BY_PREFIX, key=len, reverse=True)
_PREFIX = compiled(
    r"(?:\b|\\[nrt])("
    + "|".join(_escaped(prefix.decode()) for prefix in _PREFIXES if prefix[:1].isalnum())
    + ")|("
    + "|".join(_escaped(prefix.decode()) for prefix in _PREFIXES if not prefix[:1].isalnum())
    + ")"
)
_FORM = compiled("|".join(f"({form})" for _, form in patterns.FORMS))
_TOKEN_BYTES = frozenset(_IDENTIFIER.replace(b".", b""))


def tokens(text: bytes, clock: Clock) -> Iterator[Span]:
    """Tokens of known providers and JWTs, told by their form."""
    at = seen = 0
    while places := _PREFIX.search(text, at):
        seen += 1
        if seen % 256 == 0:
            clock.check()
        start, at = places[1] if places[1][0] >= 0 else places[2]
        found = text[start:at]
        for size in range(len(found), 1, -1):
            if (token := _token(text, start, found[:size])) is not None:
                yield token
                at = token.end
                break
    at = 0
    while places := _FORM.search(text, at):
        start, at = places[0]
        if at < len(text) and text[at] in _TOKEN_BYTES:
            continue
        value = text[start:at]
        if patterns.variety(value) >= 9 and any(48 <= char <= 57 for char in value) and not is_placeholder(value):
            index = next(index for index, place in enumerate(places[1:]) if place[0] >= 0)
            yield Span(start, at, patterns.FORMS[index][0])


def _token(text: bytes, start: int, prefix: bytes) -> Span | None:
    for token, rest in _BY_PREFIX.get(prefix, ()):
        body_start = start + len(prefix)
        places = rest.match(text, body_start)
        if places is None:
            continue
        end = places[0][1]
        if token.exact and end < len(text) and text[end] in _TOKEN_BYTES:
            continue
        if token.check:
            body = text[body_start : min(end, body_start + _LOOK)]
            if patterns.variety(body) < 5 or is_wordy(body) or is_placeholder(body) or is_placeholder(prefix + body[:60]):
                continue
        return Span(start, end, token.kind)
    return None


# --------------------------------------------------------------------------- URLs, headers, command lines, keys

_URL = compiled(
    r"""(?:jdbc:oracle:\w+:[^\s/@:]{1,64}/()|://([^\s/:@"'<>\\,]*):)((?:[^\s/@"'<>\\]+@)+|\d{0,5}[^\d\s/@:"'<>\\][^\s@"'<>\\]*@)""",
)
_URL_USER = compiled(r"""://([^\s/:@"'<>\\,?]{20,})(?::(?:x-oauth-basic)?)?@""")
_HEX_USER = compiled(r"[0-9a-f]{8,}")


def urls(text: bytes, clock: Clock) -> Iterator[Span]:
    """`scheme://user:password@host`, and tokens in the place of the user."""
    for seen, (_, _, user, (start, end)) in enumerate(_URL.every(text)):
        if seen % 256 == 0:
            clock.check()
        end -= 1
        password = text[start : min(end, start + _LOOK)]
        if len(password) < 3 or is_placeholder(password):
            continue
        yield Span(start, end, "url_password")
        if user[1] - user[0] >= 8 and _HEX_USER.is_all_of(text, *user):
            yield Span(*user, "url_user")  # Hex for a name is the other half of a key pair.
    for _, (start, end) in _URL_USER.every(text):
        if is_random(text[start : min(end, start + _LOOK)]):
            yield Span(start, end, "url_user")


_SCHEMES = compiled(
    r"""\b(?:bearer(?:[ \t]+|["']?[ \t]*[:=,][ \t]*["']?)([\w.~+/\-]{16,}=*)|basic[ \t]+([A-Za-z0-9+/]{8,}={0,2})"""
    r"""|digest[ \t][^\n]{0,400}\bresponse="?([0-9a-f]{32,}))""",
    ignore_case=True,
)


def headers(text: bytes, clock: Clock) -> Iterator[Span]:
    """`Bearer …` and `Basic …` wherever they stand; whole header lines are `assignments`."""
    for seen, (_, bearer, basic, digest) in enumerate(_SCHEMES.every(text)):
        if seen % 256 == 0:
            clock.check()
        if bearer[0] >= 0:
            value = text[bearer[0] : min(bearer[1], bearer[0] + _LOOK)]
            if not is_placeholder(value) and not is_wordy(value) and (is_random(value) or len(value) > 30):
                yield Span(*bearer, "bearer_token")
        elif digest[0] >= 0:
            yield Span(*digest, "digest_response")
        else:
            decoded = _base64(text[basic[0] : min(basic[1], basic[0] + _LOOK)])
            if decoded and b":" in decoded and _is_text(decoded):
                yield Span(*basic, "basic_auth")


_FLAG = compiled(
    r"""(?:^|[\s"'\[,=(`])(--?[\w.\-]*(?:pass|pwd|secret|token|key|auth|cred|pw)[\w.\-]*)"""
    r"""(?:["'],\s*["']|[ \t]+["']?|["'][ \t]+["']|[ \t]*\r?\n[ \t]+)([^\s"',\-`][^\s"'`]*)""",
    ignore_case=True,
)
_WORD = r"""(?:"([^"\n]+)"|'([^'\n]+)'|([^\s"'|;&]+))"""


def _line(programs: str, option: str) -> str:
    """A command line: one of the programs, anything on the same line, then the option with its value."""
    return rf"\b(?:{programs})\b[^\n|;]*?[ \t]{option}{_WORD}"


_COMMAND_SOURCES = (
    _line("mysql|mysqldump|mysqladmin|mariadb|mariadb-dump|mycli", "-p"),
    _line("sshpass", r"-p[ \t]*"),
    _line("docker|podman|buildah|skopeo|nerdctl|helm|oras|crane|az|acr|oc|argocd|cf|ibmcloud", r"login\b[^\n|;]*?[ \t]-p[ \t]+"),
    _line(
        "mongo|mongosh|mongodump|mongorestore|mongoexport|cqlsh|clickhouse-client|influx|impala-shell|trino|ftp|lftp|ipmitool",
        r"-[pP][ \t]+",
    ),
    _line("sqlcmd|bcp|osql|zip|unzip", r"-P[ \t]*"),
    _line("redis-cli|keydb-cli|valkey-cli", r"-a[ \t]+"),
    _line("ldapsearch|ldapmodify|ldapadd|ldapdelete|ldapwhoami|ldappasswd", r"-w[ \t]+"),
    _line("ssh-keygen", r"-[NP][ \t]+"),
    _line("7z|7za|rar|unrar", "-p"),
    _line("htpasswd", r"-[a-zA-Z]*b[a-zA-Z]*[ \t]+\S+[ \t]+\S+[ \t]+"),
    _line("rabbitmqctl|rabbitmq-admin", r"(?:add_user|change_password|authenticate_user)[ \t]+\S+[ \t]+"),
    _line("smbclient|mount\\.cifs|rpcclient", r"""-U[ \t]+["']?[^\s%'"]+%"""),
    _line("snmpwalk|snmpget|snmpbulkwalk", r"-[AX][ \t]+"),
    _line("openssl", r"-(?:passin|passout|pass)[ \t]+pass:"),
    _line("vault", r"login[ \t]+"),
    _line("mc", r"(?:alias[ \t]+set|config[ \t]+host[ \t]+add)[ \t]+\S+[ \t]+\S+[ \t]+\S+[ \t]+"),
    _line("aws", r"configure[ \t]+set[ \t]+\S*(?:secret|token)\S*[ \t]+"),
    _line("kubectl|oc", r"""--from-literal[= ]["']?[\w.\-]+="""),
    rf"\becho[ \t]+(?:-n[ \t]+)?{_WORD}[ \t]*\|[ \t]*(?:sudo[ \t]+-S|su\b|passwd|chpasswd|(?:docker|podman|helm)[ \t][^\n|;]*login)",
    rf"\b(?:requirepass|masterauth|sasl_passwd|bindpw|rootpw|enable secret(?: \d)?|snmp-server community)[ \t]+{_WORD}",
    rf"\bmachine[ \t]+\S+[ \t\n]+login[ \t]+\S+[ \t\n]+password[ \t]+{_WORD}",
    r"(?i:\bidentified[ \t]+(?:with[ \t]+\S+[ \t]+)?by(?:[ \t]+password)?|\bpassword|\bset[ \t]+password[^\n=]{0,80}=)[ \t]+'([^'\n]+)'",
)
"""Command lines and settings without a separator; the secret is in one of the groups."""

_LOGIN = compiled(
    r"(?:\b(?:wget|curl|xh)\b|(?:^|[\s$])https?\b)[^\n|;]*?(?:\\\n[^\n]*?)*?"
    r"[ \t](?:-u[= \t]?|(?:--user|--proxy-user|-U|-a|--auth)[= \t])[ \t]*"
    r"""(?:"([^"\n]+)"|'([^'\n]+)'|([^\s"']*(?:"[^"\n]*"|'[^'\n]*')?))"""
)
"""`curl -u user:password`, also when the command goes on over several lines."""
_COMMANDS = tuple(map(compiled, _COMMAND_SOURCES))


_ANY_COMMAND = compiled("|".join(_COMMAND_SOURCES))


def commands(text: bytes, clock: Clock) -> Iterator[Span]:
    """Secrets given on a command line: `--token …`, `mysql -p…`, `curl -u user:…`."""
    at = seen = 0
    while places := _FLAG.search(text, at):
        seen += 1
        if seen % 256 == 0:
            clock.check()
        _, (flag_start, flag_end), (start, end) = places
        at = start
        name = name_of_secret(text[flag_start : min(flag_end, flag_start + 128)])
        if name is None or name.in_query_only:
            continue
        value = text[start : min(end, start + _LOOK)].rstrip(b"\\,;")
        if not (value.isalpha() and value.islower()) and _worth(value, name, quoted=False):
            at = end = start + len(value) if len(value) < _LOOK - 8 else end
            yield Span(start, end, name.kind)
    for places in _LOGIN.every(text):
        place = next(((start, end) for start, end in places[1:] if start < end), (0, 0))
        user, colon, password = text[place[0] : min(place[1], place[0] + _LOOK)].partition(b":")
        password = password.strip(b"\"'")
        if colon and password != user and not is_placeholder(password or user):
            yield Span(*place, "command_password")
    if _ANY_COMMAND.search(text) is None:
        return
    for command in _COMMANDS:
        clock.check()
        for places in command.every(text):
            place = next(((start, end) for start, end in places[1:] if start < end), (0, 0))
            value = text[place[0] : min(place[1], place[0] + _LOOK)]
            if len(value) >= 4 and not is_placeholder(value):
                yield Span(*place, "command_password")


_PRIVATE_KEY = compiled(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")
_PRIVATE_KEY_END = compiled(r"-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")
_KEY_LINES = compiled(
    r"""(?:(?:[\s"'+,>|\\]|\\+[nrt]|[A-Z][\w\-]+: [^\n\\]*)*[A-Za-z0-9+/=]{20,})*(?:(?:\s|\\+[nr])*[A-Za-z0-9+/]{1,63}={1,2})?"""
)
_KEY_MATERIAL = compiled(r"[A-Za-z0-9+/=]{8,}")
_PUTTY = compiled(r"Private-Lines: \d+\s+((?:[A-Za-z0-9+/=]+\s+)+)Private-MAC: [0-9a-f]+")


def private_keys(text: bytes, clock: Clock) -> Iterator[Span]:
    """PEM, OpenSSH and PGP private keys, whole, cut off, or written in one line with escaped breaks."""
    begins = [places[0] for places in _PRIVATE_KEY.every(text)]
    ends = [places[0] for places in _PRIVATE_KEY_END.every(text)] if begins else []
    for number, (start, body) in enumerate(begins):
        clock.check()
        following = begins[number + 1][0] if number + 1 < len(begins) else len(text)
        index = bisect_left(ends, (body, body))
        if index < len(ends) and ends[index][1] <= following:
            stop = ends[index][1]
        else:
            lines = _KEY_LINES.match(text, body, following)
            stop = lines[0][1] if lines else body
        if _KEY_MATERIAL.search(text, body, stop):
            yield Span(start, stop, "private_key")
    for _, (start, end) in _PUTTY.every(text):
        yield Span(start, start + len(text[start:end].rstrip()), "private_key")


# --------------------------------------------------------------------------- structures

_SECRET_KIND = compiled(r"""kind["'\\]*[ \t]*:[ \t]*["'\\]*secret(?:list)?\b""", ignore_case=True)
_NAME_FIELD = "(?:name|key|variable|header|field)"
_NAMED = compiled(rf"""(?:["']{_NAME_FIELD}["']\s*:\s*["']|\b{_NAME_FIELD}:[ \t]+["']?)([\w.\-]*{_ANCHOR}[\w.\-]*)""", ignore_case=True)
_NAMED_ELSEWHERE = compiled(
    rf"""(?:<(?:name|key)>\s*([\w.\-]*{_ANCHOR}[\w.\-]*)\s*</(?:name|key)>\s*<(?:value|string)>\s*([^<]*)"""
    rf"""|\bvariable[ \t]+"([\w\-]*{_ANCHOR}[\w\-]*)"[ \t]*\{{[^{{}}]*?\bdefault[ \t]*=[ \t]*"([^"\n]*)")""",
    ignore_case=True,
)
"""Pairs of neighbouring XML elements, and variables of Terraform with a default."""
_VALUE_FIELD = compiled(r"""\bvalue["']?\s*:""", ignore_case=True)
_SWAPPED_QUOTES = bytes.maketrans(b"\"'", b"'\"")
_NEARBY = 2048
"""How far from a name its value is looked for."""
_GO_MAP = compiled(r"\b(?:data|Data|stringData|StringData):map\[([^\[\]\n]*)\]")
_GO_PAIR = compiled(r"[\w.\-]+:(\S+)")


def structures(text: bytes, clock: Clock) -> Iterator[Span]:
    """Kubernetes Secrets in any nesting, and names with their value in a field beside them."""
    if _SECRET_KIND.search(text):
        if b'"' in text and b"{" in text:
            yield from walk_json(text, clock.check)
        if b"'kind'" in text:
            yield from walk_json(text.translate(_SWAPPED_QUOTES), clock.check)  # A printed Python dictionary.
        if b"\n" in text:
            yield from walk_yaml(text, clock.check)
        if b"kind:Secret" in text or b"Kind:Secret" in text:
            for _, (start, end) in _GO_MAP.every(text):
                for _, place in _GO_PAIR.every(text, start, end):
                    yield Span(*place, "kubernetes_secret")
    for places in _NAMED_ELSEWHERE.every(text):
        (name_start, name_end), (start, end) = places[1:3] if places[1][0] >= 0 else places[3:5]
        name = name_of_secret(text[name_start : min(name_end, name_start + 128)])
        if name is not None and _worth(text[start : min(end, start + _LOOK)].rstrip(), name, quoted=True):
            yield Span(start, start + len(text[start:end].rstrip()), name.kind)
    walked = 0
    for (at, to), named in _NAMED.every(text):
        if at < walked or name_of_secret(text[named[0] : min(named[1], named[0] + 128)]) is None:
            continue
        start = max(0, text.rfind(b"\n", max(0, at - 2 * _NEARBY), max(0, at - _NEARBY)) + 1, at - 2 * _NEARBY)
        walked = text.find(b"\n", to + _NEARBY, to + 2 * _NEARBY)
        walked = min(len(text), to + 2 * _NEARBY) if walked < 0 else walked
        nearby = text[start:walked]
        if _VALUE_FIELD.search(nearby):
            walk = walk_json if text[at] in b"\"'" else walk_yaml
            yield from (Span(start + span.start, start + span.end, span.kind, span.quote) for span in walk(nearby, clock.check))


# --------------------------------------------------------------------------- decoded, and looked at again

_STRING_WORTH_DECODING = compiled(r"""kind\W{1,12}secret|:[ ]?[|>][+\-]?\\+n|\\u00[2-7][0-9a-f]""", ignore_case=True)
_ESCAPED_SEPARATOR = compiled(r"\\u00(?:3[aAdD]|2[267])")
_ESCAPED_ASCII = compiled(r"\\u00[2-7][0-9a-fA-F]")
_ESCAPED_STRING = compiled(r'"[^"\\\n]*\\.(?:[^"\\\n]|\\.)*"?')
_ESCAPE = compiled(r"\\(?:u([0-9a-fA-F]{4})|([^u\n])|u)")
_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b" ", b"f": b" "}


def _in_strings(text: bytes, again: Callable[[bytes], list[Span]], clock: Clock) -> Iterator[Span]:
    """Documents inside JSON strings, and separators written as \\u003d."""
    if b"\\" not in text or _STRING_WORTH_DECODING.search(text) is None:
        return
    if _ESCAPED_SEPARATOR.search(text):
        changes = ((at, to, bytes((int(text[at + 4 : to], 16),))) for ((at, to),) in _ESCAPED_ASCII.every(text))
        view = View(text, 0, len(text), changes)
        yield from map(view.source, again(view.text))
    for ((start, end),) in _ESCAPED_STRING.every(text):
        clock.check()
        if _STRING_WORTH_DECODING.search(text, start, end) is None:
            continue
        start, end = start + 1, end - (text[end - 1] == 0x22)
        view = View(text, start, end, _unescaped(text, start, end))
        for span in again(view.text):
            found = view.source(span)
            yield Span(found.start, found.end, found.kind, b'\\"' if found.quote else b"")


def _unescaped(text: bytes, start: int, end: int) -> Iterator[tuple[int, int, bytes]]:
    for (at, to), code, letter in _ESCAPE.every(text, start, end):
        if code[0] >= 0:
            yield at, to, chr(int(text[code[0] : code[1]], 16)).encode("utf-8", "replace")
        else:
            character = text[letter[0] : letter[1]] if letter[0] >= 0 else b""
            yield at, to, _ESCAPES.get(character, character)


_PERCENT_WORTH_DECODING = compiled(r"%(?:3[AaDd]|22|27|40|7[Bb]|26|2[0Ff5])")
_PERCENT_RUN = compiled(r"""[^\s"'<>]*%[0-9A-Fa-f]{2}[^\s"'<>]*""")
_PERCENT = compiled(r"%[0-9A-Fa-f]{2}")


def _in_percent(text: bytes, again: Callable[[bytes], list[Span]], clock: Clock) -> Iterator[Span]:
    if b"%" not in text or _PERCENT_WORTH_DECODING.search(text) is None:
        return
    for ((start, end),) in _PERCENT_RUN.every(text):
        clock.check()
        changes = ((at, to, bytes.fromhex(text[at + 1 : to].decode())) for ((at, to),) in _PERCENT.every(text, start, end))
        view = View(text, start, end, changes)
        yield from map(view.source, again(view.text))


# Four characters of base64 that decode to three of printable ASCII; five of these in a row are no accident. Hex likewise.
_QUAD = "[CDI-Za-f][ACDEFGHSTUVWXijklmnyz0123][ABEFIJMNQRUVYZcdghklopstwx014589][A-Za-z0-9+/_\\-]"
_ENCODED = compiled(rf"(?:{_QUAD}){{5}}[A-Za-z0-9+/_\-]*={{0,2}}|(?:[2-7][0-9A-Fa-f]){{12,}}")
_HEX = b"0123456789abcdefABCDEF"
_PRINTABLE = bytes(range(32, 127)) + b"\t\r\n"
_UNPRINTABLE = compiled(r"[^\x20-\x7e\t\r\n]")


def _in_encoded(text: bytes, found: list[Span], again: Callable[[bytes], list[Span]], clock: Clock) -> Iterator[Span]:
    """Base64 and hex that decode to a text with a secret in it: the whole run goes."""
    covered = sorted((span.start, span.end) for span in found)
    starts = [start for start, _ in covered]
    for seen, ((start, end),) in enumerate(_ENCODED.every(text)):
        if seen % 256 == 0:
            clock.check()
        index = bisect_right(starts, start) - 1
        if index >= 0 and covered[index][1] >= end:
            continue
        run = text[start:end]
        decoded = _hex(run) if not run.strip(_HEX) else _base64(run)
        if decoded and (unprintable := _UNPRINTABLE.search(decoded)):
            decoded = decoded if _is_text(decoded) else decoded[: unprintable[0][0]]
        if decoded and len(decoded) >= 12 and (inner := again(decoded)):
            yield Span(start, end, inner[0].kind)


def _base64(run: bytes) -> bytes | None:
    run = run.rstrip(b"=")
    run = run[:-1] if len(run) % 4 == 1 else run
    try:
        if b"-" in run or b"_" in run:
            return base64.urlsafe_b64decode(run + b"=" * (-len(run) % 4))
        return base64.b64decode(run + b"=" * (-len(run) % 4))
    except binascii.Error:
        return None


def _hex(run: bytes) -> bytes | None:
    return bytes.fromhex(run.decode()) if len(run) % 2 == 0 else None


def _is_text(decoded: bytes) -> bool:
    if not decoded.translate(None, _PRINTABLE):
        return True
    try:
        return decoded.decode("utf-8").replace("\n", "").replace("\t", "").replace("\r", "").isprintable()
    except UnicodeDecodeError:
        return False


GROUPS: dict[str, Finder] = {
    "structures": structures,
    "assignments": assignments,
    "tokens": tokens,
    "urls": urls,
    "headers": headers,
    "private_keys": private_keys,
    "commands": commands,
    "prose": prose,
    "spaced": spaced,
}
"""What can be switched on by name. `encoded` is one more: looking again at what can be decoded."""
