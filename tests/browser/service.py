"""A real `tersely up` as a process of its own, with the demonstration's MCP servers and, where a test wants one, a
scripted model.

It can be killed and started again on the same port and the same files.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx2

from tersely.demo.incidents import Incident, draw_incident, server_commands, this_minute

SEED = 7


def free_port() -> int:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return int(place.getsockname()[1])


@dataclass
class Up:
    folder: Path
    configuration: Mapping[str, Any]
    port: int = field(default_factory=free_port)
    process: "subprocess.Popen[bytes] | None" = None
    token: str = ""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        file = self.folder / "tersely.yaml"
        file.write_text(json.dumps(self.configuration), encoding="utf-8")  # JSON is YAML
        environment = {**os.environ, "TERSELY_DATA_DIR": str(self.folder / "data")}
        command = [
            sys.executable,
            "-m",
            "tersely",
            "up",
            "--config",
            str(file),
            "--port",
            str(self.port),
            "--host",
            "127.0.0.1",
        ]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)  # noqa: ASYNC220
        with anyio.fail_after(300):
            async with httpx2.AsyncClient(trust_env=False) as http:
                while True:
                    assert self.process.poll() is None, (self.folder / "log").read_text("utf-8", "replace")[-3_000:]
                    try:
                        if (await http.get(f"{self.address}/ready")).status_code == 200:
                            return
                    except httpx2.TransportError:
                        pass
                    await anyio.sleep(0.05)

    async def kill(self) -> None:
        """As a crash would: no word, no tidying."""
        assert self.process is not None
        self.process.kill()
        await anyio.to_thread.run_sync(self.process.wait)

    async def stop(self) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            await anyio.to_thread.run_sync(lambda: self.process and self.process.wait(15))
        except subprocess.TimeoutExpired:
            await self.kill()

    async def ask(self, method: str, path: str, **more: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        async with httpx2.AsyncClient(base_url=self.address, trust_env=False, timeout=300, headers=headers) as http:
            answer = await http.request(method, f"/api/v1{path}", **more)
        assert answer.status_code < 300, answer.text
        return answer.json()

    async def submit(self, data: Any, **more: Any) -> str:
        return str((await self.ask("POST", "/alerts", json={"data": data, **more}))["session_id"])

    async def until(self, session_id: str, status: str) -> Any:
        with anyio.fail_after(300):
            while (session := await self.ask("GET", f"/sessions/{session_id}"))["status"] != status:
                await anyio.sleep(0.05)
        return session


def demo_incident(seed: int = SEED) -> Incident:
    return draw_incident(seed, this_minute())


def demo_configuration(incident: Incident, *, model_url: str = "", **more: Any) -> dict[str, Any]:
    """The demonstration's two systems; with a model behind `model_url`, or without any."""
    servers: dict[str, Any] = {
        name: {"transport": {"command": command[0], "args": command[1:]}, "read_only": True}
        for name, command in server_commands(incident.seed, incident.world.now).items()
    }
    configuration: dict[str, Any] = {"mcp_servers": servers, "queue": {"poll": 0.05, "lease": 3, "grace": 2}, **more}
    if model_url:
        configuration["llm_providers"] = {
            "main": {
                "type": "openrouter",
                "model": "openai/gpt-4o-mini",
                "base_url": model_url,
                "api_key": "k",
                "context_window": 100_000,
            }
        }
        configuration["defaults"] = {"llm_provider": "main", "verdict": False, **configuration.get("defaults", {})}
    return configuration


@asynccontextmanager
async def service(folder: Path, configuration: Mapping[str, Any]) -> AsyncIterator[Up]:
    up = Up(folder, configuration)
    await up.start()
    try:
        yield up
    finally:
        with anyio.CancelScope(shield=True):
            await up.stop()
