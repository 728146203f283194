"""Several agents in one stage: each with its own model and servers, a synthesis of their results, budgets, restarts."""

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.llm_server import Body, Reply
from tests.flows.service import FlowService, calls, flow_service, said, server_of

pytestmark = pytest.mark.process

REFUSED = "2026-11-15T08:02:00Z ERROR api-0 cannot reach database db-1: connection refused"
POOR, SHARED = 9_000, 20_000
CRASHES = "api-0 0/1 CrashLoopBackOff 17"


def stated(cause: str, quote: str, confidence: str = "high") -> str:
    return json.dumps({
        "cause": cause, "summary": [cause], "confidence": confidence, "evidence": [{"handle": "", "quote": quote}],
    })  # fmt: skip


def configuration(models: Mapping[str, str]) -> dict[str, Any]:
    providers = {
        name: {"type": "openrouter", "model": f"test/{name}", "base_url": url, "api_key": "k", "context_window": 60_000}
        for name, url in models.items()
        if name != "google"
    }
    pair = [{"name": "logs", "llm_provider": "main"}, {"name": "pods", "llm_provider": "spare", "mcp_servers": ["ops"]}]
    both = {"name": "look", "agents": pair, "synthesis": {"llm_provider": "summarist"}}

    def chain(name: str, *stages: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        return {"alert_types": [name], "stages": list(stages), **more}

    close = {"name": "close", "agent": "closer"}
    return {
        "llm_providers": providers,
        "mcp_servers": {"ops": server_of("ops", summarization={"enabled": False}), "side": server_of("large")},
        "agents": {
            "logs": {"mcp_servers": ["ops", "side"]},
            "pods": {"mcp_servers": ["side"]},
            "closer": {"mcp_servers": [], "skills": []},
            "skilled": {"mcp_servers": [], "required_skills": ["house"]},
            "helper": {"mcp_servers": ["ops"], "llm_provider": "spare", "description": "Knows pods."},
            "boss": {"mcp_servers": [], "skills": [], "sub_agents": ["helper"], "max_sub_agents": 2},
            "late": {"mcp_servers": ["ops"], "budget": {"seconds": 0.001}},
            "poor": {"mcp_servers": ["ops"], "budget": {"tokens": POOR}},
            "broke": {"mcp_servers": ["ops"], "budget": {"tokens": 150}},
        },
        "chains": {
            "pair": chain("pair", both, runbook="RUNBOOK: look at db-1 first."),
            "then": chain("then", both, close),
            "first": chain("first", {"name": "before", "agent": "closer"}, both),
            "all": chain("all", {**both, "success_policy": "all"}),
            "skilled": chain("skilled", {"name": "look", "agent": "skilled"}, verdict=False),
            "late": chain("late", {"name": "look", "agents": ["logs", "late"]}, verdict=False),
            "asked": chain("asked", {"name": "look", "agent": "boss"}),
            "twice": chain("twice", {"name": "look", "agent": "logs", "replicas": 2}, verdict=False),
            "poor": chain("poor", {"name": "look", "agent": "poor"}),
            "broke": chain("broke", {"name": "look", "agent": "broke"}),
            "shared": chain("shared", {"name": "look", "agent": "logs", "replicas": 3, "budget": {"tokens": SHARED}}),
            "cut": chain("cut", {"name": "look", "agent": "logs"}, close, budget={"tokens": 7_000}, verdict=False),
        },
        "defaults": {"alert_type": "pair", "llm_provider": "main"},
        "queue": {"max_concurrent_sessions": 6, "poll": 0.05, "grace": 0.2, "lease": 2},
    }


def skills_in(folder: Path) -> str:
    """Write the skills that the configuration names; the folder with them."""
    for name, text in {"restart": "Restart one pod at a time.", "house": "HOUSE-RULES apply."}.items():
        (folder / "skills" / name).mkdir(parents=True)
        header = f"---\nname: {name}\ndescription: How we {name}\n---\n"
        (folder / "skills" / name / "SKILL.md").write_text(header + text, encoding="utf-8")
    return str(folder / "skills")


@pytest.fixture(scope="module")
async def service(store_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FlowService]:
    folder = tmp_path_factory.mktemp("parallel")
    skills = skills_in(folder)
    async with flow_service(store_url, folder, configuration, TERSELY_SKILLS_FOLDER=skills) as service:
        yield service


async def test_a_skill_is_listed_in_the_prompt_and_loaded_on_demand(service: FlowService) -> None:
    asked: list[Reply | str] = [
        calls("load_skill", name="restart"),
        calls("load_skill", name="restrat"),
        "Restart them.",
    ]
    case = service.case(main=asked)
    story = await service.investigate(case, alert_type="skilled")
    prompt = case.prompt(0)
    assert "- restart: How we restart" in prompt and "one pod at a time" not in prompt, "its text comes on demand"
    assert "HOUSE-RULES apply." in prompt and "- house:" not in prompt, "a required one is there from the beginning"
    assert "Restart one pod at a time." in case.prompt(1) and "There are: restart" in case.prompt(2)
    shown = story.shown("llm_tool_call")
    assert [one["metadata"]["is_error"] for one in shown] == [False, True]
    assert shown[0]["content"] == "Restart one pod at a time."


def logs_agent() -> list[Reply | str]:
    return [
        calls("ops__logs", namespace="prod"),
        "The database db-1 refuses connections.",
        stated("The database db-1 refuses connections of api-0.", REFUSED),
    ]


def pods_agent() -> list[Reply | str]:
    return [
        calls("ops__pods_list", namespace="prod"),
        "The pod api-0 crashes.",
        stated("The image of api-0 is broken.", CRASHES, "medium"),
    ]


async def test_agents_work_in_parallel_and_a_model_compares_their_verdicts(service: FlowService) -> None:
    synthesis = ["The database is the cause; pods is wrong.", stated("db-1 refuses connections.", REFUSED)]
    case = service.case(main=logs_agent(), spare=pods_agent(), summarist=synthesis)
    story = await service.investigate(case, alert_type="pair")
    (stage,) = story.session["stages"]
    named = ("agent", "kind", "position", "model", "status")
    assert [tuple(one[name] for name in named) for one in stage["executions"]] == [
        ("logs", "agent", 0, "test/main", "completed"),
        ("pods", "agent", 1, "test/spare", "completed"),
        ("synthesis", "synthesis", 2, "test/summarist", "completed"),
    ]  # fmt: skip
    first, second, combined = stage["executions"]
    assert first["verdict"]["cause"].startswith("The database") and second["analysis"] == "The pod api-0 crashes."
    assert stage["analysis"] == combined["analysis"] == "The database is the cause; pods is wrong."
    # Its quotation is one of a result that another agent fetched.
    assert story.session["verdict"]["evidence"][0]["quote"] == REFUSED and not story.session["verdict"]["unverified"]
    assert "RUNBOOK: look at db-1 first." in case.prompt(0)
    prompt = case.prompt(0, "summarist")
    for told in ("What the agent 'logs' found", "The image of api-0 is broken.", CRASHES, "Confidence: medium"):
        assert told in prompt
    assert [one["function"]["name"] for one in case.requests("summarist")[0]["tools"]] == ["read_result"]
    # Each event belongs to one of them, and the servers of the stage apply.
    owners = {one["execution_id"] for one in story.timeline}
    assert owners == {one["id"] for one in stage["executions"]}
    assert "side__" not in json.dumps(case.requests("spare")[0]["tools"])
    moved = [(one["agent"], one["status"]) for one in story.events if one["type"] == "execution.status"]
    agents = ("logs", "pods", "synthesis")
    assert sorted(moved) == sorted((agent, status) for agent in agents for status in ("in_progress", "completed"))
    assert story.session["usage"]["model_calls"] == 8


async def test_an_agent_that_fails_fails_the_stage_only_under_the_policy_all(service: FlowService) -> None:
    broken = Reply(status=400, error="no such model")
    for alert_type, status in (("pair", "completed"), ("all", "failed")):
        case = service.case(main=logs_agent(), spare=[broken])
        story = await service.investigate(case, status, alert_type=alert_type)
        (stage,) = story.session["stages"]
        assert [one["status"] for one in stage["executions"]] == ["completed", "failed"]
        assert "1 of 2 agents failed: pods: " in story.session["reason"] and "no such model" in story.session["reason"]
        assert "The database db-1 refuses connections." in story.session["analysis"]
    case = service.case(main=[broken], spare=[broken])
    story = await service.investigate(case, "failed", alert_type="pair")
    assert "2 of 2 agents failed" in story.session["reason"]


async def test_without_a_model_that_compares_the_verdicts_are_ranked_and_disagreement_is_named(
    service: FlowService,
) -> None:
    case = service.case(
        main=[*logs_agent(), "Restart the database."], spare=pods_agent(), summarist=[Reply(status=400, error="away")]
    )
    story = await service.investigate(case, alert_type="then", status="completed")
    look, close = story.session["stages"]
    assert look["analysis"].startswith("Most likely cause: The database db-1 refuses connections of api-0.")
    assert "Disagreement: pods names another cause: The image of api-0 is broken." in look["analysis"]
    assert "No model could compare" in look["reason"] and close["status"] == "completed"
    ranking = look["executions"][2]
    assert ranking["verdict"]["confidence"] == "medium" and ranking["verdict"]["against"][0]["quote"] == CRASHES
    assert "What the stage 'look' found" in case.prompt(-2) and "Disagreement" in case.prompt(-2)

    # A synthesis knows what earlier stages found, too.
    synthesis = ["Both mean the database.", stated("db-1 refuses connections.", REFUSED)]
    case = service.case(main=["Tuesday's release.", *logs_agent()], spare=pods_agent(), summarist=synthesis)
    await service.investigate(case, alert_type="first")
    told = case.prompt(0, "summarist")
    assert "What the stage 'before' found" in told and "Tuesday's release." in told
    assert told.index("Tuesday's release.") < told.index("What the agent 'logs' found")


async def test_replicas_are_numbered_and_budgets_cut_off_and_say_so(service: FlowService) -> None:
    def answer(body: Body) -> Reply:
        return Reply("Both see the same.") if "Compare these results" in said(body) else Reply("The disk is full.")

    story = await service.investigate(service.case(main=answer), alert_type="twice")
    names = [one["agent"] for one in story.session["stages"][0]["executions"]]
    assert names == ["logs #1", "logs #2", "synthesis"] and story.session["analysis"] == "Both see the same."

    story = await service.investigate(service.case(main=["The disk is full."]), alert_type="late")
    assert story.session["analysis"] == "The disk is full."
    assert "1 of 2 agents failed: late: The time of the agent late, 0.001 s, is used up." in story.session["reason"]


async def test_a_budget_of_tokens_is_not_exceeded_and_says_what_it_cut_off(service: FlowService) -> None:
    """A model that never stops of its own accord, alone and three at once."""

    def endless(body: Body) -> Reply:
        if "Compare these results" in said(body) or "is used up" in said(body):
            return Reply("So far, api-0 crashes.")
        return calls("ops__logs", namespace=f"prod-{len(case.requests())}")

    for alert_type, owner, most in (("poor", "agent poor", POOR), ("shared", "stage look", SHARED)):
        case = service.case(main=endless)
        story = await service.investigate(case, alert_type=alert_type)
        usage = story.session["usage"]
        assert most / 2 < usage["input_tokens"] + usage["output_tokens"] <= most
        assert all(one["max_tokens"] <= most for one in case.requests())
        used_up = f"The budget of the {owner}, {most:,} tokens, is used up: "
        executions = story.session["stages"][0]["executions"]
        assert used_up in story.session["reason"] and used_up in executions[0]["reason"]
        assert used_up in story.shown("notice")[0]["content"] and used_up in executions[0]["analysis"]
        assert executions[0]["analysis"].startswith("So far, api-0 crashes.\n\nThe investigation was cut off. ")
        assert story.session["verdict"]["cause"]

    story = await service.investigate(service.case(), "failed", alert_type="broke")
    too_small = "The budget of the agent broke, 150 tokens, is used up: 0 are spent, 75 are reserved for conclusions"
    assert too_small in story.session["reason"] and story.session["usage"]["model_calls"] == 0

    story = await service.investigate(service.case(main=["Too early to say. " + "word " * 2_900]), alert_type="cut")
    assert [one["status"] for one in story.session["stages"]] == ["completed", "cancelled"]
    assert "1 stage of the investigation was not begun." in story.session["reason"]
    assert "1 stage of the investigation was not begun." in story.session["analysis"]
    assert story.session["verdict"]["cause"] == "Too early to say."


async def test_an_agent_hands_tasks_to_others_and_gets_their_results_as_observations(service: FlowService) -> None:
    def ask(agent: str, task: str) -> Reply:
        return calls("ask_agent", agent=agent, task=task)

    boss = [ask("helper", "Look at the pods."), ask("helpr", "Look."), ask("helper", "Again."), ask("helper", "More.")]
    verdict = stated("The image of api-0 is broken.", CRASHES)
    case = service.case(
        main=[*boss, "It is the image.", verdict], spare=[*pods_agent(), Reply(status=400, error="no such model")]
    )
    story = await service.investigate(case, alert_type="asked")
    own, *others = story.session["stages"][0]["executions"]
    assert [(one["kind"], one["agent"], one["task"], one["status"]) for one in others] == [
        ("sub_agent", "helper", "Look at the pods.", "completed"),
        ("sub_agent", "helper", "Again.", "failed"),
    ]
    assert {one["parent_id"] for one in others} == {own["id"]} and own["kind"] == "agent"
    assert "- helper: Knows pods." in case.prompt(0) and "Look at the pods." in case.prompt(0, "spare")
    told = case.prompt(-1)
    for text in ("The pod api-0 crashes.", CRASHES, "no agent 'helpr'", "no such model", "All 2 tasks"):
        assert text in told
    # What another agent quoted can be quoted.
    assert story.session["verdict"]["evidence"][0]["quote"] == CRASHES and not story.session["verdict"]["unverified"]
    shown = [one for one in story.shown("llm_tool_call") if one["execution_id"] == own["id"]]
    assert [one["metadata"]["is_error"] for one in shown] == [False, True, True, True]
    assert story.session["usage"]["model_calls"] == 10
