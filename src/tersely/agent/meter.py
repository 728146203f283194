"""A model that is asked through here, and what that has cost so far: also when the work is broken off half-way.

Whole answers count as the provider counted them. A question that was broken off has been
read by the provider all the same, and what came of the answer was written: both are
counted by us, which is an estimate and better than nothing in the books.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from typing import Any

from tersely.llm import facts
from tersely.llm.client import LLM
from tersely.llm.messages import Completion, Delta, Message, Superseded, TextDelta, ThinkingDelta, ToolSpec, Usage
from tersely.llm.providers import NativeTools
from tersely.llm.wrapper import WrapperLLM


@dataclass
class _Question:
    messages: Sequence[Message]
    answered: str = ""
    is_answered: bool = False


@dataclass
class Metered(WrapperLLM):
    """One piece of work's way to its model."""

    wrapped: LLM
    answered: Usage = field(default_factory=Usage)
    """What whole answers cost."""

    _broken_off: list[_Question] = field(default_factory=list)

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        tools: Sequence[ToolSpec] = (),
        native: NativeTools | None = None,
    ) -> Completion:
        with self._asking(messages):
            answer = await self.wrapped.complete(messages, max_tokens=max_tokens, tools=tools, native=native)
        self.answered += answer.usage
        return answer

    async def stream(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        tools: Sequence[ToolSpec] = (),
        native: NativeTools | None = None,
    ) -> AsyncIterator[Delta]:
        deltas: Any = self.wrapped.stream(messages, max_tokens=max_tokens, tools=tools, native=native)
        with self._asking(messages) as question:
            async with aclosing(deltas):
                async for delta in deltas:
                    match delta:
                        case Completion():
                            self.answered += delta.usage
                            question.is_answered = True
                        case TextDelta(text=more) | ThinkingDelta(text=more):
                            question.answered += more
                        case Superseded():
                            question.answered = ""
                    yield delta

    @contextmanager
    def _asking(self, messages: Sequence[Message]) -> Iterator[_Question]:
        question = _Question(messages)
        try:
            yield question
        except Exception:
            raise  # It failed: whoever asked hears so, and providers take nothing for it.
        except BaseException:
            # Whoever has the whole answer closes the stream as well.
            if not question.is_answered:
                self._broken_off.append(question)
            raise

    def spent(self) -> Usage:
        """What it has cost. Of the questions that were broken off, no more than can have been on the wire at once:
        others waited.
        """
        usage = self.answered
        count = self.wrapped.tokenizer.count
        for question in self._broken_off[: self.wrapped.concurrency]:
            asked, wrote = sum(count(message.text) for message in question.messages), count(question.answered)
            price = facts.price(self.wrapped.provider, self.wrapped.model, asked, wrote)
            usage += Usage(calls=1, input_tokens=asked, output_tokens=wrote, price=price)
        return usage
