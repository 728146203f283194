"""Validation of model answers: whether an answer is a usable summary."""

import re

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
