"""Reads a text as people and programs read it: escapes, entities, wide letters, typographic quotes, foreign names.

`pass\\u0077ord`, `pass&#119;ord`, full-width letters and `contraseña` all announce what
`password` announces, `│` divides cells as `|` does, and `“…”` quotes as `"…"` does. The
view that `normalised` returns spells all of these in one way and maps spans back, so the
finders need to know only that way.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import pairwise

from tersely.masking.patterns import ANCHOR, Pattern, compiled
from tersely.masking.spans import GAP, View

_BEFORE, _AFTER = 400, 600
"""Bytes around a change that are searched again."""

_FOREIGN: dict[bytes, tuple[str, ...]] = {
    b"password": (
        "contraseña", "CONTRASEÑA", "Contraseña", "contrasena", "contrasenya", "contrasinal", "mot de passe",
        "mot_de_passe", "mot-de-passe", "motdepasse", "motDePasse", "palavra-passe", "palavra_passe", "palavra passe",
        "senha", "passwort", "kennwort", "wachtwoord", "lösenordet", "lösenord", "LÖSENORD", "losenord", "passord",
        "adgangskode", "kodeord", "salasana", "lykilorð", "hasło", "HASŁO", "haslo", "heslo", "jelszó", "JELSZÓ",
        "jelszo", "lozinka", "geslo", "parool", "slaptažodis", "slaptazodis", "şifreniz", "Şifreniz",
        "sifreniz", "şifre", "ŞİFRE", "Şifre", "sifre", "parolanız",
        "kata sandi", "kata_sandi", "katasandi", "mật khẩu", "Mật khẩu", "matkhau", "mat_khau", "รหัสผ่าน",
        "пароль", "Пароль", "ПАРОЛЬ", "парола", "Парола", "лозинка", "Лозинка", "κωδικός", "Κωδικός", "κωδικος",
        "סיסמה", "סיסמא", "كلمة المرور", "كلمة السر", "رمز عبور", "پاسورد", "गुप्त शब्द", "पासवर्ड",
        "密码", "密碼", "口令", "パスワード", "暗証番号", "비밀번호", "암호", "패스워드",
    ),
    b"passcode": (
        "code d'accès", "code secret", "parola d'ordine", "parola d’ordine", "parola chiave",
        "Zugangscode", "código de acceso", "codice di accesso", "toegangscode",
        "kod dostępu", "код доступа", "Код доступа", "访问码", "アクセスコード",
    ),
    b"pwd": ("mdp", "clave", "parola", "parole"),
    b"pin": ("пин-код", "ПИН-код", "Пин-код", "PIN-код", "code PIN"),
    b"secret": ("hemlighet", "tajemství", "シークレット", "시크릿", "secreto",
                "segredo", "geheimnis", "секрет", "Секрет", "СЕКРЕТ", "秘密"),
    b"token": ("токен", "Токен", "ТОКЕН", "令牌", "トークン", "토큰"),
    b"api_key": (
        "clé_api", "cle_api", "clé api", "clave_api", "chave_api", "chave api", "chiave_api", "API-Schlüssel",
        "api_schluessel", "clé d'API", "clé d’API", "clave de API", "chave de API", "chave da API", "chiave API",
        "API-nyckel", "API-sleutel", "klucz API", "ключ API", "API ключ", "API-ключ", "API 키",
        "API anahtarı", "密钥", "密鑰", "秘钥", "APIキー",
    ),
    b"secret_key": ("clave_secreta", "chave_secreta", "clé_secrète", "gizli_anahtar", "geheimschlüssel"),
}  # fmt: skip
"""English names by the ones of other languages; letters outside ASCII are listed in every case that occurs."""

_ENGLISH = {name.encode().lower(): english for english, names in _FOREIGN.items() for name in names}
_IS = ("は", "是", "为", "為", "는", "은", "가")
"""What may follow a name without a space and means "is"."""

_SIGNS = {
    "“": '"', "”": '"', "„": '"', "‟": '"', "«": '"', "»": '"', "″": '"', "‘": "'", "’": "'", "‚": "'", "‛": "'",
    "│": "|", "┃": "|", "║": "|", "┆": "|", "┊": "|", "╎": "|", "┤": "|", "├": "|", "→": "->", "⇒": "=>", "⟶": "->",
    "➜": "->", "\u00a0": " ", "\u2003": " ", "\u2002": " ", "\u2009": " ", "\u202f": " ", "\u3000": " ", "‐": "-",
    "─": "-", "━": "-", "═": "-", "┼": "+", "╇": "+", "╪": "+", "╬": "+", "┡": "+", "┩": "+", "。": ".", "「": '"',
    "」": '"', "『": '"', "』": '"',
}  # fmt: skip
_NAMES = [name for names in _FOREIGN.values() for name in names]
FOREIGN_NAMES = "|".join(sorted((name for name in _NAMES if name[0].isascii()), key=len, reverse=True))
_LATIN_NAME = compiled(FOREIGN_NAMES, ignore_case=True)
"""Names that begin with a plain letter. Few texts have one, and most letters begin none."""

_HEX = rb"[2-7][0-9a-fA-F]"
_CODES: dict[bytes, bytes] = {
    b"\\": rb"(?:[uU]00%b|x%b|u\{0{0,4}%b\}|U000000%b|0[4-7][0-7]|1[0-7][0-7])" % (_HEX, _HEX, _HEX, _HEX),
    b"&": rb"(?:#[xX]0{0,4}%b|#0{0,4}(?:3[2-9]|[4-9]\d|1[01]\d|12[0-6])|quot|apos|lt|gt|amp|nbsp|colon|equals|lowbar"
    rb"|comma|semi|period|num|QUOT|LT|GT|AMP);" % _HEX,
    b"%": rb"(?:4[1-9A-Fa-f]|5[0-9Aa]|6[1-9A-Fa-f]|7[0-9Aa])",
    b"\xef": rb"(?:\xbc[\x81-\xbf]|\xbd[\x80-\x9e])",
    b"\xf0": rb"\x9d[\x90-\x9f][\x80-\xbf]",
}
"""What follows a first byte that begins another spelling of a letter or a sign."""


def _any_of(words: Iterable[bytes]) -> bytes:
    return b"|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


@cache
def _change() -> re.Pattern[bytes]:
    """Whatever is spelled in another way.

    The standard library's `re`, whose `split` has no loop in Python: a hostile text has a change for every few bytes.
    The first byte is looked for by itself, which is fast, and nothing is longer than a few words: the time is linear.
    """
    words: dict[bytes, list[bytes]] = {}
    names = (name.encode() for name in _NAMES if not name[0].isascii())
    for word in (*names, *map(str.encode, _SIGNS)):
        words.setdefault(word[:1], []).append(word[1:])
    verb = _any_of(map(str.encode, _IS))
    follow = {first: b"(?:%b)(?:%b)?+" % (_any_of(rest), verb) for first, rest in words.items()}
    follow[b"\xe2"] += rb"|[\x94\x95][\x80-\xbf]"
    # A run of backslashes is read from its first.
    firsts = {**follow, **_CODES, b"\\": rb"(?<!\\\\)\\{0,15}+" + _CODES[b"\\"]}
    rests = b"|".join(b"(?<=%b)(?:%b)" % (re.escape(first), rest) for first, rest in firsts.items())
    return re.compile(b"([%b](?:%b))" % (b"".join(map(re.escape, firsts)), rests))


_CODE_SIGNS = (b"\\", b"&", b"%")
"""How a change begins in a text without letters outside ASCII."""
_SENSITIVE = compiled(ANCHOR, ignore_case=True)


@cache
def _sign_of_change() -> Pattern:
    """What every change contains. It is searched for several times as fast as `_change`."""
    words = [name.encode() for name in _NAMES if not name[0].isascii()] + [sign.encode() for sign in _SIGNS]
    letters = "|".join("".join(f"\\x{byte:02x}" for byte in word) for word in sorted(words))
    codes = "|".join(f"\\x{first[0]:02x}(?:{rest.decode()})" for first, rest in _CODES.items())
    return compiled(rf"{letters}|\xe2[\x94\x95][\x80-\xbf]|{codes}")


def normalised(text: bytes, *, is_foreign: bool = True) -> View | None:
    """A view of the parts of the text that another spelling changes and in which a sensitive name stands.

    Args:
        is_foreign: Whether one of the `FOREIGN_NAMES` may be in it.
    """
    is_plain = text.isascii() and not any(sign in text for sign in _CODE_SIGNS)
    split = _unchanged if is_plain or _sign_of_change().search(text) is None else _change().split
    source: list[bytes] = []
    at = 0
    for ((start, end),) in _LATIN_NAME.every(text) if is_foreign else ():
        source += (*split(text[at:start]), text[start:end])
        at = end
    source += split(text[at:] if at else text)
    if len(source) == 1:
        return None
    spelled = source.copy()
    spelled[1::2] = map(_spelled, source[1::2])  # Every second part is spelled in another way.
    return _near_names(source, spelled)


def _unchanged(text: bytes) -> list[bytes]:
    return [text]


def _near_names(source: list[bytes], spelled: list[bytes]) -> View | None:
    """The changes with the text around them, as far as a name is near."""
    view_source: list[bytes] = []
    view_spelled: list[bytes] = []
    is_any = False
    last = len(source) - 1
    far = [number for number in range(2, last, 2) if len(source[number]) > _BEFORE + _AFTER]
    used = 0
    for first, following in pairwise((0, *far, last)):
        left, right = source[first], source[following]
        start, end = max(used, _line_start(left)), _line_end(right)
        near = [left[start:], *spelled[first + 1 : following], right[:end]]
        is_named = _SENSITIVE.search(b"".join(near)) is not None
        is_any = is_any or is_named
        view_source += (left[used:start], left[start:], *source[first + 1 : following], right[:end])
        view_spelled += (GAP, *(near if is_named else [b""] * len(near)))
        used = end
    return View((*view_source, source[last][used:]), (*view_spelled, GAP)) if is_any else None


def _line_start(before: bytes) -> int:
    lowest = max(0, len(before) - _BEFORE)
    line = before.find(b"\n", lowest) + 1
    return line if line and lowest else lowest


def _line_end(after: bytes) -> int:
    highest = min(len(after), _AFTER)
    line = after.rfind(b"\n", highest - _AFTER // 2, highest) if highest == _AFTER else -1
    return line + 1 if line >= 0 else highest


@lru_cache(maxsize=2048)
def _spelled(found: bytes) -> bytes:
    sign = found[:1]
    if sign == b"\\":
        code = found.lstrip(b"\\").rstrip(b"}")
        return bytes((int(code, 8) if code[:1] in b"01" else int(code[-2:], 16),))
    if sign == b"%":
        return bytes((int(found[1:], 16),))
    if sign == b"&":
        import html

        return html.unescape(found.decode()).replace("\u00a0", " ").encode()
    if (name := _in_english(found)) is not None:
        return name
    if sign == b"\xef" or found[:2] == b"\xf0\x9d":
        return unicodedata.normalize("NFKC", found.decode("utf-8", "replace")).encode()
    return _SIGNS.get(found.decode("utf-8", "replace"), "-").encode()


def _in_english(found: bytes) -> bytes | None:
    for suffix in ("", *_IS):
        if found.endswith(suffix.encode()) and (name := _ENGLISH.get(found.removesuffix(suffix.encode()).lower())):
            return name + b" is " if suffix else name
    return None
