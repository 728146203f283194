"""One model call, recorded while it streams.

Thinking and answer stream into events, masked piece by piece. The returned `Turn` is
small and masked, so that it can be stored. A failing model yields a `Turn` with a
problem instead of an exception: the loop decides how the investigation continues.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import anyio

from tersely.agent.budget import Hold, WorkBudget
from tersely.agent.recorder import OpenEvent, Recorder
from tersely.agent.trace import NOT_MASKED, exchange_record, record_exchange
from tersely.errors import LLMError, LLMTooLong, MaskingFailed
from tersely.events.types import EventType
from tersely.llm.client import LLM, answer_tokens
from tersely.llm.exchanges import Exchange, observed
from tersely.llm.limits import CircuitOpen
from tersely.llm.messages import (
    Completion,
    Finish,
    Message,
    Superseded,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolSpec,
)
from tersely.llm.providers import NativeTools
from tersely.masking.clean import clean
from tersely.masking.mask import Masker
from tersely.masking.masked import NOTHING, Masked
from tersely.masking.unfinished import ends_inside_secret
from tersely.pipeline.admit import admit_arguments, admit_text, admit_words
from tersely.store.interactions import Interaction, InteractionType

_SHOWN_AT_LEAST = 48
"""New characters before the next delta is published: each delta masks the whole text again."""

_SHOWN_AT_MOST = 40_000
"""Characters of one answer that are published while it streams; the rest appears when it is complete."""

LONGEST_WAIT = 90.0
"""Seconds a model call waits for a provider whose circuit is open; an investigation is not urgent to the second."""


ModelCallKind = Literal["iteration", "final_analysis", "executive_summary"]
"""The answer to an `executive_summary` is for a program: it is in the trace, but not shown while it streams."""

LEAST_ANSWER: Mapping[ModelCallKind, int] = {"iteration": 1_000, "final_analysis": 500, "executive_summary": 500}
"""Tokens that an answer must be able to have; if a budget leaves fewer, the model is not called."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """The model's answer, masked."""

    text: Masked = NOTHING
    thinking: Masked = NOTHING
    calls: tuple[ToolCall, ...] = ()
    finish: Finish = "stop"
    model: str = ""
    provider: str = ""
    unsupported: tuple[str, ...] = ()
    problem: str = ""
    """Why there is no answer. Masked."""

    too_long: bool = False
    """The provider reports that the conversation exceeds its context window."""

    is_altered: bool = False
    """Masking changed text or calls: this is not exactly what the model wrote."""


@dataclass(frozen=True)
class WrittenTurn:
    """The model's answer before masking, which tools receive. Never shown and never stored."""

    text: str
    calls: tuple[ToolCall, ...]


@dataclass(kw_only=True)
class ModelCaller:
    llm: LLM
    recorder: Recorder
    masker: Masker
    budget: WorkBudget | None = None
    answers: Literal["final_analysis", "chat_response"] = "final_analysis"
    """The event of the last answer; `chat_response` is also what the trace calls every call for it."""

    remark: str = ""
    """Added to the last answer."""

    as_written: dict[str, WrittenTurn] = field(default_factory=dict)
    """Unmasked answers by step, in memory only: tools receive what the model wrote, the store only the masked form."""

    async def call(
        self,
        messages: Sequence[Message],
        *,
        tokens: int,
        tools: Sequence[ToolSpec] = (),
        kind: ModelCallKind = "iteration",
        hold: Hold | None = None,
        leave: int = 0,
        **more: Any,
    ) -> Turn:
        """Call the model within the budget; see `_call`.

        Args:
            tokens: Of messages and tools.
            hold: Tokens of the budget that are reserved for this call and the next ones.
            leave: How many of them are for the next ones.

        Raises:
            OverBudget: The budget does not allow the call.
        """
        most = answer_tokens(self.llm)
        if self.budget is None:
            return await self._call(messages, tools=tools, kind=kind, max_tokens=most, **more)
        least = min(most, LEAST_ANSWER[kind])
        async with self.budget.reserved(read=tokens, write=most, least=least, hold=hold, leave=leave) as allowed:
            return await self._call(messages, tools=tools, kind=kind, max_tokens=allowed, **more)

    async def _call(
        self,
        messages: Sequence[Message],
        *,
        key: str,
        max_tokens: int,
        tools: Sequence[ToolSpec] = (),
        native: NativeTools | None = None,
        kind: ModelCallKind = "iteration",
        stop: Callable[[str], int | None] = lambda text: None,
        final: Callable[[Turn], str] = lambda turn: "",
        tell_unsupported: bool = False,
    ) -> Turn:
        """Call the model and record its answer as it streams.

        Args:
            key: Name of the step this runs in.
            max_tokens: Of the answer.
            stop: Returns the offset at which to stop reading and cut the answer, or None.
            final: Returns the analysis if the answer ends the investigation, else an empty string; the analysis gets
                an event of its own.
            tell_unsupported: Record an event if native tools were left out of the request.
        """
        exchange: Exchange | None = None
        request = _request(tools, native)
        traced_as: InteractionType = kind
        if self.answers == "chat_response" and kind != "executive_summary":
            traced_as = "chat_response"

        async def on_exchange(over: Exchange) -> None:
            nonlocal exchange
            if over.outcome in ("answered", "stopped"):
                exchange = over  # Recorded below, with its calls.
            else:
                record = exchange_record(traced_as, over, self.masker, request=request)
                await record_exchange(self.recorder, key, over, record)

        answer: Completion | None = None
        event_type: EventType = self.answers if kind == "final_analysis" else "llm_response"
        async with AsyncExitStack() as stack:
            stack.enter_context(observed(on_exchange))
            is_shown = kind != "executive_summary"
            events = _AnswerEvents(stack, self.recorder, key, self.masker, event_type, is_shown=is_shown)
            try:
                answer = await self._when_available(
                    lambda: self._answer(self.llm, messages, max_tokens, tools, native, events, stop), events
                )
                if exchange is not None:
                    answer = replace(answer, model=exchange.model, provider=exchange.provider)
                turn = self._masked(answer, key)
            except (LLMError, MaskingFailed) as failure:
                reason = self._reason(failure)
                turn = Turn(
                    problem=reason,
                    too_long=isinstance(failure, LLMTooLong),
                    model=self.llm.model,
                    provider=self.llm.provider,
                )
                await events.fail(reason)
                await self.recorder.record(
                    key, "error", reason, {"model": self.llm.model, "provider": self.llm.provider}
                )
            else:
                analysis = final(turn) if kind == "iteration" else ""
                is_last = kind == "final_analysis" and bool(turn.text.strip())
                shown = replace(turn, text=self.remarked(turn.text)) if is_last else turn
                await events.complete(shown, {"final": True} if analysis else {}, answer.native_calls)
                if analysis:
                    await self.recorder.record(
                        key,
                        self.answers,
                        self.remarked(turn.text.derive(analysis)),
                        {"model": turn.model, "provider": turn.provider},
                    )
                if turn.unsupported and tell_unsupported:
                    await self.recorder.record(
                        key,
                        "error",
                        self.masker.mask(_unsupported_note(turn)),
                        {"unsupported_native_tools": list(turn.unsupported)},
                    )
        if exchange is not None:
            await self.recorder.exchange(key, _record(traced_as, exchange, request, turn, answer))
        return turn

    def remarked(self, analysis: Masked) -> Masked:
        """An analysis with the remark for its readers."""
        return analysis.derive(f"{analysis}\n\n{self.remark}") if self.remark else analysis

    async def _when_available(self, answer: Callable[[], Awaitable[Completion]], events: "_AnswerEvents") -> Completion:
        """Call the model, waiting up to `LONGEST_WAIT` while the provider's circuit is open."""
        until = anyio.current_time() + LONGEST_WAIT
        while True:
            await self.recorder.still_ours()
            try:
                return await answer()
            except CircuitOpen as refusal:
                pause = max(refusal.retry_after or 0.0, 0.1)
                if anyio.current_time() + pause > until:
                    raise
                events.restart()
                self.recorder.progress(
                    "investigating", f"The model's provider is failing; it is asked again in {pause:.0f} s."
                )
                await anyio.sleep(pause)

    async def _answer(
        self,
        llm: LLM,
        messages: Sequence[Message],
        max_tokens: int,
        tools: Sequence[ToolSpec],
        native: NativeTools | None,
        events: "_AnswerEvents",
        stop: Callable[[str], int | None],
    ) -> Completion:
        text = ""
        stream: Any = llm.stream(messages, max_tokens=max_tokens, tools=tools, native=native)
        async with aclosing(stream) as deltas:
            async for delta in deltas:
                match delta:
                    case Completion():
                        cut = stop(delta.text)
                        return delta if cut is None else replace(delta, text=delta.text[:cut])
                    case TextDelta(text=more):
                        text += more
                        if (cut := stop(text)) is not None:
                            return Completion(text=text[:cut], finish="stop", model=llm.model, provider=llm.provider)
                        await events.text(more)
                    case ThinkingDelta(text=more):
                        await events.thinking(more)
                    case Superseded():
                        text = ""
                        events.restart()
        raise AssertionError("a stream must end with a Completion")

    def _masked(self, answer: Completion, key: str) -> Turn:
        numbered = tuple(
            replace(call, id=call.id or f"call_{number}") for number, call in enumerate(answer.tool_calls, start=1)
        )
        ids = [call.id for call in numbered]
        if len(set(ids)) < len(ids):
            numbered = tuple(replace(call, id=f"{call.id}_{number}") for number, call in enumerate(numbered, start=1))
        self.as_written[key] = WrittenTurn(answer.text, numbered)
        text = admit_words(answer.text, self.masker)
        calls = tuple(
            replace(call, name=clean(call.name[:300]).text, arguments=self._masked_arguments(call.arguments))
            for call in numbered
        )
        return Turn(
            text=text,
            thinking=admit_words(answer.thinking, self.masker) if answer.thinking else NOTHING,
            calls=calls,
            is_altered=text != answer.text
            or any(masked.arguments != call.arguments for masked, call in zip(calls, numbered, strict=True)),
            finish=answer.finish,
            model=answer.model,
            provider=answer.provider,
            unsupported=answer.unsupported,
        )

    def _masked_arguments(self, written: str) -> Masked:
        try:
            value = json.loads(written)
        except (ValueError, RecursionError):
            return admit_words(written, self.masker)
        # Value by value first, so that patterns for whole lines match; serialized again only if something changed.
        admitted = admit_arguments(value, self.masker)
        return admit_words(written if admitted == value else json.dumps(admitted, ensure_ascii=False), self.masker)

    def _reason(self, failure: Exception) -> Masked:
        if isinstance(failure, MaskingFailed):
            return NOT_MASKED
        return admit_text(str(failure), self.masker)


class _AnswerEvents:
    """The events of one answer: each is opened with its first text and masked as it grows."""

    def __init__(
        self,
        stack: AsyncExitStack,
        recorder: Recorder,
        key: str,
        masker: Masker,
        answer_type: EventType,
        *,
        is_shown: bool = True,
    ) -> None:
        self._is_shown = is_shown
        self._stack, self._recorder, self._key, self._masker = stack, recorder, key, masker
        self._answer_type = answer_type
        self._streams: dict[EventType, MaskedStream] = {}

    async def text(self, more: str) -> None:
        if self._is_shown and (more.strip() or self._answer_type in self._streams):
            if self._answer_type not in self._streams and (thought := self._streams.get("llm_thinking")):
                thought.finish()
            (await self._stream(self._answer_type)).add(more)

    async def thinking(self, more: str) -> None:
        if self._is_shown:
            (await self._stream("llm_thinking")).add(more)

    def restart(self) -> None:
        for stream in self._streams.values():
            stream.restart()

    async def complete(self, turn: Turn, more: dict[str, Any], native_calls: Sequence[str]) -> None:
        if not self._is_shown:
            return
        about = {
            "model": turn.model,
            "provider": turn.provider,
            **more,
            **({"native_tools_used": list(native_calls)} if native_calls else {}),
        }
        if turn.thinking:
            await (await self._stream("llm_thinking")).event.complete(turn.thinking, about)
        if turn.text.strip():
            await (await self._stream(self._answer_type)).event.complete(turn.text, about)
        await self._complete_empty({"llm_thinking": turn.thinking, self._answer_type: turn.text.strip()})

    async def fail(self, reason: str) -> None:
        for stream in self._streams.values():
            await stream.event.complete(stream.shown, {"reason": reason}, status="failed")

    async def _complete_empty(self, contents: dict[EventType, str]) -> None:
        for kind, stream in self._streams.items():
            if not contents.get(kind):
                await stream.event.complete(NOTHING)

    async def _stream(self, kind: EventType) -> "MaskedStream":
        if kind not in self._streams:
            event = await self._stack.enter_async_context(self._recorder.opened(self._key, kind))
            self._streams[kind] = MaskedStream(event, self._masker)
        return self._streams[kind]


class MaskedStream:
    """A text that is published while it grows.

    Only whole words are published, none inside of a secret of several lines, and the whole text is masked again
    each time, so that no part of a secret is published before the secret is recognized.
    """

    def __init__(self, event: OpenEvent, masker: Masker) -> None:
        self.event = event
        self.shown = NOTHING
        self._masker = masker
        self._text = ""
        self._looked_at = 0
        self._is_finished = False

    def add(self, more: str) -> None:
        self._text += more
        if self._is_finished:
            return
        if len(self._text) - self._looked_at < _SHOWN_AT_LEAST or len(self._text) > _SHOWN_AT_MOST:
            return
        end = max(self._text.rfind(" "), self._text.rfind("\n")) + 1
        if end > self._looked_at and not ends_inside_secret(self._text[:end].encode("utf-8", "replace")):
            self._publish(end)

    def finish(self) -> None:
        """Publish all of it, because another text begins; what is still added is in the completed event only."""
        self._is_finished = True
        if len(self._text) <= _SHOWN_AT_MOST:
            self._publish(len(self._text))

    def _publish(self, end: int) -> None:
        self._looked_at = end
        try:
            masked = admit_words(self._text[:end], self._masker)
        except MaskingFailed:
            return  # then the complete text is not shown either
        if masked.startswith(self.shown):
            if piece := masked[len(self.shown) :]:
                self.event.delta(masked.derive(piece))
        else:
            self.event.restart()
            self.event.delta(masked)
        self.shown = masked

    def restart(self) -> None:
        self._text, self._looked_at, self.shown, self._is_finished = "", 0, NOTHING, False
        self.event.restart()


def _unsupported_note(turn: Turn) -> str:
    names = " and ".join(turn.unsupported)
    return f"{turn.model} at {turn.provider} does not support {names} here; the request was sent without."


def _request(tools: Sequence[ToolSpec], native: NativeTools | None) -> dict[str, Any]:
    wanted = native.model_dump(exclude_none=True) if native else {}
    return {"tools": [tool.name for tool in tools], **({"native_tools": wanted} if wanted else {})}


def _record(
    kind: InteractionType,
    exchange: Exchange,
    request: Mapping[str, Any],
    turn: Turn,
    answer: Completion | None,
) -> Interaction:
    """The record of the exchange that the turn is from."""
    return Interaction(
        type=kind,
        provider=exchange.provider,
        model=exchange.model,
        messages=exchange.messages,
        request={**request, "attempt": exchange.attempt},
        response={
            "text": turn.text,
            "thinking": turn.thinking,
            "tool_calls": [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in turn.calls],
            "finish": turn.finish,
            "outcome": exchange.outcome,
            **({"cached_tokens": exchange.usage.cached_tokens} if exchange.usage.cached_tokens else {}),
            **({"native_tools_used": list(answer.native_calls)} if answer and answer.native_calls else {}),
            **({"unsupported_native_tools": list(turn.unsupported)} if turn.unsupported else {}),
        },
        usage=exchange.usage,
        duration_ms=exchange.duration_ms,
        error=turn.problem,
        started_at=exchange.started_at,
    )
