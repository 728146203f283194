"""Token patterns, as data: `patterns.toml`, loaded on first use.

The file documents its fields. Each entry carries an example that a test checks.
Searching a text for these patterns is `masking.search`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_FILE = Path(__file__).with_name("patterns.toml")


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenPattern:
    """A token with a fixed prefix."""

    kind: str
    prefixes: tuple[str, ...]
    rest: str
    """Expression for everything after the prefix."""

    exact: bool = True
    """Whether a further character of a token's alphabet rules the match out."""

    check: bool = True
    """Whether placeholders of the same form, e.g. ghp_xxxx, are left alone."""

    example: str
    counterexample: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenForm:
    """A token whose typical part is not at its start, or too short to search for."""

    kind: str
    pattern: str
    example: tuple[str, ...]
    counterexample: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenPatterns:
    tokens: tuple[TokenPattern, ...]
    forms: tuple[TokenForm, ...]


@cache
def token_patterns() -> TokenPatterns:
    """All patterns, in the order of the file: the first of several that match decides the kind."""
    import tomllib

    entries = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return TokenPatterns(
        tokens=tuple(TokenPattern(**fields) for fields in _with_tuples(entries["token"])),
        forms=tuple(TokenForm(**fields) for fields in _with_tuples(entries["form"])),
    )


def _with_tuples(entries: Iterable[Mapping[str, Any]]) -> Iterable[dict[str, Any]]:
    for entry in entries:
        yield {name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()}
