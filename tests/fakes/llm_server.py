"""A model server for tests: speaks OpenAI's wire on a real port, follows a script, remembers what it was asked.

It complains about an unscripted request, and about replies nobody asked for.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tersely.text.tokens import O200K

Body = dict[str, Any]


@dataclass(frozen=True)
class Reply:
    text: str = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    finish: str = "stop"
    thinking: str = ""
    tool_calls: tuple[Body, ...] = ()
    error: str = "scripted failure"
    code: str | None = None
    raw: bytes | None = None
    delay: float = 0.0
    refusal: str | None = None
    halfway: Callable[[], Awaitable[object]] | None = None
    """Waited for when half of the text has been streamed; may be called again while it waits."""

    cached: float = 0.0
    """The share of the prompt that the provider read from its cache."""


Script = list["Reply | str | int"] | Callable[[Body], "Reply | str | int | None"]
"""Replies in order, or a function of the request. A string is an answer, a number an HTTP status to fail with."""


@dataclass
class FakeLLMServer:
    script: Script
    requests: list[Body] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    url: str = ""
    in_flight: int = 0
    most_in_flight: int = 0
    cancelled: int = 0
    complaints: list[str] = field(default_factory=list)

    def prompt(self, index: int) -> str:
        """All that was said to the model in request `index`."""
        return "\n".join(str(message["content"]) for message in self.requests[index]["messages"])

    async def _complete(self, request: Request) -> Response:
        body = await request.json()
        self.requests.append(body)
        self.headers.append(dict(request.headers))
        reply = self._next(body)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if reply.delay:
                with anyio.move_on_after(reply.delay):
                    while not await request.is_disconnected():
                        await anyio.sleep(0.01)
                    self.cancelled += 1
        finally:
            self.in_flight -= 1
        if reply.raw is not None:
            return Response(reply.raw, status_code=reply.status, headers=dict(reply.headers))
        if reply.status != 200:
            error = {"error": {"message": reply.error, "code": reply.code}}
            return JSONResponse(error, status_code=reply.status, headers=dict(reply.headers))
        return self._stream(body, reply) if body.get("stream") else JSONResponse(self._completion(body, reply))

    def _next(self, body: Body) -> Reply:
        if callable(self.script):
            scripted = self.script(body)
            assert scripted is not None
        elif self.script:
            scripted = self.script.pop(0)
        else:
            self.complaints.append(
                f"unscripted request number {len(self.requests)}: {str(body['messages'][-1]['content'])[:200]}"
            )
            scripted = 418
        if isinstance(scripted, int):
            return Reply(status=scripted)
        return Reply(text=scripted) if isinstance(scripted, str) else scripted

    def _usage(self, body: Body, reply: Reply) -> Body:
        asked = sum(O200K.count(str(message["content"])) for message in body["messages"])
        wrote = O200K.count(reply.text)
        usage: Body = {"prompt_tokens": asked, "completion_tokens": wrote, "total_tokens": asked + wrote}
        if reply.cached:
            usage["prompt_tokens_details"] = {"cached_tokens": int(asked * reply.cached)}
        return usage

    def _completion(self, body: Body, reply: Reply) -> Body:
        message: Body = {"role": "assistant", "content": reply.text, "refusal": reply.refusal}
        if reply.thinking:
            message["reasoning"] = reply.thinking
        if reply.tool_calls:
            message["tool_calls"] = list(reply.tool_calls)
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1_790_000_000,
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": reply.finish}],
            "usage": self._usage(body, reply),
        }

    def _stream(self, body: Body, reply: Reply) -> StreamingResponse:
        envelope = {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1_790_000_000,
            "model": body["model"],
        }

        def chunk(delta: Body, finish: str | None = None) -> str:
            return (
                "data: "
                f"{json.dumps({**envelope, 'choices': [{'index': 0, 'delta': delta, 'finish_reason': finish}]})}\n\n"
            )

        async def events() -> AsyncIterator[str]:
            if reply.thinking:
                yield chunk({"role": "assistant", "reasoning": reply.thinking})
            for start in range(0, len(reply.text), 12):
                if reply.halfway and start <= len(reply.text) // 2 < start + 12:
                    # As providers do, so that nobody takes the pause for a lost connection.
                    over = False
                    while not over:
                        with anyio.move_on_after(5):
                            await reply.halfway()
                            over = True
                        yield ": processing\n\n"
                yield chunk({"role": "assistant", "content": reply.text[start : start + 12]})
            for index, call in enumerate(reply.tool_calls):
                yield chunk({"role": "assistant", "tool_calls": [{"index": index, **call}]})
            yield chunk({}, reply.finish)
            yield f"data: {json.dumps({**envelope, 'choices': [], 'usage': self._usage(body, reply)})}\n\n"
            yield "data: [DONE]\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["FakeLLMServer"]:
        app = Starlette(routes=[Route("/v1/chat/completions", self._complete, methods=["POST"])])
        async with serving(app) as address:
            self.url = f"{address}/v1"
            yield self
        assert not self.complaints, self.complaints
        if isinstance(self.script, list):
            assert not self.script, f"{len(self.script)} scripted replies were never asked for"


@asynccontextmanager
async def serving(app: Any, *, lifespan: Literal["on", "off"] = "off", port: int = 0) -> AsyncIterator[str]:
    """Any ASGI application on a free port of this machine, for as long as the block lasts."""
    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=port,
        log_config=None,
        access_log=False,
        lifespan=lifespan,
        timeout_graceful_shutdown=1,
        timeout_keep_alive=75,  # As providers have it: longer than clients keep a silent connection.
    )
    server = uvicorn.Server(config)
    stopped = anyio.Event()

    async def run() -> None:
        try:
            await server._serve(None)
        finally:
            stopped.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        with anyio.fail_after(300):
            while not server.started:
                await anyio.sleep(0.005)
        port = server.servers[0].sockets[0].getsockname()[1]
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            server.force_exit = True
            # Shielded, as the server closes its sockets on the way out even when the test has failed.
            with anyio.CancelScope(shield=True), anyio.move_on_after(5):
                await stopped.wait()
