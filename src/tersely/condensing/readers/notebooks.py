"""Jupyter notebooks: cells as records, the lines of source and output verbatim, images by kind and size.

A cell is scored as a whole and by its lines, so that the result below a relevant cell is found although it has no
words. Of an output in several formats only the plain text is read. A notebook that is cut off is read as JSON.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tersely.condensing.account import runs_of
from tersely.condensing.detect import Reader, Signs
from tersely.condensing.features import near_features
from tersely.condensing.focus import Focus, scan
from tersely.condensing.units import Reading, Unit
from tersely.condensing.weights import WEIGHTS
from tersely.shapes.pieces import LONGEST_LINE, pieces_of

FADE = 6
"""Number of lines after which a cell's share is halved."""


MOST_LINES = 200
"""Lines of one output that are read; of a longer one its beginning and end."""

_ESCAPE_CODES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_SYNTAX = re.compile(
    r"\s*(?:[\]\[{}]*+,?|\"(?:cells|metadata|outputs|source|text|data|text/plain|traceback)\": (?:[\[{][\]}]?),?"
    r"|\"(?:cell_type|output_type|name|id|ename|evalue)\": \".*\",?|\"execution_count\": (?:\d+|null),?)"
)
"""A line of a notebook's JSON without content, or with what the title of a cell and the end of a traceback say."""
_BEGINS = re.compile(r'\s*\{\s*"(?:cells|metadata|nbformat|worksheets)"')


@dataclass(slots=True)
class _Line:
    text: str
    line: int
    sort: str
    """One of cell, source, output, heading, failure."""


@dataclass(slots=True)
class _Cell:
    lines: list[_Line] = field(default_factory=list)


def is_notebook(text: str) -> bool:
    """Whether a JSON text begins like a notebook and has cells."""
    return bool(_BEGINS.match(text[:400])) and '"cell_type"' in text


def read(text: str, focus: Focus, budget: int) -> Reading | None:
    """Return cells with their lines as units, or None if the text is no whole notebook."""
    if not is_notebook(text):
        return None
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError):
        return None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        return None
    finder = _Finder(text)
    found = [_cell(index, cell, finder) for index, cell in enumerate(cells)]
    units = _units(found, focus)
    _fold_syntax(units, text)
    return Reading("notebook", units)


def _fold_syntax(units: list[Unit], text: str) -> None:
    """Let the line before brackets and keys without content represent them: nothing is missing there."""
    ordered = sorted(units, key=lambda unit: unit.first)
    firsts = [unit.first for unit in ordered]
    below: dict[int, list[tuple[int, int]]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if _SYNTAX.fullmatch(line):
            below.setdefault(max(0, bisect_right(firsts, number) - 1), []).append((number, number))
    for at, lines in below.items() if units else ():
        ordered[at].folded = runs_of(line for line in lines if line[0] != ordered[at].first)


class _Finder:
    """Finds the source line of each string; the strings are looked up in the order of the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.line = 1
        self.misses = 0

    def line_of(self, value: str) -> int:
        """Return the line of the next string with this value; if it is not found, the line of the last one."""
        if self.misses > 20:
            return self.line
        for ascii_only in (False, True):
            at = self.text.find(json.dumps(value, ensure_ascii=ascii_only), self.at)
            if at >= 0:
                self.line += self.text.count("\n", self.at, at)
                self.at = at
                return self.line
        self.misses += 1
        return self.line


def _cell(index: int, cell: dict[str, Any], finder: _Finder) -> _Cell:
    """Return the lines of a cell: its label, its source, its outputs."""
    sort = str(cell.get("cell_type", ""))
    parts: dict[str, list[_Line]] = {"source": [], "outputs": []}
    label = finder.line_of("cell_type")
    for key, value in cell.items():  # In the order of the file, in which the outputs come first.
        if key == "source":
            parts["source"] = [
                _Line(text, line, "heading" if sort == "markdown" and text.startswith("#") else "source")
                for text, line in _lines(value, finder)
            ]
        elif key == "outputs" and isinstance(value, list):
            parts["outputs"] = [
                line for output in value if isinstance(output, dict) for line in _output(output, finder)
            ]
    count = cell.get("execution_count")
    title = f"cells[{index}] {sort}{f' [{count}]' if isinstance(count, int) else ''}:"
    return _Cell([_Line(title, label, "cell"), *parts["source"], *parts["outputs"]])


def _lines(value: object, finder: _Finder) -> Iterator[tuple[str, int]]:
    """Yield the lines of a text that is one string or a list of strings, with their source lines."""
    strings = value if isinstance(value, list) else [value]
    for string in strings:
        if isinstance(string, str) and string:
            line = finder.line_of(string)
            for text in string.split("\n"):
                if text and not text.isspace():
                    yield text.rstrip(), line


def _output(output: dict[str, Any], finder: _Finder) -> Iterator[_Line]:
    if output.get("output_type") == "error":
        yield from _failure(output, finder)
        return
    data = output.get("data")
    if isinstance(data, dict):
        for kind, value in data.items():
            if kind.startswith(("image/", "application/", "video/", "audio/")):
                size = len("".join(value) if isinstance(value, list) else str(value))
                yield _Line(f"{kind}, {size:,} characters", finder.line_of(kind), "output")
        text = data.get("text/plain") or data.get("text/markdown") or data.get("text/html")
    else:
        text = output.get("text")
    lines = list(_lines(text, finder)) if text else []
    if len(lines) > MOST_LINES:
        lines = lines[: MOST_LINES // 2] + lines[-MOST_LINES // 2 :]
    yield from (_Line(text, line, "output") for text, line in lines)


def _failure(output: dict[str, Any], finder: _Finder) -> Iterator[_Line]:
    """Yield the traceback, whose last line names the exception; name and message if there is none."""
    line = finder.line_of("ename")
    trace = output.get("traceback")
    lines = [
        _Line(plain, at, "output")
        for text, at in _lines(trace if isinstance(trace, list) else [], finder)
        if (plain := _ESCAPE_CODES.sub("", text).rstrip()).strip()
    ]
    name = str(output.get("ename", ""))
    named = next((one for one in reversed(lines) if name and one.text.lstrip().startswith(name)), None)
    if named:
        named.sort = "failure"
    else:
        yield _Line(f"ename: {name}", line, "failure")
        yield _Line(f"evalue: {str(output.get('evalue', ''))[:LONGEST_LINE]}", line, "failure")
    yield from lines


def _units(cells: list[_Cell], focus: Focus) -> list[Unit]:
    lines = [line for cell in cells for line in cell.lines]
    features = near_features([line.text[: 4 * LONGEST_LINE] for line in lines], focus)
    whole = scan(["\n".join(line.text[:LONGEST_LINE] for line in cell.lines) for cell in cells], focus).relevance
    features.body = [share for cell, about in zip(cells, whole, strict=True) for share in _shares(cell, about)]
    features.roles = [line.sort if line.sort in ("heading", "failure") else "plain" for line in lines]
    scores = iter(features.scores(WEIGHTS["notebook"], focus))
    units: list[Unit] = []
    for cell in cells:
        owner = len(units)
        for line, score in zip(cell.lines, scores, strict=False):
            if line.sort == "cell":
                units.append(Unit(line.text, line.line, line.line, -1.0, count=0))
                continue
            pieces = [line.text] if len(line.text) <= LONGEST_LINE else pieces_of(line.text)
            units.extend(Unit(piece, line.line, line.line, score, owner) for piece in pieces[:50])
    return units


def _shares(cell: _Cell, about: float) -> Iterator[float]:
    """Yield what each line has of the relevance of its cell: less, the farther it is from the first of its sort."""
    distance, before = 0, "cell"
    for line in cell.lines:
        if line.sort != before:
            distance, before = 0, line.sort
        yield about * FADE / (FADE + distance)
        distance += line.sort != "cell"


READER = Reader("notebook", Signs(), read, before=("json",))
