"""The verdict: the result in fields, in sentences that a person would say, with evidence that is where it says."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tersely.agent.evidence import Evidence, Kind
from tersely.agent.loop import NO_VERDICT
from tersely.agent.ranking import EvidenceSource, RankedEvidence
from tersely.agent.subject import subject_of
from tersely.agent.verdict import LONGEST_CAUSE, Verdict, from_json, survey_verdict
from tersely.sessions.codec import RecordCodec
from tersely.sessions.records import SESSION_TYPES
from tests.agent.conftest import Recorder, call
from tests.agent.test_survey import ALERT
from tests.fakes.asking import model_at
from tests.fakes.llm_server import FakeLLMServer, Reply
from tests.fakes.recorder import MemoryRecorder

AT = datetime(2026, 11, 15, 8, 2, tzinfo=UTC)
CHECKOUT = subject_of(json.dumps({"labels": {"alertname": "TooManyErrors", "service": "checkout"}}))


def ranked(kind: Kind, text: str, *, source: str = "cluster.get", score: float = 3.0, **more: Any) -> RankedEvidence:
    called = EvidenceSource(name=source, arguments={}, handle="r_" + "a" * 16, tokens=10, shown_tokens=10)
    evidence = Evidence(kind=kind, text=text, line=7, last_line=7, first=AT, **more)
    return RankedEvidence(source=called, evidence=evidence, relation=1.0, score=score)


@pytest.mark.parametrize(
    ("kind", "text", "cause"),
    [
        (
            "change",
            "14 2026-11-15T08:02:39Z registry.example.net/shop/co:3.37.5 768Mi release 3.37.5: probe is now /ready",
            "checkout was changed at 08:02 UTC: release 3.37.5: probe is now /ready",
        ),
        (
            "change",
            "change.example.net/2: \"2026-11-15T08:02:15Z m.okafor changed cache.ttl from '300s' to '5min'\"",
            "checkout was changed at 08:02 UTC: m.okafor changed cache.ttl from '300s' to '5min'",
        ),
        (
            "state",
            "Node ip-10-4: status.conditions: type=MemoryPressure, status=True, reason=Insufficient, "
            "message=kubelet has too little memory, lastTransitionTime=2026-11-15T08:02:59Z",
            "Node ip-10-4: kubelet has too little memory (MemoryPressure)",
        ),
        (
            "said",
            "prod 7s (x14 over 27m) Warning FailedCreate replicaset/checkout-5d Error creating: pods is forbidden: "
            "exceeded quota",
            "checkout: Error creating: pods is forbidden: exceeded quota",
        ),
        (
            "said",
            '[pod/checkout-1/app] time=2026-11-15T08:02:55Z level=error msg="connect to db: password is wrong"',
            "checkout: connect to db: password is wrong",
        ),
    ],
)
def test_the_cause_is_a_sentence_not_a_row(kind: Kind, text: str, cause: str) -> None:
    assert survey_verdict(CHECKOUT, [ranked(kind, text)]).cause == cause


def test_a_long_cause_keeps_its_beginning_and_its_reason() -> None:
    message = (
        "call to https://licences.media.svc.cluster.local:8443/v1/renew failed: javax.net.ssl.SSLHandshakeException: "
        "PKIX path validation failed: java.security.cert.CertificateExpiredException: expired on Monday"
    )
    cause = survey_verdict(CHECKOUT, [ranked("said", message)]).cause
    assert len(cause) <= LONGEST_CAUSE
    assert cause.startswith("checkout: ") and cause.endswith("expired on Monday") and "…" in cause
    assert len(survey_verdict(CHECKOUT, [ranked("said", "x" * 400)]).cause) <= LONGEST_CAUSE


def test_confidence_needs_a_reason_another_source_and_no_rival() -> None:
    top = ranked("said", "db is full: no space left", explains=True)
    other = ranked("measure", "errors rose from 0.1 to 0.5", source="cluster.get_metrics", score=1.5)
    # A second piece of the same kind that says the same is no rival; one about something else is.
    rivals = [
        ranked("state", f"Node n-{number}: reason=Down, message=is down", source=f"cluster.n{number}", score=2.9)
        for number in range(6)
    ]
    assert survey_verdict(CHECKOUT, [top, other]).confidence == "high"
    assert survey_verdict(CHECKOUT, [top]).confidence == "medium"
    assert survey_verdict(CHECKOUT, [ranked("said", "something odd")]).confidence == "low"
    contested = survey_verdict(CHECKOUT, [top, *rivals])
    assert contested.confidence == "medium" and contested.against
    assert not {one.quote for one in contested.against} & {one.quote for one in contested.evidence}


def test_nothing_found_is_said_and_is_no_cause() -> None:
    verdict = survey_verdict(CHECKOUT, [])
    assert (verdict.cause, verdict.confidence, verdict.evidence) == ("", "low", ())
    assert verdict.summary.startswith("No likely cause was found for ")


async def test_the_survey_ends_with_a_verdict_whose_evidence_is_where_it_says(workplace: Any) -> None:
    async with workplace() as place:
        report = await place.work(None, alert=ALERT)
        verdict = report.verdict
        assert verdict is not None and "connection refused" in verdict.cause and verdict.service == "api-0"
        assert 1 <= len(verdict.summary.splitlines()) <= 4
        for citation in (*verdict.evidence, *verdict.against):
            text = await place.executor.results.load(citation.handle, "session:s1")
            lines = text.splitlines()[citation.first_line - 1 : citation.last_line]
            told = " ".join(citation.quote.removesuffix(" …").split())
            assert told[:60] in " ".join(" ".join(lines).split()), citation
    (event,) = place.recorder.of("verdict")
    assert event.content == verdict.summary
    assert from_json(json.loads(json.dumps(event.metadata))) == verdict


def test_fields_of_another_release_are_ignored_and_missing_ones_have_defaults() -> None:
    stored = {"cause": "c", "summary": "s", "confidence": "low", "mood": 3, "actions": [{"text": "t", "urgency": 1}]}
    read = from_json(stored)
    assert read.actions[0].text == "t" and read == Verdict(
        cause="c", summary="s", confidence="low", actions=read.actions
    )


# With a model

LOGS = Reply(text="Logs.", tool_calls=(call("ops__logs", id="a"),), finish="tool_calls")
STATED = {
    "cause": "api-0 lost its database db-1",
    "summary": ["api-0 cannot reach db-1.", "It restarts all the time."],
    "confidence": "High",
    "service": "api-0",
    "since": "2026-11-15T08:02:00+00:00",
    "actions": [
        {"text": "Start db-1", "command": "systemctl start db-1"},
        {"text": "Tell them", "command": None},
    ],
    "evidence": [
        {"handle": "r_made0up0made0up0", "quote": "cannot reach database  db-1: connection refused"},
        {"handle": "", "quote": "the database was deleted by a cat"},
    ],
    "against": [],
}


async def stated(workplace: Any, *answers: Any, **more: Any) -> tuple[Any, Any, list[dict[str, Any]]]:
    script = [LOGS, "db-1 is **gone**. Nothing else is wrong.", *answers]
    async with FakeLLMServer(script).listening() as server, model_at(server.url) as llm, workplace() as place:
        report = await place.work(llm, asks_for_verdict=True, **more)
    return report, place.recorder, server.requests


async def test_the_model_states_the_verdict_and_its_quotations_are_looked_up(workplace: Any) -> None:
    answer = f"Here it is:\n```json\n{json.dumps(STATED)}\n```"
    report, recorder, requests = await stated(workplace, answer)
    verdict = report.verdict
    assert (verdict.cause, verdict.confidence, verdict.since) == (STATED["cause"], "high", "2026-11-15T08:02:00Z")
    assert [(one.text, one.command) for one in verdict.actions] == [
        ("Start db-1", "systemctl start db-1"),
        ("Tell them", ""),
    ]
    (cited,) = verdict.evidence
    assert (cited.source, cited.first_line, cited.last_line) == ("ops.logs", 121, 121)
    assert cited.handle.startswith("r_") and cited.handle != "r_made0up0made0up0", "where it really is"
    assert verdict.unverified == 1, "a quotation that no result contains is counted, not shown"
    assert report.analysis == "db-1 is **gone**. Nothing else is wrong."
    # In the trace and on the bill, but not in the timeline as an answer; the request repeats what the provider cached.
    assert [record.type for _, record in recorder.interactions][-2:] == ["iteration", "executive_summary"]
    assert [event.type for event in recorder.events][-2:] == ["final_analysis", "verdict"]
    before, last = requests[-2]["messages"], requests[-1]["messages"]
    assert last[: len(before)] == before and requests[-1]["tools"] == requests[-2]["tools"]


@pytest.mark.parametrize(
    "unusable",
    ["I cannot.", '{"cause": "x", "summary": [], "confidence": "high"}', '{"cause": "x", "confidence": "sure"}', LOGS],
)
async def test_an_unusable_verdict_is_asked_for_once_more_without_tools(workplace: Any, unusable: Any) -> None:
    report, _, requests = await stated(workplace, unusable, json.dumps(STATED))
    assert report.verdict.cause == STATED["cause"] and report.status == "completed"
    assert not requests[-1].get("tools") and "JSON object alone" in requests[-1]["messages"][-1]["content"]


async def test_without_any_usable_answer_the_analysis_begins_the_verdict_and_that_is_said(workplace: Any) -> None:
    report, recorder, requests = await stated(workplace, "No.", "No!")
    assert (report.verdict.cause, report.verdict.confidence) == ("db-1 is gone.", "low")
    assert (report.status, len(requests)) == ("completed", 4)
    assert [event.content for event in recorder.of("notice")] == [NO_VERDICT]


async def test_a_verdict_costs_nothing_again_when_the_session_is_replayed(workplace: Any) -> None:
    async with (
        FakeLLMServer([LOGS, "Gone.", json.dumps(STATED)]).listening() as server,
        model_at(server.url) as llm,
        workplace() as place,
    ):
        first = Recorder()
        report = await place.work(llm, asks_for_verdict=True, step=first)
        codec = RecordCodec(SESSION_TYPES)
        kept = {name: codec.from_json(codec.to_json(value)) for name, value in first.results.items()}
        place.recorder = MemoryRecorder()
        again = Recorder(kept)
        assert await place.work(llm, asks_for_verdict=True, step=again) == report
        assert again.worked == [] and len(server.requests) == 3
