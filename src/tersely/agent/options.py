"""Configuration of an agent: servers, instructions, controller, limits and providers.

Options only; `settings` checks that the servers and providers named here exist.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from tersely.agent.budget_options import BudgetOptions
from tersely.llm.providers import NativeTools

_CONFIG = ConfigDict(
    extra="forbid", frozen=True, use_attribute_docstrings=True, populate_by_name=True, hide_input_in_errors=True
)

Controller = Literal["react", "function_calling"]


def _agent_names(value: Any) -> Any:
    """Names; also entries with a `name`, as TARSy writes them."""
    if not isinstance(value, list):
        return value
    return [one["name"] if isinstance(one, dict) and set(one) == {"name"} else one for one in value]


class AgentOptions(BaseModel):
    """One agent."""

    model_config = _CONFIG

    mcp_servers: tuple[str, ...] = ()
    """Names of the servers whose tools it may use. If omitted, all of them; `[]`: none."""

    instructions: str = ""
    """Instructions for the model, placed before those of the servers."""

    controller: Controller = "function_calling"
    """`function_calling` uses the provider's tool calls; `react` calls tools in text, for models without them."""

    max_iterations: Annotated[int | None, Field(ge=1, le=1000)] = None
    """Model calls before it has to conclude; if omitted, the default."""

    llm_provider: str | None = None
    """The provider whose model it uses; if omitted, the default."""

    fallbacks: tuple[str, ...] = ()
    """Providers to use, in this order, when the first one does not answer."""

    native_tools: NativeTools = NativeTools()
    """The provider's own tools that it may use; unset ones are taken from the provider's entry."""

    description: str = ""
    """One line about what it is for, which agents that can ask it see."""

    sub_agents: Annotated[tuple[str, ...], Field(max_length=20), BeforeValidator(_agent_names)] = ()
    """Agents to which it may hand tasks, with a model; their results come back to it."""

    max_sub_agents: Annotated[int, Field(ge=1, le=50)] = 8
    """How many tasks it may hand out in one investigation. They count for its budget."""

    skills: tuple[str, ...] | None = None
    """Skills that it may load, of those in `defaults.skills_folder`. If omitted, all of them; `[]`: none."""

    required_skills: tuple[str, ...] = ()
    """Skills whose text is in its prompt from the beginning."""

    budget: BudgetOptions = BudgetOptions()
