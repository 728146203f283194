"""Tables: CSV and TSV, Markdown and drawn tables, columns aligned with blanks (`kubectl get`, `ps`, `top`, `netstat`).

Rows are the units, verbatim with single blanks; the header is their owner. A row scores by
its relevance to the focus, by cells that are odd in their column, by bad states, and by
extremes of the requested column. Tables without a header, tables after other lines and
several tables in one text are supported; lines that are not rows are units of their own.

What the counts of the columns say already is not said again by rows: where most rows repeat
others, each is shown once with its count, and of the ordinary rows after the first only the
cells are shown that do not have the usual value of their column.
"""

import heapq
import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from itertools import zip_longest
from typing import Literal

from tersely.condensing.account import runs_of
from tersely.condensing.detect import Reader, Sample, Signs, once
from tersely.condensing.features import Features
from tersely.condensing.field_counts import FEWEST, MOST_NAMED, Counted, FieldValues, match_of, named_values, telling
from tersely.condensing.focus import Focus, scan, subwords
from tersely.condensing.lexicon import STATES
from tersely.condensing.records import Cells, Column, counts_of, sounds_like_a_name, weigh_columns
from tersely.condensing.totals import TemplateLines, Totals
from tersely.condensing.units import GAP, Reading, RepeatedLine, Unit, with_counts
from tersely.condensing.weights import WEIGHTS
from tersely.shapes.tables import Table, TablePart, form_of, ruled_lines, separated, tables_of
from tersely.text.digits import masked_forms

MOST_UNITS = 30_000
WIDEST_ROW = 240
"""In characters. Of wider rows only the columns that matter are shown. Does not depend on the budget, because wider
rows would push out others that a smaller budget shows.
"""
NARROWED_ROW = 160
"""In characters. What is shown of such a row."""
WIDE_CELL = 60
"""In characters. Where so much is left, a cell that is too long is cut rather than left out."""
MOST_COUNTED = 4
"""Columns whose values are counted over all rows because they matter to the question, …"""
MOST_FURTHER = 8
"""… and so many in all if there is room."""
FROM_BUDGET = 150
"""In tokens. A smaller budget has no room for counts."""
MOST_DISTINCT = 0.5
"""Share of different rows up to which equal ones are shown once, with their number."""
USUAL_SHARE = 0.8
"""Share of the rows that have the usual value of a column."""
ORDINARY = 0.3
"""A row that scores at most so much more than half of the rows is an ordinary one."""
DISTINCT = 0.9
"""Share of different values from which on a column may have the names of the rows."""
LEAST_SAVED = 0.25
"""Share of an ordinary row that must have usual values, or it is shown whole."""
TOTALS_LINES = 3
LONGEST_TOTALS = 200
"""Lines above and below a table that may state its totals, and how long such a line may be."""

_AMOUNT = re.compile(r"(?<![\w.:/-])\d[\d,.]*\s+(?!of\b)[^\W\d_]{3,}")
_VARIABLE = re.compile(
    r"[\da-fA-F](?:(?=[0-9a-fA-F]{7})(?:(?<=\b[0-9a-f])[0-9a-f]{7,9}-[a-z0-9]{5}\b|(?<=[0-9a-fA-F])[0-9a-fA-F]{7,})"
    r"|(?<=\d)(?:x[0-9a-fA-F]+|[\w.:-]*+))"
)
"""A number or an identifier. Begins with the characters that it can begin with: others are passed quickly."""
_VARIABLE_ASCII = re.compile(_VARIABLE.pattern, re.ASCII)
_DIGITS = re.compile(r"\d+")
_RATIO = re.compile(r"(\d+)/(\d+)$")
_FEWEST_SEPARATED = 3
_MOST_BESIDE = 2
"""Lines that are no row of a table which proves itself: how many rows there are, or a title."""


def _without_identifiers(text: str) -> str:
    return (_VARIABLE_ASCII if text.isascii() else _VARIABLE).sub("#", text)


def read(text: str, focus: Focus, budget: int) -> Reading | None:
    blocks = tables_of(text)
    if not blocks:
        return None
    reading = reading_of(blocks, focus, budget)
    _fold_rules(reading.units, ruled_lines(text))
    return reading


def read_csv(text: str, focus: Focus, budget: int) -> Reading | None:
    table = separated(text)
    if table is None:
        return read(text, focus, budget)
    above = [(line, text) for line, text in table.comments if line < table.lines[0]]
    others = [(line, text) for line, text in table.comments if line > table.lines[0]]
    blocks = [_beside(above), TablePart(table), _beside(others)]
    return reading_of([block for block in blocks if block.table or block.texts], focus, budget)


def _beside(lines: list[tuple[int, str]]) -> TablePart:
    return TablePart(None, [text for _, text in lines], [line for line, _ in lines])


# ------------------------------------------------------------------ scoring rows


def reading_of(blocks: list[TablePart], focus: Focus, budget: int) -> Reading:
    units: list[Unit] = []
    heads: list[str] = []
    all_totals: list[Totals] = []
    all_texts = [text for block in blocks for text in (block.table.texts if block.table else block.texts)]
    found = scan(all_texts, focus, labels=[label for block in blocks if block.table for label in block.table.header])
    rows = Features(found).scores(WEIGHTS["table"], focus)
    beside = (
        Features(found, roles=_roles_beside(blocks)).scores(WEIGHTS["lines beside tables"], focus)
        if any(block.table is None for block in blocks)
        else []
    )
    leaders = _weigh_alike(blocks, focus, rows)
    offset = first = 0
    titles = _Titles(units)
    for block in blocks:
        if block.table is None:
            between = bool(units) and block.lines[0] < units[-1].first
            for text, line in zip(block.texts, block.lines, strict=True):
                units.append(Unit(text, line, line, beside[offset], titles.above(line)))
                titles.look_at(line, text)
                offset += 1
            if between:  # Comments between the rows of the table above.
                units[first:] = sorted(units[first:], key=lambda unit: unit.first)
            continue
        table = block.table
        size = len(table.rows)
        scores = rows[offset : offset + size]
        title = owner = titles.above(table.header_line if table.header_text else table.lines[0])
        titles.line = table.ends.get(table.lines[-1], table.lines[-1])
        fields = _fields(table, focus) if budget >= FROM_BUDGET else {}
        alike = _equal_rows(table)
        numbered = {} if alike else _numbered_rows(table, scores)
        way = ["equal rows are counted"] * bool(alike) + ["numbered rows are counted"] * bool(numbered)
        counted = {**alike, **numbered}
        totals = Totals(
            size,
            _write_head,
            "rows",
            fields,
            shared=(table.sign, *table.header, *way),
            varies=bool(numbered),
            templates={key: TemplateLines([table.lines[row] for row in rows]) for key, rows in counted.items()},
        )
        found_counts = telling(list(fields.values()), focus, every=True)
        counts, further = _head_lines(totals, found_counts)
        heads += counts
        all_totals.append(totals)
        above = table.header_line if table.header_text else table.lines[0]
        units += [Unit(text, above, above - 1, WEIGHTS["table"].roles["counts"], count=0) for text in further]
        narrow = _narrowed(table, focus, scores)
        if table.header_text:
            owner = len(units)
            units.append(
                Unit(
                    narrow(table.header, table.header_text),
                    table.header_line,
                    table.header_line,
                    WEIGHTS["table"].roles["header"],
                    title,
                    count=0,
                    folded=runs_of((at, at) for at in table.repeats),
                    rows=table.lines,
                )
            )
        first = len(units)
        if alike:
            units += _counted_rows(table, alike, scores, owner)
            offset += size
            continue
        shown: Sequence[int] = range(size)
        most = min(MOST_UNITS, 2_000 + 4 * budget)
        if size > most:
            shown = sorted(heapq.nsmallest(most, range(size), key=lambda row: (-scores[row], row)))
        if numbered:
            hidden = {row for rows in numbered.values() for row in rows}
            units += _counted_rows(table, numbered, scores, owner)
            shown = [row for row in shown if row not in hidden]
        usual = _usual_values(list(fields), found_counts[:MOST_FURTHER], table)
        brief = _without_usual(table, usual, scores, set(shown))
        texts = [narrow(table.rows[row], table.texts[row]) for row in shown]
        shapes = masked_forms(_without_identifiers, [text[:140] for text in texts])
        for row, text, shape in zip(shown, texts, shapes, strict=True):
            units.append(
                Unit(
                    brief.get(row, text),
                    table.lines[row],
                    table.ends.get(table.lines[row], table.lines[row]),
                    scores[row],
                    owner,
                    family=None if offset + row in leaders else shape,
                    whole=text if row in brief else "",
                )
            )
        if numbered:
            units[first:] = sorted(units[first:], key=lambda unit: unit.first)
        offset += size
    alone = len(all_totals) == 1
    return Reading(
        "table",
        units,
        "\n".join(heads),
        decay=0.5,
        totals=(lambda: all_totals[0]) if alone else None,
        proven=alone and _is_proven(blocks),
    )


def _is_proven(blocks: list[TablePart]) -> bool:
    """Whether signs separate the cells, each row has as many as the header, and hardly a line is no row."""
    table = next(block.table for block in blocks if block.table)
    width = len(table.header)
    return (
        table.sign.strip() != ""
        and width >= _FEWEST_SEPARATED
        and all(len(row) == width for row in table.rows)
        and sum(len(block.texts) for block in blocks if block.table is None) <= _MOST_BESIDE
    )


class _Titles:
    """Lines such as `/usr/share/doc/git:` after a blank line, which name what follows up to the next blank line."""

    def __init__(self, units: list[Unit]) -> None:
        self.units = units
        self.line = 0
        """The last line that was looked at."""
        self.title: int | None = None

    def above(self, line: int) -> int | None:
        """Return the unit of the title of a line, if nothing but other lines is between them."""
        return self.title if line == self.line + 1 else None

    def look_at(self, line: int, text: str) -> None:
        """Take note of the last unit, a line beside the tables."""
        if line != self.line + 1 or not self.line:
            is_title = text.endswith(":") and not text[:1].isspace() and len(text) <= LONGEST_TOTALS
            self.title = len(self.units) - 1 if is_title else None
        self.line = line


def _fold_rules(units: list[Unit], rules: list[int]) -> None:
    """Let the line above a drawn line represent it, or the line below if there is none: no content is missing there."""
    if not rules:
        return
    by_line = {unit.first: unit for unit in units if unit.first <= unit.last}
    for first, last in runs_of((rule, rule) for rule in rules):
        unit = by_line.get(first - 1) or by_line.get(last + 1)
        if unit is not None and not callable(unit.folded):
            unit.folded = runs_of((*unit.folded, (first, last)))


def _roles_beside(blocks: list[TablePart]) -> list[str]:
    """Return for each row and line if it states totals: an amount of something, right above or below a table.

    `1842 function calls in 0.031 seconds` says of the whole what no row does.
    """
    roles: list[str] = []
    for at, block in enumerate(blocks):
        texts = block.table.texts if block.table else block.texts
        found = ["line"] * len(texts)
        if block.table is None:
            near: set[int] = set()
            if at + 1 < len(blocks):
                near.update(range(max(0, len(texts) - TOTALS_LINES), len(texts)))
            if at:
                near.update(range(min(TOTALS_LINES, len(texts))))
            for number in near:
                if len(texts[number]) <= LONGEST_TOTALS and _AMOUNT.search(texts[number]):
                    found[number] = "totals"
        roles += found
    return roles


def _equal_rows(table: Table) -> dict[Hashable, list[int]]:
    """Return the rows by their text if most of them repeat others."""
    alike: dict[Hashable, list[int]] = {}
    size = len(table.texts)
    for row, text in enumerate(table.texts):
        if len(alike) > MOST_DISTINCT * size:
            return {}
        alike.setdefault(text, []).append(row)
    return alike if len(alike) <= MOST_DISTINCT * size else {}


def _numbered_rows(table: Table, scores: list[float]) -> dict[Hashable, list[int]]:
    """Return ordinary rows that differ in their number only, by their other cells, if most of them do.

    As in logs, `×N` means equal up to values. A second column of different values may be a measure, which matters.
    """
    size = len(table.rows)
    width = _width(table)
    different = [at for at in range(width) if len(_column(table, at).counts) > MOST_DISTINCT * size]
    if size < FEWEST or len(different) != 1:
        return {}
    (number,) = different
    form = Counter(map(_number_form, _column(table, number))).most_common(1)[0][0]
    if "9" not in form:
        return {}
    limit = sorted(scores)[size // 2] + ORDINARY
    alike: dict[Hashable, list[int]] = {}
    for row, cells in enumerate(table.rows):
        if scores[row] <= limit and len(cells) == width and _number_form(cells[number]) == form:
            alike.setdefault((*cells[:number], *cells[number + 1 :]), []).append(row)
    if sum(map(len, alike.values())) < MOST_DISTINCT * size or len(alike) > 0.1 * size:
        return {}
    return {key: rows for key, rows in alike.items() if len(rows) > 1}


def _number_form(cell: str) -> str:
    """Return a cell with a 9 for each of its numbers: rows that differ in `SKU-00017` only are equal up to it."""
    return _DIGITS.sub("9", cell)


def _counted_rows(table: Table, alike: dict[Hashable, list[int]], scores: list[float], owner: int | None) -> list[Unit]:
    """Return one unit for all rows that are equal, or equal up to their number, with how many they are."""
    units: list[Unit] = []
    for key, rows in alike.items():
        text = table.texts[rows[0]]
        line, *others = (table.lines[row] for row in rows)
        units.append(
            Unit(
                with_counts(text, len(rows)),
                line,
                table.ends.get(line, line),
                max(scores[row] for row in rows),
                owner,
                count=len(rows),
                folded=runs_of((at, table.ends.get(at, at)) for at in others),
                repeated=RepeatedLine(key, text),
            )
        )
    return units


def _usual_values(columns: list[str], counts: list[tuple[float, int, Counted]], table: Table) -> dict[int, str]:
    """Return the columns in which nearly all rows have one value that a count in the head states."""
    usual: dict[int, str] = {}
    for _, at, counted in counts:
        column = int(columns[at])
        value, times = _column(table, column).counts.most_common(1)[0]
        if times >= USUAL_SHARE * len(table.rows) and value in counted.listed:
            usual[column] = value
    return usual


def _without_usual(table: Table, usual: dict[int, str], scores: list[float], shown: set[int]) -> dict[int, str]:
    """Return the ordinary ones of these rows without their usual values where that saves enough.

    The first ordinary row of all stays whole.
    """
    if not usual or not scores or _is_wide(table):
        return {}
    limit = sorted(scores)[len(scores) // 2] + ORDINARY
    brief: dict[int, str] = {}
    seen = False
    for row, cells in enumerate(table.rows):
        if scores[row] > limit:
            continue
        if not seen:
            seen = True
            continue
        if row not in shown:
            continue
        if table.sign == " " and not all(cells):
            continue  # Blanks show in which column a value is.
        hidden = {at for at, value in usual.items() if at < len(cells) and cells[at] == value}
        text = _without_cells(cells, hidden, table.sign)
        if len(text) <= (1 - LEAST_SAVED) * len(table.texts[row]):
            brief[row] = text
    return brief


def _without_cells(cells: list[str], hidden: set[int], sign: str) -> str:
    parts: list[str] = []
    for column, cell in enumerate(cells):
        if column not in hidden:
            parts.append(cell)
        elif not parts or parts[-1] != GAP:
            parts.append(GAP)
    return sign.join(parts)


def _width(table: Table) -> int:
    return Counter(map(len, table.rows)).most_common(1)[0][0]


def _is_wide(table: Table) -> bool:
    """Whether few rows would fit, so that only the columns that matter are shown. Blanks between cells cost little."""
    sample = [" ".join(text.split()) for text in table.texts[:200]]
    return sum(map(len, sample)) > WIDEST_ROW * len(sample) and _width(table) >= 6


def _narrowed(table: Table, focus: Focus, scores: list[float]) -> Callable[[list[str], str], str]:
    """Return how rows are shown: whole, or if few would fit, only the columns that matter, with `…` for the others."""
    size = len(table.rows)
    width = _width(table)
    if not _is_wide(table):
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
        if sounds_like_a_name(label) or not STATES.isdisjoint(subwords(label)):
            wanted[column] += 0.8
        kinds = set(values)
        if len(kinds) <= 1:
            wanted[column] -= 1.0
    room = NARROWED_ROW
    shown: set[int] = set()
    ranked = sorted(range(width), key=lambda column: (-wanted[column], column))
    for column in ranked:
        cost = max((len(table.rows[row][column]) for row in best if column < len(table.rows[row])), default=0) + 2
        if cost <= room:
            shown.add(column)
            room -= cost
    # The first column that is too wide, such as the command of a process, is cut to what is left.
    wide = next((column for column in ranked if column not in shown), -1) if room >= WIDE_CELL else -1
    shown.add(wide)

    def narrow(cells: list[str], text: str) -> str:
        if 0 <= wide < len(cells) and len(cells[wide]) > room:
            cells = [*cells[:wide], f"{cells[wide][:room].rsplit(None, 1)[0]} {GAP}", *cells[wide + 1 :]]
        return _without_cells(cells, {at for at in range(len(cells)) if at not in shown}, table.sign)

    return narrow


def _column(table: Table, column: int) -> Cells:
    if not table.columns:
        table.columns.update(enumerate(map(Cells, zip_longest(*table.rows, fillvalue=""))))
    found = table.columns.get(column)
    if not isinstance(found, Cells):
        found = table.columns[column] = Cells([""] * len(table.rows))
    return found


def _weigh_alike(blocks: list[TablePart], focus: Focus, scores: list[float]) -> set[int]:
    """Weigh the rows of all tables, those under the same header together; return the rows that lead by their rank.

    Programs that report every second repeat the header, and the highest value is that of all reports.
    """
    groups: dict[tuple[str, ...], list[tuple[int, Table]]] = {}
    offset = 0
    for at, block in enumerate(blocks):
        if block.table is not None:
            key = tuple(block.table.header) or (str(at),)
            groups.setdefault(key, []).append((offset, block.table))
        offset += len(block.table.rows) if block.table else len(block.texts)
    leaders: set[int] = set()
    for alike in groups.values():
        _weigh_rows(alike, focus, scores, leaders)
    return leaders


def _weigh_rows(alike: list[tuple[int, Table]], focus: Focus, scores: list[float], leaders: set[int]) -> None:
    """Weigh the rows of tables with the same header, each with the number of the texts before it."""
    roles = WEIGHTS["table"].roles
    places = [offset + row for offset, table in alike for row in range(len(table.rows))]
    header = alike[0][1].header
    widths = Counter(len(row) for _, table in alike for row in table.rows)
    width = max(len(header), widths.most_common(1)[0][0] if places else 0)
    columns = [
        Column(
            header[at] if at < len(header) else "",
            places,
            _column(alike[0][1], at)
            if len(alike) == 1
            else [cell for _, table in alike for cell in _column(table, at)],
        )
        for at in range(width)
    ]
    weigh_columns(scores, columns, focus, leaders)
    if focus.trouble:
        for column in columns:
            if any("/" in value for value in column.values[:50]):
                for place, value in zip(places, column.values, strict=True):
                    ratio = _RATIO.match(value) if len(value) < 12 else None
                    if ratio and ratio.group(1) != ratio.group(2):
                        scores[place] += roles["incomplete"]
    _raise_named(columns, focus, scores)
    for offset, table in alike:
        for row in range(min(3, len(table.rows))):
            scores[offset + row] += roles["first rows"] / len(alike)


def _raise_named(columns: list[Column], focus: Focus, scores: list[float]) -> None:
    """Raise the rows whose name is a word of the question: the package `make` rather than all that is about making."""
    if not focus.words:
        return
    for column in columns:
        if len(counts_of(column.values)) < DISTINCT * len(column.values):
            continue
        named = [at for at, value in enumerate(column.values) if value.partition(":")[0].lower() in focus.words]
        for at in named if len(named) <= MOST_NAMED else ():
            scores[column.rows[at]] += WEIGHTS["table"].roles["named"]


def _fields(table: Table, focus: Focus) -> dict[str, FieldValues]:
    if len(table.rows) < FEWEST:
        return {}
    short = [row for row in table.rows if len(row) < len(table.header)]
    fields: dict[str, FieldValues] = {}
    for at, label in enumerate(table.header):
        values = _column(table, at)
        absent = sum(1 for row in short if len(row) <= at)
        if absent:  # The row ends before this column, which is not an empty value.
            values = Cells([row[at] for row in table.rows if len(row) > at])
        if label:
            named = named_values(values.counts.keys(), focus)
            fields[str(at)] = FieldValues(label, values, absent, match_of(label, focus), named)
    return fields


def _write_head(totals: Totals, focus: Focus) -> tuple[list[str], list[str]]:
    """Write what all rows have in the columns that matter to the question, and in the others.

    The others say more about the ordinary rows than a few of these rows would.
    """
    return _head_lines(totals, telling(list(totals.fields.values()), focus, every=True))


def _head_lines(totals: Totals, found: list[tuple[float, int, Counted]]) -> tuple[list[str], list[str]]:
    fields = list(totals.fields.values())
    texts = [f"[{totals.count} rows; {fields[at].label}: {counted.text}]" for _, at, counted in found]
    matter = min(MOST_COUNTED, sum(1 for score, _, _ in found if score > 0))
    meaning = ["[×N: rows equal except for a number]"] if totals.varies else []
    return [*texts[:matter], *meaning], texts[matter:MOST_FURTHER]


@once
def columns_of(sample: Sample) -> Literal["csv", "table"] | None:
    return form_of(sample.lines)


def _is_table(sample: Sample) -> bool:
    if columns_of(sample) != "table":
        return False
    return sample.keys + sample.items + sample.assigns + sample.sections < 0.7 or _is_one_key(sample)


def _is_one_key(sample: Sample) -> bool:
    """Whether all lines begin with the same key, which names none of them: `import time: 212 | 212 | io`."""
    keys = Counter(line.partition(":")[0] for line in sample.lines)
    return sample.many >= FEWEST and keys.most_common(1)[0][1] >= USUAL_SHARE * sample.many


READER = Reader("table", Signs((0.66, _is_table)), read, proven=False, holds_json=True, by_line=True, may_repeat=True)
