"""Validation of model answers: whether an answer is a usable summary, and which of its claims the source lacks."""

import re
from collections.abc import Iterable

from tersely.errors import LLMRefused
from tersely.llm.messages import Completion
from tersely.text.tokens import Tokenizer
from tersely.text.truncate import cut_at_sentence, without_half_sentence

_REFUSAL = re.compile(
    r"\W*(?:unfortunately,? )?(?:i['’]?m sorry|i am sorry|sorry,|i apologi[sz]e|i['’]m afraid"
    r"|i (?:can(?:not|['’]?t)|won['’]?t|will not|must decline|am not able|am unable|['’]m not able|['’]m unable)\b"
    r"|i['’]m (?:unable|not able)|as an ai\b|es tut mir leid|je suis désolée?|lo siento)",
    re.IGNORECASE,
)
_LONGEST_REFUSAL = 500


class NotASummary(LLMRefused):
    """The model answered, but the answer cannot replace its source; one retry with a hint is worthwhile."""


def checked(answer: Completion, *, source_tokens: int, limit: int, tokenizer: Tokenizer) -> tuple[str, bool]:
    """Return the summary and whether its end was cut off.

    Raises:
        NotASummary: The answer is empty, a refusal, no shorter than its source, or was cut off too early to be useful.
    """
    text = answer.text.strip()
    if not text:
        raise NotASummary("the answer was empty" + (" (only thinking)" if answer.thinking else ""))
    if len(text) <= _LONGEST_REFUSAL and _REFUSAL.match(text):
        raise NotASummary("the answer was a refusal")
    if tokenizer.exceeds(text, source_tokens - 1):
        raise NotASummary("the answer is no shorter than its source")
    if answer.finish == "length":
        whole = without_half_sentence(tokenizer.head(text, limit))
        if not tokenizer.exceeds(whole, limit // 2 - 1):
            raise NotASummary("the answer was cut off before half of its length")
        return whole, True
    if tokenizer.exceeds(text, limit):
        # Cut it instead of asking again: the same prompt would produce the same length.
        return cut_at_sentence(text, limit, tokenizer), True
    return text, False


# Possessive (`*+`), so that a long run of letters is scanned once and not once per letter.
_RUN = re.compile(r"[A-Za-z0-9][\w.:/@%#+-]*+")
_DIGIT = re.compile(r"\d")
_THOUSANDS = re.compile(r"(?<=\d)[,_'’ ](?=\d{3}(?!\d))")
_MOST_CLAIMS = 300
_OWN_CITATION = re.compile(r"\[lines? [\d–, -]+\]")
_EDGES = ".,:;/@%#+-"


def _identifiers(text: str) -> Iterable[str]:
    for match in _RUN.finditer(text):
        if _DIGIT.search(match.group()):
            yield match.group().strip(_EDGES).lower()


def invented(summary: str, source: str) -> list[str]:
    """Return the numbers and identifiers in the summary that its source does not contain.

    The comparison ignores case, thousands separators and punctuation at the ends.
    Numbers up to 12 are ignored: models count things ("three pods"), so they prove little.
    """
    source = _without_separators(source)
    claimed = dict.fromkeys(_identifiers(_without_separators(_OWN_CITATION.sub("", summary))))
    doubtful = [claim for claim in claimed if not (claim.isdigit() and len(claim) <= 2 and int(claim) <= 12)]
    if not doubtful:
        return []
    known = set(_identifiers(source))
    missing = [claim for claim in doubtful if claim not in known][:_MOST_CLAIMS]
    if not missing:
        return []
    # A part of a longer identifier in the source is not invented.
    lowered = source.lower()
    return [claim for claim in missing if not _occurs_in(claim, lowered)]


def _without_separators(text: str) -> str:
    return _THOUSANDS.sub("", text)


def _occurs_in(claim: str, text: str) -> bool:
    """Whether the text contains the claim, other than as part of a longer number."""
    before = r"(?<!\d)" if claim[0].isdigit() else ""
    after = r"(?!\d)" if claim[-1].isdigit() else ""
    return re.search(before + re.escape(claim) + after, text) is not None
