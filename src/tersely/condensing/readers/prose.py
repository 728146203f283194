"""Prose of any language: articles, reports, minutes, dialogues and chats, down to the sentence.

The text is split into paragraphs (with a heading or a speaker if there is one) and the
paragraphs into sentences. A sentence is the unit, so that small budgets still show whole
statements. With a focus, the passage counts more than the single sentence: an answer is
where the words of the question cluster, and seldom repeats all of them. Without a focus,
sentences are central if they consist of words that recur throughout the text; they are
spread over its parts.

Scripts without spaces are read by pairs of characters. Nothing is rewritten. `pages`
removes menus and adverts and uses the sentences from here.
"""

import heapq
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, combinations, groupby
from typing import NamedTuple

from tersely.condensing.detect import Reader, Sample, Signs
from tersely.condensing.equal_units import FEWEST_EQUAL
from tersely.condensing.focus import Focus, Found, scan, stem
from tersely.condensing.layout import Gaps
from tersely.condensing.readers.generic import read_stated
from tersely.condensing.units import GAP, Reading, Unit, with_counts


def _stems(text: str) -> frozenset[str]:
    return frozenset(stem(word) for word in text.split())


SPOKEN_REACH = 1_300
WRITTEN_REACH = 300
"""Characters after which a word of the focus counts a third for the sentences around it.

Speakers discuss a subject for a minute or two, about 400 words, and seldom name it; a paragraph names it.
"""
DISCUSSED_WITHIN = (600, 2_600)
"""Where there is room for whole passages, the same for a remark and its answers and for a whole topic."""

SPEAKER_REACH = 600
"""The same for the turns of a speaker who is asked about: others answer him right before and after."""

LONGEST_SENTENCE = 500
"""Speech without punctuation is cut where a pause is likely; otherwise one long turn would take the whole budget."""

MOST_TEXT = 1_500_000
"""Of longer texts only the most promising blocks are read sentence by sentence."""

FEW_TOKENS = 200
"""Under this budget few sentences fit: each must answer by itself."""

TABLE_HEAD = 9
"""Heading level of the first row of a table, which applies to the other rows of the table only."""

RELATED = 0.4
"""Worth of two names in one sentence, compared with 0.35 for a name or number that occurs once."""
MOST_RELATED = 4
"""Names of one sentence that are related to each other."""
_MOST_TERMS = 60
_BLOCK = 8_000
_COMMON_ONE_IN = 30
"""A word in more than one of this many sentences is common and makes none of them central."""
_FAINT = 0.02
"""A word of the focus that counts less than this for a sentence is too far away."""
_SATURATION = 3.0
"""So many mentions nearby count half as much as arbitrarily many."""
_CONTEXT_SHARE = 0.4
"""Weight of the words that only say where the answer was given: "… when discussing the budget"."""
_SPEAKER_BONUS = 0.6
_SPEAKER_FACTOR = 1.6
"""What a sentence gains near the turns of a speaker who is asked about, and within them."""
_ONLY_STATEMENTS = (3.0, 2.0, 0.3)
_NO_CHAT = (0.0, 0.7, 0.0)
"""What a sentence of a talk gains by words of statements, and loses by words that only keep a talk going and by being a
question: where few sentences fit or nothing is asked, and where there is room for whole passages."""
_RECURRING = 2.0
_RECURRING_AROUND = 0.3
"""Worth of the words that recur in the best sentences, compared with the passages themselves: within a sentence where
few of them fit, else as a share of the passage."""
_SAID_BEFORE = 0.5
"""What remains of the score of a sentence whose words all occur in better ones."""
_REMARK = 40
"""Characters, with the names of the speakers, of remarks that are shown between two sentences that are shown: a mark
would cost half as much and make the reader wonder what is missing."""
_ANY_STATEMENT = 0.3
_OPENING = 0.3
"""Without a question: what a sentence has without any word that recurs, and what the first ones gain."""
_CRUMB = 0.2
"""Where few sentences fit, one with less of the best score is not shown even if there is room for it: "Fine with me."
after an opinion that it was not about would mislead."""
_BEST = 25
"""So many sentences at most, and one of so many, tell what words the subject is discussed with."""
_LENGTH = 0.004
"""What a sentence gains for each character. `pack` prefers short units by this number, which suits rows but not
sentences: a long one contains more; in speech not, where few sentences fit."""

_ENDING = 0.08
"""Share of a text that is its ending."""
_ENDING_SCORE = 1.9
"""Of 2 for the first sentence and 1.5 for those before the ending."""

_ASKING_ABOUT = _stems("""
    summarize summary discuss discussion discussed conclusion conclude opinion opinions view think thinks thought
    thoughts say says said talk talked talking mention mentioned mean meant meeting group team people participants
    everyone whole entire text article page main document content overview topics topic propose proposed suggest
    suggested suggestion recommend recommended agree agreed disagree disagreed decide decided decision reason
    explain explained consider considered regard regarding part attitude towards zusammenfassung zusammenfassen
    artikel seite résumé résumer resumen resumir riassunto
""")
"""Words of questions about conversations and texts. They define the *kind* of answer, not its location."""

_FUNCTION_WORDS = _stems("""
    der die das den dem des ein eine einer eines einem einen und oder ist sind war waren hat haben hatte wird werden
    wurde was wer wie wo wann warum wieviel welche welcher welches im am an auf aus bei mit nach von vor zu zum zur
    über unter für nicht auch es er sie wir ihr le la les un une du et ou est sont était ont quel quelle quels
    quelles qui que quoi où quand comment pourquoi combien dans sur avec pour par au aux ce cette ces il elle nous
    vous ils elles el los las una unos del son era fue ha han cuál cuáles qué quién cómo dónde cuándo cuánto por en
    con para al se lo gli di della dei sono hanno quale quali chi che cosa come dove quando quanto perché nel nella
    per da sul os um uma do dos das na em het een van wat wie hoe
""")
"""Function words of questions in some languages; in a short text even these would look rare."""

_NAMING = frozenset(
    """
    the of to and in that for with on by from as which their a an be been being has was were would should could might
    need needs made use used because between most less important they he she his her der die das des dem und von mit für
    wird wurde soll sollte würde le la les du de et pour dans est sera doit el los las del para con será debe
    """.split()  # noqa: SIM905
)
_TALKING = frozenset(
    """
    i you me my your uh um mm hmm yeah okay ok oh well gonna wanna like got guess say saying talk talking know see go
    don doesn didn cause whatever what why now next here ich du mir mein äh ähm ja je tu moi mon ben ouais euh yo tú mi
    pues
    """.split()  # noqa: SIM905
)
"""Words of statements and of talk in some languages; what is proposed or decided is said with "would" and "should"."""
_SMALL_WORDS = _NAMING | _TALKING

_CONTEXT = re.compile(
    r"(?<=\w\s)(?:(?:when|while)\s+\w+ing\b|in (?:the )?(?:discussion|context|terms) of\b|as (?:a )?part of\b).*",
    re.I | re.S,
)
"""The part of a question that says where the answer was given."""

_FACTS_WANTED = re.compile(
    r"\b(?:extract|facts?|schema|fields?|entit(?:y|ies)|names?|dates?|relations?|records?|fakten|extraire|extraer|estrarre)\b|[{\[]\s*[\"{]",
    re.I,
)
_QUESTION = re.compile(r"\?|？|^\s*(?:what|why|how|who|when|where|which|did|does|is|are|was|summari[sz]e)\b", re.I)
_NUMBER = re.compile(r"\d[\d.,:/%-]*")
_NAME = re.compile(
    r"[A-ZÀ-ÖØ-Þ][\w'’-]*[^\W\d_](?:\s(?:(?:of|the|de|du|la|von|van|der|den|zu|al)\s){0,2}[A-ZÀ-ÖØ-Þ][\w'’-]+)+"
    r"|(?<=[\w,;]\s)[A-ZÀ-ÖØ-Þ][\w'’-]*[^\W\d_]"
)
"""Several capitalised words in a row, or one inside a sentence."""

_SENTENCE_END = re.compile(
    r"(?:(?P<dot>\.)|[!?…‽؟۔।॥]|\.{2,4}|[.!?]{2,5})[\"'”’»)\]*_]{0,3}(?P<space>\s+)(?![\s,;)a-zà-öø-ÿа-яα-ω])|[。！？｡][」』）”’]{0,2}(?=\S)"
)
_SHORT_FORMS = frozenset(
    """
    mr mrs ms dr prof hon st sr jr vs no nr art abs bzw ca etc inc ltd co corp jan feb mar apr jun jul aug sep sept
    oct nov dec mt ft
    gen col sgt capt rev sen rep gov fig eq al cf ed vol pp approx dept univ str tel mme mlle sra ing ggf evtl usw dgl
    vgl inkl exkl zzgl
    max min
    """.split()  # noqa: SIM905
)
_MONTH = re.compile(
    r"\s+(?:jan(?:uar|ner|\b)|feb(?:ruar|\b)|märz|apr(?:il|\b)|ma[ij]\b|jun[iy]?\b|jul[iy]?\b|aug|sept?|okt|nov|dez)",
    re.I,
)
"""What follows the number of a day: "14. März"."""
_PAUSE = re.compile(r"[,;:–—]\s|\s[-–—]\s|[、，；]")
_LABEL = re.compile(
    r"[\s>]{0,3}(?:[\[(]?\d{1,4}[-/.:]\d\d[^\]\n]{0,24}[\])]?[\s,-]{1,3})?(?:\*\*)?"
    r"(?P<name><[^<>\n]{1,40}>|[^\W\d_](?:[^:：\n()]|\((?:[^()\n]|\([^()\n]{0,60}\)){0,80}\)){0,99}?)"
    r"(?:\*\*)?\s?(?::(?:\*\*)?(?:\s|$)|：|(?<=>)\s)"
)
_BRACKETED = re.compile(r"\s*\(.*")
_NAME_WORD = re.compile(r"\w+")
_TITLES = frozenset(("the", "hon", "mr", "mrs", "ms", "dr", "prof", "sir", "am", "mp", "right"))
_HEADING = re.compile(
    r"#{1,6}\s|(?:[IVXLC]{1,6}\.|\d{1,2}(?:\.\d{1,2}){1,3}\.?)\s+[^\W\d_].{0,78}[^.!?,;:]$"
    r"|(?i:chapter|kapitel|chapitre|capítulo|capitolo|part|teil)\s+[\dIVXLC]"
)
_WORDS = re.compile(r"[^\W_]{2,}")
_WORD_SIGN = re.compile(r"[^\W_]")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0e7f\u1780-\u17ff]")


def sentences(paragraph: str) -> list[str]:
    """Split a paragraph into sentences of at most `LONGEST_SENTENCE`; only white space between them is dropped."""
    found: list[str] = []
    start = 0
    for end in _SENTENCE_END.finditer(paragraph):
        if end.group("dot") and _is_short_form(paragraph, end.start()):
            continue
        cut = end.start("space") if end.group("space") else end.end()
        piece = paragraph[start:cut]
        # "Yeah." and "Right?" are not statements: they are joined with what follows.
        if len(piece) < 12 and (len(piece) < 3 or not _WIDE.search(piece)) and len(paragraph) - end.end() > 12:
            continue
        found.append(piece)
        start = end.end()
    if start < len(paragraph):
        found.append(paragraph[start:])
    if len(paragraph) <= LONGEST_SENTENCE:
        return found
    return [piece for sentence in found for piece in _cut_at_pauses(sentence)]


def _is_short_form(text: str, dot: int) -> bool:
    """Whether the dot belongs to an abbreviation or to the number of a day: "Dr.", "Nov.", "J.", "14. März"."""
    if text[dot - 1 : dot].isdigit():
        return not text[dot - 3 : dot].isdigit() and _MONTH.match(text, dot + 1) is not None
    begin = dot
    while begin and dot - begin < 6 and text[begin - 1].isalpha():
        begin -= 1
    word = text[begin:dot]
    return (len(word) == 1 and word != "I") or word.lower() in _SHORT_FORMS


def _cut_at_pauses(sentence: str) -> Iterator[str]:
    start = 0
    while len(sentence) - start > LONGEST_SENTENCE:
        low, high = start + LONGEST_SENTENCE // 3, start + LONGEST_SENTENCE * 3 // 4
        cut = 0
        for pause in _PAUSE.finditer(sentence, low, high):
            cut = pause.end()
        if not cut:
            cut = sentence.rfind(" ", start + 1, high) + 1 or high
        yield sentence[start:cut].strip()
        start = cut
    if start < len(sentence):
        yield sentence[start:].strip()


def words_of(sentence: str) -> list[str]:
    """Return the lower-case words, or pairs of characters where a script has no spaces."""
    words = _WORDS.findall(sentence.lower())
    if not sentence.isascii() and _WIDE.search(sentence):
        return [pair for word in words for pair in (_pairs(word) if _WIDE.search(word) else (word,))]
    return words


def _pairs(word: str) -> list[str]:
    return [word[at : at + 2] for at in range(len(word) - 1)]


@dataclass(slots=True)
class Paragraph:
    """Lines that belong together: a paragraph, or one turn of a dialogue."""

    first: int
    last: int
    text: str
    label: str = ""
    """The speaker, as written, with the colon."""
    heading: int = 0
    """The level of a heading, 0 for text; level 1 names a page."""
    whole: bool = False
    """Not to be split into sentences: a row, a line of code."""
    under: tuple[str, ...] = ()
    """The headings above it, the nearest last."""
    given: float | None = None
    """A score that overrides `score_sentences`."""
    aside: bool = False
    """Not part of the body: shown only if it answers the focus as well as the body does."""
    equal: tuple[tuple[int, int], ...] = ()
    """First and last line of each of the equal paragraphs that follow it, which it represents."""


def looks_like_dialogue(lines: Sequence[str]) -> bool:
    """Whether most lines begin with one of a few recurring names."""
    full = [line for line in lines if line.strip()][:400]
    if len(full) < 6:
        return False
    names = Counter(_BRACKETED.sub("", found.group("name")) for line in full if (found := _LABEL.match(line)))
    labelled = sum(names.values())
    return labelled >= 0.6 * len(full) and len(names) <= max(3, 0.5 * labelled)


def paragraphs(text: str) -> list[Paragraph]:
    """Split a text into paragraphs; wrapped lines are joined, and in a dialogue each line is a turn."""
    lines = text.split("\n")
    dialogue = looks_like_dialogue(lines)
    found: list[Paragraph] = []
    open_, before, width = False, "", 0
    for number, line in enumerate(lines, 1):
        stripped = line.strip()
        if not stripped or (len(stripped) < 200 and not _WORD_SIGN.search(stripped)):
            open_ = False  # A blank line, or a rule.
            continue
        if dialogue:
            label = _LABEL.match(line)
            if label:
                rest = line[label.end() :].strip()
                if rest:
                    found.append(Paragraph(number, number, rest, line[: label.end()].strip()))
                open_, before = bool(rest), line
                continue
        if stripped[0] == "#" or (not open_ and len(stripped) < 90 and _HEADING.match(stripped)):
            found.append(
                Paragraph(number, number, stripped, heading=1 + max(1, len(stripped) - len(stripped.lstrip("#"))))
            )
            open_ = False
            continue
        last = found[-1] if open_ and found else None
        if not open_:
            width = _widest_from(lines, number - 1)
        if last is not None and not last.heading and len(last.text) < 20_000 and _continues(before, stripped, width):
            # A wide script needs no space where a line was wrapped.
            last.text += ("" if "\u3000" <= last.text[-1] <= "\uffef" else " ") + stripped
            last.last = number
        else:
            found.append(Paragraph(number, number, stripped))
        before = stripped
        open_ = True
    return found


_ITEM = re.compile(r"(?:[-*+•·‣–]|\d{1,3}[.)]|[a-z]\))\s")
_FIELD = re.compile(r"[\w./-]{1,40}\s?(?:=|:(?=\s))")
_DIGIT = re.compile(r"\d")
_NEARLY_FULL = 0.85
"""Share of the width from which on a line counts as full; people who wrap lines by hand are not exact."""


def _continues(before: str, line: str, width: int) -> bool:
    """Whether a line continues the line before it because of wrapping; `width` is that of the widest line around."""
    if _ITEM.match(line) or line[0] == "|":
        return False
    if _WIDE.search(before):
        return len(before) >= 16
    if len(before) < 45 or _FIELD.match(line):
        return False
    first, above = line.split(" ", 1)[0], before.split(" ", 1)[0]
    if (first == above and len(first) > 3) or (_DIGIT.search(first) and _DIGIT.search(above)):
        return False  # Records of one kind: commits, settings, dates.
    # Where the next word would have fitted, the line was ended on purpose.
    return line[0].islower() or len(before) + 1 + len(first) > _NEARLY_FULL * width


def _widest_from(lines: list[str], at: int) -> int:
    """Return the width of the widest line from here to the next blank one."""
    widest = 0
    while at < len(lines) and lines[at] and not lines[at].isspace():
        widest = max(widest, len(lines[at].strip()))
        at += 1
    return widest


def read(text: str, focus: Focus, budget: int) -> Reading | None:
    parts = paragraphs(text) if len(text) <= MOST_TEXT else _promising(text, focus)
    if not parts:
        return None
    kind = "dialogue" if any(part.label for part in parts[:50]) else "prose"
    return reading_of(parts, focus, budget, kind)


def reading_of(
    parts: list[Paragraph], focus: Focus, budget: int, kind: str = "prose", *, from_the_top: bool = False
) -> Reading:
    """Read paragraphs that are already separated; `from_the_top` if the text as a whole is requested."""
    parts = _fold_equal(parts)
    texts: list[str] = []
    owners: list[Paragraph] = []
    above: list[Paragraph] = []
    under: tuple[str, ...] = ()
    for part in parts:
        if part.heading:
            while above and above[-1].heading >= part.heading:
                above.pop()
            above.append(part)
            under = tuple(heading.text for heading in above if heading.heading < TABLE_HEAD)
        else:
            part.under = under
            found = [part.text] if part.whole else sentences(part.text)
            texts += found
            owners += [part] * len(found)
    scores, gain = (
        Scores(from_the_beginning(texts, owners)) if from_the_top else score_sentences(texts, owners, focus, budget)
    )
    facts = wants_facts(focus) and not from_the_top
    # A page with a topic is read for its statements on the topic; a question finds its answer by its own words.
    stating = 1.2 if facts else 0.0 if kind != "page" or from_the_top else 0.2 if asks(focus) else 0.4
    if stating:
        share = 0.5 if facts else 1.0
        stated = facts_in(texts, fresh=facts)
        scores = [
            share * score + stating * new if score >= 0 else score for score, new in zip(scores, stated, strict=True)
        ]
    highest = max((owner.given for owner in owners if owner.given), default=0.0)
    if highest:
        # Scale given scores so that the best of them equals the best computed one.
        scale = max(scores) / highest
        scores = [
            score if owner.given is None else owner.given * scale for score, owner in zip(scores, owners, strict=True)
        ]
    shown = _candidates(texts, scores, budget, gain)
    sheet = _Sheet(total=len(texts))
    at = 0
    for part in parts:
        if part.heading:
            sheet.add_heading(part)
            continue
        begin = at
        while at < len(texts) and owners[at] is part:
            at += 1
        sheet.add_paragraph(
            part,
            [(number, texts[number], shown[number]) for number in range(begin, at) if number in shown],
            at - 1,
            with_facts=facts,
        )

    # A page leaves out menus at any budget; facts also stand in tables and lists beside the text.
    filled = kind != "page" or facts
    return Reading(kind, sheet.units, gaps=False, layout=sheet.lay_out, filled=filled)


def _fold_equal(parts: list[Paragraph]) -> list[Paragraph]:
    """Let a paragraph represent the equal ones that follow it."""
    kept: list[Paragraph] = []
    for _, group in groupby(parts, key=lambda part: (part.text, part.label, part.heading)):
        first, *others = group
        if len(others) + 1 < FEWEST_EQUAL or first.heading:
            kept += [first, *others]
        else:
            first.equal = tuple((part.first, part.last) for part in others)
            kept.append(first)
    return kept


def _candidates(texts: list[str], scores: list[float], budget: int, gain: float) -> dict[int, float]:
    """Return sentence number → score for `pack`: as many of the best as could be shown, none twice.

    Each gains `gain` per character.
    """
    most = 400 + 2 * budget
    candidates: Iterable[int] = range(len(texts))
    if len(texts) > most:
        candidates = sorted(heapq.nlargest(most, candidates, key=lambda number: (scores[number], -number)))
    chosen: dict[int, float] = {}
    seen: set[str] = set()
    for number in candidates:
        text = texts[number]
        if len(text) > 40:
            if text in seen:
                continue
            seen.add(text)
        chosen[number] = scores[number] * (1 + gain * len(text))
    return chosen


@dataclass(slots=True)
class _Sheet:
    """Collects units and lays out those that are kept."""

    units: list[Unit] = field(default_factory=list)
    opened_by: list[int] = field(default_factory=list)
    """For each unit the first one of its paragraph: only units of the same paragraph share a line."""
    numbers: list[int] = field(default_factory=list)
    """For each unit the number of its sentence, -1 for headings and speakers."""
    headings: list[tuple[int, int]] = field(default_factory=list)
    """Open headings: level and unit."""
    total: int = 0
    """Number of sentences of the text."""

    def add_heading(self, part: Paragraph) -> None:
        while self.headings and self.headings[-1][0] >= part.heading:
            self.headings.pop()
        at = self._add(
            Unit(part.text, part.first, part.last, 0.0, parent=self._heading(), count=0), len(self.units), -1
        )
        self.headings.append((part.heading, at))

    def add_paragraph(
        self, part: Paragraph, found: list[tuple[int, str, float]], last: int, *, with_facts: bool
    ) -> None:
        """Add the sentences of a paragraph that may be shown; `last` is the number of its last one."""
        if not found:
            return
        if self.headings and self.headings[-1][0] == TABLE_HEAD and not part.text.startswith("|"):
            self.headings.pop()
        begin = len(self.units)
        owner = self._heading()
        if part.label:
            owner = self._add(Unit(part.label, part.first, part.first, 0.0, parent=owner, count=0), begin, -1)
        for number, text, score in found:
            family = _facts_of(text) if with_facts else None
            at = self._add(Unit(text, part.first, part.last, score, parent=owner, family=family), begin, number)
        if part.equal and found[-1][0] == last:
            unit = self.units[at]
            unit.count = len(part.equal) + 1
            unit.text, unit.folded = with_counts(unit.text, unit.count), part.equal

    def _heading(self) -> int | None:
        return self.headings[-1][1] if self.headings else None

    def _add(self, unit: Unit, begin: int, number: int) -> int:
        self.units.append(unit)
        self.opened_by.append(begin)
        self.numbers.append(number)
        return len(self.units) - 1

    def lay_out(self, kept: set[int], changed: dict[int, str], gaps: Gaps) -> str:
        """Write a paragraph's sentences on one line; `…` marks omissions, between paragraphs on a line of its own."""
        order = self._with_content(kept)
        marked = self._marked(order, gaps)
        lines: list[str] = []
        before = -1
        for index in order:
            text = changed.get(index, self.units[index].text)
            if before >= 0 and self.opened_by[before] == self.opened_by[index]:
                if self.numbers[before] >= 0 and self.numbers[index] > self.numbers[before] + 1:
                    # A sentence that is cut ends with a mark already.
                    lines[-1] += f" {text}" if lines[-1].endswith(GAP) else f" {GAP} {text}"
                else:
                    # Scripts without spaces have none between sentences either.
                    lines[-1] += text if "\u3000" <= lines[-1][-1:] <= "\uffef" else " " + text
            else:
                if index in marked:
                    lines.append(GAP)
                lines.append(text)
            before = index
        if len(self.units) in marked:
            lines.append(GAP)
        return "\n".join(lines)

    def _with_content(self, kept: set[int]) -> list[int]:
        """Return the kept units in order, without headings and speakers that have no kept content."""
        order: list[int] = []
        owners: set[int] = set()
        for index in sorted(kept, reverse=True):
            if self.numbers[index] >= 0 or index in owners:
                order.append(index)
                parent = self.units[index].parent
                if parent is not None:
                    owners.add(parent)
        return order[::-1]

    def _marked(self, order: list[int], gaps: Gaps) -> set[int]:
        """Return the units (`len(self.units)` for the end) before which sentences or other lines are omitted."""
        if not order:
            return set()
        # In a text of several parts, the other parts mark their own gaps.
        alone = gaps.units is self.units
        line = 0 if alone else self.units[0].first - 1
        end = len(gaps.seen) if alone else self.units[-1].last
        marked: set[int] = set()
        start: int | None = None
        last = -1
        for index in order:
            if start is None:
                start = index  # A heading or a speaker, else the sentence itself.
            number = self.numbers[index]
            if number < 0:
                continue
            if number > last + 1 or gaps.seen.count(0, line, max(line, self.units[start].first - 1)):
                marked.add(start)
            last, line, start = number, self.units[index].last, None
        if last + 1 < self.total or gaps.seen.count(0, line, max(line, end)):
            marked.add(len(self.units))
        return marked


def from_the_beginning(texts: list[str], owners: list[Paragraph]) -> list[float]:
    """Score earlier sentences above later ones: a text, and each of its paragraphs, states first what matters most.

    The last sentences of a longer text, which say what it comes to, count as much as some near its beginning.
    """
    scores: list[float] = []
    paragraph, rank = None, 0
    for at, owner in enumerate(owners):
        rank = rank + 1 if owner is paragraph else 0
        paragraph = owner
        scores.append(2.0 - 0.5 * at / len(owners) - 0.08 * min(rank, 4))
    body = [at for at, owner in enumerate(owners) if not owner.aside]
    room = _ENDING * sum(len(texts[at]) for at in body)
    for at in reversed(body):
        room -= len(texts[at])
        if room < 0:
            break
        scores[at] = max(scores[at], _ENDING_SCORE + 0.001 * at / len(owners))
    return scores


class Scores(NamedTuple):
    """The scores of sentences, and what they gain per character."""

    values: list[float]
    gain: float = _LENGTH


def score_sentences(texts: list[str], owners: list[Paragraph], focus: Focus, budget: int) -> Scores:
    """Score each sentence.

    With a question, a sentence scores by the terms that cluster around it, else by its centrality.
    """
    headings = list(dict.fromkeys(heading for owner in owners for heading in owner.under))
    found = scan([*texts, *headings], focus)
    terms = found.terms[: len(texts)]
    speakers = _named(owners, focus)
    is_dialogue = any(owner.label for owner in owners)
    weights = _distinguishing(focus, found, speakers, 0.5 if is_dialogue else 1.0)
    if not weights:
        return Scores(_unasked(texts, owners, found.relevance, speakers, is_dialogue=is_dialogue))
    few = budget < FEW_TOKENS
    own = [sum(weights[index] for index in seen if index in weights) if seen else 0.0 for seen in terms]
    # Where few sentences fit, each must answer by itself; else the passage counts more.
    around, beside = (0.7, 1.0) if not is_dialogue else (1.0, 0.6) if few else (2.0, 0.7)
    words = _telling_words(texts) if is_dialogue else []
    recurring = None
    if is_dialogue and not few:
        passage = _discussed(texts, words, terms, weights, own)
    else:
        passage = _relative(_passages(texts, terms, weights, SPOKEN_REACH if is_dialogue else WRITTEN_REACH))
        if is_dialogue:
            recurring = _recurring(words, [around * value + beside * own[at] for at, value in enumerate(passage)])
    enough = max(0.15, 0.5 * max(own))
    headed = _headed(owners, dict(zip(headings, found.terms[len(texts) :], strict=True)), weights)
    central = centrality(texts) if few else None
    short, least_share = (35, 0.2) if not few else (50, 0.0) if is_dialogue else (60, 0.2)
    scores = []
    for at, value in enumerate(passage):
        if owners[at].aside and own[at] < enough:
            scores.append(-1.0)
            continue
        score = around * value + beside * own[at] + (0.15 * central[at] if central else 0.0)
        if recurring:
            score += _RECURRING * recurring[at]
        if headed:
            score += headed[owners[at].under]
        if len(texts[at]) < short and not owners[at].whole and not _WIDE.search(texts[at]):
            score *= least_share + (1 - least_share) * len(texts[at]) / short
        scores.append(score)
    if not is_dialogue:
        return Scores(scores)
    _prefer_statements(scores, texts, owners, speakers, _ONLY_STATEMENTS if few else _NO_CHAT)
    if few:
        least = _CRUMB * max(scores)
        return Scores([score if score >= least else -1.0 for score in scores], 0.0)
    _prefer_new_words(scores, texts, words, budget)
    _fill_small_gaps(scores, texts, owners)
    return Scores(scores)


def _telling_words(texts: list[str]) -> list[set[str]]:
    return [set(words_of(text)) - _SMALL_WORDS for text in texts]


def _relative(values: list[float]) -> list[float]:
    top = max(values) or 1.0
    return [value / top for value in values]


def _discussed(
    texts: list[str],
    words: list[set[str]],
    terms: list[dict[int, int] | None],
    weights: dict[int, float],
    own: list[float],
) -> list[float]:
    """Return 0..1 for each sentence: how much the subject is discussed around it, rather than touched."""
    near, far = (_relative(_passages(texts, terms, weights, reach)) for reach in DISCUSSED_WITHIN)
    passage = [value**3 for value in _relative([one + other for one, other in zip(near, far, strict=True)])]
    recurring = _recurring(words, [value + own[at] / 3 for at, value in enumerate(passage)])
    fading = [math.exp(-len(text) / SPOKEN_REACH) for text in texts]
    said = _spread([(at, value * len(texts[at])) for at, value in enumerate(recurring)], fading)
    size = _spread([(at, float(len(text))) for at, text in enumerate(texts)], fading)
    around = _relative([value / (total or 1.0) for value, total in zip(said, size, strict=True)])
    return _relative(
        [
            (1 - _RECURRING_AROUND) * value + _RECURRING_AROUND * other**3
            for value, other in zip(passage, around, strict=True)
        ]
    )


def _recurring(words: list[set[str]], scores: list[float]) -> list[float]:
    """Score sentences by words that recur in the best ones: a subject is discussed with more words than its name."""
    count = len(words)
    spread = Counter(chain.from_iterable(words))
    best = heapq.nsmallest(min(_BEST, 1 + count // _BEST), range(count), key=lambda at: (-scores[at], at))
    times = Counter(word for at in best for word in words[at])
    worth = {
        word: often / len(best) * math.log(count / spread[word]) for word, often in times.items() if spread[word] > 1
    }
    return [sum(worth[word] for word in sorted(own & worth.keys())) / (len(own) + 4) for own in words]


def _prefer_new_words(scores: list[float], texts: list[str], words: list[set[str]], budget: int) -> None:
    """Lower the scores of sentences whose words occur in better ones, as far down as sentences could be shown."""
    room = 10 * budget
    said: set[str] = set()
    ranked = [(-score, at) for at, score in enumerate(scores)]
    heapq.heapify(ranked)
    scores[:] = [_SAID_BEFORE * score for score in scores]
    while ranked and room > 0:
        score, at = heapq.heappop(ranked)
        own = words[at]
        scores[at] -= score * (1 - _SAID_BEFORE) * len(own - said) / (len(own) + 1)
        said |= own
        room -= len(texts[at])


def _fill_small_gaps(scores: list[float], texts: list[str], owners: list[Paragraph]) -> None:
    """Raise short remarks between two sentences to the lower one of both scores."""
    before, size = -1, 0
    for at, text in enumerate(texts):
        new = not at or owners[at] is not owners[at - 1]
        length = len(text) + (len(owners[at].label) if new else 0) + 1
        size += length
        if length <= _REMARK:
            continue
        if before >= 0 and size - length <= _REMARK:
            lower = min(scores[before], scores[at])
            for between in range(before + 1, at):
                scores[between] = max(scores[between], lower)
        before, size = at, 0


def _unasked(
    texts: list[str], owners: list[Paragraph], relevance: list[float], speakers: set[str], *, is_dialogue: bool
) -> list[float]:
    """Score sentences where the focus, if there is one, contains no word that distinguishes them."""
    if any(owner.aside for owner in owners):
        return [
            -1.0 if owner.aside else 0.4 * score
            for owner, score in zip(owners, from_the_beginning(texts, owners), strict=True)
        ]
    count = len(texts)
    least = _ANY_STATEMENT if is_dialogue else 0.0
    scores = [
        (least + value + 0.5 * relevance[at]) * min(1.0, 0.2 + len(texts[at]) / 100)
        for at, value in enumerate(centrality(texts))
    ]
    if is_dialogue:
        _prefer_statements(scores, texts, owners, speakers, _ONLY_STATEMENTS)
        # A talk begins with what it is about.
        return [score + _OPENING * max(0.0, 1 - 10 * at / count) for at, score in enumerate(scores)]
    # The beginning and the end of a report state its subject and its results.
    return [
        score + (0.2 * min(1.0, 0.2 + len(texts[at]) / 100) if at < 0.1 * count or at > 0.93 * count else 0.0)
        for at, score in enumerate(scores)
    ]


def _prefer_statements(
    scores: list[float],
    texts: list[str],
    owners: list[Paragraph],
    speakers: set[str],
    formality: tuple[float, float, float],
) -> None:
    """Change the scores of a dialogue: filler counts less, and a speaker who is asked about more."""
    often = Counter(texts)
    speaking = _near_speakers(texts, owners, speakers) if speakers else None
    for at, text in enumerate(texts):
        if speaking:
            scores[at] += _SPEAKER_BONUS * speaking[at] * min(1.0, len(text) / 60)
            if owners[at].label in speakers:
                scores[at] *= _SPEAKER_FACTOR
        if often[text] > 2:
            scores[at] *= 0.3  # A sentence that is repeated often is filler.
        scores[at] *= max(0.05, 1 + _formality(text, *formality))


def _formality(text: str, gain: float, loss: float, asking: float) -> float:
    """Weigh the share of words that relate things to each other against those that only keep a talk going.

    Nouns need articles and prepositions, and statements consist of nouns; talk consists of "I", "you" and "um".
    """
    words = text.lower().replace("'", " ").split()
    stating = sum(map(_NAMING.__contains__, words))
    chatting = sum(map(_TALKING.__contains__, words))
    return (gain * stating - loss * chatting) / (len(words) + 2) - asking * text.endswith(("?", "？"))


def _near_speakers(texts: list[str], owners: list[Paragraph], speakers: set[str]) -> list[float]:
    """Return 0..1 for each sentence: how much the speakers say around it."""
    said = [(at, float(len(text))) for at, text in enumerate(texts) if owners[at].label in speakers]
    values = _spread(said, [math.exp(-len(text) / SPEAKER_REACH) for text in texts])
    top = max(values) or 1.0
    return [value / top for value in values]


def _spread(hits: list[tuple[int, float]], fading: list[float]) -> list[float]:
    """Return for each sentence the sum of all hits, each the fainter the more text lies between."""
    values = [0.0] * len(fading)
    near, at, coming = 0.0, 0, 0
    while coming < len(hits) or near >= _FAINT:
        if near < _FAINT:
            at, near = hits[coming][0], 0.0
        if at == len(fading):
            break
        near *= fading[at]
        if coming < len(hits) and hits[coming][0] == at:
            near += hits[coming][1]
            coming += 1
        values[at] = near
        at += 1
    near, at, coming = 0.0, 0, len(hits) - 1
    while coming >= 0 or near >= _FAINT:
        if near < _FAINT:
            at, near = hits[coming][0], 0.0
        if at < 0:
            break
        values[at] += near
        if coming >= 0 and hits[coming][0] == at:
            near += hits[coming][1]
            coming -= 1
        near *= fading[at]
        at -= 1
    return values


def _headed(
    owners: list[Paragraph], headings: dict[str, dict[int, int] | None], weights: dict[int, float]
) -> dict[tuple[str, ...], float]:
    """Return what a sentence gains from the headings above it; empty if none of them contains a term of the focus."""
    gains = {heading: sum(weights.get(index, 0.0) for index in seen) for heading, seen in headings.items() if seen}
    if not gains:
        return {}
    chains = dict.fromkeys(owner.under for owner in owners)
    return {
        chain: sum(gains.get(heading, 0.0) * 0.5 ** (len(chain) - at) for at, heading in enumerate(chain))
        for chain in chains
    }


def _distinguishing(focus: Focus, found: Found, speakers: set[str], power: float) -> dict[int, float]:
    """Return term → weight for the terms that distinguish passages; names of speakers do not."""
    asked = set(_NAME_WORD.findall(focus.text.lower()))
    named = [name for name in map(_name_in, speakers) if asked.issuperset(name)]
    names = {stem(word) for name in named for word in name}
    context = _CONTEXT.search(focus.text)
    core = focus.text[: context.start()].lower() if context else ""
    weights: dict[int, float] = {}
    for index, idf in found.idf.items():
        term = focus.terms[index]
        # A term is a stem or a whole word.
        forms = {term.text, stem(term.text)}
        if idf >= 0.05 and forms.isdisjoint(_ASKING_ABOUT) and forms.isdisjoint(_FUNCTION_WORDS | names):
            weights[index] = term.weight * idf**power * (_CONTEXT_SHARE if context and term.text not in core else 1.0)
    heaviest = sorted(weights, key=lambda index: (-weights[index], index))[:_MOST_TERMS]
    most = sum(weights[index] for index in heaviest[:3]) or 1.0
    return {index: weights[index] / most for index in sorted(heaviest)}


def _passages(
    texts: list[str], terms: list[dict[int, int] | None], weights: dict[int, float], reach: int
) -> list[float]:
    """Score how many terms occur around each sentence; nearer ones count more, repetition counts less."""
    starts = [0, *accumulate(map(len, texts))]
    fading = [math.exp(-len(text) / reach) for text in texts]
    places: dict[int, list[tuple[int, float]]] = {index: [] for index in weights}
    for at, seen in enumerate(terms):
        if seen:
            for index, times in seen.items():
                if index in places:
                    places[index].append((at, float(times)))
    scores = [0.0] * len(texts)
    block = reach * 3 // 2
    blocks = starts[-1] // block + 1
    for index, hits in places.items():
        if not hits:
            continue
        # A word that occurs everywhere does not locate anything, however rare it is among sentences.
        everywhere = len({starts[at] // block for at, _ in hits})
        spread = math.log((blocks + 0.5) / everywhere) / math.log(blocks + 1.5)
        weight = weights[index] * math.sqrt(max(0.0, spread) + 1e-3)
        for at, near in enumerate(_spread(hits, fading)):
            if near:
                scores[at] += weight * near / (near + _SATURATION)
    return scores


def _named(owners: list[Paragraph], focus: Focus) -> set[str]:
    """Return the labels of the speakers whose names are in the focus, else of those who are named in another form.

    Titles do not matter, nor what stands in brackets.
    """
    asked = set(_NAME_WORD.findall(focus.text.lower()))
    if not asked:
        return set()
    names = {label: _name_in(label) for label in dict.fromkeys(owner.label for owner in owners) if label}
    return {label for label, name in names.items() if name and asked.issuperset(name)} or {
        label for label, name in names.items() if len(name) > 1 and all(_is_meant(word, asked) for word in name)
    }


def _name_in(label: str) -> list[str]:
    name = _BRACKETED.sub("", label.strip(" :：*<>")).lower()
    return [word for word in _NAME_WORD.findall(name) if word not in _TITLES]


def _is_meant(word: str, asked: set[str]) -> bool:
    """Whether a word of a name is in the question in another form: "Industrial Design" for "Industrial Designer"."""
    return word in asked or len(word) == 1 or any(len(each) > 4 and word.startswith(each) for each in asked)


def centrality(texts: list[str]) -> list[float]:
    """Score each sentence 0..1 by the share of words that recur in the text, except those that every sentence has."""
    count = len(texts)
    spread: Counter[str] = Counter()
    words = []
    for text in texts:
        own = set(words_of(text))
        words.append(own)
        spread.update(own)
    most = max(4, count // _COMMON_ONE_IN)
    value = {
        word: math.log(df) * math.log(count / df)
        for word, df in spread.items()
        if 1 < df <= most and (len(word) > 3 or not word.isascii())
    }
    raw = [sum(value.get(word, 0.0) for word in own) / (len(own) + 6) for own in words]
    top = max(raw, default=0.0) or 1.0
    return [each / top for each in raw]


def asks(focus: Focus) -> bool:
    """Whether the focus asks for something in particular; a title alone does not."""
    return bool(_QUESTION.search(focus.text)) or wants_facts(focus)


def wants_facts(focus: Focus) -> bool:
    """Whether the focus is a list of things to extract rather than a question."""
    text = focus.text
    if not text or _QUESTION.search(text):
        return False
    return bool(_FACTS_WANTED.search(text)) or text.count(",") >= 2


def facts_in(texts: Sequence[str], *, fresh: bool) -> list[float]:
    """Score each sentence 0..1 by how many facts (names, numbers, dates) it states.

    Args:
        fresh: Count repeated facts less each time, as when facts are collected.
    """
    stated = [_stated(text) for text in texts]
    if not fresh:
        return [min(1.0, sum(0.25 if fact[0].isdigit() else 0.2 for fact in facts)) for facts in stated]
    often = Counter(fact for facts in stated for fact in set(facts))
    scores = [sum(0.35 / (1 + 0.5 * math.log(often[fact])) for fact in set(facts)) for facts in stated]
    # Two names in one sentence are a statement about both, however often each of them occurs.
    names = [sorted({fact for fact in facts if not fact[0].isdigit()})[:MOST_RELATED] for facts in stated]
    related = [list(combinations(found, 2)) for found in names]
    times = Counter(pair for pairs in related for pair in pairs)
    return [
        min(1.0, score + sum(RELATED / times[pair] for pair in pairs))
        for score, pairs in zip(scores, related, strict=True)
    ]


def _stated(sentence: str) -> list[str]:
    return [*_NUMBER.findall(sentence), *_NAME.findall(sentence)]


def _facts_of(sentence: str) -> tuple[str, ...] | None:
    """Return the names and numbers of a sentence; two sentences with the same ones state the same thing."""
    found = sorted(set(_stated(sentence)))
    return tuple(found) if len(found) > 1 else None


def _promising(text: str, focus: Focus) -> list[Paragraph]:
    """Return the paragraphs of the most relevant blocks and of some spread evenly over the text."""
    blocks, lines = [], []
    start, line = 0, 1
    while start < len(text):
        end = _block_end(text, start)
        blocks.append(text[start:end])
        lines.append(line)
        line += text.count("\n", start, end)
        start = end
    chosen = _promising_of(blocks, focus)
    parts: list[Paragraph] = []
    for at in sorted(chosen):
        for part in paragraphs(blocks[at]):
            part.first += lines[at] - 1
            part.last += lines[at] - 1
            parts.append(part)
    return parts


def _promising_of(blocks: list[str], focus: Focus) -> set[int]:
    """Choose blocks of about `MOST_TEXT` characters: two thirds by relevance, the rest spread evenly."""
    room = MOST_TEXT // _BLOCK
    relevance = scan(blocks, focus).relevance if focus else [0.0] * len(blocks)
    ranked = sorted(range(len(blocks)), key=lambda at: (-relevance[at], at))
    chosen = {at for at in ranked[: room * 2 // 3] if relevance[at] > 0}
    step = max(1, len(blocks) // max(1, room - len(chosen)))
    chosen.update(range(0, len(blocks), step))
    return chosen


def within_reach(parts: list[Paragraph], focus: Focus) -> list[Paragraph]:
    """Return all paragraphs, or of very many the most promising ones under their headings."""
    if sum(len(part.text) for part in parts) <= MOST_TEXT:
        return parts
    blocks: list[list[Paragraph]] = [[]]
    size = 0
    for part in parts:
        for piece in _pieces(part):
            if size + len(piece.text) > _BLOCK and blocks[-1]:
                blocks.append([])
                size = 0
            blocks[-1].append(piece)
            size += len(piece.text)
    chosen = _promising_of(["\n".join(part.text for part in block) for block in blocks], focus)
    kept: list[Paragraph] = []
    above: list[Paragraph] = []
    written = 0
    for at, block in enumerate(blocks):
        for part in block:
            if part.heading:
                while above and above[-1].heading >= part.heading:
                    above.pop()
                written = min(written, len(above))
                above.append(part)
            elif at in chosen:
                kept += [*above[written:], part]
                written = len(above)
    return kept


def _pieces(part: Paragraph) -> Iterator[Paragraph]:
    start = 0
    while len(part.text) - start > _BLOCK * 3 // 2:
        end = _block_end(part.text, start)
        yield replace(part, text=part.text[start:end].strip())
        start = end
    yield replace(part, text=part.text[start:]) if start else part


def _block_end(text: str, start: int) -> int:
    """Return the end of a paragraph, else of a line, else of a word, about `_BLOCK` characters after `start`."""
    if len(text) - start <= _BLOCK * 3 // 2:
        return len(text)
    for sign in ("\n\n", "\n", " "):
        cut = text.find(sign, start + _BLOCK, start + _BLOCK * 3 // 2)
        if cut > 0:
            return cut + len(sign)
    return start + _BLOCK


def _is_prose(sample: Sample) -> bool:
    return sample.is_sentences and sample.marked < 0.15


def _is_mostly_prose(sample: Sample) -> bool:
    average = sum(map(len, sample.lines)) / sample.many
    return sample.sentence_ends > 0.4 and average > 60 and sample.commented < 0.3


def _read_stated_or_told(text: str, focus: Focus, budget: int) -> Reading | None:
    return read_stated(text, focus, budget) or read(text, focus, budget)


READER = Reader(
    "prose",
    Signs((0.6, _is_prose), (0.28, _is_mostly_prose)),
    _read_stated_or_told,
    holds_json=True,
    may_repeat=True,
)
