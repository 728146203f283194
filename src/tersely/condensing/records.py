"""What is normal in a column of values, and which values are not.

A column is all values under one path: a field of the records of a list, a column of a
table, an attribute of an element. `oddness` measures how much each value differs from its
siblings; `numbers_of` and `extremes` order values. Shared by the readers of trees (JSON,
YAML, XML, outlines) and of tables.

`weigh_columns` turns this and the intents of a question (superlatives, comparisons, "not
running") into scores of rows; `columns_of_lines` finds columns in lines of an unknown
format. Knows nothing of units.
"""

import heapq
import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate

from tersely.condensing.focus import Comparison, Focus, stem, subwords
from tersely.shapes.values import number_of, shape_of

MOST_MISSING = 0.3
"""Share of the records without a value above which its lack is normal."""
_EMPTY = frozenset(("", "-", "null", "None", "<none>", "N/A", "n/a"))
_DATE = re.compile(r"\d{4}[-/]\d\d[-/]\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?")
_NO_DIGITS = re.compile(r"\D+")
_NO_ASCII_DIGITS = bytes(code for code in range(128) if not chr(code).isdigit())
_HEXADECIMAL = re.compile(r"[0-9a-f]{6,16}")


_NAMELIKE = {
    **dict.fromkeys(("name",), 1.0),
    **dict.fromkeys(("alertname", "vulnerabilityid"), 0.9),
    **dict.fromkeys(("id", "title", "fullname", "ruleid"), 0.8),
    **dict.fromkeys(
        ("displayname", "login", "username", "hostname", "spanid", "operationname", "pkgname", "filename"), 0.7
    ),
    **dict.fromkeys(("key", "path", "package", "pod", "file", "symbol"), 0.6),
    **dict.fromkeys(
        (
            "host",
            "label",
            "email",
            "arn",
            "number",
            "code",
            "instance",
            "service",
            "device",
            "pid",
            "ip",
            "subject",
            "metric",
        ),
        0.5,
    ),
    **dict.fromkeys(("url", "kind", "container", "job"), 0.4),
    **dict.fromkeys(("uuid", "purl", "namespace", "city", "country", "address"), 0.3),
    **dict.fromkeys(("uid", "type", "reason"), 0.2),
}
"""How likely a key is the name of its record."""

_NAME_ENDINGS = (
    ("name", 0.5),
    ("id", 0.4),
    ("title", 0.4),
    ("number", 0.4),
    ("serial", 0.4),
    ("code", 0.35),
    ("key", 0.35),
    ("slug", 0.4),
    ("no", 0.3),
    ("ref", 0.3),
)
_NO_NAME = re.compile(
    r"\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?(?:/\d+)?|\d{4}-\d\d-\d\d.*|\d\d:\d\d.*|v?\d+\.\d+[\w.+-]*|[0-9a-f]{10,}|sha\d+:.*|.*[0-9a-f]{32,}.*|[^@\s]+@[^@\s]+|https?://.*|true|false|null"
)
_JOINED_WORDS = re.compile(r"[A-Za-z]{2}[-_ /.][A-Za-z0-9]|[A-Z]{2,4}-\d|[a-z][A-Z]")

_RANGE = re.compile(r"\d+(?:\.\d+)?\.\.(\d+(?:\.\d+)?)")


class Cells(list[str]):
    """The values of a column that several steps look at; they must not change."""

    @cached_property
    def counts(self) -> Counter[str]:
        return Counter(self)

    @cached_property
    def numbers(self) -> list[float | None] | None:
        return _numbers_of(self)


def counts_of(values: Sequence[str]) -> Counter[str]:
    """Return how often each value occurs; not to be changed."""
    return values.counts if isinstance(values, Cells) else Counter(values)


def numbers_of(values: Sequence[str]) -> list[float | None] | None:
    """Return the values as numbers if most of them are (dates as ordered numbers); None for a column of words."""
    return values.numbers if isinstance(values, Cells) else _numbers_of(values)


def _numbers_of(values: Sequence[str]) -> list[float | None] | None:
    sample = values[:: max(1, len(values) // 50)][:60]
    filled = [value for value in sample if value and value not in _EMPTY]
    if not filled:
        return None
    if _are_hexadecimal(filled):
        return [int(value, 16) if _HEXADECIMAL.fullmatch(value) else None for value in values]
    numeric = sum(1 for value in filled if number_of(value) is not None)
    if numeric >= 0.7 * len(filled):
        return [number_of(value) for value in values]
    dated = sum(1 for value in filled if _DATE.match(value))
    if dated >= 0.8 * len(filled):
        return [_date_number(value) for value in values]
    return None


def _are_hexadecimal(values: Sequence[str]) -> bool:
    """Whether values are hexadecimal numbers of one length, most of them filled up with zeros, not hashes."""
    return (
        values[0][0] in "0123456789abcdef"
        and len(set(map(len, values))) == 1
        and all(map(_HEXADECIMAL.fullmatch, values))
        and not all(map(str.isdecimal, values))
        and 2 * sum(value[0] == "0" for value in values) >= len(values)
    )


def _ends(values: Sequence[str]) -> Sequence[str]:
    """Return the values; of ranges (`time=0.031..8123.442`) their ends, by which such things are compared."""
    if not values or not _RANGE.fullmatch(values[0]):
        return values
    return [match.group(1) if (match := _RANGE.fullmatch(value)) else value for value in values]


def _date_number(value: str) -> float | None:
    match = _DATE.match(value)
    if not match:
        return None
    begin = value[:26]
    if begin.isascii():
        return float(begin.encode().translate(None, _NO_ASCII_DIGITS)[:17].ljust(17, b"0"))
    return float(_NO_DIGITS.sub("", begin)[:17].ljust(17, "0"))


def oddness(values: Sequence[str], numbers: list[float | None] | None = None) -> dict[int, float]:
    """Return position → oddness (0..1) of values that differ from their siblings; empty for columns without a norm.

    Oddness is surprise (the rarity of this value) times predictability (the agreement of the others), first of the
    values, then of their shapes, then of numbers far outside the range of the rest.
    """
    count = len(values)
    if count < 5:
        return {}
    found: dict[int, float] = {}
    counts = counts_of(values)
    if 1 < len(counts) <= 0.5 * count:
        found.update(_surprises(values, counts))
    elif len(counts) > 1 and numbers is None:
        shapes = [shape_of(value) for value in values]
        shape_counts = Counter(shapes)
        if 1 < len(shape_counts) <= 0.2 * count + 1:
            for position, odd in _surprises(shapes, shape_counts).items():
                found[position] = 0.6 * odd
    if numbers is not None:
        for position, odd in far_out(numbers).items():
            found[position] = max(found.get(position, 0.0), odd)
        non_numbers = [
            position for position, number in enumerate(numbers) if number is None and values[position] not in _EMPTY
        ]
        if 0 < len(non_numbers) <= max(1, 0.05 * count):
            for position in non_numbers:
                found[position] = max(found.get(position, 0.0), 0.9)
    return found


def _surprises(values: Sequence[str], counts: Counter[str]) -> dict[int, float]:
    total = len(values)
    scale = math.log(total)
    entropy = -sum(n / total * math.log(n / total) for n in counts.values())
    predictable = (1 - entropy / scale) ** 2
    if predictable < 0.05:
        return {}
    odd = {
        value: predictable * math.log(total / n) / scale
        for value, n in counts.items()
        if n <= 0.1 * total + 1 and n < 0.5 * total
    }
    # If half of the distinct values occur once, it is a list of names with a few repeats, not a state.
    singles = sum(1 for n in counts.values() if n == 1)
    damping = 1.0 if singles <= 3 else 3.0 / singles
    odd = {value: worth * damping for value, worth in odd.items() if worth * damping > 0.04}
    if not odd:
        return {}
    return {position: odd[value] for position, value in enumerate(values) if value in odd}


def far_out(numbers: list[float | None]) -> dict[int, float]:
    """Return position → oddness of the few numbers that are far from the others."""
    known = sorted(number for number in numbers if number is not None)
    if len(known) < 8:
        return {}
    low, middle, high = (known[len(known) * part // 4] for part in (1, 2, 3))
    spread = high - low
    if spread <= 0:
        tenth = known[len(known) * 9 // 10] - known[len(known) // 10]
        spread = tenth or abs(middle) * 0.05 or 1e-9
    limit = 5 * spread
    far = [
        (abs(number - middle), position)
        for position, number in enumerate(numbers)
        if number is not None and abs(number - middle) > limit
    ]
    # A long tail is a property of the column, not an oddity.
    if not far or len(far) > max(2, 0.02 * len(known)):
        return {}
    return {position: min(1.0, 0.45 + 0.15 * math.log(distance / limit + 1)) for distance, position in far}


def beyond(comparison: Comparison, values: Sequence[str], numbers: list[float | None], *, named: bool) -> list[int]:
    """Return the positions of the numbers beyond a limit, if the limit can apply to this column.

    "More than 5%" does not apply to dates or to any number that happens to be larger, but to values written as a
    percentage or under a name that the question uses. A limit that all values exceed distinguishes nothing.
    """
    if len(set(numbers)) < 2:
        return []
    sample = [value for value in values[:: max(1, len(values) // 20)][:25] if value not in _EMPTY]
    if any(_DATE.match(value) for value in sample):
        return []
    if not named and comparison.unit == "%" and not any(value.rstrip().endswith("%") for value in sample):
        return []
    limit = number_of(f"{comparison.amount:g}{comparison.unit}") or comparison.amount
    found = [
        position
        for position, number in enumerate(numbers)
        if number is not None and (number > limit) == comparison.above
    ]
    return found if named or len(found) < 0.5 * len(numbers) else []


def extremes(numbers: list[float | None], direction: int, most: int = 3) -> list[int]:
    """Return the positions of the highest (direction 1) or lowest (-1) numbers, best first."""
    known = [(-direction * number, position) for position, number in enumerate(numbers) if number is not None]
    return [position for _, position in heapq.nsmallest(most, known)]


_TIMES = ("durat", "latenc", "elaps", "tim", "second", "sec", "millisecond", "milli", "ms", "took", "length", "runtim")
_DATES = ("dat", "creat", "start", "since", "birth", "born", "year", "modif", "updat", "tim", "timestamp")
_SIZES = ("size", "siz", "byt", "length", "weight", "memor", "mem", "kb", "mb")
_PRICES = ("pric", "cost", "amount", "total", "fare", "far", "fee", "charg")
_MEANT: tuple[tuple[re.Pattern[str], tuple[tuple[tuple[str, ...], int], ...]], ...] = (
    (re.compile(r"\boldest\b", re.I), ((("age",), 1), (_DATES, -1))),
    (re.compile(r"\b(?:youngest|newest|latest|most recent)\b", re.I), ((("age",), -1), (_DATES, 1))),
    (re.compile(r"\b(?:slow(?:est)?|longest)\b", re.I), ((_TIMES, 1),)),
    (re.compile(r"\b(?:fastest|quickest|shortest)\b", re.I), ((_TIMES, -1),)),
    (re.compile(r"\b(?:largest|biggest|heaviest)\b", re.I), ((_SIZES, 1),)),
    (re.compile(r"\b(?:smallest|lightest)\b", re.I), ((_SIZES, -1),)),
    (re.compile(r"\b(?:most expensive|costliest|priciest|dearest|costs? (?:the )?most)\b", re.I), ((_PRICES, 1),)),
    (re.compile(r"\b(?:cheapest|least expensive)\b", re.I), ((_PRICES, -1),)),
)
"""Superlatives whose word names a measure, with the stems of labels of that measure and the direction."""

_ABSENCE = re.compile(
    r"\b(?:unknown|missing|absent|empty|unset|undefined|null|blank|unspecified|lacks?|lacking|without"
    r"|(?:has|have|had|with|is|are) no|not (?:set|given|known|recorded|specified))\b",
    re.I,
)
_MISSING = frozenset(
    ("", "-", "--", "null", "none", "<none>", "nil", "n/a", "na", "nan", "?", "unknown", "~", '""', "{}", "[]")
)


def meant_direction(question: str, label: str, values: Sequence[str] = ()) -> int:
    """Return 1 or -1 if a superlative of the question means the highest or lowest value under this label, else 0.

    "Oldest" means the highest age or the earliest date; "longest" the highest duration, and no date.
    """
    measures = _meant_by(question)
    if not measures:
        return 0
    stems = {stem(part) for part in subwords(label)} | set(subwords(label))
    is_date = next((_DATE.match(value) is not None for value in values if value not in _EMPTY), False)
    return next(
        (direction for names, direction in measures if not (stems.isdisjoint(names) or (is_date and names is _TIMES))),
        0,
    )


@lru_cache(maxsize=64)
def _meant_by(question: str) -> tuple[tuple[tuple[str, ...], int], ...]:
    return tuple(measure for word, measures in _MEANT if word.search(question) for measure in measures)


@lru_cache(maxsize=64)
def asks_for_absence(question: str) -> bool:
    """Whether the question is about values that are missing, unknown or empty."""
    return _ABSENCE.search(question) is not None


def is_missing(value: str) -> bool:
    """Whether a value stands for the lack of one."""
    return len(value) < 12 and value.strip().lower() in _MISSING


@dataclass
class Column:
    """Values under one label, and their rows."""

    label: str
    rows: Sequence[int]
    values: Sequence[str]


def weigh_columns(scores: list[float], columns: list[Column], focus: Focus, leaders: set[int] | None = None) -> None:
    """Raise the rows that the question asks for: odd values, extremes, values beyond a limit or in another state.

    `leaders` collects rows that are answers by their rank, so that `pack` does not lower them for being similar.
    """
    matches = [focus.names(column.label) if column.label else 0.0 for column in columns]
    best = max(matches, default=0.0)
    measured = {
        at: numbers for at, column in enumerate(columns) if (numbers := numbers_of(_ends(column.values))) is not None
    }
    best_measured = max((matches[at] for at in measured), default=0.0)
    meant = {
        at: direction
        for at in measured
        if (direction := meant_direction(focus.text, columns[at].label, columns[at].values))
    }
    absence = asks_for_absence(focus.text)
    odd_weight = 2.4 if focus.unusual else 1.2 if not focus else 0.9 if focus.trouble else 0.6
    oddest: dict[int, float] = {}
    found = leaders if leaders is not None else set()
    for at, column in enumerate(columns):
        match = matches[at] / best if best else 0.0
        numbers = measured.get(at)
        for position, odd in oddness(column.values, numbers).items():
            # One strange cell makes a row strange; ten make it hardly stranger.
            worth, row = odd_weight * odd * (0.6 + 0.8 * match), column.rows[position]
            before = oddest.get(row, 0.0)
            oddest[row] = max(before, worth) + 0.2 * min(before, worth)
        if numbers is not None:
            asked = matches[at] / best_measured if best_measured else None
            if not meant:
                _raise_extremes(scores, column, numbers, focus, asked, found, focus.superlative)
            elif at in meant:
                # The word itself names the measure; a number that only shares a word with the question is none.
                _raise_extremes(scores, column, numbers, focus, 1.0, found, meant[at])
            _raise_beyond_limits(scores, column, numbers, focus, asked, found)
        if focus.negated:
            _raise_other_states(scores, column, focus, match, found)
        if absence and match > 0.5:
            _raise_missing(scores, column, found)
    for row, worth in oddest.items():
        scores[row] += worth


def _raise_extremes(
    scores: list[float],
    column: Column,
    numbers: list[float | None],
    focus: Focus,
    asked: float | None,
    leaders: set[int],
    direction: int,
) -> None:
    """Raise the rows with the highest or lowest numbers; `asked` is None if the question names no numeric column."""
    different = len(set(numbers))
    if direction and different > (1 if asked else 2):
        # The answer must rank above everything that merely has the right words.
        bonus = 1.5 if asked is None else 4.0 * asked
        highest = extremes(numbers, direction, 6 if asked else 2)
        if different == 2:
            highest = [position for position in highest if numbers[position] == numbers[highest[0]]]
        for rank, position in enumerate(highest):
            scores[column.rows[position]] += bonus / (1 + 0.12 * rank)
            if asked is not None and asked > 0.3:
                leaders.add(column.rows[position])
    elif not focus:
        for direction in (1, -1):
            for position in extremes(numbers, direction, 1):
                scores[column.rows[position]] += 0.4


def _raise_beyond_limits(
    scores: list[float],
    column: Column,
    numbers: list[float | None],
    focus: Focus,
    asked: float | None,
    leaders: set[int],
) -> None:
    """Raise the rows beyond a limit of the question, in the column it names or, if it names none, in any."""
    named = asked is not None and asked > 0.3
    if not named and asked is not None:
        return
    for comparison in focus.comparisons:
        for position in beyond(comparison, column.values, numbers, named=named):
            scores[column.rows[position]] += 2.4
            leaders.add(column.rows[position])


def _raise_missing(scores: list[float], column: Column, leaders: set[int]) -> None:
    """Raise the rows without a value in a column, if most rows have one."""
    rows = [row for row, value in zip(column.rows, column.values, strict=True) if is_missing(value)]
    if 0 < len(rows) <= MOST_MISSING * len(column.values):
        for row in rows:
            scores[row] += 2.4
            leaders.add(row)


def _raise_other_states(scores: list[float], column: Column, focus: Focus, match: float, leaders: set[int]) -> None:
    """Raise the rows in another state than the one the question negates, and lower those in it."""
    states = set(column.values)
    if len(states) > 40:
        return
    normal = {value for value in states if len(value) < 60 and focus.rejects(value)}
    if not normal or sum(1 for value in column.values if value in normal) < 0.15 * len(column.values):
        return
    for row, value in zip(column.rows, column.values, strict=True):
        scores[row] += -0.3 if value in normal else 1.0 + 1.5 * match
        if value not in normal and match > 0.3:
            leaders.add(row)


LABELLED_SHARE = 0.6
"""Share of the lines that must have a label for its values to describe all lines."""

_ASSIGNED = re.compile(
    r"([A-Za-z_][\w.\-/]*)=(\"[^\"]*\"|'[^']*'|[^\s,;|\])}]+(?:(?<=\d) (?:[kKMGT]i?B|B|[mnuµ]?s)(?![\w=]))?)"
)
"""A value may have a unit behind a blank: `size=4 KiB`."""
_NAMED = re.compile(r"([A-Za-z_][\w.\-/]*(?: [\w.\-/]+){0,3}?)\s*(?:::?|[-=~]>|=|~|\.\.+)\s+([^,;|\])}>]+)")
_QUOTED_LABEL = re.compile(r"[\"']([A-Za-z_][\w .\-/]{0,60})[\"']\s*(?::|=>?)\s*(\"[^\"]*\"|'[^']*'|[^\s,;|\])}>]+)")
_OPTION = re.compile(r"(?<!\S)--?([A-Za-z][\w-]*)[ =](?!-)(\"[^\"]*\"|'[^']*'|\S+)")
_TIGHT = re.compile(r"([A-Za-z_][\w.\-]*):(?=[^\s/:])(.{1,120}?)(?=\s+[A-Za-z_][\w.\-]*:[^\s/:]|[\])}]*$)")
"""As Go prints its structures: `name:web-1 cpu:20 note:two words`."""
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_LISTED = re.compile(r"\(([A-Za-z_][\w.\-/]*)\s+(\"[^\"]*\"|[^\s()]+)\s*\)")
_LED = re.compile(r"\s*([A-Za-z_][\w.\-/]*)[ \t]+(\S+(?: \S+){0,3})\s*[;,]?$")
"""A word and its value, alone on a line."""
_STATED = re.compile(r"([\w-]+(?: [\w-]+){0,2}?) (?:is|was|are|equals) ([^\s,;]+(?: [^\s,;]+)??)(?=[,;.]?(?:\s|$))")


_BEFORE_NAME = re.compile(r"(\d(?<![\w.:/-]\d)\d*(?:[.,]\d+)*%?) ([A-Za-z]{3,})")
_SEVERAL = 3
_MEASURED = (
    (
        _TIMES,
        re.compile(
            r"(\d(?<![\w.:]\d)\d*(?:\.\d+)?)[^\S\n]?(ns|[uµ]s|ms|s|secs?|seconds?|m|mins?|minutes?|h|hours?)(?![\w/])"
        ),
        {"n": 1e-9, "u": 1e-6, "µ": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0},
    ),
    (
        _SIZES,
        re.compile(r"(\d(?<![\w.:]\d)\d*(?:\.\d+)?)[^\S\n]?([kKMGT]i?B|[Bb]ytes|B)(?![\w/])"),
        {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "B": 1.0, "b": 1.0},
    ),
)
"""Measures that a superlative may name, how their amounts are written, and what the units are worth.

The patterns begin with the digit, so that the search goes from digit to digit, and stay within a line.
"""


def columns_of_lines(texts: Sequence[str], focus: Focus | None = None) -> list[Column]:
    """Find columns in lines of an unknown pattern: by labels before the values, else by position.

    If some of the lines only have several labelled values each, these are columns, too, and so are the values below a
    header that is repeated. So are, for a question such as "which step took the longest", the amounts with a unit of
    time, whatever is around them.
    """
    count = len(texts)
    if count < 5:
        return []
    sample = [text for text in texts[:: max(1, count // 60)][:80] if _LETTER_OR_DIGIT.search(text)]
    best = _labels_of(sample, 0.8 * len(sample))
    columns = _labelled(texts, best) if best is not None else _placed(texts)
    several = [] if best is _ASSIGNED else [row for row, text in enumerate(texts) if text.count("=") >= _SEVERAL]
    if 5 <= len(several) < count:
        columns += [
            Column(column.label, [several[row] for row in column.rows], column.values)
            for column in _labelled([texts[row] for row in several], _ASSIGNED)
        ]
    columns += _below_headers(texts)
    if focus is not None and (focus.superlative or focus.comparisons):
        columns += _before_names(texts, focus)
    if focus is not None and not any(meant_direction(focus.text, column.label) for column in columns):
        columns += _amounts(texts, focus)
    return columns


def _below_headers(texts: Sequence[str]) -> list[Column]:
    """Return the columns of reports that repeat their headers, with one row or a few below each: `iostat 60`.

    A first word with a colon names the report and has no value below it.
    """
    if len(set(texts)) > len(texts) - (_SEVERAL - 1):
        return []  # No line occurs so often.
    headers = {
        text: words[1:] if words[0].endswith(":") else words
        for text, times in Counter(texts).items()
        if times >= _SEVERAL
        and len(words := text.split()) >= _SEVERAL
        and all(number_of(word) is None for word in words)
    }
    if not headers:
        return []
    columns: dict[tuple[str, int], tuple[list[int], list[str]]] = {}
    header = ""
    for row, text in enumerate(texts):
        if text in headers:
            header = text
            continue
        values = text.split() if header else []
        if len(values) != len(headers.get(header, ())) or 2 * sum(map(_is_number, values)) < len(values):
            header = ""
        for at, value in enumerate(values if header else ()):
            rows, found = columns.setdefault((header, at), ([], []))
            rows.append(row)
            found.append(value)
    return [
        Column(headers[above][at], rows, found)
        for (above, at), (rows, found) in columns.items()
        if len(rows) >= _SEVERAL
    ]


def _before_names(texts: Sequence[str], focus: Focus) -> list[Column]:
    """Return the amounts before the words of the question: `60% confidence`, `3 failures`."""
    found: dict[str, dict[int, str]] = {}
    for row, text in enumerate(texts):
        for amount, name in _BEFORE_NAME.findall(text[:400]):
            found.setdefault(name, {}).setdefault(row, amount)
    return [
        Column(name, list(values), list(values.values()))
        for name, values in found.items()
        if len(values) >= max(5, LABELLED_SHARE * len(texts)) and focus.names(name) >= 1.0
    ]


def _is_number(value: str) -> bool:
    return number_of(value) is not None


def _amounts(texts: Sequence[str], focus: Focus) -> list[Column]:
    """Return the largest amount of each line in the measure that a superlative of the question names."""
    meant = {name for names, _ in _meant_by(focus.text) for name in names}
    columns: list[Column] = []
    for names, pattern, units in _MEASURED:
        if meant.isdisjoint(names):
            continue
        largest: dict[int, float] = {}
        begins = [text[:400] for text in texts]
        ends = list(accumulate(len(begin) + 1 for begin in begins))
        row = 0
        for found in pattern.finditer("\n".join(begins)):
            if found.start() >= ends[row]:
                row = bisect_right(ends, found.start(), row)
            amount, unit = found.groups()
            size = float(amount) * (units.get(unit[:2]) or units[unit[0]])
            largest[row] = max(size, largest.get(row, size))
        if len(largest) >= _SEVERAL:
            columns.append(Column(names[0], list(largest), [f"{size:f}" for size in largest.values()]))
    return columns


def labelled_columns(texts: Sequence[str]) -> list[Column]:
    """Find the columns that most lines label; none where lines state something else each."""
    sample = texts[:: max(1, len(texts) // 40)][:60]
    best = _labels_of(sample, 1.2 * len(sample)) if len(sample) >= 8 else None
    if best is None:
        return []
    return [
        column
        for column in _labelled(texts, best)
        if len(column.values) >= LABELLED_SHARE * len(texts) and len(set(column.rows)) == len(column.rows)
    ]


def one_record_per_line(lines: Sequence[str]) -> bool:
    """Whether nearly all lines have several fields each: `name=web-1 state=up`."""
    filled = [line for line in lines if line.strip()]
    several = sum(1 for line in filled if line.count("=") > 1 and len(_ASSIGNED.findall(line[:2_000])) > 1)
    return len(filled) >= 8 and several >= 0.9 * len(filled)


def _labels_of(sample: Sequence[str], most: float) -> re.Pattern[str] | None:
    """Return how the lines label their values, if at least so many values have a label that repeats."""
    best = None
    texts = [text[:2_000] for text in sample]
    joined = "\n".join(texts)
    for pattern in (_ASSIGNED, _NAMED, _STATED, _QUOTED_LABEL, _OPTION, _LISTED, _TIGHT, _LED):
        if most > 0 and pattern in _NEEDED and len(_NEEDED[pattern].findall(joined)) < most:
            continue
        # A label that occurs once is a name; labels of columns repeat.
        labels = Counter(label for text in texts for label, _ in _pairs(pattern, text))
        again = sum(times for times in labels.values() if times >= 3)
        if again >= most:
            best, most = pattern, again + 1
    return best


_NEEDED = {
    _ASSIGNED: re.compile("="),
    _NAMED: re.compile(r"(?:[:>=~]|\.\.)\s"),
    _STATED: re.compile(" (?:is|was|are|equals) "),
    _QUOTED_LABEL: re.compile(r"[\"']\s*[:=]"),
    _OPTION: re.compile("-[A-Za-z]"),
    _LISTED: re.compile(r"\("),
    _TIGHT: re.compile(r":[^\s/:]"),
}
"""What a text must contain for each match; saves the search in most texts."""


def _pairs(pattern: re.Pattern[str], text: str) -> list[tuple[str, str]]:
    if pattern is _LED:
        return [pair.groups()] if (pair := _LED.match(text)) else []  # type: ignore[list-item]
    return pattern.findall(text) if _NEEDED[pattern].search(text) else []


def _labelled(texts: Sequence[str], pattern: re.Pattern[str]) -> list[Column]:
    found: dict[str, tuple[list[int], list[str]]] = {}
    for row, text in enumerate(texts):
        for label, value in _pairs(pattern, text[:4_000]):
            label = " ".join(
                word
                for word in label.split()
                if word.lower() not in ("the", "its", "a", "an", "and", "with", "his", "her", "has")
            )
            rows, values = found.setdefault(label, ([], []))
            rows.append(row)
            values.append(value.strip().strip("\"'").rstrip("."))
        if len(found) > 2_000:
            break
    return [Column(label, rows, values) for label, (rows, values) in found.items() if len(values) >= 5]


def _placed(texts: Sequence[str]) -> list[Column]:
    """Collect the words at the same position of lines with equally many words; a constant word labels the next one."""
    words_of = [text.split() for text in texts]
    lengths = Counter(map(len, words_of))
    columns: list[Column] = []
    for length, times in lengths.most_common(3):
        if length < 3 or length > 60 or times < 8 or times < 0.15 * len(texts):
            continue
        rows = [
            row for row, words in enumerate(words_of) if len(words) == length and texts[row].count(" ") >= length - 1
        ]
        label = ""
        for place in range(length):
            values = [words_of[row][place].strip(",;()[]<>{}\"'") for row in rows]
            if len(set(values)) == 1:
                label = values[0]
                continue
            columns.append(Column(label, rows, values))
    return columns


_NO_LETTER = re.compile(r"[^a-z]")


@lru_cache(maxsize=4_096)
def sounds_like_a_name(key: str) -> float:
    name = _NO_LETTER.sub("", key.lower())
    return _NAMELIKE.get(name, 0.0) or next((worth for ending, worth in _NAME_ENDINGS if name.endswith(ending)), 0.0)


def looks_like_a_name(values: list[str]) -> float:
    """Score by form: words joined by signs are likely names; addresses, times, versions and hashes are not."""
    many = len(values)
    if sum(1 for value in values if _NO_NAME.fullmatch(value)) > 0.6 * many:
        return -0.5
    if numbers_of(values) is not None:
        return -0.15 if sum(1 for value in values if value.isdigit() and len(value) > 3) > 0.8 * many else -0.5
    return 0.2 if sum(1 for value in values if _JOINED_WORDS.search(value) and len(value) < 60) > 0.6 * many else 0.0
