"""How far an alert's override may reach: any configured server, only those of its chain, or none."""

from typing import Any

import pytest

from tersely.agent.options import AgentOptions
from tersely.llm.providers import ProviderOptions
from tersely.sessions.chains import ChainOptions, Defaults
from tersely.sessions.overrides import AcceptedOverride, Override, additions
from tersely.sessions.plan import InvestigationPlan


def plan(*, agent: dict[str, Any], provider: dict[str, Any]) -> InvestigationPlan:
    options = {"type": "openai", "model": "gpt-5", "native_tools": provider}
    return InvestigationPlan(
        agents={
            "first": AgentOptions.model_validate({"mcp_servers": ["lab", "logs"], "native_tools": agent}),
            "second": AgentOptions.model_validate({"mcp_servers": ["logs", "tickets"], "native_tools": agent}),
        },
        chains={
            "main": ChainOptions.model_validate(
                {
                    "alert_types": ["any"],
                    "stages": [{"name": "look", "agent": "first"}, {"name": "check", "agent": "second"}],
                }
            )
        },
        providers={"default": ProviderOptions.model_validate(options)},
        defaults=Defaults(llm_provider="default"),
    )


def accepted(narrows: bool, **fields: Any) -> AcceptedOverride:
    return AcceptedOverride.model_validate({**fields, "narrows": narrows})


def test_a_narrowing_override_leaves_each_agent_among_its_own_servers() -> None:
    there = plan(agent={}, provider={})
    servers = [{"name": "logs", "tools": ["search"]}, {"name": "tickets"}]
    narrowed = there.parts("main", accepted(True, servers=servers))
    assert [part.servers for part in narrowed] == [("logs",), ("logs", "tickets")]
    replaced = there.parts("main", accepted(False, servers=servers))
    assert [part.servers for part in replaced] == [("logs", "tickets")] * 2
    assert all(part.tools == {"logs": ("search",)} for part in (*narrowed, *replaced))


@pytest.mark.parametrize("narrows", [False, True])
@pytest.mark.parametrize(("agent", "provider"), [(False, None), (None, False), (False, True)])
def test_a_native_tool_that_is_turned_off_stays_off(narrows: bool, agent: bool | None, provider: bool | None) -> None:
    there = plan(agent={"url_context": agent}, provider={"url_context": provider})
    for part in there.parts("main", accepted(narrows, native_tools={"url_context": True})):
        assert not part.native_tools.over(there.providers["default"].native_tools).url_context


def test_an_unset_native_tool_is_turned_on_unless_the_override_only_narrows() -> None:
    there = plan(agent={}, provider={})
    wanted = {"native_tools": {"google_search": True, "code_execution": False}}
    for narrows in (False, True):
        part = there.parts("main", accepted(narrows, **wanted))[0]
        assert bool(part.native_tools.google_search) is not narrows
        assert part.native_tools.code_execution is False


def test_what_goes_beyond_the_chain_is_named() -> None:
    there = plan(agent={"google_search": True}, provider={})
    override = Override.model_validate(
        {
            "servers": [{"name": "lab"}, {"name": "billing"}],
            "native_tools": {"google_search": True, "url_context": True, "code_execution": False},
        }
    )
    found = additions(override, {"lab", "logs"}, there.native_tools_of("main"), chain="main")
    assert [problem.field for problem in found] == ["mcp.servers.1.name", "mcp.native_tools.url_context"]
    assert "'billing'" in found[0].message and "'main'" in found[0].message
