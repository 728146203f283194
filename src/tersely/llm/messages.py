"""Messages to a model and its answers, independent of any SDK.

Text that is sent to a model is `Masked`; text that a model wrote is plain `str` until it is masked.
"""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

from tersely.masking.masked import Masked

Role = Literal["system", "user", "assistant", "tool"]
Finish = Literal["stop", "length", "tool_call", "content_filter", "error"]


@dataclass(frozen=True)
class ToolCall:
    """A tool call that the model requests. `arguments` is its text as written, which should be JSON."""

    id: str
    name: str
    arguments: str = "{}"


@dataclass(frozen=True)
class Message:
    role: Role
    text: Masked
    tool_calls: tuple[ToolCall, ...] = ()
    """The calls that an assistant message requests."""

    answers: ToolCall | None = None
    """The call that a tool message answers."""


@dataclass(frozen=True)
class ToolSpec:
    """A tool, as it is described to the model."""

    name: str
    description: str
    schema: dict[str, Any]


@dataclass(frozen=True)
class Usage:
    """Tokens as counted by the provider, and their price where it is known."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    price: Decimal | None = Decimal(0)
    """In US dollars; None if the sum includes a call with an unknown price."""

    cached_tokens: int = 0
    """Of the input tokens, those that the provider read from its prompt cache."""

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            price=None if self.price is None or other.price is None else self.price + other.price,
            cached_tokens=self.cached_tokens + other.cached_tokens,
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
    """The native tools that the provider used."""

    unsupported: tuple[str, ...] = ()
    """Native tools that were requested but not sent, because this model does not support them."""


@dataclass(frozen=True)
class TextDelta:
    text: str


@dataclass(frozen=True)
class ThinkingDelta:
    text: str


@dataclass(frozen=True)
class ToolCallDelta:
    """More of the name and the arguments of the tool call that is part `index` of the answer."""

    index: int
    name: str
    arguments: str


@dataclass(frozen=True)
class Superseded:
    """The stream failed and is requested again: everything so far is void."""

    reason: str


Delta = TextDelta | ThinkingDelta | ToolCallDelta | Superseded | Completion
"""What a stream yields; the last one is the `Completion`."""
