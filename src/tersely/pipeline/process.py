"""The pipeline every entry point calls: clean, mask, keep, condense, note.

`Pipeline.process` is the asynchronous shell around `core`; the store and the model
are passed in. It guarantees that everything a model, a store, a cache or a log
receives is cleaned and masked, and that the original of every condensed result
that was kept can be read back within its retention time.

A durable caller that records each step calls `admit`, `keep` and `condense`
separately instead of `process`.

Does not know any protocol: entry points translate theirs into `Content` and back.
"""

import json
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from tersely.condensing.budget import CONDENSE_SECONDS, Condensed
from tersely.condensing.focus import ARGUMENTS
from tersely.condensing.ladder import condense_in_time
from tersely.condensing.room import condense_to_room
from tersely.condensing.summarize.cache import SummaryCache
from tersely.condensing.summarize.map_reduce import Family, OnText, Progress, SummaryRequest
from tersely.cpu.run import run_cpu, run_in_thread
from tersely.errors import MaskingFailed, StoreUnavailable, TerselyError
from tersely.llm.client import LLM
from tersely.llm.messages import Message
from tersely.log_context import log_context
from tersely.masking.mask import Masker
from tersely.masking.masked import Masked, assume_masked
from tersely.pipeline import core, meta
from tersely.pipeline.admission import Over, admit_content, over_limit
from tersely.pipeline.admit import Admitted, admit_arguments, admit_words
from tersely.pipeline.content import Attachment, Content
from tersely.pipeline.core import NoteWriter
from tersely.pipeline.policy import Policy
from tersely.store.results import Origin
from tersely.text.tokens import O200K

logger = logging.getLogger(__name__)

LONGEST_MESSAGE = 10_000
"""Characters of each message of the conversation that a summarizing model receives."""

BRIEF_TOKENS = 500
"""Tokens of the brief that accompanies every part of a text to a summarizing model."""

NOTE = NoteWriter()


class ResultStore(Protocol):
    """Stores whole results; implemented by `results.kept.KeptResults`."""

    async def keep(
        self,
        text: Masked,
        *,
        scope: str,
        origin: Origin,
        kind: Literal["text", "structured"] = "text",
        part: int = 0,
        tokens: int | None = None,
    ) -> str: ...

    async def keep_bytes(
        self,
        content: bytes,
        *,
        scope: str,
        origin: Origin,
        mime_type: str,
        kind: Literal["image", "other"] = "other",
        part: int = 0,
    ) -> str: ...


@dataclass(frozen=True)
class Scope:
    """The owner of kept results, and the masking key for it."""

    name: str
    key: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class Intent:
    """Why a tool was called; decides which parts of the result matter."""

    looking_for: str = ""
    """The caller's own words; of an agent, its last thought."""

    question: str = ""
    """The question that the caller works on."""

    conversation: Sequence[Message] = ()
    """The messages so far; system messages are ignored."""

    called: str = ""
    """The call behind the result, as `server.tool`."""

    arguments: Any = None
    """The arguments of that call, masked."""

    def masked(self, masker: Masker) -> "Intent":
        return replace(
            self,
            looking_for=admit_words(self.looking_for, masker) if self.looking_for else "",
            question=admit_words(self.question, masker) if self.question else "",
            arguments=admit_arguments(self.arguments, masker),
        )

    @property
    def focus(self) -> str:
        """The caller's words, or else the last user message; and, marked as such, the values of the arguments."""
        asked = f"{self.looking_for} {self.question}".strip() or next(
            (message.text for message in reversed(self.conversation) if message.role == "user"), ""
        )
        values = " ".join(str(value) for value in _scalars(self.arguments))
        if not asked.strip() or not values:
            return asked[:2000].strip() or values[:500]
        return f"{asked[:2000].strip()}{ARGUMENTS}{values[:500]}"

    @property
    def brief(self) -> str:
        """Question, last thought and call in at most `BRIEF_TOKENS`, for every prompt of a summarizing model."""
        if not self.called:
            return ""
        call = f"{self.called}({json.dumps(self.arguments, ensure_ascii=False)[:2000]})"
        lines = [
            f"{label}: {_first_tokens(' '.join(text.split()), tokens)}"
            for label, text, tokens in (
                ("Question", self.question, BRIEF_TOKENS // 4),
                ("Looking for", self.looking_for, BRIEF_TOKENS // 3),
                ("The text is the result of", call, BRIEF_TOKENS // 3),
            )
            if text.strip()
        ]
        return "\n".join(lines)

    @property
    def messages(self) -> tuple[str, ...]:
        """The conversation without system messages for a summarizing model, oldest message first."""
        if not self.called:
            return ()
        lines = []
        for message in self.conversation:
            calls = "".join(f" [calls {call.name}({call.arguments[:500]})]" for call in message.tool_calls)
            if message.role != "system" and (message.text.strip() or calls):
                lines.append(f"{message.role}: {message.text[:LONGEST_MESSAGE]}{calls}")
        return tuple(lines)


@dataclass(frozen=True, kw_only=True)
class KeptPart:
    """A part of a result other than its text: kept and passed on unchanged, never sent to a text model."""

    kind: str
    """`image`, `audio`, `resource`, `link`, `structured`, or the server's own name for the kind."""

    mime_type: str
    size: int
    """In bytes."""

    handle: str | None = None
    name: str = ""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A whole result in the store."""

    handle: str
    tokens: int
    parts: tuple[KeptPart, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Processed:
    """A result after the pipeline."""

    text: Masked
    admitted: Admitted
    condensed: Condensed | None = None
    """None if the result was not condensed."""

    replaced: Literal["text", "structured"] | None = None
    """Which content the condensed text replaces."""

    handle: str | None = None
    """Handle of the whole result."""

    structured_handle: str | None = None
    """Handle of structured content that contains more than the text."""

    meta: dict[str, Any] = field(default_factory=dict)
    """The entries for `_meta`; empty if the result was not condensed."""


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Processes results for all entry points.

    Args:
        results: Stores whole results; None for entry points that keep nothing.
        cache: Earlier answers of models.
        condense_seconds: Time limit for a summary; after it the text is condensed by structure.
        family: The prompts for summaries that the entry point does not request itself.
    """

    results: ResultStore | None = None
    cache: SummaryCache | None = None
    condense_seconds: float = CONDENSE_SECONDS
    family: Family = "technical"

    async def process(
        self,
        content: Content,
        policy: Policy,
        scope: Scope,
        intent: Intent = Intent(),  # noqa: B008 — frozen
        *,
        origin: Origin | Callable[[], Origin] | None = None,
        llm: LLM | None = None,
        request: SummaryRequest | None = None,
        note: NoteWriter | None = NOTE,
        window: int | None = None,
        on_progress: Callable[[Progress], None] = lambda progress: None,
        on_text: OnText | None = None,
    ) -> Processed:
        """Run one result through the pipeline.

        Args:
            origin: The call that returned the result, for the store; a function is called only if it is kept.
            request: The summary to make; derived from policy and intent if None.
            note: Writes the note about what was left out; None if the entry point reports it otherwise.
            window: Tokens that fit into the reader's context.

        Raises:
            MaskingFailed: The content must not be used.
            StoreUnavailable: The policy requires keeping, and the store is unavailable.
        """
        admitted = await self.admit(content, policy)
        over = await over_limit(admitted, policy.limit(is_error=admitted.is_error, window=window))
        if over is None:
            return Processed(text=admitted.text, admitted=admitted)
        return await self.process_large(
            admitted,
            over,
            policy,
            scope,
            intent,
            origin=origin,
            llm=llm,
            request=request,
            note=note,
            window=window,
            on_progress=on_progress,
            on_text=on_text,
        )

    async def process_large(
        self,
        admitted: Admitted,
        over: Over,
        policy: Policy,
        scope: Scope,
        intent: Intent = Intent(),  # noqa: B008 — frozen
        *,
        origin: Origin | Callable[[], Origin] | None = None,
        llm: LLM | None = None,
        request: SummaryRequest | None = None,
        note: NoteWriter | None = NOTE,
        window: int | None = None,
        on_progress: Callable[[Progress], None] = lambda progress: None,
        on_text: OnText | None = None,
    ) -> Processed:
        """The rest of `process`, for a result that is `over` the limit."""
        text, replaced = over
        origin = origin() if callable(origin) else origin
        tokens = await run_cpu(O200K.count, text)
        handle = await self._keep_text(text, policy, scope, origin, tokens=tokens)
        condensed = await self.condense(
            text,
            policy,
            intent.masked(policy.masker),
            tokens=tokens,
            scope=scope,
            handle=handle,
            budget=policy.target(is_error=admitted.is_error, window=window),
            cut_to=policy.limit(is_error=admitted.is_error, window=window),
            llm=llm if policy.may_ask_model(is_error=admitted.is_error) else None,
            request=request,
            note=note,
            on_progress=on_progress,
            on_text=on_text,
        )
        condensed = replace(condensed, cleaned=admitted.cleaned)
        structured = None
        if replaced == "text" and admitted.structured and admitted.has_more_structure:
            structured = await self._keep_text(
                admitted.structured, policy, scope, origin, kind="structured", part=len(admitted.attachments) + 2
            )
        described = meta.describe(condensed, strategy=request.strategy if request else "semantic", handle=handle)
        if structured:
            described["structured_handle"] = structured
        return Processed(
            text=core.masked_text(condensed),
            admitted=admitted,
            condensed=condensed,
            replaced=replaced,
            handle=handle,
            structured_handle=structured,
            meta=described,
        )

    # Separate steps, for durable callers

    async def admit(self, content: Content, policy: Policy) -> Admitted:
        """Clean and mask; see `admission`."""
        return await admit_content(content, policy)

    async def keep(self, admitted: Admitted, scope: Scope, origin: Origin) -> Kept:
        """Keep the text, structured content that contains more than the text, and each attachment.

        Raises:
            StoreUnavailable: The store is unavailable.
        """
        assert self.results is not None
        tokens = await run_cpu(O200K.count, admitted.text)
        handle = await self.results.keep(admitted.text, scope=scope.name, origin=origin, tokens=tokens)
        parts = [
            await self._keep_attachment(one, number, scope, origin)
            for number, one in enumerate(admitted.attachments, start=1)
        ]
        if admitted.structured and admitted.has_more_structure:
            number = len(admitted.attachments) + 1
            structured = await self.results.keep(
                admitted.structured, scope=scope.name, origin=origin, kind="structured", part=number
            )
            size = len(admitted.structured.encode())
            parts.append(KeptPart(kind="structured", mime_type="application/json", size=size, handle=structured))
        return Kept(handle=handle, tokens=tokens, parts=tuple(parts))

    async def condense(
        self,
        text: Masked,
        policy: Policy,
        intent: Intent,
        *,
        handle: str | None,
        budget: int,
        cut_to: int | None = None,
        fill: bool = False,
        tokens: int | None = None,
        scope: Scope | None = None,
        llm: LLM | None = None,
        request: SummaryRequest | None = None,
        note: NoteWriter | None = NOTE,
        on_progress: Callable[[Progress], None] = lambda progress: None,
        on_text: OnText | None = None,
    ) -> Condensed:
        """Condense a text to `budget` tokens and add the note about what was left out.

        If condensing fails, the text is cut: no text makes this method fail.

        Args:
            cut_to: Tokens of the beginning that is returned if condensing fails; the budget unless given.
            fill: Use the whole budget, if necessary: the text is condensed only as far as it must be, without a model.
            intent: With masked words and arguments.
            tokens: Size of the text, if known.
            scope: Owner of the conversation in the intent.
        """
        if tokens is None:
            tokens = await run_cpu(O200K.count, text)
        reserve = note.reserve(handle, tokens, budget) if note else 0
        request = request or SummaryRequest(
            target=core.target_for(budget, reserve),
            focus=intent.focus,
            brief=intent.brief,
            conversation=intent.messages,
            scope=scope.name if scope else "",
            family=self.family,
            most_unsupported=policy.most_unsupported,
        )
        # All lines below, those of retries included, name the call.
        with log_context(**_log_fields(intent.called, policy), input_tokens=tokens):
            return await self._condense(
                text,
                policy,
                request,
                handle=handle,
                budget=budget,
                cut_to=cut_to or budget,
                fill=fill,
                tokens=tokens,
                llm=llm,
                note=note,
                on_progress=on_progress,
                on_text=on_text,
            )

    async def _condense(
        self,
        text: Masked,
        policy: Policy,
        request: SummaryRequest,
        *,
        handle: str | None,
        budget: int,
        cut_to: int,
        fill: bool,
        tokens: int,
        llm: LLM | None,
        note: NoteWriter | None,
        on_progress: Callable[[Progress], None],
        on_text: OnText | None,
    ) -> Condensed:
        logger.info("condensing_started", extra={"budget": budget, "model": llm.model if llm else None})
        started = time.perf_counter()
        try:
            if fill:
                room = budget if tokens <= budget else request.target
                condensed = await run_cpu(condense_to_room, text, room, request.focus)
            else:
                condensed = await condense_in_time(
                    text,
                    replace(request, mask=policy.masker.mask),
                    llm=llm,
                    cache=self.cache,
                    fallback=policy.fallback,
                    seconds=self.condense_seconds,
                    on_progress=on_progress,
                    on_text=on_text,
                )
            condensed = self._checked(condensed, policy.masker)
            if note is not None and not (fill and condensed.status == "passthrough"):
                condensed = await run_in_thread(core.with_note, condensed, note, handle, tokens, budget)
        except TerselyError:
            raise
        except Exception as problem:  # noqa: BLE001
            # Broad, so that a bug in a condenser still leaves the reader the beginning of the masked text.
            logger.error("condensing_failed", extra={"problem": type(problem).__name__})
            condensed = await run_in_thread(core.cut, text, tokens, handle, cut_to)
        # Condensed from masked text, or written by a model and masked again.
        condensed = replace(condensed, text=assume_masked(condensed.text), tokens_before=tokens)
        fields = meta.log_fields(meta.describe(condensed, handle=handle))
        logger.info("result_condensed", extra={**fields, "seconds": round(time.perf_counter() - started, 3)})
        return condensed

    def summarizer(self, masker: Masker, llm: LLM | None = None) -> Callable[[Masked, int, str], Awaitable[Condensed]]:
        """The function with which `results.read_back` summarizes kept texts; without a note, as the handle is known."""
        policy = Policy(masker=masker, keep="never")

        async def summarize(text: Masked, budget: int, focus: str) -> Condensed:
            intent = Intent(looking_for=focus).masked(masker)
            return await self.condense(text, policy, intent, handle=None, budget=budget, llm=llm, note=None)

        return summarize

    # Steps

    async def _keep_text(
        self,
        text: Masked,
        policy: Policy,
        scope: Scope,
        origin: Origin | None,
        *,
        kind: Literal["text", "structured"] = "text",
        part: int = 0,
        tokens: int | None = None,
    ) -> str | None:
        if self.results is None or origin is None or policy.keep == "never":
            return None
        try:
            return await self.results.keep(text, scope=scope.name, origin=origin, kind=kind, part=part, tokens=tokens)
        except StoreUnavailable as problem:
            if policy.keep == "required":
                raise
            # A shortened result without a handle is better than none; its note says so.
            logger.warning("result_not_kept", extra={"origin": str(origin), "problem": str(problem)})
            return None

    async def keep_attachment(
        self, attachment: Attachment, number: int, policy: Policy, scope: Scope, origin: Origin
    ) -> str | None:
        """Keep one attachment and return its handle; None if it was not kept and the policy allows that."""
        try:
            return (await self._keep_attachment(attachment, number, scope, origin)).handle
        except StoreUnavailable as problem:
            if policy.keep == "required":
                raise
            logger.warning("part_not_kept", extra={"origin": str(origin), "problem": str(problem)})
            return None

    async def _keep_attachment(self, attachment: Attachment, number: int, scope: Scope, origin: Origin) -> KeptPart:
        """Keep the data of an attachment; links are recorded but not fetched."""
        assert self.results is not None
        content = attachment.content()
        handle = None
        if content:
            handle = await self.results.keep_bytes(
                content,
                scope=scope.name,
                origin=origin,
                mime_type=attachment.mime_type or "application/octet-stream",
                kind="image" if attachment.kind == "image" else "other",
                part=number,
            )
        return KeptPart(
            kind=attachment.kind,
            mime_type=attachment.mime_type,
            size=len(content),
            handle=handle,
            name=attachment.name,
        )

    def _checked(self, condensed: Condensed, masker: Masker) -> Condensed:
        """Mask the text of a model and the quoted message of a provider."""
        if condensed.reason:
            condensed = replace(condensed, reason=admit_words(condensed.reason, masker))
        if condensed.work is None or condensed.status not in ("summarized", "partial"):
            return condensed
        lost = [replace(one, what=admit_words(one.what, masker)) for one in condensed.lost]
        try:
            text = admit_words(condensed.text, masker)
        except MaskingFailed:
            reason = "the summary could not be masked"
            notice = "[The summary could not be checked for secrets and was dropped.]"
            return replace(condensed, text=notice, status="fallback", reason=reason)
        # A password by itself looks like any word, so only words that the masked text contains are reported.
        shown = text.lower()
        work = replace(
            condensed.work,
            invented=[one for one in condensed.work.invented if _plain(one) in _plain(shown)],
            derived=[one for one in condensed.work.derived if _plain(one) in _plain(shown)],
        )
        return replace(condensed, text=text, work=work, lost=lost)


def _plain(text: str) -> str:
    """Without thousands separators, which checked items do not have."""
    return text.replace(",", "")


def _first_tokens(text: str, tokens: int) -> str:
    return O200K.head(text, tokens) if O200K.exceeds(text, tokens) else text


def _log_fields(called: str, policy: Policy) -> dict[str, Any]:
    """The call behind a result, for logs; empty for a text that no tool returned."""
    server, _, tool = called.partition(".")
    return {"server": server, "tool": tool, "threshold": policy.threshold} if called else {}


def _scalars(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [scalar for inner in value.values() for scalar in _scalars(inner)]
    if isinstance(value, list):
        return [scalar for inner in value for scalar in _scalars(inner)]
    return [value] if isinstance(value, str | int | float) and not isinstance(value, bool) else []
