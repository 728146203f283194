"""Translates the errors of providers, SDKs and HTTP into ours, typed by who can act on them.

`translated_errors` is the one place where that happens. The operator's key is removed
from every message. Does not retry: `llm.limits` decides that from the type.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from tersely.errors import LLMError, LLMMisconfigured, LLMOutOfQuota, LLMRefused, LLMTooLong, LLMUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic_ai.exceptions import ModelAPIError

    from tersely.llm.providers import ModelSpec

T = TypeVar("T", bound=BaseException)

SHORTEST_SECRET = 8
"""Shorter keys are dummies such as `x` or `none` for servers that accept any; removing them would corrupt messages."""

_ABOUT_WINDOW = re.compile(
    r"context (?:size|length|window|limit)|(?:maximum|max) (?:model|context|input|prompt) length|max_model_len"
    r"|input length|prompt is too long|too many (?:input )?tokens|exceeds? the (?:available|maximum) (?:context"
    r"|number of tokens)",
    re.IGNORECASE,
)
"""How vLLM, llama.cpp, LM Studio and others report a prompt that is too long, where the SDK does not recognise it."""

_ABOUT_OUTPUT_CAP = re.compile(r"max_(?:completion_|output_)?tokens|maxOutputTokens", re.IGNORECASE)

_ENDED_EARLY = "ended without content"
"""How pydantic-ai reports a stream that ended before it contained anything."""


class UnsupportedParameter(Exception):
    """The provider rejects a parameter that the request does not need."""

    def __init__(self, parameter: Literal["temperature", "output cap"], message: str) -> None:
        super().__init__(message)
        self.parameter = parameter


@contextmanager
def translated_errors(spec: ModelSpec) -> Iterator[None]:
    """
    Raises:
        LLMError: In place of any other error; one of its subclasses.
        UnsupportedParameter: The request can be repeated without the parameter.
    """
    try:
        yield
    except LLMError:
        raise
    except Exception as error:
        # Broad, because the SDKs raise IndexError, AttributeError, RecursionError … for a body they do not expect.
        translated = _translated(spec, error)
        if isinstance(translated, LLMError):
            translated.status_code = getattr(error, "status_code", None)
        raise translated from error


def log_fields_of(error: LLMError) -> dict[str, Any]:
    """The log fields of an error: its type, the HTTP status, and our own words. The message may quote content."""
    return {
        "problem": type(error).__name__,
        **({"status_code": error.status_code} if error.status_code else {}),
        "hint": _hint(error),
    }


def _hint(error: LLMError) -> str:
    status = error.status_code
    match error:
        case LLMMisconfigured():
            return {
                401: "the provider does not accept the key",
                403: "the provider does not accept the key",
                404: "the provider does not know the model, or the base URL is wrong",
            }.get(status or 0, "the model is not configured correctly")
        case LLMOutOfQuota():
            return "the account behind the key is out of quota"
        case LLMTooLong():
            return "the prompt exceeds the context window"
        case LLMUnavailable():
            if error.rate_limited:
                return "the provider limits the rate"
            return "the provider failed" if status else "no answer: the connection failed, or it took too long"
        case LLMRefused():
            return "the provider rejects the request" if status else "the answer could not be used"
        case _:
            return "the model was not called"


def error_from_body(spec: ModelSpec, problem: Any) -> LLMError:
    """An error that came in the body of a successful response."""
    code = problem.get("code") if isinstance(problem, dict) else None
    text = str(problem.get("message") if isinstance(problem, dict) else problem)[:300]
    message = f"Model {spec.model!r}: {text} (code {code})"
    error = _from_code(code, message)
    error.status_code = code if isinstance(code, int) else None
    return error


def _from_code(code: Any, message: str) -> LLMError:
    if code in (401, 403, 404):
        return LLMMisconfigured(message)
    if code == 402:
        return LLMOutOfQuota(message)
    if _ABOUT_WINDOW.search(message):
        return LLMTooLong(message)
    if not isinstance(code, int) or code in (408, 429) or code >= 500:
        return LLMUnavailable(message, rate_limited=code == 429)
    return LLMRefused(message)


def _translated(spec: ModelSpec, error: Exception) -> Exception:
    import httpx2
    from pydantic_ai import exceptions as sdk

    from tersely.llm.wire import AnswerTooLarge, TimedOut

    model = f"Model {spec.model!r}"
    if (timeout := _cause(error, TimedOut)) is not None:
        return LLMUnavailable(f"{model} is not available: {timeout}.", most_retries=timeout.most_retries)
    match error:
        case sdk.ModelAPIError():
            return _translated_api_error(spec, error)
        case sdk.ContentFilterError():
            return LLMRefused(f"{model} refused to answer: {str(error)[:300]}")
        case AnswerTooLarge():
            return _too_large(model)
        case httpx2.HTTPError():
            return LLMUnavailable(f"{model} is not available: {error}")
        case sdk.UnexpectedModelBehavior() if _ENDED_EARLY in str(error):
            return LLMUnavailable(f"{model} ended its answer before the first word.")
        case _:
            return _not_a_completion(model, str(error)[:200])


def _translated_api_error(spec: ModelSpec, error: ModelAPIError) -> Exception:
    from pydantic_ai import exceptions as sdk

    from tersely.llm.wire import AnswerTooLarge, WebPage

    model, details = f"Model {spec.model!r}", _details(spec, error).removesuffix(".")
    match error:
        case sdk.ModelContextWindowExceededError():
            return LLMTooLong(f"{model} says the prompt is longer than its window: {details}")
        case sdk.ModelQuotaExceededError():
            return LLMOutOfQuota(f"{model} is out of quota: {details}. Top up the account behind the key.")
        case sdk.ModelAuthenticationError():
            return LLMMisconfigured(f"{model} does not accept the key: {details}. Check the API key setting.")
        case sdk.ModelNotFoundError():
            return LLMMisconfigured(
                f"{model} is not known at its endpoint: {details}. Check LLM_MODEL and the base URL."
            )
        case sdk.ModelRequestRejectedError() if (specific := _from_rejection(model, details)) is not None:
            return specific
    if not isinstance(error, sdk.ModelRequestRejectedError):
        if _cause(error, AnswerTooLarge):
            return _too_large(model)
        if _cause(error, WebPage):
            return _not_a_completion(model, "a web page")
    if not _is_temporary(error):
        return LLMRefused(f"{model} rejected the request: {details}")
    if error.retry_after:
        details = f"{details.removesuffix('.')}. It demands a wait of {error.retry_after:.0f} s."
    return LLMUnavailable(
        f"{model} is not available: {details}",
        retry_after=error.retry_after,
        rate_limited=isinstance(error, sdk.ModelRateLimitError),
    )


def _from_rejection(model: str, details: str) -> Exception | None:
    """What a rejection is about, by its wording; None where the wording does not tell."""
    if _ABOUT_WINDOW.search(details):
        return LLMTooLong(f"{model} says the prompt is longer than its window: {details}")
    if _ABOUT_OUTPUT_CAP.search(details):
        return UnsupportedParameter(
            "output cap", f"{model} rejects the requested output length: {details}. Set LLM_MAX_OUTPUT_TOKENS."
        )
    if "temperature" in details:
        return UnsupportedParameter("temperature", f"{model} rejects the temperature: {details}")
    return None


def _too_large(model: str) -> LLMRefused:
    return LLMRefused(f"{model} sent more than 16 MiB; the response was discarded.")


def _not_a_completion(model: str, received: str) -> LLMMisconfigured:
    received = received.removesuffix(".")
    return LLMMisconfigured(
        f"{model} did not return a chat completion: {received}. Does the base URL point to the API?"
    )


def _is_temporary(error: Any) -> bool:
    """Whether a retry may help: connection failures, 408, 429 and 5xx."""
    status = getattr(error, "status_code", None)
    return status is None or status in (408, 429) or status >= 500


def _details(spec: ModelSpec, error: Any) -> str:
    status = getattr(error, "status_code", None)
    message = _message(error)
    if spec.api_key and len(spec.api_key) >= SHORTEST_SECRET:
        message = message.replace(spec.api_key, "[the key]")  # Some providers quote it.
    return (f"{status}, " if status else "") + message


def _message(error: Any) -> str:
    body = getattr(error, "body", None)
    if isinstance(body, dict):
        details = body.get("error", body)
        if isinstance(details, dict) and details.get("message"):
            return _shortened(str(details["message"]))
    return _shortened(str(getattr(error, "message", "") or error))


def _shortened(message: str) -> str:
    """Cut between words: the masker does not recognise half a secret."""
    return message if len(message) <= 300 else message[:300].rpartition(" ")[0] or "…"


def _cause(error: BaseException | None, kind: type[T]) -> T | None:
    """The first error of this kind among an error and its causes."""
    while error is not None:
        if isinstance(error, kind):
            return error
        error = error.__cause__ or error.__context__
    return None
