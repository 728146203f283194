"""The part of a log line before its message: time, host, process ids, level, thread, logger.

Learned from a sample of the log itself, not from a list of formats: which of the first
words are times, numbers, levels, or the same on every line. `Preamble.split` then finds,
for any line, the start of the message, the time and the level. Dropping parts without
information makes room for other lines.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, islice
from typing import NamedTuple

from tersely.condensing.templates import VALUE

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_CLOCK = r"\d{1,2}:\d\d:\d\d(?:[.,:]\d{1,9})?"
_ZONE = r"(?:\ ?(?:Z\b|[+-]\d\d:?\d\d\b|UTC\b|GMT\b|[A-Z]{1,3}[SED]T\b))?"
_TIME = rf"""
    \d{{4}}[-/.]\d\d[-/.]\d\d(?:[T_\ -]\d\d[:.]\d\d[:.]\d\d(?:[.,:]\d{{1,9}})?)?{_ZONE}
  | \d\d[-/.]{_MONTH}[-/.]\d{{4}}[:\ ]{_CLOCK}(?:\ [+-]\d{{4}})?
  | (?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),?\ )?{_MONTH}\ {{1,2}}\d{{1,2}},?(?:\ \d{{4}})?,?
    \ {_CLOCK}(?:\ ?[AP]M\b)?(?:\ \d{{4}}\b)?
  | \d{{1,4}}[-/.]\d\d(?:[-/.]\d\d(?:\d\d)?)?[\ T]{_CLOCK}
  | \d{{8}}[-T\ _]\d{{1,2}}:\d{{1,2}}:\d{{1,2}}(?:[.,:]\d{{1,9}})?
  | (?:0\d|1\d|2\d)(?:0\d|1[012])[0-3]\d\ [012]\d[0-5]\d[0-5]\d\b
  | {_CLOCK}
  | (?<=\[)\ {{0,8}}\d{{1,8}}\.\d{{6}}(?=\])
  | 1\d{{9}}(?:\.\d{{1,9}}|\d{{3}}|\d{{6}}|\d{{9}})?(?=[\s|,\]])
"""
TIME = re.compile(rf"(?=[\dJFMASONDTW\ ])(?:{_TIME})", re.X)
MAY_HAVE_TIME = re.compile(r"\d(?:[-/.:]\d|\d{5})")
"""In every text with a time; saves the search in others."""

_LEVELS: dict[str, float] = {
    **dict.fromkeys(("trace", "debug", "verbose", "fine", "finer", "finest", "config"), -0.3),
    **dict.fromkeys(("info", "information", "notice", "log", "informational"), 0.0),
    **dict.fromkeys(("warn", "warning"), 1.2),
    **dict.fromkeys(("error", "err", "failure"), 2.0),
    **dict.fromkeys(("fatal", "crit", "critical", "alert", "emerg", "emergency", "severe", "panic"), 2.6),
}
_LETTER_LEVELS = {"V": -0.3, "D": -0.3, "I": 0.0, "N": 0.0, "W": 1.2, "E": 2.0, "F": 2.6, "C": 2.6}
_LEVEL_NAMES = "|".join(sorted(_LEVELS, key=len, reverse=True))
_LEVEL = re.compile(
    rf"[\[(<|]{{0,2}}(?:(?:level|lvl|severity|loglevel)=\"?)?({_LEVEL_NAMES})\"?[\])>|]{{0,2}}[:,|-]?", re.I
)
_INLINE_LEVEL = re.compile(rf"\b(?:level|lvl|severity|loglevel|priority)=\"?({_LEVEL_NAMES})\b", re.I)
_KLOG = re.compile(r"([IWEF])\d{4} (\d\d:\d\d:\d\d)[.\d]*\s+\d+ ")

_TOKEN = re.compile(
    rf"""(?P<time>(?=[\[(<"\dtdaJFMASONDTW\ ])  # What a time can begin with; saves most attempts.
      (?<![^\s\[(<|"])[\[(<]?(?:(?:ts|time|timestamp|date|at|t)=)?"?(?:{_TIME})"?[\])>]?(?:[,:]?(?=\s|$|\[)|\|))
    | (?P<bracket>\[[^\[\]]{{0,300}}\]:?)
    | (?P<basic>(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):(?=[\w.]+:))
    | [^\s|]+\|?
    | \|""",
    re.X,
)
_LOGGER = re.compile(r"(?:[A-Za-z_$][\w$-]*[./])+(?=(?:[A-Z][\w$@#-]*|[\w$-]+[./][\w$@#-]+)(?:[:\s]|$))")
_PROCESS = re.compile(r"[\w./()@-]{2,}(?:\[\d+\])?:?")
_PROCESS_WITH_COLON = re.compile(r"[\w./()@-]{2,}(?:\[[\w.]+\])?:")

_REACH = 400
"""Longest preamble of a line, in characters."""
_MOST_TOKENS = 14
_MOST_WORDS = 3
"""A preamble has few plain words; the message starts after them."""


class Parts(NamedTuple):
    """One line, split into its parts."""

    shown: str
    """The line without uninformative parts; `…` marks an omission inside it."""
    time: str
    level: str
    """As written, without brackets; empty if there is none."""
    weight: float
    """Severity of the level: 0 information, 1.2 warning, 2 error, 2.6 worse, negative for debugging."""


@dataclass(frozen=True)
class Preamble:
    """Learned structure of the lines of one log."""

    times: frozenset[int]
    levels: frozenset[int]
    """Positions of times and levels among the first tokens."""
    numbers: frozenset[int]
    """Positions where nearly every line has a number or an identifier that is not part of the message."""
    sources: frozenset[int]
    """Positions before the time with one of a few names that identify interleaved logs, e.g. `web_1`."""
    host: int
    """Position of the host, which precedes the process; -1 for none."""
    host_name: str
    """Empty if there are several hosts."""
    constants: frozenset[str]
    """Words that nearly every line has before its message."""
    threads: bool
    """A bracketed thread name follows the level."""
    usual_level: str
    """The level of most lines if it is harmless; lines of that level are shown without it."""

    @cached_property
    def depth(self) -> int:
        """The last possible position of a time or a level; -1 if there are none."""
        return max([*self.times, *self.levels], default=-1)

    @cached_property
    def _reach(self) -> int:
        """How many tokens to examine: those that can be omitted, and a logger with its thread after them."""
        return min(_MOST_TOKENS, max([self.depth, self.host, *self.numbers]) + 5)

    @staticmethod
    def learn(lines: Sequence[str]) -> "Preamble":
        sample = [line for line in lines[:: max(1, len(lines) // 400)] if line.strip() and not line[0].isspace()][:500]
        total = len(sample)
        taken = [list(_tokens(line)) for line in sample]
        times, levels, numbers, hosts = Counter[int](), Counter[int](), Counter[int](), Counter[int]()
        words, names = Counter[str](), Counter[str]()
        threads = components = 0
        host_names = Counter[str]()
        for tokens in taken:
            plain = 0
            level_seen = False
            for index, token in enumerate(tokens):
                if token.kind == "time" and plain <= _MOST_WORDS and index < 7:
                    times[index] += 1
                    if (
                        index + 2 < len(tokens)
                        and tokens[index + 1].kind == "word"
                        and _PROCESS_WITH_COLON.fullmatch(tokens[index + 2].text)
                    ):
                        hosts[index + 1] += 1
                        host_names[tokens[index + 1].text] += 1
                elif token.kind == "level" and plain <= _MOST_WORDS and not level_seen:
                    level_seen = True
                    levels[index] += 1
                    names[_level_name(token.text)] += 1
                    if index + 1 < len(tokens) and tokens[index + 1].kind == "bracket":
                        threads += 1
                        components += not VALUE.search(tokens[index + 1].text)
                elif token.kind in ("number", "separator"):
                    numbers[index] += 1
                elif token.kind == "word" and not VALUE.search(token.text):
                    plain += 1
                words[token.text] += 1
        depth = max([*times, *levels], default=-1)
        sources: set[int] = set()
        for place in range(min(3, depth)):
            seen = Counter(
                tokens[place].text for tokens in taken if place < len(tokens) and len(tokens[place].text) <= 24
            )
            if (
                1 < len(seen) <= 12
                and seen.total() >= 0.8 * total >= 4 * len(seen)
                and all(_NAMED_SHORT.search(name) for name in seen)
            ):
                sources.add(place)
        often = 0.1 * total if total > 4 else 1
        usual, count = names.most_common(1)[0] if names else ("", 0)
        host, with_host = hosts.most_common(1)[0] if hosts else (-1, 0)
        return Preamble(
            times=frozenset(index for index, found in times.items() if found >= often),
            levels=frozenset(index for index, found in levels.items() if found >= often),
            numbers=frozenset(index for index, found in numbers.items() if found >= 0.8 * total),
            sources=frozenset(sources),
            host=host if with_host >= 0.5 * total else -1,
            host_name=next(iter(host_names)) if len(host_names) == 1 else "",
            constants=frozenset(word for word, found in words.items() if found >= 0.9 * total and total > 4),
            # Threads are numbered; names without a number are components, which say what a line is about.
            threads=threads >= 0.6 * total and components < 0.5 * threads,
            usual_level=usual if level_weight(usual) <= 0 and count >= 0.5 * total else "",
        )

    def split(self, line: str) -> Parts:
        klog = _KLOG.match(line)
        if klog:
            level = klog[1]
            rest = line[klog.end() :]
            return Parts(rest if level == "I" else f"{level} …{rest}", klog[2], level, _LETTER_LEVELS[level])
        if self.depth < 0:
            level = _inline_level(line)
            return Parts(line.strip(), "", level, level_weight(level))
        time, level = "", ""
        kept: list[tuple[int, int]] = []
        message = 0
        # Most lines have their message after the last mark, so what follows is not looked at.
        following = _tokens(line, self._reach)
        tokens = list(islice(following, self.depth + 1))
        last = self._last_mark(tokens)
        named = False
        for place, token in enumerate(chain(tokens, following)):
            if token.kind == "time" and place in self.times:
                time = time or _bare_time(token.text)
            elif token.kind == "level" and place in self.levels and not level:
                level = _level_name(token.text)
                if level.lower() != self.usual_level.lower():
                    kept.append((token.start, token.end))
            elif place in self.sources and place < last:
                kept.append((token.start, token.end))
            elif place == self.host or self._is_omittable(place, token, last, bool(level), named):
                pass
            elif place < last:
                if token.kind == "word" and not VALUE.search(token.text):
                    kept.append((token.start, token.end))
            elif last >= 0 and not named and (logger := _LOGGER.match(line, token.start)):
                # The package costs more tokens than it is worth; the class or module is kept.
                kept.append((logger.end(), token.end))
                named = True
            else:
                break
            message = token.end
        if not level:
            level = _inline_level(line)
        kept.append((message, len(line)))
        shown, before = "", 0
        for start, end in kept:
            if shown and start > before:
                shown = shown.rstrip() + " …"
            shown += line[start:end]
            before = end
        return Parts(" ".join(shown.split()), time, level, level_weight(level))

    def time(self, line: str) -> str:
        """Return the time of a line, as `split` does."""
        klog = _KLOG.match(line)
        if klog:
            return klog[2]
        for place, token in enumerate(_tokens(line, max(self.times) + 1) if self.times else ()):
            if token.kind == "time" and place in self.times and (time := _bare_time(token.text)):
                return time
        return ""

    def _last_mark(self, tokens: Sequence["_Token"]) -> int:
        """Return the position of the last time or level; -1 if there is none."""
        last = -1
        for place, token in enumerate(tokens):
            if (token.kind == "time" and place in self.times) or (token.kind == "level" and place in self.levels):
                last = place
        return last

    def source(self, line: str) -> str:
        """Return which of several interleaved logs the line belongs to; empty if there is only one."""
        words = line.split(None, 3)
        return " ".join(words[place] for place in sorted(self.sources) if place < len(words))

    def _is_omittable(self, place: int, token: "_Token", last: int, level_seen: bool, named: bool) -> bool:
        """Whether a token of the preamble can be omitted: a constant, a number, or the thread after the level."""
        if token.kind in ("number", "separator"):
            return place < last or place in self.numbers or (named and token.text[0] in "[-")
        if token.kind == "bracket" and level_seen and self.threads and not named:
            return True
        return place < last and token.text in self.constants


def _bare_time(word: str) -> str:
    return word.strip('[](),:|<>"').rpartition("=")[2]


def _inline_level(line: str) -> str:
    """Return the level that a field of the line states; empty if there is none."""
    found = _INLINE_LEVEL.search(line, 0, 400) if "=" in line else None
    return found[1] if found else ""


class _Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int
    """Includes the blanks that follow."""


def _tokens(line: str, most: int = _MOST_TOKENS) -> Iterator[_Token]:
    """Yield the first tokens of a line: times, levels, numbers (and identifiers), brackets, separators, words."""
    new = tuple.__new__  # Twice as fast as the call of a named tuple, which checks its arguments.
    size = len(line)
    for match in islice(_TOKEN.finditer(line, 0, _REACH), most):
        word = match.group()
        if match.lastgroup == "time":
            kind = "time"
        elif match.lastgroup == "basic":
            kind = "level"
        else:
            kind = _kind_of(word, match.lastgroup == "bracket")
        end = match.end()
        while end < size and line[end] in " \t|":
            end += 1
        yield new(_Token, (kind, word, match.start(), end))


@lru_cache(maxsize=4_096)
def _kind_of(word: str, in_brackets: bool) -> str:
    if _is_level(word) or (len(word) == 1 and word in _LETTER_LEVELS):
        return "level"
    if word.isalpha():
        return "word"
    if len(word) < 4 and not any(map(str.isalnum, word)):
        return "separator"
    if in_brackets:
        return "bracket" if _NAMED.search(VALUE.sub("", word)) else "number"
    return "number" if not _LETTERS.search(VALUE.sub("", word)) else "word"


_NAMED_SHORT = re.compile(r"[^\W\d_]{2}")
_LETTERS = re.compile(r"[^\W\d_]")
_NAMED = re.compile(r"[^\W\d_]{4}")


def _is_level(word: str) -> bool:
    """Whether a word is a level: `ERROR`, `[error]`, `Warning:`, `level=warn`; a bare lower-case `error` is not."""
    if not _LEVEL.fullmatch(word):
        return False
    return word.isupper() or word.istitle() or not (word[0].isalpha() and word[-1].isalpha()) or "=" in word


def _level_name(word: str) -> str:
    match = _LEVEL.fullmatch(word)
    return match[1] if match else word.rstrip(":")


def level_weight(level: str) -> float:
    return _LETTER_LEVELS.get(level, 0.0) if len(level) == 1 else _LEVELS.get(level.lower(), 0.0)
