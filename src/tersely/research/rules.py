"""Extraction of claims by rules, without a model; a rule applies only where it is unambiguous.

* A row of a table whose column or label is a field of the schema.
* A sentence with exactly one name and one value of the field's form: a date, a number, an enum value, a pattern.
* A sentence in which a word of the field's name or description is between exactly two names: "Ada is sworn to the
  Guild".

Text to which no rule applies is returned as passages.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tersely.condensing.focus import stem
from tersely.condensing.readers.prose import sentences
from tersely.research.findings import FactClaim, identity_of, record_schema

_MONTH = (
    r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|sept|oct|nov|dec"
    r"|january|february|march|april|june|july|august|september|october|november|december)"
)
_DATE = re.compile(
    rf"\b\d{{4}}-\d\d-\d\d\b|\b\d{{1,2}}(?:st|nd|rd|th)?\.?\s+(?:of\s+)?{_MONTH}\.?,?\s+\d{{3,4}}\b"
    rf"|\b{_MONTH}\.?\s+\d{{1,2}}(?:st|nd|rd|th)?,?\s+\d{{3,4}}\b|\b{_MONTH}\s+\d{{3,4}}\b",
    re.I,
)
_NUMBER = re.compile(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?(?![\w]|[.,]\d)")
_NAME = re.compile(
    r"[A-ZÀ-ÖØ-Þ][\w’'-]*[^\W\d_](?:\s(?:(?:of|the|de|du|la|von|van|der|den|zu|al|at|on|off)\s){0,2}[A-ZÀ-ÖØ-Þ][\w’'-]*[^\W\d_])*"
)
_OPENING = """
    the a an in on at of by for from to with and or but if when while since after before as it its this that these
    those there here he she they we you who whoever what whether nobody most some few many without behind letters songs
"""
_OPENERS = frozenset(_OPENING.split())
"""Words that are capitalized only because they begin a sentence."""

_DATED = re.compile(
    r"\b(?:date|day|year|when|born|died|founded|time|datum|fecha)\b|_(?:date|at|on)$|^(?:date|year)", re.I
)
_PLAIN = """
    the a an of or and in on at to is are was who whom which what name names title person people thing things place it
    its their his her they them this that with by for from as be been has have had one any where when how called known
"""
_PLAIN_WORDS = frozenset(stem(word) for word in _PLAIN.split())
"""Words of a description that do not indicate where its value is."""

_RULED = re.compile(r"\|?[\s:|-]*-{3}[\s:|-]*")
_ENOUGH = 5
"""Known objects of a path from which on a hint about an unknown one is rejected."""

_WORD = re.compile(r"[^\W\d_]{3,}")


@dataclass(frozen=True)
class Passage:
    """A sentence, a list item or a table row of a condensed page."""

    page: str
    """The page's label."""

    text: str
    head: tuple[str, ...] = ()
    """For a table row, the names of the columns."""


@dataclass(frozen=True)
class _Field:
    path: str
    identity: str
    name: str
    schema: Mapping[str, Any]
    cues: frozenset[str]

    @property
    def is_date(self) -> bool:
        return self.schema.get("format") in ("date", "date-time") or bool(_DATED.search(self.name))

    @property
    def is_number(self) -> bool:
        return self.schema.get("type") in ("integer", "number")

    def values(self, text: str) -> list[str]:
        """The values in a text that have this field's form; empty for a field without one, whose values are names."""
        if isinstance(self.schema.get("enum"), list):
            return [str(one) for one in self.schema["enum"] if re.search(rf"\b{re.escape(str(one))}\b", text, re.I)]
        if isinstance(self.schema.get("pattern"), str):
            try:
                return list(
                    dict.fromkeys(
                        found.group() for found in re.finditer(self.schema["pattern"].strip("^$"), text[:2_000])
                    )
                )
            except re.error:
                return []
        if self.is_date:
            return [found.group() for found in _DATE.finditer(text)]
        return [found.group().rstrip(",") for found in _NUMBER.finditer(text)] if self.is_number else []

    @property
    def has_form(self) -> bool:
        return self.is_date or self.is_number or "enum" in self.schema or "pattern" in self.schema


@dataclass(frozen=True)
class Rules:
    schema: Mapping[str, Any]
    fields: tuple[_Field, ...] = field(default=())

    @classmethod
    def of(cls, schema: Mapping[str, Any]) -> "Rules":
        found: list[_Field] = []
        for path in schema.get("properties", {}):
            record = record_schema(schema, path)
            identity = identity_of(schema, path)
            for name, described in (record or {}).get("properties", {}).items():
                if name != identity and isinstance(described, dict):
                    found.append(_Field(path, identity, name, described, _cues(name, described)))
        return cls(schema, tuple(found))

    def claims(self, passages: Sequence[Passage]) -> list[tuple[Passage, FactClaim]]:
        """The claims in the passages. A word between two names is only a hint, accepted if consistent with the rest."""
        sure: list[tuple[Passage, FactClaim]] = []
        hinted: list[tuple[Passage, FactClaim]] = []
        for passage in passages:
            if passage.text.startswith("|"):
                sure += [(passage, claim) for claim in self._of_row(passage)]
                continue
            for sentence in sentences(passage.text):
                if found := self._of_sentence(passage, sentence):
                    claim, is_sure = found
                    (sure if is_sure else hinted).append((passage, claim))
        return [*sure, *self._consistent(sure, hinted)]

    def _consistent(
        self, sure: list[tuple[Passage, FactClaim]], hinted: list[tuple[Passage, FactClaim]]
    ) -> list[tuple[Passage, FactClaim]]:
        """The hints that confuse nothing: no person with an event, no subject with its value."""
        known: dict[str, Counter[str]] = {}
        for _, claim in sure:
            known.setdefault(claim.path, Counter())[_about(claim)] += 1
        guessed: dict[str, Counter[str]] = {}
        for _, claim in hinted:
            guessed.setdefault(claim.path, Counter())[_about(claim)] += 1
        kept = []
        for passage, claim in hinted:
            about, value = _about(claim), str(list(claim.value.values())[1])
            own = known.get(claim.path, Counter())
            elsewhere = [path for path in (*known, *guessed) if path != claim.path]
            is_other = any(
                known.get(path, Counter())[about] or guessed.get(path, Counter())[about] for path in elsewhere
            )
            is_swapped = bool(own[value] or guessed[claim.path][value])
            if not is_other and not is_swapped and (about in own or len(own) < _ENOUGH):
                kept.append((passage, claim))
        return kept

    def _of_row(self, passage: Passage) -> Iterator[FactClaim]:
        cells = [cell.strip() for cell in passage.text.strip("| ").split("|")]
        if len(cells) < 2 or not cells[0]:
            return
        for one in self.fields:
            if len(cells) == 3 and cells[2] and self._means(cells[1], one):
                yield self._claim(one, cells[0], cells[2], passage, passage.text)
            elif len(passage.head) == len(cells):
                for column, cell in zip(passage.head[1:], cells[1:], strict=True):
                    if cell and self._means(column, one) and self._only(one, column):
                        yield self._claim(one, cells[0], cell, passage, passage.text)

    def _of_sentence(self, passage: Passage, sentence: str) -> tuple[FactClaim, bool] | None:
        """The claim in a sentence, and whether it is certain."""
        found: list[tuple[_Field, str, str]] = []
        names = _names(_DATE.sub(" ", sentence))
        words = {stem(word.lower()) for word in _WORD.findall(sentence)}
        for one in self.fields:
            if one.has_form:
                values = one.values(sentence)
                if (
                    len(values) == 1
                    and len(names) == 1
                    and names[0] not in values[0]
                    and (one.is_date or words & one.cues)
                ):
                    found.append((one, names[0], values[0]))
            elif len(names) == 2:
                begin, end = sentence.find(names[0]) + len(names[0]), sentence.rfind(names[1])
                between = {stem(word.lower()) for word in _WORD.findall(sentence[begin:end])}
                if between & one.cues:
                    found.append((one, names[0], names[1]))
        if len({one.path for one, _, _ in found}) != 1 or len(found) != 1:
            return None
        one, about, value = found[0]
        return self._claim(one, about, value, passage, sentence), one.has_form

    def _claim(self, one: _Field, about: str, value: str, passage: Passage, quote: str) -> FactClaim:
        return FactClaim(one.path, {one.identity: about, one.name: value}, [(passage.page, quote)])

    def _means(self, label: str, one: _Field) -> bool:
        own = {stem(word.lower()) for word in _WORD.findall(one.name.replace("_", " "))}
        words = {stem(word.lower()) for word in _WORD.findall(label)}
        return bool(words) and (words <= own or words <= one.cues) and bool(words & (own | one.cues))

    def _only(self, one: _Field, column: str) -> bool:
        return sum(self._means(column, other) for other in self.fields) == 1


def _cues(name: str, described: Mapping[str, Any]) -> frozenset[str]:
    words = _WORD.findall(f"{name.replace('_', ' ')} {described.get('description', '')} {described.get('title', '')}")
    return frozenset(stem(word.lower()) for word in words) - _PLAIN_WORDS


def _about(claim: FactClaim) -> str:
    return str(next(iter(claim.value.values())))


def _names(sentence: str) -> list[str]:
    """The names in a sentence, each once, in order; a capitalized first word alone is not a name."""
    found: list[str] = []
    for match in _NAME.finditer(sentence):
        words = match.group().split()
        at = match.start()
        while words and words[0].lower() in _OPENERS:
            at += len(words[0]) + 1
            words = words[1:]
        name = " ".join(words)
        if not name or (at == 0 and len(words) == 1):
            continue
        if name not in found:
            found.append(name)
    return found


def passages_of(text: str, page: str, source: str) -> list[Passage]:
    """Split a condensed page into passages; table rows get their column names from the source page."""
    heads = _heads(source)
    found: list[Passage] = []
    for line in text.split("\n"):
        shown = line.strip()
        if not shown or shown.startswith(("#", "[")):
            continue
        if shown.startswith("|"):
            found.append(Passage(page, shown, heads.get(shown, ())))
            continue
        pieces = re.split(r"\s*\[…\]\s*", shown.removeprefix("* ").removeprefix("- "))
        found += [Passage(page, piece.strip()) for piece in pieces if piece.strip()]
    return found


def _heads(source: str) -> dict[str, tuple[str, ...]]:
    """The column names for each row of a markdown table."""
    heads: dict[str, tuple[str, ...]] = {}
    lines = [line.strip() for line in source.split("\n")]
    head: tuple[str, ...] = ()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if not line.startswith("|"):
            head = ()
        elif _RULED.fullmatch(following):
            head = tuple(cell.strip() for cell in line.strip("| ").split("|"))
        elif head and not _RULED.fullmatch(line):
            heads[line] = head
    return heads
