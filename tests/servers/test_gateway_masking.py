"""Secrets and hidden text behind the gateway."""

from typing import Annotated, Any

import pytest
from fastmcp import Client
from pydantic import Field

from tests.fakes.gateways import ERAS, Library, at, gateway, text_of
from tests.fakes.mcp_servers.web import Honest, Rude
from tests.servers.chatty import SECRET


@pytest.mark.parametrize("era", ERAS)
async def test_secrets_and_deceptions_are_taken_out_of_everything(era: Any) -> None:
    secret = {"type": "text", "text": f"{SECRET} \x1b[31mred\u202e"}
    answer = {
        "content": [secret, {"type": "resource", "resource": {"uri": "x://y", "text": SECRET}}],
        "structuredContent": {"password": "hunter2-is-secret", "n": 1},
        "_meta": {"own/note": SECRET},
    }
    async with (
        Rude(lambda message, request: answer).listening() as url,
        gateway(at(url)) as ours,
        Client(ours.url, mode=era) as client,
    ):
        result = await client.call_tool_mcp("call", {})
    said = result.model_dump_json()
    assert "hunter2" not in said and said.count("[MASKED:password:") == 4
    assert text_of(result).endswith(" red") and (result.structured_content or {})["n"] == 1


class Careless(Library):
    """A server whose words for its readers hold a password."""

    def __init__(self) -> None:
        super().__init__()

        @self.server.tool(description=f"Log in with {SECRET}.")
        def login(
            user: Annotated[str, Field(description=f"For tests: {SECRET}", examples=["description"])], title: str = "Dr"
        ) -> str:
            return user

        @self.server.prompt(description=f"Use {SECRET}")
        def confess() -> str:
            return "?"

        @self.server.resource("library://key", description=f"It is {SECRET}")
        def key() -> str:
            return "-"


@pytest.mark.parametrize("several", [False, True])
async def test_what_a_server_says_of_its_tools_prompts_and_resources_is_masked_and_the_rest_stays(
    several: bool,
) -> None:
    async with Careless().listening() as url, Honest().listening() as other:
        servers = [at(url, "one"), at(other, "two")] if several else [at(url)]
        async with gateway(*servers) as ours, Client(ours.url) as client:
            tools, prompts, resources = (
                await client.list_tools(),
                await client.list_prompts(),
                await client.list_resources(),
            )
            login = next(tool for tool in tools if tool.name.endswith("login"))
            listed = [
                login,
                *(one for one in prompts if "confess" in one.name),
                *(one for one in resources if "key" in str(one.uri)),
            ]
    said = [one.model_dump_json() for one in listed]
    assert len(said) == 3 and "hunter2" not in str(said) and str(said).count("[MASKED:password:") == 4
    properties = login.input_schema["properties"]
    assert properties["user"]["examples"] == ["description"] and properties["title"]["default"] == "Dr"


async def test_masking_can_be_turned_off_for_a_tool() -> None:
    policy = {"echo": {"data_masking": {"enabled": False}}}
    async with Honest().listening() as url, gateway(at(url, tool_policies=policy)) as ours, Client(ours.url) as client:
        assert text_of(await client.call_tool_mcp("echo", {"text": SECRET})) == SECRET


async def test_what_cannot_be_masked_goes_nowhere(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no idea")

    async with Honest().listening() as url, gateway(at(url)) as ours, Client(ours.url) as client:
        monkeypatch.setattr("tersely.masking.mask.find_secrets", broken)
        result = await client.call_tool_mcp("echo", {"text": "CANARY"})
    assert result.is_error and "could not be checked for secrets" in text_of(result)
    assert "CANARY" not in result.model_dump_json() and "CANARY" not in caplog.text
