"""Sessions, their timelines, traces and kept results, as they are read, cancelled, exported and deleted."""

import json
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import anyio
import pytest

from tersely.events.recorder import SessionRecorder
from tersely.llm.exchanges import Exchange
from tersely.llm.messages import Message, Usage
from tersely.llm.meter import METER
from tersely.masking.masked import assume_masked
from tersely.results.kept import KeptResults
from tersely.sessions.worker import SessionOutcome
from tersely.store import usage
from tersely.store.interactions import Interaction
from tersely.store.results import Origin
from tersely.store.sessions import Session
from tersely.store.tally import Tally
from tests.web.running import ALERT, Running, endless, quick, running


async def as_told(session: Session, recorder: SessionRecorder, kept: KeptResults) -> SessionOutcome:
    """Does what the alert says."""
    if session.alert == "endless":
        return await endless(session, recorder, kept)
    if session.alert == "talks":
        asked = Message("user", assume_masked("What is wrong?"))
        answered = Message("assistant", assume_masked("The disk"))
        for number in range(3):
            await recorder.interaction(
                str(number),
                Interaction(
                    type="iteration",
                    provider="openai",
                    model="gpt",
                    messages=[asked, answered][: number + 1],
                    response={"text": "The disk"},
                    usage=Usage(calls=1, input_tokens=100, output_tokens=10, price=Decimal("0.0015")),
                    duration_ms=12,
                ),
            )
        call = {"server": "cluster", "tool": "df", "arguments": {}}
        await recorder.interaction("3", Interaction(type="mcp", request=call, tokens_before=9_000, tokens_after=900))
    if session.alert == "large":
        origin = Origin(server="s", tool="t", arguments={}, called_at=datetime.now(UTC))
        text = "".join(f"{number} {'ü' * 200}\n" for number in range(1, 20_001))
        await kept.keep(assume_masked(text), scope=session.results_scope, origin=origin)
        await kept.keep(assume_masked("x" * 1_500_000 + "needle"), scope=session.results_scope, origin=origin, part=1)
        await kept.keep_bytes(
            b"\x89PNG", scope=session.results_scope, origin=origin, mime_type="image/png", kind="image", part=2
        )
    return await quick(session, recorder, kept)


@pytest.fixture(scope="module")
async def service(store_url: str) -> AsyncIterator[Running]:
    async with running(store_url, work=as_told) as service:
        yield service


async def ended(service: Running, data: Any = ALERT["data"], **fields: Any) -> str:
    session_id = await service.submit(data=data, **fields)
    await service.until(session_id, "completed")
    return session_id


_ENDED: dict[tuple[str, str], str] = {}


async def shared_session(service: Running, data: str = ALERT["data"]) -> str:
    """An ended session that tests share which only read it."""
    if (service.address, data) not in _ENDED:
        _ENDED[service.address, data] = await ended(service, data)
    return _ENDED[service.address, data]


async def test_a_session_is_read_with_its_stages_and_sums(service: Running) -> None:
    session = await service.get(f"/sessions/{await shared_session(service, 'talks')}")
    assert session["usage"] == {
        "model_calls": 3,
        "tool_calls": 1,
        "input_tokens": 300,
        "output_tokens": 30,
        "price_usd": 0.0045,
    }
    assert session["tokens"] == {
        "before": 9_000,
        "after": 900,
        "saved": 8_100,
        "spared": 8_100,
        "encoding": "o200k_base",
    }
    assert session["stage"] == {"index": 0, "name": "look", "count": 1}
    (stage,) = session["stages"]
    assert (stage["status"], stage["analysis"]) == ("completed", "web-7 failed")
    assert session["created_at"].endswith("Z") and len(session["created_at"]) == len("2026-11-15T08:00:00.000Z")


async def test_sessions_are_listed_in_pages_by_filter_and_by_words(service: Running) -> None:
    word = f"zebra{uuid.uuid4().hex[:8]}"
    ids = [await service.submit(data=f"{word} number nr{number}", alert_type="PodPending") for number in range(5)]
    for session_id in ids:
        await service.until(session_id, "completed")
    found: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = await service.get("/sessions", q=word, limit=2, cursor=cursor)
        found += [session["id"] for session in page["items"]]
        cursor = page["next_cursor"]
    assert found == ids[::-1]
    assert [one["id"] for one in (await service.get("/sessions", q=f"NR3 {word}"))["items"]] == [ids[3]]
    assert (
        len((await service.get("/sessions", q=word, alert_type="PodPending", status=["completed", "failed"]))["items"])
        == 5
    )
    assert (await service.get("/sessions", q=word, status="failed"))["items"] == []
    assert (await service.get("/sessions", q=word, created_after="2100-01-01T00:00:00Z"))["items"] == []
    assert len((await service.get("/sessions", q=word, created_before="2100-01-01"))["items"]) == 5
    assert "alert" not in (await service.get("/sessions", q=word))["items"][0]


async def test_the_timeline_is_read_in_pages(service: Running) -> None:
    session_id = await shared_session(service)
    first = await service.get(f"/sessions/{session_id}/timeline", limit=1)
    (call,) = first["items"]
    assert (call["event_type"], call["status"], call["metadata"]["tool_name"], call["sequence"]) == (
        "llm_tool_call",
        "completed",
        "get_pods",
        1,
    )
    second = await service.get(f"/sessions/{session_id}/timeline", limit=1, after=first["next_cursor"])
    assert [event["event_type"] for event in second["items"]] == ["final_analysis"] and second["next_cursor"] is None
    # The same fields, in the same form, as the event that told of it.
    created = next(
        event
        for event in (await service.get(f"/sessions/{session_id}/events"))["items"]
        if event.get("event_id") == call["event_id"]
    )
    assert {name: call[name] for name in created if name in call} == {
        name: created[name] for name in created if name in call
    }


async def test_the_trace_is_read_in_pages_and_one_exchange_with_its_conversation(service: Running) -> None:
    session_id = await shared_session(service, "talks")
    first = await service.get(f"/sessions/{session_id}/trace", limit=3)
    rest = await service.get(f"/sessions/{session_id}/trace", limit=3, cursor=first["next_cursor"])
    assert [one["interaction_type"] for one in first["items"] + rest["items"]] == ["iteration"] * 3 + ["mcp"]
    assert rest["items"][0]["request"] == {"server": "cluster", "tool": "df", "arguments": {}}
    second = first["items"][1]
    assert (second["request"]["messages"], second["price_usd"], second["input_tokens"]) == (2, 0.0015, 100)
    whole = await service.get(f"/sessions/{session_id}/trace/{second['id']}")
    assert [(message["role"], message["text"]) for message in whole["messages"]] == [
        ("user", "What is wrong?"),
        ("assistant", "The disk"),
    ]
    other = await shared_session(service)
    assert (await service.http.get(f"/api/v1/sessions/{other}/trace/{second['id']}")).status_code == 404


async def test_a_kept_result_is_read_by_lines_by_bytes_and_searched(service: Running) -> None:
    session_id = await shared_session(service)
    (known,) = (await service.get(f"/sessions/{session_id}/results"))["items"]
    path = f"/sessions/{session_id}/results/{known['handle']}"
    assert (known["lines"], known["server"], known["tool"], known["arguments"]) == (
        100,
        "cluster",
        "get_pods",
        {"namespace": "shop"},
    )
    some = await service.get(path, lines="7-8")
    assert some["text"] == "line 7: pod web-7 Failed ü\nline 8: pod web-8 Running ü\n"
    assert (some["first_line"], some["last_line"], some["next"]) == (7, 8, None)
    around = await service.get(path, bytes=f"{some['start_byte']}-{some['end_byte']}")
    assert around["text"] == some["text"] and (around["first_line"], around["last_line"]) == (7, 8)
    assert (await service.get(path))["text"].count("\n") == 100
    assert (await service.get(path, lines="99-"))["last_line"] == 100
    found = await service.get(f"{path}/search", q="Failed ü")
    (hit,) = found["items"]
    assert (hit["line"], found["matching_lines"], hit["start_byte"]) == (7, 1, some["start_byte"])
    assert hit["text"][slice(*hit["match"])] == "Failed ü"
    pages = [await service.get(f"{path}/search", q=r"web-\d0 ", regex="true", limit=5)]
    pages.append(
        await service.get(f"{path}/search", q=r"web-\d0 ", regex="true", limit=5, cursor=pages[0]["next_cursor"])
    )
    assert [hit["line"] for page in pages for hit in page["items"]] == list(range(10, 100, 10)) and pages[1][
        "next_cursor"
    ] is None
    assert (await service.get(f"{path}/search", q="failed", ignore_case="true"))["matching_lines"] == 1
    assert (await service.get(f"{path}/search", q="(.*"))["matching_lines"] == 0, (
        "a text is not an expression unless one says so"
    )


@pytest.mark.slow
async def test_a_large_result_comes_in_parts_that_meet(service: Running) -> None:
    session_id = await ended(service, "large")
    known = {
        one["part"]: one
        for one in (await service.get(f"/sessions/{session_id}/results"))["items"]
        if one["tool"] == "t"
    }
    path = f"/sessions/{session_id}/results/{known[0]['handle']}"
    text, following = "", "lines=1-"
    while following:
        name, _, asked = following.partition("=")
        part = await service.get(path, **{name: asked})
        assert len(part["text"].encode()) <= 2**20 and part["text"].endswith("\n")
        text += part["text"]
        following = part["next"]
    assert len(text.encode()) == known[0]["bytes"] and text.count("\n") == known[0]["lines"] == 20_000
    long_line = f"/sessions/{session_id}/results/{known[1]['handle']}"
    first = await service.get(long_line, lines="1-1")
    assert first["next"] == f"bytes={2**20}-" and (await service.get(long_line, bytes=first["next"].partition("=")[2]))[
        "text"
    ].endswith("needle")
    (hit,) = (await service.get(f"{long_line}/search", q="needle"))["items"]
    assert hit["text"][slice(*hit["match"])] == "needle" and len(hit["text"]) < 1_000
    image = await service.http.get(f"/api/v1/sessions/{session_id}/results/{known[2]['handle']}")
    assert image.status_code == 400 and "image/png" in image.json()["error"]["message"]
    raw = await service.http.get(f"/api/v1/sessions/{session_id}/results/{known[2]['handle']}/raw")
    assert (raw.status_code, raw.content, raw.headers["Content-Type"]) == (200, b"\x89PNG", "image/png")
    assert "sandbox" in raw.headers["Content-Security-Policy"] and raw.headers["X-Content-Type-Options"] == "nosniff"
    plain = await service.http.get(f"/api/v1{path}/raw")
    assert plain.headers["Content-Type"] == "text/plain; charset=utf-8" and plain.headers[
        "Content-Disposition"
    ].startswith("attachment")
    assert len(plain.content) == known[0]["bytes"]


@pytest.mark.parametrize(
    "query",
    [
        "lines=0-1",
        "lines=5-4",
        "lines=x",
        "lines=-3",
        "bytes=9-1",
        "lines=1-2&bytes=1-2",
        "lines=1-99999999999999999999999",
    ],
)
async def test_an_invalid_range_is_refused(service: Running, query: str) -> None:
    session_id = await shared_session(service)
    (known,) = (await service.get(f"/sessions/{session_id}/results"))["items"]
    answer = await service.http.get(f"/api/v1/sessions/{session_id}/results/{known['handle']}?{query}")
    assert answer.status_code == 400 and answer.json()["error"]["details"]


async def test_another_sessions_result_is_not_found(service: Running) -> None:
    mine, other = await shared_session(service), await ended(service)
    (known,) = (await service.get(f"/sessions/{mine}/results"))["items"]
    for path in ("", "/search?q=x"):
        answer = await service.http.get(f"/api/v1/sessions/{other}/results/{known['handle']}{path}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "result_not_found")


async def test_a_verdict_is_whole_in_its_session_and_short_in_the_list(service: Running) -> None:
    session_id = await ended(service)
    verdict = (await service.get(f"/sessions/{session_id}"))["verdict"]
    (cited,) = verdict["evidence"]
    assert (cited["quote"], cited["first_line"], cited["count"]) == ("web-7: disk full", 3, 1)
    assert (verdict["summary"], verdict["actions"], verdict["against"]) == ("web-7 has no disk.", [], [])
    listed = next(one for one in (await service.get("/sessions"))["items"] if one["id"] == session_id)
    assert listed["verdict"] == {"cause": "web-7 has no disk", "confidence": "high", "service": "", "since": ""}
    endless = await service.submit(data="endless")
    assert (await service.get(f"/sessions/{endless}"))["verdict"] is None
    await service.http.post(f"/api/v1/sessions/{endless}/cancel")


async def test_a_session_is_exported_as_one_document(service: Running) -> None:
    session_id = await shared_session(service, "talks")
    answer = await service.http.get(f"/api/v1/sessions/{session_id}/export", params={"results": "true"})
    assert answer.headers["Content-Disposition"] == f'attachment; filename="session-{session_id}.json"'
    document = answer.json()
    assert document["session"] == await service.get(f"/sessions/{session_id}")
    assert document["timeline"] == (await service.get(f"/sessions/{session_id}/timeline"))["items"]
    assert document["events"] == (await service.get(f"/sessions/{session_id}/events"))["items"]
    assert [len(one["messages"]) for one in document["trace"]] == [1, 2, 2, 0]
    assert [one["text"].count("\n") for one in document["results"]] == [100]
    assert "text" not in (await service.get(f"/sessions/{session_id}/export"))["results"][0]


async def test_a_session_is_cancelled_while_it_runs_and_while_it_waits(service: Running) -> None:
    running_one = await service.submit(data="endless")
    await service.until(running_one, "in_progress")
    busy = [await service.submit(data="endless") for _ in range(4)]
    waiting = await service.submit(data="endless")
    at_once = await service.http.post(f"/api/v1/sessions/{waiting}/cancel")
    assert at_once.json()["status"] in ("cancelled", "cancelling")
    for session_id in (running_one, *busy):
        assert (await service.http.post(f"/api/v1/sessions/{session_id}/cancel")).status_code == 200
    for session_id in (running_one, waiting):
        session = await service.until(session_id, "cancelled")
        assert session["reason"] == "Cancelled by the local user." and session["ended_at"]
    again = await service.http.post(f"/api/v1/sessions/{running_one}/cancel")
    assert (again.status_code, again.json()["error"]["code"]) == (409, "session_ended")


async def test_a_session_is_deleted_with_all_that_is_its_own_once_it_has_ended(service: Running) -> None:
    busy = await service.submit(data="endless")
    answer = await service.http.delete(f"/api/v1/sessions/{busy}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "session_not_ended")
    await service.http.post(f"/api/v1/sessions/{busy}/cancel")
    session_id = await ended(service)
    (known,) = (await service.get(f"/sessions/{session_id}/results"))["items"]
    deleted = await service.http.delete(f"/api/v1/sessions/{session_id}")
    assert (deleted.status_code, deleted.content) == (204, b"")
    for path in (
        "",
        "/status",
        "/timeline",
        "/events",
        "/trace",
        "/export",
        f"/results/{known['handle']}",
        f"/results/{known['handle']}/raw",
    ):
        assert (await service.http.get(f"/api/v1/sessions/{session_id}{path}")).status_code == 404, path


@pytest.mark.parametrize(
    "session_id",
    [
        "none",
        "3f1c1b0e-52c4-4a53-9d0e-0a3c5b1d2e4f",
        "%00",
        "..",
        "9dc422a4-2f97-4dc8-8f41-96c0d3c9d712%00",
        "x" * 2_000,
    ],
)
@pytest.mark.parametrize("path", ["", "/status", "/timeline", "/events", "/trace", "/export", "/trace/%00"])
async def test_a_session_that_does_not_exist_is_not_found(service: Running, session_id: str, path: str) -> None:
    answer = await service.http.get(f"/api/v1/sessions/{session_id}{path}")
    assert answer.status_code in (400, 404) and set(answer.json()) == {"error"}


@pytest.mark.parametrize(
    "query",
    [
        "cursor=x",
        "cursor=AAAA",
        "cursor=%00",
        "limit=0",
        "limit=501",
        "limit=x",
        "status=done",
        "created_after=yesterday",
        "q=" + "x" * 501,
    ],
)
async def test_a_wrong_question_is_refused(service: Running, query: str) -> None:
    answer = await service.http.get(f"/api/v1/sessions?{query}")
    assert answer.status_code in (400, 422) and answer.json()["error"]["message"]


async def test_words_with_anything_in_them_can_be_looked_for(service: Running) -> None:
    for word in ("\0", "%", "_", "\\", "'", "😀", "a\0b", '"'):
        assert (await service.http.get("/api/v1/sessions", params={"q": word, "alert_type": word})).status_code == 200


async def test_savings_are_told_by_day_server_and_tool(service: Running) -> None:
    tally = Tally()
    day = datetime.now(UTC).date()
    tally.call(
        (day, "session", 'clu"ster', "get_pods"),
        milliseconds=12,
        tokens_before=10_000,
        tokens_after=1_000,
        condensed=True,
    )
    tally.call(
        (day, "gateway", 'clu"ster', "get_pods"),
        milliseconds=12,
        tokens_before=5_000,
        tokens_after=1_000,
        is_error=True,
    )
    earlier = await service.get("/system/savings", since=day.isoformat())
    async with service.parts.database.transaction() as db:
        await usage.add(db, tally)
    savings = await service.get("/system/savings", since=day.isoformat())
    more = {name: savings[name] - earlier[name] for name in ("tokens_before", "saved", "spared")}
    assert (more, savings["encoding"]) == ({"tokens_before": 15_000, "saved": 13_000, "spared": 13_000}, "o200k_base")
    (only,) = (
        one for one in (await service.get("/system/savings", door="session"))["items"] if one["server"] == 'clu"ster'
    )
    assert (only["tool"], only["calls"], only["latency"]) == ("get_pods", 1, {"20": 1})
    assert only["saved"] == only["spared"] == 9_000
    assert (await service.get("/system/savings", since="2100-01-01"))["items"] == []
    metrics = (await service.http.get("/metrics")).text
    assert 'tersely_tool_calls_total{door="session",server="clu\\"ster"} 1' in metrics


async def test_figures_count_sessions_the_queue_and_viewers(service: Running) -> None:
    await shared_session(service)
    async with service.viewer() as viewer:
        await viewer.say(action="subscribe", channel="sessions")
        await viewer.hear()
        with anyio.fail_after(300):
            while "tersely_websocket_subscriptions 1" not in (text := (await service.http.get("/metrics")).text):
                await anyio.sleep(0.02)
    figures = {
        line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
        for line in text.splitlines()
        if not line.startswith("#")
    }
    assert figures['tersely_sessions{status="completed"}'] >= 1
    assert figures["tersely_websocket_connections"] == 1
    assert {"tersely_queue_depth", "tersely_queue_oldest_seconds"} <= set(figures)
    told = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(told) == len(set(told))


async def test_what_grows_is_a_counter_that_no_deletion_lets_fall(service: Running) -> None:
    async def figure(name: str) -> float:
        text = (await service.http.get("/metrics")).text
        return next(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(f"{name} "))

    ended = 'tersely_sessions_ended_total{status="completed"}'
    before = await figure(ended)
    session_id = await service.submit()
    await service.until(session_id, "completed")
    assert await figure(ended) == before + 1
    assert (await service.http.delete(f"/api/v1/sessions/{session_id}")).status_code == 204
    assert await figure(ended) == before + 1
    model = f'gp"t-{uuid.uuid4()}'
    usage = Usage(calls=1, input_tokens=70, output_tokens=7, price=Decimal("0.25"))
    METER.count(Exchange(provider="openai", model=model, messages=(), outcome="answered", usage=usage))
    METER.count(Exchange(provider="openai", model=model, messages=(), outcome="failed"))
    who = 'provider="openai",model="' + model.replace('"', '\\"') + '"'
    assert await figure(f'tersely_model_tokens_total{{{who},direction="input"}}') == 70
    assert await figure(f'tersely_model_calls_total{{{who},outcome="failed"}}') == 1
    assert await figure(f"tersely_price_usd_total{{{who}}}") == 0.25


async def test_nothing_is_cached_and_everything_is_json(service: Running) -> None:
    await shared_session(service)
    answer = await service.http.get("/api/v1/sessions")
    assert answer.headers["Cache-Control"] == "no-store" and answer.headers["Content-Type"] == "application/json"
    assert json.loads(answer.text)["items"]
