"""`Masked`: text from which secrets were removed, as a type.

Models, stores, caches and logs accept nothing else, so a forgotten masking step
is a type error rather than a leak. `Masker` makes it; everything else gets it
from operations that keep text masked: what is derived from masked text is
masked, and so is masked text joined by words of our own.

`assume_masked` vouches for a text without looking at it. Only `masking` and
`pipeline` call it (`tests/masking/test_masked.py`).
"""

from collections.abc import Iterable


class Masked(str):
    """A plain string to every reader. Slicing or formatting it gives a `str`; the methods below give `Masked`."""

    __slots__ = ()

    def head(self, characters: int) -> "Masked":
        """The first characters."""
        return Masked(self[:characters])

    def head_tokens(self, tokens: int) -> "Masked":
        """The longest beginning of at most this many tokens."""
        from tersely.text.tokens import O200K  # Loads the tokenizer, which most users of this module do not need.

        return Masked(O200K.head(self, tokens))

    def derive(self, text: str) -> "Masked":
        """A text made from this one alone: a part of it, a quotation, a model's words about it, our words around it."""
        return Masked(text)

    def strip(self, characters: str | None = None, /) -> "Masked":
        return Masked(super().strip(characters))

    def rstrip(self, characters: str | None = None, /) -> "Masked":
        return Masked(super().rstrip(characters))


NOTHING = Masked("")
"""The empty text."""


def join_masked(separator: str, parts: Iterable[Masked]) -> Masked:
    """Masked texts with a separator of our own between them.

    A secret that spans two of them was never one value.
    """
    return Masked(separator.join(parts))


def own_words(text: str) -> Masked:
    """A text written in this program. Callers pass string literals only, which a test checks."""
    return Masked(text)


def fill(template: str, /, **values: "Masked | int | float") -> Masked:
    """A template of our own, filled with masked texts and numbers.

    Raises:
        TypeError: A value is text that was not masked.
    """
    for name, value in values.items():
        if not isinstance(value, Masked | int | float):
            raise TypeError(f"{name} is {type(value).__name__}, not masked text. Mask it before it is filled in.")
    return Masked(template.format(**values))


def from_store(text: str) -> Masked:
    """A text read back from our own database, which accepts only masked text.

    Called where rows are read: in `store`, `results`, and where sessions and research load their alerts.
    """
    return Masked(text)


def assume_masked(text: str) -> Masked:
    """Vouch for a text that did not come from the masker; the caller says why. See the module's docstring."""
    return Masked(text)
