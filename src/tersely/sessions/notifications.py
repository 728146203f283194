"""Tell people about sessions: Slack and e-mail, when one starts and when it ends.

A message is stored before it is sent, claimed for one try at a time, and its outcome
stored after it. If a process dies in between, nobody knows whether the message was
sent: a message to Slack is looked for in its channel by its metadata; if it is not
there, and for e-mail, it is not sent again. A message that failed for good, or whose
outcome is unknown, is a notice in the timeline. Refusals are not repeated; what may
pass is, for about an hour.
"""

import logging
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

import anyio
import httpx2

from tersely.cpu.run import run_in_thread
from tersely.errors import StoreUnavailable
from tersely.events import log
from tersely.events.bus import Bus
from tersely.masking.mask import Masker
from tersely.masking.masked import own_words
from tersely.pipeline.admit import admit_words
from tersely.sessions.announcements import Announcement
from tersely.sessions.notification_options import EmailOptions, NotificationKind, SlackOptions
from tersely.sessions.slack import MaybeSent, NeverSent, NotificationError, NotSentYet, Posted, SlackApi
from tersely.sessions.smtp import send_email
from tersely.store import history
from tersely.store import notifications as rows
from tersely.store.database import Database
from tersely.store.notifications import ClaimedNotification
from tersely.store.retrying import retry_while_unavailable
from tersely.store.sessions import Session

logger = logging.getLogger(__name__)

POLL_SECONDS = 1.0
MOST_TRIES = 12
"""Over about an hour."""

EMAIL = "email"
SLACK = "slack:"
FAILED = own_words("A message about this session could not be sent.")
UNKNOWN = own_words(
    "The process ended while it sent a message about this session. The message was not found and is not sent again."
)
UNKNOWN_ANSWER = own_words("It is not known whether a message about this session was sent. It is not sent again.")


@dataclass(frozen=True, kw_only=True)
class Notifications:
    database: Database
    bus: Bus
    slack: SlackOptions
    email: EmailOptions
    chains: Collection[str]
    public_url: str = ""
    lease: timedelta = timedelta(seconds=120)
    """How long one try may take; longer than all of its timeouts together."""

    on_point: Callable[[str], None] = lambda point: None
    """Called with the name of each crash point as it is passed; a test ends the process there."""

    def targets(self, chain: str, kind: NotificationKind) -> list[str]:
        """Where messages about a chain's sessions go."""
        found = []
        if kind in self.slack.notify and (channel := self.slack.channel_of(chain)):
            found.append(f"{SLACK}{channel}")
        if kind in self.email.notify and self.email.recipients_of(chain):
            found.append(EMAIL)
        return found

    @property
    def is_used(self) -> bool:
        return any(self.targets(chain, kind) for chain in self.chains for kind in ("start", "end"))

    async def run(self) -> None:
        """Run until cancelled."""
        async with httpx2.AsyncClient(follow_redirects=False) as http:
            while True:
                try:
                    await self.send_due(http)
                except StoreUnavailable as problem:
                    logger.warning("store_unavailable", extra={"reason": str(problem)})
                await anyio.sleep(POLL_SECONDS)

    async def send_due(self, http: httpx2.AsyncClient) -> None:
        now = self.database.clock.now()
        kinds: tuple[NotificationKind, ...] = ("start", "end")
        for kind in kinds:
            chains = [chain for chain in self.chains if self.targets(chain, kind)]
            if not chains:
                continue
            async with self.database.reading() as db:
                new = await rows.unreported(db, kind, chains, now=now)
            if new:
                async with self.database.transaction() as db:
                    for session in new:
                        await rows.add_notifications(db, session, kind, self.targets(session.chain, kind), now=now)
        # One after the other, so that two messages with one fingerprint share a thread.
        while claimed := await self._claim():
            await self._deliver(http, claimed)

    async def _claim(self) -> ClaimedNotification | None:
        async with self.database.transaction() as db:
            return await rows.claim_due(db, now=self.database.clock.now(), lease=self.lease)

    async def _deliver(self, http: httpx2.AsyncClient, claimed: ClaimedNotification) -> None:
        one = claimed.notification
        masker = Masker(key=claimed.session.mark_key)
        extra = {"session_id": one.session_id, "target": one.target.partition(":")[0], "try": one.tries}
        try:
            posted = await self._found(http, claimed) if claimed.interrupted else await self._sent(http, claimed)
        except NotificationError as problem:
            why = admit_words(str(problem), masker)
            given_up = not isinstance(problem, NotSentYet) or one.tries >= MOST_TRIES
            logger.warning("notification_failed", extra={**extra, "why": why, "given_up": given_up})
            if isinstance(problem, NotSentYet) and not given_up:
                pause = problem.retry_after or min(600.0, 2.0**one.tries)
                due = self.database.clock.now() + timedelta(seconds=pause)
                await self._store(lambda: self._retry(claimed, why, due))
                return
            is_unclear = claimed.interrupted or isinstance(problem, MaybeSent)
            await self._give_up(claimed, "unknown" if is_unclear else "failed", why)
        else:
            self.on_point("after notification, before it is stored")
            await self._store(lambda: self._sent_row(one.id, posted))

    async def _sent(self, http: httpx2.AsyncClient, claimed: ClaimedNotification) -> Posted:
        one, session = claimed.notification, claimed.session
        now = self.database.clock.now()
        async with self.database.transaction() as db:
            seen = await history.seen_before(db, session)
            thread = await rows.thread_of(db, one, now=now)
            await rows.set_thread(db, one.id, thread)
        announcement = Announcement(kind=one.kind, session=session, link=self._link(session), seen=seen)
        self.on_point("before notification")
        if one.target.startswith(SLACK):
            channel = one.target.removeprefix(SLACK)
            try:
                return await self._api(http).post(
                    channel, announcement.chat_text(), announcement.blocks(), notification_id=one.id, thread_id=thread
                )
            except MaybeSent as problem:
                try:
                    found = await self._search(http, claimed, thread)
                except NotificationError as unanswered:
                    raise MaybeSent(f"{problem}; it could not be looked for: {unanswered}") from None
                if found is None:
                    raise problem
                return found
        recipients = self.email.recipients_of(session.chain)
        if not recipients:
            raise NeverSent("no recipients are configured any more")
        message = announcement.email(sender=self.email.sender, to=recipients, notification_id=one.id, thread_id=thread)
        await run_in_thread(send_email, self.email, message, recipients)
        message_id = str(message["Message-ID"])
        return Posted(message_id=message_id, thread_id=thread or message_id)

    async def _found(self, http: httpx2.AsyncClient, claimed: ClaimedNotification) -> Posted:
        """The message that an earlier try may have sent.

        Raises:
            MaybeSent: It is not there, or cannot be looked for.
            NotSentYet: Slack does not answer at the moment.
        """
        if not claimed.notification.target.startswith(SLACK):
            raise MaybeSent("an e-mail cannot be looked for")
        found = await self._search(http, claimed, claimed.notification.thread_id)
        if found is None:
            raise MaybeSent("it is not in the channel")
        return found

    async def _search(self, http: httpx2.AsyncClient, claimed: ClaimedNotification, thread: str) -> Posted | None:
        one = claimed.notification
        since = (one.created_at - timedelta(minutes=5)).timestamp()
        return await self._api(http).find(
            one.target.removeprefix(SLACK), notification_id=one.id, thread_id=thread, since=since
        )

    def _api(self, http: httpx2.AsyncClient) -> SlackApi:
        token = self.slack.token.get_secret_value() if self.slack.token else ""
        return SlackApi(http, self.slack.api_url, token, self.slack.timeout)

    def _link(self, session: Session) -> str:
        return f"{self.public_url.rstrip('/')}/sessions/{session.id}" if self.public_url else ""

    # Outcomes

    async def _store(self, write: Callable[[], Awaitable[None]]) -> None:
        """Store an outcome although the database may be away for a moment: it is known only here."""
        await retry_while_unavailable(write)

    async def _retry(self, claimed: ClaimedNotification, reason: str, due_at: datetime) -> None:
        async with self.database.transaction() as db:
            await rows.store_retry(db, claimed.notification.id, reason, due_at=due_at, may_be_sent=claimed.interrupted)

    async def _sent_row(self, notification_id: str, posted: Posted) -> None:
        async with self.database.transaction() as db:
            await rows.store_sent(
                db,
                notification_id,
                message_id=posted.message_id,
                thread_id=posted.thread_id,
                now=self.database.clock.now(),
            )

    async def _give_up(self, claimed: ClaimedNotification, status: Literal["failed", "unknown"], reason: str) -> None:
        one = claimed.notification
        sentence = FAILED if status == "failed" else UNKNOWN if claimed.interrupted else UNKNOWN_ANSWER
        about = {"notification": one.id, "target": one.target, "kind": one.kind, "status": status, "reason": reason}

        async def write() -> None:
            async with self.database.transaction() as db:
                await rows.store_given_up(db, one.id, status, reason)
                logged = await log.add_notice(
                    db, one.session_id, f"notification/{one.id}", sentence, about, now=self.database.clock.now()
                )
            if logged:
                self.bus.publish(logged)

        await self._store(write)
