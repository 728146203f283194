"""What an agent is asked to do, and what it hands back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tersely.agent.options import AgentOptions
from tersely.condensing.prompt_files import Prompt
from tersely.llm.providers import NativeTools
from tersely.masking.masked import Masked


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """One stage's work for one agent. Whatever an override changed is already in `servers`, `tools` and
    `native_tools`.
    """

    session_id: str
    stage_id: str
    execution_id: str
    stage: str
    task: str
    agent_name: str
    agent: AgentOptions
    alert: Masked
    alert_type: str
    runbook: Masked
    earlier: Sequence[tuple[str, Masked]] = ()
    """What earlier stages found: stage and analysis."""

    servers: tuple[str, ...]
    tools: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Only these tools of a server; a server that is not named here has all of its tools."""

    native_tools: NativeTools
    max_iterations: int
    key: bytes | None = field(default=None, repr=False)
    """Of the session's masking marks."""

    system: Prompt | None = None
    question: Prompt | None = None
    """What the agent is told, where it is not an alert that it works on; with some or all of the holes of ours."""

    @property
    def scope(self) -> str:
        """Whose kept results the agent may read: the session's."""
        return f"session:{self.session_id}"


@dataclass(frozen=True, kw_only=True)
class Report:
    """What came of it."""

    analysis: Masked
    status: Literal["completed", "failed"]
    reason: str = ""
    """In plain words, when it failed or ended early."""
