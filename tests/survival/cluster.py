"""A cluster of real processes: replicas of `tersely up`, a model, tools and a store; records everything they do."""

import json
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import psycopg
import websockets
import yaml

from tersely.store.database import Database
from tests.survival import audit
from tests.survival.checker import TOOL_TIMEOUT
from tests.survival.fork_server import Forked, ForkServer
from tests.survival.history import History, lines_of
from tests.survival.tools import SECRET

ROOT = Path(__file__).parents[2]
ENDS = ("completed", "failed", "cancelled", "timed_out")


@dataclass
class Replica:
    slot: int
    port: int
    log: Path
    process: "subprocess.Popen[bytes] | Forked"
    http: httpx2.AsyncClient

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    @property
    def executor(self) -> str:
        return next((line["executor"] for line in lines_of(self.log) if line.get("event") == "session_claimed"), "")

    @property
    def listens(self) -> bool:
        return any(line.get("event") == "listening" for line in lines_of(self.log))

    async def answers(self) -> int:
        """What it says when asked whether it is ready; 0: nothing."""
        with suppress(httpx2.HTTPError):
            return int((await self.http.get(f"{self.address}/ready", timeout=2)).status_code)
        return 0

    async def ready(self, seconds: float = 300) -> None:
        with anyio.fail_after(seconds):
            while await self.answers() != 200:
                if not self.is_running:
                    raise RuntimeError(f"a replica ended: {self.log.read_text()[-2000:]}")
                await anyio.sleep(0.05)


@dataclass
class Cluster:
    folder: Path
    url: str
    history: History
    config: Path
    limit: int
    lease: float
    environment: dict[str, str] = field(default_factory=dict)
    fork_server: ForkServer | None = None
    """Where replicas come from; without one each is a fresh interpreter."""

    replicas: list[Replica] = field(default_factory=list)
    cases: dict[str, str] = field(default_factory=dict)
    """Sessions that were accepted, and their cases."""

    http: httpx2.AsyncClient = field(default_factory=lambda: httpx2.AsyncClient(timeout=30, verify=False))
    """One for all that is asked: making one costs more than asking."""

    draw: random.Random = field(default_factory=random.Random)
    took: list[float] = field(default_factory=list)
    """Seconds that each submission took to be answered."""

    first_version: Path | None = None
    """Where an older version is installed, which the first processes run."""

    sent: int = 0
    effects: bool = False
    """Whether cases have something changed."""

    started: int = 0
    audited: bool = False

    @property
    def is_sqlite(self) -> bool:
        return self.url.startswith("sqlite")

    @property
    def file(self) -> Path:
        return Path(self.url.split("///", 1)[1])

    @property
    def engine_file(self) -> Path:
        return self.file.with_name(f"{self.file.stem}-workflows.db")

    # Processes

    def start(
        self,
        slot: int,
        port: int | None = None,
        environment: Mapping[str, str] | None = None,
        *,
        source: Path | None = None,
    ) -> Replica:
        """
        Args:
            source: Of another version of Tersely, to be run as it is.
        """
        self.started += 1
        log = self.folder / f"replica-{slot}-{self.started}.log"
        port = port or _free_port()
        words = ["up", "--config", str(self.config), "--port", str(port)]
        everything = {**_bare(), **self.environment, **(environment or {})}
        if self.audited:
            everything["TERSELY_DATABASE_URL"] = audit.signed(
                everything["TERSELY_DATABASE_URL"], f"r{slot}-{self.started}"
            )
        process: subprocess.Popen[bytes] | Forked
        if source:
            everything["PYTHONPATH"] = str(source)
            with log.open("wb") as out:
                process = _started([sys.executable, "-m", "tersely", *words], everything, out)
        elif self.fork_server and not _needs_its_own(everything):
            process = self.fork_server.start(words, everything, log)
        else:
            with log.open("wb") as out:
                process = _started([sys.executable, "-m", "tests.survival.replica", *words], everything, out)
        replica = Replica(slot, port, log, process, self.http)
        self.replicas = [other for other in self.replicas if other.slot != slot] + [replica]
        return replica

    async def start_all(self, count: int) -> None:
        for slot in range(count):
            self.start(slot)
        for replica in self.replicas:
            await replica.ready()

    def kill(self, replica: Replica) -> None:
        """As the kernel does it when memory runs out."""
        replica.process.kill()
        replica.process.wait()
        self.history.note("fault", what="kill", executor=replica.executor)

    def start_again(self, replica: Replica) -> Replica:
        return self.start(replica.slot, replica.port)

    def signal(self, replica: Replica, number: signal.Signals, **fields: Any) -> None:
        replica.process.send_signal(number)
        self.history.note("fault", what=number.name, executor=replica.executor, **fields)

    # Clients

    async def submit(self, case: str | None = None, *, expected: str = "completed", patient: bool = True) -> str | None:
        """Send an alert, to any replica, until one takes it; its session."""
        self.sent += 1
        case = case or f"case-{self.sent:04d}{'e' * self.effects}"
        body = {"data": {"alertname": f"Trouble with {case}", "note": f"the token is {SECRET}"}}
        headers = {"Idempotency-Key": f"{case}-{self.started}-{self.sent}"}
        while True:
            for replica in self.draw.sample(self.replicas, len(self.replicas)):
                with suppress(httpx2.HTTPError):
                    began = anyio.current_time()
                    answer = await self.http.post(f"{replica.address}/api/v1/alerts", json=body, headers=headers)
                    self.took.append(anyio.current_time() - began)
                    if answer.status_code == 202:
                        session_id = str(answer.json()["session_id"])
                        self.cases[session_id] = case
                        self.history.note("submit", session=session_id, case=case, accepted=True, expected=expected)
                        return session_id
                    if answer.status_code not in (429, 503, 507) or not answer.headers.get("retry-after"):
                        self.history.note(
                            "left", session=case, where=f"a submission got {answer.status_code}: {answer.text[:300]}"
                        )
                        return None
            if not patient:
                self.history.note("submit", session=None, case=case, accepted=False)
                return None
            await anyio.sleep(0.1)

    async def get(self, path: str, seconds: float = 300) -> Any:
        with anyio.fail_after(seconds):
            while True:
                for replica in self.replicas:
                    with suppress(httpx2.HTTPError):
                        answer = await self.http.get(f"{replica.address}{path}", timeout=10)
                        if answer.status_code == 200:
                            return answer
                await anyio.sleep(0.1)

    async def status(self, session_id: str) -> str:
        return str((await self.get(f"/api/v1/sessions/{session_id}")).json()["status"])

    async def until(self, session_id: str, *statuses: str, seconds: float = 300) -> None:
        with anyio.fail_after(seconds):
            while await self.status(session_id) not in statuses:
                await anyio.sleep(0.05)

    async def cancel(self, session_id: str) -> None:
        """Through whichever replica answers first."""
        with anyio.fail_after(300):
            while True:
                for replica in self.draw.sample(self.replicas, len(self.replicas)):
                    with suppress(httpx2.HTTPError):
                        if (
                            await self.http.post(f"{replica.address}/api/v1/sessions/{session_id}/cancel", timeout=10)
                        ).status_code < 500:
                            return
                await anyio.sleep(0.1)

    async def watch(self, session_id: str) -> None:
        """Follow a session to its end, from one replica to the next, and write down every stored event as it came."""
        seen = 0
        while True:
            replica = self.draw.choice(self.replicas)
            with suppress(OSError, websockets.WebSocketException, TimeoutError):
                async with websockets.connect(f"ws://127.0.0.1:{replica.port}/api/v1/ws", open_timeout=5) as socket:
                    await socket.send(
                        json.dumps({"action": "subscribe", "channel": f"session:{session_id}", "last_seq": seen})
                    )
                    async for message in socket:
                        event = json.loads(message)
                        if event["type"] == "subscription.error":
                            break  # The store is away for a moment; we come again.
                        if "seq" not in event or event.get("session_id") != session_id:
                            continue
                        seen = event["seq"]
                        self.history.note("live", session=session_id, seq=seen, payload=message)
                        if event["type"] == "session.status" and event["status"] in ENDS:
                            return
            await anyio.sleep(0.1)

    async def settled(self, seconds: float = 300) -> None:
        """Wait until everything that was accepted has ended; what has not by then is found by the checker."""
        with anyio.move_on_after(seconds):
            while any(count for status, count in (await self.counts()).items() if status not in ENDS):
                await anyio.sleep(0.1)

    async def counts(self) -> dict[str, int]:
        return {
            str(row[0]): int(row[1]) for row in await self.rows("SELECT status, count(*) FROM sessions GROUP BY status")
        }

    # The store, looked into from outside

    async def rows(self, question: str, *, engine: bool = False) -> list[tuple[Any, ...]]:
        return await anyio.to_thread.run_sync(self._rows, question, engine, abandon_on_cancel=True)

    def _rows(self, question: str, engine: bool) -> list[tuple[Any, ...]]:
        if not self.is_sqlite:
            for _ in range(1_000):
                with (
                    suppress(psycopg.OperationalError),
                    psycopg.connect(self.url, autocommit=True, connect_timeout=5) as connection,
                ):
                    if engine:
                        connection.execute("SET search_path TO dbos")
                    return list(connection.execute(question))
                time.sleep(0.1)
            raise RuntimeError("PostgreSQL does not answer")
        file = self.engine_file if engine else self.file
        with closing(sqlite3.connect(file, timeout=30)) as connection:
            return connection.execute(question).fetchall()

    async def change(self, statement: str) -> int:
        """Change the store directly; the number of rows."""

        def changed() -> int:
            if self.is_sqlite:
                with closing(sqlite3.connect(self.file, timeout=30)) as connection, connection:
                    return connection.execute(statement).rowcount
            with psycopg.connect(self.url, autocommit=True, connect_timeout=5) as server:
                return int(server.execute(statement).rowcount)

        return await anyio.to_thread.run_sync(changed, abandon_on_cancel=True)

    # Looking back

    async def look_back(self) -> History:
        """Add what the store, the logs and the API contain in the end."""
        note = self.history.note
        self._note_calls()
        for log in sorted(self.folder.glob("replica-*.log")):
            for line in lines_of(log):
                self._note_log_line(line, slot=int(log.name.split("-")[1]))
        if self.audited:
            self.history.records += await anyio.to_thread.run_sync(audit.seen, self.url)
        for session, name, began, stored in await self.rows(
            "SELECT workflow_uuid, function_name, started_at_epoch_ms, completed_at_epoch_ms FROM operation_outputs",
            engine=True,
        ):
            note("step", session=session, name=name, began=began / 1000, stored=stored / 1000)
        await self._note_unfinished()
        for session_id in self.cases:
            await self._note_session(session_id)
        self._look_for_secrets()
        return self.history

    def _note_calls(self) -> None:
        """What the model and the tools were asked, from their own logs."""
        for name in ("model.log", "tools.log"):
            for line in lines_of(self.folder / name):
                asked = line.pop("asked", "")
                if SECRET in asked:
                    self.history.note("leak", where="a request to the model")
                if asked:
                    line["size"] = len(asked)
                self.history.records.append(line)

    def _note_log_line(self, line: dict[str, Any], slot: int) -> None:
        match line.get("event"):
            case "taken_over":
                self.history.note("takeover", executor=line["from"], sessions=line["sessions"])
            case "session_suspected":
                self.history.note("suspected", session=line["session_id"])
            case "session_convicted":
                self.history.note("convicted", session=line["session_id"], executor=line["executor"])
            case "listening":
                self.history.records.append({"kind": "ready", "at": _seconds(line["timestamp"]), "slot": slot})
            case "session_claimed" if not self.audited:
                self.history.records.append(
                    {
                        "kind": "claim",
                        "at": _seconds(line["timestamp"]),
                        "attempt": line["attempt"],
                        "executor": line["executor"],
                        "session": line["session_id"],
                    }
                )

    async def _note_session(self, session_id: str) -> None:
        """How a session ended, and its events as the store and the API show them."""
        note = self.history.note
        detail = (await self.get(f"/api/v1/sessions/{session_id}")).json()
        began, ended = (detail[name] and _seconds(detail[name]) for name in ("started_at", "ended_at"))
        note(
            "end",
            session=session_id,
            status=detail["status"],
            reason=detail["reason"],
            attempt=detail["attempt"],
            began=began,
            ended=ended,
        )
        body = (await self.get(f"/api/v1/sessions/{session_id}/events?limit=200")).text
        for seq, payload in await self.rows(
            f"SELECT seq, payload FROM event_log WHERE session_id = '{session_id}' ORDER BY seq"
        ):
            if payload not in body:
                note("left", session=session_id, where=f"event {seq} is not in the API as it is stored")
            note("event", session=session_id, seq=seq, payload=payload)

    async def _note_unfinished(self) -> None:
        for question, engine, where in (
            (
                "SELECT workflow_uuid, status FROM workflow_status WHERE status IN ('PENDING', 'ENQUEUED', 'DELAYED')",
                True,
                "queue",
            ),
            ("SELECT session_id, id FROM timeline_events WHERE status = 'streaming'", False, "streaming event"),
            ("SELECT session_id, id FROM stages WHERE status IN ('pending', 'in_progress')", False, "open stage"),
            (
                "SELECT session_id, id FROM executions WHERE status IN ('pending', 'in_progress')",
                False,
                "open execution",
            ),
        ):
            # The engine stores its own end a moment after ours.
            for _ in range(100):
                found = await self.rows(question, engine=engine)
                if not found:
                    break
                await anyio.sleep(0.1)
            for session_id, what in found:
                self.history.note("left", session=session_id, where=f"{where} {what}")
        if self.is_sqlite:
            for engine in (False, True):
                ((said,),) = await self.rows("PRAGMA integrity_check", engine=engine)
                if said != "ok":
                    self.history.note("left", session="", where=f"integrity_check: {said}")

    def _look_for_secrets(self) -> None:
        needle = SECRET.encode()
        for file in self.folder.rglob("*"):
            # The model's and the tools' own logs are the other side of the wire.
            if (
                file.is_file()
                and file.name not in ("model.log", "tools.log", "history.jsonl")
                and needle in file.read_bytes()
            ):
                self.history.note("leak", where=file.name)
        if not self.is_sqlite:
            with psycopg.connect(self.url, autocommit=True) as connection:
                tables = connection.execute(
                    "SELECT table_schema, table_name FROM information_schema.tables "
                    "WHERE table_schema IN ('public', 'dbos') AND table_type = 'BASE TABLE'"
                ).fetchall()
                for schema, table in tables:
                    found = connection.execute(
                        f'SELECT count(*) FROM {schema}."{table}" AS it WHERE it::text LIKE %s',
                        (f"%{SECRET}%",),
                    ).fetchone()
                    if found and found[0]:
                        self.history.note("leak", where=f"{schema}.{table}")
        if any(SECRET in record.get("payload", "") for record in self.history.of("live")):
            self.history.note("leak", where="a frame")


@asynccontextmanager
async def cluster(
    folder: Path,
    url: str,
    *,
    seed: int = 0,
    limit: int = 4,
    lease: float = 2.0,
    looks: int = 3,
    slowest: float = 0.2,
    what: str = "",
    fork_server: ForkServer | None = None,
    first_version: Path | None = None,
    ops: Mapping[str, Any] | None = None,
    **environment: str,
) -> AsyncIterator[Cluster]:
    """A cluster on the store at `url` (PostgreSQL: an empty database), without replicas yet; stops every process.

    Args:
        ops: Other settings for the tools' server.
    """
    folder.mkdir(parents=True, exist_ok=True)
    history = History(folder / "history.jsonl")
    history.note("run", seed=seed, store=url.partition(":")[0], limit=limit, lease=lease, what=what)
    if url.startswith("postgresql") and first_version:
        older = _bare() | {"TERSELY_DATABASE_URL": url, "PYTHONPATH": str(first_version)}
        await anyio.run_process([sys.executable, "-m", "tersely", "migrate"], env=older, cwd=ROOT)
    elif url.startswith("postgresql"):
        await Database.migrate(url)
    address = folder / "model.address"
    command = [
        sys.executable,
        "-m",
        "tests.survival.model",
        "--address",
        str(address),
        "--log",
        str(folder / "model.log"),
    ]
    command += ["--looks", str(looks), "--slowest", str(slowest), "--seed", str(seed)]
    model = _started(command, _bare(), subprocess.DEVNULL)
    try:
        with anyio.fail_after(300):
            while not address.exists() or not address.read_text():
                await anyio.sleep(0.05)
        config = folder / "tersely.yaml"
        tools: dict[str, Any] = {
            "command": sys.executable,
            "args": ["-m", "tests.survival.tools", str(folder / "tools.log")],
            "cwd": str(ROOT),
        }
        acts = {"transport": {**tools, "args": [*tools["args"], "acts"]}, "timeout": TOOL_TIMEOUT}
        server: dict[str, Any] = {
            "transport": tools,
            "read_only": True,
            "timeout": TOOL_TIMEOUT,
            "summarization": {"size_threshold_tokens": 1_000, "summary_max_token_limit": 300},
            **(ops or {}),
        }
        provider = {
            "type": "openai",
            "model": "scripted",
            "base_url": address.read_text(),
            "api_key": "none",
            "context_window": 60_000,
        }
        config.write_text(
            yaml.safe_dump(
                {
                    "llm_providers": {"scripted": provider},
                    "defaults": {"llm_provider": "scripted"},
                    "mcp_servers": {"ops": server, "acts": acts},
                }
            )
        )
        settings = {
            "TERSELY_DATABASE_URL": url,
            "TERSELY_DATA_DIR": str(folder / "data"),
            "TERSELY_MAX_CONCURRENT_SESSIONS": str(limit),
            "TERSELY_MAX_PENDING": "100000",
            "TERSELY_LEASE": str(lease),
            "TERSELY_POLL": "0.1",
            # Not in the file: an older release would refuse the key.
            "TERSELY_VERDICT": "false",
            "TERSELY_GRACE": "10",
            "TERSELY_SUMMARY_CACHE": "false",
        }
        draw = random.Random(seed)
        it = Cluster(
            folder,
            url,
            history,
            config,
            limit,
            lease,
            environment=settings | environment,
            fork_server=fork_server,
            first_version=first_version,
            draw=draw,
        )
        try:
            yield it
        finally:
            for replica in it.replicas:
                if replica.is_running:
                    with suppress(ProcessLookupError):
                        replica.process.send_signal(signal.SIGCONT)
                    replica.process.kill()
                    replica.process.wait()
            with anyio.CancelScope(shield=True), anyio.move_on_after(5):
                await it.http.aclose()
    finally:
        model.kill()
        model.wait()


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


def _started(command: list[str], environment: dict[str, str], out: Any) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        command, env=environment, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
    )


def _needs_its_own(environment: Mapping[str, str]) -> bool:
    """What has to be there before an interpreter starts cannot be had by forking one."""
    return "LD_PRELOAD" in environment


def _bare() -> dict[str, str]:
    """The environment without whatever the user has set for services of their own."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TERSELY_", "FAULT_", "LLM_", "OPENROUTER", "MCP_"))
    }
    return kept | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
