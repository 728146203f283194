"""`tersely ask`: a question is investigated without a service; the verdict alone is on standard output."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.llm_server import Body, FakeLLMServer
from tests.flows.service import ROOT, calls, said
from tests.test_cli_sessions import tersely

pytestmark = pytest.mark.process

OPS = {
    "command": sys.executable,
    "args": ["-m", "tests.fakes.mcp_servers.ops"],
    "env": {"PYTHONPATH": str(ROOT)},
}


async def test_without_a_model_the_servers_of_the_users_client_are_surveyed(tmp_path: Path) -> None:
    (tmp_path / ".cursor").mkdir()
    (tmp_path / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": {"ops": OPS}}))
    environment = {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "TERSELY_DATA_DIR": str(tmp_path),
    }

    asked = await tersely("ask", "why is api-0 failing in prod?", "--json", "--servers", "ops:logs", **environment)
    progress = asked.stderr.decode()
    assert asked.returncode == 0, progress
    found = json.loads(asked.stdout)
    assert found["status"] == "completed" and found["tool_calls"] and not found["model_calls"]
    assert "db-1" in json.dumps(found["verdict"]["evidence"])
    assert "Cursor" in progress and "ops.logs" in progress and "completed" in progress
    assert not list(tmp_path.rglob("*.db")), "nothing is kept unless it is asked for"

    wrong = await tersely("ask", "why?", "--servers", "obs", **environment)
    assert wrong.returncode == 2 and "Did you mean 'ops'?" in wrong.stderr.decode()
    nowhere = await tersely("ask", "why?", **{**environment, "HOME": str(tmp_path / "config")})
    assert nowhere.returncode == 2 and "mcp_servers" in nowhere.stderr.decode()


async def test_a_model_investigates_and_the_verdict_is_printed(tmp_path: Path) -> None:
    def answer(body: Body) -> Any:
        if "JSON object" in str(body["messages"][-1]["content"]):
            verdict = {"cause": "db-1 refuses connections", "summary": "db-1 is down.", "confidence": "high"}
            action = {"text": "Start db-1", "command": "systemctl start db-1"}
            evidence = [{"handle": "", "quote": "cannot reach database db-1"}]
            return json.dumps({**verdict, "service": "api", "actions": [action], "evidence": evidence})
        if any(message["role"] == "tool" for message in body["messages"]):
            return "db-1 refuses connections."
        return calls("ops__logs")

    async with FakeLLMServer(answer).listening() as model:
        provider = {"type": "openrouter", "model": "test/main", "base_url": model.url, "api_key": "k"}
        file = tmp_path / "tersely.yaml"
        settings = {
            "llm_providers": {"main": {**provider, "context_window": 60_000}},
            "mcp_servers": {"ops": {"transport": OPS}},
        }
        file.write_text(json.dumps(settings))
        given = ("--config", str(file), "--quiet")
        asked = await tersely("ask", "why is checkout failing?", *given, "--keep", TERSELY_DATA_DIR=str(tmp_path))
    assert asked.returncode == 0, asked.stderr
    lines = asked.stdout.decode().splitlines()
    assert lines[:2] == ["db-1 refuses connections", "high confidence · api"]
    assert "     systemctl start db-1" in lines and any("cannot reach database db-1" in line for line in lines)
    assert "why is checkout failing?" in said(model.requests[0])
    assert "tersely read --scope session:" in asked.stderr.decode() and list(tmp_path.rglob("ask/*/tersely.db"))
