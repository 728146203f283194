"""Import contracts cover what their names say: a new package cannot be forgotten."""

import configparser
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def _listed(contract: str, option: str) -> list[str]:
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter", encoding="utf-8")
    lines = parser[f"importlinter:contract:{contract}"][option].splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def _top_level() -> set[str]:
    package = ROOT / "src" / "tersely"
    folders = {path.parent.name for path in package.glob("*/__init__.py")}
    modules = {path.stem for path in package.glob("*.py")} - {"__init__"}
    return {f"tersely.{name}" for name in folders | modules}


def test_every_package_but_the_store_is_denied_sqlalchemy() -> None:
    assert set(_listed("sql-in-the-store", "source_modules")) == _top_level() - {"tersely.store"}
    assert _listed("sql-in-the-store", "ignore_imports") == ["tersely.sessions.durable -> sqlalchemy"]


def test_the_whole_package_is_denied_dbos_but_for_one_module() -> None:
    assert _listed("workflow-engine-in-one-module", "source_modules") == ["tersely"]
    assert _listed("workflow-engine-in-one-module", "ignore_imports") == ["tersely.sessions.durable -> dbos"]


@pytest.mark.process
def test_the_gateway_loads_what_keeps_and_condenses_only_when_it_is_needed() -> None:
    """Each of these takes megabytes; together they are more than the rest of the gateway."""
    code = (
        "import sys, tersely.cli.gateway, tersely.servers.gateway.serving, tersely.servers.gateway.web;"
        "print(*{'alembic', 'fastmcp', 'sqlalchemy', 'tiktoken', 'yaml', 'tersely.condensing.structural'}"
        " & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
