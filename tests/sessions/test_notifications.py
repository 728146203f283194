"""People are told about sessions once: in a thread per fingerprint, also when a process dies between sending and
storing; what cannot be sent is in the timeline.
"""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
import sqlalchemy as sa
from pydantic import SecretStr, ValidationError
from starlette.responses import Response

from tersely.errors import ConfigError
from tersely.events.bus import Bus
from tersely.events.log import end_session
from tersely.sessions.notification_options import EmailOptions, SlackOptions
from tersely.sessions.notifications import Notifications
from tersely.settings.model import Settings
from tersely.store import notifications as rows
from tersely.store import timeline
from tersely.store.claims import SessionEnd
from tersely.store.database import Database
from tests.fakes.begun import begun
from tests.fakes.slack_server import FakeSlack
from tests.fakes.smtp_server import FakeMailServer

VERDICT = {
    "cause": "The log filled <!channel> the disk",
    "summary": "The log filled the disk.\n.It grew since 08:00.",
    "confidence": "high",
    "service": "checkout",
    "since": "2026-11-16T08:00:00Z",
    "actions": [{"text": "Rotate it", "command": "logrotate -f & echo <done>"}],
}


class Killed(BaseException):
    """The process ends here: nothing after it runs."""


@pytest.fixture
async def slack() -> AsyncIterator[FakeSlack]:
    async with FakeSlack().listening() as slack:
        yield slack


def notifying(database: Database, slack: FakeSlack | None, email: EmailOptions | None = None) -> Notifications:
    options = SlackOptions()
    if slack:
        options = SlackOptions(
            token=SecretStr(slack.token), channel="C0000001", channels={"other": "C0000002", "quiet": ""}
        ).model_copy(update={"api_url": slack.url})
    return Notifications(
        database=database,
        bus=Bus(database),
        slack=options,
        email=email or EmailOptions(),
        chains=("kubernetes", "other", "quiet"),
        public_url="https://here.example",
        lease=timedelta(0),
    )


async def end(database: Database, session_id: str) -> None:
    async with database.transaction() as db:
        ending = SessionEnd(status="completed", analysis="x", verdict=VERDICT)
        await end_session(db, session_id, 1, ending, now=datetime.now(UTC))


async def begin(database: Database, **more: Any) -> str:
    return await begun(database, now=datetime.now(UTC), **{"title": "Disk full", "fingerprint": "f1", **more})


async def statuses(database: Database, session_id: str) -> list[tuple[str, str]]:
    async with database.reading() as db:
        return [(one.kind, one.status) for one in await rows.notifications_of(db, session_id)]


async def notices(database: Database, session_id: str) -> list[tuple[str, str]]:
    async with database.reading() as db:
        shown = await timeline.page(db, session_id)
    return [(one.content, one.metadata["reason"]) for one in shown if one.event_type == "notice"]


async def send(notifications: Notifications) -> None:
    async with httpx2.AsyncClient() as http:
        await notifications.send_due(http)


async def test_a_session_is_one_thread_and_alike_alerts_continue_it(database: Database, slack: FakeSlack) -> None:
    notifications = notifying(database, slack)
    first = await begin(database)
    await send(notifications)
    await end(database, first)
    await send(notifications)
    await send(notifications)
    start, ended = slack.messages
    assert "thread_ts" not in start and ended["thread_ts"] == start["ts"]
    assert start["text"].startswith("Investigating: Disk full")
    assert (
        ended["text"].startswith("Disk full: The log filled")
        and f"https://here.example/sessions/{first}" in ended["text"]
    )
    shown = str(ended["blocks"])
    assert "&lt;!channel&gt;" in shown and "<!channel>" not in shown and "logrotate -f &amp; echo" in shown
    assert ended["blocks"][-1]["elements"][0]["url"] == f"https://here.example/sessions/{first}"
    assert await statuses(database, first) == [("start", "sent"), ("end", "sent")]

    again = await begin(database)
    elsewhere = await begin(database, chain="other")
    quiet = await begin(database, chain="quiet")
    await end(database, again)
    await send(notifications)
    assert {(one["channel"], one.get("thread_ts")) for one in slack.messages[2:]} == {
        ("C0000002", None),
        ("C0000001", start["ts"]),
    }, "another channel has its own thread; a session that has ended is not said to start"
    (told,) = [one["text"] for one in slack.messages[2:] if one["channel"] == "C0000001"]
    assert "seen before: once, last cause: The log filled &lt;!channel&gt;" in told
    assert await statuses(database, quiet) == [] and await statuses(database, elsewhere) == [("start", "sent")]


@pytest.mark.parametrize("point", ["after notification, before it is stored", "before notification"])
async def test_after_a_kill_the_message_is_looked_for_and_never_sent_twice(
    database: Database, slack: FakeSlack, point: str
) -> None:
    def die(passed: str) -> None:
        if passed == point:
            raise Killed

    notifications = notifying(database, slack)
    first = await begin(database)
    await send(notifications)
    await end(database, first)
    with pytest.raises(Killed):
        await send(replace(notifications, on_point=die))
    assert (await statuses(database, first))[-1] == ("end", "sending")
    slack.trouble = lambda method, body: "ratelimited" if method.startswith("conv") and len(slack.asked) < 5 else None
    posted = len(slack.messages)
    for _ in range(5):
        async with database.transaction() as db:
            await db.execute(sa.text("UPDATE notifications SET due_at = created_at"))
        await send(notifications)
    assert len(slack.messages) == posted, "not sent again"
    if point.startswith("after"):
        assert (await statuses(database, first))[-1] == ("end", "sent")
        assert await notices(database, first) == []
    else:
        assert (await statuses(database, first))[-1] == ("end", "unknown")
        ((notice, reason),) = await notices(database, first)
        assert "not sent again" in notice and reason == "it is not in the channel"
    assert "conversations.replies" in slack.asked


async def test_an_answer_that_says_nothing_is_cleared_up_at_once(database: Database, slack: FakeSlack) -> None:
    slack.loses_answers = True
    session_id = await begin(database)
    await send(notifying(database, slack))
    assert await statuses(database, session_id) == [("start", "sent")] and len(slack.messages) == 1
    other = await begin(database)
    slack.trouble = lambda method, body: "fatal_error" if method == "chat.postMessage" else None
    await send(notifying(database, slack))
    assert await statuses(database, other) == [("start", "unknown")]
    assert len(await notices(database, other)) == 1


async def test_refusals_are_final_and_what_passes_is_tried_again(database: Database, slack: FakeSlack) -> None:
    notifications = notifying(database, slack)
    refused = await begin(database, fingerprint="a")
    answers: list[Any] = ["invalid_auth", Response(status_code=429, headers={"Retry-After": "7"})]
    slack.trouble = lambda method, body: answers.pop(0) if answers else None
    before = datetime.now(UTC)
    await send(notifications)
    limited = await begin(database, fingerprint="b")
    await send(notifications)
    assert await statuses(database, refused) == [("start", "failed")]
    assert await notices(database, refused) == [("A message about this session could not be sent.", "invalid_auth")]
    async with database.reading() as db:
        (waiting,) = await rows.notifications_of(db, limited)
    assert waiting.status == "pending" and waiting.due_at - before > timedelta(seconds=6)
    asked = len(slack.asked)
    await send(notifications)
    assert len(slack.asked) == asked, "not before it is due, and never what was refused"
    async with database.transaction() as db:
        await db.execute(sa.text("UPDATE notifications SET due_at = created_at"))
    await send(notifications)
    assert await statuses(database, limited) == [("start", "sent")]


async def test_email_is_sent_once_and_its_refusals_are_shown(database: Database) -> None:
    async with FakeMailServer(account=("t", "pw")).listening() as server:
        options = EmailOptions(
            host="127.0.0.1",
            port=server.port,
            security="none",
            username="t",
            password=SecretStr("pw"),
            sender="tersely@shop.test",
            to=("a@shop.test",),
            chains={"other": ("b@shop.test", "c@shop.test")},
        )
        notifications = notifying(database, None, options)
        first = await begin(database)
        await end(database, first)
        await send(notifications)
        ((recipients, message),) = server.received
        assert recipients == ["a@shop.test"] and message["Subject"].startswith("[tersely] Disk full: The log filled")
        assert "\n.It grew since 08:00." in message.get_content() and f"/sessions/{first}" in message.get_content()
        second = await begin(database, chain="other")
        await end(database, second)
        await send(notifications)
        assert server.received[-1][0] == ["b@shop.test", "c@shop.test"]
        assert server.received[-1][1]["In-Reply-To"] == message["Message-ID"]

        for answers, hangs_up, status in (
            ({"RCPT": "550 no such user"}, False, "failed"),
            ({"MAIL": "451 later"}, False, "pending"),
            ({".": "554 spam"}, False, "failed"),
            ({}, True, "unknown"),
        ):
            server.answers, server.hangs_up_after_content = answers, hangs_up
            session_id = await begin(database)
            await end(database, session_id)
            await send(notifications)
            assert await statuses(database, session_id) == [("end", status)], answers
            assert len(await notices(database, session_id)) == (status != "pending")
        assert len(server.received) == 2
        server.answers = {}
        wrong = replace(notifications, email=options.model_copy(update={"password": SecretStr("no")}))
        session_id = await begin(database)
        await end(database, session_id)
        await send(wrong)
        assert await statuses(database, session_id) == [("end", "failed")]


@pytest.mark.parametrize(
    ("options", "given", "message"),
    [
        (SlackOptions, {"channel": "C0000001"}, "needs a token"),
        (SlackOptions, {"token": "x"}, "needs a channel"),
        (SlackOptions, {"token": "x", "channel": "#ops"}, "not the ID of a channel"),
        (SlackOptions, {"token": "x", "channel": "C0000001", "notify": "start,finish"}, "'start' or 'end'"),
        (EmailOptions, {"to": ["a@b.test"]}, "needs host"),
        (EmailOptions, {"host": "h", "sender": "a@b.test", "to": ["nobody"]}, "not an e-mail address"),
        (EmailOptions, {"host": "h", "username": "me"}, "belong together"),
    ],
)
def test_options_that_cannot_work_are_refused(options: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        options(**given)


def test_a_channel_for_a_chain_that_does_not_exist_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "tersely.yaml"
    file.write_text(
        "slack:\n  token: x\n  channels:\n    kubernets: C0000001\n"
        "agents: {a: {}}\nchains: {kubernetes: {alert_types: [x], stages: [{name: s, agent: a}]}}\n"
    )
    with pytest.raises(ConfigError, match=r"tersely.yaml:4: .*no chain of this name; did you mean 'kubernetes'"):
        Settings.load({}, file=file)
