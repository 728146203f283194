"""Tool results are parsed in `tersely.shapes`, so that all parts of the program read a text in one way."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "tersely"
PARSERS = {"csv": {"reader", "DictReader", "Sniffer"}, "json": {"raw_decode"}, "xml": {"fromstring", "iterparse"}}
"""For each module what parses a text with positions or into rows."""

EXCEPTIONS = {
    "agent/arguments.py": "arguments that a model wrote",
    "agent/stated_verdict.py": "a verdict that a model wrote",
    "research/extraction.py": "findings that a model wrote",
    "condensing/summarize/fold_json.py": "its own notation, in `unfold_json`",
}


def _uses_a_parser(path: Path) -> bool:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return any(used & names for module, names in PARSERS.items() if module in imported)


def test_only_shapes_parses_with_positions() -> None:
    users = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if _uses_a_parser(path)}
    assert {path for path in users if not path.startswith("shapes/")} == set(EXCEPTIONS)
    assert {"shapes/tables.py", "shapes/json_values.py"} <= users
