"""Prompts are files in `prompts/`, reviewed like code; their placeholders are checked.

Values are inserted once and never parsed, so text that spells a placeholder
(`$content`, `{content}`) stays text. Untrusted text is placed between delimiters with a
fresh random number, which it cannot know and therefore cannot close.
"""

import hashlib
import re
import secrets
from dataclasses import dataclass
from importlib.resources import files

_HOLE = re.compile(r"\$([a-z_]+)")


class Prompt:
    """A prompt file; `Prompt("map").fill(...)` requires a value for each of its placeholders and no others."""

    def __init__(self, name: str, package: str = "tersely.condensing.summarize") -> None:
        self.name = name
        self.text = files(package).joinpath("prompts", f"{name}.md").read_text(encoding="utf-8").strip()
        self.holes = frozenset(_HOLE.findall(self.text))
        self.version = hashlib.sha256(self.text.encode()).hexdigest()[:16]

    def fill(self, **values: str) -> str:
        if values.keys() != self.holes:
            raise TypeError(f"Prompt {self.name!r} has holes {sorted(self.holes)}, but was given {sorted(values)}.")
        return _HOLE.sub(lambda hole: values[hole.group(1)], self.text)


@dataclass(frozen=True)
class Fence:
    """Delimiters for one prompt; everything between them is data, whatever it contains."""

    nonce: str

    @classmethod
    def around(cls, *contents: str) -> "Fence":
        """Return a fence that no content contains, neither by chance nor by replaying an old one."""
        while True:
            nonce = secrets.token_hex(8)
            if not any(nonce in content for content in contents):
                return cls(nonce)

    def wrap(self, name: str, content: str) -> str:
        return f"<<<{name} {self.nonce}>>>\n{content}\n<<<end of {name} {self.nonce}>>>"
