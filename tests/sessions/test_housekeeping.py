"""Webhooks at the end of sessions: sent, signed, and sent again only to those that did not answer."""

import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import anyio
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tersely.events.log import end_session
from tersely.sessions import housekeeping
from tersely.sessions.durable import Engine
from tersely.sessions.housekeeping import Housekeeping, Webhooks
from tersely.store.claims import SessionEnd
from tersely.store.database import Database
from tests.fakes.begun import begun
from tests.fakes.llm_server import serving


@dataclass
class Receiver:
    statuses: list[int]
    """What it answers with, one after the other; then 204."""

    url: str = ""
    heard: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["Receiver"]:
        async def hook(request: Request) -> Response:
            self.heard.append((dict(request.headers), await request.body()))
            return Response(status_code=self.statuses.pop(0) if self.statuses else 204)

        async with serving(Starlette(routes=[Route("/hook", hook, methods=["POST"])])) as address:
            self.url = f"{address}/hook"
            yield self


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    async with Database.open(f"sqlite:///{tmp_path / 'tersely.db'}") as database:
        yield database


@asynccontextmanager
async def keeping(database: Database, *urls: str) -> AsyncIterator[None]:
    hooks = Webhooks(urls=urls, secret=b"shh", timeout=5, public_url="https://here.example/")
    nobody = cast(Engine, None)  # it has no steps to forget: nothing is old
    keeper = Housekeeping(
        database=database,
        engine=nobody,
        keep_sessions=timedelta(days=9),
        keep_audit=timedelta(days=9),
        sweep_every=timedelta(days=1),
        webhooks=hooks,
    )
    async with anyio.create_task_group() as group:
        group.start_soon(keeper._deliver_forever)
        yield
        group.cancel_scope.cancel()


async def ended(database: Database) -> str:
    now = datetime.now(UTC)
    session_id = await begun(database, now=now, title="Disk full")
    async with database.transaction() as db:
        end = SessionEnd(status="completed", analysis="It was the log.", verdict={"cause": "The log filled the disk"})
        await end_session(db, session_id, 1, end, now=now)
    return session_id


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(300):
        while not condition():
            await anyio.sleep(0.01)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "DELIVERY_POLL_SECONDS", 0.02)
    monkeypatch.setattr(housekeeping, "_pause", lambda tries: timedelta(milliseconds=20))


async def test_a_webhook_gets_the_end_of_a_session_with_our_signature(database: Database) -> None:
    async with Receiver([]).listening() as receiver, keeping(database, receiver.url):
        session_id = await ended(database)
        await until(lambda: bool(receiver.heard))
    headers, body = receiver.heard[0]
    told = json.loads(body)
    assert (told["event"], told["session_id"], told["status"], told["analysis"]) == (
        "session.ended",
        session_id,
        "completed",
        "It was the log.",
    )
    assert told["text"].splitlines()[0] == "Disk full: The log filled the disk", "which chat programs show"
    assert told["verdict"] == {"cause": "The log filled the disk"}
    assert told["url"] == f"https://here.example/sessions/{session_id}" and told["title"] == "Disk full"
    signed = headers["x-tersely-timestamp"].encode() + b"." + body
    assert abs(int(headers["x-tersely-timestamp"]) - datetime.now(UTC).timestamp()) < 600
    assert headers["x-tersely-signature"] == "sha256=" + hmac.new(b"shh", signed, hashlib.sha256).hexdigest()
    assert headers["x-tersely-delivery"] == session_id


async def test_only_a_webhook_that_did_not_answer_is_called_again(database: Database) -> None:
    async with (
        Receiver([]).listening() as well,
        Receiver([500, 503]).listening() as ill,
        keeping(database, well.url, ill.url),
    ):
        await ended(database)
        await until(lambda: len(ill.heard) == 3)
        second = await ended(database)
        await until(lambda: any(second in str(body) for _, body in ill.heard))
        await until(lambda: len(well.heard) == 2)
    assert len(well.heard) == 2, "one for each session"
    assert len(ill.heard) == 4, "and three for the first, until it was taken"


async def test_a_refusal_of_a_webhook_is_final(database: Database) -> None:
    async with Receiver([400, 503, 204]).listening() as strict, keeping(database, strict.url):
        await ended(database)
        await until(lambda: len(strict.heard) >= 1)
        passing = await ended(database)
        await until(lambda: len(strict.heard) >= 3)
    assert [passing in str(body) for _, body in strict.heard] == [False, True, True], "a 503 is not"
