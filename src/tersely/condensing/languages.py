"""The language of a question, and the stems of its words.

English has a stemmer of its own (`focus.stem`), which is fast and keeps the beginnings of words. Other languages
use Snowball, loaded when the first question in one of them comes.
"""

from collections.abc import Callable
from functools import cache, lru_cache

from tersely.condensing.lexicon import FUNCTION_WORDS, STOP

_LEAST_WORDS = 2
"""So many function words of a language, and more than of English, show it; one may be a name or a quotation."""


def language_of(question: str) -> str:
    """Return the Snowball name of the language of a question; English if nothing shows another."""
    words = [word.strip("¿¡.,;:!?\"'()«»") for word in question.lower().split()]
    best, most = "english", max(_LEAST_WORDS - 1, sum(word in STOP for word in words))
    for language, known in FUNCTION_WORDS.items():
        hits = sum(word in known for word in words)
        if hits > most:
            best, most = language, hits
    return best


@cache
def stemmer(language: str) -> Callable[[str], str]:
    """Return a function from a lower-case word to its stem in this language."""
    import snowballstemmer  # Slow to load, and most questions are English.

    to_stem: Callable[[str], str] = snowballstemmer.stemmer(language).stemWord
    return lru_cache(maxsize=8_192)(to_stem)
