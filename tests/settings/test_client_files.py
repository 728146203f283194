"""Clients' own files, as their owners wrote them: routed through us, and back again."""

import json
import re
import stat
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.client import stdio

from tersely.errors import ConfigError
from tersely.settings.client_files import (
    Route,
    lost_variables,
    plan_routing,
    plan_undoing,
    read_file,
    replace_file,
)
from tersely.settings.client_programs import CLIENTS, INHERITED, Machine, user_file
from tersely.settings.files import parse_json

HERE = Path("mcp.json")
ROUTE = Route(["/opt/tersely"])

VSCODE = """{
  // what the editor asks for
  "inputs": [{"type": "promptString", "id": "tok", "password": true}],
  "servers": {
    "git": { "type": "stdio", "command": "uvx", "args": ["mcp-server-git", "--repository", "${workspaceFolder}"] }, // short
    "files": {
      "command": "npx", // starts it
      "args": [
        "-y", /* do not ask */
        "@modelcontextprotocol/server-filesystem",
      ],
      "env": { "API_KEY": "${input:tok}", "OTHER": "s3cr3t" }
    },
    "bare": {
      "command": "C:\\\\tools\\\\server.exe"
    },
    "web": {
      "type": "http",
      "url": "https://web.test/mcp", // in the office
      "headers": {
        // from the wiki
        "Authorization": "Bearer ${input:tok}", "X-Team": "blue"
      }
    },
    "local": {"url": "http://localhost:9000/sse", "type": "sse"},
  }
}
"""


def servers(text: str, section: str = "mcpServers") -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = parse_json(HERE, text).data[section]
    return found


def _one(text: str) -> str:
    return f'{{"mcpServers": {{"it": {text}}}}}'


def entry(text: str, client: str = "cursor", route: Route = ROUTE) -> dict[str, object]:
    plan = plan_routing(CLIENTS[client], HERE, _one(text), route)
    assert plan.changed == ("it",), plan.left
    return servers(plan.after)["it"]


def reason(text: str, client: str = "cursor", route: Route = ROUTE) -> str:
    whole = _one(text)
    plan = plan_routing(CLIENTS[client], HERE, whole, route)
    assert plan.after == whole and not plan.changed
    return plan.left[0][1]


def test_a_command_is_started_by_us_and_its_variables_are_named() -> None:
    routed = entry(
        '{"command": "npx", "args": ["-y", "server-git"], "env": {"TOKEN": "abc", "GONE": null}, "disabled": true}'
    )
    assert routed == {
        "command": "/opt/tersely",
        "args": ["gateway", "--name", "it", "--inherit-env", "TOKEN", "--", "npx", "-y", "server-git"],
        "env": {"TOKEN": "abc", "GONE": None},
        "disabled": True,
    }


def test_headers_become_variables_so_that_no_secret_stands_on_a_command_line() -> None:
    routed = entry(
        '{"type": "http", "url": "https://x.test/mcp", "headers": {"Authorization": "Bearer abc", "authorization ": '
        '"x"}}'
    )
    assert routed["env"] == {"TERSELY_HEADER_AUTHORIZATION": "Bearer abc", "TERSELY_HEADER_AUTHORIZATION_": "x"}
    assert (
        "abc" not in str(routed["args"])
        and routed["type"] == "stdio"
        and "url" not in routed
        and "headers" not in routed
    )


def test_comments_and_formatting_survive_and_what_the_client_fills_in_is_left_to_it() -> None:
    plan = plan_routing(CLIENTS["vscode"], HERE, VSCODE, ROUTE)
    assert plan.changed == ("git", "files", "bare", "web", "local") and plan.commands == ("git", "files", "bare")
    for kept in (
        "// what the editor asks for",
        "// short",
        "// starts it",
        "/* do not ask */",
        "// in the office",
        "// from the wiki",
    ):
        assert kept in plan.after
    assert '"-y", /* do not ask */\n        "@modelcontextprotocol/server-filesystem",\n      ],' in plan.after
    assert (
        '"API_KEY": "${input:tok}"' in plan.after
        and '"TERSELY_HEADER_AUTHORIZATION": "Bearer ${input:tok}"' in plan.after
    )
    routed = servers(plan.after, "servers")
    assert routed["bare"]["args"] == ["gateway", "--name", "bare", "--", "C:\\tools\\server.exe"]
    assert routed["local"]["args"] == ["gateway", "--name", "local", "--upstream", "http://localhost:9000/sse", "--sse"]


def test_routing_again_changes_nothing_and_takes_in_what_was_added() -> None:
    once = plan_routing(CLIENTS["vscode"], HERE, VSCODE, ROUTE).after
    again = plan_routing(CLIENTS["vscode"], HERE, once, ROUTE)
    assert again.after == once and not again.changed and len(again.settled) == 5
    more = once.replace('"servers": {', '"servers": {\n    "new": {"command": "new"},')
    assert plan_routing(CLIENTS["vscode"], HERE, more, ROUTE).changed == ("new",)


def test_variables_can_be_passed_on_later() -> None:
    once = plan_routing(CLIENTS["vscode"], HERE, VSCODE, ROUTE).after
    later = plan_routing(CLIENTS["vscode"], HERE, once, Route(["t"], ["HTTPS_PROXY"], skip=["git"]))
    assert later.changed == ("files", "bare") and later.settled == ("git", "web", "local")
    assert servers(later.after, "servers")["bare"]["args"] == [
        "gateway", "--name", "bare", "--inherit-env", "HTTPS_PROXY", "--", "C:\\tools\\server.exe",
    ]  # fmt: skip
    assert plan_undoing(CLIENTS["vscode"], HERE, later.after, VSCODE).after == VSCODE


def test_undoing_gives_back_every_byte() -> None:
    for text in (VSCODE, VSCODE.replace("\n", "\r\n"), "\ufeff" + VSCODE):
        routed = plan_routing(CLIENTS["vscode"], HERE, text, ROUTE).after
        assert plan_undoing(CLIENTS["vscode"], HERE, routed, text).after == text


def test_undoing_keeps_what_was_edited_since() -> None:
    routed = plan_routing(CLIENTS["vscode"], HERE, VSCODE, ROUTE).after
    edited = (
        routed.replace('"-y", /*', '"-y", "--verbose", /*')
        .replace("blue", "red")
        .replace('"inputs"', '"theme": "dark", "inputs"')
    )
    back = plan_undoing(CLIENTS["vscode"], HERE, edited, VSCODE)
    assert back.after == VSCODE.replace('"-y", /*', '"-y", "--verbose", /*').replace("blue", "red").replace(
        '"inputs"', '"theme": "dark", "inputs"'
    )


def test_undoing_needs_no_backup() -> None:
    routed = plan_routing(CLIENTS["vscode"], HERE, VSCODE, ROUTE).after
    for backup in (None, "{ broken", "{}"):
        back = servers(plan_undoing(CLIENTS["vscode"], HERE, routed, backup).after, "servers")
        original = servers(VSCODE, "servers")
        original["bare"]["args"] = []
        assert back == original


def test_an_entry_that_was_ours_before_is_not_undone() -> None:
    by_hand = (
        '{"command": "tersely", "args": ["gateway", "--", "notes"]}, "all": {"command": "tersely", "args": '
        '["gateway", "--config", "x"]}'
    )
    mine = f'{{"mcpServers": {{"mine": {by_hand}, "other": {{"command": "x"}}}}}}'
    routed = plan_routing(CLIENTS["cursor"], HERE, mine, ROUTE)
    assert routed.settled == ("mine", "all")
    assert plan_undoing(CLIENTS["cursor"], HERE, routed.after, mine).after == mine
    alone = plan_undoing(CLIENTS["cursor"], HERE, routed.after, None)
    assert alone.changed == ("mine", "other") and "by hand" in alone.left[0][1]


def test_claude_code_declares_servers_in_two_places() -> None:
    text = (
        '{"mcpServers": {"a": {"command": "a"}}, "projects": {"/work": {"mcpServers": {"b": {"command": "b"}}, '
        '"history": []}, "/x": {}}}'
    )
    plan = plan_routing(CLIENTS["claude-code"], HERE, text, ROUTE)
    assert plan.changed == ("a", "b")
    assert plan_undoing(CLIENTS["claude-code"], HERE, plan.after, text).after == text


def test_windsurf_has_its_own_word_for_an_address() -> None:
    text = '{"mcpServers": {"it": {"serverUrl": "http://127.0.0.1:1/mcp"}}}'
    routed = plan_routing(CLIENTS["windsurf"], HERE, text, ROUTE).after
    assert servers(routed)["it"]["args"] == ["gateway", "--name", "it", "--upstream", "http://127.0.0.1:1/mcp"]
    assert plan_undoing(CLIENTS["windsurf"], HERE, routed, None).after == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"command": "npx", "url": "http://localhost"}', "several commands or addresses"),
        ('{"env": {}}', "no command and no address"),
        ("5", "not a JSON object"),
        ('{"command": "npx", "args": "-y"}', "not a list of strings"),
        ('{"command": 5}', "not a string"),
        ('{"command": "npx", "sandboxEnabled": true}', "sandbox"),
        ('{"command": "npx", "envFile": "${workspaceFolder}/.env"}', "cannot be read"),
        ('{"url": "https://mcp.test/mcp?key=abc", "headers": {"X": "y"}}', "seems to contain a key"),
        ('{"url": "https://mcp.test/s/a8sd7f6as8d7f6as8d7f/mcp", "headers": {"X": "y"}}', "seems to contain a key"),
        ('{"url": "https://mcp.test/mcp", "oauth": {"clientId": "x"}}', "signs in through the client"),
        ('{"url": "unix:///tmp/server.sock"}', "neither http nor https"),
        ('{"url": "http://localhost/mcp", "headers": {"X": "y"}, "env": {}}', "headers and env"),
    ],
)
def test_what_cannot_be_routed_is_left_alone_with_a_reason(text: str, says: str) -> None:
    assert says in reason(text)


def test_a_remote_server_is_routed_and_listed_as_one_that_may_need_a_login() -> None:
    text = '{"mcpServers": {"it": {"url": "https://mcp.test/mcp"}, "box": {"url": "http://localhost:1/mcp"}}}'
    plan = plan_routing(CLIENTS["cursor"], HERE, text, ROUTE)
    assert plan.changed == ("it", "box") and plan.public == (("it", "https://mcp.test/mcp"),)
    assert plan_undoing(CLIENTS["cursor"], HERE, plan.after, None).after == text


def test_a_server_that_is_named_is_routed_even_if_its_address_may_hold_a_key() -> None:
    assert entry('{"url": "https://mcp.test/mcp?key=1"}', route=Route(["t"], only=["it"]))["command"] == "t"
    assert reason('{"command": "x"}', route=Route(["t"], skip=["i*"])) == "not chosen"


def test_variables_of_an_env_file_are_named_too(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("# keys\nexport A=1\nB = 2\n\nnot a line\n")
    routed = entry('{"command": "x", "envFile": "${workspaceFolder}/.env"}', route=Route(["t"], ["C"], folder=tmp_path))
    assert routed["args"] == [
        "gateway", "--name", "it", "--inherit-env", "A", "--inherit-env", "B", "--inherit-env", "C", "--", "x",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"mcpServers": {\n"a": {"command" "x"}}}', "mcp.json:2: is not valid JSON: a colon is missing"),
        ("[]", "mcp.json:1: is not a configuration of Cursor"),
        ('{"theme": "dark"}', "declares no servers"),
        ('{"servers": {}}', "It has 'servers', which Cursor does not read"),
        ('{\n"mcpServers": []}', "mcp.json:2: mcpServers must map server names"),
        ('{"mcpServers": {}, "mcpServers": {}}', "is a duplicate"),
        ("", "is not a configuration"),
    ],
)
def test_a_file_that_is_not_the_clients_is_left_alone_with_file_and_line(text: str, says: str) -> None:
    with pytest.raises(ConfigError) as problem:
        plan_routing(CLIENTS["cursor"], HERE, text, ROUTE)
    assert says in str(problem.value)


def test_a_diff_shows_no_secret() -> None:
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    text = VSCODE.replace('"-y",', f'"-y", "--token", "{token}", "--password=hunter2-hunter2",')
    plan = plan_routing(CLIENTS["vscode"], HERE, text, ROUTE)
    for shown in ("\n".join(plan.diff()), "\n".join(plan_undoing(CLIENTS["vscode"], HERE, plan.after, text).diff())):
        for secret in ("s3cr3t", "blue", token, "hunter2"):
            assert secret not in shown
        assert "${input:tok}" in shown and '      "command": "/opt/tersely"' in shown
        assert (
            '"--header-from", "Authorization=TERSELY_HEADER_AUTHORIZATION", "--header-from", '
            '"X-Team=TERSELY_HEADER_X_TEAM"'
        ) in shown


def test_a_diff_shows_nothing_but_the_entries_that_change() -> None:
    text = (
        '{"apiKey": "sk-ours", "mcpServers": {"a": {"command": "x"}, "b": {"url": "unix:///b"}}, "history": '
        '["private"]}'
    )
    assert plan_routing(CLIENTS["claude-code"], HERE, text, ROUTE).diff() == [
        "--- mcp.json",
        "+++ mcp.json",
        "@@ line 1: mcpServers.a @@",
        '-"a": {"command": "x"}',
        '+"a": {"command": "/opt/tersely", "args": ["gateway", "--name", "a", "--", "x"]}',
    ]


def test_what_commands_no_longer_inherit_is_known_by_name() -> None:
    linux = Machine.here("linux", Path("/home/me"), {})
    assert lost_variables(["HOME", "HTTPS_PROXY", "https_proxy", "KUBECONFIG", "PGHOST"], linux, ["KUBECONFIG"]) == [
        "PGHOST"
    ]
    assert lost_variables(["PGHOST", "TERSELY_TOKEN"], linux, ["*"]) == ["TERSELY_TOKEN"]
    windows = Machine.here("win32", Path("C:/me"), {"APPDATA": "C:/data"})
    assert lost_variables(["Path", "SystemRoot", "PGHOST"], windows, []) == ["PGHOST"]
    assert list(INHERITED["linux"]) == stdio.DEFAULT_INHERITED_ENV_VARS, "what the library passes on has changed"


def test_files_are_looked_for_where_each_system_has_them() -> None:
    mac = Machine.here("darwin", Path("/Users/me"), {})
    windows = Machine.here("win32", Path("C:/Users/me"), {"APPDATA": "C:/Users/me/Roaming"})
    linux = Machine.here("linux", Path("/home/me"), {"XDG_CONFIG_HOME": "/home/me/cfg"})
    desktop = CLIENTS["claude-desktop"]
    assert user_file(desktop, mac) == Path("/Users/me/Library/Application Support/Claude/claude_desktop_config.json")
    assert user_file(desktop, windows) == Path("C:/Users/me/Roaming/Claude/claude_desktop_config.json")
    assert user_file(CLIENTS["vscode"], linux) == Path("/home/me/cfg/Code/User/mcp.json")
    assert user_file(CLIENTS["cursor"], windows) == Path("C:/Users/me/.cursor/mcp.json")


def test_the_documented_table_is_the_one_in_the_code() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "clients.md").read_text()
    for client in CLIENTS.values():
        assert client.source in page and client.checked in page and f"`{client.name}`" in page
        for place in (*client.user.values(), *([client.project] if client.project else [])):
            shown = place.replace("{home}", "~").replace("{appdata}", "%APPDATA%").replace("{config}", "~/.config")
            assert f"`{shown}`" in page, shown


def test_a_file_is_replaced_in_one_piece_through_its_link_with_its_rights(tmp_path: Path) -> None:
    real, link = tmp_path / "dotfiles" / "mcp.json", tmp_path / "mcp.json"
    real.parent.mkdir()
    real.write_text("old")
    real.chmod(0o600)
    link.symlink_to(real)
    replace_file(link, "old", "new\r\n")
    assert link.is_symlink() and real.read_bytes() == b"new\r\n" and stat.S_IMODE(real.stat().st_mode) == 0o600
    assert [path.name for path in real.parent.iterdir()] == ["mcp.json"]


def test_a_file_that_somebody_changed_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text("theirs")
    with pytest.raises(ConfigError, match="has changed in the meantime"):
        replace_file(path, "old", "new")
    assert read_file(path) == "theirs"
    path.write_bytes(b"ok\n\xff")
    with pytest.raises(ConfigError, match=r"mcp\.json:2: is not UTF-8"):
        read_file(path)


_NAMES = st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=8)
_WORDS = st.text(st.characters(blacklist_categories=["Cs"]), max_size=12)


_SERVERS = st.dictionaries(
    _NAMES,
    st.fixed_dictionaries(
        {"command": _WORDS.filter(bool)},
        optional={
            "args": st.lists(_WORDS, max_size=4),
            "env": st.dictionaries(_NAMES, _WORDS, max_size=3),
            "type": st.just("stdio"),
        },
    )
    | st.fixed_dictionaries(
        {"url": st.just("http://localhost:1/mcp")},
        optional={"headers": st.dictionaries(_NAMES, _WORDS, max_size=3), "type": st.sampled_from(["http", "sse"])},
    ),
    max_size=4,
)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}:,]|[^\s\[\]{}:,"]+')


def edited_by_hand(text: str, edits: dict[str, str]) -> str:
    """The file with something inserted at the beginning of each of these entries."""
    spans = parse_json(HERE, text).spans
    for at, edit in sorted(((spans["mcpServers", name][0] + 1, edit) for name, edit in edits.items()), reverse=True):
        text = text[:at] + edit + text[at:]
    return text


@given(
    _SERVERS,
    st.randoms(use_true_random=False),
    st.sampled_from([("",), (" ", "\n  "), ("", " ", "\r\n\t", "/* a, b */", " // }\n")]),
)
def test_whatever_stands_in_a_file_routing_and_undoing_gives_it_back(
    declared: dict[str, object], dice: Random, gaps: tuple[str, ...]
) -> None:
    """However it is written: comments, line ends and commas at the end included."""
    tokens = _TOKEN.findall(json.dumps({"mcpServers": declared}, ensure_ascii=False))
    text = ""
    for before, token in pairwise(["", *tokens]):
        is_end = token in ("}", "]") and before not in ("{", "[", "")
        text += ("," if is_end and dice.random() < 0.2 else "") + dice.choice(gaps) + token
    plan = plan_routing(CLIENTS["cursor"], HERE, text, ROUTE)
    assert set(plan.changed) == set(declared)
    assert plan_undoing(CLIENTS["cursor"], HERE, plan.after, text).after == text
    by_hand = {name: dice.choice(("", ' "disabled": true,', "/* mine */", "\r\n // mine\r\n")) for name in declared}
    undone = plan_undoing(CLIENTS["cursor"], HERE, edited_by_hand(plan.after, by_hand), text)
    assert set(undone.changed) == set(declared)
    for name, edit in by_hand.items():
        key = ("mcpServers", name)
        was, now = parse_json(HERE, text), parse_json(HERE, undone.after)
        written = undone.after[slice(*now.spans[key])]
        assert written.startswith("{" + edit)
        if not edit:
            assert written == text[slice(*was.spans[key])]
        kept = {"args": [], **now.data["mcpServers"][name]}
        assert kept == {
            "args": [],
            **was.data["mcpServers"][name],
            **({"disabled": True} if "disabled" in edit else {}),
        }
    assert not plan_routing(CLIENTS["cursor"], HERE, plan.after, ROUTE).changed
    alone = parse_json(HERE, plan_undoing(CLIENTS["cursor"], HERE, plan.after, None).after).data["mcpServers"]
    assert {name: {"args": [], **one} if "command" in one else one for name, one in alone.items()} == {
        name: {"args": [], **one} if "command" in one else one  # type: ignore[dict-item, operator]
        for name, one in declared.items()
    }
