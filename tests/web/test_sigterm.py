"""A real process with many viewers, ended by SIGTERM."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tersely.store.database import Database
from tests.fakes.children import children_of
from tests.survival.proxy import Proxy

pytestmark = pytest.mark.process

VIEWERS = 50
AWAY_SECONDS = 5
"""Long enough for what waits longer after each attempt."""


def started_process(command: list[str], log: Any, environment: dict[str, str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(command, stderr=log, env=environment)


async def read_to_the_end(socket: ClientConnection) -> None:
    while True:
        await socket.recv()


@asynccontextmanager
async def up(tmp_path: Path, **environment: str) -> AsyncIterator[tuple["subprocess.Popen[bytes]", str, float]]:
    """A service: its process, its address, and how many seconds it has to end. A start takes 2 to 3 s where nothing
    else runs; on a busy machine everything takes longer.
    """
    log = tmp_path / "log"
    config = {
        "agents": {"one": {}},
        "chains": {"plain": {"alert_types": ["plain"], "stages": [{"name": "look", "agent": "one"}]}},
    }
    (tmp_path / "tersely.yaml").write_text(json.dumps(config))
    command = [sys.executable, "-m", "tersely", "up", "--port", "0", "--config", str(tmp_path / "tersely.yaml")]
    began = time.monotonic()
    with log.open("wb") as out:
        process = started_process(command, out, {**os.environ, "TERSELY_DATA_DIR": str(tmp_path), **environment})
    try:
        with anyio.fail_after(300):
            while not (found := re.search(r'"address": "(http://[^"]+)"', log.read_text())):
                await anyio.sleep(0.05)
        yield process, found.group(1), 5 * max(1.0, (time.monotonic() - began) / 3)
    finally:
        process.kill()
        process.wait()


async def test_sigterm_ends_the_service_within_five_seconds_although_fifty_viewers_watch(tmp_path: Path) -> None:
    async with up(tmp_path) as (process, address, seconds), AsyncExitStack() as stack:
        http = await stack.enter_async_context(httpx2.AsyncClient(trust_env=False, timeout=60))
        assert children_of(process.pid) == []
        large = "\n".join(f"pod web-{number * 7919} restarts" for number in range(5_000))
        session = (await http.post(f"{address}/api/v1/alerts", json={"data": large})).json()["session_id"]
        assert children_of(process.pid), "large texts are worked on in worker processes"
        sockets = []
        for number in range(VIEWERS):
            socket = await stack.enter_async_context(connect(f"{address.replace('http', 'ws')}/api/v1/ws", proxy=None))
            channel = "sessions" if number % 2 else f"session:{session}"
            await socket.send(json.dumps({"action": "subscribe", "channel": channel}))
            sockets.append(socket)
        for socket in sockets:
            while json.loads(await socket.recv())["type"] != "subscription.confirmed":
                pass
        told = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert await anyio.to_thread.run_sync(process.wait) == 0
        assert time.monotonic() - told < seconds
        for socket in sockets:
            with pytest.raises(ConnectionClosed) as closed:
                await read_to_the_end(socket)
            assert closed.value.rcvd and closed.value.rcvd.code == 1012, "they may reconnect elsewhere"


async def test_an_idle_service_without_its_database_seldom_tries_to_connect_and_ends_within_five_seconds(
    postgresql_url: str, tmp_path: Path
) -> None:
    await Database.migrate(postgresql_url)
    async with (
        Proxy(postgresql_url).listening() as proxy,
        up(tmp_path, TERSELY_DATABASE_URL=f"{proxy.url}?sslmode=disable&gssencmode=disable") as (
            process,
            address,
            seconds,
        ),
        httpx2.AsyncClient(trust_env=False, timeout=60) as http,
    ):
        proxy.is_away = True
        proxy.cut()
        with anyio.fail_after(120):
            while (await http.get(f"{address}/ready")).status_code != 503:
                await anyio.sleep(0.05)
        await anyio.sleep(1)
        before = proxy.refused
        await anyio.sleep(AWAY_SECONDS)
        per_second = (proxy.refused - before) / AWAY_SECONDS
        told = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert await anyio.to_thread.run_sync(process.wait) == 0
        assert time.monotonic() - told < seconds
    assert 0 < per_second < 8
