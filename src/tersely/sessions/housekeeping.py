"""Background tasks: delete expired sessions, and deliver webhooks for sessions that ended."""

import hashlib
import hmac
import json
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

import anyio
import httpx2

from tersely.errors import SessionNotEnded, SessionNotFound, StoreUnavailable
from tersely.sessions.announcements import Announcement
from tersely.sessions.durable import Engine
from tersely.store import audit, deliveries, events, idempotency, sessions
from tersely.store.database import Database
from tersely.store.sessions import Session

logger = logging.getLogger(__name__)

AT_ONCE = 50
"""Sessions deleted per transaction, so that other writers do not wait long."""

DELIVERY_POLL_SECONDS = 1.0
TRIES = 24
"""Attempts per webhook, over about an hour and a half."""


@dataclass(frozen=True, kw_only=True)
class Webhooks:
    urls: Sequence[str]
    secret: bytes | None
    timeout: float
    public_url: str = ""


@dataclass(frozen=True, kw_only=True)
class Housekeeping:
    database: Database
    engine: Engine
    keep_sessions: timedelta
    keep_audit: timedelta
    sweep_every: timedelta
    webhooks: Webhooks
    _delivered: dict[str, set[str]] = field(default_factory=dict)
    """Per session the URLs that accepted its webhook while others failed: this process does not repeat those."""

    async def run(self) -> None:
        """Run until cancelled."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._sweep_forever)
            if self.webhooks.urls:
                group.start_soon(self._deliver_forever)

    async def sweep(self) -> int:
        """Delete expired sessions with their results and steps; returns how many."""
        now = self.database.clock.now()
        deleted = 0
        while True:
            async with self.database.reading() as db:
                old = await sessions.expired(db, days=self.keep_sessions / timedelta(days=1), now=now, limit=AT_ONCE)
                questions = [one.id for one in await sessions.questions_of(db, old)]
            # Steps first: after a crash in between, the sessions are found again; steps without a session would not be.
            await self.engine.delete([*old, *questions])
            async with self.database.transaction(heavy=True) as db:
                for session_id in old:
                    # Another process deleted it, or a question about it was asked just now.
                    with suppress(SessionNotFound, SessionNotEnded):
                        await sessions.delete(db, session_id)
            deleted += len(old)
            if len(old) < AT_ONCE:
                break
        async with self.database.transaction(heavy=True) as db:
            await events.trim_feed(db, before=now - self.keep_sessions)
            await idempotency.delete_before(db, now - timedelta(days=1))
            await audit.delete_before(db, now - self.keep_audit)
        return deleted

    async def _sweep_forever(self) -> None:
        while True:
            try:
                if deleted := await self.sweep():
                    logger.info("swept", extra={"sessions": deleted})
            except StoreUnavailable as problem:
                logger.warning("store_unavailable", extra={"reason": str(problem)})
            await anyio.sleep(self.sweep_every.total_seconds())

    # Webhooks

    async def _deliver_forever(self) -> None:
        async with httpx2.AsyncClient(timeout=self.webhooks.timeout, follow_redirects=False) as http:
            while True:
                try:
                    await self._deliver_due(http)
                except StoreUnavailable as problem:
                    logger.warning("store_unavailable", extra={"reason": str(problem)})
                await anyio.sleep(DELIVERY_POLL_SECONDS)

    async def _deliver_due(self, http: httpx2.AsyncClient) -> None:
        now = self.database.clock.now()
        async with self.database.transaction() as db:
            due = await deliveries.due(db, now=now, retry_after=_pause)
        async with anyio.create_task_group() as group:
            for session, tries in due:
                group.start_soon(self._deliver, http, session, tries)

    async def _deliver(self, http: httpx2.AsyncClient, session: Session, tries: int) -> None:
        body = json.dumps(self._message(session), ensure_ascii=False).encode()
        headers = {"Content-Type": "application/json", "X-Tersely-Delivery": session.id}
        if self.webhooks.secret:
            # The time is signed too, so that a receiver can refuse a request that somebody recorded and sends again.
            sent_at = str(int(time.time()))
            signed = sent_at.encode() + b"." + body
            headers["X-Tersely-Timestamp"] = sent_at
            headers["X-Tersely-Signature"] = (
                "sha256=" + hmac.new(self.webhooks.secret, signed, hashlib.sha256).hexdigest()
            )
        problems: list[str] = []
        refused: list[str] = []
        accepted = self._delivered.setdefault(session.id, set())
        for url in self.webhooks.urls:
            if url in accepted:
                continue
            try:
                answer = await http.post(url, content=body, headers=headers)
                if answer.status_code < 300:
                    accepted.add(url)
                elif _is_final(answer.status_code):
                    # The receiver refuses this message, and would refuse it again.
                    accepted.add(url)
                    refused.append(f"{answer.status_code}")
                else:
                    problems.append(f"{answer.status_code}")
            except (httpx2.HTTPError, httpx2.InvalidURL) as problem:
                problems.append(type(problem).__name__)
        over = not problems or tries >= TRIES
        if problems or refused:
            logger.warning(
                "webhook_failed",
                extra={"session_id": session.id, "try": tries, "why": problems + refused, "given_up": over},
            )
        if over:
            self._delivered.pop(session.id, None)
            async with self.database.transaction() as db:
                await deliveries.delivered(db, session.id)

    def _message(self, session: Session) -> dict[str, object]:
        assert session.ended_at is not None
        link = f"{self.webhooks.public_url.rstrip('/')}/sessions/{session.id}" if self.webhooks.public_url else None
        return {
            "event": "session.ended",
            "v": 1,
            # The only field that the incoming webhooks of chat programs read.
            "text": Announcement(kind="end", session=session, link=link or "").chat_text(),
            "session_id": session.id,
            "status": session.status,
            "reason": session.reason,
            "alert_type": session.alert_type,
            "fingerprint": session.fingerprint or "",
            "title": session.title,
            "analysis": session.analysis,
            "verdict": session.verdict,
            "created_at": events.stamp(session.created_at),
            "ended_at": events.stamp(session.ended_at),
            "url": link,
        }


def _is_final(status: int) -> bool:
    """Whether a response is a refusal that trying again does not change: a redirection, or the client's mistake."""
    return status < 500 and status not in (408, 425, 429)


def _pause(tries: int) -> timedelta:
    return timedelta(seconds=min(300, 2.0**tries))
