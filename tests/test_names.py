"""One public name, one meaning: what the syntax trees of `src/tersely` show about names."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "tersely"

PROTOCOLS: dict[str, tuple[str, ...]] = {
    "build": ("demo/*", "servers/*", "web/*"),
    "create": ("store/*",),
    "detect": ("condensing/*",),
    "downgrade": ("store/migrations/*",),
    "find": ("store/*",),
    "page": ("store/*",),
    "parse": ("condensing/*", "shapes/*"),
    "read": ("condensing/*",),
    "reading_of": ("condensing/*",),
    "routes": ("web/*",),
    "upgrade": ("store/migrations/*",),
}
"""Functions that mean the same in every module that matches, so that callers write `logs.read` or `sessions.create`:

build: the server application of the module.
create, find, page: the statements of one table.
detect: how certain it is that a sample of lines is of the reader's kind.
parse: the tree of one text format.
read, reading_of: the reader of one kind of text.
routes: the endpoints of one resource.
"""

COMMANDS = "cli/*"
"""A command's function has the name of the command."""


def definitions() -> Iterator[tuple[str, ast.stmt]]:
    for file in sorted(SOURCE.rglob("*.py")):
        module = file.relative_to(SOURCE).as_posix()
        for node in ast.parse(file.read_text("utf-8")).body:
            yield module, node


def test_public_class_names_are_unique() -> None:
    modules: dict[str, list[str]] = defaultdict(list)
    for module, node in definitions():
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            modules[node.name].append(module)
    assert len(modules) > 300
    assert {name: found for name, found in modules.items() if len(found) > 1} == {}


@pytest.mark.slow
def test_a_public_function_name_is_defined_in_at_most_two_modules() -> None:
    """A protocol counts as one module, however many implement it."""
    modules: dict[str, set[str]] = defaultdict(set)
    for module, node in definitions():
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
            continue
        if not fnmatch(module, COMMANDS):
            is_protocol = any(fnmatch(module, pattern) for pattern in PROTOCOLS.get(node.name, ()))
            modules[node.name].add("the protocol" if is_protocol else module)
    assert len(modules) > 300
    assert {name: found for name, found in modules.items() if len(found) > 2} == {}
