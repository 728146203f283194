"""Finds secrets by the name in front of them: `password = …`, headers, query parameters, settings, sentences.

One pass finds the names that are followed by a separator. The value after the separator
is then read according to its syntax: a quoted string with any escaping, a word, an XML
element, a YAML block or a list. `masking.patterns` decides whether it is a secret.
"""

import re
from collections.abc import Iterator

from tersely.masking.patterns import (
    ANCHOR,
    DIGITS,
    LETTERS,
    NAME_BYTES,
    Demand,
    Name,
    Places,
    compiled,
    is_code,
    is_coined,
    is_identifier,
    is_placeholder,
    is_random,
    is_secret,
    is_sentence,
    is_wordy,
    name_of_secret,
    remembered,
)
from tersely.masking.spans import LOOK, MaskingDeadline, SecretSpan, in_resource_name, line_start
from tersely.masking.structures import block_body, yaml_scalar
from tersely.masking.windows import name_windows

_QUOTE = r"""(?:\\*["'`]|&quot;|&#34;)"""
_GAP = r"(?:[ \t]|\\+t)*"
_ASSIGNED = compiled(
    rf"{ANCHOR}[\w.\-]*({_QUOTE}?)"
    rf"(?:[\])]{{0,2}}{_GAP}(?:(?:string|str|\[\]byte)[ \t]+|#[ \t]*)?(?:[:?.+]{{0,3}}=[=>]?|:|>)|{_GAP},[ \t]*\[?|[ "
    r"\t]+value[ \t]*=|[ \t]*\|)",
    ignore_case=True,
)
_VALUE_START = compiled(
    rf"""(?:[ \t]|\\+t)*(\r?\n[ \t]*)?(?:[&!][\w!:.\-]+[ \t]+)*(\[[ \t\n\r]*)?(?:(?i:rb|br|[bruf@])?({_QUOTE}))?"""
)
_PLAIN_START = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789<${*"
_RUN = compiled(r"""[^\s"'`,;&<>(){}\[\]|\\]+""")
_LIST_STARTS = (b"[", b"\r", b"\n")
_LIST = compiled(r"""[ \t]*(?:(\[[ \t\r\n]*)|\r?\n(?:[ \t]*#[^\n]*\n)*)""")
_ITEM = (
    r"""(?:"((?:[^"\\\n]|\\.)*)"|'((?:[^'\\\n]|''|\\[^'\n]|\\''?[^,\]}}\s'])*\\?)'"""
    r"""|([^\s,\[\]{}"'&*!|>#][^,\[\]{}\n]*))"""
)
_FLOW_ITEM = compiled(rf"([ \t\r\n]*){_ITEM}[ \t\r\n]*,?")
_BLOCK_ITEM = compiled(rf"([ \t]*)-[ \t]+{_ITEM}[ \t\r]*(?:#[^\n]*)?(?:\n|$)")
_NEXT_WORD = compiled(r"""[ \t]+([^\s"'`,;&<>(){}\[\]|\\=]+)""")
_PLAIN_WORDS = compiled(r"[A-Za-z0-9.,!?'\-]+(?: [A-Za-z0-9.,!?'\-]+){1,11}")
_LINE_LEAD = compiled(
    r"""[ \t]*(?:[-#>+]+[ \t]*)?(?:export[ \t]+|set[ \t]+|env[ \t]+|declare[ \t]+-x[ \t]+|\$env:)?["']?"""
)
_NEXT_PAIR = compiled(r"[;&,][ \t]*[\w.\-]+[=:]")
_PAIR_AFTER = compiled(r"[ \t,;]+[A-Za-z][\w.\-]*[:=][^/ \t]|[ \t]*[\])}]*$")
_SCHEME = compiled(
    (
        r"(?:bearer:?|basic|token|api-?key|api-?token|negotiate|hmac|sso-key|key|oauth|bot|splunk|jwt|geniekey|flyv1"
        r"|discogs|ssws)[ \t]+"
    ),
    ignore_case=True,
)
_BLOCK_SCALAR = compiled(r"[|>][+\-\d]*[ \t]*(?:#[^\n]*)?\r?\n")
_TYPE = compiled(r"(?:string|str|String|char\*?|&str|Secret|Optional\[str\]|bytes)[ \t]*(?:\|[ \t]*None[ \t]*)?=[ \t]*")
_MNEMONIC = compiled(r"(?:[a-z]{3,8}[ ,]+){11,23}[a-z]{3,8}")
_NUMBER_TAG = compiled(r"!!(?:int|float|bool|null|timestamp|binary)\b")
_NO_VALUES = frozenset((b"true", b"fals", b"null", b"None", b"True", b"Fals"))
_NO_VALUE = compiled(r"(?:true|false|null|None|True|False)(?:[\s,;}\])]|$)")
_TYPE_STARTS = frozenset((b"str", b"Str", b"cha", b"&st", b"Sec", b"Opt", b"byt"))
_INNER_VALUE = compiled(
    rf"\{{[^{{}}]*?{_QUOTE}?\b(?:value|plain|plaintext|literal|secret|secure|stringValue|content|current|S|\$value){_QUOTE}?\s*:"
    rf"\s*({_QUOTE})"
)
_UNIT = compiled(r"[ \t]+(?:bytes|chars|characters|bits|tokens|days|seconds|attempts|failed|passed)\b")
_OTHER_PAIR = compiled(r"[A-Z][A-Za-z]*:(?:\d+|true|false|\[|\{)?")
_NUMBER = b"0123456789.-+eE"
_IN_CODE = NAME_BYTES.replace(b"-", b"") + b"!?:"
_TYPOGRAPHIC = ("“".encode(), "”".encode(), "„".encode(), "‘".encode(), "’".encode(), "«".encode())
"""Quotes that `masking.normalise` reads."""
_REFERENCE = compiled(r"!(?:Ref|GetAtt|Sub|ImportValue|vault|Join|Select|FindInMap|env|ENV|secret|reference|include)\b")


def assignments(text: bytes, clock: MaskingDeadline) -> Iterator[SecretSpan]:
    """`password = …`, `"api_key": "…"`, `<token>…</token>`, `setProperty("SECRET", "…")`, headers, query parameters."""
    at = seen = listed = 0
    line_end = -1
    near = name_windows(text, clock)
    while places := near.search(_ASSIGNED, at):
        seen += 1
        if seen % 256 == 0:
            clock.check()
        (start, at), (quote_start, quote_end) = places
        if (known := near.found_at(at)) is not None:
            at = known
            continue
        start = _name_start(text, start)
        before = text[start - 3 : start] if start >= 3 else text[:start]
        found_name = _announced_by(before, text[start:quote_start], text[quote_start:at], quote_end > quote_start)
        if found_name is None:
            continue
        name, operator = found_name
        if in_resource_name(text, start):
            continue
        if line_end < at:
            line_end = _end_of_line(text, at)
        if name.kind == "cookie" and (
            operator == b":" or (operator == b"=" and text[at : at + 2].strip()[:1] in b"\"'`")
        ):
            yield from cookies(text, at, line_end)
            at = line_end
            continue
        if start >= listed and operator in b":=" and text[at : at + 2].lstrip(b" \t")[:1] in _LIST_STARTS:
            opened = _LIST.match(text, at)
            is_block = operator == b":" and opened and _BLOCK_ITEM.match(text, opened[0][1])
            if opened and (opened[1][0] >= 0 or is_block):
                for item in _items(text, opened, name, text[quote_start:quote_end] or b'"'):
                    yield item
                    listed = item.end
                continue
        found = _value(text, at, start, line_end, name, operator, text[quote_start:quote_end])
        if found is not None:
            yield _with_tag(text, at, found)
            yield from joined_literals(text, found)
            at = found.end if b"{" not in text[at : min(found.start, at + LOOK)] else at


_JOINED = compiled(
    r"""["'](?:[ \t]*(?:\+|\.\.?|&|<>|\|\|)?[ \t]*\r?\n[ \t]*(?:(?:\+|\.\.?|&|<>|\|\|)[ \t]*)?"""
    r"""|[ \t]*(?:\+|\.\.|<>)[ \t]*)"""
    r"""(?:"([^"\n]+)"|'([^'\n]+)')[ \t]*(?:[^\s:=,]|\r?\n|$)"""
)
"""A string literal that is added to the one before it, in the next line or by an operator; no key of a mapping."""
_MOST_JOINED = 16


def joined_literals(text: bytes, found: SecretSpan) -> Iterator[SecretSpan]:
    """The string literals that continue the one of this span."""
    end = found.end
    if text[end : end + 1] not in (b'"', b"'") or text[found.start - 1] != text[end]:
        return
    for _ in range(_MOST_JOINED):
        more = _JOINED.match(text, end, min(len(text), end + 2 * LOOK))
        if more is None:
            return
        start, end = more[1] if more[1][0] >= 0 else more[2]
        yield SecretSpan(start, end, found.kind)


_SOURCE_FILE = (b".py", b".go", b".js", b".ts", b".rs", b".rb", b".java", b".kt", b".php", b".cs", b".cpp", b".scala")


@remembered
def _announced_by(before: bytes, name: bytes, separator: bytes, is_quoted: bool) -> tuple[Name, bytes] | None:
    """What a name with these bytes in front and this separator announces, and the operator in the separator."""
    announced = name_of_secret(name)
    if announced is None or before == b"://":  # The user of a URL.
        return None
    if name.endswith(_SOURCE_FILE) and separator.startswith(b":"):
        return None  # A place in a file: `test_token.py::test_refresh`, `secrets.go:12: …`.
    if before[-1:] == b"/" and announced.demand is not Demand.RANDOM and before[-2:-1] not in _BLANKS:
        announced = Name(announced.kind, Demand.RANDOM, announced.in_query_only)  # The last part of a path.
    operator = b"=" if separator[-2:] == b"=>" else separator.rstrip(b" \t[")[-1:]
    return (announced, operator) if _fits(announced, operator, before[-1:], quoted_name=is_quoted) else None


def _with_tag(text: bytes, at: int, found: SecretSpan) -> SecretSpan:
    """A YAML tag such as !!int in front of a value is masked with it: a mark is no number."""
    if b"!!" not in text[at : min(found.start, at + LOOK)] or not (tag := _NUMBER_TAG.search(text, at, found.start)):
        return found
    is_quoted = text[found.start - 1 : found.start] in (b'"', b"'")
    return SecretSpan(tag[0][0], found.end + is_quoted, found.kind, b"'")


def _items(text: bytes, opened: Places, name: Name, quote: bytes) -> Iterator[SecretSpan]:
    """The values of a list under a name: `["a", "b"]`, `[a, b]`, or one per line after a dash."""
    at = opened[0][1]
    is_flow = opened[1][0] >= 0
    item, indent = (_FLOW_ITEM if is_flow else _BLOCK_ITEM), b""
    while places := item.match(text, at):
        lead = text[slice(*places[1])]
        start, end = next((place for place in places[2:] if place[0] >= 0), (0, 0))
        if not is_flow and (
            (at > opened[0][1] and lead != indent) or b": " in text[start : end + 1] or text[end - 1 : end] == b":"
        ):
            return  # The line belongs to another list, or the items are not scalars.
        at, indent = places[0][1], lead
        if name.kind == "authorization" and (scheme := _SCHEME.match(text, start, end)):
            start = scheme[0][1]
        comment = text.find(b" #", start, end)
        end = start + len(text[start : comment if comment >= 0 else end].rstrip())
        value = text[start : min(end, start + LOOK)]
        is_read = is_code(value) or (places[4][0] >= 0 and _CALL.match(value) is not None)
        if value and b" " not in value and not is_read and worth_masking(value, name, quoted=True):
            yield SecretSpan(start, end, name.kind, b"" if value.strip(_NUMBER) or places[4][0] < 0 else quote)


_CALL = compiled(r"(?:[A-Za-z_]\w*=)?[A-Za-z_][\w.]*\(")


def _name_start(text: bytes, at: int) -> int:
    if text[at - 1 : at] in _OPENERS:
        return at
    before = text[max(0, at - 64) : at]
    start = at - len(before) + len(before.rstrip(NAME_BYTES))
    if start < at and text[start - 1 : start] == b"\\" and text[start] in b"nrtbf":
        start += 1  # The n of an escaped line break is not part of the name.
    if text[start : start + 2] == b"-D":
        start += 2  # A property on a command line.
    return start


_BLANKS = frozenset((b" ", b"\t", b"\n"))
"""In front of `/PASSWORD=`, the switch of a command."""
_OPENERS = frozenset((b"", b'"', b"'", b" ", b"\t", b"\n", b"<", b"?", b"&", b"{", b",", b"("))


def _fits(name: Name, operator: bytes, before: bytes, *, quoted_name: bool) -> bool:
    if name.in_query_only:
        return operator == b"=" and before in (b"?", b"&", b";")
    if operator == b">":
        return before == b"<" or (quoted_name and before in (b'"', b"'"))
    if operator == b",":
        return quoted_name
    return name.kind != "signature" or operator == b"="


def _value_start(text: bytes, at: int) -> tuple[int, bool, bool, bytes]:
    """Where the value begins, whether on the next line, whether in a bracket, and its quote."""
    start = at + 1 if text[at : at + 1] == b" " else at
    first = text[start : start + 1]
    if first in (b'"', b"'"):
        return start + 1, False, False, first
    if first and first in _PLAIN_START and text[start + 1 : start + 2] not in (b'"', b"'"):
        return start, False, False, b""
    places = _VALUE_START.match(text, at)
    assert places is not None  # It matches the empty text.
    return places[0][1], places[1][0] >= 0, places[2][0] >= 0, text[slice(*places[3])] if places[3][0] >= 0 else b""


def _value(
    text: bytes, at: int, name_start: int, line_end: int, name: Name, operator: bytes, name_quote: bytes
) -> SecretSpan | None:
    start, newline, bracket, quote = _value_start(text, at)
    first = text[start : start + 1]
    if b"!" in text[at:start] and _REFERENCE.search(text, at, start):
        return None
    if newline:
        if operator != b">" and not (name_quote and quote):
            return None
        line_end = _end_of_line(text, start)
    if operator == b",":
        return _argument(text, start, line_end, name, quote) if quote and not newline else None
    if operator == b">":
        return _element(text, start, name)
    if operator == b"|":
        return _cell(text, start, line_end, name)
    if quote:
        found = _quoted(text, start, line_end, name, quote, -1 if name_quote else name_start)
        is_sentence = (
            bracket
            and found is not None
            and name.kind != "authorization"
            and b" " in text[found.start : min(found.end, found.start + LOOK)]
        )
        return None if is_sentence else found
    if (
        first in (b"", b"<")
        or (first == b"$" and not text[start + 1 : start + 2].isdigit())
        or (bracket and name.kind != "authorization")
    ):
        return None
    if text[start : start + 4] in _NO_VALUES and _NO_VALUE.match(text, start, min(len(text), start + 8)):
        return None
    if first == b"{":
        return _inner(text, start, name)
    if first in (b"|", b">"):
        return _block(text, start, name_start, name)
    if text[start : start + 3] in _TYPE_STARTS and (typed := _TYPE.match(text, start, min(line_end, start + 40))):
        quote = text[typed[0][1] : typed[0][1] + 1]
        return _quoted(text, typed[0][1] + 1, line_end, name, quote) if quote in (b'"', b"'") else None
    found = _unquoted(text, start, name_start, line_end, name, name_quote, operator)
    if found is not None and operator == b":" and b"!" in text[at:start]:
        return SecretSpan(found.start, found.end, found.kind, b'"')  # A tag such as !!str needs a scalar.
    return found


def _inner(text: bytes, start: int, name: Name) -> SecretSpan | None:
    """The value in an object under the name: `"password": {"type": "string", "value": "…"}`."""
    inner = _INNER_VALUE.match(text, start, min(len(text), start + 300))
    return _quoted(text, inner[0][1], _end_of_line(text, inner[0][1]), name, text[slice(*inner[1])]) if inner else None


def _end_of_line(text: bytes, at: int) -> int:
    end = text.find(b"\n", at)
    return len(text) if end < 0 else end


def _block(text: bytes, start: int, name_start: int, name: Name) -> SecretSpan | None:
    """A YAML block scalar: the following lines that are indented deeper than the name."""
    head = _BLOCK_SCALAR.match(text, start, min(len(text), start + 200))
    if head is None:
        return None
    lead = text[line_start(text, name_start, 200) : name_start]
    body = block_body(text, head[0][1], len(lead) - len(lead.lstrip(b" \t")), LOOK)
    if body is None:
        return None
    lines = [line.strip() for line in text[body[0] : body[1]].split(b"\n")]
    value = text[body[0] : body[1]] if any(b" " in line for line in lines) else b"".join(lines)
    if not worth_masking(value, name, quoted=True):
        return None
    if body[1] - body[0] >= LOOK:
        body = block_body(text, head[0][1], len(lead) - len(lead.lstrip(b" \t"))) or body
    return SecretSpan(*body, name.kind)


def _quoted(text: bytes, start: int, line_end: int, name: Name, quote: bytes, bare_name: int = -1) -> SecretSpan | None:
    """The string that begins at `start`. `bare_name`: where its name begins, if that has no quotes."""
    if name.kind == "authorization":
        if _has_fields(text, start):
            return None
        start = _after_scheme(text, start, line_end)
    if bare_name >= 0 and _ends_prompt(text, bare_name, start, line_end, quote):
        return None
    end = _closing(text, start, min(line_end, start + LOOK), quote)
    is_whole = end >= 0
    if not is_whole and start < line_end <= start + LOOK and (below := _closing_below(text, line_end, quote)) > 0:
        return SecretSpan(start, below, name.kind) if worth_masking(text[start:line_end], name, quoted=True) else None
    if not is_whole:
        end = min(line_end, start + LOOK)
    if quote == b"`" and b" " in text[start:end]:
        return None  # A command in backticks, not a value.
    if not worth_masking(text[start:end], name, quoted=True):
        return None
    is_closed = is_whole
    if not is_whole and end < line_end:
        end = _closing(text, start, line_end, quote)
        is_closed = end >= 0
        end = end if is_closed else line_end
    if not is_closed and bare_name >= 0 and (flow := _end_in_flow(text, bare_name, start, end)) is not None:
        end = flow
    return SecretSpan(start, len(text[start:end].rstrip(b"\r")) + start, name.kind)


_AFTER_PROMPT = frozenset(b",)]};:+.% \r")


def _ends_prompt(text: bytes, name_start: int, start: int, line_end: int, quote: bytes) -> bool:
    """Whether the quote in front of `start` ends the string that the name is in: `getpass("Password: ", stream)`."""
    if start < line_end and text[start] not in _AFTER_PROMPT:
        return False
    lead = text[line_start(text, name_start, LOOK) : name_start]
    if quote == b"'":
        lead = _APOSTROPHE.sub(b"", lead)
    return lead.count(quote) % 2 == 1


_APOSTROPHE = re.compile(rb"(?<=[A-Za-z])'(?=[A-Za-z])")
_MOST_LINES = 24
"""Lines of a string."""
_PART = compiled(r"""[ \t]*[^\s"'`{}<>][^"'`{}<>\n]*""")
_LAST_PART = compiled(r"""[^"'`{}<>\n]*["'][ \t]*(?:[,;)}\]#][^\n]*|\r)?""")


def _closing_below(text: bytes, line_end: int, quote: bytes) -> int:
    """Where a string ends that goes on in the next lines; -1 if these are no part of it, or its end is missing."""
    for _ in range(_MOST_LINES):
        start, line_end = line_end + 1, _end_of_line(text, line_end + 1)
        if start == line_end and text[line_end + 1 : line_end + 2] in (b" ", b"\t"):
            continue  # A blank line inside of a YAML string, whose next line is indented.
        if line_end - start > LOOK or start >= line_end:
            return -1
        if quote in text[start:line_end]:
            return text.find(quote, start) if _LAST_PART.is_all_of(text, start, line_end) else -1
        if b": " in text[start:line_end] or not _PART.is_all_of(text, start, line_end):
            return -1
    return -1


_FLOW_END = compiled(r"[}\]]|,[ \t]")


def _end_in_flow(text: bytes, name_start: int, start: int, end: int) -> int | None:
    """Where a value ends in a flow mapping that begins before the name, or ends after the value; None if none does."""
    lead, value = text[line_start(text, name_start, LOOK) : name_start], text[start : min(end, start + LOOK)].rstrip()
    word = value.split(None, 1)[0] if value else b""
    is_last = value.endswith(b"}") and value.count(b"}") > value.count(b"{")
    is_last = is_last or (word.endswith(b"},") and b"{" not in word)  # The mapping began in a line above.
    if lead.count(b"{") <= lead.count(b"}") and not is_last:
        return None
    place = _FLOW_END.search(text, start, end)
    return place[0][0] if place else end


def _argument(text: bytes, start: int, line_end: int, name: Name, quote: bytes) -> SecretSpan | None:
    """The argument after the name, as in `setenv("API_KEY", "…")`.

    In a list of words it is just the next word, so it must look like a secret.
    """
    close = text.find(quote, start, min(line_end, start + 64)) + len(quote)
    if text[close : close + 8].lstrip()[:1] == b":":
        return None  # The next key of a JSON object.
    found = _quoted(text, start, line_end, name, quote)
    if found is None or text[found.end + len(quote) : found.end + len(quote) + 8].lstrip().startswith(b":"):
        return None
    value = text[found.start : min(found.end, found.start + LOOK)]
    has_scheme = found.start > start
    is_plain = not has_digits(value) and not value.translate(None, NAME_BYTES)
    is_name = is_identifier(value.lstrip(b"_")) or (is_plain and name_of_secret(value[:128]) is not None)
    is_likely = len(value) >= 8 and ((not is_wordy(value) and not is_name) or is_coined(value, capital=True))
    return found if has_scheme or is_likely else None


_AFTER_STRING = {
    b"'": compiled(r"[ \t\r]*(?:[,}\])#\n]|$)"),
    b'"': compiled(r"""[ \t]*/?>|[ \t]+[\w:.\-]+="|[ \t]*$"""),
}
"""What follows a string after whose last backslash it ends: in YAML and TOML, and in XML."""


def _closing(text: bytes, start: int, limit: int, quote: bytes) -> int:
    """Where a quoted value ends: at the same quote with the same escaping; -1 if there is none.

    The quotes of a string in a string in a string have 0, 1 and 3 backslashes. A backslash of the value itself has
    twice as many as they have places, and in YAML, TOML and XML it escapes nothing.
    """
    if quote[:1] == b"&":
        return text.find(quote, start, limit)
    sign, depth = quote[-1:], len(quote) - 1
    at, doubtful = start, -1
    while (at := text.find(sign, at, limit)) >= 0:
        if quote == b"'" and at > start and text[at + 1 : at + 2] == b"'":
            at += 2  # YAML and SQL escape an apostrophe by doubling it.
            continue
        backslashes = 0
        while at - backslashes > start and text[at - 1 - backslashes] == 0x5C:
            backslashes += 1
        if backslashes < depth:
            return at - backslashes  # The string around this one ends.
        if backslashes % (2 * depth + 2) == depth:
            return at - depth
        if not depth and sign in _AFTER_STRING and _AFTER_STRING[sign].match(text, at + 1, min(len(text), at + 40)):
            return at
        doubtful = at - depth
        at += 1
    return doubtful


def _element(text: bytes, start: int, name: Name) -> SecretSpan | None:
    start += len(text[start : start + 200]) - len(text[start : start + 200].lstrip())
    if text[start : start + 7].lower() == b"<value>":
        start += 7
    if text.startswith(b"<![CDATA[", start):
        start += 9
    end = text.find(b"<", start, start + LOOK)
    value = text[start : end if end >= 0 else start + LOOK].rstrip().removesuffix(b"]]>")
    is_element = text.startswith((b"</", b"<<"), end) if end >= 0 else is_mixed(value, announced=True)
    if not value or not is_element or not worth_masking(value, name, quoted=True) or _is_label(value, name):
        return None
    if end < 0:
        end = text.find(b"<", start)
        value = text[start : end if end >= 0 else len(text)].split(None, 1)[0]
    return SecretSpan(start, start + len(value), name.kind)


def _is_label(value: bytes, name: Name) -> bool:
    return name.kind not in ("passphrase", "mnemonic") and is_sentence(value)


def _cell(text: bytes, start: int, line_end: int, name: Name) -> SecretSpan | None:
    """The cell next to a name in a table. It may be the next heading, so it must look like a secret."""
    start += len(text[start:line_end]) - len(text[start:line_end].lstrip(b" \t")) if line_end - start < LOOK else 0
    run = _RUN.match(text, start, min(line_end, start + LOOK)) if start < line_end else None
    if run is None or _OPTION.is_all_of(text, *run[0]):
        return None
    value = text[start : run[0][1]]
    return (
        SecretSpan(start, run[0][1], name.kind)
        if is_mixed(value, announced=True) and worth_masking(value, name, quoted=False)
        else None
    )


_OPTION = compiled(r"--?[a-z][a-z0-9]*(?:-[a-z0-9]+)*")


def _has_fields(text: bytes, start: int) -> bool:
    """Whether an Authorization value is a list of fields, of which only one is secret."""
    return text[start : start + 7].lower() in (b"digest ", b"aws4-hm")


def _after_scheme(text: bytes, start: int, line_end: int) -> int:
    """Where the credentials begin in an Authorization value."""
    scheme = _SCHEME.match(text, start, min(line_end, start + 40))
    return scheme[0][1] if scheme else start


def _unquoted(
    text: bytes, start: int, name_start: int, line_end: int, name: Name, name_quote: bytes, operator: bytes
) -> SecretSpan | None:
    if name.kind == "authorization":
        if _has_fields(text, start):
            return None
        start = _after_scheme(text, start, line_end)
    if name.kind == "mnemonic":
        words = _MNEMONIC.match(text, start, line_end)
        return SecretSpan(*words[0], name.kind) if words else None
    limit = min(line_end, start + LOOK)
    run = _RUN.match(text, start, limit) if start < limit else None
    if run is None:
        return None
    end = run[0][1]
    following = text[end : end + 1]
    value = text[start:end]
    if operator == b":" and _OTHER_PAIR.is_all_of(value):
        return None  # The value is empty, and this is the next pair: `Password: Port:5432`.
    if value.startswith(_TYPOGRAPHIC) or (value.isdigit() and _UNIT.match(text, end, min(line_end, end + 16))):
        return None
    if _is_read(text, value, name_start, start, line_end, operator):
        return None
    is_last = operator == b":" and not name_quote and text[line_end + 1 : line_end + 2] in (b" ", b"\t")
    if is_last and end == line_end and worth_masking(value, name, quoted=False):
        end = yaml_scalar(text, name_start, start) or end
        return SecretSpan(start, end, name.kind)
    if not name_quote and name.kind != "authorization" and end < limit:
        longer_end = _end_of_words(text, start, end, limit, name_start, name, operator)
        if longer_end is None:
            return None
        end = longer_end
        value = text[start:end]
    if name_quote and value.strip(_NUMBER) and following in (b",", b"}", b"]", b""):
        return _sure(value, start, end, name)
    if not name_quote:
        value = value.rstrip(b".:" if operator == b":" else b":")  # The end of a sentence, or `token: name: message`.
        end = start + len(value)
    bare = name_quote if not value.strip(_NUMBER) else b""
    if not worth_masking(value, name, quoted=bool(bare)):
        return None
    if end - start >= LOOK - 1 and end < line_end and (longer := _RUN.match(text, start, line_end)):
        end = longer[0][1]
    return SecretSpan(start, end, name.kind, bare)


_ELSE = compiled(r"[ \t]+(?:\|\||\?\?|&&)")
_CHAINED = compiled(r"[ \t]*=(?:[ \t\r]|$)")
_OTHER_VARIABLES = compiled(r"(?:\S+:\d+:)?[ \t]*(?:[A-Za-z_][\w.]*,[ \t]*)+\(?")


def _is_read(text: bytes, value: bytes, name_start: int, start: int, line_end: int, operator: bytes) -> bool:
    """Whether code reads a secret: `password = read(…)`, `self.password = value`, `user, password = url.login`,
    `user = password = x = ""`; or the value is empty and the next name follows: `password= token=`."""
    after = text[start + len(value) : min(line_end, start + len(value) + 8)]
    if after[:1] in (b"(", b"[") and not value[:1].isdigit() and not value.translate(None, _IN_CODE):
        return True
    if is_code(value) and _ELSE.match(after):
        return True  # `password: options.password || defaults.password`.
    if operator != b"=" or has_digits(value) or not is_identifier(value.strip(b"_").removesuffix(b"=")):
        return False
    if value.endswith(b"="):
        return text[start - 1] in b" \t"
    if _CHAINED.match(after):
        return True
    if after[:1].strip(b" \t\r.(["):
        return False
    if text.startswith((b"self.", b"this."), name_start):
        return True
    is_code_after = b"_" in value or after[:1] in (b".", b"(", b"[")
    return is_code_after and _OTHER_VARIABLES.is_all_of(text[line_start(text, name_start, 200) : name_start])


def _end_of_words(
    text: bytes, start: int, end: int, limit: int, name_start: int, name: Name, operator: bytes
) -> int | None:
    """Where a value without quotes ends, if it continues after `end`; None if it is the start of a sentence."""
    rest = text[start:limit].rstrip()
    word = rest.split(None, 1)[0]
    # Property files escape these signs.
    is_plain = b"\\" not in word.replace(b"\\:", b"").replace(b"\\=", b"").replace(b"\\#", b"").replace(b"\\!", b"")
    is_longer = len(word) > end - start and is_plain and _NEXT_PAIR.search(word) is None
    is_longer = is_longer and not (operator == b":" and word.endswith(b"}") and b"{" not in word)  # A flow mapping.
    is_line = _LINE_LEAD.is_all_of(text, line_start(text, name_start, 80), name_start)
    if is_longer and is_line:
        end = start + len(word.rstrip(b",;\"'"))  # `PASSWORD=a,b(c` at the beginning of a line.
    if operator == b"=" and is_line and name.kind == "passphrase" and _is_phrase(rest):
        return start + len(rest)
    if len(word) == len(rest) or operator != b":" or name.demand is Demand.RANDOM:
        return end
    if _end_in_flow(text, name_start, start, start + len(rest)) is not None:
        return end
    if name.kind != "passphrase" and _is_letters(text[start:end]) and rest[end - start :].strip(b" \t,;.)"):
        return None  # "Password: must be changed": a sentence.
    scalar_end = yaml_scalar(text, name_start, start)
    if scalar_end is not None:
        return scalar_end
    if name.kind == "passphrase":
        pair = _PAIR_AFTER.search(text, end, start + len(rest))
        return pair[0][0] if pair else start + len(rest)
    return _more_words(text, end, limit)


def _is_phrase(words: bytes) -> bool:
    return _PLAIN_WORDS.is_all_of(words) and not words.lower().startswith(_NO_PHRASES)


_NO_PHRASES = (b"see ", b"none ", b"not ", b"no ", b"from ", b"read ", b"set ", b"use ", b"same ", b"ask ", b"the ")


def _is_letters(word: bytes) -> bool:
    return word.isalpha() or (not word.isascii() and word.decode("utf-8", "replace").isalpha())


def _more_words(text: bytes, end: int, limit: int) -> int:
    """Where a secret of several words ends: it continues while the words look like parts of a secret."""
    while (word := _NEXT_WORD.match(text, end, limit)) and is_mixed(text[word[1][0] : word[1][1]], announced=True):
        end = word[1][1]
    return end


def _sure(value: bytes, start: int, end: int, name: Name) -> SecretSpan | None:
    return SecretSpan(start, end, name.kind) if worth_masking(value, name, quoted=False) else None


_EXPRESSION = compiled(r"\(\?[:=!<iP]|\[\^?(?:[Aa0]-[Zz9]|\\[wdsbWDSB])")
"""A regular expression is the form of a secret, not a secret."""


@remembered
def worth_masking(value: bytes, name: Name, *, quoted: bool) -> bool:
    if b"<<<<<<<<" in value:
        return False  # One of our marks, blanked for the search: this value is masked already.
    if (b"[" in value or b"(?" in value) and _EXPRESSION.search(value):
        return False
    return bool(value) and is_secret(value, name.demand, quoted=quoted, kind=name.kind)


_COOKIE = compiled(r"""([^\s=;,"'\\]+)="?([^;,\s"'\\]+)""")
_COOKIE_NAME = Name("cookie", Demand.RANDOM)
_HARMLESS_COOKIES = frozenset((b"expires", b"path", b"domain", b"max-age", b"samesite", b"_ga", b"_gid"))


def cookies(text: bytes, start: int, end: int) -> Iterator[SecretSpan]:
    """The values of a header with cookies."""
    # Inside a JSON string, the line ends at its escape.
    escaped_end = text.find(b"\\n", start, end)
    end = escaped_end if escaped_end >= 0 else end
    for _, (name_start, name_end), (value_start, value_end) in _COOKIE.every(text, start, end):
        cookie = text[name_start:name_end].lower()
        if cookie in _HARMLESS_COOKIES:
            continue
        name = name_of_secret(cookie[:128]) or _COOKIE_NAME
        value = text[value_start : min(value_end, value_start + LOOK)]
        demand = Demand.RANDOM if name.in_query_only else name.demand
        if is_secret(value, demand, quoted=False, kind=name.kind) or (b"%" in value and len(value) > 24):
            yield SecretSpan(value_start, value_end, "cookie")


SPACED = compiled(
    rf"(?m)(?:^[ \t]*(?:[$#>][ \t]+)?(?:set(?:env)?[ \t]+(?:-\w+[ \t]+)?)?([\w.\-]*{ANCHOR}[\w.\-]*)"
    r"|\bAUTH(?:[ \t]+(?:PLAIN|LOGIN|default))?)[ \t]+(\S{8,})[ \t\r]*$"
)

_ARRAY = compiled(r"\[\d*\][a-z]")
"""A type in Go."""


def spaced(text: bytes, clock: MaskingDeadline) -> Iterator[SecretSpan]:
    """Settings with only a space between name and value, one per line."""
    for seen, (_, (name_start, name_end), (start, end)) in enumerate(name_windows(text, clock).rare.every(SPACED)):
        if seen % 256 == 0:
            clock.check()
        name = name_of_secret(text[name_start : min(name_end, name_start + 128)]) if name_start >= 0 else _COOKIE_NAME
        value = text[start : min(end, start + LOOK)].rstrip(b";\"'")
        is_type = _ARRAY.match(value) is not None
        is_likely = not is_type and (is_random(value) or is_mixed(value, announced=True))
        if name is not None and is_likely and not is_placeholder(value):
            yield SecretSpan(start, start + len(text[start:end].rstrip(b";\"'")), "secret")


def has_digits(value: bytes) -> bool:
    return value.translate(None, DIGITS) != value


@remembered
def is_mixed(value: bytes, *, announced: bool) -> bool:
    if len(value) < 8:
        return False
    if len(value) >= 16 and is_random(value):
        return True
    if not announced or b"/" in value or b":" in value:
        return False
    digits = len(value) - len(value.translate(None, DIGITS))
    letters = len(value) - len(value.translate(None, LETTERS))
    return digits > 0 and letters > 2 and (len(value) > digits + letters or value.lower() != value)
