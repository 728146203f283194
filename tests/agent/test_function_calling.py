"""Tools by function calling: what the model is told, what it is answered, and what people see of it."""

from typing import Any

from tests.agent.conftest import call
from tests.fakes.asking import model_at
from tests.fakes.llm_server import FakeLLMServer, Reply


async def test_the_model_calls_a_tool_reads_the_result_and_concludes(workplace: Any) -> None:
    script: list[Any] = [
        Reply(
            thinking="pods first", text="Let me look.", tool_calls=(call("ops__pods_list", '{"namespace": "prod"}'),), finish="tool_calls"
        ),
        "The pod api-0 crashes.",
    ]
    async with FakeLLMServer(script).listening() as server, model_at(server.url) as llm, workplace() as place:
        report = await place.work(llm)
    assert (report.analysis, report.status) == ("The pod api-0 crashes.", "completed")
    answered = server.requests[1]["messages"][-1]
    assert answered["role"] == "tool" and "CrashLoopBackOff" in answered["content"] and answered["content"].startswith("ops.pods_list: ")
    assert [event.type for event in place.diary.events] == [
        "llm_thinking",
        "llm_response",
        "llm_tool_call",
        "llm_response",
        "final_analysis",
    ]
    assert all(event.status == "completed" for event in place.diary.events)
    made = place.diary.of("llm_tool_call")[0]
    assert made.metadata["server_name"] == "ops" and made.metadata["arguments"] == {"namespace": "prod"} and not made.metadata["is_error"]
    assert "CrashLoopBackOff" in made.content and made.metadata["handle"].startswith("r_")
    assert [record.type for _, record in place.diary.interactions] == ["iteration", "mcp", "iteration"]
