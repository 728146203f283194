"""Several texts within one budget.

Small texts get what they need, and the others equal parts of the rest. Each text has a heading with its name, and the
whole never has more tokens than the budget. How a single text is condensed is handed in.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tersely.condensing.budget import SMALLEST_BUDGET, Condensed
from tersely.errors import InputError
from tersely.text.tokens import O200K


@dataclass(frozen=True)
class CondensedTexts:
    """Texts by name, each condensed, and all of them in one."""

    text: str
    tokens_before: int
    tokens_after: int
    parts: Sequence[tuple[str, Condensed]]


def condense_several(
    texts: Sequence[tuple[str, str]], budget: int, condense_one: Callable[[str, int], Condensed]
) -> CondensedTexts:
    """Condense named texts to one text of at most `budget` tokens.

    Raises:
        InputError: The budget is too small for so many texts; says how much is needed.
    """
    names = [name for name, _ in texts]
    room = budget - sum(O200K.count(f"{_heading(name)}\n\n") for name in names)
    if room < SMALLEST_BUDGET * len(texts):
        needed = budget - room + SMALLEST_BUDGET * len(texts)
        raise InputError(
            f"A budget of {budget} is too small for {len(texts)} files: at least {needed} tokens are needed."
        )
    sizes = [O200K.count(text) for _, text in texts]
    while True:
        shares = shares_of(sizes, room)
        parts = [
            (name, condense_one(text, max(share, SMALLEST_BUDGET)))
            for (name, text), share in zip(texts, shares, strict=True)
        ]
        joined = "\n".join(f"{_heading(name)}\n{part.text.removesuffix(chr(10))}" for name, part in parts)
        excess = O200K.count(joined) - budget
        if excess <= 0:
            return CondensedTexts(joined, sum(part.tokens_before for _, part in parts), budget + excess, parts)
        # Text that is masked or joined may have a few tokens more than its parts.
        room -= excess
        if room < SMALLEST_BUDGET * len(texts):
            raise InputError(f"A budget of {budget} is too small for {len(texts)} files. Give more, or fewer files.")


def shares_of(sizes: Sequence[int], room: int) -> list[int]:
    """Divide the room: sizes that fit into an equal part get their size, the others equal parts of the rest."""
    shares = [0] * len(sizes)
    left = room
    for done, index in enumerate(sorted(range(len(sizes)), key=sizes.__getitem__)):
        shares[index] = min(sizes[index], left // (len(sizes) - done))
        left -= shares[index]
    return shares


def _heading(name: str) -> str:
    """As `head` and `tail` write it."""
    return f"==> {name} <=="
