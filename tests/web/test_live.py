"""Live events: every event exactly once, the same bytes everywhere, without back-pressure from slow viewers."""

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tersely.events.recorder import SessionRecorder
from tersely.masking.masked import assume_masked
from tersely.results.kept import KeptResults
from tersely.sessions.worker import SessionOutcome
from tersely.store.sessions import Session
from tersely.web import live
from tests.web.running import Running, Viewer, running

END = '"status":"completed"}'


class Script:
    """What the sessions of these tests do: events, as many as the alert says, in two halves, the second when it is let
    go on.
    """

    def __init__(self) -> None:
        self.go_on = anyio.Event()

    async def work(self, session: Session, recorder: SessionRecorder, kept: KeptResults) -> SessionOutcome:
        wanted = json.loads(session.alert)
        size, number = wanted.get("size", 10), wanted["events"]
        for at in range(number):
            if at == number // 2 and wanted.get("waits"):
                async with recorder.opened(f"{at}/stream", "llm_response") as event:
                    event.delta(assume_masked("grow"))
                    event.delta(assume_masked("ing"))
                    await self.go_on.wait()
                    await event.complete(assume_masked("grown"))
            await recorder.record(str(at), "llm_response", assume_masked(f"{at} ü " + "x" * size))
        return SessionOutcome(status="completed", analysis=assume_masked("done"))


@pytest.fixture(scope="module")
def script() -> Script:
    return Script()


@pytest.fixture(scope="module")
async def service(store_url: str, script: Script) -> AsyncIterator[Running]:
    async with running(store_url, work=script.work, slow_seconds=5) as service:
        yield service


async def all_events(service: Running, session_id: str, limit: int = 200) -> list[str]:
    """The event log as REST gives it, text for text."""
    found: list[str] = []
    after = "0"
    while after:
        answer = await service.http.get(
            f"/api/v1/sessions/{session_id}/events", params={"after": after, "limit": limit}
        )
        after = answer.json()["next_cursor"]
        body = answer.text
        end = ',"next_cursor":' + json.dumps(after) + "}"
        assert body.startswith('{"items":[') and body.endswith("]" + end)
        inside = body.removeprefix('{"items":[').removesuffix("]" + end)
        decoder, at = json.JSONDecoder(), 0
        while at < len(inside):
            _, stop = decoder.raw_decode(inside, at)
            found.append(inside[at:stop])
            at = stop + 1
    return found


def numbers(events: list[str]) -> list[int]:
    return [json.loads(event)["seq"] for event in events]


@pytest.mark.slow
async def test_live_catch_up_and_rest_are_the_same_bytes(service: Running, script: Script) -> None:
    script.go_on = anyio.Event()
    session_id = await service.submit(data={"events": 40, "waits": True})
    async with service.viewer() as viewer:
        await viewer.say(action="subscribe", channel=f"session:{session_id}")
        confirmed = await viewer.hear()
        assert (confirmed["type"], confirmed["last_seq"]) == ("subscription.confirmed", 0)
        early: list[str] = []
        grown = ""
        while grown != "growing":
            text = await viewer.raw()
            event = json.loads(text)
            if event["type"] == "stream.chunk":
                assert event["offset"] == len(grown)
                grown += event["delta"]
            elif "seq" in event:
                early.append(text)
        script.go_on.set()
        while_it_ran = early + await viewer.stored(END)
        by_rest = await all_events(service, session_id, limit=7)
        assert while_it_ran == by_rest and numbers(by_rest) == list(range(1, len(by_rest) + 1))
        await viewer.say(action="catchup", channel=f"session:{session_id}", last_seq=0)
        assert (await viewer.hear())["current_seq"] == len(by_rest)
        assert await viewer.stored(END) == by_rest
        await viewer.say(action="catchup", channel=f"session:{session_id}", last_seq=len(by_rest) - 2)
        await viewer.hear()
        assert await viewer.stored(END) == by_rest[-2:]


async def test_many_viewers_who_come_at_any_time_get_every_event_once(service: Running, script: Script) -> None:
    script.go_on = anyio.Event()
    script.go_on.set()
    seen: list[list[int]] = []
    session_id = await service.submit(data={"events": 300})

    async def watch(delay: float) -> None:
        await anyio.sleep(delay)
        async with service.viewer() as viewer:
            await viewer.say(action="subscribe", channel=f"session:{session_id}", last_seq=0)
            seen.append(numbers(await viewer.stored(END)))

    async with anyio.create_task_group() as group:
        for number in range(12):
            group.start_soon(watch, number * 0.05)
    head = (await service.get(f"/sessions/{session_id}/status"))["last_seq"]
    assert seen == [list(range(1, head + 1))] * 12


async def test_a_viewer_who_comes_again_misses_nothing_and_hears_nothing_twice(
    service: Running, script: Script
) -> None:
    script.go_on = anyio.Event()
    session_id = await service.submit(data={"events": 20, "waits": True})
    async with service.viewer() as viewer:
        await viewer.say(action="subscribe", channel=f"session:{session_id}")
        first = await viewer.stored('"status":"streaming"')
    script.go_on.set()
    async with service.viewer() as viewer:
        await viewer.say(action="subscribe", channel=f"session:{session_id}", last_seq=numbers(first)[-1])
        rest = await viewer.stored(END)
    assert first + rest == await all_events(service, session_id)


async def test_the_list_of_sessions_is_followed_from_now_on(service: Running, script: Script) -> None:
    async with service.viewer() as viewer:
        await viewer.say(action="subscribe", channel="sessions")
        assert (await viewer.hear())["channel"] == "sessions"
        session_id = await service.submit(data={"events": 1})
        told = [json.loads(event) for event in await viewer.stored(END)]
    assert [(event["session_id"], event["status"]) for event in told] == [
        (session_id, status) for status in ("pending", "in_progress", "completed")
    ]


async def test_after_unsubscribing_no_event_arrives(service: Running, script: Script) -> None:
    session_id = await service.submit(data={"events": 3})
    await service.until(session_id, "completed")
    async with service.viewer() as viewer:
        await viewer.say(action="subscribe", channel=f"session:{session_id}")
        await viewer.stored(END)
        await viewer.say(action="unsubscribe", channel=f"session:{session_id}")
        assert (await viewer.hear())["subscribed"] is False
        await viewer.say(action="ping")
        assert await viewer.hear() == {"type": "pong"}


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("no json", "not_json"),
        ("[]", "invalid"),
        ("[" * 10_000, "not_json"),
        ('{"action": "dance"}', "invalid"),
        ('{"action": "subscribe"}', "unknown_channel"),
        ('{"action": "subscribe", "channel": "secrets"}', "unknown_channel"),
        ('{"action": "subscribe", "channel": ["sessions"]}', "unknown_channel"),
        ('{"action": "subscribe", "channel": "session:\\u0000"}', "session_not_found"),
        ('{"action": "subscribe", "channel": "session:9dc422a4-2f97-4dc8-8f41-96c0d3c9d712"}', "session_not_found"),
        ('{"action": "subscribe", "channel": "sessions", "last_seq": -1}', "invalid"),
        ('{"action": "subscribe", "channel": "sessions", "last_seq": true}', "invalid"),
        ('{"action": "subscribe", "channel": "sessions", "last_seq": 1e400}', "invalid"),
        ('{"action": "subscribe", "channel": "sessions", "last_seq": 99999999999999999999}', "invalid"),
        ('{"action": "subscribe", "channel": "sessions", "last_sequence": 1}', "invalid"),
        ('{"action": "catchup", "channel": "sessions"}', "invalid"),
        (b"\x00\x01", "not_json"),
    ],
)
async def test_what_cannot_be_done_is_said_and_the_connection_stays(service: Running, said: Any, code: str) -> None:
    async with service.viewer() as viewer:
        await viewer.socket.send(said)
        error = await viewer.hear()
        assert (error["type"], error["code"]) == ("subscription.error", code) and error["message"]
        await viewer.say(action="ping")
        assert await viewer.hear() == {"type": "pong"}


async def closed_with(viewer: Viewer) -> int:
    code: int | None = None
    while code is None:
        try:
            await viewer.raw()
        except ConnectionClosed as closed:
            code = closed.rcvd.code if closed.rcvd else 1006
    return code


async def test_who_goes_on_making_mistakes_is_sent_away(service: Running) -> None:
    async with service.viewer() as viewer:
        for _ in range(live.MAX_INVALID_MESSAGES):
            await viewer.say(action="dance")
        assert await closed_with(viewer) == 1008


@pytest.mark.parametrize("size", [live.MAX_MESSAGE + 1, 5 * live.MAX_MESSAGE])
async def test_a_viewer_with_much_to_say_is_sent_away(service: Running, size: int) -> None:
    async with service.viewer() as viewer:
        await viewer.socket.send("x" * size)
        assert await closed_with(viewer) == 1009


async def test_one_viewer_follows_a_bounded_number_of_channels(
    service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MAX_SUBSCRIPTIONS", 1)
    session_id = await service.submit(data={"events": 1})
    async with service.viewer() as viewer:
        await viewer.say(action="subscribe", channel="sessions")
        await viewer.say(action="subscribe", channel=f"session:{session_id}")
        heard = [await viewer.hear()]
        while heard[-1]["type"] != "subscription.error":
            heard.append(await viewer.hear())
        assert heard[-1]["code"] == "too_many"


async def test_only_so_many_viewers_are_let_in(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MAX_CONNECTIONS", 1)
    async with service.viewer() as viewer:
        with pytest.raises(InvalidStatus) as refused:
            async with service.viewer():
                pass
        assert refused.value.response.status_code == 503 and refused.value.response.headers["Retry-After"] == "10"
        await viewer.say(action="ping")
        assert (await viewer.hear())["type"] == "pong"


async def test_a_viewer_who_does_not_read_delays_nobody_and_is_dropped(service: Running, script: Script) -> None:
    """LESSONS: one slow WebSocket client delayed every other."""
    session_id = await service.submit(data={"events": 150, "size": 100_000})
    async with service.viewer(max_queue=1) as asleep, service.viewer() as awake:
        await asleep.say(action="subscribe", channel=f"session:{session_id}", last_seq=0)
        await awake.say(action="subscribe", channel=f"session:{session_id}", last_seq=0)
        assert len(await awake.stored(END)) == 153
        with anyio.fail_after(300):
            while "tersely_websocket_dropped_total 0" in (await service.http.get("/metrics")).text:
                await anyio.sleep(0.05)
        await awake.say(action="ping")
        assert await awake.hear() == {"type": "pong"}
        asleep.socket.transport.abort()
    with anyio.fail_after(300):
        while "tersely_websocket_connections 0" not in (await service.http.get("/metrics")).text:
            await anyio.sleep(0.05)
    assert not service.parts.bus.watched


async def test_viewers_are_disconnected_at_once_when_the_service_stops(service: Running) -> None:
    """The last one of this module: the service is closed after it."""
    async with service.viewer() as viewer:
        await viewer.say(action="subscribe", channel="sessions")
        await viewer.hear()
        service.stop()
        assert await closed_with(viewer) == 1012
