"""Truncate a text at the end of a sentence or line.

For answers that are slightly too long, or that a model's output limit cut in the
middle of a sentence. The rest is lost: callers that need it keep the original.
"""

from tersely.text.boundaries import sentence_ends
from tersely.text.tokens import O200K, Tokenizer


def cut_at_sentence(text: str, limit: int, tokenizer: Tokenizer = O200K) -> str:
    """The beginning of a text within `limit` tokens, ending with a whole sentence or line.

    A text within the limit is returned unchanged. If a cut at the last whole sentence would lose more than half of
    what fits (one very long line, an unknown script), the cut is between two words, at worst between two characters.
    """
    if not tokenizer.exceeds(text, limit):
        return text
    return without_half_sentence(tokenizer.head(text, limit))


def without_half_sentence(text: str) -> str:
    """The text without the unfinished sentence at its end, unless that would remove more than half of the text.

    Only for texts known to be cut off: a last line without a full stop (a list item, a table row) counts as unfinished.
    """
    whole = text.rstrip()
    middle = len(whole) // 2
    # Add a line break: the white space that marks the end of the last sentence may have been cut off.
    end = max((position for position in sentence_ends(whole + "\n", middle, len(whole) + 1)), default=0)
    end = max(end, whole.rfind("\n", middle) + 1)
    return whole[:end].rstrip() if end > middle else whole
