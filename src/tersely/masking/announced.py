"""Finds secrets that a name announces without a plain assignment.

`masking.assignments` reads `name = value`. Here are the other syntaxes: values in
wrappers (`Some("…")`, `getenv("X", "…")`), pairs of elements, attributes or arguments,
values on the next line, sentences, and sentences in which the value comes first. Each
syntax is one row of a table with a name and a value; all rows are searched in one pass.

The looser the syntax, the more the value has to look like a secret.
"""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from tersely.masking.assignments import is_mixed, joined_literals, worth_masking
from tersely.masking.patterns import (
    ANCHOR,
    Demand,
    Name,
    Pattern,
    Places,
    any_of,
    compiled,
    groups_in,
    is_code,
    is_coined,
    is_compound,
    is_placeholder,
    is_random,
    is_sentence,
    name_of_secret,
    names_something,
    remembered,
    words_of,
)
from tersely.masking.spans import LOOK, MaskingDeadline, SecretSpan
from tersely.masking.windows import NameWindows, name_windows

_NAME = rf"([\w.\-]*{ANCHOR}[\w.\-]*)"
_ASSIGN = r"""["'`\])]{0,3}[ \t]*(?:[:?|+.]{0,2}=[>=]?|:|->)[ \t]*"""
# Without the closing quote, which may be cut off or beyond the window that is searched.
_STRING = r"""(?:"((?:[^"\\\n]|\\.)+)|'((?:[^'\\\n]|\\.)+))"""
_BARE = r"""([^\s"'`(){}\[\]<>,;=]{6,}={0,2})"""

# `new Secret(`, `os.getenv("NAME", `, `Field(default=`, `Value(String(`: whatever stands between the separator and the
# quoted value.
_CALL = (
    r"""(?:(?:new|await|Just|return)[ \t]+|[&*$@]|\([\w. *]+\)[ \t]*)?[A-Za-z_][\w.:<>!\-]*[ \t]?[(\[][ \t]*"""
    r"""(?:["'][\w.\-:/]*["'][ \t]*,[ \t]*)?(?:[a-z_]+[ \t]?[:=][ \t]*)?[bru&]?"""
)
_ALTERNATIVE = r"""[A-Za-z_$][\w.$]*(?:[(\[]["']?[\w.\-]*["']?[)\]])?[ \t]*(?:\|\||\?\?|\?:|\bor\b)[ \t]*"""
_PREFIX = r"""(?:Just[ \t]+|[NEL$&]|r#+|\([\w. *]+\)[ \t]*|\(|""|''|&?ConvertTo-SecureString[ \t]+(?:-String[ \t]+)?)"""
_WRAPPER = rf"(?:(?:{_CALL}){{1,3}}|{_ALTERNATIVE}|{_PREFIX})"

_NAMED, _SURE, _STRONG, _BYTES = range(4)
"""What a form demands of a value: nothing more than its name does; a digit under a name that leaves no doubt, else the
look of a secret; the look of a secret; nothing, as the form is all that numbers have."""
_OF_WORDS = ("passphrase", "mnemonic")
_FORMS: tuple[tuple[str, int], ...] = (
    (rf"""{_NAME}{_ASSIGN}{_WRAPPER}(?:\n[ \t]*)?{_STRING}""", _NAMED),
    (rf"""{_NAME}{_ASSIGN}(?:""\"|''')(?:\n[ \t]*)?([^"'\n]+)""", _NAMED),
    (rf"""{_NAME}{_ASSIGN}(?:%[qQ]|q[qw]?)[({{]{_BARE}[)}}]""", _NAMED),
    (rf"""{_NAME}{_ASSIGN}(?:\$\{{[\w.]+:[\-=+?]?|%[({{]|\{{){_BARE}[)}}]""", _STRONG),
    (rf"""{_NAME}{_ASSIGN}[A-Za-z][\w.:]*[(\[]{_BARE}[)\]]""", _STRONG),
    (rf"""{_NAME}{_ASSIGN}\{{([^{{}}\s"']{{6,}})\}}""", _STRONG),
    (rf"""{_NAME}{_ASSIGN}<!\[CDATA\[([^\]<]+)""", _NAMED),
    # A change in a plan: "old" -> "new".
    (rf"""{_NAME}["']?[ \t]*[=:][ \t]*["'][^"'\n]*["'][ \t]*->[ \t]*{_STRING}""", _NAMED),
    # PHP.
    (rf"""\["{_NAME}"\]=>\s*string\(\d+\)[ \t]"([^"\n]+)""", _NAMED),
    (rf"""s:\d+:"{_NAME}";s:\d+:"([^"\n]+)""", _NAMED),
    # Elements and attributes.
    (rf"""<(?:\w+:)?{_NAME}[ \t]+[^<>\n]*>\s*([^<>\n]+)""", _NAMED),
    (rf"""(?i:name|key|id)=["']{_NAME}["'](?:[^<>\n]*[^<>\n/])?>\s*(?:<[\w]+>\s*)?([^<>\n]+)""",
     _NAMED),
    (rf"""<(?:t[dh]|dt|key|name|strong|b|code|Key)\b[^<>\n]*>\s*(?:<\w+>)?{_NAME}:?(?:</\w+>)+\s*<\w+\b[^<>\n]*>"""
     r"""\s*(?:<\w+>)?([^<>\n]+)""", _NAMED),
    (rf"""(?i:name|key|id)=["']?{_NAME}["']?[ \t,;]+[\w="' \t]*?(?i:\w*value|content)=["']?([^\s"'<>,;]+)""", _NAMED),
    (rf"""name="{_NAME}"\r?\n(?:[\w\-]+:[^\n]*\n)*\r?\n([^\r\n]+)""", _NAMED),
    (rf"""\bname={_NAME}::(\S+)""", _NAMED),
    (rf"""(?m:^)[ \t]*\[{_NAME}\][ \t]*\r?\n[ \t]*value[ \t]*[=:][ \t]*["']?([^\s"']+)""", _NAMED),
    # The bytes of a key.
    (rf"""{_NAME}[^\n"'=:{{]*[=:][^\n"'=:\[{{(]*[\[{{(]\s*((?:0x[0-9a-f]{{2}}[,\s]*){{8,}})""", _BYTES),
    # Leaders, tuples.
    (rf"""{_NAME}\.{{3,}}[ \t]*[:=]?[ \t]*{_STRING}""", _NAMED),
    (rf"""[{{(][ \t]*(?:<<["']\$?|:)?{_NAME}(?:["']>>)?[ \t]*,[ \t]*(?:<<)?{_STRING}""", _SURE),
    # A space between name and value: definitions, and quoted values.
    (rf"""(?m:^)[ \t]*(?:ENV|ARG|#define|setenv|\\?set(?:[ \t]+-\w+)?|git[ \t]+config(?:[ \t]+--?\w+)*"""
    rf"""|\w+[ \t]+config[ \t]+set)"""
     rf"""[ \t]+(?:[\w./:@]*[./:])?{_NAME}[ \t]+["']?([^\s"']+)""", _NAMED),
    (rf"""[:("']{_NAME}["']?[ \t]+(?:\.[ \t]+)?"([^"\n]+)""", _STRONG),
    (rf"""{_NAME}["'`]?[ \t]+["'`]([^\s"'`]+(?: [A-Za-z]+){{0,11}})["'`]""", _SURE),
    (rf"""\b(?:put|set|add|write|store|save|create)[ \t]+(?:--?[\w\-]+[ \t]+)*"""
     rf"""["']?(?:[\w./:@\-]*[./:])?{_NAME}["']?[ \t]+"""
     r"""["']?([^\s"'=:\d]*\d[^\s"'=:]*)""", _SURE),
    (rf"""(?i:alter[ \t]+\w+|set)[ \t]+(?i:set[ \t]+)?{_NAME}[ \t]+(?i:to)[ \t]+{_STRING}""", _NAMED),
    # A setter, and the default in a template.
    (rf"""{_NAME}\([ \t]*[@&]?{_STRING}["'][ \t]*\)""", _SURE),
    (rf"""{_NAME}{_ASSIGN}["']?(?:\{{\{{|<%=?|\$\{{|#\{{)(?:[^{{}}\n%]|%[^{{}}\n>])*"""
     rf"""(?:,|default\(|\|\||\bor\b|\?:)[ \t]*(?:default=)?{_STRING}""", _SURE),
    # What a function, a closure or a choice gives.
    (rf"""{_NAME}(?:[ \t]*:[ \t]*[\w<>?]+)?[ \t]+by[ \t]+\w+(?:\([^()\n]*\))?[ \t]*\{{[ \t]*"""
     rf"""(?:return[ \t]+)?{_STRING}""", _NAMED),
    (rf"""{_NAME}(?:[ \t]*[:(][^\n={{"']*)?[ \t]*(?:=>?|->)?[ \t]*\{{?[ \t]*(?:return|get|=>|->)[ \t]+{_STRING}""",
     _STRONG),
    (rf"""{_NAME}{_ASSIGN}[^\n;?=]*[!=]?=?[^\n;?=]*\?[^\n;?=]*:[ \t]*{_STRING}""", _STRONG),
    # The string on the next line: `final String DB_PASSWORD =`.
    (rf"""{_NAME}(?:[ \t]*:[ \t]*[\w<>?&']+)?[ \t]*:?=[ \t]*\r?\n[ \t]*{_STRING}""", _STRONG),
    # The value on the next line, after a name or after a sentence.
    (rf"""(?m:^)[ \t\-]*["']?{_NAME}["']?[ \t]*(?::|=|=[ \t]*\\)[ \t]*\r?\n[ \t]*["']?([^\s"']{{8,}})""", _STRONG),
    (rf"""{_NAME}(?:[ \t]+[a-z]+){{0,3}}[ \t]*:[ \t*]*\r?\n(?:[ \t]*\r?\n)?[ \t>*]*["'`]?"""
     rf"""([^\s"'`(){{}}\[\]=<>;,:]{{8,}}={{0,2}})""",
     _STRONG),
)  # fmt: skip
"""Syntaxes: the first group is the name, the first of the others that took part is the value."""

_ANY_NAME = compiled(rf"[\w.\-]*{ANCHOR}[\w.\-]*", ignore_case=True)


class _Forms(NamedTuple):
    """A few of the forms, with groups: many groups at once are slow."""

    pattern: Pattern
    bounds: Pattern
    """The same without groups."""
    groups: tuple[tuple[int, int, int], ...]
    """For each form: its number, its first group, and the group after its last."""


def _some_forms(first: int, last: int) -> _Forms:
    groups: list[tuple[int, int, int]] = []
    at = 1
    for number in range(first, last):
        end = at + groups_in(_FORMS[number][0])
        groups.append((number, at, end))
        at = end
    sources = (source for source, _ in _FORMS[first:last])
    pattern = compiled("|".join(sources), ignore_case=True)
    return _Forms(pattern, any_of((pattern,)), tuple(groups))


_WRAPPED, _TRIPLE, _NEXT_LINE, _BELOW = 0, 1, len(_FORMS) - 2, len(_FORMS) - 1
_QUOTED = next(
    number for number, (source, _) in enumerate(_FORMS) if source.startswith(rf"""{_NAME}["'`]?[ \t]+["'`]""")
)
_SLICES = ((0, 6), (6, 12)), ((12, 18), (18, 24)), ((24, _NEXT_LINE), (_NEXT_LINE, _BELOW + 1))
"""Forms that are searched together, and of these the ones that are taken apart together.

All in one automaton have so many states that its memory overflows with the variety of texts of a long-lived process,
and the search becomes twenty times slower.
"""


class _SearchedForms(NamedTuple):
    bounds: Pattern
    parts: tuple[_Forms, ...]


@cache
def _all_forms() -> tuple[_SearchedForms, ...]:
    searched = (tuple(_some_forms(*ends) for ends in slices) for slices in _SLICES)
    return tuple(_SearchedForms(any_of(tuple(forms.pattern for forms in parts)), parts) for parts in searched)


_LONGEST = 4_096
"""Bytes before the end of a match in which further names are tried: a longer one is not read again for each of them."""


class _FormSearch:
    """The matches of all forms from left to right; of several at one place, the one of the first form."""

    def __init__(self, near: NameWindows) -> None:
        self._near = near
        self._next: list[tuple[int, int] | None] = [(-1, -1)] * len(_all_forms())

    def search(self, at: int) -> tuple[int, int, tuple[_Forms, ...]] | None:
        """The first match that begins here or later."""
        found: tuple[int, int, tuple[_Forms, ...]] | None = None
        for number, forms in enumerate(_all_forms()):
            place = self._next[number]
            if place is not None and place[0] < at:
                places = self._near.search(forms.bounds, at)
                place = self._next[number] = places[0] if places else None
            if place is not None and (found is None or place[0] < found[0]):
                found = *place, forms.parts
        return found


def _form_of(text: bytes, start: int, end: int, parts: tuple[_Forms, ...]) -> tuple[int, Places]:
    """The number of the form that a match has, and its groups: the name, and then the value."""
    for forms in parts:
        if forms.bounds.match(text, start, end) is None:
            continue
        if (places := forms.pattern.groups_of(text, start, end)) is not None:
            number, first, last = next(group for group in forms.groups if places[group[1]][0] >= 0)
            return number, places[first:last]
    raise AssertionError("a match of all forms is a match of one")


_READING = frozenset(
    ("get", "read", "fetch", "load", "find", "lookup", "resolve", "delete", "describe", "require", "has")
)
_MADE = compiled(
    r"""["'`\])]{0,3}[ \t]*[:=>?|+.\-]+[ \t]*[("'A-Za-z&$#]{0,4}["'][ \t\n"']*"""
    r"""|[^\n]*(?:\b(?:some|ok|just|right|secret\w*|secure\w*|sensitive|redacted|zeroiz\w+|string|str|cow|optional?|password"""
    r"""|protected|masked|bytes|buffer|value|from|of|new|borrowed|ptr|literal|plain\w*|\w*spec)[\]>"""
    r"""]*[ \t]?[(\[{][(\[{"'&br \t]*"""
    r"""|\)[ \t]*["']|just[ \t]+["']|-SecureString[ \t]+(?:-String[ \t]+)?["']|,[ \t]*[bru]?["']|(?:\|\|"""
    r"""|\?\?|\?:|\bor)[ \t]*["']"""
    r"""|(?:default|value)[ \t]?[:=][ \t]*[bru]?["'])""",
    ignore_case=True,
)


def _is_made(before: bytes) -> bool:
    """Whether a call takes the value itself, as `Some(…)` does, rather than the name of a value, as"""
    """`getenv(…)` does."""
    return len(before) < LOOK and _MADE.is_all_of(before) and b"environ[" not in before[-16:]


def announced(text: bytes, clock: MaskingDeadline) -> Iterator[SecretSpan]:
    """Values that a name announces in another syntax than `name = value`."""
    at = seen = 0
    searched = _FormSearch(name_windows(text, clock))
    while found := searched.search(at):
        seen += 1
        if seen % 64 == 0:
            clock.check()
        begin, stop, parts = found
        names = (name for (name,) in _ANY_NAME.every(text, begin, stop))
        if not any(_announces(text[start : min(end, start + 128)], is_key=True) for start, end in names):
            first = _ANY_NAME.search(text, begin, stop)
            at = max(first[0][1] if first else 0, at + 1, stop - _LONGEST)
            continue
        form, places = _form_of(text, begin, stop, parts)
        name_start, name_end = places[0]
        at = max(name_end, at + 1, stop - _LONGEST)
        place = _value(text, places)
        if place is None:
            continue
        name = _announces(text[name_start : min(name_end, name_start + 128)], is_key=_FORMS[form][1] == _BYTES)
        if name is None:
            continue
        if _FORMS[form][1] == _BYTES:
            at = end = place[0] + len(text[place[0] : place[1]].rstrip(b", \t\r\n"))
            yield SecretSpan(place[0], end, name.kind)
            continue
        start, end = place
        value = text[start : min(end, start + LOOK)]
        if value.endswith(b":"):
            continue  # A heading: `set password policy: …`.
        if _FORMS[form][1] == _STRONG and not _is_strong(value, name):
            continue
        if (
            _FORMS[form][1] == _SURE
            and not _is_strong(value, name)
            and (not _is_sure(value, name) or b" " in value)
            and not (form == _QUOTED and name.kind == "passphrase" and value.count(b" ") >= 2)
            and not (form == _QUOTED and name.demand is Demand.ANY and is_compound(text[name_start:name_end]))
        ):
            continue
        if form == _BELOW and name.kind not in _SAID:
            continue
        if form in (_BELOW, _NEXT_LINE) and text[end : end + 8].lstrip(b"\"' \t")[:1] not in (b"", b"\r", b"\n"):
            continue  # Not alone on its line.
        if words_of(text[name_start:name_end])[0] in _READING and text[name_end : name_end + 1] == b"(":
            continue  # The name of a secret: get_secret("…").
        if form == _WRAPPED and not _is_made(text[name_end:start]) and not _is_strong(value, name):
            continue
        if worth_masking(value, name, quoted=True) and (name.kind in _OF_WORDS or not is_sentence(value)):
            end = _end_of_lines(text, form, start, end)
            yield SecretSpan(start, end, name.kind)
            yield from joined_literals(text, SecretSpan(start, end, name.kind))
            at = max(at, end)


def _end_of_lines(text: bytes, form: int, start: int, end: int) -> int:
    """Where a value ends: between three quotes with its last line, if the closing ones are there."""
    if form != _TRIPLE:
        return end
    closing = text.find(text[max(0, start - LOOK) : start].rstrip()[-3:], end, end + 16 * LOOK)
    return end if closing < 0 else start + len(text[start:closing].rstrip())


def _announces(name: bytes, *, is_key: bool = False) -> Name | None:
    """What a name announces; `is_key`: a bare `key` does, too."""
    found = name_of_secret(name)
    is_any = found is not None and (not found.in_query_only or found.kind == "csrf" or (is_key and found.kind == "key"))
    return found if is_any else None


def _value(text: bytes, places: Places) -> tuple[int, int] | None:
    start, end = next(((start, end) for start, end in places[1:] if start >= 0), (0, 0))
    end = start + len(text[start:end].rstrip(b" \t\r")) if end - start < LOOK else end
    return (start, end) if start < end else None


def _is_sure(value: bytes, name: Name) -> bool:
    """Whether name and quotes say that a value is a secret, so that a digit in it is enough."""
    return name.demand is Demand.ANY and len(value) >= 6 and any(48 <= char <= 57 for char in value)


def _is_strong(value: bytes, name: Name) -> bool:
    """Whether a value is a secret by its look, too."""
    is_likely = is_random(value) or (is_mixed(value, announced=True) and not names_something(value, name))
    is_likely = is_likely or (name.kind in ("key", "api_key") and is_coined(value, capital=True))
    return is_likely and not is_code(value) and not is_placeholder(value)


# --------------------------------------------------------------------------- sentences

_VERBS = (
    r"(?:is|was|are|be|been|to|as|now|back|again|just|probably|likely|called|reads|remains|stays|becomes|has|have|had|equals?|should|must|will|value|with|provided|used|using|currently|still"
    r"|(?:(?:re)?set|changed|rotated|updated)(?:[ \t]+(?:back[ \t]+)?(?:to|from))?"
    r"|es|est|ist|lautet|er|jest|on|olarak|je)\b|\xc3\xa9|\xc3\xa8|\xc3\xa4r"
)
_SAID_VALUE = r"""([A-Za-z._\-]*(?:[^\sA-Za-z._\-"'`<>(){}\[\],;:\\]|:[^\s"'`<>(){}\[\],;\\])[^\s"'`<>(){}\[\],;\\]*)"""
"""All that is ever masked in a sentence has a digit or a sign in it; plain words are passed over."""

_SENTENCE = compiled(
    rf"""([\w.\-]*{ANCHOR}[\w.\-]*)["'`*)\]]{{0,4}}"""
    r"""(?:[ \t]+#?\d{1,2}\b|[ \t]*\([^()\n]*\)|[ \t]*\[[^\[\]\n]*\])?"""
    r"""(?:[ \t]+(?:for|of|on|in|at|am|im|an|auf|de|del|della|des|dos|da|f\xc3\xbcr|von|vom|zum|zur|du|pour"""
    r"""|do|para|van|voor|till?"""
    r"""|f\xc3\xb6r)[ \t]+(?:[\w.@\-]|[\xc3-\xd4][\x80-\xbf])+(?:[ \t]+\w+){0,4}?"""
    r"""|[ \t]+(?:that[ \t]+)?(?:i|we|you|they|he|she)(?:'ve|'ll)?[ \t]+\w+(?:[ \t]+\w+){0,3}?"""
    r"""|(?:[ \t]+[^\s:="'<>(){}\[\],;]+){1,3}[ \t]?[:=])?"""
    rf"""((?:'s\b|\xe2\x80\x99s\b|[ \t]*(?:[\-=]+>|=+|:+|\.\.+|\xe2\x80[\x93\x94])|[ \t]+(?:{_VERBS}))*)"""
    rf"""[ \t*]+["'`(*]*{_SAID_VALUE}""",
    ignore_case=True,
)
_SENTENCE_BOUNDS = any_of((_SENTENCE,))

_REVERSED = compiled(
    r"""([A-Za-z\-]*[^\sA-Za-z\-"'`<>(){}\[\],;=:][^\s"'`<>(){}\[\],;=:]*)["'`]?[ \t]+(?:is|as"""
    r"""|was|for|becomes)[ \t]+(?:[A-Za-z\-]+[ \t]+){0,3}?"""
    rf"""([\w.\-]*{ANCHOR}[\w.\-]*)""",
    ignore_case=True,
)
_ANNOUNCING = (
    b"is", b"'s", b"\x99s", b"reads", b"was", b"be", b"to", b"as", b"from", b"equal", b"equals", b"now", b"es",
    b"est", b"ist", b"lautet", b"er",
    b"jest", b"\xc3\xa9", b"\xc3\xa8", b"\xc3\xa4r", b"on", b"je", b"value", b"used", b":", b"=", b">", b".",
    b"\xe2\x80\x93", b"\xe2\x80\x94",
)  # fmt: skip
_FINGERPRINT = compiled(r"[0-9A-Fa-f]{16}|[0-9A-Fa-f]{40}|[0-9A-Fa-f]{64}")


def in_sentences(text: bytes, clock: MaskingDeadline) -> Iterator[SecretSpan]:
    """`the db_password is …`, `Unseal Key 1: …`, `use … as the password`."""
    at = seen = 0
    near = name_windows(text, clock)
    known = set(near.found.values())
    while bounds := near.search(_SENTENCE_BOUNDS, at):
        seen += 1
        if seen % 64 == 0:
            clock.check()
        if bounds[0][1] in known:
            at = bounds[0][1]
            continue
        places = _SENTENCE.groups_of(text, *bounds[0])
        assert places is not None  # The same pattern.
        _, (name_start, name_end), connector, (start, end) = places
        at = max(name_end, at + 1)
        name = _spoken_name(text, name_start, min(name_end, name_start + 128))
        if name is None or text[name_start - 1 : name_start] == b"/":
            continue
        value = text[start : min(end, start + LOOK)].rstrip(b".,;:!?*")
        words = text[connector[0] : connector[1]].lower() or text[max(name_end, connector[0] - 1) : connector[0]]
        if _is_said(value, name, is_announced=words.rstrip().endswith(_ANNOUNCING), is_equated=_equates(words)):
            at = end = start + len(value) if len(value) < LOOK - 8 else end
            yield SecretSpan(start, end, name.kind)
            yield from _said_next(text, end, name)


def said_first(text: bytes, clock: MaskingDeadline) -> Iterator[SecretSpan]:
    """Sentences in which the value comes first, one-time codes, and seed phrases."""
    if b"?" in text:
        yield from _answers(text, clock)
    near = name_windows(text, clock).rare
    if near.search(ANY_SAID_FIRST, 0) is None:
        return
    for _, place in near.every(_SEED):
        yield SecretSpan(*place, "mnemonic")
    for places in near.every(_ONE_TIME):
        clock.check()
        start, end = next(place for place in places[1:] if place[0] >= 0)
        if start == places[_SAID_CODE][0]:
            yield SecretSpan(start, end, "otp")
            continue
        for (place,) in _CODE_ITEM.every(text, start, end):
            if place[1] - place[0] >= 4:
                yield SecretSpan(*place, "otp")
    for seen, (_, (start, end), (name_start, name_end)) in enumerate(near.every(_REVERSED)):
        if seen % 64 == 0:
            clock.check()
        name = _spoken_name(text, name_start, min(name_end, name_start + 128))
        value = text[start : min(end, start + LOOK)]
        if name is not None and _is_said(value, name, is_announced=True, is_equated=False):
            yield SecretSpan(start, end, name.kind)


def _answers(text: bytes, clock: MaskingDeadline) -> Iterator[SecretSpan]:
    """A secret in the line after a question for it."""
    for (asked, _), name_place, (start, end) in name_windows(text, clock).every(_ASKED):
        clock.check()
        name = _spoken_name(text, name_place[0], min(name_place[1], name_place[0] + 128))
        value = text[start : min(end, start + LOOK)].rstrip(b".,;:!?*")
        if start - asked < LOOK and name is not None and _is_said(value, name, is_announced=True, is_equated=True):
            yield SecretSpan(start, start + len(value) if len(value) < LOOK - 8 else end, name.kind)


_NEXT_SAID = compiled(rf"""["'`]?[ \t]+(?:to|->|=>|and|or)[ \t]+["'`]?{_SAID_VALUE}""")


def _said_next(text: bytes, at: int, name: Name) -> Iterator[SecretSpan]:
    """The new value in `changed from … to …`."""
    if places := _NEXT_SAID.match(text, at, min(len(text), at + LOOK)):
        start, end = places[1]
        value = text[start:end].rstrip(b".,;:!?*")
        if _is_said(value, name, is_announced=True, is_equated=True):
            yield SecretSpan(start, start + len(value), name.kind)


_CODES = (
    r"(?:(?:recovery|backup|scratch|emergency|rescue)[ _\-]?codes?"
    r"|(?:wiederherstellungs|sicherungs|backup-?|notfall)codes?"
    r"|codes?[ \t]+de[ \t]+(?:r\xc3\xa9cup\xc3\xa9ration|secours)"
    r"|c\xc3\xb3digos?[ \t]+de[ \t]+(?:respaldo|recuperaci\xc3\xb3n)"
    r"|codici[ \t]+di[ \t]+(?:recupero|backup))"
)
_CODE_NAMES = (
    r"(?:(?:verification|confirmation|security|sign-?in|log-?in|one-?time|access|activation|2fa|mfa|sms)"
    r"[ \-](?:code|pin)"
    r"|(?:best\xc3\xa4tigungs|verifizierungs|sicherheits|einmal|zugangs|freischalt)code"
    r"|code[ \t]+de[ \t]+(?:v\xc3\xa9rification|confirmation|s\xc3\xa9curit\xc3\xa9)"
    r"|c\xc3\xb3digo[ \t]+de[ \t]+(?:verifica\S+|confirma\S+|seguridad|seguran\S+)|(?:m|i|push|sms-?)?TAN)"
)
_ONE_TIME = compiled(
    r"""\b(\d{4,8})[ \t]+is[ \t]+your[ \t]+(?:[\w\-]+[ \t]+){0,3}(?:code|otp|pin)\b"""
    r"""|\bcode[ \t:]+(\d{4,8})[ \t]+to[ \t]+(?:sign|log|verify|confirm|continue|complete)"""
    rf"""|\b{_CODE_NAMES}(?:[ \t]+(?:is|lautet|ist|est|es|\xc3\xa9|:|=)|[ \t]*[:=])"""
    r"""[ \t:*"']*(\d{4,8}|\d{3}[ \-]\d{3,4})\b"""
    # A list below a heading: codes and nothing else in each line.
    rf"""|\b{_CODES}[^\n]{{0,60}}\r?\n((?:[ \t\-*]*(?:\d\d?[.):][ \t]+)?"""
    r"""[0-9A-Za-z]{4,12}(?:[ \-][0-9A-Za-z]{4,12}){0,3}[ \t]*"""
    r"""(?:\r?\n|$)){2,})"""
    rf"""|\b{_CODES}[^\n:]{{0,"""
    r"""20}:((?:[\s\-*,;]*(?:\d\d?[.)][ \t]+)?[0-9A-Za-z]{4,12}(?:-[0-9A-Za-z]{4,12})*)+)""",
    ignore_case=True,
)
_SAID_CODE = 3
"""The group of a code in a sentence, which may have a space in it."""
_SEED = compiled(
    r"""(?:phrase|mnemonic|seed|seed words)\b["' \t]*(?:(?:is|was|are|=|:)[\s"']*){1,3}([a-z]{3,"""
    r"""8}(?:[ ,]+[a-z]{3,8}){11,23})""",
    ignore_case=True,
)
_CODE_ITEM = compiled(r"[0-9A-Za-z]*[0-9][0-9A-Za-z]*(?:-[0-9A-Za-z]{4,12})*|[A-Za-z]{4,12}(?:-[0-9A-Za-z]{4,12})+")


_ASKED = compiled(
    rf"""([\w.\-]*{ANCHOR}[\w.\-]*)[^\n?]*\?[^\n]*\n[^\n]*?"""
    r"""\b(?:it(?:'|\xe2\x80\x99)?s|it[ \t]+is|try|use|still|should[ \t]+be|that(?:'|\xe2\x80\x99)?s|here(?:'s)?:?|:)"""
    rf"""[ \t]+["'`*]*{_SAID_VALUE}""",
    ignore_case=True,
)
"""A question for a secret, and the answer in the next line."""

ANY_SAID_FIRST = any_of((_REVERSED, _ONE_TIME, _SEED))


def _equates(words: bytes) -> bool:
    return not words.rstrip().endswith((b"to", b"as", b"on", b"from", b"er", b"with"))


def _spoken_name(text: bytes, start: int, end: int) -> Name | None:
    """What a name says; of a short one (`key`, `code`) together with the words in front of it."""
    name = name_of_secret(text[start:end])
    if name is not None and not name.in_query_only:
        return name
    return _named_by_words(text[max(0, start - 40) : start], text[start:end])


@remembered
def _named_by_words(before: bytes, name: bytes) -> Name | None:
    words = [word for word in before[before.rfind(b"\n") + 1 :].split()[-2:] if word.replace(b"-", b"").isalpha()]
    if not words or before[-1:] not in (b" ", b"\t"):
        return None
    spoken = name_of_secret(b" ".join((*words, name)))
    return None if spoken is None or spoken.in_query_only else spoken


def _is_said(value: bytes, name: Name, *, is_announced: bool, is_equated: bool) -> bool:
    if name.kind in ("otp", "pin", "totp", "cvv"):
        return is_announced and len(value) >= 4 and not is_code(value) and worth_masking(value, name, quoted=True)
    if len(value) < 8 or is_placeholder(value) or is_code(value):
        return False
    if not is_announced and name.kind == "key" and _FINGERPRINT.is_all_of(value):
        return False
    if is_random(value) and (is_announced or len(value) >= 16):
        return b"=" not in value[:-2]
    if name.demand in (Demand.RANDOM, Demand.KEY) or not is_mixed(value, announced=True) or b"=" in value[:-2]:
        return False
    if is_announced and is_equated and (name.kind in ("password", "passphrase") or is_coined(value, capital=True)):
        return True
    return (is_announced or name.kind in _SAID) and not names_something(value, name)


_SAID = ("password", "passphrase", "token", "secret", "api_key")
"""Kinds whose value may follow without a verb: `log in with password …`."""
