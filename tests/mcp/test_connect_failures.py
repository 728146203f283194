"""Servers that die, hang, or are not reachable."""

import contextlib
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import Response

from tersely.errors import ToolTimedOut, ToolUnavailable
from tersely.mcp.connect.supervisor import Backoff, Connection, connected
from tersely.mcp.servers import Server, ServerOptions, TransportOptions
from tests.fakes.mcp_servers.plain import Message, text
from tests.fakes.mcp_servers.web import Honest, Rude, endless_stream
from tests.mcp.connections import ERAS, HASTY, call, is_running, one, said, stdio, until, web

# Dies


@pytest.mark.process
@pytest.mark.parametrize("habit", ["die", "die_once"])
async def test_a_call_whose_server_dies_fails_at_once_and_is_not_sent_again(tmp_path: Path, habit: str) -> None:
    calls = tmp_path / "calls"

    async with one(stdio("dies", str(calls), name="mortal")) as connection:
        first = int(await said(connection, "pid"))
        with pytest.raises(ToolUnavailable, match="Server 'mortal' closed the connection before it answered") as gone:
            with anyio.fail_after(300):
                await call(connection, habit)
        assert gone.value.sent and "pid was asked" not in str(gone.value), "that was another call"
        assert calls.read_text() == habit, "it might have done something, so nobody repeats it"

        second = int(await said(connection, "pid"))
        assert second != first, "it was started again, and the call waited for that"
        assert not is_running(first)
        assert connection.status().restarts == 1


@pytest.mark.process
async def test_a_call_that_does_no_harm_is_sent_again_to_the_restarted_server(tmp_path: Path) -> None:
    calls = tmp_path / "calls"

    async with one(stdio("dies", str(calls))) as connection:
        assert await said(connection, "die_once_harmlessly") == "alive"

    assert calls.read_text() == "die_once_harmlessly die_once_harmlessly"


@pytest.mark.process
async def test_a_server_that_dies_does_not_disturb_the_others(tmp_path: Path) -> None:
    with anyio.fail_after(300):
        async with connected([stdio("dies", str(tmp_path / "calls")), stdio("honest")], backoff=HASTY) as connections:
            async with anyio.create_task_group() as tasks:

                async def die() -> None:
                    with pytest.raises(ToolUnavailable):
                        await call(connections["dies"], "die")

                tasks.start_soon(die)
                for number in range(20):
                    assert await said(connections["honest"], "echo", text=str(number)) == str(number)


@pytest.mark.process
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


@pytest.mark.process
@pytest.mark.parametrize("modern", [[], ["--modern"]])
async def test_a_call_that_takes_too_long_is_cancelled_and_its_late_answer_dropped(modern: list[str]) -> None:
    async with one(stdio("hangs", *modern, timeout=0.2)) as connection:
        with pytest.raises(ToolTimedOut, match=r"Tool 'hangs.hang' gave no answer in 0.2 s"):
            await call(connection, "hang")
        assert (await call(connection, "what_was_cancelled", timeout=300)).texts == ("1",)
        assert (await call(connection, "answer_late", timeout=300)).texts == ("in time",)


@pytest.mark.parametrize("era", ERAS)
async def test_a_caller_who_leaves_stops_the_work_at_the_server(era: str) -> None:
    honest = Honest()
    async with honest.listening() as url, one(web(url, protocol=era)) as connection:
        async with anyio.create_task_group() as caller:
            caller.start_soon(call, connection, "hang")
            await until(lambda: honest.hanging == 1)
            caller.cancel_scope.cancel()
        await until(lambda: honest.cancelled == 1)
        assert await said(connection, "echo", text="x") == "x"


async def test_a_stream_without_an_end_is_left_when_the_time_is_up() -> None:
    async with (
        Rude(lambda message, request: endless_stream()).listening() as url,
        one(web(url, timeout=0.3)) as connection,
    ):
        with pytest.raises(ToolTimedOut):
            await call(connection, "call")


@pytest.mark.process
async def test_a_command_that_takes_long_is_reported_and_left_alone() -> None:
    silent = Server(
        name="silent",
        options=ServerOptions(
            transport=TransportOptions(command=sys.executable, args=("-c", "input(); input()")), start_timeout=0.3
        ),
    )
    async with one(silent) as connection:
        status = connection.status()
        assert status.last_error == "It was not ready within 0.3 s and is still starting." and status.restarts == 0


@pytest.mark.process
async def test_a_server_that_answers_nothing_any_more_is_started_again() -> None:
    async with one(stdio("hangs", timeout=0.2, list_timeout=2)) as connection:
        with pytest.raises(ToolTimedOut):
            await call(connection, "play_dead")
        await until(lambda: connection.status().restarts == 1 and connection.status().state == "ready")
        assert connection.status().last_error == "It did not list its tools within 2 s."
        assert (await call(connection, "answer_late", timeout=300)).texts == ("in time",)


@pytest.mark.process
async def test_a_server_busy_with_one_long_call_is_not_taken_for_dead() -> None:
    """Many servers do one thing at a time; listing again must not cost the call they are working on."""
    async with one(stdio("hangs", list_timeout=2, list_ttl=1)) as connection:
        assert (await call(connection, "work", seconds=4)).texts == ("done",)
        assert connection.status().restarts == 0


# Many


@pytest.mark.slow
async def test_of_fifty_servers_the_living_answer_while_five_are_dead() -> None:
    """F33: the start waits for no dead server; the dead are listed and tried again."""
    dead = [web(f"http://127.0.0.1:{free_port()}/mcp", f"dead{number}") for number in range(4)]
    with socket.socket() as deaf:
        # Takes connections and never says a word.
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        dead.append(web(f"http://127.0.0.1:{deaf.getsockname()[1]}/mcp", "deaf"))
        async with Honest().listening() as url:
            living = [web(url, f"living{number}") for number in range(45)]
            with anyio.fail_after(300):
                async with connected([*dead, *living], wait=3) as connections:
                    assert not connections["deaf"].status().last_error, "it is still being waited for"
                    async with anyio.create_task_group() as tasks:
                        for server in living:
                            tasks.start_soon(_answers, connections[server.name])
                    states = {name: connection.status().state for name, connection in connections.items()}

    assert {name for name, state in states.items() if state != "ready"} == {server.name for server in dead}
    assert all(connections[f"dead{number}"].status().last_error for number in range(4))


async def _answers(connection: Connection) -> None:
    await until(lambda: connection.status().state == "ready")
    assert await said(connection, "echo", text=connection.name) == connection.name
