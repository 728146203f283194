"""What people do with a session: assign, acknowledge, close, reopen, and rate its verdict.

Notes are masked like alerts. Every change is published on the channel of all sessions.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

from tersely.errors import InputError, MaskingFailed, SessionNotEnded
from tersely.events.bus import Bus
from tersely.events.types import SessionTriaged, stored_row
from tersely.masking.masked import Masked
from tersely.masking.options import MaskingOptions
from tersely.pipeline.admit import admit_text
from tersely.store import events, triage
from tersely.store import sessions as rows
from tersely.store.database import Connection, Database
from tersely.store.triage import Rating, Triage

LONGEST_NOTE = 2_000


@dataclass(frozen=True, kw_only=True)
class SessionTriage:
    database: Database
    bus: Bus
    masking: MaskingOptions

    async def rate(self, session_id: str, rating: Rating | None, note: str, *, by: str) -> Triage:
        """Rate the verdict of an ended session; None withdraws the rating.

        Raises:
            SessionNotFound: It does not exist.
            SessionNotEnded: It is still running.
            InputError: The note is too long, or could not be checked for secrets.
        """
        return await self._change(
            session_id,
            note,
            lambda db, masked, now: triage.rate(db, session_id, rating, masked, by=by, now=now),
            needs_end=True,
        )

    async def assign(self, session_id: str, assignee: str | None) -> Triage:
        return await self._change(session_id, "", lambda db, _, now: triage.assign(db, session_id, assignee))

    async def acknowledge(self, session_id: str, *, by: str) -> Triage:
        return await self._change(session_id, "", lambda db, _, now: triage.acknowledge(db, session_id, by=by, now=now))

    async def close(self, session_id: str, note: str, *, by: str) -> Triage:
        """Raises: As for `rate`."""
        return await self._change(
            session_id,
            note,
            lambda db, masked, now: triage.close(db, session_id, masked, by=by, now=now),
            needs_end=True,
        )

    async def reopen(self, session_id: str) -> Triage:
        return await self._change(session_id, "", lambda db, _, now: triage.reopen(db, session_id))

    async def _change(
        self,
        session_id: str,
        note: str,
        change: Callable[[Connection, Masked, datetime], Awaitable[None]],
        *,
        needs_end: bool = False,
    ) -> Triage:
        if len(note) > LONGEST_NOTE:
            raise InputError(f"note has {len(note):,} characters; at most {LONGEST_NOTE:,} are allowed.")
        async with self.database.reading() as db:
            session = await rows.find(db, session_id)
        try:
            masked = admit_text(note, self.masking.masker(session.mark_key) if self.masking.enabled else None)
        except MaskingFailed:
            raise InputError("The note could not be checked for secrets, so it was not stored.") from None
        now = self.database.clock.now()
        async with self.database.transaction() as db:
            session = await rows.find(db, session_id)
            if needs_end and not session.has_ended:
                raise SessionNotEnded(session_id, session.status)
            before = await triage.find_triage(db, session_id)
            await change(db, masked, now)
            after = await triage.find_triage(db, session_id)
            if after == before:
                return after
            event = SessionTriaged(state=after.state, assignee=after.assignee or "", rating=after.rating or "")
            logged = await events.feed_append(db, session_id, stored_row("triage", event), now=now)
        self.bus.publish(logged)
        return after
