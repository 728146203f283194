"""Connections to real servers over real transports, in both eras; each server with a bad habit has a test of its
own.
"""

import base64
import contextlib
import itertools
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from tersely.errors import ResultMalformed, ResultTooLarge, ToolError, ToolRejected, ToolTimedOut, ToolUnavailable
from tersely.mcp.connect.supervisor import Backoff, Connection, connected
from tersely.mcp.connect.wire import HalfCharacters, Inbox, LineSplitter, TooLong, id_in
from tersely.mcp.raw import RawResult, Tool
from tersely.mcp.servers import Server, ServerOptions, TransportOptions
from tersely.settings.environment import process_environment
from tests.fakes.mcp_servers.plain import Message, text
from tests.fakes.mcp_servers.web import Honest, Rude, endless_stream, raw_answer

ROOT = Path(__file__).parents[2]
HASTY = Backoff(first_delay=0.05, longest_delay=0.4, between_lists=0.05)
ERAS = ["2025-11-25", "2026-07-28"]


def stdio(
    habit: str,
    *args: str,
    name: str = "",
    env: dict[str, str] | None = None,
    inherit: tuple[str, ...] = (),
    **options: Any,
) -> Server:
    transport = TransportOptions.model_validate(
        {
            "command": sys.executable,
            "args": ["-m", f"tests.fakes.mcp_servers.{habit}", *args],
            "env": {"PYTHONPATH": str(ROOT), **(env or {})},
            "inherit_env": inherit,
        }
    )
    return Server(name=name or habit, options=ServerOptions(transport=transport, **options))


def web(
    url: str, name: str = "web", *, kind: str = "http", transport: dict[str, Any] | None = None, **options: Any
) -> Server:
    reached = TransportOptions.model_validate({"type": kind, "url": url, **(transport or {})})
    return Server(name=name, options=ServerOptions(transport=reached, **options))


@asynccontextmanager
async def one(server: Server, backoff: Backoff = HASTY, **how: Any) -> AsyncIterator[Connection]:
    """A connection to one server; nothing in the block may take longer than it should."""
    with anyio.fail_after(30):
        async with connected([server], backoff=backoff, **how) as connections:
            yield connections[server.name]


def tool(connection: Connection, name: str) -> Tool:
    return next(tool for tool in connection.tools if tool.name == name)


async def call(
    connection: Connection, name: str, *, timeout: float | None = None, on_progress: Any = None, **arguments: Any
) -> RawResult:
    return await connection.call(tool(connection, name), arguments, timeout=timeout, on_progress=on_progress)


async def said(connection: Connection, name: str, **arguments: Any) -> str:
    (only,) = (await call(connection, name, **arguments)).texts
    return only


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(20):
        while not condition():
            await anyio.sleep(0.01)


def is_running(pid: int) -> bool:
    """Not even a zombie of it is left when this is false."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def is_at_work(pid: int) -> bool:
    """Another process's child is not ours to bury; dead is enough."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@asynccontextmanager
async def every_way(way: str, era: str) -> AsyncIterator[Server]:
    if way == "stdio":
        yield stdio("honest", *(["--modern"] if era == ERAS[1] else []), protocol=era)
    else:
        async with Honest().listening("sse" if way == "sse" else "http") as url:
            yield web(url, kind=way, protocol=era)


# Both eras, every transport


@pytest.mark.parametrize(("way", "era"), [(way, era) for way in ("stdio", "http", "sse") for era in ERAS])
async def test_a_tool_is_called_over_every_transport_in_both_eras(way: str, era: str) -> None:
    async with every_way(way, era) as server, one(server) as connection:
        result = await call(connection, "echo", text="hällo\n\0 wörld")

        assert result.texts == ("hällo\n\0 wörld",)
        assert not result.is_error
        status = connection.status()
        assert (status.state, status.protocol, status.last_error) == ("ready", era, "")
        assert status.tools == len(connection.tools) > 3
        assert status.latency_ms and status.latency_ms > 0


@pytest.mark.parametrize("way", ["stdio", "http", "sse"])
async def test_the_newest_protocol_both_sides_know_is_found_without_being_told(way: str) -> None:
    async with every_way(way, "auto") as server, one(server) as connection:
        assert connection.status().protocol == {"stdio": ERAS[0], "http": ERAS[1], "sse": ERAS[1]}[way]
        assert await said(connection, "echo", text="x") == "x"


async def test_a_server_on_the_official_library_is_spoken_to_over_stdio_in_both_eras() -> None:
    with anyio.fail_after(60):
        async with connected(
            [stdio("fast", name="auto"), stdio("fast", name="old", protocol=ERAS[0])], wait=40
        ) as connections:
            assert [connections[name].status().protocol for name in ("auto", "old")] == [ERAS[1], ERAS[0]]
            for connection in connections.values():
                assert await said(connection, "echo", text="x") == "x"
                assert (await call(connection, "add", a=1, b=2)).structured == {"sum": 3}
                with pytest.raises(ToolTimedOut):
                    await call(connection, "hang", timeout=0.1)
                assert connection.status().server_info["name"] == "honest"


@pytest.mark.parametrize(("way", "era"), [("stdio", ERAS[0]), ("stdio", ERAS[1]), ("http", ERAS[0]), ("http", ERAS[1])])
async def test_each_call_gets_its_own_progress_and_only_that(way: str, era: str) -> None:
    seen: dict[str, list[str | None]] = {label: [] for label in "abcd"}

    async with every_way(way, era) as server, one(server) as connection:
        async with anyio.create_task_group() as tasks:
            for label in seen:

                async def listen(progress: float, total: float | None, message: str | None, label: str = label) -> None:
                    seen[label].append(message)

                async def ask(label: str, listen: Any) -> None:
                    await call(connection, "steps", label=label, on_progress=listen)

                tasks.start_soon(ask, label, listen)

    assert seen == {label: [f"{label}1", f"{label}2", f"{label}3"] for label in "abcd"}


async def test_pictures_structured_content_and_failures_arrive_as_what_they_are() -> None:
    async with Honest().listening() as url, one(web(url)) as connection:
        picture = await call(connection, "picture")
        added = await call(connection, "add", a=1, b=2)
        failed = await call(connection, "fail")
        echoed = await call(connection, "echo", text="x")

        assert [part.kind for part in picture.parts] == ["text", "image"]
        assert picture.parts[1].mime_type == "image/png"
        assert base64.b64decode(picture.parts[1].data).startswith(b"\x89PNG")
        assert added.structured == {"sum": 3}
        assert tool(connection, "add").output_schema
        assert failed.is_error and "broken" in failed.texts[0]
        assert tool(connection, "echo").read_only and not tool(connection, "add").read_only
        assert echoed.structured == {"result": "x"}, "as the server sent it, text repeated"


async def test_arguments_that_are_not_json_are_refused_before_anything_is_sent() -> None:
    async with Honest().listening() as url, one(web(url)) as connection:
        for wrong in (float("nan"), "\ud800", object()):
            with pytest.raises(ToolError, match="arguments are not valid JSON"):
                await call(connection, "echo", text=wrong)


async def test_a_request_of_any_kind_can_be_passed_on_and_a_refusal_keeps_its_code() -> None:
    async with Honest().listening() as url, one(web(url)) as connection:
        assert (await connection.request("prompts/list"))["prompts"] == []
        with pytest.raises(ToolRejected) as refused:
            await connection.request("resources/read", {"uri": "nothing://there"})
        assert refused.value.code < 0


# What a child process gets, and what is left of it


async def test_a_child_sees_a_minimal_environment_and_what_the_configuration_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """LESSONS: servers were started with the whole environment, database and API keys included."""
    monkeypatch.setenv("DATABASE_URL", "postgresql://user:secret@db")
    monkeypatch.setenv("LANGUAGE", "de")

    server = stdio("honest", env={"GIVEN": "yes"}, inherit=("LANGUAGE", "NOT_SET"))
    async with one(server, environment=process_environment()) as connection:
        seen = dict(line.split("=", 1) for line in (await said(connection, "environment")).split("\n"))

    assert seen["GIVEN"] == "yes"
    assert seen["LANGUAGE"] == "de"
    assert "PATH" in seen
    assert "DATABASE_URL" not in seen
    assert "OPENROUTER_API_KEY" not in seen


async def test_nothing_is_left_of_a_server_that_does_not_want_to_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tersely.mcp.connect.stdio.CLOSE_SECONDS", 0.1)
    monkeypatch.setattr("tersely.mcp.connect.stdio.TERMINATE_SECONDS", 0.2)
    ids = tmp_path / "ids"

    async with one(stdio("stubborn", str(ids))) as connection:
        assert await said(connection, "hello") == "hello"
        server, child = map(int, ids.read_text().split())
        assert is_running(server) and is_running(child)

    await until(lambda: not is_running(server) and not is_at_work(child))


async def test_nothing_is_left_of_the_children_a_server_leaves_behind(tmp_path: Path) -> None:
    ids = tmp_path / "ids"

    async with one(stdio("stubborn", str(ids), "--obedient")):
        server, child = map(int, ids.read_text().split())

    await until(lambda: not is_running(server) and not is_at_work(child))


async def test_a_command_that_does_not_exist_is_named_and_tried_again() -> None:
    missing = Server(name="missing", options=ServerOptions(transport=TransportOptions(command="/no/such/program")))

    async with one(missing) as connection:
        status = connection.status()
        assert status.state == "retrying"
        assert (
            status.last_error == "Server 'missing' could not be started: /no/such/program: No such file or directory."
        )
        assert status.next_try
        with pytest.raises(
            ToolUnavailable, match=r"is not available: Server 'missing' could not be started.*next attempt is in"
        ):
            await connection.request("tools/list")
        await until(lambda: connection.status().restarts >= 2)


async def test_what_a_dying_server_last_said_is_shown_without_its_secrets() -> None:
    broken = Server(
        name="broken",
        options=ServerOptions(
            transport=TransportOptions(
                command=sys.executable, args=("-c", "import sys; sys.exit('no way: password=hunter2-secret')")
            )
        ),
    )
    async with one(broken) as connection:
        error = connection.status().last_error

    assert "exited with status 1: no way: password=[MASKED:" in error
    assert "hunter2" not in error


async def test_lines_that_are_no_messages_and_answers_nobody_asked_for_are_ignored() -> None:
    async with one(stdio("honest")) as connection:
        assert await said(connection, "greet_loudly") == "hello"
        assert await said(connection, "two_answers") == "first"
        assert await said(connection, "echo", text="third") == "third"


# Dies


@pytest.mark.parametrize("habit", ["die", "die_once"])
async def test_a_call_whose_server_dies_fails_at_once_and_is_not_sent_again(tmp_path: Path, habit: str) -> None:
    calls = tmp_path / "calls"

    async with one(stdio("dies", str(calls), name="mortal")) as connection:
        first = int(await said(connection, "pid"))
        with pytest.raises(ToolUnavailable, match="Server 'mortal' closed the connection before it answered") as gone:
            with anyio.fail_after(20):
                await call(connection, habit)
        assert gone.value.sent
        assert calls.read_text() == habit, "it might have done something, so nobody repeats it"

        second = int(await said(connection, "pid"))
        assert second != first, "it was started again, and the call waited for that"
        assert not is_running(first)
        assert connection.status().restarts == 1


async def test_a_call_that_does_no_harm_is_sent_again_to_the_restarted_server(tmp_path: Path) -> None:
    calls = tmp_path / "calls"

    async with one(stdio("dies", str(calls))) as connection:
        assert await said(connection, "die_once_harmlessly") == "alive"

    assert calls.read_text() == "die_once_harmlessly die_once_harmlessly"


async def test_a_server_that_dies_does_not_disturb_the_others(tmp_path: Path) -> None:
    with anyio.fail_after(20):
        async with connected([stdio("dies", str(tmp_path / "calls")), stdio("honest")], backoff=HASTY) as connections:
            async with anyio.create_task_group() as tasks:

                async def die() -> None:
                    with pytest.raises(ToolUnavailable):
                        await call(connections["dies"], "die")

                tasks.start_soon(die)
                for number in range(20):
                    assert await said(connections["honest"], "echo", text=str(number)) == str(number)


async def test_a_server_that_dies_again_and_again_is_given_more_and_more_time(tmp_path: Path) -> None:
    backoff = Backoff()
    assert [round(backoff.delay(failures) / 2.0**failures) for failures in range(5)] == [1] * 5
    assert 48 <= backoff.delay(50) <= 72

    waited: list[float] = []
    async with one(stdio("dies", str(tmp_path / "calls"))) as connection:
        for crashes in range(1, 5):
            with pytest.raises(ToolUnavailable):
                await call(connection, "die")
            await until(lambda: connection.status().next_try is not None)
            status = connection.status()
            assert status.next_try
            waited.append((status.next_try - status.since).total_seconds())

            def is_back(crashes: int = crashes) -> bool:
                return connection.status().restarts == crashes and connection.status().state == "ready"

            await until(is_back)

    assert waited[-1] > 3 * waited[0]


async def test_an_http_server_that_closes_the_socket_fails_one_call_and_no_other() -> None:
    def close(message: Message, request: Request) -> Response | Message | None:
        if message["params"]["arguments"].get("close"):
            raise ConnectionResetError
        return text("fine")

    class Torn(Rude):
        async def _all(self, request: Request) -> Response:
            try:
                return await super()._all(request)
            except ConnectionResetError:
                return Response(b"{", headers={"content-length": "100", "content-type": "application/json"})

    async with Torn(close).listening() as url, one(web(url)) as connection:
        with pytest.raises(ToolUnavailable, match="the connection broke"):
            await call(connection, "call", close=True)
        assert await said(connection, "call") == "fine"
        assert connection.status().restarts == 0


@asynccontextmanager
async def hanging_up(url: str) -> AsyncIterator[tuple[str, list[bytes]]]:
    """The same server behind a line that is cut whenever a tool is called; and the calls that went through it."""
    calls: list[bytes] = []
    _, _, address = url.partition("//")
    host, port = address.split("/")[0].split(":")

    async def carry(near: anyio.abc.SocketStream) -> None:
        async with near, await anyio.connect_tcp(host, int(port)) as far, anyio.create_task_group() as tasks:

            async def back() -> None:
                with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                    while True:
                        await near.send(await far.receive())
                tasks.cancel_scope.cancel()

            tasks.start_soon(back)
            with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                while True:
                    data = await near.receive()
                    if b'"tools/call"' in data:
                        calls.append(data)
                        break
                    await far.send(data)
            tasks.cancel_scope.cancel()

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, carry)
        yield f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}/mcp", calls
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_whose_line_is_cut_fails_at_once_and_only_a_harmless_one_is_sent_again(era: str) -> None:
    async with Honest().listening() as url, hanging_up(url) as (cut, calls), one(web(cut, protocol=era)) as connection:
        with pytest.raises(ToolUnavailable, match="the connection broke") as broken:
            await call(connection, "add", a=1, b=2)
        assert broken.value.sent
        assert len(calls) == 1
        with pytest.raises(ToolUnavailable):
            await call(connection, "echo", text="x")
        assert len(calls) == 3, "it reads only, so it was tried twice"
        assert (await connection.request("prompts/list"))["prompts"] == [], "the connection itself is as good as before"


# Not there


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


class Stoppable:
    """A server that comes and goes at one address, while connections to it stay open around it."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self._tasks = anyio.create_task_group()
        self._server: uvicorn.Server | None = None
        self._stopped = anyio.Event()

    async def __aenter__(self) -> "Stoppable":
        await self._tasks.__aenter__()
        return self

    async def __aexit__(self, *problem: Any) -> None:
        await self.stop()
        await self._tasks.__aexit__(*problem)

    async def start(self) -> None:
        app = Honest().server.http_app()
        config = uvicorn.Config(
            app, host="127.0.0.1", port=self.port, log_config=None, lifespan="on", timeout_graceful_shutdown=1
        )
        self._server, self._stopped = uvicorn.Server(config), anyio.Event()
        self._tasks.start_soon(self._serve, self._server, self._stopped)
        await until(lambda: bool(self._server and self._server.started))

    async def _serve(self, server: uvicorn.Server, stopped: anyio.Event) -> None:
        await server._serve(None)
        stopped.set()

    async def stop(self) -> None:
        if self._server:
            self._server.should_exit = self._server.force_exit = True
            await self._stopped.wait()


async def test_an_http_server_that_comes_late_goes_and_comes_back_is_there_whenever_it_is_there() -> None:
    async with Stoppable() as server, one(web(server.url)) as connection:
        assert connection.status().state == "retrying"
        assert "no connection to its address" in connection.status().last_error

        await server.start()
        await until(lambda: connection.status().state == "ready")
        assert await said(connection, "echo", text="x") == "x"

        await server.stop()
        with pytest.raises(ToolUnavailable, match="no connection to its address") as gone:
            await call(connection, "add", a=1, b=2)
        assert not gone.value.sent, "it certainly never arrived"
        await until(lambda: connection.status().state == "retrying")

        await server.start()
        await until(lambda: connection.status().state == "ready")
        assert await said(connection, "echo", text="x") == "x"


async def test_a_session_the_server_forgot_is_begun_again_and_the_call_repeated() -> None:
    rude = Rude(lambda message, request: None, session="one")

    async with rude.listening() as url, one(web(url, protocol=ERAS[0]), Backoff(first_delay=60)) as connection:
        assert await said(connection, "call") == "fine"
        rude.session = "two"
        assert await said(connection, "call") == "fine"
        assert connection.status().restarts == 1


async def test_a_session_is_given_back_when_the_connection_is_closed() -> None:
    rude = Rude(lambda message, request: None, session="one")

    async with rude.listening() as url:
        async with one(web(url, protocol=ERAS[0])) as connection:
            assert await said(connection, "call") == "fine"
        assert rude.requests[-1] == ("DELETE", "/mcp")


# Hangs


@pytest.mark.parametrize("modern", [[], ["--modern"]])
async def test_a_call_that_takes_too_long_is_cancelled_and_its_late_answer_dropped(modern: list[str]) -> None:
    async with one(stdio("hangs", *modern, timeout=0.2)) as connection:
        with pytest.raises(ToolTimedOut, match=r"Tool 'hangs.hang' gave no answer in 0.2 s"):
            await call(connection, "hang")
        assert (await call(connection, "what_was_cancelled", timeout=5)).texts == ("1",)
        assert (await call(connection, "answer_late", timeout=5)).texts == ("in time",)


@pytest.mark.parametrize("era", ERAS)
async def test_a_caller_who_leaves_stops_the_work_at_the_server(era: str) -> None:
    honest = Honest()
    async with honest.listening() as url, one(web(url, protocol=era)) as connection:
        with anyio.move_on_after(0.3):
            await call(connection, "hang")
        await until(lambda: honest.cancelled == 1)
        assert await said(connection, "echo", text="x") == "x"


async def test_a_stream_without_an_end_is_left_when_the_time_is_up() -> None:
    async with (
        Rude(lambda message, request: endless_stream()).listening() as url,
        one(web(url, timeout=0.3)) as connection,
    ):
        with pytest.raises(ToolTimedOut):
            await call(connection, "call")


async def test_a_server_that_never_gets_ready_is_given_up_for_now() -> None:
    silent = Server(
        name="silent",
        options=ServerOptions(
            transport=TransportOptions(command=sys.executable, args=("-c", "input(); input()")), start_timeout=0.3
        ),
    )
    async with one(silent) as connection:
        assert connection.status().last_error == "It was not ready within 0.3 s."


async def test_a_server_that_answers_nothing_any_more_is_started_again() -> None:
    async with one(stdio("hangs", timeout=0.2, list_timeout=0.2)) as connection:
        with pytest.raises(ToolTimedOut):
            await call(connection, "play_dead")
        await until(lambda: connection.status().restarts == 1 and connection.status().state == "ready")
        assert connection.status().last_error == "It did not list its tools within 0.2 s."
        assert (await call(connection, "answer_late", timeout=5)).texts == ("in time",)


async def test_a_server_busy_with_one_long_call_is_not_taken_for_dead() -> None:
    """Many servers do one thing at a time; listing again must not cost the call they are working on."""
    async with one(stdio("hangs", list_timeout=0.1, list_ttl=1)) as connection:
        assert (await call(connection, "work", seconds=2)).texts == ("done",)
        assert connection.status().restarts == 0


# Asks


async def test_what_a_server_asks_is_answered_by_whoever_listens_and_refused_otherwise() -> None:
    async def answer(server: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert (server, method, params["message"]) == ("asks", "elicitation/create", "Sure?")
        return {"action": "accept", "content": {}}

    async def refuse(server: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise ToolRejected("not now", code=-1)

    for listener, expected, abilities in (
        (answer, '{"action": "accept", "content": {}}', "elicitation roots sampling"),
        (refuse, "-1", "elicitation roots sampling"),
        (None, "-32600", ""),
    ):
        async with one(stdio("asks", protocol=ERAS[0]), on_request=listener) as connection:
            assert await said(connection, "ask") == expected
            assert "".join((await call(connection, "may_i")).texts) == abilities


# Too much


@pytest.mark.parametrize("how", ["give", "give_with_the_id_last"])
async def test_a_result_over_the_limit_is_refused_while_it_is_read_over_stdio(how: str) -> None:
    async with one(stdio("oversized", max_result_bytes=100_000)) as connection:
        with pytest.raises(ResultTooLarge, match=r"at most 100,000 bytes are read from server 'oversized'"):
            await call(connection, how, bytes=3_000_000)
        assert len(await said(connection, how, bytes=90_000)) == 90_000, "the connection is still good"
        assert connection.status().restarts == 0


@pytest.mark.parametrize("era", ERAS)
async def test_a_result_over_the_limit_is_refused_while_it_is_read_over_http(era: str) -> None:
    async with Honest().listening() as url, one(web(url, protocol=era, max_result_bytes=100_000)) as connection:
        with pytest.raises(ResultTooLarge):
            await call(connection, "big", bytes=1_000_000)
        assert len(await said(connection, "echo", text="x" * 10_000)) == 10_000


async def test_the_size_is_named_where_the_server_says_it() -> None:
    def much(message: Message, request: Request) -> Response:
        return raw_answer(message, b'{"content": [{"type": "text", "text": "%s"}]}' % (b"x" * 500_000))

    async with Rude(much).listening() as url, one(web(url, max_result_bytes=100_000)) as connection:
        with pytest.raises(ResultTooLarge, match=r"it has 500,\d\d\d bytes") as refused:
            await call(connection, "call")
        assert refused.value.size and refused.value.size > 500_000


async def test_a_body_of_unknown_size_is_read_up_to_the_limit_and_no_further() -> None:
    sent = 0

    def pour(message: Message, request: Request) -> Response:
        async def body() -> AsyncIterator[bytes]:
            nonlocal sent
            while sent < 50_000_000:
                sent += 10_000
                yield b"x" * 10_000
                await anyio.lowlevel.checkpoint()

        return StreamingResponse(body(), media_type="application/json")

    async with Rude(pour).listening() as url, one(web(url, max_result_bytes=100_000, timeout=10)) as connection:
        with pytest.raises(ResultTooLarge, match="larger than the limit"):
            await call(connection, "call")
    assert sent < 50_000_000


async def test_a_result_over_the_limit_is_refused_over_sse_and_the_next_call_works() -> None:
    async with Honest().listening("sse") as url, one(web(url, kind="sse", max_result_bytes=100_000)) as connection:
        with pytest.raises(ResultTooLarge):
            await call(connection, "big", bytes=1_000_000)
        assert await said(connection, "echo", text="x") == "x"
        assert len(await said(connection, "big", bytes=40_000)) == 40_000


async def test_ten_megabytes_arrive_over_every_transport() -> None:
    with anyio.fail_after(60):
        async with Honest().listening() as http, Honest().listening("sse") as sse:
            servers = [stdio("oversized", name="pipe"), web(http, "http"), web(sse, "sse", kind="sse")]
            async with connected(servers, backoff=HASTY) as connections:
                for name, how in (("pipe", "give"), ("http", "big"), ("sse", "big")):
                    assert len(await said(connections[name], how, bytes=10_000_000)) == 10_000_000, name


def test_lines_are_cut_without_keeping_what_is_too_long() -> None:
    lines = LineSplitter(limit=10)

    assert list(lines.feed(b"one\ntw")) == [b"one"]
    assert list(lines.feed(b"o\n\n")) == [b"two"]
    assert list(lines.feed(b"0123456789")) == []
    assert list(lines.feed(b"abc")) == [TooLong(b"0123456789abc", b"", None)]
    assert list(lines.feed(b"def\nnext\n")) == [TooLong(b"0123456789abc", b"abcdef", 16), b"next"]


# Strange


SHAPES = {
    "invalid UTF-8": (b'{"content": [{"type": "text", "text": "a\xff\xfeb"}]}', "a��b"),
    "a NUL": (b'{"content": [{"type": "text", "text": "a\\u0000b"}]}', "a\0b"),
    "half a character": (b'{"content": [{"type": "text", "text": "a\\ud83db"}]}', "a�b"),
    "duplicate keys": (b'{"content": [{"type": "text", "text": "a", "text": "b"}]}', "b"),
    "an unknown piece": (b'{"content": [{"type": "unknown-type", "x": 1}, {"type": "text", "text": "t"}]}', "t"),
    "a picture that is none": (
        b'{"content": [{"type": "image", "mimeType": "image/png", "data": "!!!notbase64"}]}',
        "",
    ),
    "nothing": (b'{"content": []}', ""),
    "a link": (b'{"content": [{"type": "resource_link", "uri": "file:///etc/passwd", "name": "x"}]}', ""),
    "a resource": (b'{"content": [{"type": "resource", "resource": {"uri": "a://b", "text": "inside"}}]}', "inside"),
}
BROKEN = {
    "a text for content": b'{"content": "a string"}',
    "no content": b"{}",
    "not a number": b'{"content": [], "structuredContent": {"result": NaN}}',
    "no type": b'{"content": [{"text": "x"}]}',
    "a number for a text": b'{"content": [{"type": "text", "text": 5}]}',
    "no JSON": b"{content: []}",
    "a list": b"[]",
    "a question for a person": b'{"resultType": "input_required", "inputRequests": {}}',
}


@asynccontextmanager
async def shaping(way: str) -> AsyncIterator[Callable[[bytes], Any]]:
    """A server that returns the given bytes as its result."""
    if way == "stdio":
        async with one(stdio("shapes", timeout=5)) as connection:
            yield lambda result: call(connection, "shape", result=base64.b64encode(result).decode())
    else:

        def react(message: Message, request: Request) -> Response:
            return raw_answer(message, base64.b64decode(message["params"]["arguments"]["result"]))

        async with Rude(react).listening() as url, one(web(url, timeout=5)) as connection:
            yield lambda result: call(connection, "call", result=base64.b64encode(result).decode())


@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_strange_results_are_read_as_far_as_they_can_be_and_broken_ones_become_errors(way: str) -> None:
    async with shaping(way) as shaped:
        for name, (raw, expected) in SHAPES.items():
            assert "".join((await shaped(raw)).texts) == expected, name
        for name, raw in BROKEN.items():
            with pytest.raises((ResultMalformed, ToolRejected)):
                print(name, await shaped(raw))
        assert (await shaped(b'{"content": [{"type": "text", "text": "still here"}]}')).texts == ("still here",)


HALVES = st.lists(
    st.sampled_from(["\\ud83d", "\\uDE00", "\\\\", "\\n", "\\u0041", "ud800", "a", "é", '\\"']), max_size=30
)


@given(HALVES, st.lists(st.integers(0, 200), max_size=8))
def test_halves_of_characters_are_mended_wherever_the_stream_is_cut(pieces: list[str], cuts: list[int]) -> None:
    raw = f'["{"".join(pieces)}"]'.encode()
    mender = HalfCharacters()
    edges = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]

    arrived = [mender.feed(raw[start:end]) for start, end in itertools.pairwise(edges)]

    mended = json.loads(b"".join(arrived))
    assert mended == [json.loads(raw)[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")]
    mended[0].encode()


def test_a_dropped_line_is_known_by_its_id_at_either_end() -> None:
    first = b'{"jsonrpc": "2.0", "id": 7, "result": {"content": [{"id": 8'
    last = b'{"jsonrpc": "2.0", "result": {"content": [{"id": 8'

    assert id_in(TooLong(first, b"", None)) == 7
    assert id_in(TooLong(last, b"", None)) is None
    assert id_in(TooLong(last, b'"id": 8}]}, "id": 9}', 100)) == 9


# Noise


@pytest.mark.parametrize("noise", ["flood", "ask_for_models"])
async def test_a_flood_is_bounded_and_the_answer_behind_it_arrives(noise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Inbox, "PER_SECOND", 0)
    heard: list[str] = []

    async with one(stdio("floods"), on_notification=lambda server, method, params: heard.append(method)) as connection:
        assert await said(connection, noise) == "done"
        assert connection.status().dropped > 900
        assert len(heard) <= 2_000
        assert await said(connection, "count_listings") == "1"


async def test_a_storm_of_changes_leads_to_few_listings() -> None:
    async with one(stdio("floods")) as connection:
        for _ in range(5):
            await said(connection, "storm")
        await anyio.sleep(0.2)
        assert 2 <= int(await said(connection, "count_listings")) <= 8


@pytest.mark.parametrize("tell", [True, False])
async def test_changed_tools_are_noticed_by_being_told_or_after_a_while(tell: bool) -> None:
    changes: list[str] = []

    async with one(stdio("changes", list_ttl=1), on_change=changes.append) as connection:
        before = {tool.name: tool.fingerprint for tool in connection.tools}
        await call(connection, "change", tell=tell)
        await until(lambda: {tool.name for tool in connection.tools} == {"change", "get", "new"})
        after = {tool.name: tool.fingerprint for tool in connection.tools}

    assert set(before) == {"change", "get", "gone"}
    assert before["change"] == after["change"]
    assert before["get"] != after["get"], "its description is another one"
    assert changes == ["changes", "changes"]


async def test_a_tool_added_to_a_server_of_the_newer_protocol_is_noticed() -> None:
    honest = Honest()
    async with honest.listening() as url, one(web(url, list_ttl=1, protocol=ERAS[1])) as connection:

        @honest.server.tool
        def new() -> str:
            return "new"

        await until(lambda: "new" in {tool.name for tool in connection.tools})


@pytest.mark.parametrize(("how", "expected"), [([], 35), (["--endless"], 100), (["--circle"], 3)])
async def test_pages_are_followed_and_have_an_end(how: list[str], expected: int) -> None:
    async with one(stdio("paginates", *how)) as connection:
        assert len(connection.tools) == expected
        if not how:
            assert await said(connection, "tool_34") == "tool_34"
        if how == ["--endless"]:
            assert connection.status().refused == ("everything after page 100 of the listing",)
        else:
            assert len(connection.status().refused) <= 1, "a circle is left where it closes"


async def test_one_bad_definition_does_not_cost_the_others() -> None:
    async with one(stdio("poisoned")) as connection:
        names = [tool.name for tool in connection.tools]
        assert "fine" in names and "ref" in names and "no_schema" not in names
        assert len(tool(connection, "long").description) < 20_000
        refused = "\n".join(connection.status().refused)
        assert "'fine' is listed twice" in refused
        assert "'no_schema' has no input schema" in refused
        assert "a tool without a name" in refused
        assert await said(connection, "fine") == "fine"


# Doors


async def test_a_token_opens_and_its_absence_is_explained() -> None:
    async with Honest().listening(private=True) as url:
        async with one(web(url, transport={"bearer_token": "open-sesame"})) as connection:
            assert await said(connection, "echo", text="x") == "x"
        async with one(web(url, transport={"headers": {"Authorization": "Bearer open-sesame"}})) as connection:
            assert await said(connection, "echo", text="x") == "x"
        for wrong in ({}, {"bearer_token": "guess-guess-guess"}):
            async with one(web(url, transport=wrong)) as connection:
                error = connection.status().last_error
                assert "HTTP 401 Unauthorized; check bearer_token or headers" in error
                assert "guess" not in error


async def test_no_redirect_to_another_origin_is_followed_and_no_login_that_a_server_proposes() -> None:
    inside = Rude(lambda message, request: None)

    async with inside.listening() as secret:

        def redirect(message: Message, request: Request) -> Response:
            return RedirectResponse(secret, status_code=307)

        def propose(message: Message, request: Request) -> Response:
            challenge = f'Bearer resource_metadata="{secret}/.well-known/oauth-protected-resource"'
            return Response(status_code=401, headers={"www-authenticate": challenge})

        for reaction in (redirect, propose):
            async with Rude(reaction).listening() as url, one(web(url, timeout=5)) as connection:
                with pytest.raises(ToolError):
                    await call(connection, "call")

    assert inside.requests == []


async def test_an_sse_server_that_sends_us_elsewhere_is_refused() -> None:
    from starlette.applications import Starlette
    from starlette.routing import Route

    from tests.fakes.llm_server import serving

    async def lure(request: Request) -> Response:
        async def events() -> AsyncIterator[bytes]:
            yield b"event: endpoint\ndata: http://169.254.169.254/latest\n\n"
            await anyio.sleep(5)

        return StreamingResponse(events(), media_type="text/event-stream")

    async with (
        serving(Starlette(routes=[Route("/sse", lure)])) as address,
        one(web(f"{address}/sse", kind="sse")) as connection,
    ):
        assert "asked for its messages to be sent to another origin" in connection.status().last_error


async def test_packed_answers_are_refused_because_nobody_knows_how_large_they_are() -> None:
    def packed(message: Message, request: Request) -> Response:
        assert request.headers["accept-encoding"] == "identity"
        return Response(b"\x1f\x8b", headers={"content-encoding": "gzip"}, media_type="application/json")

    async with Rude(packed).listening() as url, one(web(url)) as connection:
        with pytest.raises(ToolUnavailable, match="compressed response"):
            await call(connection, "call")


# Many


async def test_of_fifty_servers_the_living_answer_while_five_are_dead() -> None:
    """F33: the start is over within 10 s; the dead are listed and tried again."""
    dead = [web(f"http://127.0.0.1:{free_port()}/mcp", f"dead{number}") for number in range(4)]
    with socket.socket() as deaf:
        # Takes connections and never says a word.
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        dead.append(web(f"http://127.0.0.1:{deaf.getsockname()[1]}/mcp", "deaf"))
        async with Honest().listening() as url:
            living = [web(url, f"living{number}") for number in range(45)]
            with anyio.fail_after(20):
                began = anyio.current_time()
                async with connected([*dead, *living], wait=3) as connections:
                    async with anyio.create_task_group() as tasks:
                        for server in living:
                            tasks.start_soon(_answers, connections[server.name])
                    assert anyio.current_time() - began < 10
                    states = {name: connection.status().state for name, connection in connections.items()}

    assert {name for name, state in states.items() if state != "ready"} == {server.name for server in dead}
    assert all(connections[f"dead{number}"].status().last_error for number in range(4))


async def _answers(connection: Connection) -> None:
    await until(lambda: connection.status().state == "ready")
    assert await said(connection, "echo", text=connection.name) == connection.name
