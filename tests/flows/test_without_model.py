"""What a service without any model does for a person who asks about a session."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from tests.flows.service import FlowService, flow_service, server_of
from tests.flows.test_chat import ask
from tests.test_cli_sessions import tersely

pytestmark = pytest.mark.process


def configuration(models: Mapping[str, str]) -> dict[str, Any]:
    return {
        "mcp_servers": {"ops": server_of("ops")},
        "agents": {"looker": {"mcp_servers": ["ops"]}},
        "chains": {"plain": {"alert_types": ["plain"], "stages": [{"name": "look", "agent": "looker"}]}},
        "queue": {"poll": 0.05, "grace": 2},
    }


@pytest.fixture(scope="module")
async def service(store_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FlowService]:
    folder = tmp_path_factory.mktemp("bare")
    async with flow_service(store_url, folder, configuration, providers=()) as service:
        yield service


async def test_without_a_model_a_question_searches_the_kept_results(service: FlowService) -> None:
    case = service.case()
    session_id = await service.submit(case)
    await service.web.until(session_id, "completed")
    question = await ask(service, session_id, "Where does it say db-1?")
    story = await service.story(question["chat_id"])
    (answer,) = story.shown("chat_response")
    best = answer["metadata"]["passages"][0]
    assert best["handle"] in answer["content"] and f"line {best['first_line']}" in answer["content"]
    page = await service.web.get(
        f"/sessions/{session_id}/results/{best['handle']}", lines=f"{best['first_line']}-{best['last_line']}"
    )
    assert "db-1" in page["text"] and best["quote"].splitlines()[0] in page["text"]
    # In a shell: the answer alone on standard output, what happens meanwhile on standard error.
    asked = await tersely("chat", session_id, "zyzzyva?", "--url", service.web.address)
    assert (asked.returncode, asked.stdout.decode().strip().endswith("Nothing in them matches.")) == (0, True), asked
    assert "zyzzyva?" in asked.stderr.decode() and "completed" in asked.stderr.decode()
    listed = await tersely("chat", session_id, "--json", "--url", service.web.address)
    assert [one["question"] for one in json.loads(listed.stdout)] == ["Where does it say db-1?", "zyzzyva?"]
    empty = await tersely("chat", session_id, " ", "--url", service.web.address)
    assert empty.returncode == 2 and "The question is empty." in empty.stderr.decode()
