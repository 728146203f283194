"""Parses a text as a table: JSON, JSON lines, CSV and similar formats, drawn tables or aligned columns.

Imports only the standard library, because `results.sql_worker` starts a process for each query.
"""

import csv
import io
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

MOST_COLUMNS = 500
_MOST_CELLS = 5_000_000
"""Limits the columns of large tables: records with different keys would make mostly empty cells."""

_INTEGER = re.compile(r"[+-]?\d{1,18}")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?")
_RULE = re.compile(r"[\s|+:=─━┼│┃╪╞╡├┤┌┐└┘┬┴-]+")
_GAP = re.compile(r" {2,}|\t+")
_LARGEST = 2**63 - 1


@dataclass(frozen=True)
class RowColumn:
    name: str
    type: str
    """A DuckDB type: BIGINT, DOUBLE, BOOLEAN, VARCHAR or JSON."""


@dataclass(frozen=True)
class Rows:
    form: str
    """The format that was recognized, for messages."""

    columns: list[RowColumn]
    values: list[list[Any]]


def rows_of(text: str) -> Rows | None:
    """The rows of a text; None if it is not a table."""
    stripped = text.strip()
    if stripped[:1] in ("[", "{"):
        try:
            return _from_json(_parsed(stripped))
        except (ValueError, RecursionError):
            if lines := _json_lines(stripped):
                return lines
    unframed = text.strip("\r\n")
    return _separated(unframed) or _in_columns(unframed)


def _parsed(text: str) -> Any:
    """Parse JSON; NaN and Infinity, which are not JSON but occur, become null."""
    return json.loads(text, parse_constant=lambda _: None)


def _from_json(value: Any) -> Rows:
    path, found = _longest_list(value)
    if isinstance(value, list):
        return _records("a JSON list", value)
    if found is not None:
        return _records(f"the list at {path} of a JSON document", found)
    inner = [one for one in value.values() if isinstance(one, dict)] if isinstance(value, dict) else []
    if len(inner) >= 2 and len(inner) == len(value):
        return _records("a JSON object, one row per key", [{"key": key, **one} for key, one in value.items()])
    return _records("a JSON document, as one row", [value])


def _longest_list(value: Any, path: str = "$", depth: int = 0) -> tuple[str, list[Any] | None]:
    """The longest list of objects near the top of a document, such as `items` or `data.results`, and its path."""
    best: tuple[str, list[Any] | None] = (path, None)
    if depth > 3 or not isinstance(value, dict):
        return best
    for name, inner in value.items():
        where = f"{path}.{name}"
        if isinstance(inner, list) and inner and isinstance(inner[0], dict):
            candidate: tuple[str, list[Any] | None] = (where, inner)
        else:
            candidate = _longest_list(inner, where, depth + 1)
        if candidate[1] is not None and len(candidate[1]) > len(best[1] or ()):
            best = candidate
    return best


def _json_lines(text: str) -> Rows | None:
    records: list[Any] = []
    others = 0
    for line in text.split("\n"):
        if not line.strip():
            continue
        try:
            record = _parsed(line)
        except (ValueError, RecursionError):
            others += 1
            if others > 20 and others > len(records):
                return None
            continue
        records.append(record)
    if not records or others > len(records) / 4:
        return None
    return _records("JSON lines" + (f" ({others} other lines left out)" if others else ""), records)


def _records(form: str, items: Sequence[Any]) -> Rows:
    if items and all(isinstance(item, list) for item in items):
        width = min(MOST_COLUMNS, max(len(item) for item in items))
        header = (
            items[0]
            if len(items) > 1 and len(items[0]) == width and all(isinstance(cell, str) for cell in items[0])
            else None
        )
        names = header or [f"c{number}" for number in range(1, width + 1)]
        body = [[*item, *[None] * (width - len(item))][:width] for item in (items[1:] if header else items)]
        return Rows(form, *_typed(names, body))
    records = [item if isinstance(item, dict) else {"value": item} for item in items]
    most = max(20, min(MOST_COLUMNS, _MOST_CELLS // max(1, len(records))))
    names = list(dict.fromkeys(name for record in records for name in record))[:most]
    return Rows(
        form, *_typed(names or ["value"], [[record.get(name) for name in names or ["value"]] for record in records])
    )


def _typed(names: Iterable[str], values: list[list[Any]]) -> tuple[list[RowColumn], list[list[Any]]]:
    columns: list[RowColumn] = []
    taken: set[str] = set()
    for at, name in enumerate(names):
        kind = _type_of(row[at] for row in values)
        if kind in ("VARCHAR", "JSON"):
            for row in values:
                cell = row[at]
                if cell is not None and (kind == "JSON" or not isinstance(cell, str)):
                    row[at] = cell if kind == "JSON" else json.dumps(cell)
        columns.append(RowColumn(_free_name(name, taken), kind))
    return columns, values


def _type_of(cells: Iterable[Any]) -> str:
    kinds: set[type] = set()
    for cell in cells:
        if isinstance(cell, int) and not isinstance(cell, bool) and not -_LARGEST <= cell <= _LARGEST:
            kinds.add(float)
        else:
            kinds.add(type(cell))
    kinds.discard(type(None))
    if kinds & {dict, list}:
        return "JSON"
    if kinds == {bool}:
        return "BOOLEAN"
    if kinds == {int}:
        return "BIGINT"
    return "DOUBLE" if kinds and kinds <= {int, float} else "VARCHAR"


def _free_name(name: str, taken: set[str]) -> str:
    """A column name that is not taken yet; SQL ignores case."""
    base = " ".join(str(name).replace("\x00", "").split()) or "column"
    free, number = base, 2
    while free.lower() in taken:
        free, number = f"{base}_{number}", number + 1
    taken.add(free.lower())
    return free


def _cells(form: str, header: list[str] | None, body: list[list[str]]) -> Rows | None:
    """A table of text cells; columns that hold only numbers are converted."""
    if not body:
        return None
    width = min(MOST_COLUMNS, len(header) if header else max(map(len, body)))
    values: list[list[Any]] = [
        [(cell.strip() or None) for cell in row[:width]] + [None] * (width - len(row)) for row in body
    ]
    for at in range(width):
        filled = [row[at] for row in values if row[at] is not None]
        read = int if all(map(_INTEGER.fullmatch, filled)) else float if all(map(_is_number, filled)) else None
        if filled and read:
            for row in values:
                row[at] = None if row[at] is None else read(row[at])
    return Rows(form, *_typed(header or [f"c{number}" for number in range(1, width + 1)], values))


def _is_number(cell: str) -> bool:
    return _NUMBER.fullmatch(cell) is not None and math.isfinite(float(cell))


def _separated(text: str) -> Rows | None:
    sample = [line for line in text[:100_000].split("\n")[:50] if line.strip()]
    if len(sample) < 2 or sample[0].lstrip().startswith(("|", "+-", "┌", "│")):
        return None
    for sign, form in ((",", "CSV"), ("\t", "tab-separated"), (";", "CSV with semicolons"), ("|", "separated by |")):
        widths = Counter(len(row) for row in csv.reader(sample[:-1] if len(sample) > 2 else sample, delimiter=sign))
        width, often = widths.most_common(1)[0]
        if width < 2 or often < 0.9 * widths.total() or len(next(csv.reader(sample[:1], delimiter=sign))) != width:
            continue
        try:
            rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=sign) if row]
        except csv.Error:
            continue
        if sum(len(row) == width for row in rows) >= 0.9 * len(rows):
            header = [cell.strip() for cell in rows[0]]
            # A first row with a number or an empty cell is data, not a header.
            named = all(cell and not _NUMBER.fullmatch(cell) for cell in header)
            return _cells(form, header if named else None, rows[1:] if named else rows)
    return None


def _in_columns(text: str) -> Rows | None:
    lines = [line.rstrip("\r") for line in text.split("\n") if line.strip()]
    if len(lines) < 2:
        return None
    sign = next((sign for sign in ("|", "│", "┃") if max(line.count(sign) for line in lines[:2]) >= 2), None)
    if sign:
        drawn = [
            [cell.strip() for cell in line.strip().strip(sign).split(sign)]
            for line in lines
            if not _RULE.fullmatch(line)
        ]
        if len(drawn) > 1 and sum(len(row) == len(drawn[0]) for row in drawn) >= 0.9 * len(drawn):
            return _cells("a drawn table", drawn[0], drawn[1:])
        return None
    header = lines[0].split() if not _GAP.search(lines[0].strip()) else _GAP.split(lines[0].strip())
    body = [line for line in lines[1:] if not _RULE.fullmatch(line)]
    starts = _starts(lines[0], header)
    if len(header) < 2 or not body or any(_NUMBER.fullmatch(name) for name in header):
        return None
    words = sum(len(line.split()) == len(header) for line in body) >= 0.9 * len(body) and len(body) > 1
    if not _GAP.search(lines[0].strip()) and not words and lines[0] != lines[0].upper():
        return None  # Prose, not a header.
    # Aligned with the header: the column before each name is blank in the rows as well.
    if all(_blank_before(line, starts) for line in body[:200]):
        edges = list(zip(starts, [*starts[1:], None], strict=True))
        return _cells("aligned columns", header, [[line[start:end].strip() for start, end in edges] for line in body])
    split = [_GAP.split(line.strip(), len(header) - 1) for line in body]
    if sum(len(row) == len(header) for row in split) < 0.9 * len(split):
        split = [line.split(None, len(header) - 1) for line in body]
    if sum(len(row) == len(header) for row in split) < 0.9 * len(split):
        return None
    return _cells("columns", header, split)


def _starts(line: str, header: list[str]) -> list[int]:
    starts, at = [], 0
    for name in header:
        at = line.index(name, at)
        starts.append(at)
        at += len(name)
    return [0, *starts[1:]]


def _blank_before(line: str, starts: list[int]) -> bool:
    return all(start > len(line) or line[start - 1] in " \t" for start in starts[1:])
