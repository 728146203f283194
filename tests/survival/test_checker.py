"""The checker can fail: each invariant, broken in a history that is otherwise in order, is named."""

import json
from typing import Any

import pytest

from tests.survival.checker import again, check, resumed_after
from tests.survival.history import History, Record

ORDER = ["pending", "in_progress", "completed"]


def orderly() -> History:
    """A session that was killed once in its second step and went on elsewhere."""
    history = History()
    add = history.records.append
    add({"kind": "run", "at": 0.0, "limit": 1, "lease": 2.0})
    add({"kind": "submit", "at": 1.0, "session": "s", "case": "case-1", "accepted": True})
    add({"kind": "claim", "at": 2.0, "session": "s", "attempt": 1, "executor": "a"})
    add({"kind": "call", "at": 2.1, "what": "model", "case": "case-1", "number": 0})
    add({"kind": "call", "at": 3.0, "what": "tool", "case": "case-1", "number": 0})
    add({"kind": "fault", "at": 3.1, "what": "kill", "executor": "a"})
    add({"kind": "claim", "at": 6.0, "session": "s", "attempt": 2, "executor": "b"})
    add({"kind": "call", "at": 6.1, "what": "tool", "case": "case-1", "number": 0})
    add({"kind": "step", "at": 9.0, "session": "s", "name": "x/1/model", "began": 2.1, "stored": 2.9})
    add({"kind": "step", "at": 9.0, "session": "s", "name": "x/1/1/call", "began": 6.1, "stored": 6.5})
    for seq, status in enumerate(ORDER, 1):
        payload = json.dumps({"type": "session.status", "seq": seq, "status": status})
        add({"kind": "event", "at": 9.0, "session": "s", "seq": seq, "payload": payload})
        add({"kind": "live", "at": 8.0, "session": "s", "seq": seq, "payload": payload})
    add(
        {
            "kind": "end",
            "at": 9.0,
            "session": "s",
            "status": "completed",
            "reason": "",
            "attempt": 2,
            "began": 2.0,
            "ended": 7.0,
        }
    )
    return history


def the(history: History, kind: str, number: int = 0) -> Record:
    return history.of(kind)[number]


def told(history: History, status: str, seq: int) -> Record:
    return {
        "kind": "event",
        "at": 9.0,
        "session": "s",
        "seq": seq,
        "payload": json.dumps({"type": "session.status", "seq": seq, "status": status}),
    }


def test_an_orderly_history_has_no_violation_and_its_figures_are_told() -> None:
    history = orderly()
    assert check(history) == []
    assert again(history) == 1
    assert resumed_after(history) == [pytest.approx(2.9)]


NOTICE = '{"type": "timeline_event.created", "event_type": "notice", "metadata": %s}'


def test_that_a_message_to_people_was_lost_may_be_known_after_the_end() -> None:
    history = orderly()
    history.records.append({**told(history, "x", 4), "payload": NOTICE % '{"notification": "n"}'})
    assert not [one for one in check(history) if one.invariant == "I2"]


DOCTORED: list[tuple[str, str, Any]] = [
    ("I1", "accepted and is unknown", lambda h: h.records.remove(the(h, "end"))),
    ("I1", "has no end", lambda h: the(h, "end").update(status="in_progress")),
    ("I1", "2 terminal events", lambda h: h.records.append(told(h, "failed", 4))),
    ("I1", "not as completed", lambda h: the(h, "end").update(status="failed")),
    ("I2", "from in_progress to pending", lambda h: the(h, "event", 2).update(told(h, "pending", 3))),
    ("I2", "held twice under attempt 2", lambda h: the(h, "claim").update(attempt=2)),
    ("I2", "after its end", lambda h: h.records.append({**told(h, "x", 4), "payload": '{"type": "stage.status"}'})),
    ("I2", "after its end", lambda h: h.records.append({**told(h, "x", 4), "payload": NOTICE % "{}"})),
    ("I2", "ended before it began", lambda h: the(h, "end").update(ended=1.0)),
    ("I3", "numbers are not 1..2", lambda h: h.records.remove(the(h, "event", 1))),
    ("I3", "got 3 after 1", lambda h: h.records.remove(the(h, "live", 1))),
    ("I3", "saw 2 of 3 events", lambda h: h.records.remove(the(h, "live", 2))),
    ("I3", "other bytes", lambda h: the(h, "live", 1).update(payload="{}")),
    ("I4", "ran again after it was stored", lambda h: the(h, "step", 1).update(stored=3.05)),
    ("I4", "stored x/1/model twice", lambda h: h.records.append(dict(the(h, "step")))),
    ("I4", "at most 0 were in flight", lambda h: h.records.remove(the(h, "fault"))),
    (
        "I4",
        "effect 0 of case-1 was made 2 times",
        lambda h: h.records.extend({"kind": "effect", "case": "case-1", "number": 0, "at": at} for at in (3.0, 6.0)),
    ),
    ("I5", "a secret lies in a log", lambda h: h.records.append({"kind": "leak", "where": "a log"})),
    ("I6", "unfinished: queue", lambda h: h.records.append({"kind": "left", "session": "s", "where": "queue"})),
]


@pytest.mark.parametrize(("invariant", "what", "doctor"), DOCTORED)
def test_a_doctored_history_is_found_out(invariant: str, what: str, doctor: Any) -> None:
    history = orderly()
    doctor(history)
    found = check(history)
    assert any(violation.invariant == invariant and what in violation.what for violation in found), found


def test_more_sessions_at_once_than_may_are_found_out() -> None:
    history = orderly()
    other = {**the(history, "claim", 1), "session": "t", "attempt": 1}
    history.records += [other, {**the(history, "end"), "session": "t"}]
    assert any("2 sessions ran at once" in violation.what for violation in check(history))


def test_a_call_that_its_server_came_to_after_the_timeout_was_made_once() -> None:
    history = orderly()
    for record in history.of("fault") + history.of("call")[1:2] + history.of("claim")[1:]:
        history.records.remove(record)
    the(history, "step", 1).update(began=0.9, stored=6.0)
    assert not [one for one in check(history) if one.invariant == "I4"]
    history.records.append({**the(history, "call", 1), "at": 6.2})
    assert any("ran again after it was stored" in one.what for one in check(history)), "it was made twice"
    history.records.pop()
    the(history, "step", 1).update(began=5.0)
    assert any("ran again after it was stored" in one.what for one in check(history)), "nobody gave it up"


def test_a_call_that_a_stopped_process_was_about_to_send_is_late_and_no_later() -> None:
    history = orderly()
    the(history, "step", 1)["stored"] = 3.05
    history.records.append({"kind": "fault", "at": 6.0, "what": "SIGCONT", "executor": "a", "interrupts": False})
    assert check(history) == []
    history.records.append({**the(history, "call", 2), "at": 6.2})
    assert any("ran again after it was stored" in violation.what for violation in check(history)), (
        "a second one was not in flight"
    )
    history.records.pop()
    the(history, "fault", 1)["executor"] = "somebody else"
    assert any("ran again after it was stored" in violation.what for violation in check(history)), (
        "it did not have the session"
    )
    the(history, "fault", 1).update(executor="a", at=4.0)
    assert any("ran again after it was stored" in violation.what for violation in check(history))


def test_the_shortest_violation_comes_first() -> None:
    history = orderly()
    the(history, "claim")["attempt"] = 2
    history.records.append({"kind": "leak", "where": "a log"})
    assert [len(violation.records) for violation in check(history)] == [1, 2]


def wrote(number: int, who: str, place: str, **fields: Any) -> Record:
    return {"kind": "wrote", "at": 5.0 + number, "number": number, "who": who, "place": place, "session": "s", **fields}


def test_a_row_by_a_worker_that_lost_the_session_is_a_violation_until_it_claims_it_again() -> None:
    history = orderly()
    history.records += [
        wrote(1, "a", "sessions", attempt=1, executor="ea"),
        wrote(2, "a", "event_log"),
        wrote(3, "b", "sessions", attempt=2, executor=None),
        wrote(4, "b", "sessions", attempt=3, executor="eb"),
    ]
    assert check(history) == []
    late = wrote(5, "a", "timeline_events")
    history.records.append(late)
    assert [violation.records for violation in check(history)] == [(late,)]
    history.records[-1:] = [wrote(5, "a", "sessions", attempt=4, executor="ea"), wrote(6, "a", "timeline_events")]
    assert check(history) == []


def test_being_given_up_needs_a_child_process_that_it_crashed() -> None:
    history = orderly()
    the(history, "submit")["expected"] = "given up"
    end = the(history, "end")
    end |= {
        "status": "failed",
        "reason": "It was set aside: it ran alone in a process, which it crashed too (signal 9).",
    }
    for kind in ("event", "live"):
        record = the(history, kind, -1)
        record["payload"] = record["payload"].replace("completed", "failed")
    assert [violation.what for violation in check(history)] == ["s was given up without proof"]
    history.records.append({"kind": "convicted", "at": 6.5, "session": "s", "executor": "child"})
    assert check(history) == []
    history.records.append({"kind": "fault", "at": 6.6, "what": "kill", "executor": "child", "interrupts": False})
    assert [violation.what for violation in check(history)] == ["s was given up for a process that was killed"]
