"""Units of text: what a reader makes of a text, before anything is chosen.

A reader of one kind (`json_documents.read`, `logs.read`, …) turns a text into a `Reading`:
units in source order, each with its score, its owner and its family, and a function that
lists omissions.

    def read(text: str, focus: Focus, budget: int) -> Reading | None: ...

`None` means that the reader declines. A reader never cuts to the budget itself: the
budget only limits how much detail is useful (how many units, how long a value).
Keep units under about 50,000 for any input; fold, prune or aggregate before that.

A reader guarantees: `Unit.text` is verbatim source text except for white space, a shared
prefix that is written once in the head, and marked omissions (`…`); units are in output
order; a parent precedes its children.

Knows nothing of kinds, questions and budgets.
"""

import heapq
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tersely.condensing.account import FoldedLines, Runs, ValuePlaces
from tersely.condensing.totals import Totals

if TYPE_CHECKING:
    from tersely.condensing.layout import Gaps

CHARACTERS_PER_TOKEN = 3.3
"""For estimates only; every shown text is counted."""

GAP = "…"


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
    equal: bool = False
    """Whether the lines that it represents are all equal to its own."""
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


def best_with_owners(scores: Sequence[float], parents: Sequence[int], most: int) -> list[int]:
    """Return the places of the best so many lines and of their owners, in order; a parent of -1 is none."""
    if len(scores) <= most:
        return list(range(len(scores)))
    kept = set(heapq.nsmallest(most, range(len(scores)), key=lambda at: (-scores[at], at)))
    for at in list(kept):
        parent = parents[at]
        while parent >= 0 and parent not in kept:
            kept.add(parent)
            parent = parents[parent]
    return sorted(kept)


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
    proven: bool = False
    """Whether the text proves that it is of this kind, where most texts of the kind do not."""


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
