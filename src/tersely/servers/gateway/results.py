"""Translates servers' answers into the pipeline's content, and processed content back into the protocol.

A result under the threshold is passed on with its cleaned and masked text. Over
the threshold, its text is replaced by the condensed one. Parts that are not text
are passed on beside it. The pipeline does the work: nothing here condenses, keeps
or masks by itself.

Most results are small. What condenses and keeps is imported for the first that is not:
it takes as much memory as everything else.

Does not know connections or clients; `protocol` hands in the answers.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import mcp_types as types

from tersely.masking.masked import Masked
from tersely.mcp.raw import ContentPart, RawResult, read_result
from tersely.pipeline.admission import admit_content, over_limit
from tersely.pipeline.admit import Admitted, admit_value
from tersely.pipeline.content import Attachment, Content
from tersely.pipeline.mcp_results import content_of
from tersely.pipeline.policy import Policy
from tersely.servers.gateway.calls import CallResult, UpstreamCall
from tersely.servers.gateway.policies import Policies, admit_except

if TYPE_CHECKING:
    from tersely.pipeline.process import Processed
    from tersely.servers.gateway.condensing import LargeResults

_PICTURES = frozenset(("image/png", "image/jpeg", "image/webp", "image/gif"))
"""Image types that hold nothing but pixels. Others can carry scripts and texts."""


@dataclass(frozen=True)
class ResultTranslator:
    """Runs results, resources and prompts through the pipeline.

    Args:
        load: Returns what handles results over the limit, which is loaded for the first of them.
    """

    policies: Policies
    load: "Callable[[], Awaitable[LargeResults]]"
    _introductions: dict[str, tuple[Any, Any, Any]] = field(default_factory=dict)
    """By server: what its last result said about the server, the masker, and what that became."""

    # Tools

    async def tool_result(self, raw: Mapping[str, Any], call: UpstreamCall) -> CallResult:
        """The result of a tool call, for the client.

        Raises:
            ResultMalformed: The result violates the protocol.
            MaskingFailed: The result must not be shown.
        """
        result = read_result(raw)
        policy = self.policies.of(call.server, call.tool)
        admitted = await admit_content(content_of(result), policy)
        shown = await self._passed(raw, result, admitted, policy, call)
        processed = await self._processed(admitted, policy, call)
        if processed is None:
            return CallResult(result=shown, is_error=result.is_error, text=admitted.text)
        return _condensed(shown, processed, call)

    async def extension(self, raw: Mapping[str, Any], call: UpstreamCall) -> dict[str, Any]:
        """What a method of an extension returned. A `result` in it belongs to a call that continued after its answer.

        Raises:
            ResultMalformed: The result violates the protocol.
            MaskingFailed: The result must not be shown.
        """
        masker = self.policies.of(call.server, call.tool).result_masker
        shown = admit_except(raw, ("result", *_RETURNED_UNCHANGED), masker)
        if isinstance(inner := raw.get("result"), dict) and "content" in inner:
            shown["result"] = (await self.tool_result(inner, call)).result
        elif "result" in raw:
            shown["result"] = admit_value(inner, masker)
        return shown

    async def _processed(self, admitted: Admitted, policy: Policy, call: UpstreamCall) -> "Processed | None":
        """The result condensed and kept; None if it is within the limit, and passed on."""
        over = await over_limit(admitted, policy.limit(is_error=admitted.is_error))
        return None if over is None else await (await self.load()).process(admitted, over, policy, call)

    async def _passed(
        self, raw: Mapping[str, Any], result: RawResult, admitted: Admitted, policy: Policy, call: UpstreamCall
    ) -> dict[str, Any]:
        """The result with its text cleaned and masked, but not condensed."""
        texts = iter(admitted.texts)
        shown = {
            key: value if key in _HANDLED_ELSEWHERE else self._beside(key, value, policy, call)
            for key, value in raw.items()
        }
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
            # Explicit, because a model may misread an empty result as success.
            shown["content"] = [{"type": "text", "text": "[The tool returned nothing.]"}]
        elif admitted.texts and not any(admitted.texts) and all(part.kind == "text" for part in result.parts):
            shown["content"] = [{"type": "text", "text": "[The tool returned nothing that a reader could see.]"}]
        return shown

    def _beside(self, key: str, value: Any, policy: Policy, call: UpstreamCall) -> Any:
        """A value beside the content, cleaned and masked."""
        if key != "_meta" or not isinstance(value, dict) or [*value] != [types.SERVER_INFO_META_KEY]:
            return admit_value(value, policy.result_masker)
        # Servers of the newer protocol say who they are with every result.
        known = self._introductions.get(call.server.name)
        if known is None or known[0] != value or known[1] is not policy.result_masker:
            known = self._introductions[call.server.name] = (
                value,
                policy.result_masker,
                admit_value(value, policy.result_masker),
            )
        return known[2]

    async def _part(
        self, number: int, part: ContentPart, text: Masked | None, policy: Policy, call: UpstreamCall
    ) -> Mapping[str, Any]:
        masker = policy.result_masker
        match part.kind:
            case "text":
                return {
                    **admit_except(part.raw, ("type", "text"), masker),
                    "text": part.text if text is None else text,
                }
            case "resource" if text is not None:
                inner = admit_except(part.raw["resource"], ("text",), masker)
                return {**admit_except(part.raw, ("type", "resource"), masker), "resource": {**inner, "text": text}}
            case "resource":
                inner = admit_except(part.raw["resource"], ("text", "blob"), masker)
                return {**admit_except(part.raw, ("type", "resource"), masker), "resource": inner}
            case "image" if part.mime_type.lower() not in _PICTURES:
                return await self._set_aside(number, part, policy, call)
            case "image" | "audio":
                return admit_except(part.raw, ("type", "data", "mimeType"), masker)
            case _:
                shown: Mapping[str, Any] = admit_value(part.raw, masker)
                return shown

    async def _set_aside(self, number: int, part: ContentPart, policy: Policy, call: UpstreamCall) -> dict[str, Any]:
        """An image that may contain more than pixels: kept, and named instead of shown."""
        kind = "".join(sign for sign in part.mime_type if sign.isalnum() or sign in "/+.-")[:60]
        attachment = Attachment(kind="image", data=part.data, mime_type=kind or "image")
        handle = await (await self.load()).keep(attachment, number, policy, call)
        where = f", kept as {handle}" if handle else ""
        size = len(attachment.content())
        return {"type": "text", "text": f"[A picture of type {kind or 'unknown'}, {size:,} bytes{where}; not shown.]"}

    # Resources and prompts

    async def resource(self, raw: Mapping[str, Any], call: UpstreamCall) -> CallResult:
        """The contents of a resource, for the client.

        Raises:
            MaskingFailed: The result must not be shown.
        """
        policy = self.policies.of(call.server, call.tool)
        shown = admit_except(raw, ("contents",), policy.result_masker)
        done: list[Processed] = []
        contents = raw.get("contents")
        if isinstance(contents, list):
            shown["contents"] = [await self._content(content, policy, call, done) for content in contents]
        return _read(shown, done, [one.get("text") for one in shown.get("contents") or () if isinstance(one, dict)])

    async def _content(self, content: Any, policy: Policy, call: UpstreamCall, done: "list[Processed]") -> Any:
        masker = policy.result_masker
        if not isinstance(content, dict) or not isinstance(content.get("text"), str):
            return (
                admit_except(content, ("blob",), masker) if isinstance(content, dict) else admit_value(content, masker)
            )
        # A page of an app is rendered by the client and has to be complete.
        if str(content.get("uri", "")).startswith("ui://") or "profile=mcp-app" in str(content.get("mimeType", "")):
            text = (await admit_content(Content.of_text(content["text"]), policy)).text
        else:
            text = await self._text(content["text"], policy, call, done)
        return {**admit_except(content, ("text",), masker), "text": text}

    async def prompt(self, raw: Mapping[str, Any], call: UpstreamCall) -> CallResult:
        """A prompt with its messages, for the client.

        Raises:
            MaskingFailed: The result must not be shown.
        """
        policy = self.policies.of(call.server, call.tool)
        shown = admit_except(raw, ("messages",), policy.result_masker)
        done: list[Processed] = []
        messages = raw.get("messages")
        if isinstance(messages, list):
            shown["messages"] = [await self._message(message, policy, call, done) for message in messages]
        parts = [message.get("content") for message in shown.get("messages") or () if isinstance(message, dict)]
        return _read(shown, done, [part.get("text") for part in parts if isinstance(part, dict)])

    async def _message(self, message: Any, policy: Policy, call: UpstreamCall, done: "list[Processed]") -> Any:
        masker = policy.result_masker
        content = message.get("content") if isinstance(message, dict) else None
        if not isinstance(content, dict):
            return admit_value(message, masker)
        rest = admit_except(message, ("content",), masker)
        if content.get("type") == "text" and isinstance(content.get("text"), str):
            text = await self._text(content["text"], policy, call, done)
            return {**rest, "content": {**admit_except(content, ("type", "text"), masker), "text": text}}
        if content.get("type") == "resource" and isinstance(content.get("resource"), dict):
            inner = await self._content(content["resource"], policy, call, done)
            return {**rest, "content": {**admit_except(content, ("type", "resource"), masker), "resource": inner}}
        return {**rest, "content": admit_except(content, ("type", "data", "mimeType"), masker)}

    async def _text(self, text: str, policy: Policy, call: UpstreamCall, done: "list[Processed]") -> Masked:
        admitted = await admit_content(Content.of_text(text), policy)
        processed = await self._processed(admitted, policy, call)
        if processed is None:
            return admitted.text
        done.append(processed)
        return processed.text


_RETURNED_UNCHANGED = ("taskId", "requestState")
"""Values that the client has to send back unchanged."""

_HANDLED_ELSEWHERE = frozenset(("content", "structuredContent", "isError", "resultType", "ttlMs", "cacheScope"))


def _condensed(shown: dict[str, Any], processed: "Processed", call: UpstreamCall) -> CallResult:
    """The result with its text replaced by the condensed one."""
    from tersely.pipeline.meta import prefixed, tally

    parts: list[Any] = []
    is_placed = False
    for part in shown.get("content", ()):
        if processed.replaced == "text" and _is_text(part):
            if not is_placed:
                parts.append({"type": "text", "text": processed.text})
                is_placed = True
        else:
            parts.append(part)
    if not is_placed:
        parts.append({"type": "text", "text": processed.text})
    if processed.structured_handle:
        notice = f"[Structured content of the same result is kept as {processed.structured_handle}.]"
        parts.append({"type": "text", "text": notice})
    result = {key: value for key, value in shown.items() if key != "structuredContent"}
    result["content"] = parts
    if call.has_output_schema:
        # Libraries insist on it, and some show it to the model instead of the text.
        result["structuredContent"] = {"result": processed.text}
    assert processed.condensed is not None
    return CallResult(
        result=_with_meta(result, prefixed(processed.meta)),
        is_error=processed.admitted.is_error,
        statistics=tally(processed.condensed),
    )


def _is_text(part: Any) -> bool:
    """Whether the condensed text replaces this part."""
    if part.get("type") == "text":
        return True
    return part.get("type") == "resource" and bool(part["resource"].get("text"))


def _read(shown: dict[str, Any], done: "Sequence[Processed]", texts: Sequence[Any]) -> CallResult:
    """A resource or a prompt with its statistics; `_meta` describes the last condensed piece."""
    if not done:
        return CallResult(result=shown, text="\n".join(text for text in texts if isinstance(text, str)))
    from tersely.pipeline.meta import prefixed, tally

    return CallResult(result=_with_meta(shown, prefixed(done[-1].meta)), statistics=tally(done[-1].condensed))


def _with_meta(shown: dict[str, Any], meta: Mapping[str, Any]) -> dict[str, Any]:
    own = shown.get("_meta")
    return {**shown, "_meta": {**(own if isinstance(own, dict) else {}), **meta}}
