"""Finds secrets by structure: Kubernetes Secrets, pairs of a name and a value, columns of tables.

`data` is harmless in a ConfigMap and secret in a Secret; `value` depends on the `name`
next to it, and either may come first. So two scanners walk JSON and YAML in place,
without building the document. They handle broken, truncated and mixed texts, store only
what a rule needs, and return spans of the original text.

One pass with a stack, without recursion: a document of a hundred thousand brackets
costs as much as any text of that length.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from tersely.masking.patterns import (
    ANCHOR,
    UUID_FORM,
    Demand,
    Name,
    compiled,
    is_placeholder,
    is_random,
    is_secret,
    is_sentence,
    name_of_secret,
    words_of,
)
from tersely.masking.spans import SecretSpan, line_start


class _Leaf(NamedTuple):
    start: int
    end: int
    quote: bytes = b""


def _flat(nested: list[Any]) -> Iterator[_Leaf]:
    waiting = [nested]
    while waiting:
        for entry in waiting.pop():
            if isinstance(entry, _Leaf):
                yield entry
            else:
                waiting.append(entry)


class _Frame:
    """A mapping or list that is being read."""

    __slots__ = (
        "column", "found", "holds", "inner", "is_list", "is_secret", "is_store", "is_web_key", "is_wireless", "key",
        "keys", "kind", "names", "private", "secret_data", "values",
    )  # fmt: skip

    def __init__(self, *, column: int, is_list: bool = False, secret_data: list[_Leaf] | None = None) -> None:
        self.column = column
        self.is_list = is_list
        self.key = b""
        """The last key, whose value comes next."""
        self.kind = b""
        self.names: list[bytes] = []
        self.values: list[_Leaf] = []
        self.is_secret = False
        """The record says so: its type is SecureString, or `sensitive` is true, …"""
        self.is_store = False
        """The record is a resource that holds secrets; values in nested records are secret, too."""
        self.is_web_key = False
        self.is_wireless = False
        self.keys: list[_Leaf] = []
        """Values of `key`: that of a wireless network is its password."""
        self.holds: Name | None = None
        """What the values of a record are that is called `tokens`, `passwords`, …"""
        self.private: list[_Leaf] = []
        """Private members, if this is a JSON web key."""
        self.inner: list[Any] = []
        """The values of nested records: leaves, in lists of lists."""
        self.secret_data = secret_data
        """Set in and below `data` and `stringData`: collects all leaves."""
        self.found: list[Any] = []
        """The `data` of this mapping and of nested ones without a `kind`: leaves, in lists of lists."""


_DATA_KEYS = frozenset((b"data", b"stringdata", b"binarydata"))
_NAME_WORDS = frozenset(("name", "key", "variable", "header", "field", "label", "option", "setting"))
_VALUE_WORDS = frozenset(("value", "val", "content", "contents", "plaintext", "default"))
_STORED = frozenset(
    (b"result", b"data", b"secret_data", b"secret_string", b"secretstring", b"bcrypt_hash", b"data_json")
)
_TYPES = frozenset((b"type", b"datatype", b"valuetype", b"inputtype", b"resource_type", b"purpose"))
_FLAGS = frozenset(
    ("sensitive", "secret", "secure", "secured", "masked", "concealed", "confidential", "encrypted", "noecho")
)
_WEB_KEY_MEMBERS = frozenset((b"d", b"p", b"q", b"dp", b"dq", b"qi", b"k"))
_SECRET_TYPE = compiled(r"secure_?string|secret(?:_?text|_?string)?|concealed|sensitive|credential|encrypted|password",
                        ignore_case=True)  # fmt: skip
_STORE_TYPE = compiled(r"random_(?:password|string|bytes|id)|\w+_secret(?:_version|_v1)?|\w*vault\w*", ignore_case=True)
_STORE_ADDRESS = compiled(r"vault\.(?:azure|usgovcloudapi|azure\.cn)|/secrets/[^/]+/versions/", ignore_case=True)
_WEB_KEY_VALUE = compiled(r"[\w\-+/]+={0,2}")
_SECRET_VALUE = Name("secret", Demand.ANY)
_WIRELESS_KEY = Name("password", Demand.ANY)
_UUID = compiled(UUID_FORM)
_IDENTIFYING = (("id",), ("name",), ("ref",), ("uuid",), ("accessor",))
_HOLDERS = {
    name: Name(kind, Demand.RANDOM)
    for kind, names in {
        "token": (b"tokens", b"authtokens", b"accesstokens", b"apitokens"),
        "password": (b"passwords",),
        "secret": (b"secrets", b"clientsecrets"),
        "credential": (b"credentials", b"creds"),
        "api_key": (b"apikeys", b"accesskeys", b"secretkeys", b"storagekeys"),
    }.items()
    for name in names
}
"""Names of records whose values are secrets if they are generated."""


@lru_cache(maxsize=4096)
def _role(key: bytes) -> str:
    """What a field of a record is for: name, value, type, flag, store, member, address; empty if for nothing here."""
    lowered = key.lower()
    words = words_of(key)
    if lowered in _TYPES:
        return "type"
    if lowered == b"kty" or lowered in _WEB_KEY_MEMBERS:
        return "member"
    if lowered in _STORED:
        return "stored"
    if lowered in (b"id", b"uri"):
        return "address"
    if not words:
        return ""
    if words[-1] in _FLAGS and len(words) <= 2:
        return "flag"
    if words[-1] in _VALUE_WORDS:
        return "value"
    return "name" if words[-1] in _NAME_WORDS else ""


class _Walk:
    """The rules, fed by both scanners."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.stack: list[_Frame] = [_Frame(column=-1)]
        self.spans: list[SecretSpan] = []

    def open(self, *, column: int = 0, is_list: bool = False) -> None:
        parent = self.stack[-1]
        frame = _Frame(column=column, is_list=is_list, secret_data=parent.secret_data)
        if frame.secret_data is None and parent.key.lower() in _DATA_KEYS and not parent.is_list:
            frame.secret_data = []
            parent.found.append(frame.secret_data)
        if not is_list and parent.key and not parent.is_list:
            frame.holds = _HOLDERS.get(parent.key.lower().replace(b"_", b"").replace(b"-", b""))
        self.stack.append(frame)

    def close(self) -> None:
        frame = self.stack.pop()
        kind = frame.kind.lower()
        if kind in (b"secret", b"secretlist"):
            self.spans += [
                SecretSpan(leaf.start, leaf.end, "kubernetes_secret", leaf.quote)
                for leaf in _flat(frame.found)
                if self._worth(leaf)
            ]
        elif not kind and frame.found and self.stack:
            self.stack[-1].found.append(
                frame.found
            )  # Items of a SecretList do not repeat their kind; the enclosing mapping has it.
        self._close_record(frame)

    def _close_record(self, frame: _Frame) -> None:
        name = next((name for name in map(name_of_secret, frame.names) if name is not None), None)
        if frame.is_secret or frame.is_store:
            name = _SECRET_VALUE
        if name is not None:
            self._mask(frame.values, name)
        if frame.is_store:
            self._mask(_flat(frame.inner), _SECRET_VALUE)
        elif self.stack and (frame.inner or frame.values):
            self.stack[-1].inner.append([frame.inner, *frame.values])
        if frame.is_wireless:
            self._mask(frame.keys, _WIRELESS_KEY)
        if frame.is_web_key:
            self.spans += [
                SecretSpan(leaf.start, leaf.end, "private_key")
                for leaf in frame.private
                if leaf.end - leaf.start >= 16 and _WEB_KEY_VALUE.is_all_of(self.text, leaf.start, leaf.end)
            ]

    def _mask(self, leaves: Iterable[_Leaf], name: Name) -> None:
        for leaf in leaves:
            value = self.text[leaf.start : min(leaf.end, leaf.start + 512)]
            if is_secret(value, name.demand, quoted=not leaf.quote, kind=name.kind):
                self.spans.append(SecretSpan(leaf.start, leaf.end, name.kind, leaf.quote))

    def leaf(self, leaf: _Leaf) -> None:
        frame = self.stack[-1]
        if frame.secret_data is not None:
            frame.secret_data.append(leaf)
        if frame.is_list or not frame.key:
            return
        if frame.holds is not None and words_of(frame.key)[-1:] not in _IDENTIFYING:
            if _UUID.is_all_of(self.text, leaf.start, leaf.end):
                self.spans.append(SecretSpan(leaf.start, leaf.end, frame.holds.kind, leaf.quote))
            self._mask((leaf,), frame.holds)
        lowered = frame.key.lower()
        if lowered == b"key":
            frame.keys.append(leaf)
        elif lowered.endswith(b"ssid") and not lowered.endswith(b"bssid"):
            frame.is_wireless = True
        if lowered == b"kind":
            frame.kind = self.text[leaf.start : leaf.end]
        if role := _role(frame.key):
            self._note(frame, role, leaf, self.text[leaf.start : min(leaf.end, leaf.start + 128)])

    def _note(self, frame: _Frame, role: str, leaf: _Leaf, value: bytes) -> None:
        if role == "value":
            frame.values.append(leaf)
        elif role == "name":
            frame.names.append(value)
            frame.is_store = frame.is_store or _STORE_ADDRESS.search(value) is not None
        elif role == "type":
            frame.is_secret = frame.is_secret or _SECRET_TYPE.is_all_of(value)
            frame.is_store = frame.is_store or _STORE_TYPE.is_all_of(value)
        elif role == "flag":
            frame.is_secret = frame.is_secret or value.lower() == b"true"
        elif role == "address":
            frame.is_secret = frame.is_secret or (b"/secrets/" in value and _STORE_ADDRESS.search(value) is not None)
        elif role == "stored":
            frame.inner.append([leaf])
        elif frame.key.lower() == b"kty":
            frame.is_web_key = True
        else:
            frame.private.append(leaf)

    def finish(self) -> list[SecretSpan]:
        while self.stack:
            self.close()
        return self.spans

    def _worth(self, leaf: _Leaf) -> bool:
        return leaf.end > leaf.start and not is_placeholder(self.text[leaf.start : min(leaf.end, leaf.start + 512)])


_NEARBY = 4096
"""Most bytes between a name and its value."""


def object_start(text: bytes, at: int) -> int | None:
    lowest = max(0, at - _NEARBY)
    depth, place = 0, at
    for _ in range(64):
        place = max(text.rfind(b"{", lowest, place), text.rfind(b"}", lowest, place))
        if place < 0:
            return None
        if text[place] == 0x7D:
            depth += 1
        elif depth:
            depth -= 1
        else:
            return place
    return None


def mapping_around(text: bytes, at: int) -> tuple[int, int]:
    """The lines of the YAML mapping with the key at this place: those that are indented at least as deep."""
    start = line_start(text, at, _NEARBY)
    column = at - start
    lowest, highest = max(0, at - _NEARBY), min(len(text), at + _NEARBY)
    while start > lowest and not text[start:at].lstrip(b" \t").startswith(b"-"):
        before = text.rfind(b"\n", lowest, start - 1) + 1
        line = text[before : start - 1]
        if line == b"\0":
            break
        if line.strip() and len(line) - len(line.lstrip(b" \t-")) < column:
            break
        start = before
        if line.lstrip(b" \t")[:1] == b"-" and len(line) - len(line.lstrip(b" \t-")) == column:
            break
    end = text.find(b"\n", at, highest)
    while 0 <= end < highest:
        following = text.find(b"\n", end + 1, highest)
        line = text[end + 1 : following if following >= 0 else highest]
        if line == b"\0":
            break
        if line.strip() and len(line) - len(line.lstrip(b" \t")) < column:
            break
        end = following
    return start, end if end >= 0 else highest


# A string ends at its quote, at the end of the line (JSON has no raw line breaks, so a stray quote affects one line),
# or at the end of the text. The standard library's `re` is three times as fast as re2 for small tokens; possessive
# quantifiers leave it nothing to try again, so the time is linear.
_STRING = rb'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+'
_JSON_TOKEN = re.compile(rb'%b"?+(?:[ \t]*+:)?+|[{}\[\]]|[^\s"{}\[\],:]++' % _STRING)
_TO_BRACKET = re.compile(rb'[^"{}\[\]]*+(?:%b(?:"|\\?\n|\\?\Z)[^"{}\[\]]*+)*+(?:[{}\[\]]|\Z)' % _STRING)


def object_end(text: bytes, start: int, at: int) -> int:
    """Where the object that begins at `start` ends, or a limited distance after `at`."""
    limit = min(len(text), at + _NEARBY)
    depth = 0
    for found in _TO_BRACKET.finditer(text, start, limit):
        char = text[found.end() - 1]
        depth += (char in b"{[") - (char in b"}]")
        if depth <= 0:
            return found.end()
    return limit


def walk_object(text: bytes, start: int, end: int, check: Callable[[], None]) -> list[SecretSpan]:
    """Find the secrets in the JSON object in this range."""
    check()
    walk = _Walk(text)
    stack = walk.stack
    for token in _JSON_TOKEN.finditer(text, start, end):
        at, to = token.span()
        char = text[at]
        if to == end < len(text) and (whole := _JSON_TOKEN.match(text, at)):
            to = whole.end()  # The range ends inside a value; the value is read to its end.
        if char == 0x22:
            close = text.rfind(b'"', at + 1, to)
            is_key = text[to - 1] == 0x3A and close > at
            inner_end = close if close > at else to
            if is_key:
                stack[-1].key = text[at + 1 : min(inner_end, at + 129)]
            else:
                walk.leaf(_Leaf(at + 1, inner_end))
        elif char in b"{[":
            walk.open(is_list=char == 0x5B)
        elif char in b"}]":
            if len(stack) > 1 and stack[-1].is_list == (char == 0x5D):
                walk.close()
        else:
            walk.leaf(_Leaf(at, to, quote=b'"'))
    return walk.finish()


_SECRET_OBJECT = compiled(r'"kind"\s*:\s*"secret(?:list)?"', ignore_case=True)
_DATA_OBJECT = compiled(r'"(?:data|stringdata|binarydata)"\s*:\s*[{\[]', ignore_case=True)


def walk_secrets(text: bytes, check: Callable[[], None]) -> Iterator[SecretSpan]:
    """Find the values of Kubernetes Secrets in JSON: all that is under `data` in an object of that kind.

    Only brackets are read outside of `data`, so that a Secret among a thousand pods costs little.
    """
    kinds = [place[0][0] for place in _SECRET_OBJECT.every(text)]
    if not kinds:
        return
    data = dict.fromkeys((place[0][1] - 1 for place in _DATA_OBJECT.every(text)), len(text))
    objects = sorted(_objects_with(text, kinds, data, check))
    opened = list(data)
    walked = 0
    for start, end in objects:
        number = bisect_left(opened, max(start, walked))
        while number < len(opened) and opened[number] < end:
            walked = data[opened[number]]
            yield from _leaves(text, opened[number], walked)
            number = bisect_left(opened, walked)


def _objects_with(
    text: bytes, places: list[int], closed: dict[int, int], check: Callable[[], None]
) -> Iterator[tuple[int, int]]:
    """The objects that have one of these places among their own members; `closed` gets the ends of its objects."""
    stack: list[int] = []
    owners: set[int] = set()
    number = 0
    for count, found in enumerate(_TO_BRACKET.finditer(text)):
        if count % 4096 == 0:
            check()
        at = found.end() - 1
        while number < len(places) and places[number] < at:
            number += 1
            if stack and text[stack[-1]] == 0x7B:
                owners.add(stack[-1])
        char = text[at]
        if char in b"{[":
            stack.append(at)
        elif char in b"}]" and stack and text[stack[-1]] == char - 2:
            start = stack.pop()
            if start in closed:
                closed[start] = at
            if start in owners:
                yield start, at
    yield from ((start, len(text)) for start in stack if start in owners)


def _leaves(text: bytes, start: int, end: int) -> Iterator[SecretSpan]:
    for token in _JSON_TOKEN.finditer(text, start, end):
        at, to = token.span()
        char = text[at]
        if char in b"{}[]" or text[to - 1] == 0x3A:
            continue
        is_string = char == 0x22
        if is_string:
            at, to = at + 1, to - (to - at > 1 and text[to - 1] == 0x22)
        if at < to and not is_placeholder(text[at : min(to, at + 512)]):
            yield SecretSpan(at, to, "kubernetes_secret", b"" if is_string else b'"')


_YAML_KEY = rb"""(?:"[^"\n]*+"|'[^'\n]*+'|[^\s#\-"'{\[&*!|>%@`,?:][^\n:#]*+|-[^\s\n:][^\n:#]*+)"""
_YAML_LINE = re.compile(
    rb"(?m)^([ \t]*+)((?:-[ \t]++)*+)(?:(%b)[ \t]*+:(?:[ \t]++([^\n]*+)|[ \t\r]*+$)|(---.*|\.\.\.[ \t\r]*+)$|([^\n]*+))"
    % _YAML_KEY
)
"""By `re`, with possessive quantifiers, as in `_JSON_TOKEN`."""
_YAML_BLOCK = compiled(r"(?:[&!][^\s]*[ \t]+)*[|>][+\-\d]*[ \t]*(?:#.*)?\r?")
_YAML_PREFIX = compiled(r"(?:[&!][^\s]*[ \t]+)+")
_FLOW_PAIR = compiled(
    r"""([\w.\-]+|"[^"\n]*"|'[^'\n]*')[ \t]*:[ \t]*("[^"\n]*"|'[^'\n]*'|[^\s,{}\[\]"'][^,{}\[\]\n]*)"""
)


def walk_yaml(text: bytes, check: Callable[[], None]) -> list[SecretSpan]:
    """Find the secrets in YAML. `check` is called regularly; it may raise to end the walk."""
    walk = _Walk(text)
    stack = walk.stack
    for count, (indent, dashes, key, value, is_border) in enumerate(_yaml_lines(text)):
        if count % 1024 == 0:
            check()
        if is_border:
            while len(stack) > 1:
                walk.close()
            walk.close()
            stack.append(_Frame(column=-1))
            continue
        column = indent + dashes
        # A dash opens a new item and closes everything that is deeper than the dash.
        while len(stack) > 1 and stack[-1].column > (indent if dashes else column):
            walk.close()
        if stack[-1].column < column:
            walk.open(column=column)
        if key:
            stack[-1].key = key
        elif dashes:
            stack[-1].key = b""
        if value is None:
            continue
        start, end, is_flow = value
        if not is_flow:
            walk.leaf(_Leaf(start, end))
            continue
        walk.open(column=column + 1)
        for _, (key_start, key_end), flow_value in _FLOW_PAIR.every(text, start, end):
            stack[-1].key = text[key_start:key_end].strip(b"\"'")
            walk.leaf(_unquoted(text, *flow_value))
        walk.close()
    return walk.finish()


def _yaml_lines(text: bytes) -> Iterator[tuple[int, int, bytes, tuple[int, int, bool] | None, bool]]:
    """Yield per line: indentation, width of dashes, key, span of the value with a flag for flow mappings, separator."""
    at = 0
    while at <= len(text) and (found := _YAML_LINE.search(text, at)):
        line_end = found.end()
        at = line_end + 1
        lead, dash, name, _, border, _ = found.groups()
        indent, dashes = len(lead), len(dash)
        if border is not None:
            yield 0, 0, b"", None, True
            continue
        key = name.strip(b" \t\"'") if name is not None else b""
        start, end = found.span(4 if key else 6)
        if start < 0 or not (key or dashes):
            if key:
                yield indent, dashes, key, None, False
            continue
        if text[start : start + 1] in (b"|", b">", b"&", b"!") and _YAML_BLOCK.is_all_of(text, start, end):
            body = block_body(text, line_end + 1, indent + dashes if key else indent)
            yield indent, dashes, key, (*body, False) if body else None, False
            at = body[1] + 1 if body else at
            continue
        if prefix := _YAML_PREFIX.match(text, start, end):
            if b"!!" in text[start : prefix[0][1]] and b"!!str" not in text[start : prefix[0][1]]:
                yield indent, dashes, key, None, False  # A number or a flag: a mark is neither.
                continue
            start = prefix[0][1]
        leaf = _unquoted(text, start, end)
        is_flow = text[leaf.start : leaf.start + 1] == b"{"
        yield indent, dashes, key, (leaf.start, leaf.end, is_flow) if leaf.end > leaf.start else None, False


def block_body(text: bytes, start: int, indent: int, enough: int | None = None) -> tuple[int, int] | None:
    """The lines of a block scalar: those indented deeper than its key, or the first ones with `enough` bytes."""
    at, first, last = start, -1, -1
    while at < len(text) and (enough is None or last - start < enough):
        end = text.find(b"\n", at)
        end = len(text) if end < 0 else end
        line = text[at:end]
        content = line.strip()
        if content:
            width = len(line) - len(line.lstrip())
            if width <= indent:
                break
            first = at + width if first < 0 else first
            last = at + len(line.rstrip())
        at = end + 1
    return (first, last) if first >= 0 else None


def _unquoted(text: bytes, start: int, end: int) -> _Leaf:
    """A YAML scalar without its quotes, trailing comment and blanks."""
    quote = text[start : start + 1]
    if quote in (b'"', b"'"):
        close = text.rfind(quote, start + 1, end)
        return _Leaf(start + 1, close if close > start else end)
    comment = text.find(b" #", start, end)
    end = comment if comment >= 0 else end
    return _Leaf(start, start + len(text[start:end].rstrip()))


_HEADER = compiled(rf"""(?m)^[\w "'.\-|,;\t]*{ANCHOR}[\w "'.\-|,;\t]*\r?$""", ignore_case=True)
_RULE = b"-+=| \t\r:"


def walk_tables(text: bytes, check: Callable[[], None]) -> Iterator[SecretSpan]:
    """Find secrets in columns of tables: a heading line, then lines with as many cells.

    Cells are separated by commas, tabs, semicolons or bars.
    """
    walked = 0
    for count, ((start, end),) in enumerate(_HEADER.every(text)):
        if count % 256 == 0:
            check()
        if start < walked:
            continue
        line = text[start:end]
        divider = max((b"|", b"\t", b",", b";"), key=line.count)
        if divider not in line:
            if _SPACES not in line.strip():
                continue  # One cell.
            divider = _SPACES
        headings = [text[slice(*cell)] for cell in _cells(text, start, end, divider)]
        if len(headings) < 2 or (divider != b"|" and not all(headings)) or any(map(_NO_HEADING.match, headings)):
            continue
        names = {
            column: name
            for column, heading in enumerate(headings)
            if heading.count(b" ") < 3 and (name := name_of_secret(heading[:128]))
        }
        if not names or _is_row(text, start, end, divider, headings, min(names)):
            continue
        walked = end + 1
        while walked < len(text):
            line_end = text.find(b"\n", walked)
            line_end = len(text) if line_end < 0 else line_end
            cells = _row(text, walked, line_end, divider, len(headings), names)
            if cells is None:
                break
            walked = line_end + 1
            for column, name in names.items() if cells else ():
                value = text[slice(*cells[column])][:512]
                if name.in_query_only or not is_secret(value, name.demand, quoted=True, kind=name.kind):
                    continue
                if name.kind != "passphrase" and is_sentence(value):
                    continue
                if divider != _SPACES or is_random(value) or _is_dense(value):
                    yield SecretSpan(*cells[column], name.kind)


_NO_HEADING = compiled(r"\d+(?:[.,:/\-]|[0-9A-Fa-f]{3,}(?:\s|$)|\s|$)|\S+ \S+ \S+ \S+ \S+ \S+ \S+")
"""A cell that is no heading: a number, a version, a date, an address, a sentence."""


def _is_row(text: bytes, start: int, end: int, divider: bytes, headings: list[bytes], first: int) -> bool:
    """Whether a line that could be a heading is a row of a list: a cell after the name repeats in a neighbouring row.

    Args:
        first: The column of the name.
    """
    above = line_start(text, start - 1, _NEARBY) if start else 0
    below = text.find(b"\n", end + 1, end + _NEARBY)
    below = min(len(text), end + _NEARBY) if below < 0 else below
    for edge, last in ((above, max(0, start - 1)), (min(len(text), end + 1), below)):
        row = [text[slice(*cell)] for cell in _cells(text, edge, last, divider)]
        pairs = zip(row, headings, strict=False)
        if len(row) == len(headings) and any(cell and cell == other for cell, other in list(pairs)[first + 1 :]):
            return True
    return False


_SPACES = b"  "
_SPACED_CELL = re.compile(rb"[^\t\n\f\r ]++(?: [^\t\n\f\r ]++)*+")
"""By `re`, with possessive quantifiers, as in `_JSON_TOKEN`."""


def _is_dense(value: bytes) -> bool:
    """Whether a value has a digit, a letter, and a sign or letters of both cases."""
    has_digit, is_both = any(48 <= char <= 57 for char in value), value.lower() != value != value.upper()
    return len(value) >= 8 and has_digit and (is_both or not value.isalnum()) and b" " not in value


def _row(
    text: bytes, start: int, end: int, divider: bytes, width: int, columns: Iterable[int]
) -> dict[int, tuple[int, int]] | None:
    """The cells of these columns; none for a line between rows; None if the table has ended."""
    line = text[start:end]
    if not line.strip(_RULE):
        return {}
    if divider == _SPACES or b'"' in line:
        every = _cells(text, start, end, divider)
        if len(every) == width:
            return {column: every[column] for column in columns}
        return None if every else {}
    if line.count(divider) != width - 1:
        return None
    blank = b" \r'" if divider == b"\t" else b" \t\r'"
    pieces = line.split(divider)
    cells: dict[int, tuple[int, int]] = {}
    for column in columns:
        first = start + sum(map(len, pieces[:column])) + column
        left = len(pieces[column]) - len(pieces[column].lstrip(blank))
        cells[column] = first + left, first + left + len(pieces[column].strip(blank))
    return cells


def _cells(text: bytes, start: int, end: int, divider: bytes) -> list[tuple[int, int]]:
    """The spans of the cells of a line, without quotes and blanks."""
    cells: list[tuple[int, int]] = []
    if divider == _SPACES:
        return [cell.span() for cell in _SPACED_CELL.finditer(text, start, min(end, start + 4096))]
    blank = b" \r'" if divider == b"\t" else b" \t\r'"
    at = first = start
    for piece in text[start:end].split(divider):
        at += len(piece)
        cell = text[first:at]
        if cell.count(b'"') % 2 == 0:  # Else the divider is part of a quoted cell.
            left = len(cell) - len(cell.lstrip(blank))
            inner = cell.strip(blank)
            is_quoted = len(inner) > 1 and inner[:1] == inner[-1:] == b'"'
            cells.append((first + left + is_quoted, first + left + len(inner) - is_quoted))
            first = at + 1
        at += 1
    return cells


_ROWS = compiled(
    rf"""\b(?:insert[ \t]+into|replace[ \t]+into|copy)[ \t]+[\w.`"\[\]]+[ \t]*\(([^()]*{ANCHOR}[^()]*)\)\s*"""
    r"""(?:values?\s*\(|from[ \t]+stdin[^\n]*\n)""",
    ignore_case=True,
)
_SQL_VALUE = compiled(r"""\s*(?:[NE]?'((?:[^'\\]|\\.|'')*)'|"((?:[^"\\]|\\.)*)"|([^,()'";]+))\s*([,)])(\s*,?\s*\()?""")


def walk_rows(text: bytes, check: Callable[[], None]) -> Iterator[SecretSpan]:
    """Find secrets in the rows that SQL inserts, by the names of their columns."""
    for (_, at), (start, end) in _ROWS.every(text):
        check()
        names = [name_of_secret(column.strip(b' \t\r\n`"[]')[:128]) for column in text[start:end].split(b",")]
        if not any(names):
            continue
        rows = _copied(text, at) if text[at - 1] == 0x0A else _inserted(text, at, check)
        for column, value_start, value_end in rows:
            name = names[column] if column < len(names) else None
            if name is not None and is_secret(
                text[value_start : min(value_end, value_start + 512)], name.demand, quoted=True, kind=name.kind
            ):
                yield SecretSpan(value_start, value_end, name.kind)


def _inserted(text: bytes, at: int, check: Callable[[], None]) -> Iterator[tuple[int, int, int]]:
    column = count = 0
    while places := _SQL_VALUE.match(text, at):
        count += 1
        if count % 256 == 0:
            check()
        start, end = next(place for place in places[1:4] if place[0] >= 0)
        if places[3][0] < 0:  # What has no quotes is a number, a parameter or a function.
            yield column, start, end
        at, column = places[0][1], column + 1
        if text[places[4][0]] == 0x29:
            column = 0
            if places[5][0] < 0:
                return


def _copied(text: bytes, at: int) -> Iterator[tuple[int, int, int]]:
    while at < len(text) and text[at : at + 2] != b"\\.":
        end = text.find(b"\n", at)
        end = len(text) if end < 0 else end
        for column, cell in enumerate(text[at:end].split(b"\t")):
            yield column, at, at + len(cell)
            at += len(cell) + 1
        at = end + 1


_SCALAR_LEAD = compiled(r"""[ \t]*(?:-[ \t]+)*(?:(?:[\w.\-/]+|"[^"]*"|'[^']*')[ \t]*:[ \t]+)?(?:&\S+[ \t]+)?""")
_FLOW_LEAD = compiled(r"""[ \t]*(?:(?:-[ \t]+)+(?:[\w.\-/"']+:[ \t]+)?|[\w.\-/"']+:[ \t]+)[\[{]""")
_FLOW_LINE = compiled(r"""[ \t]*(?:\{[\w.\-/"']+: [^\n]*\}|\[[^\n]*\])[ \t\r]*""")
_FLOW_OPENED = compiled(
    r"""[ \t]*(?:(?:-[ \t]+)+(?:[\w.\-/"']+:[ \t]+)?[\[{]|[\w.\-/"']+:[ \t]+[\[{]|\{[\w.\-/"']+:(?:[ \t\r]|$))"""
)
"""A line with which a flow collection begins that ends in a later one."""
_FLOW_LINES = 12
"""Most lines above a place in which its flow collection is looked for."""
_YAML_LIKE = compiled(r"""[ \t]*(?:-[ \t]+[^\n]*|(?:-[ \t]+)?[\w.\-/"']+:(?:[ \t][^\n]*)?)\r?""")
_LINE, _FLOW = 400, 2000
"""Longer lines are not treated as YAML; those of flow collections may be longer."""


_QUOTED = compiled(r"""(?:^|[\[{,:])\s*("(?:[^"\\]|\\.)*"|'[^']*(?:''[^']*)*')""")
_OPEN_QUOTE = compiled(r"""(?:^|[\[{,:])\s*["']""")


def _blanked(flow: bytes) -> bytes:
    """Replace quoted scalars, so that brackets and commas in them do not count."""
    for _, (start, end) in _QUOTED.every(flow):
        flow = flow[:start] + b"q" * (end - start) + flow[end:]
    return flow


def _line_around(text: bytes, start: int, end: int, reach: int = _LINE) -> tuple[int, int] | None:
    line_start = text.rfind(b"\n", max(0, start - reach), start) + 1
    line_end = text.find(b"\n", end, end + reach)
    line_end = min(len(text), end + reach) if line_end < 0 else line_end
    return (line_start, line_end) if start - line_start <= reach else None


def yaml_scalar(text: bytes, name_start: int, start: int) -> int | None:
    """Where the plain scalar at `start` ends, if its line and a neighbouring one look like YAML; None otherwise."""
    line = _line_around(text, name_start, start)
    if line is None or not _SCALAR_LEAD.is_all_of(text, line[0], start):
        return None
    if _flow_above(text, line[0], start) is not None:
        return None
    before = text[text.rfind(b"\n", max(0, line[0] - _LINE), max(0, line[0] - 1)) + 1 : max(0, line[0] - 1)]
    lead = text[line[0] : name_start]
    continued = _continued(text, line[1], len(lead) - len(lead.lstrip(b" \t")))
    after_end = text.find(b"\n", continued + 1, continued + _LINE)
    after = text[continued + 1 : after_end if after_end >= 0 else continued + _LINE]
    if not any(neighbour.strip() and _YAML_LIKE.is_all_of(neighbour) for neighbour in (before, after)):
        return None
    end = _unquoted(text, start, line[1]).end
    is_continued = continued > line[1] and not text[end : line[1]].strip()  # A comment ends a scalar.
    return start + len(text[start:continued].rstrip()) if is_continued else end


_CONTINUES = compiled(r"""[ \t]+[^\s#"'{}\[\]&*!|>%@`,?:\-][^\n:#"'{}\[\]<>()=]*""")
_MOST_CONTINUED = 8


def _continued(text: bytes, line_end: int, indent: int) -> int:
    """Where the last line ends that continues a plain scalar: those indented deeper than its key, and no entries."""
    for _ in range(_MOST_CONTINUED):
        start = line_end + 1
        end = text.find(b"\n", start, start + _LINE)
        end = min(len(text), start + _LINE) if end < 0 else end
        width = len(text[start:end]) - len(text[start:end].lstrip(b" \t"))
        if start >= end or width <= indent or not _CONTINUES.is_all_of(text, start, end):
            break
        line_end = end
    return line_end


def _is_open(lead: bytes) -> bool:
    """Whether a flow collection is open after this text, and no quoted scalar is."""
    is_open = lead.count(b"[") + lead.count(b"{") > lead.count(b"]") + lead.count(b"}")
    return is_open and _OPEN_QUOTE.search(lead) is None


def _flow_above(text: bytes, line: int, start: int) -> int | None:
    """Where the flow collection begins that is open at `start`, in this line or in one of those above it."""
    lowest = max(0, start - _FLOW)
    bracket = max(text.rfind(b"[", min(line, lowest), start), text.rfind(b"{", min(line, lowest), start))
    if bracket < 0:
        return None
    for _ in range(_FLOW_LINES):
        # Only a line that has a bracket can open a collection; most have none.
        if line <= bracket and _FLOW_OPENED.match(text, line, start) and _is_open(_blanked(text[line:start])):
            return line
        if line <= lowest:
            return None
        line = text.rfind(b"\n", lowest, line - 1) + 1 or lowest
    return None


def scalar_to_quote(text: bytes, start: int, end: int) -> tuple[int, int] | None:
    """The plain YAML scalar that needs quotes once a mark begins at `start`; None if it needs none.

    A mark in the middle of a scalar is only text, and a mark in place of a whole scalar is a list: both parse. A mark
    with text after it, or inside `[a, b]`, does not.
    """
    if text[start - 1 : start] in (b'"', b"'"):
        return None
    line = _line_around(text, start, end, _FLOW)
    if line is None:
        return None
    line_start, line_end = line
    lead = text[line_start:start]
    if lead[-1:] not in (b" ", b"\t") and b"[" not in lead and b"{" not in lead:
        return None  # The beginning of a line, or no scalar's: those follow a blank, and flow a bracket.
    after = text[end:line_end].strip()
    if lead.strip() and _SCALAR_LEAD.is_all_of(lead):
        if not after or after.startswith(b"#"):
            return None
        if _flow_above(text, line_start, start) is None:
            return start, end + len(text[end:line_end].rstrip())
    is_flow = _FLOW_LEAD.match(lead) is not None or _FLOW_LINE.is_all_of(text, line_start, line_end)
    flow_start = line_start if is_flow else _flow_above(text, line_start, start)
    if flow_start is None:
        return None
    lead = _blanked(text[flow_start:start])
    if not _is_open(lead):
        return None
    opened = max(map(lead.rfind, (b"[", b"{", b", ", b": ", b",\n", b":\n")))
    first = flow_start + opened + 1
    first += len(text[first:start]) - len(text[first:start].lstrip())
    if first > start:
        return None
    closing = [place for place in (text.find(mark, end, line_end) for mark in (b", ", b"]", b"}")) if place >= 0]
    last = min(closing, default=end + len(text[end:line_end].rstrip(b", \t\r")))
    return None if (first, last) == (start, end) else (first, last)
