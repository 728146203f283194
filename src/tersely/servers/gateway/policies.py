"""The policy of each tool, and the cleaning and masking of what servers send besides results.

Light to import: `protocol` needs it before the pipeline is loaded.
"""

from collections.abc import Mapping
from typing import Any

from tersely.errors import MaskingFailed
from tersely.masking.clean import clean_json
from tersely.masking.mask import Masker
from tersely.mcp.servers import Server, ServerOptions
from tersely.pipeline.admit import admit_text, admit_value
from tersely.pipeline.policy import Policy

_LONGEST_MESSAGE = 8_000
"""Characters of a server's error or log message."""


class Policies:
    """The policies of the servers' tools.

    Args:
        key: Determines the digits of the marks.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self.key = key
        self._known: dict[tuple[str, str], tuple[ServerOptions, Policy]] = {}

    def of(self, server: Server, tool: str = "") -> Policy:
        """The policy for a tool; without a tool, for other texts of the server."""
        known = self._known.get((server.name, tool))
        if known is not None and known[0] is server.options:  # else the configuration was reloaded
            return known[1]
        condensing, masking = server.options.policy(tool)
        made = Policy.of_tool(condensing, masking, key=self.key, keep="optional")
        if len(self._known) < 10_000:  # names come from outside
            self._known[server.name, tool] = server.options, made
        return made


def admit_except(value: Mapping[str, Any], keys: tuple[str, ...], masker: Masker | None) -> dict[str, Any]:
    """An object, cleaned and masked except for these keys, which the caller handles."""
    return {key: inner if key in keys else admit_value(inner, masker) for key, inner in value.items()}


def admit_question(method: str, params: Mapping[str, Any], masker: Masker | None) -> dict[str, Any]:
    """Clean and mask a server's request to a client; schemas and URLs in it are only cleaned.

    Raises:
        MaskingFailed: The request must not be shown.
    """
    shown: dict[str, Any] = clean_json(dict(params))[0]
    for name in ("message", "systemPrompt"):
        if name in shown:
            shown[name] = admit_value(shown[name], masker)
    if method == "sampling/createMessage" and isinstance(messages := params.get("messages"), list):
        shown["messages"] = [_admit_sampling_message(message, masker) for message in messages]
    return shown


def _admit_sampling_message(message: Any, masker: Masker | None) -> Any:
    if not isinstance(message, dict):
        return admit_value(message, masker)
    content = message.get("content")
    parts = [
        admit_except(part, ("type", "data", "mimeType"), masker)
        if isinstance(part, dict)
        else admit_value(part, masker)
        for part in (content if isinstance(content, list) else [content])
    ]
    return {
        **admit_except(message, ("content",), masker),
        "content": parts if isinstance(content, list) else parts[0],
    }


def admit_message(text: str, masker: Masker) -> str:
    """Clean and mask a short text of a server, such as an error or a log message."""
    try:
        return admit_text(text[:_LONGEST_MESSAGE], masker)
    except MaskingFailed:
        return "[not shown: it could not be checked for secrets]"
