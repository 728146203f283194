"""Tool calls of an agent, from request to observation, in two durable steps with their events.

`tool_executor` and `results.read_back` do the work; this module checks whether the
call is allowed and its arguments fit, and records timeline events and trace. A refused
call is recorded like one that was made.

The timeline event of a call is stored before the call is sent. If it is already there
when the step begins, an earlier worker ended during the call, and whether the call was
made is unknown. The same holds for a call that the agent made in a step that was rewound,
under whatever name, and makes again without knowing it. Such a call is repeated only if
the tool declares that this does no harm, or the operator allows it (`interrupted_calls`).
"""

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import anyio

from tersely.agent.arguments import fit, read_arguments
from tersely.agent.asking import MaskedStream
from tersely.agent.assignment import Assignment
from tersely.agent.budget import OverBudget
from tersely.agent.recorder import OpenEvent, Recorder
from tersely.agent.skills import LOAD_SKILL
from tersely.agent.tool_executor import Fetched, Observation, Step, ToolExecutor
from tersely.agent.toolbox import OURS, Toolbox
from tersely.agent.trace import CANCELLED, recorded_exchanges
from tersely.condensing.account import Lost
from tersely.condensing.budget import ModelWork
from tersely.condensing.summarize.map_reduce import OnText
from tersely.cpu.run import run_in_thread
from tersely.errors import InputError, LostSession, ToolError
from tersely.llm.client import LLM
from tersely.llm.exchanges import observed
from tersely.llm.messages import ToolCall
from tersely.masking.clean import clean
from tersely.masking.mask import Masker
from tersely.masking.masked import NOTHING, Masked, own_words
from tersely.mcp.raw import Tool
from tersely.mcp.servers import InterruptedCalls
from tersely.pipeline.admit import admit_arguments, admit_text, admit_words
from tersely.pipeline.process import Intent, Scope
from tersely.results.read_back import ReadBack
from tersely.results.read_back_tool import ReadBackTool, read_call
from tersely.store.events import plain
from tersely.store.interactions import Interaction
from tersely.store.retrying import retry_while_unavailable
from tersely.text.tokens import O200K

DISPLAY_TOKENS = 8_000
"""Tokens of a result that timeline and trace show; the whole result is kept."""

DEFAULT_ROOM = 100_000
"""Tokens of the largest text that may enter a conversation without a model, which has no window."""

NOT_AS_WRITTEN = (
    "This call was not made. Its arguments contain something that looks like a secret, so only a masked form of them "
    "was stored, and a restart lost the original. Make the call again."
)
"""A tool receives exactly what the model wrote or is not called: it would search for, store or run a masking mark as if
it were a value. The unmasked arguments are never stored, so after a crash between answer and call the model has to
repeat the call.
"""

SHOWN_ITEMS = 50
"""Unsupported items and citations of a summary that an event lists."""

MAY_HAVE_BEEN_MADE = own_words("This call may have been made before a restart; check before repeating it")
NOT_REPEATED = own_words("This call may have been made before a restart and is not repeated")
NOTICES: Mapping[InterruptedCalls, Masked] = {
    "ask": own_words("This call may have been made before a restart. The agent was told to check."),
    "repeat": own_words("This call may have been made before a restart. It is repeated."),
    "skip": own_words("This call may have been made before a restart. It is not repeated."),
}

SHOWN_LOST = 100
SHOWN_RUNS = 5_000
"""Omissions that an event lists, and line ranges per omission."""


@dataclass(frozen=True, kw_only=True)
class Called:
    """The stored result of a call's first step: small and masked."""

    fetched: Fetched
    duration_ms: int
    remark: str = ""
    """What was wrong with arguments that were accepted anyway."""

    started_at: datetime | None = None
    """When the call was made."""

    whole: Observation | None = None
    """The observation, if nothing has to be condensed; then there is no second step. Decided and stored here, because
    policy and window may have changed when the investigation is replayed.
    """


@dataclass(frozen=True, kw_only=True)
class ToolCallResult:
    """The result of one call, as the conversation receives it."""

    observation: Observation
    arguments: Any
    """Masked."""

    remark: str = ""

    @property
    def name(self) -> str:
        """`server.tool`, or the bare name of a tool that reads kept results."""
        return (
            self.observation.tool
            if self.observation.server in ("", OURS)
            else f"{self.observation.server}.{self.observation.tool}"
        )

    @property
    def text(self) -> Masked:
        text = self.observation.masked
        return text.derive(f"[{self.remark}]\n{text}") if self.remark else text

    @property
    def line(self) -> Masked:
        """One line that replaces the text when the conversation has to shrink."""
        given = json.dumps(self.arguments, ensure_ascii=False)[:300]
        if self.observation.handle is None:
            excerpt = " ".join(self.observation.text.split())[:200]
            return self.text.derive(f"[Earlier: {self.name}({given}) returned: {excerpt}]")
        handle = self.observation.handle
        size = f"{self.observation.tokens_before:,} tokens"
        return self.text.derive(
            f"[Earlier: {self.name}({given}) returned {size}, left out here. To read it: {read_call(handle)}]"
        )


@dataclass(kw_only=True)
class ToolCaller:
    """Makes the calls of one agent."""

    assignment: Assignment
    toolbox: Toolbox
    executor: ToolExecutor
    read_back: ReadBack
    recorder: Recorder
    summarizer: LLM | None = None
    summarizers: Mapping[str, LLM] = field(default_factory=dict)
    """Summarizers by provider, for servers and tools that name their own."""

    display_tokens: int = DISPLAY_TOKENS

    _begun: set[str] = field(default_factory=set)
    """Calls whose event this worker created."""

    def __post_init__(self) -> None:
        self.scope = Scope(self.assignment.scope, self.assignment.key)
        self.masker = Masker(key=self.assignment.key)

    async def call(
        self,
        call: ToolCall,
        *,
        prefix: str,
        step: Step,
        intent: Intent,
        as_written: ToolCall | None,
        room: int = DEFAULT_ROOM,
    ) -> ToolCallResult:
        """Make one call; a failure becomes an observation too.

        Args:
            prefix: Prefix of the step names.
            room: Tokens of the largest text that may enter the conversation.
            as_written: The call before masking, which the tool receives. None if it was lost in a restart; then the
                call is not made unless its result is already stored, and the observation says why.
        """
        try:
            called = await step(f"{prefix}/call", lambda: self._called(call, as_written, f"{prefix}/call", room))
            observation = called.whole
            if observation is None:
                observation = await step(
                    f"{prefix}/condense", lambda: self._condensed(call, called, prefix, intent, room)
                )
        except OverBudget as problem:
            return self._cut_off(call, problem)
        return ToolCallResult(observation=observation, arguments=called.fetched.arguments, remark=called.remark)

    def _cut_off(self, call: ToolCall, problem: OverBudget) -> ToolCallResult:
        server, name = _guessed(call.name)
        observation = Observation(
            call_id=call.id,
            server=server,
            tool=name,
            text=admit_words(f"This call was cut off. {problem}", self.masker),
            status="passthrough",
            tokens_before=0,
            tokens_after=0,
            is_error=True,
        )
        return ToolCallResult(observation=observation, arguments={})

    # The first step

    async def _called(self, call: ToolCall, as_written: ToolCall | None, key: str, room: int) -> Called:
        started, started_at = anyio.current_time(), datetime.now(UTC)
        exact = as_written or call
        arguments = read_arguments(exact.arguments)
        try:
            tool = self.toolbox.find(exact.name)
            complaint = arguments.complaint
        except ToolError as refusal:
            tool, complaint = None, str(refusal)
        if as_written is None:
            complaint = NOT_AS_WRITTEN
        fitted = fit(arguments.values, _schema(tool)) if tool else None
        if fitted and fitted.complaint and not complaint:
            complaint = f"{_dotted(tool)} was not called: {fitted.complaint}"
        values = fitted.values if fitted else arguments.values
        server, name = (
            (tool.server, tool.name) if isinstance(tool, Tool) else (OURS, tool.name) if tool else _guessed(exact.name)
        )
        shown = admit_arguments(values, self.masker)
        remark = self._remark(arguments.remark, fitted.remarks if fitted else ())
        self.recorder.progress("gathering_info", f"Calling {server}.{name}" if server else f"Calling {name}")
        about = {"server_name": server, "tool_name": name, "arguments": shown}
        page: Masked | None = None
        read_from: Mapping[str, str] | None = {} if isinstance(tool, ReadBackTool) else None
        try:
            async with self.recorder.opened(key, "llm_tool_call", metadata=about) as event:
                interrupted = await self._interrupted(event, key, tool, about, would_be_made=not complaint)
                if interrupted:
                    about = {**about, "interrupted": interrupted}
                    await self.recorder.record(key, "notice", NOTICES[interrupted], about)
                if interrupted in ("ask", "skip"):
                    fetched = self._unknown_outcome(server, name, shown, told=interrupted == "ask")
                elif complaint or tool is None:
                    fetched = self._problem(server, name, shown, complaint)
                elif isinstance(tool, ReadBackTool):
                    fetched, page, read_from = await self._read(tool, values, shown, key, room)
                else:
                    sent = replace(exact, name=tool.dotted, arguments=json.dumps(values, ensure_ascii=False))
                    await self.recorder.still_ours()
                    fetched = await self.executor.fetch(
                        sent, self.scope, {"traceparent": _traceparent(self.assignment.session_id, key)}
                    )
                duration = _since(started)
                whole, content = await retry_while_unavailable(lambda: self._shown(call, fetched, page, room))
                marked: dict[str, Any] = {"interrupted": interrupted} if interrupted else {}
                if interrupted in ("ask", "skip") or complaint:
                    marked["made"] = False
                await event.complete(content, {**_outcome(fetched, duration), **marked})
        except anyio.get_cancelled_exc_class():
            problem = self._problem(server, name, shown, CANCELLED)
            cancelled = Called(fetched=problem, duration_ms=_since(started), started_at=started_at)
            await self._despite_cancellation(
                lambda: self._trace(key, cancelled, NOTHING, 0, read_from=read_from, is_known=tool is not None)
            )
            raise
        called = Called(fetched=fetched, duration_ms=duration, remark=remark, started_at=started_at, whole=whole)
        if whole is not None:
            await self._trace(key, called, content, fetched.tokens, read_from=read_from, is_known=tool is not None)
        return called

    async def _interrupted(
        self,
        event: OpenEvent,
        key: str,
        tool: Tool | ReadBackTool | None,
        about: Mapping[str, Any],
        *,
        would_be_made: bool,
    ) -> InterruptedCalls | None:
        """What is done about a call that may have been made without the agent's knowledge; None if it was not."""
        is_in_flight = event.is_repeated and key not in self._begun
        if not is_in_flight:
            self._begun.add(key)
        server = about["server_name"]
        if isinstance(tool, ReadBackTool) or server not in self.toolbox.registry.connections:
            return None
        if tool and tool.is_repeatable:
            return None
        if is_in_flight or (would_be_made and await self._was_made_before_rewind(about)):
            return self.toolbox.registry.server(server).options.interrupted_calls
        return None

    async def _was_made_before_rewind(self, about: Mapping[str, Any]) -> bool:
        """Whether more such calls may have been made in steps that were rewound than the agent was told of since."""

        def identity(metadata: Mapping[str, Any]) -> tuple[Any, ...]:
            # Masked again: another version of Tersely may have masked less.
            arguments = admit_arguments(plain(metadata.get("arguments")), self.masker)
            return metadata.get("server_name"), metadata.get("tool_name"), arguments

        made = told = 0
        for event in await self.recorder.earlier("llm_tool_call"):
            if identity(event.metadata) == identity(about):
                made += event.is_discarded and event.metadata.get("made", True)
                told += not event.is_discarded and "interrupted" in event.metadata
        return made > told

    def _unknown_outcome(self, server: str, tool: str, arguments: Any, *, told: bool) -> Fetched:
        """In place of a result. As an error it may be followed by the same call; if it is not, that is refused."""
        return Fetched(
            server=server,
            tool=tool,
            arguments=arguments,
            handle=None,
            tokens=0,
            is_error=told,
            problem=MAY_HAVE_BEEN_MADE if told else NOT_REPEATED,
        )

    async def _shown(
        self, call: ToolCall, fetched: Fetched, page: Masked | None, room: int
    ) -> tuple[Observation | None, Masked]:
        """The observation, if nothing has to be condensed, and the text for timeline and trace."""
        whole = await self._whole(call, fetched, page, room)
        return whole, page or fetched.problem or await self._display(fetched, whole)

    async def _whole(self, call: ToolCall, fetched: Fetched, page: Masked | None, room: int) -> Observation | None:
        """The observation of a result that needs no condensing: a page of a kept result, a problem, a small result."""
        if page is not None:
            return Observation(
                call_id=call.id,
                server=fetched.server,
                tool=fetched.tool,
                text=page,
                status="passthrough",
                tokens_before=fetched.tokens,
                tokens_after=fetched.tokens,
                handle=fetched.handle,
            )
        if self.executor.budget(fetched, room) is None:
            return await self.executor.observe(call, fetched, scope=self.scope, window=room)
        return None

    def _remark(self, parsing: str, fitting: Sequence[str]) -> str:
        remarks = [parsing] if parsing else []
        if fitting:
            remarks.append(f"In your arguments, {'; '.join(fitting)}.")
        return admit_words(" ".join(remarks), self.masker) if remarks else ""

    def _problem(self, server: str, tool: str, arguments: Any, problem: str) -> Fetched:
        masked = admit_words(problem, self.masker)
        return Fetched(
            server=server, tool=tool, arguments=arguments, handle=None, tokens=0, is_error=True, problem=masked
        )

    async def _read(
        self, tool: ReadBackTool, values: Mapping[str, Any], shown: Any, key: str, room: int
    ) -> tuple[Fetched, Masked | None, Mapping[str, str]]:
        """Read a kept result, or a skill; also return the server and tool that a result came from."""
        if tool is LOAD_SKILL:
            return *self._skill(str(values.get("name", "")), shown, room), {}
        about = {"server": OURS, "tool": tool.name, "arguments": shown}
        try:
            with observed(recorded_exchanges(self.recorder, key, self.masker, request=about, parent_step=key)):
                answer = await self.read_back.call(tool.name, values, self.scope.name)
            origin = (await self.executor.results.find(str(values["handle"]), self.scope.name)).origin
        except InputError as error:
            return self._problem(OURS, tool.name, shown, str(error)), None, {}
        page = answer.text
        if O200K.exceeds(page, room):
            note = "\n[Cut here: the page exceeds the limit. Ask for fewer lines.]"
            page = page.derive(page.head_tokens(max(50, room - 20)) + note)
        tokens = O200K.count(page)
        handle = str(values.get("handle", ""))[:40] or None
        fetched = Fetched(server=OURS, tool=tool.name, arguments=shown, handle=handle, tokens=tokens, is_error=False)
        return fetched, page, {"server": origin.server, "tool": origin.tool}

    def _skill(self, name: str, shown: Any, room: int) -> tuple[Fetched, Masked | None]:
        known = {skill.name: skill for skill in self.assignment.skills}
        if name.strip() not in known:
            problem = f"There is no skill {name[:100]!a}. There are: {', '.join(known)}."
            return self._problem(OURS, LOAD_SKILL.name, shown, problem), None
        page = admit_text(known[name.strip()].body or "This skill is empty.", self.masker)
        if O200K.exceeds(page, room):
            page = page.derive(page.head_tokens(max(50, room - 20)) + "\n[Cut here: the skill exceeds the limit.]")
        tokens = O200K.count(page)
        return Fetched(
            server=OURS, tool=LOAD_SKILL.name, arguments=shown, handle=None, tokens=tokens, is_error=False
        ), page

    async def _display(self, fetched: Fetched, whole: Observation | None = None) -> Masked:
        """The beginning of a result, for timeline and trace."""
        if fetched.handle is None:
            return NOTHING
        results = self.executor.results
        if not self.display_tokens or fetched.tokens <= self.display_tokens:
            if whole is not None and fetched.tokens:
                return whole.masked
            return await results.load(fetched.handle, self.scope.name)
        kept = await results.find(fetched.handle, self.scope.name)
        stretch = await results.read_stretch(kept, 0, min(kept.size, self.display_tokens * 16))
        head = await run_in_thread(stretch.text.head_tokens, self.display_tokens)
        return head.derive(
            f"{head}\n[… the first {self.display_tokens:,} of {fetched.tokens:,} tokens; the whole result is kept as "
            f"{kept.handle}]"
        )

    # The second step

    async def _condensed(self, call: ToolCall, called: Called, prefix: str, intent: Intent, room: int) -> Observation:
        key, call_key = f"{prefix}/condense", f"{prefix}/call"
        fetched = called.fetched
        summarizer = self._summarizer_of(fetched)
        name = f"{fetched.server}.{fetched.tool}"
        self.recorder.progress("distilling", f"Condensing {name} ({fetched.tokens:,} tokens)")
        about = {
            "server_name": fetched.server,
            "tool_name": fetched.tool,
            "original_tokens": fetched.tokens,
            "handle": fetched.handle,
            "summarization_model": summarizer.model if summarizer else "",
            "summarization_provider": summarizer.provider if summarizer else "",
        }
        request = {
            "server": fetched.server,
            "tool": fetched.tool,
            "arguments": fetched.arguments,
            "handle": fetched.handle,
        }
        recorded = recorded_exchanges(self.recorder, key, self.masker, request=request, parent_step=call_key)
        try:
            async with self.recorder.opened(key, "mcp_tool_summary", metadata=about) as event:
                await self.recorder.still_ours()
                with observed(recorded):
                    observation = await self.executor.observe(
                        call,
                        fetched,
                        scope=self.scope,
                        llm=summarizer,
                        intent=intent,
                        window=room,
                        on_progress=lambda progress: self.recorder.progress(
                            "distilling", f"Condensing {name}: {progress.done} of {progress.total}"
                        ),
                        on_text=_stream_to(event, self.masker),
                    )
                await event.complete(observation.masked, _summary_outcome(observation, summarizer))
        except anyio.get_cancelled_exc_class():

            async def trace() -> None:
                await self._trace(call_key, called, await self._display(fetched), fetched.tokens)

            await self._despite_cancellation(trace)
            raise
        await self._trace(
            call_key,
            called,
            await self._display(fetched),
            observation.tokens_after,
            summary=_summary_outcome(observation, summarizer),
        )
        return observation

    def _summarizer_of(self, fetched: Fetched) -> LLM | None:
        """The summarizer that the policy names, else the default; None if the policy allows no model."""
        policy, _ = self.toolbox.registry.server(fetched.server).options.policy(fetched.tool)
        if not policy.enabled or fetched.is_error or policy.use_model is False:
            return None
        return self.summarizers.get(policy.llm_provider or "", self.summarizer)

    async def _despite_cancellation(self, record: Callable[[], Awaitable[None]]) -> None:
        """Record although the work was cancelled; a lost session is left to its new worker, which records it all."""
        with anyio.CancelScope(shield=True), suppress(LostSession):
            await record()

    async def _trace(
        self,
        key: str,
        called: Called,
        content: Masked,
        tokens_after: int,
        *,
        read_from: Mapping[str, str] | None = None,
        is_known: bool = True,
        summary: Mapping[str, Any] | None = None,
    ) -> None:
        """Record the call in the trace.

        Args:
            read_from: For a tool that reads kept results: server and tool of that result, or empty if there was none.
                Then no server was called and nothing was condensed.
            is_known: Whether there is such a tool. The model may have made up its name.
            summary: How the result was condensed.
        """
        fetched = called.fetched
        request = {"server": fetched.server, "tool": fetched.tool, "arguments": fetched.arguments}
        if read_from is not None:
            request["read_back"] = read_from
        if not is_known:
            request["unknown"] = True
        await self.recorder.interaction(
            key,
            Interaction(
                type="mcp",
                request=request,
                response={
                    "content": content,
                    "handle": fetched.handle,
                    "tokens": fetched.tokens,
                    "tokens_after": tokens_after,
                    "is_error": fetched.is_error,
                    **({"summary": summary} if summary else {}),
                },
                duration_ms=called.duration_ms,
                error=fetched.problem or "",
                tokens_before=fetched.tokens if read_from is None else 0,
                tokens_after=tokens_after if read_from is None else 0,
                started_at=called.started_at,
            ),
        )


def _traceparent(session_id: str, key: str) -> str:
    """The W3C trace context of a call: the trace id is the session's id, the span id identifies the call."""
    trace = session_id.replace("-", "").lower()
    if not re.fullmatch("[0-9a-f]{32}", trace):
        trace = hashlib.sha256(session_id.encode()).hexdigest()[:32]
    span = hashlib.sha256(f"{session_id}/{key}".encode()).hexdigest()[:16]
    return f"00-{trace}-{span}-01"


def _since(started: float) -> int:
    return round((anyio.current_time() - started) * 1000)


def _schema(tool: Tool | ReadBackTool) -> Mapping[str, Any]:
    return tool.input_schema if isinstance(tool, Tool) else tool.schema


def _dotted(tool: Tool | ReadBackTool | None) -> str:
    return "" if tool is None else tool.dotted if isinstance(tool, Tool) else tool.name


def _guessed(name: str) -> tuple[str, str]:
    """Server and tool of an unknown name, for the timeline."""
    server, _, tool = clean(name[:200]).text.replace("__", ".", 1).partition(".")
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
    used_fallback = bool(llm and work and work.model != llm.model)
    return {
        "summary_tokens": observation.tokens_after,
        "status": observation.status,
        "returned": observation.returned,
        "summarization_model": work.model if work else llm.model if llm else "",
        "summarization_provider": (work.provider if work else "") or (llm.provider if llm else ""),
        "summarization_fallback": used_fallback or observation.status == "fallback",
        "handle": observation.handle,
        **({"reason": observation.reason} if observation.reason else {}),
        **({"cache_hits": work.cache_hits, "answers": work.calls, "chunks": work.chunks} if work else {}),
        **_checks(work, observation.handle),
        **({"lost": _left_out(observation.lost)} if observation.lost else {}),
        **({"marks": observation.marks} if observation.marks else {}),
    }


def _checks(work: ModelWork | None, handle: str | None) -> dict[str, Any]:
    """The result of checking a summary against its source, for the event and the trace."""
    if work is None:
        return {}
    found = {
        "checked": work.checked,
        "invented": work.invented[:SHOWN_ITEMS],
        "derived": work.derived[:SHOWN_ITEMS],
        "unverified": work.unverified,
        "cut": work.cut,
        "folded_tokens": work.folded_tokens,
        "cited": [{"handle": handle, "lines": lines} for lines in work.cited[:SHOWN_ITEMS]],
    }
    return {name: value for name, value in found.items() if value}


def _left_out(lost: Sequence[Lost]) -> list[dict[str, Any]]:
    """The omissions with their line ranges, so that a reader can jump there and sees which lines are missing."""
    return [
        {
            "what": one.what,
            "lines": [list(run) for run in one.lines[:SHOWN_RUNS]],
            **({"partial": True} if one.partial else {}),
            **({"runs": len(one.lines)} if len(one.lines) > SHOWN_RUNS else {}),
        }
        for one in lost[:SHOWN_LOST]
    ]


def _stream_to(event: OpenEvent, masker: Masker) -> OnText:
    # The input was masked, but a model may write anything: its output is masked again.
    stream = MaskedStream(event, masker)

    def on_text(text: str | None) -> None:
        if text is None:
            stream.restart()
        else:
            stream.add(text)

    return on_text
