"""`tersely serve` under load: its probes, its worker processes, and what happens when they are killed."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import httpx2
import pytest
from fastmcp import Client

from tersely.pipeline.core import condense
from tests.fakes.children import children_of

pytestmark = [pytest.mark.process, pytest.mark.slow]

AT_ONCE = 6


def log_of(number: int) -> str:
    return "\n".join(
        f"2026-11-15T10:00:{at % 60:02}Z INFO request {at * 7919} of {number} took {at % 83} ms" for at in range(4_000)
    )


async def test_killed_worker_processes_cost_no_summary_and_probes_are_answered(tmp_path: Path) -> None:
    environment = {**os.environ, "TERSELY_DATA_DIR": str(tmp_path)}
    log = (tmp_path / "log").open("wb")
    command = [sys.executable, "-m", "tersely", "serve", "--port", "0"]
    process = subprocess.Popen(command, stderr=log, env=environment)  # noqa: ASYNC220
    answers: dict[int, str] = {}
    try:
        with anyio.fail_after(240):
            while not (
                lines := [one for one in (tmp_path / "log").read_text("utf-8").splitlines() if '"listening"' in one]
            ):
                await anyio.sleep(0.05)
            address = json.loads(lines[0])["address"]
            assert children_of(process.pid) == []  # none before there is work
            async with Client(address) as client, httpx2.AsyncClient(trust_env=False) as http:

                async def summarize(number: int) -> None:
                    given = {"content": log_of(number), "max_output_tokens": 500}
                    answers[number] = (await client.call_tool("summarize", given)).content[0].text

                async with anyio.create_task_group() as tasks:
                    for number in range(AT_ONCE):
                        tasks.start_soon(summarize, number)
                    while not (workers := children_of(process.pid)):
                        await anyio.sleep(0.01)
                    os.kill(workers[0], signal.SIGKILL)
                    while len(answers) < AT_ONCE:
                        assert (await http.get(f"{address.removesuffix('/mcp')}/health")).status_code == 200
                        await anyio.sleep(0.05)
            process.terminate()
            assert process.wait(60) in (0, -signal.SIGTERM)
    finally:
        process.kill()
        process.wait()
        log.close()
    assert answers == {number: condense(log_of(number), 500).text for number in range(AT_ONCE)}
    assert '"cpu_worker_died"' in (tmp_path / "log").read_text("utf-8")
