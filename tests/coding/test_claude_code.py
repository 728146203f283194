"""Claude Code's hook: answers in the exact shape of each tool's output, over standard input and output.

Events and rules are those of the version that `exchanges.VERSIONS` names.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tersely.coding.exchanges import CLAUDE_CODE_OUTPUTS, NEEDLE, SECRET, claude_code_events, refusal_of
from tersely.coding.hook import hook
from tersely.coding.results import ResultShortener
from tersely.coding.tool_hook import ToolHook, same_shape
from tersely.masking.mask import Masker
from tersely.text.tokens import O200K

REQUEST = "Why does the shop fail: connection refused?"


def answer(event: Any, folder: Path, **options: Any) -> Any:
    shortener = ResultShortener({"HOME": str(folder)}, folder=str(folder / "data"))
    return ToolHook(shortener, **options).answer(event)


def answered(event: Any, folder: Path, **options: Any) -> Any:
    found = answer(event, folder, **options)
    assert found is not None
    assert found["hookSpecificOutput"]["hookEventName"] == "PostToolUse"
    return found["hookSpecificOutput"]["updatedToolOutput"]


def events(folder: Path) -> dict[str, Any]:
    transcript = folder / "00893aaf-19fa-41d2-8238-13269b9b3ca0.jsonl"
    entries = [
        {"type": "user", "message": {"role": "user", "content": REQUEST}},
        {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": "I will look."}]}},
        {"type": "user", "message": {"role": "user", "content": [{"type": "tool_result", "content": "x"}]}},
    ]
    transcript.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return {event["tool_name"]: event for event in claude_code_events(str(folder))}


@pytest.mark.parametrize("tool", CLAUDE_CODE_OUTPUTS)
def test_a_large_output_is_replaced_in_the_shape_of_its_tool(tool: str, tmp_path: Path) -> None:
    event = events(tmp_path)[tool]
    output = answered(event, tmp_path)
    assert refusal_of(event["tool_response"], CLAUDE_CODE_OUTPUTS[tool]) == "", "the recorded output fits the rules"
    assert refusal_of(output, CLAUDE_CODE_OUTPUTS[tool]) == ""
    whole = json.dumps(output, ensure_ascii=False)
    assert SECRET not in whole and "[Shortened from" in whole
    assert O200K.count(whole) < 3000 < O200K.count(json.dumps(event["tool_response"])) // 5
    if tool != "Glob":
        assert NEEDLE in whole
    if tool != "Read":  # a file can be read again
        assert len(list((tmp_path / "data" / "spool").glob("r_*.kept"))) == 1
    (use,) = (json.loads(line) for line in (tmp_path / "data" / "spool" / "uses.jsonl").read_text().splitlines())
    assert use["door"] == "hook" and use["tool"] == tool and use["before"] > 5 * use["after"] > 0
    assert use["tool_use_id"] == event["tool_use_id"]


def test_a_file_stays_verbatim_from_its_first_line_so_that_edits_match(tmp_path: Path) -> None:
    event = events(tmp_path)["Read"]
    file = answered(event, tmp_path)["file"]
    *shown, note = file["content"].split("\n")
    original = event["tool_response"]["file"]["content"].split("\n")
    differing = [at for at, line in enumerate(shown) if line != original[at]]
    assert len(shown) > 200 and [SECRET in original[at] for at in differing] == [True]
    assert f"offset={len(shown) + 1} and limit" in note and file["totalLines"] == len(original)
    # What the agent asks for by line is given to it, and so are files of instructions.
    event["tool_input"]["offset"] = 1
    assert answered(event, tmp_path)["file"]["content"].count("\n") == len(original) - 1
    event["tool_response"]["file"]["filePath"] = f"{tmp_path}/.claude/skills/deploy/SKILL.md"
    assert answer(event, tmp_path) is None
    event["tool_response"]["file"]["filePath"] = f"{tmp_path}/src/shop.py"
    assert answer(event, tmp_path, masks_workspace=False) is None


def test_an_output_that_the_client_wrote_to_a_file_is_read_whole(tmp_path: Path) -> None:
    event = events(tmp_path)["Bash"]
    output = event["tool_response"]
    (tmp_path / "out.txt").write_text(output["stdout"])
    output |= {"persistedOutputPath": str(tmp_path / "out.txt"), "persistedOutputSize": 1, "stdout": "the beginning"}
    replaced = answered(event, tmp_path)
    assert NEEDLE in replaced["stdout"] and not replaced.keys() & {"persistedOutputPath", "persistedOutputSize"}
    assert refusal_of(replaced, CLAUDE_CODE_OUTPUTS["Bash"]) == ""


def test_what_is_small_ours_or_unknown_gets_no_answer_but_secrets_are_masked(tmp_path: Path) -> None:
    event = events(tmp_path)["Bash"]
    large = event["tool_response"]

    def bash(command: str, **output: Any) -> Any:
        shaped = {"stdout": "", "stderr": "", "interrupted": False, **output}
        return {**event, "tool_input": {"command": command}, "tool_response": shaped}

    assert answer(bash("ls", stdout="a\nb"), tmp_path) is None
    masked = answered(bash("env", stdout=f"PASSWORD={SECRET}", stderr=f"token: {SECRET}x9y8"), tmp_path)
    assert SECRET not in json.dumps(masked) and masked["stdout"].startswith("PASSWORD=[MASKED:password:")
    assert answer(bash("tersely read r_0h3kq9x7v2m5c8dz", **large), tmp_path) is None
    off = answered(bash("TERSELY_OFF=1 kubectl logs x", **large), tmp_path)
    assert off["stdout"].count("\n") == large["stdout"].count("\n") and SECRET not in off["stdout"]
    for unknown in ("text", None, [1], {"output": large["stdout"]}, {**large, "stdout": 5}, {**large, "isImage": True}):
        assert answer({**event, "tool_response": unknown}, tmp_path) is None
    assert answer({**event, "tool_name": "Task"}, tmp_path) is None
    tickets = events(tmp_path)["mcp__tickets__search"]
    assert answer(tickets, tmp_path, leave=("mcp__tickets__*",)) is None
    for other in ([{"text": "no type"}], {"text": ""}, 7):
        assert answer({**tickets, "tool_response": other}, tmp_path) is None
    assert answer({"hook_event_name": "PostToolUse"}, tmp_path) is None


def test_an_agent_cannot_write_our_masks_into_a_file(tmp_path: Path) -> None:
    event = events(tmp_path)["Bash"]
    event["tool_response"] = {"stdout": f"password={SECRET}", "stderr": "", "interrupted": False}
    mark = answered(event, tmp_path)["stdout"].partition("=")[2]
    foreign = str(Masker().mask(f"password={SECRET}")).partition("=")[2]
    inputs: list[tuple[str, dict[str, Any]]] = [
        ("Write", {"file_path": "/x", "content": f"password: {mark}"}),
        ("Edit", {"file_path": "/x", "old_string": "a", "new_string": f"b {mark}"}),
        ("MultiEdit", {"file_path": "/x", "edits": [{"old_string": "a", "new_string": mark}]}),
        ("Bash", {"command": f"echo {mark} >> .env"}),
    ]
    for tool, given in inputs:
        before = {**event, "hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": given}
        refused = answer(before, tmp_path)["hookSpecificOutput"]
        assert refused["permissionDecision"] == "deny" and mark in refused["permissionDecisionReason"]
        elsewhere = json.loads(json.dumps(before).replace(mark, foreign))
        assert answer(elsewhere, tmp_path) is None, "a mark in a fixture is not a masked secret"


@pytest.mark.process
def test_the_process_answers_on_standard_output_and_never_fails(tmp_path: Path) -> None:
    event = events(tmp_path)["Bash"]
    env = {**os.environ, "TERSELY_DATA_DIR": str(tmp_path / "data")}

    def hooked(text: str, *options: str, **more: str) -> tuple[int, str, str]:
        command = [sys.executable, "-m", "tersely", "hook", "claude-code", *options]
        done = subprocess.run(command, input=text, capture_output=True, text=True, env=env | more, check=False)
        return done.returncode, done.stdout, done.stderr

    code, out, err = hooked(json.dumps(event), "--seconds", "120")
    assert (code, err) == (0, "") and NEEDLE in json.loads(out)["hookSpecificOutput"]["updatedToolOutput"]["stdout"]
    for text, more in (
        ("not JSON", {}),
        ("", {}),
        ("[]", {}),
        (json.dumps(event), {"TERSELY_OFF": "1"}),
    ):
        assert hooked(text, **more) == (0, "", "")
    assert hooked(json.dumps(event), "--seconds", "0.05") == (0, "", "")
    log = (tmp_path / "data" / "hook.log").read_text()
    assert "JSONDecodeError" in log and "TimeoutError" in log and SECRET not in log
    # A home in which nothing can be written: shortened nevertheless, and the note says that nothing was kept.
    (tmp_path / "file").write_text("")
    nowhere = {"TERSELY_DATA_DIR": str(tmp_path / "file" / "x"), "TMPDIR": str(tmp_path / "file" / "y")}
    code, out, err = hooked(json.dumps(event), **nowhere)
    assert (code, err) == (0, "") and "The whole could not be kept." in out


def test_a_wrong_command_line_does_not_refuse_the_tool_call(capsys: pytest.CaptureFixture[str]) -> None:
    assert hook(["claude-code", "--nope"], {}) == 1 and "no option --nope" in capsys.readouterr().err


def test_shapes_are_compared_by_keys_and_types() -> None:
    assert same_shape({"a": 1, "b": ["x"]}, {"a": 2, "b": []}) and same_shape([], [])
    for other in ({"a": "1", "b": []}, {"a": 1}, {"a": 1, "b": [1]}, {"a": 1, "b": [], "c": 1}, {"a": True, "b": []}):
        assert not same_shape({"a": 1, "b": ["x"]}, other)
