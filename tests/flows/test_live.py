"""What viewers see of an investigation: LESSONS under "Sessions", and that live, later and by REST it is the same
text.
"""

import json
from typing import Any

import anyio
import pytest

from tests.fakes.llm_server import Reply
from tests.flows.service import FlowService, calls, is_summary

pytestmark = pytest.mark.process

SUMMARY = "Many requests were fine. At 12:00:00 the shop lost its database db-7: connection refused. " * 3


def busy(body: dict[str, Any]) -> Any:
    """Thinks, calls two tools at once, has one summarized, concludes."""
    if is_summary(body):
        return SUMMARY
    if any(message["role"] == "tool" for message in body["messages"]):
        return "The shop lost its database db-7."
    asked = calls("side__lines", "side__small", count=300)
    return Reply(
        text="I look at the log.",
        thinking="What could it be? A database, perhaps.",
        tool_calls=asked.tool_calls,
        finish="tool_calls",
    )


def is_end(text: str) -> bool:
    event = json.loads(text)
    return event["type"] == "session.status" and event["status"] in ("completed", "failed", "cancelled", "timed_out")


async def follow(service: FlowService, session_id: str, *, after: int = 0) -> list[str]:
    """The stored events as one viewer gets them, up to the end."""
    heard: list[str] = []
    async with service.web.viewer() as viewer:
        await viewer.say(action="subscribe", channel=f"session:{session_id}", last_seq=after)
        while not heard or not is_end(heard[-1]):
            text = await viewer.raw()
            if "seq" in json.loads(text):
                heard.append(text)
    return heard


async def test_live_later_and_by_rest_every_event_is_the_same_text(service: FlowService) -> None:
    case = service.case(main=busy)
    live: list[list[str]] = []
    session_id = await service.submit(case)

    async def watch() -> None:
        live.append(await follow(service, session_id))

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(watch)
    later = await follow(service, session_id)
    half = await follow(service, session_id, after=len(later) // 2)
    answer = await service.web.http.get(f"/api/v1/sessions/{session_id}/events", params={"limit": 500})
    assert live == [later] * 3 and half == later[len(later) // 2 :]
    assert answer.text == '{"items":[' + ",".join(later) + '],"next_cursor":null}', "byte for byte"
    assert [json.loads(text)["seq"] for text in later] == list(range(1, len(later) + 1))


async def test_every_event_of_the_table_is_published_with_its_fields(service: FlowService) -> None:
    case = service.case(main=busy)
    session_id = await service.submit(case)
    heard: list[dict[str, Any]] = []
    async with service.web.viewer() as viewer:
        await viewer.say(action="subscribe", channel=f"session:{session_id}", last_seq=0)
        while not heard or not is_end(json.dumps(heard[-1])):
            heard.append(await viewer.hear())
    assert heard.pop(0)["type"] == "subscription.confirmed"
    stored = {
        "timeline_event.created": {
            "event_id",
            "stage_id",
            "execution_id",
            "event_type",
            "status",
            "content",
            "metadata",
            "sequence",
        },
        "timeline_event.completed": {"event_id", "event_type", "status", "content", "metadata"},
        "session.status": {"status"},
        "stage.status": {"stage_id", "stage_name", "stage_index", "status"},
        "execution.status": {"execution_id", "stage_id", "agent", "execution_index", "status"},
        "interaction.created": {"interaction_id", "interaction_type"},
    }
    transient = {
        "stream.chunk": {"event_id", "offset", "delta"},
        "execution.progress": {"execution_id", "phase", "message"},
        "session.progress": set[str](),
    }
    for kind, fields in {**stored, **transient}.items():
        found = [event for event in heard if event["type"] == kind]
        assert found, kind
        always = {"type", "v", "session_id", "timestamp"} | ({"seq"} if kind in stored else set())
        assert all(
            always | fields <= set(event) and event["v"] == 1 and ("seq" in event) == (kind in stored)
            for event in found
        ), kind
    assert {event["event_type"] for event in heard if event["type"] == "timeline_event.created"} == {
        "llm_thinking",
        "llm_response",
        "llm_tool_call",
        "mcp_tool_summary",
        "final_analysis",
    }
    kinds = [event["interaction_type"] for event in heard if event["type"] == "interaction.created"]
    assert sorted(kinds) == ["iteration", "iteration", "mcp", "mcp", "summarization"]


async def test_a_viewer_who_does_not_read_delays_nobody_in_an_investigation(service: FlowService) -> None:
    """LESSONS: one slow WebSocket client delayed every other."""
    case = service.case(main=busy)
    async with service.web.viewer(max_queue=1, close_timeout=0.1) as slow:
        session_id = await service.submit(case)
        await slow.say(action="subscribe", channel=f"session:{session_id}", last_seq=0)
        slow.socket.transport.pause_reading()
        with anyio.fail_after(300):
            heard = await follow(service, session_id)
        assert is_end(heard[-1])
        slow.socket.transport.resume_reading()
        late = [text for text in await slow.stored('"status":"completed"') if "seq" in text]
    assert late == heard[: len(late)], "when it reads at last, it gets the same"


async def test_sessions_that_were_begun_and_that_wait_can_be_cancelled_and_end_once(service: FlowService) -> None:
    """LESSONS: a pending one could not be cancelled; one being cancelled stayed so for ever."""
    case = service.case(main=lambda body: Reply("late", delay=3600))
    ids = [await service.submit(case) for _ in range(8)]  # more than may run at once
    async with anyio.create_task_group() as group:
        for session_id in ids:
            group.start_soon(service.web.http.post, f"/api/v1/sessions/{session_id}/cancel")
    for session_id in ids:
        story = await service.story(session_id, "cancelled")
        ends = [event for event in story.events if is_end(json.dumps(event))]
        assert len(ends) == 1 and story.events[-1] == ends[0]
        assert all(item["status"] != "streaming" for item in story.timeline)


async def test_a_model_that_fails_ends_the_session_with_a_reason_in_plain_words(service: FlowService) -> None:
    case = service.case(
        main=lambda body: Reply(status=400, error="no such model"),
        spare=lambda body: Reply(status=400, error="none here"),
    )
    story = await service.investigate(case, "failed")
    assert "no such model" in story.session["reason"] and "Traceback" not in json.dumps(story.session)
    assert story.shown("error")[0]["content"] == story.session["reason"]
    assert [stage["status"] for stage in story.session["stages"]] == ["failed"]
