"""What happens to a server's answer on its way to a client: cleaned, masked, and within the threshold passed on as it
came.

Over the threshold it is kept whole, condensed by the tool's policy, and says in
one line how to read the rest. What cannot be masked goes nowhere; what cannot be
condensed is cut. Parts that are not text pass beside it. Nothing that fits is kept.

Knows no connection and no client; `door` brings the answers and takes them away.
"""

import base64
import binascii
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import anyio.to_thread

from tersely.condensing.budget import Condensed
from tersely.condensing.cache import SummaryCache
from tersely.condensing.ladder import condense_with
from tersely.condensing.summarize import SummaryRequest
from tersely.errors import MaskingFailed, StoreUnavailable
from tersely.llm.client import LLM
from tersely.masking.mask import Masker
from tersely.masking.masked import Masked, assume_masked
from tersely.mcp.raw import ContentPart, RawResult, read_result
from tersely.mcp.servers import Server, SummarizationOptions
from tersely.pipeline.execute import Admitted, Intent, admit, context_of, focus_of, repeats, shorten
from tersely.pipeline.observation import note
from tersely.results.kept import KeptResults
from tersely.servers.gateway.catalogue import cleaned
from tersely.store.results import Origin
from tersely.text.tokens import O200K

logger = logging.getLogger(__name__)

_INLINE = 8_000
"""Characters up to which an answer is masked where it is; a thread would cost more than the work."""

_PICTURES = frozenset(("image/png", "image/jpeg", "image/webp", "image/gif"))
"""Pictures that are only pictures. Others can carry scripts and texts."""

_MOST_LEFT_OUT = 20


@dataclass(frozen=True)
class Policy:
    """How answers of one tool are treated."""

    condensing: SummarizationOptions
    masker: Masker
    """For arguments and what is kept; results are masked with it unless the operator turned that off."""

    masks: bool

    @property
    def for_results(self) -> Masker | None:
        return self.masker if self.masks else None


@dataclass(frozen=True, kw_only=True)
class Call:
    """What was asked, and by whom."""

    server: Server
    tool: str
    """The tool's own name; for what is no tool, what was asked for."""

    arguments: Any
    looking_for: str = ""
    scope: str
    readers: Mapping[str, str] = field(default_factory=dict)
    """What the reading tools are called."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What the client gets, and what it costs."""

    result: dict[str, Any]
    is_error: bool = False
    text: str = ""
    """What passed as it was; empty when it was condensed."""

    tokens_before: int = 0
    tokens_after: int = 0
    condensed: bool = False
    cached: bool = False


@dataclass(frozen=True)
class Road:
    """
    Args:
        llm: Who summarizes where a policy says so: the provider it names, or for None the default; None where there is
            none.
        models_by_default: Also where no policy says anything.
        key: Of the marks.
    """

    kept: KeptResults
    llm: Callable[[str | None], LLM | None] = lambda provider: None
    cache: SummaryCache | None = None
    models_by_default: bool = False
    key: bytes | None = None
    _policies: dict[tuple[str, str], Policy] = field(default_factory=dict, repr=False)

    def policy(self, server: Server, tool: str) -> Policy:
        if (known := self._policies.get((server.name, tool))) is not None:
            return known
        condensing, masking = server.options.policy(tool)
        made = Policy(condensing, masking.masker(self.key), masking.enabled)
        if len(self._policies) < 10_000:  # names come from outside
            self._policies[server.name, tool] = made
        return made

    # Tools

    async def tool_result(self, raw: Mapping[str, Any], call: Call) -> Outcome:
        """The result of a tool as its caller gets it.

        Raises:
            ResultMalformed: It breaks the protocol's rules.
            MaskingFailed: Nothing of it may be shown.
        """
        result = read_result(raw)
        policy = self.policy(call.server, call.tool)
        admitted = await self._admitted(result, policy)
        shown = await self._passed(raw, result, admitted, policy, call)
        over = await self._over(admitted, policy.condensing)
        if over is None:
            return Outcome(result=shown, is_error=result.is_error, text=admitted.text)
        return await self._condensed_result(shown, admitted, over, policy, call)

    async def extension(self, raw: Mapping[str, Any], call: Call) -> dict[str, Any]:
        """What a method of an extension returned. A result in it is that of a call which ran on after its answer.

        Raises:
            ResultMalformed: It breaks the protocol's rules.
            MaskingFailed: Nothing of it may be shown.
        """
        shown = _rest(raw, ("result", *_HANDLES), self.policy(call.server, call.tool).for_results)
        if isinstance(inner := raw.get("result"), dict) and "content" in inner:
            shown["result"] = (await self.tool_result(inner, call)).result
        elif "result" in raw:
            shown["result"] = safe(inner, self.policy(call.server, call.tool).for_results)
        return shown

    async def _admitted(self, result: RawResult, policy: Policy) -> Admitted:
        size = sum(len(text) for text in result.texts)
        # Many servers say the same again in a structure; then looking at it once is enough.
        is_repeated = (
            len(result.parts) == 1
            and result.parts[0].kind == "text"
            and result.structured == {"result": result.parts[0].text}
        )
        if is_repeated:
            result = replace(result, structured=None)
        elif size <= _INLINE and result.structured is not None:
            size += len(str(result.structured))
        if size <= _INLINE:
            admitted = admit(result, policy.for_results)
        else:
            admitted = await anyio.to_thread.run_sync(admit, result, policy.for_results)
        if is_repeated:
            # Of masked text, with quotes around it.
            again = assume_masked(json.dumps({"result": admitted.text}, ensure_ascii=False))
            admitted = replace(admitted, structured=again)
        return admitted

    async def _passed(
        self, raw: Mapping[str, Any], result: RawResult, admitted: Admitted, policy: Policy, call: Call
    ) -> dict[str, Any]:
        """The result as it came, with what had to be cleaned and masked in its place."""
        texts = iter(admitted.texts)
        shown = {key: value if key in _AS_IT_IS else safe(value, policy.for_results) for key, value in raw.items()}
        if "content" in raw or result.parts:
            parts = []
            for number, part in enumerate(result.parts, start=1):
                text = next(texts) if part.kind in ("text", "resource") and part.text else None
                parts.append(await self._part(number, part, text, policy, call))
            shown["content"] = parts
        if admitted.structured is not None and admitted.structured != json.dumps(result.structured, ensure_ascii=False):
            value = json.loads(admitted.structured)
            shown["structuredContent"] = value if isinstance(raw["structuredContent"], dict) else value["result"]
        if not result.parts and result.structured is None:
            # Said aloud, because a model takes silence for whatever it hoped for.
            shown["content"] = [{"type": "text", "text": "[The tool returned nothing.]"}]
        elif admitted.texts and not any(admitted.texts) and all(part.kind == "text" for part in result.parts):
            shown["content"] = [{"type": "text", "text": "[The tool returned nothing that a reader could see.]"}]
        return shown

    async def _part(
        self, number: int, part: ContentPart, text: Masked | None, policy: Policy, call: Call
    ) -> Mapping[str, Any]:
        masker = policy.for_results
        match part.kind:
            case "text":
                return {**_rest(part.raw, ("type", "text"), masker), "text": part.text if text is None else text}
            case "resource" if text is not None:
                inner = _rest(part.raw["resource"], ("text",), masker)
                return {**_rest(part.raw, ("type", "resource"), masker), "resource": {**inner, "text": text}}
            case "resource":
                inner = _rest(part.raw["resource"], ("text", "blob"), masker)
                return {**_rest(part.raw, ("type", "resource"), masker), "resource": inner}
            case "image" if part.mime_type.lower() not in _PICTURES:
                return await self._aside(number, part, policy, call)
            case "image" | "audio":
                return _rest(part.raw, ("type", "data", "mimeType"), masker)
            case _:
                shown: Mapping[str, Any] = safe(part.raw, masker)
                return shown

    async def _aside(self, number: int, part: ContentPart, policy: Policy, call: Call) -> dict[str, Any]:
        """A picture that may be more than one: kept, and named instead of shown."""
        try:
            content = base64.b64decode(part.data, validate=True)
        except (binascii.Error, ValueError):
            content = part.data.encode("utf-8", "replace")
        kind = "".join(sign for sign in part.mime_type if sign.isalnum() or sign in "/+.-")[:60]
        where = ""
        try:
            handle = await self.kept.keep_bytes(
                content,
                scope=call.scope,
                origin=self._origin(call, policy),
                mime_type=kind or "image",
                kind="image",
                part=number,
            )
            where = f", kept as {handle}"
        except StoreUnavailable as problem:
            logger.warning(
                "part_not_kept", extra={"server": call.server.name, "tool": call.tool, "problem": str(problem)}
            )
        return {
            "type": "text",
            "text": f"[A picture of type {kind or 'unknown'}, {len(content):,} bytes{where}; not shown.]",
        }

    async def _over(self, admitted: Admitted, condensing: SummarizationOptions) -> Masked | None:
        """The text that is too long: what the tool says, or its structured content where only that is."""
        if not condensing.enabled:
            return None
        limit = condensing.size_threshold_tokens
        if await _exceeds(admitted.text, limit):
            return admitted.text
        structured = admitted.structured
        if structured is None or structured == admitted.text or not await _exceeds(structured, limit):
            return None
        # What the text says too is not longer for the quotes and escapes that JSON puts into it.
        return None if admitted.texts and repeats(structured, admitted.text) else structured

    async def _condensed_result(
        self, shown: dict[str, Any], admitted: Admitted, over: Masked, policy: Policy, call: Call
    ) -> Outcome:
        is_text = over == admitted.text
        short, meta = await self.condensed(over, policy, call, is_error=admitted.is_error)
        parts: list[Any] = []
        is_placed = False
        for part in shown.get("content", ()):
            if is_text and _is_text(part):
                if not is_placed:
                    parts.append({"type": "text", "text": short.text})
                    is_placed = True
            else:
                parts.append(part)
        if not is_placed:
            parts.append({"type": "text", "text": short.text})
        if (
            is_text
            and admitted.structured is not None
            and admitted.texts
            and not repeats(admitted.structured, admitted.text)
        ):
            handle = await self._keep(admitted.structured, policy, call, kind="structured", part=len(parts) + 1)
            if handle:
                parts.append({"type": "text", "text": f"[Structured content of the same result is kept as {handle}.]"})
                meta["tersely/structured_handle"] = handle
        result = {key: value for key, value in shown.items() if key != "structuredContent"}
        result["content"] = parts
        result["_meta"] = {**(result["_meta"] if isinstance(result.get("_meta"), dict) else {}), **meta}
        return Outcome(
            result=result,
            is_error=admitted.is_error,
            tokens_before=short.tokens_before,
            tokens_after=short.tokens_after,
            condensed=True,
            cached=bool(meta.get("tersely/cache_hit")),
        )

    # Resources and prompts

    async def resource(self, raw: Mapping[str, Any], call: Call) -> Outcome:
        """What reading a resource returned.

        Raises:
            MaskingFailed: Nothing of it may be shown.
        """
        policy = self.policy(call.server, call.tool)
        shown = {key: value if key == "contents" else safe(value, policy.for_results) for key, value in raw.items()}
        meta: dict[str, Any] = {}
        contents = raw.get("contents")
        if isinstance(contents, list):
            shown["contents"] = [await self._content(content, policy, call, meta) for content in contents]
        return _read(
            shown, meta, [content.get("text") for content in shown.get("contents") or () if isinstance(content, dict)]
        )

    async def _content(self, content: Any, policy: Policy, call: Call, meta: dict[str, Any]) -> Any:
        if not isinstance(content, dict) or not isinstance(content.get("text"), str):
            return (
                _rest(content, ("blob",), policy.for_results)
                if isinstance(content, dict)
                else safe(content, policy.for_results)
            )
        # An app's page is for the client's screen, and half a page is none.
        is_page = str(content.get("uri", "")).startswith("ui://") or "profile=mcp-app" in str(
            content.get("mimeType", "")
        )
        text, more = await self._text(content["text"], policy, call, may_be_condensed=not is_page)
        meta |= more
        return {**_rest(content, ("text",), policy.for_results), "text": text}

    async def prompt(self, raw: Mapping[str, Any], call: Call) -> Outcome:
        """A prompt with its messages.

        Raises:
            MaskingFailed: Nothing of it may be shown.
        """
        policy = self.policy(call.server, call.tool)
        shown = {key: value if key == "messages" else safe(value, policy.for_results) for key, value in raw.items()}
        meta: dict[str, Any] = {}
        messages = raw.get("messages")
        if isinstance(messages, list):
            shown["messages"] = [await self._message(message, policy, call, meta) for message in messages]
        parts = [message.get("content") for message in shown.get("messages") or () if isinstance(message, dict)]
        return _read(shown, meta, [part.get("text") for part in parts if isinstance(part, dict)])

    async def _message(self, message: Any, policy: Policy, call: Call, meta: dict[str, Any]) -> Any:
        content = message.get("content") if isinstance(message, dict) else None
        if not isinstance(content, dict):
            return safe(message, policy.for_results)
        rest = _rest(message, ("content",), policy.for_results)
        if content.get("type") == "text" and isinstance(content.get("text"), str):
            text, more = await self._text(content["text"], policy, call)
            meta |= more
            return {**rest, "content": {**_rest(content, ("type", "text"), policy.for_results), "text": text}}
        if content.get("type") == "resource" and isinstance(content.get("resource"), dict):
            inner = await self._content(content["resource"], policy, call, meta)
            return {**rest, "content": {**_rest(content, ("type", "resource"), policy.for_results), "resource": inner}}
        return {**rest, "content": _rest(content, ("type", "data", "mimeType"), policy.for_results)}

    async def _text(
        self, text: str, policy: Policy, call: Call, *, may_be_condensed: bool = True
    ) -> tuple[str, dict[str, Any]]:
        """A text on its own: masked, and condensed when it is too long; and what there is to say about that."""
        result = RawResult(parts=(ContentPart(kind="text", text=text),))
        admitted = await self._admitted(result, policy)
        if not may_be_condensed or (over := await self._over(admitted, policy.condensing)) is None:
            return admitted.text, {}
        short, meta = await self.condensed(over, policy, call)
        return short.text, meta

    # Condensing

    async def condensed(
        self, text: Masked, policy: Policy, call: Call, *, is_error: bool = False
    ) -> tuple[Condensed, dict[str, Any]]:
        """The text within the policy's target, with a line about the rest; and what `_meta` says of it."""
        tokens = await anyio.to_thread.run_sync(O200K.count, text)
        handle = await self._keep(text, policy, call, tokens=tokens)
        condensing = policy.condensing
        wants_model = condensing.use_model if condensing.use_model is not None else self.models_by_default
        llm = self.llm(condensing.llm_provider) if wants_model and not is_error else None
        arguments = policy.masker.mask_json(call.arguments)
        intent = Intent(looking_for=policy.masker.mask(call.looking_for) if call.looking_for else "")
        focus = focus_of(arguments, intent)
        try:
            if handle is None:
                short = await self._without_handle(text, tokens, condensing, focus, llm)
            else:
                short = await shorten(
                    text,
                    tokens=tokens,
                    handle=handle,
                    budget=condensing.summary_max_token_limit,
                    focus=focus,
                    context=context_of(
                        f"{call.server.name}.{call.tool}", arguments, intent, llm.window // 4 if llm else 0
                    ),
                    llm=llm,
                    cache=self.cache,
                    say=self._note(call),
                )
        except Exception as problem:  # noqa: BLE001
            # Broad, because whatever a condenser stumbles over, the caller still gets the beginning of a masked text.
            logger.error(
                "condensing_failed",
                extra={"server": call.server.name, "tool": call.tool, "problem": type(problem).__name__},
            )
            short = await anyio.to_thread.run_sync(_cut, text, tokens, handle, condensing.size_threshold_tokens)
        short = replace(
            short, tokens_before=tokens, tokens_after=await anyio.to_thread.run_sync(O200K.count, short.text)
        )
        meta = account(short, handle)
        if "tersely/reason" in meta:
            meta["tersely/reason"] = policy.masker.mask(meta["tersely/reason"])
        return short, meta

    async def _without_handle(
        self, text: Masked, tokens: int, condensing: SummarizationOptions, focus: str, llm: LLM | None
    ) -> Condensed:
        closing = f"\n[Shortened from {tokens:,} tokens. The whole could not be kept; ask for less to see more.]"
        request = SummaryRequest(target=max(50, condensing.summary_max_token_limit - 40), focus=focus)
        short = await condense_with(text, request=request, llm=llm, cache=self.cache)
        return replace(short, text=short.text + closing)

    async def _keep(
        self, text: Masked, policy: Policy, call: Call, *, kind: Any = "text", part: int = 0, tokens: int | None = None
    ) -> str | None:
        try:
            return await self.kept.keep(
                text, scope=call.scope, origin=self._origin(call, policy), kind=kind, part=part, tokens=tokens
            )
        except StoreUnavailable as problem:
            # A shortened result without its whole is better than none, and says so.
            logger.warning(
                "result_not_kept", extra={"server": call.server.name, "tool": call.tool, "problem": str(problem)}
            )
            return None

    def _origin(self, call: Call, policy: Policy) -> Origin:
        arguments = policy.masker.mask_json(call.arguments)
        return Origin(server=call.server.name, tool=call.tool, arguments=arguments, called_at=datetime.now(UTC))

    def _note(self, call: Call) -> Any:
        names = call.readers
        return partial(
            note, read=names.get("read_result", "read_result"), search=names.get("search_result", "search_result")
        )


_HANDLES = ("taskId", "requestState")
"""What a client has to bring back as it got it."""

_AS_IT_IS = frozenset(("content", "structuredContent", "isError", "resultType", "ttlMs", "cacheScope"))


def _rest(value: Mapping[str, Any], but: tuple[str, ...], masker: Masker | None) -> dict[str, Any]:
    """An object, made safe but for these keys, whose values somebody else looks after."""
    return {key: inner if key in but else safe(inner, masker) for key, inner in value.items()}


def safe(value: Any, masker: Masker | None) -> Any:
    """A JSON value without deceptions and secrets.

    Raises:
        MaskingFailed: It may not be shown.
    """
    if value is None or isinstance(value, bool | int | float) or value == {}:
        return value
    without = cleaned(value)
    return masker.mask_json(without) if masker else without


def safe_question(method: str, params: Mapping[str, Any], masker: Masker | None) -> dict[str, Any]:
    """What a server asks a client: words for a person or a model, and around them what a form or an address needs as it
    is.

    Raises:
        MaskingFailed: It may not be shown.
    """
    shown: dict[str, Any] = cleaned(dict(params))
    for name in ("message", "systemPrompt"):
        if name in shown:
            shown[name] = safe(shown[name], masker)
    if method == "sampling/createMessage" and isinstance(messages := params.get("messages"), list):
        shown["messages"] = [_safe_message(message, masker) for message in messages]
    return shown


def _safe_message(message: Any, masker: Masker | None) -> Any:
    if not isinstance(message, dict):
        return safe(message, masker)
    content = message.get("content")
    parts = [
        _rest(part, ("type", "data", "mimeType"), masker) if isinstance(part, dict) else safe(part, masker)
        for part in (content if isinstance(content, list) else [content])
    ]
    return {**_rest(message, ("content",), masker), "content": parts if isinstance(content, list) else parts[0]}


def safe_words(text: str, masker: Masker) -> str:
    """A short text of a server's own, for an error or a message."""
    try:
        return masker.mask(cleaned(text[:8_000]))
    except MaskingFailed:
        return "[not shown: it could not be checked for secrets]"


async def _exceeds(text: str, limit: int) -> bool:
    # A token has at least one byte, so most texts are small without counting.
    if len(text) <= limit and (text.isascii() or len(text.encode("utf-8", "replace")) <= limit):
        return False
    if len(text) <= 50_000:
        return O200K.exceeds(text, limit)
    return await anyio.to_thread.run_sync(O200K.exceeds, text, limit)


def _is_text(part: Any) -> bool:
    """Whether the text of a part went into the condensed one."""
    if part.get("type") == "text":
        return True
    return part.get("type") == "resource" and bool(part["resource"].get("text"))


def _cut(text: Masked, tokens: int, handle: str | None, limit: int) -> Condensed:
    kept = f"The whole is kept as {handle}." if handle else "The whole could not be kept."
    closing = f"\n[Cut: the beginning of {tokens:,} tokens. {kept}]"
    head = O200K.head(text, max(0, limit - O200K.count(closing) - 2))
    whole = assume_masked(head + closing)
    return Condensed(
        text=whole, status="fallback", tokens_before=tokens, tokens_after=limit, reason="condensing failed"
    )


def account(short: Condensed, handle: str | None) -> dict[str, Any]:
    """What `_meta` says of a condensed result; the names are those of the summarizer, in our corner."""
    meta: dict[str, Any] = {
        "status": short.status,
        "handle": handle,
        "input_tokens": short.tokens_before,
        "output_tokens": short.tokens_after,
        "compression_ratio": round(short.tokens_before / max(short.tokens_after, 1), 1),
        "encoding": short.encoding,
        "left_out": [str(lost) for lost in short.lost[:_MOST_LEFT_OUT]],
    }
    if short.kind:
        meta["kind"] = short.kind
    if short.work:
        meta |= {
            "model": short.work.model,
            "cache_hit": bool(short.work.calls and short.work.cache_hits == short.work.calls),
        }
    if short.status == "fallback":
        meta |= {"returned": short.returned or "cut", "reason": short.reason}
    return {f"tersely/{name}": value for name, value in meta.items() if value is not None}


def _read(shown: dict[str, Any], meta: Mapping[str, Any], texts: Sequence[Any]) -> Outcome:
    """A resource or a prompt, with what is to be counted; of several pieces the last one that was condensed."""
    if not meta:
        return Outcome(result=shown, text="\n".join(text for text in texts if isinstance(text, str)))
    return Outcome(
        result=_with_meta(shown, meta),
        tokens_before=meta["tersely/input_tokens"],
        tokens_after=meta["tersely/output_tokens"],
        condensed=True,
        cached=bool(meta.get("tersely/cache_hit")),
    )


def _with_meta(shown: dict[str, Any], meta: Mapping[str, Any]) -> dict[str, Any]:
    if meta:
        shown["_meta"] = {**(shown["_meta"] if isinstance(shown.get("_meta"), dict) else {}), **meta}
    return shown
