"""The command line as a person or a script meets it: real processes, real pipes."""

import ast
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from mcp_types import TextContent

from tersely.settings.model import documented
from tersely.text.tokens import O200K
from tests.fakes.llm_server import FakeLLMServer

pytestmark = pytest.mark.process

LOG = "".join(f"2026-11-15T10:{n // 60:02d}:{n % 60:02d}Z INFO api GET /cart/{n} 200 {n % 90}ms\n" for n in range(3000))
LOG += "2026-11-15T11:00:00Z ERROR api checkout failed: pool orders-primary exhausted (20 of 20)\n"

TERSELY = [sys.executable, "-m", "tersely"]


def tersely(*arguments: str, stdin: bytes = b"", **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*TERSELY, *arguments],
        input=stdin,
        capture_output=True,
        env={**os.environ, **environment},
        check=False,
        timeout=300,
    )


def test_help_answers_without_loading_anything_heavy() -> None:
    """The reason it needs so little CPU; the seconds themselves are the machine's."""
    code = (
        "import sys; from click.testing import CliRunner; from tersely.cli import main; "
        "assert CliRunner().invoke(main, ['--help']).exit_code == 0; "
        "print([name for name in ('pydantic', 'fastmcp', 'mcp', 'tiktoken', 'pydantic_ai', 'rich', 'uvicorn') if name "
        "in sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_importing_tersely_loads_nothing_heavy_and_its_names_resolve() -> None:
    code = (
        "import sys, tersely; light = len(sys.modules); "
        "heavy = [n for n in ('tiktoken', 'pydantic', 'fastmcp') if n in sys.modules]; "
        "[getattr(tersely, name) for name in tersely.__all__]; print(heavy)"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_a_pipe_is_condensed_to_stdout_and_the_account_goes_to_stderr() -> None:
    done = tersely("condense", "--budget", "200", "--focus", "why does checkout fail", stdin=LOG.encode())
    assert done.returncode == 0
    assert b"pool orders-primary exhausted (20 of 20)" in done.stdout
    closing = done.stderr.decode().strip().splitlines()[-1]
    assert "→" in closing and "structural" in closing and "tokens" in closing
    assert b"\x1b[" not in done.stdout + done.stderr, "plain when piped"


def test_a_file_that_fits_comes_out_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "short.txt"
    path.write_bytes("héllo\n".encode())
    done = tersely("condense", str(path))
    assert done.stdout.decode() == "héllo\n"
    assert b"it fits" in done.stderr


def test_json_is_one_object_with_the_account() -> None:
    done = tersely("condense", "--budget", "200", "--json", stdin=LOG.encode())
    said = json.loads(done.stdout)
    assert (
        said["status"] == "structural"
        and said["tokens_after"] <= 200 < said["tokens_before"]
        and said["encoding"] == "o200k_base"
    )
    assert done.stderr == b""


def test_explain_says_what_it_was_taken_for() -> None:
    done = tersely("condense", "--budget", "200", "--explain", stdin=LOG.encode())
    assert b"Detected as: log" in done.stderr


def test_several_files_share_the_budget_and_the_whole_can_be_read_back(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_text(LOG + "password=hunter2hunter2\n")
    (tmp_path / "note.txt").write_text("deployed at ten\n")
    store: dict[str, Any] = {"TERSELY_DATA_DIR": str(tmp_path / "data"), "TERSELY_CONFIG": os.devnull}
    files = [str(tmp_path / "app.log"), str(tmp_path / "note.txt")]
    done = tersely("condense", *files, "--budget", "300", "--focus", "checkout", "--keep", **store)
    text = done.stdout.decode()
    assert O200K.count(text.removesuffix("\n")) <= 300 and "pool orders-primary exhausted" in text
    assert f"==> {files[1]} <==\ndeployed at ten\n" in text
    handle = done.stderr.decode().splitlines()[0].rpartition(" ")[2]
    whole = tersely("read", handle, **store).stdout.decode()
    assert len(whole.splitlines()) == 3002 and "hunter2" not in whole


def test_secrets_are_masked_in_a_pipe_or_only_looked_for(tmp_path: Path) -> None:
    url = "DATABASE_URL=postgresql://app:Qm4xTr8zLw2k@db/shop\nDEBUG=1\n"
    done = tersely("mask", stdin=url.encode())
    assert b"Qm4xTr8zLw2k" not in done.stdout and done.stdout.endswith(b"@db/shop\nDEBUG=1\n")
    assert b"1 secret (url_password) masked" in done.stderr and done.returncode == 0
    (tmp_path / "clean").write_text("DEBUG=1\n")
    (tmp_path / "leaky").write_text(url)
    checked = tersely("mask", "--check", str(tmp_path / "clean"), str(tmp_path / "leaky"))
    assert checked.returncode == 1 and checked.stdout.decode() == f"{tmp_path / 'leaky'}: 1 secret (url_password)\n"
    assert tersely("mask", "--check", str(tmp_path / "clean")).returncode == 0


def test_watching_condenses_again_when_a_file_changes(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_text("first\n")
    process = subprocess.Popen(
        [*TERSELY, "condense", "--watch", str(path)],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # Jobs in background ignore it.
    )
    assert process.stdout is not None and process.stdout.readline() == "first\n"
    path.write_text("second time\n")
    assert process.stdout.readline() == "second time\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=300) == 130
    process.stdout.close()


def test_invalid_utf8_and_nuls_are_no_obstacle() -> None:
    done = tersely("condense", "--budget", "100", stdin=LOG.encode() + b"\xff\xfe\x00\x00\n" * 50)
    assert done.returncode == 0 and done.stdout


@pytest.mark.parametrize(
    ("arguments", "environment", "says"),
    [
        (["condense", "--budget", "5"], {}, "at least 16 tokens"),
        (["condense", "--watch"], {}, "--watch needs files"),
        (["condense", "--keep", "--no-mask"], {}, "the store gets masked text only"),
        (["condense", sys.executable], {}, ": The input is a program"),
        (["condense", "--llm", "--budget", "0"], {"OPENROUTER_API_KEY": "k"}, "at least 16 tokens"),
        (["condense", "--budget", "many"], {}, "'many' is not a valid integer"),
        (["condense", "--llm"], {}, "OPENROUTER_API_KEY"),
        (["condense", "no-such-file"], {}, "no-such-file"),
        (["serve"], {"MCP_SUMMARIZER_PORT": "high"}, "MCP_SUMMARIZER_PORT='high'"),
        (
            ["serve"],
            {"DEFAULT_CHUNK_SIZE_TOKENS": "500"},
            "DEFAULT_CHUNK_OVERLAP_TOKENS (500) must be smaller than DEFAULT_CHUNK_SIZE_TOKENS (500)",
        ),
        (["serve", "--host", "203.0.113.7", "--port", "0"], {}, "Set TERSELY_TOKEN, or listen on 127.0.0.1"),
        (["serve", "--host", "203.0.113.7", "--port", "0"], {"TERSELY_TOKEN": "x"}, "Cannot listen on 203.0.113.7"),
        (["frobnicate"], {}, "No such command 'frobnicate'. See "),
        (["conf"], {}, "No such command 'conf'. Did you mean 'config'? See "),
    ],
)
def test_a_mistake_gets_a_sentence_and_a_non_zero_exit(
    arguments: list[str], environment: dict[str, str], says: str
) -> None:
    done = tersely(*arguments, stdin=b"x" * 100, **environment)
    assert done.returncode == 2
    assert says in done.stderr.decode() and "Traceback" not in done.stderr.decode()
    assert len(done.stderr.decode().strip().splitlines()) <= 2


def test_a_full_disk_and_a_reader_who_has_seen_enough_are_no_tracebacks() -> None:
    command = " ".join(["env -u PYTHONUNBUFFERED", *TERSELY, "condense", "--budget", "2000"])
    if Path("/dev/full").exists():
        full = subprocess.run(
            f"{command} > /dev/full", shell=True, input=LOG.encode(), capture_output=True, check=False
        )
        assert full.returncode == 2 and b"No space left" in full.stderr and b"Traceback" not in full.stderr
    piped = subprocess.run(f"{command} | head -c 1", shell=True, input=LOG.encode(), capture_output=True, check=False)
    assert b"Traceback" not in piped.stderr and b"BrokenPipe" not in piped.stderr


async def test_in_the_shell_the_budget_holds_also_when_the_model_fails() -> None:
    async with FakeLLMServer(lambda body: 401).listening() as server:
        environment = {"OPENROUTER_BASE_URL": server.url, "TERSELY_SUMMARY_CACHE": "no"}
        done = await anyio.to_thread.run_sync(
            lambda: tersely("condense", "--llm", "--budget", "300", stdin=LOG.encode(), **environment)
        )
    assert done.returncode == 0 and O200K.count(done.stdout.decode()) <= 301
    assert (
        "fallback: the structural text" in done.stderr.decode() and len(done.stderr.decode().strip().splitlines()) == 1
    )


def test_a_wrong_key_is_never_part_of_the_message() -> None:
    done = tersely("serve", OPENROUTER_API_KEY="sk-canary", MCP_SUMMARIZER_PORT="high", TERSELY_TOKEN="tok-canary")
    assert done.returncode == 2 and b"canary" not in done.stderr


def test_the_service_starts_says_so_in_json_and_stops_on_sigterm() -> None:
    process = subprocess.Popen([*TERSELY, "serve", "--port", "0"], stderr=subprocess.PIPE, env=dict(os.environ))
    assert process.stderr is not None
    said = [json.loads(process.stderr.readline()) for _ in range(2)]
    assert [line["event"] for line in said] == ["no_model_configured", "listening"]
    assert {line["service_id"] for line in said} == {"mcp_summarizer"}
    process.send_signal(signal.SIGTERM)
    rest = process.communicate(timeout=300)[1]
    assert process.returncode in (0, -signal.SIGTERM) and b"Traceback" not in rest


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_on_a_terminal_the_service_logs_for_people() -> None:
    import pty

    ours, theirs = pty.openpty()
    process = subprocess.Popen([*TERSELY, "serve", "--port", "0"], stderr=theirs, env=dict(os.environ))
    os.close(theirs)
    said = b""
    while b"Ctrl-C" not in said:
        said += os.read(ours, 4096)
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=300)
    os.close(ours)
    assert b"No model: texts are condensed structurally" in said and b"MCP at http://127.0.0.1:" in said
    assert b"{" not in said


@pytest.mark.parametrize("module", ["tersely", "hatch_build"])
def test_an_older_python_gets_one_sentence(module: str) -> None:
    """Before it meets syntax or a dependency that it does not have; `hatch_build` is what pip runs."""
    root = Path(__file__).parents[1]
    path = root / ("src/tersely/__init__.py" if module == "tersely" else "hatch_build.py")
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))
    older = f"import sys; sys.path.insert(0, {str(root)!r}); sys.version, sys.version_info = '3.10.9 x', (3, 10, 9); "
    done = subprocess.run(
        [sys.executable, "-c", f"{older}import {module}"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, "Tersely needs Python 3.11 or newer; this is Python 3.10.9.\n")


def test_alone_it_prints_its_help() -> None:
    for arguments in ([], ["config"]):
        done = tersely(*arguments)
        assert (done.returncode, done.stderr) == (0, b"") and b"Commands:" in done.stdout


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_stdio_speaks_mcp_and_nothing_else_on_stdout(era: str) -> None:
    transport = StdioTransport(TERSELY[0], [*TERSELY[1:], "serve", "--stdio"])
    async with Client(transport, mode=era) as client:
        result = await client.call_tool_mcp(
            "summarize", {"content": LOG, "max_output_tokens": 200, "focus_areas": "checkout"}
        )
    (only,) = result.content
    assert isinstance(only, TextContent) and "pool orders-primary exhausted" in only.text


def test_the_demo_finds_the_cause_whatever_the_environment_says() -> None:
    disturbing = {
        "TERSELY_LOG_LEVEL": "warning",
        "TERSELY_TOKEN": "x",
        "TERSELY_HOST": "0.0.0.0",
        "MCP_SUMMARIZER_PORT": "nonsense",
    }
    done = tersely("demo", stdin=b"", **disturbing)  # Not a terminal: it ends by itself.
    assert done.returncode == 0, done.stdout.decode()
    shown = " ".join(done.stdout.decode().split())
    assert "that is what the analysis says" in shown
    for part in (
        "all-systems · cluster.",
        "cluster-only · cluster.",
        "─ verdict ─",
        "─ a follow-up question ─",
        "─ answer",
    ):
        assert part in shown


DOCS = Path(__file__).parents[1] / "docs"


def test_every_setting_stands_in_the_reference_with_its_meaning() -> None:
    page = (DOCS / "reference" / "settings.md").read_text(encoding="utf-8")
    for name, default, meaning in documented():
        row = next((line for line in page.splitlines() if line.startswith(f"| `{name}` |")), None)
        assert row is not None, f"{name} is not documented in docs/reference/settings.md"
        assert meaning.replace("\n", " ") in row, f"{name}: the page says something else than the code"
        assert default in row or name == "TERSELY_DATA_DIR", f"{name}: the default {default} is not in the page"
    documented_names = {line.split("`")[1] for line in page.splitlines() if line.startswith("| `")}
    assert documented_names == {name for name, _, _ in documented()}, "the page has settings that do not exist"


def test_every_command_and_option_stands_in_the_reference() -> None:
    import click

    from tersely.cli import main

    page = (DOCS / "reference" / "commands.md").read_text(encoding="utf-8")
    for name, command in main.commands.items():
        assert f"## tersely {name}" in page
        section = page.split(f"## tersely {name}\n", 1)[1].split("\n## ", 1)[0]
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert f"`{parameter.opts[-1]}" in section, f"{name}: {parameter.opts[-1]} is not documented"


def test_no_description_of_a_command_is_cut_in_a_terminal_of_80_columns() -> None:
    import click

    from tersely.cli import main

    for group in (main, *(command for command in main.commands.values() if isinstance(command, click.Group))):
        context = click.Context(group, info_name=group.name, terminal_width=78)  # as click computes it
        listed = group.get_help(context).partition("Commands:\n")[2].splitlines()
        shown = [command for command in group.commands.values() if not command.hidden]
        assert len(listed) == len(shown) and not [line for line in listed if line.endswith("...")]


def test_every_option_of_a_server_stands_in_the_reference() -> None:
    from pydantic import BaseModel

    from tersely.condensing.options import SummarizationOptions
    from tersely.masking.options import MaskingOptions
    from tersely.mcp.servers import ServerOptions, ToolFilter, TransportOptions

    page = (DOCS / "reference" / "servers.md").read_text(encoding="utf-8")
    groups: dict[str, type[BaseModel]] = {
        "transport.": TransportOptions,
        "data_masking.": MaskingOptions,
        "summarization.": SummarizationOptions,
        "tools.": ToolFilter,
    }
    names = {f"{prefix}{name}": field for prefix, group in groups.items() for name, field in group.model_fields.items()}
    names |= {name: field for name, field in ServerOptions.model_fields.items() if f"{name}." not in groups}
    for name, field in names.items():
        row = next((line for line in page.splitlines() if line.startswith(f"| `{name}` |")), "")
        assert row and " ".join((field.description or "").split()) in row, (
            f"{name} is not in docs/reference/servers.md as the code says it"
        )
