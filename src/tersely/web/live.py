"""Live updates: one WebSocket per viewer, which can follow many channels.

A viewer sends `{"action": "subscribe" | "unsubscribe" | "catchup" | "ping", "channel", "last_seq"?}`.
Stored events are sent byte for byte as stored: first those after `last_seq`, in
pages, then the new ones, each exactly once. The bus guarantees that; this module
only transports.

A slow viewer delays no other: the bus drops its transient events and reads stored
ones again from the database. A viewer that reads nothing for too long is dropped.
"""

import json
import logging
import secrets
import time
from typing import Any

import anyio
import anyio.abc
from fastapi import APIRouter, WebSocket
from starlette.websockets import WebSocketDisconnect, WebSocketState

from tersely.errors import SessionNotFound, StoreUnavailable
from tersely.http.listen import MAX_WEBSOCKET_MESSAGE_BYTES
from tersely.store import events
from tersely.web.access import authorize
from tersely.web.auth import current_principal
from tersely.web.bodies import read_json
from tersely.web.dependencies import WebDependencies
from tersely.web.paging import MAX_INTEGER, parse_session_id
from tersely.web.problems import ApiError, to_api_error

logger = logging.getLogger(__name__)

MAX_SUBSCRIPTIONS = 100
"""Per viewer."""

MAX_CONNECTIONS = 2_000
"""Per process."""

MAX_MESSAGE = MAX_WEBSOCKET_MESSAGE_BYTES // 4
"""Characters in a viewer's message; a character has at most four bytes."""

MAX_INVALID_MESSAGES = 20
SLOW_SECONDS = 20.0
"""How long sending one message may take before a viewer is dropped."""

POLICY_VIOLATION = 1008
MESSAGE_TOO_BIG = 1009
LOGIN_EXPIRED = 4401
"""The protocol has no code for an expired login; codes from 4000 are for applications."""


class Live:
    """The viewers of this process."""

    def __init__(self, deps: WebDependencies, *, slow_seconds: float = SLOW_SECONDS) -> None:
        self.deps = deps
        self.slow_seconds = slow_seconds
        self.connections = 0
        self.subscriptions = 0
        self.sent = 0
        self.dropped = 0

    async def follow(self, websocket: WebSocket) -> None:
        """Serve one viewer until it disconnects."""
        try:
            authorize(websocket)
            principal = current_principal(websocket)
            if self.connections >= MAX_CONNECTIONS:
                raise ApiError(
                    503, "Too many viewers are connected. Try again in a moment.", headers={"Retry-After": "10"}
                )
        except ApiError as refused:
            await websocket.send_denial_response(refused.response())
            return
        await websocket.accept()
        self.connections += 1
        try:
            await _Viewer(self, websocket, expires_at=principal.expires_at).serve()
        finally:
            self.connections -= 1


class _InvalidMessage(Exception):
    """A viewer's message cannot be processed."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class _Viewer:
    def __init__(self, live: Live, websocket: WebSocket, *, expires_at: float | None) -> None:
        self.live = live
        self.websocket = websocket
        self.expires_at = expires_at
        self.subscriptions: dict[str, tuple[anyio.CancelScope, anyio.Event]] = {}
        self.invalid_messages = 0
        self._sending = anyio.Lock()
        self._tasks: anyio.abc.TaskGroup

    async def serve(self) -> None:
        try:
            async with anyio.create_task_group() as self._tasks:
                await self._send_message("connection.established", connection_id=secrets.token_hex(8), v=events.VERSION)
                if self.expires_at is not None:
                    self._tasks.start_soon(self._close_at, self.expires_at)
                await self._receive()
                self._tasks.cancel_scope.cancel()
        except* (WebSocketDisconnect, _TooSlow):
            pass  # Viewers disconnect at any time.

    async def _close_at(self, expires_at: float) -> None:
        """Close the connection when the login expires."""
        await anyio.sleep(max(0.0, expires_at - time.time()))
        await self._close(LOGIN_EXPIRED, "The login has expired. Log in again.")

    async def _receive(self) -> None:
        while True:
            message = await self.websocket.receive()
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text")
            if text is not None and len(text) > MAX_MESSAGE:
                await self._close(MESSAGE_TOO_BIG, f"A message has at most {MAX_MESSAGE:,} characters.")
                return
            channel: Any = None
            try:
                request = self._parsed(text)
                channel = request.get("channel")
                await self._handle(request)
            except _InvalidMessage as invalid:
                self.invalid_messages += 1
                named = {"channel": channel} if isinstance(channel, str) else {}
                await self._send_message("subscription.error", **named, code=invalid.code, message=str(invalid))
            if self.invalid_messages >= MAX_INVALID_MESSAGES:
                await self._close(POLICY_VIOLATION, "Too many invalid messages.")
                return

    def _parsed(self, text: str | None) -> dict[str, Any]:
        if text is None:
            raise _InvalidMessage("not_json", "Send JSON in a text message.")
        try:
            request = read_json(text.encode())
        except ApiError as refused:
            raise _InvalidMessage("not_json", refused.detail.replace("The body", "The message")) from None
        if not isinstance(request, dict):
            raise _InvalidMessage("invalid", "Send an object: {action, channel, last_seq}.")
        if unknown := sorted(set(request) - {"action", "channel", "last_seq"}):
            raise _InvalidMessage(
                "invalid", f"Unknown field {unknown[0][:80]!r}; allowed are action, channel and last_seq."
            )
        return request

    async def _handle(self, request: dict[str, Any]) -> None:
        action, channel, last_seq = request.get("action"), request.get("channel"), request.get("last_seq")
        if action == "ping":
            await self._send_message("pong")
            return
        if action not in ("subscribe", "unsubscribe", "catchup"):
            raise _InvalidMessage("invalid", "action must be subscribe, unsubscribe, catchup or ping.")
        if last_seq is not None and (type(last_seq) is not int or not 0 <= last_seq <= MAX_INTEGER):
            raise _InvalidMessage("invalid", "last_seq must be the seq of the last event seen, or 0.")
        channel = _parse_channel(channel)
        if action == "unsubscribe":
            await self._unsubscribe(channel)
            await self._send_message("subscription.confirmed", channel=channel, subscribed=False)
            return
        if action == "catchup" and last_seq is None:
            raise _InvalidMessage("invalid", "catchup needs last_seq: the seq of the last event seen, or 0.")
        head = await self._head(channel)
        if channel in self.subscriptions:
            if last_seq is None:
                await self._send_message("subscription.confirmed", channel=channel, subscribed=True, current_seq=head)
                return
            await self._unsubscribe(channel)
        if len(self.subscriptions) >= MAX_SUBSCRIPTIONS:
            raise _InvalidMessage(
                "too_many", f"A viewer can follow at most {MAX_SUBSCRIPTIONS} channels. Unsubscribe from one first."
            )
        # By default a session is sent from its beginning, the list of sessions from now on.
        after = (head if channel == events.SESSIONS else 0) if last_seq is None else min(last_seq, head)
        await self._send_message(
            "subscription.confirmed", channel=channel, subscribed=True, last_seq=after, current_seq=head
        )
        scope, done = anyio.CancelScope(), anyio.Event()
        self.subscriptions[channel] = scope, done
        self._tasks.start_soon(self._forward, channel, after, scope, done)

    async def _head(self, channel: str) -> int:
        try:
            async with self.live.deps.database.reading(light=True) as db:
                if channel == events.SESSIONS:
                    return await events.feed_head(db)
                session_id = channel.removeprefix("session:")
                heads = await events.heads(db, [session_id])
        except StoreUnavailable:
            raise _InvalidMessage("store_unavailable", "The database is unavailable. Try again in a moment.") from None
        if session_id not in heads:
            raise _InvalidMessage("session_not_found", str(SessionNotFound(session_id)))
        return heads[session_id]

    async def _forward(self, channel: str, after: int, scope: anyio.CancelScope, done: anyio.Event) -> None:
        self.live.subscriptions += 1
        try:
            with scope:
                async with self.live.deps.bus.subscribe(channel, after) as subscription:
                    async for payload in subscription:
                        await self._send(payload)
        except (StoreUnavailable, SessionNotFound) as problem:
            # Nothing is lost: the viewer subscribes again with its last seq.
            self.subscriptions.pop(channel, None)
            refused = to_api_error(problem)
            await self._send_message("subscription.error", channel=channel, code=refused.code, message=refused.detail)
        finally:
            self.live.subscriptions -= 1
            done.set()

    async def _unsubscribe(self, channel: str) -> None:
        if channel in self.subscriptions:
            scope, done = self.subscriptions.pop(channel)
            scope.cancel()
            await done.wait()

    async def _send_message(self, kind: str, **values: Any) -> None:
        await self._send(json.dumps({"type": kind, **values}))

    async def _send(self, text: str) -> None:
        async with self._sending:
            with anyio.move_on_after(self.live.slow_seconds) as timeout:
                await self.websocket.send_text(text)
        if timeout.cancelled_caught:
            self.live.dropped += 1
            logger.info("viewer_dropped", extra={"reason": "too slow"})
            raise _TooSlow
        self.live.sent += 1

    async def _close(self, code: int, reason: str) -> None:
        if self.websocket.application_state is WebSocketState.CONNECTED:
            await self.websocket.close(code, reason)


class _TooSlow(Exception):
    """A viewer read nothing for too long."""


def _parse_channel(channel: Any) -> str:
    if channel == events.SESSIONS:
        return events.SESSIONS
    if isinstance(channel, str) and channel.startswith("session:"):
        session_id = parse_session_id(channel.removeprefix("session:"))
        if session_id is None:
            raise _InvalidMessage("session_not_found", str(SessionNotFound(channel.removeprefix("session:"))))
        return events.channel_of(session_id)
    raise _InvalidMessage("unknown_channel", "channel must be sessions or session:ID.")


def live_routes(live: Live) -> APIRouter:
    router = APIRouter()
    router.add_api_websocket_route("/ws", live.follow)
    return router
