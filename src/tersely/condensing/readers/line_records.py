"""Records of several lines: commits, findings of linters, threads, failures, anything whose blocks open alike.

How blocks open is learned from the text (`shapes.line_records`). A block is scored as a whole; its opening and the
lines that locate it (author, path and line) identify it and are shown with every other line of it.

Declines texts whose blocks are not found in nearly all of their lines; source code, Markdown
and lists of `key: value` have readers of their own.
"""

import math
import re
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field

from tersely.condensing.account import runs_of
from tersely.condensing.detect import Reader, Sample, Signs
from tersely.condensing.features import Features, pinned
from tersely.condensing.focus import Focus, Found, scan
from tersely.condensing.pack import first_stage
from tersely.condensing.readers.outlines import is_yaml
from tersely.condensing.readers.stack import OWN, Traces, find, worth_of_lines
from tersely.condensing.records import (
    Column,
    columns_of_lines,
    looks_like_a_name,
    numbers_of,
    oddness,
    sounds_like_a_name,
    weigh_columns,
)
from tersely.condensing.units import CHARACTERS_PER_TOKEN, Reading, Unit
from tersely.condensing.weights import WEIGHTS
from tersely.shapes.line_records import (
    FEWEST,
    HASH,
    NUMBER,
    QUOTED,
    Opening,
    names_a_commit,
    opened_blocks,
    opening_of,
    without_graph,
    word_of,
)
from tersely.text.digits import of_each_form

MOST_FIELDS = 30
"""Lines of a block among which fields are looked for."""
LONGEST_LINE = 600
MOST_UNITS = 40_000
MOST_FOR_COLUMNS = 100_000

MOST_RECUR = 0.5
"""Share of the lines whose shape must recur in half of the blocks for the others to be rare."""
SHARE_OF_BLOCK = 0.3
"""Share of a block's score that each of its lines has; less in a block of more than the next many lines."""
USUAL_BLOCK = 10
SHARE_OF_FIELD = 0.6
"""The same for lines that recur in nearly every block: they describe it; less if there are more than the next many."""
USUAL_FIELDS = 4
OF_TITLE = 0.8
"""The same for the first line below the opening and its fields, e.g. the subject of a commit."""
ODD = 2.0
"""What a line with a value that is odd among the blocks gains, if the question asks for the unusual; …"""
ODD_IN_PASSING = 0.8
"""… and if it does not."""
MOST_WORDS = 20
"""Words of a field that are compared between blocks."""
IDENTITY = 0.97
"""Score of a line that locates a block, as a share of the best line of the block."""
DISTINCT = 0.9
"""Share of the blocks that must differ in a field for it to identify them, …"""
MOST_NAMES = 2
"""… if their openings do not; as many such fields at most, …"""
LONGEST_NAME = 60
"""… each of at most so many characters."""
MOST_CLOSING = 20
"""Lines below the last block that are its summary; of more, only the last ones close the text."""
MOST_COUNTED = 12
"""Openings that the head counts one by one."""
LONGEST_GROUP = 48
"""Characters of an opening in such a count."""
MOST_STANDING_OUT = 4
"""Blocks with odd or requested values whose other fields are worth as much as the openings of all blocks; if more are
equally odd, none of them stands out.
"""
LEAST_ODD = 0.3
"""What a field of such a block gains at least."""
INDEX = 1.5
"""What openings gain if all of them together are an affordable index of the text."""
INDEX_SHARE = 0.35
"""Largest share of the budget for such an index."""

_LISTED = re.compile(r"-[rwxsStT-]{9}\S?\s+\d+\s+\S+\s+\S+\s+(\d+)\s")
_MAY_BE_HASH = re.compile(r"[0-9a-f][0-9a-f]{31}")
_LONG_HASH = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{20,52}\b")
_LOCATION = re.compile(r"(?:^|[\s(\"'])[\w./\\@+-]+\.\w{1,10}[\"']?[:(,](?: line )?\d+|<[^<>\s]+@[^<>\s]+>")
_VALUE = re.compile(r"\b(?=[^\W\d]*+\d)\w++(?:[.:/-]\w++)*+")
_VALUE_ASCII = re.compile(_VALUE.pattern, re.ASCII)
_WORDS = re.compile(r"\w")
_TEXT = re.compile(r"[^\W\d_]{2,}")
_LABEL = re.compile(r"([A-Za-z][\w.()/-]*(?: [\w.()/-]+){0,3}):\s+(\S)")
_AMOUNT = re.compile(r"(?<![\w.-])(\d+(?:[.,]\d+)*)\s+([a-z]+(?: [a-z]+)?)")
_FIELD = re.compile(r"(?:^|\s)([A-Za-z][\w .-]{0,30}?)(?::\s+|=)(\S[^\t]*?)(?=\s{2,}|\s+[\w.-]+=|$)")
_PAIR = re.compile(r"\s*(\S.{0,40}?)\s*(?:[.:=~>|-]{2,}|[:=]\s|\s{2,}|\t)\s*(\S.*)")
_SIGNS = " \t:=.-~>|*"
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DATE = re.compile(r"(?:[A-Z][a-z]{2},? )?(?:([A-Z][a-z]{2}) (\d{1,2})|(\d{1,2}) ([A-Z][a-z]{2}))[ ,]")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_CLOCK = re.compile(r"\b\d\d:\d\d:\d\d\b")


@dataclass(slots=True)
class Record:
    """A block: the indices of its non-blank lines; the first one opens it."""

    lines: list[int]
    score: float = 0.0
    fields: list[int] = field(default_factory=list)
    """The lines whose beginning recurs in nearly every block, the opening excluded."""
    names: list[int] = field(default_factory=list)
    """The fields that tell it from the other blocks, where their openings are the same."""
    raised: dict[int, float] = field(default_factory=dict)
    """Lines with values that the question asks for, with what they gain."""

    def repeated(self) -> list[int]:
        """The lines that may be the same in all blocks."""
        return self.lines[1 : 1 + MOST_FIELDS]


def detect(lines: Sequence[str]) -> bool:
    """Whether these lines (with blank ones) consist of blocks that open alike."""
    return opening_of(without_graph(lines)) is not None


def read(text: str, focus: Focus, budget: int) -> Reading | None:
    lines = without_graph(text.split("\n"))
    opening = opening_of(lines)
    return read_opened(lines, opening, focus, budget) if opening is not None else None


def read_opened(lines: Sequence[str], opening: Opening, focus: Focus, budget: int) -> Reading | None:
    """Read blocks whose opening is known."""
    filled = [at for at, line in enumerate(lines) if line and _WORDS.search(line[:400])]
    texts = [_shown(lines[at]) for at in filled]
    preface, blocks, loose = opened_blocks(lines, filled, opening)
    if len(blocks) < 2:
        return None
    records = [Record(block) for block in blocks]
    traces = find(texts)
    _find_fields(lines, filled, records, traces.inside)
    named = _find_names(records, texts)
    found = scan(texts, focus)
    ranked = _score(records, texts, found, focus)
    rows = _RowScores(records, texts, found, focus, traces, named=named, ranked=ranked)
    units = _shared_lines(records, texts, filled, rows)
    standing_out = _standing_out(records)
    chosen = _of_best(records, min(MOST_UNITS, 2_000 + 4 * budget))
    room = INDEX_SHARE * first_stage(budget) * CHARACTERS_PER_TOKEN
    of_opening = INDEX if _size_of_openings(records, texts) <= room else 0.0
    order = sorted(
        [(index, None) for index in (*preface, *loose)] + [(record.lines[0], at) for at, record in enumerate(records)]
    )
    roles = _roles_at_the_end(loose, records[-1], texts, found)
    for index in records[-1].lines[1:]:
        rows.own[index] += WEIGHTS["records"].roles["outcome"] if index in roles else 0.0
    openings: list[Unit] = []
    for index, at in order:
        if at is None:
            score = WEIGHTS["records"].roles[roles.get(index, "loose")] + rows.own[index]
            units.append(Unit(texts[index], filled[index] + 1, filled[index] + 1, score))
        else:
            first = len(units)
            beside = INDEX if at in standing_out else 0.0
            units += _units(
                records[at], texts, filled, rows, first, whole=at in chosen, of_opening=of_opening, beside=beside
            )
            openings.append(units[first])
    _count_equal(openings)
    return Reading("records", units, head=_head(records, rows))


def _roles_at_the_end(loose: list[int], last: Record, texts: list[str], found: Found) -> dict[int, str]:
    """Return which lines beside the blocks, or at the end of the last one, state an outcome or close the text."""
    closing = [index for index in loose if index > last.lines[-1]]
    roles = dict.fromkeys(closing if len(closing) <= MOST_CLOSING else closing[-3:], "closing")
    may_be = [*loose, *last.lines[1:]]
    marked = pinned([texts[index].strip() for index in may_be], [found.severity[index] for index in may_be])
    outcomes = [index for index, is_one in zip(may_be, marked, strict=False) if is_one]
    if outcomes:
        times = Counter(of_each_form(_without_values, texts))  # What every block says is not about all of them.
        roles.update({index: "outcome" for index in outcomes if times[_without_values(texts[index])] == 1})
    return roles


def _count_equal(openings: list[Unit]) -> None:
    """Let one of the openings that are equal count the others, which are shown only above lines of their blocks."""
    groups: dict[str, list[Unit]] = {}
    for unit in openings:
        if unit.parent is None and unit.score >= 0:
            groups.setdefault(unit.text, []).append(unit)
    for first, *others in groups.values():
        if others:
            first.text += f" [opens {len(others) + 1} blocks]"
            first.score = max(first.score, *(unit.score for unit in others))
            first.folded = runs_of((unit.first, unit.last) for unit in others)
            for unit in others:
                unit.score = -1.0


def _size_of_openings(records: list[Record], texts: list[str]) -> int:
    """Return the characters of what names the blocks."""
    return sum(len(texts[at]) + 4 for record in records for at in (record.lines[0], *record.names))


def short_hashes(line: str) -> str:
    """Shorten the hashes of a line to twelve digits, which tools accept for the whole."""
    return _LONG_HASH.sub(r"\1…", line) if len(line) > 32 and _MAY_BE_HASH.search(line) else line


def _shown(line: str) -> str:
    """Return a line without trailing blanks, with its hashes shortened and cut if it is very long."""
    line = short_hashes(line.rstrip())
    return line if len(line) <= LONGEST_LINE else line[:LONGEST_LINE] + " …"


def _find_fields(lines: Sequence[str], filled: list[int], records: list[Record], frames: Container[int]) -> None:
    """Find the lines near the top of blocks whose beginning recurs in nearly every block; frames describe none."""
    keys: list[list[tuple[int, str]]] = []
    counts: Counter[str] = Counter()
    for record in records:
        own: list[tuple[int, str]] = []
        for index in record.lines[1 : 1 + MOST_FIELDS]:
            if index in frames:
                continue
            content = lines[filled[index]].lstrip()[:200]
            label = _LABEL.match(content)
            word, rest = label.groups() if label else word_of(content)
            if not label and not _TEXT.search(word):
                second, rest = word_of(rest)  # A number says which row it is, the word after it what of.
                word += " " + second
            if rest:
                own.append((index, word))
        keys.append(own)
        counts.update({key for _, key in own})
    lines_with = Counter(key for own in keys for _, key in own)
    # Rows of a list begin alike too, but several times in a block.
    common = {key for key, times in counts.items() if times >= 0.7 * len(records) and lines_with[key] <= 1.3 * times}
    for record, own in zip(records, keys, strict=True):
        seen: set[str] = set()
        for index, key in own:
            if key in common and key not in seen:
                seen.add(key)
                record.fields.append(index)


def _find_names(records: list[Record], texts: list[str]) -> bool:
    """Find the fields that tell the blocks apart if their openings do not; return whether there are any."""
    if len({texts[record.lines[0]] for record in records}) > (1 - DISTINCT) * len(records) + 1:
        return False
    places: dict[str, list[int]] = {}
    for at, record in enumerate(records):
        for index in record.fields:
            pair = _LABEL.match(texts[index].lstrip()[:300])
            found = places.setdefault(pair[1], []) if pair else []
            if len(found) == at:  # In every block so far, and once in each.
                found.append(index)
    ranked: list[tuple[float, list[int]]] = []
    for label, found in places.items():
        values = [texts[index].strip()[len(label) :].strip(_SIGNS) for index in found]
        if len(found) < len(records) or len(set(values)) < DISTINCT * len(records):
            continue
        if max(map(len, values)) <= LONGEST_NAME and numbers_of(values) is None:
            ranked.append((sounds_like_a_name(label) + looks_like_a_name(values[:40]), found))
    ranked.sort(key=lambda each: (-each[0], each[1][0]))
    for _, found in ranked[:MOST_NAMES]:
        for record, index in zip(records, found, strict=True):
            record.names.append(index)
    for record in records:
        record.names.sort()
    return bool(ranked)


def _score(records: list[Record], texts: list[str], found: Found, focus: Focus) -> bool:
    """Score each block as a whole: by its terms, by how rare its opening is, and by its rank in what is asked for.

    Return whether a field of the blocks is what the question asks for.
    """
    whole = scan(["\n".join(texts[index] for index in record.lines[:200]) for record in records], focus)
    openings, varied = _openings(records, texts)
    # Words of severity inside a long message say little; in the identifying lines they say what the block is.
    whole.severity = [max(found.severity[index] for index in (each.lines[0], *each.fields)) for each in records]
    features = Features(whole, roles=["record"] * len(records))
    if varied:
        counts = Counter(openings)
        features.rarity = [1 / counts[opening] for opening in openings]
    scores = features.scores(WEIGHTS["records"], focus, unusual=not focus)
    asks_for_values = focus.superlative or focus.unusual or focus.comparisons or focus.negated
    if asks_for_values and not _LISTED.match(texts[records[0].lines[-1]]):
        _weigh_values(records, scores, texts, focus)
    ranked = any(record.raised for record in records)
    _raise_odd_fields(records, texts, ODD if focus.unusual else ODD_IN_PASSING)
    for record, score in zip(records, scores, strict=True):
        record.score = score
    return ranked


def _raise_odd_fields(records: list[Record], texts: list[str], worth: float) -> None:
    """Raise the fields that differ in a word, or after their label, from the same field of nearly all other blocks."""
    fields: dict[tuple[str, int], tuple[list[int], list[int], list[list[str]]]] = {}
    for row, record in enumerate(records):
        for index in record.fields:
            words = texts[index][:LONGEST_LINE].split(None, MOST_WORDS)
            rows, places, found = fields.setdefault((words[0] + words[1], len(words)), ([], [], []))
            rows.append(row)
            places.append(index)
            found.append(words)
            label = _LABEL.match(texts[index][:LONGEST_LINE].lstrip())
            if label:
                rows, places, found = fields.setdefault((label[1], 0), ([], [], []))
                rows.append(row)
                places.append(index)
                found.append([texts[index][:LONGEST_LINE].lstrip()[label.start(2) :]])
    for (_, length), (rows, places, found) in fields.items():
        if len(rows) < 5 or length > MOST_WORDS:
            continue
        for values in zip(*found, strict=True):
            if len(set(values)) == 1:
                continue
            for position, odd in oddness(values, numbers_of(values)).items():
                raised = records[rows[position]].raised
                raised[places[position]] = max(raised.get(places[position], 0.0), worth * odd)


def _openings(records: list[Record], texts: list[str]) -> tuple[list[str], bool]:
    """Return what each opening says apart from values, and whether this divides the blocks into groups.

    It is the first word of the opening, or else the opening without numbers, hashes and quoted names.
    """
    first = [texts[record.lines[0]] for record in records]
    openings = list(map(_first_word, first))
    if not _divide(openings):
        openings = of_each_form(_without_values, first)
    return openings, _divide(openings)


def _divide(openings: list[str]) -> bool:
    return 1 < len(set(openings)) <= 0.5 * len(openings)


def _without_values(line: str) -> str:
    value = _VALUE_ASCII if line.isascii() else _VALUE
    line = QUOTED.sub("…", line[:200])
    if NUMBER.search(line):  # Each hash and value has a digit.
        line = value.sub("…", HASH.sub("…", line))
    return line.strip()


def _first_word(line: str) -> str:
    return line.split(None, 1)[0]


def _weigh_values(records: list[Record], scores: list[float], texts: list[str], focus: Focus) -> None:
    """Raise the blocks whose values the question asks for, and the lines with these values.

    Values are the fields of a block, and amounts such as `3 files changed` in its last lines.
    """
    found: dict[str, tuple[list[int], list[str], list[int]]] = {}
    for row, record in enumerate(records):
        pairs = [
            (label, value, index)
            for index in (record.lines[0], *record.fields)
            for label, value in _FIELD.findall(texts[index][:300]) or _labelled(texts[index], index in record.fields)
        ]
        for index in record.lines[-2:]:
            pairs += [(label, amount, index) for amount, label in _AMOUNT.findall(texts[index][:200])]
        seen: set[str] = set()
        for label, value, index in pairs:
            label = label.strip().lower()
            if label not in seen and (label in found or len(found) < 400):
                seen.add(label)
                rows, values, places = found.setdefault(label, ([], [], []))
                rows.append(row)
                values.append(_sortable(value))
                places.append(index)
    fewest = max(FEWEST, 0.2 * len(records))
    found = {label: entry for label, entry in found.items() if len(entry[0]) >= fewest}
    if not found:
        return
    before = list(scores)
    weigh_columns(scores, [Column(label, rows, values) for label, (rows, values, _) in found.items()], focus)
    if focus.unusual:
        for rows, values, places in found.values():
            for position, odd in oddness(values, numbers_of(values)).items():
                raised = records[rows[position]].raised
                raised[places[position]] = max(raised.get(places[position], 0.0), ODD * odd)
    asked = max(found, key=focus.names)
    if focus.names(asked) > 0:
        for row, index in zip(found[asked][0], found[asked][2], strict=True):
            if scores[row] - before[row] > 0.5:
                records[row].raised[index] = scores[row] - before[row]


def _labelled(line: str, is_field: bool) -> list[tuple[str, str]]:
    """Return the label of a field and its value: what is before and after signs or a gap, else after the first word."""
    pair = _PAIR.match(line[:300])
    label, value = pair.groups() if pair else line.strip()[:300].partition(" ")[::2]
    return [(label.strip(_SIGNS), value.strip(_SIGNS))] if is_field and value.strip(_SIGNS) else []


def _sortable(value: str) -> str:
    """Return a written date as `2024-10-18 09:11:23`, any other value as it is."""
    date, year = _DATE.match(value), _YEAR.search(value)
    if not date or not year:
        return value
    name = (date[1] or date[4]).lower()
    month = _MONTHS.index(name) + 1 if name in _MONTHS else 0
    clock = _CLOCK.search(value)
    return f"{year[0]}-{month:02}-{int(date[2] or date[3]):02} {clock[0] if clock else ''}".strip() if month else value


def _standing_out(records: list[Record]) -> set[int]:
    """Return the few blocks with the oddest values: what else they say belongs to these."""
    gains = {at: max(record.raised.values()) for at, record in enumerate(records) if record.raised}
    best = max(gains.values(), default=0.0)
    found = sorted(gains, key=lambda at: (-gains[at], at))[: MOST_STANDING_OUT + 1]
    if best < LEAST_ODD or (len(found) > MOST_STANDING_OUT and gains[found[-1]] >= best):
        return set()
    return {at for at in found[:MOST_STANDING_OUT] if gains[at] >= LEAST_ODD}


def _of_best(records: list[Record], most: int) -> set[int]:
    """Choose the blocks whose lines become units; of the others only the opening does."""
    order = sorted(range(len(records)), key=lambda at: (-records[at].score, at))
    chosen: set[int] = set()
    for at in order:
        if most <= 0:
            break
        chosen.add(at)
        most -= len(records[at].lines)
    return chosen


class _RowScores:
    """Scores of single lines, the openings that several blocks share, and lines that are equal in nearly all blocks."""

    def __init__(
        self,
        records: list[Record],
        texts: list[str],
        found: Found,
        focus: Focus,
        traces: Traces,
        *,
        named: bool,
        ranked: bool,
    ) -> None:
        features = Features(found)
        if len(texts) <= MOST_FOR_COLUMNS:
            features.rarity = _rare_lines(records, texts)
        features.frames = self.frames = worth_of_lines(texts, traces)
        self.own = features.scores(WEIGHTS["lines of records"], focus)
        openings, varied = _openings(records, texts)
        self.group = dict(zip((record.lines[0] for record in records), openings, strict=True)) if varied else {}
        common = Counter(texts[index] for record in records for index in record.repeated())
        if named:
            common.update(texts[record.lines[0]] for record in records)
        self.shared = {text: times for text, times in common.items() if times >= 0.9 * len(records)}
        # `commit 4f8c…` names a block and says nothing about it: it is shown with other lines only.
        plain = sum(1 for record in records if len(_TEXT.findall(HASH.sub("", texts[record.lines[0]]))) < 2)
        self.names_only = named or plain > 0.8 * len(records)
        self.numberless: list[str] = NUMBER.sub("#", "\n".join([text[:160] for text in texts])).split("\n")
        """The beginning of each line without its numbers."""
        self.leaders: set[int] = set()
        for record in records:
            for index, gain in record.raised.items():
                self.own[index] += gain
        by_line = focus.superlative or focus.comparisons or focus.negated
        if by_line and len(texts) <= MOST_FOR_COLUMNS:
            columns = _listed_sizes(texts)
            if not columns and not ranked:
                columns = columns_of_lines(texts, focus)
            weigh_columns(self.own, columns, focus, self.leaders)

    def is_identity(self, index: int, record: Record, texts: list[str]) -> bool:
        text = texts[index]
        return index in record.fields and text not in self.shared and bool(_LOCATION.search(text))


def _rare_lines(records: list[Record], texts: list[str]) -> list[float]:
    """Return how rare the shape of each line is, if most lines of the blocks recur; empty if they say other things."""
    below = [index for record in records for index in record.lines[1:]]
    shapes = dict(zip(below, of_each_form(_without_values, [texts[index] for index in below]), strict=True))
    counts = Counter(shapes.values())
    usual = sum(1 for shape in shapes.values() if counts[shape] >= 0.5 * len(records))
    if usual < MOST_RECUR * len(shapes):
        return []
    rare = [0.0] * len(texts)
    scale = math.log(1 + len(records))
    for index, shape in shapes.items():
        rare[index] = max(0.0, 1 - math.log(counts[shape]) / scale)
    return rare


def _listed_sizes(texts: list[str]) -> list[Column]:
    """Return the sizes of listed files as a column; empty if the lines are no listing of directories."""
    found = [(row, listed[1]) for row, text in enumerate(texts) if (listed := _LISTED.match(text))]
    if len(found) < 0.5 * len(texts):
        return []
    return [Column("size bytes large big small file", [row for row, _ in found], [size for _, size in found])]


def _head(records: list[Record], rows: _RowScores) -> str:
    """Count the openings that several blocks share."""
    if not rows.group:
        return ""
    counts = Counter(rows.group.values())
    often = counts.most_common(MOST_COUNTED)
    more = len(counts) - len(often)
    listed = ", ".join(f"{_brief(group)} ×{times}" for group, times in often)
    return f"[{len(records)} blocks: {listed}{f', and {more} other openings' if more else ''}]"


def _brief(group: str) -> str:
    return group if len(group) <= LONGEST_GROUP else group[:LONGEST_GROUP].rstrip(" …") + "…"


def _shared_lines(records: list[Record], texts: list[str], filled: list[int], rows: _RowScores) -> list[Unit]:
    """Return a unit for each line that nearly all blocks have."""
    places: dict[str, list[int]] = {text: [] for text in rows.shared}
    named = {texts[index] for record in records for index in (record.lines[0], *record.fields)} if places else set()
    roles = WEIGHTS["records"].roles
    for record in records if places else ():
        for index in (record.lines[0], *record.repeated()):
            if texts[index] in places:
                places[texts[index]].append(filled[index] + 1)
    return [
        Unit(
            f"{text.strip()} [in {len(lines)} of {len(records)} blocks]",
            1,
            0,
            roles["shared" if text in named else "shared row"],
            count=0,
            folded=runs_of((at, at) for at in lines),
        )
        for text, lines in places.items()
    ]


def _units(
    record: Record,
    texts: list[str],
    filled: list[int],
    rows: _RowScores,
    base: int,
    *,
    whole: bool,
    of_opening: float,
    beside: float,
) -> Iterator[Unit]:
    """Yield the units of a block: the opening with the fields right below it that locate it, then its other lines.

    A block whose opening does not tell it from others is named by its fields: whatever is shown of it comes with them,
    and with the opening unless all blocks have the same. Fields gain `beside` beside one that stands out.
    """
    opened = 1
    while opened < min(3, len(record.lines)) and rows.is_identity(record.lines[opened], record, texts):
        opened += 1
    head = record.lines[:opened]
    only_name = rows.names_only and whole and len(record.lines) > opened
    owner = base
    if record.names and whole and texts[head[0]] in rows.shared:
        head = []
    if record.names and whole:
        owner = base + bool(head) + record.lines.index(record.names[-1]) - opened
    if head:
        yield Unit(
            "\n".join(texts[index] for index in head),
            filled[head[0]] + 1,
            filled[head[-1]] + 1,
            -1.0 if only_name else record.score + of_opening,
            family=rows.group.get(head[0]) if not of_opening else None,
            count=len(head),
        )
        if not whole:
            return
    fields = set(record.fields)
    titled = False
    scores: list[float] = []
    of_line = SHARE_OF_BLOCK * min(1.0, USUAL_BLOCK / len(record.lines))
    for index in record.lines[opened:]:
        share = of_line
        if index in fields:
            share = SHARE_OF_FIELD * min(1.0, USUAL_FIELDS / len(fields))
        elif not titled:
            share, titled = OF_TITLE if not only_name else 1.0, True
        score = share * record.score + rows.own[index]
        scores.append(max(score, record.score + beside) if beside and index in fields else score)
    best = max([record.score, *scores])
    above = base if head else None
    for place, (index, score) in enumerate(zip(record.lines[opened:], scores, strict=True), base + bool(head)):
        line = filled[index] + 1
        if index in record.names:
            yield Unit(texts[index], line, line, record.score + of_opening if of_opening else -1.0, parent=above)
            above = place
            continue
        if rows.is_identity(index, record, texts) or (rows.frames and rows.frames[index] == OWN):
            score = max(score, IDENTITY * best)
        if texts[index] in rows.shared:
            score = -1.0  # A unit of its own states it for all blocks.
        family = None if index in rows.leaders or score >= best else rows.numberless[index]
        yield Unit(texts[index], line, line, score, parent=owner, family=family)


def _has_blocks(sample: Sample) -> bool:
    """Whether blocks of lines open alike; the frames below the errors of a log do, but belong to them."""
    if sample.framed >= 0.1 and sample.leveled >= 0.1:
        return False
    yaml_like = not names_a_commit(sample.lines[0]) and is_yaml(sample)  # The messages of commits often look like YAML.
    return not yaml_like and detect(sample.text[:120_000].split("\n"))


READER = Reader("records", Signs((0.82, _has_blocks)), read, splits_at="nothing")
