"""`pip install tersely` alone: few packages, a library and a shell that work, and one sentence for everything else.

The child processes see only what the metadata says would be installed: an import hook refuses every other module of
this environment.
"""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from typing import Any

import anyio
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tersely.cli import main
from tersely.cli.extras import COMMAND_EXTRAS
from tersely.extras import EXTRAS
from tersely.masking.masked import assume_masked
from tersely.results.kept import KeptResults, Origin, user_scope
from tersely.store.database import Database

pytestmark = pytest.mark.process

MOST_PACKAGES = 30
NOT_IN_THE_CORE = {"fastapi", "starlette", "uvicorn", "fastmcp", "mcp", "dbos", "pydantic-ai-slim", "openai", "httpx2"}
CORE_COMMANDS = {"condense", "hook", "mask", "run", "read", "stats", "config", "migrate", "backup", "restore"}

PACKAGES_OF = {
    module: {canonicalize_name(name) for name in names} for module, names in packages_distributions().items()
}
"""Which packages bring a top-level module."""

LOG = "".join(f"2026-11-15T10:00:{n % 60:02d}Z INFO api GET /cart/{n} 200\n" for n in range(500))
MISTAKE = 2


@cache
def installed_with(extra: str = "") -> frozenset[str]:
    """The packages that `pip install tersely[extra]` brings here, tersely itself included."""
    found: set[tuple[str, str]] = set()
    waiting = [("tersely", extra), ("tersely", "")]
    while waiting:
        name, chosen = waiting.pop()
        if (name, chosen) in found:
            continue
        found.add((name, chosen))
        try:
            declared = requires(name) or []
        except PackageNotFoundError:  # not installed here: counted, but its own requirements are unknown
            declared = []
        for requirement in map(Requirement, declared):
            if requirement.marker is None or requirement.marker.evaluate({"extra": chosen}):
                waiting += [(canonicalize_name(requirement.name), one) for one in ("", *requirement.extras)]
    return frozenset(name for name, _ in found)


def run_with(extra: str, code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python code where only `tersely[extra]` can be imported."""
    allowed = installed_with(extra)
    refused = {module for module, packages in PACKAGES_OF.items() if not packages & allowed}
    hook = f"""
import sys
REFUSED = {sorted(refused)!r}
class Refuse:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in REFUSED:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Refuse)
"""
    return subprocess.run(
        [sys.executable, "-c", hook + code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
        env={**os.environ, **environment},
    )


def tersely(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_with("", "from tersely.cli import main; main()", *arguments)


def outcomes_of(calls: dict[str, list[str]]) -> dict[str, Any]:
    """Exit code, stdout and stderr of each command line, all called in one process that has no extra."""
    code = """
import json
from click.testing import CliRunner
from tersely.cli import main
outcomes = {}
for name, arguments in json.loads(sys.argv[1]).items():
    outcome = CliRunner().invoke(main, arguments)
    outcomes[name] = [outcome.exit_code, outcome.stdout, outcome.stderr]
print(json.dumps(outcomes))
"""
    done = run_with("", code, json.dumps(calls))
    assert done.returncode == 0, done.stderr
    outcomes: dict[str, Any] = json.loads(done.stdout)
    return outcomes


def test_the_core_brings_few_packages_and_no_framework() -> None:
    core = installed_with() - {"tersely"}
    assert len(core) <= MOST_PACKAGES, (
        f"{len(core)} packages; is the environment up to date (make setup)? {sorted(core)}"
    )
    assert not core & NOT_IN_THE_CORE
    assert installed_with("all") > core


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_brings_the_modules_that_are_looked_up_for_it(extra: str) -> None:
    for module in EXTRAS[extra]:
        assert PACKAGES_OF[module] & installed_with(extra) and not PACKAGES_OF[module] & installed_with(), module


def test_the_library_works_without_any_extra(tmp_path: Path) -> None:
    file = tmp_path / "api.log"
    file.write_text(LOG)
    code = """
import tersely
text = sys.argv[1]
assert tersely.condense(text, budget=200).tokens_after <= 200
assert "hunter2" not in tersely.mask("password=hunter2hunter2")
assert tersely.chunk(text, size=1000)
assert tersely.count_tokens("one two") == 2

from click.testing import CliRunner
from tersely.cli import main
assert CliRunner().invoke(main, ["condense", sys.argv[2], "--budget", "200"]).exit_code == 0
print({"alembic", "pydantic", "rich", "sqlalchemy", "yaml"} & set(sys.modules))
"""
    done = run_with("", code, LOG, str(file))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "set()\n", "condensing starts fast because it imports none of these"


def test_without_a_model_summarize_needs_no_extra_and_with_one_it_names_it() -> None:
    code = """
import anyio, os, tersely
async def both():
    print((await tersely.summarize(sys.argv[1], max_output_tokens=200)).status)
    os.environ["OPENROUTER_API_KEY"] = "sk-or-invented"
    await tersely.summarize(sys.argv[1], max_output_tokens=200)
from tersely.errors import TerselyError
try:
    anyio.run(both)
except TerselyError as error:
    print(type(error).__name__, error)
try:
    anyio.run(tersely.mcp_call, "http://127.0.0.1:9/mcp", "tool")
except TerselyError as error:
    print(type(error).__name__, error)
"""
    done = run_with("", code, LOG)
    assert done.stdout.splitlines() == [
        "structural",
        "MissingExtra Model 'openai/gpt-4o-mini' needs the llm extra: pip install 'tersely[llm]'.",
        "MissingExtra tersely.mcp_call needs the gateway extra: pip install 'tersely[gateway]'.",
    ], done.stderr


def test_a_text_is_condensed_and_a_kept_result_is_read_without_any_extra(tmp_path: Path) -> None:
    async def keep() -> str:
        url = f"sqlite:///{Path(os.environ['TERSELY_DATA_DIR']) / 'tersely.db'}"
        origin = Origin(server="cluster", tool="logs", arguments={}, called_at=datetime(2026, 11, 15, tzinfo=UTC))
        async with Database.open(url) as database:
            return await KeptResults(database).keep(assume_masked(LOG), scope=user_scope(), origin=origin)

    handle = anyio.run(keep)
    file = tmp_path / "api.log"
    file.write_text(LOG)
    condensed = tersely("condense", str(file), "--budget", "200")
    assert condensed.returncode == 0 and "/cart/" in condensed.stdout and "structural" in condensed.stderr
    read = tersely("read", handle, "--lines", "2:3")
    assert (read.returncode, read.stdout) == (0, "".join(LOG.splitlines(keepends=True)[1:3]))


def test_the_other_commands_of_the_core_start_without_any_extra(tmp_path: Path) -> None:
    file = tmp_path / "tersely.yaml"
    file.write_text("llm_providers: {small: {type: openai, model: gpt-4o-mini, api_key: invented-key}}\n")
    check, *others = outcomes_of(
        {
            "config check": ["config", "check", "--config", str(file)],
            "config show": ["config", "show"],
            "config schema": ["config", "schema"],
            "read": ["read"],
            "stats": ["stats"],
            "migrate": ["migrate"],
        }
    ).values()
    assert check[0] == 0 and "openai gpt-4o-mini" in check[1], check
    assert [code for code, _, _ in others] == [0] * len(others), others


# A command whose extra is missing


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The outcome of every command of the table, and of every --help."""
    file = tmp_path_factory.mktemp("extras") / "topics.yaml"
    file.write_text("- people\n")
    upstream = ["--upstream", "http://127.0.0.1:9/mcp"]
    arguments = {
        "condense --llm": ["condense", "--llm", str(file)],
        "serve": ["serve", "--port", "0"],
        "gateway": ["gateway", *upstream],
        "gateway check": ["gateway", "check", *upstream],
        "gateway install": ["gateway", "install", "cursor", "--file", str(file)],
        "gateway login": ["gateway", "login", "http://127.0.0.1:9/mcp"],
        "gateway logout": ["gateway", "logout", "http://127.0.0.1:9/mcp"],
        "up": ["up", "--port", "0"],
        "work": ["work"],
        "suspects": ["suspects", "--name", "child"],
        "ask": ["ask", "why?"],
        "investigate": ["investigate", str(file), "--url", "http://127.0.0.1:9"],
        "watch": ["watch", "no-session", "--url", "http://127.0.0.1:9"],
        "chat": ["chat", "no-session", "why?", "--url", "http://127.0.0.1:9"],
        "search": ["search", "words", "--url", "http://127.0.0.1:9"],
        "rate": ["rate", "no-session", "right", "--url", "http://127.0.0.1:9"],
        "triage": ["triage", "no-session", "--url", "http://127.0.0.1:9"],
        "rerun": ["rerun", "no-session", "--url", "http://127.0.0.1:9"],
        "compare": ["compare", "no-session", "no-other", "--url", "http://127.0.0.1:9"],
        "export": ["export", "no-session", "--url", "http://127.0.0.1:9"],
        "audit": ["audit", "--url", "http://127.0.0.1:9"],
        "research": ["research", "subject", "--topics", str(file)],
        "doctor": ["doctor"],
        "demo": ["demo", "--once"],
        "read --sql": ["read", "r_0h3kq9x7v2m5c8dz", "--sql", "SELECT 1"],
    }
    assert set(arguments) == set(COMMAND_EXTRAS), "a command of the table is not tested here"
    helps = {f"help of {name}": [*name.split(), "--help"] for name in ("", *main.commands, "gateway check")}
    return outcomes_of(arguments | helps)


@pytest.mark.parametrize("command", COMMAND_EXTRAS)
def test_a_missing_extra_is_named_in_one_sentence(refusals: dict[str, Any], command: str) -> None:
    extra = COMMAND_EXTRAS[command]
    sentence = f"tersely: tersely {command} needs the {extra} extra: pip install 'tersely[{extra}]'.\n"
    assert refusals[command] == [MISTAKE, "", sentence]


def test_help_needs_no_extra(refusals: dict[str, Any]) -> None:
    for name, (code, stdout, stderr) in refusals.items():
        if name.startswith("help of"):
            assert (code, stderr) == (0, "") and stdout.startswith("Usage: "), name


def test_every_command_belongs_to_the_core_or_names_its_extra() -> None:
    assert set(main.commands) == CORE_COMMANDS | {name for name in COMMAND_EXTRAS if " " not in name}


@pytest.mark.parametrize(
    ("extra", "code"),
    [
        (
            "llm",
            "from tersely.llm.client import ChatModel; from tersely.llm.providers import ModelSpec; "
            "ChatModel(ModelSpec(model='m', api_key='k'))",
        ),
        ("serve", "import tersely.servers.http_app, tersely.servers.summarizer"),
        ("gateway", "import tersely.servers.gateway.serving, tersely.servers.gateway.web, tersely.mcp.connect.http"),
        ("up", "import tersely.app.sessions, tersely.web.app, tersely.http.listen, tersely.demo.cluster"),
    ],
)
def test_an_extra_brings_all_that_its_commands_import(extra: str, code: str) -> None:
    done = run_with(extra, code)
    assert done.returncode == 0, done.stderr


def test_the_reference_names_the_extra_of_every_command() -> None:
    page = (Path(__file__).parents[1] / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    rows = {row.split("`")[1]: row for row in page.splitlines() if row.startswith("| `tersely[")}
    for command, extra in COMMAND_EXTRAS.items():
        assert f"`{command}`" in rows[f"tersely[{extra}]"]
