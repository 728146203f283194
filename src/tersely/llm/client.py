"""One model at one provider: complete or stream an answer.

Translates between our messages and pydantic-ai's. Errors are translated by
`llm.provider_errors`. Does not retry, wait or fall back: `llm.limits` does.

pydantic and pydantic-ai are imported when a model is built, not with this module:
structural condensing knows the `LLM` type and needs neither.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from tersely.cpu.run import run_in_thread
from tersely.errors import (
    LLMMisconfigured,
    LLMRefused,
    LLMUnavailable,
)
from tersely.extras import require_extra
from tersely.llm.messages import (
    Completion,
    Delta,
    Finish,
    Message,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
    ToolSpec,
    Usage,
)
from tersely.llm.provider_errors import UnsupportedParameter, translated_errors
from tersely.text.tokens import O200K, Tokenizer, tokenizer_for

if TYPE_CHECKING:
    from decimal import Decimal

    import httpx2
    from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.native_tools import AbstractNativeTool
    from pydantic_ai.settings import ModelSettings

    from tersely.llm.providers import ModelSpec, NativeTools
    from tersely.llm.wire import Timeouts

TEMPERATURE = 0.1
"""Low, for faithful summaries. Not sent to models that reject it."""


OUTPUT_LEEWAY = 1.5
"""A stream is stopped at this many times the tokens it may have, by our count, which differs from the provider's."""

_FEWEST_BYTES = 1_024
"""Counted at once."""

LONGEST_ANSWER = 8_192
"""Tokens reserved for an answer of unknown length, e.g. that of an agent; many models could write far more."""


class LLM(Protocol):
    """A model, as the rest of the code sees it: `limits.LimitedLLM`, or a wrapper around one."""

    @property
    def model(self) -> str: ...
    @property
    def provider(self) -> str: ...
    @property
    def window(self) -> int: ...
    @property
    def output_cap(self) -> int: ...
    @property
    def tokenizer(self) -> Tokenizer: ...
    @property
    def concurrency(self) -> int: ...

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        tools: Sequence[ToolSpec] = (),
        native: NativeTools | None = None,
    ) -> Completion: ...

    def stream(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        tools: Sequence[ToolSpec] = (),
        native: NativeTools | None = None,
    ) -> AsyncIterator[Delta]: ...


def answer_tokens(llm: LLM) -> int:
    """`max_tokens` for an answer of unknown length: within the output cap, and a quarter of the window at most."""
    return min(llm.output_cap, max(256, llm.window // 4), LONGEST_ANSWER)


class ChatModel:
    """A model behind a provider's API, over pydantic-ai."""

    def __init__(
        self, spec: ModelSpec, *, timeouts: Timeouts | None = None, transport: httpx2.AsyncBaseTransport | None = None
    ) -> None:
        require_extra("llm", f"Model {spec.model!r}")

        from tersely.llm import facts
        from tersely.llm.providers import build_model, find_provider
        from tersely.llm.wire import BoundedHTTPClient, Timeouts

        self.spec = spec
        self._known = find_provider(spec.provider)
        self.model = spec.model
        self.provider: str = spec.provider
        self.window = spec.window or facts.context_window(self._known.prices_id or spec.provider, spec.model)
        self.output_cap = min(spec.output_cap or facts.output_cap(spec.model), self.window // 2)
        self.tokenizer = tokenizer_for(spec.model)
        self._http = BoundedHTTPClient(
            timeouts or Timeouts(), headers=spec.headers, ca_file=spec.ca_file, transport=transport
        )
        self._model = build_model(spec, self._http)
        self._temperature: float | None = TEMPERATURE if spec.temperature is None else spec.temperature
        self._cap_was_halved = False

    async def aclose(self) -> None:
        await self._http.aclose()

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        tools: Sequence[ToolSpec] = (),
        native: NativeTools | None = None,
    ) -> Completion:
        """Return the whole answer.

        Args:
            native: Which of the provider's native tools may be used; the spec decides those left open. None: none.

        Raises:
            LLMError: One of its subclasses, see `errors`.
        """
        from pydantic_ai.direct import model_request

        while True:
            settings = self._settings(max_tokens, tools, native)
            offered, missing = self._native(native, tools)
            try:
                with translated_errors(self.spec):
                    response = await model_request(
                        self._model,
                        _to_sdk_messages(messages),
                        model_settings=settings,
                        model_request_parameters=_to_sdk_tools(tools, offered),
                    )
                return self._completion(response, missing)
            except UnsupportedParameter as rejection:
                self._adjust(rejection, settings)

    async def stream(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        tools: Sequence[ToolSpec] = (),
        native: NativeTools | None = None,
    ) -> AsyncGenerator[Delta]:
        """Yield the answer while it is written; the last item is the `Completion`.

        A server that ignores `max_tokens` is stopped as if it had not.
        """
        from pydantic_ai.direct import model_request_stream

        while True:
            settings = self._settings(max_tokens, tools, native)
            offered, missing = self._native(native, tools)
            output = _OutputLimit(settings["max_tokens"], self.output_cap)
            try:
                with translated_errors(self.spec):
                    async with model_request_stream(
                        self._model,
                        _to_sdk_messages(messages),
                        model_settings=settings,
                        model_request_parameters=_to_sdk_tools(tools, offered),
                    ) as events:
                        async for event in events:
                            if delta := _from_sdk_event(event):
                                yield delta
                                if await output.is_exceeded(delta):
                                    break
                        response = events.get()
                answer = self._completion(response, missing)
                if output.exceeded:
                    usage = await run_in_thread(self.estimated_usage, messages, output.written)
                    answer = replace(answer, finish="length", usage=usage)
                yield answer
                return
            except UnsupportedParameter as rejection:
                self._adjust(rejection, settings)

    def estimated_usage(self, messages: Sequence[Message], written: str) -> Usage:
        """The usage of a request whose answer was not read to its end, so that the provider reported none."""
        sent = sum(self.tokenizer.count(message.text) for message in messages)
        received = self.tokenizer.count(written)
        price = self._price(sent, received)
        return Usage(calls=1, input_tokens=sent, output_tokens=received, price=price)

    def _price(self, sent: int, received: int, *, cached: int = 0, cache_written: int = 0) -> Decimal | None:
        """The price of a request in US dollars: at the operator's own rates, else as it is listed."""
        from tersely.llm import facts

        if rates := self.spec.rates:
            cached = min(cached, sent)
            millions = (sent - cached) * rates.input + cached * rates.cached + received * rates.output
            return (millions / 1_000_000).quantize(facts.SMALLEST_PRICE)
        listed = self._known.prices_id or self.provider
        return facts.price(listed, self.model, sent, received, cached=cached, cache_written=cache_written)

    def _native(
        self, requested: NativeTools | None, tools: Sequence[ToolSpec]
    ) -> tuple[list[AbstractNativeTool], tuple[str, ...]]:
        """The requested native tools that this model supports, and the names of the others."""
        from pydantic_ai.native_tools import CodeExecutionTool, WebFetchTool, WebSearchTool

        if requested is None:
            return [], ()
        kinds: dict[str, type[AbstractNativeTool]] = {
            "google_search": WebSearchTool,
            "code_execution": CodeExecutionTool,
            "url_context": WebFetchTool,
        }
        enabled = (requested.over(self.spec.native_tools) if self.spec.native_tools else requested).enabled()
        profile: Mapping[str, Any] = self._model.profile
        supported = tuple(profile.get("supported_native_tools", ()))
        flag = self._known.combination_flag
        can_combine = not tools or flag is None or profile.get(flag, False)
        usable = [name for name in enabled if can_combine and issubclass(kinds[name], supported)]
        return [kinds[name]() for name in usable], tuple(name for name in enabled if name not in usable)

    def left_out(self, requested: NativeTools, *, with_tools: bool) -> tuple[str, ...]:
        """Native tools that are enabled but not sent with a request, e.g. because it declares other tools."""
        declared = [ToolSpec("any", "", {})] if with_tools else []
        return self._native(requested, declared)[1]

    def _settings(self, max_tokens: int, tools: Sequence[ToolSpec], native: NativeTools | None) -> ModelSettings:
        settings: ModelSettings = {"max_tokens": min(max_tokens, self.output_cap)}
        if tools or native is not None:
            # A turn of a conversation: the next one repeats this prompt. Summaries have no next turn, and writing to
            # a cache costs more than it saves there.
            settings.update(self._known.cache_settings(self.spec))  # type: ignore[typeddict-item]
        if native is not None and self._known.shows_thoughts and self._model.profile.get("supports_thinking"):
            # The models think anyway; this makes it visible. A request without native tools is for a summary.
            settings["thinking"] = True
        if self._temperature is not None:
            settings["temperature"] = self._temperature
        return settings

    def _adjust(self, rejection: UnsupportedParameter, sent: ModelSettings) -> None:
        """Stop sending what the provider rejects. Concurrent calls that sent the same value only try again.

        Raises:
            LLMMisconfigured: It was adjusted before, to no avail.
        """
        if rejection.parameter == "temperature" and "temperature" in sent:
            self._temperature = None
            return
        if rejection.parameter == "output cap" and (sent["max_tokens"] > self.output_cap or not self._cap_was_halved):
            if sent["max_tokens"] <= self.output_cap:
                self._cap_was_halved = True
                self.output_cap = max(1, sent["max_tokens"] // 2)
            return
        raise LLMMisconfigured(str(rejection))

    def _completion(self, response: ModelResponse, missing: tuple[str, ...]) -> Completion:
        from pydantic_ai.messages import NativeToolCallPart, TextPart, ThinkingPart, ToolCallPart

        if response.finish_reason == "content_filter":
            raise LLMRefused(f"Model {self.model!r} refused to answer: {_refusal(response)}")
        if (response.provider_details or {}).get("finish_reason") == "error":
            raise LLMUnavailable(f"Model {self.model!r} stopped in the middle of its answer.")
        used = response.usage
        return Completion(
            text="".join(part.content for part in response.parts if isinstance(part, TextPart)),
            thinking="".join(part.content for part in response.parts if isinstance(part, ThinkingPart)),
            tool_calls=tuple(
                ToolCall(part.tool_call_id, part.tool_name, _arguments(part))
                for part in response.parts
                if isinstance(part, ToolCallPart)
            ),
            finish=_FINISH.get(response.finish_reason or "stop", "stop"),
            usage=Usage(
                calls=1,
                input_tokens=used.input_tokens,
                output_tokens=used.output_tokens,
                cached_tokens=used.cache_read_tokens,
                price=self._price(
                    used.input_tokens,
                    used.output_tokens,
                    cached=used.cache_read_tokens,
                    cache_written=used.cache_write_tokens,
                ),
            ),
            model=self.model,
            provider=self.provider,
            native_calls=tuple(
                dict.fromkeys(part.tool_name for part in response.parts if isinstance(part, NativeToolCallPart))
            ),
            unsupported=missing,
        )


class _OutputLimit:
    """Whether a stream has exceeded its tokens: `max_tokens` for the answer, the model's output cap for its thoughts.

    Providers differ in whether thoughts count as output, and their tokenizers differ from ours.
    """

    def __init__(self, max_tokens: int, output_cap: int) -> None:
        self._answer = _TokenMeter(int(max_tokens * OUTPUT_LEEWAY))
        self._thinking = _TokenMeter(int(max(max_tokens, output_cap) * OUTPUT_LEEWAY))
        self.exceeded = False

    async def is_exceeded(self, delta: Delta) -> bool:
        match delta:
            case ThinkingDelta(text=more):
                self.exceeded |= await self._thinking.is_exceeded(more)
            case TextDelta(text=more) | ToolCallDelta(arguments=more):
                self.exceeded |= await self._answer.is_exceeded(more)
        return self.exceeded

    @property
    def written(self) -> str:
        return "".join((*self._thinking.pieces, *self._answer.pieces))


class _TokenMeter:
    """Counts the tokens of a growing text only when there may be too many: a token has at least one byte."""

    def __init__(self, most: int) -> None:
        self.pieces: list[str] = []
        self._left = most
        self._first_uncounted = 0
        self._uncounted_bytes = 0

    async def is_exceeded(self, more: str) -> bool:
        self.pieces.append(more)
        self._uncounted_bytes += len(more.encode("utf-8", "replace"))
        if self._uncounted_bytes > max(self._left, _FEWEST_BYTES):
            text = "".join(self.pieces[self._first_uncounted :])
            # In a thread: a server can send a text that takes long to count.
            self._left -= await run_in_thread(O200K.count, text)
            self._first_uncounted, self._uncounted_bytes = len(self.pieces), 0
        return self._left < 0


def _arguments(part: ToolCallPart) -> str:
    """As the model wrote them, valid or not; the caller checks them."""
    return part.args if isinstance(part.args, str) else part.args_as_json_str()


_FINISH: dict[str, Finish] = {"stop": "stop", "length": "length", "tool_call": "tool_call", "error": "error"}


def _refusal(response: ModelResponse) -> str:
    details = response.provider_details or {}
    return str(details.get("refusal") or "its content filter was triggered")[:300]


def _to_sdk_messages(messages: Sequence[Message]) -> list[ModelMessage]:
    from pydantic_ai.messages import (
        ModelRequest,
        ModelRequestPart,
        ModelResponse,
        ModelResponsePart,
        SystemPromptPart,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )

    translated: list[ModelMessage] = []
    request: list[ModelRequestPart] = []
    for message in messages:
        if message.role == "assistant":
            if request:
                translated.append(ModelRequest(parts=request))
                request = []
            answer: list[ModelResponsePart] = [TextPart(_sendable(message.text))] if message.text else []
            answer += [ToolCallPart(call.name, call.arguments, tool_call_id=call.id) for call in message.tool_calls]
            translated.append(ModelResponse(parts=answer))
        elif message.role == "tool":
            assert message.answers is not None, "a tool message refers to its call"
            request.append(
                ToolReturnPart(message.answers.name, _sendable(message.text), tool_call_id=message.answers.id)
            )
        else:
            text = _sendable(message.text)
            request.append(SystemPromptPart(text) if message.role == "system" else UserPromptPart(text))
    if request:
        translated.append(ModelRequest(parts=request))
    return translated


def _sendable(text: str) -> str:
    """Replace lone surrogates, which JSON cannot represent, by question marks."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def _to_sdk_tools(tools: Sequence[ToolSpec], native: list[AbstractNativeTool]) -> ModelRequestParameters:
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.tools import ToolDefinition

    return ModelRequestParameters(
        function_tools=[
            ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=tool.schema)
            for tool in tools
        ],
        native_tools=native,
    )


def _from_sdk_event(event: object) -> Delta | None:
    from pydantic_ai.messages import (
        PartDeltaEvent,
        PartStartEvent,
        TextPart,
        TextPartDelta,
        ThinkingPart,
        ThinkingPartDelta,
        ToolCallPart,
    )
    from pydantic_ai.messages import ToolCallPartDelta as SdkToolCallDelta

    match event:
        case PartStartEvent(part=TextPart(content=text)) | PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
            return TextDelta(text) if text else None
        case (
            PartStartEvent(part=ThinkingPart(content=text))
            | PartDeltaEvent(delta=ThinkingPartDelta(content_delta=text))
        ):
            return ThinkingDelta(text) if text else None
        case PartStartEvent(index=index, part=ToolCallPart() as part):
            return ToolCallDelta(index, part.tool_name, _arguments(part) if part.args else "")
        case PartDeltaEvent(index=index, delta=SdkToolCallDelta(tool_name_delta=name, args_delta=arguments)):
            return ToolCallDelta(index, name or "", arguments if isinstance(arguments, str) else "")
        case _:
            return None
