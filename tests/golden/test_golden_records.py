"""Every record and error that release 0.1.0 could store in a workflow step is read by this code, field by field."""

import dataclasses
import gzip
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tersely.errors import TerselyError
from tersely.research.records import RESEARCH_TYPES
from tersely.sessions.codec import RecordCodec, StepFailed
from tersely.sessions.records import SESSION_TYPES
from tests.golden.examples import ERRORS, PLAIN, RECORDS

GOLDEN = Path(__file__).parent / "v0_1_0"
RELEASES = sorted(GOLDEN.parent.glob("v*"))
CODEC = RecordCodec((*SESSION_TYPES, *RESEARCH_TYPES))
STORED: dict[str, Any] = json.loads((GOLDEN / "records.json").read_text())


def same(read: Any, expected: Any, where: str) -> None:
    """Compare two values including their types; a failure names the field."""
    if isinstance(expected, str):
        assert isinstance(read, str) and read == expected, where
        return
    assert type(read) is type(expected), where
    if dataclasses.is_dataclass(expected):
        for field in dataclasses.fields(expected):
            same(getattr(read, field.name), getattr(expected, field.name), f"{where}.{field.name}")
    elif isinstance(expected, list | tuple):
        assert len(read) == len(expected), where
        for number, (one, other) in enumerate(zip(read, expected, strict=True)):
            same(one, other, f"{where}[{number}]")
    elif isinstance(expected, dict):
        assert list(read) == list(expected), where
        for key, value in expected.items():
            same(read[key], value, f"{where}[{key!r}]")
    else:
        assert read == expected, where


@pytest.mark.parametrize("name", STORED["records"])
def test_a_stored_record_is_read(name: str) -> None:
    assert len(STORED["records"][name]) == len(RECORDS[name])
    for stored, expected in zip(STORED["records"][name], RECORDS[name], strict=True):
        assert stored["$is"] == name
        same(CODEC.from_json(json.dumps(stored)), expected, name)


@pytest.mark.parametrize("name", STORED["plain"])
def test_a_stored_value_is_read(name: str) -> None:
    same(CODEC.from_json(json.dumps(STORED["plain"][name])), PLAIN[name], name)


@pytest.mark.parametrize("name", STORED["errors"])
def test_a_stored_error_is_read(name: str) -> None:
    stored, expected = STORED["errors"][name], ERRORS[name]
    assert stored["$raised"] == name
    error = CODEC.from_json(json.dumps(stored))
    assert type(error) is type(expected) and isinstance(error, TerselyError)
    assert list(error.args) == stored["args"]
    assert re.sub(r"\[MASKED:\w+:\w+\]", "hunter2-Walnut!orbit42", str(error)).rstrip(".") == str(expected).rstrip(".")
    for attribute, value in stored["state"].items():
        assert getattr(error, attribute) == getattr(expected, attribute) == value, attribute


def test_a_step_that_a_version_before_the_first_release_stored_is_read() -> None:
    """Written by commit 9fdf08a, whose `Called` has a field that was removed and lacks one that was added."""
    steps = json.loads((GOLDEN.with_name("before_0_1_0") / "steps.json").read_text())
    kinds = set()
    for one in steps:
        stored = one["stored"]
        read = CODEC.from_json(json.dumps(stored))
        kinds.add(type(read).__name__)
        assert (
            json.loads(CODEC.to_json(read))["of"].items()
            >= {
                name: value for name, value in stored["of"].items() if isinstance(value, str | int) and name != "page"
            }.items()
        )
    assert kinds == {"Turn", "Called"}
    assert any("page" in one["stored"]["of"] and "whole" not in one["stored"]["of"] for one in steps)


def test_an_error_of_another_package_is_read_as_a_failed_step() -> None:
    error = CODEC.from_json(json.dumps(STORED["error of another package"]))
    assert type(error) is StepFailed and str(error) == "KeyError (see the log)"


def test_every_release_has_golden_records() -> None:
    """A new heading in the changelog fails here until the release has a folder: see `make_golden`, `entry_points`."""
    changelog = Path(__file__).parents[2] / "CHANGELOG.md"
    released = re.findall(r"^## \[(\d[^\]]*)\]", changelog.read_text(), re.MULTILINE)
    assert "0.1.0" in released
    assert {f"v{version.replace('.', '_')}" for version in released} == {folder.name for folder in RELEASES}
    files = {file.name for file in GOLDEN.iterdir()}
    for folder in RELEASES:
        assert files <= {file.name for file in folder.iterdir()}, folder.name


@pytest.mark.parametrize("folder", RELEASES, ids=lambda folder: folder.name)
def test_everything_that_a_release_stored_is_read(folder: Path, tmp_path: Path) -> None:
    stored = json.loads((folder / "records.json").read_text())
    records = [one for examples in stored["records"].values() for one in examples]
    examples = [json.dumps(one) for one in [*records, *stored["plain"].values(), *stored["errors"].values()]]
    texts, inputs = stored_by(folder, tmp_path)
    assert examples and texts and inputs
    for text in [*examples, *texts, *inputs]:
        CODEC.from_json(text)


def stored_by(folder: Path, tmp_path: Path) -> tuple[list[str], list[str]]:
    """What the steps of a release's golden sessions stored, and the inputs of their workflows."""
    file = tmp_path / "workflows.db"
    file.write_bytes(gzip.decompress((folder / "tersely-workflows.db.gz").read_bytes()))
    with closing(sqlite3.connect(file)) as connection:
        texts = [text for (text,) in connection.execute("SELECT coalesce(output, error) FROM operation_outputs")]
        inputs = [text for (text,) in connection.execute("SELECT inputs FROM workflow_input")]
    return texts, inputs


def test_every_step_of_the_golden_sessions_has_an_example(tmp_path: Path) -> None:
    texts, inputs = stored_by(GOLDEN, tmp_path)
    assert len(texts) > 50 and len(inputs) == 13
    names = set(re.findall(r'"\$(?:is|raised)": "([^"]+)"', "\n".join(texts)))
    assert names <= STORED["records"].keys() | STORED["errors"].keys()
    assert {name.partition(":")[2] for name in names} >= {
        "Turn",
        "Called",
        "Observation",
        "Planned",
        "Reading",
        "Instruments",
        "Hit",
    }
