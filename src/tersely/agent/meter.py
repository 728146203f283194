"""An LLM wrapper that measures usage, including that of cancelled requests.

Complete answers count with the usage that the provider reports. For a cancelled
request the provider reports none, although it has read the messages and written part
of an answer: both are counted here, which is an estimate.
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
class _Request:
    messages: Sequence[Message]
    received: str = ""
    is_complete: bool = False


@dataclass
class MeteredLLM(WrapperLLM):
    """Measures the usage of one piece of work."""

    wrapped: LLM
    answered: Usage = field(default_factory=Usage)
    """Usage of complete answers."""

    _cancelled: list[_Request] = field(default_factory=list)

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        tools: Sequence[ToolSpec] = (),
        native: NativeTools | None = None,
    ) -> Completion:
        with self._requesting(messages):
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
        with self._requesting(messages) as request:
            async with aclosing(deltas):
                async for delta in deltas:
                    match delta:
                        case Completion():
                            self.answered += delta.usage
                            request.is_complete = True
                        case TextDelta(text=more) | ThinkingDelta(text=more):
                            request.received += more
                        case Superseded():
                            request.received = ""
                    yield delta

    @contextmanager
    def _requesting(self, messages: Sequence[Message]) -> Iterator[_Request]:
        request = _Request(messages)
        try:
            yield request
        except Exception:
            raise  # Providers do not charge for failed requests.
        except BaseException:
            # A caller that has the complete answer closes the stream as well (GeneratorExit).
            if not request.is_complete:
                self._cancelled.append(request)
            raise

    def spent(self) -> Usage:
        """The usage so far. Of the cancelled requests, at most `concurrency` count: the others had not been sent."""
        usage = self.answered
        count = self.wrapped.tokenizer.count
        for request in self._cancelled[: self.wrapped.concurrency]:
            sent, received = sum(count(message.text) for message in request.messages), count(request.received)
            price = facts.price(self.wrapped.provider, self.wrapped.model, sent, received)
            usage += Usage(calls=1, input_tokens=sent, output_tokens=received, price=price)
        return usage
