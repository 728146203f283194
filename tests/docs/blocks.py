"""The code blocks of README, docs and examples."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    """Counted from 1."""
    language: str
    """Empty for a block that is indented instead of fenced."""
    title: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """Every page that tells people what to type or to write. Decisions do not: they are history."""
    single = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    many = [path for folder in ("docs", "examples") for path in (ROOT / folder).rglob("*.md")]
    return sorted(path.relative_to(ROOT).as_posix() for path in (*single, *many) if "decisions" not in path.parts)


@cache
def blocks(page: str) -> tuple[Block, ...]:
    found = []
    for token in MarkdownIt().parse((ROOT / page).read_text("utf-8")):
        if token.type in ("fence", "code_block"):
            language, _, rest = token.info.strip().partition(" ")
            title = re.fullmatch(r'title="([^"]+)"', rest)
            found.append(Block(page, (token.map or [0])[0] + 1, language, title[1] if title else "", token.content))
    return tuple(found)


def all_blocks(*languages: str) -> list[Block]:
    return [block for page in pages() for block in blocks(page) if not languages or block.language in languages]
