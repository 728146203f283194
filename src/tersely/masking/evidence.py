"""Finds secrets by the weight of evidence: what a line says before a value, and how the value looks.

The other finders know syntaxes. This one knows none. It takes every word of a line that
names a secret, looks up how near the name is to the word (nothing but fillers between
them, an announcing sign or verb in front of the word, somewhere in the same line, or the
line above), and demands the more of the word's look (`masking.looks`) the weaker that is.
It runs last and judges only what no other finder found.
"""

from collections.abc import Iterator

from tersely.masking.looks import SIGNS, Look, is_long_hex, look
from tersely.masking.patterns import (
    DIGITS,
    NAME_BYTES,
    Demand,
    Name,
    any_of,
    compiled,
    name_of_secret,
    remembered,
)
from tersely.masking.spans import LOOK, MaskingDeadline, SecretSpan, in_resource_name, line_start
from tersely.masking.windows import NameWindows, name_windows

FORM_WORDS = (
    r"(?:ascii-text|hexadecimal|ascii|hex|encrypted|encrypted-(?:password|key)|cipher|irreversible-cipher|simple"
    r"|plain(?:-?text)?|clear(?:-?text)?|text|enc|hash|hashed|bcrypt|scrypt|pbkdf2|level|local|remote|secure|unencrypted"
    r"|nt-encrypted|md5|sha-?\d{0,3}|hmac-[\w\-]+|aes-?\d{0,3}|3?des|type|line|id[ \t]+\d+|\d{1,3})"
)
"""What stands between the name of a key and the key: its number, its form and its algorithm."""

_REACH = 160
"""Bytes after a name in which a secret may stand."""

_BORDER = r"""\s"'`<>(){}\[\],;|\\&"""
_IN = rf"[^{_BORDER}]*"
_MARKED = r"[0-9!#$%^*~?]"
_REMARKABLE = (
    rf"(?:[A-Za-z]{_IN}{_MARKED}|{_MARKED}{_IN}[A-Za-z]|[A-Za-z]{{12}}"
    r"|[a-z]{4,9}[\-_.][a-z]{4,9}[\-_.][a-z]{4,9})"
)
_WORD = compiled(rf"{_IN}{_REMARKABLE}{_IN}")
"""Letters with a digit or a sign, three joined words, or many letters: nothing else has a look."""
_CUE_FORM = (
    r"(?i:[\w.\-]*(?:pass|pwd|pswd|pword|secret|cred|psk|\bpw\b|community|log[io]n|auth|key|tok"
    r"|\bA[KS]IA[A-Z0-9]{16}\b)[\w.\-]*)"
)
_CUE = compiled(_CUE_FORM)
_WORTH_READING = compiled(
    rf"{_CUE_FORM}(?:[!#$%^*~?]{_IN}[A-Za-z]|[^\w.\-\n][^\n]*?{_REMARKABLE}|[^\n<]*:[ \t*]*\r?\n"
    r"""|[ \t*]*\r?\n[ \t>*`"']*[^\s"'`<>]{16,}[`"'*]*[ \t\r]*(?:\n|$))"""
)
"""A line with a name and, after it, a word that may have a look; or one that may be a heading."""
_LONG = compiled(r"[A-Za-z0-9+/_=.\-]{20,}")
_SIGNED = compiled(rf"{_IN}[A-Za-z0-9][!#$%^*~?]{_IN}")
_OBJECT = (
    r"(?:(?:for|of|on|in|from|at|user(?:name)?|account|host|server|address|login|uid|de|del|der|des|do|da|na|van|voor|von"
    r"|pour|para|till|f\xc3\xbcr|f\xc3\xb6r)\b[ \t:=]+[^\s<]+)"
)
_ADDRESS = (
    r"(?:(?:\d{1,3}\.){3}\d{1,3}(?:[:/]\d+)?|[\w.+\-]+@[\w\-]+(?:\.[\w\-]+)+"
    r"""|"[\w\-]+=[^"<\n]*"|[\w\-]+=[\w\-]+(?:,[\w\-]+=[\w\-]+)+)"""
)
_FILLERS = compiled(
    r"""["'`*)\]]{0,4}(?:[ \t:=>|*"'`(\[{#@]|->|:=|\xe2\x80[\x93\x94]|\xe2\x86\x92"""
    rf"""|(?:{FORM_WORDS}|{_OBJECT}|{_ADDRESS}|is|was|now|to|set|set-key|reset|new|the|value|default|string|str|const"""
    r"""|with|by|using|as|N|static|literal|code|-[a-z]\w*)(?:[ \t:=>"'`]+|$))*""",
    ignore_case=True,
)
"""Nothing but what may stand between a name and its value."""
_ANNOUNCES = compiled(
    r"""[^<\n,;:=]*(?:[:=\s](?:is|are|ist|lautet|es|est|\xc3\xa4r|er|jest|\xc3\xa9|\xc3\xa8|je|on|to|now|becomes)"""
    r"""[ \t"'`*(]+"""
    r"""|(?:[=:]+|[\-=]+>|\xe2\x80[\x93\x94]|\xe2\x86\x92)[ \t"'`*(\[]*)""",
    ignore_case=True,
)
_WRAPPED = compiled(r"""["'`)\]]{0,3}[ \t]*[:?]?=>?[ \t]*(?:[\w.:$&<>!@\-]*[ \t]?[(\[{][ \t]*){1,4}[bru&@]?["'`]""")
"""A call whose first argument is the value."""
_OTHER_LABEL = compiled(r"""(?:["'][\w.\-]+["']|\w+[_\-]\w+|[a-z]+[A-Z]\w*)[ \t]*[:=]+[ \t"'`]*$""")
"""The name of another value, as programs write it."""
_HEADING = compiled(r"""(?:[^\n<]{0,120}:)?[ \t*]*\r?\n(?:[ \t]*\r?\n)?[ \t>*\-`"']*""")
_TITLE = compiled(r"[ \t#*]*(?:[A-Za-z][\w.\-]*[ \t]+){0,4}")
"""What may stand in front of a name that is a heading without a colon."""
_ALONE = compiled(r"""[`"'*]*[ \t\r]*(?:\n|$)""")
_ABOUT = frozenset(
    b"policy policies length len size expiry expires expire expired expiration reset file files path hash type id "
    b"ids name names fingerprint prompt field column hint rotation age failed failure invalid incorrect wrong "
    b"required authentication attempts manager store user username account email e-mail host port realm version "
    b"algorithm digest commit sha checksum accessor issued created updated at until since date time event request "
    b"error status message url uri endpoint ref reference arn provider usage used limit count".split()
)
"""Words after a name that make what follows something about a secret, not the secret."""
_PAIR = compiled(r"[A-Za-z][\w.@\\\-]{1,40}[:/](.+)")
_PADDED = compiled(r"[A-Za-z0-9+/_\-]{12,}={1,2}")
_JOINS = compiled(r"[=&:/]|://")
_PEOPLE = ("password", "passphrase", "pin", "otp")
"""Kinds of secrets that people choose."""
_KEYS_OF_PEOPLE = compiled(
    r"radius|tacacs|wpa|wep|wlan|wi-?fi|ipsec|\bike|isakmp|vpn|snmp|ospf|bgp|\bntp|hmac|tsig|\bchap\b|wireless|psk|rndc",
    ignore_case=True,
)
_KEYS_OF_CIPHERS = compiled(r"crypt|cipher|\baes\b|\bhmac\b|signing|signer", ignore_case=True)
_CHOSEN = Name("key", Demand.ANY)
_CIPHER = Name("key", Demand.LIKELY)
_LOGIN = Name("credential", Demand.RANDOM)
_UNNAMED = Name("key", Demand.KEY)


def evidence(text: bytes, clock: MaskingDeadline) -> Iterator[SecretSpan]:
    """Words near a name of a secret that look like one."""
    near = name_windows(text, clock)
    rest = near.unexplained()
    at = seen = 0
    while places := near.search(_WORTH_READING, at, rest):
        seen += 1
        if seen % 64 == 0:
            clock.check()
        first = places[0][0]
        line_end = text.find(b"\n", first)
        line_end = len(text) if line_end < 0 else line_end
        at = max(min(line_end, first + 16 * _REACH), first + 1)
        cues = list(_cues(rest, first, at))
        if not cues:
            continue
        yield from _in_line(text, rest, cues, at)
        if cues[-1][1] == line_end or text[line_end - 1 : line_end] in _ENDS_OF_HEADINGS:
            yield from _below(text, cues, near)


_ENDS_OF_HEADINGS = (b":", b"\r", b"*", b" ")
_QUOTED = (b' "', b" '")
_Cue = tuple[int, int, Name]


def _cues(text: bytes, start: int, end: int) -> Iterator[_Cue]:
    """The names of secrets in a line."""
    for ((first, last),) in _CUE.every(text, start, end):
        name = _name(text[first : min(last, first + 128)])
        if name is None:
            continue
        if name is _DOUBTFUL:
            # The keys of JSON objects are so many that the words in front of them are not looked at.
            is_field = text[last : last + 2] == b'":'
            name = _UNNAMED if is_field else _named_by_context(text[first:last], text[max(0, first - 64) : first])
            if name is None:
                continue
        is_read = text[last : last + 1] == b"(" and text[first:last].lower().startswith(_READING)
        if not is_read and not in_resource_name(text, first):
            yield first, last, name


_READING = (
    b"get",
    b"read",
    b"fetch",
    b"load",
    b"find",
    b"lookup",
    b"resolve",
    b"delete",
    b"describe",
    b"require",
    b"has",
)


def _in_line(text: bytes, rest: bytes, cues: list[_Cue], end: int) -> Iterator[SecretSpan]:
    for place, before in _words_after(text, rest, cues, end):
        start, stop = _value(text, *place)
        if stop - start < 6:
            continue
        value = text[start : min(stop, start + LOOK)]
        seems = look(value)
        if seems is Look.NOTHING or _is_torn(text, place[0]) or _names_secret(value, seems):
            continue
        if text[stop : stop + 1] == b"(" and (text[stop + 1 : stop + 2] == b")" or _FUNCTION.is_all_of(value)):
            continue
        is_digest = _DIGEST.is_all_of(text[place[0] : start])
        is_pair = start > place[0] and text[start - 1] != 0x3D
        if is_pair and text[start - 1] == 0x2F and before[-1][2].kind != "credential":
            continue  # A path.
        # The nearest name, and if it says little (`key`) the one in front of it.
        for cue_start, cue_end, name in reversed(before):
            gap = text[cue_end : place[0] if is_pair else start]
            is_file = gap[:1] not in (b":", b"=") and _FILE.search(text[max(0, cue_start - _REACH) : cue_start])
            if is_file and seems is not Look.EVIDENT:
                break
            if is_digest and (name.kind not in _PEOPLE or b"." in text[cue_start:cue_end]):
                break
            if len(gap) <= _REACH and _is_meant(value, seems, gap, name, pair=is_pair):
                yield SecretSpan(start, stop, name.kind)
                break
            if name is not _UNNAMED:
                break
    first, _, name = cues[0]
    if name.kind in _PEOPLE or name is _LOGIN:
        for (place,) in _SIGNED.every(rest, line_start(text, first, _REACH), first):
            start, stop = _value(text, *place)
            if look(text[start:stop]) is Look.EVIDENT and not _is_torn(text, place[0]):
                yield SecretSpan(start, stop, name.kind)


_FUNCTION = compiled(r"[A-Za-z]+(?:_[A-Za-z0-9]+)+")
_DIGEST = compiled(r"(?:sha-?\d{1,3}|md5|blake\w*|xxh\w*|crc\d*)[=:\-]", ignore_case=True)
_FILE = compiled(
    r"""(?:^|[\s"'`(\[<=,:])/(?:etc|usr|var|s?bin|lib\w*|opt|home|root|tmp|proc|sys|dev|mnt|srv)/(?:[\w.+@\-]+/)*$"""
)
"""The folder of a file that is called as secrets are: `/etc/passwd`."""


def _words_after(text: bytes, rest: bytes, cues: list[_Cue], end: int) -> Iterator[tuple[tuple[int, int], list[_Cue]]]:
    """The words after the names, each with the last two names in front of it."""
    is_strong = any(name is not _UNNAMED or text[at : at + 2] in _QUOTED for _, at, name in cues)
    number = 0
    for ((start, stop),) in (_WORD if is_strong else _LONG).every(rest, cues[0][1], min(end, cues[-1][1] + _REACH)):
        while number + 1 < len(cues) and cues[number + 1][1] <= start:
            number += 1
        if cues[number][1] >= start:
            start += text[start] in b":="
            if cues[number][1] >= start:
                continue  # Another part of the name's word.
        if text[start - 1] != rest[start - 1] or text[stop : stop + 1] != rest[stop : stop + 1]:
            continue  # The other part of the word is known to be a secret.
        if text[start - 1] == 0x5C and text[start] in b"nrt":
            start += 1  # An escaped line break.
        yield (start, stop), cues[max(0, number - 1) : number + 1]


def _is_torn(text: bytes, start: int) -> bool:
    """Whether a word begins inside of another one or of an escape: after an apostrophe or a backslash."""
    before = text[start - 1 : start]
    return before == b"\\" or (before in (b"'", b'"', b"`") and text[start - 2 : start - 1].isalnum())


def _names_secret(value: bytes, seems: Look) -> bool:
    """Whether a word is rather the name of a secret, or contains one with its value."""
    if seems is Look.POSSIBLE:
        return name_of_secret(value[:128]) is not None
    return _JOINS.search(value) is not None and _CUE.search(value) is not None


def _value(text: bytes, start: int, end: int) -> tuple[int, int]:
    """The part of a word that may be a secret: without punctuation, and without a user or a name in front of it."""
    word = text[start : min(end, start + LOOK)]
    if end - start < LOOK:
        end = start + len(word.rstrip(b".,:;?*`"))
        word = text[start:end]
    name, is_named, _ = word.partition(b"=")
    if is_named and not name.translate(None, NAME_BYTES) and not (word[-1] == 0x3D and _PADDED.is_all_of(word)):
        start += len(name) + 1
    elif (b":" in word or word.count(b"/") == 1) and b"://" not in word and (pair := _PAIR.match(word)):
        start += pair[1][0]
    return start, end


def _is_meant(value: bytes, seems: Look, gap: bytes, name: Name, *, pair: bool) -> bool:
    """Whether the name is that of the value, and the value looks enough like a secret for what stands between them."""
    if any(sign in gap for sign in (b"${", b"{{", b"#{", b"%{", b"$(")):
        return False  # A reference.
    demanded, is_close = _demanded(gap, name, pair=pair)
    if name is _UNNAMED and demanded >= Look.EVIDENT and len(value) < 20:
        return False
    if seems is Look.POSSIBLE and not gap.strip() and value.translate(None, DIGITS + SIGNS) == value:
        return False  # Words in a list.
    if is_close and demanded < Look.EVIDENT and is_long_hex(value) and name.demand in (Demand.ANY, Demand.LIKELY):
        return True
    return seems >= demanded


_SHORT_NAME = compiled(
    r"(?:[\w\-]{0,5}key|auth|log[io]n|cred(?:ential)?s?|A[KS]IA[A-Z0-9]{16})[.\-]*", ignore_case=True
)


_DOUBTFUL = Name("", Demand.KEY)
"""A short name that the words in front of it decide."""


@remembered
def _name(word: bytes) -> Name | None:
    found = name_of_secret(word)
    if found is None or found.in_query_only:
        return _DOUBTFUL if len(word) < 24 and _SHORT_NAME.is_all_of(word) else None
    return _LOGIN if found.kind == "credential" and b"cred" not in word.lower() else found


def _named_by_context(word: bytes, before: bytes) -> Name | None:
    """What a short word names after the words in front of it."""
    lowered = word.lower().rstrip(b".-")
    if not lowered.endswith(b"key"):
        return _UNNAMED if lowered.startswith(b"a") and len(word) == 20 else _LOGIN
    if before.rstrip().lower().endswith((b"public", b"rsa", b"host", b"pub")):
        return None
    if _KEYS_OF_PEOPLE.search(before):
        return _CHOSEN
    if lowered != b"key":
        return None
    return _CIPHER if _KEYS_OF_CIPHERS.search(before) else _UNNAMED


@remembered
def _demanded(gap: bytes, name: Name, *, pair: bool) -> tuple[int, bool]:
    """The least look that a word must have, by what stands between it and the name; and whether it is close to it."""
    words = [word.strip(b"\"'`*:=()[]{},.") for word in gap.lower().split()]
    is_chosen = name.demand is Demand.ANY
    if not (words and words[0] in _ABOUT):
        if _FILLERS.is_all_of(gap):
            return _beside(gap, name, pair=pair), True
        if _WRAPPED.is_all_of(gap):
            return Look.COINED, True
    is_about = any(word in _ABOUT for word in words) or _OTHER_LABEL.search(gap) is not None
    if not is_about and name is not _UNNAMED and name is not _LOGIN and _ANNOUNCES.is_all_of(gap):
        return (Look.POSSIBLE if is_chosen or name.kind in _PEOPLE else Look.COINED), True
    return (Look.COINED if is_chosen and not is_about else Look.EVIDENT + is_about), False


def _beside(gap: bytes, name: Name, *, pair: bool) -> int:
    """The least look of a word next to a name, with nothing but fillers between them."""
    is_equated = b":" in gap or b"=" in gap
    if pair and name.kind == "credential":
        return Look.POSSIBLE
    if name is _LOGIN:
        return Look.EVIDENT
    if name is _UNNAMED:
        return Look.EVIDENT if is_equated or not gap.strip() else Look.COINED
    if name.kind in _PEOPLE and name.demand is not Demand.ANY:  # A bare `pass`.
        return Look.POSSIBLE if is_equated else Look.COINED
    return Look.POSSIBLE if name.kind in _PEOPLE or name.demand is Demand.ANY else Look.COINED


def _below(text: bytes, cues: list[_Cue], near: NameWindows) -> Iterator[SecretSpan]:
    """A word alone on the line below a line that names it and ends in a colon, or in its name."""
    heading = _HEADING.match(text, cues[0][1], min(len(text), cues[0][1] + 400))
    if heading is None or (start := heading[0][1]) in near.found:
        return
    place = _WORD.match(text, start, min(len(text), start + LOOK))
    if place is None or place[0][1] - start < 6 or not _ALONE.match(text, place[0][1]):
        return
    value = text[start : place[0][1]]
    if not text[cues[0][1] : start].strip(b" \t\r\n>*-`\"'"):
        is_title = _TITLE.is_all_of(text, line_start(text, cues[0][0], _REACH), cues[0][0])
        if not is_title or look(value) is not Look.EVIDENT:
            return
    for _, last, name in cues:
        words = [word.strip(b"\"'`*:=()[]{},.") for word in text[last:start].lower().split()]
        is_meant = look(value) >= Look.COINED or (name.kind in _PEOPLE and look(value))
        if is_meant and not any(word in _ABOUT for word in words) and name is not _LOGIN:
            yield SecretSpan(start, place[0][1], name.kind)
            return


_SHOWN = compiled(
    rf"[$#] (?:[a-z][^\n]*[ \t])?(?:get|show|read|view|access|print|printenv|echo|cat|reveal"
    rf"|decrypt|export|fetch|find-generic-password)\b([^\n]*)\r?\n({_IN}{_REMARKABLE}{_IN})[ \t\r]*(?:\n|$)"
)
"""A command that shows something, and a word alone in the line below it."""


_HERE_DOCUMENT = compiled(r"""(?m:^)([^\n<]*)<<-?[ \t]*["'\\]?([A-Za-z_]\w*)["']?(?:[ \t)][^\n]*)?\n""")
_COMMAND = any_of((_SHOWN, _HERE_DOCUMENT))
_MOST_LINES = 24


def below_commands(text: bytes, clock: MaskingDeadline) -> Iterator[SecretSpan]:
    """What a command that names a secret printed or read."""
    near = name_windows(text, clock)
    if near.search(_COMMAND, 0) is None:
        return
    yield from _here_documents(text, near, clock)
    for _, asked, (start, end) in near.every(_SHOWN):
        clock.check()
        seems = look(text[start : min(end, start + LOOK)])
        names = [name for _, _, name in _cues(text, *asked) if name is not _LOGIN and name is not _UNNAMED]
        least = Look.POSSIBLE if names and names[-1].kind in _PEOPLE else Look.EVIDENT
        if names and start not in near.found and seems >= least:
            yield SecretSpan(start, end, names[-1].kind)


def _here_documents(text: bytes, near: NameWindows, clock: MaskingDeadline) -> Iterator[SecretSpan]:
    """Words that are lines of a document that the line in front of it names: `passwd --stdin root <<EOF`."""
    rest = near.unexplained()
    for (_, at), opening, end_word in near.every(_HERE_DOCUMENT):
        clock.check()
        names = [name for _, _, name in _cues(text, *opening) if name is not _LOGIN and name is not _UNNAMED]
        least = Look.POSSIBLE if names and names[-1].kind in _PEOPLE else Look.EVIDENT
        for _ in range(_MOST_LINES if names else 0):
            end = text.find(b"\n", at, at + LOOK)
            if end < 0 or text[at:end].strip() == text[slice(*end_word)]:
                break
            start, stop = end - len(text[at:end].lstrip()), at + len(text[at:end].rstrip())
            word = rest[start:stop]
            if word == text[start:stop] and _WORD.is_all_of(word) and look(word) >= least:
                yield SecretSpan(start, stop, names[-1].kind)
            at = end + 1


_BY_LOOK = compiled(
    # A word with a digit and a sign that only passwords have.
    r"""(?:^|[\s"'`(|>=])([A-Za-z][A-Za-z0-9_]*"""
    r"""(?:[0-9][A-Za-z0-9_]*[#$^*]|\d{3}!|[0-9][A-Za-z0-9_]*![A-Za-z0-9]|[!#$^*][A-Za-z_]*[0-9])[A-Za-z0-9_!$^*]*)"""
    r"""(?:[\s"'`),.|<;:]|$)"""
    # A long run of letters and digits among other words.
    r"""|(?:[^\w+/=.\-%\n"'`:][ \t]|[(,][ \t]*["'`])([A-Za-z0-9]{32,128})(?:["'`]?[ \t),;.]|["'`]?$)"""
    # A string in the call of a cipher or a signature.
    r"""|(?i:hmac|\baes|cipher|crypt|\bsign|\bjw[st]|secretkey|privatekey|fernet)\w*"""
    r"""[^\n"'`(]{0,40}\([^\n"'`]{0,60}["'](?:0x)?([^\s"']{16,128})["']"""
)
_EXPRESSION = compiled(r"\([a-z_][a-z0-9_]*(?:[*^]\w+)+|.?[a-z0-9_]+\*|.?\w+_\w+\*|.?[a-z][A-Za-z]*\$\d|.?\w+_\$\d")
"""A product of variables after a bracket, a pattern of names, or a name with a number."""
_RUN_OF_ID = compiled(r"[0-9a-fA-F]+|[A-Z0-9]+|[a-z0-9]+|[A-Za-z]+")


def by_look(text: bytes, clock: MaskingDeadline) -> Iterator[SecretSpan]:
    """What cannot be anything but a secret, without any name."""
    rest = name_windows(text, clock).unexplained()
    for seen, (_, signed, run, literal) in enumerate(_BY_LOOK.every(rest)):
        if seen % 64 == 0:
            clock.check()
        start, end = next(place for place in (signed, run, literal) if place[0] >= 0)
        value = text[start:end]
        if (literal[0] < 0 and _is_torn(text, start)) or (run[0] >= 0 and _RUN_OF_ID.is_all_of(value)):
            continue
        if text[max(0, start - 1) : start] in (b"", b"\n") and text[end : end + 1] not in (b"", b"\r", b"\n"):
            continue  # A mark that begins a line is not a word of it to a reader of YAML.
        if signed[0] >= 0 and _EXPRESSION.is_all_of(text, max(0, start - 1), end):
            continue
        seems = look(value)
        if (literal[0] >= 0 and is_long_hex(value)) or (end - start >= 8 and seems >= (3 if run[0] >= 0 else 2)):
            yield SecretSpan(start, end, "secret")
