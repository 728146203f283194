"""How well a model answers questions about large results, with and without Tersely.

    python -m bench.quality                     the configured model (LLM_MODEL and its key) on the yardstick
    python -m bench.quality --every 10          every tenth case, to begin with
    python -m bench.quality --ways head,summary --budget 1000
    python -m bench.quality --scripted          a scripted model that answers from what it sees
    python -m bench.quality --smoke             the same on a few generated cases

The model gets each question with the result in one of five ways: `whole` as it is, if it fits the window; `head`, the
head and the tail; `structural`, condensed without a model; `summary`, condensed by the model; `read-back`, the summary
with tools that read the kept result. A needle counts as answered if the model's answer contains it. Tokens and price
are those of all calls that the answer took, summaries included. Without the yardstick, generated cases are used.

The scripted model shows that this program works; its figures say nothing about models.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import anyio.to_thread

from bench.arguments import parser
from bench.condense import Yardstick, find_yardstick
from bench.generator.cases import cases as generated_cases
from bench.generator.cases import holds
from tersely import condense
from tersely.errors import InputError, LLMError, LLMTooLong
from tersely.llm.client import LLM
from tersely.llm.limits import RetryPolicy, build_llm
from tersely.llm.messages import Completion, Delta, Message, ToolSpec, Usage
from tersely.llm.providers import ModelSpec, NativeTools
from tersely.llm.wrapper import WrapperLLM
from tersely.masking.mask import Masker
from tersely.masking.masked import Masked, assume_masked
from tersely.pipeline.policy import Policy
from tersely.pipeline.process import Intent, Pipeline, Scope
from tersely.results.kept import KeptResults
from tersely.results.read_back import ReadBack
from tersely.results.read_back_tool import READ_RESULT
from tersely.settings.model import SUMMARIZING, Settings, find_file
from tersely.store.database import Database
from tersely.store.results import Origin
from tersely.text.tokens import O200K

MOST_READS = 4
"""Rounds of tool calls before the model has to answer."""

ANSWER_TOKENS = 800
SCOPE = Scope("bench")
SYSTEM = (
    "Answer the question from the result of a tool. Quote names, numbers and messages exactly as they are written. "
    "Answer in at most 300 words, and say so if the result does not contain the answer."
)


@dataclass(frozen=True)
class QualityCase:
    id: str
    text: str
    question: str
    needles: int
    lost: Callable[[str], int]
    """How many needles an answer lacks."""


@dataclass
class Figures:
    asked: int = 0
    answered: int = 0
    """Needles."""

    unfit: int = 0
    """Cases whose text does not fit the window, or that failed."""

    usage: Usage = field(default_factory=Usage)

    def line(self, name: str, cases: int) -> str:
        price = "unknown price" if self.usage.price is None else f"${self.usage.price:.4f}"
        unfit = f", {self.unfit} of {cases} cases without an answer" if self.unfit else ""
        tokens = f"{self.usage.input_tokens:,} + {self.usage.output_tokens:,} tokens in {self.usage.calls} calls"
        return f"  {name:<11} needles answered {self.answered / max(1, self.asked):.2f}, {tokens}, {price}{unfit}"


# Cases


def yardstick_cases(path: Path, every: int) -> Iterator[QualityCase]:
    yardstick = Yardstick(path, every)
    for task in ("t1", "t5", "t6"):
        seen: dict[str, tuple[str, str]] = {}
        last: list[tuple[str, str]] = []

        def remember(text: str, budget: int, focus: str, last: list[tuple[str, str]] = last) -> str:
            last[:] = [(text, focus)]
            return ""

        for row in yardstick.rows(task, remember):
            if row["case"] not in seen and row["lost"] and last:
                seen[row["case"]] = last[0]
                text, focus = last[0]
                module = yardstick._t6 if task == "t6" else yardstick._tasks
                yield QualityCase(
                    f"{task}/{row['case']}",
                    text,
                    focus or "What is unusual here: errors, exceptions, extremes?",
                    len(row["lost"]),
                    _counter(row["lost"], module),
                )


def _counter(needles: Sequence[Any], module: Any) -> Callable[[str], int]:
    return lambda answer: sum(not module.has_needle(module.norm(answer), needle) for needle in needles)


def drawn_cases(most: int) -> Iterator[QualityCase]:
    for case in generated_cases(range(1), held_out=False, asks="lookup"):
        if O200K.count(case.text) > 2_500 and most > 0:
            most -= 1
            yield QualityCase(case.id, case.text, case.focus, len(case.needles), _drawn_counter(case.needles))


def _drawn_counter(needles: Sequence[tuple[str, ...]]) -> Callable[[str], int]:
    return lambda answer: sum(not holds(answer, needle) for needle in needles)


# Ways of giving the model the result


class CountingLLM(WrapperLLM):
    """Adds up what the answers cost."""

    def __init__(self, wrapped: LLM) -> None:
        self.wrapped = wrapped
        self.usage = Usage()

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        tools: Sequence[ToolSpec] = (),
        native: NativeTools | None = None,
    ) -> Completion:
        answer = await self.wrapped.complete(messages, max_tokens=max_tokens, tools=tools, native=native)
        self.usage += answer.usage
        return answer

    async def stream(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        tools: Sequence[ToolSpec] = (),
        native: NativeTools | None = None,
    ) -> AsyncIterator[Delta]:
        async for delta in self.wrapped.stream(messages, max_tokens=max_tokens, tools=tools, native=native):
            if isinstance(delta, Completion):
                self.usage += delta.usage
            yield delta


@dataclass
class Bench:
    llm: CountingLLM
    kept: KeptResults
    budget: int
    masker: Masker = field(default_factory=lambda: Masker(key=b"k" * 32))

    async def whole(self, case: QualityCase) -> str:
        if self.llm.tokenizer.exceeds(case.text, self.llm.window - ANSWER_TOKENS - 500):
            raise LLMTooLong("The text does not fit the window.")
        return await self._answer(case, case.text)

    async def head(self, case: QualityCase) -> str:
        half = self.budget // 2
        return await self._answer(
            case, f"{O200K.head(case.text, half)}\n[…]\n{O200K.head(case.text[::-1], half)[::-1]}"
        )

    async def structural(self, case: QualityCase) -> str:
        condensed = await anyio.to_thread.run_sync(
            lambda: condense(case.text, budget=self.budget, focus=case.question, mask=False)
        )
        return await self._answer(case, condensed.text)

    async def summary(self, case: QualityCase) -> str:
        return await self._answer(case, await self._summarized(case, None))

    async def read_back(self, case: QualityCase) -> str:
        """Answer from the summary, with the tools that read the kept result."""
        origin = Origin(server="bench", tool="result", arguments={}, called_at=datetime.now(UTC))
        handle = await self.kept.keep(assume_masked(case.text), scope=SCOPE.name, origin=origin)
        tools = [ToolSpec(READ_RESULT.name, READ_RESULT.description, READ_RESULT.schema)]
        reading = ReadBack(self.kept, summarize=Pipeline().summarizer(self.masker, self.llm))
        messages = self._messages(case, await self._summarized(case, handle))
        for _ in range(MOST_READS):
            answer = await self.llm.complete(messages, max_tokens=ANSWER_TOKENS, tools=tools)
            if not answer.tool_calls:
                return answer.text
            messages.append(Message("assistant", assume_masked(answer.text), tool_calls=answer.tool_calls))
            for call in answer.tool_calls:
                try:
                    text: str = (await reading.call(call.name, json.loads(call.arguments or "{}"), SCOPE.name)).text
                except (InputError, ValueError) as problem:
                    text = str(problem)
                messages.append(Message("tool", assume_masked(text), answers=call))
        return answer.text

    async def _summarized(self, case: QualityCase, handle: str | None) -> Masked:
        intent = Intent(looking_for=case.question, called="bench.result")
        policy = Policy(masker=self.masker, keep="never")
        condensed = await Pipeline().condense(
            assume_masked(case.text), policy, intent, handle=handle, budget=self.budget, llm=self.llm
        )
        return assume_masked(condensed.text)

    def _messages(self, case: QualityCase, text: str) -> list[Message]:
        asked = f"Question: {case.question}\n\nThe result:\n{text}"
        return [Message("system", assume_masked(SYSTEM)), Message("user", assume_masked(asked))]

    async def _answer(self, case: QualityCase, text: str) -> str:
        return (await self.llm.complete(self._messages(case, text), max_tokens=ANSWER_TOKENS)).text


WAYS: dict[str, Callable[[Bench, QualityCase], Awaitable[str]]] = {
    "whole": Bench.whole,
    "head": Bench.head,
    "structural": Bench.structural,
    "summary": Bench.summary,
    "read-back": Bench.read_back,
}


# The scripted model


def scripted_answer(body: dict[str, Any]) -> Any:
    """Answer with the lines that share most with the question; search a kept result first where there is one."""
    from tests.fakes.llm_server import Reply

    said = [str(message.get("content") or "") for message in body["messages"]]
    question = next(iter(re.findall(r"(?:Question|Looking for): (.*)", "\n".join(said[1:]))), "")
    words = Counter(re.findall(r"[\w.-]{3,}", question.lower()))
    handle = re.search(r"r_[0-9a-f]+", said[1])
    if body.get("tools") and handle and not any(message["role"] == "tool" for message in body["messages"]):
        pattern = max(words, key=lambda word: (any(map(str.isdigit, word)), len(word)), default="error")
        arguments = json.dumps({"handle": handle.group(), "pattern": re.escape(pattern)})
        function = {"name": "read_result", "arguments": arguments}
        return Reply(tool_calls=({"id": "c1", "type": "function", "function": function},), finish="tool_calls")
    lines = [line for text in said[1:] for line in text.splitlines() if not line.startswith(("Question:", "<<<"))]
    ranked = sorted(lines, key=lambda line: -sum(word in line.lower() for word in words))
    room = int(body.get("max_tokens", ANSWER_TOKENS) / 1.5)
    answer = ""
    for line in dict.fromkeys(ranked[:60]):
        if O200K.count(answer) + O200K.count(line) > room:
            continue
        answer += f"{line}\n"
    return answer or "The result does not contain the answer."


@asynccontextmanager
async def the_model(scripted: bool) -> AsyncIterator[LLM]:
    """The configured model, or the scripted one behind a server that enforces a window."""
    if not scripted:
        settings = Settings.load(None, find_file(), sections=SUMMARIZING)
        providers = settings.summarizing()
        if not providers:
            raise SystemExit(f"No model is configured: set {settings.model.missing()}, or use --scripted.")
        llm = build_llm(settings.specs(*providers), retry_policy=RetryPolicy(concurrency=settings.model.concurrency))
        try:
            yield llm
        finally:
            await llm.aclose()
        return
    from tests.fakes.strict_llm_server import StrictLLMServer

    async with StrictLLMServer(scripted_answer, window=32_768, output_cap=8_192).listening() as server:
        spec = ModelSpec(
            model="openai/gpt-4o-mini", base_url=server.url, api_key="none", window=32_768, output_cap=8_192
        )
        llm = build_llm([spec], retry_policy=RetryPolicy(delays=()))
        try:
            yield llm
        finally:
            await llm.aclose()


async def run(cases: Sequence[QualityCase], ways: Sequence[str], budget: int, scripted: bool) -> dict[str, Figures]:
    figures = {way: Figures() for way in ways}
    with TemporaryDirectory() as folder:
        async with the_model(scripted) as model, Database.open(f"sqlite:///{folder}/kept.db") as database:
            for case in cases:
                for way in ways:
                    bench = Bench(CountingLLM(model), KeptResults(database), budget)
                    found = figures[way]
                    found.asked += case.needles
                    try:
                        found.answered += case.needles - case.lost(await WAYS[way](bench, case))
                    except LLMError as problem:
                        found.unfit += 1
                        print(f"  {case.id} {way}: {problem}", file=sys.stderr)
                    found.usage += bench.llm.usage
    return figures


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--scripted", action="store_true", help="a scripted model instead of the configured one")
    arguments.add_argument("--every", type=int, default=1, help="every n-th case of the yardstick")
    arguments.add_argument("--budget", type=int, default=1_000, help="tokens of a condensed result")
    arguments.add_argument("--ways", default=",".join(WAYS), help=f"some of {', '.join(WAYS)}")
    given = arguments.parse_args()
    ways = given.ways.split(",")
    if unknown := set(ways) - set(WAYS):
        raise SystemExit(f"Unknown ways: {', '.join(sorted(unknown))}. Known: {', '.join(WAYS)}.")
    path = None if given.smoke else find_yardstick()
    cases = list(yardstick_cases(path, given.every)) if path else list(drawn_cases(2 if given.smoke else 40))
    scripted = given.scripted or given.smoke
    figures = anyio.run(run, cases, ways, given.budget, scripted)
    print(
        f"\nQuestions to {'a scripted model' if scripted else 'the configured model'}: {len(cases)} cases of "
        f"{'the yardstick' if path else 'the generator'}, results condensed to {given.budget:,} tokens"
    )
    for way, found in figures.items():
        print(found.line(way, len(cases)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
