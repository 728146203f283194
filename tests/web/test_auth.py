"""Who may come in, by which name they may call us, and which pages may ask."""

import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tersely.errors import ConfigError
from tersely.settings.model import ProxySettings, Settings, TokenSettings
from tersely.web.app import build_web_app
from tersely.web.auth import COOKIE, build_authenticator
from tests.web.running import ALERT, Running, endless, running, serving, settings_for

TOKENS = {"ci": ("submit",), "bot": ("submit",), "wall": ("read",), "boss": ("admin",), "dev": ("submit", "read")}


def bearer(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer secret-of-{name}"}


def with_tokens(url: str, **more: Any) -> Settings:
    tokens = [
        TokenSettings(name=name, sha256=hashlib.sha256(f"secret-of-{name}".encode()).hexdigest(), scopes=scopes)  # type: ignore[arg-type]
        for name, scopes in TOKENS.items()
    ]
    return settings_for(url, tokens=tokens, **more)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('store') / 'tersely.db'}"


@pytest.fixture(scope="module")
async def service(url: str) -> AsyncIterator[Running]:
    async with running(url, settings=with_tokens(url), work=endless) as service:
        yield service


@asynccontextmanager
async def other_door(service: Running, settings: Settings, **how: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """Another service on the same database."""
    async with (
        serving(build_web_app(replace(service.parts, settings=settings), **how)) as (address, _),
        httpx2.AsyncClient(base_url=address, trust_env=False) as http,
    ):
        yield http


async def test_without_a_token_only_health_probes_are_answered(service: Running) -> None:
    for path in (
        "/api/v1/sessions",
        "/api/v1/system/info",
        "/api/v1/alert-types",
        "/metrics",
        "/docs",
        "/openapi.json",
    ):
        answer = await service.http.get(path)
        assert answer.status_code == 401 and answer.headers["WWW-Authenticate"].startswith("Bearer")
        assert answer.json()["error"]["code"] == "unauthenticated"
    assert (await service.http.post("/api/v1/alerts", json=ALERT)).status_code == 401
    for path in ("/health", "/ready", "/", "/login"):
        assert (await service.http.get(path)).status_code == 200, path


@pytest.mark.parametrize(
    "header",
    [
        "Bearer wrong",
        "Bearer",
        "Basic c2VjcmV0",
        "secret-of-boss",
        "Bearer secret-of-boss\udcff",
        "Bearer " + "x" * 5_000,
    ],
)
async def test_a_wrong_token_is_refused(service: Running, header: str) -> None:
    answer = await service.http.get("/api/v1/sessions", headers={b"Authorization": header.encode("latin-1", "replace")})
    assert answer.status_code == 401


@pytest.mark.parametrize(
    ("who", "submits", "reads", "deletes"),
    [("ci", True, False, False), ("wall", False, True, False), ("boss", True, True, True), ("dev", True, True, False)],
)
async def test_each_scope_permits_its_own_requests(
    service: Running, who: str, submits: bool, reads: bool, deletes: bool
) -> None:
    headers = bearer(who)
    submitted = await service.http.post("/api/v1/alerts", json=ALERT, headers=headers)
    assert submitted.status_code == (202 if submits else 403)
    session_id = (await service.http.post("/api/v1/alerts", json=ALERT, headers=bearer("boss"))).json()["session_id"]
    for path in (
        "",
        f"/{session_id}",
        f"/{session_id}/status",
        f"/{session_id}/timeline",
        f"/{session_id}/trace",
        f"/{session_id}/export",
    ):
        assert (await service.http.get(f"/api/v1/sessions{path}", headers=headers)).status_code == (
            200 if reads else 403
        ), path
    assert (await service.http.get("/metrics", headers=headers)).status_code == (200 if reads else 403)
    assert (await service.http.get("/api/v1/alert-types", headers=headers)).status_code == 200
    assert (await service.http.delete(f"/api/v1/sessions/{session_id}", headers=headers)).status_code == (
        409 if deletes else 403
    )


async def test_a_submitter_may_cancel_only_its_own_sessions(service: Running) -> None:
    mine, theirs = [
        (await service.http.post("/api/v1/alerts", json=ALERT, headers=bearer(who))).json()["session_id"]
        for who in ("ci", "bot")
    ]
    assert (await service.http.post(f"/api/v1/sessions/{theirs}/cancel", headers=bearer("ci"))).status_code == 403
    assert (await service.http.post(f"/api/v1/sessions/{theirs}/cancel", headers=bearer("wall"))).status_code == 403
    for session_id, who in ((mine, "ci"), (theirs, "boss")):
        answer = await service.http.post(f"/api/v1/sessions/{session_id}/cancel", headers=bearer(who))
        assert answer.status_code == 200 and answer.json()["status"] in ("cancelling", "cancelled")
    session = (await service.http.get(f"/api/v1/sessions/{mine}", headers=bearer("boss"))).json()
    assert session["author"] == "token:ci"


async def test_a_browser_exchanges_its_token_for_a_cookie_that_every_replica_understands(
    service: Running, url: str
) -> None:
    origin = {"Origin": service.address}
    async with httpx2.AsyncClient(base_url=service.address, trust_env=False) as browser:
        page = await browser.get("/login")
        assert '<form method="post" action="/login">' in page.text
        wrong = await browser.post("/login", data={"token": "guess", "next": "/"}, headers=origin)
        assert wrong.status_code == 401 and "Unknown token" in wrong.text and COOKIE not in browser.cookies
        answer = await browser.post("/login", data={"token": "secret-of-dev", "next": "/sessions"}, headers=origin)
        assert (answer.status_code, answer.headers["Location"]) == (303, "/sessions")
        cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "secret-of-dev" not in cookie
        assert (await browser.get("/api/v1/sessions")).status_code == 200
        assert (await browser.get("/api/v1/system/info")).json()["principal"] == "token:dev"
        session = await browser.post("/api/v1/alerts", json=ALERT, headers=origin)
        assert session.status_code == 202
        value = browser.cookies[COOKIE]
        async with other_door(service, with_tokens(url)) as replica:
            assert (await replica.get("/api/v1/sessions", headers={"Cookie": f"{COOKIE}={value}"})).status_code == 200
        assert (await browser.post("/logout", headers=origin)).status_code == 204
        assert (await browser.get("/api/v1/sessions")).status_code == 401
    by_program = await service.http.post("/login", json={"token": "secret-of-dev"})
    assert by_program.json() == {"principal": "token:dev", "scopes": ["read", "submit"], "expires_in": 12 * 3600}
    service.http.cookies.clear()


async def test_a_cookie_is_worth_nothing_when_it_is_forged_or_its_token_is_gone(service: Running, url: str) -> None:
    value = (await service.http.post("/login", json={"token": "secret-of-dev"})).cookies[COOKIE]
    service.http.cookies.clear()
    name, until, signature = value.split(".")
    for forged in (
        f"{name}.{int(until) + 1}.{signature}",
        f"Ym9zcw.{until}.{signature}",
        f"{name}.1.{signature}",
        "x",
        "..",
        f"{value}0",
        "ü.ü.ü",
    ):
        answer = await service.http.get("/api/v1/sessions", headers={b"Cookie": f"{COOKIE}={forged}".encode()})
        assert answer.status_code == 401, forged
    settings = with_tokens(url)
    fewer = settings.model_copy(update={"auth": settings.auth.model_copy(update={"tokens": settings.auth.tokens[:2]})})
    async with other_door(service, fewer) as later:
        assert (await later.get("/api/v1/sessions", headers={"Cookie": f"{COOKIE}={value}"})).status_code == 401


async def test_a_page_elsewhere_cannot_use_the_cookie(service: Running) -> None:
    value = (await service.http.post("/login", json={"token": "secret-of-boss"})).cookies[COOKIE]
    service.http.cookies.clear()
    cookie = {"Cookie": f"{COOKIE}={value}"}
    for origin in (
        {},
        {"Origin": "null"},
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
    ):
        answer = await service.http.post("/api/v1/alerts", json=ALERT, headers={**cookie, **origin})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "unknown_origin"), origin
    for origin in ({"Origin": service.address}, {"Sec-Fetch-Site": "same-origin"}):
        assert (await service.http.post("/api/v1/alerts", json=ALERT, headers={**cookie, **origin})).status_code == 202


@pytest.mark.parametrize(
    "onwards", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", '/"><script>']
)
async def test_the_login_leads_nowhere_else(service: Running, onwards: str) -> None:
    page = await service.http.get("/login", params={"next": onwards})
    assert "evil.example" not in page.text and "<script>" not in page.text
    answer = await service.http.post(
        "/login", data={"token": "secret-of-dev", "next": onwards}, headers={"Origin": service.address}
    )
    service.http.cookies.clear()
    assert answer.headers["Location"] in ("/", '/"><script>', "/%22%3E%3Cscript%3E")


async def test_a_proxy_is_believed_only_at_its_address(service: Running, url: str) -> None:
    header = {"X-Forwarded-User": "alice"}
    trusted = settings_for(url, proxies=ProxySettings.model_validate({"addresses": ("127.0.0.0/8",)}))
    async with other_door(service, trusted, host="0.0.0.0") as http:
        answer = await http.post("/api/v1/alerts", json=ALERT, headers=header)
        assert answer.status_code == 202
        session = (await http.get(f"/api/v1/sessions/{answer.json()['session_id']}", headers=header)).json()
        assert session["author"] == "user:alice"
        assert (await http.get("/api/v1/sessions")).status_code == 401
        assert (await http.delete(f"/api/v1/sessions/{session['id']}", headers=header)).status_code == 403
        evil = await http.post("/api/v1/alerts", json=ALERT, headers={**header, "Sec-Fetch-Site": "cross-site"})
        assert evil.status_code == 403
    elsewhere = settings_for(url, proxies=ProxySettings.model_validate({"addresses": ("10.0.0.0/8",)}))
    async with other_door(service, elsewhere) as http:
        answer = await http.get("/api/v1/sessions", headers={**header, "X-Forwarded-For": "10.0.0.1"})
        assert answer.status_code == 401


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "tersely.example.org"])
def test_off_loopback_it_does_not_start_without_auth(url: str, host: str) -> None:
    with pytest.raises(ConfigError, match=r"auth\.tokens"):
        build_authenticator(settings_for(url), host)
    assert build_authenticator(with_tokens(url), host).required


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.0.0.2"])
def test_loopback_needs_no_auth(url: str, host: str) -> None:
    assert not build_authenticator(settings_for(url), host).required


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("127.0.0.1:9999", 200),
        ("[::1]:80", 200),
        ("tersely.example.org", 200),
        ("a.team.example.org:8010", 200),
        ("public.example.org", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("team.example.org.evil.example", 421),
        ("", 421),
        ("[::1", 421),
        ("localhost@evil.example", 421),
    ],
)
async def test_we_answer_to_our_own_names_only(service: Running, url: str, host: str, status: int) -> None:
    """A page whose name points at 127.0.0.1 must not read what is here."""
    settings = settings_for(
        url, allowed_hosts=("tersely.example.org", "*.team.example.org"), public_url="https://public.example.org"
    )
    async with other_door(service, settings) as http:
        answer = await http.get("/api/v1/sessions", headers={"Host": host})
        assert answer.status_code == status, answer.text
        assert (await http.get("/health", headers={"Host": host or "x"})).status_code == 200


async def test_only_our_own_pages_may_ask(service: Running, url: str) -> None:
    settings = settings_for(url, allowed_hosts=("tersely.example.org",), public_url="https://public.example.org")
    async with other_door(service, settings) as http:
        for host, origin, status in (
            ("localhost:8010", "http://localhost:8010", 200),
            ("tersely.example.org", "https://tersely.example.org", 200),
            ("tersely.example.org:443", "https://tersely.example.org", 200),
            ("localhost:8010", "https://public.example.org", 200),
            ("localhost:8010", "http://localhost:3000", 403),
            ("localhost:8010", "http://127.0.0.1:8010", 403),
            ("localhost:8010", "https://evil.example", 403),
            ("localhost:8010", "null", 403),
            ("localhost:8010", "file://", 403),
            ("localhost:8010", "http://localhost:8010@evil.example", 403),
        ):
            answer = await http.get("/api/v1/sessions", headers={"Host": host, "Origin": origin})
            assert answer.status_code == status, (host, origin)


async def test_a_websocket_is_opened_by_our_own_pages_under_our_own_name_with_a_login(service: Running) -> None:
    address = service.address.replace("http", "ws") + "/api/v1/ws"
    cookie = f"{COOKIE}={(await service.http.post('/login', json={'token': 'secret-of-wall'})).cookies[COOKIE]}"
    service.http.cookies.clear()
    refused: list[tuple[dict[str, str], int]] = [
        ({}, 401),
        ({"Cookie": cookie, "Origin": "https://evil.example"}, 403),
        ({"Cookie": cookie, "Origin": "null"}, 403),
        ({**bearer("ci")}, 403),
        ({"Authorization": "Bearer wrong"}, 401),
    ]
    for headers, status in refused:
        with pytest.raises(InvalidStatus) as error:
            async with connect(address, proxy=None, additional_headers=headers):
                pass
        assert error.value.response.status_code == status, headers
        assert set(json.loads(error.value.response.body)) == {"error"}
    with pytest.raises(InvalidStatus) as error:
        async with connect(
            "ws://evil.example/api/v1/ws", host="127.0.0.1", port=int(address.split(":")[2].split("/")[0]), proxy=None
        ):
            pass
    assert error.value.response.status_code == 421
    for headers in ({"Cookie": cookie, "Origin": service.address}, bearer("boss")):
        with anyio.fail_after(300):
            async with connect(address, proxy=None, additional_headers=headers) as socket:
                assert json.loads(await socket.recv())["type"] == "connection.established"


async def test_a_websocket_ends_when_the_login_runs_out(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tersely.web.auth.COOKIE_SECONDS", 2)
    cookie = f"{COOKIE}={(await service.http.post('/login', json={'token': 'secret-of-wall'})).cookies[COOKIE]}"
    service.http.cookies.clear()
    headers = {"Cookie": cookie, "Origin": service.address}
    with anyio.fail_after(300):
        async with connect(
            service.address.replace("http", "ws") + "/api/v1/ws", proxy=None, additional_headers=headers
        ) as socket:
            assert json.loads(await socket.recv())["type"] == "connection.established"
            with pytest.raises(ConnectionClosed) as closed:
                await socket.recv()
    assert closed.value.rcvd and (closed.value.rcvd.code, closed.value.rcvd.reason) == (
        4401,
        "The login has expired. Log in again.",
    )


async def test_every_answer_tells_the_browser_what_it_may_do(service: Running, tmp_path: Path) -> None:
    for path in ("/", "/login", "/docs", "/api/v1/sessions", "/nothing.js", "/health"):
        headers = (await service.http.get(path)).headers
        policy = headers["Content-Security-Policy"]
        assert policy.startswith(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'"
        )
        assert "unsafe" not in policy and headers["X-Content-Type-Options"] == "nosniff"
    assert (await service.http.get("/", headers={"Host": "evil.example"})).headers["Content-Security-Policy"]
