"""JSON lines: one record per line, log or not, shown as lines of `LEVEL message key=value …`.

Fields with the same value everywhere are written once in the head; where nearly all
records agree, only the others show the field. Records that differ in numbers and
identifiers are one unit with a count. Distinguishing fields (identifiers, names) are
omitted only from a record that represents many; an odd, extreme or requested record is
shown with them. A record that is too long is shown by the fields that matter to the question.

Formats records only; `logs` chooses among them.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tersely.condensing.detect import LONGEST_SAMPLED, Reader, Sample, Signs
from tersely.condensing.field_counts import FEWEST, FieldValues, match_of, named_values
from tersely.condensing.focus import Focus, scan
from tersely.condensing.readers import json_documents, wrapped
from tersely.condensing.readers.logs import Lines, reading_of
from tersely.condensing.readers.preamble import Parts, level_weight
from tersely.condensing.readers.series import Series, series_in
from tersely.condensing.records import numbers_of
from tersely.condensing.segments import read_any
from tersely.condensing.templates import without_values
from tersely.condensing.units import Reading
from tersely.shapes import json_tree
from tersely.shapes.json_values import LEAST_RECORDS, json_lines

_TIME_KEYS = ("@timestamp", "timestamp", "time", "ts", "datetime", "date", "eventtime", "creationtime", "t")
_LEVEL_KEYS = ("level", "severity", "loglevel", "log.level", "lvl", "levelname", "level_name", "log_level")
_MESSAGE_KEYS = ("message", "msg", "log", "text", "event.original", "body", "short_message")
_NUMBER_LEVELS = {10: "TRACE", 20: "DEBUG", 30: "INFO", 40: "WARN", 50: "ERROR", 60: "FATAL"}

_USUAL = 0.8
"""A field with the same value in this share of the records is written once; the other records show their values."""
_MOST_KNOWN = 50_000
_MOST_SHAPES = 2_000
"""Further records with other sets of fields are read as text."""

_ANSWER = 170
"""Length in characters of a record that answers a question about one of its fields."""
_ANY_RECORD = 500
"""Length in characters of any other record."""
_PRONOUNCEABLE = re.compile(r"[g-zG-Z]|[A-Z]{2}")
_NAMES = re.compile(
    r"(?:^|[._-])(?:id|uid|uuid|guid|name|key|code|number|title|label|slug|\w{1,12}(?:Id|ID|Name|Key|Code|_id|_name|_key|_code))$",
    re.I,
)

_LARGEST_GROUP = 12
"""Records about one thing, on average."""

_PREFIX_TIME = re.compile(
    r"(?<!\S)(?:\d{4}-\d\d-\d\d[T ]|[A-Z][a-z]{2} [ \d]\d )?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?(?!\S)"
)
_PREFIX_NUMBER = re.compile(r"(?<=\w)\[\d+\](?=:)")
"""A process id, which carries no information for the reader."""

_Leaf = tuple[str, str]
_CONSTANTS = {True: "true", False: "false", None: "null"}


def read(text: str, focus: Focus, budget: int) -> Reading | None:
    """Return the records as units, or None if the lines are not mostly JSON objects."""
    parsed = _parsed(text)
    return None if parsed is None else reading_of(_JsonLines(parsed, focus), focus, budget)


@dataclass(frozen=True)
class Roles:
    """The fields that contain the time, the level and the message."""

    time: str | None
    level: str | None
    message: str | None


def read_records(records: Iterable[tuple[int, dict[str, str]]], roles: Roles, focus: Focus, budget: int) -> Reading:
    """Read events of another format, each with the source line on which it begins."""
    gathered = _Gathered()
    for number, leaves in records:
        gathered.add(number, leaves)
    return reading_of(_JsonLines(gathered.records(len(gathered.numbers)), focus, roles), focus, budget)


@dataclass(slots=True)
class _Shape:
    """Records with the same fields in the same order, stored by column so that work is done once per column."""

    paths: tuple[str, ...]
    members: list[int]
    columns: list[tuple[str, ...]]


@dataclass(slots=True)
class _Records:
    """All records, grouped by shape."""

    shapes: list[_Shape]
    places: list[tuple[int, int]]
    """For each record its shape and its row there."""
    numbers: list[int]
    """For each record its line in the source, counted from 1."""
    lines: int
    """Number of lines in the source."""

    def __getitem__(self, at: int) -> list[_Leaf]:
        number, row = self.places[at]
        if number < 0:
            return []
        shape = self.shapes[number]
        return [(path, column[row]) for path, column in zip(shape.paths, shape.columns, strict=True)]


class _JsonLines(Lines):
    kind = "json_lines"

    def __init__(self, records: _Records, focus: Focus, roles: Roles | None = None) -> None:
        if roles:
            self.kind, self.noun = "log", "entries"
        self.leaves = records
        self.numbers = records.numbers
        self.total = records.lines
        self.focus = focus
        self.shapes = records.shapes
        self.values = _values(self.shapes)
        """For each field the counts of its values."""
        self.records = count = len(self.numbers)
        self.time = roles.time if roles else _role(_TIME_KEYS, self.values, count)
        self.level = roles.level if roles else _role(_LEVEL_KEYS, self.values, count)
        self.message = roles.message if roles else _role(_MESSAGE_KEYS, self.values, count)
        self.ends: dict[tuple[int, str], float] = {}
        """(record, field) pairs with an extreme or odd value, and their score."""
        self.usual: dict[str, str] = {}
        self.distinguishing: set[str] = set()
        """Fields that distinguish records."""
        for path, values in self.values.items():
            value, times = values.most_common(1)[0]
            if path != self.message and count > 2:
                if times >= _USUAL * count:
                    self.usual[path] = value
                elif values.total() > 3 and len(values) > 0.5 * values.total():
                    self.distinguishing.add(path)
        self.identity = sorted(self.distinguishing, key=self._naming, reverse=True)[:2]
        """The fields that name a record best."""
        self.lines = self._rendered(full=True)
        self.text = "\n".join([line.replace("\n", " ") for line in self.lines])
        self.short = self.lines if self.message is None else self._rendered(full=False)
        self.hides = self.short is not self.lines
        joined = "\0".join(self.short)
        self.keys = without_values(joined).split("\0")
        if len(self.keys) != len(self.short):  # A value contains a NUL.
            self.keys = [without_values(line) for line in self.short]

    def _naming(self, path: str) -> tuple[float, str]:
        values = self.values[path]
        some = list(values)[:50]
        length = sum(map(len, some)) / len(some)
        # A name can be pronounced: hashes, mail addresses, times and numbers distinguish records but do not name them.
        pronounceable = sum(
            1 for value in some if _PRONOUNCEABLE.search(value) and "@" not in value and " " not in value[:3]
        ) / len(some)
        return len(values) / values.total() + 0.6 * bool(_NAMES.search(path)) + 0.5 * pronounceable - 0.1 * path.count(
            "."
        ) - length / 200, path

    def number(self, at: int) -> int:
        return self.numbers[at]

    def parts(self, at: int) -> Parts:
        time = level = ""
        for path, value in self.leaves[at]:
            if path == self.time:
                time = value
            elif path == self.level:
                level = _level_name(value)
        return Parts(self.short[at], time, level, level_weight(level))

    def single(self, at: int) -> str:
        text = self._without_time(at)
        return text if len(text) <= _ANSWER else self._fitted(at, _ANY_RECORD)

    def asked(self, at: int, room: int) -> str:
        return self._fitted(at, room)

    def width(self, at: int) -> int:
        # Only the message: numbers in separate fields are compared over all records, in `series`.
        return len(self._message(at))

    def measured(self, at: int, width: int) -> list[str]:
        return self._message(at)

    def _message(self, at: int) -> list[str]:
        return next((value.split() for path, value in self.leaves[at] if path == self.message), [])

    def odd(self) -> Iterable[tuple[int, float]]:
        """Yield records with a rare value in a field that has few different values."""
        rare: dict[_Leaf, float] = {}
        for path, values in self.values.items():
            total = values.total()
            if path in (self.time, self.message) or total < 8 or not 1 < len(values) <= max(3, min(24, total // 4)):
                continue
            named = 0.5 if scan([path, path], self.focus).relevance[0] > 0 else 0.0
            for value, times in values.items():
                if times <= max(1, total // 50):
                    rare[path, value] = 0.5 + named + 0.3 * (1 - len(values) / total)
        if not rare:
            return
        yielded: Counter[_Leaf] = Counter()
        for at in range(len(self.numbers)):
            for leaf in self.leaves[at]:
                if leaf in rare and yielded[leaf] < 2:
                    yielded[leaf] += 1
                    self.ends[at, leaf[0]] = 2.0
                    yield at, rare[leaf]

    @cached_property
    def _groups(self) -> tuple[str, dict[str, list[int]]]:
        """The field that says which thing a record is about, if several records are about each, and their records."""
        best: tuple[int, str] | None = None
        for path, values in self.values.items():
            total = values.total()
            if path in (self.time, self.level, self.message, "") or len(values) ** 2 < 4 * len(self.numbers):
                continue  # So few values say of which sort a record is, or where.
            if 2 * len(values) <= total <= _LARGEST_GROUP * len(values) and numbers_of(list(values)[:60]) is None:
                best = max(best or (0, ""), (total, path))
        groups: dict[str, list[int]] = {}
        if best is None:
            return "", groups
        for shape in self.shapes:
            if best[1] in shape.paths:
                for at, value in zip(shape.members, shape.columns[shape.paths.index(best[1])], strict=True):
                    groups.setdefault(value, []).append(at)
        return best[1], groups

    def companions(self, at: int) -> Sequence[int]:
        path, groups = self._groups
        value = next((value for name, value in self.leaves[at] if name == path), None)
        members = sorted(groups.get(value, ())) if value else []
        return [each for each in members if each != at] if len(members) <= 2 * _LARGEST_GROUP else []

    def series(self) -> Iterator[Series]:
        """Yield the numeric fields over all records."""
        for path, values in self.values.items():
            if path in (self.time, self.message) or len(values) < 2 or values.total() < 4:
                continue
            if not any(map(str.isdigit, next(iter(values))[-24:])):
                continue
            members: list[int] = []
            column: list[str] = []
            for shape in self.shapes:
                if path in shape.paths:
                    members += shape.members
                    column += shape.columns[shape.paths.index(path)]
            if len(self.shapes) > 1:
                order = sorted(range(len(members)), key=members.__getitem__)
                members, column = [members[at] for at in order], [column[at] for at in order]
            column[0] = f"{path}={column[0]}"  # The field name is the context of its numbers.
            for series in series_in(members, [tuple(column)], named=True):
                above, below = series.leaps()
                self.ends[series.members[series.highest()], path] = 1.5 if above else 0.4
                self.ends[series.members[series.lowest()], path] = 1.5 if below else 0.4
                yield series

    def usual_values(self) -> dict[str, int]:
        return {
            _pair(path, value if len(value) <= 80 else value[:77] + "…"): self.values[path][value]
            for path, value in self.usual.items()
        }

    def fields(self, focus: Focus) -> dict[str, FieldValues]:
        count = len(self.numbers)
        if count < FEWEST:
            return {}
        return {
            path: FieldValues(
                path.rpartition(".")[2],
                list(values.elements()),
                count - values.total(),
                match_of(path.rpartition(".")[2], focus),
                named_values(values, focus),
            )
            for path, values in self.values.items()
            if path not in (self.time, self.message, "")
        }

    def _rendered(self, full: bool) -> list[str]:
        """Render every record as a line, in full or without its time and its distinguishing fields."""
        lines = [""] * len(self.numbers)
        for shape in self.shapes:
            level: Sequence[str] = ()
            message: Sequence[str] = ()
            rest: list[list[str]] = []
            for path, column in zip(shape.paths, shape.columns, strict=True):
                usual = self.usual.get(path)
                if path == self.level:
                    level = ["" if value == usual else _level_name(value) for value in column]
                elif path == self.message:
                    message = column
                elif full or (path != self.time and path not in self.distinguishing):
                    rest.append(["" if value == usual else _pair(path, value) for value in column])
            parts = [column for column in (level, message, *rest) if column]
            for at, row in zip(shape.members, zip(*parts, strict=True), strict=bool(parts)):
                lines[at] = " ".join([part for part in row if part])
        return lines

    def _without_time(self, at: int) -> str:
        leaves = self.leaves[at]
        level = next(
            (_level_name(value) for path, value in leaves if path == self.level and self.usual.get(path) != value), ""
        )
        message = next((value for path, value in leaves if path == self.message), "")
        taken = (self.time, self.level, self.message)
        rest = [_pair(path, value) for path, value in leaves if path not in taken and self.usual.get(path) != value]
        return " ".join(part for part in (level, message, *rest) if part)

    def _is_usual(self, leaf: _Leaf) -> bool:
        return self.usual.get(leaf[0]) == leaf[1]

    def _fitted(self, at: int, room: int) -> str:
        """Render a record in at most `room` characters; relevant and distinguishing fields first, in source order."""
        whole = self.lines[at]
        leaves = self.leaves[at]
        texts = [_pair(path, value) for path, value in leaves]
        found = scan(texts, self.focus)
        heaviest = max((self.focus.terms[index].weight for index in found.frequency), default=0.0)
        relevances = [
            relevance * min(1.0, heaviest / 0.6) for relevance in found.relevance
        ]  # Words that only phrase the question weigh little.
        # A question about a field is answered by the field next to the record's name; more fields would separate the
        # two.
        striking = max((self.ends.get((at, path), 0.0) for path, _ in leaves), default=0.0)
        if sum(1 for relevance in relevances if relevance > 0.2) + striking > 1:
            room = min(room, _ANSWER)
        if len(whole) <= room and not any(
            relevance > 0.2 and self._is_usual(leaf) for relevance, leaf in zip(relevances, leaves, strict=True)
        ):
            return whole
        scores = []
        for leaf, relevance, severity in zip(leaves, relevances, found.severity, strict=True):
            path, value = leaf
            score = 3 * relevance + 0.4 * severity - 0.8 * self._is_usual(leaf) + self.ends.get((at, path), 0.0)
            if path in self.identity:
                score += 2.0 if path == self.identity[0] else 1.0
            elif path in (self.level, self.message):
                score += 0.6
            elif path in self.distinguishing:
                score += 0.4
            elif self.values.get(path, Counter())[value] <= 2:
                score += 0.8
            scores.append(score)
        left = room
        chosen: set[int] = set()
        for index in sorted(
            range(len(leaves)), key=lambda index: (-scores[index] / (1 + 0.004 * len(texts[index])), index)
        ):
            if scores[index] < -0.5 and chosen:
                break
            cost = len(texts[index]) + 1
            if cost <= left:
                chosen.add(index)
                left -= cost
            elif scores[index] > 1 and left > 80:
                texts[index] = texts[index][: left - 2] + "…"
                chosen.add(index)
                left = 0
        out: list[str] = []
        hidden = False
        for index, text in enumerate(texts):
            if index in chosen:
                out.append(text)
                hidden = False
            elif not hidden and not self._is_usual(leaves[index]):
                out.append("…")
                hidden = True
        return " ".join(out)


class _Gathered:
    """Collects records by shape; repeated values are stored once."""

    def __init__(self) -> None:
        self.shapes: dict[tuple[str, ...], tuple[int, list[int], list[tuple[str, ...]]]] = {}
        self.places: list[tuple[int, int]] = []
        self.numbers: list[int] = []
        self.known: dict[str, str] = {}

    def add(self, number: int, leaves: dict[str, str]) -> None:
        self.numbers.append(number)
        if not leaves:
            self.places.append((-1, 0))
            return
        paths = tuple(leaves)
        if len(self.shapes) >= _MOST_SHAPES and paths not in self.shapes:
            leaves, paths = {"": " ".join(map(_pair, paths, leaves.values()))}, ("",)
        known = self.known
        values = tuple(
            [
                known.setdefault(value, value) if len(known) < _MOST_KNOWN else known.get(value, value)
                for value in leaves.values()
            ]
        )
        shape, members, rows = self.shapes.setdefault(paths, (len(self.shapes), [], []))
        self.places.append((shape, len(rows)))
        members.append(len(self.places) - 1)
        rows.append(values)

    def records(self, lines: int) -> _Records:
        shapes = [
            _Shape(paths, members, list(zip(*rows, strict=True))) for paths, (_, members, rows) in self.shapes.items()
        ]
        return _Records(shapes, self.places, self.numbers, lines)


def _parsed(text: str) -> _Records | None:
    """Parse the lines into records; None if they are not mostly objects."""
    gathered = _Gathered()
    records = 0
    # Numbers keep their spelling.
    decode = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str).decode
    for number, line, prefix, record in json_lines(text, decode):
        if isinstance(record, dict):
            records += 1
            leaves = _behind(prefix, _leaves(record)) if prefix else _leaves(record)
        else:
            leaves = {"": line}
            if number == 200 and records < 100:
                return None
        gathered.add(number, leaves)
    if records < 2 or records < LEAST_RECORDS * len(gathered.numbers):
        return None
    return gathered.records(text.count("\n") + (not text.endswith("\n")))


def _behind(prefix: str, leaves: dict[str, str]) -> dict[str, str]:
    """Add the prefix of its line to a record: the source, and the time unless the record has one."""
    found: dict[str, str] = {}
    if time := _PREFIX_TIME.search(prefix):
        if not any(path.lower() in _TIME_KEYS for path in leaves):
            found["t"] = time.group().strip()
        prefix = prefix[: time.start()] + prefix[time.end() :]
    if source := " ".join(_PREFIX_NUMBER.sub("", prefix).split()):
        found[""] = source
    return found | leaves


def _leaves(record: dict[str, Any], limit: int = 400) -> dict[str, str]:
    """Return path and text of every scalar, without recursion, so that depth costs nothing."""
    if all(type(value) is str for value in record.values()):
        return record
    found: dict[str, str] = {}
    pending: list[tuple[str, Any]] = list(reversed(record.items()))
    while pending and len(found) < limit:
        path, value = pending.pop()
        if type(value) is str:
            found[path] = value
        elif isinstance(value, dict) and value:
            pending += [(f"{path}.{key}", inner) for key, inner in reversed(value.items())]
        elif isinstance(value, list) and value:
            if len(value) <= 20 and all(type(inner) is str for inner in value):
                found[path] = ", ".join(value)
            else:
                pending += [(f"{path}.{index}", inner) for index, inner in reversed(list(enumerate(value[:100])))]
        else:
            found[path] = str(value) if isinstance(value, (dict, list)) else _CONSTANTS[value]
    return found


def _values(shapes: Sequence[_Shape]) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for shape in shapes:
        for path, column in zip(shape.paths, shape.columns, strict=True):
            found.setdefault(path, Counter()).update(column)
    return found


def _role(names: Sequence[str], columns: dict[str, Counter[str]], count: int) -> str | None:
    """Return the field with this role (time, level, message), if at least half of the records have it."""
    for name in names:
        for path in columns:
            low = path.lower()
            if (low == name or low.endswith("." + name)) and columns[path].total() >= 0.5 * count:
                return path
    return None


def _pair(path: str, value: str) -> str:
    if not path:
        return value
    if value[-1:] == "\n":
        value = value.rstrip()
    return f'{path}="{value}"' if " " in value or not value else f"{path}={value}"


def _level_name(value: str) -> str:
    return _NUMBER_LEVELS.get(int(value), value) if value.isdigit() and len(value) < 4 else value


_OBJECT_BEHIND = re.compile(r"[^{}\"']{1,160}\s\{\"[^\"]{1,120}\"\s*:(?:.*\}\s*$|.{1500})")
"""A source, then an object, as when the logs of several sources are shown together."""


def _are_objects(sample: Sample) -> bool:
    whole = sum(
        1
        for line in sample.lines
        if line.lstrip()[:1] == "{" and (len(line) == LONGEST_SAMPLED or line.rstrip()[-1:] == "}")
    )
    objects = whole / sample.many
    if sample.many < 2 or objects >= 0.7:
        return sample.many >= 2
    return objects < 0.3 and '{"' in sample.joined and sample.share(_OBJECT_BEHIND) >= 0.7


def _read_few(text: str, focus: Focus, budget: int) -> Reading | None:
    """Read JSON lines that are few and long: not a log, but possibly envelopes."""
    lines = text.count("\n") + 1
    if lines > wrapped.MOST or len(text) < wrapped.SMALLEST * lines:
        return None
    return wrapped.read(json_tree.parse(text)[0], len(text), "json", focus, budget, read_any)


def _read_lines(text: str, focus: Focus, budget: int) -> Reading | None:
    return (
        _read_few(text, focus, budget)
        or read(text, focus, budget)
        or json_documents.read_values(json_tree.parse(text)[0], focus, budget)
    )


READER = Reader("jsonl", Signs((0.98, _are_objects)), _read_lines, by_line=True)
