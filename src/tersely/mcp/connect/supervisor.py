"""Keeps a connection to every server: starts them side by side, notices when one is lost, and tries again.

A call goes to the connection that is there now. It is sent a second time only when
it certainly never arrived, or when the tool says that calling twice does no harm.
Health, last error and the current tools are there to be read at any time; who may
call what, and under which name, is the registry's business.
"""

import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Literal

import anyio

from tersely.errors import MaskingFailed, ToolError, ToolTimedOut, ToolUnavailable
from tersely.masking.mask import mask
from tersely.mcp.connect.session import Listing, Progress, UpstreamSession, as_json, opened
from tersely.mcp.raw import RawResult, Tool, read_result
from tersely.mcp.servers import Server

logger = logging.getLogger(__name__)

State = Literal["starting", "ready", "retrying", "closed"]

Notified = Callable[[str, str, dict[str, Any]], None]
"""Called with a server's name, and the method and parameters of what it told on its own."""


@dataclass(frozen=True)
class Backoff:
    """How long the supervisor waits, and for what."""

    first_delay: float = 1.0
    longest_delay: float = 60.0
    """Delays double from the first to this one."""

    steady_after: float = 60.0
    """A connection that has held so long has earned the first delay again."""

    for_a_restart: float = 5.0
    """How long a call waits for a server that is being started or restarted."""

    between_lists: float = 1.0
    """A server that announces changes all the time is listed no more often than this."""

    def delay(self, failures: int) -> float:
        wait = min(self.longest_delay, self.first_delay * 2.0 ** min(failures, 30))
        # Spread out, so that fifty servers behind one address are not dialled in the same instant.
        return wait * random.uniform(0.8, 1.2)


@dataclass(frozen=True, kw_only=True)
class ServerStatus:
    name: str
    state: State
    since: datetime
    last_error: str
    """Masked; empty when there was none."""

    tools: int
    refused: tuple[str, ...]
    """Tools that cannot be used, and why."""

    protocol: str
    server_info: Mapping[str, Any]
    latency_ms: float | None
    """Of the last listing."""

    restarts: int
    next_try: datetime | None
    dropped: int
    """Notifications that came too fast."""

    pid: int | None


Asked = Callable[[str, str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Answers what a server asks its client for; called with the server's name, the method and the parameters."""


def _nobody(*_: object) -> None:
    """The listener of those who do not listen."""


@dataclass(eq=False)
class _Life:
    """One connection from its start to its end."""

    was_ready: bool = False
    over: anyio.Event = field(default_factory=anyio.Event)
    """It takes no more calls."""


class Connection:
    """One server, whatever happens to it. `run` does the work; everything else may be called from any task."""

    def __init__(
        self,
        server: Server,
        *,
        patience: Backoff = Backoff(),  # noqa: B008 — frozen
        on_change: Callable[[str], None] = _nobody,
        on_notification: Notified = _nobody,
        on_request: Asked | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.server = server
        self._environment = environment
        self.name = server.name
        self.tools: tuple[Tool, ...] = ()
        self._patience = patience
        self._on_change = on_change
        self._on_notification = on_notification
        self._asked = partial(on_request, server.name) if on_request else None
        self._session: UpstreamSession | None = None
        self._introduction: dict[str, Any] = {}
        self._refused: tuple[str, ...] = ()
        self._state: State = "starting"
        self._since = datetime.now(UTC)
        self._last_error = ""
        self._failures = 0
        self._crashes = 0
        self._forgotten = False
        self._restarts = 0
        self._next_try: datetime | None = None
        self._dropped = 0
        self._moved = anyio.Event()
        self._life = _Life()
        self._outdated = anyio.Event()
        self.tried = anyio.Event()
        """Set when the first attempt has ended, one way or the other."""

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
        )

    @property
    def introduction(self) -> Mapping[str, Any]:
        """What the server last said about itself: `serverInfo`, `capabilities`, `instructions`."""
        return self._introduction

    async def call(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        *,
        timeout: float | None = None,
        on_progress: Progress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> RawResult:
        """Call a tool and return what it returned, unmasked.

        Raises:
            ToolError: Why there is no result: see its kinds.
        """
        params: dict[str, Any] = {"name": tool.name, "arguments": as_json(arguments)}
        if meta:
            params["_meta"] = dict(meta)
        harmless = tool.read_only or tool.idempotent
        raw = await self.request(
            "tools/call", params, what=tool.dotted, timeout=timeout, on_progress=on_progress, harmless=harmless
        )
        return read_result(raw)

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        what: str = "",
        timeout: float | None = None,
        on_progress: Progress | None = None,
        harmless: bool = False,
    ) -> dict[str, Any]:
        """Any request of the protocol; the answer as the server wrote it. `harmless` ones may be sent twice.

        Raises:
            ToolError: Why there is no answer.
        """
        seconds = timeout if timeout is not None else self.server.options.timeout
        answer: dict[str, Any] | None = None
        with anyio.move_on_after(seconds):
            answer = await self._request(method, params, on_progress, harmless)
        if answer is None:
            # Slow, or dead on its feet? A listing will tell; without that either, the connection is made anew.
            self.refresh()
            raise ToolTimedOut(what or f"{self.name}: {method}", seconds)
        return answer

    async def _request(
        self, method: str, params: Mapping[str, Any] | None, on_progress: Progress | None, harmless: bool
    ) -> dict[str, Any]:
        session = await self._current()
        try:
            return await session.request(method, params, on_progress=on_progress)
        except ToolUnavailable as problem:
            if not problem.sent:
                self._lose(session, str(problem))
            if problem.sent and not harmless:
                raise
            first = problem
        try:
            session = await self._current()
        except ToolUnavailable:
            raise first from None
        return await session.request(method, params, on_progress=on_progress)

    async def watch(self, uri: str, begun: Callable[[], None] = lambda: None) -> None:
        """Until cancelled, have the server tell of changes of a resource, as notifications; again after it was lost.

        Raises:
            ToolError: The server does not want to.
        """
        while True:
            session = await self._current()
            await session.watch(uri, begun)
            await anyio.sleep(self._patience.first_delay)

    async def roots_changed(self) -> None:
        """Tell the server, if it is there, that the client's folders are others now."""
        if self._session and not self._session.ended.is_set():
            await self._session.roots_changed()

    @property
    def protocol(self) -> str:
        """What is spoken with the server; empty while nobody is there."""
        return self._session.protocol if self._session else ""

    async def _current(self) -> UpstreamSession:
        """The session, or a short wait for the one that is being made."""
        with anyio.move_on_after(self._patience.for_a_restart):
            while not (self._session and not self._session.ended.is_set()):
                if self._failures or self._state == "closed":
                    break
                await self._moved.wait()
        if self._session and not self._session.ended.is_set():
            return self._session
        when = ""
        if self._next_try:
            when = f" It is tried again in {max(0.0, (self._next_try - datetime.now(UTC)).total_seconds()):.0f} s."
        why = f": {self._last_error}" if self._last_error else " yet."
        raise ToolUnavailable(f"Server {self.name!r} is not available{why}{when}", sent=False)

    def _lose(self, session: UpstreamSession, why: str) -> None:
        """This session is of no more use; calls that are still under way on it may end there."""
        if self._session is session:
            self._forgotten = session.is_forgotten
            self._over(self._life, why)

    def refresh(self) -> None:
        """Ask for a new listing, soon."""
        self._outdated.set()

    # The life of a connection

    async def run(self) -> None:
        """Connect, stay connected, and connect again, until cancelled."""
        try:
            async with anyio.create_task_group() as lives:
                while True:
                    began = anyio.current_time()
                    self._life = life = _Life()
                    lives.start_soon(self._live, life)
                    await life.over.wait()
                    self.tried.set()
                    if life.was_ready:
                        self._crashes = (
                            self._crashes + 1 if anyio.current_time() - began < self._patience.steady_after else 1
                        )
                    else:
                        self._failures += 1
                    # A server that only forgot us is there, and need not be waited for.
                    delay = 0.0 if self._forgotten else self._patience.delay(self._crashes + self._failures - 1)
                    self._forgotten = False
                    self._next_try = datetime.now(UTC) + timedelta(seconds=delay)
                    self._set("retrying")
                    await anyio.sleep(delay)
                    self._next_try = None
                    self._restarts += 1
        finally:
            self._session = None
            self.tried.set()
            self._set("closed")

    async def _live(self, life: "_Life") -> None:
        options = self.server.options
        try:
            # Not `fail_after` around the start alone: a scope must not end before what was opened in it.
            with anyio.CancelScope(deadline=anyio.current_time() + options.start_timeout) as start:
                async with opened(
                    self.server, notified=self._heard, asked=self._asked, environment=self._environment
                ) as session:
                    listing = await session.list_tools() if self._has_tools(session) else Listing((), ())
                    start.deadline = float("inf")
                    life.was_ready = True
                    self._introduction = session.introduction()
                    self._session = session
                    self._failures = 0
                    self._take(listing)
                    self._set("ready")
                    self.tried.set()
                    await self._stay(session, life)
                    self._dropped += session.dropped
            if start.cancelled_caught:
                self._over(life, f"It was not ready within {options.start_timeout:g} s.")
        except Exception as problem:  # noqa: BLE001
            # Broad, because one server's library, process or network must not take the others down; it is shown in the
            # status.
            self._over(life, _reason(problem))

    def _over(self, life: "_Life", why: str) -> None:
        """The next life may begin; this one has at most some calls to finish, and no more to say."""
        if life.over.is_set():
            return
        why = _masked(why)
        if why != self._last_error:
            logger.warning("A server is not connected", extra={"server": self.name, "reason": why})
        self._last_error = why
        self._session = None
        life.over.set()

    def _has_tools(self, session: UpstreamSession) -> bool:
        """Servers may offer only prompts or resources; asking those for tools is an error."""
        abilities = session.introduction()["capabilities"]
        return "tools" in abilities or not abilities

    async def _stay(self, session: UpstreamSession, life: "_Life") -> None:
        """Until the connection is lost: keep the listing current. Then until its last call is answered."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep_current, session)
            tasks.start_soon(self._keep_listening, session)
            tasks.start_soon(self._watch, session, life)
            await life.over.wait()
            tasks.cancel_scope.cancel()
        with anyio.move_on_after(self.server.options.timeout):
            # A server that refused a new connection may still answer on those it has.
            while session.in_flight and not session.ended.is_set():  # noqa: ASYNC110
                await anyio.sleep(0.05)

    async def _watch(self, session: UpstreamSession, life: "_Life") -> None:
        await session.ended.wait()
        self._over(life, session.farewell())

    async def _keep_current(self, session: UpstreamSession) -> None:
        options = self.server.options
        while True:
            with anyio.move_on_after(options.list_ttl):
                await self._outdated.wait()
            await anyio.sleep(self._patience.between_lists)
            self._outdated = anyio.Event()
            if not self._has_tools(session):
                continue
            try:
                with anyio.fail_after(options.list_timeout):
                    self._take(await session.list_tools())
            except TimeoutError:
                # Many servers do one thing at a time, so a call under way explains it; but only for as long as a call
                # may take.
                if not session.in_flight or session.silence() > options.timeout + options.list_timeout:
                    self._lose(session, f"It did not list its tools within {options.list_timeout:g} s.")
            except ToolUnavailable as problem:
                self._last_error = _masked(str(problem))
                if not problem.sent:
                    self._lose(session, str(problem))
            except ToolError as problem:
                self._last_error = _masked(str(problem))

    async def _keep_listening(self, session: UpstreamSession) -> None:
        """The newer protocol tells of changes on a stream of its own, which may break."""
        failures = 0
        while True:
            began = anyio.current_time()
            await session.changes(self.refresh)
            failures = 0 if anyio.current_time() - began > self._patience.steady_after else failures + 1
            if not session.is_modern or failures > 5:
                # The listing is still renewed from time to time.
                return
            await anyio.sleep(self._patience.delay(failures))

    def _heard(self, method: str, params: dict[str, Any]) -> None:
        if method == "notifications/tools/list_changed":
            self.refresh()
        self._on_notification(self.name, method, params)

    def _take(self, listing: Listing) -> None:
        before = self.tools
        self.tools, self._refused = listing.tools, listing.refused
        if [tool.fingerprint for tool in before] != [tool.fingerprint for tool in listing.tools]:
            self._on_change(self.name)

    def _set(self, state: State) -> None:
        self._state = state
        self._since = datetime.now(UTC)
        moved, self._moved = self._moved, anyio.Event()
        moved.set()


def _reason(problem: BaseException) -> str:
    """The words of the failure that matters, out of the groups that libraries wrap it in."""
    while isinstance(problem, BaseExceptionGroup):
        problem = next((inner for inner in problem.exceptions if isinstance(inner, ToolError)), problem.exceptions[0])
    return str(problem) if isinstance(problem, ToolError) else f"{type(problem).__name__}: {problem}"


def _masked(text: str) -> str:
    """For showing and logging: an error may quote what the server said."""
    try:
        return mask(text[:2_000])
    except MaskingFailed:
        return "An error whose text could not be masked."


@asynccontextmanager
async def connected(
    servers: Sequence[Server],
    *,
    patience: Backoff = Backoff(),  # noqa: B008 — frozen
    on_change: Callable[[str], None] = _nobody,
    on_notification: Notified = _nobody,
    on_request: Asked | None = None,
    environment: Mapping[str, str] | None = None,
    wait: float = 8.0,
) -> AsyncIterator[dict[str, Connection]]:
    """Connections to all servers that are not disabled, for as long as the block lasts.

    All are started side by side. The block begins when each has been tried once, or
    after `wait` seconds with those that are ready; the others are tried on. Variables
    named by a server's `inherit_env` are taken from `environment`.
    """
    connections = {
        server.name: Connection(
            server,
            patience=patience,
            on_change=on_change,
            on_notification=on_notification,
            on_request=on_request,
            environment=environment,
        )
        for server in servers
        if not server.options.disabled
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
            # Whatever the block raised is raised again outside the group, which would wrap it.
            failure = problem
        finally:
            tasks.cancel_scope.cancel()
    if failure:
        raise failure
