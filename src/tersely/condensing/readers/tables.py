"""Tables: CSV and TSV, Markdown and drawn tables, columns aligned with blanks (`kubectl get`, `ps`, `top`, `netstat`).

Rows are the units, verbatim with single blanks; the header is their owner. A row scores by
its relevance to the focus, by cells that are odd in their column, by bad states, and by
extremes of the requested column. Tables without a header, tables after other lines and
several tables in one text are supported; lines that are not rows are units of their own.
"""

import csv
import heapq
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from tersely.condensing.detect import Reader, Sample, Signs, once
from tersely.condensing.field_counts import FEWEST, count_values
from tersely.condensing.focus import Focus, scan, subwords
from tersely.condensing.records import Column, number_of, shape_of, sounds_like_a_name, weigh_columns
from tersely.condensing.units import Reading, Unit

MOST_UNITS = 30_000
WIDEST_ROW = 240
"""In characters. Of wider rows only the columns that matter are shown. Does not depend on the budget, because wider
rows would push out others that a smaller budget shows.
"""
NARROWED_ROW = 160
"""In characters. What is shown of such a row."""
MOST_COUNTED = 3
"""Columns whose values are counted over all rows."""

_RULE = re.compile(r"[\s|+=:\-─│┼┬┴├┤╋━┃┏┓┗┛┡┩╇╈]+")
_VARIABLE = re.compile(r"\b[0-9a-f]{8,10}-[a-z0-9]{5}\b|0x[0-9a-fA-F]+|[0-9a-fA-F]{8,}|\d[\w.:-]*")
_BLANKS = re.compile(r"\s{2,}|\t")
_STATEMENT = re.compile(r"\s*[A-Za-z][\w ]*: \S")
"""A line such as `Ordered by: internal time`, which is no header."""
_MOMENT = re.compile(r"\b\d{4}-\d\d-\d\d\b|\b\d\d:\d\d:\d\d\b")
"""A date or time, which rows have and headers do not."""
_RATIO = re.compile(r"(\d+)/(\d+)$")
_STATE = frozenset(("status", "state", "phase", "health", "condition", "result", "level", "severity", "type", "reason"))


@dataclass
class Table:
    """Rows of one table; `header` is empty if there is none."""

    header: list[str]
    header_text: str = ""
    header_line: int = 0
    rows: list[list[str]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    columns: dict[int, list[str]] = field(default_factory=dict)
    """Cache of the columns."""
    sign: str = " "
    """What separates the cells of a row that is shown in part."""


@dataclass
class _Block:
    """A part of a text: a table, or lines that belong to none."""

    table: Table | None
    texts: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)


def read(text: str, focus: Focus, budget: int) -> Reading | None:
    blocks = list(_blocks(text))
    rows = sum(len(block.table.rows) for block in blocks if block.table)
    others = sum(len(block.texts) for block in blocks if block.table is None)
    if rows < 3 or others > 2 * rows:
        return None
    return reading_of(blocks, focus, budget)


def read_csv(text: str, focus: Focus, budget: int) -> Reading | None:
    table = _separated(text)
    if table is None:
        return read(text, focus, budget)
    return reading_of([_Block(table)], focus, budget)


# ------------------------------------------------------------------ finding tables


def _separated(text: str) -> Table | None:
    sample = [line for line in text[:60_000].split("\n") if line.strip()][:60]
    if len(sample) < 3:
        return None
    sign = _separator_of(sample)
    if sign is None:
        return None
    header: list[str] = []
    table = Table([], sign=sign)
    csv.field_size_limit(max(csv.field_size_limit(), 16_000_000))
    if '"' not in text or len(sign) > 1:
        # Without quoting, a plain split is several times faster than the csv module and cannot fail.
        entries: Iterator[tuple[int, list[str], str]] = (
            (number, line.split(sign), line) for number, line in enumerate(text.split("\n"), 1) if line.strip()
        )
    else:
        entries = _quoted_rows(text, sign)
    for number, cells, line in entries:
        if not header and not table.rows and not table.header_text and _is_header(cells, sample, sign):
            header = [cell.strip() for cell in cells]
            table.header, table.header_text, table.header_line = header, line.rstrip(), number
            continue
        table.rows.append([cell.strip() for cell in cells])
        table.texts.append(line.rstrip())
        table.lines.append(number)
    return table if len(table.rows) >= 2 else None


def _separator_of(sample: list[str]) -> str | None:
    best: tuple[float, str] | None = None
    # The usual signs, and any sign between the words of the first line.
    unusual_signs = dict.fromkeys(
        re.findall(r"(?<=\w)[^\w\s\"'.:-]{1,4}(?=\w)|(?<=\w) ?[|~^¦;!@#&*]{1,3} ?(?=\w)", sample[0])
    )
    for sign in ("\t", ",", ";", "|", *list(unusual_signs)[:6]):
        counts = Counter(re.sub(r'"[^"]*"', "", line).strip().count(sign) for line in sample)
        most, times = max(counts.items(), key=lambda pair: (pair[1], pair[0]))
        if most and times >= 0.7 * len(sample):
            score = times / len(sample) + 0.02 * min(most, 10) + 0.01 * len(sign)
            if best is None or score > best[0]:
                best = (score, sign)
    return best[1] if best else None


def _quoted_rows(text: str, sign: str) -> Iterator[tuple[int, list[str], str]]:
    reader = csv.reader(io.StringIO(text), delimiter=sign, strict=False)
    lines = text.split("\n")
    before = 0
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error:
            before = reader.line_num
            continue
        first, before = before, reader.line_num
        if cells:
            raw = " ".join(lines[first:before])
            yield first + 1, cells, raw


def _is_header(cells: list[str], sample: list[str], sign: str) -> bool:
    if len(cells) < 2 or any(number_of(cell.strip()) is not None for cell in cells if cell.strip()):
        return False
    body = [line.split(sign) for line in sample[1:40]]
    filled = [cell.strip() for cell in cells if cell.strip()]
    if len(set(filled)) < len(filled):
        return False
    numeric_below = any(
        sum(1 for row in body if column < len(row) and number_of(row[column].strip()) is not None) > 0.5 * len(body)
        for column in range(len(cells))
    )
    repeats = any(
        cell in (row[column].strip() for row in body if column < len(row))
        for column, cell in enumerate(cells)
        if cell.strip()
    )
    namelike = all(len(cell) < 60 for cell in filled)
    return namelike and (numeric_below or not repeats)


def _blocks(text: str) -> Iterator[_Block]:
    """Yield drawn or aligned tables, and the lines between them."""
    lines = text.split("\n")
    count = len(lines)
    at = failures = 0
    loose = _Block(None)
    while at < count:
        line = lines[at]
        if not line.strip() or _RULE.fullmatch(line):
            at += 1
            continue
        # Testing for a table costs as much as forty lines: after many failures, test only after blank lines.
        likely = failures < 40 or not lines[at - 1].strip() or at % 64 == 0
        found = (_drawn(lines, at) or _columns(lines, at)) if likely else None
        failures = 0 if found else failures + 1
        if found is None:
            loose.texts.append(line.rstrip())
            loose.lines.append(at + 1)
            at += 1
            continue
        table, end = found
        if loose.texts:
            yield loose
            loose = _Block(None)
        yield _Block(table)
        at = max(end, at + 1)
    if loose.texts:
        yield loose


def _drawn(lines: list[str], at: int) -> tuple[Table, int] | None:
    """Parse a table with `|` between its cells, from line `at` on."""
    sign = next(
        (sign for sign in ("│", "┃", "|") if lines[at].count(sign) >= 2 or lines[at].strip().startswith(sign)), None
    )
    if sign is None or sum(1 for cell in lines[at].split(sign) if cell.strip(" |/")) < 2:
        return None  # A bar before a line draws no table: `| Status=Not/Inst` of `dpkg -l`.
    table = Table([], sign=f" {sign} ")
    end = at
    width = lines[at].count(sign)
    ruled = False
    while end < len(lines):
        line = lines[end]
        if _RULE.fullmatch(line) and line.strip():
            ruled = ruled or bool(table.rows)
            if len(table.rows) == 1 and not table.header:
                table.header, table.header_text, table.header_line = (
                    table.rows.pop(),
                    table.texts.pop(),
                    table.lines.pop(),
                )
            end += 1
            continue
        if abs(line.count(sign) - width) > max(1, width // 4) or sign not in line:
            break
        cells = [cell.strip() for cell in line.strip().strip(sign).split(sign)]
        table.rows.append(cells)
        table.texts.append(" ".join(line.split()))
        table.lines.append(end + 1)
        end += 1
    if len(table.rows) < 2:
        return None
    if not table.header and not any(number_of(cell) is not None for cell in table.rows[0]):
        table.header, table.header_text, table.header_line = table.rows.pop(0), table.texts.pop(0), table.lines.pop(0)
    return table, end


def _columns(lines: list[str], at: int) -> tuple[Table, int] | None:
    """Parse a table aligned with blanks, with or without a header, from line `at` on."""
    body = [line for line in lines[at + 1 : at + 40] if line.strip() and not _RULE.fullmatch(line)][:24]
    if len(body) < 2:
        return None
    header = lines[at]
    if not lines[at + 1].strip():
        return None  # A line apart from the rows: a title.
    if sum(1 for line in body if line.count("|") >= 2 and "|" not in header) > 0.5 * len(body):
        return None
    split = _splitter(header, body)
    headed = True
    if split is None:
        split = _even_rows(header, body)
        headed = False
        if split is None:
            return None
    cells = split(header)
    if cells is None:
        return None
    table = Table([])
    end = at
    if headed and not any(number_of(cell) is not None for cell in cells):
        table.header, table.header_text, table.header_line = cells, " ".join(header.split()), at + 1
        end = at + 1
    misfits = 0
    while end < len(lines):
        line = lines[end]
        if not line.strip():
            if end + 1 < len(lines) and (lines[end + 1].strip() == "" or split(lines[end + 1]) is None):
                break
            end += 1
            continue
        if _RULE.fullmatch(line):
            end += 1
            continue
        row = split(line)
        if row is None:
            misfits += 1
            follows = [other for other in lines[end + 1 : end + 4] if other.strip()]
            if misfits > 2 or sum(1 for other in follows if split(other) is not None) < max(1, len(follows) - 1):
                break
            row = [line.strip()]
        else:
            misfits = 0
        table.rows.append(row)
        table.texts.append(" ".join(line.split()))
        table.lines.append(end + 1)
        end += 1
    return (table, end) if len(table.rows) >= 3 else None


Split = Callable[[str], list[str] | None]


def _splitter(header: str, body: list[str]) -> Split | None:
    """Return a function that splits rows under this header, if it splits most of them."""
    words = header.split()
    if len(words) < 2 or sum(1 for word in words if number_of(word) is not None) > 0.34 * len(words):
        return None
    if sum(len(word) for word in words) / len(words) > 24 or header.rstrip().endswith((".", ":", ";", ",")):
        return None
    if _STATEMENT.match(header) or _MOMENT.search(header):
        return None
    begins = Counter(shape_of(row.split()[0]) for row in body)
    if sum(1 for word in words if any(sign.isdigit() for sign in word)) > 0.3 * len(words) or (
        shape_of(words[0]) != "a" and begins[shape_of(words[0])] > 0.5 * len(body) > 1
    ):
        return None  # It looks like the rows below it: a row itself.
    trials: list[Split] = []
    starts = [match.start() for match in re.finditer(r"(?:(?<=\s\s)|(?<=^)|(?<=\t))\S", header)]
    if len(starts) >= 2:
        trials.append(_by_position(starts, 0.6))
    tight = [match.start() for match in re.finditer(r"(?:(?<=\s)|(?<=^))\S", header)]
    if len(tight) >= 3 and tight != starts:
        # Words one blank apart are columns only if nearly every cell below begins under one.
        trials.insert(0, _by_position(tight, 0.9))
    if all(word[0].isalnum() or word[0] in "%(_/@" for word in words) and _words_fit(len(words), body):
        trials.append(_by_words(len(words)))
    if len(starts) >= 3:
        trials.append(_by_blanks(len(starts)))
    for trial in trials:
        if sum(1 for row in body if trial(row) is not None) >= 0.75 * len(body) and trial(header) is not None:
            return trial
    return None


def _words_fit(count: int, body: list[str]) -> bool:
    """Whether rows have a word for each header, or more only in a last column of free text."""
    rows = [row.split(None, count - 1) for row in body]
    if sum(1 for row in body if len(row.split()) == count) >= 0.75 * len(body):
        return count >= 3
    if count < 4:
        return False
    return any(
        sum(1 for row in rows if len(row) == count and number_of(row[at]) is not None) >= 0.8 * len(rows)
        for at in range(count - 1)
    )


def _by_position(starts: list[int], share: float) -> Split:
    wanted = max(1, int(share * (len(starts) - 1)))

    def split(line: str) -> list[str] | None:
        if len(line) < starts[1]:
            return None
        cells: list[str] = []
        fits = 0
        before = 0
        for start in starts[1:]:
            if start >= len(line):
                cells.append(line[before:].strip())
                before = len(line)
                continue
            if line[start - 1] == " ":
                fits += line[start] != " "
                cut = start
            else:
                cut = line.find(" ", start)
                cut = len(line) if cut < 0 else cut
            cells.append(line[before:cut].strip())
            before = cut
        cells.append(line[before:].strip())
        return cells if fits >= wanted else None

    return split


def _by_words(count: int) -> Split:
    def split(line: str) -> list[str] | None:
        cells = line.split(None, count - 1)
        return cells if len(cells) == count else None

    return split


def _by_blanks(count: int) -> Split:
    def split(line: str) -> list[str] | None:
        cells = _BLANKS.split(line.strip())
        return cells if len(cells) == count else None

    return split


@lru_cache(maxsize=64)
def _has_number(row: str) -> bool:
    """Whether a word of the row is a number; each row is looked at below each of the lines before it."""
    return any(number_of(word) is not None for word in row.split())


def _even_rows(first: str, body: list[str]) -> Split | None:
    """Return how to split rows without a header: nearly all have equally many words or cells, some of them numbers."""
    rows = [first, *body]
    numeric = sum(map(_has_number, rows)) / len(rows)
    if numeric < 0.7:
        return None
    for pattern in (None, _BLANKS):
        counts = Counter(len(row.split()) if pattern is None else len(pattern.split(row.strip())) for row in rows)
        most, times = max(counts.items(), key=lambda pair: (pair[1], pair[0]))
        if most >= 3 and times >= 0.8 * len(rows):
            return _by_words(most) if pattern is None else _by_blanks(most)
    fewest = min(len(row.split()) for row in rows)
    if fewest >= 6 and len(rows) >= 5:
        # The last column is free text, as in `ls -l` or `ps`; the others must be alike, in the first row too.
        split = [row.split(None, fewest - 1) for row in rows]
        numeric_columns = [
            column
            for column in range(fewest - 1)
            if sum(1 for cells in split if number_of(cells[column]) is not None) >= 0.8 * len(split)
        ]
        if len(numeric_columns) >= 2 and all(number_of(split[0][column]) is not None for column in numeric_columns):
            return _by_words(fewest)
    return None


# ------------------------------------------------------------------ scoring rows


def reading_of(blocks: list[_Block], focus: Focus, budget: int) -> Reading:
    units: list[Unit] = []
    tables: list[tuple[Table, int, list[int]]] = []
    heads: list[str] = []
    all_texts = [text for block in blocks for text in (block.table.texts if block.table else block.texts)]
    found = scan(all_texts, focus)
    offset = 0
    for block in blocks:
        if block.table is None:
            for text, line in zip(block.texts, block.lines, strict=True):
                score = 2.2 * found.relevance[offset] + 0.25 * found.severity[offset] + 0.3
                units.append(Unit(text, line, line, score))
                offset += 1
            continue
        table = block.table
        size = len(table.rows)
        leaders: set[int] = set()
        scores = _row_scores(
            table, focus, found.relevance[offset : offset + size], found.severity[offset : offset + size], leaders
        )
        offset += size
        owner: int | None = None
        narrow = _narrowed(table, focus, scores)
        if table.header_text:
            owner = len(units)
            units.append(
                Unit(
                    narrow(table.header, table.header_text),
                    table.header_line,
                    table.header_line,
                    0.4,
                    count=0,
                    children=size,
                )
            )
        shown: Sequence[int] = range(size)
        most = min(MOST_UNITS, 2_000 + 4 * budget)
        if size > most:
            shown = sorted(heapq.nsmallest(most, range(size), key=lambda row: (-scores[row], row)))
        start = len(units)
        for row in shown:
            text = narrow(table.rows[row], table.texts[row])
            units.append(
                Unit(
                    text,
                    table.lines[row],
                    table.lines[row],
                    scores[row],
                    owner,
                    family=None if row in leaders else _VARIABLE.sub("#", text[:140]),
                )
            )
        tables.append((table, start, list(shown)))
        heads += _summaries(table, focus)

    head = "\n".join(heads) if budget >= 300 and heads else ""
    return Reading("table", units, head=head, decay=0.5)


def _narrowed(table: Table, focus: Focus, scores: list[float]) -> Callable[[list[str], str], str]:
    """Return how rows are shown: whole, or if few would fit, only the columns that matter, with `…` for the others."""
    size = len(table.rows)
    average = sum(map(len, table.texts[:200])) / max(1, min(size, 200))
    width = Counter(map(len, table.rows)).most_common(1)[0][0]
    if average <= WIDEST_ROW or width < 6:
        return lambda cells, text: text
    wanted = [0.0] * width
    best = sorted(range(size), key=lambda row: (-scores[row], row))[:20]
    for column in range(width):
        label = table.header[column] if column < len(table.header) else ""
        wanted[column] = 3 * focus.names(label) + (0.6 if column < 2 else 0.0) - 0.02 * column
        values = [table.rows[row][column].lower() for row in best if column < len(table.rows[row])]
        hits = sum(
            1
            for value in values
            for term in focus.terms
            if term.weight > 0.2 and term.kind != "synonym" and term.text in value
        )
        wanted[column] += min(3.0, hits * 0.5)
        if sounds_like_a_name(label) or set(subwords(label)) & _STATE:
            wanted[column] += 0.8
        kinds = set(values)
        if len(kinds) <= 1:
            wanted[column] -= 1.0
    room = NARROWED_ROW
    shown: set[int] = set()
    for column in sorted(range(width), key=lambda column: (-wanted[column], column)):
        cost = max((len(table.rows[row][column]) for row in best if column < len(table.rows[row])), default=0) + 2
        if cost <= room:
            shown.add(column)
            room -= cost

    def cut(cells: list[str], text: str) -> str:
        parts: list[str] = []
        for column, cell in enumerate(cells):
            if column in shown:
                parts.append(cell)
            elif not parts or parts[-1] != "…":
                parts.append("…")
        return table.sign.join(parts)

    return cut


def _column(table: Table, column: int) -> list[str]:
    if column not in table.columns:
        table.columns[column] = [row[column] if column < len(row) else "" for row in table.rows]
    return table.columns[column]


def _row_scores(
    table: Table, focus: Focus, relevance: list[float], severity: list[float], leaders: set[int]
) -> list[float]:
    size = len(table.rows)
    trouble = 0.4 if focus.trouble else 0.15
    scores = [2.2 * relevance[row] + trouble * severity[row] for row in range(size)]
    width = max(len(table.header), Counter(map(len, table.rows)).most_common(1)[0][0] if size else 0)
    labels = [table.header[column] if column < len(table.header) else "" for column in range(width)]
    weigh_columns(
        scores, [Column(label, range(size), _column(table, at)) for at, label in enumerate(labels)], focus, leaders
    )
    if focus.trouble:
        for column in range(width):
            values = _column(table, column)
            if any("/" in value for value in values[:50]):
                for row, value in enumerate(values):
                    ratio = _RATIO.match(value) if len(value) < 12 else None
                    if ratio and ratio.group(1) != ratio.group(2):
                        scores[row] += 0.9
    for row in range(min(3, size)):
        scores[row] += 0.15
    return scores


def _state_column(table: Table) -> int | None:
    """Return the column whose values group the rows best: few values, and preferably a name like `status`."""
    best: tuple[float, int] | None = None
    size = len(table.rows)
    for column in range(len(table.header)):
        kinds = Counter(_column(table, column))
        if not 1 < len(kinds) <= min(12, size // 3):
            continue
        named = 1.0 if set(subwords(table.header[column])) & _STATE else 0.0
        share = kinds.most_common(1)[0][1] / size
        score = named + share - 0.03 * len(kinds)
        if number_of(kinds.most_common(1)[0][0]) is not None:
            score -= 0.4
        if best is None or score > best[0]:
            best = (score, column)
    return best[1] if best and best[0] > 0.3 else None


def _summaries(table: Table, focus: Focus) -> list[str]:
    """Return what all rows have in the columns that the question names, and in the column of their states."""
    size = len(table.rows)
    if size < FEWEST:
        return []
    matches = {at: focus.names(label) or float(focus.rejects(label)) for at, label in enumerate(table.header) if label}
    best = max(matches.values(), default=0.0)
    asked = [at for at in matches if best and matches[at] >= 0.6 * best]
    asked.sort(key=lambda at: (-matches[at], at))
    state = _state_column(table)
    lines: list[str] = []
    for column in dict.fromkeys([*asked[: MOST_COUNTED - 1], *([state] if state is not None else ())]):
        values = _column(table, column)
        named = {
            value
            for value in set(values)
            if 0 < len(value) <= 40 and (focus.names(value) > 0.5 or focus.rejects(value))
        }
        counted = count_values(values, first=named if len(named) <= 3 else ())
        if counted:
            lines.append(f"[{size} rows; {table.header[column]}: {counted.text}]")
    return lines


_CELLS = re.compile(r"\S+(?: \S+)*")
_ROWS_BELOW = 60
"""Rows that are compared with a header."""


@once
def columns_of(sample: Sample) -> Literal["csv", "table"] | None:
    return column_table(sample.lines)


def column_table(lines: list[str]) -> Literal["csv", "table"] | None:
    """Detect rows: separated by a sign, drawn with lines, or aligned in columns."""
    rows = [line.strip("\t") for line in lines if not re.fullmatch(r"[\s|+=:\-─│┼┬┴├┤╋━┃]+", line)]
    if len(rows) < 3:
        return None
    for sign in dict.fromkeys(re.findall(r"(?<=\w)[^\w\s\"'.:/@()\[\]{}<>=-]{1,4}(?=\w)", rows[0])):
        counts = Counter(row.count(sign) for row in rows)
        most, times = max(counts.items(), key=lambda pair: (pair[1], pair[0]))
        if (most >= 2 and times >= 0.9 * len(rows)) or (most == 1 and times == len(rows) >= 4):
            return "csv"
    for sign in (",", "\t", ";", "|"):
        counts = Counter(_cells_between(row, sign) for row in rows)
        most, times = max(counts.items(), key=lambda pair: (pair[1], pair[0]))
        if most >= (1 if sign == "\t" else 2) and times >= 0.8 * len(rows):
            if sign == "|":
                return "table"
            # Prose has commas too, but not the same number in every line.
            if sign == "\t" or len(counts) <= 3 or times >= 0.9 * len(rows):
                return "csv"
    if sum(1 for row in rows if row.lstrip()[:1] in "|│┃" and row.strip()) >= 0.7 * len(rows):
        return "table"
    # The header may follow a few other lines.
    words = [len(row.split()) for row in rows]
    headers = [at for at in range(min(8, len(rows) - 2)) if words[at] >= 2]
    spans = [_spans(row) for row in rows[: 8 + _ROWS_BELOW]]
    if any(_aligned(rows[at], spans[at + 1 : at + 1 + _ROWS_BELOW]) for at in headers):
        return "table"
    cells = [len(_CELLS.findall(re.sub(r"\s{2,}", "\0", row).replace("\0", "\n"))) for row in rows]
    return "table" if any(_regular(cells[at:], words[at:]) for at in headers) else None


def _cells_between(row: str, sign: str) -> int:
    if '"' in row and sign != "|":
        row = re.sub(r'"[^"]*"', "", row)
    return row.count(sign)


def _spans(row: str) -> tuple[set[int], set[int]]:
    """Return where the words of a row begin and end."""
    spans = [match.span() for match in re.finditer("[^ ]+", row)]
    return {start for start, _ in spans}, {end for _, end in spans}


def _aligned(header: str, body: list[tuple[set[int], set[int]]]) -> bool:
    """Whether columns are aligned with blanks: the header words start (or end) where the cells below do."""
    starts = {match.start() for match in list(re.finditer(r"(?:(?<=\s\s)|^)\S", header))[1:]}
    if starts:
        good = sum(1 for begins, _ in body if len(starts & begins) >= 0.6 * len(starts))
        if good >= 0.7 * len(body):
            return True
    words = [match.span() for match in re.finditer(r"\S+", header)]
    single, ends = {start for start, _ in words}, {end for _, end in words}
    right = sum(1 for begins, stops in body if max(len(ends & stops), len(single & begins)) >= 0.7 * len(single))
    return right >= 0.7 * len(body) and len(single) >= 3


def _regular(cells: list[int], words: list[int]) -> bool:
    """Whether nearly all rows have the same number of cells or of words."""
    most, times = max(Counter(cells).items(), key=lambda pair: (pair[1], pair[0]))
    if most >= 3 and times >= 0.85 * len(cells):
        return True
    most, times = max(Counter(words).items(), key=lambda pair: (pair[1], pair[0]))
    return most >= 4 and times >= 0.9 * len(words) and len(words) >= 5


def _is_table(sample: Sample) -> bool:
    return columns_of(sample) == "table" and sample.keys + sample.items + sample.assigns + sample.sections < 0.7


READER = Reader("table", Signs((0.66, _is_table)), read, holds_json=True, by_line=True, may_repeat=True)
