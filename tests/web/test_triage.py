"""People rate verdicts, assign, acknowledge and close sessions; what was found before can be searched."""

from collections.abc import AsyncIterator
from io import StringIO
from typing import Any

import anyio
import pytest
from click.testing import CliRunner
from rich.console import Console

from tersely.agent.verdict import Citation, Verdict
from tersely.cli import main
from tersely.events.recorder import SessionRecorder
from tersely.masking.masked import assume_masked
from tersely.results.kept import KeptResults
from tersely.sessions.worker import SessionOutcome
from tersely.store.sessions import Session
from tersely.terminal import follow
from tests.web.running import Running, endless, running


async def concludes(session: Session, recorder: SessionRecorder, kept: KeptResults) -> SessionOutcome:
    """Finds what the second line of the alert says, in the service that the third names."""
    if "endless" in session.alert:
        return await endless(session, recorder, kept)
    _, cause, service = session.alert.splitlines()
    cited = Citation(source="ops.logs", handle="", first_line=1, last_line=1, quote=f"seen in {service}")
    verdict = Verdict(cause=cause, summary=f"{cause}.", confidence="high", service=service, evidence=(cited,))
    return SessionOutcome(status="completed", analysis=assume_masked("as the verdict"), verdict=verdict)


@pytest.fixture(scope="module")
async def service(store_url: str) -> AsyncIterator[Running]:
    async with running(store_url, work=concludes) as service:
        yield service


async def ended(service: Running, *lines: str, **fields: Any) -> str:
    session_id = await service.submit(data="\n".join(lines), **fields)
    await service.until(session_id, "completed")
    return session_id


async def test_a_verdict_is_rated_and_a_session_assigned_acknowledged_and_closed(service: Running) -> None:
    session_id = await ended(service, "Queue full", "The broker has no disk", "broker")
    path = f"/api/v1/sessions/{session_id}"
    untouched = (await service.get(f"/sessions/{session_id}"))["triage"]
    assert (untouched["state"], untouched["assignee"], untouched["rating"]) == ("open", None, None)

    async with service.viewer() as viewer:
        await viewer.say(action="subscribe", channel="sessions", last_seq=0)
        body = {"rating": "partly", "note": "It was the log volume, password=hunter2hunter2"}
        rated = await service.http.put(f"{path}/rating", json=body)
        assert rated.status_code == 200, rated.text
        told = await viewer.stored("session.triaged")
        assert '"rating":"partly"' in told[-1] and session_id in told[-1]
    rating = rated.json()["rating"]
    assert (rating["rating"], rating["by"]) == ("partly", "local")
    assert rating["note"].startswith("It was the log volume") and "hunter2" not in rating["note"]

    mine = await service.http.put(f"{path}/assignee", json={})
    assert mine.json()["assignee"] == "local"
    assert (await service.http.put(f"{path}/assignee", json={"assignee": "kim"})).json()["assignee"] == "kim"
    first = (await service.http.post(f"{path}/acknowledge")).json()
    assert first["state"] == "acknowledged"
    assert (await service.http.post(f"{path}/acknowledge")).json() == first
    closed = (await service.http.post(f"{path}/close", json={"note": "disk replaced"})).json()
    assert (closed["state"], closed["close_note"], closed["closed_by"]) == ("closed", "disk replaced", "local")
    assert (await service.http.post(f"{path}/close")).json() == closed

    for wanted in ({"rating": "partly"}, {"state": "closed"}, {"assignee": "kim"}, {"service": "broker"}):
        assert [one["id"] for one in (await service.get("/sessions", **wanted))["items"]] == [session_id], wanted
    other = await ended(service, "Other", "Nothing", "other")
    unrated = [one["id"] for one in (await service.get("/sessions", rating="none"))["items"]]
    assert other in unrated and session_id not in unrated
    assert session_id not in [one["id"] for one in (await service.get("/sessions", state="open"))["items"]]

    reopened = (await service.http.post(f"{path}/reopen")).json()
    assert (reopened["state"], reopened["assignee"], reopened["rating"]["rating"]) == ("open", "kim", "partly")
    counted = await service.get("/system/ratings")
    assert (counted["verdicts"], counted["rated"], counted["partly"]) == (2, 1, 1)
    assert (await service.http.delete(f"{path}/rating")).json()["rating"] is None
    entries = (await service.get("/audit-log", limit=500))["items"]
    actions = [entry["action"] for entry in entries if entry["target"] == session_id]
    taken = ["rate", "assign", "assign", "acknowledge", "acknowledge", "close", "close", "reopen", "rate"]
    assert actions == ["submit", *taken]


async def test_what_cannot_be_rated_or_assigned_is_refused(service: Running) -> None:
    running_id = await service.submit(data="endless")
    ended_id = await ended(service, "A", "B", "c")
    for method, path, body, status in (
        ("PUT", f"{running_id}/rating", {"rating": "right"}, 409),
        ("POST", f"{running_id}/close", {}, 409),
        ("PUT", f"{ended_id}/rating", {"rating": "perfect"}, 422),
        ("PUT", f"{ended_id}/rating", {"rating": "right", "note": "x" * 2_001}, 422),
        ("PUT", f"{ended_id}/rating", {"rating": "right", "notes": "x"}, 422),
        ("PUT", f"{ended_id}/assignee", {"assignee": " \n"}, 422),
        ("PUT", "00000000-0000-4000-8000-000000000000/rating", {"rating": "right"}, 404),
        ("POST", "00000000-0000-4000-8000-000000000000/acknowledge", None, 404),
    ):
        answer = await service.http.request(method, f"/api/v1/sessions/{path}", json=body)
        assert answer.status_code == status, (path, body, answer.text)
    assert (await service.get(f"/sessions/{ended_id}"))["triage"]["rating"] is None
    assert (await service.http.post(f"/api/v1/sessions/{running_id}/acknowledge")).status_code == 200
    await service.http.post(f"/api/v1/sessions/{running_id}/cancel")


async def test_past_sessions_are_found_by_their_verdicts_and_alike_alerts_are_seen_before(service: Running) -> None:
    first = await ended(service, "Thumbnails fail on pod 17", "THUMBNAILS_URL points to a missing host", "transcoder")
    second = await ended(service, "Thumbnails fail on pod 18", "The certificates expired yesterday", "transcoder")
    third = await ended(service, "Thumbnails fail on pod 99", "The certificates expired again", "transcoder")
    seen = (await service.get(f"/sessions/{third}"))["seen_before"]
    assert seen["count"] == 2
    assert [(one["id"], one["cause"]) for one in seen["sessions"]] == [
        (second, "The certificates expired yesterday"),
        (first, "THUMBNAILS_URL points to a missing host"),
    ]
    assert (await service.get(f"/sessions/{first}"))["seen_before"] == {"count": 0, "sessions": []}
    named = await ended(service, "Something else", "No idea", "x", fingerprint="disk-17")
    again = await ended(service, "Written differently", "No idea", "y", fingerprint="disk-17")
    assert (await service.get(f"/sessions/{again}"))["seen_before"]["sessions"][0]["id"] == named

    found = (await service.get("/search", q="certificate expiring"))["items"]
    assert {one["id"] for one in found} == {second, third}, found
    one = next(one for one in found if one["id"] == second)
    marked = [one["snippet"][start:end].lower() for start, end in one["ranges"]]
    assert "certificates" in marked and "expired" in marked, one
    assert (await service.get("/search", q="certificate thumbnails_url"))["items"] == []
    either = (await service.get("/search", q="certificate missing", words="any"))["items"]
    assert {one["id"] for one in either} == {first, second, third}
    for hostile in ('"', "* OR", "NEAR(zq qz", "text:zq", "'; --", "%", "\u202e", "NOT", "\x00\x02", "zq*"):
        assert (await service.get("/search", q=hostile))["items"] == [], hostile
    assert (await service.http.delete(f"/api/v1/sessions/{second}")).status_code == 204
    assert [one["id"] for one in (await service.get("/search", q="certificate expiring"))["items"]] == [third]


async def test_the_same_from_a_shell(service: Running) -> None:
    def shell(*arguments: str) -> str:
        done = CliRunner().invoke(main, [*arguments, "--url", service.address])
        assert done.exit_code == 0, done.output
        return done.output

    async def run(*arguments: str) -> str:
        return await anyio.to_thread.run_sync(shell, *arguments)

    first = await ended(service, "Lag of shipments", "Kafka partition 7 has no leader", "kafka")
    second = await ended(service, "Lag of shipments", "Kafka partition 8 has no leader", "kafka")
    assert "right" in await run("rate", first, "right", "--note", "yes")
    assert await run("triage", first, "--assign", "me", "--close", "--note", "moved") == (
        "closed, assigned to local, rated as right\n"
    )
    found = await run("search", "partition", "leaders")
    assert "Kafka partition 7 has no leader · rated right" in found and first in found and second in found
    shown = StringIO()
    assert await follow(service.address, "", second, console=Console(file=shown, width=200)) == 0
    assert "seen before: once, last cause: Kafka partition 7 has no leader (rated right)" in shown.getvalue()
    assert "rating is withdrawn" in await run("rate", first, "none")
    refused = await anyio.to_thread.run_sync(
        lambda: CliRunner().invoke(main, ["rate", "nobody", "right", "--url", service.address])
    )
    assert refused.exit_code == 2 and "There is no session 'nobody'" in refused.output
