"""Content by handle, never by value: through the spine into a real `tersely serve` behind a real MCP connection."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tersely.agent.tool_executor import ToolExecutor
from tersely.app.summarizer import kept_results, summarizer_app
from tersely.llm.messages import ToolCall
from tersely.masking.masked import assume_masked
from tersely.mcp.registry import registered
from tersely.mcp.servers import Server, ServerOptions
from tersely.pipeline.process import Scope
from tersely.results.kept import user_scope
from tersely.settings.model import Settings
from tersely.store.results import Origin
from tersely.text.tokens import O200K
from tests.condensing.test_summarize import pages
from tests.fakes.executing import execute, tool_executor

ME = Scope(user_scope(), key=b"k" * 32)

PAGE = (
    pages(310)
    + "\n\nThe innkeeper Marla of Westfold serves the Silver Hand since the year 1312.\n\n"
    + pages(20, seed=2)
)
"""About 39,000 tokens, the fact a reader would want near its end."""


@asynccontextmanager
async def summarizer(tmp_path: Path) -> AsyncIterator[ToolExecutor]:
    """The pipeline with a `tersely serve --stdio` as its only MCP server."""
    transport = {
        "command": sys.executable,
        "args": ["-m", "tersely", "serve", "--stdio"],
        "env": {"TERSELY_DATA_DIR": str(tmp_path / "theirs")},
    }
    server = Server(
        name="summarizer", options=ServerOptions.model_validate({"transport": transport, "start_timeout": 300})
    )
    settings = Settings.load({"TERSELY_DATA_DIR": str(tmp_path / "ours")})
    async with kept_results(settings) as results, registered([server], wait=30) as registry:
        yield tool_executor(registry, results)


@pytest.mark.process
async def test_a_page_passed_by_handle_is_condensed_from_its_whole_text(tmp_path: Path) -> None:
    """LESSONS: the agent passed a 5,000-character cut of each page, and the feature never once did anything."""
    assert 35_000 < O200K.count(PAGE) < 45_000
    async with summarizer(tmp_path) as executor:
        crawl = Origin(server="search", tool="crawl", arguments={}, called_at=datetime.now(UTC))
        handle = await executor.results.keep(assume_masked(PAGE), scope=ME.name, origin=crawl)
        arguments = {
            "content": f"result:{handle}",
            "schema_hint": "innkeepers and whom they serve, with dates",
            "max_output_tokens": 800,
        }
        observation = await execute(
            executor, ToolCall("c1", "summarizer__summarize_for_extraction", json.dumps(arguments)), scope=ME
        )
    assert not observation.is_error
    assert "Marla of Westfold serves the Silver Hand" in observation.text
    assert O200K.count(observation.text) <= 800


async def test_the_services_own_tools_take_a_handle_where_the_caller_is_the_user(tmp_path: Path) -> None:
    settings = Settings.load({"TERSELY_DATA_DIR": str(tmp_path)})
    async with kept_results(settings) as results:
        origin = Origin(server="search", tool="crawl", arguments={}, called_at=datetime.now(UTC))
        handle = await results.keep(assume_masked(PAGE), scope=user_scope(), origin=origin)
    async with summarizer_app(settings, handles_of=user_scope()) as parts:
        condensed = await parts.summarizer.summarize_for_extraction(
            f"result:{handle}", "innkeepers, allegiances", max_output_tokens=800
        )
    assert condensed.tokens_before > 35_000 and "Marla of Westfold" in condensed.text
    async with summarizer_app(settings) as strangers:
        same = await strangers.summarizer.summarize(f"result:{handle}")
    assert same.text == f"result:{handle}", "for a stranger it is just a short text"
