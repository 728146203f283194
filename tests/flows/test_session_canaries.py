"""Twenty drawn secrets on every way into an investigation; then we look everywhere one could lie. None may be found."""

import io
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.fakes.llm_server import Reply
from tests.flows.conftest import configuration
from tests.flows.service import FlowService, calls, flow_service, is_summary
from tests.flows.test_canaries import CANARIES, LOUD, journal, leaks

pytestmark = pytest.mark.process

__all__ = ["journal"]

RUNBOOK = f"First look at the database.\n{LOUD}"


@pytest.fixture(scope="module")
async def service(store_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FlowService]:
    folder: Path = tmp_path_factory.mktemp("loud")
    async with flow_service(store_url, folder, configuration) as service:
        service.folder = folder
        yield service


def obedient(body: dict[str, Any]) -> Any:
    """Says every secret aloud: in words, in thoughts, in arguments, in a summary; what it was told is what we look
    at.
    """
    if is_summary(body):
        return f"The log says many things. {LOUD[:600]} And the shop lost its database."
    answered = sum(message["role"] == "tool" for message in body["messages"])
    if answered == 0:
        asked = calls("ops__say", "ops__nothing_like_it", text=LOUD)
        return Reply(
            text=f"I was told:\n{LOUD}", thinking=f"Hm.\n{LOUD}", tool_calls=asked.tool_calls, finish="tool_calls"
        )
    if answered == 2:
        return calls("side__lines", "ops__fail", count=300)
    return f"The cause stands in here:\n{LOUD}"


def everywhere(service: FlowService, url: str) -> Iterator[tuple[str, str]]:
    """Every file of the service, and every row where the database is not a file."""
    for folder in (
        {service.folder, Path(url.split("///", 1)[1]).parent} if url.startswith("sqlite") else {service.folder}
    ):
        for path in folder.rglob("*"):
            if path.is_file() and path.name != "tersely.yaml":
                yield path.name, path.read_bytes().decode("latin-1")
    if not url.startswith("sqlite"):
        with psycopg.connect(url) as db:
            ours = "table_schema IN ('public', 'dbos') AND table_type = 'BASE TABLE'"
            tables = db.execute(
                f"SELECT table_schema, table_name FROM information_schema.tables WHERE {ours}"
            ).fetchall()
            for schema, table in tables:
                for row in db.execute(f'SELECT t::text FROM "{schema}"."{table}" t').fetchall():
                    yield f"{schema}.{table}", row[0]


async def test_twenty_secrets_leave_no_trace_of_an_investigation(
    service: FlowService, store_url: str, journal: io.StringIO
) -> None:
    found: list[str] = []
    case = service.case(main=obedient)
    alert = case.alert(
        description=LOUD,
        labels={"token": list(CANARIES.values())[7], "notes": list(CANARIES)},
        password="hunter2hunter2",
    )
    heard: list[str] = []
    session_id = await service.submit(case, data=alert, runbook=RUNBOOK)
    async with service.web.viewer() as viewer:
        await viewer.say(action="subscribe", channel=f"session:{session_id}", last_seq=0)
        while not heard or not (
            '"session.status"' in heard[-1] and json.loads(heard[-1])["status"] in ("completed", "failed")
        ):
            heard.append(await viewer.raw())
    story = await service.story(session_id)
    for text in heard:
        found += leaks(f"frame {json.loads(text)['type']}", text)
    for number, body in enumerate(case.requests()):
        found += leaks(f"model request {number}", json.dumps(body))
    answers = [
        "/api/v1/sessions",
        f"/api/v1/sessions/{session_id}",
        f"/api/v1/sessions/{session_id}/timeline?limit=500",
        f"/api/v1/sessions/{session_id}/events?limit=500",
        f"/api/v1/sessions/{session_id}/trace?limit=500",
        f"/api/v1/sessions/{session_id}/export",
        "/api/v1/system/info",
        "/api/v1/system/mcp-servers",
        "/api/v1/system/savings",
        "/metrics",
        *(f"/api/v1/sessions/{session_id}/trace/{one['id']}" for one in story.trace),
        *(
            f"/api/v1/sessions/{session_id}/results/{event['metadata']['handle']}"
            for event in story.shown("llm_tool_call")
            if event["metadata"]["handle"]
        ),
    ]
    for path in answers:
        answer = await service.web.http.get(path)
        assert answer.status_code == 200, (path, answer.text)
        found += leaks(path, answer.text)
    found += leaks("log", journal.getvalue())
    looked = 0
    for where, text in everywhere(service, store_url):
        looked += 1
        found += leaks(where, text)
    assert (
        looked > 3 and len(case.requests()) >= 4 and story.shown("mcp_tool_summary") and story.shown("llm_thinking")
    ), "all ways were used"
    assert "[MASKED:" in story.session["alert"] and "[MASKED:" in story.session["analysis"]
    assert sorted(set(found)) == []


async def test_what_a_refused_alert_held_is_not_said_back_or_kept(
    service: FlowService, store_url: str, journal: io.StringIO
) -> None:
    found: list[str] = []
    for body in (
        {"data": LOUD, "alert_type": "nobody's"},
        {"data": LOUD, "secret": LOUD},
        {"data": LOUD, "mcp": {"servers": []}},
        {"data": LOUD, "mcp": {"servers": [{"name": "nope"}]}},
        {"data": LOUD, "runbook": LOUD * 100},
    ):
        answer = await service.web.http.post("/api/v1/alerts", json=body)
        assert answer.status_code in (400, 422)
        found += leaks("answer", answer.text)
    found += leaks("log", journal.getvalue())
    for where, text in everywhere(service, store_url):
        found += leaks(where, text)
    assert found == []


async def test_an_error_of_a_provider_that_quotes_a_secret_is_masked(
    service: FlowService, journal: io.StringIO
) -> None:
    case = service.case(
        main=lambda body: Reply(status=400, error=LOUD), spare=lambda body: Reply(status=400, error=LOUD)
    )
    story = await service.investigate(case, "failed")
    assert "rejected the request" in story.session["reason"]
    assert leaks("story", json.dumps([story.session, story.timeline, story.events, story.trace])) == []
    assert leaks("log", journal.getvalue()) == []
