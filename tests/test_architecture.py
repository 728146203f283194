"""`docs/architecture.md` names files and functions; all of them exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "tersely"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.py)(?::([\w.]+))?`", PAGE)))
"""(path, name) of every `path.py` and `path.py:name` on the page."""

FLOWS = re.findall(r"(?ms)^### (\w[\w ]*):.*?$(.*?)(?=^##)", PAGE)


def defined(tree: ast.Module | ast.ClassDef) -> dict[str, ast.AST]:
    """Functions, classes and assigned names of a module or class."""
    found: dict[str, ast.AST] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id: node for target in targets if isinstance(target, ast.Name)}
    return found


@pytest.mark.parametrize(("path", "name"), NAMED, ids=lambda part: part or "file")
def test_every_path_and_name_on_the_page_exists(path: str, name: str) -> None:
    file = SOURCE / path if (SOURCE / path).exists() else ROOT / path
    assert file.is_file(), path
    scope: ast.Module | ast.ClassDef = ast.parse(file.read_text(encoding="utf-8"))
    for part in filter(None, name.split(".")):
        node = defined(scope).get(part)
        assert node is not None, f"{path} has no {name}"
        if isinstance(node, ast.ClassDef):
            scope = node


def test_the_five_flows_are_told_in_hops() -> None:
    assert [name for name, _ in FLOWS] == ["condense", "gateway call", "alert", "summarize", "read back"]
    for name, text in FLOWS:
        hops = re.findall(r"(?m)^(\d)\. ", text)
        assert hops == [str(number) for number in range(1, len(hops) + 1)] and len(hops) >= 4, name
        assert len(re.findall(r"\.py:", text)) >= 4, name


def test_every_package_is_on_the_page() -> None:
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    described = PAGE.partition("## Packages")[2].partition("## Sessions")[0]
    assert {name for name in packages if f"{name}/ " not in described} == set()


WAIT_IN_THREADS = {"cpu/run.py", "llm/limits.py", "servers/gateway/upstreams.py", "sessions/durable.py"}
"""Beside the store: `cpu.run` itself, files, the engine, and an estimate after a cancelled call."""


def test_cpu_work_has_one_way_off_the_event_loop() -> None:
    users = {path.relative_to(SOURCE) for path in SOURCE.rglob("*.py") if "to_thread" in path.read_text("utf-8")}
    assert {path.as_posix() for path in users if path.parts[0] != "store"} == WAIT_IN_THREADS
