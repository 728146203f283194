"""From a tool call to an observation: call, clean, mask, keep, condense.

The spine of the house. The agent loop and the gateway both come through here, so
neither can show a result that was not masked first, and no condensed result
exists whose original cannot be read back.

Knows nothing of sessions, timelines or HTTP. The work is cut into two steps, so
that a durable caller can store what the first one returned: a handle with sizes,
never the text itself.
"""

import base64
import binascii
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, Protocol, TypeVar

import anyio
import anyio.to_thread

from tersely.condensing.budget import ACCOUNT_FROM_TOKENS, CONDENSE_SECONDS, SMALLEST_BUDGET, Condensed
from tersely.condensing.cache import SummaryCache
from tersely.condensing.ladder import condense_in_time
from tersely.condensing.summarize import OnText, Progress, SummaryRequest
from tersely.errors import InputError, MaskingFailed, ToolError
from tersely.llm.client import LLM
from tersely.llm.messages import Message, ToolCall
from tersely.masking.clean import clean
from tersely.masking.mask import Masker
from tersely.masking.masked import Masked, assume_masked
from tersely.mcp.raw import ContentPart, RawResult, Tool
from tersely.mcp.servers import Server
from tersely.pipeline.observation import Observation, OtherPart, note
from tersely.results.kept import KeptResults
from tersely.store.results import Origin
from tersely.text.tokens import O200K

logger = logging.getLogger(__name__)

T = TypeVar("T")

LONGEST_MESSAGE = 10_000
"""Characters of one message of the conversation that a summarizing model is shown."""

LONGEST_PROBLEM = 8_000
"""Characters of an error text: a server may quote whatever it likes in one."""


class Registry(Protocol):
    """Who knows the servers' tools and can call them."""

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
    """Runs a named piece of work, or hands out what it returned the last time."""

    async def __call__(self, name: str, work: Callable[[], Awaitable[T]]) -> T: ...


async def run_now(name: str, work: Callable[[], Awaitable[T]]) -> T:
    """The step of callers that keep no history."""
    return await work()


@dataclass(frozen=True)
class Scope:
    """Whose results these are, and the key of the marks that this somebody gets to see."""

    name: str
    key: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class Intent:
    """Why a tool is called: what decides which parts of its result matter."""

    looking_for: str = ""
    """The caller's own words."""

    conversation: Sequence[Message] = ()
    """What was said so far; system messages are left out."""


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """What the first step leaves: small and masked, so that it may be stored."""

    server: str
    tool: str
    arguments: Any
    """Masked."""

    handle: str | None
    tokens: int
    is_error: bool
    cleaned: int = 0
    parts: tuple[OtherPart, ...] = ()
    problem: Masked | None = None
    """Why there is no result."""


@dataclass(frozen=True, kw_only=True)
class Admitted:
    """A result after cleaning and masking."""

    texts: tuple[Masked, ...]
    structured: Masked | None
    """As JSON."""

    others: tuple[ContentPart, ...]
    cleaned: int
    is_error: bool

    @property
    def text(self) -> Masked:
        """What a reader of text sees; structured content only where there is nothing else, as servers repeat it in
        the text.
        """
        # Joined from masked pieces; a secret that spans two of them does not exist as one value anywhere.
        joined = "\n\n".join(text for text in self.texts if text)
        return assume_masked(joined) if joined else self.structured or assume_masked("")


def admit(raw: RawResult, masker: Masker | None) -> Admitted:
    """Clean and mask everything a server returned. No masker means that the operator has turned masking off for it.

    Raises:
        MaskingFailed: Nothing of the result may be used.
    """
    cleaned = 0

    def safe(text: str) -> Masked:
        nonlocal cleaned
        without = clean(text)
        cleaned += without.removed
        return masker.mask(without.text) if masker else assume_masked(without.text)

    texts = tuple(safe(part.text) for part in raw.parts if part.kind in ("text", "resource") and part.text)
    structured = None if raw.structured is None else _structured(raw.structured, safe, masker)
    others = tuple(part for part in raw.parts if part.data or part.kind in ("link", "other"))
    return Admitted(texts=texts, structured=structured, others=others, cleaned=cleaned, is_error=raw.is_error)


def _structured(value: dict[str, Any], safe: Callable[[str], Masked], masker: Masker | None) -> Masked:
    """Structured content as JSON: each string cleaned, then masked in the knowledge of its keys, so that it stays
    valid.
    """

    def cleaned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: cleaned(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [cleaned(inner) for inner in value]
        return safe(value) if isinstance(value, str) else value

    whole = cleaned(value)
    # Masked by value and by key; dumping it adds nothing but quotes and brackets.
    return assume_masked(json.dumps(masker.mask_json(whole) if masker else whole, ensure_ascii=False))


@dataclass(frozen=True, kw_only=True)
class ToolExecutor:
    registry: Registry
    results: KeptResults
    cache: SummaryCache | None = None
    condense_seconds: float = CONDENSE_SECONDS

    async def execute(
        self,
        call: ToolCall,
        *,
        scope: Scope,
        llm: LLM | None = None,
        intent: Intent = Intent(),  # noqa: B008 — frozen
        window: int | None = None,
        step: Step = run_now,
        on_progress: Callable[[Progress], None] = lambda progress: None,
    ) -> Observation:
        """Run one call and return what the conversation may see. A tool that fails is an observation too.

        Args:
            window: Tokens of the largest text that may enter the conversation at all, whatever the server's policy
                says.
        """
        fetched = await step("call", lambda: self.fetch(call, scope))
        return await step(
            "condense",
            lambda: self.observe(
                call, fetched, scope=scope, llm=llm, intent=intent, window=window, on_progress=on_progress
            ),
        )

    async def fetch(self, call: ToolCall, scope: Scope, meta: Mapping[str, Any] | None = None) -> Fetched:
        """The first step: call, clean, mask, keep. The server gets `meta` beside the arguments, e.g. a
        `traceparent`.
        """
        started = datetime.now(UTC)
        masker = Masker(key=scope.key)
        server = name = ""
        arguments: Any = {}
        try:
            tool = self.registry.resolve(call.name)
            server, name = tool.server, tool.name
            _, options = self.registry.server(server).options.policy(name)
            masker = options.masker(scope.key)
            arguments = _parsed(call)
            shown = masker.mask_json(arguments)
            raw = await self.registry.call(tool, await self.results.expand(arguments, scope.name), meta=meta)
            admitted = await anyio.to_thread.run_sync(admit, raw, masker if options.enabled else None)
        except (ToolError, InputError) as problem:
            return Fetched(
                server=server,
                tool=name or call.name[:200],
                arguments=masker.mask_json(arguments),
                handle=None,
                tokens=0,
                is_error=True,
                problem=assume_masked(masker.mask(str(problem))[:LONGEST_PROBLEM]),
            )
        except MaskingFailed as failure:
            # Closed: what could not be masked is nobody's to see, not even in an error text.
            logger.error("result_dropped", extra={"server": server, "tool": name, "reason": str(failure)})
            dropped = assume_masked(f"The result of {server}.{name} could not be checked for secrets and was dropped.")
            return Fetched(
                server=server, tool=name, arguments={}, handle=None, tokens=0, is_error=True, problem=dropped
            )
        origin = Origin(server=server, tool=name, arguments=shown, called_at=started)
        tokens = await anyio.to_thread.run_sync(O200K.count, admitted.text)
        handle = await self.results.keep(admitted.text, scope=scope.name, origin=origin, tokens=tokens)
        return Fetched(
            server=server,
            tool=name,
            arguments=shown,
            handle=handle,
            tokens=tokens,
            is_error=admitted.is_error,
            cleaned=admitted.cleaned,
            parts=await self._keep_others(admitted, scope, origin),
        )

    async def _keep_others(self, admitted: Admitted, scope: Scope, origin: Origin) -> tuple[OtherPart, ...]:
        """Keep what is not text, each piece by itself; what only points somewhere else is named and not followed."""
        kept: list[OtherPart] = []
        for number, part in enumerate(admitted.others, start=1):
            content = _bytes(part.data)
            handle = None
            if content:
                kind: Literal["image", "other"] = "image" if part.kind == "image" else "other"
                mime = part.mime_type or "application/octet-stream"
                handle = await self.results.keep_bytes(
                    content, scope=scope.name, origin=origin, mime_type=mime, kind=kind, part=number
                )
            kept.append(
                OtherPart(
                    kind=part.kind,
                    mime_type=part.mime_type,
                    size=len(content),
                    handle=handle,
                    name=part.uri or part.name,
                )
            )
        if admitted.structured and admitted.texts and not repeats(admitted.structured, admitted.text):
            number = len(admitted.others) + 1
            handle = await self.results.keep(
                admitted.structured, scope=scope.name, origin=origin, kind="structured", part=number
            )
            size = len(admitted.structured.encode())
            kept.append(OtherPart(kind="structured", mime_type="application/json", size=size, handle=handle))
        return tuple(kept)

    def budget(self, fetched: Fetched, window: int | None = None) -> int | None:
        """Tokens to which a fetched result has to be condensed; None when it may be shown as it is."""
        if fetched.handle is None:
            return None
        policy, _ = self.registry.server(fetched.server).options.policy(fetched.tool)
        if not policy.enabled or fetched.is_error:
            return window if window is not None and fetched.tokens > window else None
        over = policy.size_threshold_tokens if window is None else min(policy.size_threshold_tokens, window)
        return min(policy.summary_max_token_limit, over) if fetched.tokens > over else None

    async def observe(
        self,
        call: ToolCall,
        fetched: Fetched,
        *,
        scope: Scope,
        llm: LLM | None = None,
        intent: Intent = Intent(),  # noqa: B008 — frozen
        window: int | None = None,
        on_progress: Callable[[Progress], None] = lambda progress: None,
        on_text: OnText | None = None,
    ) -> Observation:
        """The second step: condense by the server's policy, and say what is missing."""

        def observation(condensed: Condensed, handle: str | None) -> Observation:
            return Observation(
                call_id=call.id,
                server=fetched.server,
                tool=fetched.tool,
                text=condensed.text,
                status=condensed.status,
                tokens_before=fetched.tokens,
                tokens_after=O200K.count(condensed.text),
                handle=handle,
                lost=condensed.lost,
                is_error=fetched.is_error,
                cleaned=fetched.cleaned,
                parts=fetched.parts,
                returned=condensed.returned,
                reason=condensed.reason,
                work=condensed.work,
            )

        if fetched.handle is None:
            return observation(_as_it_is(fetched.problem or "", 0), None)
        text = await self.results.load(fetched.handle, scope.name)
        budget = self.budget(fetched, window)
        if budget is None:
            shown = text or _empty(fetched)
            return observation(_as_it_is(shown, fetched.tokens), fetched.handle)
        policy, _ = self.registry.server(fetched.server).options.policy(fetched.tool)
        condensed = await shorten(
            text,
            tokens=fetched.tokens,
            handle=fetched.handle,
            budget=budget,
            focus=focus_of(fetched.arguments, intent),
            context=context_of(
                f"{fetched.server}.{fetched.tool}", fetched.arguments, intent, llm.window // 4 if llm else 0
            ),
            llm=llm if policy.enabled and not fetched.is_error and policy.use_model is not False else None,
            cache=self.cache,
            on_progress=on_progress,
            on_text=on_text,
            seconds=self.condense_seconds,
        )
        return observation(condensed, fetched.handle)


async def shorten(
    text: Masked,
    *,
    tokens: int,
    handle: str,
    budget: int,
    focus: str,
    context: str = "",
    llm: LLM | None = None,
    cache: SummaryCache | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    on_text: OnText | None = None,
    say: Callable[..., str] = note,
    seconds: float = CONDENSE_SECONDS,
) -> Condensed:
    """A kept text within `budget` tokens, with the line that says what is missing and how to read it.

    Args:
        on_text: Hears a model's summary while it is written.
        say: Writes that line, for doors where the reading tools have other names.
    """
    # The note is part of what the budget allows; where what was left out makes it longer than reserved, a short one
    # does.
    reserve = O200K.count(say(_as_it_is("", 0), handle, tokens=tokens)) + (60 if budget >= ACCOUNT_FROM_TOKENS else 0)
    request = SummaryRequest(target=max(SMALLEST_BUDGET, budget - reserve), focus=focus, context=context)
    condensed = await condense_in_time(
        text, request, llm=llm, cache=cache, seconds=seconds, on_progress=on_progress, on_text=on_text
    )
    closing = say(condensed, handle, tokens=tokens)
    whole = f"{condensed.text}\n{closing}"
    if O200K.exceeds(whole, budget):
        closing = f"[Shortened; the whole is kept as {handle}.]"
        whole = f"{O200K.head(condensed.text, max(0, budget - O200K.count(closing) - 2))}\n{closing}"
    return replace(condensed, text=whole)


def _parsed(call: ToolCall) -> dict[str, Any]:
    try:
        arguments = json.loads(call.arguments or "{}")
    except ValueError as problem:
        raise ToolError(f"The arguments of {call.name} are not valid JSON: {problem}. Send one JSON object.") from None
    if not isinstance(arguments, dict):
        raise ToolError(f"The arguments of {call.name} must be one JSON object, not {type(arguments).__name__}.")
    return arguments


def _bytes(data: str) -> bytes:
    """What Base64 stands for; what is none is kept as it was written."""
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return data.encode("utf-8", "replace")


def repeats(structured: str, text: str) -> bool:
    """Whether structured content says what the text says, as many servers do for clients that read only one of the
    two.
    """
    value = json.loads(structured)
    if value == {"result": text}:
        return True
    try:
        said = json.loads(text)
    except ValueError:
        return False
    return bool(said == value or {"result": said} == value)


def focus_of(arguments: Any, intent: Intent) -> str:
    """The caller's words, else the last thing that was asked; and the values the tool was called with."""
    said = intent.looking_for or next(
        (message.text for message in reversed(intent.conversation) if message.role == "user"), ""
    )
    values = " ".join(str(value) for value in _scalars(arguments))
    return f"{said[:2000]} {values[:500]}".strip()


def _scalars(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [scalar for inner in value.values() for scalar in _scalars(inner)]
    if isinstance(value, list):
        return [scalar for inner in value for scalar in _scalars(inner)]
    return [value] if isinstance(value, str | int | float) and not isinstance(value, bool) else []


def context_of(called: str, arguments: Any, intent: Intent, tokens: int) -> str:
    """The call and the conversation for a summarizing model: each message cut, the whole within `tokens`, the newest
    kept.
    """
    call = f"The text is the result of {called}({json.dumps(arguments, ensure_ascii=False)[:2000]})."
    left = tokens - O200K.count(call)
    said: list[str] = []
    for message in reversed([message for message in intent.conversation if message.role != "system"]):
        line = f"{message.role}: {message.text[:LONGEST_MESSAGE]}"
        left -= O200K.count(line) + 1
        if left < 0:
            break
        said.append(line)
    return "\n".join([*reversed(said), call])


def _empty(fetched: Fetched) -> str:
    if fetched.parts:
        kinds = ", ".join(f"{part.kind} {part.mime_type or part.name}".strip() for part in fetched.parts)
        return f"[The tool returned no text, but: {kinds}.]"
    return "[The tool returned nothing.]"


def _as_it_is(text: str, tokens: int) -> Condensed:
    return Condensed(text=text, status="passthrough", tokens_before=tokens, tokens_after=tokens)
