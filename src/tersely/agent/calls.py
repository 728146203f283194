"""From a call that was asked for to what the conversation gets of it, in two steps, told as it happens.

The work itself is `tools.execute` and `tools.read_back`; here is what an agent adds:
whether the call may be made at all, whether its arguments fit, and what people see
of it. A call that is refused is told like one that was made.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import anyio.to_thread

from tersely.agent.arguments import fit, read_arguments
from tersely.agent.asking import MaskedStream
from tersely.agent.assignment import Assignment
from tersely.agent.diary import Diary, OpenEvent
from tersely.agent.toolbox import OURS, Toolbox
from tersely.condensing.budget import Lost, ModelWork
from tersely.errors import InputError, MaskingFailed, ToolError
from tersely.llm.client import LLM
from tersely.llm.messages import ToolCall, Usage
from tersely.store.interactions import Interaction
from tersely.text.masked import Masked, assume_masked
from tersely.text.tokens import O200K
from tersely.tools.execute import Fetched, Intent, Scope, Step, ToolExecutor
from tersely.tools.mask import Masker
from tersely.tools.observation import Observation
from tersely.tools.raw import Tool
from tersely.tools.read_back import ReadBack, ReadBackTool

DISPLAY_TOKENS = 8_000
"""What timeline and trace show of a result; the whole is kept."""

SHOWN_LOST = 100
SHOWN_RUNS = 50
"""What an event tells of the things that were left out, and of the places of each."""


@dataclass(frozen=True, kw_only=True)
class Called:
    """What the first step of a call leaves: small and masked."""

    fetched: Fetched
    duration_ms: int
    remark: str = ""
    """What was wrong with the arguments although they could be read."""

    page: Masked | None = None
    """The answer of a tool that reads kept results; it is a page already, and not condensed again."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One call as the conversation gets it."""

    observation: Observation
    arguments: Any
    """Masked."""

    remark: str = ""

    @property
    def name(self) -> str:
        """`server.tool`; the tools that read kept results have no server."""
        return self.observation.tool if self.observation.server in ("", OURS) else f"{self.observation.server}.{self.observation.tool}"

    @property
    def text(self) -> Masked:
        text = self.observation.text
        # The executor's text is masked, and the remark quotes arguments that are.
        return assume_masked(f"[{self.remark}]\n{text}" if self.remark else text)

    @property
    def line(self) -> Masked:
        """What can stand for the whole once it is old."""
        given = json.dumps(self.arguments, ensure_ascii=False)[:300]
        if self.observation.handle is None:
            said = " ".join(self.observation.text.split())[:200]
            return assume_masked(f"[Earlier: {self.name}({given}) answered: {said}]")  # masked parts
        handle = self.observation.handle
        size = f"{self.observation.tokens_before:,} tokens"
        return assume_masked(
            f"[Earlier: {self.name}({given}) returned {size}, left out here; kept as {handle}: "
            f'read_result("{handle}") or search_result("{handle}", pattern) show it.]'
        )


@dataclass(kw_only=True)
class Caller:
    """Makes the calls of one agent."""

    assignment: Assignment
    toolbox: Toolbox
    executor: ToolExecutor
    read_back: ReadBack
    diary: Diary
    summarizer: LLM | None = None
    summarizers: Mapping[str, LLM] = field(default_factory=dict)
    """By server, where one has its own."""

    window: int = 100_000
    """Tokens of the largest text that may enter the conversation."""

    display_tokens: int = DISPLAY_TOKENS

    def __post_init__(self) -> None:
        self.scope = Scope(self.assignment.scope, self.assignment.key)
        self.masker = Masker(key=self.assignment.key)

    async def call(self, call: ToolCall, *, prefix: str, step: Step, intent: Intent, as_written: ToolCall | None = None) -> Seen:
        """Make one call. Whatever goes wrong with it is an observation too.

        Args:
            prefix: Of the steps' names.
            as_written: The call before it was masked; what the tool is sent.
        """
        called = await step(f"{prefix}/call", lambda: self._called(as_written or call, f"{prefix}/call"))
        observation = await step(f"{prefix}/condense", lambda: self._observed(call, called, f"{prefix}/condense", intent))
        return Seen(observation=observation, arguments=called.fetched.arguments, remark=called.remark)

    # The first step

    async def _called(self, call: ToolCall, key: str) -> Called:
        started = anyio.current_time()
        arguments = read_arguments(call.arguments)
        try:
            tool = self.toolbox.find(call.name)
            complaint = arguments.complaint and f"{arguments.complaint}"
        except ToolError as refusal:
            tool, complaint = None, str(refusal)
        fitted = fit(arguments.values, _schema(tool)) if tool else None
        if fitted and fitted.complaint and not complaint:
            complaint = f"{_dotted(tool)} was not called: {fitted.complaint}"
        values = fitted.values if fitted else arguments.values
        server, name = (tool.server, tool.name) if isinstance(tool, Tool) else (OURS, tool.name) if tool else _guessed(call.name)
        shown = self.masker.mask_json(values)
        remark = self._remark(arguments.remark, fitted.remarks if fitted else ())
        self.diary.progress("gathering_info", f"Calling {server}.{name}" if server else f"Calling {name}")
        about = {"server_name": server, "tool_name": name, "arguments": shown}
        async with self.diary.opened(key, "llm_tool_call", metadata=about) as event:
            page: Masked | None = None
            if complaint or tool is None:
                fetched = self._problem(server, name, shown, complaint)
            elif isinstance(tool, ReadBackTool):
                fetched, page = await self._read(tool, values, shown, f"{key}/summary")
            else:
                exact = replace(call, name=tool.dotted, arguments=json.dumps(values, ensure_ascii=False))
                fetched = await self.executor.fetch(exact, self.scope, {"traceparent": _traceparent(self.assignment.session_id, key)})
            duration = round((anyio.current_time() - started) * 1000)
            content = page or fetched.problem or await self._display(fetched)
            await event.complete(content, _outcome(fetched, duration))
        called = Called(fetched=fetched, duration_ms=duration, remark=remark, page=page)
        if page is not None or self.executor.budget(fetched, self.window) is None:
            await self._trace(key, called, content, fetched.tokens)
        return called

    def _remark(self, *said: Any) -> str:
        first, others = said
        remarks = [first] if first else []
        if others:
            remarks.append(f"Of your arguments {'; '.join(others)}.")
        return self.masker.mask(" ".join(remarks)) if remarks else ""

    def _problem(self, server: str, tool: str, arguments: Any, problem: str) -> Fetched:
        said = self.masker.mask(problem)
        return Fetched(server=server, tool=tool, arguments=arguments, handle=None, tokens=0, is_error=True, problem=said)

    async def _read(self, tool: ReadBackTool, values: Mapping[str, Any], shown: Any, key: str) -> tuple[Fetched, Masked | None]:
        try:
            answer = await self.read_back.call(tool.name, values, self.scope.name)
        except InputError as wrong:
            return self._problem(OURS, tool.name, shown, str(wrong)), None
        if answer.work:
            about = {"tool": tool.name, "arguments": shown}
            await self.diary.interaction(key, _summarization(answer.work, about, answer.text))
        page = answer.text
        if O200K.exceeds(page, self.window):
            note = "\n[Cut here: it is more than fits. Ask for fewer lines.]"
            page = assume_masked(O200K.head(page, max(50, self.window - 20)) + note)  # a part of a masked page
        tokens = O200K.count(page)
        handle = str(values.get("handle", ""))[:40] or None
        return Fetched(server=OURS, tool=tool.name, arguments=shown, handle=handle, tokens=tokens, is_error=False), page

    async def _display(self, fetched: Fetched) -> Masked:
        """The beginning of a result, as timeline and trace show it."""
        if fetched.handle is None:
            return assume_masked("")
        results = self.executor.results
        kept = await results.find(fetched.handle, self.scope.name)
        if not self.display_tokens or fetched.tokens <= self.display_tokens:
            return await results.load(fetched.handle, self.scope.name)
        stretch = await results.read_stretch(kept, 0, min(kept.size, self.display_tokens * 16))
        head = await anyio.to_thread.run_sync(O200K.head, stretch.text, self.display_tokens)
        # A part of a masked text, with our own words after it.
        return assume_masked(
            f"{head}\n[… the first {self.display_tokens:,} of {fetched.tokens:,} tokens; the whole is kept as {kept.handle}]"
        )

    # The second step

    async def _observed(self, call: ToolCall, called: Called, key: str, intent: Intent) -> Observation:
        fetched = called.fetched
        if called.page is not None:
            return Observation(
                call_id=call.id,
                server=fetched.server,
                tool=fetched.tool,
                text=called.page,
                status="passthrough",
                tokens_before=fetched.tokens,
                tokens_after=fetched.tokens,
                handle=fetched.handle,
            )
        llm = self.summarizers.get(fetched.server, self.summarizer)
        if self.executor.budget(fetched, self.window) is None:
            return await self.executor.observe(call, fetched, scope=self.scope, intent=intent, window=self.window)
        name = f"{fetched.server}.{fetched.tool}"
        self.diary.progress("distilling", f"Condensing {name} ({fetched.tokens:,} tokens)")
        about = {
            "server_name": fetched.server,
            "tool_name": fetched.tool,
            "original_tokens": fetched.tokens,
            "handle": fetched.handle,
            "summarization_model": llm.model if llm else "",
            "summarization_provider": llm.provider if llm else "",
        }
        started = anyio.current_time()
        async with self.diary.opened(key, "mcp_tool_summary", metadata=about) as event:
            observation = await self.executor.observe(
                call,
                fetched,
                scope=self.scope,
                llm=llm,
                intent=intent,
                window=self.window,
                on_progress=lambda progress: self.diary.progress("distilling", f"Condensing {name}: {progress.done} of {progress.total}"),
                on_text=_into(event, self.masker),
            )
            observation = self._safe(observation)
            # Made from masked text, or masked again after a model wrote it.
            await event.complete(assume_masked(observation.text), _summary_outcome(observation, llm))
        duration = round((anyio.current_time() - started) * 1000)
        if observation.work or (llm and observation.status == "fallback"):
            request = {"server": fetched.server, "tool": fetched.tool, "arguments": fetched.arguments, "handle": fetched.handle}
            record = _summarization(observation.work, request, observation.text, llm=llm, reason=observation.reason)
            await self.diary.interaction(key, replace(record, duration_ms=duration))
        await self._trace(f"{key}/mcp", called, await self._display(fetched), observation.tokens_after)
        return observation

    def _safe(self, observation: Observation) -> Observation:
        """What a model wrote, and what a provider said, masked like everything else."""
        reason = self.masker.mask(observation.reason) if observation.reason else ""
        if observation.work is None or observation.status not in ("summarized", "partial"):
            return replace(observation, reason=reason)
        try:
            text = self.masker.mask(observation.text)
            # By itself a password looks like any word: what the masked text does not show, nobody is shown.
            work = replace(observation.work, invented=[one for one in observation.work.invented if one in text])
            return replace(observation, text=text, reason=reason, work=work)
        except MaskingFailed:
            gone = f"[The summary could not be checked for secrets and was dropped. The whole is kept as {observation.handle}.]"
            return replace(observation, text=gone, status="fallback", reason="the summary could not be masked")

    async def _trace(self, key: str, called: Called, content: Masked, tokens_after: int) -> None:
        fetched = called.fetched
        await self.diary.interaction(
            key,
            Interaction(
                type="mcp",
                request={"server": fetched.server, "tool": fetched.tool, "arguments": fetched.arguments},
                response={"content": content, "handle": fetched.handle, "tokens": fetched.tokens, "is_error": fetched.is_error},
                duration_ms=called.duration_ms,
                error=fetched.problem or "",
                tokens_before=0 if called.page is not None else fetched.tokens,
                tokens_after=0 if called.page is not None else tokens_after,
            ),
        )


def _traceparent(session_id: str, key: str) -> str:
    """What a server may log to find the session again, in W3C's form: the trace is the session's id, the span this call."""
    trace = session_id.replace("-", "").lower()
    if not re.fullmatch("[0-9a-f]{32}", trace):
        trace = hashlib.sha256(session_id.encode()).hexdigest()[:32]
    span = hashlib.sha256(f"{session_id}/{key}".encode()).hexdigest()[:16]
    return f"00-{trace}-{span}-01"


def _schema(tool: Tool | ReadBackTool) -> Mapping[str, Any]:
    return tool.input_schema if isinstance(tool, Tool) else tool.schema


def _dotted(tool: Tool | ReadBackTool | None) -> str:
    return "" if tool is None else tool.dotted if isinstance(tool, Tool) else tool.name


def _guessed(name: str) -> tuple[str, str]:
    """Server and tool of a name nobody knows, for the timeline."""
    server, _, tool = name[:200].replace("__", ".", 1).partition(".")
    return (server, tool) if tool else ("", server)


def _outcome(fetched: Fetched, duration_ms: int) -> dict[str, Any]:
    return {
        "is_error": fetched.is_error,
        "duration_ms": duration_ms,
        "original_tokens": fetched.tokens,
        "handle": fetched.handle,
        **({"cleaned": fetched.cleaned} if fetched.cleaned else {}),
    }


def _summary_outcome(observation: Observation, llm: LLM | None) -> dict[str, Any]:
    work = observation.work
    stepped_in = bool(llm and work and work.model != llm.model)
    return {
        "summary_tokens": observation.tokens_after,
        "status": observation.status,
        "returned": observation.returned,
        "summarization_model": work.model if work else llm.model if llm else "",
        "summarization_provider": (work.provider if work else "") or (llm.provider if llm else ""),
        "summarization_fallback": stepped_in or observation.status == "fallback",
        "handle": observation.handle,
        **({"reason": observation.reason} if observation.reason else {}),
        **({"cache_hits": work.cache_hits, "chunks": work.chunks} if work else {}),
        **({"lost": _left_out(observation.lost)} if observation.lost else {}),
    }


def _left_out(lost: Sequence[Lost]) -> list[dict[str, Any]]:
    """What was left out and where it stands, so that a reader can jump there; enough of it, not all."""
    return [{"what": one.what, "lines": [list(run) for run in one.lines[:SHOWN_RUNS]]} for one in lost[:SHOWN_LOST]]


def _summarization(
    work: ModelWork | None, request: Mapping[str, Any], text: str, *, llm: LLM | None = None, reason: str = ""
) -> Interaction:
    return Interaction(
        type="summarization",
        provider=(work.provider if work else "") or (llm.provider if llm else ""),
        model=work.model if work else llm.model if llm else "",
        request=request,
        response={"text": text, **({"chunks": work.chunks, "levels": work.levels, "cache_hits": work.cache_hits} if work else {})},
        usage=Usage(work.calls - work.cache_hits, work.input_tokens, work.output_tokens, work.price_usd) if work else Usage(),
        error=reason,
    )


def _into(event: OpenEvent, masker: Masker) -> Any:
    stream = MaskedStream(event, masker)

    def hear(text: str | None) -> None:
        # A model's words about masked text, but a model's words all the same.
        if text is None:
            stream.restart()
        else:
            stream.add(text)

    return hear
