"""The verdict as a model states it: read from its answer, and its quotations looked up in the tool results.

What a model quotes is evidence only if a kept result contains it: the quotation gets the
lines where it is, and one that no result contains is left out and counted.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from tersely.agent.verdict import LONGEST_CAUSE, LONGEST_QUOTE, Action, Citation, Confidence, Verdict, cut, shortened
from tersely.errors import InputError
from tersely.masking.masked import Masked

MOST_ACTIONS = 6
MOST_CITATIONS = 8
LONGEST_SUMMARY = 600
SHORTEST_QUOTE = 8
"""Characters below which a quotation proves nothing: it is found anywhere."""


def _text(value: object) -> object:
    return "" if value is None else value


def _lines(value: object) -> object:
    return value.splitlines() if isinstance(value, str) else value


Text = Annotated[str, BeforeValidator(_text)]


class _Stated(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _StatedAction(_Stated):
    text: Text
    command: Text = ""


class _StatedQuote(_Stated):
    handle: Text = ""
    quote: Text = ""


class StatedVerdict(_Stated):
    """The fields as the model filled them, before anything is looked up."""

    cause: Text
    summary: Annotated[list[str], BeforeValidator(_lines), Field(min_length=1)]
    confidence: Annotated[Confidence, BeforeValidator(lambda value: str(value).strip().lower())]
    service: Text = ""
    since: Text = ""
    actions: list[_StatedAction] = []
    evidence: list[_StatedQuote] = []
    against: list[_StatedQuote] = []


def read_stated(text: str) -> StatedVerdict:
    """The verdict in a model's answer, whatever stands around it.

    Raises:
        InputError: There is none; the message tells the model what is wrong.
    """
    problem = "Your answer contains no JSON object."
    for value in _objects(text):
        try:
            return StatedVerdict.model_validate(value)
        except ValidationError as wrong:
            first = wrong.errors()[0]
            place = ".".join(map(str, first["loc"])) or "the object"
            problem = f"{place}: {first['msg']}."
    raise InputError(problem)


def _objects(text: str) -> Iterator[Mapping[str, Any]]:
    decoder = json.JSONDecoder(strict=False)
    at = text.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            if isinstance(value, dict):
                yield value
        at = text.find("{", end)


def verified(stated: StatedVerdict, results: Mapping[str, tuple[str, str]]) -> Verdict:
    """The verdict with its quotations looked up.

    Args:
        results: By handle, the tool (`server.tool`) and its complete result.
    """
    searched = {handle: (source, _Searchable(text)) for handle, (source, text) in results.items()}
    evidence, wrong = _citations(stated.evidence, searched)
    against, also_wrong = _citations(stated.against, searched)
    lines = [" ".join(line.split()) for line in stated.summary if line.strip()]
    return Verdict(
        cause=shortened(stated.cause, LONGEST_CAUSE),
        summary="\n".join(cut(line, LONGEST_SUMMARY // 2) for line in lines[:4]) or cut(stated.cause, LONGEST_SUMMARY),
        confidence=stated.confidence,
        service=cut(stated.service, 120),
        since=_time(stated.since),
        actions=tuple(
            Action(text=cut(one.text, 300), command=one.command.strip()[:500])
            for one in stated.actions[:MOST_ACTIONS]
            if one.text.strip()
        ),
        evidence=evidence,
        against=against,
        unverified=wrong + also_wrong,
    )


def _citations(
    quotes: Sequence[_StatedQuote], results: Mapping[str, tuple[str, "_Searchable"]]
) -> tuple[tuple[Citation, ...], int]:
    found: list[Citation] = []
    wrong = 0
    for one in quotes[:MOST_CITATIONS]:
        if not one.quote.strip():
            continue
        # Where it says it is, then anywhere: models mix handles up more often than words.
        named = one.handle.removeprefix("result:")
        order = [named, *(handle for handle in results if handle != named)] if named in results else list(results)
        for handle in order:
            source, text = results[handle]
            if place := text.find(one.quote):
                found.append(
                    Citation(
                        source=source,
                        handle=handle,
                        first_line=place[0],
                        last_line=place[1],
                        quote=cut(one.quote, LONGEST_QUOTE),
                    )
                )
                break
        else:
            wrong += 1
    return tuple(found), wrong


class _Searchable:
    """A text in which quotations are found whatever their white space."""

    def __init__(self, text: str) -> None:
        self._text = text

    def find(self, quote: str) -> tuple[int, int] | None:
        """First and last line of a quotation, from 1; None if the text does not contain it."""
        words = quote.replace("…", " ").split()
        if sum(map(len, words)) < SHORTEST_QUOTE:
            return None
        found = re.search(r"\s+".join(map(re.escape, words)), self._text)
        if found is None:
            return None
        first = self._text.count("\n", 0, found.start()) + 1
        return first, first + found.group().count("\n")


def _time(text: str) -> str:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return ""
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z") if moment.tzinfo else ""


_MARKUP = re.compile(r"^[#>*\-\s]+|\*\*|__|`")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s")


def from_analysis(analysis: Masked) -> Verdict:
    """A verdict from the beginning of an analysis, for a model that filled no fields."""
    lines = [_MARKUP.sub("", line).strip() for line in analysis.splitlines()]
    lines = [line for line in lines if line][:4]
    first = _SENTENCE_END.split(lines[0])[0] if lines else ""
    return Verdict(
        cause=shortened(first, LONGEST_CAUSE),
        summary="\n".join(cut(line, LONGEST_SUMMARY // 2) for line in lines) or "The analysis is empty.",
        confidence="low",
    )
