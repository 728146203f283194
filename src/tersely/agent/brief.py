"""The first two messages of a conversation: the system prompt and the question.

The system prompt contains the instructions of the assignment's own servers only, and
names those that cannot be reached. Earlier stages contribute their analyses, never
their data. Text from outside is fenced with an unpredictable nonce, and each part is
cut to its share of the window.
"""

import hashlib
import hmac
from collections.abc import Callable, Sequence

from tersely.agent.assignment import Assignment
from tersely.agent.skills import skills_section
from tersely.condensing.prompt_files import Fence, Prompt
from tersely.llm.messages import Message
from tersely.masking.mask import Masker
from tersely.masking.masked import Masked
from tersely.mcp.registry import ToolRegistry, missing_servers
from tersely.pipeline.admit import admit_text
from tersely.pipeline.core import shorten
from tersely.text.tokens import O200K

SYSTEM = Prompt("system", "tersely.agent")
QUESTION = Prompt("question", "tersely.agent")
ANALYSIS = Prompt("closing_analysis", "tersely.agent")

DEFAULT_TASK = "Find out why this alert was raised: the most likely cause, and the evidence for it."


def beginning(
    assignment: Assignment,
    registry: ToolRegistry,
    *,
    rules: str,
    window: int,
    quote: Callable[[Masked], str] = str,
    agents: str = "",
) -> list[Message]:
    """Build the first two messages.

    Args:
        rules: The controller's rules for calling tools.
        agents: The part about agents that it can ask.
        window: The model's context window in tokens; the alert gets up to a quarter of it, other parts less.
        quote: How the controller quotes text from outside.
    """
    # The rules quote tools' descriptions, which are masked with a key of their own: not masked again.
    skills = skills_section(assignment.skills, assignment.required_skills)
    parts = "\n\n".join(filter(None, (_servers(assignment, registry), skills, agents)))
    servers = admit_text(parts, Masker(key=assignment.key))
    system = _filled(
        assignment.system or SYSTEM,
        instructions=assignment.agent.instructions.strip(),
        servers=servers,
        rules=rules,
        closing=(assignment.closing or ANALYSIS).text,
    )
    return [
        Message("system", servers.derive(_tidy(system))),
        # All parts are masked (alert, runbook, findings) or written by the operator.
        Message("user", assignment.alert.derive(question(assignment, window=window, quote=quote))),
    ]


def question(assignment: Assignment, *, window: int, quote: Callable[[Masked], str] = str) -> str:
    fence = _fence(assignment)

    def part(name: str, text: Masked, share: int) -> str:
        return fence.wrap(name, quote(_fitted(text, max(200, share)))) if text.strip() else ""

    stages = assignment.earlier[-8:]
    # All together take half of the window at most.
    share = window // max(8, 2 * (len(stages) + len(assignment.compares)))

    def found(kind: str, results: Sequence[tuple[str, Masked]]) -> list[str]:
        return [
            f"What the {kind} {name!r} found:\n{part('analysis', analysis, share)}"
            for name, analysis in results
            if analysis.strip()
        ]

    others = [*found("stage", stages), *found("agent", assignment.compares)]
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
            earlier="\n".join(others),
            context="\n".join(
                f"{heading}:\n{part('context', text, window // 8)}"
                for heading, text in assignment.context
                if text.strip()
            ),
        )
    )


def _filled(prompt: Prompt, **values: str) -> str:
    """Fill a prompt, ignoring values for which it has no placeholder."""
    return prompt.fill(**{name: value for name, value in values.items() if name in prompt.holes})


def _servers(assignment: Assignment, registry: ToolRegistry) -> str:
    missing = missing_servers(registry.connections, assignment.servers)
    unreachable = [f"- {name}{f': {why}' if why else ''}" for name, why in missing.items()]
    instructed = [
        f"## {name}\n{instructions}"
        for name in assignment.servers
        if name in registry.connections and (instructions := registry.server(name).options.instructions.strip())
    ]
    sections = ["# Servers\n" + "\n\n".join(instructed)] if instructed else []
    if unreachable:
        sections.append(
            "# Servers that cannot be reached\nTheir tools are missing; say so where it matters.\n"
            + "\n".join(unreachable)
        )
    return "\n\n".join(sections)


def _fence(assignment: Assignment) -> Fence:
    """A fence whose nonce is unpredictable from outside and identical on replay."""
    seed = "\0".join((assignment.session_id, assignment.prefix, assignment.alert, assignment.runbook))
    return Fence(hmac.new(assignment.key or b"", seed.encode("utf-8", "replace"), hashlib.sha256).hexdigest()[:16])


def _fitted(text: Masked, tokens: int) -> Masked:
    return shorten(text, tokens) if O200K.exceeds(text, tokens) else text


def _tidy(text: str) -> str:
    """Remove the blank lines that empty parts leave."""
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text.strip()
