"""One table says who may use which route; cookies cannot be made up, guesses are slowed, and actions are on record."""

import hashlib
import hmac
import re
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import anyio
import httpx2
import pytest
import sqlalchemy as sa
from fastapi.routing import APIRoute, APIWebSocketRoute

from tersely.errors import StoreUnavailable
from tersely.http import limits, listen
from tersely.http.guesses import ALLOWED
from tersely.settings.model import Scope, Settings
from tersely.store import audit
from tersely.store.database import Database
from tersely.store.handles import new_handle
from tersely.store.keys import LOGIN_COOKIES, shared_key
from tersely.web.access import ROUTES
from tersely.web.app import build_web_app
from tersely.web.auth import COOKIE, COOKIE_SECONDS, AccessScope
from tests.web.running import ALERT, Running, endless, running, serving
from tests.web.test_auth import bearer, other_door, with_tokens


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('store') / 'tersely.db'}"


@pytest.fixture(scope="module")
async def service(url: str) -> AsyncIterator[Running]:
    async with running(url, settings=with_tokens(url), work=endless) as service:
        yield service


def endpoints(routes: Any) -> Iterator[str]:
    for route in routes:
        if isinstance(route, APIRoute | APIWebSocketRoute):
            yield route.endpoint.__name__
        else:
            # FastAPI keeps the routers that were included, each with its own routes.
            yield from endpoints(route.original_router.routes)


async def test_every_route_is_in_the_table_once_and_nothing_else_is(service: Running) -> None:
    names = list(endpoints(build_web_app(service.parts).routes))
    assert sorted(names) == sorted(ROUTES)
    assert get_args(AccessScope) == get_args(Scope)


async def test_a_route_that_is_not_in_the_table_is_for_nobody(service: Running, monkeypatch: Any) -> None:
    monkeypatch.delitem(ROUTES, "list_sessions")
    assert (await service.http.get("/api/v1/sessions", headers=bearer("boss"))).status_code == 403


async def test_a_cookie_cannot_be_made_from_the_configuration(service: Running, url: str) -> None:
    """As it could when the key was derived from the address of the database."""
    digest = hashlib.sha256(b"secret-of-boss").digest()
    for key in (b"", hashlib.sha256(b"tersely login cookie\0" + url.encode()).digest(), bytes(32)):
        until = str(int(time.time()) + 3_600)
        for signed in (
            b"\0".join((b"boss", digest, until.encode())),
            b"\0".join((b"boss", digest, b"admin", until.encode())),
        ):
            cookie = f"Ym9zcw.{until}.{hmac.new(key, signed, hashlib.sha256).hexdigest()}"
            answer = await service.http.get("/api/v1/sessions", headers={"Cookie": f"{COOKIE}={cookie}"})
            assert answer.status_code == 401


async def test_a_cookie_is_valid_for_twelve_hours_at_most(service: Running) -> None:
    digest = hashlib.sha256(b"secret-of-boss").digest()

    async def status(seconds: int) -> int:
        until = str(int(time.time()) + seconds)
        signed = b"\0".join((b"boss", digest, b"admin", until.encode()))
        signature = hmac.new(service.parts.login_key, signed, hashlib.sha256).hexdigest()
        headers = {"Cookie": f"{COOKIE}=Ym9zcw.{until}.{signature}"}
        return (await service.http.get("/api/v1/sessions", headers=headers)).status_code

    assert await status(COOKIE_SECONDS - 60) == 200
    assert await status(COOKIE_SECONDS + 3_600) == 401


@pytest.mark.parametrize("change", [{"scopes": ("read",)}, {"sha256": hashlib.sha256(b"another").hexdigest()}])
async def test_a_cookie_ends_with_its_token_and_the_scopes_of_it(
    service: Running, url: str, change: dict[str, Any]
) -> None:
    value = (await service.http.post("/login", json={"token": "secret-of-dev"})).cookies[COOKIE]
    service.http.cookies.clear()

    def changed(settings: Settings) -> Settings:
        tokens = [token.model_copy(update=change) if token.name == "dev" else token for token in settings.auth.tokens]
        return settings.model_copy(update={"auth": settings.auth.model_copy(update={"tokens": tokens})})

    async with other_door(service, changed(with_tokens(url))) as later:
        assert (await later.get("/api/v1/sessions", headers={"Cookie": f"{COOKIE}={value}"})).status_code == 401


async def test_processes_on_one_database_share_a_random_key(service: Running, url: str, tmp_path: Path) -> None:
    async def key(address: str) -> bytes:
        async with Database.open(address) as database, database.transaction() as db:
            return await shared_key(db, LOGIN_COOKIES)

    other = await key(f"sqlite:///{tmp_path / 'other.db'}")
    assert await key(url) == service.parts.login_key != other
    assert len(other) == 32


async def test_an_address_that_guesses_has_to_wait_but_logins_stay(service: Running, url: str, caplog: Any) -> None:
    value = (await service.http.post("/login", json={"token": "secret-of-dev"})).cookies[COOKIE]
    service.http.cookies.clear()
    async with other_door(service, with_tokens(url)) as http:
        for number in range(ALLOWED):
            if number % 2:
                answer = await http.get("/api/v1/sessions", headers={"Authorization": "Bearer attempt"})
            else:
                answer = await http.post("/login", json={"token": f"attempt {number}"})
            assert answer.status_code == 401
        refused = await http.get("/api/v1/sessions", headers=bearer("dev"))
        assert refused.status_code == 429 and 0 < int(refused.headers["Retry-After"]) <= 60
        assert (await http.post("/login", json={"token": "secret-of-dev"})).status_code == 429
        assert (await http.get("/api/v1/sessions", headers={"Cookie": f"{COOKIE}={value}"})).status_code == 200
        assert (await http.get("/health")).status_code == 200
    logged = [record for record in caplog.records if record.message == "wrong_token"]
    assert len(logged) == ALLOWED and logged[-1].lately == ALLOWED and logged[-1].address == "127.0.0.1"
    assert not any("attempt" in str(vars(record)) for record in logged), "the token itself is not logged"


async def test_who_did_what_is_on_record(service: Running) -> None:
    async with httpx2.AsyncClient(base_url=service.address, trust_env=False) as http:
        await http.post("/login", json={"token": "secret-of-dev"})
        await http.post("/logout", headers={"Origin": service.address})
        http.cookies.clear()
        before = (await http.get("/api/v1/audit-log", headers=bearer("boss"), params={"limit": 500})).json()["items"]
        session_id = (await http.post("/api/v1/alerts", json=ALERT, headers=bearer("ci"))).json()["session_id"]
        await http.get(f"/api/v1/sessions/{session_id}/export", headers=bearer("wall"))
        await http.get(f"/api/v1/sessions/{session_id}/results/r_none", headers=bearer("wall"))
        await http.post(f"/api/v1/sessions/{session_id}/cancel", headers=bearer("bot"))
        await http.delete(f"/api/v1/sessions/{session_id}", headers=bearer("boss"))
        await http.get("/api/v1/sessions", headers={"Authorization": "Bearer guess"})
        await http.get("/api/v1/sessions", headers=bearer("wall"))
        assert (await http.get("/api/v1/audit-log", headers=bearer("wall"))).status_code == 403
        page = (await http.get("/api/v1/audit-log", headers=bearer("boss"), params={"after": before[-1]["id"]})).json()[
            "items"
        ]
    assert [(one["action"], one["principal"], one["status"]) for one in before[-2:]] == [
        ("login", "token:dev", 200),
        ("logout", "token:dev", 204),
    ]
    assert [(one["action"], one["principal"], one["target"], one["status"]) for one in page] == [
        ("read_audit_log", "token:boss", "", 200),
        ("submit", "token:ci", session_id, 202),
        ("export", "token:wall", session_id, 200),
        ("read_result", "token:wall", f"{session_id}/r_none", 404),
        ("cancel", "token:bot", session_id, 403),
        ("delete", "token:boss", session_id, 409),
        ("wrong_token", "", "", 401),
        ("read_audit_log", "token:wall", "", 403),
    ]
    assert {one["address"] for one in page} == {"127.0.0.1"}


async def test_the_audit_log_cannot_be_changed_on_either_store(store_url: str) -> None:
    if not store_url.startswith("sqlite"):
        await Database.migrate(store_url)
    async with Database.open(store_url) as database:
        now = database.clock.now()
        entry = audit.AuditEntry(
            action="submit", principal="token:ci", method="token", address="10.0.0.1", target="x", status=202
        )
        await audit.record(database, entry)

        async def is_refused(statement: str, why: str) -> None:
            with pytest.raises((sa.exc.DBAPIError, StoreUnavailable), match=why):
                async with database.transaction() as db:
                    await db.execute(sa.text(statement))
            async with database.reading() as db:
                assert [one.entry for one in await audit.page(db)] == [entry]

        await is_refused("UPDATE audit_log SET principal = 'nobody'", "never changed")
        await is_refused("DELETE FROM audit_log", "deleted by age only")
        if not store_url.startswith("sqlite"):
            await is_refused("TRUNCATE audit_log", "deleted by age only")
        async with database.transaction() as db:
            assert await audit.delete_before(db, now) == 0
        await is_refused("DELETE FROM audit_log", "deleted by age only")
        async with database.transaction() as db:
            assert await audit.delete_before(db, now + timedelta(days=1)) == 1
        async with database.transaction() as db:
            assert await audit.delete_before(db, now - timedelta(days=400)) == 0
            kept_from = await db.scalar(sa.text("SELECT kept_from FROM audit_retention"))
        assert str(kept_from).startswith(str((now + timedelta(days=1)).date())), "it never goes back"


async def test_entries_that_come_together_are_each_stored_once_before_they_are_answered(tmp_path: Path) -> None:
    async with Database.open(f"sqlite:///{tmp_path / 'a.db'}") as database:
        write, stored_at_return = audit.AuditWriter(database), list[bool]()

        async def one(number: int) -> None:
            entry = audit.AuditEntry(
                action="submit", principal="p", method="token", address="", target=str(number), status=202
            )
            await write(entry)
            async with database.reading() as db:
                stored_at_return.append(any(row.entry == entry for row in await audit.page(db)))

        async with anyio.create_task_group() as group:
            for number in range(30):
                group.start_soon(one, number)
        async with database.reading() as db:
            targets = [row.entry.target for row in await audit.page(db)]
    assert stored_at_return == [True] * 30
    assert sorted(targets, key=int) == [str(number) for number in range(30)]


def test_nothing_but_age_deletes_entries_of_the_audit_log() -> None:
    source = Path(audit.__file__).parents[1]
    texts = {file.relative_to(source).as_posix(): file.read_text("utf-8") for file in source.rglob("*.py")}
    uses = re.compile(r"\b(?:update|delete|insert)\((?:tables\.)?audit_log\)[^\n]*|(?:UPDATE|DELETE FROM) audit_log")
    found = {name: uses.findall(text) for name, text in texts.items() if uses.search(text) and "migrations" not in name}
    assert found == {
        "store/audit.py": [
            "insert(audit_log), rows)",
            "delete(audit_log).where(audit_log.c.id.in_(old)))).rowcount",
        ]
    }


async def test_a_secret_in_an_address_is_masked_in_the_audit_log_and_ids_are_not(tmp_path: Path) -> None:
    targets = ["ghp_a8Kd93jf0sLq2mZx7Vb4Nn1Pc6Rt5Yu8Wq3E/r_none", f"{uuid.uuid4()}/{new_handle()}"]
    async with Database.open(f"sqlite:///{tmp_path / 'a.db'}") as database:
        for target in targets:
            entry = audit.AuditEntry(
                action="export", principal="token:ci", method="token", address="10.0.0.1", target=target, status=404
            )
            await audit.record(database, entry)
        async with database.reading() as db:
            stored = [one.entry.target for one in await audit.page(db)]
    assert stored[0].startswith("[MASKED:github_token:") and stored[1] == targets[1]


async def test_a_page_of_another_site_is_refused_but_its_links_work(service: Running, url: str) -> None:
    local = with_tokens(url).model_copy(update={"auth": with_tokens(url).auth.model_copy(update={"tokens": ()})})
    async with other_door(service, local) as http:
        cross = {"Sec-Fetch-Site": "cross-site"}
        refused = await http.post("/api/v1/alerts", json=ALERT, headers=cross)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "unknown_origin")
        assert (await http.get("/api/v1/sessions", headers=cross)).status_code == 403
        followed = await http.get("/", headers={**cross, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"})
        assert followed.status_code == 200
        assert (await http.get("/api/v1/sessions", headers={"Sec-Fetch-Site": "same-origin"})).status_code == 200


@pytest.mark.parametrize("before", [b"", b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"])
async def test_half_sent_headers_end_the_connection_also_those_of_a_second_request(
    service: Running, monkeypatch: Any, before: bytes
) -> None:
    if not before:
        monkeypatch.setattr(listen, "HEADER_SECONDS", 1)
    async with serving(build_web_app(replace(service.parts))) as (address, _):
        host, _, port = address.removeprefix("http://").partition(":")
        async with await anyio.connect_tcp(host, int(port)) as stream:
            with anyio.fail_after(60):
                if before:
                    await stream.send(before)
                    assert (await stream.receive()).startswith(b"HTTP/1.1 200")
                    # From here on: the first request has all the time it needs.
                    monkeypatch.setattr(listen, "HEADER_SECONDS", 0.3)
                await stream.send(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half")
                with pytest.raises(anyio.EndOfStream):
                    await stream.receive()


async def test_a_half_sent_body_is_answered_in_the_end(service: Running, monkeypatch: Any) -> None:
    monkeypatch.setattr(limits, "BODY_SECONDS", 0.2)
    async with serving(build_web_app(replace(service.parts))) as (address, _):
        host, _, port = address.removeprefix("http://").partition(":")
        async with await anyio.connect_tcp(host, int(port)) as stream:
            head = (
                f"POST /api/v1/alerts HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer secret-of-ci\r\n"
                "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
            )
            await stream.send(head.encode())
            with anyio.fail_after(60):
                answer = await stream.receive()
        assert answer.startswith(b"HTTP/1.1 408")
