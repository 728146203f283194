"""Units of text and the packer that fills a budget with them.

A reader of one kind (`json_shape.read`, `logs.read`, …) turns a text into a `Reading`:
units in source order, each with its score, its owner and its family, and a function that
lists omissions. `pack` chooses greedily by score per cost and re-scores lazily as
families repeat; the cost of a unit includes its ancestors that are not shown yet. The
output is in source order with marked gaps; `pack` counts the real tokens at the end and
fills the remaining budget.

    def read(text: str, focus: Focus, budget: int) -> Reading | None: ...

`None` means that the reader declines. A reader never cuts to the budget itself: the
budget only limits how much detail is useful (how many units, how long a value).
Keep units under about 50,000 for any input; fold, prune or aggregate before that.

A reader guarantees: `Unit.text` is verbatim source text except for white space, a shared
prefix that is written once in the head, and marked omissions (`…`); units are in output
order; a parent precedes its children.

Knows nothing of kinds, and of questions only `Focus`, which it uses to shorten a unit
that is larger than the remaining budget.
"""

import heapq
import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field

from tersely.condensing.budget import Lost
from tersely.condensing.focus import Focus, scan
from tersely.text.tokens import O200K, Tokenizer

CHARACTERS_PER_TOKEN = 3.3
"""For estimates only; every shown text is counted."""

MARK_SHARE = 0.05
"""Largest share of the budget for marks of gaps; the largest gaps are marked first."""

MOST_STEPS = 400_000
"""Ancestors visited while packing; after this many, only units near something shown are considered."""


@dataclass(slots=True)
class Unit:
    """The smallest thing that is shown or omitted."""

    text: str
    """The shown text with indentation; may span lines."""
    first: int
    last: int
    """Source lines, counted from 1."""
    score: float
    """Static score, about 0..5; `pack` lowers it for repetition.

    At 0 the unit only fills remaining budget; below 0 it is never chosen for itself, only as the owner of another.
    """
    parent: int | None = None
    """Index of the unit (heading, ancestor, owner) that must be shown with this one."""
    family: Hashable = None
    """Members of a family reduce each other's score: the second counts less than the first, and so on."""
    count: int = 1
    """Number of source items (lines, rows, records) that this unit represents."""
    children: int = 0
    """For owners: the number of children. If fewer are shown, ` [k of n]` is appended."""
    inline: bool = False
    """For sentences: joins the line of the previous shown unit, after ` … ` if something between them is omitted."""


def _no_omissions(kept: set[int]) -> list[Lost]:
    return []


@dataclass
class Reading:
    """Units that a reader of one kind makes from a text."""

    kind: str
    units: list[Unit]
    head: str = ""
    """Shown first: shape, shared prefix, counts by value. Takes at most a quarter of the budget, in whole lines."""
    lost: Callable[[set[int]], list[Lost]] = _no_omissions
    """Returns the omissions with line ranges for the indices of the shown units; the counts add up."""
    noun: str = "lines"
    """Name of a unit in marks of gaps and in the default list of omissions: lines, rows, records."""
    gaps: bool = True
    """Whether gaps between units are marked; a reader that marks them otherwise turns this off."""
    layout: Callable[[set[int], dict[int, str]], str] | None = None
    """For readers with their own layout: kept indices and shortened texts in, the shown text without the head out."""
    decay: float = 0.6
    """Decay within a family: its k-th member counts 1 / (1 + decay × k)."""


Reader = Callable[[str, Focus, int], Reading | None]


@dataclass
class Packed:
    text: str
    kept: set[int]
    tokens: int
    shortened: set[int] = field(default_factory=set)
    """Units that are shown in part."""


def runs_of(lines: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Join adjacent line ranges, in order."""
    runs: list[tuple[int, int]] = []
    for first, last in sorted(lines):
        if runs and first <= runs[-1][1] + 1:
            if last > runs[-1][1]:
                runs[-1] = (runs[-1][0], last)
        else:
            runs.append((first, last))
    return tuple(runs)


def count_left_out(reading: Reading, kept: set[int]) -> list[Lost]:
    """Return the default list of omissions: how many units are not shown, and their lines."""
    missing = [unit for index, unit in enumerate(reading.units) if index not in kept]
    if not missing:
        return []
    total = sum(unit.count for unit in reading.units)
    left = sum(unit.count for unit in missing)
    return [Lost(f"{left} of {total} {reading.noun}", runs_of((unit.first, unit.last) for unit in missing))]


def shorten(text: str, tokens: int, tokenizer: Tokenizer = O200K, focus: Focus | None = None) -> str:
    """Keep the beginning of a long text and the pieces that match the focus, with ` … ` for omissions."""
    if tokens <= 4:
        return tokenizer.head(text, max(0, tokens))
    if not tokenizer.exceeds(text, tokens):
        return text
    pieces = _pieces_of(text)
    if focus is None or len(pieces) < 3:
        return tokenizer.head(text, tokens - 2).rstrip() + " …"
    found = scan(pieces, focus)
    scores = [3 * found.relevance[i] + 0.3 * found.severity[i] for i in range(len(pieces))]
    scores[0] += 1.0
    scores[-1] += 0.2
    order = sorted(range(len(pieces)), key=lambda i: (-scores[i], i))
    left, chosen = tokens - 3, set()
    for index in order[:200]:
        cost = tokenizer.count(pieces[index]) + 2
        if cost <= left:
            chosen.add(index)
            left -= cost
    if 0 not in chosen:
        return tokenizer.head(text, tokens - 2).rstrip() + " …"
    shown: list[str] = []
    for index in sorted(chosen):
        if shown and index - 1 not in chosen:
            shown.append(" … ")
        shown.append(pieces[index])
    if len(pieces) - 1 not in chosen:
        shown.append(" …")
    result = "".join(shown)
    return result if not tokenizer.exceeds(result, tokens) else tokenizer.head(text, tokens - 2).rstrip() + " …"


def _pieces_of(text: str, size: int = 120) -> list[str]:
    """Split into pieces of about `size` characters, after white space or punctuation if possible."""
    pieces: list[str] = []
    start, end = 0, len(text)
    while end - start > size * 3 // 2 and len(pieces) < 20_000:
        cut = max(text.rfind(sign, start + size // 2, start + size) for sign in ("\n", " ", ",", ";"))
        cut = cut + 1 if cut > 0 else start + size
        pieces.append(text[start:cut])
        start = cut
    pieces.append(text[start : start + size * 200])
    return pieces


def pack(reading: Reading, budget: int, tokenizer: Tokenizer = O200K, focus: Focus | None = None) -> Packed:
    """Choose units for the budget and lay them out; never exceeds the budget."""
    if budget <= 0:
        return Packed("", set(), 0)
    head = _fitting_lines(reading.head, budget // 4, tokenizer) if budget >= 48 else ""
    return _Packing(reading, budget, tokenizer, focus, head).run()


def _fitting_lines(text: str, tokens: int, tokenizer: Tokenizer) -> str:
    if not text or not tokenizer.exceeds(text, tokens):
        return text
    kept: list[str] = []
    left = tokens
    for line in text.split("\n"):
        cost = tokenizer.count(line + "\n")
        if cost > left:
            if not kept:
                kept.append(shorten(line, left, tokenizer))
            break
        kept.append(line)
        left -= cost
    return "\n".join(kept)


class _Packing:
    """Shared state of one run of the packer."""

    def __init__(self, reading: Reading, budget: int, tokenizer: Tokenizer, focus: Focus | None, head: str) -> None:
        self.units = reading.units
        self.reading = reading
        self.budget = budget
        self.tokenizer = tokenizer
        self.focus = focus
        self.head = head
        self.kept: set[int] = set()
        self.changed: dict[int, str] = {}
        self.families: dict[Hashable, int] = {}
        self.costs: dict[int, int] = {}
        self.waiting: dict[Hashable, list[tuple[float, int]]] = {}

    def run(self) -> Packed:
        room = self.budget - (self.tokenizer.count(self.head + "\n") if self.head else 0)
        # A small reserve for marks and for the tokenization of joined lines; the refill uses what remains.
        air = min(room // 10, int(self.budget * MARK_SHARE) + 2)
        self._spend(room - air, self._ranked())
        text = self._layout()
        used = self.tokenizer.count(text)
        for _ in range(3):
            spare = self.budget - used
            if spare < 6:
                break
            before = set(self.kept)
            self._spend(spare - 3, self._ranked())
            if self.kept == before:
                break
            text = self._layout()
            used = self.tokenizer.count(text)
            if used > self.budget:
                for index in self.kept - before:
                    self.changed.pop(index, None)
                self.kept = before
                text = self._layout()
                used = self.tokenizer.count(text)
                break
        while used > self.budget and self.kept:
            # The estimate was too low (rare): remove the leaf with the lowest score.
            owners = {self.units[index].parent for index in self.kept}
            leaves = [index for index in self.kept if index not in owners]
            self.kept.discard(min(leaves, key=lambda index: (self.units[index].score, -index)))
            text = self._layout()
            used = self.tokenizer.count(text)
        if not text and self.units:
            best = max(range(len(self.units)), key=lambda index: (self.units[index].score, -index))
            text = shorten(self.units[best].text.strip(), self.budget, self.tokenizer, self.focus)
            self.kept.add(best)
            self.changed[best] = text
            used = self.tokenizer.count(text)
        if used > self.budget:
            text = self.tokenizer.head(text, self.budget)
            used = self.tokenizer.count(text)
        return Packed(text, self.kept, used, set(self.changed))

    def _ranked(self) -> list[tuple[float, int]]:
        """Return the candidates as a heap: single units, and the best of each family.

        The other members stay in `self.waiting` until the best one is processed. Of very many units only those with a
        chance are ranked.
        """
        ranked = [
            (-unit.score / (1 + 0.004 * len(unit.text)), index)
            for index, unit in enumerate(self.units)
            if unit.score >= 0 and index not in self.kept and unit.text
        ]
        most = 2_000 + 8 * self.budget
        if len(ranked) > most:
            ranked = heapq.nsmallest(most, ranked)
        ranked.sort(reverse=True)
        self.waiting = {}
        heap: list[tuple[float, int]] = []
        for entry in ranked:
            family = self.units[entry[1]].family
            if family is None:
                heap.append(entry)
            else:
                self.waiting.setdefault(family, []).append(entry)
        heap += [members.pop() for members in self.waiting.values()]
        heapq.heapify(heap)
        return heap

    def _cost(self, index: int) -> int:
        cost = self.costs.get(index)
        if cost is None:
            cost = self.costs[index] = self.tokenizer.count(self.units[index].text + "\n")
        return cost

    def _spend(self, room: int, heap: list[tuple[float, int]]) -> None:
        units = self.units
        misses = walked = 0
        while heap and room > 2 and misses < 400:
            rank, index = heapq.heappop(heap)
            unit = units[index]
            members = self.waiting.get(unit.family) if unit.family is not None else None
            if index in self.kept:
                if members:
                    heapq.heappush(heap, members.pop())
                continue
            chain: list[int] = []
            owner = unit.parent
            deepest = 1_000 if walked < MOST_STEPS else 40
            while owner is not None and owner not in self.kept and len(chain) < deepest:
                chain.append(owner)
                owner = units[owner].parent
            walked += len(chain)
            if len(chain) == deepest:
                if members:
                    heapq.heappush(heap, members.pop())
                continue  # So far below everything that is shown that its path would cost more than the unit.
            rough = 0
            for at in chain:
                rough += len(units[at].text)
            current = -unit.score / (1 + 0.004 * len(unit.text) + 0.0015 * rough)
            if unit.family is not None and current < 0:
                current /= 1 + self.reading.decay * self.families.get(unit.family, 0)
            if heap and current > heap[0][0] + 1e-9 and current > rank + 1e-9:
                heapq.heappush(heap, (current, index))
                continue
            if members:
                heapq.heappush(heap, members.pop())
            if (len(unit.text) + rough) / 12 > room:
                cost = room + 1
            else:
                cost = self._cost(index) + sum(self._cost(at) for at in chain)
            if cost > room:
                misses += 1
                if not self._squeeze(index, chain, room):
                    continue
                cost = self.tokenizer.count(self.changed[index] + "\n") + sum(self._cost(at) for at in chain)
            room -= cost
            self.kept.add(index)
            self.kept.update(chain)
            if unit.family is not None:
                self.families[unit.family] = self.families.get(unit.family, 0) + unit.count

    def _squeeze(self, index: int, chain: list[int], room: int) -> bool:
        """Show part of a unit that exceeds the remaining budget, if enough budget remains."""
        unit = self.units[index]
        if unit.score <= 0 or room < 12 or len(unit.text) < 160:
            return False
        rough = sum(len(self.units[at].text) for at in chain)
        if rough / 12 > room:
            return False
        left = room - sum(self._cost(at) for at in chain) - 1
        if left < 12 or left < 0.08 * self.budget:
            return False
        self.changed[index] = shorten(unit.text, left, self.tokenizer, self.focus)
        return self.tokenizer.count(self.changed[index] + "\n") <= left + 1

    def _layout(self) -> str:
        body = lay_out(self.reading, self.kept, self.changed, self.budget)
        return self.head + "\n" + body if self.head and body else self.head or body


def lay_out(reading: Reading, kept: set[int], changed: dict[int, str], budget: int, base: int = 0) -> str:
    """Write the kept units as text, in source order, with marks for omissions.

    In a reading that was merged with others, owners are numbered from `base` on.
    """
    if reading.layout is not None:
        return reading.layout(kept, changed)
    units = reading.units
    order = sorted(kept)
    shown: dict[int, int] = {}
    for index in order:
        owner = units[index].parent
        if owner is not None:
            shown[owner - base] = shown.get(owner - base, 0) + 1
    marks = _marks(units, order, budget) if reading.gaps else {}
    lines: list[str] = []
    for index in order:
        if index in marks:
            lines.append(marks[index])
        text = changed.get(index, units[index].text)
        of = units[index].children
        if of > shown.get(index, 0):
            text += f" [{shown.get(index, 0)} of {of}]"
        if units[index].inline and lines and index not in marks:
            joint = " " if index - 1 in kept else " … "
            lines[-1] += joint + text.lstrip()
        else:
            lines.append(text)
    if len(units) in marks:
        lines.append(marks[len(units)])
    return "\n".join(lines)


def _marks(units: list[Unit], kept: list[int], budget: int) -> dict[int, str]:
    """Return the marks for missing units by the kept unit that follows; `len(units)` is the end."""
    if not kept or budget < 64:
        return {}
    gaps: list[tuple[int, int]] = []
    previous = -1
    for index in [*kept, len(units)]:
        if index - previous > 1:
            size = sum(unit.count for unit in units[previous + 1 : index])
            if size:
                gaps.append((size, index))
        previous = index
    # "…37" and its line end are three tokens.
    most = max(1, int(budget * MARK_SHARE / 3))
    gaps.sort(key=lambda gap: (-gap[0], gap[1]))
    return {index: f"…{size}" for size, index in gaps[:most]}


def merge(readings: list[Reading], kind: str = "mixed") -> Reading:
    """Merge the readings of consecutive parts, so that their units compete for one budget."""
    units: list[Unit] = []
    offsets: list[int] = []
    for reading in readings:
        base = len(units)
        if reading.head:
            first = reading.units[0].first if reading.units else 1
            units.append(Unit(reading.head, first, first, 0.9, count=0))
            base += 1
        offsets.append(base)
        for unit in reading.units:
            if unit.parent is not None:
                unit.parent += base
            if unit.family is not None:
                unit.family = (base, unit.family)
            units.append(unit)

    def part_of(kept: Iterable[int], reading: Reading, base: int) -> set[int]:
        return {index - base for index in kept if base <= index < base + len(reading.units)}

    def lost(kept: set[int]) -> list[Lost]:
        omissions: list[Lost] = []
        for reading, base in zip(readings, offsets, strict=True):
            omissions += reading.lost(part_of(kept, reading, base)) or count_left_out(
                reading, part_of(kept, reading, base)
            )
        return omissions

    def layout(kept: set[int], changed: dict[int, str]) -> str:
        parts: list[str] = []
        for reading, base in zip(readings, offsets, strict=True):
            if reading.head and base - 1 in kept:
                parts.append(changed.get(base - 1, reading.head))
            inside = part_of(kept, reading, base)
            if inside:
                own = {index - base: text for index, text in changed.items() if index - base in inside}
                parts.append(lay_out(reading, inside, own, 1_000, base))
        return "\n".join(part for part in parts if part)

    decay = sum(reading.decay for reading in readings) / max(1, len(readings))
    return Reading(kind, units, lost=lost, layout=layout, decay=decay)


def moved(reading: Reading, line: Callable[[int], int]) -> Reading:
    """Replace the line numbers of a part by those of the whole text."""
    for unit in reading.units:
        unit.first, unit.last = line(unit.first), line(unit.last)
    lost_before = reading.lost
    reading.lost = lambda kept: [
        Lost(one.what, runs_of((line(first), line(last)) for first, last in one.lines)) for one in lost_before(kept)
    ]
    return reading


def put_title(reading: Reading, title: str, line: int) -> None:
    """Add a title above the reading's head; it is shown whenever any of its units is."""
    above = [Unit(title, line, line, 0.3, count=0)]
    if reading.head:
        above.append(Unit(reading.head, line, line, 0.9, 0, count=0))
        reading.head = ""
    size = len(above)
    for unit in reading.units:
        unit.parent = 0 if unit.parent is None else unit.parent + size
    reading.units[:0] = above
    inner_layout, inner_lost = reading.layout, reading.lost
    if inner_layout is not None:

        def layout(kept: set[int], changed: dict[int, str]) -> str:
            own = {at - size: text for at, text in changed.items() if at >= size}
            parts = [changed.get(index, above[index].text) for index in range(size) if index in kept]
            parts.append(inner_layout({at - size for at in kept if at >= size}, own))
            return "\n".join(part for part in parts if part)

        reading.layout = layout
    reading.lost = lambda kept: inner_lost({index - size for index in kept if index >= size})


def trend_of(numbers: list[float]) -> str:
    """Describe a series in one word: rising, falling, flat or varying."""
    if len(numbers) < 4:
        return ""
    quarter = max(1, len(numbers) // 4)
    start, end = sum(numbers[:quarter]) / quarter, sum(numbers[-quarter:]) / quarter
    spread = max(numbers) - min(numbers)
    if spread == 0 or math.isnan(spread):
        return "flat"
    move = (end - start) / spread
    return "rising" if move > 0.5 else "falling" if move < -0.5 else "varying"
