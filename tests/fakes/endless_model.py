"""A model server that does not come to an end, by the wire formats of OpenAI and of Anthropic.

What it does is told by the name of the model: `endless`, `thinking` and `calling` write for ever, `silent` answers
nothing, `falls-silent` stops in its answer, `drip` sends a byte now and then, `hour` wants an hour's patience.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.fakes.llm_server import serving

WORDS = "and so on, "


@dataclass
class EndlessModel:
    url: str = ""
    """Of the server; OpenAI's wire is under `/v1`."""

    asked: list[dict[str, Any]] = field(default_factory=list)
    written: int = 0
    in_flight: int = 0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["EndlessModel"]:
        routes = [
            Route("/v1/chat/completions", self._answer, methods=["POST"]),
            Route("/v1/messages", self._answer, methods=["POST"]),
        ]
        async with serving(Starlette(routes=routes)) as self.url:
            yield self

    async def _answer(self, request: Request) -> Response:
        body = await request.json()
        self.asked.append(body)
        mode = body["model"].rpartition("/")[2]
        if mode == "hour":
            error = {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}
            return JSONResponse(error, status_code=429, headers={"retry-after": "3600"})
        begin, piece = _pieces(mode, anthropic=request.url.path.endswith("messages"))

        async def writing() -> AsyncIterator[str]:
            self.in_flight += 1
            try:
                if mode == "silent":
                    await anyio.sleep_forever()
                if mode == "drip":
                    while True:
                        yield ": still here\n\n" if body.get("stream") else " "
                        await anyio.sleep(0.05)
                yield begin
                while True:
                    self.written += 1
                    yield piece * 20
                    await anyio.sleep(0 if mode != "falls-silent" else 3600)
            finally:
                self.in_flight -= 1

        kind = "text/event-stream" if body.get("stream") else "application/json"
        return StreamingResponse(writing(), media_type=kind)


def _pieces(mode: str, *, anthropic: bool) -> tuple[str, str]:
    """The beginning of a stream, and the piece that follows again and again."""
    if not anthropic:
        deltas: dict[str, dict[str, Any]] = {
            "thinking": {"reasoning": WORDS},
            "calling": {"tool_calls": [{"index": 0, "function": {"arguments": WORDS}}]},
        }
        call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"a": "'}}
        first = {"tool_calls": [call]} if mode == "calling" else {}
        return _chunk({"role": "assistant", **first}), _chunk(deltas.get(mode, {"content": WORDS}))
    usage = {"input_tokens": 12, "output_tokens": 1}
    message = {"id": "m1", "type": "message", "role": "assistant", "model": mode, "content": [], "usage": usage}
    blocks: dict[str, Any] = {
        "thinking": {"type": "thinking", "thinking": "", "signature": ""},
        "calling": {"type": "tool_use", "id": "c1", "name": "look", "input": {}},
    }
    deltas = {
        "thinking": {"type": "thinking_delta", "thinking": WORDS},
        "calling": {"type": "input_json_delta", "partial_json": WORDS},
    }
    begin = _event("message_start", message={**message, "stop_reason": None, "stop_sequence": None})
    begin += _event("content_block_start", index=0, content_block=blocks.get(mode, {"type": "text", "text": ""}))
    delta = deltas.get(mode, {"type": "text_delta", "text": WORDS})
    return begin, _event("content_block_delta", index=0, delta=delta)


def _chunk(delta: dict[str, Any]) -> str:
    choices = [{"index": 0, "delta": delta, "finish_reason": None}]
    envelope = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices}
    return f"data: {json.dumps(envelope)}\n\n"


def _event(kind: str, **fields: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n"
