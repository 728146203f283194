"""Parses a text as a table: JSON, JSON lines, CSV and similar formats, drawn tables or aligned columns.

Tables are parsed as the condenser parses them, so that both count the same rows. Imports only the standard library
and `shapes`, because `results.sql_worker` starts a process for each query.
"""

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tersely.shapes.json_values import LEAST_RECORDS, documents, json_lines
from tersely.shapes.outlines import are_fields
from tersely.shapes.tables import Table, form_of, separated, tables_of

MOST_COLUMNS = 500
_MOST_CELLS = 5_000_000
"""Limits the columns of large tables: records with different keys would make mostly empty cells."""

_INTEGER = re.compile(r"[+-]?\d{1,18}")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?")
_LARGEST = 2**63 - 1
_SAMPLE = 300
"""Lines in which the form of a table is recognized."""
_FEW = 8
"""So few lines show no form that is certain; they are rows if all of them have equally many cells."""
_MOST_OTHERS = 0.25
"""Lines that are no rows, relative to the rows; a table with a header may be among as many other lines."""
_SEPARATED = {",": "CSV", "\t": "tab-separated", ";": "CSV with semicolons"}


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
    found = documents(text)
    if len(found) == 1:
        return _from_json(found[0])
    if found:
        return _records("JSON lines" if len(found) == len(text.strip().split("\n")) else "JSON documents", found)
    return (_json_lines(text) if '{"' in text[:2_000] else None) or _from_table(text.strip("\r\n"))


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
    """The records of JSON lines, with what is before them in their lines as a column."""
    records: list[Any] = []
    lines = 0
    for number, _, prefix, record in json_lines(text):
        lines += 1
        if isinstance(record, dict):
            records.append({**record, "prefix": prefix.rstrip()} if prefix else record)
        elif number == 200 and len(records) < 100:
            return None
    if len(records) < 2 or len(records) < LEAST_RECORDS * lines:
        return None
    return _records("JSON lines" + _left_out(lines - len(records)), records)


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


def _from_table(text: str) -> Rows | None:
    sample = [line[:2_000] for line in text[:120_000].split("\n") if line.strip()][:_SAMPLE]
    form = form_of(sample)
    if (form is None and len(sample) >= _FEW) or (form == "table" and are_fields(sample)):
        return None
    if form != "table":
        table = separated(text, fewest=1)
        if table is not None and (form or _is_even(table)):
            name = _SEPARATED.get(table.sign) or f"separated by {table.sign.strip()}"
            return _cells(name, table.header, table.rows, len(table.comments))
    return _from_aligned(text)


def _is_even(table: Table) -> bool:
    return len({len(table.header or table.rows[0]), *map(len, table.rows)}) == 1


def _from_aligned(text: str) -> Rows | None:
    """The rows of the largest table, with those of others under the same header."""
    parts = tables_of(text, fewest=1)
    tables = [part.table for part in parts if part.table]
    if not tables:
        return None
    largest = max(tables, key=lambda one: len(one.rows))
    rows = [row for one in tables if one is largest or one.header == largest.header != [] for row in one.rows]
    others = sum(len(part.table.rows) if part.table else len(part.texts) for part in parts) - len(rows)
    if others > (1 if largest.header else _MOST_OTHERS) * len(rows):
        return None
    name = "aligned columns" if largest.sign == " " else "a drawn table"
    return _cells(name, largest.header, rows, others)


def _cells(form: str, header: list[str], body: list[list[str]], others: int = 0) -> Rows:
    """A table of text cells; columns that hold only numbers are converted."""
    width = min(MOST_COLUMNS, max(len(header), max(map(len, body))))
    values: list[list[Any]] = [[(cell or None) for cell in row[:width]] + [None] * (width - len(row)) for row in body]
    for at in range(width):
        filled = [row[at] for row in values if row[at] is not None]
        read = int if all(map(_INTEGER.fullmatch, filled)) else float if all(map(_is_number, filled)) else None
        if filled and read:
            for row in values:
                row[at] = None if row[at] is None else read(row[at])
    names = [*header, *(f"c{number}" for number in range(len(header) + 1, width + 1))]
    return Rows(form + _left_out(others), *_typed(names[:width], values))


def _left_out(lines: int) -> str:
    return f" ({lines:,} other {'line' if lines == 1 else 'lines'} left out)" if lines else ""


def _is_number(cell: str) -> bool:
    return _NUMBER.fullmatch(cell) is not None and math.isfinite(float(cell))
