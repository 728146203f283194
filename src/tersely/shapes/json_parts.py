"""Cut a long JSON document between the records of its longest list or map, without parsing it.

    for part in parts_of_list(text, 10_000_000):
        text[part.start : part.end]       # whole records; the first part also has all that is before the list

A record is an object, or a list in a list. None is cut, so what is counted in the parts adds up; the text may break off
in its last record. A map is an object whose values are objects. Linear in the text, whatever its brackets are.
"""

import re
from dataclasses import dataclass

NEXT_BRACKET = re.compile(r"""[^"\[\]{}]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"\[\]{}]*+)*+([\[\]{}])""", re.S)
"""Everything up to the next bracket that is not inside a string."""
_COMMA = re.compile(r"\s*,(?:[ \t\r]*\n)?")
_BEFORE_NEXT = re.compile(r"[\s\]},]*")
"""What is between the end of a list and the next field or value."""
MOST_AFTER = 4
"""How many times the text of a list what follows it may be; else another list is looked for."""


@dataclass(frozen=True)
class JsonPart:
    start: int
    end: int
    records: int
    """Whole records of the list in it."""
    opening: str = ""
    """The bracket that makes it a document if it begins with a record."""


def parts_of_list(text: str, size: int) -> list[JsonPart]:
    """Return parts of about that size; empty if the text is no document with records for more than one part.

    What follows the list is a part without records.
    """
    return _Cutter(text, size).parts_of_text()


class _Cutter:
    """One pass over the brackets of a document."""

    def __init__(self, text: str, size: int) -> None:
        self.text, self.size = text, size
        self.open: list[str] = []
        self.counts: list[int] = []
        """For each open bracket, how many records ended in it since the last cut."""
        self.cuts: dict[int, tuple[int, int]] = {}
        """Depth of an open list or map → where its last whole record ends, and how many records that makes."""
        self.parts: list[JsonPart] = []
        self.start = 0
        self.depth = 0
        """Of the list that is cut; 0 until the first cut."""

    def parts_of_text(self) -> list[JsonPart]:
        at = 0
        while (found := NEXT_BRACKET.match(self.text, at)) is not None:
            at = found.end()
            if found[1] in "[{":
                self.open.append(found[1])
                self.counts.append(0)
                continue
            if not self.open or (self.open[-1] == "[") != (found[1] == "]"):
                return []
            self.cuts.pop(len(self.open), None)
            if self.depth == len(self.open):
                if len(self.text) - at <= MOST_AFTER * (at - self.parts[0].end):
                    return self._with_end(at)
                # A short list inside of a record, or before the longest one.
                self.parts, self.start, self.depth = [], 0, 0
            self.open.pop()
            self.counts.pop()
            if self.open and (found[1] == "}" or self.open[-1] == "["):
                self._end_record(at)
        return self._with_broken_end()

    def _end_record(self, at: int) -> None:
        self.counts[-1] += 1
        comma = _COMMA.match(self.text, at)
        if comma is None:
            return
        self.cuts[len(self.open)] = comma.end(), self.counts[-1]
        if at - self.start < self.size or at + self.size // 5 >= len(self.text):
            return
        depth = self.depth or max(self.cuts, key=lambda each: (self.cuts[each][1], -each))
        if depth in self.cuts:
            end, records = self.cuts.pop(depth)
            self.parts.append(JsonPart(self.start, end, records, self._opening()))
            self.counts[depth - 1] -= records
            self.start, self.depth = end, depth

    def _opening(self) -> str:
        return self.open[self.depth - 1] if self.parts else ""

    def _with_end(self, at: int) -> list[JsonPart]:
        """Return the parts with the last one, and with what follows the list."""
        after = _BEFORE_NEXT.match(self.text, at)
        end = after.end() if after is not None else at
        parts = [*self.parts, JsonPart(self.start, end, self.counts[-1], self._opening())]
        if end == len(self.text):
            return parts
        closed = 1 + sum(1 for sign in self.text[at:end] if sign in "]}")
        around = self.open[: max(0, len(self.open) - closed)]
        return [*parts, JsonPart(end, len(self.text), 0, around[-1] if around else "")]

    def _with_broken_end(self) -> list[JsonPart]:
        """Return the parts of a list that breaks off; empty if more than a part of the text is no JSON."""
        if not self.parts or len(self.text) - self.start > 2 * self.size:
            return []
        records = self.counts[self.depth - 1] + (len(self.open) > self.depth)
        return [*self.parts, JsonPart(self.start, len(self.text), records, self._opening())]
