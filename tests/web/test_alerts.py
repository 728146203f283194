"""Alerts at the service: what is taken, what is refused, and in which words."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import httpx2
import pytest

from tersely.errors import StoreUnavailable
from tersely.store import idempotency
from tests.web.running import ALERT, Running

MIB = 2**20


async def refused(service: Running, body: Any, status: int, **how: Any) -> Any:
    headers = {"Content-Type": "application/json", **how.pop("headers", {})}
    answer = await service.http.post("/api/v1/alerts", content=json.dumps(body).encode(), headers=headers, **how)
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert set(error) == {"code", "message", "details"}
    return error


async def test_an_accepted_alert_is_a_stored_session(service: Running) -> None:
    answer = await service.http.post(
        "/api/v1/alerts", json={"alert_type": "PodRestarts", **ALERT, "runbook": "Look at the pods first."}
    )
    assert answer.status_code == 202
    body = answer.json()
    assert body["status"] == "pending" and "PodRestarts" in body["message"]
    session = await service.get(f"/sessions/{body['session_id']}")
    assert (session["chain"], session["alert"], session["runbook"]) == (
        "pods",
        ALERT["data"],
        "Look at the pods first.",
    )
    assert (await service.until(body["session_id"], "completed"))["analysis"] == "web-7 failed"


async def test_the_answer_to_an_alert_has_a_status_of_sessions_also_when_it_was_accepted_before(
    service: Running,
) -> None:
    headers = {"Idempotency-Key": "one-vocabulary"}
    answer = await service.http.post("/api/v1/alerts", json=ALERT, headers=headers)
    ended = await service.until(answer.json()["session_id"], "completed")
    again = await service.http.post("/api/v1/alerts", json=ALERT, headers=headers)
    assert (again.status_code, again.json()["session_id"], again.json()["status"]) == (202, ended["id"], "completed")
    for status in (answer.json()["status"], again.json()["status"]):
        assert "items" in await service.get("/sessions", status=status)


async def test_secrets_in_an_alert_are_masked_before_it_is_stored(service: Running) -> None:
    session_id = await service.submit(
        data={"alertname": "Login", "note": "password=hunter2hunter2"}, runbook="token: ghp_" + "a1B2" * 9
    )
    session = await service.get(f"/sessions/{session_id}")
    assert "hunter2" not in json.dumps(session) and "ghp_a1B2" not in json.dumps(session)
    assert "[MASKED:" in session["alert"] and session["title"] == "Login"


@pytest.mark.parametrize("data", ["", " \n\t", {}])
async def test_empty_data_is_refused(service: Running, data: Any) -> None:
    assert (await refused(service, {"data": data}, 400))["code"] == "empty_data"


async def test_an_unknown_alert_type_is_refused_with_the_known_ones(service: Running) -> None:
    error = await refused(service, {**ALERT, "alert_type": "NoSuch"}, 400)
    assert "PodPending, PodRestarts, default" in error["message"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({**ALERT, "mcp_selection": {}}, "mcp_selection"),
        ({**ALERT, "mcp": {"servers": [{"name": "a", "tool": ["x"]}]}}, "mcp.servers.0.tool"),
        ({**ALERT, "mcp": {"native_tools": {"bing": True}}}, "mcp.native_tools.bing"),
        ({**ALERT, "mcp": {"servers": []}}, "mcp.servers"),
        ({**ALERT, "mcp": {}}, "mcp"),
        ({**ALERT, "runbook": "x" * (64 * 1024 + 1)}, "runbook"),
        ({**ALERT, "\ud800": 1}, "\ufffd"),
        ({}, "data"),
        ({"data": 5}, "data"),
        ({"data": ["x"]}, "data"),
    ],
)
async def test_what_is_wrong_is_named_by_its_field(service: Running, body: Any, field: str) -> None:
    """LESSONS: `{"servers": []}` was accepted and failed the session; an unknown field was silently ignored."""
    error = await refused(service, body, 422)
    assert field in [detail["field"] for detail in error["details"]], error


async def test_a_runbook_of_64_kib_is_taken(service: Running) -> None:
    await service.submit(runbook="x" * (64 * 1024))


async def test_the_same_key_and_body_is_the_same_session_and_another_body_a_conflict(service: Running) -> None:
    key = {"Idempotency-Key": "once"}
    first, again = [
        (await service.http.post("/api/v1/alerts", json=ALERT, headers=key)).json()["session_id"] for _ in range(2)
    ]
    assert first == again
    assert (await refused(service, {"data": "another"}, 409, headers=key))["code"] == "idempotency_conflict"
    for wrong in ("", "x" * 201, "with space"):
        await refused(service, ALERT, 422, headers={"Idempotency-Key": wrong})


async def test_concurrent_submissions_with_one_key_make_one_session(service: Running) -> None:
    found: set[str] = set()

    async def submit() -> None:
        answer = await service.http.post("/api/v1/alerts", json=ALERT, headers={"Idempotency-Key": "many"})
        assert answer.status_code == 202
        found.add(answer.json()["session_id"])

    async with anyio.create_task_group() as group:
        for _ in range(12):
            group.start_soon(submit)
    assert len(found) == 1


async def test_a_body_over_one_mib_is_refused_while_it_is_read(service: Running) -> None:
    sent = 0

    async def endless_body() -> Any:
        nonlocal sent
        yield b'{"data": "'
        while sent < 200 * MIB:
            sent += 64 * 1024
            yield b"x" * 64 * 1024

    try:
        answer = await service.http.post(
            "/api/v1/alerts", content=endless_body(), headers={"Content-Type": "application/json"}
        )
        assert answer.status_code == 413 and answer.json()["error"]["code"] == "too_large"
    except httpx2.TransportError:
        pass  # The connection was closed while we were still sending; that is a refusal too.
    assert sent < 100 * MIB
    announced = await service.http.post(
        "/api/v1/alerts", content=b'{"data": "' + b"x" * MIB + b'"}', headers={"Content-Type": "application/json"}
    )
    assert announced.status_code == 413
    await service.submit(data="x" * (MIB - 200))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"\xff\xfe\x00",
        b'{"data": NaN}',
        b'{"data": ' + b"9" * 10_000 + b"}",
        b'{"data": {"n": ' + b"9" * 10_000 + b"}}",
        b'{"data": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"data": ' + b'{"a":' * 5_000 + b"1" + b"}" * 5_000 + b"}",
        b'{"data": 1e999}',
    ],
)
async def test_a_broken_body_is_the_senders_mistake_and_not_ours(service: Running, body: bytes) -> None:
    answer = await service.http.post("/api/v1/alerts", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422) and answer.json()["error"]["message"]


async def test_strange_characters_are_taken(service: Running) -> None:
    """PostgreSQL refuses NUL, and both databases refuse a lone surrogate."""
    raw = (
        b'{"data": {"\\ud800\\u0000": "a\\u0000b\\udfff", "n": 1e300, "\xf0\x9f\x92\xa5": ["\\u202e"]}, "runbook": '
        b'"\\u0000\\ud800"}'
    )
    answer = await service.http.post("/api/v1/alerts", content=raw, headers={"Content-Type": "application/json"})
    assert answer.status_code == 202, answer.text
    assert "💥" in (await service.get(f"/sessions/{answer.json()['session_id']}"))["alert"]


async def test_only_json_is_read(service: Running) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = await service.http.post(
            "/api/v1/alerts", content=json.dumps(ALERT).encode(), headers={"Content-Type": kind} if kind else {}
        )
        assert answer.status_code == 415, kind


async def test_a_store_that_is_down_is_a_503_and_never_a_202(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def down() -> Any:
        raise StoreUnavailable("The database did not answer: connection to server at db-7.internal failed")

    monkeypatch.setattr(service.parts.database, "transaction", down)
    answer = await service.http.post("/api/v1/alerts", json=ALERT)
    assert answer.status_code == 503 and int(answer.headers["Retry-After"]) > 0
    assert "db-7" not in answer.text


def group_of(
    name: str, status: str = "firing", *, started: str = "2026-11-15T08:00:00Z", **more: Any
) -> dict[str, Any]:
    """What Alertmanager sends."""
    alert = {
        "status": status,
        "labels": {"alertname": name, "pod": "web-1"},
        "annotations": {"summary": "It restarts"},
        "startsAt": started,
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "http://prometheus/graph",
        "fingerprint": "c0ffee",
    }
    return {
        "version": "4",
        "groupKey": f'{{}}:{{alertname="{name}"}}',
        "truncatedAlerts": 0,
        "status": status,
        "receiver": "tersely",
        "groupLabels": {"alertname": name},
        "commonLabels": {"alertname": name},
        "commonAnnotations": {},
        "externalURL": "http://alertmanager",
        "alerts": [alert],
        **more,
    }


async def test_a_group_of_alertmanager_is_one_session_however_often_it_is_sent(service: Running) -> None:
    async def send(body: dict[str, Any]) -> Any:
        answer = await service.http.post("/api/v1/alerts/alertmanager", json=body)
        assert answer.is_success, answer.text
        return answer.json()

    firing = group_of("PodRestarts")
    first = await send(firing)
    grown = {**firing, "alerts": [*firing["alerts"], {**firing["alerts"][0], "startsAt": "2026-11-15T08:05:00Z"}]}
    assert (await send(grown))["session_id"] == first["session_id"]
    session = await service.get(f"/sessions/{first['session_id']}")
    assert (session["alert_type"], session["title"], session["resolved_at"]) == ("PodRestarts", "PodRestarts", None)
    over = await send(group_of("PodRestarts", "resolved"))
    assert over == {"session_id": first["session_id"], "status": "resolved", "message": "Recorded on the session."}
    assert (await service.get(f"/sessions/{first['session_id']}"))["resolved_at"]
    assert (await send(group_of("Another", "resolved")))["session_id"] is None
    fired_again = await send(group_of("PodRestarts", started="2026-11-15T09:00:00Z"))
    assert fired_again["session_id"] != first["session_id"]


async def test_a_group_that_fires_on_for_days_while_alerts_join_and_leave_it_is_one_session(service: Running) -> None:
    async def send(*alerts: tuple[str, str, str], status: str = "firing") -> str:
        body = group_of("PodRestarts")
        told = [
            {**body["alerts"][0], "status": state, "fingerprint": name, "startsAt": began}
            for state, name, began in alerts
        ]
        answer = await service.http.post("/api/v1/alerts/alertmanager", json={**body, "status": status, "alerts": told})
        assert answer.is_success, answer.text
        return str(answer.json()["session_id"])

    first = await send(("firing", "a", "08:00"))
    await service.until(first, "completed")
    async with service.parts.database.transaction() as db:
        await idempotency.delete_before(db, datetime.now(UTC) + timedelta(days=30))
    assert await send(("firing", "a", "08:00"), ("firing", "b", "09:00")) == first
    assert await send(("firing", "b", "09:00")) == first, "the one that began it is over, and not told of any more"
    assert await send(("resolved", "b", "09:00"), ("firing", "c", "10:00")) == first, (
        "one left and one joined between two notifications"
    )
    assert await send(("resolved", "c", "10:00"), status="resolved") == first
    assert (await service.get(f"/sessions/{first}"))["resolved_at"]
    second = await send(("firing", "c", "11:00"))
    assert second != first, "it was over, and began again"
    await service.until(second, "completed")
    assert await send(("firing", "d", "12:00")) not in (first, second), (
        "another alert, whoever said nothing about the end of the last"
    )


async def test_two_simultaneous_notifications_of_a_group_make_one_session(service: Running) -> None:
    """Alertmanagers come in pairs."""
    made: list[str] = []

    async def send() -> None:
        made.append(
            (await service.http.post("/api/v1/alerts/alertmanager", json=group_of("PodRestarts"))).json()["session_id"]
        )

    async with anyio.create_task_group() as group:
        for _ in range(6):
            group.start_soon(send)
    assert len(made) == 6 and len(set(made)) == 1


async def test_an_alertname_that_nobody_knows_goes_to_the_default_chain(service: Running) -> None:
    """Grafana sends more fields than Alertmanager."""
    body = group_of("NeverSeen", orgId=1, title="[FIRING:1] NeverSeen", state="alerting", message="**Firing**")
    answer = await service.http.post("/api/v1/alerts/alertmanager", json=body)
    assert answer.status_code == 202
    session = await service.get(f"/sessions/{answer.json()['session_id']}")
    assert session["chain"] == "default" and '"orgId": 1' in session["alert"]
