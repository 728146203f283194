"""Ranking of several agents' verdicts without a model, and which steps depend on a step of a branch."""

import pytest

from tersely.agent.assignment import Report
from tersely.agent.synthesis import AgentResult, ranked
from tersely.agent.verdict import Citation, Confidence, Verdict
from tersely.masking.masked import NOTHING, assume_masked
from tersely.sessions.durable import BRANCH, dependent_steps


def result(agent: str, cause: str, *quotes: str, confidence: Confidence = "medium") -> AgentResult:
    cited = tuple(
        Citation(source=f"ops.{number}", handle="r_1", first_line=1, last_line=1, quote=quote)
        for number, quote in enumerate(quotes)
    )
    verdict = Verdict(cause=cause, summary=cause or "None.", confidence=confidence, evidence=cited)
    return AgentResult(
        agent=agent, report=Report(analysis=assume_masked(f"{agent}'s"), status="completed", verdict=verdict)
    )


def test_the_best_evidence_comes_first_and_disagreement_is_named() -> None:
    analysis, verdict = ranked([
        result("a", "The disk of node-3 is full.", "disk full"),
        result("b", "Certificate expired.", "x509: expired", "tls failed", confidence="high"),
        AgentResult(agent="c", report=Report(analysis=NOTHING, status="failed", reason="no such model")),
        result("d", ""),
    ])  # fmt: skip
    assert verdict and verdict.cause == "Certificate expired." and verdict.confidence == "medium"
    assert [one.quote for one in verdict.against] == ["disk full"] and len(verdict.summary.splitlines()) <= 4
    for told in (
        "Disagreement: a names another cause: The disk of node-3 is full.",
        "d found no cause.",
        "- c: failed: no such model",
        "b's",
    ):
        assert told in analysis


def test_agents_that_name_the_same_cause_outweigh_a_single_better_verdict_and_share_their_evidence() -> None:
    _, verdict = ranked([
        result("a", "The disk of node-3 is full.", "disk full 97"),
        result("b", "Full disk on node-3.", "disk full 98", "no space left"),
        result("c", "Certificate expired.", "x509: expired", "tls failed", "handshake"),
    ])  # fmt: skip
    assert verdict and verdict.cause == "Full disk on node-3." and "2 of 3 agents name this cause" in verdict.summary
    assert [one.quote for one in verdict.evidence] == ["disk full 98", "no space left"]
    analysis, none = ranked([result("a", ""), result("b", "")])
    assert none and none.cause == "" and analysis.startswith("No agent found a likely cause.")


FORKS = {3: [1, 2], BRANCH + 5: [3], 8: [4]}


@pytest.mark.parametrize(
    ("position", "branches"),
    [(9, {0}), (4, {0, 4}), (2, {0, 1, 2, 3, 4}), (2 * BRANCH + 7, {0, 2, 4}), (BRANCH + 2, {0, 1, 3, 4}),
     (3 * BRANCH + 1, {0, 1, 3, 4})],
)  # fmt: skip
def test_steps_that_depend_on_a_step_are_those_after_it_in_its_branch_and_where_branches_meet(
    position: int, branches: set[int]
) -> None:
    ranges = dependent_steps(position, FORKS)
    assert {first // BRANCH for first, _ in ranges} == branches
    assert (position, (position // BRANCH + 1) * BRANCH - 1) in ranges
    assert all(first // BRANCH == last // BRANCH for first, last in ranges)
    kept = {3} if position > 3 else set()
    assert not any(first <= one <= last for first, last in ranges for one in kept)
