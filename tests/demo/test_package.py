"""The package of the demonstration holds what `tersely demo` runs; simulations for tests are in tests/fakes."""

import ast
from pathlib import Path

DEMO = Path(__file__).parents[2] / "src" / "tersely" / "demo"
STARTED = {"show", "cluster", "knowledge"}
"""What the command imports, and the servers that it starts with `python -m`."""


def imported_by(module: str) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse((DEMO / f"{module}.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "tersely.demo":
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tersely.demo."):
            names.add((node.module or "").removeprefix("tersely.demo."))
    return names


def test_every_module_of_the_package_is_used_by_the_command() -> None:
    used: set[str] = set()
    waiting = set(STARTED)
    while waiting:
        used |= waiting
        waiting = {name for module in waiting for name in imported_by(module)} - used
    assert {path.stem for path in DEMO.glob("*.py")} - {"__init__"} == used
