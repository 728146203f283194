"""A real process with many viewers, ended by SIGTERM."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

pytestmark = pytest.mark.process

VIEWERS = 50


def started_process(command: list[str], log: Any, environment: dict[str, str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(command, stderr=log, env=environment)


async def read_to_the_end(socket: ClientConnection) -> None:
    while True:
        await socket.recv()


async def test_sigterm_ends_the_service_within_five_seconds_although_fifty_viewers_watch(tmp_path: Path) -> None:
    log = tmp_path / "log"
    config = {
        "agents": {"one": {}},
        "chains": {"plain": {"alert_types": ["plain"], "stages": [{"name": "look", "agent": "one"}]}},
    }
    (tmp_path / "tersely.yaml").write_text(json.dumps(config))
    command = [sys.executable, "-m", "tersely", "up", "--port", "0", "--config", str(tmp_path / "tersely.yaml")]
    began = time.monotonic()
    with log.open("wb") as out:
        process = started_process(command, out, {**os.environ, "TERSELY_DATA_DIR": str(tmp_path)})
    try:
        with anyio.fail_after(300):
            while not (found := re.search(r'"address": "(http://[^"]+)"', log.read_text())):
                await anyio.sleep(0.05)
        started, address = time.monotonic() - began, found.group(1)
        async with AsyncExitStack() as stack:
            http = await stack.enter_async_context(httpx2.AsyncClient(trust_env=False, timeout=60))
            session = (await http.post(f"{address}/api/v1/alerts", json={"data": "x"})).json()["session_id"]
            sockets = []
            for number in range(VIEWERS):
                socket = await stack.enter_async_context(
                    connect(f"{address.replace('http', 'ws')}/api/v1/ws", proxy=None)
                )
                channel = "sessions" if number % 2 else f"session:{session}"
                await socket.send(json.dumps({"action": "subscribe", "channel": channel}))
                sockets.append(socket)
            for socket in sockets:
                while json.loads(await socket.recv())["type"] != "subscription.confirmed":
                    pass
            told = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert await anyio.to_thread.run_sync(process.wait) == 0
            # A start takes 2 to 3 s where nothing else runs; on a busy machine everything takes longer.
            assert time.monotonic() - told < 5 * max(1.0, started / 3)
            for socket in sockets:
                with pytest.raises(ConnectionClosed) as closed:
                    await read_to_the_end(socket)
                assert closed.value.rcvd and closed.value.rcvd.code == 1012, "they may reconnect elsewhere"
    finally:
        process.kill()
        process.wait()
