"""What an agent is told before it begins: who it is, what its servers are for, and what it is asked.

Only the instructions of the assignment's own servers, and the names of those that
cannot be reached. Of earlier stages their analyses, never their data. What comes
from outside stands between marks that it cannot know, and each part is cut to its
share of the window before the first question is sent.
"""

import hashlib
import hmac
from collections.abc import Callable

from tersely.agent.assignment import Assignment
from tersely.condensing.prompt_files import Fence, Prompt
from tersely.llm.messages import Message
from tersely.masking.mask import Masker
from tersely.masking.masked import Masked
from tersely.mcp.registry import ToolRegistry
from tersely.pipeline.core import shorten
from tersely.text.tokens import O200K

SYSTEM = Prompt("system", "tersely.agent")
QUESTION = Prompt("question", "tersely.agent")

DEFAULT_TASK = "Find out why this alert was raised: the most likely cause, and the evidence for it."


def beginning(
    assignment: Assignment, registry: ToolRegistry, *, rules: str, window: int, quote: Callable[[Masked], str] = str
) -> list[Message]:
    """The first two messages.

    Args:
        rules: What the controller says about calling tools.
        window: Tokens the model can take; the alert may have a quarter of it, the rest less.
        quote: What the controller does to text from outside.
    """
    system = _filled(
        assignment.system or SYSTEM,
        instructions=assignment.agent.instructions.strip(),
        servers=_servers(assignment, registry),
        rules=rules,
    )
    return [
        Message("system", Masker(key=assignment.key).mask(_tidy(system))),
        # Made of the masked alert, runbook and findings, and of the operator's words.
        Message("user", assignment.alert.derive(question(assignment, window=window, quote=quote))),
    ]


def question(assignment: Assignment, *, window: int, quote: Callable[[Masked], str] = str) -> str:
    fence = _fence(assignment)

    def part(name: str, text: Masked, share: int) -> str:
        return fence.wrap(name, quote(_fitted(text, max(200, share)))) if text.strip() else ""

    others = [
        f"What the stage {stage!r} found:\n{part('analysis', said, window // 8)}"
        for stage, said in assignment.earlier
        if said.strip()
    ]
    return _tidy(
        _filled(
            assignment.question or QUESTION,
            task=assignment.task.strip() or DEFAULT_TASK,
            nonce=fence.nonce,
            alert_type=assignment.alert_type or "not given",
            alert=part("alert", assignment.alert, window // 4),
            runbook=f"The runbook:\n{part('runbook', assignment.runbook, window // 8)}"
            if assignment.runbook.strip()
            else "",
            earlier="\n".join(others[-8:]),
        )
    )


def _filled(prompt: Prompt, **values: str) -> str:
    """Other prompts than ours need not have all of the holes."""
    return prompt.fill(**{name: value for name, value in values.items() if name in prompt.holes})


def _servers(assignment: Assignment, registry: ToolRegistry) -> str:
    told: list[str] = []
    away: list[str] = []
    statuses = {status.name: status for status in registry.statuses()}
    for name in assignment.servers:
        status = statuses.get(name)
        if status is None:
            away.append(f"- {name}: not configured")
            continue
        if instructions := registry.server(name).options.instructions.strip():
            told.append(f"## {name}\n{instructions}")
        if status.state != "ready" and not registry.connections[name].tools:
            away.append(f"- {name}{f': {status.last_error}' if status.last_error else ''}")
    said = ["# Servers\n" + "\n\n".join(told)] if told else []
    if away:
        said.append(
            "# Servers that cannot be reached\nTheir tools are missing; say so where it matters.\n" + "\n".join(away)
        )
    return "\n\n".join(said)


def _fence(assignment: Assignment) -> Fence:
    """Marks that nobody outside can know, and that are the same when the same work is done again."""
    said = "\0".join((assignment.session_id, assignment.stage_id, assignment.alert, assignment.runbook))
    return Fence(hmac.new(assignment.key or b"", said.encode("utf-8", "replace"), hashlib.sha256).hexdigest()[:16])


def _fitted(text: Masked, tokens: int) -> Masked:
    return shorten(text, tokens) if O200K.exceeds(text, tokens) else text


def _tidy(text: str) -> str:
    """Without the holes that empty parts leave."""
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text.strip()
