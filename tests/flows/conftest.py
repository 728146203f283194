"""One service for all flows of a module, on SQLite and then on PostgreSQL: the workflow engine is one per process."""

import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.flows.service import FlowService, flow_service, server_of

QUICK = {"size_threshold_tokens": 2_000, "summary_max_token_limit": 500}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


def configuration(models: Mapping[str, str]) -> dict[str, Any]:
    """Three servers, agents of both kinds, chains of one and of two stages."""

    def provider(name: str, **more: Any) -> dict[str, Any]:
        return {
            "type": "openrouter",
            "model": f"test/{name}",
            "base_url": models[name],
            "api_key": "k",
            "context_window": 100_000,
            **more,
        }

    agents = {
        "looker": {"mcp_servers": ["ops", "side"], "fallbacks": ["spare"], "instructions": "You know this shop."},
        "reactor": {"mcp_servers": ["ops"], "controller": "react"},
        "closer": {
            "mcp_servers": ["side"],
            "fallbacks": ["spare"],
            "native_tools": {"google_search": True, "url_context": False},
        },
        "searcher": {"mcp_servers": ["side"], "llm_provider": "google", "native_tools": {"google_search": True}},
        "hasty": {"mcp_servers": ["ops"], "max_iterations": 2},
        "small": {"mcp_servers": ["side"], "llm_provider": "small"},
        "loner": {"mcp_servers": []},
        "flash": {"mcp_servers": [], "llm_provider": "flash"},
        "flash-tools": {"mcp_servers": ["side"], "llm_provider": "flash"},
    }
    chains = {
        name: {"alert_types": [name], "stages": [{"name": "look", "agent": agent}]}
        for name, agent in {
            "plain": "looker",
            "react": "reactor",
            "search": "searcher",
            "hasty": "hasty",
            "small": "small",
            "alone": "loner",
            "flash": "flash",
            "flash-tools": "flash-tools",
        }.items()
    }
    chains["judged"] = {**chains["plain"], "alert_types": ["judged"], "verdict": True}
    two: dict[str, Any] = {
        "alert_types": ["two"],
        "stages": [
            {"name": "look", "agent": "looker"},
            {"name": "close", "agent": "closer", "task": "Say what to do."},
        ],
    }
    return {
        "llm_providers": {
            "main": provider("main"),
            "spare": provider("spare"),
            "summarist": provider("summarist"),
            "small": {**provider("main"), "model": "test/small", "context_window": 12_000},
            "google": {
                "type": "google",
                "model": "gemini-3-pro-preview",
                "base_url": models["google"],
                "api_key": "k",
                "native_tools": {"code_execution": True},
            },
            "flash": {
                "type": "google",
                "model": "gemini-2.5-flash",
                "base_url": models["google"],
                "api_key": "k",
                "native_tools": {"google_search": True, "url_context": True},
            },
        },
        "mcp_servers": {
            "ops": server_of("ops", instructions="OPS-RULES: look at pods first.", summarization=QUICK),
            "side": server_of("large", instructions="SIDE-RULES: numbers are in seconds.", summarization=QUICK),
            "own": server_of("large", instructions="OWN-RULES.", summarization={**QUICK, "llm_provider": "summarist"}),
            "picky": server_of(
                "large", summarization=QUICK, tool_policies={"lines": {"summarization": {"llm_provider": "summarist"}}}
            ),
            "raw": server_of("large", summarization={"enabled": False}),
            "away": {"transport": {"type": "stdio", "command": sys.executable, "args": ["-c", "raise SystemExit(3)"]}},
        },
        "agents": agents,
        "chains": {**chains, "two": two},
        "defaults": {"alert_type": "plain", "llm_provider": "main", "verdict": False, "summarization": {"timeout": 10}},
        "queue": {"max_concurrent_sessions": 6, "poll": 0.05, "grace": 2},
    }


@pytest.fixture(scope="module")
async def service(store_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FlowService]:
    folder: Path = tmp_path_factory.mktemp("service")
    async with flow_service(store_url, folder, configuration) as service:
        yield service
