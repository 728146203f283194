"""A killed investigation is gone through again: the same conversation, and no second call of anything that was done."""

import json
import re
from typing import Any

import anyio
import pytest

from tests.agent.conftest import Recorder, call
from tests.agent.test_summaries import SUMMARY
from tests.fakes.asking import model_at
from tests.fakes.diary import MemoryDiary
from tests.fakes.llm_server import FakeLLMServer, Reply

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
            server.script, server.requests, place.diary = list(script), [], MemoryDiary()
            first = DiesAfter(cut)
            with pytest.raises((Killed, BaseExceptionGroup)):
                await place.work(llm, summarizer=llm, step=first, controller=controller)
            place.diary = MemoryDiary()
            second = Recorder(first.results)
            assert await place.work(llm, summarizer=llm, step=second, controller=controller) == report
            assert [*first.worked, *second.worked] == whole.worked, "what was done is not done again, and the rest in the same order"
            assert [_plain(request) for request in server.requests] == conversations


def _plain(request: dict[str, Any]) -> str:
    """A conversation without what is drawn anew for each run: handles, and the numbers of a summarizing prompt's marks."""
    return re.sub(r"r_[a-z0-9]{16}|\b[0-9a-f]{16}\b", "#", json.dumps(request["messages"], sort_keys=True))
