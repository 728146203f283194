"""Shortening a text at a place where a reader would stop.

For answers that came out a little too long, or that a model's output limit cut
in the middle of a sentence. What is cut is gone: whoever needs the rest keeps
the original.
"""

from tersely.text.boundaries import sentence_ends
from tersely.text.tokens import O200K, Tokenizer


def cut_at_sentence(text: str, limit: int, tokenizer: Tokenizer = O200K) -> str:
    """The beginning of a text within `limit` tokens, ending with a whole sentence or line.

    A text within the limit comes back as it is. Where the last whole sentence would cost more than half of what fits
    (one endless line, a script we cannot read), the cut falls between two words, at worst between two characters.
    """
    if not tokenizer.exceeds(text, limit):
        return text
    return without_half_sentence(tokenizer.head(text, limit))


def without_half_sentence(text: str) -> str:
    """What is left when the unfinished sentence at the end goes; the text itself where that would be more than half of
    it.

    Only for texts known to be cut off: a last line without a full stop (a list item, a table row) counts as unfinished.
    """
    whole = text.rstrip()
    middle = len(whole) // 2
    # The white space that proves a sentence to be over may just have been cut away.
    end = max((position for position in sentence_ends(whole + "\n", middle, len(whole) + 1)), default=0)
    end = max(end, whole.rfind("\n", middle) + 1)
    return whole[:end].rstrip() if end > middle else whole
