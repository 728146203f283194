"""Lossless compaction of repetitive logs for models: every repetition is written once, and no line is dropped.

`fold` writes a line that occurs N times as `×N line`, and lines that differ only in
numbers and identifiers as one pattern with a row of values for each. `unfold_counts`
restores every distinct line with its count. Only the order *within* a section of lines
is lost, so a text is folded only where that saves enough; a text that hardly repeats
itself, or whose indentation carries meaning, is returned unchanged.

Does not rank or select lines; that is the task of `logs`.
"""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise, takewhile

from tersely.condensing.templates import VALUE
from tersely.text.tokens import O200K

HEADER = (
    "[folded: ×3 before a line: it occurs three times. #4 before a pattern: four lines, their values for {1} {2} … in "
    "the four rows below; values missing at the end of a row, and what is missing before `:07`, are those of the row "
    "above. +2: the two lines after the rows follow each of the four.]"
)

STRETCH = 2_000
"""Lines per section. Only lines of the same section are grouped, so that early lines stay before late ones."""

WORTH_FOLDING = 0.75
"""Largest size of a folded text relative to the original; a smaller saving does not justify losing the order."""

_FEWEST_ROWS = 3
_CONTINUES = re.compile(r"[ \t]+\S|Caused by: |\.\.\. \d")
_MARKED = re.compile(r"×\d+ |#\d+(?:\+\d+)? ")
_SLOT = re.compile(r"\{(\d+)\}")


def fold(text: str) -> str:
    """Write repeated lines once; return the text unchanged if that saves less than a quarter."""
    if text.startswith(HEADER) or text.count("\n") < _FEWEST_ROWS:
        return text
    lines = text.split("\n")
    keys = VALUE.sub("#", text).split("\n")
    if len(keys) != len(lines):  # A mask that removed line ends would make the two lists disagree.
        return text
    out = [HEADER]
    for start in range(0, len(lines), STRETCH):
        out += _folded_stretch(lines[start : start + STRETCH], keys[start : start + STRETCH])
    folded = "\n".join(out)
    if len(folded) > len(text) * WORTH_FOLDING or O200K.count(folded) > O200K.count(text) * WORTH_FOLDING:
        return text
    return folded


def unfold_counts(folded: str) -> Counter[str]:
    """Return every distinct line of the original text with its count."""
    lines = folded.split("\n")
    if lines[0] != HEADER:
        return Counter(lines)
    counts: Counter[str] = Counter()
    at = 1
    while at < len(lines):
        line = lines[at]
        at += 1
        if not _MARKED.match(line):
            counts[line] += 1
            continue
        mark, _, rest = line.partition(" ")
        if mark[0] == "×":
            counts[rest] += int(mark[1:])
            continue
        rows, _, following = mark[1:].partition("+")
        events = 0
        above: list[str] = []
        for row in lines[at : at + int(rows)]:
            times, values = 1, row
            if row.startswith("×"):
                count, _, values = row.partition(" ")
                times = int(count[1:])
            events += times
            parts = _completed(values.split(" "), above)
            above = parts
            counts[_SLOT.sub(lambda slot, parts=parts: parts[int(slot[1]) - 1], rest)] += times  # type: ignore[misc]
        at += int(rows)
        for line in lines[at : at + int(following or 0)]:
            counts[line] += events
        at += int(following or 0)
    return counts


def _folded_stretch(lines: Sequence[str], keys: Sequence[str]) -> list[str]:
    """Fold one section; each pattern is placed at its first line."""
    patterns: dict[tuple[str, tuple[str, ...]], Counter[str]] = {}
    for head, after in _events(lines):
        pattern = patterns.setdefault((keys[head], tuple(lines[head + 1 : after])), Counter())
        pattern[lines[head]] += 1
    out: list[str] = []
    for (_, following), counts in patterns.items():
        rows = _as_rows(counts, following) if len(counts) >= _FEWEST_ROWS else None
        if rows is not None:
            out += rows
            continue
        for line, times in counts.items():
            if following and times > 1 and not _SLOT.search(line):
                out += [
                    f"#1+{len(following)} {line}",
                    f"×{times} -",
                    *following,
                ]  # A pattern without slots, and its single row.
            else:
                out += [_marked(line, times), *(_marked(each, times) for each in following)]
    return out


def _events(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Return (start, end) of each line together with its continuation (a stack trace, an indented block)."""
    starts = [at for at, line in enumerate(lines) if at == 0 or not _CONTINUES.match(line)]
    return list(zip(starts, [*starts[1:], len(lines)], strict=True))


def _marked(line: str, times: int) -> str:
    """Prefix a line with its count; a line that looks like one of our marks gets a count even if it occurs once."""
    return f"×{times} {line}" if times > 1 or _MARKED.match(line) else line


def _as_rows(counts: Counter[str], following: Sequence[str]) -> list[str] | None:
    """Return the pattern and its rows, or None if the plain lines are no longer."""
    lines = list(counts)
    if any(_SLOT.search(line) for line in lines[:1]) or any("{" in line and _SLOT.search(line) for line in lines):
        return None
    literals = VALUE.split(lines[0])
    columns = list(zip(*(VALUE.findall(line) for line in lines), strict=True))
    trimmed = [_trimmed(column) for column in columns]
    # The values that change least come last, so that rows can omit them.
    changing = list(dict.fromkeys(values for _, values, _ in trimmed if values is not None))
    changing.sort(key=lambda values: -sum(1 for one, other in pairwise(values) if one != other))
    slots = {values: number for number, values in enumerate(changing, 1)}
    pattern = [literals[0]]
    for literal, (before, values, after) in zip(literals[1:], trimmed, strict=True):
        pattern += [before, literal] if values is None else [f"{before}{{{slots[values]}}}{after}", literal]
    mark = f"#{len(lines)}+{len(following)}" if following else f"#{len(lines)}"
    rows = []
    above: tuple[str, ...] = ()
    for row, times in zip(zip(*changing, strict=True), counts.values(), strict=True):
        short = " ".join(_shortened(row, above))
        rows.append(f"×{times} {short}" if times > 1 else short)
        above = row
    out = [f"{mark} {''.join(pattern)}", *rows, *following]
    plain = sum((len(line) + 1 + sum(map(len, following)) + len(following)) * times for line, times in counts.items())
    return out if sum(map(len, out)) + len(out) < plain * 0.9 else None


def _shortened(row: tuple[str, ...], above: tuple[str, ...]) -> list[str]:
    """Omit the values of a row that can be read from the row above; the first value is always kept."""
    if not above:
        return list(row)
    end = len(row)
    while end > 1 and row[end - 1] == above[end - 1]:
        end -= 1
    short = []
    for value, other in zip(row[:end], above, strict=False):
        head, colon, last = value.rpartition(":")
        same = colon and head and last and other.rpartition(":")[0] == head
        short.append(f":{last}" if same else value)
    return short


def _completed(row: list[str], above: list[str]) -> list[str]:
    """Restore the values that `_shortened` omitted."""
    full = [
        other.rpartition(":")[0] + value if value[:1] == ":" else value
        for value, other in zip(row, above, strict=False)
    ]
    return [*full, *row[len(above) :], *above[len(row) :]]


def _trimmed(column: tuple[str, ...]) -> tuple[str, tuple[str, ...] | None, str]:
    """Return common prefix, remainders (never empty; None if all are equal) and common suffix of a column."""
    low, high = min(column), max(column)
    if low == high:
        return low, None, ""
    shortest = min(map(len, column))
    begin = min(_shared(low, high), shortest - 1)
    # Cut beside a separator, so that numbers stay whole: `10:37:{1}`, not `10:3{1}`.
    while begin and low[begin - 1].isalnum():
        begin -= 1
    backwards = [value[::-1] for value in column]
    end = min(_shared(min(backwards), max(backwards)), shortest - begin - 1)
    while end and low[len(low) - end].isalnum():
        end -= 1
    cut = [value[begin : len(value) - end] for value in column]
    if any(value[0] == ":" for value in cut):  # A leading colon has a meaning in rows.
        return "", column, ""
    return low[:begin], tuple(cut), low[len(low) - end :] if end else ""


def _shared(one: str, other: str) -> int:
    """Return the length of the common prefix."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
