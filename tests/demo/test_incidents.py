"""The simulated incident: drawn, consistent, and judged honestly."""

import json
from collections import Counter
from datetime import UTC, datetime

import pytest

from tersely.demo import kubernetes, logs, runbooks
from tersely.demo.causes import CAUSES
from tersely.demo.decoys import HISTORY
from tersely.demo.incidents import Incident, draw_incident
from tersely.demo.judge import blamed_decoy, conclusion_of, names_cause

NOW = datetime(2026, 11, 15, 8, 0, tzinfo=UTC)
NAMES = [act.__name__.replace("_", "-") for act in CAUSES]


@pytest.fixture(params=NAMES)
def incident(request: pytest.FixtureRequest) -> Incident:
    return draw_incident(7, NOW, cause=request.param)


def everything(incident: Incident) -> str:
    """All that the cluster says about an incident, pods and log of the ill service included."""
    world = incident.world
    parts = [
        kubernetes.events_table(world),
        kubernetes.pods_table(world),
        kubernetes.config_yaml(world, incident.victim),
    ]
    parts.append(kubernetes.rollout_history(world, incident.victim))
    parts += [kubernetes.describe_pod(world, pod) for pod in world.pods_of(incident.victim)]
    return "\n".join([*parts, *logs.lines_of(world, incident.victim, lines=20_000)])


def test_the_same_seed_gives_the_same_incident_and_another_seed_another() -> None:
    first, again, other = (everything(draw_incident(seed, NOW)) for seed in (3, 3, 4))
    assert first == again
    assert first != other


@pytest.mark.slow
def test_seeds_draw_every_cause_about_equally_often() -> None:
    drawn = Counter(draw_incident(seed, NOW).cause.name for seed in range(360))
    assert set(drawn) == set(NAMES)
    assert min(drawn.values()) > 10


def test_a_cause_leaves_its_sign_in_what_can_be_asked_for(incident: Incident) -> None:
    assert any(incident.cause.is_named_in(line) for line in everything(incident).splitlines())


def test_the_alert_does_not_give_the_cause_away(incident: Incident) -> None:
    assert not incident.cause.is_named_in(json.dumps(incident.alert))
    assert incident.alert["alerts"][0]["labels"]["service"] == incident.victim.name


def test_nothing_is_dated_after_the_moment_of_looking(incident: Incident) -> None:
    assert all(said.at <= NOW for said in incident.world.log_lines)
    assert all(event.first <= event.last <= NOW for event in incident.world.events)
    assert all(pod.created <= NOW for pod in incident.world.pods)


def test_pods_are_listed_as_kubectl_lists_them_in_a_size_that_hurts(incident: Incident) -> None:
    listed = json.loads(kubernetes.pods_json(incident.world))
    assert listed["kind"] == "List"
    assert {item["metadata"]["name"] for item in listed["items"]} == {pod.name for pod in incident.world.pods}
    assert len(kubernetes.pods_json(incident.world)) > 600_000


@pytest.mark.parametrize("seed", range(30))
def test_no_decoy_can_be_mistaken_for_the_cause_by_the_judge(seed: int) -> None:
    """Its own words, and what the cluster says of it, never count as the cause."""
    incident = draw_incident(seed, NOW)
    for decoy in incident.decoys:
        assert not names_cause(f"Most likely cause: {decoy.what}.", incident)
    for past in runbooks.past_incidents(incident):
        assert not names_cause(f"Most likely cause: INC-{past.number}: {past.title}. {past.told}", incident)


def test_the_judge_accepts_the_cause_in_a_persons_words(incident: Incident) -> None:
    assert names_cause(
        f"# Investigation\n\nMost likely cause: {incident.cause.what}.\n\n## Evidence\n- nothing", incident
    )


def test_the_judge_accepts_the_line_of_evidence_itself(incident: Incident) -> None:
    telling = next(line for line in everything(incident).splitlines() if incident.cause.is_named_in(line))
    assert names_cause(f"## Most likely cause\n\n- cluster.get_logs: `{telling[:400]}`\n", incident)


def test_the_cause_deep_down_in_a_dump_is_not_a_conclusion(incident: Incident) -> None:
    dump = f"# Report\n\nMost likely cause: unclear.\n\n## Everything we saw\n\n{everything(incident)}\n"
    assert not names_cause(dump, incident)


def test_a_decoy_named_first_is_a_wrong_answer() -> None:
    incident = draw_incident(0, NOW)
    report = f"## Most likely cause\n\nAs in INC-2041, the quota.\n\nPerhaps also: {incident.cause.what}\n"
    assert not names_cause(report, incident)
    assert blamed_decoy(report, incident) is HISTORY


def test_the_headline_may_be_a_heading(incident: Incident) -> None:
    assert names_cause(f"**Most likely cause: {incident.cause.what}**\n\nSee below.\n\n## Evidence\n", incident)


def test_evidence_far_down_the_list_is_not_a_conclusion(incident: Incident) -> None:
    others = "".join(f"  - something else, number {n}\n" for n in range(5))
    assert not names_cause(f"Most likely cause: something else\n{others}  - {incident.cause.what}\n", incident)


def test_an_empty_report_names_nothing() -> None:
    assert not names_cause("", draw_incident(0, NOW))


def test_a_title_alone_is_not_taken_for_the_conclusion() -> None:
    assert "pool exhausted" in conclusion_of(
        "# Report\n\n## Summary\n\nThe pool exhausted itself.\n\n## Other\n\nMuch."
    )
