"""The MCP configuration of the seed, unchanged, and `mcp_call` for pipelines of one's own."""

import json
from pathlib import Path
from typing import Any

import pytest

from tersely import mcp_call
from tersely.app.sessions import sessions_app
from tersely.errors import InputError, ToolError
from tersely.sessions.intake import Submission
from tersely.settings.files import read_servers
from tersely.settings.model import Settings
from tests.fakes.researching import WEB, Servers, ended, listening

SEED_003 = """{
  "mcpServers": {
    "search": {
      "url": "${MCP_WEB_SEARCH_URL}",
      "timeout": 30
    },
    "summarizer": {
      "url": "${MCP_SUMMARIZER_URL}",
      "timeout": 120
    }
  }
}"""


def test_the_configuration_of_the_seed_is_read_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "mcp_config.json").write_text(SEED_003)
    environment = {
        "MCP_WEB_SEARCH_URL": "http://search:8006/mcp",
        "MCP_SUMMARIZER_URL": "http://mcp-summarizer:8007/mcp",
    }
    search, summarizer = read_servers(tmp_path / "mcp_config.json", environment)
    assert (search.name, search.options.transport.url, search.options.timeout) == (
        "search",
        "http://search:8006/mcp",
        30,
    )
    assert (summarizer.name, summarizer.options.transport.url) == ("summarizer", "http://mcp-summarizer:8007/mcp")
    assert summarizer.options.timeout == 120, "seconds that one call may take"


CHAIN = """
mcp_servers:
  search: {transport: {url: "${MCP_WEB_SEARCH_URL}"}}
agents:
  researcher: {mcp_servers: [search]}
chains:
  research:
    kind: research
    alert_types: [research]
    stages:
      - {name: relics, agent: researcher, task: "Relics and treasures of {subject}"}
research: {pages: 1, tokens: 1500}
"""


@pytest.mark.slow
async def test_a_chain_of_the_configuration_researches_a_subject_whose_topics_are_its_stages(tmp_path: Path) -> None:
    (tmp_path / "tersely.yaml").write_text(CHAIN)
    async with listening(Servers(WEB), summarizer=False) as addresses:
        environment = {"MCP_WEB_SEARCH_URL": addresses["search"], "TERSELY_DATA_DIR": str(tmp_path)}
        settings = Settings.load(environment, tmp_path / "tersely.yaml")
        async with sessions_app(settings, version="test") as parts:
            accepted = await parts.intake.submit(Submission(data=WEB.subject), principal="me")
            done = await ended(parts, accepted.session_id)
    assert [stage.name for stage in done.stages] == ["relics", "extraction"]
    assert done.result["subject"] == WEB.subject and len(done.result["pages"]) == 1
    assert done.result["tokens"]["accumulated"] <= 1_500 and done.session.analysis.startswith(f"# {WEB.subject}")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"subjekt": "Fizeivmark"}, "subject: Field required"),
        ({"subject": "Fizeivmark", "schema": {"type": "object"}}, "must be a JSON schema of an object with properties"),
        ({"subject": "Fizeivmark", "options": {"pages": 0}}, "pages"),
    ],
)
async def test_an_invalid_research_request_is_refused_on_submission(tmp_path: Path, data: Any, says: str) -> None:
    (tmp_path / "tersely.yaml").write_text(CHAIN)
    environment = {"MCP_WEB_SEARCH_URL": "http://127.0.0.1:9/mcp", "TERSELY_DATA_DIR": str(tmp_path)}
    async with sessions_app(Settings.load(environment, tmp_path / "tersely.yaml"), version="test") as parts:
        with pytest.raises(InputError, match=says):
            await parts.intake.submit(Submission(data=data), principal="me")


async def test_a_pipeline_calls_the_summarizer_itself() -> None:
    servers = Servers(WEB)
    async with listening(servers) as addresses:
        page = await mcp_call(addresses["search"], "crawl", {"url": WEB.pages[0].url})
        assert page == WEB.pages[0].markdown
        arguments = {"content": page, "schema_hint": "people and their bynames", "max_output_tokens": 800}
        summary = await mcp_call(addresses["summarizer"], "summarize_for_extraction", arguments)
        assert summary and len(summary) < len(page) / 5
    assert json.loads(json.dumps(servers.summarized))[0]["max_output_tokens"] == 800


async def test_a_service_that_does_not_answer_returns_none_and_raises_when_strict() -> None:
    async with listening(Servers(WEB, fails=1)) as addresses:
        assert (
            await mcp_call(addresses["summarizer"], "summarize_for_extraction", {"content": "x", "schema_hint": ""})
            is None
        )
        assert await mcp_call(addresses["summarizer"], "no_such_tool") is None
        with pytest.raises(ToolError, match="the summarizer is down"):
            await mcp_call(
                addresses["summarizer"], "summarize_for_extraction", {"content": "x", "schema_hint": ""}, strict=True
            )
    assert await mcp_call("http://127.0.0.1:9/mcp", "summarize", {"content": "x"}, timeout=1) is None
