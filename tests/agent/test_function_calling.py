"""Tools by function calling: what the model receives, what it is answered, and what the timeline shows."""

import dataclasses
import json
import re
from random import Random
from typing import Any

import anyio
import pytest

from tersely.errors import LLMUnavailable
from tersely.llm.limits import RetryPolicy
from tersely.llm.providers import NativeTools
from tersely.masking.clean import clean_json
from tersely.masking.masked import assume_masked
from tersely.mcp.servers import Server, ServerOptions
from tersely.text.tokens import O200K
from tests.agent.conftest import call, ops
from tests.fakes.asking import model_at, say
from tests.fakes.llm_server import FakeLLMServer, Reply


async def test_the_model_calls_a_tool_reads_the_result_and_concludes(workplace: Any) -> None:
    script: list[Any] = [
        Reply(
            thinking="pods first",
            text="Let me look.",
            tool_calls=(call("ops__pods_list", '{"namespace": "prod"}'),),
            finish="tool_calls",
        ),
        "The pod api-0 crashes.",
    ]
    async with FakeLLMServer(script).listening() as server, model_at(server.url) as llm, workplace() as place:
        report = await place.work(llm)
    assert (report.analysis, report.status) == ("The pod api-0 crashes.", "completed")
    answered = server.requests[1]["messages"][-1]
    assert (
        answered["role"] == "tool"
        and "CrashLoopBackOff" in answered["content"]
        and answered["content"].startswith("ops.pods_list: ")
    )
    assert [event.type for event in place.recorder.events] == [
        "llm_thinking",
        "llm_response",
        "llm_tool_call",
        "llm_response",
        "final_analysis",
    ]
    assert all(event.status == "completed" for event in place.recorder.events)
    made = place.recorder.of("llm_tool_call")[0]
    assert (
        made.metadata["server_name"] == "ops"
        and made.metadata["arguments"] == {"namespace": "prod"}
        and not made.metadata["is_error"]
    )
    assert "CrashLoopBackOff" in made.content and made.metadata["handle"].startswith("r_")
    assert [record.type for _, record in place.recorder.interactions] == ["iteration", "mcp", "iteration"]


async def test_parallel_calls_run_side_by_side_and_are_answered_in_their_order(workplace: Any) -> None:
    calls = tuple(call("ops__say", json.dumps({"text": f"answer {n}"}), id=f"c{n}") for n in range(4))
    script: list[Any] = [Reply(tool_calls=calls, finish="tool_calls"), "done"]
    async with FakeLLMServer(script).listening() as server, model_at(server.url) as llm, workplace() as place:
        await place.work(llm)
    answers = [message for message in server.requests[1]["messages"] if message["role"] == "tool"]
    assert [(one["tool_call_id"], one["content"]) for one in answers] == [
        (f"c{n}", f"ops.say: answer {n}") for n in range(4)
    ]


async def test_servers_are_told_which_trace_a_call_belongs_to(workplace: Any) -> None:
    calls = tuple(
        call(f"ops__{tool}", json.dumps(given), id=tool) for tool, given in (("say", {"text": "which trace?"}),)
    )
    script: list[Any] = [Reply(tool_calls=calls, finish="tool_calls"), "done"]
    async with FakeLLMServer(script).listening() as server, model_at(server.url) as llm, workplace() as place:
        await place.work(llm)
    answer = server.requests[1]["messages"][-1]["content"]
    assert re.fullmatch(r"ops\.say: 00-[0-9a-f]{32}-[0-9a-f]{16}-01", answer), answer


async def test_an_empty_answer_is_nudged_and_three_in_a_row_end_in_a_conclusion(workplace: Any) -> None:
    async with (
        FakeLLMServer(["", "", "", "All I know."]).listening() as server,
        model_at(server.url) as llm,
        workplace() as place,
    ):
        report = await place.work(llm)
    assert report.analysis == "All I know." and "in a row" in report.reason
    assert "Your answer was empty" in server.requests[1]["messages"][-1]["content"]
    assert server.requests[3]["tools"] == server.requests[2]["tools"], "the last request repeats what is cached"
    assert "No more tools can be called" in server.prompt(3)


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("ops__pods_lst", "{}", "Did you mean 'ops.pods_list'"),
        ("kubectl", "{}", "There is no tool 'kubectl'"),
        ("ops__pods_delete", '{"name": "api-0"}', "declares itself destructive"),
        ("ops__pods_list", "{not json", "not valid JSON"),
        ("ops__pods_list", '{"namespace": "prod", "_extra": 1}', "no argument '_extra'"),
        ("ops__pods_list", "{}", "needs 'namespace'"),
        ("read_result", '{"handle": "r_0123456789abcdef"}', "No kept result has the handle"),
    ],
)
async def test_a_call_that_cannot_be_made_is_answered_with_why_and_is_an_event(
    workplace: Any, name: str, arguments: str, said: str
) -> None:
    script: list[Any] = [Reply(tool_calls=(call(name, arguments),), finish="tool_calls"), "done"]
    async with FakeLLMServer(script).listening() as server, model_at(server.url) as llm, workplace() as place:
        report = await place.work(llm)
    assert report.status == "completed"
    assert said in server.requests[1]["messages"][-1]["content"]
    (event,) = place.recorder.of("llm_tool_call")
    assert event.metadata["is_error"] and said in event.content and event.status == "completed"
    assert "DELETED" not in server.prompt(1)


async def test_arguments_are_sent_as_they_were_written_and_kept_masked(workplace: Any) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    wish = call("ops__measure", json.dumps({"text": secret}))
    script: list[Any] = [Reply(text=f"I use {secret}", tool_calls=(wish,), finish="tool_calls"), "done"]
    async with FakeLLMServer(script).listening() as server, model_at(server.url) as llm, workplace() as place:
        await place.work(llm)
    assert server.requests[1]["messages"][-1]["content"] == f"ops.measure: {len(secret)} characters", (
        "the tool gets what the model wrote"
    )
    seen = json.dumps([(event.content, event.streamed, event.metadata) for event in place.recorder.events]) + repr(
        place.recorder.interactions
    )
    assert secret not in seen and secret not in server.prompt(1)


async def test_the_model_reads_a_kept_result_back_and_the_page_is_not_condensed_again(workplace: Any) -> None:
    def answer(body: dict[str, Any]) -> Any:
        asked = len(server.requests)
        if asked == 1:
            return Reply(tool_calls=(call("ops__logs"),), finish="tool_calls")
        if asked == 2:
            handle = re.findall(r"r_[a-z0-9]{16}", body["messages"][-1]["content"])[0]
            return Reply(
                tool_calls=(call("read_result", json.dumps({"handle": handle, "start_line": 119, "end_line": 123})),),
                finish="tool_calls",
            )
        return "the database refuses connections"

    server = FakeLLMServer(answer)
    async with server.listening(), model_at(server.url) as llm, workplace() as place:
        await place.work(llm)
    condensed, page = server.requests[1]["messages"][-1]["content"], server.requests[2]["messages"][-1]["content"]
    assert "Shortened from" in condensed and "connection refused" in condensed
    assert page.startswith("read_result: [r_") and "request 119 served" in page and "connection refused" in page
    assert [event.metadata["tool_name"] for event in place.recorder.of("llm_tool_call")] == ["logs", "read_result"]
    (summary,) = place.recorder.of("mcp_tool_summary")
    assert summary.metadata["status"] == "structural" and summary.status == "completed", (
        "people see what was condensed without a model, too"
    )


async def test_only_the_assignments_servers_are_named_offered_and_called(workplace: Any) -> None:
    """LESSONS: the override replaced the tools and left the other servers' instructions in the prompt."""
    servers = [ops("ops", instructions="Ask ops first."), ops("vault", instructions="The vault holds secrets.")]
    script: list[Any] = [
        Reply(
            tool_calls=(call("vault__pods_list", '{"namespace": "prod"}'), call("ops__logs", id="c2")),
            finish="tool_calls",
        ),
        "done",
    ]
    async with FakeLLMServer(script).listening() as server, model_at(server.url) as llm, workplace(*servers) as place:
        await place.work(llm, servers=("ops",), tools={"ops": ("pods_list",)}, instructions="You are the agent of ops.")
    system = server.requests[0]["messages"][0]["content"]
    assert (
        "Ask ops first." in system
        and "You are the agent of ops." in system
        and "vault" not in json.dumps(server.requests[0])
    )
    offered = [tool["function"]["name"] for tool in server.requests[0]["tools"]]
    assert offered == ["ops__pods_list", "read_result"]
    assert all(event.metadata["is_error"] for event in place.recorder.of("llm_tool_call"))
    answers = [message["content"] for message in server.requests[1]["messages"] if message["role"] == "tool"]
    assert all("There is no tool" in one and "vault.p" not in one.partition("There are:")[2] for one in answers)


async def test_a_server_that_cannot_be_reached_is_named_in_the_prompt(workplace: Any) -> None:
    gone = Server(name="gone", options=ServerOptions.model_validate({"transport": {"command": "/nonexistent/program"}}))
    async with (
        FakeLLMServer(["done"]).listening() as server,
        model_at(server.url) as llm,
        workplace(ops(), gone) as place,
    ):
        await place.work(llm)
    assert "Servers that cannot be reached" in server.prompt(0) and "- gone" in server.prompt(0)


async def test_the_prompt_tells_the_task_the_runbook_and_what_earlier_stages_found(workplace: Any) -> None:
    async with FakeLLMServer(["done"]).listening() as server, model_at(server.url) as llm, workplace() as place:
        more = {
            "task": "Name the owner.",
            "runbook": assume_masked("Ask Ada."),
            "earlier": [("triage", assume_masked("api-0 is ill"))],
        }
        await place.work(llm, **more)
    asked = server.requests[0]["messages"][1]["content"]
    assert all(
        said in asked
        for said in ("Name the owner.", "Ask Ada.", "'triage'", "api-0 is ill", "PodCrash", "restarts all the time")
    )


async def test_a_model_that_fails_fails_the_report_with_its_reason(workplace: Any) -> None:
    async with FakeLLMServer([401]).listening() as server, model_at(server.url) as llm, workplace() as place:
        report = await place.work(llm)
    assert report.status == "failed" and "does not accept the key" in report.reason
    assert (
        place.recorder.of("error")[0].content == report.reason
        and place.recorder.records("iteration")[0].error == report.reason
    )


async def test_a_provider_that_is_left_alone_for_a_while_is_waited_for(workplace: Any) -> None:
    """F18: what opened the circuit were the calls of others."""
    retry_policy = RetryPolicy(delays=(), circuit_window=2, circuit_open_for=3)
    async with (
        FakeLLMServer([503, 503, "done"]).listening() as server,
        model_at(server.url, retry_policy=retry_policy) as llm,
        workplace() as place,
    ):
        for _ in range(2):
            with pytest.raises(LLMUnavailable):
                await llm.complete(say("hello"), max_tokens=10)
        report = await place.work(llm)
    assert (report.analysis, report.status) == ("done", "completed") and not place.recorder.of("error")
    assert any("it is asked again in" in message for _, message in place.recorder.phases)


async def test_a_provider_that_asks_for_an_hour_is_not_waited_for(workplace: Any) -> None:
    reply = Reply(status=429, headers={"retry-after": "3600"})
    async with FakeLLMServer([reply]).listening() as server, model_at(server.url) as llm, workplace() as place:
        with anyio.fail_after(300):
            report = await place.work(llm)
    assert report.status == "failed" and len(server.requests) == 1


async def test_thinking_and_words_stream_and_a_broken_stream_begins_anew(workplace: Any) -> None:
    words = "The pod api-0 restarts because it cannot reach its database, which refuses connections since 08:11. " * 5
    script: list[Any] = [
        Reply(thinking="Let me think about the pods and about what they may need from others. " * 3, text=words)
    ]
    async with FakeLLMServer(script).listening() as server, model_at(server.url) as llm, workplace() as place:
        report = await place.work(llm)
    assert report.analysis == words.strip()
    thought, response = place.recorder.of("llm_thinking")[0], place.recorder.of("llm_response")[0]
    assert (
        thought.content.startswith("Let me think")
        and response.pieces > 3
        and words.startswith(response.streamed)
        and response.metadata["final"]
    )


async def test_a_provider_that_steps_in_is_given_the_same_tools(workplace: Any) -> None:
    """LESSONS: the override was lost when the provider fell back to another."""
    first = FakeLLMServer([401])
    second = FakeLLMServer([Reply(tool_calls=(call("ops__count"),), finish="tool_calls"), "done"])
    async with first.listening(), second.listening(), model_at(first.url, second.url) as llm, workplace() as place:
        report = await place.work(llm, tools={"ops": ("count",)})
    assert report.analysis == "done"
    assert second.requests[0]["tools"][0]["function"]["name"] == "ops__count" and len(second.requests[0]["tools"]) == 2


async def test_an_unsupported_native_tool_is_reported_and_not_sent(workplace: Any) -> None:
    async with FakeLLMServer(["done"]).listening() as server, model_at(server.url) as llm, workplace() as place:
        report = await place.work(llm, native_tools=NativeTools(google_search=True))
    assert report.status == "completed"
    (error,) = place.recorder.of("error")
    assert "does not support google_search" in error.content and "google_search" not in json.dumps(server.requests)
    assert place.recorder.records("iteration")[0].response["unsupported_native_tools"] == ["google_search"]


async def test_old_results_give_way_to_a_line_with_their_handle_and_the_newest_stay(workplace: Any) -> None:
    """Every prompt is counted before it is sent: none is over the window, however long the investigation."""
    texts = [f"result number {n}: " + " ".join(f"word{n}x{i}" for i in range(500)) for n in range(8)]
    script: list[Any] = [
        Reply(tool_calls=(call("ops__say", json.dumps({"text": text})),), finish="tool_calls") for text in texts
    ] + ["done"]
    async with (
        FakeLLMServer(script).listening() as server,
        model_at(server.url, window=12_000, output_cap=1000) as llm,
        workplace() as place,
    ):
        report = await place.work(llm, max_iterations=9)
    assert report.analysis == "done"
    last = [message["content"] for message in server.requests[-1]["messages"] if message["role"] == "tool"]
    assert texts[-1] in last[-1] and re.search(
        r"returned [\d,]+ tokens, left out here. To read it: read_result\(handle='r_", last[0]
    )
    sizes = [O200K.count(json.dumps(request["messages"]) + json.dumps(request["tools"])) for request in server.requests]
    assert max(sizes) <= 12_000 and sizes[-1] < sum(O200K.count(text) for text in texts)


def a_long_alert() -> str:
    """Eight hundred lines without repetition, which can be made shorter only by leaving lines out."""
    words = [a + b for a in ("ba", "do", "fi", "gu", "ke", "la", "mo", "ni") for b in ("lt", "ner", "rig", "sk", "ten")]
    return "\n".join(" ".join(Random(n).sample(words, 9)) for n in range(800))


TOO_LONG = Reply(status=400, error="This model's maximum context length is 4000 tokens", code="context_length_exceeded")


async def test_a_conversation_the_provider_finds_too_long_is_sent_again_shorter_each_time(workplace: Any) -> None:
    """F24."""
    alert = a_long_alert()
    async with (
        FakeLLMServer([TOO_LONG, TOO_LONG, "done"]).listening() as server,
        model_at(server.url) as llm,
        workplace() as place,
    ):
        report = await place.work(llm, alert=alert)
    sizes = [O200K.count(json.dumps(request["messages"])) for request in server.requests]
    assert report.analysis == "done" and len(sizes) == 3 and sizes[0] > sizes[1] > sizes[2]


async def test_what_the_provider_finds_too_long_three_times_fails_and_what_cannot_be_shortened_is_not_sent_again(
    workplace: Any,
) -> None:
    """F24."""
    alert = a_long_alert()
    for given, tries in ((alert, 3), ("short", 1)):
        async with (
            FakeLLMServer([TOO_LONG] * tries).listening() as server,
            model_at(server.url) as llm,
            workplace() as place,
        ):
            report = await place.work(llm, alert=given)
        assert report.status == "failed" and "maximum context length" in report.reason


async def test_a_huge_alert_is_condensed_to_its_share_of_the_window(workplace: Any) -> None:
    alert = (
        "\n".join(f"2026-11-15T08:00:{n % 60:02d}Z INFO line {n} of the alert" for n in range(20_000))
        + "\nERROR the disk is full"
    )
    async with (
        FakeLLMServer(["done"]).listening() as server,
        model_at(server.url, window=16_000) as llm,
        workplace() as place,
    ):
        report = await place.work(llm, alert=alert)
    assert (
        report.analysis == "done" and O200K.count(server.prompt(0)) < 8_000 and "the disk is full" in server.prompt(0)
    )


async def test_hidden_characters_in_words_and_arguments_of_a_model_are_neither_stored_nor_streamed(
    workplace: Any,
) -> None:
    """The tool gets the arguments as they were written; every record of them is clean."""
    hidden = "a\u200bb\x1b[31mc\u202ed\x1b[0m"
    wish = call("ops__measure", json.dumps({"text": hidden}))
    unknown = call("ops__no\u202esuch\x1b[1mtool")
    words = f"I \x1b[31mlook\x1b[0m at \u202eit\u202c. {hidden} " * 60
    script: list[Any] = [
        Reply(text=words, tool_calls=(wish, unknown), finish="tool_calls"),
        f"It is \x1b]0;pwned\x07done\u2066. {'word ' * 200}",
    ]
    async with FakeLLMServer(script).listening() as server, model_at(server.url) as llm, workplace(ops()) as place:
        report = await place.work(llm)
    assert f"{len(hidden)} characters" in str(server.requests[1]["messages"]), "sent to the tool as written"
    seen: list[Any] = [[event.content, event.streamed, event.metadata] for event in place.recorder.events]
    seen += [dataclasses.asdict(interaction) for _, interaction in place.recorder.interactions]
    assert len(seen) > 4 and "look" in str(seen)
    assert clean_json(json.loads(json.dumps([*seen, report.analysis], default=str)))[1] == 0
