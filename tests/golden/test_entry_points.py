"""The record of what entry points return can be made again and compared; whether a difference is right, a person
decides.
"""

import copy
import json
import logging

import pytest

from tests.golden.entry_points import INPUTS, RECORD, Record, collect, differences

STORED: Record = json.loads(RECORD.read_text())


async def test_every_recorded_entry_point_still_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only which documents there are: what they say may change on purpose."""
    monkeypatch.setattr(logging.getLogger("tersely"), "disabled", True)
    present = await collect()
    assert {entry: list(documents) for entry, documents in present.items()} == {
        entry: list(documents) for entry, documents in STORED.items()
    }
    assert set(STORED["condense()"]) == set(INPUTS)


def test_a_difference_names_the_entry_point_the_text_and_the_field() -> None:
    present = copy.deepcopy(STORED)
    present["condense()"]["small"]["status"] = "fallback"
    del present["mask()"]["page"]
    present["new()"] = {}
    changed, removed, added = differences(STORED, present)
    assert (
        changed.startswith("=== condense(), small")
        and '- "status": "passthrough"' in changed
        and '+ "status": "fallback"' in changed
    )
    assert removed.startswith("=== mask(), page") and added == "=== new(): only in the present code"
