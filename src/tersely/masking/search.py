"""Finds the secrets in a text.

`find_secrets` collects spans over the original bytes and changes nothing. The finders
look for names with a value (`masking.assignments`), tokens of a known form, URLs,
headers, command lines and structures, and then search everything that can be decoded
again. `masking.patterns` decides what is a secret.

The cost is a few linear passes by re2. Python code runs only where a name is followed
by a separator, a word starts with a known prefix, or a run may be encoded, and reads at
most a few hundred bytes before it decides: a hostile text cannot make it read the same
part repeatedly.
"""

import binascii
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from typing import NamedTuple

from tersely.masking.announced import ANY_SAID_FIRST, announced, in_sentences, said_first
from tersely.masking.assignments import SPACED, assignments, cookies, is_mixed, spaced, worth_masking
from tersely.masking.evidence import FORM_WORDS, below_commands, by_look, evidence
from tersely.masking.looks import look
from tersely.masking.normalise import normalised
from tersely.masking.patterns import (
    ANCHOR,
    DIGITS,
    NAME_BYTES,
    UUID_FORM,
    Demand,
    Name,
    Pattern,
    PatternSet,
    any_of,
    compiled,
    is_code,
    is_placeholder,
    is_random,
    is_wordy,
    name_of_secret,
    names_something,
    variety,
)
from tersely.masking.spans import GAP, LOOK, MaskingDeadline, SecretSpan, View, line_start
from tersely.masking.structures import (
    mapping_around,
    object_end,
    object_start,
    walk_object,
    walk_rows,
    walk_secrets,
    walk_tables,
    walk_yaml,
)
from tersely.masking.token_patterns import TokenPattern, token_patterns
from tersely.masking.windows import NameWindows, name_windows

_DEEPEST = 4
"""Levels of decoding: Base64 in JSON in Base64 …"""

Finder = Callable[[bytes, MaskingDeadline], Iterator[SecretSpan]]


def find_secrets(
    text: bytes, finders: Iterable[Finder], *, decode: bool, clock: MaskingDeadline, depth: int = 0
) -> list[SecretSpan]:
    """The spans of all finders, in no particular order; they may overlap.

    What can be decoded is searched again: all parts of a text that are encoded in the same way in one search.
    """
    colourless = _without_colours(text) if decode else None
    if colourless is not None:
        text = colourless.text
    spans: list[SecretSpan] = []
    near = name_windows(text, clock)
    if near:
        near.rare = NameWindows(text, _RARE, within=near)
    for finder in finders:
        found = list(finder(text, clock))
        near.found.update((span.start, span.end) for span in found)
        spans += found
        clock.check()
    if decode and depth < _DEEPEST:
        is_foreign = near.has_sign("foreign")

        def again(view: View | None) -> Iterator[SecretSpan]:
            clock.check()
            if view is None:
                return iter(())
            return view.sources(find_secrets(view.text, finders, decode=True, clock=clock, depth=depth + 1))

        # A sign that is read as a quote must not pair with a real one: half of a pair would be masked.
        spans += [
            span
            for span in again(normalised(text, is_foreign=is_foreign))
            if text.count(b'"', span.start, span.end) % 2 == 0
        ]
        spans += (span._replace(quote=b'\\"') if span.quote else span for span in again(_in_strings(text)))
        spans += again(_in_percent(text, _PERCENT))
        spans += again(_in_percent(text, _FORM_PERCENT) if b"+" in text else None)
        spans += again(_in_encoded(text, spans))
    if b"-----END " in text and (public := [place for _, place in _PUBLIC_BLOCK.every(text)]):
        spans = [span for span in spans if span.kind == "private_key" or not _is_in(public, span)]
    return spans if colourless is None else [colourless.source(span) for span in spans]


_PUBLIC_BLOCK = compiled(
    r"-----BEGIN (?:(?:TRUSTED |X509 )?CERTIFICATE|(?:NEW )?CERTIFICATE REQUEST|(?:RSA )?PUBLIC KEY|X509 CRL|PKCS7"
    r"|DH PARAMETERS|SSH SIGNATURE)-----((?:\s|\\[nr])*(?:[A-Za-z0-9+/=]{1,76}(?:\s|\\[nr])+)+)-----END "
)
"""A block of Base64 that is published: nothing in it is a secret, whatever it decodes to."""


def _is_in(places: list[tuple[int, int]], span: SecretSpan) -> bool:
    number = bisect_right(places, (span.start, span.end)) - 1
    return number >= 0 and span.end <= places[number][1]


# --------------------------------------------------------------------------- tokens


class TokenTable(NamedTuple):
    """The token patterns, compiled."""

    by_prefix: dict[bytes, list[tuple[TokenPattern, Pattern]]]
    prefix: Pattern
    """Any prefix, with the escape of a line break or a tab in front of it."""

    shorter: dict[bytes, list[bytes]]
    """For each prefix: itself, and the prefixes that it begins with, longest first."""

    form: Pattern
    """Any form, each in its own group."""

    form_kinds: tuple[str, ...]

    any: Pattern
    """Any prefix or form."""


@cache
def token_table() -> TokenTable:
    """The table of this process. Compiled on first use, so that importing this module stays cheap."""
    known = token_patterns()
    by_prefix: dict[bytes, list[tuple[TokenPattern, Pattern]]] = {}
    for token in known.tokens:
        rest = compiled(token.rest)
        for prefix in token.prefixes:
            by_prefix.setdefault(prefix.encode(), []).append((token, rest))
    longest_first = sorted(by_prefix, key=len, reverse=True)
    words = "|".join(_escaped(prefix.decode()) for prefix in longest_first if prefix[:1].isalnum())
    others = "|".join(_escaped(prefix.decode()) for prefix in longest_first if not prefix[:1].isalnum())
    any_prefix = compiled(rf"(?:\b|\\[nrt])(?:{words})|{others}")
    form = compiled("|".join(f"({form.pattern})" for form in known.forms))
    return TokenTable(
        by_prefix,
        prefix=any_prefix,
        shorter={
            prefix: [prefix[:size] for size in range(len(prefix), 1, -1) if prefix[:size] in by_prefix]
            for prefix in by_prefix
        },
        form=form,
        form_kinds=tuple(form.kind for form in known.forms),
        any=any_of((any_prefix, form)),
    )


def _escaped(literal: str) -> str:
    return "".join(f"\\{char}" if not char.isalnum() and char != "_" else char for char in literal)


_TOKEN_BYTES = frozenset(NAME_BYTES.replace(b".", b""))


def tokens(text: bytes, clock: MaskingDeadline) -> Iterator[SecretSpan]:
    """Tokens of known providers and JWTs, recognised by their form."""
    table = token_table()
    near = NameWindows(text, table.any)
    at = seen = 0
    while places := near.search(table.prefix, at):
        seen += 1
        if seen % 256 == 0:
            clock.check()
        start, at = places[0]
        found = text[start:at]
        if found not in table.shorter:
            start += 2
            found = found[2:]
        for prefix in table.shorter[found]:
            if (token := _token(text, start, prefix, table)) is not None:
                yield token
                at = token.end
                break
    at = 0
    while places := near.search(table.form, at):
        start, at = places[0]
        if at < len(text) and text[at] in _TOKEN_BYTES:
            continue
        value = text[start:at]
        if variety(value) >= 9 and any(48 <= char <= 57 for char in value) and not is_placeholder(value):
            index = next(index for index, place in enumerate(places[1:]) if place[0] >= 0)
            yield SecretSpan(start, at, table.form_kinds[index])


_LONG_PART = compiled(rf"[\w\-]{{8,}}\.?[\w\-]{{{LOOK // 2},}}")
"""A token of several parts, one of which is longer than what is looked at."""


def _token(text: bytes, start: int, prefix: bytes, table: TokenTable) -> SecretSpan | None:
    for token, rest in table.by_prefix.get(prefix, ()):
        body_start = start + len(prefix)
        limit = min(len(text), body_start + LOOK)
        places = rest.match(text, body_start, limit)
        if places is None and limit < len(text) and token.kind == "jwt" and _LONG_PART.match(text, body_start, limit):
            limit = min(len(text), body_start + 16 * LOOK)
            places = rest.match(text, body_start, limit)
        if places is None:
            continue
        end = places[0][1]
        if token.exact and end < limit and text[end] in _TOKEN_BYTES:
            continue
        if token.check:
            body = text[body_start : min(end, body_start + LOOK)]
            if (
                variety(body[:40]) < 5
                or (is_wordy(body) and not body.isupper())
                or is_placeholder(body)
                or is_placeholder(prefix + body[:60])
            ):
                continue
        if end == limit < len(text):
            # Only a token that is masked is read to its end: a text of prefixes must not be read repeatedly.
            places = rest.match(text, body_start)
            end = places[0][1] if places else end
            if token.exact and end < len(text) and text[end] in _TOKEN_BYTES:
                continue
        return SecretSpan(start, end, token.kind)
    return None


# --------------------------------------------------------------------------- URLs, headers, command lines, keys

_URL = compiled(
    r"""(?:jdbc:oracle:\w+:[^\s/@:]{1,64}/()|://([^\s/:@"'<>\\,]*):)((?:[^\s/@"'<>\\]+@)+|\d{0,5}[^\d\s/@:"'<>\\][^\s@"'<>\\]*@)""",
)
_URL_USER = compiled(r"""://([^\s/:@"'<>\\,?]{12,})(?::(?:x-oauth-basic)?)?@""")
_HEX_USER = compiled(r"[0-9a-f]{8,}")


def urls(text: bytes, clock: MaskingDeadline) -> Iterator[SecretSpan]:
    """`scheme://user:password@host`, and tokens in place of the user."""
    if b"@" not in text or (b"://" not in text and b"jdbc:" not in text):
        return
    for seen, (_, _, user, (start, end)) in enumerate(_URL.every(text)):
        if seen % 256 == 0:
            clock.check()
        end -= 1
        password = text[start : min(end, start + LOOK)]
        if len(password) < 3 or is_placeholder(password.strip(b"[]")):
            continue
        yield SecretSpan(start, end, "url_password")
        if user[1] - user[0] >= 8 and _HEX_USER.is_all_of(text, *user):
            yield SecretSpan(*user, "url_user")  # A hexadecimal user name is the other half of a key pair.
    for _, (start, end) in _URL_USER.every(text):
        user_name = text[start : min(end, start + LOOK)]
        if is_random(user_name) and (len(user_name) >= 20 or user_name.lower() != user_name):
            yield SecretSpan(start, end, "url_user")


_DSN = compiled(
    r"""(?:^|[\s"'=(\[,>`])[\w.\-$]{1,64}:([^\s:@/"'<>(){}]+)@(tcp|udp|unix|/|[A-Za-z0-9][\w.\-]*(?::\d{2,5}|\.[a-z]{2,12}))"""
    r"""|(?m:^)(?:[\w.\-]+|\*):(?:\d{2,5}|\*):(?:[\w.\-]+|\*):(?:[\w.\-]+|\*):(\S+)[ \t\r]*(?m:$)"""
    r"""|\]:\d{2,5}[ \t]+[\w.@\-]+:(\S{6,})""",
)
_PGPASS_PORT = compiled(r"[^:\n]+:(?:5432|5433|6432|\*):")
_MAILBOX = compiled(r"""[\w.+\-]+@[\w\-]+(?:\.[\w\-]+)+:([^\s:/@"'<>,;|]{6,})(?:[\s"'<>,;|]|$)""")
_FILE_NAME = compiled(r".*\.[A-Za-z]\w{0,4}")
"""`user:password@tcp(host)`, `user:password@host:5432` without a scheme, and lines of .pgpass."""
_UUID = compiled(rf"(?:\w{{2}}-)?{UUID_FORM}")
_DIGEST_LINE = compiled(r"(?m:^)[\w.@\-]{1,40}:([\w .@/\-]{1,60}):([0-9a-f]{32})\r?(?m:$)")
"""A line of .htdigest: user, realm, hash."""
_REALM = compiled(r" |realm|auth|private|admin|area|restrict|member|staff|intern", ignore_case=True)
_SECRET_LINK = compiled(
    r"""://[^\s"'<>?]*/(?:t/(?:\w{2}-)?|private-)([\w\-]{24,})/"""
    r"""|://[^\s"'<>?]*(?:reset|invite|invitation|magic|verify|confirm|activate|one-time|onetime)[^\s"'<>]*?[/=]([\w\-.~]{20,})""",
    ignore_case=True,
)


def addresses(text: bytes, clock: MaskingDeadline) -> Iterator[SecretSpan]:
    """Credentials in addresses without a scheme, and links that log in whoever has them."""
    near = name_windows(text, clock)
    for seen, (whole, (start, end), host, line, relay) in enumerate(_DSN.every(text) if near.has_sign("dsn") else ()):
        if seen % 256 == 0:
            clock.check()
        is_sure = host[0] >= 0 and text[host[0] : host[1]] in (b"tcp", b"udp", b"unix")
        is_sure = is_sure or (line[0] >= 0 and _PGPASS_PORT.match(text, whole[0], line[0]) is not None)
        start, end = next(place for place in ((start, end), line, relay) if place[0] >= 0)
        value = text[start : min(end, start + LOOK)]
        if is_placeholder(value) or len(value) < 3 or (line[0] >= 0 and b":" in value.replace(b"\\:", b"")):
            continue  # The last field of .pgpass has no colon: these are lines of other files, such as /etc/shadow.
        if is_sure or look(value):
            yield SecretSpan(start, end, "url_password")
    for _, (start, end) in _MAILBOX.every(text) if near.has_sign("mailbox") else ():
        value = text[start : min(end, start + LOOK)]
        if _looks_secret(value) and not _FILE_NAME.is_all_of(value):
            yield SecretSpan(start, end, "password")
    for _, realm, (start, end) in _DIGEST_LINE.every(text) if near.has_sign("digest") else ():
        if _REALM.search(text, *realm):
            yield SecretSpan(start, end, "password_hash")
    for places in _SECRET_LINK.every(text) if b"://" in text and near.has_sign("link") else ():
        start, end = next(place for place in places[1:] if place[0] >= 0)
        value = text[start : min(end, start + LOOK)]
        if is_random(value) or _UUID.is_all_of(value):
            yield SecretSpan(start, end, "token")


_SCHEMES = compiled(
    r"""\b(?:bearer(?:[ \t]+|["']?[ \t]*[:=,][ \t]*["']?)([\w.~+/\-]{16,}=*)|basic[ \t]+([A-Za-z0-9+/]{8,}={0,2})"""
    r"""|digest[ \t][^\n]{0,400}\bresponse="?([0-9a-f]{32,}))""",
    ignore_case=True,
)


def headers(text: bytes, clock: MaskingDeadline) -> Iterator[SecretSpan]:
    """`Bearer …` and `Basic …` anywhere; whole header lines are found by `assignments`."""
    if not name_windows(text, clock).has_sign("header"):
        return
    for seen, (_, bearer, basic, digest) in enumerate(_SCHEMES.every(text)):
        if seen % 256 == 0:
            clock.check()
        if bearer[0] >= 0:
            value = text[bearer[0] : min(bearer[1], bearer[0] + LOOK)]
            if not is_placeholder(value) and not is_wordy(value) and (is_random(value) or len(value) > 30):
                yield SecretSpan(*bearer, "bearer_token")
        elif digest[0] >= 0:
            yield SecretSpan(*digest, "digest_response")
        else:
            decoded = _base64(text[basic[0] : min(basic[1], basic[0] + LOOK)])
            if decoded and b":" in decoded and _is_text(decoded):
                yield SecretSpan(*basic, "basic_auth")


_FLAG = compiled(
    r"""(?:^|[\s"'\[,=(`]|\\[nrt])(--?[\w.\-]*(?:pass|pwd|secret|token|key|auth|cred|pw)[\w.\-]*)"""
    r"""(?:["'],\s*["']|[ \t]+["']?|["'][ \t]+["']|[ \t]*\r?\n[ \t]+)([^\s"',\-`][^\s"'`]*)""",
    ignore_case=True,
)
_WORD = r"""(?:"([^"\n]+)"|'([^'\n]+)'|([^\s"'|;&]+))"""


_INNER_WORD = r"""(?:"([^"\n]+)"|'([^'\n]+)'|([^\s"'|;&()`]+))"""
"""A word inside of a command in brackets."""
_NO_FLAG = r"""(?:"([^"\n]+)"|'([^'\n]+)'|([^\s"'|;&()\-][^\s"'|;&()]*))"""


def _line(programs: str, option: str) -> str:
    """Pattern of a command line: one of the programs, anything on the same line, then the option with its value.

    Inside a JSON string, a line begins after an escaped line break, whose `n` is not part of the program's name.
    """
    return rf"(?:\b|\\[nrt])(?:{programs})\b[^\n|;]*?[ \t]{option}{_WORD}"


_COMMAND_SOURCES = (
    _line("mysql|mysqldump|mysqladmin|mariadb|mariadb-dump|mycli", "-p"),
    _line("sshpass", r"-p[ \t]*"),
    _line("influx|doctl|pscale|vercel|fly|flyctl|netlify", r"(?:-t|--access-token)[ \t]+"),
    _line("lftp|ncftp|lftpget", r"-u[ \t]+[^\s,\"']+,"),
    _line(
        "docker|podman|buildah|skopeo|nerdctl|helm|oras|crane|az|acr|oc|argocd|cf|ibmcloud",
        r"login\b[^\n|;]*?[ \t]-p[ \t]+",
    ),
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
    # Users of Redis and games; a value that a flag reads from a command.
    r"(?m:^)[ \t]*(?i:acl[ \t]+setuser|user)[ \t]+\S+[ \t](?:[^\n]*?[ \t])?[>#]([^\s>#]{4,})",
    r"\+login[ \t]+\S+[ \t]+([^\s+][^\s]*)",
    rf"-[\w\-]*(?:pass|pwd|secret|token|key)[\w\-]*[ \t=]+(?:<\(|\$\(|`)[ \t]*"
    rf"(?:echo|printf)[ \t]+(?:-n[ \t]+)?{_INNER_WORD}",
    r"\bWIFI:[^\n]*?[:;]P:((?:[^;\\\n]|\\.)+);",
    _line("rabbitmqctl|rabbitmq-admin", r"(?:add_user|change_password|authenticate_user)[ \t]+\S+[ \t]+"),
    _line("mosquitto_pub|mosquitto_sub|mosquitto_rr", r"-P[ \t]*"),
    _line(
        r"\w+[ \t]+secrets?[ \t]+(?:add|set|create|put|update)",
        r"[^\n|;]*?--(?:data|value|payload|secret-string)[= \t]+",
    ),
    _line("gh", r"secret[ \t]+set[ \t][^\n|;]*?(?:--body|-b)[= \t]+"),
    _line("rdesktop|psexec|psexec64|paexec|winexe|crackmapexec|evil-winrm|cadaver", r"-p[ \t]+"),
    _line("plink|pscp|psftp|putty|kitty", r"-pw[ \t]+"),
    _line("xfreerdp|wfreerdp|mstsc|runas|schtasks|wmic|cmdkey", r"/(?:p|rp|pass|password)[: \t][ \t]*"),
    _line("useradd|usermod|adduser|dscl|luseradd", r"(?:-p|--password)[ \t]+"),
    _line("wpa_passphrase", r"[\w.\-]+[ \t]+"),
    _line("net1?", r"user[ \t]+[\w.\-]+[ \t]+"),
    _line("net1?", r"use[ \t]+(?:[A-Za-z*]:?[ \t]+)?\\\\\S+[ \t]+(?:/\S+[ \t]+)*"),
    _line("npm|yarn|pnpm", r"config[ \t]+set[ \t]+\S*(?:_authToken|_auth|_password)[ \t=]+"),
    _line("kinit|wrangler|passwd|su|sudo|gpg|cryptsetup|chpasswd|htpasswd", r"[^\n|;]*?<<<[ \t]*"),
    _line("az", r"keyvault[ \t]+secret[ \t]+set\b[^\n|;]*?--value[= \t]+"),
    _line("aws", r"ssm[ \t]+put-parameter\b[^\n|;]*?SecureString[^\n|;]*?--value[= \t]+"),
    _line("aws", r"ssm[ \t]+put-parameter\b[^\n|;]*?--value[= \t]+"),
    _line("mysqladmin", r"password[ \t]+"),
    _line("nmcli|netsh|iwctl|wpa_cli", r"(?:password|psk|key|keyMaterial|--passphrase)[= \t]+"),
    _line("consul", r"acl[ \t]+set-agent-token[ \t]+\w+[ \t]+"),
    _line("vault", r"operator[ \t]+(?:unseal|rekey|generate-root)[ \t]+(?:-\S+[ \t]+)*"),
    _line("openssl", r"-[kK][ \t]+"),
    _line("snmp\\w+", r"-A[ \t]*"),
    _line("snmp\\w+", r"-X[ \t]*"),
    _line("snmp\\w+", r"-c[ \t]*"),
    r"\b(?:sqlplus|expdp|impdp|sqlldr|rman)\b[^\n|;]*?[ \t][\w$#]+/([^\s@/]+)@",
    r"\b(?:expdp|impdp|sqlldr)[ \t]+(?:userid=)?[\w$#]+/([^\s@/]{4,})(?:[ \t]|$)",
    r"""(?i:\bConvertTo-SecureString[ \t]+(?:-(?:AsPlainText|Force|String)[ \t]+)*)""" + _NO_FLAG,
    r"""(?i:\bpassword-command[ \t=]+["']?echo[ \t]+)""" + _WORD,
    r"""\bsend(?:_user)?[ \t]+(?:--[ \t]+)?"([^"\n\\]+)\\r\"""",
    rf"""[ \t]-U[ \t]*["']?[A-Za-z][\w.\\\-]*%{_WORD}""",
    _line("openssl", r"-(?:passin|passout|password|pass)[ \t]+pass:"),
    _line("vault", r"login[ \t]+"),
    _line("mc", r"(?:alias[ \t]+set|config[ \t]+host[ \t]+add)[ \t]+\S+[ \t]+\S+[ \t]+\S+[ \t]+"),
    _line("aws", r"configure[ \t]+set[ \t]+\S*(?:secret|token)\S*[ \t]+"),
    _line("kubectl|oc", r"""--from-literal[= ]["']?[\w.\-]+="""),
    (
        rf"\b(?:echo|printf)[ \t]+(?:-[ne]+[ \t]+|[\"']%s(?:\\n)?[\"'][ \t]+)?{_WORD}[ \t]*\|[ \t]*(?:sudo[ \t]+)?"
        r"(?:-S|su\b|passwd|chpasswd|smbpasswd|kinit|cryptsetup|gpg2?\b[^\n|;]*passphrase|ssh-add"
        r"|sudo|doas|vault[ \t]+login"
        r"|[\w.\-]+[ \t][^\n|;]*(?:login\b|-stdin\b|--?pass[\w\-]*|[ \t]-S\b|/dev/stdin))"
    ),
    (
        r"\b(?:requirepass|masterauth|sasl_passwd|bindpw|rootpw|enable (?:secret|password)(?: \d)?"
        r"|snmp-server community"
        r"|key-string(?: \d)?|(?:tacacs|radius)-server (?:host \S+ )?key(?: \d)?|isakmp key(?: \d)?"
        r"|username [a-z]\w* (?:privilege \d+ )?(?:password|secret)(?: \d)|neighbor \S+ password(?: \d)?"
        rf"|ldap bind [^\n]* password)[ \t]+{_WORD}"
    ),
    rf"\bmachine[ \t]+\S+[ \t\n]+login[ \t]+\S+[ \t\n]+password[ \t]+{_WORD}",
    (
        r"(?i:\bidentified[ \t]+(?:with[ \t]+\S+[ \t]+)?by(?:[ \t]+password)?|\bpassword|\bset[ "
        r"\t]+password[^\n=]{0,80}=)[ \t]+'([^'\n]+)'|(?i:\bidentified[ \t]+by)[ \t]+\"([^\"\n]+)\""
    ),
    # createUser of snmpd, its communities, and the secrets of strongSwan.
    rf"(?i:\bcreateuser[ \t][^\n]*?[ \t](?:md5|sha[\w\-]*))[ \t]+{_WORD}",
    rf"(?i:\bcreateuser[ \t][^\n]*?[ \t](?:aes|des)[\w\-]*)[ \t]+{_WORD}",
    r""":[ \t]*(?:PSK|EAP|XAUTH|NTLM|PPK)[ \t]+(?:"([^"\n]+)"|'([^'\n]+)'|(0[sx]\S+))""",
    r"(?m:^)[ \t]*(?:r[ow]community6?|trapcommunity|com2sec6?(?:[ \t]+-\S+[ \t]+\S+)?[ \t]+\S+[ \t]+\S+)[ \t]+" + _WORD,
)
"""Command lines and settings without a separator; one of the groups is the secret."""

_LOGIN_SOURCE = (
    r"(?:\b(?:wget|curl|xh)\b|(?:^|[\s$])https?\b)[^\n|;]*?(?:\\\n[^\n]*?)*?"
    r"[ \t](?:-u[= \t]?|(?:--user|--proxy-user|-U|-a|--auth)[= \t])[ \t]*"
    r"""(?:"([^"\n]+)"|'([^'\n]+)'|([^\s"']*(?:"[^"\n]*"|'[^'\n]*')?))"""
)
"""`curl -u user:password`, also over several lines."""
_ABOUT_KEY = rf"(?:{FORM_WORDS}[ \t]+)"
_COOKIE_SOURCE = r"""\b(?:curl|wget|http|https|xh)[ \t][^\n|;]*?[ \t](?:-b|--cookie)[ \t=]+["']?([^"'\s=]+=[^"'\n]+)"""
_LOOSE_SOURCES = (
    # A user and a password as options of any program, in any order.
    rf"[ \t]-[uU][ \t=]?[^\s\-][^\n|;]*?[ \t]-[pPwW][ \t]*{_WORD}",
    rf"[ \t]-[pPwW][ \t]*{_WORD}[^\n|;]*?[ \t]-[uU][ \t=]?[^\s\-]",
    # What a program that logs in or stores a login has as its last word: `cargo login …`, `poetry config http-basic.…`.
    rf"\b[\w\-]+[ \t]+(?:[\w\-]+[ \t]+)?(?:login|auth|"
    rf"authenticate|add-authtoken|authtoken|activate|enroll|unlock)[ \t]+"
    rf"(?:--?\S+[ \t]+)*{_NO_FLAG}[ \t\r]*(?m:$)",
    rf"\bconfig[ \t]+(?:set[ \t]+|--?\S+[ \t]+)*\S*(?:basic|auth|cred|token|pass)\S*[ \t]+(?:\S+[ \t]+)?{_NO_FLAG}",
    r"\bconfig[ \t]+(?:set[ \t]+|--?\S+[ \t]+)*\S+\.\S+[ \t]+[\w.@\-]+:([^\s/@]{6,})",
    r"""\bLOGIN[ \t]+"?[\w.@\-]+"?[ \t]+"?([^\s"]{6,})""",
    rf"(?:^|[^<])<<<[ \t]*{_WORD}",  # Marks are blanked by more of these.
    # A generated word after any option.
    r"[ \t]-[A-Za-z][ \t]+([A-Za-z0-9+=_]{24,})(?:[ \t\r]|(?m:$))",
)
"""Command lines of unknown programs: the value must look like a secret, too."""
_WITH_USER = 2
"""The first of them name a user, too: the value may be a word with a digit."""
_DEVICE = compiled(
    r"(?m:^)[ \t]*(?:set|add|edit|config|username|user|tunnel|crypto|ip|ipv6"
    r"|router|neighbor|snmp-server|snmp|radius|tacacs"
    r"|aaa|ntp|enable|wlan|wireless|interface|vpn|ike|ipsec|ikev[12]|isakmp|ppp|pppoe|l2tp|bgp|ospf|key|authentication"
    r"|server|peer|access|login|account|local-user|super|/[a-z\-]+)\b(?:[^\n\"'=:]*?[^\n\"'=:/\w])?"
    r"\b(?:pre-?shared-?(?:key|secret)|psk|"
    r"(?:[\w\-]*-)?(?:password|passwd|passphrase|secret|community)|key-string)[ \t]+"
    rf"{_ABOUT_KEY}*{_WORD}[ \t]*(?:[a-z\d\-][\w\-./:]*[ \t]*)*(?m:$)",
    ignore_case=True,
)
_SETTING = compiled(r"[a-z]+(?:-[a-z]+)*|\d{1,5}|[a-z\-]+\d?:?")
"""What follows a name in a setting about passwords: `password minimum-length`."""
"""A setting of a network device: the value follows its name after a space, and settings may follow it."""
_COOKIE_ARGUMENT, _LOOSE = compiled(_COOKIE_SOURCE), tuple(map(compiled, _LOOSE_SOURCES))
_LOGIN = compiled(_LOGIN_SOURCE)
_COMMANDS = tuple(map(compiled, _COMMAND_SOURCES))


_ANY_COMMAND = any_of((*_COMMANDS, _LOGIN, _COOKIE_ARGUMENT, *_LOOSE))
_ATOM = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
_MANY_LINES = 8_192
"""Bytes of command lines from which on it is worth the time to ask first which programs are in them."""
_AFTER_SIGN = ("[^\\n", "[ \\t", "[\\w", "\\S")


@cache
def _command_signs() -> PatternSet:
    return PatternSet(map(_sign_of, _COMMAND_SOURCES))


def _sign_of(source: str) -> str:
    """The part of a pattern up to its first run of any characters: the name of a program. Empty if there is none."""
    depth, end = 0, len(source)
    for atom in _ATOM.finditer(source):
        if depth == 0 and atom[0] == "|":
            return ""  # Each side has a sign of its own.
        if depth == 0 and atom.start() and atom[0].startswith(_AFTER_SIGN):
            end = min(end, atom.start())
        depth += {"(": 1, ")": -1}.get(atom[0], 0)
    return source[:end]


def commands(text: bytes, clock: MaskingDeadline) -> Iterator[SecretSpan]:
    """Secrets on command lines: `--token …`, `mysql -p…`, `curl -u user:…`."""
    at = seen = 0
    near = name_windows(text, clock).rare
    while places := near.search(_FLAG, at):
        seen += 1
        if seen % 256 == 0:
            clock.check()
        _, (flag_start, flag_end), (start, end) = places
        at = start
        name = name_of_secret(text[flag_start : min(flag_end, flag_start + 128)])
        if name is None or name.in_query_only or text[flag_end - 1] == 0x2E:  # The end of a sentence.
            continue
        value = text[start : min(end, start + LOOK)].rstrip(b"\\,;])}")
        word = value.rstrip(b".")
        if not (word.isalpha() and word.islower()) and worth_masking(value, name, quoted=False):
            at = end = start + len(value) if len(value) < LOOK - 8 else end
            yield SecretSpan(start, end, name.kind)
    lines = NameWindows(text, _ANY_COMMAND)
    if not lines:
        return
    for places in lines.every(_LOGIN):
        place = next(((start, end) for start, end in places[1:] if start < end), (0, 0))
        user, colon, password = text[place[0] : min(place[1], place[0] + LOOK)].partition(b":")
        password = password.strip(b"\"'")
        if colon and password != user and not is_placeholder(password or user):
            yield SecretSpan(*place, "command_password")
    for _, place in lines.every(_COOKIE_ARGUMENT):
        yield from cookies(text, *place)
    for number, loose in enumerate(_LOOSE):
        judge = look if number < _WITH_USER else _looks_generated
        for places in lines.every(loose):
            place = next(((start, end) for start, end in places[1:] if start < end), (0, 0))
            if judge(text[place[0] : min(place[1], place[0] + LOOK)]):
                yield SecretSpan(*place, "command_password")
    present = _command_signs().found(lines.joined()) if lines.size > _MANY_LINES else range(len(_COMMANDS))
    for command in (_COMMANDS[number] for number in sorted(present)):
        clock.check()
        for places in lines.every(command):
            place = next(((start, end) for start, end in places[1:] if start < end), (0, 0))
            value = text[place[0] : min(place[1], place[0] + LOOK)]
            quoted = value.partition(b"`")[0] or value  # A command line in a text about it.
            if len(value) >= 4 and not is_placeholder(quoted):
                yield SecretSpan(*place, "command_password")


_CREDENTIAL_SOURCES = (
    # Settings of network devices: between the name and the key stand its number, its form and its algorithm.
    r"(?:key|psk|password|passwd|secret|passphrase|community|key-string|auth|authentication|priv|privacy)[ \t]+"
    rf"""{_ABOUT_KEY}+["']?([^\s"';,]{{6,}})""",
    # PASSWORD(…) on mainframes.
    r"""\b(?-i:[A-Z]*PASSWORD|[A-Z]*PASSWD|[A-Z]*PASS|PWD|PASSPHRASE|PHRASE|[A-Z]*SECRET)\('?([^\s()'"]{4,})'?\)""",
    # A value in front of its name: setObject:@"…" forKey:@"password".
    r"""["']([^"'\n]{6,})["'][ \t]*,?[ \t]*(?:for\w*|with\w*key|key|name|as|into)[ \t]*[:=(]?[ \t]*[@.]?"""
    rf"""["']?([\w.\-]*{ANCHOR}[\w.\-]*)""",
    # Pairs: u: … p: …
    r"\bu(?:ser)?(?:name)?[:=][ \t]?\S+[ \t,;/|]+p(?:w|wd|ass)?[:=][ \t]?([^\s,;]{6,})",
    r"\b(?:logon|login|conn(?:ect)?)[ \t]+[\w$#]+/([^\s@/]{6,})",
    r"\buser[ \t]+\S+[ \t]+using[ \t]+[\"']?([^\s\"';]{6,})",
    r"""\bidentified[ \t]+by[ \t]+(?:values[ \t]+)?"?([^\s"':;,<&(@]{6,})""",
    r"\bsetuser\b[^\n]*?[ \t][>#](\S{6,})",
    r"::add-mask::(\S{4,})|##vso\[task\.setsecret\](\S{4,})"
    r"|##vso\[task\.setvariable [^\]\n]*issecret=true[^\]\n]*\](\S{4,})",
)
_CALL = compiled(
    r"""\b(?:(?:\w*(?:log_?[io]n|sign_?in|auth|cred|pw_set|password|connect|sequelize|create_?user|_bind|imap_open)\w*|(?:mysqli"""
    r"""|pdo)(?:->__construct)?|begin)["']?[ \t]*=?"""
    r"""[ \t]*\(|(?:sp_addlogin|sp_password)[ \t]+)((?:[^()"'\n]*["'][^"'\n]*["']){2,6})""",
    ignore_case=True,
)
"""A call with a user and a password among its arguments."""
_ARGUMENT = compiled(r"""["']([^"'\n]*)["']""")
_USER = compiled(r"[A-Za-z][A-Za-z_\-]*(?:@[\w.\-]+)?")
_CREDENTIAL = compiled("|".join(_CREDENTIAL_SOURCES), ignore_case=True)
_CREDENTIAL_BOUNDS = any_of((_CREDENTIAL,))
_LOGIN_LINE = compiled(r"""(?m)^[ \t\-]*["']?[a-z_][\w\-]*:([^\s:"']{4,})["']?[ \t\r]*$""")
_PAIR = compiled(
    r"""(?:^|[\s:("'`*])[A-Za-z][\w.@\-]{1,40}["'`*]*[ \t]+/[ \t]+["'`*]*([^\s"'`<>(){}\[\],;/:*]{8,})"""
    r"""|[(\[]["'][\w.@\-]{2,40}["'],[ \t]*["']([^\s"',]{8,})["'][)\]]"""
)
_PAIR_CUE = compiled(
    r"log[io]n|account|cred|admin|root|pass|\bpw\b|access|sign.?in|\bssh|\bvpn|wi-?fi", ignore_case=True
)
_CERTAIN = compiled(
    # The key of a wireless network as Windows shows it.
    r"""\b(?:key[ \t]+content|schl(?:\xc3\xbc|ue)sselinhalt|contenu[ \t]+de[ \t]+la[ \t]+cl\xc3\xa9"""
    r"""|contenido[ \t]+de[ \t]+la[ \t]+clave)"""
    r"""[ \t]{2,}:[ \t]*([^\s][^\r\n]{3,62})"""
    # The answer to `Password:` in a dialogue in base64.
    r"""|\b334[ \t]+UGFzc3dvcmQ[6A]?\S*\r?\n(?:[^\s]{1,12}[ \t]+)?([A-Za-z0-9+/]{4,}={0,2})"""
    # The key of a gossip protocol.
    r"""|["']?\bencrypt["']?[ \t]*[:=][ \t]*["']?([A-Za-z0-9+/]{22,43}={1,2})"""
    r"""|(?m:^)[ \t]*option[ \t]+key[ \t]+'([^'\n]{5,63})'[ \t\r]*(?m:$)"""
    r"""|\bsv_setsteamaccount[ \t]+["']?([0-9A-Fa-f]{16,})"""
    # A login of IMAP, a user with a password in one field, a line of the secrets of davfs2.
    r"""|\b[A-Za-z]*\d+[ \t]+(?-i:LOGIN)[ \t]+[\w.@+\-]+[ \t]+"([^"\n]{4,})["]"""
    r"""|\bnpmAuthIdent["']?[ \t]*[:=][ \t]*["']?([^\s"']{6,})"""
    r"""|\bsecrets?\b[^\n]*\n(?:[^\n]*\n)?https?://\S+[ \t]+[\w.@\-]+[ \t]+["']?([^\s"']{6,})"""
    # The key of a function that encrypts, in SQL.
    r"""|\b(?:pgp_sym|aes|des)_(?:en|de)crypt(?:_bytea)?\([^()\n]*?,[ \t]*'([^'\n]{8,})'"""
    # The password of a connection string of Go may have any sign.
    r"""|[\w.\-]:([^\s"'@:]{4,})@(?:tcp|unix)\("""
    # What a generator prints.
    r"""|\b(?:wg[ \t]+gen(?:key|psk)|openssl[ \t]+rand|pwgen|makepasswd|dumpprivkey"""
    r"""|(?:\w+-)?gen(?:erate)?-(?:password|secret|key|token))\b[^\n]*\r?\n"""
    r"""([^\s]{8,128})[ \t\r]*(?:\n|$)""",
    ignore_case=True,
)
"""What the syntax alone calls a secret."""
_SECRET_SIGNS = frozenset(b"!#$%&*+?^~@")
_CREDENTIAL_NAME = Name("credential", Demand.LIKELY)


def credentials(text: bytes, clock: MaskingDeadline) -> Iterator[SecretSpan]:
    """A user with a password, and keys in the settings of devices: only place and look tell the secret."""
    near_all = name_windows(text, clock)
    near = near_all.rare
    at = seen = 0
    while bounds := near.search(_CREDENTIAL_BOUNDS, at):
        seen += 1
        if seen % 64 == 0:
            clock.check()
        places = _CREDENTIAL.groups_of(text, *bounds[0])
        assert places is not None  # The same pattern.
        (start, end), *name = [place for place in places[1:] if place[0] >= 0]
        at = end
        if name and name_of_secret(text[name[0][0] : min(name[0][1], name[0][0] + 128)]) is None:
            continue
        if _looks_secret(text[start : min(end, start + LOOK)]):
            yield SecretSpan(start, end, "credential")
    for places in near_all.every(_DEVICE):
        clock.check()
        start, end = next(place for place in places[1:] if place[0] >= 0)
        value = text[start : min(end, start + LOOK)].rstrip(b",.;")
        if len(value) >= 6 and not is_placeholder(value) and not _SETTING.is_all_of(value):
            yield SecretSpan(start, end, "credential")
    for places in near_all.every(_CERTAIN):
        clock.check()
        start, end = next(place for place in places[1:] if place[0] >= 0)
        end = start + len(text[start:end].rstrip())
        # What a generator prints has digits; a message in its place hardly ever.
        is_printed = start == places[-1][0]
        if not is_placeholder(text[start:end]) and (not is_printed or any(sign in DIGITS for sign in text[start:end])):
            yield SecretSpan(start, end, "credential")
    yield from _arguments(text, near, clock)
    at = text.find(b"chpasswd")
    while at >= 0:
        clock.check()
        following = text.find(b"chpasswd", at + LOOK)
        for _, (start, end) in _LOGIN_LINE.every(text, at, min(len(text), at + 2 * LOOK)):
            if text[start : start + 2] != b"//" and not is_placeholder(text[start : min(end, start + LOOK)]):
                yield SecretSpan(start, end, "password")
        at = following
    is_named = b" / " in text or bool(near_all)
    for places in _PAIR.every(text) if is_named and near_all.has_sign("pair") else ():
        start, end = next(place for place in places[1:] if place[0] >= 0)
        value = text[start : min(end, start + LOOK)]
        around = max(0, start - 80), start if places[1][0] >= 0 else min(len(text), end + 40)
        is_said = bool(places[1][0] >= 0 and _SECRET_SIGNS & set(value)) or _PAIR_CUE.search(text, *around) is not None
        if is_said and _looks_secret(value):
            yield SecretSpan(start, end, "credential")


def _arguments(text: bytes, near: NameWindows, clock: MaskingDeadline) -> Iterator[SecretSpan]:
    """The password among the arguments of a call that logs in."""
    for _, (start, end) in near.every(_CALL):
        clock.check()
        first, *others = [place for _, place in _ARGUMENT.every(text, start, end)]
        before = first
        for start, end in others:
            user, before = before, (start, end)
            if end - start < 6 or text[first[1] + 1 : start].strip(b" \t")[:1] not in (b",", b")"):
                continue
            if _looks_secret(text[start:end]) or (_USER.is_all_of(text, *user) and look(text[start:end])):
                yield SecretSpan(start, end, "credential")


def _looks_generated(value: bytes) -> bool:
    return _looks_secret(value) and not _HEX_KEY.is_all_of(value)


def _looks_secret(value: bytes) -> bool:
    """Whether a value is mixed, generated or hexadecimal, and names nothing."""
    if b" " in value or is_placeholder(value) or is_code(value):
        return False
    if is_random(value) or (_HEX_KEY.is_all_of(value) and not value.isdigit()) or _HEX_NUMBERS.is_all_of(value):
        return True
    return is_mixed(value, announced=True) and not names_something(value, _PASSWORD_NAME)


_HEX_KEY = compiled(r"[0-9A-Fa-f]{10,}")
_HEX_NUMBERS = compiled(r"[0-9]{14,}")
_PASSWORD_NAME = Name("password", Demand.ANY)

_PRIVATE_KEY = compiled(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")
_PRIVATE_KEY_END = compiled(r"-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")
_KEY_LINES = compiled(
    r"""(?:(?:[\s"'+,>|\\]|\\+[nrt]|[A-Z][\w\-]+: [^\n\\]*)*[A-Za-z0-9+/=]{20,})*"""
    r"""(?:(?:\s|\\+[nr])*[A-Za-z0-9+/]{1,63}={1,2})?"""
)
_KEY_MATERIAL = compiled(r"[A-Za-z0-9+/=]{8,}")
_PUTTY = compiled(r"Private-Lines: \d+\s+((?:[A-Za-z0-9+/=]+\s+)+)Private-MAC: [0-9a-f]+")


_KEY_HEAD = compiled(
    r"\b(?:MII[A-Za-z0-9+/]{2,6}IBAA[JKL][A-Za-z0-9+/]|MII[A-Za-z0-9+/]{2,6}IBADANBgkqhkiG9w0BAQEFAAS|MHcCAQEE|MIHcAgEB"
    r"|MIG[A-Za-z0-9+/]{1,3}gEAMB[A-Za-z0-9+/]GByqGSM49|MC4CAQAwBQYDK2Vw|b3BlbnNzaC1rZXktdjE|lQ[OHIc][A-Z][BEYZ][A-Za-z0-9+/]{40})"
)
"""How the Base64 of a private key begins: PKCS #1, PKCS #8, SEC 1, OpenSSH."""
_KEY_LINE = compiled(r"""(?:^|[\s>|:"'])([A-Za-z0-9+/]{16,}={0,2}|[A-Za-z0-9+/]{1,63}={1,2})[\s"'\\,;+]*$""")
_LINE_BREAK = compiled(r"\r?\n|\\+r\\+n|\\+n")
_CUT = 16_384
"""Most bytes of a key whose beginning is missing."""
_KEY_NUMBERS = compiled(
    r"\b(?:privateExponent|prime[12]|exponent[12]|coefficient|priv):\s*((?:[0-9a-fA-F]{2}:\s*){8,}[0-9a-fA-F]{0,2})"
)

_XML_KEY = compiled(r"<(?:D|P|Q|DP|DQ|InverseQ)>\s*([A-Za-z0-9+/=]{16,})\s*</")
_KEY_SIGN = any_of((compiled("PRIVATE KEY|Private-Lines|<Modulus>"), _KEY_HEAD, _KEY_NUMBERS))


def _cut_above(text: bytes, lowest: int, end: int) -> Iterator[SecretSpan]:
    """The lines of a key in front of its END, if its BEGIN is missing."""
    lowest = max(lowest, end - _CUT)
    breaks = [lowest, *(at for ((_, at),) in _LINE_BREAK.every(text, lowest, end))]
    for start in reversed(breaks):
        if text[start:end].strip():
            line = _KEY_LINE.search(text[start:end]) if end - start <= LOOK else None
            if line is None:
                return
            yield SecretSpan(start + line[1][0], start + line[1][1], "private_key")
        end = len(text[lowest:start].rstrip(b"\r\n")) + lowest
        end = len(text[lowest:end].removesuffix(b"\\n").removesuffix(b"\\r").rstrip(b"\\")) + lowest


def private_keys(text: bytes, clock: MaskingDeadline) -> Iterator[SecretSpan]:
    """PEM, OpenSSH and PGP private keys: complete, truncated, or on one line with escaped line breaks."""
    if not name_windows(text, clock).has_sign("key") or _KEY_SIGN.search(text) is None:
        return
    has_frame = b"PRIVATE KEY" in text
    begins = [places[0] for places in _PRIVATE_KEY.every(text)] if has_frame else []
    ends = [places[0] for places in _PRIVATE_KEY_END.every(text)] if has_frame else []
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
            yield SecretSpan(start, stop, "private_key")
    for number, (at, _) in enumerate(ends):
        clock.check()
        lowest = ends[number - 1][1] if number else 0
        index = bisect_left(begins, (at, at))
        if index == 0 or begins[index - 1][0] < lowest:
            yield from _cut_above(text, lowest, at)
    for ((start, head_end),) in _KEY_HEAD.every(text):
        lines = _KEY_LINES.match(text, head_end, min(len(text), head_end + _CUT))
        if lines and lines[0][1] - start >= 64:
            yield SecretSpan(start, lines[0][1], "private_key")
    for _, (start, end) in _KEY_NUMBERS.every(text):
        yield SecretSpan(start, start + len(text[start:end].rstrip()), "private_key")
    for _, place in _XML_KEY.every(text) if b"<Modulus>" in text else ():
        yield SecretSpan(*place, "private_key")
    for _, (start, end) in _PUTTY.every(text) if b"Private-Lines" in text else ():
        yield SecretSpan(start, start + len(text[start:end].rstrip()), "private_key")


# --------------------------------------------------------------------------- structures

_SECRET_KIND = compiled(r"""kind["'\\]*[ \t]*:[ \t]*["'\\]*secret(?:list)?\b""", ignore_case=True)
_YAML_SECRET = compiled(
    r"""(?m)\bkind[ \t]*:[ \t]+["']?secret(?:list)?\b|["']kind["'][ \t]*:[ \t]+["']?secret(?:list)?["']?[ \t\r]*$""",
    ignore_case=True,
)
_NAME_FIELD = r"[\w\-]*(?:name|key|variable|header|field|label|option|setting)"
_RECORD = compiled(
    rf"""(?:["']{_NAME_FIELD}["']\s*:\s*["']|\b{_NAME_FIELD}:[ \t]+["']?)([\w.\-/]*{ANCHOR}[\w.\-]*)"""
    r"""|["'](?:is_?)?(?:sensitive|secret|secured?|masked|concealed|confidential|encrypted|noecho)["']\s*:\s*["']?true"""
    r"""|securestring|concealed|vault\.azure\.net/secrets/|/secrets/[\w\-]+/versions/|random_(?:password|string|bytes)"""
    r"""|_secret(?:_version)?["']|["']kty["']|\bkty:|\bkeyname["'\s]"""
    r"""|["'][\w\-]*ssid["']\s*:|\b[\w\-]*[^b\W]?ssid:[ \t]"""
    r"""|["'](?:\w*tokens|passwords|\w*secrets|credentials|creds|(?:api|access|secret|storage)_?keys)["']\s*:\s*\{""",
    ignore_case=True,
)
"""What a record says if one of its values is secret: a sensitive name (the group), or its type."""
_NAMED_ELSEWHERE = compiled(
    rf"""(?:<(?:name|key)>\s*([\w.\-]*{ANCHOR}[\w.\-]*)\s*</(?:name|key)>\s*<(?:value|string)>\s*([^<]*)"""
    rf"""|\bvariable[ \t]+"([\w\-]*{ANCHOR}[\w\-]*)"[ \t]*\{{[^{{}}]*?\bdefault[ \t]*=[ \t]*"([^"\n]*)")""",
    ignore_case=True,
)
"""Pairs of neighbouring XML elements, and Terraform variables with a default."""
_STORED = compiled(
    r"""\bresource[ \t]+"\w*(?:password|secret)\w*"[^{}]*\{[^{}]*?\b(?:result|value|secret_string"""
    r"""|secret_data|bcrypt_hash)"""
    r"""[ \t]*=[ \t]*"([^"\n]+)"|\btype[ \t]*=[ \t]*"SecureString"[^{}]*?\bvalue[ \t]*=[ \t]*"([^"\n]+)\""""
    r"""|\bvalue[ \t]*=[ \t]*"([^"\n]+)"[^{}"]*?\btype[ \t]*=[ \t]*"SecureString"|"""
    r"""SecureString[ \t|]+([^\s|"',}]{6,})|\bProtect(?:ed|InMemory)="True"[^<>\n]*>([^<>\n]+)""",
)
"""Terraform resources and lines of a table that hold secrets."""
_VALUE_FIELD = compiled(
    r"""(?:val|value|contents?|plaintext|default|result|data|data_json|secret_?string|bcrypt_hash|\b(?:d|p|q|dp|dq|qi|k|key)"""
    r"""|tokens|passwords|secrets|credentials|creds|keys)["']?\s*:""",
    ignore_case=True,
)
"""A record without one of these has no value to mask."""
_SWAPPED_QUOTES = bytes.maketrans(b"\"'", b"'\"")
_GO_MAP = compiled(r"\b(?:data|Data|stringData|StringData):map\[([^\[\]\n]*)\]")
_GO_PAIR = compiled(r"[\w.\-]+:(\S+)")


def structures(text: bytes, clock: MaskingDeadline) -> Iterator[SecretSpan]:
    """Kubernetes Secrets at any depth, names whose value is in a neighbouring field, columns of tables."""
    if (b"ecret" in text or b"ECRET" in text) and _SECRET_KIND.search(text):
        yield from _kubernetes_secrets(text, clock)
    near = name_windows(text, clock)
    if not near:
        return
    yield from _neighbouring_values(text, near)
    if b"\n" in text and near.has_sign("heading"):
        yield from walk_tables(text, clock.check)
    if b"(" in text and near.has_sign("rows"):
        yield from walk_rows(text, clock.check)
    yield from _named_values(text, near, clock)


def _kubernetes_secrets(text: bytes, clock: MaskingDeadline) -> Iterator[SecretSpan]:
    yield from walk_secrets(text, clock.check)
    if b"'kind'" in text:
        yield from walk_secrets(text.translate(_SWAPPED_QUOTES), clock.check)  # A printed Python dictionary.
    walked = 0
    for ((at, _),) in _YAML_SECRET.every(text):
        if at < walked:
            continue
        start = text.rfind(b"\n---", walked, at) + 1 or walked
        walked = text.find(b"\n---", at)
        walked = len(text) if walked < 0 else walked + 1
        for span in walk_yaml(text[start:walked], clock.check):
            yield SecretSpan(start + span.start, start + span.end, span.kind, span.quote)
    if b"kind:Secret" in text or b"Kind:Secret" in text:
        for _, (start, end) in _GO_MAP.every(text):
            for _, place in _GO_PAIR.every(text, start, end):
                yield SecretSpan(*place, "kubernetes_secret")


def _neighbouring_values(text: bytes, near: NameWindows) -> Iterator[SecretSpan]:
    for places in near.every(_NAMED_ELSEWHERE) if b"<" in text or b"ariable" in text else ():
        (name_start, name_end), (start, end) = places[1:3] if places[1][0] >= 0 else places[3:5]
        name = name_of_secret(text[name_start : min(name_end, name_start + 128)])
        if name is not None and worth_masking(text[start : min(end, start + LOOK)].rstrip(), name, quoted=True):
            yield SecretSpan(start, start + len(text[start:end].rstrip()), name.kind)
    for places in _STORED.every(text) if near.has_sign("store") else ():
        start, end = next(place for place in places[1:] if place[0] >= 0)
        if not is_placeholder(text[start : min(end, start + LOOK)]):
            yield SecretSpan(start, end, "secret")


def _named_values(text: bytes, near: NameWindows, clock: MaskingDeadline) -> Iterator[SecretSpan]:
    """`name: DB_PASSWORD` and the `value` in the same record, in JSON, YAML or a printed Python dictionary."""
    walked, swapped = 0, b""
    while places := near.search(_RECORD, walked):
        (at, walked), (name_start, name_end) = places
        if name_start >= 0 and name_of_secret(text[name_start : min(name_end, name_start + 128)]) is None:
            continue
        place = object_start(text, at)
        quote = _first_quote(text, place, at) if place is not None else b""
        if place is not None and quote:
            if quote == b"'":
                swapped = swapped or text.translate(_SWAPPED_QUOTES)
            source = text if quote == b'"' else swapped
            end = object_end(source, place, at)
            walked = max(walked, end)
            if _VALUE_FIELD.search(source, place, end):
                yield from walk_object(source, place, end, clock.check)
        else:
            start, end = mapping_around(text, _key_place(text, at))
            walked = max(walked, end)
            if _VALUE_FIELD.search(text, start, end):
                for span in walk_yaml(text[start:end], clock.check):
                    yield SecretSpan(start + span.start, start + span.end, span.kind, span.quote)


def _first_quote(text: bytes, start: int, at: int) -> bytes:
    """The quotes of an object's keys; none if its keys have no quotes."""
    first = text[start + 1 : min(start + 200, at + 1)].lstrip()[:1]
    return first if first in (b'"', b"'") else b""


def _key_place(text: bytes, at: int) -> int:
    """Where the key begins in the line of this place, after blanks and dashes."""
    lead = text[line_start(text, at, 400) : at]
    return at - len(lead.lstrip(b" \t-"))


# --------------------------------------------------------------------------- decoded and searched again

_STRING_WORTH_DECODING = compiled(
    r"""kind\W{1,12}secret|(?:name|key|type)["'\\]*:[^\n]{1,80}\\+n[ \-]*["'\\]*value["'\\]*:"""
    r"""|:[ ]?[|>][+\-]?\\+n|\\u00[2-7][0-9a-f]""",
    ignore_case=True,
)
_ESCAPED_STRING = compiled(r'"[^"\\\n]*\\.(?:[^"\\\n]|\\.)*"?')
_ESCAPE = re.compile(rb"(\\(?:u[0-9a-fA-F]{4}|[^u\n]|u))")
_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b" ", b"f": b" "}


_COLOUR = re.compile(
    rb"(\\(?<!\\\\)\\*+(?:u001[bB]|x1[bB]|033|e)\[\d{1,3}(?:;\d{1,3}){0,4}m|\^\[\[\d{1,3}(?:;\d{1,3}){0,4}m"
    rb"|\[\d{1,3}(?:;\d{1,3}){0,4}m)"
)
_COLOUR_END = compiled(r"\[\d{1,3}(?:;\d{1,3}){0,4}m")


def _without_colours(text: bytes) -> View | None:
    """Without colour codes that are escaped (\\u001b[32m) or incomplete; `clean` removes only real ones."""
    if _COLOUR_END.search(text) is None:
        return None
    source = _COLOUR.split(text)
    spelled = source.copy()
    spelled[1::2] = [b""] * (len(source) // 2)
    return View(source, spelled)


def _in_strings(text: bytes) -> View | None:
    """Documents inside JSON strings."""
    if b"\\" not in text or _STRING_WORTH_DECODING.search(text) is None:
        return None
    source: list[bytes] = []
    spelled: list[bytes] = []
    at = 0
    for ((start, end),) in _ESCAPED_STRING.every(text):
        if _STRING_WORTH_DECODING.search(text, start, end) is None:
            continue
        start, end = start + 1, end - (text[end - 1] == 0x22)
        parts = _ESCAPE.split(text[start:end])
        source += (text[at:start], *parts)
        parts[1::2] = map(_unescaped, parts[1::2])
        spelled += (GAP, *parts)
        at = end
    return View((*source, text[at:]), (*spelled, GAP)) if source else None


@lru_cache(maxsize=2048)
def _unescaped(escape: bytes) -> bytes:
    if len(escape) == 6:
        return chr(int(escape[2:], 16) or 32).encode("utf-8", "replace")
    return _ESCAPES.get(escape[1:], escape[1:])


_PERCENT_WORTH_DECODING = compiled(r"%(?:3[AaDd]|22|27|40|7[Bb]|26|2[0Ff5]|[46][1-9A-Fa-f]|[57][0-9Aa])")
_PERCENT_RUN = compiled(r"""[^\s"'<>]*%[0-9A-Fa-f]{2}[^\s"'<>]*""")
_PERCENT = re.compile(rb"(%[0-9A-Fa-f]{2})")
_FORM_PERCENT = re.compile(rb"(%[0-9A-Fa-f]{2}|\+)")
"""In a form, a plus is a space."""


def _in_percent(text: bytes, code: re.Pattern[bytes]) -> View | None:
    if b"%" not in text or _PERCENT_WORTH_DECODING.search(text) is None:
        return None
    source: list[bytes] = []
    spelled: list[bytes] = []
    at = 0
    for ((start, end),) in _PERCENT_RUN.every(text):
        if code is _FORM_PERCENT and b"+" not in text[start:end]:
            continue  # As without forms.
        parts = code.split(text[start:end])
        source += (text[at:start], *parts)
        parts[1::2] = map(_percent_decoded, parts[1::2])
        spelled += (GAP, *parts)
        at = end
    return View((*source, text[at:]), (*spelled, GAP)) if source else None


@lru_cache(maxsize=512)
def _percent_decoded(code: bytes) -> bytes:
    return b" " if code == b"+" else bytes((int(code[1:], 16) or 32,))


# Four characters of Base64 that decode to three of printable ASCII; five of these in a row are no coincidence. Hex
# likewise.
_QUAD = "[CDI-Za-f][ACDEFGHSTUVWXijklmnyz0123][ABEFIJMNQRUVYZcdghklopstwx014589][A-Za-z0-9+/_\\-]"
_ENCODED = compiled(rf"(?:{_QUAD}){{5}}[A-Za-z0-9+/_\-]*={{0,2}}|(?:[2-7][0-9A-Fa-f]){{12,}}")
_HEX = b"0123456789abcdefABCDEF"
_PRINTABLE = bytes(range(32, 127)) + b"\t\r\n"
_UNPRINTABLE = compiled(r"[^\x20-\x7e\t\r\n]")


def _in_encoded(text: bytes, found: list[SecretSpan]) -> View | None:
    """Base64 and hex that decode to a text. A view has no place inside of a run, so the whole run is masked."""
    covered = sorted((span.start, span.end) for span in found)
    starts = [start for start, _ in covered]
    source: list[bytes] = []
    spelled: list[bytes] = []
    at = 0
    for ((start, end),) in _ENCODED.every(text):
        index = bisect_right(starts, start) - 1
        if index >= 0 and covered[index][1] >= end:
            continue
        run = text[start:end]
        decoded = _hex(run) if not run.strip(_HEX) else _base64(run)
        if decoded and (unprintable := _UNPRINTABLE.search(decoded)):
            decoded = decoded if _is_text(decoded) else decoded[: unprintable[0][0]]
        if decoded and len(decoded) >= 12:
            source += (text[at:start], run)
            spelled += (GAP, decoded)
            at = end
    return View((*source, text[at:]), (*spelled, GAP)) if source else None


_URL_ALPHABET = bytes.maketrans(b"-_", b"+/")


def _base64(run: bytes) -> bytes | None:
    run = run.rstrip(b"=")
    run = run[:-1] if len(run) % 4 == 1 else run
    try:
        return binascii.a2b_base64(run.translate(_URL_ALPHABET) + b"=" * (-len(run) % 4))
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


_RARE = any_of((ANY_SAID_FIRST, SPACED, _FLAG, _CREDENTIAL, _CALL))
"""Patterns for names in unusual places, searched together before each by itself."""

GROUPS: dict[str, tuple[Finder, ...]] = {
    "structures": (structures,),
    "assignments": (assignments, announced),
    "tokens": (tokens,),
    "urls": (urls, addresses),
    "headers": (headers,),
    "private_keys": (private_keys,),
    "commands": (commands, credentials),
    "spaced": (spaced,),
    "prose": (in_sentences, said_first, evidence, below_commands, by_look),
}
"""Finders by the name of their group, in this order. The group `encoded` decodes and searches again."""
