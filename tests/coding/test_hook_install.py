"""`tersely hook install`, `check` and the statistics of hooks, in a home of their own."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tersely.coding.counting import UNDECIDED_SECONDS, spooled_tally
from tersely.coding.exchanges import claude_code_events
from tersely.coding.results import ResultShortener
from tersely.coding.tool_hook import ToolHook
from tersely.errors import ConfigError
from tersely.settings.client_hooks import HOOK_CLIENTS, has_hooks, with_hooks, without_hooks

FILES = {
    "no file": "",
    "empty": "{}",
    "other settings": '{\n  // mine\n  "model": "opus", /* why not */\n  "env": {"TOKEN": "x"}\n}\n',
    "other hooks": '{"hooks": {"PostToolUse": [{"matcher": "Edit", "hooks": []}], "Stop": []}, "b": 2}',
    "windows": '{\r\n\t"hooks": {},\r\n\t"c": 3\r\n}\r\n',
}
ENTRIES = HOOK_CLIENTS["claude-code"].entries("tersely hook claude-code", 10)
PATH = Path("settings.json")


@pytest.mark.parametrize("name", FILES)
def test_our_entries_are_added_and_removed_and_nothing_else_changes(name: str) -> None:
    text = FILES[name]
    added = with_hooks(PATH, text, ENTRIES)
    assert has_hooks(PATH, added) and with_hooks(PATH, added, ENTRIES) == added
    removed = without_hooks(PATH, added, text)
    assert removed == text or (name == "no file" and removed.strip() == "{}")
    # Something was added after ours, by someone else.
    later = added.replace('"PreToolUse": [', '"PreToolUse": [{"matcher": "Read", "hooks": []}, ', 1)
    kept = without_hooks(PATH, later, text)
    assert (
        not has_hooks(PATH, kept)
        and '"matcher": "Read"' in kept
        and all(one in kept for one in ("mine", "why not")) == (name == "other settings")
    )


def test_settings_of_an_unknown_form_are_not_touched() -> None:
    for text in ('{"hooks": []}', '{"hooks": {"PostToolUse": {}}}', "[1]", "{"):
        with pytest.raises(ConfigError):
            with_hooks(PATH, text, ENTRIES)


@pytest.mark.process
def test_a_home_is_set_up_checked_and_restored_byte_for_byte(tmp_path: Path) -> None:
    settings = tmp_path / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_bytes(FILES["other settings"].encode())
    env = {**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": "", "TERSELY_DATA_DIR": ""}

    def tersely(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tersely", "hook", *words]
        return subprocess.run(
            command, capture_output=True, text=True, env=env, cwd=tmp_path, check=False, stdin=subprocess.DEVNULL
        )

    shown = tersely("install", "claude-code", "--dry-run")
    assert shown.returncode == 0 and "+      {" in shown.stdout and '"TOKEN"' not in shown.stdout
    assert tersely("install", "claude-code").returncode == 2, "without a terminal it does not write unasked"
    assert settings.read_text() == FILES["other settings"]
    assert tersely("install", "claude-code", "--yes", "--leave", "mcp__x__*").returncode == 0
    declared = json.loads("".join(line.split("//")[0].split("/*")[0] for line in settings.read_text().splitlines(True)))
    command = declared["hooks"]["PostToolUse"][0]["hooks"][0]["command"]
    assert command.endswith("hook claude-code --leave 'mcp__x__*'")
    checked = tersely("check")
    assert checked.returncode == 0 and checked.stdout.count("✓") == 7 and ": set up" in checked.stdout
    env["TERSELY_OFF"] = "1"
    off = tersely("check", "claude-code")
    assert off.returncode == 1 and "✗ Bash                   no answer, because TERSELY_OFF is set" in off.stdout
    assert tersely("install", "claude-code", "--undo", "--yes").returncode == 0
    assert settings.read_bytes() == FILES["other settings"].encode() and len(list(settings.parent.iterdir())) == 1


def test_only_what_the_client_used_is_counted(tmp_path: Path) -> None:
    shortener = ResultShortener({}, folder=str(tmp_path))
    hook = ToolHook(shortener)
    applied, refused, unknown, *_ = claude_code_events(str(tmp_path))
    answers: list[Any] = [hook.answer(event) for event in (applied, refused, unknown)]
    texts = [answers[0]["hookSpecificOutput"]["updatedToolOutput"]["stdout"], "the original file"]
    with Path(applied["transcript_path"]).open("w") as transcript:
        for event, text in zip((applied, refused), texts, strict=True):
            block = {"type": "tool_result", "tool_use_id": event["tool_use_id"], "content": text}
            transcript.write(json.dumps({"type": "user", "message": {"role": "user", "content": [block]}}) + "\n")
    tally = spooled_tally(shortener.spool)
    assert {key[1:]: (sums["condensed"], sums["calls"]) for key, sums in tally.sums.items()} == {
        ("hook", "claude-code", "Bash"): (1, 1),
        ("hook", "claude-code", "Read"): (0, 1),
    }
    saved = {key[3]: sums["tokens_before"] - sums["tokens_after"] for key, sums in tally.sums.items()}
    assert saved["Bash"] > 50_000 and saved["Read"] == 0
    assert not spooled_tally(shortener.spool), "the third is not in the transcript yet"
    (waiting,) = shortener.spool.take_uses()
    shortener.spool.count(**{**waiting, "at": time.time() - UNDECIDED_SECONDS - 1})
    assert [sums["condensed"] for sums in spooled_tally(shortener.spool).sums.values()] == [0]
