"""Sessions that release 0.1.0 stored are read, resumed and completed by this code.

The golden files hold sessions in every state (see `scenario`). Everything is asked through the HTTP API and
compared with the files themselves, so a renamed class or module changes nothing here but imports.
"""

import gzip
import json
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.flows.service import FlowService, Story, flow_service
from tests.golden.scenario import (
    ENDED,
    OPEN,
    PENDING,
    SECRET,
    SESSIONS,
    SUMMARY,
    TOPICS,
    ScriptedModel,
    ToolServers,
    configuration,
    page,
    results,
    said_in,
)

GOLDEN = Path(__file__).parent / "v0_1_0"
IDS: dict[str, str] = json.loads((GOLDEN / "sessions.json").read_text())

MODEL_CALLS = {
    "calling": 1,
    "react": 1,
    "summary": 2,
    "survey": 0,
    "research": 2,
    "search": 0,
    "two": 1,
    "tool": 1,
    PENDING: 3,
}
"""Requests to the model that are left after the stored steps: the one that was in flight, and what follows from it."""

TOOL_CALLS: dict[str, dict[str, int]] = {
    "calling": {},
    "react": {},
    "summary": {},
    "survey": {"pod_describe": 1},
    "research": {"summarize_for_extraction": 1},
    "search": {"crawl 2": 1, "summarize_for_extraction": 1},
    "two": {},
    "tool": {"list_pods": 1},
    PENDING: {"list_pods": 1, "logs": 1},
}

ANALYSES = {
    "done": "It is db-1, says done.",
    "calling": "It is db-1, says calling.",
    "react": "It is db-1, says react.",
    "summary": "It is db-1, says summary.",
    "two": "Restart db-1, says two.",
    "tool": "It is db-1, says tool.",
    PENDING: f"It is db-1, says {PENDING}.",
}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@dataclass
class Resumed:
    """The service on a copy of the golden files, after every session has ended."""

    home: FlowService
    tools: ToolServers
    model: ScriptedModel
    stories: dict[str, Story]
    golden: Path
    """A second copy that no code has touched."""

    copy: Path


def unpack(folder: Path) -> Path:
    folder.mkdir()
    for file in GOLDEN.glob("*.gz"):
        (folder / file.stem).write_bytes(gzip.decompress(file.read_bytes()))
    return folder


def rows(file: Path, query: str, *values: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(query, values).fetchall()


def start_now(file: Path) -> None:
    """A session has a time limit, counted from its start: let the golden ones begin now."""
    with closing(sqlite3.connect(file)) as connection, connection:
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
        connection.execute("UPDATE sessions SET started_at = ? WHERE status = 'in_progress'", (now,))


async def ended(home: FlowService, session_id: str) -> Story:
    """The whole session, however it ended: what is wrong with it, the tests say one by one."""
    with anyio.fail_after(60):
        while (status := (await home.web.get(f"/sessions/{session_id}"))["status"]) not in (
            "completed",
            "failed",
            "timed_out",
        ):
            await anyio.sleep(0.05)
    return await home.story(session_id, status)


@pytest.fixture(scope="module")
async def resumed(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Resumed]:
    folder = tmp_path_factory.mktemp("golden")
    golden, copy = unpack(folder / "untouched"), unpack(folder / "copy")
    start_now(copy / "tersely.db")
    tools, model = ToolServers(hold=False), ScriptedModel(hold=False)
    async with (
        tools.listening() as addresses,
        model.listening() as url,
        flow_service(
            f"sqlite:///{copy / 'tersely.db'}",
            copy,
            configuration(addresses, url),
            providers=(),
            TERSELY_SUMMARY_CACHE="no",
        ) as home,
    ):
        stories = {name: await ended(home, IDS[name]) for name in SESSIONS}
        yield Resumed(home, tools, model, stories, golden, copy)


@pytest.mark.parametrize("name", [*OPEN, PENDING])
async def test_an_open_session_resumes_after_its_stored_steps_and_completes(resumed: Resumed, name: str) -> None:
    session = resumed.stories[name].session
    assert (session["status"], session["reason"]) == ("completed", "")
    asked = resumed.model.requests.get(name, [])
    assert resumed.tools.made(name) == Counter(TOOL_CALLS[name]), "a tool call that was stored is not made again"
    assert len(asked) == MODEL_CALLS[name], "a model call that was stored is not made again"
    if name in ANALYSES:
        assert resumed.stories[name].session["analysis"] == ANALYSES[name]


@pytest.mark.parametrize("name", SESSIONS)
async def test_stored_steps_stay_as_they_were_written(resumed: Resumed, name: str) -> None:
    query = (
        "SELECT function_id, function_name, output, error FROM operation_outputs WHERE workflow_uuid = ? ORDER BY "
        "function_id"
    )
    before = rows(resumed.golden / "tersely-workflows.db", query, IDS[name])
    after = rows(resumed.copy / "tersely-workflows.db", query, IDS[name])
    assert after[: len(before)] == before
    assert bool(before) == (name != PENDING)
    assert (len(after) > len(before)) == (name not in ENDED)


@pytest.mark.parametrize("name", SESSIONS)
async def test_events_and_timeline_continue_what_was_stored(resumed: Resumed, name: str) -> None:
    story = resumed.stories[name]
    stored = rows(
        resumed.golden / "tersely.db", "SELECT seq, payload FROM event_log WHERE session_id = ? ORDER BY seq", IDS[name]
    )
    assert [event["seq"] for event in story.events] == list(range(1, len(story.events) + 1))
    assert story.events[: len(stored)] == [json.loads(payload) for _, payload in stored]
    assert (len(story.events) > len(stored)) == (name not in ENDED)
    query = "SELECT id FROM timeline_events WHERE session_id = ? ORDER BY sequence"
    known = [event_id for (event_id,) in rows(resumed.golden / "tersely.db", query, IDS[name])]
    assert [event["event_id"] for event in story.timeline][: len(known)] == known
    assert all(event["status"] in ("completed", "failed") for event in story.timeline), "no event stays open"
    assert len({event["event_id"] for event in story.timeline}) == len(story.timeline)


@pytest.mark.parametrize("name", SESSIONS)
async def test_every_result_that_was_kept_can_be_read(resumed: Resumed, name: str) -> None:
    scope = f"session:{IDS[name]}"
    query = "SELECT handle FROM kept_results WHERE scope = ? ORDER BY handle"
    stored = [handle for (handle,) in rows(resumed.golden / "tersely.db", query, scope)]
    listed = {one["handle"] for one in await resumed.home.all(f"/sessions/{IDS[name]}/results")}
    assert listed.issuperset(stored)
    assert bool(stored) == (name not in ("refused", "unsearchable", "tool", PENDING))
    texts = [await raw(resumed, name, handle) for handle in stored]
    assert all(SECRET not in text for text in texts)
    if name in ("done", "calling", "summary", "two", "survey"):
        assert any("request 249 served in 27 ms" in text and "[MASKED:password:" in text for text in texts), (
            "the whole log"
        )
    if name in ("searched", "search", "research"):
        assert any(text.startswith(page(0)) for text in texts), "the whole page"


async def raw(resumed: Resumed, name: str, handle: str) -> str:
    answer = await resumed.home.web.http.get(f"/api/v1/sessions/{IDS[name]}/results/{handle}/raw")
    assert answer.status_code == 200, answer.text
    return str(answer.text)


async def test_the_model_is_told_what_the_stored_steps_returned(resumed: Resumed) -> None:
    (calling,) = resumed.model.requests.get("calling", [])
    pods, log = results(calling)
    assert "api-0" in pods and "[MASKED:password:" in pods and SECRET not in pods
    assert SUMMARY in log and "kept as r_" in log, "the summary is the stored one"
    (react,) = resumed.model.requests.get("react", [])
    assert SUMMARY in said_in(react) and "cannot reach database db-1" in said_in(react)
    (two,) = resumed.model.requests.get("two", [])
    assert "It is db-1, says two." in said_in(two), "the second stage knows what the first one found"


async def test_marks_of_the_same_secret_are_the_same_before_and_after_the_restart(resumed: Resumed) -> None:
    marks = {
        text[text.index("[MASKED:") :].split("]")[0]
        for event in resumed.stories["tool"].timeline + resumed.stories["survey"].timeline
        if "[MASKED:" in (text := event["content"] or "")
    }
    assert len(marks) == 2, "one for each of the two sessions"


async def test_an_ended_session_is_shown_as_it_ended(resumed: Resumed) -> None:
    assert {name: resumed.stories[name].session["status"] for name in ENDED} == ENDED
    done, refused, unsearchable, searched = (resumed.stories[name] for name in ENDED)
    assert done.session["analysis"] == ANALYSES["done"]
    assert [item["event_type"] for item in done.timeline] == [
        "llm_response",
        "llm_tool_call",
        "llm_tool_call",
        "mcp_tool_summary",
        "llm_response",
        "final_analysis",
    ]
    assert done.traced("summarization") and done.traced("iteration") and done.traced("mcp")
    assert "test/main" in refused.session["reason"]
    assert unsearchable.session["reason"].startswith("No tool searches.")
    assert "Velm" in searched.session["analysis"]
    assert resumed.tools.made("searched") == Counter() and not resumed.model.requests.get("done", [])


async def test_a_research_keeps_its_checkpoints_and_ends_with_a_result(resumed: Resumed) -> None:
    for name in ("searched", "search", "research"):
        kept = await resumed.home.all(f"/sessions/{IDS[name]}/results")
        tools = Counter(one["tool"] for one in kept)
        assert tools["research_checkpoint"] == len(TOPICS) and tools["research_result"] == 1
        (handle,) = [one["handle"] for one in kept if one["tool"] == "research_result"]
        result = json.loads(await raw(resumed, name, handle))
        assert [one["name"] for one in result["topics"]] == list(TOPICS) and len(result["pages"]) == 2
    assert result["facts"]["people"][0]["value"] == {"name": "Ada Holm", "work": "keeper"}
