"""The question of the reader, and how well a text answers it.

`Focus.parse("why is checkout-7f slow since 14:00?")` splits a question into terms
(quoted phrases, whole identifiers, stemmed words, parts of identifiers, short and
compound forms, synonyms) and intents (trouble, the unusual, superlatives,
comparisons, times). `scan` finds all terms in many texts in one Aho-Corasick pass and
all words of severity in another, so the cost depends on the number of matches and not
on the number of words.

What follows `ARGUMENTS` in a question are values of the call that produced the text:
weak terms without intents. Masks weigh nothing.

    found = scan(texts, focus)
    found.relevance       one number per text, about 0..1.3, with IDF over these texts
    found.severity        0 none, 1 warning, 2 error, 3 fatal, by words alone
    found.terms           for each text the indices of the terms it contains, or None

Deterministic: terms keep the order of the question. Knows nothing of kinds, units or budgets.
"""

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from itertools import accumulate, takewhile
from typing import Any, Literal

import ahocorasick

from tersely.condensing.languages import language_of, stemmer
from tersely.condensing.lexicon import (
    ASKING,
    EVERYDAY,
    FUNCTION_WORDS,
    HEADS_OF_NAMES,
    MEASURES,
    SETTINGS,
    SEVERITY,
    STOP,
    SYNONYMS,
)

ARGUMENTS = "\nArguments of the call: "
"""Separates a question from the values of the call's arguments."""


def focus_of(looking_for: str, call: str) -> str:
    """The focus of a result: what the caller wants to know, and the words of the call, which count less."""
    return f"{looking_for[:2000]}{ARGUMENTS}{call[:500]}" if call else looking_for[:2000]


TermKind = Literal["phrase", "identifier", "word", "part", "near", "synonym"]

_WEIGHTS: dict[TermKind, float] = {
    "phrase": 1.6,
    "identifier": 1.4,
    "word": 1.0,
    "part": 0.5,
    "near": 0.2,
    "synonym": 0.4,
}
"""`near`: a short form (`repl_` for replication) or a compound (`maxmemory` for memory)."""

_ASKING_WEIGHT = 0.15
_ARGUMENT_WEIGHT = 0.2
"""Values of arguments chose the text; inside it they separate little."""

_SHORTEST_CUT = 3
_LONGEST_CUT = 7
_CUT_FROM = 6
_SHORTEST_IN_COMPOUND = 5
"""Short forms of words from six letters on, of three to seven letters; words from five letters on inside compounds."""

_ADDRESS = re.compile(r"(?<!\S)\S{0,200}/\S{0,200}/\S{0,400}")
"""A URL or a path: its words name a place and ask for nothing (`/issues/19114`, `/var/log/error/max.log`)."""

_MASK = re.compile(r"\[[ \t]*masked\b[^\]\n]{0,100}\]", re.I)

_TROUBLE = re.compile(
    r"\b(error|err|fail|fault|problem|issue|wrong|why|unhealthy|healthy|crash|broke|broken|bad|alert|degrad|stuck"
    r"|restart|root cause|cause|"
    r"not (?:running|ready|start|work|available|healthy)|unavailable|trouble|investigat|panic|exception|timeout|outage"
    r"|incident|"
    r"warn|critical|down\b|"
    r"pending|oom|killed|denied|refused|slow|latency"
    r"|fehler|fehlgeschlagen|warum|erreur|échec|pourquoi|fallo|falló|por qué|perché|falha|fout|waarom|ошибк|почему)"
    r"|エラー|なぜ|失敗|错误|失败|为什么|오류"
)
"""Searched in lower case, as the three below: patterns that ignore case take twice as long."""
_UNUSUAL = re.compile(
    r"\b(unusual|odd|anomal\w*|outliers?|stands? out|different|differs?|unexpected|strange|weird|suspicious|abnormal"
    r"|irregular|"
    r"deviat\w*|inconsistent|mismatch\w*|rare|wrong|unique|notable|peculiar|overview|(?:look at|check|see) first"
    r"|atypical|surprising|sticks? out|out of (?:line|place|the ordinary)|(?:does|do|did)(?: not|n't) (?:fit|belong)"
    r"|(?:than|from|unlike) (?:all )?(?:the )?(?:others?|rest)|not the same)\b"
)
_UP = re.compile(
    r"\b(highest|largest|biggest|most|max|maximum|maximal|top|slow(?:est)?|longest|greatest|heaviest|latest|newest|peak|worst|busiest|greediest|"
    r"oldest age|more than any|costliest|priciest|dearest|tallest|deepest|widest|hottest"
    r"|höchste\w?|größte\w?|längste\w?|langsamste\w?|meisten|neueste\w?|teuerste\w?"
    r"|plus (?:grande?|longue?|lente?|élevée?|récente?)s?|más (?:grande|alt[oa]|larg[oa]|lent[oa]|reciente)s?)\b"
)
_DOWN = re.compile(
    r"\b(lowest|smallest|least|min|minimum|minimal|fastest|quickest|shortest|fewest|earliest|"
    r"oldest|youngest|cheapest|lightest|coldest|bottom|less than any"
    r"|niedrigste\w?|kleinste\w?|kürzeste\w?|schnellste\w?|wenigsten|älteste\w?|billigste\w?"
    r"|plus (?:petite?|courte?|rapide|basse?|ancienne?)s?"
    r"|más (?:pequeñ[oa]|baj[oa]|cort[oa]|rápid[oa]|antigu[oa])s?)\b"
)
_COMPARISON = re.compile(
    r"(?P<up>\b(?:over|above|more than|greater than|larger than|longer than|slower than|higher than|at least"
    r"|exceed(?:s|ing)?)\s|>=?)"
    r"|(?P<down>\b(?:under|below|less than|fewer than|smaller than|shorter than|faster than|lower than|at most)\s|<=?)",
    re.I,
)
_AMOUNT = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*([a-zA-Zµ%]{0,12})")
_MEASURE = re.compile(
    r"(?:\b(?:last|past|previous)\s+)?(?<![\w.-])\d+(?:\.\d+)?\s?(?:%|(?:percent|m?s|sec|seconds?|min|minutes?|h|hours?|d|days?)\b)",
    re.I,
)
"""Amounts and durations. As limits or time spans they are hardly search terms: any line may contain a 5 or a 10."""
_NEGATIVE = re.compile(r"(?<!false )(?<!true )\bnegative\b|\bbelow zero\b|\bless than zero\b", re.I)
_LIMITED = re.compile(rf"{_COMPARISON.pattern}|\b(?:last|past|previous|within|every|for|in|least|most|than)\b", re.I)

_NOT = re.compile(
    r"\b(?:not|isn't|aren't|wasn't|weren't|non|never|without|other than|except(?: for)?|apart from|different from"
    r"|besides|but)[\s-]+"
    r"(?:yet\s+|fully\s+|in\s+(?:state|status|phase)\s+|the\s+|in\s+)?[\"'`]?([\w./-]*\w)",
    re.I,
)
_NOT_PHRASE = re.compile(
    r"\b(?:not|isn't|aren't|other than|except|but)\s+((?:on|up|in|at|off|out|to|as)\s+[\w-]+)(\s+[\w-]+)?", re.I
)
"""States of several words that begin with a preposition: "not on time", "not up to date"."""
_CLOCK = r"(?:\d{4}-\d\d-\d\d[T ])?\d{1,2}:\d\d(?::\d\d)?|\d{4}-\d\d-\d\d"
_SINCE = re.compile(rf"\b(?:since|after|from|starting(?: at)?|between)\s+(?:about\s+|around\s+)?({_CLOCK})", re.I)
_UNTIL = re.compile(rf"\b(?:until|till|before|up to|to|and)\s+(?:about\s+|around\s+)?({_CLOCK})", re.I)
_AROUND = re.compile(rf"\b(?:at|around|about|near)\s+({_CLOCK})", re.I)
_TIME_IN_TEXT = re.compile(r"(?:(\d{4}-\d\d-\d\d)[T _])?(\d{1,2}:\d\d(?::\d\d)?)|(\d{4}-\d\d-\d\d)")

_QUOTED = re.compile(
    r"\"([^\"\n]{2,160})\"|`([^`\n]{2,160})`|(?<!\w)'([^'\n]{2,160})'(?!\w)|“([^”\n]{2,160})”|«([^»\n]{2,160})»"
)
_ANSWERS = re.compile(
    r"\bwhich\s+(\w+s)\b|\b(\w+s)\s+(?:to|about|concerning|regarding|touching|involving|affecting|mentioning)\s", re.I
)
"""What the answers are, rather than what they are about: "which *commits* touched it", "*changes* to it"."""
_ANSWERS_WEIGHT = 0.5
_ASKED_KIND = re.compile(r"\b(?:which|what|how many|how much)\s+(\w+)", re.I)
"""The sort of thing that is asked for, which a text need not name: "which *file* could not be opened"."""
_LETTER = re.compile(r"(\b[a-z]{3,}) ([B-HJ-Z])\b(?!')(?: ([a-z]{3,}\b))?")
"""A letter is a name only together with the word beside it: "the *C library*", "*drive D*"."""
_WORD = re.compile(r"[^\W_](?:[\w./:@#{}\[\]$+&*%\\-]*[\w}\])])?|/[\w./{}:@-]*[\w}]|[a-z_]\w*", re.I)
_BARE_NUMBER = re.compile(r"\d+(?:[.,]\d+)?[)\]}]*")
"""A number as a value of an argument, `range(100)`: it limits the call and names nothing in its result."""
_ACRONYMS = re.compile(r"[A-Z]{2,}s")
"""Several of what an acronym stands for: "which CVEs"."""
_LETTERS = re.compile(r"[^\W\d_]{2}")
_CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_A-Za-z]+")
_JOINT = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""Word boundaries inside `HighLatency` or `OOMKilled`."""

_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]{2,}")

_STRIPPED = (
    "ations",
    "ation",
    "ings",
    "ing",
    "ions",
    "ion",
    "ures",
    "ure",
    "ies",
    "ied",
    "ed",
    "es",
    "ly",
    "s",
    "e",
    "y",
)


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Strip the ending of a lower-case English word; at least three letters remain."""
    if word.endswith("ically"):
        return word[:-4]  # automatically → automatic
    for suffix in _STRIPPED:
        if (
            word.endswith(suffix)
            and len(word) - len(suffix) >= (4 if len(suffix) > 3 else 3)
            and not word.endswith("ss")
        ):
            found = word[: -len(suffix)]
            # running → run, but calling → call: English doubles only these letters before an ending.
            if suffix[0] in "ie" and len(found) > 3 and found[-1] == found[-2] and found[-1] in "bdgmnprt":
                found = found[:-1]
            return found
    return word


def subwords(name: str) -> list[str]:
    """Split an identifier into lower-case words: `maxPodCount-v2_total` → max, pod, count, v, 2, total."""
    if not name.isascii() and name.isalpha() and name[1:] == name[1:].lower():
        return [name.lower()]
    return [part.lower() for part in _CAMEL.findall(name)]


@lru_cache(maxsize=4_096)
def _stems_of(label: str) -> tuple[str, ...]:
    return tuple(stem(part) for part in subwords(label) if not part.isdigit())


@dataclass(frozen=True)
class Term:
    """One search term."""

    text: str
    """Lower case; for words the stem."""
    kind: TermKind
    weight: float
    whole: str = ""
    """For a part of an identifier: the whole identifier, in lower case."""


@dataclass(frozen=True)
class SoughtWord:
    """A word or a name of the question for which a text can be searched."""

    text: str
    """As written in the question."""
    is_name: bool
    """Whether it is an identifier or a quoted phrase."""
    pattern: re.Pattern[str]
    """Matches the word and its other forms in lower case: `checkoutApi` and `checkout_api`, `policy` and `policies`."""


@dataclass(frozen=True)
class Comparison:
    """A limit such as "over 500 ms": `above` is the direction; `unit` is as written and may be empty."""

    above: bool
    amount: float
    unit: str


@dataclass(frozen=True)
class Focus:
    """A parsed question; false if it has no terms."""

    text: str = ""
    terms: tuple[Term, ...] = ()
    trouble: bool = False
    """The question asks for errors and bad states; also set for an empty question."""
    unusual: bool = False
    """The question asks for values that differ from their siblings."""
    superlative: int = 0
    """1 for highest, slowest, latest …; -1 for lowest, fastest, earliest …; 0 for none."""
    measures: tuple[str, ...] = ()
    """Stems of the labels that the superlative may mean: "slowest" → duration, latency, …"""
    comparisons: tuple[Comparison, ...] = ()
    negated: tuple[str, ...] = ()
    """Negated states, as stems and as written: "not running" → ("run", "running"); rows in other states are wanted."""
    since: str = ""
    until: str = ""
    """As written in the question: a time of day, a date, or both."""
    words: frozenset[str] = frozenset()
    """The words of the question in lower case, also those that usually say little: `make` may be a name."""
    _automaton: ahocorasick.Automaton | None = field(default=None, compare=False, repr=False)

    def __bool__(self) -> bool:
        return bool(self.terms)

    @staticmethod
    @lru_cache(maxsize=64)
    def parse(text: str) -> "Focus":
        return _parse(text[:4_000])

    def within(self, text: str) -> bool | None:
        """Whether the first time in the text is inside the requested window; None without a window or a time."""
        if not self.since and not self.until:
            return None
        found = _TIME_IN_TEXT.search(text)
        if found is None:
            return None
        return _in_window(found, self.since, self.until)

    def names(self, label: str) -> float:
        """Score how well a column header or key matches the terms; abbreviations (`MEM%`) count slightly less."""
        stems = _stems_of(label)
        low = label.lower()
        total = 0.0
        for term in self.terms:
            if term.kind in ("synonym", "near") or term.weight < 0.2:
                continue
            if term.text == low:
                total += 1.2 * term.weight
            elif term.text in stems:
                total += term.weight
            elif any(
                len(part) >= 3 and len(term.text) >= 3 and (term.text.startswith(part) or part.startswith(term.text))
                for part in stems
            ):
                total += 0.6 * term.weight
        if self.measures and any(part in self.measures for part in stems):
            total += 0.5
        return total / (1 + 0.15 * max(0, len(stems) - 1))

    @cached_property
    def sought(self) -> tuple[SoughtWord, ...]:
        """The names and nouns that say what the question is about, without words of trouble."""
        return tuple(_sought(self))

    def rejects(self, value: str) -> bool:
        """Whether the question negates this value: "not running" rejects `Running`."""
        if not self.negated:
            return False
        low = value.lower()
        return low in self.negated or any(stem(part) in self.negated for part in subwords(value))

    def weight(self, index: int) -> float:
        return self.terms[index].weight


def _in_window(found: re.Match[str], since: str, until: str) -> bool | None:
    day, clock = found.group(1) or found.group(3) or "", found.group(2) or ""
    for limit, sign in ((since, 1), (until, -1)):
        wanted = _TIME_IN_TEXT.search(limit)
        if wanted is None:
            continue
        wanted_day, wanted_clock = wanted.group(1) or wanted.group(3) or "", wanted.group(2) or ""
        have, want = "", ""
        if wanted_day and day:
            have, want = day, wanted_day
        if wanted_clock and clock and (have == want):
            have, want = (
                have + clock.zfill(8 if clock.count(":") == 2 else 5),
                want + wanted_clock.zfill(8 if wanted_clock.count(":") == 2 else 5),
            )
        if not want:
            return None
        if (have < want) if sign > 0 else (have > want):
            return False
    return True


class _TermList:
    """Terms in the order of the question; of two equal terms the heavier one is kept."""

    def __init__(self, language: str = "english") -> None:
        self.language = language
        self._terms: dict[tuple[str, TermKind | Literal[True, False]], Term] = {}

    def __iter__(self) -> Iterator[Term]:
        return iter(self._terms.values())

    def add(self, name: str, kind: TermKind, weight: float, whole: str = "") -> None:
        name = name.lower()
        key = (name, kind if kind == "near" else kind in ("phrase", "identifier"))
        old = self._terms.get(key)
        if name and (old is None or old.weight < weight):
            self._terms[key] = Term(name, kind, weight, whole)


def _parse(text: str) -> Focus:
    question, _, values = text.partition(ARGUMENTS)
    question = _MASK.sub(" ", question)
    language = language_of(question)
    terms = _TermList(language)
    _add_phrases(terms, question)
    words = _add_identifiers(terms, question)
    _add_words(terms, words, question)
    _add_character_pairs(terms, question)
    _add_quoted_words(terms, question)
    _add_arguments(terms, _MASK.sub(" ", values))
    since, until = _SINCE.search(question), _UNTIL.search(question)
    around = _AROUND.search(question) if not since and not until else None
    asked = _ADDRESS.sub(" ", question)
    low = asked.lower()
    up, down = _UP.search(low), _DOWN.search(low)
    kept = tuple(terms)
    return Focus(
        text=question.strip(),
        terms=kept,
        trouble=bool(_TROUBLE.search(low) or _TROUBLE.search(_JOINT.sub(" ", asked).lower())) or not question.strip(),
        unusual=bool(_UNUSUAL.search(low)) or not question.strip(),
        superlative=1 if up and (not down or up.start() <= down.start()) else -1 if down else 0,
        measures=_measures(question),
        comparisons=_comparisons(question),
        negated=_negated(question),
        since=since.group(1) if since else around.group(1) if around else "",
        until=until.group(1) if until and since else "",
        words=_possible_names(question),
        _automaton=_build(kept, language, counting=_COUNTING.search(question) is not None),
    )


def _word_of(match: re.Match[str]) -> str:
    """Return a word without the signs of the sentence around it: a stop, or the end of a remark in parentheses."""
    word = match.group().rstrip(".:/'")
    return word if "(" in word else word.rstrip(").:/'")


def _possible_names(question: str) -> frozenset[str]:
    words = (_word_of(match).lower() for match in _WORD.finditer(question))
    return frozenset(word for word in words if len(word) > 1 and not word.isdigit() and word not in STOP)


LONGEST_SOUGHT = 60


def _sought(focus: Focus) -> Iterator[SoughtWord]:
    for groups in _QUOTED.findall(focus.text):
        yield from _sought_name(" ".join(next(part for part in groups if part).split()))
    roots = {term.text for term in focus.terms if term.kind == "word" and term.weight >= _WEIGHTS["word"]}
    answers = {word.lower() for word in _ASKED_KIND.findall(focus.text)}
    words: list[str] = []
    asked = _QUOTED.sub(" ", focus.text)
    for intent in (_MEASURE, _UNUSUAL, _UP, _DOWN):
        asked = intent.sub(" ", asked)
    for match in _WORD.finditer(asked):
        word = _word_of(match)
        low = word.lower()
        if _TROUBLE.search(low) or low.endswith(("ed", "ing")):
            continue  # What happened can be said in many words.
        parts = subwords(word)
        if not _ACRONYMS.fullmatch(word) and not (word.isalpha() and len(parts) == 1):
            yield from () if STOP & set(parts) else _sought_name(word)  # "Single sign-on" is no name.
        elif stem(low) in roots and low not in answers and len(low) <= LONGEST_SOUGHT:
            words.append(word)
    if any({word.lower(), stem(word.lower())} & SYNONYMS.keys() for word in words):
        return
    for word in words:
        # Without the letter that differs between "policy" and "policies".
        yield SoughtWord(word, False, re.compile(re.escape(stem(word.lower()).rstrip("eiy"))))


def _sought_name(name: str) -> Iterator[SoughtWord]:
    is_number = name.count(".") == 3 or (name.isdigit() and len(name) > 3)
    if (_LETTERS.search(name) or is_number) and len(name) <= LONGEST_SOUGHT and not _TIME_IN_TEXT.search(name):
        yield SoughtWord(name, True, re.compile(r"[\W_]*".join(map(re.escape, subwords(name)))))


def _measures(question: str) -> tuple[str, ...]:
    """Return the stems of the labels that the first superlative may mean."""
    words = (word for word in re.findall(r"[a-z]{4,10}", question.lower()) if word in MEASURES)
    return tuple(stem(label) for label in MEASURES.get(next(words, ""), "").split())


def _add_phrases(terms: _TermList, text: str) -> None:
    for groups in _QUOTED.findall(text):
        phrase = " ".join(next(part for part in groups if part).split())
        if len(phrase) > 1:
            terms.add(phrase, "phrase", _WEIGHTS["phrase"])


def _add_identifiers(terms: _TermList, text: str) -> list[str]:
    """Add identifiers, their parts and numbers; return the plain words."""
    identifiers = 0
    words: list[str] = []
    measures = [match.span() for match in _MEASURE.finditer(text)]
    limited = _LIMITED.search(text) is not None
    for match in _WORD.finditer(text):
        word = _word_of(match)
        if not word:
            continue
        if any(start <= match.start() < end for start, end in measures):
            if word.lower() not in STOP:
                terms.add(word, "identifier", _ASKING_WEIGHT if limited else 0.5)
            continue
        plain = word.isalpha() and len(subwords(word)) == 1
        if _ACRONYMS.fullmatch(word):
            words.append(word[:-1])
        elif not plain and len(word) > 1:
            _add_identifier(terms, word, identifiers)
            identifiers += 1
        elif word.isdigit():
            terms.add(word, "identifier", 0.5)
        elif plain and not _CJK.search(word):
            words.append(word)
    return words


def _add_identifier(terms: _TermList, word: str, before: int) -> None:
    """Add an identifier and its parts; each further identifier in a question is weaker evidence of its intent."""
    terms.add(word, "identifier", _WEIGHTS["identifier"] / (1 + 0.25 * before))
    for piece in re.split(r"[/:@]", word):
        if len(piece) > 3 and piece != word and not piece.isalpha() and not piece.isdigit():
            terms.add(piece, "identifier", 0.8 * _WEIGHTS["identifier"] / (1 + 0.25 * (before + 1)))
    for part in subwords(word):
        if len(part) >= 3 and not part.isdigit() and part not in STOP:
            terms.add(stem(part), "part", _WEIGHTS["part"] / (1 + 0.15 * before), word.lower())
            # `HighLatency` is the name of an alert: its words carry the meaning.
            for synonym in (SYNONYMS.get(part) or SYNONYMS.get(stem(part)) or ()) if word.isalpha() else ():
                terms.add(stem(synonym), "synonym", 0.5 * _WEIGHTS["synonym"])


def _add_words(terms: _TermList, words: list[str], text: str) -> None:
    unwanted = {word.lower() for word in _NOT.findall(text)}
    functions = FUNCTION_WORDS.get(terms.language, frozenset())
    answers = {word.lower() for pair in _ANSWERS.findall(text) for word in pair if not word.isupper()}
    before = ""
    for before_it, letter, after_it in _LETTER.findall(text):
        beside = [word for word in (after_it, before_it) if word and word not in STOP and word not in ASKING]
        if beside:
            phrase = f"{letter} {beside[0]}" if beside[0] == after_it else f"{beside[0]} {letter}"
            terms.add(phrase, "phrase", _WEIGHTS["word"])
    for word in words:
        lower = word.lower()
        if lower in unwanted and lower not in STOP:
            terms.add(stem(lower), "word", 0.15)  # A negated state is found by the other states of its column.
            continue
        if lower in STOP or lower in functions or len(lower) < 2:
            before = ""
            continue
        root = stem(lower)
        weight = _word_weight(word, text) * (_ANSWERS_WEIGHT if lower in answers else 1.0)
        terms.add(root if terms.language == "english" else lower, "word", weight)
        if lower in ASKING:
            before = ""
            continue
        for synonym in SYNONYMS.get(lower) or SYNONYMS.get(root) or ():
            terms.add(stem(synonym), "synonym", _WEIGHTS["synonym"])
        if len(lower) >= _SHORTEST_IN_COMPOUND and weight >= 0.5 * _WEIGHTS["word"]:
            terms.add(lower, "near", _WEIGHTS["near"])
        plain = weight >= 0.5 * _WEIGHTS["word"]
        if len(before) >= 3 and len(lower) >= 3 and plain:
            terms.add(before + root, "part", _WEIGHTS["near"])  # "append only" is written `appendonly`, too.
        before = lower if plain else ""


def _add_arguments(terms: _TermList, values: str) -> None:
    """Add the values of a call's arguments as weak terms, whole or not at all."""
    for match in list(_WORD.finditer(values))[:20]:
        word = _word_of(match)
        if len(word) > 2 and not _BARE_NUMBER.fullmatch(word) and word.lower() not in STOP:
            terms.add(word, "identifier", _ARGUMENT_WEIGHT)


@lru_cache(maxsize=4_096)
def _compares(word: str) -> bool:
    """Whether a word asks for an extreme or unusual value."""
    return bool(_UP.fullmatch(word) or _DOWN.fullmatch(word) or _UNUSUAL.fullmatch(word))


def _word_weight(word: str, text: str) -> float:
    lower = word.lower()
    if lower in ASKING:
        return _ASKING_WEIGHT
    superlative = _compares(lower)
    weight = 0.6 if lower[:3] in ("min", "max") else 0.3 if superlative else _WEIGHTS["word"]
    # Two letters, or capitals in mid-sentence, are names: "ML", "DB", "Tinian".
    if word[0].isupper() and not superlative and (word.isupper() or not text.lstrip().startswith(word)):
        weight *= 1.2
    return weight


def _add_character_pairs(terms: _TermList, text: str) -> None:
    """Add every two neighbouring characters of scripts that do not separate words."""
    for run in _CJK.findall(text):
        for index in range(len(run) - 1):
            terms.add(run[index : index + 2], "phrase", 0.6)


def _add_quoted_words(terms: _TermList, text: str) -> None:
    for groups in _QUOTED.findall(text):
        for word in re.findall(r"[A-Za-z]{3,}", next(part for part in groups if part)):
            if word.lower() not in STOP:
                terms.add(stem(word.lower()), "word", 0.7)


def _comparisons(text: str) -> tuple[Comparison, ...]:
    found = []
    for match in _COMPARISON.finditer(text):
        amount = _AMOUNT.match(text, match.end())
        if amount and not _TIME_IN_TEXT.match(text, amount.start(1)):
            found.append(Comparison(match.group("up") is not None, float(amount.group(1)), amount.group(2)))
    if _NEGATIVE.search(text):
        found.append(Comparison(False, -1e-9, ""))  # Zero is not.
    return tuple(found)


_NOT_SEVERE = re.compile(
    r"[\"']?\s{0,2}(?:[:=]\s{0,2}[\"']?|\s)(?:0\b(?!\.\d)|false\b|null\b|none\b|nil\b|\"\"|''|\[\]|\{\}|no\b|never\b|<none>|n/a\b)",
    re.I,
)
_ENDS_OF_NO = frozenset(" -\"'/.\n")
"""What `_NO_BEFORE` can end with."""
_NO_BEFORE = re.compile(r"(?:\b(?:no|0|without|zero|never|ignore|ignoring|if|on)[ -]|[\"'/.-])$", re.I)


_IN_A_NAME = 0.3
_SET_TO = re.compile(r"[\"']?\s?(?:[=:]\s?[\"']?\d|[;,)])")
_GOES_ON = frozenset(".0123456789")
_NAME_AFTER = re.compile(r"\.[a-z]{2,3}(?![\w.=-]|: ?[^\d\s])|\d{1,3}[a-z]")
"""Follows a word in the name of a host, a file or a program: `fatal.se`, `panic.go:5`, `fail2ban`."""
_TITLE_AFTER = re.compile(r" [A-Z][a-z]")
_TITLE_BEFORE = re.compile(r"(?<![A-Za-z])(?:[A-Z][a-z']+|I|A|The) (?:(?:the|of|a|in|on|and|to) )?$")
_LONGEST_OUTCOME = 400
_PASSED = re.compile(
    r"^\s*(?:[✓✔√]|ok \d|--- PASS|\[ *(?:OK|PASSED) *\]|PASS(?:ED)?\b)"
    r"|(?:\.{2,}|…)\s*(?:ok|OK|passed|PASS(?:ED)?|success)\s*(?:[\[(][^\])]{0,30}[\])])?\s*$"
    r"|\s(?:PASS(?:ED)?|[✓✔√])\s*(?:[\[(][^\])]{0,30}[\])])?\s*$"
)
"""A line whose outcome is good: words of severity in it belong to the name of what passed."""


def _may_have_passed(text: str) -> bool:
    """Whether a text has one of the words or signs of `_PASSED`; costs less than the search."""
    return "ok" in text or "OK" in text or "PASS" in text or "passed" in text or "success" in text or not text.isascii()


def _negated(text: str) -> tuple[str, ...]:
    """Return the negated states of a question: words and their stems, and states of several words as written."""
    forms = [
        form for word in _NOT.findall(text) if word.lower() not in STOP for form in (stem(word.lower()), word.lower())
    ]
    for short, more in _NOT_PHRASE.findall(text):
        forms += [short.lower(), (short + more).lower()]
    return tuple(dict.fromkeys(forms))


def _short_forms(word: str) -> list[str]:
    """Return the beginnings that programmers use for a word: they end before a vowel, or with an `o`."""
    if len(word) < _CUT_FROM or not word.isascii():
        return []
    return [
        word[:end]
        for end in range(_SHORTEST_CUT, min(_LONGEST_CUT, len(word) - 2) + 1)
        if (word[end - 1] not in "aeiou" and word[end] in "aeiouy") or (end > _SHORTEST_CUT and word[end - 1] == "o")
    ]


_TROUBLES = frozenset(map(stem, SEVERITY))
_ZERO = re.compile(r"[\"']?\s?[:=]\s{0,2}[\"']?(?:0(?![\d.])|false\b|null\b|none\b)", re.I)
_COUNTING = re.compile(r"\b(?:how many|number of|count|any|is there|are there|total)\b", re.I)


def _build(terms: tuple[Term, ...], language: str, *, counting: bool) -> ahocorasick.Automaton | None:
    """Build one automaton for all terms, None if there are none; a pattern may be several terms.

    Unless the question asks how many there are, `failed=0` is no failure.
    """
    patterns: dict[str, list[tuple[int, str, Any]]] = {}
    for index, term in enumerate(terms):
        if term.kind in ("phrase", "identifier"):
            patterns.setdefault(term.text, []).append((index, "exact", term.weight))
        elif term.kind == "near":
            root = stem(term.text)
            inside = root if len(root) >= _SHORTEST_IN_COMPOUND else term.text
            patterns.setdefault(inside, []).append((index, "compound", root))
            for cut in _short_forms(term.text):
                patterns.setdefault(cut, []).append((index, "short", len(cut)))
        elif term.kind == "word" and language != "english":
            to_stem = stemmer(language)
            form = to_stem(term.text)
            root = stem(term.text)
            common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(form, root, strict=False)))
            shared = root[:common] if common >= 3 else root
            patterns.setdefault(shared, []).append((index, "form", (form, root, to_stem)))
        elif term.text in _TROUBLES and not counting:
            patterns.setdefault(term.text, []).append((index, "trouble", term.weight))
        else:
            patterns.setdefault(term.text, []).append((index, "stem", term.weight))
    if not patterns:
        return None
    automaton = ahocorasick.Automaton()
    for pattern, values in patterns.items():
        automaton.add_word(pattern, (len(pattern), values))
    automaton.make_automaton()
    return automaton


_FREQUENT_FIRST = "etaonisrhldcumfpgwybvkxjqz"
"""The letters of English. The automaton looks for a character among the first letters of its words in this order."""


@cache
def _severe_words(*, ascii_only: bool) -> ahocorasick.Automaton:
    """Build the automaton of the words of severity; in a text in ASCII the others cannot occur."""
    automaton = ahocorasick.Automaton()
    for word in sorted(SEVERITY, key=lambda word: (_FREQUENT_FIRST + word[0]).index(word[0])):
        if word.isascii() or not ascii_only:
            automaton.add_word(word, (len(word), SEVERITY[word]))
    automaton.make_automaton()
    return automaton


@dataclass
class Found:
    """Result of `scan`, with one entry per text."""

    relevance: list[float]
    severity: list[float]
    terms: list[dict[int, int] | None]
    """Term index → number of occurrences; None for a text without matches."""
    frequency: dict[int, int]
    """Term index → number of texts that contain it."""
    idf: dict[int, float]
    """Term index → inverse document frequency among these texts, scaled to 0..1."""
    weights: dict[int, float]
    """Term index → contribution of the term to `relevance`."""
    scale: float = 0.5
    """Strength of the terms that make a relevance of about 1."""

    def adds(self, source: int, at: int) -> float:
        """Return the share (0..1) of the terms in text `source` that text `at` lacks: the other half of an answer."""
        there, here = self.terms[source], self.terms[at]
        if not there:
            return 0.0
        if not here:
            return 1.0
        total = sum(self.weights[index] for index in there)
        return sum(self.weights[index] for index in there if index not in here) / total if total else 0.0


def lowered(text: str) -> str:
    """Lower-case a text character by character, so that positions stay the same."""
    low = text.lower()
    if len(low) == len(text):
        return low
    return "".join(one if len(one) == 1 else char for char in text for one in (char.lower(),))


_LONGEST_BLOCK = 500_000
"""In characters. While a block is searched, it takes about eight times its size: copies, one of four bytes each."""


def scan(
    texts: Sequence[str],
    focus: Focus,
    *,
    separator: str = "\n",
    severe: bool = True,
    labels: Sequence[str] = (),
    names_of: Found | None = None,
) -> Found:
    """Find the terms of the focus and the words of severity in all texts in one pass; with `severe` off, terms only.

    Args:
        labels: Labels of fields. Their terms say what is asked of a text, and hardly which text is meant.
        names_of: The texts that these ones name, e.g. the lines of files with these paths. A term that is weak there
            stays weak, even if no other is found in a name.
    """
    count = len(texts)
    severity = [0.0] * count
    hits: list[dict[int, int] | None] = [None] * count
    # In blocks, so that the joined copy never doubles the memory of a large input.
    is_short = sum(map(len, texts)) + count < _LONGEST_BLOCK
    start = 0
    while start < count:
        end, size = (count, 0) if is_short else (start, 0)
        while end < count and size < _LONGEST_BLOCK:
            size += len(texts[end]) + 1
            end += 1
        block = _Block(texts[start:end], start, separator)
        if focus._automaton is not None:
            block.find_terms(focus._automaton, hits)
        if severe:
            block.find_severity(severity)
        start = end
    for at in [at for at, level in enumerate(severity) if level]:
        if len(texts[at]) < _LONGEST_OUTCOME and _may_have_passed(texts[at]) and _PASSED.search(texts[at]):
            severity[at] = 0.0
    return _rank(texts, focus, severity, hits, _terms_in(labels, focus), names_of)


def _terms_in(labels: Sequence[str], focus: Focus) -> set[int]:
    hits: list[dict[int, int] | None] = [None]
    if labels and focus._automaton is not None:
        _Block(["\n".join(labels)], 0, "\n").find_terms(focus._automaton, hits)
    return set(hits[0] or ())


class _Block:
    """Consecutive texts, joined to be searched in one pass."""

    def __init__(self, texts: Sequence[str], start: int, separator: str) -> None:
        self.start = start
        self.joined = separator.join(texts)
        self.low = lowered(self.joined)
        step = len(separator)
        self.limits = [limit - step for limit in accumulate([len(text) + step for text in texts])]
        """Where each text ends."""

    def find_terms(self, automaton: ahocorasick.Automaton, hits: list[dict[int, int] | None]) -> None:
        """Count for each text how often it contains each term."""
        joined, low, limits, start = self.joined, self.low, self.limits, self.start
        size = len(low)
        at = start
        limit = limits[0]
        for last, (length, values) in automaton.iter(low):
            first = last - length + 1
            if first > limit:
                at = start + bisect_left(limits, first, at - start + 1)
                limit = limits[at - start]
            if last > limit:
                continue  # The match spans two texts.
            after = last + 1
            following = low[after] if after < size else " "
            before = low[first - 1] if first else " "
            for index, how, level in values:
                if how == "exact":
                    if (following.isalnum() and low[last].isalnum() and low[last] < "぀") or (
                        before.isalnum() and low[first].isalnum() and low[first] < "぀"
                    ):
                        continue
                elif how == "stem" or how == "trouble":
                    if before.isalpha() and not (joined[first].isupper() and not joined[first - 1].isupper()):
                        continue
                    if following.isalpha() and not joined[after].isupper() and not _is_form(joined, low, first, after):
                        continue
                    if how == "trouble" and _ZERO.match(low, _word_end(joined, first)):
                        continue
                elif not _FITS[how](joined, low, first, after, level):
                    continue
                seen = hits[at]
                if seen is None:
                    hits[at] = {index: 1}
                else:
                    seen[index] = seen.get(index, 0) + 1

    def find_severity(self, severity: list[float]) -> None:
        """Find for each text its worst word."""
        joined, low, limits, start = self.joined, self.low, self.limits, self.start
        at = start
        limit = limits[0]
        for last, (length, level) in _severe_words(ascii_only=low.isascii()).iter(low):
            first = last - length + 1
            if first > limit:
                at = start + bisect_left(limits, first, at - start + 1)
                limit = limits[at - start]
            if last <= limit and level > severity[at]:
                severity[at] = max(severity[at], _severity_of(joined, low, first, last + 1, level))


def _begins(joined: str, first: int) -> bool:
    """Whether a word begins here: after a sign, a digit, or at a capital inside a name."""
    return not first or not joined[first - 1].isalpha() or (joined[first].isupper() and not joined[first - 1].isupper())


def _word_end(joined: str, first: int, longest: int = 40) -> int:
    """Return the end of the word that begins at `first`; a capital inside a name begins another."""
    end = first + 1
    edge = min(len(joined), first + longest)
    while end < edge and joined[end].isalpha() and not (joined[end].isupper() and not joined[end - 1].isupper()):
        end += 1
    return end


def _is_short_form(joined: str, low: str, first: int, after: int, length: int) -> bool:
    """Whether the beginning of a longer word stands alone: `repl` in `repl_timeout`, `conf` in `--conf`."""
    if not _begins(joined, first) or (after < len(low) and low[after].isalpha() and not joined[after].isupper()):
        return False
    if length > _SHORTEST_CUT:
        return True
    # Three letters are a word of their own too often; inside a name they are a part.
    beside = (low[first - 1] if first else " ") + (low[after] if after < len(low) else " ")
    return any(sign in "_-.$%" or sign.isdigit() for sign in beside)


def _is_in_compound(joined: str, low: str, first: int, after: int, root: str) -> bool:
    """Whether a longer word, no form of this one, begins or ends with it: `maxmemory`, `timeouts` but not `timeout`."""
    begins = _begins(joined, first)
    end = _word_end(joined, first)
    if begins:
        return end > after and stem(low[first:end]) != root
    return end == after or stem(low[first:end]) == root


def _is_foreign_form(
    joined: str, low: str, first: int, after: int, wanted: tuple[str, str, Callable[[str], str]]
) -> bool:
    """Whether the word here has the stem of the question's word, in its language or in English."""
    if not _begins(joined, first):
        return False
    word = low[first : _word_end(joined, first)]
    form, root, to_stem = wanted
    return to_stem(word) == form or stem(word) == root


_FITS: dict[str, Callable[[str, str, int, int, Any], bool]] = {
    "short": _is_short_form,
    "compound": _is_in_compound,
    "form": _is_foreign_form,
}


def _is_form(joined: str, low: str, first: int, after: int) -> bool:
    """Whether the word that starts at `first` is a form of the stem that ends before `after`."""
    stop = after
    edge = min(len(low), after + 10)
    while stop < edge and low[stop].isalpha() and not (joined[stop].isupper() and not joined[stop - 1].isupper()):
        stop += 1
    return stem(low[first:stop]) == low[first:after]


def _severity_of(joined: str, low: str, first: int, after: int, level: float) -> float:
    """Return the severity of a word at this place, by its role.

    It is 0 inside a longer word and low where the word is negated ("errors: 0"), part of a name (`test_failures_x`,
    `ErrorHandler`), a setting (`timeout=30`) or part of a title ("The Broken Heart").
    """
    if low[first] >= "぀":
        return level  # A script without blanks: words have no edges.
    following = low[after] if after < len(low) else " "
    if following.isalpha() and not (following == "s" or joined[after].isupper()):
        return 0.0
    before = low[first - 1] if first else " "
    if before.isalpha() and not joined[first].isupper():
        return 0.0
    ending = after + (following == "s")
    if _NOT_SEVERE.match(low, ending, ending + 12) or (
        before in _ENDS_OF_NO and first and _NO_BEFORE.search(low, max(0, first - 10), first)
    ):
        return min(level, 0.5)
    if _names_something(joined, low, first, ending):
        return min(level, _IN_A_NAME)
    return level


def _names_something(joined: str, low: str, first: int, after: int) -> bool:
    """Whether a word of severity is part of a name, the name of a setting, or part of a title."""
    word = low[first:after].removesuffix("s")
    following = joined[after] if after < len(joined) else " "
    before = joined[first - 1] if first else " "
    if (before == "_" or following == "_") and not joined[first:after].isupper():
        return True
    if "@" in (before, following) or (following in _GOES_ON and _NAME_AFTER.match(low, after, after + 8)):
        return True
    if following.isupper() and word in HEADS_OF_NAMES and not joined[first:after].isupper():
        return True
    if word in SETTINGS and _SET_TO.match(low, after, after + 12):
        return True
    return (
        word in EVERYDAY
        and joined[first].isupper()
        and not joined[first + 1].isupper()
        and (
            _TITLE_AFTER.match(joined, after, after + 3) is not None
            or _TITLE_BEFORE.search(joined, max(0, first - 30), first) is not None
        )
    )


_LABEL_SHARE = 0.3


def _rank(
    texts: Sequence[str],
    focus: Focus,
    severity: list[float],
    hits: list[dict[int, int] | None],
    labels: set[int],
    names_of: Found | None,
) -> Found:
    """Score by BM25 over these texts, scaled so that a text with the three most specific terms gets about 1."""
    count = len(texts)
    frequency: dict[int, int] = {}
    for seen in hits:
        if seen:
            for index in seen:
                frequency[index] = frequency.get(index, 0) + 1
    raw = {index: math.log(1 + (count - df + 0.5) / (df + 0.5)) for index, df in frequency.items()}
    # A term in half of all texts is almost no evidence, but never negative evidence.
    ceiling = math.log(1 + (count + 0.5) / 1.5) if count else 1.0
    idf = {index: max(0.02, value - 0.4) / max(0.5, ceiling) for index, value in raw.items()}
    # Where an identifier occurs whole, matches of its parts elsewhere are mostly coincidence.
    known = {*frequency, *names_of.frequency} if names_of is not None else frequency.keys()
    whole = {focus.terms[index].text for index in known if focus.terms[index].kind == "identifier"}
    heavy = {
        index: focus.terms[index].weight
        * (0.25 if focus.terms[index].whole in whole else 1.0)
        * (_LABEL_SHARE if index in labels else 1.0)
        for index in frequency
    }
    strengths = sorted((idf[index] * heavy[index] for index in frequency), reverse=True)
    # Weak terms stay weak even if nothing else was found.
    scale = max(0.5, sum(strengths[:3]))
    average = sum(map(len, texts)) / count if count else 1.0
    relevance = [0.0] * count
    weights = {index: heavy[index] * idf[index] / scale for index in frequency}
    if names_of is not None and names_of.scale > scale:
        # A word or an identifier names a text as well alone; parts of words do not.
        for index in frequency:
            if focus.terms[index].weight <= _WEIGHTS["part"]:
                weights[index] *= scale / names_of.scale
    for at, seen in enumerate(hits):
        if seen:
            length = 0.7 + 0.3 * min(8.0, len(texts[at]) / max(1.0, average))
            relevance[at] = sum(weights[index] * times * 1.8 / (times + 0.8 * length) for index, times in seen.items())
    return Found(relevance, severity, hits, frequency, idf, weights, scale)
