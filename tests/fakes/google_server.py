"""Gemini's wire, as far as an agent needs it: streams one text or one function call per request, remembers what it was
asked.

The answers are shaped as Google documents them. Requests come to the script in
the words of `llm_server` (`messages`), so that one script serves both.
"""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.fakes.llm_server import Body, Reply, serving


def _no_script(body: Body) -> Any:
    raise AssertionError("this model has no script")


@dataclass
class FakeGoogle:
    answer: Callable[[Body], Any] = _no_script
    requests: list[Body] = field(default_factory=list)
    url: str = ""

    async def _generate(self, request: Request) -> Response:
        body = await request.json()
        self.requests.append(body)
        system = " ".join(part.get("text", "") for part in body.get("systemInstruction", {}).get("parts", []))
        said = [{"role": "system", "content": system}]
        said += [{"role": one.get("role"), "content": json.dumps(one.get("parts"))} for one in body["contents"]]
        reply = self.answer({**body, "messages": said})
        reply = Reply(status=reply) if isinstance(reply, int) else Reply(reply) if isinstance(reply, str) else reply
        if reply.status != 200:
            error = {"code": reply.status, "message": reply.error, "status": "INTERNAL"}
            return JSONResponse({"error": error}, status_code=reply.status)
        parts: list[Body] = [{"text": reply.text}] if reply.text else []
        for call in reply.tool_calls:
            asked = call["function"]
            parts.append({"functionCall": {"name": asked["name"], "args": json.loads(asked["arguments"])}})
        answer = {
            "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 12, "candidatesTokenCount": 1, "totalTokenCount": 13},
            "modelVersion": "gemini-3-pro-preview",
        }
        if "stream" not in request.url.path:
            return JSONResponse(answer)

        async def events() -> AsyncIterator[str]:
            yield f"data: {json.dumps(answer)}\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["FakeGoogle"]:
        app = Starlette(routes=[Route("/{version}/models/{model}", self._generate, methods=["POST"])])
        async with serving(app) as address:
            self.url = address
            yield self
