"""The stdio transport: start a server as a child process and exchange messages over its pipes.

The SDK's reader copies its whole buffer for every chunk and has no size limit; this
one is linear and drops messages over the limit. The process runs in its own process
group. However the connection ends, the whole group is terminated: stdin is closed
first, then SIGTERM, then SIGKILL.
"""

import os
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from subprocess import PIPE

import anyio
import mcp_types as types
from anyio.abc import Process
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from tersely.cpu.run import run_in_thread
from tersely.errors import ToolUnavailable
from tersely.mcp.connect.wire import (
    SPOOLED,
    Inbound,
    Line,
    LineSplitter,
    MakeSpool,
    TooLong,
    TransportProblem,
    answered,
    id_in,
    parse,
)
from tersely.mcp.servers import TransportOptions, is_inherited

CLOSE_SECONDS = 2.0
"""How long a server may take to exit after its stdin was closed."""

TERMINATE_SECONDS = 2.0
"""How long a server may take to exit after a signal."""

_OVERHEAD = 64 * 1024
_PARSE_IN_THREAD = 1024 * 1024
"""Messages of at least this many bytes are parsed in a thread, so that they do not delay other servers' responses."""


class _Child(Line):
    """A transport to a child process."""

    def __init__(self, process: Process, limit: int, spool: MakeSpool | None = None) -> None:
        self.from_server, incoming = anyio.create_memory_object_stream[Inbound](0)
        outgoing, self.to_server = anyio.create_memory_object_stream[SessionMessage](0)
        super().__init__(incoming, outgoing)
        self.process = process
        self.limit = limit
        self.spool = spool
        self.knows_what_was_sent = True
        self.pid = process.pid
        self._stderr: deque[bytes] = deque(maxlen=16)
        self._stderr_closed = anyio.Event()
        self._was_asked = False

    def recent_output(self) -> str:
        return b"".join(self._stderr)[-2_000:].decode("utf-8", "replace").strip()

    def last_error(self) -> str:
        stderr = self.recent_output()
        code = self.process.returncode
        ended = "" if code is None else f"exited with status {code}" if code >= 0 else f"was ended by signal {-code}"
        last_line = stderr.rsplit("\n", 1)[-1].strip()[:300]
        return f"the process {ended}{': ' if last_line else ''}{last_line}" if ended else last_line

    async def read(self) -> None:
        lines = LineSplitter(self.limit + _OVERHEAD, self.spool)
        refused: set[types.RequestId] = set()
        assert self.process.stdout
        async with self.from_server:
            with suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
                while True:
                    await self._deliver(lines, await self.process.stdout.receive(), refused)
            await self.exit_or_timeout()
        # Drain the pipe although the output is no longer used: a server blocked on a full pipe would never notice that
        # its stdin was closed.
        with suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            while True:
                await self.process.stdout.receive()

    async def _deliver(self, lines: LineSplitter, chunk: bytes, refused: set[types.RequestId]) -> None:
        """Deliver the messages a chunk completes. A separate function, so that a large message is freed on return."""
        for line in lines.feed(chunk):
            for message in await self._messages(line, refused):
                await self.from_server.send(message)

    async def _messages(self, line: bytes | TooLong, refused: set[types.RequestId]) -> list[SessionMessage]:
        if isinstance(line, TooLong):
            request_id = id_in(line)
            if request_id is None and line.size is not None and len(self.unanswered) == 1:
                # The line has no readable id, but only one request is waiting for a response.
                (request_id,) = self.unanswered
            if request_id is None or request_id in refused:
                return []
            refused.add(request_id)
            limit = SPOOLED if self.spool else ""
            return [TransportProblem("too_large", limit, size=line.size).answer(request_id)]
        message = parse(line) if len(line) < _PARSE_IN_THREAD else await run_in_thread(parse, line)
        if message is not None:
            self.note_answer(message)
            return [SessionMessage(message)]
        request_id = answered(line)
        if request_id in self.unanswered and request_id is not None:
            return [TransportProblem("malformed", "it is not a valid message").answer(request_id)]
        # Many servers print banners and debug output to stdout, where only messages belong. Ignore them.
        return []

    async def write(self) -> None:
        assert self.process.stdin
        try:
            async with self.to_server:
                async for item in self.to_server:
                    line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
                    if isinstance(item.message, types.JSONRPCRequest):
                        if self._was_asked and not self.unanswered:
                            # What was written so far belongs to earlier calls, and does not explain how this one ends.
                            self._stderr.clear()
                        self._was_asked = True
                        # Before writing: the server may receive part of the message even if the write fails.
                        self.unanswered.add(item.message.id)
                    await self.process.stdin.send(line)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            # The server no longer reads, so the connection is over: fail the requests that still wait for a response.
            await self.exit_or_timeout()
            await self.from_server.aclose()

    async def exit_or_timeout(self) -> None:
        """Wait up to a second for the exit status and the rest of stderr, which may arrive after the last message."""
        with anyio.move_on_after(1):
            await self._stderr_closed.wait()
            while self.process.returncode is None:  # noqa: ASYNC110
                await anyio.sleep(0.01)

    async def read_stderr(self) -> None:
        assert self.process.stderr
        with suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            while True:
                self._stderr.append(await self.process.stderr.receive(4096))
        self._stderr_closed.set()

    async def watch(self) -> None:
        """Notice an exit that closes no pipe, because a grandchild still has them open."""
        # Polled, because waiting for a process also waits for its pipes.
        while self.process.returncode is None:  # noqa: ASYNC110
            await anyio.sleep(0.5)
        # The last output may still be in the pipes.
        await self.exit_or_timeout()
        await anyio.sleep(0.1)
        await self.from_server.aclose()


@asynccontextmanager
async def started(
    options: TransportOptions,
    *,
    name: str,
    limit: int,
    environment: Mapping[str, str] | None = None,
    spool: MakeSpool | None = None,
) -> AsyncIterator[Line]:
    """Run the server's process for the duration of the block.

    Args:
        environment: Where the variables for the network and those named by `inherit_env` are looked up.

    Raises:
        ToolUnavailable: The command cannot be started.
    """
    assert options.command
    # Do not pass on the whole environment: it contains keys that the server must not see.
    variables = get_default_environment()
    variables |= {
        variable: value
        for variable, value in (environment or {}).items()
        if is_inherited(variable, options.inherit_env)
    }
    variables |= {variable: value.get_secret_value() for variable, value in options.env.items()}
    try:
        # Shielded: a cancellation halfway would leave a process behind that is not tracked.
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
        raise ToolUnavailable(f"Server {name!r} could not be started: {options.command}: {why}.", sent=False) from None
    child = _Child(process, limit, spool)
    try:
        async with anyio.create_task_group() as tasks:
            for work in (child.read, child.write, child.read_stderr, child.watch):
                tasks.start_soon(work)
            try:
                yield child
            finally:
                # Shielded: a cancellation here would leave the process running.
                with anyio.CancelScope(shield=True):
                    await _terminate(child)
                tasks.cancel_scope.cancel()
    finally:
        for stream in (child.from_server, child.to_server, child.incoming, child.outgoing):
            with anyio.CancelScope(shield=True):
                await stream.aclose()


async def _terminate(child: _Child) -> None:
    process = child.process
    assert process.stdin and process.stdout and process.stderr
    # Accept no more messages in either direction.
    await child.incoming.aclose()
    await child.outgoing.aclose()
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.BusyResourceError):
        await process.stdin.aclose()
    if not await _has_exited(process, CLOSE_SECONDS):
        _signal(process, "SIGTERM")
        if not await _has_exited(process, TERMINATE_SECONDS):
            _signal(process, "SIGKILL")
            await _has_exited(process, TERMINATE_SECONDS)
    # Kill remaining children of the process as well.
    _signal(process, "SIGKILL")
    for pipe in (process.stdout, process.stderr):
        with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.BusyResourceError):
            await pipe.aclose()
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:
        # There is no public way to close it, and a surviving grandchild that inherited the pipe would keep it open.
        with suppress(PermissionError):
            transport.close()


async def _has_exited(process: Process, seconds: float) -> bool:
    with anyio.move_on_after(seconds):
        while process.returncode is None:  # noqa: ASYNC110
            await anyio.sleep(0.01)
    return process.returncode is not None


def _signal(process: Process, name: str) -> None:
    """Send a signal to the process group; on Windows, kill the process."""
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, getattr(signal, name))
