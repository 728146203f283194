"""One model at one provider: ask it, or let it stream.

Translates between our messages and pydantic-ai's, and its errors into ours,
typed by who can act. Does not retry, wait or fall back: `limits` does.

pydantic-ai is imported when a model is built, not when this module is: it costs
seconds that `tersely --help` does not have.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from tersely.errors import (
    ConfigError,
    LLMError,
    LLMMisconfigured,
    LLMOutOfQuota,
    LLMRefused,
    LLMTooLong,
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
from tersely.text.tokens import Tokenizer, tokenizer_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx2
    from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.native_tools import AbstractNativeTool
    from pydantic_ai.settings import ModelSettings

    from tersely.llm.providers import NativeTools
    from tersely.llm.wire import Timeouts

Provider = Literal["openrouter", "openai", "anthropic", "google"]

SHORTEST_SECRET = 8
"""Shorter keys are what servers are given that want any key at all, `x` or `none`; taken out, they would tear words
apart.
"""
"""`openrouter` stands for any server that speaks OpenAI's chat completions; `openai` is OpenAI's own."""

TEMPERATURE = 0.1
"""Low, for faithful summaries; models that accept none are asked without."""

OPENROUTER_URL = "https://openrouter.ai/api/v1"
OPENAI_URL = "https://api.openai.com/v1"


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """Which model to ask, and where."""

    model: str
    provider: Provider = "openrouter"
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    window: int | None = None
    """Tokens the model can read and write together; None: as `genai-prices` lists it."""

    output_cap: int | None = None
    temperature: float | None = None
    native_tools: NativeTools | None = None
    """Which of the provider's own tools are on where the asker leaves it open."""


class LLM(Protocol):
    """Whoever can be asked: `limits.LimitedLLM`, over one or more `ChatModel`s."""

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


class ChatModel:
    """A model behind a provider's API, over pydantic-ai."""

    def __init__(
        self, spec: ModelSpec, *, patience: Timeouts | None = None, transport: httpx2.AsyncBaseTransport | None = None
    ) -> None:
        require_extra("llm", f"Model {spec.model!r}")

        from tersely.llm import facts
        from tersely.llm.wire import BoundedHTTPClient, Timeouts

        self.spec = spec
        self.model = spec.model
        self.provider: str = spec.provider
        self.window = spec.window or facts.context_window(spec.provider, spec.model)
        self.output_cap = min(spec.output_cap or facts.OUTPUT_CAP, self.window // 2)
        self.tokenizer = tokenizer_for(spec.model)
        self._http = BoundedHTTPClient(patience or Timeouts(), transport=transport)
        self._wire = _build(spec, self._http)
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
        """Ask and wait for the whole answer.

        Args:
            native: Which of the provider's own tools may be used; where it leaves one open, the spec decides. None:
                none at all.

        Raises:
            LLMError: One of its subclasses, see `errors`.
        """
        from pydantic_ai.direct import model_request

        while True:
            settings = self._settings(max_tokens, native)
            offered, missing = self._native(native, tools)
            try:
                with _our_errors(self.spec):
                    response = await model_request(
                        self._wire,
                        _their_messages(messages),
                        model_settings=settings,
                        model_request_parameters=_their_tools(tools, offered),
                    )
                return self._completion(response, missing)
            except _Adjust as complaint:
                self._adjust(complaint, settings)

    async def stream(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        tools: Sequence[ToolSpec] = (),
        native: NativeTools | None = None,
    ) -> AsyncGenerator[Delta]:
        """Ask and yield the answer as it is written; the last item is the whole `Completion`."""
        from pydantic_ai.direct import model_request_stream

        while True:
            settings = self._settings(max_tokens, native)
            offered, missing = self._native(native, tools)
            try:
                with _our_errors(self.spec):
                    async with model_request_stream(
                        self._wire,
                        _their_messages(messages),
                        model_settings=settings,
                        model_request_parameters=_their_tools(tools, offered),
                    ) as events:
                        async for event in events:
                            if delta := _our_delta(event):
                                yield delta
                        response = events.get()
                yield self._completion(response, missing)
                return
            except _Adjust as complaint:
                self._adjust(complaint, settings)

    def _native(
        self, wanted: NativeTools | None, tools: Sequence[ToolSpec]
    ) -> tuple[list[AbstractNativeTool], tuple[str, ...]]:
        """Of the wanted native tools those this model has, and the names of those it cannot do (beside our own
        tools).
        """
        from pydantic_ai.native_tools import CodeExecutionTool, WebFetchTool, WebSearchTool

        if wanted is None:
            return [], ()
        kinds: dict[str, type[AbstractNativeTool]] = {
            "google_search": WebSearchTool,
            "code_execution": CodeExecutionTool,
            "url_context": WebFetchTool,
        }
        enabled = (wanted.over(self.spec.native_tools) if self.spec.native_tools else wanted).enabled()
        profile: Mapping[str, Any] = self._wire.profile
        has = tuple(profile.get("supported_native_tools", ()))
        alone = (
            self.spec.provider == "google"
            and bool(tools)
            and not profile.get("google_supports_tool_combination", False)
        )
        able = [name for name in enabled if issubclass(kinds[name], has) and not alone]
        return [kinds[name]() for name in able], tuple(name for name in enabled if name not in able)

    def _settings(self, max_tokens: int, native: NativeTools | None = None) -> ModelSettings:
        settings: ModelSettings = {"max_tokens": min(max_tokens, self.output_cap)}
        if native is not None and self.spec.provider == "google" and self._wire.profile.get("supports_thinking"):
            # Its models think anyway; this lets us see it. Whoever asks without native tools wants a summary, not a
            # thought.
            settings["thinking"] = True
        if self._temperature is not None:
            settings["temperature"] = self._temperature
        return settings

    def _adjust(self, complaint: _Adjust, sent: ModelSettings) -> None:
        """Take back what the provider does not accept, once. Calls that ran beside it have sent the same: they just try
        again.
        """
        if complaint.about == "temperature" and "temperature" in sent:
            self._temperature = None
            return
        if complaint.about == "output cap" and (sent["max_tokens"] > self.output_cap or not self._cap_was_halved):
            if sent["max_tokens"] <= self.output_cap:
                self._cap_was_halved = True
                self.output_cap = max(1, sent["max_tokens"] // 2)
            return
        raise LLMMisconfigured(str(complaint))

    def _completion(self, response: ModelResponse, missing: tuple[str, ...]) -> Completion:
        from pydantic_ai.messages import NativeToolCallPart, TextPart, ThinkingPart, ToolCallPart

        from tersely.llm import facts

        if response.finish_reason == "content_filter":
            raise LLMRefused(f"Model {self.model!r} refused to answer: {_refusal(response)}")
        if (response.provider_details or {}).get("finish_reason") == "error":
            raise LLMUnavailable(f"Model {self.model!r} broke off in the middle of its answer.")
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
                price=facts.price(self.provider, self.model, used.input_tokens, used.output_tokens),
            ),
            model=self.model,
            provider=self.provider,
            native_calls=tuple(
                dict.fromkeys(part.tool_name for part in response.parts if isinstance(part, NativeToolCallPart))
            ),
            unsupported=missing,
        )


def _arguments(part: ToolCallPart) -> str:
    """As the model wrote them; what is wrong with them is for the caller to see."""
    return part.args if isinstance(part.args, str) else part.args_as_json_str()


_FINISH: dict[str, Finish] = {"stop": "stop", "length": "length", "tool_call": "tool_call", "error": "error"}


def _refusal(response: ModelResponse) -> str:
    details = response.provider_details or {}
    return str(details.get("refusal") or "its content filter stepped in")[:300]


def _build(spec: ModelSpec, http: httpx2.AsyncClient) -> Model:
    try:
        if spec.provider == "anthropic":
            from anthropic import AsyncAnthropic
            from pydantic_ai.models.anthropic import AnthropicModel
            from pydantic_ai.providers.anthropic import AnthropicProvider

            anthropic = AsyncAnthropic(api_key=spec.api_key, base_url=spec.base_url, http_client=http, max_retries=0)
            return AnthropicModel(spec.model, provider=AnthropicProvider(anthropic_client=anthropic))
        if spec.provider == "google":
            from pydantic_ai.models.google import GoogleModel
            from pydantic_ai.providers.google import GoogleProvider

            return GoogleModel(
                spec.model, provider=GoogleProvider(api_key=spec.api_key, base_url=spec.base_url, http_client=http)
            )
    except ImportError as missing:
        raise ConfigError(
            f"Model {spec.model!r} needs the extra {spec.provider!r}: pip install 'tersely[{spec.provider}]' "
            f"({missing})"
        ) from missing
    return _openai_compatible(spec, http)


def _openai_compatible(spec: ModelSpec, http: httpx2.AsyncClient) -> Model:
    from openai import AsyncOpenAI
    from openai.types.chat import ChatCompletion
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    class TolerantChatModel(OpenAIChatModel):
        """Small local servers leave out the envelope's formalities; the answer is what counts."""

        def _validate_completion(self, response: ChatCompletion) -> Any:
            if problem := (response.model_extra or {}).get("error"):
                # OpenRouter says so inside of a 200 when a provider behind it fails.
                raise _reported(spec, problem)
            response.id = response.id or "none"
            response.model = response.model or spec.model
            response.object = "chat.completion"
            for index, choice in enumerate(response.choices or []):
                choice.index = choice.index if isinstance(choice.index, int) else index
            return super()._validate_completion(response)

    base_url = spec.base_url or (OPENAI_URL if spec.provider == "openai" else OPENROUTER_URL)
    profile = OpenAIModelProfile(
        # Everybody but OpenAI itself takes `max_tokens`, and some take nothing else.
        openai_chat_supports_max_completion_tokens="api.openai.com" in base_url,
        # Without it a stream that was cut would pass for a finished answer.
        openai_chat_streaming_requires_finish_reason=True,
    )
    client = AsyncOpenAI(base_url=base_url, api_key=spec.api_key or "no-key-needed", http_client=http, max_retries=0)
    return TolerantChatModel(
        spec.model, provider=OpenAICompatibleProvider(spec.provider, openai_client=client, profile=profile)
    )


def _their_messages(messages: Sequence[Message]) -> list[ModelMessage]:
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
    asking: list[ModelRequestPart] = []
    for message in messages:
        if message.role == "assistant":
            if asking:
                translated.append(ModelRequest(parts=asking))
                asking = []
            answer: list[ModelResponsePart] = [TextPart(_sendable(message.text))] if message.text else []
            answer += [ToolCallPart(call.name, call.arguments, tool_call_id=call.id) for call in message.tool_calls]
            translated.append(ModelResponse(parts=answer))
        elif message.role == "tool":
            assert message.answers is not None, "a tool's message says which call it answers"
            asking.append(
                ToolReturnPart(message.answers.name, _sendable(message.text), tool_call_id=message.answers.id)
            )
        else:
            text = _sendable(message.text)
            asking.append(SystemPromptPart(text) if message.role == "system" else UserPromptPart(text))
    if asking:
        translated.append(ModelRequest(parts=asking))
    return translated


def _sendable(text: str) -> str:
    """Half characters (lone surrogates) cannot be written in JSON; they become question marks."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def _their_tools(tools: Sequence[ToolSpec], native: list[AbstractNativeTool]) -> ModelRequestParameters:
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.tools import ToolDefinition

    return ModelRequestParameters(
        function_tools=[
            ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=tool.schema)
            for tool in tools
        ],
        native_tools=native,
    )


def _our_delta(event: object) -> Delta | None:
    from pydantic_ai.messages import (
        PartDeltaEvent,
        PartStartEvent,
        TextPart,
        TextPartDelta,
        ThinkingPart,
        ThinkingPartDelta,
        ToolCallPart,
    )
    from pydantic_ai.messages import ToolCallPartDelta as TheirToolCallDelta

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
        case PartDeltaEvent(index=index, delta=TheirToolCallDelta(tool_name_delta=name, args_delta=arguments)):
            return ToolCallDelta(index, name or "", arguments if isinstance(arguments, str) else "")
        case _:
            return None


class _Adjust(Exception):
    """The provider does not accept a parameter that we can do without."""

    def __init__(self, about: Literal["temperature", "output cap"], message: str) -> None:
        super().__init__(message)
        self.about = about


_ABOUT_WINDOW = re.compile(
    r"context (?:size|length|window|limit)|(?:maximum|max) (?:model|context|input|prompt) length|max_model_len"
    r"|input length|prompt is too long|too many (?:input )?tokens|exceeds? the (?:available|maximum) (?:context"
    r"|number of tokens)",
    re.IGNORECASE,
)
"""How vLLM, llama.cpp, LM Studio and others say it where the SDK does not know."""

_ABOUT_OUTPUT_CAP = re.compile(r"max_(?:completion_|output_)?tokens|maxOutputTokens", re.IGNORECASE)


@contextmanager
def _our_errors(spec: ModelSpec) -> Iterator[None]:
    """The one place where a provider's trouble becomes one of our errors."""
    import httpx2
    from pydantic_ai import exceptions as theirs

    from tersely.llm.wire import AnswerTooLarge, WebPage

    who = f"Model {spec.model!r}"

    def said_by(error: Any) -> str:
        status = getattr(error, "status_code", None)
        words = _words(error)
        if spec.api_key and len(spec.api_key) >= SHORTEST_SECRET:
            words = words.replace(spec.api_key, "[the key]")  # some providers quote it back
        return (f"{status}, " if status else "") + words

    try:
        yield
    except LLMError:
        raise
    except theirs.ModelContextWindowExceededError as error:
        raise LLMTooLong(f"{who} says the prompt is longer than its window: {said_by(error)}") from error
    except theirs.ModelQuotaExceededError as error:
        raise LLMOutOfQuota(f"{who} is out of quota: {said_by(error)}. Top up the account behind the key.") from error
    except theirs.ModelAuthenticationError as error:
        raise LLMMisconfigured(
            f"{who} does not accept the key: {said_by(error)}. Check the API key setting."
        ) from error
    except theirs.ModelNotFoundError as error:
        raise LLMMisconfigured(
            f"{who} is not known at its endpoint: {said_by(error)}. Check LLM_MODEL and the base URL."
        ) from error
    except theirs.ModelRequestRejectedError as error:
        said = said_by(error)
        if _ABOUT_WINDOW.search(said):
            raise LLMTooLong(f"{who} says the prompt is longer than its window: {said}") from error
        if _ABOUT_OUTPUT_CAP.search(said):
            raise _Adjust(
                "output cap", f"{who} refuses the asked-for output length: {said}. Set LLM_MAX_OUTPUT_TOKENS."
            ) from error
        if "temperature" in said:
            raise _Adjust("temperature", f"{who} refuses the temperature: {said}") from error
        if _heals(error):
            raise LLMUnavailable(f"{who} is not available: {said}", retry_after=error.retry_after) from error
        raise LLMRefused(f"{who} rejected the request: {said}") from error
    except theirs.ModelAPIError as error:
        if _caused_by(error, AnswerTooLarge):
            raise LLMRefused(f"{who} sent more than 16 MiB: that is no answer, and was not read on.") from error
        if _caused_by(error, WebPage):
            raise LLMMisconfigured(
                f"{who} answered with something that is no chat completion: a web page. Does the base URL point to "
                "the API?"
            ) from error
        if not _heals(error):
            raise LLMRefused(f"{who} rejected the request: {said_by(error)}") from error
        raise LLMUnavailable(
            f"{who} is not available: {said_by(error)}",
            retry_after=error.retry_after,
            rate_limited=isinstance(error, theirs.ModelRateLimitError),
        ) from error
    except theirs.ContentFilterError as error:
        raise LLMRefused(f"{who} refused to answer: {str(error)[:300]}") from error
    except AnswerTooLarge as error:
        raise LLMRefused(f"{who} sent more than 16 MiB: that is no answer, and was not read on.") from error
    except httpx2.HTTPError as error:
        raise LLMUnavailable(f"{who} is not available: {error}") from error
    except theirs.UnexpectedModelBehavior as error:
        if _ENDED_EARLY not in str(error):
            raise _no_completion(who, error) from error
        raise LLMUnavailable(f"{who} ended its answer before the first word.") from error
    except Exception as error:
        # Broad, because the SDKs raise IndexError, AttributeError, RecursionError … for a body that is not what they
        # expect.
        raise _no_completion(who, error) from error


_ENDED_EARLY = "ended without content"
"""How pydantic-ai says that a stream was over before it had begun."""


def _no_completion(who: str, error: Exception) -> LLMMisconfigured:
    return LLMMisconfigured(
        f"{who} answered with something that is no chat completion: {str(error)[:200]}. Does the base URL point to "
        "the API?"
    )


def _reported(spec: ModelSpec, problem: Any) -> LLMError:
    """An error that came as the body of a good answer."""
    code = problem.get("code") if isinstance(problem, dict) else None
    said = (
        f"Model {spec.model!r}: {str(problem.get('message') if isinstance(problem, dict) else problem)[:300]} "
        f"(code {code})"
    )
    if code in (401, 403, 404):
        return LLMMisconfigured(said)
    if code == 402:
        return LLMOutOfQuota(said)
    if _ABOUT_WINDOW.search(said):
        return LLMTooLong(said)
    if not isinstance(code, int) or code in (408, 429) or code >= 500:
        return LLMUnavailable(said, rate_limited=code == 429)
    return LLMRefused(said)


def _heals(error: Any) -> bool:
    """Whether asking again may help: trouble on the way, 408, 429 and everything the server blames on itself."""
    status = getattr(error, "status_code", None)
    return status is None or status in (408, 429) or status >= 500


def _words(error: Any) -> str:
    body = getattr(error, "body", None)
    if isinstance(body, dict):
        inner = body.get("error", body)
        if isinstance(inner, dict) and inner.get("message"):
            return _beginning(str(inner["message"]))
    return _beginning(str(getattr(error, "message", "") or error))


def _beginning(words: str) -> str:
    """Cut between words: half a secret is one that no masker knows."""
    return words if len(words) <= 300 else words[:300].rpartition(" ")[0] or "…"


def _caused_by(error: BaseException | None, kind: type[BaseException]) -> bool:
    while error is not None:
        if isinstance(error, kind):
            return True
        error = error.__cause__ or error.__context__
    return False
