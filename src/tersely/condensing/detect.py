"""Detection: which reader reads a text.

Each module of `readers` that reads a kind of text exports one `READER = Reader(kind, detect, read)`; a new kind is a
new module there and nothing else. A detector lists signs of its kind, each with the confidence that it gives. The most
confident reader wins:

    .95 and more   a grammar: markup, JSON
    .80 and more   signs that only this kind has: hunks of a diff, a hash before each line, `file:line:column: error`
    .60 and more   one record per line: rows, times, levels, speakers
    .40 and more   the shape of most lines: sentences, links, keys
    below          hints, for texts without any of these

Cheap and careful: a sign is strong evidence in a sample of the lines, because a reader of the wrong kind does worse
than the generic one. Signs are tried from the most to the least confident, so a clear case costs little. Readers
examine the whole text and may still decline.
"""

import importlib
import pkgutil
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, wraps
from types import MappingProxyType
from typing import Literal, TypeVar, cast

from tersely.condensing.focus import Focus
from tersely.condensing.units import Reading
from tersely.shapes.outlines import ASSIGNMENT, ITEM_LINE, KEY_LINE, SECTION_LINE

SAMPLE_LINES = 400
LONGEST_SAMPLED = 2_000
"""The beginning of a line shows its kind; the limit keeps patterns with several repeats cheap."""

_CLOCK = r"\d{1,2}:\d\d(?::\d\d)?"
_DAY = (
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/. ](?:\d{1,2}|[A-Z][a-z]{2})[-/. ]\d{2,4}|(?:[A-Z][a-z]{2},? "
    r")?[A-Z][a-z]{2} +\d{1,2}"
)
TIME_START = re.compile(
    rf"[\[(<]?(?:(?:{_DAY})[T ,:_-]+(?:\d{{4}} +)?{_CLOCK}|{_CLOCK}[.,:]\d+|{_CLOCK}\b"
    rf"|\d{{8}}[ T-]{_CLOCK}|\d{{10,13}}(?:\.\d+)?\b|[IWEF]\d{{4}} {_CLOCK}| {{0,8}}\d{{1,8}}\.\d{{6}}\])"
)
_TIME_INSIDE = re.compile(
    rf"(?:{_DAY})[T ,:_-]+(?:\d{{4}} +)?{_CLOCK}|\b{_CLOCK}[.,]\d{{3}}\b|\b\d\d:\d\d:\d\d\b|\b1\d{{9}}(?:\d{{3}})?\b"
)
_LEVEL = re.compile(
    r"(?<![\w.-])(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|ERR|FATAL|CRIT(?:ICAL)?|SEVERE|PANIC)(?![\w-])|\blevel=\w+|\[(?:info|warn|error|debug|notice)\]"
)
_LEVEL_WORDS = (
    *("TRACE", "DEBUG", "INFO", "NOTICE", "WARN", "ERR", "FATAL", "CRIT", "SEVERE", "PANIC", "level="),
    *("[info]", "[warn]", "[error]", "[debug]", "[notice]"),
)
"""One of these is in every match of `_LEVEL`."""
_MAY_HAVE_TIME = re.compile(r"\d(?::\d|\d{9})")
"""In every match of `_TIME_INSIDE`."""
_FRAME = re.compile(r"\s+at [\w$.<>]+\(|\s*File \"[^\"]+\", line \d+|\s+\.\.\. \d+ more|Caused by: |Traceback ")
FIELDS = re.compile(r"[A-Za-z_][\w-]*(?:: |=)")
_TIGHT_FIELDS = re.compile(r"(?<![\w:/.])[A-Za-z_][\w-]*:(?=[^\s/:])")
_MARKDOWN = re.compile(r"#{1,6} \S|!?\[[^\]]*\]\([^)\s]+|\* \[|={3,}$|```")
_COMMENT = re.compile(r"\s*(?:#|//|;|--)(?:\s|$)")
_LINKED_PAGE = 0.04
_LEAST_LINKS = 3

_SENTENCE_END = re.compile(r"[a-zà-ÿ,\"')]\s?[.!?][\"')]?(?:\s|$)|[。！？]")


def sample_of(text: str) -> list[str]:
    """Return non-blank lines from the beginning and the middle, cut to `LONGEST_SAMPLED` characters."""
    start = [line[:LONGEST_SAMPLED] for line in text[:120_000].split("\n") if line and not line.isspace()][
        : SAMPLE_LINES * 3 // 4
    ]
    if len(text) > 240_000:
        middle = text[len(text) // 2 : len(text) // 2 + 60_000].split("\n")[1:-1]
        start += [line[:LONGEST_SAMPLED] for line in middle if line and not line.isspace()][: SAMPLE_LINES // 4]
    return start


class Sample:
    """Sampled lines with the shares of them that match a pattern, each computed when a sign first needs it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = sample_of(text)
        self.many = len(self.lines)
        self.known: dict[Callable[[Sample], object], object] = {}

    @cached_property
    def joined(self) -> str:
        """The sampled lines as one text: what is not in it is in none of them."""
        return "\n".join(self.lines)

    @cached_property
    def opening(self) -> str:
        return self.text[:4_000].lstrip("\ufeff \t\r\n\0")

    @cached_property
    def uncommented(self) -> "Sample":
        """The sample without the lines that are comments of YAML; itself if it has none or nothing else."""
        lines = [line for line in self.lines if not line.lstrip().startswith("#")]
        if len(lines) in (0, self.many):
            return self
        other = Sample("")
        other.text, other.lines, other.many = self.text, lines, len(lines)
        return other

    def share(self, pattern: re.Pattern[str]) -> float:
        """Return the share of lines that match at their beginning."""
        return len(list(filter(pattern.match, self.lines))) / self.many

    def share_of_several(self, pattern: re.Pattern[str], *signs: str) -> float:
        """Return the share of lines with at least three matches; each match has one of the signs."""
        return (
            sum(
                1
                for line in self.lines
                if sum([line.count(sign, 0, 600) for sign in signs]) >= 3 and len(pattern.findall(line[:600])) >= 3
            )
            / self.many
        )

    @cached_property
    def timed(self) -> float:
        return self.share(TIME_START)

    @cached_property
    def with_digits_of_times(self) -> list[str]:
        return list(filter(_MAY_HAVE_TIME.search, self.lines)) if _MAY_HAVE_TIME.search(self.joined) else []

    def share_with_time(self, reach: int) -> float:
        """Return the share of lines with a time in their first `reach` characters."""
        return len([line for line in self.with_digits_of_times if _TIME_INSIDE.search(line, 0, reach)]) / self.many

    @cached_property
    def time_inside(self) -> float:
        return self.share_with_time(200)

    @cached_property
    def leveled(self) -> float:
        """Share of lines with a level in their first 160 characters."""
        words = [word for word in _LEVEL_WORDS if word in self.joined]
        possible = [line for line in self.lines if any(map(line.__contains__, words))] if words else []
        return len([line for line in possible if _LEVEL.search(line, 0, 160)]) / self.many

    @cached_property
    def framed(self) -> float:
        return self.share(_FRAME)

    @cached_property
    def keys(self) -> float:
        return self.share(KEY_LINE)

    @cached_property
    def items(self) -> float:
        return self.share(ITEM_LINE)

    @cached_property
    def sections(self) -> float:
        return self.share(SECTION_LINE)

    @cached_property
    def assigns(self) -> float:
        return self.share(ASSIGNMENT)

    @cached_property
    def fields(self) -> float:
        return self.share_of_several(FIELDS, ": ", "=")

    @cached_property
    def tight_fields(self) -> float:
        return self.share_of_several(_TIGHT_FIELDS, ":")

    @cached_property
    def long_lines(self) -> float:
        return sum(1 for line in self.lines if len(line) > 160) / self.many

    @cached_property
    def marked(self) -> float:
        """Share of Markdown: marks at the beginning of lines, links inside them."""
        return self.share(_MARKDOWN) + sum(1 for line in self.lines if "](" in line) / self.many

    @cached_property
    def linked(self) -> bool:
        """Whether the text has Markdown links in a number that only pages have."""
        links = sum(1 for line in self.lines if "](" in line)
        return links >= _LEAST_LINKS and links >= _LINKED_PAGE * self.many

    @cached_property
    def commented(self) -> float:
        """Share of lines that are comments of a configuration file or program."""
        return self.share(_COMMENT)

    @cached_property
    def is_sentences(self) -> bool:
        """Whether most lines end with a sentence and contain as many blanks as prose."""
        ended = sum(1 for line in self.lines if line.rstrip()[-1:] in ".!?。！？" and _SENTENCE_END.search(line))
        blanks = sum(line.count(" ") for line in self.lines) / max(1, sum(map(len, self.lines)))
        return ended / self.many > 0.6 and blanks > 0.12

    @cached_property
    def is_written(self) -> bool:
        """Whether the text has neither times nor stack traces, which people do not write."""
        return max(self.timed, self.framed) < 0.2

    @cached_property
    def has_times_inside(self) -> bool:
        return self.time_inside > 0.6 and self.many >= 3 and self.keys < 0.6

    @cached_property
    def has_named_values(self) -> bool:
        """Whether lines consist of names with values, and their times stand among these."""
        if self.fields <= 0.7 and self.tight_fields <= 0.7:
            return False
        return max(self.leveled, self.timed, self.share_with_time(40)) < 0.3

    @cached_property
    def sentence_ends(self) -> float:
        return sum(1 for line in self.lines if _SENTENCE_END.search(line)) / self.many

    @cached_property
    def begins_with_keys(self) -> bool:
        return sum(1 for line in self.lines[:12] if KEY_LINE.match(line)) >= 0.75 * min(12, self.many)


T = TypeVar("T")


def once(function: Callable[[Sample], T]) -> Callable[[Sample], T]:
    """Compute what a sign needs once for each sample; for what several readers ask."""

    @wraps(function)
    def known(sample: Sample) -> T:
        if function not in sample.known:
            sample.known[function] = function(sample)
        return cast(T, sample.known[function])

    return known


Sign = tuple[float, Callable[[Sample], bool]]


class Signs:
    """A detector: the confidence of the first sign that a sample shows, or 0."""

    def __init__(self, *signs: Sign) -> None:
        self.signs = signs

    def __call__(self, sample: Sample) -> float:
        return max((confidence for confidence, shows in self.signs if shows(sample)), default=0.0)


Read = Callable[[str, Focus, int], Reading | None]


@dataclass(frozen=True)
class Reader:
    kind: str
    detect: Signs
    read: Read
    """From text, question and budget to units; None if the text is of another kind after all."""
    before: tuple[str, ...] = ()
    """Kinds that this reader is offered first, because they often turn out to be this one."""
    splits_at: Literal["titles", "files", "nothing"] = "titles"
    """What divides such a text into parts: any title, the `==> file <==` of head and tail only, or nothing."""
    holds_json: bool = False
    """Whether a JSON document inside is a part by itself."""
    by_line: bool = False
    """Whether each line stands for itself, so that the lines may be the elements of a list."""
    proven: bool = True
    """Whether a grammar, a clock or signs of its own prove the kind. If not, the generic reader gets a share, too."""
    comment: str = ""
    """How the lines begin that this reader leaves out; those that the question asks for get a share of the budget."""
    nested: bool = False
    """Whether it is read as a tree, in which every value takes memory, however short it is."""
    may_repeat: bool = False
    """Whether such a text is read as a log if it consists of copies of a few lines."""


@cache
def readers() -> Mapping[str, Reader]:
    """Return the readers of the package `readers` by their kind, in the order of their modules."""
    package = importlib.import_module("tersely.condensing.readers")
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    modules = [importlib.import_module(f"{package.__name__}.{name}") for name in names]
    return MappingProxyType({module.READER.kind: module.READER for module in modules if hasattr(module, "READER")})


@cache
def _signs() -> tuple[tuple[float, Reader, Callable[[Sample], bool]], ...]:
    found = [(confidence, reader, shows) for reader in readers().values() for confidence, shows in reader.detect.signs]
    return tuple(sorted(found, key=lambda sign: -sign[0]))


def detect(text: str, *, json: bool = True) -> Reader:
    """Return the most confident reader; with `json` off, the caller knows that the text is not JSON."""
    sample = Sample(text)
    if not sample.lines:
        return readers()["text"]
    others = () if json else ("json", "json_cut")
    return next(reader for _, reader, shows in _signs() if reader.kind not in others and shows(sample))


def reader_of(kind: str) -> Reader:
    """Return the reader of a kind; for parts of several kinds the generic one."""
    return readers().get(kind) or readers()["text"]


def kind_of(text: str) -> str:
    return detect(text).kind


@cache
def _tried(kind: str) -> tuple[Reader, ...]:
    first = tuple(reader for reader in readers().values() if kind in reader.before)
    return (*first, *((readers()[kind],) if kind != "text" else ()))


def read_as(kind: str, text: str, focus: Focus, budget: int) -> Reading:
    """Read a text of a kind, by the reader that is first not to decline; the last one is the generic reader."""
    for reader in (*_tried(kind), readers()["text"]):
        reading = reader.read(text, focus, budget)
        if reading is not None:
            return reading
    raise AssertionError("The generic reader never declines.")
