"""Without a model: read-only tools are chosen by their descriptions, and what stands out is weighed, quoted and
sourced.
"""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tersely.agent.evidence import Evidence, read_result, severity_of
from tersely.agent.ranking import EvidenceRanker, EvidenceSource
from tersely.agent.subject import fill, subject_of
from tersely.agent.survey_report import report
from tersely.mcp.raw import read_tool
from tests.agent.conftest import Recorder

NOW = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)
ALERT = json.dumps(
    {
        "status": "firing",
        "alerts": [
            {
                "labels": {"alertname": "PodCrashLooping", "namespace": "prod", "pod": "api-0", "severity": "critical"},
                "annotations": {"summary": "Pod api-0 restarts all the time"},
                "startsAt": "2026-11-15T08:05:00Z",
            }
        ],
    }
)


async def test_the_survey_calls_read_only_tools_and_names_the_strongest_evidence_first(workplace: Any) -> None:
    async with workplace() as place:
        report = await place.work(None, alert=ALERT)
    first = report.analysis.split("\n##")[0]
    assert report.status == "completed" and report.analysis.startswith("Most likely cause: api-0 cannot reach ")
    assert "cannot reach database db-1: connection refused" in first
    handle = next(
        event.metadata["handle"]
        for event in place.recorder.of("llm_tool_call")
        if event.metadata["tool_name"] == "logs"
    )
    assert f"[ops.logs, line 121 of {handle}" in first, "with its source, handle and line"
    assert "No language model was involved" in report.analysis
    called = {event.metadata["tool_name"] for event in place.recorder.of("llm_tool_call")}
    assert {"pods_list", "logs", "count", "fail"} <= called and not called & {"say", "measure", "pods_delete"}, (
        "only those that say they only read"
    )
    listed = next(event for event in place.recorder.of("llm_tool_call") if event.metadata["tool_name"] == "pods_list")
    assert listed.metadata["arguments"] == {"namespace": "prod"}, "filled from the alert"
    assert place.recorder.of("final_analysis")[0].content == report.analysis
    assert not [record for _, record in place.recorder.interactions if record.type != "mcp"]


async def test_a_survey_that_was_killed_goes_on_without_calling_anything_again(workplace: Any) -> None:
    async with workplace() as place:
        whole = Recorder()
        report = await place.work(None, alert=ALERT, step=whole)
        for cut in (1, len(whole.worked) // 2, len(whole.worked) - 1):
            again = Recorder({name: whole.results[name] for name in whole.worked[:cut]})
            place.recorder = type(place.recorder)()
            resumed = await place.work(None, alert=ALERT, step=again)
            assert again.worked == whole.worked[cut:]
            assert resumed.analysis.split("[")[0] == report.analysis.split("[")[0]


@pytest.mark.parametrize("alert", ["[" * 200_000, '{"a":' * 600 + '"api-0"' + "}" * 600, "{}", "", "\n", "[1, 2]"])
def test_an_alert_of_any_shape_has_a_subject(alert: str) -> None:
    assert isinstance(subject_of(alert).about, str)


async def test_a_survey_without_a_tool_it_may_call_says_so(workplace: Any) -> None:
    async with workplace() as place:
        report = await place.work(None, alert=ALERT, tools={"ops": ("say",)})
    assert (
        report.status == "failed"
        and "read-only" in report.reason
        and "No language model was involved" in report.analysis
    )


@pytest.mark.parametrize(
    ("alert", "fields"),
    [
        (ALERT, {"namespace": "prod", "pod": "api-0"}),
        ("Disk full on host=db-7 in datacenter: fra1.", {"host": "db-7", "datacenter": "fra1"}),
        ('{"service": "checkout", "value": 5, "severity": "page"}', {"service": "checkout"}),
    ],
)
def test_what_an_alert_is_about_is_read_from_its_fields(alert: str, fields: dict[str, str]) -> None:
    assert subject_of(alert).fields == fields


def test_arguments_are_filled_from_the_alert_and_from_names_seen_before() -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "description": "Name of the pod."}},
        "required": ["name"],
    }
    tool = read_tool(
        "k8s",
        {"name": "describe_pod", "description": "x", "inputSchema": schema, "annotations": {"readOnlyHint": True}},
    )
    assert fill(tool, subject_of(ALERT), {}) == [{"name": "api-0"}]
    assert fill(tool, subject_of("service: shop"), {"pod": ["shop-1", "shop-2"]}) == [
        {"name": "shop-1"},
        {"name": "shop-2"},
    ]
    assert fill(tool, subject_of("service: shop"), {}) == [], "nothing is guessed"


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ("ERROR cannot open /data: No space left on device", True),
        ("OOMKilled", True),
        ('http.read_timeout: "5s"', False),
        ("INFO 0 errors in 12 checks", False),
        ("Readiness: http-get timeout=1s #failure=3", False),
        ("kernel has no deadlock", False),
    ],
)
def test_names_that_only_sound_like_trouble_are_none(text: str, bad: bool) -> None:
    assert (severity_of(text) >= 1.5) is bad


def test_a_series_that_jumped_a_value_unlike_the_others_and_a_late_change_are_evidence() -> None:
    points = [[1794730000 + 60 * n, "0.01" if n < 40 else "0.45"] for n in range(60)]
    series = json.dumps(
        {"data": {"result": [{"metric": {"__name__": "error_ratio", "service": "api"}, "values": points}]}}
    )
    assert "error_ratio{service=api} rose from 0.01 to 0.45" in read_result(series, tool="metrics").evidence[0].text
    samples = "\n".join(f'clock_offset_seconds{{node="n{n}"}} {326 if n == 3 else 0.001 * n}' for n in range(8))
    (odd,) = read_result(samples, tool="node_metrics").evidence
    assert 'node="n3"' in odd.text and odd.line == 4
    history = "1  2026-10-01T08:00:00Z  release 1.0\n2  2026-11-15T08:00:00Z  release 1.1: pool 100 -> 4\n"
    assert [one.kind for one in read_result(history, tool="history", now=NOW).evidence] == ["change", "change"]


def test_objects_in_trouble_are_named_with_what_they_say() -> None:
    pods = [
        {
            "kind": "Pod",
            "metadata": {"name": f"api-{n}"},
            "status": {"state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}} if n == 2 else {}},
        }
        for n in range(5)
    ]
    reading = read_result(json.dumps({"items": pods}, indent=1), tool="list_pods")
    assert reading.evidence[0].text.startswith("Pod api-2: status.state.terminated: reason=OOMKilled, exitCode=137")
    lines = json.dumps({"items": pods}, indent=1).split("\n")
    first, last = reading.evidence[0].line, reading.evidence[0].last_line
    assert lines[first - 1].strip() == '"terminated": {' and '"exitCode": 137' in lines[last - 2]
    assert ("pod", "api-4") in reading.names


def test_names_are_the_cells_of_a_column_not_words_below_a_heading() -> None:
    table = "In this namespace:\n\nNAMESPACE  NAME    AGE\nshop       web-1   3d\nshop       db-0    40d\n"
    assert read_result(table, tool="list_pods").names == (("pod", "web-1"), ("pod", "db-0"))
    manual = "NAME\n       tool - does something\n\nDESCRIPTION\n       The tool does what it was made for.\n"
    assert read_result(manual, tool="list_pods").names == ()


@pytest.mark.parametrize(
    ("quoted", "says"),
    [
        (
            '[pod/api-0/api] {"level": "error", "timestamp": "2026-11… token rejected: issued later',
            "api-0: token rejected: issued later",
        ),
        (
            (
                'prod 8s (x14 over 23m) Warning FailedCreate replicaset/api Error creating: pods "api-0" is forbidden: '
                "exceeded quota"
            ),
            'Error creating: pods "api-0" is forbidden: exceeded quota',
        ),
        ("5m12s Warning BackOff pod/api-0 Back-off restarting", "api-0: Back-off restarting"),
        ("2026-11-15T08:02:00Z ERROR api-0 cannot reach db-1", "api-0 cannot reach db-1"),
        ("api-0 30s after the start {a} … the rest", "api-0 30s after the start {a} … the rest"),
    ],
)
def test_the_headline_begins_with_what_happened(quoted: str, says: str) -> None:
    evidence = Evidence(kind="said", text=quoted, line=1, last_line=1, severity=2.0, explains=True)
    source = EvidenceSource(name="ops.logs", arguments={}, handle=None, tokens=1, shown_tokens=1)
    subject = subject_of(ALERT)
    told = report(subject, EvidenceRanker(subject).rank([(source, evidence)]), [source])
    assert told.startswith(f"Most likely cause: {says}\n") and quoted in told, "the quotation below is whole"


@pytest.mark.parametrize("quoted", ["# HELP api-0 errors failed", "> api-0 failed", "- api-0 failed", "api-0 - failed"])
def test_a_quoted_line_is_no_heading_or_list_of_the_report(quoted: str) -> None:
    evidence = Evidence(kind="said", text=quoted, line=1, last_line=1, severity=2.0, explains=True)
    source = EvidenceSource(name="ops.logs", arguments={}, handle=None, tokens=1, shown_tokens=1)
    subject = subject_of(ALERT)
    told = report(subject, EvidenceRanker(subject).rank([(source, evidence)]), [source])
    assert f"  - {'' if quoted.startswith('a') else chr(92)}{quoted} [ops.logs, line 1]" in told
