"""A server that we start: its process, its pipes, and its end.

The library's own reader joins its buffer again for every chunk and has no limit;
this one reads in a straight line and drops what is too long. The process lives
in a group of its own, and whatever way the connection ends the whole group is
gone afterwards: asked first (its input is closed), then told, then killed.
"""

import os
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from subprocess import PIPE

import anyio
import anyio.to_thread
import mcp_types as types
from anyio.abc import Process
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from tersely.errors import ToolUnavailable
from tersely.mcp.connect.wire import Inbound, Line, LineSplitter, TooLong, TransportProblem, answered, id_in, parse
from tersely.mcp.servers import TransportOptions

ASKED_SECONDS = 2.0
"""How long a server may take to leave after its input was closed."""

TOLD_SECONDS = 2.0
_OVERHEAD = 64 * 1024
_PARSE_ELSEWHERE = 1024 * 1024
"""Messages from this size are parsed in a thread, so that other servers' answers do not wait."""


class _Child(Line):
    """A line to a process of ours."""

    def __init__(self, process: Process, limit: int) -> None:
        self.from_server, incoming = anyio.create_memory_object_stream[Inbound](0)
        outgoing, self.to_server = anyio.create_memory_object_stream[SessionMessage](0)
        super().__init__(incoming, outgoing)
        self.process = process
        self.limit = limit
        self.knows_what_was_sent = True
        self.pid = process.pid
        self._said: deque[bytes] = deque(maxlen=16)
        self._said_all = anyio.Event()

    def complaint(self) -> str:
        said = b"".join(self._said)[-2_000:].decode("utf-8", "replace").strip()
        code = self.process.returncode
        ended = "" if code is None else f"ended with status {code}" if code >= 0 else f"was ended by signal {-code}"
        last = said.rsplit("\n", 1)[-1].strip()[:300]
        return f"the process {ended}{': ' if last else ''}{last}" if ended else last

    async def read(self) -> None:
        lines = LineSplitter(self.limit + _OVERHEAD)
        told: set[types.RequestId] = set()
        assert self.process.stdout
        async with self.from_server:
            with suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
                while True:
                    await self._pass_on(lines, await self.process.stdout.receive(), told)
            await self.last_words()
        # Nobody listens any more; a server that is still writing must not get stuck in it, or it never reads that it
        # should go.
        with suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            while True:
                await self.process.stdout.receive()

    async def _pass_on(self, lines: LineSplitter, chunk: bytes, told: set[types.RequestId]) -> None:
        """On its own, so that nothing of a large message is held while the next one is waited for."""
        for line in lines.feed(chunk):
            for message in await self._messages(line, told):
                await self.from_server.send(message)

    async def _messages(self, line: bytes | TooLong, told: set[types.RequestId]) -> list[SessionMessage]:
        if isinstance(line, TooLong):
            request_id = id_in(line)
            if request_id is None and line.size is not None and len(self.unanswered) == 1:
                # No name on it; but only one request can have been meant.
                (request_id,) = self.unanswered
            if request_id is None or request_id in told:
                return []
            told.add(request_id)
            return [TransportProblem("too_large", "", size=line.size).answer(request_id)]
        message = parse(line) if len(line) < _PARSE_ELSEWHERE else await anyio.to_thread.run_sync(parse, line)
        if message is not None:
            self.note_answer(message)
            return [SessionMessage(message)]
        request_id = answered(line)
        if request_id in self.unanswered and request_id is not None:
            return [TransportProblem("malformed", "it is not a valid message").answer(request_id)]
        # Servers print greetings and debug lines where only messages belong. Nobody asked for them.
        return []

    async def write(self) -> None:
        assert self.process.stdin
        try:
            async with self.to_server:
                async for item in self.to_server:
                    line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
                    if isinstance(item.message, types.JSONRPCRequest):
                        # Before it is written: a part of it may arrive even if the rest does not.
                        self.unanswered.add(item.message.id)
                    await self.process.stdin.send(line)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            # It no longer listens, so it is no longer there: whoever waits for an answer is told.
            await self.last_words()
            await self.from_server.aclose()

    async def last_words(self) -> None:
        """Its exit and its last complaint come on other ways than its last message, and may be a little later."""
        with anyio.move_on_after(1):
            await self._said_all.wait()
            while self.process.returncode is None:  # noqa: ASYNC110
                await anyio.sleep(0.01)

    async def listen_to_complaints(self) -> None:
        assert self.process.stderr
        with suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            while True:
                self._said.append(await self.process.stderr.receive(4096))
        self._said_all.set()

    async def watch(self) -> None:
        """Notices an end that no pipe tells of: a grandchild may hold them open."""
        # Polled, because waiting for a process also waits for its pipes.
        while self.process.returncode is None:  # noqa: ASYNC110
            await anyio.sleep(0.5)
        # What it wrote last may still be in the pipes.
        await self.last_words()
        await anyio.sleep(0.1)
        await self.from_server.aclose()


@asynccontextmanager
async def started(
    options: TransportOptions, *, name: str, limit: int, environment: Mapping[str, str] | None = None
) -> AsyncIterator[Line]:
    """The server's process, for as long as the block lasts.

    Args:
        environment: Where the variables named by `inherit_env` are looked up.

    Raises:
        ToolUnavailable: The command cannot be started.
    """
    assert options.command
    # Not the whole environment: it holds keys that the server must not see.
    variables = get_default_environment()
    variables |= {variable: value for variable, value in (environment or {}).items() if variable in options.inherit_env}
    variables |= {variable: value.get_secret_value() for variable, value in options.env.items()}
    try:
        # Shielded: cancelled half-way, a process would be left that nobody knows.
        with anyio.CancelScope(shield=True):
            process = await anyio.open_process(
                [options.command, *options.args],
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=variables,
                cwd=options.cwd,
                start_new_session=True,
            )
    except (OSError, ValueError) as problem:
        why = problem.strerror if isinstance(problem, OSError) and problem.strerror else type(problem).__name__
        raise ToolUnavailable(f"Server {name!r} cannot be started: {options.command}: {why}.", sent=False) from None
    child = _Child(process, limit)
    try:
        async with anyio.create_task_group() as tasks:
            for work in (child.read, child.write, child.listen_to_complaints, child.watch):
                tasks.start_soon(work)
            try:
                yield child
            finally:
                # Shielded: a process left behind would outlive us all.
                with anyio.CancelScope(shield=True):
                    await _ended(child)
                tasks.cancel_scope.cancel()
    finally:
        for stream in (child.from_server, child.to_server, child.incoming, child.outgoing):
            with anyio.CancelScope(shield=True):
                await stream.aclose()


async def _ended(child: _Child) -> None:
    process = child.process
    assert process.stdin and process.stdout and process.stderr
    # Nothing more goes in, and nothing that comes out is kept.
    await child.incoming.aclose()
    await child.outgoing.aclose()
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.BusyResourceError):
        await process.stdin.aclose()
    if not await _gone(process, ASKED_SECONDS):
        _signal(process, "SIGTERM")
        if not await _gone(process, TOLD_SECONDS):
            _signal(process, "SIGKILL")
            await _gone(process, TOLD_SECONDS)
    # Its children, too, if it left some behind.
    _signal(process, "SIGKILL")
    for pipe in (process.stdout, process.stderr):
        with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.BusyResourceError):
            await pipe.aclose()
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:
        # Nothing public closes it, and a surviving grandchild with our pipe in hand would keep it open.
        with suppress(PermissionError):
            transport.close()


async def _gone(process: Process, seconds: float) -> bool:
    with anyio.move_on_after(seconds):
        while process.returncode is None:  # noqa: ASYNC110
            await anyio.sleep(0.01)
    return process.returncode is not None


def _signal(process: Process, name: str) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, getattr(signal, name))
