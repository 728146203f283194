"""JSON lines: one record a line, logs or not, read as lines of `LEVEL message key=value …`.

Fields that are the same everywhere are said once in the head; where nearly all records
agree, only the others say theirs. Records that differ in numbers and identifiers are one
unit with a count. What tells records apart (identifiers, names) is left out only of a
record that stands for many: one that is odd, extreme or asked for is shown with it.
A record longer than the room is shown by the fields that matter to the question.

Choosing is `logs`' work; this module says what a record reads like.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tersely.condensing.focus import Focus, scan
from tersely.condensing.logs import Lines, reading_of
from tersely.condensing.preamble import Parts, level_weight
from tersely.condensing.series import Series, series_in
from tersely.condensing.templates import VALUE
from tersely.condensing.units import Reading

_TIME_KEYS = ("@timestamp", "timestamp", "time", "ts", "datetime", "date", "eventtime", "creationtime", "t")
_LEVEL_KEYS = ("level", "severity", "loglevel", "log.level", "lvl", "levelname", "level_name", "log_level")
_MESSAGE_KEYS = ("message", "msg", "log", "text", "event.original", "body", "short_message")
_NUMBER_LEVELS = {10: "TRACE", 20: "DEBUG", 30: "INFO", 40: "WARN", 50: "ERROR", 60: "FATAL"}

_USUAL = 0.8
"""A field where this share of the records agrees is said once; the records that differ show theirs."""
_MOST_VALUES = 1_000
"""Different values counted for a field; one with more tells records apart."""
_SHARE_OF_RECORDS = 0.6

_Leaf = tuple[str, str]


def read(text: str, focus: Focus, budget: int) -> Reading | None:
    """The records as units; None where the lines are not mostly JSON objects."""
    records = _JsonLines.parse(text, focus)
    return None if records is None else reading_of(records, focus, budget)


class _JsonLines(Lines):
    kind = "json_lines"

    def __init__(self, leaves: list[list[_Leaf]], numbers: list[int], total: int, focus: Focus) -> None:
        self.leaves = leaves
        self.numbers = numbers
        self.total = total
        self.focus = focus
        self.columns = _columns(leaves)
        count = len(leaves)
        self.time = _role(_TIME_KEYS, self.columns, count)
        self.level = _role(_LEVEL_KEYS, self.columns, count)
        self.message = _role(_MESSAGE_KEYS, self.columns, count)
        self.usual = {
            path: values.most_common(1)[0][0]
            for path, values in self.columns.items()
            if count > 2 and path != self.message and values.most_common(1)[0][1] >= _USUAL * count
        }
        self.telling = {
            path
            for path, values in self.columns.items()
            if path != self.message and values.total() > 3 and len(values) > 0.5 * values.total()
        }
        """Fields that tell records apart."""
        self.lines = [self._rendered(each, full=True) for each in leaves]
        self.short = self.lines if self.message is None else [self._rendered(each, full=False) for each in leaves]
        self.keys = [VALUE.sub("#", line) for line in self.short]

    @staticmethod
    def parse(text: str, focus: Focus) -> "_JsonLines | None":
        leaves: list[list[_Leaf]] = []
        numbers: list[int] = []
        lines = text.split("\n")
        records = 0
        decode = json.loads
        for number, line in enumerate(lines, 1):
            stripped = line.strip()
            if not stripped:
                continue
            numbers.append(number)
            if stripped[0] == "{":
                try:
                    record = decode(stripped)
                except (ValueError, RecursionError):
                    record = None
                if isinstance(record, dict):
                    leaves.append(list(_leaves(record)))
                    records += 1
                    continue
            leaves.append([("", stripped)])
            if number == 200 and records < 100:
                return None
        if records < 2 or records < _SHARE_OF_RECORDS * len(leaves):
            return None
        return _JsonLines(leaves, numbers, len(lines) - (not lines[-1]), focus)

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
        text = self._rendered([leaf for leaf in self.leaves[at] if leaf[0] != self.time], full=True)
        return text if len(text) <= 600 else self._fitted(at, 600)

    def asked(self, at: int, room: int) -> str:
        return self._fitted(at, room)

    def measured(self, at: int, like: int) -> list[str]:
        # Numbers in fields of their own are compared over all records, in `series`.
        return next((value.split() for path, value in self.leaves[at] if path == self.message), [])

    def odd(self) -> Iterable[tuple[int, float]]:
        """Records with a value that is rare in a field which has few different ones."""
        count = len(self.leaves)
        rare: dict[_Leaf, float] = {}
        for path, values in self.columns.items():
            total = values.total()
            if path in (self.time, self.message) or total < 8 or not 1 < len(values) <= max(3, min(24, total // 4)):
                continue
            named = 0.5 if scan([path, path], self.focus).relevance[0] > 0 else 0.0
            for value, times in values.items():
                if times <= max(1, total // 50):
                    rare[path, value] = 0.5 + named + 0.3 * (1 - len(values) / total)
        if not rare:
            return
        said: Counter[_Leaf] = Counter()
        for at in range(count):
            for leaf in self.leaves[at]:
                if leaf in rare and said[leaf] < 2:
                    said[leaf] += 1
                    yield at, rare[leaf]

    def series(self) -> Iterator[Series]:
        """The fields that are numbers, over all records."""
        for path, values in self.columns.items():
            if path in (self.time, self.message) or len(values) < 2 or values.total() < 4:
                continue
            if not any(map(str.isdigit, next(iter(values))[-24:])):
                continue
            members: list[int] = []
            column: list[str] = []
            for at, leaves in enumerate(self.leaves):
                for name, value in leaves:
                    if name == path:
                        members.append(at)
                        column.append(f"{path}={value}")
                        break
            yield from series_in(members, [tuple(column)])

    def shared(self) -> list[str]:
        count = len(self.leaves)
        said: list[str] = []
        for path, value in self.usual.items():
            times = self.columns[path][value]
            shown = _pair(path, value if len(value) <= 80 else value[:77] + "…")
            said.append(shown if times == count else f"{shown} in {times}")
        return ["all: " + ", ".join(said)] if said else []

    def _rendered(self, leaves: Sequence[_Leaf], full: bool) -> str:
        level = message = ""
        rest: list[str] = []
        for path, value in leaves:
            if path == self.level:
                level = "" if self.usual.get(path) == value else _level_name(value)
            elif path == self.message:
                message = value
            elif self.usual.get(path) == value:
                continue
            elif full or (path != self.time and path not in self.telling):
                rest.append(_pair(path, value))
        return " ".join(part for part in (level, message, *rest) if part)

    def _fitted(self, at: int, room: int) -> str:
        """The record within `room` characters: fields that the focus names or that tell it apart first, in their order."""
        whole = self.lines[at]
        leaves = [leaf for leaf in self.leaves[at] if leaf[1] and leaf[1] != "null"]
        texts = [_pair(path, value) for path, value in leaves]
        found = scan(texts, self.focus)
        asked = [relevance > 0 and self.usual.get(leaf[0]) == leaf[1] for relevance, leaf in zip(found.relevance, leaves, strict=True)]
        if len(whole) <= room and not any(asked):
            return whole
        worth = []
        for leaf, relevance, severity in zip(leaves, found.relevance, found.severity, strict=True):
            path, value = leaf
            usual = self.usual.get(path) == value
            special = path in (self.level, self.message)
            score = 3 * relevance + 0.4 * severity + 0.6 * special + 0.4 * (path in self.telling) - 0.8 * usual
            score += 0.5 * (self.columns[path][value] <= 2 and path not in self.telling)
            worth.append(score)
        left = room
        chosen: set[int] = set()
        for index in sorted(range(len(leaves)), key=lambda index: (-worth[index] / (1 + 0.004 * len(texts[index])), index)):
            if worth[index] < -0.5 and chosen:
                break
            cost = len(texts[index]) + 1
            if cost <= left:
                chosen.add(index)
                left -= cost
            elif worth[index] > 1 and left > 80:
                texts[index] = texts[index][: left - 2] + "…"
                chosen.add(index)
                left = 0
        out: list[str] = []
        hidden = False
        for index, text in enumerate(texts):
            if index in chosen:
                out.append(text)
                hidden = False
            elif not hidden and self.usual.get(leaves[index][0]) != leaves[index][1]:
                out.append("…")
                hidden = True
        return " ".join(out)


def _leaves(record: dict[str, Any], limit: int = 400) -> Iterator[_Leaf]:
    """Path and text of every scalar, without recursion: depth costs nothing."""
    pending: list[tuple[str, Any]] = [(str(key), value) for key, value in reversed(record.items())]
    given = 0
    while pending and given < limit:
        path, value = pending.pop()
        if isinstance(value, str):
            yield path, value
        elif isinstance(value, dict) and value:
            pending += [(f"{path}.{key}", inner) for key, inner in reversed(value.items())]
            continue
        elif isinstance(value, list) and value:
            if all(isinstance(inner, (str, int, float)) for inner in value) and len(value) <= 20:
                yield path, ", ".join(map(str, value))
            else:
                pending += [(f"{path}.{index}", inner) for index, inner in reversed(list(enumerate(value[:100])))]
                continue
        else:
            yield path, json.dumps(value)
        given += 1


def _columns(records: Sequence[Sequence[_Leaf]]) -> dict[str, Counter[str]]:
    """How often each field has which value."""
    columns: dict[str, Counter[str]] = {}
    for record in records:
        for path, value in record:
            counts = columns.get(path)
            if counts is None:
                counts = columns[path] = Counter()
            if value in counts or len(counts) < _MOST_VALUES:
                counts[value] += 1
            else:
                counts[""] += 1
    return columns


def _role(names: Sequence[str], columns: dict[str, Counter[str]], count: int) -> str | None:
    """The field that has a part of its own (time, level, message), if at least half of the records have it."""
    for name in names:
        for path in columns:
            low = path.lower()
            if (low == name or low.endswith("." + name)) and columns[path].total() >= 0.5 * count:
                return path
    return None


def _pair(path: str, value: str) -> str:
    if not path:
        return value
    return f'{path}="{value}"' if " " in value else f"{path}={value}"


def _level_name(value: str) -> str:
    return _NUMBER_LEVELS.get(int(value), value) if value.isdigit() and len(value) < 4 else value
