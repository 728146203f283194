"""Large results in a conversation: condensed with the investigation in mind, seen by people while it happens, failing
aloud.
"""

import json
import os
from typing import Any

import anyio
import pytest

from tersely.llm.messages import Usage
from tersely.text.tokens import O200K
from tests.agent.conftest import call, ops
from tests.fakes.asking import model_at
from tests.fakes.llm_server import FakeLLMServer, Reply

SUMMARY = "250 requests were served; at 08:02:00 api-0 could not reach database db-1: connection refused. " * 2
LOOKS = Reply(text="I look for database trouble.", tool_calls=(call("ops__logs"),), finish="tool_calls")


def is_summarizing(body: dict[str, Any]) -> bool:
    return "tools" not in body and "investigate an alert" not in str(body["messages"][0]["content"])


async def test_a_large_result_is_summarized_with_the_conversation_and_streams_into_its_event(workplace: Any) -> None:
    script: list[Any] = [LOOKS, SUMMARY, "db-1 is down"]
    async with FakeLLMServer(script).listening() as server, model_at(server.url) as llm, workplace() as place:
        await place.work(llm, summarizer=llm)
    asked = server.requests[1]
    assert (
        is_summarizing(asked)
        and "I look for database trouble." in server.prompt(1)
        and "restarts all the time" in server.prompt(1)
    )
    assert "ops.logs({})" in server.prompt(1) and "You investigate an alert" not in server.prompt(1), (
        "all but the system message"
    )
    assert "You condense the output of a tool" in server.prompt(1) and "NOT in the output" in server.prompt(1)
    answered = server.requests[2]["messages"][-1]["content"]
    assert SUMMARY.strip() in answered and "Shortened from" in answered and O200K.count(answered) <= 1_010
    (event,) = place.recorder.of("mcp_tool_summary")
    assert (
        event.status == "completed"
        and event.pieces > 1
        and SUMMARY.startswith(event.streamed)
        and SUMMARY.strip() in event.content
    )
    expected = {
        "server_name": "ops",
        "tool_name": "logs",
        "status": "summarized",
        "returned": None,
        "summarization_fallback": False,
    }
    assert expected.items() <= event.metadata.items()
    assert (
        event.metadata["summarization_model"] == "openai/gpt-4o-mini"
        and event.metadata["summarization_provider"] == "openrouter"
    )
    assert (
        event.metadata["original_tokens"] > 5_000 >= event.metadata["summary_tokens"]
        and event.metadata["handle"] in answered
    )
    (record,) = place.recorder.records("summarization")
    assert record.usage.calls == 1 and record.usage.input_tokens > 1_000 and not record.error
    (traced,) = place.recorder.records("mcp")
    assert traced.tokens_before > 5_000 >= traced.tokens_after
    assert [phase for phase, _ in place.recorder.phases if phase == "distilling"]


async def test_what_a_summary_made_up_or_lost_is_in_the_event_and_in_the_text(workplace: Any) -> None:
    wrong = Reply("Pod ghost-99 failed at 23:59:59. " * 70 + "And th", finish="length")
    script: list[Any] = [LOOKS, wrong, wrong, "db-1 is down"]
    async with FakeLLMServer(script).listening() as server, model_at(server.url) as llm, workplace() as place:
        await place.work(llm, summarizer=llm)
    (event,) = place.recorder.of("mcp_tool_summary")
    found = event.metadata
    assert found["invented"] == ["ghost-99", "23:59:59"] and found["checked"] == 2
    assert found["unverified"] is True and found["cut"] is True
    answered = server.requests[3]["messages"][-1]["content"]
    assert "Unverified: 2 of 2" in answered and "was cut at its size limit" in answered


async def test_a_secret_that_a_model_makes_up_is_not_listed_when_it_is_asked_again(workplace: Any) -> None:
    """Without the words around it, a password looks like any name; it must reach neither model nor trace."""
    wrong = "Pod ghost-99 failed. password: hunter2hunter2 and so on."
    script: list[Any] = [LOOKS, wrong, wrong, "db-1 is down"]
    async with FakeLLMServer(script).listening() as server, model_at(server.url) as llm, workplace() as place:
        await place.work(llm, summarizer=llm)
    assert "- ghost-99" in server.prompt(2)
    assert not any("hunter2" in server.prompt(number) for number in range(4))
    assert "hunter2" not in str(place.recorder.of("mcp_tool_summary"))


WEBHOOK = {
    "receiver": "hooks",
    "status": "firing",
    "groupKey": '{}/{team="platform"}:{alertname="SlowCheckout"}',
    "externalURL": "http://alertmanager.monitoring.svc:9093",
    "version": "4",
    "truncatedAlerts": 0,
    "alerts": [
        {
            "fingerprint": "8a8a8a8a8a8a8a8a",
            "generatorURL": "http://prometheus.monitoring.svc:9090/graph?g0.expr=rate",
            "labels": {"alertname": "SlowCheckout", "service": "checkout", "severity": "warning"},
            "annotations": {"summary": "Orders at checkout take long"},
        }
    ],
}
"""What Alertmanager sends: more of it is about Alertmanager than about what happened."""


async def test_the_alerts_subject_is_the_focus_and_not_the_envelope_it_came_in(workplace: Any, tmp_path: Any) -> None:
    page = tmp_path / "page"
    lines = [f"scraped target {n * 7919 % 9973} of pool {n * 31 % 97} in {n % 13} ms" for n in range(900)]
    for n in range(20):
        noise = (
            "receiver",
            "firing",
            "group",
            "alertmanager",
            "version",
            "fingerprint",
            "generator",
            "graph",
            "prometheus",
            "monitoring",
        )
        lines[40 * n + 7] = f"{' '.join(noise[n % 5 :])} {n * 613 % 89} alerts truncated"
    lines[523] = "the orders of checkout wait for the lock of table baskets"
    page.write_text("\n".join(lines))
    reads = Reply(tool_calls=(call("ops__page"),), finish="tool_calls")
    small = ops(page=page, summarization={"size_threshold_tokens": 1_000, "summary_max_token_limit": 200})
    async with (
        FakeLLMServer([reads, "done"]).listening() as server,
        model_at(server.url) as llm,
        workplace(small) as place,
    ):
        await place.work(llm, alert=json.dumps(WEBHOOK, indent=2))
    assert "wait for the lock of table baskets" in server.requests[1]["messages"][-1]["content"]


async def test_a_server_can_have_its_own_threshold_and_be_left_out(workplace: Any) -> None:
    servers = [
        ops("small", summarization={"size_threshold_tokens": 100, "summary_max_token_limit": 60}),
        ops("raw", summarization={"enabled": False}),
    ]
    calls = tuple(call(f"{name}__logs", id=name) for name in ("small", "raw"))
    async with FakeLLMServer([Reply(tool_calls=calls, finish="tool_calls"), "done"]).listening() as server:
        async with model_at(server.url, window=400_000) as llm, workplace(*servers) as place:
            await place.work(llm)
    small, raw = (message["content"] for message in server.requests[1]["messages"][-2:])
    assert O200K.count(small) <= 70 and "request 249" in raw and O200K.count(raw) > 5_000
    assert [event.metadata["server_name"] for event in place.recorder.of("mcp_tool_summary")] == ["small"]


async def test_an_unsummarized_result_larger_than_the_window_is_cut_all_the_same(workplace: Any) -> None:
    """LESSONS: fail-open put a result of any size into the conversation and killed the session."""
    async with FakeLLMServer([LOOKS, "done"]).listening() as server, model_at(server.url, window=16_000) as llm:
        async with workplace(ops(summarization={"enabled": False})) as place:
            report = await place.work(llm)
    assert report.analysis == "done" and O200K.count(server.prompt(1)) < 12_000


@pytest.mark.parametrize("failure", [Reply(status=400, error="no"), "", "I cannot help with that."])
async def test_a_summary_that_fails_is_said_in_the_event_and_the_structural_text_goes_on(
    workplace: Any, failure: Any
) -> None:
    def answer(body: dict[str, Any]) -> Any:
        if is_summarizing(body):
            return failure
        return "done" if any(message["role"] == "tool" for message in body["messages"]) else LOOKS

    async with FakeLLMServer(answer).listening() as server, model_at(server.url) as llm, workplace() as place:
        report = await place.work(llm, summarizer=llm)
    assert report.analysis == "done"
    (event,) = place.recorder.of("mcp_tool_summary")
    assert (
        event.status == "completed"
        and event.metadata["status"] == "fallback"
        and event.metadata["returned"] == "structural"
    )
    assert event.metadata["reason"] and event.metadata["summarization_fallback"]
    answered = server.requests[-1]["messages"][-1]["content"]
    assert "connection refused" in answered and "Shortened from" in answered, "data, not an error text"
    (traced,) = place.recorder.records("mcp")
    assert traced.response["summary"]["reason"] == event.metadata["reason"]


async def test_a_summarizer_that_stalls_has_its_own_time_limit_and_its_event_ends(workplace: Any) -> None:
    """LESSONS: a stalled summarizer ate the iteration's time and left an event `streaming` for ever."""

    def answer(body: dict[str, Any]) -> Any:
        if is_summarizing(body):
            return Reply(SUMMARY, delay=3600)
        return "done" if any(message["role"] == "tool" for message in body["messages"]) else LOOKS

    with anyio.fail_after(300):
        async with (
            FakeLLMServer(answer).listening() as server,
            model_at(server.url) as llm,
            workplace(condense_seconds=0.2) as place,
        ):
            report = await place.work(llm, summarizer=llm)
    (event,) = place.recorder.of("mcp_tool_summary")
    assert (
        report.analysis == "done"
        and event.metadata["status"] == "fallback"
        and "not ready within 0.2 s" in event.metadata["reason"]
    )
    assert "connection refused" in server.requests[-1]["messages"][-1]["content"]
    (traced,) = place.recorder.records("mcp")
    assert traced.response["summary"]["reason"] == event.metadata["reason"]
    (record,) = place.recorder.records("summarization")
    assert record.error.startswith("Cancelled") and record.response["outcome"] == "cancelled"
    asked = O200K.count("".join(str(message["content"]) for message in server.requests[1]["messages"]))
    assert record.usage.calls == 1 and abs(record.usage.input_tokens - asked) <= 10, (
        "the question was read, and is paid for"
    )
    assert record.usage.price, "by a model whose price is known"


async def test_of_a_summary_that_takes_too_long_the_parts_that_came_are_counted(workplace: Any, tmp_path: Any) -> None:
    page = tmp_path / "page"
    page.write_text(
        "\n".join(
            f"{n}: visitor {n * 7919} came from street {n * 31 % 977} and left at {n % 24}:15" for n in range(1_000)
        )
    )
    came = []

    def answer(body: dict[str, Any]) -> Any:
        if is_summarizing(body):
            came.append(body)
            return Reply(SUMMARY, delay=0 if len(came) == 1 else 3600)
        return "done" if any(message["role"] == "tool" for message in body["messages"]) else reads

    reads = Reply(tool_calls=(call("ops__page"),), finish="tool_calls")
    async with FakeLLMServer(answer).listening() as server, model_at(server.url) as llm:
        async with model_at(server.url, window=6_000) as small, workplace(ops(page=page), condense_seconds=5) as place:
            with anyio.fail_after(300):
                await place.work(llm, summarizer=small)
    records = place.recorder.records("summarization")
    assert len(came) > 1 and [record.usage.calls for record in records] == [1] * len(came)
    assert [record.response["outcome"] for record in records] == ["answered"] + ["cancelled"] * (len(came) - 1)
    usage = sum((record.usage for record in records), Usage())
    assert usage.input_tokens > 10_000 > usage.output_tokens > 0


async def test_a_fallback_that_wrote_the_summary_is_named(workplace: Any) -> None:
    first, second = FakeLLMServer([401]), FakeLLMServer([SUMMARY])
    thinker = FakeLLMServer([LOOKS, "done"])
    async with (
        first.listening(),
        second.listening(),
        thinker.listening(),
        model_at(thinker.url) as llm,
        workplace() as place,
    ):
        async with model_at(first.url, second.url) as summarizer:
            await place.work(llm, summarizer=summarizer)
    (event,) = place.recorder.of("mcp_tool_summary")
    assert event.metadata["status"] == "summarized" and event.metadata["summarization_model"] == "openai/gpt-4o-mini"
    assert not any("tools" in request for request in second.requests)


async def test_a_cancelled_investigation_leaves_no_event_streaming(workplace: Any) -> None:
    def answer(body: dict[str, Any]) -> Any:
        return Reply(SUMMARY, delay=3600) if is_summarizing(body) else LOOKS

    async with FakeLLMServer(answer).listening() as server, model_at(server.url) as llm, workplace() as place:

        async def work() -> None:
            await place.work(llm, summarizer=llm)

        with anyio.fail_after(300):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(work)
                while len(server.requests) < 2:
                    await anyio.sleep(0.01)
                tasks.cancel_scope.cancel()
    assert {event.status for event in place.recorder.events} == {"completed", "cancelled"}
    assert place.recorder.of("mcp_tool_summary")[0].status == "cancelled"
    (traced,) = place.recorder.records("mcp")
    assert traced.request["tool"] == "logs" and traced.response["tokens"] > 5_000, "the tool was called"
    (record,) = place.recorder.records("summarization")
    assert record.error.startswith("Cancelled") and record.usage.calls == 1 and record.usage.input_tokens > 1_000


@pytest.mark.parametrize("when", ["asking", "calling"])
async def test_what_was_under_way_when_it_was_cancelled_stands_in_the_trace(
    workplace: Any, tmp_path: Any, when: str
) -> None:
    pipe = tmp_path / "never"
    os.mkfifo(pipe)  # Reading it blocks.
    reads = Reply(tool_calls=(call("ops__page"),), finish="tool_calls")
    script: list[Any] = [Reply("It is, I think, the database. " * 40, delay=3600) if when == "asking" else reads]
    async with (
        FakeLLMServer(script).listening() as server,
        model_at(server.url) as llm,
        workplace(ops(page=pipe)) as place,
    ):
        with anyio.fail_after(300):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(place.work, llm)
                while not (server.requests if when == "asking" else place.recorder.of("llm_tool_call")):
                    await anyio.sleep(0.01)
                tasks.cancel_scope.cancel()
    (record,) = place.recorder.records("iteration" if when == "asking" else "mcp")
    assert record.error.startswith("Cancelled") and not record.response.get("text")
    assert (record.usage.calls, record.usage.input_tokens > 100) == ((1, True) if when == "asking" else (0, False))


async def test_a_tool_can_have_its_own_summarizing_model_or_none(workplace: Any) -> None:
    servers = [
        ops("one", tool_policies={"logs": {"summarization": {"llm_provider": "careful"}}}),
        ops(
            "two",
            summarization={"llm_provider": "careful"},
            tool_policies={"logs": {"summarization": {"llm_provider": "quick"}}},
        ),
        ops("three", tool_policies={"lo*": {"summarization": {"use_model": False}}}),
        ops("four"),
    ]
    calls = tuple(call(f"{server.name}__logs", id=server.name) for server in servers)
    thinker = FakeLLMServer([Reply(tool_calls=calls, finish="tool_calls"), "done"])
    careful, quick, default = FakeLLMServer([SUMMARY]), FakeLLMServer([SUMMARY]), FakeLLMServer([SUMMARY])
    async with (
        thinker.listening(),
        careful.listening(),
        quick.listening(),
        default.listening(),
        workplace(*servers) as place,
    ):
        async with (
            model_at(thinker.url) as llm,
            model_at(careful.url) as first,
            model_at(quick.url) as second,
            model_at(default.url) as last,
        ):
            await place.work(llm, summarizer=last, summarizers={"careful": first, "quick": second})
    assert [len(one.requests) for one in (careful, quick, default)] == [1, 1, 1]
    events = {event.metadata["server_name"]: event.metadata for event in place.recorder.of("mcp_tool_summary")}
    assert events["three"]["status"] == "structural" and events["three"]["summarization_model"] == "", (
        "nobody is named who was not asked"
    )


async def test_error_results_never_go_to_a_summarizing_model(workplace: Any, tmp_path: Any) -> None:
    script: list[Any] = [Reply(tool_calls=(call("ops__fail"),), finish="tool_calls"), "done"]
    async with FakeLLMServer(script).listening() as server, model_at(server.url) as llm, workplace() as place:
        await place.work(llm, summarizer=llm)
    assert server.requests[1]["messages"][-1]["content"] == "ops.fail: the backend is on fire"
    assert place.recorder.of("llm_tool_call")[0].metadata["is_error"] and not place.recorder.of("mcp_tool_summary")
