"""docs/reference/api.md says what the service says of itself."""

import re
from dataclasses import fields
from pathlib import Path

from tersely.events.types import STORED, TRANSIENT
from tests.web.running import Running

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "api.md"


async def test_the_reference_names_every_route_and_no_other(service: Running) -> None:
    document = (await service.http.get("/openapi.json")).json()
    routes = {path.removeprefix("/api/v1") for path in document["paths"]}
    text = PAGE.read_text(encoding="utf-8")
    told = {
        re.sub(r"\{[a-z_]+\}", "{}", path)
        for path in re.findall(r"(?<![\w.])(/[a-z][a-z0-9/{}_-]*)", text.replace("…/trace", "/sessions/{id}/trace"))
    }
    known = {re.sub(r"\{[a-z_]+\}", "{}", path) for path in routes}
    assert sorted(known - told) == [], "routes that the reference does not name"
    listed = {path for path in told if path.startswith(("/sessions", "/alerts", "/system", "/alert-types"))}
    assert sorted(listed - known - {"/sessions", "/alerts"}) == [], "routes that do not exist"


def test_the_reference_has_every_event_with_its_fields() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for event in (*STORED, *TRANSIENT):
        is_stored = "yes" if event in STORED else "no"
        (row,) = [line for line in text.splitlines() if line.startswith(f"| `{event.type}` | {is_stored} |")]
        named = re.findall(r"`(\w+)`", row.split("|")[3])
        assert [field.name for field in fields(event)] == [
            name for name in named if name in {field.name for field in fields(event)}
        ], event.type
