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
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tersely.errors import MaskingFailed
from tersely.tools import secret_patterns as patterns
from tersely.tools.secret_patterns import Demand, Name, compiled, is_placeholder, is_random, is_secret, is_wordy, name_of_secret
from tersely.tools.secret_structures import Span, block_body, walk_json, walk_yaml

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
    rf"({_ANCHOR}[\w.\-]*)({_QUOTE}?)"
    rf"(?:[\])]{{0,2}}{_GAP}(?:(?:string|str|\[\]byte)[ \t]+)?(?:[:?.+]{{0,3}}=[=>]?|:|>)|{_GAP},[ \t]*\[?|[ \t]+value[ \t]*=)",
    ignore_case=True,
)
_VALUE_START = compiled(rf"""(?:[ \t]|\\+t)*(\r?\n[ \t]*)?(?:[&!][\w!:.\-]+[ \t]+)*(\[[ \t\n\r]*)?(?:(?i:rb|br|[bruf@])?({_QUOTE}))?""")
_RUN = compiled(r"""[^\s"'`,;&<>(){}\[\]|\\]+""")
_LINE_LEAD = compiled(r"""[ \t]*(?:[-#>+]+[ \t]*)?(?:export[ \t]+|set[ \t]+|env[ \t]+|declare[ \t]+-x[ \t]+|\$env:)?["']?""")
_NEXT_PAIR = compiled(r"[;&,][ \t]*[\w.\-]+[=:]")
_SCHEME = compiled(
    r"(?:bearer|basic|token|api-?key|api-token|negotiate|digest|hmac|sso-key|key|oauth|bot|splunk|jwt|geniekey|flyv1|discogs|apitoken|ssws|bearer:)[ \t]+",
    ignore_case=True,
)
_BLOCK_SCALAR = compiled(r"[|>][+\-\d]*[ \t]*(?:#[^\n]*)?\r?\n")
_TYPE = compiled(r"(?:string|str|String|char\*?|&str|Secret|Optional\[str\]|bytes)[ \t]*(?:\|[ \t]*None[ \t]*)?=[ \t]*")
_INNER_VALUE = compiled(rf"\{{\s*{_QUOTE}(?:value|plain|plaintext|literal|secret|S|\$value){_QUOTE}\s*:\s*({_QUOTE})")
_UNIT = compiled(r"[ \t]+(?:bytes|chars|characters|bits|tokens|days|seconds|attempts|failed|passed)\b")
_IDENTIFIER = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-."
_NUMBER = b"0123456789.-+eE"


def assignments(text: bytes, clock: Clock) -> Iterator[Span]:
    """`password = …`, `"api_key": "…"`, `<token>…</token>`, `setProperty("SECRET", "…")`, headers, query parameters."""
    at = seen = 0
    line_end = -1
    while match := _ASSIGNED.search(text, at):
        seen += 1
        if seen % 256 == 0:
            clock.check()
        at = match.end()
        name_end = match.end(1)
        start = _name_start(text, match.start())
        name = name_of_secret(text[start:name_end])
        if name is None:
            continue
        if line_end < at:
            line_end = text.find(b"\n", at)
            line_end = len(text) if line_end < 0 else line_end
        if text[start - 1 : start] == b"/" and name.demand is not Demand.RANDOM:
            name = Name(name.kind, Demand.RANDOM, name.in_query_only)  # The last part of a path or of an annotation.
        operator = text[name_end:at].rstrip(b" \t[")[-1:]
        if not _fits(text, name, operator, start, quoted_name=match.end(2) > match.end(1)):
            continue
        if name.kind == "cookie" and operator == b":":
            yield from _cookies(text, at, line_end)
            at = line_end
            continue
        found = _value(text, at, start, line_end, name, operator, match.group(2))
        if found is not None:
            yield found
            at = found.end


def _name_start(text: bytes, at: int) -> int:
    before = text[max(0, at - 64) : at]
    start = at - len(before) + len(before.rstrip(_IDENTIFIER))
    if start and text[start - 1] == 0x5C and text[start : start + 1] in b"nrtbf" and start < at:
        start += 1  # The n of an escaped line break is no part of the name.
    return start


def _fits(text: bytes, name: Name, operator: bytes, start: int, *, quoted_name: bool) -> bool:
    before = text[start - 1 : start]
    if operator == b">":
        return before == b"<" or (quoted_name and before in (b'"', b"'"))
    if operator == b",":
        return quoted_name
    if name.in_query_only:
        return operator == b"=" and before in (b"?", b"&", b";")
    return name.kind != "signature" or operator == b"="


def _value(text: bytes, at: int, name_start: int, line_end: int, name: Name, operator: bytes, name_quote: bytes) -> Span | None:
    begin = _VALUE_START.match(text, at)
    newline, bracket, quote = begin.group(1), begin.group(2), begin.group(3)
    start = begin.end()
    if newline and operator != b">" and not (name_quote and quote):
        return None
    if newline:
        line_end = text.find(b"\n", start)
        line_end = len(text) if line_end < 0 else line_end
    if operator == b",":
        return _argument(text, start, line_end, name, quote) if quote and not newline else None
    if operator == b">":
        return _element(text, start, name)
    if quote:
        return _quoted(text, start, line_end, name, quote)
    if bracket and name.kind != "authorization":
        return None
    first = text[start : start + 1]
    if first == b"{":
        inner = _INNER_VALUE.match(text, start, start + 80)
        return _quoted(text, inner.end(), line_end, name, inner.group(1)) if inner else None
    if first in (b"|", b">") and _BLOCK_SCALAR.match(text, start):
        line_start = text.rfind(b"\n", 0, name_start) + 1 if name_start - text.rfind(b"\n", max(0, name_start - 200), name_start) <= 200 else name_start
        indent = name_start - line_start
        body = block_body(text, line_end + 1, len(text[line_start:name_start]) - len(text[line_start:name_start].lstrip(b" \t")))
        if body and indent >= 0 and is_secret(text[body[0] : min(body[1], body[0] + _LOOK)], name.demand, quoted=True, kind=name.kind):
            return Span(body[0], body[1], name.kind)
        return None
    if typed := _TYPE.match(text, start, min(line_end, start + 40)):
        return _value(text, typed.end(), name_start, line_end, name, b"=", b"")
    return _unquoted(text, start, name_start, line_end, name, name_quote, operator)


def _quoted(text: bytes, start: int, line_end: int, name: Name, quote: bytes) -> Span | None:
    if name.kind == "authorization" and (scheme := _SCHEME.match(text, start, start + 40)):
        start = scheme.end()
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
    if text.startswith(b"<![CDATA[", start):
        start += 9
    end = text.find(b"<", start, start + _LOOK)
    value = text[start : end if end >= 0 else start + _LOOK].rstrip().removesuffix(b"]]>")
    return Span(start, start + len(value), name.kind) if value and _worth(value, name, quoted=True) else None


def _unquoted(text: bytes, start: int, name_start: int, line_end: int, name: Name, name_quote: bytes, operator: bytes) -> Span | None:
    if name.kind == "authorization" and (scheme := _SCHEME.match(text, start, start + 40)):
        start = scheme.end()
    run = _RUN.match(text, start, min(line_end, start + _LOOK))
    if run is None:
        return None
    end = run.end()
    following = text[end : end + 1]
    value = run.group()
    if following in (b"(", b"[") and value[:1].isalpha() and b"~" not in value and value.replace(b"_", b"").replace(b".", b"").isalnum():
        return None  # A call or a subscript: code that gets a secret, not the secret.
    rest = text[start : min(line_end, start + _LOOK)].rstrip()
    if not name_quote and operator != b"," and len(rest) > len(value) and not any(blank in rest for blank in (b" ", b"\t", b"\\")):
        line_start = text.rfind(b"\n", max(0, name_start - 80), name_start) + 1
        if _LINE_LEAD.fullmatch(text, line_start, name_start) and _NEXT_PAIR.search(rest) is None:
            value = rest.rstrip(b",;\"'")  # `PASSWORD=a,b(c` on a line of its own.
            end = start + len(value)
    elif name.demand is Demand.ANY and value.isalpha() and operator == b":" and rest[len(value) :].strip(b" \t,;.)") and not name_quote:
        return None  # "Password: must be changed": a sentence.
    if _UNIT.match(text, end, min(line_end, end + 16)) and value.isdigit():
        return None
    bare = b""
    if name_quote:
        if value.strip(_NUMBER):
            if name_quote.endswith((b'"', b"'")) and following in (b",", b"}", b"]", b""):
                return None if value in (b"true", b"false", b"null", b"None", b"True", b"False") else _sure(value, start, end, name)
        else:
            bare = name_quote
    if operator == b":" and not name_quote:
        value = value.rstrip(b".:")  # The end of a sentence, or `token: name: message`.
        end = start + len(value)
    if not _worth(value, name, quoted=bool(bare)):
        return None
    if end - start >= _LOOK - 1 and end < line_end:
        longer = _RUN.match(text, start, line_end)
        end = longer.end()
    return Span(start, end, name.kind, bare)


def _sure(value: bytes, start: int, end: int, name: Name) -> Span | None:
    return Span(start, end, name.kind) if _worth(value, name, quoted=False) else None


def _worth(value: bytes, name: Name, *, quoted: bool) -> bool:
    return bool(value) and is_secret(value, name.demand, quoted=quoted, kind=name.kind)


_COOKIE = compiled(r"""([^\s=;,"']+)=("?)([^;,\s"']+)""")


def _cookies(text: bytes, start: int, end: int) -> Iterator[Span]:
    for match in _COOKIE.finditer(text, start, end):
        name = name_of_secret(match.group(1)) or Name("cookie", Demand.RANDOM)
        value = match.group(3)[:_LOOK]
        if match.group(1).lower() in (b"expires", b"path", b"domain", b"max-age", b"samesite", b"_ga", b"_gid"):
            continue
        demand = Demand.RANDOM if name.in_query_only else name.demand
        if is_secret(value, demand, quoted=False, kind=name.kind) or (b"%" in value and len(value) > 24):
            yield Span(match.start(3), match.end(3), "cookie")


_PROSE = compiled(
    r"\b(?:password|passphrase|passcode|token|secret|(?:api|access|secret|private|license)[ _\-]?key|credentials?)"
    r"""(?:[ \t]+(is|was|to|as|of|value|with|provided|=|->)|:)?[ \t]*(?:is|was|=|:)?[ \t]+["'`(]?([^\s"'`<>(){}]{6,})""",
    ignore_case=True,
)


def prose(text: bytes, clock: Clock) -> Iterator[Span]:
    """`use token 8f3a… for staging`, `the password is …`: names that are followed by nothing but a space."""
    at = seen = 0
    while match := _PROSE.search(text, at):
        seen += 1
        if seen % 256 == 0:
            clock.check()
        start, end = match.span(2)
        value = text[start : min(end, start + _LOOK)].rstrip(b".,;:!?")
        at = match.end(1) if match.start(1) >= 0 else match.start(2)
        said = match.start(1) >= 0 and match.group(1).lower() in (b"is", b"was", b"to", b"as", b"=", b"->")
        if is_placeholder(value) or not _mixed(value, said=said):
            continue
        if len(value) < _LOOK:
            end = start + len(value)
        yield Span(start, end, "secret")
        at = end


def _mixed(value: bytes, *, said: bool) -> bool:
    if is_random(value) and len(value) >= 16:
        return True
    digits = sum(48 <= char <= 57 for char in value)
    letters = sum(65 <= (char & 0xDF) <= 90 for char in value)
    symbols = len(value) - digits - letters
    return said and digits > 0 and letters > 2 and len(value) >= 8 and (symbols > 0 or value.lower() != value) and b"/" not in value and b":" not in value


# --------------------------------------------------------------------------- tokens


_BY_PREFIX: dict[bytes, list[tuple[patterns.Token, Any]]] = {}
for _token in patterns.TOKENS:
    _BY_PREFIX.setdefault(_token.prefix.encode(), []).append((_token, compiled(_token.rest)))


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
    while match := _PREFIX.search(text, at):
        seen += 1
        if seen % 256 == 0:
            clock.check()
        group = 1 if match.start(1) >= 0 else 2
        start, at = match.span(group)
        for prefix in _prefixes_of(match.group(group)):
            if (end := _token_end(text, start, prefix)) is not None:
                yield Span(start, end[0], end[1])
                at = end[0]
                break
    at = 0
    while match := _FORM.search(text, at):
        seen += 1
        if seen % 256 == 0:
            clock.check()
        at = match.end()
        if at < len(text) and text[at] in _TOKEN_BYTES:
            continue
        value = match.group()
        if is_placeholder(value) or patterns.variety(value) < 9:
            continue
        index = next(i for i in range(len(patterns.FORMS)) if match.start(i + 1) >= 0)
        yield Span(match.start(), at, patterns.FORMS[index][0])


def _prefixes_of(found: bytes) -> Iterator[bytes]:
    return (found[:size] for size in range(len(found), 1, -1) if found[:size] in _BY_PREFIX)


def _token_end(text: bytes, start: int, prefix: bytes) -> tuple[int, str] | None:
    for token, rest in _BY_PREFIX[prefix]:
        match = rest.match(text, start + len(prefix))
        if match is None or (token.exact and match.end() < len(text) and text[match.end()] in _TOKEN_BYTES):
            continue
        body = match.group()[:_LOOK]
        if token.check and (is_placeholder(body) or is_placeholder(prefix + body[:60]) or patterns.variety(body) < 5 or is_wordy(body)):
            continue
        return match.end(), token.kind
    return None


# --------------------------------------------------------------------------- URLs, headers, command lines, keys

_URL = compiled(
    r"""://([^\s/:@"'<>\\,]*):((?:[^\s/@"'<>\\]+@)+|\d{0,5}[^\d\s/@:"'<>\\][^\s@"'<>\\]*@)""",
)
_URL_USER = compiled(r"""://([^\s/:@"'<>\\,?]{20,})(?::(?:x-oauth-basic)?)?@""")
_HEX_USER = compiled(r"[0-9a-f]{8,}")


def urls(text: bytes, clock: Clock) -> Iterator[Span]:
    """`scheme://user:password@host`, and tokens in the place of the user."""
    at = seen = 0
    while match := _URL.search(text, at):
        seen += 1
        if seen % 256 == 0:
            clock.check()
        at = match.end()
        start, end = match.start(2), match.end(2) - 1
        password = text[start : min(end, start + _LOOK)]
        if len(password) < 3 or is_placeholder(password):
            continue
        yield Span(start, end, "url_password")
        if _HEX_USER.fullmatch(match.group(1)[:_LOOK]):
            yield Span(match.start(1), match.end(1), "url_user")  # Hex for a name is the other half of a key pair.
    for match in _URL_USER.finditer(text):
        if is_random(match.group(1)[:_LOOK]):
            yield Span(match.start(1), match.end(1), "url_user")


_SCHEMES = compiled(
    r"""\b(?:bearer(?:[ \t]+|["']?[ \t]*[:=,][ \t]*["']?)([\w.~+/\-]{16,}=*)|basic[ \t]+([A-Za-z0-9+/]{8,}={0,2}))""", ignore_case=True
)


def headers(text: bytes, clock: Clock) -> Iterator[Span]:
    """`Bearer …` and `Basic …` wherever they stand; whole header lines are `assignments`."""
    for match in _SCHEMES.finditer(text):
        clock.check()
        if match.start(1) >= 0:
            value = match.group(1)[:_LOOK]
            if not is_placeholder(value) and not is_wordy(value) and (is_random(value) or len(value) > 30):
                yield Span(*match.span(1), "bearer_token")
        else:
            decoded = _base64(match.group(2)[:_LOOK])
            if decoded and b":" in decoded and _is_text(decoded):
                yield Span(*match.span(2), "basic_auth")


_FLAG = compiled(
    r"""(?:^|[\s"'\[,=(`])(--?[\w.\-]*(?:pass|pwd|secret|token|key|auth|cred|pw)[\w.\-]*)(?:["'],\s*["']|[ \t]+["']?|["'][ \t]+["'])([^\s"',\-`][^\s"'`]*)""",
    ignore_case=True,
)
_WORD = r"""(?:"([^"\n]+)"|'([^'\n]+)'|([^\s"'|;&]+))"""
_COMMAND_SOURCES: tuple[tuple[str, bool], ...] = (
        (rf"\b(?:mysql|mysqldump|mysqladmin|mariadb|mariadb-dump|mycli)\b[^\n|;]*?[ \t]-p{_WORD}", False),
        (rf"\bsshpass[ \t]+-p[ \t]*{_WORD}", False),
        (rf"\b(?:docker|podman|buildah|skopeo|nerdctl|helm|oras|crane|az|acr|oc|argocd|vault|cf|ibmcloud)\b[^\n|;]*?\blogin\b[^\n|;]*?[ \t]-p[ \t]+{_WORD}", False),
        (rf"\b(?:mongo|mongosh|mongodump|mongorestore|mongoexport|cqlsh|clickhouse-client|influx|sqlcmd|bcp|impala-shell|trino|ftp|lftp|ipmitool|net-?use)\b[^\n|;]*?[ \t]-[pP][ \t]+{_WORD}", False),
        (rf"\b(?:sqlcmd|bcp|osql|zip|unzip)\b[^\n|;]*?[ \t]-P[ \t]*{_WORD}", False),
        (rf"\b(?:redis-cli|keydb-cli|valkey-cli)\b[^\n|;]*?[ \t]-a[ \t]+{_WORD}", False),
        (rf"\b(?:ldapsearch|ldapmodify|ldapadd|ldapdelete|ldapwhoami|ldappasswd)\b[^\n|;]*?[ \t]-w[ \t]+{_WORD}", False),
        (rf"\b(?:7z|7za|rar|unrar)\b[^\n|;]*?[ \t]-p{_WORD}", False),
        (rf"\bhtpasswd\b[^\n|;]*?[ \t]-[a-zA-Z]*b[a-zA-Z]*[ \t]+\S+[ \t]+\S+[ \t]+{_WORD}", False),
        (rf"\b(?:rabbitmqctl|rabbitmq-admin)\b[^\n|;]*?(?:add_user|change_password|authenticate_user)[ \t]+\S+[ \t]+{_WORD}", False),
        (rf"\bvault[ \t]+login[ \t]+{_WORD}", False),
        (rf"\bmc[ \t]+(?:alias[ \t]+set|config[ \t]+host[ \t]+add)[ \t]+\S+[ \t]+\S+[ \t]+\S+[ \t]+{_WORD}", False),
        (rf"\baws[ \t]+configure[ \t]+set[ \t]+\S*(?:secret|token)\S*[ \t]+{_WORD}", False),
        (rf"\b(?:requirepass|masterauth|sasl_passwd|bindpw|rootpw|enable secret(?: \d)?|snmp-server community)[ \t]+{_WORD}", False),
        (rf"\bmachine[ \t]+\S+[ \t\n]+login[ \t]+\S+[ \t\n]+password[ \t]+{_WORD}", False),
        (r"(?i:\bidentified[ \t]+(?:with[ \t]+\S+[ \t]+)?by(?:[ \t]+password)?[ \t]+|\bpassword[ \t]+|\bset[ \t]+password[^\n=]{0,80}=[ \t]*)'([^'\n]+)'()()", False),
        (rf"\bopenssl\b[^\n|;]*?[ \t]-(?:passin|passout|pass)[ \t]+pass:{_WORD}", False),
        (rf"\becho[ \t]+{_WORD}[ \t]*\|[ \t]*(?:sudo[ \t]+-S|su\b|passwd|docker[ \t]+login|chpasswd)", False),
        (rf"\b--from-literal[= ]['\"]?[\w.\-]+={_WORD}", False),
        (rf"\b(?:smbclient|mount\.cifs|rpcclient)\b[^\n|;]*?[ \t]-U[ \t]+['\"]?[^\s%'\"]+%{_WORD}", False),
        (rf"\b(?:snmpwalk|snmpget|snmpbulkwalk)\b[^\n|;]*?[ \t]-[AX][ \t]+{_WORD}", False),
        (rf"(?:\b(?:wget|curl|xh)|(?:^|[\s$])https?[ \t])\b[^\n|;]*?(?:\\\n[^\n]*?)*?[ \t](?:-u|--user|--proxy-user|-U|-a|--auth)[= \t][ \t]*"
         r"""(?:"([^"\n]+)"|'([^'\n]+)'|([^\s"']*(?:"[^"\n]*"|'[^'\n]*')?))""", True),
)  # fmt: skip
"""What a command line looks like, with the secret in one of three groups (by quote); True: it is `user:password`."""
_COMMANDS = tuple((compiled(source), is_pair) for source, is_pair in _COMMAND_SOURCES)


_ANY_COMMAND = compiled("|".join(source for source, _ in _COMMAND_SOURCES))


def commands(text: bytes, clock: Clock) -> Iterator[Span]:
    """Secrets given on a command line: `--token …`, `mysql -p…`, `curl -u user:…`."""
    at = seen = 0
    while match := _FLAG.search(text, at):
        seen += 1
        if seen % 256 == 0:
            clock.check()
        at = match.start(2)
        name = name_of_secret(match.group(1)[:128])
        value = match.group(2)[:_LOOK]
        if name is not None and not name.in_query_only and _worth(value.rstrip(b"\\,;"), name, quoted=False) and not _is_word(value):
            end = match.end(2) if len(value) == _LOOK else match.start(2) + len(value.rstrip(b"\\,;"))
            yield Span(match.start(2), end, name.kind)
            at = match.end(2)
    if _ANY_COMMAND.search(text) is None:
        return
    for pattern, pair in _COMMANDS:
        clock.check()
        for match in pattern.finditer(text):
            group = next((number for number in (1, 2, 3) if match.start(number) >= 0 and match.end(number) > match.start(number)), None)
            if group is None:
                continue
            start, end = match.span(group)
            value = match.group(group)[:_LOOK]
            if pair:
                user, colon, password = value.partition(b":")
                password = password.strip(b"\"'")
                if not colon or is_placeholder(password or user) or (password in (b"test", user)):
                    continue
            elif len(value) < 4 or is_placeholder(value):
                continue
            yield Span(start, end, "command_password")


def _is_word(value: bytes) -> bool:
    return value.isalpha() and value.islower()


_PRIVATE_KEY = compiled(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")
_PRIVATE_KEY_END = compiled(r"-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")
_KEY_LINES = compiled(r"""(?:(?:[\s"'+,>|\\]|\\+[nrt]|[A-Z][\w\-]+: [^\n\\]*)*[A-Za-z0-9+/=]{20,})*(?:(?:\s|\\+[nr])*[A-Za-z0-9+/]{1,63}={1,2})?""")
_KEY_MATERIAL = compiled(r"[A-Za-z0-9+/=]{12,}")
_PUTTY = compiled(r"Private-Lines: \d+\s+((?:[A-Za-z0-9+/=]+\s+)+)Private-MAC: ([0-9a-f]+)")


def private_keys(text: bytes, clock: Clock) -> Iterator[Span]:
    """PEM, OpenSSH and PGP private keys, whole, cut off, or written in one line with escaped breaks."""
    at = 0
    ends: int | None = 0
    while match := _PRIVATE_KEY.search(text, at):
        clock.check()
        if ends is not None and ends < match.end():
            closing = _PRIVATE_KEY_END.search(text, match.end())
            ends, end = (closing.start(), closing.end()) if closing else (None, -1)
        following = _PRIVATE_KEY.search(text, match.end(), len(text) if ends is None else ends)
        if ends is None or following is not None:
            stop = _KEY_LINES.match(text, match.end(), following.start() if following else len(text)).end()
        else:
            stop = end
        at = max(stop, match.end())
        if _KEY_MATERIAL.search(text, match.end(), stop):
            yield Span(match.start(), stop, "private_key")
    for match in _PUTTY.finditer(text):
        yield Span(match.start(1), match.start(1) + len(match.group(1).rstrip()), "private_key")


# --------------------------------------------------------------------------- structures

_SECRET_KIND = compiled(r"""kind["'\\]*[ \t]*:[ \t]*["'\\]*secret(?:list)?\b""", ignore_case=True)
_NAMED = compiled(
    rf"""(?:["'](?:name|key|variable|header|field)["']\s*:\s*["']|\b(?:name|key|variable|header|field):[ \t]+["']?)([\w.\-]*{_ANCHOR}[\w.\-]*)""",
    ignore_case=True,
)
_VALUE_FIELD = compiled(r"""\bvalue["']?\s*:""", ignore_case=True)
_NEARBY = 2048
"""How far from a name its value is looked for."""
_GO_MAP = compiled(r"\b(?:data|Data|stringData|StringData):map\[([^\[\]\n]*)\]")
_GO_PAIR = compiled(r"([\w.\-]+):(\S+)")


def structures(text: bytes, clock: Clock) -> Iterator[Span]:
    """Kubernetes Secrets in any nesting, and names with their value in a field beside them."""
    if _SECRET_KIND.search(text):
        if b'"' in text and b"{" in text:
            yield from walk_json(text, clock.check)
        if b"\n" in text:
            yield from walk_yaml(text, clock.check)
        if b"kind:Secret" in text or b"Kind:Secret" in text:
            for match in _GO_MAP.finditer(text):
                for pair in _GO_PAIR.finditer(text, match.start(1), match.end(1)):
                    yield Span(*pair.span(2), "kubernetes_secret")
    walked = 0
    for match in _NAMED.finditer(text):
        if match.start() < walked or name_of_secret(match.group(1)[:128]) is None:
            continue
        start = max(0, text.rfind(b"\n", 0, max(0, match.start() - _NEARBY)) + 1, match.start() - 2 * _NEARBY)
        walked = text.find(b"\n", match.end() + _NEARBY, match.end() + 2 * _NEARBY)
        walked = min(len(text), match.end() + 2 * _NEARBY) if walked < 0 else walked
        nearby = text[start:walked]
        if _VALUE_FIELD.search(nearby) is None:
            continue
        walk = walk_json if text[match.start()] in b"\"'" else walk_yaml
        yield from (Span(start + span.start, start + span.end, span.kind, span.quote) for span in walk(nearby, clock.check))


# --------------------------------------------------------------------------- decoded, and looked at again

_STRING_WORTH_DECODING = compiled(r"""kind\W{1,12}secret|:[ ]?[|>][+\-]?\\+n|\\u00[2-7][0-9a-f]""", ignore_case=True)
_ESCAPED_STRING = compiled(r'"[^"\\\n]*\\(?:[^"\\\n]|\\.)*"?')
_ESCAPE = compiled(r"\\(?:u([0-9a-fA-F]{4})|([^u\n])|u)")
_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b" ", b"f": b" "}


def _in_strings(text: bytes, again: Callable[[bytes], list[Span]], clock: Clock) -> Iterator[Span]:
    """Documents inside JSON strings."""
    if b"\\" not in text or _STRING_WORTH_DECODING.search(text) is None:
        return
    for match in _ESCAPED_STRING.finditer(text):
        clock.check()
        if _STRING_WORTH_DECODING.search(text, match.start(), match.end()) is None:
            continue
        end = match.end() - 1 if text[match.end() - 1] == 0x22 else match.end()
        view = View(text, match.start() + 1, end, _unescaped(text, match.start() + 1, end))
        for span in again(view.text):
            found = view.source(span)
            yield Span(found.start, found.end, found.kind, b'\\"' if found.quote else b"")


def _unescaped(text: bytes, start: int, end: int) -> Iterator[tuple[int, int, bytes]]:
    for match in _ESCAPE.finditer(text, start, end):
        if match.start(1) >= 0:
            code = int(match.group(1), 16)
            replacement = chr(code).encode("utf-8", "replace") if not 0xD800 <= code <= 0xDFFF else b"?"
        else:
            letter = match.group(2) or b""
            replacement = _ESCAPES.get(letter, letter)
        yield match.start(), match.end(), replacement


_PERCENT_WORTH_DECODING = compiled(r"%(?:3[AaDd]|22|27|40|7[Bb]|26|2[0Ff5])")
_PERCENT_RUN = compiled(r"""[^\s"'<>]*%[0-9A-Fa-f]{2}[^\s"'<>]*""")
_PERCENT = compiled(r"%([0-9A-Fa-f]{2})")


def _in_percent(text: bytes, again: Callable[[bytes], list[Span]], clock: Clock) -> Iterator[Span]:
    if b"%" not in text or _PERCENT_WORTH_DECODING.search(text) is None:
        return
    for match in _PERCENT_RUN.finditer(text):
        clock.check()
        escapes = _PERCENT.finditer(text, match.start(), match.end())
        view = View(text, match.start(), match.end(), ((e.start(), e.end(), bytes.fromhex(e.group(1).decode())) for e in escapes))
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
    seen = 0
    for match in _ENCODED.finditer(text):
        seen += 1
        if seen % 256 == 0:
            clock.check()
        start, end = match.span()
        index = bisect_right(starts, start) - 1
        if index >= 0 and covered[index][1] >= end:
            continue
        run = match.group()
        decoded = _hex(run) if not run.strip(_HEX) else _base64(run)
        if decoded and (unprintable := _UNPRINTABLE.search(decoded)):
            decoded = decoded if _is_text(decoded) else decoded[: unprintable.start()]
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
}
"""What can be switched on by name. `encoded` is one more: looking again at what can be decoded."""
