"""The packer: fills a budget with units.

`pack` chooses greedily by score per cost and re-scores lazily as families repeat; the
cost of a unit includes its ancestors that are not shown yet. The output is in source
order with marked gaps (`layout`); the real tokens are counted at the end, and the
remaining budget is filled.

Knows nothing of kinds, and of questions only `Focus`, which it uses to shorten a unit
that is larger than the remaining budget.
"""

import heapq
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from tersely.condensing.account import Account, LineClasses, Place, bare, folded_runs
from tersely.condensing.focus import Focus, scan
from tersely.condensing.layout import SIZED_MARK_TOKENS, Gaps, lay_out
from tersely.condensing.units import GAP, Reading, Unit
from tersely.text.tokens import O200K, Tokenizer

GAP_TOKENS = 1
"""Cost of a bare mark with its line end. A shorter line is shown instead of marked."""

NUMBER_TOKENS = 2
"""What the number of the next line costs in a mark."""
_AIR_SHARE = 0.05
"""Share of the budget that the first round leaves free: for marks, and because joined lines are tokenized otherwise."""

BRACKETED = frozenset(("json", "jsonl", "json_cut"))
"""Kinds in which a line of brackets says nothing by itself."""

SHORT_HEAD = 60
"""In tokens. A head takes up to a quarter of the budget, a shorter one up to a third."""
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
    stages = stages_of(budget, smallest)
    packing: _Packing | None = None
    for stage in range(stages, -1, -1):
        whole = budget >> stage
        room = max(1, whole - (reserve(whole) if reserve else 0))
        head = fitting_lines(reading.head, max(room // 4, min(room // 3, SHORT_HEAD)), tokenizer) if room >= 48 else ""
        packing = _Packing(reading, room, tokenizer, focus, head, lines, packing, blank)
        yield packing.run()


def stages_of(budget: int, smallest: int = SMALLEST_STAGE) -> int:
    """Return how often a budget is halved for its first stage."""
    stages = 0
    while budget >> (stages + 1) >= smallest:
        stages += 1
    return stages


def first_stage(budget: int) -> int:
    """Return the part of a budget with which packing begins.

    What a reader chooses by it is the same for every budget that begins so, so it displaces nothing.
    """
    return budget >> stages_of(budget)


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
                kept.append(_fitting_phrases(line, left, tokenizer))
            break
        kept.append(line)
        left -= cost
    return "\n".join(kept)


def _fitting_phrases(line: str, tokens: int, tokenizer: Tokenizer) -> str:
    """Return the first phrases and counts of `412 lines; ERROR 12; [status: 200 ×411, 500 ×1]` that fit."""
    cuts = [found.end() for found in re.finditer(r"[;,] ", line)]
    for cut in reversed(cuts):
        text = f"{line[:cut]}{GAP}"
        text += "]" if text.count("[") > text.count("]") else ""
        if tokenizer.count(text) <= tokens:
            return text
    return shorten(line, tokens, tokenizer)


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
        self.earlier: frozenset[int] = frozenset(before.kept) if before is not None else frozenset()
        """What a smaller budget shows, which is removed last."""
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
        if self.reading.gaps:
            air = max(air, min(room // 2, SIZED_MARK_TOKENS + GAP_TOKENS))
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
            text, used = self._best_alone(best)
        if used > self.budget:
            text = shorten(text, self.budget, self.tokenizer)
            used = self.tokenizer.count(text)
        return Packed(text, self.kept, used, {at: changed for at, changed in self.changed.items() if at in self.kept})

    def _best_alone(self, best: int) -> tuple[str, int]:
        """Show the beginning of the best unit: nothing else fits."""
        self.kept.add(best)
        whole = self.units[best].text.strip()
        if self.reading.gaps and self.reading.layout is None:
            for marks in (SIZED_MARK_TOKENS + 2 * GAP_TOKENS, SIZED_MARK_TOKENS + 4 * GAP_TOKENS):
                self.changed[best] = shorten(whole, max(1, self.budget - marks), self.tokenizer, self.focus)
                text = self._layout()
                used = self.tokenizer.count(text)
                if used <= self.budget:
                    return text, used
        text = self.changed[best] = shorten(whole, self.budget, self.tokenizer, self.focus)
        return text, self.tokenizer.count(text)

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
        """Return what is kept in the order in which it can be removed: leaves first, the lowest score first.

        What a smaller budget shows comes last.
        """
        units, earlier = self.units, self.earlier
        inside = Counter(units[index].parent for index in self.kept)
        heap = [(index in earlier, units[index].score, -index) for index in self.kept if not inside[index]]
        heapq.heapify(heap)
        order: list[int] = []
        while heap:
            index = -heapq.heappop(heap)[2]
            order.append(index)
            owner = units[index].parent
            if owner is not None and owner in self.kept:
                inside[owner] -= 1
                if not inside[owner]:
                    heapq.heappush(heap, (owner in earlier, units[owner].score, -owner))
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
        if not self.reading.gaps:
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
        is_count = unit.last < unit.first or (not unit.count and unit.folded)
        if unit.score <= 0 or room < 12 or len(unit.text) < 160 or unit.shows or is_count:
            return False  # Counts, and what is shown of several lines, are laid out by the reader, not cut like a line.
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
