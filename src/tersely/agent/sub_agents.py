"""Sub-agents: an agent hands a task to another one, whose result comes back as an observation.

Knows neither sessions nor stores: whoever runs the agent gives it a function that lets
another agent work.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from tersely.agent.assignment import Report
from tersely.agent.tool_executor import Step
from tersely.results.read_back_tool import ReadBackTool

ASK_AGENT = ReadBackTool(
    "ask_agent",
    "Hand a task to another agent, which investigates it with its own tools and reports what it found.",
    {
        "type": "object",
        "properties": {
            "agent": {"type": "string"},
            "task": {"type": "string", "description": "What to find out, with all it has to know."},
        },
        "required": ["agent", "task"],
    },
)

LONGEST_TASK = 8_000
"""Characters."""


@dataclass(frozen=True, kw_only=True)
class SubAgents:
    """The agents that another one may ask."""

    descriptions: Mapping[str, str]
    """By name, what each is for."""

    most: int
    """How many tasks may be handed out."""

    work: Callable[[str, str, int, Step], Awaitable[Report]]
    """Lets an agent work on a task, given its number from 0 and the step function of the call."""

    def complaint(self, agent: str, task: str, number: int) -> str:
        """Why a task is not handed out; empty if it is."""
        if agent not in self.descriptions:
            return f"There is no agent {agent[:100]!a}. There are: {', '.join(self.descriptions)}."
        if not task.strip():
            return "The task is empty: write what to find out."
        if len(task) > LONGEST_TASK:
            return f"The task has {len(task):,} characters; at most {LONGEST_TASK:,} are allowed."
        if number >= self.most:
            return f"All {self.most} tasks that you may hand out have been handed out. Go on yourself, or conclude."
        return ""

    def section(self) -> str:
        """The part of the system prompt about them."""
        lines = "\n".join(f"- {name}: {about}" if about else f"- {name}" for name, about in self.descriptions.items())
        rules = f"Use ask_agent, at most {self.most} times. They know the alert, but not this conversation."
        return f"# Agents that you can ask\n{rules}\n{lines}"
