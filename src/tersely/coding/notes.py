"""The note under a shortened result, for a coding agent: what was left out, and the command or tool that reads it."""

from collections.abc import Sequence
from dataclasses import dataclass

from tersely.condensing.account import Lost
from tersely.pipeline.core import NoteWriter, left_out


@dataclass(frozen=True, kw_only=True)
class ShellNoteWriter(NoteWriter):
    """Names `tersely read`, or the gateway's tool if the agent has it."""

    read: str = ""
    """The tool; empty if the agent has only its shell."""

    ending: str = ""
    """How the command ended, as a sentence; empty if it succeeded."""

    whole: str = ""
    """How the agent gets the output unshortened next time; empty if it cannot."""

    def write(self, lost: Sequence[Lost], handle: str | None, tokens: int) -> str:
        opening = f"[Shortened from {tokens:,} tokens.{_after(self.ending)}{left_out(lost)}"
        if handle is None:
            return f"{opening} The whole could not be kept.{_after(self.whole)}]"
        first, last = next((one.lines[0] for one in lost if one.lines), (1, None))
        if self.read:
            end = f", end_line={last}" if last else ""
            read = f"{self.read}(handle={handle!r}, start_line={first}{end}), or pattern=… instead of lines"
        else:
            read = f"tersely read {handle} --lines {first}:{last or ''} (or --grep PATTERN)"
        return f"{opening} More: {read}.{_after(self.whole)}]"

    def shortest(self, handle: str | None) -> str:
        if handle is None:
            return f"[Shortened.{_after(self.ending)} The whole could not be kept.]"
        read = f"{self.read}(handle={handle!r}, start_line=1)" if self.read else f"tersely read {handle}"
        return f"[Shortened.{_after(self.ending)} More: {read}]"


def _after(sentence: str) -> str:
    return f" {sentence}" if sentence else ""
