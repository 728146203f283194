"""What the operator says about an agent: what it may use, what it is told, and how long it may go on.

Options only; `config` checks that the servers and providers named here exist.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from tersely.llm.providers import NativeTools

_CONFIG = ConfigDict(
    extra="forbid", frozen=True, use_attribute_docstrings=True, populate_by_name=True, hide_input_in_errors=True
)

Controller = Literal["react", "function_calling"]


class AgentOptions(BaseModel):
    """One agent."""

    model_config = _CONFIG

    mcp_servers: tuple[str, ...] = ()
    """Names of the servers whose tools it may use. Left out of the file: all of them; `[]`: none."""

    instructions: str = ""
    """What the model is told about its part, before the servers' own instructions."""

    controller: Controller = "function_calling"
    """`function_calling` uses the provider's tool calls; `react` writes them as text, for models that have none."""

    max_iterations: Annotated[int | None, Field(ge=1, le=1000)] = None
    """Model calls before it has to conclude; without it the default."""

    llm_provider: str | None = None
    """Which provider it thinks with; without one the default."""

    fallbacks: tuple[str, ...] = ()
    """Providers that step in, in this order, when the first one does not answer."""

    native_tools: NativeTools = NativeTools()
    """Which of its provider's own tools it may use; what it leaves open, the provider's entry says."""
