"""Names what a question asks about and the text does not contain, so that a reader can conclude "none".

A shortened text does not show whether a name is missing because it was left out or because it never occurred. The
statement is literal: no line contains these characters, in upper or lower case. Names (identifiers, paths, quoted
phrases) are stated one by one; ordinary words only if none of them occurs, because the text may use other words for
the same thing. Words of trouble are never stated: a text may report a failure without the word.

Knows nothing of kinds, units or budgets.
"""

from tersely.condensing.focus import LONGEST_SOUGHT, Focus, SoughtWord

MOST_STATED = 3
_BLOCK = 1 << 20


class AbsentWords:
    """The words of a question that were in no text so far."""

    def __init__(self, focus: Focus) -> None:
        self._all = len(focus.sought)
        self._words: list[SoughtWord] = list(focus.sought)

    def read(self, text: str) -> None:
        """Search a text for the words that were not found yet."""
        for start in range(0, len(text), _BLOCK):
            if not self._words:
                return
            block = text[start : start + _BLOCK + LONGEST_SOUGHT].lower()
            self._words = [word for word in self._words if not word.pattern.search(block)]

    @property
    def statement(self) -> str:
        """Return `[no line contains "checkout-7f"]`; empty if there is nothing to state."""
        stated = [word.text for word in self._words if word.is_name]
        if not stated and len(self._words) == self._all:
            stated = [word.text for word in self._words]
        if not 1 <= len(stated) <= MOST_STATED:
            return ""
        *before, last = [f'"{text}"' for text in stated]
        return f"[no line contains {', '.join(before)}{' or ' if before else ''}{last}]"
