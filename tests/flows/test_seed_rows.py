"""Rows of the seed documents that did not hold: each through the real service."""

import json
from typing import Any

import pytest

from tersely.text.tokens import O200K
from tests.fakes.llm_server import Body
from tests.flows.service import FlowService, calls, said

pytestmark = pytest.mark.process

RAW = {"servers": [{"name": "raw"}]}


def result(body: Body) -> str:
    return str(next(message["content"] for message in reversed(body["messages"]) if message["role"] == "tool"))


async def test_a_result_of_a_server_that_is_never_condensed_enters_whole_if_it_fits(service: FlowService) -> None:
    """000 §5, 002 Q6: "full result → agent conversation". 44,911 tokens became 507."""
    case = service.case(main=[calls("raw__lines", count=2_000), "done"])
    story = await service.investigate(case, mcp=RAW)
    text = result(case.requests()[1])
    assert O200K.count(text) > 100_000 // 4 and text.count("INFO shop") == 1_999 and "Shortened" not in text
    assert not story.shown("mcp_tool_summary") and story.session["tokens"]["saved"] == 0


async def test_beyond_the_room_it_is_condensed_to_the_room_there_is(service: FlowService) -> None:
    case = service.case(main=[calls("raw__lines", count=12_000), "done"])
    story = await service.investigate(case, mcp=RAW)
    text, (event,) = result(case.requests()[1]), story.shown("mcp_tool_summary")
    assert event["metadata"]["original_tokens"] > 150_000
    assert O200K.count(text) > 40_000 and O200K.count(said(case.requests()[1])) < 100_000
    assert "db-7: connection refused" in text and event["metadata"]["handle"] in text
    assert not story.traced("summarization")


async def test_a_repeated_line_never_fills_a_conversation(service: FlowService) -> None:
    """An error of 80k tokens, one line repeated, put 32,700 tokens of equal lines into a conversation."""
    case = service.case(main=[calls("side__fail_at_length", count=20_000, about="one line"), "done"])
    await service.investigate(case, mcp={"servers": [{"name": "side"}]})
    text = result(case.requests()[1])
    assert "error detail line" in text and text.count("error detail line") < 20 and O200K.count(text) < 600


async def test_native_tools_reach_a_model_that_cannot_combine_them_if_the_agent_has_no_servers(
    service: FlowService,
) -> None:
    """001 F1, 002 Q7: gemini-2.5 takes native tools or declared ones, not both."""
    case = service.case(google=["nothing to see"])
    story = await service.investigate(case, alert_type="flash")
    (body,) = case.requests("google")
    sent = {name for tool in body["tools"] for name in tool}
    assert sent == {"googleSearch", "urlContext"}, "and no tools to read results that nobody keeps"
    assert not story.shown("error")


async def test_tools_that_cannot_be_combined_are_reported_once(service: FlowService) -> None:
    case = service.case(google=[calls("side__small"), calls("side__lines", count=1), "nothing to see"])
    story = await service.investigate(case, alert_type="flash-tools")
    bodies = case.requests("google")
    declared = [[one["name"] for one in body["tools"][0]["functionDeclarations"]] for body in bodies]
    assert "read_result" in declared[0] and all(names == declared[0] for names in declared), "from the first turn on"
    assert len(story.shown("error")) == 1 and len(bodies) == 3


async def test_a_runbook_that_is_an_address_is_read_later_and_refused_off_the_list(service: FlowService) -> None:
    case = service.case(main=["nothing to see", "nothing to see"])
    body: dict[str, Any] = {"data": case.alert(), "alert_type": "plain"}
    answer = await service.web.http.post(
        "/api/v1/alerts", json={**body, "runbook": "https://github.com/a/b/runbook.md"}
    )
    assert answer.status_code == 202 and "is read from its address" in answer.json()["message"]
    for address in ("https://wiki.example.org/runbook", "http://github.com/a/b.md", "https://u:p@github.com/a.md"):
        refused = await service.web.http.post("/api/v1/alerts", json={**body, "runbook": address})
        assert 400 <= refused.status_code < 500 and "runbook" in refused.json()["error"]["message"]
    text = {**body, "runbook": "See https://example.com, then restart it."}
    plain = await service.web.http.post("/api/v1/alerts", json=text)
    assert plain.status_code == 202 and "runbook" not in plain.json()["message"]
    for accepted in (answer, plain):
        await service.web.until(accepted.json()["session_id"], "completed")
    without = await service.story(answer.json()["session_id"])
    assert without.shown("notice")[0]["content"].startswith("Investigated without the runbook https://github.com/a/b")


async def test_a_model_that_calls_a_tool_instead_of_concluding_is_asked_once_more(service: FlowService) -> None:
    look = [calls("ops__pods_list", namespace="prod"), calls("ops__count")]
    case = service.case(main=[*look, calls("ops__pods_list", text="One more look."), "api-0 crashes."])
    story = await service.investigate(case, alert_type="hasty")
    assert story.session["analysis"] == "api-0 crashes." and "none can be called any more" in case.prompt(3)
    assert "tools" not in case.requests()[3]


async def test_without_any_conclusion_the_session_ends_with_what_was_found(service: FlowService) -> None:
    look = [calls("ops__pods_list", text="I look at the pods.", namespace="prod"), calls("ops__count")]
    case = service.case(main=[*look, calls("ops__count"), calls("ops__count")])
    story = await service.investigate(case, alert_type="hasty")
    analysis = story.session["analysis"]
    assert "gave no conclusion" in analysis and "I look at the pods." in analysis and "api-0" in analysis
    assert len(case.requests()) == 4


async def test_arguments_that_a_schema_does_not_list_are_passed_on_unless_it_forbids_them(service: FlowService) -> None:
    case = service.case(main=[calls("side__lines", count=2, verbose=True), "done"])
    await service.investigate(case, mcp={"servers": [{"name": "side"}]})
    assert "INFO shop" in result(case.requests()[1])


async def test_a_session_ends_with_the_verdict_that_the_model_states(service: FlowService) -> None:
    """001: the executive summary of an ended session, an interaction of its own."""
    verdict = {
        "cause": "db-7 refuses connections",
        "summary": ["The shop lost db-7."],
        "confidence": "medium",
        "evidence": [{"handle": "", "quote": "db-7: connection refused"}],
    }
    case = service.case(main=[calls("raw__lines", count=300), "db-7 is away.", json.dumps(verdict)])
    story = await service.investigate(case, alert_type="judged", mcp=RAW)
    stated = story.session["verdict"]
    assert (stated["cause"], stated["summary"], stated["unverified"]) == (verdict["cause"], "The shop lost db-7.", 0)
    (cited,) = stated["evidence"]
    kept = await service.web.get(
        f"/sessions/{story.session['id']}/results/{cited['handle']}?lines={cited['first_line']}-{cited['last_line']}"
    )
    assert "db-7: connection refused" in kept["text"]
    (shown,) = story.shown("verdict")
    assert shown["content"] == "The shop lost db-7." and shown["metadata"]["cause"] == verdict["cause"]
    assert len(story.traced("executive_summary")) == 1 and story.session["usage"]["model_calls"] == 3
    assert story.session["analysis"] == "db-7 is away."
