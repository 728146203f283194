"""An agent's input and output: the assignment and its report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tersely.agent.budget import WorkBudget
from tersely.agent.options import AgentOptions
from tersely.agent.skills import Skill
from tersely.agent.verdict import Verdict
from tersely.condensing.prompt_files import Prompt
from tersely.llm.providers import NativeTools
from tersely.masking.masked import Masked


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """One stage's work for one agent. `servers`, `tools` and `native_tools` already include any override."""

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
    """Name and analysis of each earlier stage."""

    compares: Sequence[tuple[str, Masked]] = ()
    """Name and result of each agent whose results it compares."""

    known_results: Mapping[str, str] = field(default_factory=dict)
    """Handle and source of results that others fetched; they can be read and quoted."""

    step_prefix: str = ""
    """Prefix of the names of its steps, unique in the session; if empty, the stage's id."""

    budget: WorkBudget | None = None
    skills: Sequence[Skill] = ()
    """Skills that it may load."""

    required_skills: Sequence[Skill] = ()
    """Skills whose text is in the prompt."""

    servers: tuple[str, ...]
    tools: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The only tools to use, by server; a server without an entry offers all of its tools."""

    native_tools: NativeTools
    max_iterations: int
    key: bytes | None = field(default=None, repr=False)
    """The key for the session's masking marks."""

    asks_for_verdict: bool = False
    """Whether a model is asked for the verdict after its analysis; it costs one request."""

    context: Sequence[tuple[str, Masked]] = ()
    """More that the agent is told about the alert: heading and text of each part."""

    remark: str = ""
    """A sentence for the readers of its analysis or answer, which is added to it with a model. Without one, the report
    has its own."""

    answers: Literal["final_analysis", "chat_response"] = "final_analysis"
    """What its last answer is: the analysis of a stage, or the answer to a person's question."""

    system: Prompt | None = None
    question: Prompt | None = None
    closing: Prompt | None = None
    """Prompts that replace the default ones, for work other than alerts; they may omit placeholders."""

    @property
    def prefix(self) -> str:
        return self.step_prefix or self.stage_id

    @property
    def scope(self) -> str:
        """The scope of kept results that the agent may read: the session's."""
        return f"session:{self.session_id}"


@dataclass(frozen=True, kw_only=True)
class Report:
    """The outcome of an assignment."""

    analysis: Masked
    status: Literal["completed", "failed"]
    reason: str = ""
    """Why it failed or ended early."""

    verdict: Verdict | None = None
