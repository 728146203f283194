"""Units of text and the packer that fills a budget with them.

A reader of one kind (`json_documents.read`, `logs.read`, …) turns a text into a `Reading`:
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
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from operator import not_

from tersely.condensing.account import (
    Account,
    FoldedLines,
    LineClasses,
    Place,
    Runs,
    ValuePlaces,
    bare,
    folded_runs,
    runs_of,
)
from tersely.condensing.focus import Focus, scan
from tersely.condensing.totals import Totals
from tersely.text.long_lines import LongLines
from tersely.text.tokens import O200K, Tokenizer

CHARACTERS_PER_TOKEN = 3.3
"""For estimates only; every shown text is counted."""

MARK_SHARE = 0.03
"""Largest share of the budget for marks that state the size, the largest first; the others are a bare `…`."""

GAP = "…"
GAP_TOKENS = 1
"""Cost of a bare mark with its line end. A shorter line is shown instead of marked."""

NUMBER_TOKENS = 2
"""What the number of the next line costs in a mark."""

_SIZED_MARK_TOKENS = 5
_SHORTEST_PIECE = 100
"""Characters; units of one line with less are not pieces of a long line."""
_AIR_SHARE = 0.05
"""Share of the budget that the first round leaves free: for marks, and because joined lines are tokenized otherwise."""

BRACKETED = frozenset(("json", "jsonl", "json_cut"))
"""Kinds in which a line of brackets says nothing by itself."""

SMALLEST_STAGE = 400
"""In tokens. A budget of twice as much or more begins with the units that half of it would show."""

LENGTH_WEIGHT = 0.004
"""Before scores are compared, each is divided by 1 and this for every character of its unit."""

MOST_RANKED = 20_000
"""Of more units only the best are considered."""

OWNERS_VANISH = frozenset(("page", "html", "prose", "dialogue"))
"""Kinds whose layout drops a heading of which nothing is shown."""

BRIEF_OWNER = 12
"""In tokens. Owners that together cost more than a share of the budget are shown by their beginnings, …"""

LONG_OWNER = 60
"""… if they have more characters than this and score less than what they own."""

_OWNERS_SHARE = 0.12

MOST_STEPS = 400_000
"""Ancestors visited while packing; after this many, only units near something shown are considered."""


@dataclass(slots=True)
class Unit:
    """The smallest thing that is shown or omitted."""

    text: str
    """The shown text with indentation; may span lines."""
    first: int
    last: int
    """Source lines whose text the unit shows, counted from 1; for an owner its own line, not all that it owns."""
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
    rows: Sequence[int] = ()
    """For owners: the source lines of all that it lists, in order. If fewer are shown, ` [k of n]` is appended."""
    inline: bool = False
    """For sentences: joins the line of the previous shown unit, after ` … ` if something between them is omitted."""
    folded: FoldedLines = ()
    """Further source lines that the unit represents with the exact count that its text states."""
    shows: Runs = ()
    """Further source lines whose text is in this unit, e.g. those of the fields that identify a record."""
    prefix: str = ""
    """The beginning of the source line that an owner shows for this unit, e.g. a path that several lines share."""
    repeated: "RepeatedLine | None" = None
    """For a line that represents others: what is needed to count them over the sections of a longer text."""
    whole: str = ""
    """For a row whose text omits the usual values: all of it, for when something else speaks for the row."""
    represented_by: "Unit | None" = None
    """The unit that states an exact count or pattern of which this one is an ordinary case; beside it, it says nothing
    new and never fills what is left of the budget.
    """


@dataclass(frozen=True, slots=True)
class RepeatedLine:
    """A line that represents all that are equal up to their values."""

    template: Hashable
    text: str
    """The line without counts."""
    also: tuple[tuple[str, Hashable], ...] = ()
    """Words that other templates have in place of one of its words, with these templates."""
    stands_out: bool = False
    """Whether the line has a value that the question names, or an odd or extreme one."""
    timed: bool = False
    """Whether the line is shown without its time."""


def with_counts(text: str, count: int, also: Sequence[tuple[str, int]] = (), times: str = "") -> str:
    """Return `line ×412 (also guest ×3) [10:02:11–10:40:01]`."""
    if count > 1:
        text += f" ×{count}"
    if also:
        text += f" (also {', '.join(f'{word} ×{often}' if often > 1 else word for word, often in also)})"
    return f"{text} [{times}]" if times else text


@dataclass(frozen=True)
class HiddenValues:
    """Values of a tree (JSON, YAML, XML) that are not shown."""

    hidden: int
    total: int
    paths: tuple[str, ...]
    places: ValuePlaces = field(default_factory=ValuePlaces)


@dataclass
class Reading:
    """Units that a reader of one kind makes from a text."""

    kind: str
    units: list[Unit]
    head: str = ""
    """Shown first: shape, shared prefix, counts by value. Takes at most a quarter of the budget, in whole lines."""
    hidden: Callable[[set[int]], HiddenValues] | None = None
    """For trees: which values are not shown, given the indices of the shown units."""
    gaps: bool = True
    """Whether gaps between units are marked; a reader that marks them otherwise turns this off."""
    numbered: bool = False
    """Whether marks state the number of the line that follows, and blank lines are shown: for texts that are edited."""
    layout: "Callable[[set[int], dict[int, str], Gaps], str] | None" = None
    """For readers with their own layout: kept indices and shortened texts in, the shown text without the head out."""
    decay: float = 0.6
    """Decay within a family: its k-th member counts 1 / (1 + decay × k)."""
    totals: "Callable[[], Totals] | None" = None
    """What the head says, and all that units count, in a form that adds up over sections."""
    span: tuple[int, int] | None = None
    """First and last line of what was read, if known: not every line of a long text has a unit."""
    filled: bool = True
    """Whether a budget that is not used is filled with the lines that are left out."""


@dataclass
class Packed:
    text: str
    kept: set[int]
    tokens: int
    shortened: dict[int, str] = field(default_factory=dict)
    """Units that are shown in part, with the text that is shown."""

    def account(self, reading: Reading, lines: Sequence[str]) -> Account:
        """Return what happened to each line of the source."""
        classes = LineClasses(
            lines,
            brackets_are_syntax=reading.kind in BRACKETED,
            shown_in_sentences=reading.kind in OWNERS_VANISH,
        )
        written = bare(self.text) if reading.kind in OWNERS_VANISH else ""
        for place in self.places(reading):
            if not written or bare(place.text)[:40] in written:
                classes.enter(place)
        if written:
            classes.find_elsewhere(self.text)
        classes.close()
        if reading.hidden is None:
            return classes.account()
        hidden = reading.hidden(self.kept)
        return classes.account(hidden.paths, (hidden.hidden, hidden.total), hidden.places)

    def places(self, reading: Reading) -> Iterator[Place]:
        """Yield what each kept unit shows of the source."""
        for index in sorted(self.kept):
            unit = reading.units[index]
            if unit.text:
                text = unit.prefix + self.shortened.get(index, unit.text)
                yield Place(text, ((unit.first, unit.last), *unit.shows), folded_runs(unit.folded))


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
    mark = 4 if "\n" in text else 2
    for index in order[:200]:
        cost = tokenizer.count(pieces[index]) + mark
        if cost <= left:
            chosen.add(index)
            left -= cost
    if 0 not in chosen:
        return tokenizer.head(text, tokens - 2).rstrip() + " …"
    result = _with_gaps(pieces, sorted(chosen))
    return result if not tokenizer.exceeds(result, tokens) else tokenizer.head(text, tokens - 2).rstrip() + " …"


def _with_gaps(pieces: list[str], chosen: list[int]) -> str:
    """Join the chosen pieces with ` … ` for what is between them; pieces of different lines stay on different lines."""
    shown = ""
    before = -1
    for index in chosen:
        hidden = "".join(pieces[before + 1 : index])
        if hidden and shown:
            ends, opens = shown.endswith("\n"), hidden.endswith("\n")
            if not ends and "\n" not in hidden:
                shown += " … "
            elif opens:
                shown += "…\n" if ends else " …\n"
            else:
                shown += "… " if ends else " …\n… "
        shown += pieces[index]
        before = index
    return shown if before == len(pieces) - 1 else shown + (GAP if shown.endswith("\n") else f" {GAP}")


def _pieces_of(text: str, size: int = 120) -> list[str]:
    """Split into pieces of about `size` characters, after white space or punctuation if possible."""
    pieces: list[str] = []
    start, end = 0, len(text)
    while end - start > size * 3 // 2 and len(pieces) < 20_000:
        cut = max(text.rfind(sign, start + size // 2, start + size) for sign in ("\n", " ", ",", ";"))
        cut = cut + 1 if cut > 0 else start + size
        pieces.append(text[start:cut])
        start = cut
    pieces.append(text[start:])
    return pieces


def pack(
    reading: Reading,
    budget: int,
    tokenizer: Tokenizer = O200K,
    focus: Focus | None = None,
    lines: Sequence[str] | None = None,
    reserve: Callable[[int], int] | None = None,
) -> Packed:
    """Choose units for the budget and lay them out; never exceeds the budget, nor that without what is reserved of it.

    With the lines of the source, gaps are marked by what they hide; without them, by the units that are missing.
    """
    stages = list(packed_in_stages(reading, budget, tokenizer, focus, lines, reserve))
    return stages[-1] if stages else Packed("", set(), 0)


def packed_in_stages(
    reading: Reading,
    budget: int,
    tokenizer: Tokenizer = O200K,
    focus: Focus | None = None,
    lines: Sequence[str] | None = None,
    reserve: Callable[[int], int] | None = None,
    smallest: int = SMALLEST_STAGE,
    blank: int = 0,
) -> Iterator[Packed]:
    """Yield the packed text for halves of the budget, the smallest first, then for all of it.

    What a smaller budget shows comes first, so that a larger one never loses it. Callers that know that so many lines
    at the beginning are blank save looking at them.
    """
    if budget <= 0:
        return
    stages = 0
    while budget >> (stages + 1) >= smallest:
        stages += 1
    packing: _Packing | None = None
    for stage in range(stages, -1, -1):
        whole = budget >> stage
        room = max(1, whole - (reserve(whole) if reserve else 0))
        head = fitting_lines(reading.head, room // 4, tokenizer) if room >= 48 else ""
        packing = _Packing(reading, room, tokenizer, focus, head, lines, packing, blank)
        yield packing.run()


def fitting_lines(text: str, tokens: int, tokenizer: Tokenizer) -> str:
    """Return the first lines of a head that fit, at least the beginning of the first one."""
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

    def __init__(
        self,
        reading: Reading,
        budget: int,
        tokenizer: Tokenizer,
        focus: Focus | None,
        head: str,
        lines: Sequence[str] | None = None,
        before: "_Packing | None" = None,
        blank: int = 0,
    ) -> None:
        self.gaps: Gaps = Gaps(reading.units, lines, budget, before.gaps if before is not None else None, blank)
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
        self.least: dict[int, int] = {}
        """Lower bounds of costs."""
        self.candidates: list[tuple[float, int]] | None = None
        """Units without a family and the best of each family, sorted; they do not depend on the budget."""
        self.members: dict[Hashable, list[tuple[float, int]]] = {}
        """The other members of each family, the best last."""
        self.left: dict[Hashable, int] = {}
        """How many of them were not candidates yet in this round, once one was."""
        self.counts_at: dict[int, int] = before.counts_at if before is not None else _places_of_counts(reading.units)
        """By identity, where the units are that represent others."""
        if before is not None:
            self._resume(before)

    def _resume(self, before: "_Packing") -> None:
        """Begin with what a smaller budget shows; a unit that it shows in part is shown whole if it fits."""
        self.kept = set(before.kept)
        self.families = before.families
        self.costs, self.least = before.costs, before.least
        self.candidates, self.members = before.candidates, before.members
        spare = self.budget - before.budget
        for index, text in before.changed.items():
            if index not in self.kept:
                continue
            cost = self._cost(index) - self.tokenizer.count(text + "\n")
            if cost <= spare // 2:
                spare -= cost
            else:
                self.changed[index] = text

    def run(self) -> Packed:
        room = self.budget - (self.tokenizer.count(self.head + "\n") if self.head else 0)
        if self.kept:
            room = self.budget - self.tokenizer.count(self._layout())
        # A small reserve for marks and for the tokenization of joined lines; the refill uses what remains.
        air = min(room // 10, int(self.budget * _AIR_SHARE) + 2)
        self._spend(room - air, self._ranked())
        self._close_small_gaps()
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
        if used > self.budget and self.kept:
            text, used = self._without_least(used)
        if not text and self.units:
            best = max(range(len(self.units)), key=lambda index: (self.units[index].score, -index))
            text = shorten(self.units[best].text.strip(), self.budget, self.tokenizer, self.focus)
            self.kept.add(best)
            self.changed[best] = text
            used = self.tokenizer.count(text)
        if used > self.budget:
            text = shorten(text, self.budget, self.tokenizer)
            used = self.tokenizer.count(text)
        return Packed(text, self.kept, used, {at: changed for at, changed in self.changed.items() if at in self.kept})

    def _without_least(self, used: int) -> tuple[str, int]:
        """Remove the leaves with the lowest scores, as few as possible: the estimate was too low (rare)."""
        order = self._least_first()
        whole = frozenset(self.kept)
        freed = accumulate(map(self._shown_cost, order))
        low, high = 0, len(order) + 1
        step = next((many for many, tokens in enumerate(freed, 1) if tokens >= used - self.budget), len(order))
        fitting = "", 0
        while high - low > 1:
            # First in growing steps, then between the last two.
            many = min(low + step, len(order)) if high > len(order) else (low + high) // 2
            self.kept = set(whole.difference(order[:many]))
            text = self._layout()
            used = self.tokenizer.count(text)
            if used > self.budget and many < len(order):
                low, step = many, 2 * step
            else:
                high, fitting = many, (text, used)
        removed = high
        while removed < len(order) - 1 and self.units[order[removed]].score < 0:
            removed += 1  # An owner of which nothing is left.
        self.kept = set(whole.difference(order[:removed]))
        if removed == high:
            return fitting
        text = self._layout()
        return text, self.tokenizer.count(text)

    def _least_first(self) -> list[int]:
        """Return what is kept in the order in which it can be removed: leaves first, the lowest score first."""
        units = self.units
        inside = Counter(units[index].parent for index in self.kept)
        heap = [(units[index].score, -index) for index in self.kept if not inside[index]]
        heapq.heapify(heap)
        order: list[int] = []
        while heap:
            index = -heapq.heappop(heap)[1]
            order.append(index)
            owner = units[index].parent
            if owner is not None and owner in self.kept:
                inside[owner] -= 1
                if not inside[owner]:
                    heapq.heappush(heap, (units[owner].score, -owner))
        return order

    def _ranked(self) -> list[tuple[float, int]]:
        """Return the candidates as a heap: single units, and the best of each family.

        The other members stay in `self.members` until the one before them is processed. Of very many units only those
        with a chance are ranked.
        """
        if self.candidates is None:
            self.candidates = []
            for entry in self._ordered():
                family = self.units[entry[1]].family
                if family is None:
                    self.candidates.append(entry)
                else:
                    self.members.setdefault(family, []).append(entry)
            self.candidates += [members.pop() for members in self.members.values()]
            self.candidates.sort()
        self.left = {}
        return self.candidates.copy()

    def _follow(self, heap: list[tuple[float, int]], family: Hashable) -> None:
        """Add the next member of a family to the heap."""
        if family is None:
            return
        left = self.left.get(family)
        if left is None:
            left = len(self.members[family])
        if left:
            self.left[family] = left - 1
            heapq.heappush(heap, self.members[family][left - 1])

    def _ordered(self) -> list[tuple[float, int]]:
        """Return the units that may be chosen for themselves, the best last."""
        ranked = [
            (-unit.score / (1 + LENGTH_WEIGHT * len(unit.text)), index)
            for index, unit in enumerate(self.units)
            if unit.score >= 0 and unit.text
        ]
        if len(ranked) > MOST_RANKED:
            ranked = heapq.nsmallest(MOST_RANKED, ranked)
        ranked.sort(reverse=True)
        return ranked

    def _cost(self, index: int) -> int:
        cost = self.costs.get(index)
        if cost is None:
            cost = self.costs[index] = self.tokenizer.count(self.units[index].text + "\n")
        return cost

    def _is_over(self, index: int, room: int) -> bool:
        """Whether a unit exceeds the room for certain, even if it saves a mark; costs less than counting."""
        text = self.units[index].text
        if index in self.costs or len(text) <= room:
            return False
        least = self.least.get(index)
        if least is None:
            least = self.least[index] = self.tokenizer.at_least(text)
        return least > room + GAP_TOKENS

    def _spend(self, room: int, heap: list[tuple[float, int]]) -> None:
        units, kept, families, decay = self.units, self.kept, self.families, self.reading.decay
        pop = heapq.heappop
        misses = walked = 0
        while heap and room > 2 and misses < 400:
            rank, index = pop(heap)
            unit = units[index]
            family = unit.family
            if index in kept or (unit.represented_by is not None and self._is_represented(unit)):
                self._follow(heap, family)
                continue
            chain: list[int] = []
            owner = unit.parent
            deepest = 1_000 if walked < MOST_STEPS else 40
            while owner is not None and owner not in kept and len(chain) < deepest:
                chain.append(owner)
                owner = units[owner].parent
            walked += len(chain)
            if len(chain) == deepest:
                self._follow(heap, family)
                continue  # So far below everything that is shown that its path would cost more than the unit.
            rough = 0
            for at in chain:
                rough += min(LONG_OWNER, len(units[at].text))
            size = len(unit.text)
            current = -unit.score / (1 + LENGTH_WEIGHT * size + 0.0015 * rough)
            if family is not None and current < 0:
                current /= 1 + decay * families.get(family, 0)
            if current > rank + 1e-9:
                while heap and heap[0][1] in kept:
                    self._follow(heap, units[heapq.heappop(heap)[1]].family)
                if heap and current > heap[0][0] + 1e-9:
                    heapq.heappush(heap, (current, index))
                    continue
            self._follow(heap, family)
            if (size + rough) / 12 > room or self._is_over(index, room):
                cost = room + 1
            else:
                owners = self._owners_cost(unit, chain) if chain else 0
                cost = self._cost(index) + owners + self._mark_cost(index)
            if cost > room:
                misses += 1
                if not self._squeeze(index, chain, room):
                    self._lengthen(chain)
                    continue
                cost = self.tokenizer.count(self.changed[index] + "\n") + sum(self._shown_cost(at) for at in chain)
            room -= cost
            kept.add(index)
            kept.update(chain)
            if family is not None:
                families[family] = families.get(family, 0) + unit.count

    def _is_represented(self, unit: Unit) -> bool:
        """Whether a count that is shown represents the unit."""
        return self.counts_at.get(id(unit.represented_by), -1) in self.kept

    def _owners_cost(self, unit: Unit, chain: list[int]) -> int:
        """Return what the owners of a unit cost, and shorten them where they would cost too much."""
        cost = sum(map(self._cost, chain))
        if cost <= _OWNERS_SHARE * self.budget or len(chain) < 2:
            return cost
        for at in chain:
            owner = self.units[at]
            plain = "\n" not in owner.text and not owner.shows  # One line of the source, nothing of others.
            if plain and len(owner.text) > LONG_OWNER and owner.score < unit.score:
                self.changed[at] = self.tokenizer.head(owner.text, BRIEF_OWNER).rstrip() + " …"
        return sum(map(self._shown_cost, chain))

    def _lengthen(self, chain: list[int]) -> None:
        """Forget the short forms of owners that are not shown after all."""
        for at in chain:
            self.changed.pop(at, None)

    def _shown_cost(self, index: int) -> int:
        text = self.changed.get(index)
        return self._cost(index) if text is None else self.tokenizer.count(text + "\n")

    def _mark_cost(self, index: int) -> int:
        """Return what the marks of gaps around a unit cost more (or less) when it is shown."""
        if not self.reading.gaps:
            return 0
        cost = GAP_TOKENS + (NUMBER_TOKENS if self.reading.numbered else 0)
        return cost * (1 - (index - 1 in self.kept) - (index + 1 in self.kept))

    def _close_small_gaps(self) -> None:
        """Show a single hidden unit where its mark would cost as much."""
        if not self.reading.gaps or self.budget < 64:
            return
        units, kept = self.units, self.kept
        for index in sorted(kept):
            at = index + 1
            if at >= len(units) or at in kept or (at + 1 < len(units) and at + 1 not in kept):
                continue
            unit = units[at]
            short = unit.text and len(unit.text) <= 6 * GAP_TOKENS and unit.score >= 0
            if short and (unit.parent is None or unit.parent in kept) and self._cost(at) <= GAP_TOKENS + 1:
                kept.add(at)

    def _squeeze(self, index: int, chain: list[int], room: int) -> bool:
        """Show part of a unit that exceeds the remaining budget, if enough budget remains."""
        unit = self.units[index]
        if unit.score <= 0 or room < 12 or len(unit.text) < 160 or unit.shows:
            return False  # What is shown of several lines is laid out by the reader, not cut like one.
        rough = sum(len(self.units[at].text) for at in chain)
        if rough / 12 > room:
            return False
        left = room - sum(self._shown_cost(at) for at in chain) - 1
        if left < 12 or left < 0.08 * self.budget:
            return False
        self.changed[index] = shorten(unit.text, left, self.tokenizer, self.focus)
        return self.tokenizer.count(self.changed[index] + "\n") <= left + 1

    def _layout(self) -> str:
        self.gaps.see(self.kept)
        body = lay_out(self.reading, self.kept, self.changed, self.gaps)
        return self.head + "\n" + body if self.head and body else self.head or body


def _places_of_counts(units: Sequence[Unit]) -> dict[int, int]:
    counts = {id(unit.represented_by) for unit in units if unit.represented_by is not None}
    return {id(unit): index for index, unit in enumerate(units) if id(unit) in counts} if counts else {}


class Gaps:
    """Marks of the gaps between shown units: `[… 304 lines]` for the largest, `…` for the others.

    A gap is where lines of the source are missing that no shown unit represents. Shared by all readings of one pack.
    """

    def __init__(
        self,
        units: Sequence[Unit],
        lines: Sequence[str] | None,
        budget: int,
        before: "Gaps | None" = None,
        blank: int = 0,
    ) -> None:
        self.units = units
        self.lines = lines
        self.most = int(budget * MARK_SHARE / _SIZED_MARK_TOKENS) if budget >= 64 else -1
        self.blank: bytearray = _blank_lines(lines or (), blank) if before is None else before.blank
        self.seen: bytearray = bytearray(self.blank) if before is None else before.seen
        """Per line 0 if it is missing, 1 if it is shown or represented, 2 if it is blank and neither."""
        self.by: set[int] = set() if before is None else before.by
        """The units that are entered in it."""

    def see(self, kept: Iterable[int]) -> None:
        """Take note of all units that are shown, in whatever reading."""
        if self.lines is None:
            return
        shown = set(kept)
        if not self.by <= shown:
            self.seen[:] = self.blank
            self.by.clear()
        seen = self.seen
        size = len(seen)
        for index in shown - self.by:
            unit = self.units[index]
            if callable(unit.folded):
                unit.folded = folded_runs(unit.folded)
            for first, last in ((unit.first, unit.last), *unit.shows, *unit.folded):
                last = min(last, size)
                if 0 < first <= last:
                    seen[first - 1 : last] = b"\1" * (last - first + 1)
        self.by |= shown

    def marks(self, reading: Reading, order: Sequence[int]) -> dict[int, str]:
        """Return the marks by the shown unit that follows the gap; the number of units is the end."""
        if not order or self.most < 0:
            return {}
        units = reading.units
        gaps: list[tuple[int, int]] = []
        previous = -1
        for index in [*order, len(units)]:
            hidden = self._hidden(reading, previous, index)
            if hidden:
                gaps.append((hidden, index))
            previous = index
        gaps.sort(key=lambda gap: (-gap[0], gap[1]))
        # In another order than that of the source, several gaps have the same lines.
        is_ordered = all(units[one].first <= units[other].first for one, other in pairwise(order))
        largest = gaps[: self.most] if is_ordered else ()
        sized = {index: f"[{GAP} {hidden:,} lines]" for hidden, index in largest if hidden > 1}
        return {index: sized.get(index, GAP) for _, index in gaps}

    def between(self, before: Unit, after: Unit) -> bool:
        """Whether lines are missing between two units."""
        if self.lines is None:
            return after.first > before.last + 1
        return before.last < after.first - 1 and 0 in self.seen[before.last : after.first - 1]

    def _hidden(self, reading: Reading, previous: int, index: int) -> int:
        """Return how many lines are missing between two shown units."""
        units = reading.units
        missing = units[previous + 1 : index]
        if self.lines is None:
            return sum(unit.count for unit in missing)
        first, last = reading.span or (units[0].first, units[-1].last)
        start = units[previous].last if previous >= 0 else min(first, units[0].first) - 1
        end = units[index].first if index < len(units) else max(last, units[-1].last) + 1
        if end <= start + 1:
            # A part of the same line is missing, or the order is not that of the source.
            return int(end == start and any(unit.count for unit in missing))
        between = self.seen[max(start, 0) : end - 1]
        if 2 not in between:
            return between.count(0)
        return sum(len(run) for run in between.split(b"\1") if 0 in run)  # With the blank lines among them.


def _blank_lines(lines: Sequence[str], known: int) -> bytearray:
    """Return 2 for each blank line and 0 for the others; so many at the beginning are not read and hide nothing."""
    own = lines.own() if isinstance(lines, LongLines) and known else lines[known:] if known else lines
    found = bytearray(map(not_, map(str.strip, own))).replace(b"\1", b"\2")
    found[:0] = bytearray(b"\1") * known
    return found


def lay_out(reading: Reading, kept: set[int], changed: dict[int, str], gaps: Gaps, base: int = 0) -> str:
    """Write the kept units as text, in source order, with marks for omissions.

    In a reading that was merged with others, owners are numbered from `base` on.
    """
    if reading.layout is not None:
        return reading.layout(kept, changed, gaps)
    units = reading.units
    order = sorted(kept)
    shown: dict[int, int] = {}
    for index in order:
        owner = units[index].parent
        if owner is not None:
            shown[owner - base] = shown.get(owner - base, 0) + max(1, units[index].count)
    marks = gaps.marks(reading, order) if reading.gaps else {}
    if reading.numbered:
        marks = _numbered_marks(units, order, marks, changed)
    lines: list[str] = []
    for index in order:
        if index in marks:
            lines.append(marks[index])
        text = changed.get(index, units[index].text)
        of = len(units[index].rows)
        if of > shown.get(index, 0):
            text += f" [{shown.get(index, 0)} of {of}]"
        before, after = _is_piece(units, index - 1, index), _is_piece(units, index, index + 1)
        if units[index].inline and lines and index not in marks:
            joint = " " if index - 1 in kept else " … "
            lines[-1] += joint + text.lstrip()
        elif before and lines and index - 1 in kept:
            lines[-1] += ("" if lines[-1].endswith(" ") or text.startswith(" ") else " ") + text
        else:
            lines.append(f"{GAP} {text.lstrip()}" if before else text)
        if after and index + 1 not in kept and not text.endswith(GAP):
            lines[-1] += f" {GAP}"
    if len(units) in marks:
        lines.append(marks[len(units)])
    return "\n".join(lines)


def _is_piece(units: Sequence[Unit], index: int, after: int) -> bool:
    """Whether two units that follow each other are pieces of one long line of the source."""
    if index < 0 or after >= len(units):
        return False
    one, other = units[index], units[after]
    is_same = one.first == one.last == other.first == other.last and one.count == other.count == 1
    return is_same and not (one.inline or other.inline or one.rows) and len(one.text) > _SHORTEST_PIECE


def _numbered_marks(
    units: Sequence[Unit], order: Sequence[int], marks: dict[int, str], changed: dict[int, str]
) -> dict[int, str]:
    """Marks from which the number of every shown line follows; one or two blank lines are their own mark."""
    numbered = {index: mark if index == len(units) else f"{GAP}{units[index].first}" for index, mark in marks.items()}
    for before, index in pairwise(order):
        skipped = units[index].first - units[before].last - 1
        if index not in numbered and (skipped or before in changed):
            is_short = 0 < skipped <= 2 and before not in changed
            numbered[index] = "\n" * (skipped - 1) if is_short else f"{GAP}{units[index].first}"
    return numbered


def merge(readings: list[Reading], kind: str = "mixed") -> Reading:
    """Merge the readings of consecutive parts, so that their units compete for one budget."""
    units: list[Unit] = []
    offsets: list[int] = []
    for reading in readings:
        base = len(units)
        if reading.head:
            units.append(_head_unit(reading.head, reading.units[0].first if reading.units else 1))
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

    def hidden(kept: set[int]) -> HiddenValues:
        found = [
            reading.hidden(part_of(kept, reading, base))
            for reading, base in zip(readings, offsets, strict=True)
            if reading.hidden is not None
        ]
        return HiddenValues(
            sum(each.hidden for each in found),
            sum(each.total for each in found),
            tuple(path for each in found for path in each.paths),
        )

    def layout(kept: set[int], changed: dict[int, str], gaps: Gaps) -> str:
        parts: list[str] = []
        for reading, base in zip(readings, offsets, strict=True):
            if reading.head and base - 1 in kept:
                parts.append(changed.get(base - 1, reading.head))
            inside = part_of(kept, reading, base)
            if inside:
                own = {index - base: text for index, text in changed.items() if index - base in inside}
                parts.append(lay_out(reading, inside, own, gaps, base))
        return "\n".join(part for part in parts if part)

    decay = sum(reading.decay for reading in readings) / max(1, len(readings))
    has_values = any(reading.hidden is not None for reading in readings)
    return Reading(kind, units, hidden=hidden if has_values else None, layout=layout, decay=decay)


def _head_unit(head: str, line: int, parent: int | None = None) -> Unit:
    """Return a head as a unit: it stands at a line of the source and shows none."""
    return Unit(head, line, line - 1, 0.9, parent, count=0)


def moved(reading: Reading, line: Callable[[int], int], last: Callable[[int], int] | None = None) -> Reading:
    """Replace the line numbers of a part by those of the whole text.

    Where one line of the part is several lines of the text, `last` returns the last of them.
    """
    last = last or line
    if reading.span is not None:
        reading.span = line(reading.span[0]), last(reading.span[1])
    for unit in reading.units:
        empty = unit.last < unit.first
        unit.first = line(unit.first)
        unit.last = unit.first - 1 if empty else last(unit.last)
        if unit.rows:
            unit.rows = list(map(line, unit.rows))
        if unit.folded:
            unit.folded = _moved_runs(unit.folded, line, last)
        if unit.shows:
            unit.shows = runs_of((line(begin), last(end)) for begin, end in unit.shows)
    return reading


def _moved_runs(folded: FoldedLines, line: Callable[[int], int], last: Callable[[int], int]) -> FoldedLines:
    if callable(folded):
        return lambda: [(line(begin), last(end)) for begin, end in folded()]
    return runs_of((line(begin), last(end)) for begin, end in folded)


def put_title(reading: Reading, title: str, line: int) -> None:
    """Add a title above the reading's head; it is shown whenever any of its units is."""
    above = [Unit(title, line, line, 0.3, count=0)]
    if reading.head:
        above.append(_head_unit(reading.head, line + 1, 0))
        reading.head = ""
    size = len(above)
    for unit in reading.units:
        unit.parent = 0 if unit.parent is None else unit.parent + size
    reading.units[:0] = above
    inner_layout, inner_hidden = reading.layout, reading.hidden
    if inner_layout is not None:

        def layout(kept: set[int], changed: dict[int, str], gaps: Gaps) -> str:
            own = {at - size: text for at, text in changed.items() if at >= size}
            parts = [changed.get(index, above[index].text) for index in range(size) if index in kept]
            parts.append(inner_layout({at - size for at in kept if at >= size}, own, gaps))
            return "\n".join(part for part in parts if part)

        reading.layout = layout
    if inner_hidden is not None:
        reading.hidden = lambda kept: inner_hidden({index - size for index in kept if index >= size})


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
