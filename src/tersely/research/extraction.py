"""Extraction of claims from the accumulated content, by a model that has to cite.

The model receives all content in one request if its window allows, otherwise in
several; an answer that was cut off is continued. The result is a list of claims, not
of facts: `findings` verifies them against the pages.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tersely.agent.asking import ModelCaller, Turn
from tersely.agent.tool_executor import Step
from tersely.condensing.prompt_files import Fence, Prompt
from tersely.llm.client import LLM, answer_tokens
from tersely.llm.messages import Message
from tersely.masking.masked import Masked, from_store
from tersely.research.findings import FactClaim

EXTRACT = Prompt("extract", "tersely.research")
GO_ON = Prompt("go_on", "tersely.research")

MOST_ROUNDS = 12
"""Answers per request; a list that needs more is cut off, and the gap is reported."""


@dataclass(frozen=True)
class PageSection:
    """A page of the accumulated content, as sent to the model."""

    label: str
    title: str
    url: str
    text: Masked

    def __str__(self) -> str:
        return f"[{self.label}] {self.title}\n{self.url}\n{self.text}"


@dataclass(kw_only=True)
class Extracted:
    claims: list[FactClaim] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    unanswered: list[PageSection] = field(default_factory=list)
    """Sections that no model has processed."""


@dataclass(kw_only=True)
class Extraction:
    subject: str
    schema: Mapping[str, Any]
    llm: LLM
    model_caller: ModelCaller
    step: Step
    prefix: str
    fence: Fence

    async def run(self, sections: Sequence[PageSection]) -> Extracted:
        done = Extracted()
        system = Message(
            "system",
            from_store(EXTRACT.fill(nonce=self.fence.nonce, schema=json.dumps(self.schema, ensure_ascii=False))),
        )
        for number, batch in enumerate(self._batches(sections, system), start=1):
            await self._ask(number, batch, system, done)
        return done

    async def _ask(self, number: int, batch: Sequence[PageSection], system: Message, done: Extracted) -> None:
        content = self.fence.wrap("pages", "\n\n".join(map(str, batch)))
        question = Message("user", batch[0].text.derive(f"The subject: {self.subject}\n\n{content}"))
        messages = [system, question]
        before = len(done.claims)
        for round_ in range(1, MOST_ROUNDS + 1):
            name = f"{self.prefix}/extract/{number}/{round_}/model"

            async def ask(name: str = name, messages: Sequence[Message] = tuple(messages)) -> Turn:
                return await self.model_caller.call(messages, tokens=self._tokens(messages), key=name)

            turn = await self.step(name, ask)
            if turn.problem:
                done.gaps.append(
                    f"The model did not {'complete the extraction' if round_ > 1 else 'extract facts'}: {turn.problem}"
                )
                if len(done.claims) == before:
                    done.unanswered += batch
                return
            claims = list(claims_in(turn.text))
            done.claims += claims
            if turn.finish != "length" or not claims:
                if not claims and round_ == 1 and '"facts"' not in turn.text:
                    done.gaps.append("The model's answer contained no list of facts.")
                    done.unanswered += batch
                return
            messages += [Message("assistant", turn.text), Message("user", turn.text.derive(GO_ON.fill()))]
            if self._tokens(messages) + answer_tokens(self.llm) > self.llm.window * 0.97:
                # To continue, the model only needs the latest claims, not its earlier answers.
                messages = [
                    system,
                    question,
                    Message("assistant", _listed(claims)),
                    Message("user", turn.text.derive(GO_ON.fill())),
                ]
        done.gaps.append(f"The list of facts was cut off after {MOST_ROUNDS} answers.")

    def _batches(self, sections: Sequence[PageSection], system: Message) -> Iterator[list[PageSection]]:
        """Group sections into as few requests as the window allows, with room for two answers in each."""
        count = self.llm.tokenizer.count
        room = int(self.llm.window * 0.95) - self._tokens([system]) - 2 * answer_tokens(self.llm) - 200
        batch: list[PageSection] = []
        used = 0
        for section in sections:
            size = count(str(section)) + 4
            if batch and used + size > room:
                yield batch
                batch, used = [], 0
            if size > room:
                cut = self.llm.tokenizer.head(section.text, max(100, room - 200))
                section, size = PageSection(section.label, section.title, section.url, section.text.derive(cut)), room
            batch.append(section)
            used += size
        if batch:
            yield batch

    def _tokens(self, messages: Sequence[Message]) -> int:
        return sum(self.llm.tokenizer.count(message.text) + 4 for message in messages)


def claims_in(text: str) -> Iterator[FactClaim]:
    """The complete claims in a model's answer, which may have been cut off."""
    start = text.find('"facts"')
    at = text.find("[", start) + 1 if start >= 0 else 0
    if at <= 0:
        return
    decoder = json.JSONDecoder()
    while True:
        at = text.find("{", at)
        if at < 0:
            return
        try:
            value, at = decoder.raw_decode(text, at)
        except ValueError:
            return  # The answer was cut off here.
        if isinstance(value, dict) and (claim := _claim(value)):
            yield claim


def _claim(value: Mapping[str, Any]) -> FactClaim | None:
    path, record = value.get("path"), value.get("value")
    if not isinstance(path, str):
        return None
    if not isinstance(record, dict):
        record = {"value": record}
    sources = value.get("sources", value.get("source", []))
    cited: list[tuple[str, str]] = []
    for one in sources if isinstance(sources, list) else [sources]:
        if isinstance(one, str):
            cited.append((one, ""))
        elif isinstance(one, dict):
            cited.append((str(one.get("page") or one.get("url") or ""), str(one.get("quote") or "")))
    return FactClaim(path, record, cited)


def _listed(claims: Sequence[FactClaim]) -> Masked:
    # The claims were parsed from a masked answer.
    return from_store(
        json.dumps(
            {"facts": [{"path": claim.path, "value": dict(claim.value)} for claim in claims]}, ensure_ascii=False
        )
    )
