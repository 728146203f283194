"""Limits of what work may cost: of a session, a stage or an agent.

Options only; `agent.budget` enforces them.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class BudgetOptions(BaseModel):
    """What an investigation, a stage or an agent may spend."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, populate_by_name=True, hide_input_in_errors=True
    )

    tokens: Annotated[int | None, Field(ge=1, le=10**12)] = None
    """Tokens that models may read and write, summaries included. A request is sent only if they are enough for it and,
    after it, for a conclusion; otherwise the agent is asked for its conclusion. If they are not enough for that, there
    is none."""

    seconds: Annotated[float | None, Field(gt=0, le=30 * 86_400)] = None
    """Seconds. Work stops after four fifths of them; the rest is for the conclusion."""
