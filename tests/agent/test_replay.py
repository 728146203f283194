"""A killed investigation is gone through again: the same conversation, and no second call of anything that was done."""

import json
import re
from typing import Any

import anyio
import pytest

from tersely.sessions.codec import RecordCodec
from tersely.sessions.records import SESSION_TYPES
from tests.agent.conftest import Recorder, call, ops
from tests.agent.test_summaries import SUMMARY
from tests.fakes.asking import model_at
from tests.fakes.llm_server import FakeLLMServer, Reply
from tests.fakes.recorder import MemoryRecorder

SCRIPT: list[Any] = [
    Reply(
        text="Pods and logs.",
        tool_calls=(call("ops__pods_list", '{"namespace": "prod"}', "a"), call("ops__logs", id="b")),
        finish="tool_calls",
    ),
    SUMMARY,
    Reply(text="Again.", tool_calls=(call("ops__logs", id="c"), call("nothing", id="d")), finish="tool_calls"),
    "",
    Reply(tool_calls=(call("ops__pods_list", '{"namespace": "test"}', "e"),), finish="tool_calls"),
    "It is db-1.",
]
REACT: list[Any] = [
    "Thought: logs\nAction: ops.logs\nAction Input: {}\nObservation: none",
    SUMMARY,
    "no marker",
    'Thought: pods\nAction: ops.pods_list\nAction Input: {"namespace": "prod"}',
    "Final Answer: It is db-1.",
]


class Killed(Exception):
    pass


class DiesAfter(Recorder):
    """A process that is killed when it is about to begin its next piece of work, and nothing else is under way."""

    def __init__(self, pieces: int) -> None:
        super().__init__()
        self.left = pieces

    async def __call__(self, name: str, work: Any) -> Any:
        if len(self.worked) == self.left:
            while len(self.results) < len(self.worked):
                await anyio.sleep(0.005)
            raise Killed
        return await super().__call__(name, work)


@pytest.mark.parametrize(("controller", "script"), [("function_calling", SCRIPT), ("react", REACT)])
async def test_at_whatever_step_it_is_killed_it_goes_on_from_there_with_the_same_conversation(
    workplace: Any, controller: str, script: list[Any]
) -> None:
    async with FakeLLMServer(list(script)).listening() as server, model_at(server.url) as llm, workplace() as place:
        whole = Recorder()
        report = await place.work(llm, summarizer=llm, step=whole, controller=controller)
        conversations = [_plain(request) for request in server.requests]
        assert report.analysis == "It is db-1." and report.status == "completed"
        assert len(set(whole.worked)) == len(whole.worked) > 6, "every step has a name of its own"

        for cut in range(len(whole.worked)):
            server.script, server.requests, place.recorder = list(script), [], MemoryRecorder()
            first = DiesAfter(cut)
            with pytest.raises((Killed, BaseExceptionGroup)):
                await place.work(llm, summarizer=llm, step=first, controller=controller)
            place.recorder = MemoryRecorder()
            second = Recorder(first.results)
            assert await place.work(llm, summarizer=llm, step=second, controller=controller) == report
            assert [*first.worked, *second.worked] == whole.worked, (
                "what was done is not done again, and the rest in the same order"
            )
            assert [_plain(request) for request in server.requests] == conversations


def _plain(request: dict[str, Any]) -> str:
    """A conversation without what is drawn anew for each run: handles, and the numbers of a summarizing prompt's
    marks.
    """
    return re.sub(r"r_[a-z0-9]{16}|\b[0-9a-f]{16}\b", "#", json.dumps(request["messages"], sort_keys=True))


SECRET = "password=hunter2-Walnut!orbit42"
SAYS: dict[str, Any] = {
    "function_calling": Reply(tool_calls=(call("ops__measure", json.dumps({"text": SECRET})),), finish="tool_calls"),
    "react": "Thought: how long is it?\nAction: ops.measure\nAction Input: " + json.dumps({"text": SECRET}),
}
CONCLUDES = {"function_calling": "done", "react": "Final Answer: done"}


@pytest.mark.parametrize("controller", ["function_calling", "react"])
async def test_a_tool_is_sent_what_the_model_wrote_or_is_not_called_whenever_the_process_dies(
    workplace: Any, controller: str
) -> None:
    """What is stored of an answer is masked. A mark sent in place of a secret would be looked for, stored or run as if
    it were meant.
    """
    says, concludes = SAYS[controller], CONCLUDES[controller]
    async with (
        FakeLLMServer([says, concludes]).listening() as server,
        model_at(server.url) as llm,
        workplace() as place,
    ):
        whole = Recorder()
        await place.work(llm, step=whole, controller=controller)
        assert f"{len(SECRET)} characters" in str(server.requests[1]["messages"][-1]["content"]), "as written"

        server.script, server.requests, place.recorder = [says, says, concludes], [], MemoryRecorder()
        first = DiesAfter(1)
        with pytest.raises((Killed, BaseExceptionGroup)):
            await place.work(llm, step=first, controller=controller)
        assert "hunter2" not in RecordCodec(SESSION_TYPES).to_json(first.results), "the model's answer is stored masked"
        place.recorder = MemoryRecorder()
        second = Recorder(first.results)
        await place.work(llm, step=second, controller=controller)
        told, again = (str(request["messages"][-1]["content"]) for request in server.requests[1:3])
        assert "was not made" in told and "Make the call again" in told
        assert f"{len(SECRET)} characters" in again, "and the model does so"
        assert "hunter2" not in RecordCodec(SESSION_TYPES).to_json(second.results)


async def test_a_mark_that_the_model_was_shown_is_sent_as_it_stands_also_after_a_crash(
    workplace: Any, tmp_path: Any
) -> None:
    page = tmp_path / "page"
    page.write_text(f"Connect with {SECRET} to db-1.")

    def answer(body: dict[str, Any]) -> Any:
        results = [message["content"] for message in body["messages"] if message["role"] == "tool"]
        if not results:
            return Reply(tool_calls=(call("ops__page"),), finish="tool_calls")
        mark = re.search(r"\[MASKED:[^\]]+\]", results[0])
        assert mark
        return (
            "done"
            if len(results) > 1
            else Reply(tool_calls=(call("ops__say", json.dumps({"text": mark[0]})),), finish="tool_calls")
        )

    async with (
        FakeLLMServer(answer).listening() as server,
        model_at(server.url) as llm,
        workplace(ops(page=page)) as place,
    ):
        first = DiesAfter(3)
        with pytest.raises((Killed, BaseExceptionGroup)):
            await place.work(llm, step=first)
        place.recorder = MemoryRecorder()
        await place.work(llm, step=Recorder(first.results))
    shown, said = (message["content"] for message in server.requests[-1]["messages"] if message["role"] == "tool")
    assert said.removeprefix("ops.say: ").startswith("[MASKED:") and said.removeprefix("ops.say: ") in shown


async def test_what_needs_no_condensing_is_one_step_whose_result_holds_it(workplace: Any) -> None:
    """A stored step costs a commit. And whether there is a second one must not depend on a policy that may change
    meanwhile.
    """
    calls = (call("ops__pods_list", '{"namespace": "prod"}', "a"), call("ops__logs", id="b"), call("nothing", id="c"))
    script: list[Any] = [Reply(tool_calls=calls, finish="tool_calls"), "done"]
    async with FakeLLMServer(script).listening() as server, model_at(server.url) as llm, workplace() as place:
        whole = Recorder()
        await place.work(llm, step=whole)
        conversation = _plain(server.requests[1])
        assert [name for name in whole.worked if name.endswith("/condense")] == ["st1/1/2/condense"], (
            "only the large one"
        )
    known = {name: result for name, result in whole.results.items() if name != "st1/2/model"}
    large = ops(summarization={"size_threshold_tokens": 100, "summary_max_token_limit": 50})
    async with FakeLLMServer(["done"]).listening() as server, model_at(server.url) as llm, workplace(large) as place:
        again = Recorder(known)
        await place.work(llm, step=again)
        assert again.worked == ["st1/2/model"] and _plain(server.requests[0]) == conversation
