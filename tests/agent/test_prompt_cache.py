"""An agent's requests are append-only, so that providers can read what they have seen before from their caches."""

from itertools import pairwise
from typing import Any

import pytest

from tersely.agent.conversation import Conversation, Reply
from tersely.llm.messages import Message
from tersely.masking.masked import assume_masked
from tersely.text.tokens import O200K
from tests.agent.conftest import call
from tests.agent.test_summaries import is_summarizing
from tests.fakes.asking import model_at
from tests.fakes.llm_server import Body, FakeLLMServer
from tests.fakes.llm_server import Reply as Answer
from tests.fakes.strict_llm_server import StrictLLMServer, shared_prefix


def turns_of(server: FakeLLMServer) -> list[Body]:
    return [body for body in server.requests if not is_summarizing(body)]


LONG = "Look at what changed last. " * 300
"""Instructions that are long enough for providers to cache."""

LOOKS = [
    Answer("I list the pods.", tool_calls=(call("ops__pods_list", '{"namespace": "prod"}', "a"),), finish="tool_calls"),
    Answer("I read the logs.", tool_calls=(call("ops__logs", id="b"),), finish="tool_calls"),
    Answer("", tool_calls=(call("ops__count", id="c"), call("ops__say", '{"text": "x"}', id="d")), finish="tool_calls"),
    Answer("", tool_calls=(call("ops__nothing", id="e"),), finish="tool_calls"),
]
REACT = [
    "Thought: the pods\nAction: ops.pods_list\nAction Input: namespace: prod",
    "Thought: the logs\nAction: ops.logs\nAction Input: {}",
    "Thought: count\nAction: ops.count\nAction Input: {}",
    "Thought: nothing\nAction: ops.nothing\nAction Input: {}",
]


@pytest.mark.parametrize(("controller", "looks"), [("function_calling", LOOKS), ("react", REACT)])
async def test_each_request_begins_with_the_one_before_to_the_forced_end(
    workplace: Any, controller: str, looks: list[Any]
) -> None:
    script = iter([*looks, "Final Answer: db-1 is down"])

    def answer(body: Body) -> Any:
        return "db-1 refuses connections." if is_summarizing(body) else next(script)

    async with StrictLLMServer(answer).listening() as server, model_at(server.url) as llm, workplace() as place:
        report = await place.work(llm, summarizer=llm, controller=controller, max_iterations=4, instructions=LONG)
    assert report.status == "completed" and "iterations" in report.reason
    turns = turns_of(server)
    assert len(turns) == 5 and len(server.requests) > 5, "a result was summarized on the way"
    assert min(shared_prefix(*pair) for pair in pairwise(turns)) >= 0.95
    records = [*place.recorder.records("iteration"), *place.recorder.records("final_analysis")]
    cached = [record.usage.cached_tokens for record in records]
    assert cached[0] == 0 and all(cached[1:]), "read from the provider's usage"
    asked = [record.usage.input_tokens for record in records]
    assert records[-1].usage.price < records[0].usage.price * asked[-1] / asked[0], "and priced as such"


async def test_the_tools_stay_the_same_although_a_server_changes_its_own(workplace: Any) -> None:
    script = iter([*LOOKS, "db-1 is down"])

    def answer(body: Body) -> Any:
        if not is_summarizing(body) and len(turns_of(server)) == 2:
            connection = place.registry.connections["ops"]
            connection.tools = connection.tools[:0:-1]
        return "db-1 refuses connections." if is_summarizing(body) else next(script)

    async with StrictLLMServer(answer).listening() as server, model_at(server.url) as llm, workplace() as place:
        await place.work(llm, summarizer=llm)
    turns = turns_of(server)
    assert len(turns) == 5
    assert all(turn["tools"] == turns[0]["tools"] for turn in turns)
    assert min(shared_prefix(*pair) for pair in pairwise(turns)) >= 0.95


async def test_a_model_that_calls_a_tool_when_it_has_to_conclude_is_asked_without_tools(workplace: Any) -> None:
    script: list[Any] = [*LOOKS[:1], LOOKS[3], "What I know."]
    async with StrictLLMServer(script).listening() as server, model_at(server.url) as llm, workplace() as place:
        report = await place.work(llm, max_iterations=1)
    assert report.analysis == "What I know." and report.status == "completed"
    assert "tools" in server.requests[1] and "tools" not in server.requests[2]


def test_a_conversation_shrinks_rarely_and_by_a_quarter_of_the_window() -> None:
    window = 16_384
    room = int((window - 4_096) * 0.97)
    text = assume_masked("The database is slow. " * 150)
    conversation = Conversation([Message("system", text), Message("user", assume_masked("why?"))], O200K)
    before: list[Message] = []
    shrunk = 0
    for number in range(200):
        after = conversation.within(room, step=window // 4)
        if before and after[: len(before)] != before:
            shrunk += 1
            assert conversation.tokens(after) <= room - window // 4
        before = after
        answer = Message("assistant", assume_masked(f"I look at {number}. " + "Some words on why. " * 10))
        reply = Message("user", assume_masked(f"Result {number}: " + "value " * 900))
        conversation.add(answer, [Reply(reply, assume_masked(f"[Earlier: result {number}, kept as r_{number}]"))])
    grown = 200 * (900 + 60)
    assert 0 < shrunk <= grown / (window / 4) * 1.5
