"""Coding agents whose settings `tersely hook install` can change: where hooks are declared, and how ours are written.

Entries are inserted as text, so that comments, order and formatting of the file stay. With
the copy of the original beside it, undoing restores the file byte for byte; where the file
has changed since, only our entries are removed. OpenCode has no such file: it loads a plugin,
which is ours as a whole.
"""

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tersely.errors import ConfigError
from tersely.settings.files import Document, Key, parse_json

Entries = Sequence[tuple[str, Mapping[str, Any]]]
"""Events, and the entry that each gets."""


def _nested(matcher: str, command: str, seconds: int) -> dict[str, Any]:
    return {"matcher": matcher, "hooks": [{"type": "command", "command": command, "timeout": seconds}]}


def _nested_in_milliseconds(matcher: str, command: str, seconds: int) -> dict[str, Any]:
    return _nested(matcher, command, seconds * 1000)


def _flat(matcher: str, command: str, seconds: int) -> dict[str, Any]:
    return {"matcher": matcher, "command": command, "timeout": seconds}


def _for_copilot(matcher: str, command: str, seconds: int) -> dict[str, Any]:
    # A hook before a call that fails denies the call, also if tersely is not installed any more.
    return {"type": "command", "matcher": matcher, "bash": f"{command} || true", "timeoutSec": seconds}


@dataclass(frozen=True, kw_only=True)
class HookClient:
    """A coding agent that declares hooks in a JSON file, by event."""

    name: str
    title: str
    user: str
    """Its file below the home folder."""

    project: str
    """Its file below a project's folder."""

    events: Mapping[str, str]
    """The events, each with a pattern of the tools whose output is replaced, or whose input is looked at."""

    entry: Callable[[str, str, int], Mapping[str, Any]] = _nested
    """Writes one entry: of a pattern, a command and its time limit in seconds."""

    empty: str = "{}\n"
    """A file without hooks."""

    plugin: str = ""
    """The text of a plugin, for a client without such a file; `COMMAND` stands for the words of ours, as JSON."""

    restart: str
    source: str
    """The documentation that describes the format."""

    def entries(self, command: str, seconds: float) -> Entries:
        """What is declared: for each event, the tools and our command."""
        return [(event, self.entry(matcher, command, round(seconds) + 5)) for event, matcher in self.events.items()]

    def with_hooks(self, path: Path, text: str, words: Sequence[str], seconds: float) -> str:
        """The text of its file with our hooks.

        Raises:
            ConfigError: The file is of an unknown form, or someone else's.
        """
        if not self.plugin:
            return with_hooks(path, text if text.strip() else self.empty, self.entries(shlex.join(words), seconds))
        if text.strip() and not self.has_hooks(path, text):
            raise ConfigError(f"{path}: is not a plugin that tersely wrote. Move it away first.")
        return self.plugin.replace("COMMAND", json.dumps(list(words)), 1)

    def without_hooks(self, path: Path, text: str, original: str | None) -> str:
        """The text of its file without our hooks; empty if nothing else is in it, and there was no file."""
        after = "" if self.plugin else without_hooks(path, text, original)
        return "" if original == "" and after.split() == self.empty.split() else after

    def has_hooks(self, path: Path, text: str) -> bool:
        return text.startswith(_PLUGIN_BEGINS) if self.plugin else has_hooks(path, text)


_PLUGIN_BEGINS = "// Written by `tersely hook install opencode`"

_OPENCODE_PLUGIN = f"""\
{_PLUGIN_BEGINS}; `--undo` removes it.
// Whatever fails here, the tool's own result stays.
import {{ spawn }} from "node:child_process"

const command = COMMAND

const ask = (event) =>
  new Promise((resolve) => {{
    const parts = []
    const child = spawn(command[0], command.slice(1), {{ stdio: ["pipe", "pipe", "ignore"] }})
    const timer = setTimeout(() => child.kill(), 15000)
    const end = () => {{
      clearTimeout(timer)
      try {{
        resolve(JSON.parse(Buffer.concat(parts).toString("utf8")))
      }} catch {{
        resolve({{}})
      }}
    }}
    child.on("error", end)
    child.on("close", end)
    child.stdin.on("error", () => {{}})
    child.stdout.on("data", (part) => parts.push(part))
    child.stdin.end(JSON.stringify(event))
  }})

export const Tersely = async ({{ directory }}) => ({{
  "tool.execute.before": async (input, output) => {{
    if (!JSON.stringify(output.args ?? {{}}).includes("[MASKED:")) return
    const answer = await ask({{ tool_name: input.tool, tool_input: output.args, cwd: directory }})
    if (answer.refused) throw new Error(answer.refused)
  }},
  "tool.execute.after": async (input, output) => {{
    if (!output) return
    const response = typeof output.output === "string" ? {{ output: output.output }} : {{ content: output.content }}
    const answer = await ask({{
      tool_name: input.tool,
      tool_input: input.args ?? {{}},
      tool_use_id: input.callID,
      cwd: directory,
      tool_response: response,
    }})
    if (typeof answer.output === "string") output.output = answer.output
    else if (Array.isArray(answer.content)) output.content = answer.content
  }},
}})
"""

_VERSION_1 = '{\n  "version": 1\n}\n'

HOOK_CLIENTS = {
    client.name: client
    for client in (
        HookClient(
            name="claude-code",
            title="Claude Code",
            user=".claude/settings.json",
            project=".claude/settings.json",
            events={
                "PostToolUse": "Bash|Read|Grep|Glob|WebFetch|mcp__.*",
                "PreToolUse": "Write|Edit|MultiEdit|NotebookEdit|Bash",
            },
            restart="Start a new session of Claude Code; /hooks lists what is active.",
            source="https://code.claude.com/docs/en/hooks",
        ),
        HookClient(
            name="copilot",
            title="Copilot CLI",
            user=".copilot/hooks/tersely.json",
            project=".github/hooks/tersely.json",
            events={
                "postToolUse": "bash|powershell|view|grep|rg|glob|web_fetch|.+-.+",
                "preToolUse": "bash|powershell|create|edit|str_replace_editor|apply_patch",
            },
            entry=_for_copilot,
            empty=_VERSION_1,
            restart="Start a new session of Copilot CLI.",
            source="https://docs.github.com/en/copilot/reference/hooks-reference",
        ),
        HookClient(
            name="opencode",
            title="OpenCode",
            user=".config/opencode/plugins/tersely.js",
            project=".opencode/plugins/tersely.js",
            events={},
            plugin=_OPENCODE_PLUGIN,
            restart="Start OpenCode again; it loads plugins when it starts.",
            source="https://opencode.ai/docs/plugins",
        ),
        HookClient(
            name="cursor",
            title="Cursor",
            user=".cursor/hooks.json",
            project=".cursor/hooks.json",
            events={"postToolUse": "MCP:.*", "preToolUse": "Shell|Write|StrReplace|Edit|EditNotebook"},
            entry=_flat,
            empty=_VERSION_1,
            restart="Cursor reads the file again when it is saved.",
            source="https://cursor.com/docs/agent/hooks",
        ),
        HookClient(
            name="gemini-cli",
            title="Gemini CLI",
            user=".gemini/settings.json",
            project=".gemini/settings.json",
            events={"BeforeTool": "write_file|replace|run_shell_command"},
            entry=_nested_in_milliseconds,
            restart="Start a new session of Gemini CLI; /hooks lists what is active.",
            source="https://geminicli.com/docs/hooks/reference",
        ),
        HookClient(
            name="qwen-code",
            title="Qwen Code",
            user=".qwen/settings.json",
            project=".qwen/settings.json",
            events={"PreToolUse": "*"},
            entry=_nested_in_milliseconds,
            restart="Start a new session of Qwen Code.",
            source="https://qwenlm.github.io/qwen-code-docs/en/users/features/hooks",
        ),
        HookClient(
            name="codex",
            title="Codex",
            user=".codex/hooks.json",
            project=".codex/hooks.json",
            events={"PreToolUse": "Bash|apply_patch|Edit|Write"},
            restart="Start a new session of Codex, and trust the hook in /hooks.",
            source="https://developers.openai.com/codex/hooks",
        ),
        HookClient(
            name="crush",
            title="Crush",
            user=".config/crush/crush.json",
            project="crush.json",
            events={"PreToolUse": "^(bash|edit|multiedit|write)$"},
            entry=_flat,
            restart="Start Crush again.",
            source="https://github.com/charmbracelet/crush/blob/main/docs/hooks/README.md",
        ),
        HookClient(
            name="goose",
            title="Goose",
            user=".agents/plugins/tersely/hooks/hooks.json",
            project=".agents/plugins/tersely/hooks/hooks.json",
            # Its tools are named after extensions, which have names of the user's choice.
            events={"PreToolUse": ".*"},
            restart="Start a new session of Goose.",
            source="https://block.github.io/goose/docs/guides/context-engineering/hooks",
        ),
    )
}


def with_hooks(path: Path, text: str, entries: Entries) -> str:
    """The text of a settings file with our entries, in place of earlier ones of ours.

    Raises:
        ConfigError: The file cannot be parsed, or declares hooks in a way we do not know.
    """
    text = without_hooks(path, text)
    for event, entry in entries:
        text = _inserted(path, text, event, entry)
    parse_json(path, text)  # Never write a file that the client cannot read.
    return text


def without_hooks(path: Path, text: str, original: str | None = None) -> str:
    """The text of a settings file without our entries.

    Args:
        original: The text before ours were inserted, if a copy is left: what it does not have either goes too.
    """
    while text.strip() and (ours := _ours(path, text)):
        text = _removed(parse_json(path, text), text, ours[0])
    if original is not None and text.strip():
        before = _data(path, original)
        for key in _emptied(_data(path, text), before):
            text = _removed(parse_json(path, text), text, key)
    return text


def has_hooks(path: Path, text: str) -> bool:
    return bool(text.strip() and _ours(path, text))


def _data(path: Path, text: str) -> Any:
    return parse_json(path, text).data if text.strip() else {}


def _ours(path: Path, text: str) -> list[Key]:
    """The keys of our entries."""
    hooks = _declared(path, _data(path, text))
    return [
        ("hooks", event, at)
        for event, listed in hooks.items()
        for at, entry in enumerate(listed if isinstance(listed, list) else ())
        if re.search(r"\btersely\b[^|;&]*\bhook [a-z]", json.dumps(entry))
    ]


def _declared(path: Path, data: Any) -> Mapping[str, Any]:
    hooks = data.get("hooks", {}) if isinstance(data, dict) else None
    if not isinstance(hooks, dict):
        raise ConfigError(f"{path}: `hooks` is not an object, so hooks cannot be added to it. Change it by hand.")
    return hooks


def _emptied(data: Any, before: Any) -> list[Key]:
    """Keys that have nothing in them and were not there before, inner ones first."""
    hooks, earlier = (one.get("hooks") if isinstance(one, dict) else None for one in (data, before))
    if not isinstance(hooks, dict):
        return []
    known = earlier if isinstance(earlier, dict) else {}
    events: list[Key] = [("hooks", event) for event, listed in hooks.items() if listed == [] and event not in known]
    return events + ([("hooks",)] if earlier is None and len(events) == len(hooks) else [])


def _inserted(path: Path, text: str, event: str, entry: Mapping[str, Any]) -> str:
    text = text if text.strip() else "{}\n"
    document = parse_json(path, text)
    hooks = _declared(path, document.data)
    if "hooks" not in document.data:
        return _put(document, text, (), f'"hooks": {_written({event: [entry]})}', document.data)
    if event not in hooks:
        return _put(document, text, ("hooks",), f"{json.dumps(event)}: {_written([entry])}", hooks)
    if not isinstance(hooks[event], list):
        raise ConfigError(f"{path}: `hooks.{event}` is not a list, so hooks cannot be added to it. Change it by hand.")
    return _put(document, text, ("hooks", event), _written(entry), hooks[event])


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _put(document: Document, text: str, inside: Key, written: str, members: Any) -> str:
    """Insert a member as the first one of an object or a list."""
    at = document.spans[inside][0] + 1
    indent = "\n" + "  " * (len(inside) + 1)
    addition = indent + written.replace("\n", indent) + ("," if members else "\n" + "  " * len(inside))
    if "\r\n" in text:
        addition = addition.replace("\n", "\r\n")
    return text[:at] + addition + text[at:]


def _removed(document: Document, text: str, key: Key) -> str:
    """Remove a member, with its comma."""
    parent = key[:-1]
    siblings = [other for other in document.spans if len(other) == len(key) and other[:-1] == parent]
    siblings.sort(key=lambda other: document.spans[other][0])
    end = document.spans[key][1]
    place = siblings.index(key)
    if place:
        return text[: document.spans[siblings[place - 1]][1]] + text[end:]
    opening, closing = document.spans[parent]
    # The inverse of `_put`: everything from the bracket to the comma is ours.
    return text[: opening + 1] + (text[text.index(",", end) + 1 :] if len(siblings) > 1 else text[closing - 1 :])
