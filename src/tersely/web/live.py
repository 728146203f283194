"""Live: one WebSocket per viewer, over which it follows as many channels as it likes, within reason.

A viewer says `{"action": "subscribe" | "unsubscribe" | "catchup" | "ping", "channel", "last_seq"?}`. Stored
events come as the very text that was stored; first those after `last_seq`, in
pages, then the new ones, without a gap and without a double in between. That is
the bus's promise; this module only carries.

A viewer who does not read is waited for: the bus forgets what is transient and
reads the rest again from the store, so nobody else notices. One who does not read
for too long is dropped.
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
from tersely.web.auth import asking
from tersely.web.bodies import read_json
from tersely.web.dependencies import WebDependencies
from tersely.web.paging import LARGEST, known_id
from tersely.web.problems import Problem, Refusal, refusal

logger = logging.getLogger(__name__)

MOST_SUBSCRIPTIONS = 100
"""Of one viewer."""

MOST_CONNECTIONS = 2_000
"""Of one process."""

LARGEST_MESSAGE = MAX_WEBSOCKET_MESSAGE_BYTES // 4
"""Characters in a viewer's message; a character has at most four bytes."""

MOST_MISTAKES = 20
SLOW_SECONDS = 20.0
"""For how long one message may wait for a viewer who does not read."""

TOO_SLOW = 1013
MISBEHAVED = 1008
TOO_BIG = 1009
LOGGED_OUT = 4401
"""Nothing else in the protocol says that one has to log in again; of 4000 and more each application makes its own."""


class Live:
    """All viewers of this process."""

    def __init__(self, parts: WebDependencies, *, slow_seconds: float = SLOW_SECONDS) -> None:
        self.parts = parts
        self.slow_seconds = slow_seconds
        self.connections = 0
        self.subscriptions = 0
        self.sent = 0
        self.dropped = 0

    async def follow(self, websocket: WebSocket) -> None:
        """One viewer, from the first to the last word."""
        try:
            principal = asking(websocket)
            if not principal.may("read"):
                raise Refusal(
                    403,
                    f"This needs the scope read; {principal.name} has {', '.join(sorted(principal.rights)) or 'none'}.",
                )
            if self.connections >= MOST_CONNECTIONS:
                raise Refusal(
                    503, "Too many viewers are connected. Try again in a moment.", headers={"Retry-After": "10"}
                )
        except Refusal as refused:
            answer = Problem(refused.status_code, refused.code, refused.detail, headers=refused.headers)
            await websocket.send_denial_response(answer)
            return
        await websocket.accept()
        self.connections += 1
        try:
            await _Viewer(self, websocket, until=principal.until).serve()
        finally:
            self.connections -= 1


class _Wrong(Exception):
    """A viewer said something that cannot be done."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class _Viewer:
    def __init__(self, live: Live, websocket: WebSocket, *, until: float | None) -> None:
        self.live = live
        self.websocket = websocket
        self.until = until
        self.following: dict[str, tuple[anyio.CancelScope, anyio.Event]] = {}
        self.mistakes = 0
        self._sending = anyio.Lock()
        self._tasks: anyio.abc.TaskGroup

    async def serve(self) -> None:
        try:
            async with anyio.create_task_group() as self._tasks:
                await self._say("connection.established", connection_id=secrets.token_hex(8), v=events.VERSION)
                if self.until is not None:
                    self._tasks.start_soon(self._leave_at, self.until)
                await self._listen()
                self._tasks.cancel_scope.cancel()
        except* (WebSocketDisconnect, _TooSlow):
            pass  # Viewers come and go.

    async def _leave_at(self, moment: float) -> None:
        """A login that has run out opens nothing; it keeps nothing open either."""
        await anyio.sleep(max(0.0, moment - time.time()))
        await self._close(LOGGED_OUT, "The login has run out. Log in again.")

    async def _listen(self) -> None:
        while True:
            message = await self.websocket.receive()
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text")
            if text is not None and len(text) > LARGEST_MESSAGE:
                await self._close(TOO_BIG, "What a viewer says is short.")
                return
            channel: Any = None
            try:
                asked = self._understood(text)
                channel = asked.get("channel")
                await self._do(asked)
            except _Wrong as wrong:
                self.mistakes += 1
                told = {"channel": channel} if isinstance(channel, str) else {}
                await self._say("subscription.error", **told, code=wrong.code, message=str(wrong))
            if self.mistakes >= MOST_MISTAKES:
                await self._close(MISBEHAVED, "Too many mistakes.")
                return

    def _understood(self, text: str | None) -> dict[str, Any]:
        if text is None:
            raise _Wrong("not_json", "Say it in JSON, as text.")
        try:
            asked = read_json(text.encode())
        except Refusal as refused:
            raise _Wrong("not_json", refused.detail.replace("The body", "The message")) from None
        if not isinstance(asked, dict):
            raise _Wrong("invalid", "Say it as an object: {action, channel, last_seq}.")
        if unknown := sorted(set(asked) - {"action", "channel", "last_seq"}):
            raise _Wrong("invalid", f"There is no field {unknown[0][:80]!r}; there are action, channel and last_seq.")
        return asked

    async def _do(self, asked: dict[str, Any]) -> None:
        action, channel, last_seq = asked.get("action"), asked.get("channel"), asked.get("last_seq")
        if action == "ping":
            await self._say("pong")
            return
        if action not in ("subscribe", "unsubscribe", "catchup"):
            raise _Wrong("invalid", "action must be subscribe, unsubscribe, catchup or ping.")
        if last_seq is not None and (type(last_seq) is not int or not 0 <= last_seq <= LARGEST):
            raise _Wrong("invalid", "last_seq must be the seq of the last event seen, or 0.")
        channel = _channel(channel)
        if action == "unsubscribe":
            await self._stop(channel)
            await self._say("subscription.confirmed", channel=channel, subscribed=False)
            return
        if action == "catchup" and last_seq is None:
            raise _Wrong("invalid", "catchup needs last_seq: the seq of the last event seen, or 0.")
        head = await self._head(channel)
        if channel in self.following:
            if last_seq is None:
                await self._say("subscription.confirmed", channel=channel, subscribed=True, current_seq=head)
                return
            await self._stop(channel)
        if len(self.following) >= MOST_SUBSCRIPTIONS:
            raise _Wrong(
                "too_many", f"One viewer follows at most {MOST_SUBSCRIPTIONS} channels. Unsubscribe from one first."
            )
        # A session is told from its beginning; of all sessions, only what happens from now on.
        after = (head if channel == events.SESSIONS else 0) if last_seq is None else min(last_seq, head)
        await self._say("subscription.confirmed", channel=channel, subscribed=True, last_seq=after, current_seq=head)
        scope, done = anyio.CancelScope(), anyio.Event()
        self.following[channel] = scope, done
        self._tasks.start_soon(self._carry, channel, after, scope, done)

    async def _head(self, channel: str) -> int:
        try:
            async with self.live.parts.database.reading(light=True) as db:
                if channel == events.SESSIONS:
                    return await events.feed_head(db)
                session_id = channel.removeprefix("session:")
                heads = await events.heads(db, [session_id])
        except StoreUnavailable:
            raise _Wrong("store_unavailable", "The database does not answer. Try again in a moment.") from None
        if session_id not in heads:
            raise _Wrong("session_not_found", str(SessionNotFound(session_id)))
        return heads[session_id]

    async def _carry(self, channel: str, after: int, scope: anyio.CancelScope, done: anyio.Event) -> None:
        self.live.subscriptions += 1
        try:
            with scope:
                async with self.live.parts.bus.subscribe(channel, after) as subscription:
                    async for payload in subscription:
                        await self._send(payload)
        except (StoreUnavailable, SessionNotFound) as problem:
            # The viewer asks again with the last number it has; in the meantime nothing is lost.
            self.following.pop(channel, None)
            refused = refusal(problem)
            await self._say("subscription.error", channel=channel, code=refused.code, message=refused.detail)
        finally:
            self.live.subscriptions -= 1
            done.set()

    async def _stop(self, channel: str) -> None:
        if channel in self.following:
            scope, done = self.following.pop(channel)
            scope.cancel()
            await done.wait()

    async def _say(self, kind: str, **values: Any) -> None:
        await self._send(json.dumps({"type": kind, **values}))

    async def _send(self, text: str) -> None:
        async with self._sending:
            with anyio.move_on_after(self.live.slow_seconds) as patience:
                await self.websocket.send_text(text)
        if patience.cancelled_caught:
            self.live.dropped += 1
            logger.info("viewer_dropped", extra={"reason": "too slow"})
            raise _TooSlow
        self.live.sent += 1

    async def _close(self, code: int, reason: str) -> None:
        if self.websocket.application_state is WebSocketState.CONNECTED:
            await self.websocket.close(code, reason)


class _TooSlow(Exception):
    """A viewer did not read for too long."""


def _channel(channel: Any) -> str:
    if channel == events.SESSIONS:
        return events.SESSIONS
    if isinstance(channel, str) and channel.startswith("session:"):
        session_id = known_id(channel.removeprefix("session:"))
        if session_id is None:
            raise _Wrong("session_not_found", str(SessionNotFound(channel.removeprefix("session:"))))
        return events.channel_of(session_id)
    raise _Wrong("unknown_channel", "channel must be sessions or session:ID.")


def routes(live: Live) -> APIRouter:
    router = APIRouter()
    router.add_api_websocket_route("/ws", live.follow)
    return router
