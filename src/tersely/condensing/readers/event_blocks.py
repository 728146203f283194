"""Multi-line events: blocks of `key: value` lines that include a time, or a line with a time and the message below it.

A block ends at a blank line, at a rule, or where the next opening line of the same form starts. Blocks are events if
each has a time and the times are in ascending or descending order; records of things also have times, but in no
order, and are left to `outline`.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import pairwise

from tersely.condensing.account import Runs, folded_runs, runs_of
from tersely.condensing.detect import Reader, Signs
from tersely.condensing.focus import Focus, scan
from tersely.condensing.merge import moved
from tersely.condensing.pack import shorten
from tersely.condensing.readers import logs
from tersely.condensing.readers.json_logs import Roles, read_records
from tersely.condensing.readers.preamble import TIME, level_weight
from tersely.condensing.templates import without_values
from tersely.condensing.units import GAP, Reading, Unit, with_counts

LOOKED_AT = 600
"""Lines sampled for the decision; the rest is read only if they are events."""
FEWEST = 8
LONG_LINE = 160
"""In characters. A longer line is shown in part if it contains at least such a relevance, …"""
LEAST_RELEVANCE = 0.3
RELEVANT_SHARE = 0.7
"""… and such a share of the best."""
MOST_LINES = 40
"""Longer blocks, on the whole, are documents and not events."""

_KEYED = re.compile(r"([A-Za-z][\w .@/-]{0,40}?)\s*(?::(?:\s+|$)|=(?!=)\s*)(.*)$")
_RULE = re.compile(r"[^\w\s]{2,}\s*$")
_OPENING = re.compile(r"\w+|[^\w\s]+")
_WORD = re.compile(r"[^\W\d_]{3}")
_LINE_END = " ⏎ "
"""Stands for a line end while a block is read as one line."""
_LEVEL_WORDS = frozenset(("information", "info", "notice", "debug", "trace", "verbose", "ok", "low", "normal", "audit"))

_COUNT = re.compile(r" ×\d+(?: \[([^\[\]]*)\])?$")

Block = tuple[int, list[str]]
"""Number of the first line, and the non-blank lines."""


def read(text: str, focus: Focus, budget: int) -> Reading | None:
    lines = text.split("\n")
    for divide in (_by_blank_lines, _by_rules, _by_openings):
        sample = list(divide(lines[:LOOKED_AT]))[:-1]  # The last one may be cut.
        if not _are_blocks(sample):
            continue
        roles = _roles([_fields(block) for _, block in sample])
        if roles is not None:
            blocks = dict(divide(lines))
            records = ((number, _fields(block)) for number, block in blocks.items())
            reading = read_records(records, roles, focus, budget)
            return _as_lines(reading, blocks, _relevant_parts(reading, blocks, focus, budget)) if reading else None
        if _are_headed([block for _, block in sample]):
            return _joined(list(divide(lines)), focus, budget)
    return None


def _relevant_parts(reading: Reading, blocks: dict[int, list[str]], focus: Focus, budget: int) -> dict[str, str]:
    """Return what is shown of the long lines that contain most of the question: the parts of them that do."""
    long = [
        line
        for unit in reading.units
        if unit.count == 1 and unit.first in blocks
        for line in blocks[unit.first]
        if len(line) > LONG_LINE
    ]
    if not long or not focus:
        return {}
    relevance = scan(long, focus, severe=False).relevance
    least = max(LEAST_RELEVANCE, RELEVANT_SHARE * max(relevance))
    return {
        line: shorten(line.strip(), budget // 4, focus=focus)
        for line, each in zip(long, relevance, strict=True)
        if each >= least
    }


def _as_lines(reading: Reading, blocks: dict[int, list[str]], parts: dict[str, str]) -> Reading:
    """Show of each block the lines whose values were chosen, as they are, and parts of long ones that matter."""
    represented: list[tuple[Unit, Runs]] = []
    for unit in reading.units:
        block = blocks.get(unit.first)
        if block is None:
            continue
        said = " ".join(unit.text.split())
        chosen = [line for line in block if (value := _value_of(line)) and value in said]
        if unit.count > 1:
            others = [at for first, last in folded_runs(unit.folded) for at in range(first, last + 1) if at in blocks]
            in_all = _in_all(blocks[at] for at in others)
            equal = [line for line in chosen if without_values(line) in in_all]
            if any(_WORD.search(without_values(_value_of(line))) for line in equal):
                chosen = equal
                represented.append((unit, _lines_like(equal, blocks, others)))
            else:  # Equal in a line that is not shown, e.g. because it is long.
                unit.text, unit.count, unit.folded, unit.repeated = _COUNT.sub("", unit.text), 1, (), None
        shown: list[str] = []
        for line in block:
            if line in chosen:
                shown.append(line.strip())
            elif line in parts and unit.count == 1:
                shown.append(parts[line])
            elif shown[-1:] != [GAP]:
                shown.append(GAP)
        if any(line != GAP for line in shown):
            times = _COUNT.search(unit.text)
            block_lines = "\n ".join(shown)
            unit.text = with_counts(block_lines, unit.count, times=times[1] or "" if times else "")
            if unit.repeated is not None:
                unit.repeated = replace(unit.repeated, text=block_lines)

    def last(line: int) -> int:
        return line + len(blocks[line]) - 1 if line in blocks else line

    reading = moved(reading, int, last)
    for unit, lines in represented:
        unit.folded = lines
    return reading


def _lines_like(shown: list[str], blocks: dict[int, list[str]], others: list[int]) -> Runs:
    """Return the lines of other blocks that are equal to one of these up to values."""
    equal = set(map(without_values, shown))
    return runs_of(
        (first + at, first + at)
        for first in others
        for at, line in enumerate(blocks[first])
        if without_values(line) in equal
    )


def _value_of(line: str) -> str:
    content = " ".join(line.split())
    keyed = _KEYED.match(content[:2_000])
    return content[keyed.start(2) :] if keyed else content


def _in_all(blocks: Iterable[list[str]]) -> set[str]:
    """Return the lines, without their values, that all of these blocks have."""
    found: set[str] | None = None
    for block in blocks:
        lines = set(map(without_values, block))
        found = lines if found is None else found & lines
    return found or set()


def _by_blank_lines(lines: list[str]) -> Iterator[Block]:
    return _divided(lines, lambda line: not line or line.isspace(), keep=False)


def _by_rules(lines: list[str]) -> Iterator[Block]:
    return _divided(lines, lambda line: bool(line) and bool(_RULE.match(line)), keep=False)


def _by_openings(lines: list[str]) -> Iterator[Block]:
    first = next((line for line in lines if line.strip()), "")
    opening = _opening(first)
    return _divided(
        lines, lambda line: bool(opening) and line.startswith(opening) and _opening(line) == opening, keep=True
    )


def _opening(line: str) -> str:
    """Return the common beginning of lines that open a block: a key, a word or a sign."""
    if keyed := _KEYED.match(line):
        return keyed.group(1)
    word = _OPENING.match(line)
    return word.group() if word and not word.group().isdigit() else ""


def _divided(lines: list[str], divides: Callable[[str], bool], keep: bool) -> Iterator[Block]:
    """Yield the blocks between dividing lines; with `keep`, a dividing line is the first line of the block after it."""
    block: list[str] = []
    start = 1
    for number, line in enumerate(lines, 1):
        if divides(line):
            if block:
                yield start, block
            block = []
        if line.strip() and (keep or not divides(line)):
            if not block:
                start = number
            block.append(line)
    if block:
        yield start, block


def _are_blocks(blocks: list[Block]) -> bool:
    if len(blocks) < FEWEST:
        return False
    several = sum(1 for _, block in blocks if 2 <= len(block) <= MOST_LINES)
    _, times = Counter(_opening(block[0]) for _, block in blocks).most_common(1)[0]
    return min(several, times) >= 0.85 * len(blocks)


def _fields(block: list[str]) -> dict[str, str]:
    """Return the keys and values of a block, and its remaining text under the empty key.

    All keys have the same indentation. Deeper lines continue a key without a value on its own line, or are text.
    """
    fields: dict[str, str] = {}
    last = ""
    depth = -1
    for line in block:
        content = " ".join(line.split())
        indent = len(line) - len(line.lstrip())
        keyed = _KEYED.match(content[:2_000]) if depth in (-1, indent) else None
        if keyed and keyed.group(1) not in fields:
            last, depth = keyed.group(1), indent
            fields[last] = content[keyed.start(2) :]
            continue
        key = last if last and not fields[last] else ""
        fields[key] = f"{fields[key]} {content}" if fields.get(key) else content
    return fields


def _roles(records: list[dict[str, str]]) -> Roles | None:
    """Find the fields for time, level and message by their values; None if the records are not events with fields."""
    columns: dict[str, list[str]] = {}
    for fields in records:
        for key, value in fields.items():
            columns.setdefault(key, []).append(value)
    common = {key: values for key, values in columns.items() if len(values) >= 0.8 * len(records)}
    if len(common) < 2 or sum(len(values) for values in common.values()) < 0.7 * sum(map(len, columns.values())):
        return None
    time = next(
        (key for key, values in common.items() if key and _run_one_way([_time_in(value, 0) for value in values])), None
    )
    level = next((key for key, values in common.items() if key != time and _are_levels(values)), None)
    rest = {
        key: sum(len(value.split()) for value in values) / len(values)
        for key, values in common.items()
        if key not in (time, level)
    }
    message = max(rest, key=lambda key: rest[key], default=None)
    if time is None or message is None or rest[message] < 3:
        return None
    return Roles(time, level, message)


def _time_in(text: str, reach: int) -> str:
    found = TIME.search(text, 0, reach) if reach else TIME.match(text.lstrip("[(<\"'"))
    return found.group() if found else ""


def _run_one_way(times: list[str]) -> bool:
    if sum(1 for time in times if time) < 0.9 * len(times) or len(set(times)) < 0.3 * len(times):
        return False
    pairs = [(before, after) for before, after in pairwise(times) if before and after and len(before) == len(after)]
    if len(pairs) < 0.7 * len(times):
        return False
    rising = sum(1 for before, after in pairs if before <= after)
    return max(rising, sum(1 for before, after in pairs if before >= after)) >= 0.9 * len(pairs)


def _are_levels(values: list[str]) -> bool:
    names = {value.strip("[]():").lower() for value in values}
    known = sum(1 for name in names if level_weight(name) != 0 or name in _LEVEL_WORDS)
    return len(names) <= 12 and known >= max(1, 0.6 * len(names))


def _are_headed(blocks: list[list[str]]) -> bool:
    """Whether the first line of each block, and no other line, has a time."""
    return _run_one_way([_time_in(block[0], 80) for block in blocks]) and not any(
        _time_in(line, 40) for block in blocks[:40] for line in block[1:]
    )


def _joined(blocks: list[Block], focus: Focus, budget: int) -> Reading | None:
    """Read each block as one line of a log, and show it as the lines that it is."""
    lines = "\n".join(_LINE_END.join(" ".join(line.split()) for line in block) for _, block in blocks)
    reading = logs.read(lines, focus, budget, noun="entries")
    if reading is None:
        return None
    for unit in reading.units:
        unit.text = unit.text.replace(_LINE_END, "\n ")
    reading.totals = None  # They number blocks, not lines.

    def block(line: int) -> Block:
        return blocks[min(line, len(blocks)) - 1]

    return moved(reading, lambda line: block(line)[0], lambda line: block(line)[0] + len(block(line)[1]) - 1)


READER = Reader("events", Signs(), read, before=("yaml", "outline", "log", "text"))
