"""Configuration of follow-up questions: what one of them may cost, and how many there may be."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

_CONFIG = ConfigDict(
    extra="forbid", frozen=True, use_attribute_docstrings=True, populate_by_name=True, hide_input_in_errors=True
)


class ChatOptions(BaseModel):
    """Options of follow-up questions."""

    model_config = _CONFIG

    max_questions: Annotated[int, Field(alias="TERSELY_CHAT_QUESTIONS", ge=0, le=1_000)] = 50
    """Follow-up questions per session; 0 switches them off."""

    max_iterations: Annotated[int, Field(alias="TERSELY_CHAT_ITERATIONS", ge=1, le=1_000)] = 10
    """Model calls for one question before it has to be answered."""

    max_tokens: Annotated[int, Field(alias="TERSELY_CHAT_MAX_TOKENS", ge=0)] = 300_000
    """Model tokens, input and output, for one question; after that it has to be answered. 0: no limit."""

    timeout: Annotated[float, Field(alias="TERSELY_CHAT_TIMEOUT", gt=0, le=86_400)] = 900
    """Seconds that the answer to one question may take."""
