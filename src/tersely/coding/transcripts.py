"""Transcripts of Claude Code: one JSON object per line. Reads a bounded part, from the end."""

import json
import os
from typing import Any


def last_request(path: str, most_bytes: int) -> str:
    """What the user asked for last, if the last part of the transcript has it; never raises."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - most_bytes))
            lines = file.read(most_bytes).split(b"\n")
    except OSError:
        return ""
    for line in reversed(lines):
        if b'"user"' not in line:
            continue
        try:
            entry = json.loads(line)
        except ValueError:  # the line that the part begins with is not whole
            continue
        if text := _request_in(entry):
            return text
    return ""


def _request_in(entry: Any) -> str:
    if not isinstance(entry, dict) or entry.get("type") != "user" or entry.get("isMeta"):
        return ""
    message = entry.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list):
        if any(isinstance(block, dict) and block.get("type") == "tool_result" for block in content):
            return ""
        content = "\n".join(str(block.get("text", "")) for block in content if isinstance(block, dict))
    # Reminders and outputs of slash commands are written in tags.
    return content.strip() if isinstance(content, str) and not content.lstrip().startswith("<") else ""


def has_result(path: str, tool_use_id: str, text: str) -> bool | None:
    """Whether the transcript has the text in the result of a tool call; None if it does not have the result."""
    sign = tool_use_id.encode()
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            for line in file:
                if sign in line and b'"tool_result"' in line:
                    return text.encode() in line
    except OSError:
        return None
    return None
