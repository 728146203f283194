"""JSON as values, with positions: consecutive documents, one record per line, the lines of each object.

For those who need numbers and strings as such. A text that breaks off, or is not quite JSON, is read by `json_tree`.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tersely.shapes.json_parts import NEXT_BRACKET

LONGEST_PREFIX = 200
"""Characters before the record of a line, as when the logs of several sources are shown together."""
LEAST_RECORDS = 0.6
"""Share of the lines that are records, in JSON lines."""

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder(parse_constant=lambda _: None)
"""NaN and Infinity, which are not JSON but occur, become null."""


def documents(text: str) -> list[Any]:
    """Return the consecutive documents of a text; nothing if it has anything else."""
    found: list[Any] = []
    at = skip_space(text, 0)
    while at < len(text):
        if text[at] not in "{[":
            return []
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            return []
        found.append(value)
        at = skip_space(text, at)
    return found


def json_lines(text: str, decode: Callable[[str], Any] = _DECODER.decode) -> Iterator[tuple[int, str, str, Any]]:
    """Yield number, text, prefix and record of each line that is not blank; None for the record if there is none."""
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if not stripped:
            continue
        begin = 0 if stripped[0] == "{" else stripped.find('{"', 0, LONGEST_PREFIX)
        record = None
        if begin >= 0:
            try:
                record = decode(stripped[begin:])
            except (ValueError, RecursionError):
                record = None
        yield number, stripped, stripped[:begin] if record is not None else "", record


def entries(text: str, at: int, decoder: json.JSONDecoder) -> Iterator[tuple[str, Any, int, int]]:
    """Yield key and value of the object that begins at `at`, and where the value begins and ends.

    Raises:
        ValueError: A key occurs twice or has no value.
    """
    seen: set[str] = set()
    at = skip_space(text, at + 1)
    while text[at : at + 1] == '"':
        key, at = decoder.raw_decode(text, at)
        if key in seen:
            raise ValueError("a key occurs twice")
        seen.add(key)
        at = skip_space(text, at)
        if text[at : at + 1] != ":":
            raise ValueError("a key without a value")
        start = skip_space(text, at + 1)
        value, end = decoder.raw_decode(text, start)
        yield key, value, start, end
        at = skip_space(text, end)
        if text[at : at + 1] != ",":
            return
        at = skip_space(text, at + 1)


def elements(text: str, at: int, decoder: json.JSONDecoder) -> Iterator[tuple[Any, int, int]]:
    """Yield the values of the array that begins at `at`, and where each begins and ends."""
    at = skip_space(text, at + 1)
    while text[at : at + 1] not in ("]", ""):
        value, end = decoder.raw_decode(text, at)
        yield value, at, end
        at = skip_space(text, end)
        if text[at : at + 1] != ",":
            return
        at = skip_space(text, at + 1)


def skip_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()


class ObjectLines:
    """First and last line of each object in the documents of a text, which must be kept alive.

    Objects in a text open in the order in which a walk over the values meets them. If a key occurs twice, some have
    no value, and the lines of each object are those of the whole text.
    """

    def __init__(self, text: str, values: Iterable[Any]) -> None:
        breaks = [match.start() for match in re.finditer("\n", text)]
        self._whole = 1, len(breaks) + (not text.endswith("\n"))
        spans = [(bisect_right(breaks, start) + 1, bisect_right(breaks, end) + 1) for start, end in _object_spans(text)]
        objects = list(_objects(values))
        paired = zip(map(id, objects), spans, strict=True) if len(objects) == len(spans) else ()
        self._lines = dict(paired)

    def of(self, value: dict[str, Any]) -> tuple[int, int]:
        return self._lines.get(id(value), self._whole)


def _object_spans(text: str) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    open_objects: list[int] = []
    at = 0
    while (found := NEXT_BRACKET.match(text, at)) is not None:
        at = found.end()
        if found[1] == "{":
            open_objects.append(len(spans))
            spans.append((at - 1, at - 1))
        elif found[1] == "}" and open_objects:
            opened = open_objects.pop()
            spans[opened] = spans[opened][0], at - 1
    return spans


def _objects(values: Iterable[Any]) -> Iterator[dict[str, Any]]:
    waiting = [iter(values)]
    while waiting:
        value = next(waiting[-1], waiting)
        if value is waiting:
            waiting.pop()
        elif isinstance(value, dict):
            yield value
            waiting.append(iter(value.values()))
        elif isinstance(value, list):
            waiting.append(iter(value))
