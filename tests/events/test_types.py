"""One registry of event types: the published schema and every stored event follow from it."""

import inspect
import json
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from tersely.events import types
from tersely.events.bus import Bus
from tersely.events.log import create_session
from tersely.events.recorder import SessionRecorder
from tersely.events.schema import event_schema
from tersely.events.types import STORED, TRANSIENT, Effect, effect_of
from tersely.masking.masked import assume_masked
from tersely.masking.options import MaskingOptions
from tersely.sessions.triage import SessionTriage
from tersely.store import sessions
from tersely.store.database import Database
from tersely.store.events import feed_head
from tersely.store.interactions import Interaction
from tests.fakes.begun import NOON, alert, begun, log

SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "events.schema.json"


def test_the_published_schema_is_the_generated_one() -> None:
    published = json.loads(SCHEMA.read_text("utf-8"))
    assert event_schema() == published, "run: make event-schema"


def test_every_event_class_is_registered() -> None:
    declared = {
        one for _, one in inspect.getmembers(types, inspect.isclass) if isinstance(getattr(one, "type", 0), str)
    }
    assert declared == {*STORED, *TRANSIENT}
    assert len({event.type for event in (*STORED, *TRANSIENT)}) == len(STORED) + len(TRANSIENT)


async def bus_head(database: Database) -> int:
    async with database.reading() as db:
        return await feed_head(db)


async def test_every_event_that_is_sent_has_a_declared_type_and_its_fields(database: Database) -> None:
    """Drives the recorder through all types, stored and transient, and checks what a viewer gets."""
    session_id = await begun(database)
    bus = Bus(database)
    recorder = SessionRecorder(database, bus, session_id, 1)
    sent: list[dict[str, Any]] = []
    async with bus.subscribe(f"session:{session_id}", 0) as viewer:

        async def receive(number: int) -> None:
            sent.extend([json.loads(await anext(viewer)) for _ in range(number)])

        (stage,) = await recorder.plan(["look"])
        await recorder.stage_status(stage, "in_progress")
        inner = recorder.within(stage, sessions.derived_id(session_id, "execution"))
        await inner.execution_began(agent="a", controller="react", provider="p", model="m")
        async with inner.opened("1", "llm_response") as event:
            await receive(5)
            event.delta(assume_masked("The pod"))
            await receive(1)
            await event.complete(assume_masked("The pod is back."))
        await inner.interaction("1", Interaction(type="iteration"))
        await receive(2)
        inner.progress("concluding", "Concluding")
        recorder.session_progress(0, 1, "look")
        await receive(2)
        await recorder.session_status("failed", reason="It broke.")
        await receive(3)
        async with database.transaction() as db:
            _, logged = await create_session(db, alert(parent_id=session_id, number=1), now=NOON)
        bus.publish(*logged)
        await receive(1)
    async with bus.subscribe("sessions", await bus_head(database)) as viewer:
        desk = SessionTriage(database=database, bus=bus, masking=MaskingOptions())
        await desk.rate(session_id, "wrong", "No", by="kim")
        sent.append(json.loads(await anext(viewer)))
    validator = Draft202012Validator(event_schema())
    for payload in sent:
        validator.validate(payload)
    assert {payload["type"] for payload in sent} == {event.type for event in (*STORED, *TRANSIENT)}
    required = {
        event.type: [field.name for field in fields(event) if field.default is MISSING]
        for event in (*STORED, *TRANSIENT)
    }
    for payload in sent:
        own = [name for name in payload if name not in ("type", "v", "session_id", "seq", "timestamp")]
        assert [name for name in own if name in required[payload["type"]]] == required[payload["type"]]
    told = [one for one in sent if "seq" in one and one["type"] != "session.triaged"]
    assert [json.loads(one.payload) for one in await log(database, session_id)] == told


@pytest.mark.parametrize(
    ("event", "effect"),
    [
        ({"status": "streaming", "event_id": "e", "type": "timeline_event.created"}, Effect(opened="e")),
        ({"type": "timeline_event.created", "event_id": "e", "status": "completed"}, Effect()),
        ({"type": "timeline_event.completed", "event_id": "e", "status": "failed"}, Effect(closed="e")),
        ({"type": "session.status", "status": "cancelling"}, Effect()),
        ({"type": "session.status", "status": "timed_out"}, Effect(session_end="timed_out")),
        ({"type": "stage.status", "status": "completed"}, Effect()),
        ({"type": "of a later release"}, Effect()),
    ],
)
def test_the_effect_of_an_event_does_not_depend_on_the_order_of_its_fields(event: Any, effect: Effect) -> None:
    assert effect_of(json.dumps(event)) == effect
