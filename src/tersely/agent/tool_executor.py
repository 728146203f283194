"""Tool execution for agents: call the tool, pass its result through the pipeline, return an observation.

The work is split into two steps, so that a durable caller can store the result of
the first one: a handle with sizes, never the text itself. Translates between MCP
results and the pipeline's content; the pipeline processes the content.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, Protocol, TypeVar

from tersely.condensing.account import Lost
from tersely.condensing.budget import Condensed, ModelWork, Status
from tersely.condensing.marks import encode_marks
from tersely.condensing.summarize.map_reduce import OnText, Progress
from tersely.cpu.run import run_in_thread
from tersely.errors import InputError, MaskingFailed, ToolError
from tersely.llm.client import LLM
from tersely.llm.messages import ToolCall
from tersely.masking.mask import Masker
from tersely.masking.masked import NOTHING, Masked, from_store, own_words
from tersely.mcp.raw import RawResult, Tool
from tersely.mcp.servers import Server
from tersely.pipeline.admit import admit_arguments, admit_text, admit_words
from tersely.pipeline.mcp_results import content_of
from tersely.pipeline.policy import Policy
from tersely.pipeline.process import Intent, KeptPart, Pipeline, Scope
from tersely.results.kept import KeptResults
from tersely.store.results import Origin
from tersely.store.retrying import retry_while_unavailable
from tersely.text.tokens import O200K

logger = logging.getLogger(__name__)

T = TypeVar("T")

LONGEST_PROBLEM = 8_000
"""Characters kept of an error text, which may quote data of any length."""


class Registry(Protocol):
    """Resolves and calls the servers' tools."""

    def resolve(self, name: str) -> Tool: ...

    def server(self, name: str) -> Server: ...

    async def call(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        *,
        on_progress: Callable[..., Any] | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> RawResult: ...


class Step(Protocol):
    """Runs a named piece of work, or returns the stored result of an earlier run."""

    async def __call__(self, name: str, work: Callable[[], Awaitable[T]]) -> T: ...


async def run_now(name: str, work: Callable[[], Awaitable[T]]) -> T:
    """A step that stores nothing, for callers without durable history."""
    return await work()


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """The result of the first step: small and masked, so that it can be stored."""

    server: str
    tool: str
    arguments: Any
    """Masked."""

    handle: str | None
    tokens: int
    is_error: bool
    cleaned: int = 0
    parts: tuple[KeptPart, ...] = ()
    problem: Masked | None = None
    """Why there is no result."""


@dataclass(frozen=True, kw_only=True)
class Observation:
    """The outcome of one tool call, ready for a conversation."""

    call_id: str
    server: str
    tool: str
    text: str
    """The text for the conversation: masked, within the budget, with a note on omissions."""

    status: Status
    tokens_before: int
    tokens_after: int
    handle: str | None = None
    """Handle of the whole result; None if there is nothing beyond the text."""

    lost: list[Lost] = field(default_factory=list)
    is_error: bool = False
    cleaned: int = 0
    """Deceptive characters that were removed: escapes, zero-width and bidi characters."""

    parts: tuple[KeptPart, ...] = ()
    returned: Literal["original", "structural"] | None = None
    reason: str = ""
    work: ModelWork | None = None
    marks: str = ""
    """What became of each line of the result, as `encode_marks` writes it; empty for the summary of a model."""

    @property
    def masked(self) -> Masked:
        """The text as `Masked`: it came from the pipeline or from a stored step."""
        return from_store(self.text)


@dataclass(frozen=True, kw_only=True)
class ToolExecutor:
    registry: Registry
    results: KeptResults
    pipeline: Pipeline

    def policy(self, server: str, tool: str, key: bytes | None = None) -> Policy:
        condensing, masking = self.registry.server(server).options.policy(tool)
        return Policy.of_tool(condensing, masking, key=key)

    async def fetch(self, call: ToolCall, scope: Scope, meta: Mapping[str, Any] | None = None) -> Fetched:
        """Run the first step: call, clean, mask, keep. A failed call is returned as a problem that the model can read.

        Args:
            meta: Sent to the server beside the arguments, e.g. a `traceparent`.
        """
        started = datetime.now(UTC)
        masker = Masker(key=scope.key)
        server = name = ""
        arguments: Any = {}
        try:
            tool = self.registry.resolve(call.name)
            server, name = tool.server, tool.name
            policy = self.policy(server, name, scope.key)
            masker = policy.masker
            arguments = _parsed(call)
            shown = admit_arguments(arguments, masker)
            expanded = await retry_while_unavailable(lambda: self.results.expand(arguments, scope.name))
            raw = await self.registry.call(tool, expanded, meta=meta)
            admitted = await self.pipeline.admit(content_of(raw), policy)
        except (ToolError, InputError) as problem:
            return Fetched(
                server=server,
                tool=name or call.name[:200],
                arguments=admit_arguments(arguments, masker),
                handle=None,
                tokens=0,
                is_error=True,
                problem=(admit_text if isinstance(problem, ToolError) else admit_words)(str(problem), masker).head(
                    LONGEST_PROBLEM
                ),
            )
        except MaskingFailed as failure:
            # Fail closed: a text that could not be masked is not shown, not even in an error message.
            logger.error("result_dropped", extra={"server": server, "tool": name, "reason": str(failure)})
            dropped = own_words("The result could not be checked for secrets and was dropped.")
            return Fetched(
                server=server, tool=name, arguments={}, handle=None, tokens=0, is_error=True, problem=dropped
            )
        # Only the storing is retried: the call was made.
        origin = Origin(server=server, tool=name, arguments=shown, called_at=started)
        kept = await retry_while_unavailable(lambda: self.pipeline.keep(admitted, scope, origin))
        return Fetched(
            server=server,
            tool=name,
            arguments=shown,
            handle=kept.handle,
            tokens=kept.tokens,
            is_error=admitted.is_error,
            cleaned=admitted.cleaned,
            parts=kept.parts,
        )

    def budget(self, fetched: Fetched, window: int) -> int | None:
        """Tokens to which a fetched result has to be condensed; None if it can be passed through.

        Args:
            window: Tokens that the conversation has room for: the limit for any text, regardless of the policy.
        """
        if fetched.handle is None:
            return None
        policy = self.policy(fetched.server, fetched.tool)
        limit = policy.limit(is_error=fetched.is_error, window=window)
        if fetched.is_error and limit is not None:
            limit = min(limit, policy.threshold)  # A long error may only repeat itself; its budget is all of the room.
        if limit is None or fetched.tokens <= limit:
            return None
        return policy.target(is_error=fetched.is_error, window=window)

    async def observe(
        self,
        call: ToolCall,
        fetched: Fetched,
        *,
        scope: Scope,
        window: int,
        llm: LLM | None = None,
        intent: Intent = Intent(),  # noqa: B008 — frozen
        on_progress: Callable[[Progress], None] = lambda progress: None,
        on_text: OnText | None = None,
    ) -> Observation:
        """Run the second step: condense by the server's policy, with a note on omissions."""
        if fetched.handle is None:
            return _observation(call, fetched, _passthrough(fetched.problem or NOTHING, 0))
        text = await self.results.load(fetched.handle, scope.name)
        budget = self.budget(fetched, window)
        if budget is None:
            return _observation(call, fetched, _passthrough(text or _empty(fetched), fetched.tokens))
        policy = self.policy(fetched.server, fetched.tool, scope.key)
        condensed = await self.pipeline.condense(
            text,
            policy,
            replace(intent, called=f"{fetched.server}.{fetched.tool}", arguments=fetched.arguments),
            tokens=fetched.tokens,
            scope=scope,
            handle=fetched.handle,
            budget=budget,
            fill=fetched.is_error or not policy.condenses,
            llm=llm if policy.may_ask_model(is_error=fetched.is_error) else None,
            on_progress=on_progress,
            on_text=on_text,
        )
        return await run_in_thread(_observation, call, fetched, condensed)


def _observation(call: ToolCall, fetched: Fetched, condensed: Condensed) -> Observation:
    return Observation(
        call_id=call.id,
        server=fetched.server,
        tool=fetched.tool,
        text=condensed.text,
        status=condensed.status,
        tokens_before=fetched.tokens,
        tokens_after=O200K.count(condensed.text),
        handle=fetched.handle,
        lost=condensed.lost,
        is_error=fetched.is_error,
        cleaned=fetched.cleaned,
        parts=fetched.parts,
        returned=condensed.returned,
        reason=condensed.reason,
        work=condensed.work,
        marks=encode_marks(condensed.account),
    )


def _parsed(call: ToolCall) -> dict[str, Any]:
    try:
        arguments = json.loads(call.arguments or "{}")
    except ValueError as problem:
        raise ToolError(f"The arguments of {call.name} are not valid JSON: {problem}. Send one JSON object.") from None
    if not isinstance(arguments, dict):
        raise ToolError(f"The arguments of {call.name} must be one JSON object, not {type(arguments).__name__}.")
    return arguments


def _empty(fetched: Fetched) -> str:
    if fetched.parts:
        kinds = ", ".join(f"{part.kind} {part.mime_type or part.name}".strip() for part in fetched.parts)
        return f"[The tool returned no text, but: {kinds}.]"
    return "[The tool returned nothing.]"


def _passthrough(text: str, tokens: int) -> Condensed:
    return Condensed(text=text, status="passthrough", tokens_before=tokens, tokens_after=tokens)
