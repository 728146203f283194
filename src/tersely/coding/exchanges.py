"""Exchanges with clients, as they send events and accept answers: for `tersely hook check`, and for tests.

Made from each client's documentation and source, not taken from a live session; `VERSIONS`
says from which version. The schemas are a client's own rules for an answer, written down
apart from the code that makes one.
"""

import json
from typing import Any

VERSIONS = {
    "claude-code": "Claude Code 2.1.325 (types of its package)",
    "copilot": "Copilot CLI 1.0.102 (its hooks reference, and the types of its SDK 1.0.14)",
    "opencode": "OpenCode 1.18.34 (its program, and the types of its plugin package 1.18.33)",
    "cursor": "Cursor (the program in its SDK 1.0.18)",
    "gemini-cli": "Gemini CLI 0.61.0 (its core package, and the documentation in it)",
    "qwen-code": "Qwen Code 0.15.10 (its program, and the documentation in it)",
    "codex": "Codex (its source and schemas of August 2026)",
    "crush": "Crush (its source and documentation of August 2026)",
    "goose": "Goose (its source and documentation of May 2026)",
}

SECRET = "hunter2hunter2"
"""A password in every recorded output: no answer may contain it."""

NEEDLE = "connection refused by payments-db"
"""What the recorded session is about: every shortened answer has to show it."""

_NUMBER = (int, float)

CLAUDE_CODE_OUTPUTS: dict[str, dict[str, Any]] = {
    "Bash": {
        "stdout": str, "stderr": str, "interrupted": bool,
        "rawOutputPath?": str, "isImage?": bool, "backgroundTaskId?": str, "backgroundedByUser?": bool,
        "timedOutAfterMs?": _NUMBER, "dangerouslyDisableSandbox?": bool, "returnCodeInterpretation?": str,
        "noOutputExpected?": bool, "structuredContent?": list, "persistedOutputPath?": str,
        "persistedOutputSize?": _NUMBER, "staleReadFileStateHint?": str, "ghRateLimitHint?": str, "gitOperation?": dict,
    },
    "Read": {
        "type": str,
        "file": {
            "filePath": str, "content": str, "numLines": _NUMBER, "startLine": _NUMBER, "totalLines": _NUMBER,
            "truncatedByTokenCap?": bool,
        },
    },
    "Grep": {
        "mode?": str, "numFiles": _NUMBER, "filenames": [str], "content?": str, "numLines?": _NUMBER,
        "numMatches?": _NUMBER, "totalFiles?": _NUMBER, "totalLines?": _NUMBER, "appliedLimit?": _NUMBER,
        "appliedOffset?": _NUMBER, "timedOut?": bool,
    },
    "Glob": {
        "durationMs": _NUMBER, "numFiles": _NUMBER, "filenames": [str], "truncated": bool, "totalMatches?": _NUMBER,
        "countIsComplete?": bool, "timedOut?": bool,
    },
    "WebFetch": {
        "bytes": _NUMBER, "code": _NUMBER, "codeText": str, "result": str, "durationMs": _NUMBER, "url": str,
    },
    "mcp__tickets__search": {"*": {"type": str, "text?": str}},
}  # fmt: skip
"""The output of each tool; a key with `?` may be missing, a list names what its items are, `*` stands for a list."""


_DENIED = {
    "hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": "deny",
        "permissionDecisionReason": str,
    }
}
REFUSALS: dict[str, dict[str, Any]] = {
    "claude-code": _DENIED,
    "copilot": {"permissionDecision": "deny", "permissionDecisionReason": str},
    "opencode": {"refused": str},
    "cursor": {"permission": "deny", "user_message?": str, "agent_message?": str},
    "gemini-cli": {"decision": "deny", "reason": str},
    "qwen-code": _DENIED,
    "codex": _DENIED,
    "crush": {"decision": "deny", "reason": str},
    "goose": {"decision": "block", "reason": str},
}
"""The answer by which a client refuses a tool call; a text in it stands for itself."""

_CONTENT = {"*": {"type": str, "text?": str}}
REPLACEMENTS: dict[str, list[dict[str, Any]]] = {
    "claude-code": [
        {"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": output}}
        for output in CLAUDE_CODE_OUTPUTS.values()
    ],
    "copilot": [{"modifiedResult": {"resultType": "success", "textResultForLlm": str}}] * 4,
    "opencode": [{"output": str}, {"output": str}, {"content": _CONTENT}],
    "cursor": [{"updated_mcp_tool_output": {"content": _CONTENT, "isError": bool}}],
}
"""The answers by which a client replaces the results in `events_of`, one after the other."""


def refusal_of(value: Any, schema: Any, place: str = "answer") -> str:
    """Why a client would not accept a value; empty if it would."""
    if isinstance(schema, str):
        return "" if value == schema else f"{place} is not {schema!r}"
    if isinstance(schema, dict) and "*" in schema:
        if not isinstance(value, list):
            return f"{place} is not a list"
        return next(
            filter(None, (refusal_of(item, schema["*"], f"{place}[{at}]") for at, item in enumerate(value))), ""
        )
    if isinstance(schema, list):
        if not isinstance(value, list):
            return f"{place} is not a list"
        return next((f"{place}[{at}] is wrong" for at, one in enumerate(value) if not isinstance(one, schema[0])), "")
    if isinstance(schema, dict):
        if not isinstance(value, dict):
            return f"{place} is not an object"
        for name, inner in schema.items():
            key = name.removesuffix("?")
            if key not in value:
                if name == key:
                    return f"{place}.{key} is missing"
            elif reason := refusal_of(value[key], inner, f"{place}.{key}"):
                return reason
        return ""
    is_number = schema is _NUMBER
    if not isinstance(value, schema) or (is_number and isinstance(value, bool)):
        return f"{place} has the wrong type"
    return ""


def events_of(client: str, folder: str) -> list[dict[str, Any]]:
    """One large result of each shape, with a secret in it, as the client reports them; none if it takes no answer.

    Args:
        folder: The agent's folder; there need not be anything in it.
    """
    events = claude_code_events(folder)
    by_tool = {event["tool_name"]: event for event in events}
    log: str = by_tool["Bash"]["tool_response"]["stdout"]
    command: dict[str, Any] = by_tool["Bash"]["tool_input"]
    blocks = [{"type": "text", "text": log}]
    source: str = by_tool["Read"]["tool_response"]["file"]["content"][:40_000]
    if client == "claude-code":
        return events
    if client == "copilot":
        results = [
            ("bash", command, f"{log}\n<exited with exit code 1>"),
            ("view", {"path": f"{folder}/src/shop.py"}, source),
            ("grep", {"pattern": "refused"}, log),
            ("tickets-search", {"query": "payments-db"}, log),
        ]
        return [
            {
                "sessionId": "3c9e1a52",
                "timestamp": 1794812400000,
                "cwd": folder,
                "toolName": tool,
                "toolArgs": given,
                "toolResult": {"resultType": "success", "textResultForLlm": text},
            }
            for tool, given, text in results
        ]
    if client == "opencode":
        return [
            {"tool_name": tool, "tool_input": given, "tool_use_id": "call_1", "cwd": folder, "tool_response": output}
            for tool, given, output in (
                ("bash", command, {"output": log}),
                ("read", {"filePath": f"{folder}/src/shop.py"}, {"output": source}),
                ("tickets_search", {"query": "payments-db"}, {"content": blocks}),
            )
        ]
    if client == "cursor":
        return [
            {
                "conversation_id": "668320d2",
                "generation_id": "490b90b7",
                "model": "default",
                "hook_event_name": "postToolUse",
                "cursor_version": "2.4.0",
                "workspace_roots": [folder],
                "tool_name": "MCP:search",
                "tool_input": {"query": "payments-db"},
                "tool_output": json.dumps({"content": blocks, "isError": False}),
                "duration": 80,
                "tool_use_id": "toolu_01",
            }
        ]
    return []


def writing_event_of(client: str, folder: str, content: str) -> dict[str, Any]:
    """The event before a tool call that writes the content to a file."""
    given = {"file_path": f"{folder}/.env", "content": content}
    if client == "copilot":
        return {"sessionId": "3c9e1a52", "timestamp": 1, "cwd": folder, "toolName": "create", "toolArgs": given}
    names = {"claude-code": "Write", "cursor": "Write", "codex": "apply_patch", "gemini-cli": "write_file"}
    event = {"claude-code": "PreToolUse", "cursor": "preToolUse", "gemini-cli": "BeforeTool"}.get(client, "PreToolUse")
    name = {"event": event} if client in ("crush", "goose") else {"hook_event_name": event}
    tool = names.get(client, "write")
    return {**name, "session_id": "313909e", "cwd": folder, "tool_name": tool, "tool_input": given}


def claude_code_events(folder: str) -> list[dict[str, Any]]:
    """One large result of each tool, with a secret in it, as Claude Code reports them.

    Args:
        folder: The agent's folder; there need not be anything in it.
    """
    log = [
        f"2026-11-16T07:{at // 60 % 60:02}:{at % 60:02}Z INFO request {at} served in {at % 97} ms" for at in range(3000)
    ]
    log[1500] = f"2026-11-16T07:25:00Z ERROR {NEEDLE} user=shop password={SECRET}"
    text = "\n".join(log)
    names = [f"src/module_{at}/part_{at % 40}/index.ts" for at in range(3000)]
    source = [f"def function_{at}():\n    return {at}\n" for at in range(9000)]
    source[3] = f'password = "{SECRET}"  # {NEEDLE}\n'
    page = "\n\n".join(f"Paragraph {at}: the service answers after a while, says chapter {at}." for at in range(2000))
    outputs: list[tuple[str, dict[str, Any], Any]] = [
        (
            "Bash",
            {"command": "kubectl logs deploy/shop", "description": "Read the log of the shop"},
            {"stdout": text, "stderr": "", "interrupted": False, "isImage": False, "noOutputExpected": False},
        ),
        (
            "Read",
            {"file_path": f"{folder}/src/shop.py"},
            {
                "type": "text",
                "file": {
                    "filePath": f"{folder}/src/shop.py",
                    "content": "\n".join(source),
                    "numLines": len("\n".join(source).split("\n")),
                    "startLine": 1,
                    "totalLines": len("\n".join(source).split("\n")),
                },
            },
        ),
        (
            "Grep",
            {"pattern": "served|refused", "output_mode": "content", "-n": True},
            {
                "mode": "content",
                "numFiles": 0,
                "filenames": [],
                "content": "\n".join(f"logs/shop.log:{at}:{line}" for at, line in enumerate(log, 1)),
                "numLines": len(log),
            },
        ),
        (
            "Glob",
            {"pattern": "**/*.ts"},
            {"durationMs": 12, "numFiles": len(names), "filenames": names, "truncated": False},
        ),
        (
            "WebFetch",
            {"url": "https://example.org/runbook", "prompt": "What to do when the database refuses connections?"},
            {
                "bytes": len(page),
                "code": 200,
                "codeText": "OK",
                "result": f"{page}\n\nWhen you see {NEEDLE}, set password={SECRET} again.",
                "durationMs": 80,
                "url": "https://example.org/runbook",
            },
        ),
        ("mcp__tickets__search", {"query": "payments-db"}, [{"type": "text", "text": text}]),
    ]
    return [
        {
            "session_id": "00893aaf-19fa-41d2-8238-13269b9b3ca0",
            "transcript_path": f"{folder}/00893aaf-19fa-41d2-8238-13269b9b3ca0.jsonl",
            "cwd": folder,
            "permission_mode": "default",
            "hook_event_name": "PostToolUse",
            "tool_name": tool,
            "tool_input": given,
            "tool_response": output,
            "tool_use_id": f"toolu_01{tool.replace('_', '')}",
            "duration_ms": 12,
        }
        for tool, given, output in outputs
    ]
