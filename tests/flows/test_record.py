"""The record of a session: each model call is one interaction with its messages, and every count of it agrees.

000 §3: "complete audit trail". What a session page, the trace, `/metrics` and the statistics say about the same calls
is compared with what the provider was asked.
"""

import io
import json
import logging
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import anyio
import pytest

from tersely.logging_setup import JsonFormatter
from tests.fakes.llm_server import Body, Reply
from tests.flows.service import FlowService, Story, calls, flow_service, is_summary, said, server_of

pytestmark = pytest.mark.process

QUICK = {"size_threshold_tokens": 2_000, "summary_max_token_limit": 500}
SUMMARY = "Many requests were fine. At 12:00:00 the shop lost its database db-7: connection refused. "
MODEL_CALLS = {"iteration", "final_analysis", "summarization"}


def configuration(models: Mapping[str, str]) -> dict[str, Any]:
    """Models with a known price, one of them with a window that is small enough for parts and merges."""
    provider = {"type": "openrouter", "model": "openai/gpt-4o-mini", "base_url": models["main"], "api_key": "k"}
    agents = {
        "looker": {"mcp_servers": ["side"]},
        "reactor": {"mcp_servers": ["side"], "controller": "react"},
        "small": {"mcp_servers": ["side"], "llm_provider": "small"},
    }
    chains = {
        name: {"alert_types": [name], "stages": [{"name": "look", "agent": agent}]}
        for name, agent in {"plain": "looker", "react": "reactor", "small": "small"}.items()
    }
    return {
        "llm_providers": {
            "main": {**provider, "context_window": 100_000},
            "small": {**provider, "context_window": 12_000},
        },
        "mcp_servers": {"side": server_of("large", summarization=QUICK)},
        "agents": agents,
        "chains": chains,
        "defaults": {"alert_type": "plain", "llm_provider": "main", "verdict": False, "summarization": {"timeout": 10}},
        "queue": {"max_concurrent_sessions": 6, "poll": 0.05, "grace": 2},
    }


@pytest.fixture(scope="module")
async def service(store_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FlowService]:
    folder = tmp_path_factory.mktemp("record")
    async with flow_service(store_url, folder, configuration, providers=("main",)) as service:
        yield service


def investigator(call: Any, summary: Any = SUMMARY, verdict: Any = "db-7 is gone") -> Any:
    """A model that calls once, writes a summary when it is asked for one, and concludes. Failures come first."""
    failing: Counter[str] = Counter()

    def answer(body: Body) -> Any:
        kind = "summary" if is_summary(body) else "turn"
        failing[kind] += 1
        if kind == "summary":
            return summary(body, failing[kind]) if callable(summary) else summary
        if any(message["role"] in ("tool", "assistant") for message in body["messages"]):
            return verdict(body, failing[kind]) if callable(verdict) else verdict
        return call(body, failing[kind]) if callable(call) else call

    return answer


async def counted(service: FlowService) -> Counter[str]:
    """What `/metrics` says about model calls and tools."""
    text = (await service.web.http.get("/metrics")).text
    sums: Counter[str] = Counter()
    for line in text.splitlines():
        if found := re.fullmatch(r"(tersely_(?:model|price|tool)_\w+)(?:\{(.*)\})? (\S+)", line):
            name, labels, value = found.groups()
            kept = re.findall(r'(?:direction|stage)="(\w+)"', labels or "")
            sums[" ".join([name.removeprefix("tersely_"), *kept])] += float(value)  # type: ignore[assignment]
    return sums


async def saved(service: FlowService) -> Counter[str]:
    """What the statistics say, which `tersely stats` prints."""
    sums: Counter[str] = Counter()
    for one in (await service.web.get("/system/savings", door="session"))["items"]:
        sums.update({name: one[name] for name in ("calls", "read_backs", "tokens_before", "tokens_after")})
    return sums


async def check_agreement(
    service: FlowService, story: Story, metrics: Counter[str], statistics: Counter[str], asked: int
) -> None:
    """Compare everything that says what the session cost."""
    usage, tokens = story.session["usage"], story.session["tokens"]
    exchanges = [one for one in story.trace if one["interaction_type"] in MODEL_CALLS]
    sent = [one for one in exchanges if one["response"]["outcome"] != "cached"]
    tools = story.traced("mcp")
    assert len(sent) == usage["model_calls"] == metrics["model_calls_total"] == asked
    for name in ("input", "output"):
        total = sum(one[f"{name}_tokens"] for one in exchanges)
        assert total == usage[f"{name}_tokens"] == metrics[f"model_tokens_total {name}"], name
    price = sum(round(one["price_usd"] * 1e6) for one in exchanges)
    assert price == round(usage["price_usd"] * 1e6) == round(metrics["price_usd_total"] * 1e6)
    assert len(tools) == usage["tool_calls"] == statistics["calls"] + statistics["read_backs"]
    read_back = [one for one in tools if "read_back" in one["request"]]
    results = [one for one in tools if one not in read_back]
    before, after = (sum(one["response"][name] for one in results) for name in ("tokens", "tokens_after"))
    assert before == tokens["before"] == statistics["tokens_before"] == metrics["tool_tokens_total before"]
    assert after == tokens["after"] == statistics["tokens_after"] == metrics["tool_tokens_total after"]
    assert len(results) == metrics["tool_calls_total"]
    assert [one["created_at"] for one in story.trace] == sorted(one["created_at"] for one in story.trace)
    for one in exchanges:
        detail = await service.web.get(f"/sessions/{story.session['id']}/trace/{one['id']}")
        assert detail["messages"], "the conversation of every call"


async def compared(service: FlowService, case: Any, status: str = "completed", **fields: Any) -> Story:
    """Investigate and compare the counts before and after with the record."""
    metrics, statistics, asked = await counted(service), await saved(service), len(case.requests())
    story = await service.investigate(case, status, **fields)
    after, statistics_after = await counted(service), await saved(service)
    after.subtract(metrics)
    statistics_after.subtract(statistics)
    await check_agreement(service, story, after, statistics_after, len(case.requests()) - asked)
    return story


def of_summary(story: Story) -> list[dict[str, Any]]:
    """The exchanges of the only summary, all of them under the tool call."""
    (call,) = story.traced("mcp")
    exchanges = story.traced("summarization")
    assert {one["parent_id"] for one in exchanges} == {call["id"]}
    assert call["parent_id"] is None and story.trace.index(call) < min(story.trace.index(one) for one in exchanges)
    return exchanges


async def test_each_part_and_each_merge_is_an_interaction_under_its_tool_call(service: FlowService) -> None:
    case = service.case(main=investigator(calls("side__lines", count=4_000), lambda body, n: f"{SUMMARY} Part {n}."))
    story = await compared(service, case, alert_type="small")
    exchanges = of_summary(story)
    summaries = [body for body in case.requests() if is_summary(body)]
    assert len(exchanges) == len(summaries) >= 3
    details = [await service.web.get(f"/sessions/{story.session['id']}/trace/{one['id']}") for one in exchanges]
    prompts = ["\n".join(message["text"] for message in detail["messages"]) for detail in details]
    assert sorted(prompts) == sorted(said(body) for body in summaries), "the messages, as they were sent"
    assert all(one["response"]["text"].startswith("Many requests") for one in exchanges)


async def test_a_retry_is_an_interaction_of_its_own(service: FlowService) -> None:
    def flaky(answer: Any) -> Any:
        return lambda body, n: Reply(status=503, error="try later") if n == 1 else answer

    case = service.case(main=investigator(flaky(calls("side__lines", count=410)), flaky(SUMMARY)))
    story = await compared(service, case)
    failed, answered = of_summary(story)
    assert (failed["response"]["outcome"], failed["request"]["attempt"]) == ("failed", 1)
    assert "try later" in failed["error"] and failed["input_tokens"] == 0
    assert (answered["response"]["outcome"], answered["request"]["attempt"], answered["error"]) == ("answered", 2, "")
    assert [one["response"]["outcome"] for one in story.traced("iteration")] == ["failed", "answered", "answered"]


async def test_a_cached_answer_is_recorded_and_costs_nothing(service: FlowService) -> None:
    """The same kept result, summarized twice with the same focus."""

    def turns(body: Body, n: int) -> Any:
        (handle, *_) = re.findall(r"r_[a-z0-9]{16}", said(body))
        again = calls("read_result", handle=handle, looking_for=f"database {case.mark}")
        return {2: again, 3: calls("side__small"), 4: again}.get(n, "db-7 is gone")

    case = service.case(main=investigator(calls("side__lines", count=420), verdict=turns))
    story = await compared(service, case)
    first, second = (one for one in story.traced("mcp") if one["request"]["tool"] == "read_result")
    (answered,) = (one for one in story.traced("summarization") if one["parent_id"] == first["id"])
    (cached,) = (one for one in story.traced("summarization") if one["parent_id"] == second["id"])
    assert (answered["response"]["outcome"], cached["response"]["outcome"]) == ("answered", "cached")
    assert cached["response"]["text"] == answered["response"]["text"].strip()
    assert (cached["input_tokens"], cached["output_tokens"], cached["price_usd"]) == (0, 0, 0)


async def test_a_summary_that_takes_too_long_is_recorded_with_what_it_cost(service: FlowService) -> None:
    stalls = Reply(SUMMARY, delay=3600)
    story = await compared(service, service.case(main=investigator(calls("side__lines", count=430), stalls)))
    (cancelled,) = of_summary(story)
    assert cancelled["response"]["outcome"] == "cancelled" and cancelled["input_tokens"] > 1_000
    assert "not ready within 10 s" in story.traced("mcp")[0]["response"]["summary"]["reason"]


@pytest.mark.parametrize("when", ["summary", "turn"])
async def test_a_cancelled_session_has_the_call_that_was_on_its_way(service: FlowService, when: str) -> None:
    stalls = Reply(SUMMARY, delay=3600)
    call = calls("side__lines", count=440 + len(when))
    case = service.case(main=investigator(call, stalls) if when == "summary" else investigator(stalls))
    metrics, statistics = await counted(service), await saved(service)
    session_id = await service.submit(case)
    with anyio.fail_after(300):
        while len(case.requests()) < (2 if when == "summary" else 1):
            await anyio.sleep(0.02)
    assert (await service.web.http.post(f"/api/v1/sessions/{session_id}/cancel")).status_code in (200, 202)
    story = await service.story(session_id, "cancelled")
    after, statistics_after = await counted(service), await saved(service)
    after.subtract(metrics)
    statistics_after.subtract(statistics)
    await check_agreement(service, story, after, statistics_after, len(case.requests()))
    assert story.trace[-1]["response"]["outcome"] == "cancelled" and story.trace[-1]["input_tokens"] > 100
    if when == "summary":
        of_summary(story)


async def test_an_answer_that_is_not_read_to_its_end_counts_everywhere(service: FlowService) -> None:
    """ReAct stops reading where the model invents an observation."""
    looks = (
        "Thought: look\nAction: side.small\nAction Input: {}\nObservation: all is lost\nThought: so it is gone " * 20
    )
    case = service.case(main=[looks, "Thought: enough\nFinal Answer: all is well"])
    story = await compared(service, case, alert_type="react")
    assert [one["response"]["outcome"] for one in story.traced("iteration")] == ["stopped", "answered"]
    assert "all is lost" not in story.trace[0]["response"]["text"]


async def test_a_summary_of_a_kept_result_belongs_to_the_call_that_asked_for_it(service: FlowService) -> None:
    def turns(body: Body, n: int) -> Any:
        (handle, *_) = re.findall(r"r_[a-z0-9]{16}", said(body))
        return calls("summarize_result", handle=handle, focus=f"database {case.mark}") if n == 2 else "db-7 is gone"

    case = service.case(main=investigator(calls("side__lines", count=450), verdict=turns))
    story = await compared(service, case)
    called, read = story.traced("mcp")
    assert [one["parent_id"] for one in story.traced("summarization")] == [called["id"], read["id"]]


async def test_names_that_a_model_made_up_never_become_labels(service: FlowService) -> None:
    case = service.case(main=[calls("nosuch__tool", "side__nosuch", "invented"), "nothing to see"])
    story = await compared(service, case)
    assert {one["request"]["server"] for one in story.traced("mcp")} == {"nosuch", "side", ""}, "the trace has them"
    text = (await service.web.http.get("/metrics")).text
    assert set(re.findall(r'server="(.*?)"', text)) <= {"side", "(unknown)"}
    uses = (await service.web.get("/system/savings", door="session"))["items"]
    assert not {"nosuch", "tool", "invented"} & {name for one in uses for name in (one["server"], one["tool"])}


@contextmanager
def log_lines() -> Iterator[list[dict[str, Any]]]:
    """The lines that the service writes to its log."""
    stream, logger = io.StringIO(), logging.getLogger("tersely")
    handler, level = logging.StreamHandler(stream), logger.level
    handler.setFormatter(JsonFormatter("test"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    lines: list[dict[str, Any]] = []
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        lines += map(json.loads, stream.getvalue().splitlines())


def lines_of(lines: list[dict[str, Any]], event: str, session_id: str) -> list[dict[str, Any]]:
    found = [line for line in lines if line["event"] == event]
    assert all(line["session_id"] == session_id for line in found), "a line names its session"
    return found


async def test_a_summary_leaves_lines_an_operator_can_act_on(service: FlowService) -> None:
    """001: server, tool, tokens, threshold; 003 §7: a warning with details. A healed retry is a line."""
    secret = "the database of the queen is empty"

    def flaky(body: Body, n: int) -> Any:
        return Reply(status=503, error=secret) if n == 1 else SUMMARY

    case = service.case(main=investigator(calls("side__lines", count=460), flaky))
    with log_lines() as lines:
        story = await service.investigate(case)
    session_id = story.session["id"]
    tokens = story.traced("mcp")[0]["response"]["tokens"]
    about = {"server": "side", "tool": "lines", "input_tokens": tokens, "threshold": 2_000}
    model = {"model": "openai/gpt-4o-mini"}
    (started,) = lines_of(lines, "condensing_started", session_id)
    assert (about | model).items() <= started.items()
    (failed,) = lines_of(lines, "model_call_failed", session_id)
    expected = about | model | {"level": "warning", "provider": "openrouter", "attempt": 1, "status_code": 503}
    assert expected.items() <= failed.items() and 2 <= failed["retry_in"] <= 3 and failed["hint"]
    (healed,) = lines_of(lines, "model_call_recovered", session_id)
    assert (about | model | {"level": "info", "attempt": 2, "failures": 1}).items() <= healed.items()
    (done,) = lines_of(lines, "result_condensed", session_id)
    assert (about | model | {"status": "summarized"}).items() <= done.items() and done["output_tokens"] < 500
    text = json.dumps(lines)
    assert secret not in text and "db-7" not in text and "Many requests" not in text, "no content in logs"


@pytest.mark.parametrize(
    ("status", "problem", "hint"),
    [(401, "LLMMisconfigured", "does not accept the key"), (400, "LLMRefused", "rejects the request")],
)
async def test_a_summary_that_fails_says_why_and_what_was_returned(
    service: FlowService, status: int, problem: str, hint: str
) -> None:
    failing = Reply(status=status, error="no, says the queen")
    case = service.case(main=investigator(calls("side__lines", count=470 + status), failing))
    with log_lines() as lines:
        story = await service.investigate(case)
    (failed,) = lines_of(lines, "summarize_failed", story.session["id"])
    expected = {"server": "side", "tool": "lines", "threshold": 2_000, "model": "openai/gpt-4o-mini"}
    outcome = {"status_code": status, "problem": problem, "returned": "structural", "level": "warning"}
    assert (expected | outcome).items() <= failed.items() and hint in failed["hint"]
    (done,) = lines_of(lines, "result_condensed", story.session["id"])
    assert {"status": "fallback", "returned": "structural"}.items() <= done.items()
    assert "queen" not in json.dumps(lines)
