"""Requests that wait at a server while the client answers a question.

A server of the older protocol asks in the middle of a request; a client of the newer
one is asked by an answer, `input_required`, and sends its request again with the
answers. In between, the request at the server stays open, parked here under the
state that the client returns.
"""

import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
import mcp_types as types

from tersely.errors import ToolError, ToolRejected
from tersely.servers.gateway.clients import ClientRequest, check_mode

_PREFIX = "tersely-parked-"
_CAPABILITIES = {"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}

MOST_PARKED = 1_000
PARKED_SECONDS = 900.0
"""How long a client may take for an answer; then the request at the server is cancelled."""


@dataclass(eq=False)
class _Question:
    key: str
    method: str
    params: Mapping[str, Any]
    is_answered: anyio.Event = field(default_factory=anyio.Event)
    answer: dict[str, Any] | None = None


@dataclass(eq=False)
class ParkedRequest:
    """One request at a server, over all the client requests that belong to it; implements `RequestOrigin`."""

    request: ClientRequest
    """The client's latest request."""

    state: str = field(default_factory=lambda: _PREFIX + secrets.token_urlsafe(24))
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _questions: deque[_Question] = field(default_factory=deque)
    _changed: anyio.Event = field(default_factory=anyio.Event)
    _answer: dict[str, Any] | None = None
    _failure: ToolError | None = None

    @property
    def client(self) -> object:
        return self.request.client

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        self.request.notify(method, params)

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the client with the answer to its request, and wait until it brings the answer.

        Raises:
            ToolRejected: The client does not support the request.
        """
        capabilities, name = self.request.context.session.client_capabilities, _CAPABILITIES[method]
        if capabilities is None or getattr(capabilities, name) is None:
            raise ToolRejected(f"The client does not support {name}.", code=types.METHOD_NOT_FOUND)
        check_mode(capabilities, method, params)
        question = _Question(secrets.token_hex(4), method, params)
        self._questions.append(question)
        self._changed.set()
        await question.is_answered.wait()
        if question.answer is None:
            raise ToolRejected("The client did not answer.", code=types.INVALID_REQUEST)
        return question.answer

    async def run(self, send: Callable[[], Awaitable[dict[str, Any]]]) -> None:
        """Send the request to the server, in a task of its own."""
        with self.scope:
            try:
                self._answer = await send()
            except ToolError as failure:
                self._failure = failure
            finally:
                for question in self._questions:
                    question.is_answered.set()
        self._changed.set()

    async def outcome(self) -> dict[str, Any]:
        """The answer of the server, or `input_required` with its question.

        Raises:
            ToolError: The server did not answer, or rejected the request.
        """
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            if self._failure is not None:
                raise self._failure
            if self._answer is not None:
                return self._answer
            if self._questions:
                first = self._questions[0]
                return {
                    "resultType": "input_required",
                    "inputRequests": {first.key: {"method": first.method, "params": dict(first.params)}},
                    "requestState": self.state,
                }
            if self.scope.cancel_called:
                raise ToolRejected("The request was cancelled.", code=types.INVALID_REQUEST)

    def resume(self, request: ClientRequest) -> None:
        """Hand the answers of the client's next request to the server."""
        self.request = request
        answers = request.params.get("inputResponses")
        question = self._questions.popleft()
        answer = answers.get(question.key) if isinstance(answers, dict) else None
        question.answer = answer if isinstance(answer, dict) else None
        question.is_answered.set()
        if self._questions:
            self._changed.set()


class ParkedRequests:
    def __init__(self) -> None:
        self._waiting: dict[str, tuple[ParkedRequest, str, float]] = {}

    def park(self, parked: ParkedRequest, scope: str) -> None:
        """Keep a request until its client returns.

        Raises:
            ToolRejected: Too many requests wait for their clients.
        """
        now = anyio.current_time()
        for state, (old, _, deadline) in list(self._waiting.items()):
            if deadline < now:
                old.scope.cancel()
                del self._waiting[state]
        if len(self._waiting) >= MOST_PARKED:
            parked.scope.cancel()
            raise ToolRejected("Too many requests wait for answers of clients.", code=types.INTERNAL_ERROR)
        self._waiting[parked.state] = (parked, scope, now + PARKED_SECONDS)

    def take(self, request: ClientRequest, scope: str) -> ParkedRequest | None:
        """The request that a client returns to; None if it begins a new one.

        Raises:
            ToolRejected: The request is no longer there.
        """
        state = request.params.get("requestState")
        if not isinstance(state, str) or not state.startswith(_PREFIX):
            return None
        parked, owner, _ = self._waiting.get(state) or (None, "", 0.0)
        if parked is None or owner != scope:
            raise ToolRejected(
                "The request is no longer open. Send it again without a state.", code=types.INVALID_PARAMS
            )
        del self._waiting[state]
        parked.resume(request)
        return parked
