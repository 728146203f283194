"""The environment is read in one package."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "tersely"
READERS = {"environ", "environb", "getenv", "getenvb"}


def reads_environment(source: str) -> bool:
    return any(
        (isinstance(node, ast.Attribute) and node.attr in READERS)
        or (isinstance(node, ast.ImportFrom) and node.module == "os" and READERS & {alias.name for alias in node.names})
        for node in ast.walk(ast.parse(source))
    )


@pytest.mark.slow
def test_only_the_settings_read_the_environment() -> None:
    """Other packages get a mapping handed in, so that one place decides which variables count."""
    readers = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if reads_environment(path.read_text(encoding="utf-8"))
    }
    assert readers == {"settings/variables.py"}
