"""Follow-up questions about ended sessions: asked, streamed, masked, priced, limited, cancelled, without a model."""

import json
import uuid
from collections.abc import AsyncIterator, Mapping
from typing import Any

import anyio
import pytest

from tests.fakes.llm_server import Body, Reply
from tests.flows.service import FlowService, calls, flow_service, said, server_of

pytestmark = pytest.mark.process

QUICK = {"size_threshold_tokens": 2_000, "summary_max_token_limit": 500}
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def configuration(models: Mapping[str, str]) -> dict[str, Any]:
    provider = {"type": "openrouter", "model": "openai/gpt-4o-mini", "base_url": models["main"], "api_key": "k"}
    return {
        "llm_providers": {"main": {**provider, "context_window": 60_000}},
        "mcp_servers": {"side": server_of("large", summarization=QUICK), "more": server_of("large")},
        "agents": {
            "looker": {"mcp_servers": ["side"], "instructions": "You know this shop."},
        },
        "chains": {
            "plain": {"alert_types": ["plain"], "stages": [{"name": "look", "agent": "looker"}]},
        },
        "defaults": {"alert_type": "plain", "verdict": False},
        "chat": {"max_questions": 4, "max_iterations": 30, "max_tokens": 9_000},
        "queue": {"max_concurrent_sessions": 6, "poll": 0.05, "grace": 2},
    }


@pytest.fixture(scope="module")
async def service(store_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FlowService]:
    folder = tmp_path_factory.mktemp("chat")
    async with flow_service(store_url, folder, configuration, providers=("main",)) as service:
        yield service


async def ask(service: FlowService, session_id: str, question: str) -> dict[str, Any]:
    answer = await service.web.http.post(f"/api/v1/sessions/{session_id}/chat", json={"question": question})
    assert answer.status_code == 202, answer.text
    return dict(answer.json())


async def refused(service: FlowService, session_id: str, question: str) -> tuple[int, str]:
    answer = await service.web.http.post(f"/api/v1/sessions/{session_id}/chat", json={"question": question})
    return answer.status_code, answer.json()["error"]["code"]


def kept_handle(body: Body) -> str:
    """The first handle that the model is told of."""
    return said(body).split("read_result:\n", 1)[1].split("r_", 1)[1][:16]


async def test_a_question_is_answered_with_the_same_tools_and_handles_streamed_masked_and_priced(
    service: FlowService,
) -> None:
    script = [
        calls("side__lines", count=3),
        "The shop lost its database.",
        lambda body: calls("read_result", handle=f"r_{kept_handle(body)}", start_line=2, end_line=2),
        Reply(f"It is on line 2. The token is {SECRET}, which nobody should see. " + "And so on. " * 20),
        "You asked that before: line 2.",
    ]

    def answer(body: Body) -> Any:
        reply = script.pop(0)
        return reply(body) if callable(reply) else reply

    case = service.case(main=answer)
    session_id = await service.submit(case, mcp={"servers": [{"name": "side", "tools": ["lines"]}]})
    before = await service.web.until(session_id, "completed")
    async with service.web.viewer() as viewer, service.web.viewer() as other:
        await viewer.say(action="subscribe", channel=f"session:{session_id}", last_seq=before["last_seq"])
        accepted = await ask(service, session_id, f"Which line? My token is {SECRET}.")
        assert accepted["number"] == 1 and accepted["session_id"] == session_id
        chat_id = accepted["chat_id"]
        await other.say(action="subscribe", channel=f"session:{chat_id}")
        live = [json.loads(text) for text in await viewer.stored('"completed"')]
        followed = [await other.hear()]
        while followed[-1]["type"] != "session.status" or followed[-1]["status"] != "completed":
            followed.append(await other.hear())
    assert [(one["type"], one["status"]) for one in live] == [
        ("chat.status", status) for status in ("pending", "in_progress", "completed")
    ]
    assert any(one["type"] == "stream.chunk" for one in followed)

    story = await service.story(chat_id)
    kinds = [one["event_type"] for one in story.timeline]
    assert (kinds[0], kinds[-1]) == ("user_question", "chat_response") and "llm_tool_call" in kinds
    assert {one["interaction_type"] for one in story.trace} == {"chat_response", "mcp"}
    # It has the same tools as the alert's override left, and what it read is a kept result of the session.
    offered = {tool["function"]["name"] for tool in case.requests()[2]["tools"]}
    assert offered == {"side__lines", "read_result"}
    prompt = case.prompt(2)
    assert "You know this shop." in prompt and "The shop lost its database." in prompt and "Your answer" in prompt
    (read,) = story.shown("llm_tool_call")
    assert "db-7" in read["content"] and not read["metadata"]["is_error"]

    (question,) = (await service.web.get(f"/sessions/{session_id}/chat"))["items"]
    assert question["status"] == "completed" and question["answer"].startswith("It is on line 2.")
    assert question["usage"]["model_calls"] == 2 and question["usage"]["price_usd"] > 0
    assert SECRET not in json.dumps([question, story.timeline, story.events, story.trace])
    assert all(SECRET not in said(body) for body in case.requests())
    # The session itself is as it was, and its questions are no sessions of the list.
    after = await service.web.get(f"/sessions/{session_id}")
    assert {**after, "last_seq": 0} == {**before, "last_seq": 0, "questions": 1}
    listed = [one["id"] for one in await service.all("/sessions")]
    assert session_id in listed and chat_id not in listed

    # The next one knows what was said.
    second = await ask(service, session_id, "Really?")
    await service.web.until(second["chat_id"], "completed")
    assert "It is on line 2." in case.prompt(4) and "Which line?" in case.prompt(4)

    exported = await service.web.get(f"/sessions/{session_id}/export")
    assert [one["number"] for one in exported["chat"]] == [1, 2]
    deleted = await service.web.http.delete(f"/api/v1/sessions/{session_id}")
    assert deleted.status_code == 204
    for gone in (session_id, chat_id, second["chat_id"]):
        assert (await service.web.http.get(f"/api/v1/sessions/{gone}")).status_code == 404
    assert await refused(service, session_id, "Are you there?") == (404, "session_not_found")


async def test_bad_questions_are_refused_and_a_running_answer_can_be_cancelled(service: FlowService) -> None:
    holds, asked = anyio.Event(), anyio.Event()

    async def hold() -> None:
        asked.set()
        await holds.wait()

    def answer(body: Body) -> Any:
        return Reply("It has to do with the database. " * 4, halfway=hold if "Hold on" in said(body) else None)

    case = service.case(main=answer)
    ended = await service.submit(case)
    await service.web.until(ended, "completed")
    assert await refused(service, ended, " \n ") == (400, "empty_question")
    assert await refused(service, ended, "x" * 8_001) == (422, "invalid")
    assert await refused(service, str(uuid.uuid4()), "Why?") == (404, "session_not_found")

    running = await service.submit(case, runbook="Hold on.")
    assert await refused(service, running, "Why?") == (409, "session_not_ended")
    await asked.wait()
    question = await ask(service, ended, "Hold on, why?")
    waiting = [await ask(service, ended, f"Question {number}?") for number in (2, 3, 4)]
    assert [one["status"] for one in waiting] == ["pending"] * 3
    assert "is answered after question 3" in waiting[-1]["message"]
    assert await refused(service, ended, "Why?") == (409, "chat_limit")
    assert await refused(service, question["chat_id"], "Why?") == (409, "chat_on_question")
    assert (await service.web.http.delete(f"/api/v1/sessions/{ended}")).status_code == 409
    path = f"/api/v1/sessions/{ended}/chat"
    assert (await service.web.http.post(f"{path}/7/cancel")).json()["error"]["code"] == "question_not_found"
    # One that waits is cancelled at once; then the one that is answered.
    assert (await service.web.http.post(f"{path}/3/cancel")).json()["status"] == "cancelled"
    assert (await service.web.http.post(f"{path}/1/cancel")).status_code == 200
    await service.web.until(question["chat_id"], "cancelled")
    for one in (waiting[0], waiting[2]):
        await service.web.until(one["chat_id"], "completed")
    holds.set()
    asked_now = [one for one in case.requests() if "follow-up question" in said(one)]
    assert ["Question 2?" in said(one) for one in asked_now[-2:]] == [True, True], "the last one is told of the second"
    assert [one["status"] for one in (await service.web.get(f"/sessions/{ended}/chat"))["items"]] == [
        "cancelled", "completed", "cancelled", "completed",
    ]  # fmt: skip
    await service.web.until(running, "completed")


async def test_the_budget_of_a_question_makes_the_model_answer(service: FlowService) -> None:
    def answer(body: Body) -> Any:
        if "follow-up question" not in said(body):
            return "Done."
        if "9,000 tokens, is used up" in said(body):
            return "That is all I know."
        return calls("side__lines", count=len(case.requests()))

    case = service.case(main=answer)
    session_id = await service.submit(case)
    await service.web.until(session_id, "completed")
    question = await ask(service, session_id, "What else?")
    await service.web.until(question["chat_id"], "completed")
    (one,) = (await service.web.get(f"/sessions/{session_id}/chat"))["items"]
    assert one["answer"].startswith("That is all I know.") and "9,000 tokens, is used up" in one["reason"]
    assert 4_000 < one["usage"]["input_tokens"] + one["usage"]["output_tokens"] <= 9_000
