"""Slack's Web API as its documentation describes it: posting, history and replies with metadata, and errors."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.fakes.llm_server import serving

Trouble = Callable[[str, dict[str, Any]], "Response | str | None"]
"""Given the method and the body: a response instead of Slack's, the name of an error, or None."""


@dataclass
class FakeSlack:
    token: str = "xoxb-1"
    channels: tuple[str, ...] = ("C0000001", "C0000002")
    messages: list[dict[str, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    trouble: Trouble = lambda method, body: None
    loses_answers: bool = False
    """Posts, and answers with a status that says nothing about it."""

    on_post: Callable[[], None] = lambda: None
    """Called when a message is in its channel, before that is answered."""

    url: str = ""

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["FakeSlack"]:
        async with serving(Starlette(routes=[Route("/api/{method:path}", self._answer, methods=["POST"])])) as address:
            self.url = f"{address}/api"
            yield self

    async def _answer(self, request: Request) -> Response:
        method = request.path_params["method"]
        self.asked.append(method)
        is_json = request.headers["content-type"].startswith("application/json")
        body = await request.json() if is_json else dict(await request.form())
        if (told := self.trouble(method, body)) is not None:
            return told if isinstance(told, Response) else JSONResponse({"ok": False, "error": told})
        if request.headers.get("authorization") != f"Bearer {self.token}":
            return JSONResponse({"ok": False, "error": "invalid_auth"})
        if method == "auth.test":
            return JSONResponse({"ok": True, "team": "Shop", "user": "tersely"})
        if body["channel"] not in self.channels:
            return JSONResponse({"ok": False, "error": "channel_not_found"})
        response: Response = getattr(self, "_" + method.replace(".", "_"))(body)
        return response

    def _chat_postMessage(self, body: dict[str, Any]) -> Response:  # noqa: N802 - Slack's name
        assert body["text"] and len(body["blocks"]) <= 50
        for block in body["blocks"]:
            limit = {"header": 150, "section": 3_000}.get(block["type"])
            assert limit is None or 0 < len(block["text"]["text"]) <= limit, block
        assert set(body["metadata"]) == {"event_type", "event_payload"}
        ts = f"1763280000.{len(self.messages) + 1:06d}"
        thread = body.get("thread_ts")
        if thread and not any(one["ts"] == thread for one in self.messages):
            return JSONResponse({"ok": False, "error": "thread_not_found"})
        self.messages.append({**body, "ts": ts})
        self.on_post()
        if self.loses_answers:
            return Response(status_code=502)
        return JSONResponse({"ok": True, "channel": body["channel"], "ts": ts, "message": {"ts": ts}})

    def _conversations_history(self, body: dict[str, Any]) -> Response:
        """The channel's messages, newest first, without replies."""
        return self._page(body, [one for one in reversed(self.messages) if not one.get("thread_ts")])

    def _conversations_replies(self, body: dict[str, Any]) -> Response:
        """A thread, its first message included, oldest first."""
        thread = [one for one in self.messages if body["ts"] in (one["ts"], one.get("thread_ts"))]
        return self._page(body, thread) if thread else JSONResponse({"ok": False, "error": "thread_not_found"})

    def _page(self, body: dict[str, Any], found: list[dict[str, Any]]) -> Response:
        """Two to a page, so that the cursor is needed."""
        start = int(body.get("cursor") or 0)
        told = [one for one in found if one["channel"] == body["channel"]]
        shown = [
            {
                key: value
                for key, value in one.items()
                if key != "metadata" or body.get("include_all_metadata") == "true"
            }
            for one in told[start : start + 2]
        ]
        cursor = str(start + 2) if len(told) > start + 2 else ""
        return JSONResponse({"ok": True, "messages": shown, "response_metadata": {"next_cursor": cursor}})
