"""What is said to a model and what comes back, in our own small words.

Text on its way to a model is `Masked`; what a model wrote is plain `str` until it was masked.
"""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

from tersely.masking.masked import Masked

Role = Literal["system", "user", "assistant", "tool"]
Finish = Literal["stop", "length", "tool_call", "content_filter", "error"]


@dataclass(frozen=True)
class ToolCall:
    """A tool the model wants called. `arguments` is what it wrote: JSON, if it did as it was told."""

    id: str
    name: str
    arguments: str = "{}"


@dataclass(frozen=True)
class Message:
    role: Role
    text: Masked
    tool_calls: tuple[ToolCall, ...] = ()
    """What an assistant's message asks for."""

    answers: ToolCall | None = None
    """Which call a tool's message answers."""


@dataclass(frozen=True)
class ToolSpec:
    """A tool as the model is told of it."""

    name: str
    description: str
    schema: dict[str, Any]


@dataclass(frozen=True)
class Usage:
    """Tokens as the provider counted them, and what they cost where the price is known."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    price: Decimal | None = Decimal(0)
    """In US dollars; None once a call with an unknown price is part of the sum."""

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            price=None if self.price is None or other.price is None else self.price + other.price,
        )


@dataclass(frozen=True, kw_only=True)
class Completion:
    """A whole answer."""

    text: str
    thinking: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish: Finish
    usage: Usage = field(default_factory=Usage)
    model: str
    provider: str
    native_calls: tuple[str, ...] = ()
    """Which of its own tools the provider used on the way."""

    unsupported: tuple[str, ...] = ()
    """Native tools that were asked for and that this model cannot do; it was asked without them."""


@dataclass(frozen=True)
class TextDelta:
    text: str


@dataclass(frozen=True)
class ThinkingDelta:
    text: str


@dataclass(frozen=True)
class ToolCallDelta:
    """Part `index` of the answer is a tool call; name and arguments grow."""

    index: int
    name: str
    arguments: str


@dataclass(frozen=True)
class Superseded:
    """The stream broke and is asked for again: what came so far does not count."""

    reason: str


Delta = TextDelta | ThinkingDelta | ToolCallDelta | Superseded | Completion
"""What a stream yields; the last one is the `Completion`."""
