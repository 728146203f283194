"""What may be said about a server, and what may not."""

from typing import Any

import pytest
from pydantic import ValidationError

from tersely.mcp.servers import ServerOptions, TransportOptions


def complaint(**given: Any) -> str:
    with pytest.raises(ValidationError) as wrong:
        ServerOptions.model_validate({"transport": {"command": "x"}, **given})
    return str(wrong.value)


def test_everything_has_a_default_but_the_way_to_the_server() -> None:
    options = ServerOptions(transport=TransportOptions(command="x"))

    assert options.summarization.enabled and options.data_masking.enabled
    assert (options.summarization.size_threshold_tokens, options.summarization.summary_max_token_limit) == (5000, 1000)
    assert (options.timeout, options.max_result_bytes, options.read_only, options.allow_destructive) == (
        60,
        32 * 2**20,
        False,
        False,
    )


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"command": "npx"}, "stdio"),
        ({"url": "https://x.test/mcp"}, "http"),
        ({"type": "sse", "url": "https://x.test/sse"}, "sse"),
        ({"type": "streamable-http", "url": "https://x.test/mcp"}, "http"),
        ({"type": "streamableHttp", "url": "https://x.test/mcp"}, "http"),
    ],
)
def test_the_transport_follows_from_what_is_given(given: dict[str, Any], kind: str) -> None:
    assert TransportOptions.model_validate(given).kind == kind


@pytest.mark.parametrize(
    ("transport", "message"),
    [
        ({}, "needs a command (stdio) or a url"),
        ({"command": "x", "url": "http://x/mcp"}, "has both a command and a url"),
        ({"type": "http", "command": "x"}, "type http needs a url"),
        ({"type": "stdio", "url": "http://x/mcp"}, "type stdio needs a command"),
        ({"command": "x", "bearer_token": "t"}, "bearer_token has no effect for a server with a command"),
        ({"url": "http://x/mcp", "env": {"A": "b"}}, "env has no effect for a server with a url"),
        ({"url": "file:///etc/passwd"}, "must be a URL such as"),
        ({"url": "http://x/mcp", "headers": {"X-A": "b\r\nX-C: d"}}, "the value of X-A contains a line break"),
        ({"url": "http://x/mcp", "headers": {"X A": "b"}}, "'X A' is not a valid header name"),
    ],
)
def test_a_way_that_leads_nowhere_is_explained(transport: dict[str, Any], message: str) -> None:
    assert message in complaint(transport=transport)


def test_bounds_hold_and_a_summary_must_be_smaller_than_what_it_stands_for() -> None:
    assert "greater than or equal to 100" in complaint(summarization={"size_threshold_tokens": 99})
    assert "greater than or equal to 50" in complaint(summarization={"summary_max_token_limit": 49})
    assert "summary_max_token_limit (5000) must be smaller" in complaint(
        summarization={"summary_max_token_limit": 5000}
    )
    assert "Extra inputs are not permitted" in complaint(sumarization={})


def test_a_bad_masking_pattern_or_group_is_named() -> None:
    assert "Masking pattern 'mine' is not a valid re2 expression" in complaint(
        data_masking={"custom_patterns": {"mine": "("}}
    )
    assert "Masking group 'nope' does not exist" in complaint(data_masking={"groups": ["nope"]})


def test_patterns_may_be_a_list_with_names() -> None:
    given = {"custom_patterns": [{"name": "mine", "pattern": "abc-([0-9]+)"}], "pattern_groups": []}

    options = ServerOptions.model_validate({"transport": {"command": "x"}, "data_masking": given})

    assert options.data_masking.groups == ()
    assert "abc-[MASKED:mine:" in options.data_masking.masker().mask("abc-123 password=still-here-4711")


def test_numbers_and_truth_values_reach_a_program_as_text() -> None:
    transport = TransportOptions.model_validate(
        {"command": "x", "args": ["--port", 8080], "env": {"PORT": 8080, "DEBUG": True}}
    )

    assert transport.args == ("--port", "8080")
    assert {name: value.get_secret_value() for name, value in transport.env.items()} == {
        "PORT": "8080",
        "DEBUG": "true",
    }


def test_secrets_do_not_show_in_what_is_printed() -> None:
    given = {"url": "http://x/mcp", "bearer_token": "hunter2-a", "headers": {"X-Key": "hunter2-b"}}

    options = ServerOptions.model_validate({"transport": given})

    assert "hunter2" not in repr(options) + options.model_dump_json()
    assert "hunter2" not in complaint(transport={"url": "hunter2", "bearer_token": ["hunter2"]})


def test_a_tool_may_have_a_policy_of_its_own_and_the_last_that_fits_counts() -> None:
    options = ServerOptions.model_validate(
        {
            "transport": {"command": "x"},
            "summarization": {"size_threshold_tokens": 4000},
            "tool_policies": {
                "get_*": {"summarization": {"size_threshold_tokens": 500, "summary_max_token_limit": 200}},
                "get_file": {"summarization": {"enabled": False}, "data_masking": {"enabled": False}},
            },
        }
    )
    condensing, masking = options.policy("get_logs")
    assert (condensing.size_threshold_tokens, condensing.summary_max_token_limit, masking.enabled) == (500, 200, True)
    condensing, masking = options.policy("get_file")
    assert (condensing.enabled, condensing.size_threshold_tokens, masking.enabled) == (False, 4000, False)
    assert options.policy("other")[0].size_threshold_tokens == 4000


def test_a_tools_policy_that_would_make_results_longer_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"tool_policies\.get: summary_max_token_limit \(1000\) must be smaller"):
        ServerOptions.model_validate(
            {"transport": {"command": "x"}, "tool_policies": {"get": {"summarization": {"size_threshold_tokens": 500}}}}
        )
