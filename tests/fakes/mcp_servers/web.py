"""MCP servers behind HTTP, in this process: an honest one made with FastMCP, and a rude one written out by hand."""

import base64
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio
from fastmcp import Context, FastMCP
from fastmcp.server.auth import AccessToken, TokenVerifier
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider
from fastmcp.utilities.types import Image
from mcp.server.auth.settings import ClientRegistrationOptions, RevocationOptions
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.fakes.llm_server import serving
from tests.fakes.mcp_servers.plain import Message, text, tool

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class OnlyFriends(TokenVerifier):
    async def verify_token(self, token: str) -> AccessToken | None:
        return AccessToken(token=token, client_id="friend", scopes=[]) if token == "open-sesame" else None


@dataclass
class Honest:
    """Counts what happens to it."""

    name: str = "honest"
    hanging: int = 0
    """Calls of `hang` that have arrived."""

    cancelled: int = 0
    calls: int = 0
    url: str = ""
    server: FastMCP[Any] = field(init=False)

    def __post_init__(self) -> None:
        self.server = server = FastMCP(self.name)

        @server.tool(annotations={"readOnlyHint": True})
        def echo(text: str) -> str:
            self.calls += 1
            return text

        @server.tool
        def add(a: int, b: int) -> dict[str, int]:
            return {"sum": a + b}

        @server.tool
        def picture() -> list[Any]:
            return ["a pixel", Image(data=PIXEL, format="png")]

        @server.tool
        def big(bytes: int) -> str:
            return "x" * bytes

        @server.tool
        def fail() -> str:
            raise ValueError("it is broken")

        @server.tool
        async def hang() -> str:
            self.hanging += 1
            try:
                await anyio.sleep_forever()
            except anyio.get_cancelled_exc_class():
                self.cancelled += 1
                raise
            return ""

        @server.tool
        async def steps(label: str, context: Context) -> str:
            for number in range(1, 4):
                await context.report_progress(number, 3, f"{label}{number}")
            return label

    @asynccontextmanager
    async def listening(
        self, transport: Literal["http", "sse"] = "http", *, private: bool = False
    ) -> AsyncIterator[str]:
        if private:
            self.server.auth = OnlyFriends()
        app = self.server.http_app(transport=transport)
        async with serving(app, lifespan="on") as address:
            self.url = f"{address}/{'sse' if transport == 'sse' else 'mcp'}"
            yield self.url


@asynccontextmanager
async def behind_a_login(honest: Honest) -> AsyncIterator[tuple[str, InMemoryOAuthProvider]]:
    """The honest server with a real authorization server: discovery, registration, PKCE, rotating refresh tokens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    authority = InMemoryOAuthProvider(
        base_url=f"http://127.0.0.1:{port}",
        client_registration_options=ClientRegistrationOptions(enabled=True),
        revocation_options=RevocationOptions(enabled=True),
    )
    honest.server.auth = authority
    async with serving(honest.server.http_app(), lifespan="on", port=port) as address:
        yield f"{address}/mcp", authority


Reaction = Callable[[Message, Request], Response | Message | None]


@dataclass
class Rude:
    """Speaks the older protocol in plain JSON, and reacts to a call as the test demands."""

    react: Reaction
    requests: list[tuple[str, str]] = field(default_factory=list)
    """Method and path of everything that came."""

    messages: list[Message] = field(default_factory=list)
    session: str | None = None

    async def _all(self, request: Request) -> Response:
        self.requests.append((request.method, request.url.path))
        if request.method != "POST":
            return Response(status_code=405)
        message = await request.json()
        self.messages.append(message)
        if "id" not in message:
            return Response(status_code=202)
        if self.session and message["method"] != "initialize" and request.headers.get("mcp-session-id") != self.session:
            return Response("no such session", status_code=404)
        headers = {"mcp-session-id": self.session} if self.session else {}
        result: Message | None
        match message["method"]:
            case "initialize":
                result = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "rude", "version": "1"},
                }
            case "tools/list":
                result = {"tools": [tool("call"), tool("look", annotations={"readOnlyHint": True})]}
            case "tools/call":
                reaction = self.react(message, request)
                if isinstance(reaction, Response):
                    return reaction
                result = reaction if reaction is not None else text("fine")
            case _:
                error = {"code": -32601, "message": "unknown method"}
                return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "error": error}, headers=headers)
        return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "result": result}, headers=headers)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        app = Starlette(routes=[Route("/{path:path}", self._all, methods=["GET", "POST", "DELETE"])])
        async with serving(app) as address:
            yield f"{address}/mcp"


def endless_stream() -> Response:
    async def forever() -> AsyncIterator[bytes]:
        while True:
            yield b": nothing yet\n\n"
            await anyio.sleep(0.05)

    return StreamingResponse(forever(), media_type="text/event-stream")


def raw_answer(message: Message, result: bytes) -> Response:
    return Response(
        b'{"jsonrpc": "2.0", "id": %s, "result": %s}' % (json.dumps(message["id"]).encode(), result),
        media_type="application/json",
    )
