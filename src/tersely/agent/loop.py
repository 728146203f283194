"""The agent loop: call the model, make its tool calls, return the results, until it answers or reaches a limit.

One loop for both ways of calling tools (`controller`). Everything that costs or has
effects runs in an injected step; between steps nothing depends on clocks, randomness
or the state of servers, so that a killed investigation is replayed up to where it was
without repeating a call.

Knows nothing of sessions, stores or viewers. Without a model, `survey` does the work.
"""

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal

from tersely.agent import brief
from tersely.agent.arguments import read_arguments
from tersely.agent.asking import LEAST_ANSWER, ModelCaller, ModelCallKind, Turn
from tersely.agent.assignment import Assignment, Report
from tersely.agent.budget import Hold, OverBudget, within_budget
from tersely.agent.calls import DISPLAY_TOKENS, ToolCaller, ToolCallResult
from tersely.agent.controller import Controller, Decision
from tersely.agent.conversation import Conversation, Reply, flattened
from tersely.agent.function_calling import FunctionCalling
from tersely.agent.ordered_gather import ordered_gather
from tersely.agent.react import ReAct, quoted
from tersely.agent.recorder import Recorder
from tersely.agent.stated_verdict import StatedVerdict, from_analysis, read_stated, verified
from tersely.agent.sub_agents import ASK_AGENT, SubAgents
from tersely.agent.subject import subject_of
from tersely.agent.survey import survey
from tersely.agent.synthesis import AgentResult, cited_results, described
from tersely.agent.tool_executor import Observation, Step, ToolExecutor
from tersely.agent.toolbox import OURS, Toolbox
from tersely.agent.verdict import Verdict, record_verdict
from tersely.condensing.prompt_files import Prompt
from tersely.cpu.run import run_in_thread
from tersely.errors import InputError, LLMTooLong, ResultExpired, ResultNotFound
from tersely.llm.client import LLM, answer_tokens
from tersely.llm.messages import Message, ToolCall, ToolSpec
from tersely.masking.mask import MARK, Masker
from tersely.masking.masked import NOTHING, Masked, own_words
from tersely.mcp.registry import ToolRegistry
from tersely.pipeline.admit import admit_words
from tersely.pipeline.core import shorten
from tersely.pipeline.process import Intent
from tersely.results.read_back import ReadBack
from tersely.results.read_back_tool import read_call
from tersely.text.tokens import O200K

__all__ = ["Assignment", "Report", "investigate"]

CONCLUDE = Prompt("conclude", "tersely.agent")
VERDICT = Prompt("verdict", "tersely.agent")
ANSWER_WITH_JSON = "Answer with the JSON object alone; do not call a tool."

MOST_TRIES = 3
"""Attempts to send a conversation that the provider rejects as too long, shorter each time."""

RESULT_OVERHEAD = 100
"""Tokens beside a result in its message: name, remark, markup."""

_SAMPLE = "2026-11-15T08:02:00Z ERROR api-0 lost its database db-7: connection refused\n" * 20
"""A text in which a model's tokenizer is compared with ours."""

MOST_AT_ONCE = 12
"""Calls made per answer; for the others, the model is asked to repeat the call."""

MOST_RUNS = 2
"""Times the same call is made with the same arguments; systems change, but not that often."""

MOST_FAILED_RUNS = 3
"""Times the same call is made while it fails."""

MOST_REPETITIONS = 3
"""Rounds with refused repetitions after which the model has to conclude."""

NO_TOOLS_LEFT = own_words("No tool was called: none can be called any more. Write your analysis now, as plain text.")

NO_VERDICT = own_words(
    "The model stated no verdict that can be read; cause and summary are the beginning of its analysis."
)

ENDING_TOKENS = 2_000
"""Tokens beside the beginning of the conversation that are reserved for a conclusion, and for a verdict."""

LEAST_CONCLUSION_TOKENS = 1_000
"""Tokens beside the beginning without which there is no conclusion: the question for it and a short answer."""

MOST_FINDINGS = 20
LONGEST_FINDING = 500
"""Notes and results that replace a missing conclusion, and characters of each."""

MOST_USELESS = 3
"""Consecutive unusable answers after which the model has to conclude."""


async def investigate(
    assignment: Assignment,
    *,
    llm: LLM | None,
    summarizer: LLM | None,
    executor: ToolExecutor,
    read_back: ReadBack,
    recorder: Recorder,
    step: Step,
    summarizers: Mapping[str, LLM] | None = None,
    display_tokens: int = DISPLAY_TOKENS,
    sub_agents: SubAgents | None = None,
) -> Report:
    """Work on an assignment to its end.

    Args:
        llm: The model that investigates; without one, `survey` calls the tools.
        summarizer: Condenses large results; without one they are condensed structurally.
        step: Runs everything that costs or has effects, or returns the stored result of an earlier run.
        summarizers: Summarizers by provider, for servers and tools that name their own.
        display_tokens: Tokens of a result that timeline and trace show; 0 shows all of it.
        sub_agents: Agents to which it may hand tasks.
    """
    registry = executor.registry
    assert isinstance(registry, ToolRegistry), "an agent needs a registry that lists tools"
    caller = ToolCaller(
        assignment=assignment,
        toolbox=Toolbox(registry, assignment, asks_agents=sub_agents is not None),
        executor=executor,
        read_back=read_back,
        recorder=recorder,
        summarizer=summarizer,
        summarizers=summarizers or {},
        display_tokens=display_tokens,
    )
    if llm is None:
        return await survey(caller, step=step)
    controller: Controller = ReAct() if assignment.agent.controller == "react" else FunctionCalling()
    return await _Investigation(
        assignment,
        llm,
        caller,
        controller,
        recorder,
        step=within_budget(step, assignment.budget),
        last_step=within_budget(step, assignment.budget, share=1.0),
        whole_step=step,
        sub_agents=sub_agents,
    ).run()


@dataclass
class _Investigation:
    assignment: Assignment
    llm: LLM
    caller: ToolCaller
    controller: Controller
    recorder: Recorder
    step: Step
    last_step: Step
    """For the conclusion and the verdict, for which a part of the time is reserved."""

    whole_step: Step
    """For work of our own that is never cut off."""

    sub_agents: SubAgents | None = None
    handed_out: int = 0
    """Tasks that other agents got."""

    cited: dict[str, str] = field(default_factory=dict)
    """Handle and source of the results that other agents quoted."""

    repetitions: int = 0
    useless: int = 0
    most: float = math.inf
    """Limit of the conversation in tokens; lowered when the provider rejects a conversation as too long."""

    ran: dict[str, list[Observation]] = field(default_factory=dict)
    last_keys: tuple[str, ...] = ()
    offered: Sequence[ToolSpec] | None = None
    """The tools as declared in the first turn; declared the same in every turn, so that prompts can be cached."""

    is_cut_off: bool = False
    """A budget is used up: tools are no longer declared, because their descriptions cost tokens."""

    for_the_end: Hold = field(default_factory=Hold)
    """Tokens of the budget that are reserved for the conclusion and the verdict: at most half of it."""

    for_verdict: int = 0
    """How many of them are for the verdict."""

    async def run(self) -> Report:
        assignment, budget = self.assignment, self.assignment.budget
        masker = Masker(key=assignment.key)
        self.model_caller = ModelCaller(
            llm=self.llm,
            recorder=self.recorder,
            masker=masker,
            budget=budget,
            answers=assignment.answers,
            remark=assignment.remark,
        )
        self.conversation = await run_in_thread(self._begun)
        if budget is None:
            return await self._judged()
        beginning = self.conversation.tokens(self.conversation.beginning)
        least, conclusion = beginning + LEAST_CONCLUSION_TOKENS, beginning + ENDING_TOKENS
        verdict = conclusion + LEAST_ANSWER["final_analysis"] if assignment.asks_for_verdict else 0
        with budget.holding(conclusion + verdict) as self.for_the_end:
            # The conclusion comes first: without tokens for a verdict, it is read from the conclusion.
            self.for_verdict = max(0, min(verdict, self.for_the_end.tokens - least))
            return await self._judged()

    async def _judged(self) -> Report:
        report = await self._analysed()
        if self.assignment.asks_for_verdict and report.status == "completed":
            return replace(report, verdict=await self._verdict(report.analysis))
        return report

    async def _analysed(self) -> Report:
        assignment = self.assignment
        for iteration in range(1, assignment.max_iterations + 1):
            try:
                turn = await self._turn(iteration)
            except OverBudget as problem:
                return await self._cut_off(str(problem))
            if turn.problem:
                return Report(analysis=NOTHING, status="failed", reason=turn.problem)
            decision = self._decision(turn)
            if decision.answer:
                # Part of the masked answer.
                answer = self.model_caller.remarked(turn.text.derive(decision.answer))
                return Report(analysis=answer, status="completed")
            if decision.complaint:
                self._complain(turn, decision.complaint)
                if self.useless >= MOST_USELESS:
                    return await self._conclude(f"{self.useless} of your answers in a row could not be used.")
                continue
            self.useless = 0
            await self._work(turn, decision, iteration)
            if self.repetitions >= MOST_REPETITIONS:
                return await self._conclude("You keep repeating calls that you made before; they return the same.")
        return await self._conclude(f"You have used all of your {assignment.max_iterations} iterations.")

    def _begun(self) -> Conversation:
        self.about = subject_of(self.assignment.alert).about[:1_000]
        return Conversation(self._beginning(self.llm.window), self.llm.tokenizer)

    def _beginning(self, window: int) -> list[Message]:
        is_react = isinstance(self.controller, ReAct)
        return brief.beginning(
            self.assignment,
            self.caller.toolbox.registry,
            rules=self.controller.rules(self.caller.toolbox),
            window=window,
            quote=quoted if is_react else str,
            agents=self.sub_agents.section() if self.sub_agents else "",
        )

    # Asking

    async def _turn(self, iteration: int) -> Turn:
        """Get one answer; a conversation that the provider rejects as too long is shortened and sent again."""
        turn = Turn()
        for attempt in range(MOST_TRIES):
            name = f"{self.assignment.prefix}/{iteration}/model" + (f"/{attempt + 1}" if attempt else "")
            specs = self._specs()
            try:
                messages = await run_in_thread(self._fitting, self._room(specs))
            except LLMTooLong as problem:
                return turn if turn.too_long else Turn(problem=str(problem))

            async def asked(
                name: str = name, specs: Sequence[ToolSpec] = specs, messages: Sequence[Message] = messages
            ) -> Turn:
                if (budget := self.assignment.budget) and (used_up := budget.used_up()):
                    raise OverBudget(used_up)
                self.recorder.progress("investigating", f"Step {iteration}")
                return await self.model_caller.call(
                    messages,
                    tokens=self.conversation.tokens(messages) + self._tokens_of(specs),
                    key=name,
                    tools=specs,
                    native=self.assignment.native_tools,
                    stop=self.controller.stop,
                    final=lambda answer: self._decision(answer).answer,
                    tell_unsupported=iteration == 1,
                )

            turn = await self.step(name, asked)
            if not turn.too_long:
                return turn
            # Relative to what was sent, not to the window, so that the next attempt is shorter in any case.
            self.most = self.conversation.tokens(messages) * 0.7
            self.conversation.beginning = await run_in_thread(self._beginning, int(self.most))
        return turn

    def _fitting(self, room: int) -> list[Message]:
        return self.conversation.within(room, step=self.llm.window // 4)

    def _decision(self, turn: Turn) -> Decision:
        decision = self.controller.read(turn)
        if decision.answer and turn.finish == "length" and not self.useless:
            return Decision(
                complaint=(
                    "Your analysis was cut off because it is too long for one answer. Write it again, in fewer words."
                )
            )
        return decision

    def _room(self, specs: Sequence[ToolSpec]) -> int:
        """Tokens left for the conversation beside tool descriptions and answer."""
        tools = self._tokens_of(specs)
        return int(min((self.llm.window - answer_tokens(self.llm) - tools) * 0.97, self.most))

    def _tokens_of(self, specs: Sequence[ToolSpec]) -> int:
        return sum(
            self.llm.tokenizer.count(f"{spec.name}{spec.description}{json.dumps(spec.schema)}") + 12 for spec in specs
        )

    def _fitting_budget(
        self, messages: list[Message], extra: Sequence[Message], specs: Sequence[ToolSpec], leave: int, least: int
    ) -> list[Message]:
        """The conversation and the last messages, shortened to what the budget leaves beside the least answer.

        Only in steps, because on replay a budget is not as it was.
        """

        def sent(conversation: list[Message]) -> list[Message]:
            # Without tools, a provider refuses a conversation that contains calls.
            return [*(conversation if specs else flattened(conversation)), *extra]

        if (budget := self.assignment.budget) is None:
            return sent(messages)
        held = max(0, self.for_the_end.tokens - leave)
        left = max(0.0, budget.left()) + held - least - self._tokens_of(specs)
        for _ in range(3):
            over = self.conversation.tokens(sent(messages)) - left
            if over <= 0:
                return sent(messages)
            try:
                messages = self.conversation.within(int(self.conversation.tokens(messages) - over))
            except LLMTooLong:
                break
        return sent(self.conversation.beginning)

    def _result_room(self, turn: Turn, calls: int) -> int:
        """Tokens that the result of each of an answer's calls may take.

        They share what the window leaves. A result may always take a quarter of the window: old ones give way for it.
        A budget leaves room for two more requests that read them.
        """
        specs = self._specs()
        said = [*self.conversation.messages(), self.controller.answer_message(turn)]
        left = self._room(specs) - self.conversation.tokens(said)
        # Results are counted in o200k_base tokens, of which the model's own count differs.
        share = int(left / max(1, calls) / (1.02 * self.llm.tokenizer.count(_SAMPLE) / O200K.count(_SAMPLE)))
        share -= RESULT_OVERHEAD
        budget = self.assignment.budget
        affordable = (budget.left() / 2 - self.conversation.tokens(said)) / max(1, calls) if budget else math.inf
        return int(max(400, min(max(self.llm.window // 4, share), affordable)))

    def _specs(self) -> Sequence[ToolSpec]:
        """The tools of the first turn, with descriptions cut so that at least half of the window stays free."""
        if self.offered is not None:
            return self.offered
        specs = self.controller.specs(self.caller.toolbox)
        for most in (2_000, 300, 80):
            if self._room(specs) >= self.llm.window // 2:
                break
            specs = [replace(spec, description=spec.description[:most]) for spec in specs]
        self.offered = specs
        return specs

    def _complain(self, turn: Turn, complaint: str) -> None:
        self.useless += 1
        answer = self.controller.answer_message(turn)
        if not answer.text.strip() and not answer.tool_calls:
            answer = replace(answer, text=own_words("[an empty answer]"))
        self.conversation.add(answer, [Reply(Message("user", turn.text.derive(complaint)))])

    # Calling

    async def _work(self, turn: Turn, decision: Decision, iteration: int) -> None:
        prefix = f"{self.assignment.prefix}/{iteration}"
        written = self._as_written(turn, decision, iteration)
        intent = Intent(
            looking_for=turn.text[-1000:].strip(),
            question=f"{self.assignment.task[:300]} {self.about}".strip(),
            conversation=self.conversation.messages(),
        )
        keys = [_key(call) for call in decision.calls]
        refusals = self._refusals(keys)
        room = self._result_room(turn, refusals.count(None))

        async def make(number: int, call: ToolCall, original: ToolCall | None, in_turn: Step) -> ToolCallResult:
            if refusal := refusals[number]:
                return await self._refused(call, refusal, f"{prefix}/{number + 1}/call", in_turn)
            if self.sub_agents and self._is_handing_out(call):
                return await self._hand_out(self.sub_agents, call, f"{prefix}/{number + 1}/call", in_turn, room)
            return await self.caller.call(
                call, prefix=f"{prefix}/{number + 1}", step=in_turn, intent=intent, as_written=original, room=room
            )

        pairs = list(zip(decision.calls, written, strict=True))
        works = [
            lambda in_turn, number=number, call=call, original=original: make(number, call, original, in_turn)
            for number, (call, original) in enumerate(pairs)
        ]
        results = await ordered_gather(self.step, works)
        for key, refusal, result in zip(keys, refusals, results, strict=True):
            if refusal is None:
                self.ran.setdefault(key, []).append(result.observation)
        self.last_keys = tuple(keys)
        self.conversation.add(self.controller.answer_message(turn), self.controller.replies(decision.calls, results))

    def _as_written(self, turn: Turn, decision: Decision, iteration: int) -> Sequence[ToolCall | None]:
        """The calls before masking; None for a masked call whose original was lost in a restart."""
        if not turn.is_altered:
            return decision.calls
        for name, written in reversed(self.model_caller.as_written.items()):
            if name.startswith(f"{self.assignment.prefix}/{iteration}/model"):
                calls = self.controller.read(written).calls
                if len(calls) == len(decision.calls):
                    return calls
        return [None if MARK in call.arguments.lower() else call for call in decision.calls]

    def _refusals(self, keys: Sequence[str]) -> list[str | None]:
        """For each call, why it is not made, or None. Depends only on earlier calls, so that a replay agrees."""
        refusals: list[str | None] = []
        repeated = False
        for number, key in enumerate(keys):
            earlier = self.ran.get(key, [])
            if key in keys[:number]:
                refusals.append("You made this same call earlier in this answer; its result is above.")
            elif number >= MOST_AT_ONCE:
                refusals.append(f"Only {MOST_AT_ONCE} calls are made per answer. Repeat this one if you still need it.")
            elif earlier and self._is_enough(key, earlier):
                repeated = True
                kept = f" To read its result: {read_call(earlier[-1].handle)}." if earlier[-1].handle else ""
                refusals.append(
                    f"You made this call before, with the same arguments; it returns the same.{kept} Look at "
                    "something else, or conclude."
                )
            else:
                refusals.append(None)
        self.repetitions += repeated
        return refusals

    def _is_enough(self, key: str, earlier: Sequence[Observation]) -> bool:
        if all(one.is_error for one in earlier):
            return len(earlier) >= MOST_FAILED_RUNS
        return key in self.last_keys or len(earlier) >= MOST_RUNS

    async def _refused(self, call: ToolCall, why: str, name: str, step: Step) -> ToolCallResult:
        async def record() -> Masked:
            refusal = admit_words(why, self.model_caller.masker)
            server, _, tool = call.name.replace("__", ".", 1).rpartition(".")
            about = {"server_name": server, "tool_name": tool, "arguments": read_arguments(call.arguments).values}
            async with self.recorder.opened(name, "llm_tool_call", metadata=about) as event:
                await event.complete(
                    refusal,
                    {
                        "is_error": True,
                        "duration_ms": 0,
                        "original_tokens": 0,
                        "handle": None,
                        "repeated": True,
                        "made": False,
                    },
                )
            return refusal

        refusal = await step(name, record)
        server, _, tool = call.name.replace("__", ".", 1).rpartition(".")
        observation = Observation(
            call_id=call.id,
            server=server,
            tool=tool,
            text=refusal,
            status="passthrough",
            tokens_before=0,
            tokens_after=0,
            is_error=True,
        )
        return ToolCallResult(observation=observation, arguments=read_arguments(call.arguments).values)

    # Other agents

    def _is_handing_out(self, call: ToolCall) -> bool:
        return ASK_AGENT.answers_to(call.name.replace("__", ".", 1).rpartition(".")[2].lower())

    async def _hand_out(
        self, sub_agents: SubAgents, call: ToolCall, name: str, step: Step, room: int
    ) -> ToolCallResult:
        """Let another agent work; its result is the observation."""
        values = read_arguments(call.arguments).values
        given = values if isinstance(values, dict) else {}
        agent, task = str(given.get("agent", "")).strip(), str(given.get("task", ""))
        if complaint := sub_agents.complaint(agent, task, self.handed_out):
            return await self._refused(call, complaint, name, step)
        number = self.handed_out
        self.handed_out += 1
        report = await sub_agents.work(agent, task, number, step)
        result = AgentResult(agent=agent, report=report)
        self.cited.update(cited_results([result]))
        text = described(result)
        text = shorten(text, room) if O200K.exceeds(text, room) else text
        is_error = report.status == "failed"

        async def record() -> Masked:
            about = {"server_name": OURS, "tool_name": ASK_AGENT.name, "arguments": given}
            tokens = O200K.count(text)
            outcome = {"is_error": is_error, "duration_ms": 0, "original_tokens": tokens, "handle": None}
            async with self.recorder.opened(name, "llm_tool_call", metadata=about) as event:
                await event.complete(text, outcome)
            return text

        observation = Observation(
            call_id=call.id,
            server=OURS,
            tool=ASK_AGENT.name,
            text=await step(name, record),
            status="passthrough",
            tokens_before=0,
            tokens_after=0,
            is_error=is_error,
        )
        return ToolCallResult(observation=observation, arguments=given)

    # Ending

    async def _cut_off(self, why: str) -> Report:
        """Conclude because a budget is used up, and say so in the timeline and the analysis."""
        self.is_cut_off = True
        name = f"{self.assignment.prefix}/budget"
        said = admit_words(f"The investigation was cut off. {why}", self.model_caller.masker)
        await self.recorder.record(name, "notice", said, {"budget": why})
        try:
            report = await self._conclude(why)
        except OverBudget:
            findings = self._findings("")
            status: Literal["completed", "failed"] = "completed" if findings else "failed"
            report = Report(analysis=findings, status=status, reason=why)
        return replace(report, analysis=report.analysis.derive(f"{report.analysis}\n\n{said}".strip()))

    async def _conclude(self, why: str) -> Report:
        """Ask for a final answer, stating why the investigation ends here.

        The first request repeats the conversation and its tools, so that it can be read from the provider's cache. If
        the model calls a tool all the same, the second one declares none; then the findings so far are the analysis.
        """
        last = Message("user", self.model_caller.masker.mask(CONCLUDE.fill(why=why)))
        specs = () if self.is_cut_off else self._specs()
        room = self._room(specs) - self.conversation.tokens([last]) - 100
        try:
            messages = await run_in_thread(self._fitting, room)
        except LLMTooLong as problem:
            return Report(analysis=NOTHING, status="failed", reason=str(problem))
        turn = await self._concluding(why, messages, [last], "", specs)
        if not turn.problem and not self._is_conclusion(turn):
            turn = await self._concluding(why, messages, [last, Message("user", NO_TOOLS_LEFT)], "/2", ())
        if turn.problem:
            return Report(analysis=NOTHING, status="failed", reason=turn.problem)
        analysis = self.controller.conclusion(turn.text)
        if self._is_conclusion(turn):
            conclusion = self.model_caller.remarked(turn.text.derive(analysis))
            return Report(analysis=conclusion, status="completed", reason=why)
        reason, findings = f"{why} The model gave no conclusion.", self._findings(analysis)
        return Report(analysis=findings, status="completed" if findings else "failed", reason=reason)

    def _is_conclusion(self, turn: Turn) -> bool:
        return not self.controller.read(turn).calls and bool(self.controller.conclusion(turn.text))

    def _findings(self, last_words: str) -> Masked:
        """What the model wrote and saw, newest first, in place of a conclusion; empty if there is nothing."""
        found = [last_words.strip()] if last_words.strip() else []
        for turn in reversed(self.conversation.rounds):
            found += [" ".join(text.split())[:LONGEST_FINDING] for text in (turn.answer.text,) if text.strip()]
            found += [" ".join(reply.message.text.split())[:LONGEST_FINDING] for reply in turn.replies]
        if not found:
            return NOTHING
        listed = "\n".join(f"- {one}" for one in found[:MOST_FINDINGS])
        # Each is from masked messages.
        return NOTHING.derive(f"The model gave no conclusion. Its last notes and results, newest first:\n\n{listed}")

    async def _concluding(
        self,
        why: str,
        messages: list[Message],
        extra: Sequence[Message],
        suffix: str,
        tools: Sequence[ToolSpec],
    ) -> Turn:
        name = f"{self.assignment.prefix}/conclude/model{suffix}"
        return await self._last_call(name, why, messages, extra, tools, "final_analysis", leave=self.for_verdict)

    async def _last_call(
        self,
        name: str,
        why: str,
        messages: list[Message],
        extra: Sequence[Message],
        specs: Sequence[ToolSpec],
        kind: ModelCallKind,
        *,
        leave: int = 0,
    ) -> Turn:
        """A call for the conclusion or the verdict, for which time and tokens are reserved."""

        async def asked() -> Turn:
            self.recorder.progress("concluding", why)
            sent = await run_in_thread(self._fitting_budget, messages, extra, specs, leave, LEAST_ANSWER[kind])
            return await self.model_caller.call(
                sent,
                tokens=self.conversation.tokens(sent) + self._tokens_of(specs),
                key=name,
                tools=specs,
                native=self.assignment.native_tools if specs else None,
                kind=kind,
                hold=self.for_the_end,
                leave=leave,
            )

        return await self.last_step(name, asked)

    # The verdict

    async def _verdict(self, analysis: Masked) -> Verdict:
        """Ask for the result in fields, once more if the answer cannot be read; else take the analysis' beginning."""
        prefix = f"{self.assignment.prefix}/verdict"
        asked = Message("user", self.model_caller.masker.mask(VERDICT.fill()))
        said = Message("assistant", analysis)
        stated: StatedVerdict | None = None
        complaint = ""
        for attempt in (1, 2):
            specs = self._specs() if attempt == 1 and not self.is_cut_off else ()
            extra = [said, asked]
            if complaint:
                extra.append(Message("user", self.model_caller.masker.mask(f"{complaint} {ANSWER_WITH_JSON}")))
            try:
                room = self._room(specs) - self.conversation.tokens(extra) - 100
                messages = await run_in_thread(self._fitting, room)
            except LLMTooLong:
                break
            try:
                turn = await self._last_call(
                    f"{prefix}/model/{attempt}", "Stating the verdict", messages, extra, specs, "executive_summary"
                )
            except OverBudget:
                if not specs:
                    break
                continue
            if turn.problem:
                break
            try:
                stated = read_stated(turn.text)
                break
            except InputError as problem:
                complaint = str(problem)
        return await self.whole_step(prefix, lambda: self._checked(prefix, stated, analysis))

    async def _checked(self, name: str, stated: StatedVerdict | None, analysis: Masked) -> Verdict:
        """The verdict with its quotations looked up in the results that this agent saw."""
        if stated is None:
            verdict = from_analysis(analysis)
            await self.recorder.record(name, "notice", NO_VERDICT)
        else:
            seen = {one.handle: f"{one.server}.{one.tool}" for ran in self.ran.values() for one in ran if one.handle}
            seen = {**seen, **self.assignment.known_results, **self.cited}
            results: dict[str, tuple[str, str]] = {}
            for handle, source in seen.items():
                with suppress(ResultNotFound, ResultExpired):
                    text = await self.caller.executor.results.load(handle, self.caller.scope.name)
                    results[handle] = (source, text)
            verdict = await run_in_thread(verified, stated, results)
        await record_verdict(self.recorder, name, verdict, analysis)
        return verdict


def _key(call: ToolCall) -> str:
    """A key that is equal for equal calls, however their arguments are written."""
    values = read_arguments(call.arguments)
    return (
        f"{call.name.replace('__', '.', 1).lower()} "
        f"{json.dumps(values.values, sort_keys=True) if not values.complaint else call.arguments}"
    )
