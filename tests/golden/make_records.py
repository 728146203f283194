"""Write `records.json`: what the codec of release 0.1.0 writes for every value in `examples`.

    python -m tests.golden.make_records

This ran once, at commit 72db380, and must never run again with newer code: the file shows that newer code can
read what 0.1.0 stored. Before it writes, it checks that no kind of record or error is missing.
"""

import dataclasses
import importlib
import json
import pkgutil
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tersely
from tersely.errors import TerselyError
from tersely.sessions import codec
from tests.golden.examples import ERRORS, PLAIN, RECORDS

FILE = Path(__file__).parent / "v0_1_0" / "records.json"


def stored_name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def parts_of(kind: Any) -> Iterator[type]:
    """A record's class, and the classes of the records in its fields."""
    if dataclasses.is_dataclass(kind):
        yield typing.cast(type, kind)
        for hint in typing.get_type_hints(kind).values():
            yield from parts_of(hint)
    for argument in typing.get_args(kind):
        yield from parts_of(argument)


def every_error() -> set[str]:
    for module in pkgutil.walk_packages(tersely.__path__, "tersely."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found = {TerselyError}
    while more := {below for error in found for below in error.__subclasses__()} - found:
        found |= more
    return {stored_name(error) for error in found if error.__module__.startswith("tersely.")}


def main() -> None:
    if FILE.exists():
        sys.exit(f"{FILE} exists. Golden files are written once; give a later release a folder of its own.")
    for name, examples in RECORDS.items():
        for example in examples:
            assert stored_name(type(example)) == name
            missing = {stored_name(part) for part in parts_of(type(example))} - RECORDS.keys()
            assert not missing, missing
    assert {name: stored_name(type(error)) for name, error in ERRORS.items()} == {name: name for name in every_error()}
    records = {name: [json.loads(codec.to_json(example)) for example in examples] for name, examples in RECORDS.items()}
    plain = {name: json.loads(codec.to_json(example)) for name, example in PLAIN.items()}
    raised = {name: json.loads(codec.to_json(error)) for name, error in ERRORS.items()}
    foreign = json.loads(codec.to_json(KeyError("not ours")))
    written = {"records": records, "plain": plain, "errors": raised, "error of another package": foreign}
    FILE.write_text(json.dumps(written, indent=1, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    main()
