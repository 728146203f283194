"""The ReAct controller, for models without function calling: tools are called in text, between markers.

The parser receives only what the model wrote, never tool text. It accepts what models
really write (bold markers, code fences, YAML, a missing line break), and otherwise
states exactly what was wrong.

In a prompt, tool text is quoted: line breaks of every kind become plain ones, and
a line that begins like a marker, in whatever letters, is prefixed with "| ".
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tersely.agent.arguments import describe
from tersely.agent.asking import Turn, WrittenTurn
from tersely.agent.calls import ToolCallResult
from tersely.agent.controller import Decision
from tersely.agent.conversation import Reply
from tersely.agent.toolbox import Toolbox
from tersely.condensing.prompt_files import Prompt
from tersely.llm.messages import Message, ToolCall, ToolSpec
from tersely.masking.masked import Masked, own_words

RULES = Prompt("react", "tersely.agent")

Marker = Literal["thought", "action", "action input", "observation", "final answer"]

_DECORATION = r"[ \t>*_#`\-]*"
_MARKER = re.compile(
    # At the beginning of a line, or glued to the end of a sentence.
    rf"(?:^{_DECORATION}|(?<=[.!?)\]])[ \t]*)(?P<name>thought|action[ \t_]?input|action|observation|final[ \t_]?answer)"
    # A colon, or the end of the line: some models omit the colon.
    rf"[*_`]*[ \t]*(?::[ \t]*[*_`]*|(?=[*_`]*[ \t]*$))",
    re.IGNORECASE | re.MULTILINE,
)
_NAME_AND_REST = re.compile(r"[`\"'*\s]*([A-Za-z0-9_][\w./:-]*)[`\"'*]*\s*(.*)", re.DOTALL)
_NO_TOOL = ("none", "n/a", "na", "no", "nothing", "no action", "final", "final_answer")


@dataclass(frozen=True)
class _Section:
    marker: Marker
    start: int
    """Where the marker begins."""

    text: str
    end: int


def read(text: str) -> tuple[Decision, int]:
    """Parse an answer; return the decision and the offset at which it ends."""
    sections = _sections(text)
    for number, section in enumerate(sections):
        if section.marker == "final answer":
            # Everything that follows: an analysis may contain a line that begins with "Action:".
            answer = text[section.end - len(section.text) :].strip()
            if answer:
                return Decision(answer=answer), len(text)
            return Decision(complaint='There is nothing after "Final Answer:". Write your analysis there.'), len(text)
        if section.marker == "observation":
            return Decision(complaint=_INVENTED_OBSERVATION), section.start
        if section.marker == "action":
            following = sections[number + 1] if number + 1 < len(sections) else None
            given = following if following and following.marker == "action input" else None
            return _action(section, given), (given or section).end
    return Decision(complaint=_complaint(text, sections)), len(text)


_INVENTED_OBSERVATION = (
    'You wrote "Observation:" yourself. Observations come from tools: write "Action:" and "Action Input:", then stop '
    'and wait, or write "Final Answer:".'
)


def _action(section: _Section, given: _Section | None) -> Decision:
    named = _NAME_AND_REST.match(section.text)
    if not named or named.group(1).lower() in _NO_TOOL:
        excerpt = section.text.strip()[:80]
        return Decision(
            complaint=(
                f'"Action:" names no tool{f" ({excerpt!r})" if excerpt else ""}. Write the name of one tool there, or '
                'write "Final Answer:".'
            )
        )
    name, rest = named.group(1).rstrip(".:/"), named.group(2).strip()
    arguments = given.text if given else rest.removeprefix("(").removesuffix(")") if rest[:1] in "({`" else ""
    return Decision(calls=(ToolCall("", name, _without_trailing_prose(arguments)),))


def _without_trailing_prose(text: str) -> str:
    """The arguments without the prose that some models write below them."""
    text = text.strip()
    if text[:1] in "{[`":
        return text
    return re.split(r"\n[ \t]*\n", text, maxsplit=1)[0]


def _complaint(text: str, sections: Sequence[_Section]) -> str:
    if not text.strip():
        return 'Your answer was empty. Write "Thought:" and then "Action:" with "Action Input:", or "Final Answer:".'
    if any(section.marker == "action input" for section in sections):
        return (
            'There is an "Action Input:" without an "Action:" before it. Write "Action:" with a tool\'s name on '
            "the line above."
        )
    if sections:
        return (
            'There is a "Thought:" without an action. Continue with "Action:" and "Action Input:", or with "Final '
            'Answer:".'
        )
    return (
        'Your answer has no marker, so it cannot be interpreted. Write "Thought:" and then "Action:" with '
        '"Action Input:"; or, if this was your analysis, write it again after "Final Answer:".'
    )


def _sections(text: str) -> list[_Section]:
    found = list(_MARKER.finditer(text))
    ends = [one.start() for one in found[1:]] + [len(text)]
    sections = []
    for one, end in zip(found, ends, strict=False):
        name = re.sub(r"[ \t_]+", " ", one.group("name").lower())
        marker: Marker = {"actioninput": "action input", "finalanswer": "final answer"}.get(name, name)  # type: ignore[assignment]
        sections.append(_Section(marker, one.start(), text[one.end() : end].strip("\n"), len(text[:end].rstrip("\n"))))
    return sections


# Quoting tool text

_MARKERS = ("thought", "action", "actioninput", "observation", "finalanswer", "question")
_SPEAKERS = ("assistant", "human", "user", "system", "developer", "tool", "result", "toolresult", "ai")
_KEYWORDS = frozenset((*_MARKERS, *_SPEAKERS))
_BREAKS = re.compile(r"\r\n|[\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]")
_HOMOGLYPHS = str.maketrans(
    dict(zip("аеорсухіјһкѕтмвнαερονικτυ", "aeopcyxijhkstmbhaepovikty", strict=True)) | dict.fromkeys("꞉ː։׃∶", ":")
)
"""Letters of other alphabets, and other colons, that look like the ASCII ones."""


def quoted(text: Masked) -> Masked:
    """Quote a masked text so that no line of it can be mistaken for a marker."""
    lines = _BREAKS.sub("\n", text).split("\n")
    return text.derive("\n".join(f"| {line}" if _resembles_marker(line) else line for line in lines))


def _resembles_marker(line: str) -> bool:
    start = unicodedata.normalize("NFKC", line[:120]).casefold().translate(_HOMOGLYPHS)
    before, colon, _ = start.partition(":")
    letters = "".join(sign for sign in unicodedata.normalize("NFKD", before) if sign.isalpha())
    if not letters.isascii():
        letters = "".join(sign for sign in letters if sign.isascii())
    return letters in _KEYWORDS and (bool(colon) or letters in ("finalanswer", "actioninput", "observation"))


class ReAct:
    def rules(self, toolbox: Toolbox) -> str:
        lines = [
            f"- {named.tool.dotted}: {_short(named.tool.description)}\n  Arguments: {describe(named.tool.input_schema)}"
            for named in toolbox.described()
        ]
        lines += [
            f"- {tool.name}: {_short(tool.description)}\n  Arguments: {describe(tool.schema)}"
            for tool in toolbox.read_back_tools
        ]
        return RULES.fill(tools="\n".join(lines) or "none")

    def specs(self, toolbox: Toolbox) -> Sequence[ToolSpec]:
        return ()

    def read(self, turn: Turn | WrittenTurn) -> Decision:
        return read(turn.text)[0]

    def stop(self, text: str) -> int | None:
        """Stop at an observation that the model invents."""
        if "bservation" not in text and "BSERVATION" not in text:
            return None
        for section in _sections(text):
            if section.marker == "final answer":
                return None
            if section.marker == "observation" and ":" in text[section.start : section.start + 40]:
                return section.start
        return None

    def answer_message(self, turn: Turn) -> Message:
        _, end = read(turn.text)
        return Message("assistant", turn.text.head(end).rstrip() or own_words("Thought:"))

    def replies(self, calls: Sequence[ToolCall], results: Sequence[ToolCallResult]) -> list[Reply]:
        return [
            Reply(_observation(result, quoted(result.text)), _observation(result, result.line).text)
            for result in results
        ]

    def conclusion(self, text: str) -> str:
        decision, _ = read(text)
        if decision.answer:
            return decision.answer
        thought = next((section.text.strip() for section in _sections(text) if section.marker == "thought"), "")
        return thought or ("" if _sections(text) else text.strip())


def _observation(result: ToolCallResult, text: Masked) -> Message:
    return Message("user", text.derive(f"Observation: {result.name}: {text}"))


def _short(description: str, most: int = 400) -> str:
    line = " ".join(description.split())
    return line if len(line) <= most else f"{line[:most]}…"
