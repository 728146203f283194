"""Tables: rows with separated, drawn or aligned cells, and the lines of the source on which they stand."""

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import islice, pairwise
from typing import Literal

from tersely.shapes.values import number_of, shape_of
from tersely.text.long_lines import each_line

_RULE = re.compile(r"[\s|+=:\-\u2500-\u257f]+")
"""Lines drawn above, below and between rows, with any of the signs that boxes are drawn with."""
_BLANKS = re.compile(r"\s{2,}|\t")
_STATEMENT = re.compile(r"\s*[A-Za-z][\w ]*: \S")
"""A line such as `Ordered by: internal time`, which is no header."""
_BRACKETS = re.compile(r"\([^()]*\)")
_BETWEEN_CELLS = re.compile(r"\S {2,}\S")
_MOMENT = re.compile(r"\b\d{4}-\d\d-\d\d\b|\b\d\d:\d\d:\d\d\b")
"""A date or time, which rows have and headers do not."""

_FORM = re.compile(r"9\W|\W9|[:=]\s*\S")
"""In the shape of a value: a digit beside a sign, or what follows a name."""

_COMMENT = re.compile(r"\s*(?:#|//|%|--(?!-))")

_FEWEST_TALL = 3

_BARS = "│┃|"
_WIDEST_ALIGNED = 1_000
"""In characters. Wider rows are not aligned for a reader."""

RECURS = 0.2
"""Share of the rows with the same word in a column that no header repeats; a header is repeated once a page."""


@dataclass
class Table:
    """Rows of one table; `header` is empty if there is none."""

    header: list[str]
    header_text: str = ""
    header_line: int = 0
    rows: list[list[str]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    """Where each row begins in the source."""
    ends: dict[int, int] = field(default_factory=dict)
    """Where it ends, by its first line, if a quoted cell has several lines."""
    columns: dict[int, list[str]] = field(default_factory=dict)
    """Cache of the columns."""
    sign: str = " "
    """What separates the cells of a row that is shown in part."""
    repeats: list[int] = field(default_factory=list)
    """Lines that repeat the header, as on every page."""
    comments: list[tuple[int, str]] = field(default_factory=list)
    """Lines above, between and below the rows that are no rows, with their numbers."""

    def add(self, cells: list[str], text: str, line: int) -> None:
        self.rows.append(cells)
        self.texts.append(text)
        self.lines.append(line)


Split = Callable[[str], list[str] | None]


@dataclass
class TablePart:
    """A part of a text: a table, or lines that belong to none."""

    table: Table | None
    texts: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)


def separated(text: str, fewest: int = 2) -> Table | None:
    """Parse rows with a separator between their cells; None if there are fewer than `fewest` besides the header."""
    sample = [line for line in text[:60_000].split("\n") if line.strip()][:60]
    comments = _leading_comments(sample)
    if len(sample) - comments <= fewest:
        return None
    sign = _separator_of(sample[comments:])
    if sign is None:
        return None
    comments -= _ends_with_header(sample[:comments], sample[comments:], sign)
    sample = sample[comments:]
    header: list[str] = []
    table = Table([], sign=sign)
    same = dict[str, str]().setdefault  # Rows repeat their values; one copy of each serves all.
    csv.field_size_limit(max(csv.field_size_limit(), 16_000_000))
    if '"' not in text or len(sign) > 1:
        # Without quoting, a plain split is several times faster than the csv module and cannot fail.
        entries: Iterator[tuple[int, list[str], str]] = (
            (number, line.split(sign), line) for number, line in enumerate(each_line(text), 1) if line.strip()
        )
    else:
        entries = _quoted_rows(text, sign)
    table.comments = [(number, line.rstrip()) for number, _, line in islice(entries, comments)]
    for number, cells, line in entries:
        if not header and not table.rows and not table.header_text and _is_header(cells, sample, sign):
            header = [cell.strip() for cell in cells]
            table.header, table.header_text, table.header_line = header, line.rstrip(), number
            continue
        table.add([same(cell, cell) for cell in map(str.strip, cells)], line.rstrip(), number)
        if "\n" in line:
            table.ends[number] = number + line.count("\n")
    _take_comments(table)
    _take_repeats(table)
    return table if len(table.rows) >= fewest else None


def _take_comments(table: Table) -> None:
    """Take the rows out that are comments: they begin with its sign and have not the usual number of cells."""
    found = [at for at, text in enumerate(table.texts) if text.lstrip()[:1] in "#/%-" and _COMMENT.match(text)]
    if not found:
        return
    width = len(table.header) or Counter(map(len, table.rows)).most_common(1)[0][0]
    comments = {at for at in found if len(table.rows[at]) != width}
    table.comments += [(table.lines[at], table.texts[at]) for at in sorted(comments)]
    _keep_rows(table, [at for at in range(len(table.rows)) if at not in comments])


def _leading_comments(lines: list[str]) -> int:
    """Return how many lines at the beginning are comments; 0 if all are."""
    return next((at for at, line in enumerate(lines) if not _COMMENT.match(line)), 0)


def _ends_with_header(comments: list[str], rows: list[str], sign: str) -> bool:
    """Whether the last comment names the columns, as `#CHROM` does, and the first line below it does not."""
    if not comments or comments[-1].count(sign) != rows[0].count(sign):
        return False
    return not _is_header(rows[0].split(sign), rows, sign)


def _separator_of(sample: list[str]) -> str | None:
    best: tuple[float, str] | None = None
    # The usual signs, and any sign between the words of the first line.
    unusual_signs = dict.fromkeys(
        re.findall(r"(?<=\w)[^\w\s\"'.:-]{1,4}(?=\w)|(?<=\w) ?[|~^¦;!@#&*]{1,3} ?(?=\w)", sample[0])
    )
    for sign in ("\t", ",", ";", "|", *list(unusual_signs)[:6]):
        counts = Counter(re.sub(r'"[^"]*"', "", line).strip(" \r").count(sign) for line in sample)
        most, times = max(counts.items(), key=lambda pair: (pair[1], pair[0]))
        if most and times >= 0.7 * len(sample) and not _is_inside_cells(sign, sample):
            score = times / len(sample) + 0.02 * min(most, 10) + 0.01 * len(sign)
            if best is None or score > best[0]:
                best = (score, sign)
    return best[1] if best else None


def _is_inside_cells(sign: str, rows: list[str]) -> bool:
    """Whether a sign separates nothing but what is inside a cell.

    In most rows it is in brackets only, as in `users:(("sshd",pid=801,fd=3))`, or all rows have several wide blanks
    that are not beside it.
    """
    bracketed = [row for row in rows if sign in row and "(" in row and not row.lstrip().startswith("(")]
    if sum(1 for row in bracketed if sign not in _BRACKETS.sub("", row)) > 0.5 * len(rows):
        return True
    return not sign.isspace() and all(
        sum(1 for blank in _BETWEEN_CELLS.findall(row) if sign.strip() not in blank) > 1 for row in rows
    )


def _quoted_rows(text: str, sign: str) -> Iterator[tuple[int, list[str], str]]:
    reader = csv.reader(io.StringIO(text), delimiter=sign, strict=False)
    lines = text.split("\n")
    before = 0
    while True:
        cells: list[str] | None = None
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error:
            pass  # A carriage return inside of it, or a cell that is too long.
        first, before = before, reader.line_num
        raw = "\n".join(lines[first:before])
        if cells is None:
            cells = raw.split(sign)
        if cells:
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
    if not namelike or not (numeric_below or not repeats) or _has_their_form(cells, body):
        return False
    return not _is_row_of(sign.join(cells).split(), [line.split() for line in sample[1:]])


def _has_their_form(cells: list[str], rows: list[list[str]]) -> bool:
    """Whether a cell is written as most below it are, with digits or signs in the same places: `10:02:11`, `'id': 7`.

    The names of columns are words.
    """
    for at, cell in enumerate(cells):
        form = shape_of(cell.strip())
        if _FORM.search(form) and sum(
            1 for row in rows if at < len(row) and shape_of(row[at].strip()) == form
        ) > 0.5 * len(rows):
            return True
    return False


def ruled_lines(text: str) -> list[int]:
    """Return the numbers of the lines that are drawn around a header or rows and say nothing themselves."""
    return [at for at, line in enumerate(text.split("\n"), 1) if _RULE.fullmatch(line) and line.strip()]


def tables_of(text: str, fewest: int = 3) -> list[TablePart]:
    """Return drawn or aligned tables and the lines between them; nothing if most lines are no rows."""
    parts = list(table_parts(text, fewest))
    rows = sum(len(part.table.rows) for part in parts if part.table)
    others = sum(len(part.texts) for part in parts if part.table is None)
    return parts if rows >= fewest and others <= 2 * rows else []


def table_parts(text: str, fewest: int = 3) -> Iterator[TablePart]:
    """Yield drawn or aligned tables with at least `fewest` rows (drawn ones with two), and the lines between them."""
    lines = text.split("\n")
    count = len(lines)
    at = failures = 0
    loose = TablePart(None)
    while at < count:
        line = lines[at]
        if not line.strip() or _RULE.fullmatch(line):
            at += 1
            continue
        # Testing for a table costs as much as forty lines: after many failures, test only after blank lines.
        likely = failures < 40 or not lines[at - 1].strip() or at % 64 == 0
        found = (_drawn(lines, at, min(2, fewest)) or _columns(lines, at, fewest)) if likely else None
        failures = 0 if found else failures + 1
        if found is None:
            loose.texts.append(line.rstrip())
            loose.lines.append(at + 1)
            at += 1
            continue
        table, end = found
        if loose.texts:
            yield loose
            loose = TablePart(None)
        yield TablePart(table)
        at = max(end, at + 1)
    if loose.texts:
        yield loose


def _drawn(lines: list[str], at: int, fewest: int) -> tuple[Table, int] | None:
    """Parse a table with `|` between its cells, from line `at` on."""
    sign = next((sign for sign in _BARS if lines[at].count(sign) >= 2 or lines[at].strip().startswith(sign)), None)
    if sign is None or sum(1 for cell in lines[at].split(sign) if cell.strip(" |/")) < 2:
        return None  # A bar before a line draws no table: `| Status=Not/Inst` of `dpkg -l`.
    table = Table([], sign=f" {sign} ")
    end = at
    border = _border(lines[at], sign)
    width = len(_drawn_cells(lines[at], sign, border))
    ruled = at > 0 and _is_drawn_line(lines[at - 1])
    heights = [0]
    while end < len(lines):
        line = lines[end]
        if _is_drawn_line(line):
            heights.append(0)
            if len(table.rows) == 1 and not table.header:
                table.header, table.header_text, table.header_line = (
                    table.rows.pop(),
                    table.texts.pop(),
                    table.lines.pop(),
                )
            ruled = True
            end += 1
            continue
        cells = _drawn_cells(line, sign, border)
        if abs(len(cells) - width) > max(1, width // 4) or sign not in line:
            break
        if border and _border(line, sign) != border:
            break  # A table inside this one, or the one around it.
        table.add(cells, " ".join(line.split()), end + 1)
        heights[-1] += 1
        end += 1
    if len(table.rows) < fewest:
        return None
    if _are_tall(heights):
        if table.header:  # It names the columns of no line.
            table.rows.insert(0, table.header)
            table.texts.insert(0, table.header_text)
            table.lines.insert(0, table.header_line)
        return Table([], rows=table.rows, texts=table.texts, lines=table.lines, sign=table.sign), end
    first, *others = table.rows
    named = not ruled and not any(number_of(cell) is not None for cell in first)
    # Where lines are drawn, one is below the header.
    if not table.header and named and not _is_row_of(first, others) and not _has_their_form(first, others):
        table.header, table.header_text, table.header_line = table.rows.pop(0), table.texts.pop(0), table.lines.pop(0)
    _take_repeats(table)
    _take_shared_key(table)
    return table, end


def _take_shared_key(table: Table) -> None:
    """Take from the first cells, not from the texts, the key that all have: `import time: 212`."""
    key, colon, name = table.header[0].partition(": ") if table.header else ("", "", "")
    key += colon.rstrip()
    if colon and all(row[0].startswith(key) for row in table.rows):
        table.header[0] = name.strip()
        for row in table.rows:
            row[0] = row[0].removeprefix(key).strip()


def _is_drawn_line(line: str) -> bool:
    return bool(_RULE.fullmatch(line)) and not line.isspace() and line != ""


def _border(line: str, sign: str) -> int:
    """Return how many signs are drawn before the first cell."""
    row = line.strip()
    return len(row) - len(row.lstrip(sign))


def _are_tall(heights: list[int]) -> bool:
    """Whether the drawn lines enclose rows of several lines each, as `nvidia-smi` draws them."""
    height, times = Counter(height for height in heights if height).most_common(1)[0]
    return height > 1 and times >= _FEWEST_TALL and times >= 0.5 * len(heights)


def _drawn_cells(line: str, sign: str, border: int) -> list[str]:
    """Split a row at its signs, without its border of so many signs; in Markdown, `\\|` belongs to its cell."""
    row = line.strip()
    for _ in range(border):
        row = row.removeprefix(sign).removesuffix(sign)
    cells = re.split(r"(?<!\\)\|", row) if sign == "|" and "\\|" in row else row.split(sign)
    return [cell.strip() for cell in cells]


def _columns(lines: list[str], at: int, fewest: int) -> tuple[Table, int] | None:
    """Parse a table aligned with blanks, with or without a header, from line `at` on."""
    body = [line for line in lines[at + 1 : at + 40] if line.strip() and not _RULE.fullmatch(line)][:24]
    if len(body) < min(2, fewest):
        return None
    header = lines[at]
    if not lines[at + 1].strip():
        return None  # A line apart from the rows: a title.
    if sum(1 for line in body if line.count("|") >= 2 and "|" not in header) > 0.5 * len(body):
        return None
    underlined = bool(_RULE.fullmatch(lines[at + 1]))
    split = _splitter(header, body, underlined)
    headed = True
    if split is None:
        split = _even_rows(header, body)
        headed = False
        if split is None:
            return None
    cells = split(header)
    if cells is None:
        return None
    rows = [row for line in body if (row := split(line)) is not None]
    if _is_title(lines, at, cells, rows, headed=headed):
        return None  # The header, or the first row, is further down.
    table = Table([])
    end = at
    if headed and not any(number_of(cell) is not None for cell in cells):
        table.header, table.header_text, table.header_line = cells, " ".join(header.split()), at + 1
        end = at + 1
    end = _read_rows(table, lines, end, split, rows)
    _take_repeats(table)
    _keep_columns(table, lines)
    return (table, end) if len(table.rows) >= fewest else None


def _read_rows(table: Table, lines: list[str], end: int, split: Split, sample: list[list[str]]) -> int:
    """Add the rows from line `end` on; return the line after them."""
    width = len(sample[0])
    misfits = 0
    numeric = _numeric_columns(sample)
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
        if _may_be_header(line, row, numeric) and row != table.header and _is_header_of(lines, end):
            break  # Another table begins.
        if row is None and (row := _wrapped_row(lines, end, split)) is not None:
            table.add(row, " ".join(line.split()) + "\n" + " ".join(lines[end + 1].split()), end + 1)
            table.ends[end + 1] = end + 2
            end += 2
            continue
        if row is None:
            misfits += 1
            follows = [other for other in lines[end + 1 : end + 4] if other.strip()]
            if misfits > 2 or sum(1 for other in follows if split(other) is not None) < max(1, len(follows) - 1):
                break
            row = _full_row(line, width) or [line.strip()]
        else:
            misfits = 0
        table.add(row, " ".join(line.split()), end + 1)
        end += 1
    return end


def _wrapped_row(lines: list[str], at: int, split: Split) -> list[str] | None:
    """Return the cells of a row whose first one is too long, so that the others are on the next line, as in `df`."""
    word = lines[at].strip()
    if " " in word or at + 1 >= len(lines) or not lines[at + 1][:1].isspace():
        return None
    rest = split(lines[at + 1])
    return [word, *rest[1:]] if rest is not None and not rest[0] and all(rest[1:]) else None


def _take_repeats(table: Table) -> None:
    """Take the rows out that are the header again, if it is surely one: numbers are below it, or it is in capitals."""
    if not table.header or table.header not in table.rows:
        return
    others = [at for at, row in enumerate(table.rows) if row != table.header]
    name = "".join(table.header)
    if not others or not (name == name.upper() or _is_above(table.header, [table.rows[at] for at in others[:200]])):
        return
    kept = set(others)
    table.repeats = [line for at, line in enumerate(table.lines) if at not in kept]
    _keep_rows(table, others)


def _keep_rows(table: Table, places: list[int]) -> None:
    table.rows = [table.rows[at] for at in places]
    table.texts = [table.texts[at] for at in places]
    table.lines = [table.lines[at] for at in places]


def _is_title(lines: list[str], at: int, cells: list[str], rows: list[list[str]], *, headed: bool) -> bool:
    """Whether a line above a table is neither its header nor a row, though it has as many words as the rows."""
    if headed:
        return _is_above(rows[0], rows[1:])
    return _is_above(cells, rows) or any(_is_header_of(lines, below) for below in (at + 1, at + 2))


def _is_header_of(lines: list[str], at: int) -> bool:
    """Whether a line has words above the numbers of a table below it."""
    if at + 4 > len(lines) or not lines[at].strip() or _RULE.fullmatch(lines[at]):
        return False
    body = [line for line in lines[at + 1 : at + 40] if line.strip() and not _RULE.fullmatch(line)][:24]
    split = _splitter(lines[at], body) if len(body) > 2 else None
    cells = split(lines[at]) if split is not None else None
    if split is None or cells is None:
        return False
    return _is_above(cells, [row for line in body if (row := split(line)) is not None])


def _keep_columns(table: Table, lines: list[str]) -> None:
    """Keep the blanks of the source if a cell before the last is empty: only they show in which column a value is."""
    width = len(table.header)
    if (
        any(len(row) == width and not all(row[: _last_filled(row)]) for row in table.rows)
        if width
        else _have_empty_cells(table, lines)
    ):
        table.header_text = lines[table.header_line - 1].rstrip() if table.header_text else ""
        table.texts = [
            "\n".join(line.rstrip() for line in lines[at - 1 : table.ends.get(at, at)]) for at in table.lines
        ]


def _have_empty_cells(table: Table, lines: list[str]) -> bool:
    """Whether the last words of rows with different numbers of words are below each other: some cells are empty."""
    if len({text.count(" ") for text in table.texts}) < 2:
        return False
    starts = Counter(lines[at - 1].rstrip().rfind(" ") for at in table.lines)
    return max(starts.values()) >= 0.9 * len(table.lines)


def _last_filled(row: list[str]) -> int:
    return max((at for at, cell in enumerate(row) if cell), default=0)


def _numeric_columns(rows: list[list[str]]) -> list[int]:
    """Return the columns in which nearly all rows have a number."""
    return [
        at
        for at in range(max(map(len, rows), default=0))
        if sum(1 for row in rows if at < len(row) and number_of(row[at]) is not None) >= 0.8 * len(rows)
    ]


def _may_be_header(line: str, row: list[str] | None, numeric: list[int]) -> bool:
    """Whether a line among rows with numbers has no digit, and words where they have numbers."""
    if not numeric or any(sign.isdigit() for sign in line):
        return False
    return row is None or all(at < len(row) and row[at][:1].isalpha() for at in numeric)


def _is_above(cells: list[str], rows: list[list[str]]) -> bool:
    """Whether a line is no row of these: it has words where they have numbers, and no cell of theirs."""
    if len(rows) < 3 or any(sign.isdigit() for cell in cells for sign in cell):
        return False
    numeric = [at for at in _numeric_columns(rows) if at < len(cells)]
    if not numeric or not all(cells[at][:1].isalpha() for at in numeric):
        return False
    return not any(cell == other for row in rows for cell, other in zip(cells, row, strict=False) if cell)


def _is_row_of(cells: list[str], rows: list[list[str]]) -> bool:
    """Whether a line is a row of these, not their header: one of its words recurs in its column."""
    others = [row for row in rows if row != cells]
    if len(others) < len(rows) and _is_above(cells, others):
        return False  # The header of every page.
    often = min(max(3.0, RECURS * len(rows)), len(rows))
    return bool(rows) and any(
        any(sign.isalnum() for sign in cell) and sum(1 for row in rows if at < len(row) and row[at] == cell) >= often
        for at, cell in enumerate(cells)
    )


def _splitter(header: str, body: list[str], underlined: bool = False) -> Split | None:
    """Return a function that splits rows under this header, if it splits most of them.

    A line that is drawn below a header proves it, whatever it looks like.
    """
    words = header.split()
    if len(words) < 2 or sum(1 for word in words if number_of(word) is not None) > 0.34 * len(words):
        return None
    if sum(len(word) for word in words) / len(words) > 24 or header.rstrip().endswith((".", ":", ";", ",")):
        return None
    if _STATEMENT.match(header) or _MOMENT.search(header):
        return None
    firsts = [row.split()[0] for row in body]
    if words[0].isalnum() and firsts.count(words[0]) > 0.5 * len(body):
        return None  # It begins as the rows below it do: a row itself.
    begins = Counter(map(shape_of, firsts))
    like_rows = sum(1 for word in words if any(sign.isdigit() for sign in word)) > 0.3 * len(words) or (
        shape_of(words[0]) != "a" and begins[shape_of(words[0])] > 0.5 * len(body) > 1
    )
    if like_rows and not underlined:
        return None  # It looks like the rows below it: a row itself.
    trials: list[Split] = []
    starts = [match.start() for match in re.finditer(r"(?:(?<=\s\s)|(?<=^)|(?<=\t))\S", header)]
    gutters = _gutters(header, body) if len(starts) >= 3 else []
    if len(gutters) >= len(starts) >= 3:
        trials.append(_by_gutters(gutters, body))
    if len(starts) >= 2:
        trials.append(_by_position(starts, 0.6))
    tight = [match.start() for match in re.finditer(r"(?:(?<=\s)|(?<=^))\S", header)]
    if len(tight) >= 3 and tight != starts:
        # Words one blank apart are columns only if nearly every cell below begins under one.
        trials.insert(0, _by_position(_with_cells(tight, starts, body), 0.9))
    only_rows_align = "  " not in header.strip() and sum(1 for row in body if "  " in row.strip()) >= 0.75 * len(body)
    named = not only_rows_align and all(word[0].isalnum() or word[0] in "%(_/@" for word in words)
    if named and _words_fit(len(words), body):
        trials.append(_by_words(len(words)))
    if len(starts) >= 3:
        trials.append(_by_blanks(len(starts)))
    for trial in trials:
        rows = [cells for row in body if (cells := trial(row)) is not None]
        cells = trial(header)
        if len(rows) >= 0.75 * len(body) and cells is not None and not _is_row_of(cells, rows):
            return trial
    return None


def _gutters(header: str, body: list[str]) -> list[tuple[int, int]]:
    """Return where each column below a header ends and the next begins: blank in it and in nearly all rows."""
    lines = [line.expandtabs(8) for line in (header, *body)]
    width = max(map(len, lines))
    if width > _WIDEST_ALIGNED:
        return []
    most = 0.1 * len(body)
    filled = [0] * width
    for line in lines[1:]:
        for match in _WORD.finditer(line):
            for at in range(*match.span()):
                filled[at] += 1
    named = lines[0].rstrip()
    named += "x" * (width - len(named))  # The last column may be free text, with blanks of its own.
    blank = "".join(" " if sign == " " and filled[at] <= most else "x" for at, sign in enumerate(named)).strip()
    begin = next(at for at, sign in enumerate(named) if sign != " " or filled[at] > most)
    gutters = [(begin + match.start(), begin + match.end()) for match in re.finditer(" +", blank)]
    edges = [begin, *(end for _, end in gutters), width]
    if not all(named[first:last].strip() for first, last in pairwise(edges)):
        return []  # A column without a name: the header names others.
    return gutters


def _by_gutters(gutters: list[tuple[int, int]], body: list[str]) -> Split:
    numeric: list[int] = []

    def split(line: str) -> list[str] | None:
        line = line.expandtabs(8)
        # A long cell may reach into a gutter, from either side.
        cuts = [line.find(" ", first, last) if first < len(line) else first for first, last in gutters]
        if -1 in cuts:
            cells = line.split(None, len(gutters))
            fits = numeric and len(cells) > len(gutters)
            return cells if fits and all(number_of(cells[at]) is not None for at in numeric) else None
        cells = [line[first:last].strip() for first, last in pairwise([0, *cuts, max(len(line), cuts[-1])])]
        return cells if sum(map(bool, cells)) > 1 else None

    numeric += _numeric_columns([cells for line in body if (cells := split(line)) is not None])
    return split


def _with_cells(tight: list[int], starts: list[int], body: list[str]) -> list[int]:
    """Drop words one blank after another that have no cell below them: `NOMINATED NODE` is the name of one column."""
    if 2 * len(starts) < len(tight):
        return tight  # A title: most words are one blank apart.
    split = _by_position(tight, 0.0)
    rows = [cells for row in body if (cells := split(row)) is not None]
    wide = set(starts)
    return [start for at, start in enumerate(tight) if start in wide or not rows or any(row[at] for row in rows)]


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
        # Cells that all begin below their names are where they belong; empty ones are empty.
        is_aligned = all(not cell or line.startswith(cell, start) for cell, start in zip(cells, starts, strict=True))
        if fits < wanted and not (is_aligned and 2 <= fits >= len(starts) // 2):
            return None
        return cells if all(cells) or is_aligned else _full_row(line, len(starts)) or cells

    return split


def _full_row(line: str, count: int) -> list[str] | None:
    """Return the cells of a row that has one for each column and is not aligned: none of them is empty."""
    words = line.split()
    cells = words if len(words) == count else _BLANKS.split(line.strip())
    return cells if len(cells) == count else None


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


# ------------------------------------------------------------------ detection

_CELLS = re.compile(r"\S+(?: \S+)*")
_BETWEEN_WORDS = re.compile(r"(?<=\w)[^\w\s\"'.:/@()\[\]{}<>=-]{1,4}(?=\w)")
_WIDE_BLANKS = re.compile(r"\s{2,}")
_QUOTED = re.compile(r'"[^"]*"')
_WORD = re.compile("[^ ]+")
_HEADING_WORD = re.compile(r"\S+")
_AFTER_BLANKS = re.compile(r"(?:(?<=\s\s)|^)\S")
_MILLISECONDS = re.compile(r"(?<=\d:\d\d),(?=\d{3}\b)")
"""A comma that separates no cells."""
_ROWS_BELOW = 60
"""Rows that are compared with a header."""


def form_of(lines: list[str]) -> Literal["csv", "table"] | None:
    """Detect rows: separated by a sign, drawn with lines, or aligned in columns."""
    rows = [line.strip("\t") for line in lines if not _RULE.fullmatch(line)]
    rows = [_MILLISECONDS.sub(".", row) if "," in row else row for row in rows]
    rows = rows[_leading_comments(rows) :]
    if len(rows) < 3:
        return None
    for sign in dict.fromkeys(_BETWEEN_WORDS.findall(rows[0])):
        counts = Counter(row.count(sign) for row in rows)
        most, times = max(counts.items(), key=lambda pair: (pair[1], pair[0]))
        is_even = (most >= 2 and times >= 0.9 * len(rows)) or (most == 1 and times == len(rows) >= 4)
        if is_even and not _is_inside_cells(sign, rows):
            return "csv"
    for sign in (",", "\t", ";", "|"):
        if not any(sign in row for row in rows):
            continue
        counts = Counter(_cells_between(row, sign) for row in rows)
        most, times = max(counts.items(), key=lambda pair: (pair[1], pair[0]))
        if most >= (1 if sign == "\t" else 2) and times >= 0.8 * len(rows):
            if sign == "|":
                return "table"
            if _is_inside_cells(sign, rows):
                continue
            # Prose has commas too, but not the same number in every line.
            if sign == "\t" or len(counts) <= 3 or times >= 0.9 * len(rows):
                return "csv"
    if sum(1 for row in rows if row.lstrip()[:1] in "|│┃" and row.strip()) >= 0.7 * len(rows):
        return "table"
    # The header may follow a few other lines.
    words = [len(row.split()) for row in rows]
    headers = [at for at in range(min(8, len(rows) - 2)) if words[at] >= 2]
    spans = cache(_spans)  # Each row is below several possible headers.
    if any(_aligned(rows[at], rows[at + 1 : at + 1 + _ROWS_BELOW], spans) for at in headers):
        return "table"
    cells = list(map(_count_cells, rows))
    return "table" if any(_regular(cells[at:], words[at:]) for at in headers) else None


def _count_cells(row: str) -> int:
    """Return how many cells several blanks separate."""
    stripped = row.strip()
    if stripped == " ".join(row.split()) and "\0" not in row:
        return 1 if stripped else 0
    return len(_CELLS.findall(_WIDE_BLANKS.sub("\n", row).replace("\0", "\n")))


def _cells_between(row: str, sign: str) -> int:
    if '"' in row and sign != "|":
        row = _QUOTED.sub("", row)
    return row.count(sign)


def _spans(row: str) -> tuple[set[int], set[int]]:
    """Return where the words of a row begin and end."""
    spans = [match.span() for match in _WORD.finditer(row)]
    return {start for start, _ in spans}, {end for _, end in spans}


def _aligned(header: str, body: list[str], spans: Callable[[str], tuple[set[int], set[int]]]) -> bool:
    """Whether columns are aligned with blanks: the header words start (or end) where the cells below do."""
    starts = {match.start() for match in list(_AFTER_BLANKS.finditer(header))[1:]}
    if starts and _mostly((len(starts & spans(row)[0]) >= 0.6 * len(starts) for row in body), len(body)):
        return True
    words = [match.span() for match in _HEADING_WORD.finditer(header)]
    single, ends = {start for start, _ in words}, {end for _, end in words}
    if len(single) < 3:
        return False

    def fits(row: str) -> bool:
        begins, stops = spans(row)
        return max(len(ends & stops), len(single & begins)) >= 0.7 * len(single)

    return _mostly(map(fits, body), len(body))


def _mostly(holds: Iterable[bool], many: int) -> bool:
    """Whether something holds for seven tenths of so many; decided as soon as it fails too often."""
    possible = many
    for each in holds:
        if not each:
            possible -= 1
            if possible < 0.7 * many:
                return False
    return True


def _regular(cells: list[int], words: list[int]) -> bool:
    """Whether nearly all rows have the same number of cells or of words."""
    most, times = max(Counter(cells).items(), key=lambda pair: (pair[1], pair[0]))
    if most >= 3 and times >= 0.85 * len(cells):
        return True
    most, times = max(Counter(words).items(), key=lambda pair: (pair[1], pair[0]))
    return most >= 4 and times >= 0.9 * len(words) and len(words) >= 5
