"""One tool call of a coding agent: which parts of its output are text, and the answer that replaces them.

An answer replaces a tool's output only if it has exactly the shape of that tool's own;
otherwise clients ignore it without a word. So the output is recognised by its shape,
changed in place, and compared with the original before it is sent. An unknown shape
passes untouched. `dialects` knows how each client writes events and reads answers.

Shapes of Claude Code are those of version 2.1.325 (`sdk-tools.d.ts` of its package);
`updatedToolOutput` works for all tools since 2.1.121. Failed commands go to
`PostToolUseFailure`, which cannot replace anything.
"""

import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tersely.coding.dialects import DIALECTS
from tersely.coding.results import ResultShortener

if TYPE_CHECKING:
    from tersely.pipeline.core import NoteWriter
    from tersely.pipeline.one_shot import OneShot

REFUSAL = (
    "This input contains a mask of tersely, such as {mark}, where the real value belongs; it would replace the secret. "
    "Leave that value as it is: change only the text around it, or refer to the variable or file that holds it."
)

WHOLE = "Unshortened: TERSELY_OFF=1 before the command."
READ_THRESHOLD_FACTOR = 5
"""A file that the agent asked for is shown whole up to this many times the threshold."""

_MARK = re.compile(r"\[MASKED:[a-z0-9_]{1,40}:[0-9a-f]{12}\]")
_OURS = re.compile(r"\s*(?:TERSELY_\w+=\S*\s+)*(?:\S*/)?tersely\s+(?:run|read|condense|hook|stats)\b[^;&|\n<>$`]*")
_OFF = re.compile(r"(?:^|[\s;&|(])TERSELY_OFF=[1-9]")
_INSTRUCTIONS = re.compile(
    r"(?:^|/)(?:CLAUDE(?:\.local)?|AGENTS?|GEMINI|QWEN|CRUSH|SKILL|copilot-instructions)\.md$"
    r"|(?:^|/)\.(?:cursorrules|windsurfrules|clinerules|goosehints)$"
    r"|(?:^|/)\.(?:claude|codex|cursor|gemini|qwen|github|opencode|crush|agents)/"
    r"(?:.*/)?(?:skills?|agents?|commands?|rules|prompts|instructions|output-styles|plugins)/"
)
"""Files that instruct an agent: they are read to be followed, word by word."""

_PATHS = ("path", "filePath", "file_path")
"""How clients name the file that a tool reads."""

_LARGEST_PERSISTED = 32 * 2**20
_TRANSCRIPT_BYTES = 256 * 1024


class ToolHook:
    """Answers the events of one process.

    Args:
        client: A key of `DIALECTS`.
        masks_workspace: Whether files below the agent's folder are masked when they are read.
        leave: Names of tools that are left alone; `*` stands for any characters.
        reader: The tool with which the client's model reads kept results; without one, it uses its shell.
    """

    def __init__(
        self,
        shortener: ResultShortener,
        *,
        client: str = "claude-code",
        masks_workspace: bool = True,
        leave: tuple[str, ...] = (),
        reader: str = "",
    ) -> None:
        self.shortener = shortener
        self.client = client
        self.dialect = DIALECTS[client]
        self.masks_workspace = masks_workspace
        self.leave = leave
        self.reader = reader

    def answer(self, event: Mapping[str, Any]) -> dict[str, Any] | None:
        """The answer to one event; None if there is nothing to say.

        Raises:
            MaskingFailed: The output could not be masked.
        """
        dialect = self.dialect
        tool = event.get(dialect.tool)
        given = _parsed(event.get(dialect.given))
        if not isinstance(tool, str) or not isinstance(given, Mapping):
            return None
        name = event.get(dialect.event)
        if name == dialect.before or (name is None and dialect.result not in event):
            return self._refused(given)
        if dialect.replace is None or name not in (dialect.after, None) or self._is_left(tool):
            return None
        output = event.get(dialect.result)
        if self.client == "cursor":
            output = _parsed(output)
        call = _ToolCall(self, event, tool, given)
        replaced = call.replaced(output)
        if replaced is None or replaced == output or not same_shape(output, replaced):
            return None
        call.count()
        return dialect.replace(replaced)

    def _is_left(self, tool: str) -> bool:
        if not self.leave:
            return False
        from fnmatch import fnmatchcase

        return any(fnmatchcase(tool, pattern) for pattern in self.leave)

    def _refused(self, given: Mapping[str, Any]) -> dict[str, Any] | None:
        """Refuse input with one of our marks; a mark that someone else wrote, e.g. in a test, is no secret."""
        marks = {mark for text in _strings(given) for mark in _MARK.findall(text)}
        if not marks:
            return None
        masker = self.shortener.masker()
        ours = sorted(mark for mark in marks if masker is None or masker.has_mark(mark))
        if not ours:
            return None
        return self.dialect.refuse(REFUSAL.format(mark=ours[0]))


class _ToolCall:
    """One result on its way through the pipeline."""

    def __init__(self, hook: ToolHook, event: Mapping[str, Any], tool: str, given: Mapping[str, Any]) -> None:
        self.hook = hook
        self.shortener = hook.shortener
        self.event = event
        self.tool = tool
        self.given = given
        self.shown: list[OneShot] = []
        command = given.get("command")
        self.is_command = tool in hook.dialect.commands
        self.is_off = self.is_command and isinstance(command, str) and _OFF.search(command) is not None

    def replaced(self, output: Any) -> Any:
        """The output after the pipeline, in its own shape; None for an unknown shape."""
        dialect = self.hook.dialect
        if dialect.text and isinstance(output, dict) and isinstance(output.get(dialect.text), str):
            return self._with_text(output, dialect.text)
        if self.hook.client != "claude-code":
            return self._mcp(output) if isinstance(output, dict) else None
        by_tool: dict[str, Callable[[Any], Any]] = {
            "Bash": self._bash,
            "Read": self._read,
            "Grep": self._grep,
            "Glob": self._glob,
            "WebFetch": self._web_page,
        }
        if self.tool.startswith("mcp__"):
            return self._mcp(output)
        known = by_tool.get(self.tool)
        return known(output) if known and isinstance(output, dict) else None

    def count(self) -> None:
        """Add the call to the statistics; what counts is decided when they are read, from the transcript."""
        for one in self.shown:
            if one.condensed:
                self.shortener.count(
                    "hook",
                    self.tool,
                    one,
                    client=self.hook.client,
                    transcript=self.event.get("transcript_path"),
                    tool_use_id=self.event.get("tool_use_id"),
                )

    # Shapes

    def _with_text(self, output: dict[str, Any], key: str) -> dict[str, Any] | None:
        """A result whose text is under one key, whatever the tool."""
        dialect, text = self.hook.dialect, output[key]
        if output.get("resultType", "success") != "success":
            return None
        if self.tool in dialect.files:
            path = next((self.given[name] for name in _PATHS if isinstance(self.given.get(name), str)), "")
            if _INSTRUCTIONS.search(path.replace("\\", "/")):
                return None
            if not self.hook.masks_workspace and self._is_in_workspace(path):
                return None
            return {**output, key: self._admitted(text)}
        if self.is_command:
            command = self.given.get("command")
            if isinstance(command, str) and _OURS.fullmatch(command):
                return None
        elif self.tool not in dialect.texts and not dialect.mcp(self.tool):
            return None
        return {**output, key: self._text(text)}

    def _bash(self, output: dict[str, Any]) -> dict[str, Any] | None:
        if not _has(output, stdout=str, stderr=str, interrupted=bool) or output.get("isImage"):
            return None
        command = self.given.get("command")
        if output.get("structuredContent") or (isinstance(command, str) and _OURS.fullmatch(command)):
            return None
        changed = dict(output)
        stdout = output["stdout"]
        whole = _persisted(output.get("persistedOutputPath"))
        if whole is not None and not self.is_off:
            result = self._processed(whole, budget=None)
            if result.condensed:
                # The client would cut our text down to a preview of its own file.
                for name in ("persistedOutputPath", "persistedOutputSize", "stdoutHoldsOutputEnd"):
                    changed.pop(name, None)
                changed["stdout"] = str(result.text)
                stdout = ""
        if stdout:
            changed["stdout"] = self._text(stdout)
        if output["stderr"]:
            budget = self.shortener.budget // 3 if self.shown and self.shown[-1].condensed else None
            changed["stderr"] = self._text(output["stderr"], budget=budget)
        return changed

    def _read(self, output: dict[str, Any]) -> dict[str, Any] | None:
        file = output.get("file")
        if output.get("type") != "text" or not isinstance(file, dict):
            return None
        if not _has(file, filePath=str, content=str, numLines=int, startLine=int, totalLines=int):
            return None
        if _INSTRUCTIONS.search(file["filePath"].replace("\\", "/")):
            return None
        masks = self.hook.masks_workspace or not self._is_in_workspace(file["filePath"])
        is_whole = self.given.get("offset") is None and self.given.get("limit") is None
        changed = dict(file)
        content = self._admitted(file["content"]) if masks else file["content"]
        if is_whole and not file.get("truncatedByTokenCap"):
            content = self._first_lines(content, file["startLine"])
        changed["content"] = content
        changed["numLines"] = content.count("\n") + 1 if content != file["content"] else file["numLines"]
        return {**output, "file": changed}

    def _grep(self, output: dict[str, Any]) -> dict[str, Any] | None:
        if not _has(output, numFiles=int, filenames=list) or not all(
            isinstance(one, str) for one in output["filenames"]
        ):
            return None
        changed = dict(output)
        if isinstance(output.get("content"), str):
            changed["content"] = self._text(output["content"])
        changed["filenames"] = self._lines(output["filenames"])
        return changed

    def _glob(self, output: dict[str, Any]) -> dict[str, Any] | None:
        if not _has(output, numFiles=int, filenames=list, truncated=bool):
            return None
        if not all(isinstance(one, str) for one in output["filenames"]):
            return None
        return {**output, "filenames": self._lines(output["filenames"])}

    def _web_page(self, output: dict[str, Any]) -> dict[str, Any] | None:
        if not _has(output, result=str, url=str, code=int):
            return None
        return {**output, "result": self._text(output["result"])}

    def _mcp(self, output: Any) -> Any:
        if isinstance(output, str):
            return self._text(output)
        if isinstance(output, list):
            return self._blocks(output)
        if isinstance(output, dict) and isinstance(output.get("content"), list):
            blocks = self._blocks(output["content"])
            return None if blocks is None else {**output, "content": blocks}
        return None

    def _blocks(self, blocks: list[Any]) -> list[Any] | None:
        if not all(isinstance(block, dict) and isinstance(block.get("type"), str) for block in blocks):
            return None
        return [
            {**block, "text": self._text(block["text"])}
            if block["type"] == "text" and isinstance(block.get("text"), str)
            else block
            for block in blocks
        ]

    # Texts

    def _admitted(self, text: str) -> str:
        from tersely.pipeline.one_shot import admit_once

        return str(admit_once(text, self.shortener.masker))

    def _text(self, text: str, budget: int | None = None) -> str:
        return self._admitted(text) if self.is_off else str(self._processed(text, budget).text)

    def _processed(self, text: str, budget: int | None) -> "OneShot":
        result = self.shortener.process(
            text,
            tool=self.tool,
            arguments=dict(self.given),
            call=self._call(),
            looking_for=self._request,
            note=self._note,
            budget=budget,
            # Where there is one text for everything, its last line says how a command ended.
            shows_end=self.is_command and bool(self.hook.dialect.text),
        )
        self.shown.append(result)
        return result

    def _lines(self, names: list[str]) -> list[str]:
        """A list of names, as one text; the note is its last line."""
        text = "\n".join(names)
        shown = self._text(text)
        return names if shown == text else shown.split("\n")

    def _first_lines(self, content: str, start: int) -> str:
        """The beginning of a large file, verbatim: the client numbers lines without gaps, and edits need its lines."""
        from tersely.pipeline.one_shot import is_small

        threshold = self.shortener.threshold
        if is_small(content, threshold * READ_THRESHOLD_FACTOR):
            return content
        from tersely.pipeline.first_lines import first_lines

        result = first_lines(
            content, start, threshold=threshold * READ_THRESHOLD_FACTOR, budget=threshold, focus=self._request()
        )
        if result is None:
            return content
        self.shown.append(result)
        return str(result.text)

    def _call(self) -> str:
        names = ("command", "description", "pattern", "path", "file_path", "glob", "prompt", "query", "url")
        words = [self.given[name] for name in names if isinstance(self.given.get(name), str)]
        return " ".join(words or _strings(self.given))

    def _request(self) -> str:
        """What the user asked for last."""
        path = self.event.get("transcript_path")
        if not isinstance(path, str):
            return ""
        from tersely.coding.transcripts import last_request

        return last_request(path, _TRANSCRIPT_BYTES)

    def _note(self) -> "NoteWriter":
        from tersely.coding.notes import ShellNoteWriter

        return ShellNoteWriter(read=self.hook.reader, whole=WHOLE if self.is_command else "")

    def _is_in_workspace(self, path: str) -> bool:
        folder = self.event.get("cwd")
        return isinstance(folder, str) and os.path.normpath(path).startswith(os.path.normpath(folder) + os.sep)


def same_shape(one: Any, other: Any) -> bool:
    """Whether a value has the same keys and types as another, so that a client accepts it in its place.

    Lists may have any length, as long as their items are alike; the optional keys of an output that was written to a
    file may be missing.
    """
    if isinstance(one, bool) or isinstance(other, bool) or one is None or other is None:
        return type(one) is type(other)
    if isinstance(one, int | float) and isinstance(other, int | float):
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        dropped = {"persistedOutputPath", "persistedOutputSize", "stdoutHoldsOutputEnd"}
        return one.keys() - dropped <= other.keys() <= one.keys() and all(
            same_shape(one[key], other[key]) for key in other
        )
    if isinstance(one, list):
        kinds = {type(item) for item in one}
        if all(isinstance(item, dict) for item in one):
            return len(one) == len(other) and all(map(same_shape, one, other))
        return {type(item) for item in other} <= kinds
    return True


def _has(value: Mapping[str, Any], **kinds: type) -> bool:
    return all(isinstance(value.get(name), kind) for name, kind in kinds.items())


def _parsed(value: Any) -> Any:
    """A value that some clients send as JSON text."""
    if not isinstance(value, str):
        return value
    import json

    try:
        return json.loads(value)
    except ValueError:
        return value


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    return [text for inner in value for text in _strings(inner)] if isinstance(value, list) else []


def _persisted(path: Any) -> str | None:
    """The whole output, where the client wrote it to a file because it is large."""
    if not isinstance(path, str):
        return None
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            content = file.read(_LARGEST_PERSISTED + 1)
    except OSError:
        return None
    if len(content) > _LARGEST_PERSISTED or b"\0" in content[:8192]:
        return None
    return content.decode("utf-8", "replace")
