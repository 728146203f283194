"""Large results in an investigation: the scenarios of 001's feature 2 and 3, of 002, and LESSONS under "Tool
results".
"""

import json
import re
from collections import Counter, defaultdict
from typing import Any

import anyio
import pytest

from tersely.text.tokens import O200K
from tests.fakes.llm_server import Reply
from tests.flows.service import FlowService, Story, acts, calls, is_summary, said

pytestmark = pytest.mark.process

SUMMARY = "Many requests were fine. At 12:00:00 the shop lost its database db-7: connection refused. "
LOOKS = calls("side__lines", text="I look for what the shop lost.", count=400, about="basket")


def first_calls_then_concludes(call: Reply, summary: Any, verdict: str = "db-7 is gone") -> Any:
    """A model that calls once, writes `summary` when it is asked for one, and concludes."""

    def answer(body: dict[str, Any]) -> Any:
        if is_summary(body):
            return summary(body) if callable(summary) else summary
        return verdict if any(message["role"] in ("tool", "assistant") for message in body["messages"]) else call

    return answer


def the_summary(story: Story) -> dict[str, Any]:
    (event,) = story.shown("mcp_tool_summary")
    return event


async def used(service: FlowService) -> dict[tuple[str, str], Counter[str]]:
    """What sessions used tools for."""
    uses: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for one in (await service.web.get("/system/savings", door="session"))["items"]:
        uses[one["server"], one["tool"]].update(calls=one["calls"], read_backs=one["read_backs"])
    return uses


async def test_a_result_over_the_threshold_is_summarized_with_the_call_and_the_conversation(
    service: FlowService,
) -> None:
    """001: threshold exceeded, summary streamed, conversation gets it, recorded, usage counted."""
    case = service.case(main=first_calls_then_concludes(LOOKS, SUMMARY))
    async with service.web.viewer() as viewer:
        session_id = await service.submit(case)
        await viewer.say(action="subscribe", channel=f"session:{session_id}", last_seq=0)
        heard: list[dict[str, Any]] = []
        while not heard or not (heard[-1]["type"] == "session.status" and heard[-1]["status"] == "completed"):
            heard.append(await viewer.hear())
    story = await service.story(session_id)

    summarizing = next(body for body in case.requests() if is_summary(body))
    asked = said(summarizing)
    assert "side.lines" in asked and '"about": "basket"' in asked, (
        "LESSONS: the summarizer never saw the call's arguments"
    )
    assert "I look for what the shop lost." in asked and case.mark in asked and "You investigate an alert" not in asked
    assert "tools" not in summarizing and "web_search_options" not in summarizing
    assert summarizing["max_tokens"] <= 1_000, "the limit is enforced"

    event = the_summary(story)
    assert event["status"] == "completed" and SUMMARY.strip() in event["content"]
    expected = {"server_name": "side", "tool_name": "lines", "status": "summarized", "summarization_fallback": False}
    assert expected.items() <= event["metadata"].items()
    assert event["metadata"]["summarization_model"] == "test/main" and event["metadata"]["original_tokens"] > 2_000
    chunks = [one for one in heard if one["type"] == "stream.chunk" and one["event_id"] == event["event_id"]]
    assert chunks and "".join(one["delta"] for one in chunks).strip() in SUMMARY
    phases = [one["phase"] for one in heard if one["type"] == "execution.progress"]
    assert "distilling" in phases

    answered = case.requests()[-1]["messages"][-1]["content"]
    handle = event["metadata"]["handle"]
    assert SUMMARY.strip() in answered and handle in answered and O200K.count(answered) <= 520
    assert "Read it with read_result" in case.prompt(0) and "read_result" in answered
    (record,) = story.traced("summarization")
    assert record["input_tokens"] > 1_000 and record["model"] == "test/main"
    assert story.session["usage"]["model_calls"] == 3 and story.session["tokens"]["spared"] > 1_000
    (call,) = story.shown("llm_tool_call")
    assert call["metadata"]["handle"] == handle and call["metadata"]["arguments"] == {"count": 400, "about": "basket"}
    whole = await service.web.get(f"/sessions/{session_id}/results/{handle}")
    assert whole["tokens"] == event["metadata"]["original_tokens"], "the whole is one call away"


async def test_a_call_lives_in_one_event_and_a_summary_in_another(service: FlowService) -> None:
    """002 Q8 in place of 001's mcp_tool_call, tool_result and summarizing events."""
    case = service.case(main=first_calls_then_concludes(LOOKS, SUMMARY))
    story = await service.investigate(case)
    assert {item["event_type"] for item in story.timeline} == {
        "llm_response",
        "llm_tool_call",
        "mcp_tool_summary",
        "final_analysis",
    }
    call = [one for one in story.events if one.get("event_id") == story.shown("llm_tool_call")[0]["event_id"]]
    assert [(one["type"], one["status"]) for one in call] == [
        ("timeline_event.created", "streaming"),
        ("timeline_event.completed", "completed"),
    ]
    assert call[0]["content"] == "" and set(call[0]["metadata"]) == {"server_name", "tool_name", "arguments"}
    assert {"is_error", "duration_ms", "original_tokens", "handle"} <= set(call[1]["metadata"])
    assert [item["sequence"] for item in story.timeline] == list(range(1, len(story.timeline) + 1))
    assert [one["seq"] for one in story.events] == list(range(1, len(story.events) + 1))


async def test_under_the_threshold_nothing_is_summarized(service: FlowService) -> None:
    case = service.case(main=[calls("side__small"), "fine"])
    story = await service.investigate(case)
    assert case.requests()[1]["messages"][-1]["content"].endswith("all is well") and not story.shown("mcp_tool_summary")


async def test_react_gets_the_summary_as_its_observation(service: FlowService) -> None:
    def answer(body: dict[str, Any]) -> Any:
        if is_summary(body):
            return SUMMARY
        return (
            "Thought: enough\nFinal Answer: db-7 is gone"
            if "Observation:" in body["messages"][-1]["content"]
            else acts("ops.logs")
        )

    case = service.case(main=answer)
    story = await service.investigate(case, alert_type="react")
    observed = case.requests()[-1]["messages"][-1]["content"]
    assert observed.startswith("Observation: ops.logs: ") and SUMMARY.strip() in observed
    assert the_summary(story)["metadata"]["status"] == "summarized" and story.session["analysis"] == "db-7 is gone"


async def test_the_server_may_name_who_summarizes(service: FlowService) -> None:
    """DECISIONS: the server's provider, else the default for summaries, else the agent's; then the agent's
    fallbacks.
    """
    case = service.case(main=[calls("own__lines", count=400), "done"], summarist=[SUMMARY])
    story = await service.investigate(case, mcp={"servers": [{"name": "own"}]})
    assert the_summary(story)["metadata"]["summarization_model"] == "test/summarist"
    case = service.case(
        main=[calls("own__lines", count=401), SUMMARY, "done"], summarist=lambda body: Reply(status=400)
    )
    story = await service.investigate(case, mcp={"servers": [{"name": "own"}]})
    assert the_summary(story)["metadata"] | {"summarization_fallback": True} == the_summary(story)["metadata"], (
        "somebody else stepped in"
    )
    assert the_summary(story)["metadata"]["summarization_model"] == "test/main"


async def test_a_single_tool_may_name_who_summarizes(service: FlowService) -> None:
    case = service.case(main=[calls("picky__lines", count=400), "done"], summarist=[SUMMARY])
    story = await service.investigate(case, mcp={"servers": [{"name": "picky"}]})
    assert the_summary(story)["metadata"]["summarization_model"] == "test/summarist"


@pytest.mark.parametrize(
    ("summary", "why"),
    [
        (Reply(status=400, error="the model is on strike"), "on strike"),
        ("", "empty"),
        ("I cannot help with that.", ""),
    ],
)
async def test_a_summary_that_fails_is_visible_and_data_goes_on(service: FlowService, summary: Any, why: str) -> None:
    """000: the error text became the result. 001: the original. Here: the structural text, and an event says so."""
    call = calls("side__lines", count=420)
    case = service.case(
        main=first_calls_then_concludes(call, summary), spare=lambda body: Reply(status=400, error="on strike too")
    )
    story = await service.investigate(case)
    event = the_summary(story)
    assert (
        event["status"] == "completed"
        and event["metadata"]["status"] == "fallback"
        and event["metadata"]["returned"] == "structural"
    )
    assert event["metadata"]["summarization_fallback"] is True and why in event["metadata"]["reason"]
    answered = case.requests()[-1]["messages"][-1]["content"]
    assert "db-7: connection refused" in answered and "on strike" not in answered and O200K.count(answered) <= 520
    assert story.traced("mcp")[0]["response"]["summary"]["reason"] == event["metadata"]["reason"]


async def test_a_model_that_goes_on_and_on_is_stopped_and_its_summary_marked_as_cut(service: FlowService) -> None:
    """It repeats its prompt, and the server does not keep to the limit of the request."""
    answer = first_calls_then_concludes(calls("side__lines", count=420), lambda body: said(body)[-9_000:])
    event = the_summary(await service.investigate(service.case(main=answer)))
    assert (event["metadata"]["status"], event["metadata"]["cut"]) == ("summarized", True)
    assert event["metadata"]["summary_tokens"] <= 520


async def test_a_summarizer_that_stalls_is_left_after_its_own_time_and_the_event_ends(service: FlowService) -> None:
    """LESSONS: it ate the whole iteration's time and left an event `streaming` for ever."""
    call = calls("side__lines", count=430)
    case = service.case(main=first_calls_then_concludes(call, Reply(SUMMARY, delay=3600)))
    story = await service.investigate(case)
    event = the_summary(story)
    assert event["status"] == "completed" and "not ready within 10 s" in event["metadata"]["reason"]
    assert {item["status"] for item in story.timeline} == {"completed"}
    assert "db-7: connection refused" in case.requests()[-1]["messages"][-1]["content"]
    (record,) = story.traced("summarization")
    assert record["input_tokens"] > 1_000 and story.session["usage"]["model_calls"] == 3, "what was asked is paid for"


async def test_a_result_larger_than_the_window_goes_through_map_reduce_and_not_through_a_cut(
    service: FlowService,
) -> None:
    """001 and 002 Q6 cut it; here a model reads every line."""
    call = calls("side__lines", count=1_500)
    seen: list[str] = []

    def summary(body: dict[str, Any]) -> str:
        seen.append(said(body))
        return f"Part {len(seen)}: requests were served. the shop lost its database db-7."

    def answer(body: dict[str, Any]) -> Any:
        if is_summary(body):
            return summary(body)
        return "done" if any(message["role"] == "tool" for message in body["messages"]) else call

    case = service.case(main=answer)
    story = await service.investigate(case, alert_type="small")
    assert len(seen) >= 3, "several parts and a merge"
    assert all(O200K.count(prompt) < 12_000 for prompt in seen)
    assert any("connection refused" in prompt for prompt in seen)
    assert the_summary(story)["metadata"]["status"] == "summarized"
    assert story.session["usage"]["model_calls"] == len(case.requests())


async def test_nothing_larger_than_the_window_enters_the_conversation(service: FlowService) -> None:
    """LESSONS: fail-open put a result of any size into the conversation and killed the session."""
    case = service.case(main=[calls("raw__lines", "raw__fail_at_length", count=30_000), "done"])
    story = await service.investigate(case, mcp={"servers": [{"name": "raw"}]})
    whole, failed = case.requests()[1]["messages"][-2:]
    assert 50_000 < O200K.count(said(case.requests()[1])) <= 100_000, "they share the room that is left, and use it"
    assert all(O200K.count(message["content"]) > 10_000 for message in (whole, failed))
    assert not story.traced("summarization"), "neither goes to a summarizing model"
    assert sorted(event["metadata"]["is_error"] for event in story.shown("llm_tool_call")) == [False, True]


async def test_a_made_up_tool_is_an_error_even_where_no_server_is_configured(service: FlowService) -> None:
    """LESSONS: it was answered as a success by a stub."""
    case = service.case(main=[calls("cluster__get_pods"), "I cannot look at anything"])
    story = await service.investigate(case, alert_type="alone")
    (event,) = story.shown("llm_tool_call")
    assert event["metadata"]["is_error"] is True and "There is no tool 'cluster__get_pods'" in event["content"]
    assert "There is no tool" in case.requests()[1]["messages"][-1]["content"]


async def test_the_model_reads_the_whole_back_and_hands_it_on_by_its_handle(service: FlowService) -> None:
    """LESSONS: "the full output is in the event above" pointed at something that the model cannot read."""

    def answer(body: dict[str, Any]) -> Any:
        if is_summary(body):
            return SUMMARY
        replies = [message for message in body["messages"] if message["role"] == "tool"]
        if not replies:
            return calls("ops__logs")
        if len(replies) == 1:
            (handle, *_) = re.findall(r"r_[a-z0-9]{16}", replies[0]["content"])
            found = {"handle": handle, "pattern": "connection refused"}
            passed = {"text": f"result:{handle}"}
            asked = [("search_result", found), ("ops__measure", passed)]
            return Reply(
                tool_calls=tuple(
                    {
                        "id": f"r{number}",
                        "type": "function",
                        "function": {"name": name, "arguments": json.dumps(arguments)},
                    }
                    for number, (name, arguments) in enumerate(asked)
                ),
                finish="tool_calls",
            )
        return "done"

    case = service.case(main=answer)
    before = await used(service)
    story = await service.investigate(case)
    after = await used(service)
    assert after["ops", "logs"] - before["ops", "logs"] == Counter(calls=1, read_backs=1), (
        "read on in a result of this tool"
    )
    assert not any(server == "tersely" for server, _ in after), "nobody was called to read a kept result"
    found, measured = (message["content"] for message in case.requests()[-1]["messages"][-2:])
    assert "api-0 cannot reach database db-1: connection refused" in found
    assert "characters" in measured and int("".join(filter(str.isdigit, measured.split(":")[-1]))) > 10_000, (
        "the whole, not the handle"
    )
    assert story.session["status"] == "completed"


async def test_at_the_limit_of_iterations_one_last_answer_concludes(service: FlowService) -> None:
    case = service.case(
        main=[calls("ops__pods_list", namespace="prod"), calls("ops__count"), "What I know: api-0 crashes."]
    )
    story = await service.investigate(case, alert_type="hasty")
    asked = case.requests()
    assert asked[2]["tools"] == asked[1]["tools"] and "No more tools can be called" in case.prompt(2)
    assert asked[2]["messages"][: len(asked[1]["messages"])] == asked[1]["messages"], "what is cached is repeated"
    assert story.session["analysis"] == "What I know: api-0 crashes." and story.traced("final_analysis")


async def test_a_cancelled_session_leaves_nothing_open(service: FlowService) -> None:
    call = calls("side__lines", count=440)
    case = service.case(main=first_calls_then_concludes(call, Reply(SUMMARY, delay=3600)))
    session_id = await service.submit(case)
    with anyio.fail_after(300):
        while not any(is_summary(body) for body in case.requests()):
            await anyio.sleep(0.02)
    assert (await service.web.http.post(f"/api/v1/sessions/{session_id}/cancel")).status_code in (200, 202)
    story = await service.story(session_id, "cancelled")
    assert the_summary(story)["status"] == "cancelled" and story.session["reason"].startswith("Cancelled")
    assert {stage["status"] for stage in story.session["stages"]} == {"cancelled"}
    assert {execution["status"] for stage in story.session["stages"] for execution in stage["executions"]} == {
        "cancelled"
    }
    assert story.events[-1]["type"] == "session.status" and story.events[-1]["status"] == "cancelled"
    (record,) = story.traced("summarization")
    assert story.traced("mcp") and record["error"].startswith("Cancelled") and record["input_tokens"] > 1_000
