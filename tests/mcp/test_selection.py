"""Filters and names: who may be called, and how."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tersely.mcp.raw import Tool, read_tool
from tersely.mcp.selection import is_selected, names_for_models, why_forbidden, why_unusable
from tersely.mcp.servers import ServerOptions, TransportOptions


def tool(name: str, server: str = "s", schema: dict[str, Any] | None = None, **hints: bool) -> Tool:
    return read_tool(server, {"name": name, "inputSchema": schema or {"type": "object"}, "annotations": hints})


def with_header(argument: str, header: str) -> dict[str, Any]:
    return {"type": "object", "properties": {argument: {"type": "string", "x-mcp-header": header}}}


def options(**given: Any) -> ServerOptions:
    return ServerOptions(transport=TransportOptions(command="x"), **given)


@pytest.mark.parametrize(
    ("filter", "selected"),
    [
        ({}, {"get_pods", "get_logs", "delete_pod"}),
        ({"allow": ["get_*"]}, {"get_pods", "get_logs"}),
        ({"deny": "delete_*"}, {"get_pods", "get_logs"}),
        ({"allow": ["get_*", "delete_pod"], "deny": ["get_logs"]}, {"get_pods", "delete_pod"}),
        ({"allow": []}, set()),
        (["get_pods"], {"get_pods"}),
    ],
)
def test_a_filter_selects_by_pattern_and_denying_wins(filter: Any, selected: set[str]) -> None:
    given = options(tools=filter)
    assert {name for name in ("get_pods", "get_logs", "delete_pod") if is_selected(name, given)} == selected


def test_destructive_tools_need_permission_and_read_only_servers_want_a_declaration() -> None:
    reads, deletes, silent = tool("reads", readOnlyHint=True), tool("deletes", destructiveHint=True), tool("silent")

    def refused(**given: Any) -> list[str]:
        return [each.name for each in (reads, deletes, silent) if why_forbidden(each, options(**given))]

    assert refused() == ["deletes"]
    assert refused(read_only=True) == ["deletes", "silent"]
    assert refused(allow_destructive=True) == []
    assert refused(allow_destructive=["del*"], read_only=True) == ["silent"]
    assert "allow_destructive" in str(why_forbidden(deletes, options()))


def test_a_tool_that_claims_to_be_both_read_only_and_destructive_counts_as_read_only() -> None:
    """The protocol says that the second hint means nothing beside the first."""
    assert why_forbidden(tool("x", readOnlyHint=True, destructiveHint=True), options()) is None


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (tool("pods_l\u0456st"), "not plain ASCII"),
        (tool("a" * 129), "longer than 128"),
        (tool("a\nb"), "control characters"),
        (
            tool("x", schema={"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "A\r\nX: 1"}}}),
            "invalid header",
        ),
        (
            tool("x", schema={"type": "object", "properties": {"api_key": {"type": "string", "x-mcp-header": "K"}}}),
            "'api_key' to be sent in a header",
        ),
    ],
)
def test_deceiving_definitions_are_refused_by_name(bad: Tool, why: str) -> None:
    assert why in str(why_unusable(bad))


def test_ordinary_definitions_are_fine() -> None:
    for fine in (
        tool("get_pods"),
        tool("a.b-c"),
        tool("files/read it"),
        tool("x", schema=with_header("region", "Region")),
    ):
        assert why_unusable(fine) is None


def test_names_show_the_server_and_odd_or_long_ones_get_an_ending_that_stays() -> None:
    tools = [tool("get"), tool("files/read"), tool("a.b"), tool("x" * 100), tool("get", "k8s")]

    names = list(names_for_models(tools))

    assert names[0] == "s__get" and names[4] == "k8s__get"
    assert names[1].startswith("s__files_read_") and names[2].startswith("s__a_b_")
    assert len(names[3]) == 64
    assert list(names_for_models(tools[2:3])) == [names[2]], "whatever else there is"


def test_two_tools_of_one_name_both_get_an_ending() -> None:
    first, second = tool("b__c", "a"), tool("c", "a__b")

    names = names_for_models([first, second])

    assert len(names) == 2
    assert names_for_models([second, first]) == names, "in whatever order they come"
    assert all(name.startswith("a__b__c_") for name in names)


def test_a_single_server_may_keep_its_names() -> None:
    assert list(names_for_models([tool("a.b"), tool("get")], keep=True)) == ["a.b", "get"]


def test_a_single_servers_name_that_no_model_can_be_given_is_changed_all_the_same() -> None:
    """One of them would make providers refuse the whole request."""
    names = list(names_for_models([tool("x" * 100), tool("get pods; now"), tool("fine")], keep=True))
    assert (
        all(re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name) for name in names)
        and names[2] == "fine"
        and len(set(names)) == 3
    )


SERVERS = st.sampled_from(["a", "a__b", "b.c", "k 8"])
NAMES = st.text("ab_./x", min_size=1, max_size=90)


@given(st.lists(st.tuples(SERVERS, NAMES), unique=True, max_size=12))
def test_every_tool_has_one_name_that_every_provider_takes(pairs: list[tuple[str, str]]) -> None:
    tools = [tool(name, server) for server, name in pairs]

    names = names_for_models(tools)

    assert list(names.values()) == tools
    assert all(
        (len(name) <= 64 and name.replace("_", "").replace("-", "").isalnum()) or set(name) <= set("_-")
        for name in names
    )
