"""Token patterns, as data: `patterns.toml`, loaded on first use.

The file documents its fields. Each entry carries an example that a test checks.
Searching a text for these patterns is `masking.search`.
"""

import json
import os
from functools import cache
from typing import Any, NamedTuple

FILE = os.path.join(os.path.dirname(__file__), "patterns.toml")  # noqa: PTH118, PTH120


class TokenPattern(NamedTuple):
    """A token with a fixed prefix."""

    kind: str
    prefixes: tuple[str, ...]
    rest: str
    """Expression for everything after the prefix."""

    example: str
    counterexample: str
    exact: bool = True
    """Whether a further character of a token's alphabet rules the match out."""

    check: bool = True
    """Whether placeholders of the same form, e.g. ghp_xxxx, are left alone."""


class TokenForm(NamedTuple):
    """A token whose typical part is not at its start, or too short to search for."""

    kind: str
    pattern: str
    example: tuple[str, ...]
    counterexample: tuple[str, ...]


class TokenPatterns(NamedTuple):
    tokens: tuple[TokenPattern, ...]
    forms: tuple[TokenForm, ...]


@cache
def token_patterns() -> TokenPatterns:
    """All patterns, in the order of the file: the first of several that match decides the kind."""
    with open(FILE, encoding="utf-8") as file:  # noqa: PTH123
        entries = read_entries(file.read())
    return TokenPatterns(
        tokens=tuple(TokenPattern(**fields) for fields in entries["token"]),
        forms=tuple(TokenForm(**fields) for fields in entries["form"]),
    )


def read_entries(content: str) -> dict[str, list[dict[str, Any]]]:
    """The tables of a file that has one key per line: a tenth of the time of `tomllib`, which a short process feels.

    Values are those that TOML and JSON write alike, and literal strings; lists become tuples.
    """
    tables: dict[str, list[dict[str, Any]]] = {}
    table: dict[str, Any] = {}
    for line in content.split("\n"):
        if line.startswith("[["):
            table = {}
            tables.setdefault(line.strip("[] "), []).append(table)
        elif line and line[0] != "#":
            name, _, value = line.partition(" = ")
            read = value[1:-1] if value[0] == "'" else json.loads(value)
            table[name] = tuple(read) if isinstance(read, list) else read
    return tables
