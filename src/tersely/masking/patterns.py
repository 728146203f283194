"""Classifies names and values: which names announce a secret, and which values are placeholders or random.

Works on UTF-8 bytes. All patterns are re2 expressions, whose time is linear in the
length of any text. Where a text is searched is `masking.search` and
`masking.assignments`, nesting in JSON and YAML is `masking.structures`, token patterns
are `masking.token_patterns`.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar, cast

import re2

Places = list[tuple[int, int]]
"""The span of a match, then those of its groups; (-1, -1) for a group that did not match."""

_NOWHERE = (-1, -1)
_ANYWHERE, _HERE, _EXACTLY = (
    re2._re2.RE2.Anchor.UNANCHORED,
    re2._re2.RE2.Anchor.ANCHOR_START,
    re2._re2.RE2.Anchor.ANCHOR_BOTH,
)


class Pattern:
    """An re2 expression that returns spans.

    Match objects of the library cost three times the match itself, and a hostile text
    causes ten thousand of them, so the library's internal call is used.
    """

    __slots__ = ("_encoding", "_expression", "_match", "_source", "ignore_case")

    def __init__(
        self,
        pattern: str | Callable[[], str],
        *,
        ignore_case: bool = False,
        encoding: Any = re2.Options.Encoding.LATIN1,
    ) -> None:
        self._source = pattern
        self.ignore_case = ignore_case
        self._encoding = encoding
        self._expression: Any = None
        # Replaced by the library's own function at the first match: most texts need few of the patterns, and compiling
        # all of them takes longer than a short-lived process may live.
        self._match: Callable[[Any, bytes, int, int], Places] = self._first_match

    @property
    def source(self) -> str:
        return self._source if isinstance(self._source, str) else self._source()

    def compile(self) -> Any:
        """
        Raises:
            re2.error: The pattern is invalid.
        """
        if self._expression is None:
            options = re2.Options()
            options.encoding = self._encoding
            options.max_mem = 64 << 20  # Large alternations need memory, or re2 falls back to a slower matcher.
            options.case_sensitive = not self.ignore_case
            options.log_errors = False
            self._expression = re2.compile(self.source.encode(), options)
            self._match = self._expression._regexp.Match
        return self._expression

    def _first_match(self, anchor: Any, text: bytes, start: int, end: int) -> Places:
        self.compile()
        return self._match(anchor, text, start, end)

    @property
    def groups(self) -> int:
        return int(self.compile().groups)

    @property
    def named(self) -> dict[bytes, int]:
        return dict(self.compile().groupindex)

    def search(self, text: bytes, start: int = 0, end: int | None = None) -> Places | None:
        places = self._match(_ANYWHERE, text, start, len(text) if end is None else end)
        return None if places[0] == _NOWHERE else places

    def match(self, text: bytes, start: int = 0, end: int | None = None) -> Places | None:
        places = self._match(_HERE, text, start, len(text) if end is None else end)
        return None if places[0] == _NOWHERE else places

    def groups_of(self, text: bytes, start: int, end: int) -> Places | None:
        """As `match`, for a range that is known to match: equal ranges are taken apart once."""
        before = start - 1 if start else 0  # A byte on each side, which decides whether a word or a line ends there.
        places = _groups_of(self, text[before : end + 1], start - before, end - before)
        return places and [(first + before, last + before) if first >= 0 else _NOWHERE for first, last in places]

    def is_all_of(self, text: bytes, start: int = 0, end: int | None = None) -> bool:
        return self._match(_EXACTLY, text, start, len(text) if end is None else end)[0] != _NOWHERE

    def every(self, text: bytes, start: int = 0, end: int | None = None) -> Iterator[Places]:
        """All matches that do not overlap, in order."""
        limit = len(text) if end is None else end
        while start <= limit and (places := self._match(_ANYWHERE, text, start, limit))[0] != _NOWHERE:
            yield places
            start = places[0][1] + (places[0][0] == places[0][1])


def compiled(pattern: str, *, ignore_case: bool = False) -> Pattern:
    """Compile one of our own patterns. They are ASCII and matched bytewise, which makes the automata smaller."""
    return Pattern(pattern, ignore_case=ignore_case)


_Judge = TypeVar("_Judge", bound=Callable[..., Any])
_judges: list[Any] = []


def remembered(judge: _Judge) -> _Judge:
    """Judge equal values once: several finders look at the same value, and texts repeat theirs."""
    cached = lru_cache(maxsize=1024)(judge)
    _judges.append(cached)
    return cast(_Judge, cached)


def forget_values() -> None:
    """After each text: no secret stays in memory because it was judged."""
    for judge in _judges:
        judge.cache_clear()


@remembered
def _groups_of(pattern: Pattern, text: bytes, start: int, end: int) -> Places | None:
    return pattern.match(text, start, end)


_GROUP = re.compile(r"(\\.|\[\^?\]?(?:\\.|[^\]\\])*\])|\((?!\?)")


def any_of(patterns: Iterable[Pattern]) -> Pattern:
    """What matches where one of the patterns does, without groups, which cost more than the search."""

    def joined() -> str:
        sources: list[str] = []
        for pattern in patterns:
            source = _GROUP.sub(lambda found: found[1] or "(?:", pattern.source)
            flags = ("m" if source.startswith("(?m)") else "") + ("i" if pattern.ignore_case else "-i")
            sources.append(f"(?{flags}:{source.removeprefix('(?m)')})")
        return "|".join(sources)

    return Pattern(joined)  # Written out when it is compiled: most processes need few of these.


class PatternSet:
    """Tells which of several small patterns occur in a text, in one pass."""

    def __init__(self, sources: Iterable[str]) -> None:
        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.max_mem = 64 << 20
        self._set = re2.Set.SearchSet(options)
        for source in sources:
            self._set.Add(source.encode())
        self._set.Compile()

    def found(self, text: bytes) -> frozenset[int]:
        """The numbers of those that occur."""
        return frozenset(self._set.Match(text) or ())


def groups_in(source: str) -> int:
    """How many groups a pattern has, without compiling it."""
    return sum(not found[1] for found in _GROUP.finditer(source))


# --------------------------------------------------------------------------- names


class Demand(Enum):
    """How much a value must look like a secret before it is masked under a name."""

    __hash__ = object.__hash__  # The one of Enum is written in Python, and judgements are looked up by it.

    ANY = "any"  # The name is enough: only placeholders, references and status words are not masked.
    LIKELY = "likely"  # Names are not masked either: `secret: registry-credentials` is a reference.
    RANDOM = "random"  # Only generated values are masked.
    KEY = "key"  # Only values that are generated and denser than any identifier.


class Name(NamedTuple):
    kind: str
    demand: Demand
    in_query_only: bool = False
    """The name announces a secret in `?name=value` only."""


ANCHORS = (
    "pass", "pwd", "pswd", "pword", "secret", "tok", "tkn", "key", "cred", "auth", "jwt", "bearer", "cookie",
    "signature", "login", "mnemonic",
    "sessionid", "sessid", "cloudflare", "sourcegraph", "artifactory", "jfrog", "contribsys", "messagebird", "adobe",
    "sumo", "heroku",
    "snyk", "salt", "connectionstring", "webhook", "dsn", "_pat", "psk", "samlresponse", "community", "phrase",
    "verifier", "seed", "pepper", "privkey", "otp_", "pincode", "pin_code", "pin-code",
)  # fmt: skip
"""Every sensitive name contains one of these, so one pass over the text finds all candidates."""

SHORT_ANCHORS = ("pin", "otp", "totp", "cvv", "cvc", "sig", "pw", "psw", "sid", "codes?", "pat", "pa_token", "puk")
"""These count only as a whole word."""

ANCHOR = rf"(?:{'|'.join(ANCHORS)}|(?:\b|_)(?:{'|'.join(SHORT_ANCHORS)})\b|[a-z]pw\b)"
NAME_BYTES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-."


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PASSWORD = _words(
    "password passwd passw passphrase passcode passwort kennwort pswd userpassword pgpassword mypassword"
)
_SHORT_PASSWORD = _words("pass pw pwd psw pword")
_NOT_PASS = _words(
    "bypass compass surpass trespass overpass underpass encompass pypass multipass askpass getpass minipass"
)
_PASSWORD_ENDINGS = ("password", "passwd", "passphrase", "passcode")
_TOKEN_ENDINGS = ("token", "jwt", "bearer", "pat")
_KEY_COMPOUNDS = (
    "apikey", "accesskey", "secretkey", "privatekey", "authkey", "accountkey", "masterkey", "encryptionkey",
    "signingkey", "sharedkey",
    "licensekey", "servicekey", "appkey", "clientkey", "cryptkey", "hmackey",
)  # fmt: skip
_SECRET_KEYS = _words(
    "api secret private access auth encryption encrypt encrypted signing sign signature master account shared ssh "
    "service license app application client consumer storage admin root deploy hmac aes des rsa ecdsa jwt session "
    "webhook subscription cipher crypt crypto token user integration ingest ingestion write project developer "
    "rapidapi recaptcha captcha server vapid fernet oauth bot unseal recovery backup install activation passwd "
    "password vault wallet authentication digest preshared psk wifi wlan wep wpa network nwk tacacs radius priv tsig "
    "rndc ntp bgp ospf eigrp isis hsrp vrrp md5 merchant terminal transaction tran dkim dnssec pass unlock bitlocker "
    "gossip transport pgp gpg otp totp mfa cookie sas sip"
)
_HARMLESS_KEYS = _words(
    "public pub foreign partition sort cache bucket hash range group message msg object map "
    "idempotency dedup deduplication i18n translation config configuration row column col unique index candidate "
    "natural surrogate composite socket shard topology registry event hot lookup label tag metric item param "
    "parameter dict json field property state query lock feature flag sub parent child left right arrow host hosts "
    "meta tracking kms next prev previous last first start end min max exclusive entry record sequence s s3 gcs minio "
    "blob correlation trace request context attribute attr header node pod cluster zone region tenant customer order "
    "product path file dir locale menu shortcut fn press down up hotkey keyboard issue jira ticket evaluated template "
    "resource resourcetype agg aggregation join distribution dist clustering selector known trusted allowed release "
    "author set same different missing invalid unknown bad duplicate expected required new old"
)
_AMBIGUOUS_KEYS = _words("primary secondary routing")
"""A primary key is a column, or one of the two keys of an account; a routing key is a topic, or a credential."""

_NEUTRAL = _words(
    "value val data base64 b64 encoded plain plaintext cleartext text string str default prod production dev "
    "development staging stage test testing qa uat old new prev previous current next primary secondary main live raw "
    "env var base hex here local global internal external real actual override input param arg opt option ro rw read "
    "write admin root user app material pem attempt"
)
"""Words after the decisive one that change nothing: DB_PASSWORD_PROD, secret_key_base, client-key-data."""

_PREPOSITIONS = _words("for of do da de del della dello des du der von fuer van voor para pour till til dla")
"""After one of these a name says for what the secret is: TOKEN_FOR_CI, senha_do_banco."""

_ABOUT = _words(
    "id ids name names ref refs reference file filename path dir directory url uri endpoint type kind length len size "
    "limit limits count counts num number max min expiry expires expiration expired exp ttl age policy policies hash "
    "hashed algorithm alg algo version status state time timestamp at date created updated changed rotation rotated "
    "provider providers store manager class format prefix suffix pattern regex template label hint reset required "
    "enabled disabled valid invalid strength arn usage used budget rate bucket index position field fields column "
    "scope scopes issuer audience host hosts port domain server service method mode source target location line lines "
    "threshold window per second seconds minute minutes days error errors failed failure attempts retries validator "
    "handler helper generator factory util utils client config configuration settings options authentication "
    "encryption review reviews request requests response list set map cache selector mount namespace annotation "
    "annotations volume volumes fingerprint thumbprint description desc title prompt message msg info details spec "
    "schema property properties hashing salt rounds iterations lifetime duration interval period accessor owner group "
    "role roles permissions bytes bits chars characters function func callback event down up press stroke board word "
    "words words1 space spaces frame frames pair pairs str_len parser stream reader writer lexer"
)
"""Words after the decisive one that make the value a property of a secret: token_limit, secretName."""

_HARMLESS_TOKENS = _words(
    "public next page continuation continue cancellation cancel cursor sync pagination unexpected eos bos "
    "pad unk special start end stop first last mask lexer parser syntax max min prompt completion total input output "
    "per num idempotency client resume sequence syncing nextpage nextsync change fencing"
)
_PROVIDERS = _words(
    "adafruit adobe airtable algolia alibaba anthropic artifactory asana atlassian aws azure bitbucket bittrex "
    "cloudflare codecov cohere coinbase confluent contentful datadog deepl digitalocean discord docker doppler drone "
    "dropbox dynatrace elastic etsy facebook fastly figma finnhub firebase flickr freshbooks github gitlab gitter "
    "google grafana groq heroku hubspot huggingface intercom jfrog jira kraken kucoin launchdarkly linear linkedin "
    "lob looker loki mailchimp mailgun mapbox maxmind meraki messagebird mistral mongodb netlify newrelic npm nytimes "
    "okta openai openrouter opsgenie pagerduty paypal pinecone plaid postman pulumi rapidapi render rollbar rubygems "
    "segment sendbird sendgrid sentry shippo shodan shopify slack snyk sonar sourcegraph splunk square squarespace "
    "stripe sumologic supabase telegram terraform travis trello twilio twitch twitter typeform vercel virustotal "
    "yandex zendesk zapier"
)

DIGITS = b"0123456789"
_WORD = compiled(r"[A-Z]+s?(?:[^A-Za-z]|$)|[A-Z][a-z]+|[A-Z]+|[a-z]+|[0-9]+")


@remembered
def words_of(name: bytes) -> tuple[str, ...]:
    """`AWS_SecretAccessKey2` → aws, secret, access, key, 2."""
    found: list[str] = []
    at = 0
    while places := _WORD.search(name, at):
        start, at = places[0]
        word = name[start:at]
        if not word[-1:].isalnum():
            word, at = word[:-1], at - 1
        elif word.isalpha() and word.isupper() and len(word) > 1 and name[at : at + 1].islower():
            word, at = word[:-1], at - 1  # HTTPToken: the last capital letter belongs to the next word.
        elif word[-1:].isdigit() and not word.isdigit():
            word, at = word[:-1], at - 1
        found.append(word.decode().lower())
    return tuple(found)


class _ParsedName(NamedTuple):
    lowered: bytes
    words: list[str]
    """Without numbers, trailing neutral words and the s of the plural."""

    last: str
    before: str
    """The last word but one."""

    names_provider: bool


_ANY_PREFIX: frozenset[str] = frozenset()
_JOINED: dict[str, frozenset[str]] = {
    "community": _ANY_PREFIX, "pword": _ANY_PREFIX, "pswd": _ANY_PREFIX, "pwd": _ANY_PREFIX, "pw": _ANY_PREFIX,
    "tok": _words("auth api access secret session user bearer refresh id"),
    "key": _SECRET_KEYS - _words("s user app sign"),
    "auth": _words("basic http master redis rediscli proxy sasl smtp"),
    "hash": _PASSWORD | _SHORT_PASSWORD,
    "digest": _PASSWORD | _SHORT_PASSWORD,
    "seed": _words("totp otp mfa wallet master secret hd"),
}  # fmt: skip
"""Endings that are written without a border (`dbpw`, `wifikey`), with the words that may stand in front of them."""


def _separated(word: str) -> list[str]:
    for ending, prefixes in _JOINED.items():
        prefix = word.removesuffix(ending)
        if len(prefix) > 1 and prefix != word and (prefix in prefixes or prefixes is _ANY_PREFIX):
            return [prefix, ending]
    return [word]


_HARMLESS = Name("", Demand.RANDOM)
"""Returned by a rule when the value is not a secret. None leaves the decision to the next rule."""


@lru_cache(maxsize=8192)
def name_of_secret(name: bytes) -> Name | None:
    """What a name says about its value; None when the name does not announce a secret."""
    parsed = _parsed(name)
    if parsed is None:
        return None
    for rule in _RULES:
        if (decision := rule(parsed)) is not None:
            return None if decision is _HARMLESS else decision
    return None


def _parsed(name: bytes) -> _ParsedName | None:
    lowered = name.lower().strip(b"-._")
    if len(lowered) > 128 or not lowered:
        return None
    words = [word for word in words_of(name) if not word.isdigit()]
    words = words[: next((at for at, word in enumerate(words) if at and word in _PREPOSITIONS), None)]
    while len(words) > 1 and words[-1] in _NEUTRAL and words[-1] not in _SHORT_PASSWORD:
        words.pop()
    if not words:
        return None
    names_provider = any(word in _PROVIDERS for word in words) or "sumo" in words
    if words[-1] in ("s", "es") and len(words) > 1:
        words.pop()
    words[-1:] = _separated(words[-1])
    if words[-1] in ("tok", "tkn") and len(words) > 1:
        words[-1] = "token"
    return _ParsedName(lowered, words, words[-1], words[-2] if len(words) > 1 else "", names_provider)


def _password_rule(name: _ParsedName) -> Name | None:
    if b"contribsys" in name.lowered:  # Bundler names a variable after the host whose password it holds.
        return Name("credential", Demand.ANY)
    if name.last.endswith(_PASSWORD_ENDINGS) or name.last in _PASSWORD:
        return Name("passphrase" if name.last.endswith("passphrase") else "password", Demand.ANY)
    if name.last in _SHORT_PASSWORD:
        return Name("password", Demand.ANY if name.before and name.last != "pwd" else Demand.LIKELY)
    if name.last.endswith("pass") and name.last not in _NOT_PASS:
        return Name("password", Demand.ANY)
    return None


def _hash_rule(name: _ParsedName) -> Name | None:
    if name.last in ("hash", "hashed", "digest") and (name.before in _PASSWORD or name.before in _SHORT_PASSWORD):
        return Name("password", Demand.RANDOM)
    return None


def _shared_rule(name: _ParsedName) -> Name | None:
    """Keys that people choose as they choose passwords."""
    is_shared = name.last in ("key", "secret") and (
        name.before in ("psk", "preshared", "wifi", "wlan", "wpa", "wep") or name.words[-3:-1] == ["pre", "shared"]
    )
    if is_shared or name.last in ("psk", "presharedkey") or name.lowered.endswith(b"authtok"):
        return Name("password" if name.last == "token" else "key", Demand.ANY)
    return None


def _secret_rule(name: _ParsedName) -> Name | None:
    if name.last.endswith("secret"):
        return Name("secret", Demand.LIKELY)
    if name.last in ("secrets", "passwords", "tokens"):
        return Name(name.last[:-1], Demand.RANDOM)
    return None


def _token_rule(name: _ParsedName) -> Name | None:
    if not (name.last.endswith(_TOKEN_ENDINGS) or name.lowered.endswith(b"token")):
        return None
    if (
        (name.before in _HARMLESS_TOKENS and not (name.before == "client" and name.names_provider))
        or name.lowered in (b"nexttoken", b"pagetoken", b"synctoken")
        or (name.last == "pat" and not name.before)
    ):
        return _HARMLESS
    if name.before in ("csrf", "xsrf"):
        return Name("csrf", Demand.RANDOM, in_query_only=True)
    return Name("jwt" if name.last == "jwt" else "token", Demand.LIKELY)


def _key_rule(name: _ParsedName) -> Name | None:
    if name.last.endswith(_KEY_COMPOUNDS):
        return Name("api_key" if "api" in name.last else "key", Demand.LIKELY)
    if name.last not in ("key", "keys"):
        return None
    if name.before in _HARMLESS_KEYS:
        return _HARMLESS
    if name.before in _AMBIGUOUS_KEYS:
        return Name("key", Demand.KEY if name.before != "routing" else Demand.RANDOM)
    if name.before in _SECRET_KEYS or name.names_provider:
        return Name("api_key" if name.before in ("api", "app") else "key", Demand.LIKELY)
    if name.before or name.lowered == b"key":
        return Name("key", Demand.RANDOM, in_query_only=not name.before)
    if name.lowered.rstrip(DIGITS) == b"key":
        return Name("key", Demand.KEY, in_query_only=True)  # One of several: key1, key2.
    return _HARMLESS


def _login_rule(name: _ParsedName) -> Name | None:
    if name.last == "authorization" or (name.last == "auth" and name.lowered in (b"proxy-auth", b"x-auth")):
        return Name("authorization", Demand.LIKELY)
    if name.before == "bind" and name.last in ("credential", "credentials"):
        return Name("password", Demand.ANY)  # Of a directory.
    if name.last == "pincode":
        return Name("pin", Demand.ANY)
    if name.last in ("auth", "cookie") and name.before in _DECISIVE_LOGINS:
        return Name("credential", Demand.LIKELY)
    if name.last in ("auth", "credential", "credentials", "creds", "cred", "cookie"):
        return Name("credential" if name.last != "cookie" else "cookie", Demand.RANDOM)
    if name.last in ("pin", "otp", "totp", "cvv", "cvc", "puk", "mnemonic"):
        return Name({"cvc": "cvv", "puk": "pin"}.get(name.last, name.last), Demand.ANY)
    if name.last in ("phrase", "seedphrase"):
        is_seed = name.last == "seedphrase" or name.before in ("seed", "recovery", "backup", "secret", "mnemonic")
        return Name("mnemonic", Demand.ANY) if is_seed else _HARMLESS
    if name.last in ("code", "codes") and name.before in _ONE_TIME:
        return Name("otp", Demand.ANY)
    if name.last == "salt" and name.before in ("auth", "in", "nonce", "secret", "secure", "session"):
        return Name("key", Demand.LIKELY)
    if name.last == "salt" and name.before:
        return Name("key", Demand.RANDOM)
    if name.last in ("seed", "pepper"):
        is_named = name.before in _JOINED["seed"] or (name.last == "pepper" and bool(name.before))
        return Name("secret", Demand.LIKELY if is_named else Demand.KEY) if is_named or name.last == "pepper" else None
    if name.last == "community" and name.before in _COMMUNITIES:
        return Name("password", Demand.ANY)
    if name.last in ("community", "verifier", "samlresponse") or name.lowered.endswith(b"samlresponse"):
        return Name("secret", Demand.RANDOM)
    return None


_DECISIVE_LOGINS = _words("redis rediscli master sasl smtp erlang")
_COMMUNITIES = _words("snmp ro rw trap read write readonly readwrite")
_ONE_TIME = _words(
    "verification recovery backup security login otp mfa fa time confirmation access sms pairing reset puk pin"
)


def _query_rule(name: _ParsedName) -> Name | None:
    """Names of URL parameters."""
    if name.last in ("sig", "signature"):
        is_signed = name.before in ("amz", "goog", "sas", "access") or name.lowered == b"signature"
        if is_signed or name.last == "sig":
            return Name(
                "signature", Demand.RANDOM, in_query_only=name.lowered != b"signature" and name.before != "access"
            )
        return _HARMLESS
    if name.last == "code":
        if name.lowered in (b"code", b"auth_code", b"authorization_code"):
            return Name("code", Demand.RANDOM, in_query_only=True)
        return _HARMLESS
    if name.lowered in (b"sessionid", b"sid"):
        return Name("cookie", Demand.RANDOM, in_query_only=True)
    if name.lowered in (b"jsessionid", b"phpsessid", b"connect.sid", b"asp.net_sessionid", b"aspsessionid"):
        return Name("session", Demand.RANDOM)
    return None


def _provider_rule(name: _ParsedName) -> Name | None:
    if name.lowered in (b"secret_id", b"secretid", b"secret-id"):  # Half of a login to Vault.
        return Name("secret", Demand.LIKELY)
    if name.last == "id" and {"messagebird", "bird", "sumo", "sumologic"} & set(name.words):
        return Name("credential", Demand.LIKELY)
    if name.names_provider and (
        name.last in _PROVIDERS or name.last in ("login", "client", "ca", "accessid", "access")
    ):
        return Name("credential", Demand.RANDOM)
    return None


def _any_word_rule(name: _ParsedName) -> Name | None:
    """SECRET_KEY_FOO, TOKEN_FOR_CI: a decisive word, followed by an unknown one."""
    if name.last in _ABOUT or name.before in _ABOUT:
        return _HARMLESS
    if any(word.endswith(_PASSWORD_ENDINGS) or word == "pwd" for word in name.words):
        return Name("secret", Demand.LIKELY)
    if any(word in ("secret", "token", "apikey") for word in name.words):
        return Name("secret", Demand.RANDOM)
    return None


_RULES = (
    _password_rule,
    _hash_rule,
    _shared_rule,
    _secret_rule,
    _token_rule,
    _key_rule,
    _login_rule,
    _query_rule,
    _provider_rule,
    _any_word_rule,
)
"""In this order; the first that decides wins."""


# --------------------------------------------------------------------------- values

_VERSION_FORM = (
    r"(?:[\^~]|[<>=]=? ?)v?\d+(?:\.\d+)+|v?(?:0|[1-9]\d?)(?:\.(?:0|[1-9]\d{0,2})){2}(?:-\d{1,2})?"
    r"|(?:\d+:)?\d+(?:\.\d+)*[\w.+~\-]*(?:\bdfsg|[+~\-.](?:deb|el|fc|ubuntu|bpo|rc|beta|alpha|dev|post)\d)[\w.+~\-]*"
)
"""Versions and ranges of versions, as package managers write them."""
_PLACEHOLDER_FORMS = (
    r"[*x.#_?=\-]+|(?:%[a-z][:@/ ]?)+|[\w\-]{0,8}\xe2\x80\xa6|\[--?[a-z][a-z\-]*[ =\]].*"
    rf"|{_VERSION_FORM}"
    r"|\.{3}.*|<.*|\$\w+[/.:].*|\$\{.*|\$\(.*|\$[a-z_][\w.]*|\$\$.*|\{\{.*|\{%.*|\{[\w.:\-]*|\{[^{}]*\}|%\([\w.]+\)s|%[a-z]|%[a-z_]\w+%|@[\w.]+@|__\w+__|!.*"
    r"|\[[a-z _*.\-]*\]?|\([a-z _*.\-]*\)?|\[masked.*|\[redacted.*"
    r"|(?:null|none|nil|undefined|nan|true|false|yes|no|y|n|on|off|ok|empty|unset|unknown|default|required|optional|mandatory|missing"
    r"|invalid|incorrect|wrong|expired|revoked|rejected|denied|accepted|changed|reset|set|failed|failure|success|successful|enabled|disabled"
    r"|include|omit|installed|running|active|inactive|ready|available|updated|deleted|created|locked|unlocked|verified|present|absent|found|malformed|same-origin|redacted|masked|hidden|removed|omitted|censored|filtered|protected|encrypted|secure|sensitive|sanitized"
    r"|change[-_ ]?me.*|changeit|replace[-_ ]?(?:me|with|this).*|insert[-_ ].*|enter[-_ ].*|add[-_]your.*|put[-_ ].*"
    r"|your[-_ ]?\w*.*"
    r"|my[-_ ]?(?:password|secret|token|api[-_]?key|key)|(?:some|the|a)[-_ ](?:password|secret|token|key)|example.*"
    r"|placeholder.*|dummy.*"
    r"|sample.*|todo|tbd|n/a|string|str|text|bytes|int|integer|number|bool|boolean|object|any|password|passwd|pass|pwd|secret|token|key|value"
    r"|api[-_]?key|username|user|test|basic|bearer|digest|oauth2?|negotiate|ntlm|kerberos|ldap|saml|oidc|jwt|md5|sha-?\d+|scram-sha-\d+|aws4-hmac-sha256"
    r"|bcrypt|argon2\w*|plain|cram-md5|xoauth2|trust|peer|ident|prompt|stdin|self|generated|auto|random|inherit"
    r"|await|yield|lambda|command|base64|utf-?8|(?:user|key|file|group|host)[-_]?(?:id|name)|masked:\w+:\xe2\x80\xa6"
    r"|mot de passe|contrase\xc3\xb1a|passwor[td]|kennwort|senha|wachtwoord|l\xc3\xb6senord|has\xc5\x82o|parola"
    r"|(?:secret|secure|masked|protected|my|db|new|old|current|confirm|user)?_?(?:str|string|text|passwords?|passwd|tokens?|secrets?)"
    r"|(?:option(?:al)?|secret|box|arc|maybe|list|vec|array)<.*"
    r"|not[-_ ]\w+.*)"
    r"|(?:required|nullable|sometimes|string|min|max|confirmed|hashed)(?::[\w,.]+)?(?:\|[a-z_]+(?::[\w,.]+)?)+"
    r"|(?:arn|op|vault|ref\+\w+|secretsmanager|ssm|gcp|azurekeyvault|keyring|secretref|file|env|aws-?sm|akv|sops|pass|doppler|infisical)"
    r"(?::|://).*"
    r"|[a-z]{2,12}:(?:/[\w.\-]+){2,}"
    r"|@[\w./~\-]+\.[a-z]{1,5}|[\w\-]+(?:/[\w.\-]+)+#[\w.\-]+"
    r"|enc\[.*|ansible_vault.*|\$ansible_vault.*|projects/[^/]+/secrets/.*|resolve:.*"
    r"|(?:process\.env|os\.environ|os\.getenv|env|environ|var|vars|local|data|module|secrets|config|settings|self|this|args|params|ctx|request"
    r"|req|context|inputs|outputs|steps|github|each|values)[.\[].*"
    r"|\.?/[\w.\-]+(?:/[\w.\-:]*)+|\.\.?/[\w.\-/]+|~/.*|[a-z]:\\.*|https?://[^@\s]*"
)
_PLACEHOLDER = compiled(rf"(?s:{_PLACEHOLDER_FORMS}|.*x{{16}}.*)", ignore_case=True)
_SHORT_PLACEHOLDER = compiled(
    rf"(?s:{_PLACEHOLDER_FORMS}|.*(?:x{{8}}|\*{{4}}|abcdefghijkl|(?:your|insert|replace)[-_]).*|.*\.{{3}}|.*(?-i:EXAMPLE(?:KEY)?))",
    ignore_case=True,
)
_HUMPS = r"(?:[A-Z]{2,24}|[A-Z]?[a-z]{2,24}(?:[A-Z][a-z]{1,24})*[A-Z]?)"
_WORDY_FORM = rf"{_HUMPS}(?:[ _.\-/:]+(?:{_HUMPS}|v?\d{{1,4}}|[A-Za-z]\d{{0,2}}))*\d{{0,2}}"
_WORDY = compiled(_WORDY_FORM)
_NAME_FORM = r"[a-z][a-z0-9]{0,15}(?:[-_./:][a-z0-9]{1,15})+"
_NAME_LIKE = compiled(_NAME_FORM)
_IDENTIFIER = compiled(r"[A-Za-z_]\w*")
_LETTERS_ONLY = compiled(r"[A-Za-z_]+")
UUID_FORM = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_UUID = compiled(UUID_FORM)
_CODE = compiled(r"[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+")
_DOTTED_WORDS = compiled(r"[A-Za-z]{3,}\.[A-Z][a-z]{2,}\d{1,4}")
"""No attribute of an object has such a name: Aurora.Green8."""
_LEET = compiled(r"[A-Za-z]\d[a-z]{2,}")
"""A digit in the middle of a word: M3adow."""
_COINED = compiled(
    r"(?:[A-Za-z][a-z]+[A-Za-z]*|[a-z]{2,}[A-Z][A-Za-z]*|\d{2,})(?:[\-_.!+#@ ]?(?:[A-Z][a-z]{2,}|[a-z]{3,}|\d+)){1,6}"
)
"""Words with a capital letter, a sign and a number among them: Marzipan-Trout-81."""
_TECHNICAL = compiled(
    r"oauth2|auth0|utf-?\d|base\d|ipv\d|sha-?\d|aes-?\d|rsa-?\d|tls-?\d|md5|http2|log4|web3|x25519|x448|ed25519|ed448|neo4j|k8s|s3|ec2|v\d|x509|b64|i18n|l10n|e2e|step\d",
    ignore_case=True,
)
IDENTIFYING_FORM = (
    r"sha\d+[:=-].*|(?:\d{1,2}:)?v?\d+(?:\.\d+)+.*|\d{4}-\d\d-\d\d.*|(?:\d{1,3}\.){3}\d{1,3}.*|[\d.,:%+\-]+(?:[a-z]{1,3})?|.*\.(?:pem|crt|key|cer|p12|pfx|jks|json|ya?ml|txt"
    r"|conf|keytab|pub|py|go|js|ts|java|com|net|org|io|local|internal|svc|test)(?::\d+)?|[\w.\-]+@[\w\-]+\.[\w.\-]+|[\w.\-]+:\d{2,5}"
)
_ALGORITHM_FORM = (
    r"(?i:(?:tls|ssl|ecdhe?|ecdsa|eddsa|dhe?|rsa|aes|chacha|poly|x|ed|curve|sha|hmac|gcm|cbc|ctr|hkdf|pbkdf2|bcrypt|scrypt"
    r"|argon2id?|md5|nistp|secp|kyber|mlkem|diffie|hellman|group|wpa|psk|ccmp|tkip|modp|utf)"
    r"(?:v?\d{1,5}(?:[kr]\d)?)?(?:[\-_/+@.]|\b))+(?-i:\d{0,5})"
)
"""Names of ciphers and protocols: ECDHE-RSA-AES256-GCM-SHA384."""
IDENTIFYING_FORM += rf"|{_ALGORITHM_FORM}|(?i:(?:sha-?\d+|md5|ecdsa|dsa|rsa)-?with-?[a-z]+\d*)"
"""Versions, dates, addresses, files, algorithms."""
_IDENTIFIES = compiled(IDENTIFYING_FORM)
_CONSTANT_FORM = r"[A-Z]{2,}\d?(?:_[A-Z]{2,}\d?)+"
_NOT_RANDOM = compiled(
    f"{_WORDY_FORM.replace('/:]', '/:#@+]')}|{UUID_FORM}|{IDENTIFYING_FORM}|{_NAME_FORM}|{_CONSTANT_FORM}"
)
LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_VOWELS = frozenset("aeiouy")
_FILLERS = b"xX*._-#0aA1"


@remembered
def is_placeholder(value: bytes) -> bool:
    """Whether a value is not a secret itself: `${VAR}`, `<password>`, `********`, `changeme`, a reference, a status."""
    value = value.strip(b" \t\r\n\"'")
    if not value:
        return True
    if len(value) > 64:
        return _PLACEHOLDER.is_all_of(value[:256])
    if _SHORT_PLACEHOLDER.is_all_of(value) or not value.strip(value[:1]):
        return True
    filler = len(value) - len(value.translate(None, _FILLERS))
    return filler > 0.6 * len(value) and any(value.count(char) > 0.6 * len(value) for char in set(value))


_ONE_TIME_CODE = compiled(r"(?:[A-Za-z]*\d\w*-\w+|\w+-[A-Za-z]*\d\w*)(?:-\w+)*")
_SENTENCE = compiled(r"[^\d]*[A-Za-z,.)(?!]+(?: +[^\d ]+)+")


def is_sentence(value: bytes) -> bool:
    """Whether a value is several words without digits: a label or a message rather than a secret."""
    return b" " in value and _SENTENCE.is_all_of(value)


@remembered
def names_something(value: bytes, name: Name) -> bool:
    """Whether a value looks like the name, host, version or address of something rather than like a secret."""
    if name.kind in ("password", "passphrase") and not _IDENTIFIES.is_all_of(value):
        if is_coined(value):
            return False
        if value.lower() != value:
            return _WORDY.is_all_of(value)
    return any(form.is_all_of(value) for form in (_IDENTIFIES, _NAME_LIKE, _WORDY, _UUID))


@remembered
def is_coined(value: bytes, *, capital: bool = False) -> bool:
    """Whether a value looks as people make passwords: words with a digit among their letters, or with a sign, a capital
    letter and a number. `capital`: it must have a capital letter in any case."""
    if _TECHNICAL.search(value) or (capital and value.lower() == value):
        return False
    if _LEET.search(value):
        return len(value) >= 8
    return (
        len(value) >= 10
        and value.lower() != value
        and value.upper() != value
        and not value.isalnum()
        and any(48 <= char <= 57 for char in value)
        and _COINED.is_all_of(value)
    )


@remembered
def is_wordy(value: bytes) -> bool:
    return _WORDY.is_all_of(value)


def variety(value: bytes) -> int:
    return len(set(value))


@remembered
def is_random(value: bytes) -> bool:
    """Whether a value looks generated: long, mixed, without words; and not a UUID, a version, a host or a time."""
    size = len(value)
    if size < 12 or b" " in value or b"://" in value:
        return False
    head = value[:256] if size > 256 else value
    size = len(head)
    digits = size - len(head.translate(None, DIGITS))
    letters = size - len(head.translate(None, LETTERS))
    if digits + letters < 0.75 * size or letters < 2:
        return False
    if variety(head) < (8 if size < 20 else 9) or _NOT_RANDOM.is_all_of(head):
        return False
    if digits == 0:
        return (size >= 24 and variety(head) >= 14 and not is_identifier(head)) or (size >= 14 and is_odd(head))
    return digits > 1 or (head.lower() != head and head.upper() != head)


_FOLLOWERS = {
    "a": "bcdfgiklmnprstuvy", "b": "aceilorsuy", "c": "acehiklorstuy", "d": "adeilorsu",
    "e": "abcdefgilmnopqrstuvwxy", "f": "aefilortuy", "g": "aehilnorsu", "h": "aeiort", "i": "abcdefglmnoprstvxz",
    "j": "", "k": "eis", "l": "acdeilostuy", "m": "abeimopsu", "n": "acdefgiklnopstuv", "o": "abcdfgiklmnoprstuvw",
    "p": "aehiloprstuy", "q": "u", "r": "acdefgiklmnoprstuvy", "s": "acehiklopstuwy", "t": "acdehilmoprstuwy",
    "u": "abcdefgilmnoprst", "v": "aeio", "w": "aehinors", "x": "ceipt", "y": "inpst", "z": "e",
}  # fmt: skip
"""The letters that often follow a letter in words and names; counted over documentation and code."""
_WORD_PAIRS = frozenset(first + second for first, others in _FOLLOWERS.items() for second in others)


@remembered
def is_odd(letters: bytes) -> bool:
    """Whether letters make no words: three in ten of their pairs are unusual. True of 95 % of what is drawn at random,
    and of less than 1 % of the words of ten letters and more."""
    text = letters.decode("latin-1").lower()
    pairs = [first + second for first, second in pairwise(text) if first.isalpha() and second.isalpha()]
    return len(pairs) >= 7 and sum(pair not in _WORD_PAIRS for pair in pairs) >= 0.3 * len(pairs)


_PLAIN_WORD = compiled(r"[A-Za-z]{5,}")


def is_dense(value: bytes) -> bool:
    """Whether a value is generated from letters, digits and many signs, perhaps with blanks among them."""
    signs = value.translate(None, DIGITS + LETTERS + b" ")
    return (
        len(value) >= 16
        and variety(signs) >= 5
        and any(48 <= char <= 57 for char in value)
        and (_PLAIN_WORD.search(value) is None)
    )


@remembered
def is_code(value: bytes) -> bool:
    """Whether a value is an expression that reads a secret: `settings.db.password`, `get_token(`."""
    if value.endswith((b"(", b"[")):
        return True
    if _DOTTED_WORDS.is_all_of(value) and not _TECHNICAL.search(value):
        return False
    if not _CODE.is_all_of(value) or (_LEET.search(value) and not _TECHNICAL.search(value)):
        return False
    parts = value.split(b".")
    # A name with its case changing at random is none; one that could be a name is enough.
    is_named = any(part.lower() == part or (part.isalpha() and part.isupper()) or is_identifier(part) for part in parts)
    return is_named and all(is_identifier(part) or not is_random(part) for part in parts)


def is_identifier(value: bytes) -> bool:
    """Whether a value is an identifier as in code: made of words, with few digits."""
    if len(value) > 64 or not _IDENTIFIER.is_all_of(value):
        return False
    words = [word for word in words_of(value) if not word.isdigit()]
    if not words or len(value) - len(value.translate(None, DIGITS)) > 2 or sum(map(len, words)) < 3.5 * len(words):
        return False
    return all(_VOWELS & set(word) for word in words if len(word) > 3) and (b"_" in value or not value.isupper())


@remembered
def is_secret(value: bytes, demand: Demand, *, quoted: bool, kind: str) -> bool:
    """Whether a value under a sensitive name is a secret. `value` may be cut after 512 bytes."""
    # In the order of cost: most values are refused by their length.
    return _meets(value, demand, quoted=quoted, kind=kind) and not is_placeholder(value)


def _meets(value: bytes, demand: Demand, *, quoted: bool, kind: str) -> bool:
    if demand is Demand.RANDOM:
        return is_random(value) and not is_code(value)
    if demand is Demand.KEY:
        return is_random(value) and variety(value) >= 20 and not value.isalnum()
    size = len(value)
    if size < 3 or (size < 6 and demand is Demand.LIKELY):
        return False
    if kind in ("pin", "otp", "totp", "cvv"):
        return (value.isdigit() and 3 <= size <= 12) or is_random(value) or _ONE_TIME_CODE.is_all_of(value)
    if not quoted and is_code(value):
        return False
    if not quoted and value[:1] == b"_" and is_identifier(value):
        return False
    if not quoted and _names_secret(value):
        return False
    if demand is Demand.ANY:
        return size >= 4 and not (size < 6 and value.isdigit() and not quoted)
    return _is_likely_secret(value, quoted=quoted, kind=kind)


def _names_secret(value: bytes) -> bool:
    """Whether a value is the name of another secret: `--secret dbPass`."""
    return _LETTERS_ONLY.is_all_of(value) and is_compound(value) and name_of_secret(value) is not None


def is_compound(name: bytes) -> bool:
    """Whether a name is written as programs write it: storePassword, db_password. Sentences have no such words."""
    return b"_" in name or b"." in name.strip(b".") or (not name.isupper() and name[1:].lower() != name[1:])


def _is_likely_secret(value: bytes, *, quoted: bool, kind: str) -> bool:
    value = value.strip()
    size = len(value)
    if size < 6 or b"://" in value or (value.count(b".") > 1 and all(map(is_identifier, value.split(b".")))):
        return False
    if value.isdigit():
        return size >= 14
    if kind == "password":  # A bare `pass` or `pwd`: a word or a path is not a password.
        is_word = value.isalpha() or b"/" in value[:1] or _NAME_LIKE.is_all_of(value)
        is_word = is_word or (b"/" in value and _WORDY.is_all_of(value))
        return quoted or not is_word or is_coined(value)
    if _NAME_LIKE.is_all_of(value) and (size < 40 or not any(48 <= char <= 57 for char in value)):
        # registry-credentials-7xk2p is a name; 5cb4a5f0-… is not.
        return _UUID.is_all_of(value) or (
            kind != "secret" and any(map(is_random, value.replace(b"_", b"-").split(b"-")))
        )
    if not quoted and is_identifier(value) and (size < 12 or value.lower() != value):
        return False
    if value.isalpha() and size < 20:
        return (quoted and kind == "secret") or (size >= 12 and not _WORDY.is_all_of(value))
    if kind == "secret":
        return not _IDENTIFIES.is_all_of(value)
    if quoted and is_dense(value):
        return True
    if b" " in value and not value.startswith((b"FlyV1 ", b"Bearer ", b"Basic ", b"Token ")):
        return False
    if _IDENTIFIES.is_all_of(value):
        return size >= 20 and is_random(value.replace(b".", b""))
    if size >= 12 and is_coined(value, capital=True):
        return True
    return size >= 8 and not (_WORDY.is_all_of(value) and (size < 16 or not any(48 <= char <= 57 for char in value)))
