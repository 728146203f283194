"""Accepts follow-up questions about ended sessions.

A question is stored as a session of the kind `chat` with a `parent_id`, so that it is
queued, claimed, fenced, cancelled and recovered like every other session. It is not
listed, counted or reported as one. Its status is also an event in the log of the
session it is about (`chat.status`).

One question about a session is answered at a time, because each may build on the
answers before it; the others wait in the order in which they were asked. How it is
answered is `sessions.chat`.
"""

from dataclasses import dataclass

from tersely.errors import ChatRefused, ConfigError, InputError, MaskingFailed, SessionNotEnded
from tersely.events import log
from tersely.events.bus import Bus
from tersely.masking.masked import Masked
from tersely.pipeline.admit import admit_text
from tersely.sessions import overrides
from tersely.sessions.chat_options import ChatOptions
from tersely.sessions.intake import LONGEST_TITLE, AlertIntake
from tersely.store import claims
from tersely.store import sessions as rows
from tersely.store.database import Database
from tersely.store.sessions import NewSession, Session
from tersely.store.statuses import Status

KIND = "chat"
LONGEST_QUESTION = 8_000
"""Characters."""


@dataclass(frozen=True, kw_only=True)
class AcceptedQuestion:
    session_id: str
    """The session that it is about."""

    chat_id: str
    """Of the question itself: its events are on the channel `session:CHAT_ID`."""

    number: int
    message: str
    status: Status = "pending"


@dataclass(frozen=True, kw_only=True)
class ChatIntake:
    intake: AlertIntake
    database: Database
    bus: Bus
    options: ChatOptions

    async def ask(self, session_id: str, question: str, *, principal: str) -> AcceptedQuestion:
        """Store a question about an ended session and queue it.

        Raises:
            InputError: The question is empty or too long.
            SessionNotFound: There is no such session.
            SessionNotEnded: It is still running.
            ChatRefused: No question can be asked about it now.
            StoreUnavailable: It was not accepted; send it again.
        """
        if not question.strip():
            raise InputError("The question is empty.")
        if len(question) > LONGEST_QUESTION:
            raise InputError(
                f"The question has {len(question):,} characters; at most {LONGEST_QUESTION:,} are allowed."
            )
        async with self.database.reading() as db:
            parent = await rows.find(db, session_id)
        self._check(parent)
        asked = self._masked(question, parent)
        async with self.database.transaction() as db:
            # The lock lets one question after the other pass.
            await claims.lock(db, parent.id)
            earlier = await rows.questions_of(db, [parent.id])
            self._check_earlier(earlier)
            number = len(earlier) + 1
            waits_for = next((one.number for one in reversed(earlier) if not one.has_ended), None)
            new = NewSession(
                id=rows.derived_id(parent.id, f"chat/{number}"),
                scope=principal,
                kind=KIND,
                alert_type=parent.alert_type,
                chain=parent.chain,
                title=asked.derive(" ".join(asked.split())).head(LONGEST_TITLE),
                alert=asked,
                override=parent.override,
                encoding=parent.encoding,
                mark_key=parent.mark_key,
                parent_id=parent.id,
                number=number,
            )
            _, logged = await log.create_session(db, new, now=self.database.clock.now())
        self.bus.publish(*logged)
        message = f"Question {number} about session {parent.id} is queued."
        if waits_for:
            # It is queued when that one ends.
            message = f"Question {number} about session {parent.id} is answered after question {waits_for}."
        else:
            self.intake.queue(new.id)
        return AcceptedQuestion(session_id=parent.id, chat_id=new.id, number=number, message=message, status="pending")

    async def questions(self, session_id: str) -> list[Session]:
        """The questions about a session, in order.

        Raises:
            SessionNotFound: There is no such session.
        """
        async with self.database.reading() as db:
            await rows.find(db, session_id)
            return await rows.questions_of(db, [session_id])

    async def cancel(self, session_id: str, number: int, *, by: str) -> str:
        """Cancel a question; returns its status.

        Raises:
            SessionNotFound: There is no such session.
            InputError: It has no such question.
            SessionEnded: It was answered, or has ended otherwise.
        """
        return await self.intake.cancel((await self.question(session_id, number)).id, by=by)

    async def question(self, session_id: str, number: int) -> Session:
        """
        Raises:
            SessionNotFound: There is no such session.
            InputError: It has no such question.
        """
        found = await self.questions(session_id)
        if not 1 <= number <= len(found):
            raise InputError(f"Session {session_id} has no question {number}; it has {len(found)}.")
        return found[number - 1]

    def _check(self, parent: Session) -> None:
        if parent.parent_id:
            raise ChatRefused(
                f"{parent.id} is itself a question. Ask about its session, {parent.parent_id}.", code="chat_on_question"
            )
        if not parent.has_ended:
            raise SessionNotEnded(parent.id, parent.status)
        plan = self.intake.plan
        try:
            plan.parts(parent.chain, overrides.of_session(parent.override, self.intake.servers))
        except (ConfigError, InputError) as problem:
            raise ChatRefused(f"Its agent cannot be asked any more: {problem}", code="chat_unavailable") from None

    def _check_earlier(self, earlier: list[Session]) -> None:
        if self.options.max_questions <= len(earlier):
            reason = (
                f"{len(earlier)} questions were asked about this session, and no more are allowed (chat.max_questions)."
                if earlier
                else "Follow-up questions are switched off (chat.max_questions is 0)."
            )
            raise ChatRefused(reason, code="chat_limit")

    def _masked(self, question: str, parent: Session) -> Masked:
        options = self.intake.plan.defaults.alert_masking
        try:
            return admit_text(question.strip(), options.masker(parent.mark_key) if options.enabled else None)
        except MaskingFailed:
            raise InputError("The question could not be checked for secrets, so it was not accepted.") from None
