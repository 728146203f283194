"""The model server of `bench.summaries`: enforces window and output cap, caches prompts, answers after a fixed time.

    python -m bench.summaries_model LATENCY

Prints its port. `POST /limits` sets window and output cap and forgets everything; `GET /usage` returns what each
answered request cost, the rejected ones, and the most requests that were in progress at once.
"""

import asyncio
import sys
import time

import anyio.to_thread
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tersely.text.tokens import O200K
from tests.fakes.llm_server import Body, Reply
from tests.fakes.strict_llm_server import StrictLLMServer


def answer(body: Body) -> str:
    """As long as a model that follows the length it is asked for."""
    sentence = "A statement with some words in it. "
    return sentence * max(1, int(body.get("max_tokens", 1_000) / 1.3 / O200K.count(sentence)) - 8)


class TimedServer(StrictLLMServer):
    """Counts in a thread and takes the same time for every answer, so that the schedule is what is measured."""

    latency = 1.0

    async def respond(self, request: Request) -> Response:
        began = time.monotonic()
        body = await request.json()
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        reply: Reply = await anyio.to_thread.run_sync(self._next, body)
        if reply.status != 200:
            self.in_flight -= 1
            return JSONResponse({"error": {"message": reply.error, "code": reply.code}}, status_code=reply.status)
        completion = await anyio.to_thread.run_sync(self._completion, body, reply)
        await asyncio.sleep(max(0.0, self.latency - (time.monotonic() - began)))
        self.in_flight -= 1
        return self._stream(body, reply) if body.get("stream") else JSONResponse(completion)

    async def set_limits(self, request: Request) -> Response:
        limits = await request.json()
        self.window, self.output_cap = limits["window"], limits["output_cap"]
        self._seen.clear()
        return await self.counted(request)

    async def counted(self, request: Request) -> Response:
        found = {"usage": list(self.usage), "rejected": list(self.rejected), "most": self.most_in_flight}
        self.usage.clear()
        self.rejected.clear()
        self.most_in_flight = 0
        return JSONResponse(found)


async def main() -> None:
    model = TimedServer(answer)
    model.latency = float(sys.argv[1])
    routes = [
        Route("/v1/chat/completions", model.respond, methods=["POST"]),
        Route("/limits", model.set_limits, methods=["POST"]),
        Route("/usage", model.counted),
    ]
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), port=0, log_level="error"))
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 — uvicorn has no event for it
        await asyncio.sleep(0.01)
    print(server.servers[0].sockets[0].getsockname()[1], flush=True)
    await task


if __name__ == "__main__":
    asyncio.run(main())
