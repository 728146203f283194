"""Is what a model wrote a summary? Looked at before it is believed, cached or merged."""

import re
from collections.abc import Iterable

from tersely.errors import LLMRefused
from tersely.llm.messages import Completion
from tersely.text.tokens import Tokenizer
from tersely.text.truncate import cut_at_sentence, without_half_sentence

_REFUSAL = re.compile(
    r"\W*(?:i(?:'|’)?m sorry|i am sorry|sorry,|i apologi[sz]e|i can(?:no|')?t (?:help|assist|comply|provide|summari[sz]e|do that)"
    r"|i(?:'|’)?m (?:unable|not able)|i am (?:unable|not able)|as an ai\b|es tut mir leid|je suis désolée?|lo siento)",
    re.IGNORECASE,
)
_LONGEST_REFUSAL = 500


class NotASummary(LLMRefused):
    """The model answered, but with nothing that may stand for its source. Worth one more try with a nudge."""


def checked(answer: Completion, *, source_tokens: int, limit: int, tokenizer: Tokenizer) -> tuple[str, bool]:
    """The summary, and whether its end was cut off.

    Raises:
        NotASummary: It is empty, a refusal, no shorter than its source, or broke off too early to be of use.
    """
    text = answer.text.strip()
    if not text:
        raise NotASummary("the answer was empty" + (" (only thinking)" if answer.thinking else ""))
    if len(text) <= _LONGEST_REFUSAL and _REFUSAL.match(text):
        raise NotASummary("the model refused: " + " ".join(text.split())[:120])
    if tokenizer.exceeds(text, source_tokens - 1):
        raise NotASummary("the answer is no shorter than its source")
    if answer.finish == "length":
        whole = without_half_sentence(tokenizer.head(text, limit))
        if not tokenizer.exceeds(whole, limit // 2 - 1):
            raise NotASummary("the answer broke off before half of its length")
        return whole, True
    if tokenizer.exceeds(text, limit):
        # Cut rather than asked for again: the same prompt would get the same length.
        return cut_at_sentence(text, limit, tokenizer), True
    return text, False


_IDENTIFIER = re.compile(r"[A-Za-z0-9][\w.:/@%#+-]*\d[\w.:/@%#+-]*|\d[\w.:/@%#+-]*|\d+")
_OWN_CITATION = re.compile(r"\[lines? [\d–, -]+\]")
_EDGES = ".,:;/@%#+-"


def _identifiers(text: str) -> Iterable[str]:
    for match in _IDENTIFIER.finditer(text):
        yield match.group().strip(_EDGES).lower()


def invented(summary: str, source: str) -> list[str]:
    """Numbers and identifiers in the summary that its source does not contain.

    Compared without regard to case, thousands separators and the punctuation at their ends.
    Small numbers are counted by models ("three pods") and say little: they are let pass.
    """
    claimed = dict.fromkeys(_identifiers(_OWN_CITATION.sub("", summary)))
    doubtful = [claim for claim in claimed if not (claim.isdigit() and int(claim[:4]) <= 12 and len(claim) <= 2)]
    if not doubtful:
        return []
    known = set(_identifiers(source))
    missing = [claim for claim in doubtful if claim not in known]
    if not missing:
        return []
    # What is part of a longer identifier in the source, or written with separators there, was not invented.
    lowered = source.lower()
    without_separators = re.sub(r"(?<=\d)[,_'’ ](?=\d{3})", "", lowered)
    return [claim for claim in missing if claim not in lowered and claim.replace(",", "") not in without_separators]
