"""Anthropic and Google by their own wire formats: the answers below are shaped as their references document them."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tersely.errors import ConfigError, LLMMisconfigured, LLMTooLong, LLMUnavailable
from tersely.llm.limits import LimitedLLM, RetryPolicy, build_llm
from tersely.llm.messages import Completion, Message, ToolSpec
from tersely.llm.providers import ModelSpec, NativeTools, ProviderOptions
from tersely.masking.masked import assume_masked
from tersely.settings.model import Settings
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


# Azure OpenAI, xAI and Vertex AI

CHAT_ANSWER = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "four"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1_000_000, "completion_tokens": 100_000, "total_tokens": 1_100_000},
}


@asynccontextmanager
async def endpoint(answer: dict[str, Any]) -> AsyncIterator[tuple[str, list[tuple[Request, dict[str, Any]]]]]:
    """Any path; the address, and what was asked."""
    asked: list[tuple[Request, dict[str, Any]]] = []

    async def respond(request: Request) -> Response:
        if request.url.path == "/token":
            return JSONResponse({"access_token": "t0ken", "token_type": "Bearer", "expires_in": 3_600})
        asked.append((request, await request.json()))
        return JSONResponse(answer)

    async with serving(Starlette(routes=[Route("/{path:path}", respond, methods=["POST"])])) as address:
        yield address, asked


async def answered(options: ProviderOptions) -> Completion:
    llm = build_llm([options.spec()], retry_policy=RetryPolicy(delays=()))
    try:
        return await llm.complete(MESSAGES, max_tokens=50)
    finally:
        await llm.aclose()


@pytest.mark.parametrize(
    ("path", "sent_to"),
    [
        ("", "/openai/deployments/mini/chat/completions?api-version=2024-10-21"),
        ("/openai/deployments/mine", "/openai/deployments/mine/chat/completions?api-version=2024-10-21"),
        ("/openai/v1", "/openai/v1/chat/completions"),
    ],
)
async def test_azure_is_asked_at_its_deployment_with_its_own_header(path: str, sent_to: str) -> None:
    async with endpoint(CHAT_ANSWER) as (address, asked):
        key = SecretStr("k3y")
        answer = await answered(
            ProviderOptions(
                type="azure",
                model="mini",
                base_url=address + path,
                api_key=key,
                input_price=Decimal(2),
                output_price=Decimal(10),
            )
        )
    ((request, body),) = asked
    assert answer.text == "four" and answer.usage.price == 3, "at the operator's own rates"
    assert str(request.url).removeprefix(address) == sent_to and request.headers["api-key"] == "k3y"
    assert body["max_completion_tokens"] == 50


async def test_xai_is_asked_as_openai_is_with_headers_of_ones_own() -> None:
    async with endpoint(CHAT_ANSWER) as (address, asked):
        answer = await answered(
            ProviderOptions(
                type="xai",
                model="grok-4",
                base_url=address,
                api_key=SecretStr("k3y"),
                headers={"X-Team": SecretStr("ops")},
            )
        )
    ((request, body),) = asked
    assert (request.url.path, request.headers["authorization"]) == ("/chat/completions", "Bearer k3y")
    assert request.headers["x-team"] == "ops" and body["model"] == "grok-4" and body["max_tokens"] == 50
    assert answer.usage.price, "listed under another name"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """The credentials of a service account, whose tokens come from an address."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    def log_in(address: str) -> None:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        account = {"type": "service_account", "client_email": "a@p.test", "token_uri": f"{address}/token"}
        account |= {"private_key": key.decode(), "project_id": "p1", "private_key_id": "1"}
        (tmp_path / "account.json").write_text(json.dumps(account))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))

    return log_in


@pytest.mark.parametrize(
    ("model", "answer", "sent_to"),
    [
        (
            "gemini-2.5-flash",
            GOOGLE_ANSWER,
            "projects/shop/locations/europe-west4/publishers/google/models/gemini-2.5-flash:generateContent",
        ),
        (
            "claude-haiku-4-5",
            ANTHROPIC_ANSWER,
            "projects/shop/locations/europe-west4/publishers/anthropic/models/claude-haiku-4-5:rawPredict",
        ),
    ],
)
async def test_vertex_is_asked_in_a_project_with_the_credentials_of_the_machine(
    machine: Callable[[str], None], model: str, answer: dict[str, Any], sent_to: str
) -> None:
    async with endpoint(answer) as (address, asked):
        machine(address)
        found = await answered(
            ProviderOptions(type="vertexai", model=model, base_url=address, project="shop", location="europe-west4")
        )
    ((request, body),) = asked
    assert found.text == "four" and request.headers["authorization"] == "Bearer t0ken"
    assert request.url.path.endswith(sent_to), request.url.path
    assert "two and two?" in str(body) and found.usage.price


def test_keys_and_projects_are_read_from_the_variables_that_are_named(tmp_path: Path) -> None:
    file = tmp_path / "tersely.yaml"
    file.write_text(
        "llm_providers:\n"
        "  a: {type: xai, model: grok-4, api_key_env: MY_KEY}\n"
        "  b: {type: vertexai, model: gemini-2.5-pro, project_env: GCP_PROJECT, location_env: GCP_LOCATION}\n"
        "defaults: {llm_provider: a}\n"
    )
    found = Settings.load({"MY_KEY": "k", "GCP_PROJECT": "shop", "GCP_LOCATION": "global"}, file).llm_providers
    assert (found["a"].spec().api_key, found["b"].spec().project, found["b"].spec().location) == ("k", "shop", "global")
    with pytest.raises(ConfigError) as wrong:
        Settings.load({"GCP_PROJECT": "shop", "GCP_LOCATION": "x"}, file)
    assert "tersely.yaml:2: llm_providers.a.api_key_env: the variable MY_KEY is not set" in str(wrong.value)
    for entry, message in (
        ("{type: azure, model: m, api_key: k}", "base_url is missing"),
        ("{model: m, api_key: k, input_price: 1}", "belong together"),
        ("{model: m, api_key: k, api_key_env: MY_KEY}", "has no effect beside api_key"),
        ("{type: vertex, model: m, api_key: k}", "should be .*'vertexai'"),
    ):
        file.write_text(f"llm_providers:\n  a: {entry}\n")
        with pytest.raises(ConfigError, match=rf"tersely\.yaml:2: .*{message}"):
            Settings.load({"MY_KEY": "k"}, file)
