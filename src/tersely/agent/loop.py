"""An agent at work: ask the model, make its calls, show it what came back, until it knows or may not go on.

One loop for both ways of calling tools (`controller`). Everything that costs or has
effects runs in a step that is handed in; between steps nothing depends on clocks,
chance or the state of servers, so that a killed investigation is gone through again
up to where it was without a second call.

Knows nothing of sessions, stores or viewers. Without a model, `survey` does the work.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import anyio.to_thread

from tersely.agent import brief
from tersely.agent.arguments import read_arguments
from tersely.agent.asking import Asker, Turn
from tersely.agent.assignment import Assignment, Report
from tersely.agent.calls import DISPLAY_TOKENS, Seen, ToolCaller
from tersely.agent.controller import Controller, Decision
from tersely.agent.conversation import Conversation, Reply, flattened
from tersely.agent.function_calling import FunctionCalling
from tersely.agent.ordered_gather import ordered_gather
from tersely.agent.react import ReAct, quoted
from tersely.agent.recorder import Recorder
from tersely.agent.subject import subject_of
from tersely.agent.survey import survey
from tersely.agent.tool_executor import Observation, Step, ToolExecutor
from tersely.agent.toolbox import Toolbox
from tersely.condensing.prompt_files import Prompt
from tersely.errors import LLMTooLong
from tersely.llm.client import LLM
from tersely.llm.messages import Message, ToolCall, ToolSpec
from tersely.masking.mask import MARK, Masker
from tersely.masking.masked import NOTHING, Masked, own_words
from tersely.mcp.registry import ToolRegistry
from tersely.pipeline.process import Intent
from tersely.results.read_back import ReadBack

__all__ = ["Assignment", "Report", "investigate"]

CONCLUDE = Prompt("conclude", "tersely.agent")

MOST_TRIES = 3
"""Times a conversation that the provider finds too long is sent, shorter each time."""

MOST_AT_ONCE = 12
"""Calls of one answer that are made; the others are answered with a request to ask again."""

MOST_RUNS = 2
"""Times the same call is made with the same arguments; systems change, but not that often."""

MOST_FAILED_RUNS = 3
"""Times it is made as long as it fails."""

MOST_REPETITIONS = 3
"""Refused repetitions after which the model has to conclude."""

MOST_USELESS = 3
"""Answers in a row with which nothing can be done, after which it has to conclude."""


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
) -> Report:
    """Work on an assignment to its end.

    Args:
        llm: Thinks. Without one the tools are surveyed without a model.
        summarizer: Condenses large results; without one their structure decides.
        step: Runs everything that costs or has effects, or hands out what it returned the last time.
        summarizers: By provider, those that servers and tools name for their results.
        display_tokens: What timeline and trace show of a result; 0: all of it.
    """
    registry = executor.registry
    assert isinstance(registry, ToolRegistry), "an agent has to know which tools there are"
    caller = ToolCaller(
        assignment=assignment,
        toolbox=Toolbox(registry, assignment),
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
    return await _Investigation(assignment, llm, caller, controller, recorder, step).run()


@dataclass
class _Investigation:
    assignment: Assignment
    llm: LLM
    caller: ToolCaller
    controller: Controller
    recorder: Recorder
    step: Step
    repetitions: int = 0
    useless: int = 0
    most: float = math.inf
    """Tokens that the conversation may have; less than was sent, once a provider has counted otherwise than we did."""

    ran: dict[str, list[Observation]] = field(default_factory=dict)
    last_keys: tuple[str, ...] = ()

    async def run(self) -> Report:
        assignment, llm = self.assignment, self.llm
        self.asker = Asker(llm=llm, recorder=self.recorder, masker=Masker(key=assignment.key))
        self.caller.window = max(400, llm.window // 4)
        self.conversation = await anyio.to_thread.run_sync(self._begun)
        for iteration in range(1, assignment.max_iterations + 1):
            turn = await self._turn(iteration)
            if turn.problem:
                return Report(analysis=NOTHING, status="failed", reason=turn.problem)
            decision = self._decision(turn)
            if decision.answer:
                # Cut out of the masked answer.
                return Report(analysis=turn.text.derive(decision.answer), status="completed")
            if decision.complaint:
                self._complain(turn, decision.complaint)
                if self.useless >= MOST_USELESS:
                    return await self._conclude(f"{self.useless} of your answers in a row could not be used.")
                continue
            self.useless = 0
            await self._work(turn, decision, iteration)
            if self.repetitions >= MOST_REPETITIONS:
                return await self._conclude("You keep making calls that you have made before; they give the same.")
        return await self._conclude(f"You have used all of your {assignment.max_iterations} iterations.")

    def _begun(self) -> Conversation:
        self.about = subject_of(self.assignment.alert).telling[:1_000]
        return Conversation(self._beginning(self.llm.window), self.llm.tokenizer)

    def _beginning(self, window: int) -> list[Message]:
        is_react = isinstance(self.controller, ReAct)
        return brief.beginning(
            self.assignment,
            self.caller.toolbox.registry,
            rules=self.controller.rules(self.caller.toolbox),
            window=window,
            quote=quoted if is_react else str,
        )

    # Asking

    async def _turn(self, iteration: int) -> Turn:
        """One answer. A conversation that the provider finds too long is shortened and sent again."""
        turn = Turn()
        for attempt in range(MOST_TRIES):
            name = f"{self.assignment.stage_id}/{iteration}/model" + (f"/{attempt + 1}" if attempt else "")
            specs = self._specs()
            try:
                messages = await anyio.to_thread.run_sync(self.conversation.within, self._room(specs))
            except LLMTooLong as problem:
                return turn if turn.too_long else Turn(problem=str(problem))

            async def asked(
                name: str = name, specs: Sequence[ToolSpec] = specs, messages: Sequence[Message] = messages
            ) -> Turn:
                self.recorder.progress("investigating", f"Iteration {iteration} of {self.assignment.max_iterations}")
                return await self.asker.ask(
                    messages,
                    key=name,
                    tools=specs,
                    native=self.assignment.native_tools,
                    stop=self.controller.stop,
                    final=lambda answer: self._decision(answer).answer,
                )

            turn = await self.step(name, asked)
            if not turn.too_long:
                return turn
            # Of what was sent, not of the window: whatever this provider's window is, the next try is shorter.
            self.most = self.conversation.tokens(messages) * 0.7
            self.conversation.beginning = await anyio.to_thread.run_sync(self._beginning, int(self.most))
        return turn

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
        """Tokens that the conversation may have beside the tools and the answer."""
        tools = sum(
            self.llm.tokenizer.count(f"{spec.name}{spec.description}{json.dumps(spec.schema)}") + 12 for spec in specs
        )
        answer = min(self.llm.output_cap, self.llm.window // 4)
        return int(min((self.llm.window - answer - tools) * 0.97, self.most))

    def _specs(self) -> Sequence[ToolSpec]:
        """The tools, described as long as their descriptions leave most of the window free."""
        specs = self.controller.specs(self.caller.toolbox)
        for most in (2_000, 300, 80):
            if self._room(specs) >= self.llm.window // 2:
                break
            specs = [replace(spec, description=spec.description[:most]) for spec in specs]
        return specs

    def _complain(self, turn: Turn, complaint: str) -> None:
        self.useless += 1
        said = self.controller.said(turn)
        if not said.text.strip() and not said.tool_calls:
            said = replace(said, text=own_words("[an empty answer]"))
        self.conversation.add(said, [Reply(Message("user", turn.text.derive(complaint)))])

    # Calling

    async def _work(self, turn: Turn, decision: Decision, iteration: int) -> None:
        prefix = f"{self.assignment.stage_id}/{iteration}"
        written = self._as_written(turn, decision, iteration)
        intent = Intent(looking_for=self._looking_for(turn), conversation=self.conversation.messages())
        keys = [_key(call) for call in decision.calls]
        refusals = self._refusals(keys)

        async def make(number: int, call: ToolCall, original: ToolCall | None, in_turn: Step) -> Seen:
            if refusal := refusals[number]:
                return await self._refused(call, refusal, f"{prefix}/{number + 1}/call", in_turn)
            return await self.caller.call(
                call, prefix=f"{prefix}/{number + 1}", step=in_turn, intent=intent, as_written=original
            )

        pairs = list(zip(decision.calls, written, strict=True))
        works = [
            lambda in_turn, number=number, call=call, original=original: make(number, call, original, in_turn)
            for number, (call, original) in enumerate(pairs)
        ]
        seen = await ordered_gather(self.step, works)
        for key, refusal, one in zip(keys, refusals, seen, strict=True):
            if refusal is None:
                self.ran.setdefault(key, []).append(one.observation)
        self.last_keys = tuple(keys)
        self.conversation.add(self.controller.said(turn), self.controller.replies(decision.calls, seen))

    def _as_written(self, turn: Turn, decision: Decision, iteration: int) -> Sequence[ToolCall | None]:
        """The calls before they were masked. None for those that were masked and that this process did not hear: after
        a restart
        only what is stored is known of them.
        """
        if not turn.is_altered:
            return decision.calls
        for name, written in reversed(self.asker.as_written.items()):
            if name.startswith(f"{self.assignment.stage_id}/{iteration}/model"):
                calls = self.controller.read(written).calls
                if len(calls) == len(decision.calls):
                    return calls
        return [None if MARK in call.arguments.lower() else call for call in decision.calls]

    def _looking_for(self, turn: Turn) -> str:
        """What decides which part of a result matters: the model's own words, and what the alert is about."""
        return f"{turn.text[-1000:]} {self.assignment.task[:300]} {self.about}".strip()

    def _refusals(self, keys: Sequence[str]) -> list[str | None]:
        """Why a call is not made, for each of them. Decided by what was called before, and by nothing else."""
        refusals: list[str | None] = []
        repeated = False
        for number, key in enumerate(keys):
            earlier = self.ran.get(key, [])
            if key in keys[:number]:
                refusals.append("You made this very call in the same answer; its result stands above.")
            elif number >= MOST_AT_ONCE:
                refusals.append(
                    f"Only {MOST_AT_ONCE} calls are made at once. Ask again for this one if it is still needed."
                )
            elif earlier and self._is_enough(key, earlier):
                repeated = True
                kept = (
                    f" Its result is kept as {earlier[-1].handle}: read_result or search_result show it."
                    if earlier[-1].handle
                    else ""
                )
                refusals.append(
                    f"You made this call before, with the same arguments; it gives the same.{kept} Look at something "
                    "else, or conclude."
                )
            else:
                refusals.append(None)
        self.repetitions += repeated
        return refusals

    def _is_enough(self, key: str, earlier: Sequence[Observation]) -> bool:
        if all(one.is_error for one in earlier):
            return len(earlier) >= MOST_FAILED_RUNS
        return key in self.last_keys or len(earlier) >= MOST_RUNS

    async def _refused(self, call: ToolCall, why: str, name: str, step: Step) -> Seen:
        async def tell() -> Masked:
            said = self.asker.masker.mask(why)
            server, _, tool = call.name.replace("__", ".", 1).rpartition(".")
            about = {"server_name": server, "tool_name": tool, "arguments": read_arguments(call.arguments).values}
            async with self.recorder.opened(name, "llm_tool_call", metadata=about) as event:
                await event.complete(
                    said, {"is_error": True, "duration_ms": 0, "original_tokens": 0, "handle": None, "repeated": True}
                )
            return said

        said = await step(name, tell)
        server, _, tool = call.name.replace("__", ".", 1).rpartition(".")
        observation = Observation(
            call_id=call.id,
            server=server,
            tool=tool,
            text=said,
            status="passthrough",
            tokens_before=0,
            tokens_after=0,
            is_error=True,
        )
        return Seen(observation=observation, arguments=read_arguments(call.arguments).values)

    # Ending

    async def _conclude(self, why: str) -> Report:
        """One last answer, without tools; honest, since it is said that this is the end."""
        name = f"{self.assignment.stage_id}/conclude/model"
        last = Message("user", self.asker.masker.mask(CONCLUDE.fill(why=why)))

        room = self._room(()) - self.conversation.tokens([last]) - 100
        try:
            messages = await anyio.to_thread.run_sync(self.conversation.within, room)
        except LLMTooLong as problem:
            return Report(analysis=NOTHING, status="failed", reason=str(problem))

        async def asked() -> Turn:
            self.recorder.progress("concluding", why)
            return await self.asker.ask([*flattened(messages), last], key=name, kind="final_analysis")

        turn = await self.step(name, asked)
        if turn.problem:
            return Report(analysis=NOTHING, status="failed", reason=turn.problem)
        analysis = self.controller.conclusion(turn.text)
        if not analysis:
            return Report(analysis=NOTHING, status="failed", reason=f"{why} The model gave no conclusion.")
        return Report(analysis=turn.text.derive(analysis), status="completed", reason=why)


def _key(call: ToolCall) -> str:
    """The same for the same call, however its arguments are written."""
    values = read_arguments(call.arguments)
    return (
        f"{call.name.replace('__', '.', 1).lower()} "
        f"{json.dumps(values.values, sort_keys=True) if not values.complaint else call.arguments}"
    )
