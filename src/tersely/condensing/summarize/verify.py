"""Check a summary against its source: numbers, identifiers, timestamps and quotes that the source does not contain.

A check costs one pass through the source, made once per text (`SourceFacts`), and time in
proportion to the summary afterwards. It finds items, not statements: a summary can combine
items that exist into a sentence that is wrong. Words without digits, capitals or separators
inside are not checked, because models may use their own.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

MOST_UNSUPPORTED = 0.05
"""Largest share of unsupported items in an answer that is not asked for again."""

# Possessive (`*+`), so that a long run of letters is scanned once and not once per letter.
_RUN = re.compile(r"[A-Za-z0-9/][\w.:/@%#+-]*+")
_DIGIT = re.compile(r"\d")
_THOUSANDS = re.compile(r"(?<=\d)[,_'’ ](?=\d{3}(?!\d))")
_EDGES = ".,:;/@%#+-"
_NAME = re.compile(
    r"[A-Za-z0-9]+(?:_[A-Za-z0-9]+)+"  # snake_case
    r"|[A-Za-z0-9]+(?:-[A-Za-z0-9]+){2,}"  # api-gateway-canary; one hyphen is ordinary English
    r"|[a-z]+(?:[A-Z][a-z0-9]+)+|(?:[A-Z]+[a-z0-9]+){2,}"  # camelCase, CrashLoopBackOff
    r"|[\w-]{2,}(?:\.[\w-]{2,})+"  # example.com, settings.yaml
    r"|/?[\w.-]+(?:/[\w.-]+){2,}|/[\w.-]{2,}(?:/[\w.-]+)+"  # paths
)
_QUOTED = re.compile(r"`([^`\n]{3,400})`|\"([^\"\n]{3,400})\"|“([^”\n]{3,400})”")
_ELLIPSIS = re.compile(r"\s*(?:\.\.\.|…|\[…\]|\[\.\.\.\])\s*")
_PLAIN_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_CITATION = re.compile(r"\[lines? (\d+)(?:\s*[-–]\s*(\d+))?(?:, [^\]\n]{0,60})?\]")
_OWN_CITATION = re.compile(r"\[lines? [\d–, -]+\]")
_MARKED_DERIVED = re.compile(r"[^.;\n]{0,60}?\(derived\)")
_COUNTED = re.compile(r"\s*(?:%|×|times\b|of\b|(?:[A-Za-z-]+ ){0,2}?[A-Za-z-]+s\b|entries\b|percent\b)")
_SUMMED = re.compile(r"(?:total|sum|average|mean|median|altogether|combined|in all|difference)\b[^.;\n]{0,40}$", re.I)
_MASK_MARK = re.compile(r"\[MASKED:[^\]\n]{0,80}\]")
_MOST_ITEMS = 2_000
_SHORTEST_QUOTE = 12


@dataclass(frozen=True)
class Verification:
    """The checkable items of a summary, and those that its source does not contain."""

    items: int = 0
    unsupported: tuple[str, ...] = ()
    derived: tuple[str, ...] = ()
    """Numbers that the source does not contain and that the summary presents as counts or sums."""

    cited: tuple[tuple[int, int], ...] = ()
    """Line ranges that the summary refers to, within the source."""

    @property
    def share(self) -> float:
        return len(self.unsupported) / self.items if self.items else 0.0


class SourceFacts:
    """A source, indexed for checks.

    Args:
        known: Texts besides the source that a summary may repeat: what was asked, and the conversation.
    """

    def __init__(self, source: str, *known: str) -> None:
        self._lines = 1 + source.count("\n")
        # An upper bound for what can be counted in the source: its lines, or the values of data on few lines.
        self._countable = max(self._lines, source.count("{"), source.count(","))
        self._text = _without_separators("\n".join((source, *known))).lower()

    @cached_property
    def _identifiers(self) -> frozenset[str]:
        return frozenset(_identifiers(self._text))

    @cached_property
    def _flat(self) -> str:
        """The text with single spaces and without JSON escapes, to find quotes in."""
        return " ".join(self._text.replace('\\"', '"').replace("\\n", " ").replace("\\t", " ").split())

    @cached_property
    def _numbers(self) -> frozenset[float]:
        return frozenset(float(number) for number in _PLAIN_NUMBER.findall(self._text) if len(number) < 300)

    def check(self, summary: str) -> Verification:
        """Find the items of a summary that the source does not contain.

        The comparison ignores case, thousands separators and punctuation at the ends. Numbers up to 12 are not items:
        models count things ("three pods"), so they prove little.
        """
        cited, wrong = self._citations(summary)
        plain = _without_separators(_MASK_MARK.sub("", _OWN_CITATION.sub("", summary)))
        quotes = dict.fromkeys(_quotes(plain))
        found: dict[str, int] = {}
        for item, end in _items(plain):
            found.setdefault(item, end)
            if len(found) >= _MOST_ITEMS:
                break
        unsupported = list(wrong)
        derived: list[str] = []
        for item, end in found.items():
            if self._has(item):
                continue
            (derived if self._is_derived(item, plain, end) else unsupported).append(item)
        # A name inside of an unsupported quote is part of that one item.
        unsupported += [quote for quote in quotes if quote not in found and not self._has_quote(quote)]
        return Verification(
            items=len(found) + sum(quote not in found for quote in quotes) + len(cited) + len(wrong),
            unsupported=tuple(unsupported),
            derived=tuple(derived),
            cited=tuple(cited),
        )

    def _citations(self, summary: str) -> tuple[list[tuple[int, int]], list[str]]:
        """The cited line ranges in the source, and the citations of lines that it does not have."""
        inside: dict[tuple[int, int], None] = {}
        outside: dict[str, None] = {}
        for match in _CITATION.finditer(summary):
            first, last = int(match[1][:18]), int((match[2] or match[1])[:18])
            if 1 <= first <= last <= self._lines:
                inside[first, last] = None
            else:
                outside[match.group()] = None
        return list(inside), list(outside)

    def _has(self, item: str) -> bool:
        if item in self._identifiers:
            return True
        if _PLAIN_NUMBER.fullmatch(item) and float(item) in self._numbers:
            return True
        # A part of a longer identifier in the source is not invented.
        before = r"(?<!\d)" if item[0].isdigit() else ""
        after = r"(?!\d)" if item[-1].isdigit() else ""
        return item in self._text and re.search(before + re.escape(item) + after, self._text) is not None

    def _has_quote(self, quote: str) -> bool:
        pieces = [" ".join(piece.split()) for piece in _ELLIPSIS.split(quote.lower())]
        return all(piece.strip(" .,;:") in self._flat for piece in pieces if len(piece) > 2)

    def _is_derived(self, item: str, text: str, end: int) -> bool:
        if not _PLAIN_NUMBER.fullmatch(item):
            return False
        if _MARKED_DERIVED.match(text, end) or _SUMMED.search(text, max(0, end - len(item) - 60), end - len(item)):
            return True
        if not _COUNTED.match(text, end):
            return False
        return text[end : end + 2].lstrip()[:1] == "%" or ("." not in item and int(item[:18]) <= self._countable)


def _items(text: str) -> Iterator[tuple[str, int]]:
    """Yield the checkable items of a text, in lower case, and the offset after each."""
    for match in _RUN.finditer(text):
        run = match.group()
        end = match.end() - (len(run) - len(run.rstrip(_EDGES)))
        run = run.strip(_EDGES)
        if _DIGIT.search(run):
            if not (run.isdigit() and len(run) <= 2 and int(run) <= 12):
                yield run.lower(), end
        elif _NAME.fullmatch(run):
            yield run.lower(), end


def _quotes(text: str) -> Iterable[str]:
    for match in _QUOTED.finditer(text):
        is_code = match.group(1) is not None
        quote = next(filter(None, match.groups())).strip(" .,;:")
        if (is_code and len(quote) > 2) or len(quote) >= _SHORTEST_QUOTE:
            yield quote.lower()


def _identifiers(text: str) -> Iterable[str]:
    for match in _RUN.finditer(text):
        if _DIGIT.search(match.group()):
            yield match.group().strip(_EDGES)


def _without_separators(text: str) -> str:
    return _THOUSANDS.sub("", text)
