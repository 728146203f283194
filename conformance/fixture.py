"""A server with every feature the official suite checks, in both protocol eras.

    python -m conformance.fixture [--port N]

Built on the SDK's low-level server, so that a check tests the wire format and not a framework. In `make conformance` it
runs behind the gateway and behind FastMCP's proxy. The suite prescribes the texts of its responses. It imports nothing
from Tersely. `fixture_tasks.py` contains the tasks extension.
"""

import argparse
import base64
import hashlib
import hmac
import io
import json
import secrets
import socket
import struct
import sys
import warnings
import wave
import zlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError

from conformance.fixture_tasks import TASKS, Tasks

Call = ServerRequestContext[Any, Any]
Handler = Callable[[Call, dict[str, Any]], Awaitable[dict[str, Any]]]

CACHED: tuple[CacheableMethod, ...] = (
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
)


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def saying(said: str) -> dict[str, Any]:
    return {"content": [text(said)]}


def _png() -> str:
    """One red pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    pixel = (
        chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(b"\0\xff\0\0"))
        + chunk(b"IEND", b"")
    )
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + pixel).decode()


def _wav() -> str:
    """One sample of silence."""
    made = io.BytesIO()
    with wave.open(made, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(1)
        sound.setframerate(8000)
        sound.writeframes(b"\x80")
    return base64.b64encode(made.getvalue()).decode()


IMAGE = {"type": "image", "data": _png(), "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": _wav(), "mimeType": "audio/wav"}


def embedded(uri: str, said: str, kind: str = "text/plain") -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": said}}


# Capabilities and responses of the client


def declared(call: Call) -> dict[str, Any]:
    """The client's capabilities: from the request on 2026-07-28, from the handshake in older versions."""
    said = (call.meta or {}).get(types.CLIENT_CAPABILITIES_META_KEY)
    if isinstance(said, Mapping):
        return dict(said)
    capabilities = call.session.client_capabilities
    return capabilities.model_dump(by_alias=True, exclude_none=True) if capabilities else {}


def answered(call: Call, key: str) -> dict[str, Any] | None:
    answer = ((call.params or {}).get("inputResponses") or {}).get(key)
    return answer if isinstance(answer, dict) else None


def ask(message: str, field: str, kind: str = "string") -> dict[str, Any]:
    schema = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    return {"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}}


def sample(prompt: str, tokens: int) -> dict[str, Any]:
    return {
        "method": "sampling/createMessage",
        "params": {"messages": [{"role": "user", "content": text(prompt)}], "maxTokens": tokens},
    }


ROOTS: dict[str, Any] = {"method": "roots/list", "params": {}}


def wanted(requests: dict[str, Any], state: str | None = None) -> dict[str, Any]:
    result: dict[str, Any] = {"resultType": "input_required", "inputRequests": requests}
    return result if state is None else {**result, "requestState": state}


_KEY = secrets.token_bytes(32)


def signed(state: str) -> str:
    return f"{state}.{hmac.new(_KEY, state.encode(), hashlib.sha256).hexdigest()}"


def state_of(call: Call) -> str | None:
    """The state the client returned, after checking its signature."""
    brought = (call.params or {}).get("requestState")
    if brought is None:
        return None
    state, _, _ = str(brought).rpartition(".")
    if not hmac.compare_digest(signed(state), str(brought)):
        raise MCPError(types.INVALID_PARAMS, "requestState is not what this server gave out")
    return state


# Tools

TOOLS: dict[str, tuple[dict[str, Any], Handler]] = {}


def tool(description: str, properties: dict[str, Any] | None = None, **more: Any) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        schema = more.pop("schema", None) or {
            "type": "object",
            "properties": properties or {},
            "required": list(properties or {}),
        }
        name = handler.__name__
        TOOLS[name] = ({"name": name, "description": description, "inputSchema": schema, **more}, handler)
        return handler

    return register


@tool("Says one sentence")
async def test_simple_text(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    return saying("This is a simple text response for testing.")


@tool("Shows one pixel")
async def test_image_content(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"content": [IMAGE]}


@tool("Plays one sample")
async def test_audio_content(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"content": [AUDIO]}


@tool("Brings a resource along")
async def test_embedded_resource(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"content": [embedded("test://embedded-resource", "This is an embedded resource content.")]}


@tool("Several kinds of content at once")
async def test_multiple_content_types(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    data = embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json")
    return {"content": [text("Multiple content types test:"), IMAGE, data]}


@tool("Logs three times while it works")
async def test_tool_with_logging(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    for said in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await call.session.send_log_message("info", said, related_request_id=call.request_id)
        await anyio.sleep(0.05)
    return saying("Logged three times.")


@tool("Logs three times, where the request asks for it")
async def test_logging_tool(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    return await test_tool_with_logging(call, arguments)


@tool("Always fails")
async def test_error_handling(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    return {**saying("This tool intentionally returns an error for testing"), "isError": True}


@tool("Reports progress three times")
async def test_tool_with_progress(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    for done in (0, 50, 100):
        await call.session.report_progress(done, 100, f"Completed step {done} of 100")
        await anyio.sleep(0.05)
    return saying("Reported progress three times.")


@tool("Asks the client's model", {"prompt": {"type": "string"}})
async def test_sampling(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=str(arguments["prompt"])))
    answer = await call.session.create_message([message], max_tokens=100, related_request_id=call.request_id)
    return saying(f"LLM response: {getattr(answer.content, 'text', '')}")


async def _elicit(
    call: Call, message: str, properties: dict[str, Any], said: str, required: list[str] | None = None
) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": required or []}
    answer = await call.session.elicit_form(message, schema, related_request_id=call.request_id)
    return saying(f"{said}: action={answer.action}, content={json.dumps(answer.content)}")


@tool("Asks the user", {"message": {"type": "string"}})
async def test_elicitation(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    fields = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    return await _elicit(call, str(arguments["message"]), fields, "User response", ["username", "email"])


@tool("Asks the user, with defaults of every kind")
async def test_elicitation_sep1034_defaults(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    fields = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return await _elicit(call, "Please review these values", fields, "Elicitation completed")


@tool("Asks the user, with choices of every kind")
async def test_elicitation_sep1330_enums(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    plain = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"{nth} Option"} for n, nth in enumerate(("First", "Second", "Third"), 1)]
    fields = {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return await _elicit(call, "Please choose", fields, "Elicitation completed")


@tool("Closes its stream in the middle and goes on")
async def test_reconnection(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    if call.close_sse_stream is not None:
        await call.close_sse_stream()
        await anyio.sleep(0.2)
    return saying("Reconnection test completed.")


@tool(
    "A schema of 2020-12, with what that version brought",
    schema={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
)
async def json_schema_2020_12_tool(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    return saying(json.dumps(arguments))


@tool("Takes its argument from a header too", {"region": {"type": "string", "x-mcp-header": "Region"}})
async def test_custom_header(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    return saying(f"region={arguments['region']}")


@tool("Needs the client to sample")
async def test_missing_capability(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    if "sampling" not in declared(call):
        raise MCPError(
            types.MISSING_REQUIRED_CLIENT_CAPABILITY,
            "This tool needs sampling",
            {"requiredCapabilities": {"sampling": {}}},
        )
    return saying("The client can sample.")


@tool("Asks the caller while its stream is open")
async def test_streaming_elicitation(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    await call.session.report_progress(1, 2)
    return saying("Thank you.") if answered(call, "go_on") else wanted({"go_on": ask("Go on?", "ok", "boolean")})


@tool("Asks for a name")
async def test_input_required_result_elicitation(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    name = ((answered(call, "user_name") or {}).get("content") or {}).get("name")
    return saying(f"Hello, {name}!") if name else wanted({"user_name": ask("What is your name?", "name")})


@tool("Asks the caller's model")
async def test_input_required_result_sampling(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    answer = answered(call, "capital_question")
    if answer is None:
        return wanted({"capital_question": sample("What is the capital of France?", 100)})
    return saying(f"The model said: {(answer.get('content') or {}).get('text')}")


@tool("Asks for the caller's roots")
async def test_input_required_result_list_roots(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    answer = answered(call, "client_roots")
    return wanted({"client_roots": ROOTS}) if answer is None else saying(f"Roots: {json.dumps(answer.get('roots'))}")


@tool("Asks, and remembers by a state")
async def test_input_required_result_request_state(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    if state_of(call) != "asked" or answered(call, "confirm") is None:
        return wanted({"confirm": ask("Please confirm", "ok", "boolean")}, signed("asked"))
    return saying("state-ok")


@tool("Asks three things at once")
async def test_input_required_result_multiple_inputs(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    requests = {
        "user_name": ask("What is your name?", "name"),
        "greeting": sample("Generate a greeting", 50),
        "client_roots": ROOTS,
    }
    if state_of(call) != "asked" or not all(answered(call, key) for key in requests):
        return wanted(requests, signed("asked"))
    return saying("All three answered.")


@tool("Asks twice")
async def test_input_required_result_multi_round(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    state = state_of(call)
    if state == "second" and answered(call, "step2"):
        return saying("Both rounds done.")
    if state == "first" and answered(call, "step1"):
        return wanted({"step2": ask("Step 2: What is your favorite color?", "color")}, signed("second"))
    return wanted({"step1": ask("Step 1: What is your name?", "name")}, signed("first"))


@tool("Notices a state that was tampered with")
async def test_input_required_result_tampered_state(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    return await test_input_required_result_request_state(call, arguments)


@tool("Asks only for what the caller can do")
async def test_input_required_result_capabilities(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    able = declared(call)
    requests = {
        "greeting": ("sampling", sample("Generate a greeting", 50)),
        "user_name": ("elicitation", ask("What is your name?", "name")),
        "client_roots": ("roots", ROOTS),
    }
    possible = {key: request for key, (capability, request) in requests.items() if capability in able}
    if not possible or any(answered(call, key) for key in possible):
        return saying("Nothing more to ask.")
    return wanted(possible)


# Lists that change

BUS = InMemorySubscriptionBus()
_grown: set[str] = set()


def _grow_or_shrink(name: str) -> None:
    _grown.symmetric_difference_update({name})


@tool("Changes the list of tools")
async def test_trigger_tool_change(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    _grow_or_shrink("tool")
    await BUS.publish(ToolsListChanged())
    if call.protocol_version < "2026":
        await call.session.send_tool_list_changed()
    return saying("The list of tools has changed.")


@tool("Changes the list of prompts")
async def test_trigger_prompt_change(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    _grow_or_shrink("prompt")
    await BUS.publish(PromptsListChanged())
    if call.protocol_version < "2026":
        await call.session.send_prompt_list_changed()
    return saying("The list of prompts has changed.")


async def list_tools(call: Call, params: types.PaginatedRequestParams) -> dict[str, Any]:
    tools = [entry for entry, _ in TOOLS.values()] + TASKS
    if "tool" in _grown:
        tools = [*tools, {"name": "test_new_tool", "description": "Came later", "inputSchema": {"type": "object"}}]
    return {"tools": tools}


async def call_tool(call: Call, params: types.CallToolRequestParams) -> dict[str, Any]:
    arguments = dict(params.arguments or {})
    if params.name in TOOLS:
        return await TOOLS[params.name][1](call, arguments)
    if any(entry["name"] == params.name for entry in TASKS):
        return await _tasks.call(call, params.name, arguments, declared(call))
    raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")


def input_schema(name: str) -> Mapping[str, Any] | None:
    return next(
        (entry["inputSchema"] for entry in [*(entry for entry, _ in TOOLS.values()), *TASKS] if entry["name"] == name),
        None,
    )


# Resources

RESOURCES: dict[str, dict[str, Any]] = {
    "test://static-text": {"mimeType": "text/plain", "text": "This is the content of the static text resource."},
    "test://static-binary": {"mimeType": "image/png", "blob": IMAGE["data"]},
    "test://watched-resource": {"mimeType": "text/plain", "text": "Watched resource content"},
}


async def list_resources(call: Call, params: types.PaginatedRequestParams) -> dict[str, Any]:
    listed = [
        {
            "uri": uri,
            "name": uri.partition("://")[2],
            "description": f"For the suite: {uri}",
            "mimeType": content["mimeType"],
        }
        for uri, content in RESOURCES.items()
    ]
    return {"resources": listed}


async def list_templates(call: Call, params: types.PaginatedRequestParams) -> dict[str, Any]:
    template = {
        "uriTemplate": "test://template/{id}/data",
        "name": "template",
        "description": "By id",
        "mimeType": "application/json",
    }
    return {"resourceTemplates": [template]}


async def read_resource(call: Call, params: types.ReadResourceRequestParams) -> dict[str, Any]:
    if content := RESOURCES.get(params.uri):
        return {"contents": [{"uri": params.uri, **content}]}
    if params.uri.startswith("test://template/") and params.uri.endswith("/data"):
        found = params.uri.split("/")[3]
        said = json.dumps({"id": found, "templateTest": True, "data": f"Data for ID: {found}"})
        return {"contents": [{"uri": params.uri, "mimeType": "application/json", "text": said}]}
    raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": params.uri})


async def nothing(call: Call, params: Any) -> dict[str, Any]:
    return {}


# Prompts


def from_user(*contents: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content} for content in contents]}


PROMPTS: dict[str, tuple[str, ...]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}


async def list_prompts(call: Call, params: types.PaginatedRequestParams) -> dict[str, Any]:
    listed: list[dict[str, Any]] = [
        {
            "name": name,
            "description": f"For the suite: {name}",
            "arguments": [{"name": argument, "description": argument, "required": True} for argument in arguments],
        }
        for name, arguments in PROMPTS.items()
    ]
    if "prompt" in _grown:
        listed.append({"name": "test_new_prompt", "description": "Came later"})
    return {"prompts": listed}


async def get_prompt(call: Call, params: types.GetPromptRequestParams) -> dict[str, Any]:
    arguments = params.arguments or {}
    match params.name:
        case "test_simple_prompt":
            return from_user(text("This is a simple prompt for testing."))
        case "test_prompt_with_arguments":
            return from_user(
                text(f"Prompt with arguments: arg1='{arguments.get('arg1')}', arg2='{arguments.get('arg2')}'")
            )
        case "test_prompt_with_embedded_resource":
            resource = embedded(arguments.get("resourceUri", ""), "Embedded resource content for testing.")
            return from_user(resource, text("Please process the embedded resource above."))
        case "test_prompt_with_image":
            return from_user(IMAGE, text("Please analyze the image above."))
        case "test_input_required_result_prompt":
            context = ((answered(call, "user_context") or {}).get("content") or {}).get("context")
            if context is None:
                return wanted({"user_context": ask("What context should the prompt use?", "context")})
            return from_user(text(f"Context: {context}"))
    raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name}")


async def complete(call: Call, params: types.CompleteRequestParams) -> dict[str, Any]:
    known = [word for word in ("paris", "park", "party") if word.startswith(params.argument.value)]
    return {"completion": {"values": known, "total": len(known), "hasMore": False}}


# The server


class Remembered(EventStore):
    """Events in memory, so that a client that lost its stream can resume it."""

    def __init__(self) -> None:
        self._events: list[tuple[str, types.JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: types.JSONRPCMessage | None) -> str:
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        if not last_event_id.isdigit() or not 0 < int(last_event_id) <= len(self._events):
            return None
        stream = self._events[int(last_event_id) - 1][0]
        for number, (of, message) in enumerate(self._events[int(last_event_id) :], int(last_event_id) + 1):
            if of == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


class FullServer(Server[dict[str, Any]]):
    def create_initialization_options(self, *options: Any, **more: Any) -> Any:
        more.setdefault("notification_options", NotificationOptions(prompts_changed=True, tools_changed=True))
        return super().create_initialization_options(*options, **more)


def _complete(
    handler: Callable[[Call, Any], Awaitable[dict[str, Any]]],
) -> Callable[[Call, Any], Awaitable[dict[str, Any]]]:
    async def answer(call: Call, params: Any) -> dict[str, Any]:
        return {"resultType": "complete", **await handler(call, params)}

    return answer


def build() -> FullServer:
    hint = CacheHint(ttl_ms=1000, scope="public")
    server = FullServer(
        "tersely-conformance-fixture",
        version="1.0.0",
        cache_hints=dict.fromkeys(CACHED, hint),
        get_tool_input_schema=input_schema,
        on_subscriptions_listen=ListenHandler(BUS),
    )
    handlers: tuple[tuple[str, type[types.RequestParams], Callable[[Call, Any], Awaitable[dict[str, Any]]]], ...] = (
        ("tools/list", types.PaginatedRequestParams, list_tools),
        ("tools/call", types.CallToolRequestParams, call_tool),
        ("resources/list", types.PaginatedRequestParams, list_resources),
        ("resources/templates/list", types.PaginatedRequestParams, list_templates),
        ("resources/read", types.ReadResourceRequestParams, read_resource),
        ("resources/subscribe", types.SubscribeRequestParams, nothing),
        ("resources/unsubscribe", types.UnsubscribeRequestParams, nothing),
        ("prompts/list", types.PaginatedRequestParams, list_prompts),
        ("prompts/get", types.GetPromptRequestParams, get_prompt),
        ("completion/complete", types.CompleteRequestParams, complete),
        ("logging/setLevel", types.SetLevelRequestParams, nothing),
    )
    for method, params, handler in handlers:
        server.add_request_handler(method, params, handler if handler is nothing else _complete(handler))
    _tasks.offer(server)
    return server


_tasks = Tasks(declared=declared, ask=ask, answered=answered, wanted=wanted)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    port = parser.parse_args().port
    # Sampling and logging are deprecated in the protocol; the suite of 2025-11-25 still checks them.
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    listener = socket.create_server(("127.0.0.1", port))
    address = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    app = build().streamable_http_app(event_store=Remembered(), retry_interval=100)
    sys.stderr.write(json.dumps({"event": "listening", "address": address}) + "\n")
    sys.stderr.flush()
    uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=2)).run(
        sockets=[listener]
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
