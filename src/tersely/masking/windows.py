"""The parts of a text near sensitive names.

Most finders look for a name with a value next to it. One pass finds where names are;
the finders then search only there. Most texts have few names, so most passes over them
cost nothing.
"""

from bisect import bisect_right
from collections.abc import Iterator
from functools import cache

from tersely.masking.normalise import FOREIGN_NAMES
from tersely.masking.patterns import ANCHOR, Pattern, PatternSet, Places, compiled
from tersely.masking.spans import INERT, MaskingDeadline

_BEFORE, _AFTER = 256, 1280
_STEP = 512
"""After a name, the next one is searched from here on: everything up to here is inside the window already."""

_SENSITIVE = compiled(
    rf"{ANCHOR}|sensitive|masked|concealed|confidential|secure(?:d?\b|_?string)|encrypted|noecho|\bkty\b|\brandom_"
    r"|\blogon\b|identified[ \t]+by|\bsetuser\b|::add-mask|\bsign_?in\b|\buser[ \t]+\S+[ \t]+using\b"
    r"|\bconn(?:ect)?[ \t]+[\w$#]+/|connect\w*\(|\bsequelize\(|_bind\(|imap_open\(|\bcreate_?user[ \t(]|\bcom2sec"
    r"|:[ \t]*(?:eap|xauth|ntlm|ppk)[ \t]|\bencrypt[\"' \t]*[:=]|openssl[ \t]+rand|\bpwgen\b|\b334[ \t]|sselinhalt"
    r"|@(?:tcp|unix)\(|_(?:en|de)crypt\(|dumpprivkey|setsteamaccount|\bssid\b|->__construct\("
    r"|(?:ngs|heits|einmal|schalt)codes?\b|\btan\b"
    r"|\bmysqli\(|\bpdo\(|\bbegin\(|pw_set|\ba[ks]ia[a-z0-9]{16}",
    ignore_case=True,
)


_SIGNS = {
    "header": r"(?i:\b(?:bearer|basic|digest))",
    "key": r"PRIVATE KEY|Private-Lines|<Modulus>|\b(?:MII|MHcCAQEE|MIHcAgEB|MIG|MC4CAQAw|b3BlbnNzaC1rZXktdjE|lQ[OHIc])"
    r"|\b(?:privateExponent|prime[12]|exponent[12]|coefficient|priv):",
    "rows": r"(?i:\b(?:into|copy)[ \t])",
    "link": r"/t/|/private-|(?i:reset|invit|magic|verify|confirm|activate|one-?time)",
    "store": r"SecureString|Protect|resource[ \t]",
    "pair": r"[ \t]/[ \t]|[(\[][\"'][\w.@\-]+[\"'],",
    "dsn": r":[^\s:@/\"'<>(){}]+@[A-Za-z0-9/]|(?m:^)[\w.\-*]+:[\d*]+:[\w.\-*]+:|\]:\d",
    "mailbox": r"@[\w\-]+(?:\.[\w\-]+)+:",
    "digest": r":[0-9a-f]{32}\r?(?m:$)",
    "heading": r"(?m:^)[\w \"'.\-|,;\t]+\r?(?m:$)",
    "foreign": f"(?i:{FOREIGN_NAMES})",
}
"""What every match of some rarely matching patterns contains: one pass tells which of them need to be searched."""


_NUMBERS = {sign: number for number, sign in enumerate(_SIGNS)}


@cache
def _sign_set() -> PatternSet:
    return PatternSet(_SIGNS.values())


_ANNOUNCING = (b"AKIA", b"ASIA")
"""How a secret begins that announces another one: the id of an access key."""

_LONG, _REACH = 4096, 16_384
"""After a match of this length, further ones are read so far only: a hostile text must not be read repeatedly."""


def _next(pattern: Pattern, text: bytes, at: int, reach: int) -> Places | None:
    """The next match that has at most `_LONG` bytes, or as much of a longer one as fits into `reach`."""
    while (places := pattern.search(text, at, min(at + reach, len(text)))) is None and at + reach < len(text):
        at += reach - _LONG
    return places


class NameWindows:
    """Where sensitive names are, with some text around them.

    Args:
        pattern: What to look for instead of names.
        within: Where to look.
    """

    def __init__(self, text: bytes, pattern: Pattern = _SENSITIVE, within: "NameWindows | None" = None) -> None:
        self.text = text
        self.rare: NameWindows = self
        """The windows for the patterns that few names match."""
        self.found: dict[int, int] = {}
        """Where secrets begin and end that earlier finders found: no need to judge them again."""
        self._signs: frozenset[int] | None = None
        self._starts: list[int] = []
        self._ends: list[int] = []
        at, reach = 0, len(text)
        while places := within.search(pattern, at) if within else _next(pattern, text, at, reach):
            hit, hit_end = places[0]
            at = hit + _STEP
            if hit_end - hit > _LONG:
                reach = _REACH
            start, end = self._around(hit)
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(end, self._ends[-1])
            else:
                self._starts.append(start)
                self._ends.append(end)

    def __bool__(self) -> bool:
        return bool(self._starts)

    def has_sign(self, sign: str) -> bool:
        """Whether one of the `_SIGNS` is anywhere in the text."""
        if self._signs is None:
            self._signs = _sign_set().found(self.text)
        return _NUMBERS[sign] in self._signs

    def found_at(self, at: int) -> int | None:
        """The end of a secret that is known to begin here, after a blank and a quote."""
        found = self.found
        return (found.get(at) or found.get(at + 1) or found.get(at + 2)) if found else None

    def unexplained(self) -> bytes:
        """The text, with other signs in place of the secrets that earlier finders found."""
        pieces: list[bytes] = []
        at = 0
        for start, end in sorted(self.found.items()):
            if end > at and self.text[start : start + 4] not in _ANNOUNCING:
                start = max(start, at)
                pieces += (self.text[at:start], INERT * (end - start))
                at = end
        return b"".join((*pieces, self.text[at:])) if at else self.text

    def search(self, pattern: Pattern, at: int, text: bytes | None = None) -> Places | None:
        """The next match in a window. A match that reaches the end of its window is read to its real end.

        Args:
            text: What to search instead of the text, with the same windows.
        """
        text, ends, starts = self.text if text is None else text, self._ends, self._starts
        for index in range(bisect_right(ends, at), len(ends)):
            start, end = starts[index], ends[index]
            if places := pattern.search(text, at if at > start else start, end):
                is_cut = places[0][1] == end < len(text)
                return (pattern.match(text, places[0][0]) or places) if is_cut else places
        return None

    def every(self, pattern: Pattern) -> Iterator[Places]:
        text, at = self.text, 0
        for start, end in zip(self._starts, self._ends, strict=True):
            at = max(at, start)
            while at < end and (places := pattern.search(text, at, end)):
                if places[0][1] == end < len(text):
                    places = pattern.match(text, places[0][0]) or places
                yield places
                at = places[0][1] + (places[0][0] == places[0][1])

    @property
    def size(self) -> int:
        return sum(self._ends) - sum(self._starts)

    def joined(self) -> bytes:
        """The text of all windows."""
        return b"\n".join(self.text[start:end] for start, end in zip(self._starts, self._ends, strict=True))

    def _around(self, hit: int) -> tuple[int, int]:
        """A window that begins and ends at line breaks where there are some near."""
        start, end = max(0, hit - _BEFORE), min(len(self.text), hit + _AFTER)
        line_start = self.text.find(b"\n", start, hit) + 1
        line_end = self.text.rfind(b"\n", hit + _STEP + _BEFORE, end) + 1
        return (line_start or start) if start else 0, line_end or end


def name_windows(text: bytes, clock: MaskingDeadline) -> NameWindows:
    """The windows of a text, computed once for all finders that search it."""
    if not isinstance(clock.memo, NameWindows) or clock.memo.text is not text:
        clock.memo = NameWindows(text)
    return clock.memo
