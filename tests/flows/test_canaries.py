"""Twenty secrets through every entry point; then every place that could hold one is searched."""

import io
import json
import logging
import random
import string
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastmcp import Client, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.tools import ToolResult

from tersely.app.summarizer import Summarizer, kept_results, summarizer_app
from tersely.llm.messages import Message, ToolCall
from tersely.logging_setup import JsonFormatter
from tersely.masking.masked import Masked, assume_masked
from tersely.mcp.registry import registered
from tersely.mcp.servers import Server, ServerOptions
from tersely.pipeline.process import Intent, Scope
from tersely.servers.http_app import build_fastmcp_app
from tersely.servers.summarizer import build_summarizer_server
from tersely.settings.model import Settings
from tests.condensing.test_summarize import pages
from tests.fakes.asking import model_at
from tests.fakes.executing import execute, read_back, tool_executor
from tests.fakes.llm_server import FakeLLMServer, serving

ME = Scope("user:canary", key=b"k" * 32)


def canaries() -> dict[str, str]:
    """A text for each secret, and the secret in it. Drawn, so that none of them can be known to a masker."""
    draw = random.Random(20_261_115)

    def chars(count: int, alphabet: str = string.ascii_letters + string.digits) -> str:
        return "".join(draw.choice(alphabet) for _ in range(count))

    def upper(count: int) -> str:
        return chars(count, string.ascii_uppercase + string.digits)

    hexes = "0123456789abcdef"
    forms = [
        ("ghp_{}", chars(36)),
        ("export AWS_SECRET_ACCESS_KEY={}", chars(40)),
        ("aws_access_key_id = AKIA{}", upper(16)),
        ("xoxb-{}", f"{chars(12, string.digits)}-{chars(12, string.digits)}-{chars(24)}"),
        ("sk_live_{}", chars(24)),
        ("glpat-{}", chars(20)),
        ("AIza{}", chars(35)),
        ("Authorization: Bearer {}", chars(40)),
        ("postgresql://app:{}@db.internal:5432/shop", chars(18)),
        ("password={}", chars(16)),
        ('{{"clientSecret": "{}"}}', chars(32)),
        ("DB_PASSWORD: {}", chars(20)),
        ("--api-key {}", chars(32)),
        ("npm_{}", chars(36)),
        ("SG.{}", f"{chars(22)}.{chars(43)}"),
        ("eyJhbGciOiJIUzI1NiJ9.{}", f"{chars(40)}.{chars(43)}"),
        ("token: {}", chars(40, hexes)),
        ("redis://:{}@cache:6379/0", chars(20)),
        ("mysql -u root -p{} shop", chars(14)),
        ("Set-Cookie: session={}; HttpOnly", chars(40)),
    ]
    return {form.format(secret): secret for form, secret in forms}


CANARIES = canaries()
LOUD = "\n".join(CANARIES)
LONG = LOUD + "\n\n" + pages(60) + "\n\n" + LOUD


def leaks(where: str, text: str) -> list[str]:
    """Which secrets, or halves of them, a text contains."""
    return [
        f"{where}: {secret}"
        for secret in CANARIES.values()
        if secret[: len(secret) // 2] in text or secret[len(secret) // 2 :] in text
    ]


def loud_server() -> FastMCP:
    """Tools that return the secrets of others."""
    server: FastMCP = FastMCP("loud")

    @server.tool
    def small() -> str:
        return LOUD

    @server.tool
    def large() -> str:
        return LONG

    @server.tool(output_schema=None)
    def structured() -> ToolResult:
        return ToolResult(content="see the structure", structured_content={"notes": list(CANARIES)})

    @server.tool
    def failing() -> str:
        raise ToolError(LOUD)

    @server.tool
    def echo(text: str) -> str:
        return text

    return server


@pytest.fixture
def journal() -> Iterator[io.StringIO]:
    """All log records, at every level, as the process would write them."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(JsonFormatter("canary"))
    ours = logging.getLogger("tersely")
    before = ours.level
    ours.addHandler(handler)
    ours.setLevel(logging.DEBUG)
    yield out
    ours.removeHandler(handler)
    ours.setLevel(before)


def test_the_canaries_would_be_noticed() -> None:
    assert len(CANARIES) == 20 and len(leaks("here", LOUD)) == 20


async def test_twenty_secrets_through_every_entry_point_leave_no_trace(tmp_path: Path, journal: io.StringIO) -> None:
    found: list[str] = []
    settings = Settings.load({"TERSELY_DATA_DIR": str(tmp_path)})
    policy = {"size_threshold_tokens": 2000, "summary_max_token_limit": 500}
    upstream = loud_server().http_app(path="/mcp", stateless_http=True)
    # A model that repeats its prompt: what it received is what the test looks at.
    obedient = FakeLLMServer(lambda body: str(body["messages"][-1]["content"])[-1500:])
    async with (
        obedient.listening() as llm_server,
        model_at(llm_server.url) as llm,
        serving(upstream, lifespan="on") as address,
    ):
        options = ServerOptions.model_validate({"transport": {"url": f"{address}/mcp"}, "summarization": policy})
        async with (
            kept_results(settings) as results,
            registered([Server(name="loud", options=options)], wait=300) as registry,
        ):
            executor = tool_executor(registry, results)
            said: list[Message] = []
            for number, (tool, arguments) in enumerate(
                [
                    ("small", {}),
                    ("large", {}),
                    ("structured", {}),
                    ("failing", {}),
                    ("echo", {"text": LOUD}),
                    ("nothing", {"password": LOUD}),
                ]
            ):
                call = ToolCall(f"c{number}", f"loud__{tool}", json.dumps(arguments))
                observation = await execute(executor, call, scope=ME, llm=llm, intent=Intent(conversation=said))
                said.append(Message("tool", assume_masked(observation.text), answers=call))
                found += leaks(f"observation of {tool}", repr(observation))
            for kept in await results.list(ME.name):
                found += leaks("arguments of a kept result", str(kept.origin.arguments))
                if kept.is_text:
                    found += leaks(f"kept result of {kept.origin}", await results.load(kept.handle, ME.name))
            whole = read_back(results, key=ME.key)
            for kept in await results.list(ME.name):
                if kept.is_text:
                    found += leaks(
                        "read_result", str(await whole.call("read_result", {"handle": kept.handle}, ME.name))
                    )
                    found += leaks(
                        "search_result",
                        str(await whole.call("search_result", {"handle": kept.handle, "pattern": "."}, ME.name)),
                    )
        async with summarizer_app(settings) as parts:
            service = Summarizer(settings, llm, parts.summarizer.pipeline, parts.summarizer.masker)
            app = build_fastmcp_app(build_summarizer_server(service), allowed_hosts=(), max_body_bytes=2**24)
            async with serving(app, lifespan="on") as door, Client(f"{door}/mcp") as client:
                for tool, more in (
                    ("summarize", {"focus_areas": LOUD}),
                    ("summarize_for_extraction", {"schema_hint": LOUD}),
                ):
                    result = await client.call_tool_mcp(tool, {"content": LONG, "max_output_tokens": 500, **more})
                    found += leaks(f"answer of {tool}", result.model_dump_json())
    for number, request in enumerate(llm_server.requests):
        found += leaks(f"model request {number}", json.dumps(request))
    found += leaks("log", journal.getvalue())
    for path in tmp_path.rglob("*"):
        if path.is_file():
            found += leaks(path.name, path.read_bytes().decode("latin-1"))
    assert llm_server.requests and journal.getvalue(), "the doors were used"
    assert found == []


def test_what_is_masked_is_still_the_type_that_says_so() -> None:
    from tersely import mask

    masked: Masked = mask(LOUD)
    assert leaks("mask", masked) == []
