"""Keep one connection per server alive: connect concurrently, detect losses, reconnect with backoff.

A call uses the current connection. It is repeated only if it certainly never reached
the server, or if the tool declares that calling it twice does no harm. Health, last
error and the current tools can be read at any time. Permissions and names of tools
are the registry's responsibility.
"""

import logging
import math
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Literal

import anyio

from tersely.errors import MaskingFailed, ToolError, ToolTimedOut, ToolUnavailable
from tersely.masking.mask import mask
from tersely.mcp.connect.session import Listing, UpstreamSession, as_json, opened
from tersely.mcp.connect.wire import Line
from tersely.mcp.logins import LOGIN_COMMAND, LoginStore
from tersely.mcp.raw import OnProgress, RawResult, Tool, read_result
from tersely.mcp.servers import Server

logger = logging.getLogger(__name__)

State = Literal["starting", "ready", "retrying", "closed"]

OnServerNotification = Callable[[str, str, dict[str, Any]], None]
"""Called with the name of a server, and the method and parameters of its notification."""

OnServerRequest = Callable[[str, str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Answers a request from a server; called with the server's name, the method and the parameters."""


@dataclass(frozen=True)
class Backoff:
    """Delays of the supervisor, in seconds."""

    first_delay: float = 1.0
    longest_delay: float = 60.0
    """Delays between attempts double from the first to this one."""

    steady_after: float = 60.0
    """After a connection has lasted this long, delays start at the first one again."""

    for_a_restart: float = 5.0
    """How long a call waits for a server that is being started or restarted."""

    between_lists: float = 1.0
    """Minimum interval between listings, for servers that announce changes all the time."""

    def delay(self, failures: int) -> float:
        wait = min(self.longest_delay, self.first_delay * 2.0 ** min(failures, 30))
        # Jitter, so that many servers behind one address are not contacted at the same instant.
        return wait * random.uniform(0.8, 1.2)


@dataclass(frozen=True, kw_only=True)
class ServerStatus:
    name: str
    state: State
    since: datetime
    """When it became available, or unavailable."""
    last_error: str
    """Masked; empty if there was no error."""

    tools: int
    refused: tuple[str, ...]
    """Tools that cannot be used, each with the reason."""

    protocol: str
    server_info: Mapping[str, Any]
    latency_ms: float | None
    """Duration of the last listing."""

    restarts: int
    next_try: datetime | None
    dropped: int
    """Notifications over the rate limit, which were dropped."""

    pid: int | None
    output: str = ""
    """The last lines that a command wrote to standard error, masked."""

    is_starting: bool = False
    """Whether its first start is under way and may take longer: its tools are not known yet."""

    @property
    def needs_login(self) -> bool:
        """Whether it cannot be used until a person logs in; `last_error` says how."""
        return LOGIN_COMMAND in self.last_error


@dataclass(frozen=True, kw_only=True)
class LastKnown:
    """How a server described itself in an earlier run."""

    introduction: Mapping[str, Any]
    tools: tuple[Tool, ...]


def _ignore(*_: object) -> None:
    """Default callback: does nothing."""


@dataclass(eq=False)
class _Attempt:
    """One connection from its start to its end."""

    was_ready: bool = False
    settled: anyio.Event = field(default_factory=anyio.Event)
    """Set when the connection is ready or over."""

    over: anyio.Event = field(default_factory=anyio.Event)
    """Set when the connection accepts no more calls."""


class Connection:
    """The connection to one server, across reconnects. `run` maintains it; all other methods work from any task."""

    def __init__(
        self,
        server: Server,
        *,
        backoff: Backoff = Backoff(),  # noqa: B008 — frozen
        on_change: Callable[[str], None] = _ignore,
        on_notification: OnServerNotification = _ignore,
        on_request: OnServerRequest | None = None,
        environment: Mapping[str, str] | None = None,
        logins: LoginStore | None = None,
        spools: bool = False,
        last_known: LastKnown | None = None,
        declared: Mapping[str, Any] | None = None,
    ) -> None:
        self.server = server
        self._declared = declared
        self._environment = environment
        self._logins = logins
        self._spools = spools
        self._scope = anyio.CancelScope()
        self.name = server.name
        self.tools: tuple[Tool, ...] = last_known.tools if last_known else ()
        """As listed last; before the server is ready, as listed in an earlier run."""

        self._backoff = backoff
        self._on_change = on_change
        self._on_notification = on_notification
        self._on_request = partial(on_request, server.name) if on_request else None
        self._session: UpstreamSession | None = None
        self._introduction: dict[str, Any] = dict(last_known.introduction) if last_known else {}
        self._line: Line | None = None
        self._is_checked = False
        self._refused: tuple[str, ...] = ()
        self._state: State = "starting"
        self._created = time.monotonic()
        self._since = datetime.now(UTC)
        self._last_error = ""
        self._failures = 0
        self._crashes = 0
        self._forgotten = False
        self._restarts = 0
        self._next_try: datetime | None = None
        self._dropped = 0
        self._state_changed = anyio.Event()
        self._attempt = _Attempt()
        self._outdated = anyio.Event()
        self._wanted_now = anyio.Event()
        self.tried = anyio.Event()
        """Set when the first attempt has succeeded or failed, or takes longer than the server's `start_timeout`."""

        self.known = anyio.Event()
        """Set when the tools are known, from this run or an earlier one, or when the first attempt was made."""

        if last_known:
            self.known.set()

    def status(self) -> ServerStatus:
        session = self._session
        return ServerStatus(
            name=self.name,
            state=self._state,
            since=self._since,
            last_error=self._last_error,
            tools=len(self.tools),
            refused=self._refused,
            protocol=session.protocol if session else "",
            server_info=self._introduction.get("serverInfo", {}),
            latency_ms=round(session.latency * 1000, 3) if session else None,
            restarts=self._restarts,
            next_try=self._next_try,
            dropped=self._dropped + (session.dropped if session else 0),
            pid=session.pid if session else None,
            output=_masked(self._line.recent_output()) if self._line else "",
            is_starting=self._is_starting(),
        )

    def _is_starting(self) -> bool:
        age = time.monotonic() - self._created
        return not self.tried.is_set() and age < self.server.options.start_timeout

    @property
    def introduction(self) -> Mapping[str, Any]:
        """The server's last description of itself: `serverInfo`, `capabilities`, `instructions`."""
        return self._introduction

    async def call(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> RawResult:
        """Call a tool and return its raw result, neither cleaned nor masked.

        Raises:
            ToolError: There is no result; the subclass and the message give the reason.
        """
        params: dict[str, Any] = {"name": tool.name, "arguments": as_json(arguments)}
        if meta:
            params["_meta"] = dict(meta)
        raw = await self.request(
            "tools/call",
            params,
            what=tool.dotted,
            timeout=timeout,
            on_progress=on_progress,
            harmless=tool.is_repeatable,
        )
        return read_result(raw)

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        what: str = "",
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        on_detached: Callable[[], None] | None = None,
        harmless: bool = False,
    ) -> dict[str, Any]:
        """Send any request and return the raw response. A `harmless` request may be sent twice.

        `on_detached` is called if the server ends the stream of the response, to be asked for the rest later.

        Raises:
            ToolError: There is no response; the subclass and the message give the reason.
        """
        seconds = timeout if timeout is not None else self.server.options.timeout
        answer: dict[str, Any] | None = None
        with anyio.move_on_after(seconds):
            answer = await self._request(method, params, harmless, on_progress=on_progress, on_detached=on_detached)
        if answer is None:
            # The server may be slow or hung. If it does not answer a listing either, the connection is made again.
            self.refresh()
            raise ToolTimedOut(what or f"{self.name}: {method}", seconds)
        return answer

    async def _request(
        self, method: str, params: Mapping[str, Any] | None, harmless: bool, **callbacks: Any
    ) -> dict[str, Any]:
        session = await self._current()
        try:
            return await session.request(method, params, **callbacks)
        except ToolUnavailable as problem:
            if not problem.sent:
                self._give_up(session, str(problem))
            if problem.sent and not harmless:
                raise
            first = problem
        try:
            session = await self._current()
        except ToolUnavailable:
            raise first from None
        return await session.request(method, params, **callbacks)

    async def watch(self, uri: str, begun: Callable[[], None] = lambda: None) -> None:
        """Stay subscribed to a resource until cancelled, across reconnects; changes arrive as notifications.

        Raises:
            ToolError: The server refused the subscription.
        """
        while True:
            session = await self._current()
            await session.watch(uri, begun)
            await anyio.sleep(self._backoff.first_delay)

    async def roots_changed(self) -> None:
        """Notify the server, if it is connected, that the client's roots changed."""
        if self._session and not self._session.ended.is_set():
            await self._session.roots_changed()

    @property
    def protocol(self) -> str:
        """The negotiated protocol version; empty while the server is not connected."""
        return self._session.protocol if self._session else ""

    @property
    def progress(self) -> str:
        """What a starting server last wrote on its standard error, masked; empty if nothing."""
        return _masked(self._line.last_error()) if self._line and self._state == "starting" else ""

    async def settled(self) -> None:
        """Wait until the current attempt succeeds or fails, however long it takes."""
        await self._attempt.settled.wait()

    async def _current(self) -> UpstreamSession:
        """The current session; waits for the first start, and a short time while the server is restarted."""
        is_first = not self.tried.is_set()
        with anyio.move_on_after(math.inf if is_first else self._backoff.for_a_restart):
            while not (self._session and not self._session.ended.is_set()):
                if self._failures or self._state == "closed" or (is_first and self.tried.is_set()):
                    break
                await self._state_changed.wait()
        if self._session and not self._session.ended.is_set():
            return self._session
        when = ""
        if self._next_try:
            seconds = max(0.0, (self._next_try - datetime.now(UTC)).total_seconds())
            when = f" The next attempt is in {seconds:.0f} s."
        why = f": {self._last_error}" if self._last_error else " yet."
        raise ToolUnavailable(f"Server {self.name!r} is not available{why}{when}", sent=False)

    def _give_up(self, session: UpstreamSession, why: str) -> None:
        """Use this session for no more calls; calls in flight on it may still complete."""
        if self._session is session:
            self._forgotten = session.is_forgotten
            self._end(self._attempt, why)

    def refresh(self) -> None:
        """Request a new listing soon."""
        self._outdated.set()

    def retry(self) -> None:
        """Connect now instead of after the pause; without effect while connected."""
        self._wanted_now.set()

    # Connecting and reconnecting

    def close(self) -> None:
        """End the connection for good."""
        self._scope.cancel()

    async def run(self) -> None:
        """Connect, and reconnect after every loss, until cancelled or closed."""
        with self._scope:
            await self._run()

    async def _run(self) -> None:
        try:
            async with anyio.create_task_group() as attempts:
                while True:
                    began = anyio.current_time()
                    self._attempt = attempt = _Attempt()
                    attempts.start_soon(self._connect, attempt)
                    attempts.start_soon(self._report_slow_start, attempt)
                    await attempt.over.wait()
                    self._set_tried()
                    if attempt.was_ready:
                        self._crashes = (
                            self._crashes + 1 if anyio.current_time() - began < self._backoff.steady_after else 1
                        )
                    else:
                        self._failures += 1
                    # A server that only lost our session is reachable, so reconnect without a delay.
                    delay = 0.0 if self._forgotten else self._backoff.delay(self._crashes + self._failures - 1)
                    self._forgotten = False
                    self._next_try = datetime.now(UTC) + timedelta(seconds=delay)
                    self._set_state("retrying")
                    self._wanted_now = anyio.Event()
                    await self._sleep_or_login(delay)
                    self._next_try = None
                    self._restarts += 1
        finally:
            self._session = None
            self._set_tried()
            self._set_state("closed")

    async def _sleep_or_login(self, delay: float) -> None:
        """Sleep, but not longer than until `retry` is called, or the user logs in at this server or out of it."""
        url = self.server.options.transport.url
        with anyio.move_on_after(delay):
            if self._logins is None or not url:
                await self._wanted_now.wait()
                return
            before = self._logins.version(url)
            while self._logins.version(url) == before and not self._wanted_now.is_set():  # noqa: ASYNC110
                await anyio.sleep(0.5)  # Another process writes it.

    def _set_tried(self) -> None:
        self.tried.set()
        self.known.set()

    async def _report_slow_start(self, attempt: "_Attempt") -> None:
        """Say so when a server takes long to start. The process is not killed: a restart would only begin again."""
        with anyio.move_on_after(self.server.options.start_timeout):
            await attempt.settled.wait()
        if not attempt.settled.is_set() and self._may_take_long:
            self._last_error = self._slow
            logger.warning("A server is still starting", extra={"server": self.name, "reason": self._slow})
            self._set_tried()
            self._set_state("starting")

    @property
    def _may_take_long(self) -> bool:
        """Whether to wait for the server without a limit: a command may have to be downloaded first, as with npx."""
        return self.server.options.transport.kind == "stdio"

    @property
    def _slow(self) -> str:
        return f"It was not ready within {self.server.options.start_timeout:g} s and is still starting."

    async def _connect(self, attempt: "_Attempt") -> None:
        options = self.server.options
        try:
            # Not `fail_after` around the start alone: a cancel scope must not end before the contexts opened in it.
            limit = math.inf if self._may_take_long else options.start_timeout
            with anyio.CancelScope(deadline=anyio.current_time() + limit) as start:
                async with opened(
                    self.server,
                    on_message=self._notified,
                    on_request=self._on_request,
                    environment=self._environment,
                    logins=self._logins,
                    spools=self._spools,
                    declared=self._declared,
                    on_line=self._opened,
                ) as session:
                    listing = await session.list_tools() if self._has_tools(session) else Listing((), ())
                    start.deadline = float("inf")
                    attempt.was_ready = True
                    attempt.settled.set()
                    if self._last_error == self._slow:
                        self._last_error = ""
                    self._introduction = session.introduction()
                    self._session = session
                    self._failures = 0
                    self._update_tools(listing)
                    self._set_state("ready")
                    self._set_tried()
                    await self._maintain(session, attempt)
                    self._dropped += session.dropped
            if start.cancelled_caught:
                self._end(attempt, f"It was not ready within {options.start_timeout:g} s.")
        except Exception as problem:  # noqa: BLE001
            # Broad, because a failure in one server's SDK, process or network must not affect other servers. The status
            # shows it.
            self._end(attempt, _reason(problem))

    def _opened(self, line: Line) -> None:
        self._line = line

    def _end(self, attempt: "_Attempt", why: str) -> None:
        """Allow the next attempt to start; calls in flight on this one may still complete."""
        if attempt.over.is_set():
            return
        why = _masked(why)
        if why != self._last_error:
            logger.warning("A server is not connected", extra={"server": self.name, "reason": why})
        self._last_error = why
        self._session = None
        attempt.settled.set()
        attempt.over.set()

    def _has_tools(self, session: UpstreamSession) -> bool:
        """Whether to list tools. A server may offer only prompts or resources, and then rejects the request."""
        capabilities = session.introduction()["capabilities"]
        return "tools" in capabilities or not capabilities

    async def _maintain(self, session: UpstreamSession, attempt: "_Attempt") -> None:
        """Keep the listing current until the connection is lost, then wait for the calls in flight."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep_listing_current, session)
            tasks.start_soon(self._subscribe_to_changes, session)
            tasks.start_soon(self._watch_end, session, attempt)
            await attempt.over.wait()
            tasks.cancel_scope.cancel()
        with anyio.move_on_after(self.server.options.timeout):
            # A server that refuses new connections may still answer on existing ones.
            while session.in_flight and not session.ended.is_set():  # noqa: ASYNC110
                await anyio.sleep(0.05)

    async def _watch_end(self, session: UpstreamSession, attempt: "_Attempt") -> None:
        await session.ended.wait()
        self._end(attempt, session.end_reason())

    async def _keep_listing_current(self, session: UpstreamSession) -> None:
        options = self.server.options
        while True:
            with anyio.move_on_after(options.list_ttl):
                await self._outdated.wait()
            await anyio.sleep(self._backoff.between_lists)
            self._outdated = anyio.Event()
            if not self._has_tools(session):
                continue
            try:
                with anyio.fail_after(options.list_timeout):
                    self._update_tools(await session.list_tools())
            except TimeoutError:
                # Many servers handle one request at a time, so a call in flight can explain the timeout, but only for
                # as long as a call may take.
                if not session.in_flight or session.silence() > options.timeout + options.list_timeout:
                    self._give_up(session, f"It did not list its tools within {options.list_timeout:g} s.")
            except ToolUnavailable as problem:
                self._last_error = _masked(str(problem))
                if not problem.sent:
                    self._give_up(session, str(problem))
            except ToolError as problem:
                self._last_error = _masked(str(problem))

    async def _subscribe_to_changes(self, session: UpstreamSession) -> None:
        """Subscribe to changes, again if the stream breaks. Only the newer protocol has a stream for them."""
        failures = 0
        while True:
            began = anyio.current_time()
            await session.changes(self.refresh)
            failures = 0 if anyio.current_time() - began > self._backoff.steady_after else failures + 1
            if not session.is_modern or failures > 5:
                # The listing is still refreshed every `list_ttl` seconds.
                return
            await anyio.sleep(self._backoff.delay(failures))

    def _notified(self, method: str, params: dict[str, Any]) -> None:
        if method == "notifications/tools/list_changed":
            self.refresh()
        self._on_notification(self.name, method, params)

    def _update_tools(self, listing: Listing) -> None:
        before = self.tools
        self.tools, self._refused = listing.tools, listing.refused
        is_first, self._is_checked = not self._is_checked, True
        if is_first or [tool.fingerprint for tool in before] != [tool.fingerprint for tool in listing.tools]:
            self._on_change(self.name)

    def _set_state(self, state: State) -> None:
        if (state == "ready") != (self._state == "ready"):
            # An outage lasts from the loss of the connection on; attempts to connect do not end it.
            self._since = datetime.now(UTC)
        self._state = state
        changed, self._state_changed = self._state_changed, anyio.Event()
        changed.set()


def _reason(problem: BaseException) -> str:
    """The message of the relevant failure, unwrapped from exception groups."""
    while isinstance(problem, BaseExceptionGroup):
        problem = next((inner for inner in problem.exceptions if isinstance(inner, ToolError)), problem.exceptions[0])
    return str(problem) if isinstance(problem, ToolError) else f"{type(problem).__name__}: {problem}"


def _masked(text: str) -> str:
    """Mask an error message for display and logs: it may quote the server."""
    try:
        return mask(text[:2_000])
    except MaskingFailed:
        return "An error whose message could not be masked."


@asynccontextmanager
async def connected(
    servers: Sequence[Server],
    *,
    backoff: Backoff = Backoff(),  # noqa: B008 — frozen
    on_change: Callable[[str], None] = _ignore,
    on_notification: OnServerNotification = _ignore,
    on_request: OnServerRequest | None = None,
    wait: float = 8.0,
    environment: Mapping[str, str] | None = None,
    logins: LoginStore | None = None,
    spools: bool = False,
    last_known: Mapping[str, LastKnown] | None = None,
    declared: Mapping[str, Any] | None = None,
) -> AsyncIterator[dict[str, Connection]]:
    """Connect to all servers that are not disabled, for the duration of the block.

    Connections start concurrently. The block begins after the first attempt of every
    server, or after `wait` seconds with the servers that are ready; attempts continue
    for the others. Variables that a server's `inherit_env` names are taken from
    `environment`, and tokens for remote servers from `logins`. With `spools`, results
    over `max_result_bytes` arrive as `SpooledAnswer`. A server in `last_known` has the
    tools of an earlier run until it is ready. `declared` are the capabilities of the only
    client that servers can ask something; without it all are declared.
    """
    connections = {
        server.name: Connection(
            server,
            backoff=backoff,
            on_change=on_change,
            on_notification=on_notification,
            on_request=on_request,
            environment=environment,
            logins=logins,
            spools=spools,
            last_known=(last_known or {}).get(server.name),
            declared=declared,
        )
        for server in servers
        if not server.options.disabled and server.options.transport.kind != "history"
    }
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        for connection in connections.values():
            tasks.start_soon(connection.run)
        try:
            with anyio.move_on_after(wait):
                for connection in connections.values():
                    await connection.tried.wait()
            yield connections
        except Exception as problem:  # noqa: BLE001
            # An exception of the block is raised again outside the task group, which would wrap it.
            failure = problem
        finally:
            tasks.cancel_scope.cancel()
    if failure:
        raise failure
