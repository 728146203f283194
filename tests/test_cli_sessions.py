"""Sessions from a shell: sent, watched, exported; and the look at a machine before any of it."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from tersely.store.sqlite_files import worker_file_lock
from tests.fakes.llm_server import FakeLLMServer
from tests.web.running import running

pytestmark = pytest.mark.process


async def tersely(*arguments: str, given: str = "", **environment: str) -> "subprocess.CompletedProcess[bytes]":
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TERSELY_", "OPEN", "LLM_", "ANTHROPIC", "GOOGLE"))
    }
    command = [sys.executable, "-m", "tersely", *arguments]
    with anyio.fail_after(300):
        return await anyio.run_process(command, input=given.encode(), env={**kept, **environment}, check=False)


async def test_an_alert_is_sent_watched_and_exported_from_a_shell(tmp_path: Path) -> None:
    async with running(f"sqlite:///{tmp_path / 'tersely.db'}") as service:
        sent = await tersely("investigate", "--watch", "--json", "--url", service.address, given="web-7 is down")
        events = [json.loads(line) for line in sent.stdout.splitlines()]
        assert sent.returncode == 0 and events[-1]["status"] == "completed"
        session_id = events[0]["session_id"]
        watched = await tersely("watch", session_id, TERSELY_URL=service.address)
        assert watched.returncode == 0 and "web-7 failed" in watched.stdout.decode()
        port = service.address.rpartition(":")[2]
        watched = await tersely("watch", session_id, TERSELY_PORT=port)
        assert watched.returncode == 0, "started with the same environment, both mean the same place"
        file = tmp_path / "out.json"
        exported = await tersely("export", session_id, "--results", "-o", str(file), "--url", service.address)
        assert exported.returncode == 0, exported.stderr
        document = json.loads(file.read_text())
        assert document["session"]["id"] == session_id and "pod web-7 Failed" in document["results"][0]["text"]
        audited = await tersely("audit", "-o", str(tmp_path / "audit.jsonl"), "--url", service.address)
        assert audited.returncode == 0, audited.stderr
        entries = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
        assert [(one["action"], one["principal"], one["target"]) for one in entries] == [
            ("submit", "local", session_id),
            ("export", "local", session_id),
        ]
        missing = await tersely("export", "nobody", "-o", str(tmp_path / "none.json"), "--url", service.address)
        assert missing.returncode == 2 and b"There is no session 'nobody'" in missing.stderr
    assert sorted(path.name for path in tmp_path.glob("*.json*")) == ["audit.jsonl", "out.json"], (
        "nothing half-written is left"
    )
    kept = (tmp_path / "audit.jsonl").read_text()
    gone = await tersely("audit", "-o", str(tmp_path / "audit.jsonl"), "--url", service.address)
    assert gone.returncode == 2 and b"tersely up" in gone.stderr
    assert (tmp_path / "audit.jsonl").read_text() == kept, "a failed run does not replace what there was"
    away = await tersely("export", session_id, "--url", service.address)
    assert away.returncode == 2 and b"tersely up" in away.stderr and b"Traceback" not in away.stderr


async def test_what_keeps_it_from_starting_is_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        busy = await tersely("up", "--port", port, TERSELY_DATA_DIR=str(tmp_path))
    assert busy.returncode == 2 and f"Cannot listen on 127.0.0.1:{port}".encode() in busy.stderr
    opened = await tersely("up", "--host", "0.0.0.0", "--port", "0", TERSELY_DATA_DIR=str(tmp_path))
    assert opened.returncode == 2 and b"auth.tokens" in opened.stderr
    with worker_file_lock(tmp_path / "tersely.db"):
        second = await tersely("up", "--port", "0", TERSELY_DATA_DIR=str(tmp_path))
    assert second.returncode == 2 and b"Another tersely process uses" in second.stderr
    assert not any(b"Traceback" in one.stderr for one in (busy, opened, second))


async def looked(*arguments: str, **environment: str) -> tuple[int, dict[str, Any]]:
    done = await tersely("doctor", "--json", *arguments, **environment)
    assert b"Traceback" not in done.stderr
    findings = json.loads(done.stdout)["findings"]
    assert all(bool(one["next_step"]) == (one["verdict"] != "fine") for one in findings), (
        "what to do, for every failure"
    )
    return done.returncode, {one["what"]: (one["verdict"], f"{one['words']}. {one['next_step']}") for one in findings}


async def test_the_doctor_finds_a_bare_machine_well_and_leaves_it_bare(tmp_path: Path) -> None:
    code, found = await looked(TERSELY_DATA_DIR=str(tmp_path / "data"), TERSELY_PORT="0")
    assert code == 0 and {verdict for verdict, _ in found.values()} == {"fine", "look"}
    assert "OPENROUTER_API_KEY" in found["model"][1] and "mcp_servers" in found["servers"][1]
    assert not (tmp_path / "data").exists()


async def test_the_doctor_names_what_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "tersely.yaml"
    async with FakeLLMServer([401]).listening() as server:
        file.write_text(
            json.dumps(
                {
                    "llm_providers": {"main": {"base_url": server.url, "model": "m"}},
                    "mcp_servers": {"gone": {"transport": {"command": str(tmp_path / "no-such-program")}}},
                }
            )
        )
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            code, found = await looked("--config", str(file), TERSELY_DATA_DIR=str(tmp_path), TERSELY_PORT=port)
    assert code == 1
    assert {what for what, (verdict, _) in found.items() if verdict == "wrong"} == {
        "address",
        "model main",
        "server gone",
    }
    assert "401" in found["model main"][1] and "TERSELY_PORT" in found["address"][1]
    file.write_text("agnets: {}")
    code, found = await looked("--config", str(file))
    assert code == 1 and found["configuration"][0] == "wrong" and "agnets" in found["configuration"][1]
