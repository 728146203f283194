"""A gateway behind real HTTP, in this process, and servers to put behind it."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
from fastmcp import Client, Context, FastMCP
from mcp.client.subscriptions import listen
from mcp.server.lowlevel import Server as ProtocolServer
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.subscriptions import ResourceUpdated
from mcp_types import CallToolResult, TextContent
from mcp_types.version import LATEST_MODERN_VERSION

from tersely.mcp.servers import Server
from tersely.servers.gateway import serving
from tersely.servers.gateway.protocol import Gateway
from tersely.servers.gateway.web import build_gateway_app, gateway_tokens
from tersely.settings.model import Settings
from tests.fakes.llm_server import serving as listening

ROOT = Path(__file__).parents[2]
ERAS = ["legacy", "2026-07-28"]


@dataclass(frozen=True)
class Running:
    url: str
    gateway: Gateway

    @property
    def root(self) -> str:
        return self.url.removesuffix("/mcp")

    @property
    def waiting(self) -> int:
        """Requests of clients that are with a server."""
        busy = {id(pool.busy): pool.busy for pool in self.gateway.upstreams.pools.values()}
        return sum(len(callers) for pool in busy.values() for callers in pool.values())


def at(url: str, name: str = "one", **options: Any) -> Server:
    """A server that is reached by an address."""
    return Server.model_validate({"name": name, "options": {"transport": {"url": url}, **options}})


def by_command(module: str, *args: str, name: str = "one", **options: Any) -> Server:
    """A fake that is started as a process of its own."""
    transport = {
        "command": sys.executable,
        "args": ["-m", f"tests.fakes.mcp_servers.{module}", *args],
        "cwd": str(ROOT),
    }
    return Server.model_validate({"name": name, "options": {"transport": transport, "start_timeout": 300, **options}})


@asynccontextmanager
async def gateway(
    *servers: Server,
    strict: bool = False,
    models: bool = False,
    stateless: bool = False,
    wait: float = 60,
    file: Path | None = None,
    opened: bool = True,
    **environment: str,
) -> AsyncIterator[Running]:
    """
    Args:
        opened: With the database open, as after the first condensed result.
    """
    settings = Settings.load({"TERSELY_DATA_DIR": os.environ["TERSELY_DATA_DIR"], **environment}, file)
    async with serving.running_gateway(
        settings, servers, strict=strict, models=models, list_seconds=wait, greeting_seconds=wait
    ) as served:
        await (served.backend() if opened else served.prepare())
        await (await served.upstreams.pool(is_modern=True)).known(wait)
        app = build_gateway_app(
            served,
            verifier=gateway_tokens(settings),
            allowed_hosts=settings.summarizer.allowed_hosts,
            max_body_bytes=settings.summarizer.max_body_bytes,
            stateless=stateless,
        )
        async with listening(app, lifespan="on") as address:
            yield Running(f"{address}/mcp", served)


def text_of(result: CallToolResult) -> str:
    first = result.content[0]
    assert isinstance(first, TextContent)
    return first.text


async def post(url: str, method: str, params: dict[str, Any] | None = None, **headers: str) -> dict[str, Any]:
    """One request of the newer protocol, written out; the answer as it is on the wire."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": LATEST_MODERN_VERSION,
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**(params or {}), "_meta": meta}}
    asked = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": LATEST_MODERN_VERSION,
        "mcp-method": method,
    }
    if params and (name := params.get("name") or params.get("uri")):
        asked["mcp-name"] = name
    async with httpx2.AsyncClient(timeout=300) as client:
        response = await client.post(url, json=body, headers={**asked, **headers})
    answer: dict[str, Any] = response.json()
    return answer


class Library:
    """A server with everything: prompts, resources, templates, completions, questions, logs and changes."""

    def __init__(self, name: str = "library") -> None:
        self.name = name
        self.text = "All quiet."
        self.server: FastMCP[Any] = FastMCP(name, instructions=f"Ask the {name}.")
        server = self.server

        @server.tool
        async def ask(context: Context) -> str:
            answer = await context.elicit("Which colour?", response_type=str)
            return f"{answer.action}: {getattr(answer, 'data', '')}"

        @server.tool
        async def talk(context: Context) -> str:
            await context.info("working on it, password=hunter2-is-secret")
            return "talked"

        @server.tool
        async def grow() -> str:
            @server.tool
            def grown() -> str:
                return "here"

            return "grown"

        @server.resource(f"{name}://note")
        def note() -> str:
            return self.text

        @server.resource(f"{name}://page/{{number}}")
        def page(number: str) -> str:
            return f"page {number} of {name}"

        @server.prompt
        def greet(who: str) -> str:
            return f"Say hello to {who} from {name}; password=hunter2-is-secret"

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        async with listening(self.server.http_app(), lifespan="on") as address:
            yield f"{address}/mcp"


class Noticeboard:
    """One resource that changes and tells of it, and a prompt with completions; made with the protocol's own
    library.
    """

    def __init__(self) -> None:
        self.url = ""
        self.bus = InMemorySubscriptionBus()
        self.sessions: set[Any] = set()

        async def list_resources(context: Any, params: Any) -> types.ListResourcesResult:
            return types.ListResourcesResult(resources=[types.Resource(uri="board://note", name="note")])

        async def subscribe(context: Any, params: types.SubscribeRequestParams) -> types.EmptyResult:
            self.sessions.add(context.session)
            return types.EmptyResult()

        async def unsubscribe(context: Any, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
            self.sessions.clear()
            return types.EmptyResult()

        async def list_prompts(context: Any, params: Any) -> types.ListPromptsResult:
            return types.ListPromptsResult(
                prompts=[types.Prompt(name="greet", arguments=[types.PromptArgument(name="who")])]
            )

        async def complete(context: Any, params: types.CompleteRequestParams) -> types.CompleteResult:
            assert isinstance(params.ref, types.PromptReference) and params.ref.name == "greet"
            return types.CompleteResult(completion=types.Completion(values=["Ada", "Alan"]))

        self.server: ProtocolServer[Any] = ProtocolServer(
            "board",
            on_list_resources=list_resources,
            on_subscribe_resource=subscribe,
            on_unsubscribe_resource=unsubscribe,
            on_subscriptions_listen=ListenHandler(self.bus),
            on_list_prompts=list_prompts,
            on_completion=complete,
        )

    async def change(self) -> None:
        await self.bus.publish(ResourceUpdated(uri="board://note"))
        for session in self.sessions:
            await session.send_resource_updated("board://note")

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["Noticeboard"]:
        async with listening(self.server.streamable_http_app(), lifespan="on") as address:
            self.url = f"{address}/mcp"
            yield self


@asynccontextmanager
async def subscribed(client: Client[Any], uri: str) -> AsyncIterator[None]:
    """While a client wants to hear of a resource, as its era has it."""
    session = client.session
    if session.protocol_version == LATEST_MODERN_VERSION:
        async with listen(session, resource_subscriptions=[uri]):
            yield
        return
    await session.subscribe_resource(uri)
    try:
        yield
    finally:
        await session.unsubscribe_resource(uri)
