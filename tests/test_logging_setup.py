"""What the process says about itself, and what it never does."""

import io
import json
import logging

from tersely.logging_setup import FOR_PEOPLE, JsonFormatter, RepetitionFilter, TextFormatter

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def said(record: logging.LogRecord) -> dict[str, object]:
    line = JsonFormatter("mcp_summarizer").format(record)
    assert "\n" not in line
    parsed: dict[str, object] = json.loads(line)
    return parsed


def record(message: str, **extra: object) -> logging.LogRecord:
    made = logging.makeLogRecord({"msg": message, "levelname": "INFO", "name": "tersely.test"})
    vars(made).update(extra)
    return made


def test_a_line_is_one_json_object_with_its_service_and_its_extras() -> None:
    line = said(record("request_served", input_tokens=12, strategy="x\n{forged}"))
    assert (line["service_id"], line["event"], line["input_tokens"], line["strategy"]) == (
        "mcp_summarizer",
        "request_served",
        12,
        "x\n{forged}",
    )


def test_messages_fields_and_exceptions_are_masked() -> None:
    """Exceptions quote what they choked on."""
    try:
        raise ValueError(f"cannot use token={SECRET}")
    except ValueError as problem:
        made = record(f"password={SECRET}", note=f"Authorization: Bearer {SECRET}")
        made.exc_info = (type(problem), problem, problem.__traceback__)
    line = said(made)
    assert SECRET not in json.dumps(line) and "[MASKED:" in str(line["exception"])
    assert str(line["where"]).startswith("['test_logging_setup.py:") and "token" not in str(line["where"]), (
        "the place, without source or values"
    )


def test_people_get_one_line_that_text_of_others_cannot_break() -> None:
    formatter = TextFormatter(color=False)
    line = formatter.format(
        record("tool_failed", tool="x\n\x1b[2Jforged", note=f"token={SECRET}", reason="", servers=["a"])
    )
    assert line[8:].startswith("  tool_failed  tool=x  [2Jforged  note=token=[MASKED:") and line.endswith("servers=a")
    told = record("listening", address="http://x", **{FOR_PEOPLE: "Dashboard: http://x"})
    assert formatter.format(told).endswith("  Dashboard: http://x") and FOR_PEOPLE not in said(told)


def test_long_values_are_cut_and_say_how_long_they_were() -> None:
    line = said(record("x", note="a" * 300_000))
    assert len(str(line["note"])) < 2_100 and "300000 characters" in str(line["note"])


def test_lines_about_a_database_that_is_away_are_written_once_then_once_a_minute_and_counted_at_its_return() -> None:
    now = 0.0
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter("x"))
    handler.addFilter(RepetitionFilter(clock=lambda: now))
    ours, engines = logging.Logger("tersely.sessions.worker"), logging.Logger("dbos")
    for logger in (ours, engines):
        logger.addHandler(handler)
    for second in range(150):
        now = float(second)
        for attempt in range(20):
            ours.warning("store_unavailable", extra={"reason": f"{attempt}"})
            engines.warning(f"Exception in queue worker: connection {second} refused")
        ours.error("session_broke", extra={"session_id": "s"})
    now = 151.0
    ours.warning("store_available", extra={"after": 151.0})
    ours.warning("store_unavailable", extra={"reason": "again"})
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    about = [(line["logger"], line["event"][:17], line.get("left_out", 0)) for line in lines]
    assert about.count(("tersely.sessions.worker", "session_broke", 0)) == 150, "other lines are not touched"
    rest = [one for one in about if one[1] != "session_broke"]
    assert rest == [
        ("tersely.sessions.worker", "store_unavailable", 0),
        ("dbos", "Exception in queu", 0),
        ("tersely.sessions.worker", "store_unavailable", 1199),
        ("dbos", "Exception in queu", 1199),
        ("tersely.sessions.worker", "store_unavailable", 1199),
        ("dbos", "Exception in queu", 1199),
        ("tersely.sessions.worker", "store_available", 1198),
        ("tersely.sessions.worker", "store_unavailable", 0),
    ]
