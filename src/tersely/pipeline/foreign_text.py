"""Cleans, demotes and masks one foreign text: the part of `pipeline.admit` that needs no structured content.

Imports little, because a hook has milliseconds for it.
"""

from typing import TYPE_CHECKING

from tersely.masking.clean import clean
from tersely.masking.imitations import demote
from tersely.masking.masked import Masked, assume_masked

if TYPE_CHECKING:
    from tersely.masking.mask import Masker


def admit_foreign(text: str, masker: "Masker | None") -> tuple[Masked, int]:
    """The text, and how many hidden characters were removed from it.

    Raises:
        MaskingFailed: The text must not be used.
    """
    cleaned = clean(text)
    shown = demote(cleaned.text)
    # Without a masker, the operator turned masking off for this server.
    return (masker.mask(shown) if masker else assume_masked(shown)), cleaned.removed
