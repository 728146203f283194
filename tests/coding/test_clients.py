"""Hooks of every client: answers that it accepts, files that are restored, and no way to break the agent.

Events and rules are those of the versions that `exchanges.VERSIONS` names.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tersely.coding.counting import spooled_tally
from tersely.coding.dialects import DIALECTS
from tersely.coding.exchanges import (
    NEEDLE,
    REFUSALS,
    REPLACEMENTS,
    SECRET,
    VERSIONS,
    claude_code_events,
    events_of,
    refusal_of,
    writing_event_of,
)
from tersely.coding.hook import answer_to, parse_hook
from tersely.coding.hook_settings import configured
from tersely.coding.results import ResultShortener
from tersely.coding.tool_hook import ToolHook
from tersely.errors import ConfigError
from tersely.settings.client_hooks import HOOK_CLIENTS
from tersely.text.tokens import O200K


def hook_of(client: str, folder: Path, **options: Any) -> ToolHook:
    return ToolHook(ResultShortener({}, folder=str(folder)), client=client, **options)


def test_every_client_is_in_every_table() -> None:
    assert {*DIALECTS} == {*HOOK_CLIENTS} == {*REFUSALS} == {*VERSIONS}
    assert {name for name, dialect in DIALECTS.items() if dialect.replace} == {*REPLACEMENTS}
    page = (Path(__file__).parents[2] / "docs/how-to/coding-agents.md").read_text()
    for client in HOOK_CLIENTS.values():
        assert f"| {client.title} |" in page and f"`{client.name}`" in page


@pytest.mark.parametrize("client", DIALECTS)
def test_recorded_exchanges_are_accepted_and_nothing_is_lost(client: str, tmp_path: Path) -> None:
    hook = hook_of(client, tmp_path)
    for event, schema in zip(events_of(client, str(tmp_path)), REPLACEMENTS.get(client, ()), strict=True):
        answer = hook.answer(event)
        whole = json.dumps(answer)
        assert refusal_of(answer, schema) == "" and SECRET not in whole
        if "Glob" not in str(event):
            assert NEEDLE in whole
        if "[Shortened" in whole and client != "claude-code":
            assert O200K.count(whole) < 1_200 and "tersely read r_" in whole
    kept = [path.read_text() for path in (tmp_path / "spool").glob("*.kept")]
    condensed = {"claude-code": 5, "copilot": 3, "opencode": 2, "cursor": 1}.get(client, 0)
    assert len(kept) == condensed and all(SECRET not in text for text in kept)
    assert sum(text.count(" served in ") >= 2999 for text in kept) >= min(1, condensed), "the whole log is kept"
    masker = hook.shortener.masker()
    assert masker is not None
    refused = hook.answer(writing_event_of(client, str(tmp_path), str(masker.mask(f"password={SECRET}"))))
    assert refusal_of(refused, REFUSALS[client]) == "" and "Leave that value as it is" in json.dumps(refused)
    assert "allow" not in json.dumps(refused), "nothing is approved that the user would be asked about"
    for content in ("password=[MASKED:password:0123456789ab]", "plain"):
        assert hook.answer(writing_event_of(client, str(tmp_path), content)) is None


def test_results_of_copilot_keep_their_end_and_their_kind(tmp_path: Path) -> None:
    bash, view, grep, _ = events_of("copilot", str(tmp_path))
    hook = hook_of("copilot", tmp_path)
    answer = hook.answer(bash)
    assert answer is not None
    shown = answer["modifiedResult"]["textResultForLlm"]
    assert "<exited with exit code 1>" in shown, "the text is all the model has of how the command ended"
    assert hook.answer({**bash, "toolArgs": json.dumps(bash["toolArgs"])}) is not None, "arguments as JSON text"
    untouched = [
        {**view, "toolArgs": {"path": "/repo/.github/instructions/a.md"}},
        {**bash, "toolResult": {"resultType": "failure", "textResultForLlm": "x" * 50_000}},
        {**bash, "toolArgs": {"command": "tersely read r_1 --lines 1:9"}},
        {**grep, "toolName": "task"},
        {**grep, "toolResult": "a shape nobody knows"},
    ]
    assert [hook.answer(event) for event in untouched] == [None] * len(untouched)
    off = hook.answer({**bash, "toolArgs": {"command": "TERSELY_OFF=1 make"}})
    assert off is not None and len(off["modifiedResult"]["textResultForLlm"]) > 100_000 and SECRET not in str(off)
    kept = hook_of("copilot", tmp_path, masks_workspace=False)
    assert kept.answer(view) is None and "[MASKED:" in str(kept.answer({**view, "toolArgs": {"path": "/etc/shop"}}))


def test_notes_name_the_tool_of_the_gateway_where_the_client_has_it(tmp_path: Path) -> None:
    event = claude_code_events(str(tmp_path))[0]
    shown = str(hook_of("claude-code", tmp_path, reader="mcp__logs__read_result").answer(event))
    assert "mcp__logs__read_result(handle=" in shown and "tersely read" not in shown and "TERSELY_OFF=1" in shown


def test_what_a_plugin_put_in_place_is_counted(tmp_path: Path) -> None:
    for client in ("opencode", "copilot"):
        hook_of(client, tmp_path).answer(events_of(client, str(tmp_path))[0])
    tally = spooled_tally(ResultShortener({}, folder=str(tmp_path)).spool)
    assert {key[2]: sums["condensed"] for key, sums in tally.sums.items()} == {"opencode": 1, "copilot": 0}


FILES = {
    "no file": "",
    "other settings": '{\n  // mine\n  "theme": "dark", /* why not */\n  "env": {"TOKEN": "x"}\n}\n',
    "other hooks": '{"version": 1, "hooks": {"PreToolUse": [], "preToolUse": [], "BeforeTool": []}}',
}


@pytest.mark.parametrize("client", [name for name, client in HOOK_CLIENTS.items() if not client.plugin])
@pytest.mark.parametrize("name", FILES)
def test_files_of_every_client_are_restored(client: str, name: str) -> None:
    known, path, text = HOOK_CLIENTS[client], Path("settings.json"), FILES[name]
    words = ["/opt/my tools/tersely", "hook", client, "--leave", "a*"]
    added = known.with_hooks(path, text, words, 10)
    assert known.has_hooks(path, added) and known.with_hooks(path, added, words, 10) == added
    removed = known.without_hooks(path, added, text)
    assert removed == text and not known.has_hooks(path, removed or "{}")
    if name == "no file":
        declared = json.loads(added)
        assert declared.pop("version", 1) == 1 and {*declared} == {"hooks"}
        assert {*declared["hooks"]} == {*known.events}
        assert f"'/opt/my tools/tersely' hook {client} --leave 'a*'" in str(json.loads(added))


@pytest.mark.process
@pytest.mark.skipif(not shutil.which("node"), reason="needs node, which runs the plugin as OpenCode does")
def test_the_plugin_of_opencode_replaces_and_refuses(tmp_path: Path) -> None:
    env = {**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": "", "TERSELY_DATA_DIR": ""}
    tersely = [sys.executable, "-m", "tersely", "hook"]
    plugin = tmp_path / HOOK_CLIENTS["opencode"].user
    subprocess.run([*tersely, "install", "opencode", "--yes"], env=env, check=True, capture_output=True)
    mine = tmp_path / "mine.js"
    mine.write_text("export const Mine = 1\n")
    with pytest.raises(ConfigError):
        HOOK_CLIENTS["opencode"].with_hooks(mine, mine.read_text(), ["tersely"], 10)
    bash, _, search = events_of("opencode", str(tmp_path))
    masker = ResultShortener(env).masker()
    assert masker is not None
    mark = str(masker.mask(f"password={SECRET}"))
    program = f"""
    const {{ Tersely }} = await import({json.dumps(str(plugin))})
    const hooks = await Tersely({{ directory: {json.dumps(str(tmp_path))} }})
    const shown = []
    for (const event of {json.dumps([bash, search])}) {{
      const output = {{ title: "t", metadata: {{ exit: 0 }}, ...event.tool_response }}
      await hooks["tool.execute.after"]({{ tool: event.tool_name, callID: "c", args: event.tool_input }}, output)
      shown.push(output)
    }}
    try {{
      await hooks["tool.execute.before"]({{ tool: "write" }}, {{ args: {{ content: {json.dumps(mark)} }} }})
    }} catch (error) {{ shown.push(error.message) }}
    await hooks["tool.execute.before"]({{ tool: "write" }}, {{ args: {{ content: "plain" }} }})
    console.log(JSON.stringify(shown))
    """
    module = tmp_path / "agent.mjs"
    module.write_text(program)
    patient = plugin.read_text().replace('"hook", "opencode"', '"hook", "opencode", "--seconds", "120"')
    plugin.write_text(patient.replace("15000", "150000"))
    done = subprocess.run(["node", str(module)], env=env, check=True, capture_output=True, text=True)
    first, second, refused = json.loads(done.stdout)
    assert NEEDLE in first["output"] and "[Shortened from" in first["output"] and first["metadata"] == {"exit": 0}
    assert NEEDLE in second["content"][0]["text"] and SECRET not in done.stdout and "mask of tersely" in refused
    subprocess.run([*tersely, "install", "opencode", "--yes", "--undo"], env=env, check=True, capture_output=True)
    assert not plugin.exists() and not list(plugin.parent.iterdir())


def test_settings_come_from_a_file_and_from_variables(tmp_path: Path) -> None:
    file = tmp_path / "hook.json"
    file.write_text('{"threshold": 4000, "leave": ["mcp__x__*"], "mask_workspace": false, "budget": 500}')
    options = parse_hook(
        ["copilot", "--leave", "view", "--budget", "700"],
        {"TERSELY_DATA_DIR": str(tmp_path), "TERSELY_HOOK_THRESHOLD": "5000", "TERSELY_HOOK_MASK_WORKSPACE": "yes"},
    )
    assert options is not None
    assert (options.threshold, options.budget, options.leave) == (5000, 700, ("view", "mcp__x__*"))
    assert options.masks_workspace and not options.unusable
    for broken in ("{", "[]", '"x"', '{"budget": 5, "threshold": true, "leave": 3, "mask": "?", "nope": 1}'):
        file.write_text(broken)
        found, unusable = configured(str(tmp_path), {"TERSELY_HOOK_SECONDS": "soon"})
        assert not found and "seconds" in unusable and len(unusable) > 1
    raw = json.dumps(claude_code_events(str(tmp_path))[0]).encode()
    options = parse_hook(["claude-code"], {"TERSELY_DATA_DIR": str(tmp_path), "TERSELY_HOOK_LEAVE": "Ba*, Read"})
    assert options is not None and answer_to(raw, options, {"TERSELY_DATA_DIR": str(tmp_path)}) == b""


NO_NETWORK = """
import socket, sys
def refused(*_, **__): raise OSError("no network")
class Refused(socket.socket): __init__ = refused
socket.socket, socket.create_connection, socket.getaddrinfo = Refused, refused, refused
from tersely.launch import launch
launch()
"""


@pytest.mark.process
@pytest.mark.parametrize("trouble", ["none", "read-only home", "no network", "broken settings", "full disk", "no time"])
def test_twenty_calls_at_once_never_break_the_agent(trouble: str, tmp_path: Path) -> None:
    event = json.dumps(claude_code_events(str(tmp_path))[0]).encode()
    count = 20 if trouble in ("none", "no time") else 2
    data = tmp_path / "data"
    env = {**os.environ, "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "TERSELY_DATA_DIR": str(data)}
    words = ["hook", "claude-code", "--seconds", "0.05" if trouble == "no time" else "120"]
    command = [sys.executable, *(["-c", NO_NETWORK] if trouble == "no network" else ["-m", "tersely"]), *words]
    if trouble == "read-only home":
        (tmp_path / "file").write_text("")
        env |= dict.fromkeys(("HOME", "TERSELY_DATA_DIR", "TMPDIR"), str(tmp_path / "file" / "below"))
    if trouble == "broken settings":
        data.mkdir()
        (data / "hook.json").write_text('{"threshold": ')
    if trouble == "full disk":
        command = ["/bin/sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *command]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) for _ in range(count)]
    answers = [process.communicate(event, timeout=240)[0] for process in started]
    assert [process.returncode for process in started] == [0] * count
    log = (data / "hook.log").read_text() if (data / "hook.log").exists() else ""
    if trouble == "no time":
        # A machine may be fast enough for one or the other; an answer is whole or empty.
        assert all(not answer or json.loads(answer) for answer in answers) and "TimeoutError" in log
        return
    texts = [json.loads(answer)["hookSpecificOutput"]["updatedToolOutput"]["stdout"] for answer in answers]
    assert all(NEEDLE in text and SECRET not in text for text in texts)
    if trouble in ("read-only home", "full disk"):
        assert all("The whole could not be kept." in text for text in texts)
    else:
        assert len(list((data / "spool").glob("*.kept"))) == count and not list((data / "spool").glob("*.new"))
    assert ("hook.json" in log) == (trouble == "broken settings")
