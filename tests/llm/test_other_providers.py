"""Anthropic and Google by their own wire formats: the answers below are shaped as their references document them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tersely.errors import LLMMisconfigured, LLMTooLong, LLMUnavailable
from tersely.llm.limits import LimitedLLM, RetryPolicy, build_llm
from tersely.llm.messages import Message, ToolSpec
from tersely.llm.providers import ModelSpec, NativeTools
from tersely.masking.masked import assume_masked
from tests.fakes.llm_server import serving

pytestmark = pytest.mark.slow
"""The clients of these providers take seconds to import."""

MESSAGES = [Message("system", assume_masked("be brief")), Message("user", assume_masked("two and two?"))]


@asynccontextmanager
async def provider(
    name: str, model: str, path: str, answer: dict[str, Any], status: int = 200, **spec: Any
) -> AsyncIterator[tuple[LimitedLLM, list[tuple[Request, dict[str, Any]]]]]:
    asked: list[tuple[Request, dict[str, Any]]] = []

    async def respond(request: Request) -> Response:
        asked.append((request, await request.json()))
        return JSONResponse(answer, status_code=status)

    async with serving(Starlette(routes=[Route(path, respond, methods=["POST"])])) as address:
        llm = build_llm(
            [ModelSpec(model=model, provider=name, base_url=address, api_key="k3y", **spec)],
            retry_policy=RetryPolicy(delays=()),
        )
        try:
            yield llm, asked
        finally:
            await llm.aclose()


ANTHROPIC: tuple[str, str, str] = ("anthropic", "claude-haiku-4-5", "/v1/messages")
ANTHROPIC_ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-haiku-4-5",
    "content": [{"type": "text", "text": "four"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 12, "output_tokens": 1},
}
GOOGLE: tuple[str, str, str] = ("google", "gemini-2.5-flash", "/{version}/models/{model}")
GOOGLE_ANSWER = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "four"}]}, "finishReason": "STOP", "index": 0}],
    "usageMetadata": {"promptTokenCount": 12, "candidatesTokenCount": 1, "totalTokenCount": 13},
    "modelVersion": "gemini-2.5-flash",
}


async def test_anthropic_is_asked_in_its_own_words() -> None:
    async with provider(*ANTHROPIC, ANTHROPIC_ANSWER) as (llm, asked):
        answer = await llm.complete(MESSAGES, max_tokens=50)
        assert llm.window == 200_000 and llm.tokenizer.factor > 1, "its tokenizer is not public, so counts are raised"
    ((request, body),) = asked
    assert (answer.text, answer.finish, answer.usage.input_tokens, answer.usage.output_tokens) == (
        "four",
        "stop",
        12,
        1,
    )
    assert answer.usage.price
    assert request.headers["authorization"] == "Bearer k3y" and body["max_tokens"] == 50
    assert "be brief" in str(body["system"]) and "two and two?" in str(body["messages"])


async def test_anthropic_gets_marks_for_its_prompt_cache_in_conversations_only() -> None:
    """Writing to the cache costs a quarter more; a summary is never continued."""
    used = {
        "input_tokens": 12,
        "cache_read_input_tokens": 2_000,
        "cache_creation_input_tokens": 500,
        "output_tokens": 1,
    }
    tools = [ToolSpec("look", "Look.", {"type": "object", "properties": {}})]
    async with provider(*ANTHROPIC, {**ANTHROPIC_ANSWER, "usage": used}) as (llm, asked):
        turn = await llm.complete(MESSAGES, max_tokens=50, tools=tools, native=NativeTools())
        await llm.complete(MESSAGES, max_tokens=50)
    (_, in_conversation), (_, alone) = asked
    assert in_conversation["tools"][-1]["cache_control"]["type"] == "ephemeral"
    assert in_conversation["system"][-1]["cache_control"]["type"] == "ephemeral"
    assert "cache_control" in in_conversation or "cache_control" in str(in_conversation["messages"][-1])
    assert "cache_control" not in str(alone)
    assert (turn.usage.input_tokens, turn.usage.cached_tokens) == (2_512, 2_000)
    # Dollars per million: 1 for input, 1.25 written to the cache, 0.1 read from it, 5 for output.
    assert turn.usage.price == (Decimal(12) + Decimal("1.25") * 500 + Decimal("0.1") * 2_000 + 5) / 1_000_000


async def test_google_is_asked_in_its_own_words() -> None:
    async with provider(*GOOGLE, GOOGLE_ANSWER) as (llm, asked):
        answer = await llm.complete(MESSAGES, max_tokens=50)
    ((request, body),) = asked
    assert (answer.text, answer.finish, answer.usage.input_tokens) == ("four", "stop", 12)
    assert request.url.path.endswith("gemini-2.5-flash:generateContent") and request.headers["x-goog-api-key"] == "k3y"
    assert body["generationConfig"]["maxOutputTokens"] == 50


@pytest.mark.parametrize(("stop", "finish"), [("max_tokens", "length"), ("end_turn", "stop")])
async def test_an_anthropic_answer_that_hit_its_limit_says_so(stop: str, finish: str) -> None:
    async with provider(*ANTHROPIC, {**ANTHROPIC_ANSWER, "stop_reason": stop}) as (llm, _):
        assert (await llm.complete(MESSAGES, max_tokens=50)).finish == finish


@pytest.mark.parametrize(
    ("which", "status", "error", "kind"),
    [
        (
            ANTHROPIC,
            529,
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
            LLMUnavailable,
        ),
        (
            ANTHROPIC,
            401,
            {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}},
            LLMMisconfigured,
        ),
        (
            ANTHROPIC,
            400,
            {
                "type": "error",
                "error": {
                    "type": "invalid_request_error",
                    "message": "prompt is too long: 212345 tokens > 200000 maximum",
                },
            },
            LLMTooLong,
        ),
        (
            GOOGLE,
            503,
            {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}},
            LLMUnavailable,
        ),
        (
            GOOGLE,
            403,
            {"error": {"code": 403, "message": "API key not valid.", "status": "PERMISSION_DENIED"}},
            LLMMisconfigured,
        ),
    ],
)
async def test_their_errors_are_typed_like_everybody_elses_and_not_retried_behind_our_back(
    which: tuple[str, str, str], status: int, error: dict[str, Any], kind: type[Exception]
) -> None:
    async with provider(*which, error, status) as (llm, asked):
        with pytest.raises(kind):
            await llm.complete(MESSAGES, max_tokens=50)
    assert len(asked) == 1


async def test_native_tools_are_sent_where_the_model_has_them_and_named_where_it_cannot() -> None:
    """Tri-state: what the asker leaves open the provider's entry decides. Beside our own tools older models take
    none.
    """
    wanted = NativeTools(code_execution=True)
    async with provider(*GOOGLE, GOOGLE_ANSWER, native_tools=NativeTools(google_search=True, code_execution=False)) as (
        llm,
        asked,
    ):
        answer = await llm.complete(MESSAGES, max_tokens=50, native=wanted)
        beside = await llm.complete(
            MESSAGES, max_tokens=50, native=wanted, tools=[ToolSpec("look", "Looks.", {"type": "object"})]
        )
        await llm.complete(MESSAGES, max_tokens=50)
    sent = [[name for tool in body.get("tools", []) for name in tool] for _, body in asked]
    assert sent[0] == ["googleSearch", "codeExecution"] and answer.unsupported == ()
    assert sent[1] == ["functionDeclarations"] and beside.unsupported == ("google_search", "code_execution")
    assert sent[2] == [], "whoever does not ask for native tools, as a summary does not, gets none"
