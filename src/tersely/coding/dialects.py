"""The clients whose events `tersely hook` answers: how each writes an event, and which answer it accepts.

A new client is a row of `DIALECTS`, a row in `settings/client_hooks.py`, and its exchanges in
`exchanges.py`. Imports nothing, because a hook is started for every tool call.

What each can do, and in which version this was found, is in `docs/how-to/coding-agents.md`. A client
that would show a replaced result as an error (Gemini CLI), without the exit code of its command
(Codex), or not at all (Qwen Code, Crush, Goose) has no `replace` here: only its writes are looked at.
"""

from collections.abc import Callable
from typing import Any, NamedTuple


class Dialect(NamedTuple):
    """How one client writes events and reads answers."""

    refuse: Callable[[str], dict[str, Any]]
    """The answer that refuses a tool call, with the reason for the model."""

    replace: Callable[[Any], dict[str, Any]] | None = None
    """The answer that replaces a result; None if results are left alone."""

    event: str = "hook_event_name"
    before: str = "PreToolUse"
    after: str = "PostToolUse"
    """Key of the event's name, and the two names. An event without a name comes before the call if it has no result."""

    tool: str = "tool_name"
    given: str = "tool_input"
    result: str = "tool_response"
    """Keys of the call."""

    text: str = ""
    """Key of the text in a result; empty if each tool has a shape of its own."""

    commands: tuple[str, ...] = ()
    """Tools that run a command."""

    files: tuple[str, ...] = ()
    """Tools that read a file: what they return is masked, and otherwise left as it is, so that edits match."""

    texts: tuple[str, ...] = ()
    """Other tools with a text as result."""

    mcp: Callable[[str], bool] = lambda tool: False
    """Whether a name is that of an MCP tool whose result looks like that of any tool."""

    applies: bool = False
    """Whether our own code in the client puts the answer in place, so that it is known to be used."""


def _permission_denied(reason: str) -> dict[str, Any]:
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": reason,
        }
    }


def _replaced_by_claude_code(output: Any) -> dict[str, Any]:
    return {
        "suppressOutput": True,
        "hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": output},
    }


DIALECTS = {
    "claude-code": Dialect(
        refuse=_permission_denied,
        replace=_replaced_by_claude_code,
        commands=("Bash",),
    ),
    "copilot": Dialect(
        refuse=lambda reason: {"permissionDecision": "deny", "permissionDecisionReason": reason},
        replace=lambda output: {"modifiedResult": output},
        tool="toolName",
        given="toolArgs",
        result="toolResult",
        text="textResultForLlm",
        commands=("bash", "powershell"),
        files=("view",),
        texts=("grep", "rg", "glob", "web_fetch"),
        # Tools of its own have underscores only.
        mcp=lambda tool: "-" in tool,
    ),
    "opencode": Dialect(
        refuse=lambda reason: {"refused": reason},
        replace=lambda output: output,
        text="output",
        commands=("bash", "shell"),
        files=("read",),
        texts=("grep", "glob", "list", "webfetch"),
        applies=True,
    ),
    "cursor": Dialect(
        refuse=lambda reason: {"permission": "deny", "user_message": reason, "agent_message": reason},
        replace=lambda output: {"updated_mcp_tool_output": output},
        before="preToolUse",
        after="postToolUse",
        result="tool_output",
    ),
    "gemini-cli": Dialect(refuse=lambda reason: {"decision": "deny", "reason": reason}, before="BeforeTool"),
    "qwen-code": Dialect(refuse=_permission_denied),
    "codex": Dialect(refuse=_permission_denied),
    "crush": Dialect(refuse=lambda reason: {"decision": "deny", "reason": reason}, event="event"),
    "goose": Dialect(refuse=lambda reason: {"decision": "block", "reason": reason}, event="event"),
}
