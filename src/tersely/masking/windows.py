"""The parts of a text near sensitive names.

Most finders look for a name with a value next to it. One pass finds where names are;
the finders then search only there. Most texts have few names, so most passes over them
cost nothing.
"""

from bisect import bisect_right
from collections.abc import Iterator

from tersely.masking.patterns import ANCHOR, Pattern, Places, compiled
from tersely.masking.spans import MaskingDeadline

_BEFORE, _AFTER = 512, 1536
_STEP = 512
"""After a name, the next one is searched from here on: everything up to here is inside the window already."""

_SENSITIVE = compiled(
    rf"{ANCHOR}|sensitive|masked|concealed|confidential|secure(?:d?\b|_?string)|encrypted|noecho|\bkty\b|\brandom_"
    r"|\blogon\b|identified[ \t]+by|\bsetuser\b|::add-mask|\bsign_?in\b|\buser[ \t]+\S+[ \t]+using\b"
    r"|\bconn(?:ect)?[ \t]+[\w$#]+/|connect\w*\(|\bsequelize\(|_bind\(|imap_open\(|\bcreate_?user[ \t(]|\bcom2sec"
    r"|:[ \t]*(?:eap|xauth|ntlm|ppk)[ \t]"
    r"|\bmysqli\(|\bpdo\(|\bbegin\(|pw_set|\ba[ks]ia[a-z0-9]{16}",
    ignore_case=True,
)


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
        self._starts: list[int] = []
        self._ends: list[int] = []
        at = 0
        while places := within.search(pattern, at) if within else pattern.search(text, at):
            hit = places[0][0]
            at = hit + _STEP
            start, end = self._around(hit)
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(end, self._ends[-1])
            else:
                self._starts.append(start)
                self._ends.append(end)

    def __bool__(self) -> bool:
        return bool(self._starts)

    def found_at(self, at: int) -> int | None:
        """The end of a secret that is known to begin here, after a blank and a quote."""
        found = self.found
        return (found.get(at) or found.get(at + 1) or found.get(at + 2)) if found else None

    def search(self, pattern: Pattern, at: int) -> Places | None:
        """The next match in a window. A match that reaches the end of its window is read to its real end."""
        text, ends, starts = self.text, self._ends, self._starts
        for index in range(bisect_right(ends, at), len(ends)):
            start, end = starts[index], ends[index]
            if places := pattern.search(text, at if at > start else start, end):
                is_cut = places[0][1] == end < len(text)
                return (pattern.match(text, places[0][0]) or places) if is_cut else places
        return None

    def every(self, pattern: Pattern) -> Iterator[Places]:
        at = 0
        while places := self.search(pattern, at):
            yield places
            at = places[0][1] + (places[0][0] == places[0][1])

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
