"""Rows F36 to F39 of the fault matrix: viewers who come and go, doubles, floods, and bodies that are meant to hurt."""

import gzip
import json
import os
import random
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.abc
import httpx2
import pytest

from tersely.events.recorder import SessionRecorder
from tersely.masking.masked import assume_masked
from tersely.results.kept import KeptResults
from tersely.sessions.worker import SessionOutcome
from tersely.store.sessions import Session
from tests.web.running import ALERT, Running, running, settings_for

MIB = 2**20
WAITING = 15


async def talkative(session: Session, recorder: SessionRecorder, kept: KeptResults) -> SessionOutcome:
    if session.alert == "talk":
        for number in range(150):
            await recorder.record(str(number), "llm_response", assume_masked(f"word {number}"))
    return SessionOutcome(status="completed")


@pytest.fixture(scope="module")
async def service(store_url: str) -> AsyncIterator[Running]:
    async with running(store_url, settings=settings_for(store_url, max_pending=WAITING), work=talkative) as service:
        yield service


async def test_viewers_who_are_cut_off_again_and_again_hear_everything_once(service: Running) -> None:
    """F36: they come again with the last number they have."""
    session_id = await service.submit(data="talk")
    chance = random.Random(36)

    async def watch(heard: list[int]) -> None:
        while True:
            async with service.viewer() as viewer:
                await viewer.say(
                    action="subscribe", channel=f"session:{session_id}", last_seq=heard[-1] if heard else 0
                )
                for _ in range(chance.randrange(1, 40)):
                    event = await viewer.hear()
                    if "seq" in event:
                        heard.append(event["seq"])
                    if event.get("status") == "completed" and event["type"] == "session.status":
                        return
                viewer.socket.transport.abort()

    heard: list[list[int]] = [[] for _ in range(6)]
    async with anyio.create_task_group() as group:
        for one in heard:
            group.start_soon(watch, one)
    assert heard == [list(range(1, 154))] * 6


async def test_a_key_identifies_one_session_on_every_replica(service: Running, store_url: str) -> None:
    """F37, over two processes where the database allows it."""
    async with replica(store_url) as second:
        found: Counter[str] = Counter()

        async def submit(address: str) -> None:
            answer = await service.http.post(f"{address}/api/v1/alerts", json=ALERT, headers={"Idempotency-Key": "F37"})
            assert answer.status_code == 202, answer.text
            found[answer.json()["session_id"]] += 1

        async with anyio.create_task_group() as group:
            for number in range(50):
                group.start_soon(submit, second if number % 2 and second else service.address)
        assert list(found.values()) == [50]
        for address in {service.address, second or service.address}:
            other = await service.http.post(
                f"{address}/api/v1/alerts", json={"data": "another"}, headers={"Idempotency-Key": "F37"}
            )
            assert other.status_code == 409
        without = {(await service.submit()) for _ in range(3)}
        assert len(without) == 3


async def test_in_a_flood_what_is_too_much_is_refused_and_what_was_accepted_ends(service: Running) -> None:
    """F38"""
    with anyio.fail_after(300):
        while (await service.get("/sessions", status="pending"))[
            "items"
        ]:  # what other tests left takes places in the queue
            await anyio.sleep(0.05)
    accepted: list[str] = []
    statuses: Counter[int] = Counter()

    async def submit(number: int) -> None:
        answer = await service.http.post("/api/v1/alerts", json={"data": f"flood {number}"})
        statuses[answer.status_code] += 1
        if answer.status_code == 202:
            accepted.append(answer.json()["session_id"])
        else:
            assert answer.status_code == 429 and int(answer.headers["Retry-After"]) > 0

    async with anyio.create_task_group() as group:
        for number in range(4 * WAITING):
            group.start_soon(submit, number)
    assert statuses[429] and len(accepted) == statuses[202] >= WAITING
    for session_id in accepted:
        await service.until(session_id, "completed")
    page = await service.get("/sessions", q="flood", limit=500)
    assert {session["id"] for session in page["items"]} == set(accepted), "what was refused is not stored"


def peak() -> int:
    """Bytes of memory that this process, the service's, ever took."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@pytest.mark.slow
async def test_bodies_that_are_meant_to_hurt_are_refused_without_being_kept(service: Running) -> None:
    """F39"""
    await service.submit()
    before = peak()
    json_kind = {"Content-Type": "application/json"}

    async def chunked() -> AsyncIterator[bytes]:
        for _ in range(1024):
            yield b"x" * MIB

    bodies: list[tuple[Any, dict[str, str], tuple[int, ...]]] = [
        (b'{"data": "' + b"x" * 10 * MIB + b'"}', {}, (413,)),
        (chunked(), {}, (413,)),
        (gzip.compress(b'{"data": "' + b"x" * 100 * MIB + b'"}'), {"Content-Encoding": "gzip"}, (400, 415)),
        (b"{" + b",".join(b'"%d":1' % number for number in range(1_000_000)) + b"}", {}, (413,)),
        (b"{" + b",".join(b'"%d":1' % number for number in range(80_000)) + b"}", {}, (422,)),
        (b'{"data": ' + b"[" * 100_000, {}, (400,)),
        (b'{"data": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}", {}, (400,)),
    ]
    for body, headers, statuses in bodies:
        try:
            answer = await service.http.post("/api/v1/alerts", content=body, headers={**json_kind, **headers})
        except httpx2.TransportError:
            assert statuses == (413,)  # Closed while we were still sending.
            continue
        assert answer.status_code in statuses, answer.text[:300]
        assert len(answer.content) < 20_000
    many = {"data": {f"key {number}": number for number in range(40_000)}}
    assert (await service.http.post("/api/v1/alerts", json=many)).status_code == 202
    assert peak() - before < 400 * MIB


@asynccontextmanager
async def replica(url: str) -> AsyncIterator[str]:
    """The address of another process on the same PostgreSQL; on SQLite there is none."""
    if url.startswith("sqlite"):
        yield ""
        return
    environment = {**os.environ, "TERSELY_DATABASE_URL": url, "TERSELY_PORT": "0"}
    async with await anyio.open_process(
        [sys.executable, "-m", "tersely", "up"], env=environment, stdout=subprocess.DEVNULL
    ) as process:
        try:
            yield await address_of(process)
        finally:
            process.terminate()
            await process.wait()


async def address_of(process: anyio.abc.Process) -> str:
    assert process.stderr is not None
    said = b""
    with anyio.fail_after(300):
        while b'"event": "listening"' not in said or not said.endswith(b"\n"):
            try:
                said += await process.stderr.receive()
            except anyio.EndOfStream:
                pytest.fail(f"the replica ended: {said.decode()}")
    line = next(line for line in said.splitlines() if b'"event": "listening"' in line)
    return str(json.loads(line)["address"])
