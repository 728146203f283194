"""Reads a text as people and programs read it: escapes, entities, wide letters, typographic quotes, foreign names.

`pass\\u0077ord`, `pass&#119;ord`, full-width letters and `contraseña` all announce what
`password` announces, `│` divides cells as `|` does, and `“…”` quotes as `"…"` does. The
views that `normalised` yields spell all of these in one way and map spans back, so the
finders need to know only that way.
"""

import html
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from tersely.masking.patterns import ANCHOR, compiled
from tersely.masking.spans import View

_BEFORE, _AFTER = 400, 600
"""Bytes around a change that are searched again."""

_FOREIGN: dict[bytes, tuple[str, ...]] = {
    b"password": (
        "contraseña", "CONTRASEÑA", "Contraseña", "contrasena", "contrasenya", "contrasinal", "mot de passe",
        "mot_de_passe", "mot-de-passe", "motdepasse", "motDePasse", "palavra-passe", "palavra_passe", "palavra passe",
        "senha", "passwort", "kennwort", "wachtwoord", "lösenordet", "lösenord", "LÖSENORD", "losenord", "passord",
        "adgangskode", "kodeord", "salasana", "lykilorð", "hasło", "HASŁO", "haslo", "heslo", "jelszó", "JELSZÓ",
        "jelszo", "lozinka", "geslo", "parool", "slaptažodis", "slaptazodis", "şifre", "ŞİFRE", "Şifre", "sifre",
        "kata sandi", "kata_sandi", "katasandi", "mật khẩu", "Mật khẩu", "matkhau", "mat_khau", "รหัสผ่าน",
        "пароль", "Пароль", "ПАРОЛЬ", "парола", "Парола", "лозинка", "Лозинка", "κωδικός", "Κωδικός", "κωδικος",
        "סיסמה", "סיסמא", "كلمة المرور", "كلمة السر", "رمز عبور", "پاسورد", "गुप्त शब्द", "पासवर्ड",
        "密码", "密碼", "口令", "パスワード", "暗証番号", "비밀번호", "암호", "패스워드",
    ),
    b"pwd": ("mdp", "clave", "parola", "parole"),
    b"secret": ("secreto", "segredo", "geheimnis", "секрет", "Секрет", "СЕКРЕТ", "秘密"),
    b"token": ("токен", "Токен", "ТОКЕН", "令牌", "トークン", "토큰"),
    b"api_key": (
        "clé_api", "cle_api", "clé api", "clave_api", "chave_api", "chave api", "chiave_api", "API-Schlüssel",
        "api_schluessel", "密钥", "密鑰", "秘钥", "APIキー",
    ),
    b"secret_key": ("clave_secreta", "chave_secreta", "clé_secrète", "gizli_anahtar", "geheimschlüssel"),
}  # fmt: skip
"""English names by the ones of other languages; letters outside ASCII are listed in every case that occurs."""

_ENGLISH = {name.encode().lower(): english for english, names in _FOREIGN.items() for name in names}
_FOREIGN_NAMES = "|".join(sorted((name for names in _FOREIGN.values() for name in names), key=len, reverse=True))
_IS = ("は", "是", "为", "為", "는", "은", "가")
"""What may follow a name without a space and means "is"."""

_SIGNS = {
    "“": '"', "”": '"', "„": '"', "‟": '"', "«": '"', "»": '"', "″": '"', "‘": "'", "’": "'", "‚": "'", "‛": "'",
    "│": "|", "┃": "|", "║": "|", "┆": "|", "┊": "|", "╎": "|", "┤": "|", "├": "|", "→": "->", "⇒": "=>", "⟶": "->",
    "➜": "->", "\u00a0": " ", "\u2003": " ", "\u2002": " ", "\u2009": " ", "\u202f": " ", "\u3000": " ", "‐": "-",
    "─": "-", "━": "-", "═": "-", "┼": "+", "╇": "+", "╪": "+", "╬": "+", "┡": "+", "┩": "+", "。": ".", "「": '"',
    "」": '"', "『": '"', "』": '"',
}  # fmt: skip
_CODES = (
    r"\\+u00([2-7][0-9a-f])|\\+x([2-7][0-9a-f])|\\+u\{0{0,4}([2-7][0-9a-f])\}|\\+U000000([2-7][0-9a-f])"
    r"|&#x0{0,4}([2-7][0-9a-f]);|%((?:4[1-9a-f]|5[0-9a]|6[1-9a-f]|7[0-9a]))|\\(0[4-7][0-7]|1[0-7][0-7])|&#0{0,4}(3[2-9]|[4-9]\d|1[01]\d|12[0-6]);"
)
_CHANGE = compiled(
    rf"{_CODES}|(&(?:quot|apos|lt|gt|amp|nbsp|colon|equals|lowbar|comma|semi|period|num);)"
    r"|(\xef\xbc[\x81-\xbf]|\xef\xbd[\x80-\x9e]|\xf0\x9d[\x90-\x9f][\x80-\xbf])"
    rf"|((?:{_FOREIGN_NAMES}){'(?:' + '|'.join(_IS) + ')?'})"
    rf"|({'|'.join(_SIGNS)}|\xe2[\x94\x95][\x80-\xbf])",
    ignore_case=True,
)
_OCTAL, _DECIMAL, _ENTITY, _WIDE, _SIGN = 7, 8, 9, 10, 12
_SENSITIVE = compiled(ANCHOR, ignore_case=True)


def normalised(text: bytes) -> Iterator[View]:
    """Views of the parts of the text that another spelling changes and in which a sensitive name stands."""
    pending: list[tuple[int, int, bytes]] = []
    start = end = 0
    for places in _CHANGE.every(text):
        change = (*places[0], _replacement(text, places))
        if pending and change[0] > end:
            yield from _view(text, start, end, pending)
            pending = []
        if not pending:
            start = _line_start(text, change[0])
        end = min(len(text), change[1] + _AFTER)
        pending.append(change)
    if pending:
        yield from _view(text, start, end, pending)


def _view(text: bytes, start: int, end: int, changes: list[tuple[int, int, bytes]]) -> Iterator[View]:
    view = View(text, start, _line_end(text, end), changes)
    if _SENSITIVE.search(view.text) is not None:
        yield view


def _line_start(text: bytes, at: int) -> int:
    lowest = max(0, at - _BEFORE)
    line = text.find(b"\n", lowest, at) + 1
    return line if line and lowest else lowest


def _line_end(text: bytes, at: int) -> int:
    line = text.rfind(b"\n", max(0, at - _AFTER // 2), at)
    return line + 1 if line >= 0 and at < len(text) else at


def _replacement(text: bytes, places: list[tuple[int, int]]) -> bytes:
    group = next(number for number in range(1, len(places)) if places[number][0] >= 0)
    return _spelled(group, text[slice(*places[group])])


@lru_cache(maxsize=2048)
def _spelled(group: int, found: bytes) -> bytes:
    if group < _OCTAL:
        return bytes((int(found, 16),))
    if group == _OCTAL:
        return bytes((int(found, 8),))
    if group == _DECIMAL:
        return bytes((int(found),))
    if group == _ENTITY:
        return html.unescape(found.decode()).replace("\u00a0", " ").encode()
    if group == _WIDE:
        return unicodedata.normalize("NFKC", found.decode("utf-8", "replace")).encode()
    if group == _SIGN:
        return _SIGNS.get(found.decode("utf-8", "replace"), "-").encode()
    return _in_english(found)


def _in_english(found: bytes) -> bytes:
    for suffix in ("", *_IS):
        if found.endswith(suffix.encode()) and (name := _ENGLISH.get(found.removesuffix(suffix.encode()).lower())):
            return name + b" is " if suffix else name
    return found
