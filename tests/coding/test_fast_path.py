"""What a hook loads, and the helper process that has everything loaded."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.hooks import SMALL, event
from tersely.coding.exchanges import claude_code_events
from tersely.coding.warm import ask_helper, socket_path

pytestmark = pytest.mark.process

HEAVY = {"click", "pydantic", "numpy", "sqlalchemy", "rich", "anyio", "asyncio", "yaml"}
LOADED = """
import sys
from tersely.launch import launch
try:
    launch()
finally:
    print("\\n".join(sys.modules), file=sys.stderr)
"""


def modules_of(words: list[str], given: bytes, folder: Path) -> set[str]:
    env = {**os.environ, "TERSELY_DATA_DIR": str(folder)}
    done = subprocess.run([sys.executable, "-c", LOADED, *words], input=given, capture_output=True, env=env, check=True)
    return set(done.stderr.decode().split())


def test_a_small_result_loads_no_library_and_a_large_one_few(tmp_path: Path) -> None:
    hook = ["hook", "claude-code", "--seconds", "120"]
    plain = modules_of(hook, event(SMALL["pytest"]), tmp_path)
    assert not plain & {*HEAVY, "re2", "tiktoken", "dataclasses", "inspect", "subprocess", "pathlib", "tersely.cli"}
    assert not {name for name in plain if name.startswith(("tersely.condensing", "tersely.masking.search"))}
    secret = modules_of(hook, event(SMALL["env with a secret"]), tmp_path)
    assert "tersely.masking.search" in secret and not secret & {*HEAVY, "tiktoken", "tersely.cli"}
    large = modules_of(hook, json.dumps(claude_code_events(str(tmp_path))[0]).encode(), tmp_path)
    assert "tersely.condensing" in large and not large & {*HEAVY, "tersely.cli", "tersely.llm"}
    before = json.dumps({"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}}).encode()
    assert "json" not in modules_of(["hook", "claude-code", "--warm"], before, tmp_path)
    run = modules_of(["run", "--", "true"], b"", tmp_path)
    assert not run & {*HEAVY, "re2", "tiktoken", "subprocess", "tersely.cli"}


@pytest.fixture
def short_folder() -> Iterator[str]:
    """As most systems have it, and unlike pytest's: short enough for the path of a socket."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield folder


def test_the_path_of_the_socket_is_one_that_systems_take_wherever_temporary_files_are() -> None:
    assert len(socket_path({"TMPDIR": "/very/long" * 20})) <= 103
    assert socket_path({"TMPDIR": "/run/user/1000"}).startswith("/run/user/1000/")


def test_a_helper_answers_as_the_hook_does_and_ends_when_it_is_idle(tmp_path: Path, short_folder: str) -> None:
    env = {**os.environ, "TERSELY_DATA_DIR": str(tmp_path / "data"), "TMPDIR": short_folder}
    words = ["claude-code", "--warm", "--seconds", "60"]
    recorded = [json.dumps(one).encode() for one in claude_code_events(str(tmp_path))[:3]]
    assert ask_helper(words, recorded[0], env) is None, "there is none yet"

    def hooked(given: bytes) -> Any:
        command = [sys.executable, "-m", "tersely", "hook", *words]
        done = subprocess.run(command, input=given, capture_output=True, env=env, check=True)
        return json.loads(done.stdout)["hookSpecificOutput"]["updatedToolOutput"] if done.stdout else None

    # Longer than one answer takes on a busy machine: while it is made, the helper counts as idle.
    code = (
        "import os; from tersely.coding.helper import serve_hooks; raise SystemExit(serve_hooks(os.environ, idle=15))"
    )
    with subprocess.Popen([sys.executable, "-c", code], env=env) as helper:
        while not Path(socket_path(env)).exists():
            assert helper.poll() is None
            time.sleep(0.05)
        assert Path(socket_path(env)).parent.stat().st_mode & 0o077 == 0
        answers = [ask_helper(words, one, env) for one in recorded]
        assert all(answers) and ask_helper(words, event(SMALL["ls"]), env) == b""
        masked = hooked(event(SMALL["env with a secret"]))
        assert "correct-horse" not in masked["stdout"] and "HOME=/home/me" in masked["stdout"]
        assert (
            hooked(recorded[1])["file"]
            == json.loads(answers[1] or b"")["hookSpecificOutput"]["updatedToolOutput"]["file"]
        )
        assert ask_helper(words, b"not JSON", env) is None, "the hook then does the work itself, and logs it"
        assert ask_helper(words, recorded[0], env), "an event that fails does not harm the helper"
        assert helper.wait(60) == 0
    assert not Path(socket_path(env)).exists()
