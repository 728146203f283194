"""The files and messages that the docs show are accepted by what reads them.

Every block of YAML, JSON, TOML or HTTP has exactly one reader here; a block that none knows fails.
"""

import json
import re
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml
from click.testing import CliRunner
from pydantic import BaseModel

from tersely.cli import main
from tersely.coding import hook_settings
from tersely.masking.token_patterns import TokenPattern
from tersely.settings.client_files import Route, plan_routing
from tersely.settings.client_programs import CLIENTS
from tersely.settings.model import Settings
from tersely.web import schemas
from tests.docs.blocks import Block, all_blocks, blocks

Reader = Callable[[Block, Any, Path], None]

ALERTMANAGER = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "receivers": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "webhook_configs": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "additionalProperties": False,
                            "required": ["url"],
                            "properties": {
                                "url": {"type": "string", "pattern": "/api/v1/alerts/alertmanager$"},
                                "send_resolved": {"type": "boolean"},
                                "http_config": {"type": "object"},
                            },
                        },
                    },
                },
            },
        }
    },
}
"""The part of Alertmanager's file that we show. The file itself is Alertmanager's, which is not here to read it."""


def as_configuration(block: Block, data: Any, folder: Path) -> None:
    """`tersely config check`, with every variable set."""
    file = folder / "tersely.yaml"
    file.write_text(block.text, "utf-8")
    variables = dict.fromkeys(re.findall(r"\$\{(\w+)\}", block.text), "http://127.0.0.1:1/mcp")
    done = CliRunner().invoke(main, ["config", "check", "--config", str(file)], env=variables)
    assert done.exit_code == 0, f"{block}\n{done.output}"


def as_stages(block: Block, data: Any, folder: Path) -> None:
    """Stages alone, in a chain of the page's whole file."""
    whole = next(other for other in blocks(block.page) if other.language == "yaml")
    file = yaml.safe_load(whole.text)
    next(iter(file["chains"].values()))["stages"] = data["stages"]
    as_configuration(replace(block, text=yaml.safe_dump(file)), file, folder)


def as_servers(block: Block, data: Any, folder: Path) -> None:
    """What `tersely config init --from` makes of a client's file is valid."""
    file = folder / "mcp.json"
    file.write_text(block.text, "utf-8")
    variables = dict.fromkeys(re.findall(r"\$\{(\w+)\}", block.text), "http://127.0.0.1:1/mcp")
    written = str(folder / "tersely.yaml")
    for arguments in (["init", written, "--from", str(file)], ["check", "--config", written]):
        done = CliRunner().invoke(main, ["config", *arguments], env=variables)
        assert done.exit_code == 0, f"{block}\n{done.output}"


def as_topics(block: Block, data: Any, folder: Path) -> None:
    """Played too: the page writes the file, and `tersely research` reads it."""
    assert all(isinstance(question, str) for question in data.values()), block


def as_extraction_schema(block: Block, data: Any, folder: Path) -> None:
    from tersely.research.request import check_schema

    check_schema(data)


def as_alertmanager(block: Block, data: Any, folder: Path) -> None:
    jsonschema.validate(data, ALERTMANAGER)


def as_request(block: Block, data: Any, folder: Path) -> None:
    """A body that stands alone, or after the line with its method and path."""
    line, _, body = block.text.partition("\n") if block.language == "http" else ("POST /alerts", "", block.text)
    method, path = line.split()
    models: dict[str, type[BaseModel]] = {
        "/alerts": schemas.AlertIn,
        "/sessions/{id}/chat": schemas.QuestionIn,
        "/sessions/{id}/rerun": schemas.RerunIn,
    }
    assert method == "POST" and models[path].model_validate_json(body), block


def as_webhook(block: Block, data: Any, folder: Path) -> None:
    schemas.AlertmanagerIn.model_validate(data)


def as_hook_settings(block: Block, data: Any, folder: Path) -> None:
    (folder / hook_settings.FILE).write_text(block.text, "utf-8")
    found, refused = hook_settings.configured(str(folder), {})
    assert len(found) == len(data) and not refused, f"{block}: {refused}"


def as_error(block: Block, data: Any, folder: Path) -> None:
    schemas.Error.model_validate(data)


def as_live_message(block: Block, data: Any, folder: Path) -> None:
    """Sent to a running service by tests/web/test_live.py."""
    assert set(data) <= {"action", "channel", "last_seq"} and data["action"] in ("subscribe", "catchup"), block


def as_token_pattern(block: Block, data: Any, folder: Path) -> None:
    """Its fields are those of an entry, and its examples are what they are called."""
    for fields in data["token"]:
        entry = TokenPattern(**fields)
        assert re.fullmatch(entry.rest, entry.example) and not re.fullmatch(entry.rest, entry.counterexample), block


def reader_of(block: Block, data: Any) -> Reader | None:
    keys = set(data) if isinstance(data, dict) else set()
    if block.language == "http" or (block.language == "json" and "data" in keys):
        return as_request
    known: dict[str, Reader] = {
        "mcpServers": as_servers,
        "servers": as_servers,
        "groupKey": as_webhook,
        "stages": as_stages,
        "threshold": as_hook_settings,
        "receivers": as_alertmanager,
        "error": as_error,
        "action": as_live_message,
        "token": as_token_pattern,
    }
    if found := [reader for key, reader in known.items() if key in keys]:
        return found[0]
    if block.language == "yaml" and keys <= set(Settings.model_fields):
        return as_configuration
    if block.language == "yaml" and block.title == "topics.yaml":
        return as_topics
    return as_extraction_schema if keys == {"type", "properties"} else None


@pytest.mark.parametrize("block", all_blocks("yaml", "json", "toml", "http"), ids=str)
def test_a_file_of_the_docs_is_accepted(block: Block, tmp_path: Path) -> None:
    parse: dict[str, Callable[[str], Any]] = {"yaml": yaml.safe_load, "json": json.loads, "toml": tomllib.loads}
    data = parse.get(block.language, str)(block.text)
    reader = reader_of(block, data)
    assert reader, f"{block}: nothing here reads this. Is it whole, and which program reads it?"
    reader(block, data, tmp_path)


def test_the_entry_of_a_client_is_changed_as_its_page_shows(tmp_path: Path) -> None:
    before, after = (block.text for block in blocks("docs/reference/clients.md") if block.language == "json")
    change = plan_routing(CLIENTS["vscode"], tmp_path / "mcp.json", before, Route(["/path/to/tersely"]))
    assert json.loads(change.after) == json.loads(after)
